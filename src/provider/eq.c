/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - the event queue: a list of events and errors, oldest first.
 *
 * They come from fi_eq_write() and from address vectors with FI_EVENT.  Everything else that
 * could report here (registration, connections) is synchronous or not offered.  An error
 * blocks the events after it until fi_eq_readerr() has taken it (-FI_EAVAIL).
 *
 * If there is no memory for an event of the provider, the event is lost, and a later read reports
 * it: the error FI_EOVERRUN, after all others.
 */
#include "base/sys.h"
#include "provider/eq.h"
#include "provider/fabric.h"
#include "provider/param.h"
#include "provider/unsupported.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prov_eq_entry {
    struct prov_eq_entry *next;
    bool is_error; /* data is a struct fi_eq_err_entry */
    uint32_t event;
    size_t size;
    char data[];
};

static struct prov_eq *eq_of(struct fid_eq *fid)
{
    return container_of(fid, struct prov_eq, fid);
}

/* ---- the list --------------------------------------------------------------------------- */

static struct prov_eq_entry *entry_create(uint32_t event, const void *data, size_t size)
{
    struct prov_eq_entry *entry = malloc(sizeof *entry + size);

    if (entry == NULL)
        return NULL;
    *entry = (struct prov_eq_entry){.event = event, .size = size};
    if (size != 0)
        memcpy(entry->data, data, size);
    return entry;
}

/* entry is NULL if there was no memory for it. */
static void entry_append(struct prov_eq *eq, struct prov_eq_entry *entry)
{
    pthread_mutex_lock(&eq->lock);
    if (entry != NULL) {
        *eq->last = entry;
        eq->last = &entry->next;
    } else {
        eq->overran = true;
    }
    pthread_mutex_unlock(&eq->lock);
    prov_wait_ring(&eq->wait);
}

static void entry_drop(struct prov_eq *eq)
{
    struct prov_eq_entry *entry = eq->first;

    eq->first = entry->next;
    if (eq->first == NULL)
        eq->last = &eq->first;
    free(entry);
}

void prov_eq_event(struct prov_eq *eq, uint32_t event, const void *entry, size_t size)
{
    entry_append(eq, entry_create(event, entry, size));
}

void prov_eq_error(struct prov_eq *eq, const struct fi_eq_err_entry *error)
{
    struct prov_eq_entry *entry = entry_create(0, error, sizeof *error);

    if (entry != NULL)
        entry->is_error = true;
    entry_append(eq, entry);
}

bool prov_eq_is_ready(struct prov_eq *eq)
{
    bool is;

    pthread_mutex_lock(&eq->lock);
    is = eq->first != NULL || eq->overran;
    pthread_mutex_unlock(&eq->lock);
    return is;
}

/* ---- reading and writing ------------------------------------------------------------------
 */

static ssize_t eq_take(struct prov_eq *eq, uint32_t *event, void *buf, size_t len,
                       uint64_t flags)
{
    const struct prov_eq_entry *entry = eq->first;
    ssize_t size;

    if (entry == NULL)
        return eq->overran ? -FI_EAVAIL : -FI_EAGAIN;
    if (entry->is_error)
        return -FI_EAVAIL;
    if (len < entry->size)
        return -FI_ETOOSMALL;
    *event = entry->event;
    if (entry->size != 0)
        memcpy(buf, entry->data, entry->size);
    size = (ssize_t)entry->size;
    if (!(flags & FI_PEEK))
        entry_drop(eq);
    return size;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
                       uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    bool tires = false;
    ssize_t size;

    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&eq->lock);
    size = eq_take(eq, event, buf, len, flags);
    if (size == -FI_EAGAIN)
        tires = door_idle_tires(&eq->idle);
    else
        door_idle_ends(&eq->idle);
    pthread_mutex_unlock(&eq->lock);
    if (tires)
        sys_yield();
    return size;
}

/* The structure of older clients has no err_data_size.  In newer ones a nonzero size means that
 * the client supplies the buffer. */
