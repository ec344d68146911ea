/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_test.c - what was recorded is read back; what is damaged is noticed, and what
 * was whole before it is read all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "trace/trace.h"

#define EVENTS_MAX 5000

static char folder[64];
static unsigned warnings;
static uint64_t now_ns;

/* What is recorded, and expected of a file: its i-th event. */
static struct trace_event event_at(unsigned i);
static struct trace_event (*story)(unsigned i) = event_at;

static void count_line(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)text;
    warnings += level == LOG_LEVEL_WARN;
}

static uint64_t tick(void)
{
    return now_ns += 7;
}

static const char *path_of(unsigned n)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/matchbox-0000000b-%ld-%u.trace", folder, (long)getpid(), n);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/matchbox-trace-test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    log_set_sink(count_line, NULL);
    clock_set(tick);
    warnings = 0;
    now_ns = 1000;
    story = event_at;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sys_fail_none();
    mem_fail_at(0);
    clock_set(NULL);
    log_set_sink(NULL, NULL);
    for (unsigned n = 0; n < 4; n++)
        unlink(path_of(n));
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
    assert_int_equal(sys_fds_live(), 0);
    assert_int_equal(mem_live(), 0);
    return 0;
}

/* ---- events, and what is read of a file ---- */

/* The i-th event of a story in which all types, and extreme values, occur. */
static struct trace_event event_at(unsigned i)
{
    const uint64_t big = UINT64_MAX - i;
    const struct trace_event kinds[] = {
        {TRACE_POST, 1, 2, 3, {4}, i + 1, 0, 0},
        {TRACE_POST, 1, TRACE_ANY_SOURCE, big, {big}, big, 9, 0},
        {TRACE_ARRIVE, UINT32_MAX, 2, big, {0}, i + 1, 0, 0},
        {TRACE_ARRIVE, 1, 0, i, {0}, 0, big, 0},
        {TRACE_CANCEL, 1, TRACE_ANY_SOURCE, 3, {big}, i + 1, 0, 0},
        {TRACE_PEEK, 1, TRACE_ANY_SOURCE, 3, {big}, 0, 0, 0},
        {TRACE_PEEK, 1, 7, i, {0}, 0, 5, 0},
        {TRACE_CLAIM, 1, 2, 3, {0}, i + 1, 0, 0},
        {TRACE_TAKE, 1, 2, 3, {0}, i + 1, 6, 0},
        {TRACE_DISCARD, 0, 0, 0, {0}, i + 1, 0, 0},
        {TRACE_SEND, 1, 2, 3, {big}, i + 1, 0, 0},
        {TRACE_LEAVE, 1, 2, 3, {2}, i + 1, big, 0},
        {TRACE_SENT, 1, 2, 3, {1}, 0, i + 1, 0},
        {TRACE_SENT, 1, 2, 3, {4}, big, 0, 0},
        {TRACE_RECEIVED, 1, 2, 3, {big}, i + 1, 0, 0},
        {TRACE_RTS, 1, 2, 3, {0}, i + 1, 0, 0},
        {TRACE_READ, 1, 2, 3, {big}, i + 1, 0, 0},
        {TRACE_FIN, 1, 2, 3, {0}, i + 1, 0, 0},
        {TRACE_HAND, 1, TRACE_ANY_SOURCE, 3, {7}, i + 1, 0, 0},
        {TRACE_WAIT, 0, 0, 0, {10000}, i + 1, 0, 0},
        {TRACE_WAITED, 0, 0, 0, {big}, i + 1, 700, 0},
        {TRACE_CLOCK, 0, 0, 0, {big}, i + 1, 0, 0},
        {TRACE_AT, 0, 0, 0, {0}, i + 1, 0, 0},
        {TRACE_AT, 0, 0, 0, {0}, i + 1, 1, 0},
    };

    return kinds[i % ARRAY_COUNT(kinds)];
}

/* All of them are long records. */
static struct trace_event long_at(unsigned i)
{
    const struct trace_event kinds[] = {
        {TRACE_POST, 1, 2, i, {4}, i + 1, 0, 0},
        {TRACE_ARRIVE, 1, 2, i, {0}, 0, i + 1, 0},
        {TRACE_PEEK, 1, 2, i, {0}, 0, 0, 0},
        {TRACE_CLAIM, 1, 2, i, {0}, i + 1, 0, 0},
    };

    return kinds[i % ARRAY_COUNT(kinds)];
}

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

/* Of many peers: their forms have numbers of each other's now and then.  Numbers go forth and back, by little and by much. */
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

static const struct trace_info job = {.size = 4, .address = 12, .host = 11};

/* A process of the same number in another pid namespace, or on another machine. */
static const struct trace_info elsewhere = {
    .size = 4, .address = 12, .host = UINT64_C(12) << 32};

static int start(uint32_t rank, struct trace_recorder **recorder)
{
    struct trace_info info = job;

    info.rank = rank;
    return trace_start(folder, &info, recorder);
}

static void record_events(struct trace_recorder *recorder, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct trace_event event = story(i);

        trace_record(recorder, &event);
    }
}

/* Writes the file of number 0. */
static void make_file(unsigned count)
{
    struct trace_recorder *recorder;

    assert_int_equal(start(3, &recorder), 0);
    record_events(recorder, count);
    trace_stop(recorder);
    assert_int_equal(warnings, 0);
}

static void assert_event(const struct trace_event *got, const struct trace_event *want)
{
    assert_int_equal(got->type, want->type);
    assert_int_equal(got->context_id, want->context_id);
    assert_int_equal(got->source, want->source);
    assert_int_equal(got->tag, want->tag);
    assert_int_equal(got->ignore, want->ignore);
    assert_int_equal(got->entry, want->entry);
    assert_int_equal(got->partner, want->partner);
    assert_int_equal(got->delta_ns, 7);
}

/* Reads until the end or an error: *count events, each as it was recorded, the close not
 * counted.  Returns what trace_open() or trace_next() said last. */
