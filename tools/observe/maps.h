/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps.h - the ranges of addresses of a process, from /proc/PID/maps.
 */
#ifndef TOOLS_MAPS_H
#define TOOLS_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAPS_MAX 65536u /* ranges of a process that are read */

struct maps {
    FILE *file;
    char *line;
    size_t size;
    uint32_t left;
};

struct maps_range {
    uint64_t start, end, offset;
    char access[5];   /* "r-xp" */
    const char *path; /* until the next range; empty: none */
};

/* False: the process is gone, or must not be read.  Undone by maps_close() in any case. */
bool maps_open(struct maps *maps, uint32_t pid);

/* False: there are no more ranges; or maps->left is 0, and there may be. */
bool maps_next(struct maps *maps, struct maps_range *range);

void maps_close(struct maps *maps);

/* The last part of a path. */
const char *maps_file_name(const char *path);

/* Is it the name of this library, or of a part or version of it?  libmpi.so.40 and libmpi_cxx.so are
 * of "libmpi", and libmpifoo.so is not.  After "mca_" there may be anything. */
bool maps_is_library(const char *file_name, const char *library);

#endif
