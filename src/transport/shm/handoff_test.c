/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff_test.c - the two halves of a split endpoint at work: in two threads, and in two
 * processes.  handoff_kill_test.c kills one of them.
 *
 * Number 0 of the board is the endpoint that is split, 1 a peer.  The peer distinguishes the
 * packets of the two halves by their numbers.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/patience.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/memory.h"
#include "transport/shm/handoff_testing.h"

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

static int on_peer_accept(void *arg, struct link *link,
                          UNUSED const struct transport_address *address, uint32_t *number)
{
    struct peer *peer = arg;

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

/* Streams to the endpoint and receives the packets of both halves. */
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

/* ---- the half that has taken over ---- */

/* Sends [first, end) to peer 1, and sleeps when there is no space. */
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

/* Takes over, receives, and sends as many packets as it got. */
static void *serve(UNUSED void *arg)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    stage_set(2);
    half_await(&joined, STREAM / 2);
    half_stream(&joined, 0, STREAM);
    half_serve(&joined);
    half_close(&joined);
    return NULL;
}

/* The work of the owner meanwhile, in the thread that has split the endpoint. */
static void work_beside(struct half *owner, pthread_t peer)
{
    half_stream(owner, OWNERS_FIRST, OWNERS_FIRST + STREAM);
    pthread_join(peer, NULL);
    assert_int_equal(owner->t->ops->poll(owner->t, 16), 0);
    while (atomic_load(&notes->count) < STREAM)
        sched_yield();
    assert_int_equal(transport_take_back(owner->t), -EBUSY);
    atomic_store(&notes->stop, 1);
    transport_wake_other(owner->t);
}

/* Another stream, to the owner, as if nothing had happened. */
static void work_after(struct half *owner, struct peer *peer)
{
    half_take_back(owner);
    for (uint64_t i = STREAM; i < STREAM + 100; i++) {
        stream(&peer->node, connect_to(&peer->node, 0), i, i + 1);
        half_await(owner, i + 1);
    }
    assert_int_equal(notes_check((uint64_t[PEERS]){0}, (uint64_t[PEERS]){[1] = STREAM + 100}),
                     0);
    half_close(owner);
    node_close(&peer->node);
}

