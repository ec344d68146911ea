/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_flight.h - where the flight recordings of living processes and of core files are.
 */
#ifndef TOOLS_TRACE_FLIGHT_H
#define TOOLS_TRACE_FLIGHT_H

#include <stdint.h>

struct tool;

/* Files to read, of which some are memory files of this process. */
struct trace_paths {
    char **paths;
    int *fds; /* of paths[i]; or -1 */
    uint32_t count, path_slots, fd_slots;
};

/* Adds the flight recordings in the memory of these processes; with count 0 of all processes
 * that this user may look into.  0; TOOL_FAILED, after saying why: there is none, or no
 * memory. */
int trace_paths_living(const struct tool *tool, char **processes, int count,
                       struct trace_paths *out);

/* Adds files; in place of a core file, what flight recordings it has.  As above. */
int trace_paths_files(const struct tool *tool, char **files, int count,
                      struct trace_paths *out);

void trace_paths_free(struct trace_paths *paths);

#endif
