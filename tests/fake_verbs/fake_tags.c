/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_tags.c - the tag-matching receive queue of the fake device, and its completions.
 *
 *   post_srq_ops ──> commands ──┐                 ┌── MATCH | DATA_VALID
 *   post_srq_recv ─> buffers ───┼─> struct tm_unit ──┼── MATCH, later DATA_VALID
 *   post_send ─────> arrivals ──┘                 └── unexpected, or not tagged
 *
 * What drivers are known to do differently is done by chance: an unexpected message is
 * TM_RECV without flags or plain RECV, and a request to synchronise may come without need.
 * The length of a message comes with DATA_VALID, its tag with MATCH; at the other time both
 * are rubbish.
 */
#include "fake.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUBBISH 0xdeadbeef

/* ---- completions ---- */

static bool coin(struct fake_srq *srq)
{
    return random_below(&fake_context_of(srq->srq.context)->random, 2) == 0;
}

static void complete(struct fake_srq *srq, struct fake_completion completion)
{
    struct fake_cq *cq = srq->cq;

    if (cq->count == cq->size)
        fake_abort("a completion queue of %u is full", cq->size);
    if (coin(srq))
        completion.flags |= IBV_WC_TM_SYNC_REQ;
    cq->ring[(cq->first + cq->count++) % cq->size] = completion;
}

/* The program sees the next completion; a slot that nothing names any more is free. */
static int advance(struct fake_cq *cq)
{
    if (cq->count == 0)
        return ENOENT;
    cq->now = cq->ring[cq->first];
    cq->first = (cq->first + 1) % cq->size;
    cq->count--;
    cq->cq.wr_id = cq->now.wr_id;
    cq->cq.status = cq->now.status;
    if (cq->now.releases > cq->srq->slots[cq->now.slot].expected)
        fake_abort("a completion that nobody expected");
    cq->srq->slots[cq->now.slot].expected -= cq->now.releases;
    return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    struct fake_cq *fake = container_of(cq, struct fake_cq, cq);
    struct fake_context *context = fake_context_of(cq->context);

    if (attr->comp_mask != 0)
        return EINVAL;
    fake_wander(context);
    if (fake->count == 0)
        fake_step(context);
    if (fake->count == 0 && context->is_lost)
        return EIO;
    return advance(fake);
}

static int next_poll(struct ibv_cq_ex *cq)
{
    return advance(container_of(cq, struct fake_cq, cq));
}

static void end_poll(struct ibv_cq_ex *cq)
{
    (void)cq;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return container_of(cq, struct fake_cq, cq)->now.opcode;
}

static unsigned read_flags(struct ibv_cq_ex *cq)
{
    return container_of(cq, struct fake_cq, cq)->now.flags;
}

static uint32_t read_bytes(struct ibv_cq_ex *cq)
{
    return container_of(cq, struct fake_cq, cq)->now.bytes;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
    *info = container_of(cq, struct fake_cq, cq)->now.info;
}

struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *context,
                                    struct ibv_cq_init_attr_ex *attr)
{
    struct fake_cq *cq = fake_calloc(1, sizeof *cq);

    cq->cq = (struct ibv_cq_ex){
        .context = context,
        .cqe = (int)attr->cqe,
        .start_poll = start_poll,
        .next_poll = next_poll,
        .end_poll = end_poll,
        .read_opcode = read_opcode,
        .read_wc_flags = read_flags,
        .read_byte_len = attr->wc_flags & IBV_WC_EX_WITH_BYTE_LEN ? read_bytes : NULL,
        .read_tm_info = attr->wc_flags & IBV_WC_EX_WITH_TM_INFO ? read_tm_info : NULL,
    };
    cq->size = attr->cqe;
    cq->ring = fake_calloc(cq->size, sizeof *cq->ring);
    fake_context_of(context)->open++;
    return &cq->cq;
}

/* ---- the queue ---- */

/* The engine says here whether a DEL has found its entry. */
static void emitted(void *arg, const struct mbx_device_event *event)
{
    ((struct fake_srq *)arg)->has_failed = event->error != 0;
}

struct ibv_srq *fake_create_srq_ex(struct ibv_context *context,
                                   struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                            IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    struct fake_srq *srq;

    if (attr->comp_mask != needed || attr->srq_type != IBV_SRQT_TM) {
        errno = EINVAL;
        return NULL;
    }
    srq = fake_calloc(1, sizeof *srq);
    srq->srq.context = context;
    srq->srq.pd = attr->pd;
    srq->cq = (struct fake_cq *)attr->cq;
    srq->cq->srq = srq;
    srq->list = attr->tm_cap.max_num_tags;
    srq->slots = fake_calloc(srq->list, sizeof *srq->slots);
    srq->commands_size = attr->tm_cap.max_ops;
    srq->commands = fake_calloc(srq->commands_size, sizeof *srq->commands);
    srq->buffers_size = attr->attr.max_wr;
    srq->buffers = fake_calloc(srq->buffers_size, sizeof *srq->buffers);
    if (tm_init(&srq->unit,
                &(struct tm_config){.list = srq->list, .emit = emitted, .arg = srq}) != 0)
        fake_abort("no memory");
    list_add_tail(&fake_context_of(context)->queues, &srq->node);
    fake_context_of(context)->open++;
    return &srq->srq;
}

