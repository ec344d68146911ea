/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   as mpi_match.c, for a program that calls the library directly.
 * Method     as mpi_match.c: two ranks, messages of 8 bytes with different tags.
 *              expected    N posted receives, matched in the reverse order
 *              there       mbx_try_recv of each of N messages that have arrived, in the order of
 *                          arrival; only these calls are measured
 *              there_back  the newest message first
 *            WILD 0: all receives are exact; W: every W-th is MBX_ANY_SOURCE (default 8).
 *
 * usage: mbx run --bind -n 2 native_match expected|there|there_back N[,N...] [SECONDS [WILD]]
 */
#include <matchbox/matchbox.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES_MOST 200
#define COUNTS_MOST  16
#define COUNT_MOST   1000000
#define CONTEXT      0
#define CONTROL      1 /* context id of messages that are not measured */
#define TAG_READY    1
#define TAG_MORE     2
#define TAG_FIRST    10

static const char usage[] = "usage: mbx run --bind -n 2 native_match expected|there|there_back "
                            "N[,N...] [SECONDS [WILD]]";

static struct mbx_job *job;
static struct mbx_ep *ep;
static uint32_t rank;
static int count, wild_every = 8;
static mbx_request *requests;
static uint64_t *landed, *sent;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "native_match: rank %u: %s: %s\n", rank, what, why);
    exit(1);
}

