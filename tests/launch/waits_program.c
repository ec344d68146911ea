/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits_program.c FOLDER STORY - jobs whose ranks are late by known times, in virtual time, and
 * their traces.
 *
 * All ranks are endpoints of this process.  A round of the schedule takes STEP of virtual time:
 * a rank that computes does nothing in it, a rank that waits makes progress.  So the traces
 * show to one STEP which rank waited for which.
 */
#include <matchbox/matchbox.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define STEP      (10 * CLOCK_US)
#define RANKS_MAX 8
#define OPS_MAX   512
#define LONG      ((size_t)1 << 20)
#define BARRIER   0xfffffff0u /* Open MPI's tag of a barrier */

enum kind { COMPUTE, SEND, RECV, BOTH }; /* BOTH: a step of a barrier */

struct op {
    enum kind kind;
    uint32_t to, from;
    uint64_t tag, ns;
    size_t size;
};

struct rank {
    struct mbx_ep *ep;
    struct op ops[OPS_MAX];
    int count, at;
    bool is_begun;
    uint64_t until;
    mbx_request requests[2];
    int open;
};

static struct rank ranks[RANKS_MAX];
static uint32_t rank_count;
static uint64_t now_ns = CLOCK_S;
static char buffer[RANKS_MAX][LONG];

static uint64_t virtual_now(void)
{
    return now_ns;
}

static void check(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "waits_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

/* ---- operations of the ranks ---- */

static void add(uint32_t rank, struct op op)
{
    if (ranks[rank].count == OPS_MAX)
        abort();
    ranks[rank].ops[ranks[rank].count++] = op;
}

static void compute(uint32_t rank, uint64_t ns)
{
    add(rank, (struct op){.kind = COMPUTE, .ns = ns});
}

static void message(uint32_t from, uint32_t to, uint64_t tag, size_t size)
{
    add(from, (struct op){.kind = SEND, .to = to, .tag = tag, .size = size});
    add(to, (struct op){.kind = RECV, .from = from, .tag = tag, .size = size});
}

/* A dissemination barrier: in round k every rank hears from 2^k more. */
static void barrier(void)
{
    for (uint32_t rank = 0; rank < rank_count; rank++)
        for (uint32_t by = 1; by < rank_count; by *= 2)
            add(rank, (struct op){.kind = BOTH,
                                  .to = (rank + by) % rank_count,
                                  .from = (rank + rank_count - by) % rank_count,
                                  .tag = BARRIER});
}

static void tell(const char *story)
{
    rank_count = strcmp(story, "sender") == 0 || strcmp(story, "receiver") == 0 ? 2 : 4;
    for (int i = 0; i < 20; i++) {
        if (strcmp(story, "sender") == 0) {
            compute(1, 20 * CLOCK_MS);
            message(1, 0, 7, 8);
        } else if (strcmp(story, "receiver") == 0) {
            compute(0, 30 * CLOCK_MS);
            message(1, 0, 8, LONG);
        } else if (strcmp(story, "barrier") == 0) {
            compute(3, 10 * CLOCK_MS);
            barrier();
        } else { /* balanced */
            for (uint32_t rank = 0; rank < rank_count; rank++)
                compute(rank, 10 * CLOCK_MS);
            barrier();
        }
    }
}

/* ---- time ---- */

static void begin(uint32_t who, const struct op *op)
{
    struct rank *rank = &ranks[who];

    rank->is_begun = true;
    rank->open = 0;
    if (op->kind == COMPUTE)
        rank->until = now_ns + op->ns;
    if (op->kind == RECV || op->kind == BOTH)
        check(mbx_recv(rank->ep, op->from, 0, op->tag, 0, buffer[who], op->size, NULL,
                       &rank->requests[rank->open++]),
              "mbx_recv");
    if (op->kind == SEND || op->kind == BOTH)
        check(mbx_send(rank->ep, op->to, 0, op->tag, buffer[who], op->size, NULL,
                       &rank->requests[rank->open++]),
              "mbx_send");
}

static bool is_over(struct rank *rank, const struct op *op)
{
    if (op->kind == COMPUTE)
        return now_ns >= rank->until;
    for (int i = 0; i < rank->open; i++) {
        struct mbx_completion completion;
        int done = mbx_test(rank->ep, rank->requests[i], &completion);

        check(done, "mbx_test");
        if (done != 1)
            continue;
        check(completion.error, "a message");
        rank->requests[i--] = rank->requests[--rank->open];
    }
    return rank->open == 0;
}

static void run_one(uint32_t who)
{
    struct rank *rank = &ranks[who];

    while (rank->at < rank->count) {
        const struct op *op = &rank->ops[rank->at];

        if (!rank->is_begun)
            begin(who, op);
        if (op->kind != COMPUTE)
            mbx_progress(rank->ep);
        if (!is_over(rank, op))
            return;
        rank->is_begun = false;
        rank->at++;
    }
    mbx_progress(rank->ep);
}

static bool is_done(void)
{
    for (uint32_t i = 0; i < rank_count; i++)
        if (ranks[i].at < ranks[i].count)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    char trace[4096];
    const char *const params[] = {trace, "TRANSPORT=loop", "RNDV=read", NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_address addresses[RANKS_MAX];

    if (argc != 3) {
        fprintf(stderr, "usage: waits_program FOLDER sender|receiver|barrier|balanced\n");
        return 2;
    }
    snprintf(trace, sizeof trace, "TRACE=%s", argv[1]);
    tell(argv[2]);
    clock_set(virtual_now);
    for (uint32_t i = 0; i < rank_count; i++) {
        check(mbx_open(&config, &ranks[i].ep), "mbx_open");
        check(mbx_name_program(ranks[i].ep, "component Open MPI v4.1.4, virtual"),
              "mbx_name_program");
        check(mbx_address_get(ranks[i].ep, &addresses[i]), "mbx_address_get");
    }
    for (uint32_t i = 0; i < rank_count; i++) {
        for (uint32_t j = 0; j < rank_count; j++) {
            uint32_t number;

            check(mbx_peer_add(ranks[i].ep, &addresses[j], &number), "mbx_peer_add");
            check(number == j ? mbx_name_peer(ranks[i].ep, j, 0, j) : -1, "mbx_name_peer");
        }
    }
    while (!is_done()) {
        now_ns += STEP;
        for (uint32_t i = 0; i < rank_count; i++)
            run_one(i);
    }
    for (uint32_t i = 0; i < rank_count; i++)
        check(mbx_close(ranks[i].ep), "mbx_close");
    return 0;
}
