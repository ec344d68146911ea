/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_pair.c - `mbx perf --listen` on one host and `mbx perf --connect` on another.
 *
 *   host a: --listen              host b: --connect a
 *   accepts                <────  connects
 *   greeting               <───>  greeting       magic, and what is to be measured
 *   MBX_BOOT=socket:FD:1          MBX_BOOT=socket:FD:0
 *
 * From then on the two are a job (boot/socket.c), and measure as if a launcher had started
 * them.  A listener that gets a wrong greeting, or none, reports it and continues to listen.
 */
#include "perf_pair.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/text.h"
#include "boot/boot.h"

#define MAGIC       UINT64_C(0x4d42582d50455246) /* "MBX-PERF" */
#define PATIENCE_NS (10 * CLOCK_S)               /* for a connection, and for a greeting */
#define NAME_SIZE   256

struct greeting {
    uint64_t magic;
    char text[PERF_TEXT_SIZE];
};

/* ---- bytes within PATIENCE_NS ---- */

static int await(int fd, short events, uint64_t start)
{
    uint64_t waited = clock_now() - start;
    struct pollfd look = {.fd = fd, .events = events};
    int ready;

    if (waited >= PATIENCE_NS)
        return -ETIMEDOUT;
    ready = sys_poll(&look, 1, (int)((PATIENCE_NS - waited) / CLOCK_MS) + 1);
    return ready < 0 && errno != EINTR ? -errno : 0;
}

/* Sends or receives exactly size bytes.  0 or a negative errno. */
static int transfer(int fd, bool is_send, void *bytes, size_t size)
{
    uint64_t start = clock_now();
    size_t done = 0;
    int err = 0;

    while (done < size && err == 0) {
        struct iovec piece = {.iov_base = (char *)bytes + done, .iov_len = size - done};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
        ssize_t n = is_send ? sys_sendmsg(fd, &message, MSG_DONTWAIT)
                            : sys_recvmsg(fd, &message, MSG_DONTWAIT);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            err = -ECONNRESET;
        else if (errno == EAGAIN)
            err = await(fd, is_send ? POLLOUT : POLLIN, start);
        else if (errno != EINTR)
            err = -errno;
    }
    return err;
}

/* 0 and the other side's measurement; -EPROTO if it is not `mbx perf`. */
static int greet(int fd, const char *text, struct greeting *other)
{
    struct greeting own = {.magic = MAGIC};
    int err;

    snprintf(own.text, sizeof own.text, "%s", text);
    err = transfer(fd, true, &own, sizeof own);
    if (err == 0)
        err = transfer(fd, false, other, sizeof *other);
    if (err == 0 &&
        (other->magic != MAGIC || memchr(other->text, '\0', sizeof other->text) == NULL))
        err = -EPROTO;
    return err;
}

/* Fences are small frames in both directions. */
static void set_nodelay(int fd)
{
    sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* "HOST" or "ADDRESS" of the other side, for a message. */
static const char *name_of(const struct sockaddr_storage *from, unsigned size,
                           char name[NAME_SIZE])
{
    if (getnameinfo((const struct sockaddr *)from, size, name, NAME_SIZE, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(name, NAME_SIZE, "an unknown address");
    return name;
}

/* ---- the side that listens ---- */

static int bind_to(int domain, const struct sockaddr *any, unsigned size)
{
    int fd = sys_socket(domain, SOCK_STREAM), err;

    if (fd < 0)
        return -errno;
    if (domain == AF_INET6)
        sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0); /* IPv4 as well */
    sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (sys_bind(fd, any, size) == 0 && sys_listen(fd, 1) == 0)
        return fd;
    err = -errno;
    sys_close(fd);
    return err;
}

/* A listening socket, or a negative errno.  Without IPv6 it is an IPv4 socket. */
static int listen_at(const char *port)
{
    in_port_t number = htons((in_port_t)strtoul(port, NULL, 10));
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = number};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = number};
    int fd = bind_to(AF_INET6, (const struct sockaddr *)&any6, sizeof any6);

    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        fd = bind_to(AF_INET, (const struct sockaddr *)&any, sizeof any);
    return fd;
}

/* Accepts the connection of another `mbx perf`. */
static int accept_greeted(const struct tool *tool, int listener, const char *text,
                          struct greeting *other)
{
    struct sockaddr_storage from;
    char name[NAME_SIZE];

