/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic is checked by the rule of MPI for any two messages and any two receives,
 * because a device elsewhere does not report the order of its actions.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "device/soft/softdev.h"
#include "p2p/p2p.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"

#define CONTEXT 23
#define SIZE    64

static mbx_request post(struct cluster *cl, uint32_t source, uint64_t tag, void *buf)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[0], source, CONTEXT, tag, 0, buf, SIZE, NULL, &recv), 0);
    return recv;
}

static void send_one(struct cluster *cl, uint64_t tag, unsigned seed)
{
    assert_int_equal(mbx_inject(cl->eps[1], 0, CONTEXT, tag, seeded_bytes(seed, SIZE), SIZE, 0),
                     0);
}

/* Polls the transport alone: a device in the loop matches, and nobody has read its events. */
static void poll_transport(struct cluster *cl)
{
    mbx_progress(cl->eps[1]);
    cl->eps[0]->net.transport->ops->poll(cl->eps[0]->net.transport, 64);
}

/* ---- a second transport ---- */

#define OTHERS 2

struct second {
    struct cluster cl;
    struct transport *transport;
    struct mbx_ep *others[OTHERS]; /* peers 2 and 3 of endpoint 0, whose number for them is 0 */
};

static const struct transport_events second_events = {
    .accept = peer_accept,
    .deliver = offload_bypass,
    .read_done = offload_read_done,
    .dropped = progress_dropped,
};

static void second_open_transport(struct second *s)
{
    const struct settings *settings = &s->cl.eps[0]->settings;
    const struct transport_ops *ops =
        config_is_loop(s->cl.config) ? &transport_loop : &transport_shm;
    struct transport_config config = {
        .events = &second_events,
        .arg = s->cl.eps[0],
        .credit = credit_welcome(s->cl.eps[0]),
        .peers = settings->peers_max,
        .settings = settings->transports,
    };

    testing_settings(&config.settings)->fault_seed++;
    assert_int_equal(transport_open(ops, &config, &s->transport), 0);
}

/* Makes the two endpoints known to each other, over the second transport. */
static void second_connect(struct second *s, int i)
{
    struct transport_address address;
    struct mbx_address bytes;
    struct link *link;
    uint32_t number;

    s->transport->ops->address(s->transport, &address);
    memcpy(&bytes, &address, sizeof bytes);
    assert_int_equal(mbx_peer_add(s->others[i], &bytes, &number), 0);
    assert_int_equal(number, 0);
    assert_int_equal(mbx_address_get(s->others[i], &bytes), 0);
    memcpy(&address, &bytes, sizeof address);
    assert_int_equal(s->transport->ops->connect(s->transport, &address, &link), 0);
    assert_int_equal(peer_accept(s->cl.eps[0], link, &address, &number), 0);
    assert_int_equal(number, 2 + i);
}

static void second_open(struct second *s, const struct configuration *config)
{
    cluster_open(&s->cl, config, 2, (const char *const[]){"LOG_LEVEL=error", NULL});
    second_open_transport(s);
    for (int i = 0; i < OTHERS; i++) {
        s->others[i] = cluster_open_one(config, (const char *const[]){"DEVICE=none", NULL});
        second_connect(s, i);
    }
}

static void second_poll(struct second *s)
{
    s->transport->ops->poll(s->transport, 64);
}

static int second_progress(struct second *s)
{
    int moved = cluster_progress(&s->cl) + s->transport->ops->poll(s->transport, 64);

    for (int i = 0; i < OTHERS; i++)
        moved += mbx_progress(s->others[i]);
    return moved;
}

static void second_close(struct second *s)
{
    for (int i = 0; i < 100; i++) /* reads the last FINs */
        second_progress(s);
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(mbx_close(s->others[i]), 0);
    assert_int_equal(cluster_close_one(&s->cl, 0),
                     0); /* it may answer by the second transport */
    s->transport->ops->close(s->transport);
    cluster_close(&s->cl);
}

static void second_wait(struct second *s, struct mbx_ep *ep, mbx_request request,
                        struct mbx_completion *done)
{
    for (int idle = 0; mbx_test(ep, request, done) == 0; idle++) {
        second_progress(s);
        assert_true(idle < test_patience());
    }
    assert_int_equal(done->error, 0);
}

/* Configurations with a device that does its work in our loop, and at once. */
static bool is_stepwise(const struct configuration *config)
{
    return config_has_device(config) && !config_is_elsewhere(config) &&
           !config_has_faults(config);
}

/* ---- one message ---- */

static mbx_request send_bypassing(struct second *s, int i, uint64_t tag, unsigned seed,
                                  size_t size)
{
    mbx_request send;

    assert_int_equal(
        mbx_ssend(s->others[i], 0, CONTEXT, tag, seeded_bytes(seed, size), size, NULL, &send),
        0);
    return send;
}

