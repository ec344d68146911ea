/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_trace.c - what the program sees goes to the trace, if there are a record and a trace: for mbx races.
 *
 *   receive or probe of the record   its number, and where the program has called it
 *   MPI_Wait, MPI_Test, MPI_Recv,    which receives and synchronous sends it reports as complete
 *   MPI_Request_get_status
 *   send                             where the program has called it
 *   either, after further events     the number of the last event
 *
 * A message joins what a rank knows when a call reports it, not when it arrives: decision 63.  Receives of collectives, whose
 * tags are negative, are not noted: they count from when they are complete.  Nor are calls within a completion's callback.
 */
#include "pml/order.h"

#include <stdlib.h>

#include "base/log.h"

/* So many requests of a call have their handles on the stack. */
#define FEW 32

static struct {
    mca_pml_base_module_send_fn_t send;
    mca_pml_base_module_isend_fn_t isend;
    mca_pml_base_module_isend_init_fn_t isend_init;
    ompi_request_fns_t usual;
} seen;

static void note(enum mbx_note what, mbx_request request, uint64_t number)
{
    (void)mbx_trace_note(pml.ep, what, request, number);
}

/* ---- events ---- */

static uint64_t events_noted;

static uint64_t events_now(void)
{
    return replay_write_events(pml_order.main.events.writer);
}

/* Notes the number of an event of the record.  False: it has none. */
static bool note_number(mbx_request request, uint64_t number)
{
    if (number == 0)
        return false; /* the record could not be written */
    note(MBX_NOTE_EVENT, request, number);
    events_noted = number;
    return true;
}

static void note_event(mbx_request request)
{
    if (note_number(request, events_now()))
        note(MBX_NOTE_CALL, 0, 0);
}

/* The last note was made after so many events: other tests would have led to another call. */
static void note_progress_to(uint64_t events)
{
    if (events != events_noted)
        (void)note_number(0, events);
}

static void note_progress(void)
{
    note_progress_to(events_now());
}

void order_trace_recv(const pml_recv_t *recv)
{
    note_event(recv->own.handle);
}

void order_trace_probe(void)
{
    note_event(0);
}

/* ---- completions that calls report ---- */

static bool is_synchronous(const mca_pml_base_request_t *base)
{
    return base->req_type == MCA_PML_REQUEST_SEND &&
           ((const pml_send_t *)base)->super.req_send_mode == MCA_PML_BASE_SEND_SYNCHRONOUS;
}

/* The library's request whose completion is to be noted, or 0. */
static mbx_request handle_of(const ompi_request_t *request)
{
    const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)request;

    if (request->req_type != OMPI_REQUEST_PML || request->req_state != OMPI_REQUEST_ACTIVE ||
        pml_calling_back != 0 || order_is_withheld(request) ||
        (base->req_tag < 0 && base->req_tag != OMPI_ANY_TAG))
        return 0;
    if (base->req_type == MCA_PML_REQUEST_RECV)
        return ((const pml_recv_t *)base)->own.handle;
    return is_synchronous(base) ? ((const pml_send_t *)base)->own.handle : 0;
}

static bool has_ended(const ompi_request_t *request)
{
    return request == MPI_REQUEST_NULL || request->req_state == OMPI_REQUEST_INACTIVE ||
           (REQUEST_COMPLETE(request) && request->req_status.MPI_ERROR != OMPI_SUCCESS);
}

static bool is_report(mbx_request handle, const ompi_request_t *request)
{
    return handle != 0 && has_ended(request);
}

static void report_one(mbx_request handle, const ompi_request_t *request)
{
    if (!is_report(handle, request))
        return;
    note(MBX_NOTE_REPORTED, handle, 0);
    note_progress();
}

void order_trace_status(const ompi_request_t *request)
{
    mbx_request handle = handle_of(request);

    if (handle == 0)
        return;
    note(MBX_NOTE_REPORTED, handle, 0);
    note_progress();
}

struct watched {
    uint64_t events; /* of the record, before the call */
    bool is_noted;   /* there may be something to be noted */
    mbx_request few[FEW];
    mbx_request *many; /* in place of few; or NULL */
};

static const mbx_request *handles_of(const struct watched *watched)
{
    return watched->many != NULL ? watched->many : watched->few;
}

static struct watched watch(size_t count, ompi_request_t **requests)
{
    struct watched watched = {.events = events_now()};
    mbx_request *handles = watched.few;

    if (count > FEW)
        handles = watched.many = malloc(count * sizeof(mbx_request));
    if (handles == NULL) {
        LOG_WARN("no memory for a call with %zu requests: mbx races may report too much",
                 count);
        return watched;
    }
    for (size_t i = 0; i < count; i++) {
        handles[i] = handle_of(requests[i]);
        watched.is_noted = watched.is_noted || handles[i] != 0;
    }
    return watched;
}

/* The event of the call comes after its last report: a cut that has only some of the reports has no such event. */
static void trace_report(struct watched *watched, size_t count, ompi_request_t **requests)
{
    const mbx_request *handles = handles_of(watched);

    if (!watched->is_noted)
        count = 0;
    while (count > 0 && !is_report(handles[count - 1], requests[count - 1]))
        count--;
    for (size_t i = 0; i + 1 < count; i++)
        if (is_report(handles[i], requests[i])) {
            note(MBX_NOTE_REPORTED, handles[i], 0);
            note_progress_to(watched->events);
        }
    if (count > 0)
        report_one(handles[count - 1], requests[count - 1]);
    free(watched->many);
}

