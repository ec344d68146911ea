/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_test.c - what transport.h promises, over every transport.
 *
 * One suite, run once for each row of kinds[].  All endpoints live in this thread: a
 * world of a few nodes, each with what its events said.  A packet's contents follow
 * from its number, so a receiver knows what must have come.
 *
 * Every test ends with all endpoints closed and nothing left of memory,
 * descriptors and mappings (world_fini).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "transport/transport.h"

#define MAX_NODES  4
#define MAX_LINKS  8
#define MAX_PACKET (64 << 10)
#define PATIENCE   20000 /* rounds without what must come before a test fails */

struct kind {
    const char *name;
    const struct transport_ops *ops;
    uint64_t fault_percent; /* 0: not wrapped */
};

struct node {
    struct transport *t;
    struct transport_address address;
    struct link *links[MAX_LINKS]; /* by peer number */
    uint32_t link_count;
    uint32_t arrived[MAX_LINKS]; /* packets, by peer */
    uint32_t wrong;              /* packets that were not the one that had to come */
    uint32_t accepted, dropped, done;
    int accept_error;       /* what accept() answers */
    uint32_t deliver_again; /* how many deliveries are refused */
    uint32_t refusals;
    int read_error;
    void *read_cookie;
};

static struct world {
    const struct kind *kind;
    struct node nodes[MAX_NODES];
    uint64_t mem_before;
    int64_t fds_before, maps_before;
} world;

static unsigned char scratch[MAX_PACKET];

/* Most of what is tested here is worth a line in the log. */
static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    assert_non_null(text);
}

/* ---- packets ---- */

/* Bytes of packet number; the first 4 are the transport's. */
static void fill(unsigned char *bytes, uint32_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((number * 0x9e3779b1u + (uint32_t)i * 0x85ebca6bu) >> 16);
}

static size_t size_of(const struct transport *t, uint32_t number)
{
    size_t span = t->limits.packet_max - sizeof(struct wire_header) + 1;

    return sizeof(struct wire_header) + number * 37u % span;
}

static int send_sized(struct link *link, uint32_t number, size_t size)
{
    static const size_t body_sizes[] = {0, 8, 16, 32};
    alignas(8) static unsigned char bytes[MAX_PACKET];
    size_t body_size = body_sizes[number % 4];
    size_t rest = size - sizeof(struct wire_header);

    fill(bytes, number, size);
    body_size = min_size(body_size, rest);
    return link->transport->ops->send(
        link, &(struct transport_packet){
                  .header = (struct wire_header *)(void *)bytes,
                  .body = bytes + sizeof(struct wire_header),
                  .body_size = body_size,
                  .payload = bytes + sizeof(struct wire_header) + body_size,
                  .payload_size = rest - body_size,
              });
}

static int send_number(struct link *link, uint32_t number)
{
    return send_sized(link, number, size_of(link->transport, number));
}

/* ---- events ---- */

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct node *node = arg;
    struct link *again;

    if (node->accept_error != 0)
        return node->accept_error;
    assert_true(node->link_count < MAX_LINKS);
    assert_int_equal(node->t->ops->connect(node->t, address, &again), 0);
    assert_ptr_equal(again, link);
    node->links[node->link_count] = link;
    *peer = node->link_count++;
    node->accepted++;
    return 0;
}

/* The packets of each peer are numbered from 0. */
static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct node *node = arg;

    assert_true(peer < node->link_count);
    assert_int_equal((uintptr_t)packet % 8, 0);
    if (node->deliver_again != 0) {
        node->deliver_again--;
        node->refusals++;
        return -EAGAIN;
    }
    assert_in_range(size, sizeof(struct wire_header), MAX_PACKET);
    fill(scratch, node->arrived[peer], size);
    if (memcmp(scratch + 4, (const char *)packet + 4, size - 4) != 0)
        node->wrong++;
    node->arrived[peer]++;
    return 0;
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct node *node = arg;

    node->read_cookie = cookie;
    node->read_error = error;
    node->done++;
}

