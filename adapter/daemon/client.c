/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client.c - applications: their connection, their requests, and their end.
 *
 * A client is an open device context.  It ends when its connection ends, or its process (a
 * forked child may hold the connection).  All its objects are then destroyed, each before the
 * objects that it refers to.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"
#include "base/sys.h"

struct list clients = {&clients, &clients};

bool clients_are_gone(void)
{
    return list_is_empty(&clients);
}

void client_say(struct client *client, const char *format, ...)
{
    va_list args;

    if (client->page == NULL)
        return;
    va_start(args, format);
    vsnprintf(client->page->text, sizeof client->page->text, format, args);
    va_end(args);
    atomic_fetch_add_explicit(&client->page->said, 1, memory_order_release);
}

void client_broke(struct client *client, const char *what)
{
    if (client->is_gone)
        return;
    client_say(client, "the adapter ends this connection: %s is impossible", what);
    client->is_gone = true;
}

bool client_is_dead(struct client *client)
{
    struct pollfd fd = {.fd = client->pidfd, .events = POLLIN};

    if (!client->is_gone && sys_poll(&fd, 1, 0) > 0)
        client->is_gone = true;
    return client->is_gone;
}

void client_event(struct client *client, enum ibv_event_type type, uint64_t cookie)
{
    const struct adapter_async_event event = {.type = type, .cookie = cookie};

    if (client->async_fd >= 0 && write(client->async_fd, &event, sizeof event) < 0 &&
        errno != EPIPE)
        client_say(client, "an async event of type %d is lost: %s", (int)type, strerror(errno));
}

/* ---- the end ---- */

static void object_end(struct object *object)
{
    switch (object->kind) {
    case KIND_QP:
        qp_destroy(container_of(object, struct qp, object));
        return;
    case KIND_SRQ: {
        struct srq *srq = container_of(object, struct srq, object);

        srq->pd->object.users--;
        list_remove(&srq->matching);
        beneath_srq_end(srq);
        tm_destroy(srq);
        memory_unmap(&srq->memory);
        break;
    }
    case KIND_CQ: {
        struct cq *cq = container_of(object, struct cq, object);

        if (cq->channel != NULL)
            cq->channel->object.users--;
        beneath_cq_end(cq);
        memory_unmap(&cq->memory);
        break;
    }
    case KIND_CHANNEL:
        sys_close(container_of(object, struct channel, object)->fd);
        break;
    case KIND_MR:
        container_of(object, struct mr, object)->pd->object.users--;
        beneath_mr_end(container_of(object, struct mr, object));
        break;
    case KIND_PD:
        beneath_pd_end(container_of(object, struct pd, object));
        break;
    }
    object_remove(object);
    mem_free(object); /* the first member of every object */
}

static void end_kind(struct client *client, enum kind kind)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &client->objects) {
        struct object *object = container_of(node, struct object, node);

        if (object->kind == kind)
            object_end(object);
    }
}

void client_end(struct client *client)
{
    for (enum kind kind = KIND_QP; kind >= KIND_PD; kind--)
        end_kind(client, kind);
    list_remove(&client->node);
    step_client_ends(client);
    if (client->page != NULL)
        sys_munmap(client->page, sizeof *client->page);
    if (client->async_fd >= 0)
        sys_close(client->async_fd);
    if (client->doorbell_fd >= 0)
        sys_close(client->doorbell_fd);
    if (client->pidfd >= 0)
        sys_close(client->pidfd);
    sys_close(client->sock);
    mem_free(client);
}

/* ---- the beginning ---- */

static ssize_t receive(int sock, struct adapter_request *request, int *given);

/* Over another adapter, the program sends its connections through a socket (helper.c). */
static int take_connection(int listener)
{
    struct adapter_request nothing;
    int fd;

    if (!host.is_over)
        return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return receive(listener, &nothing, &fd) > 0 ? fd : -1;
}

void client_accept(int listener)
{
    const int fd = take_connection(listener);
    struct client *client;
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (fd < 0)
        return;
    client = mem_calloc(1, sizeof *client);
    if (client == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid() || peer.pid <= 0 || (host.only != 0 && peer.pid != host.only)) {
        mem_free(client);
        close(fd);
        return;
    }
    client->sock = fd;
    client->pid = peer.pid;
    client->pidfd = sys_pidfd_open(peer.pid);
    client->doorbell_fd = client->async_fd = -1;
    list_init(&client->objects);
    list_init(&client->matching);
    list_init_node(&client->node);
    list_add_tail(&clients, &client->node);
}

static int refuse(struct adapter_reply *reply, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct adapter_reply *reply, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reply->text, sizeof reply->text, format, args);
    va_end(args);
    return err;
}

static int greet(struct client *client, const struct adapter_request *request,
                 struct adapter_reply *reply, int given, int fds[2])
{
    struct mapping page;
    char interface[ADAPTER_INTERFACE];
    int err;

