/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog_test.c - deferred sends: which messages must get through, and which must not.
 *
 *   backlog_test [--quick] [--races N] [CONFIGURATION...]
 *
 * --races: rounds of the cancel races in each configuration.
 */
#include "cluster.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "base/random.h"
#include "core/core.h"
#include "defer/backlog.h"

#define CONTEXT     31
#define COUNT       40 /* messages that have no receive yet */

#define RACES_VERBS 1000

static uint64_t races;

static bool is_narrow(const struct configuration *config)
{
    return config_window(config) != UINT64_MAX;
}

static mbx_request send_one(struct cluster *cl, int from, int to, uint32_t context_id,
                            uint64_t tag, const int *value)
{
    const struct mbx_options options = {.data = (uint64_t)*value};
    mbx_request send;

    assert_int_equal(mbx_ssend(cl->eps[from], (uint32_t)to, context_id, tag, value,
                               sizeof *value, &options, &send),
                     0);
    return send;
}

static mbx_request post_one(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                            uint64_t tag, uint64_t ignore, int *value)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[who], source, context_id, tag, ignore, value,
                              sizeof *value, NULL, &recv),
                     0);
    return recv;
}

static int receive(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                   uint64_t tag, uint64_t ignore)
{
    int value = -1;

    cluster_wait_error(cl, who, post_one(cl, who, source, context_id, tag, ignore, &value), 0);
    return value;
}

static void close_clean(struct cluster *cl)
{
    cluster_settle(cl);
    for (int i = 0; i < cl->count; i++) {
        struct stats s = cluster_stats(cl, i);

        assert_int_equal(s.dropped_packets, 0);
        assert_int_equal(s.unexpected_now + s.deferred_now + s.posted_now, 0);
        assert_true(s.unexpected_max <= (uint64_t)cl->count * config_window(cl->config));
    }
    cluster_close(cl);
}

/* ---- messages with a receive get through ---- */

static void flood(struct cluster *cl, int from, int to, mbx_request *sends, const int *values)
{
    for (int i = 0; i < COUNT; i++)
        sends[i] = send_one(cl, from, to, CONTEXT, 1, &values[i]);
}

static void drain(struct cluster *cl, int from, int to, const mbx_request *sends)
{
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(receive(cl, to, (uint32_t)from, CONTEXT, 1, 0), i);
    for (int i = 0; i < COUNT; i++)
        cluster_wait_error(cl, from, sends[i], 0);
}

static void count_up(int *values)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
}

/* A message with a receive gets through after any number of messages without one, on the same
 * context id and on another, with the receive posted before or after. */
static void test_the_wanted_message_after_a_full_window(void **state)
{
    int values[COUNT], wanted[] = {100, 101, 102, 103}, got[2];
    mbx_request sends[COUNT], others[4], early[2];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    count_up(values);
    early[0] = post_one(&cl, 1, 0, CONTEXT, 2, 0, &got[0]);
    early[1] = post_one(&cl, 1, MBX_ANY_SOURCE, CONTEXT + 1, 0, MBX_IGNORE_ALL, &got[1]);
    flood(&cl, 0, 1, sends, values);
    for (int i = 0; i < 4; i++)
        others[i] = send_one(&cl, 0, 1, CONTEXT + i % 2, 2, &wanted[i]);
    for (int i = 0; i < 2; i++) {
        cluster_wait_error(&cl, 1, early[i], 0);
        assert_int_equal(got[i], 100 + i);
    }
    assert_int_equal(receive(&cl, 1, MBX_ANY_SOURCE, CONTEXT + 1, 2, 0), 103);
    assert_int_equal(receive(&cl, 1, 0, CONTEXT, 3, 1), 102);
    for (int i = 0; i < 4; i++)
        cluster_wait_error(&cl, 0, others[i], 0);
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), COUNT);
    drain(&cl, 0, 1, sends);
    close_clean(&cl);
}

#define ENDPOINTS 3

/* With lock words each message takes the word of its receive, also over a network.  Otherwise
 * no word is used. */
