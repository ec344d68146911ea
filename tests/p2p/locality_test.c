/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locality_test.c - how a message of several packets travels to a peer depends on the time of
 * copies to the peer, on whether the peer may have no core, on whether it makes progress while
 * the message is sent, and on whether there are bounce buffers.  The test controls the clock:
 * time passes at each reading, or stands still.
 */
#include "cluster.h"

#include <string.h>

#include "base/clock.h"
#include "p2p/p2p.h"
#include "transport/bounce.h"
#include "transport/shm/shm.h"

#define SIZE 16000 /* several packets */

static _Atomic uint64_t time_ns, step_ns;

static uint64_t stepping_clock(void)
{
    return atomic_fetch_add(&time_ns, step_ns);
}

static int set_clock(UNUSED void **state)
{
    atomic_store(&time_ns, clock_now());
    atomic_store(&step_ns, 0);
    clock_set(stepping_clock);
    return 0;
}

static int restore_clock(UNUSED void **state)
{
    clock_set(NULL);
    return 0;
}

static void copies_are_slow(bool slow)
{
    atomic_store(&step_ns, slow ? 10 * CLOCK_US : 0);
}

/* Only over shm a test can control how much space there is. */
static bool is_shm(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0;
}

/* Makes this many buffers rotate, as on a core with a second cache of the corresponding
 * size. */
static void set_rotation(struct cluster *cl, uint32_t buffers)
{
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(cl->eps[i]->net.transport->ops, &transport_shm);
        shm_of(cl->eps[i]->net.transport)->bounce_rotation = buffers;
    }
}

/* Opens with credit for everything, so that no message is deferred; on any machine few buffers
 * rotate. */
static void open_two_with(struct cluster *cl, const struct configuration *config,
                          const char *param, const char *other)
{
    cluster_open(
        cl, config, 2,
        (const char *[]){param, other, "WINDOW=unlimited", "WINDOW_PAYLOAD=unlimited", NULL});
    if (is_shm(config))
        set_rotation(cl, 16);
}

static void open_two(struct cluster *cl, const struct configuration *config, const char *param)
{
    open_two_with(cl, config, param, "OVERSUBSCRIBED=no"); /* also on a machine with one core */
}

static void send_some(struct cluster *cl, unsigned count, size_t size)
{
    static unsigned char to[SIZE];
    const unsigned char *data = seeded_bytes(7, size);

    for (unsigned i = 0; i < count; i++) {
        mbx_request send = 0, recv = 0;

        memset(to, 0, sizeof to);
        assert_int_equal(mbx_recv(cl->eps[1], 0, 7, 1, 0, to, size, NULL, &recv), 0);
        assert_int_equal(mbx_send(cl->eps[0], 1, 7, 1, data, size, NULL, &send), 0);
        cluster_wait_error(cl, 1, recv, 0);
        cluster_wait_error(cl, 0, send, 0);
        assert_memory_equal(to, data, size);
    }
}

static uint64_t sent(const struct cluster *cl, enum mbx_protocol protocol)
{
    return cluster_stats(cl, 0).sent[protocol];
}

static size_t longest_eager(const struct cluster *cl)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    int count = cluster_protocols(cl->eps[0], 1, rows);

    assert_true(count >= 2);
    assert_int_equal(rows[count - 1].protocol, MBX_RNDV_READ);
    return rows[count - 2].max_size;
}

/* Makes the peer far, and checks how many messages that takes. */
static void go_far(struct cluster *cl)
{
    copies_are_slow(true);
    send_some(cl, PATH_NEAR_TURNS * PATH_VOTES - 1, SIZE);
    assert_int_equal(longest_eager(cl), EAGER_LIMIT_NEAR);
    send_some(cl, 1, SIZE);
    assert_true(longest_eager(cl) < SIZE);
    assert_int_equal(sent(cl, MBX_RNDV_READ), 0);
}

static void test_near_stays_near(void **state)
{
    struct cluster cl;

    open_two(&cl, *state, "EAGER_LIMIT=auto");
    send_some(&cl, 2 * PATH_NEAR_TURNS * PATH_VOTES, SIZE);
    assert_int_equal(longest_eager(&cl), EAGER_LIMIT_NEAR);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 0);
    cluster_close(&cl);
}

