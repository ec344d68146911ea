/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracepoint.h - records the calls of the matching engines in the trace, if there is one.
 *
 * Each call of an engine is followed by one of these.  Without MBX_TRACE, and without
 * mbx_watch_unexpected(), they cost a branch that always goes the same way.  docs/reference/trace-format.md says what each event means.
 */
#ifndef P2P_TRACEPOINT_H
#define P2P_TRACEPOINT_H

#include "p2p/p2p.h"
#include "p2p/tracer.h"
#include "trace/trace.h"

/* Begins the trace that the settings request.  An error is logged and costs only the trace. */
void tracepoint_open(struct mbx_ep *ep);
void tracepoint_close(struct mbx_ep *ep);

/* Sets the function that is called for unexpected messages, or NULL. */
void tracepoint_watch(struct mbx_ep *ep,
                      void (*watch)(void *user, int has_come, const struct mbx_status *message),
                      void *user);

/* From now on the device is notified of unexpected messages: device_hooks.message_kept and the
 * two after it. */
void tracepoint_notify_device(struct mbx_ep *ep);

/* Only if ep_tracing(ep)->is_on.  message and req may be NULL. */
void tracepoint_recv(struct mbx_ep *ep, enum trace_type type, struct request *req,
                     const struct message *message);
void tracepoint_message(struct mbx_ep *ep, enum trace_type type,
                        const struct mbx_match_envelope *envelope,
                        const struct message *message, const struct request *req);
void tracepoint_arrived(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                        struct request *req, size_t whole);
void tracepoint_probed(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                       uint64_t ignore, const struct message *found);

/* req was posted, and waits. */
static inline void tracepoint_post(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_recv(ep, TRACE_POST, req, NULL);
}

static inline void tracepoint_cancel(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_recv(ep, TRACE_CANCEL, req, NULL);
}

/* A message has entered the queue of unexpected messages, or has left it. */
void tracepoint_queued(struct mbx_ep *ep, struct message *message, bool has_come);

/* tracepoint_found(), if ep_tracing(ep)->is_on. */
bool tracepoint_took(struct mbx_ep *ep, struct request *req, struct message *message);

/* A message arrived: it matched req, or waits as message (but not in that queue:
 * tracepoint_keep()). */
static inline void tracepoint_arrive(struct mbx_ep *ep,
                                     const struct mbx_match_envelope *envelope,
                                     const struct request *req, const struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_message(ep, TRACE_ARRIVE, envelope, message, req);
}

/* A message matched req; whole: the size of the packet, if it has the whole message; otherwise
 * 0. */
static inline void tracepoint_arrive_whole(struct mbx_ep *ep,
                                           const struct mbx_match_envelope *envelope,
                                           struct request *req, size_t whole)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_arrived(ep, envelope, req, whole);
}

static inline void tracepoint_peek(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                                   uint64_t ignore, const struct message *found)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_probed(ep, envelope, ignore, found);
}

/* A probe has taken a message that waits at its sender, and is in no queue here. */
static inline void tracepoint_extract_deferred(struct mbx_ep *ep, const struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_message(ep, TRACE_CLAIM, &message->match.envelope, message, NULL);
}

/* Call the next three functions after unexpected_now is updated.  The message that arrived
 * waits in the queue. */
static inline void tracepoint_keep(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on)) {
        tracepoint_message(ep, TRACE_ARRIVE, &message->match.envelope, message, NULL);
        tracepoint_queued(ep, message, true);
    }
}

/* req was posted, and took the message out of the queue.  True: a module gives it to req
 * later. */
static inline bool tracepoint_found(struct mbx_ep *ep, struct request *req,
                                    struct message *message)
{
    return unlikely(ep_tracing(ep)->is_on) && tracepoint_took(ep, req, message);
}

/* A probe has taken the message out of the queue. */
static inline void tracepoint_extract(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on)) {
        tracepoint_message(ep, TRACE_CLAIM, &message->match.envelope, message, NULL);
        tracepoint_queued(ep, message, false);
    }
}

/* The message was dropped, and has left the queue. */
static inline void tracepoint_drop(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on)) {
        tracepoint_message(ep, TRACE_DROP, &message->match.envelope, message, NULL);
        tracepoint_queued(ep, message, false);
    }
}

/* The extracted message goes to req, which discards it if req is internal. */
static inline void tracepoint_take(struct mbx_ep *ep, const struct message *message,
                                   struct request *req)
{
    tracer_receive(ep, req);
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_message(ep, req->flags & REQUEST_INTERNAL ? TRACE_DISCARD : TRACE_TAKE,
                           &message->match.envelope, message,
                           req->flags & REQUEST_INTERNAL ? NULL : req);
}

/* If ep_tracing(ep)->is_on: records the event; a failpoint may end the process here. */
void tracepoint_event(struct mbx_ep *ep, const struct trace_event *event);

/* With a recorder: records pending events. */
void tracepoint_catch_up(struct mbx_ep *ep);

/* With a recorder: records an event only in the trace. */
void tracepoint_note(struct mbx_ep *ep, const struct trace_event *event);

/* A step of a message that waits at its sender, and of the receive that claims it. */
static inline void tracepoint_step(struct mbx_ep *ep, enum trace_type type,
                                   const struct peer *peer,
                                   const struct mbx_match_envelope *envelope, uint64_t ignore,
                                   uint64_t entry, uint64_t partner)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_event(ep, &(struct trace_event){
                                 .type = type,
                                 .context_id = envelope->context_id,
                                 .source = peer->number,
                                 .tag = envelope->tag,
                                 .ignore = ignore,
                                 .entry = entry,
                                 .partner = partner,
                             });
}

#endif
