/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beneath.c - the adapter beneath, through its libibverbs, and its counterparts of a program's
 * objects.
 *
 * The library is loaded by its name or path (MBX_ADAPTER_OVER_LIBRARY) and called through a
 * table, because this library exports functions of the same names.
 */
#include "adapter/over/over.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environ.h"
#include "base/mem.h"

#define KEYED       1024 /* hash buckets */
#define POLLED      16   /* completions per ibv_poll_cq() */
#define ROUNDS_MOST 8

struct over over;

static struct list outlets = {&outlets, &outlets};
static struct list keyed[KEYED];

/* ---- the library ---- */

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define OVER_CALL(name) {"ibv_" #name, offsetof(struct over_calls, name)},
    OVER_CALLS(OVER_CALL)
#undef OVER_CALL
};

void *over_library(void)
{
    const char *name = environ_get(OVER_ENV_LIBRARY);

    if (name == NULL || *name == '\0')
        name = LIBRARY_USUAL;
    if (over.library == NULL)
        over.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (over.library == NULL)
        fprintf(stderr, "mbx-tags: %s\n", dlerror());
    return over.library;
}

static int load(void)
{
    if (over_library() == NULL)
        return -ENOENT;
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        void *call = dlsym(over.library, calls[i].name);

        if (call == NULL) {
            fprintf(stderr, "mbx-tags: the library beneath has no %s\n", calls[i].name);
            return -ENOSYS;
        }
        memcpy((char *)&over.calls + calls[i].offset, &call, sizeof call);
    }
    return 0;
}

static int read_eager(void)
{
    const char *text = environ_get(OVER_ENV_EAGER);
    char *end = NULL;
    unsigned long value;

    over.eager = EAGER_USUAL;
    if (text == NULL)
        return 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < EAGER_LEAST ||
        value > EAGER_MOST) {
        fprintf(stderr, "mbx-tags: " OVER_ENV_EAGER "=%s: %u to %u bytes\n", text, EAGER_LEAST,
                EAGER_MOST);
        return -EINVAL;
    }
    over.eager = (uint32_t)value;
    return 0;
}

static int open_device(void)
{
    const char *wanted = environ_get(OVER_ENV_DEVICE);
    struct ibv_device **list = over.calls.get_device_list(NULL);
    int err = -ENODEV;

    if (wanted != NULL && *wanted == '\0')
        wanted = NULL;
    for (struct ibv_device **each = list; each != NULL && *each != NULL; each++) {
        if (wanted != NULL && strcmp(over.calls.get_device_name(*each), wanted) != 0)
            continue;
        over.context = over.calls.open_device(*each);
        err = over.context != NULL ? 0 : -errno;
        break;
    }
    if (err != 0)
        fprintf(stderr, "mbx-tags: %s%s: %s\n", wanted != NULL ? "the adapter " : "an adapter",
                wanted != NULL ? wanted : "", strerror(-err));
    if (list != NULL)
        over.calls.free_device_list(list);
    return err;
}

