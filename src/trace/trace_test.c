/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_test.c - what was recorded is read back; what is damaged is noticed, and what
 * was whole before it is read all the same.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "trace/trace_testing.h"

/* ---- the file ---- */

static void test_round_trip(UNUSED void **state)
{
    try_round_trips(event_at);
    try_round_trips(long_at);
}

/* The table of trace.h, byte by byte. */
static void test_layout(UNUSED void **state)
{
    const size_t first = 64, second = 64 + 56;

    make_file(2);
    assert_int_equal(load_file(trace_path(0)), 64 + 3 * 56);
    assert_memory_equal(bytes, "MBXTRACE", 8);
    assert_int_equal(number_at(8, 4), 6);
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
    assert_int_equal(TRACE_PIECE, 256 << 10);
}

static void test_header(UNUSED void **state)
{
    static struct trace_reader reader;

    make_file(0);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    assert_int_equal(reader.info.rank, 3);
    assert_int_equal(reader.info.pid, getpid());
    assert_int_equal(reader.info.endpoint, 0);
    assert_int_equal(reader.info.start_ns, 1007);
    trace_close(&reader);
}

/* Each endpoint has a file of its own, which only its user can read. */
static void test_own_files(UNUSED void **state)
{
    struct trace_recorder *recorders[2];
    char error[TRACE_ERROR_MAX];
    struct stat status;
    unsigned count;

    make_file(5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start_recorder(TRACE_RANK_UNKNOWN, &recorders[i]), 0);
        record_story(recorders[i], 10);
    }
    for (int i = 0; i < 2; i++)
        trace_stop(recorders[i]);
    trace_stop(NULL);
    assert_int_equal(stat(trace_path(2), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(read_file(trace_path(0), 5, &count, error), 0);
    assert_int_equal(count, 5);
}

/* A process of the same number in another pid namespace, or on another machine. */
static const struct trace_info elsewhere = {
    .size = 4, .address = 12, .host = UINT64_C(12) << 32};

/* One number of a process in several pid namespaces: files that are gathered in one folder have different names. */
static void test_names_of_hosts(UNUSED void **state)
{
    struct trace_recorder *recorder;
    char path[TEMPORARY_SIZE + 64];

    make_file(1);
    assert_int_equal(trace_start(folder, &elsewhere, &recorder), 0);
    trace_stop(recorder);
    snprintf(path, sizeof path, "%s/matchbox-0000000c-%ld-0.trace", folder, (long)getpid());
    assert_int_equal(unlink(path), 0);
}

static void test_no_folder(UNUSED void **state)
{
    struct trace_recorder *recorder = NULL;
    char long_name[600];

    assert_int_equal(trace_start("/nonexistent", &job, &recorder), -ENOENT);
    assert_int_equal(trace_start("/dev/null", &job, &recorder), -ENOTDIR);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(trace_start(long_name, &job, &recorder), -ENAMETOOLONG);
    assert_null(recorder);
}

/* ---- failures while recording ---- */

/* A file grows by pieces of 256 KiB, and is mapped in windows of 4 MiB, of which each begins with the last piece of the one before: whole records of
 * the first piece, if all are long; and events that need several windows. */
#define PIECE_RECORDS ((TRACE_PIECE - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE)
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
static void test_each_call_fails(UNUSED void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count, refused = 0, warned = 0, harmless = 0, pieces, windows;

    for (uint64_t n = 1;; n++) {
        struct trace_recorder *recorder;
        uint64_t before = sys_calls(), calls;
        int err;

        warnings = 0;
        sys_fail_at(n, ENOSPC);
        err = start_recorder(0, &recorder);
        if (err == 0) {
            record_story(recorder, LONG);
            trace_stop(recorder);
        }
        sys_fail_at(0, 0);
        calls = sys_calls() - before;
        assert_int_equal(sys_fds_live(), 0);
        assert_int_equal(sys_maps_live(), 0);
        assert_int_equal(mem_live(), 0);
        if (err != 0) {
            assert_int_equal(err, -ENOSPC);
            assert_int_equal(access(trace_path(0), F_OK), -1);
            refused++;
            continue;
        }
        err = read_file(trace_path(0), LONG, &count, error);
        pieces = (unsigned)((size_of_file(trace_path(0)) + TRACE_PIECE - 1) / TRACE_PIECE);
        unlink(trace_path(0));
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

static void test_no_memory(UNUSED void **state)
{
    struct trace_recorder *recorder;

    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(start_recorder(0, &recorder), -ENOMEM);
        mem_fail_at(0);
        assert_int_equal(access(trace_path(0), F_OK), -1);
    }
}

/* A limit (ulimit -f) that has space for some pieces, in two windows, and a part of one: the signal that write() would
 * send ends nobody. */
static void test_full_disk(UNUSED void **state)
{
    const struct rlimit small = {5000000, RLIM_INFINITY};
    struct rlimit old;
    struct trace_recorder *recorder;
    char error[TRACE_ERROR_MAX], offset[64];
    off_t space = (off_t)(small.rlim_cur / TRACE_PIECE * TRACE_PIECE), size;
    unsigned count;

    signal(SIGXFSZ, SIG_DFL); /* whoever has started us may ignore it */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(start_recorder(0, &recorder), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){small.rlim_cur, old.rlim_max}),
                     0);
    record_story(recorder, LONG);
    trace_stop(recorder);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(warnings, 1);
    assert_int_equal(read_file(trace_path(0), LONG, &count, error), -EBADMSG);
    assert_non_null(strstr(error, "ends without a close"));
    size = size_of_file(trace_path(0));
    assert_true(size <= space && size > space - TRACE_RECORD_SIZE);
    snprintf(offset, sizeof offset, "at offset %ld:", (long)size);
    assert_non_null(strstr(error, offset));
    assert_true(count >= (size - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE);
}

static void test_killed_at_the_end_of_a_piece(UNUSED void **state)
{
    enum { END = 8 * TRACE_PIECE, LONGS = (END - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE };

    /* so many records end where a piece does */
    static_assert(TRACE_HEADER_SIZE + LONGS * TRACE_RECORD_SIZE == END, "long ones");
    story = long_at;
    try_kill_at_the_end(LONGS, 20);
}

/* Records until it is killed; *recorded may be less by one than the events that are recorded. */
static void record_forever(_Atomic uint32_t *recorded)
{
    struct trace_recorder *recorder;

    if (start_recorder(3, &recorder) < 0)
        _exit(1);
    for (unsigned i = 0;; i++) {
        const struct trace_event event = story(i);

        trace_record(recorder, &event);
        atomic_store(recorded, i + 1);
    }
}

/* A process is killed at random moments: what it had recorded is there. */
static void test_killed(UNUSED void **state)
{
    _Atomic uint32_t *recorded = sys_mmap(4096, -1, 0);
    struct random random;

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
        assert_int_equal(read_file(trace_path_of(pid, 0), UINT32_MAX, &count, error), -EBADMSG);
        if (count != whole && count != whole + 1)
            fail_msg("%u recorded, and %u read: %s", whole, count, error);
        unlink(trace_path_of(pid, 0));
        if (strstr(error, "the program") == NULL)
            fail_msg("%u recorded, and %u read: %s", whole, count, error);
    }
    sys_munmap(recorded, 4096);
}

/* ---- damaged files ---- */

static void test_truncated(UNUSED void **state)
{
    try_each_cut(70);
}

static void test_each_bit_flipped(UNUSED void **state)
{
    try_each_bit(12);
}

/* Bytes, runs of bytes and whole records go wrong; the reader ends before the first. */
static void test_random_damage(UNUSED void **state)
{
    static unsigned char whole[sizeof bytes];
    char error[TRACE_ERROR_MAX];
    struct random random;
    unsigned count;
    size_t size;

    make_file(200);
    size = load_file(trace_path(0));
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
        store_file(trace_path(0), size);
        while (first < size && bytes[first] == whole[first])
            first++;
        if (read_file(trace_path(0), 200, &count, error) != (first < size ? -EBADMSG : 0))
            fail_msg("seed %llu: damage at %zu is not noticed", (unsigned long long)seed,
                     first);
        if (first < size && first >= TRACE_HEADER_SIZE)
            assert_int_equal(count, records_before(whole, first, NULL));
        memcpy(bytes, whole, size);
    }
}

