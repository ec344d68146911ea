/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_no_memory_test.c - each allocation fails once: the call says so, and nothing stays allocated.
 */
#include "tests/ucp/region.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_say_that_memory_is_short),
        cmocka_unit_test(accesses_say_that_memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
