/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - what the program's calls return is recorded (MBX_RECORD), or is what a record says (MBX_REPLAY).
 *
 *   MPI_Irecv from any source ──> order_irecv() ─┬─ recorded: an open event, which its completion fills in
 *                                                └─ replayed: an exact receive of the message that it got, or none at all
 *   MPI_Iprobe, MPI_Test, ... ──> order_test() ──┬─ recorded: what they return
 *                                                └─ replayed: "no" is returned once more; "yes" is waited for
 *
 * These functions take the places of others in the module's table and in ompi_request_functions when one of the two is set;
 * otherwise nothing of this file runs.
 *
 * A receive or test that Open MPI makes itself while a completion calls it back is no event, nor is a persistent receive that
 * has such a callback (one-sided calls): when they happen depends on time.  Exact receives are counted: those that were
 * cancelled in time are not posted in the replay, since their message could be faster there.
 *
 * Why the replay gets the same messages: docs/same-answer.md#how-it-works.
 *
 * Invariants
 *   I1  a request whose own.event has ORDER_WITHHELD is in order.withheld, and not posted
 *   I2  order.withheld is in the order in which the program has posted
 */
#include "pml/pml.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/hash.h"
#include "replay/replay.h"

/* The exit status of a job that diverged. */
#define STATUS_DIVERGED 87

/* own.event of a receive. */
enum order_event {
    ORDER_EXACT = 1, /* its number is that of the program's exact receives */
    ORDER_WILD = 2,  /* that of the writer's receives, or 0 */
    ORDER_WITHHELD = 4
};
#define ORDER_SHIFT 3

static struct {
    struct replay_writer *writer; /* or NULL */
    struct replay_judge *judge;   /* or NULL */
    bool is_free;                 /* the record has ended, or the program has diverged */
    bool goes_on;                 /* after a divergence */
    uint64_t comms, receives;     /* counted so far */
    uint64_t held;                /* events that were not true although they could have been */
    ompi_request_fns_t usual;
    ompi_request_cancel_fn_t cancel;
    pml_recv_t **withheld;
    size_t withheld_count, withheld_slots;
    bool has_thread;
    pthread_t thread; /* that makes the events */
    pthread_mutex_t lock;
} order = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is an event ---- */

static OUT_OF_LINE bool is_of_thread(void)
{
    bool is_first;

    pthread_mutex_lock(&order.lock);
    if (!order.has_thread)
        order.thread = pthread_self();
    order.has_thread = true;
    is_first = pthread_equal(order.thread, pthread_self());
    if (!is_first && order.writer != NULL)
        replay_write_flag(order.writer, REPLAY_THREADS);
    pthread_mutex_unlock(&order.lock);
    return is_first;
}

/* Is this call of the program, and of its first thread? */
static inline bool is_event(void)
{
    return pml_calling_back == 0 && (!pml.has_threads || is_of_thread());
}

static struct replay_signature signature_of(enum replay_kind kind, int src, int tag,
                                            ompi_communicator_t *comm)
{
    struct pml_comm *own = pml_comm_of(comm);

    if (own->ordinal == 0)
        own->ordinal = ++order.comms;
    return (struct replay_signature){.comm = own->ordinal,
                                     .source = src == OMPI_ANY_SOURCE ? REPLAY_ANY : src,
                                     .tag = tag == OMPI_ANY_TAG ? REPLAY_ANY : tag,
                                     .kind = (uint8_t)kind};
}

static struct replay_signature signature_of_requests(enum replay_kind kind, size_t count)
{
    return (struct replay_signature){
        .kind = (uint8_t)kind,
        .requests = (uint8_t)(count < REPLAY_REQUESTS_MAX ? count : REPLAY_REQUESTS_MAX)};
}

static struct replay_outcome outcome_of(enum replay_result result, uint64_t value)
{
    return (struct replay_outcome){.value = value, .result = (uint8_t)result};
}

static struct replay_outcome outcome_of_status(const ompi_status_public_t *status, int err)
{
    if (err != OMPI_SUCCESS && err != MPI_ERR_TRUNCATE)
        return outcome_of(REPLAY_FAILED, 0);
    return replay_message(status->MPI_SOURCE, status->MPI_TAG, status->_ucount);
}

/* ---- recording ---- */

static inline void record_lock(void)
{
    if (unlikely(pml.has_threads))
        pthread_mutex_lock(&order.lock);
}

static inline void record_unlock(void)
{
    if (unlikely(pml.has_threads))
        pthread_mutex_unlock(&order.lock);
}

