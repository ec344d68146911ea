/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * population.c - the classes of receives, and the order of matching.
 */
#include "population.h"

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench.h"

#define ANY_TAG UINT64_MAX
/* How often a plan names each receive; half as often where the plan would be very long. */
#define PLAN_LEAST  1024
#define LONG        65536
#define ROUNDS      8
#define ROUNDS_LONG 4

/* From this number on, each source has one receive. */
#define OWN_SOURCES (1u << (BENCH_SOURCE_BITS - 1))

const char *const position_names[3] = {"front", "random", "back"};

static const struct recv_class exact = {.context_id = 1, .source_mask = 63};

static void set_depth(struct population *p, uint32_t depth)
{
    assert(is_power_of_two(depth) && depth <= 1u << BENCH_ID_BITS);
    *p = (struct population){.depth = depth};
}

static void count_wild(struct population *p)
{
    for (uint32_t k = 0; k < p->depth; k++) {
        const struct recv_class *class = population_class(p, k);

        p->wild += class->ignore != 0 || class->any_source != 0;
    }
}

void population_make_shared(struct population *p, uint32_t depth, unsigned share)
{
    set_depth(p, depth);
    p->class_mask = share == 0 || share == POPULATION_CLASSES ? 0 : POPULATION_CLASSES - 1;
    for (unsigned i = 0; i < POPULATION_CLASSES; i++) {
        p->classes[i] = exact;
        if ((i * 53 + 40) % POPULATION_CLASSES < share) /* spread evenly */
            p->classes[i].any_source = MBX_MATCH_ANY_SOURCE;
    }
    count_wild(p);
}

void population_make_mpi(struct population *p, uint32_t depth)
{
    const struct recv_class kinds[] = {
        exact,
        {.context_id = 1, .source_mask = 63, .any_source = MBX_MATCH_ANY_SOURCE},
        {.context_id = 1,
         .source_shift = 2,
         .source_mask = OWN_SOURCES - 1,
         .source_base = OWN_SOURCES,
         .ignore = ANY_TAG},
        {.context_id = 2,
         .source_mask = 63,
         .any_source = MBX_MATCH_ANY_SOURCE,
         .ignore = ANY_TAG},
    };

    set_depth(p, depth);
    p->class_mask = ARRAY_COUNT(kinds) - 1;
    for (unsigned i = 0; i < ARRAY_COUNT(kinds); i++)
        p->classes[i] = kinds[i];
    if (depth >= ARRAY_COUNT(kinds))
        p->fifo_step = ARRAY_COUNT(kinds);
    count_wild(p);
}

void population_make_masks(struct population *p, uint32_t depth, unsigned masks)
{
    assert(is_power_of_two(masks) && masks <= 1u << (BENCH_TAG_BITS - BENCH_ID_BITS));
    set_depth(p, depth);
    p->class_mask = masks - 1;
    for (unsigned i = 0; i < masks; i++) {
        p->classes[i] = exact;
        p->classes[i].ignore = (uint64_t)i << BENCH_ID_BITS;
        p->classes[i].noise = p->classes[i].ignore;
    }
    count_wild(p);
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t seed)
{
    struct random r;

    random_seed(&r, seed);
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)random_below(&r, i + 1), other = order[j];

        order[j] = order[i];
        order[i] = other;
    }
}

static struct plan plan_alloc(uint32_t length)
{
    struct plan plan = {.mask = length - 1, .order = mem_calloc(length, sizeof *plan.order)};

    if (plan.order == NULL)
        bench_fail("no memory for a plan of %u steps", length);
    return plan;
}

/* Among receives that accept each other's messages the oldest is matched.  The plan names each
 * equally often, so the order stays consistent when the plan repeats. */
static void put_in_order(const struct population *p, struct plan *plan)
{
    uint32_t oldest = p->fifo_step - 1;

    for (uint32_t i = 0; i <= plan->mask; i++) {
        if (plan->order[i] % p->fifo_step != p->fifo_step - 1)
            continue;
        plan->order[i] = oldest;
        oldest = (oldest + p->fifo_step) & (p->depth - 1);
    }
}

struct plan plan_make(const struct population *p, enum position position)
{
    uint32_t rounds = p->depth > LONG ? ROUNDS_LONG : ROUNDS;
    uint32_t length = p->depth * rounds > PLAN_LEAST ? p->depth * rounds : PLAN_LEAST;
    struct plan plan = plan_alloc(length);

    for (uint32_t i = 0; i < length; i++)
        plan.order[i] = position == POSITION_BACK ? p->depth - 1 : i & (p->depth - 1);
    if (position == POSITION_RANDOM)
        shuffle(plan.order, length, p->depth);
    if (p->fifo_step != 0)
        put_in_order(p, &plan);
    return plan;
}

struct plan plan_make_rounds(const struct population *p)
{
    struct plan plan = plan_alloc(p->depth * ROUNDS_LONG);

    for (uint32_t first = 0; first <= plan.mask; first += p->depth) {
        for (uint32_t i = 0; i < p->depth; i++)
            plan.order[first + i] = i;
        shuffle(plan.order + first, p->depth, first + 1);
    }
    return plan;
}

struct plan plan_make_fill(const struct population *p)
{
    struct plan plan = plan_alloc(p->depth);

    for (uint32_t i = 0; i < p->depth; i++)
        plan.order[i] = i;
    shuffle(plan.order, p->depth, UINT64_MAX);
    if (p->fifo_step != 0)
        put_in_order(p, &plan);
    return plan;
}

void plan_free(struct plan *plan)
{
    mem_free(plan->order);
    plan->order = NULL;
}

static uint32_t nth_of(const struct plan *fill, uint32_t i)
{
    return fill != NULL && fill->order != NULL ? fill->order[i] : i;
}

void population_post(const struct population *p, const struct plan *fill,
                     struct bench_engine *engine)
{
    for (uint32_t i = 0; i < p->depth; i++) {
        uint32_t k = nth_of(fill, i);
        struct bench_pattern wanted = population_pattern(population_class(p, k), k);

        if (engine->ops->post(engine, k, wanted.envelope, wanted.ignore) != BENCH_NONE)
            bench_fail("engine %s: a receive met a message that is not there",
                       engine->ops->name);
    }
}

void population_arrive(const struct population *p, const struct plan *fill,
                       struct bench_engine *engine)
{
    for (uint32_t i = 0; i < p->depth; i++) {
        uint32_t k = nth_of(fill, i);
        struct mbx_match_envelope message = population_message(population_class(p, k), k);

        if (engine->ops->arrive(engine, k, message) != BENCH_NONE)
            bench_fail("engine %s: a message met a receive that is not there",
                       engine->ops->name);
    }
}
