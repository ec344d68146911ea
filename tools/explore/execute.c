/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * execute.c - one process, in a group of its own, and what descends from it.
 *
 *   RUNNING ──┬── it ends ────────────────────────────────────────────────────┬──> what it has left is killed
 *             └── its time is over, or a signal came ──> SIGTERM to its group ─┘
 *                                                             └── GRACE_NS later: SIGKILL to all
 *
 * A command of mbx is run without another exec, so that a pipe tells a refusal of mbx from an end of the program: it is
 * closed by exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/sys.h"
#include "explore.h"
#include "tools/common/process.h"

#define GRACE_NS (10 * CLOCK_S)
#define LOOK_MS  20   /* where there are no descriptors of processes */
#define MOST_MS  1000 /* in one wait */

struct child {
    pid_t pid;
    uint64_t started;
    int pidfd, told; /* what it tells: one byte if mbx refuses */
    int status;
    bool has_ended;
};

/* ---- the child ---- */

static void open_output(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (file < 0 || dup2(file, fd) < 0) {
        fprintf(stderr, "mbx explore: cannot write %s: %s\n", path, strerror(errno));
        _exit(TOOL_FAILED);
    }
    close(file);
}

static int count_of(char **words)
{
    int count = 0;

    while (words[count] != NULL)
        count++;
    return count;
}

static _Noreturn void become(const struct explore_task *task, const struct interrupt *held,
                             pid_t parent, int told)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC), status;
    char byte = 1;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(TOOL_FAILED);
    interrupt_forget(held);
    dup2(input, STDIN_FILENO);
    open_output(task->out, STDOUT_FILENO);
    if (task->err != NULL)
        open_output(task->err, STDERR_FILENO);
    else
        dup2(STDOUT_FILENO, STDERR_FILENO);
    if (task->tool != NULL) {
        struct tool inner = *task->tool;

        inner.is_inner = true;
        optind = 0; /* its options are new ones */
        status = inner.run(&inner, count_of(task->words), task->words);
        fflush(stdout);
    } else {
        execvp(task->words[0], task->words);
        fprintf(stderr, "mbx explore: cannot run %s: %s\n", task->words[0], strerror(errno));
        status = TOOL_CANNOT_RUN;
    }
    if (write(told, &byte, 1) != 1)
        _exit(TOOL_FAILED);
    _exit(status);
}

static int start(const struct explore_task *task, const struct interrupt *held,
                 struct child *child)
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    fflush(stdout);
    child->pid = fork();
    if (child->pid == 0)
        become(task, held, parent, ends[1]);
    close(ends[1]);
    if (child->pid < 0) {
        int err = -errno;

        close(ends[0]);
        return err;
    }
    setpgid(child->pid, child->pid); /* whoever comes first, it or us */
    child->told = ends[0];
    child->started = process_started(child->pid);
    child->pidfd = sys_pidfd_open(child->pid);
    return 0;
}

/* ---- the end of a run ---- */

static bool has_ended(struct child *child)
{
    if (!child->has_ended)
        child->has_ended = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
    return child->has_ended;
}

static int ms_until(uint64_t deadline, uint64_t now)
{
    if (deadline == UINT64_MAX || deadline - now > MOST_MS * CLOCK_MS)
        return MOST_MS;
    return (int)((deadline - now) / CLOCK_MS) + 1;
}

/* Until it has ended, the time is there, or a signal comes, which is heard only if `held` is there. */
static enum explore_end await(struct child *child, uint64_t deadline,
                              const struct interrupt *held)
{
    struct pollfd one = {.fd = child->pidfd, .events = POLLIN};
    nfds_t count = child->pidfd >= 0;
    uint64_t now;

    while (!has_ended(child)) {
        int ms;

        now = clock_now();
        if (now >= deadline)
            return EXPLORE_TOO_LONG;
        ms = count > 0 ? ms_until(deadline, now) : LOOK_MS;
        if (held == NULL)
            sys_poll(&one, count, ms);
        else if (interrupt_poll(held, &one, (uint32_t)count, ms) && !has_ended(child))
            return EXPLORE_INTERRUPTED;
    }
    return EXPLORE_EXITED;
}

static void end(struct child *child)
{
    kill(-child->pid, SIGTERM);
    kill(-child->pid, SIGCONT); /* a stopped process ends only then */
    if (await(child, clock_now() + GRACE_NS, NULL) != EXPLORE_EXITED)
        kill(-child->pid, SIGKILL);
    while (!child->has_ended && waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
        ;
}

static bool was_refused(const struct child *child)
{
    char byte;

    return read(child->told, &byte, 1) == 1;
}

struct explore_ended explore_execute(const struct explore_task *task,
                                     const struct interrupt *held)
{
    struct explore_ended ended = {.how = EXPLORE_FAILED};
    struct child child = {.pid = -1};
    uint64_t begin = clock_now();
    int err;

    process_adopt_orphans();
    err = start(task, held, &child);
    if (err < 0) {
        ended.number = -err;
        return ended;
    }
    ended.how =
        await(&child, task->limit_ns == UINT64_MAX ? UINT64_MAX : begin + task->limit_ns, held);
    ended.ns = clock_now() - begin;
    if (ended.how != EXPLORE_EXITED)
        end(&child);
    else if (was_refused(&child))
        ended.how = EXPLORE_REFUSED;
    else if (WIFSIGNALED(child.status))
        ended.how = EXPLORE_KILLED;
    ended.number =
        WIFSIGNALED(child.status) ? WTERMSIG(child.status) : WEXITSTATUS(child.status);
    if (!process_end_descendants(child.started))
        fprintf(stderr, "mbx explore: processes of this run cannot be ended\n");
    process_leave_orphans();
    close(child.told);
    if (child.pidfd >= 0)
        close(child.pidfd);
    return ended;
}
