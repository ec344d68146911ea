/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.h - the parts of `mbx info` that have a file of their own.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include "tools/common/tool.h"

/* One thing that this host allows, or does not. */
struct host_fact {
    char name[24], value[96], about[160];
};

#define HOST_FACTS_MAX 16

/* What decides how messages can travel here; how many facts there are. */
size_t host_facts(struct host_fact facts[HOST_FACTS_MAX]);

/* What --json prints of each part: the members of an object. */
enum info_part {
    INFO_TRANSPORTS,
    INFO_NETWORK,
    INFO_DEVICES,
    INFO_PROTOCOLS,
    INFO_WINDOW,
    INFO_STATS,
    INFO_PARAMS,
    INFO_HOST,
    INFO_PARTS
};

/* The parts that are wanted, as one JSON object.  TOOL_DONE, or TOOL_FAILED after saying why. */
int info_json(const struct tool *tool, const bool wanted[INFO_PARTS]);

#endif
