/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside.c - facts that a rank cannot report: its state while it makes no progress, and ranks that do not run
 * over Matchbox at all.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/text.h"
#include "diagnose.h"
#include "maps.h"
#include "words.h"

#define ENVIRON_MAX 65536
#define JOBS_MAX    32
#define EACH_MAX    4 /* ranks of a job whose state is reported */

/* ---- a file of /proc ---- */

/* Reads at most size - 1 bytes of a file in /proc/PID; false: there is none. */
static bool proc_text(uint32_t pid, const char *name, char *text, size_t size, size_t *used)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/%s", pid, name);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    *used = fread(text, 1, size - 1, file);
    text[*used] = '\0';
    fclose(file);
    return *used != 0;
}

/* ---- the state of the process ---- */

static const struct {
    long number;
    const char *words; /* if it ends with a space, the file of its first argument is added */
} calls[] = {
    {SYS_read, "reads "},
    {SYS_write, "writes "},
    {SYS_pread64, "reads "},
    {SYS_pwrite64, "writes "},
    {SYS_fsync, "flushes "},
    {SYS_futex, "waits for another thread (futex)"},
    {SYS_nanosleep, "sleeps (nanosleep)"},
    {SYS_clock_nanosleep, "sleeps (clock_nanosleep)"},
    {SYS_wait4, "waits for a process (wait4)"},
    {SYS_waitid, "waits for a process (waitid)"},
    {SYS_recvfrom, "receives from a socket (recvfrom)"},
    {SYS_recvmsg, "receives from a socket (recvmsg)"},
    {SYS_ppoll, "waits for a descriptor (ppoll)"},
    {SYS_pselect6, "waits for a descriptor (pselect)"},
    {SYS_epoll_pwait, "waits for a descriptor (epoll_pwait)"},
#ifdef SYS_poll
    {SYS_poll, "waits for a descriptor (poll)"},
    {SYS_select, "waits for a descriptor (select)"},
    {SYS_epoll_wait, "waits for a descriptor (epoll_wait)"},
    {SYS_pause, "waits for a signal (pause)"},
#endif
};

static void file_words(uint32_t pid, unsigned long fd, char *words, size_t size)
{
    char path[64];
    ssize_t used;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd/%lu", pid, fd);
    used = readlink(path, words, size - 1);
    snprintf(words + (used > 0 ? used : 0), size - (size_t)(used > 0 ? used : 0), "%s",
             used > 0 ? "" : "a file");
    text_make_printable(words, '?', false);
}

const char *outside_call(uint32_t pid, const char *text, char words[OUTSIDE_MAX])
{
    unsigned long first = 0;
    long number = -1;

    snprintf(words, OUTSIDE_MAX, "waits for something that is no message");
    if (sscanf(text, "%ld %lx", &number, &first) < 1)
        return words;
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        if (calls[i].number != number)
            continue;
        snprintf(words, OUTSIDE_MAX, "%s", calls[i].words);
        if (words[strlen(words) - 1] == ' ')
            file_words(pid, first, words + strlen(words), OUTSIDE_MAX - strlen(words));
        return words;
    }
    snprintf(words, OUTSIDE_MAX, "waits for something that is no message (system call %ld)",
             number);
    return words;
}

static const char *call_words(uint32_t pid, char words[OUTSIDE_MAX])
{
    char text[256] = "";
    size_t used;

    return proc_text(pid, "syscall", text, sizeof text, &used) ? outside_call(pid, text, words)
                                                               : outside_call(pid, "", words);
}

/* For a rank of another host: the words that the host reported. */
static const char *reported_words(const char *reported, char words[OUTSIDE_MAX])
{
    snprintf(words, OUTSIDE_MAX, "%s", reported);
    return words[0] != '\0' ? words : NULL;
}

const char *outside_words(const struct inspect_rank *rank, char words[OUTSIDE_MAX])
{
    if (rank->reported != NULL)
        return reported_words(rank->reported->does, words);
    if (rank->run == 'T' || rank->run == 't')
        snprintf(words, OUTSIDE_MAX,
                 rank->run == 'T' ? "is stopped (SIGSTOP); kill -CONT %" PRIu32 " lets it go on"
                                  : "is stopped by a debugger",
                 rank->head.pid);
    else if (rank->how == INSPECT_ASKED)
        return NULL;
    else if (rank->how == INSPECT_FAILED)
        snprintf(words, OUTSIDE_MAX, "cannot be read");
    else if (rank->run == 'R')
        snprintf(words, OUTSIDE_MAX, "computes");
    else if (rank->run == 'Z' || rank->run == 'X')
        snprintf(words, OUTSIDE_MAX, "has ended");
    else
        call_words(rank->head.pid, words);
    return words;
}

/* ---- ranks that are none of ours ---- */

/* A job that runs over another transport. */
struct other {
    char job[128], program[32], why[256];
    const char *mpi;
    uint32_t ranks;
    struct {
        uint32_t pid;
        char rank[12];
    } each[EACH_MAX];
};