static int read_file(const char *path, unsigned total, unsigned *count, char *error)
{
    static struct trace_reader reader;
    struct trace_event event, again;
    int result = trace_open(&reader, path);

    *count = 0;
    if (result == 0) {
        while ((result = trace_next(&reader, &event)) == 1) {
            const struct trace_event want = story(*count);

            if (event.type == TRACE_CLOSE) {
                assert_int_equal(*count, total);
                continue;
            }
            assert_in_range(*count, 0, total);
            assert_event(&event, &want);
            (*count)++;
        }
        assert_int_equal(trace_next(&reader, &again), result); /* it stays so */
        trace_close(&reader);
    }
    assert_int_equal(result < 0, reader.error[0] != '\0');
    snprintf(error, TRACE_ERROR_MAX, "%s", reader.error);
    return result;
}

/* ---- files as bytes ---- */

static unsigned char bytes[EVENTS_MAX * TRACE_RECORD_SIZE];

static size_t load(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size;

    assert_non_null(file);
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return size;
}

static size_t size_at(const unsigned char *file, size_t at)
{
    return (file[at] & 128) != 0  ? TRACE_SHORT_SIZE
           : (file[at] & 64) != 0 ? TRACE_TINY_SIZE
                                  : TRACE_RECORD_SIZE;
}

/* So many records of the file are whole before there; *begin, if it is not NULL: where the next one begins. */
static unsigned records_before(const unsigned char *file, size_t end, size_t *begin)
{
    size_t at = TRACE_HEADER_SIZE;
    unsigned count = 0;

    for (; at + TRACE_TINY_SIZE <= end && at + size_at(file, at) <= end; count++)
        at += size_at(file, at);
    if (begin != NULL)
        *begin = at;
    return count;
}

/* It is not emptied before: what was goes to the disk at once when it is closed, with some file
 * systems, and there are thousands of these. */
static void store(const char *path, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static uint64_t number_at(size_t at, unsigned size)
{
    uint64_t number = 0;

    while (size-- > 0)
        number = number << 8 | bytes[at + size];
    return number;
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
    static struct trace_event (*const stories[])(unsigned) = {event_at, long_at,  short_at,
                                                              tiny_at,  mixed_at, regular_at};
    static const unsigned counts[] = {0, 1, 63, 64, 1023, 1024, 1025, 3000, 40000};
    char error[TRACE_ERROR_MAX];
    unsigned count;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(counts) * ARRAY_COUNT(stories); i++) {
        unsigned n = counts[i / ARRAY_COUNT(stories)];

        story = stories[i % ARRAY_COUNT(stories)];
        make_file(n);
        assert_int_equal(read_file(path_of(0), n, &count, error), 0);
        assert_int_equal(count, n);
        unlink(path_of(0));
    }
}

/* The table of trace.h, byte by byte. */
static void test_layout(void **state)
{
    const size_t first = 64, second = 64 + 56;

    (void)state;
    make_file(2);
    assert_int_equal(load(path_of(0)), 64 + 3 * 56);
    assert_memory_equal(bytes, "MBXTRACE", 8);
    assert_int_equal(number_at(8, 4), 5);
    assert_int_equal(number_at(12, 4), 56);
    assert_int_equal(number_at(16, 4), 3);
    assert_int_equal(number_at(20, 4), getpid());
    assert_int_equal(number_at(24, 4), 0);
    assert_int_equal(number_at(32, 8), 1007);
    assert_int_equal(number_at(40, 8), 11);
    assert_int_equal(number_at(48, 4), 4);
    assert_int_equal(number_at(52, 4), 12);
    assert_int_equal(number_at(56, 8), 0);
    assert_int_equal(number_at(first, 2), TRACE_POST);
    assert_in_range(number_at(first + 2, 2), 0, 511);
    assert_int_equal(number_at(first + 4, 4), 1);
    assert_int_equal(number_at(first + 8, 4), 2);
    assert_int_equal(number_at(first + 16, 8), 3);
    assert_int_equal(number_at(first + 24, 8), 4);
    assert_int_equal(number_at(first + 32, 8), 1);
    assert_int_equal(number_at(first + 40, 8), 0);
    assert_int_equal(number_at(first + 48, 8), 7);
    assert_int_equal(number_at(second + 8, 4), UINT32_MAX);
    assert_int_equal(number_at(second + 16, 8), UINT64_MAX - 1);
    assert_int_equal(number_at(second + 40, 8), 9);
    assert_int_equal(number_at(second + 56, 2), TRACE_CLOSE);
}

/* The check of bytes [from, from + size), and the number in it: the formula of docs/tracing.md. */
static void put_check(size_t from, size_t size, size_t at, uint64_t number)
{
    uint64_t sum = number ^ UINT64_C(0x6d626d6174636865);

    memset(bytes + at, 0, 4);
    for (size_t i = from; i < from + size; i += 8) {
        sum = (sum ^ number_at(i, 8)) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    for (size_t i = 0; i < 4; i++)
        bytes[at + i] = (unsigned char)((sum ^ sum >> 32) >> 8 * i);
}

/* A short record, bit by bit. */
static void test_short_layout(void **state)
{
    const size_t first = 64, second = 64 + 56;
    struct trace_recorder *recorder;
    uint64_t form, word;
    unsigned char check[4];

    (void)state;
    assert_int_equal(start(3, &recorder), 0);
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1000, 70, 0});
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1005, 69, 0});
    trace_record(recorder, &(struct trace_event){TRACE_TAKE, 1, 2, 3, {0}, 1010, 68, 0});
    trace_stop(recorder);
    assert_int_equal(load(path_of(0)), 64 + 56 + 16 + 8 + 56);
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

/* Of which size is the record of an event that has these numbers, and comes so late, behind one of its form with other numbers?
 * It is read as it was recorded. */
