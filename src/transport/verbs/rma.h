/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h - reads and writes a peer's memory, and exposes our own to peers: rma.c.
 *
 * Invariants
 *   I0  expected_count is the length of expected, the exposures for which the peer's adapter
 *       will send a FIN, at most its window; numbered has the numbers of these
 *   I1  an operation is free, or on the list of its link, which has at most IB_LINK_RMA, or
 *       held only by the adapter, when its link has ended
 */
#ifndef IB_RMA_H
#define IB_RMA_H

#include "base/list.h"
#include "transport/memory.h"
#include "transport/verbs/verbs_frame.h"

#define IB_RMA_MAX        64 /* reads, writes and probes under way */
#define IB_LINK_RMA       24 /* of these, for one peer: so other peers need not wait */
#define IB_EXPOSURE_LISTS 256

struct ib;
struct ib_link;
struct verbs_region;
struct verbs_regions;

/* A read or write, or a probe whether the peer's adapter is there. */
struct ib_rma_op {
    struct list node;            /* on free, or its link's moving */
    struct ib_link *link;        /* NULL: its peer is gone */
    struct ib_link *counted;     /* the link whose in_flight counts it */
    void *cookie;                /* NULL: its result is not needed */
    struct verbs_region *region; /* registers `here` */
    bool is_write;
    unsigned char *here;
    uint64_t there, left; /* bytes that were not requested yet */
    uint32_t key;
};

/* Memory that a peer may read and write. */
struct ib_exposure {
    struct list node;        /* on exposures[] */
    struct list in_expected; /* on the link's list `expected` */
    struct verbs_region *region;
    uint64_t key;            /* the core's key for it */
    struct ib_link *expects; /* the peer's adapter will send this FIN, for this request */
    struct verbs_fin fin;
    uint32_t number; /* the number in fin */
    uint64_t sender;
    unsigned char nothing; /* exposed for an empty message */
};

struct ib_rma {
    struct verbs_regions *regions;
    struct ib_rma_op *operations;
    struct list free;
    uint32_t exposed; /* number of exposures so far */
    uint64_t begun, ended;
    uint64_t chunk_max; /* the most bytes that one request moves */
    struct list exposures[IB_EXPOSURE_LISTS];
};

struct ib_link_rma {
    struct list moving;
    uint32_t moving_count;
    uint32_t in_flight; /* requests posted to the adapter */
    uint32_t expected_count;
    uint64_t numbered[VERBS_NUMBERS / 64]; /* bits: numbers in use */
    uint32_t next_number;                  /* where a free one is looked for */
    struct list
        expected; /* exposures that wait for a FIN of the peer's adapter; the oldest first */
    bool is_full; /* a read or write found no space since ib_rma_checked() */
};

extern const struct transport_memory ib_memory;

/* pinned: the bytes_max of verbs_regions_open(). */
int ib_rma_open(struct ib *ib, uint64_t pinned);
void ib_rma_close(struct ib *ib);
void ib_rma_init_link(struct ib_link_rma *rma);

/* Probes the adapter of a peer.  If it does not answer, the queue pair fails. */
void ib_rma_ask(struct ib_link *link);

/* The peer's adapter will send this FIN for the core's request; key: from ib_expose().  Adds a
 * number to app_ctx.  False: no such memory is exposed, or there are no receives or numbers
 * left. */
bool ib_rma_expect(struct ib_link *link, struct verbs_fin *fin, uint64_t key, uint64_t sender);

/* The FIN has come.  False: it was not expected. */
bool ib_rma_answered(struct ib_link *link, const struct verbs_fin *fin, uint64_t *sender);

/* A request has completed, successfully or not.  Returns its link; NULL: the link has ended. */
struct ib_link *ib_rma_done(struct ib *ib, uint32_t number, bool is_success);

/* The peer is gone: its reads and writes end once the adapter has completed each of them. */
void ib_rma_fail(struct ib_link *link);

/* The adapter is lost, and will complete nothing: all pending operations have ended. */
void ib_rma_lose(struct ib *ib);

/* Does a read or write wait for the peer?  And: the peer has just been checked. */
bool ib_rma_is_waiting(const struct ib_link *link);
void ib_rma_checked(struct ib_link *link);

#endif
