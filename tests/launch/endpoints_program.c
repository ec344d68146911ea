/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoints_program.c - two ranks, each with an endpoint for MPI and a further one, for endpoints_test.py.
 *
 * usage: endpoints_program
 *
 * Each rank posts a receive from the other one to the endpoint for MPI; rank 1 also to the further one, which it has opened
 * first.  A rank prints "ready PID"; then rank 0 makes progress, and rank 1 makes none, until they are killed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#define CONTEXT 1

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "endpoints_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static struct mbx_ep *open_one(struct mbx_job *job)
{
    const struct mbx_config config = {.key = mbx_job_key(job)};
    struct mbx_ep *ep;

    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    return ep;
}

static void post(struct mbx_job *job, struct mbx_ep *ep, uint64_t tag)
{
    static char in[4];

    must(mbx_recv(ep, 1 - mbx_job_rank(job), CONTEXT, tag, 0, in, sizeof in, NULL, NULL),
         "mbx_recv");
}

int main(void)
{
    struct mbx_ep *further, *of_mpi;
    struct mbx_job *job;

    must(mbx_job_open(&job), "mbx_job_open");
    further = open_one(job);
    of_mpi = open_one(job);
    must(mbx_name_program(of_mpi, "component Open MPI v4.1.4"), "mbx_name_program");
    post(job, of_mpi, 7);
    if (mbx_job_rank(job) == 1)
        post(job, further, 8);
    must(mbx_job_fence(job), "mbx_job_fence");
    printf("ready %ld\n", (long)getpid());
    fflush(stdout);
    while (mbx_job_rank(job) == 0) {
        must(mbx_progress(of_mpi), "mbx_progress");
        must(mbx_progress(further), "mbx_progress");
    }
    for (;;)
        pause();
}
