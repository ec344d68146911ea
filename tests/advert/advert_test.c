/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert_test.c - receives that are advertised to their sender before it sends.
 *
 * Endpoint 0 sends, endpoint 1 receives.  Each makes progress only when a test says so, so
 * their knowledge is certain: the sender knows an advertised receive after a few rounds of its
 * own progress.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "base/sys.h"
#include "core/core.h"
#include "advert/split_copy.h"
#include "advert/advert.h"

#define CONTEXT   31
#define SIZE      ((size_t)100000)
#define POISON    0x77
#define QUIET_LOG "LOG_LEVEL=error"

static const char *const always[] = {"ADVERT=always", "ADVERT_SIZE=1000", NULL};
static const char *const chunks[] = {"ADVERT=always", "ADVERT_SIZE=1000", "READ_CHUNK=4K",
                                     QUIET_LOG,       "CLOSE_TIMEOUT=0",  NULL};

static unsigned char bufs[4][2 * SIZE];

static void open_two(struct cluster *cl, void **state, const char *const *more)
{
    memset(bufs, POISON, sizeof bufs);
    cluster_open(cl, *state, 2, more);
    for (int i = 0; i < 2; i++) /* as if they had exchanged messages */
        assert_int_equal(peer_use(cl->eps[i], (uint32_t)(1 - i)), 0);
}

static mbx_request post(struct cluster *cl, int buf, uint64_t tag, uint64_t ignore)
{
    mbx_request recv;

    assert_int_equal(
        mbx_recv(cl->eps[1], 0, CONTEXT, tag, ignore, bufs[buf], SIZE, NULL, &recv), 0);
    return recv;
}

static mbx_request send(struct cluster *cl, unsigned seed, uint64_t tag, size_t size)
{
    mbx_request request;

    assert_int_equal(
        mbx_send(cl->eps[0], 1, CONTEXT, tag, seeded_bytes(seed, size), size, NULL, &request),
        0);
    return request;
}

/* Makes one endpoint handle its arrived packets. */
static void step(struct cluster *cl, int who)
{
    for (int i = 0; i < 20; i++)
        mbx_progress(cl->eps[who]);
}

static void expect(struct cluster *cl, mbx_request recv, int buf, unsigned seed, size_t size)
{
    struct mbx_completion done;

    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, size > SIZE ? -EMSGSIZE : 0);
    assert_int_equal(done.status.size, size);
    assert_int_equal(done.received, min_size(size, SIZE));
    assert_memory_equal(bufs[buf], seeded_bytes(seed, size), min_size(size, SIZE));
    assert_int_equal(bufs[buf][done.received], POISON);
}

static bool is_untouched(int buf)
{
    for (size_t i = 0; i < sizeof bufs[buf]; i++)
        if (bufs[buf][i] != POISON)
            return false;
    return true;
}

/* ---- the message goes directly into the buffer of the receive ---- */

static void test_a_message_arrives_without_its_receiver(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    mbx_request recv, sent;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    sent = send(&cl, 5, 1, SIZE);
    assert_int_equal(mbx_test(cl.eps[0], sent, &done), 1);
    assert_int_equal(done.error, 0);
    assert_memory_equal(bufs[0], seeded_bytes(5, SIZE), SIZE);
    expect(&cl, recv, 0, 5, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 1);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
    assert_int_equal(cluster_stats(&cl, 0).sent[MBX_RNDV_WRITE], 1);
    assert_int_equal(cluster_stats(&cl, 1).received_bytes[MBX_RNDV_WRITE], SIZE);
    cluster_close(&cl);
}

/* The sender sends WRITE first, and writes the data during its own progress.  The later message
 * waits its turn. */
