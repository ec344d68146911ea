/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.c - MPI's rules for errors, and for calls in an unusual order.
 *
 *   a short receive gives MPI_ERR_TRUNCATE with the bytes that fit, and releases its
 *   synchronous sender;
 *   a synchronous send that a matched probe has taken completes when the message is received;
 *   a cancelled receive reports that, and the message that it might have matched goes to the
 *   next one;
 *   requests that are freed while they are active still do their work;
 *   buffered sends leave their buffer; a persistent request may be freed, and started, in any
 *   order;
 *   MPI_Waitall ends requests of all kinds, and reports the error of each;
 *   messages that nobody has received are gone with their communicator, which ends their sends;
 *   a communicator ends with its last request.
 *
 * Over libfabric Open MPI 4.1.4 hangs in the first two.  Ranks talk in pairs; an odd one is
 * idle.
 */
#include "check.h"

#define LONG 200000 /* bytes: by rendezvous */

static char out[LONG], in[LONG];

static int class_of(int err)
{
    int class;

    MPI_Error_class(err, &class);
    return class;
}

static void short_receives_release_their_sender(MPI_Comm pair, int self)
{
    static const int sizes[] = {16, 4000, LONG};
    MPI_Status status;

    for (int i = 0; i < 3; i++) {
        if (self == 0) {
            pattern_fill(out, (size_t)sizes[i], (unsigned)i);
            MPI_Ssend(out, sizes[i], MPI_BYTE, 1, 1, pair);
            continue;
        }
        CHECK_EQUAL(class_of(MPI_Recv(in, sizes[i] / 2, MPI_BYTE, 0, 1, pair, &status)),
                    MPI_ERR_TRUNCATE);
        CHECK_EQUAL(pattern_end(in, (size_t)sizes[i] / 2, (unsigned)i), sizes[i] / 2);
        CHECK_EQUAL(status.MPI_SOURCE, 0);
        CHECK_EQUAL(status.MPI_TAG, 1);
    }
}

static void matched_probes_release_synchronous_sends(MPI_Comm pair, int self)
{
    static const int sizes[] = {0, 16, 4000, LONG};
    MPI_Message message;
    MPI_Status status;

    for (int i = 0; i < 4; i++) {
        if (self == 0) {
            pattern_fill(out, (size_t)sizes[i], (unsigned)i);
            MPI_Ssend(out, sizes[i], MPI_BYTE, 1, 2, pair);
            continue;
        }
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, pair, &message, &status);
        CHECK_EQUAL(status.MPI_SOURCE, 0);
        CHECK_EQUAL(MPI_Mrecv(in, sizes[i], MPI_BYTE, &message, &status), MPI_SUCCESS);
        CHECK_EQUAL(pattern_end(in, (size_t)sizes[i], (unsigned)i), sizes[i]);
    }
}

static void cancelled_receives_take_nothing(MPI_Comm pair, int self)
{
    MPI_Request request;
    MPI_Status status;
    int flag;

    if (self == 1) {
        MPI_Irecv(in, 8, MPI_BYTE, 0, 3, pair, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag);
    }
    MPI_Barrier(pair);
    if (self == 0)
        MPI_Send(out, 8, MPI_BYTE, 1, 3, pair);
    else
        MPI_Recv(in, 8, MPI_BYTE, 0, 3, pair, MPI_STATUS_IGNORE);
}

