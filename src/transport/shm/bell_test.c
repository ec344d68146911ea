/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell_test.c - every sleeper is woken when there is something for it.
 *
 * No sleep is endless: each sleeper checks by itself after 100 ms, and a lost wake-up would
 * only cost time.  In these tests sleepers do not check (sys_trust_wakes): one that is not
 * woken aborts.  The test of the barriers makes both sides meet instead.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/patience.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/shm/shm_testing.h"

#define ROUNDS 20000

/* Answers each packet with one, and sleeps in between. */
static void echo(struct node *node, uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        await(node, i + 1);
        stream(node, node->link, i, i + 1);
    }
}

static void echo_child(void)
{
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    stage_set(1);
    echo(&node, ROUNDS);
    node_close(&node);
}

static void ping(struct node *node, uint64_t rounds)
{
    struct link *link = connect_to(node, 1);

    for (uint64_t i = 0; i < rounds; i++) {
        stream(node, link, i, i + 1);
        await(node, i + 1);
    }
}

static void no_wake_is_lost(UNUSED void **state)
{
    pid_t child = start(echo_child);
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    ping(&node, ROUNDS);
    ended_well(child);
    node_close(&node);
}

#define RACES 20000

/* Polls without sleeping, but yields on a machine with one core; has a time limit. */
static void spin(unsigned *turns)
{
    if (++*turns % 1000 == 0)
        sched_yield();
    CHECK(*turns < 1u << 30);
    cpu_relax();
}

/* Waits some nanoseconds for each turn. */
static void idle(uint64_t turns)
{
    for (volatile uint64_t left = turns; left > 0;)
        left = left - 1;
}

/* Sends packet i as soon as the other side requests it. */
static void race_child(void)
{
    struct link *link;
    struct node node;

    stage_await(1);
    CHECK(node_open(&node) == 0);
    link = connect_to(&node, 0);
    for (uint64_t i = 0; i < RACES; i++) {
        for (unsigned turns = 0; atomic_load(&board->number) != i + 1;)
            spin(&turns);
        /* fetches the line: armed can then be read before the published packet is visible */
        if (i != 0)
            atomic_load(&link_of(link)->out.shared->armed);
        CHECK(send_number(link, i) == 0);
        atomic_store(&board->stage, (uint32_t)i + 2);
    }
    node_close(&node);
}

static void race_fenced_child(void)
{
    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, ENOSYS);
    race_child();
}

/* Arms just when the sender publishes, each time at another moment.  Did the receiver see the
 * packet, or the sender ring?  If neither, the second look must find it. */
static bool race(struct node *node, uint64_t i)
{
    struct shm *shm = inside(node);
    bool seen, rang;

    assert_false(inbound_any(shm)); /* also fetches the line that the sender writes next */
    atomic_store(&board->number, i + 1);
    idle(i * 13 % 200);
    inbound_arm_all(shm);
    assert_true(bell_arm_barrier(shm->own));
    seen = inbound_any(shm);
    for (unsigned turns = 0; atomic_load(&board->stage) < i + 2;)
        spin(&turns);
    rang = atomic_load(&shm->bell->count) != shm->base.hint.seen;
    if (seen || rang) {
        inbound_disarm_all(shm);
    } else {
        inbound_retire_all(shm);
        assert_true(inbound_recheck(shm, clock_now() + SHM_DOUBT_NS));
    }
    await(node, i + 1);
    return seen || rang;
}

/* Counts how often neither the receiver saw the packet nor the sender rang. */
static unsigned race_against(void (*sender)(void))
{
    struct node node;
    unsigned missed = 0;
    pid_t child;

    payload_limit = 1; /* for speed */
    child = start(sender);
    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    for (uint64_t i = 0; i < RACES; i++)
        missed += !race(&node, i);
    ended_well(child);
    await_free_slots(&node);
    node_close(&node);
    return missed;
}

static void arming_and_publishing_cannot_miss_each_other(UNUSED void **state)
{
    assert_int_equal(race_against(race_fenced_child), 0);
}

/* The system decides whether membarrier reaches the sender, so misses are not checked. */
static void what_membarrier_missed_is_found(UNUSED void **state)
{
    (void)race_against(race_child);
}

/* The sender reads armed before the receiver arms, and its packet becomes visible only then. */
static void send_unseen(struct link *link, uint64_t number)
{
    struct ring *ring = link_of(link)->out.shared;

    atomic_store(&ring->armed, 0);
    assert_int_equal(send_number(link, number), 0);
    atomic_store(&ring->armed, 1);
}

static void cool_all(struct node *node)
{
    struct shm *shm = inside(node);

    inbound_arm_all(shm);
    assert_true(bell_arm_barrier(shm->own));
    assert_false(inbound_any(shm));
    inbound_retire_all(shm);
}

