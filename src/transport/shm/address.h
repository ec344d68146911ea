/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h - where an endpoint of this machine is to be found.
 *
 *   offset size field   meaning
 *      0     1  kind    TRANSPORT_SHM
 *      1     3  of the network part
 *      4     4  pid     its process
 *      8     4  fd      its segment there: /proc/<pid>/fd/<fd>
 *     12     4  welcome  the core's
 *     16     8  cookie  64 random bits, also in the segment: a process or descriptor
 *                       of the same number is not taken for the old one
 *     24     8  host    base/host.h
 *     32    32  network part: of no use here; who holds the segment vouches for it, as for
 *               the three bytes in front (shm_owner_proof())
 */
#ifndef SHM_ADDRESS_H
#define SHM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

struct shm_address {
    uint8_t kind;
    uint8_t network[3];
    uint32_t pid;
    uint32_t fd;
    uint32_t welcome;
    uint64_t cookie;
    uint64_t host;
};

static_assert(offsetof(struct shm_address, pid) == 4, "address format");
static_assert(offsetof(struct shm_address, welcome) == TRANSPORT_WELCOME, "address format");
static_assert(offsetof(struct shm_address, cookie) == 16, "address format");
static_assert(sizeof(struct shm_address) == TRANSPORT_NETWORK, "in front of the network part");

/* 0 and *out; -EINVAL no address of this transport; -EHOSTUNREACH of another host. */
int address_parse(const struct transport_address *bytes, uint64_t host,
                  struct shm_address *out);

/* Does this process still run?  Also true where the system does not tell. */
bool process_is_alive(uint32_t pid);

#endif
