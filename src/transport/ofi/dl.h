/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dl.h - libfabric, loaded when the first endpoint needs it.
 *
 * Who talks through shared memory alone shall not pay for a library that looks for network
 * adapters when it starts: nothing is linked with libfabric.  Of its functions only these
 * have to be found; all others are behind pointers of the objects that they make.
 */
#ifndef OFI_DL_H
#define OFI_DL_H

#include "base/base.h" /* first: libfabric has a container_of of its own */

#include <rdma/fi_atomic.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* What we were written for; an older library is asked for what it has. */
#define OFI_API_VERSION FI_VERSION(1, 17)

struct ofi_dl {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
    uint32_t (*version)(void);
};

/* 0 and *out, which stays; -ENOTSUP: it is not installed, or too old; logged. */
int ofi_dl_get(const struct ofi_dl **out);

#endif
