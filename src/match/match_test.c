/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_test.c - the rules one by one, and random histories against the oracle.
 *
 *   match_test [SEEDS [FIRST]]      seeds FIRST .. FIRST+SEEDS-1; 1 .. 20000 unless
 *                                   told, or unless MATCH_SEEDS says how many
 *
 * history_random.c makes the histories: short ones over a tiny domain, and deep ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/random.h"
#include "match/deep.h"
#include "match/history.h"

#define ANY_TAG UINT64_MAX

static unsigned long long seed_first = 1, seed_count = 20000;

/* ---- random histories ------------------------------------------------------ */

/* Every 100th seed makes a deep one too. */
#define DEEP_EVERY 100

static void must_agree(struct history *h, const char *label, uint64_t seed)
{
    struct history_run run;

    if (history_replay(&run, h) < 0)
        return;
    history_report(h, label, seed);
    fail();
}

static void random_histories_agree_with_the_oracle(void **state)
{
    struct history h;

    (void)state;
    for (uint64_t seed = seed_first; seed - seed_first < seed_count; seed++) {
        history_make(&h, seed);
        must_agree(&h, "seed", seed);
        if (seed % DEEP_EVERY != 0)
            continue;
        history_make_deep(&h, seed / DEEP_EVERY);
        must_agree(&h, "deep seed", seed / DEEP_EVERY);
    }
}

/* ---- the rules, one by one ------------------------------------------------- */

struct bench {
    struct mbx_match m;
    struct mbx_match_recv r[9];
    struct mbx_match_msg g[9];
};

static void bench_init(struct bench *b, uint64_t first_seq)
{
    *b = (struct bench){0};
    mbx_match_init(&b->m, &(struct mbx_match_options){.first_seq = first_seq});
}

/* Receive i is posted; which message did it take (-1: it waits)? */
static int post(struct bench *b, int i, uint32_t source, uint64_t tag, uint64_t ignore)
{
    struct mbx_match_msg *met = &b->g[3];

    b->r[i].envelope =
        (struct mbx_match_envelope){.context_id = 1, .source = source, .tag = tag};
    b->r[i].ignore = ignore;
    assert_int_equal(mbx_match_post(&b->m, &b->r[i], &met), 0);
    assert_true(mbx_match_is_valid(&b->m));
    return met == NULL ? -1 : (int)(met - b->g);
}

/* Message i arrives; which receive took it (-1: it waits)? */
static int arrive(struct bench *b, int i, uint32_t source, uint64_t tag)
{
    struct mbx_match_recv *met = &b->r[3];

    b->g[i].envelope =
        (struct mbx_match_envelope){.context_id = 1, .source = source, .tag = tag};
    assert_int_equal(mbx_match_arrive(&b->m, &b->g[i], &met), 0);
    assert_true(mbx_match_is_valid(&b->m));
    return met == NULL ? -1 : (int)(met - b->r);
}

static void r1_a_message_goes_to_the_earliest_posted_receive(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 7, 0);
    post(&b, 1, 2, 0, ANY_TAG);
    post(&b, 2, 2, 7, 0);
    assert_int_equal(arrive(&b, 0, 2, 7), 0);
    assert_int_equal(arrive(&b, 1, 2, 7), 1);
    assert_int_equal(arrive(&b, 2, 2, 7), 2);
    mbx_match_fini(&b.m);
}

/* A shared matcher that keeps a list for each source loses the order between these
 * two and gives the message to the second. */
static void an_any_source_receive_posted_before_a_directed_one_keeps_its_message(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, MBX_MATCH_ANY_SOURCE, 7, 0);
    post(&b, 1, 2, 7, 0);
    assert_int_equal(arrive(&b, 0, 2, 7), 0);
    assert_int_equal(arrive(&b, 1, 2, 7), 1);

    post(&b, 0, 2, 7, 0);
    post(&b, 1, MBX_MATCH_ANY_SOURCE, 7, 0);
    assert_int_equal(arrive(&b, 0, 2, 7), 0);
    mbx_match_fini(&b.m);
}

