/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h - a plan is run, and what became of each operation is kept.
 *
 *   open     every rank an endpoint; nobody knows anybody
 *   program  each rank does its operations when their time has come, and progress when its
 *            endpoint is woken, until nothing moves any more
 *   cancel   receives that still wait are taken back, and what is claimed is discarded
 *   drain    receives for everything that was sent and not received
 *   close    nothing is left in any endpoint
 *
 * Then check.h says whether it was right.
 */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include <matchbox/matchbox.h>

#include "base/random.h"
#include "plan.h"
#include "program.h"
#include "waits.h"

struct mbx_ep;

/* An operation, and its state. */
struct item {
    struct op op;
    bool is_live;      /* it was done, and is to complete if it has a request */
    bool is_claimed;   /* mprobe: of a message that is held */
    bool is_asked;     /* receive, send: a cancel has returned 0 */
    bool is_cancelled; /* ... and was in time */
    bool is_void;      /* message: there was no memory to send it, or it was taken back */
    bool is_drain;     /* receive of the end */
    bool is_withheld; /* receive: not posted, as nothing came for it in the record: replays.h */
    bool is_received; /* message: by a receive that is complete, or it was discarded */
    bool is_reported; /* a call has told the program that it is complete: program.h */
    uint8_t tries;    /* of an mprobe */
    uint32_t got;     /* receive, probe: id of the message, or 0 */
    uint32_t taken_by; /* message: id of the receive, or 0 */
    uint32_t key;      /* message: what its content depends on, besides the id */
    uint32_t completions;
    uint32_t notified; /* receive from any source: so often of a peer that has died */
    int error;
    mbx_request request;
    mbx_message message;
    unsigned char *buf;
    uint64_t result;             /* of an add */
    uint64_t posted_ns, done_ns; /* virtual */
    /* on the clock of its rank: */
    uint32_t posted, cancelled, done;
};

struct rank {
    struct mbx_ep *ep; /* NULL: dead */
    struct mbx_address address;
    uint32_t first, next, end; /* of the plan's operations */
    uint64_t again_ns;         /* the next one not before */
    uint32_t clock;            /* counts what it does and sees */
    uint64_t stalls_until_ns;
    bool is_dead, has_left; /* dead in either case; has_left: it closed its endpoint */
    uint32_t claims;        /* messages that matched probes took */
    uint32_t *whose;        /* by peer number: the rank */
    uint32_t known;
    uint64_t cells[PLAN_CELLS];
    struct wait wait;
    struct program program;
};

struct job_counts {
    uint64_t operations, packets, sent, received, cancelled, truncated, failed, deaths;
    uint64_t deferred, claims_met, pulled, advert, rendezvous; /* how messages travelled */
    uint64_t held; /* and were matched in a device that held them */
    uint64_t virtual_ns, digest;
};

struct job {
    const struct plan *plan;
    struct rank *ranks;
    struct item *items; /* by id; [0] is none */
    uint32_t item_count, item_capacity;
    uint64_t begin_ns;
    struct random chance;
    bool is_verbose;
    uint64_t live;  /* blocks of memory before */
    uint64_t steps; /* of its ranks */
    struct job_counts counts;
    struct wait_counts waits;
    uint64_t last_ns;      /* when something was begun, or has completed */
    struct looks *looks;   /* waits.c; or NULL */
    struct replay *replay; /* replays.c; or NULL */
    bool is_over;          /* all events are; who still waits does so for ever */
    char why[256];         /* empty: all is right */
};

/* True if all was right; otherwise `why` says what was wrong.  replay: of replays_run(), or NULL. */
bool job_run(const struct plan *plan, struct replay *replay, bool is_verbose,
             struct job_counts *counts, char *why, size_t size);

void job_counts_add(struct job_counts *sum, const struct job_counts *counts);

/* The counts of all jobs until now. */
const struct wait_counts *job_waits(void);

/* The first thing that is wrong is what counts. */
void job_wrong(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct item *job_item(struct job *job, uint32_t id)
{
    return &job->items[id < job->item_count ? id : 0];
}

static inline bool item_is_receive(const struct item *item)
{
    return item->op.kind == OP_RECV || item->op.kind == OP_MRECV;
}

static inline bool item_has_request(const struct item *item)
{
    return item->is_live &&
           (item->op.kind <= OP_RECV || item->op.kind == OP_MRECV || item->op.kind == OP_ADD) &&
           item->op.kind != OP_INJECT;
}

/* Would this receive or probe take that message? */
bool item_accepts(const struct item *receive, const struct item *message);

/* ---- rank.c ---- */

void rank_open(struct job *job, uint32_t who);
/* It was woken: does what it has to, and sleeps again. */
void rank_run(struct job *job, uint32_t who);
/* Does this one now. */
void rank_do(struct job *job, struct item *item);
/* One round. */
void rank_progress(struct job *job, uint32_t who);
/* Does this probe find a message? */
bool rank_probe(struct job *job, struct item *item);
void rank_close(struct job *job, uint32_t who);
/* The number of a rank among the peers of who. */
uint32_t rank_peer(struct job *job, uint32_t who, uint32_t rank);
/* How many peers of it have died. */
uint32_t rank_dead_peers(struct job *job, uint32_t who);
/* Its endpoint is closed: its buffer is nobody's any more. */
void rank_forget(struct item *item);

#endif
