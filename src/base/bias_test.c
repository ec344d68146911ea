/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bias_test.c - one thread at a time uses the data, however a second one comes.
 *
 * The data is plain memory, so ThreadSanitizer reports each way to use it that does not order
 * earlier writes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bias.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"

#define SWITCHES 10000
#define CALLS    40          /* of each thread, for each switch */
#define FAR      (64u << 20) /* bytes, more than the caches hold */

/* The data of the threads.  Both counts are equal while nobody is in the middle of a call. */
struct data {
    struct bias bias;
    struct lock lock;
    bool is_shared; /* guarded by the bias */
    unsigned shares;
    uint64_t begun, ended; /* guarded by the bias, and then by the lock */
};

static struct data data; /* of the single cases */

static bool has_begun = true;
static _Atomic bool is_gone;
static _Atomic unsigned meetings;
static _Atomic unsigned looks; /* whether the owner is gone */

/* A failed check of cmocka calls longjmp, which must not happen in another thread. */
static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bias_test: %s\n", what);
    abort();
}

static void share(struct bias *bias)
{
    struct data *d = container_of(bias, struct data, bias);

    check(d->begun == d->ended, "a thread is inside while the data is switched");
    d->shares++;
    d->is_shared = true;
}

static bool begun(void)
{
    return has_begun;
}

static bool gone(void)
{
    atomic_fetch_add(&looks, 1);
    return is_gone;
}

static void meets(void)
{
    atomic_fetch_add(&meetings, 1);
}

static const struct bias_use use = {
    .meets = meets, .share = share, .has_begun = begun, .is_gone = gone};

static void data_open(bool has_barrier)
{
    memset(&data, 0, sizeof data);
    has_begun = true;
    is_gone = false;
    assert_int_equal(bias_open(&data.bias, &use, true), has_barrier);
    data.is_shared = !has_barrier;
}

static int reset(UNUSED void **state)
{
    sys_fail_none();
    clock_set(NULL);
    log_set_sink(NULL, NULL);
    return 0;
}

static void pause_for(uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
        cpu_relax();
}

/* ---- calls ---- */

/* Uses the data: with the lock once it is shared. */
static void use_data(struct data *d, uint64_t turns)
{
    bool is_locked = d->is_shared;

    if (is_locked)
        lock_take(&d->lock);
    check(d->begun == d->ended, "two are inside");
    d->begun++;
    pause_for(turns);
    d->ended++;
    if (is_locked)
        lock_give(&d->lock);
}

/* A call that uses the data around a nested one. */
static void use_nested(struct data *d, uint64_t turns)
{
    if (d->is_shared) {
        use_data(d, turns);
        return;
    }
    d->begun++;
    bias_enter(&d->bias);
    check(!d->is_shared, "a nested call gives the data up");
    check(!bias_step_out(&d->bias), "a nested call steps out");
    bias_leave(&d->bias);
    pause_for(turns);
    d->ended++;
}

/* A store that misses the caches: the store that counts the owner inside waits for it, so that
 * the barrier matters. */
static _Atomic unsigned char far_away[FAR];

static void call(struct data *d, struct random *random)
{
    uint64_t kind = random_below(random, 8), turns = random_below(random, 10);

    atomic_store_explicit(&far_away[random_below(random, FAR)], 1, memory_order_relaxed);
    bias_enter(&d->bias);
    use_data(d, turns);
    if (kind == 1) {
        use_nested(d, turns);
    } else if (kind == 2) {
        bool was_inside = bias_step_out(&d->bias);

        pause_for(turns);
        bias_step_in(&d->bias, was_inside);
        use_data(d, turns);
    }
    bias_leave(&d->bias);
}

/* ---- many switches ---- */

static struct data many[SWITCHES];
static _Atomic unsigned reached[2]; /* the data at which each thread is, + 1 */

/* Waits a little for the other thread, to meet it in its calls of the same data. */
static void meet(unsigned which, unsigned round)
{
    atomic_store_explicit(&reached[which], round + 1, memory_order_relaxed);
    for (int i = 0;
         i < 1000 && atomic_load_explicit(&reached[!which], memory_order_relaxed) <= round; i++)
        cpu_relax();
}

static void *make_calls(void *arg)
{
    unsigned which = *(unsigned *)arg;
    struct random random;

    random_seed(&random, which);
    for (unsigned round = 0; round < SWITCHES; round++) {
        meet(which, round);
        if (which == 1) /* the moment of a call of thread 0 */
            pause_for(random_below(&random, 200));
        for (int i = 0; i < CALLS; i++)
            call(&many[round], &random);
    }
    return NULL;
}

static void test_many_switches(UNUSED void **state)
{
    unsigned which[2] = {0, 1};
    pthread_t threads[2];

    has_begun = true;
    is_gone = false;
    memset(many, 0, sizeof many);
    for (int i = 0; i < SWITCHES; i++)
        assert_true(bias_open(&many[i].bias, &use, true));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_calls, &which[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SWITCHES; i++) {
        assert_int_equal(many[i].shares, 1);
        assert_true(many[i].begun == many[i].ended);
        assert_true(many[i].begun >= 2 * CALLS);
        assert_int_equal(many[i].bias.inside, 0);
        assert_int_equal(many[i].bias.state, BIAS_SHARED);
    }
}

/* ---- single cases ---- */

static void *call_once(void *arg)
{
    bias_enter(&data.bias);
    use_data(&data, 0);
    bias_leave(&data.bias);
    return arg;
}

