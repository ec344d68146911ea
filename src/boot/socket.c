/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket.c - a job of two ranks that have a connected stream socket, inherited or opened
 * before.
 *
 *   rank 0 (host a)                rank 1 (host b)
 *   frame 0: host, key   <───────> frame 0: host, key      open; the key of rank 0 is the job's
 *   frame n: value       <───────> frame n: value          fence n, with the value put in round n
 *
 * A fence sends one frame and waits for one, so a rank that has received the frame knows that
 * the other one is at the same fence.  Frames are not encrypted.
 *
 * Invariants
 *   I1  round counts the fences that both have passed, after frame 0
 *   I2  sent and received are 0 except between an interrupted fence and its repetition
 *   I3  a broken job stays broken: the bytes in the socket no longer begin with a frame
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "boot/methods.h"
#include "boot/socket.h"

struct pair {
    struct boot boot;
    int fd;
    uint64_t timeout_ns;
    uint64_t round;
    struct frame out, in;   /* of the current or next fence */
    size_t sent, received;  /* bytes of these frames */
    struct frame values[2]; /* of the last fence, by rank */
    int broken;             /* the reason why no fence can succeed any more, or 0 */
};

/* The result of boot_is_spread(). */
static struct {
    bool is_known, is_spread;
} hosts;

static struct pair *pair_of(struct boot *b)
{
    return container_of(b, struct pair, boot);
}

bool socket_is_meant(const char *text)
{
    return text != NULL && strncmp(text, BOOT_SOCKET, strlen(BOOT_SOCKET)) == 0;
}

int socket_is_spread(bool *is_spread)
{
    if (!hosts.is_known)
        return -ENOENT;
    *is_spread = hosts.is_spread;
    return 0;
}

/* ---- put, get ---- */

static void frame_clear(struct pair *p)
{
    memset(&p->out, 0, sizeof p->out);
    p->out.magic = FRAME_MAGIC;
    p->out.version = FRAME_VERSION;
    p->out.size = FRAME_NO_VALUE;
    p->out.round = p->round;
}

static int socket_put(struct boot *b, const void *value, size_t size)
{
    struct pair *p = pair_of(b);

    if (size > BOOT_VALUE_MAX)
        return -EMSGSIZE;
    p->out.size = (uint32_t)size;
    memcpy(p->out.value, value, size);
    return 0;
}

static int socket_get(struct boot *b, uint32_t rank, void *value, size_t size)
{
    const struct frame *f = &pair_of(b)->values[rank];

    assert(rank < b->size);
    if (f->magic != FRAME_MAGIC || f->size == FRAME_NO_VALUE)
        return -ENOENT;
    if (f->size != size) {
        LOG_ERROR("rank %u gave the job %u bytes, and %zu were expected", rank, f->size, size);
        return -EPROTO;
    }
    memcpy(value, f->value, size);
    return 0;
}

/* ---- fence ---- */

/* Waits until the socket is ready for events; 0; -EINTR; -ETIMEDOUT. */
static int await(const struct pair *p, short events, uint64_t start)
{
    struct pollfd awaited = {.fd = p->fd, .events = events};
    uint64_t waited = clock_now() - start;
    int timeout_ms = -1, ready;

    if (p->timeout_ns != 0) {
        if (waited >= p->timeout_ns)
            return -ETIMEDOUT;
        timeout_ms = (int)min_size((size_t)((p->timeout_ns - waited) / CLOCK_MS + 1), 60000);
    }
    ready = sys_poll(&awaited, 1, timeout_ms);
    return ready < 0 ? -errno : 0;
}

/* Sends or receives up to size bytes without waiting.  Returns the number of bytes; a negative
 * errno; -EAGAIN it would wait. */
static ssize_t transfer(const struct pair *p, bool is_send, void *bytes, size_t size)
{
    struct iovec piece = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t n = is_send ? sys_sendmsg(p->fd, &message, MSG_DONTWAIT)
                        : sys_recvmsg(p->fd, &message, MSG_DONTWAIT);

    return n < 0 ? -errno : n == 0 ? -ECONNRESET : n;
}

/* Transfers a frame in one direction; *done: the bytes transferred so far. */
static int socket_move(const struct pair *p, bool is_send, void *frame, size_t *done,
                       uint64_t start)
{
    int err = 0;

    while (*done < sizeof(struct frame) && err == 0) {
        ssize_t n =
            transfer(p, is_send, (uint8_t *)frame + *done, sizeof(struct frame) - *done);

        if (n > 0)
            *done += (size_t)n;
        else if (n == -EAGAIN)
            err = await(p, is_send ? POLLOUT : POLLIN, start);
        else
            err = (int)n;
    }
    return err;
}

