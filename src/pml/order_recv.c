/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_recv.c - receives that are recorded, or replayed (order.c).
 *
 * Invariants
 *   I1  a request whose own.event has ORDER_WITHHELD is in withheld of its lane, and not posted
 *   I2  withheld is in the order in which the program has posted
 *
 * In a record that was cut short, a receive may be open because its rank was killed.  It is posted at the end of the record.  A
 * receive without wildcards that was posted after it, and that it would come before for every message, may not be posted
 * earlier: it is withheld as well.
 */
#include "pml/order.h"

#include <stdlib.h>
#include <string.h>

#define ORDER_REASONS ((uint64_t)(ORDER_WITHHELD | ORDER_OPEN | ORDER_LATER))

static ompi_request_cancel_fn_t usual_cancel;

/* ---- receives that no message came for ---- */

/* False: no memory. */
static bool withhold(struct order_lane *lane, pml_recv_t *recv, uint64_t why)
{
    if (lane->withheld.count == lane->withheld.slots) {
        size_t slots = 2 * lane->withheld.slots + 16;
        pml_recv_t **more = realloc(lane->withheld.recvs, slots * sizeof *more);

        if (more == NULL)
            return false;
        lane->withheld.recvs = more;
        lane->withheld.slots = slots;
    }
    recv->own.event |= ORDER_WITHHELD | why;
    lane->withheld.recvs[lane->withheld.count++] = recv;
    return true;
}

static void withheld_remove(struct order_lane *lane, pml_recv_t *recv)
{
    size_t i = 0;

    recv->own.event &= ~ORDER_REASONS;
    while (i < lane->withheld.count && lane->withheld.recvs[i] != recv)
        i++;
    if (i == lane->withheld.count)
        return;
    lane->withheld.count--;
    memmove(lane->withheld.recvs + i, lane->withheld.recvs + i + 1,
            (lane->withheld.count - i) * sizeof lane->withheld.recvs[0]);
}

/* As the program has asked for it. */
static void post_withheld(pml_recv_t *recv)
{
    recv->own.event &= ~ORDER_REASONS;
    if (pml_recv_start(recv) == OMPI_SUCCESS)
        return;
    recv->super.req_base.req_ompi.req_status.MPI_ERROR = MPI_ERR_OTHER;
    pml_request_complete(&recv->super.req_base, &recv->own);
}

void order_go_free(struct replay_lane *events)
{
    struct order_lane *lane = (struct order_lane *)events;

    events->is_free = true;
    for (size_t i = 0; i < lane->withheld.count; i++)
        post_withheld(lane->withheld.recvs[i]);
    lane->withheld.count = 0;
}

/* ---- receives that are later than one that is open ---- */

/* Does this receive accept every message that one without wildcards accepts? */
static bool order_accepts(const pml_recv_t *by, int src, int tag,
                          const ompi_communicator_t *comm)
{
    const mca_pml_base_request_t *base = &by->super.req_base;

    return base->req_comm == comm &&
           (base->req_peer == OMPI_ANY_SOURCE || base->req_peer == src) &&
           (base->req_tag == OMPI_ANY_TAG || base->req_tag == tag);
}

static bool is_later(const struct order_lane *lane, int src, int tag,
                     const ompi_communicator_t *comm)
{
    for (size_t i = 0; i < lane->withheld.count; i++)
        if (lane->withheld.recvs[i]->own.event & ORDER_OPEN &&
            order_accepts(lane->withheld.recvs[i], src, tag, comm))
            return true;
    return false;
}

void order_post_later(struct order_lane *lane, int src, int tag,
                      const ompi_communicator_t *comm)
{
    size_t kept = 0;

    for (size_t i = 0; i < lane->withheld.count; i++) {
        pml_recv_t *recv = lane->withheld.recvs[i];

        if (recv->own.event & ORDER_LATER && order_accepts(recv, src, tag, comm))
            post_withheld(recv);
        else
            lane->withheld.recvs[kept++] = recv;
    }
    lane->withheld.count = kept;
}

