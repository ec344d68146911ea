/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - operations of real programs, and of the matching rules, through every engine.
 *
 * Question   agree    do the compared engines give the same answers at all?
 *            replay   what does an operation cost in the order of a real
 *                     program?
 * Method     agree: 20,000 operations from a tiny domain (2 context ids, 3 sources, 3 tags,
 *            4 masks), so that most have several candidates; the list is the reference.
 *            replay: a recorded file (src/trace/trace.h) is read into memory, then replayed from
 *            an empty engine, repeat by repeat; ns per operation, over all of them.  The
 *            answers must equal the recorded ones.  For UCX, context ids, sources and tags are
 *            narrowed, which changes no answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accepts.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench.h"
#include "sequence.h"
#include "trace/trace.h"

#define AGREE_OPS     20000
#define AGREE_SEED    1
#define AGREE_NUMBERS 256 /* receives and messages that may be queued at a time */

/* ---- agreement ------------------------------------------------------------- */

/* The generator of a sequence: the list answers each operation as it is drawn. */
struct author {
    struct random random;
    struct bench_engine *list;
    struct sequence *sequence;
    bool recv_is_queued[AGREE_NUMBERS], msg_is_queued[AGREE_NUMBERS];
    struct mbx_match_envelope messages[AGREE_NUMBERS];
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
        wanted.envelope.source = MBX_MATCH_ANY_SOURCE;
    if (may_be_wild)
        wanted.ignore = masks[random_below(&a->random, ARRAY_COUNT(masks))];
    return wanted;
}

static void add_post(struct author *a, uint32_t recv)
{
    struct sequence_op op = {SEQUENCE_POST, recv, 0, draw_pattern(a, true)};

    if (a->recv_is_queued[recv])
        return;
    op.expected = a->list->ops->post(a->list, recv, op.wanted.envelope, op.wanted.ignore);
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
    op.expected = a->list->ops->arrive(a->list, msg, op.wanted.envelope);
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

/* The message that such a peek finds. */
static uint32_t oldest_for(const struct author *a, const struct bench_pattern *wanted)
{
    uint32_t oldest = BENCH_NONE;

    for (uint32_t i = 0; i < AGREE_NUMBERS; i++)
        if (a->msg_is_queued[i] &&
            accepts(&wanted->envelope, wanted->ignore, &a->messages[i]) &&
            (oldest == BENCH_NONE || a->arrived_at[i] < a->arrived_at[oldest]))
            oldest = i;
    return oldest;
}

static void add_probe(struct author *a, bool is_extracted)
{
    struct sequence_op op = {SEQUENCE_PEEK, 0, 0, draw_pattern(a, true)};
    uint32_t msg = oldest_for(a, &op.wanted);
    uint64_t tag;

    op.expected = a->list->ops->peek(a->list, op.wanted.envelope, op.wanted.ignore, &tag)
                      ? 0
                      : BENCH_NONE;
    sequence_add(a->sequence, &op);
    if (!is_extracted || msg == BENCH_NONE)
        return;
    op = (struct sequence_op){SEQUENCE_EXTRACT, msg, 0, {.envelope = a->messages[msg]}};
    op.expected = a->list->ops->extract(a->list, msg) ? 0 : BENCH_NONE;
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

/* Reports the wrong answer of an engine. */
static void check_same(const struct bench_ops *ops, const struct sequence *s, const char *what,
                       const struct sequence_answers *answers)
{
    const struct sequence_op *op = &s->ops[answers->right];

    if (answers->right != s->count)
        bench_fail("engine %s: operation %zu of %zu of %s, %s %u, gives %d and not %d",
                   ops->name, answers->right, s->count, what, kind_names[op->kind], op->number,
                   (int)answers->got, (int)op->expected);
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

/* ---- replay ---------------------------------------------------------------- */

/* The number for an entry of the recording while it is queued. */
struct slot {
    uint64_t entry; /* 0: free */
    uint32_t number;
};

/* Maps entries to numbers. */
struct slots {
    struct hash hash; /* contains struct slot */
    uint32_t *free_numbers;
    uint32_t free_count, free_capacity, next;
};

static uint64_t slot_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct slot *)slot)->entry);
}

static bool slot_is(const void *arg, const void *slot, const void *entry)
{
    (void)arg;
    return ((const struct slot *)slot)->entry == *(const uint64_t *)entry;
}

