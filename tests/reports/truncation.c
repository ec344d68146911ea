/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * truncation.c - receives that are too short: which call returns the error, and which bytes are
 * written.
 */
#include "report.h"

#define GUARD 64

static char out[LONG], in[5][LONG];

static const int sizes[] = {2, 3000, LONG};

static void begin(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static void end(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

enum call { WAITALL, TESTALL, WAITSOME };

#define REQUESTS 5

static void send_them(int size)
{
    MPI_Request request[REQUESTS];

    pattern_fill(out, (size_t)size, 1);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < REQUESTS; i++)
        MPI_Isend(out, size, MPI_BYTE, 1, 10 + i, MPI_COMM_WORLD, &request[i]);
    MPI_Waitall(REQUESTS, request, MPI_STATUSES_IGNORE);
    MPI_Send(NULL, 0, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
}

/* Waits until all requests have ended, or one of them with an error. status[i] is for request
 * i. */
static int end_them(enum call call, MPI_Request *request, MPI_Status *status)
{
    int err = MPI_SUCCESS, done = 0, which[REQUESTS];
    MPI_Status some[REQUESTS];

    if (call == WAITALL)
        return MPI_Waitall(REQUESTS, request, status);
    if (call == TESTALL) {
        while (!done && err == MPI_SUCCESS)
            err = MPI_Testall(REQUESTS, request, &done, status);
        return err;
    }
    for (int left = REQUESTS; left > 0;) {
        int now = MPI_Waitsome(REQUESTS, request, &done, which, some);

        EXPECT(done >= 1 && done <= left);
        for (int i = 0; i < done; i++) {
            status[which[i]] = some[i];
            if (now == MPI_SUCCESS)
                status[which[i]].MPI_ERROR = MPI_SUCCESS;
        }
        if (now != MPI_SUCCESS)
            err = now;
        left -= done;
    }
    return err;
}

static void one_is_short(enum call call, int size, int short_one, bool is_persistent,
                         bool is_early)
{
    MPI_Request request[REQUESTS];
    MPI_Status status[REQUESTS];

    if (rank == 0)
        send_them(size);
    for (int i = 0; i < REQUESTS && rank == 1; i++) {
        int capacity = i == short_one ? size / 2 : size;

        memset(in[i], 0, (size_t)size);
        if (is_persistent) {
            MPI_Recv_init(in[i], capacity, MPI_BYTE, 0, 10 + i, MPI_COMM_WORLD, &request[i]);
            MPI_Start(&request[i]);
        } else {
            MPI_Irecv(in[i], capacity, MPI_BYTE, 0, 10 + i, MPI_COMM_WORLD, &request[i]);
        }
        status[i].MPI_ERROR = MPI_SUCCESS;
    }
    if (rank != 1)
        return;
    MPI_Send(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD);
    if (is_early) /* everything has ended before the call */
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQUAL(class_of(end_them(call, request, status)), MPI_ERR_IN_STATUS);
    for (int i = 0; i < REQUESTS; i++) {
        int class = class_of(status[i].MPI_ERROR);

        if (class == MPI_ERR_PENDING)
            class = class_of(MPI_Wait(&request[i], MPI_STATUS_IGNORE));
        EXPECT_EQUAL(class, i == short_one ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        if (i != short_one)
            EXPECT_EQUAL(pattern_end(in[i], (size_t)size, 1), size);
    }
    if (!is_early)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < REQUESTS; i++)
        if (request[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&request[i]);
}

static void all_kinds(enum call call, bool is_persistent, bool is_early)
{
    begin();
    for (int round = 0; round < 24; round++)
        one_is_short(call, sizes[round % 3], round % REQUESTS, is_persistent, is_early);
    end();
}

/* 3.7.5: if one of several requests has failed, the call returns MPI_ERR_IN_STATUS, and each
 * status has the error of its request. */
static void waitall_says_in_status(void)
{
    all_kinds(WAITALL, false, false);
    all_kinds(WAITALL, false, true);
}

static void waitall_persistent(void)
{
    all_kinds(WAITALL, true, false);
}

static void waitall_persistent_early(void)
{
    all_kinds(WAITALL, true, true);
}

static void testall_says_in_status(void)
{
    all_kinds(TESTALL, false, false);
    all_kinds(TESTALL, false, true);
}

static void testall_persistent(void)
{
    all_kinds(TESTALL, true, false);
}

static void testall_persistent_early(void)
{
    all_kinds(TESTALL, true, true);
}

static void waitsome_says_in_status(void)
{
    all_kinds(WAITSOME, false, false);
    all_kinds(WAITSOME, false, true);
}

static void waitsome_persistent(void)
{
    all_kinds(WAITSOME, true, false);
}

static void waitsome_persistent_early(void)
{
    all_kinds(WAITSOME, true, true);
}

/* 3.7.5: the call returns MPI_SUCCESS if none has failed, whatever was in the statuses. */
static void testall_says_success(void)
{
    MPI_Request request[2];
    MPI_Status status[2];
    int done = 0, err = MPI_SUCCESS;

    begin();
    memset(status, 0xff, sizeof status);
    MPI_Irecv(in[0], 8, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(out, 8, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &request[1]);
    while (!done && err == MPI_SUCCESS)
        err = MPI_Testall(2, request, &done, status);
    EXPECT_EQUAL(err, MPI_SUCCESS);
    end();
}

/* 3.7.5: a call with one status returns the error of the request itself. */
static void waitany_returns_the_error(void)
{
    MPI_Request request[2];
    MPI_Status status;
    int index, done = 0, err = MPI_SUCCESS;

    begin();
    for (int round = 0; round < 12; round++) {
        int size = sizes[round % 3];

        if (rank == 0) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Irecv(in[0], 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request[0]);
            MPI_Irecv(in[1], size / 2, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request[1]);
            MPI_Send(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD);
            if (round % 2 == 0)
                err = MPI_Waitany(2, request, &index, &status);
            for (done = round % 2 == 0; !done && err == MPI_SUCCESS;)
                err = MPI_Testany(2, request, &index, &done, &status);
            EXPECT_EQUAL(class_of(err), MPI_ERR_TRUNCATE);
            EXPECT_EQUAL(index, 1);
            err = MPI_SUCCESS;
            MPI_Cancel(&request[0]);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        }
    }
    end();
}

enum receive { RECV, MRECV, IMRECV, RECEIVES };

static int short_receive(enum receive how, char *buf, int capacity, MPI_Status *status)
{
    MPI_Message message;
    MPI_Request request;
    int err;

    if (how == RECV)
        return MPI_Recv(buf, capacity, MPI_BYTE, 0, 1, MPI_COMM_WORLD, status);
    MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    if (how == MRECV)
        return MPI_Mrecv(buf, capacity, MPI_BYTE, &message, status);
    err = MPI_Imrecv(buf, capacity, MPI_BYTE, &message, &request);
    return err != MPI_SUCCESS ? err : MPI_Wait(&request, status);
}

/* 3.2.4: the receive returns MPI_ERR_TRUNCATE; no byte beyond its buffer is written, and the
 * next message is whole. */
static void short_receives(enum receive how)
{
    MPI_Status status;

    begin();
    for (int round = 0; round < 6; round++) {
        int size = sizes[round % 3], capacity = size / 2;

        pattern_fill(out, (size_t)size, (unsigned)round);
        if (rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else if (rank == 1) {
            memset(in[0], 0x5a, sizeof in[0]);
            EXPECT_EQUAL(class_of(short_receive(how, in[0], capacity, &status)),
                         MPI_ERR_TRUNCATE);
            EXPECT_EQUAL(status.MPI_SOURCE, 0);
            EXPECT_EQUAL(status.MPI_TAG, 1);
            for (int i = capacity; i < capacity + GUARD && i < LONG; i++)
                EXPECT_EQUAL(in[0][i], 0x5a);
            EXPECT_EQUAL(short_receive(how, in[0], size, &status), MPI_SUCCESS);
            expect_message(&status, 0, 1, in[0], size, (unsigned)round);
        }
    }
    end();
}

static void short_recv(void)
{
    short_receives(RECV);
}

static void short_mrecv(void)
{
    short_receives(MRECV);
}

static void short_imrecv(void)
{
    short_receives(IMRECV);
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"waitall_says_in_status", 2, false, "open-mpi/ompi#8916", waitall_says_in_status},
        {"waitall_persistent", 2, false, "open-mpi/ompi#13432", waitall_persistent},
        {"waitall_persistent_early", 2, false, "open-mpi/ompi#13432", waitall_persistent_early},
        {"testall_says_in_status", 2, false, "open-mpi/ompi#13967", testall_says_in_status},
        {"testall_persistent", 2, false, "open-mpi/ompi#13432", testall_persistent},
        {"testall_persistent_early", 2, false, "open-mpi/ompi#13432", testall_persistent_early},
        {"testall_says_success", 2, false, "open-mpi/ompi#13967", testall_says_success},
        {"waitsome_says_in_status", 2, false, "open-mpi/ompi#13437", waitsome_says_in_status},
        {"waitsome_persistent", 2, false, "open-mpi/ompi#13437", waitsome_persistent},
        {"waitsome_persistent_early", 2, false, "open-mpi/ompi#13437",
         waitsome_persistent_early},
        {"waitany_returns_the_error", 2, false, "pmodels/mpich#89 mpi4py/mpi4py#591",
         waitany_returns_the_error},
        {"short_recv", 2, false, "open-mpi/ompi#3260 pmodels/mpich#879", short_recv},
        {"short_mrecv", 2, false, "pmodels/mpich#2484", short_mrecv},
        {"short_imrecv", 2, false, "open-mpi/ompi#13484", short_imrecv},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
