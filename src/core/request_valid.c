/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request_valid.c - where a request is, by its state: core.h I1, I4, I5, I7.
 */
#include "core/valid.h"

enum where { NEVER, ALWAYS, EITHER };

/* Who may be in a state; is it on an out, and is its queue node on a list? */
static const struct {
    unsigned kinds; /* enum mbx_queue */
    enum where out, queue;
} places[REQUEST_STATES] = {
    [REQUEST_POSTED] = {MBX_RECVS, NEVER, EITHER},
    [REQUEST_HELD] = {MBX_SENDS, NEVER, ALWAYS},
    [REQUEST_LOCK] = {MBX_SENDS, NEVER, ALWAYS},
    [REQUEST_CLAIM] = {MBX_SENDS, ALWAYS, ALWAYS},
    [REQUEST_WAIT_GRANT] = {MBX_SENDS, NEVER, ALWAYS},
    [REQUEST_EAGER] = {MBX_SENDS, ALWAYS, NEVER},
    [REQUEST_RTS] = {MBX_SENDS, ALWAYS, NEVER},
    [REQUEST_WAIT_FIN] = {MBX_SENDS, NEVER, NEVER},
    [REQUEST_SEND_DATA] = {MBX_SENDS, ALWAYS, NEVER},
    [REQUEST_WRITE] = {MBX_SENDS, ALWAYS, NEVER},
    [REQUEST_WRITING] = {MBX_SENDS, NEVER, ALWAYS},
    [REQUEST_WRITTEN] = {MBX_SENDS, ALWAYS, NEVER},
    [REQUEST_DEVICE] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_REVOKING] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_CLAIMED] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_ASSEMBLE] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_READ] = {MBX_RECVS, NEVER, ALWAYS},
    [REQUEST_READ_WAIT] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_CTS] = {MBX_RECVS, ALWAYS, NEVER},
    [REQUEST_WAIT_DATA] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_FILLING] = {MBX_RECVS, NEVER, NEVER},
    [REQUEST_ACCESS] = {MBX_ACCESS, EITHER, EITHER},
    [REQUEST_WAIT_ANSWER] = {MBX_ACCESS, NEVER, NEVER},
    [REQUEST_PUSH] = {MBX_ACCESS, ALWAYS, NEVER},
    [REQUEST_SERVE] = {MBX_EVENTS, NEVER, ALWAYS},
    [REQUEST_SERVE_WAIT] = {MBX_EVENTS, NEVER, ALWAYS},
    [REQUEST_WAIT_PUSH] = {MBX_EVENTS, NEVER, ALWAYS},
    [REQUEST_COMPLETE] = {MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS, EITHER, ALWAYS},
    [REQUEST_LINGER] = {MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS, ALWAYS, NEVER},
};

struct census {
    bool is_valid;
    uint32_t in[REQUEST_STATES]; /* requests by state */
    uint32_t injected;
    uint64_t open; /* receives that wait in an engine */
};

static bool is_there(enum where where, const struct list *node)
{
    return where == EITHER || (where == ALWAYS) == list_is_linked(node);
}

static bool place_is_valid(const struct request *req)
{
    bool is_in_engine = req->state == REQUEST_POSTED && req->match.state == MBX_MATCH_QUEUED;

    return HOLDS("core.h I1", req->state < REQUEST_STATES) &&
           HOLDS("core.h I1", (places[req->state].kinds & req->completion.kind) != 0) &&
           HOLDS("core.h I1", is_there(places[req->state].queue, &req->queue)) &&
           HOLDS("core.h I1", is_there(places[req->state].out, &req->out)) &&
           HOLDS("core.h I4", req->state != REQUEST_LINGER || list_is_linked(&req->out)) &&
           HOLDS("core.h I1",
                 req->state != REQUEST_POSTED || is_in_engine || !list_is_linked(&req->queue));
}

