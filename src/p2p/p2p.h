/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p.h - tagged messages from one endpoint to another: the header of src/p2p, and the only one of
 * it that another folder includes.  What each file offers is told below, under its name; credit.h,
 * path.h, tracepoint.h and tracer.h come with it.
 *
 *   send.c     a message starts             deliver.c  a packet comes in
 *   eager.c    it travels at once           recv.c     a receive, and where it meets its message
 *   rndv.c     it is announced              message.c  a message without a receive
 *   credit.h   what may leave               probe.c    looking at those
 *   path.c     how it travels               try_recv.c receiving one that is there
 *   drop.c     those that are over          unexpected.c  a list of them, and who is told
 *   withdraw.c a send is taken back
 */
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include "core/core.h"

/* ---- the protocols of this folder ---- */

enum p2p_proto {
    PROTO_SEND = 2, /* send.c: a message of which it is not known how it travels */
    PROTO_EAGER,    /* eager.c */
    PROTO_RNDV,     /* rndv.c */
    PROTO_PIECES,   /* rndv_pieces.c: a receive that reads its sender's memory in pieces */
};

/* ---- what this folder keeps in a peer and an endpoint, or asks of those above ---- */

/* Glossary: assembly - an eager message of which more packets are expected */
/* Of a peer, eager.c: the eager message of a peer of which more fragments are to come, while size > offset:
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
PART_FITS(peer, assembly, struct assembly);
#define peer_assembly(peer) PART((peer)->assembly, struct assembly)

/* Of a peer: matching at the sender in both directions, our sends to it and its sends to us. */
struct peer_defer {
    bool is_deferred; /* a send to it waits, in whichever module: no receive that it has
                         announced is believed; backlog.c */
    bool defers;      /* it defers its sends to us, as far as is known; receiver.c */
};
PART_FITS(peer, defer, struct peer_defer);
#define peer_defer(peer) PART((peer)->defer, struct peer_defer)

/* Of an endpoint, written by src/advert.  SIZE_MAX: none */
struct ep_advert {
    size_t from; /* receives of so much may be announced; advert_recv.c */
    size_t
        split_copy_from; /* those that lack so much may be copied by both sides; split_copy.c */
    uint32_t announced;  /* receives that are ANNOUNCED; both files */
};
PART_FITS(mbx_ep, advert, struct ep_advert);
#define ep_advert(ep) PART((ep)->advert, struct ep_advert)

/* Of an endpoint: what the last probe had asked for that found nothing. */
struct ep_peeks {
    uint32_t count; /* how many there were */
    struct mbx_match_envelope envelope;
    uint64_t ignore;
};
PART_FITS(mbx_ep, peeks, struct ep_peeks);
#define ep_peeks(ep) PART((ep)->peeks, struct ep_peeks)

/* ---- messages that have arrived ---- */

/* What recv_matched() is told of a message: straight from a packet, or kept. */
struct arrival {
    struct mbx_match_envelope envelope; /* source is the peer */
    uint64_t size;                      /* of the whole message */
    uint64_t data;
    const char *payload;
    const struct wire_rts *rts; /* NULL: an eager message */
    uint64_t sender;            /* the sender's request number; 0 if no FIN is wanted */
    size_t have;                /* bytes at payload: all, the first fragment, RTS payload */
    bool is_fragmented;         /* further eager fragments follow */
};

/* The longest payload that a kept message holds itself. */
#define MESSAGE_INLINE 24

/* message.size of a message that does not lie in the pool, or not all of it. */
#define MESSAGE_LONG UINT32_MAX
#define MESSAGE_RTS  (UINT32_MAX - 1)

/* An unexpected message, or one taken by a matched probe; see message.c.  Many may have
 * to wait, so it holds no more than a short one needs. */
struct message {
    struct mbx_match_msg match;
    uint64_t data;
    uint32_t size; /* of payload; or it says that it is something else */
    uint32_t held; /* offload's, of one that waits in the queue: its number in the device */
    union {
        struct {
            uint64_t sender;
            char payload[MESSAGE_INLINE];
        };
        struct wire_rts rts;
        struct message_more *more;
    };
};

