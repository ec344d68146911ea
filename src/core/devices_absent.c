/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_absent.c - this library was built without devices: Meson option devices.
 */
#include "core/settings.h"

const bool devices_present = false;
