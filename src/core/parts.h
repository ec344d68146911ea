/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.h - what a protocol or a module keeps in a request of its own.
 *
 * A request is made once and has room for all of them, so they are defined here, below the rooms
 * that they belong to: each is read and written by the file that its comment names, and core only
 * knows how long it is.  core.h says which of them lies where.
 */
#ifndef CORE_PARTS_H
#define CORE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>

#include "base/list.h"

/* Where a sender writes: rput_send.c, and coop.c for a part. */
struct rput_target {
    uint64_t receiver;           /* the request of the receive */
    uint64_t word, owner_id;     /* lockword.h */
    uint64_t address, key, size; /* of its buffer */
};

/* Where the buffer of a receive is, as the sender was told: rput_recv.c, coop.c. */
struct announced {
    uint64_t address, key;
    uint64_t number; /* grows from one to the next of that sender */
};

/* The part of a receive that its sender is asked to write: coop.c. */
struct coop {
    uint64_t from, to; /* from: behind what is read here */
    uint64_t filled;   /* word is 0: up to there it is written */
    uint64_t word;     /* lockword.h; 0: WRITTEN has come */
    bool ask;          /* the rest is to come as data */
};

enum access_type { ACCESS_PUT, ACCESS_GET, ACCESS_ATOMIC };

/* A one-sided access, of ours (origin.c) or of a peer (target.c). */
struct access {
    uint64_t key, at;     /* region, and address in it */
    const void *compare;  /* ours */
    void *result;         /* ours: of an atomic */
    uint32_t what, count; /* of an atomic, as in its packet */
    uint8_t type;         /* enum access_type */
    bool has_data;        /* PUT: the owner is told */
    bool is_moved;        /* of a peer: all is done but the answer */
    bool has_payload;     /* of a peer: PUT whose bytes came with it */
    uint16_t error;       /* of a peer: its end, if is_moved; a positive errno */
};

/* ---- of a receive that a device may have: shadow.c ---- */

enum shadow_state {
    SHADOW_NONE,     /* not posted, or over */
    SHADOW_SOFTWARE, /* stays in software */
    SHADOW_WAITING,  /* for room in the device */
    SHADOW_HANDED,
    SHADOW_REVOKING,  /* cancelled, if the device still has it */
    SHADOW_RECALLED,  /* to stay in software, if the device still has it */
    SHADOW_RECLAIMED, /* for a message of elsewhere, if the device still has it */
    SHADOW_MATCHED,   /* by the device, which moves the data */
};

struct shadow_message;

/* Where a posted receive is besides its engine.  Everything about it: offload/shadow.h. */
struct shadow_recv {
    const struct mbx_match_recv *match;
    void *buf;
    size_t size;
    struct list node;               /* on waiting, handed or asked */
    struct shadow_message *message; /* CLAIMED: for it; NULL: for somebody else */
    uint32_t handle;                /* HANDED and later */
    enum shadow_state state;
    bool is_sized; /* MATCHED: it was told with the size of the message (no SIZE_LATER) */
};

#endif
