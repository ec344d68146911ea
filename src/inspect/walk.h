/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.h - reads the queues of an endpoint from its memory.
 *
 * The endpoint itself reads them in this way for an answer, and so does an observer of an
 * endpoint that does not answer, of a core file, or in a debugger.  All walk the pools of
 * requests and of messages, with the offsets in struct inspect_root, and read memory through a
 * function of their own.  So all see the same entries, and an observer needs neither debug
 * information nor the same build of the library.
 */
#ifndef INSPECT_WALK_H
#define INSPECT_WALK_H

#include <stddef.h>

#include "inspect/page.h"
#include "inspect/text.h"

#define INSPECT_ROOT_MAGIC "MBXROOT"

/* The layout: offsets in bytes, except the fields called BYTES, which are sizes.  An observer
 * finds them by name, so it can read an endpoint of another version with other offsets, or with
 * additional fields. */
/* clang-format off */
#define INSPECT_FIELD_LIST(X)                                                                          \
    /* of the endpoint */                                                                          \
    X(EP_REQUESTS)      /* a pool */                                                               \
    X(EP_MESSAGES)      /* a pool */                                                               \
    X(EP_ADDRESSES)                                                                                \
    X(EP_PEERS)         /* their number */                                                         \
    X(EP_EXPECTED)                                                                                 \
    X(EP_UNEXPECTED)                                                                               \
    X(EP_CANCELLED)                                                                                \
    X(EP_SENT)          /* an array */                                                             \
    X(EP_RECEIVED)      /* an array */                                                             \
    X(PROTOCOLS)        /* the length of these */                                                  \
    X(EP_PEEKED)        /* times that a probe found nothing */                                     \
    X(EP_PEEK)          /* its envelope */                                                         \
    X(EP_PEEK_IGNORE)                                                                              \
    X(EP_PROGRAM)       /* at least INSPECT_MPI_TEXT bytes */                                          \
    X(EP_PAGE)          /* the address of its page */                                              \
    X(EP_NEXT)          /* the address of the next endpoint of the process, or 0 */                \
    /* first sight of objects: of the endpoint, a note of a pool, and one place of it */           \
    X(EP_LOOKED)        /* the time of the last check */                                           \
    X(EP_REQUEST_AGES)                                                                             \
    X(EP_MESSAGE_AGES)                                                                             \
    X(AGES_SEEN)        /* an array */                                                             \
    X(AGES_PLACES)      /* its length */                                                           \
    X(AGE_BYTES)                                                                                   \
    X(AGE_ID)                                                                                      \
    X(AGE_SINCE)        /* ns */                                                                   \
    /* names set by the program: of the endpoint, of a context id, of a peer */                    \
    X(EP_CONTEXTS)                                                                                 \
    X(EP_CONTEXT_COUNT)                                                                            \
    X(CONTEXT_BYTES)                                                                               \
    X(CONTEXT_ID)                                                                                  \
    X(CONTEXT_SIZE)                                                                                \
    X(CONTEXT_NAME)     /* at least INSPECT_NAME_TEXT bytes */                                         \
    X(EP_NAMED_PEERS)                                                                              \
    X(EP_NAMED_SLOTS)                                                                              \
    X(NAMED_BYTES)                                                                                 \
    X(NAMED_JOB)                                                                                   \
    X(NAMED_RANK)                                                                                  \
    X(NAMED_CHANGE)     /* 0: not named */                                                         \
    /* of a pool */                                                                                \
    X(POOL_CHUNKS)                                                                                 \
    X(POOL_SLOTS)                                                                                  \
    X(POOL_SHIFT)                                                                                  \
    X(POOL_STRIDE)                                                                                 \
    X(POOL_INDEX_MASK)                                                                             \
    X(POOL_LIVE_BIT)                                                                               \
    X(SLOT_BYTES)       /* in front of an object */                                                \
    /* of a request */                                                                             \
    X(REQUEST_STATE)                                                                               \
    X(REQUEST_FLAGS)                                                                               \
    X(REQUEST_SIZE)                                                                                \
    X(REQUEST_ENVELOPE)                                                                            \
    X(REQUEST_IGNORE)                                                                              \
    X(REQUEST_SEQ)                                                                                 \
    X(REQUEST_QUEUED)                                                                              \
    X(REQUEST_STATUS)                                                                              \
    X(REQUEST_BYTES)                                                                               \
    /* of struct mbx_status */                                                                     \
    X(STATUS_CONTEXT)                                                                              \
    X(STATUS_SOURCE)                                                                               \
    X(STATUS_TAG)                                                                                  \
    X(STATUS_SIZE)                                                                                 \
    /* of a message */                                                                             \
    X(MESSAGE_ENVELOPE)                                                                            \
    X(MESSAGE_SEQ)                                                                                 \
    X(MESSAGE_QUEUED)                                                                              \
    X(MESSAGE_SIZE)                                                                                \
    X(MESSAGE_RTS_SIZE)                                                                            \
    X(MESSAGE_MORE)                                                                                \
    X(MESSAGE_BYTES)                                                                               \
    X(MORE_SIZE)                                                                                   \
    /* of an address */                                                                            \
    X(ADDRESS_BYTES)                                                                               \
    X(ADDRESS_SKIP)     /* skipped by inspect_address_name() */                                        \
    /* values */                                                                                   \
    X(VALUE_QUEUED)     /* of REQUEST_QUEUED */                                                    \
    X(VALUE_LONG)       /* of MESSAGE_SIZE */                                                      \
    X(VALUE_RTS)        /* of MESSAGE_SIZE */                                                      \
    X(VALUE_DEFERRED)   /* of REQUEST_STATE */                                                     \
    X(VALUE_SYNC)       /* of REQUEST_FLAGS */                                                     \
    X(VALUE_INTERNAL)   /* of REQUEST_FLAGS */
