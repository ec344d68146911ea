/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mt_test.c - many threads inside one endpoint, with MBX_THREADS=many.
 *
 *   endpoint 0                       endpoint 1 (or endpoint 0 itself)
 *   worker 0  ── stream 0 ──────────────> worker 0
 *   worker 1  ── stream 1 ──────────────> worker 1     and the same the other way
 *
 * Every worker sends one stream and receives one, in batches: sends of every kind and size;
 * receives posted in advance, by matched probe, or cancelled and posted again, completed by
 * mbx_wait(), mbx_test(), or by any thread that finds them in the queue.  Checked for every
 * message: it is the next one of its stream (number and content), and exactly one thread got
 * its completion.  The workers share nothing else, so that ThreadSanitizer sees what the
 * library does not order.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "core/core.h"

#define PLAYERS_MAX 8
#define BATCH       6
#define CONTEXT     7
#define NOBODY      9999 /* a tag that no message has */
#define LONG_TIME                                                                              \
    (-1) /* no limit: how long a loaded machine takes is not a fault of the library */

/* cmocka's own checks leave by longjmp, which a thread must not do. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "mt_test: %s, %ld\n", what, value);
    abort();
}

/* ---- one operation ---- */

struct slot {
    mbx_request request;
    _Atomic int taken; /* by how many threads */
    _Atomic bool is_there;
    struct mbx_completion done;
};

/* How workers learn of their completions. */
enum manner {
    OWN,   /* by wait and test: no other thread may get them */
    MIXED, /* also from the queue, which returns any worker's */
};

struct worker {
    struct mbx_ep *ep;
    uint32_t other; /* the peer that it exchanges messages with */
    uint32_t out, in;
    uint32_t context_out, context_in;
    uint64_t sent, received;
    enum manner manner;
    bool is_interrupted; /* its sleeps may end in -EINTR */
    unsigned rounds;
    size_t largest;
    _Atomic int *playing; /* workers that have not finished */
    struct random random;
    struct slot sends[BATCH], recvs[BATCH];
    unsigned char *buffers; /* BATCH * largest */
};

static void slot_take(struct slot *slot, const struct mbx_completion *done)
{
    check(atomic_fetch_add(&slot->taken, 1) == 0, "a completion was given out twice", 2);
    slot->done = *done;
    atomic_store(&slot->is_there, true);
}

static void slot_start(struct slot *slot)
{
    atomic_store(&slot->taken, 0);
    atomic_store(&slot->is_there, false);
}

static void poll_for_anybody(struct worker *p)
{
    struct mbx_completion entries[3];
    int count = mbx_poll(p->ep, MBX_SENDS | MBX_RECVS, entries, ARRAY_COUNT(entries));

    check(count >= 0, "mbx_poll", count);
    for (int i = 0; i < count; i++)
        slot_take(entries[i].user, &entries[i]);
}

/* Like mbx_wait(): 1 complete, 0 not yet. */
static int wait_for(struct worker *p, const struct slot *slot, int64_t timeout_ns,
                    struct mbx_completion *done)
{
    int err = mbx_wait(p->ep, slot->request, timeout_ns, done);

    if (err == -EINTR && p->is_interrupted)
        return 0;
    return err == 0 ? 1 : err;
}

/* Tries one way to learn of a completion, chosen at random. */
static int try_to_finish(struct worker *p, struct slot *slot, struct mbx_completion *done)
{
    switch (random_below(&p->random, p->manner == MIXED ? 6 : 3)) {
    case 0:
        return mbx_test(p->ep, slot->request, done);
    case 1: {
        int result = wait_for(p, slot, 20000, done);

        return result == -ETIMEDOUT ? 0 : result;
    }
    case 2:
    case 3:
        return wait_for(p, slot, LONG_TIME, done);
    case 4: {
        int err = mbx_wait_queues(p->ep, MBX_SENDS | MBX_RECVS, 20000);

        check(err == 0 || err == -ETIMEDOUT || (err == -EINTR && p->is_interrupted),
              "mbx_wait_queues", err);
        poll_for_anybody(p);
        return 0;
    }
    default:
        mbx_progress(p->ep);
        poll_for_anybody(p);
        return 0;
    }
}

/* Waits until it is complete; returns its error. */
static int await(struct worker *p, struct slot *slot)
{
    struct mbx_completion done;

    while (!atomic_load(&slot->is_there)) {
        int result = try_to_finish(p, slot, &done);

        if (result == 1)
            slot_take(slot, &done);
        else if (result == -ESTALE && p->manner == MIXED)
            sched_yield(); /* another worker has it, and is about to mark it */
        else
            check(result == 0, "test or wait", result);
    }
    return slot->done.error;
}

