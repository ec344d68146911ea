/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.c - a message arrives, matches a receive, and the receive is posted again.
 *
 * Question   match        is the time of a match independent of the depth of the queue, and
 *                         what do wildcards cost?
 *            match_mpi    what does it cost with MPI's four classes of receives mixed?
 *            match_masks  what does each further distinct mask cost?
 *            match_cold   what does it cost with cold caches?
 *            match_bulk   what does each of 64 at once cost?
 * Method     depth receives are posted, each with its own tag.  The time is measured for
 *            pairs of {message arrives, its receive is posted again}, so the depth is constant.
 *            The matched receive is the oldest (front), the newest (back), or any, in a
 *            shuffled order that uses each equally often (random; the receives are also
 *            posted in such an order, so that a walk along the queue jumps in memory).
 *            Except in match_bulk, the next pair waits for the answer of this one.
 *            match_cold: 8 MB are read and written before each pair, and each pair is a
 *            repeat; code=warm: then another engine of the same kind makes a match, so that
 *            the queue is cold and the code is not.
 *            The measured time includes the construction of the envelopes; the engine
 *            `nothing` shows its cost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "bench.h"
#include "population.h"

#define BATCH       64
#define SWEEP_BYTES ((size_t)8 << 20)

struct pairs {
    struct bench_case c;
    struct population population;
    struct plan plan, fill;
    bool is_code_warm; /* for match_cold */
};

static const struct pairs *pairs_of(const struct bench_case *c)
{
    return container_of(c, const struct pairs, c);
}

static bool fill(const struct bench_case *c, struct subject *s)
{
    population_post(&pairs_of(c)->population, &pairs_of(c)->fill, s->engine);
    return true;
}

/* The receive that the next message will match. */
static inline uint32_t next_of(const struct pairs *pairs, struct cursor *at)
{
    return pairs->plan.order[at->at++ & pairs->plan.mask];
}

static uint64_t measure(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct pairs *pairs = pairs_of(c);
    const struct bench_ops *ops = s->ops;
    struct bench_engine *engine = s->engine;
    struct cursor at = s->cursor;
    uint64_t start = clock_now();

    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t k = next_of(pairs, &at);
        const struct recv_class *class = population_class(&pairs->population, k);
        struct mbx_match_envelope message = population_message(class, k);
        struct bench_pattern wanted = population_pattern(class, k);

        message.tag += at.wrong;
        at.wrong |= ops->arrive(engine, 0, message) ^ k;
        at.wrong |= ops->post(engine, k, wanted.envelope, wanted.ignore) ^ BENCH_NONE;
    }
    s->cursor = at;
    return bench_elapsed(start, clock_now());
}

/* Evicts the engine from the near caches. */
static void sweep(void)
{
    static unsigned char *bytes;

    if (bytes == NULL)
        bytes = calloc(1, SWEEP_BYTES);
    if (bytes == NULL)
        bench_fail("no memory to sweep the caches with");
    for (size_t i = 0; i < SWEEP_BYTES; i += CACHE_LINE)
        ((volatile unsigned char *)bytes)[i]++;
}

/* Makes a match in another engine of the same kind: the code is cached, the queue is not. */
static uint32_t warm_code(const struct pairs *pairs, const struct subject *s)
{
    const struct recv_class *class = population_class(&pairs->population, 0);
    struct mbx_match_envelope message = population_message(class, 0);
    struct bench_pattern wanted = population_pattern(class, 0);

    return s->ops->arrive(s->other, 0, message) |
           (s->ops->post(s->other, 0, wanted.envelope, wanted.ignore) ^ BENCH_NONE);
}

static bool fill_cold(const struct bench_case *c, struct subject *s)
{
    struct population one;

    population_make_shared(&one, 1, 0);
    s->other = s->ops->create(1, 1);
    if (s->other == NULL)
        return false;
    population_post(&one, NULL, s->other);
    return fill(c, s);
}

