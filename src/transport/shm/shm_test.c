/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_test.c - what only shared memory can get wrong: other processes.
 *
 * transport_test.c has what holds for every transport.  Here the other side is a child
 * process that means well: it streams, sleeps, and is killed.  shm_violations_test.c has
 * those that do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/lend.h"
#include "transport/memory.h"
#include "transport/shm/shm_testing.h"

/* ---- two processes that mean well ---- */

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

static void streams_between_processes_arrive_whole(void **state)
{
    pid_t child = start(stream_to_0);
    struct node node;

    (void)state;
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

/* The i-th address of this machine, at which nobody is. */
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

/* A byte of it is another one. */
static struct transport_address with_byte(struct transport_address address, size_t at)
{
    ((unsigned char *)&address)[at] ^= 1;
    return address;
}

/* A link keeps less than an address, and tells apart what differs in any byte of it. */
static void each_address_has_one_link(void **state)
{
    struct transport_address address, other;
    struct link *links[STRANGERS];
    struct node node;

    (void)state;
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

/* ---- the first packets ---- */

#define SHORT 8 /* payloads below this go into one cell */

/* Packets of one cell do not touch the ring, nor map it, until the starter is full. */
static void begin_in_a_starter(void)
{
    struct node node;
    const struct segment_file *file = NULL;
    struct shm_link *link;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(connect_to(&node, 0));
    for (uint64_t i = 0; i < SEGMENT_STARTER_MOST; i++) {
        CHECK(send_number(&link->link, i) == 0);
        file = link->remote->file;
        CHECK(link->state == LINK_STARTING);
        CHECK(file == NULL || (file->rings == NULL && file->mapped < file->size));
    }
    /* it is tried again */
    sys_fail_name(file != NULL && file->base != NULL ? "mremap" : "mmap", 1, ENOMEM);
    CHECK(send_number(&link->link, SEGMENT_STARTER_MOST) == -EAGAIN);
    CHECK(link->state == LINK_CRAMPED);
    stage_set(2); /* nothing is read before */
    stage_await(3);
    CHECK(transport_shm.wait(node.t, 100 * CLOCK_MS) == 0);
    stream(&node, &link->link, SEGMENT_STARTER_MOST, STREAM);
    CHECK(link->state == LINK_OPEN && link->remote->file->rings != NULL);
    node_close(&node);
}

static void the_first_packets_cost_no_ring(void **state)
{
    struct node node;
    pid_t child;

    (void)state;
    payload_limit = SHORT;
    child = start(begin_in_a_starter);
    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    stage_await(2);
    assert_int_equal(atomic_load(&segment_starter(inside(&node)->own, 0)->moved), 0);
    stage_set(3);
    await(&node, STREAM);
    assert_int_equal(atomic_load(&segment_starter(inside(&node)->own, 0)->moved), 1);
    ended_well(child);
    await_free_slots(&node);
    assert_int_equal(atomic_load(&segment_starter(inside(&node)->own, 0)->moved), 0);
    node_close(&node);
}

/* Packets that are read one by one stay in the starter, for its life. */
static void a_starter_is_used_again(void **state)
{
    struct node node, sender;
    struct shm_link *link;

    (void)state;
    payload_limit = SHORT;
    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = link_of(connect_to(&sender, 0));
    for (uint64_t i = 0; i < SEGMENT_STARTER_LIFE; i++) {
        assert_int_equal(send_number(&link->link, i), 0);
        assert_int_equal(link->state, LINK_STARTING);
        await(&node, i + 1);
    }
    assert_int_equal(send_number(&link->link, SEGMENT_STARTER_LIFE), 0);
    assert_int_equal(link->state, LINK_OPEN);
    await(&node, SEGMENT_STARTER_LIFE + 1);
    assert_false(node.wrong);
    node_close(&sender);
    node_close(&node);
}

/* How many pages of the slots are there; without the last, which may have something else behind them. */
static unsigned pages_of_slots(const struct segment *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages;
    unsigned char *begin = (unsigned char *)s->control, there[1024];
    unsigned count = 0;

    pages = (size_t)((unsigned char *)(s->slots + s->peers) - begin) / page;
    assert_in_range(pages, 2, sizeof there);
    assert_int_equal(mincore(begin, pages * page, there), 0);
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    return count;
}

/* The memory of slots that no sender has claimed is not there, whoever has looked for the dead, or for those
 * who have sent. */
static void slots_that_nobody_uses_cost_nothing(void **state)
{
    struct node node, sender;
    struct transport_config config = config_for(&node);
    struct transport_address address;
    struct link *link;
    struct shm *shm;

    (void)state;
    config.peers = 1024; /* many pages */
    assert_int_equal(node_open_with(&node, &config), 0);
    assert_int_equal(node_open(&sender), 0);
    shm = inside(&node);
    transport_shm.address(node.t, &address);
    assert_int_equal(transport_shm.connect(sender.t, &address, &link), 0);
    assert_int_equal(send_number(link, 0), 0);
    await(&node, 1);
    inbound_sweep(shm, shm->own->peers);
    inbound_leave_all(shm);
    inbound_adopt_all(shm);
    for (unsigned i = 0; i < 3; i++)
        transport_shm.poll(node.t, 16);
    assert_in_range(pages_of_slots(shm->own), 1, 2);
    node_close(&sender);
    node_close(&node);
}

/* So many packets and four more, wherever the receiver looks in between. */
static void begin_with(uint64_t count, uint64_t looked)
{
    struct node node, sender;
    struct link *link;

    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = connect_to(&sender, 0);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(send_number(link, i), 0);
        if (i == looked)
            await(&node, i + 1);
    }
    for (uint64_t i = count; i < count + 4; i++)
        assert_int_equal(send_number(link, i), 0);
    if (count == looked) /* what was sent before the sender closes, in both, arrives */
        node_close(&sender);
    await(&node, count + 4);
    assert_false(node.wrong);
    if (count != looked)
        node_close(&sender);
    await_free_slots(&node);
    node_close(&node);
}

static void the_ring_follows_the_starter_in_order(void **state)
{
    static const size_t limits[] = {SHORT, 100, PAYLOAD_MAX};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(limits); i++)
        for (uint64_t count = 0; count <= SEGMENT_STARTER_MOST + 2; count++)
            for (uint64_t looked = 0; looked <= count; looked++) {
                payload_limit = limits[i];
                begin_with(count, looked);
            }
}

