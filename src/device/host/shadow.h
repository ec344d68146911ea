/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow.h - the software half of split matching: one order across host and device.
 *
 * The shadow list is the posted receive queue itself: every receive that has met no message is
 * in its owner's matching engine, handed over or not.  This file keeps where else the receive
 * is:
 *
 *   shadow_post      queued in the engine
 *      │ stays: too small, or the device cannot hold such a receive, or has one with the same
 *      ├──────────> SOFTWARE      memory, or an earlier one that stays fits the same messages
 *      v
 *   WAITING ─space──> HANDED ──── MATCHED ────> owner's matched()
 *      │                │   └──── shadow_taken(): a message that the device could not match
 *      │                │         has met it; the revoke goes first, then the message counts
 *      │                v          as handled
 *      ├─cancel─┐   REVOKING ──── REVOKED ────> owner's revoked()
 *      └─reclaim┤   RECLAIMED └──── MATCHED ────> owner's matched(): it came too late
 *               v
 *             (gone)
 *
 * A receive that finds its message when it is posted is PAIRED at most: held.h.
 *
 * A cancel and a reclaim both ask the device for a receive, and wait for its answer.  The user
 * cancels.  The host reclaims, for a message that does not come through the device and could
 * otherwise match the receive meanwhile: bypass.h does so for a message of another path,
 * shadow_reclaim() for any other.
 *
 * Receives are handed over in posting order, and a receive never passes an earlier one that
 * stays in software and accepts one of its messages.  So for every message, the receives that
 * the device holds are the head of the list of receives that accept it.
 *
 * The owner calls shadow_poll(), which gives every unexpected message to the owner.  The owner
 * compares it with the whole shadow list (its engine) and keeps it or gives it to a receive
 * before the call returns: then it counts as handled.  Posting (search of the unexpected queue,
 * entry into the engine, append) and this are one critical section, because the owner has one
 * thread, or one lock.
 *
 * Invariants
 *   I1  handled never counts a message before the owner's unexpected() has returned 0, nor
 *       before the revoke of the receive that it met has been called
 *   I2  a slot is free when no later event can name its handle: it is OVER and no REVOKED will
 *       come
 *   I3  waiting is in posting order; it is empty while a slot is free, the device takes
 *       commands and no message is parked
 *   I4  receives that are SOFTWARE or RECALLED are counted in the filter, no others are
 *   I5  recalled receives leave the device one by one, the youngest first.  Until they have
 *       left, the receives in the device are still the head of the list for every message, and
 *       no receive is handed over that accepts a message that a leaving one accepts
 */
#ifndef DEVICE_HOST_SHADOW_H
#define DEVICE_HOST_SHADOW_H

#include <matchbox/device.h>
#include <matchbox/match.h>

#include "base/list.h"
#include "core/parts.h"

/* A message of another path; its owner allocates it. */
struct shadow_message {
    struct mbx_match_envelope envelope;
    struct list node;         /* on parked */
    struct shadow_recv *recv; /* reclaimed for it, or NULL */
};

struct shadow_events {
    /* The device has matched recv with the message of event->envelope.  Unless the owner has
     * asked for recv back, recv is still in the engine, and the owner takes it out now. */
    void (*matched)(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event);
    /* The end of a match without WHOLE: DATA_VALID, INCOMPLETE, or LOST if the device was lost
     * before.  Unless recv->is_sized, the first two report the size and what else MATCHED left
     * out; with LOST these stay unknown. */
    void (*moved)(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event);
    /* A cancel was in time, or a reclaim by shadow_reclaim(). */
    void (*revoked)(void *arg, struct shadow_recv *recv);
    /* A packet.  If it is an unexpected message, the owner compares it with the whole shadow
     * list.  0, or -EAGAIN: a later poll offers it again, before anything else. */
    int (*packet)(void *arg, uint32_t peer, const void *packet, size_t size);
    /* Does this peer exist?  Events of unknown peers are not passed on.  NULL: all peers
     * exist. */
    bool (*knows)(void *arg, uint32_t peer);
    /* find, met and keep are for messages of another path, and work as mbx_match_find() and
     * mbx_match_keep().  find: the receive that the message meets, taken out of its engine, or
     * NULL. */
    struct shadow_recv *(*find)(void *arg, struct shadow_message *message);
    /* message has met recv, which find() returned for it earlier.  Both belong to the owner. */
    void (*met)(void *arg, struct shadow_message *message, struct shadow_recv *recv);
    /* message has met no receive, as find() has just found, and stays unexpected. 0: it belongs
     * to the owner; or an error: a later poll calls find() and keep() again. */
    int (*keep)(void *arg, struct shadow_message *message);
    /* recv, given to held_post(), gets this message, given to held_keep(). */
    void (*paired)(void *arg, struct shadow_recv *recv, void *message);
    /* The device may not have sent this FIN: the owner is to send it, perhaps a second time. */
    void (*owed)(void *arg, uint32_t peer, uint64_t sender);
    /* The device is gone, or has broken its contract: it must not begin anything after this
     * returns.  Called once.  Its events are polled as before, up to the last one, LOST, after
     * which the device touches nothing.  Then moved() with LOST and revoked() report the
     * receives that the device had matched or was asked for; all others are software's
     * again. */
    void (*lost)(void *arg);
};

