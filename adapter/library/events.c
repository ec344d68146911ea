/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.c - completion channels and async events.
 *
 * Events come through a pipe whose writing end the daemon has.  So a program that sleeps on the
 * descriptor also wakes when the daemon ends: it reads the end of the pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/mem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = {&all, &all};

void live_add(struct list *live)
{
    pthread_mutex_lock(&lock);
    list_add_tail(&all, live);
    pthread_mutex_unlock(&lock);
}

void live_remove(struct list *live)
{
    pthread_mutex_lock(&lock);
    list_remove(live);
    pthread_mutex_unlock(&lock);
}

static bool is_live(const struct list *live)
{
    struct list *node;

    list_for_each (node, &all)
        if (node == live)
            return true;
    return false;
}

/* Reads a whole event: 0; or errno, EIO at the end. */
static int read_event(int fd, void *event, size_t size)
{
    ssize_t got;

    while ((got = read(fd, event, size)) < 0)
        if (errno != EINTR)
            return errno;
    return got == (ssize_t)size ? 0 : EIO;
}

API struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    const struct adapter_request request = {.op = ADAPTER_CREATE_CHANNEL};
    struct adapter_reply reply;
    struct lib_channel *channel = mem_calloc(1, sizeof *channel);
    int ends[2];
    int err = channel == NULL ? ENOMEM : pipe2(ends, O_CLOEXEC) != 0 ? errno : 0;

    if (err != 0) {
        mem_free(channel);
        errno = err;
        return NULL;
    }
    err = control(lib_context(context), &request, &reply, ends[1], NULL);
    close(ends[1]);
    if (err != 0) {
        close(ends[0]);
        mem_free(channel);
        errno = err;
        return NULL;
    }
    channel->channel = (struct ibv_comp_channel){.context = context, .fd = ends[0]};
    channel->handle = reply.handle;
    return &channel->channel;
}

API int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct lib_channel *own = container_of(channel, struct lib_channel, channel);
    const int err = control_destroy(channel->context, own->handle);

    if (err != 0)
        return err;
    close(channel->fd);
    mem_free(own);
    return 0;
}

API int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
                         void **cq_context)
{
    bool is_there = false;

    while (!is_there) {
        struct adapter_completion_event event;
        struct lib_cq *own;
        const int err = read_event(channel->fd, &event, sizeof event);

        if (err != 0) {
            errno = err;
            return -1;
        }
        own = (struct lib_cq *)(uintptr_t)event.cookie;
        pthread_mutex_lock(&lock);
        is_there = is_live(&own->live);
        if (is_there) {
            own->told++;
            *cq = &own->cq;
            *cq_context = own->cq.cq_context;
        }
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

API void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

/* Finds the object of the event; false: it is destroyed. */
static bool find_element(const struct adapter_async_event *got, struct ibv_async_event *event)
{
    struct lib_cq *cq = (struct lib_cq *)(uintptr_t)got->cookie;
    struct lib_srq *srq = (struct lib_srq *)(uintptr_t)got->cookie;
    struct lib_qp *qp = (struct lib_qp *)(uintptr_t)got->cookie;

    event->event_type = got->type;
    if (event->event_type == IBV_EVENT_CQ_ERR) {
        event->element.cq = &cq->cq;
        return is_live(&cq->live);
    }
    if (event->event_type == IBV_EVENT_SRQ_ERR ||
        event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        event->element.srq = &srq->srq;
        return is_live(&srq->live);
    }
    event->element.qp = &qp->qp;
    return is_live(&qp->live);
}

API int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    bool is_there = false;

    while (!is_there) {
        struct adapter_async_event got;
        const int err = read_event(context->async_fd, &got, sizeof got);

        if (err == EIO) { /* the daemon is gone; every later call also reports this */
            event->event_type = IBV_EVENT_DEVICE_FATAL;
            return 0;
        }
        if (err != 0) {
            errno = err;
            return -1;
        }
        pthread_mutex_lock(&lock);
        is_there = find_element(&got, event);
        pthread_mutex_unlock(&lock);
    }
    control_complain(lib_context(context));
    return 0;
}

API void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event; /* nothing waits for acknowledgements: destruction ends with the reply */
}
