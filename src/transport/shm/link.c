/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - a link to another endpoint, from the first packet to the last.
 *
 *   IDLE ---> STARTING ---> OPEN <---> FULL    a packet opens it; a long packet, or a later one,
 *     |        ^   |          ^                moves it; a packet finds no space
 *     |        |   +---> CRAMPED             no memory left to map the ring
 *     +---> STARVED                         the receiver has no free slot, or there are no
 *     |        |                            descriptors or memory left to map it
 *     +--------+-------> DEAD               from every state: the other side is gone
 *
 * Opening needs nothing from the receiver: the sender maps the receiver's segment, reserves a
 * free slot, and may write at once.  Packets in the ring belong to the receiver and survive the
 * sender.
 *
 * Order of opening (link_reserve): reserve the slot, so that it is exclusive; write our
 * address, the proof that we know the key, and that the receiver wants to be notified; set
 * READY with a release.  The first packet then rings the bell, like a packet for a ring that
 * has cooled.
 *
 * Order of moving (link_move): all packets in the mailbox are published; set `moved` with a
 * release; ring the bell; then write into the ring.  The receiver moves when it has seen
 * `moved` and then found the mailbox empty.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/shm/denied.h"
#include "transport/shm/shm.h"

#define REFUSED_CHECK 65536 /* sends to a full ring between checks of its owner */

static struct shm *owner_of(const struct shm_link *link)
{
    return shm_of(link->link.transport);
}

static void set_state(struct shm_link *link, enum link_state state)
{
    bool blocked = state == LINK_FULL || state == LINK_STARVED || state == LINK_CRAMPED;

    if (blocked && !list_is_linked(&link->in_blocked))
        list_add_tail(&owner_of(link)->blocked, &link->in_blocked);
    else if (!blocked)
        list_remove(&link->in_blocked);
    link->state = (uint8_t)state;
    assert(!MBX_CHECKS || link_is_valid(link));
}

static struct ring *mailbox_of(const struct shm_link *link)
{
    return segment_mailbox(link->remote, link->slot);
}

/* Gives up ring and mapping: the receiver drains the ring and frees the slot. */
static void link_release(struct shm_link *link)
{
    if (link_has_slot(link)) {
        /* the release pairs with the acquire in inbound_has_closed(): all packets are
         * published */
        atomic_store_explicit(&mailbox_of(link)->closed, 1, memory_order_release);
        bell_ring(link->remote, link->slot);
    }
    if (link->remote == NULL) {
        passing_forget(&link->asked);
        return;
    }
    segment_detach(link->remote);
    link->remote = NULL;
    link->asked = (struct passing_request){.waits = false};
}

static bool is_ours(const struct shm_link *link)
{
    return link_sender(link) == owner_of(link)->process;
}

/* The rank that the other side has written into its segment, or into its slot in ours. */
static uint32_t rank_of(const struct shm_link *link)
{
    const struct shm *shm = owner_of(link);

    if (link->state == LINK_DEAD)
        return link->rank;
    if (link->remote != NULL)
        return *(const volatile uint32_t *)&link->remote->control->rank;
    for (uint32_t i = 0; i < shm->inbound_end; i++)
        if (shm->inbound[i] != NULL && shm->inbound[i]->answer == link)
            return *(const volatile uint32_t *)&segment_slot(shm->own, i)->rank;
    return 0;
}

struct transport_who link_who(const struct shm_link *link)
{
    return (struct transport_who){.rank = rank_of(link), .pid = link_pid(link)};
}

int link_kill(struct shm_link *link, int error)
{
    if (link->state != LINK_DEAD) {
        uint32_t rank = rank_of(link);

        LOG_DEBUG("shm: link to pid %u ends, error %d %s", link_pid(link), -error,
                  strerror(-error));
        if (link->remote != NULL && atomic_load(&link->remote->control->closed) != 0)
            link_learn(link, PRESENCE_CLOSED);
        link_release(link);
        bounce_forget(owner_of(link), link);
        link->error = error;
        link->rank = rank;
        set_state(link, LINK_DEAD);
    }
    return link->error;
}

