/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c - describes the network that an endpoint would use.
 */
#include "base/fill.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/core.h"
#include "transport/network.h"
#include "transport/verbs/verbs_library.h"

/* The network transport that MBX_TRANSPORT would use. */
static const struct transport_ops *network_of(const struct settings *s)
{
    const struct transport_ops *ops =
        s->transport != 0 ? transport_at((unsigned)s->transport - 1) : NULL;

    return ops == &transport_verbs || ops == &transport_mux_verbs ? &transport_verbs
                                                                  : &transport_ofi;
}

/* Describes the network.  No peer is contacted, so no event comes. */
static int network_describe(const struct settings *s, struct transport_network *network)
{
    static const struct transport_events none;
    struct transport_config config = {
        .events = &none,
        .settings = s->transports,
        .wants_cswap = true,
    };
    int err = random_secret(config.key, sizeof config.key); /* a key that no other endpoint
                                                               has */

    verbs_use(s->verbs_library);
    return err != 0 ? err : network_of(s)->network->describe(&config, network);
}

int mbx_network_get(struct mbx_network *out, size_t size)
{
    struct settings *s = mem_calloc(1, sizeof *s);
    struct transport_network found;
    struct mbx_network network;
    int err = s == NULL ? -ENOMEM : settings_load(s, NULL);

    if (err == 0) {
        log_level_set((enum log_level)s->log_level);
        err = network_describe(s, &found);
    }
    mem_free(s);
    if (err != 0)
        return err;
    network = (struct mbx_network){
        .version = found.version,
        .message = found.message_max,
        .reads_memory = found.can_read,
        .exchanges_words = found.can_exchange,
    };
    memcpy(network.provider, found.provider, sizeof network.provider);
    memcpy(network.interface, found.interface, sizeof network.interface);
    memcpy(network.threading, found.threading, sizeof network.threading);
    return FILL(out, size, network, exchanges_words);
}
