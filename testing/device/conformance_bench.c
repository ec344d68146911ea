/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/conformance_bench.h"

#include <string.h>

#define GUARD 0xa5 /* fills buffers: bytes that have not been written */

const struct conformance_target *bench_target;
unsigned char bench_bytes[BENCH_LONG];

/* ---- around each test ----------------------------------------------------------------- */

static void *buffer_memory(const struct bench *b, uint32_t buffer)
{
    return b->untagged_memory + buffer * b->limits.untagged_size;
}

void bench_give_buffer(struct bench *b, uint32_t buffer)
{
    assert_int_equal(b->device->ops->replenish(b->device, buffer, buffer_memory(b, buffer)), 0);
}

static void allocate(struct bench *b)
{
    b->capacity = (int)(4 * b->list + b->untagged + 32);
    b->events = mem_calloc((size_t)b->capacity, sizeof *b->events);
    b->untagged_memory = mem_calloc(b->untagged, b->limits.untagged_size);
    assert_non_null(b->events);
    assert_non_null(b->untagged_memory);
}

static int set_up(void **state, uint32_t list, uint32_t untagged)
{
    struct bench *b = mem_calloc(1, sizeof *b);

    assert_non_null(b);
    for (size_t i = 0; i < sizeof bench_bytes; i++)
        bench_bytes[i] = (unsigned char)(i * 131 + i / 251);
    b->instance = bench_target->open(&b->device);
    b->device->ops->limits(b->device, &b->limits);
    b->list = (uint32_t)min_size(list, b->limits.list);
    b->untagged =
        (uint32_t)min_size(max_size(untagged, b->limits.untagged_min), b->limits.untagged);
    b->commands = 2 * b->list + 2;
    allocate(b);
    assert_int_equal(b->device->ops->configure(b->device, b->list, b->commands, b->untagged),
                     0);
    for (uint32_t i = 0; i < b->untagged; i++)
        bench_give_buffer(b, i);
    bench_target->run(b->instance);
    *state = b;
    return 0;
}

static uint32_t wanted_list(void)
{
    return bench_target->list != 0 ? bench_target->list : BENCH_LIST;
}

int bench_set_up(void **state)
{
    return set_up(state, wanted_list(), BENCH_UNTAGGED);
}

int bench_set_up_least(void **state)
{
    return set_up(state, 1, 1);
}

int bench_set_up_many(void **state)
{
    return set_up(state, wanted_list(), BENCH_MANY);
}

int bench_tear_down(void **state)
{
    struct bench *b = *state;
    int left = b->count;

    bench_target->close(b->instance);
    mem_free(b->untagged_memory);
    mem_free(b->events);
    mem_free(b);
    assert_int_equal(left, 0);
    return 0;
}

/* ---- capabilities of the device ------------------------------------------------------- */

bool bench_can(const struct bench *b, unsigned caps)
{
    return (b->limits.caps & caps) == caps;
}

bool bench_sends(enum conformance_kind kind)
{
    return (bench_target->kinds & 1u << kind) != 0;
}

void bench_needs(const struct bench *b, unsigned caps)
{
    if (bench_can(b, caps))
        return;
    print_message("%s: skipped, the device has not the capabilities %#x\n", bench_target->name,
                  caps & ~b->limits.caps);
    skip();
}

void bench_needs_kind(enum conformance_kind kind)
{
    if (bench_sends(kind))
        return;
    print_message("%s: skipped, nobody can send messages of kind %d\n", bench_target->name,
                  kind);
    skip();
}

void bench_needs_time(void)
{
    if (!bench_target->is_brief)
        return;
    print_message("%s: skipped, takes many messages\n", bench_target->name);
    skip();
}

void bench_needs_list(const struct bench *b, uint32_t list)
{
    if (b->list >= list)
        return;
    print_message("%s: skipped, needs a list of %u entries\n", bench_target->name, list);
    skip();
}

/* ---- verbs that must succeed ---------------------------------------------------------- */

void bench_run(struct bench *b)
{
    bench_target->run(b->instance);
}

/* Moves the waiting events to the beginning, to make space after them. */
static void make_space(struct bench *b)
{
    memmove(b->events, &b->events[b->first], sizeof *b->events * (size_t)b->count);
    b->first = 0;
}

