/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cswap.h - words that peers compare and swap: cswap.c.
 */
#ifndef OFI_CSWAP_H
#define OFI_CSWAP_H

#include "transport/atomics.h"
#include "transport/net/packet.h"
#include "transport/ofi/rdma.h"

#define OFI_WORDS 1024

/* Where an endpoint's words are, in the provider's terms: our offer in a handshake. */
struct ofi_place {
    uint64_t address, key;
    uint32_t count; /* 0: there are none */
    uint32_t zero;
};

/* A completion of the provider that was put aside. */
struct ofi_entry {
    struct fi_cq_data_entry entry;
    int error; /* if the operation failed, or 0 */
};

struct ofi_cswap {
    bool has_atomics; /* the provider has atomics */
    uint64_t *bytes;  /* [OFI_WORDS]; NULL: there are none */
    struct fid_mr *mr;
    fi_addr_t self;
    struct ofi_rdma_op own; /* our own swap: OWN */
    struct ofi_place place; /* for peers */
    bool is_broken;         /* our own swaps did not complete: no more of them */
    /* completions that came during a wait for a swap of our own */
    struct ofi_entry *entries;
    size_t first, count, capacity;
};

extern const struct transport_atomics ofi_atomics;

/* Makes words that peers may swap, if the provider can.  0, with or without words; -ENOMEM, or
 * another error. */
int ofi_cswap_open(struct ofi *ofi);
void ofi_cswap_close(struct ofi *ofi);

/* The oldest entry that was put aside.  False: there is none. */
bool ofi_cswap_entry(struct ofi *ofi, struct ofi_entry *entry);

#endif
