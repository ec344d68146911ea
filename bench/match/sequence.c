/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence.c - the same operations for every engine.
 */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"

void sequence_add(struct sequence *s, const struct sequence_op *op)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity == 0 ? 1024 : 2 * s->capacity;
        struct sequence_op *ops = mem_realloc(s->ops, capacity * sizeof *ops);

        if (ops == NULL)
            bench_fail("no memory for %zu operations", capacity);
        s->ops = ops;
        s->capacity = capacity;
    }
    s->ops[s->count++] = *op;
}

void sequence_free(struct sequence *s)
{
    mem_free(s->ops);
    *s = (struct sequence){0};
}

static uint32_t greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void sequence_count(struct sequence *s)
{
    uint32_t recvs = 0, msgs = 0; /* queued now */

    for (size_t i = 0; i < s->count; i++) {
        const struct sequence_op *op = &s->ops[i];
        bool is_met = op->expected != BENCH_NONE;

        s->kinds[op->kind]++;
        switch (op->kind) {
        case SEQUENCE_POST:
            s->msgs_sum += msgs;
            s->recvs = greater(s->recvs, op->number + 1);
            s->hits += is_met;
            msgs -= is_met;
            recvs += !is_met;
            break;
        case SEQUENCE_ARRIVE:
            s->recvs_sum += recvs;
            s->msgs = greater(s->msgs, op->number + 1);
            s->hits += is_met;
            recvs -= is_met;
            msgs += !is_met;
            break;
        case SEQUENCE_CANCEL:
            recvs -= is_met;
            break;
        case SEQUENCE_EXTRACT:
            msgs -= is_met;
            break;
        case SEQUENCE_PEEK:
        case SEQUENCE_KINDS:
            break;
        }
        s->recvs_max = greater(s->recvs_max, recvs);
        s->msgs_max = greater(s->msgs_max, msgs);
    }
}

/* ---- for narrow engines ---- */

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Distinct numbers, in order. */
struct numbers {
    uint32_t *values;
    size_t count;
};

static void keep_different(struct numbers *n)
{
    size_t kept = 0;

    qsort(n->values, n->count, sizeof *n->values, compare);
    for (size_t i = 0; i < n->count; i++)
        if (kept == 0 || n->values[kept - 1] != n->values[i])
            n->values[kept++] = n->values[i];
    n->count = kept;
}

static uint32_t place_of(const struct numbers *n, uint32_t value)
{
    const uint32_t *found = bsearch(&value, n->values, n->count, sizeof *n->values, compare);

    return (uint32_t)(found - n->values);
}

/* The bits of value that mask selects, moved together. */
static uint64_t squeeze(uint64_t value, uint64_t mask)
{
    uint64_t squeezed = 0;

    for (unsigned at = 0; mask != 0; mask &= mask - 1, at++)
        squeezed |= (uint64_t)((value & mask & -mask) != 0) << at;
    return squeezed;
}

static void take_apart(const struct sequence *s, struct numbers *contexts,
                       struct numbers *sources, uint64_t *tag_bits)
{
    uint64_t any = 0, all = UINT64_MAX;

    for (size_t i = 0; i < s->count; i++) {
        const struct mbx_match_envelope *envelope = &s->ops[i].wanted.envelope;

        contexts->values[contexts->count++] = envelope->context_id;
        if (envelope->source != MBX_MATCH_ANY_SOURCE)
            sources->values[sources->count++] = envelope->source;
        any |= envelope->tag;
        all &= envelope->tag;
    }
    keep_different(contexts);
    keep_different(sources);
    *tag_bits = any & ~all;
}

static void add_narrow(struct sequence *narrow, const struct sequence_op *wide,
                       const struct numbers *contexts, const struct numbers *sources,
                       uint64_t tag_bits)
{
    struct sequence_op op = *wide;
    struct mbx_match_envelope *envelope = &op.wanted.envelope;

    envelope->context_id = place_of(contexts, envelope->context_id);
    if (envelope->source != MBX_MATCH_ANY_SOURCE)
        envelope->source = place_of(sources, envelope->source);
    envelope->tag = squeeze(envelope->tag, tag_bits);
    op.wanted.ignore = squeeze(op.wanted.ignore, tag_bits);
    sequence_add(narrow, &op);
}

/* The number of bits that distinguish `count` values. */
static unsigned bits_for(size_t count)
{
    unsigned bits = 0;

    while (count > (size_t)1 << bits)
        bits++;
    return bits;
}

bool sequence_narrow(const struct sequence *s, struct sequence *narrow)
{
    struct numbers contexts = {.values = mem_calloc(s->count, sizeof(uint32_t))};
    struct numbers sources = {.values = mem_calloc(s->count, sizeof(uint32_t))};
    uint64_t tag_bits;
    bool fits;

    *narrow = (struct sequence){0};
    if (contexts.values == NULL || sources.values == NULL)
        bench_fail("no memory for %zu operations", s->count);
    take_apart(s, &contexts, &sources, &tag_bits);
    narrow->source_bits = bits_for(sources.count);
    narrow->tag_bits = (unsigned)__builtin_popcountll(tag_bits);
    fits = bits_for(contexts.count) + narrow->source_bits + narrow->tag_bits <= 64;
    for (size_t i = 0; fits && i < s->count; i++)
        add_narrow(narrow, &s->ops[i], &contexts, &sources, tag_bits);
    sequence_count(narrow);
    mem_free(contexts.values);
    mem_free(sources.values);
    return fits;
}

/* ---- doing it ---- */

static inline uint32_t do_one(const struct sequence_op *op, struct bench_engine *engine)
{
    uint64_t tag;

    switch (op->kind) {
    case SEQUENCE_POST:
        return engine->ops->post(engine, op->number, op->wanted.envelope, op->wanted.ignore);
    case SEQUENCE_ARRIVE:
        return engine->ops->arrive(engine, op->number, op->wanted.envelope);
    case SEQUENCE_CANCEL:
        return engine->ops->cancel(engine, op->number) ? 0 : BENCH_NONE;
    case SEQUENCE_PEEK:
        return engine->ops->peek(engine, op->wanted.envelope, op->wanted.ignore, &tag)
                   ? 0
                   : BENCH_NONE;
    case SEQUENCE_EXTRACT:
        return engine->ops->extract(engine, op->number) ? 0 : BENCH_NONE;
    case SEQUENCE_KINDS:
        break;
    }
    return BENCH_NONE;
}

struct sequence_answers sequence_do(const struct sequence *s, struct bench_engine *engine,
                                    uint64_t *ns)
{
    struct sequence_answers answers = {0};
    uint64_t start;

    if (engine->ops->divide != NULL)
        engine->ops->divide(engine, s->source_bits, s->tag_bits);
    start = clock_now();

    for (size_t i = 0; i < s->count; i++) {
        uint32_t got = do_one(&s->ops[i], engine);

        answers.checksum = (answers.checksum ^ got) * UINT64_C(0x9e3779b97f4a7c15);
        answers.got = got;
        if (unlikely(got != s->ops[i].expected))
            break;
        answers.right++;
    }
    *ns = clock_now() - start;
    return answers;
}