/* Records that are whole but stand elsewhere. */
static void test_moved_records(UNUSED void **state)
{
    try_swap(TRACE_RECORD_SIZE);
}

/* Something follows the end: a whole record, or less. */
static void test_longer_files(UNUSED void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    size_t size;

    make_file(10);
    size = load_file(trace_path(0));
    memset(bytes + size, 0, TRACE_RECORD_SIZE);
    for (size_t more = 1; more <= TRACE_RECORD_SIZE; more++) {
        store_file(trace_path(0), size + more);
        assert_int_equal(read_file(trace_path(0), 10, &count, error), -EBADMSG);
        assert_int_equal(count, 10);
        assert_non_null(strstr(error, "something follows the close"));
    }
}

/* ---- records that are done ---- */

static const struct trace_event send_event = {TRACE_SEND, 1, 2, 3, {8}, 4, 2, 0};
static const struct trace_event sent_event = {TRACE_SENT, 1, 2, 3, {2}, 0, 4, 0};
static const struct trace_event arrive_event = {TRACE_ARRIVE, 1, 2, 3, {9}, 0, 5, 0};
static const struct trace_event received_event = {TRACE_RECEIVED, 1, 2, 3, {8}, 5, 0, 0};

/* The next event is this one, without the field that only its record has, delta_ns after the one before. */
static void assert_next(struct trace_reader *reader, struct trace_event want, uint64_t delta_ns)
{
    struct trace_event got;

    if (want.type == TRACE_SEND)
        want.partner = 0;
    if (want.type == TRACE_ARRIVE)
        want.amount = 0;
    assert_int_equal(trace_next(reader, &got), 1);
    assert_int_equal(got.delta_ns, delta_ns);
    got.delta_ns = TICK_NS;
    assert_event(&got, &want);
}

