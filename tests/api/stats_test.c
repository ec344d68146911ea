/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats_test.c - the statistics are exact.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/temporary.h"

#define CONTEXT 61

static void send_one(struct cluster *cl, size_t size)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};

    assert_int_equal(
        mbx_send(cl->eps[0], 1, CONTEXT, 1, seeded_bytes(0, size), size, &silent, NULL), 0);
    cluster_settle(cl);
}

/* Sends a message eagerly, whatever the limits are. */
static void inject_one(struct cluster *cl, size_t size)
{
    assert_int_equal(mbx_inject(cl->eps[0], 1, CONTEXT, 1, seeded_bytes(0, size), size, 0), 0);
    cluster_settle(cl);
}

static void recv_one(struct cluster *cl, void *buf, size_t size)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};

    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, buf, size, &silent, NULL), 0);
    cluster_settle(cl);
}

/* The number of waiting messages that their receiver keeps; the others are deferred. */
static uint64_t kept_of(const struct cluster *cl, uint64_t waiting)
{
    return min_size(waiting, config_window(cl->config));
}

static void check_waiting(const struct cluster *cl, uint64_t waiting)
{
    struct stats from = cluster_stats(cl, 0), to = cluster_stats(cl, 1);

    assert_int_equal(to.unexpected_now, kept_of(cl, waiting));
    assert_int_equal(from.deferred_now, waiting - kept_of(cl, waiting));
    assert_int_equal(to.unexpected_bytes_now > 0, to.unexpected_now > 0);
}

static void test_expected_and_unexpected(void **state)
{
    struct stats s;
    struct cluster cl;
    char got;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < 3; i++)
        recv_one(&cl, &got, 1);
    s = cluster_stats(&cl, 1);
    assert_int_equal(s.posted_now, 3);
    for (int i = 0; i < 7; i++)
        send_one(&cl, 1);
    s = cluster_stats(&cl, 1);
    assert_int_equal(s.expected, 3);
    assert_int_equal(s.unexpected, kept_of(&cl, 4));
    assert_int_equal(s.posted_now, 0);
    assert_int_equal(s.posted_max, 3);
    assert_int_equal(s.unexpected_max, kept_of(&cl, 4));
    assert_int_equal(s.unexpected_bytes_now, s.unexpected_bytes_max);
    check_waiting(&cl, 4);
    recv_one(&cl, &got, 1);
    recv_one(&cl, &got, 1);
    send_one(&cl, 1);
    s = cluster_stats(&cl, 1);
    check_waiting(&cl, 3);
    assert_int_equal(s.unexpected_max, kept_of(&cl, 4));
    if (config_window(cl.config) == UINT64_MAX)
        assert_int_equal(s.unexpected, 5);
    for (int i = 0; i < 4; i++)
        recv_one(&cl, &got, 1);
    check_waiting(&cl, 0);
    s = cluster_stats(&cl, 1);
    assert_int_equal(s.expected + s.unexpected, 8);
    if (config_window(cl.config) == UINT64_MAX)
        assert_int_equal(s.expected, 3);
    assert_int_equal(s.unexpected_now, 0);
    assert_int_equal(s.unexpected_bytes_now, 0);
    assert_int_equal(s.unexpected_bytes_max > 0, config_window(cl.config) > 0);
    assert_int_equal(s.posted_now, 1);
    assert_int_equal(s.posted_max, 3);
    assert_int_equal(s.contexts, 1);
    assert_int_equal(s.peers, 2);
    assert_int_equal(s.requests_now, 1);
    assert_int_equal(s.dropped_packets, 0);
    assert_int_equal(s.send_errors, 0);
    cluster_close(&cl);
}

/* The memory for a flood of short messages: at most 128 bytes for each, besides the index of
 * the queue.  A longer message takes its payload and little more. */
