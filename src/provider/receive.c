/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - all forms of fi_recv, tagged and untagged, and tagged probes.
 *
 *   flags of trecvmsg   does              and reports
 *   none                mbx_recv          when received
 *   PEEK                mbx_probe         at once: the message, or the error FI_ENOMSG; FI_ENOTCONN
 *                                         if the named source has died
 *   PEEK | CLAIM        mbx_mprobe        as PEEK; the message is kept for the context
 *   PEEK | DISCARD      mbx_mprobe, drop  as PEEK
 *   CLAIM               mbx_mrecv         when received
 *   CLAIM | DISCARD     mbx_discard       at once
 *
 * A claimed message is found by the client's context alone: address, tag and ignore
 * bits of the CLAIM call may be anything.
 *
 * multi.c matches untagged receives that take many messages, and untagged receives posted after
 * them.
 *
 * The source address counts only if FI_DIRECTED_RECV was requested; clients that did
 * not request it pass arbitrary addresses.
 */
#include "provider/cq.h"
#include "provider/data.h"
#include "provider/envelope.h"
#include "provider/event.h"
#include "provider/index.h"
#include "provider/multi.h"
#include "provider/receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define PROBE_FLAGS (FI_PEEK | FI_CLAIM | FI_DISCARD)
#define MSG_FLAGS   (FI_COMPLETION | FI_MORE | PROBE_FLAGS)

/* The contiguous buffer for one message, and its envelope. */
struct advert_target {
    uint32_t context_id;
    uint64_t tag;
    uint64_t ignore; /* as the client passed it; PROV_HAS_DATA is added */
    void *buf;
    size_t len;
    fi_addr_t src;
    void *context;
    bool quiet;
    bool many;                  /* FI_MULTI_RECV */
    struct prov_bounce *bounce; /* contains buf; as in send.c */
};

/* ---- the endpoint's part ----------------------------------------------------------------- */

/* A client that did not request FI_MULTI_RECV as a capability does not get it. */
void prov_recv_set_flags(struct prov_ep *ep, uint64_t flags)
{
    ep->recv.flags = ep->caps & FI_MULTI_RECV ? flags : flags & ~FI_MULTI_RECV;
    ep->recv.quiet = ep->recv.selective && !(flags & FI_COMPLETION);
}

void prov_recv_set_selective(struct prov_ep *ep, bool selective)
{
    ep->recv.selective = selective;
    prov_recv_set_flags(ep, ep->recv.flags);
}

void prov_recv_init(struct prov_ep *ep, const struct fi_rx_attr *attr)
{
    ep->recv.directed = ep->caps & FI_DIRECTED_RECV;
    ep->recv.size = attr == NULL ? PROV_QUEUE_SIZE : attr->size;
    prov_recv_set_flags(ep, attr == NULL ? 0 : attr->op_flags);
}

void prov_claims_free(struct prov_ep *ep)
{
    while (ep->recv.claims != NULL) {
        struct prov_claim *claim = ep->recv.claims;

        ep->recv.claims = claim->next;
        free(claim);
    }
}

/* ---- receives ------------------------------------------------------------------------------ */

/* Bit 63 is reserved: the client must not compare it. */
static inline bool tag_is_valid(uint64_t tag, uint64_t ignore)
{
    return likely((tag & ~ignore & PROV_HAS_DATA) == 0);
}

static inline int source_of(struct prov_ep *ep, fi_addr_t src, uint32_t *source)
{
    if (!ep->recv.directed || src == FI_ADDR_UNSPEC) {
        if (unlikely(!atomic_load_explicit(&ep->av.is_reported, memory_order_relaxed)))
            prov_av_report(ep);
        *source = MBX_ANY_SOURCE;
        return 0;
    }
    return prov_peer(ep, src, source);
}

