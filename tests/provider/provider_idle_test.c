/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_idle_test.c - when a client that polls and finds nothing yields its core.
 *
 * Whatever the client polls (a queue, a counter, a poll set, an event queue, a send that is
 * refused), and whatever is in progress, every poll that finds nothing counts.  So each way to
 * poll is tried in each state of the endpoint.
 *
 * The provider calls the sched_yield(), syscall() and clock_gettime() of this program instead
 * of the C library's: so yields and sleeps on a futex are counted, and the test sets the time.
 */
#include "provider_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READS   100000
#define LOOKS   6400
#define LEAST   (LOOKS / 100) /* least number of yields in LOOKS polls, in a crowd */
#define FEW     32
#define NS      INT64_C(1)
#define US      INT64_C(1000)
#define S       INT64_C(1000000000)

#define TAG     5
#define LONG    65536 /* sent by rendezvous */
#define SEVERAL 8000  /* needs several packets */
#define PACKET  4000  /* fills a quarter of a ring */
#define CAPS    (FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV)

static _Thread_local unsigned yields, sleeps;
static _Thread_local int64_t now_ns;  /* 0: the system's time, as for threads of the provider */
static _Thread_local int64_t tick_ns; /* added by each reading of the clock */

__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (now_ns == 0)
        return (int)syscall(SYS_clock_gettime, clock, t);
    now_ns += tick_ns;
    t->tv_sec = now_ns / S;
    t->tv_nsec = now_ns % S;
    return 0;
}

/* In the test's time every sleep ends at once. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static long (*theirs)(long, ...);
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_futex && now_ns != 0 && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        sleeps++;
        errno = ETIMEDOUT;
        return -1;
    }
    if (theirs == NULL)
        *(void **)&theirs = dlsym(RTLD_NEXT, "syscall");
    return theirs(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- operations under way --------------------------------------------------------------- */

static char content[LONG];
static char recv_buf[LONG];

/* For whatever is opened in between, the launcher reports more ranks than cores.  Few of them send
 * to one, so each has the usual credit. */
static void crowd_begins(void)
{
    assert_int_equal(setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "100000", 1), 0);
    assert_int_equal(setenv("MBX_PEERS_MAX", "1024", 1), 0);
}

static void crowd_ends(void)
{
    assert_int_equal(unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE"), 0);
    assert_int_equal(unsetenv("MBX_PEERS_MAX"), 0);
}

static void crowd_open(struct fixture *fix, const struct setup *setup)
{
    struct setup many = *setup;

    many.caps |= CAPS;
    crowd_begins();
    fixture_open(fix, &many);
    crowd_ends();
}

static void nothing(struct fixture *fix)
{
    (void)fix;
}

/* No receive is posted: the send waits for its FIN. */
static void a_long_send(struct fixture *fix)
{
    assert_int_equal(
        fi_tsend(EP(*fix, 0), content, LONG, NULL, fix->addr[1], TAG, (void *)(uintptr_t)1), 0);
}

/* Node 1 does not read the ring: it is full, and later messages have to wait for space. */
static void a_full_ring(struct fixture *fix)
{
    fixture_arrived(fix, 0, 1);
    for (int i = 0; i < FEW; i++)
        assert_int_equal(fi_tinject(EP(*fix, 0), content, PACKET, fix->addr[1], TAG), 0);
}

/* Two peers are connected and have sent something: so node 0 has to poll both. */
static void a_long_send_and_two_peers(struct fixture *fix)
{
    for (int peer = 1; peer <= 2; peer++)
        fixture_arrived(fix, peer, 0);
    a_long_send(fix);
}

/* As MPICH always has them posted. */
static void a_receive_for_many(struct fixture *fix)
{
    struct iovec iov = {recv_buf, sizeof recv_buf};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};

    assert_int_equal(fi_recvmsg(EP(*fix, 0), &msg, FI_MULTI_RECV), 0);
}

static void (*const states[])(struct fixture *fix) = {
    nothing, a_long_send, a_full_ring, a_long_send_and_two_peers, a_receive_for_many,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- ways to look ------------------------------------------------------------------------ */

static void look_by_read(struct fixture *fix)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(fix->node[0].cq, &entry, 1), -FI_EAGAIN);
}

