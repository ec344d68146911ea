/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places.h - where in the program the calls of a record are: rank-R.mbxplaces (format.h).
 *
 * The file is written before the item that has the number of its line.  It only helps people: a rank that cannot write it
 * says so once and records on, and a record whose file is damaged is replayed.
 */
#ifndef REPLAY_PLACES_H
#define REPLAY_PLACES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/caller.h"
#include "base/hash.h"

/* Zero-filled memory has no place yet. */
struct replay_places {
    struct hash known; /* by address */
    struct caller_learnt learnt;
    int fd;
    bool is_open, is_over;
};

/* The number of the place of the call of MPI that this thread is in; 0: it is not known. */
uint16_t places_number(struct replay_places *p, const char *folder, uint32_t rank);

/* 0; a negative errno if the file may not have all lines. */
int places_fini(struct replay_places *p);

/* All places of a record, up to a line that is wrong. */
struct replay_read_places {
    struct place_read {
        const char *path;
        uint64_t at;
    } * all;
    size_t count;
    char *text;
    char wrong[PATH_MAX + 128]; /* why there are no more; or "" */
};

/* Reads the file, if there is one.  A last line without an end, as a killed rank may leave it, is none. */
void places_read(struct replay_read_places *p, const char *folder, uint32_t rank);

const char *places_find(const struct replay_read_places *p, uint16_t place, uint64_t *at);

void places_read_fini(struct replay_read_places *p);

#endif
