/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_test.c - two processes: every protocol, an early exit, a kill.
 *
 * The child opens its endpoint after the fork; addresses go through pipes.
 */
#include "cluster.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#define CONTEXT 91
#define LONG_TIME                                                                              \
    (-1) /* without end: a loaded machine may be slow, which is no fault of the library */

static const size_t sizes[] = {0, 8, 33, 300, 4000, 8192, 8193, 100000, 1000000};
#define LARGEST   1000000
#define SENDS_MAX 100000 /* more than any ring holds */

/* A child that fails prints a line and ends with status 1. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "process_test, child: %s, %ld\n", what, value);
    _exit(1);
}

struct pair {
    struct mbx_ep *ep;
    uint32_t other; /* peer number */
    pid_t child;
    int down, up; /* the parent's ends of the pipes */
};

typedef void child_fn(struct mbx_ep *ep, uint32_t parent, int down, int up);

static void child_main(const struct configuration *config, child_fn *run, int down, int up)
{
    /* the parent may be slow to receive messages under way */
    struct mbx_ep *ep =
        cluster_open_one(config, (const char *const[]){"CLOSE_TIMEOUT=900s", NULL});
    struct mbx_address mine, theirs;
    uint32_t parent;

    mbx_address_get(ep, &mine);
    check(write(up, &mine, sizeof mine) == sizeof mine, "write", errno);
    check(read(down, &theirs, sizeof theirs) == sizeof theirs, "read", errno);
    check(mbx_peer_add(ep, &theirs, &parent) == 0, "mbx_peer_add", 0);
    run(ep, parent, down, up);
    _exit(0);
}

static void pair_start(struct pair *pair, const struct configuration *config, child_fn *run)
{
    pair->child = test_fork(&pair->down, &pair->up);
    if (pair->child == 0)
        child_main(config, run, pair->down, pair->up);
}

/* Makes the child and an endpoint of ours peers of each other. */
static void pair_connect(struct pair *pair, struct mbx_ep *ep)
{
    struct mbx_address mine, theirs;

    pair->ep = ep;
    mbx_address_get(ep, &mine);
    assert_int_equal(write(pair->down, &mine, sizeof mine), sizeof mine);
    assert_int_equal(read(pair->up, &theirs, sizeof theirs), sizeof theirs);
    assert_int_equal(mbx_peer_add(ep, &theirs, &pair->other), 0);
}

/* Checks that the child has ended in this way. */
static void pair_ended(struct pair *pair, int status, int signal)
{
    if (signal != 0)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(pair->down);
    close(pair->up);
}

/* Waits for the child's end, and makes progress, because the child may need our answer. */
static void pair_end(struct pair *pair, int signal)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(pair->child, &status, WNOHANG)) == 0) {
        mbx_progress(pair->ep);
        sched_yield();
    }
    assert_int_equal(pid, pair->child);
    pair_ended(pair, status, signal);
}

/* Waits for the child's end without progress. */
static void pair_end_unseen(struct pair *pair)
{
    int status;

    assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
    pair_ended(pair, status, 0);
}

static void go(int fd)
{
    assert_int_equal(write(fd, "g", 1), 1);
}

static void await(int fd)
{
    char byte;

    check(read(fd, &byte, 1) == 1, "the other side has gone", errno);
}

/* ---- echo ---- */

static void receive(struct mbx_ep *ep, uint32_t from, uint64_t tag, void *buf, size_t size)
{
    struct mbx_completion done = {.error = 0};
    mbx_request recv;
    int err = mbx_recv(ep, from, CONTEXT, tag, 0, buf, size, NULL, &recv);

    if (err == 0)
        err = mbx_wait(ep, recv, LONG_TIME, &done);
    check(err == 0 && done.error == 0 && done.received == size, "receive", err);
}

static void send_all(struct mbx_ep *ep, uint32_t to, uint64_t tag, const void *buf, size_t size)
{
    struct mbx_completion done = {.error = 0};
    mbx_request send;
    int err = (tag % 2 ? mbx_ssend : mbx_send)(ep, to, CONTEXT, tag, buf, size, NULL, &send);

    if (err == 0)
        err = mbx_wait(ep, send, LONG_TIME, &done);
    check(err == 0 && done.error == 0, "send", err);
}