static void test_far_goes_by_rendezvous(void **state)
{
    struct cluster cl;
    uint64_t eager;

    open_two(&cl, *state, "EAGER_LIMIT=auto");
    go_far(&cl);
    eager = sent(&cl, MBX_BOUNCE);
    send_some(&cl, 10 * PATH_FAR_TURNS, SIZE);
    assert_int_equal(sent(&cl, MBX_BOUNCE), eager + 10);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 10 * (PATH_FAR_TURNS - 1));
    eager = sent(&cl, MBX_SHORT);
    send_some(&cl, 100, longest_eager(&cl)); /* a single packet travels as before */
    assert_int_equal(sent(&cl, MBX_SHORT), eager + 100);
    cluster_close(&cl);
}

static void test_far_becomes_near(void **state)
{
    struct cluster cl;

    open_two(&cl, *state, "EAGER_LIMIT=auto");
    go_far(&cl);
    copies_are_slow(false);
    send_some(&cl, PATH_FAR_TURNS * PATH_VOTES / 2, SIZE);
    assert_int_equal(longest_eager(&cl), EAGER_LIMIT_NEAR);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), (PATH_FAR_TURNS - 1) * PATH_VOTES / 2);
    cluster_close(&cl);
}

static void test_a_peer_without_a_core_is_far(void **state)
{
    struct cluster cl;

    open_two_with(&cl, *state, "EAGER_LIMIT=auto", "OVERSUBSCRIBED=yes");
    send_some(&cl, 2 * PATH_FAR_TURNS, SIZE);
    assert_true(longest_eager(&cl) < SIZE);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 2 * PATH_FAR_TURNS);
    assert_int_equal(sent(&cl, MBX_BOUNCE), 0);
    send_some(&cl, 10, longest_eager(&cl));
    assert_int_equal(sent(&cl, MBX_SHORT), 10);
    cluster_close(&cl);
}

/* More peers than cores do not say whether the peers of this machine share cores. */
static void test_only_if_it_is_said(void **state)
{
    static const char *const params[] = {"OVERSUBSCRIBED=auto", "OVERSUBSCRIBED=no"};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct cluster cl;

        open_two_with(&cl, *state, "EAGER_LIMIT=auto", params[i]);
        cl.eps[0]->limits.cores = cl.eps[1]->limits.cores = 1;
        send_some(&cl, PATH_NEAR_TURNS, SIZE);
        assert_int_equal(sent(&cl, MBX_BOUNCE), PATH_NEAR_TURNS);
        cluster_close(&cl);
    }
}

/* A limit that the user sets is the limit.  A peer whose memory cannot be read gets the bytes
 * in packets. */
static void test_a_limit_of_the_user_holds(void **state)
{
    static const char *const params[][2] = {{"EAGER_LIMIT=16K", "OVERSUBSCRIBED=auto"},
                                            {"EAGER_LIMIT=16K", "OVERSUBSCRIBED=yes"},
                                            {"RNDV=data", "OVERSUBSCRIBED=auto"},
                                            {"RNDV=data", "OVERSUBSCRIBED=yes"}};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct cluster cl;

        copies_are_slow(true);
        open_two_with(&cl, *state, params[i][0], params[i][1]);
        send_some(&cl, 2 * PATH_NEAR_TURNS * PATH_VOTES, SIZE);
        assert_int_equal(sent(&cl, MBX_BOUNCE), 2 * PATH_NEAR_TURNS * PATH_VOTES);
        cluster_close(&cl);
        copies_are_slow(false);
    }
}

/* ---- longer messages to a near peer ---- */

#define BUFFERS_MOST (512 << 10) /* the longest message in bounce buffers */

#define LONGER       40000 /* too long for the free space, and eager for a near peer */

/* The ring is as small as in the library's default, and so is the peer's. */
static void open_for_longer(struct cluster *cl, const struct configuration *config,
                            const char *capacity)
{
    cluster_open(cl, config, 2,
                 (const char *[]){"EAGER_LIMIT=auto", "OVERSUBSCRIBED=no", "ADVERT=off",
                                  capacity, "WINDOW=unlimited", "WINDOW_PAYLOAD=unlimited",
                                  NULL});
    set_rotation(cl, 16);
}

enum meeting { EXPECTED, UNEXPECTED, SYNCHRONOUS, TOO_SHORT };

