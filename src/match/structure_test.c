/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * structure_test.c - properties that depend on the engine's structure: tables, remembered
 * probes, the counters of searches, and mbx_match_is_valid(), which must detect each broken
 * invariant.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/unit.h"
#include "match/deep.h"
#include "match/match_testing.h"

/* ---- behaviour that depends on the engine's structure ----------------------- */

/* Eight entries wait at any time, and the oldest leaves when a new one comes. */
static void order_holds_when_the_oldest_goes_and_another_comes(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(bench_post(&b, i % 9, 2, 7, 0), -1);
        if (i >= 8)
            assert_int_equal(bench_arrive(&b, 0, 2, 7), (i - 8) % 9);
    }
    mbx_match_fini(&b.m);
    bench_init(&b, 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(bench_arrive(&b, i % 9, 2, 7), -1);
        if (i >= 8)
            assert_int_equal(bench_post(&b, 0, MBX_MATCH_ANY_SOURCE, 7, 0), (i - 8) % 9);
    }
    mbx_match_fini(&b.m);
}

/* The oldest entry of a queue of any length is taken without a table or an allocation. */
static void what_goes_in_its_order_needs_no_table(UNUSED void **state)
{
    enum { COUNT = 1000 };
    static struct mbx_match_recv recvs[COUNT];
    static struct mbx_match_msg msgs[COUNT];
    struct mbx_match_msg *msg;
    struct mbx_match_recv *recv;
    struct mbx_match m;

    memset(recvs, 0, sizeof recvs);
    memset(msgs, 0, sizeof msgs);
    mbx_match_init(&m, NULL);
    for (uint64_t i = 0; i < COUNT; i++) {
        recvs[i].envelope = msgs[i].envelope = (struct mbx_match_envelope){1, 2, i};
        assert_int_equal(mbx_match_post(&m, &recvs[i], &msg), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mbx_match_arrive(&m, &msgs[i], &recv), 0);
        assert_ptr_equal(recv, &recvs[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mbx_match_arrive(&m, &msgs[i], &recv), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mbx_match_post(&m, &recvs[i], &msg), 0);
        assert_ptr_equal(msg, &msgs[i]);
    }
    assert_int_equal(mbx_match_memory(&m), 0);
    mbx_match_fini(&m);
}

/* The guarantee of match.h: walked queues never allocate memory. */
static void short_queues_allocate_nothing(UNUSED void **state)
{
    struct mbx_match_recv recvs[16] = {0};
    struct mbx_match_msg msgs[16] = {0}, *msg;
    struct mbx_match_recv *recv;
    struct mbx_match m;

    mbx_match_init(&m, NULL);
    for (uint32_t i = 0; i < 16; i++) {
        recvs[i].envelope = (struct mbx_match_envelope){1, i, 5};
        msgs[i].envelope = (struct mbx_match_envelope){2, i, 5};
        assert_int_equal(mbx_match_post(&m, &recvs[i], &msg), 0);
        assert_int_equal(mbx_match_arrive(&m, &msgs[i], &recv), 0);
    }
    for (uint32_t i = 16; i-- > 0;) {
        struct mbx_match_envelope mine = {1, i, 5}, other = {2, i, 5};

        assert_ptr_equal(mbx_match_peek(&m, &other, ANY_TAG), &msgs[i]);
        assert_ptr_equal(mbx_match_find(&m, &mine), &recvs[i]);
    }
    assert_int_equal(mbx_match_memory(&m), 0);
    mbx_match_fini(&m);
}

/* Entries leave tables in each way, and are used again. */
static void entries_of_tables_are_used_again(UNUSED void **state)
{
    struct bench b = {0};

    mbx_match_init(&b.m, &(struct mbx_match_options){.short_max = 1});
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 6; i++)
            assert_int_equal(bench_post(&b, i, 2, (uint64_t)i, 0), -1);
        assert_int_equal(bench_arrive(&b, 0, 2, 3), 3); /* found in a table */
        assert_int_equal(bench_arrive(&b, 0, 2, 0), 0); /* the oldest, in a table */
        assert_true(mbx_match_cancel(&b.m, &b.r[4]));
        assert_int_equal(bench_post(&b, 0, 2, 7, 0), -1);
        assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
        for (int i = 1; i < 6; i++)
            mbx_match_cancel(&b.m, &b.r[i]);
        for (int i = 0; i < 6; i++)
            assert_int_equal(bench_arrive(&b, i, 2, (uint64_t)i), -1);
        assert_int_equal(bench_post(&b, 0, 2, 3, 0), 3);
        assert_int_equal(bench_post(&b, 0, 2, 0, 0), 0);
        assert_true(mbx_match_extract(&b.m, &b.g[4]));
        assert_int_equal(bench_arrive(&b, 0, 2, 7), -1);
        assert_int_equal(bench_post(&b, 0, 2, 7, 0), 0);
        for (int i = 1; i < 6; i++)
            mbx_match_extract(&b.m, &b.g[i]);
    }
    mbx_match_fini(&b.m);
}

