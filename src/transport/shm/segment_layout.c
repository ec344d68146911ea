/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment_layout.c - see segment_layout.h.
 */
#include "transport/shm/segment_layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

/* ---- sizes and offsets ---- */

static size_t control_size(uint32_t peers)
{
    size_t bits = round_up(peers, 8 * CACHE_LINE) / 8;

    return sizeof(struct segment_control) + bits;
}

static size_t slots_end(uint32_t peers)
{
    return control_size(peers) + (size_t)peers * sizeof(struct segment_slot);
}

static size_t taken_offset(struct segment_layout layout)
{
    return round_up(slots_end(layout.peers) +
                        (SEGMENT_WORDS + SEGMENT_TABLE) * sizeof(uint64_t) +
                        rings_place(layout.rings, layout.peers).offset,
                    SEGMENT_PAGE);
}

struct segment_layout layout_of(const struct segment *s)
{
    return (struct segment_layout){s->peers, segment_rings(s)};
}

bool layout_is_valid(struct segment_layout layout)
{
    return layout.peers >= 1 && layout.peers <= SEGMENT_PEERS_MAX &&
           rings_are_valid(layout.rings);
}

bool layouts_agree(struct segment_layout one, struct segment_layout other)
{
    return one.peers == other.peers && one.rings.cells == other.rings.cells &&
           one.rings.long_shift == other.rings.long_shift;
}

size_t layout_size(struct segment_layout layout)
{
    return taken_offset(layout) + SEGMENT_PAGE + SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE;
}

size_t layout_block_size(struct segment_layout layout)
{
    return min_size(layout_size(layout), round_up(slots_end(layout.peers), DIRECTORY_UNIT));
}

/* In a job's directory the control block has parts of DIRECTORY_UNIT bytes: first the control
 * and the first slots, then this many slots in each part. */
#define PART_SLOTS ((uint32_t)(DIRECTORY_UNIT / sizeof(struct segment_slot)))

static uint32_t first_slots(uint32_t peers)
{
    return (uint32_t)((DIRECTORY_UNIT - control_size(peers)) / sizeof(struct segment_slot));
}

static_assert(sizeof(struct segment_control) + SEGMENT_PEERS_MAX / 8 +
                      sizeof(struct segment_slot) <=
                  DIRECTORY_UNIT,
              "the first part has a slot");

uint32_t layout_parts(uint32_t peers, uint32_t used)
{
    uint32_t first = first_slots(peers);

    return used <= first ? 1 : 1 + (used - first + PART_SLOTS - 1) / PART_SLOTS;
}

size_t layout_spread(uint32_t peers)
{
    return (layout_parts(peers, peers) - 1) * DIRECTORY_STRIDE + DIRECTORY_UNIT;
}

struct segment_slot *segment_far_slot(const struct segment *s, uint32_t i)
{
    uint32_t behind = i - s->first_slots;
    unsigned char *part =
        (unsigned char *)s->control + (1 + behind / PART_SLOTS) * DIRECTORY_STRIDE;

    assert(s->is_apart && i >= s->first_slots && i < s->peers);
    return (struct segment_slot *)(void *)part + behind % PART_SLOTS;
}

/* ---- mappings ---- */

void layout_set(struct segment *s, struct segment_layout layout)
{
    s->peers = layout.peers;
    s->ring_cells = layout.rings.cells;
    s->long_shift = (uint8_t)layout.rings.long_shift;
}

void layout_place_block(struct segment *s, void *block)
{
    s->control = block;
    s->slots = (struct segment_slot *)(void *)((unsigned char *)block + control_size(s->peers));
    s->first_slots = (uint16_t)first_slots(s->peers);
}

void layout_place_file(struct segment *s, void *base, size_t mapped)
{
    struct segment_file *file = s->file;
    unsigned char *bytes = base;

    file->base = base;
    file->mapped = mapped;
    if (!s->is_apart)
        layout_place_block(s, base);
    if (mapped < file->size)
        return;
    file->words = (_Atomic uint64_t *)(void *)(bytes + slots_end(s->peers));
    file->rings = (unsigned char *)(file->words + SEGMENT_WORDS + SEGMENT_TABLE);
    file->taken = (_Atomic uint32_t *)(void *)(bytes + taken_offset(layout_of(s)));
}

/* ---- validation ---- */

/* Is it a head of an early version, without a mark? */
static bool head_is_early(const struct segment_head *head)
{
    unsigned last = head->magic >> 56, ours = SEGMENT_MAGIC >> 56;

    return (head->magic ^ SEGMENT_MAGIC) << 8 == 0 && last > '0' && last < ours - 1;
}

void head_warn_version(const struct segment_head *head, const struct transport_address *address)
{
    const struct version theirs = head_is_early(head) ? (struct version){0} : head->version;
    char who[32];

    snprintf(who, sizeof who, "pid %u",
             passing_is_number(address->process) ? address->place : address->process);
    version_warn("shm", who, &theirs, SEGMENT_VERSION);
}

static uint64_t cookie_of(const struct segment_head *head)
{
    uint64_t early;

    memcpy(&early, &head->version, sizeof early);
    return head_is_early(head) ? early : head->cookie;
}

struct segment_layout head_layout(const struct segment_head *head)
{
    return (struct segment_layout){head->peers, {head->ring_cells, head->long_shift}};
}

/* Checks first whose head it is: pid and descriptor may belong to another endpoint by now,
 * whose version says nothing about the one that is searched. */
int head_check(const struct segment_head *head, size_t size, uint64_t cookie,
               uint64_t key_check)
{
    if ((head->magic != SEGMENT_MAGIC && !head_is_early(head)) || cookie_of(head) != cookie)
        return -ENOENT;
    if (head_is_early(head) || !version_is_understood(&head->version, SEGMENT_VERSION))
        return -EPROTONOSUPPORT;
    if (head->key_check != key_check)
        return -EACCES;
    if (!layout_is_valid(head_layout(head)) || size != layout_size(head_layout(head)))
        return -EPROTO;
    return 0;
}

int head_read(int fd, struct segment_head *head)
{
    ssize_t size = sys_pread(fd, head, sizeof *head, 0); /* the file offset is shared */

    if (size < 0)
        return errno == ESPIPE ? -ENOENT : -errno;
    return size == (ssize_t)sizeof *head ? 0 : -ENOENT;
}

int head_check_file(int fd, uint64_t cookie, uint64_t key_check, struct segment_head *head)
{
    size_t size = 0;
    int err = shared_file_check(fd, &size);

    if (err == 0)
        err = head_read(fd, head);
    return err != 0 ? err : head_check(head, size, cookie, key_check);
}
