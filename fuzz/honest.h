/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * honest.h - two endpoints that keep the rules, one of which has a liar for its peer, and what
 * they may expect all the same.
 */
#ifndef FUZZ_HONEST_H
#define FUZZ_HONEST_H

#include <matchbox/matchbox.h>

#include "fuzz/program.h"

#define SLOTS      40  /* requests of one side, */
#define SLOTS_ALL  48  /* and more at the end */
#define MESSAGES   200 /* of one honest side to the other, in one program */
#define REGION_KEY 3

/* Peer numbers. */
#define OTHER 0 /* the other honest side */
#define LIAR  1 /* at the victim */

enum slot_kind { SLOT_FREE, SLOT_SEND, SLOT_RECV, SLOT_ACCESS };

/* What a receive, or a matched probe, accepts. */
struct wanted {
    uint32_t source, context;
    uint64_t tag, ignore;
    uint64_t since; /* when it was posted */
};

/* A request. */
struct slot {
    enum slot_kind kind;
    mbx_request request;
    unsigned char *buf; /* has its exact size, and is freed at its completion */
    size_t size;
    uint32_t peer;        /* of a send or access */
    uint32_t number;      /* of a message to the other honest side */
    struct wanted wanted; /* of a receive */
};

/* A message to the other honest side. */
struct sent {
    uint32_t context;
    uint64_t tag;
    size_t size;
    bool is_received;
    struct wanted by;
};

struct side {
    struct mbx_ep *ep;
    struct side *other;
    uint32_t peers; /* 2 if it has the liar */
    uint64_t now;   /* counts what it posts */
    struct slot slots[SLOTS_ALL];
    bool has_message;
    mbx_message message; /* of a matched probe */
    struct mbx_status status;
    struct wanted probe;
    struct sent sent[MESSAGES];
    uint32_t sent_count;
    unsigned char *region, results[512];
    uint64_t done; /* completions */
};

/* The bytes that the liar sends, and nobody else has. */
#define LIAR_BYTE 0xee

void honest_open(struct side *side, struct mbx_ep *ep, struct side *other, uint32_t peers);

/* One action of a user, with its arguments. */
void honest_act(struct side *side, struct input *in);

/* Takes all completions, each of which must be what its request can have. */
void honest_take(struct side *side);

/* A request of this side, or 0. */
mbx_request honest_request(const struct side *side, uint8_t which);

/* What one side has sent to the other reaches it, whatever has been. */
void honest_finish(struct side *a, struct side *b);

/* All requests of both end, now that the liar is gone. */
void honest_end(struct side *a, struct side *b);

/* Behind the close. */
void honest_free(struct side *side);

/* Engines, pools and counters of its endpoint. */
void honest_check(const struct side *side);

/* Time, as the library sees it. */
void honest_pass(uint64_t ns);
uint64_t honest_clock(void);

#endif
