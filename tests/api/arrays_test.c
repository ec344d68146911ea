/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrays_test.c - waiting for an array of requests: for all, for some, for any; entries by
 * index.
 *
 * In the tests that block, the other endpoint runs on a thread of its own, and sends only the
 * numbers that it is given.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"

#define CONTEXT 31
#define COUNT   8
#define FOREVER INT64_C(-1)

/* Endpoint 1 has a receive for each of these numbers; endpoint 0 sends them. */
struct receives {
    struct cluster cl;
    mbx_request requests[COUNT];
    int got[COUNT];
    int users[COUNT]; /* only their addresses */
};

static void post_one(struct receives *r, int i, size_t size)
{
    const struct mbx_options options = {.user = &r->users[i]};

    assert_int_equal(mbx_recv(r->cl.eps[1], 0, CONTEXT, (uint64_t)i, 0, &r->got[i], size,
                              &options, &r->requests[i]),
                     0);
}

/* Every third slot of the array has no request. */
static bool has_request(int i)
{
    return i % 3 != 2;
}

static int open_receives(struct receives *r, const struct configuration *config,
                         const char *const *more)
{
    int posted = 0;

    *r = (struct receives){.requests = {0}};
    cluster_open(&r->cl, config, 2, more);
    for (int i = 0; i < COUNT; i++)
        if (has_request(i)) {
            post_one(r, i, sizeof r->got[i]);
            posted++;
        }
    return posted;
}

static void send_number(struct receives *r, int i)
{
    assert_int_equal(mbx_inject(r->cl.eps[0], 1, CONTEXT, (uint64_t)i, &i, sizeof i, 0), 0);
}

static void is_entry_of(const struct receives *r, int i, const struct mbx_completion *done)
{
    assert_int_equal(done->error, 0);
    assert_int_equal(done->kind, MBX_RECVS);
    assert_ptr_equal(done->user, &r->users[i]);
    assert_int_equal(done->status.tag, i);
    assert_int_equal(r->got[i], i);
    assert_int_equal(r->requests[i], 0);
}

/* ---- calls that only look ---- */

static void all_are_taken_by_index(void **state)
{
    struct mbx_completion done[COUNT];
    struct receives r;

    open_receives(&r, *state, NULL);
    memset(done, 0xaa, sizeof done);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, COUNT, 0, done), -ETIMEDOUT);
    for (int i = COUNT - 1; i >= 0; i--)
        if (has_request(i))
            send_number(&r, i);
    cluster_settle(&r.cl);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, COUNT, 0, done), 0);
    for (int i = 0; i < COUNT; i++) {
        if (has_request(i))
            is_entry_of(&r, i, &done[i]);
        else
            assert_int_equal(done[i].error, (int)0xaaaaaaaa);
    }
    assert_int_equal(mbx_poll(r.cl.eps[1], MBX_RECVS, done, 1), 0);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, COUNT, FOREVER, NULL), 0);
    cluster_close(&r.cl);
}

/* A call whose time is up has taken the requests that were complete. */
static void complete_requests_are_taken_when_the_time_is_up(void **state)
{
    const int64_t timeouts[] = {0, 100 * (int64_t)CLOCK_US};

    for (size_t t = 0; t < ARRAY_COUNT(timeouts); t++) {
        struct mbx_completion done[COUNT];
        struct receives r;

        open_receives(&r, *state, NULL);
        send_number(&r, 1);
        send_number(&r, 4);
        cluster_settle(&r.cl);
        assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, COUNT, timeouts[t], done),
                         -ETIMEDOUT);
        for (int i = 0; i < COUNT; i++) {
            if (i == 1 || i == 4)
                is_entry_of(&r, i, &done[i]);
            else
                assert_int_equal(r.requests[i] != 0, has_request(i));
        }
        cluster_close(&r.cl);
    }
}

static void some_are_all_that_are_complete(void **state)
{
    struct mbx_completion done[COUNT];
    struct receives r;
    int indices[COUNT];

    open_receives(&r, *state, NULL);
    assert_int_equal(mbx_wait_some(r.cl.eps[1], r.requests, COUNT, 0, indices, done),
                     -ETIMEDOUT);
    send_number(&r, 6);
    send_number(&r, 3);
    send_number(&r, 0);
    cluster_settle(&r.cl);
    assert_int_equal(mbx_wait_some(r.cl.eps[1], r.requests, COUNT, 0, indices, done), 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(indices[k], 3 * k);
        is_entry_of(&r, indices[k], &done[k]);
    }
    send_number(&r, 7);
    cluster_settle(&r.cl);
    assert_int_equal(mbx_wait_some(r.cl.eps[1], r.requests, COUNT, 0, indices, NULL), 1);
    assert_int_equal(indices[0], 7);
    assert_int_equal(r.requests[7], 0);
    cluster_close(&r.cl);
}

