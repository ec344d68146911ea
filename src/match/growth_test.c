/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * growth_test.c - every allocation of the engine fails once.
 *
 *   growth_test [SEEDS]      deep histories of the seeds 1 .. SEEDS, 3 unless told
 *
 * A deep history is done again and again, each time with the next allocation failing.
 * What the engine then says no to must have changed nothing: queues, counters and
 * mbx_match_is_valid() are compared with an oracle that was not asked (history.c); the same
 * operation is tried again, must succeed, and the rest of the history must go on as if
 * nothing had been.  An engine may also do without what it asked for, as a probe does that
 * only wanted to be faster.  In the end nothing may be lost.
 *
 * None to fail is a failure of this test: the histories are there to make tables grow.
 */
#include <stdlib.h>
#include <string.h>

#include "match/history.h"

struct tally {
    unsigned long long failed, refused;
};

/* False, with a report, if one of its allocations must not fail. */
static bool survives(struct history *h, uint64_t seed, struct tally *tally)
{
    static struct history_run run;

    for (h->fail_at = 1;; h->fail_at++) {
        if (history_replay(&run, h) >= 0) {
            history_report(h, "deep seed", seed);
            return false;
        }
        if (!run.has_failed)
            return true;
        tally->failed++;
        tally->refused += run.has_refused;
    }
}

int main(int argc, char **argv)
{
    static struct history h;
    struct tally tally = {0};
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
        if (!survives(&h, seed, &tally))
            return 1;
    }
    printf("histories=%lu allocations_failed=%llu operations_refused=%llu\n", seeds,
           tally.failed, tally.refused);
    if (seeds != 0 && tally.failed == 0) {
        fprintf(stderr, "growth_test: nothing was allocated, so nothing was tested\n");
        return 1;
    }
    return 0;
}
