/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracepoint_test.c - MBX_TRACE records the calls of the matching engines and their results.
 */
#include "cluster.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/temporary.h"
#include "base/log.h"
#include "base/sys.h"
#include "trace/trace.h"

#define CONTEXT    31
#define EVENTS_MAX 512

static char folder[TEMPORARY_SIZE], setting[TEMPORARY_SIZE + 8];
static const char *const traced[] = {setting, "ADVERT=off", NULL};
static const char *const traced_advertise[] = {setting, "ADVERT=always", "ADVERT_SIZE=1", NULL};
static unsigned warnings;
static _Atomic unsigned clock_reads; /* devices have threads */

static void count_line(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)text;
    warnings += level == LOG_LEVEL_WARN;
}

static uint64_t count_clock(void)
{
    return ++clock_reads;
}

static void make_folder(void)
{
    assert_non_null(mkdtemp(temporary_name(folder, "record")));
    snprintf(setting, sizeof setting, "TRACE=%s", folder);
}

/* Returns the trace file, whatever host name the transport has given it. */
static const char *file_of(int who)
{
    static char path[TEMPORARY_SIZE + 64];
    glob_t found;

    snprintf(path, sizeof path, "%s/matchbox-*-%ld-%d.trace", folder, (long)getpid(), who);
    if (glob(path, 0, NULL, &found) == 0) {
        assert_int_equal(found.gl_pathc, 1);
        snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
        globfree(&found);
    }
    return path;
}

static void remove_folder(int files)
{
    for (int i = 0; i < files; i++)
        assert_int_equal(unlink(file_of(i)), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Collects all events of endpoint who about matching, or all about the travel of messages, with
 * the close.  Returns their number. */
static int events_about(int who, bool is_travel, struct trace_event *events)
{
    static struct trace_reader reader;
    int count = 0, result;

    assert_int_equal(trace_open(&reader, file_of(who)), 0);
    while ((result = trace_next(&reader, &events[count])) == 1)
        if (events[count].type == TRACE_CLOSE ||
            (!trace_is_name(events[count].type) &&
             trace_is_travel(events[count].type) == is_travel))
            assert_true(++count < EVENTS_MAX);
    assert_int_equal(result, 0);
    trace_close(&reader);
    return count;
}

static int events_of(int who, struct trace_event *events)
{
    return events_about(who, false, events);
}

static void send_tag(struct cluster *cl, uint64_t tag)
{
    int value = 1;

    assert_int_equal(mbx_inject(cl->eps[0], 1, CONTEXT, tag, &value, sizeof value, 0), 0);
    cluster_settle(cl);
}

static int into[16]; /* received data is not checked */

static mbx_request post(struct cluster *cl, uint32_t source, uint64_t tag, uint64_t ignore)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[1], source, CONTEXT, tag, ignore, &into[tag],
                              sizeof into[tag], NULL, &recv),
                     0);
    return recv;
}

/* Covers each way in which a receive and a message can match, or not. */
static void tell_story(struct cluster *cl)
{
    struct mbx_status status;
    mbx_message message;
    mbx_request recv[4];

    recv[0] = post(cl, 0, 1, 0);
    recv[1] = post(cl, MBX_ANY_SOURCE, 2, MBX_IGNORE_ALL);
    send_tag(cl, 1); /* matches recv[0] */
    assert_int_equal(mbx_cancel(cl->eps[1], recv[1]), 0);
    cluster_settle(cl);
    send_tag(cl, 3); /* waits */
    send_tag(cl, 4);
    send_tag(cl, 5);
    recv[2] = post(cl, 0, 3, 0); /* takes the message */
    assert_int_equal(cluster_probe(cl, 1, 0, CONTEXT, 4, 0, &status), 1);
    assert_int_equal(cluster_mprobe(cl, 1, 0, CONTEXT, 4, 0, &status, &message), 1);
    assert_int_equal(mbx_mrecv(cl->eps[1], message, &into[0], sizeof into[0], NULL, &recv[3]),
                     0);
    assert_int_equal(cluster_mprobe(cl, 1, 0, CONTEXT, 5, 0, &status, &message), 1);
    assert_int_equal(mbx_discard(cl->eps[1], message), 0);
    cluster_wait_error(cl, 1, recv[0], 0);
    cluster_wait_error(cl, 1, recv[1], -ECANCELED);
    cluster_wait_error(cl, 1, recv[2], 0);
    cluster_wait_error(cl, 1, recv[3], 0);
    cluster_settle(cl); /* the sender also learns of the discarded message */
}