static size_t size_behind(uint64_t before, uint64_t entry, uint64_t partner, uint64_t late_ns)
{
    static struct trace_reader reader;
    struct trace_event event = {TRACE_TAKE, 1, 2, 3, {0}, before, before, 0};
    struct trace_recorder *recorder;
    struct trace_event got;
    size_t size;

    assert_int_equal(start(3, &recorder), 0);
    trace_record(recorder, &event);
    event.entry = entry;
    event.partner = partner;
    now_ns += late_ns - 7;
    trace_record(recorder, &event);
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    assert_int_equal(trace_next(&reader, &got), 1);
    assert_int_equal(trace_next(&reader, &got), 1);
    assert_int_equal(got.entry, entry);
    assert_int_equal(got.partner, partner);
    assert_int_equal(got.delta_ns, late_ns);
    trace_close(&reader);
    load(path_of(0));
    size = size_at(bytes, 64 + 56);
    unlink(path_of(0));
    return size;
}

static void test_short_room(void **state)
{
    const uint64_t half = UINT64_C(1) << 26, n = UINT64_C(1) << 40;

    (void)state;
    assert_int_equal(size_behind(n, n, n, 7), 16);
    assert_int_equal(size_behind(n, n + half - 1, n, 7), 16);
    assert_int_equal(size_behind(n, n + half, n, 7), 56);
    assert_int_equal(size_behind(n, n - half + 1, n, 7), 16);
    assert_int_equal(size_behind(n, n - half, n, 7), 56); /* 0 is the number 0 */
    assert_int_equal(size_behind(n, n, n + half - 1, 7), 16);
    assert_int_equal(size_behind(n, n, n + half, 7), 56);
    assert_int_equal(size_behind(n, n, n - half, 7), 56);
    assert_int_equal(size_behind(5, UINT64_MAX, 5, 7), 16);
    assert_int_equal(size_behind(5, 5, 5, UINT32_MAX), 16);
    assert_int_equal(size_behind(5, 5, 5, UINT64_C(1) << 32), 56);
}

/* Of which size is the third record of a type, which comes so late, and is read as it was recorded? */
static size_t size_of_third(uint64_t late_ns)
{
    static struct trace_reader reader;
    struct trace_event event = {TRACE_CLAIM, 1, 2, 3, {0}, 1, 0, 0}, got;
    struct trace_recorder *recorder;
    size_t size;

    assert_int_equal(start(3, &recorder), 0);
    for (; event.entry <= 3; event.entry++) {
        now_ns += event.entry == 3 ? late_ns - 7 : 0;
        trace_record(recorder, &event);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(trace_next(&reader, &got), 1);
        assert_int_equal(got.entry, i);
        assert_int_equal(got.delta_ns, i == 3 ? late_ns : 7);
    }
    trace_close(&reader);
    load(path_of(0));
    size = size_at(bytes, 64 + 56 + 16);
    unlink(path_of(0));
    return size;
}

static void test_tiny_room(void **state)
{
    (void)state;
    assert_int_equal(size_of_third(7), 8);
    assert_int_equal(size_of_third((1u << 24) - 1), 8);
    assert_int_equal(size_of_third(1u << 24), 16);
}

static void test_header(void **state)
{
    static struct trace_reader reader;

    (void)state;
    make_file(0);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    assert_int_equal(reader.info.rank, 3);
    assert_int_equal(reader.info.pid, getpid());
    assert_int_equal(reader.info.endpoint, 0);
    assert_int_equal(reader.info.start_ns, 1007);
    trace_close(&reader);
}

