/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leftover.c - messages that nobody has received on a communicator match no receive of a later
 * one.
 *
 * usage: leftover [--memory ROUNDS | --open]
 *
 *   each round    makes a communicator, sends messages on it that nobody receives, and frees
 *                 it; then makes another one, on which a receive of any tag from any source must
 *                 get the message sent there, and a probe must find nothing after that
 *   the kinds     copies of MPI_COMM_WORLD, halves of it, groups that overlap,
 *                 intercommunicators, each after each
 *   late          a rank sends on the old communicator when the others have freed it and made
 *                 the new one, whose receives wait
 *   --memory      this many rounds, most of which must not take memory
 *   --open        MPI_Finalize while a long message for a receive from any source is on its way
 *
 * All messages that are left over are sent by requests that are freed, so the program is
 * correct even if sends wait for their receives.
 */
#include "check.h"

#include <malloc.h>

#define ROUNDS 6
#define PROBES 10
#define TAG    7

enum { NEW_COMMUNICATOR_TAG = 1, TOLD_TAG, SENT_TAG };

static const int sizes[] = {0, 1, 24, 100, 1500, 5000, 70000, 300000};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))
#define MOST  300000

static const char junk[MOST]; /* constant: nobody knows when its messages are gone */

static int remote_size(MPI_Comm comm)
{
    int is_inter, size;

    MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        MPI_Comm_remote_size(comm, &size);
    else
        MPI_Comm_size(comm, &size);
    return size;
}

/* Is rank `other` of comm, or of its remote group if it has one, this process? */
static bool is_self(MPI_Comm comm, int other)
{
    int is_inter, self;

    MPI_Comm_test_inter(comm, &is_inter);
    MPI_Comm_rank(comm, &self);
    return !is_inter && other == self;
}

/* Sends to every other rank, some messages standard and some synchronous. */
static void leave_messages(MPI_Comm comm, int sizes_sent)
{
    MPI_Request request;

    for (int to = 0; to < remote_size(comm); to++)
        for (int i = 0; !is_self(comm, to) && i < sizes_sent; i++) {
            (i % 3 == 2 ? MPI_Issend : MPI_Isend)(junk, sizes[i], MPI_CHAR, to, TAG, comm,
                                                  &request);
            MPI_Request_free(&request);
        }
}

