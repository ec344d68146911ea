/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_door_test.c - libucp over Matchbox: what UCX's own library is not asked.
 *
 * Addresses and active messages that no correct peer sends, a peer that dies, requests that are released twice, memory that is
 * short, threads, and what is not offered.  The files of src/ucp are linked in.  ucp_access_test.c has accesses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "tests/ucp/pair.h"
#include "ucp/address.h"
#include "ucp/door.h"

#define SIZE 1000

/* ---- addresses ---- */

static void describe(struct ucpx_address *address)
{
    assert_int_equal(mbx_address_get(there->mbx, &address->address), 0);
    address->identity = 7;
    address->rank = 12;
    address->job = 34;
}

static void an_address_is_read_as_it_was_written(void **state)
{
    struct ucpx_address address, read;
    unsigned char bytes[UCPX_ADDRESS_MAX];

    (void)state;
    describe(&address);
    assert_in_range(ucpx_address_pack(&address, bytes), 100, UCPX_ADDRESS_MAX);
    assert_int_equal(ucpx_address_read(&read, bytes), UCPX_ADDRESS_OURS);
    assert_memory_equal(&read.address, &address.address, sizeof address.address);
    assert_int_equal(read.rank, 12);
    assert_int_equal(read.job, 34);
    assert_int_equal(read.identity, 7);
}

/* Each bit, in memory that ends where the address does. */
static void an_address_with_a_wrong_bit_is_refused(void **state)
{
    struct ucpx_address address, read;
    unsigned char bytes[UCPX_ADDRESS_MAX], *copy;
    size_t size;

    (void)state;
    describe(&address);
    size = ucpx_address_pack(&address, bytes);
    for (size_t i = 0; i < 8 * size; i++) {
        copy = malloc(size);
        memcpy(copy, bytes, size);
        copy[i / 8] ^= (unsigned char)(1u << i % 8);
        if (ucpx_address_read(&read, copy) == UCPX_ADDRESS_OURS)
            fail_msg("bit %zu", i);
        free(copy);
    }
}

/* UCX 1.13 writes these beginnings: without a name, and with one. */
static void addresses_of_ucx_are_named(void **state)
{
    static const unsigned char plain[] = {0x20, 0xc4, 0x43, 0x06, 0xd8,
                                          0x11, 0x88, 0x7f, 0x14, 0x20},
                               named[] = {0x30, 0x9d, 0x89, 0x5f, 0xa8, 0x00, 0xa3, 0xae, 0x12,
                                          0x08, 0x76, 0x6d, 0x3a, 0x32, 0x32, 0x36, 0x39, 0x37};
    ucp_ep_h ep;

    (void)state;
    assert_int_equal(connect_to(here, plain, false, NULL, &ep), UCS_ERR_UNREACHABLE);
    assert_non_null(strstr(last_line, "received an address of UCX 1.x"));
    assert_int_equal(connect_to(here, named, false, NULL, &ep), UCS_ERR_UNREACHABLE);
}

/* ---- active messages ---- */

static unsigned handled;
static uint64_t sum;

static void look_at(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
}

static ucs_status_t on_whole(void *arg, void *data, size_t length, ucp_ep_h reply,
                             unsigned flags)
{
    (void)arg;
    (void)reply;
    (void)flags;
    look_at(data, length);
    handled++;
    return UCS_OK;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data,
                               size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg;
    look_at(header, header_length);
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        look_at(data, length);
    handled++;
    return UCS_OK;
}

static void set_handlers(void)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id = 1,
                                          .cb = on_message};

    handled = 0;
    assert_int_equal(ucp_worker_set_am_handler(there, 0, on_whole, NULL, UCP_AM_FLAG_WHOLE_MSG),
                     UCS_OK);
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &param), UCS_OK);
}

/* Past the door's own checks. */
static void send_raw(uint32_t id, uint64_t tag, uint64_t words, const void *bytes, size_t size)
{
    int result;

    while ((result = mbx_inject(here->mbx, to->peer, id, tag, bytes, size, words)) == -ENOMEM)
        turn();
    assert_int_equal(result, 0);
}

static void send_right(void)
{
    unsigned before = handled;
    void *request = ucp_am_send_nb(to, 0, last_line, 10, ucp_dt_make_contig(1), NULL, 0);

    assert_false(UCS_PTR_IS_ERR(request));
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    while (handled == before)
        turn();
}

