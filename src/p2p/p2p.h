/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p.h - tagged messages from one endpoint to another: the header of src/p2p, and its only
 * header that other folders include.  The functions are listed below by file; credit.h, path.h,
 * tracepoint.h and tracer.h are included.
 *
 *   send.c     starts a message             deliver.c  handles a packet
 *   eager.c    sends its data at once       recv.c     posts a receive, and matches it
 *   rndv.c     announces it, data follows   message.c  unexpected messages
 *   credit.h   limits what may leave        probe.c    probes for them
 *   path.c     chooses the protocol         try_recv.c receives one without a request
 *   drop.c     drops unexpected messages    unexpected.c  lists and reports them
 *   withdraw.c cancels a send
 */
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include "core/core.h"

/* ---- the protocols of this folder ---- */

enum p2p_proto {
    PROTO_SEND = 2, /* send.c: a message whose protocol is not chosen yet */
    PROTO_EAGER,    /* eager.c */
    PROTO_RNDV,     /* rndv.c */
    PROTO_PIECES,   /* rndv_pieces.c: a receive that reads its sender's memory in pieces */
};

/* ---- state in a peer and an endpoint, and hooks of the folders above ---- */

/* Assembly: an eager message of which more packets are expected */
/* Part of a peer, eager.c: the eager message of which more fragments are expected, while size >
 * offset: message or request. */
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

/* Part of a peer: whether our sends to it, and its sends to us, are deferred and matched at the
 * sender. */
struct peer_defer {
    bool is_deferred; /* a send to it is deferred, in any module: receives that it has announced
                         are not used; backlog.c */
    bool defers;      /* we believe that it defers its sends to us; receiver.c */
};
PART_FITS(peer, defer, struct peer_defer);
#define peer_defer(peer) PART((peer)->defer, struct peer_defer)

/* Part of an endpoint, written by src/advert.  SIZE_MAX: none */
struct ep_advert {
    size_t from;            /* receives of at least this size may be announced; advert_recv.c */
    size_t split_copy_from; /* messages with at least this many bytes left may be copied by both
                            sides; split_copy.c */
    uint32_t announced;     /* receives that are ANNOUNCED; written by both files */
};
PART_FITS(mbx_ep, advert, struct ep_advert);
#define ep_advert(ep) PART((ep)->advert, struct ep_advert)

/* Part of an endpoint: the arguments of the last probe that found nothing. */
struct ep_peeks {
    uint32_t count; /* the number of such probes */
    struct mbx_match_envelope envelope;
    uint64_t ignore;
};
PART_FITS(mbx_ep, peeks, struct ep_peeks);
#define ep_peeks(ep) PART((ep)->peeks, struct ep_peeks)

/* ---- messages that have arrived ---- */

/* A message for recv_matched(): directly from a packet, or kept. */
struct arrival {
    struct mbx_match_envelope envelope; /* source is the peer */
    uint64_t size;                      /* of the whole message */
    uint64_t data;
    const char *payload;
    const struct wire_rts *rts; /* NULL: an eager message */
    uint64_t sender;            /* the sender's request number; 0 if no FIN is needed */
    size_t have;                /* bytes at payload: the whole message, the first fragment, or
                                   the RTS payload */
    bool is_fragmented;         /* further eager fragments follow */
};

/* The longest payload that is stored in a kept message itself. */
#define MESSAGE_INLINE 24

/* Values of message.size for a message that is not, or not completely, in the pool, and for an
 * RTS without payload. */
#define MESSAGE_LONG UINT32_MAX
#define MESSAGE_RTS  (UINT32_MAX - 1)

/* An unexpected message, or one taken by a matched probe; see message.c.  There may be many, so
 * it is no larger than a short message needs. */
