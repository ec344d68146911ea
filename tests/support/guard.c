/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.c - runs a test, and leaves none of its processes running.
 *
 * usage: guard COMMAND [ARGUMENT...]
 *
 * Meson starts each test with it.  A test starts with all signals at their defaults: the parent
 * of Meson, as nohup or a shell that runs it in the background, may ignore some.  A process
 * that loses its parent becomes a child of this one.  When a test has failed, or is stopped,
 * its remaining processes are killed.  When it has passed, they have time to end; one that does
 * not is named and killed, and the test has failed.  Each test has a software adapter of its own: a job that ends
 * may kill the adapter that it has started.
 *
 * The temporary files of a test are in a folder of its own, which is removed in the end, however
 * the test ends.  Processes of other users can reach what is open to them in it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../src/base/patience.h"

#define NOT_HERE       77
#define LEFT           99

#define QUOTED(words)  #words
#define TEXT_OF(value) QUOTED(value)

/* Variables that name the folder: for all programs, for tmux, and for the memory that ranks of
 * Open MPI's own layer share, which a killed job leaves. */
static const char *const folder_names[] = {"TMPDIR", "TMUX_TMPDIR",
                                           "OMPI_MCA_btl_vader_backing_directory",
                                           "OMPI_MCA_btl_sm_backing_directory"};

/* Open MPI has limits that a job on a busy machine exceeds.  A rank waits 2 s in MPI_Finalize until mpiexec has
 * answered, and then exits; mpiexec may see the exit first, and the job fails because the rank "exited without finalize".
 * MPI_Comm_spawn waits 60 s for the processes that it has started. */
static const struct {
    const char *name, *value;
} patient[] = {{"OMPI_MCA_orte_allowed_exit_without_sync", "1"},
               {"OMPI_MCA_pmix_base_exchange_timeout", TEXT_OF(PATIENCE_S)}};

static pid_t test;
static int status;
static bool has_ended;
static char folder[PATH_MAX];

/* Reaps children that have ended.  Are there others? */
static bool reap(void)
{
    for (;;) {
        int how;
        pid_t pid = waitpid(-1, &how, WNOHANG);

        if (pid <= 0)
            return pid == 0;
        if (pid == test) {
            status = how;
            has_ended = true;
        }
    }
}

/* Is it a child of this process, with this name?  A name may be any bytes. */
static bool is_child(const char *pid, char name[16])
{
    char path[64], text[512], *open, *close;
    long parent;
    size_t size;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if ((file = fopen(path, "re")) == NULL)
        return false;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    open = strchr(text, '(');
    close = strrchr(text, ')');
    if (open == NULL || close == NULL || sscanf(close, ") %*c %ld", &parent) != 1)
        return false;
    *close = '\0';
    snprintf(name, 16, "%s", open + 1);
    return parent == getpid();
}

/* Returns the number of processes of the test; sends each the signal, unless it is 0, and
 * prints its name, if names is true. */
static unsigned left(int number, bool names)
{
    DIR *proc = opendir("/proc");
    unsigned count = 0;

    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        char name[16];

        if (!isdigit((unsigned char)entry->d_name[0]) || !is_child(entry->d_name, name))
            continue;
        count++;
        if (names)
            fprintf(stderr, "guard: the test has passed, and leaves %s (%s)\n", name,
                    entry->d_name);
        if (number != 0)
            kill((pid_t)atol(entry->d_name), number);
    }
    if (proc != NULL)
        closedir(proc);
    return count;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* The children of a killed process become children of this one; ends when there is none. */
static void kill_all(void)
{
    while (reap() && left(SIGKILL, false) != 0)
        rest();
}

static bool has_time(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - begin->tv_sec < PATIENCE_S;
}

/* Does a process of a test that has passed keep running? */
static bool stays(void)
{
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (reap() && left(0, false) != 0) {
        if (!has_time(&begin))
            return left(0, true) != 0;
        rest();
    }
    return false;
}

/* Fails for SIGKILL, SIGSTOP and the signals of the C library. */
static void signals_by_default(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Open MPI 4.1 puts the folders of all jobs into one, which mpiexec makes and removes.  Two that start at once may both try
 * to make it, and one of them fails.  A folder in it keeps it from being removed. */
static bool keep_sessions(void)
{
    struct utsname host;
    char path[sizeof folder + sizeof host.nodename + 32];
    int length;

    if (uname(&host) != 0)
        return false;
    length = snprintf(path, sizeof path, "%s/ompi.%s.%u", folder, host.nodename, geteuid());
    if (mkdir(path, 0700) != 0)
        return false;
    snprintf(path + length, sizeof path - (size_t)length, "/keep");
    return mkdir(path, 0700) == 0;
}

static bool make_folder(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/mbx-test.XXXXXX",
             parent != NULL && parent[0] == '/' ? parent : "/tmp");
    if (mkdtemp(folder) == NULL || chmod(folder, 0711) != 0)
        return false;
    for (size_t i = 0; i < sizeof folder_names / sizeof folder_names[0]; i++)
        setenv(folder_names[i], folder, 1);
    setenv("MBX_ADAPTER_NAME", strrchr(folder, '/') + 1, 1);
    return keep_sessions();
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)stat;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int begin(char **words)
{
    if (!make_folder()) {
        fprintf(stderr, "guard: %s: %s\n", folder, strerror(errno));
        remove_folder();
        return -1;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 || (test = fork()) < 0) {
        fprintf(stderr, "guard: %s\n", strerror(errno));
        return -1;
    }
    if (test != 0)
        return 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signals_by_default();
    for (size_t i = 0; i < sizeof patient / sizeof *patient; i++)
        setenv(patient[i].name, patient[i].value, 0);
    execvp(words[0], words);
    fprintf(stderr, "guard: %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

int main(int argc, char **argv)
{
    sigset_t signals;
    bool passed;

    if (argc < 2) {
        fprintf(stderr, "usage: guard COMMAND [ARGUMENT...]\n");
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (begin(argv + 1) != 0)
        return 2;
    while (reap(), !has_ended) {
        int number = sigwaitinfo(&signals, NULL);

        if (number > 0 && number != SIGCHLD) {
            kill_all();
            remove_folder();
            return 128 + number;
        }
    }
    passed = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NOT_HERE);
    passed = passed && !stays();
    kill_all();
    remove_folder();
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return !passed && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NOT_HERE)
               ? LEFT
               : WEXITSTATUS(status);
}
