/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_receives.c - receives, masks, cancel and probes: 3.1, 3.4, 3.5, 3.8.
 */
#include "contract.h"

static unsigned char bytes[LONG_SIZE], in[LONG_SIZE];

static void at_once(void)
{
    ucp_request_param_t param = with_recv(0);
    void *request;

    unexpected(20, bytes, SHORT_SIZE);
    CHECK("3.1 a receive of a message that has arrived returns NULL",
          ucp_tag_recv_nbx(there, in, SHORT_SIZE, 20, ALL, &param) == NULL);
    CHECK("3.1 without a callback", received.count == 0 && is_filled(in, SHORT_SIZE, 2));
    unexpected(20, bytes, SHORT_SIZE);
    param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    request = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 20, ALL, &param);
    CHECK("3.1 with NO_IMM_CMPL it calls back before it returns a request",
          UCS_PTR_IS_PTR(request) && received.count == 1 && received.request == request);
    CHECK("3.1 with the message",
          received.info.sender_tag == 20 && received.info.length == SHORT_SIZE);
    ucp_request_free(request);
    unexpected(20, bytes, SHORT_SIZE);
    request =
        ucp_tag_recv_nb(there, in, SHORT_SIZE, ucp_dt_make_contig(1), 20, ALL, on_recv_nb);
    CHECK("3.1 so does ucp_tag_recv_nb", UCS_PTR_IS_PTR(request) && received.count == 2);
    ucp_request_free(request);
    param = with_recv(UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL);
    CHECK("3.1 FORCE_IMM_CMPL: nothing has arrived",
          ucp_tag_recv_nbx(there, in, SHORT_SIZE, 20, ALL, &param) ==
              UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
}

static void truncated(void)
{
    ucp_request_param_t param = with_recv(0);
    void *request;

    forget();
    request = ucp_tag_recv_nbx(there, in, SHORT_SIZE / 2, 21, ALL, &param);
    ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 21, &(ucp_request_param_t){0});
    until_called(&received, 1);
    CHECK("3.7 a message that is too long for its receive is an error",
          received.status == UCS_ERR_MESSAGE_TRUNCATED);
    CHECK("3.7 with its tag", received.info.sender_tag == 21);
    ucp_request_free(request);
}

/* Masks as MPICH uses them, and the order of receives that accept the same message. */
static void masks(void)
{
    ucp_request_param_t param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    void *any, *exact;

    forget();
    any = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 0x100000000, UINT64_C(0xffffffff00000000),
                           &param);
    exact = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 0x100000005, UINT64_C(0xffffffff9fffffff),
                             &param);
    ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 0x120000005, &(ucp_request_param_t){0});
    until_called(&received, 1);
    CHECK("a message goes to the earliest receive that accepts it", received.request == any);
    CHECK("with all bits of its tag", received.info.sender_tag == 0x120000005);
    ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 0x160000005, &(ucp_request_param_t){0});
    until_called(&received, 2);
    CHECK("and the next to the next", received.request == exact);
    ucp_request_free(any);
    ucp_request_free(exact);
}

static void cancelled(void)
{
    ucp_request_param_t param = with_recv(0);
    ucp_tag_recv_info_t info;
    void *request;

    forget();
    request = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 22, ALL, &param);
    ucp_request_cancel(there, request);
    CHECK("3.4 cancel calls back within the call",
          received.count == 1 && received.status == UCS_ERR_CANCELED);
    CHECK("3.4 and the request is complete",
          ucp_request_test(request, &info) == UCS_ERR_CANCELED);
    ucp_request_free(request);
    unexpected(22, bytes, SHORT_SIZE);
    param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    request = ucp_tag_recv_nbx(there, in, SHORT_SIZE, 22, ALL, &param);
    ucp_request_cancel(there, request);
    CHECK("3.4 one that has received stays so",
          ucp_request_check_status(request) == UCS_OK && received.count == 2);
    ucp_request_free(request);
}

static unsigned chain;

static void chained(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                    void *user_data)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = chained};

    (void)info;
    (void)user_data;
    if (status == UCS_OK && ++chain < 10)
        ucp_tag_recv_nbx(there, in, SHORT_SIZE, 23, ALL, &param);
    ucp_request_free(request);
}

