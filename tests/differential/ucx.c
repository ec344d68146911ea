/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settling: An arrival is followed by a marker from the same source, a message with a tag that
 * no receive of a history accepts, and a receive for the marker.  Messages of one endpoint are
 * handled in the order of the sends, so when the marker's receive completes, the message has
 * matched its receive or is queued.  The same is done after a post, with a marker from source
 * 0.  A cancel and a probe are done when they return, after such a round.
 *
 * The data of an operation is contiguous, in two parts, or of a generic datatype, by its id.
 *
 * As ucx:matchbox it is a library with libucp's interface over Matchbox, which LD_LIBRARY_PATH has to name: an address
 * shows whose it is, and an address of another library is a departure.
 *
 * No request is freed before the history ends, so that a history can also cancel a receive that
 * is complete.  The workers are destroyed after each history.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/base.h"
#include "base/clock.h"
#include "engine.h"

#define NODES         (1 + ENGINE_SOURCES)
#define MARKER        (UINT64_C(1) << 61)
#define CONTEXT_SHIFT 56
#define SOURCE_SHIFT  48
#define TAG_BITS      ((UINT64_C(1) << SOURCE_SHIFT) - 1)
#define SOURCE_BITS   (UINT64_C(0xff) << SOURCE_SHIFT)
#define PATIENCE_MS   5

enum { RECEIVER, FIRST_SOURCE };

/* An operation under way. */
struct record {
    void *request;
    int id;
    bool is_recv; /* a receive of the history: its match is an answer */
    bool is_done, is_cancelled;
    size_t size;
    ucp_dt_iov_t parts[2];
    unsigned char data[ENGINE_MESSAGE_MAX];
};

/* One send or receive of the generic datatype. */
struct packing {
    unsigned char *data;
    size_t size;
};

struct ucx {
    struct engine engine;
    ucp_context_h context;
    bool is_self;     /* every node is the receiver */
    bool is_matchbox; /* or it is wrong */
    ucp_datatype_t generic;
    ucp_worker_h workers[NODES];
    ucp_ep_h endpoints[NODES]; /* from the nodes to the receiver */
    struct meetings meetings;
    bool is_broken;
    struct record recvs[HISTORY_MAX], sends[HISTORY_MAX], probe, marker_recv, marker_send;
};

/* The callbacks get only the record. */
static struct ucx *current;

/* ---- opening ---- */

static int open_worker(struct ucx *u, ucp_worker_h *worker)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};

    return ucp_worker_create(u->context, &params, worker) == UCS_OK ? 0 : -EIO;
}

static int connect_to_receiver(struct ucx *u, int node)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    ucs_status_t status;
    size_t size;

    if (ucp_worker_get_address(u->workers[RECEIVER], &address, &size) != UCS_OK)
        return -EIO;
    params.address = address;
    status = ucp_ep_create(u->workers[node], &params, &u->endpoints[node]);
    ucp_worker_release_address(u->workers[RECEIVER], address);
    return status == UCS_OK ? 0 : -EIO;
}

static void progress(struct ucx *u)
{
    for (int i = 0; i < (u->is_self ? 1 : NODES); i++)
        while (ucp_worker_progress(u->workers[i]) != 0)
            continue;
}

static void free_requests(struct record *records, int count)
{
    for (int i = 0; i < count; i++) {
        if (records[i].request != NULL)
            ucp_request_free(records[i].request);
        records[i].request = NULL;
    }
}