static void test_memory_of_what_waits(void **state)
{
    enum { COUNT = 500, LONGER = 100 };
    struct stats s;
    struct cluster cl;
    uint64_t before;
    char got[LONGER];

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < COUNT; i++)
        inject_one(&cl, 8);
    s = cluster_stats(&cl, 1);
    check_waiting(&cl, COUNT);
    assert_in_range(s.unexpected_bytes_now, kept_of(&cl, COUNT) * 8, kept_of(&cl, COUNT) * 128);
    before = s.unexpected_bytes_now;
    inject_one(&cl, LONGER);
    s = cluster_stats(&cl, 1);
    if (config_window(cl.config) > COUNT)
        assert_in_range(s.unexpected_bytes_now - before, LONGER, LONGER + 256);
    else
        assert_int_equal(s.unexpected_bytes_now, before);
    for (int i = 0; i <= COUNT; i++)
        recv_one(&cl, got, LONGER);
    assert_int_equal(cluster_stats(&cl, 1).unexpected_bytes_now, 0);
    cluster_close(&cl);
}

/* The length of a search: the fifth of five posted receives takes from one to five steps.
 * Nothing else is searched for. */
static void test_searches(void **state)
{
    struct stats before, after;
    struct cluster cl;
    char got[5];

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t tag = 10; tag < 15; tag++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, tag, 0, &got[tag - 10], 1, NULL, NULL),
                         0);
    before = cluster_stats(&cl, 1);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 14, "x", 1, 0), 0);
    cluster_settle(&cl);
    after = cluster_stats(&cl, 1);
    assert_int_equal(after.expected, 1);
    if (config_has_device(cl.config)) { /* the device searched, if it was in time */
        assert_int_equal(after.searches, before.searches + 1 - after.device_matched);
    } else if (config_window(cl.config) == 0) { /* the sender searched */
        assert_int_equal(after.searches, before.searches);
        assert_int_equal(after.claims_met + after.pulled, 1);
    } else {
        assert_int_equal(after.searches, before.searches + 1);
        assert_in_range(after.search_steps - before.search_steps, 1, 5);
        assert_in_range(after.search_max, 1, 5);
    }
    cluster_close(&cl);
}

/* A message that waits at its sender may become a rendezvous.  It is still counted as one
 * message. */
static void check_held_protocols(const uint64_t *sent, const uint64_t *received,
                                 const uint64_t *meant)
{
    uint64_t all_sent = 0, all_received = 0, all = 0;

    for (int i = 0; i < MBX_PROTOCOLS; i++) {
        if (i < MBX_RNDV_READ)
            assert_true(sent[i] <= meant[i]);
        all_sent += sent[i];
        all_received += received[i];
        all += meant[i];
    }
    assert_int_equal(all_sent, all);
    assert_int_equal(all_received, all);
}

/* Sends one message of each protocol: both sides count it, with its bytes. */
static void test_protocols(void **state)
{
    const struct configuration *config = *state;
    uint64_t count[MBX_PROTOCOLS] = {0}, bytes[MBX_PROTOCOLS] = {0};
    bool is_deferred = config_window(config) != UINT64_MAX;
    /* an advertised receive has a protocol of its own: advert_test.c */
    const char *const params[] = {
        "ADVERT=off",
        is_deferred ? NULL : "WINDOW_PAYLOAD=unlimited" /* so that it never waits */, NULL};
    struct stats from, to;
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)protocol);
        struct guarded_buffer buffer;

        if (size == 0 && protocol != MBX_INLINE)
            continue;
        for (int late = 0; late < 2; late++) {
            guarded_buffer_init(&buffer, size, 0);
            if (late)
                send_one(&cl, size);
            recv_one(&cl, buffer.bytes, size);
            if (!late)
                send_one(&cl, size);
            guarded_buffer_fini(&buffer, size);
            count[protocol]++;
            bytes[protocol] += size;
        }
    }
    from = cluster_stats(&cl, 0);
    to = cluster_stats(&cl, 1);
    if (config_has_faults(config) && !is_deferred) { /* a failed read becomes data */
        count[MBX_RNDV_DATA] += to.read_fallbacks;
        count[MBX_RNDV_READ] -= to.read_fallbacks;
        for (int i = 0; i < 2; i++)
            bytes[MBX_RNDV_READ + i] = from.sent_bytes[MBX_RNDV_READ + i];
    } else if (!config_has_faults(config)) {
        assert_int_equal(to.read_fallbacks, 0);
    }
    if (!is_deferred) {
        assert_memory_equal(from.sent, count, sizeof count);
        assert_memory_equal(from.sent_bytes, bytes, sizeof bytes);
        assert_memory_equal(to.received, count, sizeof count);
        assert_memory_equal(to.received_bytes, bytes, sizeof bytes);
        assert_int_equal(to.expected, to.unexpected);
    } else {
        check_held_protocols(from.sent, to.received, count);
        check_held_protocols(from.sent_bytes, to.received_bytes, bytes);
    }
    cluster_close(&cl);
}

