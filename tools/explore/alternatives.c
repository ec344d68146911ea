/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alternatives.c - which message each receive of a run could have taken instead, and which one is tried next.
 *
 *   a run with traces ── races_read(), races_add() ──> its alternatives, each in a group (tools/races/races.h)
 *   explore_choose()  ──> of those that were not tried: first what a failed run asks for, then what is new
 *
 * Two alternatives of one group differ in the time at which they occur alone: a group is tried at its first and at its last
 * occurrence before the others (a loop is tried at both ends).
 */
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/hash.h"
#include "explore.h"

/* Nobody tries all orders of a job that has more. */
#define ALTERNATIVES_MAX 1000000u

/* ---- ranks of communicators ---- */

/* A rank has seen a message of `from` in this communicator, which numbers it so. */
struct source {
    uint32_t rank, from; /* rank: + 1 */
    uint64_t comm;
    int64_t source;
};

static uint64_t source_hash(const void *arg, const void *slot)
{
    const struct source *s = slot;

    (void)arg;
    return hash_spread(hash_spread((uint64_t)s->rank << 32 | s->from) ^ s->comm);
}

static bool source_is(const void *arg, const void *slot, const void *key)
{
    const struct source *a = slot, *b = key;

    (void)arg;
    return a->rank == b->rank && a->from == b->from && a->comm == b->comm;
}

static const struct hash_kind by_source = {sizeof(struct source), source_hash, source_is};

/* False: no memory. */
static bool learn_sources(struct hash *sources, const struct races_run *run)
{
    for (uint32_t i = 0; i < run->job.receive_count; i++) {
        const struct races_receive *r = &run->job.receives[i];
        struct source one = {.rank = r->rank + 1, .comm = run->events[i].signature.comm};

        if (run->events[i].source < 0 || r->message == RACES_NONE)
            continue;
        one.from = run->job.messages[r->message].from;
        one.source = run->events[i].source;
        if (hash_find(sources, &by_source, NULL, source_hash(NULL, &one), &one) == NULL &&
            hash_add(sources, &by_source, NULL, &one) != 0)
            return false;
    }
    return true;
}

/* The number of a sender in the communicator of a receive.  If no message has shown it: its number in the job. */
static int32_t source_of(const struct hash *sources, const struct races_run *run,
                         uint32_t receive, uint32_t from)
{
    const struct source wanted = {.rank = run->job.receives[receive].rank + 1,
                                  .from = from,
                                  .comm = run->events[receive].signature.comm};
    const struct source *known =
        hash_find(sources, &by_source, NULL, source_hash(NULL, &wanted), &wanted);

    return known != NULL ? (int32_t)known->source : (int32_t)run->traces.ranks[from].info.rank;
}

/* ---- the list ---- */

struct adding {
    struct explore_search *s;
    uint64_t run;
    struct hash sources;
    bool lacks_memory;
};

static bool is_equal(const struct explore_alternative *a, const struct explore_alternative *b)
{
    return a->rank == b->rank && a->event == b->event && a->source == b->source &&
           a->tag == b->tag;
}

static bool was_tried(const struct explore_search *s, const struct explore_alternative *a)
{
    for (uint64_t n = 1; n <= s->count; n++)
        if (s->runs[n - 1].is_forced && is_equal(&s->runs[n - 1].forced, a))
            return true;
    return false;
}

/* The group has an alternative more: this is its first one of this run, or its last one so far. */
static void note_place(struct explore_alternatives *all, struct explore_alternative *a)
{
    a->is_first = true;
    for (size_t i = all->count; i-- > 0 && all->all[i].run == a->run;)
        if (all->all[i].group == a->group) {
            a->is_first = false;
            all->all[i].is_last = false;
            break;
        }
    a->is_last = true;
}

static void add_one(void *arg, const struct races_found *found)
{
    struct adding *adding = arg;
    struct explore_alternatives *all = &adding->s->alternatives;
    const struct races_run *run = found->run;
    const struct races_receive *r = &run->job.receives[found->receive];
    const struct races_message *m = &run->job.messages[found->message],
                               *taken = &run->job.messages[r->message];
    struct explore_alternative one = {
        .run = adding->run,
        .event = run->events[found->receive].number,
        .rank = run->traces.ranks[r->rank].info.rank,
        .from = run->traces.ranks[m->from].info.rank,
        .taken = run->traces.ranks[taken->from].info.rank,
        .receive = found->receive,
        .message = found->message,
        .source = source_of(&adding->sources, run, found->receive, m->from),
        .tag = (int32_t)m->tag,
        .group = found->group};

    if (one.event == 0)
        return;
    all->known++;
    if (all->count == ALTERNATIVES_MAX)
        return;
    if (!array_reserve(all->all, all->slots, all->count + 1)) {
        adding->lacks_memory = true;
        return;
    }
    one.is_repeated = was_tried(adding->s, &one);
    note_place(all, &one);
    all->all[all->count++] = one;
}

void explore_lacks_memory(struct explore_search *s)
{
    if (s->problem[0] == '\0')
        snprintf(s->problem, sizeof s->problem, "there was no memory for all orders");
}

/* The traces of a job that was ended never end as they should. */
static void note_problem(struct explore_search *s, uint64_t n, const struct races_run *run)
{
    if (s->problem[0] != '\0')
        return;
    if (races_problems(run) != 0 && explore_is_complete(s, n))
        snprintf(s->problem, sizeof s->problem, "%s", races_problem_at(run, 0));
    else if (s->groups.undecided != 0)
        snprintf(s->problem, sizeof s->problem, "run %llu has messages that are too far apart",
                 (unsigned long long)n);
}

