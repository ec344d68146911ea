/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes_test.c - whatever the length and the alignment, the receiver gets the bytes that were
 * sent, and no byte outside its buffer changes.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "hosts.h"

enum how { SEND, SSEND, INJECT, HOWS };

/* Sizes up to this one are tested in every way. */
static size_t small_max(void)
{
    return (size_t)(test_is_quick() ? 128 : 1024) << 10;
}

static size_t largest(void)
{
    return (size_t)(test_is_quick() ? 4 : 64) << 20;
}

/* Starts the message; *request is 0 if there will be no completion. */
static void start(struct mbx_ep *ep, enum how how, uint32_t peer, const void *data, size_t size,
                  mbx_request *request)
{
    *request = 0;
    switch (how) {
    case SEND:
        assert_int_equal(mbx_send(ep, peer, 7, size, data, size, NULL, request), 0);
        break;
    case SSEND:
        assert_int_equal(mbx_ssend(ep, peer, 7, size, data, size, NULL, request), 0);
        break;
    case INJECT: {
        void *copy = malloc(size + 1);

        memcpy(copy, data, size);
        assert_int_equal(mbx_inject(ep, peer, 7, size, copy, size, 0), 0);
        memset(copy, 0, size);
        free(copy);
        break;
    }
    case HOWS:
        break;
    }
}

struct sample {
    enum how how;
    uint32_t peer;
    size_t size;
    unsigned from_align, to_align;
    bool is_unexpected;
};

static void transfer(struct cluster *cl, const struct sample *m)
{
    const unsigned char *data =
        seeded_bytes((unsigned)(m->size % 64) * 64 + m->from_align, m->size);
    mbx_request send = 0, recv = 0;
    struct mbx_completion done;
    struct guarded_buffer to;
    int who = (int)m->peer;

    guarded_buffer_init(&to, m->size, m->to_align);
    if (m->is_unexpected) {
        start(cl->eps[0], m->how, m->peer, data, m->size, &send);
        cluster_settle(cl);
    }
    assert_int_equal(mbx_recv(cl->eps[who], 0, 7, m->size, 0, to.bytes, m->size, NULL, &recv),
                     0);
    if (!m->is_unexpected)
        start(cl->eps[0], m->how, m->peer, data, m->size, &send);
    cluster_wait(cl, who, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.received, m->size);
    assert_int_equal(done.status.size, m->size);
    if (send != 0)
        cluster_wait_error(cl, 0, send, 0);
    if (memcmp(to.bytes, data, m->size) != 0)
        fail_msg("%zu bytes from alignment %u to %u arrive changed", m->size, m->from_align,
                 m->to_align);
    guarded_buffer_fini(&to, m->size);
}

/* Moves a message of this size in every way that it can travel. */
static void transfer_size(struct cluster *cl, uint32_t peer, size_t size)
{
    struct mbx_limits limits;
    struct sample m = {.peer = peer, .size = size};

    mbx_limits_get(cl->eps[0], &limits, sizeof limits);
    if (size > small_max()) {
        m.is_unexpected = size % 2 == 1;
        m.how = size % 4 == 0 ? SSEND : SEND;
        transfer(cl, &m);
        return;
    }
    for (int how = 0; how < HOWS; how++) {
        if (how == INJECT && size > limits.inject)
            continue;
        m.how = (enum how)how;
        for (int late = 0; late < 2; late++) {
            m.is_unexpected = late;
            transfer(cl, &m);
        }
    }
}

static void around(struct cluster *cl, uint32_t peer, size_t size)
{
    for (int d = -1; d <= 1; d++)
        if ((size > 0 || d >= 0) && size + (size_t)d <= largest())
            transfer_size(cl, peer, size + (size_t)d);
}

static void test_thresholds(void **state)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    struct mbx_limits limits;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    for (uint32_t peer = 0; peer < 2; peer++) {
        int count = cluster_protocols(cl.eps[0], peer, rows);

        assert_true(count >= 2);
        assert_int_equal(rows[count - 1].max_size, limits.message);
        for (int i = 0; i < count - 1; i++)
            around(&cl, peer, rows[i].max_size);
        around(&cl, peer, limits.inject);
    }
    cluster_close(&cl);
}

static void test_powers_of_two(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t size = 1; size <= largest(); size *= 2)
        around(&cl, 1, size);
    for (size_t size = 1; size <= small_max(); size *= 4)
        around(&cl, 0, size);
    cluster_close(&cl);
}

