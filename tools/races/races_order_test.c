/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_order_test.c - alternatives against a search through all runs of small jobs.
 *
 * A random program of 2 to 4 ranks is run once, in a random order: that is the record.  The search then goes through all runs
 * that have the recorded matches alone, and collects each match that would leave them.  races_find() must find these, no more
 * and no fewer.  From the cut of each, another search must find a run to its end in which the receive takes the message.  A seed that fails is printed with the program that is left when all operations that are not needed are gone.
 *
 *   races_order_test [FIRST COUNT]    from this seed on, so many
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "base/unit.h"
#include "tools/races/races_order.h"

#define SEEDS    6000
#define RANKS    4
#define MESSAGES 8
#define OPS      16 /* of a rank */
#define RECEIVES (RANKS * OPS)
#define FOUND    256

/* ---- a program, and one run of it ---- */

struct program {
    uint64_t seed;
    uint32_t ranks;
    struct races_op ops[RANKS][OPS];
    uint32_t counts[RANKS];
    struct races_message messages[MESSAGES];
    struct races_receive receives[RECEIVES];
    uint32_t message_count, receive_count;
    bool has_master; /* most messages go to rank 0 */
};

/* Queues while it runs; what a search goes through. */
struct state {
    uint8_t done[RANKS];
    uint8_t arrived[RANKS][RANKS]; /* [from][to] */
    uint8_t queue[RANKS][MESSAGES], queued[RANKS];
    uint8_t is_over[RECEIVES]; /* matched, or cancelled */
    uint8_t is_matched[MESSAGES];
};

struct job {
    struct races_job job;
    struct races_rank ranks[RANKS];
    struct races_op ops[RANKS][OPS];
    struct races_message messages[MESSAGES];
    struct races_receive receives[RECEIVES];
};

static struct random draws;

static uint32_t below(uint32_t count)
{
    return (uint32_t)random_below(&draws, count);
}

static void add(struct program *p, uint32_t rank, enum races_op_kind kind, uint32_t what)
{
    if (p->counts[rank] < OPS)
        p->ops[rank][p->counts[rank]++] = (struct races_op){kind, what};
}

static bool has_space(const struct program *p, uint32_t rank)
{
    return p->counts[rank] + 2 < OPS;
}

static void draw_send(struct program *p, uint32_t rank)
{
    bool goes_to_first = p->has_master && below(3) != 0;
    uint32_t number = p->message_count, to = goes_to_first ? 0 : below(p->ranks);

    if (number == MESSAGES || to == rank)
        return;
    p->messages[p->message_count++] = (struct races_message){
        .from = rank, .to = to, .comm = below(8) == 0, .tag = below(2), .receive = RACES_NONE};
    add(p, rank, RACES_SEND, number);
    if (below(6) == 0)
        add(p, rank, RACES_SENT, number);
}

/* A receive, which may be reported later, or a probe. */
static void draw_receive(struct program *p, uint32_t rank, uint32_t *open, uint32_t *open_count)
{
    uint32_t number = p->receive_count, kind = below(8);
    struct races_receive *r = &p->receives[number];

    if (number == RECEIVES)
        return;
    *r = (struct races_receive){.rank = rank,
                                .comm = below(8) == 0,
                                .source = below(3) != 0 ? RACES_ANY : below(p->ranks),
                                .tag = below(2),
                                .message = RACES_NONE,
                                .is_any_tag = below(2) == 0,
                                .is_checked = true};
    p->receive_count++;
    if (kind < 2) {
        r->is_probe = kind == 0;
        add(p, rank, RACES_LOOK, number);
        return;
    }
    add(p, rank, RACES_POST, number);
    if (kind < 5)
        open[(*open_count)++] = number;
    else
        add(p, rank, RACES_REPORT, number);
}

static void draw_end(struct program *p, uint32_t rank, uint32_t *open, uint32_t *open_count)
{
    uint32_t i;

    if (*open_count == 0)
        return;
    i = below(*open_count);
    add(p, rank, below(3) == 0 ? RACES_CANCEL : RACES_REPORT, open[i]);
    open[i] = open[--*open_count];
}

