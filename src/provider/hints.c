/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hints.c - compares our offer with a client's hints.
 *
 * For every attribute a hint of zero means "anything":
 *
 *   capabilities, orders    the hints must be a subset of ours
 *   sizes and counts        the hint must not exceed ours
 *   types, formats          one of ours
 *
 * The first hint that does not fit refuses the request.  Its name and value go to libfabric's
 * log at level info.
 */
#include "provider/envelope.h"
#include "provider/fabric.h"
#include "provider/hints.h"
#include "provider/library.h"
#include "provider/param.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define SEND_FLAGS                                                                             \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
     FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define RECV_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_TRANSMIT_COMPLETE)
/* FI_PROGRESS_CONTROL_UNIFIED, from 2.0: a promise of the client that we do not need. */
#define PROGRESS_LAST 3

/* ---- one hint each: true, or a line in the log ------------------------------------------- */

/* Are all flags of hint in offer?  Both have this type. */
static bool only(const char *what, uint64_t hint, uint64_t offer, enum fi_type type)
{
    uint64_t beyond = hint & ~offer;

    if (beyond != 0 && prov_logs(FI_LOG_INFO))
        prov_log(FI_LOG_INFO, "refused: %s asks for %s, which is not offered", what,
                 prov_names(&beyond, type, beyond));
    return beyond == 0;
}

static bool within(const char *what, uint64_t hint, uint64_t limit)
{
    if (hint > limit)
        prov_log(FI_LOG_INFO, "refused: %s asks for %" PRIu64 ", and %" PRIu64 " is the most",
                 what, hint, limit);
    return hint <= limit;
}

/* Reports an enumeration value that does not fit; offer is the names of the supported
 * values. */
static bool one_of(const char *what, bool fits, const void *hint, enum fi_type type,
                   uint64_t number, const char *offer)
{
    if (!fits && prov_logs(FI_LOG_INFO))
        prov_log(FI_LOG_INFO, "refused: %s %s is asked for; %s is what there is", what,
                 prov_names(hint, type, number), offer);
    return fits;
}

static bool named(const char *what, const char *hint)
{
    bool fits = hint == NULL || strcasecmp(hint, PROV_NAME) == 0;

    if (!fits)
        prov_log(FI_LOG_INFO,
                 "refused: %s \"%s\" is asked for; \"" PROV_NAME "\" is what there is", what,
                 hint);
    return fits;
}

/* ---- all of them --------------------------------------------------------------------------- */

uint64_t prov_hints_caps(uint64_t hint)
{
    uint64_t caps = hint & PROV_HINT_CAPS;

    if (hint == 0)
        return PROV_HINT_CAPS | PROV_FREE_CAPS;
    if ((hint & ~(PROV_HINT_CAPS | PROV_FREE_CAPS)) != 0)
        return 0;
    if ((caps & (PROV_TYPE_CAPS | PROV_SIDE_CAPS)) == 0)
        caps |= PROV_TYPE_CAPS;
    if ((caps & PROV_TYPE_CAPS) && (caps & PROV_WAY_CAPS) == 0)
        caps |= PROV_WAY_CAPS;
    if ((caps & PROV_SIDE_CAPS) && (caps & PROV_SIDE_WAY_CAPS) == 0)
        caps |= PROV_SIDE_WAY_CAPS;
    return caps | PROV_FREE_CAPS;
}

static bool fabric_fits(const struct fi_fabric_attr *hint)
{
    return hint == NULL || (named("fabric_attr->name", hint->name) &&
                            named("fabric_attr->prov_name", hint->prov_name));
}

static bool models_fit(const struct fi_domain_attr *hint)
{
    static const char known[] = "every model that this version knows";

    return one_of("domain_attr->threading", hint->threading <= FI_THREAD_ENDPOINT,
                  &hint->threading, FI_TYPE_THREADING, hint->threading, known) &&
           one_of("domain_attr->control_progress", (int)hint->control_progress <= PROGRESS_LAST,
                  &hint->control_progress, FI_TYPE_PROGRESS, hint->control_progress, known) &&
           one_of("domain_attr->data_progress", (int)hint->data_progress <= PROGRESS_LAST,
                  &hint->data_progress, FI_TYPE_PROGRESS, hint->data_progress, known) &&
           within("domain_attr->resource_mgmt", hint->resource_mgmt, FI_RM_ENABLED) &&
           one_of("domain_attr->av_type", hint->av_type <= FI_AV_TABLE, &hint->av_type,
                  FI_TYPE_AV_TYPE, hint->av_type, "FI_AV_MAP or FI_AV_TABLE");
}

static bool counts_fit(const struct fi_domain_attr *hint)
{
    return within("domain_attr->cq_cnt", hint->cq_cnt, PROV_COUNT_LIMIT) &&
           within("domain_attr->ep_cnt", hint->ep_cnt, PROV_COUNT_LIMIT) &&
           within("domain_attr->tx_ctx_cnt", hint->tx_ctx_cnt, PROV_COUNT_LIMIT) &&
           within("domain_attr->rx_ctx_cnt", hint->rx_ctx_cnt, PROV_COUNT_LIMIT) &&
           within("domain_attr->max_ep_tx_ctx", hint->max_ep_tx_ctx, 1) &&
           within("domain_attr->max_ep_rx_ctx", hint->max_ep_rx_ctx, 1) &&
           within("domain_attr->max_ep_stx_ctx", hint->max_ep_stx_ctx, 0) &&
           within("domain_attr->max_ep_srx_ctx", hint->max_ep_srx_ctx, 0) &&
           within("domain_attr->cntr_cnt", hint->cntr_cnt, PROV_COUNT_LIMIT) &&
           within("domain_attr->mr_cnt", hint->mr_cnt, PROV_COUNT_LIMIT);
}

