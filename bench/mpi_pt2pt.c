/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how fast are two ranks of an MPI program, point to point?
 * Method     lat: batches of ROUNDS ping-pongs, receive posted first; half a round trip,
 *            median and fastest batch.  bw: a window of messages one way and one answer,
 *            median and best batch.  rate: the same with 8 bytes and a window of 64.
 *            The first tenth of the batches warms up and does not count.
 *
 * usage: mpi_pt2pt LABEL lat|bw|rate [SIZE...]
 *
 * The same program is run over each MPI and transport; the label says which.  `mbx perf`
 * does the same through the native interface.
 */
#include <mpi.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 60
#define ROUNDS  500
#define WINDOW  64

static const char usage[] = "usage: mpiexec -n 2 mpi_pt2pt LABEL lat|bw|rate [SIZE...]";

static int rank;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Large messages need fewer rounds for the same time. */
static int rounds_for(size_t size, int most)
{
    size_t bytes = (size_t)4 << 20;
    int rounds = size == 0 ? most : (int)(bytes / size);

    return rounds > most ? most : rounds < 4 ? 4 : rounds;
}

/* One batch of ping-pongs, seconds. */
static double ping_pong(char *buf, int size, int rounds)
{
    MPI_Status status;
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(buf, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buf, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &status);
        } else {
            MPI_Recv(buf, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
            MPI_Send(buf, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - start;
}

/* One batch of windows one way, each answered by an empty message, seconds. */
static double stream(char *buf, int size, int windows)
{
    MPI_Request requests[WINDOW];
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int w = 0; w < windows; w++) {
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0)
                MPI_Isend(buf, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(buf, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - start;
}

static void measure(const char *label, const char *what, size_t size)
{
    double seconds[BATCHES];
    char *buf = malloc(size + 1);
    int warm = BATCHES / 10, count = BATCHES - warm;
    int rounds = rounds_for(size, ROUNDS), windows = rounds_for(size * WINDOW, 100);

    if (buf == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buf, 1, size + 1);
    for (int b = -warm; b < count; b++) {
        double t = what[0] == 'l' ? ping_pong(buf, (int)size, rounds)
                                  : stream(buf, (int)size, windows);

        if (b >= 0)
            seconds[b] = t;
    }
    free(buf);
    if (rank != 0)
        return;
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    if (what[0] == 'l')
        printf("bench=lat engine=%s size=%zu half_rtt_median_ns=%.1f half_rtt_min_ns=%.1f\n",
               label, size, seconds[count / 2] / rounds / 2 * 1e9,
               seconds[0] / rounds / 2 * 1e9);
    else
        printf("bench=%s engine=%s size=%zu window=%d median_MB_per_s=%.1f max_MB_per_s=%.1f "
               "median_messages_per_s=%.0f max_messages_per_s=%.0f\n",
               what, label, size, WINDOW,
               (double)size * WINDOW * windows / seconds[count / 2] / 1e6,
               (double)size * WINDOW * windows / seconds[0] / 1e6,
               (double)WINDOW * windows / seconds[count / 2],
               (double)WINDOW * windows / seconds[0]);
    fflush(stdout);
}

/* The number of bytes that a text says; SIZE_MAX if it is none. */
static size_t to_size(const char *text)
{
    char *end;
    unsigned long long size = strtoull(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && size <= INT_MAX ? (size_t)size
                                                                           : SIZE_MAX;
}

/* What is wrong with the arguments, or NULL. */
static const char *check(int argc, char **argv, int ranks)
{
    static char error[200];

    if (argc < 3)
        return usage;
    if (strcmp(argv[2], "lat") != 0 && strcmp(argv[2], "bw") != 0 &&
        strcmp(argv[2], "rate") != 0) {
        snprintf(error, sizeof error, "there are lat, bw and rate, no '%.60s'", argv[2]);
        return error;
    }
    for (int i = 3; i < argc; i++) {
        if (to_size(argv[i]) == SIZE_MAX) {
            snprintf(error, sizeof error, "SIZE is a number of bytes from 0 to %d, not '%.60s'",
                     INT_MAX, argv[i]);
            return error;
        }
    }
    return ranks == 2 ? NULL : "it takes two ranks: mpiexec -n 2";
}

int main(int argc, char **argv)
{
    const char *error;
    int ranks;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    error = check(argc, argv, ranks);
    if (error != NULL) {
        if (rank == 0)
            fprintf(stderr, "mpi_pt2pt: %s\n", error);
        MPI_Finalize();
        return 2;
    }
    if (argc == 3)
        measure(argv[1], argv[2], strcmp(argv[2], "bw") == 0 ? (size_t)1 << 20 : 8);
    for (int i = 3; i < argc; i++)
        measure(argv[1], argv[2], to_size(argv[i]));
    MPI_Finalize();
    return 0;
}
