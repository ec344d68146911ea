/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/conformance.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"

#define LIST     8 /* of the device under test, if it has as many */
#define UNTAGGED 8
#define EVENTS   64
#define GUARD    0xa5

static const struct conformance_target *target; /* of this run */

/* ---- a device and what it said -------------------------------------------------------- */

struct bench {
    void *world;
    struct mbx_device *device;
    struct mbx_device_limits limits;
    uint32_t list, commands, untagged;
    unsigned char *untagged_memory;
    uint16_t handled;
    struct mbx_device_event events[EVENTS]; /* polled and not yet looked at */
    int count;
    uint64_t sent; /* messages; the next one's data */
};

static void *buffer_memory(const struct bench *b, uint32_t buffer)
{
    return b->untagged_memory + buffer * b->limits.untagged_size;
}

static void give_buffer(struct bench *b, uint32_t buffer)
{
    assert_int_equal(b->device->ops->replenish(b->device, buffer, buffer_memory(b, buffer)), 0);
}

static void bench_open_small(struct bench *b, uint32_t list, uint32_t untagged)
{
    *b = (struct bench){0};
    b->world = target->open(&b->device);
    b->device->ops->limits(b->device, &b->limits);
    b->list = (uint32_t)min_size(list, b->limits.list);
    b->untagged = (uint32_t)min_size(untagged, b->limits.untagged);
    b->commands = 2 * b->list + 2;
    b->untagged_memory = mem_calloc(b->untagged, b->limits.untagged_size);
    assert_non_null(b->untagged_memory);
    assert_int_equal(b->device->ops->configure(b->device, b->list, b->commands, b->untagged),
                     0);
    for (uint32_t i = 0; i < b->untagged; i++)
        give_buffer(b, i);
    target->run(b->world);
}

static void bench_open(struct bench *b)
{
    bench_open_small(b, LIST, UNTAGGED);
}

static void bench_close(struct bench *b)
{
    assert_int_equal(b->count, 0);
    target->close(b->world);
    mem_free(b->untagged_memory);
}

static void run(struct bench *b)
{
    target->run(b->world);
}

static void poll_all(struct bench *b)
{
    int n;

    run(b);
    do {
        n = b->device->ops->poll(b->device, &b->events[b->count], EVENTS - b->count);
        assert_true(n >= 0);
        b->count += n;
        assert_true(b->count < EVENTS);
        run(b);
    } while (n > 0);
}

/* The oldest event of this type, which is taken out; DATA_VALID and FIN_SENT of different
 * messages may come in any order. */
static struct mbx_device_event take(struct bench *b, enum mbx_device_event_type type)
{
    for (int i = 0; i < b->count; i++) {
        struct mbx_device_event event = b->events[i];

        if (event.type != type)
            continue;
        b->count--;
        memmove(&b->events[i], &b->events[i + 1], sizeof event * (size_t)(b->count - i));
        return event;
    }
    fail_msg("%s: no event of type %d among %d", target->name, type, b->count);
    return (struct mbx_device_event){0};
}

/* The next event must be of this type. */
static struct mbx_device_event next(struct bench *b, enum mbx_device_event_type type)
{
    assert_true(b->count > 0);
    assert_int_equal(b->events[0].type, type);
    return take(b, type);
}

static void nothing(struct bench *b)
{
    poll_all(b);
    assert_int_equal(b->count, 0);
}

static bool needs(const struct bench *b, unsigned caps)
{
    return (b->limits.caps & caps) == caps;
}

static bool sends(enum conformance_kind kind)
{
    return (target->kinds & 1u << kind) != 0;
}

/* ---- verbs that must succeed ---------------------------------------------------------- */

/* A receive and its memory, with bytes behind it that nobody may write. */
struct landing {
    struct mbx_device_recv recv;
    unsigned char *bytes;
};

static struct landing make_landing(uint32_t handle, uint32_t source, uint64_t tag, size_t size)
{
    struct landing landing = {
        .recv = {.handle = handle, .envelope = {1, source, tag}, .size = size},
        .bytes = mem_alloc(size + 8),
    };

    assert_non_null(landing.bytes);
    memset(landing.bytes, GUARD, size + 8);
    landing.recv.buf = landing.bytes;
    return landing;
}

static void append(struct bench *b, const struct landing *landing)
{
    assert_int_equal(b->device->ops->append(b->device, &landing->recv, b->handled), 0);
}

