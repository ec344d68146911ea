/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_group.c - alternatives become groups, and runs are joined.
 *
 *   site     calls of one line that ask for the same communicator, source and tag
 *   group    of a site: the places and tags of two sends, of which the first one's message was taken
 *   pair     of a group: two ranks, in the order in which their messages were taken by a rank
 *
 * The other order of a pair was seen if, in any of the runs, the mirrored group has the pair of the same ranks in the other
 * order.  The mirrored group is the one of the same two sends, of which the second one's message was taken.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/mem.h"
#include "races.h"

#define NO_GROUP UINT32_MAX

struct pair {
    uint32_t group, rank; /* group: + 1 */
    uint32_t taken, other;
};

/* Finds what is there already, in all runs. */
struct races_index {
    struct hash sites, groups; /* by their texts; a slot is a number + 1 */
    struct hash pairs;
};

/* Tells sites of one run apart; and its site + 1. */
struct site_key {
    uint32_t site, place;
    uint64_t comm;
    int32_t source, tag;
    uint32_t kind, zero;
};

/* Tells groups of one run apart; the site says whether the tag matters. */
struct group_key {
    uint32_t site, group; /* site: + 1 */
    uint32_t taken_place, other_place, taken_tag, other_tag;
};

struct adding {
    struct races_groups *groups;
    struct races_run *run;
    uint32_t number;
    struct hash keys, group_keys;
    uint32_t *sites; /* of each receive */
    int err;
};

/* ---- pairs ---- */

static uint64_t pair_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_bytes(slot, sizeof(struct pair));
}

static bool pair_is(const void *arg, const void *slot, const void *key)
{
    (void)arg;
    return memcmp(slot, key, sizeof(struct pair)) == 0;
}

static const struct hash_kind by_pair = {sizeof(struct pair), pair_hash, pair_is};

static bool has_pair(const struct races_index *index, const struct pair *pair)
{
    return hash_find(&index->pairs, &by_pair, NULL, pair_hash(NULL, pair), pair) != NULL;
}

static bool add_pair(struct races_index *index, const struct pair *pair)
{
    return has_pair(index, pair) || hash_add(&index->pairs, &by_pair, NULL, pair) == 0;
}

/* ---- texts ---- */

static uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash_spread(hash);
}

/* ---- sites ---- */

static uint64_t key_hash(const void *arg, const void *slot)
{
    const struct site_key *key = slot;
    const uint64_t words[3] = {(uint64_t)key->place << 32 | key->kind, key->comm,
                               (uint64_t)(uint32_t)key->source << 32 | (uint32_t)key->tag};

    (void)arg;
    return hash_bytes(words, sizeof words);
}

static bool key_is(const void *arg, const void *slot, const void *wanted)
{
    const struct site_key *a = slot, *b = wanted;

    (void)arg;
    return a->place == b->place && a->kind == b->kind && a->comm == b->comm &&
           a->source == b->source && a->tag == b->tag;
}

static const struct hash_kind by_site_key = {sizeof(struct site_key), key_hash, key_is};

static bool is_probe(const struct races_event *event)
{
    return !replay_is_receive(event->signature.kind);
}

/* "receive at solve.c:88 (MPI_Irecv from any source, tag 7, on MPI_COMM_WORLD)" */
static void put_site(const struct races_run *run, uint32_t receive, char text[RACES_TEXT])
{
    const struct races_event *event = &run->events[receive];
    const struct races_message *message =
        &run->job.messages[run->job.receives[receive].message];
    const uint64_t comm = run->comms[message->comm];
    const struct job_message m = {.from = message->from,
                                  .to = message->to,
                                  .context_id = (uint32_t)comm,
                                  .tag = comm >> 32 << 32 | message->tag};
    char communicator[JOB_COMMUNICATOR_TEXT], call[REPLAY_TEXT], place[JOB_PLACE_TEXT];
    const char *line = NULL;

    replay_signature_text(&event->signature,
                          job_message_communicator(&run->traces, &m, communicator), call);
    if (job_place_text(&run->traces, event->place, place) != NULL)
        line = strstr(place, " at ");
    snprintf(text, RACES_TEXT, "%s%s (%s)", is_probe(event) ? "probe" : "receive",
             line != NULL ? line : "", call);
}

static uint64_t site_hash(const void *arg, const void *slot)
{
    const struct races_groups *g = arg;

    return text_hash(0, g->sites[hash_number(slot) - 1].text);
}

