/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck.c - programs that wait for ever, each in its own way, and some that only seem to; for
 * doctor_test.py.
 *
 * usage: stuck PATTERN [SECOND]
 *
 * With SECOND it asks for MPI_THREAD_MULTIPLE, and rank 0 has a second thread:
 *
 *   none                  there is none
 *   joins, waits          it waits for the first one: in pthread_join, at a barrier
 *   sleeps, computes      it never communicates
 *   ends, begins          likewise until SIGUSR1: then it ends, or is in MPI_Recv
 *   has_called, calls_and_waits, receives
 *                         it has communicated, and sleeps, or waits at a barrier; it is in MPI_Recv
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG (1 << 20)

static int rank, size;
static char out[LONG], in[LONG];

static void receive(int from, int tag)
{
    MPI_Recv(in, 4, MPI_CHAR, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void transfer(int to, int tag, int count)
{
    MPI_Send(out, count, MPI_CHAR, to, tag, MPI_COMM_WORLD);
}

/* ---- deadlocks ---- */

static void tag_differs(void)
{
    if (rank == 1)
        transfer(0, 8, 4);
    receive(1 - rank, rank == 0 ? 7 : 9);
}

static void communicator_differs(void)
{
    MPI_Comm halo;

    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (rank == 1)
        MPI_Send(out, 4, MPI_CHAR, 0, 7, halo);
    receive(1 - rank, 7);
}

static void source_and_communicator_differ(void)
{
    MPI_Comm halo;

    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (rank == 1)
        MPI_Send(out, 4, MPI_CHAR, 0, 7, halo);
    receive(rank == 0 ? 2 : 0, 7);
}

static void source_differs(void)
{
    if (rank == 1)
        transfer(0, 7, 4);
    receive(rank == 0 ? 2 : 0, 7);
}

static void head_to_head(void)
{
    transfer(1 - rank, 5, LONG);
    receive(1 - rank, 5);
}

static void both_synchronous(void)
{
    MPI_Ssend(out, 4, MPI_CHAR, 1 - rank, 5, MPI_COMM_WORLD);
}

static void both_receive(void)
{
    receive(1 - rank, 1);
}

static void ring_of_receives(void)
{
    receive((rank + size - 1) % size, 1);
}

static void ring_of_sends(void)
{
    transfer((rank + 1) % size, 1, LONG);
}

static void all_any_source(void)
{
    receive(MPI_ANY_SOURCE, 1);
}

static void receive_from_finalized(void)
{
    if (rank == 0)
        receive(1, 7);
}

static void synchronous_to_finalized(void)
{
    if (rank == 0)
        MPI_Ssend(out, 4, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
}

static void barrier_and_bcast(void)
{
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Bcast(in, 4, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void barrier_and_receive(void)
{
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        receive(0, 7);
}

static void barrier_and_exchange(void)
{
    if (rank == 0) {
        transfer(1, 7, 4);
        receive(1, 8);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* One rank makes a communicator, and the other one receives. */
static void communicator_left_out(void)
{
    int dims[1] = {2}, periods[1] = {1};
    MPI_Comm ring;

    if (rank == 0)
        MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    else
        receive(0, 7);
}

/* The leaders of two groups exchange messages with the program's tag. */
static void leader_left_out(void)
{
    MPI_Comm inter;

    if (rank == 0)
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1, 9, &inter);
    else
        receive(0, 7);
}

static void fence_and_barrier(void)
{
    static int word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0)
        MPI_Win_fence(0, window);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

/* A buffer can be detached only when its messages have been sent. */
static void detach_and_receive(void)
{
    static char buffer[LONG + MPI_BSEND_OVERHEAD];
    void *back;
    int bytes;

    if (rank == 0) {
        MPI_Buffer_attach(buffer, sizeof buffer);
        MPI_Bsend(out, LONG, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        MPI_Buffer_detach(&back, &bytes);
    } else {
        receive(0, 8);
    }
}

static void collective_left_out(void)
{
    int value = 1, sum;

    if (rank != 2)
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void wait_all(void)
{
    MPI_Request requests[3];

    for (int i = 0; i < 3; i++) {
        if (rank == 0)
            MPI_Irecv(in + i, 1, MPI_CHAR, 1, 7 + i, MPI_COMM_WORLD, &requests[i]);
        else if (i < 2)
            transfer(0, 7 + i, 1);
    }
    if (rank == 0)
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    else
        receive(0, 1);
}

static void wait_any(void)
{
    MPI_Request requests[2];
    int which;

    for (int i = 0; i < 2 && rank == 0; i++)
        MPI_Irecv(in + i, 1, MPI_CHAR, 1, 7 + i, MPI_COMM_WORLD, &requests[i]);
    if (rank == 0)
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    else
        receive(0, 1);
}

static void probe_in_vain(void)
{
    MPI_Status status;

    if (rank == 0)
        MPI_Probe(1, 4, MPI_COMM_WORLD, &status);
    else
        receive(0, 1);
}

static void sendrecv_chain(void)
{
    MPI_Sendrecv(out, LONG, MPI_CHAR, (rank + 1) % size, 1, in, LONG, MPI_CHAR,
                 (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_from_itself(void)
{
    receive(rank, 3);
}

static void send_to_itself(void)
{
    transfer(rank, 3, LONG);
}

static void two_cycles(void)
{
    receive(rank ^ 1, 1);
}

static void small_head_to_head(void)
{
    transfer(1 - rank, 5, 4);
    receive(1 - rank, 5);
    if (rank == 0)
        receive(1,
                77); /* so that rank 0 waits on; with MBX_STRICT_SENDS it does not get to it */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void two_communicators(void)
{
    MPI_Comm one, other;

    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_name(one, "one");
    MPI_Comm_set_name(other, "other");
    MPI_Bcast(in, 4, MPI_CHAR, 1 - rank, rank == 0 ? one : other);
}

static void roots_differ(void)
{
    MPI_Bcast(in, 4, MPI_CHAR, 1 - rank, MPI_COMM_WORLD);
}

/* Each rank is a root of its own, and sends more than the other side takes without a receive. */
static void long_roots_differ(void)
{
    static char data[1 << 20];

    MPI_Bcast(data, sizeof data, MPI_CHAR, rank, MPI_COMM_WORLD);
}

static void not_started(void)
{
    MPI_Request request;

    if (rank == 1)
        MPI_Send_init(out, 4, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request);
    receive(1 - rank, 2);
}

static void receive_not_started(void)
{
    MPI_Request request;

    if (rank == 1)
        MPI_Recv_init(in, 4, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    if (rank == 0)
        MPI_Ssend(out, 4, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
    else
        receive(0, 3);
}

/* The request was started once, and is not started again. */
static void started_once(void)
{
    MPI_Request request, others[2];

    if (rank == 1) {
        MPI_Send_init(out, 4, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &others[0]);
        MPI_Send_init(out, 4, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Recv_init(in, 4, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &others[1]);
        MPI_Request_free(&others[1]);
        MPI_Request_free(&others[0]);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        receive(1, 2);
    }
    receive(1 - rank, 2);
}

static void inter_communicator(void)
{
    MPI_Comm inter;

    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 9, &inter);
    MPI_Comm_set_name(inter, "between");
    MPI_Recv(in, 4, MPI_CHAR, 0, 6, inter, MPI_STATUS_IGNORE);
}

static void nonblocking_left_out(void)
{
    MPI_Request request;

    if (rank == 1)
        receive(0, 1);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Each rank begins a broadcast with another root. */
static void nonblocking_roots_differ(void)
{
    MPI_Request request;

    MPI_Ibcast(in, 4, MPI_CHAR, 1 - rank, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The first collectives differ, and one rank has begun a second one. */
static void nonblocking_differ(void)
{
    MPI_Request requests[2];

    if (rank == 0)
        MPI_Ibcast(in, 4, MPI_CHAR, 1, MPI_COMM_WORLD, &requests[0]);
    else
        MPI_Ireduce(out, in, 4, MPI_CHAR, MPI_MAX, 1, MPI_COMM_WORLD, &requests[0]);
    if (rank == 1)
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

/* Each rank takes the next one as the root. */
static void all_roots_differ(void)
{
    MPI_Bcast(in, 4, MPI_CHAR, (rank + 1) % size, MPI_COMM_WORLD);
}

/* Each communicator counts its nonblocking collectives; making one has used some of MPI_COMM_WORLD. */
static void nonblocking_elsewhere(void)
{
    MPI_Request request;
    MPI_Comm halo;

    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Ialltoall(out, 1, MPI_CHAR, in, 1, MPI_CHAR, rank == 0 ? halo : MPI_COMM_WORLD,
                  &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The first receive takes the message for which the second one is posted. */
static void wildcard_took_it(void)
{
    if (rank == 2)
        transfer(0, 3, 4);
    if (rank == 0) {
        receive(MPI_ANY_SOURCE, 3);
        transfer(1, 4, 4);
        receive(2, 3);
    }
    if (rank == 1) {
        receive(0, 4);
        transfer(0, 3, 4);
    }
    receive(0, 9);
}

static void probed_and_not_received(void)
{
    MPI_Message message;
    MPI_Status status;

    if (rank == 0)
        MPI_Ssend(out, 4, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
    MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, &status);
    receive(0, 5);
}

/* Rank 1 waits for 0, and 2 computes. */
static void wait_for_both(int all)
{
    MPI_Request requests[2];
    volatile double x = 1;
    int which;

    if (rank == 1)
        receive(0, 1);
    while (rank == 2)
        x = x * 1.0000001 + 1;
    for (int i = 0; i < 2; i++)
        MPI_Irecv(in + i, 1, MPI_CHAR, 1 + i, 7, MPI_COMM_WORLD, &requests[i]);
    if (all)
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    else
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
}

/* Sends more messages than rank 0 keeps from one peer, and then the one that 0 waits for. */
static void beyond_the_window(void)
{
    for (int i = 0; i < 200000 && rank == 1; i++)
        transfer(0, 8, 4);
    if (rank == 1)
        transfer(0, 7, 4);
    receive(1 - rank, 7);
}

static void wait_all_beside(void)
{
    wait_for_both(1);
}

/* ---- no deadlocks ---- */

static void wait_any_beside(void)
{
    wait_for_both(0);
}

/* Rank 0 does not wait for the message that cannot come. */
static void receive_beside(void)
{
    volatile double x = 1;
    MPI_Request request;

    if (rank == 1)
        receive(0, 1);
    while (rank == 2)
        x = x * 1.0000001 + 1;
    MPI_Irecv(in, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    receive(2, 7);
}

static void late_receiver(void)
{
    if (rank == 1)
        transfer(0, 5, LONG);
    pause();
}

static void flood(void)
{
    for (int i = 0; i < 2000 && rank == 1; i++)
        transfer(0, 8, 4);
    while (rank == 0) {
        int flag;

        MPI_Iprobe(1, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    pause();
}

/* Rank 0 has received long messages, and waits. */
static void attach_forbidden(void)
{
    for (int i = 0; i < 3; i++)
        if (rank == 1)
            transfer(0, 5, LONG);
        else
            MPI_Recv(in, LONG, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        pause();
    receive(1, 7);
}

static void stopped(void)
{
    if (rank == 1)
        raise(SIGSTOP);
    receive(1, 7);
}

static void reads_a_file(void)
{
    int ends[2];

    if (rank == 1 && pipe(ends) == 0 && read(ends[0], in, 1) == 1)
        transfer(0, 7, 4);
    receive(1, 7);
}

static void leaves(void)
{
    MPI_Request request;

    for (int i = 0; i < 3 && rank == 1; i++)
        transfer(0, 8, 4);
    if (rank == 0)
        MPI_Irecv(in, 4, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 1 waits for a lock that 0 has, which waits for a message from 1. */
static void lock_and_receive(void)
{
    static int word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        receive(1, 1);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Put(in, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, window);
    MPI_Win_unlock(0, window);
    transfer(0, 1, 4);
}

static void killed(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2)
        raise(SIGKILL);
    receive(2, 7);
}

static void crowd(void)
{
    int flag;

    for (;;)
        MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* Rank 1 stops before MPI_Init. */
static void late_to_init(void)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");

    if (number == NULL)
        number = getenv("PMI_RANK");
    if (number != NULL && strcmp(number, "1") == 0)
        pause();
}

/* A job and the job that it has spawned wait for each other; neither sends. */
static void spawner(void)
{
    static char program[4096], pattern[] = "spawner", *arguments[] = {pattern, NULL};
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    MPI_Comm between;

    MPI_Comm_get_parent(&between);
    if (between == MPI_COMM_NULL && length > 0)
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                       MPI_ERRCODES_IGNORE);
    MPI_Recv(in, 4, MPI_CHAR, 0, 7, between, MPI_STATUS_IGNORE);
}

/* A job waits for any process of the job that it has spawned, and one of these computes. */
static void spawner_of_one_that_computes(void)
{
    static char program[4096], pattern[] = "spawner_of_one_that_computes",
                               *arguments[] = {pattern, NULL};
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    MPI_Comm between;

    MPI_Comm_get_parent(&between);
    if (between != MPI_COMM_NULL)
        for (volatile unsigned long rounds = 0;; rounds = rounds + 1)
            ;
    if (length > 0)
        MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                       MPI_ERRCODES_IGNORE);
    MPI_Recv(in, 4, MPI_CHAR, MPI_ANY_SOURCE, 7, between, MPI_STATUS_IGNORE);
}

static void late_sender(void)
{
    if (rank == 0)
        receive(1, 7);
    else
        pause();
}

static void woken(int number)
{
    (void)number;
}

/* A deadlock that begins when rank 1 gets SIGUSR1. */
static void late_deadlock(void)
{
    if (rank == 1) {
        signal(SIGUSR1, woken);
        printf("process %ld sleeps\n", (long)getpid());
        fflush(stdout);
        pause();
    }
    receive(1 - rank, 7);
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    (void)status;
    return MPI_SUCCESS;
}

static int forget(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int is_complete)
{
    (void)extra;
    (void)is_complete;
    return MPI_SUCCESS;
}

/* Rank 0 waits for something that is no message, and has posted a receive; requests[1] is the receive. */
static void begin_both(MPI_Request requests[2])
{
    MPI_Grequest_start(query, forget, no_cancel, NULL, &requests[0]);
    MPI_Irecv(in, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &requests[1]);
}

static void wait_for_no_message(void)
{
    MPI_Request requests[2];

    if (rank == 1)
        receive(0, 1);
    begin_both(requests);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void wait_for_any_or_no_message(void)
{
    MPI_Request requests[2];
    int which;

    if (rank == 1)
        receive(0, 1);
    begin_both(requests);
    MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
}

static void computing_master(void)
{
    volatile double x = 1;

    if (rank != 0)
        receive(MPI_ANY_SOURCE, 1);
    while (rank == 0)
        x = x * 1.0000001 + 1;
}

static void polling(void)
{
    MPI_Status status;
    int flag = 0;

    if (rank != 0)
        receive(0, 7);
    while (!flag)
        MPI_Iprobe(1, 7, MPI_COMM_WORLD, &flag, &status);
}

static void testing(void)
{
    MPI_Request request;
    int flag = 0;

    if (rank != 0)
        receive(0, 7);
    MPI_Irecv(in, 4, MPI_CHAR, 1, 9, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

/* Each rank polls for a message of the other one, by two calls in turn. */
static void both_poll(void)
{
    MPI_Request request;
    int flag = 0;

    MPI_Irecv(in, 4, MPI_CHAR, 1 - rank, 9, MPI_COMM_WORLD, &request);
    while (!flag) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            MPI_Iprobe(1 - rank, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

static void poll_for_finalized(void)
{
    int flag = rank;

    while (!flag)
        MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void poll_and_compute(void)
{
    volatile double x = 1;

    while (rank == 1)
        x = x * 1.0000001 + 1;
    polling();
}

static void testing_a_window(void)
{
    int flag = 0, other = 1 - rank;
    MPI_Group world, origins;
    static int word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank != 0)
        receive(0, 7);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &other, &origins);
    MPI_Win_post(origins, 0, window);
    while (!flag)
        MPI_Win_test(window, &flag);
}

static void running_ring(void)
{
    for (;;)
        MPI_Sendrecv(out, 4, MPI_CHAR, (rank + 1) % size, 1, in, 4, MPI_CHAR,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void running_collectives(void)
{
    int value = 1, sum;

    for (;;)
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void running_fences(void)
{
    static int word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (;;) {
        MPI_Win_fence(0, window);
        MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    }
}

/* The last rank computes, and the others wait for it, again and again. */
static void imbalance(void)
{
    volatile double x = 1;
    int value = 1, sum;

    for (;;) {
        double end = MPI_Wtime() + 0.2;

        while (rank == size - 1 && MPI_Wtime() < end)
            x = x * 1.0000001 + 1;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void late_at_barrier(void)
{
    if (rank == 0)
        pause();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- a second thread ---- */

static pthread_t first;
static pthread_barrier_t both;

static volatile sig_atomic_t is_woken;

static void wake(int number)
{
    (void)number;
    is_woken = 1;
}

/* Sleeps until the process gets SIGUSR1, whichever thread the kernel gives it to. */
static void sleep_until_woken(void)
{
    signal(SIGUSR1, wake);
    printf("process %ld sleeps\n", (long)getpid());
    fflush(stdout);
    while (!is_woken)
        usleep(100000);
}

static void *second(void *arg)
{
    const char *what = arg;
    char byte;
    int flag;

    if (strcmp(what, "joins") == 0)
        pthread_join(first, NULL);
    if (strcmp(what, "has_called") == 0 || strcmp(what, "calls_and_waits") == 0)
        MPI_Iprobe(0, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    if (strcmp(what, "waits") == 0 || strcmp(what, "calls_and_waits") == 0)
        pthread_barrier_wait(&both);
    if (strcmp(what, "ends") == 0 || strcmp(what, "begins") == 0)
        sleep_until_woken();
    if (strcmp(what, "ends") == 0)
        return NULL;
    if (strcmp(what, "receives") == 0 || strcmp(what, "begins") == 0)
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 99, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    while (strcmp(what, "computes") == 0)
        ;
    for (;;)
        sleep(3600);
    return NULL;
}

static void begin_second(char *what)
{
    pthread_t thread;

    first = pthread_self();
    pthread_barrier_init(&both, NULL, 2);
    if (rank == 0 && strcmp(what, "none") != 0)
        pthread_create(&thread, NULL, second, what);
}

static const struct {
    const char *name;
    void (*run)(void);
} patterns[] = {
    {"tag_differs", tag_differs},
    {"communicator_differs", communicator_differs},
    {"source_and_communicator_differ", source_and_communicator_differ},
    {"source_differs", source_differs},
    {"head_to_head", head_to_head},
    {"both_synchronous", both_synchronous},
    {"both_receive", both_receive},
    {"ring_of_receives", ring_of_receives},
    {"ring_of_sends", ring_of_sends},
    {"all_any_source", all_any_source},
    {"receive_from_finalized", receive_from_finalized},
    {"synchronous_to_finalized", synchronous_to_finalized},
    {"barrier_and_bcast", barrier_and_bcast},
    {"barrier_and_receive", barrier_and_receive},
    {"barrier_and_exchange", barrier_and_exchange},
    {"communicator_left_out", communicator_left_out},
    {"leader_left_out", leader_left_out},
    {"fence_and_barrier", fence_and_barrier},
    {"detach_and_receive", detach_and_receive},
    {"collective_left_out", collective_left_out},
    {"wait_all", wait_all},
    {"wait_any", wait_any},
    {"probe_in_vain", probe_in_vain},
    {"sendrecv_chain", sendrecv_chain},
    {"receive_from_itself", receive_from_itself},
    {"send_to_itself", send_to_itself},
    {"two_cycles", two_cycles},
    {"small_head_to_head", small_head_to_head},
    {"two_communicators", two_communicators},
    {"roots_differ", roots_differ},
    {"long_roots_differ", long_roots_differ},
    {"nonblocking_roots_differ", nonblocking_roots_differ},
    {"nonblocking_differ", nonblocking_differ},
    {"all_roots_differ", all_roots_differ},
    {"not_started", not_started},
    {"receive_not_started", receive_not_started},
    {"started_once", started_once},
    {"inter_communicator", inter_communicator},
    {"nonblocking_left_out", nonblocking_left_out},
    {"nonblocking_elsewhere", nonblocking_elsewhere},
    {"wildcard_took_it", wildcard_took_it},
    {"probed_and_not_received", probed_and_not_received},
    {"beyond_the_window", beyond_the_window},
    {"wait_all_beside", wait_all_beside},
    {"wait_any_beside", wait_any_beside},
    {"receive_beside", receive_beside},
    {"late_receiver", late_receiver},
    {"flood", flood},
    {"attach_forbidden", attach_forbidden},
    {"stopped", stopped},
    {"reads_a_file", reads_a_file},
    {"leaves", leaves},
    {"lock_and_receive", lock_and_receive},
    {"killed", killed},
    {"crowd", crowd},
    {"spawner", spawner},
    {"spawner_of_one_that_computes", spawner_of_one_that_computes},
    {"late_sender", late_sender},
    {"late_deadlock", late_deadlock},
    {"wait_for_no_message", wait_for_no_message},
    {"wait_for_any_or_no_message", wait_for_any_or_no_message},
    {"computing_master", computing_master},
    {"polling", polling},
    {"testing", testing},
    {"both_poll", both_poll},
    {"poll_for_finalized", poll_for_finalized},
    {"poll_and_compute", poll_and_compute},
    {"testing_a_window", testing_a_window},
    {"running_ring", running_ring},
    {"running_collectives", running_collectives},
    {"running_fences", running_fences},
    {"imbalance", imbalance},
    {"late_at_barrier", late_at_barrier},
};

int main(int argc, char **argv)
{
    int level;

    if (argc == 2 && strcmp(argv[1], "late_to_init") == 0)
        late_to_init();
    if (argc == 3)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 3)
        begin_second(argv[2]);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (argc >= 2 && strcmp(argv[1], patterns[i].name) == 0)
            patterns[i].run();
    MPI_Finalize();
    return 0;
}
