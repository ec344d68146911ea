/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.c - device.h over the tag-matching receive queue of libibverbs: commands.
 *
 *   append, revoke, sync ── ibv_post_srq_ops ──> ┌───────────────┐
 *   replenish            ── ibv_post_srq_recv ─> │ IBV_SRQT_TM   │ <── queue pairs of the peers
 *   poll                 <── ibv_start_poll ──── └── its queue ──┘     (verbs_attach)
 *
 * Every command requests a completion, so the space for commands is known and the completion
 * queue cannot overflow.  A completion's wr_id is its kind and the number of the receive or
 * buffer.  IBV_WC_TM_SYNC_REQ in completions is ignored: it may come needlessly, and the user
 * of this device reports its count anyway.
 *
 * A consumed receive is not named to the hardware any more, because the hardware may have
 * reused its number: revoking it posts a SYNC, whose completion is answered with -ENOENT.
 *
 * A receive that is shorter than the longest eager message gets a bounce buffer of that length,
 * which is registered once: a longer message would be a connection error.  Other memory is the
 * caller's region, or is registered at the append, until its data is there or for longer
 * (verbs_regions.h).  A request that software has to complete lies in the same memory, and may
 * be longer than its message: the previous contents are restored.  So receives that the
 * hardware holds must not overlap (verbs_ranges.h): the second one is refused.
 */
#include "device/verbs/verbs_state.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* The longest message that is read into one entry; the hardware reports lengths in 32 bits. */
#define VERBS_READ_MAX (UINT32_C(1) << 30)

/* ---- commands ---- */

/* Converts libibverbs' error of a command. */
static int post_error(int err)
{
    return err == 0 ? 0 : err == ENOMEM ? -EAGAIN : -ENODEV;
}

/* Posts a command; the caller has checked that there is space. */
static int verbs_post(struct verbs *v, struct ibv_ops_wr *wr, uint16_t handled)
{
    struct ibv_ops_wr *bad;
    int err;

    wr->flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    wr->tm.unexpected_cnt = handled;
    err = ibv_post_srq_ops(v->srq, wr, &bad);
    if (err == 0)
        v->in_flight++;
    return post_error(err);
}

/* 0 if there is space for one more command. */
static int check_space(const struct verbs *v)
{
    if (v->is_failing)
        return -ENODEV;
    return v->in_flight < v->commands ? 0 : -EAGAIN;
}

/* Chooses the memory into which the hardware writes recv's message; sets its lkey. */
static int register_entry(struct verbs *v, struct verbs_entry *entry,
                          const struct mbx_device_recv *recv, uint32_t *lkey)
{
    assert(entry->region == NULL);
    entry->envelope = recv->envelope;
    entry->buf = entry->memory = recv->buf;
    entry->size = recv->size;
    if (recv->size > 0 && !verbs_ranges_add(&v->ranges, recv->buf, recv->size))
        return -EBUSY;
    entry->has_range = recv->size > 0;
    if (recv->size < v->limits.eager_max) {
        entry->memory = verbs_bounce(v, entry);
        *lkey = v->bounce_mr->lkey;
        return 0;
    }
    memcpy(entry->saved, recv->buf, sizeof entry->saved);
    if (recv->region != 0) {
        *lkey = (uint32_t)recv->region;
        return 0;
    }
    entry->region = verbs_region_get(v->regions, recv->buf, recv->size, IBV_ACCESS_LOCAL_WRITE);
    if (entry->region == NULL) {
        LOG_DEBUG("verbs: memory of %zu bytes cannot be registered: %s", recv->size,
                  strerror(errno));
        verbs_withdraw(v, entry);
        return -EAGAIN;
    }
    *lkey = entry->region->mr->lkey;
    return 0;
}

static int post_append(struct verbs *v, struct verbs_entry *entry,
                       const struct mbx_device_recv *recv, uint32_t lkey, uint16_t handled)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)entry->memory,
        .length = (uint32_t)min_size(max_size(recv->size, v->limits.eager_max), VERBS_READ_MAX),
        .lkey = lkey,
    };
    const uint64_t mask = verbs_mask(v->config.layout, &recv->envelope, recv->ignore);
    struct ibv_ops_wr wr = {
        .wr_id = verbs_work_id(VERBS_ADD, recv->handle),
        .opcode = IBV_WR_TAG_ADD,
        .tm.add = {.recv_wr_id = verbs_work_id(VERBS_RECV, recv->handle),
                   .sg_list = &sge,
                   .num_sge = 1,
                   .tag = verbs_tag(v->config.layout, &recv->envelope) & mask,
                   .mask = mask},
    };
    int err = verbs_post(v, &wr, handled);

    if (err == 0)
        entry->list_handle = wr.tm.handle;
    return err;
}

/* Do the bits of verbs_tag() tell apart all messages that recv tells apart? */
static bool fits_tag(const struct verbs *v, const struct mbx_device_recv *recv)
{
    const struct mbx_device_envelope *envelope = &recv->envelope;
    const struct mbx_device_limits *limits = &v->limits;

    return (envelope->context_id ^ limits->context_id) >> limits->context_bits == 0 &&
           (envelope->source == MBX_DEVICE_ANY_SOURCE_ID ||
            envelope->source >> limits->source_bits == 0) &&
           (envelope->tag & ~recv->ignore & ~limits->tag_mask) == 0;
}

