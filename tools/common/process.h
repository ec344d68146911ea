/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h - ending processes together with all that descends from them.
 */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on descendants whose parents die become children of this process, so that
 * none can get out of sight. */
void process_adopt_orphans(void);

/* No longer.  Those that are children already and have ended are reaped: nobody may wait for a child. */
void process_leave_orphans(void);

/* When the process was started, in the kernel's ticks; 0 if that is not known. */
uint64_t process_started(pid_t pid);

/* How long ago the process was started, in ns; 0 if that is not known. */
uint64_t process_age(pid_t pid);

/* The process that has started it, or that has taken it over; 0 if that is not known. */
pid_t process_parent(pid_t pid);

/* Kills every descendant of this process that was started at `since` or later, and
 * theirs, until none is left; reaps those that are children.  Needs
 * process_adopt_orphans() before they were started.  False: some are still there after
 * 10 seconds (in an uninterruptible call), or /proc cannot be read. */
bool process_end_descendants(uint64_t since);

#endif
