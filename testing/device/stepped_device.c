/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/stepped_device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define QUEUE_CAPACITY (STEPPED_COMMANDS + STEPPED_BUFFERS)

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
    struct stepped *stepped = arg;

    if (stepped->events_count >= stepped->events_max ||
        stepped->events_count >= STEPPED_EVENTS) {
        stepped->has_overflowed = true;
        return;
    }
    stepped->events[(stepped->events_first + stepped->events_count++) % STEPPED_EVENTS] =
        *event;
}

static void emit_for(struct stepped *stepped, enum mbx_device_event_type type, uint32_t handle,
                     uint64_t done)
{
    emit(stepped,
         &(struct mbx_device_event){.type = (uint8_t)type, .handle = handle, .done = done});
}

static int poll_events(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct stepped *stepped = stepped_of(device);
    int n = 0;

    for (; n < count && stepped->events_count > 0 && stepped->shows > 0; n++) {
        stepped->shows -= stepped->shows != UINT32_MAX;
        events[n] = stepped->events[stepped->events_first];
        stepped->events_first = (stepped->events_first + 1) % STEPPED_EVENTS;
        stepped->events_count--;
    }
    return n;
}

/* ---- commands ---- */

static void push(struct stepped *stepped, const struct stepped_queued *queued)
{
    assert(stepped->queue_count < QUEUE_CAPACITY);
    stepped->queue[(stepped->queue_first + stepped->queue_count++) % QUEUE_CAPACITY] = *queued;
}

static int command(struct mbx_device *device, const struct tm_command *wanted)
{
    struct stepped *stepped = stepped_of(device);

    if (stepped->is_lost)
        return -ENODEV;
    if (stepped->commands_waiting == stepped->commands)
        return -EAGAIN;
    stepped->commands_waiting++;
    push(stepped, &(struct stepped_queued){.command = *wanted});
    return 0;
}

static bool fits(uint64_t value, uint32_t bits)
{
    return bits >= 64 || value >> bits == 0;
}

/* May a caller that has read the limits hand this receive over? */
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
           (envelope->tag & ~recv->ignore & ~limits->tag_mask) == 0;
}

/* Does the device hold, or is it to get, a receive that shares memory with one of this size? */
static bool clashes(const struct stepped *stepped, uint64_t size)
{
    const uint32_t classes = stepped->config.clashes;

    if (classes == 0)
        return false;
    for (uint32_t i = 0; i < stepped->list; i++)
        if (stepped->unit.entries[i].state != TM_FREE &&
            stepped->unit.entries[i].size % classes == size % classes)
            return true;
    for (uint32_t i = 0; i < stepped->queue_count; i++) {
        const struct stepped_queued *queued =
            &stepped->queue[(stepped->queue_first + i) % QUEUE_CAPACITY];

        if (!queued->is_buffer && queued->command.type == TM_APPEND &&
            queued->command.size % classes == size % classes)
            return true;
    }
    return false;
}