/* Posts one of four kinds of receives, each with its own class.  `kind` determines the source
 * and tag of a receive and of the messages for it. */
static int post_kind(struct bench *b, int i, int kind)
{
    return bench_post(b, i, (kind & 1) != 0 ? MBX_MATCH_ANY_SOURCE : 20 + (uint32_t)kind,
                      1 + (uint64_t)kind, (kind & 2) != 0 ? UINT64_C(1) << 40 : 0);
}

static int arrive_kind(struct bench *b, int i, int kind)
{
    return bench_arrive(b, i, 20 + (uint32_t)kind, 1 + (uint64_t)kind);
}

/* For every set of kinds: a queue grows until it is no longer walked, is searched from its end,
 * shrinks until it is walked, and to nothing, and begins again. */
static void queues_grow_and_shrink_in_every_mix_of_classes(UNUSED void **state)
{
    for (int mix = 1; mix < 16; mix++) {
        struct bench b = {0};

        mbx_match_init(&b.m, &(struct mbx_match_options){.short_max = 3});
        for (int round = 0; round < 3; round++) {
            int kinds[9], count = 0;

            for (int i = 0; count < 8; i++)
                if ((mix >> i % 4 & 1) != 0)
                    kinds[count++] = i % 4;
            for (int i = 0; i < 8; i++)
                assert_int_equal(post_kind(&b, i, kinds[i]), -1);
            for (int i = 7; i >= 0; i--) {
                int first = 0; /* the oldest receive of this kind that waits */

                while (kinds[first] != kinds[i] || b.r[first].state == MBX_MATCH_IDLE)
                    first++;
                assert_int_equal(arrive_kind(&b, 8, kinds[i]), first);
            }
            for (int i = 0; i < 8; i++)
                assert_int_equal(arrive_kind(&b, i, kinds[i]), -1);
            for (int i = 7; i >= 0; i--) {
                int first = 0;

                while (kinds[first] != kinds[i] || b.g[first].state == MBX_MATCH_IDLE)
                    first++;
                assert_int_equal(post_kind(&b, 8, kinds[i]), first);
            }
            assert_null(mbx_match_next_recv(&b.m, NULL));
            assert_null(mbx_match_next_msg(&b.m, NULL));
        }
        mbx_match_fini(&b.m);
    }
}

/* With one class in use there is one table: its messages have no nodes, whichever class it
 * is. */
static void the_class_in_use_is_the_primary_one(UNUSED void **state)
{
    struct bench b = {0};

    mbx_match_init(&b.m, &(struct mbx_match_options){.short_max = 1});
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(
                bench_arrive(&b, i, 20 + (uint32_t)kind, i < 3 ? 9 : 1 + (uint64_t)kind), -1);
        assert_int_equal(post_kind(&b, 0, kind), 3);
        assert_int_equal(b.m.deep->class_count, kind + 1);
        assert_int_equal(b.m.deep->node_capacity, 0);
        for (int i = 0; i < 3; i++)
            assert_true(mbx_match_extract(&b.m, &b.g[i]));
    }
    mbx_match_fini(&b.m);
}

