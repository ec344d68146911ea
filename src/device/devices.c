/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices.c - the backends of this library, and which of them can be used.
 */
#include <errno.h>

#include <matchbox/device.h>

#include "base/base.h"
#include "device/verbs.h"

static const struct backend {
    const char *name, *about;
    bool (*explain)(char *line, size_t size);
} backends[] = {
    {"verbs", "hardware that matches tags, through libibverbs", verbs_explain},
};

int mbx_device_get(unsigned index, struct mbx_device_info *info)
{
    const struct backend *backend;

    if (index >= ARRAY_COUNT(backends))
        return -ENOENT;
    backend = &backends[index];
    *info = (struct mbx_device_info){.name = backend->name, .about = backend->about};
    info->is_available = backend->explain(info->detail, sizeof info->detail);
    return 0;
}
