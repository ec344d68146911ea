/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.c - device.h over the tag-matching receive queue of libibverbs.
 *
 *   append, revoke, sync ── ibv_post_srq_ops ──> ┌───────────────┐
 *   replenish            ── ibv_post_srq_recv ─> │ IBV_SRQT_TM   │ <── queue pairs of the peers
 *   poll                 <── ibv_start_poll ──── └── its queue ──┘     (verbs_attach)
 *
 *   MATCH | DATA_VALID      MATCHED, WHOLE            (announced: MATCHED, INCOMPLETE)
 *   MATCH                   MATCHED, SIZE_LATER
 *   DATA_VALID              DATA_VALID                (announced: INCOMPLETE)
 *   neither, or plain RECV  UNEXPECTED or PASSED, as the header in the buffer says
 *   DEL                     REVOKED: 0, or -ENOENT if the status is IBV_WC_TM_ERR
 *   any other status        what else there is, and then LOST
 *
 * The hardware tells the tag of a message with MATCH and its length with DATA_VALID.
 *
 * Every command asks for a completion, so that the room for commands is known and no completion
 * can find its queue full.  A completion's wr_id is its kind and the number of the receive or
 * buffer.  The request to synchronise that the hardware adds to completions is not looked at:
 * it may come without need, and who uses this device reports anyway.
 *
 * take_back is many commands: a DEL for each receive, the youngest first, then a SYNC whose
 * completion stands for all.  Youngest first, because between two of them messages arrive:
 * what is left must always be the head of the queue.
 *
 * A receive that was consumed is not named to the hardware any more, which may have used its
 * number again: revoking it is a SYNC whose completion is answered with -ENOENT.
 *
 * The memory of a receive is registered when it is handed over and until its data is there;
 * that costs a system call each way.
 */
#include "verbs/verbs_state.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"

/* ---- commands ---- */

static uint64_t work_id(enum verbs_kind kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}

/* What libibverbs says of a command. */
static int post_error(int err)
{
    return err == 0 ? 0 : err == ENOMEM ? -EAGAIN : -ENODEV;
}

/* Gives a command to the hardware; room has been looked for. */
static int post(struct verbs *v, struct ibv_ops_wr *wr, uint16_t handled)
{
    struct ibv_ops_wr *bad;
    int err;

    wr->flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    wr->tm.unexpected_cnt = handled;
    err = ibv_post_srq_ops(v->srq, wr, &bad);
    if (err == 0)
        v->in_flight++;
    return post_error(err);
}

/* 0 if there is room for one more command. */
static int check_room(const struct verbs *v)
{
    if (v->is_failing)
        return -ENODEV;
    return v->in_flight < v->commands ? 0 : -EAGAIN;
}

/* entry's memory, for the hardware to write; an empty one needs no registration. */
static int lend(struct verbs *v, struct verbs_entry *entry, const struct mbx_device_recv *recv)
{
    assert(entry->mr == NULL);
    entry->buf = recv->buf;
    if (recv->size == 0)
        return 0;
    entry->mr = ibv_reg_mr(v->pd, recv->buf, recv->size, IBV_ACCESS_LOCAL_WRITE);
    if (entry->mr != NULL)
        return 0;
    LOG_DEBUG("verbs: memory of %zu bytes cannot be registered: %s", recv->size,
              strerror(errno));
    return -EAGAIN;
}

static int post_append(struct verbs *v, struct verbs_entry *entry,
                       const struct mbx_device_recv *recv, uint16_t handled)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)recv->buf,
        .length = recv->size < UINT32_MAX ? (uint32_t)recv->size : UINT32_MAX,
        .lkey = entry->mr != NULL ? entry->mr->lkey : 0,
    };
    const uint64_t mask = verbs_mask(&recv->envelope, recv->ignore);
    struct ibv_ops_wr wr = {
        .wr_id = work_id(VERBS_ADD, recv->handle),
        .opcode = IBV_WR_TAG_ADD,
        .tm.add = {.recv_wr_id = work_id(VERBS_RECV, recv->handle),
                   .sg_list = &sge,
                   .num_sge = recv->size > 0,
                   .tag = verbs_tag(&recv->envelope) & mask,
                   .mask = mask},
    };
    int err = post(v, &wr, handled);

    if (err == 0)
        entry->list_handle = wr.tm.handle;
    return err;
}

