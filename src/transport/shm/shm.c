/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.c - the shortest way between two processes of one machine.
 *
 *   sender                                        receiver
 *   shm_send: write into the receiver's ring      shm_poll: look at each hot ring, and
 *             publish                                       at the doorbell for the rest
 *             armed? ring the bell     ------->   shm_wait: arm, barrier, look, sleep
 *
 * An inline packet is one cache line written and one line read; nothing else moves
 * while the receiver polls.  The rings lie in the receiver's segment (segment.h), the
 * bell is explained in bell.h, links in link.c, inbound rings in inbound.c, who receives
 * instead of the owner in handoff.c.
 *
 * The job's key is shown by neither side: each proves that it knows it (siphash.h), the
 * receiver when it is mapped, the sender when its first packet is looked at.
 *
 * A process that is killed is noticed by those who look for it: whoever waits or polls
 * for long asks the system about some of the others, now and then (sweep).
 *
 * Threads: one at a time per endpoint, but for one that sleeps in shm_wait(): what it did
 * to sleep stays right whatever the others do, because it is not a state of the endpoint.
 * The rings that it has armed are cold ones now, which ring the bell until a poll has made
 * them hot again; and when the bell has rung since it lay down, it gets up, whoever has
 * answered.  Endpoints of one process may be used by different threads.  An endpoint is
 * not usable in a child after fork().
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "transport/compose.h"
#include "transport/labels.h"
#include "transport/siphash.h"
#include "transport/shm/shm.h"

#define INLINE_MAX         RING_CELL_SIZE
#define RING_BYTES_MIN     (UINT64_C(4) << 10)
#define RING_BYTES_MAX     (UINT64_C(64) << 20)
#define RING_BYTES_DEFAULT (UINT64_C(16) << 10)
#define RING_BYTES_SHARED  (UINT64_C(32) << 10) /* where ranks share cores */
#define RING_LONG_SHIFT    2u                   /* the longer ones have 64 KiB */
#define PEERS_DEFAULT      1024

#define TEND_POLLS         1024 /* polls between looks at what is idle or dead */

#define SWEEP_NS           (100 * CLOCK_MS) /* between looks for the dead */
#define SWEEP_COUNT        16               /* how many are asked for in one */
#define SLICE_NS           SWEEP_NS         /* a sleep without looking around */
#define SLICE_STARVED_NS   (10 * CLOCK_MS)  /* nobody tells when a slot, or memory, is free */
#define SLICE_UNSURE_NS    CLOCK_MS         /* the bell may not ring: no barrier */

/* ---- sending ---- */

/* Behind ring_publish(): does the receiver look by itself?  0, or the error for send(). */
static inline int tell(struct shm_link *link)
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

/* A packet of more than a cell, or for a link that is not OPEN. */
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
    return tell(link);
}

/* As transport_compose.send: into the ring, and published with the size that it has come to. */
static int shm_compose(struct link *l, const struct transport_packet *packet,
                       transport_fill_fn *fill, void *arg)
{
    struct shm_link *link = link_of(l);
    uint32_t begin = (uint32_t)(sizeof *packet->header + packet->body_size);
    int err = 0;
    unsigned char *record =
        record_begin(link, packet, begin + (uint32_t)packet->payload_size, &err);
    size_t filled;

    if (record == NULL)
        return err;
    /* The receiver has these lines.  Stores of a few bytes each would wait for one after the other. */
    for (size_t at = 0; at < begin + packet->payload_size; at += CACHE_LINE)
        prefetch_for_store(record + at);
    filled = fill(arg, record + begin, packet->payload_size);
    assert(filled <= packet->payload_size);
    if (filled == 0)
        return -ECANCELED;
    ring_publish(&link->out, record, begin + (uint32_t)filled);
    return tell(link);
}

/* A packet of one cell calls nothing before it has left. */
static int shm_send(struct link *l, const struct transport_packet *packet)
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
    return tell(link);
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

