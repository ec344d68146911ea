/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_test.c - random takes and gives, and ids that must be rejected. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/unit.h"

/* Objects that live for a while at random.  Each has its id in its first and last word, and stale[] keeps
 * the ids of the last objects that were given. */
enum { LIVES_MAX = 300, STALE_MAX = 1024 };

struct lives {
    struct pool pool;
    struct random random;
    size_t size;    /* of an object */
    uint32_t max;   /* objects, LIVES_MAX at most */
    uint32_t count; /* live objects */
    uint32_t most;  /* the most that lived at one time */
    uint32_t given;
    uint64_t *live[LIVES_MAX];
    uint64_t ids[LIVES_MAX];
    uint64_t stale[STALE_MAX];
};

static void lives_init(struct lives *lives, uint64_t seed, size_t size, uint32_t chunk,
                       uint32_t max)
{
    *lives = (struct lives){.size = size, .max = max};
    random_seed(&lives->random, seed);
    pool_init(&lives->pool, size, chunk, max);
    assert_int_equal(pool_most(&lives->pool), 0);
}

static void lives_take(struct lives *lives)
{
    uint64_t *object = pool_take(&lives->pool);
    uint64_t id;

    if (lives->count == lives->max) {
        assert_null(object);
        return;
    }
    assert_non_null(object);
    assert_int_equal((uintptr_t)object % 16, 0);
    id = pool_id(&lives->pool, object);
    for (uint32_t i = 0; i < STALE_MAX; i++)
        assert_int_not_equal(lives->stale[i], id);
    object[0] = object[lives->size / sizeof *object - 1] = id;
    lives->ids[lives->count] = id;
    lives->live[lives->count++] = object;
    lives->most = lives->count > lives->most ? lives->count : lives->most;
}

static void lives_give(struct lives *lives)
{
    uint32_t i;

    if (lives->count == 0)
        return;
    i = (uint32_t)random_below(&lives->random, lives->count);
    lives->stale[lives->given++ % STALE_MAX] = lives->ids[i];
    pool_give(&lives->pool, lives->live[i]);
    lives->live[i] = lives->live[--lives->count];
    lives->ids[i] = lives->ids[lives->count];
}

/* The pool counts and finds the live objects, their contents are intact, and a stale id finds
 * nothing. */
static void lives_check(struct lives *lives)
{
    size_t last = lives->size / sizeof **lives->live - 1;

    assert_int_equal(pool_live(&lives->pool), lives->count);
    assert_int_equal(pool_most(&lives->pool), lives->most);
    assert_null(pool_find(&lives->pool, lives->stale[random_below(&lives->random, STALE_MAX)]));
    for (uint32_t i = 0; i < lives->count; i++) {
        assert_ptr_equal(pool_find(&lives->pool, lives->ids[i]), lives->live[i]);
        assert_int_equal(lives->live[i][0], lives->ids[i]);
        assert_int_equal(lives->live[i][last], lives->ids[i]);
    }
}

static void lives_fini(struct lives *lives)
{
    pool_fini(&lives->pool);
    assert_int_equal(mem_live(), 0);
}

static void test_random_lives(UNUSED void **state)
{
    static struct lives lives;

    lives_init(&lives, 1, 24, 8, 37);
    for (int step = 0; step < 20000; step++) {
        if (random_below(&lives.random, 2) != 0)
            lives_take(&lives);
        else
            lives_give(&lives);
        lives_check(&lives);
        if (step % 64 == 0)
            assert_true(pool_is_valid(&lives.pool));
    }
    lives_fini(&lives);
}