/* An open receive was cancelled: receives that were later than this one alone are posted. */
static void post_freed(struct order_lane *lane)
{
    for (size_t i = 0; i < lane->withheld.count;) {
        const mca_pml_base_request_t *base = &lane->withheld.recvs[i]->super.req_base;

        if (!(lane->withheld.recvs[i]->own.event & ORDER_LATER) ||
            is_later(lane, base->req_peer, base->req_tag, base->req_comm))
            i++;
        else
            order_post_later(lane, base->req_peer, base->req_tag, base->req_comm);
    }
}

bool order_let_end(size_t count, ompi_request_t **requests)
{
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        pml_recv_t *recv = (pml_recv_t *)requests[i];
        const mca_pml_base_request_t *base = &recv->super.req_base;
        struct order_lane *lane;

        if (!order_is_withheld(requests[i]))
            continue;
        lane = order_lane_posted(recv);
        if (lane != NULL && recv->own.event & ORDER_LATER)
            order_post_later(lane, base->req_peer, base->req_tag, base->req_comm);
        all = all && !order_is_withheld(requests[i]);
    }
    return all;
}

/* ---- receives ---- */

/* How a receive is carried out. */
struct plan {
    struct order_lane *lane; /* NULL: it is no event */
    uint64_t event;          /* own.event */
    int src, tag;            /* what is posted */
    bool is_withheld;
    uint8_t why; /* ORDER_OPEN, ORDER_LATER or 0: cancelled */
};

static OUT_OF_LINE void plan_recorded(struct order_lane *lane, struct plan *plan,
                                      const struct replay_signature *now,
                                      ompi_communicator_t *comm,
                                      const struct replay_outcome *outcome)
{
    if (outcome->result == REPLAY_MESSAGE && order_fits(outcome, plan->src, plan->tag, comm)) {
        plan->src = replay_source(outcome);
        plan->tag = replay_tag(outcome);
        order_post_later(lane, plan->src, plan->tag, comm);
    } else if (outcome->result == REPLAY_OPEN &&
               replay_judge_is_beginning(lane->events.judge)) {
        return; /* any message may come for it */
    } else if (outcome->result == REPLAY_OPEN && replay_judge_is_over(lane->events.judge)) {
        order_go_free(&lane->events);
    } else if ((outcome->result == REPLAY_OPEN || outcome->result == REPLAY_CANCELLED) &&
               now->kind != REPLAY_RECV) {
        plan->is_withheld = true;
        plan->why = outcome->result == REPLAY_OPEN ? ORDER_OPEN : 0;
    } else {
        order_refuse(lane, now, comm, order_why_not(outcome));
    }
}

static struct plan plan_wild(struct order_lane *lane, struct plan plan, enum replay_kind kind,
                             ompi_communicator_t *comm)
{
    struct replay_signature now = order_signature(lane, kind, plan.src, plan.tag, comm);
    struct replay_outcome outcome;

    if (order_is_replayed(lane, &now, comm, &outcome))
        plan_recorded(lane, &plan, &now, comm, &outcome);
    else if (pml_order.is_shuffled)
        plan.src = order_shuffle_source(plan.src, plan.tag, comm);
    plan.event = order_record_post(lane, &now) << ORDER_SHIFT | ORDER_WILD;
    return plan;
}

/* It is not in the record, unless it was cancelled in time.  A blocking one has a message where the record goes on. */
static OUT_OF_LINE void plan_exact(struct order_lane *lane, struct plan *plan,
                                   enum replay_kind kind, const ompi_communicator_t *comm)
{
    if (replay_judge_is_cancelled(lane->events.judge, lane->receives)) {
        plan->is_withheld = true;
    } else if (kind == REPLAY_RECV) {
        order_post_later(lane, plan->src, plan->tag, comm);
    } else if (replay_judge_is_cut(lane->events.judge) &&
               is_later(lane, plan->src, plan->tag, comm)) {
        plan->is_withheld = true;
        plan->why = ORDER_LATER;
    }
}

