/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h - a request: the members that core owns, and the parts that other folders own.
 *
 *   out, queue, state, protocol, flags, peer     request.c and outq.c, for all protocols
 *   buf, size, done, total                       the progress of its bytes: the protocol
 *   match deferred access target split_copy      one of them, by the protocol (proto.h I2)
 *   remote                                       the request of the other side, once known
 *   open                                         an open receive: receiver.c, lockword.c
 *   shadow, announced                            a receive at a device, or at its sender
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

/* The states that every protocol knows; the others are in the protocol's own header
 * (proto.h). */
enum request_state {
    REQUEST_COMPLETE = PROTO_STATE(PROTO_REQUEST, 0), /* on done, or unused */
    REQUEST_LINGER,                              /* consumed by the user, still on an out */
    REQUEST_POSTED = PROTO_STATE(PROTO_RECV, 0), /* waits in the matching engine */
    REQUEST_REVOKING, /* cancelled, unless a device has already matched it */
};

enum request_flags {
    REQUEST_NO_SUCCESS_ENTRY = MBX_SILENT, /* no entry on success */
    REQUEST_INTERNAL = 1 << 1,             /* never an entry: inject, discard */
    REQUEST_SYNC = 1 << 2,                 /* send: completes on match */
    REQUEST_COPIED = 1 << 3,               /* buf belongs to the library, and is freed on
                                              completion */
    REQUEST_OWES_FIN = 1 << 4,             /* receive: a FIN to remote has not left */
    REQUEST_DONE = MBX_DONE,               /* done_call() instead of an entry */
    REQUEST_AWAITED = 1 << 6,              /* a thread may sleep until it is complete */
    REQUEST_LEAVING = 1 << 7,              /* send: on out, and its first packet has not left */
    REQUEST_SHORT_OF = 1 << 8,             /* send: not eager for lack of payload credit */
    REQUEST_WON = 1 << 9,                  /* send: its claim has won the word of the receive */
    REQUEST_PEER_GONE = 1 << 10,           /* receive: cancelled for this reason */
    REQUEST_ADVERTISED = 1 << 11,          /* receive: its sender knows where buf is */
    REQUEST_NOTIFIED = 1 << 14,  /* receive from any source: notified of the last death
                                    (failure.c) */
    REQUEST_PIECES = 1 << 16,    /* its data is not at buf: pieces.h */
    REQUEST_EXPOSED = 1 << 17,   /* send: buf is readable by the peer */
    REQUEST_TRACED = 1 << 18,    /* its completion is recorded */
    REQUEST_WITHDRAWN = 1 << 19, /* send: cancelled, if possible; receive: its FIN reports
                                    that */
    REQUEST_WITHDRAWS = 1 << 20, /* send: its WITHDRAW has not left */
};

/* An open receive, as senders know it. */
struct recv_open {
    uint64_t word; /* the name of its lock word, or 0: lockword.h */
    /* once receives are advertised: increases in the order of the posts; receiver.c */
    uint64_t number;
};

/* The other side of a message or an access, once it is known.  The buffer is the sender's if
 * the receiver has to read it, ours if it is exposed, and for an access the initiator's. */
struct remote {
    uint64_t request; /* the request on the other side */
    uint64_t key, address;
};

/* In this order, a receive that is posted, matches a whole message and completes by a callback
 * uses three cache lines: the engine's, and the members up to completion.error (static_assert
 * below). */
