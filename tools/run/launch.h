/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - starting a job on this machine and staying with it until its end.
 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <sched.h>

#include "tools/common/tool.h"

struct launch {
    const struct tool *tool; /* in whose name messages are */
    char **argv;             /* program and arguments, NULL at the end */
    uint32_t ranks;          /* 1..KVS_SHM_RANKS_MAX */
    bool bind;               /* each rank to a core */
    bool label;              /* output behind "[rank] " */
    uint64_t timeout_ns;     /* 0 = none */
};

/* Runs the job; returns its exit code: 0 if all ranks returned 0, else that of the
 * first rank that failed (TOOL_SIGNAL + signal if it was killed), TOOL_TIMEOUT, or
 * TOOL_FAILED if it could not be started. */
int launch_job(const struct launch *launch);

#endif
