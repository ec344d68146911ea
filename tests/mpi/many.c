/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.c - as many open requests as memory allows, and the effect of a bound on them.
 *
 * usage: many COUNT      ranks 0 and 1: COUNT receives wait at one time, then COUNT sends
 *        many --bound    as many requests as MBX_REQUESTS allows, and then MPI_ERR_NO_MEM
 *
 * Every message has a number and arrives in order.
 */
#include "check.h"

#define BOUND_MOST 10000 /* for --bound: MBX_REQUESTS is smaller */

static MPI_Request *requests;
static int *numbers;

static int class_of(int err)
{
    int class;

    MPI_Error_class(err, &class);
    return class;
}

static void make_space(int count)
{
    requests = malloc((size_t)count * sizeof *requests);
    numbers = malloc((size_t)count * sizeof *numbers);
    CHECK(requests != NULL && numbers != NULL);
    for (int i = 0; i < count; i++)
        numbers[i] = i;
}

/* ---- as many as memory allows ---- */

static void wait_for_numbers(int count)
{
    for (int i = 0; i < count; i++) {
        numbers[i] = -1;
        CHECK_EQUAL(MPI_Irecv(&numbers[i], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[i]),
                    MPI_SUCCESS);
    }
    MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(numbers[i], i);
}

static void receives_that_wait(int count)
{
    if (rank == 1)
        wait_for_numbers(count);
    if (rank != 0)
        return;
    MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        MPI_Send(&numbers[i], 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
}

static void receive_numbers(int count)
{
    int number;

    MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) {
        MPI_Recv(&number, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(number, i);
    }
}

/* Each send waits for its receive, because it is synchronous. */
static void sends_that_wait(int count)
{
    if (rank == 1)
        receive_numbers(count);
    if (rank != 0)
        return;
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(MPI_Issend(&numbers[i], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[i]),
                    MPI_SUCCESS);
    MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* ---- as many as MBX_REQUESTS allows ---- */

/* Posts receives until one fails.  Returns their number. */
static int post_all(void)
{
    int err = MPI_SUCCESS, count = 0;

    while (count < BOUND_MOST && err == MPI_SUCCESS) {
        err = MPI_Irecv(&numbers[count], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[count]);
        count += err == MPI_SUCCESS;
    }
    CHECK(count < BOUND_MOST);
    CHECK_EQUAL(class_of(err), MPI_ERR_NO_MEM);
    return count;
}

/* Every way to begin a request returns the error. */
static void check_refused(void)
{
    MPI_Request request;
    int number = 0;

    CHECK_EQUAL(class_of(MPI_Issend(&number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request)),
                MPI_ERR_NO_MEM);
    CHECK_EQUAL(
        class_of(MPI_Recv(&number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
        MPI_ERR_NO_MEM);
    MPI_Recv_init(&number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
    CHECK_EQUAL(class_of(MPI_Start(&request)), MPI_ERR_NO_MEM);
    MPI_Request_free(&request);
    MPI_Ssend_init(&number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
    CHECK_EQUAL(class_of(MPI_Start(&request)), MPI_ERR_NO_MEM);
    MPI_Request_free(&request);
}

static void a_bound_is_no_internal_error(void)
{
    if (rank != 0)
        return;
    for (int round = 0; round < 3; round++) {
        int count = post_all();

        check_refused();
        for (int i = 0; i < count; i++)
            MPI_Cancel(&requests[i]);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    bool is_bound = argc > 1 && strcmp(argv[1], "--bound") == 0;
    int count = argc > 1 && !is_bound ? atoi(argv[1]) : 10000;

    start(&argc, &argv);
    make_space(count);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (is_bound) {
        a_bound_is_no_internal_error();
    } else {
        receives_that_wait(count);
        sends_that_wait(count);
    }
    free(requests);
    free(numbers);
    return finish("many");
}
