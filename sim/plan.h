/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - a job, made from its seed: the network it runs over, the settings of its endpoints, and
 * what each rank does when.
 *
 * Every operation has an id that others name, so a plan stays meaningful when some of it is
 * dropped.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "testing/sim/sim.h"

#define PLAN_ANYBODY    UINT32_MAX
#define PLAN_PARAMS     27 /* the last ones are a device's */
#define PLAN_BUFFERS    16 /* the place of the one that goes with bounce buffers */
#define PLAN_VARIANTS   3
#define PLAN_RANKS_MAX  100000u
#define PLAN_SIZE_MAX   70000
#define PLAN_REGION_KEY 7
#define PLAN_CELLS      8 /* 64-bit words of a rank that others add to */

enum op_kind {
    OP_SEND,
    OP_SSEND,
    OP_INJECT,
    OP_RECV,
    OP_PROBE,
    OP_MPROBE,  /* asks again a few times */
    OP_MRECV,   /* of target */
    OP_DISCARD, /* of target */
    OP_CANCEL,  /* of target */
    OP_ADD,     /* 1 to a word of peer, which brings what was there */
    OP_STALL,   /* nothing is polled until `until_ns` */
    OP_DIE,
    OP_LEAVE, /* closes its endpoint, whatever is under way */
    OP_KINDS
};

struct op {
    enum op_kind kind;
    uint32_t id, target; /* from 1 on; target 0: none */
    uint32_t rank, peer; /* PLAN_ANYBODY: any source */
    uint32_t context_id;
    uint64_t tag, ignore;
    uint32_t size;
    uint64_t at_ns, until_ns; /* from the beginning of the job; not before */
};

struct plan {
    uint64_t seed;
    uint32_t ranks;
    struct sim_config network;
    uint32_t variants, capacity; /* capacity: for RTRs at each endpoint */
    bool has_deaths, has_device;
    uint32_t percent_memory; /* of the times that a rank is woken, an allocation may fail */
    uint32_t percent_waits;  /* of operations after which the rank waits: waits.h */
    bool tells_waits;        /* ... and the operations that it waits for are known */
    uint32_t percent_pieces; /* of sends and receives whose data callbacks give */
    bool is_replayed; /* replays.h: it runs three times; of its operations program.h says */
    bool is_buffered; /* ... and a send may be complete before its message is received */
    uint32_t percent_calls; /* of operations after which the rank tests or waits: program.h */
    uint32_t percent_blocking; /* ... of which so many wait */
    uint32_t percent_depends;  /* of operations that depend on what the rank was told */
    char params[PLAN_VARIANTS][PLAN_PARAMS][40]; /* rank r has params[r % variants] */
    struct op *ops;                              /* by rank, then by time */
    uint32_t count, last_id;
};

extern const char *const op_names[OP_KINDS];

static inline bool op_is_message(const struct op *op)
{
    return op->kind <= OP_INJECT;
}

/* ranks: how many; 0: the seed says.  per_rank: operations, about; 0: the seed says. */
void plan_make(struct plan *plan, uint64_t seed, uint32_t ranks, uint32_t per_rank);
void plan_free(struct plan *plan);

/* Gives a plan another network, other settings and other times: its operations stay the same. */
void plan_move(struct plan *plan);

/* Copies a plan.  The copy owns a list of operations of its own. */
void plan_copy(struct plan *to, const struct plan *from);

/* Lines of settings, and a line for each operation. */
void plan_print(const struct plan *plan);
void plan_print_network(const struct plan *plan);
void op_print(const struct op *op);

#endif