/* A send that finds no space is tried again and counted.  Requests are also counted. */
static void test_full_and_requests(void **state)
{
    static const char *const wide[] = {"MATCH_AT=receiver", "WINDOW=unlimited",
                                       "WINDOW_PAYLOAD=unlimited", NULL};
    struct stats s;
    struct cluster cl;
    char got;

    cluster_open(&cl, *state, 2, wide);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, "x", 1, 0), 0);
    s = cluster_stats(&cl, 0);
    assert_true(s.full > 0);
    assert_true(s.requests_now > 0);
    if (config_is_elsewhere(*state)) /* the device takes some meanwhile */
        assert_in_range(s.requests_now, 1, s.requests_max);
    else
        assert_int_equal(s.requests_now, s.requests_max);
    for (int i = 0; i < 3000; i++)
        recv_one(&cl, &got, 1);
    s = cluster_stats(&cl, 0);
    assert_int_equal(s.requests_now, 0);
    assert_int_equal(s.sent[MBX_INLINE], 3000);
    cluster_close(&cl);
}

static uint64_t time_ns;

static uint64_t clock_of_test(void)
{
    return time_ns;
}

static void look_around(struct cluster *cl)
{
    for (int i = 0; i < 4 * PROGRESS_SLOW_CHECK; i++)
        assert_true(mbx_progress(cl->eps[1]) >= 0);
}

/* The memory of requests that have been over for a second is freed. requests_max stays, and the
 * numbers of these requests stay stale. */
static void test_memory_of_requests_that_are_over(void **state)
{
    enum { COUNT = 400 };
    static mbx_request requests[COUNT];
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &byte, 1, NULL, &requests[i]),
                         0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(mbx_cancel(cl.eps[1], requests[i]), 0);
        assert_int_equal(mbx_wait(cl.eps[1], requests[i], -1, NULL), 0);
    }
    time_ns = clock_now();
    clock_set(clock_of_test);
    look_around(&cl);
    assert_true(cl.eps[1]->requests.pool.slot_count >= COUNT);
    time_ns += REQUEST_REST_NS;
    look_around(&cl);
    clock_set(NULL);
    assert_true(cl.eps[1]->requests.pool.slot_count < COUNT / 4);
    assert_true(cluster_stats(&cl, 1).requests_max >= COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mbx_cancel(cl.eps[1], requests[i]), -ESTALE);
    send_one(&cl, 1);
    recv_one(&cl, &byte, 1);
    cluster_close(&cl);
}

static void every_field_has_a_row(void)
{
    bool has_row[STATS_COUNT] = {false};

    for (size_t i = 0; i < STATS_COUNT; i++) {
        assert_in_range(stats_table[i].at, 0, STATS_COUNT - 1);
        assert_false(has_row[stats_table[i].at]);
        has_row[stats_table[i].at] = true;
    }
}

/* Each statistic has a name of its own.  Its value is the same by name, by number and from the
 * library.  An unknown name or number is refused. */
