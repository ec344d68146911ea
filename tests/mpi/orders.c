/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * orders.c - programs whose results depend on the order of messages and on time, for mbx exec --record and --replay.
 *
 * usage: orders fold COUNT         rank 0 computes s = s / 3 + x over receives from any source
 *        orders all SEED ROUNDS    each call whose result is recorded, chosen from the seed
 *        orders one SEED ROUNDS WAY    as all, but each round receives in one way: the number of receive()
 *        orders less SEED ROUNDS   as all, but rank 1 makes one call more in the last round
 *        orders ready COUNT        rank 0 receives from any source, probes and waits for any request when all messages wait
 *        orders spawn COUNT        each rank and CHILDREN processes that all spawn, twice: as fold, over the messages of the others
 *        orders later WAY          rank 0 kills itself while two receives are open.  If ORDERS_LIVES is set, it goes on, and rank 1
 *                                  sends three messages: after the end of the record, or earlier; WAY says by which call the
 *                                  second one is then waited for
 *        orders die COUNT          as fold, and rank 0 polls after COUNT receives and then kills itself, unless
 *                                  ORDERS_LIVES is set
 *
 * Each rank prints `rank R: HASH`, over all that its calls have returned and the data that came.
 */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES_MAX 64
#define LONGEST      80000
#define CHILDREN     3

static const int sizes[] = {0, 8, 100, 5000, LONGEST};

static int rank, ranks;
static uint64_t hash = UINT64_C(0xcbf29ce484222325);
static MPI_Comm
    comms[4]; /* 0: any; 1: cancels; 2: freed receives; 3: probes of what never comes */
static char *buffers[MESSAGES_MAX];
static MPI_Request *sends;
static size_t send_count;

/* ---- random numbers, and the notes of a rank ---- */

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void note(uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        hash = (hash ^ (value & 0xff)) * UINT64_C(0x100000001b3);
}

static void note_message(const MPI_Status *status, const char *buffer)
{
    int count;

    MPI_Get_count(status, MPI_CHAR, &count);
    note((uint64_t)status->MPI_SOURCE << 32 | (uint32_t)status->MPI_TAG);
    note((uint64_t)count);
    for (int i = 0; i < count; i += 997)
        note((unsigned char)buffer[i]);
}

/* Is not received before this call returns. */
static void send_later(int size, int to, int tag, MPI_Comm comm)
{
    char *bytes = malloc((size_t)size + 1);

    for (int i = 0; i < size; i++)
        bytes[i] = (char)(rank * 31 + tag * 7 + (int)send_count + i);
    sends = realloc(sends, (send_count + 1) * sizeof sends[0]);
    MPI_Isend(bytes, size, MPI_CHAR, to, tag, comm, &sends[send_count++]);
}

/* ---- ways to receive so many messages ---- */

static void by_recv(int count)
{
    MPI_Status status;

    for (int i = 0; i < count; i++) {
        MPI_Recv(buffers[0], LONGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &status);
        note_message(&status, buffers[0]);
    }
}

static void by_sendrecv(int count)
{
    MPI_Status status;

    for (int i = 0; i < count; i++) {
        MPI_Sendrecv(NULL, 0, MPI_CHAR, MPI_PROC_NULL, 0, buffers[0], LONGEST, MPI_CHAR,
                     MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &status);
        note_message(&status, buffers[0]);
    }
}

static void post(int count, MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        MPI_Irecv(buffers[i], LONGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0],
                  &requests[i]);
}

static void by_waitany(int count, MPI_Request *requests)
{
    MPI_Status status;
    int which;

    for (int i = 0; i < count; i++) {
        MPI_Waitany(count, requests, &which, &status);
        note((uint64_t)which);
        note_message(&status, buffers[which]);
    }
}

static void by_some(int count, MPI_Request *requests, int is_test)
{
    MPI_Status statuses[MESSAGES_MAX];
    int which[MESSAGES_MAX], found;

    for (int done = 0; done < count;) {
        if (is_test)
            MPI_Testsome(count, requests, &found, which, statuses);
        else
            MPI_Waitsome(count, requests, &found, which, statuses);
        note((uint64_t)found);
        for (int i = 0; i < found; i++) {
            note((uint64_t)which[i]);
            note_message(&statuses[i], buffers[which[i]]);
        }
        done += found;
    }
}

static void by_testany(int count, MPI_Request *requests)
{
    MPI_Status status;
    int which, flag;

    for (int done = 0; done < count; done += flag) {
        MPI_Testany(count, requests, &which, &flag, &status);
        note((uint64_t)flag);
        if (flag)
            note_message(&status, buffers[which]);
    }
}

