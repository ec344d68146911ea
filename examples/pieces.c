/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces.c - a message with non-contiguous data.
 *
 * Rank 0 sends a column of its matrix, and a header before it; rank 1 receives the header and the
 * numbers into two arrays.  Neither side packs them into a buffer of its own first: a layout describes
 * their places.  The receiver need not know that the sender uses one.
 *
 * Run:  mbx run -n 2 ./pieces
 */
#include <matchbox/matchbox.h>

#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 1, COLUMN = 1, ROWS = 5, COLUMNS = 4 };

struct header {
    int column, rows;
};

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "pieces: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

/* The numbers of a column are not adjacent: each is a part. */
static void send_column(struct mbx_ep *ep, uint32_t peer, double matrix[ROWS][COLUMNS],
                        int column)
{
    struct header header = {.column = column, .rows = ROWS};
    struct mbx_iovec parts[1 + ROWS] = {{&header, sizeof header}};
    const struct mbx_layout layout = {.parts = parts, .count = 1 + ROWS};
    const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};
    struct mbx_completion done;
    mbx_request request;

    for (int row = 0; row < ROWS; row++)
        parts[1 + row] = (struct mbx_iovec){&matrix[row][column], sizeof(double)};
    must(mbx_send(ep, peer, CONTEXT, COLUMN, NULL, sizeof header + ROWS * sizeof(double),
                  &options, &request),
         "mbx_send");
    must(mbx_wait(ep, request, -1, &done), "mbx_wait");
    must(done.error, "the send");
}

static int receive_column(struct mbx_ep *ep, uint32_t peer)
{
    struct header header;
    double numbers[ROWS];
    const struct mbx_iovec parts[] = {{&header, sizeof header}, {numbers, sizeof numbers}};
    const struct mbx_layout layout = {.parts = parts, .count = 2};
    const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};
    struct mbx_completion done;
    mbx_request request;
    int wrong = 0;

    must(mbx_recv(ep, peer, CONTEXT, COLUMN, 0, NULL, sizeof header + sizeof numbers, &options,
                  &request),
         "mbx_recv");
    must(mbx_wait(ep, request, -1, &done), "mbx_wait");
    must(done.error, "the receive");
    printf("column %d:", header.column);
    for (int row = 0; row < header.rows; row++) {
        printf(" %g", numbers[row]);
        wrong += numbers[row] != 10 * row + header.column;
    }
    printf("\n");
    return wrong;
}

int main(void)
{
    struct mbx_config config = {.params = NULL};
    double matrix[ROWS][COLUMNS];
    struct mbx_job *job;
    struct mbx_ep *ep;
    int wrong = 0;

    must(mbx_job_open(&job), "mbx_job_open");
    if (mbx_job_size(job) < 2) {
        fprintf(stderr, "pieces: two ranks are needed: mbx run -n 2 ./pieces\n");
        return 2;
    }
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[i / COLUMNS][i % COLUMNS] = 10 * (i / COLUMNS) + i % COLUMNS;
    if (mbx_job_rank(job) == 0)
        send_column(ep, 1, matrix, 2);
    else if (mbx_job_rank(job) == 1)
        wrong = receive_column(ep, 0);
    must(mbx_job_fence(job), "mbx_job_fence");
    must(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    return wrong != 0;
}
