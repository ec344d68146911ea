/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_packets.c - sends packets into the rings of receivers, and receives from our own rings.
 *
 * A sender writes into the receiver's ring, and rings the bell if the receiver does not poll
 * that ring.  In every poll a receiver looks at each ring that had a packet lately (hot); the
 * other rings ring the bell.  At intervals a poll also looks for dead senders, and for rings
 * that have become cold (tend).
 */
#include "base/clock.h"
#include "base/copy.h"
#include "transport/shm/shm.h"

#define SWEEP_COUNT 16 /* processes that one check for dead peers asks about */

/* ---- sending ---- */

/* After ring_publish(): notifies the receiver if it has armed the ring.  0, or the error for
 * send(). */
static inline int link_notify(struct shm_link *link)
{
    bell_publish_barrier(link->fence);
    if (unlikely(atomic_load_explicit(&link->out.shared->armed, memory_order_relaxed) != 0))
        return link_armed(link);
    return 0;
}

/* Begins a record for a packet of `size` bytes, with its header and body, on a link that may not
 * be OPEN.  NULL: *err is the error for send(). */
static inline unsigned char *record_begin(struct shm_link *link,
                                          const struct transport_packet *packet, uint32_t size,
                                          int *err)
{
    unsigned char *record;

    if (unlikely(link->state != LINK_OPEN) && (*err = link_prepare(link, size)) != 0)
        return NULL;
    record = ring_reserve(&link->out, size);
    if (unlikely(record == NULL)) {
        *err = link_full(link, size);
        return NULL;
    }
    wire_copy_header((struct wire_header *)(void *)record, packet->header);
    copy_bytes(record + sizeof *packet->header, packet->body, packet->body_size);
    return record;
}

/* A packet of more than one cell, or for a link that is not OPEN. */
static OUT_OF_LINE int send_long(struct shm_link *link, const struct transport_packet *packet,
                                 uint32_t size)
{
    int err = 0;
    unsigned char *record = record_begin(link, packet, size, &err);

    if (record == NULL)
        return err;
    copy_bytes(record + sizeof *packet->header + packet->body_size, packet->payload,
               packet->payload_size);
    ring_publish(&link->out, record, size);
    return link_notify(link);
}

/* As transport_compose.send: writes into the ring, and publishes the size that was filled. */
int shm_compose(struct link *l, const struct transport_packet *packet, transport_fill_fn *fill,
                void *arg)
{
    struct shm_link *link = link_of(l);
    uint32_t begin = (uint32_t)(sizeof *packet->header + packet->body_size);
    int err = 0;
    unsigned char *record =
        record_begin(link, packet, begin + (uint32_t)packet->payload_size, &err);
    size_t filled;

    if (record == NULL)
        return err;
    /* The receiver has these lines.  Small stores would wait for the lines one after
     * another. */
    for (size_t at = 0; at < begin + packet->payload_size; at += CACHE_LINE)
        prefetch_for_store(record + at);
    filled = fill(arg, record + begin, packet->payload_size);
    assert(filled <= packet->payload_size);
    if (filled == 0)
        return -ECANCELED;
    ring_publish(&link->out, record, begin + (uint32_t)filled);
    return link_notify(link);
}

/* A packet of one cell calls no function before it has left. */
int shm_send(struct link *l, const struct transport_packet *packet)
{
    struct shm_link *link = link_of(l);
    uint32_t size =
        (uint32_t)(sizeof *packet->header + packet->body_size + packet->payload_size);
    unsigned char *record, *end;

    if (unlikely(size > RING_CELL_SIZE) || unlikely(link->state != LINK_OPEN))
        return send_long(link, packet, size);
    record = ring_reserve_cell(&link->out);
    if (unlikely(record == NULL))
        return link_full(link, size);
    end = record + sizeof *packet->header;
    wire_copy_header((struct wire_header *)(void *)record, packet->header);
    if (unlikely(packet->body_size != 0))
        end = copy_small(end, packet->body, packet->body_size);
    copy_small(end, packet->payload, packet->payload_size);
    ring_publish_cell(&link->out, ring_place(&link->out), record, size);
    return link_notify(link);
}

static OUT_OF_LINE int send_eager_long(struct shm_link *link, uint32_t context_id, uint64_t tag,
                                       uint64_t data, const void *payload, size_t size)
{
    const struct wire_header header = {
        .what = wire_what(WIRE_EAGER), .tag = tag, .data = data, .context_id = context_id};
    const struct transport_packet packet = {
        .header = &header, .payload = payload, .payload_size = size};

    return send_long(link, &packet, (uint32_t)(sizeof header + size));
}

