/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces.c - packs and unpacks data, and manages the memory for it.
 */
#include "core/pieces.h"

#include "core/core.h"
#include "core/module.h"
#include "transport/bounce.h"

/* Part of an endpoint, made with the first message in pieces. */
struct pieces_pools {
    struct pool pieces, packs;
};

/* ---- made and ended ---- */

static struct pieces_pools *pools_make(struct mbx_ep *ep)
{
    struct pieces_pools *pools = mem_alloc(sizeof *pools);

    if (pools == NULL)
        return NULL;
    pool_init(&pools->pieces, sizeof(struct pieces), 16, POOL_MAX_OBJECTS);
    pool_init(&pools->packs, PACK_SIZE, 1, PACK_BUFFERS_MOST);
    return ep->pieces = pools;
}

static void pieces_on_fini(struct mbx_ep *ep)
{
    if (ep->pieces == NULL)
        return;
    pool_fini(&ep->pieces->pieces);
    pool_fini(&ep->pieces->packs);
    mem_free(ep->pieces);
}

/* Does the vector hold this many bytes? */
static int vector_check(const char *call, const struct mbx_layout *layout, size_t size)
{
    size_t left = size;

    if (layout->pack != NULL || layout->unpack != NULL)
        return log_argument(call, "layout->parts", layout->count, "callbacks besides");
    for (size_t i = 0; i < layout->count && left != 0; i++) {
        if (layout->parts[i].base == NULL && layout->parts[i].size != 0)
            return log_argument(call, "layout->parts[].base", i, "NULL, of this part");
        left -= min_size(left, layout->parts[i].size);
    }
    return left == 0 ? 0 : log_argument(call, "size", size, "more than the parts hold");
}

int pieces_check(const char *call, const struct mbx_layout *layout, size_t size, bool is_send)
{
    if (layout == NULL)
        return log_argument(call, "options->layout", 0, "NULL, with MBX_LAYOUT");
    if (layout->flags != 0)
        return log_argument(call, "layout->flags", layout->flags, "unknown flag");
    if (layout->parts != NULL)
        return vector_check(call, layout, size);
    if (size != 0 && is_send && layout->pack == NULL)
        return log_argument(call, "layout->pack", 0, "NULL, and there are no parts");
    if (size != 0 && !is_send && layout->unpack == NULL)
        return log_argument(call, "layout->unpack", 0, "NULL, and there are no parts");
    return 0;
}

struct pieces *pieces_make(struct mbx_ep *ep, const struct mbx_layout *layout, size_t size)
{
    struct pieces_pools *pools = ep->pieces != NULL ? ep->pieces : pools_make(ep);
    struct pieces *pieces = pools != NULL ? pool_take(&pools->pieces) : NULL;

    if (pieces == NULL)
        return NULL;
    pieces->layout = *layout;
    pieces->size = size;
    pieces->done = 0;
    pieces->part = pieces->within = 0;
    pieces->error = pieces->read_error = 0;
    pieces->turn = 0;
    pieces->pack[0] = pieces->pack[1] = NULL;
    pieces->place = NULL;
    pieces->buffer_for = NULL;
    pieces->from = pieces->to = 0;
    return pieces;
}

static void pack_buffer_give(struct mbx_ep *ep, char **buffer)
{
    if (*buffer != NULL)
        pool_give(&ep->pieces->packs, *buffer);
    *buffer = NULL;
}

void pieces_forget_buffer(struct pieces *pieces)
{
    pieces->buffer_for = NULL;
}

void pieces_drop(struct mbx_ep *ep, struct pieces *pieces)
{
    if (pieces->buffer_for != NULL)
        transport_bounce_untake(pieces->buffer_for, pieces->buffer);
    for (unsigned i = 0; i < PIECES_PACK_BUFFERS; i++)
        pack_buffer_give(ep, &pieces->pack[i]);
    pool_give(&ep->pieces->pieces, pieces);
}

void pieces_finish(struct mbx_ep *ep, struct pieces *pieces)
{
    if (pieces->layout.end != NULL)
        pieces->layout.end(pieces->layout.context);
    pieces_drop(ep, pieces);
}

int pieces_end(struct mbx_ep *ep, struct request *req, int error)
{
    struct pieces *pieces = req->pieces;

    if (pieces->error != 0) {
        error = pieces->error;
        if (!request_is_send(req))
            req->completion.received = pieces->done;
    }
    req->flags &= (uint32_t)~REQUEST_PIECES;
    req->pieces = NULL;
    pieces_finish(ep, pieces);
    return error;
}

/* ---- pack buffers ---- */

/* There is only one spare for each request. */
char *pieces_pack_buffer(struct mbx_ep *ep, struct pieces *pieces, size_t *size)
{
    char **buffer = &pieces->pack[pieces->turn];

    *size = PACK_SIZE;
    if (*buffer == NULL)
        *buffer = pool_take(&ep->pieces->packs);
    if (*buffer != NULL)
        return *buffer;
    *size = sizeof pieces->spare;
    return pieces->spare;
}