static void move_and_die(void)
{
    struct node node;
    struct shm_link *link;
    struct ring *starter;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(connect_to(&node, 0));
    CHECK(send_number(&link->link, 0) == 0);
    stage_set(2);
    stage_await(3);
    CHECK(link_attach_all(link) == 0);
    starter = segment_starter(link->remote, link->slot);
    atomic_store(&starter->moved, 1); /* and it does not ring */
    raise(SIGKILL);
}

static void a_sender_killed_while_it_moves_is_let_go_of(void **state)
{
    pid_t child = start(move_and_die);
    struct node node;

    (void)state;
    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    stage_await(2);
    await(&node, 1);
    stage_set(3);
    reap(child);
    await_free_slots(&node);
    assert_int_equal(node.arrived, 1);
    assert_int_equal(node.dropped, 0);
    node_close(&node);
    stage_set(0);
}

/* ---- the dead ---- */

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

/* Until something was sent that node has not taken. */
static void await_more(const struct node *node)
{
    uint64_t deadline = clock_now() + (uint64_t)PATIENCE_NS;

    while (atomic_load(&board->number) <= node->arrived && clock_now() < deadline)
        sched_yield();
    CHECK(atomic_load(&board->number) > node->arrived);
}

/* Kills it somewhere in its stream, and leaves a zombie: that is dead, too. */
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

static void what_a_killed_sender_sent_arrives(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 10; i++)
        kill_a_stream(i * 100);
}

