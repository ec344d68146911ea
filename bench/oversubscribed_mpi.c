/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what do exchanges and patterns cost where ranks share cores?
 * Method     ranks in pairs, 0 and 1, 2 and 3, ...; all pairs at the same time: {MPI_Irecv,
 *            MPI_Send, MPI_Wait}.  For each case there are batches of exchanges, each between two
 *            collective calls and of some 5 ms, until BUDGET_MS have passed; the time of a batch is
 *            the time of its slowest rank.  Short batches before them determine the number of
 *            exchanges, and warm up.  The content is checked before and after the batches.
 *            A case is a number of bytes, or PATTERN:BYTES, one of
 *              pingpong   the pairs play ping-pong, {MPI_Send, MPI_Recv}: latency
 *              allreduce  MPI_Allreduce of BYTES, in doubles
 *              alltoall   MPI_Alltoall, BYTES for each rank
 *              halo       a periodic grid of two dimensions: MPI_Irecv from four neighbours,
 *                         MPI_Isend to them, MPI_Waitall
 *
 * usage: mpiexec -n RANKS oversubscribed_mpi LABEL BUDGET_MS CASE...     (an even number of RANKS)
 *
 * The same program is run over each transport, which LABEL names.  Prints, for each case,
 * the median batch and the fastest, per exchange.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_S 5e-3
#define BATCHES 1000
#define FEWEST  8 /* minimum and maximum exchanges of one batch */
#define MOST    2000
#define TRIALS  3
#define LEAST   3     /* minimum number of batches */
#define SLOW_S  20e-3 /* longer exchanges are measured in batches of two */

static int rank, ranks, partner;
static int neighbours[4]; /* left, right, above, below: each pair in opposite directions */
static unsigned char *out, *in;

struct pattern {
    const char *name;
    void (*once)(int size);
    int per; /* the reported time is divided by this */
};

