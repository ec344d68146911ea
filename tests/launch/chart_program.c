/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chart_program.c SIZE posted|late PARAM... - one message from rank 0 to rank 1, whose receive
 * is posted before the send, or after the message has arrived.  Under `mbx run -n 2` the ranks
 * are two processes; otherwise both are in this process, over the transport of the simulation's
 * endpoints (loop).
 */
#include <matchbox/matchbox.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define PARAMS_MAX 16

enum { CONTEXT = 1, TAG = 7 };

static struct mbx_job *job;   /* NULL: both ranks are here */
static struct mbx_ep *eps[2]; /* NULL: in the other process */
static char *buffers[2];
static size_t size;

static void check(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "chart_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static void move(void)
{
    for (int i = 0; i < 2; i++)
        if (eps[i] != NULL)
            mbx_progress(eps[i]);
}

static void fence(void)
{
    if (job != NULL)
        check(mbx_job_fence(job), "mbx_job_fence");
}

static void open_here(int rank, const char *const *params)
{
    const struct mbx_config config = {.params = params,
                                      .key = job != NULL ? mbx_job_key(job) : NULL};

    check(mbx_open(&config, &eps[rank]), "mbx_open");
    buffers[rank] = calloc(1, size + 1);
    if (buffers[rank] == NULL)
        exit(1);
}

static void open_all(const char *const *params)
{
    if (getenv("MBX_BOOT") != NULL) {
        check(mbx_job_open(&job), "mbx_job_open");
        open_here((int)mbx_job_rank(job), params);
        check(mbx_job_connect(job, eps[mbx_job_rank(job)]), "mbx_job_connect");
        return;
    }
    for (int i = 0; i < 2; i++)
        open_here(i, params);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            struct mbx_address address;
            uint32_t number;

            check(mbx_address_get(eps[j], &address), "mbx_address_get");
            check(mbx_peer_add(eps[i], &address, &number), "mbx_peer_add");
        }
    }
}

static void post(mbx_request *request)
{
    if (eps[1] != NULL)
        check(mbx_recv(eps[1], 0, CONTEXT, TAG, 0, buffers[1], size, NULL, request),
              "mbx_recv");
    for (int i = 0; i < 1000; i++) /* packets about the receive leave */
        move();
    fence();
    for (int i = 0; i < 1000; i++) /* and arrive */
        move();
    fence();
}

static void wait_until_it_has_come(void)
{
    struct mbx_status status;

    if (eps[1] == NULL)
        return;
    while (mbx_probe(eps[1], 0, CONTEXT, TAG, 0, &status) == 0)
        move();
}

static bool is_complete(int rank, mbx_request *request)
{
    struct mbx_completion completion;
    int result;

    if (eps[rank] == NULL || *request == 0)
        return true;
    result = mbx_test(eps[rank], *request, &completion);
    check(result, "mbx_test");
    if (result == 1) {
        check(completion.error, "the message");
        *request = 0;
    }
    return result == 1;
}

int main(int argc, char **argv)
{
    const char *params[PARAMS_MAX + 1] = {NULL};
    mbx_request requests[2] = {0, 0};
    bool is_late;

    if (argc < 3 || argc - 3 > PARAMS_MAX) {
        fprintf(stderr, "usage: chart_program SIZE posted|late PARAM...\n");
        return 2;
    }
    size = strtoull(argv[1], NULL, 10);
    is_late = strcmp(argv[2], "late") == 0;
    for (int i = 3; i < argc; i++)
        params[i - 3] = argv[i];
    open_all(params);
    if (!is_late)
        post(&requests[1]);
    if (eps[0] != NULL)
        check(mbx_send(eps[0], 1, CONTEXT, TAG, buffers[0], size, NULL, &requests[0]),
              "mbx_send");
    if (is_late) {
        wait_until_it_has_come();
        if (eps[1] != NULL)
            check(mbx_recv(eps[1], 0, CONTEXT, TAG, 0, buffers[1], size, NULL, &requests[1]),
                  "mbx_recv");
    }
    for (;;) {
        bool is_first = is_complete(0, &requests[0]), is_second = is_complete(1, &requests[1]);

        if (is_first && is_second)
            break;
        move();
    }
    for (int i = 0; i < 1000; i++)
        move();
    fence();
    for (int i = 0; i < 2; i++) {
        if (eps[i] != NULL)
            check(mbx_close(eps[i]), "mbx_close");
        free(buffers[i]);
    }
    if (job != NULL)
        mbx_job_close(job);
    return 0;
}
