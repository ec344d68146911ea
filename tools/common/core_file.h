/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_file.h - the memory of a process as a core file has it.
 *
 *   core_open     the segments of an ELF core file of this kind of machine, looked at before any is used
 *   source        reads addresses of that process: out of the core file; what is not in it because it never differed
 *                 from a mapped file (constants), out of that file, if it still is the same one
 *   core_shared   where memory is that begins with certain bytes; core_page: the pages of endpoints (inspect/page.h)
 *   core_symbol   where a symbol of a mapped library is, for a core file without shared memory
 */
#ifndef TOOLS_CORE_FILE_H
#define TOOLS_CORE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/walk.h"

#define CORE_WHY       320
#define CORE_ARGUMENTS 96

struct core_segment {
    uint64_t start, in_file, in_memory; /* address; bytes in the core file, bytes in all */
    uint64_t offset;
};

struct core_mapping {
    uint64_t start, end, offset; /* of the file */
    const char *path;
};

struct core_file {
    struct inspect_source source;
    int fd;
    uint32_t segment_count, mapping_count;
    struct core_segment *segments;
    struct core_mapping *mappings;
    char *notes;
    uint32_t pid; /* 0: it does not say */
    char arguments
        [CORE_ARGUMENTS]; /* of its program, each ended by '\0'; none: it does not say */
    size_t arguments_size;
    const char *file_path; /* the mapped file that was looked at last */
    int file_fd;           /* -1: it is not the same any more */
};

/* Opens a core file.  0; a negative errno, and in why what is wrong with it, in words.  Undone by
 * core_close(). */
int core_open(struct core_file *core, const char *path, char why[CORE_WHY]);
void core_close(struct core_file *core);

/* Looks for a segment that begins with magic, from segment number *at on (0: the first).  Its
 * address; *size is how much of it the file has, and *at the number of the segment behind it.
 * 0 there is none. */
uint64_t core_shared(const struct core_file *core, const char magic[8], uint64_t *size,
                     uint32_t *at);

/* Looks for the page of an endpoint, from segment number *at on.  As core_shared(). */
uint64_t core_page(const struct core_file *core, uint32_t *at);

/* Looks for a symbol in the mapped files, from mapping number *at on.  Its address; *at is the
 * number of the mapping behind it.  0 there is none. */
uint64_t core_symbol(struct core_file *core, const char *name, uint32_t *at);

#endif
