/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_access_test.c - libucp over Matchbox: accesses to memory of a peer, where UCX's own library is not asked.
 *
 * Keys that no correct peer sends, accesses beyond their memory, flushes that wait for the owner of the memory, memory that
 * is unmapped, a peer that dies, threads.  contract_onesided.c has what both libraries answer.
 */
#include "tests/ucp/pair.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "ucp/region.h"

#define SIZE   1000
#define ROUNDS 500

/* Only newer headers declare them. */
struct pack_params {
    uint64_t field_mask, flags;
};
int8_t ucp_memh_pack(struct ucp_mem *memh, const struct pack_params *params, void **buffer_p,
                     size_t *buffer_size_p);
void ucp_memh_buffer_release(void *buffer, const void *params);
int8_t ucp_rkey_compare(void *worker, struct ucp_rkey *rkey1, struct ucp_rkey *rkey2,
                        const uint64_t *params, int *result);

/* ---- memory and keys ---- */

#define KEY_SIZE 32
#define ANY_PROT UINT32_MAX

/* Where a key has what: src/ucp/region.c. */
enum { AT_MARK = 0, AT_RIGHTS = 7, AT_KEY = 8, AT_ADDRESS = 16, AT_LENGTH = 24 };

#define MEMORY_SIZE ((size_t)100000)

/* There, between bytes that nobody may change. */
static struct {
    unsigned char before[64], bytes[MEMORY_SIZE], after[64];
} memory;
static unsigned char data[MEMORY_SIZE + 64], key_bytes[KEY_SIZE];
static ucp_mem_h mapped;
static ucp_rkey_h key;

static ucp_mem_h map(void *bytes, size_t size, unsigned prot)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      (prot != ANY_PROT ? UCP_MEM_MAP_PARAM_FIELD_PROT : 0u),
        .address = bytes,
        .length = size,
        .prot = prot};
    ucp_mem_h mem;

    assert_int_equal(ucp_mem_map(context, &params, &mem), UCS_OK);
    return mem;
}

static void pack_key(ucp_mem_h mem, unsigned char bytes[KEY_SIZE])
{
    size_t size;
    void *packed;

    assert_int_equal(ucp_rkey_pack(context, mem, &packed, &size), UCS_OK);
    assert_int_equal(size, KEY_SIZE);
    memcpy(bytes, packed, KEY_SIZE);
    ucp_rkey_buffer_release(packed);
}

static ucp_rkey_h key_of(const unsigned char bytes[KEY_SIZE])
{
    ucp_rkey_h unpacked;

    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &unpacked), UCS_OK);
    return unpacked;
}

/* A key that says something else at an offset. */
static ucp_rkey_h forged(size_t offset, uint64_t value)
{
    unsigned char bytes[KEY_SIZE];

    memcpy(bytes, key_bytes, KEY_SIZE);
    if (offset == AT_RIGHTS)
        bytes[offset] = (unsigned char)value;
    else
        memcpy(bytes + offset, &value, sizeof value);
    return key_of(bytes);
}

static uint64_t where(const void *bytes)
{
    return (uintptr_t)bytes;
}

static int open_memory(void **state)
{
    if (open_both(state) != 0)
        return -1;
    memset(&memory, 0x11, sizeof memory);
    memset(data, 0x22, sizeof data);
    mapped = map(memory.bytes, MEMORY_SIZE, ANY_PROT);
    pack_key(mapped, key_bytes);
    key = key_of(key_bytes);
    return 0;
}

static int close_memory(void **state)
{
    ucp_rkey_destroy(key);
    if (mapped != NULL)
        ucp_mem_unmap(context, mapped);
    return close_both(state);
}

