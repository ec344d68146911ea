/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h - the address of an endpoint: 64 bytes that users pass on unchanged.
 *
 * All transports share one layout, including the transports of testing/ (loop, sim; count is
 * like loop).  A field that a transport does not use is 0.
 *
 *   offset size  field              shm               ofi              loop        sim
 *      0     1   kind               the transport: enum address_kind
 *      1     1   network_size       of network; 0: it can be reached only on its own machine
 *      2     1   network_format     fi_info.addr_format
 *      3     1   network_provider   a hash of the provider's name
 *      4     4   process            its pid           0                its pid     the simulation
 *      8     4   place              of its segment:   0                index       index
 *                                   /proc/<process>/fd/<place>
 *     12     4   credit             of the core: the initial credit of a sender to it
 *     16     8   cookie             64 random bits    64 random bits   a count     0
 *     24     8   host               base/host.h       base/host.h      0           0
 *     32    32   network            the provider's address, network_size bytes and then 0
 *
 * The network fields belong to ofi or to verbs.  For verbs: format is ADDRESS_FORMAT_VERBS and
 * the link layer, provider is 0, network is as in verbs/hca.c, process is the pid, and the
 * other fields are as for ofi.  An endpoint that can be reached both ways (mux.c) has an
 * address of kind SHM with these network fields.
 *
 * If an shm endpoint passes its segment (shm/passing.h), process is a number with PASSING_BIT,
 * place is its pid, for log lines, and host is the meeting place of base/host.h.
 *
 * The cookie distinguishes an endpoint from an earlier one in the same process and place.  The
 * credit does not identify: two addresses that differ only in credit name one endpoint.
 *
 * Integers are little-endian, as on all supported machines.
 */
#ifndef TRANSPORT_ADDRESS_H
#define TRANSPORT_ADDRESS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

/* libfabric clients have no space for more (FI_NAME_MAX). */
#define TRANSPORT_ADDRESS_SIZE 64
#define ADDRESS_NETWORK_SIZE   32

/* network_format of verbs: this value and the link layer. */
#define ADDRESS_FORMAT_VERBS 0xe0

enum address_kind {
    ADDRESS_LOOP = 1,
    ADDRESS_SHM = 2,
    ADDRESS_OFI = 3,
    ADDRESS_VERBS = 4,
    ADDRESS_SIM = 16,
    ADDRESS_COUNT
};

struct transport_address {
    uint8_t kind; /* enum address_kind */
    uint8_t network_size, network_format, network_provider;
    uint32_t process, place;
    uint32_t credit;
    uint64_t cookie;
    uint64_t host;
    uint8_t network[ADDRESS_NETWORK_SIZE];
};

static_assert(offsetof(struct transport_address, network_size) == 1, "address format");
static_assert(offsetof(struct transport_address, process) == 4, "address format");
static_assert(offsetof(struct transport_address, credit) == 12, "address format");
static_assert(offsetof(struct transport_address, cookie) == 16, "address format");
static_assert(offsetof(struct transport_address, network) == 32, "address format");
static_assert(sizeof(struct transport_address) == TRANSPORT_ADDRESS_SIZE, "no padding");

/* Do both addresses name the same endpoint? */
static inline bool address_is_same(const struct transport_address *a,
                                   const struct transport_address *b)
{
    struct transport_address x = *a;

    x.credit = b->credit;
    return memcmp(&x, b, sizeof x) == 0;
}

/* Can one provider reach both, judging by the format of the addresses? */
static inline bool address_is_same_format(const struct transport_address *a,
                                          const struct transport_address *b)
{
    return a->network_size == b->network_size && a->network_format == b->network_format &&
           a->network_provider == b->network_provider;
}

/* Do both have the same network fields? */
static inline bool address_is_same_network(const struct transport_address *a,
                                           const struct transport_address *b)
{
    return address_is_same_format(a, b) &&
           memcmp(a->network, b->network, sizeof a->network) == 0;
}

/* For tables by address. */
static inline uint32_t address_hash(const struct transport_address *address)
{
    return (uint32_t)hash_bytes(address, sizeof *address);
}

/* Gives *to the network fields of from. */
static inline void address_copy_network(struct transport_address *to,
                                        const struct transport_address *from)
{
    to->network_size = from->network_size;
    to->network_format = from->network_format;
    to->network_provider = from->network_provider;
    memcpy(to->network, from->network, sizeof to->network);
}

#endif
