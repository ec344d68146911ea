/* SPDX-License-Identifier: BSD-3-Clause */
/* list_test.c - lists compared with a plain array. */
#include <string.h>

#include "base/list.h"
#include "base/random.h"
#include "base/unit.h"

#define ITEMS 12

struct item {
    struct list link;
    int number;
};

/* The reference: numbers in order. */
struct row {
    int numbers[ITEMS];
    int count;
};

static void row_insert(struct row *row, int at, int number)
{
    memmove(&row->numbers[at + 1], &row->numbers[at], (size_t)(row->count - at) * sizeof(int));
    row->numbers[at] = number;
    row->count++;
}

static void row_remove(struct row *row, int number)
{
    int at = 0;

    while (at < row->count && row->numbers[at] != number)
        at++;
    if (at == row->count)
        return;
    row->count--;
    memmove(&row->numbers[at], &row->numbers[at + 1], (size_t)(row->count - at) * sizeof(int));
}

/* Checks I1 in both directions, and that both hold the same numbers. */
static void check_same(const struct list *head, const struct row *row)
{
    const struct list *pos;
    int i = 0;

    list_for_each (pos, head) {
        assert_in_range(i, 0, row->count - 1);
        assert_int_equal(container_of(pos, struct item, link)->number, row->numbers[i]);
        assert_ptr_equal(pos->next->prev, pos);
        assert_ptr_equal(pos->prev->next, pos);
        i++;
    }
    assert_int_equal(i, row->count);
    assert_int_equal(list_is_empty(head), row->count == 0);
}

static void test_random_operations(UNUSED void **state)
{
    struct item items[ITEMS] = {0}; /* zero-filled nodes are unlinked */
    struct row row = {0};
    struct random r;
    struct list head;

    random_seed(&r, 1);
    list_init(&head);
    for (int i = 0; i < ITEMS; i++)
        items[i].number = i;
    for (int step = 0; step < 20000; step++) {
        int n = (int)random_below(&r, ITEMS);
        struct item *item = &items[n];

        if (list_is_linked(&item->link)) {
            list_remove(&item->link);
            row_remove(&row, n);
            assert_false(list_is_linked(&item->link));
        } else if (random_below(&r, 2) != 0) {
            list_add_tail(&head, &item->link);
            row_insert(&row, row.count, n);
        } else {
            list_add_head(&head, &item->link);
            row_insert(&row, 0, n);
        }
        check_same(&head, &row);
    }
}

static void test_pop_gives_the_oldest_and_unlinks_it(UNUSED void **state)
{
    struct item a = {.number = 1}, b = {.number = 2};
    struct list head;

    list_init(&head);
    assert_null(list_first(&head));
    assert_null(list_pop_head(&head));
    list_add_tail(&head, &a.link);
    list_add_tail(&head, &b.link);
    assert_ptr_equal(list_first(&head), &a.link);
    assert_ptr_equal(list_pop_head(&head), &a.link);
    assert_false(list_is_linked(&a.link));
    assert_ptr_equal(list_pop_head(&head), &b.link);
    assert_null(list_pop_head(&head));
    assert_null(list_pop_tail(&head));
}

static void test_pop_tail_gives_the_youngest_and_unlinks_it(UNUSED void **state)
{
    struct item a = {.number = 1}, b = {.number = 2};
    struct list head;

    list_init(&head);
    list_add_tail(&head, &a.link);
    list_add_tail(&head, &b.link);
    assert_ptr_equal(list_pop_tail(&head), &b.link);
    assert_false(list_is_linked(&b.link));
    assert_ptr_equal(list_pop_tail(&head), &a.link);
    assert_true(list_is_empty(&head));
}

static void test_removing_twice_is_harmless(UNUSED void **state)
{
    struct item a = {.number = 1}, b = {.number = 2};
    struct row rest = {.numbers = {2}, .count = 1};
    struct list head;

    list_init(&head);
    list_add_tail(&head, &a.link);
    list_add_tail(&head, &b.link);
    list_remove(&a.link);
    list_remove(&a.link);
    check_same(&head, &rest);
}

static void test_safe_walk_may_remove_what_it_stands_on(UNUSED void **state)
{
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct row odd = {.numbers = {1, 3}, .count = 2};
    struct list head, *pos, *tmp;

    list_init(&head);
    for (size_t i = 0; i < ARRAY_COUNT(items); i++)
        list_add_tail(&head, &items[i].link);
    list_for_each_safe (pos, tmp, &head) {
        if (container_of(pos, struct item, link)->number % 2 == 0)
            list_remove(pos);
    }
    check_same(&head, &odd);
}

static void test_splice_keeps_order(UNUSED void **state)
{
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct row all = {.numbers = {0, 1, 2, 3}, .count = 4}, none = {0};
    struct list to, from;

    list_init(&to);
    list_init(&from);
    list_splice_tail(&to, &from);
    check_same(&to, &none);
    for (size_t i = 0; i < ARRAY_COUNT(items); i++)
        list_add_tail(i < 2 ? &to : &from, &items[i].link);
    list_splice_tail(&to, &from);
    check_same(&to, &all);
    check_same(&from, &none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_pop_gives_the_oldest_and_unlinks_it),
        cmocka_unit_test(test_pop_tail_gives_the_youngest_and_unlinks_it),
        cmocka_unit_test(test_removing_twice_is_harmless),
        cmocka_unit_test(test_safe_walk_may_remove_what_it_stands_on),
        cmocka_unit_test(test_splice_keeps_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
