/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - Kahn's algorithm: take what nothing is before, again and again.
 */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *memory, size_t count, size_t size)
{
    memory = realloc(memory, (count + 1) * size);
    if (memory == NULL) {
        fprintf(stderr, "sim: no memory\n");
        exit(1);
    }
    return memory;
}

void order_init(struct order *o, uint32_t nodes)
{
    *o = (struct order){.nodes = nodes};
}

void order_fini(struct order *o)
{
    free(o->from);
    free(o->to);
    free(o->sorted);
}

void order_before(struct order *o, uint32_t a, uint32_t b)
{
    if (o->count == o->capacity) {
        o->capacity = o->capacity == 0 ? 64 : o->capacity * 2;
        o->from = grown(o->from, o->capacity, sizeof *o->from);
        o->to = grown(o->to, o->capacity, sizeof *o->to);
    }
    o->from[o->count] = a;
    o->to[o->count++] = b;
}

/* Where the edges of each node begin in by[], which are numbers of edges. */
struct index {
    uint32_t *first, *by;
};

static struct index index_make(const struct order *o)
{
    struct index index = {grown(NULL, o->nodes + 1, sizeof(uint32_t)),
                          grown(NULL, o->count, sizeof(uint32_t))};

    memset(index.first, 0, (o->nodes + 1) * sizeof(uint32_t));
    for (uint32_t e = 0; e < o->count; e++)
        index.first[o->from[e]]++;
    for (uint32_t n = 0; n < o->nodes; n++)
        index.first[n + 1] += index.first[n];
    for (uint32_t e = o->count; e-- > 0;)
        index.by[--index.first[o->from[e]]] = e;
    return index;
}

/* Some node that still waits, and what it waits for, and so on: sooner or later one comes
 * again.  From there it is a circle, backwards. */
static uint32_t find_circle(struct order *o, const uint32_t *waits)
{
    uint32_t *seen = grown(NULL, o->nodes, sizeof *seen), *path = o->sorted;
    uint32_t node = 0, length = 0, begin;

    memset(seen, 0xff, o->nodes * sizeof *seen);
    while (waits[node] == 0)
        node++;
    while (seen[node] == UINT32_MAX) {
        uint32_t e = 0;

        seen[node] = length;
        path[length++] = node;
        while (o->to[e] != node || waits[o->from[e]] == 0)
            e++;
        node = o->from[e];
    }
    begin = seen[node];
    free(seen);
    memmove(path, path + begin, (length - begin) * sizeof *path);
    length -= begin;
    for (uint32_t i = 0; i < length / 2; i++) {
        uint32_t other = path[length - 1 - i];

        path[length - 1 - i] = path[i];
        path[i] = other;
    }
    return length;
}

bool order_sort(struct order *o, uint32_t *count)
{
    uint32_t *waits = grown(NULL, o->nodes, sizeof *waits), done = 0, ready = 0;
    struct index index = index_make(o);

    o->sorted = grown(o->sorted, o->nodes, sizeof *o->sorted);
    memset(waits, 0, o->nodes * sizeof *waits);
    for (uint32_t e = 0; e < o->count; e++)
        waits[o->to[e]]++;
    for (uint32_t n = 0; n < o->nodes; n++)
        if (waits[n] == 0)
            o->sorted[ready++] = n;
    for (; done < ready; done++)
        for (uint32_t i = index.first[o->sorted[done]]; i < index.first[o->sorted[done] + 1];
             i++)
            if (--waits[o->to[index.by[i]]] == 0)
                o->sorted[ready++] = o->to[index.by[i]];
    *count = done == o->nodes ? done : find_circle(o, waits);
    free(waits);
    free(index.first);
    free(index.by);
    return done == o->nodes;
}
