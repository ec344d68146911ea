/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.c - what an MPI over libucp does with windows, whose memory peers access directly (mpich_test.py).
 *
 * Windows of every kind, of unequal and of no size, many at a time and one after the other; passive targets that wait in
 * MPI; requests; and accesses that MPICH sends as messages, mixed with direct ones on the same numbers.
 */
#include "tests/mpi/check.h"

#define CELLS  5000
#define ROUNDS 40
#define MANY   8

static int left, right;

static long value_of(int owner, int i)
{
    return (long)owner * 1000003 + i;
}

static void fill(long *cells, int count)
{
    for (int i = 0; i < count; i++)
        cells[i] = value_of(rank, i);
}

/* Rank 0 puts to and gets from all others, which wait in MPI and do not know when. */
static void passive_targets_wait(MPI_Win win, long *own)
{
    static long out[CELLS], in[CELLS];
    int go = 1;

    fill(out, CELLS);
    memset(own, 0, CELLS * sizeof *own);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int i = 0; i < CELLS; i++)
            CHECK_EQUAL(own[i], i % 7 == 0 ? -1 : value_of(0, i));
        MPI_Win_unlock(rank, win);
    }
    for (int to = 1; to < ranks && rank == 0; to++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Put(out, CELLS, MPI_LONG, to, 0, CELLS, MPI_LONG, win);
        MPI_Win_flush(to, win);
        for (int i = 0; i < CELLS; i += 7) {
            static const long minus = -1;

            MPI_Put(&minus, 1, MPI_LONG, to, i, 1, MPI_LONG, win);
        }
        MPI_Win_unlock(to, win);
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        MPI_Get(in, CELLS, MPI_LONG, to, 0, CELLS, MPI_LONG, win);
        MPI_Win_flush_local(to, win);
        MPI_Win_unlock(to, win);
        for (int i = 0; i < CELLS; i++)
            CHECK_EQUAL(in[i], i % 7 == 0 ? -1 : value_of(0, i));
        MPI_Send(&go, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void requests_complete(MPI_Win win, long *own)
{
    static long out[ROUNDS], in[ROUNDS];
    MPI_Request requests[ROUNDS];

    memset(own, 0, ROUNDS * sizeof *own);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        out[i] = value_of(rank, i);
        MPI_Rput(&out[i], 1, MPI_LONG, right, i, 1, MPI_LONG, win, &requests[i]);
    }
    MPI_Waitall(ROUNDS, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(win);
    for (int i = 0; i < ROUNDS; i++)
        MPI_Rget(&in[i], 1, MPI_LONG, right, i, 1, MPI_LONG, win, &requests[i]);
    MPI_Waitall(ROUNDS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ROUNDS; i++)
        CHECK_EQUAL(in[i], value_of(rank, i));
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++)
        CHECK_EQUAL(own[i], value_of(left, i));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Sums come as messages, gets do not: a get after a flush sees the sum. */
static void direct_accesses_and_messages_mix(MPI_Win win, long *own)
{
    const long one = 1;
    long got, old;

    own[0] = own[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 1; i <= ROUNDS; i++) {
        MPI_Accumulate(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(right, win);
        MPI_Get(&got, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
        MPI_Win_flush(right, win);
        CHECK_EQUAL(got, i);
        MPI_Put(&got, 1, MPI_LONG, right, 1, 1, MPI_LONG, win);
        MPI_Win_flush(right, win);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, right, 1, MPI_SUM, win);
        MPI_Win_flush(right, win);
        CHECK_EQUAL(old, i);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(own[0], ROUNDS);
    CHECK_EQUAL(own[1], ROUNDS + 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void groups_start_and_wait(MPI_Win win, long *own)
{
    MPI_Group all, to, from;
    long value = value_of(rank, 9);

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    own[3] = 0;
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    MPI_Put(&value, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK_EQUAL(own[3], value_of(left, 9));
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&all);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void work(MPI_Win win, long *own)
{
    passive_targets_wait(win, own);
    requests_complete(win, own);
    direct_accesses_and_messages_mix(win, own);
    groups_start_and_wait(win, own);
}

/* Odd ranks have no memory in it. */
static void sizes_differ(void)
{
    long *own = NULL, value = rank, got = -1;
    int to = rank / 2 * 2;
    MPI_Win win;

    MPI_Win_allocate(rank % 2 == 0 ? 64 * (MPI_Aint)sizeof *own : 0, sizeof *own, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &own, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_LONG, to, 20 + rank % 2, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    MPI_Get(&got, 1, MPI_LONG, to, 20 + rank % 2, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK_EQUAL(got, rank);
    MPI_Win_free(&win);
}

/* Memory is mapped and given back again and again, in the same place. */
static void windows_come_and_go(void)
{
    static long own[MANY][64];

    for (int round = 0; round < ROUNDS / 4; round++) {
        MPI_Win wins[MANY];

        memset(own, 0, sizeof own);
        for (int i = 0; i < MANY; i++)
            MPI_Win_create(own[i], sizeof own[i], sizeof own[i][0], MPI_INFO_NULL,
                           MPI_COMM_WORLD, &wins[i]);
        for (int i = 0; i < MANY; i++) {
            long value = value_of(rank, i + round);

            MPI_Win_lock(MPI_LOCK_SHARED, right, 0, wins[i]);
            MPI_Put(&value, 1, MPI_LONG, right, i, 1, MPI_LONG, wins[i]);
            MPI_Win_unlock(right, wins[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < MANY; i++)
            for (int at = 0; at < 64; at++)
                CHECK_EQUAL(own[i][at], at == i ? value_of(left, i + round) : 0);
        for (int i = MANY; i-- > 0;)
            MPI_Win_free(&wins[i]);
    }
}

static void shared_windows_are_shared(void)
{
    MPI_Comm node;
    MPI_Win win;
    long *own, *first;
    MPI_Aint size;
    int unit, place, count;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_size(node, &count);
    CHECK_EQUAL(count, ranks);
    MPI_Win_allocate_shared(8 * sizeof *own, sizeof *own, MPI_INFO_NULL, node, &own, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &first);
    MPI_Win_lock_all(0, win);
    own[0] = value_of(place, 1);
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    CHECK_EQUAL(first[0], value_of(0, 1));
    MPI_Put(&own[0], 1, MPI_LONG, (place + 1) % count, 1, 1, MPI_LONG, win);
    MPI_Win_flush_all(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    CHECK_EQUAL(own[1], value_of((place + count - 1) % count, 1));
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

static void memory_is_attached(void)
{
    static long own[16];
    MPI_Aint mine, theirs;
    long value = value_of(rank, 5);
    MPI_Win win;

    own[2] = 0;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, own, sizeof own);
    MPI_Get_address(&own[2], &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_LONG, right, theirs, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK_EQUAL(own[2], value_of(left, 5));
    MPI_Win_detach(win, own);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    static long memory[CELLS];
    long *own;
    MPI_Win win;

    start(&argc, &argv);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    work(win, memory);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    work(win, own);
    MPI_Win_free(&win);
    sizes_differ();
    windows_come_and_go();
    shared_windows_are_shared();
    memory_is_attached();
    return finish("windows");
}