static bool is_all(const unsigned char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static ucs_status_t finish(void *request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (!UCS_PTR_IS_PTR(request))
        return status;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        turn();
    status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

static ucs_status_t flush(void)
{
    return finish(ucp_ep_flush_nb(to, 0, NULL));
}

static ucs_status_t flush_worker(void)
{
    return finish(ucp_worker_flush_nb(here, 0, NULL));
}

static void a_key_that_is_not_ours_is_refused(void **state)
{
    static const uint64_t wrong_length = UINT64_MAX - 10;
    unsigned char bytes[KEY_SIZE], *only_mark = malloc(7);
    ucp_rkey_h other;

    (void)state;
    for (size_t bit = 0; bit < 56; bit++) {
        memcpy(only_mark, key_bytes, 7);
        only_mark[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(ucp_ep_rkey_unpack(to, only_mark, &other), UCS_ERR_INVALID_PARAM);
    }
    free(only_mark);
    memcpy(bytes, key_bytes, KEY_SIZE);
    for (unsigned rights = 4; rights < 256; rights++) {
        bytes[AT_RIGHTS] = (unsigned char)rights;
        assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_INVALID_PARAM);
    }
    memcpy(bytes, key_bytes, KEY_SIZE);
    memcpy(bytes + AT_LENGTH, &wrong_length, sizeof wrong_length);
    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_INVALID_PARAM);
}

static void a_key_without_rights_leads_nowhere(void **state)
{
    ucp_mem_h local = map(data, SIZE, UCP_MEM_MAP_PROT_LOCAL_READ);
    unsigned char bytes[KEY_SIZE];
    ucp_rkey_h other;

    (void)state;
    pack_key(local, bytes);
    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &other), UCS_ERR_UNREACHABLE);
    ucp_mem_unmap(context, local);
}

static void accesses_beyond_a_region_are_refused(void **state)
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

    (void)state;
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
static void accesses_without_a_right_are_refused(void **state)
{
    static const struct {
        unsigned prot;
        ucs_status_t put, get;
    } regions[] = {{UCP_MEM_MAP_PROT_REMOTE_READ, UCS_ERR_REJECTED, UCS_OK},
                   {UCP_MEM_MAP_PROT_REMOTE_WRITE, UCS_OK, UCS_ERR_REJECTED}};
    _Alignas(8) static unsigned char bytes[SIZE];
    unsigned char packed[KEY_SIZE];

    (void)state;
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
static void a_forged_key_opens_nothing(void **state)
{
    ucp_rkey_h other = forged(AT_KEY, 77), longer = forged(AT_LENGTH, MEMORY_SIZE + 64);
    uint64_t result;

    (void)state;
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
static void random_keys_do_no_harm(void **state)
{
    struct random random;
    unsigned taken = 0;

    (void)state;
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

/* Where UCX 1.13 has other values, and calls that it does not survive. */
static void atomics_are_those_of_the_interface(void **state)
{
    static const struct {
        ucp_atomic_fetch_op_t op;
        uint64_t want;
    } ops[] = {{UCP_ATOMIC_FETCH_OP_FAND, 30 & 18},
               {UCP_ATOMIC_FETCH_OP_FOR, 30 | 5},
               {UCP_ATOMIC_FETCH_OP_FXOR, 30 ^ 18}};
    static const uint64_t operands[] = {18, 5, 18};
    uint64_t *number = (void *)(memory.bytes + (8 - where(memory.bytes) % 8) % 8), result;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                 .datatype = ucp_dt_make_contig(8)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        *number = 30;
        assert_int_equal(finish(ucp_atomic_fetch_nb(to, ops[i].op, operands[i], &result, 8,
                                                    where(number), key, NULL)),
                         UCS_OK);
        assert_int_equal(result, 30);
        assert_int_equal(*number, ops[i].want);
    }
    assert_ptr_equal(
        ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_SWAP, &result, 1, where(number), key, &param),
        UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    assert_ptr_equal(
        ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_LAST, &result, 1, where(number), key, &param),
        UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    assert_int_equal(ucp_atomic_post(to, UCP_ATOMIC_POST_OP_LAST, 1, 8, where(number), key),
                     UCS_ERR_INVALID_PARAM);
    assert_ptr_equal(ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_LAST, 1, &result, 8,
                                         where(number), key, NULL),
                     UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
}

/* Progress of the one side alone. */
static void alone(void)
{
    for (int i = 0; i < 1000; i++)
        ucp_worker_progress(here);
}

static void a_flush_waits_for_the_owner_of_the_memory(void **state)
{
    ucp_request_param_t plain = {0};
    unsigned char in[SIZE] = {0};
    void *flushes[2], *get;

    (void)state;
    assert_int_equal(ucp_put_nbi(to, data, SIZE, where(memory.bytes), key), UCS_OK);
    memset(data, 0x33, SIZE);
    assert_int_equal(ucp_put_nbi(to, data, MEMORY_SIZE - SIZE, where(memory.bytes + SIZE), key),
                     UCS_INPROGRESS);
    flushes[0] = ucp_ep_flush_nbx(to, &plain);
    flushes[1] = ucp_worker_flush_nbx(here, &plain);
    alone();
    assert_int_equal(ucp_request_check_status(flushes[0]), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushes[1]), UCS_INPROGRESS);
    assert_int_equal(finish(flushes[0]), UCS_OK);
    assert_true(is_all(memory.bytes, SIZE, 0x22));
    assert_true(is_all(memory.bytes + SIZE, SIZE, 0x33));
    assert_int_equal(finish(flushes[1]), UCS_OK);
    get = ucp_get_nb(to, in, SIZE, where(memory.bytes), key, NULL);
    flushes[0] = ucp_ep_flush_nbx(to, &plain);
    alone();
    assert_int_equal(ucp_request_check_status(get), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushes[0]), UCS_INPROGRESS);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(flushes[0]), UCS_OK);
    assert_true(is_all(in, SIZE, 0x22));
}