/* Each endpoint has a file of its own, which only its user can read. */
static void test_own_files(void **state)
{
    struct trace_recorder *recorders[2];
    char error[TRACE_ERROR_MAX];
    struct stat status;
    unsigned count;

    (void)state;
    make_file(5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start(TRACE_RANK_UNKNOWN, &recorders[i]), 0);
        record_events(recorders[i], 10);
    }
    for (int i = 0; i < 2; i++)
        trace_stop(recorders[i]);
    trace_stop(NULL);
    assert_int_equal(stat(path_of(2), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(read_file(path_of(0), 5, &count, error), 0);
    assert_int_equal(count, 5);
}

/* One number of a process in several pid namespaces: files that are gathered in one folder have different names. */
static void test_names_of_hosts(void **state)
{
    struct trace_recorder *recorder;
    char path[128];

    (void)state;
    make_file(1);
    assert_int_equal(trace_start(folder, &elsewhere, &recorder), 0);
    trace_stop(recorder);
    snprintf(path, sizeof path, "%s/matchbox-0000000c-%ld-0.trace", folder, (long)getpid());
    assert_int_equal(unlink(path), 0);
}

static void test_no_folder(void **state)
{
    struct trace_recorder *recorder = NULL;
    char long_name[600];

    (void)state;
    assert_int_equal(trace_start("/nonexistent", &job, &recorder), -ENOENT);
    assert_int_equal(trace_start("/dev/null", &job, &recorder), -ENOTDIR);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(trace_start(long_name, &job, &recorder), -ENAMETOOLONG);
    assert_null(recorder);
}

/* A file grows by pieces of 256 KiB, and is mapped in windows of 4 MiB, of which each begins with the last piece of the one before: whole records of
 * the first piece, if all are long; and events that need several windows. */
#define PIECE         (256u << 10)
#define PIECE_RECORDS ((PIECE - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE)
#define LONG          150000u
#define WINDOW_PIECES 16

static off_t size_of_file(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

/* The n-th call fails: the start says so, or one warning does, and what can be read is a
 * beginning of what was recorded. */
static void test_each_call_fails(void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count, refused = 0, warned = 0, harmless = 0, pieces, windows;

    (void)state;
    for (uint64_t n = 1;; n++) {
        struct trace_recorder *recorder;
        uint64_t before = sys_calls(), calls;
        int err;

        warnings = 0;
        sys_fail_at(n, ENOSPC);
        err = start(0, &recorder);
        if (err == 0) {
            record_events(recorder, LONG);
            trace_stop(recorder);
        }
        sys_fail_at(0, 0);
        calls = sys_calls() - before;
        assert_int_equal(sys_fds_live(), 0);
        assert_int_equal(sys_maps_live(), 0);
        assert_int_equal(mem_live(), 0);
        if (err != 0) {
            assert_int_equal(err, -ENOSPC);
            assert_int_equal(access(path_of(0), F_OK), -1);
            refused++;
            continue;
        }
        err = read_file(path_of(0), LONG, &count, error);
        pieces = (unsigned)((size_of_file(path_of(0)) + PIECE - 1) / PIECE);
        unlink(path_of(0));
        if (calls < n)
            break;
        assert_true(count >= PIECE_RECORDS); /* what the first piece held is there */
        if (warnings == 0) {
            assert_int_equal(err, 0);
            harmless++;
            continue;
        }
        assert_int_equal(warnings, 1);
        warned++;
        assert_true(err == 0 || err == -EBADMSG);
        assert_int_equal(count == LONG, err == 0 || strstr(error, "follows the close") != NULL);
    }
    assert_int_equal(warnings, 0);
    assert_int_equal(count, LONG);
    assert_int_equal(refused, 3); /* the open, the mapping, the first piece */
    windows = 1 + (pieces - 2) / (WINDOW_PIECES - 1);
    assert_true(windows >= 2);
    assert_int_equal(harmless, windows); /* each is unmapped, whatever the system says */
    assert_int_equal(warned, windows - 1 + pieces - 1 + 2); /* and the cut, the close */
}

static void test_no_memory(void **state)
{
    struct trace_recorder *recorder;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(start(0, &recorder), -ENOMEM);
        mem_fail_at(0);
        assert_int_equal(access(path_of(0), F_OK), -1);
    }
}

/* A disk that has room for some pieces, in two windows, and a part of one. */
static void test_full_disk(void **state)
{
    const struct rlimit small = {5000000, RLIM_INFINITY};
    struct rlimit old;
    struct trace_recorder *recorder;
    char error[TRACE_ERROR_MAX], offset[64];
    off_t room = (off_t)(small.rlim_cur / PIECE * PIECE), size;
    unsigned count;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(start(0, &recorder), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){small.rlim_cur, old.rlim_max}),
                     0);
    record_events(recorder, LONG);
    trace_stop(recorder);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(warnings, 1);
    assert_int_equal(read_file(path_of(0), LONG, &count, error), -EBADMSG);
    assert_non_null(strstr(error, "ends without a close"));
    size = size_of_file(path_of(0));
    assert_true(size <= room && size > room - TRACE_RECORD_SIZE);
    snprintf(offset, sizeof offset, "at offset %ld:", (long)size);
    assert_non_null(strstr(error, offset));
    assert_true(count >= (size - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE);
}

/* The file of process pid, number 0. */
static const char *path_of_process(pid_t pid)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/matchbox-0000000b-%ld-0.trace", folder, (long)pid);
    return path;
}

/* Records until it is killed; *recorded is behind by one at most. */
static void record_forever(_Atomic uint32_t *recorded)
{
    struct trace_recorder *recorder;

    if (start(3, &recorder) < 0)
        _exit(1);
    for (unsigned i = 0;; i++) {
        const struct trace_event event = story(i);

        trace_record(recorder, &event);
        atomic_store(recorded, i + 1);
    }
}

/* It is killed while it writes the last record that the file has room for: `torn` bytes of it are missing. */
static void killed_at_the_end(unsigned whole, size_t torn)
{
    const off_t end = 8 * (off_t)TRACE_PIECE;
    static const char zeros[20];
    struct trace_recorder *recorder;
    char path[128], error[TRACE_ERROR_MAX];
    unsigned count;
    int fd;

    assert_int_equal(start(3, &recorder), 0);
    record_events(recorder, whole);
    snprintf(path, sizeof path, "%s", path_of_process(getpid()));
    trace_stop(recorder);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, end), 0); /* without the close */
    assert_int_equal(pwrite(fd, zeros, torn, end - (off_t)torn), torn);
    assert_int_equal(close(fd), 0);
    assert_int_equal(read_file(path, UINT32_MAX, &count, error), -EBADMSG);
    assert_int_equal(count, whole - 1);
    assert_non_null(strstr(error, "the file ends within a record: the program was ended"));
    unlink(path);
}

