/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * short_test.c - records of 16 and of 8 bytes: which are so short, and what is in them; what is damaged
 * or forged is noticed.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/unit.h"
#include "trace/trace_testing.h"

/* ---- stories ---- */

/* All but two of them are short records. */
static struct trace_event short_at(unsigned i)
{
    const struct trace_event first = {TRACE_POST, 1, 2, 3, {4}, 1, 0, 0};
    const struct trace_event other = {
        TRACE_ARRIVE, 1, 2, 3, {0}, 0, UINT64_MAX - (uint64_t)i * (i + 1), 0};

    return i == 0 ? first : other;
}

/* All but two long ones and a short one are tiny records. */
static struct trace_event tiny_at(unsigned i)
{
    const struct trace_event first = {TRACE_POST, 1, 2, 3, {4}, 1, 0, 0};
    const struct trace_event other = {TRACE_ARRIVE, 1, 2, 3, {0}, 0, UINT64_MAX - i, 0};

    return i == 0 ? first : other;
}

/* Numbers go on by the same, and forms take each other's numbers. */
static struct trace_event regular_at(unsigned i)
{
    const uint32_t source = i / 12 * 7 % 400;
    const struct trace_event kinds[] = {
        {TRACE_POST, 1, source, 3, {4}, i + 1, 0, 0},
        {TRACE_ARRIVE, 1, source, 3, {0}, 0, i + 1, 0},
        {TRACE_TAKE, 1, source, 3, {0}, i + 1, 2 * i + 1, 0},
    };

    return kinds[i % ARRAY_COUNT(kinds)];
}

/* Events of many peers: sometimes a form has the number that another one had.  Entries grow and shrink, by little and by
 * much. */
static struct trace_event mixed_at(unsigned i)
{
    static const enum trace_type types[] = {TRACE_POST, TRACE_ARRIVE, TRACE_TAKE};
    uint64_t chance = (i + 1) * UINT64_C(0x9e3779b97f4a7c15), n;
    enum trace_type type;

    chance ^= chance >> 31;
    chance *= UINT64_C(0xbf58476d1ce4e5b9);
    chance ^= chance >> 29;
    type = types[chance % 3];
    n = (chance >> 40) % 8 == 0 ? chance | 1 : ((uint64_t)i << 20 | (chance >> 20 & 15)) + 1;
    return (struct trace_event){.type = type,
                                .context_id = 1 + (chance >> 8 & 1),
                                .source = (uint32_t)(chance >> 16) % 40,
                                .tag = 5 + (chance >> 10 & 1),
                                .entry = type != TRACE_ARRIVE || chance >> 63 != 0 ? n : 0,
                                .partner = type == TRACE_TAKE                          ? n ^ 3
                                           : type == TRACE_ARRIVE && chance >> 63 == 0 ? n
                                                                                       : 0};
}

/* ---- contents of short records ---- */

static void test_round_trip(UNUSED void **state)
{
    static story_fn *const stories[] = {short_at, tiny_at, mixed_at, regular_at};

    for (size_t i = 0; i < ARRAY_COUNT(stories); i++)
        try_round_trips(stories[i]);
}

/* A short record and a tiny one, bit by bit. */
static void test_layout(UNUSED void **state)
{
    const size_t first = 64, second = 64 + 56;
    struct trace_recorder *recorder;
    uint64_t form, word;
    unsigned char check[4];

    assert_int_equal(start_recorder(3, &recorder), 0);
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1000, 70, 0});
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1005, 69, 0});
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1010, 68, 0});
    trace_stop(recorder);
    assert_int_equal(load_file(trace_path(0)), 64 + 56 + 16 + 8 + 56);
    assert_int_equal(number_at(second + 16, 4), TRACE_TAKE | 64 | 7 << 8);
    memcpy(check, bytes + second + 20, sizeof check);
    put_check(second + 16, 8, second + 20, 2);
    assert_memory_equal(check, bytes + second + 20, sizeof check);
    form = number_at(first + 2, 2);
    word = number_at(second, 8);
    assert_int_equal(word >> 7 & 1, 1);
    assert_int_equal((word & 127) | (word >> 8 & 3) << 7, form);
    assert_int_equal(word >> 10 & ((1u << 27) - 1), (1u << 26) + 5);
    assert_int_equal(word >> 37, (1u << 26) - 1);
    assert_int_equal(number_at(second + 8, 4), 7);
    memcpy(check, bytes + second + 12, sizeof check);
    put_check(second, 16, second + 12, 1);
    assert_memory_equal(check, bytes + second + 12, sizeof check);
}

