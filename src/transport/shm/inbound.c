/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inbound.c - a ring that a sender writes to, from the first ring of the bell until the slot is
 * free again.
 *
 *             bell                introduce              settle
 *   (nothing) ----> NEW, hot ----------------> OPEN, hot -------> (nothing), slot FREE
 *                     |  wrong proof, or         |   ^
 *                     |  the core says no        |   | bell
 *                     +-----------> REFUSED      +-> OPEN, cool
 *                                               idle, armed
 *
 * A hot ring is polled; a cool one is armed and its sender rings the bell (bell.h).  A short
 * time after rings have cooled, all cool ones are looked at once more.
 *
 * A sender begins in its mailbox (segment.h).  When it moves, it rings; the rest of the mailbox
 * is delivered, and then `settle` continues in the ring.
 *
 * Nothing of a sender is read before its proof is verified.  The contents of the slot are
 * copied first.  A sender that broke a rule is refused: its slot becomes free only when the
 * sender has ended, because until then it might write.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/shm/shm.h"

#define HOT_FREE 4 /* this many rings are polled even if idle */

static struct ring *ring_of(const struct inbound *in)
{
    return in->ring.shared;
}

static void set_armed(struct inbound *in, uint32_t armed)
{
    /* relaxed: bell_arm_barrier() follows where order matters */
    atomic_store_explicit(&ring_of(in)->armed, armed, memory_order_relaxed);
}

static void heat(struct shm *shm, struct inbound *in)
{
    in->busy = true;
    if (in->hot)
        return;
    in->hot = true;
    set_armed(in, 0);
    shm->hot[shm->hot_count++] = in;
}

/* Removes hot[i]; the last one takes its place. */
static void cool(struct shm *shm, uint32_t i)
{
    shm->hot[i]->hot = false;
    shm->hot[i] = shm->hot[--shm->hot_count];
}

static void leave_hot(struct shm *shm, struct inbound *in)
{
    for (uint32_t i = 0; in->hot && i < shm->hot_count; i++)
        if (shm->hot[i] == in)
            cool(shm, i);
}

/* ---- beginning ---- */

/* Continues where the previous receiver stopped; a new ring begins at 0. */
static void resume(struct shm *shm, struct inbound *in)
{
    /* pairs with the release in inbound_mark() */
    uint64_t taken =
        atomic_load_explicit(&segment_slot(shm->own, in->slot)->taken, memory_order_acquire);
    bool has_moved;

    in->repeat_head = (uint32_t)taken_head(taken);
    has_moved = taken_has_moved(taken);
    in->stage = has_moved ? INBOUND_IN_RING : INBOUND_IN_MAILBOX;
    ring_consumer_resume(
        &in->ring,
        has_moved ? segment_ring(shm->own, in->slot) : segment_mailbox(shm->own, in->slot),
        has_moved ? segment_ring_cells(shm->own, in->slot) : SEGMENT_MAILBOX_CELLS,
        taken_head(taken));
    /* if the record was released in between, the mark was not updated in time */
    in->may_repeat = taken_in_delivery(taken) && in->ring.head == taken_head(taken);
}

/* Continues in the ring, after the mailbox. */
static void inbound_move(struct shm *shm, struct inbound *in)
{
    ring_consumer_init(&in->ring, segment_ring(shm->own, in->slot),
                       segment_ring_cells(shm->own, in->slot));
    in->may_repeat = false;
    in->stage = inbound_is_ending(in) ? INBOUND_ENDS_IN_RING : INBOUND_IN_RING;
}

/* Has the sender moved to the ring, while we are still in the mailbox? */
static bool is_left_behind(const struct shm *shm, const struct inbound *in)
{
    /* pairs with the release in link_move(): all packets in the mailbox */
    return !inbound_has_moved(in) &&
           atomic_load_explicit(&segment_mailbox(shm->own, in->slot)->moved,
                                memory_order_acquire) != 0;
}

/* After the segment says that we read no more: makes the sender look there, in mailbox or
 * ring. */
