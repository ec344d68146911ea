/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink.c - drops operations from a job that fails: halves first, then quarters, and at last
 * single ones, until nothing can be dropped.
 *
 * Each operation that is dropped changes the random events in the network.  So a smaller job may
 * fail in another way, or may not fail although no operation that the failure needs is missing.
 * Both are accepted: the job that remains fails in every run.
 */
#include "shrink.h"

#include <string.h>

/* The plan without operations [from, to). */
static void without(struct plan *less, const struct plan *plan, uint32_t from, uint32_t to)
{
    plan_copy(less, plan);
    memmove(&less->ops[from], &less->ops[to], (plan->count - to) * sizeof *less->ops);
    less->count -= to - from;
}

/* One go through all pieces of this size.  Was something dropped? */
static bool drop_pieces(struct plan *plan, bool (*fails)(const struct plan *), uint32_t size,
                        uint32_t *jobs)
{
    bool dropped = false;
    uint32_t from = 0;

    while (from < plan->count && *jobs != 0) {
        uint32_t to = plan->count - from < size ? plan->count : from + size;
        struct plan less;

        without(&less, plan, from, to);
        (*jobs)--;
        if (fails(&less)) {
            plan_free(plan);
            *plan = less;
            dropped = true;
        } else {
            plan_free(&less);
            from = to;
        }
    }
    return dropped;
}

void plan_shrink(struct plan *plan, bool (*fails)(const struct plan *plan), uint32_t jobs)
{
    uint32_t size = plan->count / 2;

    while (jobs != 0 && size != 0) {
        bool dropped = drop_pieces(plan, fails, size, &jobs);

        if (!dropped || size > plan->count)
            size = size > 1 ? size / 2 : 0;
    }
}
