/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count_test.c - two endpoints of the library over a transport that counts.
 */
#include <matchbox/matchbox.h>
#include <string.h>

#include "base/unit.h"
#include "testing/count/count.h"

#define MESSAGES 100
#define LONG     100000

struct pair {
    struct mbx_ep *eps[2];
    uint32_t to; /* the second endpoint's peer number at the first */
};

static void pair_open(struct pair *p)
{
    static const char *const params[] = {"TRANSPORT=count", NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_address address;

    for (int i = 0; i < 2; i++)
        assert_int_equal(mbx_open(&config, &p->eps[i]), 0);
    assert_int_equal(mbx_address_get(p->eps[1], &address), 0);
    assert_int_equal(mbx_peer_add(p->eps[0], &address, &p->to), 0);
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(mbx_close(p->eps[i]), 0);
}

static const struct count_totals *totals(const struct pair *p, int who)
{
    struct transport_address address;
    struct mbx_address bytes;

    assert_int_equal(mbx_address_get(p->eps[who], &bytes), 0);
    memcpy(&address, &bytes, sizeof address);
    return count_totals(&address);
}

/* Both make progress until nothing is in flight. */
static void settle(struct pair *p)
{
    for (int quiet = 0; quiet < 3; quiet++)
        for (int i = 0; i < 2; i++)
            if (mbx_progress(p->eps[i]) > 0)
                quiet = 0;
}

static void exchange(struct pair *p, size_t size)
{
    static unsigned char out[LONG], in[LONG];
    struct mbx_completion done;
    mbx_request send, recv;

    memset(out, (int)size, size);
    memset(in, 0, size);
    assert_int_equal(mbx_recv(p->eps[1], MBX_ANY_SOURCE, 0, size, 0, in, size, NULL, &recv), 0);
    assert_int_equal(mbx_send(p->eps[0], p->to, 0, size, out, size, NULL, &send), 0);
    settle(p);
    assert_int_equal(mbx_test(p->eps[1], recv, &done), 1);
    assert_int_equal(done.received, size);
    assert_int_equal(mbx_test(p->eps[0], send, &done), 1);
    assert_memory_equal(in, out, size);
}

/* A short message is one packet: its header and its payload. */
static void one_message_is_one_packet(UNUSED void **state)
{
    struct pair p;

    pair_open(&p);
    exchange(&p, 8);
    assert_int_equal(totals(&p, 0)->sent, 1);
    assert_int_equal(totals(&p, 0)->sent_bytes, sizeof(struct wire_header) + 8);
    assert_int_equal(totals(&p, 1)->delivered_bytes, totals(&p, 0)->sent_bytes);
    pair_close(&p);
}

/* The transport has no memory.h, so a long message comes in packets; all sent packets
 * arrive. */
static void what_is_sent_is_delivered(UNUSED void **state)
{
    struct pair p;

    pair_open(&p);
    for (int i = 0; i < MESSAGES; i++)
        exchange(&p, i % 10 == 0 ? LONG : 50 * (size_t)i);
    assert_in_range(totals(&p, 0)->sent, MESSAGES, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(totals(&p, i)->sent, totals(&p, !i)->delivered);
        assert_int_equal(totals(&p, i)->sent_bytes, totals(&p, !i)->delivered_bytes);
    }
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_message_is_one_packet),
        cmocka_unit_test(what_is_sent_is_delivered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
