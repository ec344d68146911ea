/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.c - bounce buffers of our segment, from which peers unpack what we have packed there.
 *
 *   our segment, buffer i         taken_for[i], private to the sender     taken[i], shared
 *     free                        NULL                                    0
 *     taken                       the link                                1
 *     released                    the link                                0, by the receiver
 *
 * The buffers are used in rotation, and may be more than a core's second cache holds: then the
 * sender packs into lines that have left the receiver's cache.  Fetching a line from the cache
 * of another core takes three times as long (docs/decisions/0032).  If the second cache holds
 * all buffers, BOUNCE_FEW are as good; they are also enough for a receiver whose messages are
 * unexpected.
 *
 * A receiver sets, in its slot for a sender, how many buffers the sender may use.  Before that
 * it maps the sender's whole segment, and holds it until it has taken all packets of this
 * sender: a sender may close and be gone after a packet that names a buffer.
 *
 * A buffer that is read becomes resident in the receiver, and stays resident.  The resident
 * buffers of all senders of an endpoint never exceed its limit: before one more would, the
 * receiver unmaps all of them, which costs the next reads a fault for each page.  To make this
 * rare, the limit is divided among the senders that have resident buffers; the slot says how
 * many each may use.
 *
 * Buffers that a dead receiver did not release become free when the link to it ends.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "transport/bounce.h"
#include "transport/shm/shm.h"

#define BOUNCE_FEW 16u

/* ---- the sender ---- */

static uint64_t allowed_by(struct link *l)
{
    struct shm_link *link = link_of(l);
    struct shm *shm = shm_of(l->transport);

    /* pairs with the release in shm_bounce_allow() */
    return shm->role == SHM_WHOLE && link_has_slot(link)
               ? atomic_load_explicit(&segment_slot(link->remote, link->slot)->allowed,
                                      memory_order_acquire)
               : 0;
}

static bool shm_bounce_can_take(struct link *l)
{
    return slot_buffers(allowed_by(l)) != 0;
}

bool bounce_fits(size_t second_cache)
{
    return second_cache >= SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE;
}

uint32_t bounce_rotation(size_t second_cache)
{
    return second_cache != 0 && !bounce_fits(second_cache) ? SEGMENT_BUFFERS : BOUNCE_FEW;
}

static uint32_t shm_bounce_rotation(struct link *l)
{
    uint64_t allowed = allowed_by(l);

    return (uint32_t)min_size(
        allowed & SLOT_ALLOWED_FEW ? BOUNCE_FEW : shm_of(l->transport)->bounce_rotation,
        slot_buffers(allowed));
}

/* pairs with the release in shm_bounce_release(): the receiver has read all of it */
static bool buffer_is_free(struct shm *shm, uint32_t i)
{
    return shm->taken_for[i] == NULL ||
           atomic_load_explicit(&shm->own->file->taken[i], memory_order_acquire) == 0;
}

/* Receivers release buffers in the order in which they were taken: if the last one is free, the
 * others are also free, unless another receiver has them, which shm_bounce_take() notices. */
static bool shm_bounce_has_free(struct link *l, size_t bytes)
{
    const uint32_t rotation = shm_bounce_rotation(l);
    const size_t all = rotation * SEGMENT_BUFFER_SIZE;
    const size_t wanted = bytes == SIZE_MAX ? all : bytes;
    struct shm *shm = shm_of(l->transport);
    uint32_t last = shm->bounce_next + (uint32_t)((wanted - 1) / SEGMENT_BUFFER_SIZE);

    return rotation > BOUNCE_FEW && wanted <= all && buffer_is_free(shm, last % rotation);
}

static void *take_buffer(struct shm *shm, struct shm_link *link, uint32_t i)
{
    shm->taken_for[i] = link;
    /* the packet that names the buffer is published after this */
    atomic_store_explicit(&shm->own->file->taken[i], 1, memory_order_relaxed);
    return segment_buffer(shm->own, i);
}

