/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.c - computes, grants, extends and reduces the credit windows of peers.
 *
 *   settings.unexpected_memory
 *   ├── half: the first windows, equal for every possible peer
 *   │         window x CREDIT_ENVELOPE, and as much again for payload
 *   └── half: extra credit, for peers that need more
 */
#include "p2p/credit.h"

#include "core/core.h"
#include "transport/bounce.h"

/* The largest first window of a peer: enough for the messages that one ring holds. */
#define WINDOW_MOST  256
#define PAYLOAD_MOST (UINT64_C(1) << 18)

/* The limits of extra payload credit for one peer: at a time (a larger window doubles), and in
 * all. */
#define EXTRA_LEAST 4096
#define EXTRA_MOST                                                                             \
    ((UINT64_C(1) << 20) +                                                                     \
     4096) /* two of the longest messages in bounce buffers, as they are allocated */
#define EXTRA_ENVELOPES (UINT64_C(1) << 14)

/* A busy peer with a window below this gets extra envelopes without asking, so that it needs
 * CREDIT packets less often. */
#define WINDOW_BUSY 1024

/* Credit in an address: envelopes in the low half, payload in units of these bytes in the high
 * half. */
#define WELCOME_UNIT      64
#define WELCOME_UNLIMITED 0xffffu

/* ---- windows ---- */

static uint64_t setting_or(uint64_t setting, uint64_t automatic, uint64_t most)
{
    if (setting == SETTING_UNLIMITED)
        return CREDIT_UNLIMITED;
    return min_size(setting == SETTING_AUTO ? automatic : setting, most);
}

/* The memory that is left for extra credit, if the user has not fixed all windows.  share is
 * the memory of one peer for envelopes and payload, if nothing is fixed. */
static uint64_t extra_of(const struct credit_pool *pool, const struct settings *s,
                         uint64_t share)
{
    uint64_t envelopes =
        pool->is_fixed ? pool->window : min_size(share / 2 / CREDIT_ENVELOPE, WINDOW_MOST);
    uint64_t payload = pool->is_payload_fixed ? pool->window_payload : share / 2;
    uint64_t used;

    if (pool->is_fixed && (pool->is_payload_fixed || pool->window == 0))
        return 0;
    if (envelopes >= CREDIT_UNLIMITED || payload >= CREDIT_UNLIMITED)
        return s->unexpected_memory / 2;
    used = s->peers_max * (envelopes * CREDIT_ENVELOPE + payload);
    return s->unexpected_memory - min_size(used, s->unexpected_memory);
}

void credit_open(struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;
    uint64_t share = s->unexpected_memory / 2 / s->peers_max;
    uint64_t window = min_size(share / 2 / CREDIT_ENVELOPE, WINDOW_MOST);
    struct credit_pool *pool = ep_credit(ep);

    pool->window = setting_or(s->window, window, WELCOME_UNLIMITED - 1);
    pool->window_payload = setting_or(s->window_payload, min_size(share / 2, PAYLOAD_MOST),
                                      (WELCOME_UNLIMITED - 1) * WELCOME_UNIT);
    if (pool->window_payload != CREDIT_UNLIMITED)
        pool->window_payload -= pool->window_payload % WELCOME_UNIT;
    /* a window that the user has set is not extended */
    pool->is_fixed = s->window != SETTING_AUTO;
    pool->is_payload_fixed = s->window_payload != SETTING_AUTO;
    pool->extra_all = extra_of(pool, s, share);
    pool->extra = pool->extra_all;
}

void credit_limits(const struct mbx_ep *ep, struct mbx_limits *limits)
{
    const struct credit_pool *pool = ep_credit(ep);
    uint64_t peers = ep->settings.peers_max;

    limits->window = pool->window < CREDIT_UNLIMITED ? pool->window : UINT64_MAX;
    limits->window_payload =
        pool->window_payload < CREDIT_UNLIMITED ? pool->window_payload : UINT64_MAX;
    limits->extra = pool->extra_all;
    limits->unexpected =
        limits->window == UINT64_MAX || limits->window_payload == UINT64_MAX
            ? UINT64_MAX
            : peers * (pool->window * CREDIT_ENVELOPE + pool->window_payload) + pool->extra_all;
}

uint32_t credit_welcome(const struct mbx_ep *ep)
{
    const struct credit_pool *pool = ep_credit(ep);
    uint64_t window = pool->window, payload = pool->window_payload / WELCOME_UNIT;

    return (uint32_t)(min_size(window, WELCOME_UNLIMITED) | min_size(payload, WELCOME_UNLIMITED)
                                                                << 16);
}

static void credit_thresholds(struct credit *credit)
{
    credit->report_envelopes =
        (uint32_t)min_size(UINT32_MAX, credit->window / 2 + (credit->window < 2));
    credit->report_payload = credit->window_payload == 0
                                 ? UINT32_MAX
                                 : (uint32_t)min_size(UINT32_MAX, credit->window_payload / 2);
}

