/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dead_test.c - senders and receivers are killed while they stream, reserve a slot or receive.
 */
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/unit.h"
#include "transport/memory.h"
#include "transport/shm/shm_testing.h"

/* ---- dead processes ---- */

static void stream_until_killed(void)
{
    struct node node;
    struct link *link;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = connect_to(&node, 0);
    for (uint64_t i = 0;;) {
        int err = send_number(link, i);

        if (err == 0)
            atomic_store(&board->number, ++i);
        else
            CHECK(err == -EAGAIN);
    }
}

/* Waits until a packet was sent that node has not taken. */
static void await_more(const struct node *node)
{
    uint64_t deadline = clock_now() + (uint64_t)PATIENCE_NS;

    while (atomic_load(&board->number) <= node->arrived && clock_now() < deadline)
        sched_yield();
    CHECK(atomic_load(&board->number) > node->arrived);
}

/* Kills the child somewhere in its stream, and leaves a zombie, which counts as dead. */
static void kill_a_stream(uint64_t after)
{
    pid_t child = start(stream_until_killed);
    struct node node;
    uint64_t sent;

    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    await(&node, after);
    await_more(&node);
    kill_unreaped(child);
    assert_true(inbound_sweep(inside(&node), 8)); /* noticed before it is drained */
    await_free_slots(&node);
    sent = atomic_load(&board->number);
    assert_in_range(node.arrived, sent, sent + 1); /* killed before it could count */
    assert_false(node.wrong);
    assert_int_equal(node.dropped, 0);
    reap(child);
    node_close(&node);
    stage_set(0);
}

/* A sender that loses its core between writing a packet and looking whether the receiver sleeps
 * finds that the receiver has closed.  A packet that the receiver had taken counts as sent. */
static void what_was_taken_before_the_close_was_sent(UNUSED void **state)
{
    for (unsigned taken = 0; taken < 2; taken++) {
        struct node sender, receiver;
        struct shm_link *link;

        assert_int_equal(node_open_as(&receiver, 0), 0);
        assert_int_equal(node_open_as(&sender, 1), 0);
        link = link_of(attach_to(&sender, 0));
        for (uint64_t i = 0; i < 10; i++)
            assert_int_equal(send_number(&link->link, i), 0);
        if (taken)
            await(&receiver, 10);
        node_close(&receiver);
        assert_int_equal(link_armed(link), taken ? 0 : -ENOTCONN);
        assert_int_equal(send_number(&link->link, 10), -ENOTCONN);
        node_close(&sender);
    }
}

static void what_a_killed_sender_sent_arrives(UNUSED void **state)
{
    for (uint64_t i = 1; i <= 10; i++)
        kill_a_stream(i * 100);
}

static void reserve_and_die(void)
{
    struct node node;
    struct shm_link *link;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(attach_to(&node, 0));
    atomic_store(&link->remote->control->used, 4); /* as a sender sets before it reserves */
    atomic_store(&link->remote->slots[3].sender,
                 slot_word(SLOT_RESERVED, inside(&node)->address.process));
    raise(SIGKILL);
}

static void a_slot_of_a_sender_killed_while_reserving_is_freed(UNUSED void **state)
{
    pid_t child = start(reserve_and_die);
    struct node node;

    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    reap(child);
    assert_int_equal(slots_taken(&node), 1);
    await_free_slots(&node);
    node_close(&node);
}

static void sending_to_a_killed_receiver_fails(UNUSED void **state)
{
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;
    uint64_t number = 0;
    int err;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = attach_to(&node, 1);
    assert_int_equal(send_number(link, number++), 0);
    kill_unreaped(child);
    do {
        err = send_number(link, number);
        number += err == 0;
    } while (err == 0 || err == -EAGAIN);
    assert_int_equal(err, -ENOTCONN);
    assert_int_equal(send_number(link, 0), -ENOTCONN);
    reap(child);
    node_close(&node);
}

static void a_killed_receiver_is_noticed_while_asleep(UNUSED void **state)
{
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = attach_to(&node, 1);
    assert_int_equal(send_number(link, 0), 0);
    kill_unreaped(child);
    assert_int_equal(transport_shm.wait(node.t, PATIENCE_NS), 0);
    assert_int_equal(send_number(link, 1), -ENOTCONN);
    reap(child);
    node_close(&node);
}

static uint64_t stopped_ns;

static uint64_t stopped(void)
{
    return stopped_ns;
}