static void test_a_long_message_is_told_first(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    mbx_request recv, behind, sent;

    open_two(&cl, state, chunks);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    sent = send(&cl, 5, 1, SIZE);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), -EALREADY); /* its lock word is taken */
    behind = post(&cl, 1, 0, MBX_IGNORE_ALL);
    send(&cl, 6, 1, SIZE);
    step(&cl, 1);
    assert_int_equal(mbx_test(cl.eps[1], recv, &done), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_test(cl.eps[0], sent, &done), 1);
    expect(&cl, recv, 0, 5, SIZE);
    expect(&cl, behind, 1, 6, SIZE);
    cluster_close(&cl);
}

static void test_a_message_that_does_not_fit(void **state)
{
    const char *const *const params[] = {always, chunks};
    struct cluster cl;
    mbx_request recv;

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        open_two(&cl, state, params[i]);
        recv = post(&cl, 0, 1, 0);
        step(&cl, 0);
        send(&cl, 7, 1, SIZE + 5000);
        expect(&cl, recv, 0, 7, SIZE + 5000);
        assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
        assert_int_equal(cluster_stats(&cl, 1).truncated, 1);
        if (!config_has_faults(cl.config))
            assert_int_equal(cluster_stats(&cl, 0).advert_stopped, 0); /* no more than fits */
        cluster_close(&cl);
    }
}

static void test_a_synchronous_send_is_complete_when_written(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    mbx_request recv, sent;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    assert_int_equal(
        mbx_ssend(cl.eps[0], 1, CONTEXT, 1, seeded_bytes(3, SIZE), SIZE, NULL, &sent), 0);
    assert_int_equal(mbx_test(cl.eps[0], sent, &done), 1);
    expect(&cl, recv, 0, 3, SIZE);
    cluster_close(&cl);
}

/* ---- advertised receives, and void advertisements ---- */

static void test_the_senders_that_are_told(void **state)
{
    struct cluster cl;
    mbx_request any;

    open_two(&cl, state, always);
    assert_int_equal(
        mbx_recv(cl.eps[1], MBX_ANY_SOURCE, CONTEXT, 1, 0, bufs[0], SIZE, NULL, &any), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 9, 0, bufs[1], 999, NULL, NULL), 0);
    post(&cl, 1, 1, 0); /* overlaps with `any` */
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 0);
    post(&cl, 2, 2, 0);
    post(&cl, 3, 2, MBX_IGNORE_ALL); /* also overlaps with `any` */
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 1);
    cluster_close(&cl);
}

static void test_nobody_is_told(void **state)
{
    static const char *const without[][3] = {{"ADVERT=off"},
                                             {"WINDOW=0"},
                                             {"RNDV=data"},
                                             {"WINDOW=unlimited"},
                                             {"DEVICE=soft"},
                                             {"MATCH_AT=sender"},
                                             {"ADVERT_SIZE=200K"},
                                             {"ADVERT=rndv", "RNDV=read"},
                                             {"ADVERT=rndv", "RNDV=read+split"},
                                             {"ADVERT=rndv", "RNDV=split"},
                                             {"SHM_ATTACH=no"}};
    struct cluster cl;

    for (size_t i = 0; i < ARRAY_COUNT(without); i++) {
        const char *params[] = {"ADVERT=always", "ADVERT_SIZE=1000", without[i][0],
                                without[i][1], NULL};

        if (i == ARRAY_COUNT(without) - 1 && config_is_loop(*state))
            break;
        open_two(&cl, state, params);
        mbx_request recv = post(&cl, 0, 1, 0);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 0);
        step(&cl, 0);
        send(&cl, 4, 1, SIZE);
        expect(&cl, recv, 0, 4, SIZE);
        cluster_close(&cl);
    }
}

