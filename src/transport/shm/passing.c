/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passing.c - see passing.h.
 *
 * Both sides use datagrams, so that no peer can keep the thread waiting.  Messages are copied,
 * and every unrequested descriptor is closed.
 *
 * Anyone can send to these sockets, and closing a stranger's descriptor can block for as long
 * as the stranger likes.  So none is accepted: the kernel drops a message that does not begin
 * with the required bytes, while the descriptor still belongs to its sender (take_only()).
 *
 *   a request    names a cookie of this process; strangers do not know PASSING_TOKEN bits of it
 *   a reply      has the number of the request, which was told to one socket only; if that socket is
 *                a stranger's, with the name of a process that has ended, the reply stays unread, and
 *                our socket open, until the process ends
 *
 * A request whose reply is lost (no space, no memory) is repeated after PASSING_AGAIN_NS.
 */
#include "transport/shm/passing.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/thread.h"
#include "transport/shm/segment.h"

#define PASSING_MAGIC    UINT64_C(0x317373617078626d) /* "mbxpass1" */
#define PASSING_WAIT_MS  20
#define PASSING_AGAIN_NS CLOCK_S
#define PASSING_TRIES    1000 /* attempts at a free number */
#define PASSING_READS    3
#define PASSING_FDS      4                /* descriptors that are read from a datagram */
#define PASSING_COUNTED  UINT64_C(0xffff) /* the count in a cookie, not the token */

struct request_text {
    uint64_t magic;
    uint64_t nonce;
    uint64_t cookie;
    uint64_t key_check;
};

struct reply_text {
    uint64_t magic;
    uint64_t nonce;
    int64_t error; /* 0, with a descriptor; or -ENOENT, -EACCES, -EPERM */
};

/* The pairs of bytes that each message must begin with, for take_only(). */
#define REQUEST_PAIRS 0xe0fu /* the magic, and the cookie without its count */
#define REPLY_PAIRS   0x0ffu /* the magic and the nonce */

static_assert(offsetof(struct request_text, cookie) == 16 &&
                  __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the count is in the ninth pair");
static_assert(offsetof(struct reply_text, nonce) == 8, "it follows the magic");

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(PASSING_FDS * sizeof(int))];
};

/* A received datagram. */
struct arrival {
    struct sockaddr_un from;
    socklen_t from_size;
    size_t size;
    int fd; /* or -1 */
    bool is_own_user;
};

static struct {
    pthread_mutex_t lock;
    unsigned users;
    uint32_t number;
    uint64_t token; /* the common part of all cookies */
    uint64_t count; /* the count in the last one */
    int fd;         /* socket, bound to our name */
    int bell;       /* eventfd: the thread is to end */
    pthread_t thread;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes the abstract name of a number; returns its size. */
static socklen_t passing_name_of(uint32_t number, struct sockaddr_un *name)
{
    int length;

    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "matchbox/%08x", number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* ---- datagrams ---- */

/* From now on fd accepts only datagrams of size bytes that equal `text` in each pair i of bytes
 * whose bit is in `pairs`.  0; system errors. */
static int take_only(int fd, const void *text, size_t size, unsigned pairs)
{
    struct sock_filter steps[3 + 2 * 12 + 1] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_STMT(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)size),
    };
    struct sock_fprog program = {.filter = steps, .len = 2};

