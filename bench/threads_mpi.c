/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how many messages do two threads of one rank exchange on one communicator, compared with one
 *            thread?
 * Method     a round is {MPI_Irecv, MPI_Send, MPI_Wait} of 8 bytes to oneself, and the content is checked.  Each
 *            thread has its own tag.
 *            owner     one thread, before any other has called
 *            one       one thread, later
 *            together  two threads at the same time, each on its own core
 *            one and together take turns of 30 ms.  The ratio is the median over the pairs of turns.
 *            waiting   the round of one thread while another one waits in MPI_Recv
 *            With "alone" the threads have real-time priority 20, so that other programs do not interrupt them: for a
 *            machine that others use.
 *
 * usage: [mpiexec -n 1] threads_mpi LABEL [alone]
 *
 *   bench=threads_mpi label=pml owner_ns=55.0 one_ns=120.1 together_ns=140.2 ratio=0.86 waiting_ns=300.0 (one line)
 */
#define _GNU_SOURCE
#include <mpi.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS  2
#define PAIRS    11
#define SLICE_NS 30000000
#define ROUNDS   200
#define SLICES   200
#define TAG_LAST 99
#define PRIORITY 20 /* of the threads that are measured; main() has a higher one */

static const char usage[] = "usage: threads_mpi LABEL [alone]";

static struct {
    _Atomic int ready;
    _Atomic bool has_begun, is_over;
    bool is_alone;
    long rounds[THREADS];
} run;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void require(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "threads_mpi: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void prioritize(int priority)
{
    struct sched_param param = {.sched_priority = priority};

    if (run.is_alone)
        require(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0,
                "alone: no permission for real-time priority");
}

/* Binds the thread to the nth processor that we may use, if there are so many. */
static void pin(int nth)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    require(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && nth-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) != 0)
        (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void round_trip(int tag, long number)
{
    long in = -1, out = number;
    MPI_Request request;

    MPI_Irecv(&in, sizeof in, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
    MPI_Send(&out, sizeof out, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    require(in == number, "a message has the wrong content");
}

static void *work(void *arg)
{
    int me = *(int *)arg;
    long rounds = 0; /* no line that threads share */

    pin(me);
    prioritize(PRIORITY);
    atomic_fetch_add(&run.ready, 1);
    while (!run.has_begun)
        ;
    for (; !run.is_over; rounds++)
        round_trip(me, rounds);
    run.rounds[me] = rounds;
    return NULL;
}

/* Nanoseconds for each round of so many threads together. */
static double turn(int threads)
{
    const struct timespec slice = {.tv_nsec = SLICE_NS}, moment = {.tv_nsec = 100000};
    int numbers[THREADS] = {0, 1};
    pthread_t thread[THREADS];
    double begin_ns, end_ns;
    long rounds = 0;

    run.ready = 0;
    run.has_begun = run.is_over = false;
    for (int i = 0; i < threads; i++)
        require(pthread_create(&thread[i], NULL, work, &numbers[i]) == 0, "pthread_create");
    while (run.ready < threads)
        nanosleep(&moment, NULL);
    begin_ns = now_ns();
    run.has_begun = true;
    nanosleep(&slice, NULL);
    run.is_over = true;
    end_ns = now_ns();
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        rounds += run.rounds[i];
    }
    return (end_ns - begin_ns) / (double)(rounds > 0 ? rounds : 1);
}

static void *wait_for_last(void *arg)
{
    long in;

    (void)arg;
    pin(0);
    prioritize(PRIORITY);
    MPI_Recv(&in, sizeof in, MPI_BYTE, 0, TAG_LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void *measure_waiting(void *result)
{
    double slices[SLICES];

    pin(1);
    prioritize(PRIORITY);
    for (int s = 0; s < SLICES; s++) {
        double begin_ns = now_ns();

        for (int i = 0; i < ROUNDS; i++)
            round_trip(1, i);
        slices[s] = (now_ns() - begin_ns) / ROUNDS;
    }
    *(double *)result = median(slices, SLICES);
    return NULL;
}

/* A round of one thread while another one waits. */
static double next_to_a_wait(void)
{
    pthread_t waiting, measured;
    double result = 0;
    long last = 0;

    require(pthread_create(&waiting, NULL, wait_for_last, NULL) == 0, "pthread_create");
    require(pthread_create(&measured, NULL, measure_waiting, &result) == 0, "pthread_create");
    pthread_join(measured, NULL);
    MPI_Send(&last, sizeof last, MPI_BYTE, 0, TAG_LAST, MPI_COMM_WORLD);
    pthread_join(waiting, NULL);
    return result;
}

int main(int argc, char **argv)
{
    double owner_ns, waiting_ns, one[PAIRS], together[PAIRS], ratio[PAIRS];
    int provided;

    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "alone") != 0)) {
        fprintf(stderr, "%s\n", usage);
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    require(provided == MPI_THREAD_MULTIPLE, "this MPI has no MPI_THREAD_MULTIPLE");
    run.is_alone = argc == 3;
    require(!run.is_alone || sysconf(_SC_NPROCESSORS_ONLN) > 1, "alone: needs two cores");
    prioritize(PRIORITY + 1);
    owner_ns = turn(1);
    (void)turn(THREADS);
    for (int i = 0; i < PAIRS; i++) {
        one[i] = turn(1);
        together[i] = turn(THREADS);
        ratio[i] = one[i] / together[i];
    }
    waiting_ns = next_to_a_wait();
    printf("bench=threads_mpi label=%s owner_ns=%.1f one_ns=%.1f together_ns=%.1f ratio=%.2f "
           "waiting_ns=%.1f\n",
           argv[1], owner_ns, median(one, PAIRS), median(together, PAIRS), median(ratio, PAIRS),
           waiting_ns);
    MPI_Finalize();
    return 0;
}
