/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what is the bandwidth of non-contiguous data, as a vector or through callbacks,
 *            compared with a program that packs all of it, sends, receives and unpacks all of
 *            it?
 * Method     two processes, each pinned to a core, over shared memory.  The data are blocks with
 *            gaps of the same size between them.  WINDOW messages are posted at both sides; when all
 *            are complete, the receiver sends an empty message.  All ways in turn,
 *            REPEATS times; the fastest repeat of each counts.
 *
 *              flat            one buffer at both sides: a baseline without gaps
 *              copied          packed whole before the send, unpacked whole after the receive
 *              vector          struct mbx_iovec at both sides
 *              callbacks       pack and unpack at both sides
 *              vector-flat     a vector is sent into one buffer
 *              flat-vector     one buffer is sent into a vector
 *
 *   pieces [BLOCK [REPEATS]]
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#define WINDOW  4
#define LONGEST ((size_t)4 << 20)
#define VOLUME  ((size_t)16 << 20) /* approximate bytes of one repeat */

enum placement { FLAT, COPIED, VECTOR, CALLBACKS };

static const struct {
    const char *name;
    enum placement from, to;
} ways[] = {
    {"flat", FLAT, FLAT},          {"copied", COPIED, COPIED},
    {"vector", VECTOR, VECTOR},    {"callbacks", CALLBACKS, CALLBACKS},
    {"vector-flat", VECTOR, FLAT}, {"flat-vector", FLAT, VECTOR},
};
#define WAYS (sizeof ways / sizeof ways[0])

static size_t block = 64;
static int rank;
static struct mbx_ep *ep;
static char *memory[WINDOW], *flat[WINDOW];
static struct mbx_iovec *parts[WINDOW];

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "pieces: %s: %s\n", what, mbx_strerror(result));
    exit(1);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the data ---- */

/* Copies [offset, offset + size) of the data, which has its gaps at `there`. */
static void move(char *there, size_t offset, char *here, size_t size, bool packs)
{
    while (size != 0) {
        size_t within = offset % block;
        size_t step = size < block - within ? size : block - within;
        char *at = there + offset / block * 2 * block + within;

        if (packs)
            memcpy(here, at, step);
        else
            memcpy(at, here, step);
        here += step;
        offset += step;
        size -= step;
    }
}

static int64_t pack(void *context, size_t offset, void *to, size_t size)
{
    move(context, offset, to, size, true);
    return (int64_t)size;
}

static int unpack(void *context, size_t offset, const void *from, size_t size)
{
    move(context, offset, (char *)(uintptr_t)from, size, false);
    return 0;
}

static void make(void)
{
    for (int i = 0; i < WINDOW; i++) {
        memory[i] = malloc(2 * LONGEST + 2 * block);
        flat[i] = malloc(LONGEST);
        parts[i] = malloc((LONGEST / block + 1) * sizeof *parts[i]);
        if (memory[i] == NULL || flat[i] == NULL || parts[i] == NULL)
            exit(1);
        memset(memory[i], i, 2 * LONGEST + 2 * block);
        memset(flat[i], i, LONGEST);
        for (size_t k = 0; k <= LONGEST / block; k++)
            parts[i][k] = (struct mbx_iovec){memory[i] + k * 2 * block, block};
    }
}

/* ---- messages ---- */

static const struct mbx_options *options_of(enum placement placement, int i, size_t size)
{
    static struct mbx_layout layout;
    static struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};

    layout = (struct mbx_layout){.context = memory[i]};
    if (placement == VECTOR) {
        layout.parts = parts[i];
        layout.count = size / block + 1;
    } else {
        layout.pack = pack;
        layout.unpack = unpack;
    }
    return placement == VECTOR || placement == CALLBACKS ? &options : NULL;
}

static void *buffer_of(enum placement placement, int i)
{
    return placement == FLAT || placement == COPIED ? flat[i] : NULL;
}

