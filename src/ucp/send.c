/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - tagged sends.
 *
 *   mbx_try_send    contiguous data that leaves at once: no record, unless the client wants a request
 *   mbx_send        all other data
 *   mbx_ssend       synchronous sends
 *
 * A send that has left when its call returns has no request, and its callback is never called; with
 * UCP_OP_ATTR_FLAG_NO_IMM_CMPL it has one, and the callback is called before the call returns.  The
 * callback of any other send is called later, never within that call: clients write into the request after it.
 */
#include "ucp/door.h"

#include "ucp/datatype.h"

/* ---- without a request ---- */

/* The bits that a mask may have for a send that is done here. */
#define PLAIN                                                                                  \
    (UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |   \
     UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND |       \
     UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)

static inline bool leaves(const struct ucp_ep *ep, const void *buffer, size_t count,
                          ucp_datatype_t datatype, ucp_tag_t tag)
{
    size_t size;

    return likely(ucpx_is_contiguous(datatype)) &&
           likely(ucpx_contiguous_size(datatype, count, &size)) &&
           mbx_try_send(ep->worker->mbx, ep->peer, UCPX_ID_TAGS, tag, buffer, size, 0) == 1;
}

static inline bool leaves_plainly(const struct ucp_ep *ep, const void *buffer, size_t count,
                                  ucp_tag_t tag, const ucp_request_param_t *param)
{
    uint32_t mask = param->op_attr_mask;

    return likely((mask & ~(uint32_t)PLAIN) == 0) &&
           leaves(ep, buffer, count,
                  mask & UCP_OP_ATTR_FIELD_DATATYPE ? param->datatype : ucp_dt_make_contig(1),
                  tag);
}

/* ---- with one ---- */

static int start(struct ucp_ep *ep, const struct ucpx_data *data, ucp_tag_t tag, bool is_sync,
                 struct ucpx_record *record)
{
    const struct mbx_options options = {.user = record,
                                        .flags = MBX_DONE | (is_sync ? 0 : MBX_AT_ONCE) |
                                                 (data->has_layout ? MBX_LAYOUT : 0u),
                                        .layout = &data->layout,
                                        .done = ucpx_send_done};
    struct mbx_ep *mbx = ep->worker->mbx;

    if (is_sync)
        return mbx_ssend(mbx, ep->peer, UCPX_ID_TAGS, tag, data->bytes, data->size, &options,
                         &record->number);
    return mbx_send(mbx, ep->peer, UCPX_ID_TAGS, tag, data->bytes, data->size, &options,
                    &record->number);
}

static ucs_status_ptr_t send_data(struct ucp_ep *ep, const struct ucpx_data *data,
                                  ucp_tag_t tag, bool is_sync, struct ucpx_record *record,
                                  const struct ucpx_how *how)
{
    int result;

    ucpx_ep_adds(ep, record);
    result = start(ep, data, tag, is_sync, record);
    if (result == 0)
        return ucpx_request_of(record);
    ucpx_ep_removes(record);
    ucpx_data_end(record);
    if (result < 0)
        return ucpx_record_refuse(record, ucpx_status(result));
    return ucpx_record_at_once(record, how, UCS_OK);
}

/* A send that may have to wait cannot be taken back: one that must not wait is not begun. */
static ucs_status_ptr_t send_recorded(struct ucp_ep *ep, const void *buffer, size_t count,
                                      ucp_tag_t tag, bool is_sync, const struct ucpx_how *how)
{
    struct ucpx_record *record = ucpx_record_begin(ep->worker, UCPX_SEND, how);
    struct ucpx_data data;
    ucs_status_t status;

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (!is_sync && leaves(ep, buffer, count, how->datatype, tag))
        return ucpx_record_at_once(record, how, UCS_OK);
    if (how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    status = ucpx_data_begin(&data, record, UCPX_PACKS, (void *)(uintptr_t)buffer, count,
                             how->datatype);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    return send_data(ep, &data, tag, is_sync, record, how);
}

static ucs_status_ptr_t send_locked(struct ucp_ep *ep, const void *buffer, size_t count,
                                    ucp_tag_t tag, bool is_sync, const struct ucpx_how *how)
{
    struct ucp_worker *worker = ep->worker; /* a callback may close ep */
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result = send_recorded(ep, buffer, count, tag, is_sync, how);
    ucpx_unlock(worker);
    return result;
}

static ucs_status_ptr_t send_nbx(struct ucp_ep *ep, const void *buffer, size_t count,
                                 ucp_tag_t tag, bool is_sync, const ucp_request_param_t *param)
{
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_SEND);

    if (unlikely(status != UCS_OK))
        return UCS_STATUS_PTR(status);
    return send_locked(ep, buffer, count, tag, is_sync, &how);
}

/* ---- the interface ---- */

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param)
{
    bool has_left;

    ucpx_lock(ep->worker);
    has_left = leaves_plainly(ep, buffer, count, tag, param);
    ucpx_unlock(ep->worker);
    return likely(has_left) ? NULL : send_nbx(ep, buffer, count, tag, false, param);
}

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count,
                                       ucp_tag_t tag, const ucp_request_param_t *param)
{
    return send_nbx(ep, buffer, count, tag, true, param);
}

static struct ucpx_how how_nb(ucp_datatype_t datatype, ucp_send_callback_t cb)
{
    return (struct ucpx_how){.calls = cb != NULL ? UCPX_CALLS_SEND_NB : UCPX_CALLS_NONE,
                             .callback.send_nb = cb,
                             .datatype = datatype};
}

ucs_status_ptr_t ucp_tag_send_nb(ucp_ep_h ep, const void *buffer, size_t count,
                                 ucp_datatype_t datatype, ucp_tag_t tag, ucp_send_callback_t cb)
{
    const struct ucpx_how how = how_nb(datatype, cb);

    return send_locked(ep, buffer, count, tag, false, &how);
}

ucs_status_ptr_t ucp_tag_send_sync_nb(ucp_ep_h ep, const void *buffer, size_t count,
                                      ucp_datatype_t datatype, ucp_tag_t tag,
                                      ucp_send_callback_t cb)
{
    const struct ucpx_how how = how_nb(datatype, cb);

    return send_locked(ep, buffer, count, tag, true, &how);
}

ucs_status_t ucp_tag_send_nbr(ucp_ep_h ep, const void *buffer, size_t count,
                              ucp_datatype_t datatype, ucp_tag_t tag, void *req)
{
    const struct ucpx_how how = {.request = req, .datatype = datatype};
    ucs_status_ptr_t result = send_locked(ep, buffer, count, tag, false, &how);

    return UCS_PTR_IS_PTR(result) ? UCS_INPROGRESS : UCS_PTR_STATUS(result);
}
