/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_cut.c - the cut before an alternative (races_order.h).
 *
 * A cut of all that must have happened would leave out most of a run.  So all is kept that does not depend on the message that the
 * receive took, nor on the one that it takes instead; then what must have happened is added.  If these two do not go
 * together, nothing is kept but that.
 */
#include "tools/races/races_finder.h"

#include <errno.h>

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
    const struct cut *cut = cut_before(f, kept);

    return cut != NULL ? cut : cut_before(f, NULL);
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
    uint32_t *kept = err == 0 ? finder_block(&f, f.n + 1u, sizeof *kept) : NULL;
    struct races_cut cut = {.finder = &f};

    if (err == 0)
        f.is_free = finder_block(&f, job->receive_count + 1u, sizeof *f.is_free);
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
    finder_free(&f);
    return err;
}