/* Does the format allow it (src/ucp/am.h), and is there a handler? */
static bool is_right(uint64_t tag, uint64_t words, size_t size)
{
    uint64_t header = words & UINT32_MAX, data = words >> 32;

    return tag >> 19 == 0 && (tag & 0xffff) <= 1 && header <= UCPX_AM_HEADER &&
           data <= UCPX_AM_SHORT && size == (header == 0 ? data : (data + 7) / 8 * 8 + header);
}

static void garbled_active_messages_are_dropped(void **state)
{
    static unsigned char bytes[SIZE];
    struct random random;
    unsigned right = 0;

    (void)state;
    set_handlers();
    random_seed(&random, 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t words = random_next(&random), tag = random_next(&random);
        size_t size = random_below(&random, 64);

        if (random_below(&random, 2) == 0) { /* nearly right */
            tag &= (UCPX_AM_KNOWN & ~UINT64_C(0xfffe)) | UINT64_C(1) << 40;
            words = random_below(&random, 40) | random_below(&random, 40) << 32;
        }
        for (size_t at = 0; at < size; at++)
            bytes[at] = (unsigned char)random_below(&random, 4);
        tag &= ~UCPX_AM_LONG;
        send_raw(UCPX_ID_MESSAGES, tag, words, bytes, size);
        right += is_right(tag, words, size);
        turn();
    }
    assert_true(lines > 0);
    send_right();
    assert_in_range(right, 1, 10000);
    assert_int_equal(handled, right + 1);
}

static void announce(uint64_t number, uint64_t size, uint64_t id)
{
    const struct ucpx_long parts = {.number = number, .size = size};

    send_raw(UCPX_ID_MESSAGES, UCPX_AM_LONG | id, (uint64_t)sizeof parts << 32, &parts,
             sizeof parts);
}

/* The announced length differs from the length of the data, for a handler that gets all of it, and for one that drops it. */
static void long_messages_of_another_length_are_dropped(void **state)
{
    static const uint64_t announced[] = {
        0, 1, 8192, SIZE + 1, UINT64_MAX, UINT64_MAX - 100, UINT64_C(1) << 62};
    static unsigned char bytes[SIZE];

    (void)state;
    set_handlers();
    for (uint64_t i = 0; i < 7; i++) {
        announce(i, announced[i], 0);
        send_raw(UCPX_ID_DATA, i, 0, bytes, SIZE);
        send_right();
        assert_int_equal(handled, i + 1);
    }
    handled = 0;
    announce(100, SIZE, 0);
    send_raw(UCPX_ID_DATA, 100, 0, bytes, SIZE);
    announce(101, UINT64_MAX, 1);
    send_raw(UCPX_ID_DATA, 101, 0, bytes, SIZE);
    send_right();
    assert_int_equal(handled, 3);
    announce(102, SIZE, 77); /* there is no such handler */
    send_raw(UCPX_ID_DATA, 102, 0, bytes, SIZE);
    send_right();
    assert_int_equal(handled, 4);
}

/* More than the door has buffers for what it has not handled (am.c). */
#define KEPT_COUNT 1500

static void *kept[KEPT_COUNT];
static unsigned kept_now;

static ucs_status_t keep(void *arg, const void *header, size_t header_length, void *data,
                         size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg;
    look_at(header, header_length);
    assert_true(length == SIZE || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    handled++;
    kept[kept_now++] = data;
    return UCS_INPROGRESS;
}

static void keep_all(void)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id = 2,
                                          .cb = keep};

    set_handlers();
    kept_now = 0;
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &param), UCS_OK);
}

static unsigned buffers_in_use(void)
{
    return there->am.buffer_count - there->am.posted_count;
}

/* Long ones, of which the handler gets all data, with a header. */
static void a_client_may_keep_many_long_messages(void **state)
{
    static unsigned char bytes[SIZE];

    (void)state;
    keep_all();
    memset(bytes, 3, sizeof bytes);
    for (unsigned i = 0; i < KEPT_COUNT; i++) {
        const struct ucpx_long parts = {.number = i, .size = SIZE};
        unsigned char announcement[sizeof parts + 8] = {0};

        memcpy(announcement, &parts, sizeof parts);
        send_raw(UCPX_ID_MESSAGES, UCPX_AM_LONG | UCPX_AM_WHOLE | 2,
                 (uint64_t)sizeof parts << 32 | 8, announcement, sizeof announcement);
        send_raw(UCPX_ID_DATA, i, 0, bytes, SIZE);
        while (handled <= i)
            turn();
        assert_int_equal(buffers_in_use(), i + 1);
    }
    assert_int_equal(there->am.kept_count, KEPT_COUNT);
    for (unsigned i = 0; i < KEPT_COUNT; i++) {
        assert_memory_equal(kept[i], bytes, SIZE);
        ucp_am_data_release(there, kept[i]);
    }
    assert_int_equal(buffers_in_use(), 0);
    send_right();
}