static void test_a_word_decides(void **state)
{
    int values[ENDPOINTS] = {0, 1, 2}, got;
    mbx_request early, sends[ENDPOINTS];
    uint64_t locks = 0, won = 0;
    struct cluster cl;
    bool has_words;

    cluster_open(&cl, *state, ENDPOINTS, NULL);
    has_words = config_has_param(*state, "MATCH_AT=sender") &&
                cl.eps[0]->net.transport->limits.cswap_words != 0;
    early = post_one(&cl, 0, MBX_ANY_SOURCE, CONTEXT, 1, 0, &got);
    for (int i = 1; i < ENDPOINTS; i++)
        sends[i] = send_one(&cl, i, 0, CONTEXT, 1, &values[i]);
    cluster_wait_error(&cl, 0, early, 0);
    assert_int_equal(got + receive(&cl, 0, MBX_ANY_SOURCE, CONTEXT, 1, 0), 1 + 2);
    for (int i = 1; i < ENDPOINTS; i++) {
        struct stats stats;

        cluster_wait_error(&cl, i, sends[i], 0);
        stats = cluster_stats(&cl, i);
        locks += stats.locks;
        won += stats.claims_won;
    }
    assert_int_equal(locks, has_words ? 2 : 0);
    if (has_words)
        assert_int_equal(won, 2);
    close_clean(&cl);
}

#define LOOP_WORDS 4 /* in the loop transport */

/* The first of two receives has no lock word, since all are in use; a message is claimed for
 * it.  A later message that both accept takes the word of the second.  If the receiver then
 * learns that it is too late to cancel the second, it must not be able to cancel the first. */
static void test_no_word_is_taken_past_a_claim(void **state)
{
    const char *const loop[] = {"TRANSPORT=loop", "LOOP_DEPTH=64", NULL};
    int values[] = {0, 1, 2}, got[LOOP_WORDS + 2];
    mbx_request sends[3], fill[LOOP_WORDS], first, second;
    struct cluster cl;

    if (!config_has_param(*state, "MATCH_AT=sender"))
        skip();
    cluster_open(&cl, *state, 2, loop);
    for (int i = 0; i < 3; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, 1 + (uint64_t)i, &values[i]);
    cluster_settle(&cl);
    for (int i = 0; i < LOOP_WORDS; i++)
        fill[i] = post_one(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 100, 0, &got[i]);
    first = post_one(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 2, 1, &got[LOOP_WORDS]);
    assert_int_equal(mbx_cancel(cl.eps[1], fill[0]), 0);
    second = post_one(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 3, 0, &got[LOOP_WORDS + 1]);
    for (int i = 0; i < 20; i++)
        mbx_progress(cl.eps[0]);
    assert_int_equal(mbx_cancel(cl.eps[1], second), 0);
    assert_int_equal(mbx_cancel(cl.eps[1], first), 0);
    for (int i = 1; i < LOOP_WORDS; i++)
        assert_int_equal(mbx_cancel(cl.eps[1], fill[i]), 0);
    for (int i = 0; i < LOOP_WORDS; i++)
        cluster_wait_error(&cl, 1, fill[i], -ECANCELED);
    cluster_wait_error(&cl, 1, first, -ECANCELED);
    cluster_wait_error(&cl, 1, second, -ECANCELED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1 + (uint64_t)i, 0), i);
        cluster_wait_error(&cl, 0, sends[i], 0);
    }
    close_clean(&cl);
}

/* Each endpoint notifies the next, and then the one after it, that it is there. */
static void barrier(struct cluster *cl)
{
    int here = 7, got[ENDPOINTS];

    for (int step = 1; step < ENDPOINTS; step++) {
        mbx_request sends[ENDPOINTS], recvs[ENDPOINTS];

        for (int i = 0; i < ENDPOINTS; i++) {
            sends[i] = send_one(cl, i, (i + step) % ENDPOINTS, CONTEXT + 1, 0, &here);
            recvs[i] = post_one(cl, i, (uint32_t)((i + ENDPOINTS - step) % ENDPOINTS),
                                CONTEXT + 1, 0, 0, &got[i]);
        }
        for (int i = 0; i < ENDPOINTS; i++) {
            cluster_wait_error(cl, i, recvs[i], 0);
            cluster_wait_error(cl, i, sends[i], 0);
        }
    }
}