static void r2_a_receive_takes_the_earliest_message(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    arrive(&b, 0, 2, 7);
    arrive(&b, 1, 3, 7);
    arrive(&b, 2, 2, 8);
    assert_int_equal(post(&b, 0, 2, 0, ANY_TAG), 0);
    assert_int_equal(post(&b, 1, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 1);
    assert_int_equal(post(&b, 2, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 2);
    mbx_match_fini(&b.m);
}

static void r3_a_later_message_may_be_taken_before_one_that_cannot_match(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    arrive(&b, 0, 2, 7);
    arrive(&b, 1, 2, 8);
    assert_int_equal(post(&b, 0, 2, 8, 0), 1);
    assert_int_equal(post(&b, 1, 2, 7, 0), 0);
    mbx_match_fini(&b.m);
}

static void r4_a_receive_is_posted_only_if_no_message_waits_for_it(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    arrive(&b, 0, 2, 7);
    assert_int_equal(post(&b, 0, 2, 7, 0), 0);
    assert_null(mbx_match_next_recv(&b.m, NULL));
    assert_null(mbx_match_next_msg(&b.m, NULL));
    assert_int_equal(post(&b, 1, 2, 7, 0), -1);
    assert_ptr_equal(mbx_match_next_recv(&b.m, NULL), &b.r[1]);
    mbx_match_fini(&b.m);
}

static void r5_peek_says_what_the_receive_would_take_and_takes_nothing(void **state)
{
    struct mbx_match_envelope any = {.context_id = 1, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    assert_null(mbx_match_peek(&b.m, &any, ANY_TAG));
    arrive(&b, 0, 2, 7);
    arrive(&b, 1, 2, 7);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[0]);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[0]);
    assert_int_equal(post(&b, 0, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 0);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[1]);
    mbx_match_fini(&b.m);
}

static void r5_nobody_else_sees_a_claimed_message(void **state)
{
    struct mbx_match_envelope any = {.context_id = 1, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    arrive(&b, 0, 2, 7);
    arrive(&b, 1, 2, 8);
    assert_true(mbx_match_extract(&b.m, &b.g[0]));
    assert_true(mbx_match_is_valid(&b.m));
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[1]);
    assert_int_equal(post(&b, 0, 2, 7, 0), -1);
    assert_int_equal(post(&b, 1, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 1);
    mbx_match_fini(&b.m);
}

static void r6_a_cancelled_receive_never_matches_and_the_rest_keep_their_order(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 7, 0);
    post(&b, 1, MBX_MATCH_ANY_SOURCE, 7, 0);
    post(&b, 2, 2, 7, 0);
    assert_true(mbx_match_cancel(&b.m, &b.r[0]));
    assert_true(mbx_match_is_valid(&b.m));
    assert_int_equal(arrive(&b, 0, 2, 7), 1);
    assert_int_equal(arrive(&b, 1, 2, 7), 2);
    assert_int_equal(arrive(&b, 2, 2, 7), -1);
    mbx_match_fini(&b.m);
}

static void r6_a_receive_that_has_matched_cannot_be_cancelled(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 7, 0);
    arrive(&b, 0, 2, 7);
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    arrive(&b, 1, 2, 7);
    assert_int_equal(post(&b, 1, 2, 7, 0), 1);
    assert_false(mbx_match_cancel(&b.m, &b.r[1]));
    assert_int_equal(b.m.count.cancelled, 0);
    mbx_match_fini(&b.m);
}

/* Lengths live around the entries, where the engine cannot see them: the short
 * receive that was posted first takes the long message. */
static void r7_length_takes_no_part(void **state)
{
    struct sized_recv {
        size_t size;
        struct mbx_match_recv match;
    } small = {.size = 1}, large = {.size = 1000};
    struct sized_msg {
        size_t size;
        struct mbx_match_msg match;
    } msg = {.size = 1000};
    struct mbx_match_msg *none;
    struct mbx_match_recv *met;
    struct mbx_match m;

    (void)state;
    mbx_match_init(&m, NULL);
    assert_int_equal(mbx_match_post(&m, &small.match, &none), 0);
    assert_int_equal(mbx_match_post(&m, &large.match, &none), 0);
    assert_int_equal(mbx_match_arrive(&m, &msg.match, &met), 0);
    assert_ptr_equal(container_of(met, struct sized_recv, match), &small);
    mbx_match_fini(&m);
}

static void r9_wildcards_do_not_cross_context_ids(void **state)
{
    struct mbx_match_envelope any = {.context_id = 0xffff0001, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG);
    assert_null(
        mbx_match_find(&b.m, &(struct mbx_match_envelope){.context_id = 2, .source = 2}));
    assert_int_equal(arrive(&b, 0, 2, 7), 0);
    arrive(&b, 1, 2, 7);
    assert_null(mbx_match_peek(&b.m, &any, ANY_TAG));
    mbx_match_fini(&b.m);
}

