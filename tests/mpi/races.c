/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races.c - receives from any source, with and without a choice, for races_test.py.
 *
 * usage: races FOLDER CASE [ORDER]      with 3 ranks
 *
 * Where a case needs an order that no message gives, files in FOLDER make it: the report knows nothing of them.  Each case
 * is a function of its name.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 7, GO = 8, MORE = 9 };

static int rank, value;
static MPI_Status status;
static const char *folder, *order = "";

/* ---- files ---- */

static const char *path_of(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void tell(const char *name)
{
    FILE *file = fopen(path_of(name), "w");

    if (file == NULL || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void await(const char *name)
{
    while (access(path_of(name), F_OK) != 0)
        sched_yield();
}

/* ---- messages ---- */

static void put(int to, int tag)
{
    MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static void get(int from, int tag)
{
    MPI_Recv(&value, 1, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
}

static void get_any(void)
{
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &status);
}

/* ---- races ---- */

static void race(void)
{
    if (rank != 0)
        put(0, DATA);
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

/* Rank 0 takes the messages in this order: each one is sent when the one before was received. */
static void ordered(void)
{
    char name[8];

    for (int i = 0; i < 2; i++) {
        int sender = order[i] - '0';

        snprintf(name, sizeof name, "%d", i);
        if (rank == sender && i > 0)
            await("0");
        if (rank == sender)
            put(0, DATA);
        if (rank == 0)
            get_any();
        if (rank == 0)
            tell(name);
    }
}

/* Rank 0's receive is complete before rank 2 is told to send, but no call has said so. */
static void late(void)
{
    MPI_Request request;
    int is_there;

    if (rank == 1)
        put(0, DATA);
    if (rank == 2) {
        get(0, GO);
        put(0, DATA);
    }
    if (rank != 0)
        return;
    value = -1; /* until the message is here */
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &request);
    while (value < 0)
        MPI_Iprobe(1, GO, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
    put(2, GO);
    MPI_Wait(&request, &status);
    get_any();
}

/* As late, but MPI_Request_get_status has said so. */
static void asked(void)
{
    MPI_Request request;
    int is_complete = 0, first;

    if (rank == 1)
        put(0, DATA);
    if (rank == 2) {
        get(0, GO);
        put(0, DATA);
    }
    if (rank != 0)
        return;
    MPI_Irecv(&first, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &request);
    while (!is_complete)
        MPI_Request_get_status(request, &is_complete, MPI_STATUS_IGNORE);
    put(2, GO);
    MPI_Wait(&request, &status);
    get_any();
}

static void probe(void)
{
    if (rank != 0)
        put(0, DATA);
    for (int i = 1; rank == 0 && i < 3; i++) {
        MPI_Probe(MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &status);
        get(status.MPI_SOURCE, DATA);
    }
}

static void matched_probe(void)
{
    MPI_Message message;

    if (rank != 0)
        put(0, DATA);
    for (int i = 1; rank == 0 && i < 3; i++) {
        MPI_Mprobe(MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    }
}

static void persistent(void)
{
    MPI_Request request;

    if (rank != 0) {
        put(0, DATA);
        return;
    }
    MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &request);
    for (int i = 1; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, &status);
    }
    MPI_Request_free(&request);
}

/* Two receives at once, both from any source. */
static void both(void)
{
    MPI_Request requests[2];
    int values[2];

    if (rank != 0) {
        put(0, DATA);
        return;
    }
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* Messages of two lines and tags, on a communicator with a name. */
static void different(void)
{
    MPI_Comm work;

    MPI_Comm_dup(MPI_COMM_WORLD, &work);
    MPI_Comm_set_name(work, "work");
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_INT, 0, DATA, work);
    if (rank == 2)
        MPI_Send(NULL, 0, MPI_INT, 0, MORE, work);
    for (int i = 1; rank == 0 && i < 3; i++)
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, work, &status);
    MPI_Comm_free(&work);
}

/* The message of rank 1 has left; only a synchronous send would say that it was received. */
static void standard(void)
{
    if (rank == 1) {
        put(0, DATA);
        put(2, GO);
    }
    if (rank == 2) {
        get(1, GO);
        put(0, DATA);
    }
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

/* ---- no races ---- */

static void handshake(void)
{
    if (rank == 1)
        put(0, DATA);
    if (rank == 2) {
        get(0, GO);
        put(0, DATA);
    }
    if (rank != 0)
        return;
    get_any();
    put(2, GO);
    get_any();
}

static void one_sender(void)
{
    if (rank == 1) {
        put(0, DATA);
        put(0, DATA);
    }
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

static void synchronous(void)
{
    if (rank == 1) {
        MPI_Ssend(&rank, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
        put(2, GO);
    }
    if (rank == 2) {
        get(1, GO);
        put(0, DATA);
    }
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

static void waited_synchronous(void)
{
    MPI_Request request;

    if (rank == 1) {
        MPI_Issend(&rank, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        put(2, GO);
    }
    if (rank == 2) {
        get(1, GO);
        put(0, DATA);
    }
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

static void persistent_synchronous(void)
{
    MPI_Request request;

    if (rank == 1) {
        MPI_Ssend_init(&rank, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Wait(&request, &status);
        MPI_Request_free(&request);
        put(2, GO);
    }
    if (rank == 2) {
        get(1, GO);
        put(0, DATA);
    }
    for (int i = 1; rank == 0 && i < 3; i++)
        get_any();
}

/* A collective makes the handshake. */
static void barrier(void)
{
    if (rank == 1)
        put(0, DATA);
    if (rank == 0)
        get_any();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2)
        put(0, DATA);
    if (rank == 0)
        get_any();
}

static void nonblocking_barrier(void)
{
    MPI_Request request;

    if (rank == 1)
        put(0, DATA);
    if (rank == 0)
        get_any();
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 2)
        put(0, DATA);
    if (rank == 0)
        get_any();
}

/* Each way in which a call reports a receive, and what is sent then. */
static void reported(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int index, count = 0, is_done = 0, indices[2];

    for (int way = 0; way < 7; way++, is_done = count = 0) {
        if (rank == 1)
            put(0, DATA);
        if (rank == 2) {
            get(0, GO);
            put(0, DATA);
        }
        if (rank != 0)
            continue;
        MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &requests[1]);
        if (way == 0)
            while (!is_done)
                MPI_Test(&requests[1], &is_done, &status);
        if (way == 1)
            while (!is_done)
                MPI_Testany(2, requests, &index, &is_done, &status);
        if (way == 2)
            while (!is_done)
                MPI_Testall(2, requests, &is_done, MPI_STATUSES_IGNORE);
        if (way == 3)
            while (count <= 0)
                MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
        if (way == 4)
            MPI_Waitany(2, requests, &index, &status);
        if (way == 5)
            MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
        if (way == 6)
            MPI_Wait(&requests[1], &status);
        put(2, GO);
        get(2, DATA);
        put(1, MORE);
    }
    for (int way = 0; way < 7 && rank == 1; way++)
        get(0, MORE);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"race", race},
             {"ordered", ordered},
             {"late", late},
             {"asked", asked},
             {"probe", probe},
             {"matched_probe", matched_probe},
             {"persistent", persistent},
             {"both", both},
             {"different", different},
             {"standard", standard},
             {"handshake", handshake},
             {"one_sender", one_sender},
             {"synchronous", synchronous},
             {"waited_synchronous", waited_synchronous},
             {"persistent_synchronous", persistent_synchronous},
             {"barrier", barrier},
             {"nonblocking_barrier", nonblocking_barrier},
             {"reported", reported}};

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    folder = argv[1];
    if (argc > 3)
        order = argv[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[2]) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
