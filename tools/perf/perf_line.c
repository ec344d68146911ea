/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_line.c - the lowest possible latency of a message between two cores.
 *
 * One word in a page that both ranks map: a rank that sees the awaited number writes the next
 * one.  The cache line has no other data, and the ranks do nothing else, so the
 * time per flip is the time to move one line from one core to the other.
 *
 * The page is a memfd of rank 0; rank 1 opens it through /proc, which the system
 * allows to processes of one user.
 */
#include "perf.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/sys.h"

#define LINE_BYTES 4096
#define LINE_TAG   1
#define SPINS      100000 /* then yield: with one core, the peer needs it */

struct perf_line {
    _Atomic uint64_t word; /* flips so far: odd after rank 0, even after rank 1 */
};

/* The place of rank 0's page: process ids are valid only on their own host. */
struct place {
    uint64_t host;
    int32_t pid, fd;
};

static int send_wait(struct perf *p, const void *buf, size_t size)
{
    mbx_request request;
    int err = mbx_send(p->ep, p->peer, 0, LINE_TAG, buf, size, NULL, &request);

    return err != 0 ? err : perf_wait(p, request, size);
}

static int recv_wait(struct perf *p, void *buf, size_t size)
{
    mbx_request request;
    int err = mbx_recv(p->ep, p->peer, 0, LINE_TAG, 0, buf, size, NULL, &request);

    return err != 0 ? err : perf_wait(p, request, size);
}

static struct perf_line *map_line(int fd)
{
    return fd >= 0 ? sys_mmap(LINE_BYTES, fd, 0) : NULL;
}

static int make_line(struct perf *p)
{
    struct place place = {.pid = (int32_t)getpid()};
    uint8_t is_shared;
    int err = host_id(&place.host);

    if (err != 0)
        return err;
    place.fd = sys_memfd_create("matchbox-line", MFD_CLOEXEC);
    if (place.fd < 0)
        return -errno;
    if (sys_ftruncate(place.fd, LINE_BYTES) < 0 || (p->line = map_line(place.fd)) == NULL) {
        err = -errno;
    } else if ((err = send_wait(p, &place, sizeof place)) == 0) {
        err =
            recv_wait(p, &is_shared, sizeof is_shared); /* the peer has opened it, or cannot */
        if (err == 0 && !is_shared)
            perf_line_close(p);
    }
    sys_close(place.fd);
    return err;
}

/* Maps the page of the other rank; NULL: it is on another host, or not accessible. */
static struct perf_line *open_line(const struct place *place)
{
    struct perf_line *line;
    char path[64];
    uint64_t host;
    int fd;

    if (host_id(&host) != 0 || host != place->host)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place->pid, (int)place->fd);
    fd = sys_open(path, O_RDWR, 0);
    line = map_line(fd);
    if (fd >= 0)
        sys_close(fd);
    return line;
}

static int find_line(struct perf *p)
{
    struct place place;
    uint8_t is_shared;
    int err = recv_wait(p, &place, sizeof place);

    if (err != 0)
        return err;
    p->line = open_line(&place);
    is_shared = p->line != NULL;
    return send_wait(p, &is_shared, sizeof is_shared);
}

int perf_line_open(struct perf *p)
{
    int err = p->rank == 0 ? make_line(p) : find_line(p);

    if (err != 0)
        tool_error(p->tool, "the ranks cannot agree on a page for comparison");
    else if (p->line == NULL && p->rank == 0)
        fprintf(
            stderr,
            "mbx perf: the ranks are on two hosts: there is no cache line to compare with\n");
    return err;
}

void perf_line_close(struct perf *p)
{
    if (p->line != NULL)
        sys_munmap(p->line, LINE_BYTES);
    p->line = NULL;
}

static void await_word(struct perf_line *line, uint64_t value)
{
    for (uint32_t spins = 0;; spins++) {
        /* pairs with the release in perf_line_flip() */
        if (atomic_load_explicit(&line->word, memory_order_acquire) == value)
            return;
        if (spins >= SPINS)
            sched_yield();
    }
}

double perf_line_flip(struct perf *p, uint64_t flips)
{
    uint64_t base = atomic_load_explicit(&p->line->word, memory_order_acquire) & ~UINT64_C(1);
    uint64_t start = clock_now();

    for (uint64_t i = 0; i < flips; i++) {
        if (p->rank == 1)
            await_word(p->line, base + 2 * i + 1);
        atomic_store_explicit(&p->line->word, base + 2 * i + 1 + p->rank, memory_order_release);
        if (p->rank == 0)
            await_word(p->line, base + 2 * i + 2);
    }
    return (double)(clock_now() - start) / (2.0 * (double)flips);
}
