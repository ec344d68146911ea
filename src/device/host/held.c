/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.c - see held.h.
 */
#include "device/host/held.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

static struct mbx_device_envelope held_envelope_of(const struct mbx_match_envelope *envelope)
{
    return (struct mbx_device_envelope){envelope->context_id, envelope->source, envelope->tag};
}

/* ---- numbers ---- */

/* I1 */
static void held_give_number(struct shadow *shadow, uint32_t number)
{
    shadow->held[number] = (struct shadow_held){.state = HELD_FREE};
    shadow->held_free[shadow->held_free_count++] = number;
}

/* ---- a message comes and goes ---- */

uint32_t held_keep(struct shadow *shadow, const struct mbx_match_envelope *envelope,
                   void *message)
{
    const struct mbx_device_envelope given = held_envelope_of(envelope);
    uint32_t number;

    if (shadow->held == NULL || shadow->is_stopped || shadow->held_free_count == 0 ||
        !shadow_can_distinguish(shadow, envelope))
        return HELD_BY_NONE;
    number = shadow->held_free[shadow->held_free_count - 1];
    if (!shadow_reported(
            shadow, shadow->device->ops->hold(shadow->device, number, &given, shadow->handled)))
        return HELD_BY_NONE;
    shadow->held_free_count--;
    shadow->held[number] = (struct shadow_held){.state = HELD_KEPT, .message = message};
    shadow->stats.held++;
    return number;
}

/* The command queue always has space: a number costs two commands, and is reused only after
 * both have been performed. */
void held_leave(struct shadow *shadow, uint32_t number)
{
    int err;

    if (number == HELD_BY_NONE || shadow->is_stopped)
        return;
    shadow->held[number] = (struct shadow_held){.state = HELD_LEAVING};
    shadow->held_leaving++;
    shadow->stats.unheld++;
    err = shadow->device->ops->unhold(shadow->device, number, shadow->handled);
    if (!shadow_reported(shadow, err) && err != -ENODEV)
        LOG_ERROR("the matching device refuses to give a message back, error %d; please report "
                  "this, and unset MBX_DEVICE meanwhile",
                  err);
}

bool held_post(struct shadow *shadow, struct shadow_recv *recv,
               const struct mbx_match_recv *match, void *buf, size_t size, uint32_t number)
{
    if (number == HELD_BY_NONE || shadow->is_stopped)
        return false;
    recv->match = match;
    recv->buf = buf;
    recv->size = size;
    recv->message = NULL;
    list_init_node(&recv->node);
    if (!shadow_may_have(shadow, match, size) || shadow_append(shadow, recv) != 0) {
        held_leave(shadow, number);
        return false;
    }
    recv->state = SHADOW_PAIRED;
    recv->held = number;
    shadow->held[number].state = HELD_PAIRED;
    shadow->held[number].recv = recv;
    return true;
}

/* ---- events of the device ---- */

void held_matched(struct shadow *shadow, const struct mbx_device_event *event)
{
    struct shadow_slot *slot = &shadow->slots[event->handle];
    const struct shadow_held *held = &shadow->held[event->message];
    struct shadow_recv *recv = slot->recv;
    void *message = held->message;

    if (slot->state != SLOT_HELD || recv == NULL || recv->state != SHADOW_PAIRED ||
        recv->held != event->message) {
        shadow_distrust(shadow, event);
        return;
    }
    shadow_slot_move(shadow, slot, SLOT_OVER);
    slot->recv = NULL;
    recv->state = SHADOW_NONE;
    shadow->stats.matched++;
    shadow->stats.held_matched++;
    held_give_number(shadow, event->message);
    shadow->events->paired(shadow->arg, recv, message);
    shadow_settle(shadow, event->handle);
}

void held_left(struct shadow *shadow, const struct mbx_device_event *event)
{
    if (shadow->held[event->handle].state != HELD_LEAVING || event->error != 0) {
        shadow_distrust(shadow, event);
        return;
    }
    shadow->held_leaving--;
    held_give_number(shadow, event->handle);
}

void held_lose(struct shadow *shadow, struct shadow_recv *recv)
{
    void *message = shadow->held[recv->held].message;

    held_give_number(shadow, recv->held);
    recv->state = SHADOW_NONE;
    shadow->events->paired(shadow->arg, recv, message);
}

/* ---- open, and for tests ---- */

int held_init(struct shadow *shadow)
{
    if (!(shadow->limits.caps & MBX_DEVICE_HOLDS))
        return 0;
    shadow->held = mem_calloc(shadow->list, sizeof *shadow->held);
    shadow->held_free = mem_calloc(shadow->list, sizeof *shadow->held_free);
    if (shadow->held == NULL || shadow->held_free == NULL)
        return -ENOMEM;
    for (uint32_t i = shadow->list; i-- > 0;)
        held_give_number(shadow, i);
    return 0;
}

void held_fini(struct shadow *shadow)
{
    mem_free(shadow->held);
    mem_free(shadow->held_free);
}

bool held_is_valid(const struct shadow *shadow)
{
    uint32_t leaving = 0, free = 0;

    if (shadow->held == NULL)
        return true;
    for (uint32_t i = 0; i < shadow->list; i++) {
        const struct shadow_held *held = &shadow->held[i];

        leaving += held->state == HELD_LEAVING;
        free += held->state == HELD_FREE;
        if (held->state == HELD_PAIRED &&
            (held->recv->state != SHADOW_PAIRED || held->recv->held != i))
            return false;
    }
    return free == shadow->held_free_count && leaving == shadow->held_leaving;
}