    for (uint32_t i = 0; pairs >> i != 0; i++) {
        uint16_t pair;

        if ((pairs >> i & 1) == 0)
            continue;
        memcpy(&pair, (const unsigned char *)text + i * sizeof pair, sizeof pair);
        steps[program.len++] =
            (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, i * (uint32_t)sizeof pair);
        steps[program.len++] =
            (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JEQ | BPF_K, be16toh(pair));
    }
    for (unsigned short i = 1; i < program.len; i += 2) /* jumps to the last step */
        steps[i].jf = (unsigned char)(program.len - i);
    steps[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    steps[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    assert(program.len <= ARRAY_COUNT(steps));
    return sys_filter(fd, &program) == 0 ? 0 : -errno;
}

static void take_fds(const struct cmsghdr *part, struct arrival *arrival)
{
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < count; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        if (arrival->fd < 0)
            arrival->fd = fd;
        else
            sys_close(fd);
    }
}

static void take_user(const struct cmsghdr *part, struct arrival *arrival)
{
    struct ucred who;

    if (part->cmsg_len != CMSG_LEN(sizeof who))
        return;
    memcpy(&who, CMSG_DATA(part), sizeof who);
    arrival->is_own_user = who.uid == geteuid();
}

/* Receives a datagram of at most size bytes.  0; -EAGAIN there is none; system errors. */
static int receive(int fd, void *text, size_t size, struct arrival *arrival)
{
    union control control;
    struct iovec bytes = {.iov_base = text, .iov_len = size};
    struct msghdr message = {
        .msg_name = &arrival->from,
        .msg_namelen = sizeof arrival->from,
        .msg_iov = &bytes,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ssize_t got = sys_recvmsg(fd, &message, MSG_DONTWAIT);

    if (got < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    arrival->from_size = message.msg_namelen;
    arrival->size = (message.msg_flags & MSG_TRUNC) != 0 ? 0 : (size_t)got;
    arrival->fd = -1;
    arrival->is_own_user = false;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL;
         part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET)
            continue;
        if (part->cmsg_type == SCM_RIGHTS)
            take_fds(part, arrival);
        else if (part->cmsg_type == SCM_CREDENTIALS)
            take_user(part, arrival);
    }
    return 0;
}

/* ---- the owner's side ---- */

struct answer {
    const struct arrival *to;
    struct reply_text text;
};

/* fd: the descriptor to pass; -1: none. */
static int send_reply(void *arg, int fd)
{
    const struct answer *answer = arg;
    struct sockaddr_un to = answer->to->from;
    struct reply_text text = answer->text;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec bytes = {.iov_base = &text, .iov_len = sizeof text};
    struct msghdr message = {
        .msg_name = &to,
        .msg_namelen = answer->to->from_size,
        .msg_iov = &bytes,
        .msg_iovlen = 1,
    };

    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
    }
    sys_sendmsg(server.fd, &message, MSG_DONTWAIT); /* if it is lost, the request is repeated */
    return 0;
}

static void answer_request(const struct arrival *from, const struct request_text *request)
{
    struct answer answer = {.to = from,
                            .text = {.magic = PASSING_MAGIC, .nonce = request->nonce}};
    int err = from->is_own_user
                  ? segment_pass(request->cookie, request->key_check, send_reply, &answer)
                  : -EPERM;

    if (err == 0)
        return;
    answer.text.error = err;
    send_reply(&answer, -1);
}

/* Serves a request, if there is one. */
static void serve_one(void)
{
    struct request_text request;
    struct arrival arrival;

    if (receive(server.fd, &request, sizeof request, &arrival) != 0)
        return;
    if (arrival.fd >= 0)
        sys_close(arrival.fd);
    if (arrival.size == sizeof request && request.magic == PASSING_MAGIC &&
        arrival.from_size > offsetof(struct sockaddr_un, sun_path))
        answer_request(&arrival, &request);
}

/* Checks the bell between any two datagrams: neither an endless sender, nor a call that keeps
 * failing, can keep the process from ending. */
static void *serve(void *arg)
{
    struct pollfd fds[2] = {{.fd = server.fd, .events = POLLIN},
                            {.fd = server.bell, .events = POLLIN}};

    for (;;) {
        if (sys_poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents != 0)
            return arg;
        serve_one();
    }
}

