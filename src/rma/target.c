/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.c - performs the accesses of peers to our memory; see rma.h.
 *
 * Each access of a peer is a job, a request of kind MBX_EVENTS on its peer's jobs.  The first
 * of them makes steps: at once when it arrives, then in rounds of progress.
 *
 *            ┌── transport moves ──> serve-wait ──┐
 *   serve ───┤                                    ├──> serve ──answer left──> end
 *            └── pull left ────────> wait-push ───┘
 *
 *   PUT      bytes of its packet are copied; otherwise the transport reads the peer's buffer, a
 *            chunk at a time; otherwise they are pulled
 *   GET      bytes that fit into an answer travel in it; otherwise the transport writes to the
 *            peer's buffer; otherwise several answers carry them
 *   ATOMIC   is performed, and the previous values travel in the answer
 *
 * A job stays the first until its answer has left, so bytes that a later one writes never
 * travel in the answer of an earlier one.  The region is looked up for every part.  A job that
 * succeeds and carries data becomes the entry in the owner's queue; all others are internal.
 *
 * A job that could not be finished at once keeps a copy of its packet's payload: at most
 * ACCESS_WINDOW packets of a peer.
 */
#include "rma/rma.h"
#include "transport/memory.h"

#include "core/core.h"

/* ANSWERs with bytes that leave before other requests get their turn. */
#define ANSWER_BURST 16

static size_t answer_capacity(const struct mbx_ep *ep)
{
    return ep->net.transport->limits.packet_max - sizeof(struct wire_header) -
           sizeof(struct wire_answer);
}

static unsigned job_rights(const struct request *job)
{
    switch ((enum access_type)job->access.type) {
    case ACCESS_GET:
        return MBX_REMOTE_READ;
    case ACCESS_ATOMIC:
        if ((job->access.what & WIRE_ATOMIC_OP) == MBX_ATOMIC_READ)
            return MBX_REMOTE_READ;
        return MBX_REMOTE_WRITE |
               (job->access.what & WIRE_ATOMIC_FETCH ? (unsigned)MBX_REMOTE_READ : 0);
    case ACCESS_PUT:
        break;
    }
    return MBX_REMOTE_WRITE;
}

/* Everything except the answer is done. */
static void job_moved(struct request *job, uint16_t error)
{
    job->access.is_moved = true;
    job->access.error = error;
}

/* The region, if the job may still access it; otherwise NULL, and the job ends with an
 * error. */
static struct region *job_region(struct mbx_ep *ep, struct request *job)
{
    uint16_t error = 0;
    struct region *region =
        region_check(ep, job->access.key, job->access.at, job->total, job_rights(job), &error);

    if (region == NULL)
        job_moved(job, error);
    return region;
}

/* ---- answers ---- */

static int job_answer(struct mbx_ep *ep, struct request *job, unsigned flags,
                      const void *payload, size_t size)
{
    const struct wire_answer answer = {
        .sender = job->remote.request,
        .error = job->access.error,
        .offset = job->done,
    };
    const struct outgoing packet = {
        .type = WIRE_ANSWER,
        .flags = flags,
        .body = &answer,
        .payload = payload,
        .payload_size = size,
    };

    return outq_send(peer_get(ep, job->peer)->link, &packet);
}

/* Sends a part of the bytes that are read, in an answer. */
static int job_answer_part(struct mbx_ep *ep, struct request *job, const struct region *region)
{
    size_t size = min_size(answer_capacity(ep), job->total - job->done);
    bool is_last = size == job->total - job->done;
    int err = job_answer(ep, job, is_last ? WIRE_LAST : 0,
                         region_at(region, job->access.at + job->done), size);

    if (err == 0)
        job->done += size;
    return err;
}

/* ---- the steps: 0 the job has ended; -EAGAIN there is no space, or somebody else has to do
 * something; -EINPROGRESS something moved, and more can; or the peer is gone ---- */

/* Moves a chunk by the transport.  0 moved; -EAGAIN; -EINPROGRESS read_done() reports the
 * result; other errors: not possible in this way. */
