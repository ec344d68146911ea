/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choices.c - a program that reads the clock, and makes as many calls of MPI as that says, for mbx_choice().
 *
 * usage: choices [free|other]      free: rank 1 does not pass on what it has read; other: rank 1 names another site
 *
 * Each rank prints `rank R: HASH`, over what it has used, and rank 0 what mbx_choice() has returned.
 */
#include <errno.h>
#include <matchbox/matchbox.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 20

static uint64_t read_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec << 34 ^ (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15;
}

static int choose(const char *way, int rank, int round, uint64_t *value)
{
    if (rank == 1 && strcmp(way, "free") == 0)
        return MBX_CHOICE_FREE;
    return mbx_choice(
        rank == 1 && strcmp(way, "other") == 0 && round == 3 ? 4711 : (uint64_t)round, value);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    uint64_t value = 7, hash = 0;
    int rank, chosen = 0, is_first = mbx_choice(1, &value) == MBX_CHOICE_FREE && value == 7;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        value = read_clock();
        chosen = choose(way, rank, round, &value);
        hash = (hash ^ value) * UINT64_C(0x100000001b3);
        for (uint64_t polls = value >> 60; polls > 0; polls--) {
            int flag;

            MPI_Iprobe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: %016llx\n", rank, (unsigned long long)hash);
    if (rank == 0)
        printf("chosen %d, before MPI_Init %s, NULL %s\n", chosen, is_first ? "free" : "wrong",
               mbx_choice(1, NULL) == -EINVAL ? "refused" : "wrong");
    MPI_Finalize();
    return 0;
}