/* The first window at a peer, from its address. */
static uint64_t credit_first(const struct transport_address *address)
{
    return address->credit & WELCOME_UNLIMITED;
}

uint64_t credit_first_half(const struct mbx_ep *ep, const struct peer *peer)
{
    return credit_half(credit_first(&ep->peers.addresses[peer->number]));
}

/* A new peer, whose address contains our first window there. */
static void credit_start(struct mbx_ep *ep, struct peer *peer,
                         const struct transport_address *address)
{
    struct credit *credit = peer_credit(peer);
    uint32_t welcome = address->credit;

    credit->envelopes = credit_first(address);
    if (credit->envelopes == WELCOME_UNLIMITED)
        credit->envelopes = CREDIT_UNLIMITED;
    credit->payload = (uint64_t)(welcome >> 16) * WELCOME_UNIT;
    if (welcome >> 16 == WELCOME_UNLIMITED)
        credit->payload = CREDIT_UNLIMITED;
    credit->window = ep_credit(ep)->window;
    credit->window_payload = ep_credit(ep)->window_payload;
    credit_thresholds(credit);
}

/* ---- telling ---- */

/* The part of a window that is beyond the first window and not in use. */
static uint64_t credit_idle(uint64_t window, uint64_t first, uint64_t kept)
{
    assert(first <= window);
    assert(kept <= window);
    return window - (kept > first ? kept : first);
}

/* Takes extra credit back out of the freed credit, when little is left in the pool. */
static void credit_take_back(struct credit_pool *pool, struct credit *credit)
{
    uint64_t envelopes, payload;

    if (likely(pool->extra >= pool->extra_all / 8))
        return;
    envelopes = credit_idle(credit->window, pool->window, credit->kept_envelopes);
    envelopes = min_size(credit->freed_envelopes, envelopes) / 2;
    /* a peer may free more than its window, through matched probes, which are not counted */
    payload = credit_idle(credit->window_payload, pool->window_payload, credit->kept_payload);
    payload = min_size(credit->freed_payload, payload) / 2;
    credit->freed_envelopes -= (uint32_t)envelopes;
    credit->freed_payload -= payload;
    credit->window -= envelopes;
    credit->window_payload -= payload;
    pool->extra += envelopes * CREDIT_ENVELOPE + payload;
    credit_thresholds(credit);
}

/* Doubles the window of a peer that uses all of it, while there is plenty of extra credit. */
static void credit_widen(struct credit_pool *pool, struct credit *credit)
{
    uint64_t more = credit->window;

    if (pool->is_fixed || credit->window >= WINDOW_BUSY || credit->kept_envelopes != 0 ||
        pool->extra < pool->extra_all / 2 + more * CREDIT_ENVELOPE)
        return;
    credit->window += more;
    credit->freed_envelopes += (uint32_t)more;
    pool->extra -= more * CREDIT_ENVELOPE;
    credit_thresholds(credit);
}

/* The peer is gone: its unused extra credit becomes available to other peers. */
static OUT_OF_LINE void credit_end(struct mbx_ep *ep, struct peer *peer)
{
    struct credit_pool *pool = ep_credit(ep);
    struct credit *credit = peer_credit(peer);
    uint64_t envelopes, payload;

    credit->freed_envelopes = credit->freed_payload = 0;
    credit->report_envelopes = credit->report_payload = 1; /* so that this runs again */
    envelopes = credit_idle(credit->window, pool->window, credit->kept_envelopes);
    payload = credit_idle(credit->window_payload, pool->window_payload, credit->kept_payload);
    credit->window -= envelopes;
    credit->window_payload -= payload;
    pool->extra += envelopes * CREDIT_ENVELOPE + payload;
}

/* Sends the freed credit to the peer.  As transport_ops.send. */
static int credit_report(struct mbx_ep *ep, struct peer *peer)
{
    struct credit *credit = peer_credit(peer);
    struct wire_credit body;
    int err;

    if (unlikely(peer->health.is_gone)) {
        credit_end(ep, peer);
        return 0;
    }
    if (credit->window >= CREDIT_UNLIMITED)
        credit->freed_envelopes = 0;
    if (credit->window_payload >= CREDIT_UNLIMITED)
        credit->freed_payload = 0;
    if (unlikely(peer->owes & OWES_ANSWER))
        return -EAGAIN; /* a RETIRE first: the sender must not send a message that was pulled */
    if (unlikely(peer->outq.fins > FINS_MOST))
        return -EAGAIN; /* the FINs leave first */
    credit_take_back(ep_credit(ep), credit);
    credit_widen(ep_credit(ep), credit);
    body = (struct wire_credit){credit->freed_envelopes, credit->freed_payload};
    if ((body.envelopes | body.payload) == 0)
        return 0;
    err = outq_notify(ep, peer, WIRE_CREDIT, &body);
    if (err == -EAGAIN)
        return err;
    credit->freed_envelopes = credit->freed_payload = 0;
    if (peer->deferrer != NULL)
        module_credit_sent(ep, peer, body.envelopes);
    ep->stats.credits++;
    return err;
}