static void a_thread_can_receive_in_its_place(UNUSED void **state)
{
    pthread_t thread[2];
    struct half owner;
    struct peer peer;

    half_open(&owner, 0);
    peer_open(&peer);
    half_hand_over(&owner);
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

static void a_process_can_receive_in_its_place(UNUSED void **state)
{
    pid_t child = start(serve_in_a_child);
    struct half owner;
    pthread_t thread;
    struct peer peer;

    half_open(&owner, 0);
    peer_open(&peer);
    half_hand_over(&owner);
    stage_set(1);
    stage_await(2);
    assert_int_equal(pthread_create(&thread, NULL, run_peer, &peer), 0);
    work_beside(&owner, thread);
    ended_well(child);
    work_after(&owner, &peer);
}

/* ---- back and forth ---- */

#define SENDERS 3

static uint64_t next_number[PEERS]; /* by sender, 1 .. */

/* Fills rings completely, or almost. */
static void send_some(struct node *sender, struct random *random)
{
    for (uint64_t n = random_below(random, 120); n > 0; n--) {
        unsigned i = 1 + (unsigned)random_below(random, SENDERS);
        int err = send_number(connect_to(&sender[i], 0), next_number[i]);

        CHECK(err == 0 || err == -EAGAIN);
        next_number[i] += err == 0;
    }
}

static void poll_some(struct half *half, struct random *random)
{
    half->refuses = random_below(random, 2) != 0 ? 7 : 0;
    for (uint64_t n = random_below(random, 12); n > 0; n--)
        half->t->ops->poll(half->t, 1 + (int)random_below(random, 8));
    half->refuses = 0;
}

/* Hands over, perhaps takes over, perhaps twice, and takes back. */
static void hand_over(struct half *owner, struct node *sender, struct random *random)
{
    struct half joined;

    half_hand_over(owner);
    for (uint64_t n = random_below(random, 3); n > 0; n--) {
        send_some(sender, random);
        assert_int_equal(half_take_over(&joined), 0);
        poll_some(&joined, random);
        send_some(sender, random);
        poll_some(&joined, random);
        half_close(&joined);
    }
    assert_int_equal(owner->t->ops->poll(owner->t, 16), 0);
    send_some(sender, random);
    half_take_back(owner);
}

static void each_continues_where_the_other_stopped(UNUSED void **state)
{
    struct node sender[PEERS];
    struct random random;
    struct half owner;

    random_seed(&random, 7);
    memset(next_number, 0, sizeof next_number);
    half_open(&owner, 0);
    for (unsigned i = 1; i <= SENDERS; i++)
        assert_int_equal(node_open_as(&sender[i], i), 0);
    for (unsigned n = 0; n < 500; n++) {
        hand_over(&owner, sender, &random);
        poll_some(&owner, &random);
    }
    half_drain(&owner);
    assert_true(next_number[1] > 1000);
    assert_int_equal(notes_check((uint64_t[PEERS]){0}, next_number), 0);
    for (unsigned i = 1; i <= SENDERS; i++)
        node_close(&sender[i]);
    half_drain(&owner);
    half_close(&owner);
}

/* A sender that comes and goes while nobody receives loses nothing; another one follows. */
static void senders_come_and_go_meanwhile(UNUSED void **state)
{
    struct half owner, joined;
    struct node sender;

    half_open(&owner, 0);
    half_hand_over(&owner);
    for (unsigned i = 0; i < 20; i++) { /* more senders than slots */
        assert_int_equal(node_open_as(&sender, 1), 0);
        assert_int_equal(send_number(connect_to(&sender, 0), i), 0);
        node_close(&sender);
        assert_int_equal(half_take_over(&joined), 0);
        half_drain(&joined);
        half_close(&joined);
        assert_int_equal(slots_taken(&(struct node){.t = owner.t}), 0);
    }
    half_take_back(&owner);
    half_drain(&owner);
    assert_int_equal(notes_check((uint64_t[PEERS]){0}, (uint64_t[PEERS]){[1] = 20}), 0);
    half_close(&owner);
}

/* ---- rings of several lengths ---- */

static struct transport_config config_sharing(struct node *node, bool shares_cores)
{
    struct transport_config config = config_for(node);

    config.settings.shm.ring_size = 0;
    config.settings.shm.shares_cores = shares_cores;
    return config;
}

/* If ranks share cores the rings are longer; but a peer with a core of its own gets no longer
 * packets, also not from a half that has taken over. */
static void longer_rings_change_no_packet(UNUSED void **state)
{
    struct node owner, joined, peer;
    struct transport_config owners = config_sharing(&owner, true),
                            joineds = config_sharing(&joined, true),
                            peers = config_sharing(&peer, false);
    struct transport_handle handle;

    assert_int_equal(node_open_with(&owner, &owners), 0);
    assert_int_equal(node_open_with(&peer, &peers), 0);
    assert_true(inside(&owner)->own->ring_cells > inside(&peer)->own->ring_cells);
    transport_shm.address(peer.t, &board->address[1]);
    assert_int_equal(transport_hand_over(owner.t, &handle), 0);
    joined = (struct node){0};
    assert_int_equal(transport_take_over(&transport_shm, &joineds, &handle, &joined.t), 0);
    assert_int_equal(joined.t->limits.packet_max, owner.t->limits.packet_max);
    stream(&joined, connect_to(&joined, 1), 0, 1);
    await(&peer, 1);
    assert_false(peer.wrong);
    node_close(&joined);
    assert_int_equal(transport_take_back(owner.t), 0);
    node_close(&owner);
    node_close(&peer);
}

/* ---- nudges ---- */

#define NUDGES 5000

/* Answers each command (board->number counts them) by counting it, and by a wake-up. */
static void *obey(UNUSED void *arg)
{
    struct half joined;

    stage_await(1);
    CHECK(half_take_over(&joined) == 0);
    stage_set(2);
    for (uint64_t done = 0; done < NUDGES;) {
        joined.t->ops->poll(joined.t, 16);
        if (atomic_load(&board->number) == done) {
            CHECK(joined.t->ops->wait(joined.t, PATIENCE_NS) == 0);
            continue;
        }
        atomic_store(&notes->count, ++done);
        transport_wake_other(joined.t);
    }
    half_close(&joined);
    return NULL;
}

static void obey_in_a_child(void)
{
    obey(NULL);
}

/* Neither this process nor the child checks by itself: a lost wake-up aborts it. */
static pid_t start_trusting(void (*story)(void))
{
    sys_trust_wakes(PATIENCE_NS);
    return start(story);
}

static void command(struct half *owner)
{
    for (uint64_t i = 1; i <= NUDGES; i++) {
        atomic_store(&board->number, i);
        transport_wake_other(owner->t);
        for (;;) {
            owner->t->ops->poll(owner->t, 16);
            if (atomic_load(&notes->count) == i)
                break;
            CHECK(owner->t->ops->wait(owner->t, PATIENCE_NS) == 0);
        }
    }
}

static void no_nudge_between_processes_is_lost(UNUSED void **state)
{
    pid_t child = start_trusting(obey_in_a_child);
    struct half owner;

    half_open(&owner, 0);
    half_hand_over(&owner);
    stage_set(1);
    stage_await(2);
    command(&owner);
    sys_trust_wakes(0);
    ended_well(child);
    half_take_back(&owner);
    half_close(&owner);
}

static void no_nudge_between_threads_is_lost(UNUSED void **state)
{
    struct half owner;
    pthread_t thread;

    half_open(&owner, 0);
    half_hand_over(&owner);
    stage_set(1);
    sys_trust_wakes(PATIENCE_NS);
    assert_int_equal(pthread_create(&thread, NULL, obey, NULL), 0);
    stage_await(2);
    command(&owner);
    sys_trust_wakes(0);
    pthread_join(thread, NULL);
    half_take_back(&owner);
    half_close(&owner);
}

static void a_nudge_is_kept_for_the_next_wait(UNUSED void **state)
{
    struct half owner, joined;

    half_open(&owner, 0);
    transport_wake_other(owner.t); /* there is no other half */
    assert_int_equal(owner.t->ops->wait(owner.t, 0), -ETIMEDOUT);
    half_hand_over(&owner);
    assert_int_equal(half_take_over(&joined), 0);
    joined.t->ops->poll(joined.t, 16);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(owner.t->ops->wait(owner.t, CLOCK_MS), -ETIMEDOUT);
        assert_int_equal(joined.t->ops->wait(joined.t, CLOCK_MS), -ETIMEDOUT);
        transport_wake_other(owner.t);
        assert_int_equal(owner.t->ops->wait(owner.t, 0), -ETIMEDOUT); /* did not wake itself */
        assert_int_equal(joined.t->ops->wait(joined.t, PATIENCE_NS), 0);
        joined.t->ops->poll(joined.t, 16);
        transport_wake_other(joined.t);
        assert_int_equal(joined.t->ops->wait(joined.t, 0), -ETIMEDOUT);
        assert_int_equal(owner.t->ops->wait(owner.t, PATIENCE_NS), 0);
        owner.t->ops->poll(owner.t, 16);
    }
    half_close(&joined);
    assert_int_equal(owner.t->ops->wait(owner.t, PATIENCE_NS), 0); /* woken by the close */
    half_take_back(&owner);
    half_close(&owner);
}

