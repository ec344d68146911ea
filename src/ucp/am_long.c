/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_long.c - the data of long active messages: received for a handler, by a client, or dropped.
 *
 *   sender                                  receiver
 *   announcement on UCPX_ID_MESSAGES  ──>   handler, or the door, has a buffer
 *   data under its number on UCPX_ID_DATA ──> the receive for this peer and number
 *
 * So long data is matched, and can use all the library's protocols for long messages.
 */
#include <errno.h>

#include "base/log.h"
#include "ucp/am.h"
#include "ucp/datatype.h"
#include "ucp/door.h"

/* ---- void ---- */

/* Has the sender of this data had no memory to send it? */
static bool is_void(const struct mbx_completion *completion)
{
    return completion->error == 0 && completion->status.data == UCPX_AM_VOID &&
           completion->status.size == 0;
}

static void say_void(const struct ucp_worker *worker, const struct mbx_completion *completion)
{
    char text[UCPX_PEER_TEXT];

    LOG_ERROR("libucp: the data of an active message of %s does not come: that process had no "
              "memory to send it",
              ucpx_peer_text(worker, completion->status.source, text));
}

/* ---- for a handler ---- */

static void collected(const struct mbx_completion *completion)
{
    struct ucpx_slot *slot = completion->user;

    if (ucpx_is_loss(completion->error))
        (void)ucpx_loss_shows(slot->worker, slot->peer, completion->error);
    slot->error = completion->error;
    slot->size = completion->received;
    if (unlikely(is_void(completion))) {
        say_void(slot->worker, completion);
        slot->error = -ECANCELED;
    }
    list_remove(&slot->link);
    list_add_tail(&slot->worker->am.collected, &slot->link);
}

bool ucpx_am_collect(struct ucpx_slot *slot, const struct ucpx_message *message)
{
    struct ucp_worker *worker = slot->worker;
    struct ucpx_slot *data = ucpx_slot_make(worker, message->size);
    struct mbx_options options = {.user = data, .flags = MBX_DONE, .done = collected};

    if (data == NULL)
        return false;
    data->announced_by = slot;
    data->peer = slot->peer;
    data->state = UCPX_SLOT_WAITING;
    list_add_tail(&worker->am.collecting, &data->link);
    if (mbx_recv(worker->mbx, slot->peer, UCPX_ID_DATA, message->number, 0, data->bytes,
                 message->size, &options, NULL) == 0)
        return true;
    list_remove(&data->link);
    data->announced_by = NULL;
    ucpx_slot_release(data);
    return false;
}

/* ---- dropped ---- */

/* The receive names its source, so that is the peer in its completion also if the peer is gone. */
static void dropped(const struct mbx_completion *completion)
{
    struct ucp_worker *worker = completion->user;
    struct ucpx_peer *peer = &worker->peers[completion->status.source];

    if (peer->drops-- == UCPX_DROPS_MAX)
        worker->am.may_resume = true;
}

/* A receive of no bytes takes the message; it has no use for the message's length. */
void ucpx_am_drop(struct ucp_worker *worker, const struct ucpx_message *message)
{
    const struct mbx_options options = {.user = worker, .flags = MBX_DONE, .done = dropped};
    char text[UCPX_PEER_TEXT];
    int err;

    worker->peers[message->peer].drops++;
    err = mbx_recv(worker->mbx, message->peer, UCPX_ID_DATA, message->number, 0, NULL, 0,
                   &options, NULL);
    if (err == 0)
        return;
    worker->peers[message->peer].drops--;
    LOG_WARN("libucp: the data of an active message of %s stays unreceived: %s",
             ucpx_peer_text(worker, message->peer, text), mbx_strerror(err));
}

/* ---- by a client ---- */

static struct ucpx_slot *slot_of(void *data)
{
    return container_of(data, struct ucpx_slot, bytes);
}

/* The client needs the data or the descriptor no longer; its handler may still run. */
static void slot_give_up(struct ucpx_slot *slot)
{
    if (slot->state == UCPX_SLOT_HANDLED) {
        slot->state = UCPX_SLOT_TAKEN;
        return;
    }
    list_remove(&slot->link);
    slot->worker->am.kept_count--;
    ucpx_slot_release(slot);
}

/* True: it is a descriptor, and message says of what. */
static bool is_descriptor(const struct ucpx_slot *slot, struct ucpx_message *message)
{
    return slot->is_descriptor && ucpx_message_read(message, slot);
}

