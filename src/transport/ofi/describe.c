/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * describe.c - describes the network of this machine, for tools.
 *
 * An endpoint is opened and closed again: only this shows what would be used, or why nothing
 * can be used.
 */
#include <stdio.h>

#include "transport/network.h"
#include "transport/ofi/ofi.h"

static const char *threading_name(enum fi_threading threading)
{
    switch ((int)threading) { /* a later libfabric may have more values */
    case FI_THREAD_SAFE:
        return "safe";
    case FI_THREAD_FID:
        return "fid";
    case FI_THREAD_DOMAIN:
        return "domain";
    case FI_THREAD_COMPLETION:
        return "completion";
    case FI_THREAD_ENDPOINT:
        return "endpoint";
    default:
        return "unspecified";
    }
}

/* Long names are cut. */
static void copy_name(char *text, size_t capacity, const char *name)
{
    snprintf(text, capacity, "%.*s", (int)capacity - 1, name != NULL ? name : "");
}

static void ofi_describe_text(const struct ofi *ofi, struct transport_network *network)
{
    const struct fi_info *info = ofi->domain.info;

    *network = (struct transport_network){
        .version = ofi->domain.dl->version(),
        .message_max = info->ep_attr->max_msg_size,
        .can_read = ofi->base.limits.can_read,
        .can_exchange = ofi->cswap.has_atomics,
    };
    copy_name(network->provider, sizeof network->provider, info->fabric_attr->prov_name);
    copy_name(network->interface, sizeof network->interface, info->domain_attr->name);
    copy_name(network->threading, sizeof network->threading,
              threading_name(info->domain_attr->threading));
}

int ofi_describe(const struct transport_config *config, struct transport_network *network)
{
    struct transport *t;
    int err = transport_ofi.open(config, &t);

    if (err != 0)
        return err;
    ofi_describe_text(container_of(t, struct ofi, base), network);
    t->ops->close(t);
    return 0;
}
