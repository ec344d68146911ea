/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_shuffle.c - random choices wherever MPI leaves a choice, so that rare orders occur more often (MBX_SHUFFLE).
 *
 *   receive or probe from any source   takes a message of a random one of the senders whose messages wait, after a pause
 *   send                               begins after a pause
 *   test                               finds nothing, at most NOT_YET_MAX times in a row
 *   wait for any or some, or a test    takes a random one, or some, of the complete requests
 *
 * A pause is a time of progress: none in most calls, and at most PAUSE_NS.  A pause within the call, instead of a receive that
 * is held after it, keeps the order in which the program posts, and needs no state.  All of this is legal: a call may take any
 * time, MPI does not say when a message arrives, and of several complete requests any may be returned.
 *
 * order.c records what was chosen.  The seed and the rank give the choices, but not when messages arrive: the same seed may
 * give another order.
 */
#include "pml/order.h"

#include "base/clock.h"
#include "base/random.h"

#define PAUSE_NS       (2 * CLOCK_MS)
#define PAUSE_ONE_IN   8
#define NOT_YET_ONE_IN 4
#define NOT_YET_MAX    8

static struct {
    struct random random;
    unsigned not_yet; /* in a row */
    bool is_ending;   /* requests that are chosen */
    pthread_t thread; /* of MPI_Init */
    mca_pml_base_module_send_fn_t send;
    mca_pml_base_module_isend_fn_t isend;
    ompi_request_fns_t usual;
} shuffle;

/* Is it a call of the program, and of the thread of MPI_Init?  Others make no choices. */
static bool is_chosen(void)
{
    return pml_calling_back == 0 &&
           (!pml.may_share || pthread_equal(shuffle.thread, pthread_self()));
}

static bool is_one_in(uint64_t count)
{
    return random_below(&shuffle.random, count) == 0;
}

static void pause_a_while(void)
{
    uint64_t end_ns;

    if (!is_one_in(PAUSE_ONE_IN))
        return;
    end_ns = clock_now() + random_below(&shuffle.random, PAUSE_NS);
    while (clock_now() < end_ns)
        pml_progress_test();
}

/* Shall a test of these requests find nothing?  Not if one is not ours: the program may know that it is complete. */
static bool finds_nothing(size_t count, ompi_request_t **requests)
{
    bool has_active = false;

    for (size_t i = 0; i < count; i++) {
        if (requests[i]->req_state == OMPI_REQUEST_INACTIVE)
            continue;
        if (requests[i]->req_type != OMPI_REQUEST_PML)
            return false;
        has_active = true;
    }
    if (!has_active || shuffle.is_ending)
        return false;
    if (shuffle.not_yet < NOT_YET_MAX && is_one_in(NOT_YET_ONE_IN)) {
        shuffle.not_yet++;
        pml_progress_test();
        return true;
    }
    shuffle.not_yet = 0;
    return false;
}

/* ---- receives and probes ---- */

static bool waits(int rank, int tag, ompi_communicator_t *comm)
{
    struct mbx_status found;
    struct pml_wanted wanted;

    return pml_comm_wanted(comm, rank, tag, &wanted) == OMPI_SUCCESS &&
           mbx_probe(pml.ep, wanted.source, wanted.context_id, wanted.tag, wanted.ignore,
                     &found) == 1;
}

int order_shuffle_source(int src, int tag, ompi_communicator_t *comm)
{
    uint64_t senders = 0;
    int chosen = src;

    if (src != OMPI_ANY_SOURCE)
        return src;
    if (pml.may_share)
        return src; /* another thread could take the message that is found */
    pause_a_while();
    pml_progress_test();
    for (int rank = 0; rank < (int)pml_comm_of(comm)->size; rank++)
        if (waits(rank, tag, comm) && is_one_in(++senders))
            chosen = rank;
    /* a sender may have cancelled its message since */
    return chosen == src || waits(chosen, tag, comm) ? chosen : src;
}

/* ---- sends ---- */

/* Any thread may send: a send is no event. */
static void pause_before_send(int tag)
{
    if (tag >= 0 && !pml.may_share && pml_calling_back == 0)
        pause_a_while();
}

static int shuffle_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    pause_before_send(tag);
    return shuffle.send(buf, count, type, dst, tag, mode, comm);
}

static int shuffle_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                         mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                         ompi_request_t **request)
{
    pause_before_send(tag);
    return shuffle.isend(buf, count, type, dst, tag, mode, comm, request);
}

/* ---- tests and waits ---- */

static bool is_active(const ompi_request_t *request)
{
    return request->req_state != OMPI_REQUEST_INACTIVE;
}

static bool has_active(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (is_active(requests[i]))
            return true;
    return false;
}

