/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_bench.h - a verbs device on the software adapter, and the operations that its tests do
 * with it.
 */
#ifndef VERBS_BENCH_H
#define VERBS_BENCH_H

#include "testing/device/verbs_target.h"

#include "base/unit.h"
#include "device/verbs/verbs_state.h"

#define EVENTS 64
#define TAGS   8
#define LONG   300000u

struct vbench {
    struct verbs_target *t;
    struct mbx_device *device;
    struct mbx_device_limits limits;
    unsigned char *buffers;
    struct mbx_device_event events[EVENTS];
    int count;
};

void *vbench_buffer(const struct vbench *b, uint32_t buffer);

void vbench_open(struct vbench *b);

/* Opens the device, with a receive of tag 7 posted. */
void vbench_open_with(struct vbench *b, void *buf, size_t size);
void vbench_close(struct vbench *b);

/* Runs until all sends and requests have ended. */
void vbench_run(struct vbench *b);

/* As vbench_run(); then all events are in b->events. */
void vbench_poll(struct vbench *b);

/* Posts a receive for a message of peer 2, or of this source. */
void vbench_append(struct vbench *b, uint32_t handle, uint64_t tag, void *buf, size_t size);
void vbench_append_for(struct vbench *b, uint32_t handle, uint32_t source, uint64_t tag,
                       void *buf, size_t size);

/* The 64 bits for context id 1. */
uint64_t vbench_tag(uint32_t source, uint64_t tag);

/* Sends an eager message from peer 2, or from this peer with that source in its header. */
void vbench_send(struct vbench *b, uint64_t tag, uint32_t app_ctx, const void *payload,
                 size_t size);
void vbench_send_as(struct vbench *b, uint32_t peer, uint32_t source, uint64_t tag,
                    uint32_t app_ctx, const void *payload, size_t size);

/* Return the packet of an event, which wire_check() accepts; check that it refuses it. */
struct wire_packet vbench_packet(const struct vbench *b, const struct mbx_device_event *event);
void vbench_is_nonsense(const struct vbench *b, const struct mbx_device_event *event);

#endif
