/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_file.h - the memory of a process in a core file.
 *
 *   core_open     the segments of an ELF core file for this kind of machine, checked before any is used
 *   source        reads addresses of that process from the core file.  Bytes that it lacks because they never differed
 *                 from a mapped file (constants) come from that file, if it is still the same
 *   core_shared   finds memory that begins with certain bytes; core_page: the pages of endpoints (inspect/page.h)
 *   core_symbol   finds a symbol of a mapped library, for a core file without shared memory
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
    uint32_t pid; /* 0: not in the file */
    char arguments
        [CORE_ARGUMENTS]; /* of its program, each ended by '\0'; none: not in the file */
    size_t arguments_size;
    const char *file_path; /* the mapped file that was read last */
    int file_fd;           /* -1: the file has changed */
};

/* Opens a core file.  0; or a negative errno, with the fault described in why.  Undone by
 * core_close(). */
int core_open(struct core_file *core, const char *path, char why[CORE_WHY]);
void core_close(struct core_file *core);

/* Looks for a segment that begins with magic, from segment number *at on (0: the first).
 * Returns its address; *size is its size in the file, and *at the number of the next segment.
 * 0: there is none. */
uint64_t core_shared(const struct core_file *core, const char magic[8], uint64_t *size,
                     uint32_t *at);

/* Looks for the page of an endpoint, from segment number *at on; otherwise as core_shared(). */
uint64_t core_page(const struct core_file *core, uint32_t *at);

/* Looks for a symbol in the mapped files, from mapping number *at on.  Returns its address; *at
 * is the number of the next mapping.  0: there is none. */
uint64_t core_symbol(struct core_file *core, const char *name, uint32_t *at);

#endif
