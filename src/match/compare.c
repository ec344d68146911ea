/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.c - slot by slot, on every machine.
 */
#include "match/compare.h"

static int plain_recvs(const struct mbx_match_recv_block *blocks, uint32_t live,
                       struct match_key key)
{
    for (; live != 0; live &= live - 1) {
        int slot = __builtin_ctz(live), lane = slot % MBX_MATCH_LANES;
        const struct mbx_match_recv_block *block = &blocks[slot / MBX_MATCH_LANES];

        if ((((block->place[lane] ^ key.place) & block->place_mask[lane]) |
             ((block->tag[lane] ^ key.tag) & block->tag_mask[lane])) == 0)
            return slot;
    }
    return -1;
}

static int plain_msgs(const struct mbx_match_msg_block *blocks, uint32_t live,
                      struct match_key key, struct match_mask mask)
{
    for (; live != 0; live &= live - 1) {
        int slot = __builtin_ctz(live), lane = slot % MBX_MATCH_LANES;
        const struct mbx_match_msg_block *block = &blocks[slot / MBX_MATCH_LANES];

        if ((((block->place[lane] ^ key.place) & mask.place) |
             ((block->tag[lane] ^ key.tag) & mask.tag)) == 0)
            return slot;
    }
    return -1;
}

const struct mbx_match_compare match_compare_plain = {"plain", plain_recvs, plain_msgs};

const struct mbx_match_compare *match_compare_best(void)
{
    const struct mbx_match_compare *avx2 = match_compare_avx2();

    return avx2 != NULL ? avx2 : &match_compare_plain;
}
