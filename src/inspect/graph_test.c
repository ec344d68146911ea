/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph_test.c - exactly the deadlocked ranks are called deadlocked.
 *
 * Random programs of sends, synchronous sends, receives, waits for any and for all, probes, loops of polls
 * and computing run in a model of matching: ranks, messages in flight, posted receives and
 * unexpected messages as plain lists.  Events happen one at a time, in random order.  At a
 * random moment two looks are taken, of one rank after the other while the job goes on;
 * messages in flight at the first look have arrived by the second, and each rank has seen the
 * messages that had arrived before.  Then the job runs until nothing can happen any more, and a
 * rank that has not reached the end of its program was deadlocked.
 *
 *   a rank that is called deadlocked has not moved since, and never does; at the end, exactly
 *   the ranks that have not finished are called deadlocked
 *
 * In the model a rank that polls does nothing else: it makes the same one or two calls until one finds something.
 * So the verdict with that condition (polls.h) has to be exact as well:
 *
 *   if it is given, nothing can happen any more; if nothing has happened for long enough, nothing can happen, and
 *   a rank polls, it is given
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "base/unit.h"
#include "inspect/graph.h"
#include "inspect/polls.h"

#define RANKS   5
#define STEPS   6
#define FLIGHTS 256
#define QUEUE   64
#define TAGS    2

enum step_kind {
    SEND,
    SSEND,
    RECV,
    WAIT_ANY,
    WAIT_ALL,
    PROBE,
    COMPUTE,
    POLL, /* MPI_Iprobe; from here on loops of polls */
    TEST,
    TEST_ANY,
    TEST_ALL,
    TEST_AND_PROBE, /* in turns, for two messages */
    TWO_PROBES,     /* likewise */
    STEP_KINDS
};

#define FIRST_KINDS (11u + POLL + 1 - WAIT_ANY) /* see make(): up to POLL */
#define ALL_KINDS   (FIRST_KINDS + STEP_KINDS - 1 - POLL)
#define QUIET       8

struct step {
    enum step_kind kind;
    uint32_t peer[2]; /* INSPECT_NOBODY: any source */
    uint32_t tag[2];
};

struct flight {
    uint32_t from, to, tag;
    bool is_sync, is_acknowledgement;
};

struct posted {
    uint32_t peer, tag;
    bool is_open;
};

struct actor {
    struct step steps[STEPS];
    uint32_t count, at;
    bool is_begun;   /* the operations of step `at` */
    bool is_waiting; /* of a synchronous send: waits for the acknowledgement */
    uint32_t ticks;  /* of COMPUTE: what is left */
    struct posted posted[2];
    uint32_t posted_count;
    struct flight unexpected[QUEUE];
    uint32_t unexpected_count;
    uint64_t happened, last; /* when something happened last */
};

struct model {
    struct random random;
    uint32_t ranks;
    struct actor actors[RANKS];
    struct flight flights[FLIGHTS];
    uint32_t flight_count;
    uint64_t time; /* events */
};

/* ---- programs ---- */

static uint32_t draw(struct model *m, uint32_t bound)
{
    return (uint32_t)random_below(&m->random, bound);
}

static bool is_polling(enum step_kind kind)
{
    return kind >= POLL;
}

static void make(struct model *m, uint64_t seed)
{
    uint32_t kinds;

    memset(m, 0, sizeof *m);
    random_seed(&m->random, seed);
    m->ranks = 2 + draw(m, RANKS - 1);
    kinds = draw(m, 2) == 0 ? FIRST_KINDS : ALL_KINDS;
    for (uint32_t r = 0; r < m->ranks; r++) {
        struct actor *a = &m->actors[r];

        a->count = draw(m, STEPS + 1);
        for (uint32_t i = 0; i < a->count; i++) {
            struct step *s = &a->steps[i];
            uint32_t kind = draw(m, kinds);

            s->kind = kind < 6    ? SEND
                      : kind < 7  ? SSEND
                      : kind < 11 ? RECV
                                  : (enum step_kind)(WAIT_ANY + kind - 11);
            for (int p = 0; p < 2; p++) {
                s->peer[p] = (r + 1 + draw(m, m->ranks - 1)) % m->ranks;
                s->tag[p] = draw(m, TAGS);
                if (s->kind != SEND && s->kind != SSEND && draw(m, 6) == 0)
                    s->peer[p] = INSPECT_NOBODY;
            }
        }
    }
}

