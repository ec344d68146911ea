/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.c - the one place that reads what has not been authenticated yet.
 */
#include "transport/ofi/packet.h"

#include <string.h>

#include "transport/siphash.h"

void ofi_sign(const uint8_t key[TRANSPORT_KEY_SIZE], enum ofi_kind kind,
              const struct ofi_transcript *said, uint64_t mac[2])
{
    struct {
        uint64_t kind, half;
        struct ofi_transcript said;
    } text = {.kind = kind, .said = *said};

    for (text.half = 0; text.half < 2; text.half++)
        mac[text.half] = siphash(key, &text, sizeof text);
}

bool ofi_is_authentic(const uint8_t key[TRANSPORT_KEY_SIZE], enum ofi_kind kind,
                      const struct ofi_transcript *said, const uint64_t mac[2])
{
    uint64_t right[2];

    ofi_sign(key, kind, said, right);
    return ((right[0] ^ mac[0]) | (right[1] ^ mac[1])) == 0; /* in the same time always */
}

size_t ofi_body_size(enum ofi_kind kind)
{
    switch (kind) {
    case OFI_HELLO:
        return sizeof(struct ofi_hello);
    case OFI_WELCOME:
        return sizeof(struct ofi_welcome);
    case OFI_AUTH:
        return sizeof(struct ofi_auth);
    case OFI_DATA:
    case OFI_REFUSED:
    case OFI_PING:
    case OFI_PONG:
    case OFI_BYE:
    case OFI_BROKEN:
    case OFI_KINDS:
        break;
    }
    return 0;
}

const char *ofi_check(const void *bytes, size_t size, struct ofi_prefix *prefix)
{
    if (size < sizeof *prefix || size % 8 != 0)
        return "no packet: its length";
    memcpy(prefix, bytes, sizeof *prefix);
    if (prefix->version != OFI_VERSION)
        return "a packet of another version";
    if (prefix->kind == 0 || prefix->kind >= OFI_KINDS)
        return "a packet of no known kind";
    size -= sizeof *prefix;
    if (prefix->kind == OFI_DATA) {
        if (size < sizeof(struct wire_header) + ofi_padding(prefix))
            return "a packet too short for its header";
        /* the receive buffers that take many packets have room for a longer one */
        return size - ofi_padding(prefix) <= OFI_PACKET_MAX ? NULL : "a packet too long";
    }
    if (ofi_padding(prefix) != 0 ||
        (prefix->count != 0 && !ofi_counts((enum ofi_kind)prefix->kind)))
        return "a packet with a count that it cannot have";
    if (size != ofi_body_size((enum ofi_kind)prefix->kind))
        return "a packet of the wrong length";
    return NULL;
}
