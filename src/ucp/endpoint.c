/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.c - handles for peers, and what becomes of a peer that is gone.
 *
 *   create ──> in use ──close──> closed ──no send, no access needs it──> freed
 *
 * MPI libraries take every status of a send except UCS_ERR_CANCELED for success.  So what waits for a peer that is gone
 * stays under way (is_withheld), a line says which rank it was, and the launcher ends the job, as it does over UCX.  Only
 * a client that has asked for it (UCP_ERR_HANDLING_MODE_PEER) sees UCS_ERR_CONNECTION_RESET, and its error callback runs
 * once for each handle.
 *
 * Invariants (ucpx_worker_is_valid)
 *   I1  a record in the list of open sends and accesses is OPEN, and this is its endpoint
 *   I2  the worker's counts of active messages and of accesses are the sums of its endpoints' counts
 *   I3  an endpoint is in the list of failed ones only if it reports errors
 */
#include "ucp/door.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

/* The estimate of ucp_ep_evaluate_perf(), the same for each peer. */
#define LATENCY_S   1e-6
#define BYTES_PER_S 5e9

/* ---- handles ---- */

static struct ucp_ep *ep_make(struct ucp_worker *worker, uint32_t peer)
{
    struct ucp_ep *ep = mem_calloc(1, sizeof *ep);

    if (ep == NULL)
        return NULL;
    ep->worker = worker;
    ep->peer = peer;
    list_init(&ep->open);
    list_init_node(&ep->failed_link);
    list_init_node(&ep->link);
    list_add_tail(&worker->endpoints, &ep->link);
    return ep;
}

static void ep_free(struct ucp_ep *ep)
{
    if (ep->reports_errors)
        ep->worker->peers[ep->peer].errors_reported--;
    list_remove(&ep->failed_link);
    list_remove(&ep->link);
    mem_free(ep);
}

struct ucp_ep *ucpx_ep_of_peer(struct ucp_worker *worker, uint32_t number)
{
    struct ucpx_peer *peer = ucpx_peer(worker, number);

    if (peer == NULL)
        return NULL;
    if (peer->reply == NULL)
        peer->reply = ep_make(worker, number);
    return peer->reply;
}

void ucpx_ep_let_go(struct ucp_ep *ep)
{
    if (ep->is_closed && ucpx_under_way(ep->worker, ep) == 0 && ep->waits == 0 &&
        ep->callers == 0 && list_is_empty(&ep->open))
        ep_free(ep);
}

/* Data that was to be sent, also for requests in memory of the client. */
static void copies_free(const struct ucp_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->open) {
        struct ucpx_record *record = container_of(node, struct ucpx_record, link);

        mem_free(record->copy);
        record->copy = NULL;
    }
}

void ucpx_eps_free(struct ucp_worker *worker)
{
    struct list *node;

    while ((node = list_first(&worker->endpoints)) != NULL) {
        struct ucp_ep *ep = container_of(node, struct ucp_ep, link);

        copies_free(ep);
        ep_free(ep);
    }
}

/* ---- addresses ---- */

static void name_peer(struct ucp_worker *worker, uint32_t number,
                      const struct ucpx_address *address)
{
    struct ucpx_address own;

    worker->peers[number].who = address->who;
    ucpx_address_describe(&own);
    ucpx_name_program(worker);
    if (address->rank == UCPX_NO_RANK || own.job != address->job)
        return;
    worker->peers[number].rank = address->rank;
    (void)mbx_name_peer(worker->mbx, number, 0, address->rank);
}

static ucs_status_t add_peer(struct ucp_worker *worker, const void *bytes, uint32_t *number)
{
    struct ucpx_address address;
    ucs_status_t status = ucpx_address_check(&address, bytes);
    int err;

    if (status != UCS_OK)
        return status;
    err = mbx_peer_add(worker->mbx, &address.address, number);
    if (err < 0) {
        if (err != -EHOSTUNREACH) /* the library has said why */
            LOG_ERROR("libucp: no way to process %u on %s: %s; use the same Matchbox and "
                      "MBX_TRANSPORT for all ranks",
                      address.who.process, address.who.host, mbx_strerror(err));
        return ucpx_status(err);
    }
    if (ucpx_peer(worker, *number) == NULL)
        return UCS_ERR_NO_MEMORY;
    name_peer(worker, *number, &address);
    return UCS_OK;
}