static void test_a_barrier_under_full_windows(void **state)
{
    static mbx_request sends[ENDPOINTS][ENDPOINTS][COUNT];
    int values[COUNT];
    struct cluster cl;

    cluster_open(&cl, *state, ENDPOINTS, NULL);
    count_up(values);
    for (int i = 0; i < ENDPOINTS; i++)
        for (int j = 0; j < ENDPOINTS; j++)
            flood(&cl, i, j, sends[i][j], values);
    for (int i = 0; i < 3; i++)
        barrier(&cl);
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), ENDPOINTS * ENDPOINTS * COUNT);
    for (int i = 0; i < ENDPOINTS; i++)
        for (int j = 0; j < ENDPOINTS; j++)
            drain(&cl, i, j, sends[i][j]);
    close_clean(&cl);
}

/* ---- probes ---- */

/* An open receive gets the first message, whatever a probe asks meanwhile. */
static void test_a_probe_sees_what_the_open_receive_leaves(void **state)
{
    int values[] = {0, 1, 2}, got = -1, rounds = 0;
    struct mbx_status status;
    mbx_request recv, sends[3];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    recv = post_one(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, &got);
    for (int i = 0; i < 3; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, 1, &values[i]);
    while (mbx_probe(cl.eps[1], 0, CONTEXT, 1, 0, &status) == 0) {
        mbx_progress(cl.eps[0]);
        assert_true(++rounds < test_patience());
    }
    assert_int_equal(status.data, 1);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 0);
    for (int i = 1; i < 3; i++)
        assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1, 0), i);
    for (int i = 0; i < 3; i++)
        cluster_wait_error(&cl, 0, sends[i], 0);
    close_clean(&cl);
}

/* A matched probe takes a message out of the middle.  A receive of any tag gets the first of
 * the others. */
static void test_matched_probes_before_any_tag(void **state)
{
    static const uint64_t tags[] = {1, 2, 1, 3};
    int values[] = {0, 1, 2, 3}, got = -1;
    mbx_message second, third;
    struct mbx_status status;
    mbx_request sends[4], recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < 4; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, tags[i], &values[i]);
    cluster_settle(&cl);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 1, 0, &status), 1);
    assert_int_equal(status.data, 0);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 2, 0, &status), 1);
    assert_int_equal(status.data, 1);
    assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 2, 0, &status, &second), 1);
    assert_int_equal(status.data, 1);
    assert_int_equal(receive(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL), 0);
    assert_int_equal(
        cluster_mprobe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, &status, &third), 1);
    assert_int_equal(status.data, 2);
    assert_int_equal(receive(&cl, 1, 0, CONTEXT, 0, MBX_IGNORE_ALL), 3);
    assert_int_equal(mbx_mrecv(cl.eps[1], third, &got, sizeof got, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 2);
    assert_int_equal(mbx_mrecv(cl.eps[1], second, &got, sizeof got, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 1);
    for (int i = 0; i < 4; i++)
        cluster_wait_error(&cl, 0, sends[i], 0);
    close_clean(&cl);
}

/* A probe was shown a message, then a receive for it is posted, and there is no space to report
 * that. */
static void test_an_open_receive_has_what_was_shown(void **state)
{
    int values[] = {0, 1, 2}, got = -1;
    struct mbx_status status;
    mbx_request sends[3], recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    sends[0] = send_one(&cl, 0, 1, CONTEXT, 1, &values[0]);
    sends[1] = send_one(&cl, 0, 1, CONTEXT, 2, &values[1]);
    cluster_settle(&cl);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 2, 0, &status), 1);
    sends[2] = send_one(&cl, 1, 0, CONTEXT, 3, &values[2]); /* fills a link with one slot */
    recv = post_one(&cl, 1, 0, CONTEXT, 2, 0, &got);
    assert_int_equal(mbx_probe(cl.eps[1], 0, CONTEXT, 2, 0, &status), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 1);
    assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1, 0), 0);
    assert_int_equal(receive(&cl, 0, 1, CONTEXT, 3, 0), 2);
    for (int i = 0; i < 3; i++)
        cluster_wait_error(&cl, i < 2 ? 0 : 1, sends[i], 0);
    close_clean(&cl);
}

