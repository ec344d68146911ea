/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_test.c - tests for what only shared memory can get wrong: other processes.
 *
 * transport_test.c tests what holds for every transport.  Here the other side is a correct
 * child process, or a thread: links, few slots, and hot rings.  mailbox_test.c tests the first
 * packets, memory_test.c reads and bounce buffers, dead_test.c killed processes, fail_test.c
 * failing system calls, and shm_violations_test.c incorrect processes.
 */
#include <pthread.h>
#include <unistd.h>

#include "base/unit.h"
#include "transport/shm/shm_testing.h"

/* ---- two correct processes ---- */

#define STREAM 20000

static void stream_to_0(void)
{
    struct node node;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    stream(&node, connect_to(&node, 0), 0, STREAM);
    await(&node, STREAM);
    node_close(&node);
}

static void streams_between_processes_arrive_whole(UNUSED void **state)
{
    pid_t child = start(stream_to_0);
    struct node node;

    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    await(&node, STREAM);
    assert_int_equal(node.accepted, 1);
    stream(&node, node.link, 0, STREAM);
    ended_well(child);
    await_free_slots(&node);
    node_close(&node);
}

/* ---- links ---- */

#define STRANGERS 40 /* more than fit into the first table */

/* The i-th address of this machine that has no endpoint. */
static struct transport_address stranger(const struct node *node, uint32_t i)
{
    struct transport_address address;

    node->t->ops->address(node->t, &address);
    address.cookie += i / 2;
    address.place += i;
    return address;
}

static struct link *link_to(const struct node *node, const struct transport_address *address)
{
    struct link *link = NULL;

    assert_int_equal(transport_shm.connect(node->t, address, &link), 0);
    assert_ptr_equal(link_of(link)->link.transport, node->t);
    return link;
}

/* The address with one changed byte. */
static struct transport_address with_byte(struct transport_address address, size_t at)
{
    ((unsigned char *)&address)[at] ^= 1;
    return address;
}

/* A link keeps less than an address, but addresses that differ in any byte have different
 * links. */
static void each_address_has_one_link(UNUSED void **state)
{
    struct transport_address address, other;
    struct link *links[STRANGERS];
    struct node node;

    assert_int_equal(node_open(&node), 0);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        address = stranger(&node, i);
        links[i] = link_to(&node, &address);
        for (uint32_t other_i = 0; other_i < i; other_i++)
            assert_ptr_not_equal(links[i], links[other_i]);
    }
    for (uint32_t i = 0; i < STRANGERS; i++) {
        address = stranger(&node, i);
        assert_ptr_equal(link_to(&node, &address), links[i]);
    }
    for (size_t at = 0; at < sizeof address; at++) {
        struct link *link = NULL;

        other = with_byte(address, at);
        if (transport_shm.connect(node.t, &other, &link) == 0)
            assert_ptr_not_equal(link, links[STRANGERS - 1]);
        else
            assert_true(at == offsetof(struct transport_address, kind) ||
                        at / 8 == offsetof(struct transport_address, host) / 8);
    }
    for (uint32_t i = 0; i < STRANGERS; i += 3)
        node.t->ops->forget(links[i]);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        address = stranger(&node, i);
        if (i % 3 != 0)
            assert_ptr_equal(link_to(&node, &address), links[i]);
    }
    node_close(&node);
}

/* ---- few slots ---- */

