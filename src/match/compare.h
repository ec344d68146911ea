/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.h - which slots of a short queue match?
 *
 * Two questions, each with a plain answer and, where the machine has wider registers, a
 * faster one.  Both ways give the same answers (match_test compares them).
 */
#ifndef MATCH_COMPARE_H
#define MATCH_COMPARE_H

#include <matchbox/match.h>

/* What is looked for: context id and source in one word, and the tag.  Of a receive
 * also what of it counts: 1 = compared. */
struct match_key {
    uint64_t place, tag;
};

struct match_mask {
    uint64_t place, tag;
};

struct mbx_match_compare {
    const char *name;

    /* The lowest slot in live whose receive accepts key, or -1. */
    int (*recvs)(const struct mbx_match_recv_block *blocks, uint32_t live,
                 struct match_key key);

    /* The lowest slot in live whose message has key where mask says so, or -1. */
    int (*msgs)(const struct mbx_match_msg_block *blocks, uint32_t live, struct match_key key,
                struct match_mask mask);
};

extern const struct mbx_match_compare match_compare_plain;

/* As fast as this machine can. */
const struct mbx_match_compare *match_compare_best(void);

/* With AVX2, or NULL if this machine or this build has none. */
const struct mbx_match_compare *match_compare_avx2(void);

#endif