/* Do the bits of verbs_tag() tell all messages apart that recv does? */
static bool fits_tag(const struct mbx_device_recv *recv)
{
    const struct mbx_device_envelope *envelope = &recv->envelope;

    return envelope->context_id >> VERBS_CONTEXT_BITS == 0 &&
           (envelope->source == MBX_DEVICE_ANY_SOURCE_ID ||
            envelope->source >> VERBS_SOURCE_BITS == 0) &&
           (envelope->tag & ~recv->ignore) >> VERBS_TAG_BITS == 0;
}

static int verbs_append(struct mbx_device *device, const struct mbx_device_recv *recv,
                        uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    struct verbs_entry *entry = &v->entries[recv->handle];
    int err = check_room(v);

    assert(recv->handle < v->list);
    assert(fits_tag(recv));
    if (err != 0)
        return err;
    if (v->held_count == v->list)
        return -ENOSPC;
    err = lend(v, entry, recv);
    if (err != 0)
        return err;
    err = post_append(v, entry, recv, handled);
    if (err != 0) {
        verbs_deregister(&entry->mr);
        return err;
    }
    entry->is_announced = false;
    list_add_tail(&v->held, &entry->node);
    v->held_count++;
    return 0;
}

static int post_revoke(struct verbs *v, uint32_t handle, bool is_taken, uint16_t handled)
{
    struct verbs_entry *entry = &v->entries[handle];
    struct ibv_ops_wr wr = {
        .wr_id = work_id(VERBS_DEL, handle),
        .opcode = IBV_WR_TAG_DEL,
        .tm.handle = entry->list_handle,
    };
    int err = post(v, &wr, handled);

    if (err != 0)
        return err;
    entry->is_revoked = true;
    entry->is_taken = is_taken;
    return 0;
}

/* A command that only reports; its completion says when all before it have been done. */
static int post_sync(struct verbs *v, enum verbs_kind kind, uint32_t number, uint16_t handled)
{
    struct ibv_ops_wr wr = {.wr_id = work_id(kind, number), .opcode = IBV_WR_TAG_SYNC};

    return post(v, &wr, handled);
}

static bool can_revoke(const struct verbs_entry *entry)
{
    return list_is_linked(&entry->node) && !entry->is_revoked;
}

static int verbs_revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    int err = check_room(v);

    assert(handle < v->list);
    if (err != 0)
        return err;
    return can_revoke(&v->entries[handle]) ? post_revoke(v, handle, false, handled)
                                           : post_sync(v, VERBS_MISSED, handle, handled);
}

/* One at a time: a second one would take the room of commands that do more. */
static int verbs_sync(struct mbx_device *device, uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    int err = check_room(v);

    if (err == 0 && v->is_syncing)
        err = -EAGAIN;
    if (err == 0)
        err = post_sync(v, VERBS_SYNC, 0, handled);
    if (err == 0)
        v->is_syncing = true;
    return err;
}

/* The hardware has room for these beside all others: configure() asked for it. */
static int verbs_take_back(struct mbx_device *device, uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    int err = check_room(v);

    if (err == 0 && v->is_taking)
        err = -EAGAIN;
    for (struct list *node = v->held.prev; err == 0 && node != &v->held; node = node->prev) {
        struct verbs_entry *entry = container_of(node, struct verbs_entry, node);

        if (can_revoke(entry))
            err = post_revoke(v, (uint32_t)(entry - v->entries), true, handled);
    }
    if (err == 0)
        err = post_sync(v, VERBS_TAKEN, 0, handled);
    if (err == 0)
        v->is_taking = true;
    return err;
}

