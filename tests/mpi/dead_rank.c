/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dead_rank.c - what the others see of a rank that is killed.
 *
 *   mpiexec --enable-recovery -n RANKS dead_rank
 *
 * Rank 1 sends a message to each, and kills itself.  A receive from it that is posted, and a send
 * to it, give MPI_ERR_OTHER; its message can still be received, and the others talk on.  Nobody
 * finalizes: Open MPI 4.1 would wait for rank 1.
 */
#include "check.h"

#include <signal.h>
#include <unistd.h>

static int class_of(int err)
{
    int class;

    MPI_Error_class(err, &class);
    return class;
}

static void die(void)
{
    int value = 7;

    for (int i = 0; i < ranks; i++)
        if (i != rank)
            MPI_Send(&value, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
    raise(SIGKILL);
}

static void survive(void)
{
    MPI_Request request;
    int value = 0, next = (rank + 1) % ranks, other;

    MPI_Irecv(&other, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(value, 7);
    CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_OTHER);
    CHECK_EQUAL(class_of(MPI_Send(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD)), MPI_ERR_OTHER);
    /* once around, without rank 1 */
    next = next == 1 ? 2 % ranks : next;
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        die();
    survive();
    if (rank == 0)
        printf("ok dead_rank ranks=%d\n", ranks);
    fflush(stdout);
    _exit(0);
}
