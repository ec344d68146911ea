/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/stepped_device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define QUEUE_ROOM (HAND_COMMANDS + HAND_BUFFERS)

static struct hand *hand_of(struct mbx_device *device)
{
    return container_of(device, struct hand, device);
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* ---- events ---- */

static void emit(void *arg, const struct mbx_device_event *event)
{
    struct hand *hand = arg;

    if (hand->events_count >= hand->events_max || hand->events_count >= HAND_EVENTS) {
        hand->has_overflowed = true;
        return;
    }
    hand->events[(hand->events_first + hand->events_count++) % HAND_EVENTS] = *event;
}

static void emit_for(struct hand *hand, enum mbx_device_event_type type, uint32_t handle,
                     uint64_t done)
{
    emit(hand,
         &(struct mbx_device_event){.type = (uint8_t)type, .handle = handle, .done = done});
}

static int poll_events(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct hand *hand = hand_of(device);
    int n = 0;

    for (; n < count && hand->events_count > 0 && hand->shows > 0; n++) {
        hand->shows -= hand->shows != UINT32_MAX;
        events[n] = hand->events[hand->events_first];
        hand->events_first = (hand->events_first + 1) % HAND_EVENTS;
        hand->events_count--;
    }
    return n;
}

/* ---- commands ---- */

static void push(struct hand *hand, const struct hand_queued *queued)
{
    assert(hand->queue_count < QUEUE_ROOM);
    hand->queue[(hand->queue_first + hand->queue_count++) % QUEUE_ROOM] = *queued;
}

static int command(struct mbx_device *device, const struct soft_command *wanted)
{
    struct hand *hand = hand_of(device);

    if (hand->is_lost)
        return -ENODEV;
    if (hand->commands_waiting == hand->commands)
        return -EAGAIN;
    hand->commands_waiting++;
    push(hand, &(struct hand_queued){.command = *wanted});
    return 0;
}

static bool fits(uint64_t value, uint32_t bits)
{
    return bits >= 64 || value >> bits == 0;
}

/* May a caller who has read the limits hand this receive over? */
static bool is_within(const struct mbx_device_limits *limits,
                      const struct mbx_device_recv *recv)
{
    const struct mbx_device_envelope *envelope = &recv->envelope;

    if (envelope->source == MBX_DEVICE_ANY_SOURCE_ID
            ? !(limits->caps & MBX_DEVICE_ANY_SOURCE)
            : !fits(envelope->source, limits->source_bits))
        return false;
    if (recv->ignore != 0 && ~recv->ignore != 0 && !(limits->caps & MBX_DEVICE_MASKS))
        return false;
    if (!(limits->caps & MBX_DEVICE_TRUNCATES) && recv->size < limits->eager_max)
        return false;
    return fits(envelope->context_id, limits->context_bits) &&
           fits(envelope->tag & ~recv->ignore, limits->tag_bits);
}

static int append(struct mbx_device *device, const struct mbx_device_recv *recv,
                  uint16_t handled)
{
    hand_of(device)->was_misused |= !is_within(&hand_of(device)->config.limits, recv);
    if (recv->handle >= hand_of(device)->list)
        return -ENOSPC;
    return command(device, &(struct soft_command){.type = SOFT_APPEND,
                                                  .handled = handled,
                                                  .handle = recv->handle,
                                                  .envelope = recv->envelope,
                                                  .ignore = recv->ignore,
                                                  .buf = (uintptr_t)recv->buf,
                                                  .size = recv->size});
}

static int revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    int err = command(device, &(struct soft_command){
                                  .type = SOFT_REVOKE, .handled = handled, .handle = handle});

    hand_of(device)->has_refused_revoke |= err == -EAGAIN;
    return err;
}

static int take_back(struct mbx_device *device, uint16_t handled)
{
    return command(device, &(struct soft_command){.type = SOFT_TAKE_BACK, .handled = handled});
}

