/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_test.c - the ring compared with a queue, with two threads, and with a peer that breaks
 * the protocol.
 *
 * Byte i of record n is a function of (n, i), so each record shows whether it arrived complete,
 * in order and unmixed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/ring.h"
#include "base/unit.h"

struct pair {
    struct ring *shared;
    struct ring_producer p;
    struct ring_consumer c;
    uint32_t sent, received; /* records */
};

static void pair_init(struct pair *pair, uint32_t cell_count)
{
    size_t size = ring_bytes(cell_count);

    *pair = (struct pair){.shared = mem_alloc_aligned(CACHE_LINE, size)};
    assert_non_null(pair->shared);
    memset(pair->shared, 0, size);
    ring_producer_init(&pair->p, pair->shared, cell_count);
    ring_consumer_init(&pair->c, pair->shared, cell_count);
}

/* Starts as if this many cells had already passed: counters close to their overflow. */
static void pair_start_at(struct pair *pair, uint64_t start)
{
    pair->p.tail = pair->p.head_seen = pair->p.zeroed = start;
    pair->c.head = pair->c.published = start;
    pair->shared->head = start;
}

static void pair_fini(struct pair *pair)
{
    mem_free(pair->shared);
}

static unsigned char pattern(uint32_t record, uint32_t i)
{
    return (unsigned char)(record * 131 + i * 7 + (i >> 8));
}

static bool try_send(struct pair *pair, uint32_t size)
{
    unsigned char *record = ring_reserve(&pair->p, size);

    if (record == NULL)
        return false;
    for (uint32_t i = RING_FRAME_SIZE; i < size; i++)
        record[i] = pattern(pair->sent, i);
    ring_publish(&pair->p, record, size);
    pair->sent++;
    return true;
}

/* Receives, checks and releases the next record.  Returns its size; 0 if there is none. */
static uint32_t try_receive(struct pair *pair)
{
    uint32_t size;
    const unsigned char *record = ring_peek(&pair->c, &size);

    if (record == NULL)
        return 0;
    for (uint32_t i = RING_FRAME_SIZE; i < size; i++)
        if (record[i] != pattern(pair->received, i))
            fail_msg("record %u differs at byte %u of %u", pair->received, i, size);
    ring_release(&pair->c);
    pair->received++;
    return size;
}

/* ---- one thread ---- */

/* The expected contents of the ring: sizes, oldest first. */
struct queue {
    uint32_t sizes[4096];
    uint32_t first, count;
};

/* The cells that a record of this size needs: its own, the zero word after it, and the cells of
 * a skip. */
static uint64_t cells_needed(const struct pair *pair, uint32_t size)
{
    uint64_t own = (size + 63) / 64;
    uint64_t to_end = pair->p.cell_count - pair->p.tail % pair->p.cell_count;

    return own + 1 + (own > to_end ? to_end : 0);
}

static void run_against_queue(uint32_t cell_count, uint64_t start, uint64_t seed, int steps)
{
    static struct queue q;
    struct random r;
    struct pair pair;

    memset(&q, 0, sizeof q);
    random_seed(&r, seed);
    pair_init(&pair, cell_count);
    pair_start_at(&pair, start & ~(uint64_t)(cell_count - 1));
    for (int step = 0; step < steps; step++) {
        uint64_t what = random_below(&r, 100);

        if (what < 50) {
            uint32_t longest = random_below(&r, 2) != 0 ? ring_max_record(cell_count) : 80;
            uint32_t capacity = (uint32_t)min_size(longest, ring_max_record(cell_count));
            uint32_t size =
                RING_FRAME_SIZE + (uint32_t)random_below(&r, capacity - RING_FRAME_SIZE + 1);

            if (try_send(&pair, size))
                q.sizes[(q.first + q.count++) % ARRAY_COUNT(q.sizes)] = size;
            else /* refused for lack of space */
                assert_true(pair.p.tail - pair.c.published + cells_needed(&pair, size) >
                            cell_count);
        } else if (what < 97) {
            assert_int_equal(try_receive(&pair), q.count > 0 ? q.sizes[q.first] : 0);
            if (q.count > 0) {
                q.first = (q.first + 1) % ARRAY_COUNT(q.sizes);
                q.count--;
            }
        } else if (what < 98) {
            ring_consumer_flush(&pair.c);
        } else { /* reserved and written, but not published */
            unsigned char *record = ring_reserve(&pair.p, ring_max_record(cell_count));

            if (record != NULL)
                memset(record + RING_FRAME_SIZE, 0xff,
                       ring_max_record(cell_count) - RING_FRAME_SIZE);
        }
        if (q.count > 0)
            assert_false(ring_is_empty(&pair.c));
        assert_true(pair.p.tail - pair.c.head <= cell_count); /* I1 */
        assert_true(pair.c.head - pair.c.published <
                    cell_count / 4 + ring_max_record(cell_count) / RING_CELL_SIZE); /* I5 */
        assert_int_equal(*ring_frame(pair.shared, (uint32_t)pair.p.tail & (cell_count - 1)),
                         0); /* I2 */
    }
    assert_int_equal(pair.p.error, 0);
    assert_int_equal(pair.c.error, 0);
    pair_fini(&pair);
}

