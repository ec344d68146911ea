/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patterns.c - communication patterns of well-known programs, with the content checked.
 *
 *   cg    a conjugate gradient on a grid of ranks: an exchange of 8 to 16 KiB with the partner at
 *         the transposed position, then two sums of 8 bytes over all ranks, repeatedly
 *   imb   pingpong of the first two ranks while the others wait, sendrecv around the ring, exchange
 *         with both neighbours, allreduce; sizes from 0 to 1 MiB
 *
 * usage: mpiexec -n RANKS patterns [--rounds N]    (default 1)
 *
 * With --rounds each pattern prints its time, for ./dev soak patterns.
 */
#include "check.h"

#define LONGEST (1 << 20)
#define STEPS   100       /* of cg, in a round */
#define BYTES   (1 << 18) /* for one size of imb, in a round */
#define MOST    20        /* messages of one size */

static unsigned char *out, *in, *other;
static int left, right;

/* ---- cg ---- */

/* The ranks form a square of rows, or two adjacent squares; for other numbers, ranks from both
 * ends are partners. */
static int transposed(void)
{
    int halves = 1, side = 1;

    while (side * side < ranks)
        side++;
    if (side * side != ranks) {
        halves = 2;
        for (side = 1; 2 * side * side < ranks;)
            side++;
    }
    if (halves * side * side != ranks)
        return ranks - 1 - rank;
    return ((rank / halves % side) * side + rank / halves / side) * halves + rank % halves;
}

static void cg_step(int partner, int step)
{
    int size = 8192 + step % 9 * 1024;
    double one = step + rank, sum = 0;
    MPI_Request request;

    pattern_fill(out, (size_t)size, (unsigned)(step + rank));
    MPI_Irecv(in, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(pattern_end(in, (size_t)size, (unsigned)(step + partner)), size);
    for (int i = 0; i < 2; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(sum, (long long)ranks * step + (long long)ranks * (ranks - 1) / 2);
    }
}

static void cg(void)
{
    int partner = transposed();

    for (int step = 0; step < STEPS; step++)
        cg_step(partner, step);
}

/* ---- imb ---- */

static void pingpong(int size)
{
    if (rank == 0) {
        MPI_Send(out, size, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(in, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

static void sendrecv(int size)
{
    MPI_Sendrecv(out, size, MPI_BYTE, right, 3, in, size, MPI_BYTE, left, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void exchange(int size)
{
    MPI_Request sends[2];

    MPI_Isend(out, size, MPI_BYTE, left, 4, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(out, size, MPI_BYTE, right, 5, MPI_COMM_WORLD, &sends[1]);
    MPI_Recv(other, size, MPI_BYTE, right, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, size, MPI_BYTE, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
}

static void allreduce(int size)
{
    MPI_Allreduce(out, in, size / (int)sizeof(int), MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
}

typedef void call_fn(int size);

/* Returns the rank that sends to this one; -1: none, or the data is not from a single rank. */
static int source_of(call_fn *call)
{
    if (call == pingpong)
        return rank < 2 ? 1 - rank : -1;
    return call == allreduce ? -1 : left;
}

/* Checks the bitwise XOR of all ranks' bytes. */
static void check_reduced(int size, unsigned seed)
{
    for (int i = 0; i < size / (int)sizeof(int) * (int)sizeof(int); i++) {
        unsigned char want = 0;

        for (int r = 0; r < ranks; r++)
            want ^= pattern_at((size_t)i, seed + (unsigned)r);
        CHECK_EQUAL(in[i], want);
    }
}

static void imb_size(call_fn *call, int size, unsigned seed)
{
    int count = size == 0 || BYTES / size > MOST ? MOST : BYTES / size > 0 ? BYTES / size : 1;
    int source = source_of(call);

    pattern_fill(out, (size_t)size, seed + (unsigned)rank);
    memset(in, 0, (size_t)size);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        call(size);
    if (source >= 0)
        CHECK_EQUAL(pattern_end(in, (size_t)size, seed + (unsigned)source), size);
    if (call == exchange)
        CHECK_EQUAL(pattern_end(other, (size_t)size, seed + (unsigned)right), size);
    if (call == allreduce)
        check_reduced(size, seed);
}

static void imb(void)
{
    static call_fn *const calls[] = {pingpong, sendrecv, exchange, allreduce};

    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        imb_size(calls[c], 0, 1);
        for (int size = 1; size <= LONGEST; size *= 2)
            imb_size(calls[c], size, (unsigned)size);
    }
}

/* ---- all ---- */

/* Returns the seconds of the slowest rank. */
static double seconds_of(void (*pattern)(void), int rounds)
{
    double took, slowest = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    took = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        pattern();
    took = MPI_Wtime() - took;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"cg", cg}, {"imb", imb}};
    bool tells = argc == 3 && strcmp(argv[1], "--rounds") == 0;
    int rounds = tells ? atoi(argv[2]) : 1;

    start(&argc, &argv);
    CHECK(rounds > 0);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    out = malloc(LONGEST);
    in = malloc(LONGEST);
    other = malloc(LONGEST);
    CHECK(out != NULL && in != NULL && other != NULL);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double seconds = seconds_of(all[i].run, rounds);

        if (tells && rank == 0)
            printf("pattern=%s ranks=%d rounds=%d seconds=%.4f\n", all[i].name, ranks, rounds,
                   seconds);
    }
    free(out);
    free(in);
    free(other);
    return finish("patterns");
}
