/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow.h - the software half of split matching: one order across host and device.
 *
 * The shadow list is the posted receive queue itself: every receive that has met no message
 * is in its owner's matching engine, handed over or not.  What is kept here is where else it
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
 * A cancel and a reclaim ask the device in the same way, and wait for its answer.  A cancel is
 * the user's.  A reclaim is for a message that does not come through the device, which nothing
 * keeps from matching the receive meanwhile: bypass.h has those of another path, and
 * shadow_reclaim() is for any other.
 *
 * Receives are handed over in posting order, and one never passes an earlier one that stays
 * in software and fits one of its messages.  So what the device holds is, for every message,
 * the head of what fits it.
 *
 * The owner calls shadow_poll(); it gives every unexpected message to the owner, who compares
 * it with the whole shadow list (its engine) and keeps it or gives it to a receive, before
 * the call returns: then it counts as handled.  Posting (search of the unexpected queue,
 * entry into the engine, append) and this are one critical section, because the owner has
 * one thread, or one lock.
 *
 * Invariants
 *   I1  handled never counts a message before the owner's unexpected() has returned 0, nor
 *       before the revoke of the receive that it met has been called
 *   I2  a slot is free when no event can name its handle any more: it is OVER and no REVOKED will come
 *   I3  waiting is in posting order, and is empty while a slot is free, the device takes
 *       commands and no message is parked
 *   I4  a receive that is SOFTWARE or RECALLED is counted in the filter, no other is
 *   I5  those that are recalled leave the device one by one, the youngest first: meanwhile
 *       what it still has are the heads of what fits a message, and it is not given any that
 *       fits what one of those that leave fits
 */
#ifndef DEVICE_HOST_SHADOW_H
#define DEVICE_HOST_SHADOW_H

#include <matchbox/device.h>
#include <matchbox/match.h>

#include "base/list.h"
#include "core/parts.h"

/* A message of another path; in its owner's memory. */
struct shadow_message {
    struct mbx_match_envelope envelope;
    struct list node;         /* on parked */
    struct shadow_recv *recv; /* reclaimed for it, or NULL */
};

struct shadow_events {
    /* recv has met the message of event->envelope in the device.  Unless its owner wanted it
     * back it is still in the engine, from where he takes it now. */
    void (*matched)(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event);
    /* What was matched and not WHOLE: DATA_VALID, INCOMPLETE, or the device was LOST on the
     * way.  Unless recv->is_sized the first two tell of the size, and of what else the match
     * left out; behind LOST nobody does. */
    void (*moved)(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event);
    /* A cancel has come in time, or a reclaim by shadow_reclaim(). */
    void (*revoked)(void *arg, struct shadow_recv *recv);
    /* A packet.  If it is an unexpected message, the owner compares it with the whole shadow
     * list.  0, or -EAGAIN: it is offered again by a later poll, before anything else. */
    int (*packet)(void *arg, uint32_t peer, const void *packet, size_t size);
    /* Is there such a peer?  Nothing is told of any other.  NULL: there are all. */
    bool (*knows)(void *arg, uint32_t peer);
    /* Of messages of another path, each as mbx_match_find() and mbx_match_keep() have it.  The
     * receive that such a message would meet, taken out of its engine, or NULL. */
    struct shadow_recv *(*find)(void *arg, struct shadow_message *message);
    /* message has met recv, which find() gave for it some time ago.  Both are the owner's. */
    void (*met)(void *arg, struct shadow_message *message, struct shadow_recv *recv);
    /* message has met none, as find() has just said, and waits for a receive.  0: it is the
     * owner's; or an error: it is found and kept again by a later poll. */
    int (*keep)(void *arg, struct shadow_message *message);
    /* recv, which held_post() has taken, gets this message, which held_keep() was given. */
    void (*paired)(void *arg, struct shadow_recv *recv, void *message);
    /* The device may not have sent this FIN: it is to be sent, perhaps once more. */
    void (*owed)(void *arg, uint32_t peer, uint64_t sender);
    /* The device is gone, or does not keep its contract: it must not begin anything any more
     * when this returns.  Once.  Its events are polled as before, to the last one, LOST, behind
     * which it touches nothing; then moved() with LOST and revoked() tell of the receives that
     * it had, and the others are software's again. */
    void (*lost)(void *arg);
};

struct shadow_config {
    struct mbx_device *device; /* configured here; the caller closes it, behind shadow_fini */
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
    uint64_t reclaims_won, reclaims_lost; /* reclaims of such */
    uint64_t overlapped;                  /* kept, because an earlier one that stays overlaps */
    uint64_t clashed;                     /* kept, because the device has one with its memory */
    uint64_t waited;                      /* found no space at first, or a parked message */
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
 * What the device has still to say of an entry, besides the answer to a revoke.
 *
 *   state         what comes                    next
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
    SLOT_MOVING_OWES, /* that, and FIN_SENT */
    SLOT_OWES,        /* FIN_SENT */
    SLOT_STATES
};

struct shadow_slot {
    struct shadow_recv *recv; /* who is to be told; NULL: nobody any more */
    enum shadow_slot_state state;
    bool is_revoked; /* a REVOKED will come, in any state */
    uint32_t peer;   /* OWES: to whom the FIN goes, */
    uint64_t sender; /* and for which of its sends */
};

