/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.c - chance decides, but most messages find a receive.
 *
 * Messages are drawn together with a receive that accepts them, somewhere around the same time
 * in the program of the other rank; on top of that come receives, probes and cancels for
 * nothing in particular.  Envelopes come from a tiny domain on purpose, so that what waits
 * suits much that comes, and order is what is tested.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"

#define OPS_PER_MESSAGE 4 /* at most: send, mprobe, mrecv, and something else */

const char *const op_names[OP_KINDS] = {
    "send",    "ssend",  "inject", "recv",  "probe", "mprobe", "mrecv",
    "discard", "cancel", "add",    "stall", "die",   "leave",
};

/* Values that the seed decides for the whole job. */
struct profile {
    struct random r;
    uint64_t span_ns;
    uint32_t hot_count; /* ranks to which many write: the first ones */
    bool is_narrow, has_stalls, has_adds;
    uint32_t percent_any, percent_sync, percent_lonely;
    uint32_t size_count;
};

static const uint32_t sizes[] = {0,   1,    8,    24,   40,    300,          470,
                                 600, 1500, 5000, 9000, 20000, PLAN_SIZE_MAX};

static uint32_t below(struct profile *m, uint32_t bound)
{
    return (uint32_t)random_below(&m->r, bound);
}

static bool chance(struct profile *m, uint32_t percent)
{
    return below(m, 100) < percent;
}

/* ---- settings ---- */

static const char *one_of(struct profile *m, const char *const *names, uint32_t count)
{
    return names[below(m, count)];
}

#define ONE_OF(m, ...)                                                                         \
    one_of(m, (const char *const[]){__VA_ARGS__},                                              \
           (uint32_t)ARRAY_COUNT(((const char *const[]){__VA_ARGS__})))

static void draw_params(struct plan *p, struct profile *m, const char *match_at,
                        char params[PLAN_PARAMS][40])
{
    int i = 0;

    (void)p;
    snprintf(params[i++], 40, "TRANSPORT=sim");
    snprintf(params[i++], 40, "LOG_LEVEL=error");
    snprintf(params[i++], 40, "CLOSE_TIMEOUT=0");
    snprintf(params[i++], 40, "MATCH_AT=%s", match_at);
    snprintf(params[i++], 40, "EAGER_LIMIT=%s", ONE_OF(m, "0", "600", "2000", "8K", "16K"));
    snprintf(params[i++], 40, "RNDV=%s", ONE_OF(m, "data", "auto", "auto"));
    snprintf(params[i++], 40, "RTS_PAYLOAD=%s", ONE_OF(m, "0", "200", "400"));
    snprintf(params[i++], 40, "READ_CHUNK=%s", ONE_OF(m, "4K", "4K", "1M"));
    snprintf(params[i++], 40, "WINDOW=%s", ONE_OF(m, "0", "0", "1", "2", "5", "auto", "auto"));
    snprintf(params[i++], 40, "WINDOW_PAYLOAD=%s", ONE_OF(m, "0", "auto"));
    snprintf(params[i++], 40, "UNEXPECTED_MEMORY=%s", ONE_OF(m, "64M", "64M", "100K", "4K"));
    snprintf(params[i++], 40, "SENDTABLE=%s", ONE_OF(m, "no", "yes"));
    snprintf(params[i++], 40, "ADVERT=%s", ONE_OF(m, "off", "auto", "always", "always"));
    snprintf(params[i++], 40, "ADVERT_SIZE=%s", ONE_OF(m, "1", "1", "600", "8K"));
    snprintf(params[i++], 40, "SPIN=0");
    snprintf(params[i++], 40, "PEER_TIMEOUT=400ms");
}

static void draw_settings(struct plan *p, struct profile *m)
{
    const char *match_at = ONE_OF(m, "receiver", "receiver", "sender");

    p->variants = chance(m, 30) ? PLAN_VARIANTS : 1;
    for (uint32_t i = 0; i < p->variants; i++)
        draw_params(p, m, match_at, p->params[i]);
    p->capacity = chance(m, 50) ? 1 + below(m, 4) : 256;
}

/* Options that were added later have a random generator of their own, so that older seeds keep
 * their meaning. */
static void draw_device(struct profile *m, char params[PLAN_PARAMS][40])
{
    int i = PLAN_PARAMS - 6;

    snprintf(params[i++], 40, "DEVICE=soft");
    snprintf(params[i++], 40, "MATCH=%s", ONE_OF(m, "split", "software", "device", "device"));
    snprintf(params[i++], 40, "DEVICE_LIST=%s", ONE_OF(m, "1", "2", "5", "64"));
    snprintf(params[i++], 40, "DEVICE_BUFFERS=%s", ONE_OF(m, "1", "3", "32"));
    snprintf(params[i++], 40, "DEVICE_THRESHOLD=%s", ONE_OF(m, "0", "1", "600", "8K"));
}

