/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_order.c - see races_order.h.
 *
 * A cut says how many operations of each rank have happened.  A rank knew a cut at each position: its own operations, all
 * operations before the sends of messages that were reported to it, and all before the posts of the receives that took its
 * synchronous sends, if these sends were reported to it.  Can receive R match message M?  A cut is made of all that must have happened, and grows until it is closed:
 *
 *   a message has arrived ──> it was sent, and all before it in its channel have arrived
 *   a receive Y is open, and a message has arrived that Y accepts and that a later receive has taken, or none
 *                         ──> Y has matched its own message, which has arrived; or Y was cancelled
 *
 * (Without the second rule, Y would have matched that message: a run that was not recorded.)  M may arrive
 *
 *   late    R is posted; the cut has all that R's rank did before, and what M's sender did before.  M comes last.
 *   early   M waits when R is posted.  One cut has what was before M, another one what was before R.  A message of the first
 *           cut comes before all that the second one has in addition: so receives of the second cut must have ended in the
 *           first one if they accept it.
 *
 * R has no such alternative if the cut has the report of R, a message that R accepts and that no earlier receive took, or a
 * match that never was.  Both are necessary and sufficient: the recorded run without what is not in the cut is a run.
 */
#include "tools/races/races_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/mem.h"

/* The messages from one rank to another, in the order of their sends. */
struct channel {
    uint32_t from, to;
    uint32_t first, count;        /* in by_channel */
    uint32_t group[2], groups[2]; /* of each struct grouping */
};

/* The messages of a channel with one communicator and tag, or with one communicator. */
struct group {
    uint32_t comm, tag;
    uint32_t first, count; /* in messages */
};

/* Messages by channel, communicator, perhaps tag, and index. */
struct grouping {
    bool has_tags; /* if not, the tags of its groups are 0 */
    struct group *groups;
    uint32_t count;
    uint32_t *messages;
    uint32_t *latest; /* where the last one of messages[first..i] of a group is taken */
};

struct rank {
    uint32_t channel, channels; /* into it */
    /* from position known[i] on it knows the cut at cuts[i * ranks] */
    uint32_t *known, *cuts;
    uint32_t known_count;
    uint32_t done; /* operations, while the cuts are made */
    /* its receives and probes from any source, by position, and those before which all are over at a position */
    uint32_t *wild;
    uint32_t *over; /* the latest end of wild[0..i]; a receive that never ends has none */
    uint32_t wild_count;
    uint32_t *endless; /* receives and probes from any source that never end */
    uint32_t endless_count;
    uint32_t *loose; /* receives from one source that got nothing */
    uint32_t loose_count;
};

/* So many messages have arrived, if turn is the present one. */
struct arrived {
    uint32_t turn, count;
};

/* The operations and arrivals that have happened. */
struct cut {
    uint32_t *done;          /* operations of each rank */
    struct arrived *arrived; /* of each channel: more than what reports say */
    uint32_t *ended;         /* ended[receive] is the present turn: it has */
};

/* A receive and a message for which so many others would have to be looked at are not decided. */
#define LOOKS_MAX 20000

struct finder {
    struct races_job *job;
    uint32_t n;
    struct rank *ranks;
    struct channel *channels;
    uint32_t channel_count;
    uint32_t *by_channel;
    struct grouping groupings[2]; /* with tags, and for receives of any tag */
    /* of by_channel[i..]: the first position at which one is known to have arrived, at its receiver, or its sender */
    uint32_t *reported, *sent;
    uint32_t *seen; /* of each message: the first position at which its rank is told of it */
    /* the receive and the message that are looked at; first_for() of the receive and each channel of its rank */
    uint32_t receive, message;
    uint32_t *firsts;
    bool *
        is_free; /* of each receive: it may get another message, if the one that is looked at does */
    struct cut cuts[2];
    uint32_t turn, looks;
    bool grows, is_undecided;
    races_found_fn *found;
    void *arg;
    struct mem_block *blocks;
};

/* ---- memory: all of it is freed together ---- */

struct mem_block {
    struct mem_block *next;
};