static void freed_requests_do_their_work(MPI_Comm pair, int self)
{
    MPI_Request request;
    int done = 0;

    memset(in, 0, sizeof in);
    if (self == 0) {
        pattern_fill(out, LONG, 9);
        MPI_Isend(out, LONG, MPI_BYTE, 1, 4, pair, &request);
        MPI_Request_free(&request);
        MPI_Recv(&done, 1, MPI_INT, 1, 5, pair, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(in, LONG, MPI_BYTE, 0, 4, pair, &request);
        MPI_Request_free(&request);
        while (pattern_end(in, LONG, 9) != LONG)
            MPI_Iprobe(0, 99, pair, &done, MPI_STATUS_IGNORE);
        MPI_Send(&done, 1, MPI_INT, 0, 5, pair);
    }
}

static void buffered_sends_leave_their_buffer(MPI_Comm pair, int self)
{
    int size = LONG + MPI_BSEND_OVERHEAD + 1000;
    void *buffer = malloc((size_t)size);
    MPI_Request request;

    if (self == 0) {
        MPI_Buffer_attach(buffer, size);
        pattern_fill(out, LONG, 11);
        CHECK_EQUAL(MPI_Bsend(out, LONG, MPI_BYTE, 1, 6, pair), MPI_SUCCESS);
        memset(out, 0, sizeof out);
        MPI_Buffer_detach(&buffer, &size);
        MPI_Buffer_attach(buffer, size);
        MPI_Bsend_init(out, 8, MPI_BYTE, 1, 6, pair, &request);
        for (int i = 0; i < 3; i++) {
            pattern_fill(out, 8, (unsigned)i);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
        MPI_Buffer_detach(&buffer, &size);
    } else {
        MPI_Recv(in, LONG, MPI_BYTE, 0, 6, pair, MPI_STATUS_IGNORE);
        CHECK_EQUAL(pattern_end(in, LONG, 11), LONG);
        for (unsigned i = 0; i < 3; i++) {
            MPI_Recv(in, 8, MPI_BYTE, 0, 6, pair, MPI_STATUS_IGNORE);
            CHECK_EQUAL(pattern_end(in, 8, i), 8);
        }
    }
    free(buffer);
}

static void persistent_requests_start_again(MPI_Comm pair, int self)
{
    static char rest[LONG]; /* the last message may still be under way on return */
    MPI_Request requests[2];
    int flag;

    if (self == 0) {
        MPI_Send_init(out, 8, MPI_BYTE, 1, 8, pair, &requests[0]);
        MPI_Ssend_init(rest, LONG, MPI_BYTE, 1, 9, pair, &requests[1]);
    } else {
        MPI_Recv_init(in, 8, MPI_BYTE, MPI_ANY_SOURCE, 8, pair, &requests[0]);
        MPI_Recv_init(rest, LONG, MPI_BYTE, 0, 9, pair, &requests[1]);
    }
    for (int i = 0; i < 5; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        CHECK(flag);
    }
    MPI_Request_free(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Request_free(&requests[1]);
    MPI_Barrier(pair);
}

#define LOOKS_LONG 200000 /* useless tests: meanwhile a waiting rank has yielded its core */

static void check_status(const MPI_Status *status, int source, int tag, int error, int count)
{
    int got;

    MPI_Get_count(status, MPI_BYTE, &got);
    CHECK_EQUAL(status->MPI_SOURCE, source);
    CHECK_EQUAL(status->MPI_TAG, tag);
    CHECK_EQUAL(class_of(status->MPI_ERROR), error);
    CHECK_EQUAL(got, count);
}

/* TRUNCATED is the last: after a failure Open MPI does not wait for the others. */
enum {
    PLAIN,
    NOTHING,
    FROM_ANY,
    LEFT,
    PROC_NULL,
    SYNCHRONOUS,
    PERSISTENT,
    LAST,
    TRUNCATED,
    KINDS
};

/* The requests of a MPI_Waitall, and their order. */
struct mixture {
    bool is_late;    /* the messages arrive during the wait, the first one after a yield */
    bool has_failed; /* TRUNCATED is one of them */
    bool has_statuses;
    bool is_simple; /* SYNCHRONOUS and PERSISTENT are not */
};

static bool has_kind(struct mixture mixture, int kind)
{
    return kind != NOTHING &&
           !(mixture.is_simple && (kind == SYNCHRONOUS || kind == PERSISTENT));
}

static void answer_kinds(MPI_Comm pair, struct mixture mixture)
{
    int flag;

    for (int i = 0; mixture.is_late && i < LOOKS_LONG; i++)
        MPI_Iprobe(1, 99, pair, &flag, MPI_STATUS_IGNORE);
    for (int kind = PLAIN; kind < KINDS; kind++) {
        if (!has_kind(mixture, kind) || kind == PROC_NULL)
            continue;
        if (kind == LEFT || kind == SYNCHRONOUS)
            MPI_Recv(in, 8, MPI_BYTE, 1, 20 + kind, pair, MPI_STATUS_IGNORE);
        else
            MPI_Send(out, kind == TRUNCATED ? 100 : 8, MPI_BYTE, 1, 20 + kind, pair);
    }
}

static MPI_Request begin_kind(MPI_Comm pair, int kind, int size)
{
    int source = kind == PROC_NULL ? MPI_PROC_NULL : kind == FROM_ANY ? MPI_ANY_SOURCE : 0;
    MPI_Request request;

    if (kind == LEFT)
        MPI_Isend(out, 8, MPI_BYTE, 0, 20 + kind, pair, &request);
    else if (kind == SYNCHRONOUS)
        MPI_Issend(out, 8, MPI_BYTE, 0, 20 + kind, pair, &request);
    else if (kind == PERSISTENT)
        MPI_Recv_init(in + 100 * kind, size, MPI_BYTE, 0, 20 + kind, pair, &request);
    else
        MPI_Irecv(in + 100 * kind, size, MPI_BYTE, source, 20 + kind, pair, &request);
    if (kind == PERSISTENT)
        MPI_Start(&request);
    return request;
}

static void check_kinds(const MPI_Status *statuses, struct mixture mixture)
{
    for (int kind = PLAIN; kind < KINDS; kind++) {
        const MPI_Status *status = &statuses[kind];

        if (!has_kind(mixture, kind))
            check_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0);
        else if (kind == PROC_NULL)
            check_status(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_SUCCESS, 0);
        else if (kind == LEFT || kind == SYNCHRONOUS)
            CHECK_EQUAL(status->MPI_ERROR, MPI_SUCCESS);
        else if (kind != TRUNCATED)
            check_status(status, 0, 20 + kind, MPI_SUCCESS, 8);
        else if (mixture.has_failed)
            check_status(status, 0, 20 + kind, MPI_ERR_TRUNCATE, 50);
        else
            check_status(status, 0, 20 + kind, MPI_SUCCESS, 100);
    }
}

static void wait_for_kinds(MPI_Comm pair, struct mixture mixture)
{
    MPI_Request requests[KINDS], persistent;
    MPI_Status statuses[KINDS];
    int err;

    for (int kind = PLAIN; kind < KINDS; kind++)
        requests[kind] = has_kind(mixture, kind)
                             ? begin_kind(pair, kind, mixture.has_failed ? 50 : 100)
                             : MPI_REQUEST_NULL;
    persistent = requests[PERSISTENT];
    MPI_Send(NULL, 0, MPI_BYTE, 0, 10, pair);
    err = MPI_Waitall(KINDS, requests, mixture.has_statuses ? statuses : MPI_STATUSES_IGNORE);
    CHECK_EQUAL(class_of(err), mixture.has_failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
    for (int kind = PLAIN; kind < TRUNCATED; kind++)
        CHECK(requests[kind] == (kind == PERSISTENT ? persistent : MPI_REQUEST_NULL));
    if (persistent != MPI_REQUEST_NULL)
        MPI_Request_free(&persistent);
    if (mixture.has_statuses)
        check_kinds(statuses, mixture);
}

static void requests_of_all_kinds_end_together(MPI_Comm pair, int self)
{
    for (int i = 0; i < 16; i++) {
        const struct mixture mixture = {.is_late = (i & 1) != 0,
                                        .has_failed = (i & 2) != 0,
                                        .has_statuses = (i & 4) != 0,
                                        .is_simple = (i & 8) != 0};

        if (self == 0) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 10, pair, MPI_STATUS_IGNORE);
            answer_kinds(pair, mixture);
        } else {
            wait_for_kinds(pair, mixture);
        }
    }
}

/* Strided bytes, by rendezvous and eagerly, and a receive that unpacks them with another
 * datatype. */
static void pieces_are_packed(MPI_Comm pair, int self)
{
    static const int counts[] = {1, 100, 20000};
    MPI_Datatype column;

    MPI_Type_vector(1, 4, 8, MPI_BYTE, &column);
    MPI_Type_create_resized(column, 0, 8, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 3; i++) {
        pattern_fill(out, LONG, 13);
        memset(in, 0, sizeof in);
        if (self == 0) {
            MPI_Ssend(out, counts[i], column, 1, 10, pair);
            MPI_Ssend(out, counts[i], column, 1, 10, pair);
            continue;
        }
        MPI_Recv(in, counts[i], column, 0, 10, pair, MPI_STATUS_IGNORE);
        for (int k = 0; k < 8 * counts[i]; k++)
            CHECK_EQUAL((unsigned char)in[k], k % 8 < 4 ? pattern_at((size_t)k, 13) : 0);
        MPI_Recv(in, 4 * counts[i], MPI_BYTE, 0, 10, pair, MPI_STATUS_IGNORE);
        for (int k = 0; k < 4 * counts[i]; k++)
            CHECK_EQUAL((unsigned char)in[k], pattern_at((size_t)(k / 4 * 8 + k % 4), 13));
    }
    MPI_Type_free(&column);
}

/* Returns the bytes of count elements at buf, without gaps; to be freed. */
static unsigned char *packed(const void *buf, int count, MPI_Datatype type, int *size)
{
    unsigned char *bytes;
    int at = 0;

    MPI_Pack_size(count, type, MPI_COMM_WORLD, size);
    bytes = calloc(1, (size_t)*size + 1);
    MPI_Pack(buf, count, type, bytes, *size, &at, MPI_COMM_WORLD);
    *size = at;
    return bytes;
}

static void expect_bytes(const void *got, const void *want, int size)
{
    for (int i = 0; i < size; i++)
        CHECK_EQUAL(((const unsigned char *)got)[i], ((const unsigned char *)want)[i]);
}

/* Sends elements of a datatype; receives them as bytes, as elements, and half of them. */
static void elements_arrive(MPI_Comm pair, int self, int count, MPI_Datatype type)
{
    unsigned char *want, *got;
    MPI_Status status;
    int size;

    pattern_fill(out, LONG, 17);
    want = packed(out, count, type, &size);
    if (self == 0) {
        MPI_Send(out, count, type, 1, 12, pair);
        MPI_Ssend(out, count, type, 1, 12, pair);
        MPI_Ssend(out, count, type, 1, 12, pair);
    } else {
        MPI_Recv(in, size, MPI_BYTE, 0, 12, pair, MPI_STATUS_IGNORE);
        expect_bytes(in, want, size);
        memset(in, 0, sizeof in);
        MPI_Recv(in, count, type, 0, 12, pair, &status);
        got = packed(in, count, type, &size);
        expect_bytes(got, want, size);
        free(got);
        memset(in, 0, sizeof in);
        CHECK_EQUAL(class_of(MPI_Recv(in, count / 2, type, 0, 12, pair, &status)),
                    MPI_ERR_TRUNCATE);
        got = packed(in, count / 2, type, &size);
        expect_bytes(got, want, size);
        free(got);
    }
    free(want);
}

static void all_kinds_of_elements_arrive(MPI_Comm pair, int self)
{
    int lengths[3] = {1, 3, 5}, places[3] = {2, 4, 9}, sizes[2] = {20, 30}, parts[2] = {7, 11},
        from[2] = {4, 9};
    MPI_Aint bytes[3] = {0, 12, 21};
    MPI_Datatype kinds[3] = {MPI_DOUBLE, MPI_CHAR, MPI_SHORT}, types[4];
    static const int most[4] = {500, 1500, 4000, 70};

    MPI_Type_vector(10, 3, 7, MPI_INT, &types[0]);
    MPI_Type_indexed(3, lengths, places, MPI_SHORT, &types[1]);
    MPI_Type_create_struct(3, lengths, bytes, kinds, &types[2]);
    MPI_Type_create_subarray(2, sizes, parts, from, MPI_ORDER_C, MPI_INT, &types[3]);
    for (int i = 0; i < 4; i++) {
        MPI_Aint lower, extent;

        MPI_Type_commit(&types[i]);
        MPI_Type_get_extent(types[i], &lower, &extent);
        CHECK(extent * most[i] <= LONG);
        elements_arrive(pair, self, 2, types[i]);
        elements_arrive(pair, self, most[i] / 10, types[i]);
        elements_arrive(pair, self, most[i], types[i]);
        MPI_Type_free(&types[i]);
    }
}

static void what_is_left_is_gone(MPI_Comm pair, int self)
{
    static const int sizes[] = {8, 4000, LONG};

    for (int i = 0; i < 20; i++) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Comm copy;
        MPI_Status status;
        int flag;

        MPI_Comm_dup(pair, &copy);
        if (self == 0)
            MPI_Isend(out, sizes[i % 3], MPI_BYTE, 1, 11, copy, &request);
        MPI_Barrier(copy);
        if (self == 1) {
            MPI_Probe(0, 11, copy, &status);
            MPI_Comm_free(&copy);
        } else {
            MPI_Comm_free(&copy);
        }
        MPI_Comm_dup(pair, &copy);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        MPI_Wait(&request, MPI_STATUS_IGNORE); /* the other rank has dropped its message */
        MPI_Comm_free(&copy);
    }
}

