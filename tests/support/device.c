/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - see device.h.
 */
#include "device.h"

#include "base/base.h"
#include "core/core.h"
#include "device/host/offload.h"

struct softdev *device_of(const struct mbx_ep *ep)
{
    return container_of(ep->offload->device, struct softdev, base);
}

pid_t device_pid(const struct mbx_ep *ep)
{
    const struct softdev *device = device_of(ep);

    return device->driver == &softdev_driver_process ? device->pid : 0;
}

bool device_is_unused(const struct mbx_ep *ep)
{
    const struct offload *offload = ep->offload;

    return shadow_is_idle(&offload->shadow) &&
           (device_of(ep)->driver == NULL ? !softdev_has_events(offload->device)
                                          : !softdev_is_there(offload->device));
}
