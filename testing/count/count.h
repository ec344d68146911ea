/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.h - the smallest transport: endpoints of one thread, and counts of the traffic between them.
 * docs/contributing/adding-a-transport.md uses it as its example.
 */
#ifndef TESTING_COUNT_COUNT_H
#define TESTING_COUNT_COUNT_H

#include "transport/transport.h"

extern const struct transport_ops transport_count;

/* Totals of one endpoint, since it was opened. */
struct count_totals {
    uint64_t sent, sent_bytes;           /* packets that send() accepted */
    uint64_t delivered, delivered_bytes; /* packets that deliver() accepted */
    uint64_t full;                       /* send() returned -EAGAIN */
};

/* The totals of the open endpoint with this address. */
const struct count_totals *count_totals(const struct transport_address *address);

#endif
