/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - a transport that makes the rare daily: fault.c.
 */
#ifndef TESTING_FAULT_FAULT_H
#define TESTING_FAULT_FAULT_H

#include "transport/transport.h"

/* Opens a transport that disturbs what it wraps: from config's seed it answers
 * -EAGAIN, holds back deliveries, fails reads and writes.  It never reorders a link, never
 * loses and never invents. */
int transport_fault_open(const struct transport_ops *wrapped,
                         const struct transport_config *config, struct transport **out);

/* What such a transport wraps; of another one, that itself. */
struct transport *transport_fault_inner(struct transport *t);

#endif