static int append(struct mbx_device *device, const struct mbx_device_recv *recv,
                  uint16_t handled)
{
    stepped_of(device)->was_misused |= !is_within(&stepped_of(device)->config.limits, recv);
    if (recv->handle >= stepped_of(device)->list)
        return -ENOSPC;
    if (clashes(stepped_of(device), recv->size) && !stepped_of(device)->is_lost)
        return -EBUSY;
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

static int sync_counts(struct mbx_device *device, uint16_t handled)
{
    struct stepped *stepped = stepped_of(device);
    int err;

    if (stepped->syncs_waiting > 0 && !stepped->is_lost)
        return -EAGAIN;
    err = command(device, &(struct tm_command){.type = TM_SYNC, .handled = handled});
    stepped->syncs_waiting += err == 0;
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
    struct stepped *stepped = stepped_of(device);

    if (stepped->is_lost || stepped->buffers_waiting == stepped->untagged)
        return stepped->is_lost ? -ENODEV : -EAGAIN;
    assert(buffer < stepped->untagged);
    stepped->buffers_waiting++;
    push(stepped,
         &(struct stepped_queued){.is_buffer = true,
                                  .command = {.handle = buffer, .buf = (uintptr_t)memory}});
    return 0;
}

static void take_buffer(struct stepped *stepped, const struct tm_command *buffer)
{
    stepped->buffers_waiting--;
    stepped->memory[buffer->handle] = (void *)(uintptr_t)buffer->buf;
    stepped->empty[(stepped->empty_first + stepped->empty_count++) % STEPPED_BUFFERS] =
        buffer->handle;
}

bool stepped_command(struct stepped *stepped)
{
    const struct stepped_queued *queued = &stepped->queue[stepped->queue_first];

    if (stepped->queue_count == 0 || stepped->is_lost)
        return false;
    stepped->queue_first = (stepped->queue_first + 1) % QUEUE_CAPACITY;
    stepped->queue_count--;
    if (queued->is_buffer) {
        take_buffer(stepped, &queued->command);
        return true;
    }
    stepped->commands_waiting--;
    stepped->syncs_waiting -= queued->command.type == TM_SYNC;
    if (tm_command(&stepped->unit, &queued->command) < 0)
        stepped->was_misused = true;
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

static struct tm_entry *entry_of(struct stepped *stepped,
                                 const struct stepped_transfer *transfer)
{
    return &stepped->unit.entries[transfer - stepped->transfers];
}

static uint32_t handle_of(const struct stepped *stepped,
                          const struct stepped_transfer *transfer)
{
    return (uint32_t)(transfer - stepped->transfers);
}

/* Releases the entry once no data moves and no FIN is owed. */
static void settle(struct stepped *stepped, struct stepped_transfer *transfer)
{
    if (!transfer->is_moving && !transfer->owes_fin)
        tm_release(&stepped->unit, entry_of(stepped, transfer));
}

static void end_move(struct stepped *stepped, struct stepped_transfer *transfer,
                     enum mbx_device_event_type type)
{
    transfer->is_moving = false;
    emit_for(stepped, type, handle_of(stepped, transfer),
             at_most(transfer->done, entry_of(stepped, transfer)->size));
    settle(stepped, transfer);
}

static void send_fin(struct stepped *stepped, struct stepped_transfer *transfer)
{
    transfer->owes_fin = false;
    stepped->fins[transfer->peer]++;
    if (stepped->on_fin != NULL)
        stepped->on_fin(stepped->arg, transfer->peer, transfer->packet.message);
    emit_for(stepped, MBX_DEVICE_FIN_SENT, handle_of(stepped, transfer), 0);
    settle(stepped, transfer);
}

/* Reads a piece of the sender's memory. */
static void move_piece(struct stepped *stepped, struct stepped_transfer *transfer)
{
    const struct tm_entry *entry = entry_of(stepped, transfer);
    const struct stepped_packet *packet = &transfer->packet;
    uint64_t all = at_most(packet->size, entry->size);
    uint64_t end = at_most(at_most(transfer->done + STEPPED_STEP, all), packet->breaks_at);

    if (end > transfer->done) {
        copy_in(entry, transfer->done, packet->address + transfer->done, end - transfer->done);
        transfer->done = end;
    }
    if (transfer->done == all) {
        end_move(stepped, transfer, MBX_DEVICE_DATA_VALID);
    } else if (transfer->done >= packet->breaks_at) {
        transfer->owes_fin = false; /* software notifies the sender */
        end_move(stepped, transfer, MBX_DEVICE_INCOMPLETE);
    }
}

bool stepped_can_move(const struct stepped *stepped, uint32_t handle)
{
    const struct stepped_transfer *transfer = &stepped->transfers[handle];

    if (stepped->is_lost)
        return false;
    return transfer->is_moving ? transfer->packet.kind == STEPPED_RENDEZVOUS
                               : transfer->owes_fin;
}

bool stepped_move(struct stepped *stepped, uint32_t handle)
{
    struct stepped_transfer *transfer = &stepped->transfers[handle];

    if (!stepped_can_move(stepped, handle))
        return false;
    if (transfer->is_moving)
        move_piece(stepped, transfer);
    else
        send_fin(stepped, transfer);
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

static void emit_matched(struct stepped *stepped, const struct stepped_transfer *transfer)
{
    const struct stepped_packet *packet = &transfer->packet;

    emit(stepped,
         &(struct mbx_device_event){
             .type = MBX_DEVICE_MATCHED,
             .flags = (uint8_t)((transfer->is_moving ? 0 : MBX_DEVICE_WHOLE) |
                                (transfer->owes_fin ? MBX_DEVICE_WANTS_FIN : 0) |
                                (packet->kind == STEPPED_RENDEZVOUS ? MBX_DEVICE_BY_RNDV : 0)),
             .handle = handle_of(stepped, transfer),
             .peer = transfer->peer,
             .envelope = packet->envelope,
             .size = packet->size,
             .data = packet->data,
             .done = at_most(transfer->done,
                             stepped->unit.entries[handle_of(stepped, transfer)].size),
             .sender = packet->message,
             .address = (uintptr_t)packet->address,
         });
}

static void start_transfer(struct stepped *stepped, struct tm_entry *entry, uint32_t peer,
                           const struct stepped_packet *packet)
{
    struct stepped_transfer *transfer = &stepped->transfers[tm_handle(&stepped->unit, entry)];

    *transfer = (struct stepped_transfer){
        .is_moving = packet->kind == STEPPED_RENDEZVOUS || packet->length < packet->size,
        .owes_fin = packet->wants_fin,
        .packet = *packet,
        .peer = peer,
        .done = packet->length,
    };
    copy_in(entry, 0, packet->bytes, packet->length);
    emit_matched(stepped, transfer);
    settle(stepped, transfer);
}

/* The message whose first packet came earlier on this wire, if the device has it. */
static struct stepped_transfer *find_transfer(struct stepped *stepped, uint32_t peer,
                                              uint32_t message)
{
    for (uint32_t i = 0; i < stepped->list; i++) {
        struct stepped_transfer *transfer = &stepped->transfers[i];

        if (transfer->is_moving && transfer->peer == peer &&
            transfer->packet.message == message)
            return transfer;
    }
    return NULL;
}

/* False: there is no untagged buffer, and the sender is held back. */
static bool pass(struct stepped *stepped, uint32_t peer, const struct stepped_packet *packet,
                 enum mbx_device_event_type type)
{
    uint32_t buffer;

    if (stepped->empty_count == 0)
        return false;
    buffer = stepped->empty[stepped->empty_first];
    stepped->empty_first = (stepped->empty_first + 1) % STEPPED_BUFFERS;
    stepped->empty_count--;
    memcpy(stepped->memory[buffer], packet, sizeof *packet);
    emit(stepped,
         &(struct mbx_device_event){
             .type = (uint8_t)type, .buffer = buffer, .peer = peer, .bytes = sizeof *packet});
    return true;
}

static bool arrive_fragment(struct stepped *stepped, uint32_t peer,
                            const struct stepped_packet *packet)
{
    struct stepped_transfer *transfer = find_transfer(stepped, peer, packet->message);

    if (transfer == NULL)
        return pass(stepped, peer, packet, MBX_DEVICE_PASSED);
    copy_in(entry_of(stepped, transfer), packet->offset, packet->bytes, packet->length);
    transfer->done += packet->length;
    if (transfer->done == packet->size)
        end_move(stepped, transfer, MBX_DEVICE_DATA_VALID);
    return true;
}

static bool arrive_tagged(struct stepped *stepped, uint32_t peer,
                          const struct stepped_packet *packet)
{
    struct tm_entry *entry = tm_match(&stepped->unit, &packet->envelope);

    if (entry == NULL && !pass(stepped, peer, packet, MBX_DEVICE_UNEXPECTED))
        return false;
    if (stepped->on_arrival != NULL)
        stepped->on_arrival(stepped->arg, peer, packet->message);
    if (entry == NULL)
        tm_found(&stepped->unit);
    else
        start_transfer(stepped, entry, peer, packet);
    return true;
}

bool stepped_arrive(struct stepped *stepped, uint32_t peer)
{
    const struct stepped_packet *packet = wire_first(&stepped->wires[peer]);
    bool is_taken = false;

    if (packet == NULL || stepped->is_lost || !stepped->is_configured)
        return false;
    switch ((enum stepped_kind)packet->kind) {
    case STEPPED_EAGER:
    case STEPPED_RENDEZVOUS:
        is_taken = arrive_tagged(stepped, peer, packet);
        break;
    case STEPPED_FRAGMENT:
        is_taken = arrive_fragment(stepped, peer, packet);
        break;
    case STEPPED_OTHER:
        is_taken = pass(stepped, peer, packet, MBX_DEVICE_PASSED);
        break;
    }
    if (is_taken)
        wire_pop(&stepped->wires[peer]);
    return is_taken;
}

/* ---- peers ---- */

void stepped_send(struct stepped *stepped, uint32_t peer, const struct stepped_packet *packet)
{
    struct stepped_wire *wire = &stepped->wires[peer];

    if (wire->count == 0)
        wire->first = 0;
    if (wire->first + wire->count == wire->capacity) {
        wire->capacity = wire->capacity == 0 ? 64 : 2 * wire->capacity;
        wire->packets = mem_realloc(wire->packets, wire->capacity * sizeof *wire->packets);
        assert(wire->packets != NULL);
    }
    wire->packets[wire->first + wire->count++] = *packet;
}

void stepped_send_message(struct stepped *stepped, uint32_t peer,
                          const struct stepped_packet *first, const unsigned char *bytes)
{
    struct stepped_packet packet = *first;

    if (packet.kind == STEPPED_RENDEZVOUS) {
        packet.address = bytes;
        stepped_send(stepped, peer, &packet);
        return;
    }
    do {
        packet.length = (uint32_t)at_most(packet.size - packet.offset, STEPPED_INLINE);
        if (packet.length > 0)
            memcpy(packet.bytes, bytes + packet.offset, packet.length);
        stepped_send(stepped, peer, &packet);
        packet.offset += packet.length;
        packet.kind = STEPPED_FRAGMENT;
    } while (packet.offset < packet.size);
}

bool stepped_take_packet(struct stepped *stepped, uint32_t peer, struct stepped_packet *packet)
{
    const struct stepped_packet *first = wire_first(&stepped->wires[peer]);

    if (first == NULL)
        return false;
    *packet = *first;
    wire_pop(&stepped->wires[peer]);
    return true;
}

/* ---- the device ---- */

static bool run_once(struct stepped *stepped)
{
    bool moved = stepped_command(stepped);

    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
        moved |= stepped_arrive(stepped, i);
    for (uint32_t i = 0; i < stepped->list; i++)
        moved |= stepped_move(stepped, i);
    return moved;
}

void stepped_run(struct stepped *stepped)
{
    while (run_once(stepped))
        ;
}

void stepped_lose(struct stepped *stepped)
{
    if (stepped->is_lost)
        return;
    emit_for(stepped, MBX_DEVICE_LOST, 0, 0);
    stepped->is_lost = true;
}

/* ---- open and close ---- */

static void limits(const struct mbx_device *device, struct mbx_device_limits *has)
{
    *has = container_of(device, const struct stepped, device)->config.limits;
}

static int configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                     uint32_t untagged)
{
    struct stepped *stepped = stepped_of(device);
    const struct mbx_device_limits *most = &stepped->config.limits;
    int err;

    if (list > most->list || commands > most->commands || untagged > most->untagged)
        return -EINVAL;
    err = tm_init(&stepped->unit,
                  &(struct tm_config){.list = list,
                                      .counter_bits = stepped->config.counter_bits,
                                      .emit = emit,
                                      .arg = stepped});
    if (err != 0)
        return err;
    stepped->is_configured = true;
    stepped->list = list;
    stepped->commands = commands;
    stepped->untagged = untagged;
    stepped->events_max = tm_events(list, untagged);
    return 0;
}

static void close_device(struct mbx_device *device)
{
    struct stepped *stepped = stepped_of(device);

    if (stepped->is_configured)
        tm_fini(&stepped->unit);
    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
        mem_free(stepped->wires[i].packets);
}

static const struct mbx_device_ops ops = {
    .name = "stepped",
    .about = "the software device, worked by a test",
    .close = close_device,
    .limits = limits,
    .configure = configure,
    .replenish = replenish,
    .append = append,
    .revoke = revoke,
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
    .tag_mask = UINT64_MAX,
    .untagged_size = sizeof(struct stepped_packet),
    .eager_max = STEPPED_EAGER_MAX,
    .caps = MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_RENDEZVOUS |
            MBX_DEVICE_TRUNCATES | MBX_DEVICE_HOLDS | MBX_DEVICE_READS_PART,
};

void stepped_init(struct stepped *stepped, const struct stepped_config *config)
{
    memset(stepped, 0, offsetof(struct stepped, queue));
    stepped->device.ops = &ops;
    stepped->config = *config;
    stepped->shows = UINT32_MAX;
    if (stepped->config.limits.list == 0) {
        stepped->config.limits = all;
        if (config->caps != 0)
            stepped->config.limits.caps = config->caps;
        if (config->tag_mask != 0)
            stepped->config.limits.tag_mask = config->tag_mask;
    }
}

void stepped_fini(struct stepped *stepped)
{
    close_device(&stepped->device);
}

/* ---- invariants ---- */

static bool transfers_are_valid(const struct stepped *stepped)
{
    for (uint32_t i = 0; i < stepped->list; i++)
        if ((stepped->transfers[i].is_moving || stepped->transfers[i].owes_fin) !=
            (stepped->unit.entries[i].state == TM_MATCHED))
            return false;
    return true;
}

bool stepped_is_valid(const struct stepped *stepped)
{
    return !stepped->has_overflowed && !stepped->was_misused &&
           stepped->commands_waiting <= stepped->commands && stepped->syncs_waiting <= 1 &&
           stepped->events_count <= stepped->events_max && transfers_are_valid(stepped) &&
           tm_is_valid(&stepped->unit);
}

bool stepped_is_idle(const struct stepped *stepped)
{
    for (uint32_t i = 0; i < STEPPED_PEERS; i++)
        if (stepped->wires[i].count > 0)
            return false;
    for (uint32_t i = 0; i < stepped->list; i++)
        if (stepped->unit.entries[i].state != TM_FREE)
            return false;
    return stepped->queue_count == 0 && stepped->events_count == 0 &&
           stepped->empty_count == stepped->untagged;
}
