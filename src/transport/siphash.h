/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash.h - proves knowledge of a key without revealing it.
 *
 * SipHash-2-4 (Aumasson and Bernstein): 64 bits that only someone with the 16 bytes of
 * the key can compute for a given text.  Also used, with a fixed key, as a hash.
 */
#ifndef TRANSPORT_SIPHASH_H
#define TRANSPORT_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

uint64_t siphash(const uint8_t key[TRANSPORT_KEY_SIZE], const void *text, size_t size);

#endif