/* As shm_send(). */
static int shm_send_eager(struct link *l, uint32_t context_id, uint64_t tag, uint64_t data,
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
    return tell(link);
}

/* ---- receiving ---- */

static bool bell_rang(const struct shm *shm)
{
    /* pairs with the count in bell_wake(): the ready bits */
    return atomic_load_explicit(&shm->bell->count, memory_order_acquire) != shm->base.hint.seen;
}

static void answer_bell(struct shm *shm)
{
    uint32_t peers = shm->role != SHM_HANDED_OVER ? shm->own->peers : 0;

    shm->base.hint.seen = atomic_load_explicit(&shm->bell->count, memory_order_acquire);
    for (uint32_t first = 0; first < peers; first += 64) {
        _Atomic uint64_t *ready = &shm->control->ready[first / 64];
        uint64_t bits;

        if (atomic_load_explicit(ready, memory_order_relaxed) == 0)
            continue;
        /* pairs with the release in bell_ring(): what was published before */
        bits = atomic_exchange_explicit(ready, 0, memory_order_acq_rel);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t slot = first + (uint32_t)__builtin_ctzll(bits);

            if (slot < peers)
                inbound_ring(shm, slot);
        }
    }
}

static inline void begin(struct shm *shm, const struct inbound *in)
{
    if (shm->events->begins != NULL)
        shm->events->begins(shm->arg);
    inbound_mark(shm, in, true);
}

/* Delivers up to budget packets, record of this size first; how many.  marking: the
 * segment says before and behind each how far we are.
 *
 * After a pause it takes one and returns without looking for a second: the sender has
 * just written the frame word there, so that look would be a cache miss that stands
 * between a ping and its pong. */
static ALWAYS_INLINE int take_records(struct shm *shm, struct inbound *in, void *record,
                                      uint32_t size, int budget, bool marking)
{
    int n = 0;

    if (!in->flowing)
        budget = 1;
    do {
        if (unlikely(in->state != INBOUND_OPEN) && !inbound_introduce(shm, in))
            return n; /* and in may be gone */
        if (marking)
            begin(shm, in);
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
    /* what was released, and then the look, for a producer that goes to sleep: bell.h's
     * rule with the sides exchanged */
    bell_publish_barrier(shm->fence);
    if (unlikely(atomic_load_explicit(&in->ring.shared->producer_waiting,
                                      memory_order_relaxed) != 0))
        inbound_wake_producer(in);
    return n;
}

typedef int take_fn(struct shm *shm, struct inbound *in, void *record, uint32_t size,
                    int budget);

static OUT_OF_LINE int take(struct shm *shm, struct inbound *in, void *record, uint32_t size,
                            int budget)
{
    return take_records(shm, in, record, size, budget, false);
}

static OUT_OF_LINE int take_marking(struct shm *shm, struct inbound *in, void *record,
                                    uint32_t size, int budget)
{
    return take_records(shm, in, record, size, budget, true);
}

/* As take_some(), if something is there; *found: the next record is to be looked for, and else
 * seen at *word. */
static ALWAYS_INLINE int drain_by(struct shm *shm, struct inbound *in, int budget,
                                  take_fn *take_some, const _Atomic uint32_t **word)
{
    uint32_t size;
    void *record = ring_peek(&in->ring, &size);

    *word = transport_word_set();
    if (record != NULL)
        return take_some(shm, in, record, size, budget);
    in->flowing = false;
    if (likely(!in->last && in->ring.error == 0))
        *word = ring_next(&in->ring);
    else if (ring_is_empty(&in->ring) && inbound_settle(shm, in) &&
             (record = ring_peek(&in->ring, &size)) != NULL)
        return take_some(shm, in, record, size, budget);
    return 0;
}

/* All hot rings, at least one, in turn, beginning with another one each time. */
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
    return drain_all_by(shm, budget, take);
}

