/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_ucx.c - UCX itself: messages of one process to itself through `self`.
 *
 *   tag   context id | source | tag        18, 20 and 26 bits unless divided otherwise
 *   data  the number of the message, 4 bytes
 *
 * A send over `self` runs the receiver's half before it returns, so the callback of a
 * matched receive has run by then; if UCX delays it, this engine makes progress
 * until it has.  The requests of receives are in the caller's memory, unexpected
 * messages are copied into UCX's own.  So this engine does more than the others: it also
 * moves the data and completes a request.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include "base/base.h"
#include "base/mem.h"
#include "engine.h"

struct ucx {
    struct bench_engine engine;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h self;
    size_t request_size;     /* rounded up to cache lines */
    unsigned char *requests; /* for the receives, and one more for claims */
    uint32_t *landed;        /* data of each receive: the number of its message */
    bool *is_queued;
    uint64_t *tags; /* by message */
    uint32_t recvs;
    unsigned source_bits, tag_bits;
    uint32_t met; /* set by the callback */
};

static struct ucx *ucx_of(struct bench_engine *engine)
{
    return container_of(engine, struct ucx, engine);
}

static inline uint64_t low_bits(unsigned count)
{
    return count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

static inline uint64_t shifted(uint64_t value, unsigned bits)
{
    return bits < 64 ? value << bits : 0;
}

static inline uint64_t tag_of(const struct ucx *e, const struct mbx_match_envelope *envelope)
{
    uint64_t source = envelope->source & low_bits(e->source_bits);

    return shifted(envelope->context_id, e->source_bits + e->tag_bits) |
           shifted(source, e->tag_bits) | (envelope->tag & low_bits(e->tag_bits));
}

/* 1: compared, as in UCX. */
static inline uint64_t mask_of(const struct ucx *e, const struct mbx_match_envelope *wanted,
                               uint64_t ignore)
{
    uint64_t mask = ~(ignore & low_bits(e->tag_bits));

    if (wanted->source == MBX_MATCH_ANY_SOURCE)
        mask &= ~shifted(low_bits(e->source_bits), e->tag_bits);
    return mask;
}

static void ucx_divide(struct bench_engine *engine, unsigned source_bits, unsigned tag_bits)
{
    struct ucx *e = ucx_of(engine);

    e->source_bits = source_bits;
    e->tag_bits = tag_bits;
}

static int start_context(struct ucx *e)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    ucp_config_t *config;
    ucs_status_t status;

    /* no warning about a worker that is destroyed with posted receives */
    ucs_global_opts_set_value("LOG_LEVEL", "error");
    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    status = ucp_config_modify(config, "TLS", "self");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &e->context);
    ucp_config_release(config);
    if (status == UCS_OK)
        status = ucp_context_query(e->context, &attr);
    if (status == UCS_OK) /* the request handle points after UCX's part */
        e->request_size = round_up(attr.request_size, CACHE_LINE);
    return status;
}

static int start_worker(struct ucx *e)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t size;
    ucs_status_t status = ucp_worker_create(e->context, &params, &e->worker);

    if (status == UCS_OK)
        status = ucp_worker_get_address(e->worker, &address, &size);
    if (status != UCS_OK)
        return status;
    ep.address = address;
    status = ucp_ep_create(e->worker, &ep, &e->self);
    ucp_worker_release_address(e->worker, address);
    return status;
}

static void ucx_destroy(struct bench_engine *engine)
{
    struct ucx *e = ucx_of(engine);

    if (e->worker != NULL)
        ucp_worker_destroy(e->worker);
    if (e->context != NULL)
        ucp_cleanup(e->context);
    mem_free(e->requests);
    mem_free(e->landed);
    mem_free(e->is_queued);
    mem_free(e->tags);
    mem_free(e);
}

static struct bench_engine *ucx_create(uint32_t recvs, uint32_t msgs)
{
    struct ucx *e = mem_calloc(1, sizeof *e);
    int status;

    if (e == NULL)
        return NULL;
    e->engine.ops = &bench_ucx;
    e->recvs = recvs;
    e->source_bits = BENCH_SOURCE_BITS;
    e->tag_bits = BENCH_TAG_BITS;
    status = start_context(e);
    if (status == UCS_OK)
        status = start_worker(e);
    if (status != UCS_OK) {
        fprintf(stderr, "match_bench: ucx cannot start: %s\n",
                ucs_status_string((ucs_status_t)status));
        ucx_destroy(&e->engine);
        return NULL;
    }
    e->requests = mem_alloc_aligned(CACHE_LINE, ((size_t)recvs + 1) * e->request_size);
    e->landed = mem_calloc(recvs, sizeof *e->landed);
    e->is_queued = mem_calloc(recvs, sizeof *e->is_queued);
    e->tags = mem_calloc(msgs, sizeof *e->tags);
    if (e->requests == NULL || e->landed == NULL || e->is_queued == NULL || e->tags == NULL) {
        ucx_destroy(&e->engine);
        return NULL;
    }
    return &e->engine;
}

