/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * status.c - which fields of a status a call writes, and which it does not change.
 */
#include "report.h"

#define KEPT 4711

static char out[LONG], in[LONG];

/* Fills a status with the content that a variable on the stack may have. */
static void spoil(MPI_Status *status)
{
    memset(status, 0xff, sizeof *status);
    status->MPI_ERROR = KEPT;
}

static void expect_kept(const MPI_Status *status, int source, int size)
{
    EXPECT_EQUAL(status->MPI_ERROR, KEPT);
    EXPECT_EQUAL(status->MPI_SOURCE, source);
    EXPECT_EQUAL(status->MPI_TAG, 3);
    EXPECT_EQUAL(count_of(status, MPI_BYTE), size);
    EXPECT(!is_cancelled(status));
}

enum way {
    RECV,
    RECV_ANY,
    PROBE,
    IPROBE,
    MPROBE,
    WAIT,
    TEST,
    WAITANY,
    TESTANY,
    GET_STATUS,
    SENDRECV,
    WAYS
};

static void receive_by(enum way way, int to, int from, int size)
{
    MPI_Status status, probed;
    MPI_Request request;
    MPI_Message message;
    int done = 0, index;

    spoil(&status);
    spoil(&probed);
    switch (way) {
    case RECV:
        MPI_Recv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &status);
        break;
    case RECV_ANY:
        MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        break;
    case PROBE:
        MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &probed);
        expect_kept(&probed, from, size);
        MPI_Recv(in, size, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        break;
    case IPROBE:
        while (!done)
            MPI_Iprobe(from, 3, MPI_COMM_WORLD, &done, &probed);
        expect_kept(&probed, from, size);
        MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
        break;
    case MPROBE:
        MPI_Mprobe(from, 3, MPI_COMM_WORLD, &message, &probed);
        expect_kept(&probed, from, size);
        MPI_Mrecv(in, size, MPI_BYTE, &message, &status);
        break;
    case WAIT:
        MPI_Irecv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        break;
    case TEST:
        MPI_Irecv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &request);
        while (!done)
            MPI_Test(&request, &done, &status);
        break;
    case WAITANY:
        MPI_Irecv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &request);
        MPI_Waitany(1, &request, &index, &status);
        break;
    case TESTANY:
        MPI_Irecv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &request);
        while (!done)
            MPI_Testany(1, &request, &index, &done, &status);
        break;
    case GET_STATUS:
        MPI_Irecv(in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD, &request);
        while (!done)
            MPI_Request_get_status(request, &done, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case SENDRECV:
        MPI_Sendrecv(out, size, MPI_BYTE, to, 3, in, size, MPI_BYTE, from, 3, MPI_COMM_WORLD,
                     &status);
        break;
    case WAYS:
        break;
    }
    expect_kept(&status, from, size);
}

