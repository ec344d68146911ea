/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - reading and writing a peer's memory, and what of ours peers may reach.
 *
 * A region is registered when it is exposed and forgotten when it is unexposed: nothing is
 * cached here, so nothing can outlive its mapping.  Where registering is expensive the
 * provider has a cache of its own (FI_MR_CACHE_*), which watches the mappings of the process
 * from below; a second one above it could not know when to let go.
 *
 * Keys that are ours to choose are random: a peer can be told of one region and not guess
 * the next.
 *
 * A provider counts addresses of remote memory from 0 in each region or as the owner does
 * (FI_MR_VIRT_ADDR).  To the core 0 is no address, so the former ones begin at OFFSET here.
 *
 * write() ends when the bytes are in the peer's memory (FI_DELIVERY_COMPLETE): what it is
 * told afterwards finds them there.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "transport/ofi/ofi.h"

#define OFFSET    (UINT64_C(1) << 40)
#define KEY_TRIES 4

/* ---- registering ---- */

static uint64_t key_mask(const struct ofi *ofi)
{
    size_t size = ofi->info->domain_attr->mr_key_size;

    return size == 0 || size >= sizeof(uint64_t) ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;
}

static int bind_to_endpoint(struct ofi *ofi, struct fid_mr *mr)
{
    int err = fi_mr_bind(mr, &ofi->ep->fid, 0);

    return err != 0 ? err : fi_mr_enable(mr);
}

static int register_with(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                         uint64_t key, struct fid_mr **out)
{
    struct fid_mr *mr;
    int err = fi_mr_reg(ofi->domain, bytes, size, access, 0, key, 0, &mr, NULL);

    if (err == 0 && ofi_asks_for(ofi, FI_MR_ENDPOINT)) {
        err = bind_to_endpoint(ofi, mr);
        if (err != 0)
            fi_close(&mr->fid);
    }
    if (err == 0)
        *out = mr;
    return err;
}

/* With a key of ours, unless the provider makes them.  0; -ENOMEM, or another error. */
int ofi_register_keyed(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                       struct fid_mr **mr)
{
    uint64_t key = 0;
    int err = -FI_ENOKEY;

    for (int i = 0; i < KEY_TRIES && err == -FI_ENOKEY; i++) {
        if (!ofi_asks_for(ofi, FI_MR_PROV_KEY) && (err = random_secret(&key, sizeof key)) != 0)
            return err;
        err = register_with(ofi, bytes, size, access, key & key_mask(ofi), mr);
    }
    return err;
}

int ofi_register(struct ofi *ofi, void *bytes, size_t size, uint64_t access, struct fid_mr **mr)
{
    *mr = NULL;
    return ofi_asks_for(ofi, FI_MR_LOCAL) ? ofi_register_keyed(ofi, bytes, size, access, mr)
                                          : 0;
}

/* ---- exposing ---- */

static struct list *exposures_of(struct ofi *ofi, uint64_t key)
{
    return &ofi->exposures[key % OFI_EXPOSURE_LISTS];
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
                  ofi->library->strerror(-err));
        mem_free(exposure);
        return -ENOMEM;
    }
    list_init_node(&exposure->node);
    exposure->key = fi_mr_key(exposure->mr);
    list_add_tail(exposures_of(ofi, exposure->key), &exposure->node);
    *key = exposure->key;
    *address = ofi_asks_for(ofi, FI_MR_VIRT_ADDR) ? (uintptr_t)buf : OFFSET;
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

struct ofi_rma *ofi_rma_take(struct ofi_link *link, enum ofi_operation_kind kind)
{
    struct list *node =
        link->moving_count < OFI_RMA_LINK ? list_pop_head(&ofi_of_link(link)->rma_free) : NULL;
    struct ofi_rma *rma;

    if (node == NULL)
        return NULL;
    rma = container_of(node, struct ofi_rma, node);
    rma->operation.kind = kind;
    rma->link = link;
    ofi_of_link(link)->rma_count++;
    return rma;
}

void ofi_rma_begin(struct ofi_rma *rma)
{
    list_add_tail(&rma->link->moving, &rma->node);
    rma->link->moving_count++;
    ofi_of_link(rma->link)->begun++;
}

void ofi_rma_give(struct ofi *ofi, struct ofi_rma *rma)
{
    if (rma->local != NULL)
        fi_close(&rma->local->fid);
    rma->local = NULL;
    rma->cookie = NULL;
    rma->name = 0;
    rma->link = NULL;
    ofi->rma_count--;
    list_add_tail(&ofi->rma_free, &rma->node);
}

/* Where the provider finds what expose() called address. */
static uint64_t provider_address(const struct ofi *ofi, uint64_t address)
{
    return ofi_asks_for(ofi, FI_MR_VIRT_ADDR) ? address : address - OFFSET;
}