static void test_by_name(void **state)
{
    uint64_t values[256], value = 77;
    struct mbx_stat stat, other;
    struct stats s;
    struct cluster cl;
    unsigned count = 0;

    cluster_open(&cl, *state, 2, NULL);
    send_one(&cl, 8);
    stats_read(cl.eps[1], &s);
    memset(values, 0xaa, sizeof values);
    assert_int_equal(mbx_stats_read(cl.eps[1], values, ARRAY_COUNT(values)), STATS_COUNT);
    for (; mbx_stat_get(count, &stat, sizeof stat) == 0; count++) {
        assert_true(stat.name[0] != '\0' && stat.about[0] != '\0');
        assert_int_equal(mbx_stat_read(cl.eps[1], stat.name, &value), 0);
        assert_int_equal(value, values[count]);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(mbx_stat_get(i, &other, sizeof other), 0);
            assert_string_not_equal(stat.name, other.name);
        }
    }
    assert_int_equal(count, STATS_COUNT);
    every_field_has_a_row();
    assert_int_equal(values[count], UINT64_C(0xaaaaaaaaaaaaaaaa));
    assert_int_equal(mbx_stat_read(cl.eps[1], "unexpected_bytes_max", &value), 0);
    assert_int_equal(value, s.unexpected_bytes_max);
    assert_int_equal(mbx_stat_read(cl.eps[0], "sent_bytes_inline", &value), 0);
    assert_int_equal(value, cluster_stats(&cl, 0).sent_bytes[MBX_INLINE]);
    cluster_close(&cl);
}

static void test_wrong_arguments(void **state)
{
    uint64_t values[2] = {77, 77};
    struct mbx_stat stat = {.name = "untouched"};
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_stat_get(STATS_COUNT, &stat, sizeof stat), -ENOENT);
    assert_string_equal(stat.name, "untouched");
    assert_int_equal(mbx_stat_read(cl.eps[0], "no_such_statistic", &values[0]), -ENOENT);
    assert_int_equal(mbx_stat_read(cl.eps[0], "", &values[0]), -ENOENT);
    assert_int_equal(mbx_stats_read(cl.eps[0], values, -1), -EINVAL);
    assert_int_equal(mbx_stats_read(cl.eps[0], NULL, 1), -EINVAL);
    assert_int_equal(mbx_stats_read(cl.eps[0], NULL, 0), STATS_COUNT);
    assert_int_equal(values[0], 77);
    assert_int_equal(mbx_stats_read(cl.eps[0], values, 1), STATS_COUNT);
    assert_int_equal(values[1], 77);
    cluster_close(&cl);
}

/* Each endpoint writes one line when it closes. */
static void test_file(void **state)
{
    char path[TEMPORARY_SIZE], param[TEMPORARY_SIZE + 16], text[8192];
    const char *const more[] = {param, NULL};
    int fd = mkstemp(temporary_name(path, "stats")), lines = 0;
    struct cluster cl;
    ssize_t size;

    assert_true(fd >= 0);
    snprintf(param, sizeof param, "STATS_FILE=%s", path);
    cluster_open(&cl, *state, 2, more);
    send_one(&cl, 0);
    cluster_close(&cl);
    size = read(fd, text, sizeof text - 1);
    assert_true(size > 0);
    text[size] = '\0';
    for (char *p = text; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    assert_int_equal(lines, 2);
    if (config_window(cl.config) != 0) /* otherwise the message is abandoned at the close */
        assert_non_null(strstr(text, " sent_inline=1 "));
    assert_non_null(
        strstr(text, config_window(cl.config) != 0 ? " unexpected=1 " : " deferred_max=1 "));
    close(fd);
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expected_and_unexpected),
        cmocka_unit_test(test_memory_of_what_waits),
        cmocka_unit_test(test_searches),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_full_and_requests),
        cmocka_unit_test(test_memory_of_requests_that_are_over),
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_file),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
