/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.h - what a protocol or a module keeps in a request, a peer or an endpoint of its own.
 *
 * These are made once and have room for all of them, so the parts are defined here, below the rooms
 * that they belong to: each is read and written by the file that its comment names, and core only
 * knows how long it is.  request.h, peer.h and ep.h say which of them lies where.
 */
#ifndef CORE_PARTS_H
#define CORE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "base/list.h"
#include "core/backoff.h"

/* ---- in a request ---- */

/* Where a sender writes: rput_send.c, and coop.c for a part. */
struct rput_target {
    uint64_t receiver;           /* the request of the receive */
    uint64_t word, owner_id;     /* lockword.h */
    uint64_t address, key, size; /* of its buffer */
};

/* Where the buffer of a receive is, as the sender was told: rput_recv.c, coop.c. */
struct announced {
    uint64_t address, key;
    union {
        uint64_t number; /* open: grows from one to the next of that sender */
        uint64_t began;  /* RPUT_FILLING: progress.looks then */
    };
};

/* The part of a receive that its sender is asked to write: coop.c. */
struct coop {
    uint64_t from, to; /* from: behind what is read here */
    uint64_t filled;   /* word is 0: up to there it is written */
    uint64_t word;     /* lockword.h; 0: WRITTEN has come */
    bool ask;          /* the rest is to come as data */
};

enum access_type { ACCESS_PUT, ACCESS_GET, ACCESS_ATOMIC };

/* A one-sided access, of ours (origin.c) or of a peer (target.c). */
struct access {
    uint64_t key, at;     /* region, and address in it */
    const void *compare;  /* ours */
    void *result;         /* ours: of an atomic */
    uint32_t what, count; /* of an atomic, as in its packet */
    uint8_t type;         /* enum access_type */
    bool has_data;        /* PUT: the owner is told */
    bool is_moved;        /* of a peer: all is done but the answer */
    bool has_payload;     /* of a peer: PUT whose bytes came with it */
    uint16_t error;       /* of a peer: its end, if is_moved; a positive errno */
};

/* ---- of a receive that a device may have: shadow.c ---- */

enum shadow_state {
    SHADOW_NONE,     /* not posted, or over */
    SHADOW_SOFTWARE, /* stays in software */
    SHADOW_WAITING,  /* for room in the device */
    SHADOW_HANDED,
    SHADOW_REVOKING,  /* cancelled, if the device still has it */
    SHADOW_RECALLED,  /* to stay in software, if the device still has it */
    SHADOW_RECLAIMED, /* for a message of elsewhere, if the device still has it */
    SHADOW_MATCHED,   /* by the device, which moves the data */
    SHADOW_PAIRED,    /* has met a message that the device holds, which is to say so */
};

struct shadow_message;

/* Where a posted receive is besides its engine.  Everything about it: device/host/shadow.h. */
struct shadow_recv {
    const struct mbx_match_recv *match;
    void *buf;
    size_t size;
    struct list node;               /* on waiting, handed or asked */
    struct shadow_message *message; /* CLAIMED: for it; NULL: for somebody else */
    uint32_t handle;                /* HANDED and later */
    uint32_t held;                  /* PAIRED: the number of the message */
    enum shadow_state state;
    bool is_sized; /* MATCHED: it was told with the size of the message (no SIZE_LATER) */
};

/* ---- in a peer ---- */

struct mbx_ep;
struct message;
struct request;

/* p2p/eager.c: the eager message of a peer of which more fragments are to come, while size > offset:
 * message or request. */
struct assembly {
    union {
        struct message *message;
        struct request *request;
    };
    uint32_t offset;
    uint32_t size : 30;       /* at most WIRE_EAGER_MAX */
    uint32_t has_request : 1; /* request is set, not message */
    uint32_t is_lost : 1;     /* its beginning was lost with the device: offset is unknown */
};

/* p2p/credit.c.  As its sender: what may still leave.  As its receiver: what it may have
 * here, and what it has. */
struct credit {
    uint64_t envelopes, payload;     /* may leave; 0 envelopes while sends are deferred */
    uint64_t freed_payload;          /* matched here, and not told yet */
    uint32_t freed_envelopes;        /* of windows without end, since it was looked at */
    uint32_t tell_envelopes;         /* told when so much is freed */
    uint64_t window, window_payload; /* the peer may have so much here */
    uint64_t kept_payload;           /* of this waits here as unexpected */
    uint32_t kept_envelopes;
    uint32_t tell_payload;
};

