/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each peer is an endpoint with a segment of its own, and so is the endpoint with the device.
 * A device on a thread or in a process receives instead of that endpoint.  It begins with the
 * first receive that it gets, and knows a peer once the application has reported the peer's
 * number.  Both happen in the first run(): each peer sends to a receive of ours, which is over
 * before the suite begins.
 *
 * To lose a device, the test kills a process; it stops the others by the library's call.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/sys.h"
#include "device/soft/driver.h"
#include "testing/device/conformance_bench.h"
#include "transport/handoff.h"
#include "transport/memory.h"
#include "wire/wire.h"

#define READ_CHUNK 4096 /* makes a rendezvous take several steps */

/* A look that began earlier, and a whole look after it. */
#define IDLE_ROUNDS 3

static const struct {
    const char *name;
    enum softdev_driver driver;
} drivers[] = {
    {"loop", SOFTDEV_LOOP}, {"thread", SOFTDEV_THREAD}, {"process", SOFTDEV_PROCESS}};

static const uint32_t lists[] = {1, 2, 16, 1024};

/* The list for the tests of very many messages, which need no other. */
#define LONG_RUN 16

static enum softdev_driver driver; /* of this run */

struct peer {
    struct transport *t;
    struct transport_address address;
    struct link *link; /* to the endpoint with the device */
    uint64_t awaits;   /* the number of the last message that requested a FIN */
    uint64_t fins;
};

struct fixture {
    struct transport_config config;
    struct transport *t; /* the endpoint with the device */
    struct softdev *device;
    struct link *links[CONFORMANCE_PEERS]; /* loop: the links back */
    struct peer peers[CONFORMANCE_PEERS];
    bool is_ready, is_lost;
};

/* ---- packets to the peers ---- */

static int on_fin(void *arg, uint32_t number, const void *bytes, size_t size)
{
    struct peer *peer = arg;
    struct wire_packet packet;
    const char *reason;

    (void)number;
    assert_int_equal(wire_check(bytes, size, &packet, &reason), 0);
    assert_int_equal(packet.header.type, WIRE_FIN);
    assert_int_equal(packet.body.fin.sender, peer->awaits);
    peer->fins++;
    return 0;
}

/* The peers accept every sender. */
static int on_unknown_peer(void *arg, struct link *link,
                           const struct transport_address *address, uint32_t *number)
{
    (void)arg;
    (void)link;
    (void)address;
    *number = 0; /* the links of the device */
    return 0;
}

static void on_dropped(void *arg, const char *reason)
{
    (void)arg;
    fail_msg("dropped: %s", reason);
}

static const struct transport_events peer_events = {
    .accept = on_unknown_peer,
    .deliver = on_fin,
    .dropped = on_dropped,
};

/* ---- the endpoint with the device ---- */

static int number_of(void *arg, const struct transport_address *address, uint32_t *number)
{
    const struct fixture *fix = arg;

    for (uint32_t i = 0; i < CONFORMANCE_PEERS; i++)
        if (memcmp(address, &fix->peers[i].address, sizeof *address) == 0) {
            *number = i;
            return 0;
        }
    return -EPERM;
}

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *number)
{
    struct fixture *fix = arg;
    int err = number_of(fix, address, number);

    if (err == 0)
        fix->links[*number] = link;
    return err;
}

static int on_packet(void *arg, uint32_t number, const void *packet, size_t size)
{
    struct fixture *fix = arg;

    assert_int_equal(driver, SOFTDEV_LOOP); /* otherwise the device gets all packets */
    return softdev_deliver(&fix->device->base, number, packet, size);
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct fixture *fix = arg;

    assert_true(softdev_read_done(&fix->device->base, cookie, error));
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_packet,
    .read_done = on_read_done,
    .dropped = on_dropped,
};

static struct link *link_of(void *arg, uint32_t number)
{
    const struct fixture *fix = arg;

    return fix->links[number];
}

/* ---- work ---- */

static void check_patience(uint64_t start_ns, const char *what)
{
    if (clock_now() - start_ns > PATIENCE_NS)
        fail_msg("%s: it does not come about that %s", bench_target->name, what);
}

