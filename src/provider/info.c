/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.c - fi_getinfo: the answer to hints that we meet (hints.c).
 *
 * One info, or -FI_ENODATA:
 *
 *   capabilities            only requested ones are turned on, because they may change semantics
 *                           (FI_DIRECTED_RECV makes receives compare their source address)
 *   sizes and counts        ours are returned
 *   threading, progress,    the hint is returned unchanged: some clients treat even a stronger
 *   av_type, addr_format    answer as a refusal
 *   mr_mode                 how regions are named: as the hint prefers
 *   mem_tag_format          63 bits; with an adapter that matches, as many bits as it compares,
 *                           unless the hint has more
 *   mode                    we need nothing, so nothing is returned
 *
 * Internal requests of other providers are refused at once.  Otherwise ofi_rxm and
 * ofi_rxd would layer themselves on top of this provider, and libfabric would list those first.
 */
#include "provider/envelope.h"
#include "provider/fabric.h"
#include "provider/hints.h"
#include "provider/library.h"
#include "provider/name.h"
#include "provider/param.h"
#include "provider/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Set in flags by providers that look for a core provider to build on. */
#define INTERNAL_REQUEST (UINT64_C(1) << 59)

static void tx_fill(struct fi_tx_attr *attr, const struct fi_tx_attr *hint, uint64_t caps)
{
    attr->caps = caps & PROV_SEND_CAPS;
    attr->msg_order = PROV_ORDERS;
    attr->rma_iov_limit = PROV_IOV_LIMIT;
    attr->inject_size = PROV_INJECT_SIZE;
    attr->size = PROV_QUEUE_SIZE;
    attr->iov_limit = PROV_IOV_LIMIT;
    if (hint == NULL)
        return;
    attr->op_flags = hint->op_flags;
    if (hint->size > attr->size)
        attr->size = hint->size; /* no queue has a fixed depth */
}

static void rx_fill(struct fi_rx_attr *attr, const struct fi_rx_attr *hint, uint64_t caps)
{
    attr->caps = caps & PROV_RECV_CAPS;
    attr->msg_order = PROV_ORDERS;
    attr->total_buffered_recv = prov_param_unexpected_memory();
    attr->size = PROV_QUEUE_SIZE;
    attr->iov_limit = PROV_IOV_LIMIT;
    if (hint == NULL)
        return;
    attr->op_flags = hint->op_flags;
    if (hint->size > attr->size)
        attr->size = hint->size;
}

/* The announced format of tags.  A client that requests more bits than an adapter compares gets
 * its own format, whose fields determine the compared bits (verbs_layout_of()). */
static uint64_t tag_format_for(const struct fi_ep_attr *hint)
{
    const uint64_t wanted = hint != NULL ? hint->mem_tag_format : 0;

    if (!prov_param_adapter_matches())
        return PROV_TAG_FORMAT;
    if (wanted <= PROV_TAG_MAX_DEVICE)
        return PROV_TAG_FORMAT_DEVICE;
    prov_log(FI_LOG_INFO,
             "ep_attr->mem_tag_format 0x%" PRIx64
             " has more bits than an adapter compares, 47: "
             "its highest field and the lowest bits are; software matches receives that ask "
             "for others",
             wanted);
    return wanted;
}

static void ep_fill(struct fi_ep_attr *attr, const struct fi_ep_attr *hint)
{
    attr->type = FI_EP_RDM;
    attr->protocol = PROV_PROTOCOL;
    attr->protocol_version = 1;
    attr->max_msg_size = PROV_MESSAGE_MAX;
    attr->max_order_raw_size = PROV_MESSAGE_MAX;
    attr->max_order_war_size = PROV_MESSAGE_MAX;
    attr->max_order_waw_size = PROV_MESSAGE_MAX;
    attr->mem_tag_format = tag_format_for(hint);
    attr->tx_ctx_cnt = 1;
    attr->rx_ctx_cnt = 1;
}

/* A returned mode obliges the client, and we need none: a client that offers to bind its
 * regions to endpoints would have to, and one that offers to use its own addresses may expect
 * others.  FI_MR_BASIC and FI_MR_SCALABLE are modes of their own: versions before 1.5 had no
 * others, later versions still accept them, and clients that request one check that it is
 * returned. */
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
    attr->av_type = FI_AV_UNSPEC; /* both types are supported */
    attr->mr_mode = mr_mode_for(version, hint);
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = PROV_COUNT_LIMIT;
    attr->ep_cnt = PROV_COUNT_LIMIT;
    attr->tx_ctx_cnt = PROV_COUNT_LIMIT;
    attr->rx_ctx_cnt = PROV_COUNT_LIMIT;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->cntr_cnt = PROV_COUNT_LIMIT;
    attr->mr_cnt = PROV_COUNT_LIMIT;
    attr->mr_iov_limit = 1;
    attr->caps = PROV_DOMAIN_CAPS;
    if (hint != NULL)
        domain_echo(attr, hint);
    return attr->name == NULL ? -FI_ENOMEM : 0;
}

