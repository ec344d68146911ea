/* SPDX-License-Identifier: BSD-3-Clause */
#include "softdev/agent.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/memory.h"
#include "wire/wire.h"

/* Commands that one run performs before what has arrived gets its turn. */
#define RUN_COMMANDS 64

/* Where data that is not the application's own memory is read to first. */
#define BOUNCE_SIZE (UINT64_C(256) << 10)

/* ---- events ---- */

/* There is room: see region_event_cells().  If there is not, software did not keep the rules
 * of handles and buffers. */
static struct port_event *event_room(struct port *port)
{
    struct port_event *event = ring_reserve(&port->events, sizeof *event);

    if (event == NULL && !port->is_broken) {
        LOG_ERROR("device: no room for an event: software uses more than it has configured");
        port->is_broken = true;
    }
    return event;
}

static void event_write(struct port *port, struct port_event *event)
{
    ring_publish(&port->events, event, sizeof *event);
}

static void on_emit(void *arg, const struct mbx_device_event *event)
{
    struct port *port = arg;
    struct port_event *room = event_room(port);

    if (room == NULL)
        return;
    room->type = PORT_EVENT;
    room->event = *event;
    room->event.mark = port->begun;
    event_write(port, room);
}

static void emit(struct port *port, enum mbx_device_event_type type,
                 const struct soft_entry *entry, uint64_t done, int error)
{
    on_emit(port, &(struct mbx_device_event){.type = (uint8_t)type,
                                             .handle = soft_handle(&port->soft, entry),
                                             .done = done,
                                             .error = error});
}

/* ---- what an entry has met ---- */

static struct port_move *move_of(struct port *port, const struct soft_entry *entry)
{
    return &port->moves[soft_handle(&port->soft, entry)];
}

static struct soft_entry *entry_of(struct port *port, const struct port_move *move)
{
    return &port->soft.entries[move - port->moves];
}

static struct link *link_of(struct port *port, uint32_t peer)
{
    return port->config.link(port->config.arg, peer);
}

