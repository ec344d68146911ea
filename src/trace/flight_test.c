/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight_test.c - of what was recorded the last events are read back, and all names, also while
 * it is written and when its process was killed; what is damaged is noticed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "trace/trace_testing.h"

#define SLOTS 100u

static const char *path_of(pid_t pid)
{
    static char path[TEMPORARY_SIZE + 64];

    snprintf(path, sizeof path, "%s/matchbox-0000000b-%ld-0.flight", folder, (long)pid);
    return path;
}

static int start(uint64_t slots, struct trace_recorder **recorder)
{
    return trace_start_flight(folder, slots, &job, recorder);
}

/* Event number i of all that are recorded. */
static void record(struct trace_recorder *recorder, uint64_t i)
{
    trace_record(
        recorder,
        &(struct trace_event){
            .type = TRACE_ARRIVE, .context_id = 1, .source = 2, .tag = i, .partner = i + 1});
}

struct seen {
    uint64_t events, names, first; /* first: the number of the oldest event */
    uint64_t count;                /* that were recorded, as the file says */
    char name[64];
    int result;
    char error[TRACE_ERROR_MAX];
};

/* The events are the ones that record() makes, without a gap, and in virtual time TICK_NS apart. */
static struct seen read_back(const char *path, bool is_virtual)
{
    static struct trace_reader reader;
    struct seen seen = {.result = trace_open(&reader, path)};
    struct trace_event event;
    uint64_t time = 0;

    snprintf(seen.error, sizeof seen.error, "%s", reader.error);
    if (seen.result < 0)
        return seen;
    assert_true(trace_is_flight(&reader));
    assert_int_equal(reader.info.rank, 3);
    assert_int_equal(reader.info.host, 11);
    seen.count = reader.count;
    while ((seen.result = trace_next(&reader, &event)) == 1) {
        time += event.delta_ns;
        if (trace_is_name(event.type)) {
            assert_int_equal(seen.events, 0); /* names come first */
            seen.names += trace_text_add(seen.name, sizeof seen.name, &event);
            continue;
        }
        if (seen.events++ == 0)
            seen.first = event.tag;
        assert_int_equal(event.tag, seen.first + seen.events - 1);
        assert_int_equal(event.partner, event.tag + 1);
        if (is_virtual)
            assert_int_equal(time, (event.tag + 1) * TICK_NS);
    }
    snprintf(seen.error, sizeof seen.error, "%s", reader.error);
    assert_int_equal(trace_next(&reader, &event), seen.result); /* it stays so */
    trace_close(&reader);
    return seen;
}

/* ---- tests ---- */

static void test_last_events(UNUSED void **state)
{
    static const uint64_t counts[] = {0, 1, 99, 100, 101, 199, 200, 12345};

    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        struct trace_recorder *recorder;
        uint64_t kept = min_size(counts[i], SLOTS);
        struct seen seen;

        assert_int_equal(start(SLOTS, &recorder), 0);
        for (uint64_t n = 0; n < counts[i]; n++)
            record(recorder, n);
        seen = read_back(path_of(getpid()), true);
        assert_int_equal(seen.result, 0);
        assert_int_equal(seen.events, kept);
        assert_int_equal(seen.count, counts[i]);
        if (kept != 0)
            assert_int_equal(seen.first, counts[i] - kept);
        trace_stop(recorder);
        assert_int_equal(access(path_of(getpid()), F_OK), -1); /* it was closed */
    }
    assert_int_equal(warnings, 0);
}

/* A name is told once, and events that need it come for ever. */
static void test_names_stay(UNUSED void **state)
{
    struct trace_recorder *recorder;
    struct seen seen;

    assert_int_equal(start(SLOTS, &recorder), 0);
    record(recorder, 0);
    trace_record_text(recorder, TRACE_CONTEXT, 4, 2, "a name that takes two records at least");
    for (uint64_t n = 1; n < 1000; n++)
        record(recorder, n);
    seen = read_back(path_of(getpid()), true);
    assert_int_equal(seen.events, SLOTS);
    assert_int_equal(seen.names, 1);
    assert_string_equal(seen.name, "a name that takes two records at least");
    trace_stop(recorder);
}

/* More than there is space for: said once, and the events go on. */
static void test_too_many_names(UNUSED void **state)
{
    struct trace_recorder *recorder;
    struct seen seen;

    assert_int_equal(start(SLOTS, &recorder), 0);
    for (uint32_t n = 0; n < FLIGHT_NAMES_MAX + 2; n++)
        trace_record_text(recorder, TRACE_CONTEXT, n, 2, "c");
    assert_int_equal(warnings, 1);
    record(recorder, 0);
    seen = read_back(path_of(getpid()), true);
    assert_int_equal(seen.result, 0);
    assert_int_equal(seen.names, FLIGHT_NAMES_MAX);
    assert_int_equal(seen.events, 1);
    trace_stop(recorder);
}