static void claim_and_die(void)
{
    struct node node;
    struct shm_link *link;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(connect_to(&node, 0));
    CHECK(link_attach(link) == 0);
    atomic_store(&link->remote->control->used, 4); /* as who claims says before */
    atomic_store(&link->remote->slots[3].claim,
                 slot_claim(SLOT_CLAIMED, inside(&node)->address.process));
    raise(SIGKILL);
}

static void a_slot_of_a_sender_killed_while_claiming_is_freed(void **state)
{
    pid_t child = start(claim_and_die);
    struct node node;

    (void)state;
    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    reap(child);
    assert_int_equal(slots_taken(&node), 1);
    await_free_slots(&node);
    node_close(&node);
}

static void only_exist(void)
{
    static unsigned char memory[100000];
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = byte_of(5, i);
    CHECK(transport_expose(connect_to(&node, 1), memory, sizeof memory, &board->remote,
                           &board->key) == 0);
    stage_set(1);
    for (;;)
        pause();
}

static void sending_to_a_killed_receiver_fails(void **state)
{
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;
    uint64_t number = 0;
    int err;

    (void)state;
    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = connect_to(&node, 1);
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

static void a_killed_receiver_is_noticed_while_asleep(void **state)
{
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;
    int err = -ETIMEDOUT;

    (void)state;
    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = connect_to(&node, 1);
    assert_int_equal(send_number(link, 0), 0);
    kill_unreaped(child);
    for (unsigned i = 0; i < 10 && err == -ETIMEDOUT; i++)
        err = transport_shm.wait(node.t, 300 * CLOCK_MS);
    assert_int_equal(err, 0);
    assert_int_equal(send_number(link, 1), -ENOTCONN);
    reap(child);
    node_close(&node);
}

/* ---- reads ---- */

static void memory_of_another_process_can_be_read(void **state)
{
    static unsigned char target[100000];
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;

    (void)state;
    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = connect_to(&node, 1);
    assert_int_equal(
        transport_read(link, target, board->remote, board->key, sizeof target, NULL), 0);
    for (size_t i = 0; i < sizeof target; i++)
        assert_int_equal(target[i], byte_of(5, i));

    assert_int_equal(transport_read(link, target, 64, board->key, 64, NULL), -EFAULT);
    assert_int_equal(transport_read(link, target, board->remote, board->key + 1, 64, NULL),
                     -EINVAL);
    sys_fail_name("process_vm_readv", 1, EPERM);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTSUP);
    sys_fail_name("process_vm_readv", 1, ENOSYS);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTSUP);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL), 0);
    assert_int_equal(transport_write(link, 64, board->key, target, 64, NULL), -EFAULT);
    assert_int_equal(transport_write(link, board->remote, board->key + 1, target, 64, NULL),
                     -EINVAL);
    sys_fail_name("process_vm_writev", 1, EPERM);
    assert_int_equal(transport_write(link, board->remote, board->key, target, 64, NULL),
                     -ENOTSUP);
    assert_int_equal(transport_write(link, board->remote, board->key, target, 64, NULL), 0);

    kill_unreaped(child);
    reap(child);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTCONN);
    assert_int_equal(send_number(link, 0), -ENOTCONN);
    node_close(&node);
}

static void reads_can_be_switched_off(void **state)
{
    struct node node;
    struct transport_config config = config_for(&node);

    (void)state;
    config.settings.shm.attach = false;
    assert_int_equal(node_open_with(&node, &config), 0);
    assert_false(node.t->limits.can_read);
    transport_shm.address(node.t, &board->address[0]);
    assert_int_equal(transport_read(connect_to(&node, 0), &config, 0, 0, 1, NULL), -ENOTSUP);
    node_close(&node);
}

/* ---- room for few ---- */

