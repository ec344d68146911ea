/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_death_test.c - a peer that is killed: what waits for it, and who is told.
 */
#include "tests/ucp/region.h"

#include <stdio.h>
#include <string.h>

static unsigned errors_told;

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    assert_ptr_equal(arg, &here);
    assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    assert_non_null(ep);
    errors_told++;
}

/* ---- tagged sends ---- */

static void a_death_does_not_complete_requests(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_request_param_t plain = {0};
    void *request, *closing;
    char who[64];
    ucp_ep_h ep;

    assert_int_equal(connect_to(here, address, false, on_error, &ep), UCS_OK);
    request = ucp_tag_send_sync_nbx(ep, address, 10, 1, &plain);
    assert_true(UCS_PTR_IS_PTR(request));
    kill_peer(child);
    while (lines == 0)
        turn();
    snprintf(who, sizeof who, " (process %d on ", (int)child);
    assert_non_null(strstr(last_line, who));
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

static void a_death_is_told_to_who_asks_for_it(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_request_param_t plain = {0};
    void *request;
    ucp_ep_h ep;

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

/* ---- active messages ---- */

/* Whoever's memory the request is in. */
static void a_copy_for_a_dead_peer_is_freed(UNUSED void **state)
{
    static _Alignas(16) unsigned char request[UCPX_RECORD_SIZE + 16];
    const ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL},
                              own = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST,
                                     .request = request + UCPX_RECORD_SIZE};
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_ep_h ep;

    assert_int_equal(connect_to(here, address, false, NULL, &ep), UCS_OK);
    kill_peer(child);
    while (ucp_am_send_nbx(ep, 1, "head", 5, data, 10, &now) == NULL)
        ;
    assert_ptr_equal(ucp_am_send_nbx(ep, 1, "head", 5, data, 10, &own), own.request);
    while (lines == 0)
        turn();
    assert_int_equal(ucp_request_check_status(own.request), UCS_INPROGRESS);
}

/* ---- accesses ---- */

/* The put was taken, and the peer never performs it: no flush says that it did. */
static void a_death_leaves_accesses_under_way(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    void *put, *flushing;
    ucp_ep_h ep;

    assert_int_equal(connect_to(here, address, false, on_error, &ep), UCS_OK);
    kill_peer(child);
    put = ucp_put_nb(ep, data, MEMORY_SIZE, where(memory.bytes), key, NULL);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    flushing = ucp_ep_flush_nbx(ep, &(ucp_request_param_t){0});
    while (lines == 0)
        turn();
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(ucp_request_check_status(put), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushing), UCS_INPROGRESS);
    assert_null(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE));
    assert_int_equal(finish(put), UCS_ERR_CANCELED);
    (void)finish(flushing);
    assert_int_equal(flush_worker(), UCS_OK);
}

static void a_death_fails_the_flush_of_who_asks_for_it(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_ep_h ep;

    errors_told = 0;
    assert_int_equal(connect_to(here, address, true, on_error, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_CONNECTION_RESET);
    while (errors_told == 0)
        turn();
}

static void a_close_ends_if_the_peer_dies(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    void *put, *closing;
    ucp_ep_h ep;

    assert_int_equal(connect_to(here, address, true, on_error, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    put = ucp_put_nb(ep, data, MEMORY_SIZE, where(memory.bytes), key, NULL);
    closing = ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
    assert_int_equal(finish(put), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(finish(closing), UCS_OK);
}

static ucs_status_t closed_with;

static void close_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    closed_with = status;
    (void)ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE);
}

/* The progress of a flush calls it; the flush still knows its endpoint. */
static void an_error_callback_may_close_what_is_flushed(UNUSED void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_ep_h ep;

    closed_with = UCS_OK;
    assert_int_equal(connect_to(here, address, true, close_failed, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    while (closed_with == UCS_OK)
        if (ucp_ep_flush(ep) != UCS_OK)
            break;
    while (closed_with == UCS_OK)
        turn();
    assert_int_equal(closed_with, UCS_ERR_CONNECTION_RESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_death_does_not_complete_requests, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_death_is_told_to_who_asks_for_it, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_copy_for_a_dead_peer_is_freed, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_death_leaves_accesses_under_way, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_death_fails_the_flush_of_who_asks_for_it, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_close_ends_if_the_peer_dies, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(an_error_callback_may_close_what_is_flushed,
                                        open_memory, close_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