/* Phases with many objects and with few, trimmed at random: live objects stay where they are. */
static void test_random_lives_with_trims(UNUSED void **state)
{
    static struct lives lives;
    uint32_t trims = 0;

    lives_init(&lives, 3, 512, 16, LIVES_MAX);
    for (int step = 0; step < 60000; step++) {
        bool is_growing = step / 1000 % 2 == 0;

        if (random_below(&lives.random, 4) < (is_growing ? 3 : 1))
            lives_take(&lives);
        else
            lives_give(&lives);
        if (random_below(&lives.random, 50) == 0) {
            trims += pool_trim(&lives.pool);
            assert_true(pool_is_valid(&lives.pool));
        }
        if (step % 16 == 0)
            lives_check(&lives);
    }
    assert_in_range(trims, 50, 2000);
    lives_fini(&lives);
}

/* Is the page after the first page boundary in the slot with this index resident? */
static bool is_resident(const struct pool *pool, uint32_t index)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = ((uintptr_t)pool_slot_at(pool, index) + page) & ~(page - 1);
    unsigned char resident = 0;

    assert_int_equal(mincore((void *)at, page, &resident), 0);
    return (resident & 1) != 0;
}

static void test_trim_gives_memory_back(UNUSED void **state)
{
    enum { COUNT = 200, SIZE = 65536 };
    void *objects[COUNT];
    struct pool pool;

    pool_init(&pool, SIZE, 4, 1000);
    assert_false(pool_trim(&pool));
    for (int i = 0; i < COUNT; i++) {
        objects[i] = pool_take(&pool);
        memset(objects[i], i, SIZE);
    }
    assert_false(pool_is_slack(&pool));
    assert_false(pool_trim(&pool)); /* all are live */
    for (int i = 0; i < COUNT; i++)
        if (i != 5)
            pool_give(&pool, objects[i]);
    assert_true(pool_is_slack(&pool));
    assert_true(is_resident(&pool, COUNT - 1));
    assert_true(pool_trim(&pool));
    assert_false(is_resident(&pool, COUNT - 1));
    assert_false(is_resident(&pool, 6));
    assert_true(is_resident(&pool, 5));
    assert_false(pool_is_slack(&pool));
    assert_false(pool_trim(&pool));
    assert_true(pool_is_valid(&pool));
    for (int i = 0; i < COUNT;
         i++) { /* in the existing chunks: each object where it was before */
        void *object = i == 5 ? objects[5] : pool_take(&pool);

        assert_ptr_equal(object, objects[i]);
        memset(object, i, SIZE);
    }
    assert_int_equal(pool_most(&pool), COUNT);
    assert_true(pool_is_valid(&pool));
    pool_fini(&pool);
    assert_int_equal(mem_live(), 0);
}

static void test_forged_ids_find_nothing(UNUSED void **state)
{
    struct random r;
    struct pool pool;
    void *object;
    uint64_t id;

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
    for (uint64_t forged = 0; forged < 1000; forged++) /* free slots hold ids as well */
        assert_null(pool_find(&pool, forged));
    pool_fini(&pool);
}

static void test_same_slot_gets_a_new_id(UNUSED void **state)
{
    struct pool pool;
    void *object;
    uint64_t id = 0;

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

static void test_limits_round_nothing_away(UNUSED void **state)
{
    static const uint32_t limits[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 1000};

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

static void test_every_failed_allocation_is_survived(UNUSED void **state)
{
    uint64_t n = 1;

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

static void test_for_each_visits_the_live_and_may_give(UNUSED void **state)
{
    struct pool pool;
    struct visit v = {.pool = &pool};
    void *objects[20];

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

static void test_validity_check_sees_damage(UNUSED void **state)
{
    struct pool_slot *slot;
    struct pool pool;
    void *object;

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
    pool.free = slot->next_free->next_free; /* I3: one is missing */
    assert_false(pool_is_valid(&pool));
    pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_random_lives_with_trims),
        cmocka_unit_test(test_trim_gives_memory_back),
        cmocka_unit_test(test_forged_ids_find_nothing),
        cmocka_unit_test(test_same_slot_gets_a_new_id),
        cmocka_unit_test(test_limits_round_nothing_away),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
        cmocka_unit_test(test_for_each_visits_the_live_and_may_give),
        cmocka_unit_test(test_validity_check_sees_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
