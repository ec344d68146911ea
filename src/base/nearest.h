/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nearest.h - which known word somebody may have meant.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_LENGTH_MAX 64 /* longer words are nobody's neighbour */

/* Letters to insert, delete or change (Levenshtein), letters of either case alike.  Neither length
 * is above NEAREST_LENGTH_MAX. */
size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* A word of this length is near to those at a distance below this: where half of it is wrong, it is
 * another word. */
size_t nearest_limit(size_t length);

#endif
