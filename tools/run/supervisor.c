/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * supervisor.c - starts the ranks and outlives them.
 *
 *   RUNNING   a rank fails, time is up, a start fails      -> ENDING (SIGTERM to all)
 *   ENDING    GRACE_NS later, or a second request to stop  -> killed
 *   all ranks have ended, in either state: processes that they left running are killed, DONE
 *
 * The supervisor writes at most one report of each kind, so it never waits for mbx run.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "boot/kvs_shm.h"
#include "tools/common/process.h"

#define GRACE_NS  (1 * CLOCK_S) /* between SIGTERM and SIGKILL */
#define INSIST_NS (1 * CLOCK_S) /* a stop signal repeated after this time kills */
#define NAME      "mbx-supervisor"

enum supervisor_state { SUPERVISOR_RUNNING, SUPERVISOR_ENDING };

struct supervisor {
    const struct supervisor_job *job;
    char **argv;
    pid_t self;
    pid_t *pids;     /* by rank; 0: not running */
    uint32_t living; /* running ranks */
    enum supervisor_state state;
    uint64_t deadline;   /* of the state; UINT64_MAX: none */
    uint64_t stop_asked; /* when the first stop signal was passed on; 0: not yet */
    int children;        /* signalfd for SIGCHLD */
};

static void report(struct supervisor *g, enum supervisor_event event, uint32_t rank, int status)
{
    struct supervisor_report r = {.event = event, .rank = rank, .status = status};

    send(g->job->launcher, &r, sizeof r, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- a rank's first steps ---- */

static int open_input(const struct supervisor_job *job, uint32_t rank)
{
    return rank == 0 && job->input >= 0 ? job->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

#define PLACES_USUAL 1024u /* MBX_PEERS_MAX, where it is not known how many ranks there are */

/* Prepares the environment and files of a new rank; 0 or errno. */
static int rank_prepare(const struct supervisor_job *job, uint32_t rank)
{
    char boot[32], places[16];
    int input = open_input(job, rank);

    if (dup2(input, STDIN_FILENO) < 0 || dup2(job->outputs[2 * rank], STDOUT_FILENO) < 0 ||
        dup2(job->outputs[2 * rank + 1], STDERR_FILENO) < 0)
        return errno;
    if (fcntl(job->kvs_shm_fd, F_SETFD, 0) < 0) /* clears close-on-exec */
        return errno;
    if (job->cores != NULL &&
        sched_setaffinity(0, sizeof job->cores[rank], &job->cores[rank]) < 0)
        return errno;
    setrlimit(RLIMIT_NOFILE, &job->files);
    if (job->ranks > sys_cores() && setenv("MBX_OVERSUBSCRIBED", "yes", 0) < 0)
        return errno;
    snprintf(places, sizeof places, "%u", 2 * job->ranks);
    if (job->ranks > PLACES_USUAL / 2 && setenv("MBX_PEERS_MAX", places, 0) < 0)
        return errno;
    snprintf(boot, sizeof boot, "%d:%u", job->kvs_shm_fd, rank);
    return setenv(KVS_SHM_ENVIRONMENT, boot, 1) < 0 ? errno : 0;
}

static _Noreturn void rank_exec(const struct supervisor *g, uint32_t rank)
{
    int error;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != g->self)
        _exit(TOOL_FAILED); /* the supervisor died before the line above */
    error = rank_prepare(g->job, rank);
    if (error == 0) {
        sigprocmask(SIG_SETMASK, &g->job->signals, NULL);
        execvp(g->argv[0], g->argv);
        error = errno;
    }
    tool_error(g->job->tool, "rank %u cannot run '%s': %s", rank, g->argv[0], strerror(error));
    _exit(error == ENOENT ? TOOL_NOT_FOUND : TOOL_CANNOT_RUN);
}

/* ---- ending ---- */

/* Signals the process groups of all running ranks. */
static void signal_ranks(const struct supervisor *g, int signal)
{
    for (uint32_t rank = 0; rank < g->job->ranks; rank++)
        if (g->pids[rank] != 0)
            kill(-g->pids[rank], signal);
}

static void supervisor_end(struct supervisor *g)
{
    if (g->state == SUPERVISOR_ENDING)
        return;
    g->state = SUPERVISOR_ENDING;
    g->deadline = clock_now() + GRACE_NS;
    signal_ranks(g, SIGTERM);
    signal_ranks(g, SIGCONT); /* wakes stopped processes for SIGTERM */
}

static _Noreturn void supervisor_finish(struct supervisor *g)
{
    signal_ranks(g, SIGKILL);
    if (!process_end_descendants(0))
        report(g, SUPERVISOR_LEFT_OVER, 0, 0);
    report(g, SUPERVISOR_DONE, 0, 0);
    _exit(0);
}

/* ---- starting and watching ---- */

static void supervisor_start(struct supervisor *g)
{
    for (uint32_t rank = 0; rank < g->job->ranks; rank++) {
        pid_t pid = fork();

        if (pid == 0)
            rank_exec(g, rank);
        if (pid < 0) {
            report(g, SUPERVISOR_NO_START, rank, errno);
            supervisor_end(g);
            return;
        }
        setpgid(pid, pid); /* parent and child both call it: either may be first */
        g->pids[rank] = pid;
        g->living++;
    }
}

/* Only the ranks keep their pipes open, so that the end of each pipe is seen. */
static void close_rank_ends(const struct supervisor_job *job)
{
    for (uint32_t i = 0; i < 2 * job->ranks; i++)
        close(job->outputs[i]);
    if (job->input >= 0)
        close(job->input);
}

static void rank_ended(struct supervisor *g, uint32_t rank, int status)
{
    g->pids[rank] = 0;
    g->living--;
    kvs_shm_rank_ended(g->job->kvs_shm, rank);
    if (status == 0 || g->state == SUPERVISOR_ENDING)
        return;
    report(g, SUPERVISOR_RANK_FAILED, rank, status);
    supervisor_end(g);
}

static void reap(struct supervisor *g)
{
    struct signalfd_siginfo ignored;
    pid_t pid;
    int status;

    while (read(g->children, &ignored, sizeof ignored) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t rank = 0; rank < g->job->ranks; rank++)
            if (g->pids[rank] == pid)
                rank_ended(g, rank, status);
}

static bool is_stop(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

/* A rank that ignores signals fails when it is killed; it is the first failure unless there was
 * one. */
static void report_kill(struct supervisor *g)
{
    uint32_t rank = 0;

    if (g->state == SUPERVISOR_ENDING)
        return;
    while (g->pids[rank] == 0)
        rank++;
    report(g, SUPERVISOR_RANK_FAILED, rank, SIGKILL);
}

static void pass_on(struct supervisor *g, int signal)
{
    signal_ranks(g, signal);
    if (!is_stop(signal))
        return;
    if (g->stop_asked == 0) {
        g->stop_asked = clock_now();
    } else if (clock_now() - g->stop_asked >= INSIST_NS) {
        report_kill(g);
        supervisor_finish(g);
    }
}

static void obey_launcher(struct supervisor *g)
{
    int signal;
    ssize_t size = recv(g->job->launcher, &signal, sizeof signal, MSG_DONTWAIT);

    if (size == sizeof signal)
        pass_on(g, signal);
    else if (size >= 0 || (errno != EAGAIN && errno != EINTR))
        supervisor_finish(g); /* mbx run has ended */
}

static void deadline_passed(struct supervisor *g)
{
    if (g->state == SUPERVISOR_ENDING)
        supervisor_finish(g);
    report(g, SUPERVISOR_TIMEOUT, 0, 0);
    supervisor_end(g);
}

static int poll_timeout_ms(const struct supervisor *g)
{
    uint64_t now = clock_now();

    if (g->deadline == UINT64_MAX)
        return -1;
    if (now >= g->deadline)
        return 0;
    return (int)min_size((g->deadline - now) / CLOCK_MS + 1, 1000000);
}

static void supervisor_watch(struct supervisor *g)
{
    struct pollfd fds[] = {{.fd = g->job->launcher, .events = POLLIN},
                           {.fd = g->children, .events = POLLIN}};

    while (g->living > 0) {
        poll(fds, ARRAY_COUNT(fds), poll_timeout_ms(g));
        if (fds[0].revents != 0)
            obey_launcher(g);
        if (fds[1].revents != 0)
            reap(g);
        if (clock_now() >= g->deadline)
            deadline_passed(g);
    }
}

/* ---- */

/* Replaces the command line of this process by NAME; the ranks' arguments are stored there and
 * must be copied. */
static bool copy_arguments(struct supervisor *g)
{
    size_t count = 0;

    while (g->job->argv[count] != NULL)
        count++;
    g->argv = mem_calloc(count + 1, sizeof *g->argv);
    for (size_t i = 0; g->argv != NULL && i < count; i++)
        if ((g->argv[i] = strdup(g->job->argv[i])) == NULL)
            return false;
    return g->argv != NULL;
}

static void take_name(void)
{
    prctl(PR_SET_NAME, (unsigned long)NAME);
    if (tool_title.start != NULL) {
        memset(tool_title.start, 0, (size_t)(tool_title.end - tool_title.start));
        snprintf(tool_title.start, (size_t)(tool_title.end - tool_title.start), "%s", NAME);
    }
}

static int open_children(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

_Noreturn void supervisor_run(const struct supervisor_job *job)
{
    struct supervisor g = {.job = job, .self = getpid(), .deadline = UINT64_MAX};

    setpgid(0, 0);
    process_adopt_orphans();
    g.pids = mem_calloc(job->ranks, sizeof *g.pids);
    g.children = open_children();
    if (g.pids == NULL || !copy_arguments(&g) || g.children < 0) {
        report(&g, SUPERVISOR_NO_START, 0, g.children < 0 ? errno : ENOMEM);
        report(&g, SUPERVISOR_DONE, 0, 0);
        _exit(1);
    }
    take_name();
    if (job->timeout_ns != 0)
        g.deadline = clock_now() + job->timeout_ns;
    supervisor_start(&g);
    close_rank_ends(job);
    supervisor_watch(&g);
    supervisor_finish(&g);
}