/* A matched probe takes a deferred message, and there is no space to report that.  Then there
 * is space, for a later report: of a credit, or of an open receive. */
static void taken_without_space(const struct configuration *config, bool with_credit)
{
    int values[] = {0, 1, 2, 3}, got = -1, last = -1;
    struct mbx_status status;
    mbx_request sends[3], recv;
    mbx_message message;
    struct cluster cl;

    cluster_open(&cl, config, 2, NULL);
    sends[0] = send_one(&cl, 0, 1, CONTEXT, 1, &values[0]);
    sends[1] = send_one(&cl, 0, 1, CONTEXT, 2, &values[1]);
    cluster_settle(&cl);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 2, 0, &status), 1);
    sends[2] = send_one(&cl, 1, 0, CONTEXT, 3, &values[2]); /* fills a link with one slot */
    assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 2, 0, &status, &message), 1);
    mbx_progress(cl.eps[0]); /* empties it */
    if (with_credit)
        assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1, 0), 0);
    recv = post_one(&cl, 1, 0, CONTEXT, 2, 0, &last);
    if (!with_credit)
        assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1, 0), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), 0); /* the message was not given twice */
    cluster_wait_error(&cl, 1, recv, -ECANCELED);
    assert_int_equal(receive(&cl, 0, 1, CONTEXT, 3, 0), 2);
    assert_int_equal(mbx_mrecv(cl.eps[1], message, &got, sizeof got, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(got, 1);
    assert_int_equal(last, -1);
    for (int i = 0; i < 3; i++)
        cluster_wait_error(&cl, i < 2 ? 0 : 1, sends[i], 0);
    close_clean(&cl);
}

static void test_nothing_overtakes_a_grant(void **state)
{
    taken_without_space(*state, true);
    taken_without_space(*state, false);
}

/* ---- races ---- */

/* Two senders defer a message that fits one receive, which is cancelled at any moment.  The
 * receive gets one of the messages or none, and both are received in the end. */
static void race(struct cluster *cl, struct random *r, uint64_t *cancelled)
{
    static const int from[] = {0, 2};
    const uint32_t rounds = config_is_verbs(cl->config) ? 600 : 12;
    int values[] = {10, 12}, got = -1, other = -1;
    struct mbx_completion done;
    mbx_request sends[2], recv;
    int err;

    for (int i = 0; i < 2; i++)
        sends[i] = send_one(cl, from[i], 1, CONTEXT, 1, &values[i]);
    for (uint64_t i = random_below(r, rounds); i > 0; i--)
        mbx_progress(cl->eps[random_below(r, 3)]);
    recv = post_one(cl, 1, random_below(r, 2) == 0 ? MBX_ANY_SOURCE : 0, CONTEXT, 1, 0, &got);
    for (uint64_t i = random_below(r, rounds); i > 0; i--)
        mbx_progress(cl->eps[random_below(r, 3)]);
    err = mbx_cancel(cl->eps[1], recv);
    assert_true(err == 0 || err == -EALREADY);
    cluster_wait(cl, 1, recv, &done);
    if (config_has_device(
            cl->config)) /* the device is asked, and the completion has its answer */
        assert_true(done.error == 0 || done.error == -ECANCELED);
    else
        assert_int_equal(done.error, err == 0 ? -ECANCELED : 0);
    *cancelled += done.error != 0;
    if (done.error != 0) {
        assert_int_equal(got, -1);
        got = receive(cl, 1, MBX_ANY_SOURCE, CONTEXT, 1, 0);
    }
    other = receive(cl, 1, MBX_ANY_SOURCE, CONTEXT, 1, 0);
    assert_int_equal(got + other, 22);
    assert_true(got == 10 || got == 12);
    for (int i = 0; i < 2; i++)
        cluster_wait_error(cl, from[i], sends[i], 0);
}

/* Returns the number of receives that were cancelled in time. */
static uint64_t run_races(const struct configuration *config, const char *param, uint64_t count,
                          uint64_t seed)
{
    const char *const more[] = {param, NULL};
    uint64_t cancelled = 0;
    struct random r;
    struct cluster cl;

    random_seed(&r, seed);
    cluster_open(&cl, config, 3, more);
    for (uint64_t i = 0; i < count; i++)
        race(&cl, &r, &cancelled);
    close_clean(&cl);
    return cancelled;
}

/* At least `least` receives are cancelled in time, and at least one is not.  Over a network
 * other contexts carry the packets, in their own time, so more races may be needed.  Over verbs
 * fewer races are run: each step waits for another process. */
static void race_both_ways(const struct configuration *config, const char *param,
                           uint64_t count, uint64_t least)
{
    const uint64_t start_ns = clock_now();
    uint64_t cancelled = 0, all = 0, seed = 11;

    count = config_is_verbs(config) ? min_size(count, RACES_VERBS) : count;
    do {
        cancelled += run_races(config, param, count, seed++);
        all += count;
    } while (config_is_network(config) && (cancelled < least || cancelled == all) &&
             clock_now() - start_ns < PATIENCE_NS);
    assert_in_range(cancelled, least, all - 1);
}

static void test_cancel_races(void **state)
{
    race_both_ways(*state, "SENDTABLE=no", races, 1);
}

/* A receive that pulls its message as soon as it is posted may never be cancelled in time. */
static void test_cancel_races_with_taking(void **state)
{
    race_both_ways(*state, "SENDTABLE=yes", races / 4, 0);
}

/* ---- protocol violations ---- */

/* Delivers this packet to endpoint 0 in the name of peer.  Returns whether it was counted as
 * dropped. */
static bool lie_as(struct cluster *cl, uint32_t peer, const struct wire_header *header,
                   const void *body)
{
    uint64_t dropped = cluster_stats(cl, 0).dropped_packets;
    size_t body_size = wire_body_size(header->type);
    alignas(8) unsigned char packet[256];

    memcpy(packet, header, sizeof *header);
    if (body_size != 0)
        memcpy(packet + sizeof *header, body, body_size);
    assert_int_equal(peer_use(cl->eps[0], peer), 0); /* the peer may have sent nothing yet */
    assert_int_equal(deliver_packet(cl->eps[0], peer, packet, sizeof *header + body_size), 0);
    return cluster_stats(cl, 0).dropped_packets == dropped + 1;
}

static bool forge(struct cluster *cl, enum wire_type type, const void *body)
{
    const struct wire_header header = {.type = (uint8_t)type, .version = WIRE_VERSION};

    return lie_as(cl, 1, &header, body);
}

/* Reports to endpoint 0 that this receive of peer, or a probe if it is 0, has taken its
 * send. */
static bool forge_win(struct cluster *cl, uint32_t peer, uint64_t receiver, uint64_t send)
{
    const struct wire_header header = {
        .type = WIRE_RETIRE, .version = WIRE_VERSION, .flags = WIRE_WON};

    return lie_as(cl, peer, &header, &(struct wire_retire){receiver, send});
}

/* As forge(), with an envelope. */
static bool lie_tagged(struct cluster *cl, enum wire_type type, uint64_t tag, const void *body)
{
    const struct wire_header header = {
        .type = (uint8_t)type, .version = WIRE_VERSION, .tag = tag, .context_id = CONTEXT};

    return lie_as(cl, 1, &header, body);
}

static void open_liars_with(struct cluster *cl, const struct configuration *config,
                            const char *param)
{
    cluster_open(cl, config, 3,
                 (const char *const[]){"LOG_LEVEL=error", "CLOSE_TIMEOUT=0", param, NULL});
}

static void open_liars(struct cluster *cl, const struct configuration *config)
{
    open_liars_with(cl, config, NULL);
}

static void test_beyond_its_window(void **state)
{
    struct cluster cl;

    open_liars(&cl, *state);
    for (uint64_t i = 0; i < config_window(cl.config); i++)
        assert_false(lie_tagged(&cl, WIRE_EAGER, 1, NULL));
    assert_true(lie_tagged(&cl, WIRE_EAGER, 1, NULL));
    assert_int_equal(cluster_stats(&cl, 0).unexpected_now, config_window(cl.config));
    cluster_close(&cl);
}

/* Sends forged packets to a sender that defers three messages. */
static void lie_to_deferrer(struct cluster *cl, const mbx_request *sends, mbx_request recv)
{
    const struct wire_credit credits[] = {{(UINT64_C(1) << 62) - 1, 0},
                                          {0, (UINT64_C(1) << 62) - 1}};
    const uint64_t deferred = sends[2];
    const struct wire_rtr late = {.receiver = 5, .epoch = UINT64_MAX, .number = 1};

    for (size_t i = 0; i < ARRAY_COUNT(credits); i++)
        assert_true(forge(cl, WIRE_CREDIT, &credits[i]));
    assert_true(forge_win(cl, 1, 0, deferred)); /* the send has not claimed */
    assert_true(forge_win(cl, 1, 0, recv));     /* not a send */
    assert_true(forge(cl, WIRE_RETIRE, &(struct wire_retire){1, deferred}));
    assert_true(forge(cl, WIRE_RETIRE, &(struct wire_retire){1, recv}));
    assert_true(forge(cl, WIRE_RETIRE, &(struct wire_retire){1, deferred ^ UINT64_C(1) << 40}));
    assert_true(forge(cl, WIRE_FIN, &(struct wire_fin){deferred}));
    assert_true(forge(cl, WIRE_CTS, &(struct wire_cts){.sender = deferred}));
    assert_true(forge_win(cl, 2, 0, deferred)); /* from another peer */
    /* without effect */
    forge_win(cl, 1, 0, deferred ^ UINT64_C(1) << 40);
    forge(cl, WIRE_RETIRE, &(struct wire_retire){12345, 0});
    lie_tagged(cl, WIRE_RTR, 1, &late);
}

/* Sends forged packets to a receiver with an open receive, from a sender that reports deferred
 * sends. */
static void lie_to_receiver(struct cluster *cl, mbx_request recv)
{
    static const struct wire_defer holds[] = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                              {1, 1, UINT64_MAX, UINT64_MAX - 3},
                                              {7, UINT64_MAX, 0, 5}};
    struct wire_claim claim = {.sender = 9, .receiver = recv, .size = 0};

    assert_true(forge(cl, WIRE_PEEKED, &(struct wire_peeked){.question = 1, .sender = 9}));
    assert_true(lie_tagged(cl, WIRE_CLAIM, 5, &claim)); /* the sender defers nothing */
    for (size_t i = 0; i < ARRAY_COUNT(holds); i++)
        assert_false(forge(cl, WIRE_DEFER, &holds[i]));
    claim.sender = 0;
    assert_true(lie_tagged(cl, WIRE_CLAIM, 5, &claim));
    claim.sender = 9;
    lie_tagged(cl, WIRE_CLAIM, 6, &claim); /* this tag was not offered: the claim is lost */
    lie_as(cl, 2,
           &(const struct wire_header){
               .type = WIRE_CLAIM, .version = WIRE_VERSION, .tag = 5, .context_id = CONTEXT},
           &claim); /* not offered to this sender */
    lie_as(cl, 1,
           &(const struct wire_header){.type = WIRE_CLAIM,
                                       .version = WIRE_VERSION,
                                       .flags = WIRE_WON,
                                       .tag = 5,
                                       .context_id = CONTEXT},
           &claim); /* the lock word of the receive is free */
    claim.receiver = recv ^ UINT64_C(1) << 40;
    lie_tagged(cl, WIRE_CLAIM, 5, &claim); /* no such receive */
    assert_int_equal(mbx_test(cl->eps[0], recv, NULL), 0);
}

