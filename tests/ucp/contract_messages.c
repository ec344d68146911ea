/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_messages.c - active messages: 3.6, 3.10, 3.11.
 */
#include "contract.h"

#define COUNT 64

static unsigned char bytes[LONG_SIZE], in[LONG_SIZE];

/* ---- whole messages: ucp_am_send_nb ---- */

static struct {
    unsigned count;
    bool is_right, is_in_order;
    void *kept;
    size_t kept_length;
} got;

/* The first byte is the number of the message. */
static ucs_status_t whole(void *arg, void *data, size_t length, ucp_ep_h reply_ep,
                          unsigned flags)
{
    const unsigned char *from = data;

    (void)reply_ep;
    (void)flags;
    got.is_right = got.is_right && arg == &got && is_filled(from + 1, length - 1, 1);
    got.is_in_order = got.is_in_order && from[0] == got.count;
    got.count++;
    return UCS_OK;
}

static bool are_here(void *arg)
{
    return got.count >= *(unsigned *)arg;
}

static void of_any_length(void)
{
    static const size_t sizes[] = {1, 17, 8000, 8192, 8193, 70000, 256, LONG_SIZE};
    unsigned char *copies = malloc(COUNT * LONG_SIZE);
    unsigned count = COUNT;

    ucp_worker_set_am_handler(there, 3, whole, &got, UCP_AM_FLAG_WHOLE_MSG);
    got.is_right = got.is_in_order = true;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned char *copy = copies + i * LONG_SIZE;
        size_t size = sizes[i % 8];
        void *request;

        copy[0] = (unsigned char)i;
        fill(copy + 1, size - 1, 1);
        request = ucp_am_send_nb(to, 3, copy, size, ucp_dt_make_contig(1), on_send_nb, 0);
        CHECK("3.11 an active message is sent", !UCS_PTR_IS_ERR(request));
        if (UCS_PTR_IS_PTR(request))
            ucp_request_release(request);
    }
    until("active messages arrive", are_here, &count);
    CHECK("3.11 a handler of whole messages gets all bytes of each",
          got.is_right && got.count == COUNT);
    CHECK("3.10 active messages of an endpoint are handled in their order", got.is_in_order);
    free(copies);
}

static void of_parts(void)
{
    unsigned count = got.count + 1;
    ucp_dt_iov_t parts[3] = {{in, 1}, {in + 1, 99}, {in + 100, 400}};
    void *request;

    in[0] = (unsigned char)got.count;
    fill(in + 1, 499, 1);
    request = ucp_am_send_nb(to, 3, parts, 3, ucp_dt_make_iov(), on_send_nb, 0);
    until("an active message arrives", are_here, &count);
    CHECK("3.14 an active message of parts arrives", got.is_right);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_release(request);
}

/* ---- with headers: ucp_am_send_nbx ---- */

static struct {
    unsigned count;
    bool is_right;
    void *data; /* kept, or a descriptor */
    size_t length;
    uint64_t attr;
    ucp_ep_h reply;
    ucs_status_t answer;
} came;

static ucs_status_t with_header(void *arg, const void *header, size_t header_length, void *data,
                                size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg;
    came.is_right = header_length == 24 && is_filled(header, 24, 9);
    came.attr = param->recv_attr;
    came.data = data;
    came.length = length;
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        came.is_right = came.is_right && is_filled(data, length, 2);
    came.reply = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : NULL;
    came.count++;
    return came.answer;
}

static bool has_come(void *arg)
{
    return came.count >= *(unsigned *)arg;
}

static void handler_is(uint32_t flags)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                  UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = 4,
                                    .flags = flags,
                                    .cb = with_header};

    CHECK("a handler is set", ucp_worker_set_am_recv_handler(there, &param) == UCS_OK);
}

/* The header is the caller's again when the call returns a complete send; a pending one keeps it. */
static void *send_message(size_t size, uint32_t flags)
{
    static unsigned char header[24];
    ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_FLAGS);
    unsigned count = came.count + 1;
    void *request;

    param.flags = flags;
    fill(header, sizeof header, 9);
    request = ucp_am_send_nbx(to, 4, header, sizeof header, bytes, size, &param);
    CHECK("an active message with a header is sent", !UCS_PTR_IS_ERR(request));
    until("it arrives", has_come, &count);
    return request;
}

