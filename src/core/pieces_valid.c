/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces_valid.c - checks pieces.h I1, I2, I3.
 */
#include "core/core.h"

struct checked {
    const struct mbx_ep *ep;
    uint32_t packs;
    bool is_valid;
};

/* The bytes that req has moved: for a send packed and sent, for a receive read, unpacked or
 * not. */
static uint64_t moved(const struct request *req)
{
    const struct pieces *pieces = req->pieces;
    uint64_t there = pieces->to - pieces->from;

    return request_is_send(req) ? pieces->done - there : pieces->done + there;
}

static bool piece_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    const struct pieces *pieces = req->pieces;
    bool moves = proto_of(ep, req)->states[req->state % PROTO_STATES].moves;

    return HOLDS("pieces.h I1", pieces->done <= pieces->size) &&
           HOLDS("pieces.h I2", pieces->from <= pieces->to) &&
           HOLDS("pieces.h I2", pieces->from == pieces->to || pieces->place != NULL) &&
           HOLDS("pieces.h I1", !moves || pieces->error != 0 || moved(req) == req->done);
}

static void check_pieces(void *arg, void *object)
{
    const struct request *req = object;
    struct checked *checked = arg;

    if (!checked->is_valid || !request_is_in_pieces(req))
        return;
    checked->is_valid = piece_is_valid(checked->ep, req);
    for (unsigned i = 0; i < PIECES_PACK_BUFFERS; i++)
        checked->packs += req->pieces->pack[i] != NULL;
}

bool pieces_is_valid(const struct mbx_ep *ep)
{
    struct checked checked = {.ep = ep, .is_valid = true};
    uint32_t most;

    if (ep->pieces == NULL)
        return true;
    valid_each(ep, check_pieces, &checked);
    return checked.is_valid &&
           HOLDS("pieces.h I3", checked.packs == pieces_pack_buffers(ep, &most));
}
