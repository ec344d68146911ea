/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow.c - see shadow.h.
 */
#include "device/host/shadow.h"

#include <errno.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/host/bypass.h"
#include "device/host/held.h"

/* Events that are read at once. */
#define POLL_EVENTS 16

/* Handled messages that may stay unreported although nothing waits for the report: the counter
 * has 16 bits, and must not wrap around. */
#define REPORT_AT 16384

/* ---- receives that stay in software ---- */

static uint32_t shadow_mix(uint64_t word)
{
    return (uint32_t)hash_mix(word) % SHADOW_FILTER;
}

static uint32_t context_slot(const struct mbx_match_recv *match)
{
    return shadow_mix(match->envelope.context_id);
}

static uint32_t envelope_slot(const struct mbx_match_recv *match)
{
    uint64_t place = (uint64_t)match->envelope.context_id << 32 | match->envelope.source;

    return shadow_mix(place * UINT64_C(0xd6e8feb86659fd93) ^ match->envelope.tag);
}

static bool is_wild(const struct mbx_match_recv *match)
{
    return match->ignore != 0 || match->envelope.source == MBX_MATCH_ANY_SOURCE;
}

/* Counts a receive that stays in software (+1), or removes it (-1). */
static void filter_count(struct shadow_filter *filter, const struct mbx_match_recv *match,
                         int by)
{
    uint32_t *slot = is_wild(match) ? &filter->wild[context_slot(match)]
                                    : &filter->exact[envelope_slot(match)];

    *slot += (uint32_t)by;
    filter->all[context_slot(match)] += (uint32_t)by;
}

/* May a receive that stays accept a message that match accepts?  "No" is certain; "yes" may be
 * wrong, and then match stays in software needlessly. */
static bool filter_overlaps(const struct shadow_filter *filter,
                            const struct mbx_match_recv *match)
{
    if (filter->wild[context_slot(match)] != 0)
        return true;
    return is_wild(match) ? filter->all[context_slot(match)] != 0
                          : filter->exact[envelope_slot(match)] != 0;
}

/* Does match accept a message with this envelope? */
static bool accepts(const struct mbx_match_recv *match,
                    const struct mbx_device_envelope *envelope)
{
    return shadow_accepts(match, &(const struct mbx_match_envelope){
                                     envelope->context_id, envelope->source, envelope->tag});
}

/* ---- receives that a device can hold ---- */

static bool fits_bits(uint64_t value, uint32_t bits)
{
    return bits >= 64 || value >> bits == 0;
}

static bool can_hold(const struct mbx_device_limits *limits, const struct mbx_match_recv *match,
                     size_t size)
{
    if (!fits_bits(match->envelope.context_id ^ limits->context_id, limits->context_bits))
        return false;
    if (match->envelope.source == MBX_MATCH_ANY_SOURCE) {
        if (!(limits->caps & MBX_DEVICE_ANY_SOURCE))
            return false;
    } else if (!fits_bits(match->envelope.source, limits->source_bits)) {
        return false;
    }
    if (!(limits->caps & MBX_DEVICE_MASKS) && match->ignore != 0 && match->ignore != UINT64_MAX)
        return false;
    if ((match->envelope.tag & ~match->ignore & ~limits->tag_mask) != 0)
        return false;
    if ((limits->caps & MBX_DEVICE_NARROW) && (match->ignore & ~limits->tag_mask) != 0)
        return false;
    return (limits->caps & MBX_DEVICE_TRUNCATES) || size >= limits->eager_max;
}

bool shadow_can_distinguish(const struct shadow *shadow,
                            const struct mbx_match_envelope *envelope)
{
    const struct mbx_device_limits *limits = &shadow->limits;

    return fits_bits(envelope->context_id ^ limits->context_id, limits->context_bits) &&
           fits_bits(envelope->source, limits->source_bits) &&
           (envelope->tag & ~limits->tag_mask) == 0;
}

/* ---- slots ---- */

#define SLOT(state) (1u << (state))

/* The states that may follow each state. */
static const uint8_t slot_next[SLOT_STATES] = {
    [SLOT_OVER] = SLOT(SLOT_HELD),
    [SLOT_HELD] =
        SLOT(SLOT_OVER) | SLOT(SLOT_MOVING) | SLOT(SLOT_MOVING_OWES) | SLOT(SLOT_OWES),
    [SLOT_MOVING] = SLOT(SLOT_OVER),
    [SLOT_MOVING_OWES] = SLOT(SLOT_OVER) | SLOT(SLOT_MOVING) | SLOT(SLOT_OWES),
    [SLOT_OWES] = SLOT(SLOT_OVER),
};