struct shadow_config {
    struct mbx_device *device; /* configured here; the caller closes it after shadow_fini */
    uint32_t list, untagged;   /* 0: as much as the device has */
    uint64_t threshold;        /* receives with smaller buffers stay in software */
    bool holds;                /* the device is given unexpected messages to hold, if it can */
    const struct shadow_events *events;
    void *arg;
};

struct shadow_stats {
    uint64_t handed;                      /* receives handed over */
    uint64_t matched;                     /* of these, matched by the device */
    uint64_t taken;                       /* taken back for a message that came before */
    uint64_t cancels_won, cancels_lost;   /* cancels of receives that the device held */
    uint64_t reclaims_won, reclaims_lost; /* reclaims of receives that the device held */
    uint64_t overlapped;                  /* kept: an earlier one that stays overlaps */
    uint64_t clashed;                     /* kept: the device has one with this memory */
    uint64_t waited;                      /* had to wait for space, or for a parked message */
    uint64_t parked;                      /* messages of another path that had to wait */
    uint64_t passed;                      /* unexpected messages passed to software */
    uint64_t syncs;                       /* SYNC commands */
    uint64_t incomplete;                  /* rendezvous that software had to finish */
    uint64_t held, held_matched, unheld; /* messages given to hold; matched there; taken back */
    uint64_t waiting, waiting_max, in_device, in_device_max;
};

#define SHADOW_FILTER  1024
#define SHADOW_SOURCES 64

/*
 * The events that the device still owes for an entry, besides the answer to a revoke.
 *
 *   state         command or event              next
 *   OVER          append                        HELD
 *   HELD          REVOKED; or MATCHED, WHOLE    OVER, or OWES if a FIN is wanted
 *                 MATCHED                       MOVING, or MOVING_OWES
 *   MOVING        DATA_VALID, INCOMPLETE        OVER
 *   MOVING_OWES   DATA_VALID                    OWES
 *                 FIN_SENT                      MOVING
 *                 INCOMPLETE                    OVER: software tells the sender
 *   OWES          FIN_SENT                      OVER
 */
enum shadow_slot_state {
    SLOT_OVER,        /* nothing */
    SLOT_HELD,        /* MATCHED */
    SLOT_MOVING,      /* DATA_VALID or INCOMPLETE */
    SLOT_MOVING_OWES, /* DATA_VALID or INCOMPLETE, and FIN_SENT */
    SLOT_OWES,        /* FIN_SENT */
    SLOT_STATES
};

struct shadow_slot {
    struct shadow_recv *recv; /* the receive of the events; NULL: nobody's any more */
    enum shadow_slot_state state;
    bool is_revoked; /* a REVOKED will come, in whatever state */
    uint32_t peer;   /* OWES: the peer that gets the FIN, */
    uint64_t sender; /* and the send that it is for */
};

/* A message that the device holds: held.h. */
enum held_state {
    HELD_FREE,
    HELD_KEPT,   /* the owner keeps it, unmatched */
    HELD_PAIRED, /* recv has met it, and is in the device */
    HELD_LEAVING /* the message is gone here; UNHELD will come */
};

/* Hold: give an unexpected message to the device (HOLD, UNHOLD) */
/* Paired: a receive that has met a held message, which the device will report */
struct shadow_held {
    enum held_state state;
    void *message; /* the owner's */
    struct shadow_recv *recv;
};

/* Receives that stay in software, counted by what they accept. */
struct shadow_filter {
    uint32_t exact[SHADOW_FILTER]; /* by envelope */
    uint32_t wild[SHADOW_FILTER];  /* with any wildcard, by context id */
    uint32_t all[SHADOW_FILTER];   /* all, by context id */
};

/* Shadow list: the host's posted receive queue, which also has the receives that
 * were handed over */
/* Hand over, take back: give a receive to the device (ADD), ask for it again
 * (DEL) */
/* Count: the number of unexpected messages: found by the device, handled by the
 * host */
