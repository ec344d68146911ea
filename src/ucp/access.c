/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access.c - accesses to memory of a peer: puts and gets, and how all accesses begin.
 *
 *   put of at most mbx_limits.inject bytes,     complete when the call returns: the library has a copy
 *   atomic without a result
 *   longer put, get, atomic with a result       a request, which completes when the peer has performed the access
 *   the same, from a function without requests  a record that nobody sees
 *
 * In each case a record is under way until the peer has performed the access, and a flush waits for it (flush.c).  The
 * peer performs accesses in its progress, and keeps the order of each worker's calls.  Nobody takes an access back: the peer
 * may be performing it.
 *
 * The range and the rights that a key names are checked here, so that a client's mistake is an error of its call.  The
 * peer checks them against its own memory: what the key says may be wrong (region.c).
 */
#include "ucp/access.h"

#include "ucp/datatype.h"

/* The addresses of a key do not wrap: before the first of them, the offset is longer than the memory. */
static ucs_status_t check(const struct ucpx_access *access)
{
    const struct ucp_rkey *key = access->key;
    uint64_t offset = access->at - key->address;

    if (access->rights & ~key->rights)
        return UCS_ERR_REJECTED;
    if (offset > key->length || access->size > key->length - offset)
        return UCS_ERR_OUT_OF_RANGE;
    return UCS_OK;
}

/* ---- beginning ---- */

/* UCS_OK: it is under way, or has ended with an error that the record has. */
static ucs_status_t start(const struct ucpx_access *access, struct ucpx_record *record)
{
    const struct mbx_options options = {.user = record,
                                        .flags =
                                            MBX_DONE | (access->leaves_data ? MBX_COPY : 0u),
                                        .done = ucpx_send_done};
    int err;

    ucpx_ep_adds(access->ep, record);
    err = access->start(access, &options, &record->number);
    if (err < 0)
        ucpx_ep_removes(record);
    return ucpx_status(err);
}

/* With a record that nobody sees. */
static ucs_status_t post(const struct ucpx_access *access)
{
    const struct ucpx_how how = {.calls = UCPX_CALLS_NONE};
    struct ucpx_record *record = ucpx_record_begin(access->ep->worker, UCPX_ACCESS, &how);
    ucs_status_t status;

    if (record == NULL)
        return UCS_ERR_NO_MEMORY;
    record->is_released = true;
    status = start(access, record);
    if (status != UCS_OK)
        ucpx_record_put(record);
    return status;
}

/* The client's request is complete before the access is. */
static ucs_status_ptr_t go_copied(const struct ucpx_access *access, const struct ucpx_how *how,
                                  struct ucpx_record *record)
{
    ucs_status_t status = access->size == 0 ? UCS_OK : post(access);

    return status == UCS_OK ? ucpx_record_at_once(record, how, UCS_OK)
                            : ucpx_record_refuse(record, status);
}

static ucs_status_ptr_t go(const struct ucpx_access *access, const struct ucpx_how *how)
{
    struct ucpx_record *record = ucpx_record_begin(access->ep->worker, UCPX_ACCESS, how);
    ucs_status_t status = check(access);

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    if (access->leaves_data || access->size == 0)
        return go_copied(access, how, record);
    if (how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    status = start(access, record);
    return status == UCS_OK ? ucpx_request_of(record) : ucpx_record_refuse(record, status);
}

ucs_status_ptr_t ucpx_access_go(const struct ucpx_access *access, const struct ucpx_how *how)
{
    struct ucp_worker *worker = access->ep->worker; /* a callback may close the endpoint */
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result = go(access, how);
    ucpx_unlock(worker);
    return result;
}

ucs_status_t ucpx_access_post(const struct ucpx_access *access)
{
    ucs_status_t status = check(access);

    if (status != UCS_OK || access->size == 0)
        return status;
    ucpx_lock(access->ep->worker);
    status = post(access);
    ucpx_unlock(access->ep->worker);
    return status == UCS_OK && !access->leaves_data ? UCS_INPROGRESS : status;
}

/* A callback may call this: there the record ends, and is not reported. */
ucs_status_t ucpx_access_wait(const struct ucpx_access *access)
{
    const struct ucpx_how how = {.calls = UCPX_CALLS_NONE};
    struct ucp_worker *worker = access->ep->worker;
    ucs_status_ptr_t request = ucpx_access_go(access, &how);
    struct ucpx_record *record;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request))
        return UCS_PTR_STATUS(request);
    record = ucpx_record_of(request);
    while (ucpx_state_of(record) == UCPX_OPEN)
        ucp_worker_progress(worker);
    status = record->status;
    ucp_request_free(request);
    return status;
}