static int seen_wait(ompi_request_t **request, ompi_status_public_t *status)
{
    mbx_request handle = handle_of(*request);
    int err = seen.usual.req_wait(request, status);

    report_one(handle, *request);
    return err;
}

static int seen_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    mbx_request handle = handle_of(*request);
    int err = seen.usual.req_test(request, done, status);

    report_one(handle, *request);
    return err;
}

static int seen_wait_all(size_t count, ompi_request_t **requests,
                         ompi_status_public_t *statuses)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_wait_all(count, requests, statuses);

    trace_report(&watched, count, requests);
    return err;
}

static int seen_test_all(size_t count, ompi_request_t **requests, int *done,
                         ompi_status_public_t *statuses)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_test_all(count, requests, done, statuses);

    trace_report(&watched, count, requests);
    return err;
}

static int seen_wait_any(size_t count, ompi_request_t **requests, int *which,
                         ompi_status_public_t *status)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_wait_any(count, requests, which, status);

    trace_report(&watched, count, requests);
    return err;
}

static int seen_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                         ompi_status_public_t *status)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_test_any(count, requests, which, done, status);

    trace_report(&watched, count, requests);
    return err;
}

static int seen_wait_some(size_t count, ompi_request_t **requests, int *found, int *indices,
                          ompi_status_public_t *statuses)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_wait_some(count, requests, found, indices, statuses);

    trace_report(&watched, count, requests);
    return err;
}

static int seen_test_some(size_t count, ompi_request_t **requests, int *found, int *indices,
                          ompi_status_public_t *statuses)
{
    struct watched watched = watch(count, requests);
    int err = seen.usual.req_test_some(count, requests, found, indices, statuses);

    trace_report(&watched, count, requests);
    return err;
}

/* ---- calls that wait themselves ---- */

/* The request of a blocking call.  Its error. */
static int end(ompi_request_t *request, ompi_status_public_t *status)
{
    mbx_request handle = handle_of(request);
    int err;

    pml_wait(request);
    if (!REQUEST_COMPLETE(request))
        pml_failures_end(request);
    err = request->req_status.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, request->req_status, false);
    if (handle != 0) {
        note(MBX_NOTE_REPORTED, handle, 0);
        note_progress();
    }
    ompi_request_free(&request);
    return err;
}

int order_trace_blocking(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                         ompi_communicator_t *comm, ompi_status_public_t *status, bool is_event)
{
    ompi_request_t *request;
    int err = pml_irecv(buf, count, type, src, tag, comm, &request);

    if (err != OMPI_SUCCESS)
        return err;
    if (is_event)
        order_trace_recv((const pml_recv_t *)request);
    return end(request, status);
}

/* ---- sends ---- */

static bool is_seen(int tag)
{
    return tag >= 0 && pml_calling_back == 0;
}

static void note_send(void)
{
    note(MBX_NOTE_CALL, 0, 0);
    note_progress();
}

static int seen_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    int err = seen.isend(buf, count, type, dst, tag, mode, comm, request);

    if (err != OMPI_SUCCESS || !is_seen(tag))
        return err;
    note_send();
    return err;
}

static int seen_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                     mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    ompi_request_t *request;
    int err;

    if (mode != MCA_PML_BASE_SEND_SYNCHRONOUS || !is_seen(tag)) {
        err = seen.send(buf, count, type, dst, tag, mode, comm);
        if (err == OMPI_SUCCESS && is_seen(tag))
            note_send();
        return err;
    }
    err = seen_isend(buf, count, type, dst, tag, mode, comm, &request);
    /* a synchronous send never leaves at once: it has a request */
    return err != OMPI_SUCCESS ? err : end(request, MPI_STATUS_IGNORE);
}

/* MPI_Start calls the request. */
static int seen_start(size_t count, ompi_request_t **requests)
{
    int err = OMPI_SUCCESS;

    for (size_t i = 0; i < count && err == OMPI_SUCCESS; i++) {
        const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)requests[i];

        err = pml_start(1, &requests[i]);
        if (err != OMPI_SUCCESS || !is_seen(base->req_tag))
            continue;
        note_send();
    }
    return err;
}

static int seen_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                           int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                           ompi_request_t **request)
{
    int err = seen.isend_init(buf, count, type, dst, tag, mode, comm, request);

    if (err == OMPI_SUCCESS)
        (*request)->req_start = seen_start;
    return err;
}

/* ---- opening ---- */

void order_trace_take(mca_pml_base_module_t *module)
{
    pml_order.is_traced = true;
    seen.send = module->pml_send;
    seen.isend = module->pml_isend;
    seen.isend_init = module->pml_isend_init;
    module->pml_send = seen_send;
    module->pml_isend = seen_isend;
    module->pml_isend_init = seen_isend_init;
}

void order_trace_start(void)
{
    seen.usual = ompi_request_functions;
    ompi_request_functions = (ompi_request_fns_t){
        .req_test = seen_test,
        .req_test_any = seen_test_any,
        .req_test_all = seen_test_all,
        .req_test_some = seen_test_some,
        .req_wait = seen_wait,
        .req_wait_any = seen_wait_any,
        .req_wait_all = seen_wait_all,
        .req_wait_some = seen_wait_some,
    };
}
