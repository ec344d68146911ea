/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver.h - open receives of which deferring peers are told.  Private to src/defer;
 * receiver.c tells how.
 */
#ifndef DEFER_RECEIVER_H
#define DEFER_RECEIVER_H

#include "base/random.h"
#include "defer/defer.h"
#include "defer/pull.h"

/* ---- of receiver.c and remote_probe.c alone, and of receiver_valid.c ---- */

/* The RETIRE that a deferring peer is to get. */
struct answer {
    uint64_t sender, receiver;
    bool has_won;
};

/* A peer that defers, or has deferred, sends to us. */
struct deferrer {
    struct peer *peer;
    struct list node;        /* on receiver.deferrers while peer.defer.defers */
    uint64_t epoch;          /* that its last DEFER names */
    struct pull_table table; /* where we pull what it defers */
    uint64_t reported; /* envelopes of credit it was told of since its last message came */

    uint64_t capacity; /* for RTRs at the peer */
    uint64_t live;     /* RTRs that the peer may still have */
    uint64_t from;     /* the peer has dropped the RTRs up to this number */
    struct list *next; /* the first receive on open that the peer does not know, or the head */
    bool knows_full;   /* the last RTR said that its capacity is used up */

    uint64_t question;               /* number of the last PEEK, owed or sent */
    struct mbx_match_envelope asked; /* that the last PEEK asks for */
    uint64_t ignore;                 /* ignore bits of the last PEEK */
    bool is_asked;                   /* the last PEEK has no answer yet */
    bool is_answered; /* PEEKED has named a message, and nothing has made that untrue */
    struct wire_peeked peeked; /* the answer */
    struct mbx_status status;  /* of the message that the answer names */
    unsigned spared;           /* probes for something else since the answer was last of use */
    unsigned doubled;          /* how often the probes were doubled that an answer survives */
    uint64_t others;           /* probes for something else since the last PEEK */
    bool is_put_off;           /* a question waits until the last one is over */
    struct mbx_match_envelope next_asked; /* that the waiting question asks for */
    uint64_t next_ignore;                 /* ignore bits of the waiting question */

    uint32_t answer_count;
    struct answer answers[BACKLOG_CLAIMS + 1]; /* to the claims, and to a matched probe */
};

/* Glossary: open receive - a posted receive that no message has met and no sender has won */
/* What the deferring peers of an endpoint share. */
struct receiver {
    bool is_open;          /* open receives are on the list */
    struct list open;      /* receives */
    struct list deferrers; /* deferrer.node */
    uint64_t calm;         /* receives that have left the list since a peer deferred */
    uint64_t numbered;     /* receives, so far */
    uint64_t questions;
    struct random
        chance; /* the same in each endpoint: which question is next (remote_probe.c) */
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
/* What this peer is told of now makes its last answer to a probe uncertain. */
void receiver_forget(struct peer *peer);
/* The deferring peer is to be told this.  False: it has more unanswered claims than it may. */
bool receiver_answer(struct mbx_ep *ep, struct deferrer *deferrer, struct answer what);

/* Do the invariants of receiver.c hold?  With MBX_CHECKS. */
bool receiver_is_valid(const struct mbx_ep *ep);

#endif
