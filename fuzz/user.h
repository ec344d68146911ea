/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * user.h - the users of two correct endpoints, one of which has a byzantine endpoint as a
 * peer, and their guarantees nevertheless.
 */
#ifndef FUZZ_USER_H
#define FUZZ_USER_H

#include <matchbox/matchbox.h>

#include "fuzz/program.h"

#define SLOTS      40  /* requests of one user */
#define SLOTS_ALL  48  /* and additional ones at the end */
#define MESSAGES   200 /* from one user to the other, in one program */
#define REGION_KEY 3

/* Peer numbers. */
#define OTHER     0 /* the other user's endpoint */
#define BYZANTINE 1 /* only at the victim */

enum slot_kind { SLOT_FREE, SLOT_SEND, SLOT_RECV, SLOT_ACCESS };

/* The envelope that a receive, or a matched probe, accepts. */
struct wanted {
    uint32_t source, context;
    uint64_t tag, ignore;
    uint64_t since; /* time of posting */
};

/* A request. */
struct slot {
    enum slot_kind kind;
    mbx_request request;
    unsigned char *buf; /* has its exact size, and is freed at its completion */
    size_t size;
    uint32_t peer;        /* for a send or access */
    uint32_t number;      /* for a message to the other user */
    struct wanted wanted; /* for a receive */
    bool is_asked;        /* a cancel has returned 0 */
};

/* A message to the other correct user. */
struct sent {
    uint32_t context;
    uint64_t tag;
    size_t size;
    bool is_received;
    struct wanted by;
};

struct user {
    struct mbx_ep *ep;
    struct user *other;
    uint32_t peers; /* 2 if it includes the byzantine endpoint */
    uint64_t now;   /* counts its posts */
    struct slot slots[SLOTS_ALL];
    bool has_message;
    mbx_message message; /* from a matched probe */
    struct mbx_status status;
    struct wanted probe;
    struct sent sent[MESSAGES];
    uint32_t sent_count;
    unsigned char *region, results[512];
    uint64_t done; /* completions */
};

/* The byte of all payload from the byzantine endpoint; no other data contains it. */
#define BYZANTINE_BYTE 0xee

void user_open(struct user *user, struct mbx_ep *ep, struct user *other, uint32_t peers);

/* One action of a user, with its arguments. */
void user_act(struct user *user, struct input *in);

/* Takes all completions, and checks that each is possible for its request. */
void user_take_completions(struct user *user);

/* A request of this user, or 0. */
mbx_request user_request(const struct user *user, uint8_t which);

/* Checks that all messages between the two users arrive, whatever happened before. */
void user_finish(struct user *a, struct user *b);

/* Checks that all requests of both end, after the byzantine endpoint has closed. */
void user_end(struct user *a, struct user *b);

/* Called after the close. */
void user_free(struct user *user);

/* Checks engines, pools and counters of its endpoint. */
void user_check(const struct user *user);

/* The library's time. */
void fuzz_time_pass(uint64_t ns);
uint64_t fuzz_clock(void);

#endif
