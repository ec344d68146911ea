/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - all forms of fi_send, tagged and untagged.
 *
 *   form                   travels as     completion
 *   inject, injectdata     mbx_inject     none
 *   send, senddata         mbx_send       unless selective without FI_COMPLETION
 *   MATCH_COMPLETE         mbx_ssend      when matched
 *   several pieces, INJECT a copy first, then as above
 *
 * DELIVERY_COMPLETE is mbx_send too.  It completes when the receiving side can take the message
 * without us: the message is in the receiver's shared memory, or has been read.  mbx_close()
 * keeps that promise.
 *
 * Invariant
 *   I1  `sent` has the sends that completed at once, in their order; sent_end is where the
 *       next one is added
 *
 * A lack of memory means -FI_EAGAIN, after progress, while operations are active: clients call
 * again in a loop, some without reading a completion queue.  Otherwise it means -FI_ENOMEM.
 */
#include "provider/data.h"
#include "provider/envelope.h"
#include "provider/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define MSG_FLAGS                                                                              \
    (FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE |            \
     FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

/* One message, in one piece. */
struct message {
    uint32_t context_id;
    uint64_t tag; /* with PROV_HAS_DATA if data is to be reported */
    uint64_t data;
    const void *buf;
    size_t len;
    fi_addr_t dest;
    void *context;
    bool quiet;
    struct prov_bounce
        *bounce; /* contains buf; the completion frees it, or the caller on error */
};

/* ---- the endpoint's part ----------------------------------------------------------------- */

void prov_send_init(struct prov_ep *ep, size_t inject_limit, const struct fi_tx_attr *attr)
{
    ep->send = (struct prov_ep_send){
        .sent_end = &ep->send.sent,
        .inject_limit = inject_limit,
        .flags = attr == NULL ? 0 : attr->op_flags,
        .size = attr == NULL ? PROV_QUEUE_SIZE : attr->size,
    };
}

void prov_send_set_flags(struct prov_ep *ep, uint64_t flags)
{
    ep->send.flags = flags;
    ep->send.quiet = ep->send.selective && !(flags & FI_COMPLETION);
}

void prov_send_set_selective(struct prov_ep *ep, bool selective)
{
    ep->send.selective = selective;
    prov_send_set_flags(ep, ep->send.flags);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* The client's tags have 63 bits, as fi_getinfo() announced. */
static inline bool tag_is_valid(uint64_t tag)
{
    return likely((tag & PROV_HAS_DATA) == 0);
}

/* Most messages leave at once.  If their completion is plain, and one thread uses the endpoint,
 * they need no completion of Matchbox. */
static ALWAYS_INLINE ssize_t message_start(struct prov_ep *ep, const struct message *m,
                                           uint64_t flags)
{
    struct mbx_options options = {.data = m->data};
    struct prov_op *op;
    uint32_t peer;
    int err;

    err = prov_peer(ep, m->dest, &peer);
    if (unlikely(err < 0))
        return err;
    op = prov_op_get(&ep->ops);
    if (unlikely(op == NULL))
        return prov_ep_again(ep, -ENOMEM);
    op->context = m->context;
    op->kind = PROV_OP_SEND;
    op->quiet = m->quiet;
    op->bounce = m->bounce;
    op->plain = m->quiet || m->bounce != NULL ? 0 : MBX_SENDS;
    op->flags = FI_SEND | (m->context_id == PROV_TAGGED ? FI_TAGGED : FI_MSG);
    options.user = op;
    options.flags = likely(op->plain != 0 && !ep->locks && !ep->cntrs.counts) ? MBX_AT_ONCE : 0;
    if (unlikely(flags & FI_MATCH_COMPLETE))
        err = mbx_ssend(ep->mbx, peer, m->context_id, m->tag, m->buf, m->len, &options,
                        &op->request);
    else
        err = mbx_send(ep->mbx, peer, m->context_id, m->tag, m->buf, m->len, &options,
                       &op->request);
    if (likely(err > 0))
        prov_sent_add(&ep->send, op);
    if (likely(err >= 0))
        return 0;
    prov_op_put(&ep->ops, op);
    return prov_ep_again(ep, err);
}

static struct prov_bounce *gather(const struct iovec *iov, size_t count, size_t size)
{
    struct prov_bounce *bounce = malloc(sizeof *bounce + size);
    char *to;

    if (bounce == NULL)
        return NULL;
    bounce->count = 0; /* nothing to scatter */
    to = bounce->data;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len != 0)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    return bounce;
}

/* The data is gathered first, so the client may reuse its buffers at once. */
static ssize_t send_copy(struct prov_ep *ep, struct message *m, const struct iovec *iov,
                         size_t count, uint64_t flags)
{
    ssize_t err;

    m->bounce = gather(iov, count, m->len);
    if (m->bounce == NULL) {
        prov_ep_lock(ep);
        err = prov_ep_again(ep, -ENOMEM);
        prov_ep_unlock(ep);
        return err;
    }
    m->buf = m->bounce->data;
    prov_ep_lock(ep);
    err = message_start(ep, m, flags);
    prov_ep_unlock(ep);
    if (err < 0)
        free(m->bounce);
    return err;
}

static ssize_t send_vector(struct prov_ep *ep, struct message *m, const struct iovec *iov,
                           size_t count, uint64_t flags)
{
    ssize_t size = prov_iov_size(iov, count);
    ssize_t err;

    if (size < 0)
        return -FI_EINVAL;
    if ((flags & FI_INJECT) && size > PROV_INJECT_SIZE)
        return -FI_EMSGSIZE;
    m->len = (size_t)size;
    if (size != 0 && (count > 1 || (flags & FI_INJECT)))
        return send_copy(ep, m, iov, count, flags);
    m->buf = count == 0 ? NULL : iov[0].iov_base;
    prov_ep_lock(ep);
    err = message_start(ep, m, flags);
    prov_ep_unlock(ep);
    return err;
}

/* For an endpoint whose own flags contain FI_INJECT. */
static OUT_OF_LINE ssize_t send_injected(struct prov_ep *ep, struct message m)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)m.buf, .iov_len = m.len};

    return send_vector(ep, &m, &iov, 1, ep->send.flags);
}

