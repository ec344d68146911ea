/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.h - the queues of an endpoint, read out of its memory.
 *
 * The endpoint itself reads them so when it is asked, and an observer when the endpoint does not
 * answer, out of a core file, or in a debugger: all walk the pools of requests and of messages, by offsets that
 * struct inspect_root names, and get each byte through a function of theirs.  So all see the same, and an observer needs no
 * debug information and no library of the same build.
 */
#ifndef INSPECT_WALK_H
#define INSPECT_WALK_H

#include <stddef.h>

#include "inspect/page.h"
#include "inspect/text.h"

#define INSPECT_ROOT_MAGIC "MBXROOT"

/* Where what lies: offsets in bytes, but for those that are called BYTES.  An observer finds them by name, so
 * it reads an endpoint of another version in which they lie elsewhere, or which has others besides. */
/* clang-format off */
#define INSPECT_FIELD_LIST(X)                                                                          \
    /* of the endpoint */                                                                          \
    X(EP_REQUESTS)      /* a pool */                                                               \
    X(EP_MESSAGES)      /* a pool */                                                               \
    X(EP_ADDRESSES)                                                                                \
    X(EP_PEERS)         /* how many */                                                             \
    X(EP_EXPECTED)                                                                                 \
    X(EP_UNEXPECTED)                                                                               \
    X(EP_CANCELLED)                                                                                \
    X(EP_SENT)          /* an array */                                                             \
    X(EP_RECEIVED)      /* an array */                                                             \
    X(PROTOCOLS)        /* the length of these */                                                  \
    X(EP_PEEKED)        /* times that a probe found nothing */                                     \
    X(EP_PEEK)          /* its envelope */                                                         \
    X(EP_PEEK_IGNORE)                                                                              \
    X(EP_PROGRAM)       /* INSPECT_MPI_TEXT bytes at least */                                          \
    X(EP_PAGE)          /* the address of its page */                                              \
    X(EP_NEXT)          /* the address of the next endpoint of the process, or 0 */                \
    /* since when objects are there: of the endpoint, a note of a pool, and one place of it */     \
    X(EP_LOOKED)        /* when they were looked at last */                                        \
    X(EP_REQUEST_AGES)                                                                             \
    X(EP_MESSAGE_AGES)                                                                             \
    X(AGES_SEEN)        /* an array */                                                             \
    X(AGES_PLACES)      /* its length */                                                           \
    X(AGE_BYTES)                                                                                   \
    X(AGE_ID)                                                                                      \
    X(AGE_SINCE)        /* ns */                                                                   \
    /* what the program has named: of the endpoint, of a context id, of a peer */                  \
    X(EP_CONTEXTS)                                                                                 \
    X(EP_CONTEXT_COUNT)                                                                            \
    X(CONTEXT_BYTES)                                                                               \
    X(CONTEXT_ID)                                                                                  \
    X(CONTEXT_SIZE)                                                                                \
    X(CONTEXT_NAME)     /* INSPECT_NAME_TEXT bytes at least */                                         \
    X(EP_NAMED_PEERS)                                                                              \
    X(EP_NAMED_SLOTS)                                                                              \
    X(NAMED_BYTES)                                                                                 \
    X(NAMED_JOB)                                                                                   \
    X(NAMED_RANK)                                                                                  \
    X(NAMED_CHANGE)     /* 0: it was not named */                                                  \
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
    X(ADDRESS_SKIP)     /* what inspect_address_name() skips */                                        \
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

/* The layout in the words of this build. */
struct inspect_map {
    uint64_t endpoints;               /* the address of the address of the first endpoint */
    uint8_t kinds[256];               /* of a request, by its state: enum inspect_kind */
    uint32_t offsets[INSPECT_FIELDS]; /* by enum inspect_field */
};

/* The layout as a process has it, under the symbol mbx_see_root; addresses of 64 bits, in the byte order of the
 * machine.  Whoever reads it copies it, and takes it apart with inspect_map_read(). */
struct inspect_root {
    char magic[8];
    uint32_t version, fields; /* INSPECT_VERSION; how many follow */
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

/* Reads the root at this address.  0; a negative errno of the source; -EBADMSG it is none, or not one of which this
 * build knows what it means. */
int inspect_map_read(const struct inspect_source *source, uint64_t root,
                     struct inspect_map *map);

/* The entries of the endpoint at address ep: the first `capacity` ones, *stored, and of all of them
 * counts[kind].  0; a negative errno of the source; -EBADMSG what is there makes no sense. */
int inspect_walk(const struct inspect_map *map, const struct inspect_source *source,
                 uint64_t ep, struct inspect_entry *entries, uint32_t capacity,
                 uint32_t *stored, uint32_t counts[INSPECT_KINDS]);

/* Fills in for how long each of these entries has been there, as far as the endpoint knows it; now_ns is the time of its machine,
 * 0: the last time at which it looked.  0; as inspect_walk(). */
int inspect_walk_ages(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint64_t now_ns, struct inspect_entry *entries,
                      uint32_t count);

/* 0; as inspect_walk(). */
int inspect_walk_pulse(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, struct inspect_pulse *pulse);

/* What the program has named, in the words of a page: lines `context ID SIZE NAME`, and `peer NUMBER RANK` of the peers
 * that these entries have, as far as there is space.  How long it is, at most size - 1; a negative errno as of
 * inspect_walk(). */
int inspect_walk_names(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, const struct inspect_entry *entries, uint32_t count,
                       char *text, size_t size);

/* The rank that the program has given to a peer in the job of this endpoint; INSPECT_NOBODY: none.  0; as inspect_walk(). */
int inspect_walk_rank(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint32_t peer, uint32_t *rank);

/* What the program has said of itself: INSPECT_MPI_TEXT bytes, what is not to be printed replaced. */
int inspect_walk_program(const struct inspect_map *map, const struct inspect_source *source,
                         uint64_t ep, char text[INSPECT_MPI_TEXT]);

#define INSPECT_ENDPOINTS_MAX 1024u /* of a process */

/* The addresses of all endpoints of the process.  In memory that is damaged their list may have no
 * end: each is named once, and no more than INSPECT_ENDPOINTS_MAX.
 * 0; as inspect_walk(), and *count endpoints were found before. */
int inspect_walk_endpoints(const struct inspect_map *map, const struct inspect_source *source,
                           uint64_t endpoints[INSPECT_ENDPOINTS_MAX], uint32_t *count);

#endif