static void assert_event(const struct trace_event *e, enum trace_type type, uint32_t source,
                         uint64_t tag, uint64_t ignore, uint64_t entry, uint64_t partner)
{
    assert_string_equal(trace_type_name(e->type), trace_type_name(type));
    assert_int_equal(e->context_id, CONTEXT);
    assert_int_equal(e->source, source);
    assert_int_equal(e->tag, tag);
    assert_int_equal(e->ignore, ignore);
    assert_int_equal(e->entry, entry);
    assert_int_equal(e->partner, partner);
}

static int count_of(const struct trace_event *events, int count, enum trace_type type)
{
    int found = 0;

    for (int i = 0; i < count; i++)
        found += events[i].type == type;
    return found;
}

/* Deferred messages are also recorded: every message once.  The sender that defers is notified
 * of receives and wins them. */
static void check_held_story(void)
{
    struct trace_event e[EVENTS_MAX];
    int count = events_of(1, e);

    assert_int_equal(count_of(e, count, TRACE_POST), 3);
    assert_int_equal(count_of(e, count, TRACE_ARRIVE), 4);
    assert_int_equal(count_of(e, count, TRACE_CANCEL), 1);
    assert_int_equal(count_of(e, count, TRACE_TAKE), 1);
    assert_int_equal(count_of(e, count, TRACE_DISCARD), 1);
    assert_true(count_of(e, count, TRACE_DEFER) > 0);
    assert_int_equal(e[count - 1].type, TRACE_CLOSE);
    remove_folder(2);
}

/* Reads a story from beginning to end: each event is the next of its file. */
static void test_every_event(void **state)
{
    struct trace_event e[EVENTS_MAX];
    struct cluster cl;
    int count;

    make_folder();
    cluster_open(&cl, *state, 2, traced);
    tell_story(&cl);
    cluster_close(&cl);
    if (config_window(*state) != UINT64_MAX) {
        check_held_story();
        return;
    }
    count = events_of(1, e);
    assert_int_equal(count, 16);
    assert_event(&e[0], TRACE_POST, 0, 1, 0, e[0].entry, 0);
    assert_event(&e[1], TRACE_POST, UINT32_MAX, 2, UINT64_MAX, e[1].entry, 0);
    assert_event(&e[2], TRACE_ARRIVE, 0, 1, 0, 0, e[0].entry);
    assert_event(&e[3], TRACE_CANCEL, UINT32_MAX, 2, UINT64_MAX, e[1].entry, 0);
    assert_event(&e[4], TRACE_ARRIVE, 0, 3, 0, e[4].entry, 0);
    assert_event(&e[5], TRACE_ARRIVE, 0, 4, 0, e[5].entry, 0);
    assert_event(&e[6], TRACE_ARRIVE, 0, 5, 0, e[6].entry, 0);
    assert_event(&e[7], TRACE_POST, 0, 3, 0, e[7].entry, e[4].entry);
    assert_event(&e[8], TRACE_PEEK, 0, 4, 0, 0, e[5].entry);
    assert_event(&e[9], TRACE_PEEK, 0, 4, 0, 0, e[5].entry);
    assert_event(&e[10], TRACE_CLAIM, 0, 4, 0, e[5].entry, 0);
    assert_event(&e[11], TRACE_TAKE, 0, 4, 0, e[5].entry, e[11].partner);
    assert_event(&e[12], TRACE_PEEK, 0, 5, 0, 0, e[6].entry);
    assert_event(&e[13], TRACE_CLAIM, 0, 5, 0, e[6].entry, 0);
    assert_event(&e[14], TRACE_DISCARD, 0, 5, 0, e[6].entry, 0);
    assert_int_equal(e[15].type, TRACE_CLOSE);
    assert_true(e[0].entry != e[1].entry && e[4].entry != e[5].entry);
    assert_int_equal(events_of(0, e), 1); /* the sender has matched nothing */
    remove_folder(2);
}

/* A probe that finds nothing looks, makes progress, and looks again. */
static void test_missed_probes(void **state)
{
    struct trace_event e[EVENTS_MAX];
    struct mbx_status status;
    struct cluster cl;

    make_folder();
    cluster_open(&cl, *state, 2, traced);
    assert_int_equal(mbx_probe(cl.eps[1], MBX_ANY_SOURCE, CONTEXT, 9, 6, &status), 0);
    cluster_close(&cl);
    assert_int_equal(events_of(1, e), 3);
    assert_event(&e[0], TRACE_PEEK, UINT32_MAX, 9, 6, 0, 0);
    assert_event(&e[1], TRACE_PEEK, UINT32_MAX, 9, 6, 0, 0);
    remove_folder(2);
}

