/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h - a request: what core keeps of it, and the parts that others keep in it.
 *
 *   out, queue, state, protocol, flags, peer     request.c and outq.c, for all protocols
 *   buf, size, done, total                       how far its bytes are: the protocol
 *   match deferred access target split_copy            one of them, by the protocol (proto.h I2)
 *   remote                                       the other side, once it is known
 *   open                                         a receive that waits: receiver.c, lockword.c
 *   shadow, announced                            where else a receive is
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/pool.h"
#include "core/parts.h"
#include "core/proto.h"

struct mbx_ep;
struct module;
struct pieces;

/* The states that every protocol knows; the others are in its own header (proto.h). */
enum request_state {
    REQUEST_COMPLETE = PROTO_STATE(PROTO_REQUEST, 0), /* on done, or lent to nobody any more */
    REQUEST_LINGER,                              /* consumed by the user, still on an out */
    REQUEST_POSTED = PROTO_STATE(PROTO_RECV, 0), /* waits in the matching engine */
    REQUEST_REVOKING, /* cancelled, if a device does not have it already */
};

enum request_flags {
    REQUEST_NO_SUCCESS_ENTRY = MBX_SILENT, /* no entry on success */
    REQUEST_INTERNAL = 1 << 1,             /* no entry ever: inject, discard */
    REQUEST_SYNC = 1 << 2,                 /* send: completes on match */
    REQUEST_COPIED = 1 << 3,               /* buf is the library's and freed on completion */
    REQUEST_OWES_FIN = 1 << 4,             /* receive: a FIN to remote has not left */
    REQUEST_DONE = MBX_DONE,               /* done_call() instead of an entry */
    REQUEST_AWAITED = 1 << 6,              /* a thread may sleep until it is complete */
    REQUEST_LEAVING = 1 << 7,              /* send: on out with its first packet */
    REQUEST_SHORT_OF = 1 << 8,             /* send: not eager for want of payload credit */
    REQUEST_WON = 1 << 9,                  /* send: its claim has won the word of the receive */
    REQUEST_PEER_GONE = 1 << 10,           /* receive: that is why it is cancelled */
    REQUEST_ADVERTISED = 1 << 11,          /* receive: its sender knows where buf is */
    REQUEST_NOTIFIED = 1 << 14,  /* receive from any source: of the last death (failure.c) */
    REQUEST_PIECES = 1 << 16,    /* its data does not lie at buf: pieces.h */
    REQUEST_EXPOSED = 1 << 17,   /* send: buf is readable by the peer */
    REQUEST_TRACED = 1 << 18,    /* its completion is recorded */
    REQUEST_WITHDRAWN = 1 << 19, /* send: it was to be taken back; receive: its FIN says so */
    REQUEST_WITHDRAWS = 1 << 20, /* send: its WITHDRAW has not left */
};

/* A receive that waits for a message, as senders know it. */
struct recv_open {
    uint64_t word; /* the name of its word, or 0: lockword.h */
    /* grows in the order of the posts, once receives are advertised: receiver.c */
    uint64_t number;
};

/* The other side of a message or an access, once it is known.  The buffer is that of the sender,
 * if the receiver is to read it, and ours if it is exposed; of an access that of who began it. */
struct remote {
    uint64_t request; /* its number there */
    uint64_t key, address;
};

/* In this order a receive that waits, meets a whole message and completes by a callback is in three cache lines: those
 * of the engine, and what it has up to completion.error (static_assert below). */
struct request {
    union {                            /* one of these: proto.h */
        struct mbx_match_recv match;   /* receive: its place in the matching engine */
        struct mbx_match_msg deferred; /* deferred send: its place among those (backlog.c) */
        struct access access;          /* one-sided */
        struct advert_target target;   /* send that writes (advert_send.c) */
        struct split_copy split_copy;  /* receive, PROTO_SPLIT_COPY */
    };
    uint8_t state;    /* PROTO_STATE() */
    uint8_t protocol; /* enum mbx_protocol, once known */
    uint32_t flags;   /* enum request_flags */
    union {
        char *buf;
        struct pieces *pieces; /* PIECES */
    };
    size_t size; /* of the data; receive, PIECES: 0 until it is matched (recv.c) */
    void (*done_call)(const struct mbx_completion *completion); /* DONE */
    struct recv_open open; /* receive, PROTO_RECV; its word is 0 in PROTO_ADVERT_RECV */
    struct list out;       /* on its peer's out */
    struct list queue; /* on active or done; or among the deferred sends, or open receives; or
                          among the accesses that wait, or those of a peer */
    struct mbx_completion completion; /* of a receive: error once matched, if the rest goes
                                         well */
    /* the rest means nothing in a send that was complete at once, nor do buf and size */
    uint32_t peer; /* of a receive: once matched */
    union {
        uint64_t done;        /* bytes moved */
        uint64_t rts_payload; /* send, RNDV_RTS: bytes that go with it */
    };
    union {
        uint64_t total; /* bytes to move; of a receive: what fits */
        uint64_t end;   /* send: behind the bytes that were asked for, or may be written */
    };
    struct remote remote;
    union {                         /* last: request_size() */
        struct shadow_recv shadow;  /* receive, with a device: where else it is */
        struct announced announced; /* receive, ANNOUNCED: no device then */
    };
};