static void do_not_wait(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int over_open(void)
{
    void *const library = over.library;
    int err;

    over = (struct over){.library = library};
    list_init(&outlets);
    for (size_t i = 0; i < KEYED; i++)
        list_init(&keyed[i]);
    pairs_reset();
    err = load();
    if (err == 0)
        err = read_eager();
    if (err == 0)
        err = open_device();
    if (err != 0)
        return err;
    over.channel = over.calls.create_comp_channel(over.context);
    if (over.channel == NULL || over.calls.query_device(over.context, &over.device) != 0) {
        fprintf(stderr, "mbx-tags: the adapter beneath: %s\n", strerror(errno));
        over_close();
        return -EIO;
    }
    do_not_wait(over.channel->fd);
    do_not_wait(over.context->async_fd);
    return 0;
}

void over_close(void)
{
    if (over.channel != NULL)
        over.calls.destroy_comp_channel(over.channel);
    over.calls.close_device(over.context);
}

bool beneath_is_lost(void)
{
    return over.is_lost;
}

/* ---- attributes ---- */

static int query_device(struct adapter_reply *reply)
{
    struct ibv_device_attr *attr = &reply->device;

    *attr = over.device;
    attr->max_qp_wr = (int)min_size((size_t)attr->max_qp_wr, ADAPTER_WR_MAX);
    attr->max_srq_wr = (int)min_size((size_t)attr->max_srq_wr, ADAPTER_WR_MAX);
    attr->max_sge = (int)min_size((size_t)attr->max_sge, ADAPTER_SGE_MAX);
    attr->max_sge_rd = (int)min_size((size_t)attr->max_sge_rd, ADAPTER_SGE_MAX);
    attr->max_srq_sge = (int)min_size((size_t)attr->max_srq_sge, ADAPTER_SGE_MAX);
    attr->max_cqe = (int)min_size((size_t)attr->max_cqe, ADAPTER_CQE_MAX);
    /* this library passes on no other capabilities */
    attr->max_mw = 0;
    attr->max_raw_ipv6_qp = attr->max_raw_ethy_qp = 0;
    attr->device_cap_flags &= IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
    return 0;
}

static int query_port(uint8_t port, struct adapter_reply *reply)
{
    const struct verbs_context *verbs = verbs_get_ctx_op(over.context, query_port);

    return verbs == NULL
               ? -EOPNOTSUPP
               : -verbs->query_port(over.context, port, &reply->port, sizeof reply->port);
}

static int query_gid(uint32_t port, uint32_t index, struct adapter_reply *reply)
{
    static __typeof__(&_ibv_query_gid_ex) query_ex;
    struct ibv_gid_entry entry;
    union ibv_gid gid;

    if (query_ex == NULL)
        query_ex = (__typeof__(query_ex))dlsym(over.library, "_ibv_query_gid_ex");
    if (query_ex != NULL && query_ex(over.context, port, index, &entry, 0, sizeof entry) == 0) {
        reply->gid.type = entry.gid_type;
        reply->gid.interface = entry.ndev_ifindex;
        memcpy(reply->gid.raw, entry.gid.raw, sizeof reply->gid.raw);
        return 0;
    }
    /* the entry is empty, or the library is older than that function */
    if (over.calls.query_gid(over.context, (uint8_t)port, (int)index, &gid) != 0)
        return -EINVAL;
    memcpy(reply->gid.raw, gid.raw, sizeof reply->gid.raw);
    return 0;
}

int beneath_query(const struct adapter_request *request, struct adapter_reply *reply)
{
    const uint32_t port = request->query.port, index = request->query.index;

    if (port > UINT8_MAX || index > UINT16_MAX)
        return -EINVAL;
    switch (request->query.what) {
    case ADAPTER_QUERY_DEVICE:
        return query_device(reply);
    case ADAPTER_QUERY_PORT:
        return query_port((uint8_t)port, reply);
    case ADAPTER_QUERY_GID:
        return query_gid(port, index, reply);
    case ADAPTER_QUERY_PKEY:
        return over.calls.query_pkey(over.context, (uint8_t)port, (int)index, &reply->pkey) == 0
                   ? 0
                   : -EINVAL;
    default:
        return -EPROTO;
    }
}

/* ---- domains and regions ---- */

static int last_error(void)
{
    return errno > 0 ? -errno : -EIO;
}

int beneath_pd(struct pd *pd)
{
    pd->beneath = over.calls.alloc_pd(over.context);
    return pd->beneath != NULL ? 0 : last_error();
}

void beneath_pd_end(struct pd *pd)
{
    over.calls.dealloc_pd(pd->beneath);
}

static struct list *bucket_of(uint32_t lkey)
{
    return &keyed[(lkey ^ lkey >> 10 ^ lkey >> 20) % KEYED];
}

static void take_keys(struct mr *mr)
{
    const struct ibv_mr *beneath = mr->beneath;

    mr->lkey = beneath->lkey;
    mr->rkey = beneath->rkey;
    list_init_node(&mr->keyed);
    list_add_tail(bucket_of(mr->lkey), &mr->keyed);
}

static uint32_t needed_access(uint32_t access)
{
    return access & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE;
}

/* The helper can register the memory because it shares the program's address space. */
int beneath_mr(struct mr *mr)
{
    void *const address = (void *)(uintptr_t)mr->addr;

    mr->beneath = mr->iova == mr->addr
                      ? over.calls.reg_mr(mr->pd->beneath, address, mr->length,
                                          (int)needed_access(mr->access))
                      : over.calls.reg_mr_iova2(mr->pd->beneath, address, mr->length, mr->iova,
                                                needed_access(mr->access));
    if (mr->beneath == NULL)
        return last_error();
    take_keys(mr);
    return 0;
}

int beneath_mr_change(struct mr *mr, const struct mr *changed, uint32_t flags)
{
    if (over.calls.rereg_mr(mr->beneath, (int)flags, changed->pd->beneath,
                            (void *)(uintptr_t)changed->addr, changed->length,
                            (int)needed_access(changed->access)) != 0)
        return last_error();
    list_remove(&mr->keyed);
    take_keys(mr);
    return 0;
}

void beneath_mr_end(struct mr *mr)
{
    list_remove(&mr->keyed);
    over.calls.dereg_mr(mr->beneath);
}

struct mr *beneath_mr_of_key(uint32_t lkey)
{
    struct list *node;

    list_for_each (node, bucket_of(lkey)) {
        struct mr *mr = container_of(node, struct mr, keyed);

        if (mr->lkey == lkey)
            return mr;
    }
    return NULL;
}

/* ---- completion queues ---- */

int outlet_open(struct outlet *outlet, uint32_t size)
{
    const size_t most = (size_t)over.device.max_cqe;

    outlet->cq =
        over.calls.create_cq(over.context, (int)min_size(size, most), NULL, over.channel, 0);
    if (outlet->cq == NULL)
        return last_error();
    list_init_node(&outlet->node);
    list_add_tail(&outlets, &outlet->node);
    return 0;
}

void outlet_close(struct outlet *outlet)
{
    list_remove(&outlet->node);
    over.calls.destroy_cq(outlet->cq);
}

int beneath_cq(struct cq *cq)
{
    struct outlet *outlet = mem_calloc(1, sizeof *outlet);
    int err;

    if (outlet == NULL)
        return -ENOMEM;
    outlet->of = cq;
    err = outlet_open(outlet, cq->size);
    if (err != 0)
        mem_free(outlet);
    else
        cq->beneath = outlet;
    return err;
}

void beneath_cq_end(struct cq *cq)
{
    outlet_close(cq->beneath);
    mem_free(cq->beneath);
}

bool outlet_poll(struct outlet *outlet)
{
    struct ibv_wc wc[POLLED];
    const int count = ibv_poll_cq(outlet->cq, POLLED, wc);

    if (count < 0)
        over.is_lost = true;
    for (int i = 0; i < count; i++) {
        struct qp *qp = pair_of_number(wc[i].qp_num);

        if (outlet->inlet != NULL)
            inlet_completed(outlet->inlet, qp, &wc[i]);
        else if (qp != NULL)
            pair_completed(outlet->of, qp, &wc[i]);
    }
    return count > 0;
}

bool beneath_poll(void)
{
    struct list *node, *next;
    bool has_any = false;

    list_for_each_safe (node, next, &outlets) {
        struct outlet *outlet = container_of(node, struct outlet, node);

        for (int round = 0; round < ROUNDS_MOST && outlet_poll(outlet); round++)
            has_any = true;
    }
    if (has_any)
        pairs_have_space();
    return has_any;
}

bool beneath_is_quiet(void)
{
    struct list *node;

    list_for_each (node, &outlets)
        if (ibv_req_notify_cq(container_of(node, struct outlet, node)->cq, 0) != 0)
            over.is_lost = true;
    return !beneath_poll() && !over.is_lost;
}

/* ---- descriptors, instead of a wire ---- */

bool wire_is_open(void)
{
    return false;
}

uint32_t wire_count(void)
{
    return 2;
}

void wire_fds(struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = over.channel->fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = over.context->async_fd, .events = POLLIN};
}