/* A message that is complete at once gives two events of one time, also in the last slot of the ring. */
static void test_done(UNUSED void **state)
{
    static struct trace_reader reader;
    struct trace_recorder *recorder;
    struct trace_event event;

    assert_int_equal(start(4, &recorder), 0);
    trace_record_text(recorder, TRACE_PROGRAM, 0, 0, "a");
    for (uint64_t n = 0; n < 4; n++) {
        trace_record(recorder, &(struct trace_event){TRACE_SEND, 1, 2, 3, {8}, n + 1, 2, 0});
        trace_done(recorder);
    }
    assert_int_equal(trace_open(&reader, path_of(getpid())), 0);
    assert_int_equal(trace_next(&reader, &event), 1);
    assert_int_equal(event.type, TRACE_PROGRAM);
    for (uint64_t n = 0; n < 4; n++) {
        assert_int_equal(trace_next(&reader, &event), 1);
        assert_int_equal(event.type, TRACE_SEND);
        assert_int_equal(event.entry, n + 1);
        assert_int_equal(event.partner, 0);
        assert_int_equal(trace_next(&reader, &event), 1);
        assert_int_equal(event.type, TRACE_SENT);
        assert_int_equal(event.amount, 2);
        assert_int_equal(event.partner, n + 1);
        assert_int_equal(event.delta_ns, 0);
    }
    assert_int_equal(trace_next(&reader, &event), 0);
    trace_close(&reader);
    trace_stop(recorder);
}

/* Without a folder others find it by its name, and cannot make it shorter. */
static void test_in_memory(UNUSED void **state)
{
    struct trace_recorder *recorder;
    bool is_found = false;

    assert_int_equal(trace_start_flight(NULL, SLOTS, &job, &recorder), 0);
    for (uint64_t n = 0; n < 250; n++)
        record(recorder, n);
    trace_record_text(recorder, TRACE_CONTEXT, 4, 2, "c");
    for (int fd = 3; fd < 64; fd++) {
        char path[32], name[64] = "";
        struct seen seen;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) <= 0 || strstr(name, FLIGHT_NAME) == NULL)
            continue;
        is_found = true;
        assert_int_equal(truncate(path, 0), -1);
        assert_int_equal(errno, EPERM);
        seen = read_back(path, true);
        assert_int_equal(seen.events, SLOTS);
        assert_int_equal(seen.names, 1);
    }
    assert_true(is_found);
    trace_stop(recorder);
}

/* A copy that was made while the ring was written over once, the first half of it before
 * that: what is given out are events without a gap. */
static void test_lapped(UNUSED void **state)
{
    static unsigned char before[128 + SLOTS / 2 * TRACE_RECORD_SIZE];
    struct trace_recorder *recorder;
    struct seen seen;
    uint64_t n = 0;
    int fd;

    assert_int_equal(start(SLOTS, &recorder), 0);
    while (n < 130)
        record(recorder, n++);
    fd = open(path_of(getpid()), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, before, sizeof before, 0), sizeof before);
    while (n < 215)
        record(recorder, n++);
    assert_int_equal(pwrite(fd, before, sizeof before, 0), sizeof before);
    seen = read_back(path_of(getpid()), true);
    assert_int_equal(seen.result, 0);
    assert_int_equal(seen.first, 100);
    assert_int_equal(seen.events, 30);
    close(fd);
    trace_stop(recorder);
}

/* The reader copies the ring and then, by pread(), looks at the count: what the recorder does
 * between the two. */
static void (*between)(void);

ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    void (*what)(void) = between;

    between = NULL;
    if (what != NULL)
        what();
    return syscall(SYS_pread64, fd, to, size, offset);
}

static struct trace_recorder *lapping;
static uint64_t lapping_next;

static void record_more(void)
{
    for (int i = 0; i < 30; i++)
        record(lapping, lapping_next++);
}

/* While the ring is copied, 30 events are recorded into the places of older ones.  The place of event 40
 * was copied while it was written to, and the places before it sooner: none of these is given out. */
static void test_torn_while_copied(UNUSED void **state)
{
    unsigned char torn = 0;
    struct seen seen;
    int fd;

    assert_int_equal(start(SLOTS, &lapping), 0);
    for (lapping_next = 0; lapping_next < 120;)
        record(lapping, lapping_next++);
    fd = open(path_of(getpid()), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &torn, 1, 128 + 40 * TRACE_RECORD_SIZE + 20), 1);
    between = record_more;
    seen = read_back(path_of(getpid()), true);
    assert_int_equal(seen.result, 0);
    assert_int_equal(seen.count, 120);
    assert_int_equal(seen.first, 50);
    assert_int_equal(seen.events, 70);
    close(fd);
    trace_stop(lapping);
}

