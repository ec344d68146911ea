/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the software device inside an endpoint, for tests that end it.  Test code.
 */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include "device/soft/driver.h"

struct mbx_ep;

struct softdev *device_of(const struct mbx_ep *ep);

/* Of its process; 0 if it is none. */
pid_t device_pid(const struct mbx_ep *ep);

/* It has nothing to do, and so nobody looks at it. */
bool device_is_unused(const struct mbx_ep *ep);

#endif
