/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracer.c - records sends, their protocols, completions, and waits.
 *
 *   mbx_send ── send ──┬─ it has left at once ────────────────────────────── sent
 *                      └─ leave: it has a request ── rts, data, ... ──────── sent
 *
 *   the program acts        polls without success              acts
 *   ────────|───────────────|─────── wait ─────────────────────|── waited ──
 *                           from            last check ─┘
 *
 * A wait is a time in which the program only polls for completions: from the first round of
 * progress after a call that sends or posts to the last one before the next such call.  Between
 * two rounds there may be a gap: if the thread has run in it, it has computed, and the wait has
 * ended before the gap; if it has not, it has yielded its core or was descheduled, and still
 * waits.  A wait of less than WAIT_RECORDED is not recorded.
 *
 * The trace records the call that the program is in, and its place, when a wait has lasted
 * PLACE_AFTER, and when the program sends or receives for the first time after TRACE_AWAY_NS
 * without an event.
 *
 * With MBX_TRACE_FOR=races there are no waits, and only places that are asked for (mbx_trace_note).
 */
#include "p2p/tracer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/caller.h"
#include "base/hash.h"
#include "p2p/p2p.h"
#include "p2p/tracepoint.h"

#define WAIT_RECORDED (10 * CLOCK_US) /* a wait of this length is recorded */
#define WAIT_GAP                                                                               \
    (100 * CLOCK_US) /* between two checks; the thread may have computed in a longer gap */
#define RAN         (50 * CLOCK_US) /* it has computed, if it has run for this long */
#define SAMPLE      (50 * CLOCK_US) /* between two reads of the clock of the thread */

#define PLACE_AFTER (100 * CLOCK_US)

/* While checks follow each other this fast, and no wait is recorded yet, the next check is SKIP
 * rounds of progress later: a check takes longer than the rest of an idle round, and would
 * delay the detection of a message by that time. */
#define SKIP 8
#define FAST (1 * CLOCK_US) /* from one check to the next */

/* The place of a call in the program, and its number in the trace. */
struct place {
    uint64_t address;
    uint32_t number;
};

struct tracer {
    /* the send whose call has not returned, and when it began */
    struct trace_event send;
    uint64_t send_ns;
    bool is_sending, has_left;
    bool comes; /* the program was away before it */

    uint64_t *sends; /* messages sent to each peer */
    uint32_t peers;

    /* the current wait began at `from`; 0: there is none */
    uint64_t from, last; /* its first check, and its last one */
    bool is_fast;        /* checks follow each other fast */
    bool is_recorded, is_placed;
    uint64_t waits;              /* recorded waits */
    uint64_t ran_ns, sampled_ns; /* clock_thread(), and when */
    uint64_t sleeps;             /* ep->stats.sleeps at the last check */

    struct hash places; /* at most TRACE_PLACES_MAX, by address */
    struct caller_learnt learnt;
};

/* ---- where the program is ---- */

static uint64_t place_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct place *)slot)->address);
}

static bool place_is(const void *arg, const void *slot, const void *address)
{
    (void)arg;
    return ((const struct place *)slot)->address == *(const uint64_t *)address;
}

static const struct hash_kind by_address = {sizeof(struct place), place_hash, place_is};

/* Adds a place, and records its text.  false: there is no room. */
static OUT_OF_LINE bool place_add(struct mbx_ep *ep, struct place *place)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    char path[CALLER_PATH], text[CALLER_CALL + CALLER_PATH + 24];
    struct caller caller;
    uint64_t at;

    if (t->places.count == TRACE_PLACES_MAX)
        return false;
    caller_find(&caller); /* for the name of the call */
    if (caller_place(place->address, path, &at) < 0 ||
        hash_add(&t->places, &by_address, NULL, place) != 0)
        return false;
    snprintf(text, sizeof text, "%s %" PRIx64 " %s", caller.call, at, path);
    trace_record_text(ep_tracing(ep)->recorder, TRACE_PLACE, place->number, 0, text);
    return true;
}

/* Records the place in the program, and why. */
static void place_record(struct mbx_ep *ep, enum trace_at at_what)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    struct place *place, new;
    uint64_t address;

    if (ep_tracing(ep)->is_for_races && at_what != TRACE_AT_CALL)
        return;
    address = caller_address(&t->learnt);
    if (address == 0)
        return;
    tracepoint_catch_up(ep);
    place = hash_find(&t->places, &by_address, NULL, hash_mix(address), &address);
    if (unlikely(place == NULL)) {
        place = &new;
        new = (struct place){address, (uint32_t)t->places.count + 1};
        if (!place_add(ep, place))
            return;
    }
    tracepoint_note(ep, &(struct trace_event){
                            .type = TRACE_AT, .entry = place->number, .partner = at_what});
}

/* Was the program away before the last event?  before: the time of the event before it. */
static bool was_away(const struct mbx_ep *ep, uint64_t before)
{
    return trace_last_ns(ep_tracing(ep)->recorder) - before >= TRACE_AWAY_NS;
}

