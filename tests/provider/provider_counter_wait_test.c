/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_counter_wait_test.c - a thread that waits for a counter sleeps, and is woken by
 * everything that changes it: operations of its endpoint, accesses of peers, other threads; by
 * blocking calls, descriptors and wait sets.
 *
 * A lost wake-up is a wait of PATIENCE_MS, and fails the test.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rdma/fi_atomic.h>

#define ROUNDS   300
#define KEY      7
#define RMA_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE)

static char memory[64];

/* ---- ways to wait ----------------------------------------------------------------------- */

/* Waits until the counter has this value.  False: not in time. */
typedef bool await_fn(struct fixture *fix, struct fid_cntr *c, uint64_t value);

static bool await_by_call(struct fixture *fix, struct fid_cntr *c, uint64_t value)
{
    (void)fix;
    return fi_cntr_wait(c, value, PATIENCE_MS) == 0;
}

static bool await_by_descriptor(struct fixture *fix, struct fid_cntr *c, uint64_t value)
{
    struct pollfd polled = {.events = POLLIN};
    struct fid *fid = &c->fid;

    if (fi_control(fid, FI_GETWAIT, &polled.fd) != 0)
        return false;
    while (fi_cntr_read(c) < value)
        if (fi_trywait(fix->fabric, &fid, 1) == 0 && poll(&polled, 1, PATIENCE_MS) != 1)
            return false;
    return true;
}

/* ---- messages ------------------------------------------------------------------------------
 */

struct side {
    struct fixture *fix;
    int node;
    await_fn *await;
};

static void side_send(struct side *s, uint64_t word)
{
    ssize_t err;

    do
        err = fi_tinject(EP(*s->fix, s->node), &word, 8, s->fix->addr[1 - s->node], 1);
    while (err == -FI_EAGAIN);
    thread_check(err == 0, "the message was not sent");
}

static void *play(void *arg)
{
    struct side *s = arg;
    struct fid_cntr *received = s->fix->node[s->node].cntr[NODE_RECVS];
    uint64_t word = 0;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        thread_check(
            fi_trecv(EP(*s->fix, s->node), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &word) == 0,
            "the receive was not posted");
        if (s->node == 0)
            side_send(s, i);
        thread_check(s->await(s->fix, received, i + 1), "there was no message in time");
        thread_check(word == i, "it was another message");
        if (s->node == 1)
            side_send(s, i);
    }
    return NULL;
}

static void ping_pong(const struct setup *setup, await_fn *await)
{
    struct side sides[2];
    struct fixture fix;
    pthread_t thread;

    fixture_open(&fix, setup);
    for (int i = 0; i < 2; i++)
        sides[i] = (struct side){&fix, i, await};
    thread = thread_start(play, &sides[1]);
    play(&sides[0]);
    pthread_join(thread, NULL);
    fixture_close(&fix);
}

static void a_message_wakes_who_waits_for_its_counter(void **state)
{
    static const struct setup setups[] = {
        {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_SAFE},
        {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_COMPLETION},
        {.counts = FI_RECV, .threading = FI_THREAD_ENDPOINT, .cntr_wait = FI_WAIT_YIELD},
        {.counts = FI_RECV, .threading = FI_THREAD_SAFE, .progress = FI_PROGRESS_AUTO},
        {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_SAFE, .queueless = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++)
        ping_pong(&setups[i], await_by_call);
}

static void a_descriptor_of_a_counter_wakes(void **state)
{
    static const struct setup safe = {
        .counts = FI_RECV, .threading = FI_THREAD_SAFE, .cntr_wait = FI_WAIT_FD};
    static const struct setup completion = {
        .counts = FI_RECV, .threading = FI_THREAD_COMPLETION, .cntr_wait = FI_WAIT_FD};

    (void)state;
    ping_pong(&safe, await_by_descriptor);
    ping_pong(&completion, await_by_descriptor);
}

/* ---- accesses of peers
 * -----------------------------------------------------------------------
 */

static ssize_t write_word(struct fixture *fix, uint64_t *word)
{
    return fi_write(EP(*fix, 0), word, sizeof *word, NULL, fix->addr[1], 0, KEY, NULL);
}

static ssize_t fetch_word(struct fixture *fix, uint64_t *word)
{
    static uint64_t before;

    return fi_fetch_atomic(EP(*fix, 0), word, 1, NULL, &before, NULL, fix->addr[1], 0, KEY,
                           FI_UINT64, FI_ATOMIC_WRITE, NULL);
}

static ssize_t swap_word(struct fixture *fix, uint64_t *word)
{
    static uint64_t before, zero;

    return fi_compare_atomic(EP(*fix, 0), word, 1, NULL, &zero, NULL, &before, NULL,
                             fix->addr[1], 0, KEY, FI_UINT64, FI_CSWAP, NULL);
}

/* The access, and the counter at its initiator that counts it. */
struct kind {
    ssize_t (*start)(struct fixture *fix, uint64_t *word);
    enum node_counter counter;
};

static const struct kind writing = {write_word, NODE_WRITES};
static const struct kind updates[] = {{fetch_word, NODE_READS}, {swap_word, NODE_READS}};

struct writer {
    struct fixture *fix;
    const struct kind *kind;
};

/* Node 0 writes; its own waits make progress. */
static void *write_words(void *arg)
{
    const struct writer *me = arg;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        while (me->kind->start(me->fix, &i) == -FI_EAGAIN)
            continue;
        thread_check(fi_cntr_wait(me->fix->node[0].cntr[me->kind->counter], i, PATIENCE_MS) ==
                         0,
                     "a write did not end in time");
    }
    return NULL;
}

