/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_testing.c - an engine whose invariants are checked after each operation.
 */
#include "base/unit.h"
#include "match/match_testing.h"

void bench_init(struct bench *b, uint64_t first_seq)
{
    *b = (struct bench){0};
    mbx_match_init(&b->m, &(struct mbx_match_options){.first_seq = first_seq});
}

int bench_post(struct bench *b, int i, uint32_t source, uint64_t tag, uint64_t ignore)
{
    struct mbx_match_msg *met = &b->g[3];

    b->r[i].envelope =
        (struct mbx_match_envelope){.context_id = 1, .source = source, .tag = tag};
    b->r[i].ignore = ignore;
    assert_int_equal(mbx_match_post(&b->m, &b->r[i], &met), 0);
    assert_true(mbx_match_is_valid(&b->m));
    return met == NULL ? -1 : (int)(met - b->g);
}

int bench_arrive(struct bench *b, int i, uint32_t source, uint64_t tag)
{
    struct mbx_match_recv *met = &b->r[3];

    b->g[i].envelope =
        (struct mbx_match_envelope){.context_id = 1, .source = source, .tag = tag};
    assert_int_equal(mbx_match_arrive(&b->m, &b->g[i], &met), 0);
    assert_true(mbx_match_is_valid(&b->m));
    return met == NULL ? -1 : (int)(met - b->r);
}
