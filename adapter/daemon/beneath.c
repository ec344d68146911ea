/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beneath.c - no adapter is beneath: this adapter is emulated completely.
 *
 * The key of a region is its handle.
 */
#include <errno.h>

#include "adapter/daemon/daemon.h"

int beneath_pd(struct pd *pd)
{
    (void)pd;
    return 0;
}

void beneath_pd_end(struct pd *pd)
{
    (void)pd;
}

int beneath_mr(struct mr *mr)
{
    mr->lkey = mr->rkey = mr->object.handle;
    return 0;
}

int beneath_mr_change(struct mr *mr, const struct mr *changed, uint32_t flags)
{
    (void)mr, (void)changed, (void)flags;
    return 0;
}

void beneath_mr_end(struct mr *mr)
{
    (void)mr;
}

struct mr *beneath_mr_of_key(uint32_t lkey)
{
    return object_any(KIND_MR, lkey);
}

int beneath_cq(struct cq *cq)
{
    (void)cq;
    return 0;
}

void beneath_cq_end(struct cq *cq)
{
    (void)cq;
}

int beneath_srq(struct srq *srq, const struct ibv_srq_attr *attr)
{
    (void)srq, (void)attr;
    return 0;
}

void beneath_srq_end(struct srq *srq)
{
    (void)srq;
}

int beneath_srq_limit(struct srq *srq, uint32_t limit)
{
    (void)srq, (void)limit;
    return -ENOSYS;
}

int beneath_query(const struct adapter_request *request, struct adapter_reply *reply)
{
    (void)request, (void)reply;
    return -EOPNOTSUPP; /* the library answers these itself */
}

bool beneath_poll(void)
{
    return false;
}

bool beneath_is_quiet(void)
{
    return true;
}

bool beneath_is_lost(void)
{
    return false;
}
