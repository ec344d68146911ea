/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_library.c - see verbs_library.h.
 */
#include "transport/verbs/verbs_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define LIBRARY_NAME "libibverbs.so.1"

/* The header wraps these in macros of the same name. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

static struct verbs_library {
    __typeof__(&ibv_get_device_list) get_device_list;
    __typeof__(&ibv_free_device_list) free_device_list;
    __typeof__(&ibv_get_device_name) get_device_name;
    __typeof__(&ibv_open_device) open_device;
    __typeof__(&ibv_close_device) close_device;
    __typeof__(&ibv_query_device) query_device;
    __typeof__(&ibv_query_port) query_port;
    __typeof__(&ibv_query_gid) query_gid;
    __typeof__(&ibv_alloc_pd) alloc_pd;
    __typeof__(&ibv_dealloc_pd) dealloc_pd;
    __typeof__(&ibv_reg_mr) reg_mr;
    __typeof__(&ibv_dereg_mr) dereg_mr;
    __typeof__(&ibv_destroy_cq) destroy_cq;
    __typeof__(&ibv_create_srq) create_srq;
    __typeof__(&ibv_destroy_srq) destroy_srq;
    __typeof__(&ibv_create_qp) create_qp;
    __typeof__(&ibv_modify_qp) modify_qp;
    __typeof__(&ibv_destroy_qp) destroy_qp;
    __typeof__(&ibv_wc_status_str) wc_status_str;
    __typeof__(&ibv_create_cq) create_cq;
    __typeof__(&ibv_create_comp_channel) create_comp_channel;
    __typeof__(&ibv_destroy_comp_channel) destroy_comp_channel;
    __typeof__(&ibv_get_cq_event) get_cq_event;
    __typeof__(&ibv_ack_cq_events) ack_cq_events;
    __typeof__(&ibv_get_async_event) get_async_event;
    __typeof__(&ibv_ack_async_event) ack_async_event;
    __typeof__(&ibv_create_ah) create_ah;
    __typeof__(&ibv_destroy_ah) destroy_ah;
} library;

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct verbs_library */
} calls[] = {
#define CALL(name)                                                                             \
    {                                                                                          \
        "ibv_" #name, offsetof(struct verbs_library, name)                                     \
    }
    CALL(get_device_list),
    CALL(free_device_list),
    CALL(get_device_name),
    CALL(open_device),
    CALL(close_device),
    CALL(query_device),
    CALL(alloc_pd),
    CALL(dealloc_pd),
    CALL(reg_mr),
    CALL(dereg_mr),
    CALL(destroy_cq),
    CALL(create_srq),
    CALL(destroy_srq),
    CALL(create_qp),
    CALL(modify_qp),
    CALL(destroy_qp),
    CALL(wc_status_str),
    CALL(query_port),
    CALL(query_gid),
    CALL(create_cq),
    CALL(create_comp_channel),
    CALL(destroy_comp_channel),
    CALL(get_cq_event),
    CALL(ack_cq_events),
    CALL(get_async_event),
    CALL(ack_async_event),
    CALL(create_ah),
    CALL(destroy_ah),
#undef CALL
};
static_assert(sizeof(struct verbs_library) == ARRAY_COUNT(calls) * sizeof(void *), "all calls");

/* Missing in an older libibverbs, and in the software adapter. */
static __typeof__(&ibv_is_fork_initialized) is_fork_initialized;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;
static char why_not[128]; /* written once; "" before */

static char name[256] = LIBRARY_NAME;

static int verbs_library_try(void)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const bool is_usual = strcmp(name, LIBRARY_NAME) == 0;
    struct verbs_library loaded;

    if (handle == NULL) {
        snprintf(why_not, sizeof why_not, "libibverbs cannot be loaded: %s", dlerror());
        return -EOPNOTSUPP;
    }
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        void *symbol = is_usual ? dlsym(RTLD_DEFAULT, calls[i].name) : NULL;

        if (symbol == NULL)
            symbol = dlsym(handle, calls[i].name);
        if (symbol == NULL) {
            snprintf(why_not, sizeof why_not, "%.80s lacks %s", name, calls[i].name);
            dlclose(handle);
            return -EOPNOTSUPP;
        }
        memcpy((char *)&loaded + calls[i].offset, &symbol, sizeof symbol);
    }
    library = loaded;
    *(void **)&is_fork_initialized = dlsym(handle, "ibv_is_fork_initialized");
    is_loaded = true;
    return 0;
}

bool verbs_library_minds_fork(void)
{
    return is_fork_initialized != NULL && is_fork_initialized() == IBV_FORK_ENABLED;
}

void verbs_use(const char *file)
{
    pthread_mutex_lock(&lock);
    if (!is_loaded && strcmp(name, file) != 0 && strlen(file) < sizeof name) {
        strcpy(name, file);
        why_not[0] = '\0'; /* the error was for another file */
    }
    pthread_mutex_unlock(&lock);
}

int verbs_library_load(void)
{
    int err = 0;

    pthread_mutex_lock(&lock);
    if (!is_loaded)
        err = why_not[0] != '\0' ? -EOPNOTSUPP : verbs_library_try();
    pthread_mutex_unlock(&lock);
    return err;
}

const char *verbs_library_error(void)
{
    return why_not;
}

/* ---- the functions of libibverbs, for its header and for us ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
    return library.get_device_list(count);
}

void ibv_free_device_list(struct ibv_device **list)
{
    library.free_device_list(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return library.get_device_name(device);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    return library.open_device(device);
}

int ibv_close_device(struct ibv_context *context)
{
    return library.close_device(context);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return library.query_device(context, attr);
}

int ibv_query_port(struct ibv_context *context, uint8_t port,
                   struct _compat_ibv_port_attr *attr)
{
    return library.query_port(context, port, attr);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    return library.query_gid(context, port, index, gid);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    return library.alloc_pd(context);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return library.dealloc_pd(pd);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return library.reg_mr(pd, addr, length, access);
}

/* ibv_reg_mr() calls it only with optional access flags, which are not used here. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    (void)pd, (void)addr, (void)length, (void)iova, (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    return library.dereg_mr(mr);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    return library.destroy_cq(cq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return library.create_srq(pd, attr);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    return library.destroy_srq(srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return library.create_qp(pd, attr);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return library.modify_qp(qp, attr, mask);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    return library.destroy_qp(qp);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return library.wc_status_str(status);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    return library.create_cq(context, entries, cq_context, channel, vector);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    return library.create_comp_channel(context);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return library.destroy_comp_channel(channel);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    return library.get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    library.ack_cq_events(cq, count);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return library.get_async_event(context, event);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    library.ack_async_event(event);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    return library.create_ah(pd, attr);
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    return library.destroy_ah(ah);
}
