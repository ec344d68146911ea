/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/conformance_bench.h"

#include <string.h>

#define GUARD 0xa5 /* in a buffer where nothing has been written */

const struct conformance_target *bench_target;

/* ---- a device and what it said -------------------------------------------------------- */

static void *buffer_memory(const struct bench *b, uint32_t buffer)
{
    return b->untagged_memory + buffer * b->limits.untagged_size;
}

void bench_give_buffer(struct bench *b, uint32_t buffer)
{
    assert_int_equal(b->device->ops->replenish(b->device, buffer, buffer_memory(b, buffer)), 0);
}

void bench_open_small(struct bench *b, uint32_t list, uint32_t untagged)
{
    *b = (struct bench){0};
    b->world = bench_target->open(&b->device);
    b->device->ops->limits(b->device, &b->limits);
    b->list = (uint32_t)min_size(list, b->limits.list);
    b->untagged = (uint32_t)min_size(untagged, b->limits.untagged);
    b->commands = 2 * b->list + 2;
    b->untagged_memory = mem_calloc(b->untagged, b->limits.untagged_size);
    assert_non_null(b->untagged_memory);
    assert_int_equal(b->device->ops->configure(b->device, b->list, b->commands, b->untagged),
                     0);
    for (uint32_t i = 0; i < b->untagged; i++)
        bench_give_buffer(b, i);
    bench_target->run(b->world);
}

void bench_open(struct bench *b)
{
    bench_open_small(b, BENCH_LIST, BENCH_UNTAGGED);
}

void bench_close(struct bench *b)
{
    assert_int_equal(b->count, 0);
    bench_target->close(b->world);
    mem_free(b->untagged_memory);
}

void bench_run(struct bench *b)
{
    bench_target->run(b->world);
}

void bench_poll(struct bench *b)
{
    int n;

    bench_run(b);
    do {
        n = b->device->ops->poll(b->device, &b->events[b->count], BENCH_EVENTS - b->count);
        assert_true(n >= 0);
        b->count += n;
        assert_true(b->count < BENCH_EVENTS);
        bench_run(b);
    } while (n > 0);
}

struct mbx_device_event bench_take(struct bench *b, enum mbx_device_event_type type)
{
    for (int i = 0; i < b->count; i++) {
        struct mbx_device_event event = b->events[i];

        if (event.type != type)
            continue;
        b->count--;
        memmove(&b->events[i], &b->events[i + 1], sizeof event * (size_t)(b->count - i));
        return event;
    }
    fail_msg("%s: no event of type %d among %d", bench_target->name, type, b->count);
    return (struct mbx_device_event){0};
}

struct mbx_device_event bench_next(struct bench *b, enum mbx_device_event_type type)
{
    assert_true(b->count > 0);
    assert_int_equal(b->events[0].type, type);
    return bench_take(b, type);
}

void bench_is_silent(struct bench *b)
{
    bench_poll(b);
    assert_int_equal(b->count, 0);
}

bool bench_can(const struct bench *b, unsigned caps)
{
    return (b->limits.caps & caps) == caps;
}

bool bench_sends(enum conformance_kind kind)
{
    return (bench_target->kinds & 1u << kind) != 0;
}

/* ---- verbs that must succeed ---------------------------------------------------------- */

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
    struct landing landing = bench_landing(handle, source, tag, b->limits.eager_max);

    bench_append(b, &landing);
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

const char bench_text[BENCH_TEXT] =
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on; "
    "so the fox comes back and jumps once more, and again, and again.";

struct conformance_message bench_message(enum conformance_kind kind, uint32_t peer,
                                         uint64_t tag, const void *payload, size_t size)
{
    return (struct conformance_message){kind, {1, peer, tag}, payload, size, 0};
}

struct conformance_message bench_send(struct bench *b, enum conformance_kind kind,
                                      uint32_t peer, uint64_t tag, size_t size)
{
    struct conformance_message message = bench_message(kind, peer, tag, bench_text, size);

    message.data = ++b->sent;
    bench_target->send(b->world, peer, &message);
    return message;
}

struct conformance_message bench_send_short(struct bench *b, uint32_t peer, uint64_t tag)
{
    struct conformance_message message =
        bench_message(CONFORMANCE_EAGER, peer, tag, bench_text + b->sent % 16, 8);

    message.data = ++b->sent;
    bench_target->send(b->world, peer, &message);
    return message;
}

/* ---- what must have happened ---------------------------------------------------------- */

struct mbx_device_event bench_matched(struct bench *b, const struct landing *landing,
                                      const struct conformance_message *message)
{
    struct mbx_device_event event = bench_next(b, MBX_DEVICE_MATCHED);

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

void bench_has_landed(struct landing *landing, const struct conformance_message *message)
{
    size_t size = min_size(landing->recv.size, message->size);

    assert_memory_equal(landing->bytes, message->payload, size);
    for (size_t i = size; i < landing->recv.size + 8; i++)
        assert_int_equal(landing->bytes[i], GUARD);
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
    } else {
        assert_int_equal(event.done, size);
    }
    if (event.flags & MBX_DEVICE_WANTS_FIN)
        assert_int_equal(bench_take(b, MBX_DEVICE_FIN_SENT).handle, landing->recv.handle);
    bench_has_landed(landing, message);
}

void bench_unexpected(struct bench *b, const struct conformance_message *message)
{
    struct mbx_device_event event = bench_next(b, MBX_DEVICE_UNEXPECTED);
    struct conformance_message got = {0};

    assert_true(event.buffer < b->untagged);
    assert_true(event.bytes <= b->limits.untagged_size);
    assert_int_equal(event.peer, message->envelope.source);
    bench_target->read(b->world, &event, buffer_memory(b, event.buffer), &got);
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