    for (;;) {
        unsigned size = sizeof from;
        int fd = sys_accept(listener, (struct sockaddr *)&from, &size), err;

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return -errno;
        set_nodelay(fd);
        if ((err = greet(fd, text, other)) == 0)
            return fd;
        sys_close(fd);
        tool_error(tool,
                   "a connection from %s is refused, it is not mbx perf --connect (%s); still "
                   "listening",
                   name_of(&from, size, name), strerror(-err));
    }
}

static int listen_for(const struct tool *tool, const char *port, const char *text,
                      const char *again, struct greeting *other)
{
    char host[NAME_SIZE] = "";
    int listener = listen_at(port), fd;

    if (listener < 0) {
        tool_error(tool, "cannot listen on port %s: %s; --port takes another one", port,
                   strerror(-listener));
        return -1;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "HOST");
    fprintf(stderr, "mbx perf: listening on port %s; on the other host: mbx %s --connect %s\n",
            port, again, host);
    fd = accept_greeted(tool, listener, text, other);
    if (fd < 0)
        tool_error(tool, "cannot accept a connection: %s", strerror(-fd));
    sys_close(listener);
    return fd;
}

/* ---- the side that connects ---- */

/* A connection to one address, or a negative errno. */
static int connect_to(const struct addrinfo *to)
{
    int fd = sys_socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK), err = 0;
    socklen_t size = sizeof err;
    uint64_t start = clock_now();

    if (fd < 0)
        return -errno;
    if (sys_connect(fd, to->ai_addr, to->ai_addrlen) < 0)
        err = -errno;
    if (err == -EINPROGRESS) {
        struct pollfd look = {.fd = fd, .events = POLLOUT};

        err = 0;
        while (err == 0 && (look.revents & (POLLOUT | POLLERR | POLLHUP)) == 0) {
            err = await(fd, POLLOUT, start);
            if (err == 0)
                sys_poll(&look, 1, 0);
        }
        if (err == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0)
            err = -err;
    }
    if (err == 0)
        return fd;
    sys_close(fd);
    return err;
}

static int connect_any(const struct tool *tool, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int fd = -EHOSTUNREACH, err = getaddrinfo(host, port, &hints, &all);

    if (err != 0) {
        tool_error(tool, "--connect %s: %s", host,
                   err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
        return -1;
    }
    for (const struct addrinfo *to = all; to != NULL && fd < 0; to = to->ai_next)
        fd = connect_to(to);
    freeaddrinfo(all);
    if (fd == -ECONNREFUSED)
        tool_error(tool,
                   "nothing listens on port %s of %s; first run the same command there with "
                   "--listen in place of --connect",
                   port, host);
    else if (fd < 0)
        tool_error(tool, "cannot connect to port %s of %s: %s", port, host, strerror(-fd));
    return fd;
}

static int connect_for(const struct tool *tool, const char *host, const char *port,
                       const char *text, struct greeting *other)
{
    int fd = connect_any(tool, host, port), err;

    if (fd < 0)
        return -1;
    set_nodelay(fd);
    if ((err = greet(fd, text, other)) == 0)
        return fd;
    tool_error(tool,
               "port %s of %s is used by another program than mbx perf --listen, or it is "
               "measuring already (%s)",
               port, host, strerror(-err));
    sys_close(fd);
    return -1;
}

/* ---- both ---- */

static int compare(const struct tool *tool, const char *text, struct greeting *other)
{
    if (strcmp(other->text, text) == 0)
        return 0;
    text_make_printable(other->text, '?', false);
    return tool_usage_error(
        tool,
        "the two sides measure different things; give both the same options "
        "and the same version of Matchbox.  Here: %.300s.  There: %.300s",
        text, other->text);
}

int perf_pair_meet(const struct tool *tool, const struct perf_pair *pair, const char *text,
                   const char *again)
{
    const char *port = pair->port != NULL ? pair->port : PERF_PORT;
    struct greeting other;
    char boot[64];
    int fd = pair->listens ? listen_for(tool, port, text, again, &other)
                           : connect_for(tool, pair->host, port, text, &other);

    if (fd < 0)
        return TOOL_FAILED;
    if (compare(tool, text, &other) != 0) {
        sys_close(fd);
        return TOOL_USAGE;
    }
    snprintf(boot, sizeof boot, BOOT_SOCKET "%d:%d", fd, pair->listens);
    setenv("MBX_BOOT", boot, 1);
    return 0;
}
