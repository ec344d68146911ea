/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.h - assigns processor cores to ranks.
 */
#ifndef TOOLS_BIND_H
#define TOOLS_BIND_H

#include <sched.h>
#include <stdint.h>

/* Assigns one core per rank, in the machine's order, from the cores that this process may use;
 * with more ranks than cores it starts again from the first.  Writes sets[0..count). Returns
 * the number of cores; -ENOTSUP: built without hwloc; -ENODEV: hwloc cannot read the machine's
 * topology. */
int bind_plan(cpu_set_t *sets, uint32_t count);

#endif
