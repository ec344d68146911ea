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
#include "tools/races/races_finder.h"

#include <string.h>

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
bool is_there(const struct finder *f, const struct cut *cut, uint32_t channel, uint32_t index)
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

const struct cut *cut_before(struct finder *f, const uint32_t *kept)
{
    if (comes_late(f, kept))
        return &f->cuts[0];
    return comes_early(f, kept) ? &f->cuts[1] : NULL;
}

/* ---- all receives ---- */

/* The first message of each channel that a receive could take. */
void firsts_make(struct finder *f, const struct races_receive *r)
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
        if (cut_before(f, NULL) != NULL)
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
int races_find(struct races_job *job, races_found_fn *found, void *arg, uint64_t *undecided)
{
    struct finder f = {.job = job, .n = job->rank_count, .found = found, .arg = arg};
    int err;

    *undecided = 0;
    err = finder_make(&f);
    for (uint32_t r = 0; err == 0 && r < f.n; r++)
        find_of_rank(&f, r, undecided);
    finder_free(&f);
    return err;
}
