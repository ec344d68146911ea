/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races.c - `mbx races`: which receives from any source of a job could have matched another message.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

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
    "The exit status is 0 if there is no race in these runs, 3 if there is one, and 1 if a\n"
    "trace or record is missing, damaged or cut short.\n";

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

/* The problems of a run become those of all. */
static bool keep_problems(struct races_run *all, const struct races_run *run)
{
    for (size_t i = 0; i < run->problem_count; i++)
        if (!races_problem(all, "%s", run->problems[i]))
            return false;
    return true;
}

/* 0; -ENOMEM */
static int add_folder(struct races_groups *groups, struct races_run *all, const char *folder,
                      uint32_t number)
{
    struct races_run run;
    int err = races_read(&run, folder);

    if (err == 0)
        err = races_add(groups, &run, number);
    if (!keep_problems(all, &run))
        err = -1;
    races_run_free(&run);
    mem_free(run.problems);
    return err;
}

static bool has_races(const struct races_groups *groups)
{
    return groups->group_count != 0;
}

static int report(const struct tool *tool, const struct arguments *args, char **folders,
                  size_t count)
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
        if (add_folder(&groups, &all, folders[i], (uint32_t)i) != 0 && all.problem_count == 0) {
            tool_error(tool, "no memory for %s", folders[i]);
            (void)races_problem(&all, "no memory");
        }
    races_finish(&groups);
    if (args->json)
        races_print_json(&what);
    else
        races_print(&what);
    status = all.problem_count != 0 ? TOOL_FAILED
             : has_races(&groups)   ? RACES_FOUND
                                    : TOOL_DONE;
    races_groups_free(&groups);
    mem_free(all.problems);
    return status;
}

void races_say(const char *folder)
{
    struct races_groups groups = {.site_count = 0};
    struct races_run all = {.folder = NULL};
    const struct races_report what = {.groups = &groups, .problems = &all};

    if (add_folder(&groups, &all, folder, 0) != 0 && all.problem_count == 0)
        (void)races_problem(&all, "no memory");
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
    return report(tool, &args, argv + optind, (size_t)(argc - optind));
}

const struct tool tool_races = {
    .name = "races",
    .about = "which receives could have matched another message",
    .usage = usage,
    .options = options,
    .run = run,
};