static void senders_beyond_the_slots_wait_for_one(void **state)
{
    struct node owner, sender[4];
    struct transport_config config = config_for(&owner);
    struct link *link[4];

    (void)state;
    config.peers = 2;
    assert_int_equal(node_open_with(&owner, &config), 0);
    transport_shm.address(owner.t, &board->address[0]);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(node_open(&sender[i]), 0);
        link[i] = connect_to(&sender[i], 0);
        assert_int_equal(send_number(link[i], 0), i < 2 ? 0 : -EAGAIN);
    }
    assert_int_equal(send_number(link[3], 0), -EAGAIN);
    assert_int_equal(transport_shm.wait(sender[3].t, PATIENCE_NS), 0); /* it looks again */
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

/* Exactly the hot ones are not armed (I2 of shm.h). */
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

/* ---- where ranks share cores ---- */

#define MESSAGE 4096

static void open_auto(struct node *node, bool shares_cores)
{
    struct transport_config config = config_for(node);

    config.settings.shm.ring_size = UINT64_MAX;
    config.settings.shm.shares_cores = shares_cores;
    assert_int_equal(node_open_with(node, &config), 0);
}

/* How many messages of 4 KiB go to a receiver that does not look. */
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
    /* what one of them sends goes into a packet of the other one, too */
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

/* Two in each exchange, and two exchanges ahead. */
static void two_exchanges_go_to_a_receiver_without_a_core(void **state)
{
    (void)state;
    assert_in_range(messages_ahead(true, true), 4, 8);
    assert_in_range(messages_ahead(true, false), 4, 8);
    assert_int_equal(messages_ahead(false, true), 3);
    assert_int_equal(messages_ahead(false, false), 3);
}

static void quiet_rings_are_not_polled(void **state)
{
    struct node owner, sender[8];
    struct link *link[8];

    (void)state;
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

static void nobody_waits_for_a_sender_that_left(void **state)
{
    struct node owner, sender;

    (void)state;
    assert_int_equal(node_open_as(&owner, 0), 0);
    payload_limit = 100;
    for (unsigned i = 0; i < 50; i++) { /* more than there are slots */
        assert_int_equal(node_open(&sender), 0);
        owner.arrived = 0;
        for (unsigned number = 0; number < 200; number++) { /* once around the ring */
            assert_int_equal(send_number(connect_to(&sender, 0), number), 0);
            if (number % 3 == 0)
                await(&owner, number + 1);
            transport_shm.poll(owner.t, 1); /* one too many, sometimes */
        }
        node_close(&sender);
        await(&owner, 200);
        transport_shm.poll(owner.t, 16);
        assert_int_equal(slots_taken(&owner), 0);
    }
    assert_int_equal(transport_shm.wait(owner.t, CLOCK_MS), -ETIMEDOUT);
    node_close(&owner);
}

/* ---- everything fails once ---- */

/* Sends as soon as there is a slot.  No system call, so that a life has the same ones
 * however long it takes. */
static int send_patiently(struct link *link)
{
    uint64_t deadline = clock_now() + (uint64_t)PATIENCE_NS;
    int err;

    while ((err = send_number(link, 0)) == -EAGAIN && clock_now() < deadline)
        sched_yield();
    return err;
}

static int read_a_byte(struct link *link)
{
    unsigned char byte = 0;
    int err;

    do
        err = transport_read(link, &byte, board->remote, board->key, 1, NULL);
    while (err == -EAGAIN);
    CHECK(err != 0 || byte == 5);
    return err;
}

/* Opens, sends, reads, waits; closes what it opened. */
static int short_life(void)
{
    struct node node;
    struct link *link;
    int err = node_open(&node);

    if (err != 0)
        return err;
    err = transport_shm.connect(node.t, &board->address[0], &link);
    if (err == 0)
        err = send_patiently(link);
    if (err == 0) {
        atomic_fetch_add(&board->number, 1);
        err = read_a_byte(link);
    }
    if (err == 0)
        err = transport_shm.wait(node.t, CLOCK_MS);
    node_close(&node);
    return err == -ETIMEDOUT ? 0 : err;
}

/* A life that leaves nothing; its n-th system call or allocation fails. */
static int failed_life(uint64_t call, uint64_t allocation, int error)
{
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    int err;

    sys_fail_at(call, error);
    mem_fail_at(allocation);
    err = short_life();
    sys_fail_at(0, 0);
    mem_fail_at(0);
    CHECK(mem_live() == mem && sys_fds_live() == fds && sys_maps_live() == maps);
    return err;
}

static void fail_each_call(int error)
{
    uint64_t calls = 0;

    for (uint64_t n = 1; n == 1 || calls >= n - 1; n++) {
        uint64_t before = sys_calls();
        int err = failed_life(n, 0, error);

        calls = sys_calls() - before;
        /* the error itself; what it means for the link; what it means for reads */
        CHECK(err == 0 || err == -error || err == -EHOSTUNREACH || err == -ENOTSUP);
    }
}

static void fail_everything(void)
{
    static const int errors[] = {EMFILE, EACCES, EINTR, ENOMEM, EINVAL};
    unsigned failed = 0;

    stage_await(1);
    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++)
        fail_each_call(errors[i]);
    for (uint64_t n = 1; n <= 20; n++) {
        int err = failed_life(0, n, 0);

        CHECK(err == 0 || err == -ENOMEM);
        failed += err != 0;
    }
    CHECK(failed >= 3); /* the endpoint, its segment, its tables */
    CHECK(failed_life(0, 0, 0) == 0);
}