static void test_killed_at_the_end_of_a_piece(void **state)
{
    enum { END = 8 * PIECE, LONGS = (END - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE };
    enum { SHORTS = (END - TRACE_HEADER_SIZE - 2 * TRACE_RECORD_SIZE) / TRACE_SHORT_SIZE };

    enum { TINIES = 2 * SHORTS - 2 };

    (void)state;
    /* so many records end where a piece does */
    static_assert(TRACE_HEADER_SIZE + LONGS * TRACE_RECORD_SIZE == END, "long ones");
    static_assert(TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE + SHORTS * TRACE_SHORT_SIZE == END,
                  "short ones");
    story = long_at;
    killed_at_the_end(LONGS, 20);
    story = short_at;
    killed_at_the_end(2 + SHORTS, 3);
    killed_at_the_end(2 + SHORTS, 8);
    story = tiny_at;
    killed_at_the_end(3 + TINIES, 3);
}

/* A process is killed at random moments: what it had recorded is there. */
static void test_killed(void **state)
{
    _Atomic uint32_t *recorded = sys_mmap(4096, -1, 0);
    struct random random;

    (void)state;
    assert_non_null(recorded);
    random_seed(&random, 1);
    for (int round = 0; round < 200; round++) {
        uint32_t least = (uint32_t)random_below(&random, round % 8 == 0 ? LONG : 200);
        char error[TRACE_ERROR_MAX];
        unsigned count, whole;
        pid_t pid;

        atomic_store(recorded, 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            record_forever(recorded);
        while (atomic_load(recorded) <= least)
            sys_yield();
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        whole = atomic_load(recorded);
        assert_int_equal(read_file(path_of_process(pid), UINT32_MAX, &count, error), -EBADMSG);
        if (count != whole && count != whole + 1)
            fail_msg("%u recorded, and %u read: %s", whole, count, error);
        unlink(path_of_process(pid));
        if (strstr(error, "the program") == NULL)
            fail_msg("%u recorded, and %u read: %s", whole, count, error);
    }
    sys_munmap(recorded, 4096);
}

/* What is there of the story, which has been cut. */
static void assert_cut(size_t cut, unsigned events)
{
    char error[TRACE_ERROR_MAX], offset[64];
    size_t begin;
    unsigned count;

    store(path_of(0), cut);
    assert_int_equal(read_file(path_of(0), events, &count, error), -EBADMSG);
    assert_int_equal(count, records_before(bytes, cut, &begin));
    snprintf(offset, sizeof offset, "at offset %zu:", cut < TRACE_HEADER_SIZE ? cut : begin);
    assert_non_null(strstr(error, offset));
}

static void test_truncated(void **state)
{
    size_t size;

    (void)state;
    for (int i = 0; i < 3; i++) {
        story = i == 0 ? event_at : i == 1 ? short_at : tiny_at;
        make_file(70);
        size = load(path_of(0));
        for (size_t cut = 0; cut < size; cut++)
            assert_cut(cut, 70);
        unlink(path_of(0));
    }
}

static void flip_each_bit(unsigned events)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    size_t size;

    make_file(events);
    size = load(path_of(0));
    for (size_t bit = 0; bit < size * 8; bit++) {
        size_t at = bit / 8;
        unsigned whole = records_before(bytes, at, NULL);

        bytes[at] ^= (unsigned char)(1 << bit % 8);
        store(path_of(0), size);
        assert_int_equal(read_file(path_of(0), events, &count, error), -EBADMSG);
        assert_int_equal(count, whole);
        bytes[at] ^= (unsigned char)(1 << bit % 8);
    }
    unlink(path_of(0));
}

static void test_each_bit_flipped(void **state)
{
    (void)state;
    flip_each_bit(12);
    story = short_at;
    flip_each_bit(8);
    story = tiny_at;
    flip_each_bit(9);
}

/* Bytes, runs of bytes and whole records go wrong; the reader ends before the first. */
static void test_random_damage(void **state)
{
    static unsigned char whole[sizeof bytes];
    char error[TRACE_ERROR_MAX];
    struct random random;
    unsigned count;
    size_t size;

    (void)state;
    make_file(200);
    size = load(path_of(0));
    memcpy(whole, bytes, size);
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        size_t first = 0;
        uint64_t hits;

        random_seed(&random, seed);
        hits = 1 + random_below(&random, 4);
        while (hits-- > 0) {
            size_t at = random_below(&random, size);
            size_t length = min_size(size - at, 1 + random_below(&random, 100));

            for (size_t i = 0; i < length; i++)
                bytes[at + i] = (unsigned char)random_next(&random);
        }
        store(path_of(0), size);
        while (first < size && bytes[first] == whole[first])
            first++;
        if (read_file(path_of(0), 200, &count, error) != (first < size ? -EBADMSG : 0))
            fail_msg("seed %llu: damage at %zu is not noticed", (unsigned long long)seed,
                     first);
        if (first < size && first >= TRACE_HEADER_SIZE)
            assert_int_equal(count, records_before(whole, first, NULL));
        memcpy(bytes, whole, size);
    }
}

/* Records that are whole but stand elsewhere. */
static void test_moved_records(void **state)
{
    unsigned char *third = bytes + TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE;
    unsigned char other[TRACE_RECORD_SIZE];
    char error[TRACE_ERROR_MAX];
    unsigned count;
    size_t size;

    (void)state;
    make_file(10);
    size = load(path_of(0));
    memcpy(other, third + TRACE_RECORD_SIZE, sizeof other);
    memcpy(third + TRACE_RECORD_SIZE, third, sizeof other);
    memcpy(third, other, sizeof other);
    store(path_of(0), size);
    assert_int_equal(read_file(path_of(0), 10, &count, error), -EBADMSG);
    assert_int_equal(count, 2);
    assert_non_null(strstr(error, "at offset 176: record 2: the check is wrong"));

    unlink(path_of(0)); /* short ones */
    story = short_at;
    make_file(10);
    assert_int_equal(load(path_of(0)),
                     third - bytes + 8 * TRACE_SHORT_SIZE + TRACE_RECORD_SIZE);
    memcpy(other, third + TRACE_SHORT_SIZE, TRACE_SHORT_SIZE);
    memcpy(third + TRACE_SHORT_SIZE, third, TRACE_SHORT_SIZE);
    memcpy(third, other, TRACE_SHORT_SIZE);
    store(path_of(0), (size_t)(third - bytes) + 8 * TRACE_SHORT_SIZE + TRACE_RECORD_SIZE);
    assert_int_equal(read_file(path_of(0), 10, &count, error), -EBADMSG);
    assert_int_equal(count, 2);
    assert_non_null(strstr(error, "at offset 176: record 2: the check is wrong"));
    story = event_at;

    load(path_of(0)); /* what follows the end, whole or not */
    unlink(path_of(0));
    make_file(10);
    load(path_of(0));
    memset(bytes + size, 0, TRACE_RECORD_SIZE);
    for (size_t more = 1; more <= TRACE_RECORD_SIZE; more++) {
        store(path_of(0), size + more);
        assert_int_equal(read_file(path_of(0), 10, &count, error), -EBADMSG);
        assert_int_equal(count, 10);
        assert_non_null(strstr(error, "something follows the close"));
    }
}

/* ---- records that are done ---- */

static const struct trace_event send_event = {TRACE_SEND, 1, 2, 3, {8}, 4, 2, 0};
static const struct trace_event sent_event = {TRACE_SENT, 1, 2, 3, {2}, 0, 4, 0};
static const struct trace_event arrive_event = {TRACE_ARRIVE, 1, 2, 3, {9}, 0, 5, 0};
static const struct trace_event received_event = {TRACE_RECEIVED, 1, 2, 3, {8}, 5, 0, 0};