static int job_chunk(struct mbx_ep *ep, struct request *job, struct region *region)
{
    struct link *link = peer_get(ep, job->peer)->link;
    size_t size = min_size(ep->settings.tuning.read_chunk, job->total - job->done);
    char *here = region_at(region, job->access.at + job->done);
    uint64_t there = job->remote.address + job->done;
    int err;

    proto_move(ep, job, TARGET_MOVING); /* the transport may report the result before it
                                           returns */
    region->busy++;
    if (job->access.type == ACCESS_PUT)
        err = transport_read(link, here, there, job->remote.key, size, job);
    else
        err = transport_write(link, there, job->remote.key, here, size, job);
    if (err == -EINPROGRESS)
        return err;
    region->busy--;
    proto_move(ep, job, TARGET_TURN);
    if (err == 0)
        job->done += size;
    return err;
}

/* The transport cannot move the chunk, this time or ever. */
static void job_chunk_failed(struct mbx_ep *ep, struct request *job, int err)
{
    ep->stats.served_fallbacks++;
    if (err == -ENOTSUP)
        path_cannot_read(peer_get(ep, job->peer));
    job->remote.address = job->remote.key = 0;
}

static bool job_can_chunk(const struct mbx_ep *ep, const struct request *job)
{
    return job->remote.address != 0 && peer_path(peer_get(ep, job->peer))->can_read;
}

/* A step of a job that is too long for packets. */
static int job_step_chunk(struct mbx_ep *ep, struct request *job, struct region *region)
{
    int err = job_chunk(ep, job, region);

    if (err == 0 && job->done == job->total)
        job_moved(job, 0);
    if (err == 0)
        return -EINPROGRESS;
    if (err == -EAGAIN)
        return err;
    if (err == -EINPROGRESS)
        return -EAGAIN; /* until read_done() reports the result */
    job_chunk_failed(ep, job, err);
    return -EINPROGRESS;
}

static int job_pull(struct mbx_ep *ep, struct request *job)
{
    int err = job_answer(ep, job, WIRE_PULL, NULL, 0);

    if (err != 0)
        return err;
    proto_move(ep, job, TARGET_WAIT_PUSH);
    return -EAGAIN;
}

/* Would its event exceed EVENT_WINDOW? */
static bool job_must_wait(const struct request *job, const struct accesses *all)
{
    return job->access.has_data && all->unread >= EVENT_WINDOW;
}

static int job_step_put(struct mbx_ep *ep, struct request *job, struct region *region)
{
    if (job_must_wait(job, peer_get(ep, job->peer)->accesses))
        return -EAGAIN;
    if (job->access.has_payload || job->total == 0) {
        if (job->total != 0)
            memcpy(region_at(region, job->access.at), job->buf, job->total);
        job->done = job->total;
        job_moved(job, 0);
        return -EINPROGRESS;
    }
    return job_can_chunk(ep, job) ? job_step_chunk(ep, job, region) : job_pull(ep, job);
}

static int job_step_get(struct mbx_ep *ep, struct request *job, struct region *region)
{
    int err = 0;

    if (job->total > answer_capacity(ep) && job_can_chunk(ep, job))
        return job_step_chunk(ep, job, region);
    for (int n = 0; n < ANSWER_BURST && err == 0; n++) {
        err = job_answer_part(ep, job, region);
        if (err == 0 && job->done == job->total)
            return 0;
    }
    return err == 0 ? -EINPROGRESS : err;
}

static int job_step_atomic(struct mbx_ep *ep, struct request *job, struct region *region)
{
    const struct access *access = &job->access;
    enum mbx_op op = (enum mbx_op)(access->what & WIRE_ATOMIC_OP);
    enum mbx_type type = (enum mbx_type)((access->what & WIRE_ATOMIC_TYPE) >> 8);

    (void)ep;
    atomic_apply(op, type, access->count, region_at(region, access->at), job->buf,
                 atomic_compares(op) ? job->buf + job->total : NULL,
                 access->what & WIRE_ATOMIC_FETCH);
    job_moved(job, 0);
    return -EINPROGRESS;
}

/* Sends the last answer; the values that an atomic fetched are in place of its operands. */
static int job_step_end(struct mbx_ep *ep, struct request *job)
{
    bool brings = job->access.type == ACCESS_ATOMIC && job->access.error == 0 &&
                  (job->access.what & WIRE_ATOMIC_FETCH);

    return job_answer(ep, job, WIRE_LAST, brings ? job->buf : NULL, brings ? job->total : 0);
}

static int job_step(struct mbx_ep *ep, struct request *job)
{
    struct region *region;

    assert(request_has(ep, job, PART_ACCESS));
    if (job->state != TARGET_TURN)
        return -EAGAIN;
    if (job->access.is_moved)
        return job_step_end(ep, job);
    region = job_region(ep, job);
    if (region == NULL)
        return -EINPROGRESS;
    switch ((enum access_type)job->access.type) {
    case ACCESS_GET:
        return job_step_get(ep, job, region);
    case ACCESS_ATOMIC:
        return job_step_atomic(ep, job, region);
    case ACCESS_PUT:
        break;
    }
    return job_step_put(ep, job, region);
}