/* A long message, and a short one with a header. */
static void a_client_may_receive_what_it_has_kept(void **state)
{
    static unsigned char bytes[SIZE + 8], in[SIZE + 8];
    size_t length;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .recv_info.length = &length};

    (void)state;
    keep_all();
    memset(bytes, 3, sizeof bytes);
    announce(1, SIZE, UCPX_AM_WHOLE | 2);
    send_raw(UCPX_ID_DATA, 1, 0, bytes, SIZE);
    send_raw(UCPX_ID_MESSAGES, 2, (uint64_t)SIZE << 32 | 8, bytes, sizeof bytes);
    while (kept_now < 2)
        turn();
    for (unsigned i = 0; i < 2; i++) {
        memset(in, 0, sizeof in);
        assert_null(ucp_am_recv_data_nbx(there, kept[i], in, sizeof in, &param));
        assert_int_equal(length, SIZE);
        assert_memory_equal(in, bytes, SIZE);
        assert_int_equal(in[SIZE], 0);
    }
    assert_int_equal(buffers_in_use(), 0);
}

/* Less data than announced is an error, also for a client that receives it later. */
static void data_that_is_too_short_is_an_error(void **state)
{
    static unsigned char in[SIZE];
    void *request;

    (void)state;
    keep_all();
    announce(1, SIZE, 2);
    while (kept_now < 1)
        turn();
    request = ucp_am_recv_data_nbx(there, kept[0], in, sizeof in, &(ucp_request_param_t){0});
    assert_true(UCS_PTR_IS_PTR(request));
    send_raw(UCPX_ID_DATA, 1, 0, in, 10);
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        turn();
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_IO_ERROR);
    assert_non_null(strstr(last_line, "has sent 10 bytes of "));
    ucp_request_free(request);
}

static ucp_ep_h to_close;

static void close_handle(void *request, ucs_status_t status, void *arg)
{
    (void)request;
    (void)status;
    (void)arg;
    (void)ucp_ep_close_nb(to_close, UCP_EP_CLOSE_MODE_FLUSH);
}

/* It runs within the call of the send. */
static void a_callback_may_close_its_endpoint(void **state)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.send = close_handle};
    ucp_address_t *address;
    void *request;
    size_t size;

    (void)state;
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(connect_to(here, address, false, NULL, &to_close), UCS_OK);
        request = i == 0 ? ucp_tag_send_nbx(to_close, "", 1, 7, &param)
                         : ucp_am_send_nbx(to_close, 1, NULL, 0, "", 1, &param);
        assert_int_equal(ucp_request_check_status(request), UCS_OK);
        ucp_request_free(request);
    }
    ucp_worker_release_address(there, address);
}

static uint32_t drops(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < there->peer_count; i++)
        count += there->peers[i].drops;
    return count;
}

static void send_data(uint64_t from, uint64_t to_number)
{
    static unsigned char bytes[SIZE];

    for (uint64_t i = from; i < to_number; i++)
        send_raw(UCPX_ID_DATA, i, 0, bytes, SIZE);
}

#define ANNOUNCED 400 /* the door has buffers for as many that wait */

/* Announced for an id without a handler; the data never comes, or late. */
static void what_one_peer_has_dropped_is_bounded(void **state)
{
    (void)state;
    set_handlers();
    for (uint64_t i = 0; i < ANNOUNCED; i++)
        announce(i, SIZE, 77);
    for (int i = 0; i < 2000; i++)
        turn();
    assert_int_equal(drops(), UCPX_DROPS_MAX);
    send_data(0, ANNOUNCED);
    send_right();
    while (drops() != 0)
        turn();
    assert_int_equal(handled, 1);
    assert_int_equal(buffers_in_use(), 0);
}