/* ---- changes of the ranks ---- */

static bool fits(uint32_t peer, uint32_t tag, const struct flight *message)
{
    return (peer == INSPECT_NOBODY || peer == message->from) && tag == message->tag;
}

static void fly(struct model *m, uint32_t from, uint32_t to, uint32_t tag, bool is_sync,
                bool is_acknowledgement)
{
    assert_true(m->flight_count < FLIGHTS);
    m->flights[m->flight_count++] = (struct flight){from, to, tag, is_sync, is_acknowledgement};
}

static void received(struct model *m, uint32_t by, const struct flight *message)
{
    if (message->is_sync)
        fly(m, by, message->from, 0, false, true);
}

static bool take_unexpected(struct model *m, uint32_t r, uint32_t peer, uint32_t tag,
                            bool takes)
{
    struct actor *a = &m->actors[r];

    for (uint32_t i = 0; i < a->unexpected_count; i++) {
        struct flight message = a->unexpected[i];

        if (!fits(peer, tag, &message))
            continue;
        if (takes) {
            memmove(&a->unexpected[i], &a->unexpected[i + 1],
                    (--a->unexpected_count - i) * sizeof message);
            received(m, r, &message);
        }
        return true;
    }
    return false;
}

/* Something happens to a rank. */
static void note(struct model *m, struct actor *a)
{
    a->happened++;
    a->last = ++m->time;
}

static void deliver(struct model *m, uint32_t which)
{
    struct flight message = m->flights[which];
    struct actor *a = &m->actors[message.to];

    memmove(&m->flights[which], &m->flights[which + 1],
            (--m->flight_count - which) * sizeof message);
    note(m, a);
    if (message.is_acknowledgement) {
        a->is_waiting = false;
        return;
    }
    for (uint32_t i = 0; i < a->posted_count; i++)
        if (a->posted[i].is_open && fits(a->posted[i].peer, a->posted[i].tag, &message)) {
            a->posted[i].is_open = false;
            received(m, message.to, &message);
            return;
        }
    assert_true(a->unexpected_count < QUEUE);
    a->unexpected[a->unexpected_count++] = message;
}

/* Is it the first message in flight between its two ranks? */
static bool is_first(const struct model *m, uint32_t which)
{
    for (uint32_t i = 0; i < which; i++)
        if (m->flights[i].from == m->flights[which].from &&
            m->flights[i].to == m->flights[which].to)
            return false;
    return true;
}

static void begin(struct model *m, uint32_t r, const struct step *s)
{
    struct actor *a = &m->actors[r];

    a->is_begun = true;
    note(m, a);
    a->posted_count = 0;
    if (s->kind == SEND || s->kind == SSEND)
        fly(m, r, s->peer[0], s->tag[0], s->kind == SSEND, false);
    a->is_waiting = s->kind == SSEND;
    a->ticks = s->kind == COMPUTE ? 1 + draw(m, 30) : 0;
    if (s->kind == RECV || s->kind == TEST || s->kind == TEST_AND_PROBE)
        a->posted_count = 1;
    if (s->kind == WAIT_ANY || s->kind == WAIT_ALL || s->kind == TEST_ANY ||
        s->kind == TEST_ALL)
        a->posted_count = 2;
    for (uint32_t i = 0; i < a->posted_count; i++)
        a->posted[i] = (struct posted){s->peer[i], s->tag[i],
                                       !take_unexpected(m, r, s->peer[i], s->tag[i], true)};
}

