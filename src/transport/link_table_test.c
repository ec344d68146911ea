/* SPDX-License-Identifier: BSD-3-Clause */
/* link_table_test.c - links come and go at random, beside a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/random.h"
#include "transport/link_table.h"

#define LINKS 300
#define STEPS 6000

static struct link_member members[LINKS];
static bool is_in[LINKS];

static size_t count_of(const struct link_table *table)
{
    size_t count = 0, position = 0;

    while (link_table_next(table, &position) != NULL)
        count++;
    return count;
}

/* Is each link found that is in, and no other? */
static void check(const struct link_table *table)
{
    size_t count = 0;

    for (int i = 0; i < LINKS; i++) {
        assert_ptr_equal(link_table_find(table, &members[i].address),
                         is_in[i] ? &members[i] : NULL);
        count += is_in[i];
    }
    assert_int_equal(table->count, count);
    assert_int_equal(count_of(table), count);
}

static void test_links_come_and_go(void **state)
{
    struct link_table table;
    struct random random;

    (void)state;
    print_message("seed 1\n");
    random_seed(&random, 1);
    link_table_init(&table);
    for (int i = 0; i < LINKS; i++)
        members[i].address.process = (uint32_t)i + 1;
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = random_below(&random, LINKS);

        if (is_in[i])
            link_table_remove(&table, &members[i]);
        else
            assert_int_equal(link_table_add(&table, &members[i]), 0);
        is_in[i] = !is_in[i];
        if (step % 10 == 0)
            check(&table);
    }
    link_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_links_come_and_go)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
