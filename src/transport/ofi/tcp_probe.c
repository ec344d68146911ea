/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_probe.c - finds out whether a peer to which sends fail still listens.
 *
 *   packets leave                          no probe: the peer may compute, or be stopped
 *   they do not ─> TCP connect to it ─┬─> refused     its process has ended
 *                                     ├─> accepted    it is alive; probe again later
 *                                     └─> no answer   unknown; probe again later
 *
 * Some providers over TCP reconnect again and again to a dead peer without reporting it.  But
 * if an endpoint's address is the address of a listening socket, the other machine's system
 * knows: it accepts a connection even for a process that is stopped, and refuses one if there
 * is no process.  So the probe needs no progress of the other side, and a peer that computes
 * for an hour is never taken for dead.
 *
 * A connection is closed at once, unused; the other provider finds a connection that ended
 * before it began.  The pauses between two probes grow, so that connections to a stopped
 * process do not pile up.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/sys.h"
#include "transport/ofi/ofi.h"

#define PAUSE_NS     (500 * CLOCK_MS) /* before the second probe */
#define PAUSE_MAX_NS (32 * CLOCK_S)
#define ANSWER_NS    (4 * CLOCK_S) /* then a connect is given up */

/* Do this provider's endpoints listen on their addresses with TCP? */
static bool listens(const struct ofi *ofi)
{
    const char *name = ofi->domain.info->fabric_attr->prov_name;

    return strncmp(name, "tcp", 3) == 0 || strcmp(name, "net") == 0;
}

/* Writes the socket address of the peer; returns its size; 0: there is none. */
static socklen_t address_of(const struct ofi_link *link, struct sockaddr_storage *to)
{
    const struct transport_address *address = &link->member.address;
    size_t size = address->network_size;

    memset(to, 0, sizeof *to);
    memcpy(to, address->network, min_size(size, sizeof address->network));
    if (to->ss_family == AF_INET && size >= sizeof(struct sockaddr_in))
        return sizeof(struct sockaddr_in);
    if (to->ss_family == AF_INET6 && size >= sizeof(struct sockaddr_in6))
        return sizeof(struct sockaddr_in6);
    return 0;
}

void ofi_tcp_probe_place(const struct ofi_link *link, char *text, size_t size)
{
    struct sockaddr_storage to;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    snprintf(text, size, "%s", "");
    if (!listens(ofi_of_link(link)) || address_of(link, &to) == 0)
        return;
    if (to.ss_family == AF_INET) {
        memcpy(&in, &to, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, text, (socklen_t)size);
    } else {
        memcpy(&in6, &to, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, text, (socklen_t)size);
    }
}

bool ofi_tcp_probe_is_loopback(const struct ofi_link *link)
{
    struct sockaddr_storage to;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (address_of(link, &to) == 0)
        return false;
    if (to.ss_family == AF_INET) {
        memcpy(&in, &to, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    memcpy(&in6, &to, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

void ofi_tcp_probe_forget(struct ofi_link *link)
{
    if (link->probe.fd >= 0)
        sys_close(link->probe.fd);
    link->probe.fd = -1;
    link->probe.pause_ns = 0;
}

/* The connection was not refused: sets the time of the next probe. */
static int pause_probing(struct ofi_link *link, uint64_t now)
{
    uint64_t pause = link->probe.pause_ns == 0 ? PAUSE_NS : 2 * link->probe.pause_ns;

    ofi_tcp_probe_forget(link);
    link->probe.pause_ns = pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
    link->probe.since_ns = now;
    return 0;
}

static int result(struct ofi_link *link, int err, uint64_t now)
{
    if (err != ECONNREFUSED)
        return pause_probing(link, now);
    ofi_tcp_probe_forget(link);
    return -ECONNREFUSED;
}

static int ofi_tcp_probe_begin(struct ofi_link *link, uint64_t now)
{
    struct sockaddr_storage to;
    socklen_t size = address_of(link, &to);
    int fd;

    if (size == 0)
        return 0;
    fd = sys_socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
    if (fd < 0)
        return pause_probing(link, now);
    link->probe.fd = fd;
    link->probe.since_ns = now;
    if (sys_connect(fd, (const struct sockaddr *)&to, size) == 0)
        return pause_probing(link, now);
    return errno == EINPROGRESS ? 0 : result(link, errno, now);
}

static int finish(struct ofi_link *link, uint64_t now)
{
    struct pollfd awaited = {.fd = link->probe.fd, .events = POLLOUT};
    int err = 0;
    socklen_t size = sizeof err;

    if (sys_poll(&awaited, 1, 0) <= 0)
        return now - link->probe.since_ns > ANSWER_NS ? pause_probing(link, now) : 0;
    if (getsockopt(link->probe.fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0)
        err = errno;
    return result(link, err, now);
}

int ofi_tcp_probe(struct ofi_link *link, uint64_t now)
{
    if (!listens(ofi_of_link(link)))
        return 0;
    if (link->probe.fd >= 0)
        return finish(link, now);
    if (link->probe.pause_ns != 0 && now - link->probe.since_ns < link->probe.pause_ns)
        return 0;
    return ofi_tcp_probe_begin(link, now);
}
