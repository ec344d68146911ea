/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.h - `mbx complete SHELL`: completion of commands, their words and options, made from the
 * tables that the commands themselves read.
 */
#ifndef TOOLS_COMPLETE_H
#define TOOLS_COMPLETE_H

#include "tools/common/tool.h"

/* argv[1] is the shell.  others: names and texts of commands that are not tools. */
int complete(int argc, char **argv, const struct tool *const *tools, size_t tool_count,
             const char *const (*others)[2], size_t other_count);

#endif
