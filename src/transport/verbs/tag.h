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

/* What of a packet may be written anew: header and the body of an RTS. */
#define IB_TAG_HEAD (sizeof(struct wire_header) + sizeof(struct wire_rts))

/*
 * ib_tag_frame - turns a packet of the core into a tagged message, where it lies.
 *
 * size       of the packet; of an EAGER its payload may lie elsewhere
 * Returns    how far behind its beginning it begins now; 0: it travels as it is.
 */
uint32_t ib_tag_frame(struct ib_link *link, unsigned char *packet, size_t size);

/* Would a packet of this link with this header have to be tagged? */
bool ib_tag_is_due(const struct ib_link *link, const struct wire_header *header);

/* Would a message of the peer with this header be one that our adapter tells from others? */
bool ib_tag_fits(const struct ib_link *link, const struct wire_header *header);

/* A FIN of the peer's adapter, of size bytes: becomes the packet of the core that tells of it, where it
 * lies.  How long that is; 0: it answers nothing. */
size_t ib_tag_fin(struct ib_link *link, unsigned char *packet, size_t size);

#endif
