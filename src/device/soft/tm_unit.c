/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_unit.c - see tm_unit.h.
 */
#include "device/soft/tm_unit.h"

#include <errno.h>

#include "base/mem.h"

int tm_init(struct tm_unit *unit, const struct tm_config *config)
{
    struct tm_entry *entries = mem_calloc(config->list, sizeof *entries);
    struct tm_held *held = mem_calloc(config->list, sizeof *held);

    if (entries == NULL || held == NULL) {
        mem_free(entries);
        mem_free(held);
        return -ENOMEM;
    }
    *unit = (struct tm_unit){
        .entries = entries,
        .held = held,
        .list = config->list,
        .counter_mask =
            (uint16_t)(config->counter_bits != 0 ? (UINT32_C(1) << config->counter_bits) - 1
                                                 : UINT16_MAX),
        .emit = config->emit,
        .arg = config->arg,
    };
    mbx_match_init(&unit->active, &(struct mbx_match_options){.seed = config->seed});
    list_init(&unit->inactive);
    return 0;
}

void tm_fini(struct tm_unit *unit)
{
    mbx_match_fini(&unit->active);
    mem_free(unit->entries);
    mem_free(unit->held);
}

static struct mbx_match_envelope tm_unit_envelope_of(const struct mbx_device_envelope *envelope)
{
    return (struct mbx_match_envelope){envelope->context_id, envelope->source, envelope->tag};
}

static void emit(const struct tm_unit *unit, enum mbx_device_event_type type, uint32_t handle,
                 int error)
{
    unit->emit(unit->arg, &(struct mbx_device_event){
                              .type = (uint8_t)type, .handle = handle, .error = error});
}

/* ---- entries become active ---- */

/* entry meets a message that software has given to hold; software has its data. */
static void meet_held(struct tm_unit *unit, struct tm_entry *entry, struct mbx_match_msg *msg)
{
    struct tm_held *held = container_of(msg, struct tm_held, match);
    uint32_t handle = tm_handle(unit, entry);

    held->is_held = false;
    entry->state = TM_FREE;
    unit->emit(unit->arg, &(struct mbx_device_event){
                              .type = MBX_DEVICE_MATCHED,
                              .flags = MBX_DEVICE_HELD,
                              .handle = handle,
                              .message = (uint32_t)(held - unit->held),
                              .envelope = {msg->envelope.context_id, msg->envelope.source,
                                           msg->envelope.tag},
                          });
}

/* Activates all inactive entries, the oldest first; without memory the rest stays inactive. */
static void activate(struct tm_unit *unit)
{
    while (!list_is_empty(&unit->inactive)) {
        struct tm_entry *entry = container_of(unit->inactive.next, struct tm_entry, node);
        struct mbx_match_msg *msg;

        if (mbx_match_post(&unit->active, &entry->match, &msg) < 0)
            return;
        list_remove(&entry->node);
        entry->state = TM_ACTIVE;
        if (msg != NULL)
            meet_held(unit, entry, msg);
    }
}

/* ---- commands ---- */

static int append(struct tm_unit *unit, const struct tm_command *command)
{
    struct tm_entry *entry;

    if (command->handle >= unit->list)
        return -EPROTO;
    entry = &unit->entries[command->handle];
    if (entry->state != TM_FREE)
        return -EPROTO;
    entry->match = (struct mbx_match_recv){
        .envelope = tm_unit_envelope_of(&command->envelope),
        .ignore = command->ignore,
    };
    entry->buf = command->buf;
    entry->size = command->size;
    entry->state = TM_INACTIVE;
    list_init_node(&entry->node);
    list_add_tail(&unit->inactive, &entry->node);
    return 0;
}

/* Takes entry off its list; false if it is on none any more. */
static bool take_out(struct tm_unit *unit, struct tm_entry *entry)
{
    if (entry->state == TM_ACTIVE)
        mbx_match_cancel(&unit->active, &entry->match);
    else if (entry->state == TM_INACTIVE)
        list_remove(&entry->node);
    else
        return false;
    entry->state = TM_FREE;
    return true;
}

static int revoke(struct tm_unit *unit, const struct tm_command *command)
{
    if (command->handle >= unit->list)
        return -EPROTO;
    emit(unit, MBX_DEVICE_REVOKED, command->handle,
         take_out(unit, &unit->entries[command->handle]) ? 0 : -ENOENT);
    return 0;
}

/* Software has compared the message with all receives that it had handed over, so the message
 * meets no active entry. */
static int tm_unit_hold(struct tm_unit *unit, const struct tm_command *command)
{
    struct tm_held *held;
    struct mbx_match_recv *recv;
    int err;

    if (command->handle >= unit->list || unit->held[command->handle].is_held)
        return -EPROTO;
    held = &unit->held[command->handle];
    held->match = (struct mbx_match_msg){.envelope = tm_unit_envelope_of(&command->envelope)};
    err = mbx_match_arrive(&unit->active, &held->match, &recv);
    if (err < 0)
        return err; /* an error, because later receives would pass the message */
    held->is_held = recv == NULL;
    if (recv != NULL)
        meet_held(unit, container_of(recv, struct tm_entry, match), &held->match);
    return 0;
}

static int unhold(struct tm_unit *unit, const struct tm_command *command)
{
    struct tm_held *held;

    if (command->handle >= unit->list)
        return -EPROTO;
    held = &unit->held[command->handle];
    emit(unit, MBX_DEVICE_UNHELD, command->handle,
         held->is_held && mbx_match_extract(&unit->active, &held->match) ? 0 : -ENOENT);
    held->is_held = false;
    return 0;
}

int tm_command(struct tm_unit *unit, const struct tm_command *command)
{
    int err = 0;

    switch ((enum tm_command_type)command->type) {
    case TM_APPEND:
        err = append(unit, command);
        break;
    case TM_REVOKE:
        err = revoke(unit, command);
        break;
    case TM_HOLD:
        err = tm_unit_hold(unit, command);
        break;
    case TM_UNHOLD:
        err = unhold(unit, command);
        break;
    case TM_SYNC:
        break;
    case TM_COMMANDS:
    default:
        err = -EPROTO;
    }
    if (err != 0)
        return err;
    unit->handled = command->handled;
    if (tm_is_in_sync(unit))
        activate(unit);
    return 0;
}

/* ---- messages that arrive ---- */

struct tm_entry *tm_match(struct tm_unit *unit, const struct mbx_device_envelope *envelope)
{
    const struct mbx_match_envelope wanted = tm_unit_envelope_of(envelope);
    struct mbx_match_recv *recv = mbx_match_find(&unit->active, &wanted);
    struct tm_entry *entry;

    if (recv == NULL)
        return NULL;
    entry = container_of(recv, struct tm_entry, match);
    entry->state = TM_MATCHED;
    return entry;
}

void tm_found(struct tm_unit *unit)
{
    unit->found++;
}

void tm_release(struct tm_unit *unit, struct tm_entry *entry)
{
    (void)unit;
    entry->state = TM_FREE;
}

bool tm_is_valid(const struct tm_unit *unit)
{
    uint32_t inactive = 0, waiting = 0;
    const struct list *node;

    list_for_each (node, &unit->inactive)
        inactive++;
    for (uint32_t i = 0; i < unit->list; i++) {
        const struct tm_entry *entry = &unit->entries[i];

        waiting += entry->state == TM_INACTIVE;
        if ((entry->state == TM_ACTIVE) != (entry->match.state == MBX_MATCH_QUEUED))
            return false;
    }
    return waiting == inactive && mbx_match_is_valid(&unit->active);
}