/* Looks for dead senders.  True if one was found. */
static bool sweep_slots(struct shm *shm)
{
    uint32_t slots = SWEEP_COUNT;

    if (shm->role == SHM_HANDED_OVER)
        return false; /* the one who receives looks */
    if (atomic_load_explicit(&shm->control->starved, memory_order_relaxed) != 0) {
        atomic_store_explicit(&shm->control->starved, 0, memory_order_relaxed);
        slots = shm_slots(shm);
    }
    return inbound_sweep(shm, slots);
}

/* Looks for the dead, if it is time.  The first call begins that time: whoever has just been met is alive.
 * True if one was found. */
static bool sweep(struct shm *shm, uint64_t now)
{
    bool found;

    if (shm->swept_ns == 0)
        shm->swept_ns = now;
    if (now - shm->swept_ns < SWEEP_NS)
        return false;
    shm->swept_ns = now;
    found = sweep_slots(shm);
    return link_sweep(shm, SWEEP_COUNT) || found;
}

/* Senders use no fences any more, once the process is registered. */
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

static void tend(struct shm *shm)
{
    uint64_t now = clock_now();

    if (shm->registers)
        settle_fences(shm);

    shm->base.hint.left = TEND_POLLS;
    inbound_look_again(shm, now);
    inbound_cool_idle(shm);
    sweep(shm, now);
}

static inline int poll_hot(struct shm *shm, int budget)
{
    if (likely(shm->hot_count == 1))
        return drain_by(shm, shm->hot[0], budget, take, &shm->base.hint.word);
    shm->base.hint.word = shm->hot_count != 0 ? transport_word_set() : transport_word_clear();
    return shm->hot_count != 0 ? drain_all(shm, budget) : 0;
}

/* One poll less until tend(); is there something to do but polling? */
static inline bool is_due(struct shm *shm)
{
    struct transport_hint *hint = &shm->base.hint;

    hint->left -= hint->left != 0; /* looks may have used them up */
    return unlikely(bell_rang(shm)) || unlikely(hint->left == 0);
}

static void look_around(struct shm *shm)
{
    if (bell_rang(shm))
        answer_bell(shm);
    if (shm->base.hint.left == 0)
        tend(shm);
}

static OUT_OF_LINE int poll_and_tend(struct shm *shm, int budget)
{
    look_around(shm);
    return poll_hot(shm, budget);
}

/* A look that finds nothing calls nothing: it is what a message that is on its way finds
 * us doing. */
static int shm_poll(struct transport *t, int budget)
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
        look_around(shm);
    return shm->hot_count != 0 ? drain_all_by(shm, budget, take_marking) : 0;
}

/* ---- waiting ---- */

static bool has_work(struct shm *shm)
{
    return bell_rang(shm) || inbound_any(shm) || link_room(shm);
}

static bool is_starved(const struct shm *shm)
{
    struct list *node;

    list_for_each (node, &shm->blocked)
        if (container_of(node, struct shm_link, in_blocked)->state != LINK_FULL)
            return true;
    return false;
}

/* Sleeps while the bell is as we have seen it; 0 or the error of the futex. */
static int sleep_slice(struct shm *shm, uint32_t seen, uint64_t timeout_ns)
{
    int err;

    if (shm->events->sleeps != NULL)
        shm->events->sleeps(shm->arg);
    err = sys_futex_wait(&shm->bell->count, seen, timeout_ns) < 0 ? errno : 0;
    if (shm->events->slept != NULL)
        shm->events->slept(shm->arg);
    return err;
}

/* 0 something may be there; -ETIMEDOUT; -EINTR. */
static int sleep_until(struct shm *shm, uint64_t deadline, uint64_t slice)
{
    uint32_t seen = shm->base.hint.seen; /* another thread may answer while we sleep */

    for (;;) {
        uint64_t now = clock_now(), nap;
        int err;

        if (now >= deadline)
            return -ETIMEDOUT;
        if (inbound_look_again(shm, now) || sweep(shm, now))
            return 0;
        nap = shm->doubt ? min_size(slice, inbound_doubt_left(shm, now)) : slice;
        err = sleep_slice(shm, seen, min_size(nap, deadline - now));
        if (err == EINTR)
            return -EINTR;
        if (seen != shm->base.hint.seen || has_work(shm) || slice == SLICE_STARVED_NS ||
            (err != 0 && err != ETIMEDOUT && err != EAGAIN))
            return 0;
    }
}