static void senders_beyond_the_slots_wait_for_one(UNUSED void **state)
{
    struct node owner, sender[4];
    struct transport_config config = config_for(&owner);
    struct link *link[4];

    config.peers = 2;
    assert_int_equal(node_open_with(&owner, &config), 0);
    transport_shm.address(owner.t, &board->address[0]);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(node_open(&sender[i]), 0);
        link[i] = connect_to(&sender[i], 0);
        assert_int_equal(send_number(link[i], 0), i < 2 ? 0 : -EAGAIN);
    }
    assert_int_equal(send_number(link[3], 0), -EAGAIN);
    assert_int_equal(transport_shm.wait(sender[3].t, PATIENCE_NS), 0); /* its wait ends */
    assert_int_equal(send_number(link[3], 0), -EAGAIN);

    node_close(&sender[0]); /* but its packet is still there */
    assert_int_equal(send_number(link[3], 0), -EAGAIN);
    for (unsigned i = 0; i < 10; i++)
        transport_shm.poll(owner.t, 16);
    assert_int_equal(owner.accepted, 2);
    assert_int_equal(send_number(link[3], 0), 0);
    assert_int_equal(send_number(link[2], 0), -EAGAIN);
    for (unsigned i = 1; i < 4; i++)
        node_close(&sender[i]);
    await_free_slots(&owner);
    node_close(&owner);
}

/* The sender has closed, and its packet is unread; another process may have reserved its slot
 * (handoff.c). */
static void send_unread(uint32_t other)
{
    struct node receiver, sender;
    struct link *link;

    assert_int_equal(node_open_as(&receiver, 0), 0);
    assert_int_equal(node_open_as(&sender, 1), 0);
    link = connect_to(&receiver, 1);
    assert_int_equal(send_number(link, 0), 0);
    assert_int_equal(send_number(connect_to(&sender, 0), 0), 0);
    if (other != 0)
        atomic_store(&inside(&receiver)->own->slots[0].sender, slot_word(SLOT_READY, other));
    node_close(&sender);
    assert_false(transport_shm.is_over(link));
    for (unsigned i = 0; i < 10; i++)
        transport_shm.poll(receiver.t, 16);
    assert_int_equal(receiver.arrived, 1);
    assert_true(transport_shm.is_over(link));
    node_close(&receiver);
}

static void a_sender_is_over_when_its_packets_are_read(UNUSED void **state)
{
    send_unread(0);
    if (!nodes_pass)
        send_unread((uint32_t)getppid());
}

/* Exactly the hot rings are not armed (I2 of shm.h). */
static bool hot_is_valid(const struct node *node)
{
    const struct shm *shm = inside(node);
    uint32_t hot = 0;

    for (uint32_t i = 0; i < shm->own->peers; i++) {
        const struct inbound *in = shm->inbound[i];

        if (in == NULL)
            continue;
        if (in->hot != (atomic_load(&in->ring.shared->armed) == 0))
            return false;
        hot += in->hot;
    }
    return hot == shm->hot_count;
}

/* ---- ranks that share cores ---- */

#define MESSAGE 4096

/* Opens with a second cache too small for rings, whatever this machine has. */
static void open_auto(struct node *node, bool shares_cores)
{
    struct transport_config config = config_for(node);

    config.settings.shm.ring_size = UINT64_MAX;
    config.settings.shm.shares_cores = shares_cores;
    config.settings.shm.second_cache = (size_t)1 << 20;
    assert_int_equal(node_open_with(node, &config), 0);
}

/* Messages of 4 KiB that fit while the receiver does not poll. */
static unsigned messages_ahead(bool receiver_shares, bool sender_shares)
{
    static const unsigned char payload[MESSAGE];
    const struct wire_header header = {.type = WIRE_EAGER, .version = WIRE_VERSION};
    const struct transport_packet packet = {
        .header = &header, .payload = payload, .payload_size = MESSAGE};
    struct node receiver, sender;
    unsigned count = 0;
    struct link *link;
    int err;

    open_auto(&receiver, receiver_shares);
    open_auto(&sender, sender_shares);
    /* both have the same largest packet */
    assert_int_equal(sender.t->limits.packet_max, receiver.t->limits.packet_max);
    transport_shm.address(receiver.t, &board->address[0]);
    link = connect_to(&sender, 0);
    while ((err = transport_shm.send(link, &packet)) == 0)
        count++;
    assert_int_equal(err, -EAGAIN);
    node_close(&sender);
    node_close(&receiver);
    return count;
}