void shadow_slot_move(struct shadow *shadow, struct shadow_slot *slot,
                      enum shadow_slot_state to)
{
    assert(slot_next[slot->state] & SLOT(to));
    shadow->owed_count += (to == SLOT_OWES) - (slot->state == SLOT_OWES);
    slot->state = to;
}

/* Is the data of the message on its way?  (slot_owes: is the FIN still to be sent?) */
static bool slot_moves(const struct shadow_slot *slot)
{
    return slot->state == SLOT_MOVING || slot->state == SLOT_MOVING_OWES;
}

static bool slot_owes(const struct shadow_slot *slot)
{
    return slot->state == SLOT_OWES || slot->state == SLOT_MOVING_OWES;
}

static uint32_t slot_take(struct shadow *shadow, struct shadow_recv *recv)
{
    uint32_t handle = shadow->free[--shadow->free_count];
    struct shadow_slot *slot = &shadow->slots[handle];

    shadow_slot_move(shadow, slot, SLOT_HELD);
    slot->recv = recv;
    return handle;
}

/* I2 */
void shadow_settle(struct shadow *shadow, uint32_t handle)
{
    struct shadow_slot *slot = &shadow->slots[handle];

    if (slot->state != SLOT_OVER || slot->is_revoked)
        return;
    slot->recv = NULL;
    shadow->free[shadow->free_count++] = handle;
    shadow->stats.in_device--;
}

/* Was recv recalled?  Then the device has been asked for it already, and the caller sets its
 * new state. */
static bool was_recalled(struct shadow *shadow, const struct shadow_recv *recv)
{
    if (recv->state != SHADOW_RECALLED)
        return false;
    shadow->recalled--;
    filter_count(&shadow->filter, recv->match, -1);
    return true;
}

/* ---- the device is gone ---- */

/* The device has answered a cancel or reclaim of recv: was it in time? */
static void count_answer(struct shadow *shadow, const struct shadow_recv *recv, bool in_time)
{
    struct shadow_stats *stats = &shadow->stats;

    if (recv->state == SHADOW_REVOKING)
        (*(in_time ? &stats->cancels_won : &stats->cancels_lost))++;
    else if (recv->state == SHADOW_RECLAIMED)
        (*(in_time ? &stats->reclaims_won : &stats->reclaims_lost))++;
}

/* recv belongs to its owner again. */
static void shadow_give_back(struct shadow *shadow, struct shadow_recv *recv)
{
    count_answer(shadow, recv, true);
    recv->state = SHADOW_NONE;
    bypass_in_time(shadow, recv);
}

/* The device does nothing from here on. */
static void stop(struct shadow *shadow)
{
    if (shadow->is_stopped)
        return;
    shadow->is_stopped = true;
    shadow->events->lost(shadow->arg);
}

/* The device is lost: its receive goes back to software, or is reported as lost. */
static void slot_lose(struct shadow *shadow, struct shadow_slot *slot)
{
    struct shadow_recv *recv = slot->recv;

    slot->recv = NULL;
    if (slot->state == SLOT_OWES)
        shadow->events->owed(shadow->arg, slot->peer, slot->sender);
    if (recv == NULL)
        return;
    switch (recv->state) {
    case SHADOW_RECALLED:
        was_recalled(shadow, recv);
        recv->state = SHADOW_NONE;
        break;
    case SHADOW_HANDED:
        list_remove(&recv->node);
        recv->state = SHADOW_NONE;
        break;
    case SHADOW_REVOKING:
    case SHADOW_RECLAIMED:
        shadow_give_back(shadow, recv);
        break;
    case SHADOW_MATCHED:
        recv->state = SHADOW_NONE;
        shadow->events->moved(shadow->arg, recv,
                              &(struct mbx_device_event){.type = MBX_DEVICE_LOST});
        break;
    case SHADOW_PAIRED:
        held_lose(shadow, recv);
        break;
    case SHADOW_NONE:
    case SHADOW_SOFTWARE:
    case SHADOW_WAITING:
        break;
    }
}