static void take_completion_events(void)
{
    struct ibv_cq *cq;
    void *of;

    while (over.calls.get_cq_event(over.channel, &cq, &of) == 0)
        over.calls.ack_cq_events(cq, 1);
}

static void pass_event_on(const struct ibv_async_event *event)
{
    struct list *node, *each;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        list_for_each (each, &client->objects) {
            struct object *object = container_of(each, struct object, node);

            if (object->kind == KIND_QP) {
                const struct qp *qp = container_of(object, struct qp, object);

                if (pair_beneath(qp) == event->element.qp)
                    client_event(client, event->event_type, qp->cookie);
            } else if (object->kind == KIND_SRQ) {
                const struct srq *srq = container_of(object, struct srq, object);

                if (srq->tm == NULL &&
                    ((struct shared *)srq->beneath)->srq == event->element.srq)
                    client_event(client, event->event_type, srq->cookie);
            }
        }
    }
}

static void take_async_event(const struct ibv_async_event *event)
{
    const enum ibv_event_type type = event->event_type;

    if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR) {
        fprintf(stderr, "mbx-tags: %s\n",
                type == IBV_EVENT_CQ_ERR ? "a completion queue beneath is overrun"
                                         : "the adapter beneath has failed");
        over.is_lost = true;
    } else if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
               type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_LAST_WQE_REACHED ||
               type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        pass_event_on(event);
    }
}

static void take_async_events(void)
{
    struct ibv_async_event event;

    while (!over.is_lost && over.calls.get_async_event(over.context, &event) == 0) {
        take_async_event(&event);
        over.calls.ack_async_event(&event);
    }
}

void wire_serve(const struct pollfd *fds, uint32_t count)
{
    (void)count;
    if (fds[0].revents != 0)
        take_completion_events();
    if (fds[1].revents != 0)
        take_async_events();
}
