/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dynamic.c - intercommunicators, and processes that join later.
 *
 *   dynamic [--no-spawn] [--times N]
 *
 * Two halves of the job talk through an intercommunicator that they make
 * (MPI_Intercomm_create), and through one of a port (MPI_Comm_accept, MPI_Comm_connect).  Then
 * all spawn CHILDREN processes of this program, ROUNDS times.  With --times the program does
 * this N times, also for the port, and with one child; `run` checks that the library has
 * forgotten the processes that are gone.  On each intercommunicator every rank sends to every
 * rank of the other group; the receives name the rank, or any source, or use a matched probe.
 * The ranks in a status are ranks of the other group.
 */
#include "check.h"

#define CHILDREN 2
#define ROUNDS   3
#define LONG     100000 /* bytes; short messages have 8 */

/* The seed of a message from rank `from` of one group to rank `to` of the other. */
static unsigned seed_of(int from, int to, int is_second)
{
    return (unsigned)(from * 100 + to * 2 + is_second);
}

static void send_to_all(MPI_Comm inter, int self, int others, int is_second, int size,
                        char **bufs, MPI_Request *requests)
{
    for (int i = 0; i < others; i++) {
        bufs[i] = malloc((size_t)size);
        pattern_fill(bufs[i], (size_t)size, seed_of(self, i, is_second));
        MPI_Isend(bufs[i], size, MPI_BYTE, i, 7, inter, &requests[i]);
    }
}

static void check_message(const char *buf, const MPI_Status *status, int self, int is_second,
                          int size)
{
    int got;

    MPI_Get_count(status, MPI_BYTE, &got);
    CHECK_EQUAL(got, size);
    CHECK_EQUAL(status->MPI_TAG, 7);
    CHECK_EQUAL(pattern_end(buf, (size_t)size, seed_of(status->MPI_SOURCE, self, !is_second)),
                size);
}

/* Receives messages in each way, in turns. */
static void receive_one(MPI_Comm inter, int i, char *buf, int size, MPI_Status *status)
{
    MPI_Message message;

    if (i % 3 == 0) {
        MPI_Recv(buf, size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, status);
    } else if (i % 3 == 1) {
        MPI_Mprobe(MPI_ANY_SOURCE, 7, inter, &message, status);
        MPI_Mrecv(buf, size, MPI_BYTE, &message, status);
    } else {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, status);
        MPI_Recv(buf, size, MPI_BYTE, status->MPI_SOURCE, 7, inter, status);
    }
}

static void exchange_sized(MPI_Comm inter, int is_second, int size)
{
    int self, others;
    char **bufs, *buf = malloc((size_t)size);
    MPI_Request *requests;

    MPI_Comm_rank(inter, &self);
    MPI_Comm_remote_size(inter, &others);
    bufs = calloc((size_t)others, sizeof *bufs);
    requests = calloc((size_t)others, sizeof(MPI_Request));
    send_to_all(inter, self, others, is_second, size, bufs, requests);
    for (int i = 0; i < others; i++) {
        MPI_Status status;

        receive_one(inter, i, buf, size, &status);
        CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < others);
        check_message(buf, &status, self, is_second, size);
    }
    MPI_Waitall(others, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < others; i++)
        free(bufs[i]);
    free(bufs);
    free(requests);
    free(buf);
}

/* Every rank sends to every rank of the other group; then both groups merge into one
 * communicator. */
static void exchange(MPI_Comm inter, int is_second)
{
    MPI_Comm all;
    int size, others, sum, one = 1;

    exchange_sized(inter, is_second, 8);
    MPI_Barrier(inter);
    exchange_sized(inter, is_second, LONG);
    MPI_Intercomm_merge(inter, is_second, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &others);
    CHECK_EQUAL(sum, size + others);
    MPI_Comm_free(&all);
}

static void two_halves_talk(MPI_Comm half, int is_second)
{
    MPI_Comm inter;

    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_second ? 0 : ranks / 2, 3, &inter);
    exchange(inter, is_second);
    MPI_Comm_free(&inter);
}

static void two_halves_meet_at_a_port(MPI_Comm half, int is_second)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;

    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (is_second)
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    else
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    exchange(inter, is_second);
    MPI_Comm_disconnect(&inter);
    if (rank == 0)
        MPI_Close_port(port);
}

static void children_come_and_go(char *program, int rounds, int children)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Comm inter;
        int errors[CHILDREN];

        MPI_Comm_spawn(program, MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &inter, errors);
        exchange(inter, 0);
        MPI_Comm_disconnect(&inter);
    }
}

static int child(MPI_Comm parent)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    exchange(parent, 1);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Returns N of --times N, or 0. */
static int times_of(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--times") == 0)
            return atoi(argv[i + 1]);
    return 0;
}

int main(int argc, char **argv)
{
    int times = times_of(argc, argv);
    MPI_Comm half, parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(ranks >= 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank >= ranks / 2, rank, &half);
    two_halves_talk(half, rank >= ranks / 2);
    for (int i = 0; i < (times > 0 ? times : 1); i++)
        two_halves_meet_at_a_port(half, rank >= ranks / 2);
    MPI_Comm_free(&half);
    if (argc < 2 || strcmp(argv[1], "--no-spawn") != 0)
        children_come_and_go(argv[0], times > 0 ? times : ROUNDS, times > 0 ? 1 : CHILDREN);
    return finish("dynamic");
}