static int queue_steps = 10000;

static void test_random_records_against_a_queue(UNUSED void **state)
{
    for (uint32_t cells = RING_MIN_CELLS; cells <= 1024; cells *= 2)
        for (uint64_t seed = 1; seed <= 4; seed++)
            run_against_queue(cells, 0, seed, queue_steps);
}

static void test_counters_may_overflow(UNUSED void **state)
{
    run_against_queue(16, (UINT64_C(1) << 32) - 64, 5, queue_steps);
    run_against_queue(16, UINT64_MAX - 64, 6, queue_steps);
}

/* Each size from each cell of the ring: with and without a skip. */
static void test_every_size_from_every_cell(UNUSED void **state)
{
    enum { CELLS = 32 };

    for (uint32_t cell = 0; cell < CELLS; cell++) {
        for (uint32_t size = RING_FRAME_SIZE; size <= ring_max_record(CELLS); size++) {
            struct pair pair;

            pair_init(&pair, CELLS);
            pair_start_at(&pair, cell);
            assert_true(try_send(&pair, size));
            assert_true(try_send(&pair, RING_FRAME_SIZE));
            assert_int_equal(try_receive(&pair), size);
            assert_int_equal(try_receive(&pair), RING_FRAME_SIZE);
            assert_int_equal(try_receive(&pair), 0);
            pair_fini(&pair);
        }
    }
}

static void test_an_empty_ring_takes_the_longest_without_a_flush(UNUSED void **state)
{
    for (uint32_t cells = RING_MIN_CELLS; cells <= 256; cells *= 2) {
        struct random r;
        struct pair pair;

        random_seed(&r, cells);
        pair_init(&pair, cells);
        for (int i = 0; i < 3000; i++) {
            uint32_t longest = ring_max_record(cells);
            uint32_t size = random_below(&r, 2) != 0
                                ? longest
                                : RING_FRAME_SIZE + (uint32_t)random_below(&r, longest - 3);

            assert_true(try_send(&pair, size));
            assert_int_equal(try_receive(&pair), size);
        }
        pair_fini(&pair);
    }
}

static void test_full_ring_refuses_and_recovers(UNUSED void **state)
{
    struct pair pair;
    int sent = 0;

    pair_init(&pair, 16);
    while (try_send(&pair, 64))
        sent++;
    assert_int_equal(sent, 15); /* one cell holds the zero word after the last record */
    assert_int_equal(try_receive(&pair), 64);
    assert_false(try_send(&pair, 64)); /* the head is not published yet */
    ring_consumer_flush(&pair.c);
    assert_true(try_send(&pair, 64));
    assert_false(try_send(&pair, 64));
    for (int i = 0; i < 4; i++) /* a quarter of the ring is published without a flush */
        assert_int_equal(try_receive(&pair), 64);
    assert_true(try_send(&pair, 64));
    pair_fini(&pair);
}

static void test_peek_again_gives_the_same_record(UNUSED void **state)
{
    struct pair pair;
    uint32_t size = 0;
    void *record;

    pair_init(&pair, 16);
    assert_true(ring_is_empty(&pair.c));
    assert_true(try_send(&pair, 100));
    assert_true(try_send(&pair, 30));
    assert_false(ring_is_empty(&pair.c));
    record = ring_peek(&pair.c, &size);
    assert_ptr_equal(ring_peek(&pair.c, &size), record);
    assert_int_equal(size, 100);
    assert_int_equal((uintptr_t)record % CACHE_LINE, 0);
    assert_int_equal(try_receive(&pair), 100);
    assert_int_equal(try_receive(&pair), 30);
    assert_true(ring_is_empty(&pair.c));
    pair_fini(&pair);
}

