/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nearest.c - see nearest.h.
 */
#include "base/nearest.h"

#include <ctype.h>

#include "base/base.h"

size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[NEAREST_LENGTH_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = diagonal + (toupper((unsigned char)a[i - 1]) !=
                                        toupper((unsigned char)b[j - 1]));

            diagonal = row[j];
            row[j] = min_size(change, min_size(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

size_t nearest_limit(size_t length)
{
    return max_size(length / 2, 2) + 1;
}
