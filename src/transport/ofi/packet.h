/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - what travels between two endpoints on a network, in front of a packet.
 *
 *   caller                                      callee
 *   HELLO    who, whom, id, token, nonce  --->  of our job? then a link for it, not open yet
 *            open                         <---  WELCOME  id, token, nonce
 *   AUTH     that it is who answers now   --->  open
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
 * A provider may lose what it had sent when a connection breaks, make another one, and say
 * nothing.  So DATA is counted, and the side that finds some missing ends the link and says
 * BROKEN; PING and PONG carry the count, too, for a side that only waits.
 *
 * Integers are little-endian, as on all machines that this runs on.  The length of each
 * packet is a multiple of 8, so that packets that a provider puts behind one another are
 * aligned.
 *
 *   offset size field
 *      0     1  kind      enum ofi_kind
 *      1     1  version   OFI_VERSION
 *      2     2  count     3 low bits: bytes of padding behind the packet of a DATA; above:
 *                         DATA that left on this link before, modulo 8192; 0 in a handshake
 *      4     4  to        id of the receiver's link; HELLO: 0
 *      8     8  token     of that link; HELLO: 0
 */
#ifndef OFI_PACKET_H
#define OFI_PACKET_H

#include <stdbool.h>

#include "transport/transport.h"

#define OFI_VERSION 3
#define OFI_NONCE   16

/* A packet of the core, at most; and with our prefix and padding. */
#define OFI_PACKET_MAX  (16384 - 256)
#define OFI_MESSAGE_MAX (OFI_PACKET_MAX + 16 + 8)

enum ofi_kind {
    OFI_DATA = 1, /* one packet of the core */
    OFI_HELLO,
    OFI_WELCOME,
    OFI_AUTH,
    OFI_REFUSED, /* answer to a HELLO of the job that is for somebody else */
    OFI_PING,    /* are you there? */
    OFI_PONG,
    OFI_BYE,    /* the last one: the sender closes */
    OFI_BROKEN, /* the link has ended: packets were lost, or who says this has given up */
    OFI_KINDS
};

struct ofi_prefix {
    uint8_t kind, version;
    uint16_t count;
    uint32_t to;
    uint64_t token;
};

#define OFI_COUNT_MASK 8191u

static inline unsigned ofi_padding(const struct ofi_prefix *prefix)
{
    return prefix->count & 7;
}

static inline unsigned ofi_count(const struct ofi_prefix *prefix)
{
    return prefix->count >> 3;
}

/* Does it count the DATA before it? */
static inline bool ofi_counts(enum ofi_kind kind)
{
    return kind == OFI_DATA || kind == OFI_PING || kind == OFI_PONG || kind == OFI_BYE;
}

/* How a side of a link is named by the other. */
struct ofi_name {
    uint32_t id;
    uint32_t zero;
    uint64_t token;
    uint8_t nonce[OFI_NONCE];
};

struct ofi_hello {
    struct transport_address from, to;
    struct ofi_name caller;
    uint64_t mac[2];
};

/* Where the words of a side are (transport_atomics.cswap), as its provider counts. */
struct ofi_place {
    uint64_t address, key;
    uint32_t count; /* 0: nowhere */
    uint32_t zero;
};

struct ofi_welcome {
    struct ofi_name callee;
    struct ofi_place words;
    uint64_t mac[2];
};

struct ofi_auth {
    struct ofi_place words;
    uint64_t mac[2];
};

static_assert(sizeof(struct ofi_prefix) == 16, "packet format");
static_assert(sizeof(struct ofi_name) == 32, "packet format");
static_assert(sizeof(struct ofi_hello) == 2 * TRANSPORT_ADDRESS_SIZE + 48, "packet format");
static_assert(sizeof(struct ofi_welcome) == 72, "packet format");
static_assert(sizeof(struct ofi_auth) == 40, "packet format");

/* All that was said in a handshake; zero what was not said yet. */
struct ofi_transcript {
    struct transport_address caller, callee;
    struct ofi_name from_caller, from_callee;
    struct ofi_place words_of_caller, words_of_callee;
};

/* The MAC of a packet of this kind, behind which all of `said` is said, under key. */
void ofi_sign(const uint8_t key[TRANSPORT_KEY_SIZE], enum ofi_kind kind,
              const struct ofi_transcript *said, uint64_t mac[2]);
bool ofi_is_authentic(const uint8_t key[TRANSPORT_KEY_SIZE], enum ofi_kind kind,
                      const struct ofi_transcript *said, const uint64_t mac[2]);

/* Bytes behind the prefix of a packet of this kind; 0 for one that has none, or any. */
size_t ofi_body_size(enum ofi_kind kind);

/* Reads the prefix of what arrived, [bytes, bytes+size).  NULL, or what is wrong. */
const char *ofi_check(const void *bytes, size_t size, struct ofi_prefix *prefix);

#endif