/* Packets without a ring: one while the receiver sleeps, one while it polls. */
static void what_nobody_rang_for_is_found(UNUSED void **state)
{
    struct node receiver, sender;
    struct link *link;

    assert_int_equal(node_open_as(&receiver, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = connect_to(&sender, 0);
    assert_int_equal(send_number(link, 0), 0);
    await(&receiver, 1);
    cool_all(&receiver);
    send_unseen(link, 1);
    await(&receiver, 2);
    cool_all(&receiver);
    send_unseen(link, 2);
    for (unsigned turns = 0; receiver.arrived < 3; spin(&turns))
        transport_shm.poll(receiver.t, 1);
    assert_false(receiver.wrong);
    node_close(&sender);
    await_free_slots(&receiver);
    node_close(&receiver);
}

/* Rings that are armed later neither bring the second look forward nor put it off for ever. */
static void doubts_end(UNUSED void **state)
{
    struct node node;
    struct shm *shm;

    assert_int_equal(node_open(&node), 0);
    shm = inside(&node);
    inbound_doubt(shm, 1000);
    inbound_doubt(shm, 1500);
    assert_int_equal(inbound_doubt_left(shm, 1600), SHM_DOUBT_NS - 600);
    inbound_recheck(shm, SHM_DOUBT_NS + 1000);
    assert_true(shm->doubt);
    inbound_recheck(shm, 2 * SHM_DOUBT_NS + 1000);
    assert_false(shm->doubt);
    node_close(&node);
}

/* A sender counts, but looks for a sleeper only after the sleeper has answered and sleeps
 * again. */
static void a_late_sender_rouses_nobody(UNUSED void **state)
{
    struct segment_bell bell = {0};
    uint32_t seen, late;

    late = bell_count(&bell);
    seen = atomic_load(&bell.count);
    bell_lie_down(&bell, seen);
    bell_rouse(&bell, late);
    assert_int_not_equal(atomic_load(&bell.sleeping), 0); /* the next wake will find it */
    bell_wake(&bell);
    assert_int_equal(atomic_load(&bell.sleeping), 0);
    atomic_store(&bell.count, UINT32_MAX - 1); /* the count wraps around */
    bell_lie_down(&bell, UINT32_MAX - 1);
    bell_wake(&bell);
    assert_int_equal(atomic_load(&bell.sleeping), 0);
    assert_int_equal(atomic_load(&bell.count), 0);
}

static void echo_without_membarrier(void)
{
    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, ENOSYS);
    echo_child();
}

/* The owner of a segment without membarrier requests fences from senders; a sender that could
 * not register also uses them. */
static void no_wake_is_lost_without_membarrier(UNUSED void **state)
{
    pid_t child = start(echo_without_membarrier);
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    ping(&node, 3000);
    assert_true(link_of(connect_to(&node, 1))->fence);
    kill_unreaped(child);
    reap(child);
    node_close(&node);
}

/* Later failures of membarrier make sleeps short, not endless. */
static void a_late_failure_of_membarrier_is_survived(UNUSED void **state)
{
    pid_t child = start(echo_child);
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    assert_false(inside(&node)->own->needs_fence);
    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, ENOMEM);
    ping(&node, 500);
    kill_unreaped(child);
    reap(child);
    node_close(&node);
}

static void *stand_by(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return lock;
}

/* Polls until the process is registered, or registration has failed. */
static void settle(struct node *node)
{
    unsigned turns = 0;

    while (inside(node)->registers) {
        transport_shm.poll(node->t, 1);
        spin(&turns);
    }
}

/* Opens a node in a process with two threads; the other one waits until lock is free. */
static void open_with_threads(struct node *node, pthread_mutex_t *lock, pthread_t *other)
{
    pthread_mutex_lock(lock);
    CHECK(pthread_create(other, NULL, stand_by, lock) == 0);
    CHECK(node_open(node) == 0);
    CHECK(!inside(node)->registers || inside(node)->fence);
}

static void close_with_threads(struct node *node, pthread_mutex_t *lock, pthread_t other)
{
    node_close(node);
    pthread_mutex_unlock(lock);
    pthread_join(other, NULL);
}

static void ping_with_threads(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct node node;
    pthread_t other;

    open_with_threads(&node, &lock, &other);
    stage_await(1);
    ping(&node, ROUNDS);
    settle(&node);
    CHECK(!inside(&node)->fence && !link_of(connect_to(&node, 1))->fence);
    close_with_threads(&node, &lock, other);
}

/* A process with several threads is registered by one more thread.  Until then its senders use
 * fences. */
static void a_process_with_threads_is_registered_by_one_more(UNUSED void **state)
{
    pid_t child = start(echo_child), pinging = start(ping_with_threads);

    ended_well(pinging);
    ended_well(child);
}

static void settle_without_membarrier(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct node node;
    pthread_t other;

    sys_fail_name("membarrier", SYS_FAIL_ALWAYS, ENOSYS);
    open_with_threads(&node, &lock, &other);
    settle(&node);
    CHECK(inside(&node)->fence);
    close_with_threads(&node, &lock, other);
}

static void a_process_that_cannot_register_keeps_its_fences(UNUSED void **state)
{
    ended_well(start(settle_without_membarrier));
}

#define SLOW 3000 /* packets: they fill the ring some 200 times */

static void slow_reader(void)
{
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    stage_set(1);
    while (node.arrived < SLOW) {
        transport_shm.poll(node.t, 1);
        if (node.arrived % 8 == 0)
            usleep(100);
    }
    CHECK(!node.wrong);
    node_close(&node);
}

static void a_sleeping_sender_is_woken_by_space(UNUSED void **state)
{
    pid_t child = start(slow_reader);
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    stream(&node, connect_to(&node, 1), 0, SLOW);
    ended_well(child);
    node_close(&node);
}

static int trust_wakes(void **state)
{
    sys_trust_wakes(PATIENCE_NS);
    return set_up_all(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_wake_is_lost),
        TEST(arming_and_publishing_cannot_miss_each_other),
        TEST(what_membarrier_missed_is_found),
        TEST(what_nobody_rang_for_is_found),
        TEST(doubts_end),
        TEST(a_late_sender_rouses_nobody),
        TEST(no_wake_is_lost_without_membarrier),
        TEST(a_process_with_threads_is_registered_by_one_more),
        TEST(a_process_that_cannot_register_keeps_its_fences),
        TEST(a_late_failure_of_membarrier_is_survived),
        TEST(a_sleeping_sender_is_woken_by_space),
    };

    return cmocka_run_group_tests(tests, trust_wakes, tear_down_all);
}