/* Room for the longest eager message: what any device may be handed. */
static struct landing post(struct bench *b, uint32_t handle, uint32_t source, uint64_t tag)
{
    struct landing landing = make_landing(handle, source, tag, b->limits.eager_max);

    append(b, &landing);
    return landing;
}

static void revoke(struct bench *b, uint32_t handle)
{
    assert_int_equal(b->device->ops->revoke(b->device, handle, b->handled), 0);
}

static void report(struct bench *b)
{
    int err;

    run(b);
    err = b->device->ops->sync(b->device, b->handled);
    assert_int_equal(err, 0);
    run(b);
}

static const char text[] =
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on; "
    "so the fox comes back and jumps once more, and again, and again.";

static struct conformance_message make(enum conformance_kind kind, uint32_t peer, uint64_t tag,
                                       const void *payload, size_t size)
{
    return (struct conformance_message){kind, {1, peer, tag}, payload, size, 0};
}

static struct conformance_message send_message(struct bench *b, enum conformance_kind kind,
                                               uint32_t peer, uint64_t tag, size_t size)
{
    struct conformance_message message = make(kind, peer, tag, text, size);

    message.data = ++b->sent;
    target->send(b->world, peer, &message);
    return message;
}

/* A short eager message: 8 bytes that differ from message to message. */
static struct conformance_message send_short(struct bench *b, uint32_t peer, uint64_t tag)
{
    struct conformance_message message =
        make(CONFORMANCE_EAGER, peer, tag, text + b->sent % 16, 8);

    message.data = ++b->sent;
    target->send(b->world, peer, &message);
    return message;
}

/* ---- what must have happened ---------------------------------------------------------- */

/* MATCHED with everything that it says. */
static struct mbx_device_event matched(struct bench *b, const struct landing *landing,
                                       const struct conformance_message *message)
{
    struct mbx_device_event event = next(b, MBX_DEVICE_MATCHED);

    assert_int_equal(event.handle, landing->recv.handle);
    assert_int_equal(event.envelope.context_id, message->envelope.context_id);
    assert_int_equal(event.envelope.source, message->envelope.source);
    assert_int_equal(event.envelope.tag, message->envelope.tag);
    assert_int_equal(event.size, message->size);
    assert_int_equal(event.data, message->data);
    assert_int_equal((event.flags & MBX_DEVICE_BY_RNDV) != 0,
                     message->kind == CONFORMANCE_RENDEZVOUS);
    return event;
}

static void has_landed(struct landing *landing, const struct conformance_message *message)
{
    size_t size = min_size(landing->recv.size, message->size);

    assert_memory_equal(landing->bytes, message->payload, size);
    for (size_t i = size; i < landing->recv.size + 8; i++)
        assert_int_equal(landing->bytes[i], GUARD);
    mem_free(landing->bytes);
}

/* MATCHED, and all that has to follow: the bytes are there, the sender has been told. */
static void received(struct bench *b, struct landing *landing,
                     const struct conformance_message *message)
{
    struct mbx_device_event event = matched(b, landing, message);
    size_t size = min_size(landing->recv.size, message->size);

    if (!(event.flags & MBX_DEVICE_WHOLE)) {
        struct mbx_device_event valid = take(b, MBX_DEVICE_DATA_VALID);

        assert_int_equal(valid.handle, landing->recv.handle);
        assert_int_equal(valid.error, 0);
        assert_int_equal(valid.done, size);
    } else {
        assert_int_equal(event.done, size);
    }
    if (event.flags & MBX_DEVICE_WANTS_FIN)
        assert_int_equal(take(b, MBX_DEVICE_FIN_SENT).handle, landing->recv.handle);
    has_landed(landing, message);
}

/* UNEXPECTED, and its buffer given back; it counts as handled. */
static void unexpected(struct bench *b, const struct conformance_message *message)
{
    struct mbx_device_event event = next(b, MBX_DEVICE_UNEXPECTED);
    struct conformance_message got = {0};

    assert_true(event.buffer < b->untagged);
    assert_true(event.bytes <= b->limits.untagged_size);
    assert_int_equal(event.peer, message->envelope.source);
    target->read(b->world, &event, buffer_memory(b, event.buffer), &got);
    assert_int_equal(got.kind, message->kind);
    assert_int_equal(got.envelope.context_id, message->envelope.context_id);
    assert_int_equal(got.envelope.source, message->envelope.source);
    assert_int_equal(got.envelope.tag, message->envelope.tag);
    assert_int_equal(got.size, message->size);
    assert_int_equal(got.data, message->data);
    if (got.payload != NULL && message->size > 0)
        assert_memory_equal(got.payload, message->payload, min_size(8, message->size));
    b->handled++;
    give_buffer(b, event.buffer);
}

