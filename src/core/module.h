/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.h - what stands on the ground of core, as tables.  Part of core.h.
 *
 *   mbx_open, with a list of modules
 *       │
 *       ├── proto      a state machine of requests (proto.h)
 *       ├── packets    type -> handler      a packet comes in      (deliver.c)
 *       ├── controls   bit -> function      a small packet leaves  (outq.c)
 *       └── hooks      called by the functions below
 *
 * What only a device does is not here: device_hooks.h.
 *
 * The ground (requests, peers, progress, waits) and the tagged messages (send, receive, probe,
 * eager, rendezvous, credit) call what is built on them through these tables alone; what is
 * built on them calls down directly.  The path of a short message goes through no table: where
 * it could meet a module it looks at a field of its own (mbx_ep.modules.watched_from,
 * peer.deferrer, peer.advert, credit) and calls a function of this file behind that.
 *
 * Invariants
 *   I1  a packet type has at most one handler, a control bit at most one function, a protocol
 *       one module
 *   I2  hooks are called in the order of the list, those of each kind in one loop
 */
#ifndef CORE_MODULE_H
#define CORE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "core/outq.h"
#include "core/proto.h"
#include "core/stats.h"
#include "transport/transport.h"
#include "wire/wire.h"

struct mbx_ep;
struct message;
struct peer;
struct request;

/* Why a receive has left its engine. */
enum recv_cause {
    RECV_MET,     /* a message has come by itself, or was taken or claimed */
    RECV_WRITTEN, /* its sender, to whom it was advertised, has won it */
    RECV_DEVICE,  /* the device has matched it, or gives it back */
    RECV_ENDED    /* it is cancelled, or nobody can send to it any more */
};

/* 0; -EAGAIN no memory now; -EPROTO the packet does not fit the state of its message. */
typedef int packet_fn(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);

struct packet_handler {
    enum wire_type type; /* 0 ends a table */
    packet_fn *handle;
};

/* A small packet that a peer is owed (enum peer_owes) until there is space for it. */
struct control {
    enum peer_owes what; /* 0 ends a table */
    /* As transport_ops.send; -EINPROGRESS something has left, and more is to come. */
    int (*send)(struct mbx_ep *ep, struct peer *peer);
    bool is_closing; /* also sent while the endpoint closes */
    bool is_behind;  /* may have to wait for the messages on out, and is tried behind them */
    bool is_first;   /* no packet: done once in each round, before anything is sent */
};

/* Glossary: module - a capability of the endpoint */
struct module {
    const char *name;
    const struct packet_handler *packets; /* or NULL */
    const struct control *controls;       /* or NULL */
    const struct proto *proto;            /* or NULL */

    /* ---- from open to close; every hook may be NULL ---- */

    /* The transport is open.  0 or an error, which is logged. */
    int (*open)(struct mbx_ep *ep);
    /* The endpoint is about to close: nothing new begins. */
    void (*stop)(struct mbx_ep *ep);
    /* Has the module nothing under way that a close waits for? */
    bool (*is_flushed)(const struct mbx_ep *ep);
    /* The transport will be closed. */
    void (*close)(struct mbx_ep *ep);
    /* The transport is closed: gives the memory back. */
    void (*fini)(struct mbx_ep *ep);

    /* ---- peers ---- */

    void (*peer_made)(struct mbx_ep *ep, struct peer *peer,
                      const struct transport_address *address);
    /* The peer is gone, and so far as the transport knows all that it sent is here: what waits
     * for it ends with this error.  is_new: that was not known. */
    void (*peer_gone)(struct mbx_ep *ep, struct peer *peer, int error, bool is_new);
    /* Does something that the module keeps, besides requests, refer to this peer, which is gone? */
    bool (*peer_refers)(struct mbx_ep *ep, const struct peer *peer);

    /* ---- progress ---- */

    /* The user reads this entry of MBX_EVENTS. */
    void (*event_read)(struct mbx_ep *ep, const struct request *req);

    /* ---- receives; of those with less space than mbx_ep.modules.watched_from nothing is told
     * ---- */

    /* req waits in its engine.  It may be complete afterwards. */
    void (*recv_posted)(struct mbx_ep *ep, struct request *req);
    /* req has left its engine; by: who has it now, if that was a claim, or NULL. */
    void (*recv_left)(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                      const struct peer *by);

