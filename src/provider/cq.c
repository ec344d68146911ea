/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - the completion queue: progress, and completions in libfabric's form.
 *
 *   cq_read:  events, if any      the events that are queued here, oldest first
 *             else each source    progress, poll, convert into the client's array
 *             first failure       it and the completions polled after it become events
 *
 * Completions wait in the endpoints, which keep any number of them, so the queue
 * cannot overrun and its announced size means nothing.  Events hold what cannot
 * wait there: results of probes, which never were requests, and a failed completion
 * with its successors, because libfabric reports a failure by -FI_EAVAIL and returns
 * it by fi_cq_readerr() alone.
 *
 * Invariants
 *   I1  sources are polled only when there are no events, so order is kept
 *   I2  event_capacity >= POLL_BATCH: a polled batch always fits
 *
 * After a read that returned something, clients read again until the queue is empty (Open
 * MPI, MPICH).  The read after a successful one makes no progress (enum prov_cq_next):
 * another completion is unlikely so soon, and polling fetches the cache line that a peer
 * is about to write, before the client can answer the message it has just got.  That
 * cost a third of a round trip.
 *
 * A read never blocks, but after many empty ones in a row it yields the core (idle.c), even if
 * operations are active in the endpoints.
 */
#include "base/sys.h"
#include "provider/cq.h"
#include "provider/envelope.h"
#include "provider/ep.h"
#include "provider/event.h"
#include "provider/fabric.h"
#include "provider/valid.h"

#include <assert.h>
#include <stdlib.h>

#define POLL_BATCH       16
#define MIN_ERR_DATA_API FI_VERSION(1, 5)

static struct prov_cq *prov_cq_of(struct fid_cq *fid)
{
    return container_of(fid, struct prov_cq, fid);
}

/* ---- events ----------------------------------------------------------------------- */

static struct prov_event *event_at(struct prov_cq *cq, uint32_t nth)
{
    return &cq->events[(cq->event_head + nth) & (cq->event_capacity - 1)];
}

void prov_cq_ring(struct prov_cq *cq)
{
    prov_wait_ring_armed(&cq->wait, &cq->armed);
}

/* Adds an event, and wakes a client that sleeps on the queue. */
static void event_push(struct prov_cq *cq, const struct prov_event *event)
{
    assert(cq->event_count < cq->event_capacity);
    *event_at(cq, cq->event_count++) = *event;
    prov_cq_ring(cq);
}

static void event_pop(struct prov_cq *cq)
{
    assert(cq->event_count != 0);
    cq->event_head = (cq->event_head + 1) & (cq->event_capacity - 1);
    cq->event_count--;
}

static int events_grow(struct prov_cq *cq)
{
    uint32_t capacity = cq->event_capacity * 2;
    struct prov_event *events = malloc(capacity * sizeof *events);

    if (events == NULL)
        return -FI_ENOMEM;
    for (uint32_t i = 0; i < cq->event_count; i++)
        events[i] = *event_at(cq, i);
    free(cq->events);
    cq->events = events;
    cq->event_capacity = capacity;
    cq->event_head = 0;
    return 0;
}

void prov_cq_push(struct prov_cq *cq, const struct prov_event *event)
{
    prov_cq_lock(cq);
    assert(cq->event_reserved != 0);
    cq->event_reserved--;
    event_push(cq, event);
    prov_cq_unlock(cq);
}

int prov_cq_reserve(struct prov_cq *cq)
{
    int err = 0;

    prov_cq_lock(cq);
    if (cq->event_count + cq->event_reserved + POLL_BATCH >= cq->event_capacity)
        err = events_grow(cq);
    if (err == 0)
        cq->event_reserved++;
    prov_cq_unlock(cq);
    return err;
}

void prov_cq_unreserve(struct prov_cq *cq)
{
    prov_cq_lock(cq);
    assert(cq->event_reserved != 0);
    cq->event_reserved--;
    prov_cq_unlock(cq);
}