static void any_is_the_first_in_the_array(void **state)
{
    struct mbx_completion done;
    struct receives r;
    int index = 77;

    open_receives(&r, *state, NULL);
    assert_int_equal(mbx_wait_any(r.cl.eps[1], r.requests, COUNT, 0, &index, &done),
                     -ETIMEDOUT);
    assert_int_equal(index, 77);
    send_number(&r, 6);
    send_number(&r, 4);
    cluster_settle(&r.cl);
    assert_int_equal(mbx_wait_any(r.cl.eps[1], r.requests, COUNT, 0, &index, &done), 1);
    assert_int_equal(index, 4);
    is_entry_of(&r, index, &done);
    assert_int_equal(mbx_wait_any(r.cl.eps[1], r.requests, COUNT, 0, &index, NULL), 1);
    assert_int_equal(index, 6);
    assert_int_equal(mbx_wait_any(r.cl.eps[1], r.requests, COUNT, 0, &index, NULL), -ETIMEDOUT);
    cluster_close(&r.cl);
}

/* The call returns the number of errors, and each error is in the entry of its request. */
static void errors_are_counted(void **state)
{
    struct mbx_completion done[4];
    struct receives r;
    int indices[4];

    r = (struct receives){.requests = {0}};
    cluster_open(&r.cl, *state, 2, NULL);
    post_one(&r, 0, 1); /* too small */
    post_one(&r, 1, sizeof r.got[1]);
    post_one(&r, 2, sizeof r.got[2]);
    r.requests[3] = r.requests[1]; /* taken by the call before it reaches this one */
    assert_int_equal(mbx_cancel(r.cl.eps[1], r.requests[2]), 0);
    send_number(&r, 0);
    send_number(&r, 1);
    cluster_settle(&r.cl);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, 4, FOREVER, done), 3);
    assert_int_equal(done[0].error, -EMSGSIZE);
    is_entry_of(&r, 1, &done[1]);
    assert_int_equal(done[2].error, -ECANCELED);
    assert_int_equal(done[3].error, -ESTALE);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r.requests[i], 0);
    r.requests[2] = done[2].request;
    assert_int_equal(mbx_wait_some(r.cl.eps[1], r.requests, 4, FOREVER, indices, done), 1);
    assert_int_equal(indices[0], 2);
    assert_int_equal(done[0].error, -ESTALE);
    assert_int_equal(r.requests[2], 0);
    cluster_close(&r.cl);
}

static void wrong_arguments(void **state)
{
    mbx_request none[2] = {0, 0};
    int index = 77, indices[2];
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_wait_all(cl.eps[0], none, -1, 0, NULL), -EINVAL);
    assert_int_equal(mbx_wait_all(cl.eps[0], NULL, 1, 0, NULL), -EINVAL);
    assert_int_equal(mbx_wait_some(cl.eps[0], none, -1, 0, indices, NULL), -EINVAL);
    assert_int_equal(mbx_wait_some(cl.eps[0], NULL, 1, 0, indices, NULL), -EINVAL);
    assert_int_equal(mbx_wait_some(cl.eps[0], none, 1, 0, NULL, NULL), -EINVAL);
    assert_int_equal(mbx_wait_any(cl.eps[0], none, -1, 0, &index, NULL), -EINVAL);
    assert_int_equal(mbx_wait_any(cl.eps[0], NULL, 1, 0, &index, NULL), -EINVAL);
    assert_int_equal(mbx_wait_any(cl.eps[0], none, 1, 0, NULL, NULL), -EINVAL);
    /* nothing to wait for */
    assert_int_equal(mbx_wait_all(cl.eps[0], NULL, 0, FOREVER, NULL), 0);
    assert_int_equal(mbx_wait_all(cl.eps[0], none, 2, FOREVER, NULL), 0);
    assert_int_equal(mbx_wait_some(cl.eps[0], NULL, 0, FOREVER, NULL, NULL), 0);
    assert_int_equal(mbx_wait_some(cl.eps[0], none, 2, FOREVER, indices, NULL), 0);
    assert_int_equal(mbx_wait_any(cl.eps[0], none, 2, FOREVER, &index, NULL), 0);
    assert_int_equal(index, 77);
    cluster_close(&cl);
}

/* ---- calls that block ---- */

/* Endpoint 0 on its thread: it sends each number that it receives, and ends when it receives
 * COUNT. */
static void *send_as_told(void *arg)
{
    struct receives *r = arg;
    struct mbx_completion done;
    mbx_request request;
    int number = -1;

    while (number != COUNT) {
        if (mbx_recv(r->cl.eps[0], 1, CONTEXT, 0, 0, &number, sizeof number, NULL, &request) !=
                0 ||
            mbx_wait(r->cl.eps[0], request, FOREVER, &done) != 0)
            return arg; /* not NULL: it failed */
        if (number != COUNT && mbx_inject(r->cl.eps[0], 1, CONTEXT, (uint64_t)number, &number,
                                          sizeof number, 0) != 0)
            return arg;
    }
    return NULL;
}

