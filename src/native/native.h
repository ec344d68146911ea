/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native.h - record and replay of programs that call matchbox.h themselves: libmatchbox-native.so.
 *
 *   program ── mbx_recv() ──> calls.c ──┬─ its endpoint is recorded or replayed: recv.c, wait.c
 *                                       └─ otherwise ──────────────────────────> mbx_recv() of libmatchbox.so
 *
 * `mbx exec --record` and `--replay` preload this library, so that a program finds its functions before the ones in
 * libmatchbox.so, which does not know of records and gets no slower by them.
 *
 *   lane.c   endpoints and their events
 *   ops.c    operations that the program has started and that were not reported yet
 *   recv.c   receives and probes
 *   wait.c   tests, waits, polls and cancels
 *   calls.c  the functions of matchbox.h
 *
 * Each endpoint has its own sequence of events, which begins at mbx_job_connect(): from there on its peers are the ranks of
 * the job.  All ranks connect their endpoints in the same order.  One thread makes the calls of an endpoint.
 */
#ifndef NATIVE_NATIVE_H
#define NATIVE_NATIVE_H

#include <errno.h>
#include <matchbox/matchbox.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/list.h"
#include "replay/replay.h"

/* ---- libmatchbox.so ---- */

/* The functions of matchbox.h that this library replaces, and two that it only calls. */
/* clang-format off */
#define NATIVE_CALLS(CALL)                                                                  \
    CALL(mbx_job_connect) CALL(mbx_close) CALL(mbx_send) CALL(mbx_ssend) CALL(mbx_try_send) \
    CALL(mbx_recv) CALL(mbx_try_recv) CALL(mbx_probe) CALL(mbx_mprobe) CALL(mbx_mrecv)      \
    CALL(mbx_cancel) CALL(mbx_test) CALL(mbx_wait) CALL(mbx_wait_all) CALL(mbx_wait_some)   \
    CALL(mbx_wait_any) CALL(mbx_progress) CALL(mbx_poll) CALL(mbx_ready)                    \
    CALL(mbx_wait_queues) CALL(mbx_sleep) CALL(mbx_arm) CALL(mbx_peek) CALL(mbx_release)    \
    CALL(mbx_idle) CALL(mbx_write) CALL(mbx_read) CALL(mbx_atomic) CALL(mbx_choice)         \
    CALL(mbx_job_rank) CALL(mbx_job_size) CALL(mbx_inject) CALL(mbx_discard)                \
    CALL(mbx_job_fence)
/* clang-format on */

struct native_next {
#define NATIVE_MEMBER(name) __typeof__(&name) name;
    NATIVE_CALLS(NATIVE_MEMBER)
#undef NATIVE_MEMBER
};

/* The functions in libmatchbox.so.  They are looked up again while they are missing: a program may load libmatchbox.so
 * long after this library. */
extern struct native_next native_found;
void native_find(void);

static inline const struct native_next *native_next(void)
{
    if (native_found.mbx_close == NULL)
        native_find();
    return &native_found;
}

/* ---- lane.c ---- */

/* The messages that a receive or probe accepts. */
struct envelope {
    uint32_t source, context_id;
    uint64_t tag, ignore;
};

/* The sequence of events of one endpoint. */
struct lane {
    struct mbx_ep *_Atomic ep; /* NULL: it is closed */
    struct replay_lane events;
    bool has_thread, is_useless;
    pthread_t thread;
    uint32_t rank, size;
    uint64_t receives, started; /* exact receives, and operations, so far */
    struct hash by_handle, by_real, by_number;
    struct {
        struct mbx_completion entry;
        bool is_there;
    } peeked[4]; /* one for each queue */
    struct list withheld;
    uint64_t *numbers; /* of operations that a poll has found */
    uint32_t number_slots;
};

/* Begins to record or replay the calls of this endpoint, if MBX_RECORD or MBX_REPLAY is set.  Ends the process if the
 * record cannot be replayed. */
void lane_open(struct mbx_job *job, struct mbx_ep *ep);