/* More than the library has on its way at a time: the client's memory is free all the same. */
static void short_puts_that_wait_have_a_copy(void **state)
{
    uint64_t value, in;

    (void)state;
    for (value = 0; value < 200; value++)
        assert_int_equal(ucp_put_nbi(to, &value, 8, where(memory.bytes + 8 * value), key),
                         UCS_OK);
    assert_int_equal(flush(), UCS_OK);
    for (value = 0; value < 200; value++) {
        memcpy(&in, memory.bytes + 8 * value, 8);
        assert_true(in == value);
    }
}

static void a_close_waits_for_accesses(void **state)
{
    void *closing;

    (void)state;
    assert_int_equal(ucp_atomic_add32(to, 1, where(memory.bytes) / 8 * 8 + 8, key), UCS_OK);
    closing = ucp_ep_close_nb(to, UCP_EP_CLOSE_MODE_FLUSH);
    alone();
    assert_int_equal(ucp_request_check_status(closing), UCS_INPROGRESS);
    assert_int_equal(finish(closing), UCS_OK);
    assert_false(is_all(memory.bytes, 16, 0x11));
}

static void a_forced_close_cancels_accesses(void **state)
{
    void *put = ucp_put_nb(to, data, MEMORY_SIZE, where(memory.bytes), key, NULL);

    (void)state;
    assert_true(UCS_PTR_IS_PTR(put));
    assert_null(ucp_ep_close_nb(to, UCP_EP_CLOSE_MODE_FORCE));
    assert_int_equal(finish(put), UCS_ERR_CANCELED);
}

static void requests_of_accesses_are_as_others(void **state)
{
    ucp_request_param_t now = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    ucp_request_param_t iov = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                               .datatype = UCP_DATATYPE_IOV};
    void *get;

    (void)state;
    assert_null(ucp_put_nbx(to, data, 8, where(memory.bytes), key, &now));
    assert_ptr_equal(ucp_put_nbx(to, data, MEMORY_SIZE, where(memory.bytes), key, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_get_nbx(to, data, 8, where(memory.bytes), key, &now),
                     UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE));
    assert_ptr_equal(ucp_put_nbx(to, data, 1, where(memory.bytes), key, &iov),
                     UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    get = ucp_get_nb(to, data, 8, where(memory.bytes), key, NULL);
    ucp_request_cancel(here, get);
    ucp_request_release(get); /* before it is complete */
    assert_int_equal(flush(), UCS_OK);
}

