/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent_main.h - an agent on its own thread or in its own process, which receives instead of
 * the application's transport.
 */
#ifndef DEVICE_SOFT_AGENT_MAIN_H
#define DEVICE_SOFT_AGENT_MAIN_H

#include "device/soft/agent.h"
#include "transport/handoff.h"

struct agent_main_config {
    struct channel *channel;
    const struct transport_config *transport; /* events are replaced */
    const struct transport_handle *handle;
    const struct transport_ops *ops; /* the transport's kind */
    struct agent_memory memory;
    uint64_t spin_ns;
    /* Called at intervals: false ends agent_main().  NULL: never ends it. */
    bool (*may_go_on)(void *arg);
    void *arg;
};

/* agent_main - sets RUNNING (or FAILED) in the channel, works until channel.stop is set, and
 * sets ENDED.  0 or an error. */
int agent_main(const struct agent_main_config *config);

#endif
