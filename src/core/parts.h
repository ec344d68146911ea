/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.h - what a protocol or a module keeps in a request, a peer or an endpoint of its own.
 *
 * These are made once and have space for all of them.  Of a peer and an endpoint core knows how long
 * the parts are, and nothing else.  The parts of a request lie in one union, so they are defined here,
 * and each is read and written by the file that its comment names.
 */
#ifndef CORE_PARTS_H
#define CORE_PARTS_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "base/list.h"
#include "core/backoff.h"

/* ---- in a request ---- */

/* Where a sender writes: advert_send.c, and split_copy.c for a part. */
struct advert_target {
    uint64_t receiver;           /* the request of the receive */
    uint64_t word, owner_id;     /* lockword.h */
    uint64_t address, key, size; /* of its buffer */
};

/* Where the buffer of a receive is, as the sender was told: advert_recv.c, split_copy.c. */
struct announced {
    uint64_t address, key;
    union {
        uint64_t number; /* open: grows from one to the next of that sender */
        uint64_t began;  /* ADVERT_FILLING: progress.checks then */
    };
};

/* Glossary: split copy - sender and receiver each copy a part of a long message */
/* The part of a receive that its sender is asked to write: split_copy.c. */
struct split_copy {
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
    SHADOW_WAITING,  /* for space in the device */
    SHADOW_HANDED,
    SHADOW_REVOKING,  /* cancelled, if the device still has it */
    SHADOW_RECALLED,  /* to stay in software, if the device still has it */
    SHADOW_RECLAIMED, /* for a message of elsewhere, if the device still has it */
    SHADOW_MATCHED,   /* by the device, which moves the data */
    SHADOW_PAIRED,    /* has met a message that the device holds, which is to say so */
};

struct mbx_ep;
struct request;
struct shadow_message;

/* Where a posted receive is besides its engine.  Everything about it: device/host/shadow.h. */
struct shadow_recv {
    const struct mbx_match_recv *match;
    void *buf;
    size_t size;
    struct list node;               /* on waiting, handed or asked */
    struct shadow_message *message; /* RECLAIMED: for it; NULL: for somebody else */
    uint32_t handle;                /* HANDED and later */
    uint32_t held;                  /* PAIRED: the number of the message */
    enum shadow_state state;
    bool is_sized; /* MATCHED: it was told with the size of the message (no SIZE_LATER) */
};

/* ---- in a peer and in an endpoint ---- */

/* Glossary: part, owner - a structure in an endpoint, peer or request, and the only files that
 * write it */
/*
 * Storage for the state of a folder above, of which core knows the size alone.  The struct is in a header of that
 * folder, which looks into it by PART() and asserts that the struct fits.  Others may read it there.
 */
#define PART_STORAGE(size, align)                                                              \
    struct {                                                                                   \
        alignas(align) unsigned char bytes[size];                                              \
    }

/* Pointer to the state of this type in its storage; const if that is. */
#define PART(storage, type)                                                                    \
    _Generic(1 ? &(storage) : (void *)(storage).bytes, const void *                                  \
             : (const type *)(const void *)(storage).bytes, default                               \
             : (type *)(void *)(storage).bytes)

/* The rest after the struct: does it fill the storage that `whole` has for it as `part`? */
#define PART_FITS(whole, part, type)                                                           \
    static_assert(sizeof(type) == sizeof(((struct whole *)0)->part) &&                         \
                      alignof(type) <= alignof(struct whole) &&                                \
                      offsetof(struct whole, part) % alignof(type) == 0,                       \
                  #type)

/* ---- what core itself does for folders above ---- */

/* For observers: lib/inspect.c, lib/hang.c, names.c. */
struct inspect_page;
struct ep_observed {
    struct inspect_page *page; /* or NULL: nobody can ask */
    void (*answer)(struct mbx_ep *ep);
    uint64_t checks;   /* of progress_slow_check() */
    uint32_t answered; /* the number of the last question */
    /* called LIVENESS_CHECKS times in MBX_PEER_TIMEOUT while something waits */
    void (*watch)(struct mbx_ep *ep);
    /* who waits for a request that its user names so: mbx_explain_waits() */
    uint32_t (*waits)(const void *user, enum mbx_queue kind);
    /* what its user has described and never started: mbx_explain_unstarted() */
    int (*unstarted)(unsigned index, struct mbx_unstarted *out);
};

/* For a recorder: p2p/tracer.c. */
struct ep_recording {
    /* a TRACED request is complete */
    void (*completed)(struct mbx_ep *ep, const struct request *req, int error);
    /* a round of progress is over; asked for again after so many more, from 1.  NULL: nothing is recorded */
    unsigned (*checked)(struct mbx_ep *ep);
};

#endif
