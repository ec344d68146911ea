/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what does a flood of unexpected messages cost its receiver?
 * Method     flood_work.h, with messages through MPI; the same program for each MPI.  A waiting
 *            sender polls a few times and then sleeps between two polls, because MPI
 *            polls and there are more senders than cores.  The receiver waits in MPI_Wait.
 */
#include <mpi.h>

#include "flood_work.h"

#include <stdlib.h>
#include <time.h>

#define LOOKS  64
#define NAP_NS 200000

const char carrier_name[] = "flood_mpi";
const char carrier_about[] = "mpiexec -n RANKS flood_mpi";

static MPI_Comm lanes[2];
static MPI_Request *requests;
static int is_receiver;

void carrier_open(int *rank, int *ranks)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    lanes[FLOOD_LANE] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &lanes[FENCE_LANE]);
    is_receiver = *rank == 0;
}

void carrier_slots(size_t count)
{
    requests = flood_alloc(count * sizeof *requests);
}

void carrier_send(size_t slot, enum flood_lane lane, int to, int tag, const void *buf,
                  size_t size, uint64_t mark)
{
    (void)mark;
    MPI_Isend(buf, (int)size, MPI_BYTE, to, tag, lanes[lane], &requests[slot]);
}

void carrier_recv(size_t slot, enum flood_lane lane, int from, int tag, void *buf, size_t size)
{
    MPI_Irecv(buf, (int)size, MPI_BYTE, from == FLOOD_ANY ? MPI_ANY_SOURCE : from,
              tag == FLOOD_ANY ? MPI_ANY_TAG : tag, lanes[lane], &requests[slot]);
}

static void wait_asleep(MPI_Request *request, MPI_Status *status)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int is_done = 0;

    for (int looks = 0; !is_done; looks++) {
        if (looks >= LOOKS)
            nanosleep(&nap, NULL);
        MPI_Test(request, &is_done, status);
    }
}

void carrier_wait(size_t slot, struct flood_got *got)
{
    MPI_Status status;
    int size;

    if (is_receiver)
        MPI_Wait(&requests[slot], &status);
    else
        wait_asleep(&requests[slot], &status);
    if (got == NULL)
        return;
    MPI_Get_count(&status, MPI_BYTE, &size);
    *got = (struct flood_got){
        .source = status.MPI_SOURCE,
        .tag = status.MPI_TAG,
        .size = (size_t)size,
        .mark = FLOOD_NO_MARK,
    };
}

uint64_t carrier_high_water(void)
{
    return 0;
}

void carrier_close(void)
{
    MPI_Comm_free(&lanes[FENCE_LANE]);
    MPI_Finalize();
    free(requests);
}

int main(int argc, char **argv)
{
    return flood_main(argc, argv);
}