/* Receives all messages that are left, because UCX warns of them. */
static void receive_the_rest(struct ucx *u)
{
    static unsigned char nowhere[ENGINE_MESSAGE_MAX];
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    progress(u);
    while ((message = ucp_tag_probe_nb(u->workers[RECEIVER], 0, 0, 1, &info)) != NULL) {
        void *request = ucp_tag_msg_recv_nbx(u->workers[RECEIVER], nowhere, sizeof nowhere,
                                             message, &param);

        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
}

static void close_endpoint(struct ucx *u, ucp_ep_h endpoint)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = ucp_ep_close_nbx(endpoint, &param);

    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
        progress(u);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static void end(struct engine *e)
{
    struct ucx *u = container_of(e, struct ucx, engine);

    for (int i = 0; i < HISTORY_MAX; i++)
        if (u->recvs[i].request != NULL && !u->recvs[i].is_done)
            ucp_request_cancel(u->workers[RECEIVER], u->recvs[i].request);
    if (u->endpoints[NODES - 1] != NULL)
        receive_the_rest(u);
    free_requests(u->recvs, HISTORY_MAX);
    free_requests(u->sends, HISTORY_MAX);
    free_requests(&u->marker_recv, 1);
    free_requests(&u->marker_send, 1);
    for (int i = 0; i < NODES; i++)
        if (u->endpoints[i] != NULL)
            close_endpoint(u, u->endpoints[i]);
    for (int i = 0; i < NODES; i++)
        if (u->workers[i] != NULL && (i == 0 || !u->is_self))
            ucp_worker_destroy(u->workers[i]);
    memset(u->endpoints, 0, sizeof u->endpoints);
    memset(u->workers, 0, sizeof u->workers);
}

static bool is_of_matchbox(struct ucx *u)
{
    ucp_address_t *address;
    bool is;
    size_t size;

    if (ucp_worker_get_address(u->workers[RECEIVER], &address, &size) != UCS_OK)
        return false;
    is = memmem(address, size, "MBXU", 4) != NULL;
    ucp_worker_release_address(u->workers[RECEIVER], address);
    return is;
}

static int begin(struct engine *e)
{
    struct ucx *u = container_of(e, struct ucx, engine);
    int err;

    memset(u->recvs, 0, sizeof u->recvs);
    memset(u->sends, 0, sizeof u->sends);
    u->is_broken = false;
    err = open_worker(u, &u->workers[RECEIVER]);
    for (int i = FIRST_SOURCE; i < NODES && err == 0; i++) {
        if (u->is_self)
            u->workers[i] = u->workers[RECEIVER];
        else
            err = open_worker(u, &u->workers[i]);
    }
    for (int i = FIRST_SOURCE; i < NODES && err == 0; i++)
        err = connect_to_receiver(u, i);
    if (err == 0 && u->is_matchbox && !is_of_matchbox(u))
        err = -EIO;
    if (err != 0)
        end(e);
    return err;
}

/* ---- operations ---- */

static void on_recv(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                    void *user_data)
{
    struct record *r = user_data;

    (void)request;
    r->is_done = true;
    r->is_cancelled = status == UCS_ERR_CANCELED;
    if (status != UCS_OK && status != UCS_ERR_CANCELED)
        current->is_broken = true;
    if (status != UCS_OK)
        return;
    r->size = info->length;
    if (r->is_recv)
        meetings_add(&current->meetings, r->id, r->data, r->size);
}

static void on_send(void *request, ucs_status_t status, void *user_data)
{
    struct record *r = user_data;

    (void)request;
    r->is_done = true;
    if (status != UCS_OK)
        current->is_broken = true;
}

static uint64_t tag_of(const struct op *op)
{
    uint64_t source = op->envelope.source == MBX_MATCH_ANY_SOURCE ? 0 : op->envelope.source;

    return (uint64_t)op->envelope.context_id << CONTEXT_SHIFT | source << SOURCE_SHIFT |
           (op->envelope.tag & TAG_BITS);
}

/* Returns the bits that are compared. */
static uint64_t mask_of(const struct op *op)
{
    uint64_t mask = ~(op->ignore & TAG_BITS);

    return op->envelope.source == MBX_MATCH_ANY_SOURCE ? mask & ~SOURCE_BITS : mask;
}

static struct record *renew(struct record *r, int id)
{
    free_requests(r, 1);
    memset(r, 0, offsetof(struct record, data));
    r->id = id;
    return r;
}

/* ---- data ---- */

static void *start_pack(void *context_of_type, const void *buffer, size_t count)
{
    struct packing *packing = malloc(sizeof *packing);

    (void)context_of_type;
    if (packing == NULL)
        abort();
    *packing = (struct packing){(unsigned char *)(uintptr_t)buffer, count};
    return packing;
}

static void *start_unpack(void *context_of_type, void *buffer, size_t count)
{
    return start_pack(context_of_type, buffer, count);
}

static size_t packed_size(void *state)
{
    return ((const struct packing *)state)->size;
}

static size_t pack(void *state, size_t offset, void *to, size_t most)
{
    const struct packing *packing = state;
    size_t size = min_size(most, packing->size - offset);

    memcpy(to, packing->data + offset, size);
    return size;
}

static ucs_status_t unpack(void *state, size_t offset, const void *from, size_t size)
{
    const struct packing *packing = state;

    if (offset > packing->size || size > packing->size - offset)
        return UCS_ERR_MESSAGE_TRUNCATED;
    memcpy(packing->data + offset, from, size);
    return UCS_OK;
}

static void finish(void *state)
{
    free(state);
}

static const ucp_generic_dt_ops_t generic_ops = {.start_pack = start_pack,
                                                 .start_unpack = start_unpack,
                                                 .packed_size = packed_size,
                                                 .pack = pack,
                                                 .unpack = unpack,
                                                 .finish = finish};

/* The data of an operation, as the call takes it. */
struct data {
    void *buffer;
    size_t count;
};

static struct data data_of(const struct ucx *u, struct record *r, size_t size,
                           ucp_request_param_t *param)
{
    size_t first = size / 3;

    switch (r->id % 3) {
    case 1:
        r->parts[0] = (ucp_dt_iov_t){r->data, first};
        r->parts[1] = (ucp_dt_iov_t){r->data + first, size - first};
        param->datatype = ucp_dt_make_iov();
        break;
    case 2:
        param->datatype = u->generic;
        break;
    default:
        param->datatype = ucp_dt_make_contig(1);
        break;
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    return r->id % 3 == 1 ? (struct data){r->parts, 2} : (struct data){r->data, size};
}

/* Every operation has a request and a callback, even if it completes at once. */
static bool started(struct record *r, void *request)
{
    if (!UCS_PTR_IS_PTR(request))
        return false;
    r->request = request;
    return true;
}

static bool post(struct ucx *u, struct record *r, uint64_t tag, uint64_t mask)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = on_recv,
                                 .user_data = r};
    struct data data = data_of(u, r, sizeof r->data, &param);

    return started(
        r, ucp_tag_recv_nbx(u->workers[RECEIVER], data.buffer, data.count, tag, mask, &param));
}

