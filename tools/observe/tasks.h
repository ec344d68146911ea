/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tasks.h - the threads of a process as the kernel shows them: which of them may go on by themselves.
 */
#ifndef TOOLS_TASKS_H
#define TOOLS_TASKS_H

#include "inspect/job.h"

/* Reads the threads of process pid into *tasks, which the caller frees.  `caller` is known to be in
 * a call of MPI: it is listed, and not examined.  0; -ENOMEM.  *count is 0 if the process is gone,
 * must not be read, has more than INSPECT_TASKS threads, or takes more than limit_ns of processor
 * time. */
int tasks_read(uint32_t pid, uint32_t caller, uint64_t limit_ns, struct inspect_task **tasks,
               uint32_t *count);

#endif
