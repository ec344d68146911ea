/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_present.c - this library was built with devices (src/device).
 */
#include "core/settings.h"

const bool devices_present = true;