static void on_dropped(void *arg, const char *reason)
{
    struct node *node = arg;

    assert_non_null(reason);
    node->dropped++;
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_deliver,
    .read_done = on_read_done,
    .dropped = on_dropped,
};

/* ---- the world ---- */

static int node_open(unsigned i)
{
    struct node *node = &world.nodes[i];
    struct transport_config config = {
        .events = &events,
        .arg = node,
        .key = "one job, one key",
        .shm_ring_bytes = 16 << 10,
        .shm_peers = 8,
        .shm_attach = true,
        .fault_seed = i + 1,
        .fault_percent = world.kind->fault_percent,
    };
    int err;

    *node = (struct node){0};
    err = world.kind->fault_percent != 0
              ? transport_fault_open(world.kind->ops, &config, &node->t)
              : world.kind->ops->open(&config, &node->t);
    if (err == 0)
        node->t->ops->address(node->t, &node->address);
    return err;
}

static void node_close(unsigned i)
{
    if (world.nodes[i].t != NULL)
        world.nodes[i].t->ops->close(world.nodes[i].t);
    world.nodes[i].t = NULL;
}

static void world_init(void **state, unsigned nodes)
{
    world = (struct world){
        .kind = *state,
        .mem_before = mem_live(),
        .fds_before = sys_fds_live(),
        .maps_before = sys_maps_live(),
    };
    for (unsigned i = 0; i < nodes; i++)
        assert_int_equal(node_open(i), 0);
}

static void world_fini(void)
{
    for (unsigned i = 0; i < MAX_NODES; i++) {
        assert_int_equal(world.nodes[i].wrong, 0);
        node_close(i);
    }
    assert_int_equal(mem_live(), world.mem_before);
    assert_int_equal(sys_fds_live(), world.fds_before);
    assert_int_equal(sys_maps_live(), world.maps_before);
}

static int try_link(unsigned from, unsigned to, struct link **out)
{
    struct node *node = &world.nodes[from];
    int err = node->t->ops->connect(node->t, &world.nodes[to].address, out);

    if (err == 0) {
        (*out)->peer = node->link_count;
        node->links[node->link_count++] = *out;
    }
    return err;
}

static struct link *link_to(unsigned from, unsigned to)
{
    struct link *link = NULL;

    assert_int_equal(try_link(from, to, &link), 0);
    assert_ptr_equal(link->transport, world.nodes[from].t);
    return link;
}

static int poll_all(void)
{
    int n = 0;

    for (unsigned i = 0; i < MAX_NODES; i++)
        if (world.nodes[i].t != NULL)
            n += world.nodes[i].t->ops->poll(world.nodes[i].t, 16);
    return n;
}

static void poll_until(const uint32_t *counter, uint32_t value)
{
    for (unsigned round = 0; round < PATIENCE && *counter < value; round++)
        poll_all();
    assert_int_equal(*counter, value);
}

/* A few rounds in which nothing more may come. */
static void poll_idle(void)
{
    for (unsigned round = 0; round < 50; round++)
        poll_all();
}

static void send_all(struct link *link, uint32_t first, uint32_t count)
{
    for (uint32_t number = first; number < first + count; number++) {
        int err = -EAGAIN;

        for (unsigned round = 0; round < PATIENCE && err == -EAGAIN; round++)
            if ((err = send_number(link, number)) == -EAGAIN)
                poll_all();
        assert_int_equal(err, 0);
    }
}

/* Sends until there is really no room; returns the next number. */
static uint32_t send_until_full(struct link *link, uint32_t number)
{
    for (unsigned refused = 0; refused < 100;) {
        int err = send_number(link, number);

        if (err == 0) {
            number++;
            refused = 0;
        } else {
            assert_int_equal(err, -EAGAIN);
            refused++;
        }
    }
    return number;
}

/* Sends until the answer is not "again" and not "taken". */
static int send_until_error(struct link *link)
{
    int err = -EAGAIN;

    for (unsigned round = 0; round < PATIENCE && (err == -EAGAIN || err == 0); round++)
        err = send_number(link, 0);
    return err;
}

