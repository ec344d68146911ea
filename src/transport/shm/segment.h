/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h - the memory of one endpoint that others write to.
 *
 *   | control | ready bits | slot 0 .. slot n-1 | words | ring 0 | ring 1 | ... | ring n-1 |
 *
 * A slot and its ring belong to one sender at a time.  The file is sparse: a ring costs
 * memory from the moment when somebody writes to it.
 *
 *   slot   FREE ----> CLAIMED ----> READY ----> CLEARING ----> FREE    the sender has ended,
 *               sender        sender  |   receiver                     and all is delivered
 *                                     +--> REFUSED ----> CLEARING ----> FREE
 *                                  receiver       receiver
 *
 * The words are the core's (atomics.h): those that peers compare and swap, and behind them the
 * table, which the owner stores and peers load.
 *
 * The claim word of a slot holds state and pid together, so that one exchange claims it
 * and tells for whom.
 *
 * Who receives is the owner, or whoever has taken over from it (handoff.c).  So all that a
 * receiver must know to continue behind another one lies here: the state of the slot, and how
 * far its ring is delivered (segment_slot.taken, and ring.h's head).
 *
 * It is a memfd: it has no name, so nothing can be left behind.  Others open it as
 * /proc/<pid>/fd/<fd>.  It is sealed against shrinking and growing, so that a mapping
 * of it never loses its memory.  Within one process a segment is mapped once and
 * counted, so what holds between threads is visible to the tools that check threads.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/list.h"
#include "base/ring.h"
#include "transport/shm/alive.h"
#include "transport/transport.h"

#define SEGMENT_MAGIC     UINT64_C(0x34786f626863746d) /* "mtchbox4" */
#define SEGMENT_PEERS_MAX 65536u
#define SEGMENT_WORDS     1024u  /* for cswap() */
#define SEGMENT_TABLE     34816u /* words behind these, for load() */

enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_READY, SLOT_REFUSED, SLOT_CLEARING };

struct segment_slot {
    _Atomic uint64_t claim;           /* slot_claim(); zero is FREE */
    _Atomic uint64_t taken;           /* slot_taken(), kept up to date while handed over */
    uint64_t proof;                   /* that the sender knows the key */
    struct transport_address address; /* of the sender */
    uint64_t zero[5];
};

static_assert(sizeof(struct segment_slot) == 2 * CACHE_LINE, "a slot is two lines");

/* Constant once the segment can be found. */
struct segment_head {
    uint64_t magic;
    uint64_t cookie;
    uint64_t key_check; /* the owner knows the key */
    uint64_t size;
    uint32_t peers;
    uint32_t ring_cells;
    uint32_t needs_fence; /* the owner has no membarrier: senders fence themselves */
    uint32_t zero[5];
};

static_assert(sizeof(struct segment_head) == CACHE_LINE, "a line");

/* A count to sleep on; bell.h. */
struct segment_bell {
    _Atomic uint32_t count;
    _Atomic uint32_t sleeping; /* what of count its sleeper has seen, and a bit; or 0 */
};

enum segment_receiver {
    RECEIVER_OWNER,
    RECEIVER_NOBODY, /* the owner has handed over, and nobody has taken over */
    RECEIVER_OTHER
};

struct segment_control {
    struct segment_head head;

    alignas(CACHE_LINE) _Atomic uint32_t closed; /* the owner has gone */
    _Atomic uint32_t starved;                    /* a sender found no slot */

    alignas(CACHE_LINE) struct segment_bell doorbell; /* the receiver's: look at ready */

    alignas(CACHE_LINE) struct segment_bell owner; /* the owner's, while it does not receive */
    _Atomic uint64_t receiver; /* receiver_word(): written by the two halves only */

    alignas(CACHE_LINE) _Atomic uint64_t ready[]; /* bit i: look at slot i */
};

/* A mapped segment, with what was found good in its head.  The head is not read again. */
struct segment {
    struct segment_control *control;
    struct segment_slot *slots;
    _Atomic uint64_t *words; /* [SEGMENT_WORDS + SEGMENT_TABLE] */
    unsigned char *rings;
    size_t size;
    size_t ring_stride;
    uint64_t cookie;
    uint64_t key_check;
    uint32_t peers;
    uint32_t ring_cells;
    bool needs_fence;
    int fd;               /* of the owner, or who has taken over; else -1 */
    unsigned users;       /* in this process, the owner included */
    struct list in_local; /* while its owner is in this process and open */
};

struct segment_config {
    uint32_t peers;
    uint32_t ring_cells;
    uint64_t cookie;
    uint64_t key_check;
    bool needs_fence;
};

/* Makes a segment of ours.  System errors, -ENOMEM. */
int segment_create(const struct segment_config *config, struct segment **out);

/* Maps the segment at address.
 * 0; -ENOENT there is none (any more); -EACCES it has another key; -EPERM the kernel
 * denies it, or another user's (denied.h says why); -EPROTO it is none of ours, or damaged; other system errors, -ENOMEM. */
int segment_attach(const struct transport_address *address, uint64_t key_check,
                   struct segment **out);

/* Is it still there?  0; -ENOENT; other errors say nothing. */
int segment_probe(const struct transport_address *address);

/* As segment_attach(), and s->fd is valid: to receive in the owner's place. */
int segment_take_over(const struct transport_address *address, uint64_t key_check,
                      struct segment **out);

/* The owner's end: it can no longer be found.  Those who have mapped it keep it. */
void segment_close(struct segment *s);

/* Undoes segment_attach() and segment_take_over(). */
void segment_detach(struct segment *s);

/* Makes ring i empty and gives its memory back. */
void segment_clear_ring(struct segment *s, uint32_t i);

static inline struct ring *segment_ring(const struct segment *s, uint32_t i)
{
    return (struct ring *)(void *)(s->rings + i * s->ring_stride);
}

static inline uint64_t slot_claim(enum slot_state state, uint32_t pid)
{
    return (uint64_t)state << 32 | pid;
}

static inline enum slot_state slot_state_of(uint64_t claim)
{
    return (enum slot_state)(claim >> 32);
}

static inline uint32_t slot_pid_of(uint64_t claim)
{
    return (uint32_t)claim;
}

/* All in front of head is taken; the record at head may be, too: it was being delivered. */
static inline uint64_t slot_taken(uint64_t head, bool in_delivery)
{
    return head << 1 | in_delivery;
}

/* pid of who has taken over, else 0. */
static inline uint64_t receiver_word(enum segment_receiver receiver, uint32_t pid)
{
    return (uint64_t)receiver << 32 | pid;
}

static inline enum segment_receiver receiver_of(uint64_t word)
{
    return (enum segment_receiver)(word >> 32);
}

#endif
