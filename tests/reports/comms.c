/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comms.c - communicators that are freed, many communicators, and intercommunicators.
 */
#include "report.h"

static char out[LONG], in[LONG];

/* 6.1.2: each communicator is a separate communication universe: messages that nobody has
 * received on a freed one do not appear on the next. */
static void nothing_from_the_one_before(void)
{
    static char junk[1500];

    for (int round = 0; round < 30; round++) {
        MPI_Comm before, after;
        MPI_Status status;
        int word = 1000 * round + rank, got = -1, flag;

        MPI_Comm_dup(MPI_COMM_WORLD, &before);
        for (int i = 0; i < 5; i++)
            for (int to = 0; to < ranks; to++)
                if (to != rank)
                    MPI_Send(junk, 1 + i * 311 % 1500, MPI_BYTE, to, 7, before);
        MPI_Comm_free(&before);
        MPI_Comm_dup(MPI_COMM_WORLD, &after);
        MPI_Send(&word, 1, MPI_INT, (rank + 1) % ranks, 7, after);
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, after, &status);
        EXPECT_EQUAL(status.MPI_SOURCE, (rank + ranks - 1) % ranks);
        EXPECT_EQUAL(count_of(&status, MPI_BYTE), sizeof word);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, after, &status);
        EXPECT_EQUAL(got, 1000 * round + status.MPI_SOURCE);
        all_arrived();
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, after, &flag, &status);
        EXPECT_EQUAL(flag, 0);
        MPI_Comm_free(&after);
    }
}

/* As above, for a chain of communicators that exist at the same time; one rank sends more than
 * its neighbour receives. */
static void leftovers_of_a_chain(void)
{
    for (int round = 0; round < 20; round++) {
        MPI_Comm chain[4], next;
        int token = 1000 * rank + round, got = -1;

        for (int i = 0; i < 4; i++)
            MPI_Comm_dup(MPI_COMM_WORLD, &chain[i]);
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % ranks, 0, chain[3]);
        MPI_Recv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, chain[3], MPI_STATUS_IGNORE);
        MPI_Send(&got, 1, MPI_INT, (rank + 1) % ranks, 0, chain[3]); /* nobody receives it */
        for (int i = 0; i < 4; i++)
            MPI_Comm_free(&chain[i]);
        for (int i = 0; i < 4; i++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &next);
            token = -rank - round;
            MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT,
                         (rank + ranks - 1) % ranks, MPI_ANY_TAG, next, MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, -((rank + ranks - 1) % ranks) - round);
            chain[i] = next;
        }
        for (int i = 0; i < 4; i++)
            MPI_Comm_free(&chain[i]);
    }
}

/* 6.4.3: pending operations on a communicator that is freed complete normally. */
static void pending_when_freed(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    for (int round = 0; round < 20; round++) {
        int size = round % 2 == 0 ? 100 : LONG;
        MPI_Request request[2];
        MPI_Status status[2];
        MPI_Comm comm;

        pattern_fill(out, (size_t)size, (unsigned)(rank + round));
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Irecv(in, size, MPI_BYTE, round % 4 < 2 ? from : MPI_ANY_SOURCE, 1, comm,
                  &request[0]);
        MPI_Isend(out, size, MPI_BYTE, to, 1, comm, &request[1]);
        MPI_Comm_free(&comm);
        MPI_Waitall(2, request, status);
        expect_message(&status[0], from, 1, in, size, (unsigned)(from + round));
    }
}

/* 6.4: communicators can be made again after they are freed, thousands of times, and in an
 * order that leaves holes. */
static void thousands_of_communicators(void)
{
    enum { AT_A_TIME = 12, ROUNDS = 250 };
    MPI_Comm comm[AT_A_TIME];
    int got = -1, to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    for (int i = 0; i < AT_A_TIME; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = round % 3; i < AT_A_TIME; i += 3) {
            MPI_Comm_free(&comm[i]);
            MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm[i]);
        }
        for (int i = 0; i < AT_A_TIME; i += 5) {
            int word = 100 * round + i;

            MPI_Sendrecv(&word, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, comm[i],
                         MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, word);
        }
    }
    for (int i = 0; i < AT_A_TIME; i++)
        MPI_Comm_free(&comm[i]);
}

static MPI_Comm halves(MPI_Comm *between)
{
    int is_upper = rank >= ranks / 2;
    MPI_Comm half;

    MPI_Comm_split(MPI_COMM_WORLD, is_upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : ranks / 2, 42, between);
    return half;
}

/* 6.6.3: the group that passes false for high comes first, and each rank reaches each. */
static void merged_in_order(void)
{
    for (int round = 0; round < 4; round++) {
        MPI_Comm half, between, merged, again;
        int is_upper = rank >= ranks / 2, upper_first = round % 2, self, want, got, sum = 0;

        half = halves(&between);
        MPI_Intercomm_merge(between, upper_first ? !is_upper : is_upper, &merged);
        MPI_Comm_rank(merged, &self);
        want = upper_first ? (is_upper ? rank - ranks / 2 : rank + ranks - ranks / 2) : rank;
        EXPECT_EQUAL(self, want);
        for (int step = 1; step < ranks; step++) {
            MPI_Sendrecv(&self, 1, MPI_INT, (self + step) % ranks, step, &got, 1, MPI_INT,
                         (self + ranks - step) % ranks, step, merged, MPI_STATUS_IGNORE);
            EXPECT_EQUAL(got, (self + ranks - step) % ranks);
        }
        /* and another intercommunicator, over the merged one */
        MPI_Intercomm_create(half, 0, merged,
                             upper_first ? (is_upper ? ranks - ranks / 2 : 0)
                                         : (is_upper ? 0 : ranks / 2),
                             43, &again);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, again);
        want = 0;
        for (int i = is_upper ? 0 : ranks / 2; i < (is_upper ? ranks / 2 : ranks); i++)
            want += i;
        EXPECT_EQUAL(sum, want); /* the sum of the other group */
        MPI_Comm_free(&again);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
}

/* 6.4.2, 6.6: an intercommunicator can be split, and the part be merged. */
static void split_and_merged(void)
{
    MPI_Comm half, between, part, merged;
    int local, size, sum = 0;

    half = halves(&between);
    MPI_Comm_rank(between, &local);
    MPI_Comm_split(between, local == 0 ? MPI_UNDEFINED : 1, rank, &part);
    if (part != MPI_COMM_NULL) {
        MPI_Intercomm_merge(part, rank >= ranks / 2, &merged);
        MPI_Comm_size(merged, &size);
        EXPECT_EQUAL(size, ranks - 2);
        MPI_Allreduce(&local, &sum, 1, MPI_INT, MPI_SUM, merged);
        EXPECT(sum >= size / 2);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&part);
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"nothing_from_the_one_before", 2, false, "pmodels/mpich#6184 pmodels/mpich#2096",
         nothing_from_the_one_before},
        {"leftovers_of_a_chain", 2, false, "pmodels/mpich#6182", leftovers_of_a_chain},
        {"pending_when_freed", 2, false, "pmodels/mpich#4920", pending_when_freed},
        {"thousands_of_communicators", 2, false, "pmodels/mpich#1768 pmodels/mpich#1834",
         thousands_of_communicators},
        {"merged_in_order", 2, false, "open-mpi/ompi#8509 open-mpi/ompi#7620 pmodels/mpich#114",
         merged_in_order},
        {"split_and_merged", 4, false, "pmodels/mpich#6878", split_and_merged},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