static void lose(struct shadow *shadow)
{
    struct list *node;

    stop(shadow);
    shadow->is_lost = true;
    while ((node = list_pop_head(&shadow->waiting)) != NULL)
        container_of(node, struct shadow_recv, node)->state = SHADOW_NONE;
    for (uint32_t i = 0; i < shadow->list; i++)
        slot_lose(shadow, &shadow->slots[i]);
    shadow->stats.waiting = shadow->stats.in_device = 0;
    shadow->owed_count = 0;
}

/* An event makes no sense: the device is stopped.  The device may already have told a sender
 * that its message was received; so later events are still read, and believed if they make
 * sense, up to the last event. */
void shadow_distrust(struct shadow *shadow, const struct mbx_device_event *event)
{
    if (!shadow->is_stopped)
        LOG_ERROR("the device broke its contract (event %u of handle %u, error %d, buffer %u): "
                  "going on without it; please report this",
                  event->type, event->handle, event->error, event->buffer);
    stop(shadow);
}

/* ---- commands ---- */

bool shadow_reported(struct shadow *shadow, int err)
{
    if (err == 0)
        shadow->reported = shadow->handled;
    return err == 0;
}

int shadow_append(struct shadow *shadow, struct shadow_recv *recv)
{
    const struct mbx_match_recv *match = recv->match;
    struct mbx_device_recv entry = {
        .envelope = {match->envelope.context_id, match->envelope.source, match->envelope.tag},
        .ignore = match->ignore,
        .buf = recv->buf,
        .size = recv->size,
    };
    int err;

    if (shadow->free_count == 0)
        return -EAGAIN;
    entry.handle = shadow->free[shadow->free_count - 1];
    err = shadow->device->ops->append(shadow->device, &entry, shadow->handled);
    if (!shadow_reported(shadow, err))
        return err == -EBUSY ? -EBUSY : -EAGAIN;
    recv->handle = slot_take(shadow, recv);
    shadow->stats.handed++;
    shadow->stats.in_device++;
    if (shadow->stats.in_device > shadow->stats.in_device_max)
        shadow->stats.in_device_max = shadow->stats.in_device;
    return 0;
}

/* Returns what shadow_append() returns. */
static int hand_over(struct shadow *shadow, struct shadow_recv *recv)
{
    int err = shadow_append(shadow, recv);

    if (err != 0)
        return err;
    list_remove(&recv->node);
    list_add_tail(&shadow->handed, &recv->node);
    recv->state = SHADOW_HANDED;
    return 0;
}

/* The command queue always has space: a handle costs two commands, and is reused only after
 * both have been performed.  A device that is gone sends a last event. */
static void revoke(struct shadow *shadow, const struct shadow_recv *recv)
{
    int err = shadow->device->ops->revoke(shadow->device, recv->handle, shadow->handled);

    shadow->slots[recv->handle].is_revoked = true;
    if (!shadow_reported(shadow, err) && err != -ENODEV)
        LOG_ERROR("the matching device refuses to give a receive back, error %d; please report "
                  "this, and unset MBX_DEVICE meanwhile",
                  err);
}

/* recv stays in software. */
static void keep_here(struct shadow *shadow, struct shadow_recv *recv)
{
    recv->state = SHADOW_SOFTWARE;
    filter_count(&shadow->filter, recv->match, +1);
}

/* Once a waiting receive stays in software, later waiting receives must not pass it either. */
static int hand_over_waiting(struct shadow *shadow, struct shadow_recv *recv)
{
    int err = 0;

    if (shadow->has_clashed && filter_overlaps(&shadow->filter, recv->match)) {
        shadow->stats.overlapped++;
    } else {
        err = hand_over(shadow, recv);
        if (err != -EBUSY)
            return err;
        shadow->has_clashed = true;
        shadow->stats.clashed++;
    }
    list_remove(&recv->node);
    keep_here(shadow, recv);
    return 0;
}

static void pump_waiting(struct shadow *shadow)
{
    while (!list_is_empty(&shadow->waiting) && list_is_empty(&shadow->parked)) {
        struct shadow_recv *recv = container_of(shadow->waiting.next, struct shadow_recv, node);

        if (hand_over_waiting(shadow, recv) < 0)
            return;
        shadow->stats.waiting--;
    }
    shadow->has_clashed = shadow->has_clashed && !list_is_empty(&shadow->waiting);
}

