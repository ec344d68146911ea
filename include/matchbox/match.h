/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h - the matching engine alone.
 *
 * A `struct mbx_match` holds one posted receive queue (PRQ) and one unexpected message
 * queue (UMQ) and keeps MPI's order between them.  It does no I/O, reads no clock,
 * starts no thread, and the entries are the caller's memory: they are lent to the
 * engine while queued and must not move.
 *
 *   mbx_match_post    a receive: takes the oldest message that it accepts, or queues
 *   mbx_match_arrive  a message: goes to the oldest receive that accepts it, or queues
 *   mbx_match_cancel  takes a queued receive back
 *   mbx_match_peek    what would such a receive take?
 *   mbx_match_extract   takes a queued message out (matched probe)
 *   mbx_match_take    takes a message for a receive that has not been made yet
 *
 * A receive accepts a message when the context ids are equal, the source is equal
 * or the receive's is MBX_MATCH_ANY_SOURCE, and the tag of the message and that of the receive
 * differ in ignored bits only: ((message.tag ^ receive.tag) & ~receive.ignore) == 0.  Context ids
 * and tags may have any value, and so may sources; a message whose source is
 * MBX_MATCH_ANY_SOURCE only meets receives from any source.
 *
 * Invariants (mbx_match_is_valid):
 *   I1  ages strictly increase along each queue
 *   I2  no queued receive accepts any queued message
 *   I3  posted == met_posts + matched_posts + cancelled + queued receives
 *       arrived == met_arrivals + matched_arrivals + claimed + queued messages
 *       (a match counts on both sides: as matched_ on the side that was queued and
 *       as met_ on the side that met it)
 *   I4  an entry's state says on which queue it is
 *
 * Ownership  An entry belongs to the engine from the call that queues it to the call that
 *            gives it back: mbx_match_arrive(), mbx_match_find() and mbx_match_cancel() a
 *            receive, mbx_match_post(), mbx_match_take() and mbx_match_extract() a message.  Meanwhile it may be
 *            read.  An entry that is queued must not be posted or arrive again, and is
 *            cancelled or extracted in its own engine; mbx_match_is_valid() sees most of such
 *            mistakes.
 * Memory     A queue of up to 16 entries allocates nothing, and neither does one whose oldest
 *            entry is always the one that is taken.  Others have tables, which grow when
 *            they are searched and are freed by mbx_match_fini(), the large ones when they
 *            are empty.  Without memory for them searches are slow, and never wrong: no call
 *            fails.
 * Threads    one at a time per struct mbx_match, of which there may be any number; they
 *            share nothing.  What different threads use (engines, receives, messages) is
 *            best kept 128 bytes apart: cores fetch lines in pairs.
 * Libraries  libmatchbox-match is the engine and nothing else: it needs the C library alone.
 *            libmatchbox has the same functions; a program links one of the two.
 * Versions   struct mbx_match and the entries are laid out here, so a program is compiled
 *            with the header of the library that it is linked with.
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
#define MBX_MATCH_API __attribute__((visibility("default")))
#else
#define MBX_MATCH_API
#endif

#define MBX_MATCH_ANY_SOURCE UINT32_MAX

struct mbx_match_envelope {
    uint32_t context_id;
    uint32_t source;
    uint64_t tag;
};

enum mbx_match_state { MBX_MATCH_IDLE, MBX_MATCH_QUEUED };

/* Link of a queued entry; the engine's own. */
struct mbx_match_link {
    struct mbx_match_link *next, *prev;
};

/* A receive.  The caller sets envelope and ignore; the rest is the engine's.  state is
 * MBX_MATCH_IDLE (0) before the first post, and whenever the entry is the caller's. */
struct mbx_match_recv {
    struct mbx_match_link link;         /* all, oldest first */
    struct mbx_match_envelope envelope; /* source may be MBX_MATCH_ANY_SOURCE */
    uint64_t ignore;                    /* 1 = tag bit not compared */
    enum mbx_match_state state;
    uint32_t at;                 /* its table; 0: in none */
    uint64_t seq;                /* age; smaller is older */
    struct mbx_match_link group; /* in a table: those that want the same, oldest first */
};

/* A message.  The caller sets envelope; the rest is the engine's, and state as of a receive. */
struct mbx_match_msg {
    struct mbx_match_link link; /* all, oldest first */
    struct mbx_match_envelope envelope;
    enum mbx_match_state state;
    uint32_t at;  /* its tables; 0: in none */
    uint64_t seq; /* age in this engine: who arrived earlier has the smaller one */
    struct mbx_match_link group; /* in a table: those that are alike, oldest first */
};