/* The value of a variable in an environment text, or NULL. */
static const char *variable(const char *text, size_t size, const char *name)
{
    size_t length = strlen(name);

    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (strncmp(text + at, name, length) == 0 && text[at + length] == '=')
            return text + at + length + 1;
    return NULL;
}

static const char *first_of(const char *text, size_t size, const char *const *names)
{
    const char *value = NULL;

    for (; value == NULL && *names != NULL; names++)
        value = variable(text, size, *names);
    return value;
}

/* The libraries of interest that are mapped. */
struct loaded {
    bool has_mpi, has_mpi_12, has_mpich, has_pal, has_matchbox, has_fabric;
};

/* False: they cannot be read. */
static bool libraries_of(uint32_t pid, struct loaded *loaded)
{
    /* without its version; with it, this program would look like an MPI program: launch.c */
    static const char mpi[] = "libmpi.so";
    struct maps_range range;
    struct maps maps;
    bool is_open = maps_open(&maps, pid);

    *loaded = (struct loaded){.has_mpi = false};
    while (is_open && maps_next(&maps, &range)) {
        const char *name = maps_file_name(range.path);
        bool is_mpi = maps_is_library(name, mpi);

        loaded->has_mpi |= is_mpi;
        loaded->has_mpi_12 |= is_mpi && maps_is_library(name + strlen(mpi), ".12");
        loaded->has_mpich |= maps_is_library(name, "libmpich.so");
        loaded->has_pal |= maps_is_library(name, "libopen-pal.so");
        loaded->has_fabric |= maps_is_library(name, "libfabric.so");
        loaded->has_matchbox |= maps_is_library(name, "libmatchbox") ||
                                maps_is_library(name, "mca_pml_matchbox.so") ||
                                strstr(range.path, "/ucp/libucp.so.0") != NULL;
    }
    maps_close(&maps);
    return is_open;
}

/* MPICH has libmpi.so.12, and Debian's has libmpich.so.12.  Old series of Open MPI had libmpi.so.12
 * too, together with libopen-pal.so.  NULL: neither. */
static const char *mpi_of(const struct loaded *loaded)
{
    return loaded->has_mpich || (loaded->has_mpi_12 && !loaded->has_pal) ? "MPICH"
           : loaded->has_mpi                                             ? "Open MPI"
                                                                         : NULL;
}

static bool is_no(const char *value)
{
    return strcmp(value, "no") == 0 || strcmp(value, "off") == 0 ||
           strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
}

/* The reason why messages of this process do not travel over Matchbox. */
static void say_why(struct other *other, const char *text, size_t size,
                    const struct loaded *loaded)
{
    const char *pml = variable(text, size, "OMPI_MCA_pml");
    const char *path = variable(text, size, "FI_PROVIDER_PATH");
    bool is_mpich = strcmp(other->mpi, "MPICH") == 0;

    if (loaded->has_matchbox) {
        const char *see = variable(text, size, "MBX_INSPECT");

        snprintf(other->why, sizeof other->why, "%s",
                 see != NULL && is_no(see)
                     ? "over Matchbox with MBX_INSPECT=no, so mbx cannot read its queues; "
                       "MBX_INSPECT=yes "
                       "lets it"
                     : "Matchbox is loaded and has no endpoint: MPI_Init has not ended, or "
                       "MPI_Finalize has begun, or messages use another layer");
    } else if (is_mpich && !loaded->has_fabric) {
        snprintf(other->why, sizeof other->why,
                 "not over Matchbox: this MPICH has loaded neither libfabric nor our libucp; "
                 "mbx exec "
                 "starts one with the device ch4:ofi or ch4:ucx over it");
    } else if (!is_mpich && pml == NULL) {
        snprintf(other->why, sizeof other->why,
                 "not over Matchbox: OMPI_MCA_pml is not in the environment; mbx exec sets "
                 "it");
    } else if (!is_mpich && strcmp(pml, "matchbox") != 0 && strcmp(pml, "cm") != 0) {
        snprintf(other->why, sizeof other->why,
                 "not over Matchbox: OMPI_MCA_pml=%.40s is in the environment", pml);
    } else if (!is_mpich && strcmp(pml, "matchbox") == 0) {
        snprintf(
            other->why, sizeof other->why,
            "not over Matchbox yet: the component is not loaded; MPI_Init has not ended, or "
            "OMPI_MCA_mca_base_component_path does not lead to the component");
    } else if (path == NULL) {
        snprintf(other->why, sizeof other->why,
                 "not over Matchbox: FI_PROVIDER_PATH is not in the environment; mbx exec "
                 "sets it");
    } else {
        snprintf(other->why, sizeof other->why,
                 "not over Matchbox yet: the provider is not loaded; MPI_Init has not begun, "
                 "or FI_PROVIDER_PATH=%.80s, FI_PROVIDER=%.40s do not lead to it",
                 path,
                 variable(text, size, "FI_PROVIDER") != NULL
                     ? variable(text, size, "FI_PROVIDER")
                     : "(not set)");
    }
}

