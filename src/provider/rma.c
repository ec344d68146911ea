/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - all forms of fi_read and fi_write.
 *
 * A call names local pieces and remote pieces.  Each stretch that lies in one piece on both
 * sides is one Matchbox access.  The call's record counts the accesses, and the call completes with
 * the last.  With one piece on either side, the common case, there is one access.
 *
 *   here   |-------a-------|---b---|          accesses  a1, a2, b2
 *   there  |---1---|-------2-------|
 *
 * A write is complete when the target has it in its memory, whatever completion level was
 * requested.  Remote CQ data travels with the last access, which the target performs last.
 */
#include "provider/data.h"
#include "provider/event.h"
#include "provider/rma.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define WRITE_FLAGS                                                                            \
    (FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE |            \
     FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define READ_FLAGS                                                                             \
    (FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)

/* One one-sided call. */
struct transfer {
    bool is_write;
    const struct iovec *iov;
    size_t iov_count;
    const struct fi_rma_iov *rma;
    size_t rma_count;
    fi_addr_t peer;
    uint64_t data;
    void *context;
    bool quiet;
    unsigned flags; /* MBX_REMOTE_DATA, MBX_COPY */
};

/* ---- records ----------------------------------------------------------------------------- */

struct prov_op *prov_access_op(struct prov_ep *ep, enum prov_op_kind kind, void *context,
                               bool quiet, uint64_t flags)
{
    struct prov_op *op = prov_op_get(&ep->ops);

    if (op == NULL)
        return NULL;
    op->context = context;
    op->kind = kind;
    op->quiet = quiet;
    op->bounce = NULL;
    op->flags = flags;
    op->parts = 0;
    op->error = 0;
    return op;
}

ssize_t prov_access_begun(struct prov_ep *ep, struct prov_op *op, int err)
{
    if (err == 0)
        return 0;
    if (op->parts != 0) { /* too late to refuse: the call completes with this error */
        op->error = err;
        return 0;
    }
    free(op->bounce);
    prov_op_put(&ep->ops, op);
    return prov_ep_again(ep, err);
}

unsigned prov_access_finish(struct prov_ep *ep, struct prov_op *op,
                            const struct mbx_completion *c, struct prov_event *event)
{
    bool reports;

    *event = (struct prov_event){.source = FI_ADDR_NOTAVAIL};
    if (c->error != 0 && op->error == 0)
        op->error = c->error;
    assert(op->parts != 0);
    if (--op->parts != 0)
        return 0;
    if (ep->cntrs.counts)
        prov_count_op(&ep->cntrs, op->kind, op->error);
    event->context = op->context;
    event->flags = op->flags;
    event->error = -op->error;
    event->prov_errno = -op->error;
    reports = op->error != 0 || !op->quiet;
    free(op->bounce);
    op->bounce = NULL;
    prov_op_put(&ep->ops, op);
    return reports ? PROV_FINISH_EVENT : 0;
}

/* ---- accesses ------------------------------------------------------------------------------
 */

static size_t rma_size(const struct transfer *t)
{
    size_t size = 0;

    for (size_t i = 0; i < t->rma_count; i++)
        size += t->rma[i].len > PROV_MESSAGE_MAX ? PROV_MESSAGE_MAX + 1 : t->rma[i].len;
    return size;
}

/* Starts one access: size bytes from `here` and `there` into the current pieces. */
static int stretch(struct prov_ep *ep, const struct transfer *t, uint32_t peer,
                   struct prov_op *op, char *buf, uint64_t at, uint64_t key, size_t size,
                   bool is_last)
{
    const struct mbx_options options = {
        .user = op,
        .data = t->data,
        .flags = is_last ? t->flags : t->flags & ~(unsigned)MBX_REMOTE_DATA,
    };
    int err = t->is_write ? mbx_write(ep->mbx, peer, buf, size, key, at, &options, NULL)
                          : mbx_read(ep->mbx, peer, buf, size, key, at, &options, NULL);

    op->parts += err == 0;
    return err;
}

/* Starts all accesses; the pieces of both sides have the same total size. */
static int stretches(struct prov_ep *ep, const struct transfer *t, uint32_t peer,
                     struct prov_op *op, size_t left)
{
    size_t i = 0, k = 0, here = 0, there = 0;
    int err = 0;

    if (left == 0)
        return stretch(ep, t, peer, op, NULL, t->rma_count != 0 ? t->rma[0].addr : 0,
                       t->rma_count != 0 ? t->rma[0].key : 0, 0, true);
    while (left != 0 && err == 0) {
        size_t size = t->iov[i].iov_len - here;

        if (size > t->rma[k].len - there)
            size = t->rma[k].len - there;
        left -= size;
        if (size != 0)
            err = stretch(ep, t, peer, op, (char *)t->iov[i].iov_base + here,
                          t->rma[k].addr + there, t->rma[k].key, size, left == 0);
        here += size;
        there += size;
        if (here == t->iov[i].iov_len)
            i++, here = 0;
        if (there == t->rma[k].len)
            k++, there = 0;
    }
    return err;
}

/* Copies data longer than Matchbox copies itself, as the announced limit allows; *iov is the
 * copy. */
static int bounce_for(const struct prov_ep *ep, struct transfer *t, size_t size,
                      struct prov_op *op, struct iovec *iov)
{
    char *to;

    if (!(t->flags & MBX_COPY) || size <= ep->send.inject_limit)
        return 0;
    op->bounce = malloc(sizeof *op->bounce + size);
    if (op->bounce == NULL)
        return -ENOMEM;
    to = op->bounce->data;
    *iov = (struct iovec){.iov_base = to, .iov_len = size};
    for (size_t i = 0; i < t->iov_count; i++) {
        if (t->iov[i].iov_len != 0)
            memcpy(to, t->iov[i].iov_base, t->iov[i].iov_len);
        to += t->iov[i].iov_len;
    }
    t->iov = iov;
    t->iov_count = 1;
    t->flags &= ~(unsigned)MBX_COPY;
    return 0;
}

static ssize_t transfer_start(struct prov_ep *ep, struct transfer *t, size_t size)
{
    uint64_t flags = FI_RMA | (t->is_write ? FI_WRITE : FI_READ);
    struct iovec whole;
    struct prov_op *op;
    uint32_t peer;
    int err = prov_peer(ep, t->peer, &peer);

    if (err < 0)
        return err;
    op = prov_access_op(ep, t->is_write ? PROV_OP_WRITE : PROV_OP_READ, t->context, t->quiet,
                        flags);
    if (op == NULL)
        return prov_ep_again(ep, -ENOMEM);
    err = bounce_for(ep, t, size, op, &whole);
    if (err == 0)
        err = stretches(ep, t, peer, op, size);
    return prov_access_begun(ep, op, err);
}

static ssize_t transfer(struct prov_ep *ep, struct transfer *t)
{
    ssize_t size = prov_iov_size(t->iov, t->iov_count), err;

    if (size < 0 || t->rma_count > PROV_IOV_LIMIT || rma_size(t) != (size_t)size)
        return -FI_EINVAL;
    if ((t->flags & MBX_COPY) && size > PROV_INJECT_SIZE)
        return -FI_EMSGSIZE;
    prov_ep_lock(ep);
    err = transfer_start(ep, t, (size_t)size);
    prov_ep_unlock(ep);
    return err;
}

/* A transfer between a local vector and one remote piece, with the flags of the endpoint. */
static ssize_t transfer_vector(struct fid_ep *fid, bool is_write, const struct iovec *iov,
                               size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                               uint64_t data, unsigned flags, void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    ssize_t size = prov_iov_size(iov, count);
    const struct fi_rma_iov there = {.addr = addr, .len = (size_t)size, .key = key};
    struct transfer t = {
        .is_write = is_write,
        .iov = iov,
        .iov_count = count,
        .rma = &there,
        .rma_count = 1,
        .peer = peer,
        .data = data,
        .context = context,
        .quiet = ep->send.quiet,
        .flags = flags | (is_write && ep->send.flags & FI_INJECT ? MBX_COPY : 0),
    };

    return size < 0 ? -FI_EINVAL : transfer(ep, &t);
}

static ssize_t transfer_one(struct fid_ep *fid, bool is_write, const void *buf, size_t len,
                            fi_addr_t peer, uint64_t addr, uint64_t key, uint64_t data,
                            unsigned flags, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return transfer_vector(fid, is_write, &iov, 1, peer, addr, key, data, flags, context);
}

static ssize_t transfer_msg(struct fid_ep *fid, bool is_write, const struct fi_msg_rma *msg,
                            uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct transfer t = {
        .is_write = is_write,
        .iov = msg->msg_iov,
        .iov_count = msg->iov_count,
        .rma = msg->rma_iov,
        .rma_count = msg->rma_iov_count,
        .peer = msg->addr,
        .data = flags & FI_REMOTE_CQ_DATA ? msg->data : 0,
        .context = msg->context,
        .quiet = ep->send.selective && !(flags & FI_COMPLETION),
        .flags = (flags & FI_REMOTE_CQ_DATA ? MBX_REMOTE_DATA : 0) |
                 (flags & FI_INJECT ? MBX_COPY : 0),
    };

    if (flags & ~(is_write ? WRITE_FLAGS : READ_FLAGS))
        return -FI_EBADFLAGS;
    return transfer(ep, &t);
}

/* ---- calls
 * ----------------------------------------------------------------------------------- */

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return transfer_one(ep, false, buf, len, src, addr, key, 0, 0, context);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return transfer_vector(ep, false, iov, count, src, addr, key, 0, 0, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return transfer_msg(ep, false, msg, flags);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return transfer_one(ep, true, buf, len, dest, addr, key, 0, 0, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return transfer_vector(ep, true, iov, count, dest, addr, key, 0, 0, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return transfer_msg(ep, true, msg, flags);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    (void)desc;
    return transfer_one(ep, true, buf, len, dest, addr, key, data, MBX_REMOTE_DATA, context);
}

static ssize_t inject(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                      fi_addr_t dest, uint64_t addr, uint64_t key, unsigned flags)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov there = {.addr = addr, .len = len, .key = key};
    struct transfer t = {
        .is_write = true,
        .iov = &iov,
        .iov_count = 1,
        .rma = &there,
        .rma_count = 1,
        .peer = dest,
        .data = data,
        .quiet = true,
        .flags = flags | MBX_COPY,
    };

    return transfer(prov_ep_of(fid), &t);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return inject(ep, buf, len, 0, dest, addr, key, 0);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    return inject(ep, buf, len, data, dest, addr, key, MBX_REMOTE_DATA);
}

struct fi_ops_rma prov_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
