/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memwatch.h - is memory still the memory that it was, or has it been unmapped?
 *
 *   the application: munmap(), mremap(), madvise(MADV_DONTNEED), free() ...
 *        └─> the kernel ── userfaultfd ──> a thread of ours: range.is_gone
 *        <── goes on when the thread has read that
 *
 * Who keeps something that belongs to pages, such as a registration with an adapter, has to let go
 * of it before other pages have the same address.  The kernel tells of each change, whoever makes
 * it and by whatever function, and lets the thread that makes it wait until that was read.  No
 * function of the C library is replaced.
 *
 * Another thread may get the address again before that message is there.  So the kernel is asked
 * whether one is on its way (memwatch_check()).
 *
 * Only private anonymous memory can be watched: pages of other memory may be exchanged without
 * such a call, by ftruncate(), fallocate() or shmdt().
 *
 * One watch for a process, because a page can be watched by one descriptor alone.
 *
 * Invariants
 *   I1  between the first open and the last close there is one thread and one descriptor
 *   I2  the thread takes no lock but the watch's, and neither it nor who holds that lock calls what
 *       may unmap memory (free(), the log): it would wait for the thread
 *
 * Threads    all calls: any thread.  A child after fork() calls none of them.
 */
#ifndef BASE_MEMWATCH_H
#define BASE_MEMWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/* A range that is watched; the caller's memory, of no concern to the caller otherwise. */
struct memwatch_range {
    struct list node;
    uintptr_t begin, end;
    bool is_gone;
};

/* Starts the watch, if nobody has; every open needs its close.  0; -EOPNOTSUPP the kernel does not
 * tell (older than 5.18), or does not let this process ask; -errno. */
int memwatch_open(void);

/* No range of the caller is watched any more. */
void memwatch_close(void);

/*
 * memwatch_add - watches [begin, begin+size), whole pages.
 *
 * What was unmapped before is not told.  So: add, then make what belongs to the pages.
 *
 * Returns    0; -EOPNOTSUPP it is not mapped, not writable, or not private anonymous memory; -EBUSY
 *            somebody else watches it; -errno.
 */
int memwatch_add(struct memwatch_range *range, uintptr_t begin, size_t size);

/* Ends that; also of a range that is gone. */
void memwatch_remove(struct memwatch_range *range);

/* Sets *gone: how many ranges have gone since the process began; while it stays the same, all are
 * there.  False: some thread is unmapping memory right now, and the kernel has not told yet which.
 * Costs a system call. */
bool memwatch_check(uint64_t *gone);

/* Has some of it been unmapped since memwatch_add()?  Also of what was there before, if another thread
 * was about to tell. */
bool memwatch_is_gone(const struct memwatch_range *range);

#endif