static void send_all(enum placement placement, size_t size)
{
    mbx_request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        if (placement == COPIED)
            move(memory[i], 0, flat[i], size, true);
        must(mbx_send(ep, 1, 1, 0, buffer_of(placement, i), size,
                      options_of(placement, i, size), &requests[i]),
             "mbx_send");
    }
    must(mbx_wait_all(ep, requests, WINDOW, -1, NULL), "mbx_wait_all");
}

static void recv_all(enum placement placement, size_t size)
{
    mbx_request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++)
        must(mbx_recv(ep, 0, 1, 0, 0, buffer_of(placement, i), size,
                      options_of(placement, i, size), &requests[i]),
             "mbx_recv");
    for (int i = 0; i < WINDOW; i++) {
        must(mbx_wait(ep, requests[i], -1, NULL), "mbx_wait");
        if (placement == COPIED)
            move(memory[i], 0, flat[i], size, false);
    }
}

/* Sends an empty message to the other side, or receives one. */
static void empty(bool sends)
{
    mbx_request request;

    if (sends)
        must(mbx_send(ep, (uint32_t)!rank, 2, 0, NULL, 0, NULL, &request), "mbx_send");
    else
        must(mbx_recv(ep, (uint32_t)!rank, 2, 0, 0, NULL, 0, NULL, &request), "mbx_recv");
    must(mbx_wait(ep, request, -1, NULL), "mbx_wait");
}

/* MB/s of one repeat. */
static double repeat(size_t way, size_t size)
{
    size_t rounds = 1 + VOLUME / WINDOW / size;
    double start;

    if (rounds > 500)
        rounds = 500;
    empty(rank == 0);
    empty(rank == 1);
    start = now_ns();
    for (size_t i = 0; i < rounds; i++) {
        if (rank == 0)
            send_all(ways[way].from, size);
        else
            recv_all(ways[way].to, size);
        empty(rank == 1);
    }
    return (double)(rounds * WINDOW * size) * 1e3 / (now_ns() - start);
}

static void measure(int repeats)
{
    for (size_t size = 1 << 10; size <= LONGEST; size *= 4) {
        double best[WAYS] = {0};

        for (int i = 0; i < repeats; i++)
            for (size_t way = 0; way < WAYS; way++) {
                double rate = repeat(way, size);

                best[way] = rate > best[way] ? rate : best[way];
            }
        for (size_t way = 0; way < WAYS && rank == 0; way++)
            printf("case=pieces way=%s size=%zu block=%zu mb_s=%.0f of_copied=%.2f\n",
                   ways[way].name, size, block, best[way], best[way] / best[1]);
        fflush(stdout);
    }
}

/* ---- two processes ---- */

static void pin(int number)
{
    cpu_set_t set;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

    CPU_ZERO(&set);
    CPU_SET(number % cpus, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Both processes number the peers 0 and 1 in the same way. */
static void meet(int in, int out)
{
    struct mbx_address addresses[2];
    uint32_t number;

    must(mbx_open(NULL, &ep), "mbx_open");
    mbx_address_get(ep, &addresses[rank]);
    if (write(out, &addresses[rank], sizeof addresses[0]) != sizeof addresses[0] ||
        read(in, &addresses[!rank], sizeof addresses[0]) != sizeof addresses[0])
        exit(1);
    must(mbx_peer_add(ep, &addresses[0], &number), "mbx_peer_add");
    must(mbx_peer_add(ep, &addresses[1], &number), "mbx_peer_add");
}

int main(int argc, char **argv)
{
    int repeats = argc > 2 ? atoi(argv[2]) : 20, down[2], up[2];

    block = argc > 1 ? strtoul(argv[1], NULL, 10) : block;
    if (block == 0 || pipe(down) != 0 || pipe(up) != 0)
        return 1;
    rank = fork() == 0;
    if (rank == 1)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(rank);
    make();
    meet(rank == 0 ? up[0] : down[0], rank == 0 ? down[1] : up[1]);
    measure(repeats);
    mbx_close(ep);
    if (rank == 0)
        wait(NULL);
    return 0;
}