/* The message is parked: it has not arrived, so a probe does not see it. */
static void test_a_parked_message_has_not_arrived(void **state)
{
    unsigned char got[SIZE], late[SIZE];
    struct mbx_completion done;
    struct mbx_status status;
    mbx_request recv, send, next;
    struct second s;

    if (!is_stepwise(*state) || config_window(*state) < 2)
        return;
    second_open(&s, *state);
    recv = post(&s.cl, MBX_ANY_SOURCE, 1, got);
    cluster_settle(&s.cl);
    send = send_bypassing(&s, 0, 1, 4, SIZE);
    next = send_bypassing(&s, 0, 2, 5, SIZE); /* follows it */
    for (int i = 0; i < 4; i++) {
        mbx_progress(s.others[0]);
        second_poll(&s);
    }
    assert_int_equal(cluster_stats(&s.cl, 0).device_parked, 2);
    assert_int_equal(cluster_stats(&s.cl, 0).unexpected_now, 0);
    assert_int_equal(cluster_stats(&s.cl, 0).posted_now, 0);
    assert_int_equal(mbx_cancel(s.cl.eps[0], recv), -EALREADY);
    assert_int_equal(mbx_test(s.others[0], send, &done), 0);
    second_wait(&s, s.cl.eps[0], recv, &done);
    assert_int_equal(done.status.source, 2);
    assert_memory_equal(got, seeded_bytes(4, SIZE), SIZE);
    second_wait(&s, s.others[0], send, &done);
    assert_int_equal(mbx_probe(s.cl.eps[0], 2, CONTEXT, 2, 0, &status), 1);
    recv = post(&s.cl, 2, 2, late);
    second_wait(&s, s.cl.eps[0], recv, &done);
    assert_memory_equal(late, seeded_bytes(5, SIZE), SIZE);
    second_wait(&s, s.others[0], next, &done);
    assert_int_equal(cluster_stats(&s.cl, 0).device_claims_won, 1);
    second_close(&s);
}

/* The device has matched the receive, and nobody has read the event. */
static void test_a_message_of_another_path_is_too_late(void **state)
{
    unsigned char got[SIZE], late[SIZE];
    struct mbx_completion done;
    mbx_request recv, send;
    struct second s;

    if (!is_stepwise(*state))
        return;
    second_open(&s, *state);
    recv = post(&s.cl, MBX_ANY_SOURCE, 1, got);
    cluster_settle(&s.cl);
    send_one(&s.cl, 1, 3);
    poll_transport(&s.cl);
    send = send_bypassing(&s, 0, 1, 4, SIZE);
    mbx_progress(s.others[0]);
    second_poll(&s);
    assert_int_equal(cluster_stats(&s.cl, 0).device_parked, 1);
    second_wait(&s, s.cl.eps[0], recv, &done);
    assert_int_equal(done.status.source, 1);
    assert_memory_equal(got, seeded_bytes(3, SIZE), SIZE);
    recv = post(&s.cl, MBX_ANY_SOURCE, 1, late);
    second_wait(&s, s.cl.eps[0], recv, &done);
    assert_memory_equal(late, seeded_bytes(4, SIZE), SIZE);
    second_wait(&s, s.others[0], send, &done);
    assert_int_equal(cluster_stats(&s.cl, 0).device_claims_lost, 1);
    second_close(&s);
}

/* A lost device does not answer any more: the receive that was asked for is ours. */
static void test_a_lost_device_answers(void **state)
{
    unsigned char got[SIZE];
    struct mbx_completion done;
    mbx_request recv, send;
    struct second s;

    if (!is_stepwise(*state))
        return;
    second_open(&s, *state);
    recv = post(&s.cl, MBX_ANY_SOURCE, 1, got);
    cluster_settle(&s.cl);
    send = send_bypassing(&s, 0, 1, 4, SIZE);
    mbx_progress(s.others[0]);
    second_poll(&s);
    assert_int_equal(cluster_stats(&s.cl, 0).device_parked, 1);
    softdev_stop(s.cl.eps[0]->offload->device);
    second_wait(&s, s.cl.eps[0], recv, &done);
    assert_memory_equal(got, seeded_bytes(4, SIZE), SIZE);
    second_wait(&s, s.others[0], send, &done);
    assert_true(s.cl.eps[0]->offload->shadow.is_lost);
    second_close(&s);
}

