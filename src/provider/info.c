/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.c - fi_getinfo: does what we offer meet what the client asks for?
 *
 * One info, or -FI_ENODATA.  For every attribute a hint of zero means "anything":
 *
 *   capabilities, orders    the hints must be a subset of ours; what was not asked
 *                           for is not turned on, for it may change semantics
 *                           (FI_DIRECTED_RECV makes receives heed their address)
 *   sizes and counts        the hint must not exceed ours; ours is returned
 *   threading, progress,    the hint is returned as it came: clients that check
 *   av_type                 take even a stronger answer for a refusal
 *   mr_mode                 how regions are named: as the hint likes
 *   mode                    we need nothing, so nothing is returned
 *
 * Refused without looking further: internal requests of other providers and other
 * endpoint types.  Otherwise ofi_rxm and ofi_rxd would layer themselves on top of
 * this provider, and libfabric would list those first.
 */
#include "provider/envelope.h"
#include "provider/fabric.h"
#include "provider/name.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Set in flags by providers that look for a core provider to build on. */
#define INTERNAL_REQUEST (UINT64_C(1) << 59)

#define TYPE_CAPS        (FI_MSG | FI_TAGGED)
#define WAY_CAPS         (FI_SEND | FI_RECV)
#define SIDE_CAPS        (FI_RMA | FI_ATOMIC)
#define SIDE_WAY_CAPS    (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define HINT_CAPS                                                                              \
    (TYPE_CAPS | WAY_CAPS | FI_DIRECTED_RECV | FI_MULTI_RECV | SIDE_CAPS | SIDE_WAY_CAPS |     \
     FI_RMA_EVENT)
/* Returned whether asked for or not: they cost nothing. */
#define FREE_CAPS   (FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define SEND_CAPS   (TYPE_CAPS | FI_SEND | SIDE_CAPS | FI_READ | FI_WRITE)
#define RECV_CAPS                                                                              \
    (TYPE_CAPS | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | SIDE_CAPS |          \
     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT)

#define SEND_FLAGS                                                                             \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
     FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define RECV_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_TRANSMIT_COMPLETE)
