/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - checks and decodes packets.
 *
 * wire_check() is the border: after it, header and body are the receiver's own copy and have a
 * form that wire.h allows.  It checks three things, in this order, each in the copy:
 *
 *   header    known version, known type, flags of that type, zeroes where wire.h
 *             says 0                                             (check_header)
 *   length    header and body are complete
 *   body      the numbers in it agree with each other and with the length of the
 *             payload                                            (check_body)
 *
 * A range that ends beyond 2^64 is refused, so offset + size never wraps after the border.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

/* For each type: does it have an envelope, may it have payload, and which flags may it have? */
static const struct {
    bool has_envelope, has_payload;
    uint16_t flags;
} shapes[WIRE_TYPES] = {
    [WIRE_EAGER] = {true, true, WIRE_IN_BUFFER},
    [WIRE_SYNC] = {true, true, 0},
    [WIRE_FIRST] = {true, true, WIRE_WANTS_FIN},
    [WIRE_MORE] = {false, true, WIRE_IN_BUFFER},
    [WIRE_RTS] = {true, true, WIRE_SHORT_OF},
    [WIRE_CTS] = {false, false, 0},
    [WIRE_DATA] = {false, true, WIRE_BROKEN | WIRE_IN_BUFFER},
    [WIRE_FIN] = {false, false, WIRE_WITHDRAWN},
    [WIRE_CREDIT] = {false, false, 0},
    [WIRE_DEFER] = {false, false, 0},
    [WIRE_RTR] = {true, false, WIRE_ANY_SOURCE | WIRE_CAPACITY_USED},
    [WIRE_CLAIM] = {true, true, WIRE_WON},
    [WIRE_RETIRE] = {false, false, WIRE_WON},
    [WIRE_PEEK] = {true, false, WIRE_ANY_SOURCE},
    [WIRE_PEEKED] = {true, false, 0},
    [WIRE_PUT] = {true, true, WIRE_HAS_DATA},
    [WIRE_GET] = {false, false, 0},
    [WIRE_ATOMIC] = {false, true, 0},
    [WIRE_ANSWER] = {false, true, WIRE_LAST | WIRE_PULL},
    [WIRE_PUSH] = {false, true, 0},
    [WIRE_ADVERTISE] = {true, false, 0},
    [WIRE_WRITE] = {true, false, WIRE_STOPPED},
    [WIRE_WRITTEN] = {false, false, WIRE_STOPPED},
    [WIRE_SPLIT_COPY] = {false, false, 0},
    [WIRE_WITHDRAW] = {false, false, 0},
};

static const char *const names[WIRE_TYPES] = {
    [WIRE_EAGER] = "eager",       [WIRE_SYNC] = "sync",       [WIRE_FIRST] = "first",
    [WIRE_MORE] = "more",         [WIRE_RTS] = "rts",         [WIRE_CTS] = "cts",
    [WIRE_DATA] = "data",         [WIRE_FIN] = "fin",         [WIRE_CREDIT] = "credit",
    [WIRE_DEFER] = "defer",       [WIRE_RTR] = "rtr",         [WIRE_CLAIM] = "claim",
    [WIRE_RETIRE] = "retire",     [WIRE_PEEK] = "peek",       [WIRE_PEEKED] = "peeked",
    [WIRE_PUT] = "put",           [WIRE_GET] = "get",         [WIRE_ATOMIC] = "atomic",
    [WIRE_ANSWER] = "answer",     [WIRE_PUSH] = "push",       [WIRE_ADVERTISE] = "announce",
    [WIRE_WRITE] = "write",       [WIRE_WRITTEN] = "written", [WIRE_SPLIT_COPY] = "split_copy",
    [WIRE_WITHDRAW] = "withdraw",
};

const char *wire_type_name(unsigned type)
{
    return type < WIRE_TYPES ? names[type] : NULL;
}

static bool range_wraps(uint64_t offset, uint64_t size)
{
    return offset + size < offset;
}

/* The error in the header, or NULL. */
static const char *check_header(const struct wire_header *h)
{
    if (unlikely(h->version != WIRE_VERSION))
        return "unknown wire version";
    if (unlikely(h->type == 0 || h->type >= WIRE_TYPES))
        return "unknown packet type";
    if (unlikely((h->flags & ~shapes[h->type].flags) != 0))
        return "unknown packet flags";
    if (unlikely(h->zero != 0))
        return "header field zero is not 0";
    if (unlikely(!shapes[h->type].has_envelope && (h->tag | h->data | h->context_id) != 0))
        return "envelope in a packet that has none";
    return NULL;
}

