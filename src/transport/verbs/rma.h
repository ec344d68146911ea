/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h - reading and writing a peer's memory, and what of ours peers may reach: rma.c.
 *
 * Invariants
 *   I0  expected_count is the length of expected, the exposures that expect something of the link, no
 *       more than its window; numbered has the numbers of these
 *   I1  an operation is free, or on the list of its link, which has no more than IB_LINK_RMA, or the
 *       adapter's alone, when that link has ended
 */
#ifndef IB_RMA_H
#define IB_RMA_H

#include "base/list.h"
#include "transport/memory.h"
#include "transport/verbs/verbs_frame.h"

#define IB_RMA_MAX        64 /* reads, writes and questions under way */
#define IB_LINK_RMA       24 /* of these, for one peer: another one is not kept waiting */
#define IB_EXPOSURE_LISTS 256

struct ib;
struct ib_link;
struct verbs_region;
struct verbs_regions;

/* A read or write, or a question whether the peer's adapter is there. */
struct ib_rma_op {
    struct list node;            /* on free, or its link's moving */
    struct ib_link *link;        /* NULL: its peer is gone */
    struct ib_link *counted;     /* whose in_flight it is in */
    void *cookie;                /* NULL: nobody waits for it any more */
    struct verbs_region *region; /* of here */
    bool is_write;
    unsigned char *here;
    uint64_t there, left; /* bytes: what was not asked for yet */
    uint32_t key;
};

/* What a peer may read and write. */
struct ib_exposure {
    struct list node;        /* on exposures[] */
    struct list in_expected; /* of the link that it expects something of */
    struct verbs_region *region;
    uint64_t key;            /* that the core knows */
    struct ib_link *expects; /* the peer's adapter will say FIN: this one, of this request */
    struct verbs_fin fin;
    uint32_t number; /* of fin */
    uint64_t sender;
    unsigned char nothing; /* what is exposed of an empty message */
};

struct ib_rma {
    struct verbs_regions *regions;
    struct ib_rma_op *operations;
    struct list free;
    uint32_t exposed; /* how many, ever */
    uint64_t begun, ended;
    uint64_t chunk_max; /* bytes that one request of the adapter moves */
    struct list exposures[IB_EXPOSURE_LISTS];
};

struct ib_link_rma {
    struct list moving;
    uint32_t moving_count;
    uint32_t in_flight; /* requests that the adapter has */
    uint32_t expected_count;
    uint64_t numbered[VERBS_NUMBERS / 64]; /* bits: numbers that requests have */
    uint32_t next_number;                  /* where a free one is looked for */
    struct list
        expected; /* exposures, which wait for a FIN of the peer's adapter; the oldest first */
    bool is_full; /* a read or write found no space since its peer was last looked after */
};

extern const struct transport_memory ib_memory;

/* pinned: bytes_max of verbs_regions_open(). */
int ib_rma_open(struct ib *ib, uint64_t pinned);
void ib_rma_close(struct ib *ib);
void ib_rma_init_link(struct ib_link_rma *rma);

/* Asks the adapter of a peer whether it is there.  If it is not, the queue pair fails. */
void ib_rma_ask(struct ib_link *link);

/* The peer's adapter is going to say this FIN, of the core's request; key: that of ib_expose().  Adds a
 * number to app_ctx.  False: it cannot be, for no such memory is exposed, or there are receives, or
 * numbers, for no more. */
bool ib_rma_expect(struct ib_link *link, struct verbs_fin *fin, uint64_t key, uint64_t sender);

/* It has said it.  False: it was not expected. */
bool ib_rma_answered(struct ib_link *link, const struct verbs_fin *fin, uint64_t *sender);

/* The adapter has done what was asked, or not.  Its link; NULL: it has ended. */
struct ib_link *ib_rma_done(struct ib *ib, uint32_t number, bool is_success);

/* The peer is gone: its reads and writes end, when the adapter has said so of each. */
void ib_rma_fail(struct ib_link *link);

/* The adapter is lost, and says nothing any more: all that is under way has ended. */
void ib_rma_lose(struct ib *ib);

/* Does a read or write wait for the peer?  Its peer is looked after now. */
bool ib_rma_is_waiting(const struct ib_link *link);
void ib_rma_checked(struct ib_link *link);

#endif