static int lend_buffer(struct verbs *v, struct verbs_buffer *buffer, void *memory)
{
    if (buffer->mr != NULL && buffer->memory == memory)
        return 0;
    verbs_deregister(&buffer->mr);
    buffer->memory = memory;
    buffer->mr = ibv_reg_mr(v->pd, memory, v->limits.untagged_size, IBV_ACCESS_LOCAL_WRITE);
    return buffer->mr != NULL ? 0 : -EAGAIN;
}

static int verbs_replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct verbs *v = verbs_of(device);
    struct ibv_recv_wr wr = {.wr_id = work_id(VERBS_BUFFER, buffer), .num_sge = 1}, *bad;
    struct ibv_sge sge;
    int err;

    assert(buffer < v->untagged);
    if (v->is_failing)
        return -ENODEV;
    err = lend_buffer(v, &v->buffers[buffer], memory);
    if (err != 0)
        return err;
    sge = (struct ibv_sge){
        .addr = (uintptr_t)memory + VERBS_HEADROOM,
        .length = (uint32_t)(v->limits.untagged_size - VERBS_HEADROOM),
        .lkey = v->buffers[buffer].mr->lkey,
    };
    wr.sg_list = &sge;
    return post_error(ibv_post_srq_recv(v->srq, &wr, &bad));
}

/* ---- events ---- */

/* Something happened after which nothing can be relied on.  What the hardware has done before
 * is told all the same: a receive that it has matched must not be matched again. */
static void fail(struct verbs *v, const char *why)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct list *node;

    if (v->is_failing)
        return;
    LOG_ERROR("verbs: the device cannot be used any more: %s", why);
    v->is_failing = true;
    list_for_each (node, &v->pairs)
        ibv_modify_qp(container_of(node, struct verbs_pair, node)->qp, &attr, IBV_QP_STATE);
}

/* The last event. */
static int tell_lost(struct verbs *v, struct mbx_device_event *event)
{
    v->is_lost = true;
    *event = (struct mbx_device_event){.type = MBX_DEVICE_LOST};
    return 1;
}

static void settle(struct verbs *v, struct verbs_entry *entry)
{
    list_remove(&entry->node);
    v->held_count--;
}

/* The rest of an announced message, which software fetches. */
static void describe(const struct verbs_rts *rts, struct mbx_device_event *event)
{
    event->size = rts->size;
    event->data = rts->data;
    event->sender = rts->sender;
    event->address = rts->address;
    event->key = rts->key;
}

/* What MATCHED and DATA_VALID say of a message whose bytes are there. */
static void tell_data(struct verbs *v, struct verbs_entry *entry,
                      struct mbx_device_event *event)
{
    const uint32_t bytes = ibv_wc_read_byte_len(v->cq);
    struct verbs_rts rts;

    verbs_deregister(&entry->mr);
    if (!entry->is_announced) {
        event->size = event->done = bytes;
    } else if (bytes != sizeof rts) {
        event->error = -EPROTO;
    } else {
        memcpy(&rts, entry->buf, sizeof rts);
        describe(&rts, event);
    }
}

static int on_match(struct verbs *v, uint32_t handle, bool is_valid,
                    struct mbx_device_event *event)
{
    struct verbs_entry *entry = &v->entries[handle];
    struct ibv_wc_tm_info info;

    ibv_wc_read_tm_info(v->cq, &info);
    *event = (struct mbx_device_event){
        .type = MBX_DEVICE_MATCHED,
        .flags = is_valid ? 0 : MBX_DEVICE_SIZE_LATER,
        .handle = handle,
        .envelope = verbs_envelope(info.tag),
        .data = info.priv & ~VERBS_ANNOUNCED,
    };
    if (event->envelope.source >= v->peers) {
        fail(v, "a message of a peer that does not exist");
        return 0;
    }
    settle(v, entry);
    entry->is_announced = (info.priv & VERBS_ANNOUNCED) != 0;
    if (is_valid)
        tell_data(v, entry, event);
    if (!entry->is_announced) {
        event->flags |= is_valid ? MBX_DEVICE_WHOLE : 0;
        return 1;
    }
    event->flags |= MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN;
    if (is_valid) {
        v->later = *event;
        v->later.type = MBX_DEVICE_INCOMPLETE;
    }
    return 1;
}

