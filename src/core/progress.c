/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - the rounds of progress, which move all waiting work.
 *
 *   progress_round ── transport poll ──> deliver_packet     packets that have arrived
 *                  ├─ works                                 of modules
 *                  ├─ active                                reads and writes in peers' memory
 *                  └─ busy peers' out ──> outq_flush        packets that waited for space
 */
#include "core/core.h"
#include "core/outq.h"
#include "core/valid.h"
#include "inspect/page.h"

/* Packets of one poll, so that outgoing packets get their turn. */
#define PROGRESS_BUDGET 64

/* For packets that had arrived before a call: polls of this size per peer, at most; more than a
 * ring holds. */
#define ARRIVED_ROUNDS 64

OUT_OF_LINE void progress_dropped(void *arg, const char *reason)
{
    struct mbx_ep *ep = arg;

    ep->stats.dropped_packets++;
    if (ep->progress.has_logged_drop)
        return;
    ep->progress.has_logged_drop = true;
    LOG_WARN("dropped a packet: %s; if all ranks use the same version of Matchbox, please "
             "report this (further ones are only counted: dropped_packets)",
             reason);
}

static OUT_OF_LINE int progress_active(struct mbx_ep *ep)
{
    struct list now;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ep->progress.active);
    for (struct list *node; (node = list_pop_head(&now)) != NULL; moved++)
        proto_of(ep, request_of_queue(node))->work(ep, request_of_queue(node));
    return moved;
}

void progress_io_done(void *arg, void *cookie, int error)
{
    struct mbx_ep *ep = arg;
    struct request *req = cookie;

    proto_of(ep, req)->io_done(ep, req, error);
}

/* Runs each work once.  One that runs may take others off the list: a device delivers packets,
 * which end accesses of peers. */
static OUT_OF_LINE int progress_works(struct mbx_ep *ep)
{
    struct list now;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ep->progress.works);
    for (struct list *node; (node = list_pop_head(&now)) != NULL;) {
        struct work *work = container_of(node, struct work, node);

        list_add_tail(&ep->progress.works, node);
        moved += work->run(ep, work);
    }
    return moved;
}

static OUT_OF_LINE int progress_busy(struct mbx_ep *ep)
{
    struct list *node, *next;
    int moved = 0;

    list_for_each_safe (node, next, &ep->progress.busy)
        moved += outq_flush(ep, container_of(node, struct peer, outq.busy));
    return moved;
}

/* Answers an observer that has a question. */
static inline void progress_show(struct mbx_ep *ep)
{
    struct inspect_page *page = ep->observed.page;

    atomic_store_explicit(&page->checks, ++ep->observed.checks, memory_order_relaxed);
    if (unlikely(atomic_load_explicit(&page->ask, memory_order_relaxed) !=
                 ep->observed.answered))
        ep->observed.answer(ep);
}

/* Every PROGRESS_SLOW_CHECK rounds: polls transports that are not polled in each round, and
 * checks the awaited peers. */
static OUT_OF_LINE int progress_slow_check(struct mbx_ep *ep)
{
    int moved = 0;

    if (ep->net.polled != ep->net.transport) {
        moved = ep->net.transport->ops->poll(ep->net.transport, PROGRESS_BUDGET);
        progress_polled(ep);
    }
    if (liveness_is_on(ep))
        liveness_check(ep);
    if (likely(ep->observed.page != NULL))
        progress_show(ep);
    request_check_slack(ep);
    ep->progress.rounds = 0;
    ep->progress.checks++;
    return moved;
}

/* Runs every PROGRESS_SLOW_CHECK rounds, and when the recorder has asked for it. */
static OUT_OF_LINE int progress_check(struct mbx_ep *ep)
{
    uint32_t again = PROGRESS_SLOW_CHECK;
    int moved = 0;

    if (ep->progress.rounds >= PROGRESS_SLOW_CHECK)
        moved = progress_slow_check(ep);
    if (ep->recording.checked != NULL)
        again = ep->progress.rounds + ep->recording.checked(ep);
    ep->progress.check_at = again < PROGRESS_SLOW_CHECK ? again : PROGRESS_SLOW_CHECK;
    return moved;
}