static void memory_that_is_unmapped_is_left_alone(void **state)
{
    void *put = ucp_put_nb(to, data, MEMORY_SIZE, where(memory.bytes), key, NULL);

    (void)state;
    ucp_mem_unmap(context, mapped);
    mapped = NULL;
    memset(&memory, 0x44, sizeof memory);
    (void)finish(put);
    assert_int_equal(ucp_put_nbi(to, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(flush(), UCS_ERR_REJECTED);
    assert_true(is_all((unsigned char *)&memory, sizeof memory, 0x44));
}

/* Memory is registered with workers that come later.  A worker that goes forgets it. */
static void each_worker_serves_the_regions_of_its_context(void **state)
{
    ucp_address_t *address;
    ucp_worker_h third;
    ucp_ep_h other;
    void *closing;
    size_t size;

    (void)state;
    assert_int_equal(open_worker(UCS_THREAD_MODE_SINGLE, &third), UCS_OK);
    assert_int_equal(ucp_worker_get_address(third, &address, &size), UCS_OK);
    assert_int_equal(connect_to(here, address, false, NULL, &other), UCS_OK);
    ucp_worker_release_address(third, address);
    assert_int_equal(ucp_put_nbi(other, data, 8, where(memory.bytes), key), UCS_OK);
    closing = ucp_ep_close_nb(other, UCP_EP_CLOSE_MODE_FLUSH);
    while (ucp_request_check_status(closing) == UCS_INPROGRESS) {
        ucp_worker_progress(third);
        turn();
    }
    ucp_request_free(closing);
    assert_true(is_all(memory.bytes, 8, 0x22));
    ucp_worker_destroy(third);
    ucp_mem_unmap(context, map(data, SIZE, ANY_PROT));
}

static ucp_ep_h own;
static unsigned got;

static ucs_status_t reads_within(void *arg, void *bytes, size_t length, ucp_ep_h reply,
                                 unsigned flags)
{
    uint64_t in = 0;

    (void)arg, (void)bytes, (void)length, (void)reply, (void)flags;
    assert_int_equal(ucp_get(own, &in, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(in, 0x1111111111111111);
    got++;
    return UCS_OK;
}

static void a_handler_may_wait_for_an_access(void **state)
{
    ucp_address_t *address;
    size_t size;

    (void)state;
    got = 0;
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &own), UCS_OK);
    ucp_worker_release_address(there, address);
    assert_int_equal(ucp_worker_set_am_handler(there, 2, reads_within, NULL, 0), UCS_OK);
    (void)finish(ucp_am_send_nb(to, 2, data, 8, ucp_dt_make_contig(1), NULL, 0));
    while (got == 0)
        turn();
}

/* A lock of compare-and-swap, which its owner takes and gives back again and again.  Each time it makes progress twice. */
struct contest {
    uint64_t *lock;
    uint64_t got; /* what here has found */
    void *request;
};

static bool has_won(struct contest *contest)
{
    if (contest->request != NULL &&
        ucp_request_check_status(contest->request) == UCS_INPROGRESS)
        return false;
    if (contest->request != NULL) {
        ucp_request_free(contest->request);
        contest->request = NULL;
        if (contest->got == 0)
            return true;
    }
    contest->got = 7;
    contest->request = ucp_atomic_fetch_nb(to, UCP_ATOMIC_FETCH_OP_CSWAP, 0, &contest->got, 8,
                                           where(contest->lock), key, NULL);
    assert_true(UCS_PTR_IS_PTR(contest->request));
    return false;
}

/* One step of the owner, during which here tries. */
static bool owner_steps(struct contest *contest, ucp_atomic_fetch_op_t op, uint64_t value,
                        uint64_t result)
{
    void *request =
        ucp_atomic_fetch_nb(own, op, value, &result, 8, where(contest->lock), key, NULL);
    bool won = false;

    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(there);
        ucp_worker_progress(here);
        won = won || has_won(contest);
    }
    ucp_request_free(request);
    return won;
}

static void win(struct contest *contest)
{
    *contest->lock = 0;
    for (int i = 0; i < 10000; i++)
        if (owner_steps(contest, UCP_ATOMIC_FETCH_OP_CSWAP, 0, 1) ||
            owner_steps(contest, UCP_ATOMIC_FETCH_OP_SWAP, 0, 0))
            return;
    fail_msg("here never finds the lock free");
}

/* Whichever of the two is first in the first turn. */
static void nobody_comes_too_late_each_time(void **state)
{
    struct contest contest = {.lock =
                                  (void *)(memory.bytes + (8 - where(memory.bytes) % 8) % 8)};
    ucp_address_t *address;
    size_t size;

    (void)state;
    assert_int_equal(ucp_worker_get_address(there, &address, &size), UCS_OK);
    assert_int_equal(connect_to(there, address, false, NULL, &own), UCS_OK);
    ucp_worker_release_address(there, address);
    win(&contest);
    ucp_worker_progress(there);
    win(&contest);
    (void)flush();
}

static void keys_are_packed_and_compared(void **state)
{
    const struct pack_params plain = {0}, out = {.field_mask = 1, .flags = 1};
    const uint64_t none = 0, field = 1;
    ucp_rkey_h same, other = forged(AT_KEY, 1000);
    int result = 7;
    void *bytes;
    size_t size;

    (void)state;
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

/* ---- a peer that dies ---- */

static unsigned errors_told;

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    assert_ptr_equal(arg, &here);
    assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    assert_non_null(ep);
    errors_told++;
}

/* The put was taken, and the peer never performs it: no flush says that it did. */
static void a_death_leaves_accesses_under_way(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    void *put, *flushing;
    ucp_ep_h ep;

    (void)state;
    assert_int_equal(connect_to(here, address, false, on_error, &ep), UCS_OK);
    kill_peer(child);
    put = ucp_put_nb(ep, data, MEMORY_SIZE, where(memory.bytes), key, NULL);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    flushing = ucp_ep_flush_nbx(ep, &(ucp_request_param_t){0});
    while (lines == 0)
        turn();
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(ucp_request_check_status(put), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(flushing), UCS_INPROGRESS);
    assert_null(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE));
    assert_int_equal(finish(put), UCS_ERR_CANCELED);
    (void)finish(flushing);
    assert_int_equal(flush_worker(), UCS_OK);
}