static uint64_t measure_cold(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct pairs *pairs = pairs_of(c);
    const struct bench_ops *ops = s->ops;
    struct bench_engine *engine = s->engine;
    struct cursor at = s->cursor;
    uint64_t ns = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        const struct recv_class *class;
        struct mbx_match_envelope message;
        struct bench_pattern wanted;
        uint64_t start;
        uint32_t k;

        sweep();
        if (pairs->is_code_warm)
            at.wrong |= warm_code(pairs, s);
        k = next_of(pairs, &at);
        class = population_class(&pairs->population, k);
        message = population_message(class, k);
        message.tag += at.wrong;
        wanted = population_pattern(class, k);
        start = clock_now();
        at.wrong |= ops->arrive(engine, 0, message) ^ k;
        at.wrong |= ops->post(engine, k, wanted.envelope, wanted.ignore) ^ BENCH_NONE;
        ns += bench_elapsed(start, clock_now());
    }
    s->cursor = at;
    return ns;
}

/* 64 arrivals and then their 64 posts; the plan contains no receive twice in a batch. */
struct batch {
    uint32_t numbers[BATCH], recvs[BATCH], found[BATCH];
    struct mbx_match_envelope messages[BATCH];
    struct bench_pattern wanted[BATCH];
};

static void make_batch(const struct pairs *pairs, struct subject *s, struct batch *batch)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t k = next_of(pairs, &s->cursor);
        const struct recv_class *class = population_class(&pairs->population, k);

        batch->numbers[i] = i;
        batch->recvs[i] = k;
        batch->messages[i] = population_message(class, k);
        batch->wanted[i] = population_pattern(class, k);
    }
}

static void check_batch(const struct batch *batch, struct subject *s, bool are_posts)
{
    for (uint32_t i = 0; i < BATCH; i++)
        s->cursor.wrong |= batch->found[i] ^ (are_posts ? BENCH_NONE : batch->recvs[i]);
}

static uint64_t measure_bulk(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct pairs *pairs = pairs_of(c);
    struct batch batch;
    uint64_t start = clock_now();

    for (uint64_t n = 0; n < rounds; n++) {
        make_batch(pairs, s, &batch);
        s->ops->arrive_many(s->engine, batch.numbers, batch.messages, batch.found, BATCH);
        check_batch(&batch, s, false);
        s->ops->post_many(s->engine, batch.recvs, batch.wanted, batch.found, BATCH);
        check_batch(&batch, s, true);
    }
    return bench_elapsed(start, clock_now());
}

static uint64_t measure_single(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct pairs *pairs = pairs_of(c);
    struct batch batch;
    uint64_t start = clock_now();

    for (uint64_t n = 0; n < rounds; n++) {
        make_batch(pairs, s, &batch);
        for (uint32_t i = 0; i < BATCH; i++)
            batch.found[i] = s->ops->arrive(s->engine, i, batch.messages[i]);
        check_batch(&batch, s, false);
        for (uint32_t i = 0; i < BATCH; i++)
            batch.found[i] = s->ops->post(s->engine, batch.recvs[i], batch.wanted[i].envelope,
                                          batch.wanted[i].ignore);
        check_batch(&batch, s, true);
    }
    return bench_elapsed(start, clock_now());
}

static struct bench_case base_case(uint32_t depth)
{
    return (struct bench_case){.bench = "match",
                               .recvs = depth,
                               .msgs = BATCH,
                               .per_round = 1,
                               .least = 8,
                               .is_for_nothing = true,
                               .fill = fill,
                               .measure = measure};
}

static void run(struct bench *b, struct pairs *pairs, enum position position)
{
    if (!b->is_counting && bench_wants(b, pairs->c.bench, pairs->c.keys)) {
        pairs->plan = pairs->c.per_round == BATCH ? plan_make_rounds(&pairs->population)
                                                  : plan_make(&pairs->population, position);
        if (position == POSITION_RANDOM)
            pairs->fill = plan_make_fill(&pairs->population);
    }
    bench_run(b, &pairs->c);
    plan_free(&pairs->plan);
    plan_free(&pairs->fill);
}

/* A hot case with this position and share of wildcards. */
static void run_match(struct bench *b, uint32_t depth, enum position position,
                      unsigned wild_percent)
{
    struct pairs pairs = {.c = base_case(depth)};
    unsigned share = (POPULATION_CLASSES * wild_percent + 50) / 100;

    population_make_shared(&pairs.population, depth, share);
    if (wild_percent != 0 && pairs.population.wild == 0)
        return; /* too short for a wildcard */
    snprintf(pairs.c.keys, sizeof pairs.c.keys, "depth=%u position=%s wild_percent=%u wild=%u",
             depth, position_names[position], wild_percent, pairs.population.wild);
    run(b, &pairs, position);
}