static void pump_buffers(struct shadow *shadow)
{
    while (shadow->empty_count > 0) {
        uint32_t buffer = shadow->empty[shadow->empty_count - 1];

        if (shadow->device->ops->replenish(shadow->device, buffer,
                                           shadow->buffers +
                                               buffer * shadow->limits.untagged_size) < 0)
            return;
        shadow->is_given[buffer] = true;
        shadow->empty_count--;
    }
}

/* Entries may be waiting to become active, or the counter may wrap around. */
static void pump_sync(struct shadow *shadow)
{
    uint16_t behind = (uint16_t)(shadow->handled - shadow->reported);

    if (behind == 0 || (shadow->stats.in_device == 0 && behind < REPORT_AT))
        return;
    if (shadow_reported(shadow, shadow->device->ops->sync(shadow->device, shadow->handled)))
        shadow->stats.syncs++;
}

/* ---- receives ---- */

bool shadow_may_have(const struct shadow *shadow, const struct mbx_match_recv *match,
                     size_t size)
{
    return !shadow->is_recalled && size >= shadow->threshold &&
           can_hold(&shadow->limits, match, size);
}

void shadow_post_here(struct shadow *shadow, struct shadow_recv *recv,
                      const struct mbx_match_recv *match)
{
    if (shadow->is_stopped)
        return;
    recv->match = match;
    recv->message = NULL;
    list_init_node(&recv->node);
    keep_here(shadow, recv);
}

void shadow_post(struct shadow *shadow, struct shadow_recv *recv,
                 const struct mbx_match_recv *match, void *buf, size_t size)
{
    int err = -EAGAIN;

    if (shadow->is_stopped)
        return;
    recv->match = match;
    recv->buf = buf;
    recv->size = size;
    recv->message = NULL;
    list_init_node(&recv->node);
    if (!shadow_may_have(shadow, match, size)) {
        keep_here(shadow, recv);
        return;
    }
    if (filter_overlaps(&shadow->filter, match)) {
        keep_here(shadow, recv);
        shadow->stats.overlapped++;
        return;
    }
    if (list_is_empty(&shadow->waiting) && list_is_empty(&shadow->parked))
        err = hand_over(shadow, recv);
    if (err == 0)
        return;
    if (err == -EBUSY) {
        keep_here(shadow, recv);
        shadow->stats.clashed++;
        return;
    }
    recv->state = SHADOW_WAITING;
    list_add_tail(&shadow->waiting, &recv->node);
    shadow->stats.waited++;
    if (++shadow->stats.waiting > shadow->stats.waiting_max)
        shadow->stats.waiting_max = shadow->stats.waiting;
}

/* recv is over; the device does not have it. */
static void shadow_forget(struct shadow *shadow, struct shadow_recv *recv)
{
    if (recv->state == SHADOW_SOFTWARE) {
        filter_count(&shadow->filter, recv->match, -1);
    } else if (recv->state == SHADOW_WAITING) {
        list_remove(&recv->node);
        shadow->stats.waiting--;
    }
    recv->state = SHADOW_NONE;
}

void shadow_taken(struct shadow *shadow, struct shadow_recv *recv)
{
    if (was_recalled(shadow, recv)) {
        shadow->slots[recv->handle].recv = NULL;
        recv->state = SHADOW_NONE;
        shadow->stats.taken++;
        return;
    }
    if (recv->state != SHADOW_HANDED) {
        shadow_forget(shadow, recv);
        return;
    }
    list_remove(&recv->node);
    shadow->slots[recv->handle].recv = NULL;
    recv->state = SHADOW_NONE;
    shadow->stats.taken++;
    revoke(shadow, recv);
}

/* True: recv is over.  False: the device has to answer first. */
static bool ask_back(struct shadow *shadow, struct shadow_recv *recv, enum shadow_state state)
{
    if (was_recalled(shadow, recv)) {
        recv->state = state;
        bypass_asked(shadow, recv);
        return false;
    }
    if (recv->state != SHADOW_HANDED) {
        shadow_forget(shadow, recv);
        return true;
    }
    list_remove(&recv->node);
    recv->state = state;
    bypass_asked(shadow, recv);
    revoke(shadow, recv);
    return false;
}

bool shadow_cancel(struct shadow *shadow, struct shadow_recv *recv)
{
    return ask_back(shadow, recv, SHADOW_REVOKING);
}

bool shadow_reclaim(struct shadow *shadow, struct shadow_recv *recv)
{
    return ask_back(shadow, recv, SHADOW_RECLAIMED);
}