/* The next event is this one, without the field that only its record has, so long behind the one before. */
static void assert_next(struct trace_reader *reader, struct trace_event want, uint64_t delta_ns)
{
    struct trace_event got;

    if (want.type == TRACE_SEND)
        want.partner = 0;
    if (want.type == TRACE_ARRIVE)
        want.amount = 0;
    assert_int_equal(trace_next(reader, &got), 1);
    assert_int_equal(got.delta_ns, delta_ns);
    got.delta_ns = 7;
    assert_event(&got, &want);
}

/* What is complete at once is two events of one time; what is not, is one, whatever its record has. */
static void test_done(void **state)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event event;

    (void)state;
    assert_int_equal(start(3, &recorder), 0);
    for (int i = 0; i < 4; i++) {
        trace_record(recorder, &send_event);
        if (i % 2 == 0)
            trace_done(recorder);
        trace_record(recorder, &arrive_event);
        if (i / 2 == 0)
            trace_done(recorder);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    for (int i = 0; i < 4; i++) {
        assert_next(&reader, send_event, 7);
        if (i % 2 == 0)
            assert_next(&reader, sent_event, 0);
        assert_next(&reader, arrive_event, 7);
        if (i / 2 == 0)
            assert_next(&reader, received_event, 0);
    }
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_CLOSE);
    assert_int_equal(trace_next(&reader, &event), 0);
    trace_close(&reader);
}

/* Each record of a long file is done, also those at the ends of pieces and windows. */
static void test_all_done(void **state)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event event;

    (void)state;
    assert_int_equal(start(3, &recorder), 0);
    for (unsigned i = 0; i < LONG; i++) {
        trace_record(recorder, &arrive_event);
        trace_done(recorder);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    for (unsigned i = 0; i < LONG; i++) {
        assert_next(&reader, arrive_event, 7);
        assert_next(&reader, received_event, 0);
    }
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_CLOSE);
    trace_close(&reader);
}

/* Behind a failure nothing is recorded, and nothing can be done. */
static void test_done_behind_a_failure(void **state)
{
    struct trace_recorder *recorder;

    (void)state;
    assert_int_equal(start(0, &recorder), 0);
    sys_fail_at(1, ENOSPC);
    for (unsigned i = 0; i < PIECE / TRACE_TINY_SIZE + 2; i++)
        trace_record(recorder, &send_event);
    sys_fail_at(0, 0);
    assert_int_equal(warnings, 1);
    trace_done(recorder);
    trace_stop(recorder);
    assert_in_range(load(path_of(0)), PIECE - TRACE_RECORD_SIZE + 1, PIECE);
}

/* ---- forged short records ---- */

/* The file of short_at() whose third record is of this size and begins so; what is said of it. */
static const char *said_of_forged(const unsigned char *begin, size_t length, size_t record)
{
    static char error[TRACE_ERROR_MAX];
    const size_t third = TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE;
    unsigned count;
    size_t size;

    story = short_at;
    make_file(3);
    size = load(path_of(0));
    memcpy(bytes + third, begin, length);
    put_check(third, record, third + record - sizeof(uint32_t), 2);
    store(path_of(0), size);
    assert_int_equal(read_file(path_of(0), 3, &count, error), -EBADMSG);
    assert_int_equal(count, 2);
    unlink(path_of(0));
    return error;
}

/* A short record with this first word. */
static const char *said_of_short(uint64_t word)
{
    unsigned char begin[8];

    for (size_t i = 0; i < sizeof begin; i++)
        begin[i] = (unsigned char)(word >> 8 * i);
    return said_of_forged(begin, sizeof begin, TRACE_SHORT_SIZE);
}

/* A tiny one of this type. */
static const char *said_of_tiny(unsigned type)
{
    const unsigned char begin[4] = {(unsigned char)(type | 64)};

    return said_of_forged(begin, sizeof begin, TRACE_TINY_SIZE);
}

/* A file of long_at() in whose third record this byte has this value. */
static const char *said_of_long(size_t at, unsigned char value)
{
    static char error[TRACE_ERROR_MAX];
    const size_t third = TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE;
    unsigned count;
    size_t size;

    story = long_at;
    make_file(3);
    size = load(path_of(0));
    bytes[third + at] = value;
    put_check(third, TRACE_RECORD_SIZE, third + 12, 2);
    store(path_of(0), size);
    assert_int_equal(read_file(path_of(0), 3, &count, error), -EBADMSG);
    assert_int_equal(count, 2);
    unlink(path_of(0));
    return error;
}

static void test_forged_short(void **state)
{
    uint64_t form, same;

    (void)state;
    story = short_at;
    make_file(3);
    load(path_of(0));
    unlink(path_of(0));
    same = number_at(TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE, 8);
    for (form = 0; form < 512; form++) {
        uint64_t word = (same & ~UINT64_C(0x37f)) | (form & 127) | (form >> 7) << 8;

        if (form != number_at(TRACE_HEADER_SIZE + 2, 2) &&
            form != number_at(TRACE_HEADER_SIZE + TRACE_RECORD_SIZE + 2, 2))
            break;
        assert_int_equal(word & 128, 128);
    }
    assert_non_null(
        strstr(said_of_short((same & ~UINT64_C(0x37f)) | (form & 127) | (form >> 7) << 8),
               "record 2: it is like an event that is not there"));
    /* an arrive without a partner, and with an entry besides */
    assert_non_null(strstr(said_of_short(same & ((UINT64_C(1) << 37) - 1)),
                           "record 2: it needs an entry or a partner"));
    assert_non_null(
        strstr(said_of_short(same | 1 << 10), "record 2: it needs an entry or a partner"));
    for (unsigned type = 0; type < 64;
         type++) /* tiny ones: of posts and arrives there were only long records */
        assert_non_null(
            strstr(said_of_tiny(type), "record 2: it is like an event that is not there"));
    assert_non_null(strstr(said_of_long(1, 1), "record 2: field zero is not 0"));
    assert_non_null(strstr(said_of_long(3, 2), "record 2: its form has a number"));
}

