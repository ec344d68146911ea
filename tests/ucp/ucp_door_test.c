/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_door_test.c - libucp over Matchbox: what UCX's own library is not asked of addresses, requests and handles.
 *
 * Addresses that no correct peer has, requests that are released twice, what is not offered, handles that are closed.  The
 * files of src/ucp are linked in.
 */
#include "tests/ucp/pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define SIZE 1000

/* ---- addresses ---- */

static void describe(struct ucpx_address *address)
{
    assert_int_equal(mbx_address_get(there->mbx, &address->address), 0);
    address->identity = 7;
    address->rank = 12;
    address->job = 34;
    address->who = (struct ucpx_who){.process = 4711, .host = "node7"};
}

static void an_address_is_read_as_it_was_written(UNUSED void **state)
{
    struct ucpx_address address, read;
    unsigned char bytes[UCPX_ADDRESS_MAX];

    describe(&address);
    assert_in_range(ucpx_address_pack(&address, bytes), 100, UCPX_ADDRESS_MAX);
    assert_int_equal(ucpx_address_read(&read, bytes), UCPX_ADDRESS_OURS);
    assert_memory_equal(&read.address, &address.address, sizeof address.address);
    assert_int_equal(read.rank, 12);
    assert_int_equal(read.job, 34);
    assert_int_equal(read.identity, 7);
    assert_int_equal(read.who.process, 4711);
    assert_string_equal(read.who.host, "node7");
}

/* Each bit, in memory that ends where the address does. */
static void an_address_with_a_wrong_bit_is_refused(UNUSED void **state)
{
    struct ucpx_address address, read;
    unsigned char bytes[UCPX_ADDRESS_MAX], *copy;
    size_t size;

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

/* A hostile process also writes the right hash.  Each is taken, or refused with one message. */
static void an_address_with_other_contents_is_taken_or_refused(UNUSED void **state)
{
    struct random random;
    unsigned taken = 0;

    random_seed(&random, 1);
    for (int i = 0; i < 2000; i++) {
        struct ucpx_address address;
        unsigned char bytes[UCPX_ADDRESS_MAX];
        ucs_status_t status;
        ucp_ep_h ep;
        size_t size;

        describe(&address);
        for (size_t changes = random_below(&random, 4); changes != 0; changes--)
            address.address.bytes[random_below(&random, sizeof address.address.bytes)] =
                (unsigned char)random_next(&random);
        memset(address.who.host, (int)random_below(&random, 256), sizeof address.who.host);
        size = ucpx_address_pack(&address, bytes);
        if (random_below(&random, 4) == 0)
            bytes[random_below(&random, size)] ^= 0x40;
        lines = 0;
        status = connect_to(here, bytes, false, NULL, &ep);
        assert_int_equal(lines, status != UCS_OK);
        taken += status == UCS_OK;
    }
    assert_in_range(taken, 100, 1900);
}

/* UCX 1.13 writes these beginnings: without a name, and with one. */
static void addresses_of_ucx_are_named(UNUSED void **state)
{
    static const unsigned char plain[] = {0x20, 0xc4, 0x43, 0x06, 0xd8,
                                          0x11, 0x88, 0x7f, 0x14, 0x20},
                               named[] = {0x30, 0x9d, 0x89, 0x5f, 0xa8, 0x00, 0xa3, 0xae, 0x12,
                                          0x08, 0x76, 0x6d, 0x3a, 0x32, 0x32, 0x36, 0x39, 0x37};
    ucp_ep_h ep;

    assert_int_equal(connect_to(here, plain, false, NULL, &ep), UCS_ERR_UNREACHABLE);
    assert_non_null(strstr(last_line, "received an address of UCX 1.x"));
    assert_int_equal(connect_to(here, named, false, NULL, &ep), UCS_ERR_UNREACHABLE);
    assert_non_null(strstr(last_line, "of UCX 1.x of 'vm:22697'"));
    assert_int_equal(lines, 2);
}

/* ---- requests ---- */

static void a_second_release_does_nothing(UNUSED void **state)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    char byte = 0;
    void *request = ucp_tag_send_nbx(to, &byte, 1, 1, &param);

    assert_true(UCS_PTR_IS_PTR(request));
    ucp_request_release(request);
    ucp_request_release(request);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(last_line, "released twice"));
    ucp_request_release(request);
    assert_int_equal(lines, 1);
}