const char *outside_no_attach(const struct inspect_rank *rank, char words[OUTSIDE_MAX])
{
    uint32_t pid = rank->head.pid;
    static char text[ENVIRON_MAX];
    const char *attach, *filter;
    char scope[16] = "";
    size_t size;
    FILE *file;

    if (rank->reported != NULL)
        return reported_words(rank->reported->apart, words) != NULL ? words
                                                                    : "it has not said why";
    file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL) {
        size = fread(scope, 1, sizeof scope - 1, file);
        scope[size] = '\0';
        fclose(file);
    }
    attach = proc_text(pid, "environ", text, sizeof text, &size)
                 ? variable(text, size, "MBX_SHM_ATTACH")
                 : NULL;
    if (attach != NULL && strcmp(attach, "no") == 0) {
        snprintf(words, OUTSIDE_MAX, "MBX_SHM_ATTACH=no is in its environment");
    } else if (scope[0] >= '2') { /* 1 does not prevent it: the library permits attaching */
        snprintf(words, OUTSIDE_MAX, "kernel.yama.ptrace_scope is %c; 0 and 1 allow it",
                 scope[0]);
    } else {
        filter = proc_text(pid, "status", text, sizeof text, &size)
                     ? strstr(text, "\nSeccomp:\t2")
                     : NULL;
        snprintf(words, OUTSIDE_MAX, "%s",
                 filter != NULL ? "it runs with a seccomp filter, as in a container, which may "
                                  "forbid process_vm_readv"
                                : "mbx info --host, run where it runs, says why");
    }
    return words;
}

static bool has_page(uint32_t pid)
{
    char path[64], link[64];
    struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd", pid);
    folder = opendir(path);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);

        if (size > 0)
            link[size] = '\0';
        found = size > 0 && strstr(link, "/memfd:" INSPECT_NAME) == link;
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

static void note_rank(struct other *other, uint32_t pid, const char *rank)
{
    if (other->ranks < EACH_MAX) {
        other->each[other->ranks].pid = pid;
        snprintf(other->each[other->ranks].rank, sizeof other->each[0].rank, "%.11s", rank);
        text_make_printable(other->each[other->ranks].rank, '?', false);
    }
    other->ranks++;
}

/* Reports their states, if they are few: one that has not reached or left MPI_Init keeps the
 * others there. */
static void say_each(FILE *out, const struct other *other)
{
    char words[OUTSIDE_MAX], text[256];
    size_t used;

    for (uint32_t i = 0; i < other->ranks && other->ranks <= EACH_MAX; i++) {
        const char *run, *end;

        if (!proc_text(other->each[i].pid, "stat", text, sizeof text, &used))
            continue;
        end = strrchr(text, ')');
        run = end != NULL && end[1] == ' ' ? end + 2 : "S";
        fprintf(out, "  rank %s (pid %" PRIu32 ") %s\n", other->each[i].rank,
                other->each[i].pid,
                *run == 'R'                  ? "computes"
                : *run == 'T' || *run == 't' ? "is stopped"
                                             : call_words(other->each[i].pid, words));
    }
}

static void look_at(uint32_t pid, struct other *all, uint32_t *count)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
    static const char *const jobs[] = {
        "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_FD", "PMI_PORT", "PMI_JOBID", NULL};
    static char text[ENVIRON_MAX];
    struct other other = {.mpi = NULL};
    struct loaded loaded;
    size_t size, used;
    const char *job;

    if (!proc_text(pid, "environ", text, sizeof text, &size) ||
        first_of(text, size, ranks) == NULL || !libraries_of(pid, &loaded))
        return;
    other.mpi = mpi_of(&loaded);
    if (other.mpi == NULL || has_page(pid))
        return;
    job = first_of(text, size, jobs);
    snprintf(other.job, sizeof other.job, "%s", job != NULL ? job : "");
    if (proc_text(pid, "comm", other.program, sizeof other.program, &used))
        other.program[strcspn(other.program, "\n")] = '\0';
    text_make_printable(other.program, '?', false);
    say_why(&other, text, size, &loaded);
    text_make_printable(other.why, '?', false);
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(all[i].program, other.program) == 0 && strcmp(all[i].why, other.why) == 0 &&
            (strcmp(all[i].job, other.job) == 0 || strcmp(other.mpi, "MPICH") == 0)) {
            note_rank(&all[i], pid, first_of(text, size, ranks));
            return;
        }
    if (*count < JOBS_MAX) {
        all[*count] = other;
        note_rank(&all[(*count)++], pid, first_of(text, size, ranks));
    }
}

uint32_t outside_say_others(FILE *out)
{
    static struct other all[JOBS_MAX];
    uint32_t count = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);

        if (*end == '\0' && pid != 0 && pid != (unsigned long)getpid())
            look_at((uint32_t)pid, all, &count);
    }
    if (proc != NULL)
        closedir(proc);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, "%" PRIu32 " rank%s of %s: %s, %s\n", all[i].ranks,
                all[i].ranks == 1 ? "" : "s", all[i].program, all[i].mpi, all[i].why);
        say_each(out, &all[i]);
    }
    return count;
}