void fake_srq_fini(struct fake_srq *srq)
{
    tm_fini(&srq->unit);
    for (uint32_t i = 0; i < srq->list; i++)
        free(srq->slots[i].moving);
    free(srq->slots);
    free(srq->commands);
    free(srq->buffers);
}

/* ---- commands ---- */

static int find_slot(const struct fake_srq *srq, uint32_t *slot)
{
    for (uint32_t i = 0; i < srq->list; i++) {
        if (srq->slots[i].expected == 0) {
            *slot = i;
            return 0;
        }
    }
    return ENOMEM;
}

static int add(struct fake_srq *srq, struct ibv_ops_wr *wr, struct tm_command *command)
{
    struct fake_slot *slot;
    int err = find_slot(srq, &wr->tm.handle);

    if (err != 0)
        return err;
    if ((wr->tm.add.tag & wr->tm.add.mask) != wr->tm.add.tag)
        fake_abort("tag %#lx has bits outside its mask %#lx", (unsigned long)wr->tm.add.tag,
                   (unsigned long)wr->tm.add.mask);
    slot = &srq->slots[wr->tm.handle];
    *slot = (struct fake_slot){.wr_id = wr->tm.add.recv_wr_id, .expected = 2};
    if (wr->tm.add.num_sge > 0)
        slot->sge = wr->tm.add.sg_list[0];
    fake_check_memory(fake_context_of(srq->srq.context), &slot->sge);
    command->type = TM_APPEND;
    command->envelope.tag = wr->tm.add.tag;
    command->ignore = ~wr->tm.add.mask;
    return 0;
}

static int del(struct fake_srq *srq, struct ibv_ops_wr *wr, struct tm_command *command)
{
    if (wr->tm.handle >= srq->list || srq->slots[wr->tm.handle].expected == 0)
        fake_abort("handle %u is not in use", wr->tm.handle);
    srq->slots[wr->tm.handle].expected++;
    command->type = TM_REVOKE;
    return 0;
}

/* One command, which asks for a completion and reports. */
static int post_one(struct fake_srq *srq, struct ibv_ops_wr *wr)
{
    struct tm_command command = {.type = TM_SYNC, .handled = (uint16_t)wr->tm.unexpected_cnt};
    int err = 0;

    if (wr->flags != (IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))
        return EINVAL;
    if (fake_context_of(srq->srq.context)->is_lost)
        return EIO;
    if (srq->commands_count == srq->commands_size)
        return ENOMEM;
    if (wr->opcode == IBV_WR_TAG_ADD)
        err = add(srq, wr, &command);
    else if (wr->opcode == IBV_WR_TAG_DEL)
        err = del(srq, wr, &command);
    if (err != 0)
        return err;
    command.handle = wr->tm.handle;
    srq->commands[(srq->commands_first + srq->commands_count++) % srq->commands_size] =
        (struct fake_command){command, *wr};
    return 0;
}

int fake_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
    struct fake_srq *fake = container_of(srq, struct fake_srq, srq);

    for (; wr != NULL; wr = wr->next) {
        int err = post_one(fake, wr);

        *bad = wr;
        if (err != 0)
            return err;
    }
    fake_wander(fake_context_of(srq->context));
    return 0;
}

bool fake_command_step(struct fake_srq *srq)
{
    struct fake_command *next = &srq->commands[srq->commands_first];
    const bool is_add = next->wr.opcode == IBV_WR_TAG_ADD;
    const bool is_del = next->wr.opcode == IBV_WR_TAG_DEL;
    struct fake_completion completion = {
        .wr_id = next->wr.wr_id, .opcode = IBV_WC_TM_SYNC, .slot = next->wr.tm.handle};

    if (srq->commands_count == 0)
        return false;
    if (tm_command(&srq->unit, &next->command) != 0)
        fake_abort("a command makes no sense");
    if (is_add) {
        completion.opcode = IBV_WC_TM_ADD;
        completion.releases = 1;
    } else if (is_del) {
        completion.opcode = IBV_WC_TM_DEL;
        completion.status = srq->has_failed ? IBV_WC_TM_ERR : IBV_WC_SUCCESS;
        completion.releases = srq->has_failed ? 1 : 2;
    } else {
        completion.slot = 0;
    }
    complete(srq, completion);
    srq->commands_first = (srq->commands_first + 1) % srq->commands_size;
    srq->commands_count--;
    return true;
}