void explore_add_alternatives(struct explore_search *s, uint64_t n)
{
    struct adding adding = {.s = s, .run = n};
    struct races_run *run = explore_load(s, n);

    if (run == NULL) {
        explore_lacks_memory(s);
        return;
    }
    s->groups.found = add_one;
    s->groups.arg = &adding;
    if (!learn_sources(&adding.sources, run) || races_add(&s->groups, run, (uint32_t)n) < 0 ||
        adding.lacks_memory) {
        tool_error(s->tool, "no memory for all orders that could follow from run %llu",
                   (unsigned long long)n);
        explore_lacks_memory(s);
    }
    note_problem(s, n, run);
    races_see(&s->groups);
    hash_fini(&adding.sources);
}

/* ---- choosing ---- */

static bool has_equal_lines(const struct races_group *group)
{
    return strcmp(group->taken, group->other) == 0;
}

static uint32_t tries_of(const struct explore_search *s, uint32_t group)
{
    uint32_t tries = 0;

    for (uint64_t n = 1; n <= s->count; n++)
        tries += s->runs[n - 1].is_forced && s->runs[n - 1].forced.group == group;
    return tries;
}

/* An alternative with smaller weights is tried first: the heuristics, the most important one first. */
enum { RANKS_OF_ALTERNATIVE = 7 };

static void weigh(const struct explore_search *s, const struct explore_alternative *a,
                  uint32_t weights[RANKS_OF_ALTERNATIVE])
{
    const struct races_group *group = &s->groups.groups[a->group];
    uint32_t tries = tries_of(s, a->group);

    weights[0] = !a->is_wanted;
    weights[1] = a->is_repeated;
    weights[2] = tries;
    weights[3] = tries == 0 ? !a->is_first : tries == 1 && !a->is_last;
    weights[4] = has_equal_lines(group);
    weights[5] = !races_is_never_seen(group);
    weights[6] = s->runs[a->run - 1].forced_count;
}

static bool is_allowed(const struct explore_search *s, const struct explore_alternative *a)
{
    return !a->is_done && s->runs[a->run - 1].forced_count < s->options->mix;
}

struct explore_alternative *explore_choose(struct explore_search *s)
{
    uint32_t best[RANKS_OF_ALTERNATIVE], weights[RANKS_OF_ALTERNATIVE];
    struct explore_alternative *chosen = NULL;

    for (size_t i = 0; i < s->alternatives.count; i++) {
        struct explore_alternative *a = &s->alternatives.all[i];
        size_t at = 0;

        if (!is_allowed(s, a))
            continue;
        weigh(s, a, weights);
        while (chosen != NULL && at < RANKS_OF_ALTERNATIVE && weights[at] == best[at])
            at++;
        if (chosen != NULL && (at == RANKS_OF_ALTERNATIVE || weights[at] > best[at]))
            continue;
        memcpy(best, weights, sizeof best);
        chosen = a;
    }
    return chosen;
}

void explore_note_tried(struct explore_search *s, const struct explore_alternative *tried)
{
    for (size_t i = 0; i < s->alternatives.count; i++)
        if (is_equal(&s->alternatives.all[i], tried))
            s->alternatives.all[i].is_repeated = true;
}

uint64_t explore_untried(const struct explore_search *s)
{
    uint64_t untried = s->alternatives.known - s->alternatives.count;

    for (size_t i = 0; i < s->alternatives.count; i++)
        untried += !s->alternatives.all[i].is_done;
    return untried;
}

/* ---- fewer forced matches ---- */

/* Does run `of` have the forced matches of run n without number left_out and the last one, and no others? */
static bool lacks_one(const struct explore_run *of, const struct explore_run *n,
                      uint32_t left_out)
{
    uint32_t found = 0;

    if (of->forced_count + 2 != n->forced_count)
        return false;
    for (uint32_t i = 0; i + 1 < n->forced_count; i++)
        for (uint32_t k = 0; i != left_out && k < of->forced_count; k++)
            found += is_equal(&of->all_forced[k], &n->all_forced[i]);
    return found == of->forced_count;
}

void explore_want_fewer(struct explore_search *s, uint64_t n)
{
    const struct explore_run *run = &s->runs[n - 1];

    for (uint32_t out = 0; out + 1 < run->forced_count; out++)
        for (size_t i = 0; i < s->alternatives.count; i++) {
            struct explore_alternative *a = &s->alternatives.all[i];

            if (is_equal(a, &run->forced) && lacks_one(&s->runs[a->run - 1], run, out))
                a->is_wanted = true;
        }
}

static bool is_forced_in(const struct explore_run *run, const struct explore_alternative *a)
{
    for (uint32_t i = 0; i < run->forced_count; i++)
        if (is_equal(&run->all_forced[i], a))
            return true;
    return false;
}

static bool forces_part(const struct explore_run *part, const struct explore_run *of)
{
    for (uint32_t i = 0; i < part->forced_count; i++)
        if (!is_forced_in(of, &part->all_forced[i]))
            return false;
    return part->is_forced && part->forced_count < of->forced_count;
}

uint64_t explore_find_fewer(const struct explore_search *s, uint64_t n)
{
    const struct explore_run *run = &s->runs[n - 1];
    uint32_t fewest = run->forced_count;
    uint64_t found = 0;

    for (uint64_t i = 1; i <= s->count; i++) {
        const struct explore_run *other = &s->runs[i - 1];

        if (other->is_missed || other->forced_count >= fewest || !forces_part(other, run) ||
            !explore_is_same(&other->result, &run->result))
            continue;
        fewest = other->forced_count;
        found = i;
    }
    return found;
}
