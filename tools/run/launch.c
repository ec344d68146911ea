/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.c - mbx run's own process: forwards output, input and signals.
 *
 * It makes the board and the pipes, and forks the supervisor (supervisor.h), which does everything
 * else.  It reads until the supervisor has reported the end and all pipes are closed.
 *
 * The signal handler itself passes signals on, so that they get through while this
 * process waits for a reader of its output.
 *
 * Input: rank 0 reads our standard input directly, unless that is a terminal: the rank is
 * in another process group, and would be stopped.  It then gets a pipe, and we
 * read the terminal while we are in the foreground.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/sys.h"
#include "bind.h"
#include "boot/kvs_shm.h"
#include "output.h"
#include "supervisor.h"
#include "tools/common/process.h"
#include "tools/common/program.h"

#define DRAIN_MS 1000 /* after the end, for pipes that another process holds open */

struct job {
    const struct launch *launch;
    struct kvs_shm kvs_shm;
    int kvs_shm_fd;
    cpu_set_t *cores;
    struct output output;
    int *rank_ends;     /* the ranks' ends of the output pipes, for the supervisor */
    int input_from;     /* standard input of rank 0 */
    int terminal_to;    /* our end of the pipe to rank 0, or -1 */
    struct pollfd *fds; /* one per stream, the supervisor, the terminal */
    int supervisor;     /* socket, -1 after the end */
    pid_t supervisor_pid;
    uint64_t supervisor_started;
    bool is_done;
    int result;
    struct supervisor_report reason; /* why result is not 0 */
};

/* ---- signals ---- */

static const int passed_signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                     SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
static int signal_socket = -1;

