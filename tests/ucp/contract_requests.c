/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_requests.c - when sends complete, whose memory a request is, and how it is given up: 3.1 to 3.6.
 */
#include "contract.h"

static unsigned char bytes[SHORT_SIZE], longer[LONG_SIZE], in[LONG_SIZE];

/* ---- 3.1 immediate completion of sends ---- */

static void short_sends(void)
{
    ucp_request_param_t param = with(0);
    void *request = ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 1, &param);

    while (request !=
           NULL) { /* the first messages of an endpoint may wait until it is connected */
        CHECK("a first send is no error", UCS_PTR_IS_PTR(request));
        until_complete(request);
        ucp_request_free(request);
        receive_all(1, SHORT_SIZE);
        request = ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 1, &param);
    }
    forget();
    receive_all(1, SHORT_SIZE);
    for (int i = 0; i < 100; i++)
        turn();
    CHECK("3.1 the callback of a send that has left is never called", sent.count == 0);
    param = with(UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_USER_DATA);
    param.user_data = &param;
    request = ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 1, &param);
    CHECK("3.1 with NO_IMM_CMPL there is a request", UCS_PTR_IS_PTR(request));
    CHECK("3.1 and its callback is called before the call returns", sent.count == 1);
    CHECK("3.1 with this request, its status and the client's data",
          sent.request == request && sent.status == UCS_OK && sent.user_data == &param);
    CHECK("3.1 which is complete", ucp_request_check_status(request) == UCS_OK);
    ucp_request_free(request);
    receive_all(1, SHORT_SIZE);
}

static void forced_sends(void)
{
    ucp_request_param_t param = with(UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL);

    CHECK("3.1 FORCE_IMM_CMPL: a short message leaves",
          ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 1, &param) == NULL);
    receive_all(1, SHORT_SIZE);
    CHECK("3.1 FORCE_IMM_CMPL: a long one returns UCS_ERR_NO_RESOURCE",
          ucp_tag_send_nbx(to, longer, LONG_SIZE, 1, &param) ==
              UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
}

static void synchronous_sends(void)
{
    ucp_request_param_t param = with(0);
    void *request;

    forget();
    request = ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 2, &param);
    CHECK("3.1 a synchronous send has a request", UCS_PTR_IS_PTR(request));
    memset(request, 1, CLIENT_SIZE);
    for (int i = 0; i < 1000; i++)
        turn();
    CHECK("3.1 it is not complete before it is received",
          sent.count == 0 && ucp_request_check_status(request) == UCS_INPROGRESS);
    receive_all(2, SHORT_SIZE);
    until_called(&sent, 1);
    CHECK("3.1 then its callback is called", sent.request == request && sent.status == UCS_OK);
    CHECK("3.2 the client's part of the request is the client's",
          ((char *)request)[CLIENT_SIZE - 1] == 1);
    ucp_request_free(request);
    request = ucp_tag_send_sync_nb(to, bytes, SHORT_SIZE, ucp_dt_make_contig(1), 2, on_send_nb);
    receive_all(2, SHORT_SIZE);
    until_called(&sent, 2);
    CHECK("3.1 ucp_tag_send_sync_nb is the same", sent.request == request);
    ucp_request_free(request);
}

/* ---- 3.2 records ---- */

static void made_once(void)
{
    unsigned before;
    void *request = NULL;

    for (int i = 0; i < 3; i++) {
        request =
            ucp_tag_recv_nb(there, in, SHORT_SIZE, ucp_dt_make_contig(1), 3, ALL, on_recv_nb);
        ucp_request_cancel(there, request);
        ucp_request_free(request);
    }
    before = inits;
    for (int i = 0; i < 5000; i++) {
        request =
            ucp_tag_recv_nb(there, in, SHORT_SIZE, ucp_dt_make_contig(1), 3, ALL, on_recv_nb);
        ucp_request_cancel(there, request);
        ucp_request_free(request);
    }
    CHECK("3.2 a request that is used again is not made again", inits == before);
}

