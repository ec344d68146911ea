/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked_job.c - forks, connects and ends the processes of a job.
 */
#include "forked_job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/patience.h"
#include "base/sys.h"
#include "core/core.h"

void forked_start(struct forked_job *job, int count, forked_fn *fn, const void *arg)
{
    *job = (struct forked_job){.count = count, .left = count};
    job->shared = mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job->shared != MAP_FAILED);
    fflush(NULL);
    for (int rank = 0; rank < count; rank++) {
        job->pids[rank] = fork();
        assert_true(job->pids[rank] >= 0);
        if (job->pids[rank] == 0) {
            fn(job, rank, arg);
            _exit(0);
        }
    }
}

/* In the order in which they end, so that the others learn of it. */
void forked_wait(struct forked_job *job)
{
    while (job->left > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        assert_true(pid > 0 || errno == EINTR);
        if (pid < 0)
            continue;
        for (int rank = 0; rank < job->count; rank++)
            if (job->pids[rank] == pid)
                job->statuses[rank] = status;
        job->shared->ended++;
        job->left--;
    }
}

void forked_end(struct forked_job *job)
{
    forked_wait(job);
    munmap(job->shared, sizeof *job->shared);
    job->shared = NULL;
}

bool forked_was_killed(const struct forked_job *job, int rank)
{
    return WIFSIGNALED(job->statuses[rank]) && WTERMSIG(job->statuses[rank]) == SIGKILL;
}

/* ---- in a child ---- */

/* Lets other processes run. */
static void sleep_a_while(void)
{
    const struct timespec nap = {.tv_nsec = 50000};

    nanosleep(&nap, NULL);
}

struct mbx_ep *forked_open(struct forked_job *job, int rank, const char *const *params)
{
    /* a close waits for other processes, which may be slow; of two parameters of one name the
     * last wins */
    const char *all[FORKED_PARAMS + 1] = {"CLOSE_TIMEOUT=900s"};
    const struct mbx_config config = {.params = all};
    struct forked_shared *shared = job->shared;
    struct mbx_ep *ep;
    uint32_t number;

    for (int i = 0; params[i] != NULL; i++) {
        MUST(i + 1 < FORKED_PARAMS, 9);
        all[i + 1] = params[i];
    }
    MUST(mbx_open(&config, &ep) == 0, 10);
    MUST(mbx_address_get(ep, &shared->addresses[rank]) == 0, 11);
    shared->open++;
    while (shared->open < job->count)
        sleep_a_while();
    for (int i = 0; i < job->count; i++)
        MUST(mbx_peer_add(ep, &shared->addresses[i], &number) == 0 && number == (uint32_t)i,
             12);
    return ep;
}

void forked_await(struct forked_job *job, struct mbx_ep *ep, int word, int value)
{
    while (job->shared->words[word] < value && job->shared->ended == 0)
        if (ep == NULL || mbx_progress(ep) == 0)
            sleep_a_while();
}

static int forked_finish(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;

    MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0, 13);
    return done.error;
}

int forked_signal(struct mbx_ep *ep, uint32_t to, uint32_t context_id)
{
    mbx_request request;

    MUST(mbx_send(ep, to, context_id, 0, NULL, 0, NULL, &request) == 0, 14);
    return forked_finish(ep, request);
}

int forked_receive(struct mbx_ep *ep, uint32_t from, uint32_t context_id)
{
    mbx_request request;

    MUST(mbx_recv(ep, from, context_id, 0, 0, NULL, 0, NULL, &request) == 0, 15);
    return forked_finish(ep, request);
}

/* Waits until progress has found the dead processes and dropped what was owed to them. */
static void forked_settle(struct mbx_ep *ep)
{
    uint64_t until_ns = clock_now() + (uint64_t)PATIENCE_NS;
    struct stats stats;

    do {
        MUST(clock_now() < until_ns, 16);
        if (mbx_progress(ep) == 0)
            sleep_a_while();
        stats_read(ep, &stats);
    } while (stats.requests_now != 0);
}

void forked_close(struct mbx_ep *ep)
{
    forked_settle(ep);
    MUST(mbx_close(ep) == 0, 17);
    MUST(mem_live() == 0, 18);
    MUST(sys_maps_live() == 0 && sys_fds_live() == 0, 19);
}
