/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - what travels between two endpoints.
 *
 * Every packet starts with a header of 32 bytes:
 *
 *   offset size field       meaning
 *      0     4  frame       the transport's (shm: length of the record, written last)
 *      4     1  type        enum wire_type
 *      5     1  version     WIRE_VERSION
 *      6     2  flags       enum wire_flags
 *      8     8  tag         in packets with an envelope; otherwise 0
 *     16     8  data        with an envelope: the sender's options.data; in RTR, PEEK and
 *                           ADVERTISE the ignore bits; otherwise 0
 *     24     4  context_id  as tag
 *     28     4  zero        must be 0
 *
 * then, by type, a body (* has an envelope; docs/reference/wire.md has a table made from this):
 *
 *  *EAGER  -            the payload is the whole message
 *  *SYNC   sender       as EAGER, of a synchronous send: wants a FIN on match
 *  *FIRST  sender size  as EAGER or SYNC (flag), first fragment of a longer message
 *   MORE   offset       further fragments, in order, nothing to match; one message
 *                       at a time per pair
 *  *RTS    sender size address key    payload: the first bytes
 *   CTS    sender receiver offset size   send me the bytes [offset, offset + size)
 *   DATA   receiver offset            payload: bytes at offset of the message; or (flag) none,
 *                       because the sender cannot provide the rest
 *   FIN    sender                     a receive has taken the message; or (flag) the sender has
 *                       its message back, and no receive has it
 *   WITHDRAW sender                   return that message if no receive has matched it
 *
 * EAGER, MORE, DATA with the flag IN_BUFFER: the payload is {buffer, size}.  That many bytes are in
 * this bounce buffer of the sender (transport/bounce.h), which gets it back.
 *
 * and, for deferred sends (docs/internals/flow-control.md):
 *
 *   CREDIT envelopes payload          you may send so many more messages and bytes
 *   DEFER  epoch capacity from table  I defer messages: send me RTRs, at most capacity of them,
 *                                     of receives numbered after from.  epoch 0: no longer.
 *                                     table: 0, or where my table words contain some of them
 *  *RTR    receiver epoch number word owner_id
 *                                     this receive is open, and the envelope says which
 *                                     messages it accepts (flag: from any source).  word: its
 *                                     lock, or 0; owner_id: the peer number that takes it
 *  *CLAIM  sender receiver size address key   my message matches; payload: the first bytes
 *   RETIRE receiver sender            that receive is no longer open.  If sender is not 0: its
 *                                     claim is lost, or (flag) has won; receiver 0: a probe has
 *                                     taken that message
 *  *PEEK   question                   do you defer a message that such a receive would take?
 *  *PEEKED question sender size address key   yes, with its envelope; no, if sender is 0
 *
 * and to reach a region of the receiver's memory by its key (rma/rma.h):
 *
 *   PUT    sender key at size address exposed   write size bytes to at of the region.  Payload:
 *                                     all bytes, or none: they are at address, or a PUSH brings
 *                                     them.  data (flag): report this number to the owner
 *   GET    sender key at size address exposed   read these bytes; you may write them to address
 *   ATOMIC sender key at what count   payload: operands and comparison values
 *   ANSWER sender error offset        payload: bytes that were read, from offset on.  Flags: the
 *                                     last answer; or: push your bytes from offset on
 *   PUSH   sender offset              payload: bytes to be written, from offset on
 *
 * and, for advertised receives:
 *
 *  *ADVERTISE  receiver number from credit word owner_id size address key
 *                                     this receive is open.  Address: its buffer.  Word, owner_id:
 *                                     see RTR.  Credit: your envelopes if none of your packets
 *                                     is in flight.  From: the oldest open one that accepts a
 *                                     message which this one accepts as well
 *  *WRITE  receiver sender size done address key
 *                                     my message goes into it: done bytes are there.  If more
 *                                     follow, WRITTEN ends them; or (flag) none follow, and the
 *                                     rest is fetched as after an RTS
 *   WRITTEN receiver done address key
 *                                     the end: done bytes are there; flag as above
 *   SPLIT_COPY   sender receiver offset size word owner_id address key
 *                                     for a message that I read: write the bytes
 *                                     [offset, offset + size) to address.  word, owner_id: see
 *                                     RTR.  If you hold the word, WRITTEN ends it, and done
 *                                     counts bytes of the message
 *
 * sender and receiver are request numbers of that side, returned unchanged.  All
 * fields have the byte order of the machine: both sides are on one machine, or
 * the transport refuses the peer.
 *
 * Nothing here is trusted: wire_check() is the one place that looks at a packet
 * from outside and says whether its shape is right.  Request numbers and ranges
 * are checked where they are used.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VERSION 11

