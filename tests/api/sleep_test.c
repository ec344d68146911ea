/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep_test.c - a client's own loop that sleeps (mbx_sleep) wakes for every event, and lets
 * other threads use the endpoint while it sleeps.
 *
 * The endpoint is opened for one thread, and the test protects it with a lock.  Sleepers also
 * look around every 100 ms, which would hide a lost wake.  The tests switch that off.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "base/sys.h"

#define CONTEXT 43
#define ROUNDS  10

struct sleeper {
    struct mbx_ep *ep;
    pthread_mutex_t lock;
    bool is_asleep; /* protected by lock, which the sleeper releases only while it sleeps */
    bool has_ended;
    int err;
};

static void sleeps(void *arg)
{
    struct sleeper *s = arg;

    s->is_asleep = true;
    pthread_mutex_unlock(&s->lock);
}

static void slept(void *arg)
{
    struct sleeper *s = arg;

    pthread_mutex_lock(&s->lock);
    s->is_asleep = false;
}

static void *sleep_till_ready(void *arg)
{
    struct sleeper *s = arg;
    const struct mbx_sleep_hooks hooks = {.sleeps = sleeps, .slept = slept, .arg = s};

    pthread_mutex_lock(&s->lock);
    while (s->err == 0 && !mbx_ready(s->ep, MBX_RECVS))
        if (mbx_progress(s->ep) == 0)
            s->err = mbx_sleep(s->ep, -1, &hooks);
    s->has_ended = true;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static bool look(struct sleeper *s, const bool *flag)
{
    bool is;

    pthread_mutex_lock(&s->lock);
    is = *flag;
    pthread_mutex_unlock(&s->lock);
    return is;
}

/* Returns once the thread sleeps. */
static pthread_t sleeper_start(struct sleeper *s, struct mbx_ep *ep)
{
    pthread_t thread;

    *s = (struct sleeper){.ep = ep, .lock = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(pthread_create(&thread, NULL, sleep_till_ready, s), 0);
    while (!look(s, &s->is_asleep))
        sched_yield();
    return thread;
}

/* `other` makes progress meanwhile: its message may be matched there. */
static void sleeper_join(struct sleeper *s, pthread_t thread, struct mbx_ep *other)
{
    while (!look(s, &s->has_ended)) {
        mbx_progress(other);
        sched_yield();
    }
    pthread_join(thread, NULL);
    assert_int_equal(s->err, 0);
}

/* Opens cl; endpoint 1 has sent a message to endpoint 0. */
static void cluster_open_acquainted(struct cluster *cl, const struct configuration *config)
{
    char byte;

    cluster_open(cl, config, 2, NULL);
    assert_int_equal(mbx_recv(cl->eps[0], 1, CONTEXT, 2, 0, &byte, 1,
                              &(struct mbx_options){.flags = MBX_SILENT}, NULL),
                     0);
    assert_int_equal(mbx_inject(cl->eps[1], 0, CONTEXT, 2, "x", 1, 0), 0);
    cluster_settle(cl);
}

static void a_message_wakes(void **state)
{
    sys_trust_wakes(PATIENCE_NS);
    for (int round = 0; round < ROUNDS; round++) {
        struct sleeper s;
        struct cluster cl;
        pthread_t thread;
        char byte;

        cluster_open_acquainted(&cl, *state);
        assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 1, 0, &byte, 1, NULL, NULL), 0);
        thread = sleeper_start(&s, cl.eps[0]);
        assert_int_equal(mbx_inject(cl.eps[1], 0, CONTEXT, 1, "x", 1, 0), 0);
        sleeper_join(&s, thread, cl.eps[1]);
        cluster_close(&cl);
    }
    sys_trust_wakes(0);
}

/* A completion that other threads leave does not end the sleep; mbx_wake() does. */
static void others_use_the_endpoint_and_wake(void **state)
{
    sys_trust_wakes(PATIENCE_NS);
    for (int round = 0; round < ROUNDS; round++) {
        struct sleeper s;
        struct cluster cl;
        mbx_request recv;
        pthread_t thread;
        char byte;

        cluster_open_acquainted(&cl, *state);
        thread = sleeper_start(&s, cl.eps[0]);
        pthread_mutex_lock(&s.lock);
        assert_int_equal(mbx_ready(s.ep, MBX_RECVS), 0);
        assert_int_equal(mbx_sleep(s.ep, 0, NULL), -EBUSY);
        assert_int_equal(mbx_recv(s.ep, 1, CONTEXT, 1, 0, &byte, 1, NULL, &recv), 0);
        assert_int_equal(mbx_cancel(s.ep, recv), 0);
        while (mbx_ready(s.ep, MBX_RECVS) == 0)
            mbx_progress(s.ep);
        mbx_wake(s.ep);
        pthread_mutex_unlock(&s.lock);
        sleeper_join(&s, thread, cl.eps[1]);
        cluster_close(&cl);
    }
    sys_trust_wakes(0);
}

static void a_sleep_ends_by_itself(void **state)
{
    struct mbx_sleep_hooks none = {0};
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, NULL);
    while (mbx_progress(cl.eps[0]) > 0)
        continue;
    assert_int_equal(mbx_sleep(cl.eps[0], CLOCK_MS, &none), -ETIMEDOUT);
    assert_int_equal(mbx_ready(cl.eps[0], 0), -EINVAL);
    assert_int_equal(mbx_ready(cl.eps[0], 32), -EINVAL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 1, 0, &byte, 1, NULL, NULL), 0);
    assert_int_equal(mbx_inject(cl.eps[1], 0, CONTEXT, 1, "x", 1, 0), 0);
    while (!mbx_ready(cl.eps[0], MBX_RECVS)) {
        mbx_progress(cl.eps[0]);
        mbx_progress(cl.eps[1]);
    }
    assert_int_equal(mbx_ready(cl.eps[0], MBX_SENDS), 0);
    assert_int_equal(mbx_ready(cl.eps[0], MBX_SENDS | MBX_RECVS), 1);
    cluster_close(&cl);
}

/* Nobody sleeps in `loop`; faults end sleeps early. */
static bool is_meant(const struct configuration *config)
{
    return !config_is_loop(config) && !config_has_faults(config) && !config_has_device(config);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_wakes),
        cmocka_unit_test(others_use_the_endpoint_and_wake),
        cmocka_unit_test(a_sleep_ends_by_itself),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
