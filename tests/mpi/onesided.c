/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * onesided.c - MPI's one-sided operations, with the content checked: put and get between
 * fences, locks and flushes, accumulate and related operations, and windows of every kind.
 *
 * Every rank has a window of CELLS numbers and works on the window of its right neighbour;
 * counters that all ranks update are at rank 0.
 *
 * --no-swaps leaves out MPI_Compare_and_swap: in Open MPI 4.1.4 it crashes with osc/rdma, also
 * over its own btl/vader.
 */
#include "check.h"

#define CELLS  20000 /* 160,000 bytes: longer than any packet */
#define ROUNDS 50

static long *cells;
static bool swaps = true;
static int left, right;

static void cells_fill(long *to, int count, int seed)
{
    for (int i = 0; i < count; i++)
        to[i] = (long)seed * 1000003 + i;
}

static int cells_end(const long *at, int count, int seed)
{
    for (int i = 0; i < count; i++)
        if (at[i] != (long)seed * 1000003 + i)
            return i;
    return count;
}

static void put_and_get_between_fences(MPI_Win win)
{
    static const int counts[] = {1, 2, 100, 1000, CELLS};
    static long out[CELLS], in[CELLS];

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int count = counts[i], seed = (int)i;

        cells_fill(out, count, seed + rank);
        MPI_Win_fence(0, win);
        MPI_Put(out, count, MPI_LONG, right, CELLS - count, count, MPI_LONG, win);
        MPI_Win_fence(0, win);
        CHECK_EQUAL(cells_end(cells + CELLS - count, count, seed + left), count);
        memset(in, 0, sizeof in);
        MPI_Get(in, count, MPI_LONG, right, CELLS - count, count, MPI_LONG, win);
        MPI_Win_fence(0, win);
        CHECK_EQUAL(cells_end(in, count, seed + rank), count);
    }
}

/* Non-contiguous elements: every third cell. */
static void strided_elements_find_their_place(MPI_Win win)
{
    static long out[300];
    MPI_Datatype third;

    MPI_Type_vector(100, 1, 3, MPI_LONG, &third);
    MPI_Type_commit(&third);
    cells_fill(out, 300, rank);
    memset(cells, 0, 300 * sizeof *cells);
    MPI_Win_fence(0, win);
    MPI_Put(out, 1, third, right, 0, 1, third, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 300; i++)
        CHECK_EQUAL(cells[i], i % 3 == 0 && i < 298 ? (long)left * 1000003 + i : 0);
    MPI_Win_fence(0, win);
    MPI_Type_free(&third);
}

static void accumulates_add_up(MPI_Win win)
{
    static double ones[1000];

    for (int i = 0; i < 1000; i++)
        ones[i] = 1.5;
    memset(cells, 0, 1000 * sizeof *cells);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 4; i++)
        MPI_Accumulate(ones, 1000, MPI_DOUBLE, 0, 0, 1000, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 1000 && rank == 0; i++)
        CHECK(((double *)cells)[i] == 6.0 * ranks);
    MPI_Win_fence(0, win);
}

/* Each rank draws numbers from a counter at rank 0: every number is drawn once. */
static void a_shared_counter_gives_each_number_once(MPI_Win win)
{
    long one = 1, got, sum = 0, all;

    cells[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(got >= 0 && got < (long)ROUNDS * ranks);
        sum += got;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(all, (long)ROUNDS * ranks * ((long)ROUNDS * ranks - 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Adds 1 at rank 0 while it holds a lock made of compare-and-swap. */
static void add_behind_swaps(MPI_Win win)
{
    long free = 0, mine = rank + 1, old, value;

    do {
        MPI_Compare_and_swap(&mine, &free, &old, MPI_LONG, 0, 0, win);
        MPI_Win_flush(0, win);
    } while (old != 0);
    MPI_Get(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    MPI_Compare_and_swap(&free, &mine, &old, MPI_LONG, 0, 0, win);
    MPI_Win_flush(0, win);
    CHECK_EQUAL(old, mine);
}

static void a_lock_of_swaps_excludes(MPI_Win win)
{
    long value;

    memset(cells, 0, 2 * sizeof *cells);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS / 5; i++)
        add_behind_swaps(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK_EQUAL(value, (long)(ROUNDS / 5) * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void exclusive_locks_exclude(MPI_Win win)
{
    long value;

    memset(cells, 0, sizeof *cells);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS / 5; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK_EQUAL(value, (long)(ROUNDS / 5) * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_of_it(MPI_Win win)
{
    put_and_get_between_fences(win);
    strided_elements_find_their_place(win);
    accumulates_add_up(win);
    a_shared_counter_gives_each_number_once(win);
    if (swaps)
        a_lock_of_swaps_excludes(win);
    exclusive_locks_exclude(win);
}

int main(int argc, char **argv)
{
    static long own[CELLS];
    MPI_Win win;

    start(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "--no-swaps") == 0)
        swaps = false;
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    cells = own;
    MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    all_of_it(win);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    all_of_it(win);
    MPI_Win_free(&win);
    return finish("onesided");
}
