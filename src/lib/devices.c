/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices.c - the device backends of this library, which of them can be used, and the functions
 * that a transport calls in an endpoint with a device.
 */
#include <errno.h>
#include <stdio.h>

#include <matchbox/device.h>

#include "base/base.h"
#include "base/fill.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "device/soft/softdev.h"
#include "device/verbs/verbs.h"
#include "lib/devices.h"
#include "p2p/p2p.h"
#include "defer/defer.h"
#include "transport/verbs/verbs_library.h"

const struct transport_events device_events = {
    .accept = peer_accept,
    .deliver = offload_deliver,
    .read_done = offload_read_done,
    .cswap_done = by_sender_exchanged,
    .dropped = progress_dropped,
    .repeats = offload_repeats,
    .sleeps = wait_sleeps,
    .slept = wait_slept,
};

static bool always(char *line, size_t size)
{
    snprintf(line, size, "can be used");
    return true;
}

static const struct backend {
    const char *name, *about;
    bool (*explain)(char *line, size_t size);
} backends[] = {
    {"soft", "software, in the progress loop", always},
    {"soft-thread", "software, on a thread of its own", always},
    {"soft-process", "software, in a process of its own", soft_process_explain},
    {"verbs", "hardware that matches tags, through libibverbs", verbs_explain},
};

int mbx_device_get(unsigned index, struct mbx_device_info *out, size_t size)
{
    const struct backend *backend;
    struct mbx_device_info info;
    struct settings settings;

    if (index >= ARRAY_COUNT(backends))
        return -ENOENT;
    backend = &backends[index];
    if (settings_load(&settings, NULL) == 0)
        verbs_use(settings.verbs_library);
    info = (struct mbx_device_info){.name = backend->name, .about = backend->about};
    info.is_available = backend->explain(info.detail, sizeof info.detail);
    return FILL(out, size, info, detail);
}
