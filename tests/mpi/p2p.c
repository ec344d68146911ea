/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p.c - every way of MPI to send, receive, probe and cancel, with the content checked.
 *
 * All ranks take part in every test: each sends to its right neighbour and receives from its
 * left one, or all send to rank 0.
 *
 * --no-truncation leaves out messages that are longer than their receives: over its own ob1,
 * Open MPI 4.1.4 writes beyond the buffer.
 */
#include "check.h"

#define LONGEST (4 << 20)
#define WINDOW  64

static unsigned char *out, *in;
static int left, right;

static const int sizes[] = {0,      1,      7,      8,       15,      16,      31,     32,
                            33,     47,     48,     63,      64,      65,      127,    128,
                            255,    256,    1000,   1023,    1024,    2047,    2048,   4032,
                            4095,   4096,   4097,   8191,    8192,    8193,    16383,  16384,
                            16385,  32767,  32768,  32769,   65535,   65536,   65537,  99999,
                            131072, 262143, 524288, 1048575, 1048576, 1048577, LONGEST};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))

static void check_received(const MPI_Status *status, int source, int tag, int size,
                           unsigned seed)
{
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK_EQUAL(status->MPI_SOURCE, source);
    CHECK_EQUAL(status->MPI_TAG, tag);
    CHECK_EQUAL(count, size);
    CHECK_EQUAL(pattern_end(in, (size_t)size, seed), size);
}

/* ---- modes --------------------------------------------------------------------- */

typedef int isend_fn(const void *buf, int count, MPI_Datatype type, int dest, int tag,
                     MPI_Comm comm, MPI_Request *request);

