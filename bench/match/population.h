/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * population.h - which receives are posted, and which message belongs to each.
 *
 * Receive k and message k are made from k and one of 128 classes, without a branch, so
 * that a benchmark does not read a table that is longer than the queue it measures.
 * Message k is accepted by receive k and by no other, whatever their classes - but for
 * the class of MPI that names neither source nor tag: any of its receives accepts any of
 * its messages, so the oldest one gets it, and the plan says which that is.
 *
 *   exact        source k mod 64, tag k
 *   any source   the same message; the receive takes any source
 *   any tag      a source that no other has; the receive ignores the tag
 *   any of both  on a context id of its own
 *   mask j       ignores the bits of j above the id; the message has them all set
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
    uint32_t wild;       /* how many receives have a wildcard */
    struct recv_class classes[POPULATION_CLASSES];
};

/* Of 128 receives of every 128, `share` are ANY_SOURCE and the others exact. */
void population_make_shared(struct population *p, uint32_t depth, unsigned share);

/* A quarter of each of MPI's four classes. */
void population_make_mpi(struct population *p, uint32_t depth);

/* masks (a power of two up to 64) different masks, among them that of an exact receive. */
void population_make_masks(struct population *p, uint32_t depth, unsigned masks);

enum position { POSITION_FRONT, POSITION_RANDOM, POSITION_BACK };

extern const char *const position_names[3];

/* Which receive is met next, again and again from the beginning.  Each equally often, but
 * for BACK. */
struct plan {
    uint32_t mask; /* length - 1 */
    uint32_t *order;
};

/* RANDOM: several times as long as p and shuffled as a whole.  A plan that came back to
 * its beginning after naming each receive once would find them in its own order. */
struct plan plan_make(const struct population *p, enum position position);

/* One that names no receive twice in depth steps from a multiple of depth.  There a quarter
 * of the receives stand before the one that is met, and not half. */
struct plan plan_make_rounds(const struct population *p);

/* All of p once, shuffled: for a queue whose order is not that of its entries in memory,
 * as it is not after a while. */
struct plan plan_make_fill(const struct population *p);

void plan_free(struct plan *plan);

/* Posts all receives, or lets all messages arrive, in the order of the plan or, if it has
 * none, of their numbers. */
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