static void record(const struct replay_signature *signature, struct replay_outcome outcome)
{
    if (order.writer == NULL)
        return;
    record_lock();
    replay_write_event(order.writer, signature, &outcome);
    record_unlock();
}

/* The number of a receive that is open now; 0: nothing is recorded. */
static uint64_t record_post(const struct replay_signature *signature)
{
    uint64_t number;

    if (order.writer == NULL)
        return 0;
    record_lock();
    number = replay_write_post(order.writer, signature);
    record_unlock();
    return number;
}

static void record_fill(uint64_t number, struct replay_outcome outcome)
{
    if (order.writer == NULL)
        return;
    record_lock();
    replay_write_fill(order.writer, number, &outcome);
    record_unlock();
}

static void record_cancelled(uint64_t receive)
{
    if (order.writer == NULL)
        return;
    record_lock();
    replay_write_cancelled(order.writer, receive);
    record_unlock();
}

/* ---- replaying ---- */

/* The rank continues freely: what was withheld is posted, as the program has asked for it. */
static void go_free(void)
{
    order.is_free = true;
    for (size_t i = 0; i < order.withheld_count; i++) {
        pml_recv_t *recv = order.withheld[i];
        int err;

        recv->own.event &= ~(uint64_t)ORDER_WITHHELD;
        err = pml_recv_start(recv);
        if (err == OMPI_SUCCESS)
            continue;
        recv->super.req_base.req_ompi.req_status.MPI_ERROR = MPI_ERR_OTHER;
        pml_request_complete(&recv->super.req_base, &recv->own);
    }
    order.withheld_count = 0;
}

static void diverge(const struct replay_signature *now, const ompi_communicator_t *comm)
{
    replay_judge_say(order.judge, now, comm != NULL ? comm->c_name : NULL, order.goes_on);
    if (!order.goes_on)
        (void)MPI_Abort(MPI_COMM_WORLD, STATUS_DIVERGED);
    go_free();
}

/* True: the event has this outcome.  False: the call does what it would do without a record. */
static bool is_replayed(const struct replay_signature *now, const ompi_communicator_t *comm,
                        struct replay_outcome *outcome)
{
    if (order.judge == NULL || order.is_free)
        return false;
    switch (replay_judge(order.judge, now, outcome)) {
    case REPLAY_AGREES:
        return true;
    case REPLAY_OVER:
        go_free();
        return false;
    case REPLAY_DIFFERS:
        diverge(now, comm);
        return false;
    }
    return false;
}

/* The recorded outcome cannot be. */
static void refuse(const struct replay_signature *now, const ompi_communicator_t *comm,
                   const char *why)
{
    replay_judge_refuse(order.judge, why);
    diverge(now, comm);
}

/* An event has happened. */
static inline void event_ends(void)
{
    if (unlikely(order.judge != NULL) && !order.is_free && replay_judge_is_over(order.judge))
        go_free();
}

/* Can a call with these arguments have met this message? */
static bool fits(const struct replay_outcome *outcome, int src, int tag,
                 const ompi_communicator_t *comm)
{
    int source = replay_source(outcome), found = replay_tag(outcome);

    return source >= 0 && (uint32_t)source < pml_comm_of(comm)->size &&
           (src == OMPI_ANY_SOURCE || src == source) &&
           (tag == OMPI_ANY_TAG ? found >= 0 : found == tag);
}

static const char *why_not(const struct replay_outcome *outcome)
{
    return outcome->result == REPLAY_FAILED
               ? "a process had failed at this point of the record; process failures are not "
                 "replayed"
               : "the recorded outcome does not fit this call";
}

/* ---- receives ---- */

static bool is_withheld(const ompi_request_t *request)
{
    return request->req_type == OMPI_REQUEST_PML &&
           ((const mca_pml_base_request_t *)request)->req_type == MCA_PML_REQUEST_RECV &&
           request->req_state != OMPI_REQUEST_INACTIVE &&
           ((const pml_recv_t *)request)->own.event & ORDER_WITHHELD;
}

/* False: no memory. */
static bool withhold(pml_recv_t *recv)
{
    if (order.withheld_count == order.withheld_slots) {
        size_t slots = 2 * order.withheld_slots + 16;
        pml_recv_t **more = realloc(order.withheld, slots * sizeof *more);

        if (more == NULL)
            return false;
        order.withheld = more;
        order.withheld_slots = slots;
    }
    recv->own.event |= ORDER_WITHHELD;
    order.withheld[order.withheld_count++] = recv;
    return true;
}

