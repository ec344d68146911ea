/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_fd_test.c - the descriptor of an endpoint (mbx_fd) becomes readable when there may be
 * something to do, and no event is missed, whenever it comes.
 *
 * Sleepers also look around periodically, which would hide a lost wake.  The tests switch that
 * off.
 */
#include "cluster.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/base.h"
#include "base/patience.h"
#include "base/sys.h"

#define CONTEXT 44
#define ROUNDS  (test_is_quick() ? 100 : 1000)
#define FOREVER INT64_C(-1)

static const char *const many[] = {"THREADS=many", NULL};

static bool is_readable(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, 0) == 1;
}

static bool has_fd(const struct cluster *cl)
{
    return !config_is_loop(cl->config); /* nobody can sleep in loop */
}

/* Waits until everything under way has arrived, then arms the descriptor of endpoint 0. */
static void arm_in_peace(struct cluster *cl)
{
    cluster_settle(cl);
    while (mbx_arm(cl->eps[0]) == 1)
        cluster_settle(cl);
}

static void wait_readable(struct cluster *cl, int fd)
{
    while (!is_readable(fd))
        for (int i = 1; i < cl->count; i++) /* messages may wait there for an answer of ours */
            mbx_progress(cl->eps[i]);
}

static mbx_request post(struct mbx_ep *ep, uint64_t tag, void *into, size_t size)
{
    mbx_request request;

    assert_int_equal(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, tag, 0, into, size, NULL, &request),
                     0);
    return request;
}

static void send_from(struct cluster *cl, int who, uint64_t tag)
{
    assert_int_equal(mbx_inject(cl->eps[who], 0, CONTEXT, tag, "x", 1, 0), 0);
}

/* Opens endpoints 0 and 1, which have exchanged a message.  Returns the descriptor of 0. */
static int open_met(struct cluster *cl, const struct configuration *config,
                    const char *const *more)
{
    char byte;
    int fd;

    sys_trust_wakes(PATIENCE_NS);
    cluster_open(cl, config, 2, more);
    post(cl->eps[0], 1, &byte, 1);
    send_from(cl, 1, 1);
    cluster_settle(cl);
    assert_int_equal(mbx_poll(cl->eps[0], MBX_RECVS, &(struct mbx_completion){0}, 1), 1);
    fd = mbx_fd(cl->eps[0]);
    assert_true(fd >= 0);
    return fd;
}

static void close_met(struct cluster *cl)
{
    cluster_settle(cl); /* an injected message may wait for that */
    cluster_close(cl);
    sys_trust_wakes(0);
}

/* ---- one message ---- */

static void a_message_makes_it_readable(void **state)
{
    struct cluster cl;
    char byte;
    int fd = open_met(&cl, *state, NULL);

    assert_int_equal(mbx_fd(cl.eps[0]), fd);
    for (int round = 0; round < 20 && has_fd(&cl); round++) {
        mbx_request request = post(cl.eps[0], 1, &byte, 1);

        arm_in_peace(&cl);
        send_from(&cl, 1, 1);
        wait_readable(&cl, fd);
        cluster_wait_error(&cl, 0, request, 0);
    }
    close_met(&cl);
}

/* A message without a posted receive also makes it readable, unless it waits at its sender. */
static void an_unexpected_message_makes_it_readable(void **state)
{
    struct mbx_status status;
    struct cluster cl;
    char byte;
    int fd = open_met(&cl, *state, NULL);

    for (int round = 0; round < 20 && has_fd(&cl) && config_window(cl.config) == UINT64_MAX;
         round++) {
        arm_in_peace(&cl);
        send_from(&cl, 1, 1);
        wait_readable(&cl, fd);
        while (cluster_probe(&cl, 0, 1, CONTEXT, 1, 0, &status) != 1)
            cluster_progress(&cl);
        cluster_wait_error(&cl, 0, post(cl.eps[0], 1, &byte, 1), 0);
    }
    close_met(&cl);
}

static void completions_that_are_there_are_told_at_once(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    char byte;
    int fd = open_met(&cl, *state, NULL);

    for (int round = 0; round < 20; round++) {
        post(cl.eps[0], 1, &byte, 1);
        send_from(&cl, 1, 1);
        cluster_settle(&cl); /* its entry is there */
        assert_int_equal(mbx_arm(cl.eps[0]), 1);
        assert_false(is_readable(fd));
        assert_int_equal(mbx_poll(cl.eps[0], MBX_RECVS, &done, 1), 1);
    }
    close_met(&cl);
}

