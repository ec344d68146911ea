/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_testing.c - see trace_testing.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "trace/trace_testing.h"

/* ---- around each test ---- */

char folder[TEMPORARY_SIZE];
unsigned warnings;
uint64_t now_ns;

static void count_line(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)text;
    warnings += level == LOG_LEVEL_WARN;
}

static uint64_t tick(void)
{
    return now_ns += TICK_NS;
}

int set_up_folder(UNUSED void **state)
{
    assert_non_null(mkdtemp(temporary_name(folder, "trace")));
    log_set_sink(count_line, NULL);
    clock_set(tick);
    warnings = 0;
    now_ns = 1000;
    story = event_at;
    return 0;
}

int tear_down_folder(UNUSED void **state)
{
    sys_fail_none();
    mem_fail_at(0);
    clock_set(NULL);
    log_set_sink(NULL, NULL);
    for (unsigned n = 0; n < 4; n++)
        unlink(trace_path(n));
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
    assert_int_equal(sys_fds_live(), 0);
    assert_int_equal(sys_maps_live(), 0);
    assert_int_equal(mem_live(), 0);
    return 0;
}

/* ---- stories ---- */

story_fn *story;

struct trace_event event_at(unsigned i)
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

struct trace_event long_at(unsigned i)
{
    const struct trace_event kinds[] = {
        {TRACE_POST, 1, 2, i, {4}, i + 1, 0, 0},
        {TRACE_ARRIVE, 1, 2, i, {0}, 0, i + 1, 0},
        {TRACE_PEEK, 1, 2, i, {0}, 0, 0, 0},
        {TRACE_CLAIM, 1, 2, i, {0}, i + 1, 0, 0},
    };

    return kinds[i % ARRAY_COUNT(kinds)];
}

/* ---- files of events ---- */

const struct trace_info job = {.rank = 3, .size = 4, .address = 12, .host = 11};

const char *trace_path_of(pid_t pid, unsigned n)
{
    static char path[TEMPORARY_SIZE + 64];

    snprintf(path, sizeof path, "%s/matchbox-0000000b-%ld-%u.trace", folder, (long)pid, n);
    return path;
}

const char *trace_path(unsigned n)
{
    return trace_path_of(getpid(), n);
}

int start_recorder(uint32_t rank, struct trace_recorder **recorder)
{
    struct trace_info info = job;

    info.rank = rank;
    return trace_start(folder, &info, recorder);
}

void record_story(struct trace_recorder *recorder, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct trace_event event = story(i);

        trace_record(recorder, &event);
    }
}

void make_file(unsigned count)
{
    struct trace_recorder *recorder;

    assert_int_equal(start_recorder(3, &recorder), 0);
    record_story(recorder, count);
    trace_stop(recorder);
    assert_int_equal(warnings, 0);
}

void assert_event(const struct trace_event *got, const struct trace_event *want)
{
    assert_int_equal(got->type, want->type);
    assert_int_equal(got->context_id, want->context_id);
    assert_int_equal(got->source, want->source);
    assert_int_equal(got->tag, want->tag);
    assert_int_equal(got->ignore, want->ignore);
    assert_int_equal(got->entry, want->entry);
    assert_int_equal(got->partner, want->partner);
    assert_int_equal(got->delta_ns, TICK_NS);
}

int read_file(const char *path, unsigned total, unsigned *count, char *error)
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

unsigned char bytes[BYTES_MAX];

size_t load_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size;

    assert_non_null(file);
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return size;
}

/* It is not emptied before: what was goes to the disk at once when it is closed, with some file
 * systems, and there are thousands of these. */