void tracer_posted(struct mbx_ep *ep, uint64_t before)
{
    if (unlikely(was_away(ep, before)))
        place_record(ep, TRACE_AT_COMES);
}

/* ---- waits ---- */

static void wait_sample(struct tracer *t)
{
    t->ran_ns = clock_thread();
    t->sampled_ns = t->last;
}

static void wait_begin(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    t->from = t->last = now;
    t->is_fast = false; /* the next check finds out whether rounds are fast */
    t->is_recorded = t->is_placed = false;
    t->sampled_ns = 0;
    t->sleeps = ep->stats.sleeps;
}

/* Ends the wait, at its last check. */
static void wait_end(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (t->is_recorded)
        tracepoint_note(ep, &(struct trace_event){.type = TRACE_WAITED,
                                                  .amount = t->last - t->from,
                                                  .entry = t->waits,
                                                  .partner = now - t->last});
    t->from = 0;
}

void tracer_acts(struct mbx_ep *ep)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (t->from == 0)
        return;
    wait_end(ep, t->is_recorded ? trace_now(ep_tracing(ep)->recorder) : 0);
    progress_record_next(ep);
}

/* After a gap: has the thread run in it? */
static bool has_run(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    uint64_t before = t->last - t->sampled_ns;
    uint64_t ran;

    if (ep->stats.sleeps != t->sleeps)
        return false;
    if (t->sampled_ns == 0)
        return now - t->last >= WAIT_GAP;
    ran = clock_thread() - t->ran_ns;
    return ran > before + RAN;
}

/* A check within a wait, at time now. */
static void wait_goes_on(struct mbx_ep *ep, uint64_t now)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (unlikely(now - t->last > WAIT_GAP) && has_run(ep, now)) {
        wait_end(ep, now);
        wait_begin(ep, now);
        wait_sample(t);
        return;
    }
    t->is_fast = now - t->last < FAST;
    t->last = now;
    t->sleeps = ep->stats.sleeps;
    if (!t->is_recorded && now - t->from >= WAIT_RECORDED) {
        t->is_recorded = true;
        tracepoint_note(ep, &(struct trace_event){.type = TRACE_WAIT,
                                                  .amount = now - t->from,
                                                  .entry = ++t->waits});
    }
    if (unlikely(!t->is_placed && now - t->from >= PLACE_AFTER)) {
        t->is_placed = true;
        place_record(ep, TRACE_AT_WAIT);
        t->last = trace_now(ep_tracing(ep)->recorder); /* the walk of the stack is not a gap */
        wait_sample(t);
        return;
    }
    if (t->is_recorded && now - t->sampled_ns >= SAMPLE)
        wait_sample(t);
}

static unsigned tracer_checked(struct mbx_ep *ep)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    uint64_t now;

    if (ep_tracing(ep)->is_for_races)
        return PROGRESS_SLOW_CHECK; /* no waits */
    now = trace_now(ep_tracing(ep)->recorder);
    if (t->from == 0)
        wait_begin(ep, now);
    else
        wait_goes_on(ep, now);
    return t->is_fast && !t->is_recorded ? SKIP : 1;
}

/* ---- sends ---- */

/* The number of the next message to that peer, from 1; 0: no memory, or no such peer. */
static uint64_t next_to(struct mbx_ep *ep, uint32_t number)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (!array_reserve_zeroed(t->sends, t->peers, ep->peers.count))
        return 0;
    return ++t->sends[number];
}

static uint64_t amount_of(unsigned protocol, int error)
{
    return protocol + 1 + ((uint64_t)-error << 8);
}

/* The message leaves before its record is written: work after the packet does not delay its
 * receiver. */
void tracer_send_begins(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                        uint64_t size)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    uint64_t n = number < ep->peers.count ? next_to(ep, number) : 0;

    tracer_acts(ep);
    tracepoint_catch_up(ep);
    t->is_sending = n != 0;
    if (n == 0)
        return; /* the send will be refused */
    t->has_left = false;
    t->send = (struct trace_event){.type = TRACE_SEND,
                                   .context_id = context_id,
                                   .source = number,
                                   .tag = tag,
                                   .amount = size,
                                   .entry = n,
                                   .partner = amount_of(path_packet(ep, size), 0)};
    ep_tracing(ep)->is_late = true;
    t->send_ns = trace_now(ep_tracing(ep)->recorder);
}

void tracer_send_recorded(struct mbx_ep *ep)
{
    struct tracer *t = ep_tracing(ep)->tracer;
    uint64_t before = trace_last_ns(ep_tracing(ep)->recorder);

    ep_tracing(ep)->is_late = false;
    trace_record_at(ep_tracing(ep)->recorder, &t->send, t->send_ns);
    t->comes = was_away(ep, before);
}

