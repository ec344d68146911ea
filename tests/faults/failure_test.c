/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure_test.c - a peer dies, is stopped, or closes, and its peers are notified.
 *
 * Each test forks processes, one of which kills itself at a place that the test knows.  The
 * timeouts are short; the time until the detection is not checked.
 */
#include <errno.h>
#include <poll.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "forked_job.h"
#include "device.h"

#define DATA 1 /* context ids */
#define GO   2

static const char *const quick[] = {"TRANSPORT=shm", "PEER_TIMEOUT=20ms", NULL};

static void all_is_well(const struct forked_job *job, int killed)
{
    for (int rank = 0; rank < job->count; rank++)
        if (rank == killed ? !forked_was_killed(job, rank) : job->statuses[rank] != 0)
            fail_msg("rank %d ends with %x", rank, (unsigned)job->statuses[rank]);
}

static void die(void)
{
    raise(SIGKILL);
}

static mbx_request post_any(struct mbx_ep *ep, uint64_t tag, int *into,
                            const struct mbx_options *options)
{
    mbx_request request = 0;

    MUST(mbx_recv(ep, MBX_ANY_SOURCE, DATA, tag, 0, into, sizeof *into, options, &request) == 0,
         20);
    return request;
}

static void send_int(struct mbx_ep *ep, uint32_t to, uint64_t tag, int value)
{
    MUST(mbx_inject(ep, to, DATA, tag, &value, sizeof value, 0) == 0, 21);
}

/* ---- receives from any source ---- */

/* Rank 0 receives from any source; 2 dies; 1 sends when it gets GO. */
static void reported_once(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done;
    uint32_t dead[3] = {9, 9, 9};
    mbx_request by_wait, by_test, by_poll;
    int into[3] = {0}, err;

    (void)arg;
    if (rank == 2)
        die();
    if (rank == 1) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        for (int tag = 0; tag < 2; tag++)
            send_int(ep, 0, (uint64_t)tag, 100 + tag);
        forked_close(ep);
        return;
    }
    by_wait = post_any(ep, 0, &into[0], NULL);
    by_test = post_any(ep, 1, &into[1], NULL);
    by_poll = post_any(ep, 2, &into[2], &(struct mbx_options){.user = into});
    MUST(mbx_wait(ep, by_wait, PATIENCE_NS, &done) == -EHOSTDOWN, 31);
    MUST(mbx_wait(ep, by_wait, 1000000, &done) == -ETIMEDOUT, 32);
    while ((err = mbx_test(ep, by_test, &done)) == 0)
        ;
    MUST(err == -EHOSTDOWN && mbx_test(ep, by_test, &done) == 0, 33);
    MUST(mbx_wait_queues(ep, MBX_FAILURES, PATIENCE_NS) == 0, 34);
    MUST(mbx_ready(ep, MBX_FAILURES) == 1 && mbx_ready(ep, MBX_RECVS) == 0, 35);
    MUST(mbx_poll(ep, MBX_FAILURES, &done, 1) == 1, 36);
    MUST(done.request == by_poll && done.user == into && done.error == -EHOSTDOWN &&
             done.kind == MBX_FAILURES && done.status.source == 2 && done.status.tag == 2,
         37);
    MUST(mbx_poll(ep, MBX_FAILURES, &done, 1) == 0 && mbx_ready(ep, MBX_FAILURES) == 0, 38);
    MUST(mbx_failed(ep, NULL, 0) == 1 && mbx_failed(ep, dead, 3) == 1, 39);
    MUST(mbx_peer_remove(ep, dead[0]) == -EBUSY, 39); /* it is on the list of failed peers */
    MUST(dead[0] == 2 && dead[1] == 9, 40);
    /* the receives can still match, and be cancelled */
    MUST(forked_signal(ep, 1, GO) == 0, 41);
    MUST(mbx_wait(ep, by_wait, PATIENCE_NS, &done) == 0 && done.error == 0, 42);
    MUST(mbx_wait(ep, by_test, PATIENCE_NS, &done) == 0 && done.error == 0, 43);
    MUST(into[0] == 100 && into[1] == 101 && done.status.source == 1, 44);
    MUST(mbx_cancel(ep, by_poll) == 0, 45);
    MUST(mbx_wait(ep, by_poll, PATIENCE_NS, &done) == 0 && done.error == -ECANCELED, 46);
    forked_close(ep);
}

static void a_receive_from_any_source_is_told_once(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 3, reported_once, NULL);
    forked_end(&job);
    all_is_well(&job, 2);
}

