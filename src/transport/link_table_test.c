/* SPDX-License-Identifier: BSD-3-Clause */
/* link_table_test.c - adds and removes links at random, and compares with a plain list. */
#include "base/base.h"
#include "base/random.h"
#include "base/unit.h"
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

/* Is each link in the table found, and no other? */
static void check(const struct link_table *table)
{
    size_t count = 0;

    for (int i = 0; i < LINKS; i++) {
        assert_ptr_equal(link_table_find(table, &members[i].address),
                         is_in[i] ? &members[i] : NULL);
        count += is_in[i];
    }
    assert_int_equal(table->hash.count, count);
    assert_int_equal(count_of(table), count);
}

static void test_links_come_and_go(UNUSED void **state)
{
    struct link_table table;
    struct random random;

    print_message("seed 1\n");
    random_seed(&random, 1);
    link_table_init(&table, NULL);
    for (int i = 0; i < LINKS; i++)
        members[i].address.process = (uint32_t)i + 1;
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = random_below(&random, LINKS);

        if (is_in[i])
            link_table_remove_link(&table, &members[i].link);
        else
            assert_int_equal(link_table_add(&table, &members[i]), 0);
        is_in[i] = !is_in[i];
        if (step % 10 == 0)
            check(&table);
    }
    link_table_fini(&table);
}

/* ---- another name than an address ---- */

#define HASHES 20 /* so few that links are far from their slots */

static uint32_t hash_of(const struct link *link)
{
    return link->peer % HASHES;
}

static bool is_peer(const struct link *link, const void *peer)
{
    return link->peer == *(const uint32_t *)peer;
}

static void test_links_are_found_by_their_names(UNUSED void **state)
{
    static const struct link_naming naming = {.hash = hash_of, .is = is_peer};
    static struct link links[LINKS];
    bool is_there[LINKS] = {false};
    struct link_table table;
    struct random random;

    random_seed(&random, 2);
    link_table_init(&table, &naming);
    for (int step = 0; step < STEPS / 4; step++) {
        uint32_t i = (uint32_t)random_below(&random, LINKS);

        links[i].peer = i;
        if (is_there[i])
            link_table_remove_link(&table, &links[i]);
        else
            assert_int_equal(link_table_add_link(&table, &links[i]), 0);
        is_there[i] = !is_there[i];
        for (uint32_t peer = 0; step % 10 == 0 && peer < LINKS; peer++)
            assert_ptr_equal(
                link_table_find_by(&table, hash_of(&(struct link){.peer = peer}), &peer),
                is_there[peer] ? &links[peer] : NULL);
    }
    link_table_fini(&table);
    assert_ptr_equal(table.naming, &naming);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_come_and_go),
        cmocka_unit_test(test_links_are_found_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
