/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices.h - what an endpoint with a device has in place of what others have: devices.c, or
 * devices_absent.c in a library that was built without devices.
 */
#ifndef LIB_DEVICES_H
#define LIB_DEVICES_H

#include "core/core.h"

/* What the transport calls. */
extern const struct transport_events device_events;

#endif
