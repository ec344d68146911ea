/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - what endpoints and peers cost that nothing is sent to.
 */
#ifndef SIM_IDLE_H
#define SIM_IDLE_H

#include <stdint.h>

/* Opens so many endpoints, makes all of them peers of the first one, and prints what that took.
 * 0; a negative errno. */
int idle_measure(uint32_t ranks);

#endif
