/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_counter_test.c - counters of the libfabric provider: every operation that ends is
 * counted once, and reading a counter takes nothing from a queue.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <pthread.h>
#include <string.h>

#define BIG      (1 << 18)
#define MESSAGES 40

static const struct setup counted = {.counts = FI_SEND | FI_RECV};
static char out_buf[BIG], in_buf[BIG];
static int contexts[MESSAGES];

static struct fid_cntr *counter(struct fixture *fix, int node, enum node_counter which)
{
    return fix->node[node].cntr[which];
}

/* Reads only counters until this one has this value. */
static void await_count(struct fixture *fix, int node, enum node_counter which, uint64_t value)
{
    const time_t end = fixture_end();

    while (fi_cntr_read(counter(fix, node, which)) != value && time(NULL) < end)
        for (int n = 0; n < FIXTURE_NODES; n++)
            fi_cntr_read(counter(fix, n, NODE_SENDS));
    assert_int_equal(fi_cntr_read(counter(fix, node, which)), value);
}

/* ---- numbers --------------------------------------------------------------------------- */

static void a_counter_can_be_set_and_added_to(void **state)
{
    struct fid_cntr *c;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &counted);
    c = counter(&fix, 0, NODE_SENDS);
    assert_int_equal(fi_cntr_read(c), 0);
    assert_int_equal(fi_cntr_readerr(c), 0);
    assert_int_equal(fi_cntr_add(c, 5), 0);
    assert_int_equal(fi_cntr_add(c, 2), 0);
    assert_int_equal(fi_cntr_adderr(c, 3), 0);
    assert_int_equal(fi_cntr_read(c), 7);
    assert_int_equal(fi_cntr_readerr(c), 3);
    assert_int_equal(fi_cntr_set(c, 100), 0);
    assert_int_equal(fi_cntr_seterr(c, 200), 0);
    assert_int_equal(fi_cntr_read(c), 100);
    assert_int_equal(fi_cntr_readerr(c), 200);
    fixture_close(&fix);
}

static void every_message_is_counted_once(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &counted);
    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t size = i % 2 ? 64 : BIG;

        assert_int_equal(
            fi_trecv(EP(fix, 1), in_buf, size, NULL, fix.addr[0], i, 0, &contexts[i]), 0);
        assert_int_equal(
            fi_tsend(EP(fix, 0), out_buf, size, NULL, fix.addr[1], i, &contexts[i]), 0);
        await_count(&fix, 1, NODE_RECVS, i + 1);
        await_count(&fix, 0, NODE_SENDS, i + 1);
    }
    assert_int_equal(fi_cntr_read(counter(&fix, 0, NODE_RECVS)), 0);
    assert_int_equal(fi_cntr_read(counter(&fix, 1, NODE_SENDS)), 0);
    /* and no completion was lost by reading counters: they come in order */
    for (unsigned i = 0; i < MESSAGES; i++) {
        expect_send(&fix, 0, &contexts[i]);
        expect_recv(&fix, 1, &contexts[i], i % 2 ? 64 : BIG, i);
    }
    fixture_is_quiet(&fix, 0);
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void what_makes_no_completion_is_counted(void **state)
{
    struct setup setup = {.counts = FI_SEND | FI_RECV, .bind_flags = FI_SELECTIVE_COMPLETION};
    uint64_t word = 0;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 1, 0, &contexts[0]);
    fi_trecv(EP(fix, 1), in_buf, 4096, NULL, fix.addr[0], 2, 0, &contexts[0]);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 3, 0, &contexts[0]);
    inject_word(&fix, 0, 1, 1, 7);
    assert_int_equal(fi_tinject(EP(fix, 0), out_buf, 4096, fix.addr[1], 2), 0);
    fi_tsend(EP(fix, 0), out_buf, 8, NULL, fix.addr[1], 3, &contexts[1]);
    await_count(&fix, 1, NODE_RECVS, 3);
    await_count(&fix, 0, NODE_SENDS, 3);
    fixture_is_quiet(&fix, 0);
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void a_failure_counts_as_an_error(void **state)
{
    struct fi_cq_err_entry error;
    uint64_t word = 0;
    struct fixture fix;
    time_t end;

    (void)state;
    fixture_open(&fix, &counted);
    fixture_arrived(&fix, 1, 0); /* they have met, which takes the progress of both */
    fi_trecv(EP(fix, 1), &word, 4, NULL, fix.addr[0], 1, 0, &contexts[0]);
    inject_word(&fix, 0, 1, 1, 7);
    end = fixture_end();
    while (fi_cntr_readerr(counter(&fix, 1, NODE_RECVS)) == 0 && time(NULL) < end)
        continue;
    assert_int_equal(fi_cntr_readerr(counter(&fix, 1, NODE_RECVS)), 1);
    assert_int_equal(fi_cntr_read(counter(&fix, 1, NODE_RECVS)), 0);
    fixture_read_error(&fix, 1, &error);
    assert_int_equal(error.err, FI_ETRUNC);
    fixture_close(&fix);
}

