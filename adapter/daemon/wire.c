/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - frames between hosts, and the addresses of hosts.
 *
 *   this host                                    another
 *   outlet ── mark, frame, data, frame, ... ───>  inlet
 *   inlet  <─ mark, frame, data, frame, ... ────  outlet
 *
 * Each side connects to the other when it has something to send: a connection carries frames
 * one way.  A connection that breaks loses its frames; RC queue pairs repeat unanswered
 * requests.  This file validates the form of frames, and responder.c, requester.c and ud.c
 * validate their contents.  There is no secret: a process that reaches the port can send what
 * an InfiniBand node could.  So there is no wire unless MBX_ADAPTER_INTERFACE names an
 * interface.
 *
 * The IPv4 address of a host identifies it: its GID contains the address, and its LID is the
 * low half of the address, if that is a unicast LID.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/daemon/daemon.h"
#include "base/environ.h"
#include "base/mem.h"
#include "base/sys.h"

#define PORT          4791                 /* RoCEv2's port, but over TCP */
#define GUID_WIRE     UINT64_C(0x024d4258) /* locally administered, "MBX": the address follows */
#define GUID_NO_WIRE  UINT64_C(0x024d4259) /* the number of the network namespace follows */
#define LID_LAST      0xbfff
#define CAPACITY      (1u << 20)  /* beyond this, data waits in its queue pair */
#define OUTLET_MAX    (64u << 20) /* beyond this, the peer is given up: it does not read */
#define FRAMES_A_TURN 16
#define FLUSH_MS      1000
#define CONNECTIONS   4096 /* at a time; more are closed */

struct mark {
    char text[8];
    uint32_t order, version, size_frame, data_max;
};

static const struct mark mark = {"MBXWIRE", 0x01020304, ADAPTER_VERSION, sizeof(struct frame),
                                 FRAME_DATA};

struct outlet {
    struct list node;
    uint32_t peer;
    int fd;
    bool is_connected, was_full;
    unsigned char *bytes;
    size_t first, last, size;
};

struct inlet {
    struct list node;
    uint32_t peer;
    int fd;
    bool is_marked;
    size_t fill;
    unsigned char bytes[sizeof(struct frame) + FRAME_DATA];
};

struct host host;
static struct list outlets = {&outlets, &outlets}, inlets = {&inlets, &inlets};
static int listener = -1;
static uint32_t count; /* connections */

/* ---- the address of this host ---- */

