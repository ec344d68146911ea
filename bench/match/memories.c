/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memories.c - the memory of a queue.
 *
 * Question   how many bytes does a posted receive cost, and an unexpected message?
 * Method     depth entries are queued in a separate process.  The result is the caller's entry,
 *            plus the memory that the engine has allocated since it was empty, divided by depth.
 *            kind: exact receives only, or MPI's four classes mixed; for messages, the classes of
 *            receives that have searched them without success (an engine may build an index only
 *            then).  For UCX the growth of the process (method=resident).
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/sys.h"
#include "bench.h"
#include "population.h"

#define NOT_THERE (1u << BENCH_ID_BITS)

struct memory_case {
    bool are_msgs, is_mixed;
    uint32_t depth;
    char keys[BENCH_KEYS_MAX];
};

/* One receive of each class searches for a message that does not exist. */
static void look_around(const struct population *p, struct bench_engine *engine)
{
    for (uint32_t k = 0; k < 4; k++) {
        struct bench_pattern wanted = population_pattern(population_class(p, k), k);
        uint64_t tag;

        if (wanted.ignore == 0)
            wanted.envelope.tag |= NOT_THERE;
        else if (wanted.envelope.source != MBX_MATCH_ANY_SOURCE)
            wanted.envelope.source ^= 1u << (BENCH_SOURCE_BITS - 2);
        else
            wanted.envelope.context_id += 7;
        if (engine->ops->peek(engine, wanted.envelope, wanted.ignore, &tag))
            bench_fail("engine %s shows a message that is not there", engine->ops->name);
    }
}

static struct bench_memory memory_of(const struct memory_case *c,
                                     const struct bench_engine *engine)
{
    return c->are_msgs ? engine->ops->msg_memory(engine) : engine->ops->recv_memory(engine);
}

static void measure(const struct memory_case *c, const struct bench_ops *ops)
{
    struct bench_engine *engine = ops->create(c->are_msgs ? 1 : c->depth, c->depth);
    struct population p;
    struct bench_memory before, after;
    size_t grown;

    if (c->is_mixed)
        population_make_mpi(&p, c->depth);
    else
        population_make_shared(&p, c->depth, 0);
    if (engine == NULL)
        bench_fail("engine %s has no memory for bench=memory %s", ops->name, c->keys);
    before = memory_of(c, engine);
    if (c->are_msgs) {
        population_arrive(&p, NULL, engine);
        look_around(&p, engine);
    } else {
        population_post(&p, NULL, engine);
    }
    after = memory_of(c, engine);
    /* tables that an empty engine has count, the memory of the whole process does not */
    grown = ops->memory_is_seen ? after.engine - before.engine : after.engine;
    printf("bench=memory engine=%s %s entry_bytes=%zu engine_bytes=%zu "
           "bytes_per_entry=%.1f method=%s\n",
           ops->name, c->keys, after.entry, grown,
           (double)after.entry + (double)grown / c->depth,
           ops->memory_is_seen && c->are_msgs ? "resident" : "counted");
    fflush(stdout);
}

static void measure_alone(const struct memory_case *c, const struct bench_ops *ops)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = sys_fork();
    if (child < 0)
        bench_fail("no process for bench=memory");
    if (child == 0) {
        measure(c, ops);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        bench_fail("engine %s: bench=memory %s ended with status %d", ops->name, c->keys,
                   status);
}

static void run(struct bench *b, struct memory_case *c)
{
    snprintf(c->keys, sizeof c->keys, "depth=%u what=%s kind=%s", c->depth,
             c->are_msgs ? "message" : "receive", c->is_mixed ? "mpi" : "exact");
    if (!bench_wants(b, "memory", c->keys))
        return;
    if (b->is_counting) {
        b->cases++;
        if (b->settings.is_dry)
            printf("bench=memory %s\n", c->keys);
        return;
    }
    bench_progress(b, "memory", c->keys);
    for (unsigned i = 0; bench_engines[i] != NULL; i++)
        if (b->settings.wants[i] && bench_engines[i]->is_measured)
            measure_alone(c, bench_engines[i]);
}

void bench_memories(struct bench *b)
{
    static const uint32_t depths[] = {16, 1024, 65536, 1048576};

    for (int kind = 0; kind < 4; kind++)
        for (unsigned d = 0; d < ARRAY_COUNT(depths); d++)
            if (bench_has_depth(b, depths[d]))
                run(b, &(struct memory_case){.are_msgs = (kind & 1) != 0,
                                             .is_mixed = (kind & 2) != 0,
                                             .depth = depths[d]});
}
