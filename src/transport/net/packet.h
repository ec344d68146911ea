/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - what travels between two endpoints on a network, in front of a packet.
 *
 *   caller                                      callee
 *   HELLO    who, whom, id, token, nonce  --->  of our job? then a link for it, not open yet
 *            open                         <---  WELCOME  id, token, nonce
 *   AUTH     that it is who answers now   --->  open
 *           (open                         <---  READY, where messages go another way)
 *            refused                      <---  OTHER, where the versions differ
 *   DATA ...                              --->
 *
 * Each side hands the other an id and a token in this handshake; a packet names those of the
 * link that it is for, and a packet that names none is dropped.  So nobody is known by the
 * address that something came from, which not all providers tell.
 *
 * HELLO, WELCOME and AUTH carry a MAC (transport/siphash.h) over all that the two have said
 * so far, with their addresses and their parts, under the job's key.  A HELLO that was recorded
 * can be repeated by anybody: the callee then answers the endpoint that it names, which does not
 * know the id, and nothing is open.  AUTH answers a nonce that is used once.
 *
 * If both call, the call of the smaller address counts: its owner drops the other's HELLO; the
 * other answers instead of waiting for an answer.
 *
 * HELLO, its MAC and OTHER look like this in all versions, from 4 on: so that two of different
 * versions can tell each other which.
 *
 * A provider may lose what it had sent when a connection breaks, make another one, and say
 * nothing.  So DATA is counted, and the side that finds some missing ends the link and says
 * BROKEN; PING and PONG carry the count, too, for a side that only waits.
 *
 * Integers are little-endian, as on all machines that this runs on.  The length of each
 * packet is a multiple of 8, so that packets that a provider puts behind one another are
 * aligned.
 *
 *   offset size field
 *      0     1  kind      enum net_kind
 *      1     1  version   NET_VERSION
 *      2     2  count     3 low bits: bytes of padding behind the packet of a DATA; above:
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
    NET_REFUSED, /* answer to a HELLO of the job that is for somebody else */
    NET_PING,    /* are you there? */
    NET_PONG,
    NET_BYE,    /* the last one: the sender closes */
    NET_BROKEN, /* the link has ended: packets were lost, or who says this has given up */
    NET_READY,  /* answer to AUTH, where a transport wants one */
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

/* Does it count the DATA before it? */
static inline bool net_counts(enum net_kind kind)
{
    return kind == NET_DATA || kind == NET_PING || kind == NET_PONG || kind == NET_BYE;
}

/* How a side of a link is named by the other. */
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

/* What a side tells the other about itself; a transport says what it means. */
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

/* All that was said in a handshake; zero what was not said yet. */
struct net_transcript {
    struct version version; /* the caller's; of HELLO alone */
    struct transport_address caller, callee;
    struct net_name from_caller, from_callee;
    struct net_offer offer_of_caller, offer_of_callee;
};

/* The MAC of a packet of this kind, behind which all of `said` is said, under key. */
void net_sign(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
              const struct net_transcript *said, uint64_t mac[2]);
bool net_is_authentic(const uint8_t key[TRANSPORT_KEY_SIZE], enum net_kind kind,
                      const struct net_transcript *said, const uint64_t mac[2]);

/* Bytes behind the prefix of a packet of this kind; 0 for one that has none, or any. */
size_t net_body_size(enum net_kind kind);

/* Reads the prefix of what arrived, [bytes, bytes+size), of which a packet of the core is at most
 * packet_max.  NULL, or what is wrong. */
const char *net_check(const void *bytes, size_t size, size_t packet_max,
                      struct net_prefix *prefix);

#endif
