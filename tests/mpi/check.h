/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - verification and reports of the MPI programs here.
 *
 * A failed check names rank, place and values and ends the job with status 1; a
 * program that returns has printed one line "ok NAME ranks=N" from rank 0.
 */
#ifndef TESTS_MPI_CHECK_H
#define TESTS_MPI_CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static inline void check_at(long long got, long long want, const char *what, const char *file,
                            int line)
{
    if (got == want)
        return;
    fprintf(stderr, "rank %d of %d: %s:%d: %s: got %lld, want %lld\n", rank, ranks, file, line,
            what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK_EQUAL(got, want)                                                                 \
    check_at((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define CHECK(condition) check_at((condition) ? 1 : 0, 1, #condition, __FILE__, __LINE__)

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) {
        fprintf(stderr, "needs at least 2 ranks, has %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static inline int finish(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok %s ranks=%d\n", name, ranks);
    MPI_Finalize();
    return 0;
}

static inline unsigned char pattern_at(size_t i, unsigned seed)
{
    return (unsigned char)(i * 131 + (i >> 8) * 17 + seed * 29 + 7);
}

static inline void pattern_fill(void *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)buf)[i] = pattern_at(i, seed);
}

/* Returns the first index at which buf differs from the pattern, or size. */
static inline size_t pattern_end(const void *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)buf)[i] != pattern_at(i, seed))
            return i;
    return size;
}

/* A small generator of our own, so that every run and rank is reproducible. */
static inline unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

#endif