/* An endpoint may close with a message that is parked. */
static void test_what_is_parked_is_freed(void **state)
{
    unsigned char got[SIZE];
    struct second s;

    if (!is_stepwise(*state))
        return;
    second_open(&s, *state);
    post(&s.cl, MBX_ANY_SOURCE, 1, got);
    cluster_settle(&s.cl);
    assert_int_equal(mbx_inject(s.others[0], 0, CONTEXT, 1, seeded_bytes(3, SIZE), SIZE, 0), 0);
    for (int i = 0; i < 4; i++) {
        mbx_progress(s.others[0]);
        second_poll(&s);
    }
    assert_int_equal(cluster_stats(&s.cl, 0).device_parked, 1);
    for (int i = 0; i < OTHERS; i++) {
        int err = mbx_close(s.others[i]);

        /* the close may report that the injected message was not received */
        assert_true(err == 0 || (i == 0 && err == -ETIMEDOUT));
    }
    cluster_close_one(&s.cl, 0); /* it may answer by the second transport */
    s.transport->ops->close(s.transport);
    cluster_close(&s.cl);
}

/* ---- random traffic ---- */

#define MESSAGES 48
#define LONGEST  (80 * 1000)

struct sent {
    uint32_t source;
    uint64_t tag;
    size_t size;
    int recv; /* the receive that got it, or -1 */
};

struct posted {
    uint32_t source;
    uint64_t tag, ignore;
    mbx_request request;
    unsigned char *buf;
};

struct traffic {
    struct second second;
    struct random random;
    uint64_t seed;
    struct sent sent[MESSAGES];         /* the messages of each source are in the order of the
                                         * calls */
    struct posted posted[2 * MESSAGES]; /* in the order of the calls */
    int sent_count, posted_count;
    int stops_at; /* the step at which the device is lost; -1: never */
};

static struct mbx_ep *sender(struct traffic *t, uint32_t source)
{
    return source == 1 ? t->second.cl.eps[1] : t->second.others[source - 2];
}

static void traffic_send(struct traffic *t)
{
    static const size_t sizes[] = {0, 8, 100, 3000, 20000, LONGEST};
    int id = t->sent_count++;
    struct sent *m = &t->sent[id];
    struct mbx_options options = {.flags = MBX_SILENT, .data = (uint64_t)id};
    int (*send)(struct mbx_ep *, uint32_t, uint32_t, uint64_t, const void *, size_t,
                const struct mbx_options *, mbx_request *) =
        random_below(&t->random, 3) == 0 ? mbx_ssend : mbx_send;

    *m = (struct sent){.source = 1 + (uint32_t)random_below(&t->random, 1 + OTHERS),
                       .tag = random_below(&t->random, 2),
                       .size = sizes[random_below(&t->random, ARRAY_COUNT(sizes))],
                       .recv = -1};
    assert_int_equal(send(sender(t, m->source), 0, CONTEXT, m->tag,
                          seeded_bytes((unsigned)id, m->size), m->size, &options, NULL),
                     0);
}

static void traffic_post(struct traffic *t, bool is_any)
{
    struct posted *r = &t->posted[t->posted_count++];

    *r = (struct posted){.source = MBX_ANY_SOURCE, .ignore = UINT64_MAX};
    if (!is_any && random_below(&t->random, 2) == 0)
        r->source = 1 + (uint32_t)random_below(&t->random, 1 + OTHERS);
    if (!is_any && random_below(&t->random, 2) == 0) {
        r->tag = random_below(&t->random, 2);
        r->ignore = 0;
    }
    r->buf = malloc(LONGEST);
    assert_non_null(r->buf);
    assert_int_equal(mbx_recv(t->second.cl.eps[0], r->source, CONTEXT, r->tag, r->ignore,
                              r->buf, LONGEST, NULL, &r->request),
                     0);
}

static void traffic_step(struct traffic *t)
{
    switch (random_below(&t->random, 10)) {
    case 0:
    case 1:
        if (t->sent_count < MESSAGES)
            traffic_send(t);
        break;
    case 2:
    case 3:
        if (t->posted_count < MESSAGES)
            traffic_post(t, false);
        break;
    case 4:
        if (t->posted_count > 0)
            mbx_cancel(t->second.cl.eps[0],
                       t->posted[random_below(&t->random, (uint64_t)t->posted_count)].request);
        break;
    case 5:
        poll_transport(&t->second.cl);
        break;
    case 6:
        second_poll(&t->second);
        break;
    case 7:
        mbx_progress(t->second.cl.eps[0]);
        break;
    default:
        mbx_progress(sender(t, 1 + (uint32_t)random_below(&t->random, 1 + OTHERS)));
    }
}

