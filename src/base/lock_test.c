/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock_test.c - never two holders, and no thread waits for ever.
 *
 * The lock guards plain memory here, so ThreadSanitizer reports each way to take it that does
 * not order earlier writes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/sys.h"
#include "base/unit.h"

#define TAKERS 4

struct shared {
    struct lock lock;
    uint64_t rounds; /* per taker */
    uint64_t count;  /* guarded */
    bool inside;     /* guarded */
    uint32_t left;   /* guarded: takers that have not finished yet */
};

/* A failed check of cmocka calls longjmp, which must not happen in another thread. */
static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "lock_test: %s\n", what);
    abort();
}

static void enter(struct shared *s)
{
    check(!s->inside, "two are inside");
    s->inside = true;
    s->count++;
    s->inside = false;
}

static void *take_often(void *arg)
{
    struct shared *s = arg;

    for (uint64_t i = 0; i < s->rounds; i++) {
        lock_take(&s->lock);
        enter(s);
        lock_give(&s->lock);
    }
    lock_take(&s->lock);
    s->left--;
    lock_give(&s->lock);
    return NULL;
}

static void start_takers(struct shared *s, pthread_t *threads)
{
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, s), 0);
}

static void join_takers(pthread_t *threads)
{
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
}

static void test_one_at_a_time(UNUSED void **state)
{
    struct shared s = {.rounds = 20000, .left = TAKERS};
    pthread_t threads[TAKERS];

    start_takers(&s, threads);
    join_takers(threads);
    assert_int_equal(s.count, TAKERS * s.rounds);
    assert_int_equal(s.lock.state, LOCK_FREE);
    assert_int_equal(s.lock.wanting, 0);
    assert_int_equal(s.lock.asleep, 0);
}

/* Holds the lock until all others have finished, which they cannot do if only the holder ever
 * takes it again. */
static void *poll_until_alone(void *arg)
{
    struct shared *s = arg;

    lock_take(&s->lock);
    while (s->left > 0) {
        enter(s);
        if (lock_is_wanted(&s->lock))
            lock_pass(&s->lock);
    }
    lock_give(&s->lock);
    return NULL;
}

static void poll_beside_takers(int pollers)
{
    struct shared s = {.rounds = 3000, .left = TAKERS};
    pthread_t threads[TAKERS], polling[2];

    for (int i = 0; i < pollers; i++)
        assert_int_equal(pthread_create(&polling[i], NULL, poll_until_alone, &s), 0);
    start_takers(&s, threads);
    join_takers(threads);
    for (int i = 0; i < pollers; i++)
        pthread_join(polling[i], NULL);
    assert_true(s.count >= TAKERS * s.rounds);
    assert_int_equal(s.lock.state, LOCK_FREE);
    assert_int_equal(s.lock.wanting, 0);
}

static void test_a_polling_thread_lets_others_in(UNUSED void **state)
{
    poll_beside_takers(1);
}

/* Two pollers: each also takes the offers of the other. */
static void test_two_who_poll(UNUSED void **state)
{
    poll_beside_takers(2);
}

/* A sleep that fails or ends early costs only time. */
static void test_a_futex_that_fails(UNUSED void **state)
{
    sys_fail_name("futex_wait", SYS_FAIL_ALWAYS, EINTR);
    poll_beside_takers(2);
    sys_fail_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_a_polling_thread_lets_others_in),
        cmocka_unit_test(test_two_who_poll),
        cmocka_unit_test(test_a_futex_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
