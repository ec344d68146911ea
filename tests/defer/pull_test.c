/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull_test.c - receivers that pull messages from the send table of their sender.
 *
 * order_test checks which message matches, and in which order.  This test checks that a pull
 * needs no action of the sender, that both sides may act at the same time, and that the library
 * neither believes nor follows a table in which somebody else has written.
 */
#include "cluster.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "core/core.h"
#include "defer/backlog.h"
#include "defer/sendtable.h"
#include "transport/atomics.h"

#define CONTEXT 41
#define COUNT   40 /* more than fit into a table */
#define LARGE   50000

static_assert(COUNT > SENDTABLE_ENTRIES, "some are not shown");

/* Every message waits at its sender, the receiver can read the table, and lock words are not
 * used. */
static bool is_taking(const struct configuration *config)
{
    return config_window(config) == 0 && !config_has_faults(config) &&
           strcmp(config->params[0], "TRANSPORT=verbs") != 0 &&
           strcmp(config->params[1], "WINDOW=0") == 0;
}

/* ---- without progress of the sender ---- */

static size_t size_of(int i)
{
    static const size_t sizes[] = {
        0, 4, MESSAGE_INLINE + 1, SENDTABLE_INLINE, SENDTABLE_INLINE + 1, LARGE};

    return sizes[(size_t)i % ARRAY_COUNT(sizes)];
}

static void send_all(struct cluster *cl, mbx_request *sends)
{
    for (int i = 0; i < COUNT; i++) {
        const struct mbx_options options = {.data = (uint64_t)i};

        assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, (uint64_t)i % 2,
                                  seeded_bytes((unsigned)i, size_of(i)), size_of(i), &options,
                                  &sends[i]),
                         0);
    }
    cluster_settle(cl);
}

/* The receive gets message i; without: only the receiver makes progress. */
static void receive(struct cluster *cl, uint64_t tag, uint64_t ignore, int i, bool without)
{
    static unsigned char buf[LARGE];
    struct mbx_completion done;
    mbx_request recv;
    int result = 0;

    assert_int_equal(
        mbx_recv(cl->eps[1], 0, CONTEXT, tag, ignore, buf, sizeof buf, NULL, &recv), 0);
    for (int round = 0; without && result == 0 && round < 100; round++)
        result = mbx_test(cl->eps[1], recv, &done);
    if (without)
        assert_int_equal(result, 1);
    else
        cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.status.data, i);
    assert_int_equal(done.received, size_of(i));
    assert_memory_equal(buf, seeded_bytes((unsigned)i, size_of(i)), size_of(i));
}

/* All sends complete, and the statistics count the pulls. */
static void end(struct cluster *cl, const mbx_request *sends, uint64_t taken)
{
    for (int i = 0; i < COUNT; i++)
        cluster_wait_error(cl, 0, sends[i], 0);
    cluster_settle(cl);
    assert_true(cluster_stats(cl, 1).pulled >= taken);
    assert_int_equal(cluster_stats(cl, 0).pulled_by_peers, cluster_stats(cl, 1).pulled);
    assert_int_equal(cluster_waiting(cl), 0);
    assert_int_equal(
        cluster_stats(cl, 0).dropped_packets + cluster_stats(cl, 1).dropped_packets, 0);
    cluster_close(cl);
}

static void test_a_full_table_is_taken_from_a_sender_that_does_nothing(void **state)
{
    mbx_request sends[COUNT];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    send_all(&cl, sends);
    for (int i = 1; i < SENDTABLE_ENTRIES; i += 2)
        receive(&cl, 1, 0, i, true);
    for (int i = 0; i < SENDTABLE_ENTRIES; i += 2)
        receive(&cl, 0, MBX_IGNORE_ALL, i, true);
    assert_int_equal(cluster_stats(&cl, 1).rtrs + cluster_stats(&cl, 0).claims, 0);
    assert_int_equal(cluster_stats(&cl, 0).pulled_by_peers, 0); /* the sender cannot know */
    for (int i = SENDTABLE_ENTRIES; i < COUNT; i++)
        receive(&cl, 0, MBX_IGNORE_ALL, i, false);
    end(&cl, sends, SENDTABLE_ENTRIES);
}

