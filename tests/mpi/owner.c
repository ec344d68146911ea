/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owner.c - MPI_THREAD_MULTIPLE: a second thread of each rank makes its first call at a random
 * moment of the first one's calls, and both go on.
 *
 *   owner SEED
 *
 * In the middle, the first thread waits for a message of a second thread: of its own rank for an
 * even seed, which cannot send it while the first one keeps others out; otherwise of its
 * neighbour.  The seed chooses the call in which it waits.
 */
#include "check.h"

#include <pthread.h>

#define STEPS   150
#define WINDOW  8
#define KINDS   10
#define WAITS   9
#define SPINS   400000
#define TAG     10
#define WAKE    99
#define LARGE   70000
#define PERSIST 3

static int left, right;
static uint64_t seed;

/* The state of a thread; `random` is the same in all ranks, as all must do the same. */
struct worker {
    MPI_Comm comm;
    uint64_t random;
    unsigned id;
};

static unsigned mark_of(const struct worker *w, int who, int step, int i)
{
    return w->id * 7919 + (unsigned)who * 1009 + (unsigned)step * 31 + (unsigned)i;
}

static void check_bytes(const struct worker *w, const void *in, size_t size, int step, int i)
{
    CHECK_EQUAL(pattern_end(in, size, mark_of(w, left, step, i)), size);
}

/* ---- exchanges with the neighbours ---- */

static void in_a_window(const struct worker *w, int step)
{
    unsigned char in[WINDOW][64], out[WINDOW][64];
    MPI_Request requests[2 * WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(out[i], sizeof out[i], mark_of(w, rank, step, i));
        MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, i % 2 == 0 ? left : MPI_ANY_SOURCE, TAG + i,
                  w->comm, &requests[i]);
        MPI_Isend(out[i], sizeof out[i], MPI_BYTE, right, TAG + i, w->comm,
                  &requests[WINDOW + i]);
    }
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; i++)
        check_bytes(w, in[i], sizeof in[i], step, i);
}

static void large(const struct worker *w, int step)
{
    unsigned char *in = malloc(LARGE), *out = malloc(LARGE);

    pattern_fill(out, LARGE, mark_of(w, rank, step, 0));
    MPI_Sendrecv(out, LARGE, MPI_BYTE, right, TAG, in, LARGE, MPI_BYTE, left, TAG, w->comm,
                 MPI_STATUS_IGNORE);
    check_bytes(w, in, LARGE, step, 0);
    free(out);
    free(in);
}

