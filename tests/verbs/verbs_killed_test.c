/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_killed_test.c - a rank is killed while an adapter matches for it, or for who lives.
 *
 *   verbs_killed_test [--quick]     with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * Rank 0 has receives in its adapter; rank 1 sends, short messages and long ones in turn.  One of them
 * kills itself behind so many messages.
 *
 * What must hold for who lives
 *   K1  each receive and each send ends, with success or with an error
 *   K2  a receive that succeeds has its bytes
 *   K3  a buffer does not change when its receive has ended
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base.h"
#include "core/core.h"
#include "forked_job.h"
#include "offload/offload.h"

#define MESSAGES 40
#define LONG     ((size_t)300000)
#define ROUNDS   2000 /* of progress, in which nothing may be written any more */

enum { MEET = 1, DATA }; /* context ids */
enum { POSTED };         /* words */

static const char *const params[] = {
    "TRANSPORT=verbs", "DEVICE=verbs",      "MATCH=device",    "VERBS_WINDOW=64",
    "WINDOW=1000",     "WINDOW_PAYLOAD=1M", "PEER_TIMEOUT=1s", NULL};

struct play {
    int victim, behind; /* how many messages */
};

static size_t size_of(int message)
{
    return message % 2 == 0 ? 500 : LONG;
}

static unsigned char byte_of(int message, size_t at)
{
    return (unsigned char)((size_t)message * 11 + at + at / 253);
}

/* ---- the receiver ---- */

static void receive(struct forked_job *job, struct mbx_ep *ep, const struct play *play)
{
    static unsigned char *buffers[MESSAGES], *copies[MESSAGES];
    static mbx_request requests[MESSAGES];
    struct mbx_completion done;
    int lost = 0;

    for (int i = 0; i < MESSAGES; i++) {
        MUST((buffers[i] = calloc(1, LONG)) != NULL && (copies[i] = malloc(LONG)) != NULL, 30);
        MUST(mbx_recv(ep, 1, DATA, (uint64_t)i, 0, buffers[i], size_of(i), NULL,
                      &requests[i]) == 0,
             31);
    }
    job->shared->words[POSTED] = 1;
    for (int i = 0; i < MESSAGES; i++) {
        if (play->victim == 0 && i == play->behind)
            raise(SIGKILL);
        MUST(mbx_wait(ep, requests[i], FORKED_WAIT_NS, &done) == 0, 32);
        lost += done.error != 0;
        MUST(done.error != 0 || done.status.size == size_of(i), 33);
        for (size_t at = 0; done.error == 0 && at < size_of(i); at++)
            MUST(buffers[i][at] == byte_of(i, at), 34);
        memcpy(copies[i], buffers[i], LONG);
    }
    for (int i = 0; i < ROUNDS; i++)
        mbx_progress(ep);
    for (int i = 0; i < MESSAGES; i++) {
        MUST(memcmp(copies[i], buffers[i], LONG) == 0, 36);
        free(copies[i]);
        free(buffers[i]);
    }
    MUST(lost > 0, 37);
}

/* ---- the sender ---- */

static void send_all(struct forked_job *job, struct mbx_ep *ep, const struct play *play)
{
    static unsigned char bytes[MESSAGES][LONG];
    mbx_request requests[MESSAGES];
    struct mbx_completion done;

    for (int i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            bytes[i][at] = byte_of(i, at);
    forked_await(job, ep, POSTED, 1);
    for (int i = 0; i < MESSAGES; i++) {
        if (play->victim == 1 && i == play->behind)
            raise(SIGKILL);
        MUST(mbx_send(ep, 0, DATA, (uint64_t)i, bytes[i], size_of(i), NULL, &requests[i]) == 0,
             40);
    }
    for (int i = 0; i < MESSAGES; i++)
        MUST(mbx_wait(ep, requests[i], FORKED_WAIT_NS, &done) == 0, 41);
}

static void play(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, params);

    MUST(ep->offload != NULL, 20);
    if (rank == 0) {
        MUST(forked_receive(ep, 1, MEET) == 0 && forked_signal(ep, 1, MEET) == 0, 21);
        receive(job, ep, arg);
    } else {
        MUST(forked_signal(ep, 0, MEET) == 0 && forked_receive(ep, 0, MEET) == 0, 22);
        send_all(job, ep, arg);
    }
    forked_close(ep);
}

/* ---- the parent ---- */

static int step = 3;

static void kill_one(int victim)
{
    for (int behind = 0; behind < MESSAGES; behind += step) {
        const struct play one = {victim, behind};
        struct forked_job job;

        forked_start(&job, 2, play, &one);
        forked_wait(&job);
        if (!forked_was_killed(&job, victim) || job.statuses[1 - victim] != 0)
            printf("rank %d dies behind %d messages: status %x and %x\n", victim, behind,
                   (unsigned)job.statuses[0], (unsigned)job.statuses[1]);
        assert_true(forked_was_killed(&job, victim));
        assert_int_equal(job.statuses[1 - victim], 0);
        forked_end(&job);
    }
}

static void a_sender_that_dies(void **state)
{
    (void)state;
    kill_one(1);
}

static void a_receiver_that_dies(void **state)
{
    (void)state;
    kill_one(0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_that_dies),
        cmocka_unit_test(a_receiver_that_dies),
    };

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        step = 19;
    return cmocka_run_group_tests_name("verbs_killed", tests, NULL, NULL);
}
