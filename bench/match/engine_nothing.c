/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_nothing.c - no engine: a message's tag contains the receive that it would match, and
 * posts only write their entry.  Its time is the cost of the measurement itself; the
 * rest of a benchmark's time is the engine's.
 */
#include "base/base.h"
#include "base/mem.h"
#include "engine.h"

struct nothing {
    struct bench_engine engine;
    struct bench_pattern *recvs;
};

static void nothing_destroy(struct bench_engine *engine)
{
    struct nothing *e = container_of(engine, struct nothing, engine);

    mem_free(e->recvs);
    mem_free(e);
}

static struct bench_engine *nothing_create(uint32_t recvs, uint32_t msgs)
{
    struct nothing *e = mem_calloc(1, sizeof *e);

    (void)msgs;
    if (e == NULL)
        return NULL;
    e->engine.ops = &bench_nothing;
    e->recvs = mem_calloc(recvs, sizeof *e->recvs);
    if (e->recvs == NULL) {
        nothing_destroy(&e->engine);
        return NULL;
    }
    return &e->engine;
}

static uint32_t nothing_post(struct bench_engine *engine, uint32_t recv,
                             struct mbx_match_envelope envelope, uint64_t ignore)
{
    struct nothing *e = container_of(engine, struct nothing, engine);

    e->recvs[recv] = (struct bench_pattern){envelope, ignore};
    return BENCH_NONE;
}

static uint32_t nothing_arrive(struct bench_engine *engine, uint32_t msg,
                               struct mbx_match_envelope envelope)
{
    (void)engine;
    (void)msg;
    return (uint32_t)envelope.tag & BENCH_ID_MASK;
}

const struct bench_ops bench_nothing = {
    .name = "nothing",
    .create = nothing_create,
    .destroy = nothing_destroy,
    .post = nothing_post,
    .arrive = nothing_arrive,
};