/* ---- into the client's array ---------------------------------------------------------- */

static inline void entry_fill(enum fi_cq_format format, void *buf, size_t nth,
                              const struct prov_event *event)
{
    switch (format) {
    case FI_CQ_FORMAT_TAGGED:
        ((struct fi_cq_tagged_entry *)buf)[nth] =
            (struct fi_cq_tagged_entry){.op_context = event->context,
                                        .flags = event->flags,
                                        .len = event->len,
                                        .buf = event->buf,
                                        .data = event->data,
                                        .tag = event->tag};
        break;
    case FI_CQ_FORMAT_DATA:
        ((struct fi_cq_data_entry *)buf)[nth] =
            (struct fi_cq_data_entry){.op_context = event->context,
                                      .flags = event->flags,
                                      .len = event->len,
                                      .buf = event->buf,
                                      .data = event->data};
        break;
    case FI_CQ_FORMAT_MSG:
        ((struct fi_cq_msg_entry *)buf)[nth] = (struct fi_cq_msg_entry){
            .op_context = event->context, .flags = event->flags, .len = event->len};
        break;
    case FI_CQ_FORMAT_CONTEXT:
    case FI_CQ_FORMAT_UNSPEC:
        ((struct fi_cq_entry *)buf)[nth].op_context = event->context;
        break;
    }
}

static OUT_OF_LINE ssize_t events_read(struct prov_cq *cq, void *buf, size_t count,
                                       fi_addr_t *sources)
{
    size_t done = 0;

    while (done < count && cq->event_count != 0 && event_at(cq, 0)->error == 0) {
        entry_fill(cq->format, buf, done, event_at(cq, 0));
        if (sources != NULL)
            sources[done] = event_at(cq, 0)->source;
        event_pop(cq);
        done++;
    }
    if (done == 0 && count != 0)
        return -FI_EAVAIL;
    door_idle_ends(&cq->idle);
    return (ssize_t)done;
}

/* Reports one event: in the client's array, or as an event of the queue if others are queued or
 * there is no array (buf is NULL).  Returns the number of entries filled: 1 or 0. */
static inline size_t report(struct prov_cq *cq, const struct prov_event *event, void *buf,
                            size_t nth, fi_addr_t *sources)
{
    if (cq->event_count != 0 || event->error != 0 || buf == NULL) {
        event_push(cq, event);
        return 0;
    }
    entry_fill(cq->format, buf, nth, event);
    if (sources != NULL)
        sources[nth] = event->source;
    return 1;
}

/* A completion of an operation with its own finish function: one-sided calls and multi.c. */
static OUT_OF_LINE size_t convert_by_kind(struct prov_cq *cq, struct prov_ep *ep,
                                          const struct mbx_completion *c, void *buf, size_t nth,
                                          fi_addr_t *sources)
{
    struct prov_op *op = c->user;
    struct prov_event event;
    unsigned finish = prov_op_finish[op->kind](ep, op, c, &event);
    size_t filled = 0;

    if (finish & PROV_FINISH_EVENT)
        filled = report(cq, &event, buf, nth, sources);
    if (finish & PROV_FINISH_CANCELLED) {
        prov_event_cancelled(&event, event.context, true);
        assert(cq->event_reserved != 0);
        cq->event_reserved--;
        event_push(cq, &event);
    }
    return filled;
}

/* Converts any completion.  Returns the number of entries filled: 1, or 0 if there is nothing to
 * report or the completion became an event. */