static void ask_to_be_notified(const struct shm *shm, uint32_t slot)
{
    struct ring *mailbox = segment_mailbox(shm->own, slot);

    __sync_synchronize(); /* before the look where the sender is: link_move() */
    atomic_store_explicit(&mailbox->armed, 1, memory_order_relaxed);
    if (atomic_load_explicit(&mailbox->moved, memory_order_relaxed) != 0)
        atomic_store_explicit(&segment_ring(shm->own, slot)->armed, 1, memory_order_relaxed);
}

static void ends(struct inbound *in)
{
    in->stage = inbound_has_moved(in) ? INBOUND_ENDS_IN_RING : INBOUND_ENDS_IN_MAILBOX;
}

static struct inbound *inbound_create(struct shm *shm, uint32_t slot)
{
    struct inbound *in = mem_calloc(1, sizeof *in);

    if (in == NULL)
        return NULL;
    in->slot = slot;
    resume(shm, in);
    shm->inbound[slot] = in;
    if (slot >= shm->inbound_end)
        shm->inbound_end = slot + 1;
    return in;
}

static enum slot_state state_of_slot(const struct shm *shm, uint32_t slot)
{
    /* pairs with the release in link_reserve() */
    return slot_state_of(
        atomic_load_explicit(&segment_slot(shm->own, slot)->sender, memory_order_acquire));
}

static void settle_refused(struct shm *shm, struct inbound *in);
static void free_slot(struct shm *shm, uint32_t slot);
static int identify(struct shm *shm, struct inbound *in, struct transport_address *address);

/* The previous receiver may have died just before it woke a sender that waits for space. */
static void wake_left_producer(struct shm *shm, struct inbound *in)
{
    struct transport_address address;

    ring_consumer_flush(&in->ring);
    __sync_synchronize(); /* as after each release: take_records() */
    if (atomic_load_explicit(&ring_of(in)->producer_waiting, memory_order_relaxed) != 0 &&
        identify(shm, in, &address) == 0)
        inbound_wake_producer(in);
}

/* Begins a slot that was not looked at before; NULL if it has nothing for us now. */
static struct inbound *inbound_begin(struct shm *shm, uint32_t slot)
{
    enum slot_state state = state_of_slot(shm, slot);
    struct inbound *in;

    if (state == SLOT_CLEARING)
        free_slot(shm, slot); /* the receiver that began to clear it is dead */
    if (state != SLOT_READY && state != SLOT_REFUSED)
        return NULL;
    in = inbound_create(shm, slot);
    if (in == NULL) {
        bell_ring(shm->own, slot); /* no memory: the next poll looks again */
        return NULL;
    }
    if (state == SLOT_REFUSED) {
        in->state = INBOUND_REFUSED;
        ask_to_be_notified(shm, slot);
    } else {
        wake_left_producer(shm, in);
    }
    return in;
}

void inbound_ring(struct shm *shm, uint32_t slot)
{
    struct inbound *in = shm->inbound[slot];

    shm->base.hint.word = transport_word_set(); /* it may end without a packet in its ring */
    if (in == NULL)
        in = inbound_begin(shm, slot);
    if (in == NULL)
        return;
    if (inbound_has_closed(shm, in))
        ends(in);
    else if (in->stage == INBOUND_IN_MAILBOX && is_left_behind(shm, in))
        in->stage = INBOUND_LEAVES_MAILBOX;
    if (in->state == INBOUND_REFUSED)
        settle_refused(shm, in);
    else
        heat(shm, in);
}

/* Reads nothing more until the sender ends. */
static void inbound_refuse(struct shm *shm, struct inbound *in, const char *reason)
{
    struct segment_slot *slot = segment_slot(shm->own, in->slot);
    uint64_t word = atomic_load_explicit(&slot->sender, memory_order_relaxed);

    LOG_DEBUG("shm: refusing process %u in slot %u, %s", slot_sender_of(word), in->slot,
              reason);
    leave_hot(shm, in);
    in->state = INBOUND_REFUSED;
    atomic_store_explicit(&slot->sender, slot_word(SLOT_REFUSED, slot_sender_of(word)),
                          memory_order_release);
    ask_to_be_notified(shm, in->slot);
    shm->events->dropped(shm->arg, reason);
    settle_refused(shm, in);
}