static void *shm_bounce_take(struct link *l, uint32_t among, uint32_t *buffer, size_t *size)
{
    const uint32_t buffers = (uint32_t)min_size(among, slot_buffers(allowed_by(l)));
    struct shm *shm = shm_of(l->transport);

    for (uint32_t n = 0; n < buffers; n++) {
        uint32_t i = shm->bounce_next++ % buffers;

        if (buffer_is_free(shm, i)) {
            *buffer = i;
            *size = SEGMENT_BUFFER_SIZE;
            return take_buffer(shm, link_of(l), i);
        }
    }
    return NULL;
}

/* The link may have ended meanwhile: then the buffer is free already. */
static void shm_bounce_untake(struct link *l, uint32_t buffer)
{
    struct shm *shm = shm_of(l->transport);

    if (shm->taken_for[buffer] == link_of(l))
        shm->taken_for[buffer] = NULL;
}

void bounce_forget(struct shm *shm, const struct shm_link *link)
{
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++)
        if (shm->taken_for[i] == link)
            shm->taken_for[i] = NULL;
}

/* ---- the receiver ---- */

static struct segment_slot *slot_of_sender(const struct shm *shm, const struct shm_link *link)
{
    for (uint32_t i = 0; i < shm->inbound_end; i++)
        if (shm->inbound[i] != NULL && shm->inbound[i]->answer == link)
            return segment_slot(shm->own, i);
    return NULL;
}

/* The number of senders with resident buffers, including this one. */
static uint32_t senders_with(const struct shm *shm, const struct bounce_sender *sender)
{
    return shm->senders_read + (sender->resident == 0);
}

/* How many buffers may be resident in all, for this many senders.  Each sender also has a ring
 * and more memory, which is not counted: with several senders, half of the limit is left for
 * that. */
static uint32_t buffers_that_fit(const struct shm *shm, uint32_t senders)
{
    return shm->resident_most / (senders == 1 ? 1 : 2);
}

/* The buffers that this sender may use, so that there is space for all senders. */
static uint32_t share(const struct shm *shm, const struct bounce_sender *sender)
{
    uint32_t senders = senders_with(shm, sender);

    return (uint32_t)min_size(buffers_that_fit(shm, senders) / senders, SEGMENT_BUFFERS);
}

static int shm_bounce_map(struct link *l)
{
    struct shm *shm = shm_of(l->transport);
    struct shm_link *link = link_of(l);
    struct bounce_sender *sender;
    int err;

    if (link->sender != NULL)
        return 0;
    if (shm->role != SHM_WHOLE || slot_of_sender(shm, link) == NULL)
        return -ENOTSUP;
    err = link_attach_all(link);
    if (err != 0)
        return err;
    sender = mem_calloc(1, sizeof *sender);
    if (sender == NULL)
        return -EAGAIN;
    sender->segment = segment_hold(link->remote);
    list_add_tail(&shm->senders, &sender->in_senders);
    link->sender = sender;
    return 0;
}

static void shm_bounce_allow(struct link *l, bool few)
{
    struct shm *shm = shm_of(l->transport);
    struct bounce_sender *sender = link_of(l)->sender;
    struct segment_slot *slot;
    uint64_t allowed;

    if (sender == NULL)
        return;
    allowed = share(shm, sender) | (few ? SLOT_ALLOWED_FEW : 0);
    if (likely(sender->allowed == allowed))
        return;
    slot = slot_of_sender(shm, link_of(l));
    if (slot == NULL)
        return;
    sender->allowed = allowed;
    /* pairs with the acquire in allowed_by() */
    atomic_store_explicit(&slot->allowed, allowed, memory_order_release);
}

static bool shm_bounce_allows(struct link *l)
{
    const struct bounce_sender *sender = link_of(l)->sender;

    return sender != NULL && slot_buffers(sender->allowed) != 0;
}