/* All ranks send a number to all others, and receive as many from any source. */
static void only_new_messages_come(MPI_Comm comm, int round)
{
    int size = remote_size(comm), wanted = 0, self, flag;
    MPI_Request requests[64];
    int sent[64], got;
    MPI_Status status;

    MPI_Comm_rank(comm, &self);
    CHECK(size <= 64);
    for (int to = 0; to < size; to++) {
        if (is_self(comm, to))
            continue;
        sent[wanted] = round * 1000 + self;
        MPI_Isend(&sent[wanted], 1, MPI_INT, to, TAG, comm, &requests[wanted]);
        wanted++;
    }
    for (int i = 0; i < wanted; i++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        MPI_Get_count(&status, MPI_CHAR, &got);
        CHECK_EQUAL(got, sizeof(int));
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        CHECK_EQUAL(got, round * 1000 + status.MPI_SOURCE);
        CHECK_EQUAL(status.MPI_TAG, TAG);
    }
    MPI_Waitall(wanted, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(comm);
    for (int i = 0; i < PROBES; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
        CHECK_EQUAL(flag, 0);
    }
}

/* ---- communicators ---- */

enum kind {
    COPY,
    HALVES,
    ODD_AND_EVEN,
    FIRST_TWO,
    ALL_BUT_LAST,
    REVERSED,
    BETWEEN_HALVES,
    KINDS
};

static MPI_Comm of_first(int count)
{
    MPI_Group all, some;
    MPI_Comm comm = MPI_COMM_NULL;
    int range[1][3] = {{0, count - 1, 1}};

    if (rank >= count)
        return MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &some);
    MPI_Comm_create_group(MPI_COMM_WORLD, some, NEW_COMMUNICATOR_TAG, &comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return comm;
}

/* Returns MPI_COMM_NULL if this process is not a member. */
static MPI_Comm make(enum kind kind)
{
    bool is_upper = rank >= ranks / 2;
    MPI_Comm comm = MPI_COMM_NULL, half;

    switch (kind) {
    case COPY:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
    case HALVES:
        MPI_Comm_split(MPI_COMM_WORLD, is_upper, rank, &comm);
        break;
    case ODD_AND_EVEN:
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
        break;
    case FIRST_TWO:
        return of_first(2);
    case ALL_BUT_LAST:
        return of_first(ranks - 1);
    case REVERSED:
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
        break;
    case BETWEEN_HALVES:
        MPI_Comm_split(MPI_COMM_WORLD, is_upper, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : ranks / 2,
                             NEW_COMMUNICATOR_TAG, &comm);
        MPI_Comm_free(&half);
        break;
    case KINDS:
        break;
    }
    return comm;
}

static void one_after_the_other(enum kind first, enum kind second, int round)
{
    MPI_Comm comm = make(first);

    if (comm != MPI_COMM_NULL) {
        leave_messages(comm, SIZES);
        MPI_Comm_free(&comm);
    }
    comm = make(second);
    if (comm != MPI_COMM_NULL) {
        only_new_messages_come(comm, round);
        MPI_Comm_free(&comm);
    }
}

/* ---- late ---- */

/* The last rank sends on the old communicator later than the others. */
static void late(int round)
{
    int last = ranks - 1, number = -1, sent = round;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == last) {
        for (int i = 0; i < last; i++)
            MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, TOLD_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        leave_messages(comm, SIZES);
        for (int i = 0; i < last; i++)
            MPI_Send(NULL, 0, MPI_INT, i, SENT_TAG, MPI_COMM_WORLD);
        MPI_Comm_free(&comm);
        return;
    }
    MPI_Comm_free(&comm);
    comm = of_first(last);
    MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    MPI_Send(NULL, 0, MPI_INT, last, TOLD_TAG, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, last, SENT_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&sent, 1, MPI_INT, (rank + 1) % last, TAG, comm);
    MPI_Wait(&request, &status);
    CHECK_EQUAL(number, round);
    CHECK_EQUAL(status.MPI_SOURCE, (rank + last - 1) % last);
    CHECK_EQUAL(status.MPI_TAG, TAG);
    MPI_Barrier(comm);
    only_new_messages_come(comm, round);
    MPI_Comm_free(&comm);
}

/* ---- memory ---- */

#define MEMORY_SIZES 6
#define MEMORY_MOST                                                                            \
    (256 << 10) /* the most bytes by which a process may grow, for any number of rounds */

static void copies(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        leave_messages(comm, MEMORY_SIZES);
        MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static int memory(int rounds)
{
    size_t before;

    copies(rounds / 10);
    before = mallinfo2().uordblks;
    copies(rounds);
    CHECK(mallinfo2().uordblks <= before + MEMORY_MOST);
    return finish("leftover --memory");
}

/* ---- open ---- */

#define OPEN_SIZE (256 << 20) /* takes longer than MPI_Finalize waits for the other ranks */

/* MPI does not allow this, but a rank must not crash. */
static int end_with_open_requests(void)
{
    MPI_Request request;
    char *data = calloc(OPEN_SIZE, 1);

    CHECK(data != NULL);
    memset(data, rank + 1, OPEN_SIZE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Irecv(data, OPEN_SIZE, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
    if (rank == 1)
        MPI_Isend(data, OPEN_SIZE, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
    return finish("leftover --open"); /* data stays: a request may use it */
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc == 2 && strcmp(argv[1], "--open") == 0)
        return end_with_open_requests();
    if (argc == 3 && strcmp(argv[1], "--memory") == 0)
        return memory(atoi(argv[2]));
    for (int round = 0; round < ROUNDS; round++)
        one_after_the_other(COPY, COPY, round);
    for (int first = 0; first < KINDS; first++)
        for (int second = 0; second < KINDS; second++)
            one_after_the_other((enum kind)first, (enum kind)second, first * KINDS + second);
    for (int round = 0; round < ROUNDS; round++)
        late(round);
    return finish("leftover");
}