static inline struct plan plan_of(enum replay_kind kind, int src, int tag,
                                  ompi_communicator_t *comm)
{
    struct plan plan = {.src = src, .tag = tag};
    bool is_wild = src == OMPI_ANY_SOURCE || tag == OMPI_ANY_TAG;

    if (unlikely(pml.may_share))
        pml_threads_meet();
    if ((!is_wild && tag < 0) || (plan.lane = order_lane(comm)) == NULL)
        return plan;
    if (is_wild)
        return plan_wild(plan.lane, plan, kind, comm);
    plan.event = ++plan.lane->receives << ORDER_SHIFT | ORDER_EXACT;
    if (unlikely(replay_lane_is_replaying(&plan.lane->events)))
        plan_exact(plan.lane, &plan, kind, comm);
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
    pml_recv_t *recv = (pml_recv_t *)request;
    struct order_lane *lane = order_lane_posted(recv);

    if (lane != NULL)
        order_record_fill(lane, number_of(recv),
                          status->_cancelled
                              ? order_outcome(REPLAY_CANCELLED, 0)
                              : order_outcome_of_status(status, status->MPI_ERROR));
    return 0;
}

/* The completion callback of an exact receive that is being cancelled. */
static int cancelled_completed(ompi_request_t *request)
{
    pml_recv_t *recv = (pml_recv_t *)request;
    struct order_lane *lane = order_lane_posted(recv);

    if (request->req_status._cancelled && lane != NULL)
        order_record_cancelled(lane, number_of(recv));
    return 0;
}

static int cancel_withheld(struct order_lane *lane, pml_recv_t *recv)
{
    mca_pml_base_request_t *base = &recv->super.req_base;

    withheld_remove(lane, recv);
    post_freed(lane);
    base->req_ompi.req_status._cancelled = 1;
    base->req_ompi.req_status._ucount = 0;
    if (recv->own.event & ORDER_EXACT)
        order_record_cancelled(lane, number_of(recv));
    pml_request_complete(base, &recv->own);
    return OMPI_SUCCESS;
}

static int order_cancel(ompi_request_t *request, int flag)
{
    pml_recv_t *recv = (pml_recv_t *)request;
    const bool is_event = recv->own.event != 0;
    struct order_lane *lane = is_event ? order_lane_posted(recv) : NULL;

    if (is_event && pml.may_share)
        (void)order_lane_of_comm(recv->super.req_base.req_comm); /* notes a second thread */
    if (flag && lane != NULL && recv->own.event & ORDER_WITHHELD &&
        !(recv->own.event & ORDER_LATER))
        return cancel_withheld(lane, recv);
    if (lane != NULL)
        (void)order_let_end(1, &request);
    /* its receive has a match in the record */
    if (lane != NULL && replay_lane_is_replaying(&lane->events))
        return OMPI_SUCCESS;
    if (flag && recv->own.event & ORDER_EXACT && !REQUEST_COMPLETE(request))
        request->req_complete_cb = cancelled_completed;
    return usual_cancel(request, flag);
}

static inline void recv_note(pml_recv_t *recv, uint64_t event)
{
    ompi_request_t *request = &recv->super.req_base.req_ompi;

    recv->own.event = event;
    if (unlikely(request->req_cancel != order_cancel)) {
        usual_cancel = request->req_cancel;
        request->req_cancel = order_cancel;
    }
}

/* Posts it. */
static int start_traced(pml_recv_t *recv)
{
    int err = pml_recv_start(recv);

    if (pml_order.is_traced && err == OMPI_SUCCESS && recv->own.event & ORDER_WILD)
        order_trace_recv(recv);
    return err;
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
        err = start_traced(recv);
    else if (!withhold(plan->lane, recv, plan->why))
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

/* Is it a receive of the program without wildcards, which is only counted? */
static inline bool is_counted(int src, int tag)
{
    return likely(order_is_plain()) && likely((src | tag) >= 0);
}

/* Any receive that is not only counted. */
static OUT_OF_LINE int irecv_event(void *buf, size_t count, ompi_datatype_t *type, int src,
                                   int tag, ompi_communicator_t *comm, ompi_request_t **request)
{
    struct plan plan = plan_of(REPLAY_IRECV, src, tag, comm);
    int err;

    if (plan.event & ORDER_WILD || plan.is_withheld) {
        err = irecv_planned(&plan, buf, count, type, src, tag, comm, request);
        order_event_ends(plan.lane);
        return err;
    }
    err = pml_irecv(buf, count, type, src, tag, comm, request);
    if (likely(err == OMPI_SUCCESS))
        recv_note((pml_recv_t *)*request, plan.event);
    return err;
}

static int order_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                       ompi_communicator_t *comm, ompi_request_t **request)
{
    int err;

    if (!is_counted(src, tag))
        return irecv_event(buf, count, type, src, tag, comm, request);
    pml_order.main.receives++;
    err = pml_irecv(buf, count, type, src, tag, comm, request);
    if (likely(err == OMPI_SUCCESS))
        recv_note((pml_recv_t *)*request, pml_order.main.receives << ORDER_SHIFT | ORDER_EXACT);
    return err;
}

