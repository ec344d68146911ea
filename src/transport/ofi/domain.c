/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * domain.c - opening libfabric's objects, and registering memory.
 *
 * Tag matching is not requested.  Keys that we choose are random: a peer that knows the key of
 * one region cannot guess the next.
 */
#include "transport/ofi/domain.h"

#include <errno.h>

#include "base/log.h"
#include "base/random.h"
#include "transport/ofi/ofi.h"

#define KEY_TRIES 4

/* ---- opening ---- */

int ofi_domain_failed(const struct ofi *ofi, const char *what, int err)
{
    LOG_ERROR("ofi: %s of provider %s failed, error %d %s", what,
              ofi->domain.info->fabric_attr->prov_name, -err, ofi->domain.dl->strerror(-err));
    return err == -FI_ENOMEM ? -ENOMEM : -EIO;
}

static int open_queue(struct ofi *ofi)
{
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = FI_WAIT_FD,
        .size = 2 * (OFI_BUFFERS + OFI_RDMA_MAX) +
                OFI_MULTI * (OFI_MULTI_SIZE / sizeof(struct wire_header)) / 8,
    };
    int err = fi_cq_open(ofi->domain.domain, &attr, &ofi->domain.cq, NULL);

    ofi->domain.fd = -1;
    if (err == 0) {
        if (fi_control(&ofi->domain.cq->fid, FI_GETWAIT, &ofi->domain.fd) != 0)
            ofi->domain.fd = -1;
        return 0;
    }
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain.domain, &attr, &ofi->domain.cq, NULL);
}

int ofi_domain_open(struct ofi *ofi)
{
    struct fi_av_attr av = {.type = ofi->domain.info->domain_attr->av_type};
    int err = ofi->domain.dl->fabric(ofi->domain.info->fabric_attr, &ofi->domain.fabric, NULL);

    if (err != 0)
        return ofi_domain_failed(ofi, "fi_fabric", err);
    if ((err = fi_domain(ofi->domain.fabric, ofi->domain.info, &ofi->domain.domain, NULL)) != 0)
        return ofi_domain_failed(ofi, "fi_domain", err);
    if (av.type == FI_AV_UNSPEC)
        av.type = FI_AV_TABLE;
    if ((err = fi_av_open(ofi->domain.domain, &av, &ofi->domain.av, NULL)) != 0)
        return ofi_domain_failed(ofi, "fi_av_open", err);
    if ((err = open_queue(ofi)) != 0)
        return ofi_domain_failed(ofi, "fi_cq_open", err);
    if ((err = fi_endpoint(ofi->domain.domain, ofi->domain.info, &ofi->domain.ep, NULL)) != 0)
        return ofi_domain_failed(ofi, "fi_endpoint", err);
    if ((err = fi_ep_bind(ofi->domain.ep, &ofi->domain.av->fid, 0)) != 0 ||
        (err = fi_ep_bind(ofi->domain.ep, &ofi->domain.cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
        return ofi_domain_failed(ofi, "fi_ep_bind", err);
    err = fi_enable(ofi->domain.ep);
    return err != 0 ? ofi_domain_failed(ofi, "fi_enable", err) : 0;
}

/* ---- registering ---- */

bool ofi_domain_asks_for(const struct ofi *ofi, uint64_t mr_mode)
{
    return ((uint64_t)ofi->domain.info->domain_attr->mr_mode & mr_mode) != 0;
}

static uint64_t key_mask(const struct ofi *ofi)
{
    size_t size = ofi->domain.info->domain_attr->mr_key_size;

    return size == 0 || size >= sizeof(uint64_t) ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;
}

static int bind_to_endpoint(struct ofi *ofi, struct fid_mr *mr)
{
    int err = fi_mr_bind(mr, &ofi->domain.ep->fid, 0);

    return err != 0 ? err : fi_mr_enable(mr);
}

static int register_with(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                         uint64_t key, struct fid_mr **out)
{
    struct fid_mr *mr;
    int err = fi_mr_reg(ofi->domain.domain, bytes, size, access, 0, key, 0, &mr, NULL);

    if (err == 0 && ofi_domain_asks_for(ofi, FI_MR_ENDPOINT)) {
        err = bind_to_endpoint(ofi, mr);
        if (err != 0)
            fi_close(&mr->fid);
    }
    if (err == 0)
        *out = mr;
    return err;
}

int ofi_register_keyed(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                       struct fid_mr **mr)
{
    uint64_t key = 0;
    int err = -FI_ENOKEY;

    for (int i = 0; i < KEY_TRIES && err == -FI_ENOKEY; i++) {
        if (!ofi_domain_asks_for(ofi, FI_MR_PROV_KEY) &&
            (err = random_secret(&key, sizeof key)) != 0)
            return err;
        err = register_with(ofi, bytes, size, access, key & key_mask(ofi), mr);
    }
    return err;
}

int ofi_register(struct ofi *ofi, void *bytes, size_t size, uint64_t access, struct fid_mr **mr)
{
    *mr = NULL;
    return ofi_domain_asks_for(ofi, FI_MR_LOCAL)
               ? ofi_register_keyed(ofi, bytes, size, access, mr)
               : 0;
}

/* ---- closing ---- */

void ofi_domain_close_endpoint(struct ofi *ofi)
{
    if (ofi->domain.ep != NULL)
        fi_close(&ofi->domain.ep->fid);
}

void ofi_domain_close(struct ofi *ofi)
{
    struct ofi_domain *d = &ofi->domain;

    if (d->cq != NULL)
        fi_close(&d->cq->fid);
    if (d->av != NULL)
        fi_close(&d->av->fid);
    if (d->domain != NULL)
        fi_close(&d->domain->fid);
    if (d->fabric != NULL)
        fi_close(&d->fabric->fid);
    if (d->info != NULL)
        d->dl->freeinfo(d->info);
}