void progress_polled(struct mbx_ep *ep)
{
    ep->net.polled = transport_polled(ep->net.transport);
    ep->net.no_hint.word = transport_word_set();
    ep->net.hint = ep->net.polled->hint.word != NULL ? &ep->net.polled->hint : &ep->net.no_hint;
}

/* Is there work that does not come from a packet? */
static bool progress_is_due(const struct mbx_ep *ep)
{
    return ep->wait.has_threads || !list_is_empty(&ep->progress.works) ||
           !list_is_empty(&ep->progress.active) || !list_is_empty(&ep->progress.busy);
}

/* Moves the waiting work.  Returns how much has moved. */
static OUT_OF_LINE int progress_lists(struct mbx_ep *ep)
{
    int moved = 0;

    if (unlikely(!list_is_empty(&ep->progress.works)))
        moved += progress_works(ep);
    if (unlikely(!list_is_empty(&ep->progress.active)))
        moved += progress_active(ep);
    if (unlikely(!list_is_empty(&ep->progress.busy)))
        moved += progress_busy(ep);
    if (!progress_is_due(ep))
        ep->progress.due &= (uint8_t)~DUE_MOVE;
    return moved;
}

/* Nothing has moved: clears DUE_READ if there are no unread entries. */
static OUT_OF_LINE void progress_all_read(struct mbx_ep *ep)
{
    if (list_is_empty(&ep->requests.done[MBX_SENDS]) &&
        list_is_empty(&ep->requests.done[MBX_RECVS]) &&
        list_is_empty(&ep->requests.done[MBX_ACCESS]) &&
        list_is_empty(&ep->requests.done[MBX_EVENTS]) && !ep->failures.is_unnotified)
        ep->progress.due &= (uint8_t)~DUE_READ;
}

static ALWAYS_INLINE int progress_run(struct mbx_ep *ep)
{
    int moved = ep->net.polled->ops->poll(ep->net.polled, PROGRESS_BUDGET);

    if (unlikely(ep->progress.due & DUE_MOVE))
        moved += progress_lists(ep);
    if (unlikely(ep->progress.rounds >= ep->progress.check_at))
        moved += progress_check(ep);
    if (moved == 0 && (ep->progress.due & DUE_READ))
        progress_all_read(ep);
    if (MBX_CHECKS && moved != 0)
        ep_check(ep);
    return moved;
}

/* Out of line, so that an idle round does not pay for it. */
static OUT_OF_LINE int progress_all(struct mbx_ep *ep)
{
    return progress_run(ep);
}

/* No work in this round, and no unread entry. */
static inline bool progress_is_idle(struct mbx_ep *ep)
{
    return ++ep->progress.rounds < ep->progress.check_at && ep->progress.due == 0 &&
           transport_is_quiet(ep->net.hint);
}

int progress_round(struct mbx_ep *ep)
{
    return progress_is_idle(ep) ? 0 : progress_all(ep);
}

void progress_arrived(struct mbx_ep *ep)
{
    uint64_t left = ARRIVED_ROUNDS * (1 + (uint64_t)ep->peers.count);
    int taken;

    do {
        taken = ep->net.transport->ops->poll(ep->net.transport, PROGRESS_BUDGET);
        taken += progress_works(ep);
        if (MBX_CHECKS && taken != 0)
            ep_check(ep);
    } while (taken != 0 && --left != 0);
    progress_polled(ep);
}

static OUT_OF_LINE int progress_locked(struct mbx_ep *ep)
{
    int moved;

    ep_lock(ep);
    moved = progress_round(ep);
    ep_unlock(ep);
    return moved;
}

int mbx_progress(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        return progress_locked(ep);
    ep->progress.rounds++;
    return progress_run(ep);
}

int mbx_idle(struct mbx_ep *ep)
{
    return !ep->wait.has_threads && progress_is_idle(ep);
}
