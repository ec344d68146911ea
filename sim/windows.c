/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.c - credit is neither made nor lost between two ranks: credit.h I1.
 *
 *   sender                         on the way                            receiver
 *   credit + put aside      +      messages ──────────>           +      kept + freed  ==  window
 *   + paid, and not left           <────────── CREDIT
 *
 * No rank sees more than its own part; the simulation, in one thread, sees all of them at one
 * moment.  Packets that a device has received and not passed on yet are still on the way, and
 * are not counted: the sum of their receiver is never more than the window, and may be less until
 * all is quiet.  A pair is not checked if one of the two is dead, or takes the other one for
 * gone: packets that were on the way may be lost.
 */
#include "windows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "defer/backlog.h"
#include "testing/sim/sim.h"

struct credits {
    uint64_t envelopes, payload;
};

/* of[from][to] is the part of the receiver's window that the sender has, or that is on its way
 * between the two.  peers[from][to] is the sender's peer structure, or NULL if there is none: it
 * is kept because a job of hundreds of ranks looks it up often. */
struct sums {
    struct job *job;
    struct credits *of;
    const struct peer **peers;
    uint32_t who; /* whose requests are counted */
    bool is_quiet;
};

static struct credits *of_pair(const struct sums *sums, uint32_t from, uint32_t to)
{
    return &sums->of[from * sums->job->plan->ranks + to];
}

static void count(struct credits *credits, uint64_t envelopes, uint64_t payload)
{
    credits->envelopes += envelopes;
    credits->payload += payload;
}

static uint32_t rank_of(const struct mbx_ep *ep, uint32_t number)
{
    return sim_whose((const uint8_t *)&ep->peers.addresses[number]);
}

/* Counts the credit that a packet on its way has used, or returns. */
static void count_packet(void *arg, uint32_t from, uint32_t to, const void *bytes, size_t size)
{
    const struct sums *sums = arg;
    struct wire_packet packet;
    const char *reason;

    if (wire_check(bytes, size, &packet, &reason) != 0)
        abort();
    switch (packet.header.type) {
    case WIRE_EAGER:
    case WIRE_SYNC:
        count(of_pair(sums, from, to), 1, credit_eager(packet.payload_size));
        break;
    case WIRE_FIRST:
        count(of_pair(sums, from, to), 1, credit_eager(packet.body.first.size));
        break;
    case WIRE_RTS:
        count(of_pair(sums, from, to), 1, credit_rts_payload(packet.payload_size));
        break;
    case WIRE_CREDIT:
        count(of_pair(sums, to, from), packet.body.credit.envelopes,
              packet.body.credit.payload);
        break;
    }
}

/* A send that has been paid for, and has not left. */
static void count_request(void *arg, void *object)
{
    const struct sums *sums = arg;
    const struct request *req = object;
    uint32_t to;

    if (req->state != RNDV_RTS && (req->state != EAGER_SENDING || req->done != 0))
        return;
    to = rank_of(sums->job->ranks[sums->who].ep, req->peer);
    count(of_pair(sums, sums->who, to), 1,
          req->state == RNDV_RTS ? credit_rts_payload(req->rts_payload)
                                 : credit_eager(req->size));
}

static void count_peer(const struct sums *sums, const struct peer *peer, uint32_t to)
{
    uint64_t aside = (peer->backlog != NULL ? peer->backlog->envelopes : 0) +
                     (peer->advert != NULL ? peer->advert->envelopes : 0);

    count(of_pair(sums, sums->who, to), peer_credit(peer)->envelopes + aside,
          peer_credit(peer)->payload);
}

/* ---- the pairs ---- */

static const struct peer **peer_at(const struct sums *sums, uint32_t who, uint32_t other)
{
    return &sums->peers[who * sums->job->plan->ranks + other];
}

static void count_rank(struct sums *sums, uint32_t who)
{
    struct mbx_ep *ep = sums->job->ranks[who].ep;

    sums->who = who;
    for (uint32_t i = 0; i < ep->peers.count; i++) {
        uint32_t other = ep->peers.all[i] != NULL ? rank_of(ep, i) : SIM_NOBODY;

        if (other == SIM_NOBODY)
            continue;
        count_peer(sums, ep->peers.all[i], other);
        *peer_at(sums, who, other) = ep->peers.all[i];
    }
    pool_for_each(&ep->requests.pool, count_request, sums);
}

static bool is_right(const struct sums *sums, uint32_t to, uint64_t sum, uint64_t window)
{
    bool may_be_less = !sums->is_quiet && sums->job->ranks[to].ep->offload != NULL;

    return window >= CREDIT_UNLIMITED || sum == window || (may_be_less && sum < window);
}

static void check_pair(struct sums *sums, uint32_t from, uint32_t to)
{
    const struct peer *sender = *peer_at(sums, from, to);
    const struct peer *receiver = *peer_at(sums, to, from);
    const struct credits *has = of_pair(sums, from, to);
    const struct credit *kept;

    if (sender == NULL || receiver == NULL || sender->health.is_gone ||
        receiver->health.is_gone)
        return;
    kept = peer_credit(receiver);
    if (!is_right(sums, to, has->envelopes + kept->kept_envelopes + kept->freed_envelopes,
                  kept->window))
        job_wrong(sums->job,
                  "%" PRIu32 " has or uses %" PRIu64 " envelopes of %" PRIu32
                  ", which keeps %" PRIu32 " and has freed %" PRIu32 " of %" PRIu64,
                  from, has->envelopes, to, kept->kept_envelopes, kept->freed_envelopes,
                  kept->window);
    if (!is_right(sums, to, has->payload + kept->kept_payload + kept->freed_payload,
                  kept->window_payload))
        job_wrong(sums->job,
                  "%" PRIu32 " has or uses %" PRIu64 " bytes of %" PRIu32
                  ", which keeps %" PRIu64 " and has freed %" PRIu64 " of %" PRIu64,
                  from, has->payload, to, kept->kept_payload, kept->freed_payload,
                  kept->window_payload);
}

void windows_check(struct job *job, bool is_quiet)
{
    uint32_t ranks = job->plan->ranks;
    size_t pairs = (size_t)ranks * ranks;
    struct sums sums = {.job = job,
                        .is_quiet = is_quiet,
                        .of = calloc(pairs, sizeof *sums.of),
                        .peers = calloc(pairs, sizeof *sums.peers)};

    if (sums.of == NULL || sums.peers == NULL)
        abort();
    for (uint32_t who = 0; who < ranks; who++)
        if (job->ranks[who].ep != NULL)
            count_rank(&sums, who);
    sim_each_packet(count_packet, &sums);
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            check_pair(&sums, from, to);
    free(sums.peers);
    free(sums.of);
}