/* Two messages in each exchange, and two exchanges ahead. */
static void two_exchanges_go_to_a_receiver_without_a_core(UNUSED void **state)
{
    assert_in_range(messages_ahead(true, true), 4, 8);
    assert_in_range(messages_ahead(true, false), 4, 8);
    assert_int_equal(messages_ahead(false, true), 3);
    assert_int_equal(messages_ahead(false, false), 3);
}

/* ---- a second cache that holds all buffers ---- */

#define LONG_RING_SENDERS (SEGMENT_LONG_RINGS + 2)

static void open_with_cache(struct node *node, size_t second_cache)
{
    struct transport_config config = config_for(node);

    config.settings.shm.ring_size = 0;
    config.settings.shm.second_cache = second_cache;
    config.peers = LONG_RING_SENDERS;
    assert_int_equal(node_open_with(node, &config), 0);
}

/* Messages of 4 KiB that fit while the receiver does not poll; then packets wrap around its
 * ring. */
static unsigned fill_and_go_round(struct node *receiver, struct node *sender)
{
    static const unsigned char payload[MESSAGE];
    const struct wire_header header = {.type = WIRE_EAGER, .version = WIRE_VERSION};
    const struct transport_packet packet = {
        .header = &header, .payload = payload, .payload_size = MESSAGE};
    struct link *link = connect_to(sender, 0);
    unsigned count = 0, tries = 1000;
    int err;

    while (transport_shm.send(link, &packet) == 0)
        count++;
    receiver->arrived = 0;
    while (receiver->arrived < count)
        transport_shm.poll(receiver->t, 1);
    receiver->arrived = 0;
    receiver->wrong = false;
    for (uint64_t at = 0; at < 1000; at++) {
        while ((err = send_number(link, at)) == -EAGAIN && tries-- > 0) {
            transport_shm.poll(receiver->t, 16);
            transport_shm.poll(sender->t, 16); /* learns that there is space again */
        }
        assert_int_equal(err, 0);
        await(receiver, at + 1);
    }
    assert_false(receiver->wrong);
    return count;
}

static void fill_rings(size_t second_cache, unsigned ahead[LONG_RING_SENDERS])
{
    struct node receiver, sender[LONG_RING_SENDERS];

    open_with_cache(&receiver, second_cache);
    transport_shm.address(receiver.t, &board->address[0]);
    for (unsigned i = 0; i < LONG_RING_SENDERS; i++) {
        open_with_cache(&sender[i], second_cache);
        assert_int_equal(sender[i].t->limits.packet_max, receiver.t->limits.packet_max);
        ahead[i] = fill_and_go_round(&receiver, &sender[i]);
    }
    for (unsigned i = 0; i < LONG_RING_SENDERS; i++)
        node_close(&sender[i]);
    node_close(&receiver);
}

static void the_first_rings_are_long_where_a_second_cache_holds_all(UNUSED void **state)
{
    unsigned ahead[LONG_RING_SENDERS];

    fill_rings((size_t)2 << 20, ahead);
    for (unsigned i = 0; i < LONG_RING_SENDERS; i++)
        assert_int_equal(ahead[i], i < SEGMENT_LONG_RINGS ? 15 : 3);
    fill_rings((size_t)1 << 20, ahead);
    for (unsigned i = 0; i < LONG_RING_SENDERS; i++)
        assert_int_equal(ahead[i], 3);
}