/* A message that the device holds; held.h. */
enum held_state {
    HELD_FREE,
    HELD_KEPT,   /* the owner keeps it, unmatched */
    HELD_PAIRED, /* recv has met it, and is in the device */
    HELD_LEAVING /* it is none of ours any more; UNHELD will come */
};

/* Glossary: hold - give an unexpected message to the device (HOLD, UNHOLD) */
/* Glossary: paired - a receive that has met a held message, which the device will report */
struct shadow_held {
    enum held_state state;
    void *message; /* the owner's */
    struct shadow_recv *recv;
};

/* What stays in software, counted by what it accepts. */
struct shadow_filter {
    uint32_t exact[SHADOW_FILTER]; /* by envelope */
    uint32_t wild[SHADOW_FILTER];  /* with any wildcard, by context id */
    uint32_t all[SHADOW_FILTER];   /* all, by context id */
};

/* Glossary: shadow list - the copy of the host of what the device holds */
/* Glossary: hand over, take back - give a receive to the device (ADD), ask for it again
 * (DEL) */
/* Glossary: count - the number of unexpected messages: found by the device, handled by the
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
    bool has_clashed;           /* one of those that wait has become SOFTWARE */
    uint32_t recalled;          /* receives that the device has not answered for */
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
    uint32_t *empty;        /* numbers of those that the device is to be given */
    uint32_t empty_count;
    bool *is_given; /* [untagged]: which of them it has */
    struct mbx_device_event
        pending;        /* a packet that the owner had no space for; type 0: none */
    struct list asked;  /* receives that are REVOKING or RECLAIMED */
    struct list parked; /* messages of another path: bypass.h */
    uint32_t parked_from[SHADOW_SOURCES]; /* how many, by source */
    bool must_recheck;                    /* an answer may have changed what they wait for */
    struct shadow_filter filter;
    struct shadow_stats stats;
};

/* Configures the device.  0; -EINVAL the device cannot be used so; -ENOMEM. */
int shadow_init(struct shadow *shadow, const struct shadow_config *config);

/* The device must not touch anything any more. */
void shadow_fini(struct shadow *shadow);

/* shadow_post - match has been posted, and waits in its engine. */
void shadow_post(struct shadow *shadow, struct shadow_recv *recv,
                 const struct mbx_match_recv *match, void *buf, size_t size);

/* The same of one that the device must not have: SOFTWARE. */
void shadow_post_here(struct shadow *shadow, struct shadow_recv *recv,
                      const struct mbx_match_recv *match);

/* shadow_taken - within packet(): the message has met recv, which has left its engine. */
void shadow_taken(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_cancel - recv's owner has taken it out of its engine and wants it back.
 * True: it is his.  False: revoked() or matched() will tell. */
bool shadow_cancel(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_reclaim - the same, for a message that does not come through the device.
 * Afterwards the owner gives it that message. */
bool shadow_reclaim(struct shadow *shadow, struct shadow_recv *recv);

/* shadow_recall - everything that is handed over comes back to stay in software, and so do
 * those that are posted, until shadow_resume().  recalled tells how many are still out. */
void shadow_recall(struct shadow *shadow);
void shadow_resume(struct shadow *shadow);

/* shadow_poll - events, then what has space now; how many events. */
int shadow_poll(struct shadow *shadow);

/* shadow_has_work - would the next poll do something though the device has said nothing? */
bool shadow_has_work(const struct shadow *shadow);

/* shadow_is_idle - has it nothing in the device, and nothing to do? */
static inline bool shadow_is_idle(const struct shadow *shadow)
{
    return shadow->is_stopped == shadow->is_lost && shadow->stats.in_device == 0 &&
           shadow->pending.type == 0 && shadow->empty_count == 0 &&
           list_is_empty(&shadow->waiting) && list_is_empty(&shadow->parked);
}

/* ---- for held.c ---- */

/* Each command reports what has been handled.  True: it was taken. */
bool shadow_reported(struct shadow *shadow, int err);

/* May the device have such a receive at all? */
bool shadow_may_have(const struct shadow *shadow, const struct mbx_match_recv *match,
                     size_t size);

/* Would the device tell a message of this envelope from others? */
bool shadow_can_distinguish(const struct shadow *shadow,
                            const struct mbx_match_envelope *envelope);

/* The command.  0; -EAGAIN no space; -EBUSY the device has one with the same memory. */
int shadow_append(struct shadow *shadow, struct shadow_recv *recv);

/* What the device says makes no sense: it is stopped. */
void shadow_distrust(struct shadow *shadow, const struct mbx_device_event *event);

/* What the device has still to say of it changes. */
void shadow_slot_move(struct shadow *shadow, struct shadow_slot *slot,
                      enum shadow_slot_state to);

/* Its handle is free, if nothing more will be told of it. */
void shadow_settle(struct shadow *shadow, uint32_t handle);

/* shadow_accepts - would match take a message of this envelope? */
static inline bool shadow_accepts(const struct mbx_match_recv *match,
                                  const struct mbx_match_envelope *envelope)
{
    return mbx_match_accepts(&match->envelope, match->ignore, envelope);
}

/* shadow_is_valid - do all invariants hold?  For tests. */
bool shadow_is_valid(const struct shadow *shadow);

#endif