static bool is_over(struct model *m, uint32_t r, const struct step *s)
{
    struct actor *a = &m->actors[r];
    uint32_t open = 0;

    for (uint32_t i = 0; i < a->posted_count; i++)
        open += a->posted[i].is_open;
    switch (s->kind) {
    case SEND:
        return true;
    case SSEND:
        return !a->is_waiting;
    case RECV:
    case TEST:
    case WAIT_ALL:
    case TEST_ALL:
        return open == 0;
    case WAIT_ANY: /* the other one is cancelled */
    case TEST_ANY:
        return open < 2;
    case TEST_AND_PROBE:
        return open == 0 || take_unexpected(m, r, s->peer[1], s->tag[1], false);
    case TWO_PROBES:
        return take_unexpected(m, r, s->peer[0], s->tag[0], false) ||
               take_unexpected(m, r, s->peer[1], s->tag[1], false);
    case PROBE:
    case POLL:
        return take_unexpected(m, r, s->peer[0], s->tag[0], false);
    case COMPUTE:
        return a->ticks == 0;
    case STEP_KINDS:
        break;
    }
    return true;
}

/* Lets rank r do what it can do now; false: nothing. */
static bool act(struct model *m, uint32_t r)
{
    struct actor *a = &m->actors[r];
    const struct step *s = &a->steps[a->at];

    if (a->at == a->count)
        return false;
    if (!a->is_begun) {
        begin(m, r, s);
        return true;
    }
    if (a->ticks > 0) {
        a->ticks--;
        return true;
    }
    if (!is_over(m, r, s))
        return false;
    a->posted_count = 0;
    a->is_begun = false;
    a->at++;
    note(m, a);
    return true;
}

/* May anything happen at all? */
static bool may_happen(struct model *m)
{
    for (uint32_t r = 0; r < m->ranks; r++) {
        const struct actor *a = &m->actors[r];

        if (a->at < a->count &&
            (!a->is_begun || a->ticks > 0 || is_over(m, r, &a->steps[a->at])))
            return true;
    }
    return m->flight_count > 0;
}

/* One random event; false: there is none. */
static bool happen(struct model *m)
{
    uint32_t first = draw(m, m->ranks + m->flight_count);

    for (uint32_t i = 0; i < m->ranks + m->flight_count; i++) {
        uint32_t which = (first + i) % (m->ranks + m->flight_count);

        if (which < m->ranks && act(m, which))
            return true;
        if (which >= m->ranks && is_first(m, which - m->ranks)) {
            deliver(m, which - m->ranks);
            return true;
        }
    }
    return false;
}

/* ---- looks ---- */

struct look {
    struct inspect_job job;
    struct inspect_rank ranks[RANKS];
    struct inspect_entry entries[RANKS][QUEUE + 4];
};

static const char *const call_names[STEP_KINDS] = {
    [SEND] = "MPI_Send",
    [SSEND] = "MPI_Ssend",
    [RECV] = "MPI_Recv",
    [WAIT_ANY] = "MPI_Waitany",
    [WAIT_ALL] = "MPI_Waitall",
    [PROBE] = "MPI_Probe",
    [COMPUTE] = "",
    [POLL] = "MPI_Iprobe",
    [TEST] = "MPI_Test",
    [TEST_ANY] = "MPI_Testany",
    [TEST_ALL] = "MPI_Testall",
    [TEST_AND_PROBE] = "MPI_Test",
    [TWO_PROBES] = "MPI_Iprobe",
};

static void show(struct inspect_rank *rank, enum inspect_kind kind, uint32_t peer, uint32_t tag)
{
    rank->entries[rank->count++] = (struct inspect_entry){
        .kind = (uint8_t)kind,
        .context_id = 1,
        .peer = peer,
        .tag = tag,
        .whom = peer != INSPECT_NOBODY ? peer + 1 : 0,
    };
    rank->state.counts[kind]++;
}