static void finish(struct worker *p, struct slot *slot, int error)
{
    int ended = await(p, slot);

    check(ended == error, "error of a completion", ended);
}

/* ---- streams ---- */

static const size_t sizes[] = {8, 0, 33, 300, 8, 4000, 32, 9000, 20000, 100000};

static size_t size_of(const struct worker *p, uint64_t number)
{
    return min_size(sizes[number * 7 % ARRAY_COUNT(sizes)], p->largest);
}

static const unsigned char *content(uint32_t stream, uint64_t number)
{
    return seeded_bytes((unsigned)(stream * 997 + number * 61) % 4096, 100000);
}

static void send_next(struct worker *p, struct slot *slot)
{
    uint64_t number = p->sent++;
    size_t size = size_of(p, number);
    const void *data = content(p->out, number);
    struct mbx_options options = {.user = slot, .data = number};
    int err;

    slot_start(slot);
    if (number % 5 == 1 && size <= 4000) {
        while ((err = mbx_inject(p->ep, p->other, p->context_out, p->out, data, size,
                                 number)) == -ENOMEM)
            ;
        atomic_store(&slot->is_there, true);
        slot->done.error = 0;
    } else {
        while ((err = (number % 5 == 3 ? mbx_ssend : mbx_send)(p->ep, p->other, p->context_out,
                                                               p->out, data, size, &options,
                                                               &slot->request)) == -ENOMEM)
            ;
    }
    check(err == 0, "send", err);
}

static unsigned char *buffer_of(struct worker *p, struct slot *slot)
{
    return p->buffers + (size_t)(slot - p->recvs) * p->largest;
}

static void post(struct worker *p, struct slot *slot, uint64_t tag)
{
    struct mbx_options options = {.user = slot};
    int err;

    slot_start(slot);
    while ((err = mbx_recv(p->ep, p->other, p->context_in, tag, 0, buffer_of(p, slot),
                           p->largest, &options, &slot->request)) == -ENOMEM)
        ;
    check(err == 0, "mbx_recv", err);
}

static void verify(struct worker *p, struct slot *slot)
{
    uint64_t number = p->received++;

    check(slot->done.status.data == number, "number of a message", (long)number);
    check(slot->done.received == size_of(p, number), "size of message", (long)number);
    check(memcmp(buffer_of(p, slot), content(p->in, number), slot->done.received) == 0,
          "content of message", (long)number);
}

/* Receives by a matched probe. */
static void receive_probed(struct worker *p, struct slot *slot)
{
    struct mbx_options options = {.user = slot};
    struct mbx_status status;
    mbx_message message;
    int found, err;

    while ((found = mbx_mprobe(p->ep, p->other, p->context_in, p->in, 0, &status, &message)) ==
           0)
        if (random_below(&p->random, 8) == 0)
            sched_yield();
    check(found == 1, "mbx_mprobe", found);
    check(status.data == p->received, "number of a probed message", (long)status.data);
    slot_start(slot);
    while ((err = mbx_mrecv(p->ep, message, buffer_of(p, slot), p->largest, &options,
                            &slot->request)) == -ENOMEM)
        ;
    check(err == 0, "mbx_mrecv", err);
    check(mbx_discard(p->ep, message) == -ESTALE, "mbx_discard of a message that is gone", 0);
}

/* Cancels a posted receive, if it can, and posts it again.  Only the newest, so the stream's
 * order stays.  A device may have matched it already. */
static void cancel_and_post(struct worker *p, struct slot *slot)
{
    int err = mbx_cancel(p->ep, slot->request);

    if (err == 0) {
        if (await(p, slot) == -ECANCELED)
            post(p, slot, p->in);
    } else {
        check(err == -EALREADY || (err == -ESTALE && p->manner == MIXED), "mbx_cancel", err);
    }
}

static void cancel_for_sure(struct worker *p, struct slot *slot)
{
    post(p, slot, NOBODY);
    check(mbx_cancel(p->ep, slot->request) == 0, "mbx_cancel of what nobody sends", 0);
    finish(p, slot, -ECANCELED);
}

static void receive_batch(struct worker *p)
{
    for (int i = 0; i < BATCH; i++)
        post(p, &p->recvs[i], p->in);
    if (random_below(&p->random, 2) == 0)
        cancel_and_post(p, &p->recvs[BATCH - 1]);
    for (int i = 0; i < BATCH; i++) /* not in their order */
        finish(p, &p->recvs[(i * 5 + 2) % BATCH], 0);
    for (int i = 0; i < BATCH; i++)
        verify(p, &p->recvs[i]);
}