/* Does only the work of this thread.  Returns how much moved. */
static int work(struct fixture *fix)
{
    int moved = 0;

    if (driver == SOFTDEV_LOOP && !fix->is_lost)
        moved += fix->t->ops->poll(fix->t, 64) + softdev_run(&fix->device->base);
    for (int i = 0; i < CONFORMANCE_PEERS; i++)
        moved += fix->peers[i].t->ops->poll(fix->peers[i].t, 64);
    return moved;
}

/* Waits until a device elsewhere has found no work. */
static void await_device(struct fixture *fix)
{
    struct mbx_device *device = &fix->device->base;
    uint64_t start = clock_now(), rounds;

    if (driver == SOFTDEV_LOOP || fix->is_lost)
        return;
    rounds = softdev_idle_rounds(device);
    while (softdev_idle_rounds(device) < rounds + IDLE_ROUNDS) {
        sched_yield();
        check_patience(start, "the device has nothing to do");
    }
}

static void settle(struct fixture *fix)
{
    do
        await_device(fix);
    while (work(fix) > 0);
}

/* ---- packets from the peers ---- */

static void send_packet(struct fixture *fix, struct peer *peer,
                        const struct transport_packet *packet)
{
    uint64_t start = clock_now();

    for (int err; (err = peer->t->ops->send(peer->link, packet)) != 0;) {
        assert_int_equal(err, -EAGAIN);
        work(fix);
        sched_yield();
        check_patience(start, "a wire has space");
    }
}

static struct wire_header header_of(enum wire_type type,
                                    const struct conformance_message *message)
{
    return (struct wire_header){
        .what = wire_what(type),
        .tag = message->envelope.tag,
        .data = message->data,
        .context_id = message->envelope.context_id,
    };
}

/* Sends the message in one packet, if it fits; otherwise sends its first packet. */
static size_t send_first(struct fixture *fix, struct peer *peer,
                         const struct conformance_message *message)
{
    bool wants_fin = message->kind == CONFORMANCE_SYNC;
    size_t capacity = peer->t->limits.packet_max - sizeof(struct wire_header);
    const struct wire_sync sync = {.sender = message->data};
    const struct wire_first first = {.sender = wants_fin ? message->data : 0,
                                     .size = message->size};
    struct wire_header header = header_of(wants_fin ? WIRE_SYNC : WIRE_EAGER, message);
    struct transport_packet packet = {
        .header = &header, .payload = message->payload, .payload_size = message->size};

    if (message->size + sizeof sync > capacity) {
        header = header_of(WIRE_FIRST, message);
        header.flags = wants_fin ? WIRE_WANTS_FIN : 0;
        packet.body = &first;
        packet.body_size = sizeof first;
        packet.payload_size = capacity - sizeof first;
    } else if (wants_fin) {
        packet.body = &sync;
        packet.body_size = sizeof sync;
    }
    send_packet(fix, peer, &packet);
    return packet.payload_size;
}

static void send_eager(struct fixture *fix, struct peer *peer,
                       const struct conformance_message *message)
{
    const struct wire_header header = {.what = wire_what(WIRE_MORE)};
    size_t capacity = peer->t->limits.packet_max - sizeof header - sizeof(struct wire_more);
    size_t done = send_first(fix, peer, message);

    while (done < message->size) {
        const struct wire_more more = {.offset = done};
        size_t size = min_size(capacity, message->size - done);

        send_packet(fix, peer,
                    &(struct transport_packet){.header = &header,
                                               .body = &more,
                                               .body_size = sizeof more,
                                               .payload = (const char *)message->payload + done,
                                               .payload_size = size});
        done += size;
    }
}

/* A message that cannot be read is exposed nowhere. */
static void send_rts(struct fixture *fix, struct peer *peer,
                     const struct conformance_message *message)
{
    const struct wire_header header = header_of(WIRE_RTS, message);
    struct wire_rts rts = {.sender = message->data, .size = message->size};

    if (message->kind == CONFORMANCE_RENDEZVOUS)
        assert_int_equal(transport_expose(peer->link, message->payload, message->size,
                                          &rts.address, &rts.key),
                         0);
    send_packet(
        fix, peer,
        &(struct transport_packet){.header = &header, .body = &rts, .body_size = sizeof rts});
}

