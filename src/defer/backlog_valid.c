/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog_valid.c - checks the deferred sends, and the table in which their receiver sees them:
 * backlog.c I1 to I6, sendtable.h I1, I3.
 */
#include "defer/backlog.h"
#include "defer/sendtable.h"
#include "core/core.h"

struct tally {
    uint32_t claims, locks, locking;
    uint64_t count, old;  /* the number of sends, and of sends before fresh */
    uint64_t youngest;    /* deferred.seq of the last one before fresh */
    uint32_t rtrs, known; /* the number of RTRs, and of RTRs before unread */
    uint32_t losers;
};

static uint32_t times_lost(const struct backlog *backlog, const struct request *req)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < backlog->lost_count; i++)
        times += backlog->lost[i] == req;
    return times;
}

static bool has_rtr(const struct mbx_ep *ep, const struct request *req)
{
    return mbx_match_first(&ep_defer(ep)->backlogs->match, &req->deferred.envelope) != NULL;
}

/* Do the sends have the same order in the engine? */
static bool send_keeps_its_place(const struct request *req, struct tally *tally)
{
    bool is_first = tally->old++ == 0;
    bool is_younger = (int64_t)(req->deferred.seq - tally->youngest) > 0;

    tally->youngest = req->deferred.seq;
    return is_first || is_younger;
}

/* Checks one send; is_old: it is before fresh. */
static bool send_is_valid(const struct mbx_ep *ep, const struct peer *peer,
                          const struct request *req, bool is_old, struct tally *tally)
{
    const struct backlog *backlog = peer->backlog;
    bool is_deferred = req->state == BACKLOG_DEFERRED, is_locking = req->state == BACKLOG_LOCK;
    uint32_t lost = times_lost(backlog, req);

    tally->count++;
    tally->claims += !is_deferred;
    tally->locking += is_locking;
    tally->locks += is_locking || (!is_deferred && (req->flags & REQUEST_WON) != 0);
    tally->losers += lost;
    return HOLDS("backlog.c I1", PROTO_OF(req->state) == PROTO_BACKLOG) &&
           HOLDS("backlog.c I1", req->peer == peer->number) &&
           HOLDS("backlog.c I1", req->deferred.envelope.source == peer->number) &&
           HOLDS("backlog.c I2", (req->deferred.state == MBX_MATCH_QUEUED) == is_old) &&
           HOLDS("backlog.c I2", is_old || is_deferred) &&
           HOLDS("backlog.c I2", !is_old || send_keeps_its_place(req, tally)) &&
           HOLDS("backlog.c I5", lost == 0 || (lost == 1 && is_deferred && is_old)) &&
           HOLDS("backlog.c I5", !is_old || !is_deferred || lost != 0 || !has_rtr(ep, req));
}

static bool sends_are_valid(const struct mbx_ep *ep, const struct peer *peer,
                            struct tally *tally)
{
    const struct backlog *backlog = peer->backlog;
    bool is_old = true;
    struct list *node;

    list_for_each (node, &backlog->sends) {
        is_old = is_old && node != backlog->fresh;
        if (!send_is_valid(ep, peer, request_of_queue(node), is_old, tally))
            return false;
    }
    return HOLDS("backlog.c I2", !is_old || backlog->fresh == &backlog->sends) &&
           HOLDS("backlog.c I1", tally->count == backlog->count) &&
           HOLDS("backlog.c I5", tally->losers == backlog->lost_count);
}

static bool rtrs_are_valid(const struct backlog *backlog, struct tally *tally)
{
    bool is_read = true;
    struct list *node;

    list_for_each (node, &backlog->rtrs) {
        is_read = is_read && node != backlog->unread;
        tally->rtrs++;
        tally->known += is_read;
        if (!HOLDS("backlog.c I3", (rtr_of(node)->match.state == MBX_MATCH_QUEUED) == is_read))
            return false;
    }
    return HOLDS("backlog.c I3", !is_read || backlog->unread == &backlog->rtrs) &&
           HOLDS("backlog.c I3", tally->rtrs == backlog->rtr_count) &&
           HOLDS("backlog.c I3", tally->rtrs <= 2 * BACKLOG_RTRS);
}

static bool claims_are_valid(const struct backlog *backlog, const struct tally *tally)
{
    return HOLDS("backlog.c I6", backlog->claims == tally->claims) &&
           HOLDS("backlog.c I6", backlog->claims <= BACKLOG_CLAIMS) &&
           HOLDS("backlog.c I6", backlog->locks == tally->locks) &&
           HOLDS("backlog.c I6", backlog->locks <= backlog->claims) &&
           HOLDS("backlog.c I6", tally->locking == backlog->is_locking) &&
           HOLDS("backlog.c I6", !backlog->is_locking || backlog->locks == backlog->claims);
}