/* ---- order, sizes, room ---- */

static void packets_arrive_in_order_in_both_directions(void **state)
{
    struct link *there, *back;

    world_init(state, 2);
    there = link_to(0, 1);
    back = link_to(1, 0);
    for (uint32_t i = 0; i < 300; i += 3) {
        send_all(there, i, 3);
        send_all(back, i, 3);
    }
    poll_until(&world.nodes[0].arrived[0], 300);
    poll_until(&world.nodes[1].arrived[0], 300);
    assert_int_equal(world.nodes[0].accepted + world.nodes[1].accepted, 0);
    assert_true(world.nodes[0].t->ops->is_flushed(world.nodes[0].t));
    world_fini();
}

static void every_size_arrives_whole(void **state)
{
    size_t size = sizeof(struct wire_header);
    struct link *link;
    uint32_t number = 0;

    world_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    for (; size <= link->transport->limits.packet_max; size++, number++) {
        int err = -EAGAIN;

        for (unsigned round = 0; round < PATIENCE && err == -EAGAIN; round++)
            if ((err = send_sized(link, number, size)) == -EAGAIN)
                poll_all();
        assert_int_equal(err, 0);
    }
    poll_until(&world.nodes[1].arrived[0], number);
    world_fini();
}

static void a_full_link_takes_nothing_and_recovers(void **state)
{
    struct link *link;
    uint32_t taken;

    world_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    taken = send_until_full(link, 0);
    assert_true(taken > 0);
    for (unsigned i = 0; i < 20; i++) {
        poll_until(&world.nodes[1].arrived[0], taken);
        poll_idle();
        assert_int_equal(world.nodes[1].arrived[0], taken);
        taken = send_until_full(link, taken);
    }
    assert_true(taken > 21);
    world_fini();
}

static void three_endpoints_do_not_mix(void **state)
{
    struct link *link[3][3];

    world_init(state, 3);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            link[i][k] = link_to(i, k);
    for (uint32_t number = 0; number < 60; number++)
        for (unsigned i = 0; i < 3; i++)
            for (unsigned k = 0; k < 3; k++)
                send_all(link[i][k], number, 1);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            poll_until(&world.nodes[i].arrived[k], 60);
    world_fini();
}

static void a_flood_does_not_starve_others(void **state)
{
    struct link *flood, *quiet;
    uint32_t number = 0;

    world_init(state, 3);
    flood = link_to(0, 2);
    quiet = link_to(1, 2);
    link_to(2, 0);
    link_to(2, 1);
    send_all(quiet, 0, 1);
    for (unsigned round = 0; round < 1000 && world.nodes[2].arrived[1] == 0; round++) {
        number = send_until_full(flood, number);
        world.nodes[2].t->ops->poll(world.nodes[2].t, 2);
    }
    assert_int_equal(world.nodes[2].arrived[1], 1);
    world_fini();
}

static void an_endpoint_can_talk_to_itself(void **state)
{
    world_init(state, 1);
    send_all(link_to(0, 0), 0, 200);
    poll_until(&world.nodes[0].arrived[0], 200);
    assert_int_equal(world.nodes[0].accepted, 0);
    world_fini();
}

/* ---- strangers, refusals ---- */

static void a_stranger_is_accepted_and_can_be_answered(void **state)
{
    world_init(state, 2);
    send_all(link_to(0, 1), 0, 20);
    poll_until(&world.nodes[1].arrived[0], 20);
    assert_int_equal(world.nodes[1].accepted, 1);
    send_all(world.nodes[1].links[0], 0, 20);
    poll_until(&world.nodes[0].arrived[0], 20);
    assert_int_equal(world.nodes[0].accepted, 0);
    world_fini();
}

static void a_refused_stranger_is_dropped_and_counted(void **state)
{
    struct node *node = &world.nodes[2];

    world_init(state, 3);
    node->accept_error = -EPERM;
    send_until_full(link_to(0, 2), 0);
    poll_idle();
    assert_true(node->dropped > 0);
    assert_int_equal(node->accepted, 0);
    node->accept_error = 0;
    send_all(link_to(1, 2), 0, 20);
    poll_until(&node->arrived[0], 20);
    assert_int_equal(node->accepted, 1);
    world_fini();
}