/* ---- two halves wait for space ---- */

#define SLOW 1500 /* packets of each half: they fill a ring some 100 times */

static void slow_reader(void)
{
    struct peer peer;

    peer_open(&peer);
    stage_set(1);
    while (peer.joined_next < SLOW || peer.owner_next < OWNERS_FIRST + SLOW) {
        if (transport_shm.poll(peer.node.t, 1) != 0 &&
            (peer.joined_next + peer.owner_next) % 8 == 0)
            usleep(100);
    }
    CHECK(!peer.wrong && peer.node.accepted == 1);
    node_close(&peer.node);
}

static void *stream_joined(UNUSED void *arg)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    half_stream(&joined, 0, SLOW);
    half_close(&joined);
    return NULL;
}

static void both_sleeping_halves_are_woken_by_space(UNUSED void **state)
{
    pid_t child = start_trusting(slow_reader);
    struct half owner;
    pthread_t thread;

    stage_await(1);
    half_open(&owner, 0);
    half_hand_over(&owner);
    assert_int_equal(pthread_create(&thread, NULL, stream_joined, NULL), 0);
    half_stream(&owner, OWNERS_FIRST, OWNERS_FIRST + SLOW);
    pthread_join(thread, NULL);
    sys_trust_wakes(0);
    ended_well(child);
    half_take_back(&owner);
    half_close(&owner);
}

