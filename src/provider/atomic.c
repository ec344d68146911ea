/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - all forms of fi_atomic, fi_fetch_atomic and fi_compare_atomic.
 *
 * As in rma.c, each stretch of elements that lies in one piece of every vector is one atomic
 * of Matchbox.  Types and operations have the same numbers in both.
 *
 *   form      operations                   operand   compare   result
 *   base      MIN .. BXOR, WRITE           yes
 *   fetch     MIN .. BXOR, READ, WRITE     not READ            yes
 *   compare   CSWAP .. MSWAP               yes       yes       yes
 */
#include "provider/data.h"
#include "provider/fabric.h"
#include "provider/rma.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

_Static_assert((int)FI_INT8 == (int)MBX_INT8 && (int)FI_UINT64 == (int)MBX_UINT64 &&
                   (int)FI_FLOAT == (int)MBX_FLOAT &&
                   (int)FI_DOUBLE_COMPLEX == (int)MBX_DOUBLE_COMPLEX &&
                   (int)FI_LONG_DOUBLE == (int)MBX_LONG_DOUBLE &&
                   (int)FI_LONG_DOUBLE_COMPLEX == (int)MBX_LONG_DOUBLE_COMPLEX &&
                   (int)FI_INT128 == (int)MBX_INT128 && (int)FI_UINT128 == (int)MBX_UINT128,
               "types have the same numbers");
_Static_assert((int)FI_MIN == (int)MBX_MIN && (int)FI_BXOR == (int)MBX_BXOR &&
                   (int)FI_ATOMIC_READ == (int)MBX_ATOMIC_READ &&
                   (int)FI_ATOMIC_WRITE == (int)MBX_ATOMIC_WRITE &&
                   (int)FI_CSWAP == (int)MBX_CSWAP && (int)FI_MSWAP == (int)MBX_MSWAP,
               "operations have the same numbers");

#define MSG_FLAGS                                                                              \
    (FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |         \
     FI_DELIVERY_COMPLETE)

enum form { BASE, FETCH, COMPARE };

/* A vector of pieces, and the position of the next element in it. */
struct pieces {
    const struct fi_ioc *ioc;
    size_t count, at, used;
};

/* One atomic call. */
struct update {
    enum form form;
    enum fi_datatype type;
    enum fi_op op;
    struct pieces operand, compare, result;
    const struct fi_rma_ioc *rma;
    size_t rma_count;
    fi_addr_t peer;
    void *context;
    bool quiet, inject;
};

/* ---- supported operations ---------------------------------------------------------------- */

/* Bytes of an element, or 0 if this form has no such atomic. */
static size_t element_size(enum form form, enum fi_datatype type, enum fi_op op)
{
    bool compares = op >= FI_CSWAP;

    if (compares != (form == COMPARE) || (op == FI_ATOMIC_READ && form == BASE))
        return 0;
    return mbx_atomic_size((enum mbx_op)op, (enum mbx_type)type);
}

static int valid(const struct prov_ep *ep, enum form form, enum fi_datatype type, enum fi_op op,
                 size_t *count)
{
    size_t size = element_size(form, type, op);

    if (size == 0)
        return -FI_EOPNOTSUPP;
    if (count != NULL)
        *count = ep->atomic_limit / size;
    return 0;
}

static int write_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    return valid(prov_ep_of(ep), BASE, type, op, count);
}

static int readwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                           size_t *count)
{
    return valid(prov_ep_of(ep), FETCH, type, op, count);
}

static int compwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                           size_t *count)
{
    return valid(prov_ep_of(ep), COMPARE, type, op, count);
}

/* Only an endpoint knows how much fits into its packets; all have the same settings. */
static int domain_limit(struct prov_domain *domain, size_t *limit)
{
    struct mbx_limits limits;
    struct mbx_ep *mbx;
    int err = 0;

    pthread_mutex_lock(&domain->lock);
    if (domain->atomic_limit == 0 && (err = mbx_open(NULL, &mbx)) == 0) {
        mbx_limits_get(mbx, &limits, sizeof limits);
        mbx_close(mbx);
        domain->atomic_limit = limits.atomic;
    }
    *limit = domain->atomic_limit;
    pthread_mutex_unlock(&domain->lock);
    return err;
}

int prov_query_atomic(struct fid_domain *fid, enum fi_datatype type, enum fi_op op,
                      struct fi_atomic_attr *attr, uint64_t flags)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid);
    enum form form = flags & FI_FETCH_ATOMIC     ? FETCH
                     : flags & FI_COMPARE_ATOMIC ? COMPARE
                                                 : BASE;
    size_t size = element_size(form, type, op), limit;
    int err;

    if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED) ||
        (flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
        return -FI_EBADFLAGS;
    if (size == 0 || flags & FI_TAGGED) /* no atomic accesses a tagged receive */
        return -FI_EOPNOTSUPP;
    err = domain_limit(domain, &limit);
    if (err < 0)
        return err;
    attr->size = size;
    attr->count = limit / size;
    return 0;
}

