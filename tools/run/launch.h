/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - runs a job on this machine until its end.
 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include "tools/common/tool.h"

struct launch {
    const struct tool *tool; /* messages have its name */
    char **argv;             /* program and arguments, NULL at the end */
    uint32_t ranks;          /* 1..KVS_SHM_RANKS_MAX */
    bool bind;               /* binds each rank to a core */
    bool label;              /* prefixes output with "[rank] " */
    uint64_t timeout_ns;     /* 0: none */
};

/* Runs the job; returns its exit code: 0 if all ranks returned 0, otherwise the code of the
 * first rank that failed (TOOL_SIGNAL + signal if it was killed), TOOL_TIMEOUT, or TOOL_FAILED
 * if the job could not be started. */
int launch_job(const struct launch *launch);

#endif
