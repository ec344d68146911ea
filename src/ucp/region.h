/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - keys to memory that a peer has mapped: region.c.
 *
 * It needs no header of UCX, so that later.c can use it.
 */
#ifndef UCP_REGION_H
#define UCP_REGION_H

#include <stddef.h>
#include <stdint.h>

/* A key that has been unpacked.  It comes from a peer, and the owner of the memory checks each access itself. */
struct ucp_rkey {
    uint64_t key; /* of mbx_register() */
    uint64_t address, length;
    unsigned rights; /* enum mbx_rights */
};

struct ucp_mem;

/* The bytes that a peer unpacks, which mem_free() frees; NULL: memory is short. */
void *ucpx_key_pack(const struct ucp_mem *mem, size_t *size);
/* Below 0, 0 or above 0; equal keys are 0. */
int ucpx_keys_compare(const struct ucp_rkey *a, const struct ucp_rkey *b);

#endif