static void a_death_fails_the_flush_of_who_asks_for_it(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_ep_h ep;

    (void)state;
    errors_told = 0;
    assert_int_equal(connect_to(here, address, true, on_error, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_CONNECTION_RESET);
    while (errors_told == 0)
        turn();
}

static void a_close_ends_if_the_peer_dies(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    void *put, *closing;
    ucp_ep_h ep;

    (void)state;
    assert_int_equal(connect_to(here, address, true, on_error, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    put = ucp_put_nb(ep, data, MEMORY_SIZE, where(memory.bytes), key, NULL);
    closing = ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
    assert_int_equal(finish(put), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(finish(closing), UCS_OK);
}

static ucs_status_t closed_with;

static void close_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    closed_with = status;
    (void)ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE);
}

/* The progress of a flush calls it; the flush still knows its endpoint. */
static void an_error_callback_may_close_what_is_flushed(void **state)
{
    unsigned char address[UCPX_ADDRESS_MAX];
    pid_t child = start_peer(address);
    ucp_ep_h ep;

    (void)state;
    closed_with = UCS_OK;
    assert_int_equal(connect_to(here, address, true, close_failed, &ep), UCS_OK);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    assert_int_equal(finish(ucp_ep_flush_nb(ep, 0, NULL)), UCS_ERR_REJECTED);
    kill_peer(child);
    assert_int_equal(ucp_put_nbi(ep, data, 8, where(memory.bytes), key), UCS_OK);
    while (closed_with == UCS_OK)
        if (ucp_ep_flush(ep) != UCS_OK)
            break;
    while (closed_with == UCS_OK)
        turn();
    assert_int_equal(closed_with, UCS_ERR_CONNECTION_RESET);
}

/* ---- memory that is short ---- */

/* Maps memory, and accesses it. */
static ucs_status_t access_work(void)
{
    static uint64_t bytes[SIZE], in[SIZE];
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = bytes,
                                         .length = sizeof bytes};
    ucp_rkey_h its = NULL;
    ucs_status_t status;
    void *packed;
    ucp_mem_h mem;
    size_t size;

    if ((status = ucp_mem_map(context, &params, &mem)) != UCS_OK)
        return status;
    status = ucp_rkey_pack(context, mem, &packed, &size);
    if (status == UCS_OK) {
        status = ucp_ep_rkey_unpack(to, packed, &its);
        ucp_rkey_buffer_release(packed);
    }
    if (status == UCS_OK)
        status = ucp_put_nbi(to, data, 8, where(bytes), its);
    if (status == UCS_OK)
        status = ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 1, 8, where(bytes), its);
    if (status == UCS_OK)
        status = finish(ucp_get_nb(to, in, sizeof in, where(bytes), its, NULL));
    (void)flush();
    ucp_rkey_destroy(its);
    ucp_mem_unmap(context, mem);
    return status;
}

