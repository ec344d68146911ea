/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_keys_test.c - keys that no correct peer sends, and accesses that a key does not allow.
 *
 * They are asked of Matchbox's libucp alone; contract_onesided.c asks both libraries.
 */
#include "tests/ucp/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define SIZE 1000

/* Only newer headers declare them. */
struct pack_params {
    uint64_t field_mask, flags;
};
int8_t ucp_memh_pack(struct ucp_mem *memh, const struct pack_params *params, void **buffer_p,
                     size_t *buffer_size_p);
void ucp_memh_buffer_release(void *buffer, const void *params);
int8_t ucp_rkey_compare(void *worker, struct ucp_rkey *rkey1, struct ucp_rkey *rkey2,
                        const uint64_t *params, int *result);

static void a_key_that_is_not_ours_is_refused(UNUSED void **state)
{
    static const uint64_t wrong_length = UINT64_MAX - 10;
    unsigned char bytes[KEY_SIZE], *only_mark = malloc(7);
    ucp_rkey_h other;

    for (size_t bit = 0; bit < 56; bit++) {
        memcpy(only_mark, key_bytes, 7);
        only_mark[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(ucp_ep_rkey_unpack(to, only_mark, &other), UCS_ERR_INVALID_PARAM);
        assert_int_equal(lines, bit + 1);
    }
    assert_non_null(strstr(last_line, " that is not Matchbox's"));
    free(only_mark);
    memcpy(bytes, key_bytes, KEY_SIZE);
    for (unsigned rights = 4; rights < 256; rights++) {
        bytes[AT_RIGHTS] = (unsigned char)rights;
        assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_INVALID_PARAM);
    }
    memcpy(bytes, key_bytes, KEY_SIZE);
    memcpy(bytes + AT_LENGTH, &wrong_length, sizeof wrong_length);
    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_INVALID_PARAM);
    assert_non_null(strstr(last_line, "damaged remote key"));
    assert_int_equal(lines, 56 + 252 + 1);
}

static void a_key_without_rights_leads_nowhere(UNUSED void **state)
{
    ucp_mem_h local = map(data, SIZE, UCP_MEM_MAP_PROT_LOCAL_READ);
    unsigned char bytes[KEY_SIZE];
    ucp_rkey_h other;

    pack_key(local, bytes);
    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_UNREACHABLE);
    ucp_mem_unmap(context, local);
}

static void accesses_beyond_a_region_are_refused(UNUSED void **state)
{
    const uint64_t from = where(memory.bytes), end = from + MEMORY_SIZE;
    const struct {
        uint64_t at;
        size_t size;
    } wrong[] = {{from - 1, 1},
                 {from - 1, 2},
                 {end, 1},
                 {end - 1, 2},
                 {0, 1},
                 {UINT64_MAX, 1},
                 {from, SIZE_MAX},
                 {from, MEMORY_SIZE + 1},
                 {from + 10, SIZE_MAX - 9}};
    uint64_t result;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ucp_put_nbi(to, data, wrong[i].size, wrong[i].at, key),
                         UCS_ERR_OUT_OF_RANGE);
        assert_int_equal(ucp_get(to, data, wrong[i].size, wrong[i].at, key),
                         UCS_ERR_OUT_OF_RANGE);
    }
    assert_int_equal(ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 1, 8, (end + 7) / 8 * 8, key),
                     UCS_ERR_OUT_OF_RANGE);
    assert_ptr_equal(
        ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_FADD, 1, &result, 8, 0, key, NULL),
        UCS_STATUS_PTR(UCS_ERR_OUT_OF_RANGE));
    assert_int_equal(ucp_put_nbi(to, data, 1, end - 1, key), UCS_OK);
    assert_int_equal(flush(), UCS_OK);
    assert_int_equal(memory.bytes[MEMORY_SIZE - 1], 0x22);
    assert_true(is_all(memory.after, sizeof memory.after, 0x11));
}

/* ucp_mem_map() says which rights a region gives. */
static void accesses_without_a_right_are_refused(UNUSED void **state)
{
    static const struct {
        unsigned prot;
        ucs_status_t put, get;
    } regions[] = {{UCP_MEM_MAP_PROT_REMOTE_READ, UCS_ERR_REJECTED, UCS_OK},
                   {UCP_MEM_MAP_PROT_REMOTE_WRITE, UCS_OK, UCS_ERR_REJECTED}};
    _Alignas(8) static unsigned char bytes[SIZE];
    unsigned char packed[KEY_SIZE];

    for (size_t i = 0; i < 2; i++) {
        ucp_mem_h mem = map(bytes, SIZE, regions[i].prot);
        uint64_t result = 0;
        ucp_rkey_h weak;

        pack_key(mem, packed);
        weak = key_of(packed);
        assert_int_equal(ucp_put_nbi(to, data, 8, where(bytes), weak), regions[i].put);
        assert_int_equal(finish(ucp_get_nb(to, &result, 8, where(bytes), weak, NULL)),
                         regions[i].get);
        assert_ptr_equal(ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_FADD, 1, &result, 8,
                                             where(bytes), weak, NULL),
                         UCS_STATUS_PTR(UCS_ERR_REJECTED));
        ucp_rkey_destroy(weak);
        packed[AT_RIGHTS] = 3; /* the key says what is not so */
        weak = key_of(packed);
        assert_int_equal(finish(ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_FADD, 1, &result, 8,
                                                    where(bytes), weak, NULL)),
                         UCS_ERR_REJECTED);
        ucp_rkey_destroy(weak);
        assert_int_equal(flush(), UCS_OK);
        ucp_mem_unmap(context, mem);
    }
}