static void every_failure_between_processes_is_clean(void **state)
{
    pid_t child = start(fail_everything);
    static const unsigned char memory[16] = {5};
    struct node owner;

    (void)state;
    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(transport_expose(connect_to(&owner, 0), memory, sizeof memory,
                                      &board->remote, &board->key),
                     0);
    stage_set(1);
    while (!has_ended(child)) {
        owner.arrived = 0; /* each life begins at 0 */
        transport_shm.poll(owner.t, 1);
    }
    ended_well(child);
    owner.arrived = 0;
    await_free_slots(&owner);
    /* what was taken for sent has come, whatever failed before and after */
    assert_int_equal(owner.accepted, atomic_load(&board->number));
    assert_int_equal(owner.dropped, 0);
    node_close(&owner);
}

/* ---- two threads ---- */

struct half {
    struct node node;
    unsigned other;
    uint64_t rounds;
    uint64_t sum;
};

/* A value that only the packets order: a checker of threads sees if they do not. */
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

static void two_threads_hand_over_what_they_wrote(void **state)
{
    struct half half[2] = {{.other = 1, .rounds = 5000}, {.other = 0, .rounds = 5000}};
    pthread_t thread[2];

    (void)state;
    baton = 0;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(node_open_as(&half[i].node, i), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_half, &half[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(baton, 10000);
    for (unsigned i = 0; i < 2; i++)
        node_close(&half[i].node);
}

static void *stream_half(void *arg)
{
    struct half *half = arg;

    stream(&half->node, connect_to(&half->node, half->other), 0, half->rounds);
    await(&half->node, half->rounds);
    return NULL;
}

static void two_threads_stream_both_ways(void **state)
{
    struct half half[2] = {{.other = 1, .rounds = 5000}, {.other = 0, .rounds = 5000}};
    pthread_t thread[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(node_open_as(&half[i].node, i), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, stream_half, &half[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < 2; i++)
        node_close(&half[i].node);
}

/* ---- memory that is lent ---- */

static void lend_and_leave(void)
{
    struct node node;
    struct link *link;
    uint32_t chunk;
    size_t size;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = connect_to(&node, 0);
    CHECK(send_number(link, 0) == 0);
    CHECK(transport_lend(link, &chunk, &size) == NULL && !transport_lends(link));
    stage_set(2);
    stage_await(3);
    CHECK(transport_lends(link));
    inside(&node)->lend_turn = 77;
    CHECK(transport_lend_turn(link) == 16); /* the receiver wants few, */
    stage_set(4);
    stage_await(5);
    CHECK(transport_lends(link));
    CHECK(transport_lend_turn(link) == 77); /* and now any */
    CHECK(transport_lend(link, &chunk, &size) != NULL && chunk == 0);
    for (uint32_t i = 1; i < 6; i++) { /* one of the first three, in turn */
        transport_keep(link, chunk);
        CHECK(transport_lend_among(link, 3, &chunk, &size) != NULL && chunk == i % 3);
    }
    CHECK(transport_lend_among(link, 2, &chunk, &size) != NULL);
    CHECK(transport_lend_among(link, 2, &chunk, &size) != NULL);
    CHECK(transport_lend_among(link, 3, &chunk, &size) == NULL);
    for (uint32_t i = 0; i < 3; i++)
        transport_keep(link, i);
    do { /* until it is the turn of the first one again */
        CHECK(transport_lend(link, &chunk, &size) != NULL);
        transport_keep(link, chunk);
    } while (chunk != 0);
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++) { /* in turn, also if one is free again */
        unsigned char *bytes = transport_lend(link, &chunk, &size);

        CHECK(bytes != NULL && size == SEGMENT_CHUNK_SIZE);
        CHECK(chunk == (i + 1) % SEGMENT_CHUNKS);
        for (size_t k = 0; k < size; k++)
            bytes[k] = byte_of(chunk, k);
    }
    CHECK(transport_lend(link, &chunk, &size) == NULL && transport_lends(link));
    stage_set(6);
    stage_await(7); /* the receiver has given back two */
    for (unsigned i = 0; i < 2; i++) {
        CHECK(transport_lend(link, &chunk, &size) != NULL);
        CHECK(chunk == 3 || chunk == 77);
    }
    CHECK(transport_lend(link, &chunk, &size) == NULL);
    transport_keep(link, 77);
    CHECK(transport_lend(link, &chunk, &size) != NULL && chunk == 77);
    CHECK(send_number(link, 1) == 0);
    node_close(&node);
}

/* All chunks are lent in turn where they are more than a second cache holds, and few where they are not, or nobody
 * says. */
static void how_many_are_lent_in_turn(void **state)
{
    (void)state;
    assert_int_equal(lend_turn(0), 16);
    assert_int_equal(lend_turn((size_t)512 << 10), SEGMENT_CHUNKS);
    assert_int_equal(lend_turn(SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE - 1), SEGMENT_CHUNKS);
    assert_int_equal(lend_turn(SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE), 16);
}

/* The segment of the other side may have to be asked for first. */
static int borrow_from(struct node *node)
{
    int err;

    while ((err = transport_borrow_from(node->link)) == -EAGAIN)
        node->t->ops->poll(node->t, 1);
    if (err == 0)
        transport_borrow_few(node->link, false);
    return err;
}

/* How many pages of this memory does our page table have?  Only the kernel knows. */
static size_t pages_resident(const void *memory, size_t size)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t found = 0;

    assert_true(fd >= 0);
    for (size_t at = 0; at < size; at += SEGMENT_PAGE) {
        uint64_t entry;

        assert_int_equal(pread(fd, &entry, sizeof entry,
                               (off_t)(((uintptr_t)memory + at) / SEGMENT_PAGE * sizeof entry)),
                         sizeof entry);
        found += entry >> 63;
    }
    close(fd);
    return found;
}

/* Of the chunks of who lends to node. */
static size_t chunks_resident(const struct node *node)
{
    const struct segment *segment = link_of(node->link)->lender->segment;
    size_t pages =
        pages_resident(segment_chunk(segment, 0), SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE);

    assert_int_equal(pages % (SEGMENT_CHUNK_SIZE / SEGMENT_PAGE), 0);
    return pages / (SEGMENT_CHUNK_SIZE / SEGMENT_PAGE);
}

static void read_chunk(const struct node *node, uint32_t i)
{
    const unsigned char *bytes = transport_borrowed(node->link, i, SEGMENT_CHUNK_SIZE);

    assert_non_null(bytes);
    for (size_t k = 0; k < SEGMENT_CHUNK_SIZE; k += 100)
        assert_int_equal(bytes[k], byte_of(i, k));
    transport_give_back(node->link, i);
}

/* So many chunks of the node's lender are resident, and it says so. */
static void expect_resident(const struct node *node, size_t chunks)
{
    assert_int_equal(chunks_resident(node), chunks);
    assert_int_equal(transport_resident(node->t), chunks * SEGMENT_CHUNK_SIZE);
}

/* The other side has filled all its chunks, and gone. */
static void open_beside_chunks(struct node *node)
{
    pid_t child = start(lend_and_leave);

    assert_int_equal(node_open_as(node, 0), 0);
    stage_set(1);
    stage_await(2);
    await(node, 1);
    assert_null(transport_borrowed(node->link, 0, 1));
    assert_int_equal(borrow_from(node), 0);
    assert_int_equal(transport_borrow_from(node->link), 0);
    transport_borrow_few(node->link, true);
    stage_set(3);
    stage_await(4);
    transport_borrow_few(node->link, false);
    stage_set(5);
    stage_await(6);
    transport_give_back(node->link, 3);
    transport_give_back(node->link, 77);
    stage_set(7);
    ended_well(child);
}

static void what_was_lent_can_be_read_when_its_sender_has_gone(void **state)
{
    struct node node;

    (void)state;
    open_beside_chunks(&node);
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++)
        read_chunk(&node, i);
    assert_null(transport_borrowed(node.link, SEGMENT_CHUNKS, 1));
    assert_null(transport_borrowed(node.link, UINT64_MAX, 1));
    assert_null(transport_borrowed(node.link, 0, SEGMENT_CHUNK_SIZE + 1));
    await(&node, 2);
    await_free_slots(&node);
    assert_null(transport_borrowed(node.link, 0, 1)); /* all that it sent is here */
    /* nobody borrows from whoever has the slot next */
    assert_int_equal(atomic_load(&inside(&node)->own->slots[0].borrows), 0);
    node_close(&node);
}

/* Whatever is read, no more than there is room for becomes resident. */
static void what_is_read_of_chunks_stays_within_its_room(void **state)
{
    struct node node;

    (void)state;
    open_beside_chunks(&node);
    expect_resident(&node, 0);
    read_chunk(&node, 40);
    read_chunk(&node, 40);
    expect_resident(&node, 1); /* and not what lies around it */
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++)
        read_chunk(&node, i);
    expect_resident(&node, SEGMENT_CHUNKS);
    transport_borrow_room(node.t, SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE);
    expect_resident(&node, SEGMENT_CHUNKS);
    transport_borrow_room(node.t, 5 * SEGMENT_CHUNK_SIZE - 1);
    expect_resident(&node, 0);
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++) {
        read_chunk(&node, i);
        expect_resident(&node, i % 4 + 1);
    }
    transport_borrow_room(node.t, SEGMENT_CHUNK_SIZE - 1);
    expect_resident(&node, 0);
    read_chunk(&node, 9);
    expect_resident(&node, 0);
    assert_int_equal(link_of(node.link)->remote->file->lent[9], 0);
    node_close(&node);
}

