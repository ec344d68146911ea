/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_test.c - context ids are found, and do not cluster in the hash table.
 *
 * A table with clusters is correct and slow.  So the test measures the longest run of used
 * slots, which bounds the length of a search.
 */
#include "base/mem.h"
#include "base/random.h"
#include "base/unit.h"
#include "core/core.h"

#define IDS      1000
#define RUN_MOST 75 /* of 2048 slots; random ids: under 60 */
#define SEEDS    200

/* Makes an endpoint with only the parts that context.c uses. */
static struct mbx_ep *open_ep(uint64_t seed)
{
    struct mbx_ep *ep = mem_calloc(1, sizeof *ep);
    struct random r;

    assert_non_null(ep);
    random_seed(&r, seed);
    ep->contexts.seed = random_next(&r);
    return ep;
}

static void close_ep(struct mbx_ep *ep)
{
    context_fini(ep);
    mem_free(ep);
}

static const struct hash_kind ids = {.size = sizeof(void *)};

static uint32_t longest_run(const struct mbx_ep *ep)
{
    uint32_t run = 0, longest = 0;

    const struct hash *table = &ep->contexts.table;

    for (size_t i = 0; i < 2 * table->capacity; i++) {
        run = hash_is_free(&ids, table->slots + i % table->capacity * ids.size) ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void every_id_is_found_again(UNUSED void **state)
{
    struct mbx_ep *ep = open_ep(1);

    assert_null(context_find(ep, 0));
    for (uint32_t i = 0; i < IDS; i++)
        assert_int_equal(context_make(ep, i * 77777)->id, i * 77777);
    assert_int_equal(ep->contexts.table.count, IDS);
    for (uint32_t i = 0; i < IDS; i++) {
        struct context *context = context_find(ep, i * 77777);

        assert_non_null(context);
        assert_int_equal(context->id, i * 77777);
        assert_ptr_equal(context_make(ep, i * 77777), context);
    }
    assert_int_equal(ep->contexts.table.count, IDS);
    assert_null(context_find(ep, 1));
    close_ep(ep);
}

/* For example ids whose low half is zero. */
static void ids_that_differ_in_few_bits_do_not_crowd(UNUSED void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (uint32_t shift = 0; shift <= 20; shift += 10) {
            struct mbx_ep *ep = open_ep(seed);
            uint32_t run;

            for (uint32_t i = 0; i < IDS; i++)
                context_make(ep, i << shift | 5);
            run = longest_run(ep);
            close_ep(ep);
            if (run > RUN_MOST)
                fail_msg("seed %llu, ids shifted by %u: %u slots in a row",
                         (unsigned long long)seed, shift, run);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_id_is_found_again),
        cmocka_unit_test(ids_that_differ_in_few_bits_do_not_crowd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
