/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare_avx2.c - four slots at a time.
 */
#include "match/compare.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2      __attribute__((target("avx2")))
#define LANE_BITS ((1u << MBX_MATCH_LANES) - 1)

_Static_assert(MBX_MATCH_LANES == 4, "a register holds four words");

AVX2 static inline __m256i load(const uint64_t *words)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

/* Bit i: word i is 0. */
AVX2 static inline uint32_t zero_lanes(__m256i words)
{
    __m256i equal = _mm256_cmpeq_epi64(words, _mm256_setzero_si256());

    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal));
}

/* Which bits differ and count? */
AVX2 static inline __m256i differ(__m256i words, __m256i key, __m256i mask)
{
    return _mm256_and_si256(_mm256_xor_si256(words, key), mask);
}

AVX2 static int avx2_recvs(const struct mbx_match_recv_block *blocks, uint32_t live,
                           struct match_key key)
{
    __m256i place = _mm256_set1_epi64x((long long)key.place);
    __m256i tag = _mm256_set1_epi64x((long long)key.tag);

    while (live != 0) {
        uint32_t first = (uint32_t)__builtin_ctz(live) & ~(MBX_MATCH_LANES - 1u);
        const struct mbx_match_recv_block *block = &blocks[first / MBX_MATCH_LANES];
        __m256i difference =
            _mm256_or_si256(differ(load(block->place), place, load(block->place_mask)),
                            differ(load(block->tag), tag, load(block->tag_mask)));
        uint32_t found = zero_lanes(difference) & (live >> first);

        if (found != 0)
            return (int)first + __builtin_ctz(found);
        live &= ~(LANE_BITS << first);
    }
    return -1;
}

AVX2 static int avx2_msgs(const struct mbx_match_msg_block *blocks, uint32_t live,
                          struct match_key key, struct match_mask mask)
{
    __m256i place = _mm256_set1_epi64x((long long)key.place);
    __m256i tag = _mm256_set1_epi64x((long long)key.tag);
    __m256i place_mask = _mm256_set1_epi64x((long long)mask.place);
    __m256i tag_mask = _mm256_set1_epi64x((long long)mask.tag);

    while (live != 0) {
        uint32_t first = (uint32_t)__builtin_ctz(live) & ~(MBX_MATCH_LANES - 1u);
        const struct mbx_match_msg_block *block = &blocks[first / MBX_MATCH_LANES];
        __m256i difference = _mm256_or_si256(differ(load(block->place), place, place_mask),
                                             differ(load(block->tag), tag, tag_mask));
        uint32_t found = zero_lanes(difference) & (live >> first);

        if (found != 0)
            return (int)first + __builtin_ctz(found);
        live &= ~(LANE_BITS << first);
    }
    return -1;
}

static const struct mbx_match_compare compare_avx2 = {"avx2", avx2_recvs, avx2_msgs};

const struct mbx_match_compare *match_compare_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &compare_avx2 : NULL;
}

#else

const struct mbx_match_compare *match_compare_avx2(void)
{
    return NULL;
}

#endif