/* Messages of an earlier use are dropped without a probe. */
static void test_drops(void **state)
{
    struct trace_event e[EVENTS_MAX];
    struct cluster cl;

    make_folder();
    cluster_open(&cl, *state, 2, traced);
    assert_int_equal(mbx_context_open(cl.eps[1], CONTEXT, 8, 7), 0);
    if (config_window(*state) == UINT64_MAX) {
        send_tag(&cl, 9);
        send_tag(&cl, 1); /* dropped at once */
        assert_int_equal(mbx_context_close(cl.eps[1], CONTEXT), 0);
        cluster_close(&cl);
        assert_int_equal(events_of(1, e), 5);
        assert_event(&e[0], TRACE_ARRIVE, 0, 9, 0, e[0].entry, 0);
        assert_event(&e[1], TRACE_ARRIVE, 0, 1, 0, e[1].entry, 0);
        assert_event(&e[2], TRACE_DROP, 0, 1, 0, e[1].entry, 0);
        assert_event(&e[3], TRACE_DROP, 0, 9, 0, e[0].entry, 0);
    } else {
        cluster_close(&cl);
    }
    remove_folder(2);
}

/* Returns the next event of this type and tag, from *at on.  Sets *at to the index after it. */
static const struct trace_event *find(const struct trace_event *events, int count,
                                      enum trace_type type, uint64_t tag, int *at)
{
    for (int i = *at; i < count; i++) {
        if (events[i].type == type && events[i].tag == tag) {
            *at = i + 1;
            return &events[i];
        }
    }
    fail_msg("no %s of tag %d", trace_type_name(type), (int)tag);
    return NULL;
}

/* Checks for each message of test_every_protocol() that it is sent, by which protocol, and that
 * all of it is received. */
static void check_travel(const size_t *sizes, size_t messages)
{
    static struct trace_event sent[EVENTS_MAX], received[EVENTS_MAX];
    int sent_count = events_about(0, true, sent),
        received_count = events_about(1, true, received);

    assert_int_equal(count_of(sent, sent_count, TRACE_SEND), messages);
    assert_int_equal(count_of(sent, sent_count, TRACE_SENT), messages);
    assert_int_equal(count_of(received, received_count, TRACE_RECEIVED), messages);
    for (size_t i = 0; i < messages; i++) {
        int at = 0, there = 0;
        const struct trace_event *send = find(sent, sent_count, TRACE_SEND, i, &at), *end;

        assert_int_equal(send->context_id, CONTEXT);
        assert_int_equal(send->source, 1);
        assert_int_equal(send->amount, sizes[i]);
        assert_int_equal(send->entry, i + 1);
        end = find(sent, sent_count, TRACE_SENT, i, &at);
        assert_in_range(end->amount, 1, MBX_PROTOCOLS);
        if (end->entry == 0) {
            assert_int_equal(end->partner, i + 1);
        } else {
            at = 0;
            send = find(sent, sent_count, TRACE_LEAVE, i, &at);
            assert_int_equal(send->entry, i + 1);
            assert_int_equal(send->partner, end->entry);
        }
        end = find(received, received_count, TRACE_RECEIVED, i, &there);
        assert_int_equal(end->source, 0);
        assert_int_equal(end->amount, sizes[i]);
        assert_int_equal(end->partner, 0);
    }
}

/* Long messages are recorded once, when they are matched. */
static void test_every_protocol(void **state)
{
    static const size_t sizes[] = {0, 8, 1000, 10000, 100000};
    static char buf[100000];
    struct trace_event e[EVENTS_MAX];
    struct cluster cl;

    make_folder();
    cluster_open(&cl, *state, 2, traced);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        const struct mbx_options silent = {.flags = MBX_SILENT};
        mbx_request recv;

        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, i, seeded_bytes(0, sizes[i]), sizes[i],
                                  &silent, NULL),
                         0);
        cluster_settle(&cl);
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, i, 0, buf, sizeof buf, NULL, &recv),
                         0);
        cluster_wait_error(&cl, 1, recv, 0);
    }
    cluster_settle(&cl);
    cluster_close(&cl);
    check_travel(sizes, ARRAY_COUNT(sizes));
    if (config_window(*state) != UINT64_MAX) {
        int count = events_of(1, e);

        assert_int_equal(count_of(e, count, TRACE_POST), ARRAY_COUNT(sizes));
        assert_int_equal(count_of(e, count, TRACE_ARRIVE), ARRAY_COUNT(sizes));
        remove_folder(2);
        return;
    }
    assert_int_equal(events_of(1, e), 11);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        assert_event(&e[2 * i], TRACE_ARRIVE, 0, i, 0, e[2 * i].entry, 0);
        assert_event(&e[2 * i + 1], TRACE_POST, 0, i, 0, e[2 * i + 1].entry, e[2 * i].entry);
    }
    remove_folder(2);
}