static const char *check_first(const struct wire_packet *p)
{
    const struct wire_first *first = &p->body.first;

    if ((p->header.flags & WIRE_WANTS_FIN) == 0 && first->sender != 0)
        return "sender in a first fragment that wants no FIN";
    if (p->payload_size == 0)
        return "empty fragment";
    if (p->payload_size >= first->size)
        return "first fragment not shorter than its message";
    return NULL;
}

static const char *check_fragment(uint64_t offset, size_t payload_size)
{
    if (payload_size == 0)
        return "empty fragment";
    return range_wraps(offset, payload_size) ? "range of a fragment wraps" : NULL;
}

static const char *check_data(const struct wire_packet *p)
{
    if (!(p->header.flags & WIRE_BROKEN))
        return check_fragment(p->body.data.offset, p->payload_size);
    return p->payload_size != 0 ? "data of a message that is broken" : NULL;
}

static const char *check_put(const struct wire_packet *p)
{
    const struct wire_range *range = &p->body.range;

    if (p->header.tag != 0 || p->header.context_id != 0)
        return "envelope in a packet that has none";
    if (!(p->header.flags & WIRE_HAS_DATA) && p->header.data != 0)
        return "data in a put that has none";
    if (p->payload_size != 0 && p->payload_size != range->size)
        return "payload is not the data of the write";
    return range_wraps(range->at, range->size) ? "range of a put wraps" : NULL;
}

static const char *check_atomic(const struct wire_packet *p)
{
    const struct wire_atomic *atomic = &p->body.atomic;

    if (atomic->what & ~(WIRE_ATOMIC_OP | WIRE_ATOMIC_TYPE | WIRE_ATOMIC_FETCH))
        return "unknown bits in an atomic";
    return atomic->count == 0 ? "atomic of nothing" : NULL;
}

static const char *check_answer(const struct wire_packet *p)
{
    const struct wire_answer *answer = &p->body.answer;

    if (answer->error >= WIRE_ERROR_MAX)
        return "unknown error in an answer";
    if ((p->header.flags & WIRE_PULL) &&
        ((p->header.flags & WIRE_LAST) || answer->error != 0 || p->payload_size != 0))
        return "an answer that asks for a push has other contents";
    if (answer->error != 0 && (p->payload_size != 0 || !(p->header.flags & WIRE_LAST)))
        return "an error with bytes, or not the last answer";
    if (p->header.flags == 0 && p->payload_size == 0)
        return "empty fragment";
    return range_wraps(answer->offset, p->payload_size) ? "range of an answer wraps" : NULL;
}

static const char *check_advertise(const struct wire_advertise *announce)
{
    if (announce->word == 0)
        return "an advertised receive without a word";
    if (announce->size == 0)
        return "an advertised receive without space";
    if (announce->from == 0 || announce->from > announce->number)
        return "an advertised receive after itself";
    if (announce->credit >> 62 != 0)
        return "more credit than there can be";
    return range_wraps(announce->address, announce->size)
               ? "buffer of an advertised receive wraps"
               : NULL;
}

/* The address of the rest is allowed only if the rest has to be read. */
static const char *check_write(const struct wire_packet *p, uint64_t address, uint64_t key)
{
    bool is_stopped = (p->header.flags & WIRE_STOPPED) != 0;

    return !is_stopped && (address | key) != 0 ? "where the data lies, of one that is written"
                                               : NULL;
}

static const char *check_split_copy(const struct wire_split_copy *split_copy)
{
    if (split_copy->word == 0)
        return "a part without a word";
    if (split_copy->size == 0)
        return "an empty part";
    if (range_wraps(split_copy->offset, split_copy->size))
        return "range of a part wraps";
    return range_wraps(split_copy->address, split_copy->size) ? "buffer of a part wraps" : NULL;
}