static_assert(sizeof(struct message) <= sizeof(struct mbx_match_msg) + 48, "many wait");

/* ---- message.c ---- */

/* Keeps an arrival that met no receive, with a copy of its payload and space for the
 * fragments to come.  NULL: no memory. */
struct message *message_keep(struct mbx_ep *ep, const struct arrival *arrival);
void message_drop(struct mbx_ep *ep, struct message *message);
/* As message_drop(), of one that has no memory but its place in the pool. */
static inline void message_drop_short(struct mbx_ep *ep, struct message *message)
{
    ep->stats.unexpected_bytes_now -= ep->messages.stride;
    pool_give(&ep->messages, message);
}
/* message_is_ready() of one that does not lie in the pool, or not all of it. */
bool message_is_ready_long(const struct message *message, size_t size);
/* As message_is_ready(), but false of one that does not lie in the pool. */
static inline bool message_is_ready_short(const struct message *message, size_t size)
{
    return likely(message->size <= MESSAGE_INLINE) && likely(message->size <= size) &&
           likely(message->sender == 0);
}
/* Is all of it here, no longer than size, and does its sender wait for nothing? */
static inline bool message_is_ready(const struct message *message, size_t size)
{
    return likely(message->size <= MESSAGE_INLINE) ? message_is_ready_short(message, size)
                                                   : message_is_ready_long(message, size);
}
/* The payload credit that its sender has spent on it. */
uint64_t message_credit(const struct message *message);
/* The kept message, as it arrived; *storage may be used for it. */
const struct arrival *message_arrival(const struct message *message, struct arrival *storage);
/* What a receive of it would say. */
void message_describe(const struct message *message, struct mbx_status *status);
/* A further fragment of a kept message. */
void message_append(struct message *message, const void *payload, size_t size);

/* ---- send.c ---- */

/* The first packet of req, which has its credit, leaves now or when it is its turn.  0, or the
 * peer is known to be gone. */
