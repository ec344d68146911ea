/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extra_credit_test.c - extra credit is given to peers, and comes back.
 *
 * Three endpoints send more to a fourth one than it may keep, each message with a tag of its
 * own, and the receiver receives the last ones first.  When little extra credit is left, some
 * of it is taken back from the peers that free it.  After every round the test checks the sums
 * of credit (credit.h, I2), and that no endpoint has used more memory than its limit.
 */
#include "cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "defer/backlog.h"

#define CONTEXT  37
#define SENDERS  3
#define RECEIVER SENDERS
#define SIZE     600
#define AT_ONCE  16 /* receives at the same time */

/* Windows are not fixed, and no device gets receives. */
static bool is_extended(const struct configuration *config)
{
    return config_window(config) == UINT64_MAX && !config_has_device(config) &&
           !config_has_param(config, "WINDOW");
}

static int messages(void)
{
    return test_is_quick() ? 400 : 1500;
}

struct extra {
    struct cluster cl;
    mbx_request *sends[SENDERS];
    uint64_t limit;       /* bytes for unexpected messages */
    uint64_t least, last; /* extra credit */
    bool has_risen;       /* extra credit has risen while a sender still needed more */
};

static size_t size_of(int from, int i)
{
    /* messages of the first sender need no payload credit: its extra credit is envelopes */
    return from == 0 ? (size_t)i % (MESSAGE_INLINE + 1)
                     : (size_t)(from * 7 + i * 31) % (SIZE + 1);
}

static void extra_open(struct extra *extra, const struct configuration *config)
{
    static const char *const more[] = {"UNEXPECTED_MEMORY=256K", "PEERS_MAX=4",
                                       "EAGER_LIMIT=4K", NULL};
    struct mbx_limits limits;

    *extra = (struct extra){0};
    cluster_open(&extra->cl, config, SENDERS + 1, more);
    assert_int_equal(mbx_limits_get(extra->cl.eps[RECEIVER], &limits, sizeof limits), 0);
    assert_true(limits.extra > 0);
    assert_true(limits.unexpected <= 256 * 1024);
    extra->limit = limits.unexpected;
    extra->least = extra->last = ep_credit(extra->cl.eps[RECEIVER])->extra;
    for (int i = 0; i < SENDERS; i++)
        extra->sends[i] = calloc((size_t)messages(), sizeof *extra->sends[i]);
}

static void extra_close(struct extra *extra)
{
    cluster_close(&extra->cl);
    for (int i = 0; i < SENDERS; i++)
        free(extra->sends[i]);
}

static void extra_look(struct extra *extra)
{
    const struct mbx_ep *ep = extra->cl.eps[RECEIVER];

    cluster_check_extra_credit(ep);
    assert_true(cluster_stats(&extra->cl, RECEIVER).unexpected_bytes_max <= extra->limit);
    extra->least = min_size(extra->least, ep_credit(ep)->extra);
    extra->has_risen |= ep_credit(ep)->extra > extra->last;
    extra->last = ep_credit(ep)->extra;
}

static void extra_progress(struct extra *extra)
{
    cluster_progress(&extra->cl);
    extra_look(extra);
}

static void send_all(struct extra *extra)
{
    for (int i = 0; i < messages(); i++) {
        for (int from = 0; from < SENDERS; from++)
            assert_int_equal(mbx_send(extra->cl.eps[from], RECEIVER, CONTEXT, (uint64_t)i,
                                      seeded_bytes((unsigned)i, SIZE), size_of(from, i), NULL,
                                      &extra->sends[from][i]),
                             0);
        if (i % 8 == 0)
            extra_progress(extra);
    }
    for (int i = 0; i < 1000; i++)
        extra_progress(extra);
}

