/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_wait_test.c - waiting: a sleeping thread is woken for what it waits for, by blocking
 * reads, descriptors, signals, poll sets and wait sets; and automatic progress.
 *
 * A lost wake-up is a wait of PATIENCE_MS, and fails the test.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG (1 << 20)

static int contexts[8]; /* their addresses are the op contexts */
static char big_out[BIG], big_in[BIG];

/* ---- two that wait for each other ---------------------------------------------------------
 */

/* How each side gets its next completion. */
typedef ssize_t get_fn(struct fixture *fix, int node, struct fi_cq_tagged_entry *entry);

struct side {
    struct fixture *fix;
    int node;
    get_fn *get;
    int rounds;
    bool untagged, many;
    char buf[1 << 16];
};

static ssize_t get_by_sread(struct fixture *fix, int node, struct fi_cq_tagged_entry *entry)
{
    return fi_cq_sread(fix->node[node].cq, entry, 1, NULL, PATIENCE_MS);
}

static ssize_t get_by_descriptor(struct fixture *fix, int node,
                                 struct fi_cq_tagged_entry *entry)
{
    struct fid *fid = &fix->node[node].cq->fid;
    struct pollfd polled = {.events = POLLIN};

    if (fi_control(fid, FI_GETWAIT, &polled.fd) != 0)
        return -FI_EOTHER;
    for (;;) {
        ssize_t n = fi_cq_read(fix->node[node].cq, entry, 1);

        if (n != -FI_EAGAIN)
            return n;
        if (fi_trywait(fix->fabric, &fid, 1) != 0)
            continue;
        if (poll(&polled, 1, PATIENCE_MS) != 1)
            return -FI_ETIMEDOUT;
    }
}

static bool side_post(struct side *s, uint64_t *word)
{
    struct iovec iov = {s->buf, sizeof s->buf};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};

    if (s->many)
        return fi_recvmsg(EP(*s->fix, s->node), &msg, FI_MULTI_RECV) == 0;
    if (s->untagged)
        return fi_recv(EP(*s->fix, s->node), word, 8, NULL, FI_ADDR_UNSPEC, word) == 0;
    return fi_trecv(EP(*s->fix, s->node), word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, word) == 0;
}

static bool side_send(struct side *s, uint64_t word)
{
    fi_addr_t to = s->fix->addr[1 - s->node];
    ssize_t err;

    do
        err = s->untagged || s->many ? fi_inject(EP(*s->fix, s->node), &word, 8, to)
                                     : fi_tinject(EP(*s->fix, s->node), &word, 8, to, 1);
    while (err == -FI_EAGAIN);
    return err == 0;
}

static void *play(void *arg)
{
    struct side *s = arg;
    uint64_t word = 0;

    for (int i = 0; i < s->rounds; i++) {
        struct fi_cq_tagged_entry e = {0};

        if (!s->many || i == 0)
            thread_check(side_post(s, &word), "the receive was not posted");
        thread_check(s->node == 1 || side_send(s, (uint64_t)i), "the message was not sent");
        thread_check(s->get(s->fix, s->node, &e) == 1, "there was no message in time");
        if (s->many)
            memcpy(&word, e.buf, sizeof word);
        thread_check(word == (uint64_t)i, "it was another message");
        thread_check(s->node == 0 || side_send(s, (uint64_t)i), "the answer was not sent");
    }
    return NULL;
}

static void ping_pong(const struct setup *setup, get_fn *get, bool untagged, bool many)
{
    static struct side sides[2];
    struct fixture fix;
    pthread_t thread;

    fixture_open(&fix, setup);
    for (int i = 0; i < 2; i++) {
        sides[i].fix = &fix;
        sides[i].node = i;
        sides[i].get = get;
        sides[i].rounds = 1000;
        sides[i].untagged = untagged;
        sides[i].many = many;
    }
    thread = thread_start(play, &sides[1]);
    play(&sides[0]);
    pthread_join(thread, NULL);
    fixture_close(&fix);
}

#define MANY (FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_SOURCE)