static int find_address(const char *interface)
{
    struct ifaddrs *all, *each;

    if (getifaddrs(&all) != 0)
        return -errno;
    for (each = all; each != NULL && host.address == 0; each = each->ifa_next)
        if (each->ifa_addr != NULL && each->ifa_addr->sa_family == AF_INET &&
            strcmp(each->ifa_name, interface) == 0)
            host.address =
                ntohl(((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr.s_addr);
    freeifaddrs(all);
    if (host.address != 0)
        return 0;
    fprintf(stderr,
            "mbx-adapter: MBX_ADAPTER_INTERFACE=%s: no interface of this name has an IPv4 "
            "address (see `ip addr`)\n",
            interface);
    return -ENODEV;
}

static int listen_on(void)
{
    const struct sockaddr_in name = {.sin_family = AF_INET,
                                     .sin_port = htons(host.port),
                                     .sin_addr.s_addr = htonl(host.address)};
    const int one = 1;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 &&
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(listener, (const struct sockaddr *)&name, sizeof name) == 0 &&
        listen(listener, 64) == 0)
        return 0;
    fprintf(stderr,
            "mbx-adapter: port %u of interface %s: %s; MBX_ADAPTER_PORT names another, "
            "the same on all hosts\n",
            host.port, host.interface, strerror(errno));
    return -EADDRINUSE;
}

static int read_port(void)
{
    const char *text = environ_get(ADAPTER_ENV_PORT);
    char *end = NULL;
    const unsigned long port = text == NULL ? PORT : strtoul(text, &end, 10);

    host.port = (uint16_t)port;
    if (text == NULL || (*text != '\0' && *end == '\0' && port > 0 && port < 65536))
        return 0;
    fprintf(stderr, "mbx-adapter: MBX_ADAPTER_PORT=%s is no port, 1 to 65535\n", text);
    return -EINVAL;
}

int wire_open(const char *interface)
{
    struct stat status;
    int err;

    host.lid = 1;
    if (*interface == '\0') {
        host.guid = GUID_NO_WIRE << 32 |
                    (stat("/proc/self/ns/net", &status) == 0 ? (uint32_t)status.st_ino : 0);
        return 0;
    }
    if (strlen(interface) >= sizeof host.interface) {
        fprintf(stderr, "mbx-adapter: MBX_ADAPTER_INTERFACE=%s is too long\n", interface);
        return -EINVAL;
    }
    strncpy(host.interface, interface, sizeof host.interface - 1);
    err = read_port();
    if (err == 0)
        err = find_address(interface);
    if (err == 0)
        err = listen_on();
    host.guid = GUID_WIRE << 32 | host.address;
    if ((host.address & 0xffff) != 0 && (host.address & 0xffff) <= LID_LAST)
        host.lid = (uint16_t)host.address;
    return err;
}

bool wire_route(const struct adapter_address *to, uint32_t *address)
{
    uint64_t prefix, guid;

    *address = HOST_ITSELF;
    if (!to->is_global) {
        if (to->lid == host.lid)
            return true;
        *address = (host.address & 0xffff0000) | to->lid;
        return host.address != 0 && host.lid == (uint16_t)host.address;
    }
    memcpy(&prefix, to->gid, sizeof prefix);
    memcpy(&guid, to->gid + 8, sizeof guid);
    guid = be64toh(guid);
    if (be64toh(prefix) != UINT64_C(0xfe80) << 48)
        return false;
    if (guid == host.guid)
        return true;
    *address = (uint32_t)guid;
    return host.address != 0 && guid >> 32 == GUID_WIRE;
}

/* ---- outgoing ---- */

static void wake_all(uint32_t peer)
{
    struct qp *qp;

    for (uint32_t cursor = 0; (qp = object_next(KIND_QP, &cursor)) != NULL;)
        if (qp->host == peer)
            qp_wake(qp);
}

static void outlet_close(struct outlet *outlet)
{
    const uint32_t peer = outlet->peer;

    list_remove(&outlet->node);
    close(outlet->fd);
    mem_free(outlet->bytes);
    mem_free(outlet);
    count--;
    wake_all(peer);
}

static bool outlet_append(struct outlet *outlet, const void *bytes, size_t size)
{
    if (outlet->first == outlet->last)
        outlet->first = outlet->last = 0;
    if (outlet->last + size > outlet->size && outlet->first > 0) {
        memmove(outlet->bytes, outlet->bytes + outlet->first, outlet->last - outlet->first);
        outlet->last -= outlet->first;
        outlet->first = 0;
    }
    if (outlet->last + size > outlet->size) {
        const size_t grown = 2 * (outlet->last + size);
        unsigned char *more = grown > OUTLET_MAX ? NULL : mem_realloc(outlet->bytes, grown);

        if (more == NULL)
            return false;
        outlet->bytes = more;
        outlet->size = grown;
    }
    if (size > 0)
        memcpy(outlet->bytes + outlet->last, bytes, size);
    outlet->last += size;
    return true;
}

static struct outlet *outlet_open(uint32_t peer)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(host.port), .sin_addr.s_addr = htonl(peer)};
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(host.address)};
    const int one = 1;
    struct outlet *outlet = mem_calloc(1, sizeof *outlet);

    if (outlet == NULL)
        return NULL;
    outlet->peer = peer;
    outlet->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (outlet->fd < 0 || bind(outlet->fd, (const struct sockaddr *)&from, sizeof from) != 0 ||
        (connect(outlet->fd, (const struct sockaddr *)&to, sizeof to) != 0 &&
         errno != EINPROGRESS) ||
        !outlet_append(outlet, &mark, sizeof mark)) {
        if (outlet->fd >= 0)
            close(outlet->fd);
        mem_free(outlet);
        return NULL;
    }
    setsockopt(outlet->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    list_init_node(&outlet->node);
    list_add_tail(&outlets, &outlet->node);
    count++;
    return outlet;
}