static inline struct prov_op *recv_op(struct prov_ep *ep, const struct advert_target *t)
{
    struct prov_op *op = prov_op_get(&ep->ops);

    if (unlikely(op == NULL))
        return NULL;
    op->context = t->context;
    op->kind = PROV_OP_RECV;
    op->quiet = t->quiet;
    op->bounce = t->bounce;
    op->plain = t->quiet || t->bounce != NULL ? 0 : MBX_RECVS;
    op->flags = FI_RECV | (t->context_id == PROV_TAGGED ? FI_TAGGED : FI_MSG);
    if (unlikely(ep->index.heads != NULL))
        prov_index_add(ep, op);
    return op;
}

static inline bool target_is_listed(const struct prov_ep *ep, const struct advert_target *t)
{
    return t->context_id == PROV_UNTAGGED &&
           unlikely(t->many || prov_multi_is_busy(&ep->multi));
}

static inline ssize_t target_post(struct prov_ep *ep, const struct advert_target *t)
{
    struct mbx_options options = {0};
    struct prov_op *op;
    uint32_t source;
    int err;

    err = source_of(ep, t->src, &source);
    if (unlikely(err < 0))
        return err;
    op = recv_op(ep, t);
    if (unlikely(op == NULL))
        return prov_ep_again(ep, -ENOMEM);
    options.user = op;
    if (target_is_listed(ep, t))
        err = prov_multi_post(ep, op, source, t->buf, t->len, t->many);
    else
        err = mbx_recv(ep->mbx, source, t->context_id, t->tag, t->ignore | PROV_HAS_DATA,
                       t->buf, t->len, &options, &op->request);
    if (likely(err == 0))
        return 0;
    prov_op_put(&ep->ops, op);
    return prov_ep_again(ep, err);
}

static ssize_t claim_post(struct prov_ep *ep, const struct advert_target *t)
{
    struct prov_claim **at = &ep->recv.claims;
    struct mbx_options options = {0};
    struct prov_claim *claim;
    struct prov_op *op;
    int err;

    while (*at != NULL && (*at)->context != t->context)
        at = &(*at)->next;
    claim = *at;
    if (claim == NULL)
        return -FI_EINVAL;
    op = recv_op(ep, t);
    if (op == NULL)
        return prov_ep_again(ep, -ENOMEM);
    options.user = op;
    err = mbx_mrecv(ep->mbx, claim->message, t->buf, t->len, &options, &op->request);
    if (err < 0) {
        prov_op_put(&ep->ops, op);
        return prov_ep_again(ep, err);
    }
    *at = claim->next;
    free(claim);
    return 0;
}

typedef ssize_t post_fn(struct prov_ep *ep, const struct advert_target *t);

/* Gives t a bounce, which is scattered into the vector when the message is complete. */
static int bounce_create(struct advert_target *t, const struct iovec *iov, size_t count,
                         size_t size)
{
    struct prov_bounce *bounce = malloc(sizeof *bounce + size);

    if (bounce == NULL)
        return -FI_ENOMEM;
    bounce->count = count;
    memcpy(bounce->iov, iov, count * sizeof *iov);
    t->bounce = bounce;
    t->buf = bounce->data;
    return 0;
}

static ssize_t recv_vector(struct prov_ep *ep, struct advert_target *t, const struct iovec *iov,
                           size_t count, post_fn *post)
{
    ssize_t size = prov_iov_size(iov, count);
    ssize_t err = 0;

    if (size < 0 || (t->many && (count != 1 || size == 0)))
        return -FI_EINVAL;
    t->len = (size_t)size;
    if (count > 1 && size != 0)
        err = bounce_create(t, iov, count, t->len);
    else
        t->buf = count == 0 ? NULL : iov[0].iov_base;
    prov_ep_lock(ep);
    err = err < 0 ? prov_ep_again(ep, (int)err) : post(ep, t);
    prov_ep_unlock(ep);
    if (err < 0)
        free(t->bounce);
    return err;
}