static int sync_counts(struct mbx_device *device, uint16_t handled)
{
    struct hand *hand = hand_of(device);
    int err;

    if (hand->syncs_waiting > 0 && !hand->is_lost)
        return -EAGAIN;
    err = command(device, &(struct soft_command){.type = SOFT_SYNC, .handled = handled});
    hand->syncs_waiting += err == 0;
    return err;
}

static int hold(struct mbx_device *device, uint32_t message,
                const struct mbx_device_envelope *envelope, uint16_t handled)
{
    return command(device, &(struct soft_command){.type = SOFT_HOLD,
                                                  .handled = handled,
                                                  .handle = message,
                                                  .envelope = *envelope});
}

static int unhold(struct mbx_device *device, uint32_t message, uint16_t handled)
{
    return command(device, &(struct soft_command){
                               .type = SOFT_UNHOLD, .handled = handled, .handle = message});
}

static int replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct hand *hand = hand_of(device);

    if (hand->is_lost || hand->buffers_waiting == hand->untagged)
        return hand->is_lost ? -ENODEV : -EAGAIN;
    assert(buffer < hand->untagged);
    hand->buffers_waiting++;
    push(hand, &(struct hand_queued){.is_buffer = true,
                                     .command = {.handle = buffer, .buf = (uintptr_t)memory}});
    return 0;
}

static void take_buffer(struct hand *hand, const struct soft_command *buffer)
{
    hand->buffers_waiting--;
    hand->memory[buffer->handle] = (void *)(uintptr_t)buffer->buf;
    hand->empty[(hand->empty_first + hand->empty_count++) % HAND_BUFFERS] = buffer->handle;
}

bool hand_command(struct hand *hand)
{
    const struct hand_queued *queued = &hand->queue[hand->queue_first];

    if (hand->queue_count == 0 || hand->is_lost)
        return false;
    hand->queue_first = (hand->queue_first + 1) % QUEUE_ROOM;
    hand->queue_count--;
    if (queued->is_buffer) {
        take_buffer(hand, &queued->command);
        return true;
    }
    hand->commands_waiting--;
    hand->syncs_waiting -= queued->command.type == SOFT_SYNC;
    if (soft_command(&hand->soft, &queued->command) < 0)
        hand->was_misused = true;
    return true;
}

/* ---- data ---- */

static void copy_in(const struct soft_entry *entry, uint64_t offset, const void *bytes,
                    uint64_t length)
{
    if (offset < entry->size && length > 0)
        memcpy((unsigned char *)(uintptr_t)entry->buf + offset, bytes,
               at_most(length, entry->size - offset));
}

static struct soft_entry *entry_of(struct hand *hand, const struct hand_transfer *transfer)
{
    return &hand->soft.entries[transfer - hand->transfers];
}

static uint32_t handle_of(const struct hand *hand, const struct hand_transfer *transfer)
{
    return (uint32_t)(transfer - hand->transfers);
}

/* The data is there, or is not going to be. */
static void settle(struct hand *hand, struct hand_transfer *transfer)
{
    if (!transfer->is_moving && !transfer->owes_fin)
        soft_release(&hand->soft, entry_of(hand, transfer));
}

static void end_move(struct hand *hand, struct hand_transfer *transfer,
                     enum mbx_device_event_type type)
{
    transfer->is_moving = false;
    emit_for(hand, type, handle_of(hand, transfer),
             at_most(transfer->done, entry_of(hand, transfer)->size));
    settle(hand, transfer);
}

static void send_fin(struct hand *hand, struct hand_transfer *transfer)
{
    transfer->owes_fin = false;
    hand->told[transfer->peer]++;
    if (hand->on_fin != NULL)
        hand->on_fin(hand->arg, transfer->peer, transfer->packet.message);
    emit_for(hand, MBX_DEVICE_FIN_SENT, handle_of(hand, transfer), 0);
    settle(hand, transfer);
}

