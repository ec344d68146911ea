/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_messages_test.c - active messages that no correct peer sends, and active messages that wait.
 *
 * They are asked of Matchbox's libucp alone; contract_messages.c asks both libraries.
 */
#include "tests/ucp/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

#define SIZE 1000

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

    if (id == UCPX_ID_MESSAGES)
        words = numbered(words);
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
    uint64_t header = words & UINT16_MAX, data = words >> 32;

    return tag >> 19 == 0 && (tag & 0xffff) <= 1 && header <= UCPX_AM_HEADER &&
           data <= UCPX_AM_SHORT && size == (header == 0 ? data : (data + 7) / 8 * 8 + header);
}

static void garbled_active_messages_are_dropped(UNUSED void **state)
{
    static unsigned char bytes[SIZE];
    struct random random;
    unsigned right = 0;

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

static uint32_t drops(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < there->peer_count; i++)
        count += there->peers[i].drops;
    return count;
}

/* The announced length differs from the length of the data, for a handler that gets all of it, and for one that drops it. */
static void long_messages_of_another_length_are_dropped(UNUSED void **state)
{
    static const uint64_t announced[] = {
        0, 1, 8192, SIZE + 1, UINT64_MAX, UINT64_MAX - 100, UINT64_C(1) << 62};
    static unsigned char bytes[SIZE];

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
    announce(101, UINT64_MAX, 1); /* no handler hears of that */
    send_raw(UCPX_ID_DATA, 101, 0, bytes, SIZE);
    send_right();
    assert_int_equal(handled, 2);
    announce(102, SIZE, 77); /* there is no such handler */
    send_raw(UCPX_ID_DATA, 102, 0, bytes, SIZE);
    send_right();
    assert_int_equal(handled, 3);
    assert_int_equal(drops(), 0);
}

static unsigned buffers_in_use(void)
{
    return there->am.buffer_count - there->am.posted_count;
}

/* Numbers that were already handled, that wait already, or that no peer can have reached. */
static void messages_with_a_wrong_number_are_dropped(UNUSED void **state)
{
    static const int32_t ahead[] = {-1, -100, 1, 1, UCPX_AHEAD_MAX, INT16_MAX};
    struct ucpx_peer *peer = &here->peers[to->peer];
    uint16_t first;

    set_handlers();
    send_right();
    first = peer->sent;
    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
        peer->sent = (uint16_t)(first + ahead[i]);
        send_raw(UCPX_ID_MESSAGES, 0, UINT64_C(10) << 32, last_line, 10);
        turn();
    }
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(handled, 1);
    assert_int_equal(buffers_in_use(), 1);
    peer->sent = first;
    send_raw(UCPX_ID_MESSAGES, 0, UINT64_C(10) << 32, last_line, 10);
    while (handled < 3)
        turn();
    peer->sent++;
    send_right();
    assert_int_equal(handled, 4);
}

