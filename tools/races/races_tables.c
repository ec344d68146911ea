/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_tables.c - a job becomes tables (races_finder.h).
 *
 *   operations ──> positions ──> channels: the messages of two ranks; groups of them that a receive accepts
 *                     │              └──> from which position on is a message known to have arrived?
 *                     └──> what each rank knew, at each position where it learnt something
 *
 * A job that no run can be is found out here.
 */
#include "tools/races/races_finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

/* ---- memory: all of it is freed together ---- */

struct mem_block {
    struct mem_block *next;
};

/* Zeros, or NULL. */
void *finder_block(struct finder *f, size_t count, size_t size)
{
    struct mem_block *block = size != 0 && count > (SIZE_MAX - sizeof *block) / size
                                  ? NULL
                                  : mem_calloc(1, sizeof *block + count * size);

    if (block == NULL)
        return NULL;
    block->next = f->blocks;
    f->blocks = block;
    return block + 1;
}

void finder_free(struct finder *f)
{
    while (f->blocks != NULL) {
        struct mem_block *block = f->blocks;

        f->blocks = block->next;
        mem_free(block);
    }
}

/* ---- channels ---- */

static const struct races_message *sorting;
static bool has_tags;

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int by_channel(const void *a, const void *b)
{
    const struct races_message *x = &sorting[*(const uint32_t *)a];
    const struct races_message *y = &sorting[*(const uint32_t *)b];
    int order = compare_numbers(x->to, y->to);

    if (order == 0)
        order = compare_numbers(x->from, y->from);
    return order != 0 ? order : compare_numbers(x->sent, y->sent);
}

static int by_group(const void *a, const void *b)
{
    const struct races_message *x = &sorting[*(const uint32_t *)a];
    const struct races_message *y = &sorting[*(const uint32_t *)b];
    int order = compare_numbers(x->channel, y->channel);

    if (order == 0)
        order = compare_numbers(x->comm, y->comm);
    if (order == 0 && has_tags)
        order = compare_numbers(x->tag, y->tag);
    return order != 0 ? order : compare_numbers(x->index, y->index);
}

static void channels_make(struct finder *f)
{
    struct races_message *messages = f->job->messages;

    for (uint32_t i = 0; i < f->job->message_count; i++)
        f->by_channel[i] = i;
    sorting = messages;
    qsort(f->by_channel, f->job->message_count, sizeof *f->by_channel, by_channel);
    for (uint32_t i = 0; i < f->job->message_count; i++) {
        struct races_message *m = &messages[f->by_channel[i]];
        struct channel *c = &f->channels[f->channel_count];

        if (f->channel_count == 0 || c[-1].from != m->from || c[-1].to != m->to) {
            *c = (struct channel){.from = m->from, .to = m->to, .first = i};
            if (f->ranks[m->to].channels++ == 0)
                f->ranks[m->to].channel = f->channel_count;
            f->channel_count++;
        }
        c = &f->channels[f->channel_count - 1];
        m->channel = f->channel_count - 1;
        m->index = ++c->count;
    }
}

/* Where the message is taken at its rank. */
static uint32_t taken_at(const struct finder *f, uint32_t message)
{
    uint32_t receive = f->job->messages[message].receive;

    return receive != RACES_NONE ? f->job->receives[receive].post : RACES_NONE;
}