static void revoked(struct bench *b, struct landing *landing, int error)
{
    struct mbx_device_event event = next(b, MBX_DEVICE_REVOKED);

    assert_int_equal(event.handle, landing->recv.handle);
    assert_int_equal(event.error, error);
    if (error == 0)
        mem_free(landing->bytes);
}

/* ---- configuration -------------------------------------------------------------------- */

static void a_device_has_some_room(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    assert_non_null(b.device->ops->name);
    assert_non_null(b.device->ops->about);
    assert_true(b.limits.list >= 1);
    assert_true(b.limits.commands >= b.commands);
    assert_true(b.limits.untagged >= 1);
    assert_true(b.limits.untagged_size > 0);
    assert_true(b.limits.eager_max >= 8);
    assert_true(b.limits.context_bits >= 1 && b.limits.source_bits >= 2);
    assert_true(b.limits.tag_bits >= 16);
    bench_close(&b);
}

static void configure_refuses_more_than_the_limits(void **state)
{
    struct mbx_device *device;
    struct mbx_device_limits most;
    void *world = target->open(&device);

    (void)state;
    device->ops->limits(device, &most);
    assert_int_equal(device->ops->configure(device, most.list + 1, 2, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, most.commands + 1, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, 4, most.untagged + 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, 4, 1), 0);
    target->close(world);
}

static void a_device_that_does_nothing_has_no_events(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    nothing(&b);
    report(&b);
    nothing(&b);
    bench_close(&b);
}

/* ---- matching ------------------------------------------------------------------------- */

static void a_message_meets_a_receive(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = post(&b, 0, 2, 7);
    nothing(&b);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    received(&b, &r, &m);
    bench_close(&b);
}

static void a_message_without_a_receive_is_unexpected(void **state)
{
    struct bench b;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m);
    bench_close(&b);
}

static void context_source_and_tag_all_count(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = post(&b, 0, 2, 7);
    run(&b);
    m = send_short(&b, 2, 8); /* another tag */
    poll_all(&b);
    unexpected(&b, &m);
    m = send_short(&b, 1, 7); /* another source */
    poll_all(&b);
    unexpected(&b, &m);
    m = make(CONFORMANCE_EAGER, 2, 7, text, 8);
    m.envelope.context_id = 0;
    target->send(b.world, 2, &m);
    poll_all(&b);
    unexpected(&b, &m);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    received(&b, &r, &m);
    bench_close(&b);
}

static void the_oldest_receive_is_met(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = post(&b, (i + 1) % 3, 2, 7); /* handles say nothing about age */
    run(&b);
    for (int i = 0; i < 3; i++)
        m[i] = send_short(&b, 2, 7);
    poll_all(&b);
    for (int i = 0; i < 3; i++) {
        struct mbx_device_event event = matched(&b, &r[i], &m[i]);

        if (!(event.flags & MBX_DEVICE_WHOLE))
            take(&b, MBX_DEVICE_DATA_VALID);
        has_landed(&r[i], &m[i]);
    }
    bench_close(&b);
}

static void a_receive_from_anybody_keeps_its_age(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    if (!needs(&b, MBX_DEVICE_ANY_SOURCE)) {
        bench_close(&b);
        skip();
    }
    r[0] = post(&b, 0, MBX_DEVICE_ANY_SOURCE_ID, 7);
    r[1] = post(&b, 1, 2, 7);
    run(&b);
    for (int i = 0; i < 2; i++) {
        m[i] = send_short(&b, 2, 7);
        poll_all(&b);
        received(&b, &r[i], &m[i]);
    }
    bench_close(&b);
}

