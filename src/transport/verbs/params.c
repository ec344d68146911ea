/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.c - see params.h.
 */
#include "transport/verbs/params.h"

#include "base/clock.h"
#include "transport/transport.h"

#define AT(field) offsetof(struct transport_settings, verbs.field)

static const char *const auto_word[] = {"auto", NULL};

const struct param ib_params[IB_PARAMS] = {
    {"VERBS_DEVICE", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "the RDMA adapter, and after a colon its port, such as mlx5_0:1; empty: the first with an "
     "active port",
     AT(device)},
    {"VERBS_GID", PARAM_COUNT, PARAM_ADVANCED, NULL, "auto", 0, 255, auto_word,
     "the number of the adapter's address (GID); auto: the first, over Ethernet the one of "
     "RoCE v2 with an IPv4 address",
     AT(gid)},
    {"VERBS_WINDOW", PARAM_COUNT, PARAM_ADVANCED, NULL, "16", 1, 4096, NULL,
     "how many packets of 8320 bytes a peer over verbs may send before they are read",
     AT(window)},
    {"VERBS_PINNED", PARAM_SIZE, PARAM_USUAL, NULL, "auto", 0, UINT64_C(1) << 48, auto_word,
     "how much memory may stay registered with the adapter for later messages; auto: a quarter "
     "of ulimit -l, and at most 1G; 0: none",
     AT(pinned)},
    {"VERBS_TIMEOUT", PARAM_TIME, PARAM_USUAL, "s", "0", 0, 3600 * CLOCK_S, NULL,
     "a peer over verbs that has not answered a handshake for this long counts as dead; 0: "
     "never, because a computing peer does not answer",
     AT(timeout_ns)},
};
