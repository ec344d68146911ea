/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff.c - an endpoint whose packets another thread or process receives.
 *
 *             hand_over()        take_over()
 *   RECEIVER_OWNER --> RECEIVER_NOBODY --> RECEIVER_OTHER, pid
 *        ^                 |    ^               |     |
 *        +-----------------+    +---------------+     |
 *        |    take_back()           its close()       |
 *        +--------------------------------------------+
 *                 take_back(), if pid is dead
 *
 * The receiving half of an endpoint is its rings, the slots, the ready bits and the doorbell.
 * All of it lies in the segment, so a second struct shm over the same segment can run it: in a
 * thread, with the same mapping, or in another process, which finds the segment through /proc
 * as every sender does and proves that it has the same key.  Nothing needs to be inherited, and
 * only the two halves know: a sender rings the same bell.
 *
 * A receiver's only other state is how far it has read each ring.  It publishes ring.h's head
 * to the sender in batches; so a half that has taken over also writes for each packet, into a
 * line of the slot that senders seldom read:
 *
 *   taken = head, in delivery | deliver() | release | taken = head after it
 *
 * The next receiver begins at taken, or at the published head if that is further.  If the
 * receiver is killed at any instruction, at most the packet between one such pair of marks is
 * delivered twice, and the mark says that it may have been.  Whether in one process or two, all
 * that the dead receiver did is visible to a side that has learnt of its death.
 *
 * Everything else can be looked up again: a new receiver sets the ready bits of all slots that
 * have a sender, and the next poll begins each of them as if its sender had rung for the first
 * time.  Because that is done lazily, taking over cannot fail.
 *
 * Each of the two halves has a bell (bell.h), and reserves its own slots in other segments:
 * under the endpoint's address, but with the pid of the half in the slot's word, so that the
 * slots of a dead half are freed, and the other half's stay.
 *
 * Invariants
 *   I1  at most one struct shm of a segment has a role other than SHM_HANDED_OVER
 *   I2  while the role of the owner is SHM_WHOLE, control->receiver is RECEIVER_OWNER
 *   I3  while the endpoint is handed over, slots[i].taken is up to date for each READY slot
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "transport/handoff.h"
#include "transport/shm/shm.h"

/* ---- both sides ---- */

static void shm_wake_other(struct transport *t)
{
    struct shm *shm = shm_of(t);

    switch (shm->role) {
    case SHM_WHOLE:
        return;
    case SHM_HANDED_OVER:
        bell_wake(&shm->control->doorbell);
        return;
    case SHM_RECEIVER:
        bell_wake(&shm->control->owner);
        return;
    }
}

/* ---- the owner's side ---- */

static int shm_hand_over(struct transport *t, struct transport_handle *handle)
{
    struct shm *shm = shm_of(t);

    if (shm->role != SHM_WHOLE)
        return -EALREADY;
    inbound_leave_all(shm);
    shm->role = SHM_HANDED_OVER;
    shm_hear(shm, &shm->control->owner);
    shm->base.hint.seen = atomic_load(&shm->bell->count);
    /* pairs with the exchange in become_receiver(): the marks */
    atomic_store(&shm->control->receiver, receiver_word(RECEIVER_NOBODY, 0));
    *handle = (struct transport_handle){0};
    handle->address = shm->address;
    return 0;
}

static bool other_has_ended(const struct shm *shm)
{
    /* pairs with the exchange in stop_receiving(): its marks */
    uint64_t word = atomic_load(&shm->control->receiver);
    uint32_t pid = (uint32_t)word;

    return receiver_of(word) != RECEIVER_OTHER ||
           (pid != shm->process && !process_is_alive(pid));
}

static int shm_take_back(struct transport *t)
{
    struct shm *shm = shm_of(t);

    if (shm->role != SHM_HANDED_OVER)
        return -EINVAL;
    if (!other_has_ended(shm))
        return -EBUSY;
    atomic_store(&shm->control->receiver, receiver_word(RECEIVER_OWNER, 0));
    bell_get_up(&shm->control->doorbell); /* the dead half does not sleep any more */
    shm->role = SHM_WHOLE;
    shm_hear(shm, &shm->control->doorbell);
    inbound_adopt_all(shm);
    return 0;
}

/* ---- the other side ---- */

static int become_receiver(struct shm *shm)
{
    uint64_t word = receiver_word(RECEIVER_NOBODY, 0);

    return atomic_compare_exchange_strong(&shm->control->receiver, &word,
                                          receiver_word(RECEIVER_OTHER, shm->process))
               ? 0
               : -EBUSY;
}

static void stop_receiving(struct shm *shm)
{
    uint64_t word = receiver_word(RECEIVER_OTHER, shm->process);

    atomic_compare_exchange_strong(&shm->control->receiver, &word,
                                   receiver_word(RECEIVER_NOBODY, 0));
}

static void receiver_close(struct transport *t)
{
    struct shm *shm = shm_of(t);
    struct segment *own = shm->own;

    inbound_leave_all(shm);
    stop_receiving(shm);
    shm_wake_other(t);
    shm_destroy(shm);
    segment_detach(own);
}

static void set_ops(struct shm *shm)
{
    shm->ops = transport_shm;
    shm->ops.poll = shm_poll_marking;
    shm->ops.close = receiver_close;
    shm->base.ops = &shm->ops;
}

/* Finds the endpoint to receive for: its address, and its segment. */
static int handoff_find(struct shm *shm, const struct transport_address *address)
{
    const struct segment_source from = {.address = address,
                                        .key_check = shm_owner_proof(shm, address)};
    int err = host_id(&shm->host);

    shm->address.host = shm->host;
    if (err == 0)
        err = link_check_address(shm, address);
    shm->address = *address;
    if (err == 0)
        err = segment_open(&from, SEGMENT_TO_RECEIVE, &shm->own);
    return err == -EPERM ? -EACCES : err;
}

static int shm_take_over(const struct transport_config *config,
                         const struct transport_handle *handle, struct transport **out)
{
    struct shm *shm = shm_create(config);
    int err;

    if (shm == NULL)
        return -ENOMEM;
    err = handoff_find(shm, &handle->address);
    if (err != 0) {
        LOG_ERROR("shm: cannot receive in the place of pid %u, error %d %s",
                  shm->address.process, -err, strerror(-err));
        goto destroy_shm;
    }
    err = shm_enter(shm, config);
    if (err == 0)
        err = become_receiver(shm);
    if (err != 0)
        goto detach_segment;
    shm->role = SHM_RECEIVER;
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

const struct transport_handoff shm_handoff = {
    .hand_over = shm_hand_over,
    .take_over = shm_take_over,
    .take_back = shm_take_back,
    .wake_other = shm_wake_other,
};
