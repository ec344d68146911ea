/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_broken_test.c - a device breaks its contract, or ends before its question is answered,
 * while requests are under way.
 *
 * device_loss_test.c breaks devices at random moments; here each situation is made on purpose.
 * The device of endpoint 0, which receives, breaks; endpoint 1 sends.
 */
#include "device.h"
#include "cluster.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "device/host/offload.h"

#define CONTEXT 61
#define OTHER   62 /* a context id to which nothing is sent */
#define SIZE    30000
#define LONG    200000
#define SHORTS  5

static const char *const params[] = {"EAGER_LIMIT=64", "RTS_PAYLOAD=0", "READ_CHUNK=4K",
                                     "LOG_LEVEL=error", NULL};

static bool is_lost(const struct cluster *cl)
{
    return cl->eps[0]->offload->shadow.is_lost;
}

/* The device, in the loop, posts an invalid event. */
static void break_contract(const struct cluster *cl)
{
    struct agent *agent = device_of(cl->eps[0])->agent;
    struct channel_event *event = ring_reserve(&agent->events, sizeof *event);

    assert_non_null(event);
    event->type = CHANNEL_EVENT;
    event->event = (struct mbx_device_event){.type = 200};
    ring_publish(&agent->events, event, sizeof *event);
}

/* The device, in the loop, does all its work, and software reads no event. */
static void device_works(const struct cluster *cl)
{
    struct mbx_ep *ep = cl->eps[0];

    ep->net.transport->ops->poll(ep->net.transport, 64);
    softdev_run(ep->offload->device);
}

static mbx_request post(struct cluster *cl, uint32_t context, void *buf, size_t size)
{
    mbx_request recv;

    assert_int_equal(
        mbx_recv(cl->eps[0], 1, context, 0, MBX_IGNORE_ALL, buf, size, NULL, &recv), 0);
    return recv;
}

static mbx_request send_to_it(struct cluster *cl, const void *bytes, size_t size)
{
    mbx_request send;

    assert_int_equal(mbx_send(cl->eps[1], 0, CONTEXT, 0, bytes, size, NULL, &send), 0);
    return send;
}

/* Can a device in the loop read messages at once? */
static bool reads_in_the_loop(const struct cluster *cl)
{
    return device_of(cl->eps[0])->driver == NULL && !config_has_faults(cl->config) &&
           cluster_size_of(cl, MBX_RNDV_READ) != 0;
}

/* ---- invalid events ---- */

/* The device has received the whole message and sent the FIN, so the sender overwrites its
 * buffer.  The event for the message follows the invalid event, and still counts. */
static void finish_behind_nonsense(const struct configuration *config, bool is_told_of_match)
{
    unsigned char *sent = malloc(SIZE), *got = calloc(1, SIZE);
    const unsigned char *data = seeded_bytes(7, SIZE);
    mbx_request recv, send;
    struct cluster cl;

    cluster_open(&cl, config, 2, params);
    if (reads_in_the_loop(&cl)) {
        memcpy(sent, data, SIZE);
        recv = post(&cl, CONTEXT, got, SIZE);
        cluster_settle(&cl);
        if (!is_told_of_match)
            break_contract(&cl);
        send = send_to_it(&cl, sent, SIZE);
        while (is_told_of_match && cluster_stats(&cl, 0).device_matched == 0)
            cluster_progress(&cl);
        if (is_told_of_match)
            break_contract(&cl);
        while (mbx_test(cl.eps[1], send, NULL) == 0) {
            mbx_progress(cl.eps[1]);
            device_works(&cl);
        }
        memset(sent, 0xEE, SIZE);
        cluster_wait_error(&cl, 0, recv, 0);
        assert_memory_equal(got, data, SIZE);
        cluster_settle(&cl);
        assert_true(is_lost(&cl));
        assert_int_equal(cluster_stats(&cl, 0).device_matched, 1);
    }
    cluster_close(&cl);
    free(sent);
    free(got);
}

static void test_what_was_finished_is_not_read_again(void **state)
{
    finish_behind_nonsense(*state, false);
    finish_behind_nonsense(*state, true);
}

/* Packets that the device passes on after the invalid event, and short messages that it
 * matches, are not lost. */