/* MBX_RNDV alone decides, without the parameters of the other tests. */
static void test_a_sender_that_may_write_is_told(void **state)
{
    static const char *const with[] = {"RNDV=auto", "RNDV=read+write", "RNDV=write"};
    struct cluster cl;

    for (size_t i = 0; i < ARRAY_COUNT(with); i++) {
        const char *const params[] = {"ADVERT=rndv", "ADVERT_SIZE=1000", with[i], NULL};
        mbx_request recv;

        open_two(&cl, state, params);
        recv = post(&cl, 0, 1, 0);
        assert_int_equal(cluster_stats(&cl, 1).advert_sent, 1);
        step(&cl, 0);
        send(&cl, 4, 1, SIZE);
        expect(&cl, recv, 0, 4, SIZE);
        assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
        cluster_close(&cl);
    }
}

static void test_a_message_under_way_makes_it_void(void **state)
{
    struct cluster cl;
    mbx_request recv, other;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    send(&cl, 1, 2, 8); /* before the sender hears of it */
    step(&cl, 0);
    assert_int_equal(cluster_stats(&cl, 0).advert_void, 1);
    send(&cl, 5, 1, SIZE);
    expect(&cl, recv, 0, 5, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_missed, 1);
    other = post(&cl, 1, 2, 0); /* not advertised: it finds its message */
    cluster_settle(&cl);
    assert_int_equal(mbx_cancel(cl.eps[1], other), -EALREADY);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 1);
    cluster_close(&cl);
}

/* A void advertisement stays open at its receiver, so an advertisement that follows it does not
 * count either. */
static void test_what_follows_a_void_one_is_void(void **state)
{
    struct cluster cl;
    mbx_request first, second;

    open_two(&cl, state, always);
    first = post(&cl, 0, 1, 0);
    send(&cl, 1, 2, 8);
    step(&cl, 0);
    step(&cl, 1);
    second = post(&cl, 1, 0, MBX_IGNORE_ALL ^ 2);
    step(&cl, 0);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, 2);
    assert_int_equal(cluster_stats(&cl, 0).advert_void, 2);
    send(&cl, 5, 1, SIZE);
    send(&cl, 6, 1, SIZE);
    expect(&cl, first, 0, 5, SIZE);
    expect(&cl, second, 1, 6, SIZE);
    cluster_close(&cl);
}

static void test_those_that_overlap_are_filled_in_order(void **state)
{
    struct cluster cl;
    mbx_request recv[3];

    open_two(&cl, state, always);
    recv[0] = post(&cl, 0, 1, 0);
    recv[1] = post(&cl, 1, 0, MBX_IGNORE_ALL);
    recv[2] = post(&cl, 2, 1, 0);
    step(&cl, 0);
    send(&cl, 5, 2, SIZE);
    send(&cl, 6, 1, SIZE);
    send(&cl, 7, 1, SIZE);
    expect(&cl, recv[0], 0, 6, SIZE);
    expect(&cl, recv[1], 1, 5, SIZE);
    expect(&cl, recv[2], 2, 7, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 3);
    cluster_close(&cl);
}

/* The short message travels as usual, and completes the receive. */
static void test_a_short_message_meets_it(void **state)
{
    struct cluster cl;
    mbx_request recv, next;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    send(&cl, 5, 1, 999);
    send(&cl, 6, 1, SIZE);
    expect(&cl, recv, 0, 5, 999);
    next = post(&cl, 1, 1, 0);
    expect(&cl, next, 1, 6, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 0);
    cluster_close(&cl);
}

/* The short message may match any advertised receive whose tag fits.  So a later receive, whose
 * tag does not fit, may not be the first receive for the next message. */
static void test_a_short_message_stands_before_others(void **state)
{
    struct cluster cl;
    mbx_request recv[4];

    open_two(&cl, state, always);
    recv[0] = post(&cl, 0, 1, 0);
    recv[1] = post(&cl, 1, 0, MBX_IGNORE_ALL);
    recv[2] = post(&cl, 2, 2, 0);
    recv[3] = post(&cl, 3, 3, 0);
    step(&cl, 0);
    send(&cl, 5, 1, 999);
    send(&cl, 6, 2, SIZE);
    send(&cl, 7, 3, SIZE);
    send(&cl, 8, 2, SIZE);
    expect(&cl, recv[0], 0, 5, 999);
    expect(&cl, recv[1], 1, 6, SIZE);
    expect(&cl, recv[2], 2, 8, SIZE);
    expect(&cl, recv[3], 3, 7, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 0);
    cluster_close(&cl);
}