/* As what the slot of the first sender says. */
static uint32_t may_name(const struct node *node)
{
    transport_borrow_few(node->link, false);
    return slot_chunks(atomic_load(&inside(node)->own->slots[0].borrows));
}

/* Who lends may name what there is room for; if several do, half of it, divided among those of whom something is
 * resident. */
static void room_is_divided_among_those_who_lend(void **state)
{
    struct node node;

    (void)state;
    open_beside_chunks(&node);
    assert_int_equal(may_name(&node), SEGMENT_CHUNKS);
    transport_borrow_room(node.t, 60 * SEGMENT_CHUNK_SIZE);
    assert_int_equal(may_name(&node), 60);
    inside(&node)->lenders_read += 2; /* as if there were two others */
    assert_int_equal(may_name(&node), 10);
    read_chunk(&node, 1);
    assert_int_equal(may_name(&node), 10);
    for (uint32_t i = 0; i < 30; i++)
        read_chunk(&node, i);
    expect_resident(&node, 30);
    read_chunk(&node, 30);
    expect_resident(&node, 1);
    inside(&node)->lenders_read -= 2;
    assert_int_equal(may_name(&node), 60);
    assert_true(transport_borrows(node.link));
    transport_borrow_room(node.t, 0);
    assert_int_equal(may_name(&node), 0);
    assert_false(transport_borrows(node.link));
    node_close(&node);
}

