/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_requests.c - tests, and waits for any or some of several requests, that are recorded, or replayed (order.c).
 */
#include "pml/order.h"

#include <dlfcn.h>
#include <string.h>

#include "pml/preload.h"

static bool is_active(const ompi_request_t *request)
{
    return request->req_state != OMPI_REQUEST_INACTIVE && !order_is_withheld(request);
}

/* A wait is no event.  In the record it has ended, unless the rank was killed there: then the rank goes on freely here. */
static int order_req_wait(ompi_request_t **request, ompi_status_public_t *status)
{
    (void)order_let_end(1, request);
    return pml_order.usual.req_wait(request, status);
}

static int order_req_wait_all(size_t count, ompi_request_t **requests,
                              ompi_status_public_t *statuses)
{
    (void)order_let_end(count, requests);
    return pml_order.usual.req_wait_all(count, requests, statuses);
}

/* Nothing was complete: nothing is, whatever has come. */
static void hold_back(struct order_lane *lane, size_t count, ompi_request_t **requests)
{
    pml_progress_test();
    for (size_t i = 0; i < count; i++)
        if (is_active(requests[i]) && REQUEST_COMPLETE(requests[i])) {
            lane->held++;
            return;
        }
}

/* A request that is complete, or will be, ends as MPI_Test ends it. */
static int end_one(ompi_request_t **request, ompi_status_public_t *status)
{
    int done = 0, err;

    pml_wait(*request);
    do
        err = pml_order.usual.req_test(request, &done, status);
    while (err == OMPI_SUCCESS && !done);
    return err;
}

/* MPI_Test, MPI_Testall, or MPI_Request_get_status. */
struct flag_call {
    enum replay_kind kind;
    int (*usual)(const struct flag_call *call, int *done);
    size_t count;
    ompi_request_t **requests;
    ompi_status_public_t *statuses;
};

static int flag_event(const struct flag_call *call, int *done)
{
    struct order_lane *lane = order_lane_for(call->count, call->requests);
    struct replay_signature now = order_signature_of_requests(call->kind, call->count);
    struct replay_outcome outcome;
    int err = OMPI_SUCCESS;

    if (lane == NULL)
        return call->usual(call, done);
    *done = 0;
    if (!order_is_replayed(lane, &now, NULL, &outcome)) {
        err = call->usual(call, done);
    } else if (outcome.result == REPLAY_FALSE) {
        hold_back(lane, call->count, call->requests);
    } else if (outcome.result == REPLAY_TRUE && order_let_end(call->count, call->requests)) {
        for (size_t i = 0; i < call->count; i++)
            pml_wait(call->requests[i]);
        do
            err = call->usual(call, done);
        while (err == OMPI_SUCCESS && !*done);
    } else {
        order_refuse(lane, &now, NULL, order_why_not(&outcome));
        err = call->usual(call, done);
    }
    order_record(lane, &now, order_outcome(*done ? REPLAY_TRUE : REPLAY_FALSE, 0));
    order_event_ends(lane);
    return err;
}

static int usual_test(const struct flag_call *call, int *done)
{
    return pml_order.usual.req_test(call->requests, done, call->statuses);
}

static OUT_OF_LINE int test_event(ompi_request_t **request, int *done,
                                  ompi_status_public_t *status)
{
    return flag_event(&(struct flag_call){REPLAY_TEST, usual_test, 1, request, status}, done);
}

/* The outcome of a test that is only recorded, and is not what the last event was. */
static OUT_OF_LINE void record_test(bool is_done)
{
    const struct replay_signature now = order_signature_of_requests(REPLAY_TEST, 1);

    order_record(&pml_order.main, &now, order_outcome(is_done ? REPLAY_TRUE : REPLAY_FALSE, 0));
}

static int order_req_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    int err;

    if (!order_is_plain())
        return test_event(request, done, status);
    *done = 0;
    err = pml_order.usual.req_test(request, done, status);
    if (*done || !replay_test_again(pml_order.tail))
        record_test(*done);
    return err;
}

static int usual_test_all(const struct flag_call *call, int *done)
{
    return pml_order.usual.req_test_all(call->count, call->requests, done, call->statuses);
}

static int order_req_test_all(size_t count, ompi_request_t **requests, int *done,
                              ompi_status_public_t *statuses)
{
    return flag_event(
        &(struct flag_call){REPLAY_TESTALL, usual_test_all, count, requests, statuses}, done);
}

/* Lets the request of a recorded index end.  False: it cannot have been completed. */
static bool let_one_end(uint64_t index, size_t count, ompi_request_t **requests)
{
    return index < count && order_let_end(1, &requests[index]) && is_active(requests[index]);
}

static bool none_is_active(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i]->req_state != OMPI_REQUEST_INACTIVE)
            return false;
    return true;
}