/* ---- queues are not needed ------------------------------------------------------------------
 */

static void counters_do_without_queues(void **state)
{
    struct setup setup = {.counts = FI_SEND | FI_RECV, .queueless = true};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    for (unsigned i = 0; i < MESSAGES; i++) {
        pattern_fill(out_buf, BIG, i);
        fi_trecv(EP(fix, 1), in_buf, BIG, NULL, fix.addr[0], i, 0, NULL);
        fi_tsend(EP(fix, 0), out_buf, BIG, NULL, fix.addr[1], i, NULL);
        await_count(&fix, 1, NODE_RECVS, i + 1);
        await_count(&fix, 0, NODE_SENDS, i + 1);
        assert_true(pattern_is(in_buf, BIG, i));
    }
    fixture_close(&fix);
}

static void one_counter_may_count_for_many(void **state)
{
    struct fixture fix;
    struct fid_ep *ep;
    struct fid_cntr *all;
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
    uint64_t word = 0;
    time_t end;

    (void)state;
    fixture_open(&fix, &counted);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &all, NULL), 0);
    assert_int_equal(fi_cntr_wait(all, 1, 0), -FI_ETIMEDOUT);
    assert_int_equal(fi_endpoint(fix.domain, fix.info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &fix.node[0].av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &all->fid, 0), -FI_EBADFLAGS);
    assert_int_equal(fi_ep_bind(ep, &all->fid, FI_SEND | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &all->fid, FI_SEND), -FI_EINVAL);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_close(&all->fid), -FI_EBUSY);
    assert_int_equal(fi_trecv(EP(fix, 1), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(fi_tsend(ep, &word, 8, NULL, fix.addr[1], 1, NULL), 0);
    end = fixture_end();
    while (fi_cntr_read(all) != 1 && time(NULL) < end)
        fixture_progress(&fix);
    assert_int_equal(fi_cntr_read(all), 1);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&all->fid), 0);
    fixture_close(&fix);
}

static void what_cannot_be_is_refused(void **state)
{
    struct fi_cntr_attr cond = {.wait_obj = FI_WAIT_MUTEX_COND}, flags = {.flags = 1};
    struct fi_cntr_attr no_set = {.wait_obj = FI_WAIT_SET};
    struct fi_cntr_attr unknown = {.wait_obj = (enum fi_wait_obj)99};
    struct fid_cntr *c;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &counted);
    assert_int_equal(fi_cntr_open(fix.domain, &cond, &c, NULL), -FI_ENOSYS);
    assert_int_equal(fi_cntr_open(fix.domain, &no_set, &c, NULL), -FI_EINVAL);
    assert_int_equal(fi_cntr_open(fix.domain, &unknown, &c, NULL), -FI_EINVAL);
    assert_int_equal(fi_cntr_open(fix.domain, &flags, &c, NULL), -FI_EBADFLAGS);
    fixture_close(&fix);
}

/* ---- waiting
 * ---------------------------------------------------------------------------------- */

