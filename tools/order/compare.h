/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.h - are two records of one rank the same order?
 *
 * Tests and probes that found nothing differ from run to run even where all messages came in the same order.  So a comparison
 * may leave them out.
 */
#ifndef TOOLS_COMPARE_H
#define TOOLS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/caller.h"
#include "replay/replay.h"

/* No job has more ranks. */
#define ORDER_RANKS_MAX (1u << 20)

#define ORDER_LINE      512  /* of a line of a program */
#define ORDER_ERROR     4352 /* a path, and what is wrong */

struct order_difference {
    bool is_there;
    struct replay_event events[2]; /* the first that differ; times 0: there is no further one */
    struct order_place {
        char path[CALLER_PATH]; /* "": not known */
        uint64_t at;
    } places[2]; /* of their calls in the program */
};

/* How many ranks the record of this rank says there are, in *ranks.  0; -1 with what is wrong in error. */
int order_ranks(const char *folder, uint32_t rank, uint32_t *ranks, char error[ORDER_ERROR]);

/* Where in the program the call of an event is. */
void order_place_of(const struct replay_reader *reader, const struct replay_event *event,
                    struct order_place *place);

/* " at fold.c:41", the line of a place; "" if it is not known. */
const char *order_line(const struct order_place *place, char text[ORDER_LINE]);

/* The first difference of a rank's records in two folders.  is_found: events that found nothing are left out.  0; -1 with the
 * reason in error: *difference then holds for the events that could be read. */
int order_compare(const char *const folders[2], uint32_t rank, bool is_found,
                  struct order_difference *difference, char error[ORDER_ERROR]);

/* A number for all events of a rank that found something: equal records have equal ones.  False: it has no record. */
bool order_hash(const char *folder, uint32_t rank, uint64_t *hash);

#endif