void store_file(const char *path, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

size_t size_at(const unsigned char *file, size_t at)
{
    return (file[at] & 128) != 0  ? TRACE_SHORT_SIZE
           : (file[at] & 64) != 0 ? TRACE_TINY_SIZE
                                  : TRACE_RECORD_SIZE;
}

unsigned records_before(const unsigned char *file, size_t end, size_t *begin)
{
    size_t at = TRACE_HEADER_SIZE;
    unsigned count = 0;

    for (; at + TRACE_TINY_SIZE <= end && at + size_at(file, at) <= end; count++)
        at += size_at(file, at);
    if (begin != NULL)
        *begin = at;
    return count;
}

uint64_t number_at(size_t at, unsigned size)
{
    uint64_t number = 0;

    while (size-- > 0)
        number = number << 8 | bytes[at + size];
    return number;
}

void put_check(size_t from, size_t size, size_t at, uint64_t number)
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

/* ---- tests for records of each size ---- */

void try_round_trips(story_fn *of)
{
    static const unsigned counts[] = {0, 1, 63, 64, 1023, 1024, 1025, 3000, 40000};
    char error[TRACE_ERROR_MAX];
    unsigned count;

    story = of;
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        make_file(counts[i]);
        assert_int_equal(read_file(trace_path(0), counts[i], &count, error), 0);
        assert_int_equal(count, counts[i]);
        unlink(trace_path(0));
    }
}

void try_kill_at_the_end(unsigned whole, size_t torn)
{
    const off_t end = 8 * (off_t)TRACE_PIECE;
    static const char zeros[20];
    char error[TRACE_ERROR_MAX];
    unsigned count;
    int fd;

    make_file(whole);
    fd = open(trace_path(0), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, end), 0); /* without the close */
    assert_int_equal(pwrite(fd, zeros, torn, end - (off_t)torn), torn);
    assert_int_equal(close(fd), 0);
    assert_int_equal(read_file(trace_path(0), UINT32_MAX, &count, error), -EBADMSG);
    assert_int_equal(count, whole - 1);
    assert_non_null(strstr(error, "the file ends within a record: the program was ended"));
    unlink(trace_path(0));
}

/* The records that are whole are read of a file that is cut there. */
static void assert_cut(size_t cut, unsigned events)
{
    char error[TRACE_ERROR_MAX], offset[64];
    size_t begin;
    unsigned count;

    store_file(trace_path(0), cut);
    assert_int_equal(read_file(trace_path(0), events, &count, error), -EBADMSG);
    assert_int_equal(count, records_before(bytes, cut, &begin));
    snprintf(offset, sizeof offset, "at offset %zu:", cut < TRACE_HEADER_SIZE ? cut : begin);
    assert_non_null(strstr(error, offset));
}

void try_each_cut(unsigned events)
{
    size_t size;

    make_file(events);
    size = load_file(trace_path(0));
    for (size_t cut = 0; cut < size; cut++)
        assert_cut(cut, events);
    unlink(trace_path(0));
}

void try_each_bit(unsigned events)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    size_t size;

    make_file(events);
    size = load_file(trace_path(0));
    for (size_t bit = 0; bit < size * 8; bit++) {
        size_t at = bit / 8;
        unsigned whole = records_before(bytes, at, NULL);

        bytes[at] ^= (unsigned char)(1 << bit % 8);
        store_file(trace_path(0), size);
        assert_int_equal(read_file(trace_path(0), events, &count, error), -EBADMSG);
        assert_int_equal(count, whole);
        bytes[at] ^= (unsigned char)(1 << bit % 8);
    }
    unlink(trace_path(0));
}

/* The error for the third record of a file that had so many events and has this size now.  Two are read. */
static const char *said_after_two(unsigned events, size_t size)
{
    static char error[TRACE_ERROR_MAX];
    unsigned count;

    store_file(trace_path(0), size);
    assert_int_equal(read_file(trace_path(0), events, &count, error), -EBADMSG);
    assert_int_equal(count, 2);
    unlink(trace_path(0));
    return error;
}

static unsigned char *const third = bytes + TRACE_HEADER_SIZE + 2 * TRACE_RECORD_SIZE;

size_t try_swap(size_t record)
{
    unsigned char other[TRACE_RECORD_SIZE];
    size_t size;

    make_file(10);
    size = load_file(trace_path(0));
    memcpy(other, third + record, record);
    memcpy(third + record, third, record);
    memcpy(third, other, record);
    assert_non_null(
        strstr(said_after_two(10, size), "at offset 176: record 2: the check is wrong"));
    return size;
}

const char *said_of_forged(size_t record, size_t at, const unsigned char *forged, size_t length)
{
    const size_t begin = (size_t)(third - bytes);
    size_t size;

    make_file(3);
    size = load_file(trace_path(0));
    memcpy(third + at, forged, length);
    put_check(begin, record, begin + (record == TRACE_RECORD_SIZE ? 12 : record - 4), 2);
    return said_after_two(3, size);
}