static void a_blocking_read_wakes(void **state)
{
    static const struct setup setups[] = {
        {.wait = FI_WAIT_UNSPEC, .threading = FI_THREAD_ENDPOINT},
        {.wait = FI_WAIT_YIELD, .threading = FI_THREAD_SAFE},
        {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE},
        {.wait = FI_WAIT_UNSPEC, .progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++)
        ping_pong(&setups[i], get_by_sread, i % 2, false);
}

static void a_descriptor_wakes(void **state)
{
    static const struct setup safe = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
    static const struct setup domain = {.wait = FI_WAIT_FD, .threading = FI_THREAD_ENDPOINT};

    (void)state;
    ping_pong(&safe, get_by_descriptor, false, false);
    ping_pong(&domain, get_by_descriptor, true, false);
}

/* The provider matches these messages itself, so nothing completes before it polls. */
static void what_a_buffer_for_many_takes_wakes(void **state)
{
    static const struct setup setups[] = {
        {.caps = MANY, .wait = FI_WAIT_UNSPEC, .threading = FI_THREAD_SAFE},
        {.caps = MANY, .wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE},
    };

    (void)state;
    ping_pong(&setups[0], get_by_sread, true, true);
    ping_pong(&setups[1], get_by_descriptor, true, true);
}

static void a_blocking_read_gives_up(void **state)
{
    static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD};
    static const struct setup none;
    struct fi_cq_tagged_entry e;
    fi_addr_t source;
    struct fixture fix;

    (void)state;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        struct setup setup = {.wait = objects[i]};

        fixture_open(&fix, &setup);
        assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, 0), -FI_EAGAIN);
        assert_int_equal(fi_cq_sreadfrom(fix.node[1].cq, &e, 1, &source, NULL, 5), -FI_EAGAIN);
        fixture_close(&fix);
    }
    fixture_open(&fix, &none);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, 1), -FI_EINVAL);
    assert_int_equal(fi_cq_signal(fix.node[1].cq), -FI_EINVAL);
    fixture_close(&fix);
}

/* A long message takes several steps on both sides; both sleep. */
static void *read_big(void *arg)
{
    struct fixture *fix = arg;
    struct fi_cq_tagged_entry e;

    thread_check(fi_cq_sread(fix->node[1].cq, &e, 1, NULL, PATIENCE_MS) == 1, "nothing came");
    thread_check(e.len == BIG, "it was shorter");
    return NULL;
}

static void both_sleep_over_a_long_message(void **state)
{
    struct setup setup = {.wait = FI_WAIT_UNSPEC, .threading = FI_THREAD_SAFE};
    struct fi_cq_tagged_entry e;
    pthread_t thread;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    pattern_fill(big_out, BIG, 1);
    memset(big_in, 0, BIG);
    assert_int_equal(fi_trecv(EP(fix, 1), big_in, BIG, NULL, fix.addr[0], 1, 0, NULL), 0);
    thread = thread_start(read_big, &fix);
    assert_int_equal(fi_tsend(EP(fix, 0), big_out, BIG, NULL, fix.addr[1], 1, NULL), 0);
    assert_int_equal(fi_cq_sread(fix.node[0].cq, &e, 1, NULL, PATIENCE_MS), 1);
    pthread_join(thread, NULL);
    assert_true(pattern_is(big_in, BIG, 1));
    fixture_close(&fix);
}

/* ---- threshold and signal -------------------------------------------------------------------
 */

static void a_threshold_is_waited_for(void **state)
{
    struct setup setup = {.wait = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD};
    struct fi_cq_tagged_entry e[8];
    fi_addr_t sources[8];
    uint64_t words[8];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    fixture_arrived(&fix, 0, 1); /* they have met, which takes the progress of both */
    for (unsigned i = 0; i < 8; i++)
        fi_trecv(EP(fix, 1), &words[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, &words[i]);
    for (unsigned i = 0; i < 5; i++)
        inject_word(&fix, 0, 1, i, i);
    assert_int_equal(
        fi_cq_sreadfrom(fix.node[1].cq, e, 8, sources, (void *)(uintptr_t)5, PATIENCE_MS), 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(e[i].tag, i);
        assert_int_equal(sources[i], fix.addr[0]);
    }
    inject_word(&fix, 0, 1, 5, 5);
    /* fewer entries than the threshold: the call returns what is there at the timeout */
    assert_int_equal(fi_cq_sread(fix.node[1].cq, e, 8, (void *)(uintptr_t)2, 200), 1);
    /* a threshold above the size of the array */
    for (unsigned i = 6; i < 8; i++)
        inject_word(&fix, 0, 1, i, i);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, e, 2, (void *)(uintptr_t)20, PATIENCE_MS), 2);
    fixture_close(&fix);
}

