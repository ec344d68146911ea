/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/stepped_device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define QUEUE_ROOM (STEPPED_COMMANDS + STEPPED_BUFFERS)

static struct stepped *stepped_of(struct mbx_device *device)
{
    return container_of(device, struct stepped, device);
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* ---- events ---- */

static void emit(void *arg, const struct mbx_device_event *event)
{
    struct stepped *hand = arg;

    if (hand->events_count >= hand->events_max || hand->events_count >= STEPPED_EVENTS) {
        hand->has_overflowed = true;
        return;
    }
    hand->events[(hand->events_first + hand->events_count++) % STEPPED_EVENTS] = *event;
}

static void emit_for(struct stepped *hand, enum mbx_device_event_type type, uint32_t handle,
                     uint64_t done)
{
    emit(hand,
         &(struct mbx_device_event){.type = (uint8_t)type, .handle = handle, .done = done});
}

static int poll_events(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct stepped *hand = stepped_of(device);
    int n = 0;

    for (; n < count && hand->events_count > 0 && hand->shows > 0; n++) {
        hand->shows -= hand->shows != UINT32_MAX;
        events[n] = hand->events[hand->events_first];
        hand->events_first = (hand->events_first + 1) % STEPPED_EVENTS;
        hand->events_count--;
    }
    return n;
}

/* ---- commands ---- */

static void push(struct stepped *hand, const struct stepped_queued *queued)
{
    assert(hand->queue_count < QUEUE_ROOM);
    hand->queue[(hand->queue_first + hand->queue_count++) % QUEUE_ROOM] = *queued;
}

static int command(struct mbx_device *device, const struct tm_command *wanted)
{
    struct stepped *hand = stepped_of(device);

    if (hand->is_lost)
        return -ENODEV;
    if (hand->commands_waiting == hand->commands)
        return -EAGAIN;
    hand->commands_waiting++;
    push(hand, &(struct stepped_queued){.command = *wanted});
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
    stepped_of(device)->was_misused |= !is_within(&stepped_of(device)->config.limits, recv);
    if (recv->handle >= stepped_of(device)->list)
        return -ENOSPC;
    return command(device, &(struct tm_command){.type = TM_APPEND,
                                                .handled = handled,
                                                .handle = recv->handle,
                                                .envelope = recv->envelope,
                                                .ignore = recv->ignore,
                                                .buf = (uintptr_t)recv->buf,
                                                .size = recv->size});
}

static int revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    int err = command(
        device, &(struct tm_command){.type = TM_REVOKE, .handled = handled, .handle = handle});

    stepped_of(device)->has_refused_revoke |= err == -EAGAIN;
    return err;
}

static int take_back(struct mbx_device *device, uint16_t handled)
{
    return command(device, &(struct tm_command){.type = TM_TAKE_BACK, .handled = handled});
}

static int sync_counts(struct mbx_device *device, uint16_t handled)
{
    struct stepped *hand = stepped_of(device);
    int err;

    if (hand->syncs_waiting > 0 && !hand->is_lost)
        return -EAGAIN;
    err = command(device, &(struct tm_command){.type = TM_SYNC, .handled = handled});
    hand->syncs_waiting += err == 0;
    return err;
}

static int hold(struct mbx_device *device, uint32_t message,
                const struct mbx_device_envelope *envelope, uint16_t handled)
{
    return command(device, &(struct tm_command){.type = TM_HOLD,
                                                .handled = handled,
                                                .handle = message,
                                                .envelope = *envelope});
}

static int unhold(struct mbx_device *device, uint32_t message, uint16_t handled)
{
    return command(
        device, &(struct tm_command){.type = TM_UNHOLD, .handled = handled, .handle = message});
}

static int replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct stepped *hand = stepped_of(device);

    if (hand->is_lost || hand->buffers_waiting == hand->untagged)
        return hand->is_lost ? -ENODEV : -EAGAIN;
    assert(buffer < hand->untagged);
    hand->buffers_waiting++;
    push(hand, &(struct stepped_queued){
                   .is_buffer = true, .command = {.handle = buffer, .buf = (uintptr_t)memory}});
    return 0;
}

static void take_buffer(struct stepped *hand, const struct tm_command *buffer)
{
    hand->buffers_waiting--;
    hand->memory[buffer->handle] = (void *)(uintptr_t)buffer->buf;
    hand->empty[(hand->empty_first + hand->empty_count++) % STEPPED_BUFFERS] = buffer->handle;
}