/* Receives messages last - AT_ONCE + 1 to last of each sender, in this order. */
static void receive_some(struct extra *extra, int last)
{
    static unsigned char bytes[SENDERS][AT_ONCE][SIZE];
    mbx_request recvs[SENDERS][AT_ONCE];
    int first = last - AT_ONCE + 1 > 0 ? last - AT_ONCE + 1 : 0;

    for (int from = 0; from < SENDERS; from++)
        for (int i = first; i <= last; i++)
            assert_int_equal(mbx_recv(extra->cl.eps[RECEIVER], (uint32_t)from, CONTEXT,
                                      (uint64_t)i, 0, bytes[from][i - first], SIZE, NULL,
                                      &recvs[from][i - first]),
                             0);
    for (int from = 0; from < SENDERS; from++)
        for (int i = first; i <= last; i++) {
            cluster_wait_error(&extra->cl, RECEIVER, recvs[from][i - first], 0);
            assert_memory_equal(bytes[from][i - first], seeded_bytes((unsigned)i, SIZE),
                                size_of(from, i));
            extra_look(extra);
        }
}

/* Returns the envelopes of the sender's credit, with those it has set aside while it defers
 * sends. */
static uint64_t envelopes_of(const struct peer *receiver)
{
    const struct backlog *backlog = receiver->backlog;

    return peer_credit(receiver)->envelopes + (backlog != NULL ? backlog->envelopes : 0) +
           (receiver->advert != NULL ? receiver->advert->envelopes : 0);
}

static bool is_whole(const struct peer *sender, const struct peer *receiver)
{
    const struct credit *kept = peer_credit(sender);

    return envelopes_of(receiver) + kept->freed_envelopes == kept->window &&
           peer_credit(receiver)->payload + kept->freed_payload == kept->window_payload;
}

/* credit.h I1, when no message is left: the sender's credit, and the credit that the receiver
 * has not returned yet, are the window. */
static void both_sides_agree(struct extra *extra, int from)
{
    const struct peer *sender = peer_get(extra->cl.eps[RECEIVER], (uint32_t)from);
    const struct peer *receiver = peer_get(extra->cl.eps[from], RECEIVER);

    assert_int_equal(peer_credit(sender)->kept_envelopes, 0);
    assert_int_equal(peer_credit(sender)->kept_payload, 0);
    for (int i = 0; i < 1000 && !is_whole(sender, receiver); i++)
        extra_progress(extra); /* a CREDIT is under way */
    assert_true(is_whole(sender, receiver));
}

static void test_extra_credit_comes_back(void **state)
{
    struct extra extra;
    uint64_t all;

    extra_open(&extra, *state);
    all = ep_credit(extra.cl.eps[RECEIVER])->extra_all;
    send_all(&extra);
    for (int last = messages() - 1; last >= 0; last -= AT_ONCE)
        receive_some(&extra, last);
    for (int from = 0; from < SENDERS; from++)
        for (int i = 0; i < messages(); i++)
            cluster_wait_error(&extra.cl, from, extra.sends[from][i], 0);
    assert_true(extra.least < all / 2); /* much was given, */
    assert_true(extra.has_risen);       /* and some of it was taken back */
    assert_int_equal(cluster_stats(&extra.cl, RECEIVER).dropped_packets, 0);
    for (int from = 0; from < SENDERS; from++)
        both_sides_agree(&extra, from);
    extra_close(&extra);
}

/* A sender whose messages all match at once gets extra envelopes without asking. */
static void test_a_busy_window_widens(void **state)
{
    struct extra extra;
    const struct credit *credit;
    uint64_t window;

    extra_open(&extra, *state);
    assert_int_equal(peer_use(extra.cl.eps[RECEIVER], 0), 0);
    credit = peer_credit(peer_get(extra.cl.eps[RECEIVER], 0));
    window = credit->window;
    for (int i = 0; i < messages(); i++) {
        mbx_request recv;

        assert_int_equal(
            mbx_recv(extra.cl.eps[RECEIVER], 0, CONTEXT, 1, 0, NULL, 0, NULL, &recv), 0);
        assert_int_equal(mbx_inject(extra.cl.eps[0], RECEIVER, CONTEXT, 1, NULL, 0, 0), 0);
        cluster_wait_error(&extra.cl, RECEIVER, recv, 0);
        extra_look(&extra);
    }
    assert_true(credit->window > window);
    extra_close(&extra);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_window_widens),
        cmocka_unit_test(test_extra_credit_comes_back),
    };

    return test_main_for(argc, argv, is_extended, tests, ARRAY_COUNT(tests));
}
