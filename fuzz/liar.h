/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liar.h - an endpoint that keeps no rule.
 *
 *   liar.c    its end of the transport: it hears what the victim tells it, keeps the last
 *             packets, and has memory, words and a table of its own
 *   lies.c    what it says: bytes; packets of the right shape, whose numbers exist, existed or
 *             nearly exist; or what would be the right answer to something that it has heard,
 *             with or without a twist
 *
 * What it says goes straight to the victim's deliver(), in memory of its exact size.
 */
#ifndef FUZZ_LIAR_H
#define FUZZ_LIAR_H

#include "core/core.h"
#include "fuzz/honest.h"

#define HEARD       16
#define LIAR_MEMORY 20000
#define LIES_MOST   512 /* bytes of a packet */
#define BODY_MOST   9   /* words */
#define RAW_MOST    128
#define LIAR_TABLE  64 /* where its table is, among its words */

/* A packet that it sends, or has heard. */
struct lie {
    struct wire_header header;
    uint64_t body[BODY_MOST];
    size_t payload_size;
    size_t cut; /* so many bytes of it are missing at the end */
};

/* Of something long that it has begun: the bytes to come. */
struct stream {
    uint64_t id, at, left;
};

struct liar {
    struct transport *transport;
    struct link *link; /* to the victim */
    struct side *victim;
    struct lie heard[HEARD]; /* the last ones */
    uint32_t heard_count;
    uint64_t epoch, number, question, request;
    uint64_t address, key;             /* of its memory, for the victim to read, */
    uint64_t inbox_address, inbox_key; /* and to write */
    struct stream data, more, answer, push;
    unsigned char memory[LIAR_MEMORY], inbox[LIAR_MEMORY];
};

/* welcome: what the victim has of credit, at first. */
void liar_open(struct liar *liar, uint32_t welcome);
void liar_meet(struct liar *liar, struct side *victim);
void liar_close(struct liar *liar);

/* Hears what has come. */
void liar_hear(struct liar *liar);

/* The last packet of this type that it has heard, or NULL. */
const struct lie *liar_last(const struct liar *liar, enum wire_type type);

/* Writes to its own words and table, to those of the victim, and to its memory. */
void liar_move(struct liar *liar, struct input *in);

/* Says something. */
void liar_say_bytes(struct liar *liar, struct input *in);
void liar_say_something(struct liar *liar, struct input *in);
void liar_say_answer(struct liar *liar, struct input *in);

/* Hands packet to the victim. */
void liar_tell(struct liar *liar, const void *packet, size_t size);

/* A number that is small, of some size, or anything. */
uint64_t take_number(struct input *in);

#endif
