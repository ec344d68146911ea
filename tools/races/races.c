/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races.c - `mbx races`: which receives from any source of a job could have matched another message.
 */
#include <getopt.h>

#include "base/base.h"
#include "base/mem.h"
#include "races.h"
#include "races_say.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"

static const char usage[] =
    "usage: mbx races [OPTIONS] DIR...\n"
    "\n"
    "Examples:\n"
    "  mbx exec --races=run mpiexec -n 4 ./program\n"
    "  mbx races run              which receives could have matched another message\n"
    "  mbx races run run2 run3    were both orders ever seen?\n"
    "\n"
    "Says which receives and probes from any source could have matched the message of\n"
    "another rank.  DIR is the folder of `mbx exec --races=DIR`: it has traces and a\n"
    "record.  Several folders are of several runs of one program.\n"
    "\n"
    "A message could have come first if no message and no synchronous send makes its send\n"
    "depend on the receive, and MPI's order lets the receive take it.  Only these count:\n"
    "one-sided accesses, files and memory that is shared outside MPI do not.\n"
    "\n"
    "  -a, --all      also list the calls without a race\n"
    "  -j, --json     JSON in place of text\n"
    "  -h, --help     this text\n"
    "\n"
    "The exit status is 3 if there is a race, 0 if there is none in these runs, and 1 if this\n"
    "is not known.  Then the report has a line that begins with `not complete`, or no race\n"
    "and a line that begins with `not decided`.  It is not complete if a trace or record is\n"
    "missing, damaged, cut short, unreadable or of another run.  It is also not complete if\n"
    "the traces of a run contradict each other, several threads receive, a matched probe\n"
    "took a message that still waited at its sender, or there is no memory.\n";

static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct arguments {
    bool all, json;
};

static int read_arguments(const struct tool *tool, int argc, char **argv,
                          struct arguments *args)
{
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:ajh", options, &status)) >= 0) {
        args->all = args->all || option == 'a';
        args->json = args->json || option == 'j';
    }
    if (option == -2)
        return status != 0 ? status : -1;
    if (optind == argc)
        return tool_usage_error(tool, "DIR is missing");
    return 0;
}

/* Adds the problems of a run to all problems. */
static bool keep_problems(struct races_run *all, const struct races_run *run)
{
    for (size_t i = 0; i < run->problem_count; i++)
        if (!races_problem(all, "%s", run->problems[i]))
            return false;
    return true;
}

static void add_folder(struct races_groups *groups, struct races_run *all, const char *folder,
                       uint32_t number)
{
    struct races_run run;
    int err = races_read(&run, folder);

    if (err == 0)
        err = races_add(groups, &run, number);
    if (!keep_problems(all, &run) || err != 0)
        all->lacks_memory = true;
    races_run_free(&run);
    mem_free(run.problems);
}

/* The exit status. */
static int verdict(const struct races_groups *groups, const struct races_run *all)
{
    if (races_problems(all) != 0)
        return TOOL_FAILED;
    if (groups->group_count != 0)
        return RACES_FOUND;
    return groups->undecided != 0 ? TOOL_FAILED : TOOL_DONE;
}

static int report(const struct arguments *args, char **folders, size_t count)
{
    struct races_groups groups = {.site_count = 0};
    struct races_run all = {.folder = NULL};
    const struct races_report what = {.groups = &groups,
                                      .problems = &all,
                                      .folders = folders,
                                      .folder_count = count,
                                      .shows_all = args->all};
    int status;

    for (size_t i = 0; i < count; i++)
        add_folder(&groups, &all, folders[i], (uint32_t)i);
    races_finish(&groups);
    if (args->json)
        races_print_json(&what);
    else
        races_print(&what);
    status = verdict(&groups, &all);
    races_groups_free(&groups);
    mem_free(all.problems);
    return status;
}

void races_say(const char *folder)
{
    struct races_groups groups = {.site_count = 0};
    struct races_run all = {.folder = NULL};
    const struct races_report what = {.groups = &groups, .problems = &all};

    add_folder(&groups, &all, folder, 0);
    races_finish(&groups);
    races_print_line(&what, folder);
    races_groups_free(&groups);
    mem_free(all.problems);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct arguments args = {.all = false};
    int status = read_arguments(tool, argc, argv, &args);

    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    job_line_of = source_line_in;
    return report(&args, argv + optind, (size_t)(argc - optind));
}

const struct tool tool_races = {
    .name = "races",
    .about = "which receives could have matched another message",
    .usage = usage,
    .options = options,
    .run = run,
};
