/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.c - see compare.h.
 */
#include "compare.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "tools/observe/diagnose.h"

static int read_rank(const char *folder, uint32_t rank, struct replay_reader **reader,
                     char error[ORDER_ERROR])
{
    return replay_read_open(folder, rank, reader, error, ORDER_ERROR) == 0 ? 0 : -1;
}

int order_ranks(const char *folder, uint32_t rank, uint32_t *ranks, char error[ORDER_ERROR])
{
    struct replay_reader *reader;
    uint32_t size;

    if (read_rank(folder, rank, &reader, error) < 0)
        return -1;
    size = replay_read_job(reader)->size;
    replay_read_close(reader);
    if (size == 0 || size > ORDER_RANKS_MAX) {
        snprintf(error, ORDER_ERROR,
                 "%s: its records are said to be of %" PRIu32 " ranks, which cannot be", folder,
                 size);
        return -1;
    }
    *ranks = size;
    return 0;
}

static bool is_equal(const struct replay_event *a, const struct replay_event *b)
{
    return replay_is_alike(&a->signature, &b->signature) &&
           a->outcome.result == b->outcome.result && a->outcome.value == b->outcome.value &&
           a->outcome.size_class == b->outcome.size_class && a->times == b->times;
}

void order_place_of(const struct replay_reader *reader, const struct replay_event *event,
                    struct order_place *place)
{
    const char *path = replay_read_place(reader, event->signature.place, &place->at);

    snprintf(place->path, sizeof place->path, "%s", path != NULL ? path : "");
}

static_assert(OUTSIDE_MAX + sizeof " at " <= ORDER_LINE, "a line of a program");

const char *order_line(const struct order_place *place, char text[ORDER_LINE])
{
    char words[OUTSIDE_MAX];
    const char *line =
        place->path[0] != '\0' ? source_line_in(place->path, place->at, words) : NULL;

    snprintf(text, ORDER_LINE, "%s%s", line != NULL ? " at " : "", line != NULL ? line : "");
    return text;
}

/* The next event, or the next that found something; times 0: the end. */
static bool next_of(struct replay_reader *reader, bool is_found, struct replay_event *event)
{
    do
        if (!replay_read_next(reader, event)) {
            event->times = 0;
            return false;
        }
    while (is_found && event->outcome.result == REPLAY_FALSE);
    return true;
}

int order_compare(const char *const folders[2], uint32_t rank, bool is_found,
                  struct order_difference *difference, char error[ORDER_ERROR])
{
    struct replay_event *events = difference->events;
    struct replay_reader *readers[2];
    int err = 0;

    memset(difference, 0, sizeof *difference);
    if (read_rank(folders[0], rank, &readers[0], error) < 0)
        return -1;
    if (read_rank(folders[1], rank, &readers[1], error) < 0) {
        replay_read_close(readers[0]);
        return -1;
    }
    do
        for (int i = 0; i < 2; i++)
            next_of(readers[i], is_found, &events[i]);
    while (events[0].times != 0 && events[1].times != 0 && is_equal(&events[0], &events[1]));
    difference->is_there = events[0].times != 0 || events[1].times != 0;
    for (int i = 0; i < 2; i++) {
        const char *damage = replay_read_damage(readers[i]);

        order_place_of(readers[i], &events[i], &difference->places[i]);
        if (damage[0] != '\0' && err == 0) {
            snprintf(error, ORDER_ERROR, "%s", damage);
            err = -1;
        }
        replay_read_close(readers[i]);
    }
    return err;
}

/* Hashes the fields that is_equal() compares. */
static uint64_t hash_event(uint64_t hash, const struct replay_event *event)
{
    const uint64_t words[] = {hash,
                              (uint64_t)event->signature.kind << 8 | event->signature.requests,
                              event->signature.comm,
                              (uint64_t)(uint32_t)event->signature.source << 32 |
                                  (uint32_t)event->signature.tag,
                              (uint64_t)event->outcome.result << 8 | event->outcome.size_class,
                              event->outcome.value,
                              event->times};

    return hash_bytes(words, sizeof words);
}

bool order_hash(const char *folder, uint32_t rank, uint64_t *hash)
{
    char error[ORDER_ERROR];
    struct replay_reader *reader;
    struct replay_event event;

    if (read_rank(folder, rank, &reader, error) < 0)
        return false;
    *hash = rank;
    while (next_of(reader, true, &event))
        *hash = hash_event(*hash, &event);
    replay_read_close(reader);
    return true;
}