/* A receive is still written if it overlaps no receive that the short message may match. */
static void test_a_short_message_does_no_harm_to_others(void **state)
{
    struct cluster cl;
    mbx_request recv[2];

    open_two(&cl, state, always);
    recv[0] = post(&cl, 0, 1, 0);
    recv[1] = post(&cl, 1, 2, 0);
    step(&cl, 0);
    send(&cl, 5, 1, 999);
    send(&cl, 6, 2, SIZE);
    expect(&cl, recv[0], 0, 5, 999);
    expect(&cl, recv[1], 1, 6, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
    cluster_close(&cl);
}

/* Sends that match no advertised receive are not compared with it for ever: it is dropped.  An
 * advertisement that follows a dropped one does not count. */
static void test_what_nobody_wants_is_dropped(void **state)
{
    struct cluster cl;
    mbx_request recv, next;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    assert_int_equal(peer_get(cl.eps[0], 1)->advert->count, 1);
    assert_int_equal(peer_credit(peer_get(cl.eps[0], 1))->envelopes, 0);
    for (int i = 0; i < 64; i++)
        send(&cl, 1, 2, 8);
    assert_int_equal(peer_get(cl.eps[0], 1)->advert->count, 0);
    assert_true(peer_credit(peer_get(cl.eps[0], 1))->envelopes > 0);
    cluster_settle(&cl);
    next = post(&cl, 1, 0, MBX_IGNORE_ALL ^ 2);
    step(&cl, 0);
    assert_int_equal(cluster_stats(&cl, 0).advert_void, 1);
    send(&cl, 5, 1, SIZE);
    send(&cl, 6, 1, SIZE);
    expect(&cl, recv, 0, 5, SIZE);
    expect(&cl, next, 1, 6, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_missed, 2);
    cluster_close(&cl);
}

static void test_holding_drops_them(void **state)
{
    const char *const params[] = {"ADVERT=always", "ADVERT_SIZE=1000", "WINDOW=1", NULL};
    struct cluster cl;
    mbx_request recv;

    open_two(&cl, state, params);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    send(&cl, 1, 2, 8);
    send(&cl, 1, 3, 8); /* has no credit */
    assert_int_equal(cluster_stats(&cl, 0).deferred_now, 1);
    assert_int_equal(peer_get(cl.eps[0], 1)->advert->count, 0);
    send(&cl, 5, 1, SIZE);
    expect(&cl, recv, 0, 5, SIZE);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 0);
    assert_int_equal(cluster_stats(&cl, 0).sent[MBX_RNDV_WRITE], 0);
    cluster_close(&cl);
}

/* Each useless advertisement delays the next one more.  A useful one is followed by the next at
 * once. */
static void test_it_is_given_up_where_it_is_of_no_use(void **state)
{
    const char *const params[] = {"ADVERT_SIZE=1000", NULL};
    struct cluster cl;
    uint64_t told = 0;

    open_two(&cl, state, params);
    for (int i = 0; i < 100; i++) {
        mbx_request recv = post(&cl, 0, 1, 0);

        send(&cl, 5, 1, SIZE); /* each time before the sender hears of it */
        expect(&cl, recv, 0, 5, SIZE);
    }
    told = cluster_stats(&cl, 1).advert_sent;
    assert_int_equal(told, 9); /* the 1st, 3rd, 6th, 11th, 20th, and then each 17th */
    for (int i = 0; i < 50; i++) {
        mbx_request recv = post(&cl, 0, 1, 0);

        step(&cl, 0);
        send(&cl, 5, 1, SIZE);
        expect(&cl, recv, 0, 5, SIZE);
    }
    assert_true(cluster_stats(&cl, 1).advert_won >= 30);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent,
                     told + cluster_stats(&cl, 1).advert_won);
    cluster_close(&cl);
}

