/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_open.c - which hardware matches tags, and how it is configured.
 *
 *   ibv_open_device -> tm_caps -> limits -> configure: a completion queue, and a shared receive
 *   queue of type IBV_SRQT_TM -> verbs_attach: queue pairs that receive from it
 *
 * The completion queue has space for everything that can be unread: MATCH and DATA_VALID for
 * every receive; one completion for every command, and for every buffer.
 */
#include "device/verbs/verbs_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/verbs/verbs_library.h"

#define VERBS_UNTAGGED_MAX 49152 /* fewer than 2^16 messages may be unreported */
#define VERBS_OPS_MIN      4 /* for a list of one: append, revoke, and two more (shadow.c) */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- which device ---- */

/* The tag matching capabilities; max_num_tags is 0 if the device does not match, or the query
 * fails. */
static struct ibv_tm_caps query_tags(struct ibv_context *context,
                                     struct ibv_device_attr_ex *attr)
{
    memset(attr, 0, sizeof *attr);
    if (ibv_query_device_ex(context, NULL, attr) != 0)
        attr->tm_caps.max_num_tags = 0;
    return attr->tm_caps;
}

/* Opens device if it matches tags: 0; -EOPNOTSUPP it does not; -errno. */
static int open_matching(struct ibv_device *device, struct ibv_context **context)
{
    struct ibv_device_attr_ex attr;
    struct ibv_tm_caps caps;
    struct ibv_context *opened = ibv_open_device(device);

    if (opened == NULL)
        return errno != 0 ? -errno : -EIO;
    caps = query_tags(opened, &attr);
    if (caps.max_num_tags == 0 || caps.max_ops < VERBS_OPS_MIN) {
        ibv_close_device(opened);
        return -EOPNOTSUPP;
    }
    *context = opened;
    return 0;
}

/* Opens the first device that matches tags, with this name unless it is NULL. */
static int find_matching(const char *name, struct ibv_context **context)
{
    struct ibv_device **devices;
    int err = verbs_library_load();

    if (err != 0)
        return err;
    err = -ENODEV;
    devices = ibv_get_device_list(NULL);
    if (devices == NULL)
        return -ENODEV;
    for (int i = 0; devices[i] != NULL && err != 0; i++)
        if (name == NULL || strcmp(ibv_get_device_name(devices[i]), name) == 0)
            err = open_matching(devices[i], context);
    ibv_free_device_list(devices);
    return err;
}

/* Appends "mlx5_0: max_num_tags 0" to a line. */
static void explain_device(struct ibv_device *device, char *line, size_t size)
{
    struct ibv_device_attr_ex attr;
    struct ibv_context *context = ibv_open_device(device);
    size_t used = strlen(line);
    const char *comma = used > 0 ? ", " : "", *name = ibv_get_device_name(device);

    if (context == NULL) {
        snprintf(line + used, size - used, "%s%s: cannot be opened", comma, name);
        return;
    }
    snprintf(line + used, size - used, "%s%s: max_num_tags %u", comma, name,
             query_tags(context, &attr).max_num_tags);
    ibv_close_device(context);
}

static void explain_devices(char *line, size_t size)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);

    line[0] = '\0';
    if (devices == NULL)
        return;
    for (int i = 0; devices[i] != NULL; i++)
        explain_device(devices[i], line, size);
    ibv_free_device_list(devices);
}

bool verbs_explain(char *line, size_t size)
{
    struct ibv_context *context;
    char devices[128];

    if (verbs_library_load() != 0) {
        snprintf(line, size, "%s", verbs_library_error());
        return false;
    }
    explain_devices(devices, sizeof devices);
    if (devices[0] == '\0') {
        snprintf(line, size, "libibverbs finds no device");
        return false;
    }
    if (find_matching(NULL, &context) != 0) {
        snprintf(line, size, "no device matches tags in hardware (%s)", devices);
        return false;
    }
    ibv_close_device(context);
    snprintf(line, size, "available (%s)", devices);
    return true;
}

/* ---- open, configure, close ---- */