static void echo(struct mbx_ep *ep, uint32_t parent, int down, int up)
{
    unsigned char *buf = malloc(LARGEST);

    (void)down;
    (void)up;
    for (uint64_t i = 0; i < ARRAY_COUNT(sizes) * 4; i++) {
        receive(ep, parent, i, buf, sizes[i / 4]);
        send_all(ep, parent, i, buf, sizes[i / 4]);
    }
    check(mbx_close(ep) == 0, "mbx_close", 0);
    free(buf);
}

static void test_every_protocol_there_and_back(void **state)
{
    unsigned char *buf = malloc(LARGEST);
    struct pair pair;
    struct cluster cl;

    pair_start(&pair, *state, echo);
    cluster_open(&cl, *state, 1, NULL);
    pair_connect(&pair, cl.eps[0]);
    for (uint64_t i = 0; i < ARRAY_COUNT(sizes) * 4; i++) {
        const unsigned char *data = seeded_bytes((unsigned)i * 64, LARGEST);

        memset(buf, 0, sizes[i / 4]);
        send_all(pair.ep, pair.other, i, data, sizes[i / 4]);
        receive(pair.ep, pair.other, i, buf, sizes[i / 4]);
        assert_memory_equal(buf, data, sizes[i / 4]);
    }
    pair_end(&pair, 0);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, 0);
    cluster_close(&cl);
    free(buf);
}

/* ---- the sender exits as soon as its sends complete ---- */

static void send_and_leave(struct mbx_ep *ep, uint32_t parent, int down, int up)
{
    (void)down;
    (void)up;
    for (uint64_t i = 0; i < 5; i++)
        send_all(ep, parent, 2 * i, seeded_bytes((unsigned)i * 64, LARGEST), 30);
    mbx_close(ep);
}

static void send_and_drop(struct mbx_ep *ep, uint32_t parent, int down, int up)
{
    (void)down;
    (void)up;
    for (uint64_t i = 0; i < 5; i++)
        send_all(ep, parent, 2 * i, seeded_bytes((unsigned)i * 64, LARGEST), 30);
    _exit(0); /* without closing the endpoint */
}

static void exits_early(const struct configuration *config, child_fn *run)
{
    bool is_deferred = config_window(config) < 5; /* then a send completes by its receive */
    unsigned char buf[30];
    struct pair pair;
    struct cluster cl;

    if (config_is_network(config))
        skip(); /* nothing leaves before the first contact is answered */
    pair_start(&pair, config, run);
    cluster_open(&cl, config, 1, NULL);
    pair_connect(&pair, cl.eps[0]);
    if (!is_deferred)
        pair_end_unseen(&pair);
    for (uint64_t i = 0; i < 5; i++) {
        receive(pair.ep, pair.other, 2 * i, buf, sizeof buf);
        assert_memory_equal(buf, seeded_bytes((unsigned)i * 64, LARGEST), sizeof buf);
    }
    if (is_deferred)
        pair_end(&pair, 0);
    cluster_close(&cl);
}

static void test_messages_outlive_a_process_that_closed(void **state)
{
    exits_early(*state, send_and_leave);
}

static void test_messages_outlive_a_process_that_did_not_close(void **state)
{
    exits_early(*state, send_and_drop);
}

/* ---- a kill ---- */

/* Floods the parent with messages of all sizes until it is killed. */
static void flood(struct mbx_ep *ep, uint32_t parent, int down, int up)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    const unsigned char *data = seeded_bytes(0, LARGEST);

    (void)down;
    for (uint64_t i = 0;; i++) {
        if (i == 200)
            check(write(up, "f", 1) == 1, "write", errno);
        if (mbx_send(ep, parent, CONTEXT, 0, data, sizes[i % ARRAY_COUNT(sizes)], &silent,
                     NULL) != 0)
            mbx_progress(ep);
        mbx_progress(ep);
    }
}

/* Answers the parent until it gets the message to stop. */
static void serve(struct mbx_ep *ep, uint32_t parent, int down, int up)
{
    unsigned char *buf = malloc(LARGEST);

    (void)up;
    for (uint64_t i = 0; i < 40; i++) {
        receive(ep, parent, i, buf, sizes[i % ARRAY_COUNT(sizes)]);
        send_all(ep, parent, i, buf, sizes[i % ARRAY_COUNT(sizes)]);
    }
    await(down);
    check(mbx_close(ep) == 0, "mbx_close", 0);
    free(buf);
}