/* UCX writes before the address of the handle. */
static inline void *request_of(const struct ucx *e, uint32_t recv)
{
    return e->requests + ((size_t)recv + 1) * e->request_size;
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *arg)
{
    struct ucx *e = arg;
    uint32_t recv = (uint32_t)(((unsigned char *)request - e->requests) / e->request_size) - 1;

    (void)info;
    e->is_queued[recv] = false;
    if (status == UCS_OK)
        e->met = recv;
}

static uint32_t ucx_post(struct bench_engine *engine, uint32_t recv,
                         struct mbx_match_envelope envelope, uint64_t ignore)
{
    struct ucx *e = ucx_of(engine);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .request = request_of(e, recv),
        .cb.recv = on_received,
        .user_data = e,
    };
    ucs_status_ptr_t request =
        ucp_tag_recv_nbx(e->worker, &e->landed[recv], sizeof e->landed[recv],
                         tag_of(e, &envelope), mask_of(e, &envelope, ignore), &param);

    assert(!UCS_PTR_IS_ERR(request));
    if (request == NULL)
        return e->landed[recv];
    e->is_queued[recv] = true;
    return BENCH_NONE;
}

static uint32_t ucx_arrive(struct bench_engine *engine, uint32_t msg,
                           struct mbx_match_envelope envelope)
{
    struct ucx *e = ucx_of(engine);
    ucp_request_param_t param = {0};
    ucs_status_ptr_t request;

    e->met = BENCH_NONE;
    e->tags[msg] = tag_of(e, &envelope);
    request = ucp_tag_send_nbx(e->self, &msg, sizeof msg, e->tags[msg], &param);
    assert(!UCS_PTR_IS_ERR(request));
    if (request != NULL) { /* only the first time: the endpoint is not wired up yet */
        while (ucp_request_check_status(request) == UCS_INPROGRESS)
            ucp_worker_progress(e->worker);
        ucp_request_free(request);
        while (ucp_worker_progress(e->worker) != 0)
            continue;
    }
    return e->met;
}

static bool ucx_cancel(struct bench_engine *engine, uint32_t recv)
{
    struct ucx *e = ucx_of(engine);

    if (!e->is_queued[recv])
        return false;
    ucp_request_cancel(e->worker, request_of(e, recv));
    while (e->is_queued[recv])
        ucp_worker_progress(e->worker);
    return true;
}

static bool ucx_peek(struct bench_engine *engine, struct mbx_match_envelope envelope,
                     uint64_t ignore, uint64_t *tag)
{
    struct ucx *e = ucx_of(engine);
    ucp_tag_recv_info_t info;

    if (ucp_tag_probe_nb(e->worker, tag_of(e, &envelope), mask_of(e, &envelope, ignore), 0,
                         &info) == NULL)
        return false;
    *tag = info.sender_tag & low_bits(e->tag_bits);
    return true;
}

/* If two messages have the same tag, the peek has also found the older one. */
static bool ucx_extract(struct bench_engine *engine, uint32_t msg)
{
    struct ucx *e = ucx_of(engine);
    uint32_t landed = BENCH_NONE;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST,
                                 .request = request_of(e, e->recvs)};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message = ucp_tag_probe_nb(e->worker, e->tags[msg], UINT64_MAX, 1, &info);
    ucs_status_ptr_t request;

    if (message == NULL)
        return false;
    request = ucp_tag_msg_recv_nbx(e->worker, &landed, sizeof landed, message, &param);
    assert(request == NULL); /* all of its data is there */
    return landed == msg;
}

/* The resident memory of the process, in bytes. */
static size_t resident(void)
{
    unsigned long total, here = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    if (statm == NULL)
        return 0;
    if (fscanf(statm, "%lu %lu", &total, &here) != 2)
        here = 0;
    fclose(statm);
    return (size_t)here * (size_t)sysconf(_SC_PAGESIZE);
}

static struct bench_memory ucx_recv_memory(const struct bench_engine *engine)
{
    const struct ucx *e = container_of(engine, const struct ucx, engine);

    return (struct bench_memory){e->request_size, 0};
}

static struct bench_memory ucx_msg_memory(const struct bench_engine *engine)
{
    (void)engine;
    return (struct bench_memory){0, resident()};
}

const struct bench_ops bench_ucx = {
    .name = "ucx",
    .is_narrow = true,
    .is_measured = true,
    .memory_is_seen = true,
    .create = ucx_create,
    .divide = ucx_divide,
    .destroy = ucx_destroy,
    .post = ucx_post,
    .arrive = ucx_arrive,
    .cancel = ucx_cancel,
    .peek = ucx_peek,
    .extract = ucx_extract,
    .recv_memory = ucx_recv_memory,
    .msg_memory = ucx_msg_memory,
};
