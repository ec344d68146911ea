/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dead_rank.c - a rank is killed; the test checks the errors that the others get.
 *
 *   mpiexec --enable-recovery -n RANKS dead_rank
 *
 * Rank 1 sends a message to each rank, and kills itself.  A posted receive from it, and a send
 * to it, give MPI_ERR_OTHER, and so does a receive from any source that was posted before, on a
 * communicator that has rank 1; its message can still be received, and the others continue.  No
 * rank finalizes: Open MPI 4.1 would wait for rank 1.
 *
 *   dead_rank --any      the others wait for rank 1 only by receives from any source
 *   dead_rank --probe    by MPI_Probe and MPI_Mprobe of rank 1, or --probe-any from any source
 *   dead_rank --fatal    errors are fatal: a receive from rank 1, which prints its process, ends the job
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

/* The request ends with the error, and is not cancelled. */
static void check_ended(MPI_Request *request)
{
    MPI_Status status;
    int is_cancelled;

    CHECK_EQUAL(class_of(MPI_Wait(request, &status)), MPI_ERR_OTHER);
    MPI_Test_cancelled(&status, &is_cancelled);
    CHECK(!is_cancelled);
}

static void survive(MPI_Comm alive, int is_any)
{
    MPI_Request request, any[3], among_the_living;
    int value = 0, next = (rank + 1) % ranks, other, others[3], mine = 8, met = 0;

    for (int i = 0; i < 3; i++)
        MPI_Irecv(&others[i], 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &any[i]);
    MPI_Irecv(&met, 1, MPI_INT, MPI_ANY_SOURCE, 9, alive, &among_the_living);
    if (!is_any)
        MPI_Irecv(&other, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(value, 7);
    if (!is_any)
        check_ended(&request);
    else
        CHECK_EQUAL(class_of(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD,
                                      MPI_STATUS_IGNORE)),
                    MPI_ERR_OTHER);
    for (int i = 0; i < 3; i++)
        check_ended(&any[i]);
    CHECK_EQUAL(class_of(MPI_Send(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD)), MPI_ERR_OTHER);
    /* no rank of this communicator has died */
    MPI_Comm_rank(alive, &other);
    MPI_Send(&mine, 1, MPI_INT, other, 9, alive);
    CHECK_EQUAL(MPI_Wait(&among_the_living, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQUAL(met, mine);
    /* once around the ring, without rank 1 */
    next = next == 1 ? 2 % ranks : next;
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    CHECK_EQUAL(
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
    if (rank != 0)
        MPI_Send(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Barrier(alive); /* to waiting ranks, an exit without MPI_Finalize is a death */
}

/* A blocking probe of rank 1, or from any source, ends; the earlier message of rank 1 is still
 * there. */
static void survive_probing(int is_any, int is_matched)
{
    int source = is_any ? MPI_ANY_SOURCE : 1, value = 0, flag;
    MPI_Message message;
    MPI_Status status;

    CHECK_EQUAL(class_of(is_matched ? MPI_Mprobe(source, 2, MPI_COMM_WORLD, &message, &status)
                                    : MPI_Probe(source, 2, MPI_COMM_WORLD, &status)),
                MPI_ERR_OTHER);
    CHECK_EQUAL(MPI_Probe(source, 1, MPI_COMM_WORLD, &status), MPI_SUCCESS);
    CHECK_EQUAL(status.MPI_SOURCE, 1);
    CHECK_EQUAL(MPI_Recv(&value, 1, MPI_INT, source, 1, MPI_COMM_WORLD, &status), MPI_SUCCESS);
    CHECK_EQUAL(value, 7);
    /* the death is known: a probe from any source waits for other ranks, a probe of rank 1
     * fails */
    CHECK_EQUAL(MPI_Iprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &flag, &status), MPI_SUCCESS);
    CHECK(!flag);
    CHECK_EQUAL(class_of(MPI_Mprobe(1, 2, MPI_COMM_WORLD, &message, &status)), MPI_ERR_OTHER);
    MPI_Send(&value, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
    CHECK_EQUAL(MPI_Probe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status), MPI_SUCCESS);
    CHECK_EQUAL(status.MPI_SOURCE, rank);
}

/* Never returns: the job is aborted. */
static void be_aborted(void)
{
    int value;

    MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(value, 7);
    MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(!"a receive from a dead rank returns");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Comm alive;

    start(&argc, &argv);
    if (strcmp(how, "--fatal") != 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    else if (rank == 1)
        printf("dies: process %d\n", (int)getpid());
    fflush(stdout);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 1, rank, &alive);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        die();
    if (strcmp(how, "--fatal") == 0)
        be_aborted();
    else if (strncmp(how, "--probe", 7) == 0)
        survive_probing(strcmp(how, "--probe-any") == 0, rank % 2);
    else
        survive(alive, strcmp(how, "--any") == 0);
    if (rank == 0)
        printf("ok dead_rank ranks=%d\n", ranks);
    fflush(stdout);
    _exit(0);
}
