/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_killed_test.c - a rank, or its adapter, is killed while the adapter matches.
 *
 *   verbs_killed_test [--quick]     with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * Rank 0 has receives in its adapter, some of which it cancels; rank 1 sends, short messages
 * and long ones in turn, some of which come before their receive.  At one point one of them
 * kills itself, or the daemon that is the adapter of both.
 *
 * A point is a name and a number: the first, the middle or the last time that a rank reaches an
 * event of the trace, a command to the device ("do-append") or an event of it ("see-matched").
 * A round without a death counts how often each rank reaches each; that differs a little from
 * round to round, so a rank may end without reaching its point.
 *
 * Checked for the survivor:
 *   K1  each receive and each send ends, with success or with an error
 *   K2  a receive that succeeds has its bytes
 *   K3  a buffer does not change after its receive has ended
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "adapter/library/library.h"
#include "base/base.h"
#include "base/failpoint.h"
#include "base/patience.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "forked_job.h"
#include "transport/verbs/verbs_inlet.h"

#define MESSAGES  40
#define CANCELLED 6
#define LONG      ((size_t)300000)
#define ROUNDS    2000 /* of progress, in which nothing may be written any more */
#define SEEN_MAX  255

enum { MEET = 1, DATA, NOBODY }; /* context ids */
enum { MET, POSTED, LOST };      /* LOST: receives that had an error */

static const char *const params[] = {
    "TRANSPORT=verbs", "DEVICE=verbs",      "MATCH=device",    "VERBS_WINDOW=64",
    "WINDOW=1000",     "WINDOW_PAYLOAD=1M", "PEER_TIMEOUT=1s", NULL};

/* ---- points ---- */

static const char *const places[] = {
    "post",        "arrive",         "cancel",    "close",       "do-append",
    "do-revoke",   "do-sync",        "do-give",   "see-matched", "see-data-valid",
    "see-revoked", "see-unexpected", "see-passed"};

#define PLACES ((int)ARRAY_COUNT(places))

enum victim { RECEIVER, SENDER, ADAPTER, NO_VICTIM };

struct play {
    enum victim victim;
    int rank, place, time; /* the rank that reaches it; which time, from 1 on */
};

static struct {
    bool counts; /* the ranks have met */
    struct forked_job *job;
    const struct play *play;
    int rank;
    pid_t adapter;
    int times[ARRAY_COUNT(places)];
} here;

static void reach(const char *name)
{
    int place = 0;

    while (place < PLACES && strcmp(places[place], name) != 0)
        place++;
    if (!here.counts || place == PLACES)
        return;
    here.times[place]++;
    if (here.times[place] <= SEEN_MAX)
        here.job->shared->seen[here.rank][place] = (unsigned char)here.times[place];
    if (here.play->victim == NO_VICTIM || here.play->rank != here.rank ||
        here.play->place != place || here.play->time != here.times[place])
        return;
    kill(here.play->victim == ADAPTER ? here.adapter : getpid(), SIGKILL);
}

static bool is_wanted(const void *settings)
{
    (void)settings;
    return true;
}

static void reached(const void *settings, const char *place)
{
    (void)settings;
    reach(place);
}

static const struct failpoint_hook hook = {.is_wanted = is_wanted, .reached = reached};

/* ---- the device, watched ---- */

static const struct mbx_device_ops *inner;

static int do_append(struct mbx_device *device, const struct mbx_device_recv *recv,
                     uint16_t handled)
{
    int err = inner->append(device, recv, handled);

    reach("do-append");
    return err;
}

static int do_revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    int err = inner->revoke(device, handle, handled);

    reach("do-revoke");
    return err;
}

static int do_sync(struct mbx_device *device, uint16_t handled)
{
    int err = inner->sync(device, handled);

    reach("do-sync");
    return err;
}

static int do_give(struct mbx_device *device, uint32_t buffer, void *memory)
{
    int err = inner->replenish(device, buffer, memory);

    reach("do-give");
    return err;
}

static int see(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    static const char *const names[] = {[MBX_DEVICE_MATCHED] = "see-matched",
                                        [MBX_DEVICE_DATA_VALID] = "see-data-valid",
                                        [MBX_DEVICE_REVOKED] = "see-revoked",
                                        [MBX_DEVICE_UNEXPECTED] = "see-unexpected",
                                        [MBX_DEVICE_PASSED] = "see-passed"};
    int n = inner->poll(device, events, count);

    for (int i = 0; i < n; i++)
        if (events[i].type < ARRAY_COUNT(names) && names[events[i].type] != NULL)
            reach(names[events[i].type]);
    return n;
}