/* Is nothing left after the end of an epoch? */
static bool off_is_valid(const struct backlog *backlog)
{
    return HOLDS("backlog.c I4", list_is_empty(&backlog->sends)) &&
           HOLDS("backlog.c I4", list_is_empty(&backlog->rtrs)) &&
           HOLDS("backlog.c I4", backlog->claims == 0) &&
           HOLDS("backlog.c I4", backlog->lost_count == 0) &&
           HOLDS("backlog.c I4", backlog->sendtable == NULL);
}

static bool on_is_valid(const struct mbx_ep *ep, const struct peer *peer)
{
    const struct backlog *backlog = peer->backlog;

    return HOLDS("backlog.c I1", peer_credit(peer)->envelopes == 0) &&
           HOLDS("backlog.c I4", backlog->epoch != 0) &&
           HOLDS("backlog.c I4", backlog->epoch <= ep_defer(ep)->backlogs->epochs) &&
           HOLDS("backlog.c I4", backlog->from <= backlog->last);
}

/* ---- the table ---- */

static bool entry_is_marked(const struct sendtable *sendtable, uint32_t i)
{
    return (sendtable->claimed >> i & 1) != 0;
}

static bool sendtable_is_valid(const struct backlog *backlog)
{
    const struct sendtable *sendtable = backlog->sendtable;
    const struct list *node = backlog->sends.next;

    if (sendtable == NULL)
        return true;
    if (!HOLDS("sendtable.h I1", sendtable->is_used) ||
        !HOLDS("sendtable.h I1", sendtable->count <= SENDTABLE_ENTRIES))
        return false;
    for (uint32_t i = 0; i < sendtable->count; i++) {
        if ((sendtable->gone >> i & 1) != 0)
            continue;
        if (!HOLDS("sendtable.h I1", node == &sendtable->entries[i]->queue) ||
            !HOLDS("sendtable.h I3", !sendtable->is_open || entry_is_marked(sendtable, i) ==
                                                                (sendtable->entries[i]->state !=
                                                                 BACKLOG_DEFERRED)))
            return false;
        node = node->next;
    }
    return HOLDS("sendtable.h I1", node == sendtable->next) &&
           HOLDS("sendtable.h I3", !sendtable->is_open || backlog->peeked == 0) &&
           HOLDS("sendtable.h I3",
                 !sendtable->is_open || sendtable->is_all == (node == &backlog->sends));
}

static uint32_t sendtables_used(const struct mbx_ep *ep)
{
    uint32_t used = 0;

    for (uint32_t i = 0; ep_defer(ep)->tables != NULL && i < ep_defer(ep)->tables->count; i++)
        used += ep_defer(ep)->tables->sendtables[i].is_used;
    return used;
}

/* ---- all ---- */

struct all {
    uint64_t deferred, old, known;
    uint32_t rtrs, sendtables;
};

static bool peer_backlog_is_valid(const struct mbx_ep *ep, const struct peer *peer,
                                  struct all *all)
{
    const struct backlog *backlog = peer->backlog;
    struct tally tally = {0};

    if (!sends_are_valid(ep, peer, &tally) || !rtrs_are_valid(backlog, &tally))
        return false;
    all->deferred += tally.count;
    all->old += tally.old;
    all->known += tally.known;
    all->rtrs += tally.rtrs;
    all->sendtables += backlog->sendtable != NULL;
    return claims_are_valid(backlog, &tally) && sendtable_is_valid(backlog) &&
           (peer_defer(peer)->is_deferred ? on_is_valid(ep, peer) : off_is_valid(backlog));
}

static bool all_is_valid(const struct mbx_ep *ep, const struct all *all)
{
    const struct backlogs *backlogs = ep_defer(ep)->backlogs;
    struct mbx_match_counters count;

    mbx_match_counters_get(&backlogs->match, &count);
    return HOLDS("backlog.c I2", count.msgs == all->old) &&
           HOLDS("backlog.c I3", count.recvs == all->known) &&
           HOLDS("backlog.c I3", pool_live(&backlogs->rtrs) == all->rtrs) &&
           HOLDS("backlog.c I1", ep->stats.deferred_now == all->deferred) &&
           HOLDS("sendtable.h I1", sendtables_used(ep) == all->sendtables);
}

static void count_deferred(void *arg, void *object)
{
    const struct request *req = object;
    uint64_t *deferred = arg;

    *deferred += PROTO_OF(req->state) == PROTO_BACKLOG;
}

bool backlog_is_valid(const struct mbx_ep *ep)
{
    struct all all = {0};
    uint64_t deferred = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++)
        if (ep->peers.all[i] != NULL && ep->peers.all[i]->backlog != NULL &&
            !peer_backlog_is_valid(ep, ep->peers.all[i], &all))
            return false;
    valid_each(ep, count_deferred, &deferred);
    return HOLDS("backlog.c I1", deferred == all.deferred) &&
           (ep_defer(ep)->backlogs == NULL || all_is_valid(ep, &all));
}