/* ---- stretches ------------------------------------------------------------------------------
 */

/* Number of elements, or SIZE_MAX if the vector is invalid or too long. */
static size_t pieces_size(const struct pieces *p)
{
    size_t size = 0;

    if (p->count > PROV_IOV_LIMIT || (p->ioc == NULL && p->count != 0))
        return SIZE_MAX;
    for (size_t i = 0; i < p->count; i++) {
        if (p->ioc[i].count > PROV_MESSAGE_MAX || (p->ioc[i].addr == NULL && p->ioc[i].count))
            return SIZE_MAX;
        size += p->ioc[i].count;
    }
    return size;
}

static size_t rma_size(const struct update *u)
{
    size_t size = 0;

    if (u->rma_count > PROV_IOV_LIMIT || (u->rma == NULL && u->rma_count != 0))
        return SIZE_MAX;
    for (size_t i = 0; i < u->rma_count; i++)
        size += u->rma[i].count > PROV_MESSAGE_MAX ? PROV_MESSAGE_MAX + 1 : u->rma[i].count;
    return size;
}

/* Returns the address of the next elements, and lowers *most to the number that lies there. */
static char *pieces_next(struct pieces *p, size_t size, size_t *most)
{
    if (p->count == 0)
        return NULL;
    while (p->used == p->ioc[p->at].count)
        p->at++, p->used = 0;
    if (*most > p->ioc[p->at].count - p->used)
        *most = p->ioc[p->at].count - p->used;
    return (char *)p->ioc[p->at].addr + p->used * size;
}

static int stretches(struct prov_ep *ep, struct update *u, uint32_t peer, struct prov_op *op,
                     size_t left, size_t size)
{
    const struct mbx_options options = {.user = op, .flags = u->inject ? MBX_COPY : 0};
    size_t k = 0, there = 0;
    int err = 0;

    while (left != 0 && err == 0) {
        struct mbx_atomic_args atomic = {.op = (enum mbx_op)u->op,
                                         .type = (enum mbx_type)u->type};
        size_t count;

        while (there == u->rma[k].count)
            k++, there = 0;
        count = u->rma[k].count - there;
        atomic.operand = pieces_next(&u->operand, size, &count);
        atomic.compare = pieces_next(&u->compare, size, &count);
        atomic.result = pieces_next(&u->result, size, &count);
        atomic.count = count;
        atomic.key = u->rma[k].key;
        atomic.address = u->rma[k].addr + there * size;
        err = mbx_atomic(ep->mbx, peer, &atomic, &options, NULL);
        op->parts += err == 0;
        there += count;
        u->operand.used += count;
        u->compare.used += count;
        u->result.used += count;
        left -= count;
    }
    return err;
}

static ssize_t update_start(struct prov_ep *ep, struct update *u, size_t count, size_t size)
{
    bool reads = u->form != BASE;
    uint64_t flags = FI_ATOMIC | (reads ? FI_READ : FI_WRITE);
    struct prov_op *op;
    uint32_t peer;
    int err = prov_peer(ep, u->peer, &peer);

    if (err < 0)
        return err;
    op = prov_access_op(ep, reads ? PROV_OP_READ : PROV_OP_WRITE, u->context, u->quiet, flags);
    if (op == NULL)
        return prov_ep_again(ep, -ENOMEM);
    return prov_access_begun(ep, op, stretches(ep, u, peer, op, count, size));
}

static ssize_t update(struct prov_ep *ep, struct update *u)
{
    size_t size = element_size(u->form, u->type, u->op), count = rma_size(u);
    ssize_t err;

    if (size == 0)
        return -FI_EOPNOTSUPP;
    if (u->op == FI_ATOMIC_READ)
        u->operand = (struct pieces){.count = 0};
    else if (pieces_size(&u->operand) != count)
        return -FI_EINVAL;
    if ((u->form == COMPARE && pieces_size(&u->compare) != count) ||
        (u->form != BASE && pieces_size(&u->result) != count) || count == 0)
        return -FI_EINVAL;
    if (count > ep->atomic_limit / size)
        return -FI_EMSGSIZE;
    prov_ep_lock(ep);
    err = update_start(ep, u, count, size);
    prov_ep_unlock(ep);
    return err;
}

/* ---- calls
 * -------------------------------------------------------------------------------------- */

static struct pieces pieces_of(const struct fi_ioc *ioc, size_t count)
{
    return (struct pieces){.ioc = ioc, .count = count};
}

