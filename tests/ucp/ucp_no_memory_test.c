/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_no_memory_test.c - each allocation fails once: the call says so, and nothing stays allocated.
 */
#include "tests/ucp/region.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define SIZE 1000

static ucs_status_t on_message(void *arg, void *bytes, size_t length, ucp_ep_h reply,
                               unsigned flags)
{
    (void)arg, (void)bytes, (void)length, (void)reply, (void)flags;
    return UCS_OK;
}

/* A client's work, up to the first error. */
static ucs_status_t message_work(void)
{
    ucp_request_param_t sync = {0}, recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_t status = open_pair(UCS_THREAD_MODE_SINGLE);
    char bytes[16] = "";
    void *request, *other;

    if (status != UCS_OK)
        return status;
    status = ucp_worker_set_am_handler(there, 5, on_message, NULL, UCP_AM_FLAG_WHOLE_MSG);
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

/* Maps memory, and accesses it. */
static ucs_status_t access_work(void)
{
    static uint64_t bytes[SIZE], in[SIZE];
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = bytes,
                                         .length = sizeof bytes};
    ucp_rkey_h its = NULL;
    ucs_status_t status = open_pair(UCS_THREAD_MODE_SINGLE);
    void *packed;
    ucp_mem_h mem;
    size_t size;

    if (status != UCS_OK || (status = ucp_mem_map(context, &params, &mem)) != UCS_OK)
        return status;
    status = ucp_rkey_pack(context, mem, &packed, &size);
    if (status == UCS_OK) {
        status = ucp_ep_rkey_unpack(to, packed, &its);
        ucp_rkey_buffer_release(packed);
    }
    if (status == UCS_OK)
        status = ucp_put_nbi(to, data, 8, where(bytes), its);
    if (status == UCS_OK)
        status = ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 1, 8, where(bytes), its);
    if (status == UCS_OK)
        status = finish(ucp_get_nb(to, in, sizeof in, where(bytes), its, NULL));
    (void)flush();
    ucp_rkey_destroy(its);
    ucp_mem_unmap(context, mem);
    return status;
}

static void fails_cleanly(ucs_status_t (*body)(void))
{
    ucs_status_t status = UCS_INPROGRESS;

    mbx_log_callback(note, NULL);
    for (uint64_t n = 1; status != UCS_OK; n++) {
        mem_fail_at(n);
        status = body();
        mem_fail_at(0);
        close_pair();
        assert_true(status == UCS_OK || status == UCS_ERR_NO_MEMORY);
        assert_int_equal(mem_live(), 0);
    }
    mbx_log_callback(NULL, NULL);
}

static void messages_say_that_memory_is_short(UNUSED void **state)
{
    fails_cleanly(message_work);
}

static void accesses_say_that_memory_is_short(UNUSED void **state)
{
    fails_cleanly(access_work);
}

/* ---- the data of a message that was announced ---- */

#define LONG  ((size_t)3 * UCPX_AM_SHORT)
#define TURNS 100000 /* more than any message needs */

static unsigned long_ones, later_ones;
static unsigned refused; /* the next calls of mbx_inject() */

int __real_mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                      const void *buf, size_t size, uint64_t words);
int __wrap_mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                      const void *buf, size_t size, uint64_t words);

int __wrap_mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                      const void *buf, size_t size, uint64_t words)
{
    if (refused == 0)
        return __real_mbx_inject(ep, peer, context_id, tag, buf, size, words);
    refused--;
    return -ENOMEM;
}

static ucs_status_t on_either(void *arg, void *bytes, size_t length, ucp_ep_h reply,
                              unsigned flags)
{
    (void)arg, (void)bytes, (void)reply, (void)flags;
    long_ones += length == LONG;
    later_ones += length == 1;
    return UCS_OK;
}

/* Tagged messages that nobody receives, until none leaves at once or count have left.  How many have left. */
static unsigned fill(unsigned count)
{
    const ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    unsigned left = 0;

    while (left < count && ucp_tag_send_nbx(to, "x", 1, 7, &now) == NULL)
        left++;
    return left;
}

static void open_for_messages(void)
{
    assert_int_equal(open_pair(UCS_THREAD_MODE_SINGLE), UCS_OK);
    assert_int_equal(
        ucp_worker_set_am_handler(there, 0, on_either, NULL, UCP_AM_FLAG_WHOLE_MSG), UCS_OK);
    long_ones = later_ones = 0;
    last_line[0] = '\0';
}

static void *send_one(size_t size)
{
    static unsigned char bytes[LONG];

    return ucp_am_send_nb(to, 0, bytes, size, ucp_dt_make_contig(1), NULL, 0);
}

static ucs_status_t end_of(void *request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request))
        return UCS_PTR_STATUS(request);
    for (int i = 0; i < TURNS && !ucp_request_is_completed(request); i++)
        turn();
    status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

/* Sends a long message after so many tagged ones, and one that comes later.  True: the n-th allocation was one of the first. */
static bool long_message_ends(unsigned filled, uint64_t n, unsigned refusals, bool *is_void)
{
    ucs_status_t status;
    bool has_failed;
    void *request;

    open_for_messages();
    (void)fill(filled);
    refused = refusals;
    mem_fail_at(n);
    request = send_one(LONG);
    has_failed = mem_fail_left() == 0;
    mem_fail_at(0);
    status = end_of(request);
    assert_true(status == UCS_OK || (has_failed && status == UCS_ERR_NO_MEMORY));
    assert_int_equal(end_of(send_one(1)), UCS_OK);
    for (int i = 0; i < TURNS && later_ones == 0; i++)
        turn();
    assert_int_equal(later_ones, 1);
    assert_int_equal(long_ones, status == UCS_OK);
    *is_void |= strstr(last_line, "had no memory to send it") != NULL;
    close_pair();
    assert_int_equal(mem_live(), 0);
    return has_failed;
}

/* The sender is without space after the announcement, or before it. */
static void a_peer_does_not_wait_for_data_that_has_no_memory(void **state)
{
    unsigned space;

    (void)state;
    mbx_log_callback(note, NULL);
    open_for_messages();
    space = fill(UINT32_MAX);
    close_pair();
    assert_true(space > 2);
    for (unsigned refusals = 0; refusals < 3; refusals++) {
        bool is_void = false;

        for (unsigned filled = space - 2; filled <= space; filled++)
            for (uint64_t n = 1; long_message_ends(filled, n, refusals, &is_void); n++)
                continue;
        assert_true(is_void);
    }
    mbx_log_callback(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_say_that_memory_is_short),
        cmocka_unit_test(accesses_say_that_memory_is_short),
        cmocka_unit_test(a_peer_does_not_wait_for_data_that_has_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