void bench_poll(struct bench *b)
{
    int n;

    make_space(b);
    bench_run(b);
    do {
        n = b->device->ops->poll(b->device, &b->events[b->count], b->capacity - b->count);
        assert_true(n >= 0);
        b->count += n;
        assert_true(b->count < b->capacity);
        bench_run(b);
    } while (n > 0);
}

struct landing bench_landing(uint32_t handle, uint32_t source, uint64_t tag, size_t size)
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

void bench_append(struct bench *b, const struct landing *landing)
{
    assert_int_equal(b->device->ops->append(b->device, &landing->recv, b->handled), 0);
}

struct landing bench_post(struct bench *b, uint32_t handle, uint32_t source, uint64_t tag)
{
    size_t size = bench_can(b, MBX_DEVICE_TRUNCATES) ? min_size(b->limits.eager_max, 100)
                                                     : b->limits.eager_max;
    struct landing landing = bench_landing(handle, source, tag, size);

    bench_append(b, &landing);
    return landing;
}

struct landing bench_place(struct bench *b, uint32_t handle, uint32_t source, uint64_t tag)
{
    struct landing landing = bench_post(b, handle, source, tag);

    bench_run(b);
    return landing;
}

void bench_revoke(struct bench *b, uint32_t handle)
{
    assert_int_equal(b->device->ops->revoke(b->device, handle, b->handled), 0);
}

void bench_report(struct bench *b)
{
    int err;

    bench_run(b);
    err = b->device->ops->sync(b->device, b->handled);
    assert_int_equal(err, 0);
    bench_run(b);
}

struct conformance_message bench_message(enum conformance_kind kind, uint32_t peer,
                                         uint64_t tag, const void *payload, size_t size)
{
    return (struct conformance_message){kind, {1, peer, tag}, payload, size, 0};
}

struct conformance_message bench_send(struct bench *b, enum conformance_kind kind,
                                      uint32_t peer, uint64_t tag, size_t size)
{
    struct conformance_message message = bench_message(kind, peer, tag, bench_bytes, size);

    message.data = ++b->sent;
    bench_target->send(b->instance, peer, &message);
    return message;
}

struct conformance_message bench_send_short(struct bench *b, uint32_t peer, uint64_t tag)
{
    struct conformance_message message =
        bench_message(CONFORMANCE_EAGER, peer, tag, bench_bytes + b->sent % 16, 8);

    message.data = ++b->sent;
    bench_target->send(b->instance, peer, &message);
    return message;
}

/* ---- expected events ------------------------------------------------------------------ */

const struct mbx_device_event *bench_peek(const struct bench *b)
{
    assert_true(b->count > 0);
    return &b->events[b->first];
}

/* Removes waiting event number i. */
static struct mbx_device_event take_out(struct bench *b, int i)
{
    struct mbx_device_event *place = &b->events[b->first + i], event = *place;

    b->count--;
    if (i == 0)
        b->first++;
    else
        memmove(place, place + 1, sizeof event * (size_t)(b->count - i));
    return event;
}

struct mbx_device_event bench_take(struct bench *b, enum mbx_device_event_type type)
{
    for (int i = 0; i < b->count; i++)
        if (b->events[b->first + i].type == type)
            return take_out(b, i);
    fail_msg("%s: no event of type %d among %d", bench_target->name, type, b->count);
    return (struct mbx_device_event){0};
}

struct mbx_device_event bench_next(struct bench *b, enum mbx_device_event_type type)
{
    assert_int_equal(bench_peek(b)->type, type);
    return take_out(b, 0);
}

void bench_is_silent(struct bench *b)
{
    bench_poll(b);
    assert_int_equal(b->count, 0);
}

static bool is_rendezvous(enum conformance_kind kind)
{
    return kind == CONFORMANCE_RENDEZVOUS || kind == CONFORMANCE_UNREADABLE;
}