/* All receives are of one class, and only that class is searched, but some did not fit into its
 * table. */
static void a_receive_that_found_no_space_in_its_table_is_met(UNUSED void **state)
{
    enum { COUNT = 1000 };
    static struct mbx_match_recv recvs[COUNT];
    struct mbx_match_msg msgs[2] = {{.envelope = {1, 2, 1}}, {.envelope = {1, 2, COUNT - 1}}};
    struct mbx_match_msg *msg;
    struct mbx_match_recv *recv;
    struct mbx_match m;

    memset(recvs, 0, sizeof recvs);
    mbx_match_init(&m, &(struct mbx_match_options){.short_max = 1});
    for (uint64_t i = 0; i < COUNT; i++) {
        recvs[i].envelope = (struct mbx_match_envelope){1, 2, i};
        assert_int_equal(mbx_match_post(&m, &recvs[i], &msg), 0);
        if (i == 2) { /* makes the table */
            assert_int_equal(mbx_match_arrive(&m, &msgs[0], &recv), 0);
            assert_ptr_equal(recv, &recvs[1]);
        }
    }
    mem_fail_at(1); /* it cannot grow */
    assert_int_equal(mbx_match_arrive(&m, &msgs[1], &recv), 0);
    mem_fail_at(0);
    assert_ptr_equal(recv, &recvs[COUNT - 1]);
    assert_int_equal(recvs[COUNT - 2].at, 0);
    assert_true(mbx_match_is_valid(&m));
    mbx_match_fini(&m);
}

/* The tables are searched first.  Receives that they lack are walked if they are few, and go
 * into the tables after a walk without a match or a long one, or if they are many. */