static void withheld_remove(pml_recv_t *recv)
{
    size_t i = 0;

    recv->own.event &= ~(uint64_t)ORDER_WITHHELD;
    while (i < order.withheld_count && order.withheld[i] != recv)
        i++;
    if (i == order.withheld_count)
        return;
    order.withheld_count--;
    memmove(order.withheld + i, order.withheld + i + 1,
            (order.withheld_count - i) * sizeof order.withheld[0]);
}

/* What becomes of a receive. */
struct plan {
    uint64_t event; /* own.event */
    int src, tag;   /* what is posted */
    bool is_withheld;
};

static void plan_recorded(struct plan *plan, const struct replay_signature *now,
                          ompi_communicator_t *comm, const struct replay_outcome *outcome)
{
    if (outcome->result == REPLAY_MESSAGE && fits(outcome, plan->src, plan->tag, comm)) {
        plan->src = replay_source(outcome);
        plan->tag = replay_tag(outcome);
    } else if (outcome->result == REPLAY_OPEN && replay_judge_is_over(order.judge)) {
        go_free();
    } else if ((outcome->result == REPLAY_OPEN || outcome->result == REPLAY_CANCELLED) &&
               now->kind != REPLAY_RECV) {
        plan->is_withheld = true;
    } else {
        refuse(now, comm, why_not(outcome));
    }
}

static struct plan plan_wild(struct plan plan, enum replay_kind kind, ompi_communicator_t *comm)
{
    struct replay_signature now = signature_of(kind, plan.src, plan.tag, comm);
    struct replay_outcome outcome;

    if (is_replayed(&now, comm, &outcome))
        plan_recorded(&plan, &now, comm, &outcome);
    plan.event = record_post(&now) << ORDER_SHIFT | ORDER_WILD;
    return plan;
}

static inline struct plan plan_of(enum replay_kind kind, int src, int tag,
                                  ompi_communicator_t *comm)
{
    struct plan plan = {.src = src, .tag = tag};
    bool is_wild = src == OMPI_ANY_SOURCE || tag == OMPI_ANY_TAG;

    if ((!is_wild && tag < 0) || !is_event())
        return plan;
    if (is_wild)
        return plan_wild(plan, kind, comm);
    plan.event = ++order.receives << ORDER_SHIFT | ORDER_EXACT;
    plan.is_withheld = unlikely(order.judge != NULL) && !order.is_free &&
                       replay_judge_is_cancelled(order.judge, order.receives);
    return plan;
}

static inline uint64_t number_of(const pml_recv_t *recv)
{
    return recv->own.event >> ORDER_SHIFT;
}

/* req_complete_cb of a wildcard receive. */
static int wild_completed(ompi_request_t *request)
{
    const ompi_status_public_t *status = &request->req_status;

    record_fill(number_of((pml_recv_t *)request),
                status->_cancelled ? outcome_of(REPLAY_CANCELLED, 0)
                                   : outcome_of_status(status, status->MPI_ERROR));
    return 0;
}

/* That of an exact one that is being cancelled. */
static int cancelled_completed(ompi_request_t *request)
{
    if (request->req_status._cancelled)
        record_cancelled(number_of((pml_recv_t *)request));
    return 0;
}

static int cancel_withheld(pml_recv_t *recv)
{
    mca_pml_base_request_t *base = &recv->super.req_base;

    withheld_remove(recv);
    base->req_ompi.req_status._cancelled = 1;
    base->req_ompi.req_status._ucount = 0;
    if (recv->own.event & ORDER_EXACT)
        record_cancelled(number_of(recv));
    pml_request_complete(base, &recv->own);
    return OMPI_SUCCESS;
}

static int order_cancel(ompi_request_t *request, int flag)
{
    pml_recv_t *recv = (pml_recv_t *)request;

    if (flag && recv->own.event & ORDER_WITHHELD)
        return cancel_withheld(recv);
    /* its receive has a match in the record */
    if (recv->own.event != 0 && order.judge != NULL && !order.is_free)
        return OMPI_SUCCESS;
    if (flag && recv->own.event & ORDER_EXACT && !REQUEST_COMPLETE(request))
        request->req_complete_cb = cancelled_completed;
    return order.cancel(request, flag);
}

static inline void recv_note(pml_recv_t *recv, uint64_t event)
{
    ompi_request_t *request = &recv->super.req_base.req_ompi;

    recv->own.event = event;
    if (unlikely(request->req_cancel != order_cancel)) {
        order.cancel = request->req_cancel;
        request->req_cancel = order_cancel;
    }
}