static void client_s_memory(void)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    unsigned char *memory;
    ucp_request_param_t param = with_recv(UCP_OP_ATTR_FIELD_REQUEST);
    void *request, *result;

    ucp_context_query(context, &attr);
    memory = malloc(attr.request_size + CLIENT_SIZE);
    memset(memory, 0xee, attr.request_size + CLIENT_SIZE);
    request = param.request = memory + attr.request_size;
    forget();
    result = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 4, ALL, &param);
    CHECK("3.2 a request may be the client's memory", result == request);
    CHECK("3.2 which is under way", ucp_request_check_status(request) == UCS_INPROGRESS);
    unexpected(5, bytes, SHORT_SIZE);
    ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 4, &(ucp_request_param_t){0});
    until_called(&received, 1);
    CHECK("3.2 and completes",
          received.request == request && ucp_request_check_status(request) == UCS_OK);
    memset(memory, 0xee, attr.request_size + CLIENT_SIZE);
    result = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 5, ALL, &param);
    CHECK("3.2 it is filled if the receive completes at once",
          result == NULL && ucp_request_check_status(request) == UCS_OK);
    unexpected(5, bytes, SHORT_SIZE);
    memset(memory, 0xee, attr.request_size + CLIENT_SIZE);
    result = ucp_tag_recv_nbx(there, in, SHORT_SIZE / 2, 5, ALL, &param);
    CHECK("3.2 and if the message is too long",
          result == UCS_STATUS_PTR(UCS_ERR_MESSAGE_TRUNCATED) &&
              ucp_request_check_status(request) == UCS_ERR_MESSAGE_TRUNCATED);
    CHECK("3.1 neither calls back", received.count == 1);
    free(memory);
}

static void by_nbr(void)
{
    ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    ucp_tag_recv_info_t info;
    unsigned char *memory;
    void *request;

    ucp_context_query(context, &attr);
    memory = malloc(attr.request_size + CLIENT_SIZE);
    request = memory + attr.request_size;
    CHECK("ucp_tag_send_nbr of a short message",
          ucp_tag_send_nbr(to, bytes, SHORT_SIZE, byte, 6, request) == UCS_OK);
    receive_all(6, SHORT_SIZE);
    CHECK("ucp_tag_recv_nbr",
          ucp_tag_recv_nbr(there, in, SHORT_SIZE, byte, 6, ALL, request) == UCS_OK);
    CHECK("which waits", ucp_request_test(request, &info) == UCS_INPROGRESS);
    ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 6, &(ucp_request_param_t){0});
    until_complete(request);
    CHECK("and is told of the message", ucp_request_test(request, &info) == UCS_OK &&
                                            info.sender_tag == 6 && info.length == SHORT_SIZE);
    CHECK("ucp_tag_send_nbr of a long one is under way",
          ucp_tag_send_nbr(to, longer, LONG_SIZE, byte, 6, request) == UCS_INPROGRESS);
    receive_all(6, LONG_SIZE);
    until_complete(request);
    CHECK("and completes", ucp_request_check_status(request) == UCS_OK);
    free(memory);
}

/* ---- queries ---- */

static void queries(void)
{
    ucp_worker_attr_t worker = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE |
                                              UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER |
                                              UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_lib_attr_t lib = {.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL};

    CHECK("ucp_worker_query: the thread mode, an address, the limit of headers",
          ucp_worker_query(here, &worker) == UCS_OK &&
              worker.thread_mode == UCS_THREAD_MODE_SERIALIZED && worker.address_length > 0 &&
              worker.max_am_header >= 1000);
    ucp_worker_release_address(here, worker.address);
    CHECK("ucp_context_query: host memory",
          ucp_context_query(context, &attr) == UCS_OK &&
              attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
    CHECK("ucp_lib_query: threads",
          ucp_lib_query(&lib) == UCS_OK && lib.max_thread_level == UCS_THREAD_MODE_MULTI);
}

/* ---- 3.3 release and free ---- */

static void given_up(void)
{
    ucp_request_param_t param = with(0);

    forget();
    ucp_request_release(ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 7, &param));
    receive_all(7, SHORT_SIZE);
    until_called(&sent, 1);
    CHECK("3.3 a request that is released while it is under way calls back",
          sent.status == UCS_OK);
    ucp_request_free(ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 7, &param));
    receive_all(7, SHORT_SIZE);
    for (int i = 0; i < 1000; i++)
        turn();
    CHECK("3.3 one that is freed does not", sent.count == 1);
}

