/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_threads_test.c - threads that share a worker, its requests, or a context.
 */
#include "tests/ucp/region.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SIZE   1000
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

static void threads_share_workers(UNUSED void **state)
{
    pthread_t threads[4];

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
static void *receive_in(pthread_t *thread, void *own)
{
    static char in[10], out[10];
    ucp_request_param_t send = {0}, recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL |
                                                            UCP_OP_ATTR_FIELD_CALLBACK |
                                                            UCP_OP_ATTR_FIELD_USER_DATA,
                                            .cb.recv = while_given_up,
                                            .user_data = &reported,
                                            .request = own};
    void *request;

    atomic_store(&reported, NULL);
    atomic_store(&is_given_up, false);
    if (own != NULL)
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

static void a_request_is_not_used_again_while_its_callback_runs(UNUSED void **state)
{
    ucp_request_param_t recv = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    void *request, *others[2];
    pthread_t thread;
    char in;

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
static void a_client_s_memory_is_its_own_while_the_callback_runs(UNUSED void **state)
{
    static _Alignas(16) unsigned char own[UCPX_RECORD_SIZE], noise[sizeof own];
    pthread_t thread;

    memset(noise, 0xff, sizeof noise);
    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    receive_in(&thread, own + sizeof own);
    memcpy(own, noise, sizeof own);
    atomic_store(&is_given_up, true);
    pthread_join(thread, NULL);
    assert_memory_equal(own, noise, sizeof own);
    close_pair();
}

/* Each thread adds to one counter, and has a slot and a region of its own. */
static void *access_memory(void *arg)
{
    uint64_t id = (uintptr_t)arg, in = 0, *slots = (void *)(memory.bytes + 64);
    uint64_t counter = where(slots), slot = where(slots + id);
    unsigned char own_bytes[SIZE];

    for (uint64_t out = 1; out <= ROUNDS; out++) {
        ucp_mem_h mem = map(own_bytes, sizeof own_bytes, ANY_PROT);

        assert_int_equal(ucp_atomic_add64(to, 1, counter, key), UCS_OK);
        assert_int_equal(ucp_put_nbi(to, &out, sizeof out, slot, key), UCS_OK);
        assert_int_equal(finish(ucp_get_nb(to, &in, sizeof in, slot, key, NULL)), UCS_OK);
        assert_true(in == out);
        ucp_mem_unmap(context, mem);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[4];

    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void threads_share_accesses(UNUSED void **state)
{
    uint64_t *slots = (void *)(memory.bytes + 64);

    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    memset(&memory, 0, sizeof memory);
    map_all();
    run_threads(access_memory);
    assert_int_equal(flush(), UCS_OK);
    assert_int_equal(slots[0], 4 * ROUNDS);
    ucp_rkey_destroy(key);
    ucp_mem_unmap(context, mapped);
    close_pair();
}

/* A worker of its own for each thread: each maps memory, which all workers serve. */
static void *map_memory(void *arg)
{
    unsigned char own_bytes[SIZE];
    ucp_worker_h worker;

    (void)arg;
    assert_int_equal(open_worker(UCS_THREAD_MODE_SINGLE, &worker), UCS_OK);
    for (int i = 0; i < ROUNDS; i++) {
        ucp_mem_h mem = map(own_bytes, sizeof own_bytes, ANY_PROT);

        ucp_worker_progress(worker);
        ucp_mem_unmap(context, mem);
    }
    ucp_worker_destroy(worker);
    return NULL;
}

static void open_shared_context(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                               UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                 .features = UCP_FEATURE_RMA,
                                 .mt_workers_shared = 1};

    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
}

static void threads_share_a_context(UNUSED void **state)
{
    open_shared_context();
    run_threads(map_memory);
    ucp_cleanup(context);
}

/* ---- a thread that waits for a peer ---- */

#define LONG ((size_t)32 << 20)
#define SOME 10 /* tries that a peer without progress lets fail */

static unsigned char far_bytes[LONG], near_bytes[LONG];
static atomic_uint tries;
static atomic_bool is_unmapped;

int __real_mbx_try_deregister(struct mbx_ep *ep, uint64_t number);
int __wrap_mbx_try_deregister(struct mbx_ep *ep, uint64_t number);

int __wrap_mbx_try_deregister(struct mbx_ep *ep, uint64_t number)
{
    atomic_fetch_add(&tries, 1);
    return __real_mbx_try_deregister(ep, number);
}

static void *unmap(void *arg)
{
    ucp_mem_unmap(context, arg);
    atomic_store(&is_unmapped, true);
    return NULL;
}

/* Over TCP, where the processor of the peer moves the bytes.  False: there is no TCP here. */
static bool open_far_pair(void)
{
    ucp_address_t *address;
    bool is_open;
    size_t size;

    setenv("MBX_TRANSPORT", "ofi", 1);
    setenv("MBX_OFI_PROVIDER", "tcp;ofi_rxm", 1);
    here = there = NULL;
    open_shared_context();
    is_open = open_worker(UCS_THREAD_MODE_SINGLE, &here) == UCS_OK &&
              open_worker(UCS_THREAD_MODE_SINGLE, &there) == UCS_OK;
    unsetenv("MBX_OFI_PROVIDER");
    unsetenv("MBX_TRANSPORT");
    if (!is_open)
        return false;
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(here, address, false, NULL, &to), UCS_OK);
    ucp_worker_release_address(there, address);
    return true;
}

/* The peer of the access needs the context, and only then makes progress. */
static void unmap_during_a_get(void)
{
    ucp_mem_h mem = map(far_bytes, LONG, ANY_PROT);
    unsigned char bytes[KEY_SIZE];
    pthread_t thread;
    void *get;

    pack_key(mem, bytes);
    key = key_of(bytes);
    assert_int_equal(finish(ucp_get_nb(to, near_bytes, 8, where(far_bytes), key, NULL)),
                     UCS_OK);
    get = ucp_get_nb(to, near_bytes, LONG, where(far_bytes), key, NULL);
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(there);
    atomic_store(&tries, 0);
    atomic_store(&is_unmapped, false);
    assert_int_equal(pthread_create(&thread, NULL, unmap, mem), 0);
    while (atomic_load(&tries) < SOME && !atomic_load(&is_unmapped))
        sched_yield();
    ucp_mem_unmap(context, map(bytes, sizeof bytes, ANY_PROT));
    while (!atomic_load(&is_unmapped))
        turn();
    pthread_join(thread, NULL);
    (void)finish(get);
    ucp_rkey_destroy(key);
}

static void a_thread_that_unmaps_waits_without_a_lock(UNUSED void **state)
{
    bool is_open;

    mbx_log_callback(note, NULL);
    is_open = open_far_pair();
    if (is_open)
        unmap_during_a_get();
    close_pair();
    mbx_log_callback(NULL, NULL);
    if (!is_open)
        skip();
}

#define MESSAGES 50000

static atomic_ulong handled;

/* The messages come in order, and none is missing. */
static ucs_status_t handle_next(void *arg, const void *header, size_t header_length,
                                void *bytes, size_t length, const ucp_am_recv_param_t *param)
{
    unsigned long number;

    (void)arg, (void)header, (void)header_length, (void)param;
    assert_int_equal(length, SIZE);
    memcpy(&number, bytes, sizeof number);
    assert_int_equal(number, atomic_fetch_add(&handled, 1));
    return UCS_OK;
}

static void *handle_all(void *arg)
{
    (void)arg;
    while (atomic_load(&handled) < MESSAGES)
        ucp_worker_progress(there);
    return NULL;
}

/* The receiver makes room in the ring between the first try of a send and the second. */
static void no_active_message_is_lost_at_a_full_ring(UNUSED void **state)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .cb = handle_next};
    const ucp_request_param_t param = {0};
    char bytes[SIZE] = {0};
    pthread_t thread;

    mbx_log_callback(note, NULL);
    lines = 0;
    assert_int_equal(open_pair(UCS_THREAD_MODE_SINGLE), UCS_OK);
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &handler), UCS_OK);
    assert_int_equal(pthread_create(&thread, NULL, handle_all, NULL), 0);
    for (unsigned long i = 0; i < MESSAGES && lines == 0; i++) {
        void *request;

        memcpy(bytes, &i, sizeof i);
        request = ucp_am_send_nbx(to, 0, NULL, 0, bytes, sizeof bytes, &param);
        while (UCS_PTR_IS_PTR(request) && !ucp_request_is_completed(request))
            ucp_worker_progress(here);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
    while (atomic_load(&handled) < MESSAGES && lines == 0)
        ucp_worker_progress(here);
    if (lines != 0)
        print_error("%s\n", last_line);
    assert_int_equal(lines, 0);
    pthread_join(thread, NULL);
    close_pair();
    mbx_log_callback(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_workers),
        cmocka_unit_test(a_request_is_not_used_again_while_its_callback_runs),
        cmocka_unit_test(a_client_s_memory_is_its_own_while_the_callback_runs),
        cmocka_unit_test(threads_share_accesses),
        cmocka_unit_test(threads_share_a_context),
        cmocka_unit_test(a_thread_that_unmaps_waits_without_a_lock),
        cmocka_unit_test(no_active_message_is_lost_at_a_full_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