static void look_by_readfrom(struct fixture *fix)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;

    assert_int_equal(fi_cq_readfrom(fix->node[0].cq, &entry, 1, &source), -FI_EAGAIN);
}

/* For progress only. */
static void look_by_read_of_none(struct fixture *fix)
{
    assert_int_equal(fi_cq_read(fix->node[0].cq, NULL, 0), -FI_EAGAIN);
}

/* The answer is an error entry, so the queue is never empty. */
static void look_by_probe(struct fixture *fix)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = TAG};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    assert_int_equal(fi_trecvmsg(EP(*fix, 0), &msg, FI_PEEK), 0);
    assert_int_equal(fi_cq_read(fix->node[0].cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(fix->node[0].cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ENOMSG);
}

static void (*const queue_looks[])(struct fixture *fix) = {
    look_by_read,
    look_by_readfrom,
    look_by_read_of_none,
    look_by_probe,
};

static void look_at_counter(struct fixture *fix)
{
    fi_cntr_read(fix->node[0].cntr[NODE_RECVS]);
}

static void look_at_errors(struct fixture *fix)
{
    assert_int_equal(fi_cntr_readerr(fix->node[0].cntr[NODE_SENDS]), 0);
}

static void (*const counter_looks[])(struct fixture *fix) = {look_at_counter, look_at_errors};

/* How many yields were there in LOOKS polls that found nothing? */
static unsigned look_in_vain(const struct setup *setup, void (*state)(struct fixture *fix),
                             void (*look)(struct fixture *fix))
{
    struct fixture fix;
    unsigned n;

    crowd_open(&fix, setup);
    state(&fix);
    look(&fix); /* a counter may have changed */
    yields = 0;
    for (int i = 0; i < LOOKS; i++)
        look(&fix);
    n = yields;
    fixture_close(&fix);
    return n;
}

/* Tries each way to poll in each state. */
static void try_all(const struct setup *setup, void (*const *looks)(struct fixture *fix),
                    size_t count)
{
    unsigned wrong = 0;

    for (size_t state = 0; state < COUNT(states); state++) {
        for (size_t way = 0; way < count; way++) {
            unsigned n = look_in_vain(setup, states[state], looks[way]);

            if (n >= LEAST && n <= LOOKS)
                continue;
            print_error("state %zu, way %zu: the core was given away %u times\n", state, way,
                        n);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- queues ------------------------------------------------------------------------------ */

/* How many yields were there in so many reads that found nothing? */
static unsigned read_in_vain(struct fixture *fix, unsigned reads)
{
    yields = 0;
    for (unsigned i = 0; i < reads; i++)
        look_by_read(fix);
    return yields;
}

/* Where every rank may have a core: after some time, however many reads that took. */
static void test_alone_it_is_a_matter_of_time(void **state)
{
    static void (*const under_way[])(struct fixture * fix) = {nothing,
                                                              a_long_send_and_two_peers};

    (void)state;
    for (size_t i = 0; i < COUNT(under_way); i++) {
        struct fixture fix;

        fixture_open(&fix, &(struct setup){0});
        under_way[i](&fix);
        now_ns = 100 * S;
        assert_int_equal(read_in_vain(&fix, READS), 0);
        now_ns += S;
        assert_int_equal(read_in_vain(&fix, FEW), 1);
        assert_int_equal(read_in_vain(&fix, READS), 0);
        now_ns += US;
        assert_int_equal(read_in_vain(&fix, READS), 0);
        now_ns += S;
        assert_int_equal(read_in_vain(&fix, FEW), 1);
        now_ns = 0;
        fixture_close(&fix);
    }
}

/* Where the launcher reports more ranks than cores: soon. */
static void test_in_a_crowd_it_is_a_matter_of_reads(void **state)
{
    struct fixture fix;

    (void)state;
    crowd_open(&fix, &(struct setup){0});
    now_ns = 100 * S;
    assert_in_range(read_in_vain(&fix, READS), READS / 100, READS);
    now_ns = 0;
    fixture_close(&fix);
}

static void test_whatever_is_under_way(void **state)
{
    static const struct setup setups[] = {
        {0},
        {.threading = FI_THREAD_SAFE},
        {.wait = FI_WAIT_FD},
        {.wait = FI_WAIT_YIELD},
        {.caps = FI_RMA, .threading = FI_THREAD_COMPLETION},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(setups); i++)
        try_all(&setups[i], queue_looks, COUNT(queue_looks));
}

/* The user's own setting overrides the launcher's. */
static void test_whom_it_is_told(void **state)
{
    struct fixture fix;

    (void)state;
    assert_int_equal(setenv("MBX_OVERSUBSCRIBED", "no", 1), 0);
    crowd_open(&fix, &(struct setup){0});
    now_ns = 100 * S;
    assert_int_equal(read_in_vain(&fix, READS), 0);
    now_ns = 0;
    fixture_close(&fix);
    assert_int_equal(setenv("MBX_OVERSUBSCRIBED", "yes", 1), 0);
    fixture_open(&fix, &(struct setup){0});
    assert_int_equal(unsetenv("MBX_OVERSUBSCRIBED"), 0);
    now_ns = 100 * S;
    assert_in_range(read_in_vain(&fix, READS), READS / 100, READS);
    now_ns = 0;
    fixture_close(&fix);
}

/* A read that finds something restarts the count: a client that is served keeps the core. */
static void test_a_thread_that_finds_something_keeps_the_core(void **state)
{
    struct fixture fix;

    (void)state;
    crowd_open(&fix, &(struct setup){0});
    fixture_arrived(&fix, 1, 0);
    yields = 0;
    for (uint64_t i = 0; i < READS / FEW; i++) {
        struct fi_cq_tagged_entry entry;
        uint64_t word;

        assert_int_equal(
            fi_trecv(EP(fix, 0), &word, sizeof word, NULL, fix.addr[0], TAG, 0, &word), 0);
        for (int k = 0; k < FEW / 2; k++)
            look_by_read(&fix);
        inject_word(&fix, 0, 0, TAG, i);
        while (fi_cq_read(fix.node[0].cq, &entry, 1) != 1)
            continue;
    }
    assert_int_equal(yields, 0);
    fixture_close(&fix);
}

/* ---- counters ---------------------------------------------------------------------------- */

static const struct setup counted[] = {
    {.counts = FI_SEND | FI_RECV},
    {.counts = FI_SEND | FI_RECV, .threading = FI_THREAD_SAFE},
};

static void test_counters_that_stand_still(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counted); i++)
        try_all(&counted[i], counter_looks, COUNT(counter_looks));
}

static void test_a_thread_that_sees_a_counter_change_keeps_the_core(void **state)
{
    struct fixture fix;
    struct fid_cntr *c;

    (void)state;
    crowd_open(&fix, &counted[0]);
    c = fix.node[0].cntr[NODE_RECVS];
    yields = 0;
    for (uint64_t i = 1; i < LOOKS; i++) {
        assert_int_equal(fi_cntr_add(c, 1), 0);
        assert_int_equal(fi_cntr_read(c), i);
        assert_int_equal(fi_cntr_read(c), i);
    }
    assert_int_equal(yields, 0);
    fixture_close(&fix);
}

/* ---- messages --------------------------------------------------------------------------- */

/* Sends a message of several packets to a peer that has no receive.  Is it complete? */
static bool leaves_at_once(struct fixture *fix)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n = 0;

    fixture_arrived(fix, 0, 1);
    assert_int_equal(
        fi_tsend(EP(*fix, 0), content, SEVERAL, NULL, fix->addr[1], TAG, (void *)(uintptr_t)1),
        0);
    for (int i = 0; i < FEW && n != 1; i++)
        n = fi_cq_read(fix->node[0].cq, &entry, 1);
    return n == 1;
}

/* While its receiver has no core, the message does not wait for space; the receiver reads
 * it. */
static void test_several_packets_in_a_crowd(void **state)
{
    static const struct setup setup = {.send_flags = FI_COMPLETION};
    struct fixture fix;

    (void)state;
    if (!fixture_has_shm())
        return;
    fixture_open(&fix, &setup);
    assert_true(leaves_at_once(&fix));
    fixture_close(&fix);
    crowd_open(&fix, &setup);
    assert_false(leaves_at_once(&fix));
    fixture_close(&fix);
    assert_int_equal(setenv("MBX_OVERSUBSCRIBED", "no", 1), 0);
    crowd_open(&fix, &setup);
    assert_int_equal(unsetenv("MBX_OVERSUBSCRIBED"), 0);
    assert_true(leaves_at_once(&fix));
    fixture_close(&fix);
}

/* ---- sets, event queues, refused sends -----------------------------------------------------
 */

static void test_poll_sets_without_anything(void **state)
{
    struct fi_poll_attr attr = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(states); i++) {
        struct fid_poll *set;
        struct fixture fix;
        void *found;

        crowd_open(&fix, &counted[0]);
        states[i](&fix);
        crowd_begins();
        assert_int_equal(fi_poll_open(fix.domain, &attr, &set), 0);
        crowd_ends();
        assert_int_equal(fi_poll_add(set, &fix.node[0].cq->fid, 0), 0);
        assert_int_equal(fi_poll_add(set, &fix.node[0].cntr[NODE_RECVS]->fid, 0), 0);
        fi_poll(set, &found, 1); /* the counter may have changed */
        yields = 0;
        for (int k = 0; k < LOOKS; k++)
            assert_int_equal(fi_poll(set, &found, 1), 0);
        assert_in_range(yields, LEAST, LOOKS);
        assert_int_equal(fi_close(&set->fid), 0);
        fixture_close(&fix);
    }
}