static void all_sizes(isend_fn *isend, bool posted)
{
    for (int i = 0; i < SIZES; i++) {
        MPI_Request send, recv;
        MPI_Status status;

        pattern_fill(out, (size_t)sizes[i], (unsigned)(i + rank));
        memset(in, 0, (size_t)sizes[i]);
        if (posted) {
            MPI_Irecv(in, sizes[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &recv);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        isend(out, sizes[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &send);
        if (!posted)
            MPI_Irecv(in, LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, &recv);
        MPI_Wait(&recv, &status);
        check_received(&status, left, i, sizes[i], (unsigned)(i + left));
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

/* Sends with a buffer of its own; detaching it waits until the message has left. */
static int buffered_send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
                         MPI_Comm comm, MPI_Request *request)
{
    int capacity = count + MPI_BSEND_OVERHEAD;
    void *buffer = malloc((size_t)capacity);
    int err;

    MPI_Buffer_attach(buffer, capacity);
    err = MPI_Bsend(buf, count, type, dest, tag, comm);
    MPI_Buffer_detach(&buffer, &capacity);
    free(buffer);
    *request = MPI_REQUEST_NULL;
    return err;
}

static void every_mode(void)
{
    all_sizes(MPI_Isend, true);
    all_sizes(MPI_Isend, false);
    all_sizes(MPI_Issend, true);
    all_sizes(MPI_Issend, false);
    all_sizes(MPI_Irsend, true);
    all_sizes(buffered_send, true);
}

/* Even ranks send first, so blocking calls occur in both orders. */
static void blocking_calls(void)
{
    MPI_Status status;

    if (ranks % 2 != 0)
        return;
    for (int i = 0; i < SIZES; i++) {
        pattern_fill(out, (size_t)sizes[i], (unsigned)i);
        if (rank % 2 == 0) {
            MPI_Send(out, sizes[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            MPI_Recv(in, sizes[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &status);
            MPI_Ssend(out, sizes[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in, sizes[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &status);
            MPI_Send(out, sizes[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            check_received(&status, left, i, sizes[i], (unsigned)i);
            memset(in, 0, (size_t)sizes[i]);
            MPI_Recv(in, sizes[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &status);
        }
        check_received(&status, left, i, sizes[i], (unsigned)i);
    }
}

static void a_synchronous_send_waits(void)
{
    MPI_Request send;
    int done = 0, token = 0;

    MPI_Issend(&token, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &send);
    for (int i = 0; i < 1000; i++) {
        MPI_Test(&send, &done, MPI_STATUS_IGNORE);
        CHECK_EQUAL(done, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
}

/* ---- many at once ------------------------------------------------------------------ */

static void windows(void)
{
    static const int window_sizes[] = {0, 8, 500, 5000, 20000, 60000};
    MPI_Request requests[2 * WINDOW];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < WINDOW; i++) {
            int size = window_sizes[(i + round) % 6];

            pattern_fill(out + i * 65536, (size_t)size, (unsigned)(round + i + rank));
            memset(in + i * 65536, 0, (size_t)size);
        }
        for (int i = 0; i < WINDOW; i++) /* posted backwards, by tag */
            MPI_Irecv(in + (WINDOW - 1 - i) * 65536, 65536, MPI_BYTE, left, WINDOW - 1 - i,
                      MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out + i * 65536, window_sizes[(i + round) % 6], MPI_BYTE, right, i,
                      MPI_COMM_WORLD, &requests[WINDOW + i]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++) {
            int size = window_sizes[(i + round) % 6];

            CHECK_EQUAL(pattern_end(in + i * 65536, (size_t)size, (unsigned)(round + i + left)),
                        size);
        }
    }
}

/* Rank 0 receives from any source; the messages are a flood, because the senders do not
 * wait. */
static void from_anybody(void)
{
    enum { EACH = 500 };
    int next[256] = {0};

    for (int i = 0; rank != 0 && i < EACH; i++) {
        int message[2] = {rank, i};

        MPI_Send(message, 2, MPI_INT, 0, 100 + i % 7, MPI_COMM_WORLD);
    }
    for (int i = 0; rank == 0 && i < EACH * (ranks - 1); i++) {
        int message[2];
        MPI_Status status;

        MPI_Recv(message, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(message[0], status.MPI_SOURCE);
        CHECK_EQUAL(message[1], next[status.MPI_SOURCE % 256]++);
        CHECK_EQUAL(status.MPI_TAG, 100 + message[1] % 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- probes ------------------------------------------------------------------------- */

static void probes(void)
{
    static const int probe_sizes[] = {0, 8, 3000, 100000, LONGEST};

    for (int i = 0; i < 5; i++) {
        MPI_Request send;
        MPI_Status status;
        int flag = 0, count;

        MPI_Iprobe(left, 7777, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK_EQUAL(flag, 0);
        pattern_fill(out, (size_t)probe_sizes[i], (unsigned)(i + rank));
        MPI_Isend(out, probe_sizes[i], MPI_BYTE, right, 50 + i, MPI_COMM_WORLD, &send);
        if (i % 2 == 0)
            MPI_Probe(MPI_ANY_SOURCE, 50 + i, MPI_COMM_WORLD, &status);
        while (i % 2 == 1 && !flag)
            MPI_Iprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, probe_sizes[i]);
        CHECK_EQUAL(status.MPI_SOURCE, left);
        MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                 &status);
        check_received(&status, left, 50 + i, probe_sizes[i], (unsigned)(i + left));
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* A matched probe takes the first of two messages; a plain receive gets the second. */
static void matched_probes(void)
{
    for (int size = 4; size <= LONGEST; size *= 32) {
        MPI_Request sends[2];
        MPI_Message message;
        MPI_Status status;
        int flag = 0;

        pattern_fill(out, (size_t)size, (unsigned)rank);
        MPI_Isend(out, size, MPI_BYTE, right, 60, MPI_COMM_WORLD, &sends[0]);
        MPI_Isend(out, size / 2, MPI_BYTE, right, 60, MPI_COMM_WORLD, &sends[1]);
        if (size % 3 == 0)
            MPI_Mprobe(left, 60, MPI_COMM_WORLD, &message, &status);
        else
            while (!flag)
                MPI_Improbe(MPI_ANY_SOURCE, 60, MPI_COMM_WORLD, &flag, &message, &status);
        MPI_Recv(in, size, MPI_BYTE, left, 60, MPI_COMM_WORLD, &status);
        check_received(&status, left, 60, size / 2, (unsigned)left);
        memset(in, 0, (size_t)size);
        MPI_Mrecv(in, size, MPI_BYTE, &message, &status);
        check_received(&status, left, 60, size, (unsigned)left);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* ---- cancellation and truncation ---- */

static void cancel(void)
{
    MPI_Request first, second;
    MPI_Status status;
    int a = -1, b = -1, cancelled;

    MPI_Irecv(&a, 1, MPI_INT, left, 70, MPI_COMM_WORLD, &first);
    MPI_Irecv(&b, 1, MPI_INT, MPI_ANY_SOURCE, 70, MPI_COMM_WORLD, &second);
    MPI_Cancel(&first);
    MPI_Wait(&first, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK_EQUAL(cancelled, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, right, 70, MPI_COMM_WORLD);
    MPI_Wait(&second, &status);
    CHECK_EQUAL(b, left);
    CHECK_EQUAL(a, -1);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK_EQUAL(cancelled, 0);
}

static void truncation(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int size = 64; size <= LONGEST; size *= 16) {
        MPI_Request send;
        MPI_Status status;
        int err, class;

        pattern_fill(out, (size_t)size, (unsigned)rank);
        memset(in, 0xdd, (size_t)size);
        MPI_Isend(out, size, MPI_BYTE, right, 80, MPI_COMM_WORLD, &send);
        err = MPI_Recv(in, size / 2, MPI_BYTE, left, 80, MPI_COMM_WORLD, &status);
        MPI_Error_class(err, &class);
        CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
        CHECK_EQUAL(in[size / 2], 0xdd);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Isend(out, size, MPI_BYTE, right, 80, MPI_COMM_WORLD, &send);
        MPI_Recv(in, size, MPI_BYTE, left, 80, MPI_COMM_WORLD, &status);
        check_received(&status, left, 80, size, (unsigned)left);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- other shapes ---- */

static void strided_data(void)
{
    enum { ROWS = 300, COLUMNS = 200 };
    static int table[ROWS][COLUMNS], column[ROWS];
    MPI_Request send;
    MPI_Datatype type;

    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < COLUMNS; i++)
            table[row][i] = rank * 1000000 + row * 1000 + i;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Isend(&table[0][3], 1, type, right, 90, MPI_COMM_WORLD, &send);
    MPI_Recv(column, ROWS, MPI_INT, left, 90, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int row = 0; row < ROWS; row++)
        CHECK_EQUAL(column[row], left * 1000000 + row * 1000 + 3);
    MPI_Isend(column, ROWS, MPI_INT, right, 91, MPI_COMM_WORLD, &send);
    MPI_Recv(&table[0][7], 1, type, left, 91, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int row = 0; row < ROWS; row++) {
        CHECK_EQUAL(table[row][7], ((left + ranks - 1) % ranks) * 1000000 + row * 1000 + 3);
        CHECK_EQUAL(table[row][8], rank * 1000000 + row * 1000 + 8);
    }
    MPI_Type_free(&type);
}

static void to_oneself(void)
{
    for (int i = 0; i < SIZES; i++) {
        MPI_Request send;
        MPI_Status status;

        pattern_fill(out, (size_t)sizes[i], (unsigned)i);
        memset(in, 0, (size_t)sizes[i]);
        MPI_Isend(out, sizes[i], MPI_BYTE, rank, i, MPI_COMM_WORLD, &send);
        MPI_Recv(in, sizes[i], MPI_BYTE, rank, i, MPI_COMM_WORLD, &status);
        check_received(&status, rank, i, sizes[i], (unsigned)i);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

static void persistent_requests(void)
{
    MPI_Request requests[2];
    int value, got;

    MPI_Recv_init(&got, 1, MPI_INT, left, 95, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&value, 1, MPI_INT, right, 95, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 1000; i++) {
        value = rank * 1000 + i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(got, left * 1000 + i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    out = malloc(LONGEST);
    in = malloc(LONGEST);
    every_mode();
    blocking_calls();
    a_synchronous_send_waits();
    windows();
    from_anybody();
    probes();
    matched_probes();
    cancel();
    if (argc < 2 || strcmp(argv[1], "--no-truncation") != 0)
        truncation();
    strided_data();
    to_oneself();
    persistent_requests();
    free(in);
    free(out);
    return finish("p2p");
}