void link_let_go(struct shm_link *link)
{
    if (link->remote != NULL && atomic_load(&link->remote->control->closed) != 0)
        link_kill(link, -ENOTCONN);
}

void link_destroy(struct shm_link *link)
{
    link_release(link);
    bounce_forget(owner_of(link), link);
    bounce_let_go(link);
    list_remove(&link->in_blocked);
    mem_free(link);
}

/* ---- opening ---- */

/* The error of a link whose other side does not exist. */
static int absence_of(const struct shm_link *link)
{
    return link->presence >= PRESENCE_MET ? -ENOTCONN : -EHOSTUNREACH;
}

/* The effect on the link of a failure to map the other side's segment. */
static int attach_failed(struct shm_link *link, int err)
{
    char denied[DENIED_SIZE];

    switch (err) {
    case -ENOENT:
        return link_kill(link, absence_of(link));
    case -EAGAIN: /* the descriptor has not been passed yet */
        return err;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
    case -EINTR:
        if (!link->warned)
            LOG_WARN("shm: cannot map the segment of pid %u now, error %d %s; trying again",
                     link_pid(link), -err, strerror(-err));
        link->warned = true;
        return -EAGAIN;
    case -EACCES:
        LOG_WARN("shm: pid %u is of another job: it has another MBX_KEY, or none; start both "
                 "by one mbx exec or mbx run, or pass one MBX_KEY on to both",
                 link_pid(link));
        return link_kill(link, -EHOSTUNREACH);
    case -EPERM:
        if (passing_is_number(link_sender(link)))
            denied_passing(denied);
        else
            denied_descriptor(link_pid(link), denied);
        LOG_WARN("shm: pid %u %s", link_pid(link), denied);
        return link_kill(link, -EHOSTUNREACH);
    case -EPROTONOSUPPORT:
        return link_kill(link, err);
    default:
        LOG_WARN("shm: cannot map the segment of pid %u, error %d %s", link_pid(link), -err,
                 strerror(-err));
        return link_kill(link, -EHOSTUNREACH);
    }
}

/* Opens the other side's segment up to `extent`.  `asked`, which shares memory with `out`, is
 * used while nothing is open. */
static int open_remote(struct shm_link *link, enum segment_extent extent)
{
    const struct transport_address address = link_address(link);
    const struct segment_source from = {
        .address = &address,
        .key_check = link->proof,
        .directory = owner_of(link)->own->file->directory,
        .request = link->remote == NULL ? &link->asked : NULL,
    };

    return segment_open(&from, extent, &link->remote);
}

int link_attach(struct shm_link *link)
{
    int err;

    if (link->state == LINK_DEAD)
        return link->error;
    if (link->remote == NULL) {
        err = open_remote(link, SEGMENT_BLOCK);
        if (err != 0)
            return attach_failed(link, err);
    }
    link_learn(link, PRESENCE_MET);
    if (atomic_load(&link->remote->control->closed) != 0)
        return link_kill(link, -ENOTCONN);
    return 0;
}

int link_attach_all(struct shm_link *link)
{
    int err = link_attach(link);

    if (err != 0)
        return err;
    err = open_remote(link, SEGMENT_ALL);
    if (err != 0)
        return attach_failed(link, err);
    if (link->state == LINK_STARTING || link->state == LINK_CRAMPED)
        link->out.shared = mailbox_of(link); /* the mapping may have moved */
    return 0;
}

/* Slot i is about to be reserved.  The receiver looks for senders only in used slots: it closes
 * and then looks; a sender reserves and then looks whether the receiver has closed
 * (link_reserve()). */
static void use_slot(struct segment *s, uint32_t i)
{
    uint32_t used = atomic_load(&s->control->used);

    while (used <= i && !atomic_compare_exchange_weak(&s->control->used, &used, i + 1))
        ;
}