static void by_testall(int count, MPI_Request *requests)
{
    MPI_Status statuses[MESSAGES_MAX];
    int flag = 0;

    while (!flag) {
        MPI_Testall(count, requests, &flag, statuses);
        note((uint64_t)flag);
    }
    for (int i = 0; i < count; i++)
        note_message(&statuses[i], buffers[i]);
}

static void by_test(int count, MPI_Request *requests)
{
    MPI_Status status;
    int flag, done = 0;

    for (int i = 0; done < count; i = (i + 1) % count) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Test(&requests[i], &flag, &status);
        note((uint64_t)flag);
        if (flag)
            note_message(&status, buffers[i]);
        done += flag;
    }
}

static void by_get_status(int count, MPI_Request *requests)
{
    MPI_Status status;
    int flag, done = 0;

    for (int i = 0; done < count; i = (i + 1) % count) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Request_get_status(requests[i], &flag, &status);
        note((uint64_t)flag);
        if (!flag)
            continue;
        note_message(&status, buffers[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        done++;
    }
}

static void by_probe(int count, int is_blocking)
{
    MPI_Status status;
    int flag, nothing;

    for (int done = 0; done < count; done += flag) {
        flag = 1;
        if (is_blocking)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &status);
        else
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &flag, &status);
        MPI_Iprobe(MPI_ANY_SOURCE, 3, comms[3], &nothing, MPI_STATUS_IGNORE);
        note((uint64_t)flag);
        if (!flag)
            continue;
        MPI_Recv(buffers[0], LONGEST, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, comms[0],
                 &status);
        note_message(&status, buffers[0]);
    }
}

static void by_mprobe(int count, int is_blocking)
{
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int flag;

    for (int done = 0; done < count; done += flag) {
        flag = 1;
        if (is_blocking)
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &message, MPI_STATUS_IGNORE);
        else
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &flag, &message, &status);
        note((uint64_t)flag);
        if (!flag)
            continue;
        MPI_Imrecv(buffers[0], LONGEST, MPI_CHAR, &message, &request);
        MPI_Wait(&request, &status);
        note_message(&status, buffers[0]);
    }
}

static void by_start(int count, int is_twice)
{
    MPI_Request requests[MESSAGES_MAX];
    int first = is_twice ? count / 2 : 0;

    for (int i = 0; i < count - first; i++)
        MPI_Recv_init(buffers[i], LONGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0],
                      &requests[i]);
    MPI_Startall(count - first, requests);
    by_waitany(count - first, requests);
    if (first > 0) {
        MPI_Startall(first, requests);
        by_waitany(first, requests);
    }
    for (int i = 0; i < count - first; i++)
        MPI_Request_free(&requests[i]);
}

static void receive(int way, int count)
{
    MPI_Request requests[MESSAGES_MAX];

    if (count == 0)
        return;
    if (way >= 8)
        post(count, requests);
    switch (way) {
    case 0:
        by_recv(count);
        break;
    case 1:
        by_sendrecv(count);
        break;
    case 2:
        by_probe(count, 0);
        break;
    case 3:
        by_probe(count, 1);
        break;
    case 4:
        by_mprobe(count, 0);
        break;
    case 5:
        by_mprobe(count, 1);
        break;
    case 6:
        by_start(count, 0);
        break;
    case 7:
        by_start(count, 1);
        break;
    case 8:
        by_waitany(count, requests);
        break;
    case 9:
        by_some(count, requests, 0);
        break;
    case 10:
        by_some(count, requests, 1);
        break;
    case 11:
        by_testany(count, requests);
        break;
    case 12:
        by_testall(count, requests);
        break;
    case 13:
        by_test(count, requests);
        break;
    default:
        by_get_status(count, requests);
        break;
    }
}

/* ---- cancels, and receives that are freed ---- */

/* The left neighbour sends a message meanwhile: it comes before the cancel or not. */
static void cancel(int is_exact)
{
    int from = (rank + ranks - 1) % ranks, is_cancelled;
    MPI_Request request, never;
    MPI_Status status;

    send_later(8, (rank + 1) % ranks, 5, comms[1]);
    MPI_Irecv(buffers[0], 8, MPI_CHAR, is_exact ? from : MPI_ANY_SOURCE, 5, comms[1], &request);
    MPI_Irecv(buffers[1], 8, MPI_CHAR, MPI_ANY_SOURCE, 6, comms[1], &never);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &is_cancelled);
    note((uint64_t)is_cancelled);
    if (is_cancelled)
        MPI_Recv(buffers[0], 8, MPI_CHAR, from, 5, comms[1], &status);
    note_message(&status, buffers[0]);
    MPI_Cancel(&never);
    MPI_Wait(&never, MPI_STATUS_IGNORE);
}