/* The sender writes a message; meanwhile the receiver makes this many rounds of progress, and
 * no more until everything is written. */
static void write_while(struct cluster *cl, int rounds)
{
    struct mbx_completion done;
    mbx_request recv = post(cl, 0, 1, 0);

    step(cl, 0);
    send(cl, 5, 1, SIZE);
    for (int i = 0; i < rounds; i++)
        mbx_progress(cl->eps[1]);
    assert_int_equal(mbx_test(cl->eps[1], recv, &done), 0);
    for (int i = 0; i < 5; i++)
        step(cl, 0);
    expect(cl, recv, 0, 5, SIZE);
}

/* The receiver waited while its message was written.  If both sides can copy a part, the next
 * receive is not advertised, so that they share the copy. */
static void test_a_rank_that_waits_during_the_write_could_have_helped(void **state)
{
    const char *const params[] = {"ADVERT_SIZE=1000", "SPLIT_COPY_SIZE=1000", "READ_CHUNK=4K",
                                  NULL};
    struct cluster cl;
    bool is_copied;

    open_two(&cl, state, params);
    is_copied = ep_advert(cl.eps[1])->split_copy_from != SIZE_MAX &&
                path_is_shared_copy(cl.eps[1], peer_get(cl.eps[1], 0));
    write_while(&cl, 200);
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
    post(&cl, 1, 2, 0);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, is_copied ? 1 : 2);
    post(&cl, 2, 3, 0);
    assert_int_equal(cluster_stats(&cl, 1).advert_sent, is_copied ? 2 : 3);
    cluster_close(&cl);
}

static void test_a_receiver_that_does_not_wait_is_written_again(void **state)
{
    const char *const params[] = {"ADVERT_SIZE=1000", "SPLIT_COPY_SIZE=1000", "READ_CHUNK=4K",
                                  NULL};
    struct cluster cl;

    open_two(&cl, state, params);
    for (uint64_t i = 1; i <= 3; i++) {
        write_while(&cl, 1);
        assert_int_equal(cluster_stats(&cl, 1).advert_won, i);
    }
    cluster_close(&cl);
}

/* ---- cancel ---- */

static void test_a_cancel_closes_it(void **state)
{
    struct cluster cl;
    mbx_request first, second;

    open_two(&cl, state, always);
    first = post(&cl, 0, 1, 0);
    second = post(&cl, 1, 1, 0);
    step(&cl, 0);
    assert_int_equal(mbx_cancel(cl.eps[1], first), 0);
    cluster_wait_error(&cl, 1, first, -ECANCELED);
    send(&cl, 5, 1, SIZE); /* finds the first receive closed, and takes the second */
    expect(&cl, second, 1, 5, SIZE);
    assert_true(is_untouched(0));
    assert_int_equal(cluster_stats(&cl, 1).advert_won, 1);
    cluster_close(&cl);
}

static void test_a_cancelled_one_leaves_its_message(void **state)
{
    struct cluster cl;
    mbx_request recv;

    open_two(&cl, state, always);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), 0);
    send(&cl, 5, 1, SIZE);
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 1).unexpected_now, 1);
    assert_true(is_untouched(0));
    recv = post(&cl, 1, 1, 0);
    expect(&cl, recv, 1, 5, SIZE);
    cluster_close(&cl);
}

/* Cancels race with a sender on another thread: a message goes into the receive that is open
 * when it comes, and never into a cancelled one. */
struct race {
    struct mbx_ep *ep;
    uint32_t rounds;
};

