/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * install_program.c - a user's first program: each rank sends its number to the next one.
 * install_test.sh compiles it against the installed library.
 */
#include <stdio.h>
#include <string.h>

#include <matchbox/matchbox.h>

static int exchange(struct mbx_ep *ep, uint32_t rank, uint32_t size)
{
    uint32_t left = (rank + size - 1) % size, right = (rank + 1) % size, got = UINT32_MAX;
    mbx_request sent, received;
    struct mbx_completion done;
    int err;

    if ((err = mbx_recv(ep, left, 7, 1, 0, &got, sizeof got, NULL, &received)) != 0 ||
        (err = mbx_send(ep, right, 7, 1, &rank, sizeof rank, NULL, &sent)) != 0 ||
        (err = mbx_wait(ep, received, -1, &done)) != 0 || (err = done.error) != 0 ||
        (err = mbx_wait(ep, sent, -1, &done)) != 0 || (err = done.error) != 0)
        return err;
    return got == left ? 0 : -1;
}

int main(void)
{
    struct mbx_config config = {0};
    struct mbx_job *job;
    struct mbx_ep *ep;
    int err = mbx_job_open(&job);

    if (err != 0)
        goto fail;
    config.key = mbx_job_key(job);
    if ((err = mbx_open(&config, &ep)) != 0 || (err = mbx_job_connect(job, ep)) != 0 ||
        (err = exchange(ep, mbx_job_rank(job), mbx_job_size(job))) != 0 ||
        (err = mbx_job_fence(job)) != 0)
        goto fail;
    mbx_close(ep);
    mbx_job_close(job);
    return strcmp(mbx_version(), "") == 0;

fail:
    fprintf(stderr, "install_program: %s\n", mbx_strerror(err));
    return 1;
}