static bool domain_fits(const struct fi_domain_attr *hint)
{
    return hint == NULL ||
           (named("domain_attr->name", hint->name) && models_fit(hint) && counts_fit(hint) &&
            within("domain_attr->mr_key_size", hint->mr_key_size, sizeof(uint64_t)) &&
            within("domain_attr->cq_data_size", hint->cq_data_size, sizeof(uint64_t)) &&
            within("domain_attr->mr_iov_limit", hint->mr_iov_limit, 1) &&
            within("domain_attr->auth_key_size", hint->auth_key_size, 0) &&
            within("domain_attr->max_err_data", hint->max_err_data, 0) &&
            only("domain_attr->caps", hint->caps, PROV_DOMAIN_CAPS, FI_TYPE_CAPS));
}

/* Clients may use the bits below the leading zeros of a tag format. */
static bool tag_format_fits(uint64_t hint)
{
    if (hint & PROV_HAS_DATA)
        prov_log(FI_LOG_INFO,
                 "refused: ep_attr->mem_tag_format 0x%" PRIx64 " has 64 bits; 63 are offered",
                 hint);
    return (hint & PROV_HAS_DATA) == 0;
}

static bool ep_fits(const struct fi_ep_attr *hint)
{
    return hint == NULL ||
           (one_of("ep_attr->type", hint->type == FI_EP_UNSPEC || hint->type == FI_EP_RDM,
                   &hint->type, FI_TYPE_EP_TYPE, hint->type, "FI_EP_RDM") &&
            one_of("ep_attr->protocol",
                   hint->protocol == FI_PROTO_UNSPEC || hint->protocol == PROV_PROTOCOL,
                   &hint->protocol, FI_TYPE_PROTOCOL, hint->protocol, "Matchbox's") &&
            within("ep_attr->protocol_version", hint->protocol_version, 1) &&
            within("ep_attr->max_msg_size", hint->max_msg_size, PROV_MESSAGE_MAX) &&
            within("ep_attr->max_order_raw_size", hint->max_order_raw_size, PROV_MESSAGE_MAX) &&
            within("ep_attr->max_order_war_size", hint->max_order_war_size, PROV_MESSAGE_MAX) &&
            within("ep_attr->max_order_waw_size", hint->max_order_waw_size, PROV_MESSAGE_MAX) &&
            tag_format_fits(hint->mem_tag_format) &&
            within("ep_attr->tx_ctx_cnt", hint->tx_ctx_cnt, 1) &&
            within("ep_attr->rx_ctx_cnt", hint->rx_ctx_cnt, 1) &&
            within("ep_attr->auth_key_size", hint->auth_key_size, 0));
}

static bool tx_fits(const struct fi_tx_attr *hint, uint64_t caps)
{
    return hint == NULL ||
           (only("tx_attr->caps", hint->caps, (caps & PROV_SEND_CAPS) | PROV_FREE_CAPS,
                 FI_TYPE_CAPS) &&
            only("tx_attr->op_flags", hint->op_flags, SEND_FLAGS, FI_TYPE_OP_FLAGS) &&
            only("tx_attr->msg_order", hint->msg_order, PROV_ORDERS, FI_TYPE_MSG_ORDER) &&
            only("tx_attr->comp_order", hint->comp_order, FI_ORDER_NONE, FI_TYPE_MSG_ORDER) &&
            within("tx_attr->inject_size", hint->inject_size, PROV_INJECT_SIZE) &&
            within("tx_attr->iov_limit", hint->iov_limit, PROV_IOV_LIMIT) &&
            within("tx_attr->rma_iov_limit", hint->rma_iov_limit, PROV_IOV_LIMIT));
}

static bool rx_fits(const struct fi_rx_attr *hint, uint64_t caps)
{
    return hint == NULL ||
           (only("rx_attr->caps", hint->caps, (caps & PROV_RECV_CAPS) | PROV_FREE_CAPS,
                 FI_TYPE_CAPS) &&
            only("rx_attr->op_flags", hint->op_flags, RECV_FLAGS, FI_TYPE_OP_FLAGS) &&
            only("rx_attr->msg_order", hint->msg_order, PROV_ORDERS, FI_TYPE_MSG_ORDER) &&
            only("rx_attr->comp_order", hint->comp_order, FI_ORDER_NONE, FI_TYPE_MSG_ORDER) &&
            within("rx_attr->total_buffered_recv", hint->total_buffered_recv,
                   prov_param_unexpected_memory()) &&
            within("rx_attr->iov_limit", hint->iov_limit, PROV_IOV_LIMIT));
}

bool prov_hints_fit(const struct fi_info *hints)
{
    uint64_t caps = prov_hints_caps(hints->caps);

    return only("caps", hints->caps, PROV_HINT_CAPS | PROV_FREE_CAPS, FI_TYPE_CAPS) &&
           one_of("addr_format",
                  hints->addr_format == FI_FORMAT_UNSPEC ||
                      hints->addr_format == PROV_ADDR_FORMAT ||
                      hints->addr_format == FI_ADDR_STR,
                  &hints->addr_format, FI_TYPE_ADDR_FORMAT, hints->addr_format,
                  "Matchbox's format, or FI_ADDR_STR,") &&
           fabric_fits(hints->fabric_attr) && domain_fits(hints->domain_attr) &&
           ep_fits(hints->ep_attr) && tx_fits(hints->tx_attr, caps) &&
           rx_fits(hints->rx_attr, caps);
}