/* Sends a FIN that nobody waits for. */
static void send_other(struct fixture *fix, struct peer *peer)
{
    const struct wire_header header = {.what = wire_what(WIRE_FIN)};
    const struct wire_fin fin = {.sender = 1};

    send_packet(
        fix, peer,
        &(struct transport_packet){.header = &header, .body = &fin, .body_size = sizeof fin});
}

static void send_message(void *instance, uint32_t number,
                         const struct conformance_message *message)
{
    struct fixture *fix = instance;
    struct peer *peer = &fix->peers[number];

    switch (message->kind) {
    case CONFORMANCE_EAGER:
        send_eager(fix, peer, message);
        break;
    case CONFORMANCE_SYNC:
        peer->awaits = message->data;
        send_eager(fix, peer, message);
        break;
    case CONFORMANCE_RENDEZVOUS:
    case CONFORMANCE_UNREADABLE:
        peer->awaits = message->data;
        send_rts(fix, peer, message);
        break;
    case CONFORMANCE_OTHER:
        send_other(fix, peer);
        break;
    }
}

/* ---- the first run ---- */

/* The peer sends to a receive of ours, and nothing of the message stays. */
static void introduce(struct fixture *fix, uint32_t number)
{
    struct mbx_device *device = &fix->device->base;
    const struct conformance_message message = {
        CONFORMANCE_EAGER, {1, number, 0}, "hello", 5, 0};
    char heard[5];
    const struct mbx_device_recv recv = {
        .envelope = message.envelope, .buf = heard, .size = sizeof heard};
    struct mbx_device_event event;
    uint64_t start = clock_now();

    assert_int_equal(device->ops->append(device, &recv, 0), 0);
    settle(fix);
    send_message(fix, number, &message);
    while (device->ops->poll(device, &event, 1) == 0) {
        work(fix);
        sched_yield();
        check_patience(start, "a peer is known");
    }
    assert_int_equal(event.type, MBX_DEVICE_MATCHED);
    assert_memory_equal(heard, message.payload, sizeof heard);
}

static void run(void *instance)
{
    struct fixture *fix = instance;

    if (!fix->is_ready) {
        fix->is_ready = true;
        for (uint32_t i = 0; i < CONFORMANCE_PEERS; i++)
            introduce(fix, i);
    }
    settle(fix);
}

/* ---- open and close ---- */

static struct transport_config config_of(const struct transport_events *of, void *arg)
{
    return (struct transport_config){
        .events = of, .arg = arg, .key = "one job, one key", .settings.shm.attach = true};
}

static void open_endpoint(struct fixture *fix)
{
    fix->config = config_of(&events, fix);
    assert_int_equal(transport_shm.open(&fix->config, &fix->t), 0);
}

static void open_peer(struct fixture *fix, struct peer *peer)
{
    const struct transport_config config = config_of(&peer_events, peer);
    struct transport_address to;

    assert_int_equal(transport_shm.open(&config, &peer->t), 0);
    transport_shm.address(peer->t, &peer->address);
    transport_shm.address(fix->t, &to);
    assert_int_equal(transport_shm.connect(peer->t, &to, &peer->link), 0);
}

static void open_device(struct fixture *fix)
{
    struct mbx_device *device;

    assert_int_equal(softdev_open(
                         &(struct softdev_config){
                             .driver = driver,
                             .transport = fix->t,
                             .transport_config = &fix->config,
                             .read_chunk = READ_CHUNK,
                             .spin_ns = 20 * CLOCK_US,
                             .answer_ns = PATIENCE_NS,
                             .seed = 1,
                             .program = "",
                             .number = number_of,
                             .link = link_of,
                             .arg = fix,
                         },
                         &device),
                     0);
    fix->device = container_of(device, struct softdev, base);
}

static void *open_instance(struct mbx_device **device)
{
    struct fixture *fix = mem_calloc(1, sizeof *fix);

    assert_non_null(fix);
    open_endpoint(fix);
    for (int i = 0; i < CONFORMANCE_PEERS; i++)
        open_peer(fix, &fix->peers[i]);
    open_device(fix);
    *device = &fix->device->base;
    return fix;
}

