/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * population.h - the posted receives, and the message for each.
 *
 * Receive k and message k are computed from k and one of 128 classes, without a branch, so
 * that a benchmark does not read a table that is longer than the queue it measures.
 * Only receive k accepts message k, whatever their classes.  The exception is the MPI
 * class without source and tag: any of its receives accepts any of its messages, so the
 * oldest one gets it, and the plan names that receive.
 *
 *   exact        source k mod 64, tag k
 *   any source   the same message; the receive takes any source
 *   any tag      a source of its own; the receive ignores the tag
 *   any of both  on a context id of its own
 *   mask j       ignores the bits of j above the id; in the message all of them are set
 */
#ifndef BENCH_MATCH_POPULATION_H
#define BENCH_MATCH_POPULATION_H

#include "engine.h"

#define POPULATION_CLASSES 128

struct recv_class {
    uint32_t context_id;
    uint32_t source_shift, source_mask, source_base;
    uint32_t any_source; /* MBX_MATCH_ANY_SOURCE or 0 */
    uint64_t ignore, noise;
};

struct population {
    uint32_t depth;      /* a power of two */
    uint32_t class_mask; /* the class of k is k & class_mask */
    uint32_t fifo_step;  /* receives step-1, 2*step-1, ... are met oldest first; 0: none */
    uint32_t wild;       /* number of receives with a wildcard */
    struct recv_class classes[POPULATION_CLASSES];
};

/* In each 128 receives, `share` are ANY_SOURCE and the others exact. */
void population_make_shared(struct population *p, uint32_t depth, unsigned share);

/* A quarter in each of MPI's four classes. */
void population_make_mpi(struct population *p, uint32_t depth);

/* masks (a power of two up to 64) different masks, including the exact one. */
void population_make_masks(struct population *p, uint32_t depth, unsigned masks);

enum position { POSITION_FRONT, POSITION_RANDOM, POSITION_BACK };

extern const char *const position_names[3];

/* The order in which receives are matched, repeated from the beginning.  Each equally often,
 * except for BACK. */
struct plan {
    uint32_t mask; /* length - 1 */
    uint32_t *order;
};

/* RANDOM: several times as long as p and shuffled as a whole.  A plan that named each receive
 * only once would, when it repeats, find the receives in its own order. */
struct plan plan_make(const struct population *p, enum position position);

/* A plan that names no receive twice in depth steps from a multiple of depth.  There a quarter
 * of the receives, and not half, are in front of the matched one. */
struct plan plan_make_rounds(const struct population *p);

/* Each receive of p once, shuffled: for a queue whose order differs from the order in memory,
 * as it does after some use. */
struct plan plan_make_fill(const struct population *p);

void plan_free(struct plan *plan);

/* Posts all receives, or lets all messages arrive, in the order of the plan or, if it is empty,
 * of their numbers. */
void population_post(const struct population *p, const struct plan *fill,
                     struct bench_engine *engine);
void population_arrive(const struct population *p, const struct plan *fill,
                       struct bench_engine *engine);

static inline const struct recv_class *population_class(const struct population *p, uint32_t k)
{
    return &p->classes[k & p->class_mask];
}

static inline struct mbx_match_envelope population_message(const struct recv_class *class,
                                                           uint32_t k)
{
    return (struct mbx_match_envelope){
        .context_id = class->context_id,
        .source = ((k >> class->source_shift) & class->source_mask) | class->source_base,
        .tag = k | class->noise,
    };
}

static inline struct bench_pattern population_pattern(const struct recv_class *class,
                                                      uint32_t k)
{
    struct bench_pattern wanted = {.envelope = population_message(class, k),
                                   .ignore = class->ignore};

    wanted.envelope.source |= class->any_source;
    wanted.envelope.tag = k & ~class->ignore;
    return wanted;
}

#endif
