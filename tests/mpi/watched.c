/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watched.c - MPI_THREAD_MULTIPLE, after a second thread has communicated: a wait that watches its request also runs
 * Open MPI's progress, without which no nonblocking collective, file or window goes on.
 *
 * The waits here end while they watch: each is for a message of the rank to itself, which the first poll finds.  So Open
 * MPI's own wait, which also runs that progress, does not begin.  This program defines opal_progress(), which replaces
 * Open MPI's, and counts the calls.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

#define WAITS 2560

/* Watching waits run Open MPI's progress at least in each 64th poll (docs/internals/openmpi-component.md). */
#define LEAST (WAITS / 64 / 2)

static _Atomic int looks;

/* A function of Open MPI, whose header is not for programs. */
void opal_progress(void);

__attribute__((visibility("default"))) void opal_progress(void)
{
    static void (*usual)(void);

    looks++;
    if (usual == NULL)
        *(void **)&usual = dlsym(RTLD_NEXT, "opal_progress");
    usual();
}

static void exchange(int tag, int by_wait_all)
{
    MPI_Request requests[2];
    int in = -1;

    MPI_Irecv(&in, 1, MPI_INT, 0, tag, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(&tag, 1, MPI_INT, 0, tag, MPI_COMM_SELF, &requests[1]);
    if (by_wait_all)
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    else
        for (int i = 0; i < 2; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    CHECK_EQUAL(in, tag);
}

static void *call_once(void *arg)
{
    exchange(WAITS, 0);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t other;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    exchange(WAITS, 0);
    pthread_create(&other, NULL, call_once, NULL);
    pthread_join(other, NULL);
    for (int by_wait_all = 0; by_wait_all < 2; by_wait_all++) {
        looks = 0;
        for (int i = 0; i < WAITS; i++)
            exchange(i, by_wait_all);
        CHECK(looks >= LEAST);
    }
    return finish("watched");
}
