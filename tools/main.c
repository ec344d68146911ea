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
#include "complete.h"
#include "tools/common/tool.h"

static const struct tool *const tools[] = {
    &tool_run,   &tool_exec,  &tool_doctor,  &tool_top,  &tool_queues,       &tool_trace,
    &tool_order, &tool_races, &tool_explore, &tool_perf, &tool_adapter_test, &tool_info};

/* The first tool of each group of the help. */
static const struct {
    const char *title;
    const struct tool *first;
} groups[] = {{"Run a program:", &tool_run},
              {"A program hangs or is slow:", &tool_doctor},
              {"Measure and test:", &tool_perf},
              {"About Matchbox:", &tool_info}};

/* Commands that are not tools, and their help. */
static const char *const others[][2] = {
    {"help", "this text, or the text of a command: mbx help run"},
    {"version", "the version of the library, and how it was built"},
    {"complete", "completion for a shell: mbx complete bash|zsh|fish"},
};

static void print_help(FILE *file)
{
    fputs("usage: mbx COMMAND [ARGUMENTS]\n\n", file);
    for (size_t i = 0, group = 0; i < ARRAY_COUNT(tools); i++) {
        if (group < ARRAY_COUNT(groups) && groups[group].first == tools[i]) {
            fprintf(file, "%s%s\n", group > 0 ? "\n" : "", groups[group].title);
            group++;
        }
        fprintf(file, "  %-12s %s\n", tools[i]->name, tools[i]->about);
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        fprintf(file, "  %-12s %s\n", others[i][0], others[i][1]);
    fputs("\nmbx COMMAND --help explains a command.\n", file);
}

static const struct tool *find_tool(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(tools); i++)
        if (strcmp(tools[i]->name, name) == 0)
            return tools[i];
    return NULL;
}

static const char *name_at(const void *list, size_t i)
{
    (void)list;
    if (i < ARRAY_COUNT(tools))
        return tools[i]->name;
    i -= ARRAY_COUNT(tools);
    return i < ARRAY_COUNT(others) ? others[i][0] : NULL;
}

static int unknown_command(const char *name)
{
    const char *nearest = tool_nearest(name, name_at, NULL);

    if (nearest != NULL) {
        fprintf(stderr, "mbx: no command '%s'; did you mean '%s'?\n", name, nearest);
        return TOOL_USAGE;
    }
    fprintf(stderr, "mbx: no command '%s'\n", name);
    print_help(stderr);
    return TOOL_USAGE;
}

static int superfluous(const char *command, const char *argument)
{
    fprintf(stderr, "mbx %s: there is no argument '%s'\n", command, argument);
    return TOOL_USAGE;
}

static bool has_word(const struct tool *tool, const char *word)
{
    for (size_t i = 0; tool->words != NULL && tool->words[i] != NULL; i++)
        if (strcmp(tool->words[i], word) == 0)
            return true;
    return false;
}

static int help_of_other(size_t i, const char *rest)
{
    if (rest != NULL)
        return superfluous("help", rest);
    printf("usage: mbx %s\n\n  %s\n", others[i][0], others[i][1]);
    return TOOL_DONE;
}

/* words: the words after "help", up to NULL. */
static int help(char **words)
{
    char option[] = "--help", name[16],
         *command[] = {name, words[0] != NULL ? words[1] : NULL, option, NULL};
    const struct tool *tool;

    if (words[0] == NULL) {
        print_help(stdout);
        return TOOL_DONE;
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        if (strcmp(words[0], others[i][0]) == 0)
            return help_of_other(i, words[1]);
    tool = find_tool(words[0]);
    if (tool == NULL)
        return unknown_command(words[0]);
    if (words[1] == NULL) {
        fputs(tool->usage, stdout);
        return TOOL_DONE;
    }
    if (!has_word(tool, words[1]) || words[2] != NULL)
        return superfluous("help", words[has_word(tool, words[1]) ? 2 : 1]);
    snprintf(name, sizeof name, "%s", tool->name);
    return tool->run(tool, 3, command);
}

static int version(const char *rest)
{
    if (rest != NULL)
        return superfluous("version", rest);
    printf("matchbox %s\ncommit %s\n%s\n", mbx_version(), tool_commit, TOOL_CONFIGURATION);
    return TOOL_DONE;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static int run(int argc, char **argv)
{
    const struct tool *tool;

    if (is_one_of(argv[1], "help", "--help", "-h"))
        return help(argv + 2);
    if (is_one_of(argv[1], "version", "--version", "-V"))
        return version(argv[2]);
    if (strcmp(argv[1], "complete") == 0)
        return complete(argc - 1, argv + 1, tools, ARRAY_COUNT(tools), others,
                        ARRAY_COUNT(others));
    tool = find_tool(argv[1]);
    return tool != NULL ? tool->run(tool, argc - 1, argv + 1) : unknown_command(argv[1]);
}

/* Opens closed standard files: otherwise the next file that we open would take their place, and
 * a rank would read the job's board as its standard input. */
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
    int status;

    open_standard_files();
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    tool_title.start = argv[0];
    tool_title.end = argv[argc - 1] + strlen(argv[argc - 1]);
    status = run(argc, argv);
    /* a command that printed to a full disk has failed */
    return tool_flush(argv[1]) != TOOL_DONE && status == TOOL_DONE ? TOOL_FAILED : status;
}