static void draw_holds(struct profile *m, char params[PLAN_PARAMS][40])
{
    snprintf(params[PLAN_PARAMS - 1], 40, "DEVICE_HOLDS=%s", ONE_OF(m, "no", "yes", "yes"));
}

static void draw_share(struct profile *m, char params[PLAN_PARAMS][40])
{
    snprintf(params[PLAN_PARAMS - 8], 40, "SPLIT_COPY=%s",
             ONE_OF(m, "off", "always", "always"));
    snprintf(params[PLAN_PARAMS - 7], 40, "SPLIT_COPY_SIZE=%s", ONE_OF(m, "2", "2", "600"));
}

static void draw_calm(struct profile *m, char params[PLAN_PARAMS][40])
{
    snprintf(params[PLAN_PARAMS - 9], 40, "CALM_LEAST=%s", ONE_OF(m, "0", "0", "5", "auto"));
}

/* Gives a setting that was drawn another value, or a new one its place. */
static void set_param(char params[PLAN_PARAMS][40], const char *name, const char *value)
{
    size_t length = strlen(name);
    int i = 0;

    while (i < PLAN_BUFFERS &&
           (strncmp(params[i], name, length) != 0 || params[i][length] != '='))
        i++;
    snprintf(params[i], 40, "%s=%s", name, value);
}

/* As often as not messages of several packets are too long to be eager, unless all of them goes into bounce buffers. */
static void draw_long(struct plan *p, struct profile *m)
{
    bool is_long = chance(m, 50);

    for (uint32_t i = 0; i < p->variants; i++) {
        snprintf(p->params[i][PLAN_PARAMS - 10], 40, "BUFFERS_SIZE=%s",
                 is_long ? "16K" : "auto");
        if (is_long)
            set_param(p->params[i], "EAGER_LIMIT", "1K");
    }
}

/* Messages of several packets are eager, and have space, so that what follows the first one is
 * copied into bounce buffers as soon as their receiver has met one of them. */
static void draw_space(struct plan *p, struct profile *m)
{
    for (uint32_t i = 0; i < p->variants; i++) {
        set_param(p->params[i], "EAGER_LIMIT", "16K");
        set_param(p->params[i], "WINDOW", "auto");
        set_param(p->params[i], "WINDOW_PAYLOAD", "auto");
        set_param(p->params[i], "UNEXPECTED_MEMORY", "64M");
    }
    draw_long(p, m);
    p->network.depth = chance(m, 30) ? 4 : 64;
}

/* Many messages are of several packets. */
static void draw_streams(struct plan *p, struct profile *m)
{
    for (uint32_t i = 0; i < p->count; i++) {
        struct op *op = &p->ops[i];

        if (op_is_message(op) && op->size > 400 && chance(m, 80))
            op->size = 9000;
        if (op->kind == OP_SSEND && chance(m, 80))
            op->kind = OP_SEND;
    }
}

/* Endpoints have bounce buffers.  True: they have space for many messages of several packets. */
static bool draw_buffers(struct plan *p, struct profile *m)
{
    p->network.buffers = chance(m, 40) ? 1 + below(m, SIM_BUFFERS_MAX) : 0;
    if (p->network.buffers == 0)
        return false;
    for (uint32_t i = 0; i < p->variants; i++)
        set_param(p->params[i], "OVERSUBSCRIBED", "no");
    if (!chance(m, 60))
        return false;
    draw_space(p, m);
    return true;
}

static void draw_devices(struct plan *p, struct profile *m)
{
    p->has_device = chance(m, 25);
    for (uint32_t i = 0; i < p->variants && p->has_device; i++)
        draw_device(m, p->params[i]);
}

static void draw_copies(struct plan *p, struct profile *m)
{
    for (uint32_t i = 0; i < p->variants; i++)
        draw_share(m, p->params[i]);
    p->percent_pieces = chance(m, 40) ? 10 + below(m, 91) : 0;
    for (uint32_t i = 0; i < p->variants; i++)
        draw_calm(m, p->params[i]);
}

static void draw_held(struct plan *p, struct profile *m)
{
    for (uint32_t i = 0; i < p->variants && p->has_device; i++)
        draw_holds(m, p->params[i]);
}

