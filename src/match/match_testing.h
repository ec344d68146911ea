/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_testing.h - shared by the tests of the engine: an engine with numbered entries.
 *
 * A file that includes this also includes cmocka.h.
 */
#ifndef MATCH_MATCH_TESTING_H
#define MATCH_MATCH_TESTING_H

#include <stdint.h>

#include <matchbox/match.h>

#define ANY_TAG UINT64_MAX /* the mask of a receive that ignores every bit of the tag */

struct bench {
    struct mbx_match m;
    struct mbx_match_recv r[9];
    struct mbx_match_msg g[9];
};

/* first_seq: the age of the first receive and of the first message. */
void bench_init(struct bench *b, uint64_t first_seq);

/* Posts receive i.  Returns the message that it took (-1: it waits). */
int bench_post(struct bench *b, int i, uint32_t source, uint64_t tag, uint64_t ignore);

/* Message i arrives.  Returns the receive that took it (-1: it waits). */
int bench_arrive(struct bench *b, int i, uint32_t source, uint64_t tag);

#endif