static void receives_come_into_tables_late(UNUSED void **state)
{
    enum { COUNT = 100 };
    static struct mbx_match_recv r[COUNT];
    struct mbx_match_envelope e = {1, 2, 50};
    struct mbx_match_msg *msg;
    struct mbx_match m;

    memset(r, 0, sizeof r);
    mbx_match_init(&m, NULL);
    for (uint64_t i = 0; i < COUNT; i++) {
        r[i].envelope = (struct mbx_match_envelope){1, 2, i};
        if (i < COUNT - 20)
            assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    }
    assert_ptr_equal(mbx_match_find(&m, &e), &r[50]); /* there were too many to walk */
    assert_int_not_equal(r[79].at, 0);
    for (int i = 80; i < 96; i++)
        assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    e.tag = 51;
    assert_ptr_equal(mbx_match_find(&m, &e), &r[51]); /* in a table */
    e.tag = 82;
    assert_ptr_equal(mbx_match_find(&m, &e), &r[82]); /* a short walk */
    for (int i = 80; i < 96; i++)
        assert_int_equal(r[i].at, 0);
    e.tag = 1000;
    assert_null(mbx_match_find(&m, &e)); /* walked without a match */
    for (int i = 80; i < 96; i++)
        assert_int_equal(r[i].at != 0, i != 82);
    for (int i = 96; i < COUNT; i++)
        assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    for (int i = 52; i < 65; i++) { /* seventeen are too many to walk */
        e.tag = (uint64_t)i;
        assert_ptr_equal(mbx_match_find(&m, &e), &r[i]);
        assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    }
    e.tag = COUNT - 1;
    assert_ptr_equal(mbx_match_find(&m, &e), &r[COUNT - 1]);
    assert_int_not_equal(r[64].at, 0);
    for (int i = 0; i < 6; i++) {
        e.tag = (uint64_t)i;
        assert_ptr_equal(mbx_match_find(&m, &e), &r[i]);
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    assert_ptr_equal(mbx_match_find(&m, &e), &r[5]); /* a longer walk */
    for (int i = 0; i < 5; i++)
        assert_int_not_equal(r[i].at, 0);
    assert_true(mbx_match_is_valid(&m));
    mbx_match_fini(&m);
}

static void messages_are_indexed_late(UNUSED void **state)
{
    enum { COUNT = 102 };
    static struct mbx_match_msg g[COUNT];
    struct mbx_match_envelope e = {1, 2, 50};
    struct mbx_match_recv *recv;
    struct mbx_match m;

    memset(g, 0, sizeof g);
    mbx_match_init(&m, NULL);
    for (uint64_t i = 0; i < COUNT; i++) {
        g[i].envelope = (struct mbx_match_envelope){1, 2, i};
        if (i < 80)
            assert_int_equal(mbx_match_arrive(&m, &g[i], &recv), 0);
    }
    assert_ptr_equal(mbx_match_peek(&m, &e, 0), &g[50]);
    assert_int_not_equal(g[79].at, 0);
    for (int i = 80; i < 96; i++)
        assert_int_equal(mbx_match_arrive(&m, &g[i], &recv), 0);
    e.tag = 51;
    assert_ptr_equal(mbx_match_peek(&m, &e, 0), &g[51]);
    e.tag = 83;
    assert_ptr_equal(mbx_match_peek(&m, &e, 0), &g[83]);
    for (int i = 80; i < 96; i++)
        assert_int_equal(g[i].at, 0);
    e.tag = 1000;
    assert_null(mbx_match_peek(&m, &e, 0));
    for (int i = 80; i < 96; i++)
        assert_int_not_equal(g[i].at, 0);
    for (int i = 96; i < COUNT; i++)
        assert_int_equal(mbx_match_arrive(&m, &g[i], &recv), 0);
    e.tag = COUNT - 1;
    assert_ptr_equal(mbx_match_peek(&m, &e, 0), &g[COUNT - 1]);
    for (int i = 96; i < COUNT; i++)
        assert_int_not_equal(g[i].at, 0);
    assert_true(mbx_match_is_valid(&m));
    mbx_match_fini(&m);
}

/* All receives hash to two buckets, with two prints, and most pass these because they are
 * full.  When these buckets have emptied, the others are still found, and a new receive with
 * the same envelope comes after them. */
static void a_receive_that_passed_a_full_bucket_is_not_forgotten(UNUSED void **state)
{
    enum { COUNT = 40, GONE = 30 };
    struct mbx_match_recv r[COUNT] = {0}, again[COUNT] = {0};
    struct mbx_match_msg *msg;
    struct mbx_match m;

    mbx_match_init(&m, &(struct mbx_match_options){.short_max = 1, .hash_bits = 1});
    for (uint64_t i = 0; i < COUNT; i++) {
        r[i].envelope = again[i].envelope = (struct mbx_match_envelope){1, 2, i};
        assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
    }
    for (int i = 1; i < GONE; i++)
        assert_ptr_equal(mbx_match_find(&m, &r[i].envelope), &r[i]);
    for (int i = GONE; i < COUNT; i++)
        assert_int_equal(mbx_match_post(&m, &again[i], &msg), 0);
    assert_null(mbx_match_find(&m, &(struct mbx_match_envelope){1, 2, COUNT})); /* puts them
                                                                                   into
                                                                                   tables */
    assert_int_not_equal(again[COUNT - 1].at, 0);
    for (int i = GONE; i < COUNT; i++)
        assert_ptr_equal(mbx_match_find(&m, &r[i].envelope), &r[i]);
    for (int i = GONE; i < COUNT; i++)
        assert_ptr_equal(mbx_match_find(&m, &r[i].envelope), &again[i]);
    assert_true(mbx_match_is_valid(&m));
    mbx_match_fini(&m);
}

/* Receives that go into a table at once, each with its own envelope, use at most 37 bytes of it
 * each. */
static void tables_are_no_larger_than_they_have_to_be(UNUSED void **state)
{
    static const uint32_t counts[] = {57, 112, 113, 1000, 1793, 4000};
    static struct mbx_match_recv r[4000];
    struct mbx_match_envelope e = {1, 2, 1};
    struct mbx_match_msg *msg;
    struct mbx_match m;

    for (size_t k = 0; k < ARRAY_COUNT(counts); k++) {
        memset(r, 0, sizeof r);
        mbx_match_init(&m, NULL);
        for (uint64_t i = 0; i < counts[k]; i++) {
            r[i].envelope = (struct mbx_match_envelope){1, 2, i};
            assert_int_equal(mbx_match_post(&m, &r[i], &msg), 0);
        }
        assert_ptr_equal(mbx_match_find(&m, &e), &r[1]);
        assert_in_range(mbx_match_memory(&m) - sizeof *m.deep, 18 * counts[k], 37 * counts[k]);
        mbx_match_fini(&m);
    }
}

/* ---- a probe, and the receive that follows it --------------------------------- */

#define ANY MBX_MATCH_ANY_SOURCE

static struct mbx_match_msg *probe(struct bench *b, uint32_t source, uint64_t tag,
                                   uint64_t ignore)
{
    return mbx_match_peek(&b->m, &(struct mbx_match_envelope){1, source, tag}, ignore);
}

static uint64_t steps_of(const struct bench *b)
{
    struct mbx_match_counters count;

    mbx_match_counters_get(&b->m, &count);
    return count.search_steps;
}

/* Six messages: from source 2 with tags 0 to 3, and from source 3 with tags 3 and 4. */
static void six_messages(struct bench *b)
{
    bench_init(b, 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(bench_arrive(b, i, i < 4 ? 2 : 3, (uint64_t)(i < 4 ? i : i - 1)), -1);
}

static void what_a_probe_has_found_is_not_searched_again(UNUSED void **state)
{
    struct bench b;
    uint64_t steps;

    six_messages(&b);
    assert_ptr_equal(probe(&b, 3, 0, ANY_TAG), &b.g[4]);
    steps = steps_of(&b);
    assert_int_equal(bench_post(&b, 0, 3, 3, 0), 4); /* specifies fields that the probe left
                                                        open */
    assert_int_equal(steps_of(&b), steps + 1);
    assert_ptr_equal(probe(&b, ANY, 4, 0), &b.g[5]);
    assert_int_equal(bench_post(&b, 0, ANY, 4, 0), 5); /* the same arguments */
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

/* The remembered message is the oldest that the probe accepts, not the oldest that the receive
 * accepts. */
static void a_probe_says_nothing_about_receives_that_accept_more(UNUSED void **state)
{
    struct bench b;

    six_messages(&b);
    assert_ptr_equal(probe(&b, 3, 3, 0), &b.g[4]);
    assert_int_equal(bench_post(&b, 0, ANY, 3, 0), 3); /* from any source it is another
                                                          message */
    assert_ptr_equal(probe(&b, 3, 3, 0), &b.g[4]);
    assert_int_equal(bench_post(&b, 0, 3, 4, ANY_TAG & ~UINT64_C(4)),
                     5); /* does not accept it */
    mbx_match_fini(&b.m);
    six_messages(&b);
    assert_ptr_equal(probe(&b, 2, 3, 0), &b.g[3]);
    assert_int_equal(bench_post(&b, 0, 2, 3, 1),
                     2); /* with an ignored bit it is another message */
    mbx_match_fini(&b.m);
}

static void a_probe_is_forgotten_when_a_message_leaves(UNUSED void **state)
{
    struct bench b;

    six_messages(&b);
    assert_ptr_equal(probe(&b, 3, 3, 0), &b.g[4]);
    assert_true(mbx_match_extract(&b.m, &b.g[4]));
    assert_int_equal(bench_arrive(&b, 4, 3, 4), -1); /* the same memory, another message */
    assert_int_equal(bench_post(&b, 0, 3, 3, 0), -1);
    assert_ptr_equal(probe(&b, 3, 4, 0), &b.g[5]);
    assert_int_equal(bench_post(&b, 1, 3, 4, 0), 5);
    assert_int_equal(bench_post(&b, 2, 3, 4, 0), 4);
    assert_true(mbx_match_cancel(&b.m, &b.r[0]));
    mbx_match_fini(&b.m);
}

/* The result of a probe stays valid when messages arrive, and when receives are posted and
 * cancelled. */
static void a_probe_is_remembered_while_messages_arrive(UNUSED void **state)
{
    struct bench b;
    uint64_t steps;

    six_messages(&b);
    assert_ptr_equal(probe(&b, 3, 3, 0), &b.g[4]);
    assert_int_equal(bench_arrive(&b, 6, 3, 3), -1);
    assert_int_equal(bench_post(&b, 1, 7, 7, 0), -1);
    assert_int_equal(bench_arrive(&b, 7, 7, 7), 1);
    assert_int_equal(bench_post(&b, 2, 8, 8, 0), -1);
    assert_true(mbx_match_cancel(&b.m, &b.r[2]));
    steps = steps_of(&b);
    assert_int_equal(bench_post(&b, 0, 3, 3, 0), 4);
    assert_int_equal(steps_of(&b), steps + 1);
    assert_null(probe(&b, 9, 9, 0)); /* an unsuccessful probe is not remembered */
    assert_int_equal(bench_post(&b, 0, 9, 9, 0), -1);
    mbx_match_fini(&b.m);
}

/* A find without a match and the keep after it count as one search, like an arrival. */
static void kept_messages_are_searched_for_once(UNUSED void **state)
{
    struct mbx_match_counters count;
    struct bench b;

    bench_init(&b, 0);
    b.g[0].envelope = (struct mbx_match_envelope){.context_id = 1, .source = 2, .tag = 3};
    assert_null(mbx_match_find(&b.m, &b.g[0].envelope));
    assert_int_equal(mbx_match_keep(&b.m, &b.g[0]), 0);
    mbx_match_counters_get(&b.m, &count);
    assert_int_equal(count.arrived, 1);
    assert_int_equal(count.searches, 1);
    bench_arrive(&b, 1, 2, 4);
    assert_null(mbx_match_find(&b.m, &b.g[0].envelope));
    mbx_match_counters_get(&b.m, &count);
    assert_int_equal(count.arrived, 2);
    assert_int_equal(count.searches, 3);
    mbx_match_fini(&b.m);
}

/* In short queues all entries up to the match are compared. */
static void searches_are_counted_entry_by_entry(UNUSED void **state)
{
    struct mbx_match_envelope absent = {.context_id = 1, .source = 9, .tag = 9};
    struct mbx_match_counters counters, *count = &counters;
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 0, 0); /* nothing to compare with */
    bench_post(&b, 1, 2, 1, 0);
    bench_post(&b, 2, 2, 2, 0);
    mbx_match_counters_get(&b.m, count);
    assert_int_equal(count->searches, 3);
    assert_int_equal(count->search_steps, 0);
    bench_arrive(&b, 0, 2, 1);
    mbx_match_counters_get(&b.m, count);
    assert_int_equal(count->search_steps, 2);
    mbx_match_find(&b.m, &absent);
    mbx_match_peek(&b.m, &absent, 0);
    mbx_match_counters_get(&b.m, count);
    assert_int_equal(count->search_steps, 4);
    assert_int_equal(count->search_max, 2);
    bench_arrive(&b, 1, 2, 9);
    bench_arrive(&b, 2, 2, 9);
    mbx_match_peek(&b.m, &absent, 0);
    mbx_match_counters_get(&b.m, count);
    assert_int_equal(count->searches, 9);
    assert_int_equal(count->search_steps, 10);
    mbx_match_cancel(&b.m, &b.r[0]);
    mbx_match_extract(&b.m, &b.g[2]);
    mbx_match_counters_get(&b.m, count);
    assert_int_equal(count->searches, 9);
    assert_int_equal(count->search_max, 2);
    mbx_match_fini(&b.m);
}

/* Counters that are derived from ages are correct when the ages wrap, and in an engine that did
 * little. */
static void counters_of_the_least_are_right(UNUSED void **state)
{
    struct mbx_match_counters count;
    struct bench b;

    bench_init(&b, UINT64_MAX);
    mbx_match_counters_get(&b.m, &count);
    assert_int_equal(count.posted + count.arrived + count.searches + count.search_steps, 0);
    assert_int_equal(count.search_max + count.recvs_max + count.msgs_max, 0);
    bench_post(&b, 0, 2, 7, 0);
    bench_arrive(&b, 0, 2, 7);
    mbx_match_counters_get(&b.m, &count);
    assert_int_equal(count.posted, 1);
    assert_int_equal(count.met_arrivals, 1);
    assert_int_equal(count.searches, 2);
    assert_int_equal(count.search_steps, 1);
    assert_int_equal(count.search_max, 1);
    assert_int_equal(count.recvs_max, 1);
    assert_int_equal(count.msgs_max, 0);
    mbx_match_fini(&b.m);
}

/* The exit status of a child in which the count of either queue is one too high, and which
 * searches for the envelope that the head would have if it were an entry: its next age and
 * full_at are at that place. */
static int walk_past_the_end(bool is_of_msgs)
{
    int status = 0;
    pid_t pid = fork();
    struct bench b;

    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); /* instead of cmocka's handler */
        fclose(stderr);
        bench_init(&b, 0);
        for (int i = 0; i < 2; i++)
            is_of_msgs ? bench_arrive(&b, i, 3, 7) : bench_post(&b, i, 3, 7, 0);
        (is_of_msgs ? &b.m.msgs : &b.m.recvs)->next++;
        b.g[2].envelope = b.r[2].envelope = (struct mbx_match_envelope){3, 0, 2};
        if (is_of_msgs)
            mbx_match_post(&b.m, &b.r[2], &(struct mbx_match_msg *){NULL});
        else
            mbx_match_arrive(&b.m, &b.g[2], &(struct mbx_match_recv *){NULL});
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* A walk with a wrong count never returns the head of the list. */
static void the_head_is_never_found(UNUSED void **state)
{
    for (int i = 0; i < 2; i++) {
        int status = walk_past_the_end(i != 0);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

/* mbx_match_is_valid() is useful only if it detects each invariant that it names. */
static void broken_invariants_are_seen(UNUSED void **state)
{
    struct bench b;
    struct mbx_match good;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 0, 0);
    bench_post(&b, 1, 2, 1, 0);
    bench_arrive(&b, 0, 3, 0);
    bench_arrive(&b, 1, 3, 1);
    good = b.m;

    b.r[1].seq = b.r[0].seq; /* I1 */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[1].seq = b.m.recvs.next;
    assert_false(mbx_match_is_valid(&b.m));
    b.r[1].seq = 1;
    b.g[0].seq = b.g[1].seq + 1;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[0].seq = 0;
    b.g[1].envelope.source = 2; /* I2 */
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].envelope.source = 3;
    b.m.count.extracted++; /* I3 */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.m.count.cancelled++;
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.r[0].state = MBX_MATCH_IDLE; /* I4 */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[0].state = MBX_MATCH_QUEUED;
    b.g[1].state = MBX_MATCH_IDLE;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].state = MBX_MATCH_QUEUED;
    b.m.recvs.full_at++; /* match.c I5 */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.m.msgs.all.prev = &b.g[0].link; /* I6 */
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    b.m.probed = (struct mbx_match_probed){&b.g[1], 0, ANY_TAG, false}; /* I7: g[0] is older */
    assert_false(mbx_match_is_valid(&b.m));
    b.m.probed = (struct mbx_match_probed){&b.g[2], 0, 0, false};
    assert_false(mbx_match_is_valid(&b.m));
    b.m = good;
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

/* As above, with queues that use tables from the second entry on. */
static void broken_tables_are_seen(UNUSED void **state)
{
    struct mbx_match_options options = {.short_max = 1, .classes = 2};
    struct mbx_match_envelope absent = {1, 4, 5}, absent_any = {1, MBX_MATCH_ANY_SOURCE, 6};
    struct mbx_match_deep good;
    struct bench b;

    b = (struct bench){0};
    mbx_match_init(&b.m, &options);
    for (int i = 0; i < 3; i++)
        bench_post(&b, i, 2, 0, 0);
    bench_post(&b, 3, 2, 0, 1);
    bench_post(&b, 4, MBX_MATCH_ANY_SOURCE, 9, 0); /* no class is left */
    for (int i = 0; i < 3; i++)
        bench_arrive(&b, i, 3, 5);
    assert_null(mbx_match_peek(&b.m, &absent, 0));
    assert_null(mbx_match_peek(&b.m, &absent, 1));
    assert_null(mbx_match_peek(&b.m, &absent_any, 0));
    assert_true(mbx_match_is_valid(&b.m));
    assert_int_equal(b.g[1].at, IN_PRIMARY | 2);
    good = *b.m.deep;

    b.m.deep->busy ^= 1;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].indexed = b.g[2].seq; /* in the index, yet not older than `indexed` */
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[1].indexed = b.g[2].seq;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].posted.used--;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].posted.used++;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[0].mask.tag = 0;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.m.deep->classes[1].index.used--;
    assert_false(mbx_match_is_valid(&b.m));
    *b.m.deep = good;
    b.g[1].at = 2; /* a message without its bit for an index */
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].at = IN_PRIMARY;
    assert_false(mbx_match_is_valid(&b.m));
    b.g[1].at = IN_PRIMARY | 2;
    b.r[1].at = 0; /* a receive in no table that is older than others in one */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[1].at = 1;
    b.r[4].at = 1; /* a receive on overflow with a number of a class */
    assert_false(mbx_match_is_valid(&b.m));
    b.r[4].at = CLASS_NONE + 1;
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

