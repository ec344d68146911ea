/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - a round of progress: what it polls and moves; progress.c.
 */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/mux.h"
#include "transport/transport.h"

struct mbx_ep;

/* Hints that a round of progress may find work.  Code that adds work sets one; a round that
 * finds none clears it. */
enum ep_due {
    DUE_MOVE = 1 << 0, /* work waits on one of the endpoint's lists */
    DUE_READ = 1 << 1, /* there are unread completions */
};

/* Work of a module, run in each round while it is on mbx_ep.progress.works. */
struct work {
    struct list node;
    int (*run)(struct mbx_ep *ep, struct work *work); /* returns how much has moved */
};

/* Part of the endpoint: the transport that a round polls. */
struct ep_net {
    struct transport *transport;
    struct transport *polled;    /* polled in each round: the transport, or the part of it that
                                    is in use */
    struct transport_hint *hint; /* of polled; or no_hint, if it has none */
    struct transport_hint no_hint;
    struct transport_config config; /* the configuration with which it was opened */
};

/* Part of the endpoint: the work of a round. */
struct ep_progress {
    uint8_t due;          /* enum ep_due: work that does not come from a packet */
    bool has_logged_drop; /* a malformed packet has been logged */
    uint32_t rounds;      /* since the last slow check */
    uint64_t checks;      /* number of slow checks */
    uint32_t check_at;    /* the next round with more work than usual: PROGRESS_SLOW_CHECK, or
                         earlier */
    struct list busy;     /* peers */
    struct list active;   /* requests whose protocol has work */
    struct list works;    /* of modules, linked by work.node */
};

/* The number of rounds from one slow check to the next. */
#define PROGRESS_SLOW_CHECK 64
/* Updates which part of the transport is polled. */
void progress_polled(struct mbx_ep *ep);
/* mbx_progress() for callers that hold the lock. */
int progress_round(struct mbx_ep *ep);
/* Handles all packets that peers had sent before this call and that have arrived, and some of
 * the packets that arrive meanwhile; a peer that keeps sending does not keep this call busy for
 * ever. */
void progress_arrived(struct mbx_ep *ep);
/* As transport_events.read_done. */
void progress_io_done(void *ep, void *cookie, int error);
/* A packet or field from outside was invalid: counts it, and logs the first one. */
void progress_dropped(void *ep, const char *reason);

#endif