/* Not posted, or posted with a callback. */
static int irecv_planned(const struct plan *plan, void *buf, size_t count,
                         ompi_datatype_t *type, int src, int tag, ompi_communicator_t *comm,
                         ompi_request_t **request)
{
    pml_recv_t *recv = pml_recv_take();
    int err = OMPI_SUCCESS;

    if (recv == NULL)
        return MPI_ERR_NO_MEM;
    pml_recv_begin(recv, plan->src);
    pml_recv_describe(recv, buf, count, type, plan->src, plan->tag, comm, false);
    recv_note(recv, plan->event);
    if (plan->event & ORDER_WILD)
        recv->super.req_base.req_ompi.req_complete_cb = wild_completed;
    if (!plan->is_withheld)
        err = pml_recv_start(recv);
    else if (!withhold(recv))
        err = OMPI_ERR_OUT_OF_RESOURCE;
    if (err != OMPI_SUCCESS) {
        recv->super.req_base.req_ompi.req_complete_cb = NULL;
        pml_request_give_back(&recv->super.req_base);
        return pml_error_of_call(comm, src, err);
    }
    *request = &recv->super.req_base.req_ompi;
    (void)tag;
    return OMPI_SUCCESS;
}

static int order_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                       ompi_communicator_t *comm, ompi_request_t **request)
{
    struct plan plan = plan_of(REPLAY_IRECV, src, tag, comm);
    int err;

    if (plan.event & ORDER_WILD || plan.is_withheld) {
        err = irecv_planned(&plan, buf, count, type, src, tag, comm, request);
        event_ends();
        return err;
    }
    err = pml_irecv(buf, count, type, src, tag, comm, request);
    if (likely(err == OMPI_SUCCESS))
        recv_note((pml_recv_t *)*request, plan.event);
    return err;
}

static int order_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                      ompi_communicator_t *comm, ompi_status_public_t *status)
{
    struct plan plan = plan_of(REPLAY_RECV, src, tag, comm);
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    int err;

    if (!(plan.event & ORDER_WILD))
        return pml_recv(buf, count, type, src, tag, comm, status);
    err = pml_recv(buf, count, type, plan.src, plan.tag, comm, out);
    record_fill(plan.event >> ORDER_SHIFT, outcome_of_status(out, err));
    event_ends();
    return err;
}

static int order_imrecv(void *buf, size_t count, ompi_datatype_t *type,
                        ompi_message_t **message, ompi_request_t **request)
{
    int err = pml_imrecv(buf, count, type, message, request);

    if (err == OMPI_SUCCESS)
        recv_note((pml_recv_t *)*request, 0);
    return err;
}

/* One persistent receive. */
static int start_recv(ompi_request_t *request)
{
    mca_pml_base_request_t *base = (mca_pml_base_request_t *)request;
    pml_recv_t *recv = (pml_recv_t *)request;
    struct plan plan = {.src = base->req_peer, .tag = base->req_tag};
    int src = base->req_peer, tag = base->req_tag, err;

    if (request->req_complete_cb == NULL) /* else it is Open MPI's own */
        plan = plan_of(REPLAY_START, src, tag, base->req_comm);
    recv_note(recv, plan.event);
    if (plan.event & ORDER_WILD)
        request->req_complete_cb = wild_completed;
    if (plan.is_withheld) {
        pml_persistent_begin(base);
        err = withhold(recv) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
        event_ends();
        return err;
    }
    base->req_peer = plan.src;
    base->req_tag = plan.tag;
    err = pml_start(1, &request);
    base->req_peer = src;
    base->req_tag = tag;
    if (err != OMPI_SUCCESS && plan.event & ORDER_WILD)
        request->req_complete_cb = NULL;
    event_ends();
    return err;
}

/* MPI_Start calls the request. */
static int order_start(size_t count, ompi_request_t **requests)
{
    int err = OMPI_SUCCESS;

    for (size_t i = 0; i < count && err == OMPI_SUCCESS; i++) {
        bool is_ours = requests[i] != NULL && requests[i]->req_type == OMPI_REQUEST_PML;

        err =
            is_ours && ((mca_pml_base_request_t *)requests[i])->req_type == MCA_PML_REQUEST_RECV
                ? start_recv(requests[i])
                : pml_start(1, &requests[i]);
    }
    return err;
}

static int order_irecv_init(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                            ompi_communicator_t *comm, ompi_request_t **request)
{
    int err = pml_irecv_init(buf, count, type, src, tag, comm, request);

    if (err == OMPI_SUCCESS)
        (*request)->req_start = order_start;
    return err;
}