/* ---- create ---- */

static void ep_fill(struct ucp_ep *ep, const ucp_ep_params_t *params)
{
    uint64_t fields = params->field_mask;

    ep->reports_errors = fields & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE &&
                         params->err_mode == UCP_ERR_HANDLING_MODE_PEER;
    if (fields & UCP_EP_PARAM_FIELD_ERR_HANDLER) {
        ep->on_error = params->err_handler.cb;
        ep->on_error_arg = params->err_handler.arg;
    }
    if (fields & UCP_EP_PARAM_FIELD_USER_DATA)
        ep->on_error_arg = params->user_data;
    snprintf(ep->name, sizeof ep->name, "%s",
             fields & UCP_EP_PARAM_FIELD_NAME ? params->name : "matchbox");
    if (ep->reports_errors)
        ep->worker->peers[ep->peer].errors_reported++;
}

static ucs_status_t ep_create(struct ucp_worker *worker, const ucp_ep_params_t *params,
                              ucp_ep_h *ep_p)
{
    uint32_t peer = 0;
    ucs_status_t status = add_peer(worker, params->address, &peer);
    struct ucp_ep *ep;

    if (status != UCS_OK)
        return status;
    ep = ep_make(worker, peer);
    if (ep == NULL)
        return UCS_ERR_NO_MEMORY;
    ep_fill(ep, params);
    *ep_p = ep;
    return UCS_OK;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p)
{
    ucs_status_t status;

    if (params->field_mask & (UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_CONN_REQUEST))
        return ucpx_unsupported("ucp_ep_create with a socket address or a connection request");
    if (params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE &&
        params->err_mode != UCP_ERR_HANDLING_MODE_NONE &&
        params->err_mode != UCP_ERR_HANDLING_MODE_PEER)
        return ucpx_unsupported("ucp_ep_create with an error mode other than NONE and PEER");
    if (!(params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS))
        return UCS_ERR_INVALID_PARAM;
    ucpx_lock(worker);
    status = ep_create(worker, params, ep_p);
    ucpx_unlock(worker);
    return status;
}

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
    if (attr->field_mask & ~(uint64_t)UCP_EP_ATTR_FIELD_NAME)
        return ucpx_unsupported("ucp_ep_query for more than a name");
    if (attr->field_mask & UCP_EP_ATTR_FIELD_NAME)
        snprintf(attr->name, sizeof attr->name, "%s", ep->name);
    return UCS_OK;
}

/* Clients compare lengths, and derive how many messages they let be under way.  Some read the answer without a look at the
 * status. */
ucs_status_t ucp_ep_evaluate_perf(ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param,
                                  ucp_ep_evaluate_perf_attr_t *attr)
{
    size_t size =
        param->field_mask & UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE ? param->message_size : 0;

    (void)ep;
    if (attr->field_mask & UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME)
        attr->estimated_time = LATENCY_S + (double)size / BYTES_PER_S;
    return UCS_OK;
}

void ucp_ep_print_info(ucp_ep_h ep, FILE *stream)
{
    fprintf(stream, "#\n# endpoint %s of libucp over Matchbox %s, peer %u\n#\n", ep->name,
            mbx_version(), ep->peer);
}

/* ---- sends and accesses under way ---- */

void ucpx_ep_adds(struct ucp_ep *ep, struct ucpx_record *record)
{
    record->ep = ep;
    list_add_tail(&ep->open, &record->link);
    if (record->kind == UCPX_MESSAGE) {
        ep->messages++;
        ep->worker->messages++;
    } else if (record->kind == UCPX_ACCESS) {
        ep->accesses++;
        ep->worker->accesses++;
    }
}