static bool site_is(const void *arg, const void *slot, const void *text)
{
    const struct races_groups *g = arg;

    return strcmp(g->sites[hash_number(slot) - 1].text, text) == 0;
}

static const struct hash_kind by_site_text = {sizeof(uint32_t), site_hash, site_is};

/* The number of the site with this text; or NO_GROUP. */
static uint32_t site_of_text(struct races_groups *g, const char *text)
{
    uint32_t number =
        hash_number(hash_find(&g->index->sites, &by_site_text, g, text_hash(0, text), text));

    if (number != 0)
        return number - 1;
    if (!array_reserve(g->sites, g->site_slots, g->site_count + 1))
        return NO_GROUP;
    g->sites[g->site_count] = (struct races_site){.times = 0};
    snprintf(g->sites[g->site_count].text, RACES_TEXT, "%s", text);
    number = (uint32_t)g->site_count + 1;
    if (hash_add(&g->index->sites, &by_site_text, g, &number) != 0)
        return NO_GROUP;
    return (uint32_t)g->site_count++;
}

static uint32_t site_of(struct adding *a, uint32_t receive)
{
    const struct races_event *event = &a->run->events[receive];
    struct site_key key = {.place = event->place,
                           .comm = a->run->job.receives[receive].comm,
                           .source = event->signature.source,
                           .tag = event->signature.tag,
                           .kind = event->signature.kind};
    const struct site_key *known =
        hash_find(&a->keys, &by_site_key, NULL, key_hash(NULL, &key), &key);
    char text[RACES_TEXT];
    uint32_t site;

    /* the lines of two ranks are of two places */
    if (known != NULL)
        return known->site - 1;
    put_site(a->run, receive, text);
    site = site_of_text(a->groups, text);
    key.site = site + 1;
    if (site != NO_GROUP && hash_add(&a->keys, &by_site_key, NULL, &key) != 0)
        return NO_GROUP;
    return site;
}

static uint32_t number_of(const struct races_run *run, uint32_t rank)
{
    return run->traces.ranks[rank].info.rank;
}

static bool count_sites(struct adding *a)
{
    const struct races_job *job = &a->run->job;

    for (uint32_t i = 0; i < job->receive_count; i++) {
        const struct races_receive *r = &job->receives[i];
        uint32_t rank = number_of(a->run, r->rank);
        struct races_site *site;

        a->sites[i] = NO_GROUP;
        if (!r->is_checked || r->message == RACES_NONE)
            continue;
        a->sites[i] = site_of(a, i);
        if (a->sites[i] == NO_GROUP)
            return false;
        site = &a->groups->sites[a->sites[i]];
        if (site->times++ == 0)
            site->first_rank = rank;
        if (site->ranks == 0 || (site->ranks == 1 && site->first_rank != rank))
            site->ranks++;
        site->last_raced = 0;
    }
    return true;
}

/* ---- groups ---- */

/* "tag 4, MPI_Send at setup.c:9" */
static void put_send(const struct races_run *run, uint32_t receive, uint32_t message,
                     char *text, size_t size)
{
    const char *place;
    char words[JOB_PLACE_TEXT];
    bool has_tag = run->job.receives[receive].is_any_tag;
    size_t used = 0;

    text[0] = '\0';
    if (has_tag)
        used = min_size((size_t)snprintf(text, size, "tag %" PRId32,
                                         (int32_t)run->job.messages[message].tag),
                        size - 1);
    place = job_place_text(&run->traces, run->sends[message].place, words);
    if (place != NULL)
        snprintf(text + used, size - used, "%s%s", has_tag ? ", " : "", place);
}

static uint64_t group_hash(const void *arg, const void *slot)
{
    const struct group_key *key = slot;
    const uint64_t words[3] = {key->site, (uint64_t)key->taken_place << 32 | key->other_place,
                               (uint64_t)key->taken_tag << 32 | key->other_tag};

    (void)arg;
    return hash_bytes(words, sizeof words);
}

static bool group_is(const void *arg, const void *slot, const void *wanted)
{
    const struct group_key *a = slot, *b = wanted;

    (void)arg;
    return a->site == b->site && a->taken_place == b->taken_place &&
           a->other_place == b->other_place && a->taken_tag == b->taken_tag &&
           a->other_tag == b->other_tag;
}

static const struct hash_kind by_group_key = {sizeof(struct group_key), group_hash, group_is};