static struct outlet *outlet_find(uint32_t peer)
{
    struct list *node;

    list_for_each (node, &outlets) {
        struct outlet *outlet = container_of(node, struct outlet, node);

        if (outlet->peer == peer)
            return outlet;
    }
    return NULL;
}

/* False: the connection is closed. */
static bool outlet_flush(struct outlet *outlet)
{
    while (outlet->is_connected && outlet->first < outlet->last) {
        const ssize_t sent = send(outlet->fd, outlet->bytes + outlet->first,
                                  outlet->last - outlet->first, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0) {
            outlet_close(outlet);
            return false;
        }
        outlet->first += (size_t)sent;
    }
    if (outlet->was_full && outlet->last - outlet->first < CAPACITY) {
        outlet->was_full = false;
        wake_all(outlet->peer);
    }
    return true;
}

bool wire_has_space(uint32_t to)
{
    struct outlet *outlet = to == HOST_ITSELF ? NULL : outlet_find(to);

    if (outlet == NULL || outlet->last - outlet->first < CAPACITY)
        return true;
    outlet->was_full = true;
    return false;
}

bool wire_send(uint32_t to, const struct frame *frame, const void *data)
{
    struct outlet *outlet;

    if (to == HOST_ITSELF) {
        frame_arrived(HOST_ITSELF, frame, data);
        return true;
    }
    outlet = outlet_find(to);
    if (outlet == NULL && (outlet = outlet_open(to)) == NULL)
        return false;
    if (!outlet_append(outlet, frame, sizeof *frame) ||
        !outlet_append(outlet, data, frame->size)) {
        outlet_close(outlet);
        return false;
    }
    counters.wire_frames_out++;
    return outlet_flush(outlet);
}