static void test_probes_need_no_answer(void **state)
{
    mbx_request sends[COUNT];
    struct mbx_status status;
    mbx_message message;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    send_all(&cl, sends);
    assert_int_equal(mbx_probe(cl.eps[1], 0, CONTEXT, 1, 0, &status), 1);
    assert_int_equal(status.data, 1);
    assert_int_equal(status.size, size_of(1));
    assert_int_equal(mbx_mprobe(cl.eps[1], 0, CONTEXT, 1, 0, &status, &message), 1);
    assert_int_equal(mbx_discard(cl.eps[1], message), 0);
    assert_int_equal(mbx_mprobe(cl.eps[1], 0, CONTEXT, 0, MBX_IGNORE_ALL, &status, &message),
                     1);
    assert_int_equal(status.data, 0);
    assert_int_equal(mbx_discard(cl.eps[1], message), 0);
    assert_int_equal(cluster_stats(&cl, 1).peeks, 0);
    for (int i = 2; i < COUNT; i++)
        receive(&cl, 0, MBX_IGNORE_ALL, i, false);
    end(&cl, sends, 2);
}

/* The table has space for some of the deferred messages: a probe asks the sender about the
 * others. */
static void test_a_probe_asks_for_what_is_not_shown(void **state)
{
    mbx_request sends[COUNT], last;
    struct mbx_status status;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    send_all(&cl, sends);
    assert_int_equal(mbx_probe(cl.eps[1], 0, CONTEXT, 7, 0, &status), 0);
    assert_int_equal(cluster_stats(&cl, 1).peeks, 1);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 7, NULL, 0, NULL, &last), 0);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 7, 0, &status), 1);
    assert_int_equal(status.tag, 7);
    for (int i = 0; i < COUNT; i++)
        receive(&cl, 0, 1, i, false);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 7, 0, &status), 1);
    receive(&cl, 7, 0, 0, false); /* empty and with data 0, as message 0 */
    cluster_wait_error(&cl, 0, last, 0);
    end(&cl, sends, 0);
}

/* ---- forged tables ---- */

static struct transport *transport_of(const struct cluster *cl)
{
    return cl->eps[0]->net.transport;
}

static struct sendtable *table_of(const struct cluster *cl)
{
    assert_non_null(peer_get(cl->eps[0], 1)->backlog);
    return peer_get(cl->eps[0], 1)->backlog->sendtable;
}

static const char *const quiet[] = {"LOG_LEVEL=error", "CLOSE_TIMEOUT=0", NULL};

/* Whatever the version in the table, the messages that the receiver has not pulled are
 * received. */
static void test_a_version_that_nobody_could_have_made(void **state)
{
    for (int kind = 0; kind < 6; kind++) {
        mbx_request sends[COUNT];
        struct sendtable *sendtable;
        uint64_t version;
        struct cluster cl;

        cluster_open(&cl, *state, 2, quiet);
        send_all(&cl, sends);
        sendtable = table_of(&cl);
        version = sendtable->version;
        switch (kind) {
        case 0:
            version = 0;
            break;
        case 1:
            version = UINT64_MAX;
            break;
        case 2:
            version ^= SENDTABLE_BUSY;
            break;
        case 3:
            version += 1;
            break;
        case 4:
            version = version << 7 | 5;
            break;
        default: /* pulled, and then the bit is cleared */
            receive(&cl, 0, MBX_IGNORE_ALL, 0, true);
            cluster_settle(&cl);
            version = sendtable->version & ~sendtable_bit(0);
            break;
        }
        transport_store(transport_of(&cl), sendtable->index + SENDTABLE_VERSION, &version, 1);
        cl.eps[1]->settings.tuning.sendtable =
            0; /* a receiver that also writes such versions would mislead itself */
        for (int i = kind == 5; i < COUNT; i++)
            receive(&cl, 0, MBX_IGNORE_ALL, i, false);
        for (int i = 0; i < COUNT; i++)
            cluster_wait_error(&cl, 0, sends[i], 0);
        assert_true(cluster_stats(&cl, 0).claims > 0);
        assert_true(peer_get(cl.eps[0], 1)->backlog->is_cheated);
        cluster_close(&cl);
    }
}

/* More bits than messages mark entries as taken. */
static void test_more_is_taken_than_there_is(void **state)
{
    int value = 5, got = 0;
    mbx_request send, recv;
    uint64_t version;
    struct cluster cl;

    cluster_open(&cl, *state, 2, quiet);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &value, sizeof value, NULL, &send), 0);
    cluster_settle(&cl);
    version = table_of(&cl)->version | sendtable_bit(1);
    transport_store(transport_of(&cl), table_of(&cl)->index + SENDTABLE_VERSION, &version, 1);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 2, 0, &got, sizeof got, NULL, NULL), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &got, sizeof got, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 5);
    cluster_settle(&cl);
    assert_true(peer_get(cl.eps[0], 1)->backlog->is_cheated);
    cluster_close(&cl);
}