static struct mbx_device_limits limits_of(struct ibv_context *context,
                                          const struct verbs_config *config)
{
    struct ibv_device_attr_ex attr;
    const struct ibv_tm_caps caps = query_tags(context, &attr);
    const uint32_t list = least(caps.max_num_tags, caps.max_ops / 2 - 1);
    const uint32_t commands = least(caps.max_ops, UINT16_MAX);
    const uint32_t entries = (uint32_t)attr.orig_attr.max_cqe, most = 2 * list + commands;
    const uint32_t space = entries > most ? entries - most : 0;

    return (struct mbx_device_limits){
        .list = list,
        .commands = commands,
        .untagged =
            least(least((uint32_t)attr.orig_attr.max_srq_wr, space), VERBS_UNTAGGED_MAX),
        .untagged_min = VERBS_UNTAGGED_MIN,
        .context_bits = verbs_context_bits(config->layout),
        .context_id = config->layout.kind == VERBS_FABRIC ? VERBS_FABRIC_CONTEXT : 0,
        .source_bits = VERBS_SOURCE_BITS,
        .tag_mask = verbs_tag_mask(config->layout),
        .untagged_size = VERBS_HEADROOM + sizeof(struct wire_header) + config->eager_max,
        .eager_max = config->eager_max,
        .caps = MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_TRUNCATES |
                MBX_DEVICE_NARROW | (caps.flags & IBV_TM_CAP_RC ? MBX_DEVICE_RENDEZVOUS : 0),
    };
}

void verbs_limits(const struct mbx_device *device, struct mbx_device_limits *limits)
{
    *limits = container_of(device, const struct verbs, device)->limits;
}

static struct ibv_cq_ex *create_queue(struct verbs *v)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 2 * v->list + v->commands + v->untagged,
        .channel = v->config.channel,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_TM_INFO,
    };

    return ibv_create_cq_ex(v->context, &attr);
}

static struct ibv_srq *create_list(struct verbs *v)
{
    struct ibv_srq_init_attr_ex attr = {
        .attr = {.max_wr = v->untagged, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_TM,
        .srq_type = IBV_SRQT_TM,
        .pd = v->pd,
        .cq = ibv_cq_ex_to_cq(v->cq),
        .tm_cap = {.max_num_tags = v->list, .max_ops = v->commands},
    };

    return ibv_create_srq_ex(v->context, &attr);
}

int verbs_configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                    uint32_t untagged)
{
    struct verbs *v = verbs_of(device);
    int err;

    if (v->srq != NULL || list == 0 || commands == 0 || untagged < VERBS_UNTAGGED_MIN ||
        list > v->limits.list || commands > v->limits.commands || untagged > v->limits.untagged)
        return -EINVAL;
    v->list = list;
    v->commands = commands;
    v->untagged = untagged;
    v->entries = mem_calloc(list, sizeof *v->entries);
    v->ranges.ranges = mem_calloc(list, sizeof *v->ranges.ranges);
    v->ranges.capacity = list;
    v->buffers = mem_calloc(untagged, sizeof *v->buffers);
    v->bounce = mem_alloc_aligned(CACHE_LINE, (size_t)list * v->limits.eager_max);
    if (v->entries == NULL || v->ranges.ranges == NULL || v->buffers == NULL ||
        v->bounce == NULL) {
        err = -ENOMEM;
        goto free_tables;
    }
    v->bounce_mr = ibv_reg_mr(v->pd, v->bounce, (size_t)list * v->limits.eager_max,
                              IBV_ACCESS_LOCAL_WRITE);
    if (v->bounce_mr == NULL) {
        err = -errno;
        goto free_tables;
    }
    v->cq = create_queue(v);
    if (v->cq == NULL) {
        err = -errno;
        goto deregister_bounce;
    }
    v->srq = create_list(v);
    if (v->srq == NULL) {
        err = -errno;
        goto destroy_queue;
    }
    return 0;

destroy_queue:
    LOG_WARN("verbs: no tag-matching queue of %u receives and %u buffers: %s", list, untagged,
             strerror(-err));
    ibv_destroy_cq(ibv_cq_ex_to_cq(v->cq));
    v->cq = NULL;
deregister_bounce:
    verbs_deregister(&v->bounce_mr);
free_tables:
    mem_free(v->entries);
    mem_free(v->ranges.ranges);
    mem_free(v->buffers);
    mem_free(v->bounce);
    v->entries = NULL;
    v->ranges.ranges = NULL;
    v->buffers = NULL;
    v->bounce = NULL;
    return err;
}