static int verbs_append(struct mbx_device *device, const struct mbx_device_recv *recv,
                        uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    struct verbs_entry *entry = &v->entries[recv->handle];
    uint32_t lkey;
    int err = check_space(v);

    assert(recv->handle < v->list);
    assert(fits_tag(v, recv));
    if (err != 0)
        return err;
    if (v->held_count == v->list)
        return -ENOSPC;
    err = register_entry(v, entry, recv, &lkey);
    if (err != 0)
        return err;
    err = post_append(v, entry, recv, lkey, handled);
    if (err != 0) {
        verbs_withdraw(v, entry);
        return err;
    }
    list_add_tail(&v->held, &entry->node);
    v->held_count++;
    return 0;
}

static int post_revoke(struct verbs *v, uint32_t handle, uint16_t handled)
{
    struct verbs_entry *entry = &v->entries[handle];
    struct ibv_ops_wr wr = {
        .wr_id = verbs_work_id(VERBS_DEL, handle),
        .opcode = IBV_WR_TAG_DEL,
        .tm.handle = entry->list_handle,
    };
    int err = verbs_post(v, &wr, handled);

    entry->is_revoked |= err == 0;
    return err;
}

/* A command that only reports the count; it completes when all earlier commands are done. */
static int post_sync(struct verbs *v, enum verbs_kind kind, uint32_t number, uint16_t handled)
{
    struct ibv_ops_wr wr = {.wr_id = verbs_work_id(kind, number), .opcode = IBV_WR_TAG_SYNC};

    return verbs_post(v, &wr, handled);
}

static bool can_revoke(const struct verbs_entry *entry)
{
    return list_is_linked(&entry->node) && !entry->is_revoked;
}

static int verbs_revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    int err = check_space(v);

    assert(handle < v->list);
    if (err != 0)
        return err;
    return can_revoke(&v->entries[handle]) ? post_revoke(v, handle, handled)
                                           : post_sync(v, VERBS_MISSED, handle, handled);
}

/* One SYNC at a time: a second one would take the space of more useful commands. */
static int verbs_sync(struct mbx_device *device, uint16_t handled)
{
    struct verbs *v = verbs_of(device);
    int err = check_space(v);

    if (err == 0 && v->is_syncing)
        err = -EAGAIN;
    if (err == 0)
        err = post_sync(v, VERBS_SYNC, 0, handled);
    if (err == 0)
        v->is_syncing = true;
    return err;
}

/* If registration fails (RLIMIT_MEMLOCK), buffers are registered one by one, as many as
 * possible. */
static void verbs_prepare(struct mbx_device *device, void *memory, size_t size)
{
    struct verbs *v = verbs_of(device);

    assert(v->prepared == NULL);
    v->prepared = ibv_reg_mr(v->pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
}

static bool is_prepared(const struct verbs *v, const void *memory)
{
    size_t offset =
        (uintptr_t)memory - (v->prepared != NULL ? (uintptr_t)v->prepared->addr : 0);

    return v->prepared != NULL && offset < v->prepared->length &&
           v->limits.untagged_size <= v->prepared->length - offset;
}

static int register_buffer(struct verbs *v, struct verbs_buffer *buffer, void *memory)
{
    if (buffer->memory == memory)
        return 0;
    verbs_deregister(&buffer->mr);
    buffer->memory = NULL;
    if (is_prepared(v, memory)) {
        buffer->lkey = v->prepared->lkey;
    } else {
        buffer->mr = ibv_reg_mr(v->pd, memory, v->limits.untagged_size, IBV_ACCESS_LOCAL_WRITE);
        if (buffer->mr == NULL)
            return -EAGAIN;
        buffer->lkey = buffer->mr->lkey;
    }
    buffer->memory = memory;
    return 0;
}

int verbs_post_buffer(struct verbs *v, uint32_t number)
{
    struct ibv_recv_wr wr = {.wr_id = verbs_work_id(VERBS_BUFFER, number), .num_sge = 1}, *bad;
    struct ibv_sge sge = {
        .addr = (uintptr_t)v->buffers[number].memory + VERBS_HEADROOM,
        .length = (uint32_t)(v->limits.untagged_size - VERBS_HEADROOM),
        .lkey = v->buffers[number].lkey,
    };

    wr.sg_list = &sge;
    return post_error(ibv_post_srq_recv(v->srq, &wr, &bad));
}

static int verbs_replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct verbs *v = verbs_of(device);
    int err;

    assert(buffer < v->untagged);
    if (v->is_failing)
        return -ENODEV;
    err = register_buffer(v, &v->buffers[buffer], memory);
    return err != 0 ? err : verbs_post_buffer(v, buffer);
}

void verbs_settle(struct verbs *v, struct verbs_entry *entry)
{
    list_remove(&entry->node);
    v->held_count--;
}

const struct mbx_device_ops verbs_ops = {
    .name = "verbs",
    .about = "hardware that matches tags, through libibverbs",
    .close = verbs_close,
    .limits = verbs_limits,
    .configure = verbs_configure,
    .prepare = verbs_prepare,
    .replenish = verbs_replenish,
    .append = verbs_append,
    .revoke = verbs_revoke,
    .sync = verbs_sync,
    .poll = verbs_poll,
};