struct message {
    struct mbx_match_msg match;
    uint64_t data;
    uint32_t size; /* of the payload; or one of the two values above */
    uint32_t held; /* written by offload, for a queued message: its number in the device */
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

/* Keeps an arrival that matched no receive, with a copy of its payload and space for further
 * fragments.  NULL: no memory. */
struct message *message_keep(struct mbx_ep *ep, const struct arrival *arrival);
void message_drop(struct mbx_ep *ep, struct message *message);
/* As message_drop(), for a message that is only in the pool. */
static inline void message_drop_short(struct mbx_ep *ep, struct message *message)
{
    ep->stats.unexpected_bytes_now -= ep->messages.stride;
    pool_give(&ep->messages, message);
}
/* message_is_ready() for a message that is not, or not completely, in the pool. */
bool message_is_ready_long(const struct message *message, size_t size);
/* As message_is_ready(), but false for a message that is not only in the pool. */
static inline bool message_is_ready_short(const struct message *message, size_t size)
{
    return likely(message->size <= MESSAGE_INLINE) && likely(message->size <= size) &&
           likely(message->sender == 0);
}
/* Is it here completely, no longer than size, and does its sender wait for no answer? */
static inline bool message_is_ready(const struct message *message, size_t size)
{
    return likely(message->size <= MESSAGE_INLINE) ? message_is_ready_short(message, size)
                                                   : message_is_ready_long(message, size);
}
/* The payload credit that its sender has used for it. */
uint64_t message_credit(const struct message *message);
/* The kept message, as it arrived; *storage may be used for it. */
const struct arrival *message_arrival(const struct message *message, struct arrival *storage);
/* The status of a receive of this message. */
void message_describe(const struct message *message, struct mbx_status *status);
/* Adds a further fragment to a kept message. */
void message_append(struct message *message, const void *payload, size_t size);

/* ---- send.c ---- */

/* Sends the first packet of req, which has its credit, now or in its turn.  0, or the error of
 * a peer that is known to be gone. */
int send_first(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* As send_first() if there is credit; otherwise req is deferred.  0; -ENOMEM; or as
 * send_first(). */
int send_or_defer(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* Counts a message that its receiver has received completely. */
void send_count(struct mbx_ep *ep, const struct request *req);

/* ---- eager.c, rndv.c: each step 0 done for now, -EAGAIN no space: call again,
 * -EINPROGRESS there is space, but others are to have their turn, or a lasting error of
 * the transport ---- */

extern const struct module recv_module, send_module, eager_module, rndv_module;
extern const struct module rndv_pieces_module, withdraw_module, drop_module;

enum send_state { SEND_NEW = PROTO_STATE(PROTO_SEND, 0) };

enum eager_state {
    EAGER_SENDING = PROTO_STATE(PROTO_EAGER, 0), /* send: its packets are leaving */
    EAGER_WAIT_FIN,                              /* synchronous send: waits for a FIN */
    EAGER_ASSEMBLE,                              /* receive: further fragments will come */
};

enum rndv_state {
    RNDV_RTS = PROTO_STATE(PROTO_RNDV, 0), /* send: its RTS has not left */
    RNDV_WAIT_FIN,                         /* send: waits for a FIN or CTS */
    RNDV_SEND_DATA,                        /* send: the data that the CTS requested is
                                              leaving */
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
/* As eager_packet() without a FIN, for a message that is packed into the packet; otherwise as
 * transport_compose(). */
int eager_compose(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                  struct pieces *pieces);
/* Sends a message in pieces packed into a bounce buffer, for the peer to unpack.  0; -ECANCELED
 * packing failed; -EAGAIN it has not left, packed or not, and continues as a rendezvous; other:
 * it is lost. */
int eager_in_buffer(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                    struct pieces *pieces);
void eager_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* Counts a received eager message. */
void eager_count_received(struct mbx_ep *ep, uint64_t size, bool is_fragmented);
/* eager_receive() for a receive in pieces. */
void eager_receive_pieces(struct mbx_ep *ep, struct request *req,
                          const struct arrival *arrival);
/* The further fragments of this arrival go to the message that keeps it. */
void eager_assemble(struct mbx_ep *ep, const struct arrival *arrival, struct message *message);
/* A message of size bytes of peer came eagerly, or by rendezvous, and matched a posted receive:
 * the next one like it may use bounce buffers.  Not called for unexpected messages, since in a
 * flood of these the buffers of each sender would become resident here. */
void eager_invite(struct mbx_ep *ep, struct peer *peer, size_t size, bool is_eager);
/* The beginning of the message of req is lost: its fragments are ignored, up to its end. */
void eager_await_end(struct mbx_ep *ep, struct request *req);

void rndv_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* All data that fits has been stored. */
void rndv_received(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol);
/* Reads the rest of req in pieces. */
void rndv_read_pieces(struct mbx_ep *ep, struct request *req);
/* Reads a chunk for req, in RNDV_READ, without splitting the copy with its sender. */
void rndv_read_alone(struct mbx_ep *ep, struct request *req);
/* Reads at most a chunk of the bytes before end, in a state of any protocol; `waits` is the
 * state while the transport reads.  0 continue, -EAGAIN later, -EINPROGRESS io_done() reports
 * the result, or has done so; other errors: it cannot be read (rndv_read_failed()). */
int rndv_read_chunk(struct mbx_ep *ep, struct request *req, uint64_t end, unsigned waits);
/* The bytes that rndv_read_chunk() reads. */
size_t rndv_chunk_size(const struct mbx_ep *ep, const struct request *req, uint64_t end);
/* Counts a failed read, and notes if the peer cannot be read at all. */
void rndv_read_failed(struct mbx_ep *ep, struct request *req, int error);
/* Requests the rest from the sender as data. */
void rndv_ask(struct mbx_ep *ep, struct request *req);
/* Continues at req->done, where the device has stopped; ask: request data instead of
 * reading. */
void rndv_resume(struct mbx_ep *ep, struct request *req, bool ask);
/* Handles a FIN or CTS for the send that it names. */
int rndv_reply(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);
/* Bytes of payload that a packet of this type can carry. */
size_t rndv_capacity(const struct mbx_ep *ep, enum wire_type type);
/* RTS payload: the first bytes of a message, which travel with its RTS */
/* The payload bytes that a packet of this type carries for a message of this size. */
size_t rndv_payload_size(const struct mbx_ep *ep, const struct peer *peer, enum wire_type type,
                         size_t size);
/* The address at which the peer can read the buffer of req, and its key; zeroes if it cannot,
 * and then the protocol becomes MBX_RNDV_DATA. */
void rndv_expose(struct mbx_ep *ep, struct request *req, uint64_t *address, uint64_t *key);
/* As rndv_expose(), for a request whose protocol is not chosen yet; exposes req->buf once, and
 * returns the same address and key in later calls. */
void rndv_expose_undecided(const struct peer *peer, struct request *req, uint64_t *address,
                           uint64_t *key);

/* ---- recv.c ---- */

/* A request for a receive into this buffer; NULL: none is available. */
struct request *recv_take(struct mbx_ep *ep, void *buf, size_t size,
                          const struct mbx_options *options);
/* Checks the arguments of a receive with unusual options, and makes its pieces.  0, and
 * *pieces, which may be NULL; -EINVAL; -ENOMEM. */
int recv_pieces(struct mbx_ep *ep, const char *call, const void *buf, size_t size,
                const struct mbx_options *options, struct pieces **pieces);
/* req, just taken, receives into these pieces. */
static inline void recv_in_pieces(struct request *req, struct pieces *pieces)
{
    req->flags |= REQUEST_PIECES;
    req->pieces = pieces;
}
void recv_matched(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* recv_matched() for a complete eager message that needs no FIN and fits, if req completes by a
 * callback and has no other flags: it completes req without touching its other cache lines.
 * False: nothing has happened. */
bool recv_callback(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);
/* req receives message, which has left the unexpected queue and is freed. */
void recv_given(struct mbx_ep *ep, struct request *req, struct message *message);
/* req has matched this message: sets its status. */
void recv_describe(struct mbx_ep *ep, struct request *req,
                   const struct mbx_match_envelope *envelope, uint64_t data, uint64_t size);
/* req leaves its engine, and the modules are notified.  False: it was no longer there. */
bool recv_unpost(struct mbx_ep *ep, struct request *req, enum recv_cause cause);
/* As recv_unpost(), for a message with this envelope, which counts as matched. */
void recv_taken(struct mbx_ep *ep, struct request *req,
                const struct mbx_match_envelope *envelope, enum recv_cause cause,
                const struct peer *by);
/* The message of req has this size: computes how much fits.  True: not known here, since the
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
/* req, which is in no engine any more, was cancelled in time. */
void recv_cancelled(struct mbx_ep *ep, struct request *req);
/* recv_check(), which also logs the error. */
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

/* The user cancels req, which is not a receive.  As mbx_cancel(). */
int withdraw_send(struct mbx_ep *ep, struct request *req);
/* Asks the receiver of req, whose packets have left or will leave, to drop its message.  As
 * proto.cancel. */
int withdraw_ask(struct mbx_ep *ep, struct request *req);
/* A FIN reports that req was withdrawn.  0; -EPROTO. */
int withdraw_done(struct mbx_ep *ep, struct request *req);

/* ---- deliver.c ---- */

/* As transport_events.deliver. */
int deliver_packet(void *ep, uint32_t peer, const void *packet, size_t size);
/* Decodes a packet.  0 done; 1 it is or begins a message, *arrival, which uses *storage where
 * it does not point into the packet; -EAGAIN. */
int deliver_open(struct mbx_ep *ep, uint32_t peer, const void *packet, size_t size,
                 struct wire_packet *storage, struct arrival *arrival);
/* Queues message, which matched no receive, as unexpected.  0; -ENOMEM. */
int deliver_wait(struct mbx_ep *ep, struct context *context, struct message *message);

/* ---- drop.c ---- */

/* Drops message, which waits in context and is over. */
void drop_over(struct mbx_ep *ep, struct context *context, struct message *message);

/* ---- parts that need the declarations above ---- */

#include "p2p/credit.h"
#include "p2p/path.h"
#include "p2p/tracepoint.h"
#include "p2p/tracer.h"

#endif