/* It is handled when there is memory again, before later ones. */
static void a_message_waits_for_memory(UNUSED void **state)
{
    char byte = 0;

    set_handlers();
    send_raw(UCPX_ID_MESSAGES, 0, UINT64_C(1) << 32, &byte, 1);
    while (list_is_empty(&there->am.arrived))
        ucp_worker_wait_mem(there, &byte);
    mem_fail_at(1);
    ucp_worker_progress(there);
    mem_fail_at(0);
    assert_int_equal(handled, 0);
    assert_int_equal(lines, 0);
    ucp_worker_progress(there);
    assert_int_equal(handled, 1);
    send_right();
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

/* Long ones, of which the handler gets all data, with a header. */
static void a_client_may_keep_many_long_messages(UNUSED void **state)
{
    static unsigned char bytes[SIZE];

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
static void a_client_may_receive_what_it_has_kept(UNUSED void **state)
{
    static unsigned char bytes[SIZE + 8], in[SIZE + 8];
    size_t length;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .recv_info.length = &length};

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
static void data_that_is_too_short_is_an_error(UNUSED void **state)
{
    static unsigned char in[SIZE];
    void *request;

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

static unsigned headers;

static ucs_status_t on_header(void *arg, const void *header, size_t header_length, void *bytes,
                              size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg, (void)bytes, (void)param;
    assert_int_equal(length, 10);
    assert_int_equal(header_length, 5);
    assert_memory_equal(header, "head", 5);
    headers++;
    return UCS_OK;
}

/* It leaves if there is space, and is not sent otherwise. */
static void a_message_that_must_leave_at_once_has_no_request(UNUSED void **state)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = 1,
                                            .cb = on_header};
    const ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    static unsigned char bytes[10 * UCPX_AM_SHORT];
    unsigned sent = 0;
    ucs_status_ptr_t result;

    headers = 0;
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &handler), UCS_OK);
    while ((result = ucp_am_send_nbx(to, 1, "head", 5, bytes, 10, &now)) == NULL)
        sent++;
    assert_ptr_equal(result, UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_true(sent > 0);
    assert_ptr_equal(ucp_am_send_nbx(to, 1, "head", 5, bytes, sizeof bytes, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_int_equal(here->pool.live, 0);
    while (headers < sent)
        turn();
    for (int i = 0; i < 100; i++)
        turn();
    assert_int_equal(headers, sent);
}

/* The client keeps the descriptor, and can receive the data later. */
static void data_that_must_be_here_at_once_is_refused(UNUSED void **state)
{
    const ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    static unsigned char bytes[SIZE], in[SIZE];
    void *request;

    keep_all();
    memset(bytes, 3, sizeof bytes);
    announce(1, SIZE, 2);
    while (kept_now < 1)
        turn();
    assert_ptr_equal(ucp_am_recv_data_nbx(there, kept[0], in, sizeof in, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    send_raw(UCPX_ID_DATA, 1, 0, bytes, SIZE);
    request = ucp_am_recv_data_nbx(there, kept[0], in, sizeof in, &(ucp_request_param_t){0});
    while (UCS_PTR_IS_PTR(request) && !ucp_request_is_completed(request))
        turn();
    assert_memory_equal(in, bytes, SIZE);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static _Alignas(16) unsigned char request_memory[UCPX_RECORD_SIZE + 16];

/* The status in a request of the client's own memory, which held noise before the receive that was refused. */
static ucs_status_t refused(void *data, ucs_memory_type_t type)
{
    static unsigned char in[SIZE];
    void *request = request_memory + UCPX_RECORD_SIZE;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST |
                                                       UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .request = request,
                                       .memory_type = type};
    ucs_status_ptr_t result;

    memset(request_memory, 0xee, sizeof request_memory);
    result = ucp_am_recv_data_nbx(there, data, in, sizeof in, &param);
    assert_ptr_equal(result, UCS_STATUS_PTR(ucp_request_check_status(request)));
    return UCS_PTR_STATUS(result);
}

static ucs_status_t receives_in_vain(void *arg, const void *header, size_t header_length,
                                     void *data, size_t length,
                                     const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)length, (void)param;
    assert_int_equal(refused(data, UCS_MEMORY_TYPE_CUDA), UCS_ERR_UNSUPPORTED);
    ucp_am_data_release(there, data);
    assert_int_equal(refused(data, UCS_MEMORY_TYPE_HOST), UCS_ERR_INVALID_PARAM);
    handled++;
    return UCS_INPROGRESS;
}

static void the_client_s_memory_tells_of_data_that_is_refused(UNUSED void **state)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = 2,
                                            .cb = receives_in_vain};

    set_handlers();
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &handler), UCS_OK);
    send_raw(UCPX_ID_MESSAGES, 2, UINT64_C(10) << 32, last_line, 10);
    while (handled == 0)
        turn();
    assert_int_equal(buffers_in_use(), 0);
}

static void send_data(uint64_t from, uint64_t to_number)
{
    static unsigned char bytes[SIZE];

    for (uint64_t i = from; i < to_number; i++)
        send_raw(UCPX_ID_DATA, i, 0, bytes, SIZE);
}

#define ANNOUNCED 400 /* the door has buffers for as many that wait */

