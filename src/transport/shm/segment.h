/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h - the memory of an endpoint that its peers write to.
 *
 *   | control | ready bits | slot 0 .. slot n-1 | words | ring 0 | ... | ring n-1 | taken | buffers |
 *   |<-- control block: a sender maps it first >|<-- the rest: a sender maps it when needed
 *   -------->|
 *
 * The control block may be in another file, with the control blocks of the whole job
 * (directory.h), where its slots lie in parts; then only the head of the control block in this
 * file is used.
 *
 * A slot and its ring belong to one sender at a time.  The file is sparse: a ring takes memory
 * from the first write to it.
 *
 * The first packets of a sender go into its mailbox, a short ring in the slot itself: ten slots
 * share a page, so a pair that has hardly communicated costs 384 bytes, and no page and no page
 * table of its own.  When a packet finds no space there or is too long, or after
 * SEGMENT_MAILBOX_LIFE packets, the sender sets `moved` in the mailbox, rings, and continues in
 * its ring; the receiver follows when the mailbox is empty.  So the packets of a pair are
 * ordered as in one ring after another.  `closed` and `moved` are set only in the mailbox;
 * `head`, `armed` and `producer_waiting` in the ring that each side currently uses.
 *
 * Nobody reads the memory of slots that no sender has used: even a first read would cost a
 * page.  Senders take a free slot among the used ones, if there is one (control->left),
 * otherwise the next one, and before that set the number of used slots (control->used).
 *
 *   slot   FREE ---> RESERVED ----> READY ----> CLEARING ----> FREE    the sender has ended,
 *               sender        sender  |   receiver                     and all is delivered
 *                                     +--> REFUSED ----> CLEARING ----> FREE
 *                                  receiver       receiver
 *
 * The words belong to the core (atomics.h): first the words that peers compare and swap, then
 * the table, which the owner stores and peers load.
 *
 * The buffers are bounce buffers (bounce.c): the owner packs messages there, peers unpack them.
 *
 * The word `sender` of a slot holds state and process (a pid, or a number: passing.h) together,
 * so that one exchange reserves it and names its sender.
 *
 * The receiver is the owner, or the process that has taken over from it (handoff.c).  So
 * everything that a receiver must know to continue after another one lies here: the state of
 * the slot, and how far its ring is delivered (segment_slot.taken, and ring.h's head).
 *
 * The file is a memfd: it has no name, so nothing remains of it.  Others open it as
 * /proc/<pid>/fd/<fd>, or get its descriptor passed (passing.h).  It is sealed against
 * shrinking and growing, so that a mapping never loses its memory.  Within a process a segment
 * is mapped once and counted, so that thread checkers see the synchronization of threads.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/list.h"
#include "base/ring.h"
#include "transport/shm/alive.h"
#include "transport/shm/passing.h"
#include "transport/shm/rings.h"
#include "transport/transport.h"
#include "transport/version.h"

#define SEGMENT_MAGIC         UINT64_C(0x3a786f626863746d) /* "mtchbox:" */
#define SEGMENT_VERSION       12u /* of the layout; "mtchbox1" to "mtchbox8" had no mark */
#define SEGMENT_PEERS_MAX     65536u
#define SEGMENT_WORDS         1024u  /* for cswap() */
#define SEGMENT_TABLE         34816u /* words after these, for load() */

#define SEGMENT_BUFFERS       128u /* bounce buffers: bounce.c */
#define SEGMENT_BUFFER_SIZE   ((size_t)16 << 10)

#define SEGMENT_MAILBOX_CELLS 4u

/* Packets of one cell each that may be unread in a mailbox: one cell stays empty (ring.h). */
#define SEGMENT_MAILBOX_MOST (SEGMENT_MAILBOX_CELLS - 1)

/* After this many packets a sender goes on in its ring, where a packet takes fewer
 * instructions. */
#define SEGMENT_MAILBOX_LIFE 32u

enum slot_state { SLOT_FREE, SLOT_RESERVED, SLOT_READY, SLOT_REFUSED, SLOT_CLEARING };

/* Which buffers a sender may use: those below slot_buffers(), and this flag. */
#define SLOT_ALLOWED_FEW (UINT64_C(1) << 32) /* only few of them in rotation */

/* Glossary: slot - the part of a control block for one sender */
/* Mailbox: the short ring in a slot, for the first packets of a sender */
struct segment_slot {
    alignas(CACHE_LINE) struct transport_address address; /* of the sender */
    /* The mailbox, segment_mailbox(): the state of the ring (here), and its cells (below). */
    unsigned char mailbox_state[offsetof(struct ring, keeper)];
    /* In the space of the ring's keeper: */
    _Atomic uint64_t sender;  /* slot_word(); zero is FREE */
    _Atomic uint64_t taken;   /* slot_taken(), kept up to date while handed over */
    uint64_t proof;           /* proves that the sender knows the key */
    _Atomic uint64_t allowed; /* set by the receiver for the sender: slot_buffers() */
    uint32_t rank;            /* of the sender: transport_config.rank */
    uint32_t zero;
    unsigned char mailbox_cells[SEGMENT_MAILBOX_CELLS * RING_CELL_SIZE];
};

#define SEGMENT_MAILBOX_OFFSET offsetof(struct segment_slot, mailbox_state)

static_assert(SEGMENT_MAILBOX_OFFSET == CACHE_LINE, "the mailbox begins on a line");
static_assert(offsetof(struct segment_slot, mailbox_cells) ==
                  SEGMENT_MAILBOX_OFFSET + offsetof(struct ring, cells),
              "and its cells on the next one");
static_assert(sizeof(struct segment_slot) == 6 * CACHE_LINE, "ten slots are a page");

/* Constant once a peer can find the segment. */
struct segment_head {
    uint64_t magic;         /* magic, version and cookie have these places in all versions */
    struct version version; /* the owner's */
    uint64_t cookie;        /* in old versions without a mark, at the mark's place */
    uint64_t key_check;     /* proves that the owner knows the key */
    uint32_t peers;
    uint32_t ring_cells;
    uint16_t needs_fence; /* the owner has no membarrier: senders fence themselves */
    uint16_t long_shift;  /* with ring_cells: struct rings */
    uint32_t place;       /* the owner's descriptor of this file, as in its address */
    uint32_t block_place; /* its descriptor of the control block's file; 0: this file */
    uint32_t block_at;    /* the control block's place there, in DIRECTORY_UNITs */
    uint64_t host;        /* the owner's (base/host.h): that host can read its memory */
};

static_assert(offsetof(struct segment_head, version) == 8, "of all versions");
static_assert(offsetof(struct segment_head, cookie) == 16, "of all versions");
static_assert(sizeof(struct segment_head) == CACHE_LINE, "a line");

/* A count to sleep on: bell.h. */
struct segment_bell {
    _Atomic uint32_t count;
    _Atomic uint32_t sleeping; /* the count that its sleeper has seen, and a bit; or 0 */
};

enum segment_receiver {
    RECEIVER_OWNER,
    RECEIVER_NOBODY, /* handed over, and not taken over yet */
    RECEIVER_OTHER
};

/* Control block: the part of a segment that a sender needs first: control, ready bits and slots */
struct segment_control {
    struct segment_head head;

    alignas(CACHE_LINE) _Atomic uint32_t closed; /* the owner has closed */
    _Atomic uint32_t starved;                    /* a sender found no slot */
    _Atomic uint32_t used; /* no slot from this number on was ever reserved */
    _Atomic uint32_t left; /* about this many of the slots before it are free again */
    uint32_t rank;         /* of the owner: transport_config.rank */

    /* The owner's address, once its control block has a label (directory.h). */
    alignas(CACHE_LINE) struct transport_address address;

    alignas(CACHE_LINE) struct segment_bell doorbell; /* the receiver's bell: look at ready */

    alignas(CACHE_LINE) struct segment_bell owner; /* the owner's, while not receiving */
    _Atomic uint64_t receiver; /* receiver_word(): written by the two halves only */

    alignas(CACHE_LINE) _Atomic uint64_t ready[]; /* bit i: look at slot i */
};

/* Glossary: segment - the shared memory in which one endpoint receives */
/* A segment that was found, with the validated values of its head.  The head is not read again.
 * An endpoint has one for each endpoint that it sends to; most of these need only the control
 * block. */
struct segment {
    struct segment_control *control;
    struct segment_slot *slots; /* only the first slots: segment_slot() */
    struct segment_file *file;  /* NULL: nothing of its file is mapped */
    uint32_t peers;
    uint32_t ring_cells;
    unsigned users; /* in this process, including the owner */
    bool needs_fence : 1;
    bool is_apart : 1;    /* control and slots are not in file */
    uint8_t long_shift;   /* with ring_cells: segment_rings() */
    uint16_t first_slots; /* is_apart: the number of slots in the first part */
};

static_assert(sizeof(struct segment) <= 40, "what malloc makes 48 bytes of");

/* The file of a segment.  The part after the slots is NULL if only the control block is mapped. */
struct segment_file {
    _Atomic uint64_t *words; /* [SEGMENT_WORDS + SEGMENT_TABLE] */
    unsigned char *rings;
    _Atomic uint32_t *taken; /* [SEGMENT_BUFFERS] */
    void *base;              /* the mapping, or NULL */
    size_t size;             /* of the file */
    size_t mapped;           /* bytes mapped: none, up to the end of the slots, or all */
    void *block; /* the mapping of only the control block, in another file; or NULL */
    struct directory *directory; /* has the owner's control block; or NULL */
    uint32_t block_at;           /* the place there */
    int fd;                      /* for the owner, or after a take_over(); otherwise -1 */
    uint64_t cookie;
    uint64_t key_check;
    uint64_t host;
    struct segment *owned; /* the segment, while its owner is open in this process; and */
    struct list in_local;
};

#define SEGMENT_PAGE ((size_t)4096)

struct segment_config {
    uint32_t peers;
    struct rings rings;
    uint64_t cookie;
    uint64_t key_check;
    uint64_t host;
    bool needs_fence;
    uint32_t rank; /* transport_config.rank */
    uint64_t job;  /* whose directory to use; 0: none, or a directory of its own */
};

/* Makes a segment for this endpoint.  System errors, -ENOMEM. */
int segment_create(const struct segment_config *config, struct segment **out);

/* Where to look for a segment.  The caller holds directory until segment_detach(), and finally
 * calls passing_forget() for request. */
struct segment_source {
    const struct transport_address *address;
    uint64_t key_check;
    struct directory *directory; /* of our job, or NULL */
    struct passing_request
        *request; /* zero at first, for a segment that is passed (passing.h) */
};

enum segment_extent {
    SEGMENT_BLOCK,     /* up to the slots: to send few packets */
    SEGMENT_ALL,       /* the rings, words and buffers as well */
    SEGMENT_TO_RECEIVE /* all, and file->fd is valid: to receive instead of the owner */
};

/* If *s is NULL, opens the segment at from->address up to `extent`; otherwise maps what is
 * missing of *s, which was opened from there (all its memory may then move).  0; -ENOENT there
 * is none (any more); -EACCES it has another key; -EPERM the kernel denies it, or it is another
 * user's (denied.h says why); -EPROTO it is not a segment, or damaged; -EPROTONOSUPPORT it is
 * of another version of the library, which the log names; -EAGAIN its owner has not passed it
 * yet; -EINVAL it is passed, so nobody can receive instead of its owner; other system errors,
 * -ENOMEM.  After an error *s is unchanged. */
int segment_open(const struct segment_source *from, enum segment_extent extent,
                 struct segment **s);

/* Lets others of the job find address, the address of our segment s, by this label.  0;
 * -ENOTSUP the job has no directory, or s is not in it; -EEXIST an open endpoint has this
 * label; -ENOSPC. */
int segment_share(struct segment *s, uint64_t label, const struct transport_address *address);

/* The address that has been shared with this label in the job of our segment s; it is not
 * validated.  0; -ENOENT. */
int segment_find(const struct segment *s, uint64_t label, struct transport_address *address);

/* Calls pass(arg, descriptor) for this process's segment with this cookie, and returns its
 * result; -ENOENT there is none, -EACCES it has another key check. */
int segment_pass(uint64_t cookie, uint64_t key_check, int (*pass)(void *arg, int fd),
                 void *arg);

/* Does this process have an open segment with this cookie? */
bool segment_is_open(uint64_t cookie);

/* Is its whole file mapped? */
static inline bool segment_has_all(const struct segment *s)
{
    return s->file != NULL && s->file->mapped == s->file->size;
}

/* Does its owner run on this host (base/host.h)?  A segment in the job's directory has the host
 * of its address, which is ours, or segment_open() would have refused it. */
static inline bool segment_is_of_host(const struct segment *s, uint64_t host)
{
    return s->file == NULL || s->file->host == host;
}

/* Does the segment still exist?  0; -ENOENT; other errors say nothing. */
int segment_probe(const struct transport_address *address);

/* The owner closes: the segment can no longer be found.  Processes that have mapped it keep
 * it. */
void segment_close(struct segment *s);

/* Undoes segment_open(). */
void segment_detach(struct segment *s);

/* Adds a user of a mapped segment, until segment_detach().  Returns it. */
struct segment *segment_hold(struct segment *s);

/* Empties ring i and its mailbox, and gives the memory of the ring back. */
void segment_clear_ring(struct segment *s, uint32_t i);

static inline struct rings segment_rings(const struct segment *s)
{
    return (struct rings){s->ring_cells, s->long_shift};
}

/* The cells of ring i. */
static inline uint32_t segment_ring_cells(const struct segment *s, uint32_t i)
{
    return rings_place(segment_rings(s), i).cells;
}

static inline struct ring *segment_ring(const struct segment *s, uint32_t i)
{
    assert(s->file->rings != NULL);
    return (struct ring *)(void *)(s->file->rings + rings_place(segment_rings(s), i).offset);
}

/* Buffer i; the buffers follow the words that say which are taken, and all begin on a page. */
static inline unsigned char *segment_buffer(const struct segment *s, uint32_t i)
{
    assert(s->file->taken != NULL && i < SEGMENT_BUFFERS);
    return (unsigned char *)s->file->taken + SEGMENT_PAGE + i * SEGMENT_BUFFER_SIZE;
}

/* Slot i, in a later part of a control block that is_apart. */
struct segment_slot *segment_far_slot(const struct segment *s, uint32_t i);

static inline struct segment_slot *segment_slot(const struct segment *s, uint32_t i)
{
    return likely(i < s->first_slots || !s->is_apart) ? &s->slots[i] : segment_far_slot(s, i);
}

static inline struct ring *segment_mailbox(const struct segment *s, uint32_t i)
{
    return (struct ring *)(void *)((unsigned char *)segment_slot(s, i) +
                                   SEGMENT_MAILBOX_OFFSET);
}

/* Slots from this number on are free, and their memory may not exist yet. */
static inline uint32_t segment_slots_used(const struct segment *s)
{
    uint32_t used = atomic_load(&s->control->used);

    return used < s->peers ? used : s->peers;
}

static inline uint64_t slot_word(enum slot_state state, uint32_t process)
{
    return (uint64_t)state << 32 | process;
}

static inline enum slot_state slot_state_of(uint64_t word)
{
    return (enum slot_state)(word >> 32);
}

static inline uint32_t slot_sender_of(uint64_t word)
{
    return (uint32_t)word;
}

/* How many buffers, the first ones, the sender may use, by segment_slot.allowed, which another
 * process wrote. */
static inline uint32_t slot_buffers(uint64_t allowed)
{
    return (uint32_t)min_size((uint32_t)allowed, SEGMENT_BUFFERS);
}

/* Everything before head is taken, in the ring, or in the mailbox if the receiver has not
 * moved.  The record at head may also be taken: it was being delivered. */
static inline uint64_t slot_taken(uint64_t head, bool has_moved, bool in_delivery)
{
    return head << 2 | (uint64_t)has_moved << 1 | in_delivery;
}

static inline uint64_t taken_head(uint64_t taken)
{
    return taken >> 2;
}

static inline bool taken_has_moved(uint64_t taken)
{
    return (taken & 2) != 0;
}

static inline bool taken_in_delivery(uint64_t taken)
{
    return (taken & 1) != 0;
}

/* pid of the process that has taken over, otherwise 0. */
static inline uint64_t receiver_word(enum segment_receiver receiver, uint32_t pid)
{
    return (uint64_t)receiver << 32 | pid;
}

static inline enum segment_receiver receiver_of(uint64_t word)
{
    return (enum segment_receiver)(word >> 32);
}

#endif
