/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.c - descendants are found in /proc by their parents' ids.
 *
 * One pass reads {process, parent} of everything that runs, marks all descendants of
 * this process, and kills them.  A process can fork between the pass and its death, but
 * its children then belong to this process, and the next pass finds them.  A pass that
 * finds nothing may have read a child before its parent died, and the parent after
 * that; the next pass sees this process as the parent.  So the last two passes find
 * nothing.
 */
#include "process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mem.h"

#define GIVE_UP_NS (10 * CLOCK_S)

struct process {
    pid_t pid, parent;
    char state;
    uint64_t started;
    bool is_ours;
};

struct table {
    struct process *rows;
    uint32_t count, capacity;
};

void process_adopt_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Reads the fields after the name: after the last ')', because the name may contain
 * anything. */
static bool read_process(const char *pid, struct process *process)
{
    char path[64], text[1024];
    const char *fields;
    unsigned long long started;
    ssize_t size;
    int fd;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return false;
    text[size] = '\0';
    fields = strrchr(text, ')');
    *process = (struct process){.pid = (pid_t)strtol(pid, NULL, 10)};
    if (fields == NULL || sscanf(fields,
                                 ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                                 "%*d %*d %*d %*d %*d %llu",
                                 &process->state, &process->parent, &started) != 3)
        return false;
    process->started = started;
    return true;
}

uint64_t process_started(pid_t pid)
{
    struct process process;
    char text[24];

    snprintf(text, sizeof text, "%d", (int)pid);
    return read_process(text, &process) ? process.started : 0;
}

char process_state(pid_t pid, uint64_t started)
{
    struct process process;
    char text[24];

    snprintf(text, sizeof text, "%d", (int)pid);
    return read_process(text, &process) && process.started == started ? process.state : 0;
}

uint64_t process_age(pid_t pid)
{
    uint64_t started = process_started(pid);
    long ticks = sysconf(_SC_CLK_TCK);
    struct timespec up;
    uint64_t up_ns, started_ns;

    if (started == 0 || ticks <= 0 || clock_gettime(CLOCK_BOOTTIME, &up) != 0)
        return 0;
    up_ns = (uint64_t)up.tv_sec * CLOCK_S + (uint64_t)up.tv_nsec;
    started_ns = started * (CLOCK_S / (uint64_t)ticks);
    return up_ns > started_ns ? up_ns - started_ns : 0;
}

pid_t process_parent(pid_t pid)
{
    struct process process;
    char text[24];

    snprintf(text, sizeof text, "%d", (int)pid);
    return read_process(text, &process) ? process.parent : 0;
}

static bool table_add(struct table *table, const struct process *process)
{
    if (!array_reserve(table->rows, table->capacity, table->count + 1))
        return false;
    table->rows[table->count++] = *process;
    return true;
}

static bool table_read(struct table *table)
{
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    struct process process;
    bool ok = directory != NULL;

    table->count = 0;
    while (ok && (entry = readdir(directory)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, &process))
            ok = table_add(table, &process);
    if (directory != NULL)
        closedir(directory);
    return ok;
}

static bool is_ours(const struct table *table, const struct process *process)
{
    if (process->parent == getpid())
        return true;
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].pid == process->parent)
            return table->rows[i].is_ours;
    return false;
}

/* Repeats until nothing is added: a child may precede its parent. */
static void table_mark(struct table *table, uint64_t since)
{
    bool changed;

    do {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *process = &table->rows[i];

            if (!process->is_ours && process->started >= since && is_ours(table, process))
                process->is_ours = changed = true;
        }
    } while (changed);
}

/* Kills the marked processes; returns how many of them were still alive. */
static size_t table_kill(const struct table *table)
{
    size_t alive = 0;

    for (size_t i = 0; i < table->count; i++) {
        const struct process *process = &table->rows[i];

        if (!process->is_ours || process->state == 'Z' || process->state == 'X')
            continue;
        kill(process->pid, SIGKILL);
        alive++;
    }
    return alive;
}

/* False if no child is left, and so no descendant. */
static bool reap_children(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0;
}

void process_leave_orphans(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    reap_children();
}

bool process_end_descendants(uint64_t since)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t give_up = clock_now() + GIVE_UP_NS;
    struct table table = {0};
    int empty_passes = 0;

    while (empty_passes < 2 && reap_children()) {
        if (clock_now() >= give_up || !table_read(&table))
            break;
        table_mark(&table, since);
        empty_passes = table_kill(&table) == 0 ? empty_passes + 1 : 0;
        if (empty_passes == 0)
            nanosleep(&pause, NULL);
    }
    mem_free(table.rows);
    return empty_passes == 2 || !reap_children();
}
