/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - several threads of a rank use MPI at the same time (12.4).
 */
#include "report.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define ROUNDS  200

static MPI_Comm own[THREADS];

static void run_threads(void *(*run)(void *))
{
    pthread_t thread[THREADS];
    static int number[THREADS];

    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, run, &number[i]) != 0)
            EXPECT(false);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void open_comms(void)
{
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
}

static void close_comms(void)
{
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&own[i]);
}

/* Each thread posts windows of receives, on a communicator of its own and on MPI_COMM_WORLD. */
static void *windows(void *arg)
{
    enum { WINDOW = 16 };
    int self = *(int *)arg, to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Request request[2 * WINDOW];
    int sent[WINDOW], got[WINDOW], index;

    for (int round = 0; round < ROUNDS / 10; round++) {
        MPI_Comm comm = round % 2 == 0 ? own[self] : MPI_COMM_WORLD;

        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(&got[i], 1, MPI_INT, from, 100 * self + i % 4, comm, &request[i]);
        for (int i = 0; i < WINDOW; i++) {
            sent[i] = 10000 * round + 100 * self + i;
            MPI_Isend(&sent[i], 1, MPI_INT, to, 100 * self + i % 4, comm, &request[WINDOW + i]);
        }
        for (int i = 0; i < 2 * WINDOW; i++) {
            MPI_Waitany(2 * WINDOW, request, &index, MPI_STATUS_IGNORE);
            EXPECT(index >= 0 && index < 2 * WINDOW);
        }
        for (int i = 0; i < WINDOW; i++)
            EXPECT_EQUAL(got[i], 10000 * round + 100 * self + i);
    }
    return NULL;
}

static void windows_of_threads(void)
{
    open_comms();
    run_threads(windows);
    close_comms();
}

/* Threads take messages of any source by matched probes: each message is received once, whole.
 * The thread that takes the last one notifies all threads to stop. */
static atomic_int taken;
static atomic_llong sum_taken;

static void *take(void *arg)
{
    int words[64], stop = -1;
    MPI_Message message;
    MPI_Status status;

    (void)arg;
    for (;;) {
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        EXPECT(count_of(&status, MPI_INT) >= 1 && count_of(&status, MPI_INT) <= 64);
        MPI_Mrecv(words, count_of(&status, MPI_INT), MPI_INT, &message, &status);
        if (words[0] == stop)
            return NULL;
        EXPECT_EQUAL(count_of(&status, MPI_INT), 1 + words[0] % 64);
        EXPECT_EQUAL(status.MPI_TAG, words[0] % 7);
        EXPECT_EQUAL(words[words[0] % 64], words[0]);
        atomic_fetch_add(&sum_taken, words[0]);
        if (atomic_fetch_add(&taken, 1) + 1 == ROUNDS * (ranks - 1))
            for (int i = 0; i < THREADS; i++)
                MPI_Send(&stop, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
}

static void matched_probes_of_threads(void)
{
    int words[64];

    if (rank == 0) {
        run_threads(take);
        EXPECT_EQUAL(taken, ROUNDS * (ranks - 1));
        EXPECT_EQUAL(sum_taken, (long long)(ranks - 1) * ROUNDS * (ROUNDS - 1) / 2);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < 64; k++)
            words[k] = i;
        MPI_Send(words, 1 + i % 64, MPI_INT, 0, i % 7, MPI_COMM_WORLD);
    }
}

/* Several threads run collectives at the same time, each on a communicator of its own. */
static void *reduce(void *arg)
{
    int self = *(int *)arg;

    for (int round = 0; round < ROUNDS / 4; round++) {
        int value = 100 * round + self + rank, sum = 0;

        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, own[self]);
        EXPECT_EQUAL(sum, ranks * (100 * round + self) + ranks * (ranks - 1) / 2);
        MPI_Bcast(&value, 1, MPI_INT, round % ranks, own[self]);
        EXPECT_EQUAL(value, 100 * round + self + round % ranks);
    }
    return NULL;
}

static void collectives_of_threads(void)
{
    open_comms();
    run_threads(reduce);
    close_comms();
}

/* 3.8.4: a thread cancels the receive for which another thread waits. */
static void *wait_for_it(void *arg)
{
    MPI_Request request = *(MPI_Request *)arg;
    MPI_Status status;

    MPI_Wait(&request, &status);
    EXPECT(is_cancelled(&status));
    return NULL;
}

static void cancelled_by_another_thread(void)
{
    for (int round = 0; round < 20; round++) {
        MPI_Request request;
        pthread_t thread;
        int got;

        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
        if (pthread_create(&thread, NULL, wait_for_it, &request) != 0)
            EXPECT(false);
        for (int i = 0; i < round; i++) /* the thread may already wait, or not */
            MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &got, MPI_STATUS_IGNORE);
        MPI_Cancel(&request);
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"windows_of_threads", 2, false, "open-mpi/ompi#2921 open-mpi/ompi#6004",
         windows_of_threads},
        {"matched_probes_of_threads", 2, false,
         "open-mpi/ompi#6091 open-mpi/ompi#6475 JuliaParallel/MPI.jl#307",
         matched_probes_of_threads},
        {"collectives_of_threads", 2, false, "open-mpi/ompi#2427 pmodels/mpich#5208",
         collectives_of_threads},
        {"cancelled_by_another_thread", 2, false, "microsoft/Microsoft-MPI#18",
         cancelled_by_another_thread},
    };

    return report_main(argc, argv, MPI_THREAD_MULTIPLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