static inline int blocking(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                           ompi_communicator_t *comm, ompi_status_public_t *status,
                           bool is_event)
{
    if (unlikely(pml_order.is_traced) && (tag >= 0 || tag == OMPI_ANY_TAG))
        return order_trace_blocking(buf, count, type, src, tag, comm, status, is_event);
    return pml_recv(buf, count, type, src, tag, comm, status);
}

/* Any receive that is not only counted. */
static OUT_OF_LINE int recv_event(void *buf, size_t count, ompi_datatype_t *type, int src,
                                  int tag, ompi_communicator_t *comm,
                                  ompi_status_public_t *status)
{
    struct plan plan = plan_of(REPLAY_RECV, src, tag, comm);
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    int err;

    if (!(plan.event & ORDER_WILD))
        return blocking(buf, count, type, src, tag, comm, status, false);
    err = blocking(buf, count, type, plan.src, plan.tag, comm, out, true);
    order_record_fill(plan.lane, plan.event >> ORDER_SHIFT, order_outcome_of_status(out, err));
    order_event_ends(plan.lane);
    return err;
}

static int order_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                      ompi_communicator_t *comm, ompi_status_public_t *status)
{
    if (!is_counted(src, tag))
        return recv_event(buf, count, type, src, tag, comm, status);
    pml_order.main.receives++;
    return pml_recv(buf, count, type, src, tag, comm, status);
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

    if (request->req_complete_cb == NULL) /* otherwise it is Open MPI's own receive */
        plan = plan_of(REPLAY_START, src, tag, base->req_comm);
    recv_note(recv, plan.event);
    if (plan.event & ORDER_WILD)
        request->req_complete_cb = wild_completed;
    if (plan.is_withheld) {
        pml_persistent_begin(base);
        err = withhold(plan.lane, recv, plan.why) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
        order_event_ends(plan.lane);
        return err;
    }
    base->req_peer = plan.src;
    base->req_tag = plan.tag;
    err = pml_start(1, &request);
    base->req_peer = src;
    base->req_tag = tag;
    if (err != OMPI_SUCCESS && plan.event & ORDER_WILD)
        request->req_complete_cb = NULL;
    else if (pml_order.is_traced && plan.event & ORDER_WILD)
        order_trace_recv(recv);
    if (plan.lane != NULL)
        order_event_ends(plan.lane);
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

static mca_pml_base_module_isend_fn_t usual_isend;

/* With threads a test belongs to the communicator of its first active request.  So a send that has left
 * at once has a request too: whether a send leaves at once depends on time. */
static int order_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                       ompi_request_t **request)
{
    int err = usual_isend(buf, count, type, dst, tag, mode, comm, request);
    pml_send_t *send;

    if (err != OMPI_SUCCESS || *request != &ompi_request_empty || tag < 0)
        return err;
    send = pml_send_take();
    if (send == NULL)
        return OMPI_SUCCESS; /* the message has left */
    pml_request_begin(&send->super.req_base);
    pml_send_describe(send, buf, count, type, dst, tag, mode, comm, false);
    send->super.req_base.req_ompi.req_status._ucount = pml_data_size(type, count);
    pml_request_complete(&send->super.req_base, &send->own);
    *request = &send->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

void order_recv_take(mca_pml_base_module_t *module)
{
    if (pml.may_share) {
        usual_isend = module->pml_isend;
        module->pml_isend = order_isend;
    }
    module->pml_irecv_init = order_irecv_init;
    module->pml_irecv = order_irecv;
    module->pml_recv = order_recv;
    module->pml_imrecv = order_imrecv;
    module->pml_start = order_start;
}
