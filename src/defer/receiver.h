/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver.h - open receives, and their advertisement to deferring peers.  Private to
 * src/defer; see receiver.c.
 */
#ifndef DEFER_RECEIVER_H
#define DEFER_RECEIVER_H

#include "base/random.h"
#include "defer/defer.h"
#include "defer/pull.h"

/* ---- only for receiver.c, remote_probe.c and receiver_valid.c ---- */

/* A RETIRE that is owed to a deferring peer. */
struct answer {
    uint64_t sender, receiver;
    bool has_won;
};

/* A peer that defers, or has deferred, sends to us. */
struct deferrer {
    struct peer *peer;
    struct list node;        /* on receiver.deferrers while peer.defer.defers */
    uint64_t epoch;          /* in its last DEFER */
    struct pull_table table; /* the table from which we pull its deferred sends */
    uint64_t reported; /* envelopes of credit that were reported to it since its last message */

    uint64_t capacity; /* for RTRs at the peer */
    uint64_t live;     /* RTRs that the peer may still have */
    uint64_t from;     /* the peer has dropped the RTRs up to this number */
    struct list *next; /* the first receive on open that the peer does not know, or the head */
    bool knows_full;   /* the last RTR reported that its capacity is used up */

    uint64_t question;               /* the number of the last PEEK, owed or sent */
    struct mbx_match_envelope asked; /* the arguments of the last PEEK */
    uint64_t ignore;                 /* the ignore bits of the last PEEK */
    bool is_asked;                   /* the last PEEK has no answer yet */
    bool is_answered;          /* PEEKED has named a message, and the answer is still valid */
    struct wire_peeked peeked; /* the answer */
    struct mbx_status status;  /* of the message in the answer */
    unsigned spared;           /* probes with other arguments since the answer was last used */
    unsigned doubled;          /* how often the number of probes that an answer survives was
                                  doubled */
    uint64_t others;           /* probes with other arguments since the last PEEK */
    bool is_put_off;           /* a question waits until the current one is over */
    struct mbx_match_envelope next_asked; /* the arguments of the waiting question */
    uint64_t next_ignore;                 /* the ignore bits of the waiting question */

    uint32_t answer_count;
    struct answer answers[BACKLOG_CLAIMS + 1]; /* to claims, and to a matched probe */
};

/* Glossary: open receive - a posted receive that no message has matched and no sender has won */
/* Shared by the deferring peers of an endpoint. */
struct receiver {
    bool is_open;          /* open receives are on the list */
    struct list open;      /* receives */
    struct list deferrers; /* deferrer.node */
    uint64_t calm;         /* receives that have left the list since a peer last deferred */
    uint64_t numbered;     /* the number of receives so far */
    uint64_t questions;
    struct random chance; /* the same sequence in each endpoint; chooses the next question
                   (remote_probe.c) */
};

static inline struct deferrer *deferrer_of(struct list *node)
{
    return container_of(node, struct deferrer, node);
}

/* May messages in the tables of deferring peers be pulled now?  With words the senders
 * decide. */
bool receiver_may_pull(const struct mbx_ep *ep);
/* The receive that such a message would match, or NULL. */
struct mbx_match_recv *receiver_wanted_by(const struct mbx_ep *ep,
                                          const struct mbx_match_envelope *envelope);
/* A packet that is sent to this peer now makes its last answer to a probe uncertain. */
void receiver_forget(struct peer *peer);
/* Sends this answer to the deferring peer, now or later.  False: it has more unanswered claims
 * than allowed. */
bool receiver_answer(struct mbx_ep *ep, struct deferrer *deferrer, struct answer what);

/* Do the invariants of receiver.c hold?  With MBX_CHECKS. */
bool receiver_is_valid(const struct mbx_ep *ep);

#endif