static void test_every_small_size(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t size = 0; size <= (test_is_quick() ? 300 : 1200); size++)
        transfer(&cl,
                 &(struct sample){
                     .how = SEND, .peer = 1, .size = size, .is_unexpected = size % 7 != 0});
    cluster_close(&cl);
}

static void test_alignments(void **state)
{
    static const size_t sizes[] = {1, 7, 8, 31, 64, 65, 200, 1000, 5000, 9000, 20000};
    unsigned step = test_is_quick() || config_is_elsewhere(*state) ? 61 : 1;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        for (unsigned both = 0; both < 64 * 64; both += step)
            transfer(&cl, &(struct sample){.how = SEND,
                                           .peer = 1,
                                           .size = sizes[i],
                                           .from_align = both % 64,
                                           .to_align = both / 64,
                                           .is_unexpected = both % 3 == 0});
    cluster_close(&cl);
}

/* ---- how a message is cut into packets ---- */

#define CUTS_MAX 8

static struct transport_ops counted;
static int (*inner_send)(struct link *link, const struct transport_packet *packet);
static size_t cuts[CUTS_MAX];
static unsigned cut_count;

static int count_send(struct link *link, const struct transport_packet *packet)
{
    int err = inner_send(link, packet);
    bool is_cut = packet->header->type == WIRE_FIRST || packet->header->type == WIRE_MORE;

    if (err == 0 && is_cut && cut_count < CUTS_MAX)
        cuts[cut_count++] = packet->payload_size;
    return err;
}

/* All packets but the last two are full, and these two differ by less than two cache lines. */
static void check_cuts(const struct mbx_ep *ep, size_t size)
{
    size_t capacity = ep->net.transport->limits.packet_max - sizeof(struct wire_header) - 64;
    size_t sum = 0;

    assert_in_range(cut_count, 2, CUTS_MAX - 1);
    for (unsigned i = 0; i < cut_count; i++) {
        sum += cuts[i];
        if (i + 2 < cut_count)
            assert_true(cuts[i] >= capacity);
    }
    assert_int_equal(sum, size);
    assert_true(cuts[cut_count - 2] >= cuts[cut_count - 1]);
    assert_true(cuts[cut_count - 2] - cuts[cut_count - 1] < (size_t)2 * CACHE_LINE);
}

/* A packet that is nearly empty costs as much as a packet that is half full, and with two
 * halves the receiver could already have copied the first. */
static void test_the_last_two_packets_are_alike(void **state)
{
    const struct configuration *config = *state;
    struct cluster cl;
    const struct transport_ops *ops;
    size_t packet;

    if (strcmp(config->name, "loop") != 0 && strcmp(config->name, "shm") != 0 &&
        strcmp(config->name, "ofi") != 0)
        skip();
    cluster_open(&cl, config, 2,
                 (const char *[]){"EAGER_LIMIT=1M", "WINDOW_PAYLOAD=unlimited", NULL});
    if (hosts_is_placed(cl.eps[0]->net.transport)) {
        cluster_close(&cl);
        skip();
    }
    ops = cl.eps[0]->net.transport->ops;
    packet = cl.eps[0]->net.transport->limits.packet_max;
    counted = *ops;
    inner_send = ops->send;
    counted.send = count_send;
    counted.send_eager = NULL; /* sends by send() instead */
    counted.bounce = NULL;     /* everything travels in packets */
    cl.eps[0]->net.transport->ops = &counted;
    for (size_t eighths = 8; eighths <= 32; eighths++) {
        size_t size = packet * eighths / 8;

        cut_count = 0;
        transfer(&cl, &(struct sample){.how = SEND, .peer = 1, .size = size});
        check_cuts(cl.eps[0], size);
    }
    cl.eps[0]->net.transport->ops = ops;
    cluster_close(&cl);
}

/* A message longer than the limit is refused. */
static void test_too_long(void **state)
{
    struct mbx_limits limits;
    struct cluster cl;
    char byte = 0;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    assert_int_equal(mbx_send(cl.eps[0], 1, 7, 0, &byte, limits.message + 1, NULL, NULL),
                     -EINVAL);
    assert_int_equal(mbx_inject(cl.eps[0], 1, 7, 0, &byte, limits.inject + 1, 0), -EMSGSIZE);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_every_small_size),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_the_last_two_packets_are_alike),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
