/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mailbox_test.c - a sender's first packets go into a short ring in its slot; then it moves to
 * its ring.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/unit.h"
#include "transport/shm/shm_testing.h"

#define STREAM 20000

/* ---- the first packets ---- */

#define SHORT 8 /* payloads below this go into one cell */

/* Packets of one cell neither touch nor map the ring until the mailbox is full. */
static void begin_in_a_mailbox(void)
{
    struct node node;
    const struct segment_file *file = NULL;
    struct shm_link *link;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(attach_to(&node, 0));
    for (uint64_t i = 0; i < SEGMENT_MAILBOX_MOST; i++) {
        CHECK(send_number(&link->link, i) == 0);
        file = link->remote->file;
        CHECK(link->state == LINK_STARTING);
        CHECK(file == NULL || (file->rings == NULL && file->mapped < file->size));
    }
    /* the mapping fails once, and is tried again */
    sys_fail_name(file != NULL && file->base != NULL ? "mremap" : "mmap", 1, ENOMEM);
    CHECK(send_number(&link->link, SEGMENT_MAILBOX_MOST) == -EAGAIN);
    CHECK(link->state == LINK_CRAMPED);
    stage_set(2); /* the receiver reads nothing before */
    stage_await(3);
    CHECK(transport_shm.wait(node.t, PATIENCE_NS) == 0);
    stream(&node, &link->link, SEGMENT_MAILBOX_MOST, STREAM);
    CHECK(link->state == LINK_OPEN && link->remote->file->rings != NULL);
    node_close(&node);
}

static void the_first_packets_cost_no_ring(UNUSED void **state)
{
    struct node node;
    pid_t child;

    payload_limit = SHORT;
    child = start(begin_in_a_mailbox);
    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    stage_await(2);
    assert_int_equal(atomic_load(&segment_mailbox(inside(&node)->own, 0)->moved), 0);
    stage_set(3);
    await(&node, STREAM);
    assert_int_equal(atomic_load(&segment_mailbox(inside(&node)->own, 0)->moved), 1);
    ended_well(child);
    await_free_slots(&node);
    assert_int_equal(atomic_load(&segment_mailbox(inside(&node)->own, 0)->moved), 0);
    node_close(&node);
}

/* Packets that are read one by one stay in the mailbox, up to its limit. */
static void a_mailbox_is_used_again(UNUSED void **state)
{
    struct node node, sender;
    struct shm_link *link;

    payload_limit = SHORT;
    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = link_of(connect_to(&sender, 0));
    for (uint64_t i = 0; i < SEGMENT_MAILBOX_LIFE; i++) {
        assert_int_equal(send_number(&link->link, i), 0);
        assert_int_equal(link->state, LINK_STARTING);
        await(&node, i + 1);
    }
    assert_int_equal(send_number(&link->link, SEGMENT_MAILBOX_LIFE), 0);
    assert_int_equal(link->state, LINK_OPEN);
    await(&node, SEGMENT_MAILBOX_LIFE + 1);
    assert_false(node.wrong);
    node_close(&sender);
    node_close(&node);
}

/* The sender rings for its first packet, and for later ones only after the receiver has
 * looked. */
static void a_first_packet_rings_once(UNUSED void **state)
{
    struct node node, sender;
    struct segment_bell *bell;
    struct link *link;
    uint32_t before;

    payload_limit = SHORT;
    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = connect_to(&sender, 0);
    bell = &inside(&node)->control->doorbell;
    before = atomic_load(&bell->count);
    assert_int_equal(send_number(link, 0), 0);
    assert_int_equal(link_of(link)->state, LINK_STARTING);
    assert_int_equal(atomic_load(&bell->count) - before, BELL_STEP);
    assert_int_equal(send_number(link, 1), 0); /* the receiver has not looked yet */
    assert_int_equal(atomic_load(&bell->count) - before, BELL_STEP);
    await(&node, 2);
    node_close(&sender);
    node_close(&node);
}

/* A reservation alone does not ring: the receiver would wake up, find nothing and sleep again
 * before the packet is there. */