static bool is_complete(const ompi_request_t *request)
{
    return is_active(request) && REQUEST_COMPLETE(request);
}

/* The index of a random request that is complete; count: none is. */
static size_t any_complete(size_t count, ompi_request_t **requests)
{
    size_t found = 0, chosen = count;

    pause_a_while();
    for (size_t i = 0; i < count; i++)
        if (is_complete(requests[i]) && is_one_in(++found))
            chosen = i;
    return chosen;
}

static int shuffle_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    *done = 0;
    if (is_chosen() && finds_nothing(1, request))
        return OMPI_SUCCESS;
    return shuffle.usual.req_test(request, done, status);
}

static int shuffle_test_all(size_t count, ompi_request_t **requests, int *done,
                            ompi_status_public_t *statuses)
{
    *done = 0;
    if (is_chosen() && finds_nothing(count, requests))
        return OMPI_SUCCESS;
    return shuffle.usual.req_test_all(count, requests, done, statuses);
}

static int shuffle_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                            ompi_status_public_t *status)
{
    size_t chosen;

    if (!is_chosen() || !has_active(count, requests))
        return shuffle.usual.req_test_any(count, requests, which, done, status);
    *which = MPI_UNDEFINED;
    *done = 0;
    if (finds_nothing(count, requests))
        return OMPI_SUCCESS;
    chosen = any_complete(count, requests);
    if (chosen == count)
        return shuffle.usual.req_test_any(count, requests, which, done, status);
    *which = (int)chosen;
    return shuffle.usual.req_test(&requests[chosen], done, status);
}

static int shuffle_wait_any(size_t count, ompi_request_t **requests, int *which,
                            ompi_status_public_t *status)
{
    size_t chosen = is_chosen() ? any_complete(count, requests) : count;
    int done;

    if (chosen == count)
        return shuffle.usual.req_wait_any(count, requests, which, status);
    *which = (int)chosen;
    return shuffle.usual.req_test(&requests[chosen], &done, status);
}

/* Ends a random part of the requests that are complete, which is not empty and has all that failed: Open MPI frees those
 * also if they are not returned.  How many; 0: none is complete. */
static int some_complete(size_t count, ompi_request_t **requests, int *indices,
                         ompi_status_public_t *statuses, int *err)
{
    size_t sure = any_complete(count, requests);
    int found = 0;

    for (size_t i = 0; sure < count && i < count; i++)
        if (i == sure || (is_complete(requests[i]) &&
                          (requests[i]->req_status.MPI_ERROR != OMPI_SUCCESS || is_one_in(2))))
            indices[found++] = (int)i;
    shuffle.is_ending = true;
    *err = order_end_some(found, requests, indices, statuses);
    shuffle.is_ending = false;
    return found;
}

static int shuffle_test_some(size_t count, ompi_request_t **requests, int *found, int *indices,
                             ompi_status_public_t *statuses)
{
    int err;

    if (!is_chosen() || !has_active(count, requests))
        return shuffle.usual.req_test_some(count, requests, found, indices, statuses);
    *found = 0;
    if (finds_nothing(count, requests))
        return OMPI_SUCCESS;
    *found = some_complete(count, requests, indices, statuses, &err);
    return *found > 0 ? err
                      : shuffle.usual.req_test_some(count, requests, found, indices, statuses);
}

static int shuffle_wait_some(size_t count, ompi_request_t **requests, int *found, int *indices,
                             ompi_status_public_t *statuses)
{
    int err;

    if (!is_chosen() || !has_active(count, requests))
        return shuffle.usual.req_wait_some(count, requests, found, indices, statuses);
    *found = some_complete(count, requests, indices, statuses, &err);
    return *found > 0 ? err
                      : shuffle.usual.req_wait_some(count, requests, found, indices, statuses);
}

/* ---- opening ---- */

void order_shuffle_take(mca_pml_base_module_t *module)
{
    shuffle.send = module->pml_send;
    shuffle.isend = module->pml_isend;
    module->pml_send = shuffle_send;
    module->pml_isend = shuffle_isend;
}

void order_shuffle_start(uint64_t seed, uint32_t rank)
{
    random_seed(&shuffle.random, seed << 32 | rank);
    shuffle.usual = pml_order.usual;
    pml_order.usual.req_test = shuffle_test;
    pml_order.usual.req_test_all = shuffle_test_all;
    pml_order.usual.req_test_any = shuffle_test_any;
    pml_order.usual.req_test_some = shuffle_test_some;
    pml_order.usual.req_wait_any = shuffle_wait_any;
    pml_order.usual.req_wait_some = shuffle_wait_some;
    shuffle.thread = pthread_self();
    pml_order.is_shuffled = true;
}