/* Sends one message; the receiver makes no progress before the send call has returned. */
static void send_one(struct cluster *cl, size_t size, enum meeting how)
{
    static unsigned char to[BUFFERS_MOST + 1];
    const unsigned char *data = seeded_bytes(9, size);
    size_t capacity = how == TOO_SHORT ? size - 100 : size;
    mbx_request send = 0, recv = 0;

    memset(to, 0, sizeof to);
    if (how != UNEXPECTED)
        assert_int_equal(mbx_recv(cl->eps[1], 0, 7, 1, 0, to, capacity, NULL, &recv), 0);
    if (how == SYNCHRONOUS)
        assert_int_equal(mbx_ssend(cl->eps[0], 1, 7, 1, data, size, NULL, &send), 0);
    else
        assert_int_equal(mbx_send(cl->eps[0], 1, 7, 1, data, size, NULL, &send), 0);
    if (how == UNEXPECTED) {
        for (int i = 0; i < 100; i++)
            mbx_progress(cl->eps[1]); /* reads everything without its sender */
        assert_int_equal(mbx_recv(cl->eps[1], 0, 7, 1, 0, to, capacity, NULL, &recv), 0);
    }
    /* the sender only has to get the acknowledgement */
    for (int i = 0; i < 1000; i++)
        mbx_progress(cl->eps[1]);
    assert_memory_equal(to, data, capacity);
    cluster_wait_error(cl, 1, recv, how == TOO_SHORT ? -EMSGSIZE : 0);
    cluster_wait_error(cl, 0, send, 0);
}

/* Sends one message, and both sides make progress; before the send the sender makes `looks`
 * rounds. */
static void send_after(struct cluster *cl, size_t size, int looks)
{
    static unsigned char to[EAGER_LIMIT_NEAR + 1];
    mbx_request send = 0, recv = 0;

    assert_int_equal(mbx_recv(cl->eps[1], 0, 7, 1, 0, to, size, NULL, &recv), 0);
    while (looks-- > 0)
        mbx_progress(cl->eps[0]);
    assert_int_equal(mbx_send(cl->eps[0], 1, 7, 1, seeded_bytes(1, size), size, NULL, &send),
                     0);
    cluster_wait_error(cl, 1, recv, 0);
    cluster_wait_error(cl, 0, send, 0);
    assert_memory_equal(to, seeded_bytes(1, size), size);
}

static void send_together(struct cluster *cl, size_t size)
{
    send_after(cl, size, 0);
}

/* A message to a near peer travels in packets up to 64 KiB, and longer ones do not. */
static void test_a_near_peer_gets_longer_ones_in_packets(void **state)
{
    struct cluster cl;

    if (!is_shm(*state))
        return;
    open_for_longer(&cl, *state, "SHM_RING_SIZE=128K");
    for (int longer = 0; longer <= 1; longer++) {
        send_together(&cl, EAGER_LIMIT_NEAR + (size_t)longer);
        assert_int_equal(sent(&cl, MBX_BOUNCE), 1);
        assert_int_equal(sent(&cl, MBX_RNDV_READ), longer);
    }
    cluster_close(&cl);
}

/* Takes all free buffers of a receiver that has allowed them, and releases none. */
static void take_all_buffers(struct cluster *cl)
{
    struct link *link = peer_get(cl->eps[0], 1)->link;
    uint32_t buffer;
    size_t size;

    assert_true(transport_bounce_can_take(link));
    while (transport_bounce_take(link, &buffer, &size) != NULL)
        ;
}

/* After the first message of several packets the receiver allows buffers.  From then on such
 * messages are in buffers when the send call returns, whether the receiver makes progress or
 * not. */
static void test_buffers_need_no_look(void **state)
{
    enum { MESSAGES = 100 }; /* of several buffers each, and more than exist */
    struct cluster cl;

    if (!is_shm(*state))
        return;
    open_for_longer(&cl, *state, "SHM_RING_SIZE=16K");
    send_one(&cl, 8193, EXPECTED);
    assert_int_equal(cluster_stats(&cl, 0).buffers, 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        send_one(&cl, 8192, (enum meeting)(i % 4));
        assert_int_equal(cluster_stats(&cl, 0).buffers, 4 * i);
        send_one(&cl, 8193, (enum meeting)(i % 4));
        assert_int_equal(cluster_stats(&cl, 0).buffers, 4 * i + 1);
        send_one(&cl, LONGER, (enum meeting)(i % 4));
        assert_int_equal(cluster_stats(&cl, 0).buffers, 4 * i + 4);
        assert_int_equal(sent(&cl, MBX_BOUNCE), 3 * i + 4);
        cluster_check_buffers(&cl, 0, 1);
    }
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 0);
    cluster_close(&cl);
}

