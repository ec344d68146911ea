/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - what programs do, and what the rules demand, through every engine.
 *
 * Question   agree    do the engines that are compared give the same answers at all?
 *            replay   what does an operation cost in the order in which a real program
 *                     made them?
 * Method     agree: 20,000 operations from a tiny domain (2 context ids, 3 sources, 3 tags,
 *            4 masks), so that most meet several candidates; the list is the measure.
 *            replay: a recorded file (src/trace/trace.h) is read into memory, then done from
 *            an empty engine, repeat by repeat; ns of one operation, over all of them.  The
 *            answers must be the recorded ones.  For UCX, context ids, sources and tags are
 *            made narrow, which changes no answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accepts.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench.h"
#include "sequence.h"

#define AGREE_OPS     20000
#define AGREE_SEED    1
#define AGREE_NUMBERS 256 /* receives and messages that may be queued at a time */

/* ---- agreement ------------------------------------------------------------- */

/* A sequence in the making: the list answers each operation as it is drawn. */
struct author {
    struct random random;
    struct bench_engine *list;
    struct sequence *sequence;
    bool recv_is_queued[AGREE_NUMBERS], msg_is_queued[AGREE_NUMBERS];
    struct match_envelope messages[AGREE_NUMBERS];
    size_t arrived_at[AGREE_NUMBERS];
};

static struct bench_pattern draw_pattern(struct author *a, bool may_be_wild)
{
    static const uint64_t tags[] = {0, 1, 1u << 20};
    static const uint64_t masks[] = {0, 1, 1u << 20, UINT64_MAX};
    struct bench_pattern wanted = {
        .envelope = {.context_id = (uint32_t)random_below(&a->random, 2),
                     .source = (uint32_t)random_below(&a->random, 3),
                     .tag = tags[random_below(&a->random, ARRAY_COUNT(tags))]}};

    if (may_be_wild && random_below(&a->random, 3) == 0)
        wanted.envelope.source = MATCH_ANY_SOURCE;
    if (may_be_wild)
        wanted.ignore = masks[random_below(&a->random, ARRAY_COUNT(masks))];
    return wanted;
}

static void add_post(struct author *a, uint32_t recv)
{
    struct sequence_op op = {SEQUENCE_POST, recv, 0, draw_pattern(a, true)};

    if (a->recv_is_queued[recv])
        return;
    op.expected = a->list->ops->post(a->list, recv, &op.wanted);
    if (op.expected == BENCH_NONE)
        a->recv_is_queued[recv] = true;
    else
        a->msg_is_queued[op.expected] = false;
    sequence_add(a->sequence, &op);
}

static void add_arrive(struct author *a, uint32_t msg)
{
    struct sequence_op op = {SEQUENCE_ARRIVE, msg, 0, draw_pattern(a, false)};

    if (a->msg_is_queued[msg])
        return;
    op.expected = a->list->ops->arrive(a->list, msg, &op.wanted.envelope);
    a->messages[msg] = op.wanted.envelope;
    a->arrived_at[msg] = a->sequence->count;
    if (op.expected == BENCH_NONE)
        a->msg_is_queued[msg] = true;
    else
        a->recv_is_queued[op.expected] = false;
    sequence_add(a->sequence, &op);
}

static void add_cancel(struct author *a, uint32_t recv)
{
    struct sequence_op op = {SEQUENCE_CANCEL, recv, 0, draw_pattern(a, false)};

    op.expected = a->list->ops->cancel(a->list, recv) ? 0 : BENCH_NONE;
    a->recv_is_queued[recv] = false;
    sequence_add(a->sequence, &op);
}

/* The message that such a peek shows. */
static uint32_t oldest_for(const struct author *a, const struct bench_pattern *wanted)
{
    uint32_t oldest = BENCH_NONE;

    for (uint32_t i = 0; i < AGREE_NUMBERS; i++)
        if (a->msg_is_queued[i] && accepts(wanted, &a->messages[i]) &&
            (oldest == BENCH_NONE || a->arrived_at[i] < a->arrived_at[oldest]))
            oldest = i;
    return oldest;
}

