/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * several_requests.c - waiting for an array of requests.
 *
 *   halo      each rank exchanges the ends of its line with its neighbours, and continues when all
 *             four requests are complete (mbx_wait_all)
 *   gather    rank 0 has a receive for each other rank, and processes each result as soon as
 *             it has arrived (mbx_wait_some)
 *
 * Run:  mbx run -n 4 ./several_requests
 */
#include <matchbox/matchbox.h>

#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 1, TO_THE_LEFT = 1, TO_THE_RIGHT = 2, SUM = 3 };

#define CELLS     16
#define STEPS     50
#define MOST      64 /* ranks */
#define NO_LIMIT  (-1)
#define NO_IGNORE 0

struct rank {
    struct mbx_ep *ep;
    uint32_t number, size;
    double cells[CELLS + 2]; /* including a cell of each neighbour */
};

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "several_requests: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

/* ---- halo ---- */

static void exchange(struct rank *r)
{
    const uint32_t left = (r->number + r->size - 1) % r->size,
                   right = (r->number + 1) % r->size;
    double *cells = r->cells;
    mbx_request requests[4];
    int failed;

    must(mbx_recv(r->ep, left, CONTEXT, TO_THE_RIGHT, NO_IGNORE, &cells[0], sizeof *cells, NULL,
                  &requests[0]),
         "mbx_recv");
    must(mbx_recv(r->ep, right, CONTEXT, TO_THE_LEFT, NO_IGNORE, &cells[CELLS + 1],
                  sizeof *cells, NULL, &requests[1]),
         "mbx_recv");
    must(mbx_send(r->ep, left, CONTEXT, TO_THE_LEFT, &cells[1], sizeof *cells, NULL,
                  &requests[2]),
         "mbx_send");
    must(mbx_send(r->ep, right, CONTEXT, TO_THE_RIGHT, &cells[CELLS], sizeof *cells, NULL,
                  &requests[3]),
         "mbx_send");
    failed = mbx_wait_all(r->ep, requests, 4, NO_LIMIT, NULL);
    must(failed, "mbx_wait_all");
    if (failed > 0) {
        fprintf(stderr, "several_requests: %d requests failed\n", failed);
        exit(1);
    }
}

/* Each cell becomes the mean of its neighbours and itself; the sum of all stays the same. */
static void smooth(struct rank *r)
{
    double before = r->cells[0];

    for (int i = 1; i <= CELLS; i++) {
        double here = r->cells[i];

        r->cells[i] = (before + here + r->cells[i + 1]) / 3;
        before = here;
    }
}

static double sum_of(const struct rank *r)
{
    double sum = 0;

    for (int i = 1; i <= CELLS; i++)
        sum += r->cells[i];
    return sum;
}

/* ---- gather ---- */

static double gather(struct rank *r)
{
    struct mbx_completion done[MOST];
    mbx_request requests[MOST] = {0}; /* 0: no request */
    double sums[MOST], all = sum_of(r);
    int indices[MOST], count;

    for (uint32_t i = 1; i < r->size; i++)
        must(mbx_recv(r->ep, i, CONTEXT, SUM, NO_IGNORE, &sums[i], sizeof sums[i], NULL,
                      &requests[i]),
             "mbx_recv");
    /* 0: no request is left */
    while ((count = mbx_wait_some(r->ep, requests, (int)r->size, NO_LIMIT, indices, done)) > 0)
        for (int i = 0; i < count; i++) {
            must(done[i].error, "a receive");
            printf("rank %u: %.6f\n", done[i].status.source, sums[indices[i]]);
            all += sums[indices[i]];
        }
    must(count, "mbx_wait_some");
    return all;
}

static int finish(struct rank *r)
{
    double sum = sum_of(r), all, error;

    if (r->number != 0) {
        must(mbx_inject(r->ep, 0, CONTEXT, SUM, &sum, sizeof sum, 0), "mbx_inject");
        return 0;
    }
    all = gather(r);
    error = all - CELLS; /* rank 0 had 1 in each cell, the others 0 */
    printf("all: %.6f\n", all);
    return error < -1e-9 || error > 1e-9;
}

int main(void)
{
    struct mbx_config config = {.params = NULL};
    struct rank r = {.ep = NULL};
    struct mbx_job *job;
    int wrong;

    must(mbx_job_open(&job), "mbx_job_open");
    r.number = mbx_job_rank(job);
    r.size = mbx_job_size(job);
    if (r.size < 2 || r.size > MOST) {
        fprintf(stderr,
                "several_requests: 2 to %d ranks are needed: mbx run -n 4 ./several_requests\n",
                MOST);
        return 2;
    }
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &r.ep), "mbx_open");
    must(mbx_job_connect(job, r.ep), "mbx_job_connect");
    for (int i = 1; i <= CELLS; i++)
        r.cells[i] = r.number == 0;
    for (int step = 0; step < STEPS; step++) {
        exchange(&r);
        smooth(&r);
    }
    wrong = finish(&r);
    must(mbx_job_fence(job), "mbx_job_fence");
    must(mbx_close(r.ep), "mbx_close");
    mbx_job_close(job);
    return wrong;
}
