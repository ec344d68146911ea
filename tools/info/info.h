/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.h - the parts of `mbx info` that have a file of their own.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include "tools/common/tool.h"

/* One property of this host. */
struct host_fact {
    char name[24], value[96], about[160];
};

#define HOST_FACTS_MAX 16

/* Fills in the facts that decide how messages can travel here; returns their number. */
size_t host_facts(struct host_fact facts[HOST_FACTS_MAX]);

/* The parts in the output of --json: members of one object. */
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

/* Prints the wanted parts as one JSON object.  TOOL_DONE, or TOOL_FAILED after an error
 * message. */
int info_json(const struct tool *tool, const bool wanted[INFO_PARTS]);

#endif