/* Reads the sender's address and verifies its proof.  0 and the address; -EPERM; -ENOMEM. */
static int identify(struct shm *shm, struct inbound *in, struct transport_address *address)
{
    struct segment_slot *slot = segment_slot(shm->own, in->slot);
    uint64_t proof;
    int err;

    memcpy(address, &slot->address, sizeof *address);
    memcpy(&proof, &slot->proof, sizeof proof);
    if ((proof ^ shm_proof(shm, shm->own->file->cookie, address)) != 0)
        return -EPERM;
    err = link_get(shm, address, &in->answer);
    return err == 0 || err == -ENOMEM ? err : -EPERM;
}

/* Presents the sender to the core.  0; -EAGAIN later; -EPERM. */
static int present(struct shm *shm, struct shm_link *link,
                   const struct transport_address *address)
{
    struct link *l = &link->link;
    uint32_t peer;
    int err;

    if (link->named)
        return 0;
    err = shm->events->accept(shm->arg, l, address, &peer);
    if (err != 0)
        return err == -EAGAIN ? err : -EPERM;
    l->peer = peer;
    link->named = true;
    return 0;
}

/* If the previous receiver was delivering the waiting record when it ended, each offer of the
 * record is announced as a repeat; the next record makes the ring OPEN. */
static void open_or_repeat(struct shm *shm, struct inbound *in)
{
    if (inbound_repeats(in)) {
        if (shm->events->repeats != NULL)
            shm->events->repeats(shm->arg, in->answer->link.peer);
        return;
    }
    in->may_repeat = false;
    in->state = INBOUND_OPEN;
}

OUT_OF_LINE bool inbound_introduce(struct shm *shm, struct inbound *in)
{
    struct transport_address address;
    int err = identify(shm, in, &address);

    if (err == 0) {
        link_learn(in->answer, PRESENCE_MET);
        err = present(shm, in->answer, &address);
        if (err == -EPERM)
            inbound_refuse(shm, in, "packet of an endpoint that was refused");
    } else if (err == -EPERM) {
        inbound_refuse(shm, in, "sender does not know the job's key");
    }
    if (err == 0)
        open_or_repeat(shm, in);
    return err == 0;
}

/* ---- end ---- */

static void free_slot(struct shm *shm, uint32_t number)
{
    struct segment *own = shm->own;
    struct segment_slot *slot = segment_slot(own, number);
    uint64_t word = atomic_load_explicit(&slot->sender, memory_order_relaxed);

    /* first: if we are killed meanwhile, the next receiver clears the slot again */
    atomic_store_explicit(&slot->sender, slot_word(SLOT_CLEARING, slot_sender_of(word)),
                          memory_order_release);
    segment_clear_ring(own, number);
    atomic_store_explicit(&slot->taken, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->allowed, 0, memory_order_relaxed);
    slot->rank = 0;
    /* a sender that was killed may have set the bit and not rung */
    atomic_fetch_and_explicit(&own->control->ready[number / 64], ~(UINT64_C(1) << number % 64),
                              memory_order_relaxed);
    /* pairs with the acquire in take_slot_of() */
    atomic_store_explicit(&slot->sender, slot_word(SLOT_FREE, 0), memory_order_release);
    /* after that: a sender that sees the count must find the slot free */
    atomic_fetch_add_explicit(&own->control->left, 1, memory_order_release);
}

/* Nothing more will come from that sender.  If it has closed, its segment is detached now:
 * perhaps nothing is ever sent to it again, and then nothing else would detach it. */
static void end_answer(const struct shm *shm, const struct inbound *in)
{
    link_learn(in->answer, inbound_has_closed(shm, in) ? PRESENCE_CLOSED : PRESENCE_LOST);
    link_let_go(in->answer);
}

static void inbound_destroy(struct shm *shm, struct inbound *in)
{
    if (in->answer != NULL)
        bounce_let_go(in->answer);
    if (inbound_is_ending(in) && in->answer != NULL)
        end_answer(shm, in);
    leave_hot(shm, in);
    shm->inbound[in->slot] = NULL;
    free_slot(shm, in->slot);
    mem_free(in);
}

