/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_test.c - random takes and gives, and ids that must not be believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/random.h"

struct object {
    uint64_t payload[3];
};

/* Every id ever given out of a slot stays in stale[] when its object is given. */
static void test_random_lives(void **state)
{
    enum { MAX = 37, STALE = 256 };
    struct object *live[MAX];
    uint64_t ids[MAX], stale[STALE] = {0};
    uint32_t count = 0, most = 0;
    struct random r;
    struct pool pool;

    (void)state;
    random_seed(&r, 1);
    pool_init(&pool, sizeof(struct object), 8, MAX);
    assert_int_equal(pool_most(&pool), 0);
    for (int step = 0; step < 20000; step++) {
        if (random_below(&r, 2) != 0) {
            struct object *o = pool_take(&pool);

            if (count == MAX) {
                assert_null(o);
                continue;
            }
            assert_non_null(o);
            assert_int_equal((uintptr_t)o % 16, 0);
            o->payload[0] = o->payload[2] = pool_id(&pool, o);
            ids[count] = pool_id(&pool, o);
            live[count++] = o;
            most = count > most ? count : most;
        } else if (count > 0) {
            uint32_t i = (uint32_t)random_below(&r, count);

            stale[step % STALE] = ids[i];
            pool_give(&pool, live[i]);
            live[i] = live[--count];
            ids[i] = ids[count];
        }
        assert_int_equal(pool_live(&pool), count);
        assert_int_equal(pool_most(&pool), most);
        if (step % 64 == 0)
            assert_true(pool_is_valid(&pool));
        for (uint32_t i = 0; i < count; i++) {
            assert_ptr_equal(pool_find(&pool, ids[i]), live[i]);
            assert_int_equal(live[i]->payload[0], ids[i]); /* nobody wrote over it */
            assert_int_equal(live[i]->payload[2], ids[i]);
        }
        assert_null(pool_find(&pool, stale[random_below(&r, STALE)]));
    }
    pool_fini(&pool);
    assert_int_equal(mem_live(), 0);
}

static void test_forged_ids_find_nothing(void **state)
{
    struct random r;
    struct pool pool;
    void *object;
    uint64_t id;

    (void)state;
    random_seed(&r, 2);
    pool_init(&pool, 1, 4, 100);
    assert_null(pool_find(&pool, 0)); /* nothing is allocated yet */
    assert_null(pool_find(&pool, UINT64_MAX));
    object = pool_take(&pool);
    id = pool_id(&pool, object);
    assert_ptr_equal(pool_find(&pool, id), object);
    for (int bit = 0; bit < 64; bit++)
        assert_null(pool_find(&pool, id ^ UINT64_C(1) << bit));
    for (uint64_t forged = 0; forged < 1000; forged++)
        assert_ptr_equal(pool_find(&pool, forged), forged == id ? object : NULL);
    for (int i = 0; i < 100000; i++)
        assert_null(pool_find(&pool, random_next(&r)));
    pool_give(&pool, object);
    assert_null(pool_find(&pool, id));
    for (uint64_t forged = 0; forged < 1000; forged++) /* free slots hold ids, too */
        assert_null(pool_find(&pool, forged));
    pool_fini(&pool);
}

static void test_same_slot_gets_a_new_id(void **state)
{
    struct pool pool;
    void *object;
    uint64_t id = 0;

    (void)state;
    pool_init(&pool, 8, 1, 1); /* no index bits at all */
    for (int i = 0; i < 1000; i++) {
        uint64_t last = id;

        object = pool_take(&pool);
        id = pool_id(&pool, object);
        assert_true(id > last);
        assert_null(pool_find(&pool, last));
        assert_null(pool_take(&pool));
        pool_give(&pool, object);
    }
    pool_fini(&pool);
}

static void test_limits_round_nothing_away(void **state)
{
    static const uint32_t limits[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 1000};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        struct pool pool;

        pool_init(&pool, 40, 16, limits[i]);
        for (uint32_t n = 0; n < limits[i]; n++)
            assert_non_null(pool_take(&pool));
        assert_null(pool_take(&pool));
        assert_int_equal(pool_live(&pool), limits[i]);
        assert_true(pool_is_valid(&pool));
        pool_fini(&pool);
        assert_int_equal(mem_live(), 0);
    }
}

/* Grows to 100 objects while allocation n fails; a second try then succeeds. */
static bool grow_with_failure(uint64_t n)
{
    bool failed = false;
    struct pool pool;

    pool_init(&pool, 24, 4, 1000);
    mem_fail_at(n);
    for (int i = 0; i < 100; i++) {
        void *object = pool_take(&pool);

        if (object == NULL) {
            failed = true;
            assert_int_equal(pool_live(&pool), i);
            assert_true(pool_is_valid(&pool));
            object = pool_take(&pool);
        }
        assert_non_null(object);
        memset(object, i, 24);
    }
    mem_fail_at(0);
    pool_fini(&pool);
    assert_int_equal(mem_live(), 0);
    return failed;
}

static void test_every_failed_allocation_is_survived(void **state)
{
    uint64_t n = 1;

    (void)state;
    while (grow_with_failure(n))
        n++;
    assert_in_range(n, 25, 40); /* 25 chunks and a few directories */
}

struct visit {
    struct pool *pool;
    int count;
    bool give;
};

static void visit(void *arg, void *object)
{
    struct visit *v = arg;

    v->count++;
    if (v->give)
        pool_give(v->pool, object);
}

static void test_for_each_visits_the_live_and_may_give(void **state)
{
    struct pool pool;
    struct visit v = {.pool = &pool};
    void *objects[20];

    (void)state;
    pool_init(&pool, 8, 8, 100);
    for (int i = 0; i < 20; i++)
        objects[i] = pool_take(&pool);
    for (int i = 0; i < 20; i += 2)
        pool_give(&pool, objects[i]);
    pool_for_each(&pool, visit, &v);
    assert_int_equal(v.count, 10);
    v.give = true;
    pool_for_each(&pool, visit, &v);
    assert_int_equal(v.count, 20);
    assert_int_equal(pool_live(&pool), 0);
    assert_true(pool_is_valid(&pool));
    pool_fini(&pool);
}

static void test_validity_check_sees_damage(void **state)
{
    struct pool_slot *slot;
    struct pool pool;
    void *object;

    (void)state;
    pool_init(&pool, 8, 8, 8);
    object = pool_take(&pool);
    slot = (struct pool_slot *)object - 1;
    assert_true(pool_is_valid(&pool));
    slot->id ^= 1; /* I1 */
    assert_false(pool_is_valid(&pool));
    slot->id ^= 1;
    pool.live++; /* I2 */
    assert_false(pool_is_valid(&pool));
    pool.live--;
    slot->next_free = pool.free; /* I3: a live slot on the free list */
    pool.free = slot;
    assert_false(pool_is_valid(&pool));
    pool.free = slot->next_free->next_free; /* I3: one is lost */
    assert_false(pool_is_valid(&pool));
    pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_forged_ids_find_nothing),
        cmocka_unit_test(test_same_slot_gets_a_new_id),
        cmocka_unit_test(test_limits_round_nothing_away),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
        cmocka_unit_test(test_for_each_visits_the_live_and_may_give),
        cmocka_unit_test(test_validity_check_sees_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
