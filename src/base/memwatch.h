/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memwatch.h - finds out whether memory has been unmapped.
 *
 *   the application: munmap(), mremap(), madvise(MADV_DONTNEED), free() ...
 *        └─> the kernel ── userfaultfd ──> a thread of ours: range.is_gone
 *        <── resumes when the thread has read that
 *
 * State that belongs to pages, such as a registration with an adapter, has to be released
 * before other pages have the same address.  The kernel reports each change, whichever thread
 * and function makes it, and blocks that thread until the report has been read.  No function of
 * the C library is replaced.
 *
 * Another thread may get the address again before the message arrives.  So memwatch_check()
 * asks the kernel whether a message is on its way.
 *
 * Only private anonymous memory can be watched: pages of other memory may be replaced without
 * such a report, by ftruncate(), fallocate() or shmdt().
 *
 * A process has one watch, because a page can be watched by only one descriptor.
 *
 * Invariants
 *   I1  between the first open and the last close there is one thread and one descriptor
 *   I2  the watch thread takes only the watch's lock, and neither it nor another holder of that
 *       lock calls a function that may unmap memory (free(), the log): it would wait for the
 *       watch thread
 *
 * Threads    all calls: any thread.  A child after fork() calls none of them.
 */
#ifndef BASE_MEMWATCH_H
#define BASE_MEMWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/* A watched range; the caller provides the memory and uses no member. */
struct memwatch_range {
    struct list node;
    uintptr_t begin, end;
    bool is_gone;
};

/* Starts the watch, if it is not running; every open needs its close.  0; -EOPNOTSUPP the
 * kernel does not report changes (older than 5.18), or not to this process; -errno. */
int memwatch_open(void);

/* The caller watches no range any more. */
void memwatch_close(void);

/*
 * memwatch_add - watches [begin, begin+size), whole pages.
 *
 * Earlier unmappings are not reported.  So: add, then create the state that belongs to the
 * pages.
 *
 * Returns    0; -EOPNOTSUPP it is not mapped, not writable, or not private anonymous memory; -EBUSY
 *            somebody else watches it; -errno.
 */
int memwatch_add(struct memwatch_range *range, uintptr_t begin, size_t size);

/* Ends memwatch_add(); also for a range that is gone. */
void memwatch_remove(struct memwatch_range *range);

/* Sets *gone to the number of ranges that have gone since the process began; while it stays the
 * same, no range has gone.  False: some thread is unmapping memory right now, and the kernel
 * has not reported yet which.  Costs a system call. */
bool memwatch_check(uint64_t *gone);

/* Has part of it been unmapped since memwatch_add()?  Also true for an unmapping shortly before
 * that was not reported yet. */
bool memwatch_is_gone(const struct memwatch_range *range);

#endif
