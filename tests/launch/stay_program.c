/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stay_program.c - a rank that stays open, so that others can attack it.
 *
 * usage: stay_program FIFO
 *
 * Opens FIFO to read, opens an endpoint, and prints "open".  When FIFO has no writer any more,
 * it exchanges a message with every rank, closes the endpoint, and prints "closed".  FIFO has a
 * writer until after the last rank has printed "open".
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "stay_program: %s: %s\n", what, mbx_strerror(result));
    exit(1);
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void await_end(int fd)
{
    char byte;

    must(read(fd, &byte, 1) == 0 ? 0 : -1, "the end of the FIFO");
    close(fd);
}

static void exchange(struct mbx_ep *ep, uint32_t peer, uint32_t rank)
{
    struct mbx_completion completion;
    mbx_request sent, received;
    uint32_t in = UINT32_MAX;

    must(mbx_recv(ep, peer, 1, 0, 0, &in, sizeof in, NULL, &received), "recv");
    must(mbx_send(ep, peer, 1, 0, &rank, sizeof rank, NULL, &sent), "send");
    must(mbx_wait(ep, sent, -1, &completion), "wait");
    must(completion.error, "a send");
    must(mbx_wait(ep, received, -1, &completion), "wait");
    must(completion.error, "a receive");
    must(in == peer ? 0 : -1, "another message");
}

int main(int argc, char **argv)
{
    struct mbx_config config = {.key = NULL};
    struct mbx_job *job;
    struct mbx_ep *ep;
    int fifo;

    if (argc != 2) {
        fprintf(stderr, "usage: stay_program FIFO\n");
        return 2;
    }
    fifo = open(argv[1], O_RDONLY | O_CLOEXEC);
    must(fifo >= 0 ? 0 : -1, "the FIFO");
    must(mbx_job_open(&job), "job");
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "open");
    must(mbx_job_connect(job, ep), "connect");
    say("open");
    await_end(fifo);
    for (uint32_t peer = 0; peer < mbx_job_size(job); peer++)
        exchange(ep, peer, mbx_job_rank(job));
    must(mbx_close(ep), "close");
    mbx_job_close(job);
    say("closed");
    return 0;
}
