/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   as start_mpi.c, for a job of the library: what do start and end cost, and the
 *            first message between every two ranks?
 * Method     as start_mpi.c: mbx_job_open, mbx_open and mbx_job_connect are the start, mbx_job_fence,
 *            mbx_close and mbx_job_close the end.  kept_kib is the growth of the job after
 *            nobody has sent anything for QUIET_S; tables_kib is the size of its page tables, which
 *            the other figures do not include.
 *
 * usage: mbx run -n RANKS start_native nothing|contact
 */
#include <matchbox/matchbox.h>

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_HELLO = 1, TAG_SUM };

#define QUIET_S 3.0

struct report {
    double first_s, again_s;
    int64_t grown_kib, whole_kib, kept_kib, tables_kib;
};

static struct mbx_job *job;
static struct mbx_ep *ep;
static uint32_t rank, ranks;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void require(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "start_native: rank %u: %s: %s\n", rank, what, mbx_strerror(result));
    exit(1);
}

static void wait_for(mbx_request request)
{
    struct mbx_completion done;

    require(mbx_wait(ep, request, -1, &done), "mbx_wait");
    require(done.error, "a request");
}

/* The number after this word in a file of the system, in KiB. */
static int64_t kib_in(const char *path, const char *word)
{
    FILE *file = fopen(path, "r");
    char line[200];
    int64_t kib = -1;

    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, word, strlen(word)) == 0)
            kib = strtol(line + strlen(word), NULL, 10);
    if (file != NULL)
        fclose(file);
    if (kib < 0) {
        fprintf(stderr, "start_native: %s has no %s\n", path, word);
        exit(1);
    }
    return kib;
}

/* The Pss of this process. */
static int64_t memory_kib(void)
{
    return kib_in("/proc/self/smaps_rollup", "Pss:");
}

static int64_t tables_kib(void)
{
    return kib_in("/proc/self/status", "VmPTE:");
}

/* Every rank exchanges a message with every other one; seconds of this rank. */
static double contact(mbx_request *requests, uint64_t *in, uint64_t turn)
{
    uint64_t out = turn * ranks + rank;
    unsigned count = 0;
    double start, took;

    memset(in, 0, ranks * sizeof *in);
    require(mbx_job_fence(job), "mbx_job_fence");
    start = now_s();
    for (uint32_t i = 1; i < ranks; i++) {
        uint32_t from = (rank + ranks - i) % ranks;

        require(mbx_recv(ep, from, 0, TAG_HELLO, 0, &in[from], sizeof *in, NULL,
                         &requests[count++]),
                "mbx_recv");
    }
    for (uint32_t i = 1; i < ranks; i++)
        require(mbx_send(ep, (rank + i) % ranks, 0, TAG_HELLO, &out, sizeof out, NULL,
                         &requests[count++]),
                "mbx_send");
    for (unsigned i = 0; i < count; i++)
        wait_for(requests[i]);
    took = now_s() - start;
    for (uint32_t i = 0; i < ranks; i++)
        require(i == rank || in[i] == turn * ranks + i ? 0 : -1, "the content of a message");
    return took;
}

/* Rank 0 gathers the results: the slowest times, the sum of the memory. */
static void gather(struct report *mine)
{
    mbx_request request;

    if (rank != 0) {
        require(mbx_send(ep, 0, 0, TAG_SUM, mine, sizeof *mine, NULL, &request), "mbx_send");
        wait_for(request);
        return;
    }
    for (uint32_t i = 1; i < ranks; i++) {
        struct report other;

        require(mbx_recv(ep, i, 0, TAG_SUM, 0, &other, sizeof other, NULL, &request),
                "mbx_recv");
        wait_for(request);
        mine->first_s = other.first_s > mine->first_s ? other.first_s : mine->first_s;
        mine->again_s = other.again_s > mine->again_s ? other.again_s : mine->again_s;
        mine->grown_kib += other.grown_kib;
        mine->whole_kib += other.whole_kib;
        mine->kept_kib += other.kept_kib;
        mine->tables_kib += other.tables_kib;
    }
}

/* Polls without sending, like a program that waits for something else. */
static void be_quiet(void)
{
    double end = now_s() + QUIET_S;

    while (now_s() < end) {
        for (int i = 0; i < 128; i++)
            (void)mbx_progress(ep);
        sched_yield();
    }
}

static void contacts(void)
{
    mbx_request *requests = malloc(2 * ranks * sizeof *requests);
    uint64_t *in = malloc(ranks * sizeof *in);
    struct report mine;
    int64_t before, tables_before;

    if (requests == NULL || in == NULL) {
        fprintf(stderr, "start_native: no memory\n");
        exit(1);
    }
    require(mbx_job_fence(job), "mbx_job_fence");
    before = memory_kib();
    tables_before = tables_kib();
    mine.first_s = contact(requests, in, 1);
    mine.again_s = contact(requests, in, 2);
    mine.whole_kib = memory_kib();
    mine.grown_kib = mine.whole_kib - before;
    mine.tables_kib = tables_kib() - tables_before;
    be_quiet();
    mine.kept_kib = memory_kib() - before;
    gather(&mine);
    if (rank == 0)
        printf("first_ms=%.3f again_ms=%.3f grown_kib=%lld whole_kib=%lld kept_kib=%lld "
               "tables_kib=%lld ",
               mine.first_s * 1e3, mine.again_s * 1e3, (long long)mine.grown_kib,
               (long long)mine.whole_kib, (long long)mine.kept_kib, (long long)mine.tables_kib);
    free(requests);
    free(in);
}

int main(int argc, char **argv)
{
    struct mbx_config config = {.key = NULL};
    double start = now_s(), up;

    if (argc != 2 || (strcmp(argv[1], "nothing") != 0 && strcmp(argv[1], "contact") != 0)) {
        int is_asked = argc == 2 && strcmp(argv[1], "--help") == 0;

        fprintf(is_asked ? stdout : stderr,
                "usage: mbx run -n RANKS start_native nothing|contact\n");
        return is_asked ? 0 : 2;
    }
    require(mbx_job_open(&job), "mbx_job_open");
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);
    config.key = mbx_job_key(job);
    require(mbx_open(&config, &ep), "mbx_open");
    require(mbx_job_connect(job, ep), "mbx_job_connect");
    up = now_s() - start;
    if (rank == 0)
        printf("bench=start_%s engine=native ranks=%u ", argv[1], ranks);
    if (strcmp(argv[1], "contact") == 0)
        contacts();
    start = now_s();
    require(mbx_job_fence(job), "mbx_job_fence");
    require(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    if (rank == 0)
        printf("init_ms=%.3f finalize_ms=%.3f\n", up * 1e3, (now_s() - start) * 1e3);
    return 0;
}