static void look_at(struct model *m, uint32_t r, struct look *look)
{
    const struct actor *a = &m->actors[r];
    const struct step *s = &a->steps[a->at];
    struct inspect_rank *rank = &look->ranks[r];

    *rank =
        (struct inspect_rank){.head = {.pid = r + 1, .ep = r + 1, .rank = r, .address = r + 1},
                              .how = INSPECT_ASKED,
                              .entries = look->entries[r]};
    rank->state.pulse.arrived = a->happened;
    rank->state.still_ns = 1 + a->last;
    rank->state.now_ns = 1 + m->time;
    snprintf(rank->state.call, sizeof rank->state.call, "%s",
             a->at == a->count ? "MPI_Finalize" : call_names[s->kind]);
    if (a->at < a->count && s->kind == TEST_AND_PROBE && draw(m, 2) == 0)
        snprintf(rank->state.call, sizeof rank->state.call, "MPI_Iprobe");
    if (a->at < a->count && a->is_begun) {
        for (uint32_t i = 0; i < a->posted_count; i++)
            if (a->posted[i].is_open)
                show(rank, INSPECT_POSTED, a->posted[i].peer, a->posted[i].tag);
        if (a->is_waiting)
            show(rank, INSPECT_SEND, s->peer[0], s->tag[0]);
        if (s->kind == PROBE || s->kind == POLL)
            show(rank, INSPECT_PROBE, s->peer[0], s->tag[0]);
        if (s->kind == TEST_AND_PROBE)
            show(rank, INSPECT_PROBE, s->peer[1], s->tag[1]);
        if (s->kind == TWO_PROBES) { /* the last one */
            uint32_t last = draw(m, 2);

            show(rank, INSPECT_PROBE, s->peer[last], s->tag[last]);
        }
    }
    for (uint32_t i = 0; i < a->unexpected_count; i++)
        show(rank, INSPECT_UNEXPECTED, a->unexpected[i].from, a->unexpected[i].tag);
}

/* Looks at one rank after the other, while the job goes on. */
static void check_all(struct model *m, struct look *look, bool goes_on)
{
    look->job = (struct inspect_job){.ranks = look->ranks, .count = m->ranks, .size = m->ranks};
    for (uint32_t r = 0; r < m->ranks; r++) {
        for (uint32_t events = goes_on ? draw(m, 4) : 0; events > 0; events--)
            happen(m);
        look_at(m, r, look);
    }
}

/* Messages that are in flight now arrive, and other events happen.  A rank that waits checks at
 * least once whether its wait is over: a rank that answers a second time has made rounds of
 * progress since the first. */
static void let_arrive(struct model *m)
{
    for (uint32_t r = 0; r < m->ranks; r++)
        act(m, r);
    while (m->flight_count > 0)
        deliver(m, 0);
    for (uint32_t events = draw(m, 6); events > 0; events--)
        happen(m);
    while (m->flight_count > 0)
        deliver(m, 0);
}

/* ---- one job ---- */

struct tally {
    uint64_t ended, stuck,
        early; /* jobs; early: a deadlock was found while other ranks still went on */
    uint64_t polls,
        polls_early; /* a verdict with a condition: at the end, at the first looks */
};

/* Does a rank poll, and has nothing happened in any rank for so long? */
static bool is_quiet_and_polls(const struct model *m, uint64_t quiet)
{
    bool polls = false;

    for (uint32_t r = 0; r < m->ranks; r++) {
        const struct actor *a = &m->actors[r];

        if (a->at == a->count)
            continue;
        polls |= is_polling(a->steps[a->at].kind);
        if (m->time - a->last < quiet)
            return false;
    }
    return polls;
}

/* The verdict with the condition, from two looks.  is_exact: nothing has happened since the first one began. */
static bool check_polls(struct model *m, const struct look *before, const struct look *now,
                        bool is_exact, uint64_t seed)
{
    enum inspect_node nodes[RANKS];
    uint64_t quiet = draw(m, QUIET);
    bool is_named = inspect_only_polls(&before->job, 1, &now->job, quiet, nodes);

    if (is_named && may_happen(m))
        fail_msg("seed %llu: ranks are called deadlocked if they only poll, and one goes on",
                 (unsigned long long)seed);
    for (uint32_t r = 0; is_named && r < m->ranks; r++)
        if ((m->actors[r].at == m->actors[r].count) != (nodes[r] == INSPECT_OVER))
            fail_msg("seed %llu: rank %u has another state", (unsigned long long)seed, r);
    if (is_exact && is_named != (!may_happen(m) && is_quiet_and_polls(m, quiet)))
        fail_msg("seed %llu: ranks only poll and wait: %d, and the verdict is %d",
                 (unsigned long long)seed, !is_named, is_named);
    return is_named;
}

