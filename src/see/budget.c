/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget.c - see budget.h.
 */
#include "see/budget.h"

#include <errno.h>

#include "base/clock.h"

static int read_within(const struct see_source *source, uint64_t at, void *to, size_t size)
{
    struct see_budget *budget = (struct see_budget *)(uintptr_t)source;

    if (budget->reads_left == 0 || clock_thread() >= budget->until_ns)
        return -ETIME;
    budget->reads_left--;
    return budget->from->read(budget->from, at, to, size);
}

void see_budget_init(struct see_budget *budget, const struct see_source *from, uint64_t reads,
                     uint64_t time_ns)
{
    *budget = (struct see_budget){.source = {read_within},
                                  .from = from,
                                  .reads_left = reads,
                                  .until_ns = clock_thread() + time_ns};
}