void shadow_recall(struct shadow *shadow)
{
    struct list *node;

    if (shadow->is_recalled)
        return;
    shadow->is_recalled = true;
    if (shadow->is_lost)
        return;
    while ((node = list_pop_head(&shadow->waiting)) != NULL) {
        shadow->stats.waiting--;
        keep_here(shadow, container_of(node, struct shadow_recv, node));
    }
    while ((node = list_pop_tail(&shadow->handed)) != NULL) { /* the youngest first: I5 */
        struct shadow_recv *recv = container_of(node, struct shadow_recv, node);

        recv->state = SHADOW_RECALLED;
        filter_count(&shadow->filter, recv->match, +1);
        shadow->recalled++;
        revoke(shadow, recv);
    }
}

void shadow_resume(struct shadow *shadow)
{
    shadow->is_recalled = false;
}

/* ---- events ---- */

static bool knows(const struct shadow *shadow, uint32_t peer)
{
    return shadow->events->knows == NULL || shadow->events->knows(shadow->arg, peer);
}

/* The state after a MATCHED with these flags. */
static enum shadow_slot_state after_match(unsigned flags)
{
    if (flags & MBX_DEVICE_WHOLE)
        return flags & MBX_DEVICE_WANTS_FIN ? SLOT_OWES : SLOT_OVER;
    return flags & MBX_DEVICE_WANTS_FIN ? SLOT_MOVING_OWES : SLOT_MOVING;
}

static void on_matched(struct shadow *shadow, const struct mbx_device_event *event)
{
    struct shadow_slot *slot = &shadow->slots[event->handle];
    struct shadow_recv *recv = slot->recv;

    if (slot->state != SLOT_HELD || recv == NULL || recv->state == SHADOW_PAIRED ||
        !accepts(recv->match, &event->envelope) || !knows(shadow, event->envelope.source)) {
        shadow_distrust(shadow, event);
        return;
    }
    shadow_slot_move(shadow, slot, after_match(event->flags));
    slot->peer = event->envelope.source;
    slot->sender = event->sender;
    shadow->stats.matched++;
    if (recv->state == SHADOW_HANDED) {
        list_remove(&recv->node);
    } else if (!was_recalled(shadow, recv)) {
        count_answer(shadow, recv, false);
        bypass_too_late(shadow, recv);
    }
    recv->state = slot_moves(slot) ? SHADOW_MATCHED : SHADOW_NONE;
    recv->is_sized = !(event->flags & MBX_DEVICE_SIZE_LATER);
    if (!slot_moves(slot))
        slot->recv = NULL;
    shadow->events->matched(shadow->arg, recv, event);
    shadow_settle(shadow, event->handle);
}

static void on_moved(struct shadow *shadow, const struct mbx_device_event *event)
{
    struct shadow_slot *slot = &shadow->slots[event->handle];
    const bool is_incomplete = event->type == MBX_DEVICE_INCOMPLETE;
    struct shadow_recv *recv = slot->recv;

    if (!slot_moves(slot) || recv == NULL) {
        shadow_distrust(shadow, event);
        return;
    }
    if (!recv->is_sized)
        slot->sender = event->sender;
    slot->recv = NULL;
    shadow->stats.incomplete += is_incomplete; /* software sends the FIN */
    shadow_slot_move(shadow, slot, slot_owes(slot) && !is_incomplete ? SLOT_OWES : SLOT_OVER);
    recv->state = SHADOW_NONE;
    shadow->events->moved(shadow->arg, recv, event);
    shadow_settle(shadow, event->handle);
}

static void on_fin_sent(struct shadow *shadow, const struct mbx_device_event *event)
{
    struct shadow_slot *slot = &shadow->slots[event->handle];

    if (!slot_owes(slot)) {
        shadow_distrust(shadow, event);
        return;
    }
    shadow_slot_move(shadow, slot, slot_moves(slot) ? SLOT_MOVING : SLOT_OVER);
    shadow_settle(shadow, event->handle);
}

static void on_revoked(struct shadow *shadow, const struct mbx_device_event *event)
{
    struct shadow_slot *slot = &shadow->slots[event->handle];
    struct shadow_recv *recv = slot->recv;

    /* a revoke that failed follows MATCHED: the device does not hold the entry any more */
    if (!slot->is_revoked || (event->error != 0) == (slot->state == SLOT_HELD)) {
        shadow_distrust(shadow, event);
        return;
    }
    slot->is_revoked = false;
    if (event->error == 0) {
        shadow_slot_move(shadow, slot, SLOT_OVER);
        slot->recv = NULL;
        if (recv != NULL && was_recalled(shadow, recv))
            keep_here(shadow, recv);
        else if (recv != NULL)
            shadow_give_back(shadow, recv);
    }
    shadow_settle(shadow, event->handle);
}

