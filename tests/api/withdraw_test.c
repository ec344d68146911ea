/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * withdraw_test.c - a send is withdrawn if no receive has matched it: then nobody gets its
 * message; otherwise one receive gets it, once.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "core/core.h"

#define CONTEXT   31
#define ROUNDS    600
#define SENDS_MAX 4096
#define LONGEST   ((size_t)200000)

typedef int send_fn(struct mbx_ep *, uint32_t, uint32_t, uint64_t, const void *, size_t,
                    const struct mbx_options *, mbx_request *);

static send_fn *const sends[] = {mbx_ssend, mbx_send};

/* Receives a message to `to` that was not withdrawn, or could not be. */
static void receive(struct cluster *cl, int to, uint64_t tag, const unsigned char *want,
                    size_t size)
{
    struct guarded_buffer in;
    mbx_request recv;

    guarded_buffer_init(&in, size, 0);
    assert_int_equal(
        mbx_recv(cl->eps[to], MBX_ANY_SOURCE, CONTEXT, tag, 0, in.bytes, size, NULL, &recv), 0);
    cluster_wait_error(cl, to, recv, 0);
    assert_memory_equal(in.bytes, want, size);
    guarded_buffer_fini(&in, size);
}

/* Such an adapter is not asked. */
static bool adapter_matches(const struct cluster *cl, int to)
{
    return peer_get(cl->eps[0], (uint32_t)to)->link->transport->limits.data_max != 0;
}

/* A send that completes when it leaves cannot be withdrawn; a synchronous send, and a long one,
 * can. */
static void take_back(struct cluster *cl, int to, enum mbx_protocol protocol, bool is_sync,
                      bool has_arrived)
{
    size_t size = cluster_size_of(cl, protocol);
    const unsigned char *data = seeded_bytes(5, size);
    struct mbx_completion done;
    mbx_request send;
    int err;

    if (size == 0)
        return;
    assert_int_equal(
        sends[!is_sync](cl->eps[0], (uint32_t)to, CONTEXT, 3, data, size, NULL, &send), 0);
    if (has_arrived)
        cluster_settle(cl);
    err = mbx_cancel(cl->eps[0], send);
    if (is_sync && !adapter_matches(cl, to))
        assert_int_equal(err, 0);
    if (err == 0) {
        err = mbx_cancel(cl->eps[0], send);
        assert_true(err == -EINPROGRESS || err == -ECANCELED);
        cluster_wait(cl, 0, send, &done);
        assert_int_equal(done.error, -ECANCELED);
        assert_int_equal(done.kind, MBX_SENDS);
    } else {
        assert_int_equal(err, -EALREADY);
        receive(cl, to, 3, data, size);
        cluster_wait_error(cl, 0, send, 0);
    }
    assert_int_equal(mbx_cancel(cl->eps[0], send), -ESTALE);
    cluster_settle(cl);
    assert_int_equal(cluster_waiting(cl), 0);
    /* the next message is not affected */
    assert_int_equal(mbx_inject(cl->eps[0], (uint32_t)to, CONTEXT, 3, data, 7, 0), 0);
    receive(cl, to, 3, data, 7);
}

static void test_messages_without_receive_are_taken_back(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int n = 0; n < 8 * MBX_PROTOCOLS; n++)
        take_back(&cl, n & 1, (enum mbx_protocol)(n / 8), n & 2, n & 4);
    assert_int_equal(cluster_stats(&cl, 0).send_errors, 0);
    cluster_close(&cl);
}

/* A send that a receive or a matched probe has matched cannot be withdrawn. */
static void test_what_is_matched_is_not(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int n = 0; n < 2 * MBX_PROTOCOLS; n++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)(n / 2));
        const unsigned char *data = seeded_bytes(6, size);
        struct mbx_status status;
        struct guarded_buffer in;
        mbx_message message;
        mbx_request send, recv;

        if (size == 0)
            continue;
        guarded_buffer_init(&in, size, 0);
        assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, 4, data, size, NULL, &send), 0);
        if (n & 1) {
            cluster_settle(&cl);
            assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 4, 0, &status, &message), 1);
            (void)mbx_cancel(cl.eps[0], send);
            cluster_settle(&cl);
            assert_int_equal(mbx_mrecv(cl.eps[1], message, in.bytes, size, NULL, &recv), 0);
        } else {
            assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 4, 0, in.bytes, size, NULL, &recv),
                             0);
            while (cluster_stats(&cl, 1).posted_now == 1)
                cluster_progress(&cl);
            (void)mbx_cancel(cl.eps[0], send);
        }
        cluster_wait_error(&cl, 1, recv, 0);
        cluster_wait_error(&cl, 0, send, 0);
        assert_memory_equal(in.bytes, data, size);
        guarded_buffer_fini(&in, size);
    }
    cluster_close(&cl);
}