static void *race_send(void *arg)
{
    const struct race *race = arg;
    static unsigned char data[4000];

    for (uint32_t i = 0; i < race->rounds; i++) {
        struct mbx_completion done;
        mbx_request sent;

        memset(data, (int)(i % POISON), sizeof data);
        if (mbx_send(race->ep, 1, CONTEXT, 1, data, sizeof data, NULL, &sent) != 0 ||
            mbx_wait(race->ep, sent, -1, &done) != 0 || done.error != 0)
            return NULL;
    }
    return arg;
}

static void race_recv(struct mbx_ep *ep, uint32_t rounds)
{
    struct random r;
    uint32_t which = 0;

    random_seed(&r, 1);
    for (uint32_t i = 0; i < rounds;) {
        unsigned char *buf = bufs[which], *other = bufs[1 - which];
        struct mbx_completion done;
        mbx_request recv;

        assert_int_equal(mbx_recv(ep, 0, CONTEXT, 1, 0, buf, 4000, NULL, &recv), 0);
        for (uint64_t n = random_below(&r, 30); n > 0; n--)
            mbx_progress(ep);
        mbx_cancel(ep, recv);
        assert_int_equal(mbx_wait(ep, recv, -1, &done), 0);
        assert_true(done.error == 0 || done.error == -ECANCELED);
        for (size_t k = 0; k < 4000; k++)
            assert_int_equal(other[k], POISON);
        if (done.error == 0) {
            for (size_t k = 0; k < 4000; k++)
                assert_int_equal(buf[k], i % POISON);
            memset(buf, POISON, 4000);
            i++;
        }
        which = 1 - which;
    }
}

static void test_cancels_race(void **state)
{
    const char *const params[] = {"ADVERT=always", "ADVERT_SIZE=1000", "READ_CHUNK=4K", NULL};
    const struct configuration *config = *state;
    struct race race;
    struct cluster cl;
    pthread_t thread;
    void *ended;

    if (config_is_loop(config))
        skip(); /* one thread drives loop */
    open_two(&cl, state, params);
    race = (struct race){cl.eps[0], test_is_quick() ? 300 : 3000};
    assert_int_equal(pthread_create(&thread, NULL, race_send, &race), 0);
    race_recv(cl.eps[1], race.rounds);
    pthread_join(thread, &ended);
    assert_ptr_equal(ended, &race);
    cluster_close(&cl);
}

/* ---- writes that fail ---- */

/* The sender reports the failure, and the rest is fetched, by reading or as DATA. */
static void test_a_write_that_fails(void **state)
{
    const struct configuration *config = *state;
    struct mbx_completion done;
    struct cluster cl;
    mbx_request recv, sent;

    if (config_is_loop(config))
        skip();
    for (int i = 0; i < 4; i++) {
        open_two(&cl, state, i % 2 == 0 ? always : chunks);
        recv = post(&cl, 0, 1, 0);
        step(&cl, 0);
        sys_fail_name("process_vm_writev", i % 2 == 0 ? 1 : 3, EFAULT);
        sys_fail_name("process_vm_readv", i < 2 ? 0 : SYS_FAIL_ALWAYS, EFAULT);
        sent = send(&cl, 5, 1, SIZE);
        expect(&cl, recv, 0, 5, SIZE);
        cluster_wait(&cl, 0, sent, &done);
        assert_int_equal(done.error, 0);
        sys_fail_none();
        assert_int_equal(cluster_stats(&cl, 0).advert_stopped, 1);
        assert_int_equal(cluster_stats(&cl, 1).received[i < 2 ? MBX_RNDV_READ : MBX_RNDV_DATA],
                         1);
        cluster_close(&cl);
    }
}

static void test_writes_that_are_forbidden(void **state)
{
    const struct configuration *config = *state;
    struct cluster cl;
    mbx_request recv;

    if (config_is_loop(config))
        skip();
    open_two(&cl, state, always);
    for (int i = 0; i < 3; i++) {
        sys_fail_name("process_vm_writev", SYS_FAIL_ALWAYS, EPERM);
        recv = post(&cl, 0, 1, 0);
        step(&cl, 0);
        send(&cl, 5, 1, SIZE);
        expect(&cl, recv, 0, 5, SIZE);
        sys_fail_none();
    }
    assert_int_equal(cluster_stats(&cl, 0).advert_stopped, 1);
    assert_int_equal(cluster_stats(&cl, 0).advert_void, 2); /* it knows that it cannot write */
    cluster_close(&cl);
}

