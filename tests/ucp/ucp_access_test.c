/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_access_test.c - accesses to memory of a peer: flushes that wait for its owner, atomics, memory that is unmapped.
 *
 * They are asked of Matchbox's libucp alone; contract_onesided.c asks both libraries.  ucp_keys_test.c has what is refused.
 */
#include "tests/ucp/region.h"

#include <string.h>

#define SIZE 1000

/* Where UCX 1.13 has other values, and calls that it does not survive. */
static void atomics_are_those_of_the_interface(UNUSED void **state)
{
    static const struct {
        ucp_atomic_fetch_op_t op;
        uint64_t want;
    } ops[] = {{UCP_ATOMIC_FETCH_OP_FAND, 30 & 18},
               {UCP_ATOMIC_FETCH_OP_FOR, 30 | 5},
               {UCP_ATOMIC_FETCH_OP_FXOR, 30 ^ 18}};
    static const uint64_t operands[] = {18, 5, 18};
    uint64_t *number = (void *)(memory.bytes + (8 - where(memory.bytes) % 8) % 8), result;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                 .datatype = ucp_dt_make_contig(8)};

    for (size_t i = 0; i < 3; i++) {
        *number = 30;
        assert_int_equal(finish(ucp_atomic_fetch_nb(to, ops[i].op, operands[i], &result, 8,
                                                    where(number), key, NULL)),
                         UCS_OK);
        assert_int_equal(result, 30);
        assert_int_equal(*number, ops[i].want);
    }
    assert_ptr_equal(
        ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_SWAP, &result, 1, where(number), key, &param),
        UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    assert_ptr_equal(
        ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_LAST, &result, 1, where(number), key, &param),
        UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    assert_int_equal(ucp_atomic_post(to, UCP_ATOMIC_POST_OP_LAST, 1, 8, where(number), key),
                     UCS_ERR_INVALID_PARAM);
    assert_ptr_equal(ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_LAST, 1, &result, 8,
                                         where(number), key, NULL),
                     UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
}

/* Progress of the one side alone. */
static void alone(void)
{
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(here);
}

static void a_flush_waits_for_the_owner_of_the_memory(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    unsigned char in[SIZE] = {0};
    void *flushes[2], *get;

    assert_int_equal(ucp_put_nbi(to, data, SIZE, where(memory.bytes), key), UCS_OK);
    memset(data, 0x33, SIZE);
    assert_int_equal(ucp_put_nbi(to, data, MEMORY_SIZE - SIZE, where(memory.bytes + SIZE), key),
                     UCS_INPROGRESS);
    flushes[0] = ucp_ep_flush_nbx(to, &plain);
    flushes[1] = ucp_worker_flush_nbx(here, &plain);
    alone();
    assert_int_equal(ucp_request_check_status(flushes[0]), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushes[1]), UCS_INPROGRESS);
    assert_int_equal(finish(flushes[0]), UCS_OK);
    assert_true(is_all(memory.bytes, SIZE, 0x22));
    assert_true(is_all(memory.bytes + SIZE, SIZE, 0x33));
    assert_int_equal(finish(flushes[1]), UCS_OK);
    get = ucp_get_nb(to, in, SIZE, where(memory.bytes), key, NULL);
    flushes[0] = ucp_ep_flush_nbx(to, &plain);
    alone();
    assert_int_equal(ucp_request_check_status(get), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushes[0]), UCS_INPROGRESS);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(flushes[0]), UCS_OK);
    assert_true(is_all(in, SIZE, 0x22));
}

/* More than the library has on its way at a time: the client's memory is free all the same. */
static void short_puts_that_wait_have_a_copy(UNUSED void **state)
{
    uint64_t value, in;

    for (value = 0; value < 200; value++)
        assert_int_equal(ucp_put_nbi(to, &value, 8, where(memory.bytes + 8 * value), key),
                         UCS_OK);
    assert_int_equal(flush(), UCS_OK);
    for (value = 0; value < 200; value++) {
        memcpy(&in, memory.bytes + 8 * value, 8);
        assert_true(in == value);
    }
}

