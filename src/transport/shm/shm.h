/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.h - the parts of a shared memory endpoint; only for this folder.
 *
 *   our process                                  theirs
 *   shm_link (one per address)
 *     remote  -----------------------------------> their segment
 *     out     -----------------------------------> the ring of the slot that we reserved, or its
 *                                                  mailbox
 *
 *   shm.own segment
 *     slot i, ring i  <--------------------------- their shm_link
 *     inbound[i]      how far we have read it, and the link to answer through
 *
 * rings.h says which ring a pair gets, segment_open() opens the memory that peers write to;
 * shm.c opens and closes, shm_packets.c sends and receives, shm_wait.c waits; link.c makes and
 * ends the sending side of a pair, inbound.c the receiving side; cma.c, words.c, bounce.c and
 * handoff.c are the tables of memory.h, atomics.h, bounce.h and handoff.h.
 *
 * Invariants
 *   I1  inbound[i] is NULL, or slot i was READY when we looked
 *   I2  hot[0 .. hot_count) are the inbounds with hot set; exactly these have ring->armed == 0,
 *       outside of shm_wait()
 *   I3  link.out is valid if and only if link_has_slot(): link.remote then is not NULL, and the
 *       slot in it is ours; out is its mailbox if link.state is STARTING or CRAMPED. link.asked
 *       is valid if and only if link.remote is NULL
 *   I4  a link is on blocked if and only if its state is CRAMPED, FULL or STARVED
 *   I5  if role is HANDED_OVER every inbound[i] is NULL
 *   I6  inbound[i].ring is the mailbox of slot i, or its ring if inbound_has_moved(); it does
 *       not move before the mailbox is empty
 *   I7  inbound[i] is NULL from inbound_end on
 *   I8  link.presence only grows; if link.remote is not NULL it is at least PRESENCE_MET
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "base/clock.h"
#include "base/list.h"
#include "transport/compose.h"
#include "transport/link_table.h"
#include "transport/shm/bell.h"
#include "transport/shm/segment.h"

#define SHM_DOUBT_NS   CLOCK_MS         /* until armed rings are looked at again: bell.h */
#define SHM_SWEEP_NS   (100 * CLOCK_MS) /* between checks for dead peers */
#define SHM_TEND_POLLS 1024             /* polls between checks for idle rings and dead peers */

enum link_state {
    LINK_IDLE,     /* nothing sent yet, no slot reserved */
    LINK_STARTING, /* sends into a mailbox: few packets yet */
    LINK_CRAMPED,  /* no memory to map the ring that follows the mailbox: try again */
    LINK_OPEN,     /* sends into a ring */
    LINK_FULL,     /* the last packet found no space in the ring */
    LINK_STARVED,  /* no slot, or no memory or descriptor to open it: try again */
    LINK_DEAD      /* permanent: link.error */
};

/* Knowledge of the other side, whatever the state of the link; in increasing order. */
enum link_presence {
    PRESENCE_UNKNOWN, /* never seen */
    PRESENCE_MET,     /* it was there once: its segment, or a packet from it */
    PRESENCE_CLOSED,  /* its segment, or its mailbox here, says that it has closed */
    PRESENCE_LOST     /* its packets ended, and not because it closed */
};

/* There is one for each pair of endpoints of a machine, so a large job pays for its size. */
struct shm_link {
    struct link link; /* of the core */
    /* From the other side's address, which link_check_address() has accepted.  The core has the
     * complete address: the rest follows from our own address, or is in the proof. */
    uint64_t cookie;
    uint64_t proof; /* its owner's, for the cookie and the network's fields */
    uint32_t process, place;
    uint32_t credit;
    union {
        uint32_t slot; /* if link_has_slot() */
        uint32_t rank; /* DEAD: transport_who.rank */
    };
    uint8_t state;        /* enum link_state */
    uint8_t presence : 2; /* enum link_presence */
    bool fence : 1;       /* see bell_publish_barrier() */
    bool named : 1;   /* the core knows it: through connect(), or an accept() that returned 0 */
    bool warned : 1;  /* that there is no slot, or no way to map their segment */
    uint16_t refused; /* FULL: refused sends since there was space */
    union {
        int error;       /* of a DEAD link */
        uint32_t wanted; /* FULL: size of the packet that found no space */
    };
    union {
        struct ring_producer out;     /* if link_has_slot() */
        struct passing_request asked; /* while remote is NULL: the request for its descriptor */
    };
    struct segment *remote;       /* NULL: not attached */
    struct bounce_sender *sender; /* while packets may name buffers of remote; otherwise NULL */
    struct list in_blocked;
    uint64_t checked_ns; /* when the owner was last seen alive, for reads */
};

