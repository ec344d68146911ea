/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - `mbx COMMAND ARGUMENTS`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "tool.h"

static const struct tool *const tools[] = {&tool_run,  &tool_exec,  &tool_info,
                                           &tool_perf, &tool_trace, &tool_queues};

static void print_help(FILE *file)
{
    fputs("usage: mbx COMMAND [ARGUMENTS]\n\n", file);
    for (size_t i = 0; i < ARRAY_COUNT(tools); i++)
        fprintf(file, "  %-9s %s\n", tools[i]->name, tools[i]->about);
    fputs("  help      this text, or that of a command: mbx help run\n"
          "  version   the version of the library\n",
          file);
}

static const struct tool *find_tool(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(tools); i++)
        if (strcmp(tools[i]->name, name) == 0)
            return tools[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "mbx: no command '%s'\n", name);
    print_help(stderr);
    return TOOL_USAGE;
}

static int help(const char *name)
{
    const struct tool *tool = name != NULL ? find_tool(name) : NULL;

    if (name != NULL && tool == NULL)
        return unknown_command(name);
    if (tool != NULL)
        fputs(tool->usage, stdout);
    else
        print_help(stdout);
    return TOOL_DONE;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* Whoever closed them did not mean that the next file we open takes their place: a
 * rank would read the job's board as its standard input. */
static void open_standard_files(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    const struct tool *tool;

    open_standard_files();

    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    tool_title.start = argv[0];
    tool_title.end = argv[argc - 1] + strlen(argv[argc - 1]);
    if (is_one_of(argv[1], "help", "--help", "-h"))
        return help(argv[2]);
    if (is_one_of(argv[1], "version", "--version", "-V")) {
        printf("matchbox %s\n", mbx_version());
        return TOOL_DONE;
    }
    tool = find_tool(argv[1]);
    return tool != NULL ? tool->run(tool, argc - 1, argv + 1) : unknown_command(argv[1]);
}
