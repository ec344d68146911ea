/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_oracle.c - see rules_oracle.h.
 */
#include "rules_oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A text that grows until its space is full. */
struct text {
    char *at;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->at, t->size, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= t->size)
        n = t->size > 0 ? (int)t->size - 1 : 0;
    t->at += n;
    t->size -= (size_t)n;
}

static bool accepts(const struct rules_take *take, const struct rules_send *send)
{
    return take->context == send->context &&
           (take->source == RULES_ANY || take->source == send->from) &&
           (take->tag == RULES_ANY || take->tag == send->tag);
}

static bool has_message(const struct rules_take *take)
{
    return take->got != RULES_CANCELLED;
}

/* Was x posted before y, and does it remove its message? */
static bool was_posted_before(const struct rules_take *x, const struct rules_take *y)
{
    return !x->is_probe && x->end < y->begin;
}

static bool was_sent_before(const struct rules_send *a, const struct rules_send *b)
{
    return a->from == b->from && a->end < b->begin;
}

/* Must the event of x have happened before the event of y? */
static bool came_before(const struct rules_history *h, const struct rules_take *x,
                        const struct rules_take *y)
{
    uint64_t earliest = has_message(y) ? y->begin : y->cancel;

    if (x->over < earliest)
        return true;
    if (!has_message(y))
        return false;
    if (was_posted_before(x, y) && accepts(x, &h->sends[y->got]))
        return true;
    return has_message(x) && !x->is_probe &&
           was_sent_before(&h->sends[x->got], &h->sends[y->got]) &&
           accepts(y, &h->sends[x->got]);
}

static void describe(struct text *t, const struct rules_history *h, int n)
{
    const struct rules_take *take = &h->takes[n];

    say(t, "  take %d: %s context %d source %d tag %d, posted %llu-%llu, ", n,
        take->is_probe ? "probe" : "receive", take->context, take->source, take->tag,
        (unsigned long long)take->begin, (unsigned long long)take->end);
    if (has_message(take)) {
        const struct rules_send *send = &h->sends[take->got];

        say(t, "got message %d: from %d tag %d, sent %llu-%llu, ", take->got, send->from,
            send->tag, (unsigned long long)send->begin, (unsigned long long)send->end);
    } else {
        say(t, "cancelled from %llu on, ", (unsigned long long)take->cancel);
    }
    say(t, "over at %llu\n", (unsigned long long)take->over);
}

/* Each message was taken once, by a take that accepts it. */
static bool each_is_taken_once(const struct rules_history *h, struct text *t)
{
    int *taken = calloc((size_t)h->send_count + 1, sizeof *taken);
    bool ok = true;

    for (int i = 0; i < h->take_count && ok; i++) {
        const struct rules_take *take = &h->takes[i];

        if (!has_message(take))
            continue;
        if (take->got < 0 || take->got >= h->send_count ||
            !accepts(take, &h->sends[take->got])) {
            say(t, "got what it does not accept:\n");
            describe(t, h, i);
            ok = false;
        } else if (!take->is_probe && taken[take->got]++ > 0) {
            say(t, "a message was taken twice:\n");
            describe(t, h, i);
            ok = false;
        }
    }
    for (int i = 0; i < h->send_count && ok; i++) {
        if (taken[i] == 0) {
            say(t, "message %d from %d, context %d tag %d, was lost\n", i, h->sends[i].from,
                h->sends[i].context, h->sends[i].tag);
            ok = false;
        }
    }
    free(taken);
    return ok;
}

/* Each of the remaining takes has another before it.  Going back from one to the other ends in
 * a cycle, which is printed, from its first take to its last. */
static void tell_circle(struct text *t, const struct rules_history *h, const int *before)
{
    int n = h->take_count, at = 0, first;
    int *previous = malloc((size_t)n * sizeof *previous);

    for (int i = 0; i < n; i++) {
        previous[i] = -1;
        for (int k = 0; k < n && before[i] > 0 && previous[i] < 0; k++)
            if (before[k] > 0 && came_before(h, &h->takes[k], &h->takes[i]))
                previous[i] = k;
        if (before[i] > 0)
            at = i;
    }
    for (int i = 0; i < n; i++)
        at = previous[at]; /* on the cycle by now */
    say(t, "each of these must have come after the next one:\n");
    first = at;
    do {
        describe(t, h, at);
        at = previous[at];
    } while (at != first);
    free(previous);
}

/* Removes takes that have no other before them, until none is left. */
static bool has_an_order(const struct rules_history *h, struct text *t)
{
    int n = h->take_count, left = n;
    int *before = calloc((size_t)n + 1, sizeof *before);
    int *free_ones = malloc(((size_t)n + 1) * sizeof *free_ones);
    int ready = 0;

    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++)
            before[y] += came_before(h, &h->takes[x], &h->takes[y]);
        if (before[y] == 0)
            free_ones[ready++] = y;
    }
    while (ready > 0) {
        int x = free_ones[--ready];

        left--;
        for (int y = 0; y < n; y++)
            if (came_before(h, &h->takes[x], &h->takes[y]) && --before[y] == 0)
                free_ones[ready++] = y;
    }
    if (left > 0)
        tell_circle(t, h, before);
    free(free_ones);
    free(before);
    return left == 0;
}

bool rules_allow(const struct rules_history *history, char *why, size_t size)
{
    struct text text = {why, size};

    if (size > 0)
        why[0] = '\0';
    return each_is_taken_once(history, &text) && has_an_order(history, &text);
}