/* A client may drop more than the bound at once; then messages wait. */
static void a_client_may_drop_all_that_it_has_kept(void **state)
{
    void *request;

    (void)state;
    keep_all();
    for (uint64_t i = 0; i < ANNOUNCED; i++)
        announce(i, SIZE, 2);
    while (kept_now < ANNOUNCED)
        turn();
    for (unsigned i = 0; i < ANNOUNCED; i++)
        ucp_am_data_release(there, kept[i]);
    assert_int_equal(drops(), ANNOUNCED);
    request = ucp_am_send_nb(to, 0, last_line, 10, ucp_dt_make_contig(1), NULL, 0);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    send_data(0, ANNOUNCED - UCPX_DROPS_MAX);
    for (int i = 0; i < 2000; i++)
        turn();
    assert_int_equal(drops(), UCPX_DROPS_MAX);
    assert_int_equal(handled, ANNOUNCED);
    send_data(ANNOUNCED - UCPX_DROPS_MAX, ANNOUNCED);
    while (handled == ANNOUNCED || drops() != 0)
        turn();
    assert_int_equal(handled, ANNOUNCED + 1);
}

static ucs_status_t on_nested(void *arg, void *data, size_t length, ucp_ep_h reply,
                              unsigned flags)
{
    for (int i = 0; i < 100; i++)
        turn();
    return on_whole(arg, data, length, reply, flags);
}

/* Also while others wait for a long one. */
static void a_handler_may_make_progress(void **state)
{
    static unsigned char bytes[SIZE];

    (void)state;
    set_handlers();
    assert_int_equal(
        ucp_worker_set_am_handler(there, 0, on_nested, NULL, UCP_AM_FLAG_WHOLE_MSG), UCS_OK);
    announce(1, SIZE, 0);
    for (int i = 0; i < 5; i++)
        send_raw(UCPX_ID_MESSAGES, 0, (uint64_t)10 << 32, bytes, 10);
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(handled, 0);
    send_raw(UCPX_ID_DATA, 1, 0, bytes, SIZE);
    while (handled < 6)
        turn();
}

static unsigned char order[4];

static ucs_status_t on_ordered(void *arg, void *data, size_t length, ucp_ep_h reply,
                               unsigned flags)
{
    (void)arg;
    (void)length;
    (void)reply;
    (void)flags;
    order[handled++] = *(unsigned char *)data;
    return UCS_OK;
}

static void send_letter(unsigned char letter)
{
    send_raw(UCPX_ID_MESSAGES, 0, UINT64_C(1) << 32, &letter, 1);
}

/* Runs while another peer's messages wait: their turn comes, and another one arrives. */
static ucs_status_t on_other_peer(void *arg, void *data, size_t length, ucp_ep_h reply,
                                  unsigned flags)
{
    send_data(0, 1);
    send_letter('b');
    while (drops() == UCPX_DROPS_MAX || list_is_empty(&there->am.arrived))
        turn();
    return on_ordered(arg, data, length, reply, flags);
}

static void messages_that_wait_are_handled_before_later_ones(void **state)
{
    ucp_address_t *address;
    ucp_ep_h self;
    size_t size;

    (void)state;
    set_handlers();
    assert_int_equal(ucp_worker_set_am_handler(there, 0, on_ordered, NULL, 0), UCS_OK);
    assert_int_equal(ucp_worker_set_am_handler(there, 3, on_other_peer, NULL, 0), UCS_OK);
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &self), UCS_OK);
    ucp_worker_release_address(there, address);
    for (uint64_t i = 0; i < UCPX_DROPS_MAX; i++)
        announce(i, SIZE, 77);
    send_letter('a');
    for (int i = 0; i < 2000; i++)
        turn();
    assert_int_equal(handled, 0);
    assert_null(ucp_am_send_nb(self, 3, "x", 1, ucp_dt_make_contig(1), NULL, 0));
    while (handled < 3)
        turn();
    assert_memory_equal(order, "xab", 3);
    send_data(1, UCPX_DROPS_MAX);
    while (drops() != 0)
        turn();
}

/* ---- requests ---- */

static void a_second_release_does_nothing(void **state)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    char byte = 0;
    void *request = ucp_tag_send_nbx(to, &byte, 1, 1, &param);

    (void)state;
    assert_true(UCS_PTR_IS_PTR(request));
    ucp_request_release(request);
    ucp_request_release(request);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "released twice"));
    ucp_request_release(request);
    assert_int_equal(lines, 1);
}