static_assert(sizeof(struct shm_link) <= 136, "what malloc makes 144 bytes of");

/* The other side of a link, if we may read its bounce buffers. */
struct bounce_sender {
    struct segment *segment; /* the link's remote, held */
    struct list in_senders;
    uint64_t allowed;  /* the value in our slot for it */
    uint32_t resident; /* how many of its buffers are resident here: */
    bool is_resident[SEGMENT_BUFFERS];
};

enum inbound_state {
    INBOUND_NEW,    /* not yet introduced to the core, or its next packet may be a repeat */
    INBOUND_OPEN,   /* deliver */
    INBOUND_REFUSED /* read nothing; wait until the sender ends */
};

/* Where the sender's packets are, and whether more will follow there; in increasing order. */
enum inbound_stage {
    INBOUND_IN_MAILBOX,
    INBOUND_IN_RING,
    INBOUND_LEAVES_MAILBOX,  /* nothing more in the mailbox: the sender has moved to the ring */
    INBOUND_ENDS_IN_MAILBOX, /* the sender has closed or is dead: nothing more */
    INBOUND_ENDS_IN_RING
};

/* Hot ring: a ring that the receiver polls; the sender of any other ring rings the doorbell */
/* There is one for each pair, as of links. */
struct inbound {
    struct ring_consumer ring;
    struct shm_link *answer; /* OPEN: the link to the sender */
    uint32_t slot;
    uint32_t repeat_head; /* may_repeat: the low bits of the head of the record that may have
                           * been delivered already */
    uint8_t state;        /* enum inbound_state */
    bool may_repeat;
    bool hot;
    uint8_t stage; /* enum inbound_stage */
    bool flowing;  /* the last poll delivered something */
    bool busy;     /* something came since the last inbound_cool_idle() */
};

static_assert(sizeof(struct inbound) <= 72, "what malloc makes 80 bytes of");

/* The part of its segment that a transport object uses: handoff.c. */
enum shm_role {
    SHM_WHOLE,       /* the owner: all of it */
    SHM_HANDED_OVER, /* the owner: all except the receiving half */
    SHM_RECEIVER     /* a process that has taken over: the receiving half */
};

struct shm {
    struct transport
        base; /* hint: the next record of the only hot ring; the bell's count, and how
                            * much of it was answered; and the polls until shm_packets_tend() */
    const struct transport_events *events;
    void *arg;
    struct segment_bell *bell; /* our bell, in own; shm_hear() */
    struct inbound **hot;      /* [peers] */
    uint32_t hot_count;
    uint32_t turn;                   /* where poll starts in hot */
    struct segment *own;             /* RECEIVER: the segment that we receive for */
    struct segment_control *control; /* own->control */
    struct inbound **inbound;        /* [peers], by slot */
    uint32_t inbound_end;            /* all inbounds have slots below this number */
    struct link_table links;
    struct list blocked;
    struct shm_link *taken_for[SEGMENT_BUFFERS]; /* buffers of own; NULL: free */
    uint32_t bounce_next;
    uint32_t bounce_rotation;         /* how many buffers are used in rotation */
    struct list senders;              /* bounce_sender.in_senders */
    uint32_t senders_read;            /* senders with resident buffers */
    uint32_t resident;                /* resident buffers of all senders, */
    uint32_t resident_most;           /* and their limit */
    struct transport_address address; /* RECEIVER: of own */
    uint32_t process; /* ours, a pid or a number (passing.h); RECEIVER: not address.process */
    uint64_t host;    /* base/host.h, whatever the address says */
    enum shm_role role;
    struct transport_ops ops; /* for RECEIVER, base.ops points here */
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint64_t key_check; /* of our own segment */
    bool fence;         /* membarrier does not reach us (yet), or is missing: use real fences */
    bool registers;     /* membarrier will reach us soon (bell_register()) */
    bool attach;        /* cross-memory attach allowed */
    bool passes; /* segments are passed as descriptors, and process is a number: passing.h */
    bool has_warned_hosts; /* has warned that memory of other namespaces cannot be read */
    bool doubt;            /* something was armed, and is to be looked at again: bell.h */
    uint64_t doubt_since_ns, doubt_last_ns; /* when the first and the last were armed */
    uint64_t swept_ns;
    uint32_t sweep_slot;
    size_t sweep_link;
};

