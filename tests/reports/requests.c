/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests.c - requests that are freed, persistent, to oneself or buffered; order, tags and types.
 */
#include "report.h"

#define MANY 50

static char out[LONG], in[LONG];

/* 3.7.3: a send whose request is freed at once is still performed, and the next one has its own
 * data. */
static void freed_sends(void)
{
    static int words[MANY];
    MPI_Request request;
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, got;

    for (int i = 0; i < MANY; i++) {
        words[i] = 1000 * rank + i;
        MPI_Isend(&words[i], 1, MPI_INT, to, 0, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        EXPECT(request == MPI_REQUEST_NULL);
    }
    for (int i = 0; i < MANY; i++) {
        MPI_Recv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(got, 1000 * from + i);
    }
}

/* 3.9: persistent requests that are made and freed repeatedly, as PETSc does, in any order; the
 * handle does not change in between. */
static void persistent_rounds(void)
{
    enum { PAIRS = 4 };
    MPI_Request request[2 * PAIRS], before[2 * PAIRS];
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int sent[PAIRS], got[PAIRS];

    for (int life = 0; life < 10; life++) {
        for (int i = 0; i < PAIRS; i++) {
            MPI_Recv_init(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &request[i]);
            MPI_Send_init(&sent[i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &request[PAIRS + i]);
        }
        memcpy(before, request, sizeof before);
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < PAIRS; i++) {
                sent[i] = rank + 10 * i + 100 * round;
                got[i] = -1;
            }
            if (round % 2 == 0)
                MPI_Startall(2 * PAIRS, request);
            for (int i = 2 * PAIRS; i-- > 0 && round % 2 != 0;)
                MPI_Start(&request[i]);
            MPI_Waitall(2 * PAIRS, request, MPI_STATUSES_IGNORE);
            for (int i = 0; i < PAIRS; i++)
                EXPECT_EQUAL(got[i], from + 10 * i + 100 * round);
        }
        EXPECT(memcmp(before, request, sizeof before) == 0);
        for (int i = 0; i < 2 * PAIRS; i++)
            MPI_Request_free(&request[i]);
    }
}

/* 3.7.5: MPI_Waitany returns the index of the request that has ended, among null and inactive
 * ones. */