/* No message uses buffers after messages without posted receives, nor if ranks share cores. */
static void test_not_everything_is_in_buffers(void **state)
{
    static const struct {
        const char *oversubscribed;
        enum meeting how;
    } cases[] = {{"OVERSUBSCRIBED=no", UNEXPECTED}, {"OVERSUBSCRIBED=yes", EXPECTED}};

    if (!is_shm(*state))
        return;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cluster cl;

        cluster_open(&cl, *state, 2,
                     (const char *[]){"EAGER_LIMIT=16K", "SHM_RING_SIZE=32K", "ADVERT=off",
                                      "WINDOW=unlimited", "WINDOW_PAYLOAD=unlimited",
                                      cases[i].oversubscribed, NULL});
        for (int n = 0; n < 3; n++)
            send_one(&cl, 16000, cases[i].how);
        assert_int_equal(sent(&cl, MBX_BOUNCE), 3);
        assert_int_equal(cluster_stats(&cl, 0).buffers, 0);
        cluster_close(&cl);
    }
}

/* Messages without posted receives use few buffers; the next message that matches a receive
 * makes the receiver report otherwise. */
static void test_few_buffers_without_receives(void **state)
{
    static const enum meeting how[] = {UNEXPECTED,  UNEXPECTED, EXPECTED,
                                       SYNCHRONOUS, UNEXPECTED, EXPECTED};
    struct cluster cl;
    struct link *link;

    if (!is_shm(*state))
        return;
    open_for_longer(&cl, *state, "SHM_RING_SIZE=16K");
    send_one(&cl, 12000, EXPECTED);
    link = cl.eps[0]->peers.all[1]->link;
    set_rotation(&cl, 77);
    assert_int_equal(transport_bounce_rotation(link), 77);
    for (size_t i = 0; i < ARRAY_COUNT(how); i++) {
        send_one(&cl, 12000, how[i]);
        assert_int_equal(transport_bounce_rotation(link), how[i] == UNEXPECTED ? 16 : 77);
    }
    cluster_close(&cl);
}

/* Returns the resident bytes of the buffers that receiver 1 has read.  With the memory of its
 * messages they stay within its budget. */
static uint64_t resident(const struct cluster *cl)
{
    const struct mbx_ep *ep = cl->eps[1];
    uint64_t bytes =
        ep_credit(ep)->bounce != NULL ? transport_bounce_resident(ep_credit(ep)->bounce) : 0;

    assert_true(bytes + cluster_stats(cl, 1).unexpected_bytes_max <=
                ep->settings.unexpected_memory);
    return bytes;
}

/* Messages with posted receives use as many buffers as fit into the receiver's budget, and no
 * more, whatever it keeps before or later. */
static void test_buffers_stay_within_the_budget(void **state)
{
    enum { BUDGET = 1 << 20, ROUNDS = 40 };
    struct cluster cl;
    struct link *link;

    if (!is_shm(*state))
        return;
    cluster_open(&cl, *state, 2,
                 (const char *[]){"EAGER_LIMIT=auto", "OVERSUBSCRIBED=no", "ADVERT=off",
                                  "SHM_RING_SIZE=16K", "UNEXPECTED_MEMORY=1M", NULL});
    for (int i = 0; i < 4; i++) /* the first ones bring extra credit */
        send_one(&cl, 12000, EXPECTED);
    link = cl.eps[0]->peers.all[1]->link;
    set_rotation(&cl, SEGMENT_BUFFERS);
    assert_int_equal(cluster_stats(&cl, 1).unexpected_bytes_max, 0);
    assert_int_equal(transport_bounce_rotation(link), BUDGET / SEGMENT_BUFFER_SIZE);
    for (int i = 0; i < ROUNDS; i++) {
        send_one(&cl, LONGER, EXPECTED);
        resident(&cl);
    }
    assert_int_equal(resident(&cl), BUDGET);
    send_one(&cl, 300, UNEXPECTED);
    assert_int_equal(resident(&cl), 0); /* they made space for it */
    for (int i = 0; i < ROUNDS; i++) {
        send_one(&cl, LONGER, i % 10 == 0 ? UNEXPECTED : EXPECTED);
        resident(&cl);
    }
    assert_true(cluster_stats(&cl, 1).unexpected_bytes_max > LONGER);
    send_one(&cl, LONGER, EXPECTED);
    assert_int_equal(transport_bounce_rotation(link),
                     (BUDGET - cluster_stats(&cl, 1).unexpected_bytes_max) /
                         SEGMENT_BUFFER_SIZE);
    cluster_close(&cl);
}

/* The fixed part of a window gets no extra credit.  The other part does, so messages travel
 * eagerly as without a fixed window. */