static void freed(void)
{
    static char unseen[8];
    MPI_Request request;
    MPI_Status status;

    for (int i = 0; i < 2; i++)
        send_later(8, (rank + 1) % ranks, 7, comms[2]);
    MPI_Irecv(unseen, 8, MPI_CHAR, MPI_ANY_SOURCE, 7, comms[2], &request);
    MPI_Request_free(&request);
    MPI_Recv(buffers[0], 8, MPI_CHAR, MPI_ANY_SOURCE, 7, comms[2], &status);
    note_message(&status, buffers[0]);
}

/* ---- programs ---- */

/* chosen: a way to receive, or -1. */
static void play(uint64_t seed, int rounds, int is_less, int chosen)
{
    uint64_t common = seed, own = seed * 1000 + (uint64_t)rank;

    for (int round = 0; round < rounds; round++) {
        int coming = 0, way = (int)(draw(&own) % 15);

        way = chosen >= 0 ? chosen : way;

        for (int from = 0; from < ranks; from++)
            for (int to = 0; to < ranks; to++)
                for (int left = (int)(draw(&common) % 3); left > 0; left--) {
                    int size = sizes[draw(&common) % 5], tag = (int)(draw(&common) % 3);

                    coming += to == rank;
                    if (from == rank)
                        send_later(size, to, tag, comms[0]);
                }
        if (is_less && rank == 1 && round == rounds - 1) {
            int flag;

            MPI_Iprobe(0, 77, comms[3], &flag, MPI_STATUS_IGNORE);
        }
        receive(way, coming);
        if (draw(&common) % 4 == 0)
            cancel((int)(draw(&common) % 2));
        if (draw(&common) % 4 == 0)
            freed();
    }
    MPI_Waitall((int)send_count, sends, MPI_STATUSES_IGNORE);
    if (is_less) /* mpiexec of Open MPI may crash if a rank aborts while others are in MPI_Finalize */
        MPI_Barrier(MPI_COMM_WORLD);
}

