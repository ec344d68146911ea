/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table_test.c - the groups of a table spread evenly, for all envelopes and seeds.
 *
 * Programs use consecutive tags, shift numbers to the top, and put one into each half.  A table
 * with clusters is correct and slow, so no other test detects it; this test measures the
 * longest run of full buckets, which bounds the length of a search.
 */
#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/unit.h"
#include "match/deep.h"

#define SEEDS    300
#define ENTRIES  2000
#define RUN_MOST 48 /* random prints: about 20 at most */

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
    return bucket_free(bucket) == 0;
}

/* Runs may cross the end. */
static uint32_t longest_run(const struct table *t)
{
    uint32_t run = 0, longest = 0;

    for (uint32_t i = 0; i < 2 * table_size(t) && longest < table_size(t); i++) {
        run = is_full(&t->buckets[i % table_size(t)]) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* The longest run in the table of ENTRIES receives. */
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
    assert_null(mbx_match_find(&m, &(struct mbx_match_envelope){UINT32_MAX, 0, 0}));
    assert_int_equal(m.deep->class_count, 1);
    assert_int_equal(m.deep->classes[0].posted.used, ENTRIES);
    run = longest_run(&m.deep->classes[0].posted);
    mbx_match_fini(&m);
    return run;
}

static void no_kind_of_envelopes_crowds_a_table(UNUSED void **state)
{
    struct random r;

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

/* A head is a number, and its hash is computed from it. */
static uint64_t hash_of(const void *arg, uintptr_t head)
{
    const uint64_t *mask = arg;
    struct random r;

    random_seed(&r, head);
    return random_next(&r) & *mask;
}

static bool is_head(const void *wanted, uintptr_t head)
{
    return *(const uintptr_t *)wanted == head;
}

/* Checks that a glance finds the same group, or none; and that has_none is right. */
static struct group find(const struct table *t, uint64_t mask, uintptr_t head)
{
    bool has_none;
    struct group group = table_find(t, hash_of(&mask, head), is_head, &head);
    struct group glance = table_glance(t, hash_of(&mask, head), is_head, &head, &has_none);

    if (glance.bucket != NULL) {
        assert_ptr_equal(glance.bucket, group.bucket);
        assert_int_equal(glance.lane, group.lane);
    }
    if (has_none)
        assert_null(group.bucket);
    return group;
}

/* Uses the short path, where possible, if head is odd. */
static void add(struct table *t, uint64_t mask, uintptr_t head)
{
    struct group group;

    assert_true(table_has_space(t) || table_grow(t, 0, hash_of, &mask));
    group = find(t, mask, head);
    assert_null(group.bucket);
    if (head % 2 == 0 || !table_put(t, hash_of(&mask, head), head))
        table_add(t, group, head);
}

/* table_put() refuses a group that is there, whatever other prints are there. */
static void what_is_in_a_table_is_not_put_there(UNUSED void **state)
{
    uint64_t masks[] = {UINT64_MAX, UINT64_MAX >> 8, UINT64_C(3) << 62};
    struct table t;

    for (size_t k = 0; k < ARRAY_COUNT(masks); k++) {
        table_init(&t);
        for (uintptr_t i = 1; i <= 50; i++)
            add(&t, masks[k], i);
        for (uintptr_t i = 1; i <= 50; i++)
            assert_false(table_put(&t, hash_of(&masks[k], i), i));
        assert_int_equal(t.used, 50);
        assert_true(table_is_valid(&t, hash_of, &masks[k]));
        table_clear(&t);
    }
}

/* A table grows to twice its groups; or for all further ones, up to a multiple of its
 * groups. */
static void a_table_grows_for_those_that_come(UNUSED void **state)
{
    static const struct {
        uint64_t further;
        uint32_t size; /* the buckets after growth; before, they were 16 with 56 groups */
    } cases[] = {{0, 32},     {1, 32},     {56, 32},      {57, 64},
                 {1000, 512}, {1736, 512}, {1000000, 512}};
    uint64_t mask = UINT64_MAX;
    struct table t;

    for (size_t k = 0; k < ARRAY_COUNT(cases); k++) {
        table_init(&t);
        for (uintptr_t i = 1; i <= 56; i++)
            add(&t, mask, i);
        assert_int_equal(table_size(&t), 16);
        assert_false(table_has_space(&t));
        assert_true(table_grow(&t, cases[k].further, hash_of, &mask));
        assert_int_equal(table_size(&t), cases[k].size);
        assert_true(table_is_valid(&t, hash_of, &mask));
        table_clear(&t);
    }
}

static void remove_head(struct table *t, uint64_t mask, uintptr_t head)
{
    struct group group = find(t, mask, head);

    assert_non_null(group.bucket);
    assert_int_equal(group_head(group), head);
    table_remove(t, group);
}

static void groups_are_found_again_however_often_the_table_grows(UNUSED void **state)
{
    struct table t;
    uint64_t mask = UINT64_MAX;

    table_init(&t);
    assert_null(find(&t, mask, 1).bucket);
    for (uintptr_t i = 1; i <= 5000; i++) {
        add(&t, mask, i);
        if ((i & (i - 1)) == 0)
            assert_true(table_is_valid(&t, hash_of, &mask));
    }
    for (uintptr_t i = 1; i <= 5000; i++)
        assert_int_equal(group_head(find(&t, mask, i)), i);
    assert_null(find(&t, mask, 5001).bucket);
    table_clear(&t);
}

/* Keys that are used only once must not make a table grow that holds few at a time. */
static void places_of_empty_groups_are_used_again(UNUSED void **state)
{
    struct table t;
    uint64_t mask = UINT64_MAX;

    table_init(&t);
    for (uintptr_t i = 1; i <= 100000; i++) {
        add(&t, mask, i);
        if (i > 50)
            remove_head(&t, mask, i - 50);
    }
    assert_true(table_is_valid(&t, hash_of, &mask));
    assert_int_equal(t.used, 50);
    assert_int_equal(table_size(&t), 16);
    table_clear(&t);
}

/* Groups with similar hashes need the same buckets, and displace each other: more pass a bucket
 * than can be counted.  After they are removed, searches end as early as before. */
static void groups_that_want_one_bucket_are_found_and_forgotten(UNUSED void **state)
{
    struct table t;
    uint64_t masks[] = {UINT64_MAX >> 8, UINT64_MAX >> 3, UINT64_C(1) << 63};
    struct random r;

    table_init(&t);
    for (size_t k = 0; k < ARRAY_COUNT(masks); k++) {
        for (uintptr_t most = 16; most <= 1024; most *= 8) {
            random_seed(&r, most);
            for (uintptr_t i = 1; i <= most; i++)
                add(&t, masks[k], i);
            assert_true(table_is_valid(&t, hash_of, &masks[k]));
            for (int i = 0; i < 500; i++) { /* one is removed, and added again, perhaps in
                                               another place */
                uintptr_t head = 1 + random_below(&r, most);

                remove_head(&t, masks[k], head);
                assert_null(find(&t, masks[k], head).bucket);
                add(&t, masks[k], head);
            }
            assert_true(table_is_valid(&t, hash_of, &masks[k]));
            for (uintptr_t i = most; i >= 1; i--)
                remove_head(&t, masks[k], i);
            assert_int_equal(t.used, 0);
            if (most == 16)
                for (uint32_t i = 0; i < table_size(&t); i++)
                    assert_int_equal(t.buckets[i].prints, 0);
            table_clear(&t);
        }
    }
}

static void a_table_that_cannot_grow_stays_as_it_was(UNUSED void **state)
{
    struct table t;
    uint64_t mask = UINT64_MAX;
    uintptr_t next = 1;

    table_init(&t);
    while (table_has_space(&t) || t.limit == 0)
        add(&t, mask, next++);
    mem_fail_at(1);
    assert_false(table_grow(&t, 0, hash_of, &mask));
    mem_fail_at(0);
    assert_true(table_is_valid(&t, hash_of, &mask));
    for (uintptr_t known = 1; known < next; known++)
        assert_int_equal(group_head(find(&t, mask, known)), known);
    assert_true(table_grow(&t, 0, hash_of, &mask));
    table_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kind_of_envelopes_crowds_a_table),
        cmocka_unit_test(what_is_in_a_table_is_not_put_there),
        cmocka_unit_test(a_table_grows_for_those_that_come),
        cmocka_unit_test(groups_are_found_again_however_often_the_table_grows),
        cmocka_unit_test(places_of_empty_groups_are_used_again),
        cmocka_unit_test(groups_that_want_one_bucket_are_found_and_forgotten),
        cmocka_unit_test(a_table_that_cannot_grow_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