/* The common case: one piece, the flags of the endpoint. */
static inline ssize_t send_one(struct prov_ep *ep, uint32_t context_id, uint64_t tag,
                               const void *buf, size_t len, uint64_t data, fi_addr_t dest,
                               void *context)
{
    const struct message m = {.context_id = context_id,
                              .tag = tag,
                              .data = data,
                              .buf = buf,
                              .len = len,
                              .dest = dest,
                              .context = context,
                              .quiet = ep->send.quiet};
    ssize_t err;

    if (unlikely(ep->send.flags & FI_INJECT))
        return send_injected(ep, m);
    prov_ep_lock(ep);
    err = message_start(ep, &m, ep->send.flags);
    prov_ep_unlock(ep);
    return err;
}

/* Injects more than Matchbox injects itself, as the announced limit allows. */
static ssize_t inject_long(struct prov_ep *ep, uint32_t context_id, uint64_t tag,
                           const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
    struct message m = {
        .context_id = context_id, .tag = tag, .data = data, .dest = dest, .quiet = true};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return send_vector(ep, &m, &iov, 1, FI_INJECT);
}

static inline ssize_t inject_one(struct prov_ep *ep, uint32_t context_id, uint64_t tag,
                                 const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
    uint32_t peer;
    ssize_t err;

    if (unlikely(len > ep->send.inject_limit))
        return inject_long(ep, context_id, tag, buf, len, data, dest);
    prov_ep_lock(ep);
    err = prov_peer(ep, dest, &peer);
    if (likely(err == 0))
        err = mbx_inject(ep->mbx, peer, context_id, tag, buf, len, data);
    if (unlikely(err < 0))
        err = prov_ep_again(ep, (int)err);
    else if (unlikely(ep->cntrs.counts))
        prov_count_op(&ep->cntrs, PROV_OP_SEND, 0);
    prov_ep_unlock(ep);
    return err;
}

