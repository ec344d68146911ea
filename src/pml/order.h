/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - record and replay of what the program's calls return, what its files share.
 *
 *   order.c           events and their outcomes; opening
 *   order_lane.c      sequences of events, of which threads have several
 *   order_recv.c      receives
 *   order_probe.c     probes
 *   order_requests.c  tests, and waits for any or some of several requests
 *   order_shuffle.c   random choices, instead of the usual ones
 *   order_trace.c     what the program sees goes to the trace
 */
#ifndef PML_ORDER_H
#define PML_ORDER_H

#include "pml/pml.h"

#include <pthread.h>

#include "replay/replay.h"

/* own.event of a receive. */
enum order_event {
    ORDER_EXACT = 1, /* its number counts the program's exact receives */
    ORDER_WILD = 2,  /* its number counts the writer's receives, or is 0 */
    ORDER_WITHHELD = 4,
    ORDER_OPEN = 8, /* withheld, as it has no match in the record */
    ORDER_LATER =
        16 /* withheld, as an open one that was posted before it accepts whatever it accepts */
};
#define ORDER_SHIFT 5

/* A sequence of events, which one thread makes: the whole program's, or, with threads, one communicator's. */
struct order_lane {
    struct replay_lane events; /* first: its address is the lane's */
    uint64_t comms, receives;  /* counted so far */
    uint64_t held;             /* events that were not true although they could have been */
    struct {
        pml_recv_t **recvs; /* in the order in which the program has posted */
        size_t count, slots;
    } withheld;
    bool has_thread;
    pthread_t thread; /* that makes the events */
};

extern struct order {
    struct order_lane main;
    struct replay_tail *
        tail; /* of the record, if it is all there is: nothing replayed or traced, no threads; or NULL */
    bool is_shuffled;
    bool is_traced;           /* there are a record and a trace */
    ompi_request_fns_t usual; /* what tests and waits do without a record */
    pthread_mutex_t lock;     /* of all writers, and of the lanes; with threads */
} pml_order;

extern struct replay_user order_user;

/* ---- order_lane.c ---- */

/* Opens the record, or the replay, of the first lane, and notes where the other ones are to be.  Folders, or NULL.  Open MPI's
 * error. */
int order_lanes_open(const char *record_to, const char *replay_from,
                     const struct replay_job *job);

/* Closes all.  False: one has diverged. */
bool order_lanes_close(void);

/* With threads: of a communicator, or NULL; NULL: no event. */
struct order_lane *order_lane_of_comm(ompi_communicator_t *comm);
struct order_lane *order_lane_of_request(size_t count, ompi_request_t **requests);
struct order_lane *order_lane_of_recv(const pml_recv_t *recv);

/* Where a call on this communicator, or of these requests, is an event; NULL: it is none, as Open MPI makes it itself, or another
 * thread uses the communicator. */
static inline struct order_lane *order_lane(ompi_communicator_t *comm)
{
    if (unlikely(pml.may_share))
        return order_lane_of_comm(comm);
    return pml_calling_back == 0 ? &pml_order.main : NULL;
}

static inline struct order_lane *order_lane_for(size_t count, ompi_request_t **requests)
{
    if (unlikely(pml.may_share))
        return order_lane_of_request(count, requests);
    return pml_calling_back == 0 ? &pml_order.main : NULL;
}

/* The lane in which a receive was posted. */
static inline struct order_lane *order_lane_posted(const pml_recv_t *recv)
{
    return unlikely(pml.may_share) ? order_lane_of_recv(recv) : &pml_order.main;
}

/* ---- order.c ---- */

/* Is this call of the program, and is all that happens that it is recorded? */
static inline bool order_is_plain(void)
{
    return likely(pml_order.tail != NULL) && likely(pml_calling_back == 0);
}

struct replay_signature order_signature(struct order_lane *lane, enum replay_kind kind, int src,
                                        int tag, ompi_communicator_t *comm);
struct replay_signature order_signature_of_requests(enum replay_kind kind, size_t count);

static inline struct replay_outcome order_outcome(enum replay_result result, uint64_t value)
{
    return (struct replay_outcome){.value = value, .result = (uint8_t)result};
}

struct replay_outcome order_outcome_of_status(const ompi_status_public_t *status, int err);

static inline void order_record(struct order_lane *lane,
                                const struct replay_signature *signature,
                                struct replay_outcome outcome)
{
    replay_lane_record(&lane->events, signature, outcome);
}

