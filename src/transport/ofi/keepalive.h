/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keepalive.h - finds out whether a peer that something waits for is alive: keepalive.c.
 */
#ifndef OFI_KEEPALIVE_H
#define OFI_KEEPALIVE_H

#include "transport/transport.h"

struct ofi;

struct ofi_keepalive {
    uint32_t until_tend; /* polls */
};

struct ofi_link_keepalive {
    uint64_t heard_ns;  /* when a packet came last; 0: since the last look at the clock */
    uint64_t asked_ns;  /* when a PING was last sent */
    uint64_t silent_ns; /* when the first unanswered PING was sent; 0: none */
};

/* As transport_ops.check and .check_address */
int ofi_keepalive_check(struct link *link);
int ofi_keepalive_check_address(const struct transport *t,
                                const struct transport_address *address);

/* Checks the peers that something waits for. */
void ofi_keepalive_tend(struct ofi *ofi);

/* A packet has come from the peer. */
static inline void ofi_keepalive_heard(struct ofi_link_keepalive *keepalive)
{
    keepalive->heard_ns = keepalive->silent_ns = 0;
}

#endif
