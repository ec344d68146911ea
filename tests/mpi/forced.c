/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forced.c - programs with a known number of orders, for explore_test.py.
 *
 * usage: forced CASE [FILE]      with 4 ranks
 *
 * Each case is a function of its name.  Rank 0 or 1 prints `order ...`: what its calls have returned.  Only in one order, which
 * differs from the first run in two messages, the cases three, pairs and nested end with status 1.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 7, GO = 8, MORE = 9 };

static int rank, value, failed;
static MPI_Status status;
static const char *path;
static char order[32];

static void put(int to, int tag)
{
    MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static void get(int from, int tag)
{
    MPI_Recv(&value, 1, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
}

static void note(void)
{
    size_t length = strlen(order);

    snprintf(order + length, sizeof order - length, "%d", value);
}

static void get_any(int tag)
{
    get(MPI_ANY_SOURCE, tag);
    note();
}

/* ---- cases ---- */

/* Six orders. */
static void three(void)
{
    if (rank != 0)
        put(0, DATA);
    for (int i = 0; rank == 0 && i < 3; i++)
        get_any(DATA);
    failed = strcmp(order, "321") == 0;
}

/* Ranks 0 and 1 each receive from 2 and 3: four orders.  Rank 0 learns what rank 1 has received. */
static void pairs(void)
{
    if (rank >= 2) {
        put(0, DATA);
        put(1, DATA);
        return;
    }
    for (int i = 0; i < 2; i++)
        get_any(DATA);
    if (rank == 1)
        MPI_Send(order, 3, MPI_CHAR, 0, MORE, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(order + 2, 3, MPI_CHAR, 1, MORE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    failed = strcmp(order, "3232") == 0;
}

/* If rank 0 gets the message of rank 2 first, ranks 1 and 3 send once more: one order, and two. */
static void nested(void)
{
    int again;

    if (rank == 1 || rank == 2)
        put(0, DATA);
    for (int i = 0; rank == 0 && i < 2; i++)
        get_any(DATA);
    again = order[0] == '2';
    MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!again)
        return;
    if (rank == 1 || rank == 3)
        put(0, MORE);
    for (int i = 0; rank == 0 && i < 2; i++)
        get_any(MORE);
    failed = strcmp(order, "2131") == 0;
}

/* The message that a probe finds decides: two orders. */
static void probe(void)
{
    int flag = 0;

    if (rank == 1 || rank == 2)
        put(0, DATA);
    while (rank == 0 && !flag)
        MPI_Iprobe(MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &flag, &status);
    if (rank != 0)
        return;
    get(status.MPI_SOURCE, DATA);
    note();
    get(MPI_ANY_SOURCE, DATA);
}

/* Two receives are open at once, and their ends are waited for: two orders of messages. */
static void open_receives(void)
{
    MPI_Request requests[2];
    int values[2];

    if (rank == 1 || rank == 2)
        put(0, DATA);
    if (rank != 0)
        return;
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    snprintf(order, sizeof order, "%d%d", values[0], values[1]);
}

/* A communicator in which the ranks have other numbers: two orders. */
static void reversed(void)
{
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    if (rank == 1 || rank == 2)
        MPI_Send(&rank, 1, MPI_INT, 3, DATA, comm);
    for (int i = 0; rank == 0 && i < 2; i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, comm, &status);
        note();
    }
    MPI_Comm_free(&comm);
}

/* In the order 2 rank 0 waits for ever. */
static void deadlock(void)
{
    if (rank == 1 || rank == 2)
        put(0, DATA);
    if (rank == 0) {
        get(MPI_ANY_SOURCE, DATA);
        note();
        get(2, DATA);
    }
}

/* In the order 21 the job is aborted, with status 0. */
static void aborted(void)
{
    if (rank == 1 || rank == 2)
        put(0, DATA);
    for (int i = 0; rank == 0 && i < 2; i++)
        get_any(DATA);
    if (strcmp(order, "21") == 0)
        MPI_Abort(MPI_COMM_WORLD, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 2 waits for rank 0's first receive, but no message says so: there is no other order.  In a run that tries one, the file
 * would never come, and rank 2 waits for ever where a deadlock is seen. */
static void file(void)
{
    const char *run = getenv("MBX_EXPLORE_RUN");
    FILE *made;

    if (rank == 1)
        put(0, DATA);
    if (rank == 2 && run != NULL && atoi(run) > 1)
        get(0, GO);
    while (rank == 2 && access(path, F_OK) != 0)
        sched_yield();
    if (rank == 2)
        put(0, DATA);
    if (rank != 0)
        return;
    get_any(DATA);
    made = fopen(path, "w");
    if (made == NULL || fclose(made) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    get_any(DATA);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"three", three},       {"pairs", pairs},        {"nested", nested},
             {"probe", probe},       {"open", open_receives}, {"reversed", reversed},
             {"deadlock", deadlock}, {"aborted", aborted},    {"file", file}};

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    path = argv[argc - 1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            cases[i].run();
    if (rank == 0) {
        printf("order %s\n", order);
        fflush(stdout);
    }
    MPI_Finalize();
    return rank == 0 && failed;
}