static void draw_more(struct plan *p, struct profile *m)
{
    p->percent_memory = chance(m, 15) ? 1 + below(m, 20) : 0;
    draw_devices(p, m);
    for (uint32_t i = 0; i < p->count; i++)
        if (p->ops[i].kind == OP_DIE && chance(m, 30))
            p->ops[i].kind = OP_LEAVE;
    draw_copies(p, m);
    if (draw_buffers(p, m))
        draw_streams(p, m);
    draw_held(p, m);
}

static void draw_network(struct plan *p, struct profile *m)
{
    static const uint32_t percents[] = {0, 0, 5, 30};
    struct sim_config *w = &p->network;

    *w = (struct sim_config){.seed = p->seed};
    w->delay_min_ns = CLOCK_US;
    w->delay_max_ns = chance(m, 50) ? 3 * CLOCK_US : 40 * CLOCK_US;
    w->depth = chance(m, 60) ? 1 + below(m, 4) : 64;
    w->words = chance(m, 70) ? 1 + below(m, 16) : 0;
    w->percent_full = percents[below(m, 4)];
    w->percent_late = 20 * below(m, 5);
    w->percent_lost = percents[below(m, 4)];
    w->can_read = chance(m, 80);
    w->has_table = chance(m, 70);
}

/* ---- operations ---- */

static struct op *op_add(struct plan *p, enum op_kind kind, uint32_t rank, uint64_t at_ns)
{
    struct op *op = &p->ops[p->count++];

    *op = (struct op){
        .kind = kind, .id = ++p->last_id, .rank = rank, .peer = PLAN_ANYBODY, .at_ns = at_ns};
    return op;
}

/* Whom does rank write to? */
static uint32_t draw_friend(struct plan *p, struct profile *m, uint32_t rank)
{
    uint32_t what = below(m, 100);

    if (what < 60)
        return (rank + 1 + below(m, 3)) % p->ranks;
    if (what < 80)
        return below(m, m->hot_count);
    return what < 88 ? rank : below(m, p->ranks);
}

static void draw_envelope(struct profile *m, struct op *op)
{
    op->context_id = m->is_narrow || chance(m, 75) ? 0 : MBX_CONTEXT_MAX;
    op->tag = below(m, m->is_narrow ? 2 : 3);
}

/* Draws the wildcards and the size of a receive. */
static void draw_pattern(struct profile *m, struct op *op)
{
    static const uint64_t ignores[] = {0, 0, 1, 2, MBX_IGNORE_ALL};

    op->ignore = ignores[below(m, ARRAY_COUNT(ignores))];
    if (chance(m, m->percent_any))
        op->peer = PLAN_ANYBODY;
    op->size = chance(m, 75) ? PLAN_SIZE_MAX : sizes[below(m, m->size_count)];
}

static uint64_t draw_time(struct profile *m)
{
    return random_below(&m->r, m->span_ns);
}

/* Somewhere around that. */
static uint64_t draw_near(struct profile *m, uint64_t at_ns)
{
    uint64_t around = m->span_ns / 4;
    uint64_t to = at_ns + random_below(&m->r, around + 1);

    return to < around / 2 ? 0 : to - around / 2;
}

/* The receive of a message, or a matched probe and what follows it. */
static void draw_receive(struct plan *p, struct profile *m, const struct op *message)
{
    bool is_probed = chance(m, 15);
    uint64_t at_ns = draw_near(m, message->at_ns), later_ns;
    struct op *op = op_add(p, is_probed ? OP_MPROBE : OP_RECV, message->peer, at_ns), *then;

    op->peer = message->rank;
    op->context_id = message->context_id;
    op->tag = message->tag;
    draw_pattern(m, op);
    if (!is_probed)
        return;
    later_ns = draw_near(m, at_ns);
    then = op_add(p, chance(m, 75) ? OP_MRECV : OP_DISCARD, op->rank, later_ns);
    then->target = op->id;
    then->size = op->size;
    if (then->at_ns < at_ns)
        then->at_ns = at_ns;
}

static void draw_message(struct plan *p, struct profile *m)
{
    static const enum op_kind kinds[] = {OP_SEND, OP_SEND, OP_INJECT};
    uint32_t rank = below(m, p->ranks);
    enum op_kind kind = chance(m, m->percent_sync) ? OP_SSEND : kinds[below(m, 3)];
    uint64_t at_ns = draw_time(m);
    struct op *op = op_add(p, kind, rank, at_ns);

    op->peer = draw_friend(p, m, rank);
    draw_envelope(m, op);
    op->size = sizes[below(m, kind == OP_INJECT ? 5 : m->size_count)];
    if (!chance(m, m->percent_lonely))
        draw_receive(p, m, op);
}