struct mbx_match_counters {
    uint64_t posted, arrived;         /* calls of post and arrive */
    uint64_t matched_posts;           /* receives that an arrival took from the PRQ */
    uint64_t matched_arrivals;        /* messages that a post took from the UMQ */
    uint64_t met_posts, met_arrivals; /* posts and arrivals that matched at once */
    uint64_t cancelled, claimed;      /* receives; messages, by mbx_match_extract() */
    uint64_t recvs, recvs_max;        /* queued now, and the most there ever were */
    uint64_t msgs, msgs_max;
    uint64_t searches;     /* by any verb, of an empty queue too */
    uint64_t search_steps; /* entries and groups looked at by all of them */
    uint64_t search_max;   /* and by the longest */
    uint64_t overflowed;   /* receives and searches that found no class free for their mask */
};

/* How an engine starts; all zero is the default. */
struct mbx_match_options {
    uint64_t first_seq; /* the first age to be given out; a test may want to see it wrap */
    uint64_t seed;      /* of the hash; a secret number if others choose the tags */
    uint32_t short_max; /* entries up to which a queue is walked, 1 to 16; 0: 16 */
    uint32_t classes;   /* masks that have tables of their own, 1 to 64; 0: 64 */
    uint32_t hash_bits; /* of the hash, 1 to 64, so that a test sees collisions; 0: 64 */
};

/* ---- the engine's own; public only so that callers can embed a struct mbx_match ---- */

#define MBX_MATCH_CLASSES 64 /* masks that have tables of their own */

struct mbx_match_queue {
    struct mbx_match_link all; /* oldest first */
    uint64_t next;             /* age of the next entry */
    uint64_t full_at;          /* next + most - entries now: the age of one more than ever */
    uint64_t most;             /* entries at a time, until now */
};

/* What a probe has found, for the receive that follows it.  Good as long as no message has left
 * the queue since. */
struct mbx_match_probed {
    struct mbx_match_msg *msg;
    uint64_t left;   /* messages that had left the queue */
    uint64_t ignore; /* of the probe */
    bool is_any_source;
};

/* What struct mbx_match_counters has and cannot be derived from the ages. */
struct mbx_match_tally {
    uint64_t cancelled, claimed;
    uint64_t lonely; /* finds that met nobody, less the messages that were kept */
    uint64_t peeks;
    uint64_t further_steps; /* beyond one for each match */
    uint64_t search_max;    /* of those that took more */
    uint64_t overflowed;
};

struct mbx_match_deep;

struct mbx_match {
    struct mbx_match_queue recvs, msgs;
    struct mbx_match_tally count;
    struct mbx_match_probed probed;
    struct mbx_match_deep *deep; /* tables; NULL until they are needed */
    struct mbx_match_options options;
};

/* Starts an empty engine in the caller's memory, where it stays: the queues point
 * at their heads.  options may be NULL: all zero; what is out of range is taken as 0.
 * Allocates nothing. */
MBX_MATCH_API void mbx_match_init(struct mbx_match *m, const struct mbx_match_options *options);

/* Forgets everything and frees what the engine allocated.  Entries that are still queued
 * become idle and the caller's again; walk the queues before if they must be found. */
MBX_MATCH_API void mbx_match_fini(struct mbx_match *m);

/*
 * mbx_match_post - a receive is posted.
 *
 * Takes the oldest queued message that recv accepts: *msg is it, and neither is
 * queued any more.  Otherwise *msg = NULL and recv waits.
 *
 * Returns    0.  A negative number is for engines to come that can fail: then nothing has
 *            changed, recv is not queued, and *msg was not written.  Callers check.
 */
MBX_MATCH_API int mbx_match_post(struct mbx_match *m, struct mbx_match_recv *recv,
                                 struct mbx_match_msg **msg);

/* May a receive take msg now?  Asked by mbx_match_take(); calls nothing of the engine. */
typedef bool mbx_match_fits_fn(const void *arg, const struct mbx_match_msg *msg);

/*
 * mbx_match_take - the message that a receive with this envelope (source may be
 * MBX_MATCH_ANY_SOURCE) and these ignore bits would meet, taken out of the queue if
 * fits(arg, it); NULL if there is none, or it does not fit, and then nothing has changed.
 *
 * For callers that make a struct mbx_match_recv only for receives that have to wait, or whose
 * message needs one: mbx_match_post() does those.  Counts as a post, which searched, only when
 * it takes one.  What did not fit is not searched for again by the mbx_match_post() that follows.
 */
MBX_MATCH_API struct mbx_match_msg *mbx_match_take(struct mbx_match *m,
                                                   const struct mbx_match_envelope *envelope,
                                                   uint64_t ignore, mbx_match_fits_fn *fits,
                                                   const void *arg);

/*
 * mbx_match_arrive - a message arrives.
 *
 * Gives it to the oldest queued receive that accepts it: *recv is that receive, and
 * neither is queued.  Otherwise *recv = NULL and msg waits.
 *
 * Returns    0; negative as mbx_match_post().
 */
