/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces.h - the data of a message that does not lie in one buffer.
 *
 *   mbx_options.layout ── a request with REQUEST_PIECES ──> struct pieces
 *                                                             ├── layout   vector, or callbacks
 *                                                             ├── done     packed or unpacked so far
 *                                                             └── pack[]   memory that packets and
 *                                                                          reads pass through
 *
 * Bytes are packed, or unpacked, in the order of their offsets and once.  A message of one
 * packet is packed where that leaves from, if the transport can do that (compose.h).  Of a longer
 * one as much as a packet takes is packed into a pack buffer, and sent before more is packed: so
 * a send needs one, and only while the transport has no space for what is in it.  A receive that
 * reads its sender's memory has two: one is being read while the other is unpacked.  Where no
 * pack buffer is left, `spare` takes its place: slower, but nobody waits for the buffer of
 * another request.
 *
 * For a peer that allows it a bounce buffer of the transport (bounce.h) takes the place of the pack buffer.  The packet
 * names it, and the peer unpacks out of it.
 *
 * A callback that fails ends all use of the layout: `error` stays, and the request completes with
 * it (pieces_end()).
 *
 * Invariants
 *   I1  done <= size; while its bytes move, a request has moved done - (to - from) bytes if it is
 *       a send, and done + (to - from) if it is a receive, unless a callback has failed
 *   I2  from <= to; what is between them lies at place
 *   I3  a request has at most PIECES_PACK_BUFFERS pack buffers, and none when it is complete
 *   I4  the layout's end() is called once, behind the last call of pack() or unpack(), and before
 *       the completion can be read
 */
#ifndef CORE_PIECES_H
#define CORE_PIECES_H

#include "core/ep.h"

#define PIECES_PACK_BUFFERS 2
/* Glossary: pack buffer - private memory that non-contiguous data passes through; 64 KiB */
#define PACK_SIZE ((size_t)64 << 10)

/* Of an endpoint, at most. */
#define PACK_BUFFERS_MOST 256

/* A pack() is asked for all that is left, or for at least so much. */
#define PIECES_LEAST 256

/* A longer message is packed into a bounce buffer, if the peer allows it, even if one packet could take it: the ring holds
 * three packets of 4 KiB, so sender and receiver of a stream of them wait for each other all the time. */
#define PIECES_PACKET_MAX 2048

/* Glossary: layout - the place of non-contiguous data: a vector, or pack and unpack
 * callbacks */
struct pieces {
    struct mbx_layout layout;
    size_t size;         /* of the data */
    size_t done;         /* bytes packed or unpacked */
    size_t part, within; /* of a vector: where the byte at done lies */
    int error;           /* of a callback, or 0 */
    unsigned turn;       /* the pack buffer that is read into next */
    char *pack[PIECES_PACK_BUFFERS];
    char *place; /* of a pack buffer, spare, or bounce buffer, in which there is something: */
    size_t from, to; /* send: packed, and not sent; receive: read, and not unpacked */
    size_t asked;    /* receive: so much is being read into place, */
    int read_error;  /* and why it could not be, or 0 */
    struct link
        *buffer_for; /* place is in a bounce buffer for this link, with this number; or NULL */
    uint32_t buffer;
    char spare[PIECES_LEAST];
};

/* May a send, or a receive, of this size have this layout?  0; -EINVAL. */
int pieces_check(const char *call, const struct mbx_layout *layout, size_t size, bool is_send);

/* NULL: no memory. */
struct pieces *pieces_make(struct mbx_ep *ep, const struct mbx_layout *layout, size_t size);
/* The transport ends, and with it the bounce buffer that holds what is to be sent next, if one does. */
void pieces_forget_buffer(struct pieces *pieces);
/* Its request was never started: no callback is called. */
void pieces_drop(struct mbx_ep *ep, struct pieces *pieces);
/* Its request needs it no longer. */
void pieces_finish(struct mbx_ep *ep, struct pieces *pieces);
/* The request completes with `error`: with which one in fact? */
int pieces_end(struct mbx_ep *ep, struct request *req, int error);

/* Packs all of it.  False: it cannot be packed. */
bool pieces_pack_all(struct pieces *pieces, char *to);
/* As transport_fill_fn, of struct pieces: all of it, or nothing. */
size_t pieces_fill_all(void *pieces, void *to, size_t size);
/* What is to be sent next, at most *size bytes, which becomes how many there are.  NULL: it cannot
 * be packed. */
const char *pieces_next(struct mbx_ep *ep, struct pieces *pieces, size_t *size);
/* Packs what is to be sent next, at most size bytes, into a bounce buffer for link.  False: there is no
 * buffer, or it cannot be packed. */
bool pieces_take_buffer(struct pieces *pieces, struct link *link, size_t size);
/* The packet that names the bounce buffer has left. */
void pieces_buffer_sent(struct pieces *pieces);
/* So much of that has left. */
void pieces_sent(struct pieces *pieces, size_t size);
/* Unpacks the next bytes; nothing any more behind a failure. */
void pieces_unpack(struct pieces *pieces, const void *from, size_t size);

/* The pack buffer whose turn it is, or what takes its place; *size: how large. */
char *pieces_pack_buffer(struct mbx_ep *ep, struct pieces *pieces, size_t *size);
/* Gives back what lies idle. */
void pieces_settle(struct mbx_ep *ep, struct pieces *pieces);

/* Pack buffers that are in use now, and were at the most. */
uint32_t pieces_pack_buffers(const struct mbx_ep *ep, uint32_t *most);

static inline bool request_is_in_pieces(const struct request *req)
{
    return (req->flags & REQUEST_PIECES) != 0;
}

/* Can its data not be packed? */
static inline bool request_is_broken(const struct request *req)
{
    return request_is_in_pieces(req) && req->pieces->error != 0;
}

/* The next bytes to send of req, at most *size; *size: how many.  NULL: they cannot be packed.  request_sent(): so many have
 * left. */
static inline const char *request_next(struct mbx_ep *ep, struct request *req, size_t *size)
{
    return request_is_in_pieces(req) ? pieces_next(ep, req->pieces, size)
                                     : req->buf + req->done;
}

static inline void request_sent(struct request *req, size_t size)
{
    req->done += size;
    if (request_is_in_pieces(req))
        pieces_sent(req->pieces, size);
}

/* Puts bytes that have come where they belong. */
static inline void request_put(struct request *req, uint64_t offset, const void *from,
                               size_t size)
{
    if (unlikely(request_is_in_pieces(req)))
        pieces_unpack(req->pieces, from, size);
    else
        memcpy(req->buf + offset, from, size);
}

/* Do the invariants hold?  With MBX_CHECKS. */
bool pieces_is_valid(const struct mbx_ep *ep);

extern const struct module pieces_module;

#endif