static_assert(sizeof(struct pool_slot) + offsetof(struct request, completion.kind) +
                      sizeof(enum mbx_queue) <=
                  3 * CACHE_LINE,
              "a receive that completes by a callback needs no other line");

/* What the pool has of it at the least: a shadow is there only in an endpoint with a device. */
#define REQUEST_BYTES_MIN (offsetof(struct request, announced) + sizeof(struct announced))

static inline size_t request_size(bool has_device)
{
    return has_device ? sizeof(struct request) : REQUEST_BYTES_MIN;
}

/* Pools of which most is free for so long give memory back. */
#define REQUEST_REST_NS CLOCK_S

/* request.c, completion.c */
struct ep_requests {
    struct pool pool;
    uint32_t injected; /* messages that have not left, or not been taken where they wait */
    uint64_t slack_ns; /* since when most of the pools is free; 0: it is not */
    unsigned trims;    /* how often memory was given back */
    bool is_reported;  /* that there was no memory for one, or for a message to keep */
    struct list done[MBX_EVENTS + 1]; /* by enum mbx_queue; the others are nobody's */
};

/* What its user is told of it. */
static inline mbx_request request_handle(const struct request *req)
{
    return req->flags & REQUEST_NO_SUCCESS_ENTRY ? 0 : req->completion.request;
}

/* Most of the pool of requests, or of kept messages, is free: the pools give memory back if this
 * has been so for REQUEST_REST_NS. */
void request_rest(struct mbx_ep *ep);
/* There is none: why, in one line, once.  NULL. */
struct request *request_missing(struct mbx_ep *ep);
struct message *message_missing(struct mbx_ep *ep);
void request_complete(struct mbx_ep *ep, struct request *req, int error);
/* request_complete() of a request that is DONE and nothing else, without an error.  Its user is told this completion: so it need not
 * be written into the request, of which nobody has a further use. */
void request_callback(struct mbx_ep *ep, struct request *req,
                      const struct mbx_completion *completion);
/* The packet that req stood on an out for has left. */
void request_left(struct mbx_ep *ep, struct request *req);
/* Forgets a request that nobody has seen. */
void request_drop(struct mbx_ep *ep, struct request *req);
/* Copies the entry out and kills the handle.  0.  completion.c */
int request_consume(struct mbx_ep *ep, struct request *req, struct mbx_completion *completion);
/* The live request of this handle, or NULL. */
struct request *request_find(const struct mbx_ep *ep, mbx_request handle);
/* Takes a request that the peer names: of this state and peer, or NULL. */
struct request *request_named(struct mbx_ep *ep, uint64_t handle, uint32_t peer,
                              unsigned state);
/* req, a receive, ends with this error, and with what is in its buffer. */
void request_lost(struct mbx_ep *ep, struct request *req, int error);

/* Where a new request begins. */
static inline void request_start(struct request *req, unsigned state)
{
    req->state = (uint8_t)state;
}

static inline struct request *request_of_out(struct list *node)
{
    return container_of(node, struct request, out);
}

static inline struct request *request_of_queue(struct list *node)
{
    return container_of(node, struct request, queue);
}

/* The options that were meant. */
static inline const struct mbx_options *options_of(const struct mbx_options *options)
{
    static const struct mbx_options none;

    return options != NULL ? options : &none;
}

/* No flags but these and MBX_SILENT and MBX_DONE, and for that a function. */
static inline bool flags_are_valid(const struct mbx_options *options, unsigned flags)
{
    return (options->flags & ~(flags | MBX_SILENT | MBX_DONE)) == 0 &&
           (!(options->flags & MBX_DONE) || options->done != NULL);
}

static inline bool options_are_valid(const struct mbx_options *options)
{
    return flags_are_valid(options, 0);
}

/* MBX_DONE without a function is logged: -EINVAL. */
int request_check_done(const char *call, const struct mbx_options *options);

/* A call that waits for a request, or tests it, names one that completes by a callback.
 * -EINVAL. */
int request_refuse_callback(const char *call, mbx_request request);

static inline bool queues_are_valid(unsigned queues)
{
    return queues != 0 && queues < MBX_FAILURES << 1;
}

/* They are not.  -EINVAL. */
static inline int queues_refused(const char *call, unsigned queues)
{
    return log_argument(call, "queues", queues, "no queue, or an unknown one");
}

static inline bool request_is_send(const struct request *req)
{
    return req->completion.kind == MBX_SENDS;
}

/* Does req wait in its engine?  POSTED alone does not say so: it may be promised to a message
 * that waits for the device's answer. */
static inline bool recv_is_open(const struct request *req)
{
    return req->state == REQUEST_POSTED && req->match.state == MBX_MATCH_QUEUED;
}

static inline bool recv_is_from_any(const struct request *req)
{
    return req->completion.kind == MBX_RECVS && recv_is_open(req) &&
           req->match.envelope.source == MBX_ANY_SOURCE;
}

/* Who alone may take the word of req, which is open; MBX_ANY_SOURCE: whoever is told of it. */
static inline uint32_t recv_heir(const struct request *req)
{
    return req->flags & REQUEST_ADVERTISED ? req->peer : MBX_ANY_SOURCE;
}

extern const struct module request_module;

#endif
