/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.c - see agent.h.
 */
#include "device/soft/agent.h"

#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/memory.h"
#include "wire/wire.h"

/* Commands that one run performs before packets get their turn. */
#define RUN_COMMANDS 64

/* Data for memory of another process is first read into this buffer. */
#define BOUNCE_SIZE (UINT64_C(256) << 10)

/* ---- events ---- */

/* The ring always has space: see channel_event_cells().  If it has none, software broke the
 * rules of handles and buffers. */
static struct channel_event *event_reserve(struct agent *agent)
{
    struct channel_event *event = ring_reserve(&agent->events, sizeof *event);

    if (event == NULL && !agent->is_broken) {
        LOG_ERROR("device: no space for an event: software uses more than it has configured");
        agent->is_broken = true;
    }
    return event;
}

static void event_write(struct agent *agent, struct channel_event *event)
{
    ring_publish(&agent->events, event, sizeof *event);
}

static void on_emit(void *arg, const struct mbx_device_event *event)
{
    struct agent *agent = arg;
    struct channel_event *cell = event_reserve(agent);

    if (cell == NULL)
        return;
    cell->type = CHANNEL_EVENT;
    cell->event = *event;
    cell->event.mark = agent->begun;
    event_write(agent, cell);
}

static void emit(struct agent *agent, enum mbx_device_event_type type,
                 const struct tm_entry *entry, uint64_t done, int error)
{
    on_emit(agent, &(struct mbx_device_event){.type = (uint8_t)type,
                                              .handle = tm_handle(&agent->unit, entry),
                                              .done = done,
                                              .error = error});
}

/* ---- data movement of an entry ---- */

static struct agent_move *move_of(struct agent *agent, const struct tm_entry *entry)
{
    return &agent->moves[tm_handle(&agent->unit, entry)];
}

static struct tm_entry *entry_of(struct agent *agent, const struct agent_move *move)
{
    return &agent->unit.entries[move - agent->moves];
}

static struct link *agent_link_of(struct agent *agent, uint32_t peer)
{
    return agent->config.link(agent->config.arg, peer);
}

