/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c - an endpoint whose packets somebody else takes.
 *
 *             split()            join()
 *   RECEIVER_OWNER --> RECEIVER_NOBODY --> RECEIVER_JOINED, pid
 *        ^                 |    ^               |     |
 *        +-----------------+    +---------------+     |
 *        |     rejoin()             its close()       |
 *        +--------------------------------------------+
 *                   rejoin(), if pid is dead
 *
 * The receiving half of an endpoint is its rings, the slots, the ready bits and the
 * doorbell.  All of it lies in the segment, so a second struct shm over the same segment
 * can run it: in a thread, with the same mapping, or in another process, which finds the
 * segment through /proc as every sender does and proves itself by the same key.  Nothing
 * needs to be inherited, and nobody but the two halves knows: a sender rings the same bell.
 *
 * What a receiver knows besides is how far it has read each ring.  ring.h's head tells the
 * sender in batches; so the one who has joined writes for each packet, into the line of the
 * slot, which senders hardly look at:
 *
 *   taken = head, in delivery | deliver() | release | taken = head behind it
 *
 * Whoever continues begins at taken, or at the published head if that is further on.  Killed
 * anywhere, at most the packet of one such pair of marks is delivered twice, and the mark
 * says that it may have been.  In one process or two, what the dead one did before it died
 * is seen by who has learnt of its death.
 *
 * Everything else can be looked up again: whoever begins to receive sets the ready bits of
 * all slots that are somebody's, and the next poll begins each of them as if its sender had
 * rung for the first time.  Because that is done lazily, taking over cannot fail.
 *
 * The two halves have a bell each (bell.h).  Each claims slots of its own in other segments:
 * under the endpoint's address, but the claim holds the pid of the one who sends, so that
 * the slots of a dead half are freed, and those of the other stay.
 *
 * Invariants
 *   I1  at most one struct shm of a segment has another role than SHM_SPLIT
 *   I2  while the role of the owner is SHM_WHOLE, control->receiver is RECEIVER_OWNER
 *   I3  while nobody receives or one has joined, slots[i].taken is right for each slot that
 *       is READY
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/shm/shm.h"

/* ---- the owner's side ---- */

int shm_split(struct transport *t, struct transport_handle *handle)
{
    struct shm *shm = shm_of(t);

    if (shm->role != SHM_WHOLE)
        return -EALREADY;
    inbound_leave_all(shm);
    shm->role = SHM_SPLIT;
    shm_hear(shm, &shm->control->owner);
    shm->base.look.seen = atomic_load(&shm->bell->count);
    /* pairs with the exchange in take_over(): the marks */
    atomic_store(&shm->control->receiver, receiver_word(RECEIVER_NOBODY, 0));
    *handle = (struct transport_handle){0};
    handle->address = shm->whole;
    return 0;
}

static bool other_has_ended(const struct shm *shm)
{
    /* pairs with the exchange in give_back(): its marks */
    uint64_t word = atomic_load(&shm->control->receiver);
    uint32_t pid = (uint32_t)word;

    return receiver_of(word) != RECEIVER_JOINED || (pid != shm->pid && !process_is_alive(pid));
}

int shm_rejoin(struct transport *t)
{
    struct shm *shm = shm_of(t);

    if (shm->role != SHM_SPLIT)
        return -EINVAL;
    if (!other_has_ended(shm))
        return -EBUSY;
    atomic_store(&shm->control->receiver, receiver_word(RECEIVER_OWNER, 0));
    bell_get_up(&shm->control->doorbell); /* it is not the dead one who sleeps */
    shm->role = SHM_WHOLE;
    shm_hear(shm, &shm->control->doorbell);
    inbound_adopt_all(shm);
    return 0;
}

/* ---- the other side ---- */

static int joined_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                         uint64_t *key)
{
    (void)l;
    (void)buf;
    (void)size;
    (void)address;
    (void)key;
    return -ENOTSUP;
}

static int take_over(struct shm *shm)
{
    uint64_t word = receiver_word(RECEIVER_NOBODY, 0);

    return atomic_compare_exchange_strong(&shm->control->receiver, &word,
                                          receiver_word(RECEIVER_JOINED, shm->pid))
               ? 0
               : -EBUSY;
}

static void give_back(struct shm *shm)
{
    uint64_t word = receiver_word(RECEIVER_JOINED, shm->pid);

    atomic_compare_exchange_strong(&shm->control->receiver, &word,
                                   receiver_word(RECEIVER_NOBODY, 0));
}

static void joined_close(struct transport *t)
{
    struct shm *shm = shm_of(t);
    struct segment *own = shm->own;

    inbound_leave_all(shm);
    give_back(shm);
    shm_nudge(t);
    shm_destroy(shm);
    segment_detach(own);
}

static void set_ops(struct shm *shm)
{
    shm->ops = transport_shm;
    shm->ops.poll = shm_poll_marking;
    shm->ops.expose = joined_expose;
    shm->ops.close = joined_close;
    shm->base.ops = &shm->ops;
}

/* The endpoint in whose place we shall receive: its address, and its segment. */
static int find(struct shm *shm, const struct transport_address *address)
{
    uint64_t host;
    int err = host_id(&host);

    if (err == 0)
        err = address_parse(address, host, &shm->address);
    shm->whole = *address;
    if (err == 0)
        err = segment_join(&shm->address, shm_owner_proof(shm, address), &shm->own);
    return err;
}

int shm_join(const struct transport_config *config, const struct transport_handle *handle,
             struct transport **out)
{
    struct shm *shm = shm_create(config);
    int err;

    if (shm == NULL)
        return -ENOMEM;
    err = find(shm, &handle->address);
    if (err != 0) {
        LOG_ERROR("shm: cannot receive in the place of pid %u, error %d %s", shm->address.pid,
                  -err, strerror(-err));
        goto destroy_shm;
    }
    err = shm_enter(shm);
    if (err == 0)
        err = take_over(shm);
    if (err != 0)
        goto detach_segment;
    shm->role = SHM_JOINED;
    set_ops(shm);
    inbound_adopt_all(shm);
    *out = &shm->base;
    return 0;

detach_segment:
    segment_detach(shm->own);
destroy_shm:
    shm_destroy(shm);
    return err;
}

/* ---- both ---- */

void shm_nudge(struct transport *t)
{
    struct shm *shm = shm_of(t);

    switch (shm->role) {
    case SHM_WHOLE:
        return;
    case SHM_SPLIT:
        bell_wake(&shm->control->doorbell);
        return;
    case SHM_JOINED:
        bell_wake(&shm->control->owner);
        return;
    }
}