static void an_undecided_accept_is_asked_again(void **state)
{
    struct node *node = &world.nodes[1];
    uint32_t taken;

    world_init(state, 2);
    node->accept_error = -EAGAIN;
    taken = send_until_full(link_to(0, 1), 0);
    poll_idle();
    assert_int_equal(node->accepted + node->dropped, 0);
    node->accept_error = 0;
    poll_until(&node->arrived[0], taken);
    assert_int_equal(node->accepted, 1);
    world_fini();
}

static void what_deliver_refuses_is_offered_again_in_order(void **state)
{
    struct node *node = &world.nodes[1];
    struct link *link;
    uint32_t taken = 0;

    world_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    for (unsigned i = 0; i < 20; i++) {
        taken = send_until_full(link, taken);
        node->deliver_again = 5;
        poll_until(&node->refusals, 5 * (i + 1));
        poll_until(&node->arrived[0], taken);
    }
    world_fini();
}

/* ---- addresses, ends ---- */

static void connecting_twice_gives_the_same_link(void **state)
{
    struct link *first, *second;

    world_init(state, 2);
    first = link_to(0, 1);
    second = link_to(0, 1);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, link_to(0, 0));
    world_fini();
}

static void malformed_addresses_are_refused(void **state)
{
    struct transport_address address;
    struct link *link = NULL;
    struct transport *t;

    world_init(state, 2);
    t = world.nodes[0].t;
    memset(&address, 0, sizeof address);
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    memset(&address, 0xff, sizeof address);
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    address = world.nodes[1].address;
    address.bytes[0]++;
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    assert_null(link);
    /* one bit changed: refused now, or a link that leads nowhere */
    for (unsigned bit = 8; bit < 8 * TRANSPORT_ADDRESS_SIZE; bit++) {
        int err;

        address = world.nodes[1].address;
        address.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        err = t->ops->connect(t, &address, &link);
        if (err == 0)
            err = send_until_error(link);
        assert_true(err == -EINVAL || err == -EHOSTUNREACH || err == -ENOTCONN);
    }
    poll_idle();
    assert_int_equal(world.nodes[1].accepted, 0);
    world_fini();
}

static bool is_gone(int err)
{
    return err == -ENOTCONN || err == -EHOSTUNREACH;
}

static unsigned warnings;

static void count_warnings(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)text;
    warnings += level <= LOG_LEVEL_WARN;
}