/* R and W are one-sided, atomics included; they are not ordered with messages. */
#define ORDERS                                                                                 \
    (FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW |                \
     FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |               \
     FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
/* FI_PROGRESS_CONTROL_UNIFIED, of 2.0: a promise that we do not need. */
#define PROGRESS_LAST 3
#define BUFFERED      ((size_t)1 << 30) /* unexpected data that we are willing to hold */
#define COUNT_LIMIT   ((size_t)1 << 16) /* endpoints and queues of a domain */

static bool is_subset(uint64_t hint, uint64_t offer)
{
    return (hint & ~offer) == 0;
}

static bool names_us(const char *hint)
{
    return hint == NULL || strcmp(hint, PROV_NAME) == 0;
}

/* The capabilities that this client gets, or 0. */
static uint64_t caps_for(uint64_t hint)
{
    uint64_t caps = hint & HINT_CAPS;

    if (hint == 0)
        return HINT_CAPS | FREE_CAPS;
    if (!is_subset(hint, HINT_CAPS | FREE_CAPS))
        return 0;
    if ((caps & (TYPE_CAPS | SIDE_CAPS)) == 0)
        caps |= TYPE_CAPS;
    if ((caps & TYPE_CAPS) && (caps & WAY_CAPS) == 0)
        caps |= WAY_CAPS;
    if ((caps & SIDE_CAPS) && (caps & SIDE_WAY_CAPS) == 0)
        caps |= SIDE_WAY_CAPS;
    return caps | FREE_CAPS;
}

static bool fabric_fits(const struct fi_fabric_attr *hint)
{
    return hint == NULL ||
           (names_us(hint->name) &&
            (hint->prov_name == NULL || strcasecmp(hint->prov_name, PROV_NAME) == 0));
}

static bool models_fit(const struct fi_domain_attr *hint)
{
    return hint->threading <= FI_THREAD_ENDPOINT &&
           (int)hint->control_progress <= PROGRESS_LAST &&
           (int)hint->data_progress <= PROGRESS_LAST && hint->resource_mgmt <= FI_RM_ENABLED &&
           hint->av_type <= FI_AV_TABLE;
}

static bool domain_fits(const struct fi_domain_attr *hint)
{
    if (hint == NULL)
        return true;
    return names_us(hint->name) && models_fit(hint) && hint->mr_key_size <= sizeof(uint64_t) &&
           hint->cq_data_size <= sizeof(uint64_t) && hint->cq_cnt <= COUNT_LIMIT &&
           hint->ep_cnt <= COUNT_LIMIT && hint->tx_ctx_cnt <= COUNT_LIMIT &&
           hint->rx_ctx_cnt <= COUNT_LIMIT && hint->max_ep_tx_ctx <= 1 &&
           hint->max_ep_rx_ctx <= 1 && hint->max_ep_stx_ctx == 0 && hint->max_ep_srx_ctx == 0 &&
           hint->cntr_cnt <= COUNT_LIMIT && hint->mr_iov_limit <= 1 &&
           hint->auth_key_size == 0 && hint->max_err_data == 0 && hint->mr_cnt <= COUNT_LIMIT &&
           is_subset(hint->caps, DOMAIN_CAPS);
}

/* Bits below the leading zeros of a tag format can be used. */
static bool tag_format_fits(uint64_t hint)
{
    return (hint & PROV_HAS_DATA) == 0;
}

static bool ep_fits(const struct fi_ep_attr *hint)
{
    if (hint == NULL)
        return true;
    return (hint->type == FI_EP_UNSPEC || hint->type == FI_EP_RDM) &&
           (hint->protocol == FI_PROTO_UNSPEC || hint->protocol == PROV_PROTOCOL) &&
           hint->protocol_version <= 1 && hint->max_msg_size <= PROV_MESSAGE_MAX &&
           hint->max_order_raw_size <= PROV_MESSAGE_MAX &&
           hint->max_order_war_size <= PROV_MESSAGE_MAX &&
           hint->max_order_waw_size <= PROV_MESSAGE_MAX &&
           tag_format_fits(hint->mem_tag_format) && hint->tx_ctx_cnt <= 1 &&
           hint->rx_ctx_cnt <= 1 && hint->auth_key_size == 0;
}

static bool tx_fits(const struct fi_tx_attr *hint, uint64_t caps)
{
    if (hint == NULL)
        return true;
    return is_subset(hint->caps, (caps & SEND_CAPS) | FREE_CAPS) &&
           is_subset(hint->op_flags, SEND_FLAGS) && is_subset(hint->msg_order, ORDERS) &&
           is_subset(hint->comp_order, FI_ORDER_NONE) &&
           hint->inject_size <= PROV_INJECT_SIZE && hint->iov_limit <= PROV_IOV_LIMIT &&
           hint->rma_iov_limit <= PROV_IOV_LIMIT;
}

static bool rx_fits(const struct fi_rx_attr *hint, uint64_t caps)
{
    if (hint == NULL)
        return true;
    return is_subset(hint->caps, (caps & RECV_CAPS) | FREE_CAPS) &&
           is_subset(hint->op_flags, RECV_FLAGS) && is_subset(hint->msg_order, ORDERS) &&
           is_subset(hint->comp_order, FI_ORDER_NONE) &&
           hint->total_buffered_recv <= BUFFERED && hint->iov_limit <= PROV_IOV_LIMIT;
}

static bool hints_fit(const struct fi_info *hints)
{
    uint64_t caps = caps_for(hints->caps);

    return caps != 0 &&
           (hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == PROV_ADDR_FORMAT) &&
           fabric_fits(hints->fabric_attr) && domain_fits(hints->domain_attr) &&
           ep_fits(hints->ep_attr) && tx_fits(hints->tx_attr, caps) &&
           rx_fits(hints->rx_attr, caps);
}

static void tx_fill(struct fi_tx_attr *attr, const struct fi_tx_attr *hint, uint64_t caps)
{
    attr->caps = caps & SEND_CAPS;
    attr->msg_order = ORDERS;
    attr->rma_iov_limit = PROV_IOV_LIMIT;
    attr->inject_size = PROV_INJECT_SIZE;
    attr->size = PROV_QUEUE_SIZE;
    attr->iov_limit = PROV_IOV_LIMIT;
    if (hint == NULL)
        return;
    attr->op_flags = hint->op_flags;
    if (hint->size > attr->size)
        attr->size = hint->size; /* there is no queue of a fixed depth */
}

static void rx_fill(struct fi_rx_attr *attr, const struct fi_rx_attr *hint, uint64_t caps)
{
    attr->caps = caps & RECV_CAPS;
    attr->msg_order = ORDERS;
    attr->total_buffered_recv = BUFFERED;
    attr->size = PROV_QUEUE_SIZE;
    attr->iov_limit = PROV_IOV_LIMIT;
    if (hint == NULL)
        return;
    attr->op_flags = hint->op_flags;
    if (hint->size > attr->size)
        attr->size = hint->size;
}

static void ep_fill(struct fi_ep_attr *attr)
{
    attr->type = FI_EP_RDM;
    attr->protocol = PROV_PROTOCOL;
    attr->protocol_version = 1;
    attr->max_msg_size = PROV_MESSAGE_MAX;
    attr->max_order_raw_size = PROV_MESSAGE_MAX;
    attr->max_order_war_size = PROV_MESSAGE_MAX;
    attr->max_order_waw_size = PROV_MESSAGE_MAX;
    attr->mem_tag_format = PROV_TAG_FORMAT;
    attr->tx_ctx_cnt = 1;
    attr->rx_ctx_cnt = 1;
}

/* What we return is what the client then must do, and we need nothing: a client that could bind
 * its regions to endpoints would have to, and one that could use its own addresses may have
 * others in mind.  The two names are modes of their own: before 1.5 there was nothing else,
 * later versions know them still, and who asks for one looks whether it comes back. */
static int mr_mode_for(uint32_t version, const struct fi_domain_attr *hint)
{
    int mode = hint != NULL ? hint->mr_mode : 0;

    if (mode == FI_MR_BASIC || mode == FI_MR_SCALABLE)
        return mode;
    return FI_VERSION_GE(version, FI_VERSION(1, 5)) ? 0 : FI_MR_SCALABLE;
}

static void domain_echo(struct fi_domain_attr *attr, const struct fi_domain_attr *hint)
{
    attr->domain = hint->domain;
    if (hint->threading != FI_THREAD_UNSPEC)
        attr->threading = hint->threading;
    if (hint->control_progress != FI_PROGRESS_UNSPEC)
        attr->control_progress = hint->control_progress;
    if (hint->data_progress != FI_PROGRESS_UNSPEC)
        attr->data_progress = hint->data_progress;
    if (hint->resource_mgmt != FI_RM_UNSPEC)
        attr->resource_mgmt = hint->resource_mgmt;
    attr->av_type = hint->av_type;
}

static int domain_fill(struct fi_domain_attr *attr, const struct fi_domain_attr *hint,
                       uint32_t version)
{
    attr->name = strdup(PROV_NAME);
    attr->threading = FI_THREAD_SAFE;
    attr->control_progress = FI_PROGRESS_MANUAL;
    attr->data_progress = FI_PROGRESS_MANUAL;
    attr->resource_mgmt = FI_RM_ENABLED;
    attr->av_type = FI_AV_UNSPEC; /* either will do */
    attr->mr_mode = mr_mode_for(version, hint);
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = COUNT_LIMIT;
    attr->ep_cnt = COUNT_LIMIT;
    attr->tx_ctx_cnt = COUNT_LIMIT;
    attr->rx_ctx_cnt = COUNT_LIMIT;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->cntr_cnt = COUNT_LIMIT;
    attr->mr_cnt = COUNT_LIMIT;
    attr->mr_iov_limit = 1;
    attr->caps = DOMAIN_CAPS;
    if (hint != NULL)
        domain_echo(attr, hint);
    return attr->name == NULL ? -FI_ENOMEM : 0;
}

static int fabric_fill(struct fi_fabric_attr *attr, const struct fi_fabric_attr *hint)
{
    attr->name = strdup(PROV_NAME);
    attr->prov_version = PROV_VERSION;
    /* prov_name stays NULL: libfabric fills it in and takes a set one for a layer. */
    if (hint != NULL)
        attr->fabric = hint->fabric;
    return attr->name == NULL ? -FI_ENOMEM : 0;
}

/* A name, an address of the client's choice, or zeros: an endpoint gets its own only when it
 * is opened, but clients copy the field without looking whether it is there. */
static int address_fill(void **addr, size_t *len, const struct mbx_address *name,
                        const void *hint, size_t hint_len)
{
    *addr = calloc(1, MBX_ADDRESS_SIZE);
    if (*addr == NULL)
        return -FI_ENOMEM;
    *len = MBX_ADDRESS_SIZE;
    if (name != NULL)
        memcpy(*addr, name, MBX_ADDRESS_SIZE);
    else if (hint != NULL && hint_len == MBX_ADDRESS_SIZE)
        memcpy(*addr, hint, MBX_ADDRESS_SIZE);
    return 0;
}

/* What fi_getinfo() was told of the two ends; a name or NULL each. */
struct ends {
    struct mbx_address name;
    const struct mbx_address *src, *dest;
};

static int ends_find(struct ends *ends, const char *node, const char *service, uint64_t flags)
{
    bool is_any; /* a source with service 0 is any */
    int err;

    *ends = (struct ends){.src = NULL};
    if (node == NULL && service == NULL)
        return 0;
    is_any = service == NULL || strcmp(service, "0") == 0;
    err = prov_name_make(node, is_any ? "0" : service, flags, &ends->name);
    if (!(flags & FI_SOURCE))
        ends->dest = &ends->name;
    else if (!is_any)
        ends->src = &ends->name;
    return err < 0 ? -FI_ENODATA : 0;
}

static int addresses_fill(struct fi_info *info, const struct fi_info *hints,
                          const struct ends *ends)
{
    int err = address_fill(&info->src_addr, &info->src_addrlen, ends->src,
                           hints == NULL ? NULL : hints->src_addr,
                           hints == NULL ? 0 : hints->src_addrlen);

    if (err == 0 && (ends->dest != NULL || (hints != NULL && hints->dest_addr != NULL)))
        err = address_fill(&info->dest_addr, &info->dest_addrlen, ends->dest,
                           hints == NULL ? NULL : hints->dest_addr,
                           hints == NULL ? 0 : hints->dest_addrlen);
    return err;
}

static int info_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
    uint64_t caps = caps_for(hints == NULL ? 0 : hints->caps);
    int err;

    info->caps = caps;
    info->addr_format = PROV_ADDR_FORMAT;
    tx_fill(info->tx_attr, hints == NULL ? NULL : hints->tx_attr, caps);
    rx_fill(info->rx_attr, hints == NULL ? NULL : hints->rx_attr, caps);
    ep_fill(info->ep_attr);
    err = domain_fill(info->domain_attr, hints == NULL ? NULL : hints->domain_attr, version);
    if (err == 0)
        err = fabric_fill(info->fabric_attr, hints == NULL ? NULL : hints->fabric_attr);
    return err;
}

int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *made;
    struct ends ends;
    int err;

    if ((flags & INTERNAL_REQUEST) || (hints != NULL && !hints_fit(hints)))
        return -FI_ENODATA;
    err = ends_find(&ends, node, service, flags);
    if (err < 0)
        return err;
    made = prov_library.dupinfo(NULL);
    if (made == NULL)
        return -FI_ENOMEM;
    err = info_fill(made, hints, version);
    if (err == 0 && !(flags & FI_PROV_ATTR_ONLY))
        err = addresses_fill(made, hints, &ends);
    if (err < 0) {
        prov_library.freeinfo(made);
        return err;
    }
    *info = made;
    return 0;
}
