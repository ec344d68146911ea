/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - the event queue: a list of what the client wrote.
 *
 * Everything that could report here (address insertion, registration, connections)
 * is synchronous or not offered, so the only source of events is fi_eq_write().
 */
#include "provider/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct prov_eq_entry {
    struct prov_eq_entry *next;
    uint32_t event;
    size_t size;
    char data[];
};

static struct prov_eq *eq_of(struct fid_eq *fid)
{
    return container_of(fid, struct prov_eq, fid);
}

static ssize_t eq_take(struct prov_eq *eq, uint32_t *event, void *buf, size_t len,
                       uint64_t flags)
{
    struct prov_eq_entry *entry = eq->first;
    ssize_t size;

    if (entry == NULL)
        return -FI_EAGAIN;
    if (len < entry->size)
        return -FI_ETOOSMALL;
    *event = entry->event;
    if (entry->size != 0)
        memcpy(buf, entry->data, entry->size);
    size = (ssize_t)entry->size;
    if (flags & FI_PEEK)
        return size;
    eq->first = entry->next;
    if (eq->first == NULL)
        eq->last = &eq->first;
    free(entry);
    return size;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
                       uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    ssize_t size;

    pthread_mutex_lock(&eq->lock);
    size = eq_take(eq, event, buf, len, flags);
    pthread_mutex_unlock(&eq->lock);
    return size;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    (void)fid, (void)entry, (void)flags;
    return -FI_EAGAIN; /* nothing that could fail reports here */
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
                        uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct prov_eq_entry *entry;

    if (!eq->writable || flags != 0)
        return -FI_EINVAL;
    entry = malloc(sizeof *entry + len);
    if (entry == NULL)
        return -FI_ENOMEM;
    entry->next = NULL;
    entry->event = event;
    entry->size = len;
    if (len != 0)
        memcpy(entry->data, buf, len);
    pthread_mutex_lock(&eq->lock);
    *eq->last = entry;
    eq->last = &entry->next;
    pthread_cond_signal(&eq->changed);
    pthread_mutex_unlock(&eq->lock);
    return (ssize_t)len;
}

static struct timespec deadline_after(int timeout_ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct timespec deadline = deadline_after(timeout < 0 ? 0 : timeout);
    ssize_t size;
    int err = 0;

    pthread_mutex_lock(&eq->lock);
    while (eq->first == NULL && err == 0)
        err = timeout < 0 ? pthread_cond_wait(&eq->changed, &eq->lock)
                          : pthread_cond_timedwait(&eq->changed, &eq->lock, &deadline);
    size = eq_take(eq, event, buf, len, flags);
    pthread_mutex_unlock(&eq->lock);
    return size;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data,
                               char *buf, size_t len)
{
    const char *text = mbx_strerror(prov_errno);

    (void)fid, (void)err_data;
    if (buf != NULL && len != 0)
        snprintf(buf, len, "%s", text);
    return text;
}

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

static int eq_close(struct fid *fid)
{
    struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);

    if (atomic_load(&eq->users) != 0)
        return -FI_EBUSY;
    while (eq->first != NULL) {
        struct prov_eq_entry *entry = eq->first;

        eq->first = entry->next;
        free(entry);
    }
    atomic_fetch_sub(&eq->fabric->users, 1);
    pthread_cond_destroy(&eq->changed);
    pthread_mutex_destroy(&eq->lock);
    free(eq);
    return 0;
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static void eq_init_waiting(struct prov_eq *eq)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&eq->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&eq->changed, &attr);
    pthread_condattr_destroy(&attr);
}

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
                 void *context)
{
    struct prov_eq *eq;

    if (attr != NULL && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
        attr->wait_obj != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    eq = calloc(1, sizeof *eq);
    if (eq == NULL)
        return -FI_ENOMEM;
    eq_init_waiting(eq);
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &eq_fid_ops;
    eq->fid.ops = &eq_ops;
    eq->fabric = container_of(fabric, struct prov_fabric, fid);
    eq->writable = attr != NULL && (attr->flags & FI_WRITE);
    eq->last = &eq->first;
    atomic_init(&eq->users, 0);
    atomic_fetch_add(&eq->fabric->users, 1);
    *fid = &eq->fid;
    return 0;
}
