/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_hold_test.c - unexpected messages that the device holds, and matches.
 *
 * Endpoint 0 receives, and gives unexpected messages to its device to hold.  Its statistics
 * count what happens to a held message (device_held): the device matches it
 * (device_held_matched), it is taken back (device_unheld), or it waits.
 */
#include "device.h"
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "core/core.h"
#include "device/host/offload.h"

#define CONTEXT 59
#define SENT    12
#define LARGEST 100000

static const char *const holds[] = {"DEVICE_HOLDS=yes", "LOG_LEVEL=error", NULL};

/* Messages with tags from 0 on, and their sends. */
struct hold {
    struct cluster cl;
    size_t size;
    uint64_t given; /* the first messages, which the device got */
    bool is_lost;   /* the device is lost */
    mbx_request sends[SENT];
    char got[SENT][LARGEST];
};

static const unsigned char *bytes_of(const struct hold *h, uint64_t tag)
{
    return seeded_bytes((unsigned)tag * 7, h->size);
}

static struct stats stats_of(const struct hold *h)
{
    return cluster_stats(&h->cl, 0);
}

/* Checks the counts of held messages, of those matched by the device, and of those taken
 * back. */
static void check_numbers(const struct hold *h, uint64_t matched, uint64_t unheld)
{
    struct stats stats = stats_of(h);

    assert_int_equal(stats.device_held, h->given);
    assert_int_equal(stats.device_held_matched, matched);
    assert_int_equal(stats.device_unheld, unheld);
}

static void hold_open(struct hold *h, const struct configuration *config, size_t size,
                      const char *const *more)
{
    *h = (struct hold){.size = size};
    cluster_open(&h->cl, config, 2, more);
    for (uint64_t tag = 0; tag < SENT; tag++)
        assert_int_equal(mbx_send(h->cl.eps[1], 0, CONTEXT, tag, bytes_of(h, tag), size, NULL,
                                  &h->sends[tag]),
                         0);
    cluster_settle(&h->cl);
    h->given = stats_of(h).device_held;
}

/* A device has stopped if the test lost it, and otherwise has not broken its contract. */
static void hold_close(struct hold *h)
{
    assert_int_equal(h->cl.eps[0]->offload->shadow.is_stopped, h->is_lost);
    cluster_close(&h->cl);
}

static mbx_request post(struct hold *h, uint32_t source, uint64_t tag, uint64_t ignore)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(h->cl.eps[0], source, CONTEXT, tag, ignore,
                              h->got[ignore == 0 ? tag : 0], LARGEST, NULL, &recv),
                     0);
    return recv;
}

/* Buffer number `into` receives message `tag`, and the send of this message completes. */
static void received(struct hold *h, mbx_request recv, uint64_t into, uint64_t tag)
{
    struct mbx_completion done;

    cluster_wait(&h->cl, 0, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.status.tag, tag);
    assert_int_equal(done.received, h->size);
    assert_memory_equal(h->got[into], bytes_of(h, tag), h->size);
    cluster_wait_error(&h->cl, 1, h->sends[tag], 0);
}

/* Receives the messages that the test has not received. */
static void receive_from(struct hold *h, uint64_t tag)
{
    for (; tag < SENT; tag++)
        received(h, post(h, 1, tag, 0), tag, tag);
    assert_int_equal(mbx_unexpected(h->cl.eps[0], NULL, 0), 0);
}

/* Message 0 was received without the device.  The device may still hold it, but a new message
 * like it is received instead. */
static void receive_another(struct hold *h)
{
    mbx_request recv = post(h, MBX_ANY_SOURCE, 0, 0);

    cluster_settle(&h->cl); /* the device has it */
    assert_int_equal(
        mbx_send(h->cl.eps[1], 0, CONTEXT, 0, bytes_of(h, 0), h->size, NULL, &h->sends[0]), 0);
    received(h, recv, 0, 0);
}

/* The number of messages that the device can hold. */
static uint64_t can_hold(const struct hold *h)
{
    return min_size(h->cl.eps[0]->offload->shadow.list, SENT);
}

static size_t sizes[] = {0, 8, 1000, 9000, LARGEST};

static struct hold h; /* too large for the stack */

/* The receives match the oldest message first, whatever they name.  The device gets the next
 * message as soon as it has space, if there is time. */
static void test_held_messages_are_matched_at_the_device(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct mbx_status list[SENT];
        mbx_request recvs[SENT];

        hold_open(&h, *state, sizes[i], holds);
        assert_int_equal(h.given, can_hold(&h));
        assert_int_equal(mbx_unexpected(h.cl.eps[0], list, SENT), SENT);
        for (uint64_t tag = 0; tag < SENT; tag++) {
            assert_int_equal(list[tag].tag, tag);
            recvs[tag] = tag % 3 == 0 ? post(&h, MBX_ANY_SOURCE, 0, MBX_IGNORE_ALL)
                                      : post(&h, 1, tag, 0);
            assert_int_equal(mbx_unexpected(h.cl.eps[0], NULL, 0), SENT - 1 - tag);
            if (tag % 3 == 0)
                received(&h, recvs[tag], 0, tag);
        }
        for (uint64_t tag = 0; tag < SENT; tag++)
            if (tag % 3 != 0)
                received(&h, recvs[tag], tag, tag);
        if (can_hold(&h) == SENT && !config_is_elsewhere(*state))
            check_numbers(&h, SENT, 0);
        assert_true(stats_of(&h).device_held_matched > 0);
        hold_close(&h);
    }
}

