/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beside_test.c - messages that do not come through the device, and the receives it holds.
 *
 * Endpoint 0 receives.  Its peer 1 sends as always, through the device if there is one.
 */
#include "world.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "core/core.h"
#include "core/offload.h"

#define CONTEXT 23
#define SIZE    64

static mbx_request post(struct world *w, uint32_t source, uint64_t tag, void *buf)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(w->eps[0], source, CONTEXT, tag, 0, buf, SIZE, NULL, &recv), 0);
    return recv;
}

static void send_one(struct world *w, uint64_t tag, unsigned seed)
{
    assert_int_equal(mbx_inject(w->eps[1], 0, CONTEXT, tag, world_data(seed, SIZE), SIZE, 0),
                     0);
}

/* The transport alone: a device in the loop matches, and nobody has read what it says. */
static void poll_transport(struct world *w)
{
    mbx_progress(w->eps[1]);
    w->eps[0]->transport->ops->poll(w->eps[0]->transport, 64);
}

/* ---- claims: offload_revoke() ---- */

static struct claims {
    struct request *asked;
    int ours, gone; /* answers */
} claims;

/* A message of elsewhere is given to a receive that was taken back for it. */
static void give(struct mbx_ep *ep, struct request *req)
{
    assert_int_equal(req->state, REQUEST_POSTED);
    recv_matched(ep, req,
                 &(struct arrival){
                     .envelope = {CONTEXT, 2, req->match.envelope.tag},
                     .size = SIZE,
                     .payload = (const char *)world_data(9, SIZE),
                     .have = SIZE,
                 });
}

static void on_answer(struct mbx_ep *ep, struct request *req, bool is_ours)
{
    assert_ptr_equal(req, claims.asked);
    claims.asked = NULL;
    claims.ours += is_ours;
    claims.gone += !is_ours;
    if (is_ours)
        give(ep, req);
}

/* What offload_revoke() says; what it takes at once is given its message. */
static int claim(struct world *w, mbx_request recv)
{
    struct request *req = request_find(w->eps[0], recv);
    int err;

    assert_non_null(req);
    err = offload_revoke(w->eps[0], req);
    if (err == 0)
        give(w->eps[0], req);
    else if (err == -EINPROGRESS)
        claims.asked = req;
    return err;
}

static void open_claims(struct world *w, const struct world_config *config)
{
    world_open(w, config, 3, NULL);
    claims = (struct claims){0};
    offload_on_answer(w->eps[0], on_answer);
}

static void test_a_claimed_receive_is_ours(void **state)
{
    unsigned char got[SIZE], next[SIZE];
    mbx_request recv, other;
    struct world w;
    int err;

    open_claims(&w, *state);
    recv = post(&w, MBX_ANY_SOURCE, 1, got);
    err = claim(&w, recv);
    assert_int_equal(err, world_has_device(*state) ? -EINPROGRESS : 0);
    if (err != 0) {
        assert_int_equal(mbx_cancel(w.eps[0], recv), -EALREADY);
        assert_int_equal(claim(&w, recv), -EALREADY);
        assert_int_equal(request_find(w.eps[0], recv)->state, REQUEST_CLAIMED);
    }
    other = post(&w, MBX_ANY_SOURCE, 1, next);
    send_one(&w, 1, 4); /* is not for the claimed receive */
    world_wait_error(&w, 0, recv, 0);
    world_wait_error(&w, 0, other, 0);
    assert_memory_equal(got, world_data(9, SIZE), SIZE);
    assert_memory_equal(next, world_data(4, SIZE), SIZE);
    assert_int_equal(claims.ours, err != 0);
    assert_int_equal(claims.gone, 0);
    assert_int_equal(world_stats(&w, 0).posted_now, 0);
    world_close(&w);
}

/* The device has matched it, and software does not know that yet. */
static void test_a_claim_that_is_too_late(void **state)
{
    const struct world_config *config = *state;
    unsigned char got[SIZE];
    struct world w;
    mbx_request recv;

    if (!world_has_device(config) || world_is_elsewhere(config) || config->has_faults)
        return;
    open_claims(&w, config);
    recv = post(&w, MBX_ANY_SOURCE, 1, got);
    world_settle(&w);
    send_one(&w, 1, 4);
    poll_transport(&w);
    assert_int_equal(claim(&w, recv), -EINPROGRESS);
    world_wait_error(&w, 0, recv, 0);
    assert_memory_equal(got, world_data(4, SIZE), SIZE);
    assert_int_equal(claims.gone, 1);
    assert_int_equal(claims.ours, 0);
    world_close(&w);
}

/* A claim against the device, at any moment: either has the receive, and never both. */
static void test_claims_race_with_messages(void **state)
{
    int rounds = world_is_quick() ? 50 : 400, claimed = 0, matched = 0;
    struct random random;
    struct world w;

    open_claims(&w, *state);
    random_seed(&random, 1);
    for (int i = 0; i < rounds; i++) {
        unsigned char got[SIZE], next[SIZE];
        mbx_request recv = post(&w, 1, 1, got), other;

        for (uint64_t n = random_below(&random, 8); n > 0; n--)
            world_progress(&w);
        send_one(&w, 1, 4);
        for (uint64_t n = random_below(&random, 4); n > 0; n--)
            poll_transport(&w);
        claim(&w, recv);
        other = post(&w, 1, 1, next);
        world_wait_error(&w, 0, recv, 0);
        if (memcmp(got, world_data(9, SIZE), SIZE) == 0) {
            claimed++;
            world_wait_error(&w, 0, other, 0);
            assert_memory_equal(next, world_data(4, SIZE), SIZE);
        } else {
            matched++;
            assert_memory_equal(got, world_data(4, SIZE), SIZE);
            assert_int_equal(claim(&w, other) == -EALREADY, false);
            world_wait_error(&w, 0, other, 0);
            assert_memory_equal(next, world_data(9, SIZE), SIZE);
        }
        assert_null(claims.asked);
    }
    assert_true(claimed > 0);
    assert_int_equal(claimed + matched, rounds);
    assert_int_equal(world_stats(&w, 0).posted_now, 0);
    world_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claimed_receive_is_ours),
        cmocka_unit_test(test_a_claim_that_is_too_late),
        cmocka_unit_test(test_claims_race_with_messages),
    };

    return world_main(argc, argv, tests, ARRAY_COUNT(tests));
}
