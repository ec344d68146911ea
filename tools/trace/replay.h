/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.h - runs a recorded trace through plain lists: counts what they cost, and checks the answers.
 *
 * The list is the simplest matching engine there is: each queue of a context id in the
 * order of age, searched from its oldest end.  It gives the same answers as the engine that
 * was recorded, or one of them is wrong; how many entries it walks is what the program asks
 * of an engine that has nothing better.
 */
#ifndef TOOLS_REPLAY_H
#define TOOLS_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "trace/trace.h"

enum replay_search { REPLAY_ARRIVALS, REPLAY_POSTS, REPLAY_PROBES, REPLAY_SEARCHES };

/* Searches that walked 0, 1, 2-15, 16-255, 256-4095, more entries. */
#define REPLAY_RANGES 6

struct replay_walks {
    uint64_t count, steps, max;
    uint64_t ranges[REPLAY_RANGES];
};

/* One way of not comparing, and how many receives were posted that way. */
struct replay_mask {
    uint64_t ignore, posts;
    bool any_source;
};

struct replay {
    uint64_t source_bits; /* set by the caller: the bits of a tag that name the sender, or 0 */
    uint64_t records, ns;
    uint64_t events[TRACE_TYPES];
    uint64_t waited[TRACE_TYPES];        /* posts and arrivals that met nobody at once */
    uint64_t found;                      /* probes that saw a message */
    uint64_t any_source;                 /* posts with it */
    uint64_t contexts;                   /* that occur */
    uint64_t posted_max, unexpected_max; /* longest queues of one context id */
    uint64_t wrong;                      /* answers that are not the oldest that fits */
    uint64_t left_recvs, left_msgs;      /* that nobody had met at the close */
    struct replay_walks walks[REPLAY_SEARCHES];
    struct replay_mask *masks; /* mask_count of them */
    size_t mask_count;
    uint32_t mask_capacity;
    char error[256]; /* of the last replay_event() that failed, or the first wrong answer */
    /* replay.c's own */
    struct hash entries;
};

/* Undone by replay_fini(). */
void replay_init(struct replay *replay);
void replay_fini(struct replay *replay);

/* The next event.  0; -EBADMSG it names somebody who is not there (error says whom); or
 * -ENOMEM. */
int replay_event(struct replay *replay, const struct trace_event *event);

#endif
