/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - the round: what is polled, and what is moved; progress.c.
 */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/mux.h"
#include "transport/transport.h"

struct mbx_ep;

/* Hints that a round of progress may find work.  Whoever adds work sets one; a round that finds
 * none clears it. */
enum ep_due {
    DUE_MOVE = 1 << 0, /* something waits on one of the endpoint's lists to be moved */
    DUE_READ = 1 << 1, /* the user has not read all that has completed */
};

/* Something of a module that each round moves while it is on endpoint.progress.works. */
struct work {
    struct list node;
    int (*run)(struct mbx_ep *ep, struct work *work); /* how much has moved */
};

/* What a round polls. */
struct ep_net {
    struct transport *transport;
    struct transport *polled;    /* in every round: that, or the part of it that is in use */
    struct transport_hint *hint; /* of that; or no_hint, if it has none */
    struct transport_hint no_hint;
    struct transport_config config; /* how it was opened */
};

/* What a round moves. */
struct ep_progress {
    uint8_t due;          /* enum ep_due: whatever is not sent by a peer just now */
    bool has_logged_drop; /* a malformed packet has been logged */
    uint32_t rounds;      /* since peers were looked at */
    uint64_t checks;      /* so often they were */
    uint32_t
        check_at;     /* the next round of which more is done: PROGRESS_SLOW_CHECK, or before */
    struct list busy; /* peers */
    struct list active; /* requests whose protocol has work */
    struct list works;  /* of modules: work.node */
};

/* Rounds from one look at what is looked at seldom to the next. */
#define PROGRESS_SLOW_CHECK 64
/* Which part of the transport is in use now. */
void progress_polled(struct mbx_ep *ep);
/* mbx_progress() for who has the lock. */
int progress_round(struct mbx_ep *ep);
/* Takes in all that peers had sent before this call, as far as it has arrived; and some of what
 * comes meanwhile, but a peer that goes on does not keep us here. */
void progress_arrived(struct mbx_ep *ep);
/* As transport_events.read_done. */
void progress_io_done(void *ep, void *cookie, int error);
/* A packet or field from outside made no sense: counted, the first one logged. */
void progress_dropped(void *ep, const char *reason);

#endif
