/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_events.c - completions become events.
 *
 *   MATCH | DATA_VALID      MATCHED, WHOLE
 *   MATCH                   MATCHED, SIZE_LATER
 *   DATA_VALID              DATA_VALID
 *   ... of an announced one MATCHED, INCOMPLETE
 *   ... RNDV_INCOMPLETE     MATCHED, INCOMPLETE: the request lies in the buffer
 *   neither, or plain RECV  UNEXPECTED or PASSED, as the header in the buffer says
 *   DEL                     REVOKED: 0, or -ENOENT if the status is IBV_WC_TM_ERR
 *
 * The hardware reports the tag of a message with MATCH and its length with DATA_VALID.
 *
 * A bad status of a receive or buffer means that the link by which the message came has failed:
 * its queue pair stops, and the others go on.  The receive of the completion is matched, with
 * an error.  Other receives that were matched with that peer end with verbs_detach(), after
 * which the hardware writes nothing for it.  A bad status of a command, or of a completion
 * without a link, means that the device is lost.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "device/verbs/verbs_state.h"

/* ---- the end ---- */

void verbs_fail(struct verbs *v, const char *why)
{
    struct list *node;

    if (v->is_failing)
        return;
    LOG_ERROR("verbs: the adapter no longer matches: %s; software matches from now on", why);
    v->is_failing = true;
    list_for_each (node, &v->pairs)
        verbs_pair_stop(container_of(node, struct verbs_pair, node));
}

static void fail_link(struct verbs *v, struct verbs_pair *pair, const char *why)
{
    if (pair->has_failed)
        return;
    LOG_ERROR(
        "verbs: the connection to peer %u has failed: %s; look at the output of that rank, and "
        "at the adapter (ibv_devinfo)",
        pair->peer, why);
    verbs_pair_stop(pair);
    if (v->config.link_failed != NULL)
        v->config.link_failed(v->config.arg, pair->peer, why);
    else
        v->has_gone = true; /* detached when the queue is empty */
}

/* Reports LOST, the last event. */
static int event_lost(struct verbs *v, struct mbx_device_event *event)
{
    v->is_lost = true;
    *event = (struct mbx_device_event){.type = MBX_DEVICE_LOST};
    return 1;
}

/* Reports the first entry whose peer is gone and whose data will never come. */
static int event_gone(struct verbs *v, struct mbx_device_event *event)
{
    for (uint32_t i = 0; i < v->list && v->moving > 0; i++) {
        struct verbs_entry *entry = &v->entries[i];

        if (!entry->is_moving || verbs_pair_of(v, entry->peer) != NULL)
            continue;
        entry->is_moving = false;
        v->moving--;
        verbs_withdraw(v, entry);
        *event = (struct mbx_device_event){
            .type = MBX_DEVICE_DATA_VALID, .handle = i, .error = -ENOTCONN};
        return 1;
    }
    v->has_gone = false;
    return 0;
}

/* The queue is empty, so no completions of failed pairs are on their way. */
static void detach_failed(struct verbs *v)
{
    struct list *node = v->pairs.next;

    while (v->config.link_failed == NULL && node != &v->pairs) {
        const struct verbs_pair *pair = container_of(node, struct verbs_pair, node);

        node = node->next;
        if (pair->has_failed)
            verbs_detach(&v->device, pair->peer);
    }
}

/* ---- receives that were matched ---- */

/* A request of this length has been read: restores what it overwrote in the buffer. */
static void put_back(struct verbs_entry *entry, uint32_t bytes)
{
    if (entry->memory == entry->buf)
        memcpy(entry->buf, entry->saved, min_size(bytes, sizeof entry->saved));
}

/* Fills in the contents of DATA_VALID, or INCOMPLETE, for a message whose bytes are there. */
static void event_data(struct verbs *v, struct verbs_entry *entry,
                       struct mbx_device_event *event)
{
    const uint32_t bytes = ibv_wc_read_byte_len(v->cq);

    entry->is_moving = false;
    v->moving--;
    verbs_withdraw(v, entry);
    event->data = entry->data;
    if (entry->is_forged) {
        event->error = -EPROTO;
    } else if (entry->app_ctx == VERBS_ANNOUNCED) {
        event->error = verbs_describe_rts(entry->memory, bytes, event) ? 0 : -EPROTO;
        put_back(entry, bytes);
    } else if (entry->is_incomplete) {
        event->error = verbs_describe_rndv(entry->memory, bytes, event) ? 0 : -EPROTO;
        put_back(entry, bytes);
    } else {
        event->size = bytes;
        event->done = min_size(bytes, entry->size);
        if (entry->memory != entry->buf && event->done > 0)
            memcpy(entry->buf, entry->memory, event->done);
    }
}

/* MATCH was reported: entry leaves the list. */
static void verbs_events_begin(struct verbs *v, struct verbs_entry *entry,
                               const struct verbs_pair *pair, const struct ibv_wc_tm_info *info,
                               struct mbx_device_event *event)
{
    struct mbx_device_envelope envelope = verbs_envelope(v->config.layout, info->tag);