/* Two receives are advertised to their sender: one is written into, the other is void. */
static void test_advertise_events(void **state)
{
    const struct configuration *config = *state;
    struct trace_event e[EVENTS_MAX];
    mbx_request recv[2];
    struct cluster cl;

    if (strcmp(config->name, "loop") != 0 && strcmp(config->name, "shm") != 0)
        skip();
    make_folder();
    cluster_open(&cl, config, 2, traced_advertise);
    recv[0] = post(&cl, 0, 1, 0);
    cluster_settle(&cl);
    send_tag(&cl, 1);
    recv[1] = post(&cl, 0, 2, 0);
    send_tag(&cl, 3);
    assert_int_equal(mbx_cancel(cl.eps[1], recv[1]), 0);
    cluster_close(&cl);
    assert_int_equal(events_of(1, e), 8);
    assert_event(&e[0], TRACE_POST, 0, 1, 0, e[0].entry, 0);
    assert_event(&e[1], TRACE_ADVERTISE, 0, 1, 0, e[0].entry, 0);
    assert_event(&e[2], TRACE_ARRIVE, 0, 1, 0, 0, e[0].entry);
    assert_event(&e[4], TRACE_ADVERTISE, 0, 2, 0, e[3].entry, 0);
    assert_int_equal(events_of(0, e), 4);
    assert_event(&e[0], TRACE_LOCK, 1, 1, 0, e[0].entry, recv[0]);
    assert_event(&e[1], TRACE_WRITE, 1, 1, 0, e[0].entry, recv[0]);
    assert_event(&e[2], TRACE_VOID, 1, 2, 0, 0, recv[1]);
    remove_folder(2);
}

/* Counts the records of endpoint who that stand for two events. */
static unsigned done_of(int who)
{
    static struct trace_reader reader;
    struct trace_event event;
    uint64_t events = 0;
    int result;

    assert_int_equal(trace_open(&reader, file_of(who)), 0);
    while ((result = trace_next(&reader, &event)) == 1)
        events++;
    assert_int_equal(result, 0);
    trace_close(&reader);
    return (unsigned)(events - reader.records);
}

/* A short message has one record on each side.  If its receive came later, or it is long, only
 * operations that complete at once share a record. */
static void test_one_record(void **state)
{
    const struct configuration *config = *state;
    static char bytes[300000], there[sizeof bytes];
    static struct trace_event e[EVENTS_MAX];
    mbx_request send, recv;
    struct cluster cl;
    int count;

    if (strcmp(config->name, "loop") != 0 && strcmp(config->name, "shm") != 0)
        skip();
    make_folder();
    cluster_open(&cl, config, 2, traced);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 9, NULL, 8, 0), -EINVAL); /* no event */
    recv = post(&cl, 0, 1, 0);
    send_tag(&cl, 1);
    cluster_wait_error(&cl, 1, recv, 0);
    send_tag(&cl, 2);
    recv = post(&cl, 0, 2, 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 3, 0, there, sizeof there, NULL, &recv),
                     0);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 3, bytes, sizeof bytes, NULL, &send), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    cluster_wait_error(&cl, 0, send, 0);
    cluster_close(&cl);
    assert_int_equal(done_of(0), 2);
    assert_int_equal(done_of(1), 1);
    count = events_about(0, true, e);
    assert_int_equal(count_of(e, count, TRACE_SEND), 3);
    assert_int_equal(count_of(e, count, TRACE_SENT), 3);
    count = events_about(1, true, e);
    assert_int_equal(count_of(e, count, TRACE_RECEIVED), 3);
    remove_folder(2);
}