/* Like shm_send(). */
int shm_send_eager(struct link *l, uint32_t context_id, uint64_t tag, uint64_t data,
                   const void *payload, size_t size)
{
    struct shm_link *link = link_of(l);
    struct ring_place at;
    unsigned char *record;

    if (unlikely(size > RING_CELL_SIZE - sizeof(struct wire_header)) ||
        unlikely(link->state != LINK_OPEN))
        return send_eager_long(link, context_id, tag, data, payload, size);
    record = ring_reserve_cell(&link->out);
    if (unlikely(record == NULL))
        return link_full(link, (uint32_t)(sizeof(struct wire_header) + size));
    at = ring_place(&link->out);
    wire_put_eager((struct wire_header *)(void *)record, context_id, tag, data);
    copy_small(record + sizeof(struct wire_header), payload, size);
    ring_publish_cell(&link->out, at, record, (uint32_t)(sizeof(struct wire_header) + size));
    return link_notify(link);
}

/* ---- receiving ---- */

static void answer_bell(struct shm *shm)
{
    uint32_t peers = shm->role != SHM_HANDED_OVER ? shm->own->peers : 0;

    shm->base.hint.seen = atomic_load_explicit(&shm->bell->count, memory_order_acquire);
    for (uint32_t first = 0; first < peers; first += 64) {
        _Atomic uint64_t *ready = &shm->control->ready[first / 64];
        uint64_t bits;

        if (atomic_load_explicit(ready, memory_order_relaxed) == 0)
            continue;
        /* pairs with the release in bell_ring(): sees what was published before */
        bits = atomic_exchange_explicit(ready, 0, memory_order_acq_rel);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = first + (uint32_t)__builtin_ctzll(bits);

            if (slot < peers)
                inbound_ring(shm, slot);
        }
    }
}

static inline void shm_packets_begin(struct shm *shm, const struct inbound *in)
{
    if (shm->events->begins != NULL)
        shm->events->begins(shm->arg);
    inbound_mark(shm, in, true);
}

/* Delivers up to budget packets, the record of this size first; returns how many.  marking: the
 * segment says before and after each packet how far we are.
 *
 * After a pause, delivers one packet and does not look for a second: the sender has just written
 * the frame word there, so that look would be a cache miss between a ping and its pong. */
static ALWAYS_INLINE int take_records(struct shm *shm, struct inbound *in, void *record,
                                      uint32_t size, int budget, bool marking)
{
    int n = 0;

    if (!in->flowing)
        budget = 1;
    do {
        if (unlikely(in->state != INBOUND_OPEN) && !inbound_introduce(shm, in))
            return n; /* `in` may be freed */
        if (marking)
            shm_packets_begin(shm, in);
        if (unlikely(shm->events->deliver(shm->arg, in->answer->link.peer, record, size) !=
                     0)) {
            if (marking)
                inbound_mark(shm, in, inbound_repeats(in));
            break;
        }
        ring_release(&in->ring);
        if (marking)
            inbound_mark(shm, in, false);
        n++;
    } while (n < budget && (record = ring_peek(&in->ring, &size)) != NULL);
    in->flowing = in->busy = n != 0;
    /* what was released comes before this check, for a sender that goes to sleep: bell.h's rule
     * with the sides exchanged */
    bell_publish_barrier(shm->fence);
    if (unlikely(atomic_load_explicit(&in->ring.shared->producer_waiting,
                                      memory_order_relaxed) != 0))
        inbound_wake_producer(in);
    return n;
}

typedef int take_fn(struct shm *shm, struct inbound *in, void *record, uint32_t size,
                    int budget);

static OUT_OF_LINE int shm_packets_take(struct shm *shm, struct inbound *in, void *record,
                                        uint32_t size, int budget)
{
    return take_records(shm, in, record, size, budget, false);
}

static OUT_OF_LINE int take_marking(struct shm *shm, struct inbound *in, void *record,
                                    uint32_t size, int budget)
{
    return take_records(shm, in, record, size, budget, true);
}

/* Like take_some(), if there is a record; *found: a record must be searched for; otherwise the
 * next one will be seen at *word. */
static ALWAYS_INLINE int drain_by(struct shm *shm, struct inbound *in, int budget,
                                  take_fn *take_some, const _Atomic uint32_t **word)
{
    uint32_t size;
    void *record = ring_peek(&in->ring, &size);

    *word = transport_word_set();
    if (record != NULL)
        return take_some(shm, in, record, size, budget);
    in->flowing = false;
    if (likely(!inbound_is_last(in) && in->ring.error == 0))
        *word = ring_next(&in->ring);
    else if (ring_is_empty(&in->ring) && inbound_settle(shm, in) &&
             (record = ring_peek(&in->ring, &size)) != NULL)
        return take_some(shm, in, record, size, budget);
    return 0;
}

