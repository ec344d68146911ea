/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failures.c - MPI continues when ranks are killed (ULFM; Open MPI 5.0).
 *
 *   mpiexec --with-ft ulfm -n RANKS failures        at least 3 ranks
 *
 * In each round one rank kills itself.  The others get MPI_ERR_PROC_FAILED for requests that
 * need it, and MPI_ERR_PROC_FAILED_PENDING for receives that it could match.  They acknowledge
 * the failure, revoke the communicator while receives and long sends wait, shrink it, agree,
 * and continue on the smaller one, until two ranks are left.
 */
#include "check.h"

#include <mpi-ext.h>
#include <signal.h>
#include <stdlib.h>

enum { DEAD = 1, ANY, HERE, NEVER, LONG, RING, LONG_SIZE = 1 << 20 };

static MPI_Comm comm;
static int me, size; /* in comm */

static int class_of(int err)
{
    int class;

    MPI_Error_class(err, &class);
    return class;
}

static void look_at_comm(void)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
}

/* Exchanges messages around the ring, and in a collective. */
static void talk(void)
{
    int value = -1, sum = 0, one = 1;

    CHECK_EQUAL(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % size, RING, &value, 1, MPI_INT,
                             (me + size - 1) % size, RING, comm, MPI_STATUS_IGNORE),
                MPI_SUCCESS);
    CHECK_EQUAL(value, (me + size - 1) % size);
    CHECK_EQUAL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    CHECK_EQUAL(sum, size);
}

static void inspect_the_end(int victim)
{
    MPI_Request request;
    int value = 0;

    MPI_Irecv(&value, 1, MPI_INT, victim, DEAD, comm, &request);
    CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_PROC_FAILED);
    CHECK_EQUAL(class_of(MPI_Send(&value, 1, MPI_INT, victim, DEAD, comm)),
                MPI_ERR_PROC_FAILED);
    CHECK_EQUAL(
        class_of(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, ANY, comm, MPI_STATUS_IGNORE)),
        MPI_ERR_PROC_FAILED);
    CHECK_EQUAL(class_of(MPI_Probe(victim, DEAD, comm, MPI_STATUS_IGNORE)),
                MPI_ERR_PROC_FAILED);
}

/* A receive from any source stays open, and acknowledged failures do not affect it. */
static void acknowledge(int victim)
{
    MPI_Group failed, all;
    MPI_Request request;
    int value = 0, sent = 4711, count, index = 0, was;

    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, ANY, comm, &request);
    CHECK_EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL);
    CHECK_EQUAL(MPIX_Comm_failure_ack(comm), MPI_SUCCESS);
    MPIX_Comm_failure_get_acked(comm, &failed);
    MPI_Comm_group(comm, &all);
    MPI_Group_size(failed, &count);
    CHECK_EQUAL(count, 1);
    MPI_Group_translate_ranks(failed, 1, &index, all, &was);
    CHECK_EQUAL(was, victim);
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
    CHECK_EQUAL(MPI_Send(&sent, 1, MPI_INT, me, ANY, comm), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQUAL(value, sent);
}

/* All surviving ranks have come here: rank 0 gets a message from each. */
static void gather(int victim)
{
    int value = 0;

    if (me != 0) {
        CHECK_EQUAL(MPI_Send(&value, 1, MPI_INT, 0, HERE, comm), MPI_SUCCESS);
        return;
    }
    for (int i = 1; i < size; i++)
        if (i != victim)
            CHECK_EQUAL(MPI_Recv(&value, 1, MPI_INT, i, HERE, comm, MPI_STATUS_IGNORE),
                        MPI_SUCCESS);
}

/* Rank 0 never sends, and nobody receives the long messages; everything ends when rank 0
 * revokes. */
static void revoke(void)
{
    char *bytes = calloc(1, LONG_SIZE);
    MPI_Request request;
    int value, is_revoked = 0, err;

    if (me == 0) {
        CHECK_EQUAL(MPIX_Comm_revoke(comm), MPI_SUCCESS);
    } else {
        err = class_of(MPI_Isend(bytes, LONG_SIZE, MPI_BYTE, 0, LONG, comm, &request));
        CHECK(err == MPI_SUCCESS || err == MPI_ERR_REVOKED);
        CHECK_EQUAL(class_of(MPI_Recv(&value, 1, MPI_INT, 0, NEVER, comm, MPI_STATUS_IGNORE)),
                    MPI_ERR_REVOKED);
        if (err == MPI_SUCCESS)
            err = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(err == MPI_SUCCESS || err == MPI_ERR_REVOKED);
    }
    MPIX_Comm_is_revoked(comm, &is_revoked);
    CHECK(is_revoked);
    CHECK_EQUAL(class_of(MPI_Send(&value, 1, MPI_INT, 0, NEVER, comm)), MPI_ERR_REVOKED);
    CHECK_EQUAL(class_of(MPI_Barrier(comm)), MPI_ERR_REVOKED);
    free(bytes);
}

static void shrink(void)
{
    int bits = 7 & ~(me == 0 ? 2 : 0), before = size;
    MPI_Comm smaller;

    CHECK_EQUAL(MPIX_Comm_shrink(comm, &smaller), MPI_SUCCESS);
    MPI_Comm_free(&comm);
    comm = smaller;
    look_at_comm();
    CHECK_EQUAL(size, before - 1);
    CHECK_EQUAL(MPIX_Comm_agree(comm, &bits), MPI_SUCCESS);
    CHECK_EQUAL(bits, 5);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    look_at_comm();
    for (int victim = 1; size > 2; victim = size - 1) {
        talk();
        if (me == victim)
            raise(SIGKILL);
        inspect_the_end(victim);
        acknowledge(victim);
        gather(victim);
        revoke();
        shrink();
        talk();
    }
    if (me == 0)
        printf("ok failures ranks=%d\n", ranks);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