static void settle_refused(struct shm *shm, struct inbound *in)
{
    if (inbound_is_ending(in))
        inbound_destroy(shm, in);
}

OUT_OF_LINE bool inbound_settle(struct shm *shm, struct inbound *in)
{
    if (in->ring.error != 0) {
        inbound_refuse(shm, in, "damaged ring");
    } else if (is_left_behind(shm, in)) {
        inbound_move(shm, in);
        return true;
    } else if (inbound_is_ending(in)) {
        inbound_destroy(shm, in);
    }
    return false;
}

void inbound_close_all(struct shm *shm)
{
    /* a sender that sees us closed knows which packets we have taken: link_armed() */
    for (uint32_t i = 0; i < shm->inbound_end; i++)
        if (shm->inbound[i] != NULL)
            ring_consumer_flush(&shm->inbound[i]->ring);
    /* before the look at the slots: pairs with the end of link_reserve() */
    atomic_store(&shm->control->closed, 1);
    for (uint32_t i = 0, end = shm_slots(shm); i < end; i++) {
        /* the sender may write any word: what is ours is released whatever it says */
        if (state_of_slot(shm, i) == SLOT_FREE && shm->inbound[i] == NULL)
            continue;
        ask_to_be_notified(shm, i);
        if (shm->inbound[i] != NULL && is_left_behind(shm, shm->inbound[i]))
            inbound_move(shm, shm->inbound[i]); /* if the sender waits, it waits there */
        if (shm->inbound[i] != NULL)
            inbound_wake_producer(shm->inbound[i]);
        mem_free(shm->inbound[i]);
        shm->inbound[i] = NULL;
    }
}

/* ---- another receiver ---- */

void inbound_leave_all(struct shm *shm)
{
    for (uint32_t slot = 0; slot < shm->inbound_end; slot++) {
        struct inbound *in = shm->inbound[slot];

        if (in == NULL)
            continue;
        ring_consumer_flush(&in->ring);
        inbound_mark(shm, in, inbound_repeats(in));
        shm->inbound[slot] = NULL;
        mem_free(in);
    }
    shm->hot_count = 0;
    shm->doubt = false; /* the next receiver looks at all slots */
}

void inbound_adopt_all(struct shm *shm)
{
    for (uint32_t slot = 0, end = shm_slots(shm); slot < end; slot++)
        if (state_of_slot(shm, slot) != SLOT_FREE)
            atomic_fetch_or_explicit(&shm->control->ready[slot / 64], UINT64_C(1) << slot % 64,
                                     memory_order_relaxed);
    shm->base.hint.seen = atomic_load(&shm->bell->count) - 1;
}

/* ---- space ---- */