static void outlet_ready(struct outlet *outlet)
{
    int err = 0;
    socklen_t size = sizeof err;

    if (!outlet->is_connected) {
        if (getsockopt(outlet->fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0 || err != 0) {
            outlet_close(outlet);
            return;
        }
        outlet->is_connected = true;
    }
    outlet_flush(outlet);
}

/* ---- incoming ---- */

static void inlet_close(struct inlet *inlet)
{
    list_remove(&inlet->node);
    close(inlet->fd);
    mem_free(inlet);
    count--;
}

static void inlet_open(void)
{
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    const int fd =
        accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct inlet *inlet;

    if (fd < 0)
        return;
    inlet = size == sizeof from && count < CONNECTIONS ? mem_calloc(1, sizeof *inlet) : NULL;
    if (inlet == NULL) {
        close(fd);
        return;
    }
    inlet->fd = fd;
    inlet->peer = ntohl(from.sin_addr.s_addr);
    list_init_node(&inlet->node);
    list_add_tail(&inlets, &inlet->node);
    count++;
}

/* Fills the buffer to this many bytes; false: not yet, or the connection is closed. */
static bool inlet_fill(struct inlet *inlet, size_t size)
{
    while (inlet->fill < size) {
        const ssize_t got =
            recv(inlet->fd, inlet->bytes + inlet->fill, size - inlet->fill, MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0) {
            inlet_close(inlet);
            return false;
        }
        inlet->fill += (size_t)got;
    }
    return true;
}

static void inlet_ready(struct inlet *inlet)
{
    if (!inlet->is_marked) {
        if (!inlet_fill(inlet, sizeof mark))
            return;
        if (memcmp(inlet->bytes, &mark, sizeof mark) != 0) {
            inlet_close(inlet); /* no adapter, or an adapter of another build */
            return;
        }
        inlet->is_marked = true;
        inlet->fill = 0;
    }
    for (int i = 0; i < FRAMES_A_TURN && inlet_fill(inlet, sizeof(struct frame)); i++) {
        struct frame frame;

        memcpy(&frame, inlet->bytes, sizeof frame);
        if (frame.size > FRAME_DATA || frame.type == 0 || frame.type >= FRAME_TYPES) {
            inlet_close(inlet);
            return;
        }
        if (!inlet_fill(inlet, sizeof frame + frame.size))
            return;
        inlet->fill = 0;
        counters.wire_frames_in++;
        frame_arrived(inlet->peer, &frame, inlet->bytes + sizeof frame);
    }
}

void frame_arrived(uint32_t from, const struct frame *frame, const unsigned char *data)
{
    struct qp *qp = object_any(KIND_QP, frame->to);

    if (frame->type == FRAME_DATAGRAM) {
        if (qp != NULL && qp->type == IBV_QPT_UD && qp_can_receive(qp))
            ud_take(qp, frame, data);
        else
            counters.datagrams_dropped++;
        return;
    }
    if (qp != NULL && (qp->type != IBV_QPT_RC || !qp_can_receive(qp) || !qp->is_reachable ||
                       qp->host != from || qp->attr.dest_qp_num != frame->from))
        qp = NULL;
    if (qp != NULL && frame->type == FRAME_REQUEST)
        responder_take(qp, frame, data);
    else if (qp != NULL)
        requester_answered(qp, frame, data);
    else if (frame->type == FRAME_REQUEST)
        wire_send(
            from,
            &(struct frame){
                .type = FRAME_LOST, .to = frame->from, .from = frame->to, .op = frame->op},
            NULL);
}

/* ---- descriptors ---- */

bool wire_is_open(void)
{
    return wire_count() > 0;
}

uint32_t wire_count(void)
{
    return count + (listener >= 0);
}

void wire_fds(struct pollfd *fds)
{
    struct list *node;
    uint32_t i = 0;

    if (listener >= 0)
        fds[i++] = (struct pollfd){.fd = listener, .events = POLLIN};
    list_for_each (node, &inlets)
        fds[i++] =
            (struct pollfd){.fd = container_of(node, struct inlet, node)->fd, .events = POLLIN};
    list_for_each (node, &outlets) {
        const struct outlet *outlet = container_of(node, struct outlet, node);
        const bool wants = !outlet->is_connected || outlet->first < outlet->last;

        /* nothing but the end of the connection can be read */
        fds[i++] = (struct pollfd){.fd = outlet->fd, .events = wants ? POLLOUT : POLLIN};
    }
}

static bool is_ready(const struct pollfd *fds, uint32_t n, int fd, short *events)
{
    for (uint32_t i = 0; i < n; i++) {
        if (fds[i].fd == fd) {
            *events = fds[i].revents;
            return *events != 0;
        }
    }
    return false;
}

void wire_serve(const struct pollfd *fds, uint32_t n)
{
    struct list *node, *next;
    short events = 0;

    list_for_each_safe (node, next, &outlets) {
        struct outlet *outlet = container_of(node, struct outlet, node);

        if (!is_ready(fds, n, outlet->fd, &events))
            continue;
        if (outlet->is_connected && (events & (POLLIN | POLLHUP | POLLERR)))
            outlet_close(outlet);
        else
            outlet_ready(outlet);
    }
    list_for_each_safe (node, next, &inlets) {
        struct inlet *inlet = container_of(node, struct inlet, node);

        if (is_ready(fds, n, inlet->fd, &events))
            inlet_ready(inlet);
    }
    if (listener >= 0 && is_ready(fds, n, listener, &events))
        inlet_open();
}

/* Sends what the connection still holds, if the other host reads it. */
static void outlet_drain(struct outlet *outlet)
{
    const uint32_t peer = outlet->peer;
    const uint64_t until = clock_now() + FLUSH_MS * CLOCK_MS;

    while (outlet->first < outlet->last && clock_now() < until) {
        struct pollfd fd = {.fd = outlet->fd, .events = POLLOUT};

        if (sys_poll(&fd, 1, FLUSH_MS) <= 0)
            break;
        outlet_ready(outlet);
        if (outlet_find(peer) == NULL)
            return;
    }
    outlet_close(outlet);
}

void wire_close(void)
{
    struct list *node, *next;

    if (listener >= 0)
        close(listener);
    listener = -1;
    list_for_each_safe (node, next, &outlets)
        outlet_drain(container_of(node, struct outlet, node));
    list_for_each_safe (node, next, &inlets)
        inlet_close(container_of(node, struct inlet, node));
}
