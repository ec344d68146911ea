/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* verbs.h wraps it in a macro of the same name */
#undef ibv_reg_mr

#define FAKE_DEVICES_MAX 4

static struct ibv_device devices[FAKE_DEVICES_MAX];

void fake_abort(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "fake verbs: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

void *fake_calloc(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);

    if (memory == NULL)
        fake_abort("no memory");
    return memory;
}

static unsigned setting(const char *name, unsigned initial)
{
    const char *value = getenv(name);

    return value != NULL ? (unsigned)strtoul(value, NULL, 10) : initial;
}

/* ---- what waits ---- */

/* The index-th thing that could move, if it can. */
static bool try_step(struct fake_context *context, uint32_t index)
{
    struct list *node;

    list_for_each (node, &context->queues) {
        struct fake_srq *srq = container_of(node, struct fake_srq, node);

        if (index < 2)
            return index == 0 ? fake_command_step(srq) : fake_transfer_step(srq);
        index -= 2;
    }
    list_for_each (node, &context->pairs)
        if (index-- == 0)
            return fake_arrival_step(container_of(node, struct fake_qp, node));
    return false;
}

static uint32_t count_movers(struct fake_context *context)
{
    uint32_t count = 0;
    struct list *node;

    list_for_each (node, &context->queues)
        count += 2;
    list_for_each (node, &context->pairs)
        count++;
    return count;
}

bool fake_step(struct fake_context *context)
{
    const uint32_t count = count_movers(context);
    uint32_t first;

    if (count == 0 || context->is_lost)
        return false;
    first = (uint32_t)random_below(&context->random, count);
    for (uint32_t i = 0; i < count; i++)
        if (try_step(context, (first + i) % count))
            return true;
    return false;
}

void fake_wander(struct fake_context *context)
{
    for (uint64_t n = random_below(&context->random, 4); n > 0; n--)
        fake_step(context);
}

/* ---- memory ---- */

void fake_check_memory(struct fake_context *context, const struct ibv_sge *sge)
{
    struct list *node;

    if (sge->length == 0)
        return;
    list_for_each (node, &context->regions) {
        const struct ibv_mr *mr = &container_of(node, struct fake_region, node)->mr;

        if (mr->lkey == sge->lkey && sge->addr >= (uintptr_t)mr->addr &&
            sge->addr + sge->length <= (uintptr_t)mr->addr + mr->length)
            return;
    }
    fake_abort("%u bytes with lkey %u are not registered", sge->length, sge->lkey);
}

#pragma GCC visibility push(default)

void fake_verbs_run(struct ibv_context *context)
{
    while (fake_step(fake_context_of(context)))
        ;
}

void fake_verbs_lose(struct ibv_context *context)
{
    fake_context_of(context)->is_lost = true;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = fake_calloc(1, sizeof *pd);

    pd->context = context;
    fake_context_of(context)->open++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    fake_context_of(pd->context)->open--;
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct fake_context *context = fake_context_of(pd->context);
    struct fake_region *region = fake_calloc(1, sizeof *region);

    (void)access;
    region->mr = (struct ibv_mr){.context = pd->context,
                                 .pd = pd,
                                 .addr = addr,
                                 .length = length,
                                 .lkey = ++context->next_number};
    list_add_tail(&context->regions, &region->node);
    context->open++;
    return &region->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct fake_region *region = container_of(mr, struct fake_region, mr);

    fake_context_of(mr->context)->open--;
    list_remove(&region->node);
    free(region);
    return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct fake_cq *fake = (struct fake_cq *)cq;

    fake_context_of(cq->context)->open--;
    free(fake->ring);
    free(fake);
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct fake_srq *fake = container_of(srq, struct fake_srq, srq);
    struct fake_context *context = fake_context_of(srq->context);
    struct list *node;

    list_for_each (node, &context->pairs)
        if (container_of(node, struct fake_qp, node)->srq == fake)
            return EBUSY;
    context->open--;
    list_remove(&fake->node);
    fake_srq_fini(fake);
    free(fake);
    return 0;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fake_context *context = fake_context_of(pd->context);
    struct fake_qp *qp = fake_calloc(1, sizeof *qp);

    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_num = ++context->next_number,
                             .qp_type = attr->qp_type};
    qp->srq = attr->srq != NULL ? container_of(attr->srq, struct fake_srq, srq) : NULL;
    list_init(&qp->arrivals);
    list_add_tail(&context->pairs, &qp->node);
    context->open++;
    return &qp->qp;
}

static struct fake_qp *find_pair(struct fake_context *context, uint32_t number)
{
    struct list *node;

    list_for_each (node, &context->pairs) {
        struct fake_qp *qp = container_of(node, struct fake_qp, node);

        if (qp->qp.qp_num == number)
            return qp;
    }
    return NULL;
}