struct shadow {
    struct mbx_device *device;
    struct mbx_device_limits limits;
    const struct shadow_events *events;
    void *arg;
    uint64_t threshold;
    bool is_stopped;            /* lost() has been called: nothing more is handed over */
    bool is_lost;               /* and there are no more events: LOST was the last one */
    bool is_recalled;           /* nothing is handed over */
    bool has_clashed;           /* a receive that waited has become SOFTWARE */
    uint32_t recalled;          /* RECALLED receives that the device has not answered for */
    uint16_t handled, reported; /* mod 2^16 */
    struct list waiting;
    struct list handed;        /* receives that are HANDED, in posting order */
    struct shadow_slot *slots; /* [list], by handle */
    uint32_t *free;            /* handles */
    uint32_t free_count, list, untagged;
    uint32_t owed_count;      /* slots that are OWES */
    struct shadow_held *held; /* [list], by number; NULL: it is given nothing to hold */
    uint32_t *held_free;      /* numbers */
    uint32_t held_free_count, held_leaving;
    unsigned char *buffers; /* untagged */
    uint32_t *empty;        /* numbers of the untagged buffers to give to the device */
    uint32_t empty_count;
    bool *is_given; /* [untagged]: which of them it has */
    struct mbx_device_event
        pending;        /* a packet that the owner had no space for; type 0: none */
    struct list asked;  /* receives that are REVOKING or RECLAIMED */
    struct list parked; /* messages of another path: bypass.h */
    uint32_t parked_from[SHADOW_SOURCES]; /* how many, by source */
    bool must_recheck;                    /* parked messages may have to be looked at */
    struct shadow_filter filter;
    struct shadow_stats stats;
};

/* Configures the device.  0; -EINVAL the device cannot be used like this; -ENOMEM. */
int shadow_init(struct shadow *shadow, const struct shadow_config *config);

/* The device must not touch anything any more. */
void shadow_fini(struct shadow *shadow);

/* shadow_post - match has been posted, and waits in its engine. */
void shadow_post(struct shadow *shadow, struct shadow_recv *recv,
                 const struct mbx_match_recv *match, void *buf, size_t size);

/* shadow_post_here - like shadow_post, for a receive that the device must not have:
 * SOFTWARE. */
void shadow_post_here(struct shadow *shadow, struct shadow_recv *recv,
                      const struct mbx_match_recv *match);

/* shadow_taken - within packet(): the message has met recv, which has left its engine. */
void shadow_taken(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_cancel - recv's owner has taken it out of its engine and wants it back.  True: it is
 * the owner's.  False: revoked() or matched() will follow. */
bool shadow_cancel(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_reclaim - like shadow_cancel, for a message that does not come through the device.
 * Afterwards the owner gives recv that message. */
bool shadow_reclaim(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_recall - all receives that are handed over come back to stay in software, and new ones
 * stay there too, until shadow_resume().  `recalled` counts the receives still out. */
void shadow_recall(struct shadow *shadow);
void shadow_resume(struct shadow *shadow);

/* shadow_poll - handles events, then hands over what has space now; returns how many events. */
int shadow_poll(struct shadow *shadow);

/* shadow_has_work - would the next poll do something although the device has sent nothing? */
bool shadow_has_work(const struct shadow *shadow);

/* shadow_is_idle - is the device empty, and is there nothing to do? */
static inline bool shadow_is_idle(const struct shadow *shadow)
{
    return shadow->is_stopped == shadow->is_lost && shadow->stats.in_device == 0 &&
           shadow->pending.type == 0 && shadow->empty_count == 0 &&
           list_is_empty(&shadow->waiting) && list_is_empty(&shadow->parked);
}

/* ---- for held.c ---- */

/* Each command reports the count of handled messages.  err: the command's result.  True: it was
 * accepted. */
bool shadow_reported(struct shadow *shadow, int err);

/* May the device have this receive at all? */
bool shadow_may_have(const struct shadow *shadow, const struct mbx_match_recv *match,
                     size_t size);

/* Can the device tell messages with this envelope from others? */
bool shadow_can_distinguish(const struct shadow *shadow,
                            const struct mbx_match_envelope *envelope);

/* Issues the ADD. 0; -EAGAIN no space; -EBUSY the device has a receive with the same memory. */
int shadow_append(struct shadow *shadow, struct shadow_recv *recv);

/* An event makes no sense: stops the device. */
void shadow_distrust(struct shadow *shadow, const struct mbx_device_event *event);

/* Changes what the device still owes for this slot. */
void shadow_slot_move(struct shadow *shadow, struct shadow_slot *slot,
                      enum shadow_slot_state to);

/* Frees the handle, if no more events can name it. */
void shadow_settle(struct shadow *shadow, uint32_t handle);

/* shadow_accepts - would match take a message with this envelope? */
static inline bool shadow_accepts(const struct mbx_match_recv *match,
                                  const struct mbx_match_envelope *envelope)
{
    return mbx_match_accepts(&match->envelope, match->ignore, envelope);
}

/* shadow_is_valid - do all invariants hold?  For tests. */
bool shadow_is_valid(const struct shadow *shadow);

#endif