static inline ssize_t recv_one(struct prov_ep *ep, uint32_t context_id, uint64_t tag,
                               uint64_t ignore, void *buf, size_t len, fi_addr_t src,
                               void *context)
{
    struct advert_target t = {.context_id = context_id,
                              .tag = tag,
                              .ignore = ignore,
                              .buf = buf,
                              .len = len,
                              .src = src,
                              .context = context,
                              .quiet = ep->recv.quiet};
    ssize_t err;

    prov_ep_lock(ep);
    err = target_post(ep, &t);
    prov_ep_unlock(ep);
    return err;
}

/* ---- probes ------------------------------------------------------------------------- */

static void event_found(struct prov_ep *ep, const struct mbx_status *status, void *context,
                        struct prov_event *event)
{
    bool has_data = status->tag & PROV_HAS_DATA;

    *event = (struct prov_event){
        .context = context,
        .flags = FI_TAGGED | FI_RECV | (has_data ? FI_REMOTE_CQ_DATA : 0),
        .len = status->size,
        .data = has_data ? status->data : 0,
        .tag = status->tag & ~PROV_HAS_DATA,
        .source = prov_av_find(ep, status->source),
    };
}

/* error: FI_ENOMSG, or the reason why no message will ever come. */
static void event_missing(const struct fi_msg_tagged *msg, int error, struct prov_event *event)
{
    *event = (struct prov_event){
        .context = msg->context,
        .flags = FI_TAGGED | FI_RECV,
        .tag = msg->tag,
        .source = FI_ADDR_NOTAVAIL,
        .error = error,
        .prov_errno = error,
    };
}

/* Takes the message out of the queue and keeps it, or drops it. 1; 0 if there is none; or an
 * error. */
static int prov_probe_take(struct prov_ep *ep, uint32_t source, const struct fi_msg_tagged *msg,
                           uint64_t flags, struct mbx_status *status)
{
    struct prov_claim *claim = malloc(sizeof *claim);
    int found;

    if (claim == NULL)
        return -FI_ENOMEM;
    claim->context = msg->context;
    found = mbx_mprobe(ep->mbx, source, PROV_TAGGED, msg->tag, msg->ignore | PROV_HAS_DATA,
                       status, &claim->message);
    claim->status = *status;
    if (found > 0 && !((flags & FI_DISCARD) && mbx_discard(ep->mbx, claim->message) == 0)) {
        /* Kept as well if it could not be dropped now: it is dropped when the endpoint
         * closes. */
        claim->next = ep->recv.claims;
        ep->recv.claims = claim;
    } else {
        free(claim);
    }
    return found;
}

static int probe_locked(struct prov_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags,
                        struct prov_event *event)
{
    struct mbx_status status = {0};
    uint32_t source;
    int found;

    found = source_of(ep, msg->addr, &source);
    if (found < 0)
        return found;
    if (flags & (FI_CLAIM | FI_DISCARD))
        found = prov_probe_take(ep, source, msg, flags, &status);
    else
        found = mbx_probe(ep->mbx, source, PROV_TAGGED, msg->tag, msg->ignore | PROV_HAS_DATA,
                          &status);
    if (found > 0) {
        event_found(ep, &status, msg->context, event);
        door_idle_ends(&ep->idle);
    } else if (found == 0 || found == -EHOSTDOWN) {
        event_missing(msg, FI_ENOMSG, event);
        prov_ep_in_vain(ep);
    } else if (found == -ENOTCONN) {
        event_missing(msg, FI_ENOTCONN, event);
    } else {
        return (int)prov_ep_again(ep, found);
    }
    return 0;
}

static int discard_locked(struct prov_ep *ep, void *context, struct prov_event *event)
{
    struct prov_claim **at = &ep->recv.claims;
    struct prov_claim *claim;
    int err;

    while (*at != NULL && (*at)->context != context)
        at = &(*at)->next;
    claim = *at;
    if (claim == NULL)
        return -FI_EINVAL;
    err = mbx_discard(ep->mbx, claim->message);
    if (err < 0)
        return (int)prov_ep_again(ep, err);
    event_found(ep, &claim->status, context, event);
    *at = claim->next;
    free(claim);
    return 0;
}

