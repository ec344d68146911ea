/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h - the matching engine alone.
 *
 * A `struct match` holds one posted receive queue (PRQ) and one unexpected message
 * queue (UMQ) and keeps MPI's order between them.  It does no I/O, reads no clock,
 * starts no thread, and the entries are the caller's memory: they are lent to the
 * engine while queued and must not move.
 *
 *   match_post    a receive: takes the oldest message that it accepts, or queues
 *   match_arrive  a message: goes to the oldest receive that accepts it, or queues
 *   match_cancel  takes a queued receive back
 *   match_peek    what would such a receive take?
 *   match_claim   takes a queued message out (matched probe)
 *
 * A receive accepts a message when the context ids are equal, the source is equal
 * or the receive's is MATCH_ANY_SOURCE, and ((tag ^ tag) & ~ignore) == 0.  Context ids
 * and tags may have any value, and so may sources; a message whose source is
 * MATCH_ANY_SOURCE only meets receives from any source.
 *
 * Invariants (match_is_valid):
 *   I1  sequence numbers strictly increase along each queue
 *   I2  no queued receive accepts any queued message
 *   I3  posted == met_posts + matched_posts + cancelled + queued receives
 *       arrived == met_arrivals + matched_arrivals + claimed + queued messages
 *       (a match counts on both sides: as matched_ on the side that was queued and
 *       as met_ on the side that met it)
 *   I4  an entry's state says on which queue it is
 *
 * Ownership  An entry belongs to the engine from the call that queues it to the call that
 *            gives it back: match_arrive(), match_find() and match_cancel() a receive,
 *            match_post() and match_claim() a message.  Meanwhile it may be read.  An entry
 *            that is queued must not be posted or arrive again, and is cancelled or claimed
 *            in its own engine; match_is_valid() sees most of such mistakes.
 * Memory     A queue of up to 16 entries allocates nothing.  Longer ones have tables, which
 *            grow in match_post() and match_peek() and are freed by match_fini(), the large
 *            ones when a queue is short again.
 * Threads    one at a time per struct match, of which there may be any number; they share
 *            nothing.  What different threads use (engines, receives, messages) is best kept
 *            128 bytes apart: cores fetch lines in pairs.
 * Versions   struct match and the entries are laid out here, so a program is compiled with
 *            the header of the library that it is linked with.
 */
#ifndef MATCHBOX_MATCH_H
#define MATCHBOX_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MATCH_API __attribute__((visibility("default")))
#else
#define MATCH_API
#endif

#define MATCH_ANY_SOURCE UINT32_MAX

struct match_envelope {
    uint32_t context_id;
    uint32_t source;
    uint64_t tag;
};

enum match_state { MATCH_IDLE, MATCH_QUEUED };

/* Link of a queued entry; the engine's own. */
struct match_link {
    struct match_link *next, *prev;
};

/* A receive.  The caller sets envelope and ignore; the rest is the engine's.  state is
 * MATCH_IDLE (0) before the first post, and whenever the entry is the caller's. */
struct match_recv {
    struct match_envelope envelope; /* source may be MATCH_ANY_SOURCE */
    uint64_t ignore;                /* 1 = tag bit not compared */
    uint64_t seq;                   /* age; smaller is older */
    struct match_link group;        /* long queue: those that want the same, oldest first */
    struct match_link link;         /* long queue: all, oldest first */
    enum match_state state;
    uint32_t at; /* short queue: its slot; long queue: its class */
};

/* A message.  The caller sets envelope; the rest is the engine's, as of a receive. */
struct match_msg {
    struct match_envelope envelope;
    uint64_t seq;
    struct match_link link; /* long queue: all, oldest first */
    enum match_state state;
    uint32_t at; /* short queue: its slot; long queue: its first entry in an index */
};

struct match_counters {
    uint64_t posted, arrived;         /* calls of post and arrive */
    uint64_t matched_posts;           /* receives that an arrival took from the PRQ */
    uint64_t matched_arrivals;        /* messages that a post took from the UMQ */
    uint64_t met_posts, met_arrivals; /* posts and arrivals that matched at once */
    uint64_t cancelled, claimed;
    uint64_t recvs, recvs_max; /* queued now, and the most there ever were */
    uint64_t msgs, msgs_max;
    uint64_t searches;     /* by any verb, of an empty queue too */
    uint64_t search_steps; /* entries and groups looked at by all of them */
    uint64_t search_max;   /* and by the longest */
    uint64_t overflowed;   /* receives and searches that found no class free for their mask */
};

/* How an engine starts; all zero is the default. */
struct match_options {
    uint64_t first_seq; /* the first age to be given out; a test may want to see it wrap */
    uint64_t seed;      /* of the hash; a secret number if strangers choose the tags */
    uint32_t short_max; /* entries up to which a queue does without tables, 1 to 16; 0: 16 */
    uint32_t classes;   /* masks that have tables of their own, 1 to 64; 0: 64 */
    uint32_t hash_bits; /* of the hash, 1 to 64, so that a test sees collisions; 0: 64 */
};

/* ---- the engine's own; public only so that callers can embed a struct match ---- */

#define MATCH_SLOTS   32 /* of a short queue */
#define MATCH_LANES   4  /* slots that are compared at a time */
#define MATCH_CLASSES 64 /* masks that have tables of their own */

/* Four slots of a short PRQ, each field beside its like. */
struct match_recv_block {
    uint64_t place[MATCH_LANES]; /* context id and source in one word */
    uint64_t tag[MATCH_LANES];
    uint64_t place_mask[MATCH_LANES]; /* 1 = compared */
    uint64_t tag_mask[MATCH_LANES];
    struct match_recv *entry[MATCH_LANES];
};