/* ---- main ------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_holds_when_the_oldest_goes_and_another_comes),
        cmocka_unit_test(what_goes_in_its_order_needs_no_table),
        cmocka_unit_test(short_queues_allocate_nothing),
        cmocka_unit_test(entries_of_tables_are_used_again),
        cmocka_unit_test(queues_grow_and_shrink_in_every_mix_of_classes),
        cmocka_unit_test(the_class_in_use_is_the_primary_one),
        cmocka_unit_test(a_receive_that_found_no_space_in_its_table_is_met),
        cmocka_unit_test(receives_come_into_tables_late),
        cmocka_unit_test(messages_are_indexed_late),
        cmocka_unit_test(a_receive_that_passed_a_full_bucket_is_not_forgotten),
        cmocka_unit_test(tables_are_no_larger_than_they_have_to_be),
        cmocka_unit_test(what_a_probe_has_found_is_not_searched_again),
        cmocka_unit_test(a_probe_says_nothing_about_receives_that_accept_more),
        cmocka_unit_test(a_probe_is_forgotten_when_a_message_leaves),
        cmocka_unit_test(a_probe_is_remembered_while_messages_arrive),
        cmocka_unit_test(kept_messages_are_searched_for_once),
        cmocka_unit_test(searches_are_counted_entry_by_entry),
        cmocka_unit_test(counters_of_the_least_are_right),
        cmocka_unit_test(the_head_is_never_found),
        cmocka_unit_test(broken_invariants_are_seen),
        cmocka_unit_test(broken_tables_are_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