static int frame_check(const struct pair *p)
{
    const struct frame *f = &p->in;

    if (f->magic == FRAME_MAGIC && f->version == FRAME_VERSION && f->round == p->round &&
        (f->size == FRAME_NO_VALUE || f->size <= BOOT_VALUE_MAX))
        return 0;
    if (f->magic == FRAME_MAGIC && f->version != FRAME_VERSION)
        LOG_ERROR("the other rank speaks version %u of the job's protocol, this one %u: use "
                  "the same Matchbox on both hosts",
                  f->version, FRAME_VERSION);
    else
        LOG_ERROR("the other rank has sent damaged data (fence %llu): use the same Matchbox on "
                  "both hosts",
                  (unsigned long long)p->round);
    return -EPROTO;
}

static int fence_failed(struct pair *p, int err)
{
    if (err == -ETIMEDOUT)
        LOG_ERROR("the other rank gave no answer in %llu s (MBX_BOOT_TIMEOUT): see whether it "
                  "still runs, or raise the variable",
                  (unsigned long long)(p->timeout_ns / CLOCK_S));
    else if (err == -ECONNRESET || err == -EPIPE)
        LOG_ERROR("the other rank, or its connection, has ended: look at its output, and start "
                  "both again");
    p->broken = err == -ETIMEDOUT || err == -EPIPE ? -ECONNRESET : err;
    return p->broken;
}

static int socket_fence(struct boot *b)
{
    struct pair *p = pair_of(b);
    uint64_t start = clock_now();
    int err = p->broken;

    if (err != 0)
        return err;
    err = socket_move(p, true, &p->out, &p->sent, start);
    if (err == 0)
        err = socket_move(p, false, &p->in, &p->received, start);
    if (err == -EINTR)
        return err;
    if (err == 0)
        err = frame_check(p);
    if (err != 0)
        return fence_failed(p, err);
    p->values[b->rank] = p->out;
    p->values[1 - b->rank] = p->in;
    p->sent = p->received = 0;
    p->round++;
    frame_clear(p);
    return 0;
}

/* ---- open, close ---- */

static void socket_close(struct boot *b)
{
    hosts.is_known = false;
    mem_free(pair_of(b));
}

static const struct boot_ops socket_ops = {
    .name = "socket",
    .put = socket_put,
    .get = socket_get,
    .fence = socket_fence,
    .close = socket_close,
};

/* Exchanges frame 0. */
static int socket_meet(struct pair *p)
{
    struct boot *b = &p->boot;
    struct frame_hello own = {.host = 0}, other;
    int err = host_id(&own.host);

    if (err == 0)
        err = random_secret(own.key, sizeof own.key);
    if (err == 0)
        err = socket_put(b, &own, sizeof own);
    if (err != 0)
        return err;
    while ((err = socket_fence(b)) == -EINTR)
        ;
    if (err == 0 && (err = socket_get(b, 1 - b->rank, &other, sizeof other)) == -ENOENT)
        err = -EPROTO;
    if (err != 0)
        return err;
    memcpy(b->key, b->rank == 0 ? own.key : other.key, sizeof b->key);
    hosts.is_spread = own.host != other.host;
    hosts.is_known = true;
    memset(p->values, 0, sizeof p->values); /* there are no values yet */
    return 0;
}

/* Reads BOOT_SOCKET "FD:RANK". */
static int parse_environment(const char *text, int *fd, uint32_t *rank)
{
    const char *number = text + strlen(BOOT_SOCKET);
    char *end;
    long value = strtol(number, &end, 10);

    if (end == number || *number < '0' || *number > '9' || value > 1 << 20 || end[0] != ':' ||
        (end[1] != '0' && end[1] != '1') || end[2] != '\0') {
        LOG_ERROR("MBX_BOOT is not " BOOT_SOCKET "FD:RANK with rank 0 or 1, value %s", text);
        return -EPROTO;
    }
    *fd = (int)value;
    *rank = (uint32_t)(end[1] - '0');
    return 0;
}

int socket_open(const char *text, uint64_t timeout_ns, struct boot **out)
{
    struct pair *p = mem_calloc(1, sizeof *p);
    uint32_t rank;
    int err;

    if (p == NULL)
        return -ENOMEM;
    if ((err = parse_environment(text, &p->fd, &rank)) != 0)
        goto free_pair;
    p->boot = (struct boot){.ops = &socket_ops, .rank = rank, .size = 2};
    p->timeout_ns = timeout_ns;
    frame_clear(p);
    if ((err = socket_meet(p)) != 0)
        goto free_pair;
    *out = &p->boot;
    return 0;

free_pair:
    mem_free(p);
    return err;
}