/* Removes this sender's buffers from our page table; the sender's pages stay unchanged. */
static void empty(struct shm *shm, struct bounce_sender *sender)
{
    if (sender->resident == 0)
        return;
    mem_discard(segment_buffer(sender->segment, 0), SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE);
    shm->senders_read--;
    shm->resident -= sender->resident;
    sender->resident = 0;
    memset(sender->is_resident, 0, sizeof sender->is_resident);
}

static OUT_OF_LINE void empty_all(struct shm *shm)
{
    struct list *member;

    list_for_each (member, &shm->senders)
        empty(shm, container_of(member, struct bounce_sender, in_senders));
}

static void shm_bounce_limit(struct transport *t, uint64_t bytes)
{
    struct shm *shm = shm_of(t);

    shm->resident_most = (uint32_t)min_size(bytes / SEGMENT_BUFFER_SIZE, UINT32_MAX);
    if (shm->resident > shm->resident_most)
        empty_all(shm);
}

static uint64_t shm_bounce_resident(const struct transport *t)
{
    return shm_of(t)->resident * (uint64_t)SEGMENT_BUFFER_SIZE;
}

static bool shm_bounce_allows_many(struct link *l)
{
    const struct bounce_sender *sender = link_of(l)->sender;

    return sender != NULL && !(sender->allowed & SLOT_ALLOWED_FEW) &&
           slot_buffers(sender->allowed) > BOUNCE_FEW &&
           shm_of(l->transport)->bounce_rotation > BOUNCE_FEW;
}

void bounce_let_go(struct shm_link *link)
{
    struct bounce_sender *sender = link->sender;

    if (sender == NULL)
        return;
    empty(shm_of(link->link.transport), sender); /* the link may still hold the segment */
    segment_detach(sender->segment);
    list_remove(&sender->in_senders);
    mem_free(sender);
    link->sender = NULL;
}

/* Buffer i of this sender is about to be read, for the first time since empty(). */
static OUT_OF_LINE void become_resident(struct shm *shm, struct bounce_sender *sender,
                                        uint32_t i)
{
    if (shm->resident >= buffers_that_fit(shm, senders_with(shm, sender)))
        empty_all(shm);
    shm->senders_read += sender->resident == 0;
    shm->resident++;
    sender->resident++;
    sender->is_resident[i] = true;
    mem_touch(segment_buffer(sender->segment, i), SEGMENT_BUFFER_SIZE);
}

static const void *shm_bounce_find(struct link *l, uint64_t buffer, uint64_t size)
{
    struct bounce_sender *sender = link_of(l)->sender;

    if (sender == NULL || buffer >= SEGMENT_BUFFERS || size > SEGMENT_BUFFER_SIZE)
        return NULL;
    if (unlikely(!sender->is_resident[buffer]))
        become_resident(shm_of(l->transport), sender, (uint32_t)buffer);
    return segment_buffer(sender->segment, (uint32_t)buffer);
}

static void shm_bounce_release(struct link *l, uint64_t buffer)
{
    struct shm *shm = shm_of(l->transport);

    /* pairs with the acquire in buffer_is_free() */
    atomic_store_explicit(&link_of(l)->sender->segment->file->taken[buffer], 0,
                          memory_order_release);
    if (unlikely(shm->resident > shm->resident_most)) /* the limit is less than one buffer */
        empty_all(shm);
}

void bounce_init(struct shm *shm, size_t second_cache)
{
    list_init(&shm->senders);
    shm->resident_most = UINT32_MAX;
    shm->bounce_rotation = bounce_rotation(second_cache);
}

const struct transport_bounce shm_bounce = {
    .take = shm_bounce_take,
    .can_take = shm_bounce_can_take,
    .rotation = shm_bounce_rotation,
    .has_free = shm_bounce_has_free,
    .untake = shm_bounce_untake,
    .map = shm_bounce_map,
    .allow = shm_bounce_allow,
    .limit = shm_bounce_limit,
    .resident = shm_bounce_resident,
    .allows = shm_bounce_allows,
    .allows_many = shm_bounce_allows_many,
    .find = shm_bounce_find,
    .release = shm_bounce_release,
};
