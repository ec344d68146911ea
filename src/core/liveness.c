/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.c - peers that go away while somebody waits for them.
 *
 * A peer that dies says nothing, and who only waits sends nothing that could fail.  So while
 * there are requests, progress looks, LIVENESS_CHECKS times in MBX_PEER_TIMEOUT, from the first wait
 * on, at those peers that one of them waits for; for a receive from any source these are all.  If
 * they are more than LIVENESS_FEW, each check takes a share, where each peer costs system calls:
 *
 *   of 256 peers     0 .. 42  43 .. 85  86 .. 128  129 .. 171  172 .. 214  215 .. 255
 *   have their turn  look 1   look 2    look 3     look 4      look 5      look 6      and again
 *
 * Of those that have their turn it takes who is waited for, and besides who is suspected or probed, or was
 * seen gone once.  A check that is late takes the turns of those that were left out.
 *
 * Over a network it costs nothing to look at a peer, and takes several checks: one asks who is silent, and a
 * later one sees that there is no answer.  So all that are waited for by name are taken.  But nobody can be
 * looked at without a connection: there a receive from any source waits for the peers that have one,
 * and LIVENESS_MET others, which get one for that.  If a peer is gone that is waited for,
 *
 *   its sends           end with -ENOTCONN, whatever they wait for
 *   receives that have met a message of it and wait for its data
 *                       end with -ENOTCONN; completion.status says of whom
 *   a receive whose word it has taken (lockword.h) without telling
 *                       ends in the same way: nobody else can have it any more
 *   reads, writes and atomics of its memory end with -ENOTCONN; those that it had begun
 *                       of ours are dropped
 *   receives from it alone
 *                       do so if it has died, at the second check: what it had sent before is
 *                       delivered first, if need be by a device elsewhere (offload.h).  After
 *                       an orderly close they wait, and can be cancelled.  If it was never met
 *                       and is no more, they end, too: nobody knows which it was, and nothing
 *                       can come
 *   receives from any source
 *                       are told if it has died (failure.c), and wait on
 *   probes              find what it had sent, and then end as such receives would
 *   what it was given beyond its first window
 *                       is others' again (credit.c)
 *
 * and what others send and receive goes on.  Data of a dead peer cannot come later: we read it,
 * or it comes in packets, which are delivered in order before that second check, or it is
 * written by a process that is no more, or whose endpoint is closed.
 *
 * A packet that cannot be sent to a peer any more ends the request that it is a part of, and
 * nothing else: what is owed to the peer is forgotten (outq_pay()), and a claim waits as if it
 * had left.  What the peer had sent before may still be unread, and decides about the rest.  So
 * the next check takes the peer (liveness_suspect()), and it is gone when the checks say so.
 *
 * Invariant
 *   I1  a peer that is dead or lost is gone, and one that is gone was doubted
 */
#include "core/lockword.h"
#include "core/core.h"
#include "core/module.h"

/* So many peers that are waited for by name are looked at in each check, and so many have their turn
 * at least. */
#define LIVENESS_FEW 16

/* So many that are looked at without costs are looked at for receives from any source, at least. */
#define LIVENESS_PART 64

/* A check goes over all requests; if they are more than so many, as many times as rarely, so that it takes the same
 * part of the time.  Two looks are within MBX_PEER_TIMEOUT up to ten times as many. */
#define LIVENESS_REQUESTS 131072u

/* Looks in which all peers have their turn. */
#define LIVENESS_CYCLE (LIVENESS_CHECKS / 3)

/* Peers that get a link for that alone, in the life of an endpoint, where only a link can tell
 * whether somebody is there. */
#define LIVENESS_MET 16

/* Whom does req wait for?  MBX_ANY_SOURCE: nobody, or anybody. */
static uint32_t liveness_whom(const struct mbx_ep *ep, const struct request *req)
{
    if (recv_is_open(req))
        return req->match.envelope.source != MBX_ANY_SOURCE
                   ? req->match.envelope.source
                   : lockword_owner_seen(ep, req->open.word);
    return proto_of(ep, req)->states[req->state % PROTO_STATES].awaits_peer ? req->peer
                                                                            : MBX_ANY_SOURCE;
}

/* One look. */
struct liveness {
    struct mbx_ep *ep;
    uint32_t first, turns; /* peers whose turn it is: from which on, and how many */
    uint32_t named;        /* peers that are waited for by name */
    bool is_for_any;       /* a receive from any source waits */
    bool is_death;         /* a peer has died, which was not known */
    bool is_all_seen;      /* what the gone had sent, by a device elsewhere */
};