/* The lane of this endpoint; NULL: it has none, or another thread makes its events. */
struct lane *lane_of(struct mbx_ep *ep);

/* The same for the endpoint that was connected first. */
struct lane *lane_first(void);

void lane_close(struct lane *lane);

/* The program posts a receive on an endpoint without a lane: if a job connects it later, its record lacks that receive. */
void lane_note_early(struct mbx_ep *ep);
void lane_forget_early(const struct mbx_ep *ep); /* it is closed */

/* exit() with this status.  If it is 0, an endpoint that is still replayed diverges, because the recorded program went on. */
void lane_exit(int status);

/* Makes progress on the endpoints of this thread that are replayed, except this one (or NULL): the record may have had
 * it in calls whose results are replayed at once.  False: there are none. */
bool lane_move_others(const struct lane *lane);

/* Checks that find nothing before the core is yielded: another process may need it. */
#define LANE_CHECKS_BEFORE_YIELD 32

/* mbx_wait() without a timeout, and mbx_job_fence(), with that progress. */
int lane_wait(struct lane *lane, mbx_request request, struct mbx_completion *entry);
int lane_fence(struct mbx_job *job);

/* As lane_fence(), for mbx_job_connect().  While a replay waits there, other ranks may wait for its progress on another
 * endpoint; after this fence all ranks are there. */
int lane_fence_to_connect(struct mbx_job *job);

/* Warns, and marks the record as one that cannot be replayed, because it lacks the result of a call.  why: the reason, in
 * a few words. */
void lane_spoil(struct lane *lane, const char *why);

static inline struct replay_outcome lane_outcome(enum replay_result result, uint64_t value)
{
    return (struct replay_outcome){.value = value, .result = (uint8_t)result};
}

/* The outcome of a call that returned 0 ("no"), a negative errno, or a positive number. */
struct replay_outcome lane_outcome_of_result(int result);

/* The result of a call that returned 0 ("no") or a negative errno.  False: it did not. */
bool lane_result_of_outcome(const struct replay_outcome *outcome, int *result);

/* These are the functions of replay_lane. */
static inline bool lane_replays(struct lane *lane, const struct replay_signature *now,
                                struct replay_outcome *outcome)
{
    return replay_lane_agrees(&lane->events, now, NULL, outcome);
}

static inline bool lane_is_replaying(const struct lane *lane)
{
    return replay_lane_is_replaying(&lane->events);
}

/* The recorded outcome is not possible here: the program diverges.  why: the reason. */
static inline void lane_refuse(struct lane *lane, const struct replay_signature *now,
                               const char *why)
{
    replay_lane_refuse(&lane->events, now, NULL, why);
}

static inline const char *lane_why_not(const struct lane *lane,
                                       const struct replay_outcome *outcome)
{
    return replay_lane_why_not(&lane->events, outcome);
}

static inline void lane_record(struct lane *lane, const struct replay_signature *now,
                               struct replay_outcome outcome)
{
    replay_lane_record(&lane->events, now, outcome);
}

static inline void lane_event_ends(struct lane *lane)
{
    replay_lane_event_ends(&lane->events);
}

/* Adds an item, with the next number, for the upper half of the tag that this receive will get. */
void lane_record_post_upper(struct lane *lane, const struct replay_signature *half);

/* Calls whose result is one number.  lane_call_is_replayed(): true: *result is the recorded number. */
bool lane_call_is_replayed(struct lane *lane, enum replay_call call, int *result);
void lane_call_ends(struct lane *lane, enum replay_call call, int result);

/* ---- ops.c ---- */

enum op_kind { OP_OTHER, OP_SEND, OP_EXACT, OP_WILD };

/* The reason for which a receive is withheld. */
enum withheld_why {
    WITHHELD_CANCELLED, /* it was cancelled in time */
    WITHHELD_OPEN,      /* it has no match in the record */
    WITHHELD_LATER      /* an open one that was posted before it accepts whatever it accepts */
};