/* ---- versions before ---- */

/* Makes the file of number 0, all of whose records are long, one of that version. */
static void make_older(unsigned char version)
{
    size_t size = load(path_of(0));
    uint64_t number = 0;

    bytes[8] = version;
    put_check(0, TRACE_HEADER_SIZE, 28, 0);
    for (size_t at = TRACE_HEADER_SIZE; at < size; at += TRACE_RECORD_SIZE, number++) {
        uint64_t was = number_at(at + 12, 4), done;

        assert_int_equal(size_at(bytes, at), TRACE_RECORD_SIZE);
        put_check(at, TRACE_RECORD_SIZE, at + 12, number);
        done = was ^ number_at(at + 12, 4); /* 0: it is not */
        bytes[at + 2] = bytes[at + 3] = 0;
        put_check(at, TRACE_RECORD_SIZE, at + 12, number);
        for (size_t i = 0; i < 4; i++)
            bytes[at + 12 + i] ^= (unsigned char)(done >> 8 * i);
    }
    store(path_of(0), size);
}

static void test_version_3(void **state)
{
    const struct trace_event *const newer[] = {&send_event, &arrive_event};
    char error[TRACE_ERROR_MAX];
    struct trace_recorder *recorder;
    unsigned count;

    (void)state;
    story = long_at;
    make_file(200);
    make_older(3);
    assert_int_equal(read_file(path_of(0), 200, &count, error), 0);
    assert_int_equal(count, 200);
    unlink(path_of(0));

    /* it has no records that are done, nor what they need */
    for (size_t i = 0; i < 2 * ARRAY_COUNT(newer); i++) {
        assert_int_equal(start(0, &recorder), 0);
        record_events(recorder, 2);
        trace_record(recorder, newer[i / 2]);
        if (i % 2 == 1)
            trace_done(recorder);
        trace_stop(recorder);
        make_older(3);
        assert_int_equal(read_file(path_of(0), 2, &count, error), -EBADMSG);
        assert_int_equal(count, 2);
        assert_non_null(strstr(error, "record 2: "));
        unlink(path_of(0));
    }
}

/* It has records that are done, and no short ones. */
static void test_version_4(void **state)
{
    static struct trace_reader reader;
    char error[TRACE_ERROR_MAX];
    struct trace_recorder *recorder;
    struct trace_event event;
    unsigned count;
    size_t size;

    (void)state;
    assert_int_equal(start(0, &recorder), 0);
    trace_record(recorder, &send_event);
    trace_done(recorder);
    trace_record(recorder, &arrive_event);
    trace_stop(recorder);
    make_older(4);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    assert_next(&reader, send_event, 7);
    assert_next(&reader, sent_event, 0);
    assert_next(&reader, arrive_event, 7);
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_CLOSE);
    assert_int_equal(trace_next(&reader, &event), 0);
    trace_close(&reader);
    unlink(path_of(0));

    story = long_at;
    make_file(3);
    size = load(path_of(0));
    bytes[8] = 4; /* its records have forms */
    put_check(0, TRACE_HEADER_SIZE, 28, 0);
    store(path_of(0), size);
    assert_int_equal(read_file(path_of(0), 3, &count, error), -EBADMSG);
    assert_int_equal(count, 0);
    assert_non_null(strstr(error, "record 0: field zero is not 0"));
}

/* A program of an older version was killed: zeros up to where a piece of 64 KiB ends. */
static void test_version_3_killed(void **state)
{
    enum { END = 4 * (64 << 10), WHOLE = (END - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE };
    char error[TRACE_ERROR_MAX];
    unsigned count;

    (void)state;
    assert_int_equal(TRACE_HEADER_SIZE + WHOLE * TRACE_RECORD_SIZE, END);
    assert_true(END <= sizeof bytes);
    story = long_at;
    make_file(WHOLE);
    make_older(3);
    load(path_of(0));
    memset(bytes + END - 20, 0, 20);
    store(path_of(0), END);
    assert_int_equal(read_file(path_of(0), UINT32_MAX, &count, error), -EBADMSG);
    assert_int_equal(count, WHOLE - 1);
    assert_non_null(strstr(error, "the file ends within a record: the program was ended"));
}

/* ---- fields ---- */

/* The fields of each type: e envelope, w wildcards, a amount, n entry, p partner, o partner or 0, x either
 * entry or partner, d an amount if there is a partner. */
static const char *const forms[TRACE_TYPES] = {
    [TRACE_POST] = "ewno",     [TRACE_ARRIVE] = "exd", [TRACE_CANCEL] = "ewn",
    [TRACE_PEEK] = "ewo",      [TRACE_CLAIM] = "en",   [TRACE_TAKE] = "enp",
    [TRACE_DISCARD] = "en",    [TRACE_CLOSE] = "",     [TRACE_DEFER] = "en",
    [TRACE_RTR] = "ewnp",      [TRACE_MATCH] = "enp",  [TRACE_LOCK] = "enp",
    [TRACE_GRANT] = "eno",     [TRACE_LOST] = "enp",   [TRACE_RETIRE] = "ewn",
    [TRACE_PUBLISH] = "enp",   [TRACE_PULL] = "enp",   [TRACE_PULLED] = "en",
    [TRACE_ANNOUNCE] = "ewn",  [TRACE_VOID] = "ewp",   [TRACE_WRITE] = "enp",
    [TRACE_SEND] = "eano",     [TRACE_LEAVE] = "eanp", [TRACE_SENT] = "eax",
    [TRACE_RECEIVED] = "eano", [TRACE_RTS] = "ean",    [TRACE_DATA] = "ean",
    [TRACE_CTS] = "ean",       [TRACE_READ] = "ean",   [TRACE_SHARE] = "ean",
    [TRACE_FIN] = "en",        [TRACE_HAND] = "ewn",   [TRACE_WAIT] = "an",
    [TRACE_WAITED] = "ano",    [TRACE_CLOCK] = "an",
};

/* May a file have this event? */
static bool is_right(const struct trace_event *e)
{
    const char *form = forms[e->type];

    if ((e->context_id | e->source | e->tag) != 0 && strchr(form, 'e') == NULL)
        return false;
    if (e->source == TRACE_ANY_SOURCE && strchr(form, 'w') == NULL)
        return false;
    if (e->ignore != 0 && strpbrk(form, e->partner != 0 ? "wad" : "wa") == NULL)
        return false;
    if (strchr(form, 'x') != NULL)
        return (e->entry != 0) != (e->partner != 0);
    if ((e->entry != 0) != (strchr(form, 'n') != NULL))
        return false;
    return strchr(form, 'o') != NULL || (e->partner != 0) == (strchr(form, 'p') != NULL);
}

/* How many records are given out of a file that has this event behind two others. */
static unsigned records_with(const struct trace_event *event)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event got;
    unsigned count = 0;

    assert_int_equal(start(0, &recorder), 0);
    record_events(recorder, 2);
    trace_record(recorder, event);
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    while (trace_next(&reader, &got) == 1)
        count++;
    trace_close(&reader);
    unlink(path_of(0));
    return count;
}

