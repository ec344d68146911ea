/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_test.c - what was recorded is read, whatever happens to the rank, the disk or the file.
 *
 * The oracle is an array of the events, in which late outcomes are filled in.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "replay/format.h"
#include "replay/replay.h"
#include "replay/replay_testing.h"

#define EVENTS_MAX 30000

static char long_text[5 * (UINT16_MAX + 1)];
static struct replay_event events[EVENTS_MAX];
static uint64_t
    open_numbers[EVENTS_MAX]; /* of receive events, in the order of their posts; 0: filled */
static size_t open_events[EVENTS_MAX];

/* ---- random events ---- */

static struct replay_signature any_signature(struct random *r, bool is_receive)
{
    return (struct replay_signature){
        .comm = random_below(r, 3),
        .source = random_below(r, 2) ? REPLAY_ANY : (int32_t)random_below(r, 5),
        .tag = random_below(r, 2) ? REPLAY_ANY : (int32_t)random_below(r, 1000) - 20,
        .kind = (uint8_t)(is_receive
                              ? REPLAY_RECV + random_below(r, 3)
                              : REPLAY_IPROBE + random_below(r, REPLAY_KINDS - REPLAY_IPROBE)),
        .requests = (uint8_t)random_below(r, 16),
        .place = (uint16_t)(random_below(r, 2) ? random_below(r, 5) : random_below(r, 65536))};
}

static struct replay_outcome any_outcome(struct random *r)
{
    if (random_below(r, 3) != 0)
        return (struct replay_outcome){.result = REPLAY_FALSE};
    if (random_below(r, 2))
        return replay_message((int32_t)random_below(r, 40), (int32_t)random_below(r, 3),
                              random_below(r, 100000));
    if (random_below(r, 4) == 0)
        return (struct replay_outcome){.value = random_next(r), .result = REPLAY_VALUE};
    return (struct replay_outcome){.value = random_below(r, 3), .result = REPLAY_AT};
}

/* A program: some signatures, of which most are used again and again. */
static size_t write_events(struct replay_writer *w, struct random *r, size_t count)
{
    struct replay_signature used[40];
    size_t opened = 0, made = 0, receives = 0;

    for (size_t i = 0; i < ARRAY_COUNT(used); i++)
        used[i] = any_signature(r, i % 2 == 0);
    while (made < count) {
        struct replay_event *event = &events[made];
        size_t which =
            random_below(r, 8) == 0 ? random_below(r, ARRAY_COUNT(used)) : random_below(r, 4);

        if (random_below(r, 50) == 0)
            used[which] = any_signature(r, which % 2 == 0);
        *event = (struct replay_event){.signature = used[which], .times = 1};
        if (replay_is_receive(event->signature.kind)) {
            open_events[opened] = made;
            open_numbers[opened++] = replay_write_post(w, &event->signature);
            assert_int_equal(open_numbers[opened - 1], ++receives);
        } else {
            size_t times =
                random_below(r, 10) == 0 ? min_size(random_below(r, 40), count - made - 1) : 0;

            event->outcome =
                times > 0 ? (struct replay_outcome){.result = REPLAY_FALSE} : any_outcome(r);
            for (replay_write_event(w, &event->signature, &event->outcome); times > 0;
                 times--) {
                events[++made] = *event;
                replay_write_event(w, &event->signature, &event->outcome);
            }
        }
        made++;
        /* most complete soon, some late, some never */
        if (opened > 0 && random_below(r, 2)) {
            size_t one = random_below(r, 100) == 0
                             ? random_below(r, opened)
                             : opened - 1 - random_below(r, opened < 3 ? opened : 3);

            if (open_numbers[one] != 0) {
                struct replay_outcome outcome =
                    random_below(r, 9) == 0
                        ? (struct replay_outcome){.result = REPLAY_CANCELLED}
                        : replay_message((int32_t)random_below(r, 20), 7, 8);

                replay_write_fill(w, open_numbers[one], &outcome);
                events[open_events[one]].outcome = outcome;
                open_numbers[one] = 0;
            }
        }
    }
    return made;
}

static bool is_same(const struct replay_event *a, const struct replay_event *b)
{
    return replay_is_alike(&a->signature, &b->signature) &&
           a->signature.place == b->signature.place && a->outcome.result == b->outcome.result &&
           (a->outcome.result == REPLAY_OPEN ||
            (a->outcome.value == b->outcome.value &&
             a->outcome.size_class == b->outcome.size_class));
}