/* A trace file that cannot be made gives a warning; the program continues. */
static void test_no_folder(void **state)
{
    static const char *const nowhere[] = {"TRACE=/nonexistent/folder", NULL};
    struct cluster cl;

    warnings = 0;
    log_set_sink(count_line, NULL);
    cluster_open(&cl, *state, 2, nowhere);
    assert_int_equal(warnings, 2);
    tell_story(&cl);
    cluster_close(&cl);
    log_set_sink(NULL, NULL);
    assert_int_equal(warnings, 2);
}

static void test_full_disk(void **state)
{
    static struct trace_reader reader;
    struct trace_event event;
    unsigned read = 0;
    int result;
    const char *const told[] = {setting, "SENDTABLE=no", "ADVERT=off", NULL};
    struct cluster cl;

    make_folder();
    warnings = 0;
    log_set_sink(count_line, NULL);
    cluster_open(&cl, *state, 2, told);
    assert_int_equal(sys_fail_name("write", SYS_FAIL_ALWAYS, ENOSPC), 0);
    for (int i = 0; i < 100000 && warnings < 2; i++) /* until both need the second piece */
        tell_story(&cl);
    assert_int_equal(warnings, 2);
    sys_fail_none();
    tell_story(&cl); /* recording does not start again */
    cluster_close(&cl);
    log_set_sink(NULL, NULL);
    assert_int_equal(warnings, 2);
    assert_int_equal(trace_open(&reader, file_of(1)), 0);
    while ((result = trace_next(&reader, &event)) == 1)
        read++;
    assert_int_equal(result, -EBADMSG); /* the file ends without a close */
    assert_true(read > 4600);           /* all events that had space are there */
    trace_close(&reader);
    remove_folder(2);
}

/* An event reads the clock once, and not at all if nothing is recorded.  Other readings of the
 * clock are the same in both stories. */
static void test_off_costs_no_clock(void **state)
{
    const struct configuration *config = *state;
    struct cluster cl;
    int silent_reads;

    if (!config_is_loop(config) || config_has_faults(config) ||
        config_window(config) != UINT64_MAX)
        return; /* these have clocks of their own, or check whether a receiver is alive */
    clock_set(
        count_clock); /* also before a trace is opened, which has a counter besides the clock */
    cluster_open(&cl, config, 2, NULL);
    clock_reads = 0;
    tell_story(&cl);
    clock_set(NULL);
    silent_reads = clock_reads;
    cluster_close(&cl);
    make_folder();
    clock_set(count_clock);
    cluster_open(&cl, config, 2, traced);
    clock_reads = 0;
    tell_story(&cl);
    clock_set(NULL);
    assert_true(clock_reads >=
                (unsigned)silent_reads + 15); /* and one for each round of progress */
    cluster_close(&cl);
    remove_folder(2);
}

/* Counts the rounds without any work among this many unsuccessful rounds. */
#define ROUNDS 640

static unsigned idle_rounds(const struct configuration *config, const char *const *params)
{
    struct cluster cl;
    unsigned idle = 0;

    cluster_open(&cl, config, 2, params);
    tell_story(&cl);
    cluster_settle(&cl); /* a device has had its core */
    for (unsigned i = 0; i < ROUNDS; i++)
        mbx_progress(cl.eps[1]);
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (mbx_idle(cl.eps[1]))
            idle++;
        else
            mbx_progress(cl.eps[1]);
    }
    cluster_close(&cl);
    return idle;
}

/* A receive that waits unsuccessfully is recorded by one round in eight. */
static void test_rounds_without_result_stay_idle(void **state)
{
    const struct configuration *config = *state;
    unsigned without, with;

    if (config_has_faults(config) || config_window(config) != UINT64_MAX)
        return; /* repeated packets make rounds successful */
    without = idle_rounds(config, NULL);
    clock_set(count_clock); /* fast: no wait is recorded */
    make_folder();
    with = idle_rounds(config, traced);
    clock_set(NULL);
    remove_folder(2);
    if (with < without / 4 * 3)
        fail_msg("%u of %d rounds are idle, %u without a trace", with, ROUNDS, without);
}

static _Atomic uint64_t now_ns;

static uint64_t given_clock(void)
{
    return now_ns;
}

/* Receives a message that is sent after this many rounds, each of which takes `ns`. */
static void wait_slowly(struct cluster *cl, unsigned rounds, uint64_t ns)
{
    mbx_request recv = post(cl, 0, 1, 0);

    for (unsigned i = 0; i < rounds; i++, now_ns += ns)
        mbx_progress(cl->eps[1]);
    send_tag(cl, 1);
    cluster_wait_error(cl, 1, recv, 0);
}