static void draw(struct program *p, uint64_t seed)
{
    random_seed(&draws, seed);
    *p = (struct program){.seed = seed, .ranks = 2 + below(RANKS - 1)};
    p->has_master = below(2) == 0;
    for (uint32_t rank = 0; rank < p->ranks; rank++) {
        uint32_t open[OPS], open_count = 0, count = 1 + below(9);

        for (uint32_t i = 0; i < count && has_space(p, rank); i++) {
            uint32_t what = below(8);

            if (what < (!p->has_master ? 4u : rank == 0 ? 2u : 5u))
                draw_send(p, rank);
            else if (what < 7)
                draw_receive(p, rank, open, &open_count);
            else
                draw_end(p, rank, open, &open_count);
        }
    }
}

/* The receive that is posted, open, and accepts the message; or RACES_NONE. */
static uint32_t open_for(const struct job *j, const struct state *s, uint32_t message)
{
    const struct races_message *m = &j->messages[message];

    for (uint32_t i = 0; i < s->done[m->to]; i++) {
        const struct races_op *op = &j->ops[m->to][i];

        if (op->kind == RACES_POST && !s->is_over[op->what] &&
            races_accepts(&j->receives[op->what], m))
            return op->what;
    }
    return RACES_NONE;
}

/* The place in the queue of the first message that a receive accepts; or RACES_NONE. */
static uint32_t waits_for(const struct job *j, const struct state *s, uint32_t receive)
{
    const struct races_receive *r = &j->receives[receive];

    for (uint32_t i = 0; i < s->queued[r->rank]; i++)
        if (races_accepts(r, &j->messages[s->queue[r->rank][i]]))
            return i;
    return RACES_NONE;
}

static void queue_remove(struct state *s, uint32_t rank, uint32_t place)
{
    uint32_t left = --s->queued[rank];

    memmove(&s->queue[rank][place], &s->queue[rank][place + 1], left - place);
    s->queue[rank][left] = 0; /* equal states have equal bytes */
}

/* The next message that has not arrived from a rank at another one; or RACES_NONE. */
static uint32_t next_of(const struct job *j, const struct state *s, uint32_t from, uint32_t to)
{
    uint32_t index = 0;

    for (uint32_t i = 0; i < s->done[from]; i++) {
        const struct races_op *op = &j->ops[from][i];

        if (op->kind == RACES_SEND && j->messages[op->what].to == to &&
            index++ == s->arrived[from][to])
            return op->what;
    }
    return RACES_NONE;
}

/* A receive and the message that it would match in a step. */
struct match {
    uint32_t receive, message; /* or RACES_NONE */
};

/* The next operation of a rank.  False: it has to wait. */
static bool step_rank(const struct job *j, struct state *s, uint32_t rank, struct match *match)
{
    const struct races_op *op = &j->ops[rank][s->done[rank]];
    uint32_t place;

    *match = (struct match){RACES_NONE, RACES_NONE};
    if (op->kind == RACES_REPORT && !s->is_over[op->what])
        return false;
    if (op->kind == RACES_SENT && !s->is_matched[op->what])
        return false;
    if (op->kind == RACES_CANCEL) {
        if (s->is_over[op->what])
            return false;
        s->is_over[op->what] = 1;
    }
    if (op->kind == RACES_POST || op->kind == RACES_LOOK) {
        place = waits_for(j, s, op->what);
        if (place == RACES_NONE && op->kind == RACES_LOOK)
            return false;
        if (place != RACES_NONE) {
            *match = (struct match){op->what, s->queue[rank][place]};
            s->is_over[op->what] = 1;
            if (!j->receives[op->what].is_probe) {
                s->is_matched[match->message] = 1;
                queue_remove(s, rank, place);
            }
        }
    }
    s->done[rank]++;
    return true;
}

static bool step_arrival(const struct job *j, struct state *s, uint32_t from, uint32_t to,
                         struct match *match)
{
    uint32_t message = next_of(j, s, from, to), receive;