/* How many events, from the first on, are as they were; -1: one is not. */
static long read_events(struct replay_reader *reader, size_t count)
{
    struct replay_event event;
    size_t at = 0;

    while (replay_read_next(reader, &event))
        for (; event.times > 0; event.times--, at++)
            if (at >= count || !is_same(&event, &events[at]))
                return -1;
    return (long)at;
}

/* ---- the tests ---- */

static void events_are_read_as_they_were(UNUSED void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct replay_writer *w = open_writer();
        struct replay_reader *reader;
        struct random r;
        size_t count;

        random_seed(&r, seed);
        count = write_events(w, &r, seed * seed * 30);
        /* of a rank that is still there, or was killed */
        reader = open_reader();
        assert_int_equal(read_events(reader, count), count);
        assert_false(replay_read_flags(reader) & REPLAY_COMPLETE);
        replay_read_close(reader);
        replay_write_close(w);
        reader = open_reader();
        assert_int_equal(read_events(reader, count), count);
        assert_string_equal(replay_read_damage(reader), "");
        assert_true(replay_read_flags(reader) & REPLAY_COMPLETE);
        assert_int_equal(replay_read_job(reader)->size, 4);
        replay_read_close(reader);
        remove_records();
    }
}

static void polling_takes_few_bytes(UNUSED void **state)
{
    static const struct replay_signature test = {.kind = REPLAY_TEST, .requests = 1};
    static const struct replay_signature probe = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IPROBE};
    static const struct replay_outcome nothing = {.result = REPLAY_FALSE};
    struct replay_writer *w = open_writer();
    struct stat status;

    for (int i = 0; i < 100000; i++) {
        replay_write_event(w, &test, &nothing);
        replay_write_event(w, &probe, &nothing);
    }
    assert_int_equal(replay_write_events(w), 200000);
    replay_write_close(w);
    assert_int_equal(stat(path_of("rank-2.mbxrec"), &status), 0);
    assert_true(status.st_size - FORMAT_CHUNKS_AT < 200000 / 20);
}

static void wildcards_of_few_senders_take_a_byte(UNUSED void **state)
{
    static const struct replay_signature recv = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_RECV};
    struct replay_writer *w = open_writer();
    struct stat status;
    struct random r;

    random_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        struct replay_outcome outcome = replay_message((int32_t)random_below(&r, 15), 7, 8);

        replay_write_fill(w, replay_write_post(w, &recv), &outcome);
    }
    replay_write_close(w);
    assert_int_equal(stat(path_of("rank-2.mbxrec"), &status), 0);
    assert_true(status.st_size - FORMAT_CHUNKS_AT < 20000 * 12 / 10);
}

/* Outcomes that came late are in the same file. */
static void cancelled_receives_are_listed(UNUSED void **state)
{
    static const struct replay_signature recv = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IRECV};
    struct replay_outcome outcome = replay_message(3, 7, 8);
    struct replay_writer *w = open_writer();
    struct replay_reader *reader;

    for (unsigned i = 0; i < 2 * FORMAT_RING; i++)
        (void)replay_write_post(w, &recv);
    replay_write_fill(w, 1, &outcome);
    replay_write_cancelled(w, 5);
    replay_write_close(w);
    reader = open_reader();
    assert_int_equal(replay_read_cancelled(reader, 0), 5);
    assert_int_equal(replay_read_cancelled(reader, 1), 0);
    replay_read_close(reader);
}

