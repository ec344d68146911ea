/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages_test.c - how many packets a receive takes when many senders defer matching messages.
 *
 * N sources have the same K messages for one receiver, which receives all of them from any
 * source, one after the other, and lets the others make `think` rounds of progress between two
 * receives.  The test counts every packet that a transport took, in both directions:
 *
 *   messages_per_receive = packets / receives
 *
 * A match at the sender takes a multiple of N packets; with a window of W it takes the numbers
 * in the table below, for any N and any think time.  The count includes the senders' claims,
 * successful or not.  If the receiver pulls messages itself (sendtable.h), only FIN and CREDIT
 * are left.
 *
 *   messages_test [--quick]
 *
 * --quick leaves out the largest N.
 */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"

#define CONTEXT     7
#define TAG         3
#define SOURCES_MAX 256
#define EACH        32 /* messages of each source */

static const struct {
    uint64_t window;
    double most, most_taking; /* messages per receive */
} windows[] = {{0, 0, 1.1}, {1, 3.0, 1.2}, {4, 2.4, 1.2}, {16, 2.0, 1.2}};

static const int sources[] = {16, 64, SOURCES_MAX};
static size_t source_counts = ARRAY_COUNT(sources);
static const int thinks[] = {0, 1, 8};

struct many {
    int count; /* number of sources */
    struct mbx_ep *receiver, *source[SOURCES_MAX];
};

/* ---- packets ---- */

static const struct transport_ops *counted;
static uint64_t packets;

static int count_send(struct link *link, const struct transport_packet *packet)
{
    int err = counted->send(link, packet);

    packets += err == 0;
    return err;
}

static struct mbx_ep *open_counted(const char *window, const char *take)
{
    const char *const params[] = {"TRANSPORT=loop", "LOOP_DEPTH=64", window, take, NULL};
    static struct transport_ops ops;
    struct mbx_ep *ep;

    assert_int_equal(mbx_open(&(struct mbx_config){.params = params}, &ep), 0);
    counted = ep->net.transport->ops;
    ops = *counted;
    ops.send = count_send;
    ep->net.transport->ops = &ops;
    return ep;
}

static void close_counted(struct mbx_ep *ep)
{
    ep->net.transport->ops = counted;
    assert_int_equal(mbx_close(ep), 0);
}

/* ---- many endpoints ---- */

static void many_open(struct many *m, int count, uint64_t window, bool takes)
{
    const char *take = takes ? "SENDTABLE=yes" : "SENDTABLE=no";
    char text[32];
    struct mbx_address address;
    uint32_t number;

    snprintf(text, sizeof text, "WINDOW=%llu", (unsigned long long)window);
    m->count = count;
    m->receiver = open_counted(text, take);
    mbx_address_get(m->receiver, &address);
    for (int i = 0; i < count; i++) {
        m->source[i] = open_counted(text, take);
        assert_int_equal(mbx_peer_add(m->source[i], &address, &number), 0);
    }
}

static void many_close(struct many *m)
{
    for (int i = 0; i < m->count; i++)
        close_counted(m->source[i]);
    close_counted(m->receiver);
}

static int many_progress(struct many *m)
{
    int moved = mbx_progress(m->receiver);

    for (int i = 0; i < m->count; i++)
        moved += mbx_progress(m->source[i]);
    return moved;
}

/* ---- the flood ---- */

/* Returns the content of a message of a source; its messages are numbered. */
static uint64_t content(int source, int message)
{
    return (uint64_t)source << 32 | (uint64_t)message;
}

static void flood(struct many *m, uint64_t data[][EACH])
{
    const struct mbx_options silent = {.flags = MBX_SILENT};

    for (int n = 0; n < EACH; n++)
        for (int i = 0; i < m->count; i++) {
            data[i][n] = content(i, n);
            assert_int_equal(mbx_send(m->source[i], 0, CONTEXT, TAG, &data[i][n],
                                      sizeof data[i][n], &silent, NULL),
                             0);
        }
    while (many_progress(m) > 0)
        ;
}

