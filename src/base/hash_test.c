/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash_test.c - entries come and go at random; a plain list is the reference.
 *
 * Hashes have few values, so that entries lie far from the slot of their hash, and across the
 * end.  Keys occur several times: the oldest entry is found (I3).
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/unit.h"

#define ENTRIES 200
#define KEYS    60
#define STEPS   4000
#define SEEDS   20

struct entry {
    uint64_t key;
    uint64_t since; /* the least is the oldest; 0: not in a table */
};

static struct entry entries[ENTRIES];
static uint64_t hashes; /* the number of hashes */

static uint64_t hash_of(uint64_t key)
{
    return hash_mix(key) % hashes;
}

/* ---- states of a slot ---- */

static uint64_t pointer_hash(UNUSED const void *arg, const void *slot)
{
    return hash_of(((const struct entry *)hash_pointer(slot))->key);
}

static bool pointer_is(UNUSED const void *arg, const void *slot, const void *key)
{
    return ((const struct entry *)hash_pointer(slot))->key == *(const uint64_t *)key;
}

/* arg: the entries. */
static uint64_t number_hash(const void *arg, const void *slot)
{
    return hash_of(((const struct entry *)arg)[hash_number(slot) - 1].key);
}

static bool number_is(const void *arg, const void *slot, const void *key)
{
    return ((const struct entry *)arg)[hash_number(slot) - 1].key == *(const uint64_t *)key;
}

struct value {
    uint64_t key_1; /* key + 1 */
    uint32_t entry, unused[3];
};

static uint64_t value_hash(UNUSED const void *arg, const void *slot)
{
    return hash_of(((const struct value *)slot)->key_1 - 1);
}

static bool value_is(UNUSED const void *arg, const void *slot, const void *key)
{
    return ((const struct value *)slot)->key_1 == *(const uint64_t *)key + 1;
}

static const struct hash_kind kinds[] = {
    {sizeof(void *), pointer_hash, pointer_is},
    {sizeof(uint32_t), number_hash, number_is},
    {sizeof(struct value), value_hash, value_is},
};

static struct entry *entry_of(int kind, const void *slot)
{
    if (slot == NULL)
        return NULL;
    if (kind == 0)
        return hash_pointer(slot);
    return &entries[kind == 1 ? hash_number(slot) - 1 : ((const struct value *)slot)->entry];
}

static int add(struct hash *h, int kind, struct entry *entry)
{
    const uint32_t i = (uint32_t)(entry - entries), number = i + 1;
    const struct value value = {.key_1 = entry->key + 1, .entry = i};
    const void *slots[] = {&(void *){entry}, &number, &value};

    return hash_add(h, &kinds[kind], entries, slots[kind]);
}

/* ---- against a list ---- */

static struct entry *oldest(uint64_t key)
{
    struct entry *found = NULL;

    for (struct entry *e = entries; e < entries + ENTRIES; e++)
        if (e->since != 0 && e->key == key && (found == NULL || e->since < found->since))
            found = e;
    return found;
}

static void check(const struct hash *h, int kind)
{
    size_t position = 0, count = 0, in = 0;
    const void *slot;

    for (uint64_t key = 0; key < KEYS; key++)
        assert_ptr_equal(
            entry_of(kind, hash_find(h, &kinds[kind], entries, hash_of(key), &key)),
            oldest(key));
    for (int i = 0; i < ENTRIES; i++)
        in += entries[i].since != 0;
    while ((slot = hash_next(h, &kinds[kind], &position)) != NULL) {
        assert_true(entry_of(kind, slot)->since != 0);
        count++;
    }
    assert_int_equal(h->count, in);
    assert_int_equal(count, in);
    assert_true(h->count <= h->capacity / 4 * 3);
}

/* Adds an entry, or removes the oldest one with its key, which is the one that a search
 * finds. */
static void step(struct hash *h, int kind, struct random *random, uint64_t now)
{
    struct entry *entry = &entries[random_below(random, ENTRIES)], *gone;
    uint64_t key = entry->key;

    if (entry->since == 0) {
        entry->key = random_below(random, KEYS);
        assert_int_equal(add(h, kind, entry), 0);
        entry->since = now;
        return;
    }
    gone = oldest(key);
    hash_remove(h, &kinds[kind], entries,
                hash_find(h, &kinds[kind], entries, hash_of(key), &key));
    gone->since = 0;
}

static void run(int kind, uint64_t seed)
{
    struct hash h = {0};
    struct random random;

    print_message("kind %d, seed %d\n", kind, (int)seed);
    random_seed(&random, seed);
    memset(entries, 0, sizeof entries);
    hashes = seed % 4 == 0 ? UINT64_MAX : 1 + random_below(&random, 40);
    for (uint64_t now = 1; now <= STEPS; now++) {
        step(&h, kind, &random, now);
        if (now % 16 == 0)
            check(&h, kind);
    }
    hash_fini(&h);
    assert_int_equal(mem_live(), 0);
}

static void entries_come_and_go(UNUSED void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int kind = 0; kind < 3; kind++)
            run(kind, seed);
}

static void an_empty_table_has_nothing(UNUSED void **state)
{
    struct hash h = {0};
    uint64_t key = 0;
    size_t position = 0;

    assert_null(hash_find(&h, &kinds[0], entries, 0, &key));
    assert_null(hash_next(&h, &kinds[0], &position));
    assert_null(hash_pointer(NULL));
    assert_int_equal(hash_number(NULL), 0);
    hash_fini(&h);
}

/* The entries stay, and are found; the next call tries again. */
static void a_table_that_cannot_grow_is_as_before(UNUSED void **state)
{
    struct hash h = {0};

    memset(entries, 0, sizeof entries);
    hashes = UINT64_MAX;
    for (uint32_t i = 0; i < KEYS; i++) {
        entries[i].key = i;
        mem_fail_at(1);
        if (add(&h, 0, &entries[i]) == -ENOMEM) {
            assert_int_equal(mem_fail_left(), 0);
            check(&h, 0);
            assert_int_equal(hash_reserve(&h, &kinds[0], entries), 0);
            mem_fail_at(1);
            assert_int_equal(add(&h, 0, &entries[i]), 0);
        }
        entries[i].since = i + 1;
        check(&h, 0);
    }
    mem_fail_at(0);
    assert_int_equal(h.capacity, 128);
    hash_fini(&h);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_and_go),
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(a_table_that_cannot_grow_is_as_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
