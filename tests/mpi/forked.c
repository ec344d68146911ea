/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.c - ranks that fork while messages are under way.
 *
 * A child that executes a program or ends does not affect MPI.  A child that uses MPI ends with
 * exit code 1, and the messages of its parent still arrive.
 */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/base/patience.h"

#define ROUNDS  25
#define LONGEST (1 << 20)

static unsigned char sent[LONGEST], received[LONGEST];
static int rank, ranks;

static void use_nonblocking(void)
{
    MPI_Request request;
    int flag = 0;

    MPI_Isend(sent, 100, MPI_BYTE, (rank + 1) % ranks, 31000, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static void use_blocking(void)
{
    MPI_Recv(received, 100, MPI_BYTE, MPI_ANY_SOURCE, 31001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void use_collective(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void execute(void)
{
    execl("/bin/sh", "sh", "-c", "exit 0", NULL);
}

static void end(void)
{
    exit(0);
}

static const struct {
    void (*does)(void);
    int code;
} children[] = {
    {use_nonblocking, 1}, {use_blocking, 1}, {use_collective, 1}, {execute, 0}, {end, 0}};

static void wait_for(pid_t child, int code)
{
    int status;

    if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code)
        return;
    fprintf(stderr,
            "forked: a child of rank %d has ended with status 0x%x, not with exit code %d\n",
            rank, (unsigned)status, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange(int round)
{
    static const int sizes[] = {LONGEST, 100000, 20000, 100, 0};
    int size = sizes[round / 5 % 5], which = (round + rank) % 5;
    MPI_Request requests[2];
    pid_t child;

    memset(sent, rank + round, (size_t)size);
    MPI_Irecv(received, size, MPI_BYTE, (rank + ranks - 1) % ranks, round, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(sent, size, MPI_BYTE, (rank + 1) % ranks, round, MPI_COMM_WORLD, &requests[1]);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(PATIENCE_S);
        children[which].does();
        _exit(0);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < size; i++)
        if (received[i] != (unsigned char)((rank + ranks - 1) % ranks + round)) {
            fprintf(stderr, "forked: rank %d, round %d: byte %d is wrong\n", rank, round, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    wait_for(child, children[which].code);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < ROUNDS; round++)
        exchange(round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("ok forked with %d ranks\n", ranks);
    MPI_Finalize();
    return 0;
}