/* ---- the end ---- */

/* Counts the job by the rights that it needed: an atomic that modifies and fetches needed
 * both. */
static void job_count(struct mbx_ep *ep, const struct request *job)
{
    struct region *region = region_find(ep, job->access.key);
    bool reads = job_rights(job) & MBX_REMOTE_READ;
    bool writes = job_rights(job) & MBX_REMOTE_WRITE;

    ep->stats.served_reads += reads;
    ep->stats.served_writes += writes;
    ep->stats.served_both += reads && writes;
    if (region == NULL)
        return;
    region->served.reads += reads;
    region->served.writes += writes;
    region->served.both += reads && writes;
}

static void job_end(struct mbx_ep *ep, struct request *job, int err)
{
    struct accesses *all = peer_get(ep, job->peer)->accesses;
    /* a job whose bytes were moved is done, even if its peer can no longer be notified */
    bool is_well = (err == 0 || job->access.is_moved) && job->access.error == 0;

    assert(all->job_count != 0);
    assert(!is_well || job->access.is_moved || job->access.type == ACCESS_GET);
    list_remove(&job->queue);
    all->job_count--;
    all->arrived -= all->arrived != 0;
    if (list_is_empty(&all->jobs))
        list_remove(&all->serving.node);
    if (is_well)
        job_count(ep, job);
    if (is_well && job->access.has_data)
        all->unread++;
    else
        job->flags |= REQUEST_INTERNAL;
    job->completion.received = job->total;
    if (is_well)
        wait_wake(ep); /* wakes threads that wait for its effect, by a counter or by polling */
    request_complete(ep, job, 0);
}

static void target_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *job,
                             int error)
{
    (void)peer;
    job_end(ep, job, error);
}

static void on_event_read(struct mbx_ep *ep, const struct request *req)
{
    assert(peer_get(ep, req->peer)->accesses->unread != 0);
    peer_get(ep, req->peer)->accesses->unread--;
    ep_wake_sleeper(ep);
}

/* ---- progress ---- */

/* Performs the jobs of a peer, in order.  Returns how much has moved. */
static int target_peer(struct mbx_ep *ep, struct accesses *all)
{
    int moved = 0, err = 0;

    while (!list_is_empty(&all->jobs)) {
        struct request *job = request_of_queue(all->jobs.next);

        err = job_step(ep, job);
        moved += err != -EAGAIN;
        if (err == -EAGAIN || (err == -EINPROGRESS && !job->access.is_moved))
            break; /* other peers get their turn */
        if (err != -EINPROGRESS)
            job_end(ep, job, err);
    }
    if (err == -EINPROGRESS)
        ep_wake_sleeper(ep);
    return moved;
}

int target_run(struct mbx_ep *ep, struct work *work)
{
    return target_peer(ep, container_of(work, struct accesses, serving));
}

/* The transport has moved a part of job, or failed to. */
static void target_moved(struct mbx_ep *ep, struct request *job, int error)
{
    struct region *region = region_find(ep, job->access.key);

    assert(request_has(ep, job, PART_ACCESS));
    assert(region != NULL && region->busy != 0); /* the region is not removed before */
    region->busy--;
    proto_move(ep, job, TARGET_TURN);
    if (error < 0)
        job_chunk_failed(ep, job, error);
    else
        job->done += min_size(ep->settings.tuning.read_chunk, job->total - job->done);
    if (error >= 0 && job->done == job->total)
        job_moved(job, region->state == REGION_CLOSING ? EACCES : 0);
    ep_wake_sleeper(ep);
}

/* ---- before something is closed ---- */

/* The accesses to which this entry of mbx_ep.progress.works belongs; NULL: it is another
 * module's. */
static struct accesses *serving_of(struct list *node)
{
    struct work *work = container_of(node, struct work, node);

    return work->run == target_run ? container_of(work, struct accesses, serving) : NULL;
}

void target_note(struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->progress.works) {
        struct accesses *all = serving_of(node);

        if (all != NULL)
            all->arrived = all->job_count;
    }
}

/* Does the first of these jobs wait for the user to read events, or for the peer to send
 * bytes? */