static void it_is_quiet_until_it_is_armed(void **state)
{
    struct cluster cl;
    char byte;
    int fd = open_met(&cl, *state, NULL);

    assert_false(is_readable(fd));
    if (has_fd(&cl)) {
        arm_in_peace(&cl);
        assert_int_equal(mbx_disarm(cl.eps[0]), 0);
        post(cl.eps[0], 1, &byte, 1);
        send_from(&cl, 1, 1);
        cluster_settle(&cl);
        assert_false(is_readable(fd));
        assert_int_equal(mbx_arm(cl.eps[0]), 1);
        assert_int_equal(mbx_poll(cl.eps[0], MBX_RECVS, &(struct mbx_completion){0}, 1), 1);
        post(cl.eps[0], 2, &byte, 1);
        arm_in_peace(&cl);
        send_from(&cl, 1, 2);
        wait_readable(&cl, fd);
        assert_int_equal(mbx_disarm(cl.eps[0]), 0);
        assert_false(is_readable(fd));
    }
    assert_int_equal(mbx_arm(cl.eps[1]), -EINVAL);
    assert_int_equal(mbx_disarm(cl.eps[1]), -EINVAL);
    close_met(&cl);
}

static void a_wake_makes_it_readable(void **state)
{
    struct cluster cl;
    int fd = open_met(&cl, *state, NULL);

    for (int round = 0; round < 20 && has_fd(&cl); round++) {
        arm_in_peace(&cl);
        mbx_wake(cl.eps[0]);
        wait_readable(&cl, fd);
    }
    close_met(&cl);
}

/* An armed endpoint, and one whose descriptor is readable, can be closed. */
static void it_can_be_closed_in_every_state(void **state)
{
    for (int how = 0; how < 4; how++) {
        struct cluster cl;
        int fd = open_met(&cl, *state, NULL);

        if (how > 0 && has_fd(&cl))
            arm_in_peace(&cl);
        if (how > 1 && has_fd(&cl)) {
            mbx_wake(cl.eps[0]);
            wait_readable(&cl, fd);
        }
        if (how > 2)
            mbx_disarm(cl.eps[0]);
        close_met(&cl);
    }
}

/* ---- with calls that wait ---- */

struct answer {
    struct mbx_ep *ep;
    _Atomic bool is_there; /* the answering endpoint need not make progress any more */
};

static void *answer_one(void *arg)
{
    struct answer *answer = arg;
    mbx_request request;
    char byte;

    if (mbx_recv(answer->ep, 0, CONTEXT, 7, 0, &byte, 1, NULL, &request) != 0 ||
        mbx_wait(answer->ep, request, FOREVER, NULL) != 0 ||
        mbx_inject(answer->ep, 0, CONTEXT, 8, "y", 1, 0) != 0)
        return arg;
    while (!answer->is_there) {
        mbx_progress(answer->ep);
        sched_yield();
    }
    return NULL;
}

/* A call that sleeps itself takes over the endpoint, armed or not. */
static void a_wait_disarms(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    pthread_t thread;
    void *error;
    char byte;
    int fd = open_met(&cl, *state, NULL);

    for (int round = 0; round < 10 && has_fd(&cl); round++) {
        mbx_request request = post(cl.eps[0], 8, &byte, 1);
        struct answer answer = {.ep = cl.eps[1]};

        for (int i = 0; i < 5; i++) { /* afterwards only this call ends a sleep */
            arm_in_peace(&cl);
            assert_int_equal(mbx_sleep(cl.eps[0], 0, NULL), -ETIMEDOUT);
            assert_false(is_readable(fd));
        }
        arm_in_peace(&cl);
        assert_int_equal(pthread_create(&thread, NULL, answer_one, &answer), 0);
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 7, "x", 1, 0), 0);
        assert_int_equal(mbx_wait(cl.eps[0], request, FOREVER, &done), 0);
        assert_int_equal(done.error, 0);
        answer.is_there = true;
        assert_int_equal(pthread_join(thread, &error), 0);
        assert_null(error);
    }
    close_met(&cl);
}

/* ---- two loops ---- */

struct loop {
    struct mbx_ep *ep;
    uint32_t peer;
    int rounds;
    _Atomic int *busy; /* loops that have rounds left */
};

/* Sleeps until there is something to do. */
static void loop_sleep(struct mbx_ep *ep, int epoll)
{
    struct epoll_event event;

    if (mbx_arm(ep) == 0)
        while (epoll_wait(epoll, &event, 1, -1) < 0)
            ;
}

/* Sends a message and waits for one, in each round.  Returns NULL, or the name of the step that
 * failed. */