/* RESET -> INIT -> RTR -> RTS, or ERR: each step once. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *fake = container_of(qp, struct fake_qp, qp);

    if (!(mask & IBV_QP_STATE) ||
        (attr->qp_state != IBV_QPS_ERR && (int)attr->qp_state != (int)qp->state + 1))
        return EINVAL;
    if (attr->qp_state == IBV_QPS_RTR) {
        fake->peer = find_pair(fake_context_of(qp->context), attr->dest_qp_num);
        if (!(mask & IBV_QP_DEST_QPN) || fake->peer == NULL)
            return EINVAL;
    }
    qp->state = attr->qp_state;
    return 0;
}

static void forget_pair(struct fake_context *context, const struct fake_qp *gone)
{
    struct list *node;

    list_for_each (node, &context->pairs) {
        struct fake_qp *qp = container_of(node, struct fake_qp, node);

        if (qp->peer == gone)
            qp->peer = NULL;
    }
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct fake_qp *fake = container_of(qp, struct fake_qp, qp);
    struct fake_context *context = fake_context_of(qp->context);
    struct list *node;

    while ((node = list_pop_head(&fake->arrivals)) != NULL)
        free(container_of(node, struct fake_packet, node));
    list_remove(&fake->node);
    forget_pair(context, fake);
    context->open--;
    free(fake);
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *fake = container_of(qp, struct fake_qp, qp);
    struct fake_packet *packet;
    uint32_t size = 0;

    *bad = wr;
    if (qp->state != IBV_QPS_RTS || fake->peer == NULL || fake->peer->qp.state < IBV_QPS_RTR ||
        wr->next != NULL || wr->opcode != IBV_WR_SEND)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        size += wr->sg_list[i].length;
    packet = fake_calloc(1, sizeof *packet + size);
    for (int i = 0; i < wr->num_sge; packet->size += wr->sg_list[i++].length)
        memcpy(packet->bytes + packet->size, (const void *)(uintptr_t)wr->sg_list[i].addr,
               wr->sg_list[i].length);
    list_add_tail(&fake->peer->arrivals, &packet->node);
    fake_wander(fake_context_of(qp->context));
    return 0;
}

/* ---- the device ---- */

static int query_device_ex(struct ibv_context *context,
                           const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t size)
{
    const unsigned tags = setting("FAKE_VERBS_TAGS", 127);
    struct ibv_device_attr_ex all = {
        .orig_attr = {.fw_ver = "none",
                      .max_mr_size = UINT64_MAX,
                      .max_qp = 1024,
                      .max_qp_wr = 1024,
                      .max_sge = 4,
                      .max_cq = 1024,
                      .max_cqe = 1 << 20,
                      .max_mr = 1 << 20,
                      .max_pd = 1024,
                      .max_srq = 1024,
                      .max_srq_wr = 32767,
                      .max_srq_sge = 1,
                      .phys_port_cnt = 1},
        .tm_caps = {.max_rndv_hdr_size = tags > 0 ? 64 : 0,
                    .max_num_tags = tags,
                    .max_ops = tags > 0 ? 4096 : 0,
                    .max_sge = tags > 0 ? 1 : 0},
    };

    (void)context;
    (void)input;
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size)
{
    const struct ibv_port_attr all = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .max_msg_sz = 1u << 30,
        .lid = 1,
        .link_layer = IBV_LINK_LAYER_INFINIBAND,
    };

    (void)context;
    (void)port;
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    unsigned n = setting("FAKE_VERBS_DEVICES", 1);
    struct ibv_device **list = fake_calloc(FAKE_DEVICES_MAX + 1, sizeof(struct ibv_device *));

    n = n < FAKE_DEVICES_MAX ? n : FAKE_DEVICES_MAX;
    for (unsigned i = 0; i < n; i++) {
        devices[i].node_type = IBV_NODE_CA;
        devices[i].transport_type = IBV_TRANSPORT_IB;
        snprintf(devices[i].name, sizeof devices[i].name, "fake%u", i);
        list[i] = &devices[i];
    }
    if (count != NULL)
        *count = (int)n;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct fake_context *context = fake_calloc(1, sizeof *context);

    context->verbs = (struct verbs_context){
        .query_port = query_port,
        .post_srq_ops = fake_post_srq_ops,
        .create_cq_ex = fake_create_cq_ex,
        .query_device_ex = query_device_ex,
        .create_srq_ex = fake_create_srq_ex,
        .sz = sizeof context->verbs,
        .context = {.device = device,
                    .ops = {.post_srq_recv = fake_post_srq_recv, .post_send = post_send},
                    .cmd_fd = -1,
                    .async_fd = -1,
                    .num_comp_vectors = 1,
                    .abi_compat = __VERBS_ABI_IS_EXTENDED},
    };
    list_init(&context->pairs);
    list_init(&context->queues);
    list_init(&context->regions);
    random_seed(&context->random, setting("FAKE_VERBS_SEED", 1));
    return &context->verbs.context;
}

int ibv_close_device(struct ibv_context *context)
{
    struct fake_context *fake = fake_context_of(context);

    if (fake->open > 0)
        fake_abort("closed with %u objects open", fake->open);
    free(fake);
    return 0;
}

#pragma GCC visibility pop
