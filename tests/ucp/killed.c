/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * killed.c - rank 1 is killed while the others send to it; no send completes.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static char bytes[1 << 20];

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    MPI_Ssend(bytes, sizeof bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    printf("completed\n");
    MPI_Finalize();
    return 0;
}
