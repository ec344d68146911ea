/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - the connection with the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/environ.h"
#include "base/sys.h"

#define TRIES  200 /* connections to an adapter that starts or ends */
#define TRY_MS 10

/* Held while a connection is made or ended. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* ---- requests ---- */

static int send_request(int sock, const struct adapter_request *request, int given)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(uintptr_t)request, sizeof *request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (given >= 0) {
        memcpy(CMSG_DATA(&control.head), &given, sizeof given);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    while (sendmsg(sock, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static int receive_reply(int sock, struct adapter_reply *reply, int fds[2])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {reply, sizeof *reply};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head;
    ssize_t size;

    while ((size = recvmsg(sock, &message, MSG_CMSG_CLOEXEC)) < 0)
        if (errno != EINTR)
            return errno;
    fds[0] = fds[1] = -1;
    head = CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(head), min_size(head->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
    return size == (ssize_t)sizeof *reply ? 0 : ECONNRESET;
}

static int perform(int sock, const struct adapter_request *request, struct adapter_reply *reply,
                   int given, int fds[2])
{
    const int err = send_request(sock, request, given);

    return err != 0 ? err : receive_reply(sock, reply, fds);
}

int control(struct lib_context *context, const struct adapter_request *request,
            struct adapter_reply *reply, int given, int fds[2])
{
    int got[2] = {-1, -1};
    int err;

    pthread_mutex_lock(&context->lock);
    err = context->is_lost ? EIO : perform(context->sock, request, reply, given, got);
    pthread_mutex_unlock(&context->lock);
    if (err != 0) {
        context->is_lost = true;
        return EIO;
    }
    if (reply->text[0] != '\0')
        fprintf(stderr, "mbx-adapter: %.*s\n", (int)sizeof reply->text, reply->text);
    if (fds != NULL)
        memcpy(fds, got, sizeof got);
    return reply->error;
}

int control_destroy(struct ibv_context *context, uint32_t handle)
{
    const struct adapter_request request = {.op = ADAPTER_DESTROY, .handle = handle};
    struct adapter_reply reply;
    const int err = control(lib_context(context), &request, &reply, -1, NULL);

    return err == EIO ? 0 : err; /* the objects of a lost adapter are gone with it */
}

int control_query(struct ibv_context *context, enum adapter_query what, uint32_t port,
                  uint32_t index, struct adapter_reply *reply)
{
    const struct adapter_request request = {
        .op = ADAPTER_QUERY, .query = {.what = what, .port = port, .index = index}};

    return control(lib_context(context), &request, reply, -1, NULL);
}

void *control_map(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* ---- the connection ---- */

static int greet(struct lib_context *context, int sock, int async_end)
{
    const char *interface = environ_get(ADAPTER_ENV_INTERFACE);
    struct adapter_request request = {.op = ADAPTER_HELLO,
                                      .hello = {.version = ADAPTER_VERSION,
                                                .size_request = sizeof(struct adapter_request),
                                                .size_reply = sizeof(struct adapter_reply),
                                                .size_send = sizeof(struct adapter_send)}};
    struct adapter_reply reply;
    int fds[2] = {-1, -1};
    int err;

    if (interface != NULL)
        strncpy(request.hello.interface, interface, sizeof request.hello.interface - 1);
    err = perform(sock, &request, &reply, async_end, fds);
    if (err != 0)
        return EAGAIN; /* the daemon was about to end */
    if (reply.error != 0) {
        fprintf(stderr, "mbx-adapter: %.*s\n", (int)sizeof reply.text, reply.text);
        return reply.error;
    }
    context->page = control_map(fds[0], sizeof *context->page);
    context->doorbell_fd = fds[1];
    context->guid = reply.hello.guid;
    context->lid = reply.hello.lid;
    context->tags = reply.hello.tags;
    context->has_rendezvous = reply.hello.has_rendezvous != 0;
    context->is_over = reply.hello.is_over != 0;
    context->pid = (pid_t)reply.hello.pid;
    return context->page != NULL && fds[1] >= 0 ? 0 : ENOMEM;
}

int control_open(struct lib_context *context)
{
    int async[2];
    int err = EAGAIN;

    if (pipe2(async, O_CLOEXEC) != 0)
        return errno;
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_lock(&one_at_a_time);
    for (int i = 0; i < TRIES && err == EAGAIN; i++) {
        context->sock = reach_connect();
        if (context->sock < 0) {
            err = reach_start();
            if (err == 0 && (context->sock = reach_connect()) < 0) {
                err = EAGAIN;
                poll(NULL, 0, TRY_MS);
                continue;
            }
        }
        if (context->sock >= 0) {
            err = reach_allow(context->sock);
            if (err == 0)
                err = greet(context, context->sock, async[1]);
            if (err != 0)
                close(context->sock);
        }
    }
    if (err == 0)
        reach_opened();
    pthread_mutex_unlock(&one_at_a_time);
    close(async[1]); /* the daemon has its own: when that closes, we read the end */
    if (err != 0) {
        close(async[0]);
        return err;
    }
    context->verbs.context.async_fd = async[0];
    return 0;
}

void control_close(struct lib_context *context)
{
    munmap(context->page, sizeof *context->page);
    close(context->doorbell_fd);
    close(context->verbs.context.async_fd);
    close(context->sock);
    pthread_mutex_destroy(&context->lock);
    pthread_mutex_lock(&one_at_a_time);
    reach_closed(context->pid);
    pthread_mutex_unlock(&one_at_a_time);
}

void control_ring(struct lib_context *context)
{
    const uint64_t one = 1;

    /* seq_cst: the increment comes before the load of `sleeps`; pairs with set_sleeps() of the
     * daemon */
    atomic_fetch_add_explicit(&context->page->doorbell, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&context->page->sleeps, memory_order_seq_cst) != 0)
        (void)!write(context->doorbell_fd, &one, sizeof one);
}

bool control_is_lost(struct lib_context *context)
{
    char byte;

    if (context->is_lost)
        return true;
    if (pthread_mutex_trylock(&context->lock) != 0)
        return false; /* a request is under way, which will notice */
    if (recv(context->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
        (errno != EAGAIN && errno != EINTR))
        context->is_lost = true;
    pthread_mutex_unlock(&context->lock);
    if (context->is_lost) {
        control_complain(context);
        fprintf(stderr, "mbx-adapter: the adapter of this host has gone; the device is lost\n");
    }
    return context->is_lost;
}

void control_complain(struct lib_context *context)
{
    const uint32_t said = atomic_load_explicit(&context->page->said, memory_order_acquire);
    char text[ADAPTER_TEXT_MAX];

    if (said == context->said)
        return;
    context->said = said;
    memcpy(text, context->page->text, sizeof text);
    text[sizeof text - 1] = '\0';
    fprintf(stderr, "mbx-adapter: %s\n", text);
}
