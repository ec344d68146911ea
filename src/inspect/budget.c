/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget.c - see budget.h.
 */
#include "inspect/budget.h"

#include <errno.h>

#include "base/clock.h"

static int read_within(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    struct inspect_budget *budget = (struct inspect_budget *)(uintptr_t)source;

    if (budget->reads_left == 0 || clock_thread() >= budget->until_ns)
        return -ETIME;
    budget->reads_left--;
    return budget->from->read(budget->from, at, to, size);
}

void inspect_budget_init(struct inspect_budget *budget, const struct inspect_source *from,
                         uint64_t reads, uint64_t time_ns)
{
    *budget = (struct inspect_budget){.source = {read_within},
                                      .from = from,
                                      .reads_left = reads,
                                      .until_ns = clock_thread() + time_ns};
}