static const struct hash_kind by_entry = {sizeof(struct slot), slot_hash, slot_is};

static uint32_t number_take(struct slots *t)
{
    return t->free_count > 0 ? t->free_numbers[--t->free_count] : t->next++;
}

static void number_give(struct slots *t, uint32_t number)
{
    if (t->free_count == t->free_capacity) {
        t->free_capacity = t->free_capacity == 0 ? 1024 : 2 * t->free_capacity;
        t->free_numbers = realloc(t->free_numbers, t->free_capacity * sizeof *t->free_numbers);
        if (t->free_numbers == NULL)
            bench_fail("no memory for %u numbers", t->free_capacity);
    }
    t->free_numbers[t->free_count++] = number;
}

/* Allocates a number for an entry that is queued from now on. */
static uint32_t slots_add(struct slots *t, uint64_t entry)
{
    const struct slot slot = {entry, number_take(t)};

    if (hash_add(&t->hash, &by_entry, NULL, &slot) != 0)
        bench_fail("no memory for %zu entries", t->hash.count);
    return slot.number;
}

/* Frees the entry's number and returns it; BENCH_NONE: there is no such entry. */
static uint32_t slots_remove(struct slots *t, uint64_t entry)
{
    struct slot *slot = hash_find(&t->hash, &by_entry, NULL, hash_mix(entry), &entry);
    uint32_t number;

    if (slot == NULL)
        return BENCH_NONE;
    number = slot->number;
    hash_remove(&t->hash, &by_entry, NULL, slot);
    number_give(t, number);
    return number;
}

/* The state of the conversion of a recording to a sequence. */
struct reading {
    struct slots recvs, msgs;
    struct sequence *sequence;
    uint64_t records;
};

/* The number for an entry that matches at once: it is never queued. */
static uint32_t number_for_now(struct slots *t)
{
    uint32_t number = number_take(t);

    number_give(t, number);
    return number;
}

/* Reads a post or an arrival: `own` is the side of the entry, `other` the side of its
 * partner. */
static bool read_meeting(struct slots *own, struct slots *other,
                         const struct trace_event *event, struct sequence_op *op)
{
    if (event->partner == 0) {
        op->expected = BENCH_NONE;
        op->number = slots_add(own, event->entry);
        return true;
    }
    op->number = number_for_now(own);
    op->expected = slots_remove(other, event->partner);
    return op->expected != BENCH_NONE;
}

/* Adds the operation of the event.  False: the event is impossible here. */
static bool read_event(struct reading *r, const struct trace_event *event)
{
    struct sequence_op op = {
        .wanted = {.envelope = {event->context_id, event->source, event->tag},
                   .ignore = event->ignore}};
    bool is_right = true;

    switch ((unsigned)event->type) {
    case TRACE_POST:
        op.kind = SEQUENCE_POST;
        is_right = read_meeting(&r->recvs, &r->msgs, event, &op);
        break;
    case TRACE_ARRIVE:
        op.kind = SEQUENCE_ARRIVE;
        is_right = read_meeting(&r->msgs, &r->recvs, event, &op);
        break;
    case TRACE_CANCEL:
        op.kind = SEQUENCE_CANCEL;
        op.number = slots_remove(&r->recvs, event->entry);
        is_right = op.number != BENCH_NONE;
        break;
    case TRACE_PEEK:
        op.kind = SEQUENCE_PEEK;
        op.expected = event->partner != 0 ? 0 : BENCH_NONE;
        break;
    case TRACE_CLAIM:
        op.kind = SEQUENCE_EXTRACT;
        op.number = slots_remove(&r->msgs, event->entry);
        is_right = op.number != BENCH_NONE;
        break;
    default: /* not an operation of an engine */
        return true;
    }
    if (is_right)
        sequence_add(r->sequence, &op);
    return is_right;
}

static void slots_free(struct slots *t)
{
    hash_fini(&t->hash);
    free(t->free_numbers);
}