/* A receive of tag 0x10 with these ignore bits; a message of tag 0x13. */
static void ignore_bits(unsigned caps, uint64_t ignore, bool fits)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    bench_open(&b);
    if (!needs(&b, caps)) {
        bench_close(&b);
        skip();
    }
    r = make_landing(0, 2, 0x10, b.limits.eager_max);
    r.recv.ignore = ignore;
    append(&b, &r);
    run(&b);
    m = send_short(&b, 2, 0x13);
    poll_all(&b);
    if (fits) {
        received(&b, &r, &m);
    } else {
        unexpected(&b, &m);
        mem_free(r.bytes);
    }
    bench_close(&b);
}

static void all_ignore_bits_accept_any_tag(void **state)
{
    (void)state;
    ignore_bits(0, UINT64_MAX, true);
}

static void some_ignore_bits_accept_tags_that_differ_there(void **state)
{
    (void)state;
    ignore_bits(MBX_DEVICE_MASKS, 0x3, true);
}

static void bits_that_are_not_ignored_count(void **state)
{
    (void)state;
    ignore_bits(MBX_DEVICE_MASKS, 0x1, false);
}

static void bits_under_the_ignore_bits_do_not_count(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (!needs(&b, MBX_DEVICE_MASKS)) {
        bench_close(&b);
        skip();
    }
    r = make_landing(0, 2, 0x1f, b.limits.eager_max); /* 0xf is ignored, and set */
    r.recv.ignore = 0xf;
    append(&b, &r);
    run(&b);
    m = send_short(&b, 2, 0x10);
    poll_all(&b);
    received(&b, &r, &m);
    bench_close(&b);
}

/* ---- the count ------------------------------------------------------------------------ */

static void an_entry_waits_until_what_was_found_is_reported(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    m[0] = send_short(&b, 2, 7);
    run(&b);
    r = post(&b, 0, 2, 7); /* does not know of m[0] */
    run(&b);
    m[1] = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m[0]);
    unexpected(&b, &m[1]);
    report(&b);
    m[2] = send_short(&b, 2, 7);
    poll_all(&b);
    received(&b, &r, &m[2]);
    bench_close(&b);
}

static void a_report_that_is_late_again_activates_nothing(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    m[0] = send_short(&b, 2, 8);
    poll_all(&b);
    unexpected(&b, &m[0]);
    m[1] = send_short(&b, 2, 8);
    run(&b);
    r = post(&b, 0, 2, 7); /* tells of m[0]; there is m[1] */
    run(&b);
    m[2] = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m[1]);
    unexpected(&b, &m[2]);
    revoke(&b, 0);
    poll_all(&b);
    revoked(&b, &r, 0);
    bench_close(&b);
}

static void every_command_reports(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    for (int with = 0; with < 2; with++) {
        m = send_short(&b, 2, 9);
        run(&b);
        r[0] = post(&b, 0, 2, 7);
        r[1] = post(&b, 1, 3, 9);
        poll_all(&b);
        unexpected(&b, &m);
        if (with == 0)
            r[2] = post(&b, 2, 3, 9);
        else
            revoke(&b, 2);
        poll_all(&b);
        if (with == 1)
            revoked(&b, &r[2], 0);
        m = send_short(&b, 2, 7);
        poll_all(&b);
        received(&b, &r[0], &m);
        revoke(&b, 1);
        poll_all(&b);
        revoked(&b, &r[1], 0);
    }
    bench_close(&b);
}

static void what_is_active_stays_active(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    r[0] = post(&b, 0, 2, 7);
    run(&b);
    m[0] = send_short(&b, 2, 8);
    run(&b);
    r[1] = post(&b, 1, 2, 7); /* inactive, behind the active one */
    run(&b);
    m[1] = send_short(&b, 2, 7);
    m[2] = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m[0]);
    received(&b, &r[0], &m[1]);
    unexpected(&b, &m[2]);
    revoke(&b, 1);
    poll_all(&b);
    revoked(&b, &r[1], 0);
    bench_close(&b);
}

static void the_count_has_sixteen_bits(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[UNTAGGED];

    (void)state;
    bench_open(&b);
    for (uint32_t left = 65536 + 3; left > 0;) {
        uint32_t n = (uint32_t)min_size(left, b.untagged);

        for (uint32_t i = 0; i < n; i++)
            m[i] = send_short(&b, 2, 7);
        poll_all(&b);
        for (uint32_t i = 0; i < n; i++)
            unexpected(&b, &m[i]);
        left -= n;
    }
    r = post(&b, 0, 2, 7);
    run(&b);
    m[0] = send_short(&b, 2, 7);
    poll_all(&b);
    received(&b, &r, &m[0]);
    bench_close(&b);
}