/* ---- probes ---- */

/* A probe that found this message is replayed: true, and what to look for. */
static bool is_found(const struct replay_signature *now, const struct replay_outcome *outcome,
                     int src, int tag, const ompi_communicator_t *comm)
{
    if (outcome->result == REPLAY_MESSAGE && fits(outcome, src, tag, comm))
        return true;
    refuse(now, comm, why_not(outcome));
    return false;
}

/* The message that is here instead of the recorded one. */
static void compare_size(const struct replay_signature *now, const struct replay_outcome *then,
                         const ompi_communicator_t *comm, const ompi_status_public_t *status)
{
    struct replay_outcome found = outcome_of_status(status, OMPI_SUCCESS);

    if (found.size_class != then->size_class)
        refuse(now, comm, "its message has another size than the recorded one");
}

static void record_probe(const struct replay_signature *now, int err, int matched,
                         const ompi_status_public_t *status)
{
    record(now, matched || err != OMPI_SUCCESS ? outcome_of_status(status, err)
                                               : outcome_of(REPLAY_FALSE, 0));
}

static int order_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                        ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    struct replay_signature now;
    struct replay_outcome outcome;
    int err;

    if (!is_event())
        return pml_iprobe(src, tag, comm, matched, status);
    now = signature_of(REPLAY_IPROBE, src, tag, comm);
    *matched = 0;
    if (!is_replayed(&now, comm, &outcome)) {
        err = pml_iprobe(src, tag, comm, matched, out);
    } else if (outcome.result == REPLAY_FALSE) {
        pml_progress_test();
        err = OMPI_SUCCESS;
    } else if (is_found(&now, &outcome, src, tag, comm)) {
        err = pml_probe(replay_source(&outcome), replay_tag(&outcome), comm, out);
        *matched = err == OMPI_SUCCESS;
        if (err == OMPI_SUCCESS)
            compare_size(&now, &outcome, comm, out);
    } else {
        err = pml_iprobe(src, tag, comm, matched, out);
    }
    record_probe(&now, err, *matched, out);
    event_ends();
    return err;
}

static int order_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                         ompi_message_t **message, ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    struct replay_signature now;
    struct replay_outcome outcome;
    int err;

    if (!is_event())
        return pml_improbe(src, tag, comm, matched, message, status);
    now = signature_of(REPLAY_IMPROBE, src, tag, comm);
    *matched = 0;
    if (!is_replayed(&now, comm, &outcome)) {
        err = pml_improbe(src, tag, comm, matched, message, out);
    } else if (outcome.result == REPLAY_FALSE) {
        pml_progress_test();
        err = OMPI_SUCCESS;
    } else if (is_found(&now, &outcome, src, tag, comm)) {
        err = pml_mprobe(replay_source(&outcome), replay_tag(&outcome), comm, message, out);
        *matched = err == OMPI_SUCCESS;
        if (err == OMPI_SUCCESS)
            compare_size(&now, &outcome, comm, out);
    } else {
        err = pml_improbe(src, tag, comm, matched, message, out);
    }
    record_probe(&now, err, *matched, out);
    event_ends();
    return err;
}

/* A blocking probe with a wildcard: what it looks for. */
static void plan_probe(const struct replay_signature *now, ompi_communicator_t *comm, int *src,
                       int *tag)
{
    struct replay_outcome outcome;

    if (!is_replayed(now, comm, &outcome) || !is_found(now, &outcome, *src, *tag, comm))
        return;
    *src = replay_source(&outcome);
    *tag = replay_tag(&outcome);
}

static bool is_wild_event(int src, int tag)
{
    return (src == OMPI_ANY_SOURCE || tag == OMPI_ANY_TAG) && is_event();
}

static int order_probe(int src, int tag, ompi_communicator_t *comm,
                       ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    struct replay_signature now;
    int err;

    if (!is_wild_event(src, tag))
        return pml_probe(src, tag, comm, status);
    now = signature_of(REPLAY_PROBE, src, tag, comm);
    plan_probe(&now, comm, &src, &tag);
    err = pml_probe(src, tag, comm, out);
    record_probe(&now, err, true, out);
    event_ends();
    return err;
}

static int order_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                        ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    struct replay_signature now;
    int err;

    if (!is_wild_event(src, tag))
        return pml_mprobe(src, tag, comm, message, status);
    now = signature_of(REPLAY_MPROBE, src, tag, comm);
    plan_probe(&now, comm, &src, &tag);
    err = pml_mprobe(src, tag, comm, message, out);
    record_probe(&now, err, true, out);
    event_ends();
    return err;
}