/* Only in another process does a segment have to be opened: the pid of ours. */
static void a_lack_of_descriptors_is_told_once_and_tried_again(void **state)
{
    struct link *link;
    pid_t parent = getppid();
    struct wire_header header = {.version = WIRE_VERSION};

    world_init(state, 1);
    if (world.kind->ops != &transport_shm || world.kind->fault_percent != 0) {
        world_fini();
        skip();
    }
    memcpy(world.nodes[0].address.bytes + 4, &parent, 4);
    link = link_to(0, 0);
    warnings = 0;
    log_set_sink(count_warnings, NULL);
    assert_int_equal(sys_fail_name("open", SYS_FAIL_ALWAYS, EMFILE), 0);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(
            link->transport->ops->send(link, &(struct transport_packet){.header = &header}),
            -EAGAIN);
    sys_fail_none();
    log_set_sink(be_quiet, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(send_until_error(link), -EHOSTUNREACH);
    world_fini();
}

static void a_closed_endpoint_cannot_be_reached(void **state)
{
    struct link *link;

    world_init(state, 2);
    node_close(1);
    link = link_to(0, 1);
    assert_true(is_gone(send_until_error(link)));
    assert_true(is_gone(send_until_error(link)));
    world_fini();
}

static void a_new_endpoint_does_not_inherit_links(void **state)
{
    struct link *link;

    world_init(state, 2);
    link = link_to(0, 1);
    send_all(link, 0, 1);
    node_close(1);
    assert_int_equal(node_open(1), 0);
    assert_int_equal(send_until_error(link), -ENOTCONN);
    poll_idle();
    assert_int_equal(world.nodes[1].accepted, 0);
    assert_ptr_not_equal(link_to(0, 1), link);
    send_all(world.nodes[0].links[1], 0, 5);
    poll_until(&world.nodes[1].arrived[0], 5);
    world_fini();
}

static void what_was_sent_outlives_its_sender(void **state)
{
    uint32_t taken;

    world_init(state, 2);
    taken = send_until_full(link_to(0, 1), 0);
    node_close(0);
    poll_until(&world.nodes[1].arrived[0], taken);
    assert_int_equal(send_until_error(world.nodes[1].links[0]), -ENOTCONN);
    poll_idle();
    world_fini();
}

static void sending_to_one_that_closed_fails(void **state)
{
    struct link *link;

    world_init(state, 2);
    link = link_to(0, 1);
    send_until_full(link, 0);
    node_close(1);
    assert_int_equal(send_until_error(link), -ENOTCONN);
    assert_int_equal(send_until_error(link), -ENOTCONN);
    poll_idle();
    world_fini();
}

/* ---- reads ---- */

/* Reads until it works; the disturbing transport fails some. */
static int read_whole(struct node *node, struct link *link, void *dst, uint64_t address,
                      uint64_t key, size_t size)
{
    uint32_t done = node->done;
    int err = -EAGAIN;

    for (unsigned round = 0; round < 1000 && (err == -EAGAIN || err == -EIO); round++) {
        err = link->transport->ops->read(link, dst, address, key, size, &done);
        if (err == -EINPROGRESS) {
            poll_until(&node->done, ++done);
            assert_ptr_equal(node->read_cookie, &done);
            err = node->read_error;
        } else if (err == -EAGAIN) {
            poll_all();
        }
    }
    return err;
}

static void exposed_memory_can_be_read(void **state)
{
    static unsigned char source[(1 << 20) + 3], target[(1 << 20) + 3];
    static const size_t sizes[] = {0, 1, 63, 4096, 65537, sizeof source};
    struct link *reader, *owner;
    uint64_t address, key;

    world_init(state, 2);
    if (!world.nodes[0].t->limits.can_read)
        skip();
    reader = link_to(0, 1);
    owner = link_to(1, 0);
    fill(source, 7, sizeof source);
    assert_int_equal(
        owner->transport->ops->expose(owner, source, sizeof source, &address, &key), 0);
    for (unsigned i = 0; i < 4 * ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i / 4];
        size_t offset = (sizeof source - size) / 2;

        memset(target, 0, sizeof target);
        assert_int_equal(
            read_whole(&world.nodes[0], reader, target, address + offset, key, size), 0);
        assert_memory_equal(target, source + offset, size);
        assert_true(size == sizeof target || target[size] == 0);
    }
    owner->transport->ops->unexpose(owner, address, key);
    world_fini();
}

/* An address comes out of a packet: anything can stand there. */
static void reading_where_no_memory_is_fails(void **state)
{
    static const uint64_t wrong[] = {0, 4096, UINT64_MAX - 4096, UINT64_C(1) << 63};
    unsigned char source[64] = {1}, target[64];
    struct link *reader, *owner;
    uint64_t address, key;

    world_init(state, 2);
    reader = link_to(0, 1);
    owner = link_to(1, 0);
    assert_int_equal(
        owner->transport->ops->expose(owner, source, sizeof source, &address, &key), 0);
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_true(read_whole(&world.nodes[0], reader, target, wrong[i], key, sizeof target) <
                    0);
    assert_int_equal(read_whole(&world.nodes[0], reader, target, address, key, sizeof source),
                     0);
    assert_memory_equal(target, source, sizeof source);
    world_fini();
}