static void exchange(struct pair *pair, uint64_t i, unsigned char *buf)
{
    size_t size = sizes[i % ARRAY_COUNT(sizes)];

    memset(buf, 0, size);
    send_all(pair->ep, pair->other, i, seeded_bytes(64, LARGEST), size);
    receive(pair->ep, pair->other, i, buf, size);
    assert_memory_equal(buf, seeded_bytes(64, LARGEST), size);
}

/* Messages that find space may still go to a peer whose death nobody has detected: as many as a
 * ring holds.  After that no message leaves, of any length. */
static void send_until_noticed(struct pair *pair)
{
    const unsigned char *data = seeded_bytes(0, LARGEST);
    struct mbx_completion done = {.error = 0};
    mbx_request send;

    for (int i = 0; done.error == 0; i++) {
        assert_true(i < SENDS_MAX);
        assert_int_equal(mbx_send(pair->ep, pair->other, CONTEXT, 1, data, 8, NULL, &send), 0);
        assert_int_equal(mbx_wait(pair->ep, send, LONG_TIME, &done), 0);
    }
    assert_true(done.error == -ENOTCONN || done.error == -EHOSTUNREACH);
    assert_int_equal(mbx_send(pair->ep, pair->other, CONTEXT, 1, data, LARGEST, NULL, &send),
                     0);
    assert_int_equal(mbx_wait(pair->ep, send, LONG_TIME, &done), 0);
    assert_true(done.error == -ENOTCONN || done.error == -EHOSTUNREACH);
}

/* One peer is killed while it sends.  The other one is not affected, and a send to the dead one
 * ends with an error. */
static void test_a_killed_peer_harms_nobody(void **state)
{
    unsigned char *buf, *lost;
    struct pair killed, healthy;
    struct cluster cl;

    if (config_is_network(*state))
        skip(); /* the provider determines when a death is detected */
    buf = malloc(LARGEST);
    lost = malloc(LARGEST);
    pair_start(&killed, *state, flood);
    pair_start(&healthy, *state, serve);
    cluster_open(&cl, *state, 1, (const char *const[]){"CLOSE_TIMEOUT=0", NULL});
    pair_connect(&killed, cl.eps[0]);
    pair_connect(&healthy, cl.eps[0]);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(
            mbx_recv(cl.eps[0], killed.other, CONTEXT, 0, 0, lost, LARGEST, NULL, NULL), 0);
        exchange(&healthy, i, buf);
    }
    await(killed.up);
    kill(killed.child, SIGKILL);
    pair_end(&killed, SIGKILL);
    for (uint64_t i = 10; i < 40; i++) {
        assert_int_equal(
            mbx_recv(cl.eps[0], killed.other, CONTEXT, 0, 0, lost, LARGEST, NULL, NULL), 0);
        exchange(&healthy, i, buf);
    }
    send_until_noticed(&killed);
    go(healthy.down);
    pair_end(&healthy, 0);
    cluster_close(&cl);
    free(lost);
    free(buf);
}

/* Sleeps in a wait for a message that never comes until the parent is killed. */
static void test_the_killed_one_was_asleep(void **state)
{
    struct pair pair;
    struct cluster cl;
    char byte = 1;

    pair_start(&pair, *state, serve); /* waits for its first message */
    cluster_open(&cl, *state, 1, (const char *const[]){"CLOSE_TIMEOUT=0", NULL});
    pair_connect(&pair, cl.eps[0]);
    assert_int_equal(mbx_inject(pair.ep, pair.other, CONTEXT, 99, &byte, 1, 0), 0);
    kill(pair.child, SIGKILL);
    pair_end(&pair, SIGKILL);
    cluster_close(&cl);
}

/* Only configurations that cross processes. */
static bool is_shm(const struct configuration *config)
{
    return !config_is_loop(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_protocol_there_and_back),
        cmocka_unit_test(test_messages_outlive_a_process_that_closed),
        cmocka_unit_test(test_messages_outlive_a_process_that_did_not_close),
        cmocka_unit_test(test_a_killed_peer_harms_nobody),
        cmocka_unit_test(test_the_killed_one_was_asleep),
    };

    return test_main_for(argc, argv, is_shm, tests, ARRAY_COUNT(tests));
}