/* Random words are written into a table.  The received data is not checked. */
static void test_a_table_of_violations(void **state)
{
    int values[COUNT], rounds = test_is_quick() ? 300 : 3000;
    struct random r;
    struct cluster cl;

    random_seed(&r, 3);
    cluster_open(&cl, *state, 2, quiet);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, (uint64_t)i % 3, &values[i],
                                  sizeof values[i], &(struct mbx_options){.flags = MBX_SILENT},
                                  NULL),
                         0);
    cluster_settle(&cl);
    for (int i = 0; i < rounds; i++) {
        uint64_t at = cl.eps[0]->net.transport->limits.cswap_words +
                      random_below(&r, i % 2 == 0 ? SENDTABLE_HEAD : SENDTABLE_WORDS);
        uint64_t word = random_below(&r, 3) == 0 ? random_next(&r) : random_below(&r, 40);
        struct mbx_status status;
        static char buf[64];

        transport_store(transport_of(&cl), at, &word, 1);
        mbx_probe(cl.eps[1], 0, CONTEXT, random_below(&r, 3), 0, &status);
        mbx_recv(cl.eps[1], MBX_ANY_SOURCE, CONTEXT, random_below(&r, 3), 0, buf, sizeof buf,
                 &(struct mbx_options){.flags = MBX_SILENT}, NULL);
        mbx_progress(cl.eps[random_below(&r, 2)]);
    }
    cluster_close(&cl);
}

/* A sender clears the mark of a message as soon as it is taken, and does not read the FINs that
 * it is owed.  A matched probe takes no more than a bound. */
static void test_takes_of_a_probe_are_bounded(void **state)
{
    const struct peer *peer;
    uint64_t version, takes = 0;
    mbx_request send;
    int value = 5;
    struct cluster cl;

    cluster_open(&cl, *state, 2, quiet);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &value, sizeof value, NULL, &send), 0);
    cluster_settle(&cl);
    version = table_of(&cl)->version;
    peer = peer_get(cl.eps[1], 0);
    for (int i = 0; i < 20000; i++) {
        struct mbx_status status;
        mbx_message message;
        int got;

        if (mbx_mprobe(cl.eps[1], 0, CONTEXT, 1, 0, &status, &message) != 1)
            continue;
        assert_int_equal(mbx_mrecv(cl.eps[1], message, &got, sizeof got,
                                   &(struct mbx_options){.flags = MBX_SILENT}, NULL),
                         0);
        takes++;
        transport_store(transport_of(&cl), table_of(&cl)->index + SENDTABLE_VERSION, &version,
                        1);
        assert_in_range(peer->outq.fins, 0, FINS_MOST + 1);
    }
    assert_true(takes > FINS_MOST);
    cluster_close(&cl);
}

/* ---- sender and receiver at the same time ---- */

#define MESSAGES 4000
#define AHEAD    48 /* unfinished requests at a time, on either side */
#define APART    16 /* a receive may pass over this many messages, less one */
#define TAGS     3
#define SIZE     5000

/* One sender and one receiver: whoever acts first, each receive gets the same message. */
struct race {
    struct cluster cl;
    int count;
    struct {
        uint64_t tag;
        size_t size;
    } messages[MESSAGES];
    struct {
        uint64_t tag, ignore;
        int expected, got;
    } receives[MESSAGES];
    _Atomic bool is_over;
};

/* Receive r is for the first of the remaining messages, or for the first with some tag. */
static void race_plan(struct race *race, struct random *random, int r, int *left)
{
    bool is_any = random_below(random, 3) == 0;
    uint64_t tag = race->messages[left[is_any ? 0 : random_below(random, APART)]].tag;
    int at = 0;

    while (!is_any && race->messages[left[at]].tag != tag)
        at++;
    race->receives[r].tag = tag;
    race->receives[r].ignore = is_any ? MBX_IGNORE_ALL : 0;
    race->receives[r].expected = left[at];
    race->receives[r].got = -1;
    memmove(&left[at], &left[at + 1], sizeof left[0] * (size_t)(APART - at - 1));
}

static void race_make(struct race *race, struct random *random)
{
    int left[APART];

    race->count = test_is_quick() ? MESSAGES / 8 : MESSAGES;
    for (int i = 0; i < race->count; i++) {
        race->messages[i].tag = random_below(random, TAGS);
        race->messages[i].size = random_below(random, 4) == 0 ? random_below(random, SIZE)
                                                              : random_below(random, 40);
    }
    for (int i = 0; i < APART; i++)
        left[i] = i;
    /* the last receives accept any message */
    for (int r = 0; r < race->count; r++) {
        if (r + APART <= race->count) {
            race_plan(race, random, r, left);
            left[APART - 1] = r + APART;
            continue;
        }
        race->receives[r].tag = 0;
        race->receives[r].ignore = MBX_IGNORE_ALL;
        race->receives[r].expected = left[0];
        race->receives[r].got = -1;
        memmove(&left[0], &left[1], sizeof left - sizeof left[0]);
    }
}