struct group_text {
    uint32_t site;
    const char *taken, *other;
};

static uint64_t group_text_hash(const struct group_text *text)
{
    return text_hash(text_hash(text->site, text->taken), text->other);
}

static uint64_t group_number_hash(const void *arg, const void *slot)
{
    const struct races_groups *g = arg;
    const struct races_group *group = &g->groups[hash_number(slot) - 1];

    return group_text_hash(&(struct group_text){group->site, group->taken, group->other});
}

static bool group_number_is(const void *arg, const void *slot, const void *key)
{
    const struct races_groups *g = arg;
    const struct races_group *group = &g->groups[hash_number(slot) - 1];
    const struct group_text *text = key;

    return group->site == text->site && strcmp(group->taken, text->taken) == 0 &&
           strcmp(group->other, text->other) == 0;
}

static const struct hash_kind by_group_text = {sizeof(uint32_t), group_number_hash,
                                               group_number_is};

/* The number of the group with these texts, + 1; or 0. */
static uint32_t find_group(const struct races_groups *g, const struct group_text *text)
{
    return hash_number(
        hash_find(&g->index->groups, &by_group_text, g, group_text_hash(text), text));
}

/* The number of the group with these texts, which is made if it is not there; or NO_GROUP. */
static uint32_t group_of_text(struct races_groups *g, const struct races_group *wanted)
{
    uint32_t number =
        find_group(g, &(struct group_text){wanted->site, wanted->taken, wanted->other});

    if (number != 0)
        return number - 1;
    if (!array_reserve(g->groups, g->group_slots, g->group_count + 1))
        return NO_GROUP;
    g->groups[g->group_count] = *wanted;
    number = (uint32_t)g->group_count + 1;
    if (hash_add(&g->index->groups, &by_group_text, g, &number) != 0)
        return NO_GROUP;
    return (uint32_t)g->group_count++;
}

/* The group of an alternative; *wanted has all of it except the texts. */
static uint32_t group_of(struct adding *a, uint32_t receive, uint32_t other,
                         struct races_group *wanted)
{
    const struct races_run *run = a->run;
    uint32_t taken = run->job.receives[receive].message;
    struct group_key key = {.site = wanted->site + 1,
                            .taken_place = run->sends[taken].place,
                            .other_place = run->sends[other].place,
                            .taken_tag = run->job.messages[taken].tag,
                            .other_tag = run->job.messages[other].tag};
    const struct group_key *known =
        hash_find(&a->group_keys, &by_group_key, NULL, group_hash(NULL, &key), &key);

    if (known != NULL)
        return known->group;
    put_send(run, receive, taken, wanted->taken, sizeof wanted->taken);
    put_send(run, receive, other, wanted->other, sizeof wanted->other);
    key.group = group_of_text(a->groups, wanted);
    if (key.group != NO_GROUP && hash_add(&a->group_keys, &by_group_key, NULL, &key) != 0)
        return NO_GROUP;
    return key.group;
}

static bool is_empty(const struct races_run *run, uint32_t message)
{
    return run->sends[message].is_empty;
}

static void add_alternative(void *arg, uint32_t receive, uint32_t other)
{
    struct adding *a = arg;
    const struct races_job *job = &a->run->job;
    uint32_t taken = job->receives[receive].message, number;
    struct races_site *site = &a->groups->sites[a->sites[receive]];
    struct races_group group = {.site = a->sites[receive],
                                .is_empty = true,
                                .run = a->number,
                                .rank = number_of(a->run, job->receives[receive].rank),
                                .taken_rank = number_of(a->run, job->messages[taken].from),
                                .other_rank = number_of(a->run, job->messages[other].from),
                                .event = a->run->events[receive].number,
                                .other_number = job->messages[other].index};
    struct pair pair = {
        .rank = group.rank, .taken = group.taken_rank, .other = group.other_rank};

    if (site->last_raced != receive + UINT64_C(1))
        site->races++;
    site->last_raced = receive + UINT64_C(1);
    number = group_of(a, receive, other, &group);
    pair.group = number + 1;
    if (number == NO_GROUP || !add_pair(a->groups->index, &pair)) {
        a->err = -ENOMEM;
        return;
    }
    if (a->groups->groups[number].last != receive + UINT64_C(1))
        a->groups->groups[number].times++;
    a->groups->groups[number].last = receive + UINT64_C(1);
    if (!is_empty(a->run, taken) || !is_empty(a->run, other))
        a->groups->groups[number].is_empty = false;
    if (a->groups->found != NULL)
        a->groups->found(a->groups->arg, &(struct races_found){.run = a->run,
                                                               .receive = receive,
                                                               .message = other,
                                                               .group = number});
}

