/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * domain.h - libfabric's objects of an endpoint, and memory registered with them.
 *
 *   fabric -> domain -> endpoint (reliable datagrams, messages and RMA)
 *                       completion queue, one for everything, with a descriptor to sleep on
 *                       address vector, one entry for each link
 */
#ifndef OFI_DOMAIN_H
#define OFI_DOMAIN_H

#include "transport/ofi/dl.h"

struct ofi;

/* The kind of operation that a completion belongs to. */
enum ofi_operation_kind { OFI_SENDING, OFI_RECEIVING, OFI_MOVING, OFI_SWAPPING, OFI_OWN };

struct ofi_operation {
    struct fi_context2 context; /* the provider's */
    enum ofi_operation_kind kind;
};

struct ofi_domain {
    const struct ofi_dl *dl;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd; /* readable when there may be something to poll, or -1 */
};

/* Call after choosing dl and info.  0; -ENOMEM, -EIO, logged. */
int ofi_domain_open(struct ofi *ofi);
/* Call the first before registrations are released, the second after. */
void ofi_domain_close_endpoint(struct ofi *ofi);
void ofi_domain_close(struct ofi *ofi);

/* Logs that `what` failed with the provider's error.  -ENOMEM or -EIO. */
int ofi_domain_failed(const struct ofi *ofi, const char *what, int err);

/* Does the provider require this bit of mr_mode? */
bool ofi_domain_asks_for(const struct ofi *ofi, uint64_t mr_mode);

/* Registers our own [bytes, bytes+size) if the provider requires that; *mr may become NULL.
 * 0; -ENOMEM, or another error. */
int ofi_register(struct ofi *ofi, void *bytes, size_t size, uint64_t access,
                 struct fid_mr **mr);

/* Registers in any case, like fi_mr_reg, with a key of our own unless the provider chooses
 * keys. */
int ofi_register_keyed(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                       struct fid_mr **mr);

#endif
