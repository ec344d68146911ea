/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * supervisor.h - the process between `mbx run` and the ranks.
 *
 *   mbx run  <--- socket --->  supervisor  --- parent of --->  rank 0 ... rank n-1
 *   output, messages, signals  starts, reaps and ends          each in a process group
 *
 * No process may remain, whichever process is killed:
 *
 *   a rank          the supervisor reaps it and ends the job if it failed
 *   mbx run         the supervisor reads the end of the socket and kills all its descendants
 *   the supervisor  the kernel kills the ranks (PR_SET_PDEATHSIG); processes that they have
 *                   started become descendants of mbx run, which reads the end of the socket
 *                   and kills them
 *
 * Both adopt orphans, so a descendant cannot escape by losing its parent.  The supervisor is in a
 * process group of its own and calls itself "mbx-supervisor": a signal to mbx run by
 * group or by name does not hit both.
 */
#ifndef TOOLS_SUPERVISOR_H
#define TOOLS_SUPERVISOR_H

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include "tools/common/tool.h"

struct kvs_shm;

struct supervisor_job {
    const struct tool *tool;
    char **argv; /* for every rank; argv[0] is the program */
    uint32_t ranks;
    struct kvs_shm *kvs_shm;
    int kvs_shm_fd;
    const cpu_set_t *cores; /* one per rank, or NULL */
    const int *outputs;     /* standard output and error of each rank */
    int input;              /* standard input of rank 0; the others read /dev/null */
    int launcher;           /* socket: struct supervisor_report out, int signal in */
    uint64_t timeout_ns;    /* 0: none */
    struct rlimit files;    /* the limit of the ranks */
    sigset_t signals;       /* blocked in the ranks */
};

enum supervisor_event {
    SUPERVISOR_RANK_FAILED, /* the first one; status is from waitpid() */
    SUPERVISOR_TIMEOUT,     /* the job has been ended */
    SUPERVISOR_NO_START,    /* rank could not be started; status is an errno */
    SUPERVISOR_LEFT_OVER,   /* processes could not be killed */
    SUPERVISOR_DONE         /* the last report: nothing is left */
};

struct supervisor_report {
    uint32_t event;
    uint32_t rank;
    int32_t status;
};

/* Runs the job; call it in a new process with all signals blocked.  Never returns. */
_Noreturn void supervisor_run(const struct supervisor_job *job);

#endif