    *match = (struct match){RACES_NONE, RACES_NONE};
    if (message == RACES_NONE)
        return false;
    s->arrived[from][to]++;
    receive = open_for(j, s, message);
    if (receive == RACES_NONE) {
        s->queue[to][s->queued[to]++] = (uint8_t)message;
        return true;
    }
    *match = (struct match){receive, message};
    s->is_over[receive] = 1;
    s->is_matched[message] = 1;
    return true;
}

/* Runs the program in a random order, until nothing goes on: what a rank has not done then is not in the job. */
static void run(const struct program *p, struct job *j)
{
    struct state state = {0}, before;
    uint32_t failed = 0;

    *j = (struct job){.job = {.ranks = j->ranks,
                              .messages = j->messages,
                              .receives = j->receives,
                              .rank_count = p->ranks,
                              .message_count = p->message_count,
                              .receive_count = p->receive_count}};
    memcpy(j->ops, p->ops, sizeof j->ops);
    memcpy(j->messages, p->messages, sizeof j->messages);
    memcpy(j->receives, p->receives, sizeof j->receives);
    for (uint32_t r = 0; r < p->ranks; r++)
        j->ranks[r] = (struct races_rank){j->ops[r], p->counts[r]};
    random_seed(&draws, p->seed ^ UINT64_C(0x5eed));
    while (failed < 200) {
        uint32_t from = below(p->ranks), to = below(p->ranks), done = state.done[from];
        struct races_op op = {RACES_SEND, 0};
        struct match match;
        bool went;

        before = state;
        if (below(2) == 0) {
            if (done == j->ranks[from].count) {
                failed++;
                continue;
            }
            op = j->ops[from][done];
            if (op.kind == RACES_CANCEL &&
                state.is_over[op.what]) { /* too late: no operation */
                memmove(&j->ops[from][done], &j->ops[from][done + 1],
                        (j->ranks[from].count - done - 1) * sizeof op);
                j->ranks[from].count--;
                continue;
            }
            went = step_rank(j, &state, from, &match);
        } else {
            went = step_arrival(j, &state, from, to, &match);
        }
        failed = went ? 0 : failed + 1;
        if (!went)
            state = before;
        if (!went || match.receive == RACES_NONE)
            continue;
        j->receives[match.receive].message = match.message;
        if (!j->receives[match.receive].is_probe)
            j->messages[match.message].receive = match.receive;
    }
    for (uint32_t r = 0; r < p->ranks; r++)
        j->ranks[r].count = state.done[r];
}

/* Messages and receives of operations that were not done are left out. */
static void compact(struct job *j)
{
    uint32_t new_message[MESSAGES], new_receive[RECEIVES], messages = 0, receives = 0;
    struct races_message *m = j->messages;
    struct races_receive *r = j->receives;

    memset(new_message, 0xff, sizeof new_message);
    memset(new_receive, 0xff, sizeof new_receive);
    for (uint32_t rank = 0; rank < j->job.rank_count; rank++)
        for (uint32_t i = 0; i < j->ranks[rank].count; i++) {
            const struct races_op *op = &j->ops[rank][i];

            if (op->kind == RACES_SEND)
                new_message[op->what] = 0;
            if (op->kind == RACES_POST || op->kind == RACES_LOOK)
                new_receive[op->what] = 0;
        }
    for (uint32_t i = 0; i < j->job.message_count; i++)
        if (new_message[i] == 0) {
            m[messages] = m[i];
            new_message[i] = messages++;
        }
    for (uint32_t i = 0; i < j->job.receive_count; i++)
        if (new_receive[i] == 0) {
            r[receives] = r[i];
            new_receive[i] = receives++;
        }
    for (uint32_t i = 0; i < messages; i++)
        if (m[i].receive != RACES_NONE)
            m[i].receive = new_receive[m[i].receive];
    for (uint32_t i = 0; i < receives; i++)
        if (r[i].message != RACES_NONE)
            r[i].message = new_message[r[i].message];
    for (uint32_t rank = 0; rank < j->job.rank_count; rank++)
        for (uint32_t i = 0; i < j->ranks[rank].count; i++) {
            struct races_op *op = &j->ops[rank][i];
            bool is_message = op->kind == RACES_SEND || op->kind == RACES_SENT;

            op->what = is_message ? new_message[op->what] : new_receive[op->what];
        }
    j->job.message_count = messages;
    j->job.receive_count = receives;
}

