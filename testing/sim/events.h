/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.h - future events, by time.  Private to testing/sim.
 *
 * A binary heap.  Events of one moment happen in the order in which they were added, so that
 * the order is reproducible.
 */
#ifndef TESTING_SIM_EVENTS_H
#define TESTING_SIM_EVENTS_H

#include "base/base.h"

enum event_kind { EVENT_PACKET, EVENT_SPACE, EVENT_MOVED, EVENT_ALARM };

struct event {
    uint64_t at_ns, number;
    void *what; /* a queue, a link, a read; NULL for an alarm */
    uint32_t who;
    enum event_kind kind;
};

struct events {
    struct event *heap;
    size_t count, capacity;
    uint64_t next_number;
};

void events_fini(struct events *events);

/* 0; -ENOMEM. */
int events_add(struct events *events, struct event event);

/* The next one, or NULL. */
const struct event *events_first(const struct events *events);

/* Removes the next event. */
struct event events_take(struct events *events);

#endif
