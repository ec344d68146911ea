/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment_layout.h - where everything lies in a segment, and whether a file is one.  For segment.c and
 * segment_open.c alone.
 *
 * What another process offers as its segment is believed in this order:
 *
 *   the descriptor   a regular file of our user, sealed against shrinking, however it came
 *   its head         read once into our memory: magic, cookie, version, key check, sizes
 *   its size         what the numbers in the head make must be what the file has
 *   its control block if that is in another file: a file as above, a head as above
 *
 * A control block that is in a file that we have mapped already, as one of our job, is believed by its head
 * alone; its sizes must be those of a control block there.
 *
 * After that nothing in it can make us touch memory that is not there; its contents
 * are checked where they are read.
 */
#ifndef SHM_SEGMENT_LAYOUT_H
#define SHM_SEGMENT_LAYOUT_H

#include "transport/shm/directory.h"
#include "transport/shm/segment.h"

/* What says where everything lies. */
struct segment_layout {
    uint32_t peers;
    struct rings rings;
};

struct segment_layout layout_of(const struct segment *s);
bool layout_is_valid(struct segment_layout layout);
bool layouts_agree(struct segment_layout one, struct segment_layout other);

/* Of a whole file. */
size_t layout_size(struct segment_layout layout);

/* The bytes of the control block where it is in the segment's own file: a sender maps them first. */
size_t layout_block_size(struct segment_layout layout);

/* In the directory of a job: parts of a control block with this number of used slots, and the bytes from the first part
 * to the end of the last one. */
uint32_t layout_parts(uint32_t peers, uint32_t used);
size_t layout_spread(uint32_t peers);

/* s is laid out so, wherever it lies. */
void layout_set(struct segment *s, struct segment_layout layout);

/* Its control block lies at block. */
void layout_place_block(struct segment *s, void *block);

/* Its file lies at base, so much of it; with its control block, unless that is_apart. */
void layout_place_file(struct segment *s, void *base, size_t mapped);

/* ---- whether it is one ---- */

/* The head of a file.  0; -ENOENT the file has none; system errors. */
int head_read(int fd, struct segment_head *head);

struct segment_layout head_layout(const struct segment_head *head);

/* Is it that of the segment with this cookie and key check, whose file has this size?  0; -ENOENT; -EPROTONOSUPPORT;
 * -EACCES; -EPROTO. */
int head_check(const struct segment_head *head, size_t size, uint64_t cookie,
               uint64_t key_check);

/* Is it a file that we may map, with such a head?  0 and the head; the errors of the two above; -EPERM. */
int head_check_file(int fd, uint64_t cookie, uint64_t key_check, struct segment_head *head);

/* Says why the head of the segment at address is -EPROTONOSUPPORT. */
void head_warn_version(const struct segment_head *head,
                       const struct transport_address *address);

/* ---- segment.c, for segment_open.c ---- */

/* Space for what is known of the file of s; nothing of it is mapped.  0; -ENOMEM. */
int segment_add_file(struct segment *s, uint64_t cookie, uint64_t key_check);

/* Maps so much of its file.  0; system errors. */
int segment_map(struct segment *s, int fd, size_t mapped);

/* Undoes all that was done for it. */
void segment_destroy(struct segment *s);

/* The segment at address, whose owner is in this process, with one more user; or NULL. */
struct segment *segment_find_local(const struct transport_address *address);

#endif