static void a_receive_at_once_tells_of_its_message(UNUSED void **state)
{
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .recv_info.tag_info = &info};
    ucp_request_param_t plain = {0};
    char bytes[10] = "";
    ucs_status_ptr_t result;

    assert_null(ucp_tag_send_nbx(to, bytes, 10, 5, &plain));
    while (ucp_tag_probe_nb(there, 5, UINT64_MAX, 0, &info) == NULL)
        turn();
    info = (ucp_tag_recv_info_t){0};
    result = ucp_tag_recv_nbx(there, bytes, 10, 5, UINT64_MAX, &param);
    assert_null(result);
    assert_int_equal(info.sender_tag, 5);
    assert_int_equal(info.length, 10);
}

static void a_message_that_was_only_looked_at_cannot_be_received(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    char byte = 0;

    assert_null(ucp_tag_send_nbx(to, &byte, 1, 6, &plain));
    while ((message = ucp_tag_probe_nb(there, 6, UINT64_MAX, 0, &info)) == NULL)
        turn();
    assert_ptr_equal(ucp_tag_msg_recv_nbx(there, &byte, 1, message, &plain),
                     UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
}

static ucs_status_t map_as(int type)
{
    static char bytes[64];
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                       UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                         .address = bytes,
                                         .length = sizeof bytes,
                                         .memory_type = (ucs_memory_type_t)type};
    ucp_mem_h mem;
    ucs_status_t status = ucp_mem_map(context, &params, &mem);

    if (status == UCS_OK)
        ucp_mem_unmap(context, mem);
    return status;
}

/* Clients are of any version: UCS_MEMORY_TYPE_UNKNOWN is 5, 6, 9 or 10. */
static void memory_that_nobody_knows_is_the_host_s(UNUSED void **state)
{
    static const int unknown[] = {5, 6, 9, 10}, device[] = {1, 4, 7, 8};

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(map_as(unknown[i]), UCS_OK);
        assert_int_equal(map_as(device[i]), UCS_ERR_UNSUPPORTED);
    }
}

static void what_is_not_offered_is_refused(UNUSED void **state)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM};
    ucp_request_param_t device = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                  .memory_type = UCS_MEMORY_TYPE_CUDA};
    ucp_request_param_t unknown = {.op_attr_mask = 0x400000};
    ucp_context_h other;
    char byte = 0;

    assert_int_equal(ucp_init(&params, NULL, &other), UCS_ERR_UNSUPPORTED);
    assert_non_null(strstr(last_line, "feature STREAM is not supported"));
    assert_ptr_equal(ucp_tag_send_nbx(to, &byte, 1, 1, &device),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_non_null(strstr(last_line, "GPU memory (type cuda)"));
    device.memory_type = (ucs_memory_type_t)7; /* ze-device, of newer headers */
    assert_ptr_equal(ucp_tag_send_nbx(to, &byte, 1, 1, &device),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_ptr_equal(ucp_tag_send_nbx(to, &byte, 1, 1, &unknown),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_non_null(strstr(last_line, "unknown bits 400000"));
    assert_int_equal(ucp_stream_worker_poll(here, NULL, 0, 0), UCS_ERR_UNSUPPORTED);
    assert_non_null(strstr(last_line, "ucp_stream_worker_poll is not supported"));
    lines = 0;
    assert_int_equal(ucp_stream_worker_poll(here, NULL, 0, 0), UCS_ERR_UNSUPPORTED);
    assert_int_equal(lines, 0);
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
static void a_callback_may_close_its_endpoint(UNUSED void **state)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.send = close_handle};
    ucp_address_t *address;
    void *request;
    size_t size;

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

static void a_forced_close_ends_each_send_once(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    char bytes[SIZE] = "";

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_is_read_as_it_was_written, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(an_address_with_a_wrong_bit_is_refused, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(an_address_with_other_contents_is_taken_or_refused,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(addresses_of_ucx_are_named, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_second_release_does_nothing, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_receive_at_once_tells_of_its_message, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_message_that_was_only_looked_at_cannot_be_received,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(memory_that_nobody_knows_is_the_host_s, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(what_is_not_offered_is_refused, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_callback_may_close_its_endpoint, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_forced_close_ends_each_send_once, open_both,
                                        close_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