static void fold(int count, int dies)
{
    double s = 0, x = rank;

    for (int i = 0; rank != 0 && i < count; i++)
        MPI_Send(&x, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < count * (ranks - 1); i++) {
        int flag = 1;

        MPI_Recv(&x, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s = s / 3 + x;
        if (dies && i == count)
            for (int polls = 0; flag == 1 || polls < 1000; polls++)
                MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        if (dies && i == count && getenv("ORDERS_LIVES") == NULL)
            kill(getpid(), SIGKILL);
    }
    memcpy(&hash, &s, sizeof hash);
    if (count < 0) /* never; nobody can record it */
        MPI_Compare_and_swap(&x, &x, &x, MPI_DOUBLE, 0, 0, MPI_WIN_NULL);
}

/* In the record the first receive is open when rank 0 is killed, so that the second one, which is as open, may not get a message
 * before it, unless a call waits for the second one while the first is still open. */
static void later(const char *way)
{
    int got[3] = {0}, is_early = getenv("ORDERS_LIVES") != NULL && strcmp(way, "end") != 0,
        x = 0;
    MPI_Request requests[2];

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 && rank == 2; i++)
        MPI_Send(&i, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(&x, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 1; i <= 3 && rank == 1; i++)
        MPI_Send(&i, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, i == 0 ? MPI_ANY_SOURCE : 1, 2, MPI_COMM_WORLD,
                  &requests[i]);
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is_early)
        MPI_Send(&x, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    if (is_early && strcmp(way, "wait") == 0)
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    if (is_early && strcmp(way, "waitall") == 0)
        MPI_Waitall(1, &requests[1], MPI_STATUSES_IGNORE);
    if (is_early && strcmp(way, "recv") == 0)
        MPI_Recv(&got[2], 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (getenv("ORDERS_LIVES") == NULL)
        kill(getpid(), SIGKILL);
    if (!is_early)
        MPI_Send(&x, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (got[2] == 0)
        MPI_Recv(&got[2], 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    hash = (uint64_t)(got[0] << 8 | got[1] << 4 | got[2]);
}

/* Each process of both groups folds what all of the other group send. */
static void fold_across(MPI_Comm others, int count)
{
    int senders, self;
    double x;

    MPI_Comm_rank(others, &self);
    MPI_Comm_remote_size(others, &senders);
    x = self;
    for (int i = 0; i < count; i++)
        for (int to = 0; to < senders; to++)
            MPI_Send(&x, 1, MPI_DOUBLE, to, 2, others);
    for (int i = 0; i < count * senders; i++) {
        MPI_Status status;

        MPI_Recv(&x, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, others, &status);
        note((uint64_t)status.MPI_SOURCE);
    }
    MPI_Comm_disconnect(&others);
}

static void spawn(char *program, char *count)
{
    char name[] = "child", *words[] = {name, count, NULL};
    MPI_Comm children;

    for (int round = 0; round < 2; round++) {
        MPI_Comm_spawn(program, words, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        fold_across(children, atoi(count));
    }
}

static void child(int count)
{
    MPI_Comm parents;

    MPI_Comm_get_parent(&parents);
    fold_across(parents, count);
    printf("child %d: %016llx\n", rank, (unsigned long long)hash);
}

/* Prints the hash of the results noted until now, and begins a new one. */
static void say_part(const char *what)
{
    printf("%s %d: %016llx\n", what, rank, (unsigned long long)hash);
    hash = UINT64_C(0xcbf29ce484222325);
}

/* Tests of requests that are not active are true at once. */
static void expect_no_active(void)
{
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int one, all, any, which, some, indices[2];

    for (int i = 0; i < 100; i++) {
        MPI_Test(&none[0], &one, MPI_STATUS_IGNORE);
        MPI_Testall(2, none, &all, MPI_STATUSES_IGNORE);
        MPI_Testany(2, none, &which, &any, MPI_STATUS_IGNORE);
        MPI_Testsome(2, none, &some, indices, MPI_STATUSES_IGNORE);
        if (!one || !all || !any || which != MPI_UNDEFINED || some != MPI_UNDEFINED) {
            fprintf(stderr, "orders: a test of inactive requests is not true\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/* No order of arrival: who has sent tag 6 has sent the rest before. */
static void ready(int count)
{
    MPI_Request requests[MESSAGES_MAX];
    MPI_Status status;
    int total = count * (ranks - 1), value = rank, which;

    for (int i = 0; rank != 0 && i < 3 * count; i++)
        MPI_Send(&value, 1, MPI_INT, 0, 3 + i / count, comms[0]);
    if (rank != 0)
        MPI_Send(&value, 1, MPI_INT, 0, 6, comms[0]);
    for (int from = 1; rank == 0 && from < ranks; from++)
        MPI_Recv(&value, 1, MPI_INT, from, 6, comms[0], MPI_STATUS_IGNORE);
    for (int i = 0; rank == 0 && i < total; i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, comms[0], &status);
        note((uint64_t)value);
    }
    say_part("received");
    for (int i = 0; rank == 0 && i < total; i++) {
        MPI_Probe(MPI_ANY_SOURCE, 4, comms[0], &status);
        MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, 4, comms[0], &status);
        note((uint64_t)value);
    }
    say_part("probed");
    expect_no_active();
    for (int i = 0; rank == 0 && i < total; i++)
        MPI_Irecv(buffers[i], 1, MPI_INT, 1 + i / count, 5, comms[0], &requests[i]);
    for (int i = 0; rank == 0 && i < total; i++) {
        MPI_Waitany(total, requests, &which, &status);
        note((uint64_t)which);
    }
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < MESSAGES_MAX; i++)
        buffers[i] = malloc(LONGEST);
    for (int i = 0; i < 4; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (strcmp(way, "fold") == 0 || strcmp(way, "die") == 0)
        fold(atoi(argv[2]), strcmp(way, "die") == 0);
    else if (strcmp(way, "later") == 0)
        later(argv[2]);
    else if (strcmp(way, "spawn") == 0)
        spawn(argv[0], argv[2]);
    else if (strcmp(way, "child") == 0)
        child(atoi(argv[2]));
    else if (strcmp(way, "ready") == 0)
        ready(atoi(argv[2]));
    else if (argc == 4 && (strcmp(way, "all") == 0 || strcmp(way, "less") == 0))
        play(strtoull(argv[2], NULL, 10), atoi(argv[3]), strcmp(way, "less") == 0, -1);
    else if (argc == 5 && strcmp(way, "one") == 0)
        play(strtoull(argv[2], NULL, 10), atoi(argv[3]), 0, atoi(argv[4]));
    else if (rank == 0)
        fprintf(stderr, "usage: orders fold COUNT | all SEED ROUNDS | one SEED ROUNDS WAY | "
                        "less SEED ROUNDS | "
                        "ready COUNT | "
                        "spawn COUNT | die COUNT | later WAY\n");
    if (strcmp(way, "child") != 0)
        printf("rank %d: %016llx\n", rank, (unsigned long long)hash);
    MPI_Finalize();
    return 0;
}
