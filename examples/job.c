/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - three small parallel programs over matchbox.h, one after the other:
 *
 *   work queue   rank 0 hands out tasks to whoever asks (MBX_ANY_SOURCE)
 *   ring         a token goes around all ranks
 *   rendezvous   64 MiB, or as many as the argument says, from each rank to the next, checked byte
 *                by byte
 *
 * Run:  mbx run -n 4 ./job [MIB]
 */
#include <matchbox/matchbox.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT_WORK = 1, CONTEXT_RING, CONTEXT_BIG };
enum { TAG_ASK = 1, TAG_TASK, TAG_TOKEN, TAG_BLOCK };

#define TASKS     10000
#define LAPS      1000
#define BLOCK_MIB 64

struct task {
    uint64_t number; /* 0: no more work */
};

struct answer {
    uint64_t number, result; /* number 0: a first request for work */
};

static struct mbx_ep *ep;
static uint32_t rank, ranks;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "job: rank %u: ", rank);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void must(int err, const char *what)
{
    if (err < 0)
        die("%s: %s", what, mbx_strerror(err));
}

static void wait_for(mbx_request request, struct mbx_completion *completion)
{
    struct mbx_completion own;

    if (completion == NULL)
        completion = &own;
    must(mbx_wait(ep, request, -1, completion), "wait");
    must(completion->error, "request");
}

static void send_to(uint32_t peer, uint32_t context, uint64_t tag, const void *buf, size_t size)
{
    mbx_request request;

    must(mbx_send(ep, peer, context, tag, buf, size, NULL, &request), "send");
    wait_for(request, NULL);
}

static uint32_t recv_from(uint32_t source, uint32_t context, uint64_t tag, void *buf,
                          size_t size)
{
    struct mbx_completion completion;
    mbx_request request;

    must(mbx_recv(ep, source, context, tag, 0, buf, size, NULL, &request), "recv");
    wait_for(request, &completion);
    return completion.status.source;
}

static uint64_t work(uint64_t number)
{
    return number * number;
}

/* Rank 0: answers every request with a task until all are done. */
static void hand_out(void)
{
    uint64_t next = 1, sum = 0, expected = 0;

    for (uint32_t working = ranks - 1; working > 0;) {
        struct answer answer;
        struct task task = {next <= TASKS ? next : 0};
        uint32_t who = recv_from(MBX_ANY_SOURCE, CONTEXT_WORK, TAG_ASK, &answer, sizeof answer);

        sum += answer.result;
        send_to(who, CONTEXT_WORK, TAG_TASK, &task, sizeof task);
        next += task.number != 0;
        working -= task.number == 0;
    }
    for (uint64_t i = 1; i <= TASKS; i++)
        expected += work(i);
    if (ranks > 1 && sum != expected)
        die("work queue: the sum is %llu, not %llu", (unsigned long long)sum,
            (unsigned long long)expected);
    printf("work queue: %d tasks, %u workers, sum right\n", ranks > 1 ? TASKS : 0, ranks - 1);
}

static void ask_for_work(void)
{
    struct answer answer = {0, 0};
    struct task task;

    for (;;) {
        send_to(0, CONTEXT_WORK, TAG_ASK, &answer, sizeof answer);
        recv_from(0, CONTEXT_WORK, TAG_TASK, &task, sizeof task);
        if (task.number == 0)
            return;
        answer = (struct answer){task.number, work(task.number)};
    }
}

static void ring(void)
{
    uint32_t left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    uint64_t token = 0;

    for (int lap = 0; lap < LAPS; lap++) {
        if (rank != 0)
            recv_from(left, CONTEXT_RING, TAG_TOKEN, &token, sizeof token);
        token++;
        send_to(right, CONTEXT_RING, TAG_TOKEN, &token, sizeof token);
        if (rank == 0)
            recv_from(left, CONTEXT_RING, TAG_TOKEN, &token, sizeof token);
    }
    if (rank == 0 && token != (uint64_t)LAPS * ranks)
        die("ring: the token is %llu, not %llu", (unsigned long long)token,
            (unsigned long long)LAPS * ranks);
    if (rank == 0)
        printf("ring: %d laps, token right\n", LAPS);
}

static uint64_t block_word(uint32_t owner, size_t i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + owner;
}

static void rendezvous(size_t size)
{
    uint32_t left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    size_t words = size / sizeof(uint64_t);
    uint64_t *out = malloc(size), *in = malloc(size);
    mbx_request receive, send;

    if (out == NULL || in == NULL)
        die("no memory for two blocks of %zu bytes", size);
    for (size_t i = 0; i < words; i++)
        out[i] = block_word(rank, i);
    must(mbx_recv(ep, left, CONTEXT_BIG, TAG_BLOCK, 0, in, size, NULL, &receive), "recv");
    must(mbx_send(ep, right, CONTEXT_BIG, TAG_BLOCK, out, size, NULL, &send), "send");
    wait_for(receive, NULL);
    wait_for(send, NULL);
    for (size_t i = 0; i < words; i++)
        if (in[i] != block_word(left, i))
            die("rendezvous: word %zu of the block of rank %u is wrong", i, left);
    free(out);
    free(in);
    if (rank == 0)
        printf("rendezvous: %zu MiB around, all words right\n", size >> 20);
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : BLOCK_MIB;
    struct mbx_config config = {0};
    struct mbx_job *job;

    if (mib < 1 || mib > BLOCK_MIB)
        die("the argument is a number of MiB from 1 to %d, not '%s'", BLOCK_MIB, argv[1]);
    must(mbx_job_open(&job), "job");
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "open");
    must(mbx_job_connect(job, ep), "connect");

    if (rank == 0)
        hand_out();
    else
        ask_for_work();
    ring();
    rendezvous(mib << 20);

    must(mbx_job_fence(job), "fence");
    must(mbx_close(ep), "close");
    mbx_job_close(job);
    return 0;
}
