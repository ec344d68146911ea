/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network_death_test.c - a peer on a network dies, or only stops, and the others are notified.
 *
 *   rank 0   has met rank 3, and waits to receive from it, and to send to it
 *   rank 1   has met it, and has a message whose data it reads after the death
 *   rank 2   meets it only after the death
 *   rank 3   kills itself while the others wait
 *
 * The provider is one that continues to connect to dead peers (src/transport/ofi/tcp_probe.c).
 * The time until the others are notified is not checked.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"
#include "forked_job.h"

#define DATA   1 /* context ids */
#define GO     2
#define NEVER  3 /* a context id in which nobody sends, or receives */

#define RANKS  4
#define VICTIM 3
#define LONG   ((size_t)3 << 20)
#define SENDS  200

enum { WORD_READY, WORD_STOPPED, WORD_OVER }; /* in the shared memory */

static const char *const network[] = {"TRANSPORT=ofi", "OFI_PROVIDER=tcp;ofi_rxm", NULL};
static unsigned char bytes[LONG];

static void expect_error(struct mbx_ep *ep, mbx_request request, int error, int code)
{
    struct mbx_completion done;
    int err = mbx_wait(ep, request, PATIENCE_NS, &done);

    if (err != 0 || done.error != error)
        fprintf(stderr, "check %d: waited %d, error %d instead of %d\n", code, err, done.error,
                error);
    MUST(err == 0 && done.error == error, code);
}

static void expect_reported(struct mbx_ep *ep, mbx_request any, int code)
{
    struct mbx_completion done;

    MUST(mbx_wait(ep, any, PATIENCE_NS, &done) == -EHOSTDOWN, code);
    MUST(mbx_cancel(ep, any) == 0, code);
    expect_error(ep, any, -ECANCELED, code);
}

static mbx_request post(struct mbx_ep *ep, uint32_t from, uint32_t context_id, size_t size)
{
    mbx_request request = 0;

    MUST(mbx_recv(ep, from, context_id, 0, 0, bytes, size, NULL, &request) == 0, 20);
    return request;
}

static mbx_request send_to_victim(struct mbx_ep *ep, size_t size)
{
    mbx_request request = 0;

    MUST(mbx_send(ep, VICTIM, NEVER, 0, bytes, size, NULL, &request) == 0, 21);
    return request;
}

/* Sends until a send fails.  All earlier sends have left, or fail with the same error. */
static void send_short(struct mbx_ep *ep, int error, int code)
{
    struct mbx_completion done = {.error = 0};

    while (done.error == 0)
        MUST(mbx_wait(ep, send_to_victim(ep, 8), PATIENCE_NS, &done) == 0, code);
    MUST(done.error == error, code);
}

static void waits(struct forked_job *job, struct mbx_ep *ep)
{
    mbx_request recv, any, longer, many[SENDS];
    struct mbx_completion done;

    MUST(forked_receive(ep, VICTIM, GO) == 0, 30);
    recv = post(ep, VICTIM, NEVER, 8);
    any = post(ep, MBX_ANY_SOURCE, NEVER, 8);
    longer = send_to_victim(ep, LONG);
    for (int i = 0; i < SENDS; i++)
        many[i] = send_to_victim(ep, 8);
    job->shared->words[WORD_READY]++;
    expect_error(ep, recv, -ENOTCONN, 31);
    expect_error(ep, longer, -ENOTCONN, 32);
    expect_reported(ep, any, 33);
    for (int i = 0; i < SENDS; i++) {
        MUST(mbx_wait(ep, many[i], PATIENCE_NS, &done) == 0, 34);
        MUST(done.error == 0 || done.error == -ENOTCONN, 35);
    }
    send_short(ep, -ENOTCONN, 36);
}

/* The victim is dead before its data is read, so no data can come. */
static void reads(struct forked_job *job, struct mbx_ep *ep)
{
    struct mbx_status status;
    int found;

    MUST(forked_receive(ep, VICTIM, GO) == 0, 40);
    while ((found = mbx_probe(ep, VICTIM, DATA, 0, 0, &status)) == 0)
        mbx_progress(ep);
    MUST(found == 1, 41);
    job->shared->words[WORD_READY]++;
    while (job->shared->ended == 0)
        usleep(1000);
    expect_error(ep, post(ep, VICTIM, DATA, LONG), -ENOTCONN, 42);
    send_short(ep, -ENOTCONN, 43);
}