/* Whatever was forged, the messages that were really sent are received. */
static void test_violations_about_deferring(void **state)
{
    int values[] = {0, 1, 2, 3}, got = -1;
    mbx_request sends[3], recv, back;
    struct cluster cl;

    open_liars(&cl, *state);
    recv = post_one(&cl, 0, 1, CONTEXT, 5, 0, &got);
    for (int i = 0; i < 3; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, 1, &values[i]);
    cluster_settle(&cl);
    lie_to_deferrer(&cl, sends, recv);
    lie_to_receiver(&cl, recv);
    cluster_settle(&cl);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(receive(&cl, 1, 0, CONTEXT, 1, 0), i);
        cluster_wait_error(&cl, 0, sends[i], 0);
    }
    back = send_one(&cl, 1, 0, CONTEXT, 5, &values[3]);
    cluster_wait_error(&cl, 0, recv, 0);
    cluster_wait_error(&cl, 1, back, 0);
    assert_int_equal(got, 3);
    cluster_close(&cl);
}

static bool is_claimed(struct cluster *cl, mbx_request send)
{
    const struct request *req = request_find(cl->eps[0], send);

    return req != NULL && req->state == BACKLOG_WAIT_RETIRE;
}

/* A claim that is under way is neither lost nor won for another receive. */
static void test_violations_about_claims(void **state)
{
    int values[] = {0, 1, 2}, got[3], tried = 0;
    const uint64_t start_ns = clock_now();
    mbx_request sends[3], recvs[3];
    struct cluster cl;

    open_liars_with(&cl, *state, "SENDTABLE=no"); /* otherwise there would be no claims */
    for (int i = 0; i < 3; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, 1, &values[i]);
    cluster_settle(&cl);
    for (int i = 0; i < 3; i++)
        recvs[i] = post_one(&cl, 1, 0, CONTEXT, 1, 0, &got[i]);
    /* over a network the time of a claim is not known */
    for (int round = 0; round < 200 || (config_window(cl.config) == 0 && tried == 0 &&
                                        clock_now() - start_ns < PATIENCE_NS);
         round++) {
        for (int i = 0; i < 3; i++) {
            assert_true(forge(&cl, WIRE_RETIRE, &(struct wire_retire){77, sends[i]}));
            if (!is_claimed(&cl, sends[i]))
                continue;
            assert_true(forge_win(&cl, 1, 77, sends[i]));
            tried++;
        }
        mbx_progress(cl.eps[round % 2]);
    }
    for (int i = 0; i < 3; i++) {
        cluster_wait_error(&cl, 1, recvs[i], 0);
        cluster_wait_error(&cl, 0, sends[i], 0);
        assert_int_equal(got[i], i);
    }
    if (config_window(cl.config) == 0)
        assert_true(cluster_stats(&cl, 0).claims > 0 && tried > 0);
    cluster_close(&cl);
}