static void a_closed_endpoint_cannot_be_read(void **state)
{
    unsigned char source[64] = {1}, target[64];
    struct link *reader, *owner;
    uint64_t address, key;

    world_init(state, 2);
    reader = link_to(0, 1);
    owner = link_to(1, 0);
    assert_int_equal(
        owner->transport->ops->expose(owner, source, sizeof source, &address, &key), 0);
    send_all(reader, 0, 1);
    assert_int_equal(read_whole(&world.nodes[0], reader, target, address, key, sizeof source),
                     0);
    node_close(1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(
            read_whole(&world.nodes[0], reader, target, address, key, sizeof source),
            -ENOTCONN);
    world_fini();
}

static void closing_with_reads_under_way_leaks_nothing(void **state)
{
    unsigned char source[64] = {1}, target[4][64];
    struct link *reader, *owner;
    uint64_t address, key;

    world_init(state, 2);
    reader = link_to(0, 1);
    owner = link_to(1, 0);
    assert_int_equal(
        owner->transport->ops->expose(owner, source, sizeof source, &address, &key), 0);
    for (unsigned i = 0; i < 4; i++)
        reader->transport->ops->read(reader, target[i], address, key, sizeof source, NULL);
    node_close(0);
    assert_int_equal(world.nodes[0].done, 0);
    world_fini();
}

/* ---- waiting ---- */

static void waiting_ends_in_time_or_with_work(void **state)
{
    struct transport *t;
    uint64_t before;

    world_init(state, 2);
    t = world.nodes[1].t;
    link_to(1, 0);
    poll_idle();
    before = clock_now();
    assert_int_equal(t->ops->wait(t, 2 * CLOCK_MS), -ETIMEDOUT);
    assert_true(clock_now() - before < CLOCK_S);
    send_all(link_to(0, 1), 0, 1);
    assert_int_equal(t->ops->wait(t, -1), 0);
    poll_until(&world.nodes[1].arrived[0], 1);
    world_fini();
}

static void waiting_ends_when_there_is_room(void **state)
{
    struct link *link;
    uint32_t taken;

    world_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    taken = send_until_full(link, 0);
    poll_until(&world.nodes[1].arrived[0], taken);
    assert_int_equal(link->transport->ops->wait(link->transport, 10 * (int64_t)CLOCK_S), 0);
    assert_true(send_until_full(link, taken) > taken);
    world_fini();
}

/* Whoever was told to come again can wait, and is not left waiting. */
static void waiting_ends_after_every_again(void **state)
{
    unsigned char source[64] = {1}, target[64];
    struct link *reader, *owner;
    uint64_t address, key;

    world_init(state, 2);
    reader = link_to(0, 1);
    owner = link_to(1, 0);
    assert_int_equal(
        owner->transport->ops->expose(owner, source, sizeof source, &address, &key), 0);
    for (uint32_t i = 0; i < 200;) {
        int err = send_number(reader, i);

        if (err == 0) {
            i++;
            continue;
        }
        poll_idle();
        assert_int_equal(reader->transport->ops->wait(reader->transport, CLOCK_S), 0);
    }
    poll_until(&world.nodes[1].arrived[0], 200);
    for (unsigned i = 0; i < 50; i++) {
        int err = reader->transport->ops->read(reader, target, address, key, sizeof target, &i);

        if (err != -EINPROGRESS)
            continue;
        assert_int_equal(reader->transport->ops->wait(reader->transport, CLOCK_S), 0);
        poll_until(&world.nodes[0].done, world.nodes[0].done + 1);
    }
    world_fini();
}

/* ---- everything fails once ---- */

/* A short life: two endpoints, a few packets, an answer to a stranger.  Returns the
 * first error that is not "again"; closes nothing. */
static int short_life(void)
{
    struct link *link;
    int err = node_open(0);

    if (err == 0)
        err = node_open(1);
    if (err == 0)
        err = try_link(0, 1, &link);
    for (uint32_t number = 0; err == 0 && number < 10; number++) {
        err = -EAGAIN;
        for (unsigned round = 0; round < 200 && err == -EAGAIN; round++)
            if ((err = send_number(link, number)) == -EAGAIN)
                poll_all();
    }
    if (err == 0) {
        poll_until(&world.nodes[1].arrived[0], 10);
        err = -EAGAIN;
        for (unsigned round = 0; round < 200 && err == -EAGAIN; round++)
            if ((err = send_number(world.nodes[1].links[0], 0)) == -EAGAIN)
                poll_all();
    }
    if (err == 0)
        poll_until(&world.nodes[0].arrived[0], 1);
    return err;
}

static void no_allocation_is_needed_for_good(void **state)
{
    unsigned failed = 0;

    for (uint64_t n = 1;; n++) {
        uint64_t live;
        int err;

        world_init(state, 0);
        mem_fail_at(n);
        err = short_life();
        mem_fail_at(0);
        live = mem_live();
        world_fini();
        assert_true(err == 0 || err == -ENOMEM);
        failed += err != 0;
        if (err == 0 && n > 40)
            break;
        assert_true(live >= world.mem_before);
    }
    assert_true(failed >= 2); /* two endpoints are allocated */
}

static void no_system_call_is_needed_for_good(void **state)
{
    static const int errors[] = {EMFILE, EACCES, EINTR, ENOMEM};

    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++)
        for (uint64_t n = 1; n <= 60; n++) {
            int err;

            world_init(state, 0);
            sys_fail_at(n, errors[i]);
            err = short_life();
            sys_fail_at(0, 0);
            /* the error of the call, or a peer that could not be reached because of it */
            if (err != 0 && err != -EAGAIN && err != -EHOSTUNREACH)
                assert_int_equal(err, -errors[i]);
            world_fini();
        }
}

