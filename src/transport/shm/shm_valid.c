/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_valid.c - checks links and inbound rings: shm.h I1, I2, I3, I4, I6, I7, I8.  Reads
 * nothing that another process may write.
 */
#include "base/check.h"
#include "transport/shm/shm.h"

static const struct shm *owner_of(const struct shm_link *link)
{
    return shm_of(link->link.transport);
}

/* Checks where the packets of a link with a slot go. */
static bool out_is_valid(const struct shm_link *link)
{
    const struct segment *s = link->remote;

    if (!HOLDS("shm.h I3", s != NULL) || !HOLDS("shm.h I3", link->slot < s->peers) ||
        !HOLDS("shm.h I3", link->fence == (owner_of(link)->fence || s->needs_fence)))
        return false;
    if (link->state == LINK_STARTING || link->state == LINK_CRAMPED)
        return HOLDS("shm.h I3", link->out.shared == segment_mailbox(s, link->slot));
    return HOLDS("shm.h I3", segment_has_all(s)) &&
           HOLDS("shm.h I3", link->out.shared == segment_ring(s, link->slot));
}

bool link_is_valid(const struct shm_link *link)
{
    bool is_blocked =
        link->state == LINK_CRAMPED || link->state == LINK_FULL || link->state == LINK_STARVED;

    return HOLDS("shm.h I3", link->state <= LINK_DEAD) &&
           HOLDS("shm.h I4", list_is_linked(&link->in_blocked) == is_blocked) &&
           HOLDS("shm.h I3", link->state != LINK_DEAD || link->remote == NULL) &&
           HOLDS("shm.h I3", link->state != LINK_DEAD || link->error < 0) &&
           HOLDS("shm.h I8", link->remote == NULL || link->presence != PRESENCE_UNKNOWN) &&
           (!link_has_slot(link) || out_is_valid(link));
}

static bool inbound_is_valid(const struct shm *shm, const struct inbound *in, uint32_t slot)
{
    const struct ring *ring =
        inbound_has_moved(in) ? segment_ring(shm->own, slot) : segment_mailbox(shm->own, slot);

    return HOLDS("shm.h I1", in->slot == slot) && HOLDS("shm.h I6", in->ring.shared == ring) &&
           HOLDS("shm.h I2", !in->hot || in->state != INBOUND_REFUSED) &&
           HOLDS("shm.h I6", in->state != INBOUND_OPEN || in->answer != NULL);
}

static bool inbounds_are_valid(const struct shm *shm)
{
    uint32_t hot = 0;

    for (uint32_t i = 0; i < shm->inbound_end; i++) {
        if (shm->inbound[i] == NULL)
            continue;
        if (!HOLDS("shm.h I5", shm->role != SHM_HANDED_OVER) ||
            !inbound_is_valid(shm, shm->inbound[i], i))
            return false;
        hot += shm->inbound[i]->hot;
    }
    for (uint32_t i = 0; i < shm->hot_count; i++)
        if (!HOLDS("shm.h I2", shm->hot[i]->hot))
            return false;
    return HOLDS("shm.h I2", hot == shm->hot_count);
}

bool shm_is_valid(const struct shm *shm)
{
    struct link *link;
    size_t position = 0;

    while ((link = link_table_next_link(&shm->links, &position)) != NULL)
        if (!link_is_valid(link_of(link)))
            return false;
    return inbounds_are_valid(shm);
}