/* ---- tests and waits ---- */

static bool is_active(const ompi_request_t *request)
{
    return request->req_state != OMPI_REQUEST_INACTIVE && !is_withheld(request);
}

/* Nothing was complete: nothing is, whatever has come. */
static void hold_back(size_t count, ompi_request_t **requests)
{
    pml_progress_test();
    for (size_t i = 0; i < count; i++)
        if (is_active(requests[i]) && REQUEST_COMPLETE(requests[i])) {
            order.held++;
            return;
        }
}

/* A request that is complete, or will be, ends as MPI_Test ends it. */
static int end_one(ompi_request_t **request, ompi_status_public_t *status)
{
    int done = 0, err;

    pml_wait(*request);
    do
        err = order.usual.req_test(request, &done, status);
    while (err == OMPI_SUCCESS && !done);
    return err;
}

static int order_req_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    struct replay_signature now = signature_of_requests(REPLAY_TEST, 1);
    struct replay_outcome outcome;
    int err = OMPI_SUCCESS;

    if (!is_event())
        return order.usual.req_test(request, done, status);
    *done = 0;
    if (!is_replayed(&now, NULL, &outcome)) {
        err = order.usual.req_test(request, done, status);
    } else if (outcome.result == REPLAY_FALSE) {
        hold_back(1, request);
    } else if (outcome.result == REPLAY_TRUE && !is_withheld(*request)) {
        err = end_one(request, status);
        *done = 1;
    } else {
        refuse(&now, NULL, why_not(&outcome));
        err = order.usual.req_test(request, done, status);
    }
    record(&now, outcome_of(*done ? REPLAY_TRUE : REPLAY_FALSE, 0));
    event_ends();
    return err;
}

static bool has_withheld(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (is_withheld(requests[i]))
            return true;
    return false;
}

static int order_req_test_all(size_t count, ompi_request_t **requests, int *done,
                              ompi_status_public_t *statuses)
{
    struct replay_signature now = signature_of_requests(REPLAY_TESTALL, count);
    struct replay_outcome outcome;
    int err = OMPI_SUCCESS;

    if (!is_event())
        return order.usual.req_test_all(count, requests, done, statuses);
    *done = 0;
    if (!is_replayed(&now, NULL, &outcome)) {
        err = order.usual.req_test_all(count, requests, done, statuses);
    } else if (outcome.result == REPLAY_FALSE) {
        hold_back(count, requests);
    } else if (outcome.result == REPLAY_TRUE && !has_withheld(count, requests)) {
        for (size_t i = 0; i < count; i++)
            pml_wait(requests[i]);
        do
            err = order.usual.req_test_all(count, requests, done, statuses);
        while (err == OMPI_SUCCESS && !*done);
    } else {
        refuse(&now, NULL, why_not(&outcome));
        err = order.usual.req_test_all(count, requests, done, statuses);
    }
    record(&now, outcome_of(*done ? REPLAY_TRUE : REPLAY_FALSE, 0));
    event_ends();
    return err;
}

/* May the request of a recorded index have been completed? */
static bool is_possible(uint64_t index, size_t count, ompi_request_t **requests)
{
    return index < count && is_active(requests[index]);
}

static bool none_is_active(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i]->req_state != OMPI_REQUEST_INACTIVE)
            return false;
    return true;
}

/* MPI_Testany and MPI_Waitany as recorded: true, and *err. */
static bool any_replayed(const struct replay_signature *now, size_t count,
                         ompi_request_t **requests, int *which, int *done,
                         ompi_status_public_t *status, int *err)
{
    struct replay_outcome outcome;

    if (!is_replayed(now, NULL, &outcome))
        return false;
    *err = OMPI_SUCCESS;
    *which = MPI_UNDEFINED;
    *done = outcome.result != REPLAY_FALSE;
    if (outcome.result == REPLAY_FALSE && now->kind == REPLAY_TESTANY) {
        hold_back(count, requests);
        return true;
    }
    if (outcome.result == REPLAY_AT && is_possible(outcome.value, count, requests)) {
        *which = (int)outcome.value;
        *err = end_one(&requests[outcome.value], status);
        return true;
    }
    if (outcome.result != REPLAY_NONE || !none_is_active(count, requests))
        refuse(now, NULL, why_not(&outcome));
    return false;
}

