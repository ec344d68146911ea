/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracer.c - what is sent, how it travels, what completes, and the waits between.
 *
 *   mbx_send ── send ──┬─ it has left at once ────────────────────────────── sent
 *                      └─ leave: it has a request ── rts, data, ... ──────── sent
 *
 *   the program acts        looks in vain                      acts
 *   ────────|───────────────|─────── wait ─────────────────────|── waited ──
 *                           from            last look ─┘
 *
 * A wait is a time in which the program does nothing but look for completions: from the first round of
 * progress behind a call that sends or posts to the last one before the next such call.  Between
 * two rounds there may be a gap: if the thread has run in it, it has computed, and the wait has ended
 * before the gap; if it has not, it has given its core away or was kept off it, and still waits.
 * A wait of less than WAIT_TOLD is none.
 */
#include "p2p/tracer.h"

#include "p2p/p2p.h"

#define WAIT_TOLD (10 * CLOCK_US) /* a wait of this length is recorded */
#define WAIT_GAP                                                                               \
    (100 * CLOCK_US)           /* between two looks; the thread may have computed meanwhile */
#define RAN    (50 * CLOCK_US) /* it has, if it has run for so long */
#define SAMPLE (50 * CLOCK_US) /* between two looks at the clock of the thread */

struct tracer {
    /* the send whose call has not returned */
    struct trace_event send;
    bool is_sending, has_left;
    uint64_t records; /* behind its event */

    uint64_t *sends; /* messages sent to each peer */
    uint32_t peers;

    /* the wait, since from; 0: there is none */
    uint64_t from, last; /* its first look, its last one */
    bool is_told;
    uint64_t waits;              /* that were told */
    uint64_t ran_ns, sampled_ns; /* clock_thread(), and when */
    uint64_t sleeps;             /* of the endpoint, at the last look */
};

/* ---- waits ---- */

static void wait_sample(struct tracer *t)
{
    t->ran_ns = clock_thread();
    t->sampled_ns = t->last;
}

static void wait_begin(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep->tracing.tracer;

    t->from = t->last = now;
    t->is_told = false;
    t->sampled_ns = 0;
    t->sleeps = ep->stats.sleeps;
}

/* It has ended with the last look. */
static void wait_end(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep->tracing.tracer;

    if (t->is_told)
        tracepoint_note(ep, &(struct trace_event){.type = TRACE_WAITED,
                                                  .amount = t->last - t->from,
                                                  .entry = t->waits,
                                                  .partner = now - t->last});
    t->from = 0;
}

void tracer_acts(struct mbx_ep *ep)
{
    struct tracer *t = ep->tracing.tracer;

    if (t->from != 0)
        wait_end(ep, t->is_told ? clock_now() : 0);
}

/* Behind a gap: has the thread run in it? */
static bool has_run(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep->tracing.tracer;
    uint64_t before = t->last - t->sampled_ns;
    uint64_t ran;

    if (ep->stats.sleeps != t->sleeps)
        return false;
    if (t->sampled_ns == 0)
        return now - t->last >= WAIT_GAP;
    ran = clock_thread() - t->ran_ns;
    return ran > before + RAN;
}

static void tracer_looked(struct mbx_ep *ep)
{
    struct tracer *t = ep->tracing.tracer;
    uint64_t now = clock_now();

    if (t->from == 0) {
        wait_begin(ep, now);
        return;
    }
    if (unlikely(now - t->last > WAIT_GAP) && has_run(ep, now)) {
        wait_end(ep, now);
        wait_begin(ep, now);
        wait_sample(t);
        return;
    }
    t->last = now;
    t->sleeps = ep->stats.sleeps;
    if (!t->is_told && now - t->from >= WAIT_TOLD) {
        t->is_told = true;
        tracepoint_note(ep, &(struct trace_event){.type = TRACE_WAIT,
                                                  .amount = now - t->from,
                                                  .entry = ++t->waits});
    }
    if (now - t->sampled_ns >= SAMPLE && now - t->from >= WAIT_TOLD / 4)
        wait_sample(t);
}

/* ---- sends ---- */

/* The number of the next message to that peer, from 1; 0: no memory. */
static uint64_t next_to(struct mbx_ep *ep, uint32_t number)
{
    struct tracer *t = ep->tracing.tracer;

    if (number >= t->peers) {
        uint32_t peers = ep->peers.count;
        uint64_t *more = mem_realloc(t->sends, peers * sizeof *more);

        if (more == NULL)
            return 0;
        memset(more + t->peers, 0, (peers - t->peers) * sizeof *more);
        t->sends = more;
        t->peers = peers;
    }
    return ++t->sends[number];
}

