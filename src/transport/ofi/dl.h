/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dl.h - libfabric, loaded when the first endpoint needs it.
 *
 * A process that uses only shared memory should not pay for a library that searches for network
 * adapters when it is loaded: nothing is linked with libfabric.  Only these functions need a
 * symbol lookup; all others are reached through pointers in libfabric's objects.
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

/* The version that this code was written for; an older library is asked for its own version. */
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

/* 0 and *out, which stays loaded; -ENOTSUP: not installed, or too old; logged. */
int ofi_dl_get(const struct ofi_dl **out);

#endif