/* What a request still has, that it gives back when it is complete. */
static bool end_is_valid(const struct request *req)
{
    bool is_over = req->state == REQUEST_COMPLETE || req->state == REQUEST_LINGER;
    unsigned flags = req->flags & (REQUEST_SILENT | REQUEST_MUTE);

    if (!is_over)
        return true;
    return HOLDS("core.h I7", (req->flags & (REQUEST_EXPOSED | REQUEST_COPIED)) == 0) &&
           HOLDS("core.h I7", (req->flags & REQUEST_LENT) == 0) &&
           HOLDS("core.h I7",
                 (req->flags & REQUEST_SHARED) == 0 || req->completion.kind == MBX_SENDS) &&
           HOLDS("core.h I4", req->state == REQUEST_LINGER || (flags & REQUEST_MUTE) == 0) &&
           HOLDS("core.h I4", req->state == REQUEST_LINGER || flags != REQUEST_SILENT ||
                                  req->completion.error != 0);
}

static bool moves_bytes(enum request_state state)
{
    const uint32_t all = 1u << REQUEST_SEND_DATA | 1u << REQUEST_WRITE | 1u << REQUEST_WRITING |
                         1u << REQUEST_WRITTEN | 1u << REQUEST_READ | 1u << REQUEST_READ_WAIT |
                         1u << REQUEST_CTS | 1u << REQUEST_WAIT_DATA | 1u << REQUEST_FILLING |
                         1u << REQUEST_PUSH;

    return (all >> state & 1) != 0;
}

static bool amount_is_valid(const struct request *req)
{
    return !moves_bytes((enum request_state)req->state) ||
           (HOLDS("core.h I5", req->done <= req->total) &&
            HOLDS("core.h I5", req->total <= req->size));
}

static void count(void *arg, void *object)
{
    struct census *census = arg;
    const struct request *req = object;

    if (!census->is_valid)
        return;
    census->is_valid = place_is_valid(req) && end_is_valid(req) && amount_is_valid(req);
    if (!census->is_valid)
        return;
    census->in[req->state]++;
    census->injected += (req->flags & REQUEST_MUTE) != 0 && request_is_send(req) &&
                        req->state < REQUEST_COMPLETE;
    census->open += recv_is_open(req);
}

/* Are those on the list in this state, and as many as there are? */
static bool list_is_valid(const struct list *head, enum request_state state, uint32_t count)
{
    struct list *node;

    list_for_each (node, head)
        if (!HOLDS("core.h I1", request_of_queue(node)->state == state))
            return false;
    return HOLDS("core.h I1", valid_length(head) == count);
}

static bool done_is_valid(const struct mbx_ep *ep, uint32_t count)
{
    uint32_t done = 0;
    struct list *node;

    for (unsigned kind = MBX_SENDS; kind <= MBX_EVENTS; kind <<= 1)
        list_for_each (node, &ep->done[kind]) {
            const struct request *req = request_of_queue(node);

            done++;
            if (!HOLDS("core.h I1", req->state == REQUEST_COMPLETE) ||
                !HOLDS("core.h I1", req->completion.kind == kind))
                return false;
        }
    return HOLDS("core.h I1", done == count) &&
           HOLDS("core.h I6", done == 0 || (ep->due & DUE_READ) != 0);
}

static uint64_t posted(const struct mbx_ep *ep)
{
    uint64_t recvs = 0;

    for (uint32_t i = 0; i < ep->context_slots; i++)
        recvs += ep->contexts[i] != NULL ? ep->contexts[i]->match.count.recvs : 0;
    return recvs;
}

bool request_is_valid(const struct mbx_ep *ep)
{
    struct census census = {.is_valid = true};

    valid_each(ep, count, &census);
    return census.is_valid &&
           list_is_valid(&ep->reading, REQUEST_READ, census.in[REQUEST_READ]) &&
           list_is_valid(&ep->writing, REQUEST_WRITING, census.in[REQUEST_WRITING]) &&
           done_is_valid(ep, census.in[REQUEST_COMPLETE]) &&
           HOLDS("core.h I1", census.open == posted(ep)) &&
           HOLDS("core.h I1", ep->stats.posted_now == posted(ep)) &&
           HOLDS("core.h I7", ep->injected == census.injected);
}
