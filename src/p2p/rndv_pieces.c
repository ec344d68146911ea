/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rndv_pieces.c - a rendezvous that reads its sender's memory, into a receive in pieces.
 *
 *   sender's buffer   ...........|-- read --|................
 *                                     │ into one pack buffer
 *   receive           |-- unpacked --|------|  out of the other one
 *
 * Each read fills at most one pack buffer.  If the transport reads asynchronously, the next
 * read starts before the last one is unpacked; if a read is a copy by us, it is unpacked while
 * it is in the cache.  The rest of such a rendezvous is in rndv.c: the beginning, the FIN, and
 * the CTS after a failed read, before which all read data is unpacked.
 *
 * Invariants
 *   I1  all read data is unpacked, except pieces.to bytes at pieces.place
 *   I2  nothing is read into pieces.place while it holds data
 */
#include "p2p/p2p.h"
#include "core/core.h"
#include "transport/memory.h"

/* The requested bytes are at place. */
static void has_read(struct request *req, size_t size)
{
    req->pieces->to = size;
    req->done += size;
}

static size_t read_size(const struct mbx_ep *ep, const struct request *req, size_t capacity)
{
    return min_size(capacity, rndv_chunk_size(ep, req, req->total));
}

/* Unpacks the last read. */
static void unpack_read(struct pieces *pieces)
{
    size_t size = pieces->to;

    pieces->to = 0;
    pieces_unpack(pieces, pieces->place, size);
}

/* Reads into the next pack buffer.  As transport_read(). */
static int read_into(struct mbx_ep *ep, struct request *req)
{
    struct pieces *pieces = req->pieces;
    size_t size;
    int err;

    pieces->place = pieces_pack_buffer(ep, pieces, &size);
    size = read_size(ep, req, size);
    pieces->asked = size;
    proto_move(ep, req, PIECES_READ_WAIT); /* the transport may report the result before it
                                              returns */
    err = transport_read(peer_get(ep, req->peer)->link, pieces->place,
                         req->remote.address + req->done, req->remote.key, size, req);
    if (err == -EINPROGRESS)
        return err;
    proto_move(ep, req, PIECES_READ);
    if (err == 0)
        has_read(req, size);
    return err;
}

/* Starts the next read, and unpacks the last one.  0 the read is complete, and also unpacked;
 * otherwise as transport_read(). */
static int read_next(struct mbx_ep *ep, struct request *req)
{
    struct pieces *pieces = req->pieces;
    char *last = pieces->place;
    size_t size = pieces->to;
    int err = 0;

    if (last == pieces->spare || req->done == req->total) {
        unpack_read(pieces);
        size = 0;
    }
    if (req->done == req->total || pieces->error != 0)
        return 0;
    pieces->to = 0;
    pieces->turn ^= size != 0;
    err = read_into(ep, req);
    assert(size == 0 || pieces->place != last); /* I2 */
    pieces_unpack(pieces, last, size);
    if (err == 0)
        unpack_read(pieces);
    return err;
}

void rndv_read_pieces(struct mbx_ep *ep, struct request *req)
{
    uint64_t begun = req->done;
    bool is_over;
    int err;

    assert(req->state == PIECES_READ);
    assert(!list_is_linked(&req->queue));
    do {
        err = req->pieces->read_error != 0 ? req->pieces->read_error : read_next(ep, req);
        is_over = req->done == req->total || req->pieces->error != 0;
    } while (err == 0 && !is_over && req->done - begun < ep->settings.tuning.read_chunk);
    ep_wake_sleeper(ep); /* even if the transport continues the read */
    if (err == 0 && is_over) {
        rndv_received(ep, req, MBX_RNDV_READ);
    } else if (err == 0 || err == -EAGAIN) {
        progress_activate(ep, req);
    } else if (err != -EINPROGRESS) {
        pieces_settle(ep, req->pieces);
        rndv_read_failed(ep, req, err);
        rndv_ask(ep, req);
    }
}

static void rndv_pieces_on_read(struct mbx_ep *ep, struct request *req, int error)
{
    req->pieces->read_error = error; /* this may be called from within read_next() */
    if (error == 0)
        has_read(req, req->pieces->asked);
    proto_move(ep, req, PIECES_READ);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
}

static const struct proto pieces_proto = {
    .id = PROTO_PIECES,
    .name = "receive in pieces",
    .states =
        {
            [PIECES_READ % PROTO_STATES] = {.name = "read",
                                            .kinds = MBX_RECVS,
                                            .queue = PROTO_ACTIVE,
                                            .moves = true,
                                            .next = PROTO_NEXT(PIECES_READ_WAIT),
                                            .then = PROTO_THEN(PROTO_RNDV),
                                            .is_first = true},
            [PIECES_READ_WAIT % PROTO_STATES] = {.name = "read-wait",
                                                 .kinds = MBX_RECVS,
                                                 .moves = true,
                                                 .next = PROTO_NEXT(PIECES_READ)},
        },
    .work = rndv_read_pieces,
    .io_done = rndv_pieces_on_read,
};

const struct module rndv_pieces_module = {.name = "rendezvous in pieces",
                                          .proto = &pieces_proto};