/* Takes the completion of a receive. */
static int traffic_completed(struct traffic *t)
{
    struct mbx_completion done;
    int id = 0;

    if (mbx_poll(t->second.cl.eps[0], MBX_RECVS, &done, 1) == 0)
        return 0;
    while (t->posted[id].request != done.request)
        id++;
    t->posted[id].request = 0;
    if (done.error == -ECANCELED)
        return 1;
    /* only of fragments whose first packet a lost device had */
    assert_true(done.error == 0 || (done.error == -EIO && t->stops_at >= 0));
    assert_true(done.status.data < (uint64_t)t->sent_count);
    assert_int_equal(t->sent[done.status.data].recv, -1);
    assert_int_equal(t->sent[done.status.data].source, done.status.source);
    assert_int_equal(t->sent[done.status.data].size, done.status.size);
    if (done.error == 0)
        assert_memory_equal(t->posted[id].buf,
                            seeded_bytes((unsigned)done.status.data, done.status.size),
                            done.status.size);
    t->sent[done.status.data].recv = id;
    return 1;
}

static int traffic_waiting(const struct traffic *t)
{
    int waiting = 0;

    for (int i = 0; i < t->sent_count; i++)
        waiting += t->sent[i].recv < 0;
    return waiting;
}

/* Posts receives of any message, until every message is received. */
static void traffic_end(struct traffic *t)
{
    for (int idle = 0; traffic_waiting(t) > 0; idle++) {
        if (idle % 1000 == 0 && t->posted_count < 2 * MESSAGES)
            traffic_post(t, true);
        second_progress(&t->second);
        if (traffic_completed(t))
            idle = 0;
        if (idle > test_patience())
            fail_msg("seed %llu: %d messages are not received", (unsigned long long)t->seed,
                     traffic_waiting(t));
    }
}

static bool accepts(const struct posted *r, const struct sent *m)
{
    return (r->source == MBX_ANY_SOURCE || r->source == m->source) &&
           ((r->tag ^ m->tag) & ~r->ignore) == 0;
}

/* If a receive takes a message although it accepts an earlier one of the same source, the
 * earlier message must have taken an earlier receive. */
static void traffic_check(const struct traffic *t)
{
    for (int a = 0; a < t->sent_count; a++) {
        for (int b = a + 1; b < t->sent_count; b++) {
            const struct sent *first = &t->sent[a], *second = &t->sent[b];

            if (first->source == second->source && first->recv > second->recv &&
                accepts(&t->posted[second->recv], first))
                fail_msg(
                    "seed %llu: message %d of peer %u took receive %d, and %d before it %d",
                    (unsigned long long)t->seed, b, first->source, second->recv, a,
                    first->recv);
        }
    }
}

/* Cancels the receives that got no message. */
static void traffic_clear(struct traffic *t)
{
    for (int i = 0; i < t->posted_count; i++)
        if (t->posted[i].request != 0)
            mbx_cancel(t->second.cl.eps[0], t->posted[i].request);
    for (int i = 0; i < t->posted_count; i++) {
        for (int idle = 0; t->posted[i].request != 0; idle++) {
            second_progress(&t->second);
            traffic_completed(t);
            assert_true(idle < test_patience());
        }
        free(t->posted[i].buf);
    }
}

#define STEPS 600

static void traffic_run(struct traffic *t, bool has_device)
{
    t->stops_at = has_device && random_below(&t->random, 3) == 0
                      ? (int)random_below(&t->random, STEPS)
                      : -1;
    for (int i = 0; i < STEPS; i++) {
        if (i == t->stops_at)
            softdev_stop(t->second.cl.eps[0]->offload->device);
        traffic_step(t);
    }
    traffic_end(t);
    traffic_check(t);
    traffic_clear(t);
}

static void test_random_traffic_on_two_paths(void **state)
{
    uint64_t parked = 0, matched = 0, won = 0;
    static struct traffic t;

    if (config_is_network(*state))
        skip(); /* verbs opens transports of its own */
    /* a device elsewhere may be fast or slow: runs until everything has happened */
    for (uint64_t seed = 1;
         seed <= (test_is_quick() ? 4 : 30) || (config_is_elsewhere(*state) && seed <= 500 &&
                                                (parked == 0 || matched == 0 || won == 0));
         seed++) {
        struct stats stats;

        t.sent_count = t.posted_count = 0;
        t.seed = seed;
        random_seed(&t.random, seed);
        second_open(&t.second, *state);
        traffic_run(&t, config_has_device(*state));
        stats = cluster_stats(&t.second.cl, 0);
        assert_int_equal(stats.posted_now + stats.unexpected_now, 0);
        parked += stats.device_parked;
        matched += stats.device_matched;
        won += stats.device_claims_won;
        second_close(&t.second);
    }
    if (config_has_device(*state))
        assert_true(parked > 0 && matched > 0 && won > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_parked_message_has_not_arrived),
        cmocka_unit_test(test_a_message_of_another_path_is_too_late),
        cmocka_unit_test(test_a_lost_device_answers),
        cmocka_unit_test(test_what_is_parked_is_freed),
        cmocka_unit_test(test_random_traffic_on_two_paths),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