/* Of which some were read. */
static void chunks_of_who_has_gone_are_not_resident(void **state)
{
    struct node node;

    (void)state;
    open_beside_chunks(&node);
    read_chunk(&node, 1);
    expect_resident(&node, 1);
    await(&node, 2);
    await_free_slots(&node);
    assert_int_equal(transport_resident(node.t), 0);
    assert_int_equal(inside(&node)->lenders_read, 0);
    assert_true(list_is_empty(&inside(&node)->lenders));
    node_close(&node);
}

static void borrow_and_wait(void)
{
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    stage_set(1);
    await(&node, 1);
    CHECK(borrow_from(&node) == 0);
    stage_set(2);
    for (;;)
        pause();
}

static void what_a_killed_receiver_has_not_given_back_is_free(void **state)
{
    pid_t child = start(borrow_and_wait);
    struct shm_link other;
    struct node node;
    struct link *link;
    uint32_t chunk;
    size_t size;

    (void)state;
    stage_await(1);
    assert_int_equal(node_open_as(&node, 0), 0);
    link = connect_to(&node, 1);
    assert_int_equal(send_number(link, 0), 0);
    stage_await(2);
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++)
        assert_non_null(transport_lend(link, &chunk, &size));
    assert_null(transport_lend(link, &chunk, &size));
    kill_unreaped(child);
    reap(child);
    assert_int_equal(transport_shm.check(link), -EHOSTDOWN);
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++)
        assert_null(inside(&node)->lent_to[i]);
    assert_null(transport_lend(link, &chunk, &size)); /* and to nobody who is dead */
    transport_keep(link, 0);
    inside(&node)->lent_to[0] = &other; /* another peer has it since */
    transport_keep(link, 0);
    assert_ptr_equal(inside(&node)->lent_to[0], &other);
    inside(&node)->lent_to[0] = NULL;
    node_close(&node);
}