static void run_mpi(struct bench *b, uint32_t depth, enum position position)
{
    struct pairs pairs = {.c = base_case(depth)};

    population_make_mpi(&pairs.population, depth);
    pairs.c.bench = "match_mpi";
    snprintf(pairs.c.keys, sizeof pairs.c.keys, "depth=%u position=%s wild=%u", depth,
             position_names[position], pairs.population.wild);
    run(b, &pairs, position);
}

static void run_masks(struct bench *b, uint32_t depth, unsigned masks)
{
    struct pairs pairs = {.c = base_case(depth)};

    population_make_masks(&pairs.population, depth, masks);
    pairs.c.bench = "match_masks";
    snprintf(pairs.c.keys, sizeof pairs.c.keys, "depth=%u position=random masks=%u", depth,
             masks);
    run(b, &pairs, POSITION_RANDOM);
}

static void run_cold(struct bench *b, uint32_t depth, enum position position, bool is_code_warm)
{
    struct pairs pairs = {.c = base_case(depth), .is_code_warm = is_code_warm};

    population_make_shared(&pairs.population, depth, 0);
    pairs.c.bench = "match_cold";
    pairs.c.fill = fill_cold;
    pairs.c.measure = measure_cold;
    pairs.c.rounds = 1;
    pairs.c.repeats = b->settings.is_quick ? 9 : 201;
    snprintf(pairs.c.keys, sizeof pairs.c.keys, "depth=%u position=%s code=%s", depth,
             position_names[position], is_code_warm ? "warm" : "cold");
    run(b, &pairs, position);
}

static void run_bulk(struct bench *b, uint32_t depth, bool is_bulk)
{
    struct pairs pairs = {.c = base_case(depth)};

    population_make_shared(&pairs.population, depth, 0);
    pairs.c.bench = "match_bulk";
    pairs.c.measure = is_bulk ? measure_bulk : measure_single;
    pairs.c.needs_many = is_bulk;
    pairs.c.per_round = BATCH;
    pairs.c.least = 1;
    snprintf(pairs.c.keys, sizeof pairs.c.keys, "depth=%u position=random batch=%d form=%s",
             depth, BATCH, is_bulk ? "bulk" : "single");
    run(b, &pairs, POSITION_RANDOM);
}

static void hot(struct bench *b)
{
    static const unsigned shares[] = {0, 1, 20, 100};

    for (unsigned i = 0; i < ARRAY_COUNT(shares); i++)
        for (int position = 0; position < 3; position++)
            for (unsigned d = 0; bench_depths[d] != 0; d++)
                if (bench_has_depth(b, bench_depths[d]))
                    run_match(b, bench_depths[d], (enum position)position, shares[i]);
}

void bench_pairs(struct bench *b)
{
    static const uint32_t mask_depths[] = {1024, 65536};
    static const uint32_t bulk_depths[] = {64, 1024, 65536, 1048576};

    hot(b);
    for (int position = POSITION_FRONT; position <= POSITION_RANDOM; position++)
        for (unsigned d = 0; bench_depths[d] != 0; d++)
            if (bench_has_depth(b, bench_depths[d]))
                run_mpi(b, bench_depths[d], (enum position)position);
    for (unsigned d = 0; d < ARRAY_COUNT(mask_depths); d++)
        for (unsigned masks = 1; masks <= 64 && bench_has_depth(b, mask_depths[d]); masks *= 2)
            run_masks(b, mask_depths[d], masks);
    for (int kind = 0; kind < 6; kind++)
        for (unsigned d = 0; bench_depths[d] != 0 && bench_depths[d] <= 64; d++)
            if (bench_has_depth(b, bench_depths[d]))
                run_cold(b, bench_depths[d], (enum position)(kind % 3), kind < 3);
    for (unsigned d = 0; d < ARRAY_COUNT(bulk_depths); d++)
        for (int is_bulk = 0; is_bulk < 2 && bench_has_depth(b, bulk_depths[d]); is_bulk++)
            run_bulk(b, bulk_depths[d], is_bulk != 0);
}
