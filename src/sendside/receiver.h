/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver.h - open receives of which deferring peers are told.  Private to src/sendside;
 * receiver.c tells how.
 */
#ifndef SENDSIDE_RECEIVER_H
#define SENDSIDE_RECEIVER_H

#include "sendside/sendside.h"
#include "sendside/pull.h"

/* ---- of receiver.c and remote_probe.c alone, and of receiver_valid.c ---- */

/* GRANT if receiver is 0, or else RETIRE. */
struct answer {
    uint64_t sender, receiver;
};

struct deferrer {
    struct peer *peer;
    struct list node;        /* on receiver.deferrers while peer.sendside.defers */
    uint64_t epoch;          /* of its last DEFER */
    struct pull_table table; /* where we take what it defers */
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
    struct answer answers[BACKLOG_CLAIMS + 1]; /* one for a matched probe */
};

/* Of the endpoint. */
struct receiver {
    struct list open;      /* receives */
    struct list deferrers; /* deferrer.node */
    uint64_t numbered;     /* receives, so far */
    uint64_t questions;
};

static inline struct deferrer *deferrer_of(struct list *node)
{
    return container_of(node, struct deferrer, node);
}

/* May what deferring peers show be taken now?  With words it is they who decide. */
bool receiver_may_pull(const struct mbx_ep *ep);
/* The receive that such a message would meet, or NULL. */
struct mbx_match_recv *receiver_wanted_by(const struct mbx_ep *ep,
                                          const struct mbx_match_envelope *envelope);
/* What it was told of makes this peer's last answer to a probe uncertain. */
void receiver_forget(struct peer *peer);
/* The deferring peer is to be told this.  False: it has more unanswered claims than it may. */
bool receiver_answer(struct mbx_ep *ep, struct deferrer *deferrer, struct answer what);

/* Do the invariants of receiver.c hold?  With MBX_CHECKS. */
bool receiver_is_valid(const struct mbx_ep *ep);

#endif