/* ---- the end ---- */

static void test_the_receiver_closes(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    mbx_request sent;

    open_two(&cl, state, always);
    post(&cl, 0, 1, 0);
    step(&cl, 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    sent = send(&cl, 5, 1, SIZE);
    cluster_wait(&cl, 0, sent, &done);
    assert_int_equal(done.error, -ENOTCONN);
    assert_true(is_untouched(0));
    cluster_close(&cl);
}

/* The receiver does not get its buffer back in time, and reports that.  Then nothing is written
 * any more. */
static void test_the_receiver_closes_while_it_is_written(void **state)
{
    static unsigned char seen[2 * SIZE];
    struct mbx_completion done;
    struct cluster cl;
    mbx_request sent;

    open_two(&cl, state, chunks);
    post(&cl, 0, 1, 0);
    step(&cl, 0);
    sent = send(&cl, 5, 1, SIZE);
    mbx_progress(cl.eps[0]);
    assert_int_equal(cluster_close_one(&cl, 1), -ETIMEDOUT);
    memcpy(seen, bufs[0], sizeof seen);
    cluster_wait(&cl, 0, sent, &done);
    assert_int_equal(done.error, -ENOTCONN);
    assert_memory_equal(seen, bufs[0], sizeof seen);
    cluster_close(&cl);
}

/* A sender that closes completes the write that is under way. */
static void test_the_sender_closes_while_it_writes(void **state)
{
    const char *const params[] = {"ADVERT=always", "ADVERT_SIZE=1000", "READ_CHUNK=4K", NULL};
    struct cluster cl;
    mbx_request recv;

    open_two(&cl, state, params);
    recv = post(&cl, 0, 1, 0);
    step(&cl, 0);
    send(&cl, 5, 1, SIZE);
    assert_int_equal(cluster_close_one(&cl, 0), 0);
    expect(&cl, recv, 0, 5, SIZE);
    cluster_close(&cl);
}

/* ---- protocol violations ---- */

static bool forge(struct cluster *cl, int to, enum wire_type type, unsigned flags, uint64_t tag,
                  const void *body)
{
    const struct wire_header header = {.type = (uint8_t)type,
                                       .version = WIRE_VERSION,
                                       .flags = (uint16_t)flags,
                                       .tag = tag,
                                       .context_id = type == WIRE_WRITTEN ? 0 : CONTEXT};
    unsigned char packet[sizeof header + sizeof(struct wire_advertise)];
    uint64_t dropped = cluster_stats(cl, to).dropped_packets;

    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, body, wire_body_size(type));
    assert_int_equal(deliver_packet(cl->eps[to], (uint32_t)(1 - to), packet,
                                    sizeof header + wire_body_size(type)),
                     0);
    return cluster_stats(cl, to).dropped_packets == dropped + 1;
}