static int order_req_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                              ompi_status_public_t *status)
{
    struct replay_signature now = signature_of_requests(REPLAY_TESTANY, count);
    int err;

    if (!is_event())
        return order.usual.req_test_any(count, requests, which, done, status);
    if (!any_replayed(&now, count, requests, which, done, status, &err))
        err = order.usual.req_test_any(count, requests, which, done, status);
    record(&now, !*done                    ? outcome_of(REPLAY_FALSE, 0)
                 : *which == MPI_UNDEFINED ? outcome_of(REPLAY_NONE, 0)
                                           : outcome_of(REPLAY_AT, (uint64_t)*which));
    event_ends();
    return err;
}

static int order_req_wait_any(size_t count, ompi_request_t **requests, int *which,
                              ompi_status_public_t *status)
{
    struct replay_signature now = signature_of_requests(REPLAY_WAITANY, count);
    int done, err;

    if (!is_event())
        return order.usual.req_wait_any(count, requests, which, status);
    if (!any_replayed(&now, count, requests, which, &done, status, &err))
        err = order.usual.req_wait_any(count, requests, which, status);
    record(&now, *which == MPI_UNDEFINED ? outcome_of(REPLAY_NONE, 0)
                                         : outcome_of(REPLAY_AT, (uint64_t)*which));
    event_ends();
    return err;
}

/* The indices that follow in the record; false: they are not there, or cannot be. */
static bool some_indices(const struct replay_signature *now, uint64_t wanted, size_t count,
                         ompi_request_t **requests, int *indices)
{
    const struct replay_signature index = {.kind = REPLAY_INDEX};
    struct replay_outcome outcome = {.result = REPLAY_AT};

    for (uint64_t i = 0; i < wanted; i++) {
        bool is_new = true;

        if (i >= count || !is_replayed(&index, NULL, &outcome))
            return false;
        for (uint64_t before = 0; before < i; before++)
            is_new = is_new && (uint64_t)indices[before] != outcome.value;
        if (outcome.result != REPLAY_AT || !is_new ||
            !is_possible(outcome.value, count, requests)) {
            refuse(now, NULL, why_not(&outcome));
            return false;
        }
        indices[i] = (int)outcome.value;
    }
    return wanted > 0;
}

/* Ends these, as Open MPI does: all are complete before the first ends. */
static int some_end(int found, ompi_request_t **requests, const int *indices,
                    ompi_status_public_t *statuses)
{
    int all = OMPI_SUCCESS;

    for (int i = 0; i < found; i++)
        pml_wait(requests[indices[i]]);
    for (int i = 0; i < found; i++) {
        ompi_status_public_t *status =
            statuses != MPI_STATUSES_IGNORE ? &statuses[i] : MPI_STATUS_IGNORE;
        int err = end_one(&requests[indices[i]], status);

        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = err;
        if (err != OMPI_SUCCESS)
            all = MPI_ERR_IN_STATUS;
    }
    return all;
}

/* MPI_Testsome and MPI_Waitsome as recorded: true, and *err. */
static bool some_replayed(const struct replay_signature *now, size_t count,
                          ompi_request_t **requests, int *found, int *indices,
                          ompi_status_public_t *statuses, int *err)
{
    struct replay_outcome outcome;

    if (!is_replayed(now, NULL, &outcome))
        return false;
    *err = OMPI_SUCCESS;
    *found = 0;
    if (outcome.result == REPLAY_FALSE && now->kind == REPLAY_TESTSOME) {
        hold_back(count, requests);
        return true;
    }
    if (outcome.result == REPLAY_NONE && none_is_active(count, requests))
        return false; /* and so it says itself */
    if (outcome.result != REPLAY_AT || outcome.value == 0 || outcome.value > count) {
        refuse(now, NULL, why_not(&outcome));
        return false;
    }
    if (!some_indices(now, outcome.value, count, requests, indices))
        return false;
    *found = (int)outcome.value;
    *err = some_end(*found, requests, indices, statuses);
    return true;
}

static void record_some(const struct replay_signature *now, int found, const int *indices)
{
    const struct replay_signature index = {.kind = REPLAY_INDEX};

    record(now, found == MPI_UNDEFINED ? outcome_of(REPLAY_NONE, 0)
                : found == 0           ? outcome_of(REPLAY_FALSE, 0)
                                       : outcome_of(REPLAY_AT, (uint64_t)found));
    for (int i = 0; found != MPI_UNDEFINED && i < found; i++)
        record(&index, outcome_of(REPLAY_AT, (uint64_t)indices[i]));
}