OUT_OF_LINE void credit_report_soon(struct mbx_ep *ep, struct peer *peer)
{
    if (credit_report(ep, peer) == -EAGAIN)
        outq_owe(ep, peer, OWES_CREDIT);
}

/* ---- extra credit ---- */

/* Messages that only bounce buffers make eager must leave enough extra credit for shorter
 * messages. */
static uint64_t extra_most(const struct credit_pool *pool, bool is_long)
{
    uint64_t kept = is_long ? pool->extra_all / 2 : 0;

    return (pool->extra - min_size(kept, pool->extra)) / 4;
}

void credit_extra(struct mbx_ep *ep, struct peer *peer, bool envelopes, bool is_long)
{
    struct credit_pool *pool = ep_credit(ep);
    struct credit *credit = peer_credit(peer);
    uint64_t most = extra_most(pool, is_long), more;

    if (envelopes ? pool->is_fixed : pool->is_payload_fixed)
        most = 0;
    if (envelopes) {
        more = min_size(credit->window + 1, most / CREDIT_ENVELOPE);
        more = min_size(more, EXTRA_ENVELOPES - min_size(EXTRA_ENVELOPES, credit->window));
        assert(more * CREDIT_ENVELOPE <= pool->extra);
        credit->window += more;
        credit->freed_envelopes += (uint32_t)more;
        pool->extra -= more * CREDIT_ENVELOPE;
    } else {
        more = credit->window_payload > EXTRA_LEAST ? credit->window_payload : EXTRA_LEAST;
        more = min_size(min_size(more, most),
                        EXTRA_MOST - min_size(EXTRA_MOST, credit->window_payload));
        credit->window_payload += more;
        credit->freed_payload += more;
        pool->extra -= more;
    }
    credit_thresholds(credit);
    credit_report_soon(ep, peer);
}

/* ---- bounce buffers of peers ---- */

void credit_allow_buffers(struct mbx_ep *ep, const struct peer *peer)
{
    /* a device reads packets, which do not name buffers */
    if (!ep_matches_here(ep) || transport_bounce_map(peer->link) != 0)
        return;
    if (unlikely(ep_credit(ep)->bounce == NULL)) {
        ep_credit(ep)->bounce = peer->link->transport;
        credit_kept(ep);
    }
    transport_bounce_allow(peer->link, false);
}

/* ---- as a sender ---- */

/* The RTS payload that credit allows: all or none. */
static size_t credit_rts_payload_max(const struct mbx_ep *ep, const struct peer *peer,
                                     size_t size)
{
    size_t payload = rndv_payload_size(ep, peer, WIRE_RTS, size);

    if (payload != 0 && credit_bytes(payload) > peer_credit(peer)->payload)
        payload = 0;
    return payload;
}

bool credit_take_request(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    path_reroute(ep, req, path_of_waiting(ep, peer, req));
    if (req->protocol <= MBX_BOUNCE && credit_take(peer, req->size)) {
        proto_move(ep, req, EAGER_SENDING);
        return true;
    }
    if (peer_credit(peer)->envelopes == 0)
        return false;
    if (req->protocol <= MBX_BOUNCE) {
        path_reroute(ep, req, path_rndv(peer));
        req->flags |= REQUEST_SHORT_OF;
    }
    proto_move(ep, req, RNDV_RTS);
    req->rts_payload =
        request_is_in_pieces(req) ? 0 : credit_rts_payload_max(ep, peer, req->size);
    peer_credit(peer)->envelopes--;
    peer_credit(peer)->payload -= credit_rts_payload(req->rts_payload);
    return true;
}

/* The peer has sent us credit. */
static int on_credit(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_credit *credit = &packet->body.credit;
    struct credit *own = peer_credit(peer);
    int result;

    if (own->payload + credit->payload > CREDIT_UNLIMITED)
        return -EPROTO;
    own->payload += credit->payload;
    if (own->envelopes == 0) {
        result = module_credit_came(ep, peer, credit->envelopes);
        if (result != 1)
            return result;
    }
    if (own->envelopes + credit->envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    own->envelopes += credit->envelopes;
    return 0;
}

/* ---- as a module ---- */

static void credit_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    (void)error, (void)is_new;
    credit_end(ep, peer);
}

const struct module credit_module = {
    .name = "credit",
    .packets = (const struct packet_handler[]){{WIRE_CREDIT, on_credit}, {0}},
    .controls = (const struct control[]){{.what = OWES_CREDIT, .send = credit_report}, {0}},
    .peer_made = credit_start,
    .peer_gone = credit_on_gone,
};