/* Probes and discards complete at once, by an event of the provider. */
static ssize_t answer_now(struct prov_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct prov_event event = {0};
    int err;

    if (ep->cqs.recv == NULL)
        return -FI_EOPBADSTATE;
    if (prov_cq_reserve(ep->cqs.recv) < 0)
        return -FI_EAGAIN;
    prov_ep_lock(ep);
    err = flags & FI_PEEK ? probe_locked(ep, msg, flags, &event)
                          : discard_locked(ep, msg->context, &event);
    prov_ep_unlock(ep);
    if (err < 0)
        prov_cq_unreserve(ep->cqs.recv);
    else
        prov_cq_push(ep->cqs.recv, &event);
    return err;
}

/* ---- tagged ------------------------------------------------------------------------- */

ssize_t prov_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                   uint64_t tag, uint64_t ignore, void *context)
{
    (void)desc;
    if (!tag_is_valid(tag, ignore))
        return -FI_EINVAL;
    return recv_one(prov_ep_of(ep), PROV_TAGGED, tag, ignore, buf, len, src, context);
}

ssize_t prov_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct advert_target t = {.context_id = PROV_TAGGED,
                              .tag = tag,
                              .ignore = ignore,
                              .src = src,
                              .context = context,
                              .quiet = ep->recv.quiet};

    (void)desc;
    if (!tag_is_valid(tag, ignore))
        return -FI_EINVAL;
    return recv_vector(ep, &t, iov, count, target_post);
}

ssize_t prov_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct advert_target t = {.context_id = PROV_TAGGED,
                              .tag = msg->tag,
                              .ignore = msg->ignore,
                              .src = msg->addr,
                              .context = msg->context,
                              .quiet = ep->recv.selective && !(flags & FI_COMPLETION)};

    if (flags & ~MSG_FLAGS)
        return -FI_EBADFLAGS;
    if ((flags & PROBE_FLAGS) == FI_CLAIM)
        return recv_vector(ep, &t, msg->msg_iov, msg->iov_count, claim_post);
    if ((flags & PROBE_FLAGS) == FI_DISCARD)
        return -FI_EBADFLAGS;
    if ((flags & PROBE_FLAGS) == (FI_CLAIM | FI_DISCARD))
        return answer_now(ep, msg, flags);
    if (!tag_is_valid(msg->tag, msg->ignore))
        return -FI_EINVAL;
    if (flags & FI_PEEK)
        return answer_now(ep, msg, flags);
    return recv_vector(ep, &t, msg->msg_iov, msg->iov_count, target_post);
}

/* ---- untagged ----------------------------------------------------------------------- */

ssize_t prov_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                  void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);

    (void)desc;
    if (unlikely(ep->recv.flags & FI_MULTI_RECV)) {
        struct iovec iov = {.iov_base = buf, .iov_len = len};

        return prov_recvv(fid, &iov, NULL, 1, src, context);
    }
    return recv_one(ep, PROV_UNTAGGED, 0, 0, buf, len, src, context);
}

ssize_t prov_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t src, void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct advert_target t = {.context_id = PROV_UNTAGGED,
                              .src = src,
                              .context = context,
                              .quiet = ep->recv.quiet,
                              .many = ep->recv.flags & FI_MULTI_RECV};

    (void)desc;
    return recv_vector(ep, &t, iov, count, target_post);
}

ssize_t prov_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct advert_target t = {.context_id = PROV_UNTAGGED,
                              .src = msg->addr,
                              .context = msg->context,
                              .quiet = ep->recv.selective && !(flags & FI_COMPLETION),
                              .many = flags & FI_MULTI_RECV};

    if (flags & ~(FI_COMPLETION | FI_MORE | FI_TRANSMIT_COMPLETE | (ep->caps & FI_MULTI_RECV)))
        return -FI_EBADFLAGS;
    return recv_vector(ep, &t, msg->msg_iov, msg->iov_count, target_post);
}