static void *signal_it(void *arg)
{
    thread_check(fi_cq_signal(arg) == 0, "fi_cq_signal");
    return NULL;
}

static void a_signal_ends_a_wait(void **state)
{
    struct setup setup = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
    struct pollfd polled = {.events = POLLIN};
    struct fi_cq_tagged_entry e;
    struct fid *fid;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    for (int i = 0; i < 50; i++) {
        pthread_t thread = thread_start(signal_it, fix.node[1].cq);

        assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, -1), -FI_EAGAIN);
        pthread_join(thread, NULL);
    }
    fid = &fix.node[1].cq->fid;
    assert_int_equal(fi_control(fid, FI_GETWAIT, &polled.fd), 0);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    assert_int_equal(poll(&polled, 1, 0), 0);
    assert_int_equal(fi_cq_signal(fix.node[1].cq), 0);
    assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), -FI_EAGAIN); /* that was the signal */
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    assert_int_equal(poll(&polled, 1, 0), 0);
    fixture_close(&fix);
}

/* ---- objects
 * --------------------------------------------------------------------------------- */

static void wait_objects_are_what_was_asked_for(void **state)
{
    static const struct setup plain;
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_MUTEX_COND};
    struct pollfd fds[2];
    struct fi_wait_pollfd polled = {.nfds = 0, .fd = fds};
    enum fi_wait_obj object;
    struct fid_cq *cq;
    struct fixture fix;
    int fd;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_cq_open(fix.domain, &attr, &cq, NULL), -FI_ENOSYS);
    attr.wait_obj = (enum fi_wait_obj)99;
    assert_int_equal(fi_cq_open(fix.domain, &attr, &cq, NULL), -FI_EINVAL);
    attr.wait_obj = FI_WAIT_SET; /* and no set */
    assert_int_equal(fi_cq_open(fix.domain, &attr, &cq, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_cond = (enum fi_cq_wait_cond)7};
    assert_int_equal(fi_cq_open(fix.domain, &attr, &cq, NULL), -FI_EINVAL);
    for (int o = FI_WAIT_NONE; o <= FI_WAIT_POLLFD; o++) {
        if (o == FI_WAIT_SET || o == FI_WAIT_MUTEX_COND)
            continue;
        attr = (struct fi_cq_attr){.wait_obj = (enum fi_wait_obj)o};
        assert_int_equal(fi_cq_open(fix.domain, &attr, &cq, NULL), 0);
        assert_int_equal(fi_control(&cq->fid, FI_GETWAITOBJ, &object), 0);
        assert_int_equal(object, o);
        if (o == FI_WAIT_POLLFD) {
            assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &polled), -FI_ETOOSMALL);
            assert_int_equal(polled.nfds, 1);
            assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &polled), 0);
            assert_int_equal(fds[0].events, POLLIN);
        } else {
            assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &fd),
                             o == FI_WAIT_FD ? 0 : -FI_ENOSYS);
        }
        assert_int_equal(fi_close(&cq->fid), 0);
    }
    fixture_close(&fix);
}

/* ---- sets
 * -------------------------------------------------------------------------------------- */

