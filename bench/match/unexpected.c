/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected.c - messages that arrive before their receives.
 *
 * Question   probe          what does a probe cost over depth messages, one that misses and
 *                           one that hits, with a named source and with ANY_SOURCE?
 *            flood_arrive   what does a message cost that matches no receive?
 *            flood_receive  what does the receive of such a message cost, in the best, any and
 *                           the worst order?
 * Method     probe: depth messages with different tags wait; the next probe waits for
 *            the answer of this one.
 *            flood: depth messages arrive at an empty engine, then as many receives are
 *            posted: in order of arrival (front), shuffled (random) or the newest message first
 *            (back).  The total time divided by depth, so delayed work is included.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/clock.h"
#include "bench.h"
#include "population.h"

#define NOT_THERE   (1u << BENCH_ID_BITS) /* in a tag that no message has */
#define CHECK_EVERY 64

struct unexpected {
    struct bench_case c;
    struct population population;
    struct plan plan;
    struct plan fill; /* for probes: the order in which the messages came */
    bool is_any_source;
    bool is_missed; /* for probes */
};

static const struct unexpected *unexpected_of(const struct bench_case *c)
{
    return container_of(c, const struct unexpected, c);
}

/* The receive that accepts message k. */
static inline struct bench_pattern pattern_for(const struct unexpected *u, uint32_t k)
{
    return population_pattern(population_class(&u->population, k), k);
}

/* ---- probes ---------------------------------------------------------------- */

static bool fill_probes(const struct bench_case *c, struct subject *s)
{
    population_arrive(&unexpected_of(c)->population, &unexpected_of(c)->fill, s->engine);
    return true;
}

static uint64_t measure_probes(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct unexpected *u = unexpected_of(c);
    const struct bench_ops *ops = s->ops;
    struct bench_engine *engine = s->engine;
    struct cursor at = s->cursor;
    uint64_t start = clock_now();

    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t k = u->plan.order[at.at++ & u->plan.mask];
        struct bench_pattern wanted = pattern_for(u, k);
        uint64_t tag = k;
        bool is_hit;

        wanted.envelope.tag |= u->is_missed ? NOT_THERE : 0;
        wanted.envelope.tag += at.wrong;
        is_hit = ops->peek(engine, wanted.envelope, wanted.ignore, &tag);
        at.wrong |= (uint32_t)tag ^ k;
        at.wrong |= is_hit == u->is_missed;
    }
    s->cursor = at;
    return bench_elapsed(start, clock_now());
}

static void run_probe(struct bench *b, uint32_t depth, bool is_missed, bool is_any_source)
{
    struct unexpected u = {.c = {.bench = "probe",
                                 .msgs = depth,
                                 .per_round = 1,
                                 .least = 8,
                                 .fill = fill_probes,
                                 .measure = measure_probes},
                           .is_any_source = is_any_source,
                           .is_missed = is_missed};

    population_make_shared(&u.population, depth, is_any_source ? POPULATION_CLASSES : 0);
    snprintf(u.c.keys, sizeof u.c.keys, "depth=%u what=%s source=%s", depth,
             is_missed ? "missed" : "hit", is_any_source ? "any" : "exact");
    if (!b->is_counting && bench_wants(b, u.c.bench, u.c.keys)) {
        u.plan = plan_make(&u.population, POSITION_RANDOM);
        u.fill = plan_make_fill(&u.population);
    }
    bench_run(b, &u.c);
    plan_free(&u.plan);
    plan_free(&u.fill);
}

/* ---- floods ---------------------------------------------------------------- */

static bool fill_nothing(const struct bench_case *c, struct subject *s)
{
    (void)c;
    (void)s;
    return true;
}

