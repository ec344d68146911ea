/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm.c - operations on a matching list, and its handles.
 *
 * A handle is in use while completions that can name it are outstanding, and free when the last
 * of them has been polled, as in a hardware driver: an ADD has its own completion, if signaled,
 * and the completion that reports its data; a DEL has one more.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "adapter/library/library.h"

void lib_tm_begin(struct lib_srq *srq, struct ibv_cq *cq, const struct adapter_request *request,
                  void *commands)
{
    struct lib_cq *own = container_of(cq, struct lib_cq, cq);

    srq->cq = own;
    srq->tags = request->srq.tags;
    ring_init(&srq->commands, commands, request->srq.ops, sizeof(struct adapter_command));
    pthread_mutex_lock(&own->lock);
    srq->next = own->matching;
    own->matching = srq;
    pthread_mutex_unlock(&own->lock);
}

void lib_tm_end(struct lib_srq *srq)
{
    struct lib_srq **link;

    if (srq->cq == NULL)
        return;
    pthread_mutex_lock(&srq->cq->lock);
    for (link = &srq->cq->matching; *link != NULL; link = &(*link)->next) {
        if (*link == srq) {
            *link = srq->next;
            break;
        }
    }
    pthread_mutex_unlock(&srq->cq->lock);
}

void lib_tm_polled(struct lib_cq *cq, const struct adapter_cqe *cqe)
{
    for (struct lib_srq *srq = cq->matching; srq != NULL; srq = srq->next) {
        if (srq->srq.handle != cqe->srq)
            continue;
        pthread_mutex_lock(&srq->lock);
        if (cqe->commands > srq->performed)
            srq->performed = cqe->commands;
        if (cqe->releases > 0 && cqe->handle < srq->tags)
            srq->expected[cqe->handle] -=
                (uint8_t)min_size(cqe->releases, srq->expected[cqe->handle]);
        pthread_mutex_unlock(&srq->lock);
    }
}

/* Refuses an operation that hardware would accept, but that would match nothing or the wrong
 * message. */
static int refuse(const char *why)
{
    fprintf(stderr, "mbx-adapter: an operation on a matching list: %s\n", why);
    return EINVAL;
}

static int add(struct lib_srq *srq, struct ibv_ops_wr *wr, struct adapter_command *command)
{
    uint32_t handle = 0;

    if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > 1)
        return refuse("a receive has one buffer, or none");
    if ((wr->tm.add.tag & wr->tm.add.mask) != wr->tm.add.tag)
        return refuse("the tag has bits outside the mask: it would match nothing");
    while (handle < srq->tags && srq->expected[handle] != 0)
        handle++;
    if (handle == srq->tags)
        return ENOMEM;
    wr->tm.handle = handle;
    srq->expected[handle] = wr->flags & IBV_OPS_SIGNALED ? 2 : 1;
    command->recv_wr_id = wr->tm.add.recv_wr_id;
    command->tag = wr->tm.add.tag;
    command->mask = wr->tm.add.mask;
    if (wr->tm.add.num_sge > 0)
        command->sge = wr->tm.add.sg_list[0];
    return 0;
}

static int del(struct lib_srq *srq, const struct ibv_ops_wr *wr)
{
    if (wr->tm.handle >= srq->tags || srq->expected[wr->tm.handle] == 0)
        return refuse("the handle of a DEL is not in use (any more)");
    if (!(wr->flags & IBV_OPS_SIGNALED))
        return refuse(
            "a DEL without IBV_OPS_SIGNALED: nobody would hear whether it came too late");
    srq->expected[wr->tm.handle]++;
    return 0;
}

static int post(struct lib_srq *srq, struct ibv_ops_wr *wr)
{
    struct adapter_command command = {.wr_id = wr->wr_id,
                                      .opcode = wr->opcode,
                                      .flags = (uint32_t)wr->flags,
                                      .unexpected = wr->tm.unexpected_cnt};
    const uint64_t tail = srq->commands.tail;
    int err = 0;

    if (tail - srq->performed >= srq->commands.size || !ring_has_space(&srq->commands, tail))
        return ENOMEM;
    if (wr->opcode == IBV_WR_TAG_ADD)
        err = add(srq, wr, &command);
    else if (wr->opcode == IBV_WR_TAG_DEL)
        err = del(srq, wr);
    else if (wr->opcode != IBV_WR_TAG_SYNC)
        err = EINVAL;
    if (err != 0)
        return err;
    command.handle = wr->tm.handle;
    if (wr->opcode == IBV_WR_TAG_SYNC)
        command.handle = 0;
    memcpy(srq->commands.entries + tail % srq->commands.size * srq->commands.stride, &command,
           sizeof command);
    srq->commands.tail++;
    return 0;
}

int lib_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
    struct lib_srq *own = container_of(srq, struct lib_srq, srq);
    struct lib_context *context = lib_context(srq->context);
    int err = own->cq == NULL ? EOPNOTSUPP : context->is_lost ? EIO : 0;

    *bad = wr;
    if (err != 0)
        return err;
    pthread_mutex_lock(&own->lock);
    for (; wr != NULL; wr = wr->next) {
        err = post(own, wr);
        if (err != 0) {
            *bad = wr;
            break;
        }
    }
    atomic_store_explicit(&own->commands.ring->tail, own->commands.tail, memory_order_release);
    pthread_mutex_unlock(&own->lock);
    control_ring(context);
    return err;
}
