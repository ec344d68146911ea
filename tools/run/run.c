/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - `mbx run`: the arguments; launch.c does the work.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/environ.h"
#include "boot/kvs_shm.h"
#include "launch.h"
#include "tools/common/tool.h"

static const char usage[] =
    "usage: mbx run -n RANKS [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Example:\n"
    "  mbx run -n 4 ./program\n"
    "\n"
    "Starts RANKS processes of PROGRAM on this machine and connects them.\n"
    "\n"
    "  -n, --ranks RANKS      how many, 1 to 4096\n"
    "  -b, --bind             bind rank i to processor core i (again from the first\n"
    "                         when there are more ranks than cores)\n"
    "  -l, --label            print \"[rank] \" before each line of output\n"
    "  -t, --timeout SECONDS  end the job after this time, with exit code 124\n"
    "  -h, --help             this text\n"
    "\n"
    "Standard input goes to rank 0.  Signals are passed on to all ranks.  A signal that\n"
    "asks to stop (INT, TERM, HUP, QUIT) kills the job if it comes again after a second.\n"
    "\n"
    "The first rank that fails ends the job: the others get SIGTERM and, a second\n"
    "later, SIGKILL.  The exit code is that rank's, or 128 plus the number of the\n"
    "signal that killed it.  No process of the job survives it.\n";

static const struct option options[] = {
    {"ranks", required_argument, NULL, 'n'}, {"bind", no_argument, NULL, 'b'},
    {"label", no_argument, NULL, 'l'},       {"timeout", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};

/* Applies one option; 0 or the exit code. */
static int take_option(const struct tool *tool, int option, struct launch *launch)
{
    uint64_t number;
    int err;

    switch (option) {
    case 'n':
        if (strcmp(optarg, "p") == 0)
            return tool_usage_error(tool, "-np is mpiexec's; write -n RANKS");
        if ((err = tool_number(tool, "-n", optarg, 1, KVS_SHM_RANKS_MAX, &number)) != 0)
            return err;
        launch->ranks = (uint32_t)number;
        break;
    case 't':
        return tool_time(tool, "--timeout", optarg, "s", CLOCK_MS, 1000000 * CLOCK_S,
                         &launch->timeout_ns);
    case 'b':
        launch->bind = true;
        break;
    default:
        launch->label = true;
        break;
    }
    return 0;
}

/* Programs of the library alone are not recorded. */
static void warn_of_order(const struct tool *tool)
{
    const char *name;

    for (size_t i = 0; (name = environ_next_order(&i)) != NULL;)
        tool_error(tool,
                   "%s has no effect: only MPI programs are recorded and replayed (mbx exec)",
                   name);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct launch launch = {.tool = tool};
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:n:blt:h", options, &status)) >= 0)
        if ((status = take_option(tool, option, &launch)) != 0)
            return status;
    if (option == -2)
        return status;
    if (launch.ranks == 0)
        return tool_usage_error(tool, "-n is missing: how many ranks?");
    if (optind == argc)
        return tool_usage_error(tool, "PROGRAM is missing");
    warn_of_order(tool);
    launch.argv = argv + optind;
    return launch_job(&launch);
}

const struct tool tool_run = {
    .name = "run",
    .about = "start the ranks of a job on this machine",
    .usage = usage,
    .options = options,
    .run = run,
};