/* The peer is given up when it refuses the greeting, or does not answer. */
static void comes_late(struct forked_job *job, struct mbx_ep *ep)
{
    while (job->shared->ended == 0)
        usleep(1000);
    expect_error(ep, post(ep, VICTIM, NEVER, 8), -ENOTCONN, 51);
    send_short(ep, -EHOSTUNREACH, 50);
}

static void dies(struct forked_job *job, struct mbx_ep *ep)
{
    mbx_request request;

    MUST(forked_signal(ep, 0, GO) == 0 && forked_signal(ep, 1, GO) == 0, 60);
    MUST(mbx_send(ep, 1, DATA, 0, bytes, LONG, NULL, &request) == 0, 61);
    forked_await(job, ep, WORD_READY, 2);
    raise(SIGKILL);
}

static void death(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, network);

    (void)arg;
    switch (rank) {
    case 0:
        waits(job, ep);
        break;
    case 1:
        reads(job, ep);
        break;
    case 2:
        comes_late(job, ep);
        break;
    default:
        dies(job, ep);
    }
    /* the others continue */
    for (uint32_t other = 0; other < VICTIM; other++)
        if (other != (uint32_t)rank)
            MUST(forked_signal(ep, other, GO) == 0, 70);
    for (uint32_t other = 0; other < VICTIM; other++)
        if (other != (uint32_t)rank)
            MUST(forked_receive(ep, other, GO) == 0, 71);
    forked_close(ep);
}

static void all_who_wait_for_the_dead_are_told(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, RANKS, death, NULL);
    forked_wait(&job);
    for (int rank = 0; rank < VICTIM; rank++)
        if (job.statuses[rank] != 0)
            fail_msg("rank %d ends with %x", rank, (unsigned)job.statuses[rank]);
    assert_true(forked_was_killed(&job, VICTIM));
    forked_end(&job);
}

/* ---- stopped ---- */

#define STOPPED_NS ((int64_t)2500 * 1000 * 1000)

static void stops(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, network);
    struct mbx_completion done;
    mbx_request recv, sends[SENDS];

    (void)arg;
    if (rank == 1) {
        MUST(forked_signal(ep, 0, GO) == 0, 30);
        forked_await(job, ep, WORD_READY, 1);
        raise(SIGSTOP);
        MUST(forked_signal(ep, 0, DATA) == 0, 31);
        for (int i = 0; i < SENDS; i++)
            expect_error(ep, post(ep, 0, NEVER, LONG), 0, 32);
        forked_close(ep);
        return;
    }
    MUST(forked_receive(ep, 1, GO) == 0, 40);
    recv = post(ep, 1, DATA, 0);
    job->shared->words[WORD_READY] = 1;
    forked_await(job, NULL, WORD_STOPPED, 1);
    for (int i = 0; i < SENDS; i++)
        MUST(mbx_send(ep, 1, NEVER, 0, bytes, 12000, NULL, &sends[i]) == 0, 41);
    MUST(mbx_wait(ep, recv, STOPPED_NS, &done) == -ETIMEDOUT, 42);
    job->shared->words[WORD_OVER] = 1;
    expect_error(ep, recv, 0, 43);
    for (int i = 0; i < SENDS; i++)
        expect_error(ep, sends[i], 0, 44);
    forked_close(ep);
}

static void a_process_that_is_stopped_is_not_dead(UNUSED void **state)
{
    struct forked_job job;
    int status;

    forked_start(&job, 2, stops, NULL);
    assert_int_equal(waitpid(job.pids[1], &status, WUNTRACED), job.pids[1]);
    assert_true(WIFSTOPPED(status));
    job.shared->words[WORD_STOPPED] = 1;
    forked_await(&job, NULL, WORD_OVER, 1);
    kill(job.pids[1], SIGCONT);
    forked_wait(&job);
    assert_int_equal(job.statuses[0], 0);
    assert_int_equal(job.statuses[1], 0);
    forked_end(&job);
}

/* ---- a connection breaks ---- */

/* Discards the bytes that have arrived and were not read.  Returns their number. */
static size_t drain(int fd)
{
    static char junk[65536];
    size_t lost = 0;
    ssize_t size;

    while ((size = recv(fd, junk, sizeof junk, MSG_DONTWAIT)) > 0)
        lost += (size_t)size;
    return lost;
}

/* Ends all connections that this process has made or accepted, or only discards their arrived
 * bytes; listening sockets stay.  Returns the number of lost bytes. */
static size_t lose_connections(bool they_end)
{
    size_t lost = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage to;
        socklen_t size = sizeof to;

        if (getpeername(fd, (struct sockaddr *)&to, &size) != 0 ||
            (to.ss_family != AF_INET && to.ss_family != AF_INET6))
            continue;
        lost += drain(fd);
        if (they_end)
            MUST(shutdown(fd, SHUT_RDWR) == 0, 29);
    }
    return lost;
}

