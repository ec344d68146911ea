/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_absent.c - the transport over verbs in a build without libibverbs' headers.
 */
#include <errno.h>

#include "base/log.h"
#include "transport/network.h"
#include "transport/verbs/params.h"
#include "transport/verbs/verbs_inlet.h"
#include "transport/verbs/verbs_library.h"

static int open_nothing(const struct transport_config *config, struct transport **out)
{
    (void)config, (void)out;
    LOG_ERROR("this Matchbox was built without libibverbs: it cannot reach other processes "
              "over verbs");
    return -ENOTSUP;
}

static int describe_nothing(const struct transport_config *config,
                            struct transport_network *network)
{
    (void)network;
    return open_nothing(config, NULL);
}

static const struct transport_network_ops network_ops = {.describe = describe_nothing};

bool transport_verbs_parts(struct transport *t, struct transport_verbs_parts *parts)
{
    (void)t, (void)parts;
    return false;
}

int transport_verbs_set_inlet(struct transport *t, const struct transport_verbs_inlet *inlet)
{
    (void)t, (void)inlet;
    return -ENOTSUP;
}

/* There is no such transport, so these are never called. */
void transport_verbs_end_inlet(struct transport *t)
{
    (void)t;
}

void transport_verbs_lose_inlet(struct transport *t)
{
    (void)t;
}

bool transport_verbs_is_tagged(struct link *link)
{
    (void)link;
    return false;
}

bool transport_verbs_is_beside(struct link *link)
{
    (void)link;
    return false;
}

void transport_verbs_matched(struct link *link)
{
    (void)link;
}

bool transport_verbs_arrived(struct link *link, const void *packet, size_t size)
{
    (void)link, (void)packet, (void)size;
    return false;
}

void transport_verbs_read(struct link *link)
{
    (void)link;
}

void transport_verbs_failed(struct link *link, const char *why)
{
    (void)link, (void)why;
}

/* Nothing can be loaded either. */
void verbs_use(const char *library)
{
    (void)library;
}

const struct transport_ops transport_verbs = {
    .name = "verbs",
    .about = "processes of other machines: not in this build, libibverbs was missing",
    .params = ib_params,
    .param_count = IB_PARAMS,
    .network = &network_ops,
    .open = open_nothing,
};