static OUT_OF_LINE size_t convert(struct prov_cq *cq, struct prov_ep *ep,
                                  const struct mbx_completion *c, void *buf, size_t nth,
                                  fi_addr_t *sources)
{
    const struct prov_op *op = c->user;
    bool aside = cq->event_count != 0 || c->error != 0 || buf == NULL;
    struct prov_event event;

    if (unlikely(c->kind == MBX_EVENTS)) {
        prov_event_written(&event, ep, c);
        return report(cq, &event, buf, nth, sources);
    }
    if (unlikely(prov_op_finish[op->kind] != NULL))
        return convert_by_kind(cq, ep, c, buf, nth, sources);
    if (!prov_event_from(ep, c, sources != NULL || aside, &event))
        return 0;
    return report(cq, &event, buf, nth, sources);
}

/* Short forms of convert() for a plain receive or send, in tagged format. */
static inline void recv_fill(const struct prov_op *op, const struct mbx_completion *c,
                             struct fi_cq_tagged_entry *entry)
{
    uint64_t has_data = 0 - (c->status.tag >> 63); /* all ones or all zeros */

    entry->op_context = op->context;
    entry->flags = op->flags | (has_data & FI_REMOTE_CQ_DATA);
    entry->len = c->received;
    entry->buf = NULL;
    entry->data = c->status.data & has_data;
    entry->tag = c->status.tag & ~PROV_HAS_DATA;
}

static inline void send_fill(const struct prov_op *op, struct fi_cq_tagged_entry *entry)
{
    entry->op_context = op->context;
    entry->flags = op->flags;
    entry->len = 0;
    entry->buf = NULL;
    entry->data = 0;
    entry->tag = 0;
}

/* Reports a send that completed at once, in any format; returns as report() does. */
static OUT_OF_LINE size_t sent_report(struct prov_cq *cq, const struct prov_op *op, void *buf,
                                      size_t nth, fi_addr_t *sources)
{
    const struct prov_event event = {
        .context = op->context,
        .flags = op->flags,
        .source = FI_ADDR_NOTAVAIL,
    };

    return report(cq, &event, buf, nth, sources);
}

/* Converts and releases a completion; returns as convert() does. */
static OUT_OF_LINE size_t read_special(struct prov_cq *cq, struct prov_ep *ep,
                                       const struct mbx_completion *c, void *buf, size_t nth,
                                       fi_addr_t *sources)
{
    size_t filled = convert(cq, ep, c, buf, nth, sources);

    mbx_release(ep->mbx, c);
    return filled;
}

/* Reads the completions of one Matchbox queue, a compile-time constant, until `done` reaches
 * count; the first failure becomes an event, and ends the read. */
static ALWAYS_INLINE size_t queue_read(struct prov_cq *cq, struct prov_ep *ep,
                                       enum mbx_queue queue, bool are_tagged, void *buf,
                                       size_t done, size_t count, fi_addr_t *sources)
{
    struct fi_cq_tagged_entry *entries = buf;
    const struct mbx_completion *c;

    while (done < count && (c = mbx_peek(ep->mbx, queue)) != NULL) {
        struct prov_op *op = c->user;

        if (likely(are_tagged) && likely(op->plain) && likely(c->error == 0)) {
            if (queue == MBX_RECVS)
                recv_fill(op, c, &entries[done++]);
            else
                send_fill(op, &entries[done++]);
            prov_op_put(&ep->ops, op);
            mbx_release(ep->mbx, c);
            continue;
        }
        done += read_special(cq, ep, c, buf, done, sources);
        if (cq->event_count != 0)
            break;
    }
    return done;
}

/* Reads the sends that completed at once; arguments and result as in queue_read(). */
static OUT_OF_LINE size_t sent_read(struct prov_cq *cq, struct prov_ep *ep, bool are_tagged,
                                    void *buf, size_t done, size_t count, fi_addr_t *sources)
{
    struct fi_cq_tagged_entry *entries = buf;

    while (done < count && ep->send.sent != NULL) {
        struct prov_op *op = prov_sent_take(&ep->send);

        if (likely(are_tagged))
            send_fill(op, &entries[done++]);
        else
            done += sent_report(cq, op, buf, done, sources);
        prov_op_put(&ep->ops, op);
    }
    return done;
}