static void require(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "oversubscribed_mpi: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void exchange(int size)
{
    MPI_Request request;

    MPI_Irecv(in, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void ping_pong(int size)
{
    if (rank < partner)
        MPI_Send(out, size, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
    MPI_Recv(in, size, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > partner)
        MPI_Send(out, size, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
}

static void allreduce(int size)
{
    MPI_Allreduce(out, in, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(int size)
{
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
}

static void halo(int size)
{
    MPI_Request requests[8];

    for (int i = 0; i < 4; i++)
        MPI_Irecv(in + (size_t)i * (size_t)size, size, MPI_BYTE, neighbours[i], 3 + (i ^ 1),
                  MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 4; i++)
        MPI_Isend(out + (size_t)i * (size_t)size, size, MPI_BYTE, neighbours[i], 3 + i,
                  MPI_COMM_WORLD, &requests[4 + i]);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

static const struct pattern patterns[] = {
    {"exchange", exchange, 1}, {"pingpong", ping_pong, 2}, {"allreduce", allreduce, 1},
    {"alltoall", alltoall, 1}, {"halo", halo, 1},
};

/* Does `exchanges` exchanges in all ranks.  Returns the seconds for one, equal in all ranks. */
static double batch(const struct pattern *p, int size, int exchanges)
{
    double start, took, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < exchanges; i++)
        p->once(size);
    took = (MPI_Wtime() - start) / exchanges;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* The number of exchanges of a batch, from the fastest of a few short ones: a disturbance of
 * one of them must not make all batches short. */
static int exchanges_for(const struct pattern *p, int size)
{
    double best, wanted;

    if (batch(p, size, 1) > SLOW_S)
        return 2;
    best = batch(p, size, FEWEST);
    for (int i = 1; i < TRIALS; i++) {
        double next = batch(p, size, FEWEST);

        best = next < best ? next : best;
    }
    wanted = BATCH_S / best;
    return wanted > MOST ? MOST : wanted < FEWEST ? FEWEST : (int)wanted;
}

/* Rank 0 decides whether there is time for another batch. */
static int goes_on(double until, int count)
{
    int more = count < BATCHES && (count < LEAST || MPI_Wtime() < until);

    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static unsigned char content(size_t i, int who, unsigned seed)
{
    return (unsigned char)(i * 131 + (i >> 8) + (unsigned)who * 17 + seed);
}

static void fill(size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = content(i, rank, seed);
}

static void check_part(size_t place, size_t from, size_t size, int who, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        require(in[place + i] == content(from + i, who, seed), "wrong content");
}

/* One exchange whose received data is checked. */
static void check_content(const struct pattern *p, int bytes, unsigned seed)
{
    size_t size = (size_t)bytes, parts = p->once == halo ? 4 : (size_t)ranks;

    memset(in, 0, size * parts);
    if (p->once == allreduce) {
        double *mine = (double *)out, *sum = (double *)in;

        for (size_t i = 0; i < size / sizeof *mine; i++)
            mine[i] = rank + (double)i;
        p->once(bytes);
        for (size_t i = 0; i < size / sizeof *mine; i++)
            require(sum[i] == (double)ranks * ((double)i + (ranks - 1) / 2.0), "wrong sum");
        memset(out, 0, size); /* sums of sums would exceed the range of a double */
        return;
    }
    fill(size * parts, seed);
    p->once(bytes);
    if (p->once == exchange || p->once == ping_pong)
        check_part(0, 0, size, partner, seed);
    for (int i = 0; p->once == alltoall && i < ranks; i++)
        check_part((size_t)i * size, (size_t)rank * size, size, i, seed);
    for (size_t i = 0; p->once == halo && i < 4; i++)
        check_part(i * size, (i ^ 1) * size, size, neighbours[i], seed);
}

static void measure(const char *label, double budget_s, const struct pattern *p, int size)
{
    static double times[BATCHES];
    int exchanges, count = 0;
    double until;

    check_content(p, size, 7);
    exchanges = exchanges_for(p, size);
    until = MPI_Wtime() + budget_s;
    do
        times[count++] = batch(p, size, exchanges) / p->per;
    while (goes_on(until, count));
    check_content(p, size, 9);
    qsort(times, (size_t)count, sizeof times[0], compare);
    if (rank == 0)
        printf("bench=oversubscribed engine=%s ranks=%d pattern=%s size=%d median_us=%.2f "
               "min_us=%.2f batches=%d exchanges=%d\n",
               label, ranks, p->name, size, times[count / 2] * 1e6, times[0] * 1e6, count,
               exchanges);
    fflush(stdout);
}

/* Parses a case from the command line; *size is its bytes. */
static const struct pattern *to_case(const char *text, int *size)
{
    const char *colon = strchr(text, ':'), *number = colon == NULL ? text : colon + 1;
    size_t length = colon == NULL ? 0 : (size_t)(colon - text);
    const struct pattern *p = colon == NULL ? &patterns[0] : NULL;
    char *end;
    long value = strtol(number, &end, 10);

    for (size_t i = 0; colon != NULL && i < sizeof patterns / sizeof *patterns; i++)
        if (strlen(patterns[i].name) == length && strncmp(patterns[i].name, text, length) == 0)
            p = &patterns[i];
    if (end == number || *end != '\0' || value < 1 || value > 1 << 26)
        return NULL;
    if (p != NULL && p->once == allreduce && value % (long)sizeof(double) != 0)
        return NULL;
    *size = (int)value;
    return p;
}

/* Makes a periodic grid that is as square as possible. */
static void grid_make(void)
{
    int sides[2] = {0, 0}, periods[2] = {1, 1};
    MPI_Comm grid;

    MPI_Dims_create(ranks, 2, sides);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sides, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &neighbours[0], &neighbours[1]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[2], &neighbours[3]);
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv)
{
    size_t longest = 0;
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    require(
        argc >= 4 && ranks % 2 == 0,
        "usage: mpiexec -n RANKS oversubscribed_mpi LABEL BUDGET_MS CASE... (RANKS is even)");
    partner = rank ^ 1;
    for (int i = 3; i < argc; i++) {
        require(
            to_case(argv[i], &size) != NULL,
            "a CASE is BYTES, or PATTERN:BYTES of exchange, pingpong, allreduce, alltoall and "
            "halo; BYTES are from 1 to 64 Mi, of allreduce a multiple of 8");
        longest = (size_t)size > longest ? (size_t)size : longest;
    }
    grid_make();
    out = calloc(longest, ranks < 4 ? 4 : (size_t)ranks);
    in = calloc(longest, ranks < 4 ? 4 : (size_t)ranks);
    require(out != NULL && in != NULL, "no memory");
    for (int i = 3; i < argc; i++) {
        const struct pattern *p = to_case(argv[i], &size);

        measure(argv[1], atof(argv[2]) * 1e-3, p, size);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