/* Reserves a free slot of [first, end): its index, or -1. */
static int64_t take_slot_of(struct segment *s, uint32_t first, uint32_t end, uint32_t process)
{
    for (uint32_t i = first; i < end; i++) {
        uint64_t word = slot_word(SLOT_FREE, 0);

        if (atomic_load_explicit(&segment_slot(s, i)->sender, memory_order_relaxed) != word)
            continue;
        use_slot(s, i);
        /* the acquire pairs with the release in free_slot(): the ring is clear */
        if (atomic_compare_exchange_strong_explicit(&segment_slot(s, i)->sender, &word,
                                                    slot_word(SLOT_RESERVED, process),
                                                    memory_order_acquire, memory_order_relaxed))
            return i;
    }
    return -1;
}

/* Reserves a used slot that has become free, if there may be one: so a sender among many does
 * not scan the slots of all others.  Its index, or -1. */
static int64_t take_left_slot(struct segment *s, uint32_t used, uint32_t process)
{
    /* pairs with the release in free_slot(): the slot was freed before */
    uint32_t left = atomic_load_explicit(&s->control->left, memory_order_acquire);
    int64_t i = left != 0 ? take_slot_of(s, 0, used, process) : -1;

    if (left != 0) /* a change by others meanwhile wins */
        atomic_compare_exchange_strong_explicit(&s->control->left, &left, i >= 0 ? left - 1 : 0,
                                                memory_order_relaxed, memory_order_relaxed);
    return i;
}

/* Reserves a free slot: its index, or -1.  A used one costs no new memory. */
static int64_t take_slot(struct segment *s, uint32_t process)
{
    uint32_t used = segment_slots_used(s);
    int64_t i = take_left_slot(s, used, process);

    if (i < 0)
        i = take_slot_of(s, used, s->peers, process);
    return i >= 0 ? i : take_slot_of(s, 0, used, process); /* `left` may be wrong */
}

static int no_slot(struct shm_link *link)
{
    if (!link->warned)
        LOG_WARN("shm: all %u slots of pid %u are taken by other senders, raise "
                 "MBX_PEERS_MAX; waiting for one",
                 link->remote->peers, link_pid(link));
    link->warned = true;
    atomic_store_explicit(&link->remote->control->starved, 1, memory_order_relaxed);
    return -EAGAIN;
}

static int link_reserve(struct shm_link *link)
{
    struct shm *shm = owner_of(link);
    struct segment *s = link->remote;
    struct segment_slot *slot;
    int64_t i;

    if (ring_max_record(s->ring_cells) < shm->base.limits.packet_max) {
        LOG_ERROR(
            "shm: rings of pid %u hold records of %zu bytes, and this process sends up to "
            "%zu: set MBX_SHM_RING_SIZE alike",
            link_pid(link), (size_t)ring_max_record(s->ring_cells),
            (size_t)shm->base.limits.packet_max);
        return link_kill(link, -EHOSTUNREACH);
    }
    i = take_slot(s, shm->process);
    if (i < 0)
        return no_slot(link);
    slot = segment_slot(s, i);
    slot->address = shm->address;
    slot->rank = shm->control->rank;
    slot->proof = shm_proof(shm, link->cookie, &slot->address);
    link->slot = (uint32_t)i;
    link->fence = shm->fence || s->needs_fence;
    ring_producer_init(&link->out, mailbox_of(link), SEGMENT_MAILBOX_CELLS);
    /* a packet there rings for the receiver, once */
    atomic_store_explicit(&mailbox_of(link)->armed, 1, memory_order_relaxed);
    /* pairs with the acquire in state_of_slot(): address and proof */
    atomic_store_explicit(&slot->sender, slot_word(SLOT_READY, shm->process),
                          memory_order_release);
    set_state(link, LINK_STARTING);
    /* a receiver that closes sets `closed` first and then looks for senders */
    __sync_synchronize();
    return atomic_load(&s->control->closed) != 0 ? link_kill(link, -ENOTCONN) : 0;
}

static int link_open(struct shm_link *link)
{
    int err = link_attach(link);

    if (err == 0)
        err = link_reserve(link);
    if (err == -EAGAIN)
        set_state(link, LINK_STARVED);
    return err;
}