/* ---- while the receiver waits for its device ---- */

/* The first message uses up the credit, so the second one is deferred, and the receiver asks
 * its device to return all receives. */
static void defer_one(struct cluster *cl, int from, mbx_request *pair)
{
    for (int i = 0; i < 2; i++) {
        cluster_settle(cl);
        assert_int_equal(mbx_send(cl->eps[from], 1, CONTEXT, 7, "deferred", 8, NULL, &pair[i]),
                         0);
    }
}

/* The matched probe has the message, so the receiver does not answer the WITHDRAW, and still
 * handles the packets after it. */
static void probed(struct cluster *cl, int from, int other)
{
    const unsigned char *data = seeded_bytes(9, LONGEST);
    mbx_request send, recv, posted, deferred[2];
    struct mbx_status status;
    struct guarded_buffer in;
    mbx_message message;
    char bytes[8];

    guarded_buffer_init(&in, LONGEST, 0);
    assert_int_equal(mbx_ssend(cl->eps[from], 1, CONTEXT, 4, data, LONGEST, NULL, &send), 0);
    cluster_settle(cl);
    assert_int_equal(cluster_mprobe(cl, 1, (uint32_t)from, CONTEXT, 4, 0, &status, &message),
                     1);
    assert_int_equal(
        mbx_recv(cl->eps[1], (uint32_t)from, CONTEXT, 5, 0, bytes, 8, NULL, &posted), 0);
    defer_one(cl, other, deferred);
    (void)mbx_cancel(cl->eps[from], send);
    cluster_settle(cl);
    assert_int_equal(mbx_mrecv(cl->eps[1], message, in.bytes, LONGEST, NULL, &recv), 0);
    cluster_wait_error(cl, 1, recv, 0);
    cluster_wait_error(cl, from, send, 0);
    assert_memory_equal(in.bytes, data, LONGEST);
    for (int i = 0; i < 2; i++) {
        receive(cl, 1, 7, (const unsigned char *)"deferred", 8);
        cluster_wait_error(cl, other, deferred[i], 0);
    }
    assert_int_equal(mbx_inject(cl->eps[from], 1, CONTEXT, 5, data, 8, 0), 0);
    cluster_wait_error(cl, 1, posted, 0);
    guarded_buffer_fini(&in, LONGEST);
}

static void test_a_message_of_a_matched_probe_blocks_nobody(void **state)
{
    static const char *const narrow[] = {"WINDOW=1", "MATCH_AT=receiver", NULL};

    for (int from = 0; from <= 2; from += 2) {
        struct cluster cl;

        cluster_open(&cl, *state, 3, narrow);
        probed(&cl, from, 2 - from);
        cluster_close(&cl);
    }
}

/* The message before it may be asking for a receive that the device has: neither has arrived
 * when the WITHDRAW does. */
static void behind_another(struct cluster *cl, int to)
{
    struct mbx_completion done;
    mbx_request recv, send;
    char in[8];
    int err;

    assert_int_equal(mbx_recv(cl->eps[to], MBX_ANY_SOURCE, CONTEXT, 5, 0, in, 8, NULL, &recv),
                     0);
    cluster_settle(cl);
    assert_int_equal(mbx_inject(cl->eps[0], (uint32_t)to, CONTEXT, 5, "received", 8, 0), 0);
    assert_int_equal(
        mbx_ssend(cl->eps[0], (uint32_t)to, CONTEXT, 6, "wait for", 8, NULL, &send), 0);
    err = mbx_cancel(cl->eps[0], send);
    assert_true(err == 0 || (err == -EALREADY && adapter_matches(cl, to)));
    cluster_wait_error(cl, to, recv, 0);
    if (err != 0)
        receive(cl, to, 6, (const unsigned char *)"wait for", 8);
    cluster_wait(cl, 0, send, &done);
    assert_int_equal(done.error, err == 0 ? -ECANCELED : 0);
}

static void test_a_message_after_another_is_taken_back(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 3, NULL);
    for (int n = 0; n < 9; n++)
        behind_another(&cl, n % 3);
    cluster_close(&cl);
}

/* ---- at random ---- */

enum fate { UNDER_WAY, SENT, TAKEN_BACK };

