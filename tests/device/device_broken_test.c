/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_broken_test.c - a device that breaks its contract, or ends with a question open, while
 * something is under way.
 *
 * device_loss_test.c breaks devices at random moments; here each situation is brought about.
 * Endpoint 0 receives, and its device is the one that breaks; endpoint 1 sends.
 */
#include "device.h"
#include "world.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "offload/offload.h"

#define CONTEXT 61
#define OTHER   62 /* where nothing is sent */
#define SIZE    30000
#define LONG    200000
#define SHORTS  5

static const char *const params[] = {"EAGER_LIMIT=64", "RTS_PAYLOAD=0", "READ_CHUNK=4K",
                                     "LOG_LEVEL=error", NULL};

static bool is_lost(const struct world *w)
{
    return w->eps[0]->offload->shadow.is_lost;
}

/* The device, in the loop, says what is no event. */
static void lie(const struct world *w)
{
    struct agent *agent = device_of(w->eps[0])->agent;
    struct channel_event *event = ring_reserve(&agent->events, sizeof *event);

    assert_non_null(event);
    event->type = CHANNEL_EVENT;
    event->event = (struct mbx_device_event){.type = 200};
    ring_publish(&agent->events, event, sizeof *event);
}

/* The device, in the loop, does what it can, and software does not look. */
static void device_works(const struct world *w)
{
    struct mbx_ep *ep = w->eps[0];

    ep->net.transport->ops->poll(ep->net.transport, 64);
    softdev_run(ep->offload->device);
}

static mbx_request post(struct world *w, uint32_t context, void *buf, size_t size)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(w->eps[0], 1, context, 0, MBX_IGNORE_ALL, buf, size, NULL, &recv),
                     0);
    return recv;
}

static mbx_request send_to_it(struct world *w, const void *bytes, size_t size)
{
    mbx_request send;

    assert_int_equal(mbx_send(w->eps[1], 0, CONTEXT, 0, bytes, size, NULL, &send), 0);
    return send;
}

/* Can messages be read, at once, by a device in the loop? */
static bool reads_in_the_loop(const struct world *w)
{
    return device_of(w->eps[0])->driver == NULL && !world_has_faults(w->config) &&
           world_size_of(w, MBX_RNDV_READ) != 0;
}

/* ---- nonsense ---- */

/* The device has received all, and told the sender, who writes something else there: what it
 * says of that behind the nonsense counts. */
static void finish_behind_nonsense(const struct world_config *config, bool is_told_of_match)
{
    unsigned char *sent = malloc(SIZE), *got = calloc(1, SIZE);
    const unsigned char *data = world_data(7, SIZE);
    mbx_request recv, send;
    struct world w;

    world_open(&w, config, 2, params);
    if (reads_in_the_loop(&w)) {
        memcpy(sent, data, SIZE);
        recv = post(&w, CONTEXT, got, SIZE);
        world_settle(&w);
        if (!is_told_of_match)
            lie(&w);
        send = send_to_it(&w, sent, SIZE);
        while (is_told_of_match && world_stats(&w, 0).device_matched == 0)
            world_progress(&w);
        if (is_told_of_match)
            lie(&w);
        while (mbx_test(w.eps[1], send, NULL) == 0) {
            mbx_progress(w.eps[1]);
            device_works(&w);
        }
        memset(sent, 0xEE, SIZE);
        world_wait_error(&w, 0, recv, 0);
        assert_memory_equal(got, data, SIZE);
        world_settle(&w);
        assert_true(is_lost(&w));
        assert_int_equal(world_stats(&w, 0).device_matched, 1);
    }
    world_close(&w);
    free(sent);
    free(got);
}

static void test_what_was_finished_is_not_read_again(void **state)
{
    finish_behind_nonsense(*state, false);
    finish_behind_nonsense(*state, true);
}