/* Node 1 sleeps until each write has come. */
static void writes_are_waited_for(struct fixture *fix, const struct kind *kind,
                                  struct fid_cntr *written, await_fn *await)
{
    struct writer writer = {fix, kind};
    pthread_t thread = thread_start(write_words, &writer);

    for (uint64_t i = 1; i <= ROUNDS; i++)
        assert_true(await(fix, written, i));
    pthread_join(thread, NULL);
    assert_int_equal(fi_cntr_read(written), ROUNDS);
}

static void a_write_of_a_peer_wakes(void **state)
{
    static const struct setup setup = {
        .caps = RMA_CAPS, .counts = FI_WRITE | FI_REMOTE_WRITE, .threading = FI_THREAD_SAFE};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(
        fi_mr_reg(fix.domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    writes_are_waited_for(&fix, &writing, fix.node[1].cntr[NODE_WRITTEN_HERE], await_by_call);
    assert_int_equal(fi_close(&mr->fid), 0);
    fixture_close(&fix);
}

/* The counter of a region: no endpoint is bound to it, and any may change it. */
static void region_counter(enum fi_threading threading, enum fi_wait_obj object,
                           const struct kind *kind, await_fn *await)
{
    struct setup setup = {
        .caps = RMA_CAPS | FI_ATOMIC, .counts = FI_READ | FI_WRITE, .threading = threading};
    struct fi_cntr_attr attr = {.wait_obj = object};
    struct fid_cntr *written;
    struct fid_mr *mr;
    struct fixture fix;

    fixture_open(&fix, &setup);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &written, NULL), 0);
    assert_int_equal(fi_mr_reg(fix.domain, memory, sizeof memory,
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL),
                     0);
    assert_int_equal(fi_mr_bind(mr, &written->fid, FI_REMOTE_WRITE), 0);
    writes_are_waited_for(&fix, kind, written, await);
    assert_int_equal(fi_close(&written->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_close(&written->fid), 0);
    fixture_close(&fix);
}

static void a_write_to_a_region_wakes(void **state)
{
    (void)state;
    region_counter(FI_THREAD_SAFE, FI_WAIT_UNSPEC, &writing, await_by_call);
    region_counter(FI_THREAD_SAFE, FI_WAIT_FD, &writing, await_by_descriptor);
    region_counter(FI_THREAD_COMPLETION, FI_WAIT_UNSPEC, &writing, await_by_call);
}

/* OpenSHMEM's locks sleep until any operation changes a word. */
static void an_atomic_that_brings_a_result_wakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
        region_counter(FI_THREAD_SAFE, FI_WAIT_UNSPEC, &updates[i], await_by_call);
        region_counter(FI_THREAD_SAFE, FI_WAIT_FD, &updates[i], await_by_descriptor);
    }
}

/* fabtests wait on such counters, and that works with libfabric's sockets provider; nothing
 * wakes these waits, so they poll. */
static void an_endpoint_that_would_never_wait_may_wait(void **state)
{
    (void)state;
    region_counter(FI_THREAD_SAFE, FI_WAIT_NONE, &writing, await_by_call);
}

/* ---- sets
 * ------------------------------------------------------------------------------------
 */

static void *add_one(void *arg)
{
    thread_check(fi_cntr_add(arg, 1) == 0, "fi_cntr_add");
    return NULL;
}

static void *fail_one(void *arg)
{
    thread_check(fi_cntr_adderr(arg, 1) == 0, "fi_cntr_adderr");
    return NULL;
}

