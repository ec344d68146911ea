/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_wait_test.c - what wakes who sleeps over a worker of libucp, and the memory of requests that is not from the pool.
 *
 * They are asked of Matchbox's libucp alone; contract_wait.c asks both libraries.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/patience.h"
#include "base/sys.h"
#include "base/unit.h"
#include "ucp/door.h"

#define SIZE       1000
#define ROUNDS     200
#define SETTLED_MS 200

static ucp_context_h context;
static ucp_worker_h here, there;
static ucp_ep_h to;

/* Refusals are logged. */
static void hush(void *user, enum mbx_log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

static ucs_status_t connect_to(ucp_worker_h from, ucp_worker_h worker, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    ucs_status_t status;
    size_t size;

    status = ucp_worker_get_address(worker, &address, &size);
    if (status != UCS_OK)
        return status;
    params.address = address;
    status = ucp_ep_create(from, &params, ep);
    ucp_worker_release_address(worker, address);
    return status;
}

static const ucp_worker_params_t of_threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                               .thread_mode = UCS_THREAD_MODE_MULTI};

static int open_both(UNUSED void **state)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features =
                                     UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};

    mbx_log_callback(hush, NULL);
    sys_trust_wakes(PATIENCE_NS); /* no sleep ends by itself */
    if (ucp_init(&params, NULL, &context) != UCS_OK ||
        ucp_worker_create(context, &of_threads, &here) != UCS_OK ||
        ucp_worker_create(context, &of_threads, &there) != UCS_OK ||
        connect_to(here, there, &to) != UCS_OK)
        return -1;
    return 0;
}

static int close_both(UNUSED void **state)
{
    ucp_worker_destroy(here);
    ucp_worker_destroy(there);
    ucp_cleanup(context);
    mbx_log_callback(NULL, NULL);
    sys_trust_wakes(0);
    return mem_live() == 0 ? 0 : -1;
}

static void send_to_there(ucp_tag_t tag)
{
    static char bytes[SIZE];
    void *request = ucp_tag_send_nbx(to, bytes, SIZE, tag, &(ucp_request_param_t){0});

    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

/* ---- operations ---- */

static void rest(ucp_worker_h worker)
{
    while (ucp_worker_arm(worker) != UCS_OK)
        ucp_worker_progress(worker);
}

/* Nothing will arrive for it. */
static void an_operation_makes_the_descriptor_readable(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    struct pollfd one = {.events = POLLIN};
    char bytes[SIZE];
    void *request;

    assert_int_equal(ucp_worker_get_efd(there, &one.fd), UCS_OK);
    for (int i = 0; i < 3; i++) {
        rest(there);
        assert_int_equal(poll(&one, 1, 0), 0);
        request = ucp_tag_recv_nbx(there, bytes, SIZE, 1, UINT64_MAX, &plain);
        assert_true(UCS_PTR_IS_PTR(request));
        assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
        ucp_request_cancel(there, request);
        ucp_request_free(request);
    }
}

/* It may be readable without a reason. */
static void rest_until_quiet(struct pollfd *one)
{
    do {
        rest(there);
    } while (poll(one, 1, SETTLED_MS) == 1);
}

/* Another thread may wait for the receive, or be about to. */
static void a_cancel_makes_the_descriptor_readable(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    struct pollfd one = {.events = POLLIN};
    char bytes[SIZE];
    void *request;

    assert_int_equal(ucp_worker_get_efd(there, &one.fd), UCS_OK);
    request = ucp_tag_recv_nbx(there, bytes, SIZE, 1, UINT64_MAX, &plain);
    rest_until_quiet(&one);
    ucp_request_cancel(there, request);
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_CANCELED);
    assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
    assert_int_equal(ucp_worker_arm(there), UCS_ERR_BUSY);
    ucp_request_free(request);
    rest(there);
}

static void *kept;