static void finish(void *request)
{
    until_complete(request);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static void short_ones(void)
{
    came.answer = UCS_OK;
    finish(send_message(100, 0));
    CHECK("3.11 a short message comes with its header and data",
          came.is_right && came.length == 100);
    CHECK("3.11 without an endpoint for a reply", came.reply == NULL);
    finish(send_message(0, 0));
    CHECK("3.11 a message may be its header alone", came.is_right && came.length == 0);
    finish(send_message(100, UCP_AM_SEND_FLAG_REPLY));
    CHECK("3.11 with an endpoint, if its sender has said so",
          came.is_right && came.reply != NULL);
}

static void forced(void)
{
    ucp_request_param_t param = with(UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL);

    CHECK("3.1 FORCE_IMM_CMPL: a long active message returns UCS_ERR_NO_RESOURCE",
          ucp_am_send_nbx(to, 4, NULL, 0, bytes, LONG_SIZE, &param) ==
              UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
}

static void kept(void)
{
    handler_is(UCP_AM_FLAG_PERSISTENT_DATA);
    came.answer = UCS_INPROGRESS;
    finish(send_message(333, 0));
    CHECK("3.11 with PERSISTENT_DATA the data can be kept",
          came.attr & UCP_AM_RECV_ATTR_FLAG_DATA);
    for (int i = 0; i < 100; i++)
        turn();
    CHECK("3.11 and stays as it is", is_filled(came.data, 333, 2));
    ucp_am_data_release(there, came.data);
    handler_is(0);
}

static void descriptors(void)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    void *request, *send;

    came.answer = UCS_INPROGRESS;
    send = send_message(LONG_SIZE, UCP_AM_SEND_FLAG_RNDV);
    CHECK("3.11 a long message comes as a descriptor",
          came.is_right && came.attr & UCP_AM_RECV_ATTR_FLAG_RNDV && came.length == LONG_SIZE);
    memset(in, 0, LONG_SIZE);
    request = ucp_am_recv_data_nbx(there, came.data, in, LONG_SIZE, &param);
    CHECK("3.11 whose data is received later", UCS_PTR_IS_PTR(request));
    finish(request);
    CHECK("3.11 all of it", is_filled(in, LONG_SIZE, 2));
    finish(send);
    came.answer = UCS_OK;
    finish(send_message(LONG_SIZE, UCP_AM_SEND_FLAG_RNDV));
    CHECK("3.11 one that is not received is dropped, and its send completes", came.is_right);
    came.answer = UCS_INPROGRESS;
    send = send_message(LONG_SIZE, UCP_AM_SEND_FLAG_RNDV);
    ucp_am_data_release(there, came.data);
    finish(send);
    CHECK("3.11 so is one that is released", came.is_right);
}

/* ---- order ---- */

static char in_turn[5];
static unsigned turns;

static ucs_status_t note_turn(void *arg, const void *header, size_t header_length, void *data,
                              size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length;
    in_turn[turns++] = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? 'R' : 'E';
    return UCS_OK;
}

static bool are_four(void *arg)
{
    (void)arg;
    return turns == 4;
}

/* The handler drops the data: only the order of its calls is asked for. */
static void descriptors_keep_their_turn(void)
{
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                    UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .id = 5,
                                      .cb = note_turn};
    void *requests[4];

    CHECK("a handler is set", ucp_worker_set_am_recv_handler(there, &handler) == UCS_OK);
    for (int i = 0; i < 4; i++) {
        ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_FLAGS);

        param.flags = i % 2 == 0 ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
        requests[i] =
            ucp_am_send_nbx(to, 5, NULL, 0, bytes, i % 2 == 0 ? LONG_SIZE : 100, &param);
    }
    until("they are handled", are_four, NULL);
    CHECK("3.10 the descriptor of a long message comes before a later short message",
          memcmp(in_turn, "RERE", 4) == 0);
    for (int i = 0; i < 4; i++)
        finish(requests[i]);
}

static void flush_waits(void)
{
    unsigned count = got.count + 1;
    void *request, *flush;

    in[0] = (unsigned char)got.count;
    fill(in + 1, LONG_SIZE - 1, 1);
    request = ucp_am_send_nb(to, 3, in, LONG_SIZE, ucp_dt_make_contig(1), on_send_nb, 0);
    flush = ucp_ep_flush_nb(to, 0, on_send_nb);
    finish(flush);
    CHECK("3.6 a flush waits for active messages",
          !UCS_PTR_IS_PTR(request) || ucp_request_is_completed(request));
    until("it arrives", are_here, &count);
    finish(request);
}

/* As flush_waits(), but the handle is closed. */
static void close_waits(void)
{
    unsigned count = got.count + 1;
    void *request, *end;
    ucp_ep_h other;

    if (connect_to(here, there, &other) != UCS_OK) {
        CHECK("a second endpoint", false);
        return;
    }
    in[0] = (unsigned char)got.count;
    request = ucp_am_send_nb(other, 3, in, LONG_SIZE, ucp_dt_make_contig(1), on_send_nb, 0);
    end = ucp_disconnect_nb(other);
    until("it arrives", are_here, &count);
    finish(request);
    finish(end);
    CHECK("3.6 a close flushes active messages", got.count == count);
}

void messages_contract(void)
{
    fill(bytes, LONG_SIZE, 2);
    of_any_length();
    of_parts();
    handler_is(0);
    short_ones();
    forced();
    kept();
    descriptors();
    descriptors_keep_their_turn();
    flush_waits();
    close_waits();
}
