/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_probe.h - finds out whether a peer to which sends fail still listens: tcp_probe.c.
 */
#ifndef OFI_TCP_PROBE_H
#define OFI_TCP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ofi_link;

struct ofi_link_probe {
    int fd;            /* of a connection that is being made, or -1 */
    uint64_t since_ns; /* when the last connect began, or ended */
    uint64_t pause_ns; /* until the next connect */
};

/* Has the process of an unreachable peer ended?  0: it is not known to have; -ECONNREFUSED: it
 * has ended, or closed its endpoint. */
int ofi_tcp_probe(struct ofi_link *link, uint64_t now);

/* The peer's address as text; "" if the provider does not use TCP, or the address has another
 * form. */
void ofi_tcp_probe_place(const struct ofi_link *link, char *text, size_t size);

/* Is the peer's address a loopback address, which leads only to processes of our own network
 * namespace? */
bool ofi_tcp_probe_is_loopback(const struct ofi_link *link);

/* The peer is alive, or no longer of interest: ends the probe. */
void ofi_tcp_probe_forget(struct ofi_link *link);

#endif
