/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec.c - `mbx exec`: an unmodified MPI program over Matchbox.
 *
 * MPI libraries reach Matchbox through libfabric, which loads our provider from a
 * directory.  They have to be told four things: where the provider is, that it is the
 * one to use, that the MPI shall use libfabric's tag matching at all, and that it
 * shall do so between processes of one machine, too.  Each MPI reads its own variables
 * and ignores the others', so all are set.
 *
 * FI_PROVIDER is what libfabric shows at all, to the MPI and to us.  Between the hosts of a job
 * messages go over another provider of the same libfabric (src/transport/ofi), and nobody knows
 * here how many hosts there will be: so those that can carry them are in the list, too.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "tool.h"

#define PROVIDER "libmatchbox-fi.so"
#define KEY_SIZE 16

/* What can carry messages between hosts, where the user has named none. */
#define CARRIERS "tcp,ofi_rxm,verbs,efa,cxi,opx,psm3"

static const char usage[] =
    "usage: mbx exec [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "       mbx exec --print\n"
    "\n"
    "Executes COMMAND, such as `mpiexec -n 4 ./program`, with an environment that makes\n"
    "Open MPI, or MPICH if it was built with ch4:ofi, send its messages over Matchbox.\n"
    "Variables that are set already stay as they are.  The processes of the command also get\n"
    "a key (MBX_KEY): others cannot connect to them.  Between hosts messages go over the\n"
    "first of libfabric's providers that will do, or the one that MBX_OFI_PROVIDER names.\n"
    "\n"
    "  -p, --print    print the variables instead\n"
    "  -v, --verbose  say which variables are set, and which were left alone\n"
    "  -h, --help     this text\n"
    "\n"
    "Launchers that start processes on other machines have to pass the variables on: Open "
    "MPI's\n"
    "passes on OMPI_... by itself and others with -x, as mpiexec -x FI_PROVIDER_PATH -x "
    "FI_PROVIDER\n"
    "-x MBX_KEY.\n";

static const struct option options[] = {{"print", no_argument, NULL, 'p'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct variable {
    const char *name, *value;
};

/* The first two are put together by set_up(). */
static struct variable variables[] = {
    {"FI_PROVIDER_PATH", NULL},
    {"FI_PROVIDER", NULL},
    {"OMPI_MCA_pml", "cm"},
    {"OMPI_MCA_mtl", "ofi"},
    {"OMPI_MCA_mtl_ofi_provider_include", "matchbox"},
    {"MPIR_CVAR_NOLOCAL", "1"},
};

/* Where the provider is, seen from the directory of this program: in the build tree,
 * and installed (MBX_PROVIDER_PLACE is below the prefix, or absolute). */
static const char *const places[] = {"../src/provider", MBX_PROVIDER_PLACE};

/* Cuts the last component off path; false if there is none. */
static bool cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* The directory as an absolute path in directory[PATH_MAX]. */
static bool find_provider(const struct tool *tool, char *directory)
{
    char *own = tool_own_path();
    bool found = false;

    if (own == NULL || !cut_name(own)) {
        tool_error(tool, "/proc/self/exe does not tell where this program is");
        mem_free(own);
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(places) && !found; i++) {
        char path[2 * PATH_MAX];

        if (places[i][0] == '/')
            snprintf(path, sizeof path, "%s/" PROVIDER, places[i]);
        else
            snprintf(path, sizeof path, "%s/%s/" PROVIDER, own, places[i]);
        found = realpath(path, directory) != NULL && cut_name(directory);
    }
    if (!found)
        tool_error(tool, PROVIDER " is neither in %s nor in %s (seen from %s); was it built?",
                   places[0], places[1], own);
    mem_free(own);
    return found;
}

/* What libfabric is to show: us, and what shall carry us.  Its layers are joined by semicolons
 * where one is named, and by commas in a list. */
static void list_providers(char *list, size_t size)
{
    const char *named = getenv("MBX_OFI_PROVIDER");

    if (named == NULL || named[0] == '\0')
        named = CARRIERS;
    snprintf(list, size, "matchbox,%s", named);
    for (char *c = list; *c != '\0'; c++)
        if (*c == ';')
            *c = ',';
}

/* Fills in what is not the same everywhere. */
static void set_up(const char *folder)
{
    static char directory[PATH_MAX], providers[256];

    snprintf(directory, sizeof directory, "%s", folder);
    list_providers(providers, sizeof providers);
    variables[0].value = directory;
    variables[1].value = providers;
}

static void print_variables(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++)
        printf("%s=%s\n", variables[i].name, variables[i].value);
}

/* Sets one variable unless it is set. */
static int set_variable(const struct tool *tool, const char *name, const char *value,
                        bool verbose)
{
    const char *old = getenv(name);

    if (verbose && old != NULL && strcmp(old, value) != 0)
        tool_error(tool, "%s=%s was set already and stays (not %s)", name, old, value);
    else if (verbose)
        tool_error(tool, "%s=%s", name, value);
    return setenv(name, value, 0);
}

/* A key of this job's own, so that others of the same user stay outside. */
static int set_key(const struct tool *tool, bool verbose)
{
    uint8_t key[KEY_SIZE];
    char text[2 * KEY_SIZE + 1];
    int err = random_secret(key, sizeof key);

    if (err < 0) {
        tool_error(tool, "there is no key for MBX_KEY: %s", strerror(-err));
        return err;
    }
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
    if (verbose)
        tool_error(tool, "MBX_KEY %s",
                   getenv("MBX_KEY") == NULL ? "is new" : "was set already");
    return setenv("MBX_KEY", text, 0);
}

static int execute(const struct tool *tool, char **command, bool verbose)
{
    int status = tool_find_program(tool, command[0]);

    if (status != 0)
        return status;
    if (set_key(tool, verbose) < 0)
        return TOOL_FAILED;
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++) {
        if (set_variable(tool, variables[i].name, variables[i].value, verbose) < 0) {
            tool_error(tool, "%s cannot be set: %s", variables[i].name, strerror(errno));
            return TOOL_FAILED;
        }
    }
    execvp(command[0], command);
    tool_error(tool, "cannot run '%s': %s", command[0], strerror(errno));
    return TOOL_CANNOT_RUN;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    bool print = false, verbose = false;
    char directory[PATH_MAX];
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:pvh", options, &status)) >= 0) {
        print = print || option == 'p';
        verbose = verbose || option == 'v';
    }
    if (option == -2)
        return status;
    if (!print && optind == argc)
        return tool_usage_error(tool, "COMMAND is missing");
    if (print && optind < argc)
        return tool_usage_error(tool, "--print takes no command, got '%s'", argv[optind]);
    if (!find_provider(tool, directory))
        return TOOL_FAILED;
    set_up(directory);
    if (!print)
        return execute(tool, argv + optind, verbose);
    print_variables();
    return TOOL_DONE;
}

const struct tool tool_exec = {
    .name = "exec",
    .about = "run an unmodified MPI program over Matchbox",
    .usage = usage,
    .run = run,
};