/* "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(streams_between_processes_arrive_whole),
        TEST(each_address_has_one_link),
        TEST(the_first_packets_cost_no_ring),
        TEST(the_ring_follows_the_starter_in_order),
        TEST(a_starter_is_used_again),
        TEST(slots_that_nobody_uses_cost_nothing),
        TEST(a_sender_killed_while_it_moves_is_let_go_of),
        TEST(what_a_killed_sender_sent_arrives),
        TEST(a_slot_of_a_sender_killed_while_claiming_is_freed),
        TEST(sending_to_a_killed_receiver_fails),
        TEST(a_killed_receiver_is_noticed_while_asleep),
        TEST(memory_of_another_process_can_be_read),
        TEST(reads_can_be_switched_off),
        TEST(senders_beyond_the_slots_wait_for_one),
        TEST(two_exchanges_go_to_a_receiver_without_a_core),
        TEST(quiet_rings_are_not_polled),
        TEST(nobody_waits_for_a_sender_that_left),
        TEST(every_failure_between_processes_is_clean),
        TEST(two_threads_hand_over_what_they_wrote),
        TEST(two_threads_stream_both_ways),
        TEST(how_many_are_lent_in_turn),
        TEST(what_was_lent_can_be_read_when_its_sender_has_gone),
        TEST(what_is_read_of_chunks_stays_within_its_room),
        TEST(room_is_divided_among_those_who_lend),
        TEST(chunks_of_who_has_gone_are_not_resident),
        TEST(what_a_killed_receiver_has_not_given_back_is_free),
    };

    nodes_pass = argc > 1 && strcmp(argv[1], "passed") == 0;
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
