/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the software device inside an endpoint, for tests that end it.  Test code.
 */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include "device/soft/driver.h"

struct mbx_ep;

struct softdev *device_of(const struct mbx_ep *ep);

/* Returns the pid of the device's process; 0 if it has none. */
pid_t device_pid(const struct mbx_ep *ep);

/* The device has nothing to do, so the endpoint does not poll it. */
bool device_is_unused(const struct mbx_ep *ep);

#endif