static void a_close_waits_for_accesses(UNUSED void **state)
{
    void *closing;

    assert_int_equal(ucp_atomic_add32(to, 1, where(memory.bytes) / 8 * 8 + 8, key), UCS_OK);
    closing = ucp_ep_close_nb(to, UCP_EP_CLOSE_MODE_FLUSH);
    alone();
    assert_int_equal(ucp_request_check_status(closing), UCS_INPROGRESS);
    assert_int_equal(finish(closing), UCS_OK);
    assert_false(is_all(memory.bytes, 16, 0x11));
}

static void a_forced_close_cancels_accesses(UNUSED void **state)
{
    void *put = ucp_put_nb(to, data, MEMORY_SIZE, where(memory.bytes), key, NULL);

    assert_true(UCS_PTR_IS_PTR(put));
    assert_null(ucp_ep_close_nb(to, UCP_EP_CLOSE_MODE_FORCE));
    assert_int_equal(finish(put), UCS_ERR_CANCELED);
}

static void requests_of_accesses_are_as_others(UNUSED void **state)
{
    ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    ucp_request_param_t iov = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                               .datatype = UCP_DATATYPE_IOV};
    void *get;

    assert_null(ucp_put_nbx(to, data, 8, where(memory.bytes), key, &now));
    assert_ptr_equal(ucp_put_nbx(to, data, MEMORY_SIZE, where(memory.bytes), key, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_get_nbx(to, data, 8, where(memory.bytes), key, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_put_nbx(to, data, 1, where(memory.bytes), key, &iov),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    get = ucp_get_nb(to, data, 8, where(memory.bytes), key, NULL);
    ucp_request_cancel(here, get);
    ucp_request_release(get); /* before it is complete */
    assert_int_equal(flush(), UCS_OK);
}

static bool unmaps_at_close;

int __real_mbx_close(struct mbx_ep *ep);
int __wrap_mbx_close(struct mbx_ep *ep);

/* As another thread may: when it has unmapped the memory, the memory is its own. */
int __wrap_mbx_close(struct mbx_ep *ep)
{
    if (unmaps_at_close) {
        unmaps_at_close = false;
        ucp_mem_unmap(context, mapped);
        mapped = NULL;
        memset(&memory, 0x44, sizeof memory);
    }
    return __real_mbx_close(ep);
}

static void a_worker_that_is_destroyed_serves_no_region(UNUSED void **state)
{
    assert_int_equal(ucp_put_nbi(to, data, 8, where(memory.bytes), key), UCS_OK);
    alone();
    unmaps_at_close = true;
    ucp_worker_destroy(there);
    there = NULL;
    assert_false(unmaps_at_close);
    assert_true(is_all((unsigned char *)&memory, sizeof memory, 0x44));
}

static ucp_ep_h own;
static unsigned got;

static ucs_status_t reads_within(void *arg, void *bytes, size_t length, ucp_ep_h reply,
                                 unsigned flags)
{
    uint64_t in = 0;

    (void)arg, (void)bytes, (void)length, (void)reply, (void)flags;
    assert_int_equal(ucp_get(own, &in, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(in, 0x1111111111111111);
    got++;
    return UCS_OK;
}

static void a_handler_may_wait_for_an_access(UNUSED void **state)
{
    ucp_address_t *address;
    size_t size;

    got = 0;
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &own), UCS_OK);
    ucp_worker_release_address(there, address);
    assert_int_equal(ucp_worker_set_am_handler(there, 2, reads_within, NULL, 0), UCS_OK);
    (void)finish(ucp_am_send_nb(to, 2, data, 8, ucp_dt_make_contig(1), NULL, 0));
    while (got == 0)
        turn();
}

/* A lock of compare-and-swap, which its owner takes and gives back again and again.  Each time it makes progress twice. */
struct contest {
    uint64_t *lock;
    uint64_t got; /* what here has found */
    void *request;
};

static bool has_won(struct contest *contest)
{
    if (contest->request != NULL &&
        ucp_request_check_status(contest->request) == UCS_INPROGRESS)
        return false;
    if (contest->request != NULL) {
        ucp_request_free(contest->request);
        contest->request = NULL;
        if (contest->got == 0)
            return true;
    }
    contest->got = 7;
    contest->request = ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_CSWAP, 0, &contest->got, 8,
                                           where(contest->lock), key, NULL);
    assert_true(UCS_PTR_IS_PTR(contest->request));
    return false;
}

/* One step of the owner, during which here tries. */
static bool owner_steps(struct contest *contest, ucp_atomic_fetch_op_t op, uint64_t value,
                        uint64_t result)
{
    void *request =
        ucp_atomic_fetch_nb(own, op, value, &result, 8, where(contest->lock), key, NULL);
    bool won = false;

    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(there);
        ucp_worker_progress(here);
        won = won || has_won(contest);
    }
    ucp_request_free(request);
    return won;
}

