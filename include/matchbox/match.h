/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h - the MPI matching engine, without the rest of the library.
 *
 * A `struct mbx_match` holds one posted receive queue (PRQ) and one unexpected message
 * queue (UMQ), and matches them in MPI's order.  It does no I/O, reads no clock and starts
 * no thread.  The caller owns the memory of all entries; an entry must not move while it is
 * queued.
 *
 *   mbx_match_post      post a receive: it takes the oldest message it accepts, or is queued
 *   mbx_match_arrive    add a message: the oldest receive that accepts it takes it, or it is queued
 *   mbx_match_cancel    remove a queued receive
 *   mbx_match_peek      find the message that a receive would take, and leave it queued
 *   mbx_match_extract   remove a queued message (matched probe)
 *   mbx_match_take      take a message for a receive that does not exist as a structure yet
 *
 * A receive accepts a message if three conditions hold:
 *
 *   - the context ids are equal;
 *   - the sources are equal, or the receive's source is MBX_MATCH_ANY_SOURCE;
 *   - the tags differ only in ignored bits:
 *     ((message.tag ^ receive.tag) & ~receive.ignore) == 0.
 *
 * The mask of a receive is what it does not compare: its ignored bits, and the source if that is
 * any.
 *
 * Context ids, sources and tags may have any value.  A message whose source is
 * MBX_MATCH_ANY_SOURCE matches only receives from any source.
 *
 * Invariants (mbx_match_is_valid):
 *   I1  ages strictly increase along each queue
 *   I2  no queued receive accepts any queued message
 *   I3  posted == met_posts + matched_posts + cancelled + queued receives, and
 *       arrived == met_arrivals + matched_arrivals + extracted + queued messages
 *       (each match is counted twice: in matched_ for the entry that was queued, and in
 *       met_ for the entry that found it)
 *   I4  the state of an entry says whether it is queued
 *
 * Ownership  An entry belongs to the engine while it is queued; the caller may read it.
 *            mbx_match_arrive(), mbx_match_find() and mbx_match_cancel() give a receive back.
 *            mbx_match_post(), mbx_match_take() and mbx_match_extract() give a message back.
 *            Do not post an entry, or let it arrive, while it is queued.  Cancel or extract it
 *            only in the engine that holds it.  mbx_match_is_valid() finds most of these errors.
 * Memory     The engine allocates nothing while a queue has at most 16 entries, or while each
 *            match takes the oldest entry.  Otherwise it builds hash tables, which grow during
 *            searches.  It frees a large table when the table becomes empty, and all of them in
 *            mbx_match_fini().  No call fails for lack of memory: searches become slower, and
 *            their results stay correct.
 * Threads    One thread at a time per struct mbx_match.  Several engines share nothing.  Keep
 *            engines, receives and messages of different threads at least 128 bytes apart,
 *            because processors fetch cache lines in pairs.
 * Libraries  libmatchbox-match contains only the engine, and needs only the C library.
 *            libmatchbox contains the same functions.  Link one of the two.
 * Versions   This header defines the layout of struct mbx_match and of the entries.  Compile
 *            with the header that belongs to the library you link.
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

/* The envelope of a receive or of a message. */
struct mbx_match_envelope {
    uint32_t context_id;
    uint32_t source;
    uint64_t tag;
};

/* Whether an entry is queued. */
enum mbx_match_state { MBX_MATCH_IDLE, MBX_MATCH_QUEUED };

/* The link of a queued entry.  Only the engine uses it. */
struct mbx_match_link {
    struct mbx_match_link *next, *prev;
};

/* A receive.  The caller sets envelope and ignore, and the engine sets the other members.  state
 * must be MBX_MATCH_IDLE (0) before the first post; the engine sets it again when it gives the
 * entry back. */
struct mbx_match_recv {
    struct mbx_match_link link;         /* in the queue, oldest first */
    struct mbx_match_envelope envelope; /* source may be MBX_MATCH_ANY_SOURCE */
    uint64_t ignore;                    /* 1: this bit of the tag is not compared */
    enum mbx_match_state state;
    uint32_t at;                 /* its table; 0: none */
    uint64_t seq;                /* age; smaller is older */
    struct mbx_match_link group; /* in a table: receives with equal criteria, oldest first */
};

/* A message.  The caller sets envelope, and state as for a receive. */
struct mbx_match_msg {
    struct mbx_match_link link; /* in the queue, oldest first */
    struct mbx_match_envelope envelope;
    enum mbx_match_state state;
    uint32_t at;                 /* its tables; 0: none */
    uint64_t seq;                /* age in this engine; smaller is older */
    struct mbx_match_link group; /* in a table: messages with equal envelopes, oldest first */
};

