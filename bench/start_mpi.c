/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how long do MPI_Init and MPI_Finalize take, and what does the first contact of
 *            every rank with every other one cost, in time and in memory?
 * Method     nothing   MPI_Init, MPI_Finalize.
 *            contact   between them, twice: each rank posts a receive of 8 bytes from each of the
 *                      others, sends them 8 bytes, and waits for all.  The time is the
 *                      slowest rank's, from the end of a barrier.  In the first turn all contacts
 *                      are new, in the second none.  Memory is the proportional set size (Pss:
 *                      pages mapped by several processes are divided among them) before and
 *                      after the two turns, summed over the ranks: its growth, and the final
 *                      value.  The content is checked.
 *            The times of MPI_Init and MPI_Finalize are measured at rank 0.
 *
 * usage: mpiexec -n RANKS start_mpi LABEL nothing|contact
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG 1

static const char usage[] = "usage: mpiexec -n RANKS start_mpi LABEL nothing|contact";

static int rank, ranks;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void require(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "start_mpi: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The Pss of this process, KiB. */
static long memory_kib(void)
{
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long kib = -1;

    require(rollup != NULL, "/proc/self/smaps_rollup cannot be read");
    while (kib < 0 && fgets(line, sizeof line, rollup) != NULL)
        if (strncmp(line, "Pss:", 4) == 0)
            kib = strtol(line + 4, NULL, 10);
    fclose(rollup);
    require(kib >= 0, "/proc/self/smaps_rollup has no Pss");
    return kib;
}

/* Every rank exchanges a message with every other one: milliseconds of the slowest rank, at
 * rank 0. */
static double contact(MPI_Request *requests, int64_t *in, int64_t *out, int64_t turn)
{
    double start, took, slowest = 0;
    int count = 0;

    for (int i = 0; i < ranks; i++) {
        in[i] = -1;
        out[i] = turn * ranks + rank;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = now_s();
    for (int i = 1; i < ranks; i++) {
        int from = (rank + ranks - i) % ranks;

        MPI_Irecv(&in[from], 1, MPI_INT64_T, from, TAG, MPI_COMM_WORLD, &requests[count++]);
    }
    for (int i = 1; i < ranks; i++) {
        int to = (rank + i) % ranks;

        MPI_Isend(&out[to], 1, MPI_INT64_T, to, TAG, MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    took = now_s() - start;
    for (int i = 0; i < ranks; i++)
        require(i == rank || in[i] == turn * ranks + i, "wrong content");
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest * 1e3;
}

/* Prints no newline. */
static void contacts(void)
{
    MPI_Request *requests = malloc(2 * (size_t)ranks * sizeof *requests);
    int64_t *in = malloc((size_t)ranks * sizeof *in),
            *out = malloc((size_t)ranks * sizeof *out);
    long before, memory[2], all[2] = {0, 0}; /* growth, final value */
    double first, again;

    require(requests != NULL && in != NULL && out != NULL, "no memory");
    MPI_Barrier(MPI_COMM_WORLD);
    before = memory_kib();
    first = contact(requests, in, out, 1);
    again = contact(requests, in, out, 2);
    memory[1] = memory_kib();
    memory[0] = memory[1] - before;
    MPI_Reduce(memory, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("first_ms=%.3f again_ms=%.3f grown_kib=%ld whole_kib=%ld ", first, again, all[0],
               all[1]);
    free(requests);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    double start = now_s(), up, down;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        return 0;
    }
    if (argc != 3 || (strcmp(argv[2], "nothing") != 0 && strcmp(argv[2], "contact") != 0)) {
        fprintf(stderr, "%s\n", usage);
        return 2;
    }
    MPI_Init(&argc, &argv);
    up = now_s() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        printf("bench=start_%s engine=%s ranks=%d ", argv[2], argv[1], ranks);
    if (strcmp(argv[2], "contact") == 0)
        contacts();
    start = now_s();
    MPI_Finalize();
    down = now_s() - start;
    if (rank == 0)
        printf("init_ms=%.3f finalize_ms=%.3f\n", up * 1e3, down * 1e3);
    return 0;
}