int send_first(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* The same if there is credit; or else it waits here.  0; -ENOMEM; or as above. */
int send_or_defer(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* Counts a message whose receiver has all of it. */
void send_count(struct mbx_ep *ep, const struct request *req);

/* ---- eager.c, rndv.c: each step 0 done for now, -EAGAIN no space: call again,
 * -EINPROGRESS there is space, but others are to have their turn, or a lasting error of
 * the transport ---- */

extern const struct module recv_module, send_module, eager_module, rndv_module;
extern const struct module rndv_pieces_module, withdraw_module, drop_module;

enum send_state { SEND_NEW = PROTO_STATE(PROTO_SEND, 0) };

enum eager_state {
    EAGER_SENDING = PROTO_STATE(PROTO_EAGER, 0), /* send: its packets are leaving */
    EAGER_WAIT_FIN, /* synchronous send: the receiver will say FIN */
    EAGER_ASSEMBLE, /* receive: further fragments will come */
};

enum rndv_state {
    RNDV_RTS = PROTO_STATE(PROTO_RNDV, 0), /* send: its RTS has not left */
    RNDV_WAIT_FIN,                         /* send: the receiver will say FIN, or CTS */
    RNDV_SEND_DATA,                        /* send: what the CTS asked for is leaving */
    RNDV_READ,                             /* receive: reads the sender's memory */
    RNDV_READ_WAIT,                        /* receive: the transport reads */
    RNDV_CTS,                              /* receive: its CTS has not left */
    RNDV_WAIT_DATA,                        /* receive: DATA will come */
};

enum pieces_state {
    PIECES_READ = PROTO_STATE(PROTO_PIECES, 0), /* receive: reads the sender's memory */
    PIECES_READ_WAIT,                           /* receive: the transport reads */
};

/* Do the invariants of eager.c hold?  With MBX_CHECKS. */
bool eager_is_valid(const struct mbx_ep *ep);

int eager_packet(struct mbx_ep *ep, struct peer *peer, uint32_t context_id, uint64_t tag,
                 uint64_t data, uint64_t sender, const void *buf, size_t size);
/* eager_packet() without a FIN. */
int eager_send(struct mbx_ep *ep, struct peer *peer, uint32_t context_id, uint64_t tag,
               uint64_t data, const void *buf, size_t size);
/* As eager_packet() without a FIN, of a message that is packed into the packet, or as
 * transport_compose(). */
int eager_compose(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                  struct pieces *pieces);
/* A message in pieces that is packed for the peer to unpack.  0; -ECANCELED it cannot be packed; -EAGAIN
 * it is not packed, or it is and has not left: then a rendezvous goes on with it; or why it is
 * lost. */
int eager_in_buffer(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                    struct pieces *pieces);
void eager_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* Counts an eager message that is received. */
void eager_count_received(struct mbx_ep *ep, uint64_t size, bool is_fragmented);
/* The same for a receive in pieces. */
void eager_receive_pieces(struct mbx_ep *ep, struct request *req,
                          const struct arrival *arrival);
/* The fragments to come of this arrival go to the message that keeps it. */
void eager_assemble(struct mbx_ep *ep, const struct arrival *arrival, struct message *message);
/* A message of size bytes of peer has come eagerly, or by rendezvous, and met a receive that was there before it: the next
 * one like it may use bounce buffers.  Not after one that no receive was posted for, since of a flood of these each sender's
 * buffers would become resident here. */
void eager_invite(struct mbx_ep *ep, struct peer *peer, size_t size, bool is_eager);
/* The beginning of the message of req is lost: what follows is let pass, up to its end. */
void eager_await_end(struct mbx_ep *ep, struct request *req);

void rndv_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* All that fits is where it belongs. */
void rndv_received(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol);
/* Reads the rest of req in pieces. */
void rndv_read_pieces(struct mbx_ep *ep, struct request *req);
/* Reads a chunk for req, in RNDV_READ, without asking its sender to take a part. */
void rndv_read_alone(struct mbx_ep *ep, struct request *req);
/* Reads at most a chunk of what is before end, in a state of any protocol, which is `waits` while
 * the transport reads.  0 go on, -EAGAIN later, -EINPROGRESS io_done() tells or has told; other
 * errors: it cannot be read (rndv_read_failed()). */
int rndv_read_chunk(struct mbx_ep *ep, struct request *req, uint64_t end, unsigned waits);
/* What rndv_read_chunk() reads. */
size_t rndv_chunk_size(const struct mbx_ep *ep, const struct request *req, uint64_t end);
/* Counts that, and remembers what it says of the peer. */
void rndv_read_failed(struct mbx_ep *ep, struct request *req, int error);
/* Asks the sender for the rest as data. */
void rndv_ask(struct mbx_ep *ep, struct request *req);
/* Goes on at req->done, where the device has left it; ask: not by reading. */
void rndv_resume(struct mbx_ep *ep, struct request *req, bool ask);
/* A FIN or CTS: of the send that it names. */
int rndv_reply(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);
/* Bytes of payload that a packet of this type can carry. */
size_t rndv_capacity(const struct mbx_ep *ep, enum wire_type type);
/* Glossary: RTS payload - the first bytes of a message, which travel with its RTS */
/* So much of a message of this size travels with a packet of this type. */
size_t rndv_payload_size(const struct mbx_ep *ep, const struct peer *peer, enum wire_type type,
                         size_t size);
/* Where the peer can read the buffer of req; zeroes if it cannot, and then its protocol is
 * MBX_RNDV_DATA. */
void rndv_expose(struct mbx_ep *ep, struct request *req, uint64_t *address, uint64_t *key);
/* As rndv_expose(), for a request whose protocol is not chosen yet; exposes req->buf once, and
 * returns the same address and key when it is called again. */
void rndv_expose_undecided(const struct peer *peer, struct request *req, uint64_t *address,
                           uint64_t *key);

/* ---- recv.c ---- */

/* A request for a receive into this buffer; NULL: none is left. */
struct request *recv_take(struct mbx_ep *ep, void *buf, size_t size,
                          const struct mbx_options *options);
/* What a receive with these arguments, which are not the usual ones, would be given.  0, and
 * *pieces, which may be NULL; -EINVAL; -ENOMEM. */
int recv_pieces(struct mbx_ep *ep, const char *call, const void *buf, size_t size,
                const struct mbx_options *options, struct pieces **pieces);
/* req, just taken, receives into these. */
static inline void recv_in_pieces(struct request *req, struct pieces *pieces)
{
    req->flags |= REQUEST_PIECES;
    req->pieces = pieces;
}
void recv_matched(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* recv_matched() of an eager message without a FIN that is here whole and fits, if req completes by a callback and
 * nothing else is asked of it: then it is done, and touches no further line of req.  False: nothing has happened. */
bool recv_callback(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* req gets message, which has left the queue of unexpected ones and is gone then. */
void recv_given(struct mbx_ep *ep, struct request *req, struct message *message);
/* req has met this message: what its completion will say. */
void recv_describe(struct mbx_ep *ep, struct request *req,
                   const struct mbx_match_envelope *envelope, uint64_t data, uint64_t size);
/* req leaves its engine, and whoever has to know is told.  False: it was not there any more. */
bool recv_unpost(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                 const struct peer *by);
/* The same for a message with this envelope, which it is counted to meet. */
void recv_taken(struct mbx_ep *ep, struct request *req,
                const struct mbx_match_envelope *envelope, enum recv_cause cause,
                const struct peer *by);
/* The message of req has this size: how much of it fits?  True: that is not known here, for the
 * receive is in pieces (recv.c). */
static inline bool recv_sized(struct mbx_ep *ep, struct request *req, uint64_t size)
{
    req->completion.status.size = size;
    req->total = size;
    req->completion.error = 0;
    if (unlikely(size > req->size)) {
        req->total = req->size;
        if (unlikely(request_is_in_pieces(req)))
            return true;
        req->completion.error = -EMSGSIZE;
        ep->stats.truncated += !(req->flags & REQUEST_INTERNAL);
    }
    return false;
}
/* The cancel of req, which is in no engine any more, was in time. */
void recv_cancelled(struct mbx_ep *ep, struct request *req);
/* recv_check(), and a line says what is wrong. */
int recv_check_for(const struct mbx_ep *ep, const char *call, uint32_t source,
                   uint32_t context_id);
/* -EINVAL if no receive or probe may name these. */
static inline int recv_check(const struct mbx_ep *ep, uint32_t source, uint32_t context_id)
{
    return (source < ep->peers.count || source == MBX_ANY_SOURCE) &&
                   context_id <= MBX_CONTEXT_MAX
               ? 0
               : -EINVAL;
}

/* ---- withdraw.c ---- */

/* The user takes back req, which is no receive.  As mbx_cancel(). */
int withdraw_send(struct mbx_ep *ep, struct request *req);
/* The receiver of req, whose packets have left or will, is asked for its message.  As proto.cancel. */
int withdraw_ask(struct mbx_ep *ep, struct request *req);
/* The FIN of req says that it is withdrawn.  0; -EPROTO. */
int withdraw_done(struct mbx_ep *ep, struct request *req);

/* ---- deliver.c ---- */

/* As transport_events.deliver. */
int deliver_packet(void *ep, uint32_t peer, const void *packet, size_t size);
/* Takes a packet apart.  0 done; 1 it is or begins a message, *arrival, which lies in *storage as far
 * as it is not in the packet; -EAGAIN. */
int deliver_open(struct mbx_ep *ep, uint32_t peer, const void *packet, size_t size,
                 struct wire_packet *storage, struct arrival *arrival);
/* message, which met no receive, waits in the unexpected queue.  0; -ENOMEM. */
int deliver_wait(struct mbx_ep *ep, struct context *context, struct message *message);

/* ---- drop.c ---- */

/* message, which waits in context, is over: it goes. */
void drop_over(struct mbx_ep *ep, struct context *context, struct message *message);

/* ---- the parts that need what stands above ---- */

#include "p2p/credit.h"
#include "p2p/path.h"
#include "p2p/tracepoint.h"
#include "p2p/tracer.h"

#endif
