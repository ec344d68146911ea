/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mt_wait_test.c - threads that wait in one endpoint, one situation after the other.
 *
 * mt_test.c meets these situations by chance; here each is produced: several threads wait for
 * the same request; one sleeps while another leaves work that only the sleeper can do; the
 * thread that polls for all leaves.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "base/sys.h"
#include "core/core.h"

#define CONTEXT 7
#define NOBODY  9999 /* a tag that no message has */
#define LONG_TIME                                                                              \
    (-1) /* no limit: how long a loaded machine takes is not a fault of the library */

/* cmocka's own checks leave by longjmp, which a thread must not do. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "mt_wait_test: %s, %ld\n", what, value);
    abort();
}

static const char *const many[] = {"THREADS=many", NULL};
static const char *const many_asleep[] = {"THREADS=many", "SPIN=0", NULL};

/* ---- several wait for the same request ---- */

struct waiting {
    struct mbx_ep *ep;
    mbx_request request;
    _Atomic int got, stale;
};

static void *wait_for_it(void *arg)
{
    struct waiting *wait = arg;
    struct mbx_completion done;
    int err = mbx_wait(wait->ep, wait->request, LONG_TIME, &done);

    check(err == 0 || err == -ESTALE, "mbx_wait of the same", err);
    atomic_fetch_add(err == 0 ? &wait->got : &wait->stale, 1);
    return NULL;
}

/* Three threads wait for one receive; this one ends it: by a message, or by a cancel. */
static void test_one_of_those_that_wait_for_the_same(void **state)
{
    for (int round = 0; round < (test_is_quick() ? 10 : 60); round++) {
        struct waiting wait = {0};
        pthread_t threads[3];
        struct cluster cl;
        char byte;

        cluster_open(&cl, *state, 1, round % 2 == 0 ? many_asleep : many);
        wait.ep = cl.eps[0];
        assert_int_equal(mbx_recv(wait.ep, 0, CONTEXT, 1, 0, &byte, 1, NULL, &wait.request), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, &wait), 0);
        for (int i = 0; i < round % 7; i++)
            sched_yield();
        if (round % 3 == 0)
            assert_int_equal(mbx_cancel(wait.ep, wait.request), 0);
        else
            assert_int_equal(mbx_inject(wait.ep, 0, CONTEXT, 1, "x", 1, 0), 0);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(wait.got, 1);
        assert_int_equal(wait.stale, 2);
        cluster_close(&cl);
    }
}

/* ---- a send must leave while another thread sleeps ---- */

/* Endpoint 1 does not read until the ring to it is full.  Later packets must then be pushed by
 * a sleeping thread, which went to sleep when there was nothing to push: only the thread that
 * sends can wake it.  (Sleepers wake every 100 ms to check, which would hide a lost wake-up; so
 * that is switched off.) */

#define FLOOD 200

static bool is_asleep(struct mbx_ep *ep)
{
    bool is;

    ep_lock(ep);
    is = ep->wait.is_asleep;
    ep_unlock(ep);
    return is;
}

static void *wait_for_the_answer(void *arg)
{
    struct waiting *wait = arg;
    int err = mbx_wait(wait->ep, wait->request, LONG_TIME, NULL);

    check(err == 0, "mbx_wait of the sleeper", err);
    atomic_store(&wait->got, 1);
    return NULL;
}

/* Starts a thread that sleeps in endpoint 0, and the receive that it waits for. */
static pthread_t start_sleeper(struct waiting *wait)
{
    pthread_t thread;

    assert_int_equal(mbx_recv(wait->ep, 1, CONTEXT, 1, 0, NULL, 0, NULL, &wait->request), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_the_answer, wait), 0);
    while (!is_asleep(wait->ep))
        sched_yield();
    return thread;
}

static void flood(struct cluster *cl)
{
    static char bytes[FLOOD][500];
    struct waiting wait = {.ep = cl->eps[0]};
    mbx_request recvs[FLOOD];
    pthread_t thread;

    thread = start_sleeper(&wait);
    for (int i = 0; i < FLOOD; i++)
        assert_int_equal(mbx_inject(wait.ep, 1, CONTEXT, 2, bytes[0], 500, 0), 0);
    for (int i = 0; i < FLOOD; i++) {
        assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 2, 0, bytes[i], 500, NULL, &recvs[i]),
                         0);
        assert_int_equal(mbx_wait(cl->eps[1], recvs[i], LONG_TIME, NULL), 0);
    }
    assert_int_equal(mbx_inject(cl->eps[1], 0, CONTEXT, 1, NULL, 0, 0), 0);
    while (atomic_load(&wait.got) == 0)
        mbx_progress(cl->eps[1]); /* it may be held there */
    pthread_join(thread, NULL);
}