static void grouping_make(struct finder *f, uint32_t number)
{
    struct grouping *all = &f->groupings[number];

    memcpy(all->messages, f->by_channel, f->job->message_count * sizeof *all->messages);
    has_tags = all->has_tags;
    qsort(all->messages, f->job->message_count, sizeof *all->messages, by_group);
    for (uint32_t i = 0; i < f->job->message_count; i++) {
        const struct races_message *m = &f->job->messages[all->messages[i]];
        struct channel *c = &f->channels[m->channel];
        struct group *g = &all->groups[all->count];
        uint32_t tag = has_tags ? m->tag : 0;

        all->latest[i] = taken_at(f, all->messages[i]);
        if (c->groups[number] == 0 || g[-1].comm != m->comm || g[-1].tag != tag) {
            *g = (struct group){.comm = m->comm, .tag = tag, .first = i};
            if (c->groups[number]++ == 0)
                c->group[number] = all->count;
            all->count++;
        } else if (all->latest[i] < all->latest[i - 1]) {
            all->latest[i] = all->latest[i - 1];
        }
        all->groups[all->count - 1].count++;
    }
}
/* The first message of a group that is not taken before this position: from there on, latest is not less. */
static uint32_t first_of_group(const struct finder *f, const struct grouping *all,
                               const struct group *g, uint32_t position)
{
    uint32_t low = g->first, high = g->first + g->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (all->latest[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->first + g->count ? f->job->messages[all->messages[low]].index : RACES_NONE;
}

/* The index of the first message of this channel that r accepts and no receive before r has taken; or RACES_NONE. */
uint32_t first_for(const struct finder *f, const struct races_receive *r,
                   const struct channel *c)
{
    uint32_t number = r->is_any_tag, tag = r->is_any_tag ? 0 : r->tag;
    const struct grouping *all = &f->groupings[number];
    uint32_t low = c->group[number], high = low + c->groups[number], end = high;

    if (r->source != RACES_ANY && r->source != c->from)
        return RACES_NONE;
    while (low < high) { /* the first group that is not before r's */
        uint32_t middle = low + (high - low) / 2;
        const struct group *g = &all->groups[middle];

        if (g->comm < r->comm || (g->comm == r->comm && g->tag < tag))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end || all->groups[low].comm != r->comm || all->groups[low].tag != tag)
        return RACES_NONE;
    return first_of_group(f, all, &all->groups[low], r->post);
}

/* ---- positions ---- */

static void positions_of_op(struct finder *f, uint32_t position, const struct races_op *op)
{
    struct races_job *job = f->job;

    switch (op->kind) {
    case RACES_SEND:
        job->messages[op->what].sent = position;
        break;
    case RACES_SENT:
        break;
    case RACES_POST:
        job->receives[op->what].post = position;
        break;
    case RACES_LOOK:
        job->receives[op->what].post = job->receives[op->what].report = position;
        break;
    case RACES_REPORT:
        if (job->receives[op->what].report == RACES_NONE)
            job->receives[op->what].report = position;
        break;
    case RACES_CANCEL:
        job->receives[op->what].cancel = position;
        break;
    }
}

static bool is_of_rank(const struct races_job *job, uint32_t rank, const struct races_op *op)
{
    bool is_message = op->kind == RACES_SEND || op->kind == RACES_SENT;

    if (is_message)
        return op->what < job->message_count && job->messages[op->what].from == rank;
    return op->what < job->receive_count && job->receives[op->what].rank == rank;
}

/* False: the job has parts that do not belong together. */
static bool positions_make(struct finder *f)
{
    struct races_job *job = f->job;

    for (uint32_t i = 0; i < job->message_count; i++)
        job->messages[i].sent = RACES_NONE;
    for (uint32_t i = 0; i < job->receive_count; i++)
        job->receives[i].post = job->receives[i].report = job->receives[i].cancel = RACES_NONE;
    for (uint32_t r = 0; r < f->n; r++)
        for (uint32_t i = 0; i < job->ranks[r].count; i++) {
            if (!is_of_rank(job, r, &job->ranks[r].ops[i]))
                return false;
            positions_of_op(f, i + 1, &job->ranks[r].ops[i]);
        }
    for (uint32_t i = 0; i < job->message_count; i++) {
        const struct races_message *m = &job->messages[i];

        if (m->from >= f->n || m->to >= f->n || m->sent == RACES_NONE)
            return false;
        if (m->receive != RACES_NONE &&
            (m->receive >= job->receive_count || job->receives[m->receive].message != i ||
             job->receives[m->receive].post == RACES_NONE))
            return false;
    }
    for (uint32_t i = 0; i < job->receive_count; i++) {
        const struct races_receive *r = &job->receives[i];

        if (r->rank >= f->n || r->post == RACES_NONE ||
            (r->report != RACES_NONE && r->report < r->post) ||
            (r->message != RACES_NONE &&
             (r->message >= job->message_count ||
              !races_accepts(r, &job->messages[r->message]) ||
              (!r->is_probe && job->messages[r->message].receive != i))))
            return false;
    }
    return true;
}

/* When is a message of this channel, or a later one, known to have arrived? */
static void arrivals_make(struct finder *f)
{
    struct races_job *job = f->job;

    for (uint32_t i = 0; i < job->message_count; i++)
        f->seen[i] = f->reported[i] = f->sent[i] = RACES_NONE;
    for (uint32_t i = 0; i < job->receive_count; i++) {
        const struct races_receive *r = &job->receives[i];

        if (r->message != RACES_NONE && r->report < f->seen[r->message])
            f->seen[r->message] = r->report;
    }
    for (uint32_t i = 0; i < job->message_count; i++)
        f->reported[i] = f->seen[f->by_channel[i]];
    for (uint32_t r = 0; r < f->n; r++)
        for (uint32_t i = 0; i < job->ranks[r].count; i++) {
            const struct races_op *op = &job->ranks[r].ops[i];
            const struct races_message *m;

            if (op->kind != RACES_SENT)
                continue;
            m = &job->messages[op->what];
            f->sent[f->channels[m->channel].first + m->index - 1] = i + 1;
        }
    for (uint32_t c = 0; c < f->channel_count; c++)
        for (uint32_t i = f->channels[c].first + f->channels[c].count - 1;
             i > f->channels[c].first; i--) {
            if (f->reported[i] < f->reported[i - 1])
                f->reported[i - 1] = f->reported[i];
            if (f->sent[i] < f->sent[i - 1])
                f->sent[i - 1] = f->sent[i];
        }
}

/* ---- what ranks know ---- */

static const uint32_t *known_at(const struct finder *f, uint32_t rank, uint32_t position)
{
    const struct rank *r = &f->ranks[rank];
    uint32_t low = 0, high = r->known_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (r->known[middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low != 0 ? r->cuts + (size_t)(low - 1) * f->n : NULL;
}

/* cut gets all that is before this position of the rank, and that operation.  True: it grows. */
bool cut_add(const struct finder *f, uint32_t *cut, uint32_t rank, uint32_t position)
{
    const uint32_t *known;
    bool grows = cut[rank] < position;

    if (!grows)
        return false; /* a cut that has an operation has all before it */
    known = known_at(f, rank, position);
    for (uint32_t i = 0; known != NULL && i < f->n; i++)
        if (cut[i] < known[i])
            cut[i] = known[i];
    cut[rank] = position;
    return true;
}

/* From this position on the rank knows what another one had done at a position of that. */
static void rank_learns(struct finder *f, uint32_t rank, uint32_t position, uint32_t other,
                        uint32_t of_other)
{
    struct rank *r = &f->ranks[rank];
    uint32_t *cut = r->cuts + (size_t)r->known_count * f->n;
    const uint32_t *before = r->known_count != 0 ? cut - f->n : NULL;

    if (other == rank || (before != NULL && before[other] >= of_other))
        return;
    if (before != NULL)
        memcpy(cut, before, f->n * sizeof *cut);
    (void)cut_add(f, cut, other, of_other);
    r->known[r->known_count++] = position;
}

/* Space for all that the ranks can learn.  Most ranks learn less, and do not touch the rest. */
static int known_allocate(struct finder *f)
{
    for (uint32_t r = 0; r < f->n; r++) {
        const struct races_rank *ops = &f->job->ranks[r];
        size_t most = 0;

        for (uint32_t i = 0; i < ops->count; i++)
            most += ops->ops[i].kind == RACES_REPORT || ops->ops[i].kind == RACES_LOOK ||
                    ops->ops[i].kind == RACES_SENT;
        f->ranks[r].known = finder_block(f, most + 1, sizeof(uint32_t));
        f->ranks[r].cuts = finder_block(f, most + 1, f->n * sizeof(uint32_t));
        if (f->ranks[r].known == NULL || f->ranks[r].cuts == NULL)
            return -ENOMEM;
    }
    return 0;
}

/* The next operation of a rank.  False: it waits for another rank. */
static bool rank_goes_on(struct finder *f, uint32_t rank)
{
    const struct races_job *job = f->job;
    struct rank *r = &f->ranks[rank];
    const struct races_op *op = &job->ranks[rank].ops[r->done];
    uint32_t other = RACES_NONE, position = 0;

    if ((op->kind == RACES_REPORT || op->kind == RACES_LOOK) &&
        job->receives[op->what].message != RACES_NONE) {
        const struct races_message *m = &job->messages[job->receives[op->what].message];

        other = m->from;
        position = m->sent;
    } else if (op->kind == RACES_SENT && job->messages[op->what].receive != RACES_NONE) {
        other = job->messages[op->what].to;
        position = job->receives[job->messages[op->what].receive].post;
    }
    if (other != RACES_NONE && f->ranks[other].done < position)
        return false;
    r->done++;
    if (other != RACES_NONE)
        rank_learns(f, rank, r->done, other, position);
    return true;
}

static int known_make(struct finder *f)
{
    bool moves = true;

    if (known_allocate(f) < 0)
        return -ENOMEM;
    while (moves) {
        moves = false;
        for (uint32_t r = 0; r < f->n; r++)
            while (f->ranks[r].done < f->job->ranks[r].count && rank_goes_on(f, r))
                moves = true;
    }
    for (uint32_t r = 0; r < f->n; r++)
        if (f->ranks[r].done < f->job->ranks[r].count)
            return -EBADMSG;
    return 0;
}
/* ---- receives that may be open ---- */

static int wild_make(struct finder *f)
{
    const struct races_job *job = f->job;

    for (uint32_t r = 0; r < f->n; r++) {
        struct rank *rank = &f->ranks[r];
        uint32_t posts = 0, latest = 0;

        for (uint32_t i = 0; i < job->ranks[r].count; i++)
            posts += job->ranks[r].ops[i].kind == RACES_POST ||
                     job->ranks[r].ops[i].kind == RACES_LOOK;
        rank->wild = finder_block(f, posts, sizeof(uint32_t));
        rank->over = finder_block(f, posts, sizeof(uint32_t));
        rank->endless = finder_block(f, posts, sizeof(uint32_t));
        rank->loose = finder_block(f, posts, sizeof(uint32_t));
        if (rank->wild == NULL || rank->over == NULL || rank->endless == NULL ||
            rank->loose == NULL)
            return -ENOMEM;
        for (uint32_t i = 0; i < job->ranks[r].count; i++) {
            const struct races_op *op = &job->ranks[r].ops[i];
            const struct races_receive *one;

            if (op->kind != RACES_POST && op->kind != RACES_LOOK)
                continue;
            one = &job->receives[op->what];
            if (one->source != RACES_ANY) {
                if (one->message == RACES_NONE)
                    rank->loose[rank->loose_count++] = op->what;
                continue;
            }
            if (end_of(one) == RACES_NONE) {
                rank->endless[rank->endless_count++] = op->what;
                continue;
            }
            if (end_of(one) > latest)
                latest = end_of(one);
            rank->wild[rank->wild_count] = op->what;
            rank->over[rank->wild_count++] = latest;
        }
    }
    return 0;
}
/* ---- all of them ---- */

static bool allocate(struct finder *f)
{
    const struct races_job *job = f->job;
    size_t messages = job->message_count + 1u;

    f->ranks = finder_block(f, f->n + 1u, sizeof *f->ranks);
    f->firsts = finder_block(f, f->n + 1u, sizeof *f->firsts); /* a channel for each sender */
    f->channels = finder_block(f, messages, sizeof *f->channels);
    f->by_channel = finder_block(f, messages, sizeof(uint32_t));
    f->reported = finder_block(f, messages, sizeof(uint32_t));
    f->sent = finder_block(f, messages, sizeof(uint32_t));
    f->seen = finder_block(f, messages, sizeof(uint32_t));
    for (int i = 0; i < 2; i++) {
        f->cuts[i] = (struct cut){finder_block(f, f->n + 1u, sizeof(uint32_t)),
                                  finder_block(f, messages, sizeof(struct arrived)),
                                  finder_block(f, job->receive_count + 1u, sizeof(uint32_t))};
        if (f->cuts[i].done == NULL || f->cuts[i].arrived == NULL || f->cuts[i].ended == NULL)
            return false;
    }
    for (int i = 0; i < 2; i++) {
        f->groupings[i] =
            (struct grouping){.has_tags = i == 0,
                              .groups = finder_block(f, messages, sizeof(struct group)),
                              .messages = finder_block(f, messages, sizeof(uint32_t)),
                              .latest = finder_block(f, messages, sizeof(uint32_t))};
        if (f->groupings[i].groups == NULL || f->groupings[i].messages == NULL ||
            f->groupings[i].latest == NULL)
            return false;
    }
    return f->ranks != NULL && f->firsts != NULL && f->channels != NULL &&
           f->by_channel != NULL && f->reported != NULL && f->sent != NULL && f->seen != NULL;
}

int finder_make(struct finder *f)
{
    int err;

    if (!allocate(f))
        return -ENOMEM;
    if (!positions_make(f))
        return -EBADMSG;
    channels_make(f);
    grouping_make(f, 0);
    grouping_make(f, 1);
    arrivals_make(f);
    err = known_make(f);
    return err == 0 ? wild_make(f) : err;
}