/* ---- taking back ---------------------------------------------------------------------- */

static void a_revoked_receive_is_not_met(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = post(&b, 0, 2, 7);
    run(&b);
    revoke(&b, 0);
    poll_all(&b);
    revoked(&b, &r, 0);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m);
    bench_close(&b);
}

static void revoking_one_leaves_the_others(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = post(&b, i, 2, 7);
    revoke(&b, 1);
    poll_all(&b);
    revoked(&b, &r[1], 0);
    for (int i = 0; i < 2; i++) {
        m[i] = send_short(&b, 2, 7);
        poll_all(&b);
        received(&b, &r[2 * i], &m[i]);
    }
    bench_close(&b);
}

static void an_inactive_receive_can_be_revoked(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    m[0] = send_short(&b, 2, 8);
    run(&b);
    r = post(&b, 0, 2, 7);
    revoke(&b, 0);
    poll_all(&b);
    unexpected(&b, &m[0]);
    revoked(&b, &r, 0);
    report(&b);
    m[1] = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m[1]);
    bench_close(&b);
}

static void a_revoke_that_comes_too_late_says_so_behind_the_match(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = post(&b, 0, 2, 7);
    run(&b);
    m = send_short(&b, 2, 7);
    run(&b);
    revoke(&b, 0);
    poll_all(&b);
    {
        struct landing kept = r; /* received() frees the bytes */

        received(&b, &r, &m);
        revoked(&b, &kept, -ENOENT);
    }
    bench_close(&b);
}

static void take_back_leaves_no_entry(void **state)
{
    struct bench b;
    struct landing r[4];
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = post(&b, i, 2, 7 + i);
    run(&b);
    assert_int_equal(b.device->ops->take_back(b.device, b.handled), 0);
    poll_all(&b);
    next(&b, MBX_DEVICE_REVOKED_ALL);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    unexpected(&b, &m);
    r[3] = post(&b, 0, 2, 7); /* the handles are free */
    run(&b);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    received(&b, &r[3], &m);
    for (int i = 0; i < 3; i++)
        mem_free(r[i].bytes);
    bench_close(&b);
}

/* ---- order ---------------------------------------------------------------------------- */

static void events_come_in_the_order_of_what_was_done(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    r[0] = post(&b, 0, 2, 7);
    r[1] = post(&b, 1, 2, 9);
    run(&b);
    m[0] = send_short(&b, 2, 8);
    run(&b);
    m[1] = send_short(&b, 2, 7);
    run(&b);
    revoke(&b, 1);
    run(&b);
    m[2] = send_short(&b, 2, 9);
    poll_all(&b);
    unexpected(&b, &m[0]);
    received(&b, &r[0], &m[1]);
    revoked(&b, &r[1], 0);
    unexpected(&b, &m[2]);
    bench_close(&b);
}

static void poll_gives_no_more_than_it_is_asked_for(void **state)
{
    struct bench b;
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    for (int i = 0; i < 2; i++)
        m[i] = send_short(&b, 2, 7);
    run(&b);
    assert_int_equal(b.device->ops->poll(b.device, b.events, 0), 0);
    assert_int_equal(b.device->ops->poll(b.device, &b.events[0], 1), 1);
    assert_int_equal(b.device->ops->poll(b.device, &b.events[1], 1), 1);
    b.count = 2;
    for (int i = 0; i < 2; i++)
        unexpected(&b, &m[i]);
    bench_close(&b);
}

/* ---- room ----------------------------------------------------------------------------- */