/* System calls except poll(), which the thread that passes segments makes when it gets a
 * core. */
static uint64_t calls_of_ours(void)
{
    uint64_t polls, calls;

    do {
        polls = sys_calls_of("poll");
        calls = sys_calls() - polls;
    } while (polls != sys_calls_of("poll"));
    return calls;
}

/* System calls of this many polls in which nothing arrives. */
static uint64_t calls_of_polls(struct node *node, unsigned polls)
{
    uint64_t before = calls_of_ours();

    for (unsigned i = 0; i < polls; i++)
        transport_shm.poll(node->t, 16);
    return calls_of_ours() - before;
}

/* The time until the first check for dead peers begins with the first poll: otherwise, in a job
 * in which all processes meet, each would ask the system about all others, from which it has
 * just heard. */
static void a_peer_just_met_is_not_looked_for(UNUSED void **state)
{
    pid_t child = start(only_exist);
    struct node node;

    stage_await(1);
    stopped_ns = clock_now();
    clock_set(stopped);
    assert_int_equal(node_open(&node), 0);
    stopped_ns += CLOCK_S; /* time in which the program does not poll */
    assert_int_equal(send_number(attach_to(&node, 1), 0), 0);
    assert_int_equal(calls_of_polls(&node, 3000), 0);
    stopped_ns += 99 * CLOCK_MS;
    assert_int_equal(calls_of_polls(&node, 3000), 0);
    stopped_ns += CLOCK_MS;
    assert_in_range(calls_of_polls(&node, 3000), 1, 10);
    assert_int_equal(calls_of_polls(&node, 3000), 0);
    clock_set(NULL);
    node_close(&node);
    kill_unreaped(child);
    reap(child);
}

/* The slot's previous sender has set its bit late, and died before it rang. */
static void a_first_packet_that_rang_for_nobody_is_found(UNUSED void **state)
{
    struct node node, sender;
    struct link *link;

    payload_limit = 8; /* one cell */
    stopped_ns = clock_now();
    clock_set(stopped);
    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    calls_of_polls(&node, 3000); /* starts the time until the next check for dead peers */
    link = connect_to(&sender, 0);
    atomic_fetch_or(&inside(&node)->control->ready[0], UINT64_C(1));
    assert_int_equal(send_number(link, 0), 0);
    assert_int_equal(link_of(link)->slot, 0);
    calls_of_polls(&node, 3000);
    assert_int_equal(node.arrived, 0);
    stopped_ns += 100 * CLOCK_MS;
    calls_of_polls(&node, 3000);
    assert_int_equal(node.arrived, 1);
    clock_set(NULL);
    node_close(&sender);
    node_close(&node);
}

/* A copy of this process with this pid, which waits to be killed; or -1. */
static pid_t start_as(pid_t number)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

/* Its memory now belongs to another process, with other contents at the same address. */
static void memory_of_a_number_that_is_used_again_is_left_alone(UNUSED void **state)
{
    pid_t child = start(only_exist), other;
    unsigned char byte = 0;
    struct link *link;
    struct node node;

    stage_await(1);
    stopped_ns = clock_now();
    clock_set(stopped);
    assert_int_equal(node_open(&node), 0);
    link = attach_to(&node, 1);
    assert_int_equal(transport_read(link, &byte, board->remote, board->key, 1, NULL), 0);
    assert_int_equal(byte, byte_of(5, 0));
    kill_unreaped(child);
    reap(child);
    other = start_as(child);
    stopped_ns += 10 * CLOCK_MS;
    if (other == child)
        assert_int_equal(transport_write(link, board->remote, board->key, &byte, 1, NULL),
                         -ENOTCONN);
    clock_set(NULL);
    node_close(&node);
    if (other != child)
        skip(); /* only root may choose a pid, and it may be in use */
    kill_unreaped(other);
    reap(other);
}

/* Argument "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_taken_before_the_close_was_sent),
        TEST(what_a_killed_sender_sent_arrives),
        TEST(a_slot_of_a_sender_killed_while_reserving_is_freed),
        TEST(sending_to_a_killed_receiver_fails),
        TEST(a_killed_receiver_is_noticed_while_asleep),
        TEST(a_peer_just_met_is_not_looked_for),
        TEST(a_first_packet_that_rang_for_nobody_is_found),
        TEST(memory_of_a_number_that_is_used_again_is_left_alone),
    };

    nodes_pass = is_passed(argc, argv);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