static void a_wait_ends_at_the_threshold_or_the_limit(void **state)
{
    struct fid_cntr *c;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &counted);
    c = counter(&fix, 0, NODE_RECVS);
    assert_int_equal(fi_cntr_wait(c, 1, 1), -FI_ETIMEDOUT);
    assert_int_equal(fi_cntr_wait(c, 0, -1), 0);
    fi_cntr_add(c, 3);
    assert_int_equal(fi_cntr_wait(c, 3, -1), 0);
    assert_int_equal(fi_cntr_wait(c, 4, 1), -FI_ETIMEDOUT);
    fixture_close(&fix);
}

/* A thread adds to the counter; the other thread waits. */
static void *adder(void *arg)
{
    for (int i = 0; i < 1000; i++)
        fi_cntr_add(arg, 1);
    return NULL;
}

static void *failer(void *arg)
{
    fi_cntr_adderr(arg, 1);
    return NULL;
}

static void a_wait_hears_of_other_threads(void **state)
{
    struct setup setup = {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_SAFE};
    pthread_t thread[4];
    struct fid_cntr *c;
    struct fixture fix;
    int result;

    (void)state;
    fixture_open(&fix, &setup);
    c = counter(&fix, 0, NODE_RECVS);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, adder, c), 0);
    assert_int_equal(fi_cntr_wait(c, 4000, PATIENCE_MS), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(fi_cntr_read(c), 4000);
    /* an error ends a wait; it may have come before the wait began */
    assert_int_equal(pthread_create(&thread[0], NULL, failer, c), 0);
    result = fi_cntr_wait(c, 4001, 1000);
    pthread_join(thread[0], NULL);
    assert_true(result == -FI_EAVAIL || result == -FI_ETIMEDOUT);
    assert_int_equal(fi_cntr_readerr(c), 1);
    fixture_close(&fix);
}

/* Four threads send, each from its node to the next, and wait only for counters. */
static struct fixture ring;

static void *sender(void *arg)
{
    int me = (int)(intptr_t)arg, next = (me + 1) % FIXTURE_NODES;
    static uint64_t words[FIXTURE_NODES][MESSAGES];

    for (unsigned i = 0; i < MESSAGES; i++) {
        while (fi_trecv(EP(ring, me), &words[me][i], 8, NULL, FI_ADDR_UNSPEC, i, 0, NULL) ==
               -FI_EAGAIN)
            continue;
        while (fi_tinject(EP(ring, me), &i, sizeof i, ring.addr[next], i) == -FI_EAGAIN)
            continue;
    }
    return (void *)(intptr_t)(fi_cntr_wait(ring.node[me].cntr[NODE_RECVS], MESSAGES + 1,
                                           PATIENCE_MS) == 0 &&
                              words[me][MESSAGES - 1] == MESSAGES - 1);
}

static void threads_may_wait_for_counters(void **state)
{
    struct setup setup = {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_SAFE};
    pthread_t thread[FIXTURE_NODES];
    void *well;

    (void)state;
    fixture_open(&ring, &setup);
    for (int i = 0; i < FIXTURE_NODES; i++) /* they meet, which takes the progress of both */
        fixture_arrived(&ring, i, (i + 1) % FIXTURE_NODES);
    for (int i = 0; i < FIXTURE_NODES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, sender, (void *)(intptr_t)i), 0);
    for (int i = 0; i < FIXTURE_NODES; i++) {
        pthread_join(thread[i], &well);
        assert_non_null(well);
    }
    for (int i = 0; i < FIXTURE_NODES; i++)
        await_count(&ring, i, NODE_SENDS, MESSAGES + 1);
    fixture_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_can_be_set_and_added_to),
        cmocka_unit_test(every_message_is_counted_once),
        cmocka_unit_test(what_makes_no_completion_is_counted),
        cmocka_unit_test(a_failure_counts_as_an_error),
        cmocka_unit_test(counters_do_without_queues),
        cmocka_unit_test(one_counter_may_count_for_many),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_wait_ends_at_the_threshold_or_the_limit),
        cmocka_unit_test(a_wait_hears_of_other_threads),
        cmocka_unit_test(threads_may_wait_for_counters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