/* Each receive has its own number, because a message does not name its receive. */
static uint64_t receive_all(const struct unexpected *u, struct subject *s)
{
    const struct bench_ops *ops = s->ops;
    struct cursor at = s->cursor;
    uint64_t start = clock_now();

    for (uint32_t i = 0; i < u->population.depth; i++) {
        uint32_t k = u->plan.order[i & u->plan.mask];
        struct bench_pattern wanted = pattern_for(u, k);

        wanted.envelope.tag += at.wrong;
        at.wrong |= ops->post(s->engine, 0, wanted.envelope, wanted.ignore) ^ k;
        if (i % CHECK_EVERY == CHECK_EVERY - 1 && clock_now() - start > u->c.limit_ns)
            return BENCH_TOO_SLOW;
    }
    s->cursor = at;
    return bench_elapsed(start, clock_now());
}

static uint64_t measure_receives(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct unexpected *u = unexpected_of(c);
    uint64_t ns = 0;

    for (uint64_t n = 0; n < rounds; n++) {
        uint64_t once;

        population_arrive(&u->population, NULL, s->engine);
        once = receive_all(u, s);
        if (once == BENCH_TOO_SLOW)
            return once;
        ns += once;
    }
    return ns;
}

static uint64_t measure_arrivals(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct unexpected *u = unexpected_of(c);
    uint64_t ns = 0;

    for (uint64_t n = 0; n < rounds; n++) {
        uint64_t start = clock_now();

        population_arrive(&u->population, NULL, s->engine);
        ns += bench_elapsed(start, clock_now());
        if (receive_all(u, s) == BENCH_TOO_SLOW)
            return BENCH_TOO_SLOW;
    }
    return ns;
}

/* Oldest first; or always the newest message first, which is the worst case for a list. */
static void sort_plan(struct plan *plan, uint32_t depth, bool is_reverse)
{
    for (uint32_t i = 0; i < depth; i++)
        plan->order[i] = is_reverse ? depth - 1 - i : i;
}

static void run_flood(struct bench *b, uint32_t depth, enum position order, bool is_any_source,
                      bool are_arrivals)
{
    struct unexpected u = {
        .c = {.bench = are_arrivals ? "flood_arrive" : "flood_receive",
              .recvs = 1,
              .msgs = depth,
              .per_round = depth,
              .least = 1,
              .repeats = depth >= 262144 && b->settings.repeats > 3 ? 3 : 0,
              .limit_ns = depth * CLOCK_US + 20 * CLOCK_MS, /* longer is not worth it */
              .fill = fill_nothing,
              .measure = are_arrivals ? measure_arrivals : measure_receives},
        .is_any_source = is_any_source,
    };

    population_make_shared(&u.population, depth, is_any_source ? POPULATION_CLASSES : 0);
    if (are_arrivals)
        snprintf(u.c.keys, sizeof u.c.keys, "depth=%u", depth);
    else
        snprintf(u.c.keys, sizeof u.c.keys, "depth=%u order=%s source=%s", depth,
                 position_names[order], is_any_source ? "any" : "exact");
    if (!b->is_counting && bench_wants(b, u.c.bench, u.c.keys)) {
        u.plan = plan_make_rounds(&u.population);
        if (order != POSITION_RANDOM)
            sort_plan(&u.plan, depth, order == POSITION_BACK);
    }
    bench_run(b, &u.c);
    plan_free(&u.plan);
}

static void floods(struct bench *b, uint32_t depth)
{
    run_flood(b, depth, POSITION_FRONT, false, true);
    for (int kind = 0; kind < 6; kind++)
        run_flood(b, depth, (enum position)(kind / 2), kind % 2 != 0, false);
}

void bench_unexpected(struct bench *b)
{
    for (int kind = 0; kind < 4; kind++)
        for (unsigned d = 0; bench_depths[d] != 0; d++)
            if (bench_has_depth(b, bench_depths[d]))
                run_probe(b, bench_depths[d], (kind & 2) == 0, (kind & 1) != 0);
    for (unsigned d = 0; bench_depths[d] != 0; d++)
        if (bench_has_depth(b, bench_depths[d]))
            floods(b, bench_depths[d]);
}
