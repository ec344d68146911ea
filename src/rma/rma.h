/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h - one-sided accesses: reads, writes and atomics of a peer's memory.
 *
 * lib lists the modules and calls access_atomic_max(); other folders call no function here.
 *
 *   origin (origin.c)                            owner of the memory (target.c, region.c)
 *   access       ── PUT, GET, ATOMIC ────────>   serve: after earlier accesses of this peer,
 *   wait-answer                                  copies the bytes, or lets the transport read
 *                                                or write the origin's buffer
 *                <──────────────── ANSWER ───    done
 *   complete
 *
 * or, for a long PUT, if the owner cannot read the origin's buffer:
 *
 *   wait-answer  <────────── ANSWER, pull ───    wait-push
 *   push         ── PUSH ... ────────────────>
 *   wait-answer  <──────────────── ANSWER ───    done
 *   complete
 *
 * and a long GET whose bytes cannot be written to the origin's buffer is answered by several
 * ANSWERs.
 *
 * The owner performs the access, and not the origin by process_vm_writev, for three reasons:
 * the owner checks key, rights and range at the moment of the access, so nothing has to be
 * sent, cached or revoked; order and atomicity need no lock between processes; and a
 * deregistered region is no longer touched.  The bytes still move only once.
 *
 * Invariants
 *   I1  at most ACCESS_WINDOW of our accesses to a peer are in progress: on its out, at the
 *       peer, or in an answer.  The others wait, in the order of the calls
 *   I2  so a peer has at most that many jobs here, and one more is an error; arrived counts
 *       some of them, from the first on
 *   I3  a peer's jobs are performed in the order of their packets: only the first one makes
 *       steps
 *   I4  accesses.serving is on endpoint.progress.works if and only if there are jobs
 *   I5  unread counts the events that the user has not read; with EVENT_WINDOW of them a peer's
 *       next write with data waits
 *   I6  region.busy counts the jobs of that region that the transport is moving
 */
#ifndef RMA_RMA_H
#define RMA_RMA_H

#include "p2p/p2p.h"

enum rma_proto {
    PROTO_ACCESS = 10, /* origin.c: a one-sided access by us */
    PROTO_TARGET       /* target.c: a one-sided access by a peer */
};

/* Part of an endpoint: the memory that peers may access, by key.  region.c */
struct region;
PART_FITS(mbx_ep, regions, struct hash);
#define ep_regions(ep) PART((ep)->regions, struct hash)

#define ACCESS_WINDOW  32
#define EVENT_WINDOW   1024

enum access_state {
    ACCESS_QUEUED = PROTO_STATE(PROTO_ACCESS, 0), /* waits until fewer are in progress */
    ACCESS_LEAVING,                               /* its packet has not left */
    ACCESS_WAIT_ANSWER,                           /* waits for an ANSWER of the owner of the
                                                     memory */
    ACCESS_PUSHING,                               /* the bytes that the owner pulled are
                                                     leaving */
};

enum target_state {
    TARGET_TURN = PROTO_STATE(PROTO_TARGET, 0), /* waits for its turn, or for space */
    TARGET_MOVING,                              /* the transport moves the data */
    TARGET_WAIT_PUSH,                           /* its bytes will come in PUSHes */
};

/* The state for one peer. */
struct accesses {
    struct peer *peer;
    struct list waiting; /* our accesses that may not leave yet */
    struct list jobs;    /* the peer's */
    struct work serving;
    uint32_t under_way; /* our accesses in progress */
    uint32_t job_count;
    uint32_t arrived; /* the jobs, from the first on, that had arrived when target_note() was
                         called */
    uint32_t unread;  /* unread events of its writes */
};

/* ---- origin.c ---- */

/* The accesses of peer, made on first use; NULL: no memory. */
struct accesses *access_of(struct mbx_ep *ep, struct peer *peer);
/* The most bytes of an atomic's operands. */
size_t access_atomic_max(const struct mbx_ep *ep);

/* ---- target.c ---- */

/* Performs the jobs of a peer until one cannot go on: struct accesses.serving. */
int target_run(struct mbx_ep *ep, struct work *work);
/* Marks the jobs that have arrived so far, for the next two functions. */
void target_note(struct mbx_ep *ep);
/* Are all marked jobs performed and answered, or waiting for another packet of their peer? */
bool target_is_done(const struct mbx_ep *ep);
/* Is there a marked job for the region of this key, or after such a job, that can continue
 * without its peer? */
bool target_goes_on(const struct mbx_ep *ep, uint64_t key);

/* ---- region.c ---- */

enum region_state {
    REGION_OPEN,
    REGION_ENDING,  /* accesses that have arrived are still performed */
    REGION_CLOSING, /* no access may begin */
};

struct region {
    uint64_t key;
    struct mbx_region memory;
    struct mbx_served served;
    uint32_t busy; /* parts that the transport is moving */
    enum region_state state;
};

/* The region of this key if [at, at + size) is inside it and it has these rights; otherwise
 * NULL and *error, a positive errno. */
struct region *region_check(struct mbx_ep *ep, uint64_t key, uint64_t at, uint64_t size,
                            unsigned rights, uint16_t *error);
/* The region of this key, also while it is closing, or NULL. */
struct region *region_find(const struct mbx_ep *ep, uint64_t key);
/* Walks all regions, as hash_next() walks slots. */
struct region *region_next(const struct mbx_ep *ep, size_t *position);
void region_fini(struct mbx_ep *ep);

static inline char *region_at(const struct region *region, uint64_t at)
{
    return (char *)((uintptr_t)region->memory.buf + (uintptr_t)(at - region->memory.address));
}

/* ---- atomic.c ---- */

/* Updates count elements at target.  fetch: the operands are replaced by the previous values.
 * compare: as many values, or NULL if op takes none.  Alignment does not matter. */
void atomic_apply(enum mbx_op op, enum mbx_type type, size_t count, void *target, void *operand,
                  const void *compare, bool fetch);

static inline bool atomic_compares(enum mbx_op op)
{
    return op >= MBX_CSWAP;
}

/* Check the invariants of origin.c and target.c.  With MBX_CHECKS. */
bool access_is_valid(const struct mbx_ep *ep);

extern const struct module access_module, target_module;

#endif