static void a_receive_at_once_tells_of_its_message(void **state)
{
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .recv_info.tag_info = &info};
    ucp_request_param_t plain = {0};
    char bytes[10] = "";
    ucs_status_ptr_t result;

    (void)state;
    assert_null(ucp_tag_send_nbx(to, bytes, 10, 5, &plain));
    while (ucp_tag_probe_nb(there, 5, UINT64_MAX, 0, &info) == NULL)
        turn();
    info = (ucp_tag_recv_info_t){0};
    result = ucp_tag_recv_nbx(there, bytes, 10, 5, UINT64_MAX, &param);
    assert_null(result);
    assert_int_equal(info.sender_tag, 5);
    assert_int_equal(info.length, 10);
}

static void a_message_that_was_only_looked_at_cannot_be_received(void **state)
{
    ucp_request_param_t plain = {0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    char byte = 0;

    (void)state;
    assert_null(ucp_tag_send_nbx(to, &byte, 1, 6, &plain));
    while ((message = ucp_tag_probe_nb(there, 6, UINT64_MAX, 0, &info)) == NULL)
        turn();
    assert_ptr_equal(ucp_tag_msg_recv_nbx(there, &byte, 1, message, &plain),
                     UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
}

static void what_is_not_offered_is_refused(void **state)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM};
    ucp_request_param_t device = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                  .memory_type = UCS_MEMORY_TYPE_CUDA};
    ucp_request_param_t unknown = {.op_attr_mask = 0x400000};
    ucp_context_h other;
    char byte = 0;

    (void)state;
    assert_int_equal(ucp_init(&params, NULL, &other), UCS_ERR_UNSUPPORTED);
    assert_non_null(strstr(last_line, "feature STREAM is not supported"));
    assert_ptr_equal(ucp_tag_send_nbx(to, &byte, 1, 1, &device),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_non_null(strstr(last_line, "GPU memory (type cuda)"));
    assert_ptr_equal(ucp_tag_send_nbx(to, &byte, 1, 1, &unknown),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_non_null(strstr(last_line, "unknown bits 400000"));
    assert_int_equal(ucp_stream_worker_poll(here, NULL, 0, 0), UCS_ERR_UNSUPPORTED);
    assert_non_null(strstr(last_line, "ucp_stream_worker_poll is not supported"));
    lines = 0;
    assert_int_equal(ucp_stream_worker_poll(here, NULL, 0, 0), UCS_ERR_UNSUPPORTED);
    assert_int_equal(lines, 0);
}

/* ---- a forced close ---- */

#define SENDS 300 /* the peer keeps some of them; the others wait here */

static void *sends[SENDS];
static bool cancels_next;

int __real_mbx_cancel(struct mbx_ep *ep, mbx_request request);
int __wrap_mbx_cancel(struct mbx_ep *ep, mbx_request request);

/* A cancel may end other sends: here it ends the next one first. */
int __wrap_mbx_cancel(struct mbx_ep *ep, mbx_request request)
{
    for (unsigned i = 0; cancels_next && i + 1 < SENDS; i++)
        if (ucpx_record_of(sends[i])->number == request)
            (void)__real_mbx_cancel(ep, ucpx_record_of(sends[i + 1])->number);
    return __real_mbx_cancel(ep, request);
}

static void a_forced_close_ends_each_send_once(void **state)
{
    ucp_request_param_t plain = {0};
    char bytes[SIZE] = "";

    (void)state;
    for (unsigned i = 0; i < SENDS; i++) {
        sends[i] = ucp_tag_send_sync_nbx(to, bytes, SIZE, i, &plain);
        assert_true(UCS_PTR_IS_PTR(sends[i]));
    }
    cancels_next = true;
    assert_null(ucp_ep_close_nb(to, UCP_EP_CLOSE_MODE_FORCE));
    cancels_next = false;
    for (unsigned i = 0; i < SENDS; i++) {
        while (!ucp_request_is_completed(sends[i]))
            turn();
        assert_int_equal(ucp_request_check_status(sends[i]), UCS_ERR_CANCELED);
        ucp_request_free(sends[i]);
    }
    assert_int_equal(here->pool.live, 0);
    assert_true(list_is_empty(&here->endpoints));
}

/* ---- a peer that dies ---- */

static unsigned errors_told;

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    assert_ptr_equal(arg, &here);
    assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    assert_non_null(ep);
    errors_told++;
}

