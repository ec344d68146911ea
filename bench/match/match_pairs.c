/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how many instructions do a receive and its message cost the matching engine?
 * Method     depth - 1 receives wait, each for its own tag; then ROUNDS times one is
 *            posted and a message arrives that matches one of them (posted_pairs).  Or as many
 *            messages wait, one arrives, and one is received (unexpected_pairs).  The matched
 *            one is the oldest (in-order), or any (at-random).  All of it, with its loops, is in
 *            these two functions, and is counted as bench/self_round.c describes.
 *
 *   match_pairs posted|unexpected DEPTH in-order|at-random [ROUNDS]
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <matchbox/match.h>

#define ROUNDS    10000
#define DEPTH_MAX 65536

static struct mbx_match match;
static struct mbx_match_recv recvs[DEPTH_MAX];
static struct mbx_match_msg msgs[DEPTH_MAX];

void posted_pairs(struct mbx_match *m, const uint32_t *tags, uint64_t rounds);
void unexpected_pairs(struct mbx_match *m, const uint32_t *tags, uint64_t rounds);

/* Separate functions with external linkage, because callgrind selects functions by name. */
__attribute__((noinline)) void posted_pairs(struct mbx_match *m, const uint32_t *tags,
                                            uint64_t rounds)
{
    struct mbx_match_recv *recv = &recvs[0];
    struct mbx_match_msg *none;

    for (uint64_t i = 0; i < rounds; i++) {
        mbx_match_post(m, recv, &none);
        msgs[0].envelope.tag = tags[i];
        mbx_match_arrive(m, &msgs[0], &recv);
    }
}

__attribute__((noinline)) void unexpected_pairs(struct mbx_match *m, const uint32_t *tags,
                                                uint64_t rounds)
{
    struct mbx_match_msg *msg = &msgs[0];
    struct mbx_match_recv *none;

    for (uint64_t i = 0; i < rounds; i++) {
        mbx_match_arrive(m, msg, &none);
        recvs[0].envelope.tag = tags[i];
        mbx_match_post(m, &recvs[0], &msg);
    }
}

/* Entry 0 is the youngest. */
static void fill(uint32_t depth, bool is_posted)
{
    struct mbx_match_recv *recv;
    struct mbx_match_msg *msg;

    mbx_match_init(&match, NULL);
    for (uint32_t i = 0; i < depth; i++)
        recvs[i].envelope = msgs[i].envelope = (struct mbx_match_envelope){1, 2, i};
    for (uint32_t i = 1; i < depth; i++)
        if (is_posted)
            mbx_match_post(&match, &recvs[i], &msg);
        else
            mbx_match_arrive(&match, &msgs[i], &recv);
}

/* The tags in the order of matching. */
static uint32_t *make_tags(uint64_t rounds, uint32_t depth, bool is_random)
{
    uint32_t *tags = calloc(rounds, sizeof *tags), state = 1;

    for (uint64_t i = 0; tags != NULL && i < rounds; i++) {
        state = state * 1664525 + 1013904223;
        tags[i] = is_random ? (state >> 8) % depth : (uint32_t)((i + 1) % depth);
    }
    return tags;
}

static int usage(FILE *out, int status)
{
    fprintf(out, "usage: match_pairs posted|unexpected DEPTH in-order|at-random [ROUNDS]\n");
    return status;
}

int main(int argc, char **argv)
{
    struct mbx_match_counters count;
    unsigned long depth, rounds;
    bool is_posted, is_random;
    uint32_t *tags;

    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc < 4 || argc > 5)
        return usage(stderr, 2);
    is_posted = strcmp(argv[1], "posted") == 0;
    is_random = strcmp(argv[3], "at-random") == 0;
    depth = strtoul(argv[2], NULL, 10);
    rounds = argc == 5 ? strtoul(argv[4], NULL, 10) : ROUNDS;
    if ((!is_posted && strcmp(argv[1], "unexpected") != 0) ||
        (!is_random && strcmp(argv[3], "in-order") != 0) || depth == 0 || depth > DEPTH_MAX ||
        rounds == 0)
        return usage(stderr, 2);
    tags = make_tags(rounds, (uint32_t)depth, is_random);
    if (tags == NULL)
        return 1;
    fill((uint32_t)depth, is_posted);
    (is_posted ? posted_pairs : unexpected_pairs)(&match, tags, rounds);
    mbx_match_counters_get(&match, &count);
    printf("bench=match_pairs queue=%s depth=%lu order=%s rounds=%lu met=%llu steps=%llu\n",
           argv[1], depth, argv[3], rounds,
           (unsigned long long)(count.met_posts + count.met_arrivals),
           (unsigned long long)count.search_steps);
    mbx_match_fini(&match);
    free(tags);
    return count.met_posts + count.met_arrivals == rounds ? 0 : 1;
}