static uint64_t deadline_of(int64_t timeout_ns)
{
    uint64_t now = clock_now();

    return timeout_ns < 0 || (uint64_t)timeout_ns > UINT64_MAX - now
               ? UINT64_MAX
               : now + (uint64_t)timeout_ns;
}

static int arm_and_sleep(struct shm *shm, uint64_t deadline)
{
    bool asked = link_ask_for_room(shm);
    bool sure, found;

    inbound_arm_all(shm);
    sure = bell_arm_barrier(shm->own);
    found = has_work(shm); /* once: a link that has just died is told of only once */
    if (!sure || found)
        inbound_disarm_all(shm);
    else
        inbound_retire_all(shm);
    if (found)
        return 0;
    if (asked)
        inbound_doubt(shm, clock_now());
    if (is_starved(shm))
        return sleep_until(shm, deadline, SLICE_STARVED_NS);
    return sleep_until(shm, deadline, sure ? SLICE_NS : SLICE_UNSURE_NS);
}

static int shm_wait(struct transport *t, int64_t timeout_ns)
{
    struct shm *shm = shm_of(t);
    int err;

    if (has_work(shm))
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    /* before the last look at the count, which futex_wait makes: see bell.h */
    bell_lie_down(shm->bell, shm->base.hint.seen);
    err = arm_and_sleep(shm, deadline_of(timeout_ns));
    bell_get_up(shm->bell);
    return err;
}

static int shm_check(struct link *l)
{
    return link_check(link_of(l));
}

static struct transport_who shm_who(struct link *l)
{
    return link_who(link_of(l));
}

static void shm_wake(struct transport *t)
{
    bell_wake(shm_of(t)->bell);
}

/* ---- links ---- */

static void shm_address(const struct transport *t, struct transport_address *address)
{
    *address = shm_of(t)->address;
}

static void say_unreachable(const struct shm *shm, const struct transport_address *address)
{
    bool is_passed = address->kind == ADDRESS_SHM && passing_is_number(address->process);
    const char *why = "it is on another machine, or one of us is in another pid or user "
                      "namespace (a container) "
                      "or not dumpable, and only one of us passes descriptors: "
                      "MBX_SHM_PASS=always for all ranks "
                      "shares memory with it";

    if (is_passed && shm->passes)
        why = "it is on another machine, in another network namespace (give containers that of "
              "their host, as podman --net=host does), or of another user outside of its "
              "container";
    else if (!is_passed && !shm->passes)
        why =
            "it is on another machine, in another pid or user namespace (a container), or not "
            "dumpable: MBX_SHM_PASS=always for all ranks shares memory with it on one machine";
    LOG_WARN("shm: pid %u cannot be reached: %s; MBX_TRANSPORT=shm+ofi for all ranks reaches "
             "it over "
             "the network",
             is_passed ? address->place : address->process, why);
}

static int shm_reaches(const struct transport *t, const struct transport_address *address)
{
    int err = link_check_address(shm_of(t), address);

    if (err == -EHOSTUNREACH)
        say_unreachable(shm_of(t), address);
    return err;
}

/* As link_check() of a link through which nothing has gone. */
static int shm_is_there(const struct transport *t, const struct transport_address *address)
{
    const struct shm *shm = shm_of(t);
    int err = link_check_address(shm, address);

    if (err != 0)
        return err;
    return address->process == shm->process || process_is_alive(address->process) ? 0
                                                                                  : -EHOSTDOWN;
}