static void a_reservation_without_a_packet_is_silent(UNUSED void **state)
{
    struct node node, sender;
    struct shm_link *link;

    payload_limit = SHORT;
    assert_int_equal(node_open_as(&node, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = link_of(connect_to(&sender, 0));
    assert_int_equal(link_prepare(link, SHORT), 0);
    assert_int_equal(slots_taken(&node), 1);
    assert_int_equal(transport_shm.wait(node.t, CLOCK_MS), -ETIMEDOUT);
    assert_int_equal(node.accepted, 0);
    assert_int_equal(send_number(&link->link, 0), 0);
    await(&node, 1);
    node_close(&sender);
    await_free_slots(&node);
    node_close(&node);
}

static void reserve_and_die(void)
{
    struct node node;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    CHECK(link_prepare(link_of(attach_to(&node, 0)), SHORT) == 0);
    raise(SIGKILL);
}

static void a_sender_killed_after_its_reservation_is_let_go_of(UNUSED void **state)
{
    pid_t child = start(reserve_and_die);
    struct node node;

    assert_int_equal(node_open_as(&node, 0), 0);
    stage_set(1);
    reap(child);
    assert_int_equal(slots_taken(&node), 1);
    await_free_slots(&node);
    assert_int_equal(node.arrived, 0);
    node_close(&node);
    stage_set(0);
}

static uint32_t slot_of_first_packet(struct node *sender)
{
    struct shm_link *link = link_of(connect_to(sender, 0));

    assert_int_equal(send_number(&link->link, 0), 0);
    return link->slot;
}

/* A sender takes the next unused slot, without looking at others' slots; but a freed one comes
 * first. */
static void slots_are_taken_in_order(UNUSED void **state)
{
    struct node node, senders[3], more[4];
    _Atomic uint32_t *left;

    payload_limit = SHORT;
    assert_int_equal(node_open_as(&node, 0), 0);
    left = &inside(&node)->control->left;
    for (unsigned i = 0; i < ARRAY_COUNT(senders); i++) {
        assert_int_equal(node_open(&senders[i]), 0);
        assert_int_equal(slot_of_first_packet(&senders[i]), i);
    }
    for (unsigned i = 0; i < ARRAY_COUNT(more); i++)
        assert_int_equal(node_open(&more[i]), 0);
    node_close(&senders[1]);
    while (slots_taken(&node) == 3)
        transport_shm.poll(node.t, 16);
    assert_int_equal(atomic_load(left), 1);
    assert_int_equal(slot_of_first_packet(&more[0]), 1);
    assert_int_equal(atomic_load(left), 0);
    atomic_store(left, 7); /* any process may write it */
    assert_int_equal(slot_of_first_packet(&more[1]), 3);
    assert_int_equal(atomic_load(left), 0);
    atomic_store(&inside(&node)->own->slots[0].sender, slot_word(SLOT_FREE, 0));
    assert_int_equal(slot_of_first_packet(&more[2]), 4);
    atomic_store(&inside(&node)->control->used, inside(&node)->own->peers);
    assert_int_equal(slot_of_first_packet(&more[3]), 0); /* there is no other slot */
    for (unsigned i = 0; i < ARRAY_COUNT(more); i++)
        node_close(&more[i]);
    node_close(&senders[2]);
    node_close(&node);
    node_close(&senders[0]); /* its slot was given to another sender */
}

/* Pages with slots in memory; without the last slot's pages, which may have other contents
 * after it. */
static unsigned pages_of_slots(const struct segment *s)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), last = 0;
    uintptr_t end = (uintptr_t)segment_slot(s, s->peers - 1) & ~(page - 1);
    unsigned count = 0;

    for (uint32_t i = 0; i < s->peers; i++) {
        uintptr_t at = (uintptr_t)segment_slot(s, i) & ~(page - 1);
        unsigned char is_there = 0;

        if (at == last || at == end)
            continue;
        assert_int_equal(mincore((void *)at, page, &is_there), 0);
        count += is_there & 1;
        last = at;
    }
    return count;
}

/* Slots that no sender has reserved use no memory, although the receiver has looked for dead
 * senders and for packets. */
static void slots_that_nobody_uses_cost_nothing(UNUSED void **state)
{
    struct node node, sender;
    struct transport_config config = config_for(&node);
    struct transport_address address;
    struct link *link;
    struct shm *shm;

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

/* Sends `count` packets and four more; the receiver looks once after `looked` packets. */
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
    if (count == looked) /* packets in mailbox and ring arrive after the sender closes */
        node_close(&sender);
    await(&node, count + 4);
    assert_false(node.wrong);
    if (count != looked)
        node_close(&sender);
    await_free_slots(&node);
    node_close(&node);
}

static void the_ring_follows_the_mailbox_in_order(UNUSED void **state)
{
    static const size_t limits[] = {SHORT, 100, PAYLOAD_MAX};

    for (unsigned i = 0; i < ARRAY_COUNT(limits); i++)
        for (uint64_t count = 0; count <= SEGMENT_MAILBOX_MOST + 2; count++)
            for (uint64_t looked = 0; looked <= count; looked++) {
                payload_limit = limits[i];
                begin_with(count, looked);
            }
}

static void move_and_die(void)
{
    struct node node;
    struct shm_link *link;
    struct ring *mailbox;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = link_of(attach_to(&node, 0));
    CHECK(send_number(&link->link, 0) == 0);
    stage_set(2);
    stage_await(3);
    CHECK(link_attach_all(link) == 0);
    mailbox = segment_mailbox(link->remote, link->slot);
    atomic_store(&mailbox->moved, 1); /* moved, but not rung */
    raise(SIGKILL);
}

static void a_sender_killed_while_it_moves_is_let_go_of(UNUSED void **state)
{
    pid_t child = start(move_and_die);
    struct node node;

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

/* Argument "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_packets_cost_no_ring),
        TEST(the_ring_follows_the_mailbox_in_order),
        TEST(a_mailbox_is_used_again),
        TEST(a_first_packet_rings_once),
        TEST(a_reservation_without_a_packet_is_silent),
        TEST(a_sender_killed_after_its_reservation_is_let_go_of),
        TEST(slots_are_taken_in_order),
        TEST(slots_that_nobody_uses_cost_nothing),
        TEST(a_sender_killed_while_it_moves_is_let_go_of),
    };

    nodes_pass = is_passed(argc, argv);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