static void probe_batch(struct worker *p)
{
    struct mbx_status status;

    for (int i = 0; i < BATCH; i++) {
        int found = mbx_probe(p->ep, MBX_ANY_SOURCE, p->context_in, NOBODY, 0, &status);

        check(found == 0, "mbx_probe of what nobody sends", found);
        receive_probed(p, &p->recvs[i]);
        finish(p, &p->recvs[i], 0);
        verify(p, &p->recvs[i]);
    }
}

static void *play(void *arg)
{
    struct worker *p = arg;
    struct stats stats;

    for (unsigned round = 0; round < p->rounds; round++) {
        cancel_for_sure(p, &p->recvs[0]);
        for (int i = 0; i < BATCH; i++)
            send_next(p, &p->sends[i]);
        if (round % 3 == 2)
            probe_batch(p);
        else
            receive_batch(p);
        for (int i = 0; i < BATCH; i++)
            finish(p, &p->sends[i], 0);
        stats_read(p->ep, &stats);
    }
    /* another worker may still need an answer from this endpoint */
    atomic_fetch_sub(p->playing, 1);
    while (atomic_load(p->playing) != 0) {
        mbx_progress(p->ep);
        sched_yield();
    }
    return NULL;
}

/* ---- games ---- */

struct game {
    struct worker workers[2 * PLAYERS_MAX];
    pthread_t threads[2 * PLAYERS_MAX];
    int count;
    _Atomic int playing;
};

struct rules {
    int workers; /* per endpoint */
    bool is_context_shared;
    enum manner manner;
    unsigned rounds;
    bool is_interrupted;
};

static uint32_t context_of(const struct rules *rules, uint32_t stream)
{
    return rules->is_context_shared ? CONTEXT : 100 + stream;
}

/* Starts the workers of ep: they send the streams from `out` on, and receive the streams from
 * `in` on, in another order. */
static void game_start(struct game *g, struct mbx_ep *ep, uint32_t other, uint32_t out,
                       uint32_t in, const struct rules *rules)
{
    for (int i = 0; i < rules->workers; i++) {
        struct worker *p = &g->workers[g->count];
        uint32_t mine = in + (uint32_t)((i + 1) % rules->workers);

        *p = (struct worker){
            .ep = ep,
            .other = other,
            .out = out + (uint32_t)i,
            .in = mine,
            .context_out = context_of(rules, out + (uint32_t)i),
            .context_in = context_of(rules, mine),
            .manner = rules->manner,
            .is_interrupted = rules->is_interrupted,
            .playing = &g->playing,
            .rounds = rules->rounds,
            .largest = test_is_quick() ? 20000 : 100000,
        };
        random_seed(&p->random, (uint64_t)out * 100 + (uint64_t)i);
        p->buffers = malloc(BATCH * p->largest);
        atomic_fetch_add(&g->playing, 1);
        check(pthread_create(&g->threads[g->count], NULL, play, p) == 0, "a thread", i);
        g->count++;
    }
}

static void game_end(struct game *g)
{
    for (int i = 0; i < g->count; i++) {
        pthread_join(g->threads[i], NULL);
        free(g->workers[i].buffers);
    }
}

static const char *const many[] = {"THREADS=many", NULL};
static const char *const many_asleep[] = {"THREADS=many", "SPIN=0", NULL};
/* The allocation that fails must be one whose error a call can return: with adverts a hold
 * without memory would fail its send. */
static const char *const many_steady[] = {"THREADS=many", "ADVERT=off", NULL};

/* Endpoints of the loop transport share memory without locks: there, only one endpoint has
 * workers. */
static void play_world(const struct configuration *config, const struct rules *rules,
                       bool is_alone, const char *const *more)
{
    static struct game g;
    struct cluster cl;

    g.count = 0;
    seeded_bytes(0, 100000); /* made by one thread */
    is_alone = is_alone || config_is_loop(config);
    cluster_open(&cl, config, is_alone ? 1 : 2, more);
    if (is_alone) {
        game_start(&g, cl.eps[0], 0, 0, 0, rules);
    } else {
        game_start(&g, cl.eps[0], 1, 0, 50, rules);
        game_start(&g, cl.eps[1], 0, 50, 0, rules);
    }
    game_end(&g);
    for (int i = 0; i < cl.count; i++) {
        struct stats stats = cluster_stats(&cl, i);

        assert_int_equal(stats.dropped_packets, 0);
        assert_int_equal(stats.posted_now, 0);
        assert_int_equal(stats.unexpected_now, 0);
        assert_int_equal(stats.requests_now, 0);
    }
    cluster_close(&cl);
}

