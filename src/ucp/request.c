/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - what a client does with a request: asks for its result, gives it up, cancels it.
 *
 * The questions read the record alone, without a lock.
 */
#include "ucp/door.h"

#include <stdio.h>

#include "base/log.h"

/* ---- parameters of operations ---- */

#define FIELDS_KNOWN                                                                           \
    (UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |    \
     UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_REPLY_BUFFER |   \
     UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FIELD_MEMH |    \
     UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FLAG_FAST_CMPL |                               \
     UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND)

/* of 1.17; our headers may be older */
#define MEMORY_TYPE_ZE_DEVICE  7
#define MEMORY_TYPE_ZE_MANAGED 8

/* The number of UCS_MEMORY_TYPE_UNKNOWN grows with UCX: no version has one of these for it. */
const char *ucpx_device_memory(ucs_memory_type_t type)
{
    switch ((int)type) {
    case UCS_MEMORY_TYPE_CUDA:
        return "cuda";
    case UCS_MEMORY_TYPE_CUDA_MANAGED:
        return "cuda-managed";
    case UCS_MEMORY_TYPE_ROCM:
        return "rocm";
    case UCS_MEMORY_TYPE_ROCM_MANAGED:
        return "rocm-managed";
    case MEMORY_TYPE_ZE_DEVICE:
        return "ze-device";
    case MEMORY_TYPE_ZE_MANAGED:
        return "ze-managed";
    default:
        return NULL;
    }
}

static ucs_status_t check_param(const ucp_request_param_t *param)
{
    static atomic_bool is_memory_said, is_bits_said;
    uint32_t unknown = param->op_attr_mask & ~(uint32_t)FIELDS_KNOWN;
    const char *device = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE
                             ? ucpx_device_memory(param->memory_type)
                             : NULL;

    if (device != NULL) {
        if (!atomic_exchange(&is_memory_said, true))
            LOG_ERROR(
                "libucp: cannot send GPU memory (type %s); copy it to host memory, or run "
                "without `mbx exec`",
                device);
        return UCS_ERR_UNSUPPORTED;
    }
    if (unknown != 0) {
        if (!atomic_exchange(&is_bits_said, true))
            LOG_ERROR(
                "libucp: the program sets unknown bits %x in ucp_request_param_t; use a newer "
                "Matchbox, or run without `mbx exec`",
                unknown);
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

static void read_callback(struct ucpx_how *how, const ucp_request_param_t *param,
                          enum ucpx_calls calls)
{
    switch (calls) {
    case UCPX_CALLS_SEND:
        how->callback.send = param->cb.send;
        break;
    case UCPX_CALLS_RECV:
        how->callback.recv = param->cb.recv;
        break;
    case UCPX_CALLS_DATA:
        how->callback.data = param->cb.recv_am;
        break;
    case UCPX_CALLS_NONE:
    case UCPX_CALLS_SEND_NB:
    case UCPX_CALLS_RECV_NB:
        return;
    }
    how->calls = calls;
}

ucs_status_t ucpx_how_read(struct ucpx_how *how, const ucp_request_param_t *param,
                           enum ucpx_calls calls)
{
    uint32_t mask = param->op_attr_mask;
    ucs_status_t status = check_param(param);

    if (status != UCS_OK)
        return status;
    *how = (struct ucpx_how){
        .mask = mask,
        .flags = mask & UCP_OP_ATTR_FIELD_FLAGS ? param->flags : 0,
        .request = mask & UCP_OP_ATTR_FIELD_REQUEST ? param->request : NULL,
        .user_data = mask & UCP_OP_ATTR_FIELD_USER_DATA ? param->user_data : NULL,
        .datatype = mask & UCP_OP_ATTR_FIELD_DATATYPE ? param->datatype : ucp_dt_make_contig(1),
    };
    if (mask & UCP_OP_ATTR_FIELD_CALLBACK && param->cb.send != NULL)
        read_callback(how, param, calls);
    return UCS_OK;
}

ucs_status_ptr_t ucpx_param_refuse(struct ucp_worker *worker, enum ucpx_kind kind,
                                   const ucp_request_param_t *param, ucs_status_t status)
{
    struct ucpx_how how = {.calls = UCPX_CALLS_NONE};

    if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST))
        return UCS_STATUS_PTR(status);
    how.request = param->request;
    ucpx_lock(worker);
    (void)ucpx_record_refuse(ucpx_record_begin(worker, kind, &how), status);
    ucpx_unlock(worker);
    return UCS_STATUS_PTR(status);
}

/* ---- results ---- */