/* ---- the search ---- */

struct found {
    bool is_there[RECEIVES][MESSAGES];
    uint32_t count;
};

#define STATES (1u << 16)

static struct state states[STATES];
static bool is_used[STATES];
static uint32_t used[STATES], used_count;

static uint64_t hash_of(const struct state *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint64_t hash = 1;

    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

/* False: it was here before. */
static bool is_new(const struct state *s)
{
    uint32_t at = (uint32_t)(hash_of(s) % STATES);

    for (; is_used[at]; at = (at + 1) % STATES)
        if (memcmp(&states[at], s, sizeof *s) == 0)
            return false;
    states[at] = *s;
    is_used[at] = true;
    used[used_count++] = at;
    return true;
}

/* False: there are too many runs. */
static bool search(const struct job *j, const struct state *s, struct found *found);

/* Receives without a recorded message may take any. */
static bool is_open_free;

static bool search_step(const struct job *j, const struct state *next,
                        const struct match *match, struct found *found)
{
    const struct races_receive *r;

    if (match->receive == RACES_NONE)
        return search(j, next, found);
    r = &j->receives[match->receive];
    if (r->message == match->message || (is_open_free && r->message == RACES_NONE))
        return search(j, next, found);
    if (r->message != RACES_NONE && r->source == RACES_ANY &&
        j->messages[match->message].from != j->messages[r->message].from)
        found->is_there[match->receive][match->message] = true;
    return true;
}

/* All operations of a job are done, and all receives that have a recorded message have got it, in a state that the search has
 * seen. */
static bool has_ended;

static void note_end(const struct job *j, const struct state *s)
{
    for (uint32_t rank = 0; rank < j->job.rank_count; rank++) {
        if (s->done[rank] < j->ranks[rank].count)
            return;
        for (uint32_t i = 0; i < j->ranks[rank].count; i++) {
            const struct races_op *op = &j->ops[rank][i];

            if (op->kind == RACES_POST && j->receives[op->what].message != RACES_NONE &&
                !s->is_over[op->what])
                return;
        }
    }
    has_ended = true;
}

static bool search(const struct job *j, const struct state *s, struct found *found)
{
    if (!is_new(s))
        return true;
    note_end(j, s);
    if (used_count > STATES / 4)
        return false;
    for (uint32_t from = 0; from < j->job.rank_count; from++) {
        struct match match;
        struct state next = *s;

        if (s->done[from] < j->ranks[from].count && step_rank(j, &next, from, &match) &&
            !search_step(j, &next, &match, found))
            return false;
        for (uint32_t to = 0; to < j->job.rank_count; to++) {
            next = *s;
            if (step_arrival(j, &next, from, to, &match) &&
                !search_step(j, &next, &match, found))
                return false;
        }
    }
    return true;
}

static bool search_all(const struct job *j, struct found *found)
{
    struct state begin;
    bool is_whole;

    memset(&begin, 0, sizeof begin);
    memset(found, 0, sizeof *found);
    is_whole = search(j, &begin, found);
    while (used_count > 0)
        is_used[used[--used_count]] = false;
    return is_whole;
}

/* ---- the comparison ---- */

static void collect(void *arg, uint32_t receive, uint32_t message)
{
    struct found *found = arg;

    assert_true(receive < RECEIVES && message < MESSAGES);
    assert_false(found->is_there[receive][message]);
    found->is_there[receive][message] = true;
    found->count++;
}

/* ---- cuts ---- */

struct cutting {
    const struct job *whole;
    struct job cut;
    uint32_t receive, message;
};

/* Leaves what is in the cut, and lets the receive take the message. */
static void take_cut(void *arg, const struct races_cut *cut)
{
    struct cutting *c = arg;
    struct job *j = &c->cut;
    const struct races_receive *forced = &c->whole->receives[c->receive];

    *j = *c->whole;
    j->job.ranks = j->ranks;
    j->job.messages = j->messages;
    j->job.receives = j->receives;
    for (uint32_t rank = 0; rank < j->job.rank_count; rank++)
        j->ranks[rank] = (struct races_rank){j->ops[rank], cut->done[rank]};
    if (j->ranks[forced->rank].count < forced->post) /* a probe is not in it */
        j->ranks[forced->rank].count = forced->post;
    for (uint32_t i = 0; i < j->job.receive_count; i++)
        if (i != c->receive && !races_cut_has(cut, i))
            j->receives[i].message = RACES_NONE;
    j->receives[c->receive].message = c->message;
}

/* After the cut of this alternative, is there a run in which the receive takes the message? */
static bool is_cut_right(struct job *whole, uint32_t receive, uint32_t message)
{
    static struct cutting c;
    static struct found unused;
    bool is_whole;

    c = (struct cutting){.whole = whole, .receive = receive, .message = message};
    if (races_find_cut(&whole->job, receive, message, take_cut, &c) != 0)
        return false;
    has_ended = false;
    is_open_free = true;
    is_whole = search_all(&c.cut, &unused);
    is_open_free = false;
    return !is_whole || has_ended;
}

static bool are_cuts_right(struct job *j, const struct found *all)
{
    for (uint32_t r = 0; r < j->job.receive_count; r++)
        for (uint32_t m = 0; m < j->job.message_count; m++)
            if (all->is_there[r][m] && !is_cut_right(j, r, m))
                return false;
    return true;
}

enum result { EQUAL, DIFFERENT, TOO_LARGE };

static uint64_t alternatives;

static enum result compare(const struct program *p)
{
    static struct found wanted, got;
    static struct job j;
    uint64_t undecided;

    run(p, &j);
    compact(&j);
    if (!search_all(&j, &wanted))
        return TOO_LARGE;
    memset(&got, 0, sizeof got);
    if (races_find(&j.job, collect, &got, &undecided) != 0)
        return DIFFERENT;
    alternatives += got.count;
    return memcmp(wanted.is_there, got.is_there, sizeof got.is_there) == 0 &&
                   are_cuts_right(&j, &got)
               ? EQUAL
               : DIFFERENT;
}

/* Without one operation of a rank, and what needs it. */
static void drop(struct program *p, uint32_t rank, uint32_t number)
{
    const struct races_op dropped = p->ops[rank][number];
    bool is_message = dropped.kind == RACES_SEND || dropped.kind == RACES_SENT;
    bool is_begin = dropped.kind == RACES_SEND || dropped.kind == RACES_POST;
    uint32_t left = 0;

    for (uint32_t i = 0; i < p->counts[rank]; i++) {
        const struct races_op op = p->ops[rank][i];
        bool is_same = (op.kind == RACES_SEND || op.kind == RACES_SENT) == is_message &&
                       op.what == dropped.what;

        if (i != number && !(is_begin && is_same))
            p->ops[rank][left++] = op;
    }
    p->counts[rank] = left;
}

static void print_receive(const struct races_receive *r)
{
    printf(" from %d tag %d comm %u", r->source == RACES_ANY ? -1 : (int)r->source,
           r->is_any_tag ? -1 : (int)r->tag, r->comm);
}

static void print(const struct program *p)
{
    static const char *const names[] = {"send", "post", "report", "look", "cancel", "sent"};
    static struct found wanted, got;
    static struct job j;
    uint64_t undecided;

    run(p, &j);
    compact(&j);
    for (uint32_t rank = 0; rank < p->ranks; rank++)
        for (uint32_t i = 0; i < j.ranks[rank].count; i++) {
            const struct races_op *op = &j.ops[rank][i];

            printf("  rank %u: %s %u", rank, names[op->kind], op->what);
            if (op->kind == RACES_SEND)
                printf(" to %u tag %u comm %u", j.messages[op->what].to,
                       j.messages[op->what].tag, j.messages[op->what].comm);
            if (op->kind == RACES_POST || op->kind == RACES_LOOK) {
                print_receive(&j.receives[op->what]);
                printf("%s: gets %d", j.receives[op->what].is_probe ? ", a probe" : "",
                       (int)j.receives[op->what].message);
            }
            putchar('\n');
        }
    memset(&got, 0, sizeof got);
    if (!search_all(&j, &wanted) || races_find(&j.job, collect, &got, &undecided) != 0)
        printf("  races_find() refuses it\n");
    for (uint32_t r = 0; r < RECEIVES; r++)
        for (uint32_t m = 0; m < MESSAGES; m++)
            if (wanted.is_there[r][m] != got.is_there[r][m])
                printf("  receive %u, message %u: %s\n", r, m,
                       got.is_there[r][m] ? "too much" : "missed");
            else if (got.is_there[r][m] && !is_cut_right(&j, r, m))
                printf("  receive %u, message %u: no run follows from its cut\n", r, m);
}

static void shrink(struct program *p)
{
    bool is_smaller = true;

    while (is_smaller) {
        is_smaller = false;
        for (uint32_t rank = 0; rank < p->ranks; rank++)
            for (uint32_t i = p->counts[rank]; i-- > 0;) {
                struct program less = *p;

                if (i >= p->counts[rank])
                    continue;
                drop(&less, rank, i);
                if (compare(&less) == DIFFERENT) {
                    *p = less;
                    is_smaller = true;
                }
            }
    }
}

static uint64_t first_seed = 1, seeds = SEEDS;

static void test_random(UNUSED void **state)
{
    uint64_t large = 0, with_some = 0;

    alternatives = 0;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        static struct program program;
        uint64_t before = alternatives;
        enum result result;

        draw(&program, seed);
        result = compare(&program);
        with_some += alternatives > before;
        large += result == TOO_LARGE;
        if (result != DIFFERENT)
            continue;
        shrink(&program);
        printf("FAIL seed %" PRIu64 ", smallest program:\n", seed);
        print(&program);
        fail();
    }
    printf("%" PRIu64 " jobs: %" PRIu64 " alternatives in %" PRIu64 "; %" PRIu64 " too large\n",
           seeds, alternatives, with_some, large);
    /* the jobs must be large enough to test something */
    assert_true(seeds < SEEDS || (with_some > seeds / 20 && large < seeds / 20));
}