static const struct kind kinds[] = {
    {"loop", &transport_loop, 0},
    {"fault(loop)", &transport_loop, 30},
    {"shm", &transport_shm, 0},
    {"fault(shm)", &transport_shm, 30},
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_arrive_in_order_in_both_directions),
        cmocka_unit_test(every_size_arrives_whole),
        cmocka_unit_test(a_full_link_takes_nothing_and_recovers),
        cmocka_unit_test(three_endpoints_do_not_mix),
        cmocka_unit_test(a_flood_does_not_starve_others),
        cmocka_unit_test(an_endpoint_can_talk_to_itself),
        cmocka_unit_test(a_stranger_is_accepted_and_can_be_answered),
        cmocka_unit_test(a_refused_stranger_is_dropped_and_counted),
        cmocka_unit_test(an_undecided_accept_is_asked_again),
        cmocka_unit_test(what_deliver_refuses_is_offered_again_in_order),
        cmocka_unit_test(connecting_twice_gives_the_same_link),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(a_lack_of_descriptors_is_told_once_and_tried_again),
        cmocka_unit_test(a_closed_endpoint_cannot_be_reached),
        cmocka_unit_test(a_new_endpoint_does_not_inherit_links),
        cmocka_unit_test(what_was_sent_outlives_its_sender),
        cmocka_unit_test(sending_to_one_that_closed_fails),
        cmocka_unit_test(exposed_memory_can_be_read),
        cmocka_unit_test(reading_where_no_memory_is_fails),
        cmocka_unit_test(a_closed_endpoint_cannot_be_read),
        cmocka_unit_test(closing_with_reads_under_way_leaks_nothing),
        cmocka_unit_test(waiting_ends_in_time_or_with_work),
        cmocka_unit_test(waiting_ends_when_there_is_room),
        cmocka_unit_test(waiting_ends_after_every_again),
        cmocka_unit_test(no_allocation_is_needed_for_good),
        cmocka_unit_test(no_system_call_is_needed_for_good),
    };
    struct CMUnitTest bound[ARRAY_COUNT(tests)];
    int failed = 0;

    log_set_sink(be_quiet, NULL);
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        for (size_t i = 0; i < ARRAY_COUNT(tests); i++) {
            bound[i] = tests[i];
            bound[i].initial_state = (void *)(uintptr_t)&kinds[k];
        }
        failed += cmocka_run_group_tests_name(kinds[k].name, bound, NULL, NULL);
    }
    return failed;
}