static void test_event_queues_without_anything(void **state)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_eq *eq;
    struct fixture fix;
    uint32_t event;
    char entry[64];

    (void)state;
    crowd_open(&fix, &(struct setup){0});
    crowd_begins();
    assert_int_equal(fi_eq_open(fix.fabric, &attr, &eq, NULL), 0);
    crowd_ends();
    yields = 0;
    for (int i = 0; i < LOOKS; i++)
        assert_int_equal(fi_eq_read(eq, &event, entry, sizeof entry, 0), -FI_EAGAIN);
    assert_in_range(yields, LEAST, LOOKS);
    assert_int_equal(fi_close(&eq->fid), 0);
    fixture_close(&fix);
}

/* The client retries sends again and again without reading a queue. */
static void test_sends_that_are_refused(void **state)
{
    struct fixture fix;
    ssize_t err;

    (void)state;
    assert_int_equal(setenv("MBX_REQUESTS", "64", 1), 0);
    crowd_open(&fix, &(struct setup){0});
    assert_int_equal(unsetenv("MBX_REQUESTS"), 0);
    do
        err = fi_tsend(EP(fix, 0), content, LONG, NULL, fix.addr[1], TAG, NULL);
    while (err == 0);
    yields = 0;
    for (int i = 0; i < LOOKS; i++) {
        assert_int_equal(err, -FI_EAGAIN);
        err = fi_tsend(EP(fix, 0), content, LONG, NULL, fix.addr[1], TAG, NULL);
    }
    assert_in_range(yields, LEAST, LOOKS);
    fixture_close(&fix);
}