static void test_publish_may_shrink_the_record(UNUSED void **state)
{
    struct pair pair;
    void *record;

    pair_init(&pair, 16);
    record = ring_reserve(&pair.p, 256);
    memset(record, 0xff, 256);
    ring_publish(&pair.p, record, RING_FRAME_SIZE);
    pair.sent++;
    assert_true(try_send(&pair, 64));
    assert_int_equal(try_receive(&pair), RING_FRAME_SIZE);
    assert_int_equal(try_receive(&pair), 64);
    assert_int_equal(pair.p.tail, 2);
    pair_fini(&pair);
}

/* ---- a peer that breaks the protocol ---- */

/* Lets the consumer at `cell` find `frame` there (and `frame_at_0` in cell 0). */
static int error_of_frame(uint32_t cell, uint32_t frame, uint32_t frame_at_0)
{
    struct pair pair;
    uint32_t size = 0;
    void *record;
    int error;

    pair_init(&pair, 16);
    pair_start_at(&pair, cell);
    *ring_frame(pair.shared, 0) = frame_at_0;
    *ring_frame(pair.shared, cell) = frame;
    record = ring_peek(&pair.c, &size);
    error = pair.c.error;
    assert_int_equal(error != 0, record == NULL);
    if (error != 0) { /* broken, even if the frame becomes valid again */
        *ring_frame(pair.shared, 0) = 64;
        *ring_frame(pair.shared, cell) = 64;
        assert_null(ring_peek(&pair.c, &size));
        *ring_frame(pair.shared, cell) = RING_SKIP;
        assert_null(ring_peek(&pair.c, &size));
        assert_true(ring_is_empty(&pair.c));
        assert_int_equal(pair.c.error, error);
    }
    pair_fini(&pair);
    return error;
}

static void test_impossible_frames_kill_the_consumer(UNUSED void **state)
{
    assert_int_equal(error_of_frame(5, 4, 0), 0);
    assert_int_equal(error_of_frame(5, 320, 0), 0); /* 5 of 16 cells */
    assert_int_equal(error_of_frame(12, 256, 0), 0);
    assert_int_equal(error_of_frame(15, RING_SKIP, 64), 0);
    for (uint32_t frame = 1; frame < RING_FRAME_SIZE; frame++)
        assert_int_equal(error_of_frame(5, frame, 0), -EPROTO);
    assert_int_equal(error_of_frame(5, 321, 0), -EPROTO);
    assert_int_equal(error_of_frame(5, 1u << 31, 0), -EPROTO);
    assert_int_equal(error_of_frame(5, RING_SKIP - 1, 0), -EPROTO);
    assert_int_equal(error_of_frame(13, 193, 0), -EPROTO); /* crosses the end */
    assert_int_equal(error_of_frame(15, 65, 0), -EPROTO);
    assert_int_equal(error_of_frame(0, RING_SKIP, RING_SKIP), -EPROTO); /* an endless skip */
    assert_int_equal(error_of_frame(5, RING_SKIP, RING_SKIP), -EPROTO);
    assert_int_equal(error_of_frame(5, RING_SKIP, 321), -EPROTO);
}

static void test_impossible_heads_kill_the_producer(UNUSED void **state)
{
    static const int64_t wrong_heads[] = {1, 2, 1000, INT64_MAX, INT64_MIN, -17};
    struct pair pair;

    for (size_t i = 0; i < ARRAY_COUNT(wrong_heads); i++) {
        pair_init(&pair, 16);
        pair_start_at(&pair, 32);
        while (try_send(&pair, 64))
            continue;
        assert_int_equal(pair.p.error, 0);
        pair.shared->head = pair.p.tail + (uint64_t)wrong_heads[i];
        assert_false(try_send(&pair, 64));
        assert_int_equal(pair.p.error, -EPROTO);
        pair.shared->head = pair.p.tail; /* too late */
        assert_false(try_send(&pair, 64));
        assert_int_equal(pair.p.error, -EPROTO);
        pair_fini(&pair);
    }
}

static void test_a_dead_producer_does_not_use_the_space_it_knew(UNUSED void **state)
{
    struct pair pair;

    pair_init(&pair, 16);
    for (int i = 0; i < 12; i++)
        assert_true(try_send(&pair, 64));
    pair.shared->head = 1000;
    assert_false(try_send(&pair, 256)); /* needs 5 cells, knows of 4: reads the head */
    assert_int_equal(pair.p.error, -EPROTO);
    assert_false(try_send(&pair, 64));
    pair_fini(&pair);
}

