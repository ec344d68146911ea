/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - memory of the worker `there` that `here` accesses, and its key.
 */
#ifndef TESTS_UCP_REGION_H
#define TESTS_UCP_REGION_H

#include "tests/ucp/pair.h"
#include "ucp/region.h"

#define KEY_SIZE 32
#define ANY_PROT UINT32_MAX

/* Where a key has what: src/ucp/region.c. */
enum { AT_MARK = 0, AT_RIGHTS = 7, AT_KEY = 8, AT_ADDRESS = 16, AT_LENGTH = 24 };

#define MEMORY_SIZE ((size_t)100000)

/* There, between bytes that nobody may change. */
struct guarded {
    unsigned char before[64], bytes[MEMORY_SIZE], after[64];
};
extern struct guarded memory;
extern unsigned char data[MEMORY_SIZE + 64], key_bytes[KEY_SIZE];
extern ucp_mem_h mapped; /* memory.bytes; NULL: a test has unmapped it */
extern ucp_rkey_h key;

ucp_mem_h map(void *bytes, size_t size, unsigned prot);
void pack_key(ucp_mem_h mem, unsigned char bytes[KEY_SIZE]);
ucp_rkey_h key_of(const unsigned char bytes[KEY_SIZE]);
/* A key that says something else at an offset. */
ucp_rkey_h forged(size_t offset, uint64_t value);
/* Maps memory.bytes, and makes its key. */
void map_all(void);

uint64_t where(const void *bytes);
bool is_all(const unsigned char *bytes, size_t size, unsigned char value);

/* The result of an operation that has a request or none. */
ucs_status_t finish(void *request);
/* Flushes the endpoint `to`; and its worker. */
ucs_status_t flush(void);
ucs_status_t flush_worker(void);

/* As open_both(), with the memory mapped. */
int open_memory(void **state);
int close_memory(void **state);

#endif
