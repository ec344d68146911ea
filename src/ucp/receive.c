/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - tagged receives, and receives of messages that a probe has taken.
 *
 *   mbx_try_recv    contiguous data of a message that has arrived: no request of the library
 *   mbx_recv        all others
 *   mbx_mrecv       messages of probes
 *
 * Tags and masks are passed on as they are, and the source is always any: a mask is the library's ignored bits,
 * inverted.  A receive that is complete when its call returns has no request, and an error of it is what the call
 * returns; with UCP_OP_ATTR_FLAG_NO_IMM_CMPL it has one, and the callback is called before the call returns.
 */
#include "ucp/door.h"

#include "base/log.h"
#include "ucp/datatype.h"
#include "ucp/receive.h"

/* A receive whose sender is gone while its data is on the way stays open. */
static void recv_done(const struct mbx_completion *completion)
{
    struct ucpx_record *record = completion->user;
    int error = completion->error;

    record->info.sender_tag = completion->status.tag;
    record->info.length = completion->status.size;
    if (ucpx_is_loss(error) &&
        !ucpx_loss_shows(record->worker, completion->status.source, error)) {
        record->is_withheld = true;
        return;
    }
    ucpx_record_end(record, record->failure != UCS_OK ? record->failure : ucpx_status(error));
}

/* A receive that the library has taken, or not. */
static ucs_status_ptr_t began(struct ucpx_record *record, int result,
                              const struct ucpx_how *how)
{
    record->worker->held = NULL;
    if (result < 0) {
        ucpx_data_end(record);
        return ucpx_record_refuse(record, ucpx_status(result));
    }
    if (ucpx_state_of(record) == UCPX_ENDED)
        return ucpx_record_at_once(record, how, record->status);
    return ucpx_request_of(record);
}

static struct mbx_options options_of(struct ucpx_record *record, const struct ucpx_data *data)
{
    return (struct mbx_options){.user = record,
                                .flags = MBX_DONE | (data->has_layout ? MBX_LAYOUT : 0u),
                                .layout = &data->layout,
                                .done = recv_done};
}

/* ---- by tag ---- */

static bool arrived(struct ucpx_record *record, const struct ucpx_data *data, ucp_tag_t tag,
                    ucp_tag_t tag_mask)
{
    struct mbx_status status;

    if (data->has_layout || mbx_try_recv(record->worker->mbx, MBX_ANY_SOURCE, UCPX_ID_TAGS, tag,
                                         ~tag_mask, data->bytes, data->size, &status) != 1)
        return false;
    record->info.sender_tag = status.tag;
    record->info.length = status.size;
    return true;
}

static ucs_status_ptr_t recv_tag(struct ucp_worker *worker, void *buffer, size_t count,
                                 ucp_tag_t tag, ucp_tag_t tag_mask, const struct ucpx_how *how,
                                 ucp_tag_recv_info_t *info)
{
    struct ucpx_record *record = ucpx_record_begin(worker, UCPX_RECV, how);
    struct mbx_options options;
    struct ucpx_data data;
    ucs_status_t status;
    ucs_status_ptr_t result;
    int err;

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    status = ucpx_data_begin(&data, record, UCPX_UNPACKS, buffer, count, how->datatype);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    if (arrived(record, &data, tag, tag_mask)) {
        *info = record->info;
        return ucpx_record_at_once(record, how, UCS_OK);
    }
    if (how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        ucpx_data_end(record);
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    }
    options = options_of(record, &data);
    worker->held = record;
    err = mbx_recv(worker->mbx, MBX_ANY_SOURCE, UCPX_ID_TAGS, tag, ~tag_mask, data.bytes,
                   data.size, &options, &record->number);
    *info = record->info;
    result = began(record, err, how);
    return result;
}

static ucs_status_ptr_t recv_tag_locked(struct ucp_worker *worker, void *buffer, size_t count,
                                        ucp_tag_t tag, ucp_tag_t tag_mask,
                                        const struct ucpx_how *how, ucp_tag_recv_info_t *info)
{
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result = recv_tag(worker, buffer, count, tag, tag_mask, how, info);
    ucpx_unlock(worker);
    return result;
}