struct job {
    struct cluster cl;
    struct random random;
    mbx_request sends[SENDS_MAX];
    enum fate fates[SENDS_MAX];
    int received[SENDS_MAX]; /* how often */
    uint32_t count, open;    /* sends; UNDER_WAY */
    mbx_request recv;        /* or 0 */
    uint64_t in[LONGEST / 8 + 1];
};

static void job_send(struct job *job)
{
    static const size_t sizes[] = {8, 8, 64, 1000, 9000, 40000, LONGEST};
    size_t size = sizes[random_below(&job->random, ARRAY_COUNT(sizes))];
    uint32_t i = job->count++;
    uint64_t *data = mem_calloc(1, size);

    assert_non_null(data);
    data[0] = i;
    job->open++;
    assert_int_equal(sends[random_below(&job->random, 2)](
                         job->cl.eps[0], 1, CONTEXT, random_below(&job->random, 2), data, size,
                         &(const struct mbx_options){.user = data}, &job->sends[i]),
                     0);
}

static void job_ended(struct job *job, uint32_t i, const struct mbx_completion *done)
{
    assert_true(done->error == 0 || done->error == -ECANCELED);
    job->fates[i] = done->error == 0 ? SENT : TAKEN_BACK;
    job->open--;
    mem_free(done->user);
}

/* Records the requests that have completed. */
static void job_look(struct job *job)
{
    struct mbx_completion done;

    for (uint32_t i = 0; i < job->count; i++)
        if (job->fates[i] == UNDER_WAY && mbx_test(job->cl.eps[0], job->sends[i], &done) == 1)
            job_ended(job, i, &done);
    if (job->recv != 0 && mbx_test(job->cl.eps[1], job->recv, &done) == 1) {
        job->recv = 0;
        if (done.error == -ECANCELED)
            return;
        assert_int_equal(done.error, 0);
        assert_true(job->in[0] < job->count);
        assert_int_equal(job->received[job->in[0]]++, 0);
    }
}

static void job_receive(struct job *job)
{
    if (job->recv != 0)
        return;
    job->in[0] = UINT64_MAX;
    assert_int_equal(mbx_recv(job->cl.eps[1],
                              random_below(&job->random, 2) ? 0 : MBX_ANY_SOURCE, CONTEXT, 0,
                              MBX_IGNORE_ALL, job->in, sizeof job->in, NULL, &job->recv),
                     0);
}

static void job_step(struct job *job)
{
    uint32_t i;

    switch (random_below(&job->random, 8)) {
    case 0:
    case 1:
    case 2:
        job_send(job);
        break;
    case 3:
        job_receive(job);
        break;
    case 4:
    case 5:
        if (job->count == 0)
            break;
        i = job->count - 1 - (uint32_t)random_below(&job->random, min_size(job->count, 6));
        if (job->fates[i] == UNDER_WAY)
            (void)mbx_cancel(job->cl.eps[0], job->sends[i]);
        break;
    case 6:
        mbx_progress(job->cl.eps[random_below(&job->random, 2)]);
        break;
    default:
        cluster_progress(&job->cl);
        job_look(job);
        break;
    }
}

static void test_each_is_received_or_taken_back(void **state)
{
    static struct job job;
    int rounds = test_is_quick() ? ROUNDS / 4 : ROUNDS;

    memset(&job, 0, sizeof job);
    random_seed(&job.random, 17);
    cluster_open(&job.cl, *state, 2, NULL);
    for (int i = 0; i < rounds; i++)
        job_step(&job);
    /* receives the remaining messages */
    for (int idle = 0; job.open != 0 || cluster_waiting(&job.cl) != 0;) {
        job_receive(&job);
        idle = cluster_progress(&job.cl) != 0 ? 0 : idle + 1;
        job_look(&job);
        assert_true(idle < test_patience());
    }
    cluster_settle(&job.cl);
    job_look(&job);
    if (job.recv != 0) {
        (void)mbx_cancel(job.cl.eps[1], job.recv);
        cluster_settle(&job.cl);
        job_look(&job);
    }
    for (uint32_t i = 0; i < job.count; i++)
        assert_int_equal(job.received[i], job.fates[i] == SENT);
    cluster_close(&job.cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_without_receive_are_taken_back),
        cmocka_unit_test(test_what_is_matched_is_not),
        cmocka_unit_test(test_a_message_of_a_matched_probe_blocks_nobody),
        cmocka_unit_test(test_a_message_after_another_is_taken_back),
        cmocka_unit_test(test_each_is_received_or_taken_back),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
