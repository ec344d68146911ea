/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - a transport that makes rare events frequent: fault.c.
 */
#ifndef TESTING_FAULT_FAULT_H
#define TESTING_FAULT_FAULT_H

#include "transport/transport.h"

/* Opens a transport that disturbs a wrapped one: by the seed of config it returns -EAGAIN,
 * holds back deliveries, and fails reads and writes.  It never reorders a link, and never loses
 * or invents packets. */
int transport_fault_open(const struct transport_ops *wrapped,
                         const struct transport_config *config, struct transport **out);

/* The transport that t wraps; t itself if it wraps none. */
struct transport *transport_fault_inner(struct transport *t);

#endif