static void test_violations_to_a_receiver(void **state)
{
    struct cluster cl;
    mbx_request recv, unadvertised;
    struct wire_write write = {.sender = 1, .size = SIZE, .done = SIZE};
    struct wire_written written = {.done = SIZE};

    open_two(&cl, state, chunks);
    recv = post(&cl, 0, 1, 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 2, 0, bufs[1], 10, NULL, &unadvertised),
                     0);
    write.receiver = written.receiver = recv;
    assert_true(forge(&cl, 1, WIRE_WRITE, 0, 1, &write)); /* before its lock word is taken */
    step(&cl, 0);
    send(&cl, 5, 1, SIZE); /* takes the lock word; WRITE is under way */
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, 0, &written));
    assert_true(forge(&cl, 1, WIRE_WRITE, 0, 2, &write)); /* another tag */
    write.sender = 0;
    assert_true(forge(&cl, 1, WIRE_WRITE, 0, 1, &write));
    write = (struct wire_write){recv, 1, 3 * SIZE, SIZE + 1, 0, 0};
    assert_true(forge(&cl, 1, WIRE_WRITE, 0, 1, &write)); /* more than the buffer holds */
    write = (struct wire_write){unadvertised, 1, 10, 10, 0, 0};
    assert_true(forge(&cl, 1, WIRE_WRITE, 0, 2, &write));
    mbx_progress(cl.eps[1]); /* WRITE has arrived */
    written.done = SIZE + 1;
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, 0, &written));
    written.done = 5000; /* neither all of it nor stopped */
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, 0, &written));
    expect(&cl, recv, 0, 5, SIZE);
    cluster_close(&cl);
}

static void test_violations_to_a_sender(void **state)
{
    struct cluster cl;
    struct wire_advertise early = {
        .receiver = 1, .number = 1, .from = 1, .word = 1, .size = 5000};
    mbx_request recv;

    open_two(&cl, state, chunks);
    early.credit = peer_credit(peer_get(cl.eps[0], 1))->envelopes;
    assert_false(forge(&cl, 0, WIRE_ADVERTISE, 0, 1, &early)); /* no such lock word */
    assert_true(forge(&cl, 0, WIRE_ADVERTISE, 0, 1, &early));  /* twice */
    for (early.number = 2; early.number < 40; early.number++)
        assert_false(forge(&cl, 0, WIRE_ADVERTISE, 0, 3, &early));
    assert_int_equal(peer_get(cl.eps[0], 1)->advert->count, ADVERT_MOST);
    recv = post(&cl, 0, 1, 0);
    send(&cl, 5, 1, SIZE);
    expect(&cl, recv, 0, 5, SIZE);
    cluster_close(&cl);
}

static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "loop") == 0 || strcmp(config->name, "shm") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_arrives_without_its_receiver),
        cmocka_unit_test(test_a_long_message_is_told_first),
        cmocka_unit_test(test_a_message_that_does_not_fit),
        cmocka_unit_test(test_a_synchronous_send_is_complete_when_written),
        cmocka_unit_test(test_the_senders_that_are_told),
        cmocka_unit_test(test_nobody_is_told),
        cmocka_unit_test(test_a_sender_that_may_write_is_told),
        cmocka_unit_test(test_a_message_under_way_makes_it_void),
        cmocka_unit_test(test_what_follows_a_void_one_is_void),
        cmocka_unit_test(test_those_that_overlap_are_filled_in_order),
        cmocka_unit_test(test_a_short_message_meets_it),
        cmocka_unit_test(test_a_short_message_stands_before_others),
        cmocka_unit_test(test_a_short_message_does_no_harm_to_others),
        cmocka_unit_test(test_what_nobody_wants_is_dropped),
        cmocka_unit_test(test_holding_drops_them),
        cmocka_unit_test(test_it_is_given_up_where_it_is_of_no_use),
        cmocka_unit_test(test_a_rank_that_waits_during_the_write_could_have_helped),
        cmocka_unit_test(test_a_receiver_that_does_not_wait_is_written_again),
        cmocka_unit_test(test_a_cancel_closes_it),
        cmocka_unit_test(test_a_cancelled_one_leaves_its_message),
        cmocka_unit_test(test_cancels_race),
        cmocka_unit_test(test_a_write_that_fails),
        cmocka_unit_test(test_writes_that_are_forbidden),
        cmocka_unit_test(test_the_receiver_closes),
        cmocka_unit_test(test_the_receiver_closes_while_it_is_written),
        cmocka_unit_test(test_the_sender_closes_while_it_writes),
        cmocka_unit_test(test_violations_to_a_receiver),
        cmocka_unit_test(test_violations_to_a_sender),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
