/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yield_test.c - which calls yield their core: every call that waits, however long it would
 * poll and whether or not it is known that others need the core.  A call that only looks does
 * not.
 *
 * The library finds this file's sched_yield(), which counts the calls.  Time passes only when a
 * thread reads the clock, for each thread separately.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "rma/rma.h"
#include "core/core.h"

#define CONTEXT 44
#define NOBODY  9999 /* a tag that nobody sends */
#define KEY     7
#define LOOKS   1000
#define MOST    UINT32_MAX
#define LONG    ((size_t)1 << 17) /* goes by rendezvous */
#define PACKETS 24                /* of 4000 bytes: more than fit into a ring */
#define MS      ((int64_t)CLOCK_MS)
#define US      ((int64_t)CLOCK_US)

#define A_WHILE (2 * MS)
#define OFTEN   5 /* of the 40 times that a while has WAIT_KEEP */
#define AT_ONCE INT64_C(1)

static char content[LONG], recv_buf[LONG];
static _Thread_local unsigned yields;
static _Thread_local uint64_t now_ns = 100 * CLOCK_S, tick_ns = CLOCK_US;
static struct region *busy; /* its busy count becomes 0 when somebody yields */

__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    if (busy != NULL)
        busy->busy = 0;
    return 0;
}

static uint64_t clock_of_test(void)
{
    return now_ns += tick_ns;
}

/* cmocka's own checks leave by longjmp, which a thread cannot. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "yield_test: %s, %ld\n", what, value);
    abort();
}

/* ---- requests that stay open ---- */

/* Each function leaves a request of the first endpoint that does not complete. */

static mbx_request a_receive(struct cluster *cl)
{
    mbx_request request;

    assert_int_equal(
        mbx_recv(cl->eps[0], 1, CONTEXT, NOBODY, 0, recv_buf, sizeof recv_buf, NULL, &request),
        0);
    return request;
}

/* The send waits for its FIN. */
static mbx_request a_long_send(struct cluster *cl)
{
    mbx_request request;

    assert_true(mbx_send(cl->eps[0], 1, CONTEXT, NOBODY, content, LONG, NULL, &request) >= 0);
    return request;
}

static mbx_request a_synchronous_send(struct cluster *cl)
{
    mbx_request request;

    assert_true(mbx_ssend(cl->eps[0], 1, CONTEXT, NOBODY, content, 8, NULL, &request) >= 0);
    return request;
}

/* Nobody reads the ring, so the synchronous send after these messages has to wait for space. */
static mbx_request a_send_behind_a_full_ring(struct cluster *cl)
{
    static const struct mbx_options silent = {.flags = MBX_SILENT};

    for (int i = 0; i < PACKETS; i++)
        assert_true(mbx_send(cl->eps[0], 1, CONTEXT, NOBODY, content, 4000, &silent, NULL) >=
                    0);
    return a_synchronous_send(cl);
}

static mbx_request (*const requests[])(struct cluster *cl) = {
    a_receive,
    a_long_send,
    a_synchronous_send,
    a_send_behind_a_full_ring,
};

/* Opens two endpoints that have exchanged messages. */
static void open_two(struct cluster *cl, const struct configuration *config,
                     const char *const *params)
{
    cluster_open(cl, config, 2, params);
    assert_int_equal(mbx_inject(cl->eps[0], 1, CONTEXT, 1, "x", 1, 0), 0);
    assert_int_equal(mbx_inject(cl->eps[1], 0, CONTEXT, 1, "x", 1, 0), 0);
    cluster_settle(cl);
}

/* Calls look() with each of the requests; the earlier ones stay open. */
static void with_each(const struct configuration *config, const char *const *params,
                      void (*look)(struct cluster *cl, mbx_request request))
{
    struct cluster cl;

    open_two(&cl, config, params);
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        mbx_request request = requests[i](&cl);

        clock_set(clock_of_test);
        yields = 0;
        look(&cl, request);
        clock_set(NULL);
    }
    cluster_close(&cl);
}

/* ---- one thread -------------------------------------------------------------------------- */

/* Endpoints with these parameters must not wait for open requests when they close. */
static const char *const polls_long[] = {"SPIN=10s", "CLOSE_TIMEOUT=0", "OVERSUBSCRIBED=no",
                                         NULL};
static const char *const usual[] = {"CLOSE_TIMEOUT=0", NULL};

static void wait_a_while(struct cluster *cl, mbx_request request)
{
    int index;

    assert_int_equal(mbx_wait(cl->eps[0], request, A_WHILE, NULL), -ETIMEDOUT);
    assert_in_range(yields, OFTEN, MOST);
    yields = 0;
    assert_int_equal(mbx_wait_queues(cl->eps[0], MBX_RECVS | MBX_ACCESS, A_WHILE), -ETIMEDOUT);
    assert_in_range(yields, OFTEN, MOST);
    yields = 0;
    assert_int_equal(mbx_wait_all(cl->eps[0], &request, 1, A_WHILE, NULL), -ETIMEDOUT);
    assert_in_range(yields, OFTEN, MOST);
    yields = 0;
    assert_int_equal(mbx_wait_any(cl->eps[0], &request, 1, A_WHILE, &index, NULL), -ETIMEDOUT);
    assert_in_range(yields, OFTEN, MOST);
}

static void a_wait_that_polls_for_long(void **state)
{
    with_each(*state, polls_long, wait_a_while);
}

static void wait_shortly(struct cluster *cl, mbx_request request)
{
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(mbx_wait(cl->eps[0], request, AT_ONCE, NULL), -ETIMEDOUT);
        assert_int_equal(mbx_wait_queues(cl->eps[0], MBX_RECVS, AT_ONCE), -ETIMEDOUT);
        assert_in_range(yields, 2 * (i + 1), MOST);
    }
}