static void every_tag_bit_is_compared_unless_it_is_ignored(void **state)
{
    struct bench b;

    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = 1ull << bit;

        bench_init(&b, 0);
        post(&b, 0, 2, one, 0);
        post(&b, 1, 2, one, ~one);
        assert_int_equal(arrive(&b, 0, 2, 0), -1);
        assert_int_equal(post(&b, 2, 2, one, one), 0);
        assert_int_equal(arrive(&b, 1, 2, ANY_TAG), 1);
        mbx_match_fini(&b.m);
    }
}

/* ---- what depends on the engine's structure --------------------------------- */

/* Eight wait at any time, and the oldest goes when a new one comes: slots run out, again
 * and again. */
static void order_holds_when_slots_run_out(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(post(&b, i % 9, 2, 7, 0), -1);
        if (i >= 8)
            assert_int_equal(arrive(&b, 0, 2, 7), (i - 8) % 9);
        assert_true(mbx_match_is_valid(&b.m));
    }
    mbx_match_fini(&b.m);
    bench_init(&b, 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(arrive(&b, i % 9, 2, 7), -1);
        if (i >= 8)
            assert_int_equal(post(&b, 0, MBX_MATCH_ANY_SOURCE, 7, 0), (i - 8) % 9);
        assert_true(mbx_match_is_valid(&b.m));
    }
    mbx_match_fini(&b.m);
}

/* Slots filled by chance, some of them dead but not cleared, and keys that fit some. */
static void fill_slots(struct random *r, struct mbx_match_recv_block *recvs,
                       struct mbx_match_msg_block *msgs)
{
    for (int i = 0; i < MBX_MATCH_SLOTS; i++) {
        struct mbx_match_recv_block *recv = &recvs[i / MBX_MATCH_LANES];
        struct mbx_match_msg_block *msg = &msgs[i / MBX_MATCH_LANES];
        int lane = i % MBX_MATCH_LANES;

        recv->place[lane] = msg->place[lane] = random_below(r, 2) << 32 | random_below(r, 2);
        recv->tag[lane] = msg->tag[lane] = random_below(r, 2) << 63 | random_below(r, 2);
        recv->place_mask[lane] = random_below(r, 2) != 0 ? UINT64_MAX : UINT64_MAX << 32;
        recv->tag_mask[lane] = random_below(r, 2) != 0 ? UINT64_MAX : random_next(r);
    }
}

static void wide_registers_compare_as_the_plain_way(void **state)
{
    struct mbx_match_recv_block recvs[MBX_MATCH_SLOTS / MBX_MATCH_LANES];
    struct mbx_match_msg_block msgs[MBX_MATCH_SLOTS / MBX_MATCH_LANES];
    const struct mbx_match_compare *wide = match_compare_avx2(), *plain = &match_compare_plain;
    struct random r;

    (void)state;
    if (wide == NULL)
        skip();
    random_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        uint32_t live = (uint32_t)(random_next(&r) & random_next(&r));
        struct match_key key = {random_below(&r, 2), random_below(&r, 2) << 63};
        struct match_mask mask = {random_below(&r, 2) != 0 ? UINT64_MAX : UINT64_MAX << 32,
                                  random_next(&r) | random_next(&r)};

        fill_slots(&r, recvs, msgs);
        assert_int_equal(wide->recvs(recvs, live, key), plain->recvs(recvs, live, key));
        assert_int_equal(wide->msgs(msgs, live, key, mask), plain->msgs(msgs, live, key, mask));
    }
}

/* ---- misuse, reuse, ages, counters ----------------------------------------- */

