/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - MPI_THREAD_MULTIPLE: several threads of every rank contact all ranks for the
 * first time, at the same time; then they send, receive and probe at the same time, each with
 * its own tags, and one with a wildcard.
 */
#include "check.h"

#include <pthread.h>

#define THREADS  4
#define MESSAGES 60
#define MEETING  100 /* the first of the tags of the first contact */

static int left, right;
static pthread_barrier_t begin;

static void exchange(int tag, int i)
{
    static const int sizes[] = {4, 200, 5000, 70000};
    int size = sizes[i % 4];
    unsigned char *out = malloc((size_t)size), *in = malloc((size_t)size);
    unsigned seed = (unsigned)(tag * 1000 + i);
    MPI_Request send;
    MPI_Status status;
    int count;

    pattern_fill(out, (size_t)size, seed + (unsigned)rank);
    MPI_Isend(out, size, MPI_BYTE, right, tag, MPI_COMM_WORLD, &send);
    if (i % 3 == 0)
        MPI_Probe(left, tag, MPI_COMM_WORLD, &status);
    MPI_Recv(in, size, MPI_BYTE, i % 2 == 0 ? left : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
             &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, size);
    CHECK_EQUAL(status.MPI_SOURCE, left);
    CHECK_EQUAL(pattern_end(in, (size_t)size, seed + (unsigned)left), size);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    free(in);
    free(out);
}

/* Exchanges the first messages.  Each thread begins with another rank, and half of them go
 * backwards. */
static void meet(int tag)
{
    int *in = malloc((size_t)ranks * sizeof *in), *out = malloc((size_t)ranks * sizeof *out);
    MPI_Request *requests = malloc(2 * (size_t)ranks * sizeof(MPI_Request));
    int step = tag % 2 == 0 ? 1 : ranks - 1, other = tag % ranks;

    pthread_barrier_wait(&begin);
    for (int i = 0; i < ranks; i++, other = (other + step) % ranks) {
        out[other] = rank * 10000 + other * 10 + tag;
        MPI_Isend(&out[other], 1, MPI_INT, other, MEETING + tag, MPI_COMM_WORLD, &requests[i]);
        MPI_Irecv(&in[other], 1, MPI_INT, other, MEETING + tag, MPI_COMM_WORLD,
                  &requests[ranks + i]);
    }
    MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < ranks; from++)
        CHECK_EQUAL(in[from], from * 10000 + rank * 10 + tag);
    free(requests);
    free(out);
    free(in);
}

static void *work(void *arg)
{
    meet(*(int *)arg);
    for (int i = 0; i < MESSAGES; i++)
        exchange(*(int *)arg, i);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int tags[THREADS], provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    pthread_barrier_init(&begin, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        tags[i] = 10 + i;
        pthread_create(&threads[i], NULL, work, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return finish("threads");
}