static void require(int result, const char *what)
{
    if (result < 0)
        fail(what, mbx_strerror(result));
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wait_for(mbx_request request)
{
    struct mbx_completion done;

    require(mbx_wait(ep, request, -1, &done), "mbx_wait");
    require(done.error, "a request");
}

static uint64_t tag_of(int i)
{
    return TAG_FIRST + (uint64_t)i;
}

static void post(int i)
{
    bool is_wild = wild_every != 0 && i % wild_every == wild_every - 1;

    require(mbx_recv(ep, is_wild ? MBX_ANY_SOURCE : 1 - rank, CONTEXT, tag_of(i), 0, &landed[i],
                     sizeof landed[i], NULL, &requests[i]),
            "mbx_recv");
}

/* Receives message i, which has arrived. */
static void take(int i)
{
    bool is_wild = wild_every != 0 && i % wild_every == wild_every - 1;
    struct mbx_status status;
    int result = mbx_try_recv(ep, is_wild ? MBX_ANY_SOURCE : 1 - rank, CONTEXT, tag_of(i), 0,
                              &landed[i], sizeof landed[i], &status);

    if (result == 1)
        return;
    require(result, "mbx_try_recv");
    post(i); /* it is still at its sender: there were too many */
    wait_for(requests[i]);
}

static void control_send(uint64_t tag, uint64_t value)
{
    require(mbx_inject(ep, 1 - rank, CONTROL, tag, &value, sizeof value, 0), "mbx_inject");
}

static uint64_t control_recv(uint64_t tag)
{
    mbx_request request;
    uint64_t value;

    require(mbx_recv(ep, 1 - rank, CONTROL, tag, 0, &value, sizeof value, NULL, &request),
            "mbx_recv");
    wait_for(request);
    return value;
}

static void send_all(bool is_reverse)
{
    for (int n = 0; n < count; n++) {
        int i = is_reverse ? count - 1 - n : n;

        sent[i] = (uint64_t)i;
        require(mbx_send(ep, 1 - rank, CONTEXT, tag_of(i), &sent[i], sizeof sent[i], NULL,
                         &requests[i]),
                "mbx_send");
    }
    for (int i = 0; i < count; i++)
        wait_for(requests[i]);
}

static void check_landed(void)
{
    for (int i = 0; i < count; i++)
        if (landed[i] != (uint64_t)i)
            fail("a receive", "it got the message of another tag");
    memset(landed, 0xff, (size_t)count * sizeof *landed);
}

static double expected(void)
{
    double start, took;

    if (rank == 0) {
        control_recv(TAG_READY);
        send_all(true);
        return 0;
    }
    start = now_s();
    for (int i = 0; i < count; i++)
        post(i);
    control_send(TAG_READY, 0);
    for (int i = count - 1; i >= 0; i--)
        wait_for(requests[i]);
    took = now_s() - start;
    check_landed();
    return took;
}

/* Messages of one sender do not overtake each other, so all N have arrived when the last
 * has. */
static double there(bool is_back)
{
    double start, took;

    if (rank == 0) {
        control_recv(TAG_READY);
        send_all(false);
        control_send(TAG_READY, 0);
        return 0;
    }
    control_send(TAG_READY, 0);
    control_recv(TAG_READY);
    start = now_s();
    for (int n = 0; n < count; n++) {
        int i = is_back ? count - 1 - n : n;

        take(i);
    }
    took = now_s() - start;
    check_landed();
    return took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Rank 1, which measures, decides whether there is another batch. */
static bool goes_on(double start, double seconds, int batches)
{
    bool more = batches < 2 || (batches <= BATCHES_MOST && now_s() - start < seconds);

    if (rank == 0)
        return control_recv(TAG_MORE) != 0;
    control_send(TAG_MORE, more);
    return more;
}

static void run(const char *what, double seconds)
{
    static double took[BATCHES_MOST + 2];
    double start = now_s(), *counted = took + 1; /* the first was a warm-up */
    int batches = 0;

    while (goes_on(start, seconds, batches))
        took[batches++] = strcmp(what, "expected") == 0 ? expected() : there(what[5] != '\0');
    if (rank == 0)
        return;
    batches--;
    qsort(counted, (size_t)batches, sizeof *counted, compare);
    printf("bench=native_%s engine=native depth=%d wild_every=%d median_ns=%.1f min_ns=%.1f "
           "repeats=%d\n",
           what, count, wild_every, counted[batches / 2] * 1e9 / count,
           counted[0] * 1e9 / count, batches);
    fflush(stdout);
}

/* Parses a list like 1,16,256 into counts; returns their number, 0 if it is not such a list. */
static int to_counts(const char *text, int *counts)
{
    char *end;

    for (int n = 0; n < COUNTS_MOST; text = end + 1) {
        long value = strtol(text, &end, 10);

        if (end == text || value < 1 || value > COUNT_MOST || (*end != ',' && *end != '\0'))
            return 0;
        counts[n++] = (int)value;
        if (*end == '\0')
            return n;
    }
    return 0;
}

static bool is_mode(const char *what)
{
    return strcmp(what, "expected") == 0 || strcmp(what, "there") == 0 ||
           strcmp(what, "there_back") == 0;
}

/* Parses the arguments; returns the number of depths.  The program ends if an argument is
 * wrong. */
static int parse(int argc, char **argv, int *counts, double *seconds)
{
    int depths = argc >= 3 && argc <= 5 && is_mode(argv[1]) ? to_counts(argv[2], counts) : 0;
    bool is_right = depths != 0;
    char *end;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        exit(0);
    }
    if (is_right && argc > 3) {
        *seconds = strtod(argv[3], &end);
        is_right = end != argv[3] && *end == '\0' && *seconds >= 0;
    }
    if (is_right && argc > 4) {
        long every = strtol(argv[4], &end, 10);

        is_right = end != argv[4] && *end == '\0' && every >= 0 && every <= COUNT_MOST;
        wild_every = (int)every;
    }
    if (is_right)
        return depths;
    fprintf(stderr, "native_match: wrong arguments\n%s\n", usage);
    exit(2);
}

static void open_rank(void)
{
    struct mbx_config config = {.key = NULL};

    require(mbx_job_open(&job), "mbx_job_open");
    rank = mbx_job_rank(job);
    if (mbx_job_size(job) != 2)
        fail("the job", "it takes two ranks: mbx run -n 2");
    config.key = mbx_job_key(job);
    require(mbx_open(&config, &ep), "mbx_open");
    require(mbx_job_connect(job, ep), "mbx_job_connect");
}

int main(int argc, char **argv)
{
    int counts[COUNTS_MOST], most = 0;
    double seconds = 0.5;
    int depths = parse(argc, argv, counts, &seconds);

    for (int i = 0; i < depths; i++)
        most = counts[i] > most ? counts[i] : most;
    requests = calloc((size_t)most, sizeof *requests);
    landed = malloc((size_t)most * sizeof *landed);
    sent = malloc((size_t)most * sizeof *sent);
    if (requests == NULL || landed == NULL || sent == NULL)
        fail("memory", "there is not enough");
    memset(landed, 0xff, (size_t)most * sizeof *landed);
    open_rank();
    for (int i = 0; i < depths; i++) {
        count = counts[i];
        run(argv[1], seconds);
    }
    require(mbx_job_fence(job), "mbx_job_fence");
    require(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    free(requests);
    free(landed);
    free(sent);
    return 0;
}
