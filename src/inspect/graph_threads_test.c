/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph_threads_test.c - ranks with several threads, against a search of all schedules.
 *
 * Random programs of up to three threads for each rank send, receive, compute, wait for a flag of their
 * process, and set one.  A model runs a random part of such a job.  Then a look is taken, as an
 * observer would see it, and the graph judges it.  From the same state every schedule is tried:
 *
 *   a thread that waits in a rank that is called deadlocked goes on in no schedule; for
 *   INSPECT_UNLESS, in none in which threads that have never communicated do not begin to
 *
 *   if each rank has a thread in MPI, and no thread computes, all ranks are called deadlocked
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/unit.h"
#include "inspect/graph.h"

#define RANKS   3
#define THREADS 3 /* of a rank */
#define ALL     6 /* threads of a job */
#define STEPS   3
#define FLAGS   2
#define KNOWN   (1u << 14) /* states that a search has seen */

enum step_kind { SEND, RECV, COMPUTE, SLEEP, WAKE, STEP_KINDS };

struct step {
    enum step_kind kind;
    uint32_t what; /* SEND, RECV: the other rank, INSPECT_NOBODY: any; SLEEP, WAKE: the flag */
};

struct thread {
    uint32_t rank, count;
    struct step steps[STEPS];
};

/* The part that changes. */
struct state {
    uint8_t at[ALL];
    uint8_t arrived[RANKS][RANKS]; /* messages to a rank, from a rank */
    uint8_t flags[RANKS];
    uint8_t has_called; /* a bit for each thread */
};

struct model {
    struct random random;
    uint32_t ranks, count;
    struct thread threads[ALL];
    struct state state;
};

/* ---- programs ---- */

static uint32_t draw(struct model *m, uint32_t bound)
{
    return (uint32_t)random_below(&m->random, bound);
}

static struct step make_step(struct model *m, uint32_t rank)
{
    static const uint8_t kinds[] = {SEND, SEND, RECV, RECV, RECV, COMPUTE, SLEEP, SLEEP, WAKE};
    struct step step = {.kind = (enum step_kind)kinds[draw(m, sizeof kinds)]};

    if (step.kind == SEND || step.kind == RECV)
        step.what = (rank + 1 + draw(m, m->ranks - 1)) % m->ranks;
    if (step.kind == RECV && draw(m, 4) == 0)
        step.what = INSPECT_NOBODY;
    if (step.kind == SLEEP || step.kind == WAKE)
        step.what = draw(m, FLAGS);
    return step;
}

static void make(struct model *m, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    random_seed(&m->random, seed);
    m->ranks = 2 + draw(m, RANKS - 1);
    for (uint32_t r = 0; r < m->ranks; r++) {
        uint32_t threads = 1 + draw(m, THREADS);

        for (uint32_t t = 0; t < threads && m->count < ALL - (m->ranks - 1 - r); t++) {
            struct thread *thread = &m->threads[m->count++];

            *thread = (struct thread){.rank = r, .count = draw(m, STEPS + 1)};
            for (uint32_t i = 0; i < thread->count; i++)
                thread->steps[i] = make_step(m, r);
        }
    }
}

/* ---- what can happen ---- */

static const struct step *step_of(const struct model *m, const struct state *s, uint32_t t)
{
    return s->at[t] < m->threads[t].count ? &m->threads[t].steps[s->at[t]] : NULL;
}

static bool may_go(const struct model *m, const struct state *s, uint32_t t)
{
    const struct step *step = step_of(m, s, t);
    uint32_t rank = m->threads[t].rank;

    if (step == NULL)
        return false;
    if (step->kind == SLEEP)
        return s->flags[rank] >> step->what & 1;
    if (step->kind != RECV)
        return true;
    for (uint32_t from = 0; from < m->ranks; from++)
        if (s->arrived[rank][from] != 0 && (step->what == from || step->what == INSPECT_NOBODY))
            return true;
    return false;
}

/* Lets a thread that may go on do so; a receive from any source takes the message of rank `from`. */
static void go(const struct model *m, struct state *s, uint32_t t, uint32_t from)
{
    const struct step *step = step_of(m, s, t);
    uint32_t rank = m->threads[t].rank;

    if (step->kind == SEND)
        s->arrived[step->what][rank]++;
    if (step->kind == RECV)
        s->arrived[rank][step->what == INSPECT_NOBODY ? from : step->what]--;
    if (step->kind == WAKE)
        s->flags[rank] |= (uint8_t)(1u << step->what);
    if (step->kind == SEND || step->kind == RECV)
        s->has_called |= (uint8_t)(1u << t);
    s->at[t]++;
}

/* The sources among which a thread that may go on can choose; others have one. */
static bool is_source(const struct model *m, const struct state *s, uint32_t t, uint32_t from)
{
    const struct step *step = step_of(m, s, t);

    return step->kind == RECV && step->what == INSPECT_NOBODY
               ? s->arrived[m->threads[t].rank][from] != 0
               : from == 0;
}