static void close_instance(void *instance)
{
    struct fixture *fix = instance;

    softdev_stop(&fix->device->base);
    transport_take_back(fix->t); /* refused if the device has not taken over the transport */
    fix->device->base.ops->close(&fix->device->base);
    fix->t->ops->close(fix->t);
    for (int i = 0; i < CONFORMANCE_PEERS; i++)
        fix->peers[i].t->ops->close(fix->peers[i].t);
    mem_free(fix);
}

static void lose(void *instance)
{
    struct fixture *fix = instance;
    uint64_t start = clock_now();

    if (driver == SOFTDEV_PROCESS) {
        assert_int_equal(kill(fix->device->pid, SIGKILL), 0);
        while (fix->device->driver->is_alive(fix->device))
            check_patience(start, "a killed device is gone");
        fix->device->until_check = 1; /* the next poll that finds nothing checks the process */
    } else {
        softdev_stop(&fix->device->base);
    }
    fix->is_lost = true;
}

/* ---- packets for the suite ---- */

static void read_packet(void *instance, const struct mbx_device_event *event,
                        const void *memory, struct conformance_message *message)
{
    struct wire_packet packet;
    const char *reason;

    (void)instance;
    assert_int_equal(wire_check(memory, event->bytes, &packet, &reason), 0);
    *message = (struct conformance_message){
        .kind = CONFORMANCE_EAGER,
        .envelope = {packet.header.context_id, event->peer, packet.header.tag},
        .payload = packet.payload,
        .size = packet.payload_size,
        .data = packet.header.data,
    };
    if (packet.header.type == WIRE_RTS) {
        message->kind = CONFORMANCE_RENDEZVOUS;
        message->payload = NULL;
        message->size = packet.body.rts.size;
    } else if (packet.header.type == WIRE_SYNC) {
        message->kind = CONFORMANCE_SYNC;
    } else {
        assert_int_equal(packet.header.type, WIRE_EAGER);
    }
}

static uint64_t fins(void *instance, uint32_t peer)
{
    return ((struct fixture *)instance)->peers[peer].fins;
}

/* ---- all drivers ---- */

/* Returns the number of tests that failed; no resource may leak. */
static int run_driver(size_t which)
{
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    int failed = 0;

    driver = drivers[which].driver;
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        char name[60];
        const struct conformance_target target = {
            .name = name,
            .kinds = 1 << CONFORMANCE_EAGER | 1 << CONFORMANCE_SYNC |
                     1 << CONFORMANCE_RENDEZVOUS | 1 << CONFORMANCE_UNREADABLE |
                     1 << CONFORMANCE_OTHER,
            .list = lists[i],
            .is_brief = lists[i] != LONG_RUN,
            .open = open_instance,
            .close = close_instance,
            .send = send_message,
            .run = run,
            .read = read_packet,
            .fins = fins,
            .lose = lose,
        };

        snprintf(name, sizeof name, "device conformance: soft, %s, list of %u",
                 drivers[which].name, lists[i]);
        failed += conformance_run(&target);
    }
    if (failed == 0 && (sys_fds_live() != fds || sys_maps_live() != maps)) {
        fprintf(stderr, "%s: descriptors or mappings are left\n", drivers[which].name);
        failed = 1;
    }
    return failed;
}

static size_t find_driver(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(drivers); i++)
        if (strcmp(drivers[i].name, name) == 0)
            return i;
    fprintf(stderr, "driver_conformance_test: no driver '%s': loop, thread or process\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        puts("usage: driver_conformance_test [DRIVER...]\n"
             "The conformance suite over the software device; DRIVER is loop, thread or "
             "process.");
        return 0;
    }
    for (int i = 1; i < argc; i++)
        find_driver(argv[i]);
    for (int i = 1; i < argc; i++)
        failed += run_driver(find_driver(argv[i]));
    for (size_t i = 0; argc == 1 && i < ARRAY_COUNT(drivers); i++)
        failed += run_driver(i);
    return failed != 0;
}