static void test_packets_after_nonsense_are_not_lost(void **state)
{
    mbx_request recvs[SHORTS], other;
    unsigned char got[SHORTS] = {0};
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, params);
    if (device_of(cl.eps[0])->driver == NULL) {
        other = post(&cl, OTHER, &byte, 1);
        for (int i = 0; i < 2; i++)
            recvs[i] = post(&cl, CONTEXT, &got[i], 1);
        cluster_settle(&cl);
        break_contract(&cl);
        for (unsigned char i = 0; i < SHORTS; i++) {
            unsigned char value = (unsigned char)(i + 1);

            while (mbx_inject(cl.eps[1], 0, CONTEXT, i, &value, 1, 0) == -EAGAIN)
                device_works(&cl);
        }
        for (int i = 0; i < 100; i++) {
            mbx_progress(cl.eps[1]);
            device_works(&cl);
        }
        cluster_settle(&cl);
        assert_true(is_lost(&cl));
        for (int i = 2; i < SHORTS; i++)
            recvs[i] = post(&cl, CONTEXT, &got[i], 1);
        for (int i = 0; i < SHORTS; i++) {
            cluster_wait_error(&cl, 0, recvs[i], 0);
            assert_int_equal(got[i], i + 1);
        }
        assert_int_equal(mbx_cancel(cl.eps[0], other), 0);
        cluster_wait_error(&cl, 0, other, -ECANCELED);
    }
    cluster_close(&cl);
}

/* ---- refused commands ---- */

static uint64_t bytes_read(const struct cluster *cl)
{
    const struct agent *agent = device_of(cl->eps[0])->agent;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < agent->config.channel->list; i++)
        bytes += agent->moves[i].done;
    return bytes;
}

/* The device refuses a command in the middle of a rendezvous.  The read that is under way
 * completes, no other begins, and software reads the rest. */
static void test_a_broken_device_reads_no_more(void **state)
{
    const unsigned char *data = seeded_bytes(9, LONG);
    unsigned char *got = calloc(1, LONG);
    mbx_request recv, send;
    struct mbx_device *device;
    struct cluster cl;
    uint64_t read;

    cluster_open(&cl, *state, 2, params);
    device = cl.eps[0]->offload->device;
    if (reads_in_the_loop(&cl)) {
        recv = post(&cl, CONTEXT, got, LONG);
        cluster_settle(&cl);
        send = send_to_it(&cl, data, LONG);
        while (bytes_read(&cl) == 0) {
            mbx_progress(cl.eps[1]);
            device_works(&cl);
        }
        assert_int_equal(device->ops->replenish(device, UINT32_MAX, NULL), 0);
        device_works(&cl);
        device_works(&cl); /* reports the read that was under way */
        read = bytes_read(&cl);
        assert_in_range(read, 1, LONG / 2);
        for (int i = 0; i < 100; i++)
            device_works(&cl);
        assert_int_equal(bytes_read(&cl), read);
        cluster_wait_error(&cl, 0, recv, 0);
        cluster_wait_error(&cl, 1, send, 0);
        assert_memory_equal(got, data, LONG);
        assert_true(is_lost(&cl));
    }
    cluster_close(&cl);
    free(got);
}

/* ---- questions ---- */

static int nobody_knows(void *arg, const struct transport_address *address, uint32_t *peer)
{
    (void)arg;
    (void)address;
    (void)peer;
    return -ENOMEM;
}

static void end_device(const struct cluster *cl)
{
    struct softdev *device = device_of(cl->eps[0]);

    if (device->driver == &softdev_driver_process)
        assert_int_equal(kill(device->pid, SIGKILL), 0);
    else /* the device refuses the command, and ends */
        assert_int_equal(device->base.ops->replenish(&device->base, UINT32_MAX, NULL), 0);
}

/* A device elsewhere asks who the sender is, gets no answer, and ends. */
static void test_a_question_of_the_dead_hides_nothing(void **state)
{
    unsigned char byte = 5, got = 0;
    mbx_request recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    if (config_is_elsewhere(*state)) {
        device_of(cl.eps[0])->config.number = nobody_knows;
        recv = post(&cl, CONTEXT, &got, 1);
        assert_int_equal(mbx_inject(cl.eps[1], 0, CONTEXT, 0, &byte, 1, 0), 0);
        for (int i = 0; !softdev_has_events(cl.eps[0]->offload->device); i++) {
            assert_true(i < test_patience());
            mbx_progress(cl.eps[1]);
            sched_yield();
        }
        for (int i = 0; i < 10; i++)
            cluster_progress(&cl);
        assert_false(is_lost(&cl));
        assert_true(softdev_has_events(cl.eps[0]->offload->device));
        end_device(&cl);
        cluster_wait_error(&cl, 0, recv, 0);
        assert_true(is_lost(&cl));
        assert_int_equal(got, byte);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_finished_is_not_read_again),
        cmocka_unit_test(test_packets_after_nonsense_are_not_lost),
        cmocka_unit_test(test_a_broken_device_reads_no_more),
        cmocka_unit_test(test_a_question_of_the_dead_hides_nothing),
    };

    return test_main_for(argc, argv, config_has_soft_device, tests, ARRAY_COUNT(tests));
}