int ucp_request_is_completed(void *request)
{
    return ucpx_state_of(ucpx_record_of(request)) == UCPX_COMPLETE;
}

ucs_status_t ucp_request_check_status(void *request)
{
    const struct ucpx_record *record = ucpx_record_of(request);

    return ucpx_state_of(record) == UCPX_COMPLETE ? record->status : UCS_INPROGRESS;
}

ucs_status_t ucp_request_test(void *request, ucp_tag_recv_info_t *info)
{
    const struct ucpx_record *record = ucpx_record_of(request);

    if (ucpx_state_of(record) != UCPX_COMPLETE)
        return UCS_INPROGRESS;
    if (record->kind == UCPX_RECV && info != NULL)
        *info = record->info;
    return record->status;
}

ucs_status_t ucp_tag_recv_request_test(void *request, ucp_tag_recv_info_t *info)
{
    return ucp_request_test(request, info);
}

ucs_status_t ucp_request_query(void *request, ucp_request_attr_t *attr)
{
    static const char *const kinds[] = {[UCPX_SEND] = "tagged send",
                                        [UCPX_RECV] = "tagged receive",
                                        [UCPX_MESSAGE] = "active message",
                                        [UCPX_DATA] = "data of an active message",
                                        [UCPX_ACCESS] = "one-sided access",
                                        [UCPX_FLUSH] = "flush",
                                        [UCPX_CLOSE] = "close",
                                        [UCPX_PROBED] = "message of a probe",
                                        [UCPX_ALLOCATED] = "no operation"};
    const struct ucpx_record *record = ucpx_record_of(request);

    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_STATUS)
        attr->status = ucp_request_check_status(request);
    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_MEM_TYPE)
        attr->mem_type = UCS_MEMORY_TYPE_HOST;
    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_INFO_STRING &&
        attr->field_mask & UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE)
        snprintf(attr->debug_string, attr->debug_string_size, "%s over Matchbox",
                 kinds[record->kind]);
    return UCS_OK;
}

/* ---- giving up ---- */

/* MPICH 5.0 releases one request twice when processes connect. */
static void say_twice(void)
{
    static atomic_bool is_said;

    if (!atomic_exchange(&is_said, true))
        LOG_WARN("libucp: a request was released twice; the second time has no effect");
}

/* Memory that the client has provided is its own, unless ucp_request_alloc() has provided it. */
static void give_up(struct ucpx_record *record, bool keeps_callback)
{
    enum ucpx_state state = ucpx_state_of(record);

    if (state == UCPX_FREE || record->is_released) {
        say_twice();
    } else if (state == UCPX_COMPLETE && !record->is_reported) {
        ucpx_record_put(record);
    } else {
        record->is_released = true;
        if (!keeps_callback)
            record->calls = UCPX_CALLS_NONE;
    }
}

static void give_up_locked(void *request, bool keeps_callback)
{
    struct ucpx_record *record = ucpx_record_of(request);
    struct ucp_worker *worker = record->worker;

    ucpx_lock(worker);
    give_up(record, keeps_callback);
    ucpx_unlock(worker);
}

void ucp_request_release(void *request)
{
    give_up_locked(request, true);
}

void ucp_request_free(void *request)
{
    give_up_locked(request, false);
}

/* ---- memory for the client ---- */

void *ucp_request_alloc(ucp_worker_h worker)
{
    struct ucpx_record *record;

    ucpx_lock(worker);
    record = ucpx_record_take(worker, UCPX_ALLOCATED);
    if (record != NULL) {
        worker->pool.allocated++;
        record->status = UCS_OK;
        ucpx_state_set(record, UCPX_COMPLETE);
    }
    ucpx_unlock(worker);
    return record != NULL ? ucpx_request_of(record) : NULL;
}

/* ---- cancel ---- */

/* Sends go on, as over UCX.  A receive that has matched completes as usual. */
static void cancel(struct ucp_worker *worker, struct ucpx_record *record)
{
    if (record->kind != UCPX_RECV || ucpx_state_of(record) != UCPX_OPEN)
        return;
    worker->held = record;
    if (record->is_withheld)
        ucpx_record_end(record, UCS_ERR_CANCELED);
    else
        (void)mbx_cancel(worker->mbx, record->number);
    worker->held = NULL;
    if (ucpx_state_of(record) != UCPX_ENDED)
        return;
    ucpx_worker_has_news(worker);
    ucpx_record_complete(record);
}

void ucp_request_cancel(ucp_worker_h worker, void *request)
{
    ucpx_lock(worker);
    cancel(worker, ucpx_record_of(request));
    ucpx_unlock(worker);
}
