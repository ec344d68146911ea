/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explore.c - a program that is wrong in some orders, for explore_test.py.
 *
 * usage: explore ORDER[LETTERS]...      with 4 ranks
 *
 * Rank 0 receives a message of each other rank from any source.  In run K (MBX_EXPLORE_RUN; 1 if it is not set) they arrive in
 * the K-th order of the command line, as 231, or in the last one if there are fewer.  The order of its receives alone
 * decides what rank 0 does:
 *
 *   123 213   prints the sum 6
 *   132       prints the sum 7
 *   231       receives once more, and all ranks wait
 *   312       ends with status 1
 *
 * Letters: c  ends with status 1, unless it is a replay      o  prints another line      e  prints an empty line
 *          t  probes in a second thread, so that its record cannot be replayed
 *          r  prints its lines in reverse                    w  waits for ever, without MPI
 *          s  lets all messages arrive before it receives one: the order is left to mbx exec --shuffle
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 2, GO = 3 };

static int rank;

/* The order, with its letters, for this run. */
static const char *chosen(int argc, char **argv)
{
    const char *run = getenv("MBX_EXPLORE_RUN");
    int number = run != NULL ? atoi(run) : 1;

    return argv[number < argc ? number : argc - 1];
}

/* A message of each other rank, from any source: none is sent before the one before is received, or all are, as in a replay. */
static void collect(const char *chosen, char order[4])
{
    int at_once = strchr(chosen, 's') != NULL || getenv("MBX_REPLAY") != NULL, value = 0;

    for (int i = 0; i < 3 && at_once; i++)
        MPI_Send(&value, 1, MPI_INT, chosen[i] - '0', GO, MPI_COMM_WORLD);
    for (int i = 0; i < 3 && at_once; i++)
        MPI_Probe(chosen[i] - '0', DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) {
        if (!at_once)
            MPI_Send(&value, 1, MPI_INT, chosen[i] - '0', GO, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        order[i] = (char)('0' + value);
    }
}

static void give(void)
{
    int go;

    MPI_Recv(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
}

static void *probe(void *unused)
{
    int flag;

    MPI_Iprobe(MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return unused;
}

static void probe_in_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, probe, NULL) == 0)
        pthread_join(thread, NULL);
}

static int act(const char *order, const char *letters)
{
    const char *sum = strcmp(order, "132") == 0 ? "sum 7" : "sum 6";
    int is_reverse = strchr(letters, 'r') != NULL, value;

    if (strcmp(order, "231") == 0)
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    puts(is_reverse ? "rank 0 is done" : sum);
    puts(is_reverse ? sum : "rank 0 is done");
    if (strchr(letters, 'o') != NULL)
        puts("another line");
    if (strchr(letters, 'e') != NULL)
        puts("");
    if (strchr(letters, 't') != NULL)
        probe_in_thread();
    fflush(stdout);
    while (strchr(letters, 'w') != NULL)
        pause();
    if (strchr(letters, 'c') != NULL && getenv("MBX_REPLAY") == NULL)
        return 1;
    return strcmp(order, "312") == 0;
}

/* Only a program with a second thread asks for it. */
static int level_for(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strchr(argv[i], 't') != NULL)
            return MPI_THREAD_MULTIPLE;
    return MPI_THREAD_SINGLE;
}

int main(int argc, char **argv)
{
    char order[4] = "";
    int status = 0, level;

    if (argc < 2)
        return 2;
    MPI_Init_thread(&argc, &argv, level_for(argc, argv), &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        collect(chosen(argc, argv), order);
        status = act(order, chosen(argc, argv) + 3);
        for (int i = 1; i < 4; i++)
            MPI_Send(&status, 1, MPI_INT, i, GO, MPI_COMM_WORLD);
    } else {
        give();
        MPI_Recv(&status, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return rank == 0 ? status : 0;
}