/* The payload of p names a bounce buffer: replaces it with the contents. */
static const char *take_buffer(struct wire_packet *p)
{
    struct wire_buffer in;

    if (p->payload_size != sizeof in)
        return "payload is not the name of a bounce buffer";
    memcpy(&in, p->payload, sizeof in);
    if (in.size == 0)
        return "an empty bounce buffer";
    if (in.size > WIRE_EAGER_MAX)
        return "a bounce buffer with more than an eager message";
    p->buffer = in.buffer;
    p->payload = NULL;
    p->payload_size = in.size;
    return NULL;
}

/* The error in body and payload, or NULL. */
static const char *check_body(const struct wire_packet *p)
{
    if (!shapes[p->header.type].has_payload && p->payload_size != 0)
        return "payload in a packet that has none";
    switch ((enum wire_type)p->header.type) {
    case WIRE_EAGER:
    case WIRE_SYNC:
    case WIRE_FIN:
    case WIRE_RTR:
    case WIRE_PEEK:
    case WIRE_PEEKED:
    case WIRE_TYPES:
        return NULL;
    case WIRE_FIRST:
        return check_first(p);
    case WIRE_MORE:
        return check_fragment(p->body.more.offset, p->payload_size);
    case WIRE_DATA:
        return check_data(p);
    case WIRE_RTS:
        return p->payload_size > p->body.rts.size ? "more RTS payload than message" : NULL;
    case WIRE_CLAIM:
        return p->payload_size > p->body.claim.size ? "more RTS payload than message" : NULL;
    case WIRE_RETIRE:
        return (p->header.flags & WIRE_WON) && p->body.retire.sender == 0 ? "no message has won"
                                                                          : NULL;
    case WIRE_CTS:
        return range_wraps(p->body.cts.offset, p->body.cts.size) ? "range of a cts wraps"
                                                                 : NULL;
    case WIRE_PUT:
        return check_put(p);
    case WIRE_GET:
        return range_wraps(p->body.range.at, p->body.range.size) ? "range of a get wraps"
                                                                 : NULL;
    case WIRE_ATOMIC:
        return check_atomic(p);
    case WIRE_ANSWER:
        return check_answer(p);
    case WIRE_PUSH:
        return check_fragment(p->body.push.offset, p->payload_size);
    case WIRE_CREDIT:
        return (p->body.credit.envelopes | p->body.credit.payload) >> 62 != 0
                   ? "more credit than there can be"
                   : NULL;
    case WIRE_DEFER:
        return p->body.defer.epoch != 0 && p->body.defer.capacity == 0
                   ? "no space for a single rtr"
                   : NULL;
    case WIRE_ADVERTISE:
        return check_advertise(&p->body.announce);
    case WIRE_WRITE:
        if (p->body.write.done > p->body.write.size)
            return "more written than message";
        return check_write(p, p->body.write.address, p->body.write.key);
    case WIRE_WRITTEN:
        return check_write(p, p->body.written.address, p->body.written.key);
    case WIRE_SPLIT_COPY:
        return check_split_copy(&p->body.split_copy);
    case WIRE_WITHDRAW:
        return p->body.withdraw.sender == 0 ? "no message is wanted back" : NULL;
    }
    return NULL;
}

static int wire_refuse(const char **reason, const char *why)
{
    *reason = why;
    return -EPROTO;
}

int wire_check(const void *bytes, size_t size, struct wire_packet *packet, const char **reason)
{
    struct wire_packet p;
    const char *why;
    size_t body_size;

    if (unlikely(size < sizeof p.header))
        return wire_refuse(reason, "shorter than a header");
    memcpy(&p.header, bytes, sizeof p.header);
    why = check_header(&p.header);
    if (unlikely(why != NULL))
        return wire_refuse(reason, why);

    body_size = wire_body_size(p.header.type);
    if (unlikely(size - sizeof p.header < body_size))
        return wire_refuse(reason, "shorter than its body");
    p.payload = (const char *)bytes + sizeof p.header + body_size;
    p.payload_size = size - sizeof p.header - body_size;
    p.buffer = 0;
    if (p.header.flags & WIRE_IN_BUFFER) {
        why = take_buffer(&p);
        if (unlikely(why != NULL))
            return wire_refuse(reason, why);
    }
    if (p.header.type != WIRE_EAGER) {
        memcpy(&p.body, (const char *)bytes + sizeof p.header, body_size);
        why = check_body(&p);
        if (unlikely(why != NULL))
            return wire_refuse(reason, why);
    }
    *packet = p;
    return 0;
}
