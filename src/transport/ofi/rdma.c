/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.c - reads and writes a peer's memory, and exposes our own to peers.
 *
 * A region is registered when it is exposed and deregistered when it is unexposed: nothing is
 * cached here, so no registration can outlive its mapping.  If registration is expensive, the
 * provider has a cache (FI_MR_CACHE_*), which watches the mappings of the process from below; a
 * second cache above it could not know when to deregister.
 *
 * A provider addresses remote memory either from 0 in each region, or by the owner's virtual
 * addresses (FI_MR_VIRT_ADDR).  For the core 0 is no address, so in the first case addresses
 * begin at OFFSET here.
 *
 * write() ends when the bytes are in the peer's memory (FI_DELIVERY_COMPLETE): later packets
 * find them there.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/ofi/ofi.h"

#define OFFSET (UINT64_C(1) << 40)

/* ---- exposing ---- */

static struct list *exposures_of(struct ofi *ofi, uint64_t key)
{
    return &ofi->rdma.exposures[key % OFI_EXPOSURE_LISTS];
}

static int ofi_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                      uint64_t *key)
{
    struct ofi *ofi = ofi_of(l->transport);
    struct ofi_exposure *exposure;
    int err;

    if (!ofi->base.limits.can_read)
        return -ENOTSUP;
    exposure = mem_alloc(sizeof *exposure);
    if (exposure == NULL)
        return -ENOMEM;
    err = ofi_register_keyed(ofi, buf, size, FI_REMOTE_READ | FI_REMOTE_WRITE, &exposure->mr);
    if (err != 0) {
        LOG_DEBUG("ofi: %zu bytes cannot be registered, error %d %s", size, -err,
                  ofi->domain.dl->strerror(-err));
        mem_free(exposure);
        return -ENOMEM;
    }
    list_init_node(&exposure->node);
    exposure->key = fi_mr_key(exposure->mr);
    list_add_tail(exposures_of(ofi, exposure->key), &exposure->node);
    *key = exposure->key;
    *address = ofi_domain_asks_for(ofi, FI_MR_VIRT_ADDR) ? (uintptr_t)buf : OFFSET;
    return 0;
}

static void exposure_destroy(struct ofi_exposure *exposure)
{
    list_remove(&exposure->node);
    fi_close(&exposure->mr->fid);
    mem_free(exposure);
}

static void ofi_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    struct list *node;

    (void)address;
    list_for_each (node, exposures_of(ofi_of(l->transport), key)) {
        struct ofi_exposure *exposure = container_of(node, struct ofi_exposure, node);

        if (exposure->key == key) {
            exposure_destroy(exposure);
            return;
        }
    }
}

/* ---- moving ---- */

struct ofi_rdma_op *ofi_rdma_take(struct ofi_link *link, enum ofi_operation_kind kind)
{
    struct list *node = link->rdma.moving_count < OFI_RDMA_LINK
                            ? list_pop_head(&ofi_of_link(link)->rdma.free)
                            : NULL;
    struct ofi_rdma_op *op;

    if (node == NULL)
        return NULL;
    op = container_of(node, struct ofi_rdma_op, node);
    op->operation.kind = kind;
    op->link = link;
    ofi_of_link(link)->rdma.count++;
    return op;
}

void ofi_rdma_begin(struct ofi_rdma_op *op)
{
    list_add_tail(&op->link->rdma.moving, &op->node);
    op->link->rdma.moving_count++;
    ofi_of_link(op->link)->rdma.begun++;
}

void ofi_rdma_give(struct ofi *ofi, struct ofi_rdma_op *op)
{
    if (op->local != NULL)
        fi_close(&op->local->fid);
    op->local = NULL;
    op->cookie = NULL;
    op->swap = 0;
    op->link = NULL;
    ofi->rdma.count--;
    list_add_tail(&ofi->rdma.free, &op->node);
}

/* The provider's address for an address from expose(). */
static uint64_t provider_address(const struct ofi *ofi, uint64_t address)
{
    return ofi_domain_asks_for(ofi, FI_MR_VIRT_ADDR) ? address : address - OFFSET;
}