/* Of a peer: how its messages had better travel. */
struct peer_path {
    /* no read from it, write to it has failed for good; rndv.c, rput_send.c */
    bool can_read : 1, can_write : 1;
    bool is_far : 1;        /* copies to it are slow; and */
    uint8_t votes, turns;   /* since when: path.h */
    struct backoff streams; /* that were not taken at once; and */
    struct backoff lent;    /* long messages of the peer that were expected in buffers */
};

/* Of a peer: matching at the sender in both directions, our sends to it and its sends to us. */
struct peer_sendside {
    bool is_deferred; /* a send to it waits, in whichever module: no receive that it has
                         announced is believed; backlog.c */
    bool defers;      /* it defers its sends to us, as far as is known; receiver.c */
};

/* ---- in an endpoint ---- */

/* p2p/credit.c, as a receiver */
struct credit_pool {
    uint64_t window, window_payload; /* of every peer, from the beginning */
    uint64_t lendable, lendable_all; /* bytes for those that want more */
    bool is_fixed, is_payload_fixed; /* by the user: no more envelopes, or payload, are lent */
    struct transport *lender;        /* whose peers may lend us chunks; NULL: nobody does */
};

/* p2p/tracepoint.c */
struct ep_tracing {
    struct trace_recorder *recorder; /* or NULL */
    bool is_on; /* with a trace, failpoints, or somebody who is told of unexpected messages: */
    bool tells_modules;              /* the modules are, too */
    bool is_late;                    /* a send is under way, and not recorded yet */
    uint32_t names_told, peers_told; /* of core/names.h: changes; and peers */
    struct tracer *tracer;           /* or NULL; p2p/tracer.h */
    /* with a recorder: a TRACED request is complete; a round of progress is over, and is asked for again after so many
     * more, from 1 */
    void (*completed)(struct mbx_ep *ep, const struct request *req, int error);
    unsigned (*looked)(struct mbx_ep *ep);
};

/* lib/ages.c: which object was seen at each place of a pool, and when first */
struct see_age {
    uint64_t id, since_ns;
};

struct see_ages {
    struct see_age *seen;
    uint32_t places, next;
};

/* lib/see.c: what is shown to observers */
struct see_page;
struct ep_see {
    struct see_page *page; /* or NULL: nobody can ask */
    struct mbx_ep *next;   /* of those that show themselves */
    struct mbx_ep **at;    /* what points to this one among them; or NULL */
    void (*answer)(struct mbx_ep *ep);
    uint64_t looks;    /* of progress_look_around() */
    uint32_t answered; /* the number of the last question */
    uint32_t turn;
    uint64_t answered_ns;
    int fd;
    /* lib/hang.c: called LIVENESS_LOOKS times in MBX_PEER_TIMEOUT while something waits */
    void (*watch)(struct mbx_ep *ep);
    uint64_t happened;             /* grows with what happens */
    uint64_t still_ns, watched_ns; /* since when nothing has; the last look */
    uint64_t retry_ns;             /* no report is asked for before */
    /* lib/ages.c */
    struct see_ages requests, messages;
    uint64_t looked_ns; /* the last look */
    int reporter;       /* what the process that reports tells us by; or -1 */
    /* who waits for a request that its user names so: mbx_explain_waits() */
    uint32_t (*waits)(const void *user, enum mbx_queue kind);
    /* what its user has described and never started: mbx_explain_unstarted() */
    int (*unstarted)(unsigned index, struct mbx_unstarted *out);
    /* p2p/tracepoint.c: who is told of unexpected messages, or NULL */
    void (*unexpected)(void *user, int has_come, const struct mbx_status *message);
    void *unexpected_user;
    /* p2p/probe.c: what the last probe had asked for that found nothing */
    uint32_t peeked; /* how many there were */
    struct mbx_match_envelope peek;
    uint64_t peek_ignore;
};

/* What core and p2p ask of matching at the sender between two calls of its modules. */
struct ep_sendside {
    struct backlogs *backlogs; /* or NULL: no send was ever deferred; backlog.c */
    struct sendtables *tables; /* or NULL: nothing was ever published; sendtable.c */
    struct receiver *receiver; /* or NULL: no peer ever deferred one; receiver.c */
    uint32_t room;             /* RTRs that are kept for one receiver; backlog.c */
};

/* SIZE_MAX: none */
struct ep_rput {
    size_t from;        /* receives of so much may be announced; rput_recv.c */
    size_t coop_from;   /* those that lack so much may be copied by both sides; coop.c */
    uint32_t announced; /* receives that are ANNOUNCED; both files */
};

#endif
