/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices.h - replacements for an endpoint with a device: devices.c, or devices_absent.c in a
 * library that was built without devices.
 */
#ifndef LIB_DEVICES_H
#define LIB_DEVICES_H

#include "core/core.h"

/* The functions that the transport calls. */
extern const struct transport_events device_events;

#endif