static void run_job(uint64_t seed, struct tally *tally)
{
    static struct look before, now, last;
    static struct model m;
    enum inspect_node nodes[RANKS], end[RANKS];
    uint32_t at[RANKS], named = 0, dead = 0;
    uint64_t begun;

    make(&m, seed);
    for (uint32_t events = draw(&m, 120); events > 0; events--)
        happen(&m);
    begun = m.time;
    check_all(&m, &before, true);
    let_arrive(&m);
    check_all(&m, &now, true);
    inspect_judge(&before.job, &now.job, INSPECT_CERTAIN, nodes);
    tally->polls_early += check_polls(&m, &before, &now, m.time == begun, seed);
    for (uint32_t r = 0; r < m.ranks; r++)
        at[r] = m.actors[r].at;
    while (happen(&m))
        ;
    check_all(&m, &last, false);
    inspect_judge(&last.job, &last.job, INSPECT_CERTAIN, end);
    tally->polls += check_polls(&m, &last, &last, true, seed);
    for (uint32_t r = 0; r < m.ranks; r++) {
        const struct actor *a = &m.actors[r];
        bool polls = a->at < a->count && is_polling(a->steps[a->at].kind);
        bool never_ends = a->at < a->count;

        dead += end[r] == INSPECT_DEADLOCKED;
        named += nodes[r] == INSPECT_DEADLOCKED;
        if (nodes[r] == INSPECT_DEADLOCKED && (!never_ends || a->at != at[r]))
            fail_msg("seed %llu: rank %u is called deadlocked, and goes on",
                     (unsigned long long)seed, r);
        if (end[r] == INSPECT_DEADLOCKED && !never_ends)
            fail_msg("seed %llu: rank %u has come to its end, and is called deadlocked",
                     (unsigned long long)seed, r);
        if (polls && end[r] == INSPECT_DEADLOCKED)
            fail_msg("seed %llu: rank %u polls", (unsigned long long)seed, r);
    }
    for (uint32_t r = 0; r < m.ranks;
         r++) /* a rank that polls for ever keeps its waiters alive */
        if (m.actors[r].at < m.actors[r].count &&
            is_polling(m.actors[r].steps[m.actors[r].at].kind))
            return;
    for (uint32_t r = 0; r < m.ranks; r++)
        if ((m.actors[r].at < m.actors[r].count) != (end[r] == INSPECT_DEADLOCKED))
            fail_msg("seed %llu: rank %u waits for ever, and is not called deadlocked",
                     (unsigned long long)seed, r);
    tally->ended += dead == 0;
    tally->stuck += dead != 0;
    tally->early += named != 0 && named < dead;
}

static uint64_t seeds = 100000;

static void test_random_jobs(UNUSED void **state)
{
    struct tally tally = {0};

    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_job(seed, &tally);
    printf("%llu jobs end, %llu are stuck, %llu of these seen in part while others went on\n",
           (unsigned long long)tally.ended, (unsigned long long)tally.stuck,
           (unsigned long long)tally.early);
    printf("%llu jobs only wait and poll at the end, %llu of them at the first looks\n",
           (unsigned long long)tally.polls, (unsigned long long)tally.polls_early);
    assert_true(tally.ended > seeds / 100); /* both kinds occur */
    assert_true(tally.stuck > seeds / 100);
    assert_true(tally.early > 0);
    assert_true(tally.polls > seeds / 100);
    assert_true(tally.polls_early > seeds / 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_jobs)};

    if (argc == 2) /* more jobs */
        sscanf(argv[1], "%" SCNu64, &seeds);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
