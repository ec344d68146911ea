/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent_main.h - a agent that runs by itself, on a thread or in a process of its own, and receives
 * in the place of the application's transport.
 */
#ifndef DEVICE_SOFT_AGENT_MAIN_H
#define DEVICE_SOFT_AGENT_MAIN_H

#include "device/soft/agent.h"
#include "transport/handoff.h"

struct agent_main_config {
    struct channel *channel;
    const struct transport_config *transport; /* key and shape; events are serve's own */
    const struct transport_handle *handle;
    const struct transport_ops *ops; /* the transport's kind */
    struct agent_memory memory;
    uint64_t spin_ns;
    /* Looked at now and then: false ends it.  NULL: never. */
    bool (*may_go_on)(void *arg);
    void *arg;
};

/* serve - says RUNNING (or FAILED) in the channel, works until the channel says stop,
 * and says ENDED.  0 or an error. */
int agent_main(const struct agent_main_config *config);

#endif