/* 0, or the receiver has closed, refused us, or broken the ring. */
static int check_receiver(struct shm_link *link);

/* Moves from the mailbox to the ring. */
static int link_move(struct shm_link *link)
{
    struct ring *mailbox;
    int err = link_attach_all(link);

    if (err == -EAGAIN)
        set_state(link, LINK_CRAMPED);
    if (err != 0)
        return err;
    mailbox = mailbox_of(link);
    ring_producer_init(&link->out, segment_ring(link->remote, link->slot),
                       segment_ring_cells(link->remote, link->slot));
    /* pairs with the acquire in is_left_behind(): all packets in the mailbox */
    atomic_store_explicit(&mailbox->moved, 1, memory_order_release);
    set_state(link, LINK_OPEN);
    bell_ring(link->remote, link->slot);
    /* a receiver that closes, or refuses us, says so first and then looks where we are:
     * ask_to_be_notified() */
    __sync_synchronize();
    return check_receiver(link);
}

/* Makes space for a packet of size bytes in the mailbox, or moves to the ring. */
static int link_start(struct shm_link *link, uint32_t size)
{
    if (size > RING_CELL_SIZE || link->out.tail >= SEGMENT_MAILBOX_LIFE)
        return link_move(link);
    if (ring_reserve_cell(&link->out) == NULL) {
        int err = check_receiver(link); /* the receiver may have broken the ring */

        return err == 0 ? link_move(link) : err;
    }
    set_state(link, LINK_STARTING);
    return 0;
}

OUT_OF_LINE int link_prepare(struct shm_link *link, uint32_t size)
{
    int err;

    switch ((enum link_state)link->state) {
    case LINK_OPEN:
        return 0;
    case LINK_IDLE:
    case LINK_STARVED:
        err = link_open(link);
        return err == 0 ? link_start(link, size) : err;
    case LINK_STARTING:
    case LINK_CRAMPED:
        return link_start(link, size);
    case LINK_FULL:
        if (ring_reserve(&link->out, size) == NULL)
            return link_full(link, size);
        set_state(link, LINK_OPEN);
        link->refused = 0;
        return 0;
    case LINK_DEAD:
        break;
    }
    return link->error;
}

/* ---- errors ---- */

static int check_receiver(struct shm_link *link)
{
    struct segment *s = link->remote;
    uint64_t word =
        atomic_load_explicit(&segment_slot(s, link->slot)->sender, memory_order_acquire);

    if (atomic_load(&s->control->closed) != 0)
        return link_kill(link, -ENOTCONN);
    if (word != slot_word(SLOT_READY, owner_of(link)->process)) {
        LOG_WARN("shm: pid %u has refused this process: its log says why (another MBX_KEY, or "
                 "damaged packets)",
                 link_pid(link));
        return link_kill(link, -EHOSTUNREACH);
    }
    if (link->out.error != 0) {
        LOG_ERROR("shm: the ring to pid %u is damaged; if neither program writes into foreign "
                  "memory, please report this",
                  link_pid(link));
        return link_kill(link, -ENOTCONN);
    }
    return 0;
}

OUT_OF_LINE int link_full(struct shm_link *link, uint32_t size)
{
    int err = check_receiver(link);

    if (err != 0)
        return err;
    if (++link->refused % REFUSED_CHECK == 0 && !is_ours(link) &&
        !process_is_alive(link_sender(link)))
        return link_kill(link, -ENOTCONN);
    link->wanted = size;
    set_state(link, LINK_FULL);
    return -EAGAIN;
}

OUT_OF_LINE int link_armed(struct shm_link *link)
{
    int err;

    /* the receiver took the packet before it closed, and before we looked whether to wake it */
    if (atomic_load(&link->remote->control->closed) != 0 && ring_is_taken(&link->out)) {
        link_kill(link, -ENOTCONN);
        return 0;
    }
    err = check_receiver(link);
    if (err == 0)
        bell_ring(link->remote, link->slot);
    return err;
}