/* RTRs of the right epoch whose numbers do not grow, and more RTRs than fit. */
static void test_violations_about_receives(void **state)
{
    struct wire_rtr rtr = {.receiver = 77, .epoch = 1, .number = 1};
    int values[] = {0, 1};
    mbx_request sends[2];
    struct cluster cl;

    open_liars(&cl, *state);
    for (int i = 0; i < 2; i++)
        sends[i] = send_one(&cl, 0, 1, CONTEXT, 1, &values[i]);
    cluster_settle(&cl);
    assert_false(lie_tagged(&cl, WIRE_RTR, 2, &rtr));
    assert_true(lie_tagged(&cl, WIRE_RTR, 2, &rtr));
    /* an RTR that does not fit is discarded: the next batch would bring it */
    for (rtr.number = 2; rtr.number < 3 * BACKLOG_RTRS; rtr.number++)
        assert_false(lie_tagged(&cl, WIRE_RTR, 2, &rtr));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mbx_test(cl.eps[0], sends[i], NULL), 0);
        assert_true(cluster_stats(&cl, 0).deferred_now > 0);
    }
    cluster_close(&cl);
}

/* A context id that only peers have named takes no engine.  Its messages are there when
 * somebody here names it. */
static void test_contexts_that_only_peers_have_named(void **state)
{
    enum { CONTEXTS = 50 };
    int values[CONTEXTS], got = -1;
    mbx_request sends[CONTEXTS], recv;
    struct mbx_status status;
    struct stats before;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    before = cluster_stats(&cl, 1);
    for (int i = 0; i < CONTEXTS; i++) {
        values[i] = i;
        sends[i] = send_one(&cl, 0, 1, 1000 + (uint32_t)i, 1, &values[i]);
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 1).contexts, before.contexts);
    assert_int_equal(cluster_probe(&cl, 1, 0, 1000 + CONTEXTS / 2, 1, 0, &status), 1);
    assert_int_equal(status.data, CONTEXTS / 2);
    for (int i = CONTEXTS; i-- > 0;) {
        assert_int_equal(
            mbx_recv(cl.eps[1], 0, 1000 + (uint32_t)i, 1, 0, &got, sizeof got, NULL, &recv), 0);
        cluster_wait_error(&cl, 1, recv, 0);
        assert_int_equal(got, i);
        cluster_wait_error(&cl, 0, sends[i], 0);
    }
    cluster_close(&cl);
}

