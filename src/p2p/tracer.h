/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracer.h - records in the trace how messages travel, and when the program waits.
 *
 * None of this happens without a trace.  With one, mbx_send() and similar calls take the long
 * path, which records the send; a flag of the request records its completion; a round of
 * progress is recorded when the recorder has asked for it (ep_progress.check_at).  A step of a
 * protocol always costs the branch of tracer_step().
 */
#ifndef P2P_TRACER_H
#define P2P_TRACER_H

#include "core/core.h"
#include "trace/trace.h"

/* Part of an endpoint: tracepoint.c, tracer.c. */
struct ep_tracing {
    struct trace_recorder *recorder; /* or NULL */
    bool is_on;           /* with a trace, failpoints, or a watcher of unexpected messages: */
    bool notifies_device; /* the device watches them */
    bool is_late;         /* a send is in progress, and not recorded yet */
    bool is_for_races;    /* MBX_TRACE_FOR=races: only what mbx races reads is recorded */
    uint32_t names_recorded, peers_recorded; /* the recorded value of changes (core/names.h),
                                                and the number of recorded peers */
    struct tracer *tracer;                   /* or NULL; p2p/tracer.h */
    /* tracepoint.c: called for unexpected messages, or NULL */
    void (*unexpected)(void *user, int has_come, const struct mbx_status *message);
    void *unexpected_user;
};
PART_FITS(mbx_ep, tracing, struct ep_tracing);
#define ep_tracing(ep) PART((ep)->tracing, struct ep_tracing)

/* Begins the trace of MBX_TRACE, as trace_start(), or otherwise the flight recording of
 * MBX_FLIGHT. */
int tracer_open(struct mbx_ep *ep, const struct trace_info *info);
/* Ends it, if there is one. */
void tracer_close(struct mbx_ep *ep);

/* With a trace.  In this order: a message is about to be sent to peer number; its send now has
 * a request, and continues; the call ends: done, or the message was refused and nothing has
 * happened. */
void tracer_send_begins(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                        uint64_t size);
void tracer_send_goes_on(struct mbx_ep *ep, struct request *req);
/* If ep_tracing(ep)->is_late: another event comes, so the send is recorded now. */
void tracer_send_recorded(struct mbx_ep *ep);
void tracer_send_ends(struct mbx_ep *ep, bool is_done);
/* The program acts: it no longer waits. */
void tracer_acts(struct mbx_ep *ep);
/* A receive was recorded; the last event before it was at `before`. */
void tracer_posted(struct mbx_ep *ep, uint64_t before);
/* A step of the protocol of req, with this many bytes. */
void tracer_step_of(struct mbx_ep *ep, enum trace_type type, const struct request *req,
                    uint64_t amount);
void tracer_handed(struct mbx_ep *ep, const struct request *req);

static inline void tracer_send(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                               uint64_t tag, uint64_t size)
{
    if (ep_tracing(ep)->recorder != NULL)
        tracer_send_begins(ep, number, context_id, tag, size);
}

static inline void tracer_leave(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(ep_tracing(ep)->recorder != NULL))
        tracer_send_goes_on(ep, req);
}

static inline void tracer_send_over(struct mbx_ep *ep, bool is_done)
{
    if (ep_tracing(ep)->recorder != NULL)
        tracer_send_ends(ep, is_done);
}

/* req, a receive, is about to be recorded. */
static inline void tracer_receive(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(ep_tracing(ep)->recorder != NULL)) {
        tracer_acts(ep);
        req->flags |= REQUEST_TRACED;
    }
}

static inline void tracer_step(struct mbx_ep *ep, enum trace_type type,
                               const struct request *req, uint64_t amount)
{
    if (unlikely(ep_tracing(ep)->recorder != NULL))
        tracer_step_of(ep, type, req, amount);
}

/* A device has matched req with a message. */
static inline void tracer_hand(struct mbx_ep *ep, const struct request *req)
{
    if (unlikely(ep_tracing(ep)->recorder != NULL))
        tracer_handed(ep, req);
}

#endif