static inline uint64_t order_record_post(struct order_lane *lane,
                                         const struct replay_signature *signature)
{
    return replay_lane_post(&lane->events, signature);
}

static inline void order_record_fill(struct order_lane *lane, uint64_t number,
                                     struct replay_outcome outcome)
{
    replay_lane_fill(&lane->events, number, outcome);
}

static inline void order_record_cancelled(struct order_lane *lane, uint64_t receive)
{
    replay_lane_cancelled(&lane->events, receive);
}

/* As replay_lane_agrees(). */
static inline bool order_is_replayed(struct order_lane *lane,
                                     const struct replay_signature *now,
                                     const ompi_communicator_t *comm,
                                     struct replay_outcome *outcome)
{
    return replay_lane_is_replaying(&lane->events) &&
           replay_lane_agrees(&lane->events, now, comm != NULL ? comm->c_name : NULL, outcome);
}

/* The recorded outcome cannot be. */
static inline void order_refuse(struct order_lane *lane, const struct replay_signature *now,
                                const ompi_communicator_t *comm, const char *why)
{
    replay_lane_refuse(&lane->events, now, comm != NULL ? comm->c_name : NULL, why);
}

static inline const char *order_why_not(const struct replay_outcome *outcome)
{
    return replay_lane_why_not(&pml_order.main.events, outcome);
}

void order_end_job(void) __attribute__((noreturn));

/* Can a call with these arguments have met this message? */
bool order_fits(const struct replay_outcome *outcome, int src, int tag,
                const ompi_communicator_t *comm);

/* mbx_choice() of the program. */
int order_choice(uint64_t site, uint64_t *value);

/* ---- order_recv.c ---- */

/* Puts functions of this file into the module's table. */
void order_recv_take(mca_pml_base_module_t *module);

/* The rank continues freely: what was withheld is posted, as the program has asked for it. */
void order_go_free(struct replay_lane *events);

static inline bool order_is_withheld(const ompi_request_t *request)
{
    return request->req_type == OMPI_REQUEST_PML &&
           ((const mca_pml_base_request_t *)request)->req_type == MCA_PML_REQUEST_RECV &&
           request->req_state != OMPI_REQUEST_INACTIVE &&
           ((const pml_recv_t *)request)->own.event & ORDER_WITHHELD;
}

/* In the replay of a record that was cut short: a receive of this source and tag, or a probe, has met a message, so the receives
 * of the same that were posted before have met theirs.  Receives that are withheld because they are later than an open one are posted
 * here. */
void order_post_later(struct order_lane *lane, int src, int tag,
                      const ompi_communicator_t *comm);

/* Lets these requests end: posts receives that are withheld because they are later than an open one.  False: one of them is withheld
 * for another reason. */
bool order_let_end(size_t count, ompi_request_t **requests);

/* An event has happened. */
static inline void order_event_ends(struct order_lane *lane)
{
    replay_lane_event_ends(&lane->events);
}

/* ---- order_probe.c ---- */

void order_probe_take(mca_pml_base_module_t *module);

/* ---- order_requests.c ---- */

/* Puts functions of this file into ompi_request_functions. */
void order_requests_take(void);

/* Takes the calls that are preloaded.  False: none are, and the program's MPI_Request_get_status is not seen. */
bool order_preload_take(void);
void order_preload_leave(void);

/* Ends these requests, which are complete or will be, as MPI_Waitsome ends them.  Its error. */
int order_end_some(int found, ompi_request_t **requests, const int *indices,
                   ompi_status_public_t *statuses);

/* ---- order_shuffle.c ---- */

void order_shuffle_take(mca_pml_base_module_t *module);

/* Puts functions of this file into pml_order.usual. */
void order_shuffle_start(uint64_t seed, uint32_t rank);

/* The rank from which a receive or probe of this source is to take a message: of a sender whose message waits, or src. */
int order_shuffle_source(int src, int tag, ompi_communicator_t *comm);

/* ---- order_trace.c ---- */

/* Puts functions of this file into the module's table, and into ompi_request_functions after all others. */
void order_trace_take(mca_pml_base_module_t *module);
void order_trace_start(void);

/* The last event is this receive, which was posted; or a probe that has found a message. */
void order_trace_recv(const pml_recv_t *recv);
void order_trace_probe(void);

/* A call has reported this request as complete, which stays as it is. */
void order_trace_status(const ompi_request_t *request);

/* As pml_recv(); is_event: it is the last event. */
int order_trace_blocking(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                         ompi_communicator_t *comm, ompi_status_public_t *status,
                         bool is_event);

#endif