struct match_msg_block {
    uint64_t place[MATCH_LANES];
    uint64_t tag[MATCH_LANES];
    struct match_msg *entry[MATCH_LANES];
};

/* Which slots of a short queue are in use. */
struct match_slots {
    uint32_t live; /* bit i: slot i holds an entry */
    uint32_t next; /* the first one that is younger than all entries */
};

struct match_deep;
struct match_compare;

struct match {
    uint64_t next_seq;
    struct match_slots recv_slots, msg_slots;
    bool recvs_long, msgs_long;          /* the queue is a list with tables, not slots */
    uint32_t recv_room;                  /* so many receives get slots; 0 while it is long */
    const struct match_compare *compare; /* what this machine is best at */
    struct match_deep *deep;             /* tables; NULL until they are needed */
    struct match_link recvs, msgs;       /* long queues, oldest first */
    struct match_options options;
    struct match_counters count;
    struct match_recv_block recv_blocks[MATCH_SLOTS / MATCH_LANES];
    struct match_msg_block msg_blocks[MATCH_SLOTS / MATCH_LANES];
};

/* Starts an empty engine in the caller's memory, where it stays: the queues point
 * at their heads.  options may be NULL: all zero; what is out of range is taken as 0.
 * Allocates nothing. */
MATCH_API void match_init(struct match *m, const struct match_options *options);

/* Forgets everything and frees what the engine allocated.  Entries that are still queued
 * become idle and the caller's again; walk the queues before if they must be found. */
MATCH_API void match_fini(struct match *m);

/*
 * match_post - a receive is posted.
 *
 * Takes the oldest queued message that recv accepts: *msg is it, and neither is
 * queued any more.  Otherwise *msg = NULL and recv waits.
 *
 * Returns    0; -ENOMEM a table could not grow: nothing changed, recv is not queued, and
 *            *msg was not written.  It may be tried again.
 */
MATCH_API int match_post(struct match *m, struct match_recv *recv, struct match_msg **msg);

/*
 * match_arrive - a message arrives.
 *
 * Gives it to the oldest queued receive that accepts it: *recv is that receive, and
 * neither is queued.  Otherwise *recv = NULL and msg waits.
 *
 * Returns    0; -ENOMEM as match_post().  Now an arrival allocates nothing; callers check
 *            all the same.
 */
MATCH_API int match_arrive(struct match *m, struct match_msg *msg, struct match_recv **recv);

/*
 * match_find - the receive that a message with this envelope would meet, taken out
 * of the queue; NULL if there is none, and then nothing is queued.
 *
 * The first half of match_arrive(), for callers that make a struct match_msg only
 * for messages that have to wait; match_keep() is the second.  Counts as an arrival
 * only when it finds one.
 */
MATCH_API struct match_recv *match_find(struct match *m, const struct match_envelope *envelope);

/* match_first - the same receive, which stays where it is.  Nothing changes, and it does not
 * count as a search. */
MATCH_API struct match_recv *match_first(const struct match *m,
                                         const struct match_envelope *envelope);

/*
 * match_keep - a message that match_find() has just refused waits for its receive.
 *
 * Nothing may have been posted in between.
 * Returns    0; -ENOMEM as match_post.
 */
MATCH_API int match_keep(struct match *m, struct match_msg *msg);

/*
 * match_post_many, match_arrive_many - as count calls of match_post() or match_arrive()
 * in the order of the arrays: msgs[i] is what recvs[i] met, and recvs[i] what msgs[i]
 * met, or NULL.  Faster than the calls one by one when the queues are long: what the
 * next ones need is fetched while the first are looked up.
 *
 * Returns    how many were done: count, or fewer if a table could not grow; then the
 *            next one is not queued and nothing behind it was tried.
 */
MATCH_API size_t match_post_many(struct match *m, struct match_recv *const recvs[],
                                 struct match_msg *msgs[], size_t count);
MATCH_API size_t match_arrive_many(struct match *m, struct match_msg *const msgs[],
                                   struct match_recv *recvs[], size_t count);

/* match_cancel - takes recv out of the queue.
 * Returns    true; false if it is not queued (it has matched or never was). */
MATCH_API bool match_cancel(struct match *m, struct match_recv *recv);

/* match_peek - the message that a receive with this envelope (source may be
 * MATCH_ANY_SOURCE) and these ignore bits would take, or NULL.  Takes nothing.  For want of
 * memory it is slow, and never wrong. */
MATCH_API struct match_msg *match_peek(struct match *m, const struct match_envelope *envelope,
                                       uint64_t ignore);

/* match_claim - takes msg out of the queue, for exactly one receive.
 * Returns    true; false if it is not queued. */
MATCH_API bool match_claim(struct match *m, struct match_msg *msg);

/* Walks the queue, oldest first: NULL starts; returns NULL at the end.  after is still
 * queued: who cancels or claims on the way asks for the next one first. */
MATCH_API struct match_recv *match_next_recv(const struct match *m,
                                             const struct match_recv *after);
MATCH_API struct match_msg *match_next_msg(const struct match *m,
                                           const struct match_msg *after);

/* match_memory - bytes that the engine has allocated, struct match and the entries not
 * counted: they are the caller's. */
MATCH_API size_t match_memory(const struct match *m);

/* match_is_valid - do all invariants hold?  Slow; for tests. */
MATCH_API bool match_is_valid(const struct match *m);

#ifdef __cplusplus
}
#endif
#endif