static unsigned rounds(unsigned count)
{
    return test_is_quick() ? (count + 5) / 6 : count;
}

static void test_a_context_for_each(void **state)
{
    play_world(*state, &(struct rules){4, false, OWN, rounds(9), false}, false, many);
}

static void test_one_context_for_all(void **state)
{
    play_world(*state, &(struct rules){2, true, OWN, rounds(12), false}, false, many);
    play_world(*state, &(struct rules){8, true, OWN, rounds(3), false}, true, many);
}

static void test_anybody_reads_the_queues(void **state)
{
    play_world(*state, &(struct rules){4, true, MIXED, rounds(9), false}, false, many);
}

static void test_waits_that_sleep(void **state)
{
    play_world(*state, &(struct rules){3, false, OWN, rounds(9), false}, false, many_asleep);
    play_world(*state, &(struct rules){3, true, MIXED, rounds(6), false}, true, many_asleep);
}

/* A wait whose sleep fails goes on, or returns the error and may be called again; no waiter is
 * lost. */
static void test_sleeps_that_fail(void **state)
{
    static const int errors[] = {EINTR, ENOSYS};

    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        struct rules rules = {3, i % 2 == 0, OWN, 2, true};

        assert_int_equal(sys_fail_name("futex_wait", SYS_FAIL_ALWAYS, errors[i]), 0);
        play_world(*state, &rules, false, many_asleep);
        rules.manner = MIXED;
        play_world(*state, &rules, true, many_asleep);
        sys_fail_none();
    }
}

static void test_allocations_that_fail(void **state)
{
    uint64_t step = test_is_quick() ? 23 : 7;

    for (uint64_t n = 1; n < 120; n += step) {
        struct rules rules = {3, n % 2 == 0, n % 4 < 2 ? OWN : MIXED, 2, false};
        static struct game g;
        struct cluster cl;

        g.count = 0;
        seeded_bytes(0, 100000);
        cluster_open(&cl, *state, 1, many_steady);
        assert_int_equal(peer_use(cl.eps[0], 0), 0); /* a later call that makes it may fail */
        mem_fail_at(n);
        game_start(&g, cl.eps[0], 0, 0, 0, &rules);
        game_end(&g);
        mem_fail_at(0);
        cluster_close(&cl);
    }
}

/* ---- first contact ---- */

#define MEETING_THREADS 3

/* A thread of an endpoint that has no connection yet; all begin at once. */
struct guest {
    const struct cluster *cl;
    pthread_barrier_t *begin;
    _Atomic uint32_t *done; /* guests */
    uint32_t self, thread;
    struct random random;
};

static uint64_t greeting(uint32_t from, uint32_t to, uint32_t thread)
{
    return (uint64_t)from << 16 | to << 8 | thread;
}

/* The peers in a random order. */
static void shuffle(struct guest *g, uint32_t *peers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        peers[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)random_below(&g->random, i), peer = peers[other];

        peers[other] = peers[i - 1];
        peers[i - 1] = peer;
    }
}

static void *meet_all(void *arg)
{
    struct guest *g = arg;
    uint32_t count = (uint32_t)g->cl->count, peers[CLUSTER_MAX];
    struct mbx_ep *ep = g->cl->eps[g->self];
    uint64_t in[CLUSTER_MAX], out[CLUSTER_MAX];
    mbx_request requests[2 * CLUSTER_MAX];
    struct mbx_completion done;

    pthread_barrier_wait(g->begin);
    shuffle(g, peers, count);
    for (uint32_t i = 0; i < count; i++)
        check(mbx_recv(ep, peers[i], CONTEXT, g->thread, 0, &in[peers[i]], sizeof in[0], NULL,
                       &requests[peers[i]]) == 0,
              "mbx_recv", peers[i]);
    shuffle(g, peers, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = peers[i];

        out[to] = greeting(g->self, to, g->thread);
        check(mbx_send(ep, to, CONTEXT, g->thread, &out[to], sizeof out[0], NULL,
                       &requests[count + to]) == 0,
              "mbx_send", to);
    }
    for (uint32_t i = 0; i < 2 * count; i++)
        check(mbx_wait(ep, requests[i], LONG_TIME, &done) == 0 && done.error == 0, "mbx_wait",
              i);
    for (uint32_t i = 0; i < count; i++)
        check(in[i] == greeting(i, g->self, g->thread), "what a peer has said", (long)in[i]);
    /* a thread that is done may owe a packet that another one waits for */
    for (atomic_fetch_add(g->done, 1); atomic_load(g->done) < count * MEETING_THREADS;
         sched_yield())
        mbx_progress(ep);
    return NULL;
}

