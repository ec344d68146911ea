/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * growth_test.c - every allocation of the engine fails once.
 *
 *   growth_test [SEEDS]      deep histories of the seeds 1 .. SEEDS, 3 by default
 *
 * A deep history is run again and again, each time with the next allocation failing.  No
 * operation may fail for that: the engine only allocates to be faster, and works without.  The
 * answers, queues, counters and mbx_match_is_valid() are checked as in all histories
 * (history.c).  In the end there must be no leak.
 *
 * The test fails if no allocation was made: the histories have to make tables grow.
 */
#include <stdlib.h>
#include <string.h>

#include "match/history.h"

/* Runs h with each allocation failing in turn.  False, with a report, if it disagrees. */
static bool survives(struct history *h, uint64_t seed, unsigned long long *failed)
{
    static struct history_run run;

    for (h->fail_at = 1;; h->fail_at++) {
        if (history_replay(&run, h) >= 0) {
            history_report(h, "deep seed", seed);
            return false;
        }
        if (!run.has_failed)
            return true;
        ++*failed;
    }
}

int main(int argc, char **argv)
{
    static struct history h;
    unsigned long long failed = 0;
    unsigned long seeds = 3;
    char *end = NULL;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: growth_test [SEEDS]\n");
        return 0;
    }
    if (argc > 1) {
        seeds = strtoul(argv[1], &end, 10);
        if (argc > 2 || argv[1][0] < '0' || argv[1][0] > '9' || *end != '\0') {
            fprintf(stderr, "growth_test: '%s' is not a number; usage: growth_test [SEEDS]\n",
                    argc > 2 ? argv[2] : argv[1]);
            return 2;
        }
    }
    for (unsigned long seed = 1; seed <= seeds; seed++) {
        history_make_deep(&h, seed);
        if (!survives(&h, seed, &failed))
            return 1;
    }
    printf("histories=%lu allocations_failed=%llu\n", seeds, failed);
    if (seeds != 0 && failed == 0) {
        fprintf(stderr, "growth_test: nothing was allocated, so nothing was tested\n");
        return 1;
    }
    return 0;
}