static void a_wait_set_wakes_for_a_counter(void **state)
{
    static const struct setup plain = {.threading = FI_THREAD_SAFE};
    struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_SET};
    struct fid_wait *set;
    struct fid_cntr *c;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_wait_open(fix.fabric, &set_attr, &set), 0);
    attr.wait_set = set;
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &c, NULL), 0);
    assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
    assert_int_equal(fi_cntr_wait(c, 1, 0), -FI_EINVAL);
    assert_int_equal(fi_wait(set, 2), -FI_ETIMEDOUT);
    for (int i = 1; i <= 50; i++) {
        pthread_t thread = thread_start(i % 2 ? add_one : fail_one, c);

        assert_int_equal(fi_wait(set, PATIENCE_MS), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(fi_cntr_read(c), 25);
    assert_int_equal(fi_cntr_readerr(c), 25);
    assert_int_equal(fi_close(&c->fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
    fixture_close(&fix);
}

/* ---- other threads, and objects
 * --------------------------------------------------------------
 */

static void a_thread_wakes_another(void **state)
{
    static const struct setup plain = {.threading = FI_THREAD_SAFE};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct pollfd polled = {.events = POLLIN};
    struct fid_cntr *c;
    struct fid *fid;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &c, NULL), 0);
    for (uint64_t i = 1; i <= 50; i++) {
        pthread_t thread = thread_start(add_one, c);

        assert_int_equal(fi_cntr_wait(c, i, PATIENCE_MS), 0);
        pthread_join(thread, NULL);
    }
    /* a change that was not seen prevents sleep, once */
    fid = &c->fid;
    assert_int_equal(fi_control(fid, FI_GETWAIT, &polled.fd), 0);
    assert_int_equal(fi_cntr_add(c, 1), 0);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), -FI_EAGAIN);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    assert_int_equal(poll(&polled, 1, 0), 0);
    assert_int_equal(fi_cntr_seterr(c, 9), 0);
    assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), -FI_EAGAIN);
    assert_int_equal(fi_cntr_set(c, 4), 0);
    assert_int_equal(fi_cntr_read(c), 4);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    assert_int_equal(fi_close(&c->fid), 0);
    fixture_close(&fix);
}

static void a_counter_has_the_wait_object_that_was_asked_for(void **state)
{
    static const struct setup plain;
    enum fi_wait_obj object;
    struct fid_cntr *c;
    struct fixture fix;
    int fd;

    (void)state;
    fixture_open(&fix, &plain);
    for (int o = FI_WAIT_NONE; o <= FI_WAIT_YIELD; o++) {
        struct fi_cntr_attr attr = {.wait_obj = (enum fi_wait_obj)o};

        if (o == FI_WAIT_SET || o == FI_WAIT_MUTEX_COND)
            continue;
        assert_int_equal(fi_cntr_open(fix.domain, &attr, &c, NULL), 0);
        assert_int_equal(fi_control(&c->fid, FI_GETWAITOBJ, &object), 0);
        assert_int_equal(object, o);
        assert_int_equal(fi_control(&c->fid, FI_GETWAIT, &fd),
                         o == FI_WAIT_FD ? 0 : -FI_ENOSYS);
        assert_int_equal(fi_close(&c->fid), 0);
    }
    fixture_close(&fix);
}

/* ---- sleep
 * ------------------------------------------------------------------------------------
 */

/* A thread that naps leaves the core thousands of times in this time; on a busy machine both
 * counts are lower. */
static void a_waiting_thread_sleeps(void **state)
{
    static const struct setup setup = {.counts = FI_RECV};
    struct rusage before, after;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    getrusage(RUSAGE_SELF, &before); /* including the endpoint's thread */
    assert_int_equal(fi_cntr_wait(fix.node[1].cntr[NODE_RECVS], 1, 300), -FI_ETIMEDOUT);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_nvcsw - before.ru_nvcsw < 100);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_wakes_who_waits_for_its_counter),
        cmocka_unit_test(a_descriptor_of_a_counter_wakes),
        cmocka_unit_test(a_write_of_a_peer_wakes),
        cmocka_unit_test(a_write_to_a_region_wakes),
        cmocka_unit_test(an_atomic_that_brings_a_result_wakes),
        cmocka_unit_test(an_endpoint_that_would_never_wait_may_wait),
        cmocka_unit_test(a_wait_set_wakes_for_a_counter),
        cmocka_unit_test(a_thread_wakes_another),
        cmocka_unit_test(a_counter_has_the_wait_object_that_was_asked_for),
        cmocka_unit_test(a_waiting_thread_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
