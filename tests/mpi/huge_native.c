/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * huge_native.c - one message of more than 2^31 bytes, or of a multiple of that, between two
 * ranks of a job of the library, in each way in which it may match its receive.
 *
 * usage: mbx run -n 2 huge_native [TIMES]     TIMES 2^31 bytes, and some (default 1)
 *
 * The parameters (MBX_RNDV and others) select the protocol.  All bytes are compared.  The
 * program needs two buffers of that size; without memory for them it prints that, and sends
 * nothing.  Exit status 1: an error was found; 2: wrong usage.
 */
#include <matchbox/matchbox.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOME 16424u /* further bytes: no multiple of a page, or of a piece */
#define HOLE UINT64_C(0xdeadbeefdeadbeef)

enum { TAG = 7, READY, ENOUGH };

enum way { POSTED, UNEXPECTED, SYNCHRONOUS, MATCHED, TRUNCATED, WAYS };

static const char *const ways[] = {"posted", "unexpected", "synchronous",
                                   "taken by a matched probe", "into a shorter buffer"};

static struct mbx_job *job;
static struct mbx_ep *ep;
static uint32_t rank;
static uint64_t *buffer;
static size_t size;

static void require(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "huge: rank %u: %s: %s\n", rank, what, mbx_strerror(result));
    exit(1);
}

static void require_equal(uint64_t got, uint64_t want, const char *what)
{
    if (got == want)
        return;
    fprintf(stderr, "huge: rank %u: %s is %" PRIu64 ", not %" PRIu64 "\n", rank, what, got,
            want);
    exit(1);
}

static struct mbx_completion wait_for(mbx_request request)
{
    struct mbx_completion done;

    require(mbx_wait(ep, request, -1, &done), "mbx_wait");
    return done;
}

static void say(uint64_t tag, uint64_t what)
{
    mbx_request request;

    require(mbx_send(ep, 1 - rank, 0, tag, &what, sizeof what, NULL, &request), "mbx_send");
    require(wait_for(request).error, "a short message");
}

static uint64_t hear(uint64_t tag)
{
    mbx_request request;
    uint64_t what = 0;

    require(mbx_recv(ep, 1 - rank, 0, tag, 0, &what, sizeof what, NULL, &request), "mbx_recv");
    require(wait_for(request).error, "a short message");
    return what;
}

static uint64_t word_of(uint64_t at, uint64_t seed)
{
    return (at + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed;
}

static void send_it(enum way way)
{
    struct mbx_completion done;
    mbx_request request;

    for (uint64_t i = 0; i < size / 8; i++)
        buffer[i] = word_of(i, way);
    if (way == POSTED)
        hear(READY);
    require((way == SYNCHRONOUS ? mbx_ssend : mbx_send)(ep, 1, 0, TAG, buffer, size, NULL,
                                                        &request),
            "mbx_send");
    if (way != POSTED)
        say(READY, 1);
    done = wait_for(request);
    require(done.error, "the send");
    require_equal(done.received, size, "the size of what was sent");
}

static mbx_request receive_it(enum way way, size_t capacity)
{
    mbx_request request;
    mbx_message message;
    struct mbx_status status;

    if (way == MATCHED) {
        require(mbx_mprobe(ep, 0, 0, TAG, 0, &status, &message), "mbx_mprobe");
        require_equal(status.size, size, "the size of what a probe finds");
        require(mbx_mrecv(ep, message, buffer, capacity, NULL, &request), "mbx_mrecv");
    } else {
        require(mbx_recv(ep, 0, 0, TAG, 0, buffer, capacity, NULL, &request), "mbx_recv");
    }
    return request;
}

static void receive_and_verify(enum way way)
{
    size_t capacity = way == TRUNCATED ? size - 4096 : size;
    struct mbx_completion done;
    mbx_request request;

    for (uint64_t i = 0; i < size / 8; i++)
        buffer[i] = HOLE;
    if (way != POSTED)
        hear(READY);
    request = receive_it(way, capacity);
    if (way == POSTED)
        say(READY, 1);
    done = wait_for(request);
    if (way == TRUNCATED && done.error == 0)
        require(-1, "a message that is too long was received");
    require(way == TRUNCATED ? 0 : done.error, "the receive");
    require_equal(done.status.size, size, "the size of the message");
    require_equal(done.received, capacity, "the size of what was received");
    for (uint64_t i = 0; i < size / 8; i++)
        if (buffer[i] != (i < capacity / 8 ? word_of(i, way) : HOLE)) {
            fprintf(stderr, "huge: %s: word %" PRIu64 " is wrong\n", ways[way], i);
            exit(1);
        }
    printf("huge: %zu bytes, %s: right\n", size, ways[way]);
    fflush(stdout);
}

/* Returns the bytes that the system has available, or 0 if unknown. */
static uint64_t memory_there(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    uint64_t kib = 0;
    char line[200];

    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) != 1)
            kib = 0;
    if (file != NULL)
        fclose(file);
    return kib << 10;
}

/* Rank 0 checks, and sends the answer to the other. */
static int there_is_memory(void)
{
    uint64_t need = 2 * (uint64_t)size + (UINT64_C(128) << 20), there = memory_there();

    if (rank != 0)
        return hear(ENOUGH) != 0;
    if (there < need)
        printf("huge: left out: it needs %" PRIu64 " MiB, and %" PRIu64 " MiB are available\n",
               need >> 20, there >> 20);
    say(ENOUGH, there >= need);
    return there >= need;
}

int main(int argc, char **argv)
{
    struct mbx_config config = {.key = NULL};
    char none[] = "", *end = none;
    long times = argc > 1 ? strtol(argv[1], &end, 10) : 1;

    require(mbx_job_open(&job), "mbx_job_open");
    rank = mbx_job_rank(job);
    if (mbx_job_size(job) != 2 || argc > 2 || *end != '\0' || times < 1 || times > 64) {
        fprintf(stderr, "usage: mbx run -n 2 huge_native [TIMES], 1 to 64 times 2^31 bytes\n");
        return 2;
    }
    size = ((size_t)times << 31) + SOME;
    config.key = mbx_job_key(job);
    require(mbx_open(&config, &ep), "mbx_open");
    require(mbx_job_connect(job, ep), "mbx_job_connect");
    if (there_is_memory()) {
        buffer = malloc(size);
        require(buffer != NULL ? 0 : -1, "no memory");
        for (enum way way = POSTED; way < WAYS; way++)
            if (rank == 0)
                send_it(way);
            else
                receive_and_verify(way);
        free(buffer);
    }
    require(mbx_job_fence(job), "mbx_job_fence");
    require(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    return 0;
}