/* Reads a piece of the sender's memory. */
static void move_piece(struct hand *hand, struct hand_transfer *transfer)
{
    const struct soft_entry *entry = entry_of(hand, transfer);
    const struct hand_packet *packet = &transfer->packet;
    uint64_t all = at_most(packet->size, entry->size);
    uint64_t end = at_most(at_most(transfer->done + HAND_STEP, all), packet->breaks_at);

    if (end > transfer->done) {
        copy_in(entry, transfer->done, packet->address + transfer->done, end - transfer->done);
        transfer->done = end;
    }
    if (transfer->done == all) {
        end_move(hand, transfer, MBX_DEVICE_DATA_VALID);
    } else if (transfer->done >= packet->breaks_at) {
        transfer->owes_fin = false; /* software tells the sender */
        end_move(hand, transfer, MBX_DEVICE_INCOMPLETE);
    }
}

bool hand_can_move(const struct hand *hand, uint32_t handle)
{
    const struct hand_transfer *transfer = &hand->transfers[handle];

    if (hand->is_lost)
        return false;
    return transfer->is_moving ? transfer->packet.kind == HAND_RENDEZVOUS : transfer->owes_fin;
}

bool hand_move(struct hand *hand, uint32_t handle)
{
    struct hand_transfer *transfer = &hand->transfers[handle];

    if (!hand_can_move(hand, handle))
        return false;
    if (transfer->is_moving)
        move_piece(hand, transfer);
    else
        send_fin(hand, transfer);
    return true;
}

/* ---- arrivals ---- */

static struct hand_packet *wire_first(struct hand_wire *wire)
{
    return wire->count > 0 ? &wire->packets[wire->first] : NULL;
}

static void wire_pop(struct hand_wire *wire)
{
    wire->first++;
    wire->count--;
}

static void emit_matched(struct hand *hand, const struct hand_transfer *transfer)
{
    const struct hand_packet *packet = &transfer->packet;

    emit(
        hand,
        &(struct mbx_device_event){
            .type = MBX_DEVICE_MATCHED,
            .flags = (uint8_t)((transfer->is_moving ? 0 : MBX_DEVICE_WHOLE) |
                               (transfer->owes_fin ? MBX_DEVICE_WANTS_FIN : 0) |
                               (packet->kind == HAND_RENDEZVOUS ? MBX_DEVICE_BY_RNDV : 0)),
            .handle = handle_of(hand, transfer),
            .peer = transfer->peer,
            .envelope = packet->envelope,
            .size = packet->size,
            .data = packet->data,
            .done = at_most(transfer->done, hand->soft.entries[handle_of(hand, transfer)].size),
            .sender = packet->message,
            .address = (uintptr_t)packet->address,
        });
}

static void start_transfer(struct hand *hand, struct soft_entry *entry, uint32_t peer,
                           const struct hand_packet *packet)
{
    struct hand_transfer *transfer = &hand->transfers[soft_handle(&hand->soft, entry)];

    *transfer = (struct hand_transfer){
        .is_moving = packet->kind == HAND_RENDEZVOUS || packet->length < packet->size,
        .owes_fin = packet->wants_fin,
        .packet = *packet,
        .peer = peer,
        .done = packet->length,
    };
    copy_in(entry, 0, packet->bytes, packet->length);
    emit_matched(hand, transfer);
    settle(hand, transfer);
}

/* The message whose first packet came before on this wire, if the device has it. */
static struct hand_transfer *find_transfer(struct hand *hand, uint32_t peer, uint32_t message)
{
    for (uint32_t i = 0; i < hand->list; i++) {
        struct hand_transfer *transfer = &hand->transfers[i];

        if (transfer->is_moving && transfer->peer == peer &&
            transfer->packet.message == message)
            return transfer;
    }
    return NULL;
}

/* False: no untagged buffer, the sender is held back. */
static bool pass(struct hand *hand, uint32_t peer, const struct hand_packet *packet,
                 enum mbx_device_event_type type)
{
    uint32_t buffer;

    if (hand->empty_count == 0)
        return false;
    buffer = hand->empty[hand->empty_first];
    hand->empty_first = (hand->empty_first + 1) % HAND_BUFFERS;
    hand->empty_count--;
    memcpy(hand->memory[buffer], packet, sizeof *packet);
    emit(hand,
         &(struct mbx_device_event){
             .type = (uint8_t)type, .buffer = buffer, .peer = peer, .bytes = sizeof *packet});
    return true;
}

