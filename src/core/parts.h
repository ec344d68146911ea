/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.h - the state of protocols and modules in a request, a peer or an endpoint.
 *
 * A request, peer or endpoint is allocated once, with space for all parts.  Core knows only the
 * size of the parts of a peer and an endpoint.  The parts of a request are in one union, so
 * they are defined here, and each is read and written by the file that its comment names.
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

/* The buffer that a sender writes into: advert_send.c, and split_copy.c for a part. */
struct advert_target {
    uint64_t receiver;           /* the request of the receive */
    uint64_t word, owner_id;     /* lockword.h */
    uint64_t address, key, size; /* of the buffer */
};

/* The buffer of a receive, as the sender knows it: advert_recv.c, split_copy.c. */
struct announced {
    uint64_t address, key;
    union {
        uint64_t number; /* open: increases with each receive announced to that sender */
        uint64_t began;  /* ADVERT_FILLING: the value of progress.checks at its start */
    };
};

/* Split copy: sender and receiver each copy a part of a long message */
/* The part of a receive that its sender has to write: split_copy.c. */
struct split_copy {
    uint64_t from, to; /* from: the end of the part that is read here */
    uint64_t filled;   /* word is 0: the end of the part that was written */
    uint64_t word;     /* lockword.h; 0: WRITTEN has arrived */
    bool ask;          /* the rest has to come as data */
};

enum access_type { ACCESS_PUT, ACCESS_GET, ACCESS_ATOMIC };

/* A one-sided access, by us (origin.c) or by a peer (target.c). */
struct access {
    uint64_t key, at;     /* the region, and the address in it */
    const void *compare;  /* ours */
    void *result;         /* ours: the result of an atomic */
    uint32_t what, count; /* of an atomic, as in its packet */
    uint8_t type;         /* enum access_type */
    bool has_data;        /* PUT: the owner is notified */
    bool is_moved;        /* of a peer: complete except for the answer */
    bool has_payload;     /* of a peer: PUT whose bytes came in its packet */
    uint16_t error;       /* of a peer: its result, if is_moved; a positive errno */
};

/* ---- receives that a device may have: shadow.c ---- */

enum shadow_state {
    SHADOW_NONE,     /* not posted, or complete */
    SHADOW_SOFTWARE, /* stays in software */
    SHADOW_WAITING,  /* for space in the device */
    SHADOW_HANDED,
    SHADOW_REVOKING,  /* cancelled, if the device still has it */
    SHADOW_RECALLED,  /* to stay in software, if the device still has it */
    SHADOW_RECLAIMED, /* for a message that came another way, if the device still has it */
    SHADOW_MATCHED,   /* by the device, which moves the data */
    SHADOW_PAIRED,    /* has matched a message that the device holds; the device has to report
                         it */
};

struct mbx_ep;
struct request;
struct shadow_message;

/* The state of a posted receive at the device, in addition to its engine:
 * device/host/shadow.h. */
struct shadow_recv {
    const struct mbx_match_recv *match;
    void *buf;
    size_t size;
    struct list node;               /* on waiting, handed or asked */
    struct shadow_message *message; /* RECLAIMED: the message; NULL: it is for another
                                       purpose */
    uint32_t handle;                /* HANDED and later */
    uint32_t held;                  /* PAIRED: the number of the message */
    enum shadow_state state;
    bool is_sized; /* MATCHED: the size of the message was reported as well (no SIZE_LATER) */
};

/* ---- in a peer and in an endpoint ---- */

/* Glossary: part, owner - a structure in an endpoint, peer or request, and the only files that
 * write it */
/*
 * Storage for the state of a folder above, of which core knows only the size.  The struct is in
 * a header of that folder, which accesses it with PART() and asserts that the struct fits.
 * Other folders may read it through that header.
 */
#define PART_STORAGE(size, align)                                                              \
    struct {                                                                                   \
        alignas(align) unsigned char bytes[size];                                              \
    }

/* A pointer to the state of this type in its storage; const if the storage is. */
#define PART(storage, type)                                                                    \
    _Generic(1 ? &(storage) : (void *)(storage).bytes, const void *                                  \
             : (const type *)(const void *)(storage).bytes, default                               \
             : (type *)(void *)(storage).bytes)

/* Follows the struct: asserts that it fills its storage, which is `part` of `whole`. */
#define PART_FITS(whole, part, type)                                                           \
    static_assert(sizeof(type) == sizeof(((struct whole *)0)->part) &&                         \
                      alignof(type) <= alignof(struct whole) &&                                \
                      offsetof(struct whole, part) % alignof(type) == 0,                       \
                  #type)

/* ---- functions of core for folders above ---- */

/* For observers: lib/inspect.c, lib/hang.c, names.c. */
struct inspect_page;
struct ep_observed {
    struct inspect_page *page; /* or NULL: there are no observers */
    void (*answer)(struct mbx_ep *ep);
    uint64_t checks;   /* calls of progress_slow_check() */
    uint32_t answered; /* the number of the last question answered */
    /* called LIVENESS_CHECKS times in MBX_PEER_TIMEOUT while a request waits */
    void (*watch)(struct mbx_ep *ep);
    /* the waiter for a request with this user value: mbx_explain_waits() */
    uint32_t (*waits)(const void *user, enum mbx_queue kind);
    /* a thread that has communicated: mbx_explain_threads() */
    int (*threads)(unsigned index, uint32_t *id);
    int (*waiter)(const void *user, enum mbx_queue kind);
    /* an operation that the user has described and never started: mbx_explain_unstarted() */
    int (*unstarted)(unsigned index, struct mbx_unstarted *out);
};

/* For a recorder: p2p/tracer.c. */
struct ep_recording {
    /* a TRACED request is complete */
    void (*completed)(struct mbx_ep *ep, const struct request *req, int error);
    /* called after a round of progress; returns the number of rounds until the next call, at
     * least 1.  NULL: nothing is recorded */
    unsigned (*checked)(struct mbx_ep *ep);
};

#endif
