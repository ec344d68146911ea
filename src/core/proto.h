/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.h - a protocol is a table.  Part of core.h.
 *
 *   request.state = PROTO_STATE(protocol, n)
 *       │
 *       └──> mbx_ep.modules.protos[protocol] ──> struct proto
 *                                            ├── states[n]   name, legal successors
 *                                            └── step, work, io_done, reply, cancel, peer_gone, ended
 *
 * One byte of a request holds its protocol and its state in that protocol, so one instruction
 * tests a state, or sets it at the beginning and at the end.  Code that has a packet to send, a
 * completed transfer, or a peer that is gone calls the functions of the protocol and knows only
 * its own states.
 *
 * A request begins in a state that its creator sets (request_start()), is moved only by
 * proto_move(), and ends in request_complete(), from any state.
 *
 * Invariants
 *   I1  a request moves only to a state that `next` or `then` of its state names, or whose `from`
 *       names its state: so a protocol knows the protocols below it, and none above it
 *   I2  the protocol alone determines which part is in the union of a request: request_has();
 *       `announced` is in the place of `shadow` if and only if the request is ANNOUNCED
 *   I3  the kind of a request is one that its state names
 *   I4  a request is on mbx_ep.progress.active if and only if `queue` of its state says so; its
 *       protocol has `work`
 */
#ifndef CORE_PROTO_H
#define CORE_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct mbx_ep;
struct peer;
struct request;
struct wire_packet;

/* Each folder has its own numbers for its protocols: module_register(). */
enum {
    PROTO_REQUEST,        /* request.c: complete */
    PROTO_RECV,           /* a receive that has not matched: p2p/recv.c */
    PROTO_EXTENSION = 13, /* of the module that a program brings: module_extension */
    PROTOS
};

#define PROTO_STATE_BITS      3
#define PROTO_STATES          (1u << PROTO_STATE_BITS)
#define PROTO_STATE(proto, n) ((proto) << PROTO_STATE_BITS | (n))
#define PROTO_OF(state)       ((state) >> PROTO_STATE_BITS)

/* For struct proto_state: a set of states of the same protocol, and a set of protocols. */
#define PROTO_NEXT(state) (1u << ((state) & (PROTO_STATES - 1)))
#define PROTO_THEN(proto) (1u << (proto))

static_assert(PROTO_STATE(PROTOS, 0) <= UINT8_MAX, "a state is one byte");

/* The parts of a request, which has one of them at a time. */
enum request_part {
    PART_NONE,
    PART_MATCH,      /* request.match */
    PART_DEFERRED,   /* request.deferred */
    PART_TARGET,     /* request.target */
    PART_SPLIT_COPY, /* request.split_copy */
    PART_ACCESS      /* request.access */
};

/* Is a node of a request on a list? */
enum proto_where {
    PROTO_NEVER,
    PROTO_ALWAYS,
    PROTO_EITHER,
    PROTO_ACTIVE /* request.queue: on mbx_ep.progress.active */
};

struct proto_state {
    const char *name;
    uint8_t kinds;    /* the kinds of requests in this state: enum mbx_queue */
    uint8_t out;      /* request.out: enum proto_where */
    uint8_t queue;    /* request.queue: enum proto_where */
    bool moves;       /* request.done, total and size show the progress of its bytes */
    uint8_t next;     /* the states of this protocol that may follow: PROTO_NEXT() */
    uint16_t then;    /* the other protocols that may take the request over: PROTO_THEN(), */
    bool is_first;    /* which begins in a state with is_first */
    uint8_t from[2];  /* states of protocols below from which a request enters this one; 0:
                         none */
    bool is_open;     /* a receive that may be ANNOUNCED */
    bool awaits_peer; /* it awaits something of request.peer, which is checked for liveness */
    bool lets_pass;   /* the outgoing data is long: other requests on out get their turn
                         meanwhile */
};

/* Glossary: protocol - a state machine of requests */
/* Glossary: step - one call that pushes a request forward while there is space */
struct proto {
    uint8_t id;
    uint8_t part; /* enum request_part */
    const char *name;
    struct proto_state states[PROTO_STATES];

    /* Sends the next packets of req.  0 nothing more for now; -EAGAIN no space: call again;
     * -EINPROGRESS there is space, but other requests get their turn; other: the peer is
     * gone. */
    int (*step)(struct mbx_ep *ep, struct request *req);
    /* Continues req, which was on mbx_ep.progress.active and is no longer. */
    void (*work)(struct mbx_ep *ep, struct request *req);
    /* The transport has completed a transfer for req, or failed. */
    void (*io_done)(struct mbx_ep *ep, struct request *req, int error);
    /* FIN or CTS has arrived: the receiver of this send answers.  0; -EPROTO. */
    int (*reply)(struct mbx_ep *ep, struct peer *peer, struct request *req,
                 const struct wire_packet *packet);
    /* The user cancels req, a send.  0 its completion reports the result; -EALREADY it cannot
     * be cancelled. */
    int (*cancel)(struct mbx_ep *ep, struct request *req);
    /* The peer that req awaits is gone, or its packet can never leave: ends req with this
     * error.  NULL: the module ends it, and its packet waits until then. */
    void (*peer_gone)(struct mbx_ep *ep, struct peer *peer, struct request *req, int error);
    /* req, which is ANNOUNCED, is complete: no peer may write into its buffer any more. */
    void (*ended)(struct mbx_ep *ep, struct request *req);
};

/* Does req, which is not complete, have this part now? */
bool request_has(const struct mbx_ep *ep, const struct request *req, enum request_part part);

/* May a request move from one of these states to the other? */
bool proto_may_move(const struct mbx_ep *ep, unsigned from, unsigned to);

/* Moves req, which is not complete, to this state. */
void proto_move(struct mbx_ep *ep, struct request *req, unsigned to);

#endif