/* Reads a file with a byte that is another one, or that ends before it. */
static void try_damaged(size_t count, off_t at, bool is_cut)
{
    int fd = open(path_of("rank-2.mbxrec"), O_RDWR);
    struct replay_reader *reader;
    char error[PATH_MAX + 128];
    unsigned char byte;
    struct stat status;

    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (unsigned char)(1 << at % 8);
    if (is_cut)
        assert_int_equal(ftruncate(fd, at), 0);
    else
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    if (replay_read_open(folder, 2, &reader, error, sizeof error) == 0) {
        long read = read_events(reader, count);

        if (read < 0)
            fail_msg("byte %ld, cut %d: other events", (long)at, is_cut);
        if ((size_t)read < count && replay_read_flags(reader) & REPLAY_COMPLETE)
            fail_msg("byte %ld, cut %d: a part is called complete", (long)at, is_cut);
        replay_read_close(reader);
    }
    byte ^= (unsigned char)(1 << at % 8);
    if (!is_cut)
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void damage_never_makes_other_events(UNUSED void **state)
{
    struct replay_writer *w = open_writer();
    unsigned char *whole;
    struct stat status;
    struct random r;
    size_t count;
    int fd;

    random_seed(&r, 3);
    count = write_events(w, &r, 6000);
    replay_write_close(w);
    assert_int_equal(stat(path_of("rank-2.mbxrec"), &status), 0);
    for (off_t at = 0; at < status.st_size; at += at < 400                ? 1
                                                  : at < FORMAT_CHUNKS_AT ? 4001
                                                                          : 3)
        try_damaged(count, at, false);
    whole = malloc((size_t)status.st_size);
    fd = open(path_of("rank-2.mbxrec"), O_RDWR);
    assert_int_equal(pread(fd, whole, (size_t)status.st_size, 0), status.st_size);
    for (off_t at = status.st_size - 1; at > 0; at -= 97)
        try_damaged(count, at, true);
    assert_int_equal(pwrite(fd, whole, (size_t)status.st_size, 0), status.st_size);
    close(fd);
    free(whole);
    try_damaged(count, status.st_size - 1, true);
}

static void a_damaged_block_is_named(UNUSED void **state)
{
    struct replay_writer *w = open_writer();
    struct replay_reader *reader;
    struct format_chunk chunk;
    struct random r;
    size_t count;
    char byte = 0x55;
    int fd;

    random_seed(&r, 3);
    count = write_events(w, &r, 9000);
    replay_write_close(w);
    fd = open(path_of("rank-2.mbxrec"), O_RDWR);
    assert_int_equal(pread(fd, &chunk, sizeof chunk, FORMAT_CHUNKS_AT), sizeof chunk);
    assert_int_equal(
        pwrite(fd, &byte, 1,
               (off_t)(FORMAT_CHUNKS_AT + 2 * sizeof chunk + round_up(chunk.bytes, 8) + 100)),
        1);
    close(fd);
    reader = open_reader();
    assert_non_null(strstr(replay_read_damage(reader), "rank-2.mbxrec is damaged at byte "));
    assert_non_null(
        strstr(replay_read_damage(reader),
               "the checksum of block 1 is wrong; the record can be replayed up to event "));
    assert_in_range(read_events(reader, count), 1000, 4000);
    replay_read_close(reader);
}

static void killed_ranks_leave_what_they_stored(UNUSED void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        _Atomic uint64_t *made =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct replay_reader *reader;
        struct replay_event event;
        uint64_t before, read = 0;
        pid_t child = fork();

        if (child == 0) {
            static const struct replay_signature s = {
                .comm = 1, .source = REPLAY_ANY, .tag = 1, .kind = REPLAY_RECV};
            struct replay_writer *w;

            if (replay_write_open(folder, &job, &w) < 0)
                _exit(1);
            for (uint64_t i = 0;; i++) {
                struct replay_outcome outcome = replay_message((int32_t)(i % 1000), 1, 0);

                replay_write_fill(w, replay_write_post(w, &s), &outcome);
                atomic_store(made, i + 1);
            }
        }
        while (atomic_load(made) < seed * 700)
            ;
        before = atomic_load(made);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        reader = open_reader();
        assert_string_equal(replay_read_damage(reader), "");
        for (; replay_read_next(reader, &event); read++)
            if (event.outcome.result == REPLAY_MESSAGE)
                assert_int_equal(replay_source(&event.outcome), (int32_t)(read % 1000));
        assert_true(read >= before && read <= atomic_load(made) + 1);
        replay_read_close(reader);
        munmap((void *)made, 4096);
        remove_records();
    }
}

