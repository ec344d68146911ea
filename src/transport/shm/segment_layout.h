/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment_layout.h - the layout of a segment, and the validation of a file.  Only for segment.c
 * and segment_open.c.
 *
 * A segment that another process offers is validated in this order:
 *
 *   the descriptor    a regular file of our user, sealed against shrinking, however it came
 *   its head          read once into our memory: magic, cookie, version, key check, sizes
 *   its size          must be the size that follows from the numbers in the head
 *   its control block if that is in another file: a file as above, a head as above
 *
 * A control block in a file that is mapped already, the directory of our job, is accepted by
 * its head alone; its sizes must be the sizes of a control block there.
 *
 * After that, nothing in it can make us access unmapped memory; its contents are checked where
 * they are read.
 */
#ifndef SHM_SEGMENT_LAYOUT_H
#define SHM_SEGMENT_LAYOUT_H

#include "transport/shm/directory.h"
#include "transport/shm/segment.h"

/* The numbers that determine the layout. */
struct segment_layout {
    uint32_t peers;
    struct rings rings;
};

struct segment_layout layout_of(const struct segment *s);
bool layout_is_valid(struct segment_layout layout);
bool layouts_agree(struct segment_layout one, struct segment_layout other);

/* The size of a whole file. */
size_t layout_size(struct segment_layout layout);

/* The bytes of a control block that is in the segment's own file: a sender maps them first. */
size_t layout_block_size(struct segment_layout layout);

/* In a job's directory: the parts of a control block with this number of used slots, and the
 * bytes from the first part to the end of the last one. */
uint32_t layout_parts(uint32_t peers, uint32_t used);
size_t layout_spread(uint32_t peers);

/* Sets the layout of s, wherever it is mapped. */
void layout_set(struct segment *s, struct segment_layout layout);

/* The control block is mapped at block. */
void layout_place_block(struct segment *s, void *block);

/* The first `mapped` bytes of the file are mapped at base; with the control block, unless
 * is_apart. */
void layout_place_file(struct segment *s, void *base, size_t mapped);

/* ---- validation ---- */

/* The head of a file.  0; -ENOENT the file has none; system errors. */
int head_read(int fd, struct segment_head *head);

struct segment_layout head_layout(const struct segment_head *head);

/* Is it the head of the segment with this cookie and key check, whose file has this size?  0;
 * -ENOENT; -EPROTONOSUPPORT; -EACCES; -EPROTO. */
int head_check(const struct segment_head *head, size_t size, uint64_t cookie,
               uint64_t key_check);

/* Is it a file that we may map, with such a head?  0 and the head; the errors of the two
 * functions above; -EPERM. */
int head_check_file(int fd, uint64_t cookie, uint64_t key_check, struct segment_head *head);

/* Logs why the head of the segment at address is -EPROTONOSUPPORT. */
void head_warn_version(const struct segment_head *head,
                       const struct transport_address *address);

/* ---- segment.c, for segment_open.c ---- */

/* Allocates s->file; nothing is mapped.  0; -ENOMEM. */
int segment_add_file(struct segment *s, uint64_t cookie, uint64_t key_check);

/* Maps this many bytes of the file.  0; system errors. */
int segment_map(struct segment *s, int fd, size_t mapped);

/* Unmaps and frees everything. */
void segment_destroy(struct segment *s);

/* The segment at address, whose owner is in this process, with an added user; or NULL. */
struct segment *segment_find_local(const struct transport_address *address);

#endif
