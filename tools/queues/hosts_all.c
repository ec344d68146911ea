/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_all.c - the hosts of a job that has a rank on this host (--all).
 *
 * The launcher has named them to its ranks, or in the commands by which it has started the hosts (hosts_names.h).  Only
 * processes of this user are read: the names become part of command lines, and plm_rsh_agent is executed.  User 0 in a
 * container may have fewer rights than root here, so nothing is taken from a process with fewer capabilities.
 */
#include "hosts.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "tools/common/process.h"
#include "tools/common/tool.h"

#define TEXT_MAX (1u << 20)

static bool has_our_user_namespace(uint32_t pid)
{
    struct stat here, there;
    char path[64];

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/user", pid);
    return stat("/proc/self/ns/user", &here) == 0 && stat(path, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* The capabilities that this process could have; 0: they cannot be read. */
static uint64_t capabilities_of(const char *status)
{
    char line[256];
    uint64_t all = 0;
    FILE *in = fopen(status, "re");

    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "CapPrm:", 7) == 0)
            all = strtoull(line + 7, NULL, 16);
    if (in != NULL)
        fclose(in);
    return all;
}

/* Has this process all rights of this one? */
static bool is_as_mighty(uint32_t pid)
{
    char status[64];

    snprintf(status, sizeof status, "/proc/%" PRIu32 "/status", pid);
    return has_our_user_namespace(pid) &&
           (capabilities_of("/proc/self/status") & ~capabilities_of(status)) == 0;
}

static bool is_own(uint32_t pid)
{
    return foreign_user(pid) == geteuid() && is_as_mighty(pid);
}

/* A file of a process of this user, such as its environment at its start; a zero byte follows.  *size 0: it cannot be
 * read.  The owner is checked once the file is open: another process may have taken the number. */
static char *read_text(uint32_t pid, const char *file, size_t *size)
{
    char path[64], *text = mem_calloc(1, TEXT_MAX);
    FILE *in;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/%s", pid, file);
    in = text != NULL ? fopen(path, "re") : NULL;
    *size = in != NULL && is_own(pid) ? fread(text, 1, TEXT_MAX - 1, in) + 1 : 0;
    if (in != NULL)
        fclose(in);
    return text;
}

/* The list in a command that the parent of this rank has started, if the parent is mpiexec; or NULL. */
static char *find_regex(uint32_t rank)
{
    pid_t launcher = process_parent((pid_t)rank);
    DIR *all = launcher > 1 ? opendir("/proc") : NULL;
    char *regex = NULL;
    struct dirent *one;

    while (all != NULL && regex == NULL && (one = readdir(all)) != NULL) {
        uint32_t pid = (uint32_t)strtoul(one->d_name, NULL, 10);
        size_t size;
        char *text;

        if (pid == 0 || process_parent((pid_t)pid) != launcher)
            continue;
        text = read_text(pid, "cmdline", &size);
        regex = size != 0 ? hosts_names_of_command(text, size) : NULL;
        mem_free(text);
    }
    if (all != NULL)
        closedir(all);
    return regex;
}

/* Finds the hosts of a job by the first of its ranks here. */
static bool find_way(const struct inspect_job *job, bool needs_list, struct hosts_way *way)
{
    uint32_t pid = job->ranks[0].head.pid;
    size_t size;
    char *text = read_text(pid, "environ", &size), *regex = find_regex(pid);
    bool is_found =
        size != 0 && hosts_names_find(text, size, regex, needs_list, tool_has_program, way);

    mem_free(text);
    free(regex);
    return is_found;
}

/* The jobs of this host that may be meant.  0; or the exit status, after an error message. */
static int find_jobs(const struct tool *tool, struct observe_options *wanted,
                     struct observed *seen)
{
    int err, status = observe_choose(tool, wanted);

    *seen = (struct observed){.count = 0};
    if (status != 0)
        return status;
    err = observe_find(wanted, seen);
    if (err != 0)
        tool_error(tool, "cannot look at the processes of this host: %s", strerror(-err));
    else if (seen->count == 0)
        tool_error(tool, "--all finds no job of this user over Matchbox on this host; name the "
                         "hosts (--hosts), or call it on a host of the job");
    return err == 0 && seen->count != 0 ? 0 : TOOL_FAILED;
}

int hosts_find_all(struct hosts *hosts, const struct tool *tool, struct observe_options *wanted)
{
    struct observed seen;
    int status = find_jobs(tool, wanted, &seen);

    if (status == 0 && seen.count > 1)
        status = tool_usage_error(tool,
                                  "--all asks the hosts of one job, and %" PRIu32
                                  " run here; choose one (--job)",
                                  seen.count);
    if (status == 0 && !find_way(&seen.jobs[0], hosts->launch_count != 0, &hosts->found)) {
        tool_error(tool, "--all: neither Slurm, PBS nor Open MPI 4.1 has named the hosts of "
                         "this job to its ranks; name them (--hosts)");
        status = TOOL_FAILED;
    }
    if (status == 0) /* another host may run other jobs as well */
        wanted->job = seen.jobs[0].ranks[0].head.job;
    observe_free(&seen);
    hosts->list = hosts->found.list;
    if (hosts->launch_count == 0 && hosts->found.launch != NULL)
        hosts->launches[hosts->launch_count++] = hosts->found.launch;
    return status;
}