static bool is_client_s(const struct ucpx_slot *slot)
{
    return slot->state == UCPX_SLOT_HANDLED || slot->state == UCPX_SLOT_KEPT ||
           slot->state == UCPX_SLOT_ANNOUNCED;
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
    struct ucpx_slot *slot = slot_of(data);
    struct ucpx_message message;

    ucpx_lock(worker);
    if (unlikely(worker->is_armed))
        ucpx_worker_wake(worker); /* a receive that begins here may need progress */
    if (is_client_s(slot)) {
        if (is_descriptor(slot, &message))
            ucpx_am_drop(worker, &message);
        slot_give_up(slot);
    }
    ucpx_unlock(worker);
}

static void data_done(const struct mbx_completion *completion)
{
    struct ucpx_record *record = completion->user;
    int error = completion->error;
    char text[UCPX_PEER_TEXT];

    if (is_void(completion)) {
        say_void(record->worker, completion);
        error = -EIO;
    } else if (error == 0 && completion->received < record->info.length) { /* than announced */
        LOG_ERROR("libucp: %s has sent %zu bytes of %zu of an active message; look at that "
                  "process",
                  ucpx_peer_text(record->worker, completion->status.source, text),
                  completion->received, record->info.length);
        error = -EIO;
    }
    record->info.length = completion->received;
    if (ucpx_is_loss(error) &&
        !ucpx_loss_shows(record->worker, completion->status.source, error)) {
        record->is_withheld = true;
        return;
    }
    ucpx_record_end(record, record->failure != UCS_OK ? record->failure : ucpx_status(error));
}

/* The receive of data that is on its way. */
static int recv_remote(struct ucp_worker *worker, struct ucpx_record *record,
                       const struct ucpx_data *data, const struct ucpx_message *message)
{
    const struct mbx_options options = {.user = record,
                                        .flags =
                                            MBX_DONE | (data->has_layout ? MBX_LAYOUT : 0u),
                                        .layout = &data->layout,
                                        .done = data_done};
    int err;

    record->info.length = message->size;
    worker->held = record;
    err = mbx_recv(worker->mbx, message->peer, UCPX_ID_DATA, message->number, 0, data->bytes,
                   data->size, &options, &record->number);
    worker->held = NULL;
    return err;
}

static ucs_status_ptr_t recv_data(struct ucp_worker *worker, struct ucpx_slot *slot,
                                  const struct ucpx_data *data, struct ucpx_record *record,
                                  const struct ucpx_how *how, size_t *length)
{
    struct ucpx_message message;
    ucs_status_t status;
    int err;

    if (!is_descriptor(slot, &message)) {
        status = ucpx_data_unpack(data, record, slot->bytes, slot->size);
        record->info.length = *length = slot->size;
        return ucpx_record_at_once(record, how, status);
    }
    err = recv_remote(worker, record, data, &message);
    if (err < 0) {
        ucpx_data_end(record);
        ucpx_am_drop(worker, &message);
        return ucpx_record_refuse(record, ucpx_status(err));
    }
    *length = record->info.length;
    if (ucpx_state_of(record) == UCPX_ENDED)
        return ucpx_record_at_once(record, how, record->status);
    return ucpx_request_of(record);
}

/* The descriptor is used up, whatever becomes of the receive that begins. */
static ucs_status_ptr_t recv_begin(struct ucp_worker *worker, struct ucpx_slot *slot,
                                   void *buffer, size_t count, const struct ucpx_how *how,
                                   size_t *length)
{
    struct ucpx_record *record;
    struct ucpx_data data;
    ucs_status_ptr_t result;
    ucs_status_t status;

    record = ucpx_record_begin(worker, UCPX_DATA, how);
    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (!is_client_s(slot))
        return ucpx_record_refuse(record, UCS_ERR_INVALID_PARAM);
    if (slot->is_descriptor && how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    status = ucpx_data_begin(&data, record, UCPX_UNPACKS, buffer, count, how->datatype);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    result = recv_data(worker, slot, &data, record, how, length);
    slot_give_up(slot);
    return result;
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer,
                                      size_t count, const ucp_request_param_t *param)
{
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_DATA);
    ucs_status_ptr_t result;
    size_t length = 0;

    if (status != UCS_OK)
        return ucpx_param_refuse(worker, UCPX_DATA, param, status);
    ucpx_lock(worker);
    result = recv_begin(worker, slot_of(data_desc), buffer, count, &how, &length);
    ucpx_unlock(worker);
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO && !UCS_PTR_IS_PTR(result))
        *param->recv_info.length = length;
    return result;
}