static int write_to(struct agent *agent, uint64_t to, const void *from, size_t size)
{
    if (size == 0)
        return 0;
    if (!agent->config.memory.is_ours)
        return agent->config.memory.write(agent->config.memory.arg, to, from, size);
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

/* Nothing remains to be done for entry. */
static void move_end(struct agent *agent, struct tm_entry *entry)
{
    tm_release(&agent->unit, entry);
}

/* 0; -EAGAIN; any other error: the sender is gone. */
static int send_fin(struct agent *agent, const struct agent_move *move)
{
    const struct wire_header header = {.what = wire_what(WIRE_FIN)};
    const struct wire_fin fin = {.sender = move->sender};
    struct link *link = agent_link_of(agent, move->peer);

    return link == NULL
               ? -ENOTCONN
               : link->transport->ops->send(
                     link, &(struct transport_packet){
                               .header = &header, .body = &fin, .body_size = sizeof fin});
}

/* The data is in the buffer: sends the FIN, if the sender waits.  False: later. */
static bool move_notify(struct agent *agent, struct agent_move *move)
{
    struct tm_entry *entry = entry_of(agent, move);

    if ((move->flags & MBX_DEVICE_WANTS_FIN) != 0) {
        if (send_fin(agent, move) == -EAGAIN)
            return false;
        emit(agent, MBX_DEVICE_FIN_SENT, entry, 0, 0);
    }
    move_end(agent, entry);
    return true;
}

/* All data that fits is in the buffer, or moving it failed. */
static void move_done(struct agent *agent, struct agent_move *move, int error)
{
    emit(agent, MBX_DEVICE_DATA_VALID, entry_of(agent, move), move->done, error);
    if (!move_notify(agent, move))
        list_add_tail(&agent->owing, &move->node);
}

/* Software has to continue the message. */
static void move_hand_back(struct agent *agent, struct agent_move *move, int error)
{
    struct tm_entry *entry = entry_of(agent, move);

    emit(agent, MBX_DEVICE_INCOMPLETE, entry, move->done, error);
    move_end(agent, entry);
}

/* ---- rendezvous ---- */

/* Reads a chunk.  Returns what transport_read() returns. */
static int read_chunk(struct agent *agent, struct agent_move *move)
{
    struct tm_entry *entry = entry_of(agent, move);
    struct link *link = agent_link_of(agent, move->peer);
    bool is_ours = agent->config.memory.is_ours;
    uint64_t to = entry->buf + move->done;
    size_t size = min_size(is_ours ? agent->config.channel->read_chunk : BOUNCE_SIZE,
                           move->total - move->done);
    int err;

    if (link == NULL)
        return -ENOTCONN;
    move->chunk = size;
    agent->reading++; /* the read may end before the call returns */
    err = transport_read(link, is_ours ? (void *)(uintptr_t)to : agent->bounce,
                         move->address + move->done, move->key, size, move);
    if (err != -EINPROGRESS)
        agent->reading--;
    if (err == 0 && !is_ours)
        err = write_to(agent, to, agent->bounce, size);
    if (err == 0)
        move->done += size;
    return err;
}

/* Moves one chunk; puts the entry back on moving if there are more. */
static void move_step(struct agent *agent, struct agent_move *move)
{
    int err = move->done < move->total ? read_chunk(agent, move) : 0;

    if (err == -EINPROGRESS)
        return; /* agent_read_done() continues */
    if (err != 0 && err != -EAGAIN)
        move_hand_back(agent, move, err);
    else if (move->done == move->total)
        move_done(agent, move, 0);
    else
        list_add_tail(&agent->moving, &move->node);
}

bool agent_owns(const struct agent *agent, const void *cookie)
{
    return (uintptr_t)cookie >= (uintptr_t)agent->moves &&
           (uintptr_t)cookie < (uintptr_t)(agent->moves + agent->config.channel->list);
}

void agent_read_done(struct agent *agent, void *cookie, int error)
{
    struct agent_move *move = cookie;

    agent->reading--;
    if (error < 0) {
        move_hand_back(agent, move, error);
        return;
    }
    move->done += move->chunk;
    list_add_tail(&agent->moving, &move->node);
}

/* ---- messages that match ---- */

static uint64_t size_of(const struct wire_packet *packet)
{
    if (packet->header.type == WIRE_RTS)
        return packet->body.rts.size;
    return packet->header.type == WIRE_FIRST ? packet->body.first.size : packet->payload_size;
}

static void matched(struct agent *agent, const struct tm_entry *entry,
                    const struct mbx_device_envelope *envelope,
                    const struct wire_packet *packet, const struct agent_move *move)
{
    on_emit(agent, &(struct mbx_device_event){
                       .type = MBX_DEVICE_MATCHED,
                       .flags = move->flags,
                       .handle = tm_handle(&agent->unit, entry),
                       .envelope = *envelope,
                       .bytes = packet->payload_size,
                       .size = size_of(packet),
                       .data = packet->header.data,
                       .done = move->done,
                       .sender = move->sender,
                       .address = move->address,
                       .key = move->key,
                   });
}

/* The fragments that follow belong to entry. */
static void assembly_begin(struct agent *agent, uint32_t peer, struct tm_entry *entry,
                           uint64_t size, uint64_t offset)
{
    agent->assemblies[peer] =
        (struct agent_assembly){.entry = entry, .size = size, .offset = offset};
    agent->assembling++;
}

/* All data has come, or no more will. */
static void assembly_end(struct agent *agent, struct agent_assembly *assembly, int error)
{
    struct agent_move *move = move_of(agent, assembly->entry);

    *assembly = (struct agent_assembly){.entry = NULL};
    agent->assembling--;
    move_done(agent, move, error);
}

static struct agent_move move_for(const struct tm_entry *entry, uint32_t peer,
                                  const struct wire_packet *packet)
{
    struct agent_move move = {.peer = peer, .total = min_size(entry->size, size_of(packet))};

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
static void agent_meet(struct agent *agent, struct tm_entry *entry, uint32_t peer,
                       const struct mbx_device_envelope *envelope,
                       const struct wire_packet *packet)
{
    struct agent_move *move = move_of(agent, entry);
    int err;

    *move = move_for(entry, peer, packet);
    move->done = min_size(move->total, packet->payload_size);
    err = write_to(agent, entry->buf, packet->payload, move->done);
    if (err != 0)
        move->flags &= (uint8_t)~MBX_DEVICE_WHOLE; /* DATA_VALID carries the error */
    matched(agent, entry, envelope, packet, move);
    if (err != 0)
        move_done(agent, move, err);
    else if (packet->header.type == WIRE_FIRST)
        assembly_begin(agent, peer, entry, size_of(packet), packet->payload_size);
    else if (packet->header.type == WIRE_RTS && move->done < move->total && move->address == 0)
        move_hand_back(agent, move, -ENOTSUP);
    else if (packet->header.type == WIRE_RTS)
        move_step(agent, move);
    else if (!move_notify(agent, move))
        list_add_tail(&agent->owing, &move->node);
}

/* A fragment of a message whose receive the device holds. */
static void assembly_more(struct agent *agent, struct agent_assembly *assembly,
                          const struct wire_packet *packet)
{
    struct tm_entry *entry = assembly->entry;
    struct agent_move *move = move_of(agent, entry);
    size_t size = packet->payload_size;
    int err = 0;

    if (assembly->offset < move->total) {
        size_t fits = min_size(size, move->total - assembly->offset);

        err = write_to(agent, entry->buf + assembly->offset, packet->payload, fits);
        move->done += fits;
    }
    assembly->offset += size;
    if (assembly->offset < assembly->size && err == 0)
        return;
    assembly_end(agent, assembly, err);
}

/* ---- messages that do not match ---- */

/* Gives the packet to software.  0; -EAGAIN no untagged buffer. */
static int pass(struct agent *agent, enum mbx_device_event_type type, uint32_t peer,
                const void *packet, size_t size)
{
    struct agent_buffer *buffer;

    if (agent->buffer_count == 0)
        return -EAGAIN;
    buffer = &agent->buffers[agent->buffer_count - 1];
    if (write_to(agent, buffer->address, packet, size) != 0)
        return -EAGAIN; /* the application or its buffer is gone: the packet stays */
    agent->buffer_count--;
    on_emit(agent,
            &(struct mbx_device_event){
                .type = (uint8_t)type, .buffer = buffer->number, .peer = peer, .bytes = size});
    return 0;
}

static bool is_tagged(const struct wire_packet *packet)
{
    if (packet->header.flags & WIRE_IN_BUFFER)
        return false; /* no peer uses a bounce buffer for a message to a device */
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
    case WIRE_DEFER:
    case WIRE_RTR:
    case WIRE_CLAIM:
    case WIRE_RETIRE:
    case WIRE_PEEK:
    case WIRE_PEEKED:
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_ATOMIC:
    case WIRE_ANSWER:
    case WIRE_PUSH:
    case WIRE_ADVERTISE:
    case WIRE_WRITE:
    case WIRE_WRITTEN:
    case WIRE_SPLIT_COPY:
    case WIRE_WITHDRAW:
    case WIRE_TYPES:
        break;
    }
    return false;
}

static int tagged(struct agent *agent, uint32_t peer, const struct wire_packet *packet,
                  const void *bytes, size_t size)
{
    const struct mbx_device_envelope envelope = {packet->header.context_id, peer,
                                                 packet->header.tag};
    struct tm_entry *entry = tm_match(&agent->unit, &envelope);
    int err;

    if (entry != NULL) {
        agent_meet(agent, entry, peer, &envelope, packet);
        return 0;
    }
    err = pass(agent, MBX_DEVICE_UNEXPECTED, peer, bytes, size);
    if (err == 0)
        tm_found(&agent->unit);
    return err;
}

void agent_begin(struct agent *agent)
{
    /* release: a side that sees this number sees the events of the packets before it */
    atomic_store_explicit(&agent->config.channel->begun, ++agent->begun, memory_order_release);
}

int agent_deliver(struct agent *agent, uint32_t peer, const void *bytes, size_t size)
{
    struct agent_assembly *assembly;
    struct wire_packet packet;
    const char *reason;

    if (unlikely(agent->is_broken))
        return -EAGAIN;
    if (unlikely(peer >= agent->assembly_count) &&
        !array_reserve_zeroed(agent->assemblies, agent->assembly_count, (uint64_t)peer + 1))
        return -EAGAIN;
    /* software refuses a malformed packet */
    if (unlikely(wire_check(bytes, size, &packet, &reason) < 0))
        return pass(agent, MBX_DEVICE_PASSED, peer, bytes, size);
    assembly = &agent->assemblies[peer];
    if (assembly->entry != NULL && packet.header.type == WIRE_MORE &&
        !(packet.header.flags & WIRE_IN_BUFFER) &&
        packet.body.more.offset == assembly->offset &&
        packet.payload_size <= assembly->size - assembly->offset) {
        assembly_more(agent, assembly, &packet);
        return 0;
    }
    if (is_tagged(&packet) && !(assembly->entry != NULL && packet.header.type == WIRE_FIRST))
        return tagged(agent, peer, &packet, bytes, size);
    return pass(agent, MBX_DEVICE_PASSED, peer, bytes, size);
}

/* ---- commands ---- */

static int command_buffer(struct agent *agent, uint32_t number, uint64_t address)
{
    if (number >= agent->config.channel->untagged ||
        agent->buffer_count == agent->config.channel->untagged)
        return -EPROTO;
    agent->buffers[agent->buffer_count++] =
        (struct agent_buffer){.number = number, .address = address};
    return 0;
}

static int command(struct agent *agent, const struct channel_command *command)
{
    switch ((enum channel_command_type)command->type) {
    case CHANNEL_TM:
        return tm_command(&agent->unit, &command->unit);
    case CHANNEL_BUFFER:
        return command_buffer(agent, command->number, command->address);
    case CHANNEL_PEER:
    case CHANNEL_REFUSE:
        if (agent->config.answer == NULL)
            return -EPROTO;
        agent->config.answer(agent->config.arg, command->question,
                             command->type == CHANNEL_REFUSE ? command->error : 0,
                             command->number);
        return 0;
    }
    return -EPROTO;
}

static int run_commands(struct agent *agent)
{
    int count = 0;

    while (count < RUN_COMMANDS && !agent->is_broken) {
        struct channel_command copy;
        uint32_t size;
        const void *record = ring_peek(&agent->commands, &size);

        if (record == NULL)
            break;
        memcpy(&copy, record, min_size(size, sizeof copy));
        ring_release(&agent->commands);
        if (size != sizeof copy || command(agent, &copy) < 0) {
            LOG_ERROR("device: an invalid command of %u bytes, type %u; please report this",
                      size, copy.type);
            agent->is_broken = true;
        }
        count++;
    }
    if (count != 0) {
        ring_consumer_flush(&agent->commands);
        agent->performed += (uint64_t)count;
        atomic_store_explicit(&agent->config.channel->performed, agent->performed,
                              memory_order_relaxed);
    }
    return count;
}

/* ---- data movement ---- */

static int run_moves(struct agent *agent)
{
    struct list now;
    int count = 0;

    list_init(&now);
    list_splice_tail(&now, &agent->moving);
    for (struct list *node; (node = list_pop_head(&now)) != NULL; count++)
        move_step(agent, container_of(node, struct agent_move, node));
    list_splice_tail(&now, &agent->owing);
    for (struct list *node; (node = list_pop_head(&now)) != NULL;) {
        struct agent_move *move = container_of(node, struct agent_move, node);

        if (move_notify(agent, move))
            count++;
        else
            list_add_tail(&agent->owing, &move->node);
    }
    return count;
}

/* Is the sender gone at two checks in a row? */
static bool is_given_up(struct agent *agent, uint32_t peer)
{
    struct agent_assembly *assembly = &agent->assemblies[peer];
    struct link *link = agent_link_of(agent, peer);
    bool was_doubted = assembly->is_doubted;

    assembly->is_doubted = link == NULL || link->transport->ops->check(link) != 0;
    return was_doubted && assembly->is_doubted;
}

/* Checks the senders that owe fragments, if it is time.  Returns how many were given up. */
static int run_checks(struct agent *agent)
{
    uint64_t now_ns = clock_now();
    int count = 0;

    if (now_ns - agent->checked_ns < agent->config.channel->check_ns)
        return 0;
    agent->checked_ns = now_ns;
    for (uint32_t peer = 0; peer < agent->assembly_count; peer++)
        if (agent->assemblies[peer].entry != NULL && is_given_up(agent, peer)) {
            assembly_end(agent, &agent->assemblies[peer], -ENOTCONN);
            count++;
        }
    return count;
}

int agent_run(struct agent *agent)
{
    int count = run_commands(agent);

    if (agent->is_broken)
        return count; /* starts nothing new: software goes on after LOST */
    if (!list_is_empty(&agent->moving) || !list_is_empty(&agent->owing))
        count += run_moves(agent);
    if (unlikely(agent->assembling != 0))
        count += run_checks(agent);
    return count;
}

bool agent_is_idle(const struct agent *agent)
{
    return list_is_empty(&agent->moving) && ring_is_empty(&agent->commands);
}

bool agent_leave(struct agent *agent)
{
    struct channel_event *event;

    if (!agent_is_idle(agent) || !list_is_empty(&agent->owing))
        return false;
    event = event_reserve(agent);
    if (event == NULL)
        return false;
    event->type = CHANNEL_LEFT;
    event_write(agent, event);
    return true;
}

bool agent_ask(struct agent *agent, uint32_t question, const struct transport_address *address)
{
    struct channel_event *event = event_reserve(agent);

    if (event == NULL)
        return false;
    event->type = CHANNEL_ASK;
    event->question = question;
    event->address = *address;
    event_write(agent, event);
    return true;
}

/* ---- beginning and end ---- */

static int check_region(const struct channel *channel)
{
    return channel->list != 0 && channel->untagged != 0 &&
                   channel->command_cells ==
                       channel_command_cells(channel->commands, channel->untagged) &&
                   channel->event_cells ==
                       channel_event_cells(channel->list, channel->untagged) &&
                   channel->command_cells != 0 && channel->event_cells != 0 &&
                   channel->read_chunk != 0
               ? 0
               : -EINVAL;
}

static int allocate(struct agent *agent, const struct channel *channel)
{
    agent->moves = mem_calloc(channel->list, sizeof *agent->moves);
    agent->buffers = mem_calloc(channel->untagged, sizeof *agent->buffers);
    if (!agent->config.memory.is_ours)
        agent->bounce = mem_alloc(BOUNCE_SIZE);
    return agent->moves != NULL && agent->buffers != NULL &&
                   (agent->config.memory.is_ours || agent->bounce != NULL)
               ? 0
               : -ENOMEM;
}

int agent_init(struct agent *agent, const struct agent_config *config)
{
    struct channel *channel = config->channel;
    const struct tm_config unit = {
        .list = channel->list,
        .seed = channel->seed,
        .emit = on_emit,
        .arg = agent,
    };
    int err = check_region(channel);

    *agent = (struct agent){.config = *config};
    list_init(&agent->moving);
    list_init(&agent->owing);
    if (err == 0)
        err = allocate(agent, channel);
    if (err == 0)
        err = tm_init(&agent->unit, &unit);
    if (err != 0) {
        mem_free(agent->moves);
        mem_free(agent->buffers);
        mem_free(agent->bounce);
        return err;
    }
    ring_consumer_init(&agent->commands, channel_commands(channel), channel->command_cells);
    ring_producer_init(&agent->events, channel_events(channel), channel->event_cells);
    return 0;
}

void agent_fini(struct agent *agent)
{
    tm_fini(&agent->unit);
    mem_free(agent->moves);
    mem_free(agent->buffers);
    mem_free(agent->bounce);
    mem_free(agent->assemblies);
}
