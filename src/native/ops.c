/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ops.c - operations of an endpoint that have a handle.
 *
 * Operations are numbered in the order in which the program starts them.  A record names a completion by this number,
 * because handles differ from run to run.
 */
#include <stdlib.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "native/native.h"

/* The tables hold pointers to operations. */
static uint64_t handle_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct op *)hash_pointer(slot))->handle);
}

static bool handle_is(const void *arg, const void *slot, const void *key)
{
    (void)arg;
    return ((const struct op *)hash_pointer(slot))->handle == *(const uint64_t *)key;
}

static uint64_t real_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct op *)hash_pointer(slot))->real);
}

static bool real_is(const void *arg, const void *slot, const void *key)
{
    (void)arg;
    return ((const struct op *)hash_pointer(slot))->real == *(const uint64_t *)key;
}

static uint64_t number_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct op *)hash_pointer(slot))->number);
}

static bool op_number_is(const void *arg, const void *slot, const void *key)
{
    (void)arg;
    return ((const struct op *)hash_pointer(slot))->number == *(const uint64_t *)key;
}

static const struct hash_kind by_handle = {sizeof(struct op *), handle_hash, handle_is};
static const struct hash_kind by_real = {sizeof(struct op *), real_hash, real_is};
static const struct hash_kind by_number = {sizeof(struct op *), number_hash, op_number_is};

static void *find_slot(const struct hash *h, const struct hash_kind *kind, uint64_t key)
{
    return hash_find(h, kind, NULL, hash_mix(key), &key);
}

bool op_add(struct lane *lane, struct op op)
{
    struct op *own = mem_alloc(sizeof *own);

    if (own == NULL || hash_reserve(&lane->by_handle, &by_handle, NULL) < 0 ||
        hash_reserve(&lane->by_number, &by_number, NULL) < 0) {
        mem_free(own);
        return false;
    }
    *own = op;
    own->real = op.handle;
    own->number = ++lane->started;
    if (own->withheld != NULL) {
        own->withheld->op = own;
        list_add_tail(&lane->withheld, &own->withheld->node);
    }
    (void)hash_add(&lane->by_handle, &by_handle, NULL, &own);
    (void)hash_add(&lane->by_number, &by_number, NULL, &own);
    return true;
}

struct op *op_find(struct lane *lane, mbx_request handle)
{
    return hash_pointer(find_slot(&lane->by_handle, &by_handle, handle));
}

struct op *op_number(struct lane *lane, uint64_t number)
{
    return hash_pointer(find_slot(&lane->by_number, &by_number, number));
}

mbx_request op_real(struct lane *lane, mbx_request handle)
{
    struct op *op = lane->by_real.count > 0 ? op_find(lane, handle) : NULL;

    return op != NULL ? op->real : handle;
}

static void withheld_free(struct withheld *w)
{
    if (w == NULL)
        return;
    list_remove(&w->node);
    mem_free(w);
}

static void op_remove(struct lane *lane, struct op *op)
{
    hash_remove(&lane->by_handle, &by_handle, NULL,
                find_slot(&lane->by_handle, &by_handle, op->handle));
    hash_remove(&lane->by_number, &by_number, NULL,
                find_slot(&lane->by_number, &by_number, op->number));
    if (op->real != op->handle)
        hash_remove(&lane->by_real, &by_real, NULL,
                    find_slot(&lane->by_real, &by_real, op->real));
    withheld_free(op->withheld);
    mem_free(op);
}

/* ---- what the library reports ---- */

bool op_has_failed(const struct mbx_completion *entry)
{
    return entry->kind == MBX_FAILURES || entry->error == -ENOTCONN ||
           entry->error == -EHOSTUNREACH || entry->error == -EPROTONOSUPPORT;
}

/* The outcome of a receive that has ended. */
static struct replay_outcome outcome_of(const struct mbx_completion *entry)
{
    if (entry->error == -ECANCELED)
        return lane_outcome(REPLAY_CANCELLED, 0);
    if (op_has_failed(entry))
        return lane_outcome(REPLAY_FAILED, 0);
    return recv_outcome(entry->status.source, entry->status.tag, entry->status.size);
}

static void record_end(struct lane *lane, const struct op *op,
                       const struct mbx_completion *entry)
{
    struct replay_outcome outcome, upper = recv_outcome_of_upper(entry->status.tag);

    if (op->kind == OP_EXACT && entry->error == -ECANCELED)
        replay_lane_cancelled(&lane->events, op->event);
    if (op->kind != OP_WILD || op->event == 0)
        return;
    outcome = outcome_of(entry);
    if (op->is_wide && outcome.result == REPLAY_MESSAGE)
        replay_lane_fill(&lane->events, op->event + 1, upper);
    replay_lane_fill(&lane->events, op->event, outcome);
}

/* The program has cancelled a withheld receive.  The entry is of the one in its place: so its envelope is
 * corrected. */
