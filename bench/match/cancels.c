/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancels.c - cancelling receives.
 *
 * Question   is the time of a cancel independent of the depth of the queue, for the latest
 *            receive and for any, exact and ANY_SOURCE?
 * Method     depth receives are posted.  Up to 16 are cancelled, which is measured, and
 *            posted again, which is not.  latest: the newest receive first, and posted again so
 *            that the order is restored.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/clock.h"
#include "bench.h"
#include "population.h"

#define BATCH 16

struct cancels {
    struct bench_case c;
    struct population population;
    struct plan plan, fill; /* for which=random */
};

static const struct cancels *cancels_of(const struct bench_case *c)
{
    return container_of(c, const struct cancels, c);
}

static bool fill(const struct bench_case *c, struct subject *s)
{
    population_post(&cancels_of(c)->population, &cancels_of(c)->fill, s->engine);
    return true;
}

/* The next receives to cancel.  The plan contains none twice in a batch; latest has no plan. */
static void choose(const struct cancels *cancels, struct subject *s, uint32_t *chosen)
{
    for (uint32_t i = 0; i < cancels->c.per_round; i++) {
        if (cancels->plan.order != NULL)
            chosen[i] = cancels->plan.order[s->cursor.at++ & cancels->plan.mask];
        else
            chosen[i] = cancels->population.depth - 1 - i;
    }
}

static void post_again(const struct cancels *cancels, struct subject *s, const uint32_t *chosen)
{
    for (uint32_t i = cancels->c.per_round; i-- > 0;) {
        uint32_t k = chosen[i];
        struct bench_pattern wanted =
            population_pattern(population_class(&cancels->population, k), k);

        s->cursor.wrong |=
            s->ops->post(s->engine, k, wanted.envelope, wanted.ignore) ^ BENCH_NONE;
    }
}

static uint64_t measure(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    const struct cancels *cancels = cancels_of(c);
    uint32_t chosen[BATCH];
    uint64_t ns = 0;

    for (uint64_t n = 0; n < rounds; n++) {
        uint32_t missed = 0;
        uint64_t start;

        choose(cancels, s, chosen);
        start = clock_now();
        for (uint32_t i = 0; i < c->per_round; i++)
            missed += !s->ops->cancel(s->engine, chosen[i] + missed);
        ns += bench_elapsed(start, clock_now());
        s->cursor.wrong |= missed;
        post_again(cancels, s, chosen);
    }
    return ns;
}

static void run(struct bench *b, uint32_t depth, bool is_latest, bool is_wild)
{
    struct cancels cancels = {.c = {.bench = "cancel",
                                    .recvs = depth,
                                    .per_round = depth < BATCH ? depth : BATCH,
                                    .least = 1,
                                    .fill = fill,
                                    .measure = measure}};

    population_make_shared(&cancels.population, depth, is_wild ? POPULATION_CLASSES : 0);
    snprintf(cancels.c.keys, sizeof cancels.c.keys, "depth=%u which=%s source=%s", depth,
             is_latest ? "latest" : "random", is_wild ? "any" : "exact");
    if (!is_latest && !b->is_counting && bench_wants(b, cancels.c.bench, cancels.c.keys)) {
        cancels.plan = plan_make_rounds(&cancels.population);
        cancels.fill = plan_make_fill(&cancels.population);
    }
    bench_run(b, &cancels.c);
    plan_free(&cancels.plan);
    plan_free(&cancels.fill);
}

void bench_cancels(struct bench *b)
{
    for (int kind = 0; kind < 4; kind++)
        for (unsigned d = 0; bench_depths[d] != 0; d++)
            if (bench_has_depth(b, bench_depths[d]))
                run(b, bench_depths[d], (kind & 2) == 0, (kind & 1) != 0);
}