/* ---- jobs that are rare among the random ones ---- */

#define ANY RACES_ANY
#define NO  RACES_NONE

/* Appends an alternative that was found: "receive-message ". */
static void found_as_text(void *arg, uint32_t receive, uint32_t message)
{
    char *text = arg;

    snprintf(text + strlen(text), 64 - strlen(text), "%u-%u ", receive, message);
}

static void assert_found(struct races_job *job, const char *wanted)
{
    char text[64] = "";
    uint64_t undecided;

    assert_int_equal(races_find(job, found_as_text, text, &undecided), 0);
    assert_string_equal(text, wanted);
    assert_int_equal(undecided, 0);
}

#define JOB(ranks, messages, receives)                                                         \
    {                                                                                          \
        ranks, messages, receives, ARRAY_COUNT(ranks), ARRAY_COUNT(messages),                  \
            ARRAY_COUNT(receives)                                                              \
    }
#define RANK(ops)                                                                              \
    {                                                                                          \
        ops, ARRAY_COUNT(ops)                                                                  \
    }

/* A receive is open although a later one has ended: message 4 goes to it, and not to receive 2. */
static void test_open_behind_ended(UNUSED void **state)
{
    struct races_op first[] = {{RACES_POST, 0},   {RACES_POST, 1},   {RACES_REPORT, 1},
                               {RACES_POST, 2},   {RACES_REPORT, 2}, {RACES_SEND, 2},
                               {RACES_REPORT, 0}, {RACES_POST, 3},   {RACES_REPORT, 3}};
    struct races_op second[] = {{RACES_SEND, 0}, {RACES_SEND, 1}}, third[] = {{RACES_SEND, 4}};
    struct races_op fourth[] = {{RACES_POST, 4}, {RACES_REPORT, 4}, {RACES_SEND, 3}};
    struct races_rank ranks[] = {RANK(first), RANK(second), RANK(third), RANK(fourth)};
    struct races_message messages[] = {{.from = 1, .to = 0, .tag = 0, .receive = 1},
                                       {.from = 1, .to = 0, .tag = 0, .receive = 2},
                                       {.from = 0, .to = 3, .tag = 0, .receive = 4},
                                       {.from = 3, .to = 0, .tag = 1, .receive = 0},
                                       {.from = 2, .to = 0, .tag = 1, .receive = 3}};
    struct races_receive receives[] = {
        {.source = ANY, .tag = 1, .message = 3, .is_checked = true},
        {.source = ANY, .tag = 0, .message = 0, .is_checked = true},
        {.source = ANY, .is_any_tag = true, .message = 1, .is_checked = true},
        {.source = ANY, .tag = 1, .message = 4, .is_checked = true},
        {.rank = 3, .source = 0, .message = 2}};
    struct races_job job = JOB(ranks, messages, receives);

    assert_found(&job, "0-4 ");
}