/* MPI_Testany and MPI_Waitany as recorded: true, and *err. */
static bool any_replayed(struct order_lane *lane, const struct replay_signature *now,
                         size_t count, ompi_request_t **requests, int *which, int *done,
                         ompi_status_public_t *status, int *err)
{
    struct replay_outcome outcome;

    if (!order_is_replayed(lane, now, NULL, &outcome))
        return false;
    *err = OMPI_SUCCESS;
    *which = MPI_UNDEFINED;
    *done = outcome.result != REPLAY_FALSE;
    if (outcome.result == REPLAY_FALSE && now->kind == REPLAY_TESTANY) {
        hold_back(lane, count, requests);
        return true;
    }
    if (outcome.result == REPLAY_AT && let_one_end(outcome.value, count, requests)) {
        *which = (int)outcome.value;
        *err = end_one(&requests[outcome.value], status);
        return true;
    }
    if (outcome.result != REPLAY_NONE || !none_is_active(count, requests))
        order_refuse(lane, now, NULL, order_why_not(&outcome));
    return false;
}

static int order_req_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                              ompi_status_public_t *status)
{
    struct order_lane *lane = order_lane_for(count, requests);
    struct replay_signature now = order_signature_of_requests(REPLAY_TESTANY, count);
    int err;

    if (lane == NULL)
        return pml_order.usual.req_test_any(count, requests, which, done, status);
    if (!any_replayed(lane, &now, count, requests, which, done, status, &err))
        err = pml_order.usual.req_test_any(count, requests, which, done, status);
    order_record(lane, &now,
                 !*done                    ? order_outcome(REPLAY_FALSE, 0)
                 : *which == MPI_UNDEFINED ? order_outcome(REPLAY_NONE, 0)
                                           : order_outcome(REPLAY_AT, (uint64_t)*which));
    order_event_ends(lane);
    return err;
}

static int order_req_wait_any(size_t count, ompi_request_t **requests, int *which,
                              ompi_status_public_t *status)
{
    struct order_lane *lane = order_lane_for(count, requests);
    struct replay_signature now = order_signature_of_requests(REPLAY_WAITANY, count);
    int done, err;

    if (lane == NULL)
        return pml_order.usual.req_wait_any(count, requests, which, status);
    if (!any_replayed(lane, &now, count, requests, which, &done, status, &err))
        err = pml_order.usual.req_wait_any(count, requests, which, status);
    order_record(lane, &now,
                 *which == MPI_UNDEFINED ? order_outcome(REPLAY_NONE, 0)
                                         : order_outcome(REPLAY_AT, (uint64_t)*which));
    order_event_ends(lane);
    return err;
}

/* The indices that follow in the record; false: they are not there, or cannot be. */
static bool some_indices(struct order_lane *lane, const struct replay_signature *now,
                         uint64_t wanted, size_t count, ompi_request_t **requests, int *indices)
{
    const struct replay_signature index = {.kind = REPLAY_INDEX};
    struct replay_outcome outcome = {.result = REPLAY_AT};

    for (uint64_t i = 0; i < wanted; i++) {
        bool is_new = true;

        if (i >= count || !order_is_replayed(lane, &index, NULL, &outcome))
            return false;
        for (uint64_t before = 0; before < i; before++)
            is_new = is_new && (uint64_t)indices[before] != outcome.value;
        if (outcome.result != REPLAY_AT || !is_new ||
            !let_one_end(outcome.value, count, requests)) {
            order_refuse(lane, now, NULL, order_why_not(&outcome));
            return false;
        }
        indices[i] = (int)outcome.value;
    }
    return wanted > 0;
}

/* All are complete before the first ends, as in Open MPI. */
int order_end_some(int found, ompi_request_t **requests, const int *indices,
                   ompi_status_public_t *statuses)
{
    int all = OMPI_SUCCESS;

    for (int i = 0; i < found; i++)
        pml_wait(requests[indices[i]]);
    for (int i = 0; i < found; i++) {
        ompi_status_public_t *status =
            statuses != MPI_STATUSES_IGNORE ? &statuses[i] : MPI_STATUS_IGNORE;
        int err = end_one(&requests[indices[i]], status);

        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = err;
        if (err != OMPI_SUCCESS)
            all = MPI_ERR_IN_STATUS;
    }
    return all;
}

/* MPI_Testsome and MPI_Waitsome as recorded: true, and *err. */
static bool some_replayed(struct order_lane *lane, const struct replay_signature *now,
                          size_t count, ompi_request_t **requests, int *found, int *indices,
                          ompi_status_public_t *statuses, int *err)
{
    struct replay_outcome outcome;

    if (!order_is_replayed(lane, now, NULL, &outcome))
        return false;
    *err = OMPI_SUCCESS;
    *found = 0;
    if (outcome.result == REPLAY_FALSE && now->kind == REPLAY_TESTSOME) {
        hold_back(lane, count, requests);
        return true;
    }
    if (outcome.result == REPLAY_NONE && none_is_active(count, requests))
        return false; /* and so it says itself */
    if (outcome.result != REPLAY_AT || outcome.value == 0 || outcome.value > count) {
        order_refuse(lane, now, NULL, order_why_not(&outcome));
        return false;
    }
    if (!some_indices(lane, now, outcome.value, count, requests, indices))
        return false;
    *found = (int)outcome.value;
    *err = order_end_some(*found, requests, indices, statuses);
    return true;
}

