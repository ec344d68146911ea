/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * both.c - MPI and a job of Matchbox in one process, each of which uses PMIx.
 *
 * usage: both first|last      the job is opened before MPI_Init (first) or after it (last), and
 *                             closed in the reverse order
 *
 * Both must know the same ranks, and messages of both must arrive. docs/library.md requires the
 * fence after MPI_Init.
 */
#include <matchbox/matchbox.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static struct mbx_job *job;
static struct mbx_ep *ep;

static void must(int err, const char *what)
{
    if (err == 0)
        return;
    fprintf(stderr, "both: %s: %s\n", what, mbx_strerror(err));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_all(void)
{
    struct mbx_config config = {0};

    must(mbx_job_open(&job), "mbx_job_open");
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
}

static void close_all(void)
{
    must(mbx_job_fence(job), "mbx_job_fence");
    mbx_close(ep);
    mbx_job_close(job);
}

/* A token goes around by MPI and by Matchbox at the same time; both must deliver the same
 * value. */
static void go_around(int rank, int size)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size, by_mpi = -1, by_mbx = -1;
    mbx_request recv;

    must(mbx_recv(ep, (uint32_t)last, 1, 2, 0, &by_mbx, sizeof by_mbx, NULL, &recv),
         "mbx_recv");
    must(mbx_inject(ep, (uint32_t)next, 1, 2, &rank, sizeof rank, 0), "mbx_inject");
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 3, &by_mpi, 1, MPI_INT, last, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    must(mbx_wait(ep, recv, -1, NULL), "mbx_wait");
    if (by_mpi != last || by_mbx != last || (int)mbx_job_rank(job) != rank ||
        (int)mbx_job_size(job) != size) {
        fprintf(stderr, "both: rank %d of %d is %u of %u, got %d and %d\n", rank, size,
                mbx_job_rank(job), mbx_job_size(job), by_mpi, by_mbx);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int first = argc == 2 && strcmp(argv[1], "first") == 0, rank, size;

    if (argc != 2 || (!first && strcmp(argv[1], "last") != 0)) {
        fprintf(stderr, "usage: both first|last\n");
        return 2;
    }
    if (first)
        open_all();
    MPI_Init(&argc, &argv);
    if (!first)
        open_all();
    must(mbx_job_fence(job), "mbx_job_fence after MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    go_around(rank, size);
    if (!first)
        close_all();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (first)
        close_all();
    if (rank == 0)
        printf("both right, %d ranks\n", size);
    return 0;
}