static pthread_t start_sender(struct receives *r)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, send_as_told, r), 0);
    return thread;
}

static void tell_sender(struct receives *r, int number)
{
    assert_int_equal(mbx_inject(r->cl.eps[1], 0, CONTEXT, 0, &number, sizeof number, 0), 0);
}

static void end_sender(struct receives *r, pthread_t thread)
{
    void *error;

    tell_sender(r, COUNT);
    while (pthread_tryjoin_np(thread, &error) == EBUSY)
        mbx_progress(r->cl.eps[1]);
    assert_null(error);
}

static const int order[] = {4, 0, 7, 3, 6, 1};

static void a_wait_for_any_returns_with_each(void **state)
{
    struct mbx_completion done;
    struct receives r;
    pthread_t thread;
    int index;

    if (config_is_loop(*state))
        return; /* one thread uses all endpoints */
    open_receives(&r, *state, NULL);
    thread = start_sender(&r);
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        tell_sender(&r, order[i]);
        if (i % 2 == 0) {
            assert_int_equal(
                mbx_wait_any(r.cl.eps[1], r.requests, COUNT, FOREVER, &index, &done), 1);
        } else {
            assert_int_equal(
                mbx_wait_some(r.cl.eps[1], r.requests, COUNT, FOREVER, &index, &done), 1);
        }
        assert_int_equal(index, order[i]);
        is_entry_of(&r, index, &done);
    }
    end_sender(&r, thread);
    cluster_close(&r.cl);
}

static void a_wait_for_all_returns_with_the_last(void **state)
{
    struct mbx_completion done[COUNT];
    struct receives r;
    pthread_t thread;

    if (config_is_loop(*state))
        return;
    open_receives(&r, *state, NULL);
    thread = start_sender(&r);
    for (size_t i = 0; i < ARRAY_COUNT(order); i++)
        tell_sender(&r, order[i]);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests, COUNT, FOREVER, done), 0);
    for (size_t i = 0; i < ARRAY_COUNT(order); i++)
        is_entry_of(&r, order[i], &done[order[i]]);
    end_sender(&r, thread);
    cluster_close(&r.cl);
}

/* ---- while another thread polls ---- */

struct single {
    struct mbx_ep *ep;
    mbx_request request;
    int result;
};

static void *wait_for_one(void *arg)
{
    struct single *s = arg;

    s->result = mbx_wait(s->ep, s->request, FOREVER, NULL);
    return NULL;
}

/* Another thread waits for receive 0 in the same endpoint, and polls.  It notifies the call
 * that waits for an array. */
static void a_wait_among_threads_is_told(void **state)
{
    static const char *const many[] = {"THREADS=many", NULL};
    const int together[] = {3, 4, 1}, one_by_one[] = {7, 6};
    struct mbx_completion done[COUNT];
    struct receives r;
    struct single single;
    pthread_t sender, other;
    int index, err;

    if (config_is_loop(*state))
        return;
    open_receives(&r, *state, many);
    single = (struct single){.ep = r.cl.eps[1], .request = r.requests[0]};
    assert_int_equal(pthread_create(&other, NULL, wait_for_one, &single), 0);
    while (mbx_sleep(r.cl.eps[1], 0, NULL) != -EBUSY) /* the thread does not wait yet */
        sched_yield();
    sender = start_sender(&r);
    for (int i = 0; i < 3; i++)
        tell_sender(&r, together[i]);
    assert_int_equal(mbx_wait_all(r.cl.eps[1], r.requests + 1, 4, FOREVER, done + 1), 0);
    for (int i = 0; i < 3; i++)
        is_entry_of(&r, together[i], &done[together[i]]);
    for (int i = 0; i < 2; i++) {
        tell_sender(&r, one_by_one[i]);
        assert_int_equal(
            mbx_wait_any(r.cl.eps[1], r.requests + 1, COUNT - 1, FOREVER, &index, &done[0]), 1);
        assert_int_equal(index + 1, one_by_one[i]);
        is_entry_of(&r, index + 1, &done[0]);
    }
    tell_sender(&r, 0);
    end_sender(&r, sender);
    /* the message may still wait at its sender, whose thread has ended */
    while ((err = pthread_tryjoin_np(other, NULL)) == EBUSY)
        mbx_progress(r.cl.eps[0]);
    assert_int_equal(err, 0);
    assert_int_equal(single.result, 0);
    cluster_close(&r.cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_taken_by_index),
        cmocka_unit_test(complete_requests_are_taken_when_the_time_is_up),
        cmocka_unit_test(some_are_all_that_are_complete),
        cmocka_unit_test(any_is_the_first_in_the_array),
        cmocka_unit_test(errors_are_counted),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(a_wait_for_any_returns_with_each),
        cmocka_unit_test(a_wait_for_all_returns_with_the_last),
        cmocka_unit_test(a_wait_among_threads_is_told),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