/* False: the owner has no space; no later event may be handled before. */
static bool on_packet(struct shadow *shadow, const struct mbx_device_event *event)
{
    const unsigned char *packet =
        shadow->buffers + event->buffer * shadow->limits.untagged_size;

    if (shadow->events->packet(shadow->arg, event->peer, packet, event->bytes) < 0) {
        shadow->pending = *event;
        return false;
    }
    if (event->type == MBX_DEVICE_UNEXPECTED) {
        shadow->stats.passed++;
        shadow->handled++; /* I1 */
    }
    shadow->is_given[event->buffer] = false;
    shadow->empty[shadow->empty_count++] = event->buffer;
    return true;
}

/* Is the event well formed?  Whether it may come now, its handler checks. */
static bool is_event(const struct shadow *shadow, const struct mbx_device_event *event)
{
    switch ((enum mbx_device_event_type)event->type) {
    case MBX_DEVICE_UNEXPECTED:
    case MBX_DEVICE_PASSED:
        return event->buffer < shadow->untagged && shadow->is_given[event->buffer] &&
               event->bytes <= shadow->limits.untagged_size && knows(shadow, event->peer);
    case MBX_DEVICE_DATA_VALID:
        return event->handle < shadow->list && event->error <= 0;
    case MBX_DEVICE_MATCHED: /* no later event could report the size of a WHOLE match */
        return event->handle < shadow->list &&
               (!(event->flags & MBX_DEVICE_HELD) ||
                (shadow->held != NULL && event->message < shadow->list)) &&
               !((event->flags & MBX_DEVICE_WHOLE) && (event->flags & MBX_DEVICE_SIZE_LATER));
    case MBX_DEVICE_INCOMPLETE:
    case MBX_DEVICE_FIN_SENT:
    case MBX_DEVICE_REVOKED:
        return event->handle < shadow->list;
    case MBX_DEVICE_UNHELD:
        return shadow->held != NULL && event->handle < shadow->list;
    case MBX_DEVICE_LOST:
        return true;
    }
    return false;
}

static bool shadow_take(struct shadow *shadow, const struct mbx_device_event *event)
{
    if (!is_event(shadow, event)) {
        shadow_distrust(shadow, event);
        return true;
    }
    switch ((enum mbx_device_event_type)event->type) {
    case MBX_DEVICE_MATCHED:
        if (event->flags & MBX_DEVICE_HELD)
            held_matched(shadow, event);
        else
            on_matched(shadow, event);
        break;
    case MBX_DEVICE_DATA_VALID:
    case MBX_DEVICE_INCOMPLETE:
        on_moved(shadow, event);
        break;
    case MBX_DEVICE_FIN_SENT:
        on_fin_sent(shadow, event);
        break;
    case MBX_DEVICE_REVOKED:
        on_revoked(shadow, event);
        break;
    case MBX_DEVICE_UNEXPECTED:
    case MBX_DEVICE_PASSED:
        return on_packet(shadow, event);
    case MBX_DEVICE_UNHELD:
        held_left(shadow, event);
        break;
    case MBX_DEVICE_LOST:
        lose(shadow);
        break;
    }
    return true;
}

/* Offers the packet that the owner had no space for.  False: there is still no space. */
static bool take_pending(struct shadow *shadow)
{
    struct mbx_device_event event = shadow->pending;

    shadow->pending.type = 0;
    return event.type == 0 || shadow_take(shadow, &event);
}

int shadow_poll(struct shadow *shadow)
{
    struct mbx_device_event event;
    int count = 0;

    if (!shadow->is_lost && !take_pending(shadow))
        return 0;
    while (count < POLL_EVENTS && !shadow->is_lost &&
           shadow->device->ops->poll(shadow->device, &event, 1) == 1) {
        count++;
        if (!shadow_take(shadow, &event))
            break;
    }
    bypass_recheck(shadow);
    if (shadow->is_stopped)
        return count;
    pump_buffers(shadow);
    pump_waiting(shadow);
    pump_sync(shadow);
    return count;
}

