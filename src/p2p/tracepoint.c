/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracepoint.c - makes the events of the matching engines for trace/trace.h.
 *
 * A receive is identified by its request, a kept message by its id in the pool: neither is ever
 * used twice.  A message that matches a posted receive has no id, and needs none.
 */
#include "p2p/tracepoint.h"

#include "base/launcher.h"
#include "base/failpoint.h"

/* Is anything recorded?  Logs a setting that has no effect. */
static bool tracepoint_is_wanted(const struct settings *set)
{
    if (set->trace_for != TRACE_FOR_ALL && set->trace_folder[0] == '\0')
        LOG_WARN("MBX_TRACE_FOR has no effect without MBX_TRACE");
    if (set->flight_folder[0] != '\0' && set->flight == 0)
        LOG_WARN("MBX_FLIGHT_FOLDER has no effect without MBX_FLIGHT");
    if (set->flight != 0 && set->trace_folder[0] != '\0')
        LOG_WARN("MBX_FLIGHT has no effect with MBX_TRACE: the trace has all events");
    return set->flight != 0 || set->trace_folder[0] != '\0';
}

static void tracepoint_failed(const struct settings *set, int err)
{
    if (set->trace_folder[0] != '\0')
        LOG_WARN("cannot record to MBX_TRACE=%s (%s); create the folder first.  The program "
                 "goes on without a trace",
                 set->trace_folder, mbx_strerror(err));
    else
        LOG_WARN("cannot keep events (MBX_FLIGHT%s %s): %s; the program goes on without them",
                 set->flight_folder[0] != '\0' ? "_FOLDER=" : "", set->flight_folder,
                 mbx_strerror(err));
}

/* Are there events for any user other than a trace? */
static bool tracepoint_is_on(const struct mbx_ep *ep)
{
    return ep_tracing(ep)->unexpected != NULL || ep_tracing(ep)->notifies_device ||
           failpoint_is_wanted(&ep->settings.transports);
}

void tracepoint_open(struct mbx_ep *ep)
{
    const struct settings *set = &ep->settings;
    uint32_t ranks = launcher_number(launcher_ranks());
    struct trace_info info = {.rank = launcher_number(launcher_rank()),
                              .size = ranks != LAUNCHER_UNKNOWN ? ranks : 0};
    struct transport_address own;
    int err;

    ep_tracing(ep)->is_on = tracepoint_is_wanted(set);
    if (!ep_tracing(ep)->is_on) {
        ep_tracing(ep)->is_on = tracepoint_is_on(ep);
        return;
    }
    ep->net.transport->ops->address(ep->net.transport, &own);
    info.host = own.host;
    info.address = address_hash(&own);
    err = tracer_open(ep, &info);
    if (err < 0)
        tracepoint_failed(set, err);
}

void tracepoint_watch(struct mbx_ep *ep,
                      void (*watch)(void *user, int has_come, const struct mbx_status *message),
                      void *user)
{
    ep_tracing(ep)->unexpected = watch;
    ep_tracing(ep)->unexpected_user = user;
    ep_tracing(ep)->is_on = ep_tracing(ep)->recorder != NULL || tracepoint_is_on(ep);
}

void tracepoint_notify_device(struct mbx_ep *ep)
{
    ep_tracing(ep)->notifies_device = true;
    ep_tracing(ep)->is_on = true;
}

/* Calls the function of mbx_watch_unexpected(). */
static void tracepoint_notify(struct mbx_ep *ep, const struct message *message, bool has_come)
{
    struct mbx_status status;

    if (ep_tracing(ep)->unexpected == NULL)
        return;
    message_describe(message, &status);
    ep_tracing(ep)->unexpected(ep_tracing(ep)->unexpected_user, has_come, &status);
}

void tracepoint_queued(struct mbx_ep *ep, struct message *message, bool has_come)
{
    tracepoint_notify(ep, message, has_come);
    if (!ep_tracing(ep)->notifies_device)
        return;
    if (has_come)
        device_message_kept(ep, message);
    else
        device_message_left(ep, message);
}