void tracer_send_begins(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                        uint64_t size)
{
    struct tracer *t = ep->tracing.tracer;
    uint64_t n = number < ep->peers.count ? next_to(ep, number) : 0;

    tracer_acts(ep);
    t->is_sending = n != 0;
    if (n == 0)
        return; /* it will be refused */
    t->has_left = false;
    t->send = (struct trace_event){.type = TRACE_SEND,
                                   .context_id = context_id,
                                   .source = number,
                                   .tag = tag,
                                   .amount = size,
                                   .entry = n};
    tracepoint_note(ep, &t->send);
}

static uint64_t amount_of(unsigned protocol, int error)
{
    return protocol + 1 + ((uint64_t)-error << 8);
}

void tracer_send_goes_on(struct mbx_ep *ep, struct request *req)
{
    struct tracer *t = ep->tracing.tracer;
    struct trace_event event = t->send;

    if (!t->is_sending)
        return;
    t->has_left = true;
    req->flags |= REQUEST_TRACED;
    event.type = TRACE_LEAVE;
    event.amount = amount_of(req->protocol, 0);
    event.partner = req->completion.request;
    tracepoint_note(ep, &event);
}

/* What leaves in one packet. */
static enum mbx_protocol protocol_at_once(const struct mbx_ep *ep, uint64_t size)
{
    return size <= ep->limits.inline_max ? MBX_INLINE : MBX_SHORT;
}

void tracer_send_ends(struct mbx_ep *ep, bool is_done)
{
    struct tracer *t = ep->tracing.tracer;
    struct trace_event event = t->send;

    if (!t->is_sending || (is_done && t->has_left)) {
        t->is_sending = false;
        return;
    }
    t->is_sending = false;
    if (!is_done && !t->has_left) {
        trace_take_back(ep->tracing.recorder);
        t->sends[event.source]--;
        return;
    }
    event.type = TRACE_SENT;
    event.amount = amount_of(protocol_at_once(ep, t->send.amount), 0);
    event.partner = t->send.entry;
    event.entry = 0;
    tracepoint_note(ep, &event);
}

/* ---- steps, and completions ---- */

static struct trace_event event_of(enum trace_type type, const struct request *req)
{
    const struct mbx_status *status = &req->completion.status;

    return (struct trace_event){.type = type,
                                .context_id = status->context_id,
                                .source = status->source,
                                .tag = status->tag,
                                .entry = req->completion.request};
}

void tracer_step_of(struct mbx_ep *ep, enum trace_type type, const struct request *req,
                    uint64_t amount)
{
    struct trace_event event = event_of(type, req);

    event.amount = amount;
    tracepoint_note(ep, &event);
}

void tracer_handed(struct mbx_ep *ep, const struct request *req)
{
    const struct mbx_match_envelope *envelope = &req->match.envelope;

    tracepoint_note(ep, &(struct trace_event){.type = TRACE_HAND,
                                              .context_id = envelope->context_id,
                                              .source = envelope->source,
                                              .tag = envelope->tag,
                                              .amount = req->size,
                                              .entry = req->completion.request});
}

static void tracer_completed(struct mbx_ep *ep, const struct request *req, int error)
{
    bool is_send = request_is_send(req);
    struct trace_event event = event_of(is_send ? TRACE_SENT : TRACE_RECEIVED, req);

    if (ep->tracing.recorder == NULL)
        return; /* the endpoint closes */
    if (!is_send && (error == -ECANCELED || event.source == MBX_ANY_SOURCE))
        return; /* it has received nothing */
    if (is_send) {
        event.amount = amount_of(req->protocol, error);
    } else {
        event.amount = req->completion.received;
        event.partner = (uint64_t)-error;
    }
    tracepoint_note(ep, &event);
}

/* ---- the trace ---- */

int tracer_open(struct mbx_ep *ep, const char *folder, const struct trace_info *info)
{
    struct tracer *t = mem_calloc(1, sizeof *t);
    int err;

    if (t == NULL)
        return -ENOMEM;
    err = trace_start(folder, info, &ep->tracing.recorder);
    if (err < 0) {
        mem_free(t);
        return err;
    }
    ep->tracing.tracer = t;
    ep->tracing.completed = tracer_completed;
    ep->tracing.looked = tracer_looked;
    wait_is_recorded(ep);
    return 0;
}

void tracer_close(struct mbx_ep *ep)
{
    struct tracer *t = ep->tracing.tracer;

    if (t == NULL)
        return;
    tracer_acts(ep);
    trace_stop(ep->tracing.recorder);
    ep->tracing.recorder = NULL;
    ep->tracing.looked = NULL;
    ep->tracing.tracer = NULL;
    mem_free(t->sends);
    mem_free(t);
}
