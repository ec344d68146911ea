/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_test.c - the two halves of a split endpoint at work: in two threads, in two
 * processes.  What happens when one is killed is in split_kill_test.c.
 *
 * Number 0 of the board is the endpoint that is split, 1 a peer.  At the peer the packets
 * of the two halves are told apart by their numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/shm/split_testing.h"

#define STREAM       4000
#define OWNERS_FIRST (UINT64_C(1) << 40) /* the owner's packets are numbered from here */

/* ---- a peer, in a thread of its own ---- */

struct peer {
    struct node node;
    uint64_t joined_next, owner_next; /* numbers */
    bool wrong;
};

static int on_peer_deliver(void *arg, uint32_t number, const void *packet, size_t size)
{
    struct peer *peer = arg;
    struct wire_header header;
    uint64_t *next;

    memcpy(&header, packet, sizeof header);
    next = header.tag < OWNERS_FIRST ? &peer->joined_next : &peer->owner_next;
    if (number != 5 || header.tag != *next || !is_packet(*next, packet, size))
        peer->wrong = true;
    (*next)++;
    return 0;
}

static int on_peer_accept(void *arg, struct link *link, const struct transport_address *address,
                          uint32_t *number)
{
    struct peer *peer = arg;

    (void)address;
    peer->node.link = link;
    peer->node.accepted++;
    *number = 5;
    return 0;
}

static const struct transport_events peer_events = {
    .accept = on_peer_accept,
    .deliver = on_peer_deliver,
};

static void peer_open(struct peer *peer)
{
    struct transport_config config = config_for(NULL);

    *peer = (struct peer){.owner_next = OWNERS_FIRST};
    config.events = &peer_events;
    config.arg = peer;
    CHECK(transport_shm.open(&config, &peer->node.t) == 0);
    transport_shm.address(peer->node.t, &board->address[1]);
}

/* Streams to the endpoint and takes what both its halves send. */
static void *run_peer(void *arg)
{
    struct peer *peer = arg;
    struct link *link = connect_to(&peer->node, 0);

    link->peer = 5;
    stream(&peer->node, link, 0, STREAM);
    while (peer->joined_next < STREAM || peer->owner_next < OWNERS_FIRST + STREAM)
        if (transport_shm.poll(peer->node.t, 16) == 0)
            CHECK(transport_shm.wait(peer->node.t, PATIENCE_NS) == 0);
    CHECK(!peer->wrong && peer->node.accepted == 0);
    return NULL;
}

/* ---- the half that has joined ---- */

/* Sends [first, end) to peer 1, sleeping where there is no room. */
static void half_stream(struct half *half, uint64_t first, uint64_t end)
{
    while (first < end) {
        int err = send_number(half_link(half, 1), first);

        if (err == 0) {
            first++;
            continue;
        }
        CHECK(err == -EAGAIN);
        half->t->ops->poll(half->t, 16);
        CHECK(half->t->ops->wait(half->t, PATIENCE_NS) == 0);
    }
}

/* Receives in the endpoint's place, and answers as much as it was sent. */
static void *serve(void *arg)
{
    struct half joined;

    (void)arg;
    CHECK(half_join(&joined) == 0);
    stage_set(2);
    half_await(&joined, STREAM / 2);
    half_stream(&joined, 0, STREAM);
    half_serve(&joined);
    half_close(&joined);
    return NULL;
}

/* What the owner does meanwhile, in the thread that has split it. */
static void work_beside(struct half *owner, pthread_t peer)
{
    half_stream(owner, OWNERS_FIRST, OWNERS_FIRST + STREAM);
    pthread_join(peer, NULL);
    assert_int_equal(owner->t->ops->poll(owner->t, 16), 0);
    while (atomic_load(&notes->count) < STREAM)
        sched_yield();
    assert_int_equal(owner->t->ops->rejoin(owner->t), -EBUSY);
    atomic_store(&notes->stop, 1);
    owner->t->ops->nudge(owner->t);
}

/* Another stream, to the owner as if nothing had been. */
static void work_after(struct half *owner, struct peer *peer)
{
    half_rejoin(owner);
    for (uint64_t i = STREAM; i < STREAM + 100; i++) {
        stream(&peer->node, connect_to(&peer->node, 0), i, i + 1);
        half_await(owner, i + 1);
    }
    assert_int_equal(notes_check((uint64_t[PEERS]){0}, (uint64_t[PEERS]){[1] = STREAM + 100}),
                     0);
    half_close(owner);
    node_close(&peer->node);
}

static void a_thread_can_receive_in_its_place(void **state)
{
    pthread_t thread[2];
    struct half owner;
    struct peer peer;

    (void)state;
    half_open(&owner, 0);
    peer_open(&peer);
    half_split(&owner);
    assert_int_equal(pthread_create(&thread[0], NULL, serve, NULL), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, run_peer, &peer), 0);
    work_beside(&owner, thread[1]);
    pthread_join(thread[0], NULL);
    work_after(&owner, &peer);
}

static void serve_in_a_child(void)
{
    stage_await(1);
    serve(NULL);
}

static void a_process_can_receive_in_its_place(void **state)
{
    pid_t child = start(serve_in_a_child);
    struct half owner;
    pthread_t thread;
    struct peer peer;

    (void)state;
    half_open(&owner, 0);
    peer_open(&peer);
    half_split(&owner);
    stage_set(1);
    stage_await(2);
    assert_int_equal(pthread_create(&thread, NULL, run_peer, &peer), 0);
    work_beside(&owner, thread);
    ended_well(child);
    work_after(&owner, &peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NOTES_TEST(a_process_can_receive_in_its_place),
        NOTES_TEST(a_thread_can_receive_in_its_place),
    };

    return cmocka_run_group_tests(tests, set_up_all_notes, tear_down_all_notes);
}