/* The counters of an engine. */
struct mbx_match_counters {
    uint64_t posted, arrived;         /* receives posted, messages arrived */
    uint64_t matched_posts;           /* queued receives that an arriving message took */
    uint64_t matched_arrivals;        /* queued messages that a posted receive took */
    uint64_t met_posts, met_arrivals; /* posts and arrivals that matched at once */
    uint64_t cancelled, extracted;    /* receives cancelled, messages extracted */
    uint64_t recvs, recvs_max;        /* receives queued now, and at most so far */
    uint64_t msgs, msgs_max;          /* messages queued now, and at most so far */
    uint64_t searches;                /* searches by all calls, of empty queues as well */
    uint64_t search_steps;            /* entries and groups visited by all searches */
    uint64_t search_max;              /* entries and groups visited by the longest search */
    uint64_t overflowed; /* receives and searches whose mask got no tables of its own */
};

/* How an engine starts.  All zero is the default. */
struct mbx_match_options {
    uint64_t first_seq; /* the age of the first entry; tests use it to make ages wrap */
    uint64_t seed;      /* of the hash; set a secret number if others choose the tags */
    uint32_t
        short_max;    /* a queue of at most this many entries has no tables; 0: 16, the most */
    uint32_t classes; /* this many masks get tables of their own; 0: 64, the maximum */
    uint32_t hash_bits; /* of the hash; few of them give collisions; 0: 64, the maximum */
};

/* ---- for the engine only; public so that callers can embed a struct mbx_match ---- */

#define MBX_MATCH_CLASSES 64 /* masks that can have tables of their own */

struct mbx_match_queue {
    struct mbx_match_link all; /* oldest first */
    uint64_t next;             /* age of the next entry */
    uint64_t full_at;          /* next + most - entries now: at this age, `most` must grow */
    uint64_t most;             /* the most entries at a time so far */
};

/* The result of a probe, for the receive that follows it.  It is valid until a message leaves the
 * queue. */
struct mbx_match_probed {
    struct mbx_match_msg *msg;
    uint64_t left;   /* how many messages had left the queue when the probe ran */
    uint64_t ignore; /* of the probe */
    bool is_any_source;
};

