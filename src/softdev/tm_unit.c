/* SPDX-License-Identifier: BSD-3-Clause */
#include "softdev/tm_unit.h"

#include <errno.h>

#include "base/mem.h"

int soft_init(struct soft *soft, const struct soft_config *config)
{
    struct soft_entry *entries = mem_calloc(config->list, sizeof *entries);
    struct soft_held *held = mem_calloc(config->list, sizeof *held);

    if (entries == NULL || held == NULL) {
        mem_free(entries);
        mem_free(held);
        return -ENOMEM;
    }
    *soft = (struct soft){
        .entries = entries,
        .held = held,
        .list = config->list,
        .counter_mask =
            (uint16_t)(config->counter_bits != 0 ? (UINT32_C(1) << config->counter_bits) - 1
                                                 : UINT16_MAX),
        .emit = config->emit,
        .arg = config->arg,
    };
    mbx_match_init(&soft->active, &(struct mbx_match_options){.seed = config->seed});
    list_init(&soft->inactive);
    return 0;
}

void soft_fini(struct soft *soft)
{
    mbx_match_fini(&soft->active);
    mem_free(soft->entries);
    mem_free(soft->held);
}

static struct mbx_match_envelope envelope_of(const struct mbx_device_envelope *envelope)
{
    return (struct mbx_match_envelope){envelope->context_id, envelope->source, envelope->tag};
}

static void emit(const struct soft *soft, enum mbx_device_event_type type, uint32_t handle,
                 int error)
{
    soft->emit(soft->arg, &(struct mbx_device_event){
                              .type = (uint8_t)type, .handle = handle, .error = error});
}

/* ---- entries become active ---- */

/* entry meets a message that software had given to hold; its data is software's. */
static void meet_held(struct soft *soft, struct soft_entry *entry, struct mbx_match_msg *msg)
{
    struct soft_held *held = container_of(msg, struct soft_held, match);
    uint32_t handle = soft_handle(soft, entry);

    held->is_held = false;
    entry->state = SOFT_FREE;
    soft->emit(soft->arg, &(struct mbx_device_event){
                              .type = MBX_DEVICE_MATCHED,
                              .flags = MBX_DEVICE_HELD,
                              .handle = handle,
                              .message = (uint32_t)(held - soft->held),
                              .envelope = {msg->envelope.context_id, msg->envelope.source,
                                           msg->envelope.tag},
                          });
}

/* All of them, the oldest first; without memory the rest stays as it is. */
static void activate(struct soft *soft)
{
    while (!list_is_empty(&soft->inactive)) {
        struct soft_entry *entry = container_of(soft->inactive.next, struct soft_entry, node);
        struct mbx_match_msg *msg;

        if (mbx_match_post(&soft->active, &entry->match, &msg) < 0)
            return;
        list_remove(&entry->node);
        entry->state = SOFT_ACTIVE;
        if (msg != NULL)
            meet_held(soft, entry, msg);
    }
}

/* ---- commands ---- */

static int append(struct soft *soft, const struct soft_command *command)
{
    struct soft_entry *entry;

    if (command->handle >= soft->list)
        return -EPROTO;
    entry = &soft->entries[command->handle];
    if (entry->state != SOFT_FREE)
        return -EPROTO;
    entry->match = (struct mbx_match_recv){
        .envelope = envelope_of(&command->envelope),
        .ignore = command->ignore,
    };
    entry->buf = command->buf;
    entry->size = command->size;
    entry->state = SOFT_INACTIVE;
    list_init_node(&entry->node);
    list_add_tail(&soft->inactive, &entry->node);
    return 0;
}

/* Takes entry out of the list; false if it is not there any more. */
static bool take_out(struct soft *soft, struct soft_entry *entry)
{
    if (entry->state == SOFT_ACTIVE)
        mbx_match_cancel(&soft->active, &entry->match);
    else if (entry->state == SOFT_INACTIVE)
        list_remove(&entry->node);
    else
        return false;
    entry->state = SOFT_FREE;
    return true;
}