static void record_some(struct order_lane *lane, const struct replay_signature *now, int found,
                        const int *indices)
{
    const struct replay_signature index = {.kind = REPLAY_INDEX};

    order_record(lane, now,
                 found == MPI_UNDEFINED ? order_outcome(REPLAY_NONE, 0)
                 : found == 0           ? order_outcome(REPLAY_FALSE, 0)
                                        : order_outcome(REPLAY_AT, (uint64_t)found));
    for (int i = 0; found != MPI_UNDEFINED && i < found; i++)
        order_record(lane, &index, order_outcome(REPLAY_AT, (uint64_t)indices[i]));
}

/* MPI_Testsome or MPI_Waitsome. */
static int some_event(enum replay_kind kind, ompi_request_test_some_fn_t usual, size_t count,
                      ompi_request_t **requests, int *found, int *indices,
                      ompi_status_public_t *statuses)
{
    struct order_lane *lane = order_lane_for(count, requests);
    struct replay_signature now = order_signature_of_requests(kind, count);
    int err;

    if (lane == NULL)
        return usual(count, requests, found, indices, statuses);
    if (!some_replayed(lane, &now, count, requests, found, indices, statuses, &err))
        err = usual(count, requests, found, indices, statuses);
    record_some(lane, &now, *found, indices);
    order_event_ends(lane);
    return err;
}

static int order_req_test_some(size_t count, ompi_request_t **requests, int *found,
                               int *indices, ompi_status_public_t *statuses)
{
    return some_event(REPLAY_TESTSOME, pml_order.usual.req_test_some, count, requests, found,
                      indices, statuses);
}

static int order_req_wait_some(size_t count, ompi_request_t **requests, int *found,
                               int *indices, ompi_status_public_t *statuses)
{
    return some_event(REPLAY_WAITSOME, pml_order.usual.req_wait_some, count, requests, found,
                      indices, statuses);
}

/* ---- MPI_Request_get_status ---- */

static struct pml_preload *preload; /* NULL: it is not loaded */
static pml_get_status_fn *usual_get_status;

static int usual_flag(const struct flag_call *call, int *flag)
{
    return usual_get_status(call->requests[0], flag, call->statuses);
}

static int order_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    int err;

    if (request == NULL || flag == NULL || request->req_state == OMPI_REQUEST_INACTIVE)
        return usual_get_status(request, flag, status);
    err = flag_event(&(struct flag_call){REPLAY_GET_STATUS, usual_flag, 1, &request, status},
                     flag);
    if (pml_order.is_traced && *flag)
        order_trace_status(request);
    return err;
}

/* Open MPI's own function.  A lookup in the whole process would find the preloaded one. */
static void *find_in_libmpi(const char *name)
{
    Dl_info libmpi;
    void *handle;

    if (dladdr((const void *)&ompi_request_functions, &libmpi) == 0)
        return NULL;
    handle = dlopen(libmpi.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return handle != NULL ? dlsym(handle, name) : NULL;
}

bool order_preload_take(void)
{
    void *usual = find_in_libmpi("PMPI_Request_get_status");

    preload = dlsym(RTLD_DEFAULT, "mbx_preload");
    if (preload == NULL || usual == NULL)
        return false;
    memcpy(&usual_get_status, &usual, sizeof usual);
    atomic_store(&preload->get_status, order_get_status);
    atomic_store(&preload->choice, order_choice);
    return true;
}

void order_preload_leave(void)
{
    if (preload == NULL)
        return;
    atomic_store(&preload->get_status, NULL);
    atomic_store(&preload->choice, NULL);
    preload = NULL;
}

/* ---- the functions of Open MPI's table ---- */

void order_requests_take(void)
{
    const struct replay_judge *judge = pml_order.main.events.judge;

    pml_order.usual = ompi_request_functions;
    ompi_request_functions.req_test = order_req_test;
    ompi_request_functions.req_test_any = order_req_test_any;
    ompi_request_functions.req_test_all = order_req_test_all;
    ompi_request_functions.req_test_some = order_req_test_some;
    ompi_request_functions.req_wait_any = order_req_wait_any;
    ompi_request_functions.req_wait_some = order_req_wait_some;
    if (judge == NULL || !replay_judge_is_cut(judge))
        return;
    ompi_request_functions.req_wait = order_req_wait;
    ompi_request_functions.req_wait_all = order_req_wait_all;
}