static bool transmit(struct ucx *u, struct record *r, int source, uint64_t tag, size_t size)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.send = on_send,
                                 .user_data = r};
    struct data data = data_of(u, r, size, &param);

    return started(r, ucp_tag_send_nbx(u->endpoints[FIRST_SOURCE + source], data.buffer,
                                       data.count, tag, &param));
}

static bool wait_for(struct ucx *u, const struct record *r)
{
    uint64_t end_ns = clock_now() + ENGINE_STALLED_MS * CLOCK_MS;

    while (!r->is_done && !u->is_broken && clock_now() < end_ns)
        progress(u);
    return r->is_done;
}

static bool settle(struct ucx *u, int source)
{
    struct record *recv = renew(&u->marker_recv, 0), *marker = renew(&u->marker_send, 0);
    uint64_t end_ns;

    if (!transmit(u, marker, source, MARKER, 1) || !post(u, recv, MARKER, UINT64_MAX) ||
        !wait_for(u, recv) || !wait_for(u, marker))
        return false;
    end_ns = clock_now() + (u->engine.is_patient ? PATIENCE_MS * CLOCK_MS : 0);
    do
        progress(u);
    while (clock_now() < end_ns);
    return true;
}

static int answer_post(struct ucx *u, const struct op *op)
{
    struct record *r = renew(&u->recvs[op->id], op->id);

    r->is_recv = true;
    if (!post(u, r, tag_of(op), mask_of(op)) || !settle(u, 0))
        return ANSWER_STALLED;
    return meetings_answer(&u->meetings, op);
}

static int answer_arrive(struct ucx *u, const struct op *op)
{
    struct record *r = renew(&u->sends[op->id], op->id);
    int source = (int)op->envelope.source;

    memset(r->data, op->id, sizeof r->data);
    memcpy(r->data, &op->id, sizeof op->id);
    if (!transmit(u, r, source, tag_of(op), engine_message_size(op->id)) || !wait_for(u, r) ||
        !settle(u, source))
        return ANSWER_STALLED;
    return meetings_answer(&u->meetings, op);
}