/* ---- which records are short ---- */

/* The size of the record of an event that has these numbers, late_ns after an event of its form whose numbers were
 * `before`.  It is read as it was recorded. */
static size_t size_after(uint64_t before, uint64_t entry, uint64_t partner, uint64_t late_ns)
{
    static struct trace_reader reader;
    struct trace_event event = {TRACE_TAKE, 1, 2, 3, {0}, before, before, 0};
    struct trace_recorder *recorder;
    struct trace_event got;
    size_t size;

    assert_int_equal(start_recorder(3, &recorder), 0);
    trace_record(recorder, &event);
    event.entry = entry;
    event.partner = partner;
    now_ns += late_ns - TICK_NS;
    trace_record(recorder, &event);
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    assert_int_equal(trace_next(&reader, &got), 1);
    assert_int_equal(trace_next(&reader, &got), 1);
    assert_int_equal(got.entry, entry);
    assert_int_equal(got.partner, partner);
    assert_int_equal(got.delta_ns, late_ns);
    trace_close(&reader);
    load_file(trace_path(0));
    size = size_at(bytes, 64 + 56);
    unlink(trace_path(0));
    return size;
}

static void test_short_space(UNUSED void **state)
{
    const uint64_t half = UINT64_C(1) << 26, n = UINT64_C(1) << 40;

    assert_int_equal(size_after(n, n, n, 7), 16);
    assert_int_equal(size_after(n, n + half - 1, n, 7), 16);
    assert_int_equal(size_after(n, n + half, n, 7), 56);
    assert_int_equal(size_after(n, n - half + 1, n, 7), 16);
    assert_int_equal(size_after(n, n - half, n, 7), 56); /* 0 is the number 0 */
    assert_int_equal(size_after(n, n, n + half - 1, 7), 16);
    assert_int_equal(size_after(n, n, n + half, 7), 56);
    assert_int_equal(size_after(n, n, n - half, 7), 56);
    assert_int_equal(size_after(5, UINT64_MAX, 5, 7), 16);
    assert_int_equal(size_after(5, 5, 5, UINT32_MAX), 16);
    assert_int_equal(size_after(5, 5, 5, UINT64_C(1) << 32), 56);
}

/* The size of the third record of a type, late_ns after the second.  It is read as it was recorded. */
static size_t size_of_third(uint64_t late_ns)
{
    static struct trace_reader reader;
    struct trace_event event = {TRACE_CLAIM, 1, 2, 3, {0}, 1, 0, 0}, got;
    struct trace_recorder *recorder;
    size_t size;

    assert_int_equal(start_recorder(3, &recorder), 0);
    for (; event.entry <= 3; event.entry++) {
        now_ns += event.entry == 3 ? late_ns - TICK_NS : 0;
        trace_record(recorder, &event);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(trace_next(&reader, &got), 1);
        assert_int_equal(got.entry, i);
        assert_int_equal(got.delta_ns, i == 3 ? late_ns : TICK_NS);
    }
    trace_close(&reader);
    load_file(trace_path(0));
    size = size_at(bytes, 64 + 56 + 16);
    unlink(trace_path(0));
    return size;
}

static void test_tiny_space(UNUSED void **state)
{
    assert_int_equal(size_of_third(7), 8);
    assert_int_equal(size_of_third((1u << 24) - 1), 8);
    assert_int_equal(size_of_third(1u << 24), 16);
}

/* ---- damaged files ---- */

static void test_killed_at_the_end_of_a_piece(UNUSED void **state)
{
    enum {
        END = 8 * TRACE_PIECE,
        SHORTS = (END - TRACE_HEADER_SIZE - 2 * TRACE_RECORD_SIZE) / TRACE_SHORT_SIZE,
        TINIES = 2 * SHORTS - 2
    };

    /* so many records end where a piece does */
    static_assert(TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE + SHORTS * TRACE_SHORT_SIZE == END,
                  "short ones");
    story = short_at;
    try_kill_at_the_end(2 + SHORTS, 3);
    try_kill_at_the_end(2 + SHORTS, 8);
    story = tiny_at;
    try_kill_at_the_end(3 + TINIES, 3);
}

static void test_truncated(UNUSED void **state)
{
    story = short_at;
    try_each_cut(70);
    story = tiny_at;
    try_each_cut(70);
}

static void test_each_bit_flipped(UNUSED void **state)
{
    story = short_at;
    try_each_bit(8);
    story = tiny_at;
    try_each_bit(9);
}