/* Probes for `count` tags take turns, and answers arrive only between two rounds: the probe for
 * the wanted tag sees its message. */
static void probe_in_turns(const void *state, uint64_t count, uint64_t wanted)
{
    int value = 7, unwanted = 8, seen = 0;
    mbx_request sends[2], recv;
    struct mbx_status status;
    struct cluster cl;

    cluster_open(&cl, state, 2, NULL);
    sends[0] = send_one(&cl, 0, 1, CONTEXT, count, &unwanted);
    sends[1] = send_one(&cl, 0, 1, CONTEXT, wanted, &value);
    for (int round = 0; round < 2000 && seen == 0; round++) {
        for (uint64_t tag = 0; tag < count && seen == 0; tag++)
            seen = mbx_probe(cl.eps[1], 0, CONTEXT, tag, 0, &status);
        cluster_settle(&cl);
    }
    assert_int_equal(seen, 1);
    assert_int_equal(status.tag, wanted);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, i == 0 ? wanted : count, 0, &value,
                                  sizeof value, NULL, &recv),
                         0);
        cluster_wait_error(&cl, 1, recv, 0);
        assert_int_equal(value, 7 + i);
        cluster_wait_error(&cl, 0, sends[1 - i], 0);
    }
    cluster_close(&cl);
}

