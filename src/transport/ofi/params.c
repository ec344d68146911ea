/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.c - see params.h.
 */
#include "transport/ofi/params.h"

#include "base/clock.h"
#include "transport/transport.h"

#define AT(field) offsetof(struct transport_settings, ofi.field)

const struct param ofi_params[OFI_PARAMS] = {
    {"OFI_PROVIDER", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "libfabric's provider for the network, such as tcp or verbs; empty: the first suitable "
     "one",
     AT(provider)},
    {"OFI_INTERFACE", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "the network interface, by name or address; empty: the provider's first", AT(interface)},
    {"OFI_TIMEOUT", PARAM_TIME, PARAM_USUAL, "s", "0", 0, 3600 * CLOCK_S, NULL,
     "a peer on the network that has not answered for this long counts as dead, also in a "
     "handshake; 0: never, because a computing peer does not answer",
     AT(timeout_ns)},
};
