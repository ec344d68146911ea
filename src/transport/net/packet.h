/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - the packet format between two endpoints on a network: the prefix, and control
 * packets.
 *
 *   caller                                      callee
 *   HELLO    from, to, id, token, nonce   --->  of our job? then a link, not open yet
 *            open                         <---  WELCOME  id, token, nonce
 *   AUTH     answers the nonce            --->  open
 *           (open                         <---  READY, if messages use another path)
 *            refused                      <---  OTHER, if the versions differ
 *   DATA ...                              --->
 *
 * In this handshake each side gives the other an id and a token.  A packet carries the id and
 * token of the receiver's link, and is dropped if there is no such link.  So no side is
 * identified by the source address of a packet, which not all providers report.
 *
 * HELLO, WELCOME and AUTH carry a MAC (transport/siphash.h), under the job's key, of everything
 * that the two sides have sent so far, with their addresses and roles.  A recorded HELLO can be
 * repeated by anyone: the callee then answers the endpoint that the HELLO names, which does not
 * know the id, so no link is opened.  AUTH answers a nonce that is used once.
 *
 * If both sides call, the call of the smaller address counts: its owner drops the other side's
 * HELLO; the other side answers instead of waiting for an answer.
 *
 * HELLO, its MAC and OTHER have the same format in all versions from 4 on, so that two
 * different versions can tell each other which they are.
 *
 * A provider may lose sent packets when a connection breaks, reconnect, and report nothing.  So
 * DATA is counted, and a side that finds packets missing ends the link and sends BROKEN; PING
 * and PONG also carry the count, for a side that only waits.
 *
 * Integers are little-endian, as on all supported machines.  The length of each packet is a
 * multiple of 8, so that packets are aligned when a provider places them one after another.
 *
 *   offset size field
 *      0     1  kind      enum net_kind
 *      1     1  version   NET_VERSION
 *      2     2  count     3 low bits: bytes of padding after the packet of a DATA; above:
 *                         DATA that left on this link before, modulo 8192; 0 in a handshake
 *      4     4  to        id of the receiver's link; HELLO: 0
 *      8     8  token     of that link; HELLO: the caller's mark (version.h)
 */
#ifndef NET_PACKET_H
#define NET_PACKET_H

#include <stdbool.h>

#include "transport/transport.h"
#include "transport/version.h"

#define NET_VERSION 5
#define NET_NONCE   16

enum net_kind {
    NET_DATA = 1, /* one packet of the core */
    NET_HELLO,
    NET_WELCOME,
    NET_AUTH,
    NET_REFUSED, /* answer to a HELLO of the job for another endpoint */
    NET_PING,    /* are you there? */
    NET_PONG,
    NET_BYE,    /* the last packet: the sender closes */
    NET_BROKEN, /* the link has ended: packets were lost, or its sender has given up */
    NET_READY,  /* answer to AUTH, if the transport confirms */
    NET_OTHER,  /* answer to a HELLO of the job in another version: the callee's mark */
    NET_KINDS
};

struct net_prefix {
    uint8_t kind, version;
    uint16_t count;
    uint32_t to;
    uint64_t token;
};

#define NET_COUNT_MASK 8191u

static inline unsigned net_padding(const struct net_prefix *prefix)
{
    return prefix->count & 7;
}

static inline unsigned net_count(const struct net_prefix *prefix)
{
    return prefix->count >> 3;
}

/* Does a packet of this kind carry the count of DATA before it? */
static inline bool net_counts(enum net_kind kind)
{
    return kind == NET_DATA || kind == NET_PING || kind == NET_PONG || kind == NET_BYE;
}

/* The name by which the other side refers to a side of a link. */
struct net_name {
    uint32_t id;
    uint32_t rank; /* transport_config.rank */
    uint64_t token;
    uint8_t nonce[NET_NONCE];
};

struct net_hello {
    struct transport_address from, to;
    struct net_name caller;
    uint64_t mac[2];
};

/* Data about a side for the other one; its meaning is the transport's. */
struct net_offer {
    uint64_t words[3];
};

struct net_welcome {
    struct net_name callee;
    struct net_offer offer;
    uint64_t mac[2];
};

struct net_auth {
    struct net_offer offer;
    uint64_t mac[2];
};

static_assert(sizeof(struct net_prefix) == 16, "packet format");
static_assert(sizeof(struct net_name) == 32, "packet format");
static_assert(sizeof(struct net_hello) == 2 * TRANSPORT_ADDRESS_SIZE + 48, "packet format");
static_assert(sizeof(struct net_welcome) == 72, "packet format");
static_assert(sizeof(struct net_auth) == 40, "packet format");

/* The contents of a handshake so far; the rest is zero. */
struct net_transcript {
    struct version version; /* the caller's; only of HELLO */
    struct transport_address caller, callee;
    struct net_name from_caller, from_callee;
    struct net_offer offer_of_caller, offer_of_callee;
};

/* The MAC, under key, of a packet of this kind that follows a handshake with contents
 * `said`. */
void net_sign(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
              const struct net_transcript *said, uint64_t mac[2]);
bool net_is_authentic(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
                      const struct net_transcript *said, const uint64_t mac[2]);

/* Bytes after the prefix of a packet of this kind; 0 if there are none, or any number. */
size_t net_body_size(enum net_kind kind);

/* Reads the prefix of a packet that has arrived, [bytes, bytes+size), and validates it; a
 * packet of the core has at most packet_max bytes.  NULL, or the reason of the refusal. */
const char *net_check(const void *bytes, size_t size, size_t packet_max,
                      struct net_prefix *prefix);

#endif
