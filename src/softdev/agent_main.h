/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve.h - a port that runs by itself, on a thread or in a process of its own, and receives
 * in the place of the application's transport.
 */
#ifndef PORT_SERVE_H
#define PORT_SERVE_H

#include "softdev/agent.h"
#include "transport/handoff.h"

struct serve_config {
    struct region *region;
    const struct transport_config *transport; /* key and shape; events are serve's own */
    const struct transport_handle *handle;
    const struct transport_ops *ops; /* the transport's kind */
    struct port_memory memory;
    uint64_t spin_ns;
    /* Looked at now and then: false ends it.  NULL: never. */
    bool (*may_go_on)(void *arg);
    void *arg;
};

/* serve - says RUNNING (or FAILED) in the region, works until the region says stop,
 * and says ENDED.  0 or an error. */
int serve(const struct serve_config *config);

#endif