static void an_error_before_the_end_of_a_killed_rank_is_no_outcome(UNUSED void **state)
{
    static const struct replay_signature recv = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_RECV};
    static const struct replay_signature probe = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_PROBE};
    static const struct replay_outcome failed = {.result = REPLAY_FAILED};
    struct replay_writer *w = open_writer();
    struct replay_reader *reader;
    struct replay_event event;

    replay_write_fill(w, replay_write_post(w, &recv), &failed);
    replay_write_event(w, &probe, &failed);
    for (int is_complete = 0; is_complete < 2; is_complete++) {
        reader = open_reader();
        assert_int_equal(replay_read_events(reader), is_complete ? 2 : 1);
        assert_true(replay_read_next(reader, &event));
        assert_int_equal(event.outcome.result, is_complete ? REPLAY_FAILED : REPLAY_OPEN);
        assert_int_equal(replay_read_next(reader, &event), is_complete);
        assert_false(replay_read_next(reader, &event));
        replay_read_close(reader);
        if (!is_complete)
            replay_write_close(w);
    }
    remove_records();
}

static void the_commit_that_holds_is_not_written(UNUSED void **state)
{
    struct replay_writer *w = open_writer();
    struct format_commit slots[2];
    struct random r;
    int fd = open(path_of("rank-2.mbxrec"), O_RDONLY);

    random_seed(&r, 4);
    write_events(w, &r, 20000);
    assert_int_equal(pread(fd, slots, sizeof slots, FORMAT_COMMIT_AT), sizeof slots);
    assert_true(slots[0].number + 1 == slots[1].number ||
                slots[1].number + 1 == slots[0].number);
    assert_true(slots[0].number > 2);
    close(fd);
    replay_write_close(w);
}

static void a_full_disk_ends_the_record_alone(UNUSED void **state)
{
    struct replay_writer *w = open_writer();
    struct replay_reader *reader;
    long read;

    assert_int_equal(sys_fail_name("write", 3, ENOSPC), 0);
    for (size_t i = 0; i < 20000; i++) {
        struct replay_signature s = {.kind = REPLAY_TEST, .requests = (uint8_t)(i % 15)};
        struct replay_outcome outcome = {.result = REPLAY_FALSE};

        replay_write_event(w, &s, &outcome);
        events[i] = (struct replay_event){.signature = s, .outcome = outcome};
    }
    assert_int_equal(replay_write_close(w), -ENOSPC);
    assert_non_null(strstr(said, "record: rank 2: no space left in "));
    assert_non_null(strstr(said, "; the program continues"));
    reader = open_reader();
    assert_true(replay_read_flags(reader) & REPLAY_CUT);
    assert_false(replay_read_flags(reader) & REPLAY_COMPLETE);
    read = read_events(reader, 20000);
    assert_in_range(read, 4000, 20000);
    replay_read_close(reader);
}