bool stepped_command(struct stepped *hand)
{
    const struct stepped_queued *queued = &hand->queue[hand->queue_first];

    if (hand->queue_count == 0 || hand->is_lost)
        return false;
    hand->queue_first = (hand->queue_first + 1) % QUEUE_ROOM;
    hand->queue_count--;
    if (queued->is_buffer) {
        take_buffer(hand, &queued->command);
        return true;
    }
    hand->commands_waiting--;
    hand->syncs_waiting -= queued->command.type == TM_SYNC;
    if (tm_command(&hand->unit, &queued->command) < 0)
        hand->was_misused = true;
    return true;
}

/* ---- data ---- */

static void copy_in(const struct tm_entry *entry, uint64_t offset, const void *bytes,
                    uint64_t length)
{
    if (offset < entry->size && length > 0)
        memcpy((unsigned char *)(uintptr_t)entry->buf + offset, bytes,
               at_most(length, entry->size - offset));
}

static struct tm_entry *entry_of(struct stepped *hand, const struct stepped_transfer *transfer)
{
    return &hand->unit.entries[transfer - hand->transfers];
}

static uint32_t handle_of(const struct stepped *hand, const struct stepped_transfer *transfer)
{
    return (uint32_t)(transfer - hand->transfers);
}

/* The data is there, or is not going to be. */
static void settle(struct stepped *hand, struct stepped_transfer *transfer)
{
    if (!transfer->is_moving && !transfer->owes_fin)
        tm_release(&hand->unit, entry_of(hand, transfer));
}

static void end_move(struct stepped *hand, struct stepped_transfer *transfer,
                     enum mbx_device_event_type type)
{
    transfer->is_moving = false;
    emit_for(hand, type, handle_of(hand, transfer),
             at_most(transfer->done, entry_of(hand, transfer)->size));
    settle(hand, transfer);
}

static void send_fin(struct stepped *hand, struct stepped_transfer *transfer)
{
    transfer->owes_fin = false;
    hand->told[transfer->peer]++;
    if (hand->on_fin != NULL)
        hand->on_fin(hand->arg, transfer->peer, transfer->packet.message);
    emit_for(hand, MBX_DEVICE_FIN_SENT, handle_of(hand, transfer), 0);
    settle(hand, transfer);
}