static bool is_stuck(const struct accesses *all)
{
    const struct request *job = request_of_queue(all->jobs.next);

    return job->state == TARGET_WAIT_PUSH ||
           (job->state == TARGET_TURN && !job->access.is_moved && job_must_wait(job, all));
}

bool target_is_done(const struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->progress.works) {
        const struct accesses *all = serving_of(node);

        if (all != NULL && all->arrived != 0 && !is_stuck(all))
            return false;
    }
    return true;
}

/* Does the transport move the bytes of this job? */
static bool is_carried(const struct mbx_ep *ep, const struct request *job)
{
    if (job->access.type == ACCESS_ATOMIC || job->access.is_moved || job->access.has_payload ||
        (job->access.type == ACCESS_GET && job->total <= answer_capacity(ep)))
        return false;
    return job->state == TARGET_MOVING || job_can_chunk(ep, job);
}

/* Is one of the marked jobs for this region? */
static bool has_key(const struct accesses *all, uint64_t key)
{
    uint32_t left = all->arrived;
    struct list *node;

    list_for_each (node, &all->jobs) {
        if (left-- == 0)
            break;
        if (request_of_queue(node)->access.key == key)
            return true;
    }
    return false;
}

bool target_goes_on(const struct mbx_ep *ep, uint64_t key)
{
    struct list *node;

    list_for_each (node, &ep->progress.works) {
        const struct accesses *all = serving_of(node);

        if (all != NULL && has_key(all, key) && !is_stuck(all) &&
            is_carried(ep, request_of_queue(all->jobs.next)))
            return true;
    }
    return false;
}

/* ---- arrivals ---- */

/* Sets the fields of a job from a PUT, GET or ATOMIC.  0; -EPROTO. */
static int job_describe(struct request *job, const struct wire_packet *packet)
{
    const struct wire_range *range = &packet->body.range;
    const struct wire_atomic *atomic = &packet->body.atomic;
    struct access *access = &job->access;
    enum mbx_op op;
    size_t each;

    access->type = packet->header.type == WIRE_PUT   ? ACCESS_PUT
                   : packet->header.type == WIRE_GET ? ACCESS_GET
                                                     : ACCESS_ATOMIC;
    if (packet->header.type != WIRE_ATOMIC) {
        job->remote.request = range->sender;
        access->key = range->key;
        access->at = range->at;
        access->has_data = packet->header.flags & WIRE_HAS_DATA;
        access->has_payload = packet->payload_size != 0;
        job->total = range->size;
        job->remote.address = range->address;
        job->remote.key = range->exposed;
        return 0;
    }
    op = (enum mbx_op)(atomic->what & WIRE_ATOMIC_OP);
    each = mbx_atomic_size(op, (enum mbx_type)((atomic->what & WIRE_ATOMIC_TYPE) >> 8));
    job->remote.request = atomic->sender;
    access->key = atomic->key;
    access->at = atomic->at;
    access->what = atomic->what;
    access->count = atomic->count;
    job->total = atomic->count * each; /* 32 bits times 5: no overflow */
    if (each == 0 || atomic->at + job->total < atomic->at ||
        (op == MBX_ATOMIC_READ && !(atomic->what & WIRE_ATOMIC_FETCH)) ||
        packet->payload_size !=
            (op == MBX_ATOMIC_READ ? 0 : job->total * (atomic_compares(op) ? 2 : 1)))
        return -EPROTO;
    return 0;
}

/* Copies the payload, which the job needs longer than the packet; for an atomic that only
 * reads, makes space for the fetched values. */
static int job_keep(struct request *job, const struct wire_packet *packet)
{
    size_t size = packet->payload_size != 0 ? packet->payload_size : job->total;
    char *copy = mem_alloc(size);

    if (copy == NULL)
        return -ENOMEM;
    if (packet->payload_size != 0)
        memcpy(copy, packet->payload, packet->payload_size);
    job->buf = copy;
    job->flags |= REQUEST_COPIED;
    return 0;
}

