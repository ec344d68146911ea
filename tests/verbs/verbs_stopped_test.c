/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_stopped_test.c - the adapter matches, reads and answers for a process that is stopped.
 *
 *   verbs_stopped_test     with MBX_VERBS_LIBRARY=libmbx-adapter.so, or libmbx-tags.so over it
 *
 *   receiver                       parent                         sender
 *   posts 100 receives
 *   stops itself (SIGSTOP)  ────>  sees it stopped  ──────────>   sends 50 short messages, 50 long
 *                                  still stopped?  <───────────   all 100 have ended
 *   goes on  <───────────────────  SIGCONT
 *   finds all 100 matched, each with its bytes
 *
 * Checked:
 *   V1  all sends end, and all receives are matched by the adapter, while the receiver is stopped
 *   V2  the adapter has read 50 messages and answered 50 (by its own counters); one beneath tag matching in
 *       software has matched none, but has done 50 reads
 *   V3  a FIN ends the message that it belongs to: one without a receive, sent before all others from the
 *       memory of another one, has not ended then
 *   V4  with MBX_MATCH=software none of the 50 long ones ends before the receiver goes on: a slow
 *       machine does not change that
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "device/verbs/verbs_state.h"
#include "forked_job.h"

#define KIND      50 /* short messages, and long ones */
#define MESSAGES  (2 * KIND)
#define LATE      MESSAGES /* the tag of one more, whose receive is posted when all is done */
#define SHORT     ((size_t)1000)
#define LONG      ((size_t)1 << 20)

#define BEFORE_NS ((int64_t)500 * 1000 * 1000) /* no long message ends by then, in software */

enum { MEET = 1, DATA };                      /* context ids */
enum { STOPPED, SENT, ENDED_EARLY, GOES_ON }; /* words */

static const char *const with_device[] = {
    "TRANSPORT=verbs", "DEVICE=verbs",      "MATCH=device",      "VERBS_WINDOW=128",
    "WINDOW=1000",     "WINDOW_PAYLOAD=1M", "PEER_TIMEOUT=900s", NULL};
static const char *const in_software[] = {
    "TRANSPORT=verbs", "DEVICE=verbs",      "MATCH=software",    "VERBS_WINDOW=128",
    "WINDOW=1000",     "WINDOW_PAYLOAD=1M", "PEER_TIMEOUT=900s", NULL};

static size_t size_of(int message)
{
    return message < KIND ? SHORT : LONG;
}