static void race_send(struct race *race, int i)
{
    const struct mbx_options options = {.data = (uint64_t)i};

    assert_int_equal(mbx_send(race->cl.eps[0], 1, CONTEXT, race->messages[i].tag,
                              seeded_bytes((unsigned)i, race->messages[i].size),
                              race->messages[i].size, &options, NULL),
                     0);
}

static void *run_sender(void *arg)
{
    struct race *race = arg;
    struct mbx_completion done;
    int begun = 0, ended = 0;

    while (ended < race->count || !race->is_over) {
        if (begun < race->count && begun - ended < AHEAD)
            race_send(race, begun++);
        else if (mbx_progress(race->cl.eps[0]) == 0)
            sched_yield();
        for (; mbx_poll(race->cl.eps[0], MBX_SENDS, &done, 1) == 1; ended++)
            assert_int_equal(done.error, 0);
    }
    return NULL;
}

static void race_post(struct race *race, int r, void *buf)
{
    const struct mbx_options options = {.user = &race->receives[r]};

    assert_int_equal(mbx_recv(race->cl.eps[1], 0, CONTEXT, race->receives[r].tag,
                              race->receives[r].ignore, buf, SIZE, &options, NULL),
                     0);
}

/* Checks the receives that have completed.  Returns their number. */
static int race_poll(struct race *race, unsigned char bufs[][SIZE])
{
    struct mbx_completion done;
    int count = 0;

    for (; mbx_poll(race->cl.eps[1], MBX_RECVS, &done, 1) == 1; count++) {
        int i = (int)done.status.data, r = 0;

        while (&race->receives[r] != done.user)
            r++;
        assert_int_equal(done.error, 0);
        assert_int_equal(i, race->receives[r].expected);
        assert_int_equal(done.received, race->messages[i].size);
        assert_memory_equal(bufs[r % AHEAD], seeded_bytes((unsigned)i, race->messages[i].size),
                            race->messages[i].size);
        race->receives[r].got = i;
    }
    return count;
}

static void run_receiver(struct race *race, struct random *random)
{
    static unsigned char bufs[AHEAD][SIZE];
    int posted = 0, received = 0, first = 0;

    while (received < race->count) {
        while (first < posted && race->receives[first].got >= 0)
            first++;
        if (posted < race->count && posted - first < AHEAD && random_below(random, 3) != 0) {
            race_post(race, posted, bufs[posted % AHEAD]);
            posted++;
        } else if (mbx_progress(race->cl.eps[1]) == 0) {
            sched_yield();
        }
        received += race_poll(race, bufs);
    }
}

static void run_race(const struct configuration *config, uint64_t seed, const char *window)
{
    static struct race race;
    const char *const more[] = {window, NULL};
    struct random random;
    pthread_t sender;

    random_seed(&random, seed);
    race_make(&race, &random);
    race.is_over = false;
    seeded_bytes(0, 0); /* the data is made before there are two threads */
    cluster_open(&race.cl, config, 2, more);
    print_message("seed %d, %s\n", (int)seed, window);
    assert_int_equal(pthread_create(&sender, NULL, run_sender, &race), 0);
    run_receiver(&race, &random);
    race.is_over = true;
    assert_int_equal(pthread_join(sender, NULL), 0);
    assert_int_equal(cluster_stats(&race.cl, 0).deferred_now, 0);
    cluster_close(&race.cl);
}

static void test_taking_during_claims_and_leaving(void **state)
{
    const struct configuration *config = *state;

    if (config_is_loop(config))
        skip(); /* one thread uses all endpoints */
    run_race(config, 1, "WINDOW=0");
    run_race(config, 2, "WINDOW=1");
    run_race(config, 3, "WINDOW=20");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_table_is_taken_from_a_sender_that_does_nothing),
        cmocka_unit_test(test_probes_need_no_answer),
        cmocka_unit_test(test_a_probe_asks_for_what_is_not_shown),
        cmocka_unit_test(test_a_version_that_nobody_could_have_made),
        cmocka_unit_test(test_more_is_taken_than_there_is),
        cmocka_unit_test(test_a_table_of_violations),
        cmocka_unit_test(test_takes_of_a_probe_are_bounded),
        cmocka_unit_test(test_taking_during_claims_and_leaving),
    };

    return test_main_for(argc, argv, is_taking, tests, ARRAY_COUNT(tests));
}
