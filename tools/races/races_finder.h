/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_finder.h - what the parts of races_order.h hand on to each other.
 *
 *   races_tables.c   a job becomes tables: channels, positions, what each rank knew
 *   races_order.c   from these, cuts: can a receive match another message?
 *   races_cut.c     the cut before one alternative, which keeps much of the run
 */
#ifndef TOOLS_RACES_FINDER_H
#define TOOLS_RACES_FINDER_H

#include "races_order.h"

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
    /* of each receive: it may get another message, if the one that is looked at does */
    bool *is_free;
    struct cut cuts[2];
    uint32_t turn, looks;
    bool grows, is_undecided;
    races_found_fn *found;
    void *arg;
    struct mem_block *blocks;
};

/* ---- races_tables.c ---- */

/* Fills in the tables of a finder that has its job.  0; -ENOMEM; -EBADMSG: the parts of the job contradict each other.  Undone by
 * finder_free(), in both cases. */
int finder_make(struct finder *f);
void finder_free(struct finder *f);

/* Zeros, or NULL.  finder_free() frees them. */
void *finder_block(struct finder *f, size_t count, size_t size);

/* The index of the first message of this channel that r accepts and no receive before r has taken; or RACES_NONE. */
uint32_t first_for(const struct finder *f, const struct races_receive *r,
                   const struct channel *c);

/* cut gets all that is before this position of the rank, and that operation.  True: it grows. */
bool cut_add(const struct finder *f, uint32_t *cut, uint32_t rank, uint32_t position);

static inline const struct races_message *message_at(const struct finder *f,
                                                     const struct channel *c, uint32_t index)
{
    return &f->job->messages[f->by_channel[c->first + index - 1]];
}

static inline uint32_t end_of(const struct races_receive *r)
{
    return r->report < r->cancel ? r->report : r->cancel;
}

/* ---- races_order.c ---- */

/* The first message of each channel that a receive could take. */
void firsts_make(struct finder *f, const struct races_receive *r);

/* Can the receive that is looked at match the message?  NULL: no; or the last cut before that.  It has the operations in kept,
 * or NULL. */
const struct cut *cut_before(struct finder *f, const uint32_t *kept);

/* Has the message of this index arrived? */
bool is_there(const struct finder *f, const struct cut *cut, uint32_t channel, uint32_t index);

#endif