static void from_callbacks(void)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = chained};

    ucp_tag_recv_nbx(there, in, SHORT_SIZE, 23, ALL, &param);
    for (int i = 0; i < 10; i++) {
        void *request = ucp_tag_send_nbx(to, bytes, SHORT_SIZE, 23, &(ucp_request_param_t){0});

        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
    while (chain < 10)
        turn();
    CHECK("3.5 a callback may receive and free its request", chain == 10);
}

static void probes(void)
{
    ucp_request_param_t param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    void *request;

    CHECK("3.8 a probe finds nothing", ucp_tag_probe_nb(there, 24, ALL, 1, &info) == NULL);
    unexpected(24, bytes, SHORT_SIZE);
    message = ucp_tag_probe_nb(there, 24, ALL, 0, &info);
    CHECK("3.8 a probe finds a message",
          message != NULL && info.length == SHORT_SIZE && info.sender_tag == 24);
    CHECK("3.8 and leaves it", ucp_tag_probe_nb(there, 24, ALL, 0, &info) != NULL);
    message = ucp_tag_probe_nb(there, 24, ALL, 1, &info);
    CHECK("3.8 or takes it",
          message != NULL && ucp_tag_probe_nb(there, 24, ALL, 1, &info) == NULL);
    forget();
    memset(in, 0, SHORT_SIZE);
    request = ucp_tag_msg_recv_nbx(there, in, SHORT_SIZE, message, &param);
    until_called(&received, 1);
    CHECK("3.8 and it is received",
          received.status == UCS_OK && received.info.length == SHORT_SIZE &&
              received.info.sender_tag == 24 && is_filled(in, SHORT_SIZE, 2));
    ucp_request_free(request);
}

static void long_message(void)
{
    ucp_request_param_t param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL), plain = {0};
    void *send = ucp_tag_send_nbx(to, bytes, LONG_SIZE, 25, &plain), *request;
    ucp_tag_message_h message = NULL;
    ucp_tag_recv_info_t info;

    while (message == NULL) {
        turn();
        message = ucp_tag_probe_nb(there, 25, ALL, 1, &info);
    }
    CHECK("3.8 a probe tells the length of a long message", info.length == LONG_SIZE);
    forget();
    request =
        ucp_tag_msg_recv_nb(there, in, LONG_SIZE, ucp_dt_make_contig(1), message, on_recv_nb);
    CHECK("3.8 ucp_tag_msg_recv_nb returns a request", UCS_PTR_IS_PTR(request));
    until_called(&received, 1);
    CHECK("3.8 and it is received whole",
          received.status == UCS_OK && is_filled(in, LONG_SIZE, 2));
    ucp_request_free(request);
    until_complete(send);
    if (UCS_PTR_IS_PTR(send))
        ucp_request_free(send);
    (void)param;
}

/* Messages of one endpoint are received in the order in which they were sent, whatever their lengths are. */
static void in_order(void)
{
    static const size_t sizes[] = {8, LONG_SIZE, 0, 5000, 64, 100000, 1};
    void *sends[7];
    ucp_tag_recv_info_t info;
    bool right = true;

    for (size_t i = 0; i < 7; i++)
        sends[i] = ucp_tag_send_nbx(to, bytes, sizes[i], 26, &(ucp_request_param_t){0});
    for (size_t i = 0; i < 7; i++) {
        ucp_request_param_t param = with_recv(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
        void *request = ucp_tag_recv_nbx(there, in, LONG_SIZE, 26, ALL, &param);

        until_complete(request);
        right = right && ucp_request_test(request, &info) == UCS_OK &&
                info.length == sizes[i] && is_filled(in, sizes[i], 2);
        ucp_request_free(request);
    }
    CHECK("messages of all lengths stay in order", right);
    for (size_t i = 0; i < 7; i++) {
        until_complete(sends[i]);
        if (UCS_PTR_IS_PTR(sends[i]))
            ucp_request_free(sends[i]);
    }
}

void receives_contract(void)
{
    fill(bytes, LONG_SIZE, 2);
    at_once();
    truncated();
    masks();
    cancelled();
    from_callbacks();
    probes();
    long_message();
    in_order();
}
