/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * looks_test.c - which of the awaited peers a look checks, and how soon a dead peer is found.
 *
 * One endpoint knows many peers, which nobody has ever opened.  It calls its transport to check
 * whether they are alive (transport_ops.check); the test answers, and counts.  Time moves only
 * from look to look.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"

#define CONTEXT 17
#define JOB     300
#define FEW     16        /* each look checks all of so few peers */
#define SHARE   (JOB / 4) /* of more peers a look checks fewer than these */
#define COOKIE  16        /* the offset of the endpoint's number in an address */

struct job {
    struct mbx_ep *ep;
    struct transport *transport;
    const struct transport_ops *ops;
    struct transport_ops asked;
    mbx_request recvs[JOB];
};

static struct {
    uint64_t now_ns;
    unsigned looks, looks_at[JOB]; /* counted in the last look */
    bool is_dead[JOB];
} seen;

static uint64_t stopped(void)
{
    return seen.now_ns;
}

static int check_seen(struct link *link)
{
    seen.looks++;
    seen.looks_at[link->peer]++;
    return seen.is_dead[link->peer] ? -EHOSTDOWN : 0;
}

static void name_and_meet(struct job *job, uint32_t number)
{
    struct mbx_address address;
    uint32_t named, salt = number + 1;

    mbx_address_get(job->ep, &address);
    for (size_t i = 0; i < sizeof salt; i++)
        address.bytes[COOKIE + i] ^= ((const uint8_t *)&salt)[i];
    assert_int_equal(mbx_peer_add(job->ep, &address, &named), 0);
    assert_int_equal(named, number);
    assert_int_equal(peer_use(job->ep, number), 0);
}