/* clang-format on */

enum inspect_field {
#define INSPECT_FIELD(name) INSPECT_##name,
    INSPECT_FIELD_LIST(INSPECT_FIELD)
#undef INSPECT_FIELD
        INSPECT_FIELDS
};

#define INSPECT_FIELD_TEXT 20

/* The layout, decoded for this build. */
struct inspect_map {
    uint64_t endpoints;               /* the address of the address of the first endpoint */
    uint8_t kinds[256];               /* of a request, by its state: enum inspect_kind */
    uint32_t offsets[INSPECT_FIELDS]; /* by enum inspect_field */
};

/* The layout in the memory of a process, under the symbol mbx_see_root; addresses have 64 bits
 * and the byte order of the machine.  A reader copies and decodes it with
 * inspect_map_read(). */
struct inspect_root {
    char magic[8];
    uint32_t version, fields; /* INSPECT_VERSION; the number of fields that follow */
    const void *endpoints;
    uint8_t kinds[256];
    struct {
        char name[INSPECT_FIELD_TEXT];
        uint32_t value;
    } at[INSPECT_FIELDS];
};

static_assert(sizeof(void *) == 8, "addresses of 64 bits");
static_assert(offsetof(struct inspect_root, at) == 280, "layout of the root");
static_assert(sizeof(((struct inspect_root *)0)->at[0]) == 24, "layout of the root");

/* Copies [at, at + size) of the endpoint's process.  0, or a negative errno. */
struct inspect_source {
    int (*read)(const struct inspect_source *source, uint64_t at, void *to, size_t size);
};

/* Reads the root at this address.  0; a negative errno of the source; -EBADMSG it is not a
 * root, or one that this build does not understand. */
int inspect_map_read(const struct inspect_source *source, uint64_t root,
                     struct inspect_map *map);

/* The entries of the endpoint at address ep: the first `capacity` ones, *stored of them, and
 * counts[kind] of all.  0; a negative errno of the source; -EBADMSG the data is invalid. */
int inspect_walk(const struct inspect_map *map, const struct inspect_source *source,
                 uint64_t ep, struct inspect_entry *entries, uint32_t capacity,
                 uint32_t *stored, uint32_t counts[INSPECT_KINDS]);

/* Sets the age of each of these entries, if the endpoint knows it; now_ns is the time of its
 * machine, 0: the time of its last check.  0; as inspect_walk(). */
int inspect_walk_ages(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint64_t now_ns, struct inspect_entry *entries,
                      uint32_t count);

/* 0; as inspect_walk(). */
int inspect_walk_pulse(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, struct inspect_pulse *pulse);

/* The names that the program has set, in the format of a page: lines `context ID SIZE NAME`,
 * and `peer NUMBER RANK` for the peers of these entries, while there is space.  Returns the
 * length, at most size - 1; a negative errno as in inspect_walk(). */
int inspect_walk_names(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, const struct inspect_entry *entries, uint32_t count,
                       char *text, size_t size);

/* The rank that the program has given to a peer in the job of this endpoint; INSPECT_NOBODY: none.  0; as inspect_walk(). */
int inspect_walk_rank(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint32_t peer, uint32_t *rank);

/* The program's description of itself: INSPECT_MPI_TEXT bytes, made printable. */
int inspect_walk_program(const struct inspect_map *map, const struct inspect_source *source,
                         uint64_t ep, char text[INSPECT_MPI_TEXT]);

#define INSPECT_ENDPOINTS_MAX 1024u /* of a process */

/* The addresses of all endpoints of the process.  In corrupt memory their list may have no end:
 * each is listed once, and at most INSPECT_ENDPOINTS_MAX. 0; as inspect_walk(), and *count
 * endpoints were found before. */
int inspect_walk_endpoints(const struct inspect_map *map, const struct inspect_source *source,
                           uint64_t endpoints[INSPECT_ENDPOINTS_MAX], uint32_t *count);

#endif
