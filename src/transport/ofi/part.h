/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * part.h - ofi as a part of an endpoint that has other ways, too: what mux.c needs besides
 * the operations of a transport.
 */
#ifndef OFI_PART_H
#define OFI_PART_H

#include "transport/transport.h"

/* The endpoint's whole address, which greetings name; before the first link. */
void transport_ofi_rename(struct transport *t, const struct transport_address *address);

/* Has it met anybody? */
bool transport_ofi_is_used(const struct transport *t);

/* What it has given to the network so far, packets, reads and writes; and packets that came
 * from it, reads and writes that ended.  Where the sums of all endpoints are equal and all are
 * flushed, nothing is under way. */
void transport_ofi_count(const struct transport *t, uint64_t *begun, uint64_t *ended);

/* May the owner sleep until the descriptor *fd is readable?  0 yes; 1 there is something to
 * poll; -EAGAIN nobody would tell: it may sleep a moment. */
int transport_ofi_prepare(struct transport *t, int *fd);

#endif
