/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nearest.h - the known word that is nearest to a wrong one.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_LENGTH_MAX 64 /* longer words have no nearest word */

/* The number of letters to insert, delete or change (Levenshtein), ignoring case.  Neither
 * length is above NEAREST_LENGTH_MAX. */
size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* Words at a distance below this are near to a word of this length: with half of its letters
 * wrong it would be another word. */
size_t nearest_limit(size_t length);

#endif