int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_srq *fake = container_of(srq, struct fake_srq, srq);

    *bad = wr;
    if (fake->buffers_count == fake->buffers_size || wr->num_sge != 1 || wr->next != NULL)
        return ENOMEM;
    fake_check_memory(fake_context_of(srq->context), wr->sg_list);
    fake->buffers[(fake->buffers_first + fake->buffers_count++) % fake->buffers_size] =
        (struct fake_buffer){wr->wr_id, wr->sg_list[0]};
    fake_wander(fake_context_of(srq->context));
    return 0;
}

/* ---- arrivals ---- */

static void write_memory(struct fake_srq *srq, const struct ibv_sge *sge, const void *bytes,
                         uint32_t size)
{
    fake_check_memory(fake_context_of(srq->srq.context), sge);
    if (size != 0)
        memcpy((void *)(uintptr_t)sge->addr, bytes, size);
}

/* The data of a matched message is there. */
static void land(struct fake_srq *srq, uint32_t number, struct fake_packet *packet,
                 unsigned flags, struct ibv_wc_tm_info info)
{
    struct fake_slot *slot = &srq->slots[number];
    const uint32_t size = packet->size - (uint32_t)sizeof(struct ibv_tmh);
    const bool fits = size <= slot->sge.length;

    if (fits)
        write_memory(srq, &slot->sge, packet->bytes + sizeof(struct ibv_tmh), size);
    tm_release(&srq->unit, &srq->unit.entries[number]);
    complete(srq, (struct fake_completion){.wr_id = slot->wr_id,
                                           .status = fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR,
                                           .opcode = IBV_WC_TM_RECV,
                                           .flags = flags | IBV_WC_TM_DATA_VALID,
                                           .bytes = size,
                                           .info = info,
                                           .slot = number,
                                           .releases = 1});
    free(packet);
}

static void arrive_matched(struct fake_srq *srq, uint32_t number, struct fake_packet *packet,
                           const struct ibv_tmh *tmh)
{
    const struct ibv_wc_tm_info info = {be64toh(tmh->tag), be32toh(tmh->app_ctx)};

    if (packet->size - sizeof *tmh <= FAKE_MTU) {
        land(srq, number, packet, IBV_WC_TM_MATCH, info);
        return;
    }
    srq->slots[number].moving = packet;
    complete(srq, (struct fake_completion){.wr_id = srq->slots[number].wr_id,
                                           .opcode = IBV_WC_TM_RECV,
                                           .flags = IBV_WC_TM_MATCH,
                                           .bytes = RUBBISH,
                                           .info = info});
}

bool fake_transfer_step(struct fake_srq *srq)
{
    for (uint32_t i = 0; i < srq->list; i++) {
        struct fake_packet *packet = srq->slots[i].moving;

        if (packet == NULL)
            continue;
        srq->slots[i].moving = NULL;
        land(srq, i, packet, 0, (struct ibv_wc_tm_info){RUBBISH, RUBBISH});
        return true;
    }
    return false;
}

static void arrive_unmatched(struct fake_srq *srq, struct fake_packet *packet, bool is_tagged)
{
    const struct fake_buffer *buffer = &srq->buffers[srq->buffers_first];
    const bool fits = packet->size <= buffer->sge.length;

    if (fits)
        write_memory(srq, &buffer->sge, packet->bytes, packet->size);
    if (is_tagged)
        tm_found(&srq->unit);
    complete(srq, (struct fake_completion){.wr_id = buffer->wr_id,
                                           .status = fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR,
                                           .opcode = !is_tagged  ? IBV_WC_TM_NO_TAG
                                                     : coin(srq) ? IBV_WC_TM_RECV
                                                                 : IBV_WC_RECV,
                                           .bytes = packet->size,
                                           .info = {RUBBISH, RUBBISH}});
    srq->buffers_first = (srq->buffers_first + 1) % srq->buffers_size;
    srq->buffers_count--;
    free(packet);
}

bool fake_arrival_step(struct fake_qp *qp)
{
    struct list *node = list_first(&qp->arrivals);
    struct fake_packet *packet;
    struct tm_entry *entry = NULL;
    struct ibv_tmh tmh;

    if (node == NULL || qp->srq == NULL || qp->qp.state == IBV_QPS_ERR)
        return false;
    packet = container_of(node, struct fake_packet, node);
    if (packet->size < sizeof tmh)
        fake_abort("a packet of %u bytes has no header", packet->size);
    memcpy(&tmh, packet->bytes, sizeof tmh);
    if (tmh.opcode == IBV_TMH_EAGER)
        entry =
            tm_match(&qp->srq->unit, &(struct mbx_device_envelope){.tag = be64toh(tmh.tag)});
    if (entry == NULL && qp->srq->buffers_count == 0)
        return false; /* the sender is held back */
    list_remove(node);
    if (entry != NULL)
        arrive_matched(qp->srq, tm_handle(&qp->srq->unit, entry), packet, &tmh);
    else
        arrive_unmatched(qp->srq, packet,
                         tmh.opcode == IBV_TMH_EAGER || tmh.opcode == IBV_TMH_RNDV);
    return true;
}