static void receive_one(struct many *m, int next[], int think)
{
    uint64_t got = UINT64_MAX;
    mbx_request request;
    int source;

    assert_int_equal(mbx_recv(m->receiver, MBX_ANY_SOURCE, CONTEXT, TAG, 0, &got, sizeof got,
                              NULL, &request),
                     0);
    for (int idle = 0; mbx_test(m->receiver, request, NULL) == 0;) {
        idle = many_progress(m) > 0 ? 0 : idle + 1;
        assert_true(idle < 100);
    }
    source = (int)(got >> 32);
    assert_in_range(source, 0, m->count - 1);
    assert_int_equal(got, content(source, next[source]));
    next[source]++;
    for (int i = 0; i < think; i++)
        many_progress(m);
}

/* Returns the count by the statistics, which count a message that came with its claim as a
 * message and as a packet. */
static uint64_t packets_by_statistics(const struct many *m)
{
    uint64_t count = 0;

    for (int i = 0; i <= m->count; i++) {
        struct stats s;

        stats_read(i < m->count ? m->source[i] : m->receiver, &s);
        for (int p = 0; p < MBX_PROTOCOLS; p++)
            count += s.sent[p];
        count += s.control - s.claims_won;
    }
    return count;
}

static double measure(int count, uint64_t window, int think, bool takes)
{
    static uint64_t data[SOURCES_MAX][EACH];
    int next[SOURCES_MAX] = {0}, receives = count * EACH;
    struct stats s;
    struct many m;

    packets = 0;
    many_open(&m, count, window, takes);
    flood(&m, data);
    for (int i = 0; i < receives; i++)
        receive_one(&m, next, think);
    while (many_progress(&m) > 0)
        ;
    stats_read(m.receiver, &s);
    printf("test=messages sources=%d window=%d think=%d receives=%d "
           "messages_per_receive=%.3f by_statistics=%.3f unexpected_max=%llu credits=%llu "
           "rtrs=%llu retires=%llu reached=%llu taken=%llu\n",
           count, (int)window, think, receives, (double)packets / receives,
           (double)packets_by_statistics(&m) / receives, (unsigned long long)s.unexpected_max,
           (unsigned long long)s.credits, (unsigned long long)s.rtrs,
           (unsigned long long)s.retires, (unsigned long long)s.claims_met,
           (unsigned long long)s.pulled);
    assert_true(s.unexpected_max <= (uint64_t)count * window);
    many_close(&m);
    return (double)packets / receives;
}

static void test_a_receive_costs_few_messages_at_any_number_of_senders(UNUSED void **state)
{
    for (size_t w = 0; w < ARRAY_COUNT(windows); w++)
        for (size_t n = 0; n < source_counts; n++)
            for (size_t t = 0; t < ARRAY_COUNT(thinks) && windows[w].window != 0; t++)
                assert_true(measure(sources[n], windows[w].window, thinks[t], false) <=
                            windows[w].most);
}

/* With a window and time to think, senders end their deferral because of the credit, as
 * above. */
static void test_a_receive_that_takes_costs_hardly_more_than_its_end(UNUSED void **state)
{
    for (size_t w = 0; w < ARRAY_COUNT(windows); w++)
        for (size_t n = 0; n + 1 < source_counts; n++)
            assert_true(measure(sources[n], windows[w].window,
                                windows[w].window == 0 ? thinks[n] : 0,
                                true) <= windows[w].most_taking);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_receive_costs_few_messages_at_any_number_of_senders),
        cmocka_unit_test(test_a_receive_that_takes_costs_hardly_more_than_its_end),
    };

    if (argc == 2 && strcmp(argv[1], "--quick") == 0) {
        source_counts--;
    } else if (argc > 1) {
        bool is_asked = strcmp(argv[1], "--help") == 0;

        fprintf(is_asked ? stdout : stderr,
                "usage: messages_test [--quick]\n"
                "It counts the packets of loop, so it runs in no other configuration.\n");
        return is_asked ? 0 : 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