static void test_a_fixed_window_has_extra_payload(void **state)
{
    static const struct {
        const char *param;
        bool is_eager; /* all except the first of four */
    } cases[] = {{"WINDOW=1", true}, {"WINDOW_PAYLOAD=8K", false}, {"WINDOW=unlimited", true}};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct mbx_limits limits;
        struct cluster cl;

        if (!is_shm(*state))
            return;
        cluster_open(&cl, *state, 2,
                     (const char *[]){"EAGER_LIMIT=auto", "OVERSUBSCRIBED=no", "ADVERT=off",
                                      "SHM_RING_SIZE=64K", "PEERS_MAX=2048", cases[i].param,
                                      NULL});
        assert_int_equal(mbx_limits_get(cl.eps[1], &limits, sizeof limits), 0);
        assert_true(limits.extra != 0);
        if (i < 2)
            assert_true(limits.unexpected <= cl.eps[1]->settings.unexpected_memory);
        for (int n = 0; n < 4; n++)
            send_after(&cl, 16000, 10); /* with the credit for the previous one */
        /* the ring takes such packets */
        assert_true(cases[i].is_eager ? sent(&cl, MBX_SHORT) >= 2 : sent(&cl, MBX_SHORT) == 0);
        if (i != 1)
            assert_int_equal(peer_credit(peer_get(cl.eps[1], 0))->window,
                             ep_credit(cl.eps[1])->window);
        cluster_close(&cl);
    }
}

/* The advertisement has arrived before the message is sent. */
static void send_advertised(struct cluster *cl, size_t size)
{
    send_after(cl, size, 10);
}

/* Sends messages of this size, all of which go whole into buffers within the call, or all by
 * rendezvous. */
static void send_in_buffers(struct cluster *cl, unsigned count, size_t size, bool in_buffers)
{
    uint64_t eager = sent(cl, MBX_BOUNCE), rndv = sent(cl, MBX_RNDV_READ);

    for (unsigned i = 0; i < count; i++) {
        uint64_t taken = cluster_stats(cl, 0).buffers;

        send_one(cl, size, EXPECTED);
        assert_int_equal(cluster_stats(cl, 0).buffers - taken,
                         in_buffers ? (size - 64 - 1) / SEGMENT_BUFFER_SIZE + 1 : 0);
    }
    assert_int_equal(sent(cl, MBX_BOUNCE) - eager, in_buffers ? count : 0);
    assert_int_equal(sent(cl, MBX_RNDV_READ) - rndv, in_buffers ? 0 : count);
    cluster_check_buffers(cl, 0, 1);
}

static void open_for_long_ones(struct cluster *cl, const struct configuration *config,
                               const char *oversubscribed)
{
    cluster_open(cl, config, 2,
                 (const char *[]){"EAGER_LIMIT=auto", oversubscribed, "ADVERT=off",
                                  "WINDOW=unlimited", "WINDOW_PAYLOAD=unlimited", NULL});
    set_rotation(cl, SEGMENT_BUFFERS);
}

/* A near peer that allows buffers gets longer messages eagerly than other peers, as long as it
 * has receives for them, no message waits before them, and there are buffers. */
static void test_long_ones_in_buffers_to_the_near(void **state)
{
    struct cluster cl;

    if (!is_shm(*state))
        return;
    open_for_long_ones(&cl, *state, "OVERSUBSCRIBED=no");
    send_in_buffers(&cl, 1, BUFFERS_MOST, false); /* then the receiver allows buffers */
    send_in_buffers(&cl, 20, BUFFERS_MOST, true);
    send_in_buffers(&cl, 20, EAGER_LIMIT_NEAR + 1, true);
    send_in_buffers(&cl, 3, BUFFERS_MOST + 1, false);

    send_one(&cl, LONGER, UNEXPECTED);
    send_in_buffers(&cl, 1, BUFFERS_MOST, false); /* this one matches its receive */
    send_in_buffers(&cl, 1, BUFFERS_MOST, true);

    set_rotation(&cl, 16); /* as if a second cache held all buffers */
    send_in_buffers(&cl, 3, BUFFERS_MOST, false);
    set_rotation(&cl, 20); /* as if the receiver had space for this many */
    send_in_buffers(&cl, 3, 20 * SEGMENT_BUFFER_SIZE + 1, false);
    send_in_buffers(&cl, 3, 20 * SEGMENT_BUFFER_SIZE, true);
    set_rotation(&cl, SEGMENT_BUFFERS);
    send_in_buffers(&cl, 3, BUFFERS_MOST, true);

    take_all_buffers(&cl);
    send_one(&cl, BUFFERS_MOST, EXPECTED);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 1 + 3 + 1 + 3 + 3 + 1);
    cluster_close(&cl);
}