struct mbx_device_event bench_matched(struct bench *b, const struct landing *landing,
                                      const struct conformance_message *message)
{
    struct mbx_device_event event = bench_next(b, MBX_DEVICE_MATCHED);

    assert_int_equal(event.handle, landing->recv.handle);
    assert_int_equal(event.envelope.context_id, message->envelope.context_id);
    assert_int_equal(event.envelope.source, message->envelope.source);
    assert_int_equal(event.envelope.tag, message->envelope.tag);
    if (!(event.flags & MBX_DEVICE_SIZE_LATER))
        assert_int_equal(event.size, message->size);
    if (!(event.flags & MBX_DEVICE_SIZE_LATER) || message->kind == CONFORMANCE_EAGER)
        assert_int_equal(event.data, message->data);
    assert_int_equal((event.flags & MBX_DEVICE_BY_RNDV) != 0, is_rendezvous(message->kind));
    return event;
}

void bench_reports(const struct mbx_device_event *event,
                   const struct conformance_message *message)
{
    assert_int_equal(event->size, message->size);
    if (is_rendezvous(message->kind))
        assert_int_equal(event->data, message->data);
}

static void has_landed(struct landing *landing, const struct conformance_message *message)
{
    size_t size = min_size(landing->recv.size, message->size);

    assert_memory_equal(landing->bytes, message->payload, size);
    for (size_t i = size; i < landing->recv.size + 8; i++)
        if (landing->bytes[i] != GUARD)
            fail_msg("%s: byte %zu was written, of a message of %zu in a buffer of %zu",
                     bench_target->name, i, message->size, landing->recv.size);
    mem_free(landing->bytes);
}

void bench_received(struct bench *b, struct landing *landing,
                    const struct conformance_message *message)
{
    struct mbx_device_event event = bench_matched(b, landing, message);
    size_t size = min_size(landing->recv.size, message->size);

    if (!(event.flags & MBX_DEVICE_WHOLE)) {
        struct mbx_device_event valid = bench_take(b, MBX_DEVICE_DATA_VALID);

        assert_int_equal(valid.handle, landing->recv.handle);
        assert_int_equal(valid.error, 0);
        assert_int_equal(valid.done, size);
        if (event.flags & MBX_DEVICE_SIZE_LATER)
            bench_reports(&valid, message);
    } else {
        assert_int_equal(event.done, size);
    }
    if (event.flags & MBX_DEVICE_WANTS_FIN)
        assert_int_equal(bench_take(b, MBX_DEVICE_FIN_SENT).handle, landing->recv.handle);
    has_landed(landing, message);
}

void bench_unexpected(struct bench *b, const struct conformance_message *message)
{
    struct mbx_device_event event = bench_next(b, MBX_DEVICE_UNEXPECTED);
    struct conformance_message got = {0};

    assert_true(event.buffer < b->untagged);
    assert_true(event.bytes <= b->limits.untagged_size);
    assert_int_equal(event.peer, message->envelope.source);
    bench_target->read(b->instance, &event, buffer_memory(b, event.buffer), &got);
    assert_int_equal(got.kind, message->kind);
    assert_int_equal(got.envelope.context_id, message->envelope.context_id);
    assert_int_equal(got.envelope.source, message->envelope.source);
    assert_int_equal(got.envelope.tag, message->envelope.tag);
    assert_int_equal(got.size, message->size);
    assert_int_equal(got.data, message->data);
    if (got.payload != NULL && message->size > 0)
        assert_memory_equal(got.payload, message->payload, min_size(8, message->size));
    b->handled++;
    bench_give_buffer(b, event.buffer);
}

void bench_revoked(struct bench *b, struct landing *landing, int error)
{
    struct mbx_device_event event = bench_next(b, MBX_DEVICE_REVOKED);

    assert_int_equal(event.handle, landing->recv.handle);
    assert_int_equal(event.error, error);
    if (error == 0)
        mem_free(landing->bytes);
}

/* ---- a verb and its completion -------------------------------------------------------- */

void bench_meets(struct bench *b, struct landing *landing, uint32_t peer, uint64_t tag)
{
    struct conformance_message message = bench_send_short(b, peer, tag);

    bench_poll(b);
    bench_received(b, landing, &message);
}

void bench_misses(struct bench *b, uint32_t peer, uint64_t tag)
{
    struct conformance_message message = bench_send_short(b, peer, tag);

    bench_poll(b);
    bench_unexpected(b, &message);
}

void bench_withdraws(struct bench *b, struct landing *landing)
{
    bench_revoke(b, landing->recv.handle);
    bench_poll(b);
    bench_revoked(b, landing, 0);
}