/* Drains all hot rings, at least one, in turn, beginning with another one each time. */
static ALWAYS_INLINE int drain_all_by(struct shm *shm, int budget, take_fn *take_some)
{
    uint32_t count = shm->hot_count;
    uint32_t i = shm->turn < count ? shm->turn : 0;
    int share = max_size(1, (size_t)budget / count);
    const _Atomic uint32_t *word;
    int n = 0;

    shm->turn = i + 1;
    for (uint32_t left = count; left > 0 && n < budget; left--) {
        if (i >= shm->hot_count)
            i = 0;
        if (shm->hot_count == 0)
            break;
        n += drain_by(shm, shm->hot[i], share, take_some, &word);
        i++;
    }
    return n;
}

static OUT_OF_LINE int drain_all(struct shm *shm, int budget)
{
    return drain_all_by(shm, budget, shm_packets_take);
}

/* Checks for dead senders.  True if one was found. */
static bool sweep_slots(struct shm *shm)
{
    uint32_t slots = SWEEP_COUNT;

    if (shm->role == SHM_HANDED_OVER)
        return false; /* the receiver checks */
    if (atomic_load_explicit(&shm->control->starved, memory_order_relaxed) != 0) {
        atomic_store_explicit(&shm->control->starved, 0, memory_order_relaxed);
        slots = shm_slots(shm);
    }
    return inbound_sweep(shm, slots);
}

bool shm_sweep(struct shm *shm, uint64_t now)
{
    bool found;

    if (shm->swept_ns == 0)
        shm->swept_ns = now;
    if (now - shm->swept_ns < SHM_SWEEP_NS)
        return false;
    shm->swept_ns = now;
    found = sweep_slots(shm);
    return link_sweep(shm, SWEEP_COUNT) || found;
}

/* Rings are drained in turn.  A sender that must arrive between two packets of another one would never do so, if these
 * two always came in the same turns. */
static void shm_turn_skip(struct shm *shm)
{
    shm->turn = shm->turn < shm->hot_count ? shm->turn + 1 : 1;
}

/* Once the process is registered, its senders need no fences any more. */
static void settle_fences(struct shm *shm)
{
    enum bell_state state = bell_registered();
    struct link *link;
    size_t position = 0;

    if (state == BELL_REGISTERS)
        return;
    shm->registers = false;
    shm->fence = state == BELL_FENCES || shm->own->needs_fence;
    while ((link = link_table_next_link(&shm->links, &position)) != NULL)
        if (link_of(link)->remote != NULL)
            link_of(link)->fence = shm->fence || link_of(link)->remote->needs_fence;
}

static void shm_packets_tend(struct shm *shm)
{
    uint64_t now = clock_now();

    if (shm->registers)
        settle_fences(shm);

    shm->base.hint.left = SHM_TEND_POLLS;
    inbound_recheck(shm, now);
    inbound_cool_idle(shm);
    shm_sweep(shm, now);
    shm_turn_skip(shm);
}

static inline int poll_hot(struct shm *shm, int budget)
{
    if (likely(shm->hot_count == 1))
        return drain_by(shm, shm->hot[0], budget, shm_packets_take, &shm->base.hint.word);
    shm->base.hint.word = shm->hot_count != 0 ? transport_word_set() : transport_word_clear();
    return shm->hot_count != 0 ? drain_all(shm, budget) : 0;
}

/* Counts a poll until shm_packets_tend(); is there more to do than polling? */
static inline bool is_due(struct shm *shm)
{
    struct transport_hint *hint = &shm->base.hint;

    hint->left -= hint->left != 0; /* transport_is_quiet() may have used them up */
    return unlikely(shm_bell_rang(shm)) || unlikely(hint->left == 0);
}

static void slow_check(struct shm *shm)
{
    if (shm_bell_rang(shm))
        answer_bell(shm);
    if (shm->base.hint.left == 0)
        shm_packets_tend(shm);
    assert(!MBX_CHECKS || shm_is_valid(shm));
}

static OUT_OF_LINE int poll_and_tend(struct shm *shm, int budget)
{
    slow_check(shm);
    return poll_hot(shm, budget);
}

/* A poll that finds nothing calls no function: an arriving message finds the receiver in such a
 * poll. */
int shm_poll(struct transport *t, int budget)
{
    struct shm *shm = shm_of(t);

    if (is_due(shm))
        return poll_and_tend(shm, budget);
    return poll_hot(shm, budget);
}

int shm_poll_marking(struct transport *t, int budget)
{
    struct shm *shm = shm_of(t);

    if (is_due(shm))
        slow_check(shm);
    return shm->hot_count != 0 ? drain_all_by(shm, budget, take_marking) : 0;
}
