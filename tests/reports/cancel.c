/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.c - MPI_Cancel (3.8.4): the operation has happened, or it has not, and its status
 * reports which; MPI_Wait of a cancelled request returns whatever other processes do.
 */
#include "report.h"

static char out[LONG], in[LONG], other[LONG];

/* A receive that was cancelled takes no message. */
static void cancelled_receive(void)
{
    MPI_Request request[2];
    MPI_Status status;

    for (int round = 0; round < 6; round++) {
        int size = round % 2 == 0 ? 16 : LONG, source = round < 3 ? 0 : MPI_ANY_SOURCE;

        if (rank == 1) {
            MPI_Irecv(in, size, MPI_BYTE, source, 3, MPI_COMM_WORLD, &request[0]);
            MPI_Irecv(other, size, MPI_BYTE, source, 3, MPI_COMM_WORLD, &request[1]);
            MPI_Cancel(&request[0]);
            MPI_Wait(&request[0], &status);
            EXPECT(is_cancelled(&status));
            EXPECT(request[0] == MPI_REQUEST_NULL);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        pattern_fill(out, (size_t)size, (unsigned)round);
        if (rank == 0)
            MPI_Send(out, size, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Wait(&request[1], &status);
            EXPECT(!is_cancelled(&status));
            expect_message(&status, 0, 3, other, size, (unsigned)round);
        }
    }
}

/* A cancelled request may be freed instead of being waited for; a persistent one may be started
 * again. */
static void cancelled_and_freed(void)
{
    MPI_Request request;
    MPI_Status status;
    int word = rank, got = -1;

    MPI_Irecv(&got, 1, MPI_INT, rank, 1001, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    EXPECT(request == MPI_REQUEST_NULL);
    MPI_Recv_init(&got, 1, MPI_INT, rank, 1001, MPI_COMM_WORLD, &request);
    for (int round = 0; round < 4; round++) {
        MPI_Start(&request);
        if (round % 2 == 0)
            MPI_Cancel(&request);
        else
            MPI_Send(&word, 1, MPI_INT, rank, 1001, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        EXPECT_EQUAL(is_cancelled(&status), round % 2 == 0);
    }
    EXPECT_EQUAL(got, rank);
    MPI_Request_free(&request);
}

/* A long receive that may be under way is cancelled: all of the message is there, or nothing of
 * it, and then the next receive gets it. */
static void cancelled_under_way(void)
{
    MPI_Request request, send;
    MPI_Status status;

    for (int round = 0; round < 20; round++) {
        if (rank == 0) {
            pattern_fill(out, LONG, (unsigned)round);
            MPI_Isend(out, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &send);
            MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Irecv(in, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
            if (round % 2 == 0)
                MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            if (is_cancelled(&status))
                MPI_Recv(in, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
            expect_message(&status, 0, 1, in, LONG, (unsigned)round);
            if (round % 2 != 0)
                MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

/* A complete request cannot be cancelled any more. */
static void cancelled_too_late(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0, word = 42, got = -1;

    MPI_Irecv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&word, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
    while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    EXPECT(!is_cancelled(&status));
    EXPECT_EQUAL(got, 42);
    EXPECT_EQUAL(count_of(&status, MPI_INT), 1);
}

/* Nobody receives the synchronous send to oneself, so it can only end as cancelled. */
static void synchronous_send_to_oneself(void)
{
    MPI_Request request;
    MPI_Status status;
    int word = 42, flag = -1;

    for (int round = 0; round < 3; round++) {
        MPI_Issend(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
        if (round == 1)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        EXPECT(is_cancelled(&status));
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(flag, 0);
    }
}

/* The wait of a cancelled send returns.  If the send was cancelled, its message does not
 * arrive; otherwise it does. */
static void cancelled_send(int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                                        MPI_Request *))
{
    MPI_Request request;
    MPI_Status status;
    int was_cancelled = 0, found;

    for (int round = 0; round < 4; round++) {
        int size = round % 2 == 0 ? 8 : LONG;

        if (rank == 0) {
            pattern_fill(out, (size_t)size, (unsigned)round);
            isend(out, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            was_cancelled = is_cancelled(&status);
        }
        MPI_Bcast(&was_cancelled, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 1 && !was_cancelled) {
            MPI_Recv(in, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
            expect_message(&status, 0, 0, in, size, (unsigned)round);
        }
        all_arrived();
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(found, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void cancelled_synchronous_send(void)
{
    cancelled_send(MPI_Issend);
}

static void cancelled_long_send(void)
{
    cancelled_send(MPI_Isend);
}

/* The second of three equal messages is cancelled: this one is missing, or none. */
static void the_right_one_is_cancelled(void)
{
    MPI_Request request[3];
    MPI_Status status;
    int word[3] = {10, 11, 12}, was_cancelled = 0, got;

    if (rank == 0) {
        for (int i = 0; i < 3; i++)
            MPI_Issend(&word[i], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request[i]);
        MPI_Cancel(&request[1]);
        MPI_Wait(&request[1], &status);
        was_cancelled = is_cancelled(&status);
    }
    MPI_Bcast(&was_cancelled, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1)
        for (int i = 0; i < 3; i++) {
            if (i == 1 && was_cancelled)
                continue;
            MPI_Recv(&got, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, word[i]);
        }
    if (rank == 0) {
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        MPI_Wait(&request[2], MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"cancelled_receive", 2, false, "open-mpi/ompi#1175", cancelled_receive},
        {"cancelled_and_freed", 2, false, "open-mpi/ompi#6912", cancelled_and_freed},
        {"cancelled_under_way", 2, false, "openucx/ucx#4490", cancelled_under_way},
        {"cancelled_too_late", 2, false, "ofiwg/libfabric#12237", cancelled_too_late},
        {"synchronous_send_to_oneself", 2, false, "pmodels/mpich#5775 open-mpi/ompi#9626",
         synchronous_send_to_oneself},
        {"cancelled_synchronous_send", 2, false, "pmodels/mpich#800",
         cancelled_synchronous_send},
        {"cancelled_long_send", 2, false, "open-mpi/ompi#8078 openucx/ucx#1162",
         cancelled_long_send},
        {"the_right_one_is_cancelled", 2, false, "pmodels/mpich#2276",
         the_right_one_is_cancelled},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