static void win(struct contest *contest)
{
    *contest->lock = 0;
    for (int i = 0; i < 10000; i++)
        if (owner_steps(contest, UCP_ATOMIC_FETCH_OP_CSWAP, 0, 1) ||
            owner_steps(contest, UCP_ATOMIC_FETCH_OP_SWAP, 0, 0))
            return;
    fail_msg("here never finds the lock free");
}

/* Whichever of the two is first in the first turn. */
static void nobody_comes_too_late_each_time(UNUSED void **state)
{
    struct contest contest = {.lock =
                                  (void *)(memory.bytes + (8 - where(memory.bytes) % 8) % 8)};
    ucp_address_t *address;
    size_t size;

    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &own), UCS_OK);
    ucp_worker_release_address(there, address);
    win(&contest);
    ucp_worker_progress(there);
    win(&contest);
    (void)flush();
}

static void a_flush_that_must_not_wait_is_refused(UNUSED void **state)
{
    const ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};

    assert_int_equal(ucp_put_nbi(to, data, 8, where(memory.bytes), key), UCS_OK);
    assert_ptr_equal(ucp_ep_flush_nbx(to, &now), UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_worker_flush_nbx(here, &now), UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_ep_close_nbx(to, &now), UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_int_equal(flush(), UCS_OK); /* the handle is still open */
    assert_null(ucp_ep_flush_nbx(to, &now));
    assert_null(ucp_worker_flush_nbx(here, &now));
    assert_null(ucp_ep_close_nbx(to, &now));
}

static void memory_that_is_unmapped_is_left_alone(UNUSED void **state)
{
    void *put = ucp_put_nb(to, data, MEMORY_SIZE, where(memory.bytes), key, NULL);

    ucp_mem_unmap(context, mapped);
    mapped = NULL;
    memset(&memory, 0x44, sizeof memory);
    (void)finish(put);
    assert_int_equal(ucp_put_nbi(to, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(flush(), UCS_ERR_REJECTED);
    assert_true(is_all((unsigned char *)&memory, sizeof memory, 0x44));
}

/* Memory is registered with workers that come later.  A worker that goes forgets it. */
static void each_worker_serves_the_regions_of_its_context(UNUSED void **state)
{
    ucp_address_t *address;
    ucp_worker_h third;
    ucp_ep_h other;
    void *closing;
    size_t size;

    assert_int_equal(open_worker(UCS_THREAD_MODE_SINGLE, &third), UCS_OK);
    assert_int_equal(ucp_worker_get_address(third, &address, &size), UCS_OK);
    assert_int_equal(connect_to(here, address, false, NULL, &other), UCS_OK);
    ucp_worker_release_address(third, address);
    assert_int_equal(ucp_put_nbi(other, data, 8, where(memory.bytes), key), UCS_OK);
    closing = ucp_ep_close_nb(other, UCP_EP_CLOSE_MODE_FLUSH);
    while (ucp_request_check_status(closing) == UCS_INPROGRESS) {
        ucp_worker_progress(third);
        turn();
    }
    ucp_request_free(closing);
    assert_true(is_all(memory.bytes, 8, 0x22));
    ucp_worker_destroy(third);
    ucp_mem_unmap(context, map(data, SIZE, ANY_PROT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(atomics_are_those_of_the_interface, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_flush_waits_for_the_owner_of_the_memory, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(short_puts_that_wait_have_a_copy, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_close_waits_for_accesses, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(a_forced_close_cancels_accesses, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(requests_of_accesses_are_as_others, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_worker_that_is_destroyed_serves_no_region,
                                        open_memory, close_memory),
        cmocka_unit_test_setup_teardown(a_handler_may_wait_for_an_access, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(nobody_comes_too_late_each_time, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_flush_that_must_not_wait_is_refused, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(memory_that_is_unmapped_is_left_alone, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(each_worker_serves_the_regions_of_its_context,
                                        open_memory, close_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