static void a_death_does_not_complete_requests(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_request_param_t plain = {0};
    void *request, *closing;
    ucp_ep_h ep;

    (void)state;
    assert_int_equal(connect_to(here, address, false, on_error, &ep), UCS_OK);
    request = ucp_tag_send_sync_nbx(ep, address, 10, 1, &plain);
    assert_true(UCS_PTR_IS_PTR(request));
    kill_peer(child);
    while (lines == 0)
        turn();
    assert_non_null(strstr(last_line, "is gone"));
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(lines, 1);
    assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
    closing = ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE);
    assert_null(closing);
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        turn();
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_CANCELED);
    ucp_request_free(request);
}

static void a_death_is_told_to_who_asks_for_it(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_request_param_t plain = {0};
    void *request;
    ucp_ep_h ep;

    (void)state;
    errors_told = 0;
    assert_int_equal(connect_to(here, address, true, on_error, &ep), UCS_OK);
    request = ucp_tag_send_sync_nbx(ep, address, 10, 1, &plain);
    assert_true(UCS_PTR_IS_PTR(request));
    kill_peer(child);
    while (errors_told == 0)
        turn();
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_CONNECTION_RESET);
    ucp_request_free(request);
    request = ucp_tag_send_sync_nbx(ep, address, 10, 1, &plain);
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
        turn();
    for (int i = 0; i < 100; i++)
        turn();
    assert_int_equal(errors_told, 1);
}

/* ---- memory ---- */

/* A client's work, up to the first error. */
static ucs_status_t work(void)
{
    ucp_request_param_t sync = {0}, recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_t status = open_pair(UCS_THREAD_MODE_SINGLE);
    char bytes[16] = "";
    void *request, *other;

    if (status != UCS_OK)
        return status;
    status = ucp_worker_set_am_handler(there, 5, on_whole, NULL, UCP_AM_FLAG_WHOLE_MSG);
    if (status != UCS_OK)
        return status;
    request = ucp_tag_recv_nbx(there, bytes, sizeof bytes, 1, 0, &recv);
    if (UCS_PTR_IS_ERR(request))
        return UCS_PTR_STATUS(request);
    other = ucp_tag_send_sync_nbx(to, bytes, sizeof bytes, 1, &sync);
    if (UCS_PTR_IS_ERR(other))
        return UCS_PTR_STATUS(other);
    while (!ucp_request_is_completed(request) || !ucp_request_is_completed(other))
        turn();
    status = ucp_request_check_status(other);
    return status != UCS_OK ? status : ucp_request_check_status(request);
}

static void memory_that_is_short_is_an_error(void **state)
{
    ucs_status_t status = UCS_INPROGRESS;

    (void)state;
    mbx_log_callback(note, NULL);
    for (uint64_t n = 1; status != UCS_OK; n++) {
        mem_fail_at(n);
        status = work();
        mem_fail_at(0);
        close_pair();
        assert_true(status == UCS_OK || status == UCS_ERR_NO_MEMORY);
        assert_int_equal(mem_live(), 0);
    }
    mbx_log_callback(NULL, NULL);
}

/* ---- threads ---- */

#define ROUNDS 500

/* Each thread sends to the other worker under a tag of its own, and receives from it. */
static void *exchange(void *arg)
{
    uint64_t tag = (uintptr_t)arg, in, out;
    ucp_request_param_t recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL}, send = {0};

    for (out = 0; out < ROUNDS; out++) {
        void *request = ucp_tag_recv_nbx(there, &in, sizeof in, tag, UINT64_MAX, &recv);
        void *other = ucp_tag_send_nbx(to, &out, sizeof out, tag, &send);

        while (!ucp_request_is_completed(request))
            turn();
        assert_true(in == out);
        ucp_request_free(request);
        while (UCS_PTR_IS_PTR(other) && !ucp_request_is_completed(other))
            turn();
        if (UCS_PTR_IS_PTR(other))
            ucp_request_free(other);
    }
    return NULL;
}

static void threads_share_workers(void **state)
{
    pthread_t threads[4];

    (void)state;
    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    close_pair();
}

static void *_Atomic reported;
static atomic_bool is_given_up;

