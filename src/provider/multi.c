/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multi.c - buffers that take many messages (FI_MULTI_RECV).
 *
 *   buf                            used                    len
 *    | message 1 | m. 2 | message 3 | space for the next one |
 *
 * Matchbox has no receive that stays posted.  So while there is such a buffer, the
 * untagged receives of its endpoint wait here, on a list in posting order, and messages
 * are taken out of Matchbox's unexpected queue (mbx_mprobe) and given to the first
 * receive that accepts them (mbx_mrecv).  A buffer keeps its place in the list until it
 * is used up.  Posting a new single receive for each message instead would move the
 * buffer after receives that were posted in the meantime.
 *
 * A part is the receive of one message into such a buffer.  The buffer goes back to
 * the client with the flag FI_MULTI_RECV in the completion of its last part.  Since
 * parts may complete out of order (a long message is still being read), that is the
 * part that completes last.
 *
 * A receive that names a peer must fail when the peer dies, and Matchbox does not watch a peer
 * for which no request waits.  So for each such receive on the list a request waits in
 * Matchbox, its sentinel: a receive from that peer that nothing matches (PROV_SENTINEL).  It ends
 * after everything that the peer has sent has arrived.
 *
 * A message that has met its receive (the taker), and for which there is no memory, waits for it
 * here; the taker has matched, whatever happens to other receives.
 *
 * Invariants
 *   I1  receives in Matchbox are older than the receives on the list: while the list
 *       is not empty, untagged receives join it
 *   I2  so a receive in Matchbox accepts no message that comes to the list, and only
 *       messages that a receive on the list accepts are taken: waiting messages count
 *       against the limits of unexpected messages
 *   I3  a buffer is on the list as long as it has at least min bytes left, and a byte
 *   I4  a buffer off the list lives as long as it has parts
 *   I5  multi_message is a part of multi_taker, which is on the list, or was cancelled since
 *   I6  multi_unguarded receives on the list that name a peer have no sentinel, for lack of
 *       memory, and get one later; a receive off the list has no sentinel
 */
#include "provider/envelope.h"
#include "provider/ep.h"
#include "provider/event.h"
#include "provider/multi.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_MIN 64 /* the default of FI_OPT_MIN_MULTI_RECV */

/* ---- sentinels ------------------------------------------------------------------------ */

/* Posts the sentinel of m.  If there is no memory for it, sentinel_all() tries again. */
static void sentinel_post(struct prov_ep *ep, struct prov_multi *m)
{
    struct mbx_options options = {0};
    struct prov_op *op = prov_op_get(&ep->ops);

    if (op == NULL)
        return;
    op->kind = PROV_OP_SENTINEL;
    op->quiet = true;
    op->bounce = NULL;
    op->multi = m;
    options.user = op;
    if (mbx_recv(ep->mbx, m->source, PROV_SENTINEL, 0, MBX_IGNORE_ALL, NULL, 0, &options,
                 &op->request) < 0) {
        prov_op_put(&ep->ops, op);
        return;
    }
    m->sentinel = op;
    ep->multi.unguarded--;
}

/* Cancels the sentinel of m; its completion is then ignored. */
static void sentinel_leave(struct prov_ep *ep, struct prov_multi *m)
{
    if (m->sentinel == NULL) {
        ep->multi.unguarded--;
        return;
    }
    m->sentinel->multi = NULL;
    mbx_cancel(ep->mbx, m->sentinel->request);
    m->sentinel = NULL;
}

static OUT_OF_LINE void sentinel_all(struct prov_ep *ep)
{
    for (struct prov_multi *m = ep->multi.first; m != NULL; m = m->next)
        if (m->source != MBX_ANY_SOURCE && m->sentinel == NULL)
            sentinel_post(ep, m);
}

/* ---- the list ------------------------------------------------------------------------ */

static void list_append(struct prov_ep *ep, struct prov_multi *m)
{
    m->before = ep->multi.last;
    if (m->before != NULL)
        m->before->next = m;
    else
        ep->multi.first = m;
    ep->multi.last = m;
    m->listed = true;
    if (m->source == MBX_ANY_SOURCE) {
        ep->multi.any++;
        return;
    }
    ep->multi.unguarded++;
    sentinel_post(ep, m);
}