void tracer_send_goes_on(struct mbx_ep *ep, struct request *req)
{
    struct tracer *t = ep_tracing(ep)->tracer;
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

/* Records that the message left at once, when another event comes before the end of its
 * call. */
static OUT_OF_LINE void sent_at_once(struct mbx_ep *ep)
{
    const struct tracer *t = ep_tracing(ep)->tracer;
    struct trace_event event = t->send;

    event.type = TRACE_SENT;
    event.amount = t->send.partner;
    event.partner = t->send.entry;
    event.entry = 0;
    tracepoint_note(ep, &event);
}

void tracer_send_ends(struct mbx_ep *ep, bool is_done)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (!t->is_sending)
        return;
    t->is_sending = false;
    if (!is_done && !t->has_left) {
        ep_tracing(ep)->is_late = false; /* the message was refused, and nothing has happened */
        t->sends[t->send.source]--;
        return;
    }
    if (likely(ep_tracing(ep)->is_late)) {
        tracepoint_catch_up(ep);
        trace_done(ep_tracing(ep)->recorder);
    } else if (!t->has_left) {
        sent_at_once(ep);
    }
    if (unlikely(t->comes))
        place_record(ep, TRACE_AT_COMES);
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

static void sent(struct mbx_ep *ep, const struct request *req, int error)
{
    struct trace_event event = event_of(TRACE_SENT, req);

    event.amount = amount_of(req->protocol, error);
    tracepoint_note(ep, &event);
}

static void received(struct mbx_ep *ep, const struct request *req, int error)
{
    struct trace_event event = event_of(TRACE_RECEIVED, req);

    if (error == -ECANCELED || event.source == MBX_ANY_SOURCE)
        return; /* it has received nothing */
    event.amount = req->completion.received;
    event.partner = (uint64_t)-error;
    tracepoint_note(ep, &event);
}

static void tracer_completed(struct mbx_ep *ep, const struct request *req, int error)
{
    if (ep_tracing(ep)->recorder == NULL)
        return; /* the endpoint closes */
    if (request_is_send(req))
        sent(ep, req, error);
    else
        received(ep, req, error);
}

/* ---- notes for mbx races ---- */

static void note(struct mbx_ep *ep, enum mbx_note what, mbx_request request, uint64_t number)
{
    switch (what) {
    case MBX_NOTE_EVENT:
        tracepoint_note(ep, &(struct trace_event){
                                .type = TRACE_EVENT, .entry = number, .partner = request});
        break;
    case MBX_NOTE_REPORTED:
        tracepoint_note(ep, &(struct trace_event){.type = TRACE_REPORTED, .entry = request});
        break;
    case MBX_NOTE_CALL:
        place_record(ep, TRACE_AT_CALL);
        break;
    }
}

int mbx_trace_note(struct mbx_ep *ep, enum mbx_note what, mbx_request request, uint64_t number)
{
    if (what < MBX_NOTE_EVENT || what > MBX_NOTE_CALL)
        return log_argument("mbx_trace_note", "what", (uint64_t)what, "no enum mbx_note");
    if ((number != 0) != (what == MBX_NOTE_EVENT))
        return log_argument("mbx_trace_note", "number", number,
                            "0 for an event, or not for another note");
    if (what == MBX_NOTE_REPORTED ? request == 0 : what == MBX_NOTE_CALL && request != 0)
        return log_argument("mbx_trace_note", "request", request,
                            "0 for MBX_NOTE_REPORTED, or not for MBX_NOTE_CALL");
    ep_lock(ep);
    if (ep_tracing(ep)->recorder != NULL)
        note(ep, what, request, number);
    ep_unlock(ep);
    return 0;
}

/* ---- the trace ---- */

static int tracer_start(struct mbx_ep *ep, const struct trace_info *info)
{
    const struct settings *set = &ep->settings;

    if (set->trace_folder[0] != '\0')
        return trace_start(set->trace_folder, info, &ep_tracing(ep)->recorder);
    return trace_start_flight(set->flight_folder[0] != '\0' ? set->flight_folder : NULL,
                              set->flight, info, &ep_tracing(ep)->recorder);
}

int tracer_open(struct mbx_ep *ep, const struct trace_info *info)
{
    struct tracer *t = mem_calloc(1, sizeof *t);
    int err;

    if (t == NULL)
        return -ENOMEM;
    err = tracer_start(ep, info);
    if (err < 0) {
        mem_free(t);
        return err;
    }
    ep_tracing(ep)->tracer = t;
    ep_tracing(ep)->is_for_races =
        ep->settings.trace_folder[0] != '\0' && ep->settings.trace_for == TRACE_FOR_RACES;
    ep->recording.completed = tracer_completed;
    ep->recording.checked = tracer_checked;
    wait_is_recorded(ep);
    return 0;
}

void tracer_close(struct mbx_ep *ep)
{
    struct tracer *t = ep_tracing(ep)->tracer;

    if (t == NULL)
        return;
    tracer_acts(ep);
    trace_stop(ep_tracing(ep)->recorder);
    ep_tracing(ep)->recorder = NULL;
    ep->recording.checked = NULL;
    ep_tracing(ep)->tracer = NULL;
    mem_free(t->sends);
    hash_fini(&t->places);
    mem_free(t);
}
