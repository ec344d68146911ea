/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine.h - an endpoint that keeps no rule, in the sense of byzantine faults.
 *
 *   byzantine.c          its end of the transport: receives what the victim sends it, keeps the
 *                        last packets, and has memory, words and a table of its own
 *   byzantine_packets.c  what it sends: bytes; packets of the right shape, whose numbers exist,
 *                        existed or nearly exist; or what would be the right answer to a packet
 *                        that it has received, with or without a mutation
 *
 * Its packets go straight to the victim's deliver(), in memory of their exact size.
 */
#ifndef FUZZ_BYZANTINE_H
#define FUZZ_BYZANTINE_H

#include "core/core.h"
#include "fuzz/user.h"

#define KEPT             16
#define BYZANTINE_MEMORY 20000
#define FORGED_MAX       512 /* bytes of a packet */
#define BODY_MOST        9   /* words */
#define RAW_MOST         128
#define BYZANTINE_TABLE  64 /* where its table is, among its words */

/* A packet that it sends, or has received. */
struct forged {
    struct wire_header header;
    uint64_t body[BODY_MOST];
    size_t payload_size;
    struct wire_buffer buffer; /* the payload, with WIRE_IN_BUFFER and this size */
    size_t cut;                /* so many bytes of it are missing at the end */
};

/* Of something long that it has begun: the bytes to come. */
struct stream {
    uint64_t id, at, left;
};

/* Glossary: byzantine endpoint - an endpoint that sends what no correct one sends */
struct byzantine {
    struct transport *transport;
    struct link *link; /* to the victim */
    struct user *victim;
    struct forged kept[KEPT]; /* the last ones */
    uint32_t kept_count;
    uint64_t epoch, number, question, request;
    uint64_t address, key;             /* of its memory, for the victim to read, */
    uint64_t inbox_address, inbox_key; /* and to write */
    struct stream data, more, answer, push;
    unsigned char memory[BYZANTINE_MEMORY], inbox[BYZANTINE_MEMORY];
};

/* welcome: what the victim has of credit, at first. */
void byzantine_open(struct byzantine *byzantine, uint32_t welcome);
void byzantine_connect(struct byzantine *byzantine, struct user *victim);
void byzantine_close(struct byzantine *byzantine);

/* Receives what has come. */
void byzantine_receive(struct byzantine *byzantine);

/* The last packet of this type that it has received, or NULL. */
const struct forged *byzantine_last(const struct byzantine *byzantine, enum wire_type type);

/* Writes to its own words and table, to those of the victim, and to its memory. */
void byzantine_access(struct byzantine *byzantine, struct input *in);

/* Sends bytes; a packet of the right shape; an answer. */
void byzantine_send_bytes(struct byzantine *byzantine, struct input *in);
void byzantine_send_shaped(struct byzantine *byzantine, struct input *in);
void byzantine_send_answer(struct byzantine *byzantine, struct input *in);

/* Hands packet to the victim. */
void byzantine_deliver(struct byzantine *byzantine, const void *packet, size_t size);

/* A number that is small, of some size, or anything. */
uint64_t take_number(struct input *in);

#endif