static ucs_status_t keep(void *arg, const void *header, size_t header_length, void *data,
                         size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)length, (void)param;
    kept = data;
    return UCS_INPROGRESS;
}

/* The words of the next active message from here to there, with its number (ucp/am.h). */
static uint64_t numbered(uint64_t words)
{
    return words | (uint64_t)here->peers[to->peer].sent++ << 16;
}

/* The data of an announced message, which has not arrived. */
static void data_that_is_dropped_makes_the_descriptor_readable(UNUSED void **state)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .cb = keep};
    const struct ucpx_long parts = {.number = 1, .size = SIZE};
    struct pollfd one = {.events = POLLIN};

    kept = NULL;
    assert_int_equal(ucp_worker_set_am_recv_handler(there, &handler), UCS_OK);
    assert_int_equal(ucp_worker_get_efd(there, &one.fd), UCS_OK);
    assert_int_equal(mbx_inject(here->mbx, to->peer, UCPX_ID_MESSAGES, UCPX_AM_LONG, &parts,
                                sizeof parts, numbered((uint64_t)sizeof parts << 32)),
                     0);
    while (kept == NULL)
        ucp_worker_progress(there);
    rest_until_quiet(&one);
    ucp_am_data_release(there, kept);
    assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
}

static unsigned handled;

static ucs_status_t count(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags)
{
    (void)arg, (void)data, (void)length, (void)reply, (void)flags;
    handled++;
    return UCS_OK;
}

static void inject(uint32_t id, uint64_t tag, uint64_t words, const void *bytes, size_t size)
{
    int err;

    if (id == UCPX_ID_MESSAGES)
        words = numbered(words);
    while ((err = mbx_inject(here->mbx, to->peer, id, tag, bytes, size, words)) == -ENOMEM) {
        ucp_worker_progress(here);
        ucp_worker_progress(there);
    }
    assert_int_equal(err, 0);
}

#define CROWD 300 /* more than may wait, and than receives are posted */

/* A long message without its data, and short ones that have to wait for it. */
static void make_a_crowd(void)
{
    const struct ucpx_long parts = {.number = 1, .size = SIZE};

    handled = 0;
    assert_int_equal(ucp_worker_set_am_handler(there, 0, count, NULL, UCP_AM_FLAG_WHOLE_MSG),
                     UCS_OK);
    inject(UCPX_ID_MESSAGES, UCPX_AM_LONG, (uint64_t)sizeof parts << 32, &parts, sizeof parts);
    for (int i = 0; i < CROWD; i++)
        inject(UCPX_ID_MESSAGES, 0, UINT64_C(10) << 32, &parts, 10);
    while (there->am.crowds == 0 || mbx_idle(there->mbx) == 0 || mbx_idle(here->mbx) == 0) {
        ucp_worker_progress(here);
        ucp_worker_progress(there);
    }
}

/* Nothing can be done for its messages before the data comes. */
static void who_waits_for_a_crowd_sleeps(UNUSED void **state)
{
    static const char bytes[SIZE];
    struct pollfd one = {.events = POLLIN};
    ucp_worker_h third;
    ucp_ep_h from_third, to_third;

    assert_int_equal(ucp_worker_create(context, &of_threads, &third), UCS_OK);
    assert_int_equal(connect_to(third, there, &from_third), UCS_OK);
    assert_int_equal(connect_to(there, third, &to_third), UCS_OK);
    assert_int_equal(ucp_worker_get_efd(there, &one.fd), UCS_OK);
    make_a_crowd();
    for (unsigned i = 1; i <= 3; i++) {
        rest_until_quiet(&one);
        assert_int_equal(handled, i - 1);
        assert_null(ucp_am_send_nb(from_third, 0, "x", 1, ucp_dt_make_contig(1), NULL, 0));
        while (handled < i) { /* the descriptor says of each step */
            assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
            rest(there);
            ucp_worker_progress(third);
        }
    }
    rest_until_quiet(&one);
    inject(UCPX_ID_DATA, 1, 0, bytes, SIZE);
    assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
    while (handled < 3 + 1 + CROWD) {
        ucp_worker_progress(here);
        ucp_worker_progress(there);
    }
    assert_int_equal(there->am.directed, 0);
    rest(there);
    ucp_worker_destroy(third);
}