/* The client hears of the message where it wanted to, if the call has received it. */
static ucs_status_ptr_t tell(ucs_status_ptr_t result, const ucp_request_param_t *param,
                             const ucp_tag_recv_info_t *info)
{
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO && !UCS_PTR_IS_PTR(result))
        *param->recv_info.tag_info = *info;
    return result;
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count,
                                  ucp_tag_t tag, ucp_tag_t tag_mask,
                                  const ucp_request_param_t *param)
{
    ucp_tag_recv_info_t info = {0};
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_RECV);

    if (unlikely(status != UCS_OK))
        return ucpx_param_refuse(worker, UCPX_RECV, param, status);
    return tell(recv_tag_locked(worker, buffer, count, tag, tag_mask, &how, &info), param,
                &info);
}

static struct ucpx_how how_nb(ucp_datatype_t datatype, ucp_tag_recv_callback_t cb)
{
    return (struct ucpx_how){.mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                             .calls = cb != NULL ? UCPX_CALLS_RECV_NB : UCPX_CALLS_NONE,
                             .callback.recv_nb = cb,
                             .datatype = datatype};
}

ucs_status_ptr_t ucp_tag_recv_nb(ucp_worker_h worker, void *buffer, size_t count,
                                 ucp_datatype_t datatype, ucp_tag_t tag, ucp_tag_t tag_mask,
                                 ucp_tag_recv_callback_t cb)
{
    const struct ucpx_how how = how_nb(datatype, cb);
    ucp_tag_recv_info_t info;

    return recv_tag_locked(worker, buffer, count, tag, tag_mask, &how, &info);
}

ucs_status_t ucp_tag_recv_nbr(ucp_worker_h worker, void *buffer, size_t count,
                              ucp_datatype_t datatype, ucp_tag_t tag, ucp_tag_t tag_mask,
                              void *req)
{
    struct ucpx_how how = how_nb(datatype, NULL);
    ucp_tag_recv_info_t info;
    ucs_status_ptr_t result;

    how.request = req;
    result = recv_tag_locked(worker, buffer, count, tag, tag_mask, &how, &info);
    return UCS_PTR_IS_ERR(result) ? UCS_PTR_STATUS(result) : UCS_OK;
}

/* ---- messages of probes ---- */

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask,
                                   int remove, ucp_tag_recv_info_t *info)
{
    struct ucpx_record *found;

    ucpx_lock(worker);
    found = remove ? ucpx_probe_take(worker, tag, tag_mask, info)
                   : ucpx_probe_look(worker, tag, tag_mask, info);
    ucpx_unlock(worker);
    return (ucp_tag_message_h)(void *)found;
}

/* The message of a probe is received, or stays the client's. */
static ucs_status_ptr_t recv_message(struct ucp_worker *worker, void *buffer, size_t count,
                                     struct ucpx_record *message, const struct ucpx_how *how,
                                     ucp_tag_recv_info_t *info)
{
    struct ucpx_record *record;
    struct mbx_options options;
    struct ucpx_data data;
    ucs_status_t status;
    int err;

    record = ucpx_record_begin(worker, UCPX_RECV, how);
    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (message->kind != UCPX_PROBED || ucpx_state_of(message) != UCPX_OPEN)
        return ucpx_record_refuse(record, UCS_ERR_INVALID_PARAM);
    status = ucpx_data_begin(&data, record, UCPX_UNPACKS, buffer, count, how->datatype);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    options = options_of(record, &data);
    worker->held = record;
    err = mbx_mrecv(worker->mbx, message->number, data.bytes, data.size, &options,
                    &record->number);
    if (err >= 0)
        ucpx_record_put(message);
    *info = record->info;
    return began(record, err, how);
}

static ucs_status_ptr_t recv_message_locked(struct ucp_worker *worker, void *buffer,
                                            size_t count, ucp_tag_message_h message,
                                            const struct ucpx_how *how,
                                            ucp_tag_recv_info_t *info)
{
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result =
        recv_message(worker, buffer, count, (struct ucpx_record *)(void *)message, how, info);
    ucpx_unlock(worker);
    return result;
}

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count,
                                      ucp_tag_message_h message,
                                      const ucp_request_param_t *param)
{
    ucp_tag_recv_info_t info = {0};
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_RECV);

    if (status != UCS_OK)
        return ucpx_param_refuse(worker, UCPX_RECV, param, status);
    return tell(recv_message_locked(worker, buffer, count, message, &how, &info), param, &info);
}

ucs_status_ptr_t ucp_tag_msg_recv_nb(ucp_worker_h worker, void *buffer, size_t count,
                                     ucp_datatype_t datatype, ucp_tag_message_h message,
                                     ucp_tag_recv_callback_t cb)
{
    const struct ucpx_how how = how_nb(datatype, cb);
    ucp_tag_recv_info_t info;

    return recv_message_locked(worker, buffer, count, message, &how, &info);
}
