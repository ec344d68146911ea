/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget.h - a source that limits the reads from another source: the memory of a process may
 * have been prepared so that reading its queues takes for ever.
 *
 * Reads are limited by number and by the processor time of this thread, which do not depend on
 * the load of the machine.
 */
#ifndef INSPECT_BUDGET_H
#define INSPECT_BUDGET_H

#include "inspect/walk.h"

#define INSPECT_BUDGET_READS (UINT64_C(1) << 20) /* more than the queues of any endpoint need */

struct inspect_budget {
    struct inspect_source source; /* must be first; used to read: -ETIME when nothing is left */
    const struct inspect_source *from;
    uint64_t reads_left, until_ns; /* of clock_thread() */
};

/* `from` must stay valid as long as budget is used. */
void inspect_budget_init(struct inspect_budget *budget, const struct inspect_source *from,
                         uint64_t reads, uint64_t time_ns);

#endif
