/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget.h - a source that gives so much of another source and no more: the memory of a process may have been made so that
 * reading its queues takes for ever.
 *
 * Reads are counted, and the processor's time of this thread; a machine that is busy with other things uses up neither.
 */
#ifndef SEE_BUDGET_H
#define SEE_BUDGET_H

#include "see/walk.h"

#define SEE_BUDGET_READS (UINT64_C(1) << 20) /* more than the queues of any endpoint take */

struct see_budget {
    struct see_source source; /* first: what is read by; -ETIME when nothing is left */
    const struct see_source *from;
    uint64_t reads_left, until_ns; /* of clock_thread() */
};

/* `from` has to stay as long as budget is used. */
void see_budget_init(struct see_budget *budget, const struct see_source *from, uint64_t reads,
                     uint64_t time_ns);

#endif
