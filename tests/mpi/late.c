/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late.c - ranks that make others wait, in calls whose lines are known, for lines_test.py.
 *
 * usage: late sender|receiver|barrier
 *
 * The last rank computes before each message or barrier; the others wait for it.
 */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

#define TIMES 20
#define AWAY  0.01 /* seconds */
#define LONG  (1 << 20)

static char buffer[LONG];

static void compute(void)
{
    double until = MPI_Wtime() + AWAY;

    while (MPI_Wtime() < until)
        ;
}

static void run(const char *story, int rank, int ranks)
{
    int last = ranks - 1;

    if (rank == last)
        compute();
    if (strcmp(story, "barrier") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(story, "sender") == 0 && rank == last) {
        MPI_Send(buffer, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
    } else if (strcmp(story, "sender") == 0 && rank == 0) {
        MPI_Recv(buffer, 8, MPI_CHAR, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(story, "receiver") == 0 && rank == last) {
        MPI_Recv(buffer, LONG, MPI_CHAR, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(story, "receiver") == 0 && rank == 0) {
        MPI_Ssend(buffer, LONG, MPI_CHAR, last, 8, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2 || ranks < 2) {
        fprintf(stderr, "usage: late sender|receiver|barrier, with two ranks at least\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < TIMES; i++)
        run(argv[1], rank, ranks);
    MPI_Finalize();
    return 0;
}
