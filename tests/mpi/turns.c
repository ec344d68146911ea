/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns.c - ranks that share cores: how often a call yields its core.
 *
 * Unsuccessful calls have to yield regularly, because a rank that others wait for needs a core;
 * but not every call may yield, because its caller may compute between the calls.  This program
 * defines sched_yield(), which replaces the C library's, so each yield is counted, whether the
 * component or Open MPI calls it.
 *
 * A call that waits for several requests at a time polls all of Open MPI's progress functions,
 * by opal_progress(), which is also defined here.  Unsuccessful polls take time in which others
 * could compute, so there are few between two yields.
 *
 * Run with MBX_OVERSUBSCRIBED=yes and Open MPI's mpi_yield_when_idle.
 */
#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define CALLS 1000

/* The yields in this many unsuccessful calls.  The least is one in 64 calls
 * (docs/internals/openmpi-component.md). */
#define LEAST (CALLS / 64)
#define MOST  40

/* A wait ends after this many yields, with at most this many polls before each. */
#define WAIT_YIELDS 20
#define WAIT_LOOKS  8

#define TRIES       20

static int yields, looks;
static MPI_Request awaited = MPI_REQUEST_NULL; /* completes at WAIT_YIELDS */

__attribute__((visibility("default"))) int sched_yield(void)
{
    if (++yields == WAIT_YIELDS && awaited != MPI_REQUEST_NULL)
        MPI_Grequest_complete(awaited);
    return (int)syscall(SYS_sched_yield);
}

/* A function of Open MPI, whose header is not for programs. */
void opal_progress(void);

__attribute__((visibility("default"))) void opal_progress(void)
{
    static void (*usual)(void);

    looks++;
    if (usual == NULL)
        *(void **)&usual = dlsym(RTLD_NEXT, "opal_progress");
    usual();
}

static MPI_Request recvs[2]; /* nothing is sent for these */

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

static bool is_right(int (*call)(void))
{
    yields = 0;
    for (int i = 0; i < CALLS; i++)
        CHECK_EQUAL(call(), 0);
    return yields >= LEAST && yields <= MOST;
}

/* A packet from another rank, for example the last of a barrier, restarts the library's count
 * of unsuccessful calls: then the test counts again. */
static void count(const char *name, int (*call)(void))
{
    bool is_done = false;

    for (int i = 0; i < TRIES && !is_done; i++)
        is_done = is_right(call);
    if (!is_done) {
        fprintf(stderr, "rank %d: %d times %s gave the core away %d times, not %d to %d\n",
                rank, CALLS, name, yields, LEAST, MOST);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    return MPI_Status_set_cancelled(status, 0);
}

static int release(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int is_complete)
{
    (void)extra;
    (void)is_complete;
    return MPI_SUCCESS;
}

/* Returns the number of polls of such a wait. */
static int count_waitall(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    MPI_Grequest_start(query, release, cancel, NULL, &awaited);
    requests[1] = awaited;
    yields = looks = 0;
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    awaited = MPI_REQUEST_NULL;
    CHECK_EQUAL(yields, WAIT_YIELDS);
    CHECK(looks >= WAIT_YIELDS);
    return looks;
}

/* Counts again while others disturb the waits. */
static void count_waits(void)
{
    int least = count_waitall();

    for (int i = 0; i < TRIES && least > WAIT_YIELDS * WAIT_LOOKS; i++) {
        int found = count_waitall();

        least = found < least ? found : least;
    }
    CHECK(least <= WAIT_YIELDS * WAIT_LOOKS);
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
    MPI_Barrier(MPI_COMM_WORLD);
    count_waits();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        MPI_Cancel(&recvs[i]);
        MPI_Wait(&recvs[i], MPI_STATUS_IGNORE);
    }
    return finish("turns");
}
