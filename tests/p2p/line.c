/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.c - a send without credit waits in line until there is some.
 *
 *   send_or_defer ── no credit ──> WAITING ── CREDIT comes ──> eager.c or rndv.c, as if it were new
 *                                     └────── its peer is gone ──> complete, with an error
 *
 * The backlog (src/defer) does that, and more: it asks for matching receives.  So this protocol
 * does nothing new; it is the example of docs/contributing/adding-a-protocol.md.
 *
 * Invariants
 *   I1  while a send waits in line for a peer, there is no envelope credit for it: so a later send
 *       finds none, and waits after it
 *   I2  peer.defer.is_deferred says that a send does: so no later send takes an advertised receive of
 *       that peer first (src/advert)
 */
#include "line.h"

#include "base/check.h"
#include "p2p/p2p.h"

/* The sends that wait for one peer. */
struct line {
    struct list in_lines;
    const struct mbx_ep *ep;
    struct peer *peer;
    struct list sends; /* request.queue */
};

enum line_state {
    LINE_WAITING = PROTO_STATE(PROTO_EXTENSION, 0), /* for envelope credit */
};

uint64_t line_came, line_left;

static struct list lines = {&lines, &lines};

static struct line *line_of(struct list *node)
{
    return container_of(node, struct line, in_lines);
}

static struct line *line_find(const struct peer *peer)
{
    struct list *node;

    list_for_each (node, &lines)
        if (line_of(node)->peer == peer)
            return line_of(node);
    return NULL;
}

static struct line *line_make(const struct mbx_ep *ep, struct peer *peer)
{
    struct line *line = mem_calloc(1, sizeof *line);

    if (line == NULL)
        return NULL;
    line->ep = ep;
    line->peer = peer;
    list_init(&line->sends);
    list_init_node(&line->in_lines);
    list_add_tail(&lines, &line->in_lines);
    return line;
}

static void line_mark(struct line *line)
{
    peer_defer(line->peer)->is_deferred = !list_is_empty(&line->sends);
}

/* ---- hooks ---- */

/* A send without credit, or after one. */
static int on_defer(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct line *line = line_find(peer);

    if (line == NULL && (line = line_make(ep, peer)) == NULL)
        return -ENOMEM;
    if (list_is_empty(&line->sends))
        module_deferring(ep, peer);
    proto_move(ep, req, LINE_WAITING);
    list_add_tail(&line->sends, &req->queue);
    line_mark(line);
    line_came++;
    return 0;
}

/* As many leave as there is credit for. */
static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    struct line *line = line_find(peer);
    struct list *node;

    if (line == NULL || list_is_empty(&line->sends))
        return 1;
    if (envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    module_deferring(ep, peer); /* who keeps receives of this peer wants no credit about */
    credit_bring_back(peer, envelopes);
    while ((node = list_first(&line->sends)) != NULL &&
           credit_take_request(ep, peer, request_of_queue(node))) {
        struct request *req = request_of_queue(node);
        int err;

        list_remove(node);
        line_left++;
        err = send_first(ep, peer, req);
        if (err < 0)
            request_complete(ep, req, err);
    }
    line_mark(line);
    return 0;
}

static void on_peer_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    struct line *line = line_find(peer);
    struct list *node;

    (void)is_new;
    while (line != NULL && (node = list_pop_head(&line->sends)) != NULL)
        request_complete(ep, request_of_queue(node), error);
    if (line != NULL)
        line_mark(line);
    credit_without_end(peer); /* who comes now fails at once */
}

static void on_fini(struct mbx_ep *ep)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &lines)
        if (line_of(node)->ep == ep) {
            list_remove(node);
            mem_free(line_of(node));
        }
}

static bool is_valid(const struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &lines) {
        const struct line *line = line_of(node);
        bool is_empty = list_is_empty(&line->sends);

        if (line->ep == ep &&
            (!HOLDS("line.c I1", is_empty || peer_credit(line->peer)->envelopes == 0) ||
             !HOLDS("line.c I2", peer_defer(line->peer)->is_deferred == !is_empty)))
            return false;
    }
    return true;
}

/* ---- the tables ---- */

static const struct proto line_proto = {
    .id = PROTO_EXTENSION,
    .name = "line",
    .states =
        {
            [LINE_WAITING % PROTO_STATES] = {.name = "waiting",
                                             .kinds = MBX_SENDS,
                                             .queue = PROTO_ALWAYS,
                                             .then = PROTO_THEN(PROTO_EAGER) |
                                                     PROTO_THEN(PROTO_RNDV),
                                             .from = {SEND_NEW},
                                             .awaits_peer = true},
        },
};

const struct module line_module = {
    .name = "line",
    .proto = &line_proto,
    .defer = on_defer,
    .credit_came = on_credit_came,
    .peer_gone = on_peer_gone,
    .fini = on_fini,
    .is_valid = MBX_CHECKS ? is_valid : NULL,
};
