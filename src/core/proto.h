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
 * One byte of a request says which protocol it is in and in which state of that, so a state is
 * tested, and set at the beginning and at the end, with one instruction.  Whoever has a packet
 * to send, a completed transfer, or a peer that is gone calls the functions of the protocol and
 * knows no state but its own.
 *
 * A request begins in a state that its maker writes (request_start()), is moved by proto_move()
 * alone, and ends in request_complete(), from any state.
 *
 * Invariants
 *   I1  a request moves only to a state that `next` or `then` of its state names, or whose `from`
 *       names its state: so a protocol knows those below, and none above
 *   I2  which part of a request lies in the union of them follows from its protocol alone:
 *       request_has(); `announced` lies in the place of `shadow` if and only if it is ANNOUNCED
 *   I3  a request is of a kind that its state names
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

/* Each folder names its protocols by numbers that no other one has: module_register(). */
enum {
    PROTO_REQUEST,        /* request.c: complete */
    PROTO_RECV,           /* a receive without a message: p2p/recv.c */
    PROTO_EXTENSION = 13, /* of the module that a program brings: module_extension */
    PROTOS
};

#define PROTO_STATE_BITS      3
#define PROTO_STATES          (1u << PROTO_STATE_BITS)
#define PROTO_STATE(proto, n) ((proto) << PROTO_STATE_BITS | (n))
#define PROTO_OF(state)       ((state) >> PROTO_STATE_BITS)

/* For struct proto_state: a set of states of the same protocol, of protocols. */
#define PROTO_NEXT(state) (1u << ((state) & (PROTO_STATES - 1)))
#define PROTO_THEN(proto) (1u << (proto))

static_assert(PROTO_STATE(PROTOS, 0) <= UINT8_MAX, "a state is one byte");

/* The parts of a request of which it has one at a time. */
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
    uint8_t kinds;    /* requests of these: enum mbx_queue */
    uint8_t out;      /* request.out: enum proto_where */
    uint8_t queue;    /* request.queue: enum proto_where */
    bool moves;       /* request.done, total and size say how far its bytes are */
    uint8_t next;     /* states of this protocol that may follow: PROTO_NEXT() */
    uint16_t then;    /* other protocols that may take the request over: PROTO_THEN() */
    bool is_first;    /* ... and enter here */
    uint8_t from[2];  /* states of protocols below, from which one comes here; 0: none */
    bool is_open;     /* a receive that may be ANNOUNCED */
    bool awaits_peer; /* something of request.peer is awaited: is it still there? */
    bool lets_pass;   /* what is leaving is long: others on out have their turn meanwhile */
};

/* Glossary: protocol - a state machine of requests */
/* Glossary: step - one call that pushes a request forward while there is space */
struct proto {
    uint8_t id;
    uint8_t part; /* enum request_part */
    const char *name;
    struct proto_state states[PROTO_STATES];

    /* Sends what req has to send now.  0 nothing more for now; -EAGAIN no space: call again;
     * -EINPROGRESS there is space, but others are to have their turn; or the peer is gone. */
    int (*step)(struct mbx_ep *ep, struct request *req);
    /* Goes on with req, which was on mbx_ep.progress.active and is no longer. */
    void (*work)(struct mbx_ep *ep, struct request *req);
    /* The transport has moved what it was to move for req, or not. */
    void (*io_done)(struct mbx_ep *ep, struct request *req, int error);
    /* FIN or CTS: the receiver of this send answers.  0; -EPROTO. */
    int (*reply)(struct mbx_ep *ep, struct peer *peer, struct request *req,
                 const struct wire_packet *packet);
    /* The user takes back req, a send.  0 its completion tells; -EALREADY it cannot be taken back. */
    int (*cancel)(struct mbx_ep *ep, struct request *req);
    /* The peer that req awaits is gone, or its packet can never leave: it ends with this error.
     * NULL: the module ends it, and its packet waits until then. */
    void (*peer_gone)(struct mbx_ep *ep, struct peer *peer, struct request *req, int error);
    /* req, which is ANNOUNCED, is complete: nobody is to write into its buffer any more. */
    void (*ended)(struct mbx_ep *ep, struct request *req);
};

/* Does req, which is not complete, have this part now? */
bool request_has(const struct mbx_ep *ep, const struct request *req, enum request_part part);

/* May a request go from one of these states to the other? */
bool proto_may_move(const struct mbx_ep *ep, unsigned from, unsigned to);

/* req, which is not complete, is in this state from now on. */
void proto_move(struct mbx_ep *ep, struct request *req, unsigned to);

#endif
