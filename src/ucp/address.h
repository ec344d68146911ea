/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h - the address of a worker, as clients copy it: address.c.
 */
#ifndef UCP_ADDRESS_H
#define UCP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#define UCPX_ADDRESS_MAX 160

struct ucpx_address {
    struct mbx_address address;
    uint64_t identity;
    uint64_t job;  /* which launcher's job; 0: nobody says */
    uint32_t rank; /* in that job, or UCPX_NO_RANK */
};

enum ucpx_address_is {
    UCPX_ADDRESS_OURS,
    UCPX_ADDRESS_OF_UCX,
    UCPX_ADDRESS_OF_OTHER_VERSION,
    UCPX_ADDRESS_DAMAGED,
};

/* Writes it to bytes[UCPX_ADDRESS_MAX].  How many bytes. */
size_t ucpx_address_pack(const struct ucpx_address *address, unsigned char *bytes);

/* Reads what somebody says is an address.  It may have any alignment and be followed by anything; beyond the first byte that
 * is wrong nothing is read. */
enum ucpx_address_is ucpx_address_read(struct ucpx_address *address, const void *bytes);

/* The job and the rank of this process, as its launcher says. */
void ucpx_address_describe(struct ucpx_address *address);

#endif
