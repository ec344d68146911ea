/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget.h - a source that gives so much of another source and no more: the memory of a process may have been made so that
 * reading its queues takes for ever.
 *
 * Reads are counted, and the processor's time of this thread; a machine that is busy with other things uses up neither.
 */
#ifndef INSPECT_BUDGET_H
#define INSPECT_BUDGET_H

#include "inspect/walk.h"

#define INSPECT_BUDGET_READS (UINT64_C(1) << 20) /* more than the queues of any endpoint take */

struct inspect_budget {
    struct inspect_source source; /* first: what is read by; -ETIME when nothing is left */
    const struct inspect_source *from;
    uint64_t reads_left, until_ns; /* of clock_thread() */
};

/* `from` has to stay as long as budget is used. */
void inspect_budget_init(struct inspect_budget *budget, const struct inspect_source *from,
                         uint64_t reads, uint64_t time_ns);

#endif
