/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected_test.c - the list of unexpected messages, and the calls for messages that come and
 * go, say the same, at every moment.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "p2p/p2p.h"

#define FIRST_CONTEXT 61 /* and the next context id */
#define MOST          256
#define STAY          17 /* one more than the longest queue that is walked */

/* The unexpected messages that the callback reported, in order of arrival. */
struct model {
    struct mbx_ep *ep;
    struct mbx_status queue[MOST];
    int count, came, went;
};

static bool is_same(const struct mbx_status *a, const struct mbx_status *b)
{
    return a->context_id == b->context_id && a->source == b->source && a->tag == b->tag &&
           a->data == b->data && a->size == b->size;
}

/* The list has the messages of the model: first all of one context id, then all of the
 * other. */
static void check_list(const struct model *model)
{
    struct mbx_status list[MOST];
    int count = mbx_unexpected(model->ep, list, MOST), at = 0;
    uint64_t now;

    assert_int_equal(count, model->count);
    assert_int_equal(mbx_unexpected(model->ep, NULL, 0), count);
    assert_int_equal(mbx_stat_read(model->ep, "unexpected_now", &now), 0);
    assert_int_equal(now, count);
    for (uint32_t context = FIRST_CONTEXT; context < FIRST_CONTEXT + 2; context++)
        for (int i = 0; i < model->count; i++)
            if (model->queue[i].context_id == context)
                assert_true(is_same(&list[at++], &model->queue[i]));
    assert_int_equal(at, count);
}

static void watch(void *user, int has_come, const struct mbx_status *message)
{
    struct model *model = user;
    int i = 0;

    if (has_come) {
        assert_true(model->count < MOST);
        model->queue[model->count++] = *message;
        model->came++;
    } else {
        while (i < model->count && !is_same(&model->queue[i], message))
            i++;
        assert_true(i < model->count);
        model->count--;
        model->went++;
        memmove(&model->queue[i], &model->queue[i + 1],
                (size_t)(model->count - i) * sizeof model->queue[0]);
    }
    check_list(model);
}

static void send_one(struct cluster *cl, struct random *random)
{
    static const size_t sizes[] = {0, 8, 100, 5000, 300000};
    static char bytes[300000];
    const struct mbx_options silent = {.flags = MBX_SILENT, .data = random_below(random, 100)};

    assert_int_equal(mbx_send(cl->eps[random_below(random, 2)], 1,
                              FIRST_CONTEXT + random_below(random, 2), random_below(random, 3),
                              bytes, sizes[random_below(random, ARRAY_COUNT(sizes))], &silent,
                              NULL),
                     0);
}

static char recv_buf[300000];

/* Takes a message, if there is one: by a receive, by a matched probe, or by mbx_try_recv(). */
static void take_one(struct cluster *cl, struct random *random)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    uint32_t context = FIRST_CONTEXT + random_below(random, 2);
    uint64_t tag = random_below(random, 3);
    struct mbx_status status;
    mbx_message message;

    switch (random_below(random, 3)) {
    case 0:
        if (mbx_probe(cl->eps[1], MBX_ANY_SOURCE, context, tag, 0, &status) == 1)
            assert_int_equal(mbx_recv(cl->eps[1], status.source, context, tag, 0, recv_buf,
                                      sizeof recv_buf, &silent, NULL),
                             0);
        return;
    case 1:
        if (mbx_mprobe(cl->eps[1], MBX_ANY_SOURCE, context, tag, 0, &status, &message) == 1)
            assert_int_equal(
                mbx_mrecv(cl->eps[1], message, recv_buf, sizeof recv_buf, &silent, NULL), 0);
        return;
    default:
        assert_int_equal(mbx_try_recv(cl->eps[1], MBX_ANY_SOURCE, context, tag, 0, recv_buf,
                                      sizeof recv_buf, &status),
                         0); /* refuses, because there is a callback */
    }
}

static void drain_context(struct cluster *cl, uint32_t context)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    struct mbx_status status;

    while (cluster_probe(cl, 1, MBX_ANY_SOURCE, context, 0, MBX_IGNORE_ALL, &status) == 1) {
        assert_int_equal(mbx_recv(cl->eps[1], status.source, context, status.tag, 0, recv_buf,
                                  sizeof recv_buf, &silent, NULL),
                         0);
        cluster_settle(cl);
    }
}

/* Receiving messages of one context id makes space, which a message of the other may take. */
static void drain(struct cluster *cl)
{
    for (int i = 0; cluster_waiting(cl) != 0; i++) {
        assert_true(i < test_patience());
        for (uint32_t context = FIRST_CONTEXT; context < FIRST_CONTEXT + 2; context++)
            drain_context(cl, context);
    }
}

