/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line_test.c - a protocol in a program instead of the library: sends without credit wait in
 * line.
 *
 * The first endpoint sends more than the window of the second one, which posts receives later.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>

#include "line.h"

#define CONTEXT  61
#define MESSAGES 60
#define LARGEST  40000

static const char *const params[] = {"WINDOW=2",        "MATCH_AT=receiver",
                                     "CLOSE_TIMEOUT=0", "PEER_TIMEOUT=20ms",
                                     "LOG_LEVEL=error", NULL};

/* A device takes messages itself, and networks check liveness by other clocks. */
static bool is_meant(const struct configuration *config)
{
    return !config_has_device(config) && !config_has_param(config, "MATCH_AT=sender");
}

static size_t size_of(int i)
{
    return i % 7 == 0 ? LARGEST : (size_t)i * 50;
}

static void send_all(struct cluster *cl, mbx_request *sends)
{
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, 7,
                                  seeded_bytes((unsigned)i, size_of(i)), size_of(i), NULL,
                                  &sends[i]),
                         0);
}

/* All messages have the same tag, so they are received in the order of the calls. */
static void test_they_leave_in_order(void **state)
{
    unsigned char *got = malloc(LARGEST);
    mbx_request sends[MESSAGES], recv;
    uint64_t came = line_came, left = line_left;
    struct mbx_completion done;
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    send_all(&cl, sends);
    assert_true(line_came > came);
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 7, 0, got, LARGEST, NULL, &recv), 0);
        cluster_wait(&cl, 1, recv, &done);
        assert_int_equal(done.error, 0);
        assert_int_equal(done.received, size_of(i));
        assert_memory_equal(got, seeded_bytes((unsigned)i, size_of(i)), size_of(i));
    }
    for (int i = 0; i < MESSAGES; i++)
        cluster_wait_error(&cl, 0, sends[i], 0);
    assert_int_equal(line_left - left, line_came - came);
    assert_int_equal(cluster_stats(&cl, 0).deferrals, 0); /* the backlog was not used */
    cluster_close(&cl);
    free(got);
}

static void some_progress(struct cluster *cl)
{
    for (int i = 0; i < 50; i++)
        cluster_progress(cl);
}

/* A receive is advertised while a send waits: the next send does not take it. */
static void test_nobody_overtakes(void **state)
{
    static unsigned char got[2][LARGEST];
    unsigned char other[8];
    mbx_request sends[4], recvs[2], recv;
    struct mbx_completion done;
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    for (int i = 0; i < 4; i++) {
        size_t size = i < 2 ? sizeof other : LARGEST; /* two use up the credit */

        if (i == 3)
            for (int k = 0; k < 2; k++)
                assert_int_equal(
                    mbx_recv(cl.eps[1], 0, CONTEXT, 8, 0, got[k], LARGEST, NULL, &recvs[k]), 0);
        some_progress(&cl);
        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, i < 2 ? 7 : 8,
                                  seeded_bytes((unsigned)i, size), size, NULL, &sends[i]),
                         0);
        some_progress(&cl);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            mbx_recv(cl.eps[1], 0, CONTEXT, 7, 0, other, sizeof other, NULL, &recv), 0);
        cluster_wait(&cl, 1, recv, &done);
    }
    for (int i = 0; i < 2; i++) {
        cluster_wait(&cl, 1, recvs[i], &done);
        assert_memory_equal(got[i], seeded_bytes((unsigned)i + 2, LARGEST), LARGEST);
    }
    for (int i = 0; i < 4; i++)
        cluster_wait_error(&cl, 0, sends[i], 0);
    cluster_close(&cl);
}

/* Returns the error of the request.  The endpoint checks periodically whether the peer is
 * alive. */
static int end_of(struct cluster *cl, mbx_request request)
{
    struct mbx_completion done;
    int err;

    for (int i = 0; (err = mbx_wait(cl->eps[0], request, 1000000, &done)) != 0; i++) {
        assert_true(err == -EINTR || err == -ETIMEDOUT);
        assert_true(i < test_patience());
    }
    return done.error;
}

static void test_a_rank_that_waits_for_a_closing_peer_is_told(void **state)
{
    mbx_request sends[MESSAGES];
    int failed = 0;
    struct cluster cl;

    if (config_is_verbs(*state))
        skip(); /* the two have not met */
    cluster_open(&cl, *state, 2, params);
    send_all(&cl, sends);
    cluster_close_one(&cl, 1);
    for (int i = 0; i < MESSAGES; i++)
        failed += end_of(&cl, sends[i]) != 0;
    assert_true(failed > 0);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_leave_in_order),
        cmocka_unit_test(test_nobody_overtakes),
        cmocka_unit_test(test_a_rank_that_waits_for_a_closing_peer_is_told),
    };

    module_extension = line_module;
    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