/* The caller may repeat such a wait again and again. */
static void a_wait_whose_time_is_up(void **state)
{
    with_each(*state, usual, wait_shortly);
}

static void wait_in_a_crowd(struct cluster *cl, mbx_request request)
{
    uint64_t sleeps = cluster_stats(cl, 0).sleeps;

    assert_int_equal(mbx_wait(cl->eps[0], request, 100 * US, NULL), -ETIMEDOUT);
    assert_true(cluster_stats(cl, 0).sleeps > sleeps);
}

static void wait_with_one_core(struct cluster *cl, mbx_request request)
{
    cl->eps[0]->limits.cores = 1;
    wait_in_a_crowd(cl, request);
}

/* With more peers than cores, or if a parameter says so, it sleeps soon, whatever MBX_SPIN
 * is. */
static void a_wait_in_a_crowd(void **state)
{
    static const char *const counts[] = {"SPIN=10s", "CLOSE_TIMEOUT=0", NULL};
    static const char *const told[] = {"SPIN=10s", "CLOSE_TIMEOUT=0", "OVERSUBSCRIBED=yes",
                                       NULL};

    with_each(*state, counts, wait_with_one_core);
    with_each(*state, told, wait_in_a_crowd);
}

static void only_look(struct cluster *cl, mbx_request request)
{
    struct mbx_completion c;
    int index;

    for (int i = 0; i < LOOKS; i++) {
        struct mbx_status status;

        assert_int_equal(mbx_test(cl->eps[0], request, &c), 0);
        mbx_progress(cl->eps[0]);
        mbx_idle(cl->eps[0]);
        assert_int_equal(mbx_poll(cl->eps[0], MBX_RECVS, &c, 1), 0);
        assert_true(mbx_probe(cl->eps[0], 1, CONTEXT, NOBODY, 0, &status) <= 0);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mbx_wait(cl->eps[0], request, 0, &c), -ETIMEDOUT);
        assert_int_equal(mbx_wait_queues(cl->eps[0], MBX_RECVS, 0), -ETIMEDOUT);
        assert_int_equal(mbx_wait_all(cl->eps[0], &request, 1, 0, &c), -ETIMEDOUT);
        assert_int_equal(mbx_wait_any(cl->eps[0], &request, 1, 0, &index, &c), -ETIMEDOUT);
    }
    if (!config_is_verbs(cl->config)) /* the library of the software adapter yields itself */
        assert_int_equal(yields, 0);
}

static void a_rank_that_only_looks_keeps_the_core(void **state)
{
    with_each(*state, usual, only_look);
}

/* The deregistration waits for transfers of the transport. */
static void a_deregistration(void **state)
{
    const struct mbx_region region = {.buf = recv_buf, .size = 8, .rights = MBX_REMOTE_WRITE};
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_register(cl.eps[0], KEY, &region), 0);
    busy = region_find(cl.eps[0], KEY);
    busy->busy = 1;
    yields = 0;
    assert_int_equal(mbx_deregister(cl.eps[0], KEY), 0);
    assert_int_equal(yields, 1);
    busy = NULL;
    cluster_close(&cl);
}

/* ---- two threads ------------------------------------------------------------------------- */

static const char *const many[] = {"THREADS=many", "SPIN=10s", NULL};

struct poller {
    struct mbx_ep *ep;
    mbx_request request;
};

/* The time of this thread stands still, so it does not sleep. */
static void *poll_for_all(void *arg)
{
    const struct poller *poller = arg;
    int err;

    tick_ns = 0;
    err = mbx_wait(poller->ep, poller->request, -1, NULL);
    check(err == 0, "mbx_wait of who polls for all", err);
    return NULL;
}

static bool has_poller(struct mbx_ep *ep)
{
    bool has;

    ep_lock(ep);
    has = ep->wait.poller != NULL;
    ep_unlock_unchanged(ep);
    return has;
}

/* A thread that is notified when its wait is over polls for the notification. */
static void who_is_told(void **state)
{
    struct poller poller;
    pthread_t thread;
    mbx_request request;
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 1, many);
    poller.ep = cl.eps[0];
    poller.ep->limits.cores = 16; /* the two threads need not share a core */
    assert_int_equal(mbx_recv(poller.ep, 0, CONTEXT, 1, 0, &byte, 1, NULL, &poller.request), 0);
    assert_int_equal(mbx_recv(poller.ep, 0, CONTEXT, NOBODY, 0, &byte, 1, NULL, &request), 0);
    clock_set(clock_of_test);
    assert_int_equal(pthread_create(&thread, NULL, poll_for_all, &poller), 0);
    while (!has_poller(poller.ep))
        continue;
    yields = 0;
    assert_int_equal(mbx_wait(poller.ep, request, A_WHILE, NULL), -ETIMEDOUT);
    check(yields >= OFTEN, "the core was not given away often enough", yields);
    assert_int_equal(mbx_inject(poller.ep, 0, CONTEXT, 1, "x", 1, 0), 0);
    pthread_join(thread, NULL);
    clock_set(NULL);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest each[] = {
        cmocka_unit_test(a_wait_that_polls_for_long),
        cmocka_unit_test(a_wait_whose_time_is_up),
        cmocka_unit_test(a_wait_in_a_crowd),
        cmocka_unit_test(a_rank_that_only_looks_keeps_the_core),
        cmocka_unit_test(who_is_told),
        cmocka_unit_test(a_deregistration),
    };

    return test_main(argc, argv, each, ARRAY_COUNT(each));
}