void ucpx_ep_removes(struct ucpx_record *record)
{
    struct ucp_ep *ep = record->ep;

    list_remove(&record->link);
    record->ep = NULL;
    if (record->kind == UCPX_MESSAGE) {
        ep->messages--;
        ep->worker->messages--;
    } else if (record->kind == UCPX_ACCESS) {
        ep->accesses--;
        ep->worker->accesses--;
    }
    if (unlikely(ep->is_closed))
        ucpx_ep_let_go(ep);
}

/* ---- peers that are gone ---- */

bool ucpx_is_loss(int error)
{
    return error == -ENOTCONN || error == -EHOSTUNREACH || error == -EPROTONOSUPPORT;
}

/* The library itself does so for ranks of an MPI. */
static void say_loss(const struct ucp_worker *worker, struct ucpx_peer *peer, uint32_t number,
                     int error)
{
    char text[UCPX_PEER_TEXT];

    if (!peer->is_loss_said && !worker->is_named)
        LOG_WARN(
            "libucp: %s is gone: %s; operations with it never complete; look at its output",
            ucpx_peer_text(worker, number, text), mbx_strerror(error));
    peer->is_loss_said = true;
}

static void fail_handles(struct ucp_worker *worker, uint32_t number, int error)
{
    struct list *node;

    list_for_each (node, &worker->endpoints) {
        struct ucp_ep *ep = container_of(node, struct ucp_ep, link);

        if (ep->peer != number || !ep->reports_errors || ep->has_failed || ep->is_closed)
            continue;
        ep->has_failed = true;
        ep->error = ucpx_status(error);
        list_add_tail(&worker->failed, &ep->failed_link);
    }
}

bool ucpx_loss_shows(struct ucp_worker *worker, uint32_t number, int error)
{
    struct ucpx_peer *peer = ucpx_peer(worker, number);

    if (peer == NULL)
        return false;
    say_loss(worker, peer, number, error);
    if (peer->errors_reported == 0)
        return false;
    fail_handles(worker, number, error);
    return true;
}

unsigned ucpx_failures_report(struct ucp_worker *worker)
{
    struct list *node;
    unsigned count = 0;

    for (; (node = list_pop_head(&worker->failed)) != NULL; count++) {
        struct ucp_ep *ep = container_of(node, struct ucp_ep, failed_link);
        const ucp_err_handler_cb_t on_error = ep->on_error;
        void *arg = ep->on_error_arg;
        ucs_status_t error = ep->error;

        if (on_error == NULL)
            continue;
        ucpx_unlock(worker);
        on_error(arg, ep, error);
        ucpx_lock(worker);
    }
    return count;
}

/* An error that is no loss of a peer is one of this endpoint: it has no memory, or a function that packs data has failed. */
static void say_error(const struct ucpx_record *record, int error)
{
    char text[UCPX_PEER_TEXT];

    if (error == 0 || error == -ECANCELED || ucpx_is_loss(error))
        return;
    (void)ucpx_peer_text(record->worker, record->ep->peer, text);
    if (error == -EACCES || error == -ERANGE)
        LOG_ERROR("libucp: an access to %s was refused: %s; it has unmapped the memory, or the "
                  "key is another one's",
                  text, mbx_strerror(error));
    else
        LOG_ERROR("libucp: %s to %s has failed: %s",
                  record->kind == UCPX_ACCESS ? "an access" : "a send", text,
                  mbx_strerror(error));
}

/* An access that nobody has a request for: the next flush says that it has failed. */
static void note_lost(const struct ucpx_record *record, int error)
{
    if (error == 0 || record->kind != UCPX_ACCESS || !record->is_released)
        return;
    record->ep->lost = record->worker->lost = ucpx_status(error);
}

