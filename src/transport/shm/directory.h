/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory.h - one file for the control blocks of all segments of a job on this machine.
 *
 *   | head, table | block 0 | block 1 | ... | block 0, second part | block 1, second part | ... | ...
 *
 * It is a memfd, sealed like a segment's.  A control block lies in parts of DIRECTORY_UNIT bytes, DIRECTORY_STRIDE
 * apart.  The first one is all of it that a job of some hundred ranks uses.
 *
 * A process that first sends to a peer opens and maps the control block of its segment: six system calls, and a page table
 * of its own.  Where all of a job on a machine keep their control blocks in one file, each maps it once, and
 * then finds anybody's without a system call: by the cookie of its address, in the table.
 *
 *   table[i]   0, or the cookie of the segment whose control block is in place i.  Places are taken in order, so that
 *              what is used lies side by side: each process has page tables for what it has used of the
 *              file, which are easily more memory than what is in it.  None is given back: a sender may still have it.
 *   labels[i]  a number that its owner has given to a control block, and the cookie of that one; looked for from
 *              label mod DIRECTORY_PLACES on.  So somebody is found whose address was not told.
 *
 * The file has no name.  Whoever of a job comes first makes it, and locks a range of /dev/zero (F_OFD_SETLK).  Where
 * that begins follows from the number of the job and the user, and its length is the pid of the first one with the
 * number of its descriptor of the file.  The others ask for the lock (F_OFD_GETLK), and open that descriptor.  Nobody
 * can send anything to anybody so: a socket, in place of the lock, would take what strangers send, and who closes it
 * also closes what they have sent, for as long as they like.  Whoever else holds such a lock keeps a job from having
 * the file, and no longer than that takes to see: what the lock says is a guess, and the file that it leads to is
 * checked.  The lock ends with its owner, whatever that dies of; who comes later is the first of another file.
 *
 * Nobody needs this file.  Where it cannot be had, or is full, a control block is in the file of its segment, as the
 * control block of whoever is in no job; and who is not of the job maps one control block of it (segment_open.c).
 *
 * Everybody of a job can write to all of it, as to all segments that it has mapped: what is
 * in it is checked where it is read, and no number in it leads out of the mapping.
 */
#ifndef SHM_DIRECTORY_H
#define SHM_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A multiple of all sizes of a page. */
#define DIRECTORY_UNIT   ((size_t)65536)

#define DIRECTORY_PLACES 512u
#define DIRECTORY_STRIDE (DIRECTORY_PLACES * DIRECTORY_UNIT)

/* Glossary: directory - one file with the control blocks of a job on one machine */
struct directory;

/* The file of this job, for control blocks of so many parts, with one more user in this process.  NULL: there is none;
 * the log says why at level debug. */
struct directory *directory_join(uint64_t job, uint32_t parts);

/* One more user of it; one less. */
void directory_hold(struct directory *directory);
void directory_leave(struct directory *directory);

/* A place for the control block of the segment with this cookie, all zero, and *at, in DIRECTORY_UNITs, of the file:
 * its first part.  NULL: none is free. */
void *directory_take(struct directory *directory, uint64_t cookie, uint32_t *at);

/* Gives back the memory of the first `parts` of a control block whose owner has closed, except its first page. */
void directory_drop(struct directory *directory, uint32_t at, uint32_t parts);

/* The control block of the segment with this cookie, or NULL. */
void *directory_find(const struct directory *directory, uint64_t cookie);

/* Gives this label, which is not 0, to the control block of the segment with this cookie, in place of that which has it
 * now: as directory_labelled() says, or 0.  0; -EEXIST another one has got it; -ENOSPC all labels are in use. */
int directory_label(struct directory *directory, uint64_t label, uint64_t now, uint64_t cookie);

/* The cookie of the control block with this label, or 0. */
uint64_t directory_labelled(const struct directory *directory, uint64_t label);

/* The parts of each, and the descriptor of the file. */
uint32_t directory_parts(const struct directory *directory);
int directory_fd(const struct directory *directory);

/* ---- files as those of segments are ---- */

/* A sealed file of size bytes; its descriptor, or an error. */
int shared_file_create(size_t size);

/* Is it one that cannot shrink, of our user?  0 and its size; -ENOENT no such file; -EPERM; -EPROTO. */
int shared_file_check(int fd, size_t *size);

/* Opens descriptor `place` of a process.  It; -ENOENT; -EPERM the kernel denies it; other errors. */
int shared_file_open(uint32_t process, uint32_t place);

#endif
