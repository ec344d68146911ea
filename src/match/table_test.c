/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table_test.c - do the groups of a table spread, whatever the envelopes and the seed?
 *
 * Programs number their tags, shift numbers to the top, and put one into each half.  A table
 * whose groups crowd is right and slow, so no other test sees it; here the longest run of
 * full buckets is measured, which is as far as a search can have to go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "match/deep.h"

#define SEEDS    300
#define ENTRIES  2000
#define RUN_MOST 48 /* random prints: about 20 at worst */

/* ---- envelopes of many kinds ------------------------------------------------- */

static struct mbx_match_envelope counted(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, i};
}

static struct mbx_match_envelope counted_at_the_top(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, (uint64_t)i << 44};
}

static struct mbx_match_envelope counted_in_the_middle(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, (uint64_t)i << 24 | 5};
}

static struct mbx_match_envelope counted_backwards_in_bytes(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, __builtin_bswap64(i)};
}

static struct mbx_match_envelope counted_in_every_third_bit(uint32_t i)
{
    uint64_t tag = 0;

    for (uint32_t bit = 0; bit < 21; bit++)
        tag |= (uint64_t)(i >> bit & 1) << (63 - 3 * bit);
    return (struct mbx_match_envelope){1, 3, tag};
}

static struct mbx_match_envelope counted_in_both_halves(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, (uint64_t)i << 32 | i};
}

static struct mbx_match_envelope counted_down_at_the_top(uint32_t i)
{
    return (struct mbx_match_envelope){1, 3, ~(uint64_t)i << 48};
}

static struct mbx_match_envelope one_of_each_source(uint32_t i)
{
    return (struct mbx_match_envelope){1, i, 7};
}

static struct mbx_match_envelope one_of_each_context(uint32_t i)
{
    return (struct mbx_match_envelope){i, 3, 7};
}

static const struct {
    const char *name;
    struct mbx_match_envelope (*make)(uint32_t i);
} kinds[] = {
    {"counted", counted},
    {"counted at the top", counted_at_the_top},
    {"counted in the middle", counted_in_the_middle},
    {"counted backwards in bytes", counted_backwards_in_bytes},
    {"counted in every third bit", counted_in_every_third_bit},
    {"counted in both halves", counted_in_both_halves},
    {"counted down at the top", counted_down_at_the_top},
    {"one of each source", one_of_each_source},
    {"one of each context", one_of_each_context},
};

/* ---- how they spread --------------------------------------------------------- */

static bool is_full(const struct bucket *bucket)
{
    return bucket_find(bucket, 0) == 0;
}

/* Over the end, too. */
static uint32_t longest_run(const struct table *t)
{
    uint32_t run = 0, longest = 0;

    for (uint32_t i = 0; i < 2 * t->size && longest < t->size; i++) {
        run = is_full(&t->buckets[i % t->size]) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* The longest run of the table of ENTRIES receives. */
static uint32_t crowd(uint64_t seed, struct mbx_match_envelope (*make)(uint32_t i))
{
    static struct mbx_match_recv recvs[ENTRIES];
    struct mbx_match_msg *met;
    struct mbx_match m;
    uint32_t run;

    mbx_match_init(&m, &(struct mbx_match_options){.seed = seed});
    for (uint32_t i = 0; i < ENTRIES; i++) {
        recvs[i] = (struct mbx_match_recv){.envelope = make(i)};
        assert_int_equal(mbx_match_post(&m, &recvs[i], &met), 0);
    }
    assert_int_equal(m.deep->class_count, 1);
    assert_int_equal(m.deep->classes[0].posted.heads, ENTRIES);
    run = longest_run(&m.deep->classes[0].posted);
    mbx_match_fini(&m);
    return run;
}

static void no_kind_of_envelopes_crowds_a_table(void **state)
{
    struct random r;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random_seed(&r, seed);
        for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
            uint32_t run = crowd(random_next(&r), kinds[i].make);

            if (run > RUN_MOST)
                fail_msg("seed %llu, %s: %u full buckets in a row", (unsigned long long)seed,
                         kinds[i].name, run);
        }
    }
}

/* ---- the table alone --------------------------------------------------------- */

static void groups_are_found_again_however_often_the_table_grows(void **state)
{
    struct table t = {.size = 0};
    struct random r;

    (void)state;
    for (uintptr_t i = 1; i <= 5000; i++) {
        random_seed(&r, i);
        assert_int_equal(table_reserve(&t, 1), 0);
        table_set_head(&t, table_group(&t, random_next(&r) | 1), i);
        if ((i & (i - 1)) == 0)
            assert_true(table_is_valid(&t));
    }
    for (uintptr_t i = 1; i <= 5000; i++) {
        random_seed(&r, i);
        assert_int_equal(table_head(&t, random_next(&r) | 1), i);
    }
    assert_int_equal(table_head(&t, 2), 0);
    table_clear(&t);
}

/* Keys that are used once must not make a table grow that holds few at a time. */
static void places_of_empty_groups_are_used_again(void **state)
{
    struct table t = {.size = 0};
    struct random r;
    uint32_t most = 0;

    (void)state;
    random_seed(&r, 1);
    for (int i = 0; i < 100000; i++) {
        struct group group;

        assert_int_equal(table_reserve(&t, 1), 0);
        group = table_group(&t, random_next(&r) | 1);
        table_set_head(&t, group, 1);
        table_set_head(&t, group, 0);
        most = t.size > most ? t.size : most;
    }
    assert_true(table_is_valid(&t));
    assert_int_equal(t.heads, 0);
    assert_int_equal(most, 16);
    table_clear(&t);
}

static void a_table_that_cannot_grow_stays_as_it_was(void **state)
{
    struct table t = {.size = 0};
    uint64_t print = 1;

    (void)state;
    while (table_has_room(&t, 1) || t.size == 0) {
        assert_int_equal(table_reserve(&t, 1), 0);
        table_set_head(&t, table_group(&t, print), print);
        print++;
    }
    mem_fail_at(1);
    assert_int_not_equal(table_reserve(&t, 1), 0);
    mem_fail_at(0);
    assert_true(table_is_valid(&t));
    for (uint64_t known = 1; known < print; known++)
        assert_int_equal(table_head(&t, known), known);
    assert_int_equal(table_reserve(&t, 1), 0);
    table_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kind_of_envelopes_crowds_a_table),
        cmocka_unit_test(groups_are_found_again_however_often_the_table_grows),
        cmocka_unit_test(places_of_empty_groups_are_used_again),
        cmocka_unit_test(a_table_that_cannot_grow_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