/* Each of the probes that take turns is answered, whichever of them finds nothing. */
static void test_probes_that_take_turns(void **state)
{
    static const uint64_t counts[] = {2, 3, 4, 17};

    for (size_t i = 0; i < ARRAY_COUNT(counts); i++)
        for (uint64_t wanted = 0; wanted<counts[i]; wanted += counts[i]> 4 ? 4 : 1)
            probe_in_turns(*state, counts[i], wanted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contexts_that_only_peers_have_named),
        cmocka_unit_test(test_probes_that_take_turns),
        cmocka_unit_test(test_the_wanted_message_after_a_full_window),
        cmocka_unit_test(test_a_word_decides),
        cmocka_unit_test(test_no_word_is_taken_past_a_claim),
        cmocka_unit_test(test_a_barrier_under_full_windows),
        cmocka_unit_test(test_a_probe_sees_what_the_open_receive_leaves),
        cmocka_unit_test(test_matched_probes_before_any_tag),
        cmocka_unit_test(test_an_open_receive_has_what_was_shown),
        cmocka_unit_test(test_nothing_overtakes_a_grant),
        cmocka_unit_test(test_cancel_races),
        cmocka_unit_test(test_cancel_races_with_taking),
        cmocka_unit_test(test_beyond_its_window),
        cmocka_unit_test(test_violations_about_deferring),
        cmocka_unit_test(test_violations_about_claims),
        cmocka_unit_test(test_violations_about_receives),
    };
    bool is_quick = false;

    for (int i = 1; i < argc; i++)
        is_quick |= strcmp(argv[i], "--quick") == 0;
    races = is_quick ? 5000 : 200000;
    argc = test_take_number(argc, argv, "--races", &races);
    return test_main_for(argc, argv, is_narrow, tests, ARRAY_COUNT(tests));
}
