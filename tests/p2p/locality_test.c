/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locality_test.c - how a message of several packets goes to a peer depends on how long copies
 * to it take, and on whether it may be without a core.  The clock is the test's: it goes on with each look at it, or stands still.
 */
#include "world.h"

#include <string.h>

#include "base/clock.h"
#include "p2p/p2p.h"

#define SIZE 16000 /* several packets */

static _Atomic uint64_t time_ns, step_ns;

static uint64_t stepping_clock(void)
{
    return atomic_fetch_add(&time_ns, step_ns);
}

static int set_clock(void **state)
{
    (void)state;
    atomic_store(&time_ns, clock_now());
    atomic_store(&step_ns, 0);
    clock_set(stepping_clock);
    return 0;
}

static int restore_clock(void **state)
{
    (void)state;
    clock_set(NULL);
    return 0;
}

static void copies_are_slow(bool slow)
{
    atomic_store(&step_ns, slow ? 10 * CLOCK_US : 0);
}

/* With credit for all, so that nothing is held. */
static void open_two_with(struct world *w, const struct world_config *config, const char *param,
                          const char *other)
{
    world_open(
        w, config, 2,
        (const char *[]){param, other, "WINDOW=unlimited", "WINDOW_PAYLOAD=unlimited", NULL});
}

static void open_two(struct world *w, const struct world_config *config, const char *param)
{
    open_two_with(w, config, param, "TRACE="); /* which says nothing */
}

static void send_some(struct world *w, unsigned count, size_t size)
{
    static unsigned char to[SIZE];
    const unsigned char *data = world_data(7, size);

    for (unsigned i = 0; i < count; i++) {
        mbx_request send = 0, recv = 0;

        memset(to, 0, sizeof to);
        assert_int_equal(mbx_recv(w->eps[1], 0, 7, 1, 0, to, size, NULL, &recv), 0);
        assert_int_equal(mbx_send(w->eps[0], 1, 7, 1, data, size, NULL, &send), 0);
        world_wait_error(w, 1, recv, 0);
        world_wait_error(w, 0, send, 0);
        assert_memory_equal(to, data, size);
    }
}

static uint64_t sent(const struct world *w, enum mbx_protocol protocol)
{
    return world_stats(w, 0).sent[protocol];
}

static size_t longest_eager(const struct world *w)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    int count = world_protocols(w->eps[0], 1, rows);

    assert_true(count >= 2);
    assert_int_equal(rows[count - 1].protocol, MBX_RNDV_READ);
    return rows[count - 2].max_size;
}

/* From near to far, and how long that takes. */
static void go_far(struct world *w)
{
    copies_are_slow(true);
    send_some(w, LOCALITY_NEAR * LOCALITY_VOTES - 1, SIZE);
    assert_int_equal(longest_eager(w), EAGER_LIMIT_NEAR);
    send_some(w, 1, SIZE);
    assert_true(longest_eager(w) < SIZE);
    assert_int_equal(sent(w, MBX_RNDV_READ), 0);
}

static void test_near_stays_near(void **state)
{
    struct world w;

    open_two(&w, *state, "EAGER_LIMIT=auto");
    send_some(&w, 2 * LOCALITY_NEAR * LOCALITY_VOTES, SIZE);
    assert_int_equal(longest_eager(&w), EAGER_LIMIT_NEAR);
    assert_int_equal(sent(&w, MBX_RNDV_READ), 0);
    world_close(&w);
}

static void test_far_goes_by_rendezvous(void **state)
{
    struct world w;
    uint64_t eager;

    open_two(&w, *state, "EAGER_LIMIT=auto");
    go_far(&w);
    eager = sent(&w, MBX_BOUNCE);
    send_some(&w, 10 * LOCALITY_FAR, SIZE);
    assert_int_equal(sent(&w, MBX_BOUNCE), eager + 10);
    assert_int_equal(sent(&w, MBX_RNDV_READ), 10 * (LOCALITY_FAR - 1));
    eager = sent(&w, MBX_SHORT);
    send_some(&w, 100, longest_eager(&w)); /* one packet is one packet */
    assert_int_equal(sent(&w, MBX_SHORT), eager + 100);
    world_close(&w);
}

static void test_far_becomes_near(void **state)
{
    struct world w;

    open_two(&w, *state, "EAGER_LIMIT=auto");
    go_far(&w);
    copies_are_slow(false);
    send_some(&w, LOCALITY_FAR * LOCALITY_VOTES / 2, SIZE);
    assert_int_equal(longest_eager(&w), EAGER_LIMIT_NEAR);
    assert_int_equal(sent(&w, MBX_RNDV_READ), (LOCALITY_FAR - 1) * LOCALITY_VOTES / 2);
    world_close(&w);
}

static void test_a_peer_without_a_core_is_far(void **state)
{
    struct world w;

    open_two_with(&w, *state, "EAGER_LIMIT=auto", "OVERSUBSCRIBED=yes");
    send_some(&w, 2 * LOCALITY_FAR, SIZE);
    assert_true(longest_eager(&w) < SIZE);
    assert_int_equal(sent(&w, MBX_RNDV_READ), 2 * LOCALITY_FAR);
    assert_int_equal(sent(&w, MBX_BOUNCE), 0);
    send_some(&w, 10, longest_eager(&w));
    assert_int_equal(sent(&w, MBX_SHORT), 10);
    world_close(&w);
}

/* More peers than cores say nothing of those of this machine. */
static void test_only_if_it_is_said(void **state)
{
    static const char *const params[] = {"OVERSUBSCRIBED=auto", "OVERSUBSCRIBED=no"};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct world w;

        open_two_with(&w, *state, "EAGER_LIMIT=auto", params[i]);
        w.eps[0]->limits.cores = w.eps[1]->limits.cores = 1;
        send_some(&w, LOCALITY_NEAR, SIZE);
        assert_int_equal(sent(&w, MBX_BOUNCE), LOCALITY_NEAR);
        world_close(&w);
    }
}

/* A limit that somebody has set is the limit; and who cannot be read is sent the bytes. */
static void test_what_is_set_holds(void **state)
{
    static const char *const params[][2] = {{"EAGER_LIMIT=16K", "OVERSUBSCRIBED=auto"},
                                            {"EAGER_LIMIT=16K", "OVERSUBSCRIBED=yes"},
                                            {"RNDV=data", "OVERSUBSCRIBED=auto"},
                                            {"RNDV=data", "OVERSUBSCRIBED=yes"}};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct world w;

        copies_are_slow(true);
        open_two_with(&w, *state, params[i][0], params[i][1]);
        send_some(&w, 2 * LOCALITY_NEAR * LOCALITY_VOTES, SIZE);
        assert_int_equal(sent(&w, MBX_BOUNCE), 2 * LOCALITY_NEAR * LOCALITY_VOTES);
        world_close(&w);
        copies_are_slow(false);
    }
}

static bool is_meant(const struct world_config *config)
{
    return strcmp(config->name, "shm") == 0 || strcmp(config->name, "loop") == 0;
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_clock, restore_clock)
    const struct CMUnitTest tests[] = {
        TEST(test_near_stays_near),    TEST(test_far_goes_by_rendezvous),
        TEST(test_far_becomes_near),   TEST(test_a_peer_without_a_core_is_far),
        TEST(test_only_if_it_is_said), TEST(test_what_is_set_holds),
    };

    return world_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