/* Zeros, or NULL. */
static void *block_of(struct finder *f, size_t count, size_t size)
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

static void blocks_free(struct finder *f)
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

static const struct races_message *message_at(const struct finder *f, const struct channel *c,
                                              uint32_t index)
{
    return &f->job->messages[f->by_channel[c->first + index - 1]];
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
static uint32_t first_for(const struct finder *f, const struct races_receive *r,
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
static bool cut_add(const struct finder *f, uint32_t *cut, uint32_t rank, uint32_t position)
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
        f->ranks[r].known = block_of(f, most + 1, sizeof(uint32_t));
        f->ranks[r].cuts = block_of(f, most + 1, f->n * sizeof(uint32_t));
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

static uint32_t end_of(const struct races_receive *r)
{
    return r->report < r->cancel ? r->report : r->cancel;
}

static int wild_make(struct finder *f)
{
    const struct races_job *job = f->job;

    for (uint32_t r = 0; r < f->n; r++) {
        struct rank *rank = &f->ranks[r];
        uint32_t posts = 0, latest = 0;

        for (uint32_t i = 0; i < job->ranks[r].count; i++)
            posts += job->ranks[r].ops[i].kind == RACES_POST ||
                     job->ranks[r].ops[i].kind == RACES_LOOK;
        rank->wild = block_of(f, posts, sizeof(uint32_t));
        rank->over = block_of(f, posts, sizeof(uint32_t));
        rank->endless = block_of(f, posts, sizeof(uint32_t));
        rank->loose = block_of(f, posts, sizeof(uint32_t));
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

/* ---- cuts ---- */

/* A channel has so many arrived messages. */
static void has_arrived(const struct finder *f, struct cut *cut, uint32_t channel,
                        uint32_t index)
{
    struct arrived *arrived = &cut->arrived[channel];

    if (index == 0 || (arrived->turn == f->turn && index <= arrived->count))
        return;
    *arrived = (struct arrived){f->turn, index};
    (void)cut_add(f, cut->done, f->channels[channel].from,
                  message_at(f, &f->channels[channel], index)->sent);
}

/* Has the message of this index arrived? */
static bool is_there(const struct finder *f, const struct cut *cut, uint32_t channel,
                     uint32_t index)
{
    const struct channel *c = &f->channels[channel];
    const struct arrived *own = &cut->arrived[channel];
    uint32_t at = c->first + index - 1;

    return f->reported[at] <= cut->done[c->to] || f->sent[at] <= cut->done[c->from] ||
           (own->turn == f->turn && index <= own->count);
}

/* Must y have ended in the cut, because of a message that has arrived there, or of the one that is looked at? */
static bool must_end(const struct finder *f, const struct cut *cut,
                     const struct races_receive *y)
{
    const struct races_message *m = &f->job->messages[f->message];
    const struct races_receive *r = &f->job->receives[f->receive];
    const struct rank *rank = &f->ranks[y->rank];

    for (uint32_t i = rank->channel; i < rank->channel + rank->channels; i++) {
        uint32_t first = first_for(f, y, &f->channels[i]);

        if (first != RACES_NONE && is_there(f, cut, i, first))
            return true;
        if (first == m->index && i == m->channel && y->post < r->post &&
            y->message != f->message) /* a probe may have found it */
            return true;
    }
    return false;
}

/* Adds to the cut what a receive implies that is posted, and has not ended in the cut.  False: there is no such run. */
static bool end_receive(struct finder *f, struct cut *cut, uint32_t number)
{
    const struct races_receive *y = &f->job->receives[number];

    if (number == f->receive || cut->ended[number] == f->turn ||
        end_of(y) <= cut->done[y->rank])
        return true;
    if (++f->looks > LOOKS_MAX) {
        f->is_undecided = true;
        return false;
    }
    if (!must_end(f, cut, y))
        return true;
    cut->ended[number] = f->turn;
    f->grows = true;
    if (y->message != RACES_NONE)
        has_arrived(f, cut, f->job->messages[y->message].channel,
                    f->job->messages[y->message].index);
    else
        (void)cut_add(f, cut->done, y->rank, y->cancel);
    return y->message != RACES_NONE || y->cancel != RACES_NONE;
}

/* Does this for the receives of a rank that are posted in the first cut, and have not ended in the other one. */
static bool end_of_rank(struct finder *f, const struct cut *posted, struct cut *cut,
                        const struct rank *rank, uint32_t number)
{
    uint32_t low = 0, high = rank->wild_count, position = posted->done[number];

    while (low < high) { /* the first one that is posted later */
        uint32_t middle = low + (high - low) / 2;

        if (f->job->receives[rank->wild[middle]].post <= position)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && rank->over[low] > cut->done[number])
        if (!end_receive(f, cut, rank->wild[low]))
            return false;
    for (uint32_t i = 0; i < rank->endless_count; i++)
        if (f->job->receives[rank->endless[i]].post <= position &&
            !end_receive(f, cut, rank->endless[i]))
            return false;
    return true;
}

/* Receives from the sender that got nothing, posted in the first cut, must have been cancelled in the other one. */
static bool end_loose(struct finder *f, const struct cut *posted, struct cut *cut)
{
    const struct races_receive *r = &f->job->receives[f->receive];
    const struct rank *rank = &f->ranks[r->rank];

    for (uint32_t i = 0; i < rank->loose_count; i++)
        if (f->job->receives[rank->loose[i]].post <= posted->done[r->rank] &&
            !end_receive(f, cut, rank->loose[i]))
            return false;
    return true;
}

/* Adds to the cut what follows from it.  False: there is no such run. */
static bool cut_close(struct finder *f, const struct cut *posted, struct cut *cut)
{
    for (uint32_t r = 0; r < f->n; r++)
        if (f->ranks[r].wild_count + f->ranks[r].endless_count != 0 &&
            !end_of_rank(f, posted, cut, &f->ranks[r], r))
            return false;
    return end_loose(f, posted, cut);
}

static void cut_join(const struct finder *f, struct cut *cut, const struct cut *other)
{
    for (uint32_t r = 0; r < f->n; r++)
        if (cut->done[r] < other->done[r])
            cut->done[r] = other->done[r];
    for (uint32_t c = 0; c < f->channel_count; c++)
        if (other->arrived[c].turn == f->turn)
            has_arrived(f, cut, c, other->arrived[c].count);
}

/* Is the receive that is looked at still without a message?  When it is reported, its own one has arrived. */
static bool is_unmatched(const struct finder *f, const struct cut *cut)
{
    const struct races_receive *r = &f->job->receives[f->receive];
    const struct rank *rank = &f->ranks[r->rank];

    for (uint32_t i = 0; i < rank->channels; i++)
        if (f->firsts[i] != RACES_NONE && is_there(f, cut, rank->channel + i, f->firsts[i]))
            return false;
    return true;
}

/* A cut of all that is before the send of the message, and of the messages before it. */
static struct cut *cut_begin(struct finder *f)
{
    const struct races_message *m = &f->job->messages[f->message];
    struct cut *cut = &f->cuts[0];

    f->turn++;
    f->looks = 0;
    memset(cut->done, 0, f->n * sizeof *cut->done);
    (void)cut_add(f, cut->done, m->from, m->sent);
    has_arrived(f, cut, m->channel, m->index - 1);
    return cut;
}

/* Adds the operations that are to be kept, NULL: none. */
static void cut_keep(const struct finder *f, struct cut *cut, const uint32_t *kept)
{
    for (uint32_t r = 0; kept != NULL && r < f->n; r++)
        if (cut->done[r] < kept[r])
            cut->done[r] = kept[r];
}

/* The message arrives last. */
static bool comes_late(struct finder *f, const uint32_t *kept)
{
    const struct races_receive *r = &f->job->receives[f->receive];
    struct cut *cut = cut_begin(f);

    cut_keep(f, cut, kept);
    if (!is_unmatched(f, cut))
        return false;
    (void)cut_add(f, cut->done, r->rank, r->post == r->report ? r->post - 1 : r->post);
    do {
        f->grows = false;
        if (!is_unmatched(f, cut) || !cut_close(f, cut, cut))
            return false;
    } while (f->grows);
    return is_unmatched(f, cut);
}

/* The message waits when the receive is posted: one cut is what was before it, and another one what was before the receive. */
static bool comes_early(struct finder *f, const uint32_t *kept)
{
    const struct races_receive *r = &f->job->receives[f->receive];
    const struct races_message *m = &f->job->messages[f->message];
    struct cut *first = cut_begin(f), *then = &f->cuts[1];

    memset(then->done, 0, f->n * sizeof *then->done);
    cut_keep(f, then, kept);
    do {
        f->grows = false;
        if (!is_unmatched(f, first))
            return false;
        cut_join(f, then, first);
        has_arrived(f, then, m->channel, m->index);
        (void)cut_add(f, then->done, r->rank, r->post - 1);
        if (!cut_close(f, then, first) || !cut_close(f, then, then))
            return false;
    } while (f->grows);
    return is_unmatched(f, first) && then->done[r->rank] < r->report;
}

/* ---- all receives ---- */

/* The first message of each channel that a receive could take. */
static void firsts_make(struct finder *f, const struct races_receive *r)
{
    const struct rank *rank = &f->ranks[r->rank];

    for (uint32_t i = 0; i < rank->channels; i++)
        f->firsts[i] = first_for(f, r, &f->channels[rank->channel + i]);
}

static void find_of_receive(struct finder *f, uint32_t number, uint64_t *undecided)
{
    const struct races_receive *r = &f->job->receives[number];
    const struct rank *rank = &f->ranks[r->rank];

    firsts_make(f, r);
    for (uint32_t i = 0; i < rank->channels; i++) {
        const struct channel *c = &f->channels[rank->channel + i];
        uint32_t index = f->firsts[i];

        if (index == RACES_NONE || c->from == f->job->messages[r->message].from)
            continue;
        f->receive = number;
        f->message = f->by_channel[c->first + index - 1];
        f->is_undecided = false;
        if (comes_late(f, NULL) || comes_early(f, NULL))
            f->found(f->arg, number, f->message);
        else
            *undecided += f->is_undecided;
    }
}

static void find_of_rank(struct finder *f, uint32_t number, uint64_t *undecided)
{
    const struct races_job *job = f->job;

    for (uint32_t i = 0; i < job->ranks[number].count; i++) {
        const struct races_op *op = &job->ranks[number].ops[i];
        const struct races_receive *r;

        if (op->kind != RACES_POST && op->kind != RACES_LOOK)
            continue;
        r = &job->receives[op->what];
        if (r->is_checked && r->source == RACES_ANY && r->message != RACES_NONE)
            find_of_receive(f, op->what, undecided);
    }
}

static bool allocate(struct finder *f)
{
    const struct races_job *job = f->job;
    size_t messages = job->message_count + 1u;

    f->ranks = block_of(f, f->n + 1u, sizeof *f->ranks);
    f->firsts = block_of(f, f->n + 1u, sizeof *f->firsts); /* a channel for each sender */
    f->channels = block_of(f, messages, sizeof *f->channels);
    f->by_channel = block_of(f, messages, sizeof(uint32_t));
    f->reported = block_of(f, messages, sizeof(uint32_t));
    f->sent = block_of(f, messages, sizeof(uint32_t));
    f->seen = block_of(f, messages, sizeof(uint32_t));
    for (int i = 0; i < 2; i++) {
        f->cuts[i] = (struct cut){block_of(f, f->n + 1u, sizeof(uint32_t)),
                                  block_of(f, messages, sizeof(struct arrived)),
                                  block_of(f, job->receive_count + 1u, sizeof(uint32_t))};
        if (f->cuts[i].done == NULL || f->cuts[i].arrived == NULL || f->cuts[i].ended == NULL)
            return false;
    }
    for (int i = 0; i < 2; i++) {
        f->groupings[i] =
            (struct grouping){.has_tags = i == 0,
                              .groups = block_of(f, messages, sizeof(struct group)),
                              .messages = block_of(f, messages, sizeof(uint32_t)),
                              .latest = block_of(f, messages, sizeof(uint32_t))};
        if (f->groupings[i].groups == NULL || f->groupings[i].messages == NULL ||
            f->groupings[i].latest == NULL)
            return false;
    }
    return f->ranks != NULL && f->firsts != NULL && f->channels != NULL &&
           f->by_channel != NULL && f->reported != NULL && f->sent != NULL && f->seen != NULL;
}

static int finder_make(struct finder *f)
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

int races_find(struct races_job *job, races_found_fn *found, void *arg, uint64_t *undecided)
{
    struct finder f = {.job = job, .n = job->rank_count, .found = found, .arg = arg};
    int err;

    *undecided = 0;
    err = finder_make(&f);
    for (uint32_t r = 0; err == 0 && r < f.n; r++)
        find_of_rank(&f, r, undecided);
    blocks_free(&f);
    return err;
}

/* ---- a cut ---- */

/* The operations of a rank before the first one that knows this position of another rank. */
static uint32_t ignorant(const struct finder *f, uint32_t rank, uint32_t other,
                         uint32_t position)
{
    const struct rank *r = &f->ranks[rank];
    uint32_t low = 0, high = r->known_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (r->cuts[(size_t)middle * f->n + other] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->known_count ? r->known[low] - 1 : f->job->ranks[rank].count;
}

/* Leaves out what depends on this operation of a rank. */
static void leave_out(const struct finder *f, uint32_t *kept, uint32_t rank, uint32_t position)
{
    for (uint32_t i = 0; position != RACES_NONE && i < f->n; i++) {
        uint32_t before = i == rank ? position - 1 : ignorant(f, i, rank, position);

        if (kept[i] > before)
            kept[i] = before;
    }
}

/* Where the sender is told that a synchronous send of this message is complete. */
static uint32_t told_of_send(const struct finder *f, uint32_t message)
{
    const struct races_rank *sender = &f->job->ranks[f->job->messages[message].from];

    for (uint32_t i = f->job->messages[message].sent; i < sender->count; i++)
        if (sender->ops[i].kind == RACES_SENT && sender->ops[i].what == message)
            return i + 1;
    return RACES_NONE;
}

/* If the receive that is looked at takes another message, later ones of its rank may do so too: their messages are free, and they
 * may take the messages of still later ones. */
#define FREE_MAX 64

struct freed {
    const struct races_receive *receives[FREE_MAX]; /* one for all that accept the same */
    const struct races_message *messages[FREE_MAX]; /* one for all of a sender and envelope */
    uint32_t receive_count, message_count;
};

static bool accepts_same(const struct races_receive *a, const struct races_receive *b)
{
    return a->comm == b->comm && a->source == b->source && a->is_any_tag == b->is_any_tag &&
           (a->is_any_tag || a->tag == b->tag);
}

static void free_message(struct freed *freed, const struct races_message *m)
{
    uint32_t i = 0;

    while (i < freed->message_count &&
           (freed->messages[i]->from != m->from || freed->messages[i]->comm != m->comm ||
            freed->messages[i]->tag != m->tag))
        i++;
    if (i == freed->message_count && i < FREE_MAX)
        freed->messages[freed->message_count++] = m;
}

static void free_receive(struct freed *freed, const struct races_receive *r)
{
    uint32_t i = 0;

    while (i < freed->receive_count && !accepts_same(freed->receives[i], r))
        i++;
    if (i == freed->receive_count && i < FREE_MAX)
        freed->receives[freed->receive_count++] = r;
}

/* A set that is full may have more: then all that is later depends on it. */
static bool depends(const struct freed *freed, const struct races_receive *later,
                    const struct races_message *m)
{
    for (uint32_t i = 0; i < freed->message_count; i++)
        if (races_accepts(later, freed->messages[i]))
            return true;
    for (uint32_t i = 0; i < freed->receive_count; i++)
        if (races_accepts(freed->receives[i], m))
            return true;
    return freed->message_count == FREE_MAX || freed->receive_count == FREE_MAX;
}

/* Finds the later receives and probes of the rank that may get another message, and leaves out what depends on them. */
static void leave_out_later(struct finder *f, uint32_t *kept)
{
    const struct races_receive *r = &f->job->receives[f->receive];
    const struct races_rank *rank = &f->job->ranks[r->rank];
    struct freed freed = {.message_count = 0};

    free_message(&freed, &f->job->messages[r->message]);
    for (uint32_t i = r->post; i < rank->count; i++) {
        uint32_t number = rank->ops[i].what;
        const struct races_receive *later = &f->job->receives[number];

        if ((rank->ops[i].kind != RACES_POST && rank->ops[i].kind != RACES_LOOK) ||
            later->message == RACES_NONE ||
            (later->message != f->message &&
             !depends(&freed, later, &f->job->messages[later->message])))
            continue;
        f->is_free[number] = true;
        leave_out(f, kept, r->rank, later->report);
        leave_out(f, kept, f->job->messages[later->message].from,
                  told_of_send(f, later->message));
        if (later->is_probe)
            continue;
        free_receive(&freed, later);
        if (later->message != f->message)
            free_message(&freed, &f->job->messages[later->message]);
    }
}

/* All that does not depend on what has taken the message of the receive, or this message. */
static void kept_make(struct finder *f, uint32_t *kept)
{
    const struct races_receive *r = &f->job->receives[f->receive];

    for (uint32_t i = 0; i < f->n; i++)
        kept[i] = f->job->ranks[i].count;
    leave_out(f, kept, r->rank, r->report);
    leave_out(f, kept, r->rank, f->seen[f->message]);
    leave_out(f, kept, f->job->messages[r->message].from, told_of_send(f, r->message));
    leave_out(f, kept, f->job->messages[f->message].from, told_of_send(f, f->message));
    leave_out_later(f, kept);
}

/* The last cut before the alternative, which has as much of `kept` as can be; or NULL. */
static const struct cut *cut_of(struct finder *f, const uint32_t *kept)
{
    for (int i = 0; i < 2; i++, kept = NULL) {
        if (comes_late(f, kept))
            return &f->cuts[0];
        if (comes_early(f, kept))
            return &f->cuts[1];
    }
    return NULL;
}

bool races_cut_has(const struct races_cut *cut, uint32_t receive)
{
    const struct finder *f = cut->finder;
    uint32_t message = f->job->receives[receive].message;

    return message != RACES_NONE && receive != f->receive && !f->is_free[receive] &&
           is_there(f, cut->last, f->job->messages[message].channel,
                    f->job->messages[message].index);
}

/* Is the message the first one of its sender that the receive could take? */
static bool is_first(const struct finder *f)
{
    const struct races_message *m = &f->job->messages[f->message];
    const struct races_receive *r = &f->job->receives[f->receive];

    return r->message != RACES_NONE && m->to == r->rank &&
           f->firsts[m->channel - f->ranks[r->rank].channel] == m->index;
}

int races_find_cut(struct races_job *job, uint32_t receive, uint32_t message, races_cut_fn *got,
                   void *arg)
{
    struct finder f = {
        .job = job, .n = job->rank_count, .receive = receive, .message = message};
    int err = finder_make(&f);
    uint32_t *kept = err == 0 ? block_of(&f, f.n + 1u, sizeof *kept) : NULL;
    struct races_cut cut = {.finder = &f};

    if (err == 0)
        f.is_free = block_of(&f, job->receive_count + 1u, sizeof *f.is_free);
    if (err == 0 && (kept == NULL || f.is_free == NULL))
        err = -ENOMEM;
    if (err == 0) {
        firsts_make(&f, &job->receives[receive]);
        if (is_first(&f)) {
            kept_make(&f, kept);
            cut.last = cut_of(&f, kept);
        }
        err = cut.last == NULL ? -ENOENT : 0;
    }
    if (err == 0) {
        cut.done = cut.last->done;
        got(arg, &cut);
    }
    blocks_free(&f);
    return err;
}
