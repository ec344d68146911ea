/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_lane.c - sequences of events (order.c).
 *
 * One thread makes all calls: there is one sequence.  With MPI_THREAD_MULTIPLE the order of the calls of two threads differs from
 * run to run, and so no sequence of both can be replayed.  But if each communicator is used by one thread, then the events of one
 * communicator are a sequence that a replay has again, and no match of one depends on another one:
 *
 *   MPI_COMM_WORLD, and calls without a communicator ──> DIR/rank-R.mbxrec
 *   the communicator that this process has made as number N ──> DIR/comm-N/rank-R.mbxrec
 *
 * Tests and waits belong to the communicator of the first request that is active.  A record says if two threads have used one
 * communicator, and is then not replayed.  The numbers are the same in a replay if the process makes its communicators one after
 * another.
 *
 * Invariants
 *   I1  a lane is used by its thread, except for outcomes that become known later, under pml_order.lock
 *   I2  lanes that were opened stay until MPI_Finalize
 */
#include "pml/order.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

/* Each has a ring and a file. */
#define LANES_MAX 256

static struct {
    struct order_lane *all[LANES_MAX]; /* without the first one */
    size_t count;
    char record_to[PATH_MAX], replay_from[PATH_MAX]; /* or "" */
    struct replay_job job;
    bool is_single; /* one lane has all events: mbx races knows one sequence of each rank */
} lanes;

/* A negative errno after a line that says why not. */
static int lane_open(struct order_lane *lane, const char *record_to, const char *replay_from)
{
    lane->events.user = &order_user;
    lane->events.lock = pml.may_share ? &pml_order.lock : NULL;
    return replay_lane_open(&lane->events, record_to[0] != '\0' ? record_to : NULL,
                            replay_from[0] != '\0' ? replay_from : NULL, &lanes.job);
}

int order_lanes_open(const char *record_to, const char *replay_from,
                     const struct replay_job *job)
{
    const struct replay_lane *events = &pml_order.main.events;

    snprintf(lanes.record_to, PATH_MAX, "%s", record_to != NULL ? record_to : "");
    snprintf(lanes.replay_from, PATH_MAX, "%s", replay_from != NULL ? replay_from : "");
    lanes.job = *job;
    if (lane_open(&pml_order.main, lanes.record_to, lanes.replay_from) < 0)
        return OMPI_ERR_NOT_FOUND;
    lanes.job.is_part = true;
    lanes.is_single = (pml_order.is_traced && events->writer != NULL) ||
                      (events->judge != NULL && replay_judge_is_single(events->judge));
    if (lanes.is_single && events->writer != NULL)
        replay_write_flag(events->writer, REPLAY_SINGLE);
    return OMPI_SUCCESS;
}

/* The folder of a communicator in this one; "" stays.  False: its path is too long. */
static bool lane_folder(const char *folder, uint64_t number, char path[PATH_MAX])
{
    path[0] = '\0';
    return folder[0] == '\0' || snprintf(path, PATH_MAX, "%s/" REPLAY_COMM "%llu", folder,
                                         (unsigned long long)number) < PATH_MAX;
}

/* NULL: there are too many, their paths are too long, or there is no memory. */
static struct order_lane *lane_add(uint64_t number, int *err)
{
    char record_to[PATH_MAX], replay_from[PATH_MAX];
    struct order_lane *lane = NULL;

    if (lanes.count < LANES_MAX && lane_folder(lanes.record_to, number, record_to) &&
        lane_folder(lanes.replay_from, number, replay_from))
        lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    *err = lane_open(lane, record_to, replay_from);
    lanes.all[lanes.count++] = lane;
    return lane;
}

static void flag_threads(const struct order_lane *lane)
{
    if (lane->events.writer != NULL)
        replay_write_flag(lane->events.writer, REPLAY_THREADS);
}

static bool is_main(const ompi_communicator_t *comm)
{
    return comm == NULL || comm == &ompi_mpi_comm_world.comm || lanes.is_single;
}

struct order_lane *order_lane_of_comm(ompi_communicator_t *comm)
{
    struct order_lane *lane = &pml_order.main;
    bool is_its_thread;
    int err = 0;

    pml_threads_meet();
    if (pml_calling_back != 0)
        return NULL;
    pthread_mutex_lock(&pml_order.lock);
    if (!is_main(comm)) {
        struct pml_comm *own = pml_comm_of(comm);

        if (own->lane == NULL)
            own->lane = lane_add(own->number, &err);
        lane = own->lane;
    }
    if (lane == NULL) {
        flag_threads(&pml_order.main);
        pthread_mutex_unlock(&pml_order.lock);
        return NULL;
    }
    if (!lane->has_thread)
        lane->thread = pthread_self();
    lane->has_thread = true;
    is_its_thread = pthread_equal(lane->thread, pthread_self());
    if (!is_its_thread)
        flag_threads(lane);
    pthread_mutex_unlock(&pml_order.lock);
    if (err < 0)
        order_end_job();
    return is_its_thread ? lane : NULL;
}

/* The communicator of a request, or NULL. */
static ompi_communicator_t *comm_of(const ompi_request_t *request)
{
    if (request->req_type == OMPI_REQUEST_PML)
        return ((const mca_pml_base_request_t *)request)->req_comm;
    return request->req_type == OMPI_REQUEST_COLL ? request->req_mpi_object.comm : NULL;
}

/* If no request is active, the result does not depend on time. */
struct order_lane *order_lane_of_request(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i]->req_state != OMPI_REQUEST_INACTIVE &&
            requests[i]->req_type != OMPI_REQUEST_NULL) /* complete from the start */
            return order_lane_of_comm(comm_of(requests[i]));
    return NULL;
}

struct order_lane *order_lane_of_recv(const pml_recv_t *recv)
{
    ompi_communicator_t *comm = recv->super.req_base.req_comm;

    if (is_main(comm))
        return &pml_order.main;
    return pml_comm_of(comm) != NULL ? pml_comm_of(comm)->lane : NULL; /* it may have ended */
}

/* False: it has diverged. */
static bool lane_close(struct order_lane *lane)
{
    bool is_right = replay_lane_close(&lane->events, lane->held);

    free(lane->withheld.recvs);
    *lane = (struct order_lane){.events.is_free = true};
    return is_right;
}

bool order_lanes_close(void)
{
    bool is_right = lane_close(&pml_order.main);

    while (lanes.count > 0) {
        is_right = lane_close(lanes.all[--lanes.count]) && is_right;
        free(lanes.all[lanes.count]);
    }
    return is_right;
}