static void a_poll_set_names_who_has_something(void **state)
{
    static const struct setup plain;
    struct fi_poll_attr attr = {0};
    struct fid_poll *set;
    uint64_t words[2];
    void *found[4];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    fix.node[0].cq->fid.context = &contexts[0];
    fix.node[1].cq->fid.context = &contexts[1];
    assert_int_equal(fi_poll_open(fix.domain, &attr, &set), 0);
    assert_int_equal(fi_poll_add(set, &fix.node[0].cq->fid, 0), 0);
    assert_int_equal(fi_poll_add(set, &fix.node[1].cq->fid, 0), 0);
    assert_int_equal(fi_poll_add(set, &fix.node[1].cq->fid, 1), -FI_EBADFLAGS);
    assert_int_equal(fi_poll_add(set, &fix.domain->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_poll(set, found, 4), 0);
    for (int i = 0; i < 2; i++)
        fi_trecv(EP(fix, i), &words[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &words[i]);
    inject_word(&fix, 0, 1, 1, 7);
    while (fi_poll(set, found, 4) == 0)
        continue;
    assert_ptr_equal(found[0], &contexts[1]);
    assert_int_equal(fi_poll(set, found, 4), 1); /* until it has been read */
    inject_word(&fix, 1, 0, 1, 8);
    while (fi_poll(set, found, 4) != 2)
        continue;
    assert_int_equal(fi_poll(set, found, 1), 1); /* there is space for one */
    expect_recv(&fix, 1, &words[1], 8, 1);
    expect_recv(&fix, 0, &words[0], 8, 1);
    assert_int_equal(fi_poll(set, found, 4), 0);
    assert_int_equal(fi_poll_del(set, &fix.node[2].cq->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_poll_del(set, &fix.node[1].cq->fid, 0), 0);
    assert_int_equal(fi_close(&set->fid), 0);
    fixture_close(&fix);
}

static void a_counter_in_a_poll_set_tells_changes(void **state)
{
    static const struct setup plain;
    struct fi_cntr_attr cntr_attr = {0};
    struct fi_poll_attr attr = {0};
    struct fid_cntr *cntr;
    struct fid_poll *set;
    void *found[2];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_cntr_open(fix.domain, &cntr_attr, &cntr, &contexts[5]), 0);
    assert_int_equal(fi_poll_open(fix.domain, &attr, &set), 0);
    assert_int_equal(fi_poll_add(set, &cntr->fid, 0), 0);
    assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
    assert_int_equal(fi_poll(set, found, 2), 0);
    assert_int_equal(fi_cntr_add(cntr, 1), 0);
    assert_int_equal(fi_poll(set, found, 2), 1);
    assert_ptr_equal(found[0], &contexts[5]);
    assert_int_equal(fi_poll(set, found, 2), 0); /* that was reported already */
    assert_int_equal(fi_close(&set->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
    fixture_close(&fix);
}

/* Node 0 has a second queue, which signals the set. */
struct with_set {
    struct fixture fix;
    struct fid_wait *set;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_av *av;
    fi_addr_t addr;       /* of ep, for the nodes */
    atomic_bool is_taken; /* the message of this round */
};

static void with_set_open(struct with_set *s, enum fi_wait_obj object)
{
    static const struct setup plain = {.threading = FI_THREAD_SAFE};
    struct fi_wait_attr attr = {.wait_obj = object};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
    struct fi_eq_attr eq = {.flags = FI_WRITE, .wait_obj = FI_WAIT_SET};
    struct fi_av_attr av = {0};
    char address[FIXTURE_ADDRESS];
    size_t len = sizeof address;

    fixture_open(&s->fix, &plain);
    assert_int_equal(fi_wait_open(s->fix.fabric, &attr, &s->set), 0);
    cq.wait_set = eq.wait_set = s->set;
    assert_int_equal(fi_cq_open(s->fix.domain, &cq, &s->cq, NULL), 0);
    assert_int_equal(fi_eq_open(s->fix.fabric, &eq, &s->eq, NULL), 0);
    assert_int_equal(fi_av_open(s->fix.domain, &av, &s->av, NULL), 0);
    assert_int_equal(fi_endpoint(s->fix.domain, s->fix.info, &s->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(s->ep, &s->av->fid, 0), 0);
    assert_int_equal(fi_enable(s->ep), 0);
    assert_int_equal(fi_getname(&s->ep->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(s->fix.node[0].av, address, 1, &s->addr, 0, NULL), 1);
}

static void with_set_close(struct with_set *s)
{
    assert_int_equal(fi_close(&s->ep->fid), 0);
    assert_int_equal(fi_close(&s->av->fid), 0);
    assert_int_equal(fi_close(&s->set->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&s->cq->fid), 0);
    assert_int_equal(fi_close(&s->eq->fid), 0);
    assert_int_equal(fi_close(&s->set->fid), 0);
    fixture_close(&s->fix);
}

static void *send_to_the_set(void *arg)
{
    struct with_set *s = arg;
    uint64_t word = 1;
    ssize_t err;

    do {
        err = fi_tinject(EP(s->fix, 0), &word, 8, s->addr, 1);
        fi_cq_read(s->fix.node[0].cq, NULL, 0);
    } while (err == -FI_EAGAIN);
    thread_check(err == 0, "the message was not sent");
    while (!atomic_load(&s->is_taken)) /* the two may still have to connect */
        fi_cq_read(s->fix.node[0].cq, NULL, 0);
    return NULL;
}

static void a_wait_set_wakes_for_any_member(void **state)
{
    struct fi_cq_tagged_entry e;
    struct with_set s;
    uint32_t event;
    uint64_t word;

    (void)state;
    with_set_open(&s, FI_WAIT_UNSPEC);
    assert_int_equal(fi_wait(s.set, 5), -FI_ETIMEDOUT);
    assert_int_equal(fi_cq_sread(s.cq, &e, 1, NULL, 5), -FI_EINVAL);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;

        assert_int_equal(fi_trecv(s.ep, &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &word), 0);
        atomic_store(&s.is_taken, false);
        thread = thread_start(send_to_the_set, &s);
        assert_int_equal(fi_wait(s.set, PATIENCE_MS), 0);
        assert_int_equal(fi_cq_read(s.cq, &e, 1), 1);
        atomic_store(&s.is_taken, true);
        pthread_join(thread, NULL);
    }
    assert_int_equal(fi_eq_write(s.eq, 3, "x", 1, 0), 1);
    assert_int_equal(fi_wait(s.set, PATIENCE_MS), 0);
    assert_int_equal(fi_eq_read(s.eq, &event, &word, 8, 0), 1);
    assert_int_equal(fi_wait(s.set, 0), -FI_ETIMEDOUT);
    with_set_close(&s);
}

static void a_wait_set_has_a_descriptor(void **state)
{
    struct pollfd polled = {.events = POLLIN};
    struct fi_wait_attr bad = {.wait_obj = FI_WAIT_SET};
    struct fi_cq_tagged_entry e;
    struct fid_wait *set;
    struct with_set s;
    struct fid *fid;
    uint64_t word;

    (void)state;
    with_set_open(&s, FI_WAIT_FD);
    assert_int_equal(fi_wait_open(s.fix.fabric, &bad, &set), -FI_EINVAL);
    fid = &s.set->fid;
    assert_int_equal(fi_control(fid, FI_GETWAIT, &polled.fd), 0);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        ssize_t n;

        assert_int_equal(fi_trecv(s.ep, &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &word), 0);
        atomic_store(&s.is_taken, false);
        thread = thread_start(send_to_the_set, &s);
        while ((n = fi_cq_read(s.cq, &e, 1)) == -FI_EAGAIN)
            if (fi_trywait(s.fix.fabric, &fid, 1) == 0)
                assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
        assert_int_equal(n, 1);
        atomic_store(&s.is_taken, true);
        pthread_join(thread, NULL);
    }
    with_set_close(&s);
}

/* ---- event queues
 * ------------------------------------------------------------------------------- */

static void *write_an_event(void *arg)
{
    thread_check(fi_eq_write(arg, 9, "event", 6, 0) == 6, "fi_eq_write");
    return NULL;
}

static void an_event_queue_tells_what_was_written(void **state)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct pollfd polled = {.events = POLLIN};
    static const struct setup plain;
    struct fi_eq_err_entry error;
    struct fid_eq *eq, *mute;
    pthread_t thread;
    uint32_t event;
    struct fid *fid;
    char buf[8];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_eq_open(fix.fabric, &attr, &eq, NULL), 0);
    fid = &eq->fid;
    assert_int_equal(fi_control(fid, FI_GETWAIT, &polled.fd), 0);
    assert_int_equal(fi_eq_read(eq, &event, buf, sizeof buf, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_sread(eq, &event, buf, sizeof buf, 1, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), 0);
    thread = thread_start(write_an_event, eq);
    assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    assert_int_equal(fi_trywait(fix.fabric, &fid, 1), -FI_EAGAIN);
    assert_int_equal(fi_eq_read(eq, &event, buf, 3, 0), -FI_ETOOSMALL);
    assert_int_equal(fi_eq_read(eq, &event, buf, sizeof buf, FI_PEEK), 6);
    assert_int_equal(fi_eq_read(eq, &event, buf, sizeof buf, FI_MORE), -FI_EBADFLAGS);
    assert_int_equal(fi_eq_sread(eq, &event, buf, sizeof buf, -1, 0), 6);
    assert_string_equal(buf, "event");
    assert_int_equal(event, 9);
    pthread_join(thread, NULL);
    thread = thread_start(write_an_event, eq);
    assert_int_equal(fi_eq_sread(eq, &event, buf, sizeof buf, PATIENCE_MS, 0), 6);
    pthread_join(thread, NULL);
    assert_non_null(fi_eq_strerror(eq, FI_EINVAL, NULL, buf, sizeof buf));
    attr = (struct fi_eq_attr){.wait_obj = FI_WAIT_NONE};
    assert_int_equal(fi_eq_open(fix.fabric, &attr, &mute, NULL), 0);
    assert_int_equal(fi_eq_write(mute, 9, "event", 6, 0), -FI_EINVAL);
    assert_int_equal(fi_eq_sread(mute, &event, buf, sizeof buf, 1, 0), -FI_EINVAL);
    assert_int_equal(fi_close(&mute->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    fixture_close(&fix);
}

/* ---- progress by itself, and many threads
 * --------------------------------------------------------- */

/* Node 1 posts and then makes no calls; only node 0 reads.  The long message is read
 * nevertheless. */
static void a_message_arrives_while_nobody_looks(void **state)
{
    struct setup setup = {.progress = FI_PROGRESS_AUTO};
    struct fi_cq_tagged_entry e;
    struct fixture fix;
    ssize_t n;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fix.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    pattern_fill(big_out, BIG, 4);
    memset(big_in, 0, BIG);
    assert_int_equal(fi_trecv(EP(fix, 1), big_in, BIG, NULL, fix.addr[0], 1, 0, &contexts[1]),
                     0);
    assert_int_equal(fi_tsend(EP(fix, 0), big_out, BIG, NULL, fix.addr[1], 1, &contexts[0]), 0);
    while ((n = fi_cq_read(fix.node[0].cq, &e, 1)) == -FI_EAGAIN)
        sched_yield();
    assert_int_equal(n, 1);
    expect_recv(&fix, 1, &contexts[1], BIG, 1);
    assert_true(pattern_is(big_in, BIG, 4));
    fixture_close(&fix);
}

#define THREADS  4
#define MESSAGES 400

struct worker {
    struct fixture *fix;
    uint64_t number;
    atomic_uint *got; /* messages of this number, read by any thread */
};

/* All threads send to and receive from the same endpoint, and each reads any thread's
 * completions. */
static void *work(void *arg)
{
    struct worker *me = arg;
    struct fid_ep *ep = EP(*me->fix, 0);
    uint64_t words[2];

    for (unsigned i = 0; i < MESSAGES; i++) {
        struct fi_cq_tagged_entry e;
        ssize_t err;

        thread_check(
            fi_trecv(ep, &words[i % 2], 8, NULL, me->fix->addr[0], me->number, 0, me) == 0,
            "fi_trecv");
        while ((err = fi_tinject(ep, &words[0], 8, me->fix->addr[0], me->number)) == -FI_EAGAIN)
            continue;
        thread_check(err == 0, "fi_tinject");
        while (atomic_load(me->got) <= i) {
            ssize_t n = fi_cq_sread(me->fix->node[0].cq, &e, 1, NULL, 100);

            thread_check(n == 1 || n == -FI_EAGAIN, "fi_cq_sread");
            if (n == 1)
                atomic_fetch_add(((struct worker *)e.op_context)->got, 1);
        }
    }
    return NULL;
}

static void four_threads_share_an_endpoint(void **state)
{
    struct setup setup = {.threading = FI_THREAD_SAFE, .wait = FI_WAIT_UNSPEC};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    atomic_uint got[THREADS];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    for (unsigned i = 0; i < THREADS; i++) {
        atomic_init(&got[i], 0);
        workers[i] = (struct worker){&fix, i, &got[i]};
        threads[i] = thread_start(work, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(atomic_load(&got[i]), MESSAGES);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocking_read_wakes),
        cmocka_unit_test(a_descriptor_wakes),
        cmocka_unit_test(what_a_buffer_for_many_takes_wakes),
        cmocka_unit_test(a_blocking_read_gives_up),
        cmocka_unit_test(both_sleep_over_a_long_message),
        cmocka_unit_test(a_threshold_is_waited_for),
        cmocka_unit_test(a_signal_ends_a_wait),
        cmocka_unit_test(wait_objects_are_what_was_asked_for),
        cmocka_unit_test(a_poll_set_names_who_has_something),
        cmocka_unit_test(a_counter_in_a_poll_set_tells_changes),
        cmocka_unit_test(a_wait_set_wakes_for_any_member),
        cmocka_unit_test(a_wait_set_has_a_descriptor),
        cmocka_unit_test(an_event_queue_tells_what_was_written),
        cmocka_unit_test(a_message_arrives_while_nobody_looks),
        cmocka_unit_test(four_threads_share_an_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
