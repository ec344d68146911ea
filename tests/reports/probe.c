/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - probes and matched probes.
 */
#include "report.h"

static char out[LONG], in[LONG];

/* 3.8.2: a matched probe that finds nothing does not affect later messages. */
static void improbe_finds_nothing(void)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = -1;

    for (int i = 0; i < 20; i++) {
        MPI_Improbe(MPI_ANY_SOURCE, i % 2 == 0 ? 0 : MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
                    &message, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(flag, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* 3.8.1: a repeated probe finds a message that was sent. */
static void iprobe_finds_in_the_end(void)
{
    int found = 0;
    MPI_Status status;

    if (rank == 0)
        for (int to = 1; to < ranks; to++)
            MPI_Send(out, to, MPI_BYTE, to, 4, MPI_COMM_WORLD);
    if (rank != 0) {
        while (!found)
            MPI_Iprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &found, &status);
        EXPECT_EQUAL(count_of(&status, MPI_BYTE), rank);
        MPI_Recv(in, rank, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &status);
        MPI_Iprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &found, &status);
        EXPECT_EQUAL(found, 0);
    }
}

static int size_of_message(int from, int number)
{
    return number % 5 == 0 ? LONG - from : 1 + 37 * number + from;
}

/* 3.8.1: a receive with the source and tag in a probe's status gets the message that the probe
 * has found. */
static void probe_of_anybody(void)
{
    enum { MESSAGES = 20 };
    int next[64] = {0};
    MPI_Status status, received;

    for (int i = 0; i < MESSAGES && rank != 0; i++) {
        int size = size_of_message(rank, i);

        pattern_fill(out, (size_t)size, (unsigned)(rank + i));
        MPI_Send(out, size, MPI_BYTE, 0, i % 3, MPI_COMM_WORLD);
    }
    for (int i = 0; i < MESSAGES * (ranks - 1) && rank == 0; i++) {
        int from, found = 0, number;

        if (i % 2 == 0)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        while (i % 2 != 0 && !found)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
        from = status.MPI_SOURCE;
        number = next[from]++;
        EXPECT_EQUAL(status.MPI_TAG, number % 3);
        EXPECT_EQUAL(count_of(&status, MPI_BYTE), size_of_message(from, number));
        MPI_Recv(in, count_of(&status, MPI_BYTE), MPI_BYTE, from, status.MPI_TAG,
                 MPI_COMM_WORLD, &received);
        expect_message(&received, from, number % 3, in, size_of_message(from, number),
                       (unsigned)(from + number));
    }
}

/* 3.8.2: a message that a matched probe has taken is only for its own receive, which clears the
 * handle. */
static void mprobe_takes_the_message(void)
{
    static char three[3][LONG];
    MPI_Message message[2];
    MPI_Request request, send[3];
    MPI_Status status;

    for (int round = 0; round < 4; round++) {
        int found = 0, size = round % 2 == 0 ? 40 : LONG;

        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            for (int i = 0; i < 3; i++) {
                pattern_fill(three[i], (size_t)size, (unsigned)i);
                MPI_Isend(three[i], size, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &send[i]);
            }
            MPI_Waitall(3, send, MPI_STATUSES_IGNORE);
        }
        if (rank != 1)
            continue;
        MPI_Mprobe(round < 2 ? 0 : MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &message[0], &status);
        while (!found)
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &message[1],
                        &status);
        MPI_Recv(in, size, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &status);
        expect_message(&status, 0, 6, in, size, 2);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
        EXPECT_EQUAL(found, 0);
        MPI_Imrecv(in, size, MPI_BYTE, &message[1], &request);
        EXPECT(message[1] == MPI_MESSAGE_NULL);
        MPI_Wait(&request, &status);
        expect_message(&status, 0, 6, in, size, 1);
        MPI_Mrecv(in, size, MPI_BYTE, &message[0], &status);
        EXPECT(message[0] == MPI_MESSAGE_NULL);
        expect_message(&status, 0, 6, in, size, 0);
    }
}

/* 3.8.2: sends and matched probes in a ring make progress in each other's calls. */
static void improbe_in_a_ring(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    for (int round = 0; round < 20; round++) {
        int size = round % 2 == 0 ? 8 : LONG, sent = 0, found = 0, done = 0;
        MPI_Request send, recv = MPI_REQUEST_NULL;
        MPI_Message message;
        MPI_Status status;

        pattern_fill(out, (size_t)size, (unsigned)(rank + round));
        MPI_Isend(out, size, MPI_BYTE, to, 2, MPI_COMM_WORLD, &send);
        while (!sent || !done) {
            if (!sent)
                MPI_Test(&send, &sent, MPI_STATUS_IGNORE);
            if (!found) {
                MPI_Improbe(from, 2, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
                if (found)
                    MPI_Imrecv(in, size, MPI_BYTE, &message, &recv);
            } else if (!done) {
                MPI_Test(&recv, &done, &status);
            }
        }
        expect_message(&status, from, 2, in, size, (unsigned)(from + round));
    }
}

/* 6.6: in an intercommunicator the source is a rank of the other group, for probes as for
 * receives. */
static void probe_between_groups(void)
{
    MPI_Comm half, between;
    MPI_Status status;
    MPI_Message message;
    int is_upper = rank >= ranks / 2, self, there, word = rank, got = -1;

    MPI_Comm_split(MPI_COMM_WORLD, is_upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : ranks / 2, 1, &between);
    MPI_Comm_rank(between, &self);
    MPI_Comm_remote_size(between, &there);
    if (is_upper)
        MPI_Send(&word, 1, MPI_INT, self % there, 9, between);
    for (int from = 0; !is_upper && from < there; from++) {
        int size;

        MPI_Comm_size(between, &size);
        if (from % size != self)
            continue;
        if (from % 2 == 0) {
            MPI_Probe(from, MPI_ANY_TAG, between, &status);
            EXPECT_EQUAL(status.MPI_SOURCE, from);
            MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, between, &status);
        } else {
            MPI_Mprobe(MPI_ANY_SOURCE, 9, between, &message, &status);
            EXPECT_EQUAL(status.MPI_SOURCE, from);
            MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
        }
        EXPECT_EQUAL(status.MPI_SOURCE, from);
        EXPECT_EQUAL(status.MPI_TAG, 9);
        EXPECT_EQUAL(got, ranks / 2 + from);
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"improbe_finds_nothing", 2, false, "open-mpi/ompi#2275", improbe_finds_nothing},
        {"iprobe_finds_in_the_end", 2, false, "pmodels/mpich#1062", iprobe_finds_in_the_end},
        {"probe_of_anybody", 2, false, "pmodels/mpich#777 openucx/ucx#944 open-mpi/ompi#3807",
         probe_of_anybody},
        {"mprobe_takes_the_message", 2, false, "open-mpi/ompi#4533 open-mpi/ompi#8013",
         mprobe_takes_the_message},
        {"improbe_in_a_ring", 2, false, "boostorg/mpi#63", improbe_in_a_ring},
        {"probe_between_groups", 2, false, "pmodels/mpich#4730", probe_between_groups},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