/* Rank 0 has two receives from any source; 2 dies; 1 sends when it gets GO. */
static void reported_by_array(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done[3];
    mbx_request requests[3] = {0}, before[3];
    int into[3] = {0}, indices[3];

    (void)arg;
    if (rank == 2)
        die();
    if (rank == 1) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        for (int tag = 0; tag < 3; tag++)
            send_int(ep, 0, (uint64_t)tag, 100 + tag);
        forked_close(ep);
        return;
    }
    requests[0] = post_any(ep, 0, &into[0], NULL);
    requests[2] = post_any(ep, 2, &into[2], &(struct mbx_options){.user = into});
    memcpy(before, requests, sizeof before);
    MUST(mbx_wait_some(ep, requests, 3, PATIENCE_NS, indices, done) >= 1, 31);
    MUST(indices[0] == 0 && done[0].kind == MBX_FAILURES && done[0].error == -EHOSTDOWN &&
             done[0].request == before[0] && done[0].status.source == 2,
         32);
    /* the other receive reports the death before or during this wait */
    MUST(mbx_wait_all(ep, requests, 3, 100000000, done) == -ETIMEDOUT, 33);
    MUST(memcmp(before, requests, sizeof before) == 0, 34);
    requests[1] = post_any(ep, 1, &into[1], NULL); /* posted after the death: also reports it */
    MUST(mbx_wait_any(ep, requests, 3, PATIENCE_NS, indices, done) == 1, 35);
    MUST(indices[0] == 1 && done[0].kind == MBX_FAILURES && requests[1] == done[0].request, 36);
    MUST(forked_signal(ep, 1, GO) == 0, 37);
    MUST(mbx_wait_all(ep, requests, 3, PATIENCE_NS, done) == 0, 38);
    for (int i = 0; i < 3; i++)
        MUST(requests[i] == 0 && into[i] == 100 + i && done[i].status.source == 1, 39);
    forked_close(ep);
}

static void an_array_tells_of_a_death_and_is_met(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 3, reported_by_array, NULL);
    forked_end(&job);
    all_is_well(&job, 2);
}

/* Rank 0 makes progress only when its descriptor is readable. */
static void reported_by_descriptor(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done;
    struct pollfd wanted = {.events = POLLIN};
    int into;

    (void)arg;
    if (rank == 1) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        die();
    }
    wanted.fd = mbx_fd(ep);
    MUST(wanted.fd >= 0, 31);
    MUST(mbx_recv(ep, 1, DATA, 0, 0, &into, sizeof into, NULL, NULL) == 0, 32);
    MUST(forked_signal(ep, 1, GO) == 0, 33);
    while (mbx_poll(ep, MBX_RECVS, &done, 1) == 0)
        if (mbx_progress(ep) == 0 && mbx_arm(ep) == 0)
            MUST(poll(&wanted, 1, PATIENCE_MS) == 1, 34);
    MUST(done.error == -ENOTCONN, 35);
    forked_close(ep);
}

static void a_descriptor_tells_of_a_death(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 2, reported_by_descriptor, NULL);
    forked_end(&job);
    all_is_well(&job, 1);
}

/* A receive is posted after a death; then rank 2 also dies. */
static void reported_again(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done;
    mbx_request first, later;
    uint32_t dead[2];
    int into;

    (void)arg;
    if (rank == 1)
        die();
    if (rank == 2) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        die();
    }
    first = post_any(ep, 0, &into, NULL);
    MUST(mbx_wait(ep, first, PATIENCE_NS, &done) == -EHOSTDOWN, 31);
    later = post_any(ep, 0, &into, NULL);
    MUST(mbx_test(ep, later, &done) == -EHOSTDOWN && mbx_test(ep, later, &done) == 0, 32);
    MUST(mbx_failed_ack(ep) == 1, 33);
    MUST(mbx_cancel(ep, later) == 0 && mbx_wait(ep, later, -1, &done) == 0, 34);
    later = post_any(ep, 0, &into, NULL);
    MUST(mbx_test(ep, later, &done) == 0 && mbx_ready(ep, MBX_FAILURES) == 0, 35);
    MUST(forked_signal(ep, 2, GO) == 0, 36);
    MUST(mbx_wait(ep, first, PATIENCE_NS, &done) == -EHOSTDOWN, 37);
    MUST(mbx_wait(ep, later, PATIENCE_NS, &done) == -EHOSTDOWN, 38);
    MUST(mbx_failed(ep, dead, 2) == 2 && dead[0] == 1 && dead[1] == 2, 39);
    mbx_cancel(ep, first);
    mbx_cancel(ep, later);
    MUST(mbx_wait(ep, first, -1, &done) == 0 && done.error == -ECANCELED, 40);
    MUST(mbx_wait(ep, later, -1, &done) == 0 && done.error == -ECANCELED, 41);
    forked_close(ep);
}

