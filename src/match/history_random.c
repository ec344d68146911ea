/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history_random.c - histories from seeds.
 *
 * The domain of the envelopes is tiny on purpose: with 2 contexts, 3 sources and 3 tags most
 * operations have several candidates, so order is tested.  Two of the tags differ only above
 * bit 31.
 *
 * A deep history changes its mix of operations every few dozen operations: receives accumulate,
 * messages accumulate, or all kinds occur as in a short one.  So its queues pass, up and down,
 * the depths at which an engine changes its structure.  Some histories have many masks that
 * differ in bits 8 to 15, which no tag has, so that they accept the same; and distinct tags in
 * bits 16 to 31.
 */
#include "base/base.h"
#include "base/random.h"
#include "match/history.h"

#define SHORT_MAX  64
#define MANY_MASKS 100 /* the number of additional masks in some deep histories */

static const uint64_t tags[] = {0, 1, 1ull << 40};
static const uint64_t masks[] = {0, 1, 1ull << 40, UINT64_MAX};
static const uint64_t first_seqs[] = {0, UINT32_MAX - 7, UINT64_MAX - 7, INT64_MAX - 7};

/* The number of operations of each kind, of 100. */
struct mood {
    unsigned char share[OP_KINDS];
};

static const struct mood any_kind = {{
    [OP_POST] = 20,
    [OP_ARRIVE] = 18,
    [OP_POST_MANY] = 5,
    [OP_ARRIVE_MANY] = 5,
    [OP_FIND] = 4,
    [OP_MEET] = 4,
    [OP_KEEP] = 5,
    [OP_PEEK] = 8,
    [OP_PROBE] = 6,
    [OP_CANCEL] = 9,
    [OP_EXTRACT] = 8,
    [OP_TAKE] = 4,
    [OP_TRY] = 4,
}};

static const struct mood receives = {{
    [OP_POST] = 60,
    [OP_POST_MANY] = 20,
    [OP_PEEK] = 4,
    [OP_PROBE] = 3,
    [OP_CANCEL] = 4,
    [OP_FIND] = 4,
    [OP_TAKE] = 2,
    [OP_TRY] = 3,
}};

static const struct mood messages = {{
    [OP_ARRIVE] = 35,
    [OP_ARRIVE_MANY] = 20,
    [OP_MEET] = 10,
    [OP_KEEP] = 10,
    [OP_FIND] = 2,
    [OP_PEEK] = 10,
    [OP_PROBE] = 3,
    [OP_EXTRACT] = 5,
    [OP_TAKE] = 3,
    [OP_TRY] = 2,
}};

static const struct mood cancels = {{
    [OP_CANCEL] = 60,
    [OP_EXTRACT] = 30,
    [OP_POST] = 5,
    [OP_ARRIVE] = 5,
}};

static enum op_kind random_kind(struct random *r, const struct mood *mood)
{
    uint64_t draw = random_below(r, 100);
    int kind = 0;

    while (draw >= mood->share[kind])
        draw -= mood->share[kind++];
    return (enum op_kind)kind;
}

/* The target of a cancel or extract is any earlier operation: one whose entry still waits, one
 * that has matched, or one that made no such entry. */
static struct op random_op(struct random *r, const struct mood *mood, int id)
{
    struct op op = {.kind = random_kind(r, mood), .id = id};

    op.target = (int)random_below(r, (uint64_t)id + 1);
    op.envelope.context_id = (uint32_t)random_below(r, 2);
    op.envelope.source = (uint32_t)random_below(r, 3);
    op.envelope.tag = tags[random_below(r, ARRAY_COUNT(tags))];
    if (op_is_receive(op.kind) && random_below(r, 3) == 0)
        op.envelope.source = MBX_MATCH_ANY_SOURCE;
    if (op_is_receive(op.kind))
        op.ignore = masks[random_below(r, ARRAY_COUNT(masks))];
    return op;
}

/* In half of them, even a short history has long queues, too few classes and colliding
 * prints. */
static struct mbx_match_options random_options(struct random *r, uint64_t seed)
{
    struct mbx_match_options options = {.first_seq = first_seqs[seed % ARRAY_COUNT(first_seqs)],
                                        .seed = seed};

    if (random_below(r, 2) == 0) {
        options.short_max = (uint32_t)random_below(r, 6);
        options.classes = (uint32_t)random_below(r, 5);
        options.hash_bits = (uint32_t)random_below(r, 4);
    }
    return options;
}

void history_make(struct history *h, uint64_t seed)
{
    struct random r;

    random_seed(&r, seed);
    h->options = random_options(&r, seed);
    h->fail_at = 0;
    h->count = 1 + (int)random_below(&r, SHORT_MAX);
    for (int i = 0; i < h->count; i++)
        h->ops[i] = random_op(&r, &any_kind, i);
}

static const struct mood *random_mood(struct random *r)
{
    static const struct mood *const moods[] = {&receives, &receives, &messages,
                                               &messages, &cancels,  &any_kind};

    return moods[random_below(r, ARRAY_COUNT(moods))];
}

/* Wildcards would empty the other queue at once, so most receives become exact. */
static void deepen(struct random *r, struct op *op, bool has_many_masks, bool has_many_tags)
{
    if (op->ignore == UINT64_MAX && random_below(r, 4) != 0)
        op->ignore = 0;
    if (has_many_masks && op_is_receive(op->kind) && op->ignore != UINT64_MAX &&
        random_below(r, 2) == 0)
        op->ignore |= random_below(r, MANY_MASKS) << 8;
    if (has_many_tags && random_below(r, 2) == 0)
        op->envelope.tag |= random_below(r, 64) << 16;
}

void history_make_deep(struct history *h, uint64_t seed)
{
    const struct mood *mood = &receives;
    bool has_many_masks = seed % 3 == 0, has_many_tags = seed % 2 == 0;
    struct random r;

    random_seed(&r, seed);
    h->options = random_options(&r, seed / 2);
    h->fail_at = 0;
    h->count = HISTORY_MAX / 2 + (int)random_below(&r, HISTORY_MAX / 2);
    for (int i = 0; i < h->count; i++) {
        if (random_below(&r, 60) == 0)
            mood = random_mood(&r);
        h->ops[i] = random_op(&r, mood, i);
        deepen(&r, &h->ops[i], has_many_masks, has_many_tags);
    }
}