/* A receive that was never posted has no request to cancel. */
static int answer_cancel(struct ucx *u, const struct op *op)
{
    struct record *r = &u->recvs[op->target];
    bool was_cancelled = r->is_cancelled;

    if (r->request == NULL)
        return false;
    ucp_request_cancel(u->workers[RECEIVER], r->request);
    if (!settle(u, 0))
        return ANSWER_STALLED;
    return u->meetings.count == 0 ? r->is_cancelled && !was_cancelled : ANSWER_BROKEN;
}

/* Receives the claimed message and reads it. */
static int claim(struct ucx *u, const struct op *op, ucp_tag_message_h message)
{
    struct record *r = renew(&u->probe, op->id);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = on_recv,
                                 .user_data = r};
    struct data data = data_of(u, r, sizeof r->data, &param);

    r->is_recv = true;
    if (!started(r, ucp_tag_msg_recv_nbx(u->workers[RECEIVER], data.buffer, data.count, message,
                                         &param)) ||
        !wait_for(u, r))
        return ANSWER_STALLED;
    free_requests(r, 1);
    return u->meetings.count == 1 ? u->meetings.msg : ANSWER_BROKEN;
}

static int answer_probe(struct ucx *u, const struct op *op)
{
    int is_claim = op->kind == OP_PROBE;
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    if (!settle(u, 0))
        return ANSWER_STALLED;
    message = ucp_tag_probe_nb(u->workers[RECEIVER], tag_of(op), mask_of(op), is_claim, &info);
    if (message == NULL)
        return ANSWER_NOBODY;
    return is_claim ? claim(u, op, message) : engine_message_id(info.length);
}

static int answer(struct engine *e, const struct op *op)
{
    struct ucx *u = container_of(e, struct ucx, engine);
    int got;

    current = u;
    u->meetings = (struct meetings){0};
    if (op->kind == OP_POST)
        got = answer_post(u, op);
    else if (op->kind == OP_ARRIVE)
        got = answer_arrive(u, op);
    else if (op->kind == OP_CANCEL)
        got = answer_cancel(u, op);
    else
        got = answer_probe(u, op);
    return u->is_broken ? ANSWER_BROKEN : got;
}

/* ---- the engine ---- */

static void destroy(struct engine *e)
{
    struct ucx *u = container_of(e, struct ucx, engine);

    if (u->context != NULL) {
        ucp_dt_destroy(u->generic);
        ucp_cleanup(u->context);
    }
    free(u);
}

static int open_context(struct ucx *u, const char *transports)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_config_t *config;
    ucs_status_t status;

    if (ucp_config_read(NULL, NULL, &config) != UCS_OK)
        return -ENODEV;
    if (transports != NULL && ucp_config_modify(config, "TLS", transports) != UCS_OK) {
        ucp_config_release(config);
        return -EINVAL;
    }
    status = ucp_init(&params, config, &u->context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return -ENODEV;
    return ucp_dt_create_generic(&generic_ops, NULL, &u->generic) == UCS_OK ? 0 : -ENODEV;
}

static int create(const char *argument, struct engine **e)
{
    struct ucx *u = calloc(1, sizeof *u);
    int err;

    if (u == NULL)
        return -ENOMEM;
    u->is_self = argument != NULL && strcmp(argument, "self") == 0;
    u->is_matchbox = argument != NULL && strcmp(argument, "matchbox") == 0;
    u->engine.can = ENGINE_CAN_ALL;
    snprintf(u->engine.version, sizeof u->engine.version, "UCX %s", ucp_get_version_string());
    err = open_context(u, u->is_matchbox ? NULL : argument);
    if (err == 0 && !u->is_matchbox)
        err = begin(&u->engine) == 0 ? 0 : -ENODEV; /* a transport without a peer fails here */
    if (err == 0 && !u->is_matchbox)
        end(&u->engine);
    if (err != 0)
        destroy(&u->engine);
    else
        *e = &u->engine;
    return err;
}

const struct engine_kind engine_ucx = {
    .name = "ucx",
    .about = "UCX: ucx, or with UCX_TLS after the colon, as ucx:self, ucx:sm, ucx:tcp; "
             "ucx:matchbox, our library in its place",
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .end = end,
    .answer = answer,
};