/* The receiver expects a message in buffers, and it comes by rendezvous: then receives are
 * advertised again.  From time to time the receiver expects buffers again. */
static void test_messages_outside_buffers_are_announced_again(void **state)
{
    struct cluster cl;
    uint64_t announced;

    if (!is_shm(*state))
        return;
    cluster_open(
        &cl, *state, 2,
        (const char *[]){"EAGER_LIMIT=auto", "OVERSUBSCRIBED=no", "WINDOW_PAYLOAD=1M", NULL});
    set_rotation(&cl, SEGMENT_BUFFERS);
    send_one(&cl, 12000, EXPECTED); /* now the receiver allows buffers */
    for (int i = 0; i < 4; i++)
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 0);
    assert_int_equal(sent(&cl, MBX_BOUNCE), 5);

    peer_path(cl.eps[0]->peers.all[1])->is_far = true; /* the receiver does not know this */
    for (int i = 0; i < 50; i++)
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
    assert_in_range(sent(&cl, MBX_RNDV_READ), 5, 7);
    announced = cluster_stats(&cl, 1).advert_sent;
    assert_in_range(announced, 43, 45);

    peer_path(cl.eps[0]->peers.all[1])->is_far = false;
    for (int i = 0; i < 70; i++)
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
    assert_in_range(cluster_stats(&cl, 1).advert_sent, announced, announced + 32);
    cluster_close(&cl);
}

/* If ranks share cores, long messages do not go into buffers. */
static void test_long_ones_not_in_buffers_without_a_core(void **state)
{
    struct cluster cl;

    if (!is_shm(*state))
        return;
    open_for_long_ones(&cl, *state, "OVERSUBSCRIBED=yes");
    send_in_buffers(&cl, 4, BUFFERS_MOST, false);
    cluster_close(&cl);
}

/* After a message that waits, a message that would go whole into buffers travels by
 * rendezvous. */
static void test_a_long_one_that_waits_is_not_in_buffers(void **state)
{
    enum { FILLERS = 64 };
    static unsigned char to[FILLERS][SIZE], longest[BUFFERS_MOST];
    const unsigned char *data = seeded_bytes(3, BUFFERS_MOST);
    mbx_request send[FILLERS + 1], recv[FILLERS + 1];
    struct cluster cl;

    if (!is_shm(*state))
        return;
    open_for_long_ones(&cl, *state, "OVERSUBSCRIBED=no");
    send_in_buffers(&cl, 1, BUFFERS_MOST, false);
    for (unsigned i = 0; i < FILLERS; i++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, 7, 1, 0, to[i], SIZE, NULL, &recv[i]), 0);
    assert_int_equal(
        mbx_recv(cl.eps[1], 0, 7, 1, 0, longest, BUFFERS_MOST, NULL, &recv[FILLERS]), 0);
    for (unsigned i = 0; i < FILLERS; i++)
        assert_int_equal(mbx_send(cl.eps[0], 1, 7, 1, data, SIZE, NULL, &send[i]), 0);
    assert_false(list_is_empty(&cl.eps[0]->peers.all[1]->outq.list));
    assert_int_equal(mbx_send(cl.eps[0], 1, 7, 1, data, BUFFERS_MOST, NULL, &send[FILLERS]), 0);
    for (unsigned i = 0; i <= FILLERS; i++) {
        cluster_wait_error(&cl, 1, recv[i], 0);
        cluster_wait_error(&cl, 0, send[i], 0);
    }
    assert_memory_equal(longest, data, BUFFERS_MOST);
    assert_int_equal(sent(&cl, MBX_RNDV_READ), 2);
    cluster_close(&cl);
}

/* A far peer gets short messages of several packets in buffers, one at a time, and longer ones
 * by rendezvous, except the messages by which its distance is measured. */
