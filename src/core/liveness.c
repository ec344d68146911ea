/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.c - finds peers that go away while requests wait for them.
 *
 * A peer that dies sends nothing, and a rank that only waits makes no send that could fail.  So
 * while there are requests, progress checks the peers that they wait for, LIVENESS_CHECKS times
 * in MBX_PEER_TIMEOUT, beginning with the first wait; a receive from any source waits for all
 * peers.  Where a check of a peer costs system calls, and more than LIVENESS_FEW peers are
 * awaited, each check takes only a share of the peers:
 *
 *   of 256 peers     0 .. 42  43 .. 85  86 .. 128  129 .. 171  172 .. 214  215 .. 255
 *   have their turn  check 1  check 2   check 3    check 4     check 5     check 6     and again
 *
 * A check takes the awaited peers that have their turn, and in addition the peers that are
 * suspected or probed, or that were found gone once.  A late check also takes the turns of the
 * checks that were missed.
 *
 * Over a network the check of a peer costs nothing, but takes several rounds: one check asks a
 * silent peer, and a later one finds that there is no answer.  So all peers that are awaited by
 * name are taken.  But a peer without a connection cannot be checked: there a receive from any
 * source waits for the peers that have one, and for LIVENESS_MET others, which get one for that
 * purpose.  If an awaited peer is gone,
 *
 *   sends to it         end with -ENOTCONN, whatever they wait for
 *   receives that have matched a message of it and wait for its data
 *                       end with -ENOTCONN; completion.status has the peer
 *   a receive whose lock word it has taken (lockword.h) without notice
 *                       ends in the same way: no other sender can win it any more
 *   reads, writes and atomics of its memory end with -ENOTCONN; its own accesses to
 *                       our memory are dropped
 *   receives from it alone
 *                       do so if it has died, at the second check: its earlier messages are
 *                       delivered first, if need be by a device elsewhere (offload.h).  After
 *                       an orderly close they wait, and can be cancelled.  If there never was a
 *                       connection and the peer no longer exists, they end as well: it is not
 *                       known how it ended, and nothing can arrive
 *   receives from any source
 *                       are notified if it has died (failure.c), and continue to wait
 *   probes              find its earlier messages, and then end as such receives would
 *   its extra credit beyond the first window
 *                       is available to other peers again (credit.c)
 *
 * and the traffic with other peers goes on.  Data of a dead peer cannot arrive later: we read
 * it ourselves, or it comes in packets, which are delivered in order before that second check,
 * or it is written by a process that no longer exists, or whose endpoint is closed.
 *
 * A packet that can no longer be sent to a peer ends only the request that it is part of: the
 * controls owed to the peer are forgotten (outq_pay()), and a claim waits as if it had left.
 * Earlier packets of the peer may still be unread, and decide about the other requests.  So the
 * next check takes the peer (liveness_suspect()), and only the checks decide that it is gone.
 *
 * Invariant
 *   I1  a peer that is dead or lost is gone, and one that is gone was doubted
 */
#include "core/lockword.h"
#include "core/core.h"
#include "core/module.h"

/* If at most this many peers are awaited by name, each check takes all of them; at least this
 * many have their turn in each check. */
#define LIVENESS_FEW 16

/* For receives from any source, each check takes at least this many of the peers whose check
 * costs nothing. */
#define LIVENESS_PART 64

/* A check walks all requests.  With more than this many, checks become rarer in proportion, so
 * that they take the same share of the time.  There are two checks within MBX_PEER_TIMEOUT for
 * up to ten times as many requests. */
#define LIVENESS_REQUESTS 131072u

/* The number of checks in which each peer has its turn once. */
#define LIVENESS_CYCLE (LIVENESS_CHECKS / 3)

/* For a transport that needs a link to check a peer: the peers that get a link only for that,
 * in the life of an endpoint. */
#define LIVENESS_MET 16

/* The peer that req waits for.  MBX_ANY_SOURCE: none, or any. */
static uint32_t liveness_whom(const struct mbx_ep *ep, const struct request *req)
{
    if (recv_is_open(req))
        return req->match.envelope.source != MBX_ANY_SOURCE
                   ? req->match.envelope.source
                   : lockword_owner_seen(ep, req->open.word);
    return proto_of(ep, req)->states[req->state % PROTO_STATES].awaits_peer ? req->peer
                                                                            : MBX_ANY_SOURCE;
}

/* One check. */
struct liveness {
    struct mbx_ep *ep;
    uint32_t first, turns; /* the peers that have their turn: the first, and their number */
    uint32_t named;        /* peers that are awaited by name */
    bool is_for_any;       /* a receive from any source waits */
    bool is_death;         /* a peer was found dead for the first time */
    bool is_all_seen;      /* all messages of the peers that are gone were seen, if need be by a
                              device elsewhere */
};

/* Begins a check that replaces the `due` checks since the last one.  Endpoints begin at
 * different peers, so that they do not all connect to the same ones. */
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

/* False: whom is no peer, or there is no memory; then the next check tries again. */
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
            true; /* the next probe may name another peer */
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
 * connections may be used to find out.  In both cases its struct peer is made, so that it can
 * be found gone. */
static bool liveness_meet(struct mbx_ep *ep, uint32_t number)
{
    const struct transport *t = ep->net.transport;
    int err = t->ops->check_address(t, &ep->peers.addresses[number]);

    if (err == 0 || (err == -ENOTSUP && ep->liveness.met >= LIVENESS_MET))
        return false;
    if (peer_use(ep, number) != 0)
        return false; /* the next check tries again */
    ep->liveness.met += err == -ENOTSUP;
    return true;
}

/* Marks a peer that may be gone, for a receive from any source. */
static void liveness_mark_any(struct mbx_ep *ep, uint32_t number)
{
    if (!peer_is_free(ep, number) && (peer_is_used(ep, number) || liveness_meet(ep, number)))
        peer_get(ep, number)->health.is_awaited |= !peer_get(ep, number)->health.is_gone;
}

/* Marks peers for a receive from any source. */
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

/* The error of requests that need this peer, which is gone. */
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
        failure_unnotified(ep, req); /* it may end below, if the dead peer has won it */
    if (!peer_is_used(ep, whom) || !peer_get(ep, whom)->health.is_gone)
        return;
    if ((liveness->is_all_seen || !recv_is_open(req)) && proto_of(ep, req)->peer_gone != NULL)
        proto_of(ep, req)->peer_gone(ep, peer_get(ep, whom), req,
                                     liveness_error_of(peer_get(ep, whom)));
}

/* The error of requests for a result of check(). */
static int liveness_error(int err)
{
    return err == -EHOSTUNREACH || err == -EPROTONOSUPPORT ? err : -ENOTCONN;
}

/* Is peer gone?  True only at the second check that finds it so, so that its earlier packets
 * are delivered. */
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

/* Is one of the peers of this check gone?  Requests mark the other peers again before the next
 * check. */
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
        ep->liveness.last_ns = now_ns; /* a request waits for the first time */
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