static void meet(const struct configuration *config, uint64_t seed)
{
    static struct guest guests[CLUSTER_MAX * MEETING_THREADS];
    pthread_t threads[CLUSTER_MAX * MEETING_THREADS];
    _Atomic uint32_t done = 0;
    pthread_barrier_t begin;
    struct cluster cl;
    uint32_t count;

    cluster_open(&cl, config, config_is_loop(config) ? 1 : CLUSTER_MAX, many);
    count = (uint32_t)cl.count * MEETING_THREADS;
    assert_int_equal(pthread_barrier_init(&begin, NULL, count), 0);
    for (uint32_t i = 0; i < count; i++) {
        guests[i] = (struct guest){.cl = &cl,
                                   .begin = &begin,
                                   .done = &done,
                                   .self = i / MEETING_THREADS,
                                   .thread = i % MEETING_THREADS};
        random_seed(&guests[i].random, seed * 1000 + i);
        check(pthread_create(&threads[i], NULL, meet_all, &guests[i]) == 0, "a thread", i);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&begin);
    for (int i = 0; i < cl.count; i++) {
        struct stats stats = cluster_stats(&cl, i);

        assert_int_equal(stats.dropped_packets, 0);
        assert_int_equal(stats.requests_now, 0);
        assert_int_equal(cl.eps[i]->peers.count, cl.count);
    }
    cluster_close(&cl);
}

/* Several threads of each endpoint exchange first messages with the same peers, at the same
 * time. */
static void test_several_threads_meet_the_same_peers(void **state)
{
    for (uint64_t seed = 1; seed <= rounds(6); seed++)
        meet(*state, seed);
}

/* ---- the parameter ---- */

static void test_the_parameter(void **state)
{
    const char *const params[] = {"THREADS=several", NULL};
    const struct mbx_config bad = {.params = params};
    struct mbx_ep *ep = cluster_open_one(*state, NULL);

    assert_false(ep->wait.has_threads);
    mbx_close(ep);
    ep = cluster_open_one(*state, many);
    assert_true(ep->wait.has_threads);
    mbx_close(ep);
    assert_int_equal(mbx_open(&bad, &ep), -EINVAL);
}

/* ---- between processes ---- */

static void exchange(int fd, struct mbx_ep *ep)
{
    struct mbx_address mine, theirs;
    uint32_t peer;

    check(mbx_address_get(ep, &mine) == 0, "mbx_address_get", 0);
    check(write(fd, &mine, sizeof mine) == sizeof mine, "write of the address", errno);
    check(read(fd, &theirs, sizeof theirs) == sizeof theirs, "read of the address", errno);
    check(mbx_peer_add(ep, &theirs, &peer) == 0 && peer == 0, "mbx_peer_add", peer);
}

static void play_process(const struct configuration *config, int fd, uint32_t out, uint32_t in)
{
    const struct rules rules = {4, false, MIXED, rounds(9), false};
    static const char *const patient[] = {"THREADS=many", "CLOSE_TIMEOUT=900s", NULL};
    static struct game g;
    struct mbx_ep *ep = cluster_open_one(config, patient);
    char byte = 0;

    g.count = 0;
    exchange(fd, ep);
    game_start(&g, ep, 0, out, in, &rules);
    game_end(&g);
    check(write(fd, &byte, 1) == 1, "write of our end", errno);
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 1)
        mbx_progress(ep); /* the other may still need an answer */
    check(mbx_close(ep) == 0, "mbx_close", 0);
}

static void test_two_processes(void **state)
{
    const struct configuration *config = *state;
    int fds[2], status;
    pid_t child;

    if (config_is_loop(config))
        return;
    seeded_bytes(0, 100000);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        play_process(config, fds[1], 50, 0);
        _exit(0);
    }
    play_process(config, fds[0], 0, 50);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(fds[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_parameter),
        cmocka_unit_test(test_several_threads_meet_the_same_peers),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_a_context_for_each),
        cmocka_unit_test(test_one_context_for_all),
        cmocka_unit_test(test_anybody_reads_the_queues),
        cmocka_unit_test(test_waits_that_sleep),
        cmocka_unit_test(test_sleeps_that_fail),
        cmocka_unit_test(test_allocations_that_fail),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
