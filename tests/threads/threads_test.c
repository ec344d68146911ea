/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_test.c - two endpoints of one process, each driven by a thread of its own.
 *
 * Ping-pong and streams of every protocol over shared memory, with waits that sleep.  For
 * ThreadSanitizer: the two threads share only the transport's data.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 81
#define WINDOW  32
#define LONG_TIME                                                                              \
    (-1) /* no limit: how long a loaded machine takes is not a fault of the library */

/* cmocka's own checks leave by longjmp, which a thread must not do. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "threads_test: %s, %ld\n", what, value);
    abort();
}

struct worker {
    struct mbx_ep *ep;
    uint32_t me, other;
    int rounds;
    unsigned char *got;   /* WINDOW * SIZE_MAX_USED */
    _Atomic int *playing; /* threads that still wait for something */
};

static const size_t sizes[] = {0, 8, 32, 33, 300, 4000, 8192, 8193, 50000, 200000};
#define LARGEST 200000

static size_t largest(void)
{
    return test_is_quick() ? 50000 : LARGEST;
}

static void wait_ok(struct worker *p, mbx_request request)
{
    struct mbx_completion done;
    int err = mbx_wait(p->ep, request, LONG_TIME, &done);

    check(err == 0, "mbx_wait", err);
    check(done.error == 0, "completion", done.error);
}

static const unsigned char *content(uint32_t from, size_t i)
{
    return seeded_bytes((unsigned)(from * 997 + i * 61) % 4096, LARGEST);
}

static mbx_request post(struct worker *p, size_t slot, size_t size)
{
    mbx_request recv;
    int err =
        mbx_recv(p->ep, p->other, CONTEXT, 1, 0, p->got + slot * LARGEST, size, NULL, &recv);

    check(err == 0, "mbx_recv", err);
    return recv;
}

static mbx_request send_one(struct worker *p, size_t i, size_t size)
{
    mbx_request send;
    int err = (i % 4 == 3 ? mbx_ssend : mbx_send)(p->ep, p->other, CONTEXT, 1,
                                                  content(p->me, i), size, NULL, &send);

    check(err == 0, "mbx_send", err);
    return send;
}

static void verify(struct worker *p, size_t slot, size_t i, size_t size)
{
    check(memcmp(p->got + slot * LARGEST, content(p->other, i), size) == 0,
          "content of message", (long)i);
}

static void ping_pong(struct worker *p, size_t size)
{
    for (int i = 0; i < p->rounds; i++) {
        mbx_request recv = post(p, 0, size), send;

        if (p->me == 0) {
            send = send_one(p, (size_t)i, size);
            wait_ok(p, recv);
        } else {
            wait_ok(p, recv);
            send = send_one(p, (size_t)i, size);
        }
        verify(p, 0, (size_t)i, size);
        wait_ok(p, send);
    }
}

/* Streams both ways at once; every other stream sends before it posts. */
static void stream(struct worker *p, size_t size)
{
    mbx_request sends[WINDOW], recvs[WINDOW];

    for (int round = 0; round < (p->rounds + 9) / 10; round++) {
        bool late = round % 2 == (int)p->me;

        for (size_t i = 0; i < WINDOW; i++) {
            if (!late)
                recvs[i] = post(p, i, size);
            sends[i] = send_one(p, i, size);
        }
        for (size_t i = 0; late && i < WINDOW; i++)
            recvs[i] = post(p, i, size);
        for (size_t i = 0; i < WINDOW; i++) {
            wait_ok(p, recvs[i]);
            verify(p, i, i, size);
        }
        for (size_t i = 0; i < WINDOW; i++)
            wait_ok(p, sends[i]);
    }
}

static void *play(void *arg)
{
    struct worker *p = arg;

    for (size_t i = 0; i < ARRAY_COUNT(sizes) && sizes[i] <= largest(); i++) {
        ping_pong(p, sizes[i]);
        stream(p, sizes[i]);
    }
    /* packets that the other waits for may still be queued for lack of space: FINs, most of
     * all */
    atomic_fetch_sub(p->playing, 1);
    while (atomic_load(p->playing) != 0)
        if (mbx_progress(p->ep) == 0)
            sched_yield();
    return NULL;
}

static void play_two(const struct configuration *config, const char *const *more, int rounds)
{
    struct worker workers[2];
    _Atomic int playing = 2;
    pthread_t threads[2];
    struct cluster cl;

    seeded_bytes(0, LARGEST); /* made by one thread */
    cluster_open(&cl, config, 2, more);
    for (uint32_t i = 0; i < 2; i++) {
        workers[i] = (struct worker){
            .ep = cl.eps[i], .me = i, .other = 1 - i, .rounds = rounds, .playing = &playing};
        workers[i].got = malloc((size_t)WINDOW * LARGEST);
        assert_int_equal(pthread_create(&threads[i], NULL, play, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        free(workers[i].got);
        assert_int_equal(cluster_stats(&cl, i).dropped_packets, 0);
    }
    cluster_close(&cl);
}

static void test_waits_that_spin(void **state)
{
    const struct configuration *config = *state;

    if (!config_is_loop(config))
        play_two(config, NULL, test_is_quick() ? 5 : 12);
}

static void test_waits_that_sleep(void **state)
{
    static const char *const more[] = {"SPIN=0", NULL};
    const struct configuration *config = *state;

    if (!config_is_loop(config))
        play_two(config, more, test_is_quick() ? 5 : 12);
}

/* ---- a time limit holds while others keep this thread busy ---- */

static _Atomic bool enough;

static void *flood(void *arg)
{
    const struct worker *p = arg;
    char byte = 1;

    for (long i = 0; i < 3000000 && !enough; i++) {
        if (mbx_inject(p->ep, p->other, CONTEXT, 2, &byte, 1, 0) != 0)
            break;
        while (!enough && mbx_progress(p->ep) > 0)
            ;
    }
    return NULL;
}

/* Every message that arrives is received, and every receive is posted again, so that this goes
 * on for ever. */
static void test_a_time_limit_under_load(void **state)
{
    const struct configuration *config = *state;
    struct worker worker;
    mbx_request never;
    pthread_t thread;
    struct cluster cl;
    char byte;
    int err;

    if (config_is_loop(config) || config_has_faults(config))
        return;
    cluster_open(&cl, config, 2, (const char *const[]){"CLOSE_TIMEOUT=0", NULL});
    worker = (struct worker){.ep = cl.eps[0], .other = 1};
    enough = false;
    assert_int_equal(pthread_create(&thread, NULL, flood, &worker), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &byte, 1, NULL, &never), 0);
    err = mbx_wait(cl.eps[1], never, 5000000, NULL);
    assert_int_equal(err, -ETIMEDOUT);
    assert_false(enough);
    enough = true;
    pthread_join(thread, NULL);
    assert_true(cluster_stats(&cl, 1).unexpected < 3000000);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_that_spin),
        cmocka_unit_test(test_waits_that_sleep),
        cmocka_unit_test(test_a_time_limit_under_load),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