/* Message 1 has not arrived when the job ends; it would go to receive 0. */
static void test_loose(UNUSED void **state)
{
    struct races_op first[] = {{RACES_POST, 0}, {RACES_POST, 1}, {RACES_REPORT, 1}};
    struct races_op second[] = {{RACES_SEND, 0}}, third[] = {{RACES_SEND, 1}};
    struct races_rank ranks[] = {RANK(first), RANK(second), RANK(third)};
    struct races_message messages[] = {{.from = 1, .to = 0, .receive = 1},
                                       {.from = 2, .to = 0, .receive = NO}};
    struct races_receive receives[] = {
        {.source = 2, .message = NO},
        {.source = ANY, .is_any_tag = true, .message = 0, .is_checked = true}};
    struct races_job job = JOB(ranks, messages, receives);

    assert_found(&job, "");
    receives[0].tag = 1; /* and now it would not */
    assert_found(&job, "1-1 ");
}

/* Rank 2 knows of receive 0 when it sends message 3, although it has learnt of rank 3 since. */
static void test_knows_of_two(UNUSED void **state)
{
    struct races_op second[] = {{RACES_POST, 0},
                                {RACES_REPORT, 0},
                                {RACES_SEND, 1},
                                {RACES_POST, 1},
                                {RACES_REPORT, 1}};
    struct races_op third[] = {{RACES_POST, 2},
                               {RACES_REPORT, 2},
                               {RACES_POST, 3},
                               {RACES_REPORT, 3},
                               {RACES_SEND, 3}};
    struct races_op fourth[] = {{RACES_SEND, 0}, {RACES_SEND, 2}};
    struct races_rank ranks[] = {{NULL, 0}, RANK(second), RANK(third), RANK(fourth)};
    struct races_message messages[] = {{.from = 3, .to = 1, .receive = 0},
                                       {.from = 1, .to = 2, .receive = 2},
                                       {.from = 3, .to = 2, .receive = 3},
                                       {.from = 2, .to = 1, .receive = 1}};
    struct races_receive receives[] = {
        {.rank = 1, .source = ANY, .message = 0, .is_checked = true},
        {.rank = 1, .source = ANY, .message = 3, .is_checked = true},
        {.rank = 2, .source = 1, .message = 1},
        {.rank = 2, .source = 3, .message = 2}};
    struct races_job job = JOB(ranks, messages, receives);

    assert_found(&job, "");
}

