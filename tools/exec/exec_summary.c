/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_summary.c - `mbx exec --summary`: one line for all processes of the command, when it has ended.
 *
 *   a folder of its own ──> MBX_STATS_FILE=FOLDER/%p ──> the command ──> a file of each process ──> their sum; the folder is removed
 *
 * A process writes its file when it closes its endpoint, so one that was killed has none, and neither has one on another host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/environ.h"
#include "exec.h"
#include "inspect/text.h"
#include "tools/common/program.h"

#define LINE_MAX_SIZE 16384

struct sum {
    uint32_t processes;
    uint64_t sent, bytes, expected, unexpected;
    char way[64]; /* "component Open MPI v4.1.4" */
};

/* ---- the folder ---- */

bool exec_summary_open(const struct tool *tool, char folder[PATH_MAX])
{
    const char *parent = environ_get("TMPDIR");
    char file[PATH_MAX + 8];

    snprintf(folder, PATH_MAX, "%s/mbx-summary-XXXXXX",
             parent != NULL && parent[0] == '/' ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) {
        tool_error(tool, "no summary: there can be no folder for it: %s", strerror(errno));
        return false;
    }
    snprintf(file, sizeof file, "%s/%%p", folder);
    if (setenv("MBX_STATS_FILE", file, 1) == 0)
        return true;
    tool_error(tool, "no summary: MBX_STATS_FILE cannot be set: %s", strerror(errno));
    rmdir(folder);
    return false;
}

static void add_line(struct sum *sum, const char *line)
{
    const char *text = strstr(line, " text=");

    if (strncmp(line, "endpoint ", 9) == 0) {
        uint64_t bytes = inspect_text_sum(line, "sent_bytes_");

        sum->bytes += bytes;
        sum->sent += inspect_text_sum(line, "sent_") - bytes;
        sum->expected += inspect_text_sum(line, "expected=");
        sum->unexpected += inspect_text_sum(line, "unexpected=");
    } else if (strncmp(line, "program ", 8) == 0 && text != NULL && sum->way[0] == '\0') {
        snprintf(sum->way, sizeof sum->way, "%.*s", (int)strcspn(text + 6, ",\n"), text + 6);
    }
}

/* Adds all files of the folder, and removes them with it. */
static void close_folder(const char *folder, struct sum *sum)
{
    static char line[LINE_MAX_SIZE];
    DIR *entries = opendir(folder);
    struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        int fd;
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        fd = openat(dirfd(entries), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        file = fd >= 0 ? fdopen(fd, "r") : NULL;
        sum->processes += file != NULL;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            add_line(sum, line);
        if (file != NULL)
            fclose(file);
        unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    rmdir(folder);
}

/* ---- the line ---- */

static const char *bytes_words(uint64_t bytes, char words[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double amount = (double)bytes;
    size_t unit = 0;

    for (; amount >= 1000 && unit + 1 < ARRAY_COUNT(units); unit++)
        amount /= 1000;
    snprintf(words, 32, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
    return words;
}

/* The first word after the launcher that is a program, or NULL. */
static const char *program_of(char *const *command, char path[PATH_MAX])
{
    for (size_t i = 1; command[i] != NULL; i++) {
        struct stat file;

        if (exec_find_program(command[i], path) && stat(path, &file) == 0 &&
            S_ISREG(file.st_mode))
            return command[i];
    }
    return NULL;
}

static bool is_script(const char *path)
{
    char begin[2] = "";
    FILE *file = fopen(path, "rbe");
    bool is_read = file != NULL && fread(begin, 1, sizeof begin, file) == sizeof begin;

    if (file != NULL)
        fclose(file);
    return is_read && memcmp(begin, "#!", 2) == 0;
}

static void say_none(const struct tool *tool, char *const *command)
{
    char path[PATH_MAX];
    const char *program = program_of(command, path);

    if (program != NULL && !is_script(path) && program_mpi(path) == PROGRAM_NO_MPI)
        tool_error(
            tool,
            "no rank used MPI over Matchbox; likely cause: %s names no MPI library, so it was "
            "built without MPI (ldd %s)",
            program, path);
    else
        tool_error(tool, "no rank came to MPI_Finalize over Matchbox; likely cause: the job "
                         "was ended before, "
                         "or all ranks ran on other hosts (-v says more)");
}

static void say(const struct tool *tool, const struct sum *sum, char *const *command)
{
    char words[32];

    if (sum->processes == 0) {
        say_none(tool, command);
        return;
    }
    tool_error(tool,
               "%" PRIu32 " rank%s over Matchbox %s%s%s%s: %" PRIu64
               " messages sent, %s; %" PRIu64 " matched, %" PRIu64 " of them unexpected",
               sum->processes, sum->processes == 1 ? "" : "s", mbx_version(),
               sum->way[0] != '\0' ? " (" : "", sum->way, sum->way[0] != '\0' ? ")" : "",
               sum->sent, bytes_words(sum->bytes, words), sum->expected + sum->unexpected,
               sum->unexpected);
}

/* ---- the command ---- */

static volatile sig_atomic_t child;

/* The terminal sends its signals to the command as well: only signals of processes are passed on. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != SI_KERNEL && child > 0)
        kill((pid_t)child, number);
}

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

/* One that is ignored stays ignored. */
static void take_signals(struct sigaction before[ARRAY_COUNT(passed_on)])
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};

    action.sa_sigaction = pass_on;
    for (size_t i = 0; i < ARRAY_COUNT(passed_on); i++) {
        sigaction(passed_on[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(passed_on[i], &action, NULL);
    }
}

static void become(const struct tool *tool, char **command, pid_t parent,
                   const struct sigaction before[ARRAY_COUNT(passed_on)], const sigset_t *mask)
{
    for (size_t i = 0; i < ARRAY_COUNT(passed_on); i++)
        sigaction(passed_on[i], &before[i], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(TOOL_CANNOT_RUN);
    execvp(command[0], command);
    tool_error(tool, "cannot run '%s': %s", command[0], strerror(errno));
    _exit(TOOL_CANNOT_RUN);
}

int exec_wait(const struct tool *tool, char **command)
{
    struct sigaction before[ARRAY_COUNT(passed_on)];
    pid_t parent = getpid(), pid;
    sigset_t all, mask;
    int status = 0;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask);
    take_signals(before);
    pid = fork();
    if (pid == 0)
        become(tool, command, parent, before, &mask);
    child = pid;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (pid < 0)
        tool_error(tool, "cannot start '%s': %s", command[0], strerror(errno));
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    if (pid < 0)
        return -1;
    return WIFSIGNALED(status) ? TOOL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int exec_summary_run(const struct tool *tool, const char *folder, char **command)
{
    struct sum sum = {.processes = 0};
    int status = exec_wait(tool, command);

    close_folder(folder, &sum);
    if (status < 0)
        return TOOL_CANNOT_RUN;
    say(tool, &sum, command);
    return status;
}
