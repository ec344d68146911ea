/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_later_test.c - a device that knows the envelope of a message before its size.
 *
 *   shadow <── MATCHED, SIZE_LATER <── filter <── MATCHED <── a device in software
 *          <── DATA_VALID, size    <──        <── DATA_VALID
 *
 * Adapters do so (MBX_DEVICE_SIZE_LATER); the devices in software know everything at once.  A
 * filter between them and the shadow changes their events into an adapter's: a match has no
 * size, and a match of a rendezvous has only its envelope; the rest comes with DATA_VALID or
 * INCOMPLETE.  The filter also splits every second match that has the whole message into two
 * events.
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

#define CONTEXT 53
#define LARGEST 100000
#define ROUNDS  40
#define AT_ONCE 12

struct filter {
    struct mbx_device base;
    struct mbx_device *inner;
    struct mbx_device_event *matches;    /* by handle: the MATCHED event */
    struct mbx_device_event second_half; /* type 0: none */
    uint64_t whole, later;               /* whole matches; messages in two events */
};

static struct filter *filter_of(const struct mbx_device *device)
{
    return container_of((struct mbx_device *)(uintptr_t)device, struct filter, base);
}

/* ---- events ---- */

static void hide(struct filter *filter, struct mbx_device_event *event)
{
    filter->matches[event->handle] = *event;
    filter->later++;
    event->flags |= MBX_DEVICE_SIZE_LATER;
    event->size = event->done = 0;
    event->sender = event->address = event->key = 0;
    if (event->flags & MBX_DEVICE_BY_RNDV)
        event->data = 0;
}

static void reveal(const struct filter *filter, struct mbx_device_event *event)
{
    const struct mbx_device_event *match = &filter->matches[event->handle];

    event->size = match->size;
    event->data = match->data;
    event->sender = match->sender;
    event->address = match->address;
    event->key = match->key;
}

/* Splits a match with the whole message into two events. */
static void split(struct filter *filter, struct mbx_device_event *event)
{
    filter->second_half = (struct mbx_device_event){
        .type = MBX_DEVICE_DATA_VALID, .handle = event->handle, .done = event->done};
    event->flags &= (uint8_t)~MBX_DEVICE_WHOLE;
    hide(filter, event);
    reveal(filter, &filter->second_half);
}

static int filter_poll(struct mbx_device *device, struct mbx_device_event *event, int count)
{
    struct filter *filter = filter_of(device);
    int n;

    assert_int_equal(count, 1);
    if (filter->second_half.type != 0) {
        *event = filter->second_half;
        filter->second_half.type = 0;
        return 1;
    }
    n = filter->inner->ops->poll(filter->inner, event, 1);
    if (n == 0)
        return 0;
    if (event->type == MBX_DEVICE_MATCHED && !(event->flags & MBX_DEVICE_WHOLE))
        hide(filter, event);
    else if (event->type == MBX_DEVICE_MATCHED && filter->whole++ % 2 != 0)
        split(filter, event);
    else if (event->type == MBX_DEVICE_DATA_VALID || event->type == MBX_DEVICE_INCOMPLETE)
        reveal(filter, event);
    return n;
}

/* ---- commands ---- */

static int filter_replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct mbx_device *inner = filter_of(device)->inner;

    return inner->ops->replenish(inner, buffer, memory);
}

static int filter_append(struct mbx_device *device, const struct mbx_device_recv *recv,
                         uint16_t handled)
{
    struct mbx_device *inner = filter_of(device)->inner;

    return inner->ops->append(inner, recv, handled);
}

static int filter_revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    struct mbx_device *inner = filter_of(device)->inner;

    return inner->ops->revoke(inner, handle, handled);
}

static int filter_sync(struct mbx_device *device, uint16_t handled)
{
    struct mbx_device *inner = filter_of(device)->inner;

    return inner->ops->sync(inner, handled);
}

static const struct mbx_device_ops filter_ops = {
    .name = "later",
    .about = "tells sizes later",
    .replenish = filter_replenish,
    .append = filter_append,
    .revoke = filter_revoke,
    .sync = filter_sync,
    .poll = filter_poll,
};

/* ---- a cluster of two: 0 receives, through a filter ---- */

struct later {
    struct cluster cl;
    struct filter filter;
};