static void memory_that_is_short_is_an_error(void **state)
{
    ucs_status_t status = UCS_INPROGRESS;

    (void)state;
    mbx_log_callback(note, NULL);
    for (uint64_t n = 1; status != UCS_OK; n++) {
        mem_fail_at(n);
        status = open_pair(UCS_THREAD_MODE_SINGLE);
        if (status == UCS_OK)
            status = access_work();
        mem_fail_at(0);
        close_pair();
        assert_true(status == UCS_OK || status == UCS_ERR_NO_MEMORY);
        assert_int_equal(mem_live(), 0);
    }
    mbx_log_callback(NULL, NULL);
}

/* ---- threads ---- */

/* Each thread adds to one counter, and has a slot and a region of its own. */
static void *access_memory(void *arg)
{
    uint64_t id = (uintptr_t)arg, in = 0, *slots = (void *)(memory.bytes + 64);
    uint64_t counter = where(slots), slot = where(slots + id);
    unsigned char own_bytes[SIZE];

    for (uint64_t out = 1; out <= ROUNDS; out++) {
        ucp_mem_h mem = map(own_bytes, sizeof own_bytes, ANY_PROT);

        assert_int_equal(ucp_atomic_add64(to, 1, counter, key), UCS_OK);
        assert_int_equal(ucp_put_nbi(to, &out, sizeof out, slot, key), UCS_OK);
        assert_int_equal(finish(ucp_get_nb(to, &in, sizeof in, slot, key, NULL)), UCS_OK);
        assert_true(in == out);
        ucp_mem_unmap(context, mem);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[4];

    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void threads_share_accesses(void **state)
{
    uint64_t *slots = (void *)(memory.bytes + 64);

    (void)state;
    assert_int_equal(open_pair(UCS_THREAD_MODE_MULTI), UCS_OK);
    memset(&memory, 0, sizeof memory);
    mapped = map(memory.bytes, MEMORY_SIZE, ANY_PROT);
    pack_key(mapped, key_bytes);
    key = key_of(key_bytes);
    run_threads(access_memory);
    assert_int_equal(flush(), UCS_OK);
    assert_int_equal(slots[0], 4 * ROUNDS);
    ucp_rkey_destroy(key);
    ucp_mem_unmap(context, mapped);
    close_pair();
}

/* A worker of its own for each thread: each maps memory, which all workers serve. */
static void *map_memory(void *arg)
{
    unsigned char own_bytes[SIZE];
    ucp_worker_h worker;

    (void)arg;
    assert_int_equal(open_worker(UCS_THREAD_MODE_SINGLE, &worker), UCS_OK);
    for (int i = 0; i < ROUNDS; i++) {
        ucp_mem_h mem = map(own_bytes, sizeof own_bytes, ANY_PROT);

        ucp_worker_progress(worker);
        ucp_mem_unmap(context, mem);
    }
    ucp_worker_destroy(worker);
    return NULL;
}

static void threads_share_a_context(void **state)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                               UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                 .features = UCP_FEATURE_RMA,
                                 .mt_workers_shared = 1};

    (void)state;
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    run_threads(map_memory);
    ucp_cleanup(context);
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
        cmocka_unit_test_setup_teardown(atomics_are_those_of_the_interface, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_flush_waits_for_the_owner_of_the_memory, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(short_puts_that_wait_have_a_copy, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_close_waits_for_accesses, open_memory, close_memory),
        cmocka_unit_test_setup_teardown(a_forced_close_cancels_accesses, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(requests_of_accesses_are_as_others, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(memory_that_is_unmapped_is_left_alone, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(each_worker_serves_the_regions_of_its_context,
                                        open_memory, close_memory),
        cmocka_unit_test_setup_teardown(a_handler_may_wait_for_an_access, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(nobody_comes_too_late_each_time, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(keys_are_packed_and_compared, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_death_leaves_accesses_under_way, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(a_close_ends_if_the_peer_dies, open_memory,
                                        close_memory),
        cmocka_unit_test_setup_teardown(an_error_callback_may_close_what_is_flushed,
                                        open_memory, close_memory),
        cmocka_unit_test_setup_teardown(a_death_fails_the_flush_of_who_asks_for_it, open_memory,
                                        close_memory),
        cmocka_unit_test(memory_that_is_short_is_an_error),
        cmocka_unit_test(threads_share_accesses),
        cmocka_unit_test(threads_share_a_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
