/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.h - the code above core, as tables.  Part of core.h.
 *
 *   mbx_open, with a list of modules
 *       │
 *       ├── proto      a state machine of requests (proto.h)
 *       ├── packets    type -> handler      a packet comes in      (deliver.c)
 *       ├── controls   bit -> function      a small packet leaves  (outq.c)
 *       └── hooks      called by the functions below
 *
 * Hooks that only a device has are in device_hooks.h.
 *
 * Core (requests, peers, progress, waits) and the tagged messages (send, receive, probe, eager,
 * rendezvous, credit) call the modules above them only through these tables; modules call down
 * directly.  The path of a short message uses no table: where a module might have to be called,
 * it checks a field of its own (mbx_ep.modules.watched_from, peer.deferrer, peer.advert,
 * credit), and only then calls a function of this file.
 *
 * Invariants
 *   I1  a packet type has at most one handler, a control bit at most one function, a protocol
 *       one module
 *   I2  hooks are called in the order of the list, in one loop for each kind
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

/* The reason why a receive left its engine. */
enum recv_cause {
    RECV_MET,     /* a message has arrived for it, or was taken or claimed */
    RECV_WRITTEN, /* the sender to which it was advertised has won it */
    RECV_DEVICE,  /* the device has matched it, or the device gives it back */
    RECV_ENDED    /* it is cancelled, or can no longer be matched because its peer is gone */
};

/* 0; -EAGAIN no memory now; -EPROTO the packet is not valid in the state of its message. */
typedef int packet_fn(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);

struct packet_handler {
    enum wire_type type; /* 0 ends a table */
    packet_fn *handle;
};

/* A small packet that is owed to a peer (enum peer_owes) until there is space for it. */
struct control {
    enum peer_owes what; /* 0 ends a table */
    /* As transport_ops.send; -EINPROGRESS something has left, and more is to come. */
    int (*send)(struct mbx_ep *ep, struct peer *peer);
    bool is_closing; /* also sent while the endpoint closes */
    bool is_behind;  /* sent after the messages on out, if it has to wait for them */
    bool is_first;   /* not a packet: called once in each round, before any packet is sent */
};

/* Glossary: module - a table of callbacks for one capability of an endpoint */
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
    /* Has the module no unfinished operations that a close waits for? */
    bool (*is_flushed)(const struct mbx_ep *ep);
    /* The transport is about to be closed. */
    void (*close)(struct mbx_ep *ep);
    /* The transport is closed: frees the memory. */
    void (*fini)(struct mbx_ep *ep);

    /* ---- peers ---- */

    void (*peer_made)(struct mbx_ep *ep, struct peer *peer,
                      const struct transport_address *address);
    /* The peer is gone, and the transport expects no more packets of it: operations that wait
     * for it end with this error.  is_new: this is the first call for the
     * peer. */
    void (*peer_gone)(struct mbx_ep *ep, struct peer *peer, int error, bool is_new);
    /* Does the module have state, other than requests, that refers to this peer, which is
     * gone? */
    bool (*peer_refers)(struct mbx_ep *ep, const struct peer *peer);

    /* ---- progress ---- */

    /* The user reads this entry of MBX_EVENTS. */
    void (*event_read)(struct mbx_ep *ep, const struct request *req);

    /* ---- receives; of those with less space than mbx_ep.modules.watched_from nothing is told
     * ---- */

    /* req has been posted and waits in its engine.  It may be complete after this call. */
    void (*recv_posted)(struct mbx_ep *ep, struct request *req);
    /* req has left its engine; by: the peer whose claim got it, or NULL. */
    void (*recv_left)(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                      const struct peer *by);

    /* ---- messages ---- */

    /* A message of a peer that defers its sends (peer.deferrer) has arrived without a claim. */
    void (*message_came)(struct mbx_ep *ep, struct peer *peer);
    /* The message that such a receive would match among the deferred ones of the peers.  1 and
     * *status: there is one, and if message is not NULL it is taken; 0 none is known;
     * -ENOMEM. */
    int (*probe)(struct mbx_ep *ep, const struct mbx_match_envelope *envelope, uint64_t ignore,
                 struct mbx_status *status, struct message **message);
    /* A rendezvous in RNDV_READ with at least mbx_ep.advert.split_copy_from bytes left is about
     * to be read.  True: the module reads it, and gives it back. */
    bool (*read)(struct mbx_ep *ep, struct request *req);
    /* A send to a peer that has advertised receives (peer.advert).  Returns as send_first(). */
    int (*send)(struct mbx_ep *ep, struct peer *peer, struct request *req);
    /* A send without credit, or after a deferred one, has to wait.  0; -ENOMEM. */
    int (*defer)(struct mbx_ep *ep, struct peer *peer, struct request *req);
    /* Sends to this peer wait from now on, or have failed. */
    void (*deferring)(struct mbx_ep *ep, struct peer *peer);
    /* Envelope credit has arrived while sends to this peer may not leave (credit.envelopes is
     * 0).  0 it is counted; 1 it does not belong to the module; -EPROTO. */
    int (*credit_came)(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);
    /* This much credit was sent to a peer that defers its sends. */
    void (*credit_sent)(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes);

    /* Do the module's invariants hold?  NULL without MBX_CHECKS (valid.h). */
    bool (*is_valid)(const struct mbx_ep *ep);
};

/* Part of the endpoint. */
struct ep_modules {
    const struct module *const *list; /* the last one is NULL */
    const struct proto *protos[PROTOS];
    packet_fn *packets[WIRE_TYPES];
    const struct control *controls[CONTROLS];
    uint8_t owes_closing, owes_behind, owes_first; /* masks of the controls with is_closing,
                                                      is_behind, is_first */
    size_t watched_from; /* modules are notified when a receive with at least this much space is
                         posted, and when it leaves its engine.  0: all receives; SIZE_MAX:
                         none */
    size_t watched_always; /* the threshold set by module_watch() */
    bool watches_all;      /* set by module_watch_all() */
};

/* The first module of each endpoint, for a program that links the library's internals and adds
 * a module.  It is empty, unless the program sets it before anything is opened
 * (tests/p2p/line.c). */
extern struct module module_extension;

/* Registers the tables of ep->modules.list. */
void module_register(struct mbx_ep *ep);

/* From now on modules are notified of receives with at least this much space. */
void module_watch(struct mbx_ep *ep, size_t from);
/* From now on receiver.c is notified of each receive; or no longer. */
void module_watch_all(struct mbx_ep *ep, bool watches);

/* ---- calls the hook of this name in every module ---- */

/* 0; or the first error, after the modules opened before are closed again. */
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