struct request {
    union {                            /* one of these: proto.h */
        struct mbx_match_recv match;   /* receive: its entry in the matching engine */
        struct mbx_match_msg deferred; /* deferred send: its entry among the deferred ones
                                          (backlog.c) */
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
                          among the waiting accesses, or a peer's accesses */
    struct mbx_completion completion; /* of a receive: error is set when it is matched, in case
                                         no error follows */
    /* the members below are not set for a send that was complete at once, nor are buf and
     * size */
    uint32_t peer; /* of a receive: set when it is matched */
    union {
        uint64_t done;        /* bytes moved */
        uint64_t rts_payload; /* send, RNDV_RTS: bytes that go with it */
    };
    union {
        uint64_t total; /* bytes to move; of a receive: the bytes that fit */
        uint64_t end;   /* send: the end of the bytes that were requested, or may be written */
    };
    struct remote remote;
    union {                         /* must be last: request_size() */
        struct shadow_recv shadow;  /* receive, with a device: its state there */
        struct announced announced; /* receive, ANNOUNCED, which excludes a device */
    };
};

static_assert(sizeof(struct pool_slot) + offsetof(struct request, completion.kind) +
                      sizeof(enum mbx_queue) <=
                  3 * CACHE_LINE,
              "a receive that completes by a callback needs no other line");

/* The least size of a request in the pool: the shadow exists only in an endpoint with a
 * device. */
#define REQUEST_BYTES_MIN (offsetof(struct request, announced) + sizeof(struct announced))

static inline size_t request_size(bool has_device)
{
    return has_device ? sizeof(struct request) : REQUEST_BYTES_MIN;
}

/* Pools give memory back after most of it has been free for this time. */
#define REQUEST_REST_NS CLOCK_S

/* Written by request.c and completion.c. */
struct ep_requests {
    struct pool pool;
    uint32_t injected; /* injected messages that have not left, or that their receiver has not
                          taken yet */
    uint64_t slack_ns; /* the time since which most of the pools is free; 0: it is not */
    unsigned trims;    /* the number of times that memory was given back */
    bool is_reported;  /* it was logged that there was no memory for a request, or for a message
                          to keep */
    struct list done[MBX_EVENTS + 1]; /* by enum mbx_queue; the other entries are unused */
};

/* The handle for the user. */
static inline mbx_request request_handle(const struct request *req)
{
    return req->flags & REQUEST_NO_SUCCESS_ENTRY ? 0 : req->completion.request;
}

/* Most of the pool of requests, or of kept messages, is free: gives memory back if this has
 * been so for REQUEST_REST_NS. */
void request_rest(struct mbx_ep *ep);
/* An allocation has failed: logs the reason in one line, once.  Returns NULL. */
struct request *request_missing(struct mbx_ep *ep);
struct message *message_missing(struct mbx_ep *ep);
void request_complete(struct mbx_ep *ep, struct request *req, int error);
/* request_complete() for a request whose only flag is REQUEST_DONE, without an error.  The
 * callback gets this completion, so it need not be written into the request, which is not used
 * any more. */
void request_callback(struct mbx_ep *ep, struct request *req,
                      const struct mbx_completion *completion);
/* The packet has left for which req was on an out. */
void request_left(struct mbx_ep *ep, struct request *req);
/* Frees a request that the user has not seen. */
void request_drop(struct mbx_ep *ep, struct request *req);
/* Copies the entry out, and makes the handle invalid.  Returns 0.  In completion.c. */
int request_consume(struct mbx_ep *ep, struct request *req, struct mbx_completion *completion);
/* The live request with this handle, or NULL. */
struct request *request_find(const struct mbx_ep *ep, mbx_request handle);
/* The request that a peer's packet names, if it has this peer and state; or NULL. */
struct request *request_named(struct mbx_ep *ep, uint64_t handle, uint32_t peer,
                              unsigned state);
/* req, a receive, ends with this error, and with the data that is in its buffer. */
void request_lost(struct mbx_ep *ep, struct request *req, int error);

/* Sets the first state of a new request. */
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

/* The options, or the default ones for NULL. */
static inline const struct mbx_options *options_of(const struct mbx_options *options)
{
    static const struct mbx_options none;

    return options != NULL ? options : &none;
}

/* Are there no flags but these, MBX_SILENT, and MBX_DONE with a function? */
static inline bool flags_are_valid(const struct mbx_options *options, unsigned flags)
{
    return (options->flags & ~(flags | MBX_SILENT | MBX_DONE)) == 0 &&
           (!(options->flags & MBX_DONE) || options->done != NULL);
}

static inline bool options_are_valid(const struct mbx_options *options)
{
    return flags_are_valid(options, 0);
}

/* Logs MBX_DONE without a function: -EINVAL. */
int request_check_done(const char *call, const struct mbx_options *options);

/* Logs a wait for, or a test of, a request that completes by a callback.  -EINVAL. */
int request_refuse_callback(const char *call, mbx_request request);

static inline bool queues_are_valid(unsigned queues)
{
    return queues != 0 && queues < MBX_FAILURES << 1;
}

/* Logs queues that are not valid.  -EINVAL. */
static inline int queues_refused(const char *call, unsigned queues)
{
    return log_argument(call, "queues", queues, "no queue, or an unknown one");
}

static inline bool request_is_send(const struct request *req)
{
    return req->completion.kind == MBX_SENDS;
}

/* Does req wait in its engine?  POSTED alone does not imply that: req may be promised to a
 * message that waits for the device's answer. */
static inline bool recv_is_open(const struct request *req)
{
    return req->state == REQUEST_POSTED && req->match.state == MBX_MATCH_QUEUED;
}

static inline bool recv_is_from_any(const struct request *req)
{
    return req->completion.kind == MBX_RECVS && recv_is_open(req) &&
           req->match.envelope.source == MBX_ANY_SOURCE;
}

/* The only sender that may take the word of req, which is open; MBX_ANY_SOURCE: each sender
 * that knows it. */
static inline uint32_t recv_heir(const struct request *req)
{
    return req->flags & REQUEST_ADVERTISED ? req->peer : MBX_ANY_SOURCE;
}

extern const struct module request_module;

#endif