static struct request *job_take(struct mbx_ep *ep, struct peer *peer,
                                const struct wire_packet *packet, int *err)
{
    static const struct mbx_options none;
    struct request *job = request_take(ep);

    *err = -EAGAIN;
    if (unlikely(job == NULL))
        return NULL;
    request_init(ep, job, MBX_EVENTS, &none);
    request_start(job, TARGET_TURN);
    job->peer = peer->number;
    job->done = 0;
    job->buf = NULL;
    job->remote.address = job->remote.key = 0;
    job->access = (struct access){.type = 0};
    *err = job_describe(job, packet);
    if (*err == 0 && job->access.type == ACCESS_ATOMIC && job->total > access_atomic_max(ep))
        *err = -EPROTO;
    if (*err == 0 && job->access.type == ACCESS_ATOMIC && job_keep(job, packet) < 0)
        *err = -EAGAIN;
    if (*err < 0) {
        request_drop(ep, job);
        return NULL;
    }
    job->completion.status = (struct mbx_status){
        .source = peer->number,
        .tag = job->access.key,
        .data = packet->header.data,
        .size = job->total,
    };
    return job;
}

/* A PUT, GET or ATOMIC has arrived. */
static int on_access(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    struct accesses *all = access_of(ep, peer);
    struct request *job;
    bool is_first;
    int err;

    if (all == NULL)
        return -EAGAIN;
    if (all->job_count >= ACCESS_WINDOW)
        return -EPROTO;
    job = job_take(ep, peer, packet, &err);
    if (job == NULL)
        return err;
    is_first = list_is_empty(&all->jobs);
    job->buf = job->access.type == ACCESS_PUT ? (char *)(uintptr_t)packet->payload : job->buf;
    if (job->access.has_payload && (!is_first || job_must_wait(job, all)) &&
        job_keep(job, packet) < 0) {
        request_drop(ep, job);
        return -EAGAIN;
    }
    list_add_tail(&all->jobs, &job->queue);
    all->job_count++;
    if (!is_first)
        return 0;
    progress_add(ep, &all->serving);
    ep_wake_sleeper(ep);
    target_peer(ep, all);
    return 0;
}

static int on_push(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_push *push = &packet->body.push;
    struct accesses *all = peer->accesses;
    struct request *job;
    struct region *region;

    if (all == NULL || list_is_empty(&all->jobs))
        return -EPROTO;
    job = request_of_queue(all->jobs.next);
    if (job->state != TARGET_WAIT_PUSH || job->remote.request != push->sender ||
        job->done != push->offset || packet->payload_size > job->total - job->done)
        return -EPROTO;
    region = job_region(ep, job); /* without a region the rest is ignored */
    if (region != NULL)
        memcpy(region_at(region, job->access.at + job->done), packet->payload,
               packet->payload_size);
    job->done += packet->payload_size;
    if (job->done < job->total)
        return 0;
    if (!job->access.is_moved)
        job_moved(job, 0);
    proto_move(ep, job, TARGET_TURN);
    target_peer(ep, all);
    return 0;
}

static const struct proto target_proto = {
    .id = PROTO_TARGET,
    .part = PART_ACCESS,
    .name = "serve",
    .states =
        {
            [TARGET_TURN % PROTO_STATES] = {.name = "turn",
                                            .kinds = MBX_EVENTS,
                                            .queue = PROTO_ALWAYS,
                                            .next = PROTO_NEXT(TARGET_MOVING) |
                                                    PROTO_NEXT(TARGET_WAIT_PUSH)},
            [TARGET_MOVING % PROTO_STATES] = {.name = "moving",
                                              .kinds = MBX_EVENTS,
                                              .queue = PROTO_ALWAYS,
                                              .next = PROTO_NEXT(TARGET_TURN)},
            [TARGET_WAIT_PUSH % PROTO_STATES] = {.name = "wait-push",
                                                 .kinds = MBX_EVENTS,
                                                 .queue = PROTO_ALWAYS,
                                                 .next = PROTO_NEXT(TARGET_TURN),
                                                 .awaits_peer = true},
        },
    .io_done = target_moved,
    .peer_gone = target_peer_gone,
};

/* Does the peer have unfinished accesses, or unread events? */
static bool target_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    const struct accesses *all = peer->accesses;

    (void)ep;
    return all != NULL && (all->job_count != 0 || all->under_way != 0 || all->unread != 0 ||
                           !list_is_empty(&all->waiting));
}

const struct module target_module = {
    .name = "serve",
    .proto = &target_proto,
    .packets = (const struct packet_handler[]){{WIRE_PUT, on_access},
                                               {WIRE_GET, on_access},
                                               {WIRE_ATOMIC, on_access},
                                               {WIRE_PUSH, on_push},
                                               {0}},
    .stop = target_note,
    .is_flushed = target_is_done,
    .event_read = on_event_read,
    .peer_refers = target_on_refers,
    .fini = region_fini,
};