/* The file goes, wherever the process is by then. */
static void test_other_folder(UNUSED void **state)
{
    int here = open(".", O_PATH | O_CLOEXEC);
    struct trace_recorder *recorder;

    assert_true(here >= 0);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(trace_start_flight(".", SLOTS, &job, &recorder), 0);
    assert_int_equal(access(path_of(getpid()), F_OK), 0);
    assert_int_equal(chdir("/"), 0);
    trace_stop(recorder);
    assert_int_equal(access(path_of(getpid()), F_OK), -1);
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static void record_forever(_Atomic uint64_t *recorded)
{
    struct trace_recorder *recorder;

    clock_set(NULL);
    if (start(SLOTS, &recorder) < 0)
        _exit(1);
    trace_record_text(recorder, TRACE_CONTEXT, 4, 2, "c");
    for (uint64_t n = 0;; n++) {
        record(recorder, n);
        atomic_store(recorded, n + 1);
    }
}

/* A process is read while it writes, and killed at random moments: its last events are
 * there. */
static void test_killed(UNUSED void **state)
{
    _Atomic uint64_t *recorded = sys_mmap(4096, -1, 0);
    struct random random;

    assert_non_null(recorded);
    random_seed(&random, 1);
    for (int round = 0; round < 200; round++) {
        uint64_t least = random_below(&random, 400), before, whole;
        pid_t pid;
        struct seen seen;

        atomic_store(recorded, 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            record_forever(recorded);
        while ((before = atomic_load(recorded)) <= least)
            sys_yield();
        seen = read_back(path_of(pid), false);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        /* it may be overwritten faster than it is read: then nothing is said */
        assert_true(seen.result == 0 || (seen.result == -EBADMSG && seen.events == 0));
        if (seen.result == 0 && seen.events != 0)
            assert_true(seen.first + seen.events >= before);
        whole = atomic_load(recorded);
        seen = read_back(path_of(pid), false);
        unlink(path_of(pid));
        assert_int_equal(seen.result, 0);
        assert_int_equal(seen.names, 1);
        assert_true(seen.count == whole || seen.count == whole + 1);
        assert_int_equal(seen.first + seen.events, seen.count);
        /* one place may hold the record that was being written */
        assert_true(seen.events == min_size(seen.count, SLOTS) || seen.events == SLOTS - 1);
    }
    sys_munmap(recorded, 4096);
}

static unsigned each_call_fails(const char *place)
{
    unsigned refused = 0;

    for (uint64_t n = 1;; n++) {
        struct trace_recorder *recorder;
        int err;

        sys_fail_at(n, ENOSPC);
        err = trace_start_flight(place, SLOTS, &job, &recorder);
        sys_fail_at(0, 0);
        if (err == 0) {
            trace_stop(recorder);
            return refused;
        }
        assert_int_equal(err, -ENOSPC);
        assert_int_equal(access(path_of(getpid()), F_OK), -1);
        assert_int_equal(sys_fds_live(), 0);
        assert_int_equal(sys_maps_live(), 0);
        refused++;
    }
}

static void test_each_call_fails(UNUSED void **state)
{
    /* open, the ring, the space for names, the mapping */
    assert_int_equal(each_call_fails(folder), 4);
    assert_int_equal(each_call_fails(NULL), 5); /* and the seals */
}

static void test_no_memory(UNUSED void **state)
{
    struct trace_recorder *recorder;

    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(start(SLOTS, &recorder), -ENOMEM);
        mem_fail_at(0);
        assert_int_equal(mem_live(), 0);
    }
}

/* Each bit of a file is turned: what is given out is what was recorded, or it is refused.
 * The words that grow (count) are not covered by a check: then events are missing, or none
 * is right. */
static void test_each_bit_flipped(UNUSED void **state)
{
    static unsigned char whole[128 + 8 * TRACE_RECORD_SIZE];
    struct trace_recorder *recorder;
    int fd;

    assert_int_equal(start(8, &recorder), 0);
    for (uint64_t n = 0; n < 13; n++)
        record(recorder, n);
    fd = open(path_of(getpid()), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, whole, sizeof whole, 0), sizeof whole);
    for (size_t bit = 0; bit < sizeof whole * 8; bit++) {
        size_t at = bit / 8;
        struct seen seen;

        whole[at] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &whole[at], 1, (off_t)at), 1);
        seen = read_back(path_of(getpid()), true);
        if (at < 64)
            assert_int_equal(seen.result, -EBADMSG);
        else if (at >= 128)
            assert_true(seen.result == -EBADMSG || seen.events == 7);
        whole[at] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &whole[at], 1, (off_t)at), 1);
    }
    assert_int_equal(read_back(path_of(getpid()), true).events, 8);
    for (off_t size = 0; size < (off_t)sizeof whole; size += 5) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_int_equal(read_back(path_of(getpid()), true).result, -EBADMSG);
        assert_int_equal(pwrite(fd, whole, sizeof whole, 0), sizeof whole);
    }
    close(fd);
    trace_stop(recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_last_events),
        TEST(test_names_stay),
        TEST(test_too_many_names),
        TEST(test_done),
        TEST(test_in_memory),
        TEST(test_lapped),
        TEST(test_torn_while_copied),
        TEST(test_other_folder),
        TEST(test_killed),
        TEST(test_each_call_fails),
        TEST(test_no_memory),
        TEST(test_each_bit_flipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