static void test_the_list_is_what_was_told(void **state)
{
    struct model model = {0};
    struct random random;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    model.ep = cl.eps[1];
    random_seed(&random, 7);
    assert_int_equal(mbx_watch_unexpected(cl.eps[1], watch, &model), 0);
    for (int i = 0; i < 150; i++) {
        if (random_below(&random, 3) != 0)
            send_one(&cl, &random);
        else
            take_one(&cl, &random);
        cluster_settle(&cl);
        check_list(&model);
    }
    if (config_window(cl.config) == UINT64_MAX)
        assert_true(model.count > 0);
    drain(&cl);
    check_list(&model);
    assert_int_equal(model.count, 0);
    assert_int_equal(model.came, model.went);
    cluster_close(&cl);
}

static void test_nobody_is_told_any_more(void **state)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    struct mbx_status list[1], status;
    struct model model = {0};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    model.ep = cl.eps[1];
    assert_int_equal(mbx_watch_unexpected(cl.eps[1], watch, &model), 0);
    assert_int_equal(mbx_watch_unexpected(cl.eps[1], NULL, NULL), 0);
    for (uint64_t tag = 0; tag < 3; tag++) {
        assert_int_equal(mbx_send(cl.eps[0], 1, FIRST_CONTEXT, tag, "x", 1, &silent, NULL), 0);
        cluster_settle(&cl);
    }
    assert_int_equal(model.came, 0);
    if (config_window(cl.config) > 0) {
        assert_true(mbx_unexpected(cl.eps[1], list, 1) >= 1); /* it counts all, and lists one */
        assert_int_equal(list[0].tag, 0);
        assert_int_equal(list[0].size, 1);
        assert_int_equal(list[0].source, 0);
    }
    drain(&cl);
    assert_int_equal(mbx_unexpected(cl.eps[1], list, 1), 0);
    assert_int_equal(model.went, 0);
    /* a device that holds messages is still notified of them, and mbx_try_recv() refuses */
    if (config_window(cl.config) == UINT64_MAX && !ep_tracing(cl.eps[1])->notifies_device) {
        assert_int_equal(mbx_inject(cl.eps[0], 1, FIRST_CONTEXT, 0, "x", 1, 0), 0);
        cluster_settle(&cl);
        assert_int_equal(
            mbx_try_recv(cl.eps[1], 0, FIRST_CONTEXT, 0, 0, recv_buf, sizeof recv_buf, &status),
            1);
    }
    drain(&cl);
    cluster_close(&cl);
}

/* The newest of many messages are received, while the messages of another tag stay: the list
 * follows. */
static void test_the_list_of_a_long_queue(void **state)
{
    static const size_t sizes[] = {0, 8, 24, 25, 1000, 5000};
    const struct mbx_options silent = {.flags = MBX_SILENT};
    struct model model = {.count = STAY + ARRAY_COUNT(sizes)};
    struct mbx_status status;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    model.ep = cl.eps[1];
    for (int i = 0; i < model.count; i++)
        assert_int_equal(mbx_send(cl.eps[0], 1, FIRST_CONTEXT, i < STAY ? 0 : (uint64_t)i,
                                  recv_buf, i < STAY ? 8 : sizes[i - STAY], &silent, NULL),
                         0);
    cluster_settle(&cl);
    if (strcmp(cl.config->name, "shm") == 0) {
        assert_int_equal(mbx_unexpected(cl.eps[1], model.queue, MOST), model.count);
        assert_int_equal(mbx_try_recv(cl.eps[1], 0, FIRST_CONTEXT, 1, 0, NULL, 0, &status), 0);
        for (int i = model.count; i-- > STAY; model.count--) {
            check_list(&model);
            assert_int_equal(mbx_try_recv(cl.eps[1], 0, FIRST_CONTEXT, (uint64_t)i, 0, recv_buf,
                                          sizes[i - STAY], &status),
                             1);
            assert_true(is_same(&status, &model.queue[i]));
        }
        check_list(&model);
    }
    drain(&cl);
    assert_int_equal(mbx_unexpected(cl.eps[1], NULL, 0), 0);
    cluster_close(&cl);
}

static void test_wrong_arguments(void **state)
{
    struct mbx_status list[1];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_unexpected(cl.eps[0], list, -1), -EINVAL);
    assert_int_equal(mbx_unexpected(cl.eps[0], NULL, 1), -EINVAL);
    assert_int_equal(mbx_unexpected(cl.eps[0], NULL, 0), 0);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_is_what_was_told),
        cmocka_unit_test(test_nobody_is_told_any_more),
        cmocka_unit_test(test_the_list_of_a_long_queue),
        cmocka_unit_test(test_wrong_arguments),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
