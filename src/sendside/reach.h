/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.h - receives that reach messages at their senders.  Private to src/core; reach.c
 * tells how.
 */
#ifndef CORE_REACH_H
#define CORE_REACH_H

#include "p2p/p2p.h"
#include "sendside/take.h"

/* ---- of reach.c and remote_probe.c alone, and of reach_valid.c ---- */

/* GRANT if receiver is 0, or else RETIRE. */
struct answer {
    uint64_t sender, receiver;
};

struct holder {
    struct peer *peer;
    struct list node;        /* on reach.holders while peer.holds */
    uint64_t epoch;          /* of its last HOLD */
    struct take_table table; /* where we take what it holds */
    uint64_t from;           /* it has dropped the RTRs up to this number */
    uint64_t room;           /* for RTRs there */
    uint64_t live;           /* of these, in use */
    uint64_t told;           /* envelopes of credit, since a message of it came */
    struct list *next;       /* the first on open that it does not know, or the head */
    bool is_told_full;       /* the last RTR said that room is used up */
    bool is_asked;           /* question has not been answered */
    bool is_put_off;         /* another question waits: */
    struct mbx_match_envelope next_asked;
    uint64_t next_ignore;
    unsigned spared;  /* times that it did, for the sake of an answer */
    bool is_answered; /* ... has, and the answer is still true: */
    uint64_t question;
    struct mbx_match_envelope asked;
    uint64_t ignore;
    struct wire_peeked peeked;
    struct mbx_status status;
    uint32_t answer_count;
    struct answer answers[HOLD_CLAIMS + 1]; /* one for a matched probe */
};

/* Of the endpoint. */
struct reach {
    struct list open;    /* receives */
    struct list holders; /* holder.node */
    uint64_t numbered;   /* receives, so far */
    uint64_t questions;
};

static inline struct holder *holder_of(struct list *node)
{
    return container_of(node, struct holder, node);
}

/* May what holders show be taken now?  With words it is they who decide. */
bool reach_may_take(const struct mbx_ep *ep);
/* The receive that such a message would meet, or NULL. */
struct mbx_match_recv *reach_wanted_by(const struct mbx_ep *ep,
                                       const struct mbx_match_envelope *envelope);
/* What it was told of makes this peer's last answer to a probe uncertain. */
void reach_forget(struct peer *peer);
/* The holder is to be told this.  False: it has more unanswered claims than it may. */
bool reach_answer(struct mbx_ep *ep, struct holder *holder, struct answer what);

/* ---- for others ---- */

extern const struct module reach_module, remote_probe_module;

#endif
