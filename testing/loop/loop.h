/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.h - see loop.c.
 */
#ifndef TESTING_LOOP_LOOP_H
#define TESTING_LOOP_LOOP_H

#include "transport/transport.h"

extern const struct transport_ops transport_loop;

#endif