/* A message that is complete at once gives two events of one time; any other gives one, whatever its record has. */
static void test_done(UNUSED void **state)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event event;

    assert_int_equal(start_recorder(3, &recorder), 0);
    for (int i = 0; i < 4; i++) {
        trace_record(recorder, &send_event);
        if (i % 2 == 0)
            trace_done(recorder);
        trace_record(recorder, &arrive_event);
        if (i / 2 == 0)
            trace_done(recorder);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
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
static void test_all_done(UNUSED void **state)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event event;

    assert_int_equal(start_recorder(3, &recorder), 0);
    for (unsigned i = 0; i < LONG; i++) {
        trace_record(recorder, &arrive_event);
        trace_done(recorder);
    }
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    for (unsigned i = 0; i < LONG; i++) {
        assert_next(&reader, arrive_event, 7);
        assert_next(&reader, received_event, 0);
    }
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_CLOSE);
    trace_close(&reader);
}

/* After a failure nothing is recorded, and trace_done() changes nothing. */
static void test_done_after_a_failure(UNUSED void **state)
{
    struct trace_recorder *recorder;

    assert_int_equal(start_recorder(0, &recorder), 0);
    sys_fail_at(1, ENOSPC);
    for (unsigned i = 0; i < TRACE_PIECE / TRACE_TINY_SIZE + 2; i++)
        trace_record(recorder, &send_event);
    sys_fail_at(0, 0);
    assert_int_equal(warnings, 1);
    trace_done(recorder);
    trace_stop(recorder);
    assert_in_range(load_file(trace_path(0)), TRACE_PIECE - TRACE_RECORD_SIZE + 1, TRACE_PIECE);
}

/* ---- versions before ---- */

/* Makes the file of number 0, all of whose records are long, one of that version. */
static void make_older(unsigned char version)
{
    size_t size = load_file(trace_path(0));
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
    store_file(trace_path(0), size);
}

static void test_version_3(UNUSED void **state)
{
    const struct trace_event *const newer[] = {&send_event, &arrive_event};
    char error[TRACE_ERROR_MAX];
    struct trace_recorder *recorder;
    unsigned count;

    story = long_at;
    make_file(200);
    make_older(3);
    assert_int_equal(read_file(trace_path(0), 200, &count, error), 0);
    assert_int_equal(count, 200);
    unlink(trace_path(0));

    /* it has no records that are done, nor what they need */
    for (size_t i = 0; i < 2 * ARRAY_COUNT(newer); i++) {
        assert_int_equal(start_recorder(0, &recorder), 0);
        record_story(recorder, 2);
        trace_record(recorder, newer[i / 2]);
        if (i % 2 == 1)
            trace_done(recorder);
        trace_stop(recorder);
        make_older(3);
        assert_int_equal(read_file(trace_path(0), 2, &count, error), -EBADMSG);
        assert_int_equal(count, 2);
        assert_non_null(strstr(error, "record 2: "));
        unlink(trace_path(0));
    }
}