/* Packets that it passed on, and short messages that it matched. */
static void test_packets_behind_nonsense_are_not_lost(void **state)
{
    mbx_request recvs[SHORTS], other;
    unsigned char got[SHORTS] = {0};
    struct world w;
    char byte;

    world_open(&w, *state, 2, params);
    if (device_of(w.eps[0])->driver == NULL) {
        other = post(&w, OTHER, &byte, 1);
        for (int i = 0; i < 2; i++)
            recvs[i] = post(&w, CONTEXT, &got[i], 1);
        world_settle(&w);
        lie(&w);
        for (unsigned char i = 0; i < SHORTS; i++) {
            unsigned char value = (unsigned char)(i + 1);

            while (mbx_inject(w.eps[1], 0, CONTEXT, i, &value, 1, 0) == -EAGAIN)
                device_works(&w);
        }
        for (int i = 0; i < 100; i++) {
            mbx_progress(w.eps[1]);
            device_works(&w);
        }
        world_settle(&w);
        assert_true(is_lost(&w));
        for (int i = 2; i < SHORTS; i++)
            recvs[i] = post(&w, CONTEXT, &got[i], 1);
        for (int i = 0; i < SHORTS; i++) {
            world_wait_error(&w, 0, recvs[i], 0);
            assert_int_equal(got[i], i + 1);
        }
        assert_int_equal(mbx_cancel(w.eps[0], other), 0);
        world_wait_error(&w, 0, other, -ECANCELED);
    }
    world_close(&w);
}

/* ---- refused commands ---- */

static uint64_t bytes_read(const struct world *w)
{
    const struct agent *agent = device_of(w->eps[0])->agent;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < agent->config.channel->list; i++)
        bytes += agent->moves[i].done;
    return bytes;
}

/* It refuses a command in the middle of a rendezvous: what was being read comes to its end, and
 * nothing else is begun; software does the rest. */
static void test_a_broken_device_reads_no_more(void **state)
{
    const unsigned char *data = world_data(9, LONG);
    unsigned char *got = calloc(1, LONG);
    mbx_request recv, send;
    struct mbx_device *device;
    struct world w;
    uint64_t read;

    world_open(&w, *state, 2, params);
    device = w.eps[0]->offload->device;
    if (reads_in_the_loop(&w)) {
        recv = post(&w, CONTEXT, got, LONG);
        world_settle(&w);
        send = send_to_it(&w, data, LONG);
        while (bytes_read(&w) == 0) {
            mbx_progress(w.eps[1]);
            device_works(&w);
        }
        assert_int_equal(device->ops->replenish(device, UINT32_MAX, NULL), 0);
        device_works(&w);
        device_works(&w); /* the read that was under way has been told of */
        read = bytes_read(&w);
        assert_in_range(read, 1, LONG / 2);
        for (int i = 0; i < 100; i++)
            device_works(&w);
        assert_int_equal(bytes_read(&w), read);
        world_wait_error(&w, 0, recv, 0);
        world_wait_error(&w, 1, send, 0);
        assert_memory_equal(got, data, LONG);
        assert_true(is_lost(&w));
    }
    world_close(&w);
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

static void end_device(const struct world *w)
{
    struct softdev *device = device_of(w->eps[0]);

    if (device->driver == &softdev_driver_process)
        assert_int_equal(kill(device->pid, SIGKILL), 0);
    else /* it refuses this, and ends */
        assert_int_equal(device->base.ops->replenish(&device->base, UINT32_MAX, NULL), 0);
}

/* A device elsewhere asks who it is that sends, cannot be answered, and ends. */
static void test_a_question_of_the_dead_hides_nothing(void **state)
{
    unsigned char byte = 5, got = 0;
    mbx_request recv;
    struct world w;

    world_open(&w, *state, 2, params);
    if (world_is_elsewhere(*state)) {
        device_of(w.eps[0])->config.number = nobody_knows;
        recv = post(&w, CONTEXT, &got, 1);
        assert_int_equal(mbx_inject(w.eps[1], 0, CONTEXT, 0, &byte, 1, 0), 0);
        for (int i = 0; !softdev_has_events(w.eps[0]->offload->device); i++) {
            assert_true(i < world_patience());
            mbx_progress(w.eps[1]);
            sched_yield();
        }
        for (int i = 0; i < 10; i++)
            world_progress(&w);
        assert_false(is_lost(&w));
        assert_true(softdev_has_events(w.eps[0]->offload->device));
        end_device(&w);
        world_wait_error(&w, 0, recv, 0);
        assert_true(is_lost(&w));
        assert_int_equal(got, byte);
    }
    world_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_finished_is_not_read_again),
        cmocka_unit_test(test_packets_behind_nonsense_are_not_lost),
        cmocka_unit_test(test_a_broken_device_reads_no_more),
        cmocka_unit_test(test_a_question_of_the_dead_hides_nothing),
    };

    return world_main_for(argc, argv, world_has_device, tests, ARRAY_COUNT(tests));
}