void verbs_deregister(struct ibv_mr **mr)
{
    if (*mr != NULL)
        ibv_dereg_mr(*mr);
    *mr = NULL;
}

void verbs_withdraw(struct verbs *v, struct verbs_entry *entry)
{
    if (entry->has_range)
        verbs_ranges_remove(&v->ranges, entry->buf);
    entry->has_range = false;
    if (entry->region != NULL)
        verbs_region_put(entry->region);
    entry->region = NULL;
}

/* ---- queue pairs ---- */

static struct list *pair_list(struct verbs *v, uint32_t qp_num)
{
    return &v->numbers[qp_num % VERBS_PAIR_LISTS];
}

struct verbs_pair *verbs_pair_by_number(struct verbs *v, uint32_t qp_num)
{
    struct list *node;

    list_for_each (node, pair_list(v, qp_num)) {
        struct verbs_pair *pair = container_of(node, struct verbs_pair, number);

        if (pair->qp->qp_num == qp_num)
            return pair;
    }
    return NULL;
}

struct verbs_pair *verbs_pair_of(struct verbs *v, uint32_t peer)
{
    struct list *node;

    list_for_each (node, &v->pairs) {
        struct verbs_pair *pair = container_of(node, struct verbs_pair, node);

        if (pair->peer == peer)
            return pair;
    }
    return NULL;
}

void verbs_pair_stop(struct verbs_pair *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    pair->has_failed = true;
    ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE);
}

static void pair_destroy(struct verbs_pair *pair)
{
    list_remove(&pair->node);
    list_remove(&pair->number);
    ibv_destroy_qp(pair->qp);
    mem_free(pair);
}

int verbs_attach(struct mbx_device *device, uint32_t peer, struct ibv_qp **qp)
{
    struct verbs *v = verbs_of(device);
    struct ibv_qp_init_attr attr = {
        .send_cq = ibv_cq_ex_to_cq(v->cq),
        .recv_cq = ibv_cq_ex_to_cq(v->cq),
        .srq = v->srq,
        .qp_type = IBV_QPT_RC,
    };
    struct verbs_pair *pair;

    assert(peer < v->config.peers);
    if (v->is_failing)
        return -ENODEV;
    if (verbs_pair_of(v, peer) != NULL)
        return -EALREADY;
    pair = mem_calloc(1, sizeof *pair);
    if (pair == NULL)
        return -ENOMEM;
    pair->qp = ibv_create_qp(v->pd, &attr);
    if (pair->qp == NULL) {
        int err = -errno;

        mem_free(pair);
        return err;
    }
    pair->peer = peer;
    list_add_tail(&v->pairs, &pair->node);
    list_add_tail(pair_list(v, pair->qp->qp_num), &pair->number);
    *qp = pair->qp;
    return 0;
}

void verbs_detach(struct mbx_device *device, uint32_t peer)
{
    struct verbs *v = verbs_of(device);
    struct verbs_pair *pair = verbs_pair_of(v, peer);

    if (pair == NULL)
        return;
    verbs_pair_stop(pair);
    pair_destroy(pair);
    v->has_gone = true;
}

int verbs_arm(struct mbx_device *device)
{
    struct verbs *v = verbs_of(device);

    if (v->is_failing || ibv_req_notify_cq(ibv_cq_ex_to_cq(v->cq), 0) != 0)
        return -ENODEV;
    return 0;
}