/* Has it ended without closing?  Its slot here may contain a `closed` that we have not seen
 * yet.  If it never sent anything, it is unknown whether it closed. */
static bool has_died(const struct shm_link *link)
{
    const struct shm *shm = owner_of(link);

    if (is_ours(link) || process_is_alive(link_sender(link)))
        return false;
    for (uint32_t i = 0; i < shm->inbound_end; i++) {
        const struct inbound *in = shm->inbound[i];

        if (in != NULL && in->answer == link)
            return !inbound_has_closed(shm, in);
    }
    return link->presence != PRESENCE_CLOSED;
}

int link_check(struct shm_link *link)
{
    if (link->state != LINK_DEAD) {
        if (link->remote != NULL && atomic_load(&link->remote->control->closed) != 0)
            link_kill(link, -ENOTCONN);
        else if (!is_ours(link) && !process_is_alive(link_sender(link)))
            link_kill(link, absence_of(link));
    }
    if (link->state != LINK_DEAD)
        return 0;
    /* a process that is ending is seen as alive a little longer than its memory exists */
    return has_died(link) ? -EHOSTDOWN : link->error;
}

/* Does a slot of ours belong to this link's other side?  A READY slot has the endpoint's
 * address; its word may name another process, which has taken over from the endpoint
 * (handoff.c).  Any other slot names only the process. */
static bool has_our_slot(const struct shm *shm, const struct shm_link *link)
{
    for (uint32_t i = 0, end = shm_slots(shm); i < end; i++) {
        const struct segment_slot *slot = segment_slot(shm->own, i);
        uint64_t word = atomic_load_explicit(&slot->sender, memory_order_acquire);
        struct transport_address address;

        if (shm->inbound[i] != NULL && shm->inbound[i]->answer == link)
            return true;
        if (slot_state_of(word) == SLOT_READY) {
            memcpy(&address, &slot->address, sizeof address);
            if (link_has_address(shm, link, &address))
                return true;
        } else if (slot_state_of(word) != SLOT_FREE &&
                   slot_sender_of(word) == link_sender(link)) {
            return true;
        }
    }
    return false;
}

bool link_is_over(struct shm_link *link)
{
    const struct shm *shm = owner_of(link);
    int err;

    if (shm->role != SHM_WHOLE)
        return false;
    if (link->state != LINK_DEAD && link->remote == NULL && link->presence >= PRESENCE_CLOSED)
        (void)link_attach(link); /* it has sent, and we never did: its segment shows it */
    err = link_check(link);
    return err != 0 && err != -EHOSTDOWN && !has_our_slot(shm, link);
}

/* ---- waiting ---- */

bool link_ask_for_space(struct shm *shm)
{
    struct list *node;
    bool asked = false;

    list_for_each (node, &shm->blocked) {
        struct shm_link *link = container_of(node, struct shm_link, in_blocked);

        /* before our barrier; the receiver looks at it after each release */
        if (link->state != LINK_FULL)
            continue;
        atomic_store_explicit(&link->out.shared->producer_waiting, 1, memory_order_relaxed);
        asked = true;
    }
    return asked;
}

bool link_has_space(struct shm *shm)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &shm->blocked) {
        struct shm_link *link = container_of(node, struct shm_link, in_blocked);

        if (link->state == LINK_FULL &&
            (check_receiver(link) != 0 || ring_reserve(&link->out, link->wanted) != NULL))
            return true;
    }
    return false;
}

bool link_sweep(struct shm *shm, uint32_t limit)
{
    bool found = false;

    while (limit-- > 0) {
        struct link *next = link_table_next_link(&shm->links, &shm->sweep_link);
        struct shm_link *link;

        if (next == NULL) {
            shm->sweep_link = 0;
            break;
        }
        link = link_of(next);
        link_let_go(link);
        if (link->remote == NULL || is_ours(link) || process_is_alive(link_sender(link)))
            continue;
        link_kill(link, -ENOTCONN);
        found = true;
    }
    return found;
}