/* It has records that are done, and no short ones. */
static void test_version_4(UNUSED void **state)
{
    static struct trace_reader reader;
    char error[TRACE_ERROR_MAX];
    struct trace_recorder *recorder;
    struct trace_event event;
    unsigned count;
    size_t size;

    assert_int_equal(start_recorder(0, &recorder), 0);
    trace_record(recorder, &send_event);
    trace_done(recorder);
    trace_record(recorder, &arrive_event);
    trace_stop(recorder);
    make_older(4);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    assert_next(&reader, send_event, 7);
    assert_next(&reader, sent_event, 0);
    assert_next(&reader, arrive_event, 7);
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_CLOSE);
    assert_int_equal(trace_next(&reader, &event), 0);
    trace_close(&reader);
    unlink(trace_path(0));

    story = long_at;
    make_file(3);
    size = load_file(trace_path(0));
    bytes[8] = 4; /* its records have forms */
    put_check(0, TRACE_HEADER_SIZE, 28, 0);
    store_file(trace_path(0), size);
    assert_int_equal(read_file(trace_path(0), 3, &count, error), -EBADMSG);
    assert_int_equal(count, 0);
    assert_non_null(strstr(error, "record 0: field zero is not 0"));
}

/* Version 5 differs only in the types that it lacks. */
static void test_version_5(UNUSED void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    size_t size;

    make_file(40);
    size = load_file(trace_path(0));
    bytes[8] = 5;
    put_check(0, TRACE_HEADER_SIZE, 28, 0);
    store_file(trace_path(0), size);
    assert_int_equal(read_file(trace_path(0), 40, &count, error), 0);
    assert_int_equal(count, 40);
}

/* A program of an older version was killed: zeros up to where a piece of 64 KiB ends. */
static void test_version_3_killed(UNUSED void **state)
{
    enum { END = 4 * (64 << 10), WHOLE = (END - TRACE_HEADER_SIZE) / TRACE_RECORD_SIZE };
    char error[TRACE_ERROR_MAX];
    unsigned count;

    assert_int_equal(TRACE_HEADER_SIZE + WHOLE * TRACE_RECORD_SIZE, END);
    assert_true(END <= sizeof bytes);
    story = long_at;
    make_file(WHOLE);
    make_older(3);
    load_file(trace_path(0));
    memset(bytes + END - 20, 0, 20);
    store_file(trace_path(0), END);
    assert_int_equal(read_file(trace_path(0), UINT32_MAX, &count, error), -EBADMSG);
    assert_int_equal(count, WHOLE - 1);
    assert_non_null(strstr(error, "the file ends within a record: the program was ended"));
}

/* ---- fields ---- */

static void test_forged_zero(UNUSED void **state)
{
    story = long_at;
    assert_non_null(strstr(said_of_forged(TRACE_RECORD_SIZE, 1, &(unsigned char){1}, 1),
                           "record 2: field zero is not 0"));
}

/* The fields of each type: e envelope, w wildcards, a amount, n entry, p partner, o partner or 0, x either
 * entry or partner, d an amount if there is a partner. */
static const char *const forms[TRACE_TYPES] = {
    [TRACE_POST] = "ewno",  [TRACE_ARRIVE] = "exd",    [TRACE_CANCEL] = "ewn",
    [TRACE_PEEK] = "ewo",   [TRACE_CLAIM] = "en",      [TRACE_TAKE] = "enp",
    [TRACE_DISCARD] = "en", [TRACE_DROP] = "en",       [TRACE_CLOSE] = "",
    [TRACE_DEFER] = "en",   [TRACE_RTR] = "ewnp",      [TRACE_MATCH] = "enp",
    [TRACE_LOCK] = "enp",   [TRACE_GRANT] = "eno",     [TRACE_LOST] = "enp",
    [TRACE_RETIRE] = "ewn", [TRACE_PUBLISH] = "enp",   [TRACE_PULL] = "enp",
    [TRACE_PULLED] = "en",  [TRACE_ADVERTISE] = "ewn", [TRACE_VOID] = "ewp",
    [TRACE_WRITE] = "enp",  [TRACE_SEND] = "eano",     [TRACE_LEAVE] = "eanp",
    [TRACE_SENT] = "eax",   [TRACE_RECEIVED] = "eano", [TRACE_RTS] = "ean",
    [TRACE_DATA] = "ean",   [TRACE_CTS] = "ean",       [TRACE_READ] = "ean",
    [TRACE_SHARE] = "ean",  [TRACE_FIN] = "en",        [TRACE_HAND] = "ewn",
    [TRACE_WAIT] = "an",    [TRACE_WAITED] = "ano",    [TRACE_CLOCK] = "an",
    [TRACE_EVENT] = "no",   [TRACE_REPORTED] = "n",
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

/* How many records are given out of a file that has this event after two others. */
static unsigned records_with(const struct trace_event *event)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event got;
    unsigned count = 0;

    assert_int_equal(start_recorder(0, &recorder), 0);
    record_story(recorder, 2);
    trace_record(recorder, event);
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
    while (trace_next(&reader, &got) == 1)
        count++;
    trace_close(&reader);
    unlink(trace_path(0));
    return count;
}

