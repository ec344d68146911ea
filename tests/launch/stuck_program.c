/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck_program.c - jobs of the library that wait for ever, each in its own way, and some that
 * only seem to; for stuck_test.py.
 *
 * usage: stuck_program PATTERN
 *
 * A rank prints "ready PID" before it begins to wait.  A pattern that ends is an error.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#define CONTEXT 1
#define LONG    ((size_t)1 << 20)

static struct mbx_ep *ep;
static uint32_t rank, ranks;
static char out[LONG], in[LONG];

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "stuck_program: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static mbx_request begin_send(uint32_t to, uint64_t tag, size_t size)
{
    mbx_request request;

    must(mbx_send(ep, to, CONTEXT, tag, out, size, NULL, &request), "mbx_send");
    return request;
}

static mbx_request begin_receive(uint32_t from, uint64_t tag)
{
    mbx_request request;

    must(mbx_recv(ep, from, CONTEXT, tag, 0, in, sizeof in, NULL, &request), "mbx_recv");
    return request;
}

static void end(mbx_request request)
{
    struct mbx_completion completion;

    must(mbx_wait(ep, request, -1, &completion), "mbx_wait");
    must(completion.error, "an operation");
}

static void transfer(uint32_t to, uint64_t tag, size_t size)
{
    end(begin_send(to, tag, size));
}

static void receive(uint32_t from, uint64_t tag)
{
    end(begin_receive(from, tag));
}

/* ---- deadlocks ---- */

static void tag_differs(void)
{
    if (rank == 1)
        transfer(0, 8, 4);
    receive(1 - rank, rank == 0 ? 7 : 9);
}

static void context_differs(void)
{
    mbx_request request;

    if (rank == 1)
        must(mbx_send(ep, 0, CONTEXT + 1, 7, out, 4, NULL, &request), "mbx_send");
    receive(1 - rank, 7);
}

static void source_differs(void)
{
    if (rank == 1)
        transfer(0, 7, 4);
    receive(rank == 0 ? 2 : 0, 7);
}

static void head_to_head(void)
{
    transfer(1 - rank, 5, LONG);
}

static void both_synchronous(void)
{
    mbx_request request;

    must(mbx_ssend(ep, 1 - rank, CONTEXT, 5, out, 4, NULL, &request), "mbx_ssend");
    end(request);
}

static void ring_of_receives(void)
{
    receive((rank + ranks - 1) % ranks, 1);
}

static void ring_of_sends(void)
{
    transfer((rank + 1) % ranks, 1, LONG);
}

static void all_any_source(void)
{
    receive(MBX_ANY_SOURCE, 1);
}

static void wait_all(void)
{
    mbx_request requests[2];

    if (rank == 1)
        receive(0, 1);
    if (rank == 2) /* this rank may still send */
        pause();
    for (uint32_t i = 0; i < 2; i++)
        requests[i] = begin_receive(1 + i, 7);
    must(mbx_wait_all(ep, requests, 2, -1, NULL), "mbx_wait_all");
}

static void wait_any(void)
{
    mbx_request requests[2] = {0};
    int which;

    if (rank == 1)
        receive(0, 1);
    for (uint32_t i = 0; i < 2; i++)
        requests[i] = begin_receive(1, 7 + i);
    must(mbx_wait_any(ep, requests, 2, -1, &which, NULL), "mbx_wait_any");
}

static void receive_from_itself(void)
{
    receive(rank, 3);
}

static void send_to_itself(void)
{
    transfer(rank, 3, LONG);
}

static void two_cycles(void)
{
    receive(rank ^ 1, 1);
}

/* Sends more messages than rank 0 keeps, and only then would send the message for which 0
 * waits. */
static void beyond_the_window(void)
{
    for (int i = 0; i < 200000 && rank == 1; i++)
        transfer(0, 8, 4);
    receive(1 - rank, 7);
}

/* ---- no deadlocks ---- */

static void late_sender(void)
{
    if (rank == 1)
        pause();
    receive(1, 7);
}

static void wait_any_beside(void)
{
    mbx_request requests[2];
    int which;

    if (rank == 1)
        receive(0, 1);
    if (rank == 2)
        pause();
    for (uint32_t i = 0; i < 2; i++)
        requests[i] = begin_receive(1 + i, 7);
    must(mbx_wait_any(ep, requests, 2, -1, &which, NULL), "mbx_wait_any");
}

/* Rank 0 has received long messages, and waits. */
static void attach_forbidden(void)
{
    for (int i = 0; i < 3; i++)
        if (rank == 1)
            transfer(0, 5, LONG);
        else
            receive(1, 5);
    if (rank == 1)
        pause();
    receive(1, 7);
}

/* Tests again and again; the rank may do something else at any time. */
static void polling(void)
{
    struct mbx_completion completion;
    mbx_request request = begin_receive(1 - rank, 7);

    while (mbx_test(ep, request, &completion) == 0)
        ;
}

/* Makes progress without an operation. */
static void nothing_waits(void)
{
    for (;;)
        mbx_progress(ep);
}

static void waits_for_a_while(void)
{
    struct mbx_completion completion;
    mbx_request request = begin_receive(1 - rank, 7);

    while (mbx_wait(ep, request, 50000000, &completion) != 0)
        ;
}

static void running_ring(void)
{
    for (;;) {
        mbx_request request = begin_receive((rank + ranks - 1) % ranks, 1);

        transfer((rank + 1) % ranks, 1, 4);
        end(request);
    }
}

/* As running_ring(), but rank 0 rests in each round: the others wait for it, and leave the
 * cores to the observer. */
static void resting_ring(void)
{
    for (;;) {
        mbx_request request = begin_receive((rank + ranks - 1) % ranks, 1);

        if (rank == 0)
            usleep(1000);
        transfer((rank + 1) % ranks, 1, 4);
        end(request);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} patterns[] = {
    {"tag_differs", tag_differs},
    {"context_differs", context_differs},
    {"source_differs", source_differs},
    {"head_to_head", head_to_head},
    {"both_synchronous", both_synchronous},
    {"ring_of_receives", ring_of_receives},
    {"ring_of_sends", ring_of_sends},
    {"all_any_source", all_any_source},
    {"wait_all", wait_all},
    {"wait_any", wait_any},
    {"receive_from_itself", receive_from_itself},
    {"send_to_itself", send_to_itself},
    {"two_cycles", two_cycles},
    {"beyond_the_window", beyond_the_window},
    {"late_sender", late_sender},
    {"wait_any_beside", wait_any_beside},
    {"attach_forbidden", attach_forbidden},
    {"polling", polling},
    {"nothing_waits", nothing_waits},
    {"two_endpoints", head_to_head},
    {"waits_for_a_while", waits_for_a_while},
    {"running_ring", running_ring},
    {"resting_ring", resting_ring},
};

int main(int argc, char **argv)
{
    struct mbx_job *job;
    struct mbx_ep *second;

    must(mbx_job_open(&job), "mbx_job_open");
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);
    must(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    if (argc == 2 && strcmp(argv[1], "two_endpoints") == 0)
        must(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &second), "mbx_open");
    printf("ready %ld\n", (long)getpid());
    fflush(stdout);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (argc == 2 && strcmp(argv[1], patterns[i].name) == 0)
            patterns[i].run();
    fprintf(stderr, "stuck_program: '%s' is no pattern, or has ended\n",
            argc == 2 ? argv[1] : "");
    return 2;
}