static const char *loop_run(struct loop *l, int epoll)
{
    struct mbx_completion done;
    int got = 0;

    for (int round = 0; round < l->rounds; round++) {
        if (mbx_recv(l->ep, l->peer, CONTEXT, 9, 0, &got, sizeof got, NULL, NULL) != 0)
            return "mbx_recv";
        if (mbx_inject(l->ep, l->peer, CONTEXT, 9, &round, sizeof round, 0) != 0)
            return "mbx_inject";
        while (mbx_poll(l->ep, MBX_RECVS, &done, 1) == 0)
            if (mbx_progress(l->ep) == 0 && !mbx_ready(l->ep, MBX_RECVS))
                loop_sleep(l->ep, epoll);
        if (done.error != 0)
            return "a message";
    }
    return NULL;
}

static void *loop_thread(void *arg)
{
    struct loop *l = arg;
    int epoll = epoll_create1(EPOLL_CLOEXEC), fd = mbx_fd(l->ep);
    struct epoll_event event = {.events = EPOLLIN};
    const char *failed = "epoll_ctl";

    if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        failed = loop_run(l, epoll);
    --*l->busy;
    while (*l->busy != 0) { /* the other loop may wait for a message that has not left */
        mbx_progress(l->ep);
        sched_yield();
    }
    close(epoll);
    return (void *)(uintptr_t)failed;
}

/* Each loop sleeps for the other in turn: a lost wake makes a loop that never ends. */
static void run_loops(const struct configuration *config, const char *const *more)
{
    struct cluster cl;
    struct loop loops[2];
    pthread_t threads[2];
    _Atomic int busy = 2;
    void *failed;

    if (config_is_loop(config))
        return;
    sys_trust_wakes(PATIENCE_NS);
    cluster_open(&cl, config, 2, more);
    for (int i = 0; i < 2; i++) {
        loops[i] = (struct loop){
            .ep = cl.eps[i], .peer = 1 - (uint32_t)i, .rounds = ROUNDS, .busy = &busy};
        assert_int_equal(pthread_create(&threads[i], NULL, loop_thread, &loops[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        if (failed != NULL)
            fail_msg("%s", (const char *)failed);
    }
    close_met(&cl);
}

static void no_wake_is_lost_between_loops(void **state)
{
    run_loops(*state, NULL);
}

static void no_wake_is_lost_with_many_threads(void **state)
{
    run_loops(*state, many);
}

/* ---- with another thread of the endpoint ---- */

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

/* The other thread polls and sleeps for both. */
static void it_is_told_by_another_thread_that_waits(void **state)
{
    struct single single;
    struct cluster cl;
    pthread_t other;
    char bytes[2];
    int fd;

    if (config_is_loop(*state))
        return;
    fd = open_met(&cl, *state, many);
    single = (struct single){.ep = cl.eps[0], .request = post(cl.eps[0], 3, &bytes[0], 1)};
    assert_int_equal(pthread_create(&other, NULL, wait_for_one, &single), 0);
    while (mbx_sleep(cl.eps[0], 0, NULL) != -EBUSY) /* the thread does not wait yet */
        sched_yield();
    for (int round = 0; round < 20; round++) {
        mbx_request request = post(cl.eps[0], 1, &bytes[1], 1);
        struct mbx_completion done;

        while (mbx_arm(cl.eps[0]) == 1)
            ;
        send_from(&cl, 1, 1);
        do {
            wait_readable(&cl, fd);
            while (mbx_arm(cl.eps[0]) == 1 && !mbx_ready(cl.eps[0], MBX_RECVS))
                ;
        } while (!mbx_ready(cl.eps[0], MBX_RECVS));
        assert_int_equal(mbx_poll(cl.eps[0], MBX_RECVS, &done, 1), 1);
        assert_int_equal(done.request, request);
    }
    send_from(&cl, 1, 3);
    while (pthread_tryjoin_np(other, NULL) == EBUSY)
        mbx_progress(cl.eps[1]);
    assert_int_equal(single.result, 0);
    close_met(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_makes_it_readable),
        cmocka_unit_test(an_unexpected_message_makes_it_readable),
        cmocka_unit_test(completions_that_are_there_are_told_at_once),
        cmocka_unit_test(it_is_quiet_until_it_is_armed),
        cmocka_unit_test(a_wake_makes_it_readable),
        cmocka_unit_test(it_can_be_closed_in_every_state),
        cmocka_unit_test(a_wait_disarms),
        cmocka_unit_test(no_wake_is_lost_between_loops),
        cmocka_unit_test(no_wake_is_lost_with_many_threads),
        cmocka_unit_test(it_is_told_by_another_thread_that_waits),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
