/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_bench.c - see verbs_bench.h.
 */
#include "verbs_bench.h"

#include <string.h>

#include "base/base.h"
#include "base/mem.h"

void *vbench_buffer(const struct vbench *b, uint32_t buffer)
{
    return b->buffers + buffer * b->limits.untagged_size;
}

void vbench_open(struct vbench *b)
{
    *b = (struct vbench){0};
    b->t = verbs_target_open(&b->device);
    b->device->ops->limits(b->device, &b->limits);
    assert_int_equal(
        b->device->ops->configure(b->device, TAGS, 2 * TAGS + 2, VERBS_UNTAGGED_MIN), 0);
    b->buffers = mem_calloc(VERBS_UNTAGGED_MIN, b->limits.untagged_size);
    assert_non_null(b->buffers);
    b->device->ops->prepare(b->device, b->buffers, /* the last one is registered by itself */
                            (VERBS_UNTAGGED_MIN - 1) * b->limits.untagged_size);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        assert_int_equal(b->device->ops->replenish(b->device, i, vbench_buffer(b, i)), 0);
}

void vbench_close(struct vbench *b)
{
    verbs_target_close(b->t);
    mem_free(b->buffers);
}

void vbench_run(struct vbench *b)
{
    verbs_target_run(b->t);
}

void vbench_poll(struct vbench *b)
{
    int n;

    vbench_run(b);
    b->count = 0;
    do {
        n = b->device->ops->poll(b->device, &b->events[b->count], EVENTS - b->count);
        b->count += n;
        assert_true(b->count < EVENTS);
        vbench_run(b);
    } while (n > 0);
}

void vbench_append_for(struct vbench *b, uint32_t handle, uint32_t source, uint64_t tag,
                       void *buf, size_t size)
{
    const struct mbx_device_recv recv = {
        .handle = handle, .envelope = {1, source, tag}, .buf = buf, .size = size};

    assert_int_equal(b->device->ops->append(b->device, &recv, 0), 0);
}

void vbench_append(struct vbench *b, uint32_t handle, uint64_t tag, void *buf, size_t size)
{
    vbench_append_for(b, handle, 2, tag, buf, size);
}

uint64_t vbench_tag(uint32_t source, uint64_t tag)
{
    return verbs_tag((struct verbs_layout){.kind = VERBS_NATIVE},
                     &(struct mbx_device_envelope){1, source, tag});
}

void vbench_send_as(struct vbench *b, uint32_t peer, uint32_t source, uint64_t tag,
                    uint32_t app_ctx, const void *payload, size_t size)
{
    const struct ibv_tmh tmh =
        verbs_target_header(IBV_TMH_EAGER, app_ctx, vbench_tag(source, tag));

    verbs_target_send_raw(b->t, peer, &tmh, payload, size);
}

void vbench_send(struct vbench *b, uint64_t tag, uint32_t app_ctx, const void *payload,
                 size_t size)
{
    vbench_send_as(b, 2, 2, tag, app_ctx, payload, size);
}

/* A device, and a receive of tag 7 in it. */
void vbench_open_with(struct vbench *b, void *buf, size_t size)
{
    vbench_open(b);
    vbench_append(b, 0, 7, buf, size);
    vbench_run(b);
}

void vbench_is_nonsense(const struct vbench *b, const struct mbx_device_event *event)
{
    struct wire_packet packet;
    const char *reason;

    assert_int_equal(
        wire_check(vbench_buffer(b, event->buffer), event->bytes, &packet, &reason), -EPROTO);
}

struct wire_packet vbench_packet(const struct vbench *b, const struct mbx_device_event *event)
{
    struct wire_packet packet;
    const char *reason;

    assert_int_equal(
        wire_check(vbench_buffer(b, event->buffer), event->bytes, &packet, &reason), 0);
    return packet;
}
