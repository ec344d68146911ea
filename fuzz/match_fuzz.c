/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_fuzz.c - for all posts, arrivals and cancels, the engine gives the same answers as the
 * oracle.
 *
 * An input is a history, and every input is valid:
 *
 *   byte 0        the first age: 0, or some entries before 2^32, 2^63 or 2^64
 *   byte 1        the seed of the hash; its bits 4 to 7 also determine the length that makes a queue
 *                 long, the number of masks with tables, and the number of bits of the hash
 *   byte 2        the allocation that fails, if any
 *   then          operations, of 1 to 4 bytes
 *
 *   operation     low 4 bits: the kind; 15 repeats the next one up to 64 times.  High 4 bits:
 *                 the changes from one repetition to the next (VARY_*)
 *   envelope      context id, source, tag; for receives also the ignored bits
 *   mask          for receives, if the envelope says so: one of 256 masks that differ only
 *                 in bits that no tag has
 *   target        for cancel and extract: how many operations ago
 *
 * The domain is tiny, as in history_random.c, so that most operations have several
 * candidates; the repetitions make queues of hundreds of entries from a few bytes.  After
 * each call answers, queues, counters and mbx_match_is_valid() are compared (history.c).  A
 * history that fails is shrunk and printed as a text that match_replay reads.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdlib.h>

#include "base/base.h"
#include "fuzz/program.h"
#include "match/history.h"

#define OPERATIONS_MAX 300 /* of a history, with all checks: a few milliseconds */
#define TARGETS_MAX    256

enum { VARY_TAG = 1, VARY_SOURCE = 2, VARY_MASK = 4, VARY_TARGET = 8 };

/* An operation, and its changes when it is repeated. */
struct pattern {
    enum op_kind kind;
    unsigned vary;
    uint8_t envelope, mask, target;
};

static const enum op_kind kinds[15] = {
    OP_POST, OP_POST,   OP_TRY,  OP_ARRIVE, OP_ARRIVE, OP_POST_MANY, OP_ARRIVE_MANY, OP_FIND,
    OP_MEET, OP_CANCEL, OP_KEEP, OP_PEEK,   OP_PROBE,  OP_TAKE,      OP_EXTRACT,
};

static bool has_target(enum op_kind kind)
{
    return kind == OP_CANCEL || kind == OP_EXTRACT;
}

static struct pattern take_pattern(struct input *in, uint8_t first)
{
    struct pattern p = {.kind = kinds[(first & 15) % ARRAY_COUNT(kinds)], .vary = first >> 4};

    if (has_target(p.kind)) {
        p.target = take(in);
        return p;
    }
    p.envelope = take(in);
    if (op_is_receive(p.kind) && p.envelope & 0x80)
        p.mask = take(in);
    return p;
}

/* Bits of the envelope: 0 context id, 1-2 source, 3-4 tag, 5-6 ignored; 7 a mask follows. */
static struct op make_op(const struct pattern *p, int id, int round)
{
    static const uint64_t tags[] = {0, 1, 1ull << 40, 1ull << 40 | 1};
    static const uint64_t ignores[] = {0, 1, 1ull << 40, UINT64_MAX};
    struct op op = {.kind = p->kind, .id = id};
    int back = p->target + (p->vary & VARY_TARGET ? round : 0);
    bool is_receive = op_is_receive(p->kind);

    op.target = id - back % TARGETS_MAX < 0 ? 0 : id - back % TARGETS_MAX;
    op.envelope.context_id = p->envelope & 1;
    op.envelope.source = p->envelope >> 1 & 3;
    if (is_receive && op.envelope.source == 3)
        op.envelope.source = MBX_MATCH_ANY_SOURCE;
    else if (p->vary & VARY_SOURCE)
        op.envelope.source = (op.envelope.source + (uint32_t)round) % 3;
    op.envelope.tag = tags[p->envelope >> 3 & 3];
    if (p->vary & VARY_TAG)
        op.envelope.tag |= (uint64_t)round << 16;
    if (!is_receive)
        return op;
    op.ignore = ignores[p->envelope >> 5 & 3];
    op.ignore |= (uint64_t)(uint8_t)(p->mask + (p->vary & VARY_MASK ? round : 0)) << 8;
    return op;
}

static void take_ops(struct input *in, struct history *h)
{
    uint8_t first = take(in);
    int rounds = 1;
    struct pattern p;

    if ((first & 15) == 15) {
        rounds = 1 + (take(in) & 63);
        first = (uint8_t)((first & 0xf0) | (take(in) & 15));
    }
    p = take_pattern(in, first);
    for (int round = 0; round < rounds && h->count < OPERATIONS_MAX; round++) {
        h->ops[h->count] = make_op(&p, h->count, round);
        h->count++;
    }
}

static uint64_t take_first_seq(struct input *in)
{
    static const uint64_t wraps[] = {0, 1ull << 32, 1ull << 63, 0};
    uint8_t what = take(in);

    return what < 4 ? 0 : wraps[what & 3] - (what >> 2);
}

static struct mbx_match_options take_options(struct input *in)
{
    static const uint32_t short_max[] = {0, 1, 2, 5}, classes[] = {0, 1, 3, 0};
    struct mbx_match_options options = {.first_seq = take_first_seq(in), .seed = take(in)};

    options.short_max = short_max[options.seed >> 4 & 3];
    options.classes = classes[options.seed >> 6];
    options.hash_bits = options.seed >> 6 == 3 ? 2 : 0;
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct history h;
    static struct history_run run;
    struct input in = {data, size};

    h.count = 0;
    h.options = take_options(&in);
    h.fail_at = take(&in) % 64;
    while (in.size != 0 && h.count < OPERATIONS_MAX)
        take_ops(&in, &h);
    if (h.count == 0 || history_replay(&run, &h) < 0)
        return 0;
    history_report(&h, "input of bytes", size);
    abort();
}