/* A callback that is due is no reason to sleep. */
static void what_is_due_is_not_slept_over(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    char bytes[SIZE];
    void *request;
    int fd;

    assert_int_equal(ucp_worker_get_efd(there, &fd), UCS_OK);
    request = ucp_tag_recv_nbx(there, bytes, SIZE, 2, UINT64_MAX, &plain);
    send_to_there(2);
    while (list_is_empty(&there->ready)) {
        ucp_worker_wait_mem(here, bytes);
        ucp_worker_wait_mem(there, bytes);
    }
    assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ucp_worker_arm(there), UCS_ERR_BUSY);
    assert_int_equal(ucp_worker_wait(there), UCS_OK);
    assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
    ucp_worker_progress(there);
    assert_int_equal(ucp_request_check_status(request), UCS_OK);
    ucp_request_free(request);
}

/* ---- threads ---- */

static atomic_int received;

static void *sleeper(void *arg)
{
    ucp_request_param_t plain = {0};
    char bytes[SIZE];

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        void *request = ucp_tag_recv_nbx(there, bytes, SIZE, 3, UINT64_MAX, &plain);

        while (UCS_PTR_IS_PTR(request) && !ucp_request_is_completed(request))
            if (ucp_worker_progress(there) == 0)
                ucp_worker_wait(there);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
        received++;
    }
    return NULL;
}

/* While one thread sleeps another one uses the worker, and may sleep as well. */
static void a_thread_that_sleeps_lets_others_in(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    char bytes[SIZE];
    pthread_t thread;

    atomic_store(&received, 0);
    assert_int_equal(pthread_create(&thread, NULL, sleeper, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *request = ucp_tag_recv_nbx(there, bytes, SIZE, 4, UINT64_MAX, &plain);

        ucp_request_cancel(there, request);
        ucp_request_free(request);
        send_to_there(3);
        while (received <= i) {
            ucp_worker_progress(here);
            if (i % 2 == 0)
                ucp_worker_signal(there);
            else
                ucp_worker_progress(there); /* reports what the other thread waits for */
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
}

static atomic_bool is_called, may_return;

static void stays(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                  void *user_data)
{
    (void)request, (void)status, (void)info, (void)user_data;
    atomic_store(&is_called, true);
    while (!atomic_load(&may_return))
        sched_yield();
}

static void *reporter(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_called))
        ucp_worker_progress(there);
    return NULL;
}

/* Two messages have arrived, and the callback of the first one runs in another thread. */
static void what_another_thread_reports_is_not_slept_over(UNUSED void **state)
{
    ucp_request_param_t plain = {0},
                        calls = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv = stays};
    char bytes[2][SIZE];
    void *requests[2];
    pthread_t thread;
    int fd;

    assert_int_equal(ucp_worker_get_efd(there, &fd), UCS_OK);
    atomic_store(&is_called, false);
    atomic_store(&may_return, false);
    requests[0] = ucp_tag_recv_nbx(there, bytes[0], SIZE, 5, UINT64_MAX, &calls);
    requests[1] = ucp_tag_recv_nbx(there, bytes[1], SIZE, 6, UINT64_MAX, &plain);
    send_to_there(5);
    send_to_there(6);
    while (list_is_empty(&there->ready) || list_first(&there->ready) == there->ready.prev) {
        ucp_worker_wait_mem(here, bytes);
        ucp_worker_wait_mem(there, bytes);
    }
    assert_int_equal(pthread_create(&thread, NULL, reporter, NULL), 0);
    while (!atomic_load(&is_called))
        sched_yield();
    assert_int_equal(ucp_request_check_status(requests[1]), UCS_INPROGRESS);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ucp_worker_arm(there), UCS_ERR_BUSY);
    assert_int_equal(ucp_worker_wait(there), UCS_OK);
    atomic_store(&may_return, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ucp_request_check_status(requests[i]), UCS_OK);
        ucp_request_free(requests[i]);
    }
    rest(there);
}