/* ---- 3.5 callbacks that call ---- */

static unsigned chain;

static void chained(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                 .cb.send = chained};

    (void)user_data;
    if (status == UCS_OK && ++chain < 10)
        ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 8, &param);
    ucp_request_release(request);
}

static void from_callbacks(void)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                 .cb.send = chained};

    ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 8, &param);
    for (int i = 0; i < 10; i++)
        receive_all(8, SHORT_SIZE);
    while (chain < 10)
        turn();
    CHECK("3.5 a callback may send and release its request", chain == 10);
}

/* ---- 3.4 cancel ---- */

static void sends_go_on(void)
{
    ucp_request_param_t param = with(0);
    void *request;

    forget();
    request = ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 9, &param);
    ucp_request_cancel(here, request);
    for (int i = 0; i < 1000; i++)
        turn();
    CHECK("3.4 a send that is cancelled goes on",
          ucp_request_check_status(request) == UCS_INPROGRESS);
    receive_all(9, SHORT_SIZE);
    until_called(&sent, 1);
    CHECK("3.4 and completes", sent.status == UCS_OK);
    ucp_request_free(request);
}

/* ---- 3.6 flush ---- */

static void flushes(void)
{
    ucp_request_param_t param = with(0);
    void *request = ucp_tag_send_sync_nbx(to, bytes, SHORT_SIZE, 10, &param), *flush;

    flush = ucp_ep_flush_nb(to, 0, on_send_nb);
    until_complete(flush);
    if (UCS_PTR_IS_PTR(flush))
        ucp_request_free(flush);
    flush = ucp_worker_flush_nb(here, 0, on_send_nb);
    until_complete(flush);
    if (UCS_PTR_IS_PTR(flush))
        ucp_request_free(flush);
    CHECK("3.6 a flush does not wait for a synchronous send",
          ucp_request_check_status(request) == UCS_INPROGRESS);
    CHECK("3.6 a fence returns", ucp_worker_fence(here) == UCS_OK);
    receive_all(10, SHORT_SIZE);
    until_complete(request);
    ucp_request_free(request);
}

static void long_sends(void)
{
    ucp_request_param_t param = with(0);
    void *request;

    fill(longer, LONG_SIZE, 3);
    forget();
    request = ucp_tag_send_nbx(to, longer, LONG_SIZE, 11, &param);
    CHECK("a long send has a request", UCS_PTR_IS_PTR(request) && sent.count == 0);
    receive_all(11, LONG_SIZE);
    until_called(&sent, 1);
    CHECK("which completes", sent.request == request && sent.status == UCS_OK);
    ucp_request_free(request);
}

static double time_of(size_t size)
{
    const ucp_ep_evaluate_perf_param_t param = {
        .field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE, .message_size = size};
    ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME,
                                        .estimated_time = -1};

    return ucp_ep_evaluate_perf(to, &param, &attr) == UCS_OK ? attr.estimated_time : -1;
}

static void estimates(void)
{
    CHECK("a message takes time", time_of(0) > 0);
    CHECK("and a long one more", time_of(LONG_SIZE) > time_of(0));
}

void requests_contract(void)
{
    fill(bytes, SHORT_SIZE, 1);
    short_sends();
    synchronous_sends();
    forced_sends();
    made_once();
    client_s_memory();
    by_nbr();
    queries();
    given_up();
    from_callbacks();
    sends_go_on();
    flushes();
    long_sends();
    estimates();
}