/* Reads the completions of one-sided accesses, one at a time. */
static OUT_OF_LINE size_t accesses_read(struct prov_cq *cq, struct prov_ep *ep, unsigned queues,
                                        void *buf, size_t done, size_t count,
                                        fi_addr_t *sources)
{
    const struct mbx_completion *c;

    while (done < count && cq->event_count == 0 &&
           (c = mbx_peek(ep->mbx, queues & (MBX_ACCESS | MBX_EVENTS))) != NULL)
        done += read_special(cq, ep, c, buf, done, sources);
    return done;
}

/* Reads the completions of one endpoint.  Most clients use the tagged format. */
static ALWAYS_INLINE size_t source_read(struct prov_cq *cq, struct prov_ep *ep, unsigned queues,
                                        void *buf, size_t done, size_t count,
                                        fi_addr_t *sources)
{
    bool are_tagged = likely(cq->format == FI_CQ_FORMAT_TAGGED) && likely(sources == NULL) &&
                      likely(!ep->cntrs.counts);

    if ((queues & MBX_SENDS) && ep->send.sent != NULL)
        done = sent_read(cq, ep, are_tagged, buf, done, count, sources);
    if (queues & MBX_SENDS)
        done = queue_read(cq, ep, MBX_SENDS, are_tagged, buf, done, count, sources);
    if ((queues & MBX_RECVS) && likely(cq->event_count == 0))
        done = queue_read(cq, ep, MBX_RECVS, are_tagged, buf, done, count, sources);
    if (unlikely(queues & (MBX_ACCESS | MBX_EVENTS)))
        done = accesses_read(cq, ep, queues, buf, done, count, sources);
    return done;
}

/* For a read with a count of 0, which only makes progress. */
static OUT_OF_LINE void sources_progress(struct prov_cq *cq)
{
    for (unsigned i = 0; i < cq->source_count; i++) {
        prov_ep_lock(cq->sources[i].ep);
        prov_ep_progress(cq->sources[i].ep);
        prov_ep_unlock(cq->sources[i].ep);
    }
}

/* The turn advances before each source is read, so an endpoint that fills the array every time
 * comes last in the next read. */
static inline size_t sources_read(struct prov_cq *cq, void *buf, size_t count,
                                  fi_addr_t *sources)
{
    size_t done = 0;

    for (unsigned i = 0; i < cq->source_count && done < count && cq->event_count == 0; i++) {
        const struct prov_cq_source *source = &cq->sources[cq->turn];

        cq->turn = cq->turn + 1 < cq->source_count ? cq->turn + 1 : 0;
        prov_ep_lock(source->ep);
        if (cq->next == PROV_CQ_PROGRESS)
            prov_ep_progress(source->ep);
        done = source_read(cq, source->ep, source->queues, buf, done, count, sources);
        if (MBX_CHECKS && (done != 0 || cq->event_count != 0))
            prov_check(cq, source->ep);
        prov_ep_unlock(source->ep);
    }
    return done;
}

/* The result of a read that found no entry or left events in the queue. */
static OUT_OF_LINE ssize_t read_in_vain(struct prov_cq *cq, size_t done)
{
    if (cq->event_count != 0) {
        cq->next = PROV_CQ_POLL; /* after the events */
        return done != 0 ? (ssize_t)done : -FI_EAVAIL;
    }
    cq->next = PROV_CQ_PROGRESS;
    return -FI_EAGAIN;
}

static inline bool is_in_vain(const struct prov_cq *cq, size_t done)
{
    return unlikely(done == 0) || unlikely(cq->event_count != 0);
}

/* The result of a read that found `done` entries out of count, and no event. */
static inline ssize_t read_well(struct prov_cq *cq, size_t done, size_t count)
{
    door_idle_ends(&cq->idle);
    cq->next = done < count ? PROV_CQ_EMPTY : PROV_CQ_POLL;
    return (ssize_t)done;
}

