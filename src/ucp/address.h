/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h - the address of a worker, as clients copy it: address.c.
 */
#ifndef UCP_ADDRESS_H
#define UCP_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "ucp/interface.h"

#define UCPX_ADDRESS_MAX 160
#define UCPX_NAME_SIZE   33 /* of the name of a worker of UCX, with its end */

#define UCPX_HOST_SIZE   20 /* longer names of hosts are cut */

/* A process, for messages. */
struct ucpx_who {
    uint32_t process; /* its id on its host; 0: not known */
    char host[UCPX_HOST_SIZE];
};

struct ucpx_address {
    struct mbx_address address;
    uint64_t identity;
    uint64_t job;              /* which launcher's job; 0: nobody says */
    uint32_t rank;             /* in that job, or UCPX_NO_RANK */
    struct ucpx_who who;       /* for messages */
    char name[UCPX_NAME_SIZE]; /* only read, also from an address of UCX; empty: it has none */
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

/* As ucpx_address_read().  UCS_OK; otherwise the log says what is wrong. */
ucs_status_t ucpx_address_check(struct ucpx_address *address, const void *bytes);

/* This process: the job and the rank, as its launcher says, and where it runs. */
void ucpx_address_describe(struct ucpx_address *address);

#endif