/* 3.2.5: only calls that return several statuses write MPI_ERROR. */
static void one_status_keeps_its_error(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    static const int sizes[] = {0, 4, LONG};

    for (int i = 0; i < 3 * WAYS * 2; i++) {
        enum way way = (enum way)(i % WAYS);
        int size = sizes[i / WAYS % 3];
        bool is_early = i >= 3 * WAYS; /* arrived before the call */
        MPI_Request send = MPI_REQUEST_NULL;

        if (way != SENDRECV)
            MPI_Isend(out, size, MPI_BYTE, to, 3, MPI_COMM_WORLD, &send);
        if (is_early)
            all_arrived();
        receive_by(way, to, from, size);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

/* 3.8.4: a receive that has completed was not cancelled, whatever was in the status. */
static void received_is_not_cancelled(void)
{
    int peer = rank ^ 1;
    MPI_Status status;
    MPI_Request send;
    int word = 1, got;

    for (int i = 0; i < 4; i++) {
        if (peer < ranks)
            MPI_Isend(&word, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &send);
        all_arrived();
        if (peer >= ranks)
            continue;
        memset(&status, i % 2 == 0 ? 0xff : 0x01, sizeof status);
        if (i < 2)
            MPI_Recv(&got, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &status);
        else
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        EXPECT(!is_cancelled(&status));
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

static void expect_from_null(const MPI_Status *status)
{
    EXPECT_EQUAL(status->MPI_SOURCE, MPI_PROC_NULL);
    EXPECT_EQUAL(status->MPI_TAG, MPI_ANY_TAG);
    EXPECT_EQUAL(count_of(status, MPI_BYTE), 0);
    EXPECT(!is_cancelled(status));
}

/* 3.11: a receive from MPI_PROC_NULL has this source, any tag and no bytes. */
static void nobody_sends(void)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    int flag = 0;

    spoil(&status);
    MPI_Irecv(in, 1, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
    MPI_Waitall(1, &request, &status);
    expect_from_null(&status);
    spoil(&status);
    MPI_Recv(in, 1, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
    expect_from_null(&status);
    spoil(&status);
    MPI_Probe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
    expect_from_null(&status);
    spoil(&status);
    MPI_Improbe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &message, &status);
    EXPECT_EQUAL(flag, 1);
    EXPECT(message == MPI_MESSAGE_NO_PROC);
    expect_from_null(&status);
    spoil(&status);
    MPI_Mrecv(in, 1, MPI_BYTE, &message, &status);
    EXPECT(message == MPI_MESSAGE_NULL);
    expect_from_null(&status);
    spoil(&status);
    MPI_Sendrecv(out, 1, MPI_BYTE, MPI_PROC_NULL, 5, in, 1, MPI_BYTE, MPI_PROC_NULL, 5,
                 MPI_COMM_WORLD, &status);
    expect_from_null(&status);
}

/* 3.9, 3.11: persistent requests to and from MPI_PROC_NULL start and end. */
static void persistent_to_nobody(void)
{
    MPI_Request request[2];
    MPI_Status status[2];

    MPI_Send_init(out, 1, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request[0]);
    MPI_Recv_init(in, 1, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, request);
        MPI_Waitall(2, request, status);
        expect_from_null(&status[1]);
    }
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}

/* 3.7.3, 3.7.5: calls that find no active request return MPI_UNDEFINED at once, with an empty
 * status. */
static void no_active_request(MPI_Request request[3])
{
    MPI_Status status, all[3];
    int index = 0, flag = 0, count = 0, which[3];

    spoil(&status);
    MPI_Testany(3, request, &index, &flag, &status);
    EXPECT_EQUAL(flag, 1);
    EXPECT_EQUAL(index, MPI_UNDEFINED);
    expect_empty(&status);
    spoil(&status);
    MPI_Waitany(3, request, &index, &status);
    EXPECT_EQUAL(index, MPI_UNDEFINED);
    expect_empty(&status);
    MPI_Testsome(3, request, &count, which, all);
    EXPECT_EQUAL(count, MPI_UNDEFINED);
    MPI_Waitsome(3, request, &count, which, all);
    EXPECT_EQUAL(count, MPI_UNDEFINED);
    spoil(&all[0]);
    spoil(&all[2]);
    MPI_Waitall(3, request, all);
    expect_empty(&all[0]);
    expect_empty(&all[2]);
    spoil(&status);
    MPI_Wait(&request[1], &status);
    expect_empty(&status);
    spoil(&status);
    MPI_Test(&request[1], &flag, &status);
    EXPECT_EQUAL(flag, 1);
    expect_empty(&status);
}

static void null_requests(void)
{
    MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    no_active_request(request);
}

static void inactive_requests(void)
{
    MPI_Request request[3];

    for (int i = 0; i < 3; i++)
        MPI_Recv_init(in + i, 1, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &request[i]);
    no_active_request(request);
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&request[i]);
}

/* 3.7.5: MPI_Waitsome ends at least one of the active requests, until none is active. */
static void waitsome_ends_some(void)
{
    MPI_Request request[6];
    MPI_Status status[6];
    int which[6], count, left = 5;

    for (int i = 0; i < 5; i++)
        MPI_Recv_init(in + i, 1, MPI_BYTE, rank, i, MPI_COMM_WORLD, &request[i]);
    request[5] = MPI_REQUEST_NULL;
    MPI_Startall(5, request);
    while (left > 0) {
        MPI_Send(out, 1, MPI_BYTE, rank, left - 1, MPI_COMM_WORLD);
        MPI_Waitsome(6, request, &count, which, status);
        EXPECT_EQUAL(count, 1);
        EXPECT_EQUAL(which[0], left - 1);
        EXPECT_EQUAL(status[0].MPI_TAG, left - 1);
        left--;
    }
    MPI_Waitsome(6, request, &count, which, status);
    EXPECT_EQUAL(count, MPI_UNDEFINED);
    for (int i = 0; i < 5; i++)
        MPI_Request_free(&request[i]);
}

/* 4.1.11: three integers are no whole number of pairs, and three elements. */
static void parts_of_a_type(void)
{
    MPI_Datatype pair;
    MPI_Status status;
    MPI_Request send;
    int words[4] = {1, 2, 3, 4}, got[4] = {0}, elements = 0;

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i <= 4; i++) {
        MPI_Isend(words, i, MPI_INT, rank, 1, MPI_COMM_WORLD, &send);
        MPI_Recv(got, 2, pair, rank, 1, MPI_COMM_WORLD, &status);
        EXPECT_EQUAL(count_of(&status, pair), i % 2 == 0 ? i / 2 : MPI_UNDEFINED);
        MPI_Get_elements(&status, pair, &elements);
        EXPECT_EQUAL(elements, i);
        EXPECT_EQUAL(count_of(&status, MPI_INT), i);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&pair);
}

/* 3.2.2: a message without entries is a message, and its buffer may be NULL. */
static void nothing_is_a_message(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Status status;
    MPI_Request request[3];
    int word = rank, got = -1;

    MPI_Isend(NULL, 0, MPI_DOUBLE, to, 7, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&word, 1, MPI_INT, to, 7, MPI_COMM_WORLD, &request[1]);
    MPI_Irecv(NULL, 0, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request[2]);
    MPI_Wait(&request[2], &status);
    EXPECT_EQUAL(status.MPI_SOURCE, from);
    EXPECT_EQUAL(status.MPI_TAG, 7);
    EXPECT_EQUAL(count_of(&status, MPI_DOUBLE), 0);
    MPI_Recv(&got, 1, MPI_INT, from, 7, MPI_COMM_WORLD, &status);
    EXPECT_EQUAL(got, from);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    static const struct report_case cases[] = {
        {"one_status_keeps_its_error", 2, false, "open-mpi/ompi#9032 open-mpi/ompi#13205",
         one_status_keeps_its_error},
        {"received_is_not_cancelled", 2, false, "open-mpi/ompi#12049",
         received_is_not_cancelled},
        {"nobody_sends", 2, false, "pmodels/mpich#6805 pmodels/mpich#3693 pmodels/mpich#6004",
         nobody_sends},
        {"persistent_to_nobody", 2, false, "pmodels/mpich#5053", persistent_to_nobody},
        {"null_requests", 2, false, "open-mpi/ompi#11725 open-mpi/ompi#402", null_requests},
        {"inactive_requests", 2, false, "open-mpi/ompi#2545 open-mpi/ompi#1725",
         inactive_requests},
        {"waitsome_ends_some", 2, false, "pmodels/mpich#968", waitsome_ends_some},
        {"parts_of_a_type", 2, false, "pmodels/mpich#884 pmodels/mpich#645", parts_of_a_type},
        {"nothing_is_a_message", 2, false, "pmodels/mpich#4765", nothing_is_a_message},
    };

    return report_main(argc, argv, MPI_THREAD_SINGLE, cases,
                       (int)(sizeof cases / sizeof cases[0]));
}