static void test_a_send_while_another_thread_sleeps(void **state)
{
    const struct configuration *config = *state;
    struct cluster cl;

    if (config_is_loop(config) || config_has_faults(config))
        return;
    cluster_open(&cl, config, 2, many_asleep);
    sys_trust_wakes(PATIENCE_NS);
    for (int round = 0; round < 5; round++)
        flood(&cl);
    sys_trust_wakes(0);
    if (config_window(config) == UINT64_MAX)
        assert_true(cluster_stats(&cl, 0).full > 0);
    else
        assert_int_equal(cluster_stats(&cl, 0).deferred_now, 0);
    cluster_close(&cl);
}

/* ---- a read must go on while another thread sleeps ---- */

/* This thread posts the receive of a long message, which begins to read it, and makes no more
 * calls; the sender waits for the FIN. */
static void test_a_read_while_another_thread_sleeps(void **state)
{
    static const char *const params[] = {"THREADS=many", "SPIN=0", "READ_CHUNK=4K", NULL};
    static unsigned char into[100000];
    const struct configuration *config = *state;
    struct waiting wait = {0};
    struct mbx_status status;
    mbx_request sent;
    pthread_t thread;
    struct cluster cl;

    if (config_is_loop(config))
        return;
    cluster_open(&cl, config, 2, params);
    wait.ep = cl.eps[0];
    assert_int_equal(mbx_ssend(cl.eps[1], 0, CONTEXT, 2, seeded_bytes(0, sizeof into),
                               sizeof into, NULL, &sent),
                     0);
    while (mbx_probe(cl.eps[0], 1, CONTEXT, 2, 0, &status) == 0)
        mbx_progress(cl.eps[1]);
    thread = start_sleeper(&wait);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 2, 0, into, sizeof into, NULL, NULL), 0);
    assert_int_equal(mbx_wait(cl.eps[1], sent, LONG_TIME, NULL), 0);
    assert_int_equal(mbx_inject(cl.eps[1], 0, CONTEXT, 1, NULL, 0, 0), 0);
    while (atomic_load(&wait.got) == 0)
        mbx_progress(cl.eps[1]); /* it may be held back there */
    pthread_join(thread, NULL);
    assert_memory_equal(into, seeded_bytes(0, sizeof into), sizeof into);
    cluster_close(&cl);
}

/* ---- the thread that polled for all leaves ---- */

static uint64_t held_time;

static uint64_t held_clock(void)
{
    return held_time;
}

/* Stops the clock until clock_set(NULL): no wait times out, however late its thread is. */
static void hold_clock(void)
{
    held_time = clock_now();
    clock_set(held_clock);
}

static uint32_t waiter_count(struct mbx_ep *ep)
{
    uint32_t waiters;

    ep_lock(ep);
    waiters = ep->wait.count;
    ep_unlock(ep);
    return waiters;
}

static void *wait_in_vain(void *arg)
{
    struct waiting *wait = arg;
    int err = mbx_wait(wait->ep, wait->request, 50 * CLOCK_MS, NULL);

    check(err == -ETIMEDOUT, "mbx_wait without a completion", err);
    return NULL;
}

static void *wait_a_long_time(void *arg)
{
    struct waiting *wait = arg;
    int err = mbx_wait(wait->ep, wait->request, LONG_TIME, NULL);

    check(err == 0, "mbx_wait of the second poller", err);
    atomic_store(&wait->got, 1);
    return NULL;
}

/* The first poller times out, but not before both wait; only the second waiter can then notice
 * a message. */
static void test_the_poller_leaves(void **state)
{
    const struct configuration *config = *state;
    pthread_t first, second;
    struct cluster cl;

    if (config_is_loop(config))
        return;
    for (int round = 0; round < 2; round++) {
        struct waiting vain = {0}, wait = {0};

        cluster_open(&cl, config, 2, round == 0 ? many : many_asleep);
        vain.ep = wait.ep = cl.eps[0];
        assert_int_equal(mbx_recv(vain.ep, 1, CONTEXT, NOBODY, 0, NULL, 0, NULL, &vain.request),
                         0);
        assert_int_equal(mbx_recv(wait.ep, 1, CONTEXT, 1, 0, NULL, 0, NULL, &wait.request), 0);
        hold_clock();
        assert_int_equal(pthread_create(&first, NULL, wait_in_vain, &vain), 0);
        while (waiter_count(vain.ep) == 0)
            sched_yield();
        assert_int_equal(pthread_create(&second, NULL, wait_a_long_time, &wait), 0);
        while (waiter_count(vain.ep) == 1)
            sched_yield();
        clock_set(NULL);
        pthread_join(first, NULL);
        assert_int_equal(mbx_send(cl.eps[1], 0, CONTEXT, 1, NULL, 0, NULL, NULL), 0);
        while (atomic_load(&wait.got) == 0)
            mbx_progress(cl.eps[1]); /* it may be held back there */
        pthread_join(second, NULL);
        cluster_close(&cl);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_those_that_wait_for_the_same),
        cmocka_unit_test(test_a_send_while_another_thread_sleeps),
        cmocka_unit_test(test_a_read_while_another_thread_sleeps),
        cmocka_unit_test(test_the_poller_leaves),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