static int on_data(struct verbs *v, uint32_t handle, struct mbx_device_event *event)
{
    struct verbs_entry *entry = &v->entries[handle];

    *event = (struct mbx_device_event){
        .type = entry->is_announced ? MBX_DEVICE_INCOMPLETE : MBX_DEVICE_DATA_VALID,
        .handle = handle,
    };
    tell_data(v, entry, event);
    return 1;
}

static int on_recv(struct verbs *v, uint32_t handle, struct mbx_device_event *event)
{
    const unsigned flags = ibv_wc_read_wc_flags(v->cq);

    if (flags & IBV_WC_TM_MATCH)
        return on_match(v, handle, (flags & IBV_WC_TM_DATA_VALID) != 0, event);
    if (flags & IBV_WC_TM_DATA_VALID)
        return on_data(v, handle, event);
    fail(v, "a receive has neither been matched nor filled");
    return 0;
}

/* The header that the packet behind it would have on any other wire; a packet that makes no
 * sense gets none that wire_check() accepts. */
static struct wire_header header_of(const struct ibv_tmh *tmh, const unsigned char *behind,
                                    size_t size)
{
    const uint32_t context = be32toh(tmh->app_ctx);
    const struct mbx_device_envelope envelope = verbs_envelope(be64toh(tmh->tag));
    struct wire_header header = {0};
    struct verbs_rts rts;

    if (tmh->opcode == IBV_TMH_NO_TAG)
        return (struct wire_header){.what = context};
    if (tmh->opcode != IBV_TMH_EAGER)
        return header;
    header.tag = envelope.tag;
    header.context_id = envelope.context_id;
    if (!(context & VERBS_ANNOUNCED)) {
        header.what = wire_what(WIRE_EAGER);
        header.data = context;
    } else if (size == sizeof rts) {
        memcpy(&rts, behind, sizeof rts);
        header.what = wire_what(WIRE_RTS);
        header.data = rts.data;
    }
    return header;
}

/* Turns what lies in an untagged buffer into a packet of wire.h: its size. */
static size_t convert(unsigned char *memory, const struct ibv_tmh *tmh, size_t size)
{
    const size_t behind = size - sizeof *tmh;
    const struct wire_header header = header_of(tmh, memory + sizeof header, behind);

    memcpy(memory, &header, sizeof header);
    if (header.what == wire_what(WIRE_RTS) && tmh->opcode == IBV_TMH_EAGER)
        return sizeof header + sizeof(struct wire_rts); /* the data is in the header now */
    return sizeof header + behind;
}

static_assert(offsetof(struct verbs_rts, data) == sizeof(struct wire_rts),
              "what lies behind the header of an announced message is the body of an RTS");

static int on_packet(struct verbs *v, uint32_t number, struct mbx_device_event *event)
{
    unsigned char *memory = v->buffers[number].memory;
    const size_t size = ibv_wc_read_byte_len(v->cq);
    struct ibv_tmh tmh;

    if (size < sizeof tmh || size > v->limits.untagged_size - VERBS_HEADROOM) {
        fail(v, "a packet without the header of tag matching");
        return 0;
    }
    memcpy(&tmh, memory + VERBS_HEADROOM, sizeof tmh);
    *event = (struct mbx_device_event){
        .type = tmh.opcode == IBV_TMH_EAGER || tmh.opcode == IBV_TMH_RNDV
                    ? MBX_DEVICE_UNEXPECTED
                    : MBX_DEVICE_PASSED,
        .buffer = number,
        .peer = verbs_envelope(be64toh(tmh.tag)).source,
    };
    if (event->peer >= v->peers) {
        fail(v, "a packet of a peer that does not exist");
        return 0;
    }
    event->bytes = convert(memory, &tmh, size);
    return 1;
}