/* False after an error message. */
static bool read_file(const char *path, struct sequence *s)
{
    struct trace_reader *reader = malloc(sizeof *reader);
    struct reading reading = {.sequence = s};
    struct trace_event event;
    bool is_right = true;
    int err;

    if (reader == NULL)
        bench_fail("no memory");
    err = trace_open(reader, path);
    if (err == 0) {
        while (is_right && (err = trace_next(reader, &event)) == 1) {
            reading.records++;
            is_right = read_event(&reading, &event);
        }
        trace_close(reader);
    }
    if (err < 0)
        fprintf(stderr, "match_bench: %s\n", reader->error);
    if (!is_right)
        fprintf(stderr,
                "match_bench: %s: record %llu (%s) is about an entry that is not there\n", path,
                (unsigned long long)reading.records, trace_type_name(event.type));
    slots_free(&reading.recvs);
    slots_free(&reading.msgs);
    free(reader);
    sequence_count(s);
    return is_right && err == 0;
}

/* One engine with one recording. */
struct player {
    const struct bench_ops *ops;
    double ns[BENCH_REPEATS_MAX];
    uint64_t checksum;
};

static void play(struct player *player, const struct sequence *s, const char *path, unsigned n)
{
    struct bench_engine *engine = player->ops->create(s->recvs, s->msgs);
    struct sequence_answers answers;
    uint64_t ns;

    if (engine == NULL)
        bench_fail("engine %s cannot start", player->ops->name);
    answers = sequence_do(s, engine, &ns);
    player->ops->destroy(engine);
    check_same(player->ops, s, path, &answers);
    player->checksum = answers.checksum;
    player->ns[n] = (double)ns / (double)s->count;
}

/* The name of a file as one word. */
static void word_of(const char *path, char *word, size_t size)
{
    const char *slash = strrchr(path, '/');

    snprintf(word, size, "%s", slash != NULL ? slash + 1 : path);
    for (char *c = word; *c != '\0'; c++)
        if (*c == ' ' || *c == '=' || *c == '\t' || *c == '\n')
            *c = '_';
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void show_sequence(const struct sequence *s, const char *word)
{
    size_t posts = s->kinds[SEQUENCE_POST], arrivals = s->kinds[SEQUENCE_ARRIVE];

    printf("about=replay trace=%s operations=%zu posts=%zu arrivals=%zu cancels=%zu peeks=%zu "
           "claims=%zu met=%zu posted_max=%u posted_mean=%.1f unexpected_max=%u "
           "unexpected_mean=%.1f\n",
           word, s->count, posts, arrivals, s->kinds[SEQUENCE_CANCEL], s->kinds[SEQUENCE_PEEK],
           s->kinds[SEQUENCE_EXTRACT], s->hits, s->recvs_max,
           (double)s->recvs_sum / (double)(arrivals + !arrivals), s->msgs_max,
           (double)s->msgs_sum / (double)(posts + !posts));
}

static void play_all(const struct bench *b, const struct sequence *wide,
                     const struct sequence *narrow, const char *path)
{
    static struct player players[BENCH_ENGINES_MAX];
    unsigned repeats = b->settings.repeats, count = 0;
    char word[128];

    word_of(path, word, sizeof word);
    show_sequence(wide, word);
    for (unsigned i = 0; bench_engines[i] != NULL; i++)
        if (b->settings.wants[i] && bench_engines[i]->is_measured &&
            (!bench_engines[i]->is_narrow || narrow->count != 0))
            players[count++].ops = bench_engines[i];
    for (unsigned n = 0; n < repeats; n++)
        for (unsigned i = 0; i < count; i++)
            play(&players[i], players[i].ops->is_narrow ? narrow : wide, path, n);
    for (unsigned i = 0; i < count; i++) {
        qsort(players[i].ns, repeats, sizeof players[i].ns[0], compare);
        printf("bench=replay engine=%s trace=%s operations=%zu median_ns=%.1f min_ns=%.1f "
               "repeats=%u checksum=%016llx\n",
               players[i].ops->name, word, wide->count, players[i].ns[repeats / 2],
               players[i].ns[0], repeats, (unsigned long long)players[i].checksum);
    }
    fflush(stdout);
}

bool bench_replay(struct bench *b, const char *path)
{
    struct sequence wide = {0}, narrow;
    bool is_read = read_file(path, &wide);

    if (is_read && wide.count == 0) {
        fprintf(stderr, "match_bench: %s has no operations\n", path);
        is_read = false;
    }
    if (is_read) {
        if (!sequence_narrow(&wide, &narrow))
            fprintf(stderr, "match_bench: %s does not fit into the tags of UCX\n", path);
        play_all(b, &wide, &narrow, path);
        sequence_free(&narrow);
    }
    sequence_free(&wide);
    return is_read;
}