OUT_OF_LINE void inbound_wake_producer(struct inbound *in)
{
    struct ring *ring = ring_of(in);

    ring_consumer_flush(&in->ring);
    if (atomic_load_explicit(&ring->producer_waiting, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(&ring->producer_waiting, 0, memory_order_relaxed);
    /* if it cannot be notified, the sender looks again by itself */
    if (in->answer != NULL && link_attach(in->answer) == 0)
        bell_notify_space(in->answer->remote);
}

/* ---- hot and cool ---- */

void inbound_arm_all(struct shm *shm)
{
    for (uint32_t i = 0; i < shm->hot_count; i++)
        set_armed(shm->hot[i], 1);
}

void inbound_disarm_all(struct shm *shm)
{
    for (uint32_t i = 0; i < shm->hot_count; i++)
        set_armed(shm->hot[i], 0);
}

void inbound_retire_all(struct shm *shm)
{
    if (shm->hot_count > 0)
        inbound_doubt(shm, clock_now());
    while (shm->hot_count > 0)
        cool(shm, shm->hot_count - 1);
}

static bool has_work(const struct inbound *in)
{
    return !ring_is_empty(&in->ring) || inbound_is_last(in) || in->ring.error != 0;
}

void inbound_doubt(struct shm *shm, uint64_t now)
{
    if (!shm->doubt)
        shm->doubt_since_ns = now;
    shm->doubt = true;
    shm->doubt_last_ns = now;
}

uint64_t inbound_doubt_left(const struct shm *shm, uint64_t now)
{
    uint64_t passed = now - shm->doubt_since_ns;

    return passed < SHM_DOUBT_NS ? SHM_DOUBT_NS - passed : 0;
}

bool inbound_recheck(struct shm *shm, uint64_t now)
{
    bool found = false;

    if (!shm->doubt || inbound_doubt_left(shm, now) != 0)
        return false;
    shm->doubt = now - shm->doubt_last_ns < SHM_DOUBT_NS;
    shm->doubt_since_ns = now;
    for (uint32_t slot = 0; slot < shm->inbound_end; slot++) {
        struct inbound *in = shm->inbound[slot];

        if (in == NULL || in->hot || in->state == INBOUND_REFUSED || !has_work(in))
            continue;
        LOG_DEBUG("shm: slot %u has a packet for which nobody rang", slot);
        heat(shm, in);
        found = true;
    }
    return found;
}

bool inbound_any(const struct shm *shm)
{
    for (uint32_t i = 0; i < shm->hot_count; i++)
        if (has_work(shm->hot[i]))
            return true;
    return false;
}

/* Arms idle rings beyond HOT_FREE; returns how many. */
static uint32_t arm_idle(struct shm *shm)
{
    uint32_t armed = 0;

    for (uint32_t i = 0; i < shm->hot_count && armed + HOT_FREE < shm->hot_count; i++) {
        struct inbound *in = shm->hot[i];

        if (!in->busy && !has_work(in)) {
            set_armed(in, 1);
            armed++;
        }
    }
    return armed;
}

static bool is_armed(const struct inbound *in)
{
    return atomic_load_explicit(&ring_of(in)->armed, memory_order_relaxed) != 0;
}

void inbound_cool_idle(struct shm *shm)
{
    bool sure;

    if (arm_idle(shm) != 0) {
        sure = bell_arm_barrier(shm->own);
        inbound_doubt(shm, clock_now());
        for (uint32_t i = shm->hot_count; i-- > 0;) {
            struct inbound *in = shm->hot[i];

            if (!is_armed(in))
                continue;
            if (!sure || has_work(in))
                set_armed(in, 0);
            else
                cool(shm, i);
        }
    }
    for (uint32_t i = 0; i < shm->hot_count; i++)
        shm->hot[i]->busy = false;
}

/* ---- dead senders ---- */

/* The sender of slot is dead: its packets are still delivered. */
static void bury(struct shm *shm, uint32_t slot)
{
    LOG_DEBUG("shm: the sender in slot %u is dead", slot);
    if (shm->inbound[slot] == NULL && state_of_slot(shm, slot) != SLOT_READY) {
        free_slot(shm, slot); /* it died while reserving */
        return;
    }
    inbound_ring(shm, slot);
    if (shm->inbound[slot] == NULL)
        return; /* it had closed before, or there is no memory now */
    ends(shm->inbound[slot]);
    if (shm->inbound[slot]->state == INBOUND_REFUSED)
        inbound_destroy(shm, shm->inbound[slot]);
}

/* The slot's previous sender may have set its bit late, and died before it rang: then the first
 * packet of this sender found the bit set, and did not ring. */
static void begin_unrung(struct shm *shm, uint32_t slot)
{
    if (shm->inbound[slot] == NULL && state_of_slot(shm, slot) == SLOT_READY)
        inbound_ring(shm, slot);
}

bool inbound_sweep(struct shm *shm, uint32_t limit)
{
    uint32_t end = shm_slots(shm);
    bool found = false;

    for (uint32_t n = 0; n < end && limit > 0; n++) {
        uint32_t slot = shm->sweep_slot < end ? shm->sweep_slot : 0;
        uint64_t word =
            atomic_load_explicit(&segment_slot(shm->own, slot)->sender, memory_order_relaxed);

        shm->sweep_slot = slot + 1;
        if (slot_state_of(word) == SLOT_FREE && shm->inbound[slot] == NULL)
            continue;
        limit--;
        if (slot_sender_of(word) == shm->process || process_is_alive(slot_sender_of(word))) {
            begin_unrung(shm, slot);
            continue;
        }
        bury(shm, slot);
        found = true;
    }
    return found;
}
