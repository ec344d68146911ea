/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * named.c - messages on known communicators with known tags: named_check.py searches for them
 * in the traces of ranks 0 and 1.
 */
#include "check.h"

static void send_and_receive(MPI_Comm comm, int tag, int is_synchronous)
{
    int value = tag;

    if (rank == 0 && is_synchronous)
        MPI_Ssend(&value, 1, MPI_INT, 1, tag, comm);
    else if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, tag, comm);
    else if (rank == 1)
        MPI_Recv(&value, 1, MPI_INT, 0, tag, comm, MPI_STATUS_IGNORE);
}

/* Receives after the others, when the communicator has been used. */
static void receive_any(MPI_Comm comm)
{
    MPI_Status status;
    int value = 4714;

    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 4714, comm);
    if (rank != 1)
        return;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 4714);
}

int main(int argc, char **argv)
{
    MPI_Comm halo, heat;

    start(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo exchange");
    send_and_receive(MPI_COMM_WORLD, 4711, 0);
    send_and_receive(halo, 4712, 0);
    send_and_receive(halo, 4713, 1);
    MPI_Barrier(halo);
    receive_any(halo);
    MPI_Comm_free(&halo);
    /* often gets the number of the other communicator; its messages must not be added to the
     * other's */
    MPI_Comm_dup(MPI_COMM_WORLD, &heat);
    MPI_Comm_set_name(heat, "heat");
    send_and_receive(heat, 4715, 0);
    send_and_receive(heat, 4716, 0);
    MPI_Comm_free(&heat);
    return finish("named");
}
