/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h - split matching in every order that a seed can think of.  Test code.
 *
 *   application (host)                      device (stepped_device.h)       senders
 *
 *   post, cancel                            command: the oldest one
 *   struct mbx_match + struct shadow  <──>  struct tm_unit               <──   send
 *   poll: so many events                    arrive: from one sender
 *                                           move: a piece of one transfer
 *
 * Nothing happens by itself: a schedule is the list of what happens, one thing after the
 * other, so a device may be as slow or as fast as one likes, between any two steps of the
 * application.  Afterwards everything runs until nothing moves, and then the oracle is asked
 * which message each receive must have got: that follows from the order of the posts and the
 * order of the arrivals alone, whatever was done in between.
 *
 * In some schedules some of the senders have another path, past the device (bypass.h).  A
 * message of theirs arrives when software decides which receive it gets or that it is kept,
 * and if a receive is claimed for it in time, when it was claimed: behind what software had
 * heard of the device until then.
 *
 * In some schedules the device holds unexpected messages (held.h).  Which receive such a message meets
 * is no matter of the device then either.
 *
 * What is checked
 *   after every step   the invariants of shadow, tag-matching unit and stepped device: no overflow of
 *                      commands and events, no revoke without space; a matched receive says
 *                      the right envelope, its bytes are there when it ends, it ends once
 *   when all is quiet  what the device holds is active; nobody waits while there is space
 *   at the end         the oracle's matching; each sender that waits for it told once; no
 *                      byte written behind a receive's end; no handle, buffer, command or
 *                      event left
 *
 * A schedule stays meaningful when any of its steps is dropped: what has nothing to do does
 * nothing.
 *
 *   schedule.c         does a schedule
 *   schedule_check.c   asks the oracle, at the end
 *   schedule_random.c  makes them from seeds
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
#define SCHEDULE_BYTES 96   /* the longest message */
#define SCHEDULE_ENDED 0xee /* what an owner puts into his buffer when a receive has ended */

enum step_kind {
    STEP_POST,
    STEP_FOLLOW, /* posted when the receive that target posted ends, from where that is told */
    STEP_CANCEL, /* that receive */
    STEP_CLAIM,  /* that receive, for a message that comes from nowhere here */
    STEP_TAKE,   /* a matched probe, and the receive of its message if there is one */
    STEP_SEND,   /* onto the sender's wire */
    STEP_ARRIVE, /* the oldest packet of a wire, at the device; or in software, if that is lost
                  */
    STEP_COMMAND,
    STEP_MOVE,   /* transfer number target, of those that there are */
    STEP_POLL,   /* up to target events; 0: all */
    STEP_DENY,   /* the owner has no space for the next target messages */
    STEP_LOSE,   /* the device is lost */
    STEP_RECALL, /* software wants all receives for itself */
    STEP_RESUME,
    STEP_KINDS
};

struct schedule_step {
    enum step_kind kind;
    int id;     /* its own; names what it posts or sends */
    int target; /* of FOLLOW, CANCEL and CLAIM; MOVE, POLL, DENY: a number */
    struct mbx_match_envelope envelope; /* POST, TAKE, SEND; ARRIVE: its source */
    uint64_t ignore;
    uint32_t size;
    enum stepped_kind message; /* SEND */
    bool wants_fin;
    uint32_t breaks_at; /* SEND of a rendezvous: the device comes so far */
};

struct schedule {
    uint32_t list, untagged, counter_bits;
    uint32_t tag_bits;
    unsigned caps;
    uint64_t threshold;
    uint32_t bypass;  /* senders with another path, one bit for each */
    uint32_t clashes; /* struct stepped_config */
    bool holds;       /* the device is given unexpected messages to hold */
    int count;
    struct schedule_step steps[SCHEDULE_MAX];
};

enum end { END_NONE, END_RECEIVED, END_CANCELLED, END_LOST };

struct host_msg;

struct host_recv {
    struct mbx_match_recv match; /* first: the engine's answer is cast back */
    struct shadow_recv shadow;
    bool is_posted, is_cancelling;
    bool is_found;         /* by a message of another path, and not in the engine since */
    struct host_msg *pair; /* that it has found, and the device holds */
    enum end end;
    int message; /* that it met, or -1 */
    const struct schedule_step *follower;
    uint64_t from; /* INCOMPLETE: bytes that the device has moved */
    uint32_t size;
    unsigned char buf[SCHEDULE_BYTES + 8];
};

struct host_msg {
    struct mbx_match_msg match;
    struct shadow_message bypass;
    int heard; /* of another path: so many of the device's messages arrived before it */
    bool has_arrived, is_at_device;
    uint32_t held; /* held_keep() */
    int recv;      /* that met it, or -1 */
    uint32_t fins; /* FINs to its sender */
    uint32_t came; /* bytes that software has */
    const struct schedule_step *sent;
    unsigned char bytes[SCHEDULE_BYTES], stored[SCHEDULE_BYTES];
};

/* How often what can happen did. */
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
    int arrivals[SCHEDULE_MAX]; /* ids of messages, in the order of their arrival */
    int bypasses[SCHEDULE_MAX]; /* the same, of those of another path */
    int posts[SCHEDULE_MAX];    /* ids of receives, in the order of their posting */
    int arrival_count, bypass_count, post_count;
    int heard; /* of so many of arrivals software has heard */
    int ids;   /* all are below */
    int deny;
    bool is_software_alone; /* the device was lost, and software has noticed */
    struct schedule_sums sums;
    char why[160]; /* the first thing that was wrong; empty: nothing */
};

/* Does s.  The number of the step after which something was wrong (count: at the end), with
 * the reason in run->why; -1 if all is well.  sums may be NULL, else it is added to. */
int schedule_replay(struct schedule_run *run, const struct schedule *s,
                    struct schedule_sums *sums);

void schedule_make(struct schedule *s, uint64_t seed);

/* Shrinks s, which fails, and says on stderr what is left and what is wrong. */
void schedule_report(struct schedule *s, struct schedule_run *run, uint64_t seed);

/* ---- between schedule.c and schedule_check.c ---- */

/* The first thing that is wrong is kept. */
void schedule_wrong(struct schedule_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool schedule_bytes_are(const unsigned char *bytes, size_t size, unsigned char value);
/* At any time when all is quiet. */
void schedule_check_senders(struct schedule_run *run);
/* When all receives have ended. */
void schedule_check_end(struct schedule_run *run);

#endif