int races_add(struct races_groups *groups, struct races_run *run, uint32_t number)
{
    struct adding a = {.groups = groups, .run = run, .number = number};
    uint64_t undecided = 0;
    int err = -ENOMEM;

    for (size_t i = 0; i < groups->group_count; i++)
        groups->groups[i].last = 0;
    if (groups->index == NULL)
        groups->index = mem_calloc(1, sizeof *groups->index);
    a.sites = mem_calloc(run->job.receive_count + 1u, sizeof *a.sites);
    if (groups->index != NULL && a.sites != NULL && count_sites(&a))
        err = races_find(&run->job, add_alternative, &a, &undecided);
    groups->undecided += undecided;
    groups->unchecked += run->unchecked;
    mem_free(a.sites);
    hash_fini(&a.keys);
    hash_fini(&a.group_keys);
    if (err == -EBADMSG)
        return races_problem(run,
                             "%s: what its traces say cannot all be: nothing of it is checked",
                             run->folder)
                   ? 0
                   : -ENOMEM;
    return err == 0 ? a.err : err;
}

/* ---- the end ---- */

/* Orders that were never seen come first, then different lines or tags, then what is frequent. */
static int compare_groups(const void *a, const void *b)
{
    const struct races_group *x = a, *y = b;
    bool is_same_x = strcmp(x->taken, x->other) == 0,
         is_same_y = strcmp(y->taken, y->other) == 0;

    if (races_is_never_seen(x) != races_is_never_seen(y))
        return races_is_never_seen(x) ? -1 : 1;
    if (is_same_x != is_same_y)
        return is_same_x ? 1 : -1;
    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return strcmp(x->taken, y->taken) != 0 ? strcmp(x->taken, y->taken)
                                           : strcmp(x->other, y->other);
}

/* The groups of a site together. */
static int compare_sites(const void *a, const void *b)
{
    const struct races_group *x = a, *y = b;

    if (x->site_order != y->site_order)
        return x->site_order < y->site_order ? -1 : 1;
    return compare_groups(x, y);
}

/* All groups of a site come at the place of its first one. */
static void sort_groups(struct races_groups *g)
{
    if (g->group_count == 0)
        return;
    qsort(g->groups, g->group_count, sizeof *g->groups, compare_groups);
    for (size_t i = 0; i < g->group_count; i++) {
        struct races_site *site = &g->sites[g->groups[i].site];

        if (site->group_count++ == 0)
            site->first_group = i;
        g->groups[i].site_order = site->first_group;
    }
    qsort(g->groups, g->group_count, sizeof *g->groups, compare_sites);
    for (size_t i = 0; i < g->group_count; i += g->sites[g->groups[i].site].group_count)
        g->sites[g->groups[i].site].first_group = i;
}

static bool is_reversed(const struct races_groups *g, const struct pair *pair)
{
    const struct races_group *group = &g->groups[pair->group - 1];
    struct pair mirrored = {
        .group = find_group(g, &(struct group_text){group->site, group->other, group->taken}),
        .rank = pair->rank,
        .taken = pair->other,
        .other = pair->taken};

    return mirrored.group != 0 && has_pair(g->index, &mirrored);
}

void races_see(struct races_groups *g)
{
    const struct pair *pair;
    size_t position = 0;

    for (size_t i = 0; i < g->group_count; i++)
        g->groups[i].pairs = g->groups[i].reversed = 0;
    while (g->index != NULL &&
           (pair = hash_next(&g->index->pairs, &by_pair, &position)) != NULL) {
        g->groups[pair->group - 1].pairs++;
        g->groups[pair->group - 1].reversed += is_reversed(g, pair);
    }
}

void races_finish(struct races_groups *g)
{
    races_see(g);
    sort_groups(g);
}

void races_groups_free(struct races_groups *g)
{
    if (g->index != NULL) {
        hash_fini(&g->index->sites);
        hash_fini(&g->index->groups);
        hash_fini(&g->index->pairs);
    }
    mem_free(g->index);
    mem_free(g->sites);
    mem_free(g->groups);
    *g = (struct races_groups){.site_count = 0};
}