bool shadow_has_work(const struct shadow *shadow)
{
    bool may_hand_over = !list_is_empty(&shadow->waiting) && list_is_empty(&shadow->parked) &&
                         shadow->free_count != 0;

    if (shadow->must_recheck && !list_is_empty(&shadow->parked))
        return true;
    if (shadow->is_stopped)
        return !shadow->is_lost; /* its last event has to be read */
    return shadow->pending.type != 0 || shadow->empty_count != 0 || may_hand_over;
}

/* ---- open and close ---- */

/* The command queue has space for two commands per receive and per held message, for a SYNC,
 * and for each buffer. */
static int configure(struct shadow *shadow)
{
    uint32_t each = shadow->held != NULL ? 4 : 2;

    return shadow->device->ops->configure(shadow->device, shadow->list, each * shadow->list + 2,
                                          shadow->untagged);
}

static int allocate(struct shadow *shadow)
{
    shadow->slots = mem_calloc(shadow->list, sizeof *shadow->slots);
    shadow->free = mem_calloc(shadow->list, sizeof *shadow->free);
    shadow->empty = mem_calloc(shadow->untagged, sizeof *shadow->empty);
    shadow->is_given = mem_calloc(shadow->untagged, sizeof *shadow->is_given);
    shadow->buffers = mem_calloc(shadow->untagged, shadow->limits.untagged_size);
    return shadow->slots != NULL && shadow->free != NULL && shadow->empty != NULL &&
                   shadow->is_given != NULL && shadow->buffers != NULL
               ? 0
               : -ENOMEM;
}

static uint32_t at_most(uint32_t wanted, uint32_t limit)
{
    return wanted == 0 || wanted > limit ? limit : wanted;
}

int shadow_init(struct shadow *shadow, const struct shadow_config *config)
{
    int err;

    *shadow = (struct shadow){
        .device = config->device,
        .events = config->events,
        .arg = config->arg,
        .threshold = config->threshold,
    };
    list_init(&shadow->waiting);
    list_init(&shadow->handed);
    bypass_init(shadow);
    shadow->device->ops->limits(shadow->device, &shadow->limits);
    shadow->list = at_most(config->list, shadow->limits.list);
    shadow->untagged = (uint32_t)max_size(at_most(config->untagged, shadow->limits.untagged),
                                          shadow->limits.untagged_min);
    err = allocate(shadow);
    if (err == 0 && config->holds)
        err = held_init(shadow);
    if (err == 0)
        err = configure(shadow);
    if (err != 0) {
        shadow_fini(shadow);
        return err;
    }
    if (shadow->device->ops->prepare != NULL)
        shadow->device->ops->prepare(shadow->device, shadow->buffers,
                                     shadow->untagged * shadow->limits.untagged_size);
    for (uint32_t i = 0; i < shadow->list; i++)
        shadow->free[shadow->free_count++] = shadow->list - 1 - i;
    for (uint32_t i = 0; i < shadow->untagged; i++)
        shadow->empty[shadow->empty_count++] = shadow->untagged - 1 - i;
    pump_buffers(shadow);
    return 0;
}

void shadow_fini(struct shadow *shadow)
{
    held_fini(shadow);
    mem_free(shadow->slots);
    mem_free(shadow->free);
    mem_free(shadow->empty);
    mem_free(shadow->is_given);
    mem_free(shadow->buffers);
}

/* ---- for tests ---- */

bool shadow_is_valid(const struct shadow *shadow)
{
    uint32_t used = 0, owed = 0;

    if (!bypass_is_valid(shadow) || !held_is_valid(shadow) ||
        (shadow->is_recalled && !list_is_empty(&shadow->handed)))
        return false;
    if (shadow->is_lost)
        return list_is_empty(&shadow->waiting) && list_is_empty(&shadow->handed) &&
               list_is_empty(&shadow->asked) && shadow->recalled == 0;
    for (uint32_t i = 0; i < shadow->list; i++) {
        const struct shadow_slot *slot = &shadow->slots[i];
        bool in_use = slot->state != SLOT_OVER || slot->is_revoked;

        used += in_use;
        if (slot->recv != NULL && (!in_use || slot->recv->handle != i))
            return false;
        owed += slot->state == SLOT_OWES;
    }
    return owed == shadow->owed_count && used + shadow->free_count == shadow->list &&
           used == shadow->stats.in_device;
}