static int order_req_test_some(size_t count, ompi_request_t **requests, int *found,
                               int *indices, ompi_status_public_t *statuses)
{
    struct replay_signature now = signature_of_requests(REPLAY_TESTSOME, count);
    int err;

    if (!is_event())
        return order.usual.req_test_some(count, requests, found, indices, statuses);
    if (!some_replayed(&now, count, requests, found, indices, statuses, &err))
        err = order.usual.req_test_some(count, requests, found, indices, statuses);
    record_some(&now, *found, indices);
    event_ends();
    return err;
}

static int order_req_wait_some(size_t count, ompi_request_t **requests, int *found,
                               int *indices, ompi_status_public_t *statuses)
{
    struct replay_signature now = signature_of_requests(REPLAY_WAITSOME, count);
    int err;

    if (!is_event())
        return order.usual.req_wait_some(count, requests, found, indices, statuses);
    if (!some_replayed(&now, count, requests, found, indices, statuses, &err))
        err = order.usual.req_wait_some(count, requests, found, indices, statuses);
    record_some(&now, *found, indices);
    event_ends();
    return err;
}

/* ---- opening ---- */

/* What is to happen after a divergence. */
static bool is_to_go_on(void)
{
    struct mbx_param param;

    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        if (strcmp(param.name, "MBX_REPLAY_ON_DIVERGENCE") == 0)
            return strcmp(param.value, "go") == 0;
    return false;
}

/* A folder, or NULL: also for a process that others have spawned, as its job has ranks of the same numbers.
 * mbx_param_get() has no space for long ones. */
static const char *folder_of(const char *name)
{
    const char *folder = environ_get("OMPI_PARENT_PORT") == NULL ? environ_get(name) : NULL;

    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

static void module_take(mca_pml_base_module_t *module)
{
    module->pml_irecv_init = order_irecv_init;
    module->pml_irecv = order_irecv;
    module->pml_recv = order_recv;
    module->pml_imrecv = order_imrecv;
    module->pml_start = order_start;
    module->pml_iprobe = order_iprobe;
    module->pml_improbe = order_improbe;
    module->pml_probe = order_probe;
    module->pml_mprobe = order_mprobe;
}

static void functions_take(void)
{
    order.usual = ompi_request_functions;
    ompi_request_functions.req_test = order_req_test;
    ompi_request_functions.req_test_any = order_req_test_any;
    ompi_request_functions.req_test_all = order_req_test_all;
    ompi_request_functions.req_test_some = order_req_test_some;
    ompi_request_functions.req_wait_any = order_req_wait_any;
    ompi_request_functions.req_wait_some = order_req_wait_some;
}

static void job_of(struct replay_job *job)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8] = "";
    int length;

    MPI_Get_library_version(version, &length);
    *job = (struct replay_job){.rank = (uint32_t)ompi_proc_local()->super.proc_name.vpid,
                               .size = pml_series_ranks(),
                               .threads = pml.has_threads};
    job->mpi = hash_bytes(version, sizeof version / 8 * 8);
    replay_identify(job);
}

void pml_order_open(mca_pml_base_module_t *module)
{
    if (folder_of("MBX_RECORD") != NULL || folder_of("MBX_REPLAY") != NULL)
        module_take(module);
}

int pml_order_start(void)
{
    const char *record_to = folder_of("MBX_RECORD"), *replay_from = folder_of("MBX_REPLAY");
    struct replay_job job;

    if (record_to == NULL && replay_from == NULL)
        return OMPI_SUCCESS;
    job_of(&job);
    order.goes_on = is_to_go_on();
    if (replay_from != NULL && replay_judge_open(replay_from, &job, &order.judge) < 0)
        return OMPI_ERR_NOT_FOUND;
    if (record_to != NULL)
        (void)replay_write_open(record_to, &job, &order.writer); /* the job goes on without */
    functions_take();
    event_ends();
    return OMPI_SUCCESS;
}

void pml_order_close(void)
{
    bool has_diverged = order.judge != NULL && !order.is_free &&
                        !replay_judge_ends(order.judge, order.held, order.goes_on);

    replay_write_close(order.writer);
    replay_judge_close(order.judge);
    order.writer = NULL;
    order.judge = NULL;
    order.is_free = true;
    free(order.withheld);
    order.withheld = NULL;
    order.withheld_count = order.withheld_slots = 0;
    if (has_diverged && !order.goes_on) {
        fflush(NULL); /* what the program has written */
        _exit(STATUS_DIVERGED);
    }
}