static int bind_number(int fd, uint32_t *number)
{
    struct sockaddr_un name;
    socklen_t size;
    int err;

    for (unsigned i = 0; i < PASSING_TRIES; i++) {
        err = random_secret(number, sizeof *number);
        if (err != 0)
            return err;
        *number |= PASSING_BIT;
        size = passing_name_of(*number, &name);
        if (sys_bind(fd, (const struct sockaddr *)&name, size) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return -errno;
    }
    return -EADDRINUSE;
}

/* Makes a socket without a name, to which nobody has sent anything yet, with take_only(). */
static int open_socket(const void *text, size_t size, unsigned pairs)
{
    int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK), err;

    if (fd < 0)
        return -errno;
    err = take_only(fd, text, size, pairs);
    if (err == 0 && sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, 1) < 0)
        err = -errno;
    if (err == 0)
        return fd;
    sys_close(fd);
    return err;
}

static int server_start(void)
{
    int err = random_secret(&server.token, sizeof server.token);
    struct request_text text = {.magic = PASSING_MAGIC, .cookie = server.token};

    if (err != 0)
        return err;
    server.fd = open_socket(&text, sizeof text, REQUEST_PAIRS);
    if (server.fd < 0)
        return server.fd;
    err = bind_number(server.fd, &server.number);
    if (err != 0)
        goto close_socket;
    server.bell = sys_eventfd(0, 0);
    if (server.bell < 0) {
        err = -errno;
        goto close_socket;
    }
    err = thread_start(&server.thread, serve, NULL);
    if (err == 0)
        return 0;
    sys_close(server.bell);
close_socket:
    sys_close(server.fd);
    return err;
}

static void close_both(void)
{
    sys_close(server.bell);
    sys_close(server.fd);
}

/* ---- fork: the name is the parent's, and ends with the parent ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&server.lock);
}

static void behind_fork(void)
{
    pthread_mutex_unlock(&server.lock);
}

static void behind_fork_in_child(void)
{
    if (server.users != 0)
        close_both();
    server.users = 0;
    pthread_mutex_unlock(&server.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, behind_fork, behind_fork_in_child);
}

/* ---- start and stop ---- */

int passing_start(uint32_t *number)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int err = 0;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&server.lock);
    if (server.users == 0)
        err = server_start();
    if (err == 0) {
        server.users++;
        *number = server.number;
    }
    pthread_mutex_unlock(&server.lock);
    return err;
}

uint64_t passing_cookie(void)
{
    uint64_t cookie;

    pthread_mutex_lock(&server.lock);
    do {
        cookie = (server.token & ~PASSING_COUNTED) | (++server.count & PASSING_COUNTED);
    } while (segment_is_open(cookie));
    pthread_mutex_unlock(&server.lock);
    return cookie;
}

void passing_stop(void)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&server.lock);
    if (server.users != 0 && --server.users == 0) { /* 0 in a child */
        while (sys_write(server.bell, &one, sizeof one) < 0)
            ;
        pthread_join(server.thread, NULL);
        close_both();
    }
    pthread_mutex_unlock(&server.lock);
}

bool passing_is_own(uint32_t number)
{
    bool is_own;

    pthread_mutex_lock(&server.lock);
    is_own = server.users != 0 && server.number == number;
    pthread_mutex_unlock(&server.lock);
    return is_own;
}

/* ---- the other side ---- */

static int connect_to(int fd, uint32_t number)
{
    struct sockaddr_un name;
    socklen_t size = passing_name_of(number, &name);

    return sys_connect(fd, (const struct sockaddr *)&name, size) == 0 ? 0 : -errno;
}

bool passing_is_alive(uint32_t number)
{
    int fd = sys_socket(AF_UNIX, SOCK_DGRAM), err;

    if (fd < 0)
        return true;
    err = connect_to(fd, number);
    sys_close(fd);
    return err != -ECONNREFUSED;
}

/* 0; -EPERM the next message was sent by a stranger; -EAGAIN nothing has come; system
 * errors. */