    verbs_settle(v, entry);
    entry->is_moving = true;
    v->moving++;
    entry->peer = pair->peer;
    entry->app_ctx = info->priv;
    entry->data = verbs_data(info->priv);
    entry->is_incomplete = false;
    entry->is_forged = envelope.source != pair->peer ||
                       (info->priv >= VERBS_ANNOUNCED && info->priv != VERBS_ANNOUNCED);
    if (envelope.source != pair->peer)
        envelope.source = entry->envelope.source == MBX_DEVICE_ANY_SOURCE_ID
                              ? pair->peer
                              : entry->envelope.source;
    *event = (struct mbx_device_event){
        .type = MBX_DEVICE_MATCHED,
        .handle = (uint32_t)(entry - v->entries),
        .peer = pair->peer,
        .envelope = envelope,
        .data = entry->data,
        .flags = info->priv > VERBS_DATA_MAX ? MBX_DEVICE_BY_RNDV : 0,
    };
}

/* Does software have to fetch the data, and to send the FIN? */
static bool is_software(const struct verbs_entry *entry)
{
    return entry->app_ctx == VERBS_ANNOUNCED || entry->is_incomplete;
}

static int on_match(struct verbs *v, struct verbs_entry *entry, struct verbs_pair *pair,
                    bool is_valid, struct mbx_device_event *event)
{
    struct ibv_wc_tm_info info;

    ibv_wc_read_tm_info(v->cq, &info);
    verbs_events_begin(v, entry, pair, &info, event);
    if (v->cq->status == IBV_WC_TM_RNDV_INCOMPLETE)
        entry->is_incomplete = true;
    if (is_software(entry))
        event->flags |= MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN;
    if (!is_valid) {
        event->flags |= MBX_DEVICE_SIZE_LATER;
    } else if (is_software(entry) || entry->is_forged) {
        event_data(v, entry, event);
        v->later = *event;
        v->later.type = is_software(entry) ? MBX_DEVICE_INCOMPLETE : MBX_DEVICE_DATA_VALID;
        event->error = 0;
    } else {
        event_data(v, entry, event);
        event->flags |= MBX_DEVICE_WHOLE;
    }
    if (entry->is_forged)
        fail_link(v, pair, "a message that names another source");
    return 1;
}

static int on_data(struct verbs *v, struct verbs_entry *entry, struct mbx_device_event *event)
{
    if (v->cq->status == IBV_WC_TM_RNDV_INCOMPLETE)
        entry->is_incomplete = true;
    *event = (struct mbx_device_event){
        .type = is_software(entry) ? MBX_DEVICE_INCOMPLETE : MBX_DEVICE_DATA_VALID,
        .handle = (uint32_t)(entry - v->entries),
    };
    event_data(v, entry, event);
    return 1;
}

/* The message of entry was lost with its link.  Only its sender is known. */
static int on_broken(struct verbs *v, struct verbs_entry *entry, struct verbs_pair *pair,
                     struct mbx_device_event *event)
{
    const struct mbx_device_event end = {.type = MBX_DEVICE_DATA_VALID,
                                         .handle = (uint32_t)(entry - v->entries),
                                         .error = -ENOTCONN};

    fail_link(v, pair, ibv_wc_status_str(v->cq->status));
    verbs_withdraw(v, entry);
    *event = end;
    if (entry->is_moving) {
        entry->is_moving = false;
        v->moving--;
        return 1;
    }
    verbs_settle(v, entry);
    v->later = end;
    *event = (struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                       .flags = MBX_DEVICE_SIZE_LATER,
                                       .handle = end.handle,
                                       .peer = pair->peer,
                                       .envelope = entry->envelope};
    if (event->envelope.source == MBX_DEVICE_ANY_SOURCE_ID)
        event->envelope.source = pair->peer;
    return 1;
}

static int on_recv(struct verbs *v, uint32_t handle, struct mbx_device_event *event)
{
    const enum ibv_wc_status status = v->cq->status;
    struct verbs_entry *entry = &v->entries[handle];
    struct verbs_pair *pair = verbs_pair_by_number(v, ibv_wc_read_qp_num(v->cq));
    unsigned flags;

    if (handle >= v->list || (!entry->is_moving && !list_is_linked(&entry->node)))
        return 0; /* its peer is gone, and the receive has ended */
    if (pair == NULL && !entry->is_moving) {
        verbs_fail(v, "a message by a queue pair that does not exist");
        return 0;
    }
    if (status != IBV_WC_SUCCESS && status != IBV_WC_TM_RNDV_INCOMPLETE)
        return pair == NULL ? 0 : on_broken(v, entry, pair, event); /* 0: see event_gone() */
    flags = ibv_wc_read_wc_flags(v->cq);
    if ((flags & IBV_WC_TM_MATCH) && !entry->is_moving)
        return on_match(v, entry, pair, (flags & IBV_WC_TM_DATA_VALID) != 0, event);
    if ((flags & IBV_WC_TM_DATA_VALID) && entry->is_moving)
        return on_data(v, entry, event);
    verbs_fail(v, "a receive has neither been matched nor filled");
    return 0;
}