/* The longest eager message; one that claims to be longer is malformed. */
#define WIRE_EAGER_MAX (UINT64_C(1) << 20)

enum wire_type {
    WIRE_EAGER = 1,
    WIRE_SYNC,
    WIRE_FIRST,
    WIRE_MORE,
    WIRE_RTS,
    WIRE_CTS,
    WIRE_DATA,
    WIRE_FIN,
    WIRE_CREDIT,
    WIRE_DEFER,
    WIRE_RTR,
    WIRE_CLAIM,
    WIRE_RETIRE,
    WIRE_PEEK,
    WIRE_PEEKED,
    WIRE_PUT,
    WIRE_GET,
    WIRE_ATOMIC,
    WIRE_ANSWER,
    WIRE_PUSH,
    WIRE_ADVERTISE,
    WIRE_WRITE,
    WIRE_WRITTEN,
    WIRE_SPLIT_COPY,
    WIRE_WITHDRAW,
    WIRE_TYPES
};

enum wire_flags {
    WIRE_WANTS_FIN = 1 << 0,     /* FIRST: of a synchronous send */
    WIRE_SHORT_OF = 1 << 1,      /* RTS: it would have been eager with more payload credit */
    WIRE_ANY_SOURCE = 1 << 2,    /* RTR, PEEK: from any source */
    WIRE_CAPACITY_USED = 1 << 3, /* RTR: no other RTR comes before the next DEFER */
    WIRE_WON = 1 << 4,           /* CLAIM: it has the word of the receive; RETIRE: it has won */
    WIRE_HAS_DATA = 1 << 5,      /* PUT: the owner of the region is notified of data */
    WIRE_LAST = 1 << 6,          /* ANSWER: it is the last */
    WIRE_PULL = 1 << 7,          /* ANSWER: it requests a PUSH */
    WIRE_STOPPED = 1 << 8,       /* WRITE, WRITTEN: no more data is written */
    WIRE_BROKEN = 1 << 9,        /* DATA: without payload, and no other follows */
    WIRE_WITHDRAWN = 1 << 10,    /* FIN: the answer to a WITHDRAW */
    WIRE_IN_BUFFER = 1 << 11,    /* EAGER, MORE, DATA: the payload names a bounce buffer */
};

struct wire_header {
    uint32_t frame;
    union {
        struct {
            uint8_t type;
            uint8_t version;
            uint16_t flags;
        };
        uint32_t what; /* the three as one word, for speed */
    };
    uint64_t tag;
    uint64_t data;
    uint32_t context_id;
    uint32_t zero;
};

static_assert(offsetof(struct wire_header, type) == 4, "wire format");
static_assert(offsetof(struct wire_header, flags) == 6, "wire format");
static_assert(offsetof(struct wire_header, tag) == 8, "wire format");
static_assert(offsetof(struct wire_header, data) == 16, "wire format");
static_assert(offsetof(struct wire_header, context_id) == 24, "wire format");
static_assert(sizeof(struct wire_header) == 32, "wire format");

struct wire_sync {
    uint64_t sender;
};

struct wire_first {
    uint64_t sender; /* 0 unless WIRE_WANTS_FIN */
    uint64_t size;
};

struct wire_more {
    uint64_t offset;
};

struct wire_rts {
    uint64_t sender;
    uint64_t size;
    uint64_t address; /* of the data, for the transport's read */
    uint64_t key;
};

struct wire_cts {
    uint64_t sender;
    uint64_t receiver;
    uint64_t offset;
    uint64_t size;
};

struct wire_data {
    uint64_t receiver;
    uint64_t offset;
};

struct wire_fin {
    uint64_t sender;
};

struct wire_credit {
    uint64_t envelopes;
    uint64_t payload;
};