static int passing_peek(int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred))]; /* no space for a descriptor */
    } control;
    struct msghdr message = {.msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct arrival arrival = {.is_own_user = false};

    if (sys_recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (CMSG_FIRSTHDR(&message) != NULL)
        take_user(CMSG_FIRSTHDR(&message), &arrival);
    return arrival.is_own_user ? 0 : -EPERM;
}

void passing_forget(struct passing_request *request)
{
    int err = -ECONNRESET;

    if (!request->waits)
        return;
    request->waits = false;
    sys_shutdown(request->fd, SHUT_RD); /* nothing can come after the last check */
    /* a replier may reset the connection, and that error is reported first */
    for (int i = 0; i < PASSING_READS && err == -ECONNRESET; i++)
        err = passing_peek(request->fd);
    if (err != -EPERM && err != -ECONNRESET)
        sys_close(request->fd);
}

/* Makes a socket that only that process can answer to. */
static int open_asking(uint32_t number, uint64_t nonce)
{
    const struct reply_text text = {.magic = PASSING_MAGIC, .nonce = nonce};
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = open_socket(&text, sizeof text, REPLY_PAIRS), err = 0;

    if (fd < 0)
        return fd;
    if (sys_bind(fd, (const struct sockaddr *)&any, sizeof any.sun_family) < 0)
        err = -errno;
    if (err == 0)
        err = connect_to(fd, number);
    if (err == 0)
        return fd;
    sys_close(fd);
    return err == -ECONNREFUSED ? -ENOENT : err;
}

static int send_request(uint32_t number, uint64_t cookie, uint64_t key_check,
                        struct passing_request *request)
{
    struct request_text text = {
        .magic = PASSING_MAGIC, .cookie = cookie, .key_check = key_check};
    struct iovec bytes = {.iov_base = &text, .iov_len = sizeof text};
    int err = random_secret(&text.nonce, sizeof text.nonce);

    if (err != 0)
        return err;
    request->nonce = text.nonce;
    request->fd = open_asking(number, text.nonce);
    if (request->fd < 0)
        return request->fd;
    request->asked_ns = clock_now();
    request->waits = true;
    if (sys_sendmsg(request->fd, &(struct msghdr){.msg_iov = &bytes, .msg_iovlen = 1}, 0) >= 0)
        return 0;
    err = errno == ECONNREFUSED || errno == ECONNRESET ? -ENOENT : -errno;
    passing_forget(request);
    return err == -ENOBUFS ? -EAGAIN : err;
}

/* Returns the descriptor, or an error. */
static int read_reply(const struct passing_request *request)
{
    struct reply_text reply;
    struct arrival arrival;
    int err = passing_peek(request->fd);
    bool is_ours;

    if (err == 0)
        err = receive(request->fd, &reply, sizeof reply, &arrival);
    if (err != 0)
        return err == -ECONNRESET || err == -ECONNREFUSED ? -ENOENT : err;
    is_ours = arrival.size == sizeof reply && reply.magic == PASSING_MAGIC &&
              reply.nonce == request->nonce;
    if (is_ours && reply.error == 0 && arrival.fd >= 0)
        return arrival.fd;
    if (arrival.fd >= 0)
        sys_close(arrival.fd);
    if (is_ours && (reply.error == -ENOENT || reply.error == -EACCES || reply.error == -EPERM))
        return (int)reply.error;
    return -EPROTO;
}

int passing_ask(uint32_t number, uint64_t cookie, uint64_t key_check,
                struct passing_request *request)
{
    bool is_new = !request->waits;
    int err = is_new ? send_request(number, cookie, key_check, request) : 0;
    struct pollfd poll = {.fd = request->fd, .events = POLLIN};

    if (err != 0)
        return err;
    if (is_new)
        sys_poll(&poll, 1, PASSING_WAIT_MS);
    err = read_reply(request);
    if (err != -EAGAIN || clock_now() - request->asked_ns > PASSING_AGAIN_NS)
        passing_forget(request);
    return err;
}