static void list_remove(struct prov_ep *ep, struct prov_multi *m)
{
    assert(m->listed);
    if (m->before != NULL)
        m->before->next = m->next;
    else
        ep->multi.first = m->next;
    if (m->next != NULL)
        m->next->before = m->before;
    else
        ep->multi.last = m->before;
    m->listed = false;
    if (m->source == MBX_ANY_SOURCE)
        ep->multi.any--;
    else
        sentinel_leave(ep, m);
}

static struct prov_multi *list_find(const struct prov_ep *ep, uint32_t source)
{
    struct prov_multi *m = ep->multi.first;

    while (m != NULL && m->source != MBX_ANY_SOURCE && m->source != source)
        m = m->next;
    return m;
}

/* ---- taking messages ---------------------------------------------------------------- */

static int part_post(struct prov_ep *ep, struct prov_op *op, void *buf, size_t len)
{
    struct mbx_options options = {.user = op};

    return mbx_mrecv(ep->mbx, ep->multi.message, buf, len, &options, &op->request);
}

/* Receives the message into an ordinary receive, which leaves this file. */
static int single_take(struct prov_ep *ep, struct prov_multi *m)
{
    int err = part_post(ep, m->op, m->buf, m->len);

    if (err < 0)
        return err;
    m->op->kind = PROV_OP_RECV;
    list_remove(ep, m);
    free(m);
    return 0;
}

static int many_take(struct prov_ep *ep, struct prov_multi *m, size_t size)
{
    size_t capacity = m->len - m->used;
    struct prov_op *part = prov_op_get(&ep->ops);
    int err;

    if (part == NULL)
        return -FI_ENOMEM;
    part->kind = PROV_OP_PART;
    part->context = m->op->context;
    part->quiet = m->op->quiet;
    part->flags = m->op->flags;
    part->bounce = NULL;
    part->multi = m;
    part->buf = m->buf + m->used;
    err = part_post(ep, part, part->buf, capacity);
    if (err < 0) {
        prov_op_put(&ep->ops, part);
        return err;
    }
    m->used += size < capacity ? size : capacity;
    if (m->listed && (m->used == m->len || m->len - m->used < m->min))
        list_remove(ep, m);
    return 0;
}

/* Takes the oldest message that a receive on the list accepts out of the unexpected queue. */
static bool message_probe(struct prov_ep *ep)
{
    struct prov_multi *m = ep->multi.first;

    if (ep->multi.any != 0)
        return mbx_mprobe(ep->mbx, MBX_ANY_SOURCE, PROV_UNTAGGED, 0, MBX_IGNORE_ALL,
                          &ep->multi.status, &ep->multi.message) > 0;
    while (m != NULL && mbx_mprobe(ep->mbx, m->source, PROV_UNTAGGED, 0, MBX_IGNORE_ALL,
                                   &ep->multi.status, &ep->multi.message) <= 0)
        m = m->next;
    return m != NULL;
}

/* Finds the next message and the first receive that accepts it, the taker. */
static bool message_find(struct prov_ep *ep)
{
    if (!message_probe(ep)) {
        ep->multi.message = 0;
        return false;
    }
    ep->multi.taker = list_find(ep, ep->multi.status.source);
    assert(ep->multi.taker != NULL);
    ep->multi.taker->parts++;
    return true;
}

/* False: there is no message; or no memory for it, and the message waits in
 * ep->multi.message. */
static bool message_take(struct prov_ep *ep)
{
    struct prov_multi *m;
    int err;

    if (ep->multi.message == 0 && !message_find(ep))
        return false;
    m = ep->multi.taker;
    err = m->many ? many_take(ep, m, ep->multi.status.size) : single_take(ep, m);
    if (err < 0)
        return false;
    ep->multi.message = 0;
    return true;
}

void prov_multi_pull(struct prov_ep *ep)
{
    if (unlikely(ep->multi.unguarded != 0))
        sentinel_all(ep);
    while (prov_multi_is_busy(&ep->multi) && message_take(ep))
        ;
}

/* ---- the endpoint's part ----------------------------------------------------------------- */

void prov_multi_init(struct prov_ep *ep)
{
    ep->multi.min = FIRST_MIN;
}

void prov_multi_set_min(struct prov_ep *ep, size_t min)
{
    ep->multi.min = min;
}

/* ---- posting and completing ------------------------------------------------------------- */