static inline struct shm *shm_of(const struct transport *t)
{
    return container_of(t, struct shm, base);
}

static inline struct shm_link *link_of(struct link *link)
{
    return container_of(link, struct shm_link, link);
}

static inline bool inbound_has_moved(const struct inbound *in)
{
    return in->stage == INBOUND_IN_RING || in->stage == INBOUND_ENDS_IN_RING;
}

/* Will nothing follow in the ring where the sender's packets are now? */
static inline bool inbound_is_last(const struct inbound *in)
{
    return in->stage >= INBOUND_LEAVES_MAILBOX;
}

/* Will nothing follow in any ring? */
static inline bool inbound_is_ending(const struct inbound *in)
{
    return in->stage >= INBOUND_ENDS_IN_MAILBOX;
}

/* Records what was learnt of the other side; less than before changes nothing. */
static inline void link_learn(struct shm_link *link, enum link_presence presence)
{
    if (link->presence < presence)
        link->presence = presence;
}

/* Does the other side have a slot of ours? */
static inline bool link_has_slot(const struct shm_link *link)
{
    return link->state == LINK_STARTING || link->state == LINK_CRAMPED ||
           link->state == LINK_OPEN || link->state == LINK_FULL;
}

/* The process on the other side: a pid, or a number (passing.h).  Addresses and slots name it
 * like this. */
static inline uint32_t link_sender(const struct shm_link *link)
{
    return link->process;
}

/* The other side's pid, for the log and for system calls; in its own namespace, if descriptors
 * are passed.  Never compared. */
static inline uint32_t link_pid(const struct shm_link *link)
{
    return passing_is_number(link->process) ? link->place : link->process;
}

/* Slots from this number on are free, by the senders' count, and we have no inbound there. */
static inline uint32_t shm_slots(const struct shm *shm)
{
    uint32_t used = segment_slots_used(shm->own);

    return used > shm->inbound_end ? used : shm->inbound_end;
}

/* From now on we listen to this bell. */
static inline void shm_hear(struct shm *shm, struct segment_bell *bell)
{
    shm->bell = bell;
    shm->base.hint.bell = &bell->count;
}

/* ---- shm.c ---- */

/* An endpoint without a segment.  NULL: no memory. */
struct shm *shm_create(const struct transport_config *config);

/* Makes it usable, after address and own were set.  0; -ENOMEM. */
int shm_enter(struct shm *shm, const struct transport_config *config);

/* Undoes shm_create() and shm_enter(), except for own: frees links, tables, memory. */
void shm_destroy(struct shm *shm);

/* Do the invariants of this file hold?  With MBX_CHECKS. */
bool shm_is_valid(const struct shm *shm);
bool link_is_valid(const struct shm_link *link);

/* ---- shm_packets.c: functions of transport_ops and transport_compose ---- */

int shm_send(struct link *l, const struct transport_packet *packet);
int shm_send_eager(struct link *l, uint32_t context_id, uint64_t tag, uint64_t data,
                   const void *payload, size_t size);