static void test_short_ones_in_buffers_to_the_far(void **state)
{
    mbx_request send[2], recv[2];
    static unsigned char to[2][SIZE];
    struct cluster cl;
    uint64_t eager;

    if (!is_shm(*state))
        return;
    open_for_long_ones(&cl, *state, "OVERSUBSCRIBED=no");
    copies_are_slow(true);
    send_in_buffers(&cl, 1, BUFFERS_MOST, false);
    send_some(&cl, PATH_NEAR_TURNS * PATH_VOTES, SIZE);
    assert_true(peer_path(cl.eps[0]->peers.all[1])->is_far);
    send_in_buffers(&cl, 10, 8000, true);
    send_in_buffers(&cl, 10, PATH_BUFFERS_FAR, true);
    eager = sent(&cl, MBX_BOUNCE);
    for (unsigned i = 0; i < PATH_FAR_TURNS; i++)
        send_one(&cl, EAGER_LIMIT_NEAR, EXPECTED);
    for (unsigned i = 0; i < PATH_FAR_TURNS; i++)
        send_one(&cl, BUFFERS_MOST, EXPECTED);
    assert_int_equal(sent(&cl, MBX_BOUNCE), eager + 2);
    assert_true(peer_path(cl.eps[0]->peers.all[1])->is_far);

    /* the second message finds the buffer of the first one in use */
    for (int i = 0; i < 2; i++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, 7, 1, 0, to[i], SIZE, NULL, &recv[i]), 0);
    eager = sent(&cl, MBX_BOUNCE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            mbx_send(cl.eps[0], 1, 7, 1, seeded_bytes(2, SIZE), SIZE, NULL, &send[i]), 0);
    for (int i = 0; i < 2; i++) {
        cluster_wait_error(&cl, 1, recv[i], 0);
        cluster_wait_error(&cl, 0, send[i], 0);
    }
    assert_int_equal(sent(&cl, MBX_BOUNCE), eager + 1);

    /* long messages alone detect that the peer is near */
    copies_are_slow(false);
    for (unsigned i = 0; i < PATH_FAR_TURNS * PATH_VOTES / 2; i++)
        send_one(&cl, BUFFERS_MOST, EXPECTED);
    assert_false(peer_path(cl.eps[0]->peers.all[1])->is_far);
    cluster_close(&cl);
}

/* Messages for which the ring has no space go into buffers when there is space. */
static void test_a_message_that_waited_is_in_buffers(void **state)
{
    enum { MESSAGES = 40, LENGTH = 12000 };
    static unsigned char to[MESSAGES][LENGTH];
    const unsigned char *data = seeded_bytes(11, LENGTH + MESSAGES);
    mbx_request send[MESSAGES], recv[MESSAGES];
    struct cluster cl;
    uint64_t before, waited;

    if (!is_shm(*state))
        return;
    open_for_longer(&cl, *state, "SHM_RING_SIZE=16K");
    send_one(&cl, LENGTH, EXPECTED);
    set_rotation(&cl, SEGMENT_BUFFERS);
    for (unsigned i = 0; i < MESSAGES; i++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, 7, i, 0, to[i], LENGTH, NULL, &recv[i]), 0);
    before = cluster_stats(&cl, 0).buffers;
    for (unsigned i = 0; i < MESSAGES; i++)
        assert_int_equal(mbx_send(cl.eps[0], 1, 7, i, data + i, LENGTH, NULL, &send[i]), 0);
    assert_true(cluster_stats(&cl, 0).buffers - before < MESSAGES / 2); /* the others wait */
    /* once there is space, more messages leave at once than with full first packets, of which
     * the ring takes three */
    for (unsigned i = 0; i < 100; i++)
        mbx_progress(cl.eps[1]);
    waited = cluster_stats(&cl, 0).buffers;
    mbx_progress(cl.eps[0]);
    assert_true(cluster_stats(&cl, 0).buffers - waited >= 8);
    for (unsigned i = 0; i < MESSAGES; i++) {
        cluster_wait_error(&cl, 1, recv[i], 0);
        cluster_wait_error(&cl, 0, send[i], 0);
        assert_memory_equal(to[i], data + i, LENGTH);
    }
    /* one message may have found the ring full after its first packet */
    assert_true(cluster_stats(&cl, 0).buffers - before >= MESSAGES - 4);
    cluster_check_buffers(&cl, 0, 1);
    cluster_close(&cl);
}

/* Wherever the ring becomes full while a message goes into buffers, the rest of the message
 * arrives, and no buffer is lost. */