/* From now on all commands of this endpoint to the device are seen. */
static void watch(struct mbx_ep *ep)
{
    static struct mbx_device_ops watched;
    struct transport_verbs_parts parts;

    MUST(ep->offload != NULL && transport_verbs_parts(ep->net.transport, &parts), 20);
    inner = ep->offload->device->ops;
    watched = *inner;
    watched.append = do_append;
    watched.revoke = do_revoke;
    watched.sync = do_sync;
    watched.replenish = do_give;
    watched.poll = see;
    ep->offload->device->ops = &watched;
    here.adapter = lib_context(parts.context)->pid;
    here.counts = true;
}

/* ---- messages ---- */

static size_t size_of(int message)
{
    return message % 2 == 0 ? 500 : LONG;
}

static unsigned char byte_of(int message, size_t at)
{
    return (unsigned char)((size_t)message * 11 + at + at / 253);
}

/* Does it come before its receive? */
static bool is_late(int message)
{
    return message % 5 == 4;
}

/* ---- the receiver ---- */

static unsigned char *buffers[MESSAGES], *copies[MESSAGES];
static mbx_request requests[MESSAGES];

static void post(struct mbx_ep *ep, int i)
{
    MUST(mbx_recv(ep, i % 3 == 0 ? MBX_ANY_SOURCE : 1, DATA, (uint64_t)i, 0, buffers[i],
                  size_of(i), NULL, &requests[i]) == 0,
         31);
}

/* A receive from any source goes on waiting when a peer has died; it is then cancelled. */
static struct mbx_completion finish(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;
    int err;

    while ((err = mbx_wait(ep, request, PATIENCE_NS, &done)) == -EHOSTDOWN)
        mbx_cancel(ep, request);
    MUST(err == 0, 32);
    return done;
}

static void receive_one(struct forked_job *job, struct mbx_ep *ep, int i)
{
    struct mbx_completion done = finish(ep, requests[i]);

    job->shared->words[LOST] += done.error != 0;
    MUST(done.error != 0 || done.status.size == size_of(i), 33);
    for (size_t at = 0; done.error == 0 && at < size_of(i); at++)
        MUST(buffers[i][at] == byte_of(i, at), 34);
    memcpy(copies[i], buffers[i], LONG);
}

static void receive(struct forked_job *job, struct mbx_ep *ep)
{
    static unsigned char unused[CANCELLED][2000];
    mbx_request cancelled[CANCELLED];

    for (int i = 0; i < MESSAGES; i++)
        MUST((buffers[i] = calloc(1, LONG)) != NULL && (copies[i] = malloc(LONG)) != NULL, 30);
    for (int i = 0; i < MESSAGES; i++)
        if (!is_late(i))
            post(ep, i);
    for (int i = 0; i < CANCELLED; i++)
        MUST(mbx_recv(ep, 1, NOBODY, 0, 0, unused[i], sizeof unused[i], NULL, &cancelled[i]) ==
                 0,
             35);
    job->shared->words[POSTED] = 1;
    for (int i = 0; i < MESSAGES; i++) {
        if (is_late(i))
            post(ep, i);
        receive_one(job, ep, i);
        if (i % 6 == 3 && i / 6 < CANCELLED)
            mbx_cancel(ep, cancelled[i / 6]);
    }
    for (int i = 0; i < CANCELLED; i++) {
        mbx_cancel(ep, cancelled[i]);
        MUST(finish(ep, cancelled[i]).error != 0, 38);
    }
    for (int i = 0; i < ROUNDS; i++)
        mbx_progress(ep);
    for (int i = 0; i < MESSAGES; i++) {
        MUST(memcmp(copies[i], buffers[i], LONG) == 0, 36);
        free(copies[i]);
        free(buffers[i]);
    }
}

/* ---- the sender ---- */