/* Reads a piece of the sender's memory. */
static void move_piece(struct stepped *hand, struct stepped_transfer *transfer)
{
    const struct tm_entry *entry = entry_of(hand, transfer);
    const struct stepped_packet *packet = &transfer->packet;
    uint64_t all = at_most(packet->size, entry->size);
    uint64_t end = at_most(at_most(transfer->done + STEPPED_STEP, all), packet->breaks_at);

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

bool stepped_can_move(const struct stepped *hand, uint32_t handle)
{
    const struct stepped_transfer *transfer = &hand->transfers[handle];

    if (hand->is_lost)
        return false;
    return transfer->is_moving ? transfer->packet.kind == STEPPED_RENDEZVOUS
                               : transfer->owes_fin;
}

bool stepped_move(struct stepped *hand, uint32_t handle)
{
    struct stepped_transfer *transfer = &hand->transfers[handle];

    if (!stepped_can_move(hand, handle))
        return false;
    if (transfer->is_moving)
        move_piece(hand, transfer);
    else
        send_fin(hand, transfer);
    return true;
}

/* ---- arrivals ---- */

static struct stepped_packet *wire_first(struct stepped_wire *wire)
{
    return wire->count > 0 ? &wire->packets[wire->first] : NULL;
}

static void wire_pop(struct stepped_wire *wire)
{
    wire->first++;
    wire->count--;
}

static void emit_matched(struct stepped *hand, const struct stepped_transfer *transfer)
{
    const struct stepped_packet *packet = &transfer->packet;

    emit(
        hand,
        &(struct mbx_device_event){
            .type = MBX_DEVICE_MATCHED,
            .flags = (uint8_t)((transfer->is_moving ? 0 : MBX_DEVICE_WHOLE) |
                               (transfer->owes_fin ? MBX_DEVICE_WANTS_FIN : 0) |
                               (packet->kind == STEPPED_RENDEZVOUS ? MBX_DEVICE_BY_RNDV : 0)),
            .handle = handle_of(hand, transfer),
            .peer = transfer->peer,
            .envelope = packet->envelope,
            .size = packet->size,
            .data = packet->data,
            .done = at_most(transfer->done, hand->unit.entries[handle_of(hand, transfer)].size),
            .sender = packet->message,
            .address = (uintptr_t)packet->address,
        });
}

static void start_transfer(struct stepped *hand, struct tm_entry *entry, uint32_t peer,
                           const struct stepped_packet *packet)
{
    struct stepped_transfer *transfer = &hand->transfers[tm_handle(&hand->unit, entry)];

    *transfer = (struct stepped_transfer){
        .is_moving = packet->kind == STEPPED_RENDEZVOUS || packet->length < packet->size,
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
static struct stepped_transfer *find_transfer(struct stepped *hand, uint32_t peer,
                                              uint32_t message)
{
    for (uint32_t i = 0; i < hand->list; i++) {
        struct stepped_transfer *transfer = &hand->transfers[i];

        if (transfer->is_moving && transfer->peer == peer &&
            transfer->packet.message == message)
            return transfer;
    }
    return NULL;
}

/* False: no untagged buffer, the sender is held back. */
static bool pass(struct stepped *hand, uint32_t peer, const struct stepped_packet *packet,
                 enum mbx_device_event_type type)
{
    uint32_t buffer;

    if (hand->empty_count == 0)
        return false;
    buffer = hand->empty[hand->empty_first];
    hand->empty_first = (hand->empty_first + 1) % STEPPED_BUFFERS;
    hand->empty_count--;
    memcpy(hand->memory[buffer], packet, sizeof *packet);
    emit(hand,
         &(struct mbx_device_event){
             .type = (uint8_t)type, .buffer = buffer, .peer = peer, .bytes = sizeof *packet});
    return true;
}

static bool arrive_fragment(struct stepped *hand, uint32_t peer,
                            const struct stepped_packet *packet)
{
    struct stepped_transfer *transfer = find_transfer(hand, peer, packet->message);

    if (transfer == NULL)
        return pass(hand, peer, packet, MBX_DEVICE_PASSED);
    copy_in(entry_of(hand, transfer), packet->offset, packet->bytes, packet->length);
    transfer->done += packet->length;
    if (transfer->done == packet->size)
        end_move(hand, transfer, MBX_DEVICE_DATA_VALID);
    return true;
}

static bool arrive_tagged(struct stepped *hand, uint32_t peer,
                          const struct stepped_packet *packet)
{
    struct tm_entry *entry = tm_match(&hand->unit, &packet->envelope);

    if (entry == NULL && !pass(hand, peer, packet, MBX_DEVICE_UNEXPECTED))
        return false;
    if (hand->on_arrival != NULL)
        hand->on_arrival(hand->arg, peer, packet->message);
    if (entry == NULL)
        tm_found(&hand->unit);
    else
        start_transfer(hand, entry, peer, packet);
    return true;
}

bool stepped_arrive(struct stepped *hand, uint32_t peer)
{
    const struct stepped_packet *packet = wire_first(&hand->wires[peer]);
    bool is_taken = false;

    if (packet == NULL || hand->is_lost || !hand->is_configured)
        return false;
    switch ((enum stepped_kind)packet->kind) {
    case STEPPED_EAGER:
    case STEPPED_RENDEZVOUS:
        is_taken = arrive_tagged(hand, peer, packet);
        break;
    case STEPPED_FRAGMENT:
        is_taken = arrive_fragment(hand, peer, packet);
        break;
    case STEPPED_OTHER:
        is_taken = pass(hand, peer, packet, MBX_DEVICE_PASSED);
        break;
    }
    if (is_taken)
        wire_pop(&hand->wires[peer]);
    return is_taken;
}

/* ---- peers ---- */

void stepped_send(struct stepped *hand, uint32_t peer, const struct stepped_packet *packet)
{
    struct stepped_wire *wire = &hand->wires[peer];

    if (wire->count == 0)
        wire->first = 0;
    if (wire->first + wire->count == wire->room) {
        wire->room = wire->room == 0 ? 64 : 2 * wire->room;
        wire->packets = mem_realloc(wire->packets, wire->room * sizeof *wire->packets);
        assert(wire->packets != NULL);
    }
    wire->packets[wire->first + wire->count++] = *packet;
}

void stepped_send_message(struct stepped *hand, uint32_t peer,
                          const struct stepped_packet *first, const unsigned char *bytes)
{
    struct stepped_packet packet = *first;

    if (packet.kind == STEPPED_RENDEZVOUS) {
        packet.address = bytes;
        stepped_send(hand, peer, &packet);
        return;
    }
    do {
        packet.length = (uint32_t)at_most(packet.size - packet.offset, STEPPED_INLINE);
        if (packet.length > 0)
            memcpy(packet.bytes, bytes + packet.offset, packet.length);
        stepped_send(hand, peer, &packet);
        packet.offset += packet.length;
        packet.kind = STEPPED_FRAGMENT;
    } while (packet.offset < packet.size);
}

bool stepped_take_packet(struct stepped *hand, uint32_t peer, struct stepped_packet *packet)
{
    const struct stepped_packet *first = wire_first(&hand->wires[peer]);

    if (first == NULL)
        return false;
    *packet = *first;
    wire_pop(&hand->wires[peer]);
    return true;
}

/* ---- all of it ---- */

static bool run_once(struct stepped *hand)
{
    bool moved = stepped_command(hand);

    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
        moved |= stepped_arrive(hand, i);
    for (uint32_t i = 0; i < hand->list; i++)
        moved |= stepped_move(hand, i);
    return moved;
}

void stepped_run(struct stepped *hand)
{
    while (run_once(hand))
        ;
}

void stepped_lose(struct stepped *hand)
{
    if (hand->is_lost)
        return;
    emit_for(hand, MBX_DEVICE_LOST, 0, 0);
    hand->is_lost = true;
}

/* ---- open and close ---- */

static void limits(const struct mbx_device *device, struct mbx_device_limits *has)
{
    *has = container_of(device, const struct stepped, device)->config.limits;
}

static int configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                     uint32_t untagged)
{
    struct stepped *hand = stepped_of(device);
    const struct mbx_device_limits *most = &hand->config.limits;
    int err;

    if (list > most->list || commands > most->commands || untagged > most->untagged)
        return -EINVAL;
    err = tm_init(&hand->unit, &(struct tm_config){.list = list,
                                                   .counter_bits = hand->config.counter_bits,
                                                   .emit = emit,
                                                   .arg = hand});
    if (err != 0)
        return err;
    hand->is_configured = true;
    hand->list = list;
    hand->commands = commands;
    hand->untagged = untagged;
    hand->events_max = tm_events(list, untagged);
    return 0;
}

static void close_device(struct mbx_device *device)
{
    struct stepped *hand = stepped_of(device);

    if (hand->is_configured)
        tm_fini(&hand->unit);
    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
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
    .list = STEPPED_LIST,
    .commands = STEPPED_COMMANDS,
    .untagged = STEPPED_BUFFERS,
    .context_bits = 32,
    .source_bits = 32,
    .tag_bits = 64,
    .untagged_size = sizeof(struct stepped_packet),
    .eager_max = STEPPED_EAGER_MAX,
    .caps = MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_RENDEZVOUS |
            MBX_DEVICE_TRUNCATES | MBX_DEVICE_HOLDS,
};

void stepped_init(struct stepped *hand, const struct stepped_config *config)
{
    memset(hand, 0, offsetof(struct stepped, queue));
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

void stepped_fini(struct stepped *hand)
{
    close_device(&hand->device);
}

/* ---- what must hold ---- */

static bool transfers_are_valid(const struct stepped *hand)
{
    for (uint32_t i = 0; i < hand->list; i++)
        if ((hand->transfers[i].is_moving || hand->transfers[i].owes_fin) !=
            (hand->unit.entries[i].state == TM_MATCHED))
            return false;
    return true;
}

bool stepped_is_valid(const struct stepped *hand)
{
    return !hand->has_overflowed && !hand->was_misused &&
           hand->commands_waiting <= hand->commands && hand->syncs_waiting <= 1 &&
           hand->events_count <= hand->events_max && transfers_are_valid(hand) &&
           tm_is_valid(&hand->unit);
}

bool stepped_is_idle(const struct stepped *hand)
{
    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
        if (hand->wires[i].count > 0)
            return false;
    for (uint32_t i = 0; i < hand->list; i++)
        if (hand->unit.entries[i].state != TM_FREE)
            return false;
    return hand->queue_count == 0 && hand->events_count == 0 &&
           hand->empty_count == hand->untagged;
}