static void without_a_buffer_the_sender_is_held_back(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[UNTAGGED + 2];
    struct conformance_message other;
    bool has_gone_on = false;
    uint32_t n;

    (void)state;
    bench_open(&b);
    n = b.untagged;
    r = post(&b, 0, 2, 8);
    run(&b);
    for (uint32_t i = 0; i < n + 1; i++)
        m[i] = send_short(&b, 2, 7);
    m[n + 1] = send_short(&b, 2, 8); /* has a receive, and must not overtake */
    poll_all(&b);
    assert_int_equal(b.count, n);
    other = send_short(&b, 1, 7);
    poll_all(&b);
    assert_int_equal(b.count, n);
    for (uint32_t i = 0; i < n; i++)
        unexpected(&b, &m[i]);
    poll_all(&b);
    assert_int_equal(b.count, 3);
    for (int i = 0; i < 3; i++) { /* the two senders go on, each in its order */
        if (b.events[0].type == MBX_DEVICE_MATCHED) {
            assert_true(has_gone_on);
            received(&b, &r, &m[n + 1]);
        } else if (b.events[0].peer == 1) {
            unexpected(&b, &other);
        } else {
            unexpected(&b, &m[n]);
            has_gone_on = true;
        }
    }
    bench_close(&b);
}

static void every_receive_has_room_for_two_commands_and_a_sync(void **state)
{
    struct bench b;
    struct landing r[LIST];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3 * b.commands; i++) {
        int err = b.device->ops->sync(b.device, b.handled);

        assert_true(err == 0 || err == -EAGAIN);
    }
    for (uint32_t i = 0; i < b.list; i++)
        r[i] = post(&b, i, 2, 7);
    for (uint32_t i = 0; i < b.list; i++)
        revoke(&b, i);
    poll_all(&b);
    for (uint32_t i = 0; i < b.list; i++)
        revoked(&b, &r[i], 0);
    bench_close(&b);
}

static void the_whole_list_can_be_used(void **state)
{
    struct bench b;
    struct landing r[LIST];
    struct conformance_message m[LIST];

    (void)state;
    bench_open(&b);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < b.list; i++)
            r[i] = post(&b, i, i % CONFORMANCE_PEERS, i);
        run(&b);
        for (uint32_t i = b.list; i-- > 0;) {
            m[i] = send_short(&b, i % CONFORMANCE_PEERS, i);
            poll_all(&b);
            received(&b, &r[i], &m[i]);
        }
    }
    bench_close(&b);
}

static void a_list_of_one_works(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open_small(&b, 1, 1);
    for (int round = 0; round < 3; round++) {
        r = post(&b, 0, 2, 7);
        run(&b);
        m = send_short(&b, 2, 8);
        poll_all(&b);
        unexpected(&b, &m);
        m = send_short(&b, 2, 7);
        poll_all(&b);
        received(&b, &r, &m);
    }
    bench_close(&b);
}

/* ---- data ----------------------------------------------------------------------------- */

static void send_and_receive(enum conformance_kind kind, size_t size, size_t room,
                             unsigned caps)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    uint64_t told;

    bench_open(&b);
    if (!needs(&b, caps) || !sends(kind)) {
        bench_close(&b);
        skip();
    }
    if (kind != CONFORMANCE_RENDEZVOUS)
        size = min_size(size, b.limits.eager_max);
    if (!needs(&b, MBX_DEVICE_TRUNCATES))
        room = max_size(room, b.limits.eager_max);
    told = target->told(b.world, 2);
    r = make_landing(0, 2, 7, room);
    append(&b, &r);
    run(&b);
    m = send_message(&b, kind, 2, 7, size);
    poll_all(&b);
    received(&b, &r, &m);
    assert_int_equal(target->told(b.world, 2) - told, kind != CONFORMANCE_EAGER);
    bench_close(&b);
}

static void an_empty_message_is_a_message(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 0, 64, 0);
}

static void a_long_eager_message_arrives_whole(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, sizeof text, sizeof text, 0);
}

static void a_message_longer_than_the_buffer_fills_it_and_no_more(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 8, 5, MBX_DEVICE_TRUNCATES);
}

static void a_long_eager_message_longer_than_the_buffer_fills_it(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, sizeof text, 21, MBX_DEVICE_TRUNCATES);
}

static void a_receive_without_room_gets_the_envelope(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 8, 0, MBX_DEVICE_TRUNCATES);
}

static void the_sender_of_a_synchronous_message_is_told(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_SYNC, 8, 64, 0);
}

static void the_sender_of_a_long_synchronous_message_is_told(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_SYNC, sizeof text, sizeof text, 0);
}

static void a_rendezvous_needs_no_software(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, sizeof text, sizeof text, MBX_DEVICE_RENDEZVOUS);
}

static void a_rendezvous_longer_than_the_buffer_fills_it(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, sizeof text, 37,
                     MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_TRUNCATES);
}