/* The receive has its message from the post on, although the device has not answered. */
static void test_a_receive_that_waits_for_the_device_has_its_message(void **state)
{
    struct mbx_status status;
    mbx_request recv;

    hold_open(&h, *state, 8, holds);
    recv = post(&h, 1, 0, 0);
    assert_int_equal(request_find(h.cl.eps[0], recv)->state, OFFLOAD_PAIRED);
    assert_int_equal(mbx_cancel(h.cl.eps[0], recv), -EALREADY);
    assert_int_equal(mbx_unexpected(h.cl.eps[0], NULL, 0), SENT - 1);
    assert_int_equal(mbx_probe(h.cl.eps[0], 1, CONTEXT, 0, 0, &status), 0);
    assert_int_equal(mbx_probe(h.cl.eps[0], 1, CONTEXT, 0, MBX_IGNORE_ALL, &status), 1);
    assert_int_equal(status.tag, 1);
    received(&h, recv, 0, 0);
    check_numbers(&h, 1, 0);
    receive_from(&h, 1);
    hold_close(&h);
}

static void test_a_matched_probe_takes_it_back(void **state)
{
    struct mbx_status status;
    mbx_message message;
    mbx_request recv;

    hold_open(&h, *state, 1000, holds);
    assert_int_equal(mbx_mprobe(h.cl.eps[0], 1, CONTEXT, 0, 0, &status, &message), 1);
    check_numbers(&h, 0, 1);
    assert_int_equal(mbx_mrecv(h.cl.eps[0], message, h.got[0], LARGEST, NULL, &recv), 0);
    received(&h, recv, 0, 0);
    check_numbers(&h, 0, 1);
    receive_another(&h);
    receive_from(&h, 1);
    hold_close(&h);
}

/* The receive is too small for the device: the message is taken back, and received at once. */
static void test_a_receive_that_stays_takes_it_back(void **state)
{
    static const char *const params[] = {"DEVICE_HOLDS=yes", "DEVICE_THRESHOLD=4K",
                                         "LOG_LEVEL=error", NULL};
    struct mbx_completion done;
    mbx_request recv;

    hold_open(&h, *state, 8, params);
    assert_int_equal(mbx_recv(h.cl.eps[0], 1, CONTEXT, 0, 0, h.got[0], 100, NULL, &recv), 0);
    assert_int_equal(mbx_test(h.cl.eps[0], recv, &done), 1);
    assert_int_equal(done.status.tag, 0);
    assert_memory_equal(h.got[0], bytes_of(&h, 0), 8);
    check_numbers(&h, 0, 1);
    receive_another(&h);
    receive_from(&h, 1);
    hold_close(&h);
}

/* When a device ends, its receives keep the messages that they have matched, whether it has
 * reported that or not.  Software gets the messages that it held. */
static void test_a_lost_device_gives_all_back(void **state)
{
    for (uint64_t posted = 1; posted < 4; posted++) {
        mbx_request recvs[4];

        hold_open(&h, *state, posted == 2 ? LARGEST : 1000, holds);
        for (uint64_t tag = 0; tag < posted; tag++)
            recvs[tag] = post(&h, 1, tag, 0);
        softdev_stop(h.cl.eps[0]->offload->device);
        h.is_lost = true;
        for (uint64_t tag = 0; tag < posted; tag++)
            received(&h, recvs[tag], tag, tag);
        receive_from(&h, posted);
        assert_true(h.cl.eps[0]->offload->shadow.is_lost);
        hold_close(&h);
    }
}

/* A device holds messages only if the parameters allow it. */
static void test_the_device_that_holds(void **state)
{
    static const struct {
        const char *params[3];
        bool holds;
    } cases[] = {
        {{"MATCH=split", "DEVICE_HOLDS=auto", NULL}, false},
        {{"MATCH=device", "DEVICE_HOLDS=auto", NULL}, true},
        {{"MATCH=device", "DEVICE_HOLDS=no", NULL}, false},
        {{"MATCH=split", "DEVICE_HOLDS=yes", NULL}, true},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        hold_open(&h, *state, 8, cases[i].params);
        assert_int_equal(h.given != 0, cases[i].holds);
        receive_from(&h, 0);
        assert_int_equal(stats_of(&h).device_held_matched != 0, cases[i].holds);
        hold_close(&h);
    }
}

/* Configurations whose window has space for all messages. */
static bool is_meant(const struct configuration *config)
{
    return config_has_soft_device(config) && config_window(config) == UINT64_MAX &&
           !config_has_faults(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest each[] = {
        cmocka_unit_test(test_held_messages_are_matched_at_the_device),
        cmocka_unit_test(test_a_receive_that_waits_for_the_device_has_its_message),
        cmocka_unit_test(test_a_matched_probe_takes_it_back),
        cmocka_unit_test(test_a_receive_that_stays_takes_it_back),
        cmocka_unit_test(test_a_lost_device_gives_all_back),
        cmocka_unit_test(test_the_device_that_holds),
    };

    return test_main_for(argc, argv, is_meant, each, ARRAY_COUNT(each));
}