static void a_second_cancel_is_refused(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    assert_false(mbx_match_cancel(&b.m, &b.r[0])); /* never posted */
    post(&b, 0, 2, 7, 0);
    assert_true(mbx_match_cancel(&b.m, &b.r[0]));
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    assert_int_equal(b.m.count.cancelled, 1);
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

static void a_second_claim_is_refused(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    assert_false(mbx_match_extract(&b.m, &b.g[0])); /* never arrived */
    arrive(&b, 0, 2, 7);
    assert_true(mbx_match_extract(&b.m, &b.g[0]));
    assert_false(mbx_match_extract(&b.m, &b.g[0]));
    assert_int_equal(b.m.count.claimed, 1);
    arrive(&b, 1, 2, 7);
    assert_int_equal(post(&b, 0, 2, 7, 0), 1);
    assert_false(mbx_match_extract(&b.m, &b.g[1])); /* has matched */
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

static void entries_are_used_again_in_any_state(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(post(&b, 0, 2, 7, 0), -1); /* matched, cancelled, met at once */
        assert_int_equal(arrive(&b, 0, 2, 7), 0);
        assert_int_equal(post(&b, 0, 2, 7, 0), -1);
        assert_true(mbx_match_cancel(&b.m, &b.r[0]));
        assert_int_equal(arrive(&b, 0, 2, 7), -1);
        assert_int_equal(post(&b, 0, 2, 7, 0), 0);
        assert_int_equal(arrive(&b, 0, 2, 7), -1);
        assert_true(mbx_match_extract(&b.m, &b.g[0]));
    }
    mbx_match_fini(&b.m);
}

static void fini_gives_queued_entries_back(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 7, 0);
    arrive(&b, 0, 2, 8);
    mbx_match_fini(&b.m);
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    assert_false(mbx_match_extract(&b.m, &b.g[0]));
}

/* The ages of three entries lie on both sides of the number at which they wrap. */
static void ages_may_pass(uint64_t wrap)
{
    struct bench b;

    bench_init(&b, wrap - 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(post(&b, i, 2, 7, 0), -1);
    assert_int_equal(b.r[2].seq, wrap);
    for (int i = 0; i < 4; i++)
        assert_int_equal(arrive(&b, i, 2, 7), i);
    mbx_match_fini(&b.m);

    bench_init(&b, wrap - 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(arrive(&b, i, 2, 7), -1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(post(&b, i, MBX_MATCH_ANY_SOURCE, 7, 0), i);
    mbx_match_fini(&b.m);
}

static void order_holds_when_ages_pass_2_to_the_32(void **state)
{
    (void)state;
    ages_may_pass(1ull << 32);
}

static void order_holds_when_ages_pass_2_to_the_63(void **state)
{
    (void)state;
    ages_may_pass(1ull << 63);
}

static void order_holds_when_ages_pass_2_to_the_64(void **state)
{
    (void)state;
    ages_may_pass(0);
}

/* Short queues compare everything that stands before the match. */
static void searches_are_counted_entry_by_entry(void **state)
{
    struct mbx_match_envelope absent = {.context_id = 1, .source = 9, .tag = 9};
    struct bench b;
    const struct mbx_match_counters *count = &b.m.count;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 0, 0); /* nothing to compare with */
    post(&b, 1, 2, 1, 0);
    post(&b, 2, 2, 2, 0);
    assert_int_equal(count->searches, 3);
    assert_int_equal(count->search_steps, 0);
    arrive(&b, 0, 2, 1);
    assert_int_equal(count->search_steps, 2);
    mbx_match_find(&b.m, &absent);
    mbx_match_peek(&b.m, &absent, 0);
    assert_int_equal(count->search_steps, 4);
    assert_int_equal(count->search_max, 2);
    arrive(&b, 1, 2, 9);
    arrive(&b, 2, 2, 9);
    mbx_match_peek(&b.m, &absent, 0);
    assert_int_equal(count->searches, 9);
    assert_int_equal(count->search_steps, 10);
    mbx_match_cancel(&b.m, &b.r[0]);
    mbx_match_extract(&b.m, &b.g[2]);
    assert_int_equal(count->searches, 9);
    assert_int_equal(count->search_max, 2);
    mbx_match_fini(&b.m);
}

/* mbx_match_is_valid() is only worth asking if each invariant that it names can fail. */
static void broken_invariants_are_seen(void **state)
{
    struct bench b;
    struct mbx_match good;

    (void)state;
    bench_init(&b, 0);
    post(&b, 0, 2, 0, 0);
    post(&b, 1, 2, 1, 0);
    arrive(&b, 0, 3, 0);
    arrive(&b, 1, 3, 1);
    good = b.m;

    b.r[1].seq = b.r[0].seq; /* I1 */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[1].seq = b.m.next_seq;
    assert_false(mbx_match_is_valid(&b.m));
    b.r[1].seq = 1;
    b.g[0].seq = b.g[1].seq + 1;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[0].seq = 2;
    b.g[1].envelope.source = 2; /* I2 */
    b.m.msg_blocks[0].place[1] = UINT64_C(1) << 32 | 2;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].envelope.source = 3;
    b.m = good;
    b.m.count.posted++; /* I3 */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.m.count.claimed++;
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.r[0].state = MBX_MATCH_IDLE; /* I4 */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[0].state = MBX_MATCH_QUEUED;
    b.g[1].state = MBX_MATCH_IDLE;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].state = MBX_MATCH_QUEUED;
    b.m.recv_blocks[0].tag[1]++; /* what is compared */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.m.recv_slots.live ^= 6; /* which slots are in use */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

/* As above, of queues that are long from the second entry on. */
static void broken_tables_are_seen(void **state)
{
    struct mbx_match_options options = {.short_max = 1, .classes = 1};
    struct mbx_match_deep good;
    struct bench b;

    (void)state;
    b = (struct bench){0};
    mbx_match_init(&b.m, &options);
    for (int i = 0; i < 3; i++)
        post(&b, i, 2, 0, 0);
    post(&b, 3, MBX_MATCH_ANY_SOURCE, 9, 0); /* no class is left */
    for (int i = 0; i < 3; i++)
        arrive(&b, i, 3, 5);
    assert_null(mbx_match_peek(&b.m, &(struct mbx_match_envelope){1, 4, 5}, 0));
    assert_true(mbx_match_is_valid(&b.m));
    good = *b.m.deep;

    b.m.deep->busy ^= 1;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].indexed = b.g[2].seq; /* in the index, yet not below */
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].recvs--;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].posted.used++;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->masks[0].tag = 0;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.g[1].at = 0; /* a message that denies its place in the index */
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].at = 2;
    b.r[3].at = 0; /* a receive of overflow that says it has a class */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[3].at = CLASS_NONE;
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