/* The check is right, but are the fields?  Somebody else may have written this: all types, with every choice of
 * fields that are not 0. */
static void test_forged_fields(UNUSED void **state)
{
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
static void test_forged_names(UNUSED void **state)
{
    static const struct trace_event forged[] = {
        {TRACE_PROGRAM, 1, 0, 0, {0}, 5, 0, 0},
        {TRACE_PROGRAM, 0, 1, 0, {0}, 5, 0, 0},
        {TRACE_CONTEXT, 1, 1, 0, {0}, 5, 0, 0},
        {TRACE_CONTEXT, 1, 0, UINT64_C(64) << 32, {0}, 5, 0, 0},
        {TRACE_PEER, 0, -1u, 0, {0}, 5, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_COUNT(forged); i++)
        if (records_with(&forged[i]) != 2)
            fail_msg("forged name %zu is accepted", i);
}

/* Texts of every length come back, and one that is longer than the reader's memory is cut. */
static void test_texts(UNUSED void **state)
{
    static struct trace_reader reader;
    char text[200], got[150];
    struct trace_recorder *recorder;
    struct trace_event event;

    assert_int_equal(start_recorder(0, &recorder), 0);
    for (size_t length = 0; length < sizeof text; length++) {
        memset(text, 'a' + (int)(length % 26), length);
        text[length] = '\0';
        trace_record_text(recorder, TRACE_CONTEXT, (uint32_t)length, 7, text);
    }
    trace_record_text(recorder, TRACE_PROGRAM, 0, 0, "one\ntwo\177");
    trace_stop(recorder);
    assert_int_equal(trace_open(&reader, trace_path(0)), 0);
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

static void test_no_trace(UNUSED void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;

    assert_int_equal(read_file(trace_path(0), 0, &count, error), -ENOENT);
    assert_non_null(strstr(error, trace_path(0)));
    assert_int_equal(read_file(folder, 0, &count, error), -EISDIR);
    memset(bytes, 'x', 1000);
    store_file(trace_path(0), 1000);
    assert_int_equal(read_file(trace_path(0), 0, &count, error), -EBADMSG);
    assert_non_null(strstr(error, "this is no trace"));
}

/* A read that fails is told as such, after all that was read before. */
static void test_each_read_fails(UNUSED void **state)
{
    char error[TRACE_ERROR_MAX];
    unsigned count;
    int err;

    story = long_at; /* the reader's buffer holds whole ones */
    make_file(300);
    for (int64_t n = 1;; n++) {
        sys_fail_name("read", n, EIO);
        err = read_file(trace_path(0), 300, &count, error);
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
        TEST(test_round_trip),
        TEST(test_layout),
        TEST(test_header),
        TEST(test_own_files),
        TEST(test_names_of_hosts),
        TEST(test_no_folder),
        TEST(test_each_call_fails),
        TEST(test_no_memory),
        TEST(test_full_disk),
        TEST(test_killed_at_the_end_of_a_piece),
        TEST(test_killed),
        TEST(test_truncated),
        TEST(test_each_bit_flipped),
        TEST(test_random_damage),
        TEST(test_moved_records),
        TEST(test_longer_files),
        TEST(test_done),
        TEST(test_all_done),
        TEST(test_done_after_a_failure),
        TEST(test_version_3),
        TEST(test_version_4),
        TEST(test_version_5),
        TEST(test_version_3_killed),
        TEST(test_forged_zero),
        TEST(test_forged_fields),
        TEST(test_forged_names),
        TEST(test_texts),
        TEST(test_no_trace),
        TEST(test_each_read_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