struct wire_defer {
    uint64_t epoch;
    uint64_t capacity;
    uint64_t from;  /* the number of an RTR, or 0 */
    uint64_t table; /* the index of the sender's table words, or 0 */
};

struct wire_rtr {
    uint64_t receiver;
    uint64_t epoch;
    uint64_t number; /* increases with each RTR */
    uint64_t word;   /* the name of a lock word, or 0 */
    uint64_t owner_id;
};

struct wire_claim {
    uint64_t sender;
    uint64_t receiver;
    uint64_t size;
    uint64_t address; /* as in an RTS */
    uint64_t key;
};

struct wire_retire {
    uint64_t receiver;
    uint64_t sender;
};

struct wire_peek {
    uint64_t question;
};

struct wire_peeked {
    uint64_t question;
    uint64_t sender;
    uint64_t size;
    uint64_t address;
    uint64_t key;
};

/* The body of PUT and GET. */
struct wire_range {
    uint64_t sender;
    uint64_t key;
    uint64_t at; /* of the first byte, as addresses of the region count */
    uint64_t size;
    uint64_t address; /* of the sender's buffer, for the transport; or 0 and 0 */
    uint64_t exposed; /* its key */
};

struct wire_atomic {
    uint64_t sender;
    uint64_t key;
    uint64_t at;
    uint32_t what; /* WIRE_ATOMIC_...; core knows operations and types */
    uint32_t count;
};

#define WIRE_ATOMIC_OP    0x000000ffu
#define WIRE_ATOMIC_TYPE  0x0000ff00u
#define WIRE_ATOMIC_FETCH 0x00010000u /* the answer contains the previous values */

struct wire_answer {
    uint64_t sender;
    uint64_t error; /* a positive errno, or 0 */
    uint64_t offset;
};

/* The errno values in an ANSWER are below this. */
#define WIRE_ERROR_MAX 4096u

struct wire_push {
    uint64_t sender;
    uint64_t offset;
};

struct wire_advertise {
    uint64_t receiver;
    uint64_t number; /* increases with each ADVERTISE */
    uint64_t from;
    uint64_t credit;
    uint64_t word; /* the name of a lock word */
    uint64_t owner_id;
    uint64_t size;
    uint64_t address; /* of the destination, for the transport's write */
    uint64_t key;
};

struct wire_write {
    uint64_t receiver;
    uint64_t sender;
    uint64_t size; /* of the message, which may be longer than the receive */
    uint64_t done;
    uint64_t address; /* as in an RTS; 0 unless WIRE_STOPPED */
    uint64_t key;
};

struct wire_written {
    uint64_t receiver;
    uint64_t done;
    uint64_t address;
    uint64_t key;
};

struct wire_split_copy {
    uint64_t sender;
    uint64_t receiver;
    uint64_t offset;
    uint64_t size;
    uint64_t word; /* the name of a lock word */
    uint64_t owner_id;
    uint64_t address; /* of the first byte, for the transport's write */
    uint64_t key;
};

/* The payload of a packet with WIRE_IN_BUFFER. */
struct wire_buffer {
    uint64_t buffer; /* the number of the buffer at the sender */
    uint64_t size;
};

struct wire_withdraw {
    uint64_t sender;
};

/* A packet decoded by wire_check(). */
struct wire_packet {
    struct wire_header header;
    union {
        struct wire_sync sync;
        struct wire_first first;
        struct wire_more more;
        struct wire_rts rts;
        struct wire_cts cts;
        struct wire_data data;
        struct wire_fin fin;
        struct wire_credit credit;
        struct wire_defer defer;
        struct wire_rtr rtr;
        struct wire_claim claim;
        struct wire_retire retire;
        struct wire_peek peek;
        struct wire_peeked peeked;
        struct wire_range range;
        struct wire_atomic atomic;
        struct wire_answer answer;
        struct wire_push push;
        struct wire_advertise announce;
        struct wire_write write;
        struct wire_written written;
        struct wire_split_copy split_copy;
        struct wire_withdraw withdraw;
    } body;
    const void *payload; /* within the caller's packet; NULL with WIRE_IN_BUFFER */
    size_t payload_size;
    uint64_t buffer; /* with WIRE_IN_BUFFER: the number of the bounce buffer, not checked */
};