static inline ssize_t all_were_read(struct prov_cq *cq, size_t done, size_t count)
{
    return is_in_vain(cq, done) ? read_in_vain(cq, done) : read_well(cq, done, count);
}

static inline ssize_t entries_read(struct prov_cq *cq, void *buf, size_t count,
                                   fi_addr_t *sources)
{
    ssize_t n = -FI_EAGAIN;
    bool tires;

    prov_cq_lock(cq);
    if (unlikely(count == 0))
        sources_progress(cq); /* even if there are events */
    if (unlikely(cq->event_count != 0))
        n = events_read(cq, buf, count, sources);
    else if (cq->next == PROV_CQ_EMPTY && count != 0)
        cq->next = PROV_CQ_PROGRESS;
    else
        n = all_were_read(cq, sources_read(cq, buf, count, sources), count);
    tires = n == -FI_EAGAIN && door_idle_tires(&cq->idle);
    prov_cq_unlock(cq);
    if (unlikely(tires))
        sys_yield();
    return n;
}

static OUT_OF_LINE ssize_t cq_read_all(struct prov_cq *cq, void *buf, size_t count)
{
    return entries_read(cq, buf, count, NULL);
}

/* Would progress and a poll of this endpoint find nothing? */
static inline bool source_is_idle(struct prov_ep *ep)
{
    return likely(!prov_multi_is_busy(&ep->multi)) && ep->send.sent == NULL &&
           mbx_idle(ep->mbx);
}

/* A read through cq->only has found nothing. */
static inline ssize_t only_is_empty(struct prov_cq *cq)
{
    if (unlikely(door_idle_tires(&cq->idle)))
        sys_yield();
    return -FI_EAGAIN;
}

/* As read_in_vain(), and counts the empty read. */
static OUT_OF_LINE ssize_t only_in_vain(struct prov_cq *cq, size_t done)
{
    ssize_t n = read_in_vain(cq, done);

    return n == -FI_EAGAIN ? only_is_empty(cq) : n;
}

/* Reads cq->only.  The queue has no events. */
static OUT_OF_LINE ssize_t cq_read_only(struct prov_cq *cq, struct prov_ep *ep, void *buf,
                                        size_t count)
{
    size_t done;

    if (cq->next == PROV_CQ_PROGRESS)
        prov_ep_progress(ep);
    done = source_read(cq, ep, cq->only_queues, buf, 0, count, NULL);
    if (MBX_CHECKS && (done != 0 || cq->event_count != 0))
        prov_check(cq, ep);
    return is_in_vain(cq, done) ? only_in_vain(cq, done) : read_well(cq, done, count);
}

/* Most reads find nothing, and half of the others follow a successful one.  Both kinds are
 * answered here, if the queue has cq->only. */
ssize_t prov_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct prov_cq *cq = prov_cq_of(fid);
    struct prov_ep *ep = cq->only;

    if (unlikely(ep == NULL) || unlikely(cq->event_count != 0) || unlikely(count == 0) ||
        unlikely(ep->locks))
        return cq_read_all(cq, buf, count);
    if (cq->next == PROV_CQ_EMPTY)
        cq->next = PROV_CQ_PROGRESS;
    else if (cq->next == PROV_CQ_POLL || !source_is_idle(ep))
        return cq_read_only(cq, ep, buf, count);
    return only_is_empty(cq);
}

ssize_t prov_cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
    return entries_read(prov_cq_of(fid), buf, count, src_addr);
}

static void error_fill(const struct prov_cq *cq, struct fi_cq_err_entry *entry,
                       const struct prov_event *event)
{
    entry->op_context = event->context;
    entry->flags = event->flags;
    entry->len = event->len;
    entry->buf = event->buf;
    entry->data = event->data;
    entry->tag = event->tag;
    entry->olen = event->olen;
    entry->err = event->error;
    entry->prov_errno = event->prov_errno;
    /* The structure of older clients has no err_data_size.  In newer ones a nonzero size means
     * that the client supplies the buffer. */
    if (FI_VERSION_LT(cq->domain->fabric->fid.api_version, MIN_ERR_DATA_API)) {
        entry->err_data = NULL;
        return;
    }
    if (entry->err_data_size == 0)
        entry->err_data = NULL;
    entry->err_data_size = 0;
}

