/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h - one-sided: reads, writes and atomics of a peer's memory.
 *
 * lib names the modules and asks for access_atomic_max(); other folders call nothing here.
 *
 *   whose access it is (origin.c)                whose memory it is (target.c, region.c)
 *   access       ── PUT, GET, ATOMIC ────────>   serve: behind the earlier ones of this peer,
 *   wait-answer                                  copies the bytes, or has the transport read
 *                                                or write the other side's buffer
 *                <──────────────── ANSWER ───    done
 *   complete
 *
 * or, of a long PUT, where the owner cannot read the other side's buffer:
 *
 *   wait-answer  <────────── ANSWER, pull ───    wait-push
 *   push         ── PUSH ... ────────────────>
 *   wait-answer  <──────────────── ANSWER ───    done
 *   complete
 *
 * and a long GET whose bytes cannot be written to the other side's buffer is answered by
 * several ANSWERs.
 *
 * Why the owner performs it, and not the other side by process_vm_writev: the owner looks at
 * key, rights and range at the moment of the access, so there is nothing to be told, cached
 * or revoked; order and atomicity need no lock between processes; and a deregistered region
 * is not touched any more.  The bytes move once all the same.
 *
 * Invariants
 *   I1  of our accesses to a peer at most ACCESS_WINDOW are under way: on its out, at it, or
 *       in an answer.  The others wait, in the order of the calls
 *   I2  so a peer has at most as many jobs here, and what is beyond that is malformed; arrived
 *       counts some of them, from the first on
 *   I3  a peer's jobs are performed in the order of their packets: only the first is stepped
 *   I4  accesses.serving is on endpoint.progress.works if and only if there are jobs
 *   I5  an event that the user has not read is counted in unread; with EVENT_WINDOW of them
 *       a peer's next write with data waits
 *   I6  region.busy counts the jobs of that region that the transport moves
 */
#ifndef RMA_RMA_H
#define RMA_RMA_H

#include "p2p/p2p.h"

enum rma_proto {
    PROTO_ACCESS = 10, /* origin.c: one-sided, ours */
    PROTO_TARGET       /* target.c: one-sided, of a peer */
};

/* Of an endpoint: what peers may access, by key.  region.c */
struct region;
PART_FITS(mbx_ep, regions, struct hash);
#define ep_regions(ep) PART((ep)->regions, struct hash)

#define ACCESS_WINDOW  32
#define EVENT_WINDOW   1024

enum access_state {
    ACCESS_QUEUED = PROTO_STATE(PROTO_ACCESS, 0), /* waits until fewer are under way */
    ACCESS_LEAVING,                               /* its packet has not left */
    ACCESS_WAIT_ANSWER,                           /* the owner of the memory will say ANSWER */
    ACCESS_PUSHING,                               /* what the owner asked for is leaving */
};

enum target_state {
    TARGET_TURN = PROTO_STATE(PROTO_TARGET, 0), /* waits for its turn, or for space */
    TARGET_MOVING,                              /* the transport moves */
    TARGET_WAIT_PUSH,                           /* its bytes will come */
};

/* Of one peer. */
struct accesses {
    struct peer *peer;
    struct list waiting; /* ours that may not leave yet */
    struct list jobs;    /* the peer's */
    struct work serving;
    uint32_t under_way; /* ours */
    uint32_t job_count;
    uint32_t arrived; /* of these jobs, from the first on, when target_note() was called */
    uint32_t unread;  /* events that it made */
};

/* ---- origin.c ---- */

/* Made on first use; NULL: no memory. */
struct accesses *access_of(struct mbx_ep *ep, struct peer *peer);
/* Most bytes of an atomic's operands. */
size_t access_atomic_max(const struct mbx_ep *ep);

/* ---- target.c ---- */

/* Performs the jobs of a peer as far as can be: struct accesses.serving. */
int target_run(struct mbx_ep *ep, struct work *work);
/* What has arrived by now is what the next two ask about. */
void target_note(struct mbx_ep *ep);
/* Is all of that performed and answered, or waits for its peer to send more? */
bool target_is_done(const struct mbx_ep *ep);
/* Is there some of that for the region of this key, or behind it, which goes on though no peer
 * does anything? */
bool target_goes_on(const struct mbx_ep *ep, uint64_t key);

/* ---- region.c ---- */

struct region {
    uint64_t key;
    struct mbx_region memory;
    struct mbx_served served;
    uint32_t busy;   /* parts that the transport moves */
    bool is_closing; /* nobody may begin anything */
};

/* The region of this key if [at, at + size) lies in it and it has these rights; else NULL and
 * *error, a positive errno. */
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

/* Updates count elements at target.  operand's are replaced by what was there before if
 * fetch.  compare: as many, or NULL if op takes none.  Alignment does not matter. */
void atomic_apply(enum mbx_op op, enum mbx_type type, size_t count, void *target, void *operand,
                  const void *compare, bool fetch);

static inline bool atomic_compares(enum mbx_op op)
{
    return op >= MBX_CSWAP;
}

/* Do the invariants hold, of both?  With MBX_CHECKS. */
bool access_is_valid(const struct mbx_ep *ep);

extern const struct module access_module, target_module;

#endif