/* Records that are whole but stand elsewhere. */
static void test_moved_records(UNUSED void **state)
{
    story = short_at;
    assert_int_equal(try_swap(TRACE_SHORT_SIZE),
                     TRACE_HEADER_SIZE + 3 * TRACE_RECORD_SIZE + 8 * TRACE_SHORT_SIZE);
}

/* ---- forged records ---- */

/* The error for a short record with this first word, after two records of the story. */
static const char *said_of_short(uint64_t word)
{
    unsigned char first[8];

    for (size_t i = 0; i < sizeof first; i++)
        first[i] = (unsigned char)(word >> 8 * i);
    return said_of_forged(TRACE_SHORT_SIZE, 0, first, sizeof first);
}

/* The error for a tiny record of this type, after two records of the story. */
static const char *said_of_tiny(unsigned type)
{
    const unsigned char first[4] = {(unsigned char)(type | 64)};

    return said_of_forged(TRACE_TINY_SIZE, 0, first, sizeof first);
}

/* The first word of a short record, which is of this form instead. */
static uint64_t with_form(uint64_t word, uint64_t form)
{
    return (word & ~UINT64_C(0x37f)) | (form & 127) | (form >> 7) << 8;
}

static void test_forged_short(UNUSED void **state)
{
    uint64_t same, other = 0;

    story = short_at;
    make_file(3);
    load_file(trace_path(0));
    unlink(trace_path(0));
    same = number_at(TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE, 8);
    while (other == number_at(TRACE_HEADER_SIZE + 2, 2) ||
           other == number_at(TRACE_HEADER_SIZE + TRACE_RECORD_SIZE + 2, 2))
        other++;
    assert_non_null(strstr(said_of_short(with_form(same, other)),
                           "record 2: it is like an event that is not there"));
    /* an arrive without a partner, and with an entry besides */
    assert_non_null(strstr(said_of_short(same & ((UINT64_C(1) << 37) - 1)),
                           "record 2: it needs an entry or a partner"));
    assert_non_null(
        strstr(said_of_short(same | 1 << 10), "record 2: it needs an entry or a partner"));
}

/* Before it there were long records of posts and arrives, and no records of other types. */
static void test_forged_tiny(UNUSED void **state)
{
    story = short_at;
    for (unsigned type = 0; type < 64; type++)
        assert_non_null(
            strstr(said_of_tiny(type), "record 2: it is like an event that is not there"));
}

static struct trace_event peek_at(unsigned i)
{
    return (struct trace_event){
        .type = TRACE_PEEK, .context_id = 1, .source = 2, .tag = i < 2 ? 3 : 4};
}

/* A tiny record is like no long one: neither like the short one before that, nor like what a word of 0 would say. */
static void test_forged_tiny_after_a_long_one(UNUSED void **state)
{
    const size_t third = TRACE_HEADER_SIZE + TRACE_RECORD_SIZE + TRACE_SHORT_SIZE;
    const size_t fourth = third + TRACE_RECORD_SIZE;
    char error[TRACE_ERROR_MAX];
    unsigned count;

    story = peek_at;
    make_file(3);
    assert_int_equal(load_file(trace_path(0)), fourth + TRACE_RECORD_SIZE);
    memset(bytes + third + 2, 0, 2);
    put_check(third, TRACE_RECORD_SIZE, third + 12, 2);
    memset(bytes + fourth, 0, TRACE_TINY_SIZE);
    bytes[fourth] = TRACE_PEEK | 64;
    put_check(fourth, TRACE_TINY_SIZE, fourth + 4, 3);
    store_file(trace_path(0), fourth + TRACE_TINY_SIZE);
    assert_int_equal(read_file(trace_path(0), 3, &count, error), -EBADMSG);
    assert_int_equal(count, 3);
    assert_non_null(strstr(error, "record 3: it is like an event that is not there"));
}

/* A long record gives a form a number that there is not. */
static void test_forged_form(UNUSED void **state)
{
    story = long_at;
    assert_non_null(strstr(said_of_forged(TRACE_RECORD_SIZE, 3, &(unsigned char){2}, 1),
                           "record 2: its form has a number"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_layout),
        TEST(test_short_space),
        TEST(test_tiny_space),
        TEST(test_killed_at_the_end_of_a_piece),
        TEST(test_truncated),
        TEST(test_each_bit_flipped),
        TEST(test_moved_records),
        TEST(test_forged_short),
        TEST(test_forged_tiny),
        TEST(test_forged_tiny_after_a_long_one),
        TEST(test_forged_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