/* The owner of the memory asks its own list, and the next flush says that a put is lost. */
static void a_forged_key_opens_nothing(UNUSED void **state)
{
    ucp_rkey_h other = forged(AT_KEY, 77), longer = forged(AT_LENGTH, MEMORY_SIZE + 64);
    uint64_t result;

    assert_int_equal(ucp_put_nbi(to, data, 8, where(memory.bytes), other), UCS_OK);
    assert_int_equal(flush(), UCS_ERR_REJECTED);
    assert_int_equal(flush(), UCS_OK);
    assert_int_equal(flush_worker(), UCS_ERR_REJECTED);
    assert_int_equal(flush_worker(), UCS_OK);
    assert_non_null(strstr(last_line, "an access to peer"));
    assert_int_equal(finish(ucp_get_nb(to, &result, 8, where(memory.bytes), other, NULL)),
                     UCS_ERR_REJECTED);
    assert_int_equal(flush(), UCS_OK); /* that one had a request */
    assert_int_equal(
        finish(ucp_put_nb(to, data, MEMORY_SIZE + 1, where(memory.bytes), longer, NULL)),
        UCS_ERR_OUT_OF_RANGE);
    assert_int_equal(ucp_put_nbi(to, data, 1, where(memory.after), longer), UCS_OK);
    assert_int_equal(flush(), UCS_ERR_OUT_OF_RANGE);
    assert_true(is_all((unsigned char *)&memory, sizeof memory, 0x11));
    ucp_rkey_destroy(other);
    ucp_rkey_destroy(longer);
}

/* Keys that say anything: the memory of the key that is right changes, and no other. */
static void random_keys_do_no_harm(UNUSED void **state)
{
    struct random random;
    unsigned taken = 0;

    random_seed(&random, 1);
    for (int i = 0; i < 20000; i++) {
        unsigned char bytes[KEY_SIZE];
        uint64_t at = where(memory.bytes) + random_below(&random, MEMORY_SIZE) / 8 * 8;
        uint64_t result;
        ucp_rkey_h other;

        memcpy(bytes, key_bytes, KEY_SIZE);
        for (size_t changes = random_below(&random, 3); changes != 0; changes--)
            bytes[AT_RIGHTS + random_below(&random, KEY_SIZE - AT_RIGHTS)] =
                (unsigned char)random_next(&random);
        if (ucp_ep_rkey_unpack(to, bytes, &other) != UCS_OK)
            continue;
        taken++;
        if (random_below(&random, 4) == 0)
            at = random_next(&random) / 8 * 8;
        (void)ucp_put_nbi(to, data, random_below(&random, 200), at, other);
        (void)finish(ucp_get_nb(to, data, random_below(&random, 20000), at, other, NULL));
        (void)ucp_atomic_post(to, UCP_ATOMIC_POST_OP_XOR, 1, 8, at, other);
        (void)finish(
            ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_SWAP, 1, &result, 4, at, other, NULL));
        ucp_rkey_destroy(other);
        turn();
    }
    (void)flush();
    assert_in_range(taken, 1000, 20000);
    assert_true(is_all(memory.before, sizeof memory.before, 0x11));
    assert_true(is_all(memory.after, sizeof memory.after, 0x11));
}

static void keys_are_packed_and_compared(UNUSED void **state)
{
    const struct pack_params plain = {0}, out = {.field_mask = 1, .flags = 1};
    const uint64_t none = 0, field = 1;
    ucp_rkey_h same, other = forged(AT_KEY, 1000);
    int result = 7;
    void *bytes;
    size_t size;

    assert_int_equal(ucp_memh_pack(mapped, &out, &bytes, &size), UCS_ERR_UNSUPPORTED);
    assert_int_equal(ucp_memh_pack(mapped, &plain, &bytes, &size), UCS_OK);
    same = key_of(bytes);
    ucp_memh_buffer_release(bytes, NULL);
    assert_int_equal(ucp_rkey_compare(here, key, same, &none, &result), UCS_OK);
    assert_int_equal(result, 0);
    assert_int_equal(ucp_rkey_compare(here, key, other, &none, &result), UCS_OK);
    assert_true(result < 0);
    assert_int_equal(ucp_rkey_compare(here, other, key, &none, &result), UCS_OK);
    assert_true(result > 0);
    assert_int_equal(ucp_rkey_compare(here, key, same, &field, &result), UCS_ERR_INVALID_PARAM);
    ucp_rkey_destroy(same);
    ucp_rkey_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_that_is_not_ours_is_refused, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_key_without_rights_leads_nowhere, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(accesses_beyond_a_region_are_refused, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(accesses_without_a_right_are_refused, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_forged_key_opens_nothing, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(random_keys_do_no_harm, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(keys_are_packed_and_compared, open_memory,
                                        close_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