/* The look that is due, or so many, of which this is the only one.  Each endpoint begins elsewhere: whom it
 * meets first, others do not. */
static struct liveness liveness_begin(struct mbx_ep *ep, uint64_t due)
{
    uint32_t count = ep->peers.count;
    uint64_t turns = max_size(LIVENESS_FEW, count / LIVENESS_CYCLE + 1);
    struct liveness liveness = {.ep = ep, .turns = count};

    turns *= min_size(due, LIVENESS_CYCLE);
    if (count != 0)
        liveness.first = ep->liveness.next % count;
    if (turns < count) {
        liveness.turns = (uint32_t)turns;
        ep->liveness.next = (liveness.first + liveness.turns) % count;
    }
    return liveness;
}

static bool liveness_has_turn(const struct liveness *liveness, uint32_t number)
{
    uint32_t count = liveness->ep->peers.count;

    return (number + count - liveness->first) % count < liveness->turns;
}

/* False: whom is nobody, or there is no memory, which the next check finds. */
static bool liveness_await(struct liveness *liveness, uint32_t whom)
{
    struct mbx_ep *ep = liveness->ep;

    if (whom >= ep->peers.count || peer_is_free(ep, whom) || peer_use(ep, whom) != 0)
        return false;
    liveness->named += !peer_get(ep, whom)->health.is_awaited;
    peer_get(ep, whom)->health.is_awaited = true;
    return true;
}

static bool liveness_costs(const struct peer *peer)
{
    return peer->link->transport->limits.check_costs;
}

static void liveness_mark(void *arg, void *object)
{
    struct liveness *liveness = arg;

    (void)liveness_await(liveness, liveness_whom(liveness->ep, object));
    liveness->is_for_any |= recv_is_from_any(object);
}

static void liveness_mark_probe(struct liveness *liveness)
{
    struct mbx_ep *ep = liveness->ep;

    if (!ep->liveness.is_probed)
        return;
    ep->liveness.is_probed = false;
    if (ep->liveness.probed == MBX_ANY_SOURCE)
        liveness->is_for_any = true;
    else if (liveness_await(liveness, ep->liveness.probed))
        peer_get(ep, ep->liveness.probed)->health.is_suspected =
            true; /* the next probe may be another's */
}

int liveness_probed(struct mbx_ep *ep, uint32_t source)
{
    const struct peer_health *health;

    ep->liveness.is_probed = true;
    ep->liveness.probed = source;
    if (source == MBX_ANY_SOURCE)
        return ep->failures.count != ep->failures.known ? -EHOSTDOWN : 0;
    if (!peer_is_used(ep, source))
        return 0;
    health = &peer_get(ep, source)->health;
    return (health->is_dead || health->is_lost) && ep->liveness.has_seen_all ? -ENOTCONN : 0;
}

/* Peer `number` has no link yet.  True: it is known to be gone, or one of LIVENESS_MET
 * connections may be spent to find out.  In both cases its struct peer is made, which its end
 * needs. */
static bool liveness_meet(struct mbx_ep *ep, uint32_t number)
{
    const struct transport *t = ep->net.transport;
    int err = t->ops->check_address(t, &ep->peers.addresses[number]);

    if (err == 0 || (err == -ENOTSUP && ep->liveness.met >= LIVENESS_MET))
        return false;
    if (peer_use(ep, number) != 0)
        return false; /* the next check finds memory */
    ep->liveness.met += err == -ENOTSUP;
    return true;
}

/* May number be gone, which is one of many that somebody may wait for? */
static void liveness_mark_any(struct mbx_ep *ep, uint32_t number)
{
    if (!peer_is_free(ep, number) && (peer_is_used(ep, number) || liveness_meet(ep, number)))
        peer_get(ep, number)->health.is_awaited |= !peer_get(ep, number)->health.is_gone;
}

/* Any peer may be the one that is waited for. */
static void liveness_mark_turns(const struct liveness *liveness)
{
    struct mbx_ep *ep = liveness->ep;
    uint32_t count = ep->peers.count;
    uint32_t part = (uint32_t)min_size(count, max_size(LIVENESS_PART, liveness->turns));

    for (uint32_t i = 0; i < part; i++) {
        uint32_t number = (liveness->first + i) % count;

        if (i < liveness->turns ||
            (peer_is_used(ep, number) && !liveness_costs(peer_get(ep, number))))
            liveness_mark_any(ep, number);
    }
}