static int revoke(struct soft *soft, const struct soft_command *command)
{
    if (command->handle >= soft->list)
        return -EPROTO;
    emit(soft, MBX_DEVICE_REVOKED, command->handle,
         take_out(soft, &soft->entries[command->handle]) ? 0 : -ENOENT);
    return 0;
}

static void take_back(struct soft *soft)
{
    for (uint32_t i = 0; i < soft->list; i++)
        take_out(soft, &soft->entries[i]);
    emit(soft, MBX_DEVICE_REVOKED_ALL, 0, 0);
}

/* Software has compared the message with all that it handed over before, so it meets
 * nothing that is active. */
static int hold(struct soft *soft, const struct soft_command *command)
{
    struct soft_held *held;
    struct mbx_match_recv *recv;

    if (command->handle >= soft->list || soft->held[command->handle].is_held)
        return -EPROTO;
    held = &soft->held[command->handle];
    held->match = (struct mbx_match_msg){.envelope = envelope_of(&command->envelope)};
    if (mbx_match_arrive(&soft->active, &held->match, &recv) < 0) {
        emit(soft, MBX_DEVICE_UNHELD, command->handle, 0); /* no memory to hold it */
        return 0;
    }
    held->is_held = recv == NULL;
    if (recv != NULL)
        meet_held(soft, container_of(recv, struct soft_entry, match), &held->match);
    return 0;
}

static int unhold(struct soft *soft, const struct soft_command *command)
{
    struct soft_held *held;

    if (command->handle >= soft->list)
        return -EPROTO;
    held = &soft->held[command->handle];
    emit(soft, MBX_DEVICE_UNHELD, command->handle,
         held->is_held && mbx_match_claim(&soft->active, &held->match) ? 0 : -ENOENT);
    held->is_held = false;
    return 0;
}

int soft_command(struct soft *soft, const struct soft_command *command)
{
    int err = 0;

    switch ((enum soft_command_type)command->type) {
    case SOFT_APPEND:
        err = append(soft, command);
        break;
    case SOFT_REVOKE:
        err = revoke(soft, command);
        break;
    case SOFT_TAKE_BACK:
        take_back(soft);
        break;
    case SOFT_HOLD:
        err = hold(soft, command);
        break;
    case SOFT_UNHOLD:
        err = unhold(soft, command);
        break;
    case SOFT_SYNC:
        break;
    case SOFT_COMMANDS:
    default:
        err = -EPROTO;
    }
    if (err != 0)
        return err;
    soft->handled = command->handled;
    if (soft_is_in_sync(soft))
        activate(soft);
    return 0;
}

/* ---- arrivals ---- */

struct soft_entry *soft_match(struct soft *soft, const struct mbx_device_envelope *envelope)
{
    const struct mbx_match_envelope wanted = envelope_of(envelope);
    struct mbx_match_recv *recv = mbx_match_find(&soft->active, &wanted);
    struct soft_entry *entry;

    if (recv == NULL)
        return NULL;
    entry = container_of(recv, struct soft_entry, match);
    entry->state = SOFT_MATCHED;
    return entry;
}

void soft_found(struct soft *soft)
{
    soft->found++;
}

void soft_release(struct soft *soft, struct soft_entry *entry)
{
    (void)soft;
    entry->state = SOFT_FREE;
}

bool soft_is_valid(const struct soft *soft)
{
    uint32_t inactive = 0, waiting = 0;
    const struct list *node;

    list_for_each (node, &soft->inactive)
        inactive++;
    for (uint32_t i = 0; i < soft->list; i++) {
        const struct soft_entry *entry = &soft->entries[i];

        waiting += entry->state == SOFT_INACTIVE;
        if ((entry->state == SOFT_ACTIVE) != (entry->match.state == MBX_MATCH_QUEUED))
            return false;
    }
    return waiting == inactive && mbx_match_is_valid(&soft->active);
}
