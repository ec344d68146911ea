/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.h - observed ranks as JSON: docs/reference/queues.schema.json.
 *
 * It is all that `mbx doctor` needs from a host, so one `mbx` also sends it to another (snapshot.h).
 */
#ifndef TOOLS_QUEUES_H
#define TOOLS_QUEUES_H

#include <stdio.h>

#include "tools/observe/observe.h"

#define QUEUES_FORMAT 1u /* the version of this JSON; others are refused */

struct queues_json {
    bool stats;       /* the statistics of each rank */
    bool details;     /* facts that take longer to find: lines of the program, states of ranks,
                   * other MPI programs */
    uint32_t entries; /* maximum per rank */
};

/* Prints one line. */
void queues_json(FILE *out, const struct observed *observed, const struct queues_json *wanted);

#endif