MBX_MATCH_API int mbx_match_arrive(struct mbx_match *m, struct mbx_match_msg *msg,
                                   struct mbx_match_recv **recv);

/*
 * mbx_match_find - the receive that a message with this envelope would meet, taken out
 * of the queue; NULL if there is none, and then nothing is queued.
 *
 * The first half of mbx_match_arrive(), for callers that make a struct mbx_match_msg only
 * for messages that have to wait; mbx_match_keep() is the second.  Counts as an arrival
 * only when it finds one.
 */
MBX_MATCH_API struct mbx_match_recv *mbx_match_find(struct mbx_match *m,
                                                    const struct mbx_match_envelope *envelope);

/* mbx_match_first - the same receive, which stays where it is.  It does not count as a search. */
MBX_MATCH_API struct mbx_match_recv *mbx_match_first(struct mbx_match *m,
                                                     const struct mbx_match_envelope *envelope);

/*
 * mbx_match_keep - a message that mbx_match_find() has just refused waits for its receive.
 *
 * Nothing may have been posted in between.
 * Returns    0; negative as mbx_match_post().
 */
MBX_MATCH_API int mbx_match_keep(struct mbx_match *m, struct mbx_match_msg *msg);

/*
 * mbx_match_post_many, mbx_match_arrive_many - as count calls of mbx_match_post() or
 * mbx_match_arrive() in the order of the arrays: msgs[i] is what recvs[i] met, and recvs[i]
 * what msgs[i] met, or NULL.  Faster than the calls one by one when the queues are long: what
 * the next ones need is fetched while the first are looked up.
 *
 * Returns    how many were done: count.
 */
MBX_MATCH_API size_t mbx_match_post_many(struct mbx_match *m,
                                         struct mbx_match_recv *const recvs[],
                                         struct mbx_match_msg *msgs[], size_t count);
MBX_MATCH_API size_t mbx_match_arrive_many(struct mbx_match *m,
                                           struct mbx_match_msg *const msgs[],
                                           struct mbx_match_recv *recvs[], size_t count);

/* mbx_match_cancel - takes recv out of the queue.
 * Returns    true; false if it is not queued (it has matched or never was). */
MBX_MATCH_API bool mbx_match_cancel(struct mbx_match *m, struct mbx_match_recv *recv);

/* mbx_match_peek - the message that a receive with this envelope (source may be
 * MBX_MATCH_ANY_SOURCE) and these ignore bits would take, or NULL.  Takes nothing.  For a receive that
 * accepts the message and compares no less, mbx_match_post() does not search again, as long as no
 * message has left the queue; nor does mbx_match_take(), unless more than 16 messages wait: then it
 * looks once where that receive's message would be before it remembers. */
MBX_MATCH_API struct mbx_match_msg *
mbx_match_peek(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t ignore);

/* mbx_match_extract - takes msg out of the queue, for exactly one receive.
 * Returns    true; false if it is not queued. */
MBX_MATCH_API bool mbx_match_extract(struct mbx_match *m, struct mbx_match_msg *msg);

/* Walks the queue, oldest first: NULL starts; returns NULL at the end.  after is still
 * queued: who cancels or extracts on the way asks for the next one first. */
MBX_MATCH_API struct mbx_match_recv *mbx_match_next_recv(const struct mbx_match *m,
                                                         const struct mbx_match_recv *after);
MBX_MATCH_API struct mbx_match_msg *mbx_match_next_msg(const struct mbx_match *m,
                                                       const struct mbx_match_msg *after);

/* mbx_match_accepts - would a receive with this envelope (source may be MBX_MATCH_ANY_SOURCE) and
 * these ignore bits accept a message with that one? */
static inline bool mbx_match_accepts(const struct mbx_match_envelope *wanted, uint64_t ignore,
                                     const struct mbx_match_envelope *message)
{
    return ((wanted->tag ^ message->tag) & ~ignore) == 0 &&
           wanted->context_id == message->context_id &&
           (wanted->source == message->source || wanted->source == MBX_MATCH_ANY_SOURCE);
}

/* mbx_match_counters_get - what m has done, and holds. */
MBX_MATCH_API void mbx_match_counters_get(const struct mbx_match *m,
                                          struct mbx_match_counters *counters);

/* mbx_match_memory - bytes that the engine has allocated, struct mbx_match and the entries not
 * counted: they are the caller's. */
MBX_MATCH_API size_t mbx_match_memory(const struct mbx_match *m);

/* mbx_match_is_valid - do all invariants hold?  Slow; for tests. */
MBX_MATCH_API bool mbx_match_is_valid(const struct mbx_match *m);

#ifdef __cplusplus
}
#endif
#endif
