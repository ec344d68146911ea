/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forced.c - programs with a known number of orders, for explore_test.py.
 *
 * usage: forced CASE [FILE]      with 4 ranks
 *
 * Each case is a function of its name.  Rank 0 or 1 prints `order ...`: what its calls have returned.  Only in one order, which
 * differs from the first run in two messages, the cases three, pairs and nested end with status 1.
 *
 * Where the first order must be known, a rank waits for a file, which is no message: mbx explore does not see it.
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

/* The number of this run; its replay has it too. */
static int run_number(void)
{
    const char *run = getenv("MBX_EXPLORE_RUN");

    return run != NULL ? atoi(run) : 1;
}

/* A file whose name ends with a letter: one rank makes it, and another one waits for it. */
static const char *file_of(char letter)
{
    static char name[4096];

    snprintf(name, sizeof name, "%s%c", path, letter);
    return name;
}

static void make_file(char letter)
{
    FILE *made = fopen(file_of(letter), "w");

    if (made == NULL || fclose(made) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void await_file(char letter)
{
    while (access(file_of(letter), F_OK) != 0)
        sched_yield();
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
    if (rank == 1)
        put(0, DATA);
    if (rank == 2 && run_number() > 1)
        get(0, GO);
    if (rank == 2) {
        await_file('2');
        put(0, DATA);
    }
    if (rank != 0)
        return;
    get_any(DATA);
    make_file('2');
    get_any(DATA);
}

/* A test of two receives reports both at once, of which one depends on what rank 1 has taken: if this is rank 3's message,
 * which it is not in the first run, then rank 1 sends only after rank 0 has answered a question: two orders. */
static void together_at_rank_0(void)
{
    MPI_Request requests[2];
    int values[2], done = 0, is_asked;

    for (int i = 0; i < 2; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, 2 - i, GO, MPI_COMM_WORLD, &requests[i]);
    for (;;) {
        MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            break;
        MPI_Iprobe(1, MORE, MPI_COMM_WORLD, &is_asked, MPI_STATUS_IGNORE);
        if (!is_asked)
            continue;
        get(1, MORE);
        put(1, MORE);
    }
    value = values[1];
    note();
}

static void together(void)
{
    int first;

    if (rank == 0)
        together_at_rank_0();
    if (rank == 2)
        put(0, GO);
    if (rank == 3 && run_number() == 1)
        await_file('3');
    if (rank >= 2)
        put(1, DATA);
    if (rank != 1)
        return;
    get(MPI_ANY_SOURCE, DATA);
    first = value;
    make_file('3');
    if (first == 3) {
        put(0, MORE);
        get(0, MORE);
    }
    MPI_Send(&first, 1, MPI_INT, 0, GO, MPI_COMM_WORLD);
    get(5 - first, DATA);
}

/* As together, but rank 0 asks MPI_Request_get_status about the receive from rank 1. */
static void asked(void)
{
    MPI_Request request;
    int first = 0, done = 0, is_asked;

    if (rank == 0)
        MPI_Irecv(&first, 1, MPI_INT, 1, GO, MPI_COMM_WORLD, &request);
    while (rank == 0 && !done) {
        MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
        if (done)
            break;
        MPI_Iprobe(1, MORE, MPI_COMM_WORLD, &is_asked, MPI_STATUS_IGNORE);
        if (!is_asked)
            continue;
        get(1, MORE);
        put(1, MORE);
    }
    if (rank == 0) {
        put(2, GO);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        value = first;
        note();
    }
    if (rank == 3 && run_number() == 1)
        await_file('3');
    if (rank >= 2)
        put(1, DATA);
    if (rank == 2)
        get(0, GO);
    if (rank != 1)
        return;
    get(MPI_ANY_SOURCE, DATA);
    first = value;
    make_file('3');
    if (first == 3) {
        put(0, MORE);
        get(0, MORE);
    }
    MPI_Send(&first, 1, MPI_INT, 0, GO, MPI_COMM_WORLD);
    get(5 - first, DATA);
}

/* All runs after the first one fail before rank 0 receives anything. */
static void early(void)
{
    if (rank == 0 && run_number() > 1)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (rank == 1 || rank == 2)
        put(0, DATA);
    for (int i = 0; rank == 0 && i < 2; i++)
        get_any(DATA);
}

/* Also sends, by another call than put(): for mbx races the two are different lines. */
static void put_otherwise(int to, int tag)
{
    MPI_Request request;

    MPI_Isend(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 0 takes rank 1's message, unless it is made to take rank 2's, which is sent after rank 1's has arrived. */
static void step(int number, int is_otherwise)
{
    int tag = MORE + 1 + number, first = -1;
    MPI_Request request;

    if (rank == 1) {
        if (is_otherwise)
            put_otherwise(0, tag);
        else
            put(0, tag);
        put(0, GO);
        get(0, MORE);
    }
    if (rank == 2) {
        await_file((char)('0' + number));
        put(0, tag);
    }
    if (rank != 0)
        return;
    MPI_Irecv(&first, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &request);
    get(1, GO);
    make_file((char)('0' + number));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    get(3 - first, tag);
    value = first;
    note();
    MPI_Send(&first, 1, MPI_INT, 1, MORE, MPI_COMM_WORLD);
}

/* Sixteen orders, of which those fail whose third step takes rank 2's message.  The lines of the two senders are different in
 * the first step, and in each later one if the step before took rank 2's message.  mbx explore tries such matches first, so it
 * forces the first three steps before the third one alone; and the fourth one was not forced then. */
static void needless(void)
{
    int is_otherwise = 1;

    for (int i = 0; rank == 0 && i < 4; i++)
        unlink(file_of((char)('0' + i)));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) {
        step(i, is_otherwise);
        is_otherwise = value == 2;
    }
    failed = order[2] == '2';
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"three", three},       {"pairs", pairs},        {"nested", nested},
             {"probe", probe},       {"open", open_receives}, {"reversed", reversed},
             {"deadlock", deadlock}, {"aborted", aborted},    {"file", file},
             {"threaded", reversed}, {"together", together},  {"asked", asked},
             {"early", early},       {"needless", needless}};

int main(int argc, char **argv)
{
    int level;

    if (argc < 2)
        return 2;
    path = argv[argc - 1];
    /* threaded: with several sequences of events, although only one thread calls */
    MPI_Init_thread(&argc, &argv,
                    strcmp(argv[1], "threaded") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &level);
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