static void call_in_thread(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, call_once, NULL), 0);
    pthread_join(thread, NULL);
}

static void test_one_thread_shares_nothing(UNUSED void **state)
{
    data_open(true);
    for (int i = 0; i < 100; i++)
        call_once(NULL);
    bias_enter(&data.bias);
    bias_enter(&data.bias);
    assert_int_equal(data.bias.inside, 2);
    assert_false(bias_step_out(&data.bias));
    bias_leave(&data.bias);
    assert_true(bias_step_out(&data.bias));
    assert_int_equal(data.bias.inside, 0);
    bias_step_in(&data.bias, true);
    assert_int_equal(data.bias.inside, 1);
    bias_leave(&data.bias);
    assert_int_equal(data.shares, 0);
    assert_int_equal(data.bias.state, BIAS_OWNED);
}

/* An owner that is between two calls, or has ended, is outside. */
static void test_a_second_thread_shares(UNUSED void **state)
{
    data_open(true);
    call_once(NULL);
    call_in_thread();
    assert_int_equal(data.shares, 1);
    call_once(NULL);
    assert_int_equal(data.shares, 1);
    assert_int_equal(data.begun, 3);
    data_open(true);
    call_in_thread(); /* the owner, which ends */
    call_once(NULL);
    assert_int_equal(data.shares, 1);
}

/* An owner that sleeps has stepped out. */
static void test_an_owner_that_sleeps(UNUSED void **state)
{
    bool was_inside;

    data_open(true);
    bias_enter(&data.bias);
    was_inside = bias_step_out(&data.bias);
    call_in_thread();
    bias_step_in(&data.bias, was_inside);
    assert_true(data.is_shared);
    use_data(&data, 0);
    bias_leave(&data.bias);
    assert_int_equal(data.bias.inside, 0);
}

/* Calls before the beginning make no owner. */
static void test_the_thread_that_prepares_is_no_owner(UNUSED void **state)
{
    data_open(true);
    has_begun = false;
    atomic_store(&meetings, 0);
    call_once(NULL);
    assert_int_equal(data.bias.inside, 0);
    assert_int_equal(meetings, 0);
    has_begun = true;
    call_in_thread();
    assert_int_equal(data.shares, 0);
    call_once(NULL);
    assert_int_equal(data.shares, 1);
}

static void test_without_membarrier_all_is_shared(UNUSED void **state)
{
    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, ENOSYS);
    data_open(false);
    call_once(NULL);
    call_in_thread();
    assert_int_equal(data.shares, 0);
    assert_int_equal(data.begun, 2);
    memset(&data, 0, sizeof data);
    sys_fail_none();
    assert_false(bias_open(&data.bias, &use, false));
}

/* The owner once, and others each time. */
static void test_threads_are_met(UNUSED void **state)
{
    data_open(true);
    atomic_store(&meetings, 0);
    call_once(NULL);
    call_once(NULL);
    assert_int_equal(meetings, 1);
    call_in_thread();
    assert_int_equal(meetings, 2);
    call_once(NULL);
    assert_int_equal(meetings, 3);
}

/* It was promised, and fails: the switch takes longer. */
static void test_a_membarrier_that_fails(UNUSED void **state)
{
    data_open(true);
    call_once(NULL);
    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, EPERM);
    call_in_thread();
    assert_int_equal(data.shares, 1);
}

/* ---- an owner that stays inside ---- */

static _Atomic uint64_t now_ns;
static _Atomic int told;
static char line[LOG_LINE_MAX];

static uint64_t quick_clock(void)
{
    return atomic_fetch_add(&now_ns, CLOCK_S);
}

static void remember(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    snprintf(line, sizeof line, "%s", text);
    atomic_fetch_add(&told, 1);
}

/* The second thread reports once which thread it waits for, and waits on. */
static void test_an_owner_that_is_stopped_inside(UNUSED void **state)
{
    char owner[32];
    pthread_t thread;
    unsigned later;

    data_open(true);
    told = 0;
    log_set_sink(remember, NULL);
    clock_set(quick_clock);
    bias_enter(&data.bias);
    assert_int_equal(pthread_create(&thread, NULL, call_once, NULL), 0);
    while (told == 0)
        sys_yield();
    later = looks + 1200;
    while (looks < later)
        sys_yield();
    assert_int_equal(data.shares, 0);
    bias_leave(&data.bias);
    pthread_join(thread, NULL);
    assert_int_equal(told, 1);
    assert_int_equal(data.shares, 1);
    snprintf(owner, sizeof owner, "waits for thread %d,", (int)getpid()); /* the first thread */
    assert_non_null(strstr(line, owner));
    assert_non_null(strstr(line, "continue it"));
}

/* After fork() the owner may be inside for ever. */
static void test_an_owner_that_is_gone(UNUSED void **state)
{
    data_open(true);
    bias_enter(&data.bias);
    is_gone = true;
    call_in_thread();
    assert_int_equal(data.shares, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, reset)
    const struct CMUnitTest tests[] = {
        TEST(test_one_thread_shares_nothing),
        TEST(test_a_second_thread_shares),
        TEST(test_an_owner_that_sleeps),
        TEST(test_the_thread_that_prepares_is_no_owner),
        TEST(test_without_membarrier_all_is_shared),
        TEST(test_threads_are_met),
        TEST(test_a_membarrier_that_fails),
        TEST(test_an_owner_that_is_stopped_inside),
        TEST(test_an_owner_that_is_gone),
        TEST(test_many_switches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