bool tracepoint_took(struct mbx_ep *ep, struct request *req, struct message *message)
{
    tracepoint_recv(ep, TRACE_POST, req, message);
    tracepoint_notify(ep, message, false);
    return ep_tracing(ep)->notifies_device && device_message_found(ep, message, req);
}

/* ---- names given by the program ---- */

static void tracepoint_peer(struct mbx_ep *ep, uint32_t number)
{
    const struct transport_address *address = &ep->peers.addresses[number];
    const struct named_peer *named = names_peer(ep, number);

    trace_record(ep_tracing(ep)->recorder,
                 &(struct trace_event){
                     .type = TRACE_PEER,
                     .context_id = address_hash(address),
                     .source = number,
                     .tag = address->host,
                     .ignore = named != NULL ? named->job : 0,
                     .entry = address->process,
                     .partner = named != NULL ? named->rank + 1ull : 0,
                 });
}

static void tracepoint_peers(struct mbx_ep *ep)
{
    for (uint32_t i = 0; i < ep->peers.count && i < TRACE_PEERS_MAX; i++) {
        const struct named_peer *named = names_peer(ep, i);

        if (i >= ep_tracing(ep)->peers_recorded ||
            (named != NULL && named->change > ep_tracing(ep)->names_recorded))
            tracepoint_peer(ep, i);
    }
    ep_tracing(ep)->peers_recorded = ep->peers.count;
}

/* Records new names and peers. */
static OUT_OF_LINE void tracepoint_names(struct mbx_ep *ep)
{
    const struct ep_names *names = &ep->names;

    if (names->program_change > ep_tracing(ep)->names_recorded)
        trace_record_text(ep_tracing(ep)->recorder, TRACE_PROGRAM, 0, 0, names->program);
    for (uint32_t i = 0; i < names->context_count; i++)
        if (names->contexts[i].change > ep_tracing(ep)->names_recorded)
            trace_record_text(ep_tracing(ep)->recorder, TRACE_CONTEXT, names->contexts[i].id,
                              names->contexts[i].size, names->contexts[i].name);
    tracepoint_peers(ep);
    ep_tracing(ep)->names_recorded = names->changes;
}

/* Records what has to come before the next event: a pending send, and new names.  The names for
 * a send were recorded when it began, and its time is before the time of names that change in
 * its call. */
static inline void tracepoint_record_peers(struct mbx_ep *ep)
{
    if (unlikely(ep_tracing(ep)->is_late))
        tracer_send_recorded(ep);
    if (unlikely(ep->names.changes != ep_tracing(ep)->names_recorded) ||
        unlikely(ep->peers.count != ep_tracing(ep)->peers_recorded))
        tracepoint_names(ep);
}

void tracepoint_catch_up(struct mbx_ep *ep)
{
    tracepoint_record_peers(ep);
}

/* ---- events ---- */

/* Does mbx races need it?  (tools/races: races_pair.c, races_read.c) */
static bool is_for_races(const struct trace_event *event)
{
    switch ((unsigned)event->type) {
    case TRACE_PEEK:
        return event->partner != 0; /* it has found a message */
    case TRACE_POST:
    case TRACE_ARRIVE:
    case TRACE_CANCEL:
    case TRACE_CLAIM:
    case TRACE_TAKE:
    case TRACE_DISCARD:
    case TRACE_DROP:
    case TRACE_SEND:
    case TRACE_LEAVE:
    case TRACE_SENT:
    case TRACE_RECEIVED:
    case TRACE_AT:
    case TRACE_EVENT:
    case TRACE_REPORTED:
        return true;
    default:
        return false; /* steps of protocols, waits */
    }
}

static bool is_left_out(const struct mbx_ep *ep, const struct trace_event *event)
{
    return unlikely(ep_tracing(ep)->is_for_races) && !is_for_races(event);
}

