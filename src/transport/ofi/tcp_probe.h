/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_probe.h - does a peer that nothing can be sent to still listen?  tcp_probe.c
 */
#ifndef OFI_TCP_PROBE_H
#define OFI_TCP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ofi_link;

struct ofi_link_probe {
    int fd;            /* a connection that is being made, or -1 */
    uint64_t since_ns; /* when the last one was begun, or ended */
    uint64_t pause_ns; /* before the next one */
};

/* Has the process of a peer to which packets do not leave ended?  0: not as far as is known;
 * -ECONNREFUSED: it has, or has closed its endpoint. */
int ofi_tcp_probe(struct ofi_link *link, uint64_t now);

/* The address of the peer as text; "" where the provider does not use TCP, or the address has another form. */
void ofi_tcp_probe_place(const struct ofi_link *link, char *text, size_t size);

/* Is the peer's address that of a loopback interface, which leads nowhere but to processes of our
 * own network namespace? */
bool ofi_tcp_probe_is_loopback(const struct ofi_link *link);

/* The peer is there, or it does not matter any more. */
void ofi_tcp_probe_forget(struct ofi_link *link);

#endif
