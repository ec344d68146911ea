/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * first.c - the shortest program with the library: each rank greets the next one.
 *
 * Run:  cc first.c $(pkg-config --cflags --libs matchbox) -o first && mbx run -n 4 ./first
 */
#include <matchbox/matchbox.h>

#include <stdio.h>
#include <stdlib.h>

static void must(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "first: %s: %s\n", what, mbx_strerror(err));
        exit(1);
    }
}

int main(void)
{
    struct mbx_config config = {.params = NULL};
    enum { CONTEXT = 1, GREETING = 7 };
    mbx_request requests[2];
    char out[32], in[32];
    struct mbx_job *job;
    struct mbx_ep *ep;
    uint32_t rank, ranks;

    must(mbx_job_open(&job), "mbx_job_open"); /* who was started with us? */
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect"); /* peer numbers are ranks */
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);

    snprintf(out, sizeof out, "hello from rank %u", rank);
    must(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, GREETING, 0, in, sizeof in, NULL, &requests[0]),
         "mbx_recv");
    must(mbx_send(ep, (rank + 1) % ranks, CONTEXT, GREETING, out, sizeof out, NULL,
                  &requests[1]),
         "mbx_send");
    if (mbx_wait_all(ep, requests, 2, -1, NULL) != 0) /* how many have failed */
        return 1;
    printf("rank %u: %s\n", rank, in);

    must(mbx_job_fence(job), "mbx_job_fence");
    must(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    return 0;
}