static int shm_connect(struct transport *t, const struct transport_address *address,
                       struct link **out)
{
    struct shm_link *link;
    int err = link_get(shm_of(t), address, &link);

    if (err != 0)
        return err;
    link->named = true;
    *out = &link->link;
    return 0;
}

static bool shm_is_over(struct link *link)
{
    return link_is_over(link_of(link));
}

static void shm_forget(struct link *link)
{
    struct shm_link *own = link_of(link);

    link_table_remove_link(&shm_of(link->transport)->links, &own->link);
    link_destroy(own);
}

static bool shm_is_flushed(struct transport *t)
{
    (void)t;
    return true; /* it is in the receivers' memory */
}

/* ---- open and close ---- */

static bool is_ring_chosen(const struct transport_config *config)
{
    return config->settings.shm.ring_size != 0 && config->settings.shm.ring_size != UINT64_MAX;
}

/* Whoever has its core may go on until it needs what its peer has not sent: in a halo exchange, two
 * exchanges ahead.  With two messages of 4 KiB in each they all have to go into the ring, or the core
 * changes hands twice as often (docs/decisions/0036). */
static uint64_t ring_size_of(const struct transport_config *config)
{
    if (is_ring_chosen(config))
        return config->settings.shm.ring_size;
    return config->settings.shm.shares_cores ? RING_BYTES_SHARED : RING_BYTES_DEFAULT;
}

static size_t second_cache_of(const struct transport_config *config)
{
    return config->settings.shm.second_cache != 0 ? config->settings.shm.second_cache
                                                  : sys_second_cache();
}

/* Where a second cache holds all that goes through it, a ring that holds a window of messages is not in the way
 * (docs/decisions/0042). */
static unsigned long_shift_of(const struct transport_config *config)
{
    return is_ring_chosen(config) || config->settings.shm.shares_cores ||
                   !lend_fits(second_cache_of(config))
               ? 0
               : RING_LONG_SHIFT;
}

/* The most cells that fit into bytes; the head of the ring comes on top. */
static uint32_t cells_for(uint64_t bytes)
{
    uint32_t cells = RING_MIN_CELLS;

    while ((uint64_t)cells * 2 * RING_CELL_SIZE <= bytes)
        cells *= 2;
    return cells;
}

/* Whether ranks share cores is not known alike to all of them; so it changes no packet. */
size_t shm_packet_max(const struct transport_config *config)
{
    return ring_max_record(
        cells_for(is_ring_chosen(config) ? ring_size_of(config) : RING_BYTES_DEFAULT));
}

static int check_config(const struct transport_config *config)
{
    uint64_t bytes = ring_size_of(config);

    if (bytes < RING_BYTES_MIN || bytes > RING_BYTES_MAX) {
        LOG_ERROR("shm: a ring of %" PRIu64 " bytes is out of range %" PRIu64 "..%" PRIu64,
                  bytes, RING_BYTES_MIN, RING_BYTES_MAX);
        return -EINVAL;
    }
    if (config->peers > SEGMENT_PEERS_MAX) {
        LOG_ERROR("shm: %" PRIu64 " peers are too many, at most %u", config->peers,
                  SEGMENT_PEERS_MAX);
        return -EINVAL;
    }
    return 0;
}

/* Without it, who is elsewhere is reached over the network, or not at all. */
static void start_passing(struct shm *shm)
{
    int err = passing_start(&shm->process);

    shm->passes = err == 0;
    if (err != 0)
        LOG_WARN(
            "shm: no descriptors can be passed (SCM_RIGHTS over an abstract socket), error %d "
            "%s: this process shares no memory with ranks in other namespaces",
            -err, strerror(-err));
}