static void keep_done(void *arg, const struct races_cut *cut)
{
    uint32_t *done = arg;

    memcpy(done, cut->done, RANKS * sizeof *done);
    done[RANKS] = races_cut_has(cut, 2) && races_cut_has(cut, 3) && !races_cut_has(cut, 0);
}

/* Rank 0 could take the other message first.  The receives of rank 1 do not depend on that, and stay. */
static void test_cut_keeps_others(UNUSED void **state)
{
    struct races_op first[] = {
        {RACES_POST, 0}, {RACES_REPORT, 0}, {RACES_POST, 1}, {RACES_REPORT, 1}};
    struct races_op second[] = {
        {RACES_POST, 2}, {RACES_REPORT, 2}, {RACES_POST, 3}, {RACES_REPORT, 3}};
    struct races_op third[] = {{RACES_SEND, 0}, {RACES_SEND, 2}};
    struct races_op fourth[] = {{RACES_SEND, 1}, {RACES_SEND, 3}};
    struct races_rank ranks[] = {RANK(first), RANK(second), RANK(third), RANK(fourth)};
    struct races_message messages[] = {{.from = 2, .to = 0, .receive = 0},
                                       {.from = 3, .to = 0, .receive = 1},
                                       {.from = 2, .to = 1, .receive = 2},
                                       {.from = 3, .to = 1, .receive = 3}};
    struct races_receive receives[] = {{.source = ANY, .message = 0, .is_checked = true},
                                       {.source = ANY, .message = 1, .is_checked = true},
                                       {.rank = 1, .source = ANY, .message = 2},
                                       {.rank = 1, .source = ANY, .message = 3}};
    struct races_job job = JOB(ranks, messages, receives);
    uint32_t done[RANKS + 1];

    assert_found(&job, "0-1 ");
    assert_int_equal(races_find_cut(&job, 0, 1, keep_done, done), 0);
    assert_int_equal(done[0], 1);
    assert_int_equal(done[1], 4);
    assert_int_equal(done[2], 2);
    assert_int_equal(done[3], 2);
    assert_int_equal(done[RANKS], 1);
    assert_int_equal(races_find_cut(&job, 1, 0, keep_done, done), -ENOENT);
}