static bool arrive_fragment(struct hand *hand, uint32_t peer, const struct hand_packet *packet)
{
    struct hand_transfer *transfer = find_transfer(hand, peer, packet->message);

    if (transfer == NULL)
        return pass(hand, peer, packet, MBX_DEVICE_PASSED);
    copy_in(entry_of(hand, transfer), packet->offset, packet->bytes, packet->length);
    transfer->done += packet->length;
    if (transfer->done == packet->size)
        end_move(hand, transfer, MBX_DEVICE_DATA_VALID);
    return true;
}

static bool arrive_tagged(struct hand *hand, uint32_t peer, const struct hand_packet *packet)
{
    struct soft_entry *entry = soft_match(&hand->soft, &packet->envelope);

    if (entry == NULL && !pass(hand, peer, packet, MBX_DEVICE_UNEXPECTED))
        return false;
    if (hand->on_arrival != NULL)
        hand->on_arrival(hand->arg, peer, packet->message);
    if (entry == NULL)
        soft_found(&hand->soft);
    else
        start_transfer(hand, entry, peer, packet);
    return true;
}

bool hand_arrive(struct hand *hand, uint32_t peer)
{
    const struct hand_packet *packet = wire_first(&hand->wires[peer]);
    bool is_taken = false;

    if (packet == NULL || hand->is_lost || !hand->is_configured)
        return false;
    switch ((enum hand_kind)packet->kind) {
    case HAND_EAGER:
    case HAND_RENDEZVOUS:
        is_taken = arrive_tagged(hand, peer, packet);
        break;
    case HAND_FRAGMENT:
        is_taken = arrive_fragment(hand, peer, packet);
        break;
    case HAND_OTHER:
        is_taken = pass(hand, peer, packet, MBX_DEVICE_PASSED);
        break;
    }
    if (is_taken)
        wire_pop(&hand->wires[peer]);
    return is_taken;
}

/* ---- peers ---- */

void hand_send(struct hand *hand, uint32_t peer, const struct hand_packet *packet)
{
    struct hand_wire *wire = &hand->wires[peer];

    if (wire->count == 0)
        wire->first = 0;
    if (wire->first + wire->count == wire->room) {
        wire->room = wire->room == 0 ? 64 : 2 * wire->room;
        wire->packets = mem_realloc(wire->packets, wire->room * sizeof *wire->packets);
        assert(wire->packets != NULL);
    }
    wire->packets[wire->first + wire->count++] = *packet;
}

void hand_send_message(struct hand *hand, uint32_t peer, const struct hand_packet *first,
                       const unsigned char *bytes)
{
    struct hand_packet packet = *first;

    if (packet.kind == HAND_RENDEZVOUS) {
        packet.address = bytes;
        hand_send(hand, peer, &packet);
        return;
    }
    do {
        packet.length = (uint32_t)at_most(packet.size - packet.offset, HAND_INLINE);
        if (packet.length > 0)
            memcpy(packet.bytes, bytes + packet.offset, packet.length);
        hand_send(hand, peer, &packet);
        packet.offset += packet.length;
        packet.kind = HAND_FRAGMENT;
    } while (packet.offset < packet.size);
}

bool hand_take_packet(struct hand *hand, uint32_t peer, struct hand_packet *packet)
{
    const struct hand_packet *first = wire_first(&hand->wires[peer]);

    if (first == NULL)
        return false;
    *packet = *first;
    wire_pop(&hand->wires[peer]);
    return true;
}

/* ---- all of it ---- */

static bool run_once(struct hand *hand)
{
    bool moved = hand_command(hand);

    for (uint32_t i = 0; i < HAND_PEERS; i++)
        moved |= hand_arrive(hand, i);
    for (uint32_t i = 0; i < hand->list; i++)
        moved |= hand_move(hand, i);
    return moved;
}