static int fabric_fill(struct fi_fabric_attr *attr, const struct fi_fabric_attr *hint)
{
    attr->name = strdup(PROV_NAME);
    attr->prov_version = PROV_VERSION;
    /* prov_name stays NULL: libfabric fills it in, and takes a provider that sets it for a
     * layer. */
    if (hint != NULL)
        attr->fabric = hint->fabric;
    return attr->name == NULL ? -FI_ENOMEM : 0;
}

/* Reads an address in the client's format; all bytes are 0 if there is none. */
static void hint_take(uint32_t format, const void *hint, size_t size,
                      struct mbx_address *address)
{
    memset(address, 0, sizeof *address);
    if (hint == NULL || (format != FI_ADDR_STR && size != sizeof *address))
        return;
    if (prov_address_take(format, hint, address) < 0)
        memset(address, 0, sizeof *address);
}

/* A name, an address of the client's choice, or zeros.  An endpoint gets its own address only
 * when it is opened, but clients copy the field without checking that it is set. */
static int address_fill(void **addr, size_t *len, uint32_t format,
                        const struct mbx_address *name, const void *hint, size_t hint_len)
{
    struct mbx_address address;

    if (name != NULL)
        address = *name;
    else
        hint_take(format, hint, hint_len, &address);
    *len = prov_address_size(format, &address);
    *addr = calloc(1, *len);
    return *addr == NULL ? -FI_ENOMEM : prov_address_put(format, &address, *addr, *len, len);
}

/* The two ends that fi_getinfo() names; each is a name or NULL. */
struct ends {
    struct mbx_address name;
    const struct mbx_address *src, *dest;
};

static int ends_find(struct ends *ends, const char *node, const char *service, uint64_t flags)
{
    bool is_any; /* the source has service 0: any */
    int err;

    *ends = (struct ends){.src = NULL};
    if (node == NULL && service == NULL)
        return 0;
    is_any =
        (node == NULL || !prov_is_text(node)) && (service == NULL || strcmp(service, "0") == 0);
    err = prov_name_make(node, is_any ? "0" : service, flags, &ends->name);
    if (err < 0)
        prov_log(FI_LOG_INFO, "refused: node \"%s\", service \"%s\": %s",
                 node == NULL ? "" : node, service == NULL ? "" : service,
                 err == -FI_EINVAL ? "no service or address is written so"
                                   : "the node is not this machine");
    if (!(flags & FI_SOURCE))
        ends->dest = &ends->name;
    else if (!is_any)
        ends->src = &ends->name;
    return err < 0 ? -FI_ENODATA : 0;
}

static int addresses_fill(struct fi_info *info, const struct fi_info *hints,
                          const struct ends *ends)
{
    int err = address_fill(&info->src_addr, &info->src_addrlen, info->addr_format, ends->src,
                           hints == NULL ? NULL : hints->src_addr,
                           hints == NULL ? 0 : hints->src_addrlen);

    if (err == 0 && (ends->dest != NULL || (hints != NULL && hints->dest_addr != NULL)))
        err = address_fill(&info->dest_addr, &info->dest_addrlen, info->addr_format, ends->dest,
                           hints == NULL ? NULL : hints->dest_addr,
                           hints == NULL ? 0 : hints->dest_addrlen);
    return err;
}

static int info_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
    uint64_t caps = prov_hints_caps(hints == NULL ? 0 : hints->caps);
    int err;

    info->caps = caps;
    info->addr_format =
        hints != NULL && hints->addr_format == FI_ADDR_STR ? FI_ADDR_STR : PROV_ADDR_FORMAT;
    tx_fill(info->tx_attr, hints == NULL ? NULL : hints->tx_attr, caps);
    rx_fill(info->rx_attr, hints == NULL ? NULL : hints->rx_attr, caps);
    ep_fill(info->ep_attr, hints == NULL ? NULL : hints->ep_attr);
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

    if ((flags & INTERNAL_REQUEST) || (hints != NULL && !prov_hints_fit(hints)))
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
