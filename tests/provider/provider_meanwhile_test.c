/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_meanwhile_test.c - objects that one thread opens, closes and registers while another
 * waits or works.
 *
 * The races are checked best under ThreadSanitizer; without it these tests end, or crash, or
 * hang.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS   100
#define KEY      7
#define RMA_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE)

static int context;

/* ---- endpoints ----------------------------------------------------------------------------
 */

/* Opens one more endpoint with node 1's queue and vector.  Node 0 knows it as *addr. */
static struct fid_ep *join(struct fixture *fix, fi_addr_t *addr)
{
    char address[FIXTURE_ADDRESS];
    size_t len = sizeof address;
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(fix->domain, fix->info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &fix->node[1].av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &fix->node[1].cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_getname(&ep->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(fix->node[0].av, address, 1, addr, 0, NULL), 1);
    return ep;
}

/* Sleeps on the descriptor, as fi_trywait() has allowed, until there is an entry.  False:
 * nothing came in time. */
static bool await_descriptor(struct fixture *fix, struct fid_cq *cq,
                             struct fi_cq_tagged_entry *e)
{
    struct pollfd polled = {.events = POLLIN};
    struct fid *fid = &cq->fid;

    if (fi_control(fid, FI_GETWAIT, &polled.fd) != 0)
        return false;
    for (;;) {
        if (poll(&polled, 1, PATIENCE_MS) != 1)
            return false;
        while (fi_trywait(fix->fabric, &fid, 1) == -FI_EAGAIN)
            if (fi_cq_read(cq, e, 1) == 1)
                return true;
    }
}

/* A thread that fi_trywait() has allowed to sleep is woken by an endpoint that is bound only
 * after that. */
static void an_endpoint_that_joins_is_heard(void **state)
{
    static const struct setup setup = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
    struct fi_cq_tagged_entry e;
    uint64_t got = 0, sent = 5;
    struct fid_ep *late;
    struct fid *fid;
    fi_addr_t addr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    fid = &fix.node[1].cq->fid;
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    late = join(&fix, &addr);
    assert_int_equal(fi_trecv(late, &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context), 0);
    assert_int_equal(fi_tinject(EP(fix, 0), &sent, 8, addr, 1), 0);
    assert_true(await_descriptor(&fix, fix.node[1].cq, &e));
    assert_ptr_equal(e.op_context, &context);
    assert_int_equal(got, 5);
    assert_int_equal(fi_close(&late->fid), 0);
    fixture_close(&fix);
}

static atomic_bool ends;

/* Calls fi_trywait() all the time, and sleeps sometimes. */
static void *wait_until_the_end(void *arg)
{
    struct fixture *fix = arg;
    struct fid_cq *cq = fix->node[1].cq;
    struct fid *fid = &cq->fid;
    struct fi_cq_tagged_entry e;

    for (int i = 0; !atomic_load(&ends); i++) {
        thread_check(fi_trywait(fix->fabric, &fid, 1) == 0, "something is there");
        if (i % 64 == 0)
            thread_check(fi_cq_sread(cq, &e, 1, NULL, 1) == -FI_EAGAIN, "something came");
    }
    return NULL;
}

static void endpoints_come_and_go_while_a_thread_waits(void **state)
{
    static const struct setup setup = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
    pthread_t thread;
    fi_addr_t addr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    atomic_store(&ends, false);
    thread = thread_start(wait_until_the_end, &fix);
    for (int i = 0; i < ROUNDS; i++) {
        struct fid_ep *ep = join(&fix, &addr);

        assert_int_equal(fi_close(&ep->fid), 0);
        assert_int_equal(fi_av_remove(fix.node[0].av, &addr, 1, 0), 0);
    }
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    fixture_close(&fix);
}

/* ---- regions -------------------------------------------------------------------------------
 */

static char memory[64];
static uint64_t word = 1;

/* Uses node 0, which no other thread uses: writes to node 1. */
static void *write_until_the_end(void *arg)
{
    struct fixture *fix = arg;
    struct fi_cq_tagged_entry e;

    while (!atomic_load(&ends)) {
        ssize_t n;

        while (fi_write(EP(*fix, 0), &word, 8, NULL, fix->addr[1], 0, KEY, &word) == -FI_EAGAIN)
            continue;
        while ((n = fi_cq_read(fix->node[0].cq, &e, 1)) == -FI_EAGAIN && !atomic_load(&ends))
            continue;
        thread_check(n == 1 || atomic_load(&ends), "a write failed");
    }
    return NULL;
}

/* Uses node 1: performs what comes. */
static void *serve_until_the_end(void *arg)
{
    struct fixture *fix = arg;
    struct fi_cq_tagged_entry e;

    while (!atomic_load(&ends))
        thread_check(fi_cq_read(fix->node[1].cq, &e, 1) == -FI_EAGAIN, "something came");
    return NULL;
}

/*
 * Each thread has an endpoint and a queue of its own, as FI_THREAD_COMPLETION requires.  A
 * region belongs to the domain, so a third thread may register one, and read a region's
 * counter.
 */
static void regions_come_and_go_while_endpoints_work(void **state)
{
    static const struct setup setup = {
        .caps = RMA_CAPS, .counts = FI_WRITE, .threading = FI_THREAD_COMPLETION};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_cntr *written;
    struct fid_mr *mr, *other;
    pthread_t threads[2];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &written, NULL), 0);
    assert_int_equal(fi_mr_reg(fix.domain, memory, 8, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL),
                     0);
    assert_int_equal(fi_mr_bind(mr, &written->fid, FI_REMOTE_WRITE), 0);
    atomic_store(&ends, false);
    threads[0] = thread_start(write_until_the_end, &fix);
    threads[1] = thread_start(serve_until_the_end, &fix);
    for (uint64_t i = 1; fi_cntr_read(written) < ROUNDS; i++) {
        assert_int_equal(
            fi_mr_reg(fix.domain, &memory[8], 8, FI_REMOTE_WRITE, 0, KEY + i, 0, &other, NULL),
            0);
        assert_int_equal(fi_close(&other->fid), 0);
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_close(&written->fid), 0);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_that_joins_is_heard),
        cmocka_unit_test(endpoints_come_and_go_while_a_thread_waits),
        cmocka_unit_test(regions_come_and_go_while_endpoints_work),
    };

    if (!fixture_has_shm())
        return FIXTURE_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
