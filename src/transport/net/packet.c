/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.c - the only file that reads packets which are not authenticated.
 */
#include "transport/net/packet.h"

#include <string.h>

#include "transport/siphash.h"

void net_sign(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
              const struct net_transcript *said, uint64_t mac[2])
{
    struct {
        uint64_t kind, half;
        struct net_transcript said;
    } text = {.kind = kind, .said = *said};

    for (text.half = 0; text.half < 2; text.half++)
        mac[text.half] = siphash(key, &text, sizeof text);
}

bool net_is_authentic(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
                      const struct net_transcript *said, const uint64_t mac[2])
{
    uint64_t right[2];

    net_sign(key, kind, said, right);
    return ((right[0] ^ mac[0]) | (right[1] ^ mac[1])) == 0; /* in constant time */
}

size_t net_body_size(enum net_kind kind)
{
    switch (kind) {
    case NET_HELLO:
        return sizeof(struct net_hello);
    case NET_WELCOME:
        return sizeof(struct net_welcome);
    case NET_AUTH:
        return sizeof(struct net_auth);
    case NET_OTHER:
        return sizeof(struct version);
    case NET_DATA:
    case NET_REFUSED:
    case NET_PING:
    case NET_PONG:
    case NET_BYE:
    case NET_BROKEN:
    case NET_READY:
    case NET_KINDS:
        break;
    }
    return 0;
}

const char *net_check(const void *bytes, size_t size, size_t packet_max,
                      struct net_prefix *prefix)
{
    if (size < sizeof *prefix || size % 8 != 0)
        return "no packet: its length";
    memcpy(prefix, bytes, sizeof *prefix);
    if (prefix->version != NET_VERSION && prefix->kind != NET_HELLO &&
        prefix->kind != NET_OTHER)
        return "a packet of another version";
    if (prefix->kind == 0 || prefix->kind >= NET_KINDS)
        return "a packet of no known kind";
    size -= sizeof *prefix;
    if (prefix->kind == NET_DATA) {
        if (size < sizeof(struct wire_header) + net_padding(prefix))
            return "a packet too short for its header";
        /* receive buffers for many packets have space for a longer one */
        return size - net_padding(prefix) <= packet_max ? NULL : "a packet too long";
    }
    if (net_padding(prefix) != 0 ||
        (prefix->count != 0 && !net_counts((enum net_kind)prefix->kind)))
        return "a packet with a count that it cannot have";
    if (size != net_body_size((enum net_kind)prefix->kind))
        return "a packet of the wrong length";
    return NULL;
}