void tracepoint_event(struct mbx_ep *ep, const struct trace_event *event)
{
    if (ep_tracing(ep)->recorder != NULL && !is_left_out(ep, event)) {
        tracepoint_record_peers(ep);
        trace_record(ep_tracing(ep)->recorder, event);
    }
    failpoint_reached(&ep->settings.transports, trace_type_name(event->type));
}

void tracepoint_note(struct mbx_ep *ep, const struct trace_event *event)
{
    if (is_left_out(ep, event))
        return;
    tracepoint_record_peers(ep);
    trace_record(ep_tracing(ep)->recorder, event);
}

void tracepoint_close(struct mbx_ep *ep)
{
    if (ep_tracing(ep)->is_on)
        failpoint_reached(&ep->settings.transports, trace_type_name(TRACE_CLOSE));
    if (ep_tracing(ep)->recorder != NULL)
        tracepoint_record_peers(ep);
    tracer_close(ep);
}

static uint64_t tracepoint_number(const struct mbx_ep *ep, const struct message *message)
{
    return message != NULL ? pool_id(&ep->messages, message) : 0;
}

static uint64_t tracepoint_request(const struct mbx_ep *ep, const struct request *req)
{
    return req != NULL ? pool_id(&ep->requests.pool, req) : 0;
}

void tracepoint_recv(struct mbx_ep *ep, enum trace_type type, struct request *req,
                     const struct message *message)
{
    const struct mbx_match_envelope *envelope = &req->match.envelope;
    uint64_t before = 0;

    if (type == TRACE_POST)
        tracer_receive(ep, req);
    if (ep_tracing(ep)->recorder != NULL)
        before = trace_last_ns(ep_tracing(ep)->recorder);

    tracepoint_event(ep, &(struct trace_event){
                             .type = type,
                             .context_id = envelope->context_id,
                             .source = envelope->source,
                             .tag = envelope->tag,
                             .ignore = req->match.ignore,
                             .entry = tracepoint_request(ep, req),
                             .partner = tracepoint_number(ep, message),
                         });
    if (type == TRACE_POST && ep_tracing(ep)->recorder != NULL)
        tracer_posted(ep, before);
}

void tracepoint_message(struct mbx_ep *ep, enum trace_type type,
                        const struct mbx_match_envelope *envelope,
                        const struct message *message, const struct request *req)
{
    tracepoint_event(ep, &(struct trace_event){
                             .type = type,
                             .context_id = envelope->context_id,
                             .source = envelope->source,
                             .tag = envelope->tag,
                             .entry = tracepoint_number(ep, message),
                             .partner = tracepoint_request(ep, req),
                         });
}

/* A complete message of this size has matched req: is req about to complete without an error?
 * Not known for pieces. */
static bool tracepoint_is_done(const struct request *req, size_t size)
{
    return size <= req->size &&
           (req->flags & (REQUEST_TRACED | REQUEST_PIECES)) == REQUEST_TRACED;
}

void tracepoint_arrived(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                        struct request *req, size_t whole)
{
    size_t size = whole - sizeof(struct wire_header);

    tracepoint_event(ep, &(struct trace_event){
                             .type = TRACE_ARRIVE,
                             .context_id = envelope->context_id,
                             .source = envelope->source,
                             .tag = envelope->tag,
                             .amount = whole != 0 ? size + 1 : 0,
                             .partner = tracepoint_request(ep, req),
                         });
    if (whole != 0 && tracepoint_is_done(req, size)) {
        req->flags &= ~(unsigned)REQUEST_TRACED; /* its completion is not recorded again */
        trace_done(ep_tracing(ep)->recorder);
    }
}

void tracepoint_probed(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                       uint64_t ignore, const struct message *found)
{
    tracepoint_event(ep, &(struct trace_event){
                             .type = TRACE_PEEK,
                             .context_id = envelope->context_id,
                             .source = envelope->source,
                             .tag = envelope->tag,
                             .ignore = ignore,
                             .partner = tracepoint_number(ep, found),
                         });
}