/* A job whose parts contradict each other is refused. */
static void test_contradictions(UNUSED void **state)
{
    struct races_op first[] = {{RACES_POST, 0}, {RACES_REPORT, 0}, {RACES_SEND, 1}};
    struct races_op second[] = {{RACES_POST, 1}, {RACES_REPORT, 1}, {RACES_SEND, 0}};
    struct races_rank ranks[] = {RANK(first), RANK(second)};
    struct races_message messages[] = {{.from = 1, .to = 0, .receive = 0},
                                       {.from = 0, .to = 1, .receive = 1}};
    struct races_receive receives[] = {{.source = ANY, .message = 0, .is_checked = true},
                                       {.rank = 1, .source = 0, .message = 1}};
    struct races_job job = JOB(ranks, messages, receives);
    uint64_t undecided;
    char text[64];

    /* each waits for the other one's message */
    assert_int_equal(races_find(&job, found_as_text, text, &undecided), -EBADMSG);
    ranks[1].ops = second + 2;
    ranks[1].count = 1;
    receives[1].message = messages[1].receive = NO;
    job.receive_count = 1;
    assert_found(&job, "");
    for (int wrong = 0; wrong < 6; wrong++) {
        const struct races_message message = messages[0];
        const struct races_receive receive = receives[0];
        const struct races_op op = first[0];

        if (wrong == 0)
            messages[0].receive = 7;
        if (wrong == 1)
            messages[0].to = 7;
        if (wrong == 2)
            receives[0].message = 7;
        if (wrong == 3)
            first[0].what = 7;
        if (wrong == 4)
            receives[0].comm = 7;
        if (wrong == 5)
            first[0].kind = RACES_CANCEL;
        assert_int_equal(races_find(&job, found_as_text, text, &undecided), -EBADMSG);
        messages[0] = message;
        receives[0] = receive;
        first[0] = op;
    }
    assert_found(&job, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_behind_ended), cmocka_unit_test(test_loose),
        cmocka_unit_test(test_knows_of_two),      cmocka_unit_test(test_cut_keeps_others),
        cmocka_unit_test(test_contradictions),    cmocka_unit_test(test_random),
    };

    if (argc == 3) {
        first_seed = strtoull(argv[1], NULL, 10);
        seeds = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
