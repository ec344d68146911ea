/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.h - what is asked of the matching engines goes to the trace, if there is one.
 *
 * Each call of an engine is followed by one of these.  Without MBX_TRACE they
 * cost a branch that always goes the same way.  docs/tracing.md says what each event means.
 */
#ifndef P2P_RECORD_H
#define P2P_RECORD_H

#include "p2p/p2p.h"
#include "trace/trace.h"

/* Begins the trace that the settings ask for.  What goes wrong is logged and costs only
 * the trace. */
void record_open(struct mbx_ep *ep);
void record_close(struct mbx_ep *ep);

/* Only with ep->records.  message and req may be NULL. */
void record_recv(struct mbx_ep *ep, enum trace_type type, const struct request *req,
                 const struct message *message);
void record_message(struct mbx_ep *ep, enum trace_type type,
                    const struct mbx_match_envelope *envelope, const struct message *message,
                    const struct request *req);
void record_look(struct mbx_ep *ep, const struct mbx_match_envelope *envelope, uint64_t ignore,
                 const struct message *found);

/* req was posted: it took message, or waits. */
static inline void record_post(struct mbx_ep *ep, const struct request *req,
                               const struct message *message)
{
    if (unlikely(ep->records))
        record_recv(ep, TRACE_POST, req, message);
}

static inline void record_cancel(struct mbx_ep *ep, const struct request *req)
{
    if (unlikely(ep->records))
        record_recv(ep, TRACE_CANCEL, req, NULL);
}

/* A message arrived: it met req, or waits as message. */
static inline void record_arrive(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                                 const struct request *req, const struct message *message)
{
    if (unlikely(ep->records))
        record_message(ep, TRACE_ARRIVE, envelope, message, req);
}

static inline void record_peek(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                               uint64_t ignore, const struct message *found)
{
    if (unlikely(ep->records))
        record_look(ep, envelope, ignore, found);
}

static inline void record_claim(struct mbx_ep *ep, const struct message *message)
{
    if (unlikely(ep->records))
        record_message(ep, TRACE_CLAIM, &message->match.envelope, message, NULL);
}

/* The claimed message goes to req, which discards it if it is mute. */
static inline void record_take(struct mbx_ep *ep, const struct message *message,
                               const struct request *req)
{
    if (unlikely(ep->records))
        record_message(ep, req->flags & REQUEST_MUTE ? TRACE_DISCARD : TRACE_TAKE,
                       &message->match.envelope, message,
                       req->flags & REQUEST_MUTE ? NULL : req);
}

/* With ep->records: goes to the trace, and may be the end. */
void record_event(struct mbx_ep *ep, const struct trace_event *event);

/* A step of a message that waits at its sender, and of the receive that reaches for it. */
static inline void record_step(struct mbx_ep *ep, enum trace_type type, const struct peer *peer,
                               const struct mbx_match_envelope *envelope, uint64_t ignore,
                               uint64_t entry, uint64_t partner)
{
    if (unlikely(ep->records))
        record_event(ep, &(struct trace_event){
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
