/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_reading.h - what the parts of trace_job.c hand on to each other while the files of a job are read.
 *
 *   trace_read.c    events become halves: what a file has sent, what has arrived there
 *   trace_clock.c   aligns the clocks of the hosts
 *   trace_pair.c    halves become messages
 *   trace_job.c     the order of all that, and figures that follow from it
 */
#ifndef TOOLS_TRACE_READING_H
#define TOOLS_TRACE_READING_H

#include "base/hash.h"
#include "trace_job.h"

/* A posted receive. */
struct post {
    uint64_t time, event;
    uint32_t half; /* the message that it has met; or JOB_NOBODY */
};

/* How many entries the queues of a rank have from this time on. */
struct depth_change {
    uint64_t time;
    uint32_t rank, posted, unexpected;
};

/* The receives, messages and sends that a file names. */
struct reading {
    struct job *job;
    job_event_fn *each; /* gets the events, or NULL */
    void *arg;
    /* of all files */
    struct job_message *sends, *arrivals;
    size_t send_count, arrival_count;
    uint32_t send_capacity, arrival_capacity, wait_capacity, step_capacity;
    struct depth_change *changes;
    size_t change_count;
    uint32_t change_capacity, place_capacity, come_capacity;
    /* of the one that is read */
    uint32_t rank;
    size_t first_place;  /* in job->places */
    uint64_t now, acted; /* acted: its last send or receive */
    uint32_t *peers;     /* the rank of each peer number */
    uint32_t peer_count;
    struct hash names; /* in its file: of receives, messages, sends */
    struct post *posts;
    size_t post_count;
    uint32_t post_capacity;
    uint32_t last_send, open_wait;
    uint64_t waited; /* the end of its last wait: the next one begins no sooner */
    uint32_t posted, unexpected;
};

/* ---- trace_read.c ---- */

/* Reads the events of rank r->rank, whose file is open; where it is damaged, the rank's error says so.
 * False: no memory. */
bool read_events(struct reading *r, struct trace_reader *reader);

/* ---- trace_clock.c ---- */

/* Times that are read are below: a clock that counts from the start of a machine. */
#define JOB_TIME_MAX (UINT64_C(1) << 59)

/* Lays the clocks of the hosts side by side: all times are ns since the job's first event.  False: no memory. */
bool clocks_align(const struct reading *r);

/* ---- trace_pair.c ---- */

/* Makes the job's messages, and says of each step which message it is of.  False: no memory. */
bool pair_halves(struct reading *r);

#endif
