/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_matchbox.c - the engine of match.h, as an embedder would use it: entries are
 * in our memory, and numbers are indices into two arrays.
 */
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "engine.h"

#define BATCH 64

struct matchbox {
    struct bench_engine engine;
    struct mbx_match match;
    struct mbx_match_recv *recvs;
    struct mbx_match_msg *msgs;
};

static struct matchbox *matchbox_of(struct bench_engine *engine)
{
    return container_of(engine, struct matchbox, engine);
}

static void *alloc_entries(uint32_t count, size_t size)
{
    void *entries = mem_alloc_aligned(CACHE_LINE, max_size(count, 1) * size);

    if (entries != NULL)
        memset(entries, 0, count * size); /* MBX_MATCH_IDLE */
    return entries;
}

static void matchbox_destroy(struct bench_engine *engine)
{
    struct matchbox *e = matchbox_of(engine);

    mbx_match_fini(&e->match);
    mem_free(e->recvs);
    mem_free(e->msgs);
    mem_free(e);
}

static struct bench_engine *matchbox_create(uint32_t recvs, uint32_t msgs)
{
    struct matchbox *e = mem_alloc_aligned(CACHE_LINE, sizeof *e);

    if (e == NULL)
        return NULL;
    e->engine.ops = &bench_matchbox;
    mbx_match_init(&e->match, NULL);
    e->recvs = alloc_entries(recvs, sizeof *e->recvs);
    e->msgs = alloc_entries(msgs, sizeof *e->msgs);
    if (e->recvs == NULL || e->msgs == NULL) {
        matchbox_destroy(&e->engine);
        return NULL;
    }
    return &e->engine;
}

static inline uint32_t number_of_recv(const struct matchbox *e,
                                      const struct mbx_match_recv *recv)
{
    return recv != NULL ? (uint32_t)(recv - e->recvs) : BENCH_NONE;
}

static inline uint32_t number_of_msg(const struct matchbox *e, const struct mbx_match_msg *msg)
{
    return msg != NULL ? (uint32_t)(msg - e->msgs) : BENCH_NONE;
}

static uint32_t matchbox_post(struct bench_engine *engine, uint32_t recv,
                              struct mbx_match_envelope envelope, uint64_t ignore)
{
    struct matchbox *e = matchbox_of(engine);
    struct mbx_match_recv *r = &e->recvs[recv];
    struct mbx_match_msg *met;
    int err;

    r->envelope = envelope;
    r->ignore = ignore;
    err = mbx_match_post(&e->match, r, &met);
    assert(err == 0);
    return number_of_msg(e, met);
}

static uint32_t matchbox_arrive(struct bench_engine *engine, uint32_t msg,
                                struct mbx_match_envelope envelope)
{
    struct matchbox *e = matchbox_of(engine);
    struct mbx_match_recv *met;
    int err;

    e->msgs[msg].envelope = envelope;
    err = mbx_match_arrive(&e->match, &e->msgs[msg], &met);
    assert(err == 0);
    return number_of_recv(e, met);
}

static bool matchbox_cancel(struct bench_engine *engine, uint32_t recv)
{
    struct matchbox *e = matchbox_of(engine);

    return mbx_match_cancel(&e->match, &e->recvs[recv]);
}

static bool matchbox_peek(struct bench_engine *engine, struct mbx_match_envelope envelope,
                          uint64_t ignore, uint64_t *tag)
{
    struct matchbox *e = matchbox_of(engine);
    struct mbx_match_msg *msg = mbx_match_peek(&e->match, &envelope, ignore);

    if (msg == NULL)
        return false;
    *tag = msg->envelope.tag;
    return true;
}

static bool matchbox_extract(struct bench_engine *engine, uint32_t msg)
{
    struct matchbox *e = matchbox_of(engine);

    return mbx_match_extract(&e->match, &e->msgs[msg]);
}

static void matchbox_post_many(struct bench_engine *engine, const uint32_t recvs[],
                               const struct bench_pattern wanted[], uint32_t found[],
                               size_t count)
{
    struct matchbox *e = matchbox_of(engine);
    struct mbx_match_recv *batch[BATCH];
    struct mbx_match_msg *met[BATCH];

    for (size_t first = 0; first < count; first += BATCH) {
        size_t n = min_size(BATCH, count - first), done;

        for (size_t i = 0; i < n; i++) {
            batch[i] = &e->recvs[recvs[first + i]];
            batch[i]->envelope = wanted[first + i].envelope;
            batch[i]->ignore = wanted[first + i].ignore;
        }
        done = mbx_match_post_many(&e->match, batch, met, n);
        assert(done == n);
        for (size_t i = 0; i < n; i++)
            found[first + i] = number_of_msg(e, met[i]);
    }
}

static void matchbox_arrive_many(struct bench_engine *engine, const uint32_t msgs[],
                                 const struct mbx_match_envelope envelopes[], uint32_t found[],
                                 size_t count)
{
    struct matchbox *e = matchbox_of(engine);
    struct mbx_match_msg *batch[BATCH];
    struct mbx_match_recv *met[BATCH];

    for (size_t first = 0; first < count; first += BATCH) {
        size_t n = min_size(BATCH, count - first), done;

        for (size_t i = 0; i < n; i++) {
            batch[i] = &e->msgs[msgs[first + i]];
            batch[i]->envelope = envelopes[first + i];
        }
        done = mbx_match_arrive_many(&e->match, batch, met, n);
        assert(done == n);
        for (size_t i = 0; i < n; i++)
            found[first + i] = number_of_recv(e, met[i]);
    }
}

static struct bench_memory matchbox_recv_memory(const struct bench_engine *engine)
{
    const struct matchbox *e = container_of(engine, const struct matchbox, engine);

    return (struct bench_memory){sizeof *e->recvs, mbx_match_memory(&e->match)};
}

static struct bench_memory matchbox_msg_memory(const struct bench_engine *engine)
{
    const struct matchbox *e = container_of(engine, const struct matchbox, engine);

    return (struct bench_memory){sizeof *e->msgs, mbx_match_memory(&e->match)};
}

const struct bench_ops bench_matchbox = {
    .name = "matchbox",
    .is_measured = true,
    .create = matchbox_create,
    .destroy = matchbox_destroy,
    .post = matchbox_post,
    .arrive = matchbox_arrive,
    .cancel = matchbox_cancel,
    .peek = matchbox_peek,
    .extract = matchbox_extract,
    .post_many = matchbox_post_many,
    .arrive_many = matchbox_arrive_many,
    .recv_memory = matchbox_recv_memory,
    .msg_memory = matchbox_msg_memory,
};