static unsigned char byte_of(int message, size_t at)
{
    return (unsigned char)((size_t)message * 7 + at + at / 251);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* ---- the receiver ---- */

/* Does the adapter have all receives, and has it done all its work? */
static bool has_all(const struct mbx_ep *ep)
{
    const struct shadow *shadow = &ep->offload->shadow;

    return shadow->stats.in_device == MESSAGES && shadow->handled == shadow->reported &&
           verbs_of(ep->offload->device)->in_flight == 0;
}

static void check_bytes(int message, const unsigned char *bytes)
{
    for (size_t at = 0; at < size_of(message); at++)
        MUST(bytes[at] == byte_of(message, at), 30);
}

static void receive(struct forked_job *job, struct mbx_ep *ep)
{
    static unsigned char *buffers[MESSAGES];
    static mbx_request requests[MESSAGES];
    struct mbx_completion done;

    for (int i = 0; i < MESSAGES; i++) {
        MUST((buffers[i] = calloc(1, size_of(i))) != NULL, 31);
        MUST(mbx_recv(ep, 1, DATA, (uint64_t)i, 0, buffers[i], size_of(i), NULL,
                      &requests[i]) == 0,
             32);
    }
    while (ep->offload != NULL && !has_all(ep))
        mbx_progress(ep);
    raise(SIGSTOP);
    job->shared->words[GOES_ON] = 1;
    for (int i = 0; i < MESSAGES; i++) {
        MUST(mbx_wait(ep, requests[i], PATIENCE_NS, &done) == 0, 33);
        MUST(done.error == 0 && done.status.size == size_of(i), 34);
        check_bytes(i, buffers[i]);
        if (i < MESSAGES - 1)
            free(buffers[i]);
    }
    MUST(mbx_recv(ep, 1, DATA, LATE, 0, buffers[MESSAGES - 1], LONG, NULL, &requests[0]) == 0,
         35);
    MUST(mbx_wait(ep, requests[0], PATIENCE_NS, &done) == 0 && done.error == 0, 36);
    check_bytes(MESSAGES - 1, buffers[MESSAGES - 1]);
    free(buffers[MESSAGES - 1]);
}

/* ---- the sender ---- */

static int wait_for(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns)
{
    struct mbx_completion done;
    int err = mbx_wait(ep, request, timeout_ns, &done);

    return err != 0 ? err : done.error;
}

static void send_all(struct forked_job *job, struct mbx_ep *ep)
{
    static unsigned char bytes[MESSAGES][LONG];
    mbx_request requests[MESSAGES], late;

    for (int i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            bytes[i][at] = byte_of(i, at);
    /* the same bytes as the last one, and so the same memory */
    MUST(mbx_send(ep, 0, DATA, LATE, bytes[MESSAGES - 1], LONG, NULL, &late) == 0, 43);
    for (int i = 0; i < MESSAGES; i++)
        MUST(mbx_send(ep, 0, DATA, (uint64_t)i, bytes[i], size_of(i), NULL, &requests[i]) == 0,
             40);
    for (int i = 0; i < KIND; i++)
        MUST(wait_for(ep, requests[i], PATIENCE_NS) == 0, 41);
    for (int i = KIND; ep->offload == NULL && i < MESSAGES; i++)
        job->shared->words[ENDED_EARLY] +=
            wait_for(ep, requests[i], i == KIND ? BEFORE_NS : 0) != -ETIMEDOUT;
    if (ep->offload == NULL)
        job->shared->words[SENT] = 1;
    for (int i = KIND; i < MESSAGES; i++)
        MUST(wait_for(ep, requests[i], PATIENCE_NS) == 0, 42);
    MUST(ep->offload == NULL || wait_for(ep, late, 0) == -ETIMEDOUT, 44);
    job->shared->words[SENT] = 1;
    MUST(wait_for(ep, late, PATIENCE_NS) == 0, 45);
}

static void play(struct forked_job *job, int rank, const void *params)
{
    struct mbx_ep *ep = forked_open(job, rank, params);
    struct stats stats;

    MUST((ep->offload != NULL) == (params == with_device), 20);
    if (rank == 1) {
        MUST(forked_signal(ep, 0, MEET) == 0, 21);
        MUST(forked_receive(ep, 0, MEET) == 0, 22);
        forked_await(job, ep, STOPPED, 1);
        send_all(job, ep);
    } else {
        MUST(forked_receive(ep, 1, MEET) == 0, 23);
        MUST(forked_signal(ep, 1, MEET) == 0, 24);
        receive(job, ep);
        stats_read(ep, &stats);
        MUST(ep->offload == NULL || stats.device_matched >= MESSAGES, 25);
        MUST(stats.device_incomplete == 0, 26);
    }
    forked_close(ep);
}

/* ---- the parent ---- */

struct counters {
    unsigned long matched_eager, matched_rndv, fins, rnr_naks, reads;
};

/* Is this tag matching over the queue pairs of an adapter without it? */
static bool is_over(void)
{
    const char *library = getenv("MBX_VERBS_LIBRARY");

    return library != NULL && strstr(library, "libmbx-tags") != NULL;
}

/* Is the adapter, or the one beneath, the one whose counters can be read? */
static bool is_software(void)
{
    return !is_over() || getenv("MBX_ADAPTER_OVER_LIBRARY") != NULL;
}

/* Reads the counters of the adapter, which may also serve other tests. */
static struct counters read_counters(void)
{
    const char *library = getenv("MBX_VERBS_LIBRARY");
    struct counters counters = {0};
    char command[4096], name[64];
    unsigned long value;
    FILE *file;

    assert_non_null(library);
    if (!is_software())
        return counters;
    snprintf(command, sizeof command, "%.*s/mbx-adapter --counters",
             (int)(strrchr(library, '/') - library), library);
    file = popen(command, "r");
    assert_non_null(file);
    while (fscanf(file, "%63s %lu", name, &value) == 2) {
        if (strcmp(name, "tm_matched_eager") == 0)
            counters.matched_eager = value;
        else if (strcmp(name, "tm_matched_rndv") == 0)
            counters.matched_rndv = value;
        else if (strcmp(name, "tm_fins") == 0)
            counters.fins = value;
        else if (strcmp(name, "rnr_naks") == 0)
            counters.rnr_naks = value;
        else if (strcmp(name, "rdma_reads") == 0)
            counters.reads = value;
    }
    assert_int_equal(pclose(file), 0);
    return counters;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

static void await_stop(const struct forked_job *job)
{
    siginfo_t info;

    assert_int_equal(waitid(P_PID, (id_t)job->pids[0], &info, WEXITED | WSTOPPED | WNOWAIT), 0);
    assert_int_equal(info.si_code, CLD_STOPPED);
}

/* Waits until the sender reports it, or has ended, or must have stopped. */
static bool await_sent(const struct forked_job *job)
{
    const uint64_t until_ns = clock_now() + (uint64_t)PATIENCE_NS;

    while (job->shared->words[SENT] == 0 && !has_ended(job->pids[1]) && clock_now() < until_ns)
        nap();
    return job->shared->words[SENT] != 0;
}

static void run(const char *const *params)
{
    struct counters before, behind;
    struct forked_job job;
    bool has_sent;

    forked_start(&job, 2, play, params);
    await_stop(&job);
    before = read_counters();
    job.shared->words[STOPPED] = 1;
    has_sent = await_sent(&job);
    behind = read_counters();
    assert_int_equal(job.shared->words[GOES_ON], 0);
    kill(job.pids[0], SIGCONT);
    forked_wait(&job);
    assert_true(has_sent);
    assert_int_equal(job.statuses[0], 0);
    assert_int_equal(job.statuses[1], 0);
    assert_int_equal(job.shared->words[ENDED_EARLY], 0);
    if (params == with_device && is_over() && is_software()) {
        printf("stopped: %lu reads, and %lu messages matched by the adapter beneath\n",
               behind.reads - before.reads,
               behind.matched_eager + behind.matched_rndv - before.matched_eager -
                   before.matched_rndv);
        assert_true(behind.reads - before.reads >= KIND);
        assert_int_equal(behind.matched_eager + behind.matched_rndv, 0);
    } else if (params == with_device && is_software()) {
        printf("stopped: %lu eager and %lu rendezvous matched, %lu FINs, %lu RNR\n",
               behind.matched_eager - before.matched_eager,
               behind.matched_rndv - before.matched_rndv, behind.fins - before.fins,
               behind.rnr_naks - before.rnr_naks);
        assert_true(behind.matched_eager - before.matched_eager >= KIND);
        assert_true(behind.matched_rndv - before.matched_rndv >= KIND);
        assert_true(behind.fins - before.fins >= KIND);
    }
    forked_end(&job);
}

static void the_adapter_serves_a_stopped_receiver(UNUSED void **state)
{
    run(with_device);
}

static void software_does_not(UNUSED void **state)
{
    run(in_software);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_adapter_serves_a_stopped_receiver),
        cmocka_unit_test(software_does_not),
    };

    return cmocka_run_group_tests_name("verbs_stopped", tests, NULL, NULL);
}