static void what_is_posted_later_is_told_until_it_is_known(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 3, reported_again, NULL);
    forked_end(&job);
    assert_true(forked_was_killed(&job, 1) && forked_was_killed(&job, 2));
    assert_int_equal(job.statuses[0], 0);
}

/* A peer that closes has not failed. */
static void closes(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done;
    mbx_request any;
    int into;

    (void)arg;
    if (rank == 1) {
        forked_signal(ep, 0, GO);
        forked_close(ep);
        return;
    }
    any = post_any(ep, 0, &into, NULL);
    MUST(forked_receive(ep, 1, GO) == 0, 30);
    MUST(mbx_wait(ep, any, 100000000, &done) == -ETIMEDOUT, 31);
    MUST(mbx_failed(ep, NULL, 0) == 0, 32);
    mbx_cancel(ep, any);
    MUST(mbx_wait(ep, any, -1, &done) == 0 && done.error == -ECANCELED, 33);
    forked_close(ep);
}

static void a_peer_that_closes_has_not_failed(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 2, closes, NULL);
    forked_end(&job);
    all_is_well(&job, -1);
}

/* ---- probes ---- */

/* Rank 0 only probes; 2 sends a message and dies; 1 sends when it gets GO. */
static void probes(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_status status;
    mbx_message message;
    int found;

    (void)arg;
    if (rank == 2) {
        send_int(ep, 0, 1, 7);
        die();
    }
    if (rank == 1) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        send_int(ep, 0, 0, 8);
        forked_close(ep);
        return;
    }
    while ((found = mbx_probe(ep, 2, DATA, 0, 0, &status)) == 0)
        ;
    MUST(found == -ENOTCONN, 31);
    MUST(mbx_mprobe(ep, 2, DATA, 0, 0, &status, &message) == -ENOTCONN, 32);
    MUST(mbx_probe(ep, 2, DATA, 1, 0, &status) == 1 && status.source == 2, 33);
    MUST(mbx_probe(ep, 1, DATA, 0, 0, &status) == 0, 34);
    MUST(mbx_probe(ep, MBX_ANY_SOURCE, DATA, 0, 0, &status) == -EHOSTDOWN, 35);
    MUST(mbx_mprobe(ep, MBX_ANY_SOURCE, DATA, 0, 0, &status, &message) == -EHOSTDOWN, 36);
    MUST(mbx_failed_ack(ep) == 1, 37);
    MUST(mbx_probe(ep, MBX_ANY_SOURCE, DATA, 0, 0, &status) == 0, 38);
    MUST(forked_signal(ep, 1, GO) == 0, 39);
    while ((found = mbx_mprobe(ep, MBX_ANY_SOURCE, DATA, 0, 0, &status, &message)) == 0)
        ;
    MUST(found == 1 && status.source == 1 && mbx_discard(ep, message) == 0, 40);
    forked_close(ep);
}

/* Only a probe from any source can report the death. */
static void probes_any(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_status status;
    int found;

    (void)arg;
    if (rank == 1)
        die();
    while ((found = mbx_probe(ep, MBX_ANY_SOURCE, DATA, 0, 0, &status)) == 0)
        ;
    MUST(found == -EHOSTDOWN && mbx_failed(ep, NULL, 0) == 1, 31);
    forked_close(ep);
}

static void a_probe_is_told(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 3, probes, NULL);
    forked_end(&job);
    all_is_well(&job, 2);
    forked_start(&job, 2, probes_any, NULL);
    forked_end(&job);
    all_is_well(&job, 1);
}

/* ---- extra credit of the dead ---- */

#define HELD 600

/* Rank 1 gets extra credit beyond its first window, because it defers sends, and dies with
 * it. */
