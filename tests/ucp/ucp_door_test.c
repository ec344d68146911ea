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

/* Announced lengths that are not those of the data, for a handler that gets all of it, and for one that drops it. */
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
        cmocka_unit_test_setup_teardown(a_second_release_does_nothing, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_receive_at_once_tells_of_its_message, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_message_that_was_only_looked_at_cannot_be_received,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(what_is_not_offered_is_refused, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_death_does_not_complete_requests, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_death_is_told_to_who_asks_for_it, open_both,
                                        close_both),
        cmocka_unit_test(memory_that_is_short_is_an_error),
        cmocka_unit_test(threads_share_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