/* The other thread gives the request up, and uses its memory again, before this returns. */
static void while_given_up(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                           void *user_data)
{
    atomic_store(&reported, request);
    while (!atomic_load(&is_given_up))
        sched_yield();
    assert_int_equal(status, UCS_OK);
    assert_int_equal(info->sender_tag, 7);
    assert_int_equal(info->length, 10);
    assert_ptr_equal(user_data, &reported);
}

static void *make_progress(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_given_up))
        turn();
    return NULL;
}

/* The receive of a message that has been sent, whose callback has begun in another thread. */
static void *receive_in(pthread_t *thread, void *memory)
{
    static char in[10], out[10];
    ucp_request_param_t send = {0}, recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL |
                                                            UCP_OP_ATTR_FIELD_CALLBACK |
                                                            UCP_OP_ATTR_FIELD_USER_DATA,
                                            .cb.recv = while_given_up,
                                            .user_data = &reported,
                                            .request = memory};
    void *request;

    atomic_store(&reported, NULL);
    atomic_store(&is_given_up, false);
    if (memory != NULL)
        recv.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    request = ucp_tag_recv_nbx(there, in, sizeof in, 7, UINT64_MAX, &recv);
    assert_null(ucp_tag_send_nbx(to, out, sizeof out, 7, &send));
    assert_int_equal(pthread_create(thread, NULL, make_progress, NULL), 0);
    while (atomic_load(&reported) == NULL)
        sched_yield();
    assert_ptr_equal(atomic_load(&reported), request);
    assert_int_equal(ucp_request_check_status(request), UCS_OK);
    return request;
}

static void a_request_is_not_used_again_while_its_callback_runs(void **state)
{
    ucp_request_param_t recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    void *request, *others[2];
    pthread_t thread;
    char in;

    (void)state;
    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    request = receive_in(&thread, NULL);
    ucp_request_free(request);
    others[0] = ucp_tag_recv_nbx(there, &in, sizeof in, 8, UINT64_MAX, &recv);
    assert_ptr_not_equal(others[0], request);
    atomic_store(&is_given_up, true);
    pthread_join(thread, NULL);
    others[1] = ucp_tag_recv_nbx(there, &in, sizeof in, 9, UINT64_MAX, &recv);
    assert_ptr_equal(others[1], request);
    for (int i = 0; i < 2; i++) {
        ucp_request_cancel(there, others[i]);
        ucp_request_free(others[i]);
    }
    assert_int_equal(there->pool.live, 0);
    close_pair();
}

/* A client's own memory is free when its request is complete. */
static void a_client_s_memory_is_its_own_while_the_callback_runs(void **state)
{
    static _Alignas(16) unsigned char memory[UCPX_RECORD_SIZE], noise[sizeof memory];
    pthread_t thread;

    (void)state;
    memset(noise, 0xff, sizeof noise);
    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    receive_in(&thread, memory + sizeof memory);
    memcpy(memory, noise, sizeof memory);
    atomic_store(&is_given_up, true);
    pthread_join(thread, NULL);
    assert_memory_equal(memory, noise, sizeof memory);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_is_read_as_it_was_written, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(an_address_with_a_wrong_bit_is_refused, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(addresses_of_ucx_are_named, open_both, close_both),
        cmocka_unit_test_setup_teardown(garbled_active_messages_are_dropped, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(long_messages_of_another_length_are_dropped, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_client_may_keep_many_long_messages, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_client_may_receive_what_it_has_kept, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(data_that_is_too_short_is_an_error, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_callback_may_close_its_endpoint, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(what_one_peer_has_dropped_is_bounded, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_client_may_drop_all_that_it_has_kept, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_handler_may_make_progress, open_both, close_both),
        cmocka_unit_test_setup_teardown(messages_that_wait_are_handled_before_later_ones,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_second_release_does_nothing, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_receive_at_once_tells_of_its_message, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_message_that_was_only_looked_at_cannot_be_received,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(what_is_not_offered_is_refused, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_forced_close_ends_each_send_once, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_death_does_not_complete_requests, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_death_is_told_to_who_asks_for_it, open_both,
                                        close_both),
        cmocka_unit_test(memory_that_is_short_is_an_error),
        cmocka_unit_test(threads_share_workers),
        cmocka_unit_test(a_request_is_not_used_again_while_its_callback_runs),
        cmocka_unit_test(a_client_s_memory_is_its_own_while_the_callback_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