/* ---- reads ---- */

static unsigned char exposed[5000];

static void read_as_joined(void)
{
    static unsigned char copy[sizeof exposed];
    struct half joined;
    uint64_t address, key;

    stage_await(1);
    CHECK(half_take_over(&joined) == 0);
    for (unsigned i = 0; i < 2; i++) { /* the endpoint's own memory, and a peer's */
        struct link *link = half_link(&joined, i);

        memset(copy, 0, sizeof copy);
        CHECK(transport_read(link, copy, board->remote,
                             i == 0 ? board->key : atomic_load(&board->number), sizeof copy,
                             NULL) == 0);
        for (size_t k = 0; k < sizeof copy; k++)
            CHECK(copy[k] == byte_of(3, k));
        CHECK(transport_expose(link, copy, sizeof copy, &address, &key) == -ENOTSUP);
    }
    half_close(&joined);
}

static void a_half_that_has_joined_reads_like_the_endpoint(UNUSED void **state)
{
    pid_t child = start(read_as_joined);
    uint64_t address, key;
    struct half owner;
    struct node peer;

    for (size_t k = 0; k < sizeof exposed; k++)
        exposed[k] = byte_of(3, k);
    half_open(&owner, 0);
    assert_int_equal(node_open_as(&peer, 1), 0);
    half_hand_over(&owner);
    assert_int_equal(transport_expose(half_link(&owner, 1), exposed, sizeof exposed,
                                      &board->remote, &board->key),
                     0);
    assert_int_equal(
        transport_expose(connect_to(&peer, 0), exposed, sizeof exposed, &address, &key), 0);
    atomic_store(&board->number, key);
    stage_set(1);
    ended_well(child);
    half_take_back(&owner);
    node_close(&peer);
    half_close(&owner);
}

/* ---- errors ---- */

static void halves_come_in_turn(UNUSED void **state)
{
    struct half owner, joined, third;

    half_open(&owner, 0);
    memcpy(&notes->handle.address, &board->address[0], sizeof board->address[0]);
    assert_int_equal(half_take_over(&joined), -EBUSY); /* it is not handed over */
    assert_int_equal(transport_take_back(owner.t), -EINVAL);
    half_hand_over(&owner);
    assert_memory_equal(&notes->handle.address, &board->address[0], sizeof board->address[0]);
    assert_int_equal(transport_hand_over(owner.t, &notes->handle), -EALREADY);
    assert_int_equal(half_take_over(&joined), 0);
    assert_int_equal(half_take_over(&third), -EBUSY);
    assert_int_equal(transport_take_back(owner.t), -EBUSY);
    assert_int_equal(transport_hand_over(joined.t, &notes->handle), -EALREADY);
    assert_int_equal(transport_take_back(joined.t), -EINVAL);
    half_close(&joined);
    half_take_back(&owner);
    assert_int_equal(transport_take_back(owner.t), -EINVAL);
    half_close(&owner);
    assert_int_equal(half_take_over(&joined), -ENOENT);
}

static void a_wrong_handle_or_key_is_refused(UNUSED void **state)
{
    struct transport_config config = config_for(NULL);
    struct transport_handle handle;
    struct transport *t = NULL;
    struct half owner;

    half_open(&owner, 0);
    half_hand_over(&owner);
    config.key[3]++;
    assert_int_equal(transport_take_over(&transport_shm, &config, &notes->handle, &t), -EACCES);
    config.key[3]--;
    handle = notes->handle;
    handle.address.kind = ADDRESS_LOOP;
    assert_int_equal(transport_take_over(&transport_shm, &config, &handle, &t), -EINVAL);
    handle = notes->handle;
    handle.address.host++;
    assert_int_equal(transport_take_over(&transport_shm, &config, &handle, &t), -EHOSTUNREACH);
    handle = notes->handle;
    handle.address.cookie++;
    assert_int_equal(transport_take_over(&transport_shm, &config, &handle, &t), -ENOENT);
    assert_null(t);
    half_take_back(&owner);
    half_close(&owner);
}