static int write_to(struct port *port, uint64_t to, const void *from, size_t size)
{
    if (size == 0)
        return 0;
    if (!port->config.memory.is_ours)
        return port->config.memory.write(port->config.memory.arg, to, from, size);
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

/* Nothing more is to be done for entry. */
static void move_end(struct port *port, struct soft_entry *entry)
{
    soft_release(&port->soft, entry);
}

/* 0; -EAGAIN; another error: the sender is gone. */
static int send_fin(struct port *port, const struct port_move *move)
{
    const struct wire_header header = {.what = wire_what(WIRE_FIN)};
    const struct wire_fin fin = {.sender = move->sender};
    struct link *link = link_of(port, move->peer);

    return link == NULL
               ? -ENOTCONN
               : link->transport->ops->send(
                     link, &(struct transport_packet){
                               .header = &header, .body = &fin, .body_size = sizeof fin});
}

/* The data is in the buffer: tells the sender, if he waits.  False: later. */
static bool move_tell(struct port *port, struct port_move *move)
{
    struct soft_entry *entry = entry_of(port, move);

    if ((move->flags & MBX_DEVICE_WANTS_FIN) != 0) {
        if (send_fin(port, move) == -EAGAIN)
            return false;
        emit(port, MBX_DEVICE_FIN_SENT, entry, 0, 0);
    }
    move_end(port, entry);
    return true;
}

/* All that fits is in the buffer, or that failed. */
static void move_done(struct port *port, struct port_move *move, int error)
{
    emit(port, MBX_DEVICE_DATA_VALID, entry_of(port, move), move->done, error);
    if (!move_tell(port, move))
        list_add_tail(&port->owing, &move->node);
}

/* Software has to go on. */
static void move_hand_back(struct port *port, struct port_move *move, int error)
{
    struct soft_entry *entry = entry_of(port, move);

    emit(port, MBX_DEVICE_INCOMPLETE, entry, move->done, error);
    move_end(port, entry);
}

/* ---- rendezvous ---- */

/* Reads a chunk.  As transport_read(). */
static int read_chunk(struct port *port, struct port_move *move)
{
    struct soft_entry *entry = entry_of(port, move);
    struct link *link = link_of(port, move->peer);
    bool is_ours = port->config.memory.is_ours;
    uint64_t to = entry->buf + move->done;
    size_t size = min_size(is_ours ? port->config.region->read_chunk : BOUNCE_SIZE,
                           move->total - move->done);
    int err;

    if (link == NULL)
        return -ENOTCONN;
    move->chunk = size;
    port->reading++; /* the transport may tell before it returns */
    err = transport_read(link, is_ours ? (void *)(uintptr_t)to : port->bounce,
                         move->address + move->done, move->key, size, move);
    if (err != -EINPROGRESS)
        port->reading--;
    if (err == 0 && !is_ours)
        err = write_to(port, to, port->bounce, size);
    if (err == 0)
        move->done += size;
    return err;
}

/* One step of it; it is on moving again if there are more. */
static void move_step(struct port *port, struct port_move *move)
{
    int err = move->done < move->total ? read_chunk(port, move) : 0;

    if (err == -EINPROGRESS)
        return; /* port_read_done() tells */
    if (err != 0 && err != -EAGAIN)
        move_hand_back(port, move, err);
    else if (move->done == move->total)
        move_done(port, move, 0);
    else
        list_add_tail(&port->moving, &move->node);
}

bool port_owns(const struct port *port, const void *cookie)
{
    return (uintptr_t)cookie >= (uintptr_t)port->moves &&
           (uintptr_t)cookie < (uintptr_t)(port->moves + port->config.region->list);
}

void port_read_done(struct port *port, void *cookie, int error)
{
    struct port_move *move = cookie;

    port->reading--;
    if (error < 0) {
        move_hand_back(port, move, error);
        return;
    }
    move->done += move->chunk;
    list_add_tail(&port->moving, &move->node);
}

/* ---- arrivals that match ---- */

static void matched(struct port *port, const struct soft_entry *entry,
                    const struct mbx_device_envelope *envelope, uint64_t size, uint64_t data,
                    const struct port_move *move)
{
    on_emit(port, &(struct mbx_device_event){
                      .type = MBX_DEVICE_MATCHED,
                      .flags = move->flags,
                      .handle = soft_handle(&port->soft, entry),
                      .envelope = *envelope,
                      .size = size,
                      .data = data,
                      .done = move->done,
                      .sender = move->sender,
                      .address = move->address,
                      .key = move->key,
                  });
}

/* What follows in fragments belongs to entry. */
static void assembly_begin(struct port *port, uint32_t peer, struct soft_entry *entry,
                           uint64_t size, uint64_t offset)
{
    port->assemblies[peer] =
        (struct port_assembly){.entry = entry, .size = size, .offset = offset};
    port->assembling++;
}

/* All of it has come, or no more will. */
static void assembly_end(struct port *port, struct port_assembly *assembly, int error)
{
    struct port_move *move = move_of(port, assembly->entry);

    *assembly = (struct port_assembly){.entry = NULL};
    port->assembling--;
    move_done(port, move, error);
}

static uint64_t size_of(const struct wire_packet *packet)
{
    if (packet->header.type == WIRE_RTS)
        return packet->body.rts.size;
    return packet->header.type == WIRE_FIRST ? packet->body.first.size : packet->payload_size;
}

static struct port_move move_for(const struct soft_entry *entry, uint32_t peer,
                                 const struct wire_packet *packet)
{
    struct port_move move = {.peer = peer, .total = min_size(entry->size, size_of(packet))};

    if (packet->header.type == WIRE_SYNC)
        move.sender = packet->body.sync.sender;
    if (packet->header.type == WIRE_FIRST)
        move.sender = packet->body.first.sender;
    if (packet->header.type == WIRE_RTS) {
        move.flags = MBX_DEVICE_BY_RNDV;
        move.sender = packet->body.rts.sender;
        move.address = packet->body.rts.address;
        move.key = packet->body.rts.key;
    }
    if (move.sender != 0)
        move.flags |= MBX_DEVICE_WANTS_FIN;
    if (packet->header.type == WIRE_EAGER || packet->header.type == WIRE_SYNC)
        move.flags |= MBX_DEVICE_WHOLE;
    return move;
}

/* entry has met the message that begins with this packet.  Data first: P1. */
static void meet(struct port *port, struct soft_entry *entry, uint32_t peer,
                 const struct mbx_device_envelope *envelope, const struct wire_packet *packet)
{
    struct port_move *move = move_of(port, entry);
    int err;

    *move = move_for(entry, peer, packet);
    move->done = min_size(move->total, packet->payload_size);
    err = write_to(port, entry->buf, packet->payload, move->done);
    if (err != 0)
        move->flags &= (uint8_t)~MBX_DEVICE_WHOLE; /* so that it can be told */
    matched(port, entry, envelope, size_of(packet), packet->header.data, move);
    if (err != 0)
        move_done(port, move, err);
    else if (packet->header.type == WIRE_FIRST)
        assembly_begin(port, peer, entry, size_of(packet), packet->payload_size);
    else if (packet->header.type == WIRE_RTS && move->done < move->total && move->address == 0)
        move_hand_back(port, move, -ENOTSUP);
    else if (packet->header.type == WIRE_RTS)
        move_step(port, move);
    else if (!move_tell(port, move))
        list_add_tail(&port->owing, &move->node);
}

/* A fragment of a message whose receive is ours. */
static void assembly_more(struct port *port, struct port_assembly *assembly,
                          const struct wire_packet *packet)
{
    struct soft_entry *entry = assembly->entry;
    struct port_move *move = move_of(port, entry);
    size_t size = packet->payload_size;
    int err = 0;

    if (assembly->offset < move->total) {
        size_t fits = min_size(size, move->total - assembly->offset);

        err = write_to(port, entry->buf + assembly->offset, packet->payload, fits);
        move->done += fits;
    }
    assembly->offset += size;
    if (assembly->offset < assembly->size && err == 0)
        return;
    assembly_end(port, assembly, err);
}

/* ---- arrivals that do not ---- */

/* Gives the packet to software.  0; -EAGAIN no untagged buffer. */
static int pass(struct port *port, enum mbx_device_event_type type, uint32_t peer,
                const void *packet, size_t size)
{
    struct port_buffer *buffer;

    if (port->buffer_count == 0)
        return -EAGAIN;
    buffer = &port->buffers[port->buffer_count - 1];
    if (write_to(port, buffer->address, packet, size) != 0)
        return -EAGAIN; /* the application is gone, or this buffer is: nothing is lost here */
    port->buffer_count--;
    on_emit(port,
            &(struct mbx_device_event){
                .type = (uint8_t)type, .buffer = buffer->number, .peer = peer, .bytes = size});
    return 0;
}

static bool is_tagged(const struct wire_packet *packet)
{
    switch ((enum wire_type)packet->header.type) {
    case WIRE_EAGER:
    case WIRE_SYNC:
    case WIRE_RTS:
        return true;
    case WIRE_FIRST:
        return packet->body.first.size <= WIRE_EAGER_MAX;
    case WIRE_MORE:
    case WIRE_CTS:
    case WIRE_DATA:
    case WIRE_FIN:
    case WIRE_CREDIT:
    case WIRE_HOLD:
    case WIRE_RTR:
    case WIRE_CLAIM:
    case WIRE_GRANT:
    case WIRE_RETIRE:
    case WIRE_PEEK:
    case WIRE_PEEKED:
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_ATOMIC:
    case WIRE_ANSWER:
    case WIRE_PUSH:
    case WIRE_EARLY:
    case WIRE_WRITE:
    case WIRE_WRITTEN:
    case WIRE_SHARE:
    case WIRE_TYPES:
        break;
    }
    return false;
}

static int assemblies_grow(struct port *port, uint32_t peer)
{
    uint32_t count = port->assembly_count == 0 ? 16 : port->assembly_count;
    struct port_assembly *assemblies;

    while (count <= peer)
        count *= 2;
    assemblies = mem_realloc(port->assemblies, count * sizeof *assemblies);
    if (assemblies == NULL)
        return -EAGAIN;
    memset(assemblies + port->assembly_count, 0,
           (count - port->assembly_count) * sizeof *assemblies);
    port->assemblies = assemblies;
    port->assembly_count = count;
    return 0;
}

static int tagged(struct port *port, uint32_t peer, const struct wire_packet *packet,
                  const void *bytes, size_t size)
{
    const struct mbx_device_envelope envelope = {packet->header.context_id, peer,
                                                 packet->header.tag};
    struct soft_entry *entry = soft_match(&port->soft, &envelope);
    int err;

    if (entry != NULL) {
        meet(port, entry, peer, &envelope, packet);
        return 0;
    }
    err = pass(port, MBX_DEVICE_UNEXPECTED, peer, bytes, size);
    if (err == 0)
        soft_found(&port->soft);
    return err;
}

void port_begin(struct port *port)
{
    /* release: whoever sees this number sees the events of the packets before */
    atomic_store_explicit(&port->config.region->begun, ++port->begun, memory_order_release);
}

int port_deliver(struct port *port, uint32_t peer, const void *bytes, size_t size)
{
    struct port_assembly *assembly;
    struct wire_packet packet;
    const char *reason;

    if (unlikely(port->is_broken))
        return -EAGAIN;
    if (unlikely(peer >= port->assembly_count) && assemblies_grow(port, peer) < 0)
        return -EAGAIN;
    /* what makes no sense is for software to refuse */
    if (unlikely(wire_check(bytes, size, &packet, &reason) < 0))
        return pass(port, MBX_DEVICE_PASSED, peer, bytes, size);
    assembly = &port->assemblies[peer];
    if (assembly->entry != NULL && packet.header.type == WIRE_MORE &&
        packet.body.more.offset == assembly->offset &&
        packet.payload_size <= assembly->size - assembly->offset) {
        assembly_more(port, assembly, &packet);
        return 0;
    }
    if (is_tagged(&packet) && !(assembly->entry != NULL && packet.header.type == WIRE_FIRST))
        return tagged(port, peer, &packet, bytes, size);
    return pass(port, MBX_DEVICE_PASSED, peer, bytes, size);
}

/* ---- commands ---- */

static int command_buffer(struct port *port, uint32_t number, uint64_t address)
{
    if (number >= port->config.region->untagged ||
        port->buffer_count == port->config.region->untagged)
        return -EPROTO;
    port->buffers[port->buffer_count++] =
        (struct port_buffer){.number = number, .address = address};
    return 0;
}

static int command(struct port *port, const struct port_command *command)
{
    switch ((enum port_command_type)command->type) {
    case PORT_SOFT:
        return soft_command(&port->soft, &command->soft);
    case PORT_BUFFER:
        return command_buffer(port, command->number, command->address);
    case PORT_PEER:
    case PORT_REFUSE:
        if (port->config.answer == NULL)
            return -EPROTO;
        port->config.answer(port->config.arg, command->question,
                            command->type == PORT_REFUSE ? command->error : 0, command->number);
        return 0;
    }
    return -EPROTO;
}

static int run_commands(struct port *port)
{
    int count = 0;

    while (count < RUN_COMMANDS && !port->is_broken) {
        struct port_command copy;
        uint32_t size;
        const void *record = ring_peek(&port->commands, &size);

        if (record == NULL)
            break;
        memcpy(&copy, record, min_size(size, sizeof copy));
        ring_release(&port->commands);
        if (size != sizeof copy || command(port, &copy) < 0) {
            LOG_ERROR("device: a command of %u bytes that makes no sense, type %u", size,
                      copy.type);
            port->is_broken = true;
        }
        count++;
    }
    if (count != 0) {
        ring_consumer_flush(&port->commands);
        port->performed += (uint64_t)count;
        atomic_store_explicit(&port->config.region->performed, port->performed,
                              memory_order_relaxed);
    }
    return count;
}

/* ---- what is under way ---- */

static int run_moves(struct port *port)
{
    struct list now;
    int count = 0;

    list_init(&now);
    list_splice_tail(&now, &port->moving);
    for (struct list *node; (node = list_pop_head(&now)) != NULL; count++)
        move_step(port, container_of(node, struct port_move, node));
    list_splice_tail(&now, &port->owing);
    for (struct list *node; (node = list_pop_head(&now)) != NULL;) {
        struct port_move *move = container_of(node, struct port_move, node);

        if (move_tell(port, move))
            count++;
        else
            list_add_tail(&port->owing, &move->node);
    }
    return count;
}

/* Is the sender gone, for the second time? */
static bool is_given_up(struct port *port, uint32_t peer)
{
    struct port_assembly *assembly = &port->assemblies[peer];
    struct link *link = link_of(port, peer);
    bool was_doubted = assembly->is_doubted;

    assembly->is_doubted = link == NULL || link->transport->ops->check(link) != 0;
    return was_doubted && assembly->is_doubted;
}

/* Looks at those who owe fragments, if it is time.  How many were given up. */
static int run_looks(struct port *port)
{
    uint64_t now_ns = clock_now();
    int count = 0;

    if (now_ns - port->looked_ns < port->config.region->look_ns)
        return 0;
    port->looked_ns = now_ns;
    for (uint32_t peer = 0; peer < port->assembly_count; peer++)
        if (port->assemblies[peer].entry != NULL && is_given_up(port, peer)) {
            assembly_end(port, &port->assemblies[peer], -ENOTCONN);
            count++;
        }
    return count;
}

int port_run(struct port *port)
{
    int count = run_commands(port);

    if (port->is_broken)
        return count; /* it begins nothing any more: software does, when it is told LOST */
    if (!list_is_empty(&port->moving) || !list_is_empty(&port->owing))
        count += run_moves(port);
    if (unlikely(port->assembling != 0))
        count += run_looks(port);
    return count;
}

bool port_is_idle(const struct port *port)
{
    return list_is_empty(&port->moving) && ring_is_empty(&port->commands);
}

bool port_leave(struct port *port)
{
    struct port_event *event;

    if (!port_is_idle(port) || !list_is_empty(&port->owing))
        return false;
    event = event_room(port);
    if (event == NULL)
        return false;
    event->type = PORT_LEFT;
    event_write(port, event);
    return true;
}

bool port_ask(struct port *port, uint32_t question, const struct transport_address *address)
{
    struct port_event *event = event_room(port);

    if (event == NULL)
        return false;
    event->type = PORT_ASK;
    event->question = question;
    event->address = *address;
    event_write(port, event);
    return true;
}

/* ---- beginning and end ---- */

static int check_region(const struct region *region)
{
    return region->list != 0 && region->untagged != 0 &&
                   region->command_cells ==
                       region_command_cells(region->list, region->untagged) &&
                   region->event_cells == region_event_cells(region->list, region->untagged) &&
                   region->command_cells != 0 && region->event_cells != 0 &&
                   region->read_chunk != 0
               ? 0
               : -EINVAL;
}

static int allocate(struct port *port, const struct region *region)
{
    port->moves = mem_calloc(region->list, sizeof *port->moves);
    port->buffers = mem_calloc(region->untagged, sizeof *port->buffers);
    if (!port->config.memory.is_ours)
        port->bounce = mem_alloc(BOUNCE_SIZE);
    return port->moves != NULL && port->buffers != NULL &&
                   (port->config.memory.is_ours || port->bounce != NULL)
               ? 0
               : -ENOMEM;
}

int port_init(struct port *port, const struct port_config *config)
{
    struct region *region = config->region;
    const struct soft_config soft = {
        .list = region->list,
        .seed = region->seed,
        .emit = on_emit,
        .arg = port,
    };
    int err = check_region(region);

    *port = (struct port){.config = *config};
    list_init(&port->moving);
    list_init(&port->owing);
    if (err == 0)
        err = allocate(port, region);
    if (err == 0)
        err = soft_init(&port->soft, &soft);
    if (err != 0) {
        mem_free(port->moves);
        mem_free(port->buffers);
        mem_free(port->bounce);
        return err;
    }
    ring_consumer_init(&port->commands, region_commands(region), region->command_cells);
    ring_producer_init(&port->events, region_events(region), region->event_cells);
    return 0;
}

void port_fini(struct port *port)
{
    soft_fini(&port->soft);
    mem_free(port->moves);
    mem_free(port->buffers);
    mem_free(port->bounce);
    mem_free(port->assemblies);
}