static void dies_announced(struct forked_job *job, int rank, const void *arg)
{
    static int numbers[HELD];
    struct mbx_ep *ep = forked_open(job, rank, arg);
    struct mbx_completion done;
    mbx_request request;
    int into;

    if (rank == 1) {
        for (int i = 0; i < HELD; i++) {
            numbers[i] = i;
            MUST(mbx_send(ep, 0, DATA, 0, &numbers[i], sizeof i, NULL, NULL) == 0, 30);
            mbx_progress(ep);
        }
        forked_await(job, ep, 0, 1);
        die();
    }
    while (ep_credit(ep)->extra ==
           ep_credit(ep)->extra_all) /* rank 1 defers, and gets extra credit */
        mbx_progress(ep);
    job->shared->words[0] = 1;
    MUST(mbx_recv(ep, 1, GO, 0, 0, NULL, 0, NULL, &request) == 0, 31);
    MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0 && done.error == -ENOTCONN, 32);
    for (int i = 0, taken = 1; taken == 1; i++) { /* the earlier messages are there */
        MUST(mbx_recv(ep, 1, DATA, 0, 0, &into, sizeof into, NULL, &request) == 0, 34);
        MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0, 35);
        taken = done.error == 0;
        MUST(taken ? into == i : done.error == -ENOTCONN, 36);
    }
    MUST(ep_credit(ep)->extra == ep_credit(ep)->extra_all, 37);
    forked_close(ep);
}

static void extra_credit_of_the_dead_comes_back(UNUSED void **state)
{
    /* with unbounded payload there are still extra envelopes */
    static const char *const unbounded[] = {"TRANSPORT=shm", "PEER_TIMEOUT=20ms",
                                            "WINDOW_PAYLOAD=unlimited", NULL};
    static const char *const *const params[] = {quick, unbounded};

    for (size_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct forked_job job;

        forked_start(&job, 2, dies_announced, params[i]);
        forked_end(&job);
        all_is_well(&job, 1);
    }
}

/* ---- with an unused device ---- */

/* Rank 1 dies; a receive of rank 0 names it, and is too short for the device. */
static void dies_beside(struct forked_job *job, int rank, const void *arg)
{
    static const char *const params[] = {"TRANSPORT=shm", "PEER_TIMEOUT=20ms",
                                         "DEVICE=soft-thread", NULL};
    struct mbx_ep *ep = forked_open(job, rank, params);
    struct mbx_completion done;
    mbx_request request;
    int into = 0;

    (void)arg;
    if (rank == 1)
        die();
    MUST(mbx_recv(ep, 1, DATA, 0, 0, &into, sizeof into, NULL, &request) == 0, 30);
    MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0 && done.error == -ENOTCONN, 31);
    forked_close(ep);
}

static void a_device_that_was_never_used_keeps_nobody_waiting(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 2, dies_beside, NULL);
    forked_end(&job);
    all_is_well(&job, 1);
}

/* ---- stopped ---- */

#define LONG ((size_t)300000)

/* Rank 1 stops itself between two messages, for longer than MBX_PEER_TIMEOUT. */
static void stops(struct forked_job *job, int rank, const void *arg)
{
    static unsigned char buf[LONG];
    struct mbx_ep *ep = forked_open(job, rank, quick);
    struct mbx_completion done;
    mbx_request recv, send, any;
    int into = 0;

    (void)arg;
    if (rank == 1) {
        job->shared->words[0] = 1;
        raise(SIGSTOP);
        send_int(ep, 0, 0, 5);
        MUST(mbx_recv(ep, 0, DATA, 1, 0, buf, LONG, NULL, &recv) == 0, 30);
        MUST(mbx_wait(ep, recv, PATIENCE_NS, &done) == 0 && done.error == 0, 31);
        MUST(buf[0] == 7 && buf[LONG - 1] == 7, 32);
        forked_receive(ep, 0, GO);
        forked_close(ep);
        return;
    }
    memset(buf, 7, sizeof buf);
    any = post_any(ep, 9, &into, NULL);
    MUST(mbx_recv(ep, 1, DATA, 0, 0, &into, sizeof into, NULL, &recv) == 0, 33);
    MUST(mbx_send(ep, 1, DATA, 1, buf, LONG, NULL, &send) == 0, 34);
    forked_await(job, ep, 1, 1); /* our parent has seen that rank 1 is stopped */
    MUST(mbx_wait(ep, recv, 60000000, &done) == -ETIMEDOUT, 35);
    MUST(mbx_wait(ep, send, 60000000, &done) == -ETIMEDOUT, 36);
    MUST(mbx_wait(ep, any, 60000000, &done) == -ETIMEDOUT, 37);
    job->shared->words[2] = 1;
    MUST(mbx_wait(ep, recv, PATIENCE_NS, &done) == 0 && done.error == 0 && into == 5, 38);
    MUST(mbx_wait(ep, send, PATIENCE_NS, &done) == 0 && done.error == 0, 39);
    mbx_cancel(ep, any);
    MUST(mbx_wait(ep, any, -1, &done) == 0 && done.error == -ECANCELED, 40);
    MUST(mbx_failed(ep, NULL, 0) == 0, 41);
    forked_signal(ep, 1, GO);
    forked_close(ep);
}