/* entry's DEL has been answered. */
static int on_del(struct verbs *v, uint32_t handle, struct mbx_device_event *event)
{
    struct verbs_entry *entry = &v->entries[handle];
    const bool is_taken = entry->is_taken, is_out = v->cq->status == IBV_WC_SUCCESS;

    entry->is_revoked = entry->is_taken = false;
    if (is_out) {
        settle(v, entry);
        verbs_deregister(&entry->mr);
    }
    *event = (struct mbx_device_event){
        .type = MBX_DEVICE_REVOKED, .handle = handle, .error = is_out ? 0 : -ENOENT};
    return is_taken ? 0 : 1;
}

/* A completion of a command; how many events. */
static int on_command(struct verbs *v, enum verbs_kind kind, uint32_t number,
                      struct mbx_device_event *event)
{
    v->in_flight--;
    switch (kind) {
    case VERBS_DEL:
        return on_del(v, number, event);
    case VERBS_MISSED:
        *event = (struct mbx_device_event){
            .type = MBX_DEVICE_REVOKED, .handle = number, .error = -ENOENT};
        return 1;
    case VERBS_TAKEN:
        v->is_taking = false;
        *event = (struct mbx_device_event){.type = MBX_DEVICE_REVOKED_ALL};
        return 1;
    case VERBS_SYNC:
        v->is_syncing = false;
        return 0;
    case VERBS_ADD:
    case VERBS_BUFFER:
    case VERBS_RECV:
        break;
    }
    return 0;
}

/* The completion that the queue stands at; 0 or 1 events, and perhaps one in later. */
static int on_completion(struct verbs *v, struct mbx_device_event *event)
{
    const enum verbs_kind kind = (enum verbs_kind)(v->cq->wr_id >> 32);
    const uint32_t number = (uint32_t)v->cq->wr_id;
    const enum ibv_wc_status status = v->cq->status;

    if (status != IBV_WC_SUCCESS && !(kind == VERBS_DEL && status == IBV_WC_TM_ERR)) {
        fail(v, ibv_wc_status_str(status));
        return 0;
    }
    if (kind == VERBS_BUFFER)
        return on_packet(v, number, event);
    if (kind == VERBS_RECV)
        return on_recv(v, number, event);
    return on_command(v, kind, number, event);
}

/* What was left of the completion before. */
static int take_later(struct verbs *v, struct mbx_device_event *event)
{
    if (v->later.type == 0)
        return 0;
    *event = v->later;
    v->later.type = 0;
    return 1;
}

/* Completions until there are no more, or no room: how many events. */
static int poll_queue(struct verbs *v, struct mbx_device_event *events, int count)
{
    int n = 0, err = ibv_start_poll(v->cq, &(struct ibv_poll_cq_attr){0});

    if (err != 0 && err != ENOENT)
        fail(v, strerror(err));
    if (err != 0)
        return v->is_failing ? tell_lost(v, events) : 0;
    do {
        n += on_completion(v, &events[n]);
        if (n < count)
            n += take_later(v, &events[n]);
    } while (n < count && (err = ibv_next_poll(v->cq)) == 0);
    ibv_end_poll(v->cq);
    if (err != 0 && err != ENOENT)
        fail(v, strerror(err));
    if (err != 0 && v->is_failing)
        n += tell_lost(v, &events[n]);
    return n;
}

static int verbs_poll(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct verbs *v = verbs_of(device);
    int n = 0;

    if (count > 0)
        n += take_later(v, events);
    if (n < count && !v->is_lost)
        n += poll_queue(v, events + n, count - n);
    return n;
}

const struct mbx_device_ops verbs_ops = {
    .name = "verbs",
    .about = "hardware that matches tags, through libibverbs",
    .close = verbs_close,
    .limits = verbs_limits,
    .configure = verbs_configure,
    .replenish = verbs_replenish,
    .append = verbs_append,
    .revoke = verbs_revoke,
    .take_back = verbs_take_back,
    .sync = verbs_sync,
    .poll = verbs_poll,
};
