/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h - ends processes together with all their descendants.
 */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on descendants whose parents die become children of this process, so that none can
 * escape. */
void process_adopt_orphans(void);

/* Undoes process_adopt_orphans(), and reaps children that have ended: nobody else may wait for
 * them. */
void process_leave_orphans(void);

/* The start time of the process, in the kernel's ticks; 0 if it is unknown. */
uint64_t process_started(pid_t pid);

/* 'R' running, 'T' stopped, ...; 0: it is gone, and its number may be another process's.  `started` is from
 * process_started(). */
char process_state(pid_t pid, uint64_t started);

/* The age of the process, in ns; 0 if it is unknown. */
uint64_t process_age(pid_t pid);

/* The parent of the process, or the process that has adopted it; 0 if it is unknown. */
pid_t process_parent(pid_t pid);

/* Kills every descendant of this process that was started at `since` or later, and their
 * descendants, until none is left; reaps the children.  process_adopt_orphans() must have been
 * called before they were started.  False: some still exist after 10 seconds (in an
 * uninterruptible call), or /proc cannot be read. */
bool process_end_descendants(uint64_t since);

#endif
