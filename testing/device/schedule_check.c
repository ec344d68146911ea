/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/schedule.h"

#include <stdarg.h>

void schedule_wrong(struct schedule_run *run, const char *format, ...)
{
    va_list args;

    if (run->why[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(run->why, sizeof run->why, format, args);
    va_end(args);
}

bool schedule_bytes_are(const unsigned char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* Feeds the oracle with the messages of both paths, merged in order of arrival. */
static void feed_oracle(struct schedule_run *run)
{
    int b = 0;

    for (int i = 0; i <= run->arrival_count; i++) {
        for (; b < run->bypass_count && run->msgs[run->bypasses[b]].heard == i; b++)
            oracle_arrive(&run->oracle, run->msgs[run->bypasses[b]].sent->envelope,
                          run->bypasses[b]);
        if (i < run->arrival_count)
            oracle_arrive(&run->oracle, run->msgs[run->arrivals[i]].sent->envelope,
                          run->arrivals[i]);
    }
    if (b < run->bypass_count)
        schedule_wrong(run, "software has heard of messages that the device never had");
}

/* want: the message for each receive that was not cancelled before the end. */
static void ask_oracle(struct schedule_run *run, int *want)
{
    for (int i = 0; i < run->ids; i++)
        want[i] = -1;
    oracle_init(&run->oracle);
    feed_oracle(run);
    for (int i = 0; i < run->post_count; i++) {
        int id = run->posts[i];
        const struct host_recv *recv = &run->recvs[id];

        if (recv->end != END_CANCELLED)
            want[id] = oracle_post(&run->oracle, recv->match.envelope, recv->match.ignore, id);
    }
}

static void check_matching(struct schedule_run *run)
{
    struct mbx_match_counters count;
    int want[SCHEDULE_MAX];

    mbx_match_counters_get(&run->match, &count);
    ask_oracle(run, want);
    for (int i = 0; i < run->ids; i++)
        if (run->recvs[i].is_posted && run->recvs[i].message != want[i])
            schedule_wrong(run, "receive r%d got message %d, and the oracle says %d (-1: none)",
                           i, run->recvs[i].message, want[i]);
    if (count.msgs != (uint64_t)run->oracle.msgs.count)
        schedule_wrong(run, "%d messages wait, and the oracle says %d", (int)count.msgs,
                       run->oracle.msgs.count);
}

/* Messages of one source must arrive in the order of the sends. */
static void check_overtaking(struct schedule_run *run)
{
    int last[SCHEDULE_PEERS];

    for (int i = 0; i < SCHEDULE_PEERS; i++)
        last[i] = -1;
    for (int i = 0; i < run->bypass_count; i++) {
        int id = run->bypasses[i], *before = &last[run->msgs[id].sent->envelope.source];

        if (id < *before)
            schedule_wrong(run, "m%d has overtaken m%d", *before, id);
        *before = id;
    }
}

/* True if a received message was reported exactly once, whether or not the device was lost. */
static bool is_reported_right(const struct schedule_run *run, const struct host_msg *msg)
{
    bool is_received = msg->recv >= 0 && run->recvs[msg->recv].end == END_RECEIVED;

    return msg->fins == (is_received && msg->sent->wants_fin ? 1 : 0);
}

void schedule_check_senders(struct schedule_run *run)
{
    for (int i = 0; i < run->ids; i++) {
        if (run->msgs[i].sent == NULL)
            continue;
        if (!run->msgs[i].has_arrived)
            schedule_wrong(run, "m%d has not arrived", i);
        else if (!is_reported_right(run, &run->msgs[i]))
            schedule_wrong(run, "the sender of m%d got %u FINs", i, run->msgs[i].fins);
    }
}

static void check_receives(struct schedule_run *run)
{
    for (int i = 0; i < run->ids; i++) {
        const struct host_recv *recv = &run->recvs[i];

        if (recv->is_posted && recv->end == END_NONE)
            schedule_wrong(run, "receive r%d does not end", i);
        else if (recv->is_posted &&
                 !schedule_bytes_are(recv->buf, sizeof recv->buf, SCHEDULE_ENDED))
            schedule_wrong(run, "receive r%d was written after its end", i);
        else if (recv->is_posted && recv->shadow.state != SHADOW_NONE)
            schedule_wrong(run, "receive r%d is still in the shadow", i);
    }
}

static bool has_filter_left(const struct shadow_filter *filter)
{
    const uint32_t *counts = filter->exact;

    for (size_t i = 0; i < sizeof *filter / sizeof *counts; i++)
        if (counts[i] != 0)
            return true;
    return false;
}

static void check_leftovers(struct schedule_run *run)
{
    if (has_filter_left(&run->shadow.filter))
        schedule_wrong(run, "the filter still counts a receive");
    else if (run->shadow.stats.waiting != 0 || run->shadow.stats.in_device != 0)
        schedule_wrong(run, "%llu receives wait and %llu are in the device, at the end",
                       (unsigned long long)run->shadow.stats.waiting,
                       (unsigned long long)run->shadow.stats.in_device);
    if (run->stepped.is_lost)
        return;
    if (run->shadow.held_leaving != 0)
        schedule_wrong(run, "the device has not let go of %u messages at the end",
                       run->shadow.held_leaving);
    if (run->shadow.free_count != run->shadow.list)
        schedule_wrong(run, "%u of %u handles are free at the end", run->shadow.free_count,
                       run->shadow.list);
    else if (!stepped_is_idle(&run->stepped))
        schedule_wrong(run, "the device is not idle at the end");
}

void schedule_check_end(struct schedule_run *run)
{
    check_matching(run);
    check_overtaking(run);
    schedule_check_senders(run);
    check_receives(run);
    check_leftovers(run);
}