    /* ---- messages ---- */

    /* A message of a peer that defers its sends (peer.deferrer) has come by itself. */
    void (*message_came)(struct mbx_ep *ep, struct peer *peer);
    /* What such a receive would take of the messages that peers have, and not sent.  1,
     * *status, and if message is not NULL it is taken; 0 nothing that is known; -ENOMEM. */
    int (*probe)(struct mbx_ep *ep, const struct mbx_match_envelope *envelope, uint64_t ignore,
                 struct mbx_status *status, struct message **message);
    /* A rendezvous that lacks at least mbx_ep.advert.split_copy_from bytes is in RNDV_READ and is to be
     * read.  True: the module does it, and gives it back. */
    bool (*read)(struct mbx_ep *ep, struct request *req);
    /* A send to a peer that has advertised receives (peer.advert).  As send_first(). */
    int (*send)(struct mbx_ep *ep, struct peer *peer, struct request *req);
    /* A send without credit, or behind one, waits.  0; -ENOMEM. */
    int (*defer)(struct mbx_ep *ep, struct peer *peer, struct request *req);
    /* Sends to this peer wait from now on, or have failed. */
    void (*deferring)(struct mbx_ep *ep, struct peer *peer);
    /* Envelope credit has come while sends to this peer are not free to leave
     * (credit.envelopes is 0).  0 it is counted; 1 it is not the module's; -EPROTO. */
    int (*credit_came)(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);
    /* This peer, which defers its sends, was sent so much credit. */
    void (*credit_sent)(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);

    /* Do the module's invariants hold?  NULL without MBX_CHECKS (valid.h). */
    bool (*is_valid)(const struct mbx_ep *ep);
};

/* Of the endpoint. */
struct ep_modules {
    const struct module *const *list; /* the last one is NULL */
    const struct proto *protos[PROTOS];
    packet_fn *packets[WIRE_TYPES];
    const struct control *controls[CONTROLS];
    uint8_t owes_closing, owes_behind, owes_first; /* controls that are so */
    size_t
        watched_from; /* modules are told of a receive with at least so much space: when it is
                            posted, and when it leaves its engine.  0: of each; SIZE_MAX: of none */
    size_t watched_always; /* the same, of module_watch() alone */
    bool watches_all;      /* module_watch_all() */
};

/* The first module of each endpoint, for a program that links the library's inside and brings one;
 * it has nothing, unless that is set before anything is opened (tests/p2p/line.c). */
extern struct module module_extension;

/* Enters the tables of ep->modules.list. */
void module_register(struct mbx_ep *ep);

/* Some module is to be told of receives with so much space, from now on. */
void module_watch(struct mbx_ep *ep, size_t from);
/* receiver.c is to be told of each receive; or is not any more. */
void module_watch_all(struct mbx_ep *ep, bool watches);

/* ---- what calls the hook of that name of every module ---- */

/* 0; or the first error, and those before are closed again. */
int module_open(struct mbx_ep *ep);
void module_stop(struct mbx_ep *ep);
bool module_is_flushed(const struct mbx_ep *ep);
void module_close(struct mbx_ep *ep);
void module_fini(struct mbx_ep *ep);
void module_peer_made(struct mbx_ep *ep, struct peer *peer,
                      const struct transport_address *address);
void module_peer_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new);
bool module_peer_refers(struct mbx_ep *ep, const struct peer *peer);
void module_event_read(struct mbx_ep *ep, const struct request *req);
void module_recv_posted(struct mbx_ep *ep, struct request *req);
void module_recv_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                      const struct peer *by);
void module_message_came(struct mbx_ep *ep, struct peer *peer);
int module_probe(struct mbx_ep *ep, const struct mbx_match_envelope *envelope, uint64_t ignore,
                 struct mbx_status *status, struct message **message);
bool module_read(struct mbx_ep *ep, struct request *req);
int module_send(struct mbx_ep *ep, struct peer *peer, struct request *req);
int module_defer(struct mbx_ep *ep, struct peer *peer, struct request *req);
void module_deferring(struct mbx_ep *ep, struct peer *peer);
int module_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);
void module_credit_sent(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);
bool module_is_valid(const struct mbx_ep *ep);

#endif