/* A rank that seldom polls waits like one that always polls, also if its last wait was
 * short. */
static void test_slow_rounds_are_waits(void **state)
{
    const struct configuration *config = *state;
    static struct trace_event e[EVENTS_MAX];
    struct cluster cl;
    int count;

    if (!config_is_loop(config) || config_has_faults(config) ||
        config_window(config) != UINT64_MAX)
        return; /* these have clocks of their own */
    now_ns = CLOCK_S;
    clock_set(given_clock);
    make_folder();
    cluster_open(&cl, config, 2, traced);
    for (int i = 0; i < 3; i++)
        wait_slowly(&cl, 30, 50);
    wait_slowly(&cl, 12, 60 * CLOCK_US);
    cluster_close(&cl);
    clock_set(NULL);
    count = events_about(1, true, e);
    assert_int_equal(count_of(e, count, TRACE_WAIT), 1);
    assert_int_equal(count_of(e, count, TRACE_WAITED), 1);
    remove_folder(2);
}

/* A long message, a probe that finds nothing and one that finds a message, and a wait.  Returns how many events of each type
 * both traces have. */
static void tell_of_all(const struct configuration *config, const char *const *params,
                        int counts[TRACE_TYPES])
{
    static struct trace_event e[EVENTS_MAX];
    static char there[100000];
    struct mbx_status status;
    struct cluster cl;
    mbx_request send, recv;

    now_ns = CLOCK_S;
    clock_set(given_clock);
    make_folder();
    cluster_open(&cl, config, 2, params);
    assert_int_equal(mbx_probe(cl.eps[1], 0, CONTEXT, 3, 0, &status), 0);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 3, seeded_bytes(0, sizeof there),
                              sizeof there, NULL, &send),
                     0);
    cluster_settle(&cl);
    assert_int_equal(mbx_probe(cl.eps[1], 0, CONTEXT, 3, 0, &status), 1);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 3, 0, there, sizeof there, NULL, &recv),
                     0);
    cluster_wait_error(&cl, 1, recv, 0);
    cluster_wait_error(&cl, 0, send, 0);
    wait_slowly(&cl, 30, 50);
    wait_slowly(&cl, 12, 60 * CLOCK_US);
    cluster_close(&cl);
    clock_set(NULL);
    for (int type = 0; type < TRACE_TYPES; type++) {
        counts[type] = 0;
        for (int who = 0; who < 2; who++)
            counts[type] += count_of(e, events_about(who, true, e), (enum trace_type)type) +
                            count_of(e, events_about(who, false, e), (enum trace_type)type);
    }
    remove_folder(2);
}

static void test_for_races(void **state)
{
    static const char *const for_races[] = {setting, "ADVERT=off", "TRACE_FOR=races", NULL};
    static const enum trace_type both[] = {TRACE_POST,  TRACE_ARRIVE,   TRACE_SEND,
                                           TRACE_LEAVE, TRACE_RECEIVED, TRACE_SENT};
    const struct configuration *config = *state;
    int all[TRACE_TYPES], few[TRACE_TYPES], left_out = 0;

    if (!config_is_loop(config) || config_has_faults(config) ||
        config_window(config) != UINT64_MAX)
        return; /* these have clocks of their own */
    tell_of_all(config, traced, all);
    tell_of_all(config, for_races, few);
    assert_true(all[TRACE_WAIT] > 0);
    assert_int_equal(few[TRACE_WAIT] + few[TRACE_WAITED], 0);
    assert_true(all[TRACE_PEEK] > 1);
    assert_int_equal(few[TRACE_PEEK], 1); /* the one that has found a message */
    for (int type = TRACE_RTS; type <= TRACE_HAND; type++) {
        assert_int_equal(few[type], 0);
        left_out += all[type];
    }
    assert_true(left_out > 0);
    for (size_t i = 0; i < ARRAY_COUNT(both); i++) {
        assert_true(all[both[i]] > 0);
        assert_int_equal(few[both[i]], all[both[i]]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event),
        cmocka_unit_test(test_missed_probes),
        cmocka_unit_test(test_drops),
        cmocka_unit_test(test_every_protocol),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_off_costs_no_clock),
        cmocka_unit_test(test_advertise_events),
        cmocka_unit_test(test_one_record),
        cmocka_unit_test(test_rounds_without_result_stay_idle),
        cmocka_unit_test(test_slow_rounds_are_waits),
        cmocka_unit_test(test_for_races),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
