/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lanes.c - several threads receive from any source, probe and test at the same time, for mbx exec --record and --replay.
 *
 * usage: lanes own|shared|less COUNT    own: each thread has a communicator; shared: two threads use one; less: as own, and one
 *                                       thread of rank 0 makes a call more
 *
 * Each rank prints `rank R: HASH`, over what the calls of all its threads have returned.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3
#define WINDOW  8

static int rank, ranks, count, is_less, is_shared;

struct work {
    MPI_Comm comm;
    pthread_t thread;
    int number;
    uint64_t hash;
};

static void note(struct work *work, uint64_t value)
{
    work->hash = (work->hash ^ value) * UINT64_C(0x100000001b3) ^ work->hash >> 29;
}

static void note_status(struct work *work, const MPI_Status *status, int value)
{
    note(work, (uint64_t)status->MPI_SOURCE << 32 | (uint32_t)status->MPI_TAG);
    note(work, (uint64_t)value);
}

static void send_all(struct work *work)
{
    for (int i = 0; i < count; i++)
        for (int to = 0; to < ranks; to++)
            if (to != rank)
                MPI_Send(&i, 1, MPI_INT, to, i % 3, work->comm);
}

static void receive_some(struct work *work, int left)
{
    MPI_Request requests[WINDOW];
    int values[WINDOW], size = left < WINDOW ? left : WINDOW, which, flag;
    MPI_Status status;

    for (int i = 0; i < size; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, work->comm,
                  &requests[i]);
    for (int done = 0; done < size; done += flag) {
        MPI_Testany(size, requests, &which, &flag, &status);
        note(work, (uint64_t)flag);
        if (flag)
            note_status(work, &status, values[which]);
    }
}

static void receive_one(struct work *work)
{
    MPI_Status status;
    int value, flag;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, work->comm, &flag, &status);
    note(work, (uint64_t)flag);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, work->comm, &status);
    note_status(work, &status, value);
}

/* A send to itself may leave at once: its test still belongs to the communicator. */
static void send_to_self(struct work *work)
{
    MPI_Request requests[2];
    int value = 7, got = 0, which, flag = 0;
    MPI_Status status;

    MPI_Isend(&value, 1, MPI_INT, rank, 99, work->comm, &requests[0]);
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    MPI_Isend(&value, 1, MPI_INT, rank, 98, work->comm, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, rank, 99, work->comm, &requests[1]);
    for (int done = 0; done < 2; done += flag) {
        MPI_Testany(2, requests, &which, &flag, &status);
        note(work, (uint64_t)(flag ? which + 1 : 0));
    }
    MPI_Recv(&got, 1, MPI_INT, rank, 98, work->comm, MPI_STATUS_IGNORE);
    note(work, (uint64_t)got);
}

static void *run(void *arg)
{
    struct work *work = arg;
    int left = count * (ranks - 1), flag;

    if (!is_shared) /* another thread would receive it from any source */
        send_to_self(work);
    send_all(work);
    while (left > 0) {
        if (left % 5 == 0) {
            receive_some(work, left);
            left -= left < WINDOW ? left : WINDOW;
        } else {
            receive_one(work);
            left--;
        }
    }
    if (is_less && rank == 0 && work->number == 1)
        MPI_Iprobe(MPI_ANY_SOURCE, 77, work->comm, &flag, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    struct work works[THREADS] = {0};
    uint64_t hash = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 || provided != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "usage: lanes own|shared|less COUNT\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    count = atoi(argv[2]);
    is_less = strcmp(argv[1], "less") == 0;
    is_shared = strcmp(argv[1], "shared") == 0;
    for (int i = 0; i < THREADS; i++) {
        works[i].number = i;
        if (i == 2 && is_shared)
            works[i].comm = works[1].comm;
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&works[i].thread, NULL, run, &works[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(works[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        hash = hash * 31 + works[i].hash;
    printf("rank %d: %016llx\n", rank, (unsigned long long)hash);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