int shm_compose(struct link *l, const struct transport_packet *packet, transport_fill_fn *fill,
                void *arg);

int shm_poll(struct transport *t, int budget);

/* shm_poll() that records in the segment how far it has come: the poll() of a RECEIVER. */
int shm_poll_marking(struct transport *t, int budget);

/* Checks for dead senders, if it is time.  The first call only starts the clock: a sender that
 * has just been met is alive.  True if a dead one was found. */
bool shm_sweep(struct shm *shm, uint64_t now);

/* Has the bell rung since it was last answered? */
static inline bool shm_bell_rang(const struct shm *shm)
{
    /* pairs with the increment in bell_count(): the ready bits */
    return atomic_load_explicit(&shm->bell->count, memory_order_acquire) != shm->base.hint.seen;
}

/* ---- shm_wait.c: as transport_ops.wait and .wake ---- */

int shm_wait(struct transport *t, int64_t timeout_ns);
void shm_wake(struct transport *t);

/* ---- bounce.c ---- */

/* The link has ended: frees the buffers that its other side has. */
void bounce_forget(struct shm *shm, const struct shm_link *link);
/* No later packet of the other side names a buffer. */
void bounce_let_go(struct shm_link *link);
/* Initialises: no senders, no limit.  second_cache: of a core; 0: unknown. */
void bounce_init(struct shm *shm, size_t second_cache);
/* Does a second cache of this size hold all buffers? */
bool bounce_fits(size_t second_cache);
/* How many buffers are used in rotation, with this second cache of a core; 0: unknown. */
uint32_t bounce_rotation(size_t second_cache);

/* ---- cma.c, words.c, bounce.c, handoff.c ---- */

extern const struct transport_memory shm_memory;
extern const struct transport_atomics shm_atomics;
extern const struct transport_bounce shm_bounce;
extern const struct transport_handoff shm_handoff;

/* ---- link_name.c ---- */

/* The proof that a sender to the segment with this cookie knows the key. */
uint64_t shm_proof(const struct shm *shm, uint64_t cookie,
                   const struct transport_address *sender);

/* The proof that the owner of the segment at address knows the key, and that nobody has changed
 * the address fields that only the network uses. */
uint64_t shm_owner_proof(const struct shm *shm, const struct transport_address *owner);

/* Can packets to this address use shared memory?  0; -EINVAL no address of this transport;
 * -EHOSTUNREACH of another machine. */
int link_check_address(const struct shm *shm, const struct transport_address *address);

/* The address of the other side, without the network's fields. */
struct transport_address link_address(const struct shm_link *link);

/* Finds or makes the link to address.  0; -EINVAL, -EHOSTUNREACH, -ENOMEM. */
int link_get(struct shm *shm, const struct transport_address *address, struct shm_link **out);

/* Is this the address of the link's other side, whatever the credit? */
bool link_has_address(const struct shm *shm, const struct shm_link *link,
                      const struct transport_address *address);

/* How links are named in shm.links. */
extern const struct link_naming link_naming;

/* ---- link.c ---- */

/* Maps the other side's segment if needed.  0; -EAGAIN; or the link is DEAD and this is its
 * error. */
int link_attach(struct shm_link *link);

/* Like link_attach(), but maps all of it, not only up to the slots. */
int link_attach_all(struct shm_link *link);

/* Makes a link that is not OPEN ready for a packet of size bytes, or returns an error of
 * send(). */
int link_prepare(struct shm_link *link, uint32_t size);

/* The ring is full: makes the link FULL or DEAD.  Returns the error for send(). */
int link_full(struct shm_link *link, uint32_t size);

/* As transport_ops.check. */
int link_check(struct shm_link *link);

/* As transport_ops.who. */
struct transport_who link_who(const struct shm_link *link);

/* After a packet: the receiver has armed the ring, or has ended.  0, also if it has ended after
 * taking the packet; or the error for send(). */
