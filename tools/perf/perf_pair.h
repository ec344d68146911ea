/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_pair.h - two hosts for `mbx perf`, without a launcher.
 */
#ifndef TOOLS_PERF_PAIR_H
#define TOOLS_PERF_PAIR_H

#include <stdbool.h>

#include "tools/common/tool.h"

#define PERF_PORT      "18515"
#define PERF_TEXT_SIZE 4096

struct perf_pair {
    bool listens;
    const char *host; /* the host to connect to; NULL: none */
    const char *port; /* NULL: PERF_PORT */
};

/* Waits for the other `mbx perf`, or connects to it, and leaves the connection in MBX_BOOT,
 * where mbx_job_open() finds it: the side that connects is rank 0.  text describes the
 * measurement, and must be equal on both sides; again is the command line for the other side,
 * without --connect.  Blocks until then, after it has printed to standard error what it waits
 * for.  0; TOOL_USAGE: the two sides measure different things; TOOL_FAILED; each after an error
 * message. */
int perf_pair_meet(const struct tool *tool, const struct perf_pair *pair, const char *text,
                   const char *again);

#endif