static void later_open(struct later *l, const struct configuration *config)
{
    static const char *const params[] = {"CLOSE_TIMEOUT=0", "DEVICE_HOLDS=no",
                                         "LOG_LEVEL=error", NULL};
    struct shadow *shadow;

    *l = (struct later){.filter = {.base = {.ops = &filter_ops}}};
    cluster_open(&l->cl, config, 2, params);
    assert_int_equal(peer_use(l->cl.eps[0], 1), 0); /* as if the device had seen the peer */
    shadow = &l->cl.eps[0]->offload->shadow;
    l->filter.matches = calloc(shadow->list, sizeof *l->filter.matches);
    l->filter.inner = shadow->device;
    shadow->device = &l->filter.base;
}

static void later_close(struct later *l)
{
    l->cl.eps[0]->offload->shadow.device = l->filter.inner;
    cluster_close(&l->cl);
    free(l->filter.matches);
}

static mbx_request post(struct later *l, void *buf, size_t size)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(l->cl.eps[0], MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, buf,
                              size, NULL, &recv),
                     0);
    return recv;
}

static mbx_request send_one(struct later *l, bool is_sync, uint64_t tag, const void *bytes,
                            size_t size, uint64_t data)
{
    const struct mbx_options options = {.data = data};
    mbx_request send;

    assert_int_equal((is_sync ? mbx_ssend : mbx_send)(l->cl.eps[1], 0, CONTEXT, tag, bytes,
                                                      size, &options, &send),
                     0);
    return send;
}

static void check(const struct mbx_completion *done, const struct guarded_buffer *buffer,
                  uint64_t tag, const void *bytes, size_t size, uint64_t data)
{
    size_t fits = min_size(size, buffer->size);

    assert_int_equal(done->error, fits < size ? -EMSGSIZE : 0);
    assert_int_equal(done->received, fits);
    assert_int_equal(done->status.size, size);
    assert_int_equal(done->status.data, data);
    assert_int_equal(done->status.tag, tag);
    assert_int_equal(done->status.source, 1);
    assert_int_equal(done->status.context_id, CONTEXT);
    assert_memory_equal(buffer->bytes, bytes, fits);
}

/* Nothing is under way: the sender's credit, together with the credit that the receiver has
 * freed and not returned, is the whole window. */
static void expect_all_credit(struct later *l)
{
    const struct credit *sender, *receiver;

    cluster_settle(&l->cl);
    sender = peer_credit(l->cl.eps[1]->peers.all[0]);
    receiver = peer_credit(l->cl.eps[0]->peers.all[1]);
    if (receiver->window < CREDIT_UNLIMITED)
        assert_int_equal(sender->envelopes + receiver->freed_envelopes, receiver->window);
    if (receiver->window_payload < CREDIT_UNLIMITED)
        assert_int_equal(sender->payload + receiver->freed_payload, receiver->window_payload);
}

/* Sends messages of every size into buffers that are too short, exact, and longer. */
static void test_every_size(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 100, 3000, 5000, 16384, 16385, 40000, LARGEST};
    uint64_t truncated = 0, expected_later = 0;
    struct later l;

    later_open(&l, *state);
    for (size_t i = 0; i < 6 * ARRAY_COUNT(sizes); i++) {
        const size_t size = sizes[i / 6], cut = size - size / 3;
        const unsigned char *bytes = seeded_bytes((unsigned)i * 8, size);
        struct guarded_buffer buffer;
        struct mbx_completion done;
        mbx_request recv, send;

        guarded_buffer_init(&buffer, i % 3 == 0 ? cut : size + (i % 3 - 1) * 100, 0);
        recv = post(&l, buffer.bytes, buffer.size);
        cluster_settle(&l.cl);
        send = send_one(&l, i % 2, i, bytes, size, UINT64_MAX - i);
        cluster_wait(&l.cl, 0, recv, &done);
        cluster_wait_error(&l.cl, 1, send, 0);
        check(&done, &buffer, i, bytes, size, UINT64_MAX - i);
        truncated += buffer.size < size;
        expected_later++;
        guarded_buffer_fini(&buffer, min_size(size, buffer.size));
    }
    assert_int_equal(cluster_stats(&l.cl, 0).truncated, truncated);
    assert_int_equal(cluster_stats(&l.cl, 0).device_matched, expected_later);
    assert_true(l.filter.later > 0);
    expect_all_credit(&l);
    later_close(&l);
}