static void error_give(const struct prov_eq *eq, const void *error, struct fi_eq_err_entry *to)
{
    bool has_size = FI_VERSION_GE(eq->fabric->fid.api_version, FI_VERSION(1, 5));
    void *theirs = has_size && to->err_data_size != 0 ? to->err_data : NULL;

    memcpy(to, error, has_size ? sizeof *to : offsetof(struct fi_eq_err_entry, err_data_size));
    to->err_data = theirs;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct fi_eq_err_entry lost = {.fid = &fid->fid, .err = FI_EOVERRUN, .prov_errno = ENOMEM};
    ssize_t size = -FI_EAGAIN;

    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&eq->lock);
    if (eq->first != NULL && eq->first->is_error) {
        error_give(eq, eq->first->data, entry);
        size = (ssize_t)sizeof *entry;
        if (!(flags & FI_PEEK))
            entry_drop(eq);
    } else if (eq->first == NULL && eq->overran) {
        error_give(eq, &lost, entry);
        size = (ssize_t)sizeof *entry;
        eq->overran = flags & FI_PEEK;
    }
    pthread_mutex_unlock(&eq->lock);
    return size;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
                        uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct prov_eq_entry *entry;

    if (!eq->is_writable || flags != 0)
        return -FI_EINVAL;
    entry = entry_create(event, buf, len);
    if (entry == NULL)
        return -FI_ENOMEM;
    entry_append(eq, entry);
    return (ssize_t)len;
}

static ssize_t eq_await(struct prov_eq *eq, uint32_t *event, void *buf, size_t len,
                        int64_t deadline_ns, uint64_t flags)
{
    int err = 0;

    while (err == 0) {
        uint32_t rings = prov_wait_rings(&eq->wait);
        ssize_t size = eq_read(&eq->fid, event, buf, len, flags);

        if (size != -FI_EAGAIN)
            return size;
        err = prov_wait_sleep(&eq->wait, rings, deadline_ns);
    }
    return err == -FI_ETIMEDOUT ? -FI_EAGAIN : err;
}

static void eq_free(struct prov_eq *eq)
{
    while (eq->first != NULL)
        entry_drop(eq);
    pthread_mutex_destroy(&eq->lock);
    free(eq);
}

static void eq_leave(void *arg)
{
    struct prov_eq *eq = arg;

    if (prov_wait_leave(&eq->wait))
        eq_free(eq);
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    ssize_t size;

    if (eq->wait.object == FI_WAIT_NONE || eq->wait.object == FI_WAIT_SET)
        return -FI_EINVAL;
    prov_wait_enter(&eq->wait);
    pthread_cleanup_push(eq_leave, eq);
    size = eq_await(eq, event, buf, len, prov_deadline(timeout), flags);
    pthread_cleanup_pop(1);
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

/* ---- open and close -------------------------------------------------------------------------
 */

static int eq_close(struct fid *fid)
{
    struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);

    if (atomic_load(&eq->users) != 0)
        return -FI_EBUSY;
    atomic_fetch_sub(&eq->fabric->users, 1);
    if (prov_wait_close(&eq->wait, fid))
        eq_free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    return prov_wait_control(&container_of(fid, struct prov_eq, fid.fid)->wait, command, arg);
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = prov_no_bind,
    .control = eq_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
                 void *context)
{
    static const struct fi_eq_attr none = {.wait_obj = FI_WAIT_UNSPEC};
    struct prov_eq *eq;
    int err;

    if (attr == NULL)
        attr = (struct fi_eq_attr *)(uintptr_t)&none;
    if (attr->flags & ~(FI_WRITE | FI_AFFINITY))
        return -FI_EBADFLAGS;
    eq = calloc(1, sizeof *eq);
    if (eq == NULL)
        return -FI_ENOMEM;
    pthread_mutex_init(&eq->lock, NULL);
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &eq_fid_ops;
    eq->fid.ops = &eq_ops;
    eq->fabric = container_of(fabric, struct prov_fabric, fid);
    eq->is_writable = attr->flags & FI_WRITE;
    eq->last = &eq->first;
    door_idle_init(&eq->idle, prov_is_oversubscribed());
    atomic_init(&eq->users, 0);
    err = prov_wait_init(&eq->wait, attr->wait_obj, attr->wait_set, &eq->fid.fid);
    if (err < 0) {
        pthread_mutex_destroy(&eq->lock);
        free(eq);
        return err;
    }
    atomic_fetch_add(&eq->fabric->users, 1);
    *fid = &eq->fid;
    return 0;
}
