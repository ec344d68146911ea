/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h - split matching in random orders, from seeds.  Test code.
 *
 *   application (host)                      device (stepped_device.h)       senders
 *
 *   post, cancel                            command: the oldest one
 *   struct mbx_match + struct shadow  <──>  struct tm_unit               <──   send
 *   poll: a number of events                arrive: from one sender
 *                                           move: a piece of one transfer
 *
 * Nothing happens by itself: a schedule is a list of steps, done one after the other.  So a
 * device may be arbitrarily slow or fast between any two steps of the application.
 * Afterwards everything runs until nothing moves.  Then the oracle determines the message of
 * each receive, which follows from the order of the posts and the order of the arrivals
 * alone, whatever happened in between.
 *
 * In some schedules some senders have another path that bypasses the device (bypass.h).  Their
 * message arrives when software decides which receive gets it or that it is kept.  If a
 * receive is claimed for it in time, it arrives at the time of the claim: after all events of the
 * device that software had polled until then.
 *
 * In some schedules the device holds unexpected messages (held.h).  The device does not decide which
 * receive such a message matches either.
 *
 * Checks
 *   after every step   the invariants of shadow, tag-matching unit and stepped device: no overflow of
 *                      commands and events, no revoke without space; a match has the right
 *                      envelope, the data is complete when a receive ends, a receive ends once
 *   when all is quiet  the device's receives are active; nobody waits while there is space
 *   at the end         the oracle's matching; each sender that waits for it notified once; no
 *                      byte written after a receive's end; no handle, buffer, command or
 *                      event left
 *
 * A schedule stays meaningful when any of its steps is dropped: a step without an object does
 * nothing.
 *
 *   schedule.c         executes a schedule
 *   schedule_check.c   compares with the oracle, at the end
 *   schedule_random.c  generates schedules from seeds
 *   schedule_text.c    shrinks and prints one that fails
 */
#ifndef TESTING_SCHEDULE_H
#define TESTING_SCHEDULE_H

#include <stdio.h>

#include "device/host/bypass.h"
#include "device/host/held.h"
#include "device/host/shadow.h"
#include "match/oracle.h"
#include "testing/device/stepped_device.h"

#define SCHEDULE_MAX   96 /* steps */
#define SCHEDULE_PEERS 3
#define SCHEDULE_BYTES 96   /* size of the longest message */
#define SCHEDULE_ENDED 0xee /* written by an owner into its buffer when a receive has ended */

enum step_kind {
    STEP_POST,
    STEP_FOLLOW, /* posted when the receive that target posted ends, in its callback */
    STEP_CANCEL, /* cancels the receive that target posted */
    STEP_CLAIM,  /* claims that receive, for a message that never comes */
    STEP_TAKE,   /* a matched probe, and the receive of its message if there is one */
    STEP_SEND,   /* onto the sender's wire */
    STEP_ARRIVE, /* the oldest packet of a wire, at the device; or in software, if the device is
                  * lost */
    STEP_COMMAND,
    STEP_MOVE,   /* transfer number target, among the present ones */
    STEP_POLL,   /* up to target events; 0: all */
    STEP_DENY,   /* the owner has no space for the next target messages */
    STEP_LOSE,   /* the device is lost */
    STEP_RECALL, /* software takes all receives back */
    STEP_RESUME,
    STEP_KINDS
};

struct schedule_step {
    enum step_kind kind;
    int id;     /* its own; names the receive or message */
    int target; /* step for FOLLOW, CANCEL and CLAIM; a number for MOVE, POLL, DENY */
    struct mbx_match_envelope envelope; /* POST, TAKE, SEND; ARRIVE: its source */
    uint64_t ignore;
    uint32_t size;
    enum stepped_kind message; /* SEND */
    bool wants_fin;
    uint32_t breaks_at; /* SEND of a rendezvous: the device stops after this many bytes */
};

struct schedule {
    uint32_t list, untagged, counter_bits;
    uint32_t tag_bits;
    unsigned caps;
    uint64_t threshold;
    uint32_t bypass;  /* set of senders with another path */
    uint32_t clashes; /* struct stepped_config */
    bool holds;       /* the device is given unexpected messages to hold */
    int count;
    struct schedule_step steps[SCHEDULE_MAX];
};

enum end { END_NONE, END_RECEIVED, END_CANCELLED, END_LOST };

struct host_msg;

struct host_recv {
    struct mbx_match_recv match; /* first: a result of the engine is cast back */
    struct shadow_recv shadow;
    bool is_posted, is_cancelling;
    bool is_found;         /* by a message of another path, and not in the engine any more */
    struct host_msg *pair; /* the message that it has found, and the device holds */
    enum end end;
    int message; /* that it matched, or -1 */
    const struct schedule_step *follower;
    uint64_t from; /* INCOMPLETE: bytes that the device has moved */
    uint32_t size;
    unsigned char buf[SCHEDULE_BYTES + 8];
};

struct host_msg {
    struct mbx_match_msg match;
    struct shadow_message bypass;
    int heard; /* for another path: number of the device's messages that arrived before it */
    bool has_arrived, is_at_device;
    uint32_t held; /* held_keep() */
    int recv;      /* that matched it, or -1 */
    uint32_t fins; /* FINs that its sender got */
    uint32_t came; /* bytes that software has */
    const struct schedule_step *sent;
    unsigned char bytes[SCHEDULE_BYTES], stored[SCHEDULE_BYTES];
};

/* Counts of the events, to see that all of them happen. */
struct schedule_sums {
    uint64_t schedules, steps, received, by_device, by_software, bypass, parked, taken,
        cancelled, cancels_won, cancels_lost, claims_won, claims_lost, overlapped, clashed,
        waited, recalled, refused, incomplete, syncs, lost, ended_by_loss, owed, held,
        held_matched, unheld;
};

struct schedule_run {
    const struct schedule *schedule;
    struct stepped stepped;
    struct shadow shadow;
    struct mbx_match match;
    struct oracle oracle;
    struct host_recv recvs[SCHEDULE_MAX];
    struct host_msg msgs[SCHEDULE_MAX];
    int arrivals[SCHEDULE_MAX]; /* ids of messages, in order of arrival */
    int bypasses[SCHEDULE_MAX]; /* ids of messages of another path, in order of arrival */
    int posts[SCHEDULE_MAX];    /* ids of receives, in order of posting */
    int arrival_count, bypass_count, post_count;
    int heard; /* number of arrivals that software has polled */
    int ids;   /* all ids are smaller */
    int deny;
    bool is_software_alone; /* the device was lost, and software has noticed */
    struct schedule_sums sums;
    char why[160]; /* the first error; empty: none */
};

/* Executes s.  Returns the number of the step after which something was wrong (count: at the
 * end), with the reason in run->why; -1 if all was correct.  sums may be NULL, otherwise counts
 * are added. */
int schedule_replay(struct schedule_run *run, const struct schedule *s,
                    struct schedule_sums *sums);

void schedule_make(struct schedule *s, uint64_t seed);

/* Shrinks s, which fails, and prints the rest and the error on stderr. */
void schedule_report(struct schedule *s, struct schedule_run *run, uint64_t seed);

/* ---- between schedule.c and schedule_check.c ---- */

/* Keeps only the first error. */
void schedule_wrong(struct schedule_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool schedule_bytes_are(const unsigned char *bytes, size_t size, unsigned char value);
/* At any time when all is quiet. */
void schedule_check_senders(struct schedule_run *run);
/* When all receives have ended. */
void schedule_check_end(struct schedule_run *run);

#endif