static void pass_signal(int signal)
{
    int error = errno;

    send(signal_socket, &signal, sizeof signal, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (signal == SIGTSTP)
        kill(getpid(), SIGSTOP);
    errno = error;
}

static void catch_signals(int socket)
{
    struct sigaction action = {.sa_handler = pass_signal, .sa_flags = SA_RESTART}, old;

    signal_socket = socket;
    for (size_t i = 0; i < ARRAY_COUNT(passed_signals); i++) {
        sigaction(passed_signals[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) /* an ignored signal stays ignored (nohup) */
            sigaction(passed_signals[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

/* ---- resources of the job ---- */

static int plan_cores(struct job *job)
{
    uint32_t ranks = job->launch->ranks;
    int cores;

    if (!job->launch->bind)
        return 0;
    job->cores = mem_calloc(ranks, sizeof *job->cores);
    if (job->cores == NULL)
        return -ENOMEM;
    cores = bind_plan(job->cores, ranks);
    if (cores < 0) {
        tool_error(job->launch->tool, cores == -ENOTSUP
                                          ? "ranks cannot be bound: mbx was built without hwloc"
                                          : "ranks cannot be bound: hwloc finds no cores");
        return cores;
    }
    if ((uint32_t)cores < ranks)
        tool_error(job->launch->tool, "note: %u ranks share %d cores", ranks, cores);
    return 0;
}

/* Two pipes per rank may exceed the usual limit of open files. */
static void raise_file_limit(const struct rlimit *now)
{
    struct rlimit all = {.rlim_cur = now->rlim_max, .rlim_max = now->rlim_max};

    setrlimit(RLIMIT_NOFILE, &all);
}

static int open_pipes(struct job *job)
{
    uint32_t count = 2 * job->launch->ranks;

    job->rank_ends = mem_calloc(count, sizeof *job->rank_ends);
    job->fds = mem_calloc(count + 2, sizeof *job->fds);
    if (job->rank_ends == NULL || job->fds == NULL)
        return -ENOMEM;
    memset(job->rank_ends, -1, count * sizeof *job->rank_ends);
    for (uint32_t i = 0; i < count; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return -errno;
        job->output.streams[i].from = ends[0];
        job->rank_ends[i] = ends[1];
    }
    return 0;
}

static int open_input(struct job *job)
{
    int ends[2];

    if (!isatty(STDIN_FILENO)) {
        job->input_from = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3); /* -1: it is closed */
        return 0;
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    job->input_from = ends[0];
    job->terminal_to = ends[1];
    return 0;
}

static void close_rank_ends(struct job *job)
{
    for (uint32_t i = 0; job->rank_ends != NULL && i < 2 * job->launch->ranks; i++)
        if (job->rank_ends[i] >= 0)
            close(job->rank_ends[i]);
    mem_free(job->rank_ends);
    job->rank_ends = NULL;
    if (job->input_from >= 0)
        close(job->input_from);
    job->input_from = -1;
}

static void close_terminal(struct job *job)
{
    if (job->terminal_to >= 0)
        close(job->terminal_to);
    job->terminal_to = -1;
}

/* Forks the supervisor with all signals blocked; it never unblocks them. */
static int start_supervisor(struct job *job, const struct rlimit *files)
{
    struct supervisor_job supervisor = {
        .tool = job->launch->tool,
        .argv = job->launch->argv,
        .ranks = job->launch->ranks,
        .kvs_shm = &job->kvs_shm,
        .kvs_shm_fd = job->kvs_shm_fd,
        .cores = job->cores,
        .outputs = job->rank_ends,
        .input = job->input_from,
        .timeout_ns = job->launch->timeout_ns,
        .files = *files,
    };
    sigset_t all;
    int sockets[2], err = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    supervisor.launcher = sockets[1];
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &supervisor.signals);
    fflush(NULL);
    job->supervisor_pid = fork();
    if (job->supervisor_pid == 0) {
        close(sockets[0]);          /* otherwise it would never see that we end */
        output_close(&job->output); /* nor would the ranks see that their readers end */
        close_terminal(job);
        supervisor_run(&supervisor);
    }
    if (job->supervisor_pid > 0) {
        job->supervisor = sockets[0];
        job->supervisor_started = process_started(job->supervisor_pid);
        catch_signals(sockets[0]);
    } else {
        err = -errno;
        close(sockets[0]);
    }
    close(sockets[1]);
    sigprocmask(SIG_SETMASK, &supervisor.signals, NULL);
    return err;
}

/* ---- the loop ---- */

/* The exit code for a wait status. */
static int exit_code(int status)
{
    return WIFSIGNALED(status) ? TOOL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static void take_report(struct job *job, const struct supervisor_report *report)
{
    switch ((enum supervisor_event)report->event) {
    case SUPERVISOR_RANK_FAILED:
        job->result = exit_code(report->status);
        job->reason = *report;
        break;
    case SUPERVISOR_TIMEOUT:
        job->result = TOOL_TIMEOUT;
        job->reason = *report;
        break;
    case SUPERVISOR_NO_START:
        job->result = TOOL_FAILED;
        job->reason = *report;
        break;
    case SUPERVISOR_LEFT_OVER:
        tool_error(job->launch->tool,
                   "some processes of the job could not be killed; ps -ef lists them");
        break;
    case SUPERVISOR_DONE:
        job->is_done = true;
        break;
    }
}

/* The supervisor was killed.  The kernel has killed the ranks; this kills their descendants. */
static void supervisor_lost(struct job *job)
{
    tool_error(job->launch->tool,
               "the supervisor process of the job was killed; the job was ended");
    process_end_descendants(job->supervisor_started);
    job->result = TOOL_SIGNAL + SIGKILL;
}

static void hear_supervisor(struct job *job)
{
    struct supervisor_report report;
    ssize_t size = recv(job->supervisor, &report, sizeof report, MSG_DONTWAIT);

    if (size == (ssize_t)sizeof report) {
        take_report(job, &report);
    } else if (size >= 0 || (errno != EAGAIN && errno != EINTR)) {
        if (!job->is_done)
            supervisor_lost(job);
        job->supervisor = -1; /* the socket stays open: the handler may use it */
    }
}

/* Forwards a line from the terminal.  The pipe has space for it, or its reader is gone. */
static void forward_terminal(struct job *job)
{
    char line[PIPE_BUF];
    ssize_t n = read(STDIN_FILENO, line, sizeof line);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0 || write(job->terminal_to, line, (size_t)n) != n)
        close_terminal(job);
}

static bool may_read_terminal(const struct job *job)
{
    struct pollfd pipe = {.fd = job->terminal_to, .events = POLLOUT};

    return job->terminal_to >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
           poll(&pipe, 1, 0) == 1;
}

/* Fills fds; returns the number of open streams. */
static size_t watch(struct job *job)
{
    size_t count = job->output.count, open = 0;

    for (size_t i = 0; i < count; i++) {
        job->fds[i] = (struct pollfd){.fd = job->output.streams[i].from, .events = POLLIN};
        open += job->fds[i].fd >= 0;
    }
    job->fds[count] = (struct pollfd){.fd = job->supervisor, .events = POLLIN};
    job->fds[count + 1] =
        (struct pollfd){.fd = may_read_terminal(job) ? STDIN_FILENO : -1, .events = POLLIN};
    return open;
}

static int wait_ms(const struct job *job)
{
    if (output_is_holding(&job->output))
        return OUTPUT_IDLE_MS;
    if (job->supervisor < 0)
        return DRAIN_MS;
    return job->terminal_to >= 0 ? 1000 : -1; /* polls the foreground and the pipe */
}

static void supervise(struct job *job)
{
    size_t count = job->output.count;

    for (;;) {
        size_t open = watch(job);
        int ready;

        if (open == 0 && job->supervisor < 0)
            return;
        ready = poll(job->fds, count + 2, wait_ms(job));
        if (ready < 0)
            continue; /* EINTR */
        if (ready == 0 && output_flush(&job->output) == 0 && job->supervisor < 0)
            return;
        for (size_t i = 0; i < count; i++)
            if (job->fds[i].revents != 0)
                output_forward(&job->output, &job->output.streams[i]);
        if (job->fds[count].revents != 0)
            hear_supervisor(job);
        if (job->fds[count + 1].revents != 0)
            forward_terminal(job);
    }
}

/* ---- the end ---- */

static void say_reason(const struct job *job)
{
    const struct tool *tool = job->launch->tool;
    const struct supervisor_report *r = &job->reason;

    if (job->result == 0 || job->supervisor_pid < 0)
        return;
    switch ((enum supervisor_event)r->event) {
    case SUPERVISOR_RANK_FAILED:
        if (WIFSIGNALED(r->status))
            tool_error(tool, "rank %u was killed by signal %d (%s); the job was ended", r->rank,
                       WTERMSIG(r->status), strsignal(WTERMSIG(r->status)));
        else
            tool_error(tool, "rank %u exited with code %d; the job was ended", r->rank,
                       WEXITSTATUS(r->status));
        break;
    case SUPERVISOR_TIMEOUT:
        tool_error(tool,
                   "the job has timed out after %llu s (--timeout); all ranks were killed",
                   (unsigned long long)(job->launch->timeout_ns / CLOCK_S));
        break;
    case SUPERVISOR_NO_START:
        tool_error(tool, "rank %u could not be started: %s", r->rank, strerror(r->status));
        break;
    case SUPERVISOR_LEFT_OVER:
    case SUPERVISOR_DONE:
        break;
    }
}

/* Reports lost output.  A full disk does not end a job, unless a rank writes again and is
 * killed by SIGPIPE. */
static void say_what_was_lost(struct job *job)
{
    if (job->output.error == 0)
        return;
    tool_error(job->launch->tool, "the output of the job cannot be written: %s",
               strerror(-job->output.error));
    if (job->result == 0)
        job->result = TOOL_FAILED;
}

/* Warns about an MPI program: it does not know this launcher, so each rank was an MPI job of
 * its own. */
static void say_if_mpi(const struct job *job)
{
    const struct launch *launch = job->launch;

    if (launch->ranks > 1 && strchr(launch->argv[0], '/') != NULL &&
        atomic_load_explicit(&job->kvs_shm.shared->arrivals, memory_order_relaxed) == 0 &&
        program_mpi(launch->argv[0]) != PROGRAM_NO_MPI)
        tool_error(launch->tool,
                   "warning: %s is an MPI program, and ran as %u MPI jobs of one rank each; "
                   "mbx exec mpiexec -n %u %s runs one",
                   launch->argv[0], launch->ranks, launch->ranks, launch->argv[0]);
}

static void job_run(struct job *job)
{
    job->reason.event = SUPERVISOR_DONE; /* no failure so far */
    close_rank_ends(job);
    supervise(job);
    while (waitpid(job->supervisor_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    say_reason(job);
    say_what_was_lost(job);
    say_if_mpi(job);
}

int launch_job(const struct launch *launch)
{
    struct job job = {.launch = launch, .input_from = -1, .terminal_to = -1, .supervisor = -1};
    struct rlimit files;
    int err, status = tool_find_program(launch->tool, launch->argv[0]);

    if (status != 0)
        return status;
    getrlimit(RLIMIT_NOFILE, &files);
    raise_file_limit(&files);
    tool_leave_host(true);
    process_adopt_orphans();
    if ((err = plan_cores(&job)) != 0)
        goto free_cores;
    if ((err = kvs_shm_create(&job.kvs_shm, launch->ranks, &job.kvs_shm_fd)) != 0)
        goto free_cores;
    if ((err = output_open(&job.output, launch->ranks, launch->label)) != 0)
        goto close_kvs_shm;
    if ((err = open_pipes(&job)) != 0 || (err = open_input(&job)) != 0 ||
        (err = start_supervisor(&job, &files)) != 0)
        goto close_pipes;
    job_run(&job);

close_pipes:
    close_rank_ends(&job);
    close_terminal(&job);
    mem_free(job.fds);
    output_close(&job.output);
close_kvs_shm:
    kvs_shm_close(&job.kvs_shm);
    sys_close(job.kvs_shm_fd);
free_cores:
    mem_free(job.cores);
    if (err != 0) {
        if (err != -ENOTSUP && err != -ENODEV)
            tool_error(launch->tool, "the job cannot be started: %s", strerror(-err));
        return TOOL_FAILED;
    }
    return job.result;
}
