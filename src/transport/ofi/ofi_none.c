/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_none.c - the network transport in a build without libfabric's headers.
 */
#include <errno.h>

#include "base/log.h"
#include "transport/network.h"
#include "transport/ofi/params.h"

static int open_nothing(const struct transport_config *config, struct transport **out)
{
    (void)config, (void)out;
    LOG_ERROR("this Matchbox was built without libfabric: it reaches no other machine; build "
              "it where libfabric's headers are installed");
    return -ENOTSUP;
}

static int describe_nothing(const struct transport_config *config,
                            struct transport_network *network)
{
    (void)network;
    return open_nothing(config, NULL);
}

static const struct transport_network_ops network_ops = {.describe = describe_nothing};

const struct transport_ops transport_ofi = {
    .name = "ofi",
    .about = "processes of other machines: not in this build, libfabric was missing",
    .params = ofi_params,
    .param_count = OFI_PARAMS,
    .network = &network_ops,
    .open = open_nothing,
};