static void quiet_rings_are_not_polled(UNUSED void **state)
{
    struct node owner, sender[8];
    struct link *link[8];

    assert_int_equal(node_open_as(&owner, 0), 0);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(node_open(&sender[i]), 0);
        link[i] = connect_to(&sender[i], 0);
        owner.arrived = 0;
        assert_int_equal(send_number(link[i], 0), 0);
        await(&owner, 1);
    }
    assert_int_equal(inside(&owner)->hot_count, 8);
    for (unsigned i = 0; i < 10000; i++)
        transport_shm.poll(owner.t, 16);
    assert_int_equal(inside(&owner)->hot_count, 4);
    for (unsigned round = 1; round < 50; round++) {
        for (unsigned i = 0; i < 8; i++) {
            owner.arrived = round;
            assert_int_equal(send_number(link[i], round), 0);
            for (unsigned k = 0; k < 4; k++)
                transport_shm.poll(owner.t, 16);
            assert_int_equal(owner.arrived, round + 1);
            assert_true(hot_is_valid(&owner));
        }
        for (unsigned i = 0; i < 5000; i++)
            transport_shm.poll(owner.t, 16);
        assert_true(hot_is_valid(&owner));
    }
    for (unsigned i = 0; i < 8; i++)
        node_close(&sender[i]);
    await_free_slots(&owner);
    assert_false(owner.wrong);
    node_close(&owner);
}

static void nobody_waits_for_a_sender_that_left(UNUSED void **state)
{
    struct node owner, sender;

    assert_int_equal(node_open_as(&owner, 0), 0);
    payload_limit = 100;
    for (unsigned i = 0; i < 50; i++) { /* more senders than slots */
        assert_int_equal(node_open(&sender), 0);
        owner.arrived = 0;
        for (unsigned number = 0; number < 200; number++) { /* once around the ring */
            assert_int_equal(send_number(connect_to(&sender, 0), number), 0);
            if (number % 3 == 0)
                await(&owner, number + 1);
            transport_shm.poll(owner.t, 1); /* sometimes one poll too many */
        }
        node_close(&sender);
        await(&owner, 200);
        transport_shm.poll(owner.t, 16);
        assert_int_equal(slots_taken(&owner), 0);
    }
    assert_int_equal(transport_shm.wait(owner.t, CLOCK_MS), -ETIMEDOUT);
    node_close(&owner);
}

/* ---- two threads ---- */

struct half {
    struct node node;
    unsigned other;
    uint64_t rounds;
    uint64_t sum;
};

/* A value that only the packets order: a thread checker notices if they do not. */
static uint64_t baton;

static void *run_half(void *arg)
{
    struct half *half = arg;
    struct link *link = connect_to(&half->node, half->other);

    for (uint64_t i = 0; i < half->rounds; i++) {
        if (half->other == 0)
            await(&half->node, i + 1);
        baton++;
        stream(&half->node, link, i, i + 1);
        if (half->other == 1)
            await(&half->node, i + 1);
    }
    return NULL;
}

static void run_both(void *(*run)(void *))
{
    struct half half[2] = {{.other = 1, .rounds = 5000}, {.other = 0, .rounds = 5000}};
    pthread_t thread[2];

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(node_open_as(&half[i].node, i), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, &half[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < 2; i++)
        node_close(&half[i].node);
}

static void two_threads_hand_over_what_they_wrote(UNUSED void **state)
{
    baton = 0;
    run_both(run_half);
    assert_int_equal(baton, 10000);
}

static void *stream_half(void *arg)
{
    struct half *half = arg;

    stream(&half->node, connect_to(&half->node, half->other), 0, half->rounds);
    await(&half->node, half->rounds);
    return NULL;
}

static void two_threads_stream_both_ways(UNUSED void **state)
{
    run_both(stream_half);
}

/* Argument "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(streams_between_processes_arrive_whole),
        TEST(each_address_has_one_link),
        TEST(senders_beyond_the_slots_wait_for_one),
        TEST(a_sender_is_over_when_its_packets_are_read),
        TEST(two_exchanges_go_to_a_receiver_without_a_core),
        TEST(the_first_rings_are_long_where_a_second_cache_holds_all),
        TEST(quiet_rings_are_not_polled),
        TEST(nobody_waits_for_a_sender_that_left),
        TEST(two_threads_hand_over_what_they_wrote),
        TEST(two_threads_stream_both_ways),
    };

    nodes_pass = is_passed(argc, argv);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