/* ---- tagged ------------------------------------------------------------------------- */

ssize_t prov_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                   uint64_t tag, void *context)
{
    (void)desc;
    if (!tag_is_valid(tag))
        return -FI_EINVAL;
    return send_one(prov_ep_of(ep), PROV_TAGGED, tag, buf, len, 0, dest, context);
}

ssize_t prov_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t dest, uint64_t tag, void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct message m = {.context_id = PROV_TAGGED,
                        .tag = tag,
                        .dest = dest,
                        .context = context,
                        .quiet = ep->send.quiet};

    (void)desc;
    if (!tag_is_valid(tag))
        return -FI_EINVAL;
    return send_vector(ep, &m, iov, count, ep->send.flags);
}

ssize_t prov_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct message m = {.context_id = PROV_TAGGED,
                        .tag = msg->tag,
                        .dest = msg->addr,
                        .context = msg->context,
                        .quiet = ep->send.selective && !(flags & FI_COMPLETION)};

    if (!tag_is_valid(msg->tag))
        return -FI_EINVAL;
    if (flags & ~MSG_FLAGS)
        return -FI_EBADFLAGS;
    if (flags & FI_REMOTE_CQ_DATA) {
        m.tag |= PROV_HAS_DATA;
        m.data = msg->data;
    }
    return send_vector(ep, &m, msg->msg_iov, msg->iov_count, flags);
}

ssize_t prov_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                     uint64_t tag)
{
    if (!tag_is_valid(tag))
        return -FI_EINVAL;
    return inject_one(prov_ep_of(ep), PROV_TAGGED, tag, buf, len, 0, dest);
}

ssize_t prov_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                       uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    (void)desc;
    if (!tag_is_valid(tag))
        return -FI_EINVAL;
    return send_one(prov_ep_of(ep), PROV_TAGGED, tag | PROV_HAS_DATA, buf, len, data, dest,
                    context);
}

ssize_t prov_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                         fi_addr_t dest, uint64_t tag)
{
    if (!tag_is_valid(tag))
        return -FI_EINVAL;
    return inject_one(prov_ep_of(ep), PROV_TAGGED, tag | PROV_HAS_DATA, buf, len, data, dest);
}

/* ---- untagged ----------------------------------------------------------------------- */

ssize_t prov_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                  void *context)
{
    (void)desc;
    return send_one(prov_ep_of(ep), PROV_UNTAGGED, 0, buf, len, 0, dest, context);
}

ssize_t prov_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t dest, void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct message m = {
        .context_id = PROV_UNTAGGED, .dest = dest, .context = context, .quiet = ep->send.quiet};

    (void)desc;
    return send_vector(ep, &m, iov, count, ep->send.flags);
}

ssize_t prov_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct message m = {.context_id = PROV_UNTAGGED,
                        .dest = msg->addr,
                        .context = msg->context,
                        .quiet = ep->send.selective && !(flags & FI_COMPLETION)};

    if (flags & ~MSG_FLAGS)
        return -FI_EBADFLAGS;
    if (flags & FI_REMOTE_CQ_DATA) {
        m.tag = PROV_HAS_DATA;
        m.data = msg->data;
    }
    return send_vector(ep, &m, msg->msg_iov, msg->iov_count, flags);
}

ssize_t prov_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
    return inject_one(prov_ep_of(ep), PROV_UNTAGGED, 0, buf, len, 0, dest);
}

ssize_t prov_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                      fi_addr_t dest, void *context)
{
    (void)desc;
    return send_one(prov_ep_of(ep), PROV_UNTAGGED, PROV_HAS_DATA, buf, len, data, dest,
                    context);
}

ssize_t prov_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                        fi_addr_t dest)
{
    return inject_one(prov_ep_of(ep), PROV_UNTAGGED, PROV_HAS_DATA, buf, len, data, dest);
}