/* All of it but the descriptor. */
static int make_address(struct shm *shm, const struct transport_config *config)
{
    struct transport_address *address = &shm->address;
    int err = 0;

    *address = (struct transport_address){
        .kind = ADDRESS_SHM, .process = shm->process, .credit = config->credit};
    if (shm->passes)
        address->cookie = passing_cookie();
    else
        err = random_secret(&address->cookie, sizeof address->cookie);
    if (err == 0)
        err = host_id(&shm->host);
    address->host = shm->host;
    if (err == 0 && shm->passes)
        err = host_meeting_id(&address->host);
    if (err != 0)
        return err;
    shm->host ^= config->settings.shm.host;
    address->host ^= config->settings.shm.host;
    if (config->network != NULL)
        address_copy_network(address, config->network);
    return 0;
}

static int create_segment(struct shm *shm, const struct transport_config *config)
{
    struct segment_config segment = {
        .peers = config->peers != 0 ? (uint32_t)config->peers : PEERS_DEFAULT,
        .ring_cells = cells_for(ring_size_of(config)),
        .long_shift = long_shift_of(config),
        .cookie = shm->address.cookie,
        .key_check = shm_owner_proof(shm, &shm->address),
        .host = shm->host,
        .needs_fence = !bell_can_barrier(),
        .rank = config->rank,
        /* what is passed has no fronts elsewhere */
        .job = config->settings.shm.fronts && !shm->passes ? config->settings.shm.job : 0,
    };
    int err = segment_create(&segment, &shm->own);

    if (err != 0) {
        LOG_ERROR("shm: cannot make a segment, error %d %s", -err, strerror(-err));
        return err;
    }
    shm->address.place = shm->passes ? (uint32_t)getpid() : (uint32_t)shm->own->file->fd;
    return 0;
}

static int create_tables(struct shm *shm)
{
    shm->hot = mem_calloc(shm->own->peers, sizeof(struct inbound *));
    shm->inbound = mem_calloc(shm->own->peers, sizeof(struct inbound *));
    return shm->hot != NULL && shm->inbound != NULL ? 0 : -ENOMEM;
}

static void allow_reads(const struct shm *shm)
{
    /* with Yama, only a parent may read otherwise; without it this fails */
    if (shm->attach)
        sys_prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
}

struct shm *shm_create(const struct transport_config *config)
{
    struct shm *shm = mem_calloc(1, sizeof *shm);
    enum bell_state state;

    if (shm == NULL)
        return NULL;
    shm->events = config->events;
    shm->arg = config->arg;
    shm->attach = config->settings.shm.attach != 0;
    shm->base.hint = (struct transport_hint){.word = transport_word_set(), .left = TEND_POLLS};
    memcpy(shm->key, config->key, sizeof shm->key);
    list_init(&shm->blocked);
    link_table_init(&shm->links, &link_naming);
    shm->process = (uint32_t)getpid();
    state = bell_register();
    shm->registers = state == BELL_REGISTERS;
    shm->fence = state != BELL_REGISTERED;
    return shm;
}

int shm_enter(struct shm *shm, const struct transport_config *config)
{
    shm->control = shm->own->control;
    shm_hear(shm, &shm->control->doorbell);
    shm->fence = shm->fence || shm->own->needs_fence;
    lend_init(shm, second_cache_of(config));
    shm->base.ops = &transport_shm;
    shm->base.limits = (struct transport_limits){
        .packet_max = shm_packet_max(config),
        .inline_max = INLINE_MAX,
        .stays_armed = true,
        .can_read = shm->attach,
        .is_copy = true,
        .cswap_words = SEGMENT_WORDS,
        .table_words = SEGMENT_TABLE,
        .is_instant = true,
        .check_costs = true,
    };
    return create_tables(shm);
}

void shm_destroy(struct shm *shm)
{
    struct link *link;
    size_t position = 0;

    while ((link = link_table_next_link(&shm->links, &position)) != NULL)
        link_destroy(link_of(link));
    link_table_fini(&shm->links);
    if (shm->passes)
        passing_stop();
    mem_free(shm->inbound);
    mem_free(shm->hot);
    explicit_bzero(shm->key, sizeof shm->key);
    mem_free(shm);
}

