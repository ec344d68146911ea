/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracepoint.h - what is asked of the matching engines goes to the trace, if there is one.
 *
 * Each call of an engine is followed by one of these.  Without MBX_TRACE, and without
 * mbx_watch_unexpected(), they cost a branch that always goes the same way.  docs/reference/trace-format.md says what each event means.
 */
#ifndef P2P_TRACEPOINT_H
#define P2P_TRACEPOINT_H

#include "p2p/p2p.h"
#include "p2p/tracer.h"
#include "trace/trace.h"

/* Begins the trace that the settings ask for.  What goes wrong is logged and costs only
 * the trace. */
void tracepoint_open(struct mbx_ep *ep);
void tracepoint_close(struct mbx_ep *ep);

/* Who is told of unexpected messages from now on, or NULL. */
void tracepoint_watch(struct mbx_ep *ep,
                      void (*watch)(void *user, int has_come, const struct mbx_status *message),
                      void *user);

/* The device is told of unexpected messages from now on: device_hooks.message_kept and the two after it. */
void tracepoint_notify_device(struct mbx_ep *ep);

/* Only with ep_tracing(ep)->is_on.  message and req may be NULL. */
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

/* A message has come into the queue of unexpected messages, or has left it. */
void tracepoint_queued(struct mbx_ep *ep, struct message *message, bool has_come);

/* With ep_tracing(ep)->is_on, as tracepoint_found(). */
bool tracepoint_took(struct mbx_ep *ep, struct request *req, struct message *message);

/* A message arrived: it met req, or waits as message (but not in that queue: tracepoint_keep()). */
static inline void tracepoint_arrive(struct mbx_ep *ep,
                                     const struct mbx_match_envelope *envelope,
                                     const struct request *req, const struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_message(ep, TRACE_ARRIVE, envelope, message, req);
}

/* A message met req; all of it is in a packet of `whole` bytes, or, if that is 0, it is not. */
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

/* These three once it is counted what is in the queue.  The message that arrived waits in the queue. */
static inline void tracepoint_keep(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on)) {
        tracepoint_message(ep, TRACE_ARRIVE, &message->match.envelope, message, NULL);
        tracepoint_queued(ep, message, true);
    }
}

/* req was posted, and took the message out of the queue.  True: a module gives it to req, later. */
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

/* No receive can want the message, and it has left the queue. */
static inline void tracepoint_drop(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(ep_tracing(ep)->is_on)) {
        tracepoint_message(ep, TRACE_DROP, &message->match.envelope, message, NULL);
        tracepoint_queued(ep, message, false);
    }
}

/* The extracted message goes to req, which discards it if it is internal. */
static inline void tracepoint_take(struct mbx_ep *ep, const struct message *message,
                                   struct request *req)
{
    tracer_receive(ep, req);
    if (unlikely(ep_tracing(ep)->is_on))
        tracepoint_message(ep, req->flags & REQUEST_INTERNAL ? TRACE_DISCARD : TRACE_TAKE,
                           &message->match.envelope, message,
                           req->flags & REQUEST_INTERNAL ? NULL : req);
}

/* With ep_tracing(ep)->is_on: goes to the trace, and may be the end. */
void tracepoint_event(struct mbx_ep *ep, const struct trace_event *event);

/* With a recorder: records what has happened and is not recorded yet. */
void tracepoint_catch_up(struct mbx_ep *ep);

/* With a recorder: goes to the trace alone. */
void tracepoint_note(struct mbx_ep *ep, const struct trace_event *event);

/* A step of a message that waits at its sender, and of the receive that reaches for it. */
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
