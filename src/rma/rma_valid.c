/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_valid.c - checks one-sided accesses, ours and peers': rma.h I1 to I6.
 */
#include "rma/rma.h"
#include "core/core.h"

struct accessing {
    uint64_t ours;           /* our accesses on an out, at the peer, or in an answer */
    uint64_t waiting, jobs;  /* on lists */
    uint64_t moving, unread; /* jobs that the transport is moving; entries that are not read */
    bool is_valid;
};

static void count_access(void *arg, void *object)
{
    struct accessing *all = arg;
    const struct request *req = object;
    bool is_ours = PROTO_OF(req->state) == PROTO_ACCESS;
    bool is_job = PROTO_OF(req->state) == PROTO_TARGET;

    all->waiting += req->state == ACCESS_QUEUED;
    all->ours += is_ours && req->state != ACCESS_QUEUED;
    all->jobs += is_job;
    all->moving += req->state == TARGET_MOVING;
    all->unread += req->state == REQUEST_COMPLETE && req->completion.kind == MBX_EVENTS;
    all->is_valid = all->is_valid && (!is_job || HOLDS("rma.h I3", req->done <= req->total));
}

/* Only the first job makes steps. */
static bool jobs_are_valid(const struct accesses *all)
{
    struct list *node;

    list_for_each (node, &all->jobs) {
        const struct request *job = request_of_queue(node);
        bool is_first = node == all->jobs.next;

        if (!HOLDS("rma.h I3", job->peer == all->peer->number) ||
            !HOLDS("rma.h I3", is_first || job->state == TARGET_TURN) ||
            !HOLDS("rma.h I3", is_first || (job->done == 0 && !job->access.is_moved)))
            return false;
    }
    return HOLDS("rma.h I2", valid_length(&all->jobs) == all->job_count);
}

static bool accesses_are_valid(const struct accesses *all)
{
    return HOLDS("rma.h I1", all->under_way <= ACCESS_WINDOW) &&
           HOLDS("rma.h I1", list_is_empty(&all->waiting) || all->under_way == ACCESS_WINDOW) &&
           HOLDS("rma.h I2", all->job_count <= ACCESS_WINDOW) &&
           HOLDS("rma.h I2", all->arrived <= all->job_count) &&
           HOLDS("rma.h I4", list_is_linked(&all->serving.node) == (all->job_count != 0)) &&
           HOLDS("rma.h I5", all->unread <= EVENT_WINDOW) && jobs_are_valid(all);
}

static uint64_t regions_busy(const struct mbx_ep *ep)
{
    const struct region *region;
    uint64_t busy = 0;
    size_t position = 0;

    while ((region = region_next(ep, &position)) != NULL)
        busy += region->busy;
    return busy;
}

bool access_is_valid(const struct mbx_ep *ep)
{
    struct accessing all = {.is_valid = true};
    uint64_t ours = 0, waiting = 0, jobs = 0, unread = 0;
    uint32_t serving = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        const struct accesses *here =
            ep->peers.all[i] != NULL ? ep->peers.all[i]->accesses : NULL;

        if (here == NULL)
            continue;
        if (!accesses_are_valid(here))
            return false;
        ours += here->under_way;
        waiting += valid_length(&here->waiting);
        jobs += here->job_count;
        unread += here->unread;
        serving += here->job_count != 0;
    }
    valid_each(ep, count_access, &all);
    return all.is_valid && HOLDS("rma.h I1", all.ours == ours) &&
           HOLDS("rma.h I1", all.waiting == waiting) && HOLDS("rma.h I2", all.jobs == jobs) &&
           HOLDS("rma.h I4", valid_length(&ep->progress.works) >= serving) &&
           HOLDS("rma.h I5", all.unread == unread) &&
           HOLDS("rma.h I6", all.moving == regions_busy(ep));
}