static void add_probe(struct author *a, bool is_claimed)
{
    struct sequence_op op = {SEQUENCE_PEEK, 0, 0, draw_pattern(a, true)};
    uint32_t msg = oldest_for(a, &op.wanted);
    uint64_t tag;

    op.expected = a->list->ops->peek(a->list, &op.wanted, &tag) ? 0 : BENCH_NONE;
    sequence_add(a->sequence, &op);
    if (!is_claimed || msg == BENCH_NONE)
        return;
    op = (struct sequence_op){SEQUENCE_CLAIM, msg, 0, {.envelope = a->messages[msg]}};
    op.expected = a->list->ops->claim(a->list, msg) ? 0 : BENCH_NONE;
    a->msg_is_queued[msg] = false;
    sequence_add(a->sequence, &op);
}

static void draw(struct author *a)
{
    uint32_t number = (uint32_t)random_below(&a->random, AGREE_NUMBERS);
    uint64_t dice = random_below(&a->random, 100);

    if (dice < 35)
        add_post(a, number);
    else if (dice < 70)
        add_arrive(a, number);
    else if (dice < 80)
        add_cancel(a, number);
    else
        add_probe(a, dice < 90);
}

static void write_sequence(struct sequence *s)
{
    struct author *a = calloc(1, sizeof *a);

    if (a == NULL)
        bench_fail("no memory");
    a->sequence = s;
    a->list = bench_list.create(AGREE_NUMBERS, AGREE_NUMBERS);
    if (a->list == NULL)
        bench_fail("no memory");
    random_seed(&a->random, AGREE_SEED);
    while (s->count < AGREE_OPS)
        draw(a);
    sequence_count(s);
    bench_list.destroy(a->list);
    free(a);
}

static const char *const kind_names[] = {"post", "arrive", "cancel", "peek", "claim"};

/* Says what an engine answered that it should not have. */
static void check_same(const struct bench_ops *ops, const struct sequence *s, const char *what,
                       const struct sequence_answers *answers)
{
    const struct sequence_op *op = &s->ops[answers->first];

    if (answers->different != 0)
        bench_fail("engine %s: %zu of %zu answers of %s are not as expected; the first is "
                   "operation %zu, %s %u: %d, and not %d",
                   ops->name, answers->different, s->count, what, answers->first,
                   kind_names[op->kind], op->number, (int)answers->got, (int)op->expected);
}

static void agree(const struct bench_ops *ops, const struct sequence *s)
{
    struct bench_engine *engine = ops->create(s->recvs, s->msgs);
    struct sequence_answers answers;
    uint64_t ns;

    if (engine == NULL)
        bench_fail("engine %s cannot start", ops->name);
    answers = sequence_do(s, engine, &ns);
    ops->destroy(engine);
    check_same(ops, s, "bench=agree", &answers);
    printf("bench=agree engine=%s operations=%zu met=%zu checksum=%016llx answers=same\n",
           ops->name, s->count, s->hits, (unsigned long long)answers.checksum);
}

void bench_agreement(struct bench *b)
{
    struct sequence wide = {0}, narrow;

    if (!bench_wants(b, "agree", ""))
        return;
    if (b->is_counting) {
        b->cases++;
        if (b->settings.is_dry)
            printf("bench=agree\n");
        return;
    }
    bench_progress(b, "agree", "");
    write_sequence(&wide);
    if (!sequence_narrow(&wide, &narrow))
        bench_fail("the operations of bench=agree do not fit a narrow engine");
    for (unsigned i = 0; bench_engines[i] != NULL; i++)
        if (b->settings.wants[i] && bench_engines[i]->is_measured)
            agree(bench_engines[i], bench_engines[i]->is_narrow ? &narrow : &wide);
    sequence_free(&wide);
    sequence_free(&narrow);
}

bool bench_replay(struct bench *b, const char *path)
{
    (void)b;
    fprintf(stderr, "match_bench: %s\n", path);
    return false;
}