static void a_process_that_is_stopped_is_not_dead(UNUSED void **state)
{
    struct forked_job job;
    int status;

    forked_start(&job, 2, stops, NULL);
    assert_int_equal(waitpid(job.pids[1], &status, WUNTRACED), job.pids[1]);
    assert_true(WIFSTOPPED(status));
    job.shared->words[1] = 1;
    forked_await(&job, NULL, 2, 1);
    kill(job.pids[1], SIGCONT);
    forked_end(&job);
    all_is_well(&job, -1);
}

/* ---- with a device ---- */

#define FRAGMENTED ((size_t)40000)

/* Makes progress until the device has the posted receive. */
static void hand_over(struct mbx_ep *ep)
{
    const struct softdev *device = device_of(ep);
    struct stats stats;

    do {
        mbx_progress(ep);
        stats_read(ep, &stats);
    } while (stats.device_handed == 0 ||
             atomic_load(&device->channel->performed) < device->written);
}

/* Rank 1 dies after the first fragment of a message whose receive is in rank 0's device; arg
 * names the kind of the device. */
static void dies_within(struct forked_job *job, int rank, const void *arg)
{
    static unsigned char buf[FRAGMENTED];
    const char *const receiver[] = {"TRANSPORT=shm",
                                    "PEER_TIMEOUT=20ms",
                                    "MATCH=device",
                                    "ADVERT=off",
                                    "WINDOW_PAYLOAD=unlimited",
                                    arg,
                                    NULL};
    const char *const sender[] = {"TRANSPORT=shm", "EAGER_LIMIT=64K",
                                  "WINDOW_PAYLOAD=unlimited", "FAULT_DIE=sent-first", NULL};
    struct mbx_ep *ep = forked_open(job, rank, rank == 0 ? receiver : sender);
    struct mbx_completion done;
    struct stats stats;
    mbx_request request;
    int err;

    memset(buf, 7 * rank, sizeof buf);
    if (rank == 1) {
        MUST(forked_receive(ep, 0, GO) == 0, 30);
        mbx_send(ep, 0, DATA, 0, buf, sizeof buf, NULL, &request);
        mbx_wait(ep, request, PATIENCE_NS, &done);
        _exit(31);
    }
    /* a receive from rank 1 could end before a slow device has read the fragment */
    MUST(mbx_recv(ep, MBX_ANY_SOURCE, DATA, 0, 0, buf, sizeof buf, NULL, &request) == 0, 32);
    hand_over(ep);
    MUST(forked_signal(ep, 1, GO) == 0, 33);
    do {
        mbx_progress(ep);
        err = mbx_wait(ep, request, PATIENCE_NS, &done);
    } while (err == -EHOSTDOWN);
    MUST(err == 0, 34);
    MUST(done.error == -ENOTCONN && done.status.source == 1, 35);
    MUST(done.received != 0 && done.received < FRAGMENTED, 36);
    for (size_t i = 0; i < FRAGMENTED; i++)
        MUST(buf[i] == (i < done.received ? 7 : 0), 37);
    stats_read(ep, &stats);
    MUST(stats.device_matched == 1, 38);
    forked_close(ep);
}

static void what_a_device_assembles_ends_with_its_sender(UNUSED void **state)
{
    static const char *const devices[] = {"DEVICE=soft", "DEVICE=soft-thread",
                                          "DEVICE=soft-process"};
    struct forked_job job;

    for (size_t i = 0; i < ARRAY_COUNT(devices); i++) {
        forked_start(&job, 2, dies_within, devices[i]);
        forked_end(&job);
        all_is_well(&job, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_from_any_source_is_told_once),
        cmocka_unit_test(a_descriptor_tells_of_a_death),
        cmocka_unit_test(an_array_tells_of_a_death_and_is_met),
        cmocka_unit_test(what_is_posted_later_is_told_until_it_is_known),
        cmocka_unit_test(a_peer_that_closes_has_not_failed),
        cmocka_unit_test(a_probe_is_told),
        cmocka_unit_test(extra_credit_of_the_dead_comes_back),
        cmocka_unit_test(a_device_that_was_never_used_keeps_nobody_waiting),
        cmocka_unit_test(a_process_that_is_stopped_is_not_dead),
        cmocka_unit_test(what_a_device_assembles_ends_with_its_sender),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
