/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.h - reads and writes a peer's memory, and exposes our own to peers: rdma.c.
 *
 * Invariants
 *   I1  an operation is free, or on the list of its link, which has at most OFI_RDMA_LINK, or
 *       held only by the provider, when its link has ended
 */
#ifndef OFI_RDMA_H
#define OFI_RDMA_H

#include "base/list.h"
#include "transport/memory.h"
#include "transport/ofi/domain.h"

#define OFI_RDMA_MAX       64 /* reads, writes and swaps under way */
#define OFI_RDMA_LINK      48 /* of these, for one peer: so other peers need not wait */
#define OFI_EXPOSURE_LISTS 256

struct ofi_link;

/* A read, write or swap. */
struct ofi_rdma_op {
    struct ofi_operation operation; /* MOVING, SWAPPING or OWN */
    struct list node;               /* on free, or its link's moving */
    void *cookie;                   /* of a read or write; NULL: its result is not needed */
    struct fid_mr *local;
    struct ofi_link *link;
    uint64_t swap;                     /* the cookie of a swap, or 0 */
    uint64_t expected, desired, found; /* of a swap */
};

/* Memory that a peer may read and write. */
struct ofi_exposure {
    struct list node; /* on exposures[] */
    uint64_t key;
    struct fid_mr *mr;
};

struct ofi_rdma {
    struct ofi_rdma_op *operations;
    struct list free;
    uint32_t count; /* operations in use */
    uint64_t begun, ended;
    struct list exposures[OFI_EXPOSURE_LISTS];
};

struct ofi_link_rdma {
    struct list moving; /* reads, writes and swaps */
    uint32_t moving_count;
    bool is_full; /* a read or write found no space since ofi_rdma_checked() */
};

extern const struct transport_memory ofi_memory;

int ofi_rdma_open(struct ofi *ofi);
void ofi_rdma_close(struct ofi *ofi);
void ofi_rdma_init_link(struct ofi_link_rdma *rdma);

/* Is the link open?  0; -EAGAIN not yet, but it will be; or its error. */
int ofi_rdma_reach(struct ofi_link *link);

/* An operation for the peer of link; NULL: none is free, or the peer has its share. */
struct ofi_rdma_op *ofi_rdma_take(struct ofi_link *link, enum ofi_operation_kind kind);
/* The provider has the operation now. */
void ofi_rdma_begin(struct ofi_rdma_op *op);
void ofi_rdma_give(struct ofi *ofi, struct ofi_rdma_op *op);

/* The provider reports the end of the operation. */
void ofi_rdma_ended(struct ofi *ofi, struct ofi_rdma_op *op, int error);

/* The peer is gone: its reads, writes and swaps end. */
void ofi_rdma_fail(struct ofi_link *link);

/* Does a read, write or swap wait for the peer?  And: the peer has just been checked. */
bool ofi_rdma_is_waiting(const struct ofi_link *link);
void ofi_rdma_checked(struct ofi_link *link);

#endif
