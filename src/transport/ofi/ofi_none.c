/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_none.c - the network where libfabric's headers were not there to build with.
 */
#include <errno.h>

#include "base/log.h"
#include "transport/ofi/params.h"
#include "transport/ofi/ofi_mux.h"

static int open_nothing(const struct transport_config *config, struct transport **out)
{
    (void)config, (void)out;
    LOG_ERROR("this Matchbox was built without libfabric: it reaches no other machine");
    return -ENOTSUP;
}

void transport_ofi_rename(struct transport *t, const struct transport_address *address)
{
    (void)t, (void)address;
}

void transport_ofi_count(const struct transport *t, uint64_t *begun, uint64_t *ended)
{
    (void)t;
    *begun = *ended = 0;
}

bool transport_ofi_is_used(const struct transport *t)
{
    (void)t;
    return false;
}

int transport_ofi_prepare(struct transport *t, int *fd)
{
    (void)t, (void)fd;
    return -ENOTSUP;
}

int transport_ofi_describe(const struct transport_config *config,
                           struct transport_network *network)
{
    struct transport *none;

    (void)network;
    return open_nothing(config, &none);
}

const struct transport_ops transport_ofi = {
    .name = "ofi",
    .about = "processes of other machines: not in this build, libfabric was missing",
    .params = ofi_params,
    .param_count = OFI_PARAMS,
    .open = open_nothing,
};