void ucpx_send_done(const struct mbx_completion *completion)
{
    struct ucpx_record *record = completion->user;
    struct ucp_ep *ep = record->ep;
    int error = completion->error;

    say_error(record, error);
    record->is_withheld = ucpx_is_loss(error) &&
                          !(ucpx_loss_shows(ep->worker, ep->peer, error) && ep->reports_errors);
    if (record->is_withheld && !record->is_cancelled)
        return;
    note_lost(record, error);
    ucpx_ep_removes(record);
    ucpx_record_end(record, ucpx_status(error));
}

/* ---- close ---- */

/* An active message is not taken back: its announcement has left, and the peer waits for its data. */
static void abandon(struct ucp_ep *ep, struct ucpx_record *record)
{
    record->is_cancelled = true;
    if (record->is_withheld) {
        ucpx_ep_removes(record);
        ucpx_record_end(record, UCS_ERR_CANCELED);
    } else if (record->kind == UCPX_SEND) {
        (void)mbx_cancel(ep->worker->mbx, record->number);
    }
}

/* Each of them once.  A cancel may end any send of this endpoint, which then leaves the list that it is in. */
static void abandon_sends(struct ucp_ep *ep)
{
    struct list left, *node;

    list_init(&left);
    list_splice_tail(&left, &ep->open);
    while ((node = list_pop_head(&left)) != NULL) {
        list_add_tail(&ep->open, node);
        abandon(ep, container_of(node, struct ucpx_record, link));
    }
}

static void ep_shut(struct ucp_ep *ep)
{
    struct ucpx_peer *peer = &ep->worker->peers[ep->peer];

    if (peer->reply == ep)
        peer->reply = NULL;
    list_remove(&ep->failed_link);
    ep->is_closed = true;
}

/* A handle stays until this is over, which nobody else may end. */
static ucs_status_ptr_t ep_close(struct ucp_ep *ep, bool is_forced, const struct ucpx_how *how)
{
    struct ucp_worker *worker = ep->worker;
    struct ucpx_record *record = ucpx_record_begin(worker, UCPX_CLOSE, how);
    bool must_wait = !is_forced && ucpx_under_way(worker, ep) != 0;

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (must_wait && how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE); /* the handle stays open */
    if (is_forced)
        abandon_sends(ep);
    ep_shut(ep);
    if (!must_wait) {
        ucpx_ep_let_go(ep);
        return ucpx_record_at_once(record, how, UCS_OK);
    }
    ucpx_flush_add(record, ep);
    return ucpx_request_of(record);
}

static ucs_status_ptr_t ep_close_locked(struct ucp_ep *ep, bool is_forced,
                                        const struct ucpx_how *how)
{
    struct ucp_worker *worker = ep->worker;
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result = ep_close(ep, is_forced, how);
    ucpx_unlock(worker);
    return result;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_SEND);

    if (status != UCS_OK)
        return UCS_STATUS_PTR(status);
    return ep_close_locked(ep, how.flags & UCP_EP_CLOSE_FLAG_FORCE, &how);
}

ucs_status_ptr_t ucp_ep_close_nb(ucp_ep_h ep, unsigned mode)
{
    const struct ucpx_how how = {.calls = UCPX_CALLS_NONE};

    if (mode != UCP_EP_CLOSE_MODE_FORCE && mode != UCP_EP_CLOSE_MODE_FLUSH)
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    return ep_close_locked(ep, mode == UCP_EP_CLOSE_MODE_FORCE, &how);
}

ucs_status_ptr_t ucp_disconnect_nb(ucp_ep_h ep)
{
    return ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
}

/* The request, if another thread has sent meanwhile, nobody waits for. */
void ucp_ep_destroy(ucp_ep_h ep)
{
    struct ucp_worker *worker = ep->worker;
    bool is_closed;
    void *request;

    ucpx_lock(worker);
    ucpx_flush_wait(worker, ep);
    is_closed = ep->is_closed; /* by the error callback */
    ucpx_ep_let_go(ep);
    ucpx_unlock(worker);
    request = is_closed ? NULL : ucp_disconnect_nb(ep);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}