static void an_empty_rendezvous_ends(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, 0, 16,
                     MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_TRUNCATES);
}

static void an_unexpected_rendezvous_is_passed_whole(void **state)
{
    struct bench b;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (!sends(CONFORMANCE_RENDEZVOUS)) {
        bench_close(&b);
        skip();
    }
    m = send_message(&b, CONFORMANCE_RENDEZVOUS, 2, 7, sizeof text);
    poll_all(&b);
    unexpected(&b, &m);
    assert_int_equal(target->told(b.world, 2), 0);
    bench_close(&b);
}

static void a_rendezvous_that_the_device_cannot_do_is_left_to_software(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (needs(&b, MBX_DEVICE_RENDEZVOUS) || !sends(CONFORMANCE_RENDEZVOUS)) {
        bench_close(&b);
        skip();
    }
    r = post(&b, 0, 2, 7);
    run(&b);
    m = send_message(&b, CONFORMANCE_RENDEZVOUS, 2, 7, sizeof text);
    poll_all(&b);
    event = matched(&b, &r, &m);
    assert_false(event.flags & MBX_DEVICE_WHOLE);
    event = take(&b, MBX_DEVICE_INCOMPLETE);
    assert_int_equal(event.handle, 0);
    assert_true(event.done <= sizeof text);
    assert_int_equal(target->told(b.world, 2), 0);
    mem_free(r.bytes);
    bench_close(&b);
}

static void other_packets_are_passed_and_not_counted(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!sends(CONFORMANCE_OTHER)) {
        bench_close(&b);
        skip();
    }
    send_message(&b, CONFORMANCE_OTHER, 2, 7, 8);
    poll_all(&b);
    event = next(&b, MBX_DEVICE_PASSED);
    assert_int_equal(event.peer, 2);
    give_buffer(&b, event.buffer);
    r = post(&b, 0, 2, 7); /* nothing is unreported, so it is active */
    run(&b);
    send_message(&b, CONFORMANCE_OTHER, 2, 7, 8);
    m = send_short(&b, 2, 7);
    poll_all(&b);
    give_buffer(&b, next(&b, MBX_DEVICE_PASSED).buffer);
    received(&b, &r, &m);
    bench_close(&b);
}

/* ---- messages that the device holds ---------------------------------------------------- */

static void hold(struct bench *b, uint32_t number, uint32_t source, uint64_t tag)
{
    const struct mbx_device_envelope envelope = {1, source, tag};

    assert_int_equal(b->device->ops->hold(b->device, number, &envelope, b->handled), 0);
}

static void a_held_message_meets_a_later_receive(void **state)
{
    struct bench b;
    struct landing r;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!needs(&b, MBX_DEVICE_HOLDS)) {
        bench_close(&b);
        skip();
    }
    hold(&b, 5, 2, 8);
    hold(&b, 3, 2, 7);
    hold(&b, 4, 2, 7);
    nothing(&b);
    r = post(&b, 0, 2, 7);
    poll_all(&b);
    event = next(&b, MBX_DEVICE_MATCHED);
    assert_true(event.flags & MBX_DEVICE_HELD);
    assert_int_equal(event.handle, 0);
    assert_int_equal(event.message, 3);
    assert_int_equal(event.envelope.tag, 7);
    mem_free(r.bytes);
    bench_close(&b);
}

static void a_held_message_can_be_had_back_until_it_is_met(void **state)
{
    struct bench b;
    struct landing r;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!needs(&b, MBX_DEVICE_HOLDS)) {
        bench_close(&b);
        skip();
    }
    hold(&b, 1, 2, 7);
    assert_int_equal(b.device->ops->unhold(b.device, 1, b.handled), 0);
    poll_all(&b);
    event = next(&b, MBX_DEVICE_UNHELD);
    assert_int_equal(event.handle, 1);
    assert_int_equal(event.error, 0);
    hold(&b, 1, 2, 7);
    r = post(&b, 0, 2, 7);
    assert_int_equal(b.device->ops->unhold(b.device, 1, b.handled), 0);
    poll_all(&b);
    assert_true(next(&b, MBX_DEVICE_MATCHED).flags & MBX_DEVICE_HELD);
    assert_int_equal(next(&b, MBX_DEVICE_UNHELD).error, -ENOENT);
    mem_free(r.bytes);
    bench_close(&b);
}

/* ---- the end -------------------------------------------------------------------------- */