/* The counters that do not follow from the ages of the entries. */
struct mbx_match_tally {
    uint64_t cancelled, extracted;
    uint64_t lonely; /* finds without a match, minus the messages kept after them */
    uint64_t peeks;
    uint64_t further_steps; /* steps of searches after the first step of each match */
    uint64_t search_max;    /* the longest search that took more than one step */
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

/* ---- calls ---- */

/* mbx_match_init - start an empty engine in the caller's memory.
 *
 * The engine must not move afterwards, because its queues contain pointers to their own heads.
 * options may be NULL, which means all zero.  A value out of range counts as 0.  Allocates
 * nothing. */
MBX_MATCH_API void mbx_match_init(struct mbx_match *m, const struct mbx_match_options *options);

/* mbx_match_fini - end an engine and free the memory that it has allocated.
 *
 * Entries that are still queued become idle and belong to the caller again.  To find them, walk
 * the queues before this call. */
MBX_MATCH_API void mbx_match_fini(struct mbx_match *m);

/*
 * mbx_match_post - post a receive.
 *
 * If recv accepts a queued message, *msg becomes the oldest such message, and neither of the two
 * is queued any more.  Otherwise *msg becomes NULL, and recv is queued.
 *
 * Returns    0.  Callers should check for a negative errno, because a later version may return one.  In
 *            that case nothing has changed, recv is not queued, and *msg is not written.
 */
MBX_MATCH_API int mbx_match_post(struct mbx_match *m, struct mbx_match_recv *recv,
                                 struct mbx_match_msg **msg);

/* The caller's answer to the question whether msg can be taken now.  mbx_match_take() calls it; it
 * must not call the engine. */
typedef bool mbx_match_fits_fn(const void *arg, const struct mbx_match_msg *msg);

/*
 * mbx_match_take - take a message for a receive that does not exist as a structure yet.
 *
 * Finds the message that a receive with this envelope and these ignore bits would take; the source
 * may be MBX_MATCH_ANY_SOURCE.  Removes it from the queue if fits(arg, message) returns true.
 *
 * For callers that create a struct mbx_match_recv only if the receive has to wait, or if its
 * message needs one.  They call mbx_match_post() next, which takes the message that did not fit
 * without a second search.  The call counts as a post and as a search only if it takes a
 * message.
 *
 * Returns    the message; NULL if there is none or it does not fit, and then nothing has changed.
 */
MBX_MATCH_API struct mbx_match_msg *mbx_match_take(struct mbx_match *m,
                                                   const struct mbx_match_envelope *envelope,
                                                   uint64_t ignore, mbx_match_fits_fn *fits,
                                                   const void *arg);

/*
 * mbx_match_arrive - add a message that has arrived.
 *
 * If a queued receive accepts msg, *recv becomes the oldest such receive, and neither of the two
 * is queued any more.  Otherwise *recv becomes NULL, and msg is queued.
 *
 * Returns    0; a negative errno as mbx_match_post().
 */
MBX_MATCH_API int mbx_match_arrive(struct mbx_match *m, struct mbx_match_msg *msg,
                                   struct mbx_match_recv **recv);

/*
 * mbx_match_find - remove from the queue the receive that a message with this envelope matches.
 *
 * This is the first half of mbx_match_arrive(), for callers that create a struct mbx_match_msg
 * only if the message has to wait.  mbx_match_keep() is the second half.  The call counts as an
 * arrival only if it finds a receive.
 *
 * Returns    the receive; NULL if there is none, and then nothing has changed.
 */
MBX_MATCH_API struct mbx_match_recv *mbx_match_find(struct mbx_match *m,
                                                    const struct mbx_match_envelope *envelope);

/* mbx_match_first - find the same receive as mbx_match_find(), and leave it queued.
 *
 * It does not count as a search. */
MBX_MATCH_API struct mbx_match_recv *mbx_match_first(struct mbx_match *m,
                                                     const struct mbx_match_envelope *envelope);

/*
 * mbx_match_keep - queue a message for which mbx_match_find() has just found no receive.
 *
 * No receive may be posted between the two calls.
 *
 * Returns    0; a negative errno as mbx_match_post().
 */
MBX_MATCH_API int mbx_match_keep(struct mbx_match *m, struct mbx_match_msg *msg);

/*
 * mbx_match_post_many, mbx_match_arrive_many - post receives, or add messages, in the order of an
 * array.
 *
 * The result is as after single calls of mbx_match_post() or mbx_match_arrive().  The call writes the
 * match of entry i, or NULL, to element i of the other array.  It is faster than single calls if
 * the queues are long, because it prefetches memory for the next entries while it searches.
 *
 * Returns    count.
 */
MBX_MATCH_API size_t mbx_match_post_many(struct mbx_match *m,
                                         struct mbx_match_recv *const recvs[],
                                         struct mbx_match_msg *msgs[], size_t count);
MBX_MATCH_API size_t mbx_match_arrive_many(struct mbx_match *m,
                                           struct mbx_match_msg *const msgs[],
                                           struct mbx_match_recv *recvs[], size_t count);

/* mbx_match_cancel - remove recv from the queue.
 *
 * Returns    true; false if recv is not queued, because it has matched or was never posted. */
MBX_MATCH_API bool mbx_match_cancel(struct mbx_match *m, struct mbx_match_recv *recv);

/* mbx_match_peek - find the message that a receive with this envelope and these ignore bits would
 * take, and leave it queued.
 *
 * The source may be MBX_MATCH_ANY_SOURCE.  The engine remembers the message until a message leaves
 * the queue.  Until then mbx_match_post() needs no search for a receive that accepts the message,
 * unless the receive ignores something that the probe compared.  The same holds for
 * mbx_match_take(); with more than 16 queued messages, it first checks the table for the
 * receive's own envelope.
 *
 * Returns    the message, or NULL. */
MBX_MATCH_API struct mbx_match_msg *
mbx_match_peek(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t ignore);

/* mbx_match_extract - remove msg from the queue; the caller gives it to exactly one receive.
 *
 * Returns    true; false if msg is not queued. */
MBX_MATCH_API bool mbx_match_extract(struct mbx_match *m, struct mbx_match_msg *msg);

/* mbx_match_next_recv, mbx_match_next_msg - walk a queue, oldest entry first.
 *
 * after is NULL for the first call, and a queued entry for the next ones.  To cancel or extract an
 * entry during the walk, get the next entry first.
 *
 * Returns    the entry that follows after, or NULL at the end. */
MBX_MATCH_API struct mbx_match_recv *mbx_match_next_recv(const struct mbx_match *m,
                                                         const struct mbx_match_recv *after);
MBX_MATCH_API struct mbx_match_msg *mbx_match_next_msg(const struct mbx_match *m,
                                                       const struct mbx_match_msg *after);

/* mbx_match_accepts - does a receive with the envelope `wanted` and these ignore bits accept this
 * message?  The source of `wanted` may be MBX_MATCH_ANY_SOURCE. */
static inline bool mbx_match_accepts(const struct mbx_match_envelope *wanted, uint64_t ignore,
                                     const struct mbx_match_envelope *message)
{
    return ((wanted->tag ^ message->tag) & ~ignore) == 0 &&
           wanted->context_id == message->context_id &&
           (wanted->source == message->source || wanted->source == MBX_MATCH_ANY_SOURCE);
}

/* mbx_match_counters_get - read the counters of m. */
MBX_MATCH_API void mbx_match_counters_get(const struct mbx_match *m,
                                          struct mbx_match_counters *counters);

/* mbx_match_memory - how many bytes the engine has allocated.
 *
 * The memory of the caller (struct mbx_match and the entries) is not counted. */
MBX_MATCH_API size_t mbx_match_memory(const struct mbx_match *m);

/* mbx_match_is_valid - do all invariants hold?  This check is slow, and meant for tests. */
MBX_MATCH_API bool mbx_match_is_valid(const struct mbx_match *m);

#ifdef __cplusplus
}
#endif
#endif
