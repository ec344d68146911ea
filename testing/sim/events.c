/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.c - see events.h.
 */
#include "testing/sim/events.h"

#include <errno.h>

#include "base/mem.h"

#define FIRST_CAPACITY 64

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static int grow(struct events *events)
{
    size_t capacity = max_size(FIRST_CAPACITY, events->capacity * 2);
    struct event *heap = mem_realloc(events->heap, capacity * sizeof *heap);

    if (heap == NULL)
        return -ENOMEM;
    events->heap = heap;
    events->capacity = capacity;
    return 0;
}

void events_fini(struct events *events)
{
    mem_free(events->heap);
    *events = (struct events){0};
}

int events_add(struct events *events, struct event event)
{
    size_t at = events->count;

    /* twice: a test that fails one allocation means one of the library, not of the
     * simulation */
    if (events->count == events->capacity && grow(events) != 0 && grow(events) != 0)
        return -ENOMEM;
    event.number = events->next_number++;
    while (at > 0 && is_before(&event, &events->heap[(at - 1) / 2])) {
        events->heap[at] = events->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->heap[at] = event;
    events->count++;
    return 0;
}

const struct event *events_first(const struct events *events)
{
    return events->count != 0 ? &events->heap[0] : NULL;
}

struct event events_take(struct events *events)
{
    struct event first = events->heap[0];
    struct event last = events->heap[--events->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < events->count) {
        if (child + 1 < events->count &&
            is_before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!is_before(&events->heap[child], &last))
            break;
        events->heap[at] = events->heap[child];
        at = child;
    }
    if (events->count != 0)
        events->heap[at] = last;
    return first;
}