/* ---- packets ---- */

/* The buffer holds nothing: gives it back to the hardware. */
static int verbs_events_give_back(struct verbs *v, uint32_t number)
{
    if (verbs_post_buffer(v, number) != 0)
        verbs_fail(v, "an untagged buffer cannot be given back");
    return 0;
}

static int on_packet(struct verbs *v, uint32_t number, struct mbx_device_event *event)
{
    struct verbs_pair *pair = verbs_pair_by_number(v, ibv_wc_read_qp_num(v->cq));
    size_t size;

    if (pair == NULL) /* from a detached peer: discarded */
        return verbs_events_give_back(v, number);
    if (v->cq->status != IBV_WC_SUCCESS) {
        fail_link(v, pair, ibv_wc_status_str(v->cq->status));
        return verbs_events_give_back(v, number);
    }
    if (ibv_wc_read_opcode(v->cq) ==
        IBV_WC_RECV_RDMA_WITH_IMM) { /* nothing lies in the buffer */
        fail_link(v, pair, "a write with immediate data");
        return verbs_events_give_back(v, number);
    }
    size = ibv_wc_read_byte_len(v->cq);
    if (size < sizeof(struct ibv_tmh) || size > v->limits.untagged_size - VERBS_HEADROOM) {
        fail_link(v, pair, "a packet without the header of tag matching");
        return verbs_events_give_back(v, number);
    }
    *event = (struct mbx_device_event){.buffer = number};
    verbs_packet(v, pair, v->buffers[number].memory, size, event);
    return 1;
}

/* ---- commands ---- */

/* The DEL of entry has been answered. */
static int on_del(struct verbs *v, uint32_t handle, struct mbx_device_event *event)
{
    struct verbs_entry *entry = &v->entries[handle];
    const bool is_out = v->cq->status == IBV_WC_SUCCESS;

    entry->is_revoked = false;
    if (is_out) {
        verbs_settle(v, entry);
        verbs_withdraw(v, entry);
    }
    *event = (struct mbx_device_event){
        .type = MBX_DEVICE_REVOKED, .handle = handle, .error = is_out ? 0 : -ENOENT};
    return 1;
}

/* Handles the completion of a command; returns how many events. */
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

/* ---- the queue ---- */

/* Handles the current completion; returns 0 or 1 events, and may put another into v->later. */
static int on_completion(struct verbs *v, struct mbx_device_event *event)
{
    const enum verbs_kind kind = (enum verbs_kind)(v->cq->wr_id >> 32);
    const uint32_t number = (uint32_t)v->cq->wr_id;
    const enum ibv_wc_status status = v->cq->status;

    if (kind == VERBS_BUFFER)
        return on_packet(v, number, event);
    if (kind == VERBS_RECV)
        return on_recv(v, number, event);
    if (status != IBV_WC_SUCCESS && !(kind == VERBS_DEL && status == IBV_WC_TM_ERR)) {
        verbs_fail(v, ibv_wc_status_str(status));
        return 0;
    }
    return on_command(v, kind, number, event);
}

/* Takes an event that was put aside. */
static int verbs_events_take(struct mbx_device_event *from, struct mbx_device_event *event)
{
    if (from->type == 0)
        return 0;
    *event = *from;
    from->type = 0;
    return 1;
}

/* The queue is empty: reports what remains, at most one event. */
static int on_empty(struct verbs *v, struct mbx_device_event *event)
{
    v->empties++;
    v->idles += v->in_flight == 0 && v->moving == 0;
    if (v->is_failing)
        return event_lost(v, event);
    if (!v->has_gone)
        return 0;
    detach_failed(v);
    return event_gone(v, event);
}

/* Handles completions until there are no more, or no space; returns how many events. */
static int poll_queue(struct verbs *v, struct mbx_device_event *events, int count)
{
    int n = 0, err = ibv_start_poll(v->cq, &(struct ibv_poll_cq_attr){0});

    if (err != 0 && err != ENOENT)
        verbs_fail(v, strerror(err));
    if (err != 0)
        return on_empty(v, events);
    do {
        n += on_completion(v, &events[n]);
        if (n < count)
            n += verbs_events_take(&v->later, &events[n]);
    } while (n < count && (err = ibv_next_poll(v->cq)) == 0);
    ibv_end_poll(v->cq);
    if (err != 0 && err != ENOENT)
        verbs_fail(v, strerror(err));
    if (err != 0 && n < count)
        n += on_empty(v, &events[n]);
    return n;
}

int verbs_poll(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct verbs *v = verbs_of(device);
    int n = 0;

    if (count > 0)
        n += verbs_events_take(&v->ahead, events);
    if (n < count)
        n += verbs_events_take(&v->later, events + n);
    if (n < count && !v->is_lost)
        n += poll_queue(v, events + n, count - n);
    return n;
}