bool verbs_lie_down(struct mbx_device *device)
{
    struct verbs *v = verbs_of(device);

    if (v->ahead.type != 0 || v->later.type != 0 || verbs_arm(device) != 0)
        return false;
    return verbs_poll(device, &v->ahead, 1) == 0;
}

uint64_t verbs_empties(const struct mbx_device *device)
{
    return container_of(device, const struct verbs, device)->empties;
}

uint64_t verbs_idles(const struct mbx_device *device)
{
    return container_of(device, const struct verbs, device)->idles;
}

struct ibv_cq *verbs_queue(struct mbx_device *device)
{
    return ibv_cq_ex_to_cq(verbs_of(device)->cq);
}

uint32_t verbs_untagged(const struct mbx_device *device)
{
    return container_of(device, const struct verbs, device)->untagged;
}

void verbs_lose(struct mbx_device *device, const char *why)
{
    verbs_fail(verbs_of(device), why);
}

/* ---- the end ---- */

void verbs_close(struct mbx_device *device)
{
    struct verbs *v = verbs_of(device);

    while (!list_is_empty(&v->pairs))
        pair_destroy(container_of(v->pairs.next, struct verbs_pair, node));
    if (v->srq != NULL)
        ibv_destroy_srq(v->srq);
    if (v->cq != NULL)
        ibv_destroy_cq(ibv_cq_ex_to_cq(v->cq));
    for (uint32_t i = 0; v->entries != NULL && i < v->list; i++)
        verbs_withdraw(v, &v->entries[i]);
    for (uint32_t i = 0; v->buffers != NULL && i < v->untagged; i++)
        verbs_deregister(&v->buffers[i].mr);
    verbs_deregister(&v->prepared);
    verbs_deregister(&v->bounce_mr);
    mem_free(v->entries);
    mem_free(v->ranges.ranges);
    mem_free(v->buffers);
    mem_free(v->bounce);
    if (v->regions != v->config.regions)
        verbs_regions_close(v->regions);
    if (v->is_opened) {
        ibv_dealloc_pd(v->pd);
        ibv_close_device(v->context);
    }
    mem_free(v);
}

/* Opens a context and a protection domain, if the caller has given none. */
static int open_context(struct verbs *v)
{
    int err;

    v->context = v->config.context;
    v->pd = v->config.pd;
    if (v->context != NULL)
        return 0;
    err = find_matching(v->config.name, &v->context);
    if (err != 0)
        return err;
    v->pd = ibv_alloc_pd(v->context);
    if (v->pd == NULL) {
        ibv_close_device(v->context);
        return -ENOMEM;
    }
    v->is_opened = true;
    return 0;
}

int verbs_open(const struct verbs_config *config, struct mbx_device **device)
{
    struct verbs *v;
    int err;

    if ((config->eager_max != 0 && config->eager_max < VERBS_REQUEST_MAX) ||
        config->peers > 1u << VERBS_SOURCE_BITS ||
        (config->context != NULL) != (config->pd != NULL))
        return -EINVAL;
    v = mem_calloc(1, sizeof *v);
    if (v == NULL)
        return -ENOMEM;
    v->config = *config;
    if (config->eager_max == 0)
        v->config.eager_max = VERBS_EAGER_MAX;
    err = open_context(v);
    if (err != 0)
        goto free_state;
    v->device.ops = &verbs_ops;
    v->limits = limits_of(v->context, &v->config);
    if (v->limits.list == 0) {
        err = -EOPNOTSUPP; /* the caller's device does not match */
        goto close_context;
    }
    v->regions = config->regions != NULL ? config->regions : verbs_regions_open(v->pd, 0);
    if (v->regions == NULL) {
        err = -ENOMEM;
        goto close_context;
    }
    list_init(&v->held);
    list_init(&v->pairs);
    for (int i = 0; i < VERBS_PAIR_LISTS; i++)
        list_init(&v->numbers[i]);
    *device = &v->device;
    return 0;

close_context:
    if (v->is_opened) {
        ibv_dealloc_pd(v->pd);
        ibv_close_device(v->context);
    }
free_state:
    mem_free(v);
    return err;
}