static void send_all(struct forked_job *job, struct mbx_ep *ep)
{
    static unsigned char bytes[MESSAGES][LONG];

    for (int i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            bytes[i][at] = byte_of(i, at);
    forked_await(job, ep, POSTED, 1);
    for (int i = 0; i < MESSAGES; i++)
        MUST(mbx_send(ep, 0, DATA, (uint64_t)i, bytes[i], size_of(i), NULL, &requests[i]) == 0,
             40);
    for (int i = 0; i < MESSAGES; i++)
        finish(ep, requests[i]);
}

static void play(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, params);

    here.job = job;
    here.rank = rank;
    here.play = arg;
    if (rank == 0)
        MUST(forked_receive(ep, 1, MEET) == 0 && forked_signal(ep, 1, MEET) == 0, 21);
    else
        MUST(forked_signal(ep, 0, MEET) == 0 && forked_receive(ep, 0, MEET) == 0, 22);
    job->shared->words[MET]++;
    forked_await(job, ep, MET, 2);
    watch(ep);
    if (rank == 0)
        receive(job, ep);
    else
        send_all(job, ep);
    forked_close(ep);
}

/* ---- the parent ---- */

static unsigned char seen[2][ARRAY_COUNT(places)]; /* how often each rank reaches each */
static int every = 1;                              /* every how many points one is tested */
static bool is_alone;                              /* no other user has the adapter */
static int lost;                                   /* receives that ended with an error */

static void count_points(UNUSED void **state)
{
    const struct play nobody = {.victim = NO_VICTIM};
    struct forked_job job;
    int count = 0;

    forked_start(&job, 2, play, &nobody);
    forked_wait(&job);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(job.statuses[rank], 0);
        for (int place = 0; place < PLACES; place++) {
            seen[rank][place] = job.shared->seen[rank][place];
            count += seen[rank][place] != 0;
        }
    }
    assert_int_equal(job.shared->words[LOST], 0);
    forked_end(&job);
    printf("the ranks come by %d places\n", count);
    for (int place = 0; place < PLACES; place++)
        if (seen[0][place] == 0 && seen[1][place] == 0)
            printf("... but not by %s\n", places[place]);
}

static void play_one(const struct play *one)
{
    struct forked_job job;
    bool is_right = true;

    forked_start(&job, 2, play, one);
    forked_wait(&job);
    for (int rank = 0; rank < 2; rank++)
        is_right = is_right && (job.statuses[rank] == 0 ||
                                ((int)one->victim == rank && forked_was_killed(&job, rank)));
    if (!is_right)
        printf("%s dies as rank %d comes by %s for the time %d: status %x and %x\n",
               one->victim == ADAPTER ? "the adapter" : "a rank", one->rank, places[one->place],
               one->time, (unsigned)job.statuses[0], (unsigned)job.statuses[1]);
    assert_true(is_right);
    lost += job.shared->words[LOST];
    forked_end(&job);
}

/* Kills the victim at all points of a rank. */
static void kill_at_points(enum victim victim, int rank)
{
    int point = 0, played = 0;

    for (int place = 0; place < PLACES; place++) {
        const int times = seen[rank][place], which[] = {1, (times + 1) / 2, times};

        for (int i = 0; i < 3; i++)
            if ((i == 0 ? times > 0 : which[i] > which[i - 1]) && point++ % every == 0) {
                play_one(&(struct play){victim, rank, place, which[i]});
                played++;
            }
    }
    printf("%d deaths\n", played);
    assert_true(played > 0);
}

static void a_receiver_that_dies(UNUSED void **state)
{
    kill_at_points(RECEIVER, 0);
}

static void a_sender_that_dies(UNUSED void **state)
{
    kill_at_points(SENDER, 1);
}

static void an_adapter_that_dies(UNUSED void **state)
{
    if (!is_alone) {
        printf("no network namespace can be made here, so the adapter is not ours to kill\n");
        skip();
    }
    kill_at_points(ADAPTER, 0);
    kill_at_points(ADAPTER, 1);
}

/* Not all messages came in all rounds. */
static void some_receives_have_ended_with_an_error(UNUSED void **state)
{
    printf("%d receives have ended with an error\n", lost);
    assert_true(lost > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(count_points),
        cmocka_unit_test(a_sender_that_dies),
        cmocka_unit_test(a_receiver_that_dies),
        cmocka_unit_test(an_adapter_that_dies),
        cmocka_unit_test(some_receives_have_ended_with_an_error),
    };

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        every = 11;
    is_alone = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    failpoint_hook = &hook;
    return cmocka_run_group_tests_name("verbs_killed", tests, NULL, NULL);
}