/* The check is right, but are the fields?  Somebody else may have written this: all types, with every choice of
 * fields that are not 0. */
static void test_forged_fields(void **state)
{
    (void)state;
    for (unsigned type = TRACE_POST; type < TRACE_TYPES; type++) {
        for (unsigned n = 0; forms[type] != NULL && n < 3 << 4; n++) {
            const struct trace_event event = {
                .type = type,
                .context_id = n & 1,
                .tag = n & 1 ? 3 : 0,
                .ignore = n & 2 ? 4 : 0,
                .entry = n & 4 ? 5 : 0,
                .partner = n & 8 ? 6 : 0,
                .source = n >> 4 == 2 ? TRACE_ANY_SOURCE : n >> 4,
            };
            bool is_last = !is_right(&event) || type == TRACE_CLOSE;

            if ((records_with(&event) > 3) == is_last)
                fail_msg("a record of type %s with fields %u is %s", trace_type_name(type), n,
                         is_last ? "accepted" : "refused");
        }
    }
}

/* Names are of another form. */
static void test_forged_names(void **state)
{
    static const struct trace_event forged[] = {
        {TRACE_PROGRAM, 1, 0, 0, {0}, 5, 0, 0},
        {TRACE_PROGRAM, 0, 1, 0, {0}, 5, 0, 0},
        {TRACE_CONTEXT, 1, 1, 0, {0}, 5, 0, 0},
        {TRACE_CONTEXT, 1, 0, UINT64_C(64) << 32, {0}, 5, 0, 0},
        {TRACE_PEER, 0, -1u, 0, {0}, 5, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(forged); i++)
        if (records_with(&forged[i]) != 2)
            fail_msg("forged name %zu is accepted", i);
}

/* Texts of every length come back, and one that is longer than the reader's memory is cut. */
static void test_texts(void **state)
{
    static struct trace_reader reader;
    char text[200], got[150];
    struct trace_recorder *recorder;
    struct trace_event event;

    (void)state;
    assert_int_equal(start(0, &recorder), 0);
    for (size_t length = 0; length < sizeof text; length++) {
        memset(text, 'a' + (int)(length % 26), length);
        text[length] = '\0';
        trace_record_text(recorder, TRACE_CONTEXT, (uint32_t)length, 7, text);
    }
    trace_record_text(recorder, TRACE_PROGRAM, 0, 0, "one\ntwo\177");
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, path_of(0)), 0);
    assert_int_equal(reader.info.host, 11);
    for (size_t length = 0; length < sizeof text; length++) {
        do {
            assert_int_equal(trace_next(&reader, &event), 1);
            assert_int_equal(event.type, TRACE_CONTEXT);
            assert_int_equal(event.context_id, length);
            assert_int_equal((uint32_t)event.tag, 7);
        } while (!trace_text_add(got, sizeof got, &event));
        memset(text, 'a' + (int)(length % 26), length);
        text[min_size(length, sizeof got - 1)] = '\0';
        assert_string_equal(got, text);
    }
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_PROGRAM);
    assert_true(trace_text_add(got, sizeof got, &event));
    assert_string_equal(got, "one?two?");
    trace_close(&reader);
}

static void test_no_trace(void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;

    (void)state;
    assert_int_equal(read_file(path_of(0), 0, &count, error), -ENOENT);
    assert_non_null(strstr(error, path_of(0)));
    assert_int_equal(read_file(folder, 0, &count, error), -EISDIR);
    memset(bytes, 'x', 1000);
    store(path_of(0), 1000);
    assert_int_equal(read_file(path_of(0), 0, &count, error), -EBADMSG);
    assert_non_null(strstr(error, "this is no trace"));
}

/* A read that fails is told as such, after all that was read before. */
static void test_each_read_fails(void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    int err;

    (void)state;
    story = long_at; /* the reader's buffer holds whole ones */
    make_file(300);
    for (int64_t n = 1;; n++) {
        sys_fail_name("read", n, EIO);
        err = read_file(path_of(0), 300, &count, error);
        sys_fail_none();
        if (err == 0)
            break;
        assert_int_equal(err, -EIO);
        assert_int_equal(count, n == 1 ? 0 : min_size(300, (size_t)(n - 2) * TRACE_READ_COUNT));
        assert_int_equal(sys_fds_live(), 0);
    }
    assert_int_equal(count, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tiny_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_of_hosts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_call_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_at_the_end_of_a_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_truncated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_bit_flipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_done_behind_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forged_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_3, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_4, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_3_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forged_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forged_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_read_fails, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
