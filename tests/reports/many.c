/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.c - more messages, or longer ones, than a limit of some implementation.
 *
 * The environment variable REPORT_COUNT sets the number of messages (default 20000; in the
 * cases that take long: 1100000).  The longest messages need 5 GiB of memory in all.
 */
#include "report.h"

static int how_many(void)
{
    const char *told = getenv("REPORT_COUNT");

    if (told != NULL)
        return atoi(told);
    return report_now->takes_long ? 1100000 : 20000;
}

static void *memory_for(size_t count, size_t size)
{
    void *memory = malloc(count * size);

    EXPECT(memory != NULL);
    return memory;
}

/* 3.5, 3.7: messages without receives, sent by blocking calls, arrive in order. */
static void unexpected_messages(void)
{
    int count = how_many(), got;

    if (rank == 0)
        for (int i = 0; i < count; i++)
            MPI_Send(&i, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    if (rank == 1) {
        for (int i = 0; i < 1000; i++)
            MPI_Iprobe(0, 99, MPI_COMM_WORLD, &got, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++) {
            MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, i);
        }
    }
}

/* A large number of nonblocking sends are incomplete. */
static void sends_that_wait(void)
{
    int count = how_many(), got;

    if (rank == 0) {
        int *words = memory_for((size_t)count, sizeof *words);
        MPI_Request *request = memory_for((size_t)count, sizeof *request);

        for (int i = 0; i < count; i++) {
            words[i] = i;
            EXPECT_EQUAL(MPI_Isend(&words[i], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request[i]),
                         MPI_SUCCESS);
        }
        MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
        EXPECT_EQUAL(MPI_Waitall(count, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        free(request);
        free(words);
    }
    if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++) {
            MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, i);
        }
    }
}

/* A large number of receives wait. */
static void receives_that_wait(void)
{
    int count = how_many();

    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++)
            MPI_Send(&i, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        int *words = memory_for((size_t)count, sizeof *words);
        MPI_Request *request = memory_for((size_t)count, sizeof *request);

        for (int i = 0; i < count; i++) {
            words[i] = -1;
            EXPECT_EQUAL(MPI_Irecv(&words[i], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request[i]),
                         MPI_SUCCESS);
        }
        MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
        EXPECT_EQUAL(MPI_Waitall(count, request, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        for (int i = 0; i < count; i++)
            EXPECT_EQUAL(words[i], i);
        free(request);
        free(words);
    }
}

/* 3.2: a message of more than 2^31 bytes, as elements of a larger type whose count an int
 * holds. */
#define HUGE_COUNT ((1 << 28) + 4) /* doubles: 2 GiB and 32 bytes */

static void more_than_an_int_of_bytes(void)
{
    double *values;
    MPI_Status status;

    if (rank > 1)
        return;
    values = memory_for(HUGE_COUNT, sizeof *values);
    for (int i = 0; i < HUGE_COUNT && rank == 0; i++)
        values[i] = i;
    if (rank == 0) {
        MPI_Send(values, HUGE_COUNT, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(values, HUGE_COUNT, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &status);
        EXPECT_EQUAL(count_of(&status, MPI_DOUBLE), HUGE_COUNT);
        EXPECT_EQUAL(count_of(&status, MPI_BYTE), MPI_UNDEFINED);
        for (int i = 0; i < HUGE_COUNT; i++)
            if (values[i] != i)
                EXPECT_EQUAL(values[i], i);
    }
    free(values);
}

static void replaced_more_than_an_int_of_bytes(void)
{
    double *values = memory_for(HUGE_COUNT, sizeof *values);

    if (rank == 0) {
        for (int i = 0; i < HUGE_COUNT; i++)
            values[i] = i;
        MPI_Sendrecv_replace(values, HUGE_COUNT, MPI_DOUBLE, 0, 1, 0, 1, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        for (int i = 0; i < HUGE_COUNT; i++)
            if (values[i] != i)
                EXPECT_EQUAL(values[i], i);
    }
    free(values);
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"unexpected_messages", 2, false, "openucx/ucx#7151 open-mpi/ompi#8561",
         unexpected_messages},
        {"sends_that_wait", 2, false, "pmodels/mpich#200 open-mpi/ompi#7272", sends_that_wait},
        {"receives_that_wait", 2, false, "pmodels/mpich#200", receives_that_wait},
        {"million_unexpected_messages", 2, true, "openucx/ucx#7151 open-mpi/ompi#8561",
         unexpected_messages},
        {"million_sends_that_wait", 2, true, "pmodels/mpich#200 open-mpi/ompi#7272",
         sends_that_wait},
        {"million_receives_that_wait", 2, true, "pmodels/mpich#200", receives_that_wait},
        {"more_than_an_int_of_bytes", 2, true, "pmodels/mpich#1611", more_than_an_int_of_bytes},
        {"replaced_more_than_an_int_of_bytes", 2, true, "pmodels/mpich#3546 open-mpi/ompi#8862",
         replaced_more_than_an_int_of_bytes},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
