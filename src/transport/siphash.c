/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash.c - SipHash-2-4: two rounds per 8 bytes of text, four at the end.
 *
 * Words are read in the byte order of the machine, which is the same on all supported machines.
 */
#include "transport/siphash.h"

#include <string.h>

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void siphash_mix(struct sip *v)
{
    v->a += v->b;
    v->b = rotate(v->b, 13) ^ v->a;
    v->a = rotate(v->a, 32);
    v->c += v->d;
    v->d = rotate(v->d, 16) ^ v->c;
    v->a += v->d;
    v->d = rotate(v->d, 21) ^ v->a;
    v->c += v->b;
    v->b = rotate(v->b, 17) ^ v->c;
    v->c = rotate(v->c, 32);
}

static void absorb(struct sip *v, uint64_t word)
{
    v->d ^= word;
    siphash_mix(v);
    siphash_mix(v);
    v->a ^= word;
}

uint64_t siphash(const uint8_t key[TRANSPORT_KEY_SIZE], const void *text, size_t size)
{
    const unsigned char *bytes = text;
    uint64_t last = (uint64_t)size << 56;
    uint64_t k[2], word;
    struct sip v;

    memcpy(k, key, sizeof k);
    v.a = k[0] ^ UINT64_C(0x736f6d6570736575);
    v.b = k[1] ^ UINT64_C(0x646f72616e646f6d);
    v.c = k[0] ^ UINT64_C(0x6c7967656e657261);
    v.d = k[1] ^ UINT64_C(0x7465646279746573);
    for (; size >= sizeof word; size -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        absorb(&v, word);
    }
    for (size_t i = 0; i < size; i++)
        last |= (uint64_t)bytes[i] << (8 * i);
    absorb(&v, last);
    v.c ^= 0xff;
    for (unsigned i = 0; i < 4; i++)
        siphash_mix(&v);
    return v.a ^ v.b ^ v.c ^ v.d;
}