/* Several messages are under way at a time: they match in the order of posting. */
static void test_many_at_once(void **state)
{
    struct random random;
    struct later l;

    random_seed(&random, 1);
    later_open(&l, *state);
    for (int round = 0; round < (test_is_quick() ? ROUNDS / 4 : ROUNDS); round++) {
        struct guarded_buffer buffers[AT_ONCE];
        mbx_request recvs[AT_ONCE], sends[AT_ONCE];
        size_t sizes[AT_ONCE];

        for (int i = 0; i < AT_ONCE; i++) {
            sizes[i] = random_below(&random, random_below(&random, 2) ? 200 : LARGEST);
            guarded_buffer_init(&buffers[i],
                                random_below(&random, 4) ? LARGEST : (sizes[i] + 1) / 2, 0);
            recvs[i] = post(&l, buffers[i].bytes, buffers[i].size);
        }
        if (round % 2 == 0)
            cluster_settle(&l.cl); /* the device has the receives */
        for (int i = 0; i < AT_ONCE; i++)
            sends[i] = send_one(&l, random_below(&random, 3) == 0, (uint64_t)i,
                                seeded_bytes((unsigned)i * 8, sizes[i]), sizes[i], (uint64_t)i);
        for (int i = 0; i < AT_ONCE; i++) {
            struct mbx_completion done;

            cluster_wait(&l.cl, 0, recvs[i], &done);
            cluster_wait_error(&l.cl, 1, sends[i], 0);
            check(&done, &buffers[i], (uint64_t)i, seeded_bytes((unsigned)i * 8, sizes[i]),
                  sizes[i], (uint64_t)i);
            guarded_buffer_fini(&buffers[i], min_size(sizes[i], buffers[i].size));
        }
    }
    assert_true(l.filter.later > 0);
    expect_all_credit(&l);
    later_close(&l);
}

/* The device ends between the two events: nobody will ever know how long the message was. */
static void test_a_loss_in_between(void **state)
{
    unsigned char *got = calloc(1, LARGEST);
    struct mbx_completion done;
    struct mbx_device_event event = {0};
    struct later l;
    mbx_request recv;
    struct shadow *shadow;

    later_open(&l, *state);
    shadow = &l.cl.eps[0]->offload->shadow;
    recv = post(&l, got, LARGEST);
    cluster_settle(&l.cl);
    event = (struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                      .flags = MBX_DEVICE_SIZE_LATER | MBX_DEVICE_BY_RNDV |
                                               MBX_DEVICE_WANTS_FIN,
                                      .envelope = {CONTEXT, 1, 3}};
    l.filter.second_half = event;
    cluster_settle(&l.cl);
    assert_int_equal(mbx_test(l.cl.eps[0], recv, &done), 0);
    softdev_stop(l.filter.inner);
    cluster_wait(&l.cl, 0, recv, &done);
    assert_true(shadow->is_lost);
    assert_int_equal(done.error, -EIO);
    assert_int_equal(done.received, 0);
    assert_int_equal(done.status.tag, 3);
    assert_int_equal(cluster_stats(&l.cl, 0).requests_now, 0);
    later_close(&l);
    free(got);
}

/* The sender's announcement of its message is invalid. */
static void test_an_announcement_that_makes_no_sense(void **state)
{
    struct mbx_completion done;
    struct later l;
    mbx_request recv;
    char byte;

    later_open(&l, *state);
    recv = post(&l, &byte, 1);
    cluster_settle(&l.cl);
    l.filter.second_half = (struct mbx_device_event){
        .type = MBX_DEVICE_MATCHED,
        .flags = MBX_DEVICE_SIZE_LATER | MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN,
        .envelope = {CONTEXT, 1, 3}};
    cluster_settle(&l.cl);
    l.filter.second_half =
        (struct mbx_device_event){.type = MBX_DEVICE_INCOMPLETE, .error = -EPROTO};
    cluster_wait(&l.cl, 0, recv, &done);
    assert_int_equal(done.error, -EPROTO);
    assert_int_equal(done.received, 0);
    softdev_stop(l.filter.inner); /* the device still has this receive */
    cluster_settle(&l.cl);
    assert_int_equal(cluster_stats(&l.cl, 0).requests_now, 0);
    later_close(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_a_loss_in_between),
        cmocka_unit_test(test_an_announcement_that_makes_no_sense),
    };

    return test_main_for(argc, argv, config_has_soft_device, tests, ARRAY_COUNT(tests));
}
