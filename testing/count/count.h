/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.h - the smallest transport: endpoints of one thread, and how much went between them.
 * docs/contributing/adding-a-transport.md is made of it.
 */
#ifndef TESTING_COUNT_COUNT_H
#define TESTING_COUNT_COUNT_H

#include "transport/transport.h"

extern const struct transport_ops transport_count;

/* Of one endpoint, since it was opened. */
struct count_totals {
    uint64_t sent, sent_bytes;           /* packets that send() took */
    uint64_t delivered, delivered_bytes; /* and that deliver() took */
    uint64_t full;                       /* send() said -EAGAIN */
};

/* Those of the open endpoint with this address. */
const struct count_totals *count_totals(const struct transport_address *address);

#endif