/* ---- puts and gets ---- */

static int start_put(const struct ucpx_access *access, const struct mbx_options *options,
                     mbx_request *request)
{
    return mbx_write(access->ep->worker->mbx, access->ep->peer, access->from, access->size,
                     access->key->key, access->at, options, request);
}

static int start_get(const struct ucpx_access *access, const struct mbx_options *options,
                     mbx_request *request)
{
    return mbx_read(access->ep->worker->mbx, access->ep->peer, access->to, access->size,
                    access->key->key, access->at, options, request);
}

static struct ucpx_access put_of(struct ucp_ep *ep, const void *buffer, size_t size,
                                 uint64_t at, const struct ucp_rkey *key)
{
    return (struct ucpx_access){.ep = ep,
                                .key = key,
                                .at = at,
                                .size = size,
                                .rights = MBX_REMOTE_WRITE,
                                .leaves_data = size <= ep->worker->inject,
                                .from = buffer,
                                .start = start_put};
}

static struct ucpx_access get_of(struct ucp_ep *ep, void *buffer, size_t size, uint64_t at,
                                 const struct ucp_rkey *key)
{
    return (struct ucpx_access){.ep = ep,
                                .key = key,
                                .at = at,
                                .size = size,
                                .rights = MBX_REMOTE_READ,
                                .to = buffer,
                                .start = start_get};
}

/* Reads param, and the size of the data. */
static ucs_status_t read_param(struct ucpx_how *how, const ucp_request_param_t *param,
                               size_t count, size_t *size)
{
    ucs_status_t status = ucpx_how_read(how, param, UCPX_CALLS_SEND);

    if (status != UCS_OK)
        return status;
    if (!ucpx_is_contiguous(how->datatype))
        return ucpx_unsupported("ucp_put_nbx and ucp_get_nbx of data that is not contiguous");
    return ucpx_contiguous_size(how->datatype, count, size) ? UCS_OK : UCS_ERR_INVALID_PARAM;
}

static struct ucpx_how access_how_nb(ucp_send_callback_t cb)
{
    return (struct ucpx_how){.calls = cb != NULL ? UCPX_CALLS_SEND_NB : UCPX_CALLS_NONE,
                             .callback.send_nb = cb};
}

/* ---- the interface ---- */

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count,
                             uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    struct ucpx_how how;
    struct ucpx_access put;
    size_t size = 0;
    ucs_status_t status = read_param(&how, param, count, &size);

    if (status != UCS_OK)
        return UCS_STATUS_PTR(status);
    put = put_of(ep, buffer, size, remote_addr, rkey);
    return ucpx_access_go(&put, &how);
}

ucs_status_ptr_t ucp_put_nb(ucp_ep_h ep, const void *buffer, size_t length,
                            uint64_t remote_addr, ucp_rkey_h rkey, ucp_send_callback_t cb)
{
    const struct ucpx_access put = put_of(ep, buffer, length, remote_addr, rkey);
    const struct ucpx_how how = access_how_nb(cb);

    return ucpx_access_go(&put, &how);
}

ucs_status_t ucp_put_nbi(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr,
                         ucp_rkey_h rkey)
{
    const struct ucpx_access put = put_of(ep, buffer, length, remote_addr, rkey);

    return ucpx_access_post(&put);
}

ucs_status_t ucp_put(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr,
                     ucp_rkey_h rkey)
{
    const struct ucpx_access put = put_of(ep, buffer, length, remote_addr, rkey);

    return ucpx_access_wait(&put);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    struct ucpx_how how;
    struct ucpx_access get;
    size_t size = 0;
    ucs_status_t status = read_param(&how, param, count, &size);

    if (status != UCS_OK)
        return UCS_STATUS_PTR(status);
    get = get_of(ep, buffer, size, remote_addr, rkey);
    return ucpx_access_go(&get, &how);
}

ucs_status_ptr_t ucp_get_nb(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr,
                            ucp_rkey_h rkey, ucp_send_callback_t cb)
{
    const struct ucpx_access get = get_of(ep, buffer, length, remote_addr, rkey);
    const struct ucpx_how how = access_how_nb(cb);

    return ucpx_access_go(&get, &how);
}

ucs_status_t ucp_get_nbi(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr,
                         ucp_rkey_h rkey)
{
    const struct ucpx_access get = get_of(ep, buffer, length, remote_addr, rkey);

    return ucpx_access_post(&get);
}

ucs_status_t ucp_get(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr,
                     ucp_rkey_h rkey)
{
    const struct ucpx_access get = get_of(ep, buffer, length, remote_addr, rkey);

    return ucpx_access_wait(&get);
}
