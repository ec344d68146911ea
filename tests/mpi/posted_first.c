/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted_first.c - messages whose receives are posted first: two ranks exchange windows of
 * them, and check the content.
 *
 *   posted_first [ROUNDS]
 *
 * Rank 0 prints how many messages each rank has received that way.  A quarter of each window is
 * received from any source, and the last message with any tag; sizes are 1 KiB to 1 MiB.
 */
#include "check.h"

#define WINDOW  64
#define LONGEST (1 << 20)

static const int sizes[] = {1 << 10, 3000, 1 << 13, 20000, 1 << 16, LONGEST};

static int size_of(int round, int i)
{
    return sizes[(round + i) % (int)(sizeof sizes / sizeof sizes[0])];
}

static unsigned char *in[WINDOW], *out[WINDOW];

/* Makes a copy whose context id another copy has had before. */
static MPI_Comm second_copy(void)
{
    MPI_Comm first, second;

    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_free(&first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    return second;
}

/* The receive of any tag is posted last, so it is the only one left for its message. */
static void exchange(MPI_Comm comm, int round, int peer)
{
    MPI_Request recvs[WINDOW], sends[WINDOW];
    MPI_Status statuses[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        memset(in[i], 0, (size_t)size_of(round, i));
        MPI_Irecv(in[i], size_of(round, i), MPI_BYTE, i % 4 == 0 ? MPI_ANY_SOURCE : peer,
                  i == WINDOW - 1 ? MPI_ANY_TAG : i, comm, &recvs[i]);
    }
    MPI_Barrier(comm);
    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(out[i], (size_t)size_of(round, i), (unsigned)(round * WINDOW + i));
        MPI_Isend(out[i], size_of(round, i), MPI_BYTE, peer, i, comm, &sends[i]);
    }
    MPI_Waitall(WINDOW, recvs, statuses);
    MPI_Waitall(WINDOW, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; i++) {
        const int size = size_of(round, i);

        CHECK_EQUAL(statuses[i].MPI_SOURCE, peer);
        CHECK_EQUAL(statuses[i].MPI_TAG, i);
        CHECK_EQUAL(pattern_end(in[i], (size_t)size, (unsigned)(round * WINDOW + i)), size);
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 10;
    MPI_Comm copy;

    start(&argc, &argv);
    CHECK_EQUAL(ranks, 2);
    for (int i = 0; i < WINDOW; i++) {
        in[i] = malloc(LONGEST);
        out[i] = malloc(LONGEST);
    }
    copy = second_copy();
    for (int round = 0; round < rounds; round++)
        exchange(round % 2 == 0 ? MPI_COMM_WORLD : copy, round, 1 - rank);
    MPI_Comm_free(&copy);
    if (rank == 0)
        printf("posted first: %d\n", rounds * WINDOW);
    for (int i = 0; i < WINDOW; i++) {
        free(in[i]);
        free(out[i]);
    }
    return finish("posted_first");
}
