/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine.h - an endpoint that follows no rule, in the sense of byzantine faults.
 *
 *   byzantine.c          its end of the transport: receives packets of the victim, keeps the
 *                        last ones, and has its own memory, words and table
 *   byzantine_packets.c  its packets: bytes; packets of the right shape, whose numbers exist,
 *                        existed or nearly exist; or right answers to packets
 *                        that it has received, with or without a mutation
 *
 * Its packets go directly to the victim's deliver(), in memory of their exact size.
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
#define BYZANTINE_TABLE  64 /* the position of its table among its words */

/* A packet that it sends, or that it has received. */
struct forged {
    struct wire_header header;
    uint64_t body[BODY_MOST];
    size_t payload_size;
    struct wire_buffer buffer; /* the payload, with WIRE_IN_BUFFER and this size */
    size_t cut;                /* bytes missing at the end of the payload */
};

/* A long transfer that it has begun: the remaining bytes. */
struct stream {
    uint64_t id, at, left;
};

/* Byzantine endpoint: an endpoint that sends what no correct one sends */
struct byzantine {
    struct transport *transport;
    struct link *link; /* to the victim */
    struct user *victim;
    struct forged kept[KEPT]; /* the last packets */
    uint32_t kept_count;
    uint64_t epoch, number, question, request;
    uint64_t address, key;             /* of its memory that the victim may read */
    uint64_t inbox_address, inbox_key; /* of its memory that the victim may write */
    struct stream data, more, answer, push;
    unsigned char memory[BYZANTINE_MEMORY], inbox[BYZANTINE_MEMORY];
};

/* welcome: the victim's initial credit. */
void byzantine_open(struct byzantine *byzantine, uint32_t welcome);
void byzantine_connect(struct byzantine *byzantine, struct user *victim);
void byzantine_close(struct byzantine *byzantine);

/* Receives the packets that have arrived. */
void byzantine_receive(struct byzantine *byzantine);

/* The last received packet of this type, or NULL. */
const struct forged *byzantine_last(const struct byzantine *byzantine, enum wire_type type);

/* Writes to its own words and table, and to words, tables and memory of the victim. */
void byzantine_access(struct byzantine *byzantine, struct input *in);

/* Sends bytes; a packet of the right shape; an answer. */
void byzantine_send_bytes(struct byzantine *byzantine, struct input *in);
void byzantine_send_shaped(struct byzantine *byzantine, struct input *in);
void byzantine_send_answer(struct byzantine *byzantine, struct input *in);

/* Hands packet to the victim. */
void byzantine_deliver(struct byzantine *byzantine, const void *packet, size_t size);

/* A number that is small, of some size, or arbitrary. */
uint64_t take_number(struct input *in);

#endif