static void waitany_says_the_place(void)
{
    MPI_Request request[8];
    int word = 5, got = 0, index;

    for (int place = 0; place < 8; place++) {
        for (int i = 0; i < 8; i++)
            request[i] = MPI_REQUEST_NULL;
        MPI_Recv_init(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request[(place + 3) % 8]);
        MPI_Irecv(&got, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &request[place]);
        MPI_Send(&word, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
        MPI_Waitany(8, request, &index, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(index, place);
        EXPECT(request[place] == MPI_REQUEST_NULL);
        MPI_Waitany(8, request, &index, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(index, MPI_UNDEFINED);
        MPI_Request_free(&request[(place + 3) % 8]);
    }
}

/* 3.6: the buffer of a buffered send may be changed as soon as the call returns. */
static void buffered_data_is_kept(void)
{
    enum { SENDS = 12 };
    static const int sizes[] = {1, 600, 5000, 40000};
    int capacity = SENDS * (40000 + MPI_BSEND_OVERHEAD);
    void *buffer = malloc((size_t)capacity);
    MPI_Request request;
    MPI_Status status;

    if (rank == 0) {
        MPI_Buffer_attach(buffer, capacity);
        for (int i = 0; i < SENDS; i++) {
            int size = sizes[i % 4];

            pattern_fill(out, (size_t)size, (unsigned)i);
            if (i % 3 == 0) {
                MPI_Bsend(out, size, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
            } else {
                if (i % 3 == 1) {
                    MPI_Ibsend(out, size, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request);
                } else {
                    MPI_Bsend_init(out, size, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request);
                    MPI_Start(&request);
                }
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                if (i % 3 == 2)
                    MPI_Request_free(&request);
            }
            memset(out, 0xee, sizeof out);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SENDS && rank == 1; i++) {
        MPI_Recv(in, LONG, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &status);
        expect_message(&status, 0, 4, in, sizes[i % 4], (unsigned)i);
    }
    if (rank == 0) {
        MPI_Buffer_detach(&buffer, &capacity);
        EXPECT_EQUAL(capacity, SENDS * (40000 + MPI_BSEND_OVERHEAD));
    }
    free(buffer);
}

/* 3.6: a buffer is detached when its messages have left it, and may then be attached again. */
static void buffer_comes_back(void)
{
    int size = 100, capacity = 4 * (size + MPI_BSEND_OVERHEAD);
    void *buffer = malloc((size_t)capacity);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Status status;

    for (int round = 0; round < 20; round++) {
        pattern_fill(out, (size_t)size, (unsigned)(rank + round));
        MPI_Buffer_attach(buffer, capacity);
        for (int i = 0; i < 4; i++)
            MPI_Bsend(out, size, MPI_BYTE, to, i, MPI_COMM_WORLD);
        for (int i = 4; i-- > 0;) {
            MPI_Recv(in, size, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
            expect_message(&status, from, i, in, size, (unsigned)(from + round));
        }
        MPI_Buffer_detach(&buffer, &capacity);
        EXPECT_EQUAL(capacity, 4 * (size + MPI_BSEND_OVERHEAD));
    }
    free(buffer);
}

/* 3.4: synchronous sends to oneself end when their receives match, by MPI_Testall alone. */
static void synchronous_sends_to_oneself(void)
{
    MPI_Request request[10];
    int done = 0, got = -1;
    static int words[10];

    for (int i = 0; i < 10; i++) {
        words[i] = i;
        MPI_Issend(&words[i], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Testall(10, request, &done, MPI_STATUSES_IGNORE);
    EXPECT_EQUAL(done, 0);
    for (int i = 0; i < 10; i++) {
        MPI_Recv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQUAL(got, i);
    }
    while (!done)
        MPI_Testall(10, request, &done, MPI_STATUSES_IGNORE);
}

/* 3.10: MPI_Sendrecv_replace receives all of the message, wherever an implementation's own
 * buffer ends, and according to the datatype. */
static void replaced_in_place(void)
{
    static const int counts[] = {1, 255, 256, 257, 511, 512, 513, 666, 5000};
    static float values[2 * 5000];
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Datatype every_other;
    MPI_Status status;

    for (int round = 0; round < 18; round++) {
        int count = counts[round % 9], step = round < 9 ? 1 : 2;

        MPI_Type_vector(count, 1, step, MPI_FLOAT, &every_other);
        MPI_Type_commit(&every_other);
        for (int i = 0; i < 2 * 5000; i++)
            values[i] = (float)(10000 * rank + i);
        MPI_Sendrecv_replace(values, 1, every_other, to, round, from, round, MPI_COMM_WORLD,
                             &status);
        EXPECT_EQUAL(status.MPI_SOURCE, from);
        EXPECT_EQUAL(count_of(&status, MPI_FLOAT), count);
        for (int i = 0; i < count * step; i++)
            EXPECT_EQUAL(values[i], 10000 * (i % step == 0 ? from : rank) + i);
        MPI_Type_free(&every_other);
        MPI_Sendrecv_replace(values, count, MPI_FLOAT, rank, 1, rank, 1, MPI_COMM_WORLD,
                             &status);
        EXPECT_EQUAL(status.MPI_SOURCE, rank);
    }
}

/* 3.2.3, 8.1.2: tags up to MPI_TAG_UB, which is at least 32767, are distinct. */
static void largest_tags(void)
{
    int *bound, flag, peer = rank ^ 1, tags[40], count = 0, words[40], got[40];
    MPI_Request request[80];
    MPI_Status status;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    EXPECT_EQUAL(flag, 1);
    EXPECT(*bound >= 32767);
    tags[count++] = *bound;
    tags[count++] = *bound - 1;
    tags[count++] = 0;
    for (long long tag = 1; tag < *bound - 1 && count < 40; tag *= 2)
        tags[count++] = (int)tag;
    if (peer >= ranks)
        return;
    for (int i = 0; i < count; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, peer, tags[i], MPI_COMM_WORLD, &request[i]);
    for (int i = count; i-- > 0;) {
        words[i] = i;
        MPI_Isend(&words[i], 1, MPI_INT, peer, tags[i], MPI_COMM_WORLD, &request[count + i]);
    }
    MPI_Waitall(2 * count, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        EXPECT_EQUAL(got[i], i);
    MPI_Sendrecv(words, 1, MPI_INT, peer, *bound, got, 1, MPI_INT, peer, MPI_ANY_TAG,
                 MPI_COMM_WORLD, &status);
    EXPECT_EQUAL(status.MPI_TAG, *bound);
}

/* 3.5: messages that match the same receive are received in the order of the sends, long and
 * short ones, by receives from this sender and from any; a message with another tag does not
 * affect that. */
static void in_the_order_of_the_sends(void)
{
    enum { MESSAGES = 12 };
    static char bufs[MESSAGES][LONG], sent[MESSAGES][LONG];
    MPI_Request request[MESSAGES + 1];
    MPI_Status status[MESSAGES + 1];
    int other = 3, got = -1;

    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < MESSAGES; i++) {
            int size = i % 3 == 0 ? LONG : 1 + i;

            pattern_fill(sent[i], (size_t)size, (unsigned)i);
            MPI_Isend(sent[i], size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request[i]);
        }
        MPI_Send(&other, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
        return;
    }
    for (int half = 0; half < 2; half++) { /* before the messages and after them */
        for (int i = half * MESSAGES / 2; i < (half + 1) * MESSAGES / 2 && rank == 1; i++)
            MPI_Irecv(bufs[i], LONG, MPI_BYTE, i % 2 == 0 ? 0 : MPI_ANY_SOURCE, 1,
                      MPI_COMM_WORLD, &request[i]);
        if (half == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank != 1)
        return;
    MPI_Irecv(&got, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request[MESSAGES]);
    MPI_Waitall(MESSAGES + 1, request, status);
    EXPECT_EQUAL(got, 3);
    for (int i = 0; i < MESSAGES; i++)
        expect_message(&status[i], 0, 1, bufs[i], i % 3 == 0 ? LONG : 1 + i, (unsigned)i);
}

/* 4.1.7: a datatype whose extent is shorter than its span is sent correctly. */
static void short_extents(void)
{
    enum { N = 8 };
    MPI_Datatype pair, overlapping;
    MPI_Request send;
    int words[2 * N], got[2 * N];

    for (int i = 0; i < 2 * N; i++) {
        words[i] = i;
        got[i] = -1;
    }
    MPI_Type_vector(2, 1, N, MPI_INT, &pair); /* i and i + N */
    MPI_Type_create_resized(pair, 0, sizeof(int), &overlapping);
    MPI_Type_commit(&overlapping);
    MPI_Isend(words, N, overlapping, rank, 1, MPI_COMM_WORLD, &send);
    MPI_Recv(got, 2 * N, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * N; i++)
        EXPECT_EQUAL(got[i], i / 2 + i % 2 * N);
    MPI_Isend(got, 2 * N, MPI_INT, rank, 1, MPI_COMM_WORLD, &send);
    memset(words, 0xff, sizeof words);
    MPI_Recv(words, N, overlapping, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * N; i++)
        EXPECT_EQUAL(words[i], i);
    MPI_Type_free(&overlapping);
    MPI_Type_free(&pair);
}

/* 4.1.2: a column of structures, with a small field, and with a large one. */
static void columns_of_structures(void)
{
    static const int edges[] = {2, 200};
    struct {
        double value[4];
    } *field = calloc(200 * 200, sizeof *field);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    for (int e = 0; e < 2; e++) {
        MPI_Datatype one, column;
        int n = edges[e];

        for (int i = 0; i < n * n; i++)
            for (int k = 0; k < 4; k++)
                field[i].value[k] = rank * 1e6 + i * 4 + k;
        MPI_Type_contiguous(4, MPI_DOUBLE, &one);
        MPI_Type_vector(n, 1, n, one, &column);
        MPI_Type_commit(&column);
        MPI_Sendrecv(&field[0], 1, column, to, 1, &field[1], 1, column, from, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int row = 0; row < n; row++)
            for (int k = 0; k < 4; k++)
                EXPECT(field[row * n + 1].value[k] == from * 1e6 + row * n * 4 + k);
        MPI_Type_free(&column);
        MPI_Type_free(&one);
    }
    free(field);
}

/* 5.12: sends that probes find, and a nonblocking barrier, thousands of times. */
static void sparse_exchanges(void)
{
    MPI_Status status;

    for (int round = 0; round < 2000; round++) {
        int to = (rank + 1 + round % (ranks - 1)) % ranks, sent = 0, found, done = 0, got,
            received = 0;
        MPI_Request send, barrier = MPI_REQUEST_NULL;
        int tag = round % 2;

        MPI_Issend(&round, 1, MPI_INT, to, tag, MPI_COMM_WORLD, &send);
        while (!done) {
            MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &found, &status);
            if (found) {
                MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, tag, MPI_COMM_WORLD, &status);
                EXPECT_EQUAL(got, round);
                received++;
            }
            if (!sent) {
                MPI_Test(&send, &sent, MPI_STATUS_IGNORE);
                if (sent)
                    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
            } else {
                MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
            }
        }
        EXPECT_EQUAL(received, 1);
    }
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"freed_sends", 2, false, "microsoft/Microsoft-MPI#62", freed_sends},
        {"persistent_rounds", 2, false, "open-mpi/ompi#1875 open-mpi/ompi#1726",
         persistent_rounds},
        {"waitany_says_the_place", 2, false, "open-mpi/ompi#1759 pmodels/mpich#3661",
         waitany_says_the_place},
        {"buffered_data_is_kept", 2, false,
         "open-mpi/ompi#5415 open-mpi/ompi#11892 pmodels/mpich#1974", buffered_data_is_kept},
        {"buffer_comes_back", 2, false, "open-mpi/ompi#1185", buffer_comes_back},
        {"synchronous_sends_to_oneself", 2, false, "pmodels/mpich#5147",
         synchronous_sends_to_oneself},
        {"replaced_in_place", 2, false, "open-mpi/ompi#3635", replaced_in_place},
        {"largest_tags", 2, false, "open-mpi/ompi#6940 pmodels/mpich#3101", largest_tags},
        {"in_the_order_of_the_sends", 2, false, "mpi-forum/mpi-issues#117 open-mpi/ompi#6150",
         in_the_order_of_the_sends},
        {"short_extents", 2, false, "open-mpi/ompi#6899", short_extents},
        {"columns_of_structures", 2, false, "open-mpi/ompi#12595", columns_of_structures},
        {"sparse_exchanges", 2, false, "open-mpi/ompi#11052", sparse_exchanges},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
