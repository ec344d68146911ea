/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory.h - one file for the control blocks of all segments of a job on this machine.
 *
 *   | head, table | block 0 | block 1 | ... | block 0, second part | block 1, second part | ... | ...
 *
 * The file is a memfd, sealed like a segment's.  A control block lies in parts of
 * DIRECTORY_UNIT bytes, DIRECTORY_STRIDE apart.  A job of some hundred ranks uses only the
 * first part.
 *
 * Without it, a process that first sends to a peer opens and maps the control block of the
 * peer's segment: six system calls, and a page table.  If all processes of a job on a machine
 * keep their control blocks in one file, each maps the file once, and then finds any control
 * block without a system call: by the cookie of the address, in the table.
 *
 *   table[i]   0, or the cookie of the segment whose control block is in place i.  Places are taken
 *              in order, so that used places are adjacent: each process has page tables for the
 *              part of the file that it has used, which easily take more memory than the contents.
 *              No place is given back: a sender may still use it.
 *   labels[i]  a number that the owner has given to a control block, and the cookie of that control
 *              block; searched from label mod DIRECTORY_PLACES on.  So an endpoint is found whose
 *              address is not known.
 *
 * The file has no name.  The first process of a job makes it, and locks a range of /dev/zero
 * (F_OFD_SETLK).  The start of the range follows from the job's number and the user; its length
 * encodes the first process's pid and its descriptor of the file.  The others query the lock
 * (F_OFD_GETLK), and open that descriptor.  This way nobody can send anything to a process: a
 * socket, instead of the lock, would accept what strangers send, and closing it would also
 * close the descriptors in it, which a stranger can delay for as long as it likes.  A stranger
 * who holds such a lock keeps a job from having the file, but costs no more than the time to
 * notice: the lock is only a hint, and the file that it leads to is validated.  The lock ends
 * with its owner, however that dies; a later process then is the first one of another file.
 *
 * The file is optional.  If it cannot be had, or is full, a control block is in the file of its
 * segment, like the control block of an endpoint without a job.  A process of another job maps
 * only one control block of the file (segment_open.c).
 *
 * All processes of a job can write to the whole file, as to all segments that they have mapped:
 * its contents are checked where they are read, and no number in it leads out of the mapping.
 */
#ifndef SHM_DIRECTORY_H
#define SHM_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A multiple of all page sizes. */
#define DIRECTORY_UNIT   ((size_t)65536)

#define DIRECTORY_PLACES 512u
#define DIRECTORY_STRIDE (DIRECTORY_PLACES * DIRECTORY_UNIT)

/* Glossary: directory - one file with the control blocks of a job on one machine */
struct directory;

/* The file of this job, for control blocks of this many parts; adds a user in this process.
 * NULL: there is none; the log says why at level debug. */
struct directory *directory_join(uint64_t job, uint32_t parts);

/* Removes a user. */
void directory_leave(struct directory *directory);

/* A place for the control block of the segment with this cookie, all zero, and its offset *at
 * in the file, in DIRECTORY_UNITs: the first part.  NULL: no place is free. */
void *directory_take(struct directory *directory, uint64_t cookie, uint32_t *at);

/* Gives back the memory of the first `parts` parts of a control block whose owner has closed,
 * except its first page. */
void directory_drop(struct directory *directory, uint32_t at, uint32_t parts);

/* The control block of the segment with this cookie, or NULL. */
void *directory_find(const struct directory *directory, uint64_t cookie);

/* Gives this label, which is not 0, to the control block of the segment with this cookie.  now:
 * the cookie that has the label now, as returned by directory_labelled(), or 0.  0; -EEXIST
 * another one has got it; -ENOSPC all labels are in use. */
int directory_label(struct directory *directory, uint64_t label, uint64_t now, uint64_t cookie);

/* The cookie of the control block with this label, or 0. */
uint64_t directory_labelled(const struct directory *directory, uint64_t label);

/* The number of parts of each control block, and the descriptor of the file. */
uint32_t directory_parts(const struct directory *directory);
int directory_fd(const struct directory *directory);

/* ---- files, as of segments ---- */

/* A sealed file of size bytes; its descriptor, or an error. */
int shared_file_create(size_t size);

/* Is it a file of our user that cannot shrink?  0 and its size; -ENOENT no such file; -EPERM;
 * -EPROTO. */
int shared_file_check(int fd, size_t *size);

/* Opens descriptor `place` of a process.  Returns a descriptor; -ENOENT; -EPERM the kernel
 * denies it; other errors. */
int shared_file_open(uint32_t process, uint32_t place);

#endif