static int ofi_rdma_start(struct ofi *ofi, struct ofi_rdma_op *op, bool is_write, void *here,
                          uint64_t address, uint64_t key, size_t size)
{
    void *descriptor = op->local != NULL ? fi_mr_desc(op->local) : NULL;
    const struct iovec iov = {here, size};
    const struct fi_rma_iov there = {provider_address(ofi, address), size, key};
    const struct fi_msg_rma msg = {
        .msg_iov = &iov,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = op->link->to,
        .rma_iov = &there,
        .rma_iov_count = 1,
        .context = &op->operation.context,
    };

    return (int)(is_write
                     ? fi_writemsg(ofi->domain.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                     : fi_readmsg(ofi->domain.ep, &msg, FI_COMPLETION));
}

static int failed(const struct ofi *ofi, int err)
{
    if (err == -FI_EAGAIN)
        return -EAGAIN;
    LOG_DEBUG("ofi: a peer's memory cannot be reached, error %d %s", -err,
              ofi->domain.dl->strerror(-err));
    return err == -FI_ENOSYS || err == -FI_EOPNOTSUPP || err == -FI_EBADFLAGS ? -ENOTSUP : -EIO;
}

int ofi_rdma_reach(struct ofi_link *link)
{
    if (link->net.state == NET_NEW)
        net_call(&link->net);
    if (link->net.state == NET_DEAD)
        return link->net.error;
    return link->net.state == NET_OPEN ? 0 : -EAGAIN;
}

static int ofi_rdma_move(struct ofi_link *link, bool is_write, void *here, uint64_t address,
                         uint64_t key, size_t size, void *cookie)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_rdma_op *op;
    int err;

    if (!ofi->base.limits.can_read)
        return -ENOTSUP;
    if ((err = ofi_rdma_reach(link)) != 0)
        return err;
    op = ofi_rdma_take(link, OFI_MOVING);
    if (op == NULL)
        return -EAGAIN;
    op->cookie = cookie;
    err = ofi_register(ofi, here, size, is_write ? FI_WRITE : FI_READ, &op->local);
    if (err == 0)
        err = ofi_rdma_start(ofi, op, is_write, here, address, key, size);
    if (err != 0) {
        ofi_rdma_give(ofi, op);
        link->rdma.is_full = err == -FI_EAGAIN;
        return failed(ofi, err);
    }
    ofi_rdma_begin(op);
    return -EINPROGRESS;
}

static int ofi_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                    void *cookie)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->net.is_self)
        return -ENOTSUP; /* an endpoint's messages to itself are copied */
    return ofi_rdma_move(link, false, dst, address, key, size, cookie);
}

static int ofi_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                     size_t size, void *cookie)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->net.is_self)
        return -ENOTSUP;
    return ofi_rdma_move(link, true, (void *)(uintptr_t)src, address, key, size, cookie);
}

/* Reports the end of the operation, if its result is needed. */
static void rdma_report(struct ofi *ofi, const struct ofi_rdma_op *op, int error)
{
    if (ofi->is_closing)
        return;
    if (op->cookie != NULL)
        ofi->events->read_done(ofi->arg, op->cookie, error);
    if (op->swap != 0)
        ofi->events->cswap_done(ofi->arg, op->swap, error,
                                error == 0 && op->found == op->expected);
}

void ofi_rdma_ended(struct ofi *ofi, struct ofi_rdma_op *op, int error)
{
    const struct ofi_rdma_op ended = *op;

    if (op->link != NULL) {
        list_remove(&op->node);
        op->link->rdma.moving_count--;
    }
    ofi_rdma_give(ofi, op);
    ofi->rdma.ended++;
    rdma_report(ofi, &ended, error);
}

/* The provider keeps the operations until they complete. */
void ofi_rdma_fail(struct ofi_link *link)
{
    struct ofi *ofi = ofi_of_link(link);
    struct list *node;

    while ((node = list_pop_head(&link->rdma.moving)) != NULL) {
        struct ofi_rdma_op *op = container_of(node, struct ofi_rdma_op, node);
        const struct ofi_rdma_op ended = *op;

        op->cookie = NULL;
        op->swap = 0;
        op->link = NULL;
        rdma_report(ofi, &ended, -ENOTCONN);
    }
    link->rdma.moving_count = 0;
}

/* ---- waiting ---- */

bool ofi_rdma_is_waiting(const struct ofi_link *link)
{
    return !list_is_empty(&link->rdma.moving) || link->rdma.is_full;
}

void ofi_rdma_checked(struct ofi_link *link)
{
    link->rdma.is_full = false;
}

/* ---- open and close ---- */

int ofi_rdma_open(struct ofi *ofi)
{
    list_init(&ofi->rdma.free);
    for (size_t i = 0; i < OFI_EXPOSURE_LISTS; i++)
        list_init(&ofi->rdma.exposures[i]);
    ofi->rdma.operations = mem_calloc(OFI_RDMA_MAX, sizeof *ofi->rdma.operations);
    if (ofi->rdma.operations == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < OFI_RDMA_MAX; i++) {
        list_init_node(&ofi->rdma.operations[i].node);
        list_add_tail(&ofi->rdma.free, &ofi->rdma.operations[i].node);
    }
    return 0;
}

void ofi_rdma_close(struct ofi *ofi)
{
    if (ofi->rdma.operations == NULL)
        return;
    for (size_t i = 0; i < OFI_EXPOSURE_LISTS; i++)
        while (!list_is_empty(&ofi->rdma.exposures[i]))
            exposure_destroy(
                container_of(ofi->rdma.exposures[i].next, struct ofi_exposure, node));
    for (size_t i = 0; i < OFI_RDMA_MAX; i++)
        if (ofi->rdma.operations[i].local != NULL)
            fi_close(&ofi->rdma.operations[i].local->fid);
    mem_free(ofi->rdma.operations);
}

void ofi_rdma_init_link(struct ofi_link_rdma *rdma)
{
    list_init(&rdma->moving);
}

const struct transport_memory ofi_memory = {
    .expose = ofi_expose,
    .unexpose = ofi_unexpose,
    .read = ofi_read,
    .write = ofi_write,
};