/* Announced for an id without a handler; the data never comes, or late. */
static void what_one_peer_has_dropped_is_bounded(UNUSED void **state)
{
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
static void a_client_may_drop_all_that_it_has_kept(UNUSED void **state)
{
    void *request;

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

/* As many as fill all buffers, and more. */
#define FLOOD 1500

static ucs_status_t on_other(void *arg, void *bytes, size_t length, ucp_ep_h reply,
                             unsigned flags)
{
    (void)arg, (void)bytes, (void)length, (void)reply, (void)flags;
    headers++;
    return UCS_OK;
}

static void send_other(ucp_ep_h other)
{
    unsigned before = headers;

    assert_null(ucp_am_send_nb(other, 3, "x", 1, ucp_dt_make_contig(1), NULL, 0));
    for (int i = 0; i < 2000 && headers == before; i++)
        turn();
    assert_int_equal(headers, before + 1);
}

/* One announces long data, does not send it, and sends messages that have to wait for it. */
static void a_peer_that_sends_no_data_leaves_room_for_others(UNUSED void **state)
{
    static unsigned char bytes[SIZE];
    ucp_address_t *address;
    ucp_ep_h self;
    size_t size;

    set_handlers();
    headers = 0;
    assert_int_equal(ucp_worker_set_am_handler(there, 3, on_other, NULL, 0), UCS_OK);
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &self), UCS_OK);
    ucp_worker_release_address(there, address);
    for (int round = 0; round < 2; round++) {
        handled = 0;
        announce(1, SIZE, 0);
        for (unsigned i = 0; i < FLOOD; i++) {
            send_raw(UCPX_ID_MESSAGES, 0, (uint64_t)10 << 32, bytes, 10);
            turn();
        }
        for (int i = 0; i < 100; i++)
            send_other(self);
        assert_int_equal(handled, 0);
        assert_in_range(buffers_in_use(), UCPX_WAITING_MAX, 2 * UCPX_WAITING_MAX);
        send_raw(UCPX_ID_DATA, 1, 0, bytes, SIZE);
        while (handled < 1 + FLOOD)
            turn();
        assert_int_equal(buffers_in_use(), 0);
        assert_int_equal(there->am.posted_count, 64);
    }
}

static ucs_status_t on_nested(void *arg, void *data, size_t length, ucp_ep_h reply,
                              unsigned flags)
{
    for (int i = 0; i < 100; i++)
        turn();
    return on_whole(arg, data, length, reply, flags);
}

/* Also while others wait for a long one. */
static void a_handler_may_make_progress(UNUSED void **state)
{
    static unsigned char bytes[SIZE];

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

static void messages_that_wait_are_handled_before_later_ones(UNUSED void **state)
{
    ucp_address_t *address;
    ucp_ep_h self;
    size_t size;

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

static void send_letters(char letter, size_t size)
{
    static unsigned char bytes[4][UCPX_AM_SHORT];
    unsigned char *from = bytes[letter - 'a'];
    void *request;

    memset(from, letter, size);
    request = ucp_am_send_nb(to, 0, from, size, ucp_dt_make_contig(1), NULL, 0);
    assert_false(UCS_PTR_IS_ERR(request));
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

/* Their data comes after a message that was sent later. */
static void messages_by_rendezvous_are_handled_before_later_ones(UNUSED void **state)
{
    set_handlers();
    assert_int_equal(ucp_worker_set_am_handler(there, 0, on_ordered, NULL, 0), UCS_OK);
    send_letters('a', UCPX_AM_SHORT);
    send_letters('b', 1);
    send_letters('c', UCPX_AM_SHORT);
    send_letters('d', 1);
    while (handled < 4)
        turn();
    assert_memory_equal(order, "abcd", 4);
}

static int open_with_rendezvous(void **state)
{
    assert_int_equal(setenv("MBX_EAGER_LIMIT", "64", 1), 0);
    assert_int_equal(setenv("MBX_RNDV", "data", 1), 0);
    return open_both(state);
}

static int close_with_rendezvous(void **state)
{
    assert_int_equal(unsetenv("MBX_EAGER_LIMIT"), 0);
    assert_int_equal(unsetenv("MBX_RNDV"), 0);
    return close_both(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(garbled_active_messages_are_dropped, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(long_messages_of_another_length_are_dropped, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(messages_with_a_wrong_number_are_dropped, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_message_waits_for_memory, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_client_may_keep_many_long_messages, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_client_may_receive_what_it_has_kept, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(data_that_is_too_short_is_an_error, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_message_that_must_leave_at_once_has_no_request,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(data_that_must_be_here_at_once_is_refused, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(the_client_s_memory_tells_of_data_that_is_refused,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(what_one_peer_has_dropped_is_bounded, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_client_may_drop_all_that_it_has_kept, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_peer_that_sends_no_data_leaves_room_for_others,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_handler_may_make_progress, open_both, close_both),
        cmocka_unit_test_setup_teardown(messages_that_wait_are_handled_before_later_ones,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(messages_by_rendezvous_are_handled_before_later_ones,
                                        open_with_rendezvous, close_with_rendezvous),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