/* What a request ends with that needs this peer, which is gone. */
static int liveness_error_of(const struct peer *peer)
{
    return peer->link->transport->ops->check(peer->link) == -EPROTONOSUPPORT ? -EPROTONOSUPPORT
                                                                             : -ENOTCONN;
}

static void liveness_end(void *arg, void *object)
{
    struct liveness *liveness = arg;
    struct mbx_ep *ep = liveness->ep;
    struct request *req = object;
    uint32_t whom = liveness_whom(ep, req);

    if (liveness->is_death && recv_is_from_any(req))
        failure_unnotified(ep, req); /* it may be ended below: then somebody has won it */
    if (!peer_is_used(ep, whom) || !peer_get(ep, whom)->health.is_gone)
        return;
    if ((liveness->is_all_seen || !recv_is_open(req)) && proto_of(ep, req)->peer_gone != NULL)
        proto_of(ep, req)->peer_gone(ep, peer_get(ep, whom), req,
                                     liveness_error_of(peer_get(ep, whom)));
}

/* What requests end with if check() says err. */
static int liveness_error(int err)
{
    return err == -EHOSTUNREACH || err == -EPROTONOSUPPORT ? err : -ENOTCONN;
}

/* Is peer gone?  It is told the second time, so that what it had sent is delivered. */
static bool liveness_peer(struct mbx_ep *ep, struct peer *peer)
{
    bool was_dead = peer->health.is_dead, was_gone = peer->health.is_gone;
    int err = peer->link->transport->ops->check(peer->link);

    if (err == 0)
        return false;
    if (!peer->health.is_doubted) {
        peer->health.is_doubted = true;
        return false;
    }
    peer->health.is_dead = was_dead || err == -EHOSTDOWN;
    peer->health.is_lost = err == -ECONNREFUSED;
    peer->health.is_gone = true;
    if (peer->health.is_dead && !was_dead) {
        failure_add(ep, peer);
        report_death_of(ep, peer);
    }
    module_peer_gone(ep, peer, liveness_error(err), !was_gone);
    return true;
}

void liveness_leave(struct mbx_ep *ep, struct peer *peer)
{
    for (int check = 0; check < 2 && !peer->health.is_gone; check++)
        (void)liveness_peer(ep, peer);
}

static bool liveness_is_due(const struct liveness *liveness, const struct peer *peer)
{
    const struct peer_health *health = &peer->health;

    return health->is_suspected || (health->is_doubted && !health->is_gone) ||
           (health->is_awaited && (liveness->named <= LIVENESS_FEW || !liveness_costs(peer) ||
                                   liveness_has_turn(liveness, peer->number)));
}

/* Is one of those gone that this look takes?  Who still waits for the others marks them again. */
static bool liveness_check_due(const struct liveness *liveness)
{
    struct mbx_ep *ep = liveness->ep;
    bool found = false;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        struct peer *peer = peer_is_used(ep, i) ? peer_get(ep, i) : NULL;
        bool is_due = peer != NULL && liveness_is_due(liveness, peer);

        if (peer != NULL)
            peer->health.is_awaited = peer->health.is_suspected = false;
        found |= is_due && liveness_peer(ep, peer);
    }
    return found;
}

void liveness_check(struct mbx_ep *ep)
{
    uint64_t many = 1 + ep->requests.pool.slot_count / LIVENESS_REQUESTS;
    uint64_t now_ns = clock_now(), period_ns = (uint64_t)liveness_ns(ep) * many, due;
    uint32_t dead = ep->failures.count;
    bool found, had_seen_all = ep->liveness.has_seen_all;
    struct liveness liveness;

    if (ep->liveness.last_ns == 0)
        ep->liveness.last_ns = now_ns; /* somebody waits for the first time */
    due = (now_ns - ep->liveness.last_ns) / period_ns;
    if (due == 0)
        return;
    ep->liveness.last_ns = now_ns;
    if (ep->observed.watch != NULL)
        ep->observed.watch(ep);
    liveness = liveness_begin(ep, due);
    pool_for_each(&ep->requests.pool, liveness_mark, &liveness);
    liveness_mark_probe(&liveness);
    if (liveness.is_for_any)
        liveness_mark_turns(&liveness);
    found = liveness_check_due(&liveness);
    liveness.is_death = ep->failures.count != dead;
    liveness.is_all_seen = ep->liveness.has_seen_all = device_has_seen_all(ep);
    if (found || (!had_seen_all && liveness.is_all_seen))
        pool_for_each(&ep->requests.pool, liveness_end, &liveness);
}
