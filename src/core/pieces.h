/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces.h - the data of a message that is not in one buffer.
 *
 *   mbx_options.layout ── a request with REQUEST_PIECES ──> struct pieces
 *                                                             ├── layout   vector, or callbacks
 *                                                             ├── done     packed or unpacked so far
 *                                                             └── pack[]   memory that packets and
 *                                                                          reads pass through
 *
 * Each byte is packed, or unpacked, once, in the order of offsets.  A message of one packet is
 * packed directly into the packet, if the transport can do that (compose.h).  For a longer one,
 * as much as fits into a packet is packed into a pack buffer, and sent before more is packed:
 * so a send needs one buffer, and only while the transport has no space for its contents.  A
 * receive that reads its sender's memory has two: data is read into one while the other is
 * unpacked.  If no pack buffer is left, `spare` takes its place: slower, but no request waits
 * for the buffer of another one.
 *
 * For a peer that allows it, a bounce buffer of the transport (bounce.h) replaces the pack
 * buffer.  The packet names it, and the peer unpacks from it.
 *
 * A callback that fails ends all use of the layout: `error` stays, and the request completes with
 * it (pieces_end()).
 *
 * Invariants
 *   I1  done <= size; while its bytes move, a request has moved done - (to - from) bytes if it is
 *       a send, and done + (to - from) if it is a receive, unless a callback has failed
 *   I2  from <= to; the bytes between them are at place
 *   I3  a request has at most PIECES_PACK_BUFFERS pack buffers, and none when it is complete
 *   I4  the layout's end() is called once, after the last call of pack() or unpack(), and
 *       before the completion can be read
 */
#ifndef CORE_PIECES_H
#define CORE_PIECES_H

#include "core/ep.h"

#define PIECES_PACK_BUFFERS 2
/* Pack buffer: private memory that non-contiguous data passes through; 64 KiB */
#define PACK_SIZE ((size_t)64 << 10)

/* The most pack buffers of an endpoint. */
#define PACK_BUFFERS_MOST 256

/* A pack() is called for all that is left, or for at least this many bytes. */
#define PIECES_LEAST 256

/* A longer message is packed into a bounce buffer, if the peer allows it, even if one packet
 * could hold it: the ring holds three packets of 4 KiB, so in a stream of them sender and
 * receiver would wait for each other all the time. */
#define PIECES_PACKET_MAX 2048

/* Glossary: layout - the place of non-contiguous data: a vector, or pack and unpack
 * callbacks */
struct pieces {
    struct mbx_layout layout;
    size_t size;         /* of the data */
    size_t done;         /* bytes packed or unpacked */
    size_t part, within; /* of a vector: the position of the byte at done */
    int error;           /* of a callback, or 0 */
    unsigned turn;       /* the pack buffer that is used for the next read */
    char *pack[PIECES_PACK_BUFFERS];
    char *place;     /* a pack buffer, spare, or bounce buffer that holds data: */
    size_t from, to; /* send: packed, and not sent; receive: read, and not unpacked */
    size_t asked;    /* receive: bytes that are being read into place, */
    int read_error;  /* and the error of that read, or 0 */
    struct link
        *buffer_for; /* place is in a bounce buffer for this link, with the number `buffer`; or
                        NULL */
    uint32_t buffer;
    char spare[PIECES_LEAST];
};

/* Is this layout valid for a send, or a receive, of this size?  0; -EINVAL. */
int pieces_check(const char *call, const struct mbx_layout *layout, size_t size, bool is_send);

/* NULL: no memory. */
struct pieces *pieces_make(struct mbx_ep *ep, const struct mbx_layout *layout, size_t size);
/* The transport ends, and with it the bounce buffer that holds data to be sent, if there is
 * one. */
void pieces_forget_buffer(struct pieces *pieces);
/* The request was never started: frees pieces without a callback. */
void pieces_drop(struct mbx_ep *ep, struct pieces *pieces);
/* Frees pieces, which its request no longer needs. */
void pieces_finish(struct mbx_ep *ep, struct pieces *pieces);
/* The request completes with `error`: ends the layout, and returns the error with which the
 * request actually completes. */
int pieces_end(struct mbx_ep *ep, struct request *req, int error);

/* Packs all data.  False: packing failed. */
bool pieces_pack_all(struct pieces *pieces, char *to);
/* A transport_fill_fn with a struct pieces: packs all data, or nothing. */
size_t pieces_fill_all(void *pieces, void *to, size_t size);
/* The next bytes to send, at most *size, which becomes their number.  NULL: packing failed. */
const char *pieces_next(struct mbx_ep *ep, struct pieces *pieces, size_t *size);
/* Packs the next bytes to send, at most size, into a bounce buffer for link.  False: there is
 * no buffer, or packing failed. */
bool pieces_take_buffer(struct pieces *pieces, struct link *link, size_t size);
/* The packet that names the bounce buffer has left. */
void pieces_buffer_sent(struct pieces *pieces);
/* This many of these bytes were sent. */
void pieces_sent(struct pieces *pieces, size_t size);
/* Unpacks the next bytes; does nothing after a failure. */
void pieces_unpack(struct pieces *pieces, const void *from, size_t size);

/* The pack buffer to use next, or its replacement; *size: its size. */
char *pieces_pack_buffer(struct mbx_ep *ep, struct pieces *pieces, size_t *size);
/* Gives unused pack buffers back. */
void pieces_settle(struct mbx_ep *ep, struct pieces *pieces);

/* The pack buffers in use now; *most: the maximum so far. */
uint32_t pieces_pack_buffers(const struct mbx_ep *ep, uint32_t *most);

static inline bool request_is_in_pieces(const struct request *req)
{
    return (req->flags & REQUEST_PIECES) != 0;
}

/* Has packing its data failed? */
static inline bool request_is_broken(const struct request *req)
{
    return request_is_in_pieces(req) && req->pieces->error != 0;
}

/* The next bytes of req to send, at most *size, which becomes their number.  NULL: packing
 * failed.  After sending them, call request_sent(). */
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

/* Stores bytes that have arrived at their place. */
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
