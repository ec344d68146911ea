/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.h - messages that the peer's adapter matches: tag.c.
 */
#ifndef IB_TAG_H
#define IB_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

struct ib_link;

/* The most bytes of a packet that may be rewritten: header and the body of an RTS. */
#define IB_TAG_HEAD (sizeof(struct wire_header) + sizeof(struct wire_rts))

/*
 * ib_tag_frame - converts a packet of the core into a tagged message, in place.
 *
 * size       of the packet; the payload of an EAGER may lie elsewhere
 * Returns    the offset from the packet's beginning at which it begins now; 0: it is not tagged.
 */
uint32_t ib_tag_frame(struct ib_link *link, unsigned char *packet, size_t size);

/* Does a packet of this link with this header have to be tagged? */
bool ib_tag_is_due(const struct ib_link *link, const struct wire_header *header);

/* Can our adapter tell a message of the peer with this header from others? */
bool ib_tag_fits(const struct ib_link *link, const struct wire_header *header);

/* Converts a FIN of the peer's adapter, of size bytes, into the core's FIN packet, in place.
 * Returns the length; 0: the FIN matches no request. */
size_t ib_tag_fin(struct ib_link *link, unsigned char *packet, size_t size);

#endif