ssize_t prov_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct prov_cq *cq = prov_cq_of(fid);
    ssize_t n = -FI_EAGAIN;

    (void)flags;
    prov_cq_lock(cq);
    if (cq->event_count != 0 && event_at(cq, 0)->error != 0) {
        error_fill(cq, entry, event_at(cq, 0));
        event_pop(cq);
        n = 1;
    }
    prov_cq_unlock(cq);
    return n;
}

/* ---- for counters ------------------------------------------------------------------------ */

/* Is there space for POLL_BATCH more events? */
static bool events_fit(struct prov_cq *cq)
{
    return cq->event_count + cq->event_reserved + POLL_BATCH <= cq->event_capacity ||
           events_grow(cq) == 0;
}

/* Turns sends that completed at once into events.  False if there is not space for all. */
static bool sent_collect(struct prov_cq *cq, struct prov_ep *ep)
{
    while (ep->send.sent != NULL && events_fit(cq)) {
        struct prov_op *op = prov_sent_take(&ep->send);

        sent_report(cq, op, NULL, 0, NULL);
        prov_op_put(&ep->ops, op);
    }
    return ep->send.sent == NULL;
}

/* Turns one batch of completions into events.  False if nothing more has completed, or there is
 * no space. */
static bool source_collect(struct prov_cq *cq, const struct prov_cq_source *source)
{
    struct mbx_completion completions[POLL_BATCH];
    int n;

    if ((source->queues & MBX_SENDS) && !sent_collect(cq, source->ep))
        return false;
    if (!events_fit(cq))
        return false;
    n = mbx_poll(source->ep->mbx, source->queues, completions, POLL_BATCH);
    for (int i = 0; i < n; i++)
        convert(cq, source->ep, &completions[i], NULL, 0, NULL);
    return n == POLL_BATCH;
}

void prov_cq_collect(struct prov_cq *cq)
{
    prov_cq_lock(cq);
    for (unsigned i = 0; i < cq->source_count; i++) {
        const struct prov_cq_source *source = &cq->sources[i];

        prov_ep_lock(source->ep);
        prov_ep_progress(source->ep);
        while (source_collect(cq, source))
            continue;
        prov_ep_unlock(source->ep);
    }
    cq->next = PROV_CQ_PROGRESS;
    prov_cq_unlock(cq);
}

void prov_ep_forget(struct prov_ep *ep)
{
    unsigned queues = (ep->cqs.send == NULL ? ep->cqs.send_queues : 0) |
                      (ep->cqs.recv == NULL ? ep->cqs.recv_queues : 0);
    struct mbx_completion completions[POLL_BATCH];
    struct prov_event event;
    int n;

    prov_ep_lock(ep);
    prov_ep_progress(ep);
    do {
        n = mbx_poll(ep->mbx, queues, completions, POLL_BATCH);
        for (int i = 0; i < n; i++) {
            struct prov_op *op = completions[i].user;

            if (completions[i].kind == MBX_EVENTS)
                continue;
            if (prov_op_finish[op->kind] != NULL)
                prov_op_finish[op->kind](ep, op, &completions[i], &event);
            else
                prov_event_from(ep, &completions[i], false, &event);
        }
    } while (n == POLL_BATCH);
    prov_ep_unlock(ep);
}

const char *prov_cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data,
                             char *buf, size_t len)
{
    const char *text = mbx_strerror(prov_errno);

    (void)fid, (void)err_data;
    if (buf != NULL && len != 0) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = '\0';
    }
    return text;
}
