/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c - collective operations with results that can be computed by hand, on
 * MPI_COMM_WORLD and on split and duplicated communicators, some at the same time.
 */
#include "check.h"

#define COUNT_MAX 200000

static int *a, *b;

static int value_of(int who, int i)
{
    return who * 7919 + i % 1000;
}

static void fill(int count)
{
    for (int i = 0; i < count; i++)
        a[i] = value_of(rank, i);
}

static void broadcast(MPI_Comm comm, int count)
{
    int size, me;

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &me);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++)
            a[i] = me == root ? value_of(root, i) : -1;
        MPI_Bcast(a, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            CHECK_EQUAL(a[i], value_of(root, i));
    }
}

static void reduce_to_all(int count)
{
    fill(count);
    MPI_Allreduce(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(b[i], 7919 * (ranks * (ranks - 1) / 2) + ranks * (i % 1000));
    MPI_Allreduce(a, b, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(b[i], value_of(ranks - 1, i));
}

static void all_to_all(int count)
{
    int part = count / ranks;

    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < part; i++)
            a[to * part + i] = rank * 100000 + to * 1000 + i % 1000;
    memset(b, 0, (size_t)count * sizeof *b);
    MPI_Alltoall(a, part, MPI_INT, b, part, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < part; i++)
            CHECK_EQUAL(b[from * part + i], from * 100000 + rank * 1000 + i % 1000);
}

static void gather_and_scatter(int count)
{
    int part = count / ranks;

    fill(part);
    memset(b, 0, (size_t)count * sizeof *b);
    MPI_Allgather(a, part, MPI_INT, b, part, MPI_INT, MPI_COMM_WORLD);
    for (int who = 0; who < ranks; who++)
        for (int i = 0; i < part; i++)
            CHECK_EQUAL(b[who * part + i], value_of(who, i));
    MPI_Scatter(b, part, MPI_INT, a, part, MPI_INT, ranks - 1, MPI_COMM_WORLD);
    for (int i = 0; i < part; i++)
        CHECK_EQUAL(a[i], value_of(rank, i));
}

/* No rank leaves a barrier before the last has entered. */
static void barriers(void)
{
    for (int i = 0; i < 200; i++) {
        int late = i % ranks, flag = 0, token = i, sent = i;
        MPI_Request send = MPI_REQUEST_NULL;

        if (rank == late && i % 16 == 0)
            for (volatile int spin = 0; spin < 100000; spin++)
                continue;
        if (rank == late)
            MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % ranks, i, MPI_COMM_WORLD, &send);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == (late + 1) % ranks) {
            while (!flag)
                MPI_Iprobe(late, i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Recv(&token, 1, MPI_INT, late, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQUAL(token, i);
        }
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

static void scans(void)
{
    int sum;

    MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, rank * (rank + 1) / 2);
}

/* Odd and even ranks work separately, in reverse order of rank. */
static void split(void)
{
    MPI_Comm half;
    int size, me, sum, want = 0;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_size(half, &size);
    MPI_Comm_rank(half, &me);
    CHECK_EQUAL(size, (ranks + 1 - rank % 2) / 2);
    CHECK_EQUAL(me, size - 1 - rank / 2);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    for (int i = rank % 2; i < ranks; i += 2)
        want += i;
    CHECK_EQUAL(sum, want);
    broadcast(half, 5000);
    MPI_Comm_free(&half);
}

/* Two communicators have messages with the same tag and peer; the receives are in the opposite
 * order on purpose. */
static void duplicates_are_apart(void)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    int one = 1, two = 2, got_one = 0, got_two = 0;
    MPI_Request sends[2];
    MPI_Comm dup;

    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    for (int i = 0; i < 100; i++) {
        MPI_Isend(&one, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &sends[0]);
        MPI_Isend(&two, 1, MPI_INT, right, 5, dup, &sends[1]);
        MPI_Recv(&got_two, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE);
        MPI_Recv(&got_one, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got_one, 1);
        CHECK_EQUAL(got_two, 2);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&dup);
}

static void nonblocking(int count)
{
    MPI_Request requests[3];
    int sum = 0;

    fill(count);
    memcpy(b, a, (size_t)count * sizeof *b);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(b, count, MPI_INT, ranks - 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(sum, ranks * (ranks - 1) / 2);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(b[i], value_of(ranks - 1, i));
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 100, 1500, 5000, 40000, COUNT_MAX};

    start(&argc, &argv);
    a = calloc(COUNT_MAX, sizeof *a);
    b = calloc(COUNT_MAX, sizeof *b);
    for (int i = 0; i < 6; i++) {
        broadcast(MPI_COMM_WORLD, counts[i]);
        reduce_to_all(counts[i]);
        all_to_all(counts[i]);
        gather_and_scatter(counts[i]);
        nonblocking(counts[i]);
    }
    barriers();
    scans();
    split();
    duplicates_are_apart();
    free(b);
    free(a);
    return finish("collectives");
}