static int shm_open_endpoint(const struct transport_config *config, struct transport **out)
{
    struct shm *shm;
    int err = check_config(config);

    if (err != 0)
        return err;
    shm = shm_create(config);
    if (shm == NULL)
        return -ENOMEM;
    if (config->settings.shm.pass == SHM_PASS_ALWAYS)
        start_passing(shm);
    err = make_address(shm, config);
    if (err != 0)
        goto destroy_shm;
    err = create_segment(shm, config);
    if (err != 0)
        goto destroy_shm;
    err = shm_enter(shm, config);
    if (err != 0)
        goto close_segment;
    allow_reads(shm);
    *out = &shm->base;
    return 0;

close_segment:
    segment_close(shm->own);
destroy_shm:
    shm_destroy(shm);
    return err;
}

static void shm_close(struct transport *t)
{
    struct shm *shm = shm_of(t);
    struct segment *own = shm->own;

    inbound_close_all(shm);
    shm_destroy(shm);
    segment_close(own);
}

static int shm_share(struct transport *t, uint64_t label,
                     const struct transport_address *address)
{
    return segment_share(shm_of(t)->own, label, address);
}

static int shm_find(const struct transport *t, uint64_t label,
                    struct transport_address *address)
{
    return segment_find(shm_of(t)->own, label, address);
}

#define AT(field) offsetof(struct transport_settings, shm.field)

static const char *const pass_names[] = {
    [SHM_PASS_AUTO] = "auto", [SHM_PASS_ALWAYS] = "always", [SHM_PASS_NEVER] = "never", NULL};

static const char *const auto_word[] = {"auto", NULL};

static const struct param params[] = {
    {"SHM_RING_SIZE", PARAM_SIZE, PARAM_ADVANCED, NULL, "auto", RING_BYTES_MIN, RING_BYTES_MAX,
     auto_word,
     "shared memory of one sender and one receiver, rounded down to a power of two; auto: 16K, "
     "32K with MBX_OVERSUBSCRIBED=yes, and 64K for the first eight senders where the second "
     "cache of a core "
     "has 2M or more",
     AT(ring_size)},
    {"SHM_ATTACH", PARAM_BOOL, PARAM_ADVANCED, NULL, "yes", 0, 0, NULL,
     "read other processes' memory (cross-memory attach)", AT(attach)},
    {"SHM_FRONTS", PARAM_BOOL, PARAM_ADVANCED, NULL, "yes", 0, 0, NULL,
     "ranks of a job find each other's queues in one file", AT(fronts)},
    {"SHM_PASS", PARAM_CHOICE, PARAM_ADVANCED, NULL, "auto", 0, 0, pass_names,
     "share memory by passed descriptors (SCM_RIGHTS over an abstract socket), which reach "
     "across pid "
     "and user namespaces: where a rank may be in a container of its own, always (all ranks, "
     "if only "
     "some are in containers), or never",
     AT(pass)},
};

const struct transport_ops transport_shm = {
    .name = "shm",
    .about = "processes of one machine, through shared memory",
    .params = params,
    .param_count = ARRAY_COUNT(params),
    .memory = &shm_memory,
    .atomics = &shm_atomics,
    .handoff = &shm_handoff,
    .compose = &(const struct transport_compose){.send = shm_compose},
    .lend = &shm_chunks,
    .labels = &(const struct transport_labels){.share = shm_share, .find = shm_find},
    .open = shm_open_endpoint,
    .close = shm_close,
    .address = shm_address,
    .reaches = shm_reaches,
    .connect = shm_connect,
    .send = shm_send,
    .send_eager = shm_send_eager,
    .check = shm_check,
    .check_address = shm_is_there,
    .who = shm_who,
    .is_over = shm_is_over,
    .forget = shm_forget,
    .poll = shm_poll,
    .wait = shm_wait,
    .wake = shm_wake,
    .is_flushed = shm_is_flushed,
};