/* A receive of the program that is not posted, because it got no message in the record. */
struct withheld {
    struct list node; /* of lane->withheld, in the order of the posts */
    struct op *op;
    enum withheld_why why;
    bool is_cancelled;
    struct envelope asked;
    void *buf;
    size_t size;
    struct mbx_options options;
    struct mbx_layout layout;
};

/* An operation with a handle.
 *
 *   I1  real equals handle, unless the receive was withheld and posted later: then by_real has it
 *   I2  if withheld is set, the library has another receive in its place, which no message can match */
struct op {
    uint64_t handle, real; /* the program's, and the library's */
    uint64_t number;       /* counts operations in the order in which the program starts them */
    uint64_t event;        /* OP_WILD: its number in the record; OP_EXACT: among exact ones */
    enum op_kind kind;
    bool is_wide; /* the next item of the record has the upper half of its tag */
    struct withheld *withheld;
};

/* Adds an operation that has started.  False: there is no memory, and nothing has changed. */
bool op_add(struct lane *lane, struct op op);

/* The operation with this handle or number, or NULL. */
struct op *op_find(struct lane *lane, mbx_request handle);
struct op *op_number(struct lane *lane, uint64_t number);

/* The library's handle for this handle of the program. */
mbx_request op_real(struct lane *lane, mbx_request handle);

/* The library has reported this entry, and the program will get it.  Records the outcome, gives the entry the program's
 * handle, and removes the operation.  Returns its number; 0: the entry has no operation. */
uint64_t op_reported(struct lane *lane, struct mbx_completion *entry);

/* Does this entry report the death of a peer?  A call that gets it is not replayed. */
bool op_has_failed(const struct mbx_completion *entry);

/* Does an open receive that is withheld accept every message that this one, without wildcards, accepts? */
bool op_is_later(const struct lane *lane, const struct envelope *exact);

/* Will this operation end?  A receive that was only later than an open one has got a message, if the program waits for it
 * before the end of the record: it is posted here. */
bool op_can_end(struct lane *lane, struct op *op);

/* An open receive was cancelled: posts the receives that were withheld only because they were later. */
void op_post_freed(struct lane *lane);

/* Posts the withheld receives as the program has asked for them. */
void op_post_withheld(struct lane *lane);

/* A send whose completion the program has not got, or NULL. */
struct op *op_any_send(struct lane *lane);

void op_forget_all(struct lane *lane);

/* ---- recv.c ---- */

/* The outcome of a call that got this message.  If bits of the upper half of the tag are ignored, that half is an item of
 * its own. */
struct replay_outcome recv_outcome(uint32_t source, uint64_t tag, size_t size);
struct replay_outcome recv_outcome_of_upper(uint64_t tag);

int recv_post(struct lane *lane, const struct envelope *asked, void *buf, size_t size,
              const struct mbx_options *options, mbx_request *request);
int recv_try(struct lane *lane, const struct envelope *asked, void *buf, size_t size,
             struct mbx_status *status);

/* mbx_probe(); if message is not NULL, mbx_mprobe(). */
int recv_probe(struct lane *lane, const struct envelope *asked, struct mbx_status *status,
               mbx_message *message);

/* ---- wait.c ---- */

int wait_test(struct lane *lane, mbx_request handle, struct mbx_completion *completion);
int wait_one(struct lane *lane, mbx_request handle, int64_t timeout_ns,
             struct mbx_completion *completion);
int wait_any(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
             int *index, struct mbx_completion *completion);
int wait_some(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
              int *indices, struct mbx_completion *completions);
int wait_all(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
             struct mbx_completion *completions);
int wait_poll(struct lane *lane, unsigned queues, struct mbx_completion *entries, int count);
const struct mbx_completion *wait_peek(struct lane *lane, unsigned queues);
void wait_release(struct lane *lane, const struct mbx_completion *completion);
bool wait_has_peeked(const struct lane *lane, unsigned queues);
int wait_cancel(struct lane *lane, mbx_request handle);

/* Waits for a request, and takes its entry.  False: it will never be complete. */
bool wait_take(struct lane *lane, mbx_request handle, struct mbx_completion *entry);

#endif
