/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_absent.c - a library without devices: there is no backend, and settings.c refuses
 * settings that request one.
 */
#include <errno.h>

#include <matchbox/device.h>

#include "device/host/offload.h"
#include "lib/devices.h"

const struct module offload_module = {.name = "no devices"};

const struct transport_events device_events = {.accept = NULL};

int mbx_device_get(unsigned index, struct mbx_device_info *out, size_t size)
{
    (void)index;
    (void)out;
    (void)size;
    return -ENOENT;
}
