/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_order.h - which receives of a job could have matched another message first.
 *
 * A job is what each rank did, in its order: sends, posts, and what its calls reported.  It has no times: a message arrives
 * at any time after it was sent.  Messages of one sender arrive in the order in which they were sent.
 *
 * An alternative of a receive from any source is a message of another sender that it could have matched while everything
 * before is as recorded: there is a run, with the same operations, in which each match up to that one is a recorded match, and the
 * receive then matches this message.  (docs/same-answer.md#is-this-receive-a-race)
 */
#ifndef TOOLS_RACES_ORDER_H
#define TOOLS_RACES_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RACES_NONE UINT32_MAX /* no rank, message or receive; a position that never comes */
#define RACES_ANY  UINT32_MAX /* source */

enum races_op_kind {
    RACES_SEND,   /* a message */
    RACES_POST,   /* a receive */
    RACES_REPORT, /* the rank has been told that a receive is complete */
    RACES_LOOK, /* a probe, or a receive that is posted and takes its message at this moment */
    RACES_CANCEL, /* a receive, in time */
    RACES_SENT /* the rank has been told that its synchronous send of a message is complete */
};

struct races_op {
    enum races_op_kind kind;
    uint32_t what; /* a message, or a receive */
};

struct races_message {
    uint32_t from, to;
    uint32_t comm, tag;
    uint32_t receive; /* that takes it, not a probe; or RACES_NONE */
    /* races_find() fills in the rest: */
    uint32_t sent;    /* position at its sender */
    uint32_t channel; /* index */
    uint32_t index;   /* in its channel, from 1 on */
};

struct races_receive {
    uint32_t rank;
    uint32_t comm, source, tag;
    uint32_t message; /* or RACES_NONE */
    bool is_any_tag;
    bool is_probe;   /* it takes no message */
    bool is_checked; /* its alternatives are wanted */
    /* races_find() fills in the rest: positions at its rank, or RACES_NONE */
    uint32_t post, report, cancel;
};

struct races_rank {
    struct races_op *ops; /* the position of ops[i] is i + 1 */
    uint32_t count;
};

struct races_job {
    struct races_rank *ranks;
    struct races_message *messages;
    struct races_receive *receives;
    uint32_t rank_count, message_count, receive_count;
};

typedef void races_found_fn(void *arg, uint32_t receive, uint32_t message);

/* Calls found for each alternative, the receives of one rank in their order.  *undecided: so many messages may be alternatives, and
 * were not looked at to the end.  0; -ENOMEM; -EBADMSG: the parts of the job contradict each other, as no run can be. */
int races_find(struct races_job *job, races_found_fn *found, void *arg, uint64_t *undecided);

/* Cut: how much of each rank's order is kept when `mbx explore` lets a receive take another message */
/* It goes before an alternative: so many operations of each rank. */
struct races_cut {
    const uint32_t *done;
    const struct finder *finder; /* these two: for races_cut_has() */
    const struct cut *last;
};

typedef void races_cut_fn(void *arg, const struct races_cut *cut);

/* Calls got with a cut after which the receive can take the message: one that leaves out little, if there is one.
 * 0; -ENOENT: races_find() does not find this alternative; otherwise as races_find(). */
int races_find_cut(struct races_job *job, uint32_t receive, uint32_t message, races_cut_fn *got,
                   void *arg);

/* Has this receive or probe its own message in the cut?  The one that takes another message has not. */
bool races_cut_has(const struct races_cut *cut, uint32_t receive);

/* Does this receive accept this message of its rank? */
static inline bool races_accepts(const struct races_receive *r, const struct races_message *m)
{
    return m->to == r->rank && m->comm == r->comm &&
           (r->source == RACES_ANY || r->source == m->from) &&
           (r->is_any_tag || r->tag == m->tag);
}

#endif
