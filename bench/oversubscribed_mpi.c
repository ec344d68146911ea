/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what does an exchange cost where ranks share cores, from size to size?
 * Method     ranks in pairs, 0 and 1, 2 and 3, ...; all pairs at the same time: {MPI_Irecv,
 *            MPI_Send, MPI_Wait}.  Of each size batches of exchanges, each between two collective
 *            calls and of some 5 ms, until BUDGET_MS have passed; the time of a batch is that of
 *            its slowest rank.  Short batches before them say how many exchanges that are, and
 *            warm up.  The content is checked before and behind them.
 *
 * usage: mpiexec -n RANKS oversubscribed_mpi LABEL BUDGET_MS SIZE...     (an even number of RANKS)
 *
 * The same program is run over each transport; the label says which.  Prints, for each size,
 * the median batch and the fastest, per exchange.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_S 5e-3
#define BATCHES 1000
#define FEWEST  8 /* exchanges of one batch, */
#define MOST    2000
#define TRIALS  3
#define LEAST   3 /* batches, whatever they take */

static int rank, ranks, partner;
static unsigned char *out, *in;

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

/* So many exchanges of all pairs: seconds for one, the same in all ranks. */
static double batch(int size, int exchanges)
{
    double start, took, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < exchanges; i++)
        exchange(size);
    took = (MPI_Wtime() - start) / exchanges;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* How many exchanges make a batch, as far as the fastest of a few short ones says: what disturbs
 * one of them is not to make all batches short. */
static int exchanges_for(int size)
{
    double best = batch(size, FEWEST), wanted;

    for (int i = 1; i < TRIALS; i++) {
        double next = batch(size, FEWEST);

        best = next < best ? next : best;
    }
    wanted = BATCH_S / best;
    return wanted > MOST ? MOST : wanted < FEWEST ? FEWEST : (int)wanted;
}

/* Rank 0 says whether there is time for another batch. */
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

static void check_content(size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        out[i] = content(i, rank, seed);
    memset(in, 0, size);
    exchange((int)size);
    for (size_t i = 0; i < size; i++)
        require(in[i] == content(i, partner, seed), "wrong content");
}

static void measure(const char *label, double budget_s, int size)
{
    static double times[BATCHES];
    int exchanges, count = 0;
    double until;

    check_content((size_t)size, 7);
    exchanges = exchanges_for(size);
    until = MPI_Wtime() + budget_s;
    do
        times[count++] = batch(size, exchanges);
    while (goes_on(until, count));
    check_content((size_t)size, 9);
    qsort(times, (size_t)count, sizeof times[0], compare);
    if (rank == 0)
        printf("bench=oversubscribed engine=%s ranks=%d size=%d median_us=%.2f min_us=%.2f "
               "batches=%d "
               "exchanges=%d\n",
               label, ranks, size, times[count / 2] * 1e6, times[0] * 1e6, count, exchanges);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int longest = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    require(
        argc >= 4 && ranks % 2 == 0,
        "usage: mpiexec -n RANKS oversubscribed_mpi LABEL BUDGET_MS SIZE... (RANKS is even)");
    partner = rank ^ 1;
    for (int i = 3; i < argc; i++)
        longest = atoi(argv[i]) > longest ? atoi(argv[i]) : longest;
    out = malloc((size_t)longest + 1);
    in = malloc((size_t)longest + 1);
    require(out != NULL && in != NULL, "no memory");
    for (int i = 3; i < argc; i++)
        measure(argv[1], atof(argv[2]) * 1e-3, atoi(argv[i]));
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