/* Random bytes everywhere: nothing outside the ring is touched (ASan would report it). */
static void test_random_garbage_is_survived(UNUSED void **state)
{
    struct random r;
    struct pair pair;

    random_seed(&r, 9);
    for (int round = 0; round < 2000; round++) {
        pair_init(&pair, 16);
        for (uint32_t cell = 0; cell < 16; cell++) {
            uint64_t kind = random_below(&r, 4);

            *ring_frame(pair.shared, cell) = kind == 0   ? RING_SKIP
                                             : kind == 1 ? (uint32_t)random_next(&r)
                                                         : (uint32_t)random_below(&r, 260);
        }
        for (int i = 0; i < 40; i++) {
            uint32_t size = 0;
            unsigned char *record = ring_peek(&pair.c, &size);

            if (record == NULL)
                break;
            memset(record + RING_FRAME_SIZE, 0, size - RING_FRAME_SIZE);
            ring_release(&pair.c);
        }
        pair_fini(&pair);
    }
}

/* ---- two threads ---- */

static uint32_t stream_records = 60000;

struct stream {
    struct pair pair;
    _Atomic bool failed;
};

static uint32_t stream_size(struct random *r, uint32_t cell_count)
{
    uint32_t longest = random_below(r, 8) == 0 ? ring_max_record(cell_count) : RING_CELL_SIZE;

    return RING_FRAME_SIZE + (uint32_t)random_below(r, longest - RING_FRAME_SIZE + 1);
}

static void *produce(void *arg)
{
    struct stream *s = arg;
    struct random r;

    random_seed(&r, 10);
    for (uint32_t n = 0; n < stream_records; n++) {
        uint32_t size = stream_size(&r, s->pair.p.cell_count);

        while (!try_send(&s->pair, size)) {
            if (s->failed)
                return arg;
            sched_yield();
        }
    }
    return arg;
}

/* cmocka's checks must not be used in this thread. */
static const char *consume(struct stream *s)
{
    struct random r;

    random_seed(&r, 10);
    while (s->pair.received < stream_records) {
        uint32_t size, expected;
        const unsigned char *record = ring_peek(&s->pair.c, &size);

        if (record == NULL) {
            if (s->pair.c.error != 0)
                return "the ring broke";
            sched_yield();
            continue;
        }
        expected = stream_size(&r, s->pair.c.cell_count);
        if (size != expected)
            return "a record has another size";
        for (uint32_t i = RING_FRAME_SIZE; i < size; i++)
            if (record[i] != pattern(s->pair.received, i))
                return "a record has other bytes";
        ring_release(&s->pair.c);
        s->pair.received++;
    }
    return NULL;
}

static void run_stream(uint32_t cell_count)
{
    struct stream s = {.failed = false};
    const char *trouble;
    pthread_t thread;

    pair_init(&s.pair, cell_count);
    assert_int_equal(pthread_create(&thread, NULL, produce, &s), 0);
    trouble = consume(&s);
    s.failed = trouble != NULL;
    pthread_join(thread, NULL);
    if (trouble != NULL)
        fail_msg("%u cells, record %u: %s", cell_count, s.pair.received, trouble);
    assert_int_equal(s.pair.p.error, 0);
    pair_fini(&s.pair);
}

static void test_two_threads_stream(UNUSED void **state)
{
    run_stream(RING_MIN_CELLS);
    run_stream(16);
    run_stream(256);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_records_against_a_queue),
        cmocka_unit_test(test_counters_may_overflow),
        cmocka_unit_test(test_every_size_from_every_cell),
        cmocka_unit_test(test_an_empty_ring_takes_the_longest_without_a_flush),
        cmocka_unit_test(test_full_ring_refuses_and_recovers),
        cmocka_unit_test(test_peek_again_gives_the_same_record),
        cmocka_unit_test(test_publish_may_shrink_the_record),
        cmocka_unit_test(test_impossible_frames_kill_the_consumer),
        cmocka_unit_test(test_impossible_heads_kill_the_producer),
        cmocka_unit_test(test_a_dead_producer_does_not_use_the_space_it_knew),
        cmocka_unit_test(test_random_garbage_is_survived),
        cmocka_unit_test(test_two_threads_stream),
    };

    if (argc == 2 && strcmp(argv[1], "--quick") == 0) {
        stream_records /= 6;
        queue_steps /= 5;
    } else if (argc > 1) {
        fprintf(stderr, "usage: ring_test [--quick]\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