/* Receives whose message has arrived end: no look sees them.  A thread in MPI has communicated. */
static void settle(struct model *m)
{
    bool is_changed = true;

    while (is_changed) {
        is_changed = false;
        for (uint32_t t = 0; t < m->count; t++) {
            const struct step *step = step_of(m, &m->state, t);
            uint32_t from = 0;

            if (step == NULL || step->kind != RECV)
                continue;
            m->state.has_called |= (uint8_t)(1u << t);
            if (!may_go(m, &m->state, t))
                continue;
            while (!is_source(m, &m->state, t, from))
                from++;
            go(m, &m->state, t, from);
            is_changed = true;
        }
    }
}

static void run(struct model *m, uint32_t events)
{
    for (; events > 0; events--) {
        uint32_t t = draw(m, m->count), from = 0;

        if (!may_go(m, &m->state, t))
            continue;
        while (!is_source(m, &m->state, t, from))
            from++;
        go(m, &m->state, t, from);
    }
    settle(m);
}

/* ---- all schedules ---- */

struct search {
    const struct model *model;
    bool none_begins; /* threads that have not communicated at the look do not begin to */
    uint32_t moved;   /* a bit for each thread that goes on in a schedule */
    struct state known[KNOWN];
    uint32_t count, table[2 * KNOWN]; /* index + 1, by hash */
};

/* Adds a state, unless it was seen before. */
static void search_add(struct search *search, const struct state *s)
{
    uint64_t hash = 0;
    uint32_t at;

    for (size_t i = 0; i < sizeof *s; i++)
        hash = hash_mix(hash ^ ((const uint8_t *)s)[i]) + i;
    at = (uint32_t)(hash % (2 * KNOWN));
    while (search->table[at] != 0) {
        if (memcmp(&search->known[search->table[at] - 1], s, sizeof *s) == 0)
            return;
        at = (at + 1) % (2 * KNOWN);
    }
    assert_true(search->count < KNOWN);
    search->known[search->count] = *s;
    search->table[at] = ++search->count;
}

static bool is_allowed(const struct search *search, uint32_t t, const struct step *step)
{
    return !search->none_begins || (step->kind != SEND && step->kind != RECV) ||
           (search->model->state.has_called >> t & 1);
}

/* The states themselves are the queue. */
static void search_all(struct search *search, const struct model *m, bool none_begins)
{
    search->model = m;
    search->none_begins = none_begins;
    search->moved = search->count = 0;
    memset(search->table, 0, sizeof search->table);
    search_add(search, &m->state);
    for (uint32_t i = 0; i < search->count; i++)
        for (uint32_t t = 0; t < m->count; t++) {
            const struct state *s = &search->known[i];

            if (!may_go(m, s, t) || !is_allowed(search, t, step_of(m, s, t)))
                continue;
            search->moved |= 1u << t;
            for (uint32_t from = 0; from < m->ranks; from++) {
                struct state next = search->known[i];

                if (!is_source(m, &next, t, from))
                    continue;
                go(m, &next, t, from);
                search_add(search, &next);
            }
        }
}

/* ---- a look ---- */

struct look {
    struct inspect_job job;
    struct inspect_rank ranks[RANKS];
    struct inspect_entry entries[RANKS][THREADS];
    struct inspect_task tasks[RANKS][THREADS + 1];
    uint32_t in_mpi[RANKS];  /* threads */
    bool is_unmarked[RANKS]; /* for what another one waits is not known */
    bool somebody_computes;
};

static void look_at_thread(const struct model *m, struct look *look, uint32_t t)
{
    const struct step *step = step_of(m, &m->state, t);
    struct inspect_rank *rank = &look->ranks[m->threads[t].rank];
    struct inspect_task *task = &rank->tasks[rank->task_count];

    if (m->state.has_called >> t & 1)
        rank->state.caller_ids[rank->state.callers++] = t + 1;
    if (step == NULL) /* it has ended */
        return;
    *task = (struct inspect_task){.id = t + 1};
    rank->task_count++;
    if (step->kind == SLEEP && !may_go(m, &m->state, t)) {
        task->kind = INSPECT_TASK_SLEEPS;
        task->word = step->what;
    } else if (step->kind != RECV) {
        look->somebody_computes = true;
    }
    if (step->kind != RECV)
        return;
    task->kind = INSPECT_TASK_IN_MPI;
    rank->entries[rank->count++] =
        (struct inspect_entry){.kind = INSPECT_POSTED,
                               .needs = (uint16_t)(INSPECT_NEEDS_MOST + rank->state.callers),
                               .peer = step->what,
                               .whom = step->what != INSPECT_NOBODY ? step->what + 1 : 0};
    rank->state.counts[INSPECT_POSTED]++;
    look->in_mpi[m->threads[t].rank]++;
    rank->state.answerer = t + 1;
}

