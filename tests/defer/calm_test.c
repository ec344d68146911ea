/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calm_test.c - a peer that has deferred messages once does not cost anything for ever: after
 * enough receives without a deferral, open receives are on no list, and the memory for the peer
 * is freed (receiver.c).  The peer may defer again.
 */
#include "cluster.h"

#include "base/base.h"
#include "core/core.h"
#include "defer/receiver.h"

#define CONTEXT 5
#define ROUNDS  400 /* more than CALM_LEAST of core/settings.c plus the few that are open */

static const char *const params[] = {"WINDOW=8", NULL}; /* enough for one message at a time */

static bool is_meant(const struct configuration *config)
{
    return !config_has_faults(config) && !config_is_network(config) &&
           !config_has_device(config) && !config_has_param(config, "MATCH_AT") &&
           !config_has_param(config, "WINDOW");
}

static bool is_watched(const struct cluster *cl)
{
    return cl->eps[1]->modules.watched_from == 0;
}

static void post(struct cluster *cl, mbx_request *recv, int *got)
{
    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, got, sizeof *got, NULL, recv), 0);
}

/* Sends until a message is deferred, and receives them all. */
static void defer_some(struct cluster *cl)
{
    mbx_request sends[32];
    int value = 1, got;
    uint32_t count = 0;

    cluster_settle(cl); /* no credit is unread */
    while (cluster_stats(cl, 0).deferred_now == 0) {
        assert_true(count < ARRAY_COUNT(sends));
        assert_int_equal(
            mbx_send(cl->eps[0], 1, CONTEXT, 1, &value, sizeof value, NULL, &sends[count++]),
            0);
    }
    cluster_settle(cl);
    assert_true(is_watched(cl));
    for (uint32_t i = 0; i < count; i++) {
        mbx_request recv;

        post(cl, &recv, &got);
        cluster_wait_error(cl, 1, recv, 0);
    }
    for (uint32_t i = 0; i < count; i++)
        cluster_wait_error(cl, 0, sends[i], 0);
}

/* Moves messages whose receives are posted first, from a sender that reads its credit. */
static void exchange(struct cluster *cl, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        mbx_request send, recv;
        int got = -1;

        post(cl, &recv, &got);
        mbx_progress(cl->eps[0]);
        assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, 1, &i, sizeof i, NULL, &send), 0);
        cluster_wait_error(cl, 1, recv, 0);
        cluster_wait_error(cl, 0, send, 0);
        assert_int_equal(got, i);
    }
}

static void deferring_costs_nothing_for_good(void **state)
{
    struct cluster cl;
    mbx_request open;
    int none;

    cluster_open(&cl, *state, 2, params);
    for (int i = 0; i < 3; i++) {
        defer_some(&cl);
        exchange(&cl, ROUNDS);
        assert_false(is_watched(&cl));
        assert_null(peer_get(cl.eps[1], 0)->deferrer);
        assert_true(list_is_empty(&ep_defer(cl.eps[1])->receiver->open));
    }
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 99, 0, &none, sizeof none, NULL, &open),
                     0);
    defer_some(&cl); /* the list begins with `open` */
    assert_int_equal(mbx_cancel(cl.eps[1], open), 0);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(deferring_costs_nothing_for_good),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
