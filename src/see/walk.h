/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.h - the queues of an endpoint, read out of its memory.
 *
 * The endpoint itself reads them so when it is asked, and an observer when the endpoint does not
 * answer: both walk the pools of requests and of messages, by offsets that struct see_root names, and
 * get each byte through a function of theirs.  So both see the same, and an observer needs no
 * debug information and no library of the same build.
 */
#ifndef SEE_WALK_H
#define SEE_WALK_H

#include <stddef.h>

#include "see/page.h"

#define SEE_ROOT_MAGIC "MBXROOT"

/* Where what lies: offsets in bytes, but for those that are called BYTES.  New ones are added at
 * the end alone, so that an observer reads endpoints of later versions. */
enum see_field {
    /* of the endpoint */
    SEE_EP_REQUESTS, /* a pool */
    SEE_EP_MESSAGES, /* a pool */
    SEE_EP_ADDRESSES,
    SEE_EP_PEERS, /* how many */
    SEE_EP_EXPECTED,
    SEE_EP_UNEXPECTED,
    SEE_EP_CANCELLED,
    SEE_EP_SENT,     /* an array */
    SEE_EP_RECEIVED, /* an array */
    SEE_PROTOCOLS,   /* the length of these */
    SEE_EP_PEEKED,   /* times that a probe found nothing */
    SEE_EP_PEEK,     /* its envelope */
    SEE_EP_PEEK_IGNORE,
    /* of a pool */
    SEE_POOL_CHUNKS,
    SEE_POOL_SLOTS,
    SEE_POOL_SHIFT,
    SEE_POOL_STRIDE,
    SEE_POOL_LIVE_BIT,
    SEE_SLOT_BYTES, /* in front of an object */
    /* of a request */
    SEE_REQUEST_STATE,
    SEE_REQUEST_FLAGS,
    SEE_REQUEST_SIZE,
    SEE_REQUEST_ENVELOPE,
    SEE_REQUEST_IGNORE,
    SEE_REQUEST_SEQ,
    SEE_REQUEST_QUEUED,
    SEE_REQUEST_STATUS,
    SEE_REQUEST_BYTES,
    /* of struct mbx_status */
    SEE_STATUS_CONTEXT,
    SEE_STATUS_SOURCE,
    SEE_STATUS_TAG,
    SEE_STATUS_SIZE,
    /* of a message */
    SEE_MESSAGE_ENVELOPE,
    SEE_MESSAGE_SEQ,
    SEE_MESSAGE_QUEUED,
    SEE_MESSAGE_SIZE,
    SEE_MESSAGE_RTS_SIZE,
    SEE_MESSAGE_MORE,
    SEE_MESSAGE_BYTES,
    SEE_MORE_SIZE,
    /* of an address */
    SEE_ADDRESS_BYTES,
    SEE_ADDRESS_SKIP, /* what see_address_name() skips */
    /* values */
    SEE_VALUE_QUEUED,   /* of SEE_REQUEST_QUEUED */
    SEE_VALUE_LONG,     /* of SEE_MESSAGE_SIZE */
    SEE_VALUE_RTS,      /* of SEE_MESSAGE_SIZE */
    SEE_VALUE_SYNC,     /* of SEE_REQUEST_FLAGS */
    SEE_VALUE_INTERNAL, /* of SEE_REQUEST_FLAGS */
    /* of the endpoint: SEE_MPI_TEXT bytes at least */
    SEE_EP_PROGRAM,
    SEE_FIELDS
};

struct see_root {
    char magic[8];
    uint32_t version, fields; /* SEE_VERSION; SEE_FIELDS */
    uint32_t offsets[SEE_FIELDS];
    uint8_t kinds[256]; /* of a request, by its state: enum see_kind */
};

/* Copies [at, at + size) of the endpoint's process.  0, or a negative errno. */
struct see_source {
    int (*read)(const struct see_source *source, uint64_t at, void *to, size_t size);
};

/* Is root, a copy of what a process has, something that can be walked with? */
bool see_root_is_valid(const struct see_root *root);

/* The entries of the endpoint at address ep: the first `room` ones, *stored, and of all of them
 * counts[kind].  0; a negative errno of the source; -EBADMSG what is there makes no sense. */
int see_walk(const struct see_root *root, const struct see_source *source, uint64_t ep,
             struct see_entry *entries, uint32_t room, uint32_t *stored,
             uint32_t counts[SEE_KINDS]);

/* 0; as see_walk(). */
int see_walk_pulse(const struct see_root *root, const struct see_source *source, uint64_t ep,
                   struct see_pulse *pulse);

#endif