static void test_buffers_and_a_full_ring(void **state)
{
    enum {
        FEWEST = 150,
        MOST = 260
    }; /* short messages, of a cache line each: the ring has 256 */
    static unsigned char to[LONGER];
    const unsigned char *data = seeded_bytes(5, LONGER);
    struct mbx_status status;
    struct cluster cl;
    unsigned some = 0, whole = 0;

    if (!is_shm(*state))
        return;
    open_for_longer(&cl, *state, "SHM_RING_SIZE=16K");
    send_one(&cl, 8193, EXPECTED);
    for (unsigned count = FEWEST; count < MOST; count++) {
        uint64_t before = cluster_stats(&cl, 0).buffers;
        mbx_request shorts[MOST], send, recv;

        for (unsigned i = 0; i < count; i++)
            assert_int_equal(mbx_send(cl.eps[0], 1, 7, 2, NULL, 0, NULL, &shorts[i]), 0);
        assert_int_equal(mbx_send(cl.eps[0], 1, 7, 1, data, LONGER, NULL, &send), 0);
        before = cluster_stats(&cl, 0).buffers - before;
        some += before > 0;
        whole += before == 3;
        memset(to, 0, sizeof to);
        assert_int_equal(mbx_recv(cl.eps[1], 0, 7, 1, 0, to, LONGER, NULL, &recv), 0);
        cluster_wait_error(&cl, 1, recv, 0);
        cluster_wait_error(&cl, 0, send, 0);
        assert_memory_equal(to, data, LONGER);
        for (unsigned i = 0; i < count; i++) {
            cluster_wait_error(&cl, 0, shorts[i], 0);
            assert_int_equal(mbx_try_recv(cl.eps[1], 0, 7, 2, 0, NULL, 0, &status), 1);
        }
        cluster_check_buffers(&cl, 0, 1);
    }
    assert_in_range(whole, 1, MOST - FEWEST - 1);
    assert_true(some > whole); /* some buffers, and then no space */
    cluster_close(&cl);
}

/* A receive whose message a near peer would send in buffers is not advertised, unless a
 * parameter requests it. */
static void test_messages_in_buffers_are_not_announced(void **state)
{
    static const struct {
        const char *param;
        int announced;
    } cases[] = {{"ADVERT=auto", 1}, {"ADVERT=always", 2}};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cluster cl;

        if (!is_shm(*state))
            return;
        cluster_open(&cl, *state, 2,
                     (const char *[]){"EAGER_LIMIT=auto", "OVERSUBSCRIBED=no", cases[i].param,
                                      "WINDOW_PAYLOAD=1M", NULL});
        set_rotation(&cl, 16);
        send_advertised(&cl, LONGER);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 1);
        send_one(&cl, 12000, EXPECTED); /* now the receiver allows buffers */
        send_advertised(&cl, LONGER);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, cases[i].announced);
        set_rotation(&cl, SEGMENT_BUFFERS);
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 2 * cases[i].announced - 1);
        set_rotation(&cl, 16);
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 2 * cases[i].announced);
        set_rotation(&cl, SEGMENT_BUFFERS);
        send_one(&cl, 12000, UNEXPECTED);
        send_advertised(&cl, EAGER_LIMIT_NEAR + 1);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 2 * cases[i].announced + 1);
        cluster_close(&cl);
    }
}

/* A far peer, or one whose memory cannot be read, gets no long messages eagerly. */
static void test_longer_ones_are_for_the_near(void **state)
{
    static const char *const params[] = {"OVERSUBSCRIBED=yes", "RNDV=data"};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct cluster cl;

        cluster_open(&cl, *state, 2,
                     (const char *[]){"EAGER_LIMIT=auto", params[i], "ADVERT=off", NULL});
        send_together(&cl, LONGER);
        assert_int_equal(sent(&cl, MBX_BOUNCE), 0);
        assert_int_equal(sent(&cl, i == 0 ? MBX_RNDV_READ : MBX_RNDV_DATA), 1);
        cluster_close(&cl);
    }
}

static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0 || strcmp(config->name, "loop") == 0;
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_clock, restore_clock)
    const struct CMUnitTest tests[] = {
        TEST(test_near_stays_near),
        TEST(test_far_goes_by_rendezvous),
        TEST(test_far_becomes_near),
        TEST(test_a_peer_without_a_core_is_far),
        TEST(test_only_if_it_is_said),
        TEST(test_a_limit_of_the_user_holds),
        TEST(test_a_near_peer_gets_longer_ones_in_packets),
        TEST(test_longer_ones_are_for_the_near),
        TEST(test_buffers_need_no_look),
        TEST(test_not_everything_is_in_buffers),
        TEST(test_few_buffers_without_receives),
        TEST(test_buffers_stay_within_the_budget),
        TEST(test_a_fixed_window_has_extra_payload),
        TEST(test_long_ones_in_buffers_to_the_near),
        TEST(test_messages_outside_buffers_are_announced_again),
        TEST(test_long_ones_not_in_buffers_without_a_core),
        TEST(test_a_long_one_that_waits_is_not_in_buffers),
        TEST(test_short_ones_in_buffers_to_the_far),
        TEST(test_a_message_that_waited_is_in_buffers),
        TEST(test_buffers_and_a_full_ring),
        TEST(test_messages_in_buffers_are_not_announced),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
