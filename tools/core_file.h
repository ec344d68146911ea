/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_file.h - the memory of a process as a core file has it.
 *
 *   core_open     the segments of an ELF core file of this kind of machine, looked at before any is used
 *   source        reads addresses of that process: out of the core file; what is not in it because it never differed
 *                 from a mapped file (constants), out of that file, if it still is the same one
 *   core_page     where the pages of endpoints are (see/page.h)
 *   core_symbol   where a symbol of a mapped library is, for a core file without shared memory
 */
#ifndef TOOLS_CORE_FILE_H
#define TOOLS_CORE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "see/walk.h"

#define CORE_WHY 320

struct core_segment {
    uint64_t start, in_file, in_memory; /* address; bytes in the core file, bytes in all */
    uint64_t offset;
};

struct core_mapping {
    uint64_t start, end, offset; /* of the file */
    const char *path;
};

struct core_file {
    struct see_source source;
    int fd;
    uint32_t segment_count, mapping_count;
    struct core_segment *segments;
    struct core_mapping *mappings;
    char *notes;
    uint32_t pid;          /* 0: it does not say */
    const char *file_path; /* the mapped file that was looked at last */
    int file_fd;           /* -1: it is not the same any more */
};

/* 0, undone by core_close(); a negative errno, and in why what is wrong with path, in words. */
int core_open(struct core_file *core, const char *path, char why[CORE_WHY]);
void core_close(struct core_file *core);

/* The address of the page behind the at-th segment or at it, and *at behind that; 0: there is none. */
uint64_t core_page(const struct core_file *core, uint32_t *at);

/* The address of a symbol of a mapped file that is not its at-th mapping or before; 0: there is none. */
uint64_t core_symbol(struct core_file *core, const char *name, uint32_t *at);

#endif