static void job_open_with(struct job *job, const struct configuration *config, uint32_t count)
{
    memset(&seen, 0, sizeof seen);
    job->ep =
        cluster_open_one(config, (const char *[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error", NULL});
    for (uint32_t i = 0; i < count; i++)
        name_and_meet(job, i);
    job->transport = peer_get(job->ep, 0)->link->transport;
    job->ops = job->transport->ops;
    job->asked = *job->ops;
    job->asked.check = check_seen;
    job->transport->ops = &job->asked;
    seen.now_ns = clock_now();
    clock_set(stopped);
}

static void job_open(struct job *job, const struct configuration *config)
{
    job_open_with(job, config, JOB);
}

static void job_close(struct job *job)
{
    clock_set(NULL);
    job->transport->ops = job->ops;
    (void)mbx_close(job->ep);
}

static void post(struct job *job, uint32_t source, mbx_request *recv)
{
    assert_int_equal(mbx_recv(job->ep, source, CONTEXT, 1, 0, NULL, 0, NULL, recv), 0);
}

static void cancel(struct job *job, mbx_request recv)
{
    struct mbx_completion done;

    assert_int_equal(mbx_cancel(job->ep, recv), 0);
    assert_int_equal(mbx_wait(job->ep, recv, -1, &done), 0);
    assert_int_equal(done.error, -ECANCELED);
}

/* Makes enough rounds of progress for a look. */
static void make_progress(struct job *job)
{
    for (int i = 0; i < 2 * PROGRESS_SLOW_CHECK; i++)
        (void)mbx_progress(job->ep);
}

/* Makes the next look, this many periods after the last.  Returns the number of peers that it
 * checked. */
static unsigned look_late(struct job *job, unsigned periods)
{
    seen.looks = 0;
    memset(seen.looks_at, 0, sizeof seen.looks_at);
    seen.now_ns += periods * (uint64_t)liveness_ns(job->ep);
    make_progress(job);
    return seen.looks;
}

static unsigned look(struct job *job)
{
    return look_late(job, 1);
}

/* Posts receives from the first `count` peers; the first look is a period later. */
static void wait_for(struct job *job, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        post(job, i, &job->recvs[i]);
    make_progress(job);
}

static void wait_no_more(struct job *job, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        cancel(job, job->recvs[i]);
}

/* Peers are checked when somebody has waited for them for some time, and not when the first
 * wait begins.  In a job in which every rank meets every other, that would check all of them at
 * once, and each check costs system calls. */
static void test_the_first_wait_looks_at_nobody(void **state)
{
    struct job job;

    job_open(&job, *state);
    seen.now_ns += CLOCK_S;
    assert_int_equal(look(&job), 0); /* nobody waits */
    seen.now_ns += CLOCK_S;
    wait_for(&job, 1);
    assert_int_equal(seen.looks, 0);
    seen.now_ns += (uint64_t)liveness_ns(job.ep) - 1;
    make_progress(&job);
    assert_int_equal(seen.looks, 0);
    seen.now_ns++;
    make_progress(&job);
    assert_int_equal(seen.looks, 1);
    assert_int_equal(look(&job), 1);
    wait_no_more(&job, 0, 1);
    job_close(&job);
}

static void test_few_are_looked_at_in_each_look(void **state)
{
    struct job job;

    job_open(&job, *state);
    wait_for(&job, FEW);
    for (int i = 0; i < LIVENESS_CHECKS; i++)
        assert_int_equal(look(&job), FEW);
    wait_no_more(&job, 0, FEW);
    job_close(&job);
}

static void test_anybody_is_all_where_there_are_few(void **state)
{
    mbx_request recv;
    struct job job;

    job_open_with(&job, *state, FEW);
    post(&job, MBX_ANY_SOURCE, &recv);
    make_progress(&job);
    for (int i = 0; i < LIVENESS_CHECKS; i++)
        assert_int_equal(look(&job), FEW);
    cancel(&job, recv);
    job_close(&job);
}

/* Otherwise the cost of a look would grow with the number of ranks, if each waits for all
 * others, and the cost for the whole job with its square. */
static void test_a_look_takes_a_share_of_many_peers(void **state)
{
    unsigned times[JOB] = {0};
    struct job job;

    job_open(&job, *state);
    wait_for(&job, JOB);
    for (int i = 0; i < LIVENESS_CHECKS; i++) {
        assert_in_range(look(&job), FEW, SHARE);
        for (uint32_t number = 0; number < JOB; number++)
            times[number] += seen.looks_at[number];
    }
    for (uint32_t number = 0; number < JOB; number++)
        assert_in_range(times[number], 3, 4);
    wait_no_more(&job, 0, JOB);
    job_close(&job);
}

/* An endpoint that seldom makes progress has few looks, and each checks more peers. */
static void test_a_late_look_takes_more(void **state)
{
    unsigned times[JOB] = {0};
    struct job job;

    job_open(&job, *state);
    wait_for(&job, JOB);
    for (int i = 0; i < 2; i++) {
        assert_in_range(look_late(&job, 3), 2 * FEW, 3 * SHARE);
        for (uint32_t number = 0; number < JOB; number++)
            times[number] += seen.looks_at[number];
    }
    for (uint32_t number = 0; number < JOB; number++)
        assert_in_range(times[number], 1, 2);
    assert_int_equal(look_late(&job, 1000), JOB);
    wait_no_more(&job, 0, JOB);
    job_close(&job);
}

/* As over a network, which needs several looks to find that nobody answers. */
static void test_looks_that_cost_nothing_take_all(void **state)
{
    struct job job;

    job_open(&job, *state);
    job.transport->limits.check_costs = false;
    wait_for(&job, JOB);
    for (int i = 0; i < LIVENESS_CHECKS; i++)
        assert_int_equal(look(&job), JOB);
    wait_no_more(&job, 0, JOB);
    job.transport->limits.check_costs = true;
    job_close(&job);
}

/* A look remembers one probe, the last before it.  The next look may have another. */
static void test_a_probed_peer_is_looked_at_next(void **state)
{
    struct mbx_status status;
    struct job job;

    job_open(&job, *state);
    wait_for(&job, 2 * FEW);
    for (uint32_t i = 0; i < JOB; i++) {
        assert_int_equal(mbx_probe(job.ep, i * 7 % JOB, CONTEXT, 1, 0, &status), 0);
        assert_in_range(look(&job), 1, 2 * FEW + 1);
        assert_int_equal(seen.looks_at[i * 7 % JOB], 1);
    }
    wait_no_more(&job, 0, 2 * FEW);
    job_close(&job);
}

/* A peer that nobody waits for any more costs nothing. */
static void test_peers_that_nobody_waits_for_are_not_looked_at(void **state)
{
    struct job job;

    job_open(&job, *state);
    wait_for(&job, JOB);
    (void)look(&job);
    wait_no_more(&job, 1, JOB);
    assert_int_equal(look(&job), 1);
    assert_int_equal(seen.looks_at[0], 1);
    wait_no_more(&job, 0, 1);
    job_close(&job);
}

/* The time from the death until this receive has ended, or receives from any source report
 * it, is less than MBX_PEER_TIMEOUT.  The dead peer's second check is in the look after its
 * first. */
static void find_dead(struct job *job, uint32_t number, mbx_request recv)
{
    uint64_t died_ns = seen.now_ns;
    uint32_t dead = job->ep->failures.count;
    struct mbx_completion done;
    int rc, taken = 0;

    seen.is_dead[number] = true;
    while (job->ep->failures.count == dead) {
        (void)look(job);
        taken += seen.looks_at[number] != 0;
        assert_true(taken == 0 || seen.looks_at[number] != 0);
        assert_true(seen.now_ns - died_ns < job->ep->settings.peer_timeout_ns);
    }
    assert_int_equal(taken, 2);
    rc = mbx_test(job->ep, recv, &done);
    assert_true(rc == -EHOSTDOWN || (rc == 1 && done.error == -ENOTCONN));
}

/* Peers die one after another: before, after and in the turn of the others. */
static void test_each_that_dies_is_found_in_time(void **state)
{
    struct job job;

    job_open(&job, *state);
    wait_for(&job, JOB);
    for (uint32_t i = 0; i < JOB; i++)
        find_dead(&job, i * 7 % JOB, job.recvs[i * 7 % JOB]);
    job_close(&job);
}

static void test_all_that_die_are_found_in_time(void **state)
{
    struct mbx_completion done;
    struct job job;
    uint64_t died_ns;

    job_open(&job, *state);
    wait_for(&job, JOB);
    (void)look(&job);
    died_ns = seen.now_ns;
    memset(seen.is_dead, 1, sizeof seen.is_dead);
    for (uint32_t i = 0; i < JOB; i++) {
        while (mbx_test(job.ep, job.recvs[i], &done) == 0) {
            (void)look(&job);
            assert_true(seen.now_ns - died_ns < job.ep->settings.peer_timeout_ns);
        }
        assert_int_equal(done.error, -ENOTCONN);
    }
    job_close(&job);
}

static void test_a_rank_that_waits_for_anybody_hears_of_the_dead_in_time(void **state)
{
    mbx_request recv;
    struct job job;

    job_open(&job, *state);
    post(&job, MBX_ANY_SOURCE, &recv);
    make_progress(&job);
    for (uint32_t i = 0; i < JOB; i++)
        find_dead(&job, i * 7 % JOB, recv);
    assert_int_equal(look(&job), 0);
    cancel(&job, recv);
    job_close(&job);
}

/* A packet could not be sent to the peer: the next look checks it, even if nobody waits for
 * it. */
static void test_a_suspected_peer_is_looked_at_next(void **state)
{
    mbx_request recv;
    struct job job;

    job_open(&job, *state);
    post(&job, MBX_ANY_SOURCE, &recv);
    make_progress(&job);
    for (uint32_t i = 0; i < JOB; i++) {
        liveness_suspect(peer_get(job.ep, i * 7 % JOB));
        assert_in_range(look(&job), FEW, SHARE);
        assert_int_equal(seen.looks_at[i * 7 % JOB], 1);
    }
    cancel(&job, recv);
    job_close(&job);
}

/* Nobody is at the addresses, so no device may look by itself, and there are no faults. */
static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0 || strcmp(config->name, "both") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_wait_looks_at_nobody),
        cmocka_unit_test(test_few_are_looked_at_in_each_look),
        cmocka_unit_test(test_anybody_is_all_where_there_are_few),
        cmocka_unit_test(test_a_look_takes_a_share_of_many_peers),
        cmocka_unit_test(test_a_late_look_takes_more),
        cmocka_unit_test(test_looks_that_cost_nothing_take_all),
        cmocka_unit_test(test_a_probed_peer_is_looked_at_next),
        cmocka_unit_test(test_peers_that_nobody_waits_for_are_not_looked_at),
        cmocka_unit_test(test_each_that_dies_is_found_in_time),
        cmocka_unit_test(test_all_that_die_are_found_in_time),
        cmocka_unit_test(test_a_rank_that_waits_for_anybody_hears_of_the_dead_in_time),
        cmocka_unit_test(test_a_suspected_peer_is_looked_at_next),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