/* Something that fits to nothing. */
static void draw_other(struct plan *p, struct profile *m)
{
    static const enum op_kind kinds[] = {OP_RECV,   OP_RECV,   OP_PROBE, OP_PROBE,
                                         OP_CANCEL, OP_CANCEL, OP_ADD,   OP_STALL};
    enum op_kind kind = kinds[below(m, ARRAY_COUNT(kinds))];
    struct op *op;
    uint32_t rank;

    if ((kind == OP_ADD && !m->has_adds) || (kind == OP_STALL && !m->has_stalls))
        return;
    rank = below(m, p->ranks);
    op = op_add(p, kind, rank, draw_time(m));
    op->peer = draw_friend(p, m, op->rank);
    draw_envelope(m, op);
    if (kind == OP_CANCEL) {
        op->target = 1 + below(m, p->last_id);
        op->rank = p->ops[op->target - 1].rank; /* not yet sorted */
    } else if (kind == OP_STALL) {
        op->until_ns =
            op->at_ns + random_below(&m->r, chance(m, 80) ? m->span_ns / 4 : 300 * CLOCK_MS);
    } else if (kind != OP_ADD) {
        draw_pattern(m, op);
    }
}

static void draw_deaths(struct plan *p, struct profile *m)
{
    uint32_t count;

    p->has_deaths = p->ranks > 1 && chance(m, 35);
    count = p->has_deaths ? 1 + below(m, p->ranks / 4 + 1) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = below(m, p->ranks);
        uint64_t at_ns = draw_time(m);

        op_add(p, OP_DIE, rank, at_ns);
    }
}

static int op_compare(const void *a, const void *b)
{
    const struct op *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* ---- the plan ---- */

static void *checked(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "sim: no memory\n");
        exit(1);
    }
    return memory;
}

static void draw_mood(struct plan *p, struct profile *m, uint32_t per_rank)
{
    static const uint32_t any[] = {0, 30, 30, 80};

    m->hot_count = 1 + p->ranks / 32;
    m->is_narrow = chance(m, 50);
    m->has_stalls = chance(m, 40);
    m->has_adds = chance(m, 40);
    m->percent_any = any[below(m, 4)];
    m->percent_sync = 25 * below(m, 4);
    m->percent_lonely = 10 * below(m, 4);
    m->size_count = chance(m, 20) ? 5 : (uint32_t)ARRAY_COUNT(sizes) - below(m, 2);
    m->span_ns = (uint64_t)per_rank * (chance(m, 50) ? 4 : 40) * CLOCK_US;
}

void plan_make(struct plan *p, uint64_t seed, uint32_t ranks, uint32_t per_rank)
{
    static const uint32_t few[] = {2, 2, 3, 3, 4, 5, 8, 16};
    struct profile m = {0};
    uint64_t messages, capacity;

    random_seed(&m.r, seed);
    *p = (struct plan){.seed = seed};
    p->ranks = few[below(&m, ARRAY_COUNT(few))];
    p->ranks = ranks != 0 ? ranks : p->ranks;
    if (per_rank == 0)
        per_rank = 4 + below(&m, 60);
    draw_network(p, &m);
    draw_settings(p, &m);
    draw_mood(p, &m, per_rank);
    messages = (uint64_t)p->ranks * per_rank / 3 + 1;
    capacity = messages * OPS_PER_MESSAGE + p->ranks;
    p->ops = checked(calloc(capacity, sizeof *p->ops));
    for (uint64_t i = 0; i < messages; i++) {
        draw_message(p, &m);
        if (chance(&m, 60))
            draw_other(p, &m);
    }
    draw_deaths(p, &m);
    random_seed(&m.r, ~seed);
    draw_more(p, &m);
    qsort(p->ops, p->count, sizeof *p->ops, op_compare);
}

/* ---- the same operations elsewhere ---- */

/* Each rank begins its operations at other moments, in the same order. */
static void draw_times(struct plan *p, struct profile *m)
{
    uint64_t was_ns = 0, at_ns = 0, pace = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        struct op *op = &p->ops[i];
        uint64_t stall_ns;

        if (i == 0 || op->rank != op[-1].rank) {
            was_ns = at_ns = 0;
            pace = below(m, 4);
        }
        at_ns += random_below(&m->r, (op->at_ns - was_ns) * pace + 1);
        was_ns = op->at_ns;
        stall_ns = op->until_ns > op->at_ns ? op->until_ns - op->at_ns : 0;
        op->at_ns = at_ns;
        if (op->kind == OP_STALL)
            op->until_ns = at_ns + random_below(&m->r, 2 * stall_ns + 1) % (300 * CLOCK_MS);
    }
}