/* The last request of a communicator completes after MPI_Comm_free(), and ends the
 * communicator. */
static void communicators_end_with_their_last_request(MPI_Comm pair, int self)
{
    static const int sizes[] = {8, 4000, LONG};
    static char last[LONG];

    pattern_fill(last, LONG, 19);
    for (int i = 0; i < 12; i++) {
        int is_recv = i / 3 % 2, other = 1 - self;
        MPI_Request request;
        MPI_Comm copy;

        MPI_Comm_dup(pair, &copy);
        if (self == is_recv)
            MPI_Irecv(last, sizes[i % 3], MPI_BYTE, i < 6 ? other : MPI_ANY_SOURCE, 20, copy,
                      &request);
        else
            MPI_Barrier(pair);
        if (self != is_recv)
            MPI_Isend(last, sizes[i % 3], MPI_BYTE, other, 20, copy, &request);
        MPI_Request_free(&request);
        MPI_Comm_free(&copy);
        if (self == is_recv)
            MPI_Barrier(pair);
        MPI_Barrier(pair);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm pair;
    int self, size;

    start(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    MPI_Comm_rank(pair, &self);
    MPI_Comm_size(pair, &size);
    if (size == 2) {
        short_receives_release_their_sender(pair, self);
        matched_probes_release_synchronous_sends(pair, self);
        cancelled_receives_take_nothing(pair, self);
        freed_requests_do_their_work(pair, self);
        buffered_sends_leave_their_buffer(pair, self);
        persistent_requests_start_again(pair, self);
        requests_of_all_kinds_end_together(pair, self);
        pieces_are_packed(pair, self);
        all_kinds_of_elements_arrive(pair, self);
        what_is_left_is_gone(pair, self);
        communicators_end_with_their_last_request(pair, self);
    }
    MPI_Comm_free(&pair);
    return finish("errors");
}
