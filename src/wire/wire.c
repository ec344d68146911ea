/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - is what arrived a packet?
 *
 * wire_check() is the border: behind it, header and body are the receiver's own
 * copy and have a shape that wire.h allows.  It answers three questions, in this
 * order, each from the copy:
 *
 *   header    known version, known type, flags of that type, zeroes where wire.h
 *             says 0                                             (check_header)
 *   length    header and body are there
 *   body      the numbers in it agree with each other and with the length of the
 *             payload                                            (check_body)
 *
 * A range that ends beyond 2^64 is a contradiction, so offset + size never wraps
 * for those behind the border.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

/* Does this type carry an envelope, so can it be matched? */
static bool has_envelope(enum wire_type type)
{
    return type == WIRE_EAGER || type == WIRE_SYNC || type == WIRE_FIRST || type == WIRE_RTS;
}

static bool range_wraps(uint64_t offset, uint64_t size)
{
    return offset + size < offset;
}

/* What is wrong with the header, or NULL. */
static const char *check_header(const struct wire_header *h)
{
    unsigned allowed = h->type == WIRE_FIRST ? WIRE_WANTS_FIN : 0;

    if (unlikely(h->version != WIRE_VERSION))
        return "unknown wire version";
    if (unlikely(h->type == 0 || h->type >= WIRE_TYPES))
        return "unknown packet type";
    if (unlikely((h->flags & ~allowed) != 0))
        return "unknown packet flags";
    if (unlikely(h->zero != 0))
        return "header field zero is not 0";
    if (unlikely(!has_envelope(h->type) && (h->tag | h->data | h->context_id) != 0))
        return "envelope in a packet that has none";
    return NULL;
}

static const char *check_first(const struct wire_packet *p)
{
    const struct wire_first *first = &p->body.first;

    if ((p->header.flags & WIRE_WANTS_FIN) == 0 && first->sender != 0)
        return "sender in a first fragment that wants no fin";
    if (p->payload_size == 0)
        return "empty fragment";
    if (p->payload_size >= first->size)
        return "first fragment is not shorter than its message";
    return NULL;
}

static const char *check_fragment(uint64_t offset, size_t payload_size)
{
    if (payload_size == 0)
        return "empty fragment";
    return range_wraps(offset, payload_size) ? "range of a fragment wraps" : NULL;
}

/* What is wrong with body and payload, or NULL. */
static const char *check_body(const struct wire_packet *p)
{
    switch ((enum wire_type)p->header.type) {
    case WIRE_EAGER:
    case WIRE_SYNC:
    case WIRE_TYPES:
        return NULL;
    case WIRE_FIRST:
        return check_first(p);
    case WIRE_MORE:
        return check_fragment(p->body.more.offset, p->payload_size);
    case WIRE_DATA:
        return check_fragment(p->body.data.offset, p->payload_size);
    case WIRE_RTS:
        return p->payload_size > p->body.rts.size ? "more early data than message" : NULL;
    case WIRE_CTS:
        if (p->payload_size != 0)
            return "payload behind a cts";
        return range_wraps(p->body.cts.offset, p->body.cts.size) ? "range of a cts wraps"
                                                                 : NULL;
    case WIRE_FIN:
        return p->payload_size != 0 ? "payload behind a fin" : NULL;
    }
    return NULL;
}

static int refuse(const char **reason, const char *why)
{
    *reason = why;
    return -EPROTO;
}

int wire_check(const void *bytes, size_t size, struct wire_packet *packet, const char **reason)
{
    struct wire_packet p;
    const char *why;
    size_t body_size;

    if (unlikely(size < sizeof p.header))
        return refuse(reason, "shorter than a header");
    memcpy(&p.header, bytes, sizeof p.header);
    why = check_header(&p.header);
    if (unlikely(why != NULL))
        return refuse(reason, why);

    body_size = wire_body_size(p.header.type);
    if (unlikely(size - sizeof p.header < body_size))
        return refuse(reason, "shorter than its body");
    p.payload = (const char *)bytes + sizeof p.header + body_size;
    p.payload_size = size - sizeof p.header - body_size;
    if (p.header.type != WIRE_EAGER) {
        memcpy(&p.body, (const char *)bytes + sizeof p.header, body_size);
        why = check_body(&p);
        if (unlikely(why != NULL))
            return refuse(reason, why);
    }
    *packet = p;
    return 0;
}