/* ---- main ------------------------------------------------------------------ */

static unsigned long long number(const char *name, const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0') {
        fprintf(stderr, "match_test: %s '%s' is not a number\n", name, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_agree_with_the_oracle),
        cmocka_unit_test(r1_a_message_goes_to_the_earliest_posted_receive),
        cmocka_unit_test(an_any_source_receive_posted_before_a_directed_one_keeps_its_message),
        cmocka_unit_test(r2_a_receive_takes_the_earliest_message),
        cmocka_unit_test(r3_a_later_message_may_be_taken_before_one_that_cannot_match),
        cmocka_unit_test(r4_a_receive_is_posted_only_if_no_message_waits_for_it),
        cmocka_unit_test(r5_peek_says_what_the_receive_would_take_and_takes_nothing),
        cmocka_unit_test(r5_nobody_else_sees_a_claimed_message),
        cmocka_unit_test(r6_a_cancelled_receive_never_matches_and_the_rest_keep_their_order),
        cmocka_unit_test(r6_a_receive_that_has_matched_cannot_be_cancelled),
        cmocka_unit_test(r7_length_takes_no_part),
        cmocka_unit_test(r9_wildcards_do_not_cross_context_ids),
        cmocka_unit_test(every_tag_bit_is_compared_unless_it_is_ignored),
        cmocka_unit_test(order_holds_when_slots_run_out),
        cmocka_unit_test(wide_registers_compare_as_the_plain_way),
        cmocka_unit_test(a_second_cancel_is_refused),
        cmocka_unit_test(a_second_claim_is_refused),
        cmocka_unit_test(entries_are_used_again_in_any_state),
        cmocka_unit_test(fini_gives_queued_entries_back),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_32),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_63),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_64),
        cmocka_unit_test(searches_are_counted_entry_by_entry),
        cmocka_unit_test(broken_invariants_are_seen),
        cmocka_unit_test(broken_tables_are_seen),
    };
    const char *seeds = getenv("MATCH_SEEDS");

    bool is_asked = argc == 2 && strcmp(argv[1], "--help") == 0;

    if (argc > 3 || is_asked) {
        fprintf(is_asked ? stdout : stderr, "usage: match_test [SEEDS [FIRST]]\n");
        return is_asked ? 0 : 2;
    }
    if (argc > 1)
        seed_count = number("SEEDS", argv[1]);
    else if (seeds != NULL)
        seed_count = number("MATCH_SEEDS", seeds);
    if (argc > 2)
        seed_first = number("FIRST", argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