int link_armed(struct shm_link *link);

/* Ends the link: nothing can be sent any more. */
int link_kill(struct shm_link *link, int error);

/* Is there space for a packet that found none?  link_ask_for_space() asks receivers to
 * notify. */
bool link_has_space(struct shm *shm);
bool link_ask_for_space(struct shm *shm); /* true if it asked any */

/* Checks whether the owners of up to `limit` links, the next ones in turn, are alive.  True if
 * one was not. */
bool link_sweep(struct shm *shm, uint32_t limit);

/* Ends the link if its other side has closed. */
void link_let_go(struct shm_link *link);

/* As transport_ops.is_over: the other side has closed, and has no slot here any more. */
bool link_is_over(struct shm_link *link);

/* Frees the link itself. */
void link_destroy(struct shm_link *link);

/* ---- inbound.c ---- */

/* The bell rang for slot. */
void inbound_ring(struct shm *shm, uint32_t slot);

/* Records in the segment how far `in` is delivered; in_delivery: its next record is being
 * delivered. */
static inline void inbound_mark(struct shm *shm, const struct inbound *in, bool in_delivery)
{
    /* compiler barriers before and after deliver(): a receiver that continues after our death
     * sees all that we did */
    atomic_signal_fence(memory_order_seq_cst);
    /* pairs with the acquire in inbound.c's resume() */
    atomic_store_explicit(&segment_slot(shm->own, in->slot)->taken,
                          slot_taken(in->ring.head, inbound_has_moved(in), in_delivery),
                          memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

/* May the previous receiver have delivered the next record already? */
static inline bool inbound_repeats(const struct inbound *in)
{
    return in->may_repeat && (uint32_t)in->ring.head == in->repeat_head;
}

/* Gives up all rings, so that another receiver can continue each of them. */
void inbound_leave_all(struct shm *shm);

/* Makes the next poll look at all slots: the previous receiver's slots are now ours. */
void inbound_adopt_all(struct shm *shm);

/* Called with a record waiting, if state is not OPEN.  True: the record may be delivered. */
bool inbound_introduce(struct shm *shm, struct inbound *in);

/* Has the sender set `closed`? */
static inline bool inbound_has_closed(const struct shm *shm, const struct inbound *in)
{
    /* pairs with the release in link_release(): all its packets are there */
    return atomic_load_explicit(&segment_mailbox(shm->own, in->slot)->closed,
                                memory_order_acquire) != 0;
}

/* The ring is empty: ends `in` if the sender has ended or the ring is broken.  True if `in` has
 * moved on to its ring instead, which may have packets. */
bool inbound_settle(struct shm *shm, struct inbound *in);

/* Notifies the sender, which waits for space, that there is some. */
void inbound_wake_producer(struct inbound *in);

/* Stops polling rings that have been idle for a while, if there are many. */
void inbound_cool_idle(struct shm *shm);

/* Arms all hot rings.  After bell_arm_barrier(): retire them all, or disarm them. */
void inbound_arm_all(struct shm *shm);
void inbound_disarm_all(struct shm *shm);
void inbound_retire_all(struct shm *shm);

/* Something was armed before now, and must be looked at again.  The time is read after the
 * barrier, so that earlier delays do not count. */
void inbound_doubt(struct shm *shm, uint64_t now);

/* Nanoseconds until that look, if shm->doubt. */
uint64_t inbound_doubt_left(const struct shm *shm, uint64_t now);

/* The second look of bell.h, if it is due: makes cool rings with packets in them hot.  True if
 * there was one. */
bool inbound_recheck(struct shm *shm, uint64_t now);

/* Does a hot ring have packets, or need inbound_settle()? */
bool inbound_any(const struct shm *shm);

/* Checks whether the senders of up to `limit` slots, the next ones in turn, are alive.  True if
 * one was not. */
bool inbound_sweep(struct shm *shm, uint32_t limit);

/* We close: tells senders that nobody reads any more. */
void inbound_close_all(struct shm *shm);

#endif