int prov_multi_post(struct prov_ep *ep, struct prov_op *op, uint32_t source, void *buf,
                    size_t len, bool many)
{
    struct prov_multi *m = calloc(1, sizeof *m);

    if (m == NULL)
        return -FI_ENOMEM;
    m->op = op;
    m->source = source;
    m->many = many;
    m->buf = buf;
    m->len = len;
    m->min = ep->multi.min;
    op->kind = PROV_OP_MULTI_QUEUED;
    op->multi = m;
    list_append(ep, m);
    prov_multi_pull(ep);
    return 0;
}

enum buffer_end {
    BUFFER_STAYS,     /* still in use */
    BUFFER_RELEASED,  /* the client's again */
    BUFFER_CANCELLED, /* as released; an event with reserved space reports the cancel */
};

/* A part of the buffer has completed. */
static enum buffer_end part_done(struct prov_ep *ep, struct prov_multi *m)
{
    enum buffer_end end = m->cancelled ? BUFFER_CANCELLED : BUFFER_RELEASED;

    assert(m->parts != 0);
    if (--m->parts != 0 || m->listed)
        return BUFFER_STAYS;
    prov_op_put(&ep->ops, m->op);
    free(m);
    return end;
}

/* The buffer's last completion also reports the end of the buffer, even if it would be quiet.
 * If a cancel waited for the last part, a separate event follows. */
unsigned prov_multi_finish_part(struct prov_ep *ep, struct prov_op *op,
                                const struct mbx_completion *c, struct prov_event *event)
{
    enum buffer_end end = part_done(ep, op->multi);
    unsigned finish = end == BUFFER_CANCELLED ? PROV_FINISH_CANCELLED : 0;
    void *at = op->buf;

    if (end == BUFFER_RELEASED)
        op->quiet = false;
    if (!prov_event_from(ep, c, true, event))
        return finish;
    event->buf = at;
    event->flags |= end == BUFFER_RELEASED ? FI_MULTI_RECV : 0;
    return finish | PROV_FINISH_EVENT;
}

/* Frees a receive that is off the list and has no parts. */
static void multi_end(struct prov_ep *ep, struct prov_multi *m)
{
    assert(!m->listed && m->parts == 0);
    free(m->op->bounce);
    prov_op_put(&ep->ops, m->op);
    free(m);
}

int prov_multi_cancel(struct prov_ep *ep, struct prov_op *op)
{
    struct prov_multi *m = op->multi;

    if (!m->listed || (m->parts != 0 && !m->many))
        return -FI_ENOENT; /* used up: the last part reports it; or matched */
    list_remove(ep, m);
    if (m->parts != 0) {
        m->cancelled = true;
        return -FI_EINPROGRESS;
    }
    multi_end(ep, m);
    return 0;
}

/* Fails a receive whose peer has died.  A buffer with parts comes back with its last part. */
static bool multi_fail(struct prov_ep *ep, struct prov_multi *m, int error,
                       struct prov_event *event)
{
    list_remove(ep, m);
    if (m->parts != 0)
        return false;
    if (ep->cntrs.counts)
        prov_count_op(&ep->cntrs, PROV_OP_RECV, error);
    prov_event_cancelled(event, m->op->context, m->many);
    event->error = -error;
    event->prov_errno = -error;
    multi_end(ep, m);
    return true;
}

/* A sentinel is not the client's, but its end may end a receive of the client. */
unsigned prov_multi_finish_sentinel(struct prov_ep *ep, struct prov_op *sentinel,
                                    const struct mbx_completion *c, struct prov_event *event)
{
    int error = c->error;
    struct prov_multi *m;

    if (sentinel->multi != NULL && error != 0)
        prov_multi_pull(ep); /* the peer's messages may complete the receive */
    m = sentinel->multi;
    prov_op_put(&ep->ops, sentinel);
    if (m == NULL)
        return 0;
    m->sentinel = NULL;
    ep->multi.unguarded++;
    /* while a message waits for memory, later ones may be for this receive */
    if (error == 0 || ep->multi.message != 0 || !multi_fail(ep, m, error, event))
        return 0;
    return PROV_FINISH_EVENT;
}

bool prov_multi_is_many(const struct prov_op *op)
{
    return op->kind == PROV_OP_MULTI_QUEUED && op->multi->many;
}

void prov_multi_free(struct prov_ep *ep)
{
    for (struct prov_op_slab *slab = ep->ops.slabs; slab != NULL; slab = slab->next)
        for (size_t i = 0; i < PROV_OPS_PER_SLAB; i++)
            if (slab->ops[i].kind == PROV_OP_MULTI_QUEUED)
                free(slab->ops[i].multi);
}
