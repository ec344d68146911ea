/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect_program.c - a job of two ranks whose queues are known, for queues_test.py.
 *
 * usage: inspect_program SEED COUNT STOP [SEEDS]
 *
 * Rank 0 posts receives that match nothing; rank 1 sends messages that match no receive, of
 * which the long ones wait at their sender.  Each rank prints what must be in its queues, a
 * line for each entry, in which "rank" is the other's, and then "ready PID".  It makes progress
 * until there is a file STOP.0.  With SEEDS the queues are then emptied and filled from the
 * next seed, until there is a file STOP.1, and so on.  After the last seed each rank exits and
 * leaves its queues as they are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/random.h"

#define LONG      ((size_t)100000)
#define LONG_EACH 16 /* one in so many messages is long */

static char buffer[LONG];

static void check(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "inspect_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static void say(const char *kind, uint32_t rank, uint32_t context, uint64_t tag,
                uint64_t ignore, size_t size)
{
    printf("%s %" PRId64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %zu\n", kind,
           rank == MBX_ANY_SOURCE ? -1 : (int64_t)rank, context, tag, ignore, size);
}

#define CONTEXTS 3 /* numbered from 1 */

struct program {
    struct mbx_ep *ep;
    uint32_t rank;
    uint64_t
        messages[CONTEXTS + 1]; /* of each context: how many rank 0 must have; [0]: of all */
    uint64_t sent;              /* sends of rank 1 that complete */
    uint64_t held;              /* sends that wait for their receive */
    mbx_request *posted;        /* by rank 0 */
    uint64_t posted_count;
};

/* Posts a receive with an odd tag, which no message has. */
static void post(struct program *p, struct random *random)
{
    uint32_t source = random_below(random, 3) == 0 ? MBX_ANY_SOURCE : 1;
    uint32_t context = 1 + (uint32_t)random_below(random, CONTEXTS);
    uint64_t tag = random_next(random) | 1, ignore = random_below(random, 2) * 0xff00;
    size_t size = random_below(random, 1000);
    mbx_request request;

    if (p->rank != 0)
        return;
    check(mbx_recv(p->ep, source, context, tag, ignore, buffer, size, NULL, &request),
          "mbx_recv");
    p->posted[p->posted_count++] = request;
    say("posted", source, context, tag, ignore, size);
}

static void transfer(struct program *p, struct random *random)
{
    uint32_t context = 1 + (uint32_t)random_below(random, CONTEXTS);
    uint64_t tag = random_next(random) & ~UINT64_C(1);
    bool is_long = random_below(random, LONG_EACH) == 0, is_sync = random_below(random, 8) == 0;
    size_t size = is_long ? LONG : random_below(random, 200);
    mbx_request request;

    p->messages[0]++;
    p->messages[context]++;
    if (p->rank == 0) {
        say("unexpected", 1, context, tag, 0, size);
        return;
    }
    check(
        (is_sync ? mbx_ssend : mbx_send)(p->ep, 0, context, tag, buffer, size, NULL, &request),
        "a send begins");
    if (is_long || is_sync)
        say("send", 0, context, tag, 0, size);
    if (is_long || is_sync)
        p->held++;
    else
        p->sent++;
}

/* Has everything under way arrived? */
static bool is_ready(struct program *p)
{
    struct mbx_completion completion;
    uint64_t unexpected;

    while (mbx_poll(p->ep, MBX_SENDS, &completion, 1) == 1) {
        check(completion.error, "a send");
        p->sent--;
    }
    check(mbx_stat_read(p->ep, "unexpected_now", &unexpected), "mbx_stat_read");
    return p->rank == 0 ? unexpected == p->messages[0] : p->sent == 0;
}

static void take_receive(struct program *p, int expected)
{
    struct mbx_completion completion;

    while (mbx_poll(p->ep, MBX_RECVS, &completion, 1) != 1)
        check(mbx_progress(p->ep), "mbx_progress");
    if (completion.error != expected)
        check(completion.error != 0 ? completion.error : -EPROTO, "a receive");
}

/* Rank 0 cancels its receives, and then receives all messages; rank 1 waits until its sends are
 * over. */
static void make_empty(struct program *p)
{
    struct mbx_completion completion;

    for (uint64_t i = 0; i < p->posted_count; i++) {
        check(mbx_cancel(p->ep, p->posted[i]), "mbx_cancel");
        take_receive(p, -ECANCELED);
    }
    for (uint32_t context = 1; context <= CONTEXTS && p->rank == 0; context++)
        for (uint64_t i = 0; i < p->messages[context]; i++) {
            check(mbx_recv(p->ep, 1, context, 0, UINT64_MAX, buffer, sizeof buffer, NULL, NULL),
                  "mbx_recv");
            take_receive(p, 0);
        }
    while (p->held > 0) {
        check(mbx_progress(p->ep), "mbx_progress");
        while (mbx_poll(p->ep, MBX_SENDS, &completion, 1) == 1) {
            check(completion.error, "a send");
            p->held--;
        }
    }
    p->posted_count = 0;
    memset(p->messages, 0, sizeof p->messages);
}

static void make(struct program *p, uint64_t seed, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) { /* both ranks draw the same numbers */
        struct random random;

        random_seed(&random, seed * 1000003 + i);
        if (random_below(&random, 2) == 0)
            transfer(p, &random);
        else
            post(p, &random);
    }
}

/* Makes progress until there is a file with this name. */
static void show(struct program *p, const char *stop)
{
    bool was_ready = false;

    while (access(stop, F_OK) != 0) {
        check(mbx_progress(p->ep), "mbx_progress");
        if (!was_ready && is_ready(p)) {
            was_ready = true;
            printf("ready %ld\n", (long)getpid());
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    unsigned long count = argc >= 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long seeds = argc == 5 ? strtoul(argv[4], NULL, 10) : 1;
    struct program p = {.ep = NULL};
    struct mbx_job *job;
    char stop[4096];

    if (count == 0 || seeds == 0)
        return 2;
    p.posted = calloc(count, sizeof *p.posted);
    if (p.posted == NULL)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0); /* mbx run labels each line as it arrives */
    check(mbx_job_open(&job), "mbx_job_open");
    p.rank = mbx_job_rank(job);
    check(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &p.ep), "mbx_open");
    check(mbx_job_connect(job, p.ep), "mbx_job_connect");
    for (unsigned long k = 0; k < seeds; k++) {
        if (k > 0)
            make_empty(&p);
        make(&p, strtoull(argv[1], NULL, 10) + k, count);
        snprintf(stop, sizeof stop, "%s.%lu", argv[3], k);
        show(&p, stop);
    }
    _exit(0);
}