/* Posts receives until one is refused; returns the error. */
static ssize_t post_all(struct fixture *fix)
{
    static char bytes[8];
    ssize_t err;

    do
        err = fi_trecv(EP(*fix, 0), bytes, sizeof bytes, NULL, fix->addr[1], TAG, 0, NULL);
    while (err == 0);
    return err;
}

/* The receives wait for their messages: a client that retries would do so for ever.  A send in
 * progress ends. */
static void test_receives_that_are_refused(void **state)
{
    struct fixture fix;

    (void)state;
    assert_int_equal(setenv("MBX_REQUESTS", "64", 1), 0);
    fixture_open(&fix, &(struct setup){0});
    assert_int_equal(unsetenv("MBX_REQUESTS"), 0);
    assert_int_equal(fi_tsend(EP(fix, 0), content, LONG, NULL, fix.addr[1], TAG, NULL), 0);
    assert_int_equal(post_all(&fix), -FI_EAGAIN);
    assert_int_equal(fi_trecv(EP(fix, 1), recv_buf, LONG, NULL, fix.addr[0], TAG, 0, NULL), 0);
    expect_recv(&fix, 1, NULL, LONG, TAG);
    expect_send(&fix, 0, NULL);
    assert_int_equal(post_all(&fix), -FI_ENOMEM);
    assert_int_equal(post_all(&fix), -FI_ENOMEM);
    /* there is space again when a message has come */
    inject_word(&fix, 1, 0, TAG, 1);
    expect_recv(&fix, 0, NULL, 8, TAG);
    assert_int_equal(post_all(&fix), -FI_ENOMEM);
    fixture_close(&fix);
}

/* ---- blocking calls ------------------------------------------------------------------------
 */