static void *arm(void *status)
{
    *(ucs_status_t *)status = ucp_worker_arm(there);
    return NULL;
}

/* Each may have looked at its request before. */
static void each_thread_hears_of_a_report(UNUSED void **state)
{
    ucp_request_param_t plain = {0};
    ucs_status_t statuses[3];
    pthread_t threads[3];
    char bytes[SIZE];
    void *request;
    int fd;

    assert_int_equal(ucp_worker_get_efd(there, &fd), UCS_OK);
    request = ucp_tag_recv_nbx(there, bytes, SIZE, 7, UINT64_MAX, &plain);
    send_to_there(7);
    while (!ucp_request_is_completed(request)) {
        ucp_worker_progress(here);
        ucp_worker_progress(there);
    }
    while (ucp_worker_progress(here) + ucp_worker_progress(there) != 0)
        ;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, arm, &statuses[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(statuses[i], UCS_ERR_BUSY);
    }
    rest(there);
    ucp_request_free(request);
}

/* ---- memory of requests ---- */

static void the_client_s_memory_tells_of_a_refusal(UNUSED void **state)
{
    _Alignas(16) unsigned char memory[UCPX_RECORD_SIZE + 16];
    void *request = memory + UCPX_RECORD_SIZE;
    ucp_request_param_t device = {.op_attr_mask =
                                      UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                  .request = request,
                                  .memory_type = UCS_MEMORY_TYPE_CUDA};
    ucp_request_param_t plain = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST, .request = request};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    char byte;

    memset(memory, 0xee, sizeof memory);
    assert_ptr_equal(ucp_tag_recv_nbx(there, &byte, 1, 5, UINT64_MAX, &device),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_UNSUPPORTED);
    send_to_there(5);
    while ((message = ucp_tag_probe_nb(there, 5, UINT64_MAX, 0, &info)) == NULL)
        ucp_worker_progress(here);
    memset(memory, 0xee, sizeof memory);
    assert_ptr_equal(ucp_tag_msg_recv_nbx(there, &byte, 1, message, &plain),
                     UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_INVALID_PARAM);
    memset(memory, 0xee, sizeof memory);
    assert_ptr_equal(ucp_tag_msg_recv_nbx(there, &byte, 1, message, &device),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_UNSUPPORTED);
}

/* UCX 1.13 returns no memory. */
static void memory_of_the_library_is_used_again(UNUSED void **state)
{
    void *request = ucp_request_alloc(there);
    ucp_request_param_t plain = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST, .request = request};
    char bytes[SIZE];

    assert_non_null(request);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(ucp_tag_recv_nbx(there, bytes, SIZE, 6, UINT64_MAX, &plain), request);
        send_to_there(6);
        while (!ucp_request_is_completed(request)) {
            ucp_worker_progress(here);
            ucp_worker_progress(there);
        }
        assert_int_equal(ucp_request_check_status(request), UCS_OK);
    }
    ucp_request_free(request);
    assert_int_equal(there->pool.live, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_operation_makes_the_descriptor_readable),
        TEST(data_that_is_dropped_makes_the_descriptor_readable),
        TEST(a_cancel_makes_the_descriptor_readable),
        TEST(who_waits_for_a_crowd_sleeps),
        TEST(each_thread_hears_of_a_report),
        TEST(what_is_due_is_not_slept_over),
        TEST(a_thread_that_sleeps_lets_others_in),
        TEST(what_another_thread_reports_is_not_slept_over),
        TEST(the_client_s_memory_tells_of_a_refusal),
        TEST(memory_of_the_library_is_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