static void a_lost_device_says_so_last_and_takes_nothing(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (target->lose == NULL) {
        bench_close(&b);
        skip();
    }
    r = post(&b, 0, 2, 7);
    run(&b);
    m = send_short(&b, 2, 8);
    run(&b);
    target->lose(b.world);
    send_short(&b, 2, 7);
    poll_all(&b);
    assert_int_equal(next(&b, MBX_DEVICE_UNEXPECTED).peer, m.envelope.source);
    next(&b, MBX_DEVICE_LOST);
    assert_int_equal(b.device->ops->append(b.device, &r.recv, 0), -ENODEV);
    assert_int_equal(b.device->ops->revoke(b.device, 0, 0), -ENODEV);
    assert_int_equal(b.device->ops->sync(b.device, 0), -ENODEV);
    nothing(&b);
    mem_free(r.bytes);
    bench_close(&b);
}

int conformance_run(const struct conformance_target *wanted)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_some_room),
        cmocka_unit_test(configure_refuses_more_than_the_limits),
        cmocka_unit_test(a_device_that_does_nothing_has_no_events),
        cmocka_unit_test(a_message_meets_a_receive),
        cmocka_unit_test(a_message_without_a_receive_is_unexpected),
        cmocka_unit_test(context_source_and_tag_all_count),
        cmocka_unit_test(the_oldest_receive_is_met),
        cmocka_unit_test(a_receive_from_anybody_keeps_its_age),
        cmocka_unit_test(all_ignore_bits_accept_any_tag),
        cmocka_unit_test(some_ignore_bits_accept_tags_that_differ_there),
        cmocka_unit_test(bits_that_are_not_ignored_count),
        cmocka_unit_test(bits_under_the_ignore_bits_do_not_count),
        cmocka_unit_test(an_entry_waits_until_what_was_found_is_reported),
        cmocka_unit_test(a_report_that_is_late_again_activates_nothing),
        cmocka_unit_test(every_command_reports),
        cmocka_unit_test(what_is_active_stays_active),
        cmocka_unit_test(the_count_has_sixteen_bits),
        cmocka_unit_test(a_revoked_receive_is_not_met),
        cmocka_unit_test(revoking_one_leaves_the_others),
        cmocka_unit_test(an_inactive_receive_can_be_revoked),
        cmocka_unit_test(a_revoke_that_comes_too_late_says_so_behind_the_match),
        cmocka_unit_test(take_back_leaves_no_entry),
        cmocka_unit_test(events_come_in_the_order_of_what_was_done),
        cmocka_unit_test(poll_gives_no_more_than_it_is_asked_for),
        cmocka_unit_test(without_a_buffer_the_sender_is_held_back),
        cmocka_unit_test(every_receive_has_room_for_two_commands_and_a_sync),
        cmocka_unit_test(the_whole_list_can_be_used),
        cmocka_unit_test(a_list_of_one_works),
        cmocka_unit_test(an_empty_message_is_a_message),
        cmocka_unit_test(a_long_eager_message_arrives_whole),
        cmocka_unit_test(a_message_longer_than_the_buffer_fills_it_and_no_more),
        cmocka_unit_test(a_long_eager_message_longer_than_the_buffer_fills_it),
        cmocka_unit_test(a_receive_without_room_gets_the_envelope),
        cmocka_unit_test(the_sender_of_a_synchronous_message_is_told),
        cmocka_unit_test(the_sender_of_a_long_synchronous_message_is_told),
        cmocka_unit_test(a_rendezvous_needs_no_software),
        cmocka_unit_test(a_rendezvous_longer_than_the_buffer_fills_it),
        cmocka_unit_test(an_empty_rendezvous_ends),
        cmocka_unit_test(an_unexpected_rendezvous_is_passed_whole),
        cmocka_unit_test(a_rendezvous_that_the_device_cannot_do_is_left_to_software),
        cmocka_unit_test(other_packets_are_passed_and_not_counted),
        cmocka_unit_test(a_held_message_meets_a_later_receive),
        cmocka_unit_test(a_held_message_can_be_had_back_until_it_is_met),
        cmocka_unit_test(a_lost_device_says_so_last_and_takes_nothing),
    };

    target = wanted;
    return cmocka_run_group_tests_name(wanted->name, tests, NULL, NULL);
}
