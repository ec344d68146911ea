/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns.c - ranks that share cores: how often a call that does not wait gives the core away.
 *
 * Calls in vain have to give it away now and then, or a rank that is waited for gets none; but not
 * each of them, as their caller may compute between them.  This program finds sched_yield() here,
 * before that of the C library: so each time is counted, whether the component or Open MPI calls it.
 *
 * Run with MBX_OVERSUBSCRIBED=yes and Open MPI's mpi_yield_when_idle.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define CALLS 1000

/* Of so many calls in vain.  The least is that of one in 64 (docs/openmpi-component.md). */
#define LEAST (CALLS / 64)
#define MOST  40

static int yields;

__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static MPI_Request recvs[2]; /* that nothing is sent for */

static int by_test(void)
{
    int done;

    MPI_Test(&recvs[0], &done, MPI_STATUS_IGNORE);
    return done;
}

static int by_testany(void)
{
    int which, done;

    MPI_Testany(2, recvs, &which, &done, MPI_STATUS_IGNORE);
    return done;
}

static int by_testall(void)
{
    int done;

    MPI_Testall(2, recvs, &done, MPI_STATUSES_IGNORE);
    return done;
}

static int by_testsome(void)
{
    int which[2], done;

    MPI_Testsome(2, recvs, &done, which, MPI_STATUSES_IGNORE);
    return done;
}

static int by_iprobe(void)
{
    int found;

    MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    return found;
}

static int by_improbe(void)
{
    MPI_Message message;
    int found;

    MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
    return found;
}

static const struct {
    const char *name;
    int (*call)(void);
} ways[] = {{"MPI_Test", by_test},       {"MPI_Testany", by_testany},
            {"MPI_Testall", by_testall}, {"MPI_Testsome", by_testsome},
            {"MPI_Iprobe", by_iprobe},   {"MPI_Improbe", by_improbe}};

static void count(const char *name, int (*call)(void))
{
    yields = 0;
    for (int i = 0; i < CALLS; i++)
        CHECK_EQUAL(call(), 0);
    if (yields < LEAST || yields > MOST) {
        fprintf(stderr, "rank %d: %d times %s gave the core away %d times, not %d to %d\n",
                rank, CALLS, name, yields, LEAST, MOST);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int bytes[2];

    start(&argc, &argv);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&bytes[i], 1, MPI_INT, MPI_ANY_SOURCE, 1 + i, MPI_COMM_WORLD, &recvs[i]);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        count(ways[i].name, ways[i].call);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Cancel(&recvs[i]);
        MPI_Wait(&recvs[i], MPI_STATUS_IGNORE);
    }
    return finish("turns");
}