/* If several threads are in MPI, the last one answers. */
static void look_at(struct model *m, struct look *look)
{
    memset(look, 0, sizeof *look);
    look->job = (struct inspect_job){.ranks = look->ranks, .count = m->ranks, .size = m->ranks};
    for (uint32_t r = 0; r < m->ranks; r++) {
        struct inspect_rank *rank = &look->ranks[r];
        uint32_t threads = 0, ended = 0;

        *rank =
            (struct inspect_rank){.head = {.pid = r + 1, .ep = 1, .rank = r, .address = r + 1},
                                  .entries = look->entries[r],
                                  .tasks = look->tasks[r]};
        rank->state.flags = INSPECT_STATE_THREADS;
        for (uint32_t t = 0; t < m->count; t++)
            if (m->threads[t].rank == r) {
                threads++;
                ended += step_of(m, &m->state, t) == NULL;
                look_at_thread(m, look, t);
            }
        rank->how = look->in_mpi[r] != 0 || ended == threads ? INSPECT_ASKED : INSPECT_READ;
        snprintf(rank->state.call, sizeof rank->state.call, "%s",
                 look->in_mpi[r] != 0 ? "MPI_Recv" : "");
        if (ended == threads) { /* the first one waits for the others, and ends the rank */
            rank->state.answerer = rank->tasks[0].id = RANKS * THREADS + 1;
            rank->state.caller_ids[rank->state.callers++] = rank->state.answerer;
            rank->task_count = 1;
            snprintf(rank->state.call, sizeof rank->state.call, "MPI_Finalize");
        }
        if (draw(m, 2) == 0)
            rank->tasks[rank->task_count++] =
                (struct inspect_task){.id = 99, .kind = INSPECT_TASK_OF_LIBRARY};
        if (rank->count != 0) /* the last one is the answerer's */
            rank->entries[rank->count - 1].needs = 1;
        look->is_unmarked[r] = rank->count > 1 && draw(m, 4) == 0;
        if (look->is_unmarked[r])
            rank->entries[0].needs = 0;
    }
}

/* ---- one job ---- */

struct tally {
    uint64_t certain, unless, left_out, ended;
};

static struct search search;

static void check_verdict(const struct model *m, const enum inspect_node *nodes, uint64_t seed,
                          const char *verdict)
{
    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t t = 0; t < m->count; t++) {
            const struct step *step = step_of(m, &m->state, t);

            if (nodes[r] == INSPECT_DEADLOCKED && m->threads[t].rank == r && step != NULL &&
                step->kind == RECV && search.moved >> t & 1)
                fail_msg("seed %" PRIu64 ": rank %" PRIu32
                         " is called deadlocked (%s), and its "
                         "thread %" PRIu32 " goes on in a schedule",
                         seed, r, verdict, t);
        }
}

/* If each rank has a thread in MPI, and no thread computes, nothing is left out. */
static void check_all_found(const struct model *m, const struct look *look,
                            const enum inspect_node *nodes, uint64_t seed)
{
    bool is_simple = !look->somebody_computes;

    for (uint32_t r = 0; r < m->ranks; r++)
        is_simple &=
            (look->in_mpi[r] != 0 && !look->is_unmarked[r]) || nodes[r] == INSPECT_OVER;
    for (uint32_t r = 0; r < m->ranks && is_simple; r++)
        if (nodes[r] == INSPECT_ALIVE)
            fail_msg("seed %" PRIu64 ": rank %" PRIu32 " is not called deadlocked", seed, r);
}

static void run_job(uint64_t seed, struct tally *tally)
{
    static struct look look;
    static struct model m;
    enum inspect_node certain[RANKS], unless[RANKS];
    uint32_t dead = 0, more = 0;

    make(&m, seed);
    run(&m, draw(&m, 40));
    look_at(&m, &look);
    inspect_judge(&look.job, &look.job, INSPECT_CERTAIN, certain);
    inspect_judge(&look.job, &look.job, INSPECT_UNLESS, unless);
    search_all(&search, &m, false);
    check_verdict(&m, certain, seed, "certain");
    check_all_found(&m, &look, certain, seed);
    tally->ended += search.moved != 0;
    search_all(&search, &m, true);
    check_verdict(&m, unless, seed, "unless");
    for (uint32_t r = 0; r < m.ranks; r++) {
        dead += certain[r] == INSPECT_DEADLOCKED;
        more += unless[r] == INSPECT_DEADLOCKED;
        if (certain[r] == INSPECT_DEADLOCKED && unless[r] != INSPECT_DEADLOCKED)
            fail_msg("seed %" PRIu64 ": rank %" PRIu32 " is deadlocked for certain only", seed,
                     r);
    }
    tally->certain += dead != 0;
    tally->unless += more > dead;
    tally->left_out += more < m.ranks;
}

static uint64_t seeds = 40000;

static void test_random_jobs(UNUSED void **state)
{
    struct tally tally = {0};

    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_job(seed, &tally);
    printf("%" PRIu64 " jobs with a deadlock for certain, %" PRIu64
           " with another one, unless; %" PRIu64 " in part or not; %" PRIu64 " go on\n",
           tally.certain, tally.unless, tally.left_out, tally.ended);
    assert_true(tally.certain > seeds / 100); /* all kinds occur */
    assert_true(tally.unless > seeds / 100);
    assert_true(tally.left_out > seeds / 100);
    assert_true(tally.ended > seeds / 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_jobs)};

    if (argc == 2) /* more jobs */
        sscanf(argv[1], "%" SCNu64, &seeds);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