static void records_are_private_and_new(UNUSED void **state)
{
    struct replay_writer *w = open_writer(), *other;
    struct stat status;

    assert_int_equal(stat(path_of("rank-2.mbxrec"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(replay_write_open(folder, &job, &other), -EEXIST);
    assert_non_null(strstr(said, "has a record of this rank already"));
    assert_int_equal(replay_write_open("/dev/null/orders", &job, &other), -ENOTDIR);
    assert_non_null(strstr(said, "record: rank 2: cannot record to /dev/null/orders"));
    replay_write_close(w);
    remove_records();
    assert_int_equal(rmdir(folder), 0);
    w = open_writer(); /* makes the folder */
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    replay_write_close(w);
}

static void what_is_no_record_is_refused(UNUSED void **state)
{
    static const uint32_t newer = FORMAT_VERSION + 1;
    struct replay_reader *reader;
    char error[PATH_MAX + 128];
    int fd;

    assert_int_equal(replay_read_open(folder, 2, &reader, error, sizeof error), -ENOENT);
    replay_write_close(open_writer());
    fd = open(path_of("rank-2.mbxrec"), O_RDWR);
    assert_int_equal(pwrite(fd, &newer, sizeof newer, 8), sizeof newer);
    assert_int_equal(replay_read_open(folder, 2, &reader, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "is in format 4; this version reads format 3"));
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_int_equal(replay_read_open(folder, 2, &reader, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "is not a record"));
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(replay_read_open(folder, 2, &reader, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "it ends too early"));
    close(fd);
}

/* Whoever makes the beginning of an order, as mbx explore does, learns why it is not there, and says it. */
static void a_beginning_that_cannot_be_written_is_told_by_its_writer(void **state)
{
    const struct replay_signature test = {.requests = 1, .kind = REPLAY_TEST};
    struct replay_writer *w = open_writer();

    (void)state;
    said[0] = '\0';
    replay_write_flag(w, REPLAY_BEGINNING);
    replay_write_event(w, &test, &(struct replay_outcome){.result = REPLAY_FALSE});
    assert_int_equal(sys_fail_name("write", 1, ENOSPC), 0);
    assert_int_equal(replay_write_close(w), -ENOSPC);
    assert_string_equal(said, "");
}

/* Some file systems say only here that there was no space. */
static void a_file_that_cannot_be_closed_is_told(void **state)
{
    struct replay_writer *w = open_writer();

    (void)state;
    assert_int_equal(replay_write_close(w), 0);
    unlink(path_of("rank-2.mbxrec"));
    w = open_writer();
    assert_int_equal(sys_fail_name("close", 1, EDQUOT), 0);
    assert_int_equal(replay_write_close(w), -EDQUOT);
    assert_non_null(strstr(said, "; some of the record may be missing"));
}

/* ---- places ---- */

static void a_place_is_an_address_in_a_file(UNUSED void **state)
{
    static const char text[] = "1a2f /home/ann/solve\n0 -\nffffffffffffffff /a b\n12 /cut";
    struct replay_reader *reader;
    uint64_t at = 0;

    replay_write_close(open_writer());
    put_places(text, sizeof text - 1);
    reader = open_reader();
    assert_string_equal(replay_read_place(reader, 1, &at), "/home/ann/solve");
    assert_int_equal(at, 0x1a2f);
    assert_null(replay_read_place(reader, 2, &at));
    assert_string_equal(replay_read_place(reader, 3, &at), "/a b");
    assert_int_equal(at, UINT64_MAX);
    assert_null(replay_read_place(reader, 0, &at));
    assert_null(replay_read_place(reader, 4, &at)); /* its line was cut off */
    assert_null(replay_read_place(reader, UINT16_MAX, &at));
    replay_read_close(reader);
    put_places("", 0);
    reader = open_reader();
    assert_null(replay_read_place(reader, 1, &at));
    replay_read_close(reader);
}

static void lines_that_are_no_place_end_the_places(UNUSED void **state)
{
    static const char *const lines[] = {
        "1a2f\n",        "1a2f \n", "x /a\n",       "-1 /a\n",    "1a2f a/b\n",
        "1 /a\033[2J\n", "\n",      "1a2f /a\tb\n", " 1a2f /a\n", "10000000000000000 /a\n"};
    struct replay_reader *reader;
    uint64_t at = 0;
    char text[32];

    replay_write_close(open_writer());
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        int length = snprintf(text, sizeof text, "1 /a\n%s", lines[i]);

        put_places(text, (size_t)length);
        reader = open_reader();
        assert_non_null(replay_read_place(reader, 1, &at));
        assert_null(replay_read_place(reader, 2, &at));
        assert_non_null(
            strstr(replay_read_unplaced(reader),
                   "rank-2.mbxplaces: a line is not an address and a file; lines of"));
        replay_read_close(reader);
    }
    put_places("1 /a\0b\n", 8); /* the text ends there, and the line too */
    reader = open_reader();
    replay_read_close(reader);
    for (size_t i = 0; i <= UINT16_MAX; i++)
        memcpy(long_text + 5 * i, "1 /a\n", 5);
    put_places(long_text, sizeof long_text);
    reader = open_reader();
    assert_non_null(strstr(replay_read_unplaced(reader), "it has too many lines"));
    assert_null(replay_read_place(reader, 1, &at));
    replay_read_close(reader);
}

/* It has the place of the first call that found nothing. */
static void a_probe_that_finds_nothing_again_needs_no_place(UNUSED void **state)
{
    struct replay_signature probe = {
        .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IPROBE, .place = 3};
    const struct replay_outcome none = {.result = REPLAY_FALSE}, some = replay_message(1, 7, 8);
    struct replay_writer *w = open_writer();
    struct replay_reader *reader;
    struct replay_event event;

    assert_false(replay_write_again(w, &probe)); /* nothing came before */
    replay_write_event(w, &probe, &none);
    probe.place = 0;
    assert_true(replay_write_again(w, &probe));
    assert_true(replay_write_again(w, &probe));
    probe.tag = 8;
    assert_false(replay_write_again(w, &probe));
    probe.tag = 7;
    probe.place = 4;
    replay_write_event(w, &probe, &some);
    assert_false(replay_write_again(w, &probe)); /* the last one has found something */
    assert_int_equal(replay_write_events(w), 4);
    replay_write_close(w);
    reader = open_reader();
    assert_true(replay_read_next(reader, &event));
    assert_int_equal(event.times, 3);
    assert_int_equal(event.signature.place, 3);
    assert_true(replay_read_next(reader, &event));
    assert_int_equal(event.signature.place, 4);
    assert_false(replay_read_next(reader, &event));
    replay_read_close(reader);
}

/* The other file cannot be made: the record ends, and what is there stays as it is. */
static void a_record_that_was_cut_counts_nothing_more(UNUSED void **state)
{
    const struct replay_signature test = {.requests = 1, .kind = REPLAY_TEST};
    struct replay_writer *w = open_writer();

    replay_write_event(w, &test, &(struct replay_outcome){.result = REPLAY_FALSE});
    assert_true(replay_test_again(replay_write_tail(w)));
    assert_int_equal(sys_fail_name("open", 1, EACCES), 0);
    replay_write_cancelled(w, 1);
    assert_non_null(strstr(said, "the record ends after event 2"));
    assert_false(replay_test_again(replay_write_tail(w)));
    assert_false(replay_write_again(w, &test));
    assert_int_equal(replay_write_events(w), 2);
    replay_write_close(w);
}

/* Kinds from 16 on, and values of 64 bits, come back; texts name the site. */
static void a_choice_has_a_site_and_a_value(UNUSED void **state)
{
    const struct replay_signature choice = {
        .comm = 5, .source = 1, .tag = -2, .kind = REPLAY_CHOICE, .place = 9};
    const struct replay_signature status = {.requests = 1, .kind = REPLAY_GET_STATUS};
    const struct replay_outcome value = {.value = UINT64_MAX - 5, .result = REPLAY_VALUE};
    struct replay_writer *w = open_writer();
    char text[REPLAY_TEXT];
    struct replay_reader *reader;
    struct replay_event event;

    replay_write_event(w, &choice, &value);
    replay_write_event(w, &status, &(struct replay_outcome){.result = REPLAY_TRUE});
    replay_write_close(w);
    reader = open_reader();
    assert_true(replay_read_next(reader, &event));
    assert_true(replay_is_alike(&event.signature, &choice));
    assert_int_equal(event.signature.place, choice.place);
    assert_int_equal(event.outcome.value, UINT64_MAX - 5);
    assert_string_equal(replay_signature_text(&event.signature, NULL, text),
                        "mbx_choice of site 8589934590");
    assert_string_equal(replay_outcome_text(&event.outcome, text), "18446744073709551610");
    assert_true(replay_read_next(reader, &event));
    assert_true(replay_is_alike(&event.signature, &status));
    assert_string_equal(replay_signature_text(&event.signature, NULL, text),
                        "MPI_Request_get_status");
    replay_read_close(reader);
}

static void only_numbered_folders_are_parts(UNUSED void **state)
{
    assert_true(replay_is_part("comm-5"));
    assert_true(replay_is_part("spawn-12"));
    assert_false(replay_is_part("2024")); /* another folder of the user */
    assert_false(replay_is_part("comm-"));
    assert_false(replay_is_part("comm-5x"));
    assert_false(replay_is_part("my-comm-5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_are_read_as_they_were),
        TEST(polling_takes_few_bytes),
        TEST(wildcards_of_few_senders_take_a_byte),
        TEST(cancelled_receives_are_listed),
        TEST(damage_never_makes_other_events),
        TEST(a_damaged_block_is_named),
        TEST(killed_ranks_leave_what_they_stored),
        TEST(an_error_before_the_end_of_a_killed_rank_is_no_outcome),
        TEST(the_commit_that_holds_is_not_written),
        TEST(a_full_disk_ends_the_record_alone),
        TEST(a_beginning_that_cannot_be_written_is_told_by_its_writer),
        TEST(a_file_that_cannot_be_closed_is_told),
        TEST(records_are_private_and_new),
        TEST(a_place_is_an_address_in_a_file),
        TEST(lines_that_are_no_place_end_the_places),
        TEST(a_probe_that_finds_nothing_again_needs_no_place),
        TEST(what_is_no_record_is_refused),
        TEST(a_record_that_was_cut_counts_nothing_more),
        TEST(a_choice_has_a_site_and_a_value),
        TEST(only_numbered_folders_are_parts),
    };

    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