    memcpy(interface, request->hello.interface, sizeof interface);
    interface[sizeof interface - 1] = '\0';
    if (request->hello.version != ADAPTER_VERSION ||
        request->hello.size_request != sizeof(struct adapter_request) ||
        request->hello.size_reply != sizeof(struct adapter_reply) ||
        request->hello.size_send != sizeof(struct adapter_send))
        return refuse(
            reply, -EPROTO,
            "the adapter that runs on this host is of version %u%s, this library is of "
            "version %u: use the same Matchbox, and end the applications of that adapter "
            "first",
            ADAPTER_VERSION,
            request->hello.version == ADAPTER_VERSION ? " and another build" : "",
            request->hello.version);
    if (strcmp(interface, host.interface) != 0)
        return refuse(reply, -EINVAL,
                      "MBX_ADAPTER_INTERFACE is '%s' here, but the adapter of this host was "
                      "started with '%s'",
                      interface, host.interface);
    if (given < 0 || client->is_greeted)
        return -EINVAL;
    err = memory_map(&page, "mbx-page", round_up(sizeof(struct adapter_page), 4096));
    if (err != 0)
        return err;
    client->doorbell_fd = sys_eventfd(0, EFD_NONBLOCK);
    if (client->doorbell_fd < 0) {
        memory_unmap(&page);
        return -errno;
    }
    client->page = page.base;
    client->async_fd = given;
    client->is_greeted = true;
    fds[0] = page.fd;
    fds[1] = client->doorbell_fd;
    reply->hello.guid = host.guid;
    reply->hello.lid = host.lid;
    reply->hello.tags = host.tags;
    reply->hello.is_over = host.is_over;
    reply->hello.has_rendezvous = !(host.quirks & QUIRK_EAGER_ONLY);
    reply->hello.pid = (uint32_t)getpid();
    return 0;
}

/* ---- requests ---- */

static int alloc_pd(struct client *client, struct adapter_reply *reply)
{
    struct pd *pd = mem_calloc(1, sizeof *pd);
    int err = pd == NULL ? -ENOMEM : object_add(&pd->object, KIND_PD, client);

    if (err == 0 && (err = beneath_pd(pd)) != 0)
        object_remove(&pd->object);
    if (err != 0) {
        mem_free(pd);
        return err;
    }
    reply->handle = pd->object.handle;
    return 0;
}

static int destroy(struct client *client, uint32_t handle, struct adapter_reply *reply)
{
    for (enum kind kind = KIND_PD; kind <= KIND_QP; kind++) {
        struct object *object = object_find(client, kind, handle);

        if (object == NULL)
            continue;
        if (object->users > 0)
            return refuse(reply, -EBUSY, "%u other objects use what was to be destroyed",
                          object->users);
        object_end(object);
        return 0;
    }
    return -EINVAL;
}

/* given: a descriptor that came with the request, or -1; a callee that keeps it sets it to
 * -1. */
static int perform(struct client *client, const struct adapter_request *request,
                   struct adapter_reply *reply, int *given, int fds[2])
{
    int err;

    if (!client->is_greeted && request->op != ADAPTER_HELLO &&
        request->op != ADAPTER_COUNTERS && request->op != ADAPTER_STEP)
        return -EPROTO;
    switch (request->op) {
    case ADAPTER_HELLO:
        err = greet(client, request, reply, *given, fds);
        break;
    case ADAPTER_ALLOC_PD:
        return alloc_pd(client, reply);
    case ADAPTER_REG_MR:
        return region_create(client, request, reply);
    case ADAPTER_REREG_MR:
        return region_change(client, request, reply);
    case ADAPTER_CREATE_CHANNEL:
        err = channel_create(client, *given, reply);
        break;
    case ADAPTER_CREATE_CQ:
        return cq_create(client, request, reply, &fds[0]);
    case ADAPTER_CREATE_SRQ:
        return srq_create(client, request, reply, &fds[0]);
    case ADAPTER_MODIFY_SRQ:
        return srq_modify(client, request, reply);
    case ADAPTER_QUERY_SRQ:
        return srq_query(client, request, reply);
    case ADAPTER_CREATE_QP:
        return qp_create(client, request, reply, &fds[0]);
    case ADAPTER_MODIFY_QP:
        return qp_modify(client, request, reply);
    case ADAPTER_QUERY_QP:
        return qp_query(client, request, reply);
    case ADAPTER_DESTROY:
        return destroy(client, request->handle, reply);
    case ADAPTER_COUNTERS:
        reply->counters = counters;
        return 0;
    case ADAPTER_STEP:
        return step_perform(client, request, reply);
    case ADAPTER_QUERY:
        return beneath_query(request, reply);
    default:
        return -EPROTO;
    }
    if (err == 0)
        *given = -1;
    return err;
}

static ssize_t receive(int sock, struct adapter_request *request, int *given)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {request, sizeof *request};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    const ssize_t size = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *head;

    *given = -1;
    if (size < 0)
        return size;
    for (head = CMSG_FIRSTHDR(&message); head != NULL; head = CMSG_NXTHDR(&message, head)) {
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int fds[4];

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(fds, CMSG_DATA(head), min_size(count, 4) * sizeof(int));
        for (size_t i = 0; i < min_size(count, 4); i++) {
            if (*given >= 0)
                close(*given);
            *given = fds[i];
        }
    }
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return 0; /* longer than a request: treated as the end of the connection */
    return size;
}

static void send_reply(struct client *client, const struct adapter_reply *reply,
                       const int fds[2])
{
    const size_t count = fds[0] < 0 ? 0 : fds[1] < 0 ? 1 : 2;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(count * sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(uintptr_t)reply, sizeof *reply};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    if (sendmsg(client->sock, &message, MSG_NOSIGNAL) != (ssize_t)sizeof *reply)
        client->is_gone = true;
}

void client_serve(struct client *client)
{
    struct adapter_request request;
    struct adapter_reply reply = {0};
    int given, fds[2] = {-1, -1};
    const ssize_t size = receive(client->sock, &request, &given);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size != (ssize_t)sizeof request) {
        client->is_gone = true;
    } else {
        if (given >= 0)
            fcntl(given, F_SETFL, O_NONBLOCK);
        reply.error = -perform(client, &request, &reply, &given, fds);
        if (reply.error != 0)
            fds[0] = fds[1] = -1;
        send_reply(client, &reply, fds);
        if (fds[0] >= 0)
            sys_close(fds[0]); /* the memory, which is mapped */
    }
    if (given >= 0)
        close(given);
}