void pieces_settle(struct mbx_ep *ep, struct pieces *pieces)
{
    if (pieces->from == pieces->to)
        for (unsigned i = 0; i < PIECES_PACK_BUFFERS; i++)
            pack_buffer_give(ep, &pieces->pack[i]);
}

uint32_t pieces_pack_buffers(const struct mbx_ep *ep, uint32_t *most)
{
    if (ep->pieces == NULL)
        return *most = 0;
    *most = pool_most(&ep->pieces->packs);
    return pool_live(&ep->pieces->packs);
}

/* ---- packing ---- */

/* Moves size bytes between the vector and `at`. */
static void vector_move(struct pieces *pieces, char *at, size_t size, bool packs)
{
    while (size != 0) {
        const struct mbx_iovec *part = &pieces->layout.parts[pieces->part];
        size_t step = min_size(size, part->size - pieces->within);

        if (step == 0) {
            pieces->part++;
            pieces->within = 0;
            continue;
        }
        if (packs)
            memcpy(at, (const char *)part->base + pieces->within, step);
        else
            memcpy((char *)part->base + pieces->within, at, step);
        pieces->within += step;
        at += step;
        size -= step;
    }
}

/* Packs up to capacity of the next bytes.  Returns their number; 0: packing failed. */
static size_t pack(struct pieces *pieces, char *to, size_t capacity)
{
    size_t size = min_size(capacity, pieces->size - pieces->done);
    int64_t packed = (int64_t)size;

    if (pieces->error != 0)
        return 0;
    if (pieces->layout.parts != NULL)
        vector_move(pieces, to, size, true);
    else
        packed = pieces->layout.pack(pieces->layout.context, pieces->done, to, size);
    if (packed <= 0 || (uint64_t)packed > size) {
        pieces->error = packed < 0 && packed >= INT32_MIN ? (int)packed : -EIO;
        return 0;
    }
    pieces->done += (size_t)packed;
    return (size_t)packed;
}

bool pieces_pack_all(struct pieces *pieces, char *to)
{
    while (pieces->done < pieces->size && pack(pieces, to + pieces->done, SIZE_MAX) != 0)
        ;
    return pieces->error == 0;
}

size_t pieces_fill_all(void *pieces, void *to, size_t size)
{
    return pieces_pack_all(pieces, to) ? size : 0;
}

const char *pieces_next(struct mbx_ep *ep, struct pieces *pieces, size_t *size)
{
    size_t capacity;

    if (pieces->from == pieces->to) {
        pieces->place = pieces_pack_buffer(ep, pieces, &capacity);
        pieces->from = 0;
        pieces->to =
            pack(pieces, pieces->place, min_size(capacity, max_size(*size, PIECES_LEAST)));
    }
    *size = min_size(*size, pieces->to - pieces->from);
    return *size != 0 ? pieces->place + pieces->from : NULL;
}

bool pieces_take_buffer(struct pieces *pieces, struct link *link, size_t size)
{
    size_t capacity;
    char *place;

    if (pieces->buffer_for != NULL)
        return true;
    if (pieces->from != pieces->to || pieces->error != 0)
        return false; /* what is in the pack buffer comes first */
    place = transport_bounce_take(link, &pieces->buffer, &capacity);
    if (place == NULL)
        return false;
    pieces->buffer_for = link;
    pieces->place = place;
    pieces->from = 0;
    pieces->to = pack(pieces, place, min_size(capacity, max_size(size, PIECES_LEAST)));
    if (pieces->to != 0)
        return true;
    transport_bounce_untake(link, pieces->buffer);
    pieces->buffer_for = NULL;
    return false;
}

void pieces_buffer_sent(struct pieces *pieces)
{
    pieces->buffer_for = NULL;
    pieces->from = pieces->to;
}

void pieces_sent(struct pieces *pieces, size_t size)
{
    assert(size <= pieces->to - pieces->from);
    pieces->from += size;
}

/* ---- unpacking ---- */

void pieces_unpack(struct pieces *pieces, const void *from, size_t size)
{
    int err = 0;

    if (pieces->error != 0 || size == 0)
        return;
    assert(size <= pieces->size - pieces->done);
    if (pieces->layout.parts != NULL)
        vector_move(pieces, (char *)(uintptr_t)from, size, false);
    else
        err = pieces->layout.unpack(pieces->layout.context, pieces->done, from, size);
    if (err != 0)
        pieces->error = err < 0 ? err : -EIO;
    else
        pieces->done += size;
}

const struct module pieces_module = {
    .name = "pieces",
    .fini = pieces_on_fini,
    .is_valid = MBX_CHECKS ? pieces_is_valid : NULL,
};
