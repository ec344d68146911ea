/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_flood_test.c - two senders flood a receiver that makes no progress, over an adapter
 * that matches.
 *
 *   verbs_flood_test [--quick]     with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * Each sender has sent 10,000 messages (--quick: 2,000) before the receiver makes progress;
 * then it receives them, by receives posted before and after their messages, from one source or
 * from any.
 *
 * Checked:
 *   F1  no packet finds the adapter without a buffer (RNR), which would delay the whole connection
 *   F2  unexpected messages are no more than the windows of the senders
 *   F3  each message is received once, in the order of its sender, with its bytes
 *   F4  after all that the adapter matches messages whose receive it has
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "device/verbs/verbs_state.h"
#include "forked_job.h"

#define SENDERS  2
#define MESSAGES 10000 /* of each sender, at most */
#define BATCH    50    /* receives that are posted at once */
#define WINDOW   200
#define LONGEST  20000

enum { MEET = 1, DATA, LAST }; /* context ids */
enum { SENDING };              /* words */

/* Fewer buffers than two windows: so the windows must shrink. */
static const char *const params[] = {
    "TRANSPORT=verbs", "DEVICE=verbs",      "MATCH=device",      "WINDOW=200",
    "VERBS_WINDOW=64", "DEVICE_BUFFERS=64", "PEER_TIMEOUT=900s", NULL};

static size_t size_of(int message)
{
    static const size_t sizes[] = {8, 100, 1000, 8, 4000, 8, 64, LONGEST};

    return sizes[message % (int)ARRAY_COUNT(sizes)];
}

/* The first bytes name the message. */
static void write_message(unsigned char *bytes, int sender, int message)
{
    const uint32_t name[2] = {(uint32_t)sender, (uint32_t)message};

    memset(bytes, message, size_of(message));
    memcpy(bytes, name, sizeof name);
}

static int messages = MESSAGES;

/* ---- a sender ---- */

static void flood(struct forked_job *job, struct mbx_ep *ep, int rank)
{
    static mbx_request requests[MESSAGES];
    static unsigned char *bytes[MESSAGES];
    struct mbx_completion done;

    for (int i = 0; i < messages; i++) {
        MUST((bytes[i] = malloc(size_of(i))) != NULL, 30);
        write_message(bytes[i], rank, i);
        MUST(mbx_send(ep, 0, DATA, (uint64_t)rank, bytes[i], size_of(i), NULL, &requests[i]) ==
                 0,
             31);
    }
    job->shared->words[SENDING]++;
    for (int i = 0; i < messages; i++) {
        MUST(mbx_wait(ep, requests[i], PATIENCE_NS, &done) == 0 && done.error == 0, 32);
        free(bytes[i]);
    }
    MUST(forked_receive(ep, 0, LAST) == 0 && forked_signal(ep, 0, LAST) == 0, 33);
}

/* ---- the receiver ---- */

static int next[SENDERS + 1]; /* message of each sender */

static void check(const struct mbx_status *status, const unsigned char *bytes)
{
    static unsigned char want[LONGEST];
    const int sender = (int)status->source;

    MUST(sender == 1 || sender == 2, 40);
    MUST(status->size == size_of(next[sender]), 41);
    write_message(want, sender, next[sender]++);
    MUST(memcmp(bytes, want, status->size) == 0, 42);
}

/* Each receive names its source, except in every other batch. */
static void receive_batch(struct mbx_ep *ep, int batch)
{
    static unsigned char bytes[BATCH][LONGEST];
    mbx_request requests[BATCH];
    struct mbx_completion done;

    for (int i = 0; i < BATCH; i++) {
        const uint32_t source = batch % 2 == 0 ? MBX_ANY_SOURCE : (uint32_t)(batch / 2 % 2 + 1);
        const uint64_t ignore = source == MBX_ANY_SOURCE ? 3 : 0;

        MUST(mbx_recv(ep, source, DATA, source == MBX_ANY_SOURCE ? 0 : source, ignore, bytes[i],
                      LONGEST, NULL, &requests[i]) == 0,
             43);
    }
    for (int i = 0; i < BATCH; i++) {
        MUST(mbx_wait(ep, requests[i], PATIENCE_NS, &done) == 0 && done.error == 0, 44);
        check(&done.status, bytes[i]);
    }
}

/* In batches from any source one sender may get ahead: so receives from the sender that has
 * messages left follow, until neither has. */