/* wire_body_size - the bytes between header and payload for a type; a compile-time constant if
 * type is one.  0 for EAGER. */
static inline size_t wire_body_size(enum wire_type type)
{
    switch (type) {
    case WIRE_EAGER:
        return 0;
    case WIRE_SYNC:
        return sizeof(struct wire_sync);
    case WIRE_FIRST:
        return sizeof(struct wire_first);
    case WIRE_MORE:
        return sizeof(struct wire_more);
    case WIRE_RTS:
        return sizeof(struct wire_rts);
    case WIRE_CTS:
        return sizeof(struct wire_cts);
    case WIRE_DATA:
        return sizeof(struct wire_data);
    case WIRE_FIN:
        return sizeof(struct wire_fin);
    case WIRE_CREDIT:
        return sizeof(struct wire_credit);
    case WIRE_DEFER:
        return sizeof(struct wire_defer);
    case WIRE_RTR:
        return sizeof(struct wire_rtr);
    case WIRE_CLAIM:
        return sizeof(struct wire_claim);
    case WIRE_RETIRE:
        return sizeof(struct wire_retire);
    case WIRE_PEEK:
        return sizeof(struct wire_peek);
    case WIRE_PEEKED:
        return sizeof(struct wire_peeked);
    case WIRE_PUT:
    case WIRE_GET:
        return sizeof(struct wire_range);
    case WIRE_ATOMIC:
        return sizeof(struct wire_atomic);
    case WIRE_ANSWER:
        return sizeof(struct wire_answer);
    case WIRE_PUSH:
        return sizeof(struct wire_push);
    case WIRE_ADVERTISE:
        return sizeof(struct wire_advertise);
    case WIRE_WRITE:
        return sizeof(struct wire_write);
    case WIRE_WRITTEN:
        return sizeof(struct wire_written);
    case WIRE_SPLIT_COPY:
        return sizeof(struct wire_split_copy);
    case WIRE_WITHDRAW:
        return sizeof(struct wire_withdraw);
    case WIRE_TYPES:
        break;
    }
    return 0;
}

/* wire_what - the beginning of a packet of this type without flags, as one word. */
static inline uint32_t wire_what(enum wire_type type)
{
    return (struct wire_header){.type = (uint8_t)type, .version = WIRE_VERSION}.what;
}

/* wire_copy_header - copies everything except the frame, which belongs to the ring.
 *
 * It copies field by field, and reads each field once.  A load that is wider than the store
 * before it has to wait until that store is in the cache, and both the sender's header and the
 * copy of the receiver are used right after they were written. */
static inline void wire_copy_header(struct wire_header *to,
                                    const volatile struct wire_header *from)
{
    to->what = from->what;
    to->tag = from->tag;
    to->data = from->data;
    to->context_id = from->context_id;
    to->zero = from->zero;
}

/* wire_put_eager - writes the header of such a message, except the frame, field by field. */
static inline void wire_put_eager(volatile struct wire_header *to, uint32_t context_id,
                                  uint64_t tag, uint64_t data)
{
    to->what = wire_what(WIRE_EAGER);
    to->tag = tag;
    to->data = data;
    to->context_id = context_id;
    to->zero = 0;
}

/* wire_is_eager - the border for the most frequent packet: true if this is a well-formed EAGER,
 * and then *header is a copy of its header without the frame, and the rest is payload.
 * Otherwise wire_check() has to decide. */
static inline bool wire_is_eager(const void *bytes, size_t size, struct wire_header *header)
{
    if (size < sizeof *header)
        return false;
    wire_copy_header(header, bytes);
    return header->what == wire_what(WIRE_EAGER) && header->zero == 0;
}

/* The name of a type, as "eager"; NULL for another number. */
const char *wire_type_name(unsigned type);

/*
 * wire_check - decodes a packet of size bytes from outside.
 *
 * Copies header and body first, so the checked values are the ones that are used, even if the
 * memory is shared with the sender.
 *
 * Returns    0 and *packet; -EPROTO and *reason (constant text): too short, wrong
 *            version, unknown type or flags, fields that must be zero are not,
 *            payload where none belongs, sizes that contradict each other.
 */
int wire_check(const void *bytes, size_t size, struct wire_packet *packet, const char **reason);

#endif