/* ---- everything fails once ---- */

/* Takes over, receives what is there, answers, closes; its n-th call or allocation fails. */
static int failed_life(uint64_t call, uint64_t allocation, int error)
{
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    struct half joined;
    int err;

    sys_fail_at(call, error);
    mem_fail_at(allocation);
    err = half_take_over(&joined);
    if (err == 0) {
        for (unsigned i = 0; i < 4; i++)
            joined.t->ops->poll(joined.t, 2);
        if (joined.link[1] != NULL)
            send_number(joined.link[1], 0);
        joined.t->ops->wait(joined.t, 1);
        half_close(&joined);
    }
    sys_fail_at(0, 0);
    mem_fail_at(0);
    CHECK(mem_live() == mem && sys_fds_live() == fds && sys_maps_live() == maps);
    return err;
}

static void fail_everything(void)
{
    static const int errors[] = {EMFILE, EACCES, EINTR, ENOMEM};
    unsigned failed = 0;

    stage_await(1);
    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++) {
        uint64_t calls = 0;

        for (uint64_t n = 1; n == 1 || calls >= n - 1; n++) {
            uint64_t before = sys_calls();
            int err = failed_life(n, 0, errors[i]);

            calls = sys_calls() - before;
            CHECK(err == 0 || err == -errors[i]);
            failed += err != 0;
        }
    }
    CHECK(failed >= 16); /* the host's two files, and the calls that find the segment */
    failed = 0;
    for (uint64_t n = 1; n <= 13; n++) {
        int err = failed_life(0, n, 0);

        CHECK(err == 0 || err == -ENOMEM);
        failed += err != 0;
    }
    CHECK(failed == 5); /* the endpoint, its segment and its file, its two tables */
    CHECK(failed_life(0, 0, 0) == 0);
}

static void every_failure_of_a_joined_life_is_clean(UNUSED void **state)
{
    pid_t child = start(fail_everything);
    struct half owner;
    struct node peer;
    uint64_t sent = 0;

    half_open(&owner, 0);
    assert_int_equal(node_open_as(&peer, 1), 0);
    half_hand_over(&owner);
    stage_set(1);
    while (!has_ended(child)) {
        sent += send_number(connect_to(&peer, 0), sent) == 0;
        transport_shm.poll(peer.t, 16);
        sched_yield();
    }
    ended_well(child);
    half_take_back(&owner);
    half_drain(&owner);
    assert_int_equal(notes_check((uint64_t[PEERS]){0}, (uint64_t[PEERS]){[1] = sent}), 0);
    await_free_slots(&peer);
    node_close(&peer);
    half_drain(&owner);
    half_close(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NOTES_TEST(a_process_can_receive_in_its_place),
        NOTES_TEST(a_thread_can_receive_in_its_place),
        NOTES_TEST(each_continues_where_the_other_stopped),
        NOTES_TEST(senders_come_and_go_meanwhile),
        NOTES_TEST(longer_rings_change_no_packet),
        NOTES_TEST(no_nudge_between_processes_is_lost),
        NOTES_TEST(no_nudge_between_threads_is_lost),
        NOTES_TEST(a_nudge_is_kept_for_the_next_wait),
        NOTES_TEST(both_sleeping_halves_are_woken_by_space),
        NOTES_TEST(a_half_that_has_joined_reads_like_the_endpoint),
        NOTES_TEST(halves_come_in_turn),
        NOTES_TEST(a_wrong_handle_or_key_is_refused),
        NOTES_TEST(every_failure_of_a_joined_life_is_clean),
    };

    return cmocka_run_group_tests(tests, set_up_all_notes, tear_down_all_notes);
}
