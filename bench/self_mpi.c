/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how many instructions does a message of 8 bytes cost in an MPI program, and which
 *            of them are the MPI's, the provider's, the library's?
 * Method     a rank sends to itself, in the function with the name of the case:
 *
 *              one_by_one  {MPI_Irecv, MPI_Send, MPI_Wait}, ROUNDS times
 *              in_windows  {64 MPI_Irecv, 64 MPI_Isend, MPI_Waitall}, for about ROUNDS
 *                          messages: so the receives wait in a long queue
 *              there       MPI_Recv of 16 messages that have arrived, in order of arrival,
 *                          for about ROUNDS messages; only these calls are in the function
 *              anyone      as there, from MPI_ANY_SOURCE
 *              in_vain     MPI_Test of a receive without a message, ROUNDS times: the cost
 *                          of the MPI while nothing comes
 *
 *            On a shared machine a clock is unreliable; instructions can be counted
 *            exactly, by
 *
 *              mbx exec valgrind --tool=callgrind --toggle-collect=one_by_one ./self_mpi ROUNDS
 *
 *            divided by the number of messages that it prints, in the build of ./dev build;
 *            callgrind_annotate splits it by function, and names the file of each.
 *
 *   self_mpi [ROUNDS]
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 10000
#define WINDOW 64
#define THERE  16

/* With external linkage, because callgrind selects functions by name. */
void one_by_one(int self, long rounds);
void in_windows(int self, long windows);
void there(int self, int64_t *in);
void anyone(int self, int64_t *in);
void in_vain(int self, long rounds);

static void require(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "self_mpi: wrong %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((noinline)) void one_by_one(int self, long rounds)
{
    for (long i = 0; i < rounds; i++) {
        int64_t out = i, in = -1;
        MPI_Request request;

        MPI_Irecv(&in, sizeof in, MPI_BYTE, self, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&out, sizeof out, MPI_BYTE, self, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        require(in == out, "content of a message");
    }
}

__attribute__((noinline)) void in_windows(int self, long windows)
{
    for (long w = 0; w < windows; w++) {
        MPI_Request requests[2 * WINDOW];
        int64_t out[WINDOW], in[WINDOW];

        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(&in[i], sizeof in[i], MPI_BYTE, self, 1, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < WINDOW; i++) {
            out[i] = w * WINDOW + i;
            MPI_Isend(&out[i], sizeof out[i], MPI_BYTE, self, 1, MPI_COMM_WORLD,
                      &requests[WINDOW + i]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++)
            require(in[i] == out[i], "order of messages");
    }
}

__attribute__((noinline)) void there(int self, int64_t *in)
{
    for (int i = 0; i < THERE; i++)
        MPI_Recv(&in[i], sizeof in[i], MPI_BYTE, self, 3 + i, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

__attribute__((noinline)) void anyone(int self, int64_t *in)
{
    (void)self;
    for (int i = 0; i < THERE; i++)
        MPI_Recv(&in[i], sizeof in[i], MPI_BYTE, MPI_ANY_SOURCE, 3 + i, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Messages of one sender do not overtake each other, so all have arrived when the last has. */
static void make_there(int self, long windows, void (*take)(int self, int64_t *in))
{
    for (long w = 0; w < windows; w++) {
        int64_t in[THERE];
        int arrived = 0;

        for (int i = 0; i < THERE; i++) {
            int64_t out = w * THERE + i;

            MPI_Send(&out, sizeof out, MPI_BYTE, self, 3 + i, MPI_COMM_WORLD);
        }
        while (!arrived)
            MPI_Iprobe(self, 3 + THERE - 1, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        take(self, in);
        for (int i = 0; i < THERE; i++)
            require(in[i] == w * THERE + i, "message that was there");
    }
}

__attribute__((noinline)) void in_vain(int self, long rounds)
{
    MPI_Request request;
    int64_t in;
    int flag;

    MPI_Irecv(&in, sizeof in, MPI_BYTE, self, 2, MPI_COMM_WORLD, &request);
    for (long i = 0; i < rounds; i++)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    require(!flag, "message");
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    long rounds = ROUNDS, windows, there_windows;
    char *end = NULL;
    int self;

    MPI_Init(&argc, &argv);
    if (argc > 1)
        rounds = strtol(argv[1], &end, 10);
    if (argc > 2 || rounds < 1 || (end != NULL && *end != '\0')) {
        fprintf(stderr, "usage: self_mpi [ROUNDS]\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    windows = (rounds + WINDOW - 1) / WINDOW;
    one_by_one(self, rounds);
    in_windows(self, windows);
    there_windows = (rounds + THERE - 1) / THERE;
    make_there(self, there_windows, there);
    make_there(self, there_windows, anyone);
    in_vain(self, rounds);
    printf("bench=self_mpi one_by_one=%ld in_windows=%ld there=%ld in_vain=%ld\n", rounds,
           windows * WINDOW, there_windows * THERE, rounds);
    MPI_Finalize();
    return 0;
}