/* Rank 1 breaks the connections.  If the provider notices, the peer counts as dead; if the
 * provider has made another connection before any byte was lost, the ranks continue.  Neither
 * waits for ever. */
static void breaks(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, network);
    uint32_t other = 1 - (uint32_t)rank;
    int error = 0;

    (void)arg;
    MUST(forked_signal(ep, other, GO) == 0 && forked_receive(ep, other, GO) == 0, 30);
    job->shared->words[WORD_READY]++;
    forked_await(job, ep, WORD_READY, 2);
    if (rank == 1) {
        lose_connections(true);
        job->shared->words[WORD_STOPPED] = 1;
    }
    forked_await(job, NULL, WORD_STOPPED, 1);
    for (int i = 0; i < SENDS && error == 0; i++) {
        error = forked_signal(ep, other, GO);
        if (error == 0)
            error = forked_receive(ep, other, GO);
        MUST(error == 0 || error == -ENOTCONN, 31);
    }
    forked_close(ep);
}

static void a_break_keeps_nobody_waiting(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 2, breaks, NULL);
    forked_wait(&job);
    assert_int_equal(job.statuses[0], 0);
    assert_int_equal(job.statuses[1], 0);
    forked_end(&job);
}

/* Rank 0 sends, and its message is lost with the connection.  Both ranks are notified, although
 * one only waits for the message, and the other for an answer. */
static void loses(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, network);
    uint32_t other = 1 - (uint32_t)rank;
    mbx_request recv;
    size_t lost = 0;

    (void)arg;
    MUST(forked_signal(ep, other, GO) == 0 && forked_receive(ep, other, GO) == 0, 30);
    recv = post(ep, other, DATA, 8);
    job->shared->words[WORD_READY]++;
    forked_await(job, rank == 0 ? ep : NULL, WORD_READY, 2);
    if (rank == 0)
        MUST(mbx_inject(ep, 1, DATA, 0, bytes, 8, 0) == 0, 31);
    while (rank == 1 && lost < 8)
        lost += lose_connections(false);
    if (rank == 1)
        lose_connections(true);
    expect_error(ep, recv, -ENOTCONN, 32);
    forked_close(ep);
}

static void what_a_break_loses_is_a_death(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 2, loses, NULL);
    forked_wait(&job);
    assert_int_equal(job.statuses[0], 0);
    assert_int_equal(job.statuses[1], 0);
    forked_end(&job);
}

/* ---- processes without the key ---- */

/* Rank 1 has another key, and rank 2 none. */
static void with_other_keys(struct forked_job *job, int rank, const void *arg)
{
    static const char *const keys[] = {"KEY=00112233445566778899aabbccddeeff",
                                       "KEY=00112233445566778899aabbccddee00", "KEY="};
    const char *params[] = {network[0], network[1], keys[rank], "OFI_TIMEOUT=3s", NULL};
    struct mbx_ep *ep;
    struct stats stats;
    mbx_request request;

    (void)arg;
    if (rank == 0)
        params[3] = NULL;
    ep = forked_open(job, rank, params);
    if (rank == 0) {
        do { /* they may give up before rank 0 reads their packets */
            forked_await(job, ep, WORD_READY, 2);
            mbx_progress(ep);
            stats_read(ep, &stats);
        } while (stats.dropped_packets < 2 && job->shared->ended == 0);
        MUST(stats.dropped_packets >= 2 && stats.unexpected == 0, 30);
        job->shared->words[WORD_STOPPED] = 1;
    } else {
        MUST(mbx_ssend(ep, 0, DATA, 0, bytes, 8, NULL, &request) == 0, 31);
        expect_error(ep, request, -ENOTCONN, 32);
        job->shared->words[WORD_READY]++;
        forked_await(job, NULL, WORD_STOPPED, 1);
    }
    forked_close(ep);
}

static void another_key_is_not_answered(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, 3, with_other_keys, NULL);
    forked_wait(&job);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(job.statuses[rank], 0);
    forked_end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_who_wait_for_the_dead_are_told),
        cmocka_unit_test(a_process_that_is_stopped_is_not_dead),
        cmocka_unit_test(a_break_keeps_nobody_waiting),
        cmocka_unit_test(what_a_break_loses_is_a_death),
        cmocka_unit_test(another_key_is_not_answered),
    };

    return cmocka_run_group_tests_name("network_death", tests, NULL, NULL);
}
