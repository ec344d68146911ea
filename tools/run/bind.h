/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.h - which processor cores the ranks run on.
 */
#ifndef TOOLS_BIND_H
#define TOOLS_BIND_H

#include <sched.h>
#include <stdint.h>

/* One core per rank, in the machine's order, of those that this process may use; with
 * more ranks than cores it starts again from the first.  Writes sets[0..count).
 * Returns the number of cores; -ENOTSUP built without hwloc; -ENODEV hwloc cannot tell
 * what the machine has. */
int bind_plan(cpu_set_t *sets, uint32_t count);

#endif
