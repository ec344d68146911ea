/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.h - what was seen, as JSON: docs/reference/queues.schema.json.
 *
 * It is all that `mbx doctor` needs of a host, so it is also what one `mbx` tells another (snapshot.h).
 */
#ifndef TOOLS_QUEUES_H
#define TOOLS_QUEUES_H

#include <stdio.h>

#include "tools/observe/observe.h"

#define QUEUES_FORMAT 1u /* of this JSON; another one is not read */

struct queues_json {
    bool stats;   /* the statistics of each rank */
    bool details; /* what takes longer to find: lines of the program, what ranks do, others */
    uint32_t entries; /* of a rank, at most */
};

/* One line. */
void queues_json(FILE *out, const struct observed *observed, const struct queues_json *wanted);

#endif