void hand_run(struct hand *hand)
{
    while (run_once(hand))
        ;
}

void hand_lose(struct hand *hand)
{
    if (hand->is_lost)
        return;
    emit_for(hand, MBX_DEVICE_LOST, 0, 0);
    hand->is_lost = true;
}

/* ---- open and close ---- */

static void limits(const struct mbx_device *device, struct mbx_device_limits *has)
{
    *has = container_of(device, const struct hand, device)->config.limits;
}

static int configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                     uint32_t untagged)
{
    struct hand *hand = hand_of(device);
    const struct mbx_device_limits *most = &hand->config.limits;
    int err;

    if (list > most->list || commands > most->commands || untagged > most->untagged)
        return -EINVAL;
    err =
        soft_init(&hand->soft, &(struct soft_config){.list = list,
                                                     .counter_bits = hand->config.counter_bits,
                                                     .emit = emit,
                                                     .arg = hand});
    if (err != 0)
        return err;
    hand->is_configured = true;
    hand->list = list;
    hand->commands = commands;
    hand->untagged = untagged;
    hand->events_max = soft_events(list, untagged);
    return 0;
}

static void close_device(struct mbx_device *device)
{
    struct hand *hand = hand_of(device);

    if (hand->is_configured)
        soft_fini(&hand->soft);
    for (uint32_t i = 0; i < HAND_PEERS; i++)
        mem_free(hand->wires[i].packets);
}

static const struct mbx_device_ops ops = {
    .name = "hand",
    .about = "the software device, worked by a test",
    .close = close_device,
    .limits = limits,
    .configure = configure,
    .replenish = replenish,
    .append = append,
    .revoke = revoke,
    .take_back = take_back,
    .sync = sync_counts,
    .hold = hold,
    .unhold = unhold,
    .poll = poll_events,
};

static const struct mbx_device_limits all = {
    .list = HAND_LIST,
    .commands = HAND_COMMANDS,
    .untagged = HAND_BUFFERS,
    .context_bits = 32,
    .source_bits = 32,
    .tag_bits = 64,
    .untagged_size = sizeof(struct hand_packet),
    .eager_max = HAND_EAGER_MAX,
    .caps = MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_RENDEZVOUS |
            MBX_DEVICE_TRUNCATES | MBX_DEVICE_HOLDS,
};

void hand_init(struct hand *hand, const struct hand_config *config)
{
    memset(hand, 0, offsetof(struct hand, queue));
    hand->device.ops = &ops;
    hand->config = *config;
    hand->shows = UINT32_MAX;
    if (hand->config.limits.list == 0) {
        hand->config.limits = all;
        if (config->caps != 0)
            hand->config.limits.caps = config->caps;
        if (config->tag_bits != 0)
            hand->config.limits.tag_bits = config->tag_bits;
    }
}

void hand_fini(struct hand *hand)
{
    close_device(&hand->device);
}

/* ---- what must hold ---- */

static bool transfers_are_valid(const struct hand *hand)
{
    for (uint32_t i = 0; i < hand->list; i++)
        if ((hand->transfers[i].is_moving || hand->transfers[i].owes_fin) !=
            (hand->soft.entries[i].state == SOFT_MATCHED))
            return false;
    return true;
}

bool hand_is_valid(const struct hand *hand)
{
    return !hand->has_overflowed && !hand->was_misused &&
           hand->commands_waiting <= hand->commands && hand->syncs_waiting <= 1 &&
           hand->events_count <= hand->events_max && transfers_are_valid(hand) &&
           soft_is_valid(&hand->soft);
}

bool hand_is_idle(const struct hand *hand)
{
    for (uint32_t i = 0; i < HAND_PEERS; i++)
        if (hand->wires[i].count > 0)
            return false;
    for (uint32_t i = 0; i < hand->list; i++)
        if (hand->soft.entries[i].state != SOFT_FREE)
            return false;
    return hand->queue_count == 0 && hand->events_count == 0 &&
           hand->empty_count == hand->untagged;
}