/* An update of one remote address from a local vector, with the flags of the endpoint. */
static ssize_t update_vector(struct fid_ep *fid, enum form form, struct pieces operand,
                             struct pieces compare, struct pieces result, fi_addr_t dest,
                             uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op,
                             void *context)
{
    struct prov_ep *ep = prov_ep_of(fid);
    size_t count = pieces_size(form == FETCH ? &result : &operand);
    const struct fi_rma_ioc there = {.addr = addr, .count = count, .key = key};
    struct update u = {
        .form = form,
        .type = type,
        .op = op,
        .operand = operand,
        .compare = compare,
        .result = result,
        .rma = &there,
        .rma_count = 1,
        .peer = dest,
        .context = context,
        .quiet = ep->send.quiet,
        .inject = ep->send.flags & FI_INJECT,
    };

    if (element_size(form, type, op) == 0)
        return -FI_EOPNOTSUPP;
    return count == SIZE_MAX ? -FI_EINVAL : update(ep, &u);
}

static ssize_t update_msg(struct fid_ep *fid, enum form form, const struct fi_msg_atomic *msg,
                          struct pieces compare, struct pieces result, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    struct update u = {
        .form = form,
        .type = msg->datatype,
        .op = msg->op,
        .operand = pieces_of(msg->msg_iov, msg->iov_count),
        .compare = compare,
        .result = result,
        .rma = msg->rma_iov,
        .rma_count = msg->rma_iov_count,
        .peer = msg->addr,
        .context = msg->context,
        .quiet = ep->send.selective && !(flags & FI_COMPLETION),
        .inject = flags & FI_INJECT,
    };

    if (flags & ~MSG_FLAGS)
        return -FI_EBADFLAGS;
    return update(ep, &u);
}

static const struct pieces none;

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
                            enum fi_op op, void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};

    (void)desc;
    return update_vector(ep, BASE, pieces_of(&ioc, 1), none, none, dest, addr, key, type, op,
                         context);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc,
                             size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                             enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    return update_vector(ep, BASE, pieces_of(ioc, count), none, none, dest, addr, key, type, op,
                         context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                               uint64_t flags)
{
    return update_msg(ep, BASE, msg, none, none, flags);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
                             uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    const struct fi_rma_ioc there = {.addr = addr, .count = count, .key = key};
    struct update u = {
        .form = BASE,
        .type = type,
        .op = op,
        .operand = pieces_of(&ioc, 1),
        .rma = &there,
        .rma_count = 1,
        .peer = dest,
        .quiet = true,
        .inject = true,
    };

    return update(prov_ep_of(fid), &u);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                                uint64_t key, enum fi_datatype type, enum fi_op op,
                                void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    const struct fi_ioc to = {.addr = result, .count = count};

    (void)desc, (void)result_desc;
    return update_vector(ep, FETCH, pieces_of(&ioc, 1), none, pieces_of(&to, 1), dest, addr,
                         key, type, op, context);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc,
                                 size_t count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr,
                                 uint64_t key, enum fi_datatype type, enum fi_op op,
                                 void *context)
{
    (void)desc, (void)result_desc;
    return update_vector(ep, FETCH, pieces_of(ioc, count), none,
                         pieces_of(resultv, result_count), dest, addr, key, type, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    (void)result_desc;
    return update_msg(ep, FETCH, msg, none, pieces_of(resultv, result_count), flags);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype type, enum fi_op op, void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    const struct fi_ioc with = {.addr = (void *)(uintptr_t)compare, .count = count};
    const struct fi_ioc to = {.addr = result, .count = count};

    (void)desc, (void)compare_desc, (void)result_desc;
    return update_vector(ep, COMPARE, pieces_of(&ioc, 1), pieces_of(&with, 1),
                         pieces_of(&to, 1), dest, addr, key, type, op, context);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc,
                                 size_t count, const struct fi_ioc *comparev,
                                 void **compare_desc, size_t compare_count,
                                 struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr,
                                 uint64_t key, enum fi_datatype type, enum fi_op op,
                                 void *context)
{
    (void)desc, (void)compare_desc, (void)result_desc;
    return update_vector(ep, COMPARE, pieces_of(ioc, count), pieces_of(comparev, compare_count),
                         pieces_of(resultv, result_count), dest, addr, key, type, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *resultv,
                                   void **result_desc, size_t result_count, uint64_t flags)
{
    (void)compare_desc, (void)result_desc;
    return update_msg(ep, COMPARE, msg, pieces_of(comparev, compare_count),
                      pieces_of(resultv, result_count), flags);
}

struct fi_ops_atomic prov_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = write_valid,
    .readwritevalid = readwrite_valid,
    .compwritevalid = compwrite_valid,
};