/* A blocking call that times out after so many ms. */
typedef void block_fn(struct fixture *fix, int timeout_ms);

static void block_in_sread(struct fixture *fix, int timeout_ms)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_sread(fix->node[0].cq, &entry, 1, NULL, timeout_ms), -FI_EAGAIN);
}

static void block_in_sreadfrom(struct fixture *fix, int timeout_ms)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;

    assert_int_equal(fi_cq_sreadfrom(fix->node[0].cq, &entry, 1, &source, NULL, timeout_ms),
                     -FI_EAGAIN);
}

static void block_in_cntr_wait(struct fixture *fix, int timeout_ms)
{
    assert_int_equal(fi_cntr_wait(fix->node[0].cntr[NODE_RECVS], 1000, timeout_ms),
                     -FI_ETIMEDOUT);
}

/* Before a blocking call sleeps it polls for some time; in a crowd it also yields in that time,
 * and everywhere at the end of it. */
static void block(const struct setup *setup, block_fn *in)
{
    for (size_t i = 0; i < COUNT(states); i++) {
        struct fixture fix;

        crowd_open(&fix, setup);
        states[i](&fix);
        now_ns = 100 * S;
        tick_ns = 100 * NS;
        yields = sleeps = 0;
        in(&fix, 1);
        if (yields == 0 || yields + sleeps < 2)
            print_error("state %zu: %u yields, %u sleeps\n", i, yields, sleeps);
        assert_int_not_equal(yields, 0);
        assert_in_range(yields + sleeps, 2, UINT32_MAX);
        now_ns = tick_ns = 0;
        fixture_close(&fix);
    }
}

static void test_blocking_reads(void **state)
{
    static const struct setup setups[] = {
        {.wait = FI_WAIT_UNSPEC},
        {.wait = FI_WAIT_FD},
        {.wait = FI_WAIT_YIELD},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(setups); i++) {
        block(&setups[i], block_in_sread);
        block(&setups[i], block_in_sreadfrom);
    }
}

static void test_waits_for_counters(void **state)
{
    static const struct setup setups[] = {
        {.counts = FI_SEND | FI_RECV},
        {.counts = FI_SEND | FI_RECV, .cntr_wait = FI_WAIT_FD},
        {.counts = FI_SEND | FI_RECV, .cntr_wait = FI_WAIT_YIELD},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(setups); i++)
        block(&setups[i], block_in_cntr_wait);
}

/* A wait set sleeps at once, whoever has a core. */
static void test_wait_sets(void **state)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
    struct fid_cq *cq;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &(struct setup){0});
    assert_int_equal(fi_wait_open(fix.fabric, &attr, &cq_attr.wait_set), 0);
    assert_int_equal(fi_cq_open(fix.domain, &cq_attr, &cq, NULL), 0);
    now_ns = 100 * S;
    sleeps = 0;
    assert_int_equal(fi_wait(cq_attr.wait_set, 1), -FI_ETIMEDOUT);
    assert_int_equal(sleeps, 1);
    now_ns = 0;
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&cq_attr.wait_set->fid), 0);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_it_is_a_matter_of_time),
        cmocka_unit_test(test_in_a_crowd_it_is_a_matter_of_reads),
        cmocka_unit_test(test_whom_it_is_told),
        cmocka_unit_test(test_whatever_is_under_way),
        cmocka_unit_test(test_a_thread_that_finds_something_keeps_the_core),
        cmocka_unit_test(test_counters_that_stand_still),
        cmocka_unit_test(test_a_thread_that_sees_a_counter_change_keeps_the_core),
        cmocka_unit_test(test_several_packets_in_a_crowd),
        cmocka_unit_test(test_poll_sets_without_anything),
        cmocka_unit_test(test_event_queues_without_anything),
        cmocka_unit_test(test_sends_that_are_refused),
        cmocka_unit_test(test_receives_that_are_refused),
        cmocka_unit_test(test_blocking_reads),
        cmocka_unit_test(test_waits_for_counters),
        cmocka_unit_test(test_wait_sets),
    };

    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    unsetenv("MBX_OVERSUBSCRIBED");
    setenv("MBX_CLOSE_TIMEOUT", "1ms", 1); /* do not wait for peers that have not answered */
    setenv("MBX_LOG_LEVEL", "error", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