static void receive_all(struct mbx_ep *ep)
{
    int batch = 0;

    while (next[1] + 3 * BATCH < messages && next[2] + 3 * BATCH < messages)
        receive_batch(ep, batch++);
    for (uint32_t sender = 1; sender <= SENDERS; sender++)
        while (next[sender] < messages) {
            static unsigned char bytes[LONGEST];
            struct mbx_completion done;
            mbx_request request;

            MUST(mbx_recv(ep, sender, DATA, sender, 0, bytes, LONGEST, NULL, &request) == 0,
                 45);
            MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0 && done.error == 0, 46);
            check(&done.status, bytes);
        }
}

/* Does the adapter have so many receives, and has it done all its work? */
static bool has_receives(const struct mbx_ep *ep, uint32_t count)
{
    const struct shadow *shadow = &ep->offload->shadow;

    return shadow->stats.in_device == count && shadow->handled == shadow->reported &&
           verbs_of(ep->offload->device)->in_flight == 0;
}

/* How many messages of the flood the adapter matches depends on chance; it must match these. */
static void receive_last(struct mbx_ep *ep)
{
    mbx_request requests[SENDERS];
    struct mbx_completion done;
    struct stats stats;
    uint64_t before;

    for (uint32_t i = 0; i < SENDERS; i++)
        MUST(mbx_recv(ep, i + 1, LAST, 0, 0, NULL, 0, NULL, &requests[i]) == 0, 60);
    while (!has_receives(ep, SENDERS))
        mbx_progress(ep);
    stats_read(ep, &stats);
    before = stats.device_matched;
    for (uint32_t i = 0; i < SENDERS; i++)
        MUST(forked_signal(ep, i + 1, LAST) == 0, 61);
    for (int i = 0; i < SENDERS; i++)
        MUST(mbx_wait(ep, requests[i], PATIENCE_NS, &done) == 0 && done.error == 0, 62);
    stats_read(ep, &stats);
    MUST(stats.device_matched == before + SENDERS, 23);
}

/* Reads the adapter's counter; no other user of the adapter may run at the same time. */
static unsigned long rnr_naks(void)
{
    const char *library = getenv("MBX_VERBS_LIBRARY");
    char command[4096], name[64];
    unsigned long value, found = ~0ul;
    FILE *file;

    MUST(library != NULL, 50);
    snprintf(command, sizeof command, "%.*s/mbx-adapter --counters",
             (int)(strrchr(library, '/') - library), library);
    file = popen(command, "r");
    MUST(file != NULL, 51);
    while (fscanf(file, "%63s %lu", name, &value) == 2)
        if (strcmp(name, "rnr_naks") == 0)
            found = value;
    pclose(file);
    MUST(found != ~0ul, 52);
    return found;
}

static void play(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = forked_open(job, rank, params);
    unsigned long before;
    struct stats stats;

    (void)arg;
    MUST(ep->offload != NULL, 20);
    if (rank == 0) {
        for (uint32_t sender = 1; sender <= SENDERS; sender++)
            MUST(forked_receive(ep, sender, MEET) == 0 && forked_signal(ep, sender, MEET) == 0,
                 21);
        before = rnr_naks();
        forked_await(job, NULL, SENDING, SENDERS);
        receive_all(ep);
        MUST(rnr_naks() == before, 25);
        stats_read(ep, &stats);
        MUST(stats.unexpected_max <= SENDERS * WINDOW, 22);
        printf("flood: %llu of %d messages matched by the adapter, %llu of them read by it or "
               "whole; at most %llu without a receive\n",
               (unsigned long long)stats.device_matched, SENDERS * messages,
               (unsigned long long)(stats.device_matched - stats.device_incomplete),
               (unsigned long long)stats.unexpected_max);
        fflush(stdout);
        receive_last(ep);
    } else {
        MUST(forked_signal(ep, 0, MEET) == 0 && forked_receive(ep, 0, MEET) == 0, 24);
        flood(job, ep, rank);
    }
    forked_close(ep);
}

/* ---- the parent ---- */

static void a_flood_finds_buffers(UNUSED void **state)
{
    struct forked_job job;

    forked_start(&job, SENDERS + 1, play, NULL);
    forked_wait(&job);
    for (int rank = 0; rank <= SENDERS; rank++)
        assert_int_equal(job.statuses[rank], 0);
    forked_end(&job);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_flood_finds_buffers)};

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        messages = MESSAGES / 5;
    return cmocka_run_group_tests_name("verbs_flood", tests, NULL, NULL);
}