static int start(struct ofi *ofi, struct ofi_rma *rma, bool is_write, void *here,
                 uint64_t address, uint64_t key, size_t size)
{
    void *descriptor = rma->local != NULL ? fi_mr_desc(rma->local) : NULL;
    const struct iovec iov = {here, size};
    const struct fi_rma_iov there = {provider_address(ofi, address), size, key};
    const struct fi_msg_rma msg = {
        .msg_iov = &iov,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = rma->link->to,
        .rma_iov = &there,
        .rma_iov_count = 1,
        .context = &rma->operation.context,
    };

    return (int)(is_write ? fi_writemsg(ofi->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                          : fi_readmsg(ofi->ep, &msg, FI_COMPLETION));
}

static int failed(const struct ofi *ofi, int err)
{
    if (err == -FI_EAGAIN)
        return -EAGAIN;
    LOG_DEBUG("ofi: a peer's memory cannot be reached, error %d %s", -err,
              ofi->library->strerror(-err));
    return err == -FI_ENOSYS || err == -FI_EOPNOTSUPP || err == -FI_EBADFLAGS ? -ENOTSUP : -EIO;
}

int ofi_link_reach(struct ofi_link *link)
{
    if (link->state == OFI_NEW)
        ofi_call(link);
    if (link->state == OFI_DEAD)
        return link->error;
    return link->state == OFI_OPEN ? 0 : -EAGAIN;
}

static int move(struct ofi_link *link, bool is_write, void *here, uint64_t address,
                uint64_t key, size_t size, void *cookie)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_rma *rma;
    int err;

    if (!ofi->base.limits.can_read)
        return -ENOTSUP;
    if ((err = ofi_link_reach(link)) != 0)
        return err;
    rma = ofi_rma_take(link, OFI_MOVING);
    if (rma == NULL)
        return -EAGAIN;
    rma->cookie = cookie;
    err = ofi_register(ofi, here, size, is_write ? FI_WRITE : FI_READ, &rma->local);
    if (err == 0)
        err = start(ofi, rma, is_write, here, address, key, size);
    if (err != 0) {
        ofi_rma_give(ofi, rma);
        link->is_wanted = err == -FI_EAGAIN;
        return failed(ofi, err);
    }
    ofi_rma_begin(rma);
    return -EINPROGRESS;
}

static int ofi_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                    void *cookie)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->is_self)
        return -ENOTSUP; /* what an endpoint sends itself is copied */
    return move(link, false, dst, address, key, size, cookie);
}

static int ofi_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                     size_t size, void *cookie)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->is_self)
        return -ENOTSUP;
    return move(link, true, (void *)(uintptr_t)src, address, key, size, cookie);
}

/* Tells who waits for it, if anybody does. */
static void tell(struct ofi *ofi, const struct ofi_rma *rma, int error)
{
    if (ofi->is_closing)
        return;
    if (rma->cookie != NULL)
        ofi->events->read_done(ofi->arg, rma->cookie, error);
    if (rma->name != 0)
        ofi->events->cswap_done(ofi->arg, rma->name, error,
                                error == 0 && rma->found == rma->expected);
}

void ofi_moved(struct ofi *ofi, struct ofi_rma *rma, int error)
{
    const struct ofi_rma ended = *rma;

    if (rma->link != NULL) {
        list_remove(&rma->node);
        rma->link->moving_count--;
    }
    ofi_rma_give(ofi, rma);
    ofi->ended++;
    tell(ofi, &ended, error);
}

/* The operations stay the provider's until it says that they have ended. */
void ofi_moving_failed(struct ofi_link *link)
{
    struct ofi *ofi = ofi_of_link(link);
    struct list *node;

    while ((node = list_pop_head(&link->moving)) != NULL) {
        struct ofi_rma *rma = container_of(node, struct ofi_rma, node);
        const struct ofi_rma ended = *rma;

        rma->cookie = NULL;
        rma->name = 0;
        rma->link = NULL;
        tell(ofi, &ended, -ENOTCONN);
    }
    link->moving_count = 0;
}

/* ---- open and close ---- */

int ofi_memory_open(struct ofi *ofi)
{
    list_init(&ofi->rma_free);
    for (size_t i = 0; i < OFI_EXPOSURE_LISTS; i++)
        list_init(&ofi->exposures[i]);
    ofi->rmas = mem_calloc(OFI_RMA_MAX, sizeof *ofi->rmas);
    if (ofi->rmas == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < OFI_RMA_MAX; i++) {
        list_init_node(&ofi->rmas[i].node);
        list_add_tail(&ofi->rma_free, &ofi->rmas[i].node);
    }
    return 0;
}

void ofi_memory_close(struct ofi *ofi)
{
    if (ofi->rmas == NULL)
        return;
    for (size_t i = 0; i < OFI_EXPOSURE_LISTS; i++)
        while (!list_is_empty(&ofi->exposures[i]))
            exposure_destroy(container_of(ofi->exposures[i].next, struct ofi_exposure, node));
    for (size_t i = 0; i < OFI_RMA_MAX; i++)
        if (ofi->rmas[i].local != NULL)
            fi_close(&ofi->rmas[i].local->fid);
    mem_free(ofi->rmas);
}

const struct transport_memory ofi_memory = {
    .expose = ofi_expose,
    .unexpose = ofi_unexpose,
    .read = ofi_read,
    .write = ofi_write,
};