/* No standard send waits for its receive: long ones in pieces may. */
static void give_space(struct plan *p)
{
    p->percent_pieces = 0;
    for (uint32_t i = 0; i < p->variants; i++) {
        set_param(p->params[i], "MATCH_AT", "receiver");
        set_param(p->params[i], "EAGER_LIMIT", "128K");
        set_param(p->params[i], "WINDOW", "unlimited");
        set_param(p->params[i], "WINDOW_PAYLOAD", "unlimited");
    }
}

void plan_move(struct plan *p)
{
    struct profile m = {0};

    random_seed(&m.r, p->seed ^ UINT64_C(0x6e6574776f726b32));
    memset(p->params, 0, sizeof p->params);
    draw_network(p, &m);
    p->network.seed = random_next(&m.r);
    draw_settings(p, &m);
    draw_devices(p, &m);
    draw_copies(p, &m);
    draw_buffers(p, &m);
    draw_held(p, &m);
    draw_times(p, &m);
    if (p->is_buffered)
        give_space(p);
}

void plan_free(struct plan *p)
{
    free(p->ops);
    p->ops = NULL;
}

void plan_copy(struct plan *to, const struct plan *from)
{
    *to = *from;
    to->ops = checked(malloc((from->count + 1) * sizeof *to->ops));
    memcpy(to->ops, from->ops, from->count * sizeof *to->ops);
}

/* ---- printing ---- */

static void print_peer(const struct op *op)
{
    if (op->peer == PLAN_ANYBODY)
        printf(" any");
    else
        printf(" %" PRIu32, op->peer);
}

void op_print(const struct op *op)
{
    printf("  %4" PRIu32 " at %6" PRIu64 " us rank %" PRIu32 " %-7s", op->id,
           op->at_ns / CLOCK_US, op->rank, op_names[op->kind]);
    if (op->target != 0)
        printf(" of %" PRIu32, op->target);
    if (op_is_message(op) || op->kind == OP_ADD)
        printf(" to");
    else if (op->kind <= OP_MPROBE)
        printf(" from");
    if (op->kind <= OP_MPROBE || op->kind == OP_ADD)
        print_peer(op);
    if (op->kind <= OP_MPROBE)
        printf(" ctx %" PRIu32 " tag %" PRIu64, op->context_id, op->tag);
    if (op->kind >= OP_RECV && op->kind <= OP_MPROBE && op->ignore != 0)
        printf(" ignore %" PRIx64, op->ignore);
    if (op->kind <= OP_RECV || op->kind == OP_MRECV)
        printf(" size %" PRIu32, op->size);
    if (op->kind == OP_STALL)
        printf(" until %" PRIu64 " us", op->until_ns / CLOCK_US);
    printf("\n");
}

#define RANKS_PRINTED 8

/* Prints the ranks that have these settings. */
static void print_ranks(const struct plan *p, uint32_t variant)
{
    uint32_t printed = 0;

    for (uint32_t rank = variant; rank < p->ranks; rank += p->variants) {
        if (printed++ == RANKS_PRINTED) {
            printf(", ...");
            return;
        }
        printf("%s %" PRIu32, printed == 1 ? "  settings of rank" : ",", rank);
    }
}

void plan_print_network(const struct plan *p)
{
    const struct sim_config *w = &p->network;

    if (p->percent_memory != 0)
        printf("  memory fails in %" PRIu32 " %% of the rounds\n", p->percent_memory);
    if (p->percent_pieces != 0)
        printf("  the data of %" PRIu32 " %% of the messages is in pieces\n",
               p->percent_pieces);
    printf("  %" PRIu32 " ranks; a packet takes %" PRIu64 " to %" PRIu64
           " us, a pair holds %" PRIu32 "; %" PRIu32 " words%s%s; %" PRIu32
           " buffers; full %" PRIu32 " %%, late %" PRIu32 " %%, lost %" PRIu32 " %%\n",
           p->ranks, w->delay_min_ns / CLOCK_US, w->delay_max_ns / CLOCK_US, w->depth, w->words,
           w->has_table ? ", a table" : "", w->can_read ? ", reads" : "", w->buffers,
           w->percent_full, w->percent_late, w->percent_lost);
    for (uint32_t v = 0; v < p->variants; v++) {
        print_ranks(p, v);
        printf(":");
        for (int i = 0; i < PLAN_PARAMS; i++)
            if (p->params[v][i][0] != '\0')
                printf(" %s", p->params[v][i]);
        printf(" capacity %" PRIu32 "\n", p->capacity);
    }
}

void plan_print(const struct plan *p)
{
    plan_print_network(p);
    for (uint32_t i = 0; i < p->count; i++)
        op_print(&p->ops[i]);
}
