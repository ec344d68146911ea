/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * churn_program.c - a job whose queues change all the time, for torn_test.py.
 *
 * usage: churn_program SEED
 *
 * Each rank sends to any rank, posts and cancels receives with and without wildcards, and takes
 * messages by matched probes, in random order, until it is killed.  An observer can check every
 * envelope: a tag is code(context id, kind of message), and the kind determines the size
 * (torn_test.py: KNOWN).  Between its operations a rank makes progress, or computes for a
 * moment without.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <matchbox/matchbox.h>

#include "base/random.h"

#define CONTEXTS 3 /* 1 and so on */
#define KINDS    4
#define POSTED   40 /* receives that wait at the same time */
#define SENDS    30 /* sends that are incomplete at the same time */
#define PROBED   4
#define ANY_TAG  UINT64_MAX
#define LONGEST  100000

static const size_t sizes[KINDS] = {8, 300, 9000, LONGEST};

struct churn {
    struct mbx_ep *ep;
    struct random random;
    uint32_t ranks;
    mbx_request posted[POSTED];
    uint32_t posted_count, sends;
    mbx_message probed[PROBED];
    uint32_t probed_count;
};

static char from[LONGEST], into[LONGEST];

static void check(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "churn_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static uint32_t below(struct churn *churn, uint32_t bound)
{
    return (uint32_t)random_below(&churn->random, bound);
}

static uint64_t code(uint32_t context, uint32_t kind)
{
    return ((uint64_t)context * 0x9e3779b1u + (uint64_t)kind * 0x85ebca77u) << 8 | kind;
}

static void transfer(struct churn *churn)
{
    uint32_t context = 1 + below(churn, CONTEXTS), kind = below(churn, KINDS);
    uint32_t to = below(churn, churn->ranks);
    mbx_request request;

    if (churn->sends == SENDS)
        return;
    check((below(churn, 8) == 0 ? mbx_ssend : mbx_send)(
              churn->ep, to, context, code(context, kind), from, sizes[kind], NULL, &request),
          "a send begins");
    churn->sends++;
}

static void post(struct churn *churn)
{
    uint32_t context = 1 + below(churn, CONTEXTS), kind = below(churn, KINDS);
    uint32_t source = below(churn, 3) == 0 ? MBX_ANY_SOURCE : below(churn, churn->ranks);

    if (churn->posted_count == POSTED)
        return;
    check(mbx_recv(churn->ep, source, context, code(context, kind),
                   below(churn, 3) == 0 ? ANY_TAG : 0, into, sizes[kind], NULL,
                   &churn->posted[churn->posted_count]),
          "mbx_recv");
    churn->posted_count++;
}

/* The receive may already have matched. */
static void cancel(struct churn *churn)
{
    if (churn->posted_count != 0)
        mbx_cancel(churn->ep, churn->posted[below(churn, churn->posted_count)]);
}

static void probe(struct churn *churn)
{
    uint32_t context = 1 + below(churn, CONTEXTS);
    struct mbx_status status;
    int found;

    if (churn->probed_count == PROBED)
        return;
    found = mbx_mprobe(churn->ep, MBX_ANY_SOURCE, context, code(context, below(churn, KINDS)),
                       0, &status, &churn->probed[churn->probed_count]);
    check(found, "mbx_mprobe");
    churn->probed_count += found == 1;
}

static void take_probed(struct churn *churn)
{
    if (churn->probed_count == 0 || churn->posted_count == POSTED)
        return;
    churn->probed_count--;
    check(mbx_mrecv(churn->ep, churn->probed[churn->probed_count], into, sizeof into, NULL,
                    &churn->posted[churn->posted_count]),
          "mbx_mrecv");
    churn->posted_count++;
}

static void compute(struct churn *churn)
{
    volatile uint32_t turns = below(churn, 1000) == 0 ? 1000000 : below(churn, 2000);

    while (turns > 0)
        turns--;
}

static void complete(struct churn *churn)
{
    struct mbx_completion completion;

    check(mbx_progress(churn->ep), "mbx_progress");
    while (mbx_poll(churn->ep, MBX_SENDS, &completion, 1) == 1)
        churn->sends--;
    while (mbx_poll(churn->ep, MBX_RECVS, &completion, 1) == 1)
        for (uint32_t i = 0; i < churn->posted_count; i++)
            if (churn->posted[i] == completion.request)
                churn->posted[i--] = churn->posted[--churn->posted_count];
}

int main(int argc, char **argv)
{
    static void (*const steps[])(struct churn *) = {transfer, transfer, post,     post,
                                                    cancel,   probe,    complete, take_probed};
    struct churn churn = {.ep = NULL};
    struct mbx_job *job;

    if (argc != 2)
        return 2;
    check(mbx_job_open(&job), "mbx_job_open");
    churn.ranks = mbx_job_size(job);
    random_seed(&churn.random, strtoull(argv[1], NULL, 10) * 64 + mbx_job_rank(job));
    check(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &churn.ep), "mbx_open");
    check(mbx_job_connect(job, churn.ep), "mbx_job_connect");
    for (;;) {
        uint32_t step = below(&churn, 10);

        if (step < sizeof steps / sizeof *steps)
            steps[step](&churn);
        else
            compute(&churn);
    }
}