static void probed(const struct worker *w, int step, bool is_matched)
{
    unsigned char in[64], out[64];
    MPI_Request send;
    MPI_Message message;
    MPI_Status status;

    pattern_fill(out, sizeof out, mark_of(w, rank, step, 0));
    MPI_Issend(out, sizeof out, MPI_BYTE, right, TAG, w->comm, &send);
    if (is_matched) {
        MPI_Mprobe(MPI_ANY_SOURCE, TAG, w->comm, &message, &status);
        MPI_Mrecv(in, sizeof in, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(MPI_ANY_SOURCE, TAG, w->comm, &status);
        MPI_Recv(in, sizeof in, MPI_BYTE, status.MPI_SOURCE, TAG, w->comm, MPI_STATUS_IGNORE);
    }
    CHECK_EQUAL(status.MPI_SOURCE, left);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    check_bytes(w, in, sizeof in, step, 0);
}

static void persistent(const struct worker *w, int step)
{
    unsigned char in[64], out[64];
    MPI_Request requests[2];

    MPI_Recv_init(in, sizeof in, MPI_BYTE, left, TAG, w->comm, &requests[0]);
    MPI_Send_init(out, sizeof out, MPI_BYTE, right, TAG, w->comm, &requests[1]);
    for (int i = 0; i < PERSIST; i++) {
        pattern_fill(out, sizeof out, mark_of(w, rank, step, i));
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check_bytes(w, in, sizeof in, step, i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void tested(const struct worker *w, int step)
{
    unsigned char in[64], out[64];
    MPI_Request request;
    int done = 0;

    pattern_fill(out, sizeof out, mark_of(w, rank, step, 0));
    MPI_Irecv(in, sizeof in, MPI_BYTE, left, TAG, w->comm, &request);
    MPI_Send(out, sizeof out, MPI_BYTE, right, TAG, w->comm);
    while (!done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    check_bytes(w, in, sizeof in, step, 0);
}

static void one_by_one(const struct worker *w, int step)
{
    unsigned char in[WINDOW][64], out[WINDOW][64];
    MPI_Request requests[WINDOW];
    int which;

    for (int i = 0; i < WINDOW; i++)
        MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, left, TAG + i, w->comm, &requests[i]);
    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(out[i], sizeof out[i], mark_of(w, rank, step, i));
        MPI_Send(out[i], sizeof out[i], MPI_BYTE, right, TAG + i, w->comm);
    }
    for (int i = 0; i < WINDOW; i++) {
        MPI_Waitany(WINDOW, requests, &which, MPI_STATUS_IGNORE);
        check_bytes(w, in[which], sizeof in[which], step, which);
    }
}

static void reduced(const struct worker *w, int step)
{
    int in = rank + step, out = 0;

    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, w->comm);
    CHECK_EQUAL(out, ranks * (ranks - 1) / 2 + ranks * step);
}

static void to_oneself(const struct worker *w, int step)
{
    int in = -1, out = step;
    MPI_Request request;

    MPI_Irecv(&in, 1, MPI_INT, rank, TAG, w->comm, &request);
    MPI_Send(&out, 1, MPI_INT, rank, TAG, w->comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in, step);
}

/* Frees a communicator that open requests still use. */
static void on_a_copy(const struct worker *w, int step)
{
    unsigned char in[64], out[64];
    MPI_Request requests[2];
    MPI_Comm copy;

    MPI_Comm_dup(w->comm, &copy);
    pattern_fill(out, sizeof out, mark_of(w, rank, step, 0));
    MPI_Irecv(in, sizeof in, MPI_BYTE, left, TAG, copy, &requests[0]);
    MPI_Issend(out, sizeof out, MPI_BYTE, right, TAG, copy, &requests[1]);
    MPI_Comm_free(&copy);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check_bytes(w, in, sizeof in, step, 0);
}

static void work(struct worker *w, int first, int last)
{
    for (int step = first; step < last; step++) {
        switch (next_random(&w->random) % KINDS) {
        case 0:
        case 1:
            in_a_window(w, step);
            break;
        case 2:
            large(w, step);
            break;
        case 3:
            probed(w, step, false);
            break;
        case 4:
            probed(w, step, true);
            break;
        case 5:
            persistent(w, step);
            break;
        case 6:
            tested(w, step);
            break;
        case 7:
            one_by_one(w, step);
            break;
        case 8:
            w->id == 1 && step % 4 == 0 ? on_a_copy(w, step) : reduced(w, step);
            break;
        default:
            to_oneself(w, step);
            break;
        }
    }
}

/* ---- the message between the threads ---- */

static int wake_to(void)
{
    return seed % 2 == 0 ? rank : right;
}

static int wake_from(void)
{
    return seed % 2 == 0 ? rank : left;
}

/* Waits for the message of a second thread in one of several calls. */
static void wait_for_wake(MPI_Comm comm)
{
    int in[2] = {-1, -1}, from = wake_from(), found = 0, which;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message;
    unsigned kind = (unsigned)(seed / 2) % WAITS;

    if (kind >= 4)
        MPI_Irecv(&in[0], 1, MPI_INT, from, WAKE, comm, &requests[0]);
    switch (kind) {
    case 0:
        MPI_Recv(&in[0], 1, MPI_INT, from, WAKE, comm, MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Probe(from, WAKE, comm, MPI_STATUS_IGNORE);
        MPI_Recv(&in[0], 1, MPI_INT, from, WAKE, comm, MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Mprobe(from, WAKE, comm, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&in[0], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        break;
    case 3:
        while (!found)
            MPI_Iprobe(from, WAKE, comm, &found, MPI_STATUS_IGNORE);
        MPI_Recv(&in[0], 1, MPI_INT, from, WAKE, comm, MPI_STATUS_IGNORE);
        break;
    case 4:
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 5:
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        break;
    case 6:
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
        break;
    case 7:
        while (!found)
            MPI_Testall(2, requests, &found, MPI_STATUSES_IGNORE);
        break;
    default:
        MPI_Waitsome(2, requests, &found, &which, MPI_STATUSES_IGNORE);
        break;
    }
    CHECK_EQUAL(in[0], from + 7);
}

static void *second_thread(void *arg)
{
    struct worker *w = arg;
    uint64_t mine = seed * 1000 + (uint64_t)rank;
    int out = rank + 7;

    next_random(&mine);
    for (volatile unsigned i = next_random(&mine) % SPINS; i > 0; i--)
        ;
    MPI_Send(&out, 1, MPI_INT, wake_to(), WAKE, w->comm);
    work(w, 0, STEPS / 3);
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker first = {.id = 1}, second = {.id = 2};
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    first.random = seed;
    second.random = seed + 77;
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &first.comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &second.comm);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_create(&thread, NULL, second_thread, &second);
    work(&first, 0, STEPS / 2);
    wait_for_wake(second.comm);
    work(&first, STEPS / 2, STEPS);
    pthread_join(thread, NULL);
    MPI_Comm_free(&first.comm);
    MPI_Comm_free(&second.comm);
    return finish("owner");
}