static void end_withheld(const struct op *op, struct mbx_completion *entry)
{
    const struct withheld *w = op->withheld;

    entry->status = (struct mbx_status){
        .context_id = w->asked.context_id, .source = w->asked.source, .tag = w->asked.tag};
    if (w->layout.end != NULL)
        w->layout.end(w->layout.context);
}

uint64_t op_reported(struct lane *lane, struct mbx_completion *entry)
{
    uint64_t number;
    struct op *op = hash_pointer(find_slot(&lane->by_real, &by_real, entry->request));

    if (op == NULL)
        op = op_find(lane, entry->request);
    if (op == NULL || entry->kind == MBX_FAILURES)
        return 0;
    number = op->number;
    entry->request = op->handle;
    record_end(lane, op, entry);
    if (op->withheld != NULL)
        end_withheld(op, entry);
    op_remove(lane, op);
    return number;
}

/* ---- withheld receives ---- */

/* Cancels the receive in its place, and posts the one that the program has asked for. */
static int post_one(struct lane *lane, struct op *op)
{
    const struct native_next *next = native_next();
    struct withheld *w = op->withheld;
    struct mbx_completion ended;
    struct mbx_ep *ep = lane->ep;
    int err = hash_reserve(&lane->by_real, &by_real, NULL);

    if (err == 0)
        err = next->mbx_cancel(ep, op->real);
    while (err == 0 && (err = lane_wait(lane, op->real, &ended)) == -EINTR)
        err = 0;
    if (err == 0)
        err = next->mbx_recv(ep, w->asked.source, w->asked.context_id, w->asked.tag,
                             w->asked.ignore, w->buf, w->size, &w->options, &op->real);
    if (err < 0)
        return err;
    op->withheld = NULL;
    withheld_free(w);
    return hash_add(&lane->by_real, &by_real, NULL, &op);
}

static void post_or_exit(struct lane *lane, struct op *op)
{
    int err = post_one(lane, op);

    if (err == 0)
        return;
    LOG_ERROR("replay: rank %u: a receive that was withheld cannot be posted: %s", lane->rank,
              strerrordesc_np(-err));
    _Exit(1);
}

void op_post_withheld(struct lane *lane)
{
    struct list *node, *after;

    list_for_each_safe (node, after, &lane->withheld) {
        struct withheld *w = container_of(node, struct withheld, node);

        if (!w->is_cancelled)
            post_or_exit(lane, w->op);
    }
}

static bool op_accepts(const struct envelope *by, const struct envelope *exact)
{
    return by->context_id == exact->context_id &&
           (by->source == MBX_ANY_SOURCE || by->source == exact->source) &&
           ((by->tag ^ exact->tag) & ~by->ignore) == 0;
}

bool op_is_later(const struct lane *lane, const struct envelope *exact)
{
    const struct list *node;

    list_for_each (node, &lane->withheld) {
        const struct withheld *w = container_of(node, struct withheld, node);

        if (w->why == WITHHELD_OPEN && !w->is_cancelled && op_accepts(&w->asked, exact))
            return true;
    }
    return false;
}

void op_post_freed(struct lane *lane)
{
    struct list *node, *after;

    list_for_each_safe (node, after, &lane->withheld) {
        struct withheld *w = container_of(node, struct withheld, node);

        if (w->why == WITHHELD_LATER && !op_is_later(lane, &w->asked))
            post_or_exit(lane, w->op);
    }
}

bool op_can_end(struct lane *lane, struct op *op)
{
    struct list *node, *after;
    struct envelope asked;

    if (op->withheld == NULL || op->withheld->is_cancelled)
        return true;
    if (op->withheld->why != WITHHELD_LATER)
        return false;
    asked = op->withheld->asked;
    list_for_each_safe (node, after, &lane->withheld) {
        struct withheld *w = container_of(node, struct withheld, node);

        if (op->withheld != NULL && w->why == WITHHELD_LATER && op_accepts(&w->asked, &asked))
            post_or_exit(lane, w->op); /* the earlier ones with this envelope first */
    }
    return true;
}

struct op *op_any_send(struct lane *lane)
{
    void *slot;

    for (size_t at = 0; (slot = hash_next(&lane->by_number, &by_number, &at)) != NULL;) {
        struct op *op = hash_pointer(slot);

        if (op->kind == OP_SEND)
            return op;
    }
    return NULL;
}

void op_forget_all(struct lane *lane)
{
    void *slot;

    for (size_t at = 0; (slot = hash_next(&lane->by_number, &by_number, &at)) != NULL;) {
        struct op *op = hash_pointer(slot);

        if (op->withheld != NULL && op->withheld->layout.end != NULL)
            op->withheld->layout.end(op->withheld->layout.context);
        withheld_free(op->withheld);
        mem_free(op);
    }
    hash_fini(&lane->by_handle);
    hash_fini(&lane->by_real);
    hash_fini(&lane->by_number);
}
