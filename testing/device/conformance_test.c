/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_test.c - the conformance suite over the software device, driven step by step: with
 * all its capabilities, and with few.
 */
#include "testing/device/conformance.h"
#include "testing/device/stepped_device.h"

#include <assert.h>

#include "base/mem.h"

static void *open_hand(struct mbx_device **device, const struct stepped_config *config)
{
    struct stepped *stepped = mem_alloc(sizeof *stepped);

    assert(stepped != NULL);
    stepped_init(stepped, config);
    *device = &stepped->device;
    return stepped;
}

static void *open_instance(struct mbx_device **device)
{
    return open_hand(device, &(struct stepped_config){0});
}

/* No capability, and the minimum of all limits. */
static void *open_poor(struct mbx_device **device)
{
    return open_hand(
        device, &(struct stepped_config){.limits = {
                                             .list = 3,
                                             .commands = 8,
                                             .untagged = 2,
                                             .context_bits = 8,
                                             .source_bits = 8,
                                             .tag_mask = UINT32_MAX,
                                             .untagged_size = sizeof(struct stepped_packet),
                                             .eager_max = STEPPED_EAGER_MAX,
                                         }});
}

static void close_instance(void *instance)
{
    stepped_fini(instance);
    mem_free(instance);
}

static enum stepped_kind kind_of(enum conformance_kind kind)
{
    if (kind == CONFORMANCE_OTHER)
        return STEPPED_OTHER;
    return kind == CONFORMANCE_RENDEZVOUS || kind == CONFORMANCE_UNREADABLE ? STEPPED_RENDEZVOUS
                                                                            : STEPPED_EAGER;
}

static void send_message(void *instance, uint32_t peer,
                         const struct conformance_message *message)
{
    const struct stepped *stepped = instance;
    bool reads = (stepped->config.limits.caps & MBX_DEVICE_RENDEZVOUS) &&
                 message->kind != CONFORMANCE_UNREADABLE;

    stepped_send_message(instance, peer,
                         &(struct stepped_packet){
                             .kind = (uint8_t)kind_of(message->kind),
                             .wants_fin = message->kind == CONFORMANCE_SYNC ||
                                          kind_of(message->kind) == STEPPED_RENDEZVOUS,
                             .message = (uint32_t)message->data,
                             .envelope = message->envelope,
                             .size = message->size,
                             .data = message->data,
                             .breaks_at = reads ? UINT64_MAX : 0,
                         },
                         message->payload);
}

static void run(void *instance)
{
    stepped_run(instance);
}

static void read_packet(void *instance, const struct mbx_device_event *event,
                        const void *memory, struct conformance_message *message)
{
    const struct stepped_packet *packet = memory;

    (void)instance;
    assert(event->bytes == sizeof *packet);
    message->kind = packet->kind == STEPPED_RENDEZVOUS ? CONFORMANCE_RENDEZVOUS
                    : packet->wants_fin                ? CONFORMANCE_SYNC
                                                       : CONFORMANCE_EAGER;
    message->envelope = packet->envelope;
    message->size = packet->size;
    message->data = packet->data;
    message->payload = packet->kind == STEPPED_RENDEZVOUS ? NULL : packet->bytes;
}

static uint64_t fins(void *instance, uint32_t peer)
{
    return ((struct stepped *)instance)->fins[peer];
}

static void lose(void *instance)
{
    stepped_lose(instance);
}

int main(void)
{
    struct conformance_target target = {
        .name = "device conformance: stepped device",
        .kinds = 1 << CONFORMANCE_EAGER | 1 << CONFORMANCE_SYNC | 1 << CONFORMANCE_RENDEZVOUS |
                 1 << CONFORMANCE_UNREADABLE | 1 << CONFORMANCE_OTHER,
        .open = open_instance,
        .close = close_instance,
        .send = send_message,
        .run = run,
        .read = read_packet,
        .fins = fins,
        .lose = lose,
    };
    int failed = conformance_run(&target);

    target.name = "device conformance: soft, by stepped, poor";
    target.open = open_poor;
    target.lose = NULL;
    return failed + conformance_run(&target);
}
