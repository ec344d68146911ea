/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_packets.c - the packets that the byzantine endpoint sends.
 *
 * A packet is made in one of three ways:
 *
 *   bytes       arbitrary; only wire_check() sees most of them
 *   a shape     a type, an envelope, and for each word of the body a plausible value, from
 *               packets that the byzantine endpoint has received and its knowledge of the victim
 *   an answer   a packet that a correct endpoint could send next in answer to one of the last
 *               received packets, or to continue a long transfer
 *
 * The latter two may be mutated: one field is changed.  All payload is BYZANTINE_BYTE, so these
 * bytes are recognised wherever they turn up.
 */
#include "fuzz/byzantine.h"

#include "advert/advert.h"
#include "defer/backlog.h"

/* The meaning of a word in a body. */
enum field {
    NOTHING,
    OURS,     /* a request of the byzantine endpoint */
    SEND,     /* a request of the victim: named with a message */
    RECV,     /* ... with a receive */
    ACCESS,   /* ... with an access; or any request of the victim's user */
    QUESTION, /* of a probe by the victim */
    ASKED,    /* of a probe by the byzantine endpoint */
    EPOCH,    /* of the byzantine endpoint's DEFER */
    THEIRS,   /* of the victim's DEFER */
    NUMBER,   /* of a receive of the byzantine endpoint: increasing */
    WORD,
    AS,
    SIZE,    /* of a message, in the following bytes */
    PART,    /* an offset, or the completed part */
    ADDRESS, /* of memory that the victim must read */
    KEY,
    INBOX, /* or write */
    INBOX_KEY,
    COUNT,
    CREDIT, /* that the victim has at the byzantine endpoint */
    TABLE,
    REGION,
    AT,
    WHAT, /* of an atomic, with its count */
    ERROR
};

static const struct {
    bool has_envelope, has_payload;
    uint16_t flags;
    enum field body[BODY_MOST];
} shapes[WIRE_TYPES] = {
    [WIRE_EAGER] = {true, true, WIRE_IN_BUFFER, {NOTHING}},
    [WIRE_SYNC] = {true, true, 0, {OURS}},
    [WIRE_FIRST] = {true, true, WIRE_WANTS_FIN, {OURS, SIZE}},
    [WIRE_MORE] = {false, true, WIRE_IN_BUFFER, {PART}},
    [WIRE_RTS] = {true, true, WIRE_SHORT_OF, {OURS, SIZE, ADDRESS, KEY}},
    [WIRE_CTS] = {false, false, 0, {SEND, OURS, PART, SIZE}},
    [WIRE_DATA] = {false, true, WIRE_IN_BUFFER, {RECV, PART}},
    [WIRE_FIN] = {false, false, WIRE_WITHDRAWN, {SEND}},
    [WIRE_CREDIT] = {false, false, 0, {COUNT, SIZE}},
    [WIRE_DEFER] = {false, false, 0, {EPOCH, COUNT, NUMBER, TABLE}},
    [WIRE_RTR] = {true,
                  false,
                  WIRE_ANY_SOURCE | WIRE_CAPACITY_USED,
                  {OURS, THEIRS, NUMBER, WORD, AS}},
    [WIRE_CLAIM] = {true, true, WIRE_WON, {OURS, RECV, SIZE, ADDRESS, KEY}},
    [WIRE_RETIRE] = {false, false, WIRE_WON, {OURS, SEND}},
    [WIRE_PEEK] = {true, false, WIRE_ANY_SOURCE, {ASKED}},
    [WIRE_PEEKED] = {true, false, 0, {QUESTION, OURS, SIZE, ADDRESS, KEY}},
    [WIRE_PUT] = {false, true, WIRE_HAS_DATA, {OURS, REGION, AT, SIZE, ADDRESS, KEY}},
    [WIRE_GET] = {false, false, 0, {OURS, REGION, AT, SIZE, INBOX, INBOX_KEY}},
    [WIRE_ATOMIC] = {false, true, 0, {OURS, REGION, AT, WHAT}},
    [WIRE_ANSWER] = {false, true, WIRE_LAST, {ACCESS, ERROR, PART}},
    [WIRE_PUSH] = {false, true, 0, {OURS, PART}},
    [WIRE_ADVERTISE] = {true,
                        false,
                        0,
                        {OURS, NUMBER, NUMBER, CREDIT, WORD, AS, SIZE, INBOX, INBOX_KEY}},
    [WIRE_WRITE] = {true, false, WIRE_STOPPED, {RECV, OURS, SIZE, PART, ADDRESS, KEY}},
    [WIRE_WRITTEN] = {false, false, WIRE_STOPPED, {RECV, PART, ADDRESS, KEY}},
    [WIRE_SPLIT_COPY] = {false, false, 0, {SEND, OURS, PART, SIZE, WORD, AS, INBOX, INBOX_KEY}},
    [WIRE_WITHDRAW] = {false, false, 0, {OURS}},
};

/* ---- numbers ---- */

static uint64_t take_length(struct input *in)
{
    static const uint64_t lengths[] = {0,   1,    8,    24,    25,    100,      400,      480,
                                       600, 5000, 9000, 20000, 20001, 1u << 20, 1u << 30, 0};

    return lengths[take(in) % ARRAY_COUNT(lengths)];
}

uint64_t take_number(struct input *in)
{
    uint8_t what = take(in);
    uint64_t number = what & 1 ? take_length(in) : take(in);

    return what & 2 ? number << what % 64 : what & 4 ? UINT64_MAX - number : number;
}

/* The word `index` of the last received packet of this type; 0: there is none. */
static uint64_t last_word(const struct byzantine *byzantine, enum wire_type type, size_t index)
{
    const struct forged *forged = byzantine_last(byzantine, type);

    return forged != NULL ? forged->body[index] : 0;
}

static uint64_t pick(const struct byzantine *byzantine, uint8_t what,
                     const enum wire_type *types, const size_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = (what + i) % count;
        uint64_t number = last_word(byzantine, types[k], words[k]);

        if (number != 0)
            return number;
    }
    return user_request(byzantine->victim, what);
}

static uint64_t pick_send(const struct byzantine *byzantine, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_RTS,   WIRE_SYNC,   WIRE_FIRST,
                                           WIRE_CLAIM, WIRE_PEEKED, WIRE_WRITE};
    static const size_t words[] = {0, 0, 0, 0, 1, 1};

    return pick(byzantine, what, types, words, ARRAY_COUNT(types));
}

static uint64_t pick_recv(const struct byzantine *byzantine, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_CTS, WIRE_RTR, WIRE_ADVERTISE};
    static const size_t words[] = {1, 0, 0};

    return pick(byzantine, what, types, words, ARRAY_COUNT(types));
}

static uint64_t pick_access(const struct byzantine *byzantine, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_PUT, WIRE_GET, WIRE_ATOMIC};
    static const size_t words[] = {0, 0, 0};

    return pick(byzantine, what, types, words, ARRAY_COUNT(types));
}

/* The credit that the victim has at the byzantine endpoint; ADVERTISE must contain it. */
static uint64_t credit_of_victim(const struct byzantine *byzantine)
{
    const struct peer *peer = peer_get(byzantine->victim->ep, BYZANTINE);

    return peer_credit(peer)->envelopes + (peer->advert != NULL ? peer->advert->envelopes : 0);
}

/* A value for a field: a plausible one, if the byzantine endpoint knows one. */
static uint64_t take_field(struct byzantine *byzantine, struct input *in, enum field field)
{
    uint8_t what = take(in);

    switch (field) {
    case OURS:
        return what < 64 ? byzantine->request : ++byzantine->request;
    case SEND:
        return pick_send(byzantine, what);
    case RECV:
        return pick_recv(byzantine, what);
    case ACCESS:
        return pick_access(byzantine, what);
    case QUESTION:
        return last_word(byzantine, WIRE_PEEK, 0);
    case ASKED:
        return ++byzantine->question;
    case EPOCH:
        return what < 16 ? 0 : ++byzantine->epoch;
    case THEIRS:
        return last_word(byzantine, WIRE_DEFER, 0);
    case NUMBER:
        return what < 32 ? what & 7 : ++byzantine->number;
    case WORD:
        return what & 7 ? (uint64_t)(what >> 4) << 32 | (what & 7) : 0;
    case AS:
        return what & 3;
    case SIZE:
        return take_length(in);
    case PART:
        return what < 128 ? 0 : take_length(in);
    case ADDRESS:
        return what < 160 ? byzantine->address + (what & 15) : what < 200 ? 0 : take_number(in);
    case KEY:
        return what < 200 ? byzantine->key : take_number(in);
    case INBOX:
        return what < 160   ? byzantine->inbox_address + (what & 15)
               : what < 200 ? 0
                            : take_number(in);
    case INBOX_KEY:
        return what < 200 ? byzantine->inbox_key : byzantine->inbox_key + what;
    case COUNT:
        return what & 15;
    case CREDIT:
        return credit_of_victim(byzantine);
    case TABLE:
        return what < 160 ? BYZANTINE_TABLE : take_number(in);
    case REGION:
        return REGION_KEY;
    case AT:
        return what;
    case WHAT: /* an operation on 64 bits */
        return (what & 31) % MBX_OPS | MBX_UINT64 << 8 | (what & 32 ? WIRE_ATOMIC_FETCH : 0u) |
               (uint64_t)(1 + (what >> 6)) << 32;
    case ERROR:
        return what < 200 ? 0 : what & 31;
    case NOTHING:
        break;
    }
    return 0;
}

/* ---- packets ---- */

static size_t words_of(const struct forged *forged)
{
    return wire_body_size(forged->header.type) / sizeof forged->body[0];
}

static void send_forged(struct byzantine *byzantine, const struct forged *forged)
{
    unsigned char packet[FORGED_MAX];
    size_t body_size = wire_body_size(forged->header.type);
    size_t size = sizeof forged->header + body_size;
    size_t payload = min_size(forged->payload_size, sizeof packet - size);

    memcpy(packet, &forged->header, sizeof forged->header);
    memcpy(packet + sizeof forged->header, forged->body, body_size);
    memset(packet + size, BYZANTINE_BYTE, payload);
    if ((forged->header.flags & WIRE_IN_BUFFER) && payload == sizeof forged->buffer)
        memcpy(packet + size, &forged->buffer, payload);
    byzantine_deliver(byzantine, packet,
                      size + payload - min_size(forged->cut, size + payload));
}

/* Changes one field. */
static void mutate(struct forged *forged, struct input *in)
{
    uint8_t what = take(in);
    size_t words = words_of(forged);

    switch (what & 7) {
    case 0:
        forged->header.flags ^= (uint16_t)(1u << take(in) % 12);
        break;
    case 1:
        if (what & 128)
            forged->header.zero = 1;
        else
            forged->header.tag ^= 1;
        break;
    case 2:
        forged->payload_size += 1 + (what >> 3);
        break;
    case 3:
        if (what & 128)
            forged->cut = 1 + (what >> 3);
        else
            forged->payload_size = 0;
        break;
    case 4:
        if (words != 0)
            forged->body[(what >> 3) % words] += 1;
        break;
    case 5:
        if (words != 0)
            forged->body[(what >> 3) % words] ^= UINT64_C(1) << take(in) % 64;
        break;
    default:
        if (words != 0)
            forged->body[(what >> 3) % words] = take_number(in);
        break;
    }
}

static size_t max_payload(const struct forged *forged)
{
    return FORGED_MAX - sizeof forged->header - wire_body_size(forged->header.type);
}

static struct forged forged_of(enum wire_type type)
{
    return (struct forged){.header = {.type = (uint8_t)type, .version = WIRE_VERSION}};
}

/* Makes payload and sizes agree. */
static void make_consistent(struct forged *forged)
{
    size_t element = 8;

    switch ((int)forged->header.type) {
    case WIRE_FIRST:
        if (!(forged->header.flags & WIRE_WANTS_FIN))
            forged->body[0] = 0;
        forged->payload_size = forged->payload_size != 0 ? forged->payload_size : 1;
        if (forged->body[1] <= forged->payload_size)
            forged->body[1] = forged->payload_size + 1;
        break;
    case WIRE_RTS:
        forged->payload_size = min_size(forged->payload_size, forged->body[1]);
        break;
    case WIRE_CLAIM:
        forged->payload_size = min_size(forged->payload_size, forged->body[2]);
        break;
    case WIRE_PUT:
        if (forged->payload_size != 0)
            forged->body[3] = forged->payload_size;
        break;
    case WIRE_ATOMIC:
        if ((forged->body[3] & WIRE_ATOMIC_OP) == MBX_ATOMIC_READ)
            element = 0;
        else if ((forged->body[3] & WIRE_ATOMIC_OP) >= MBX_CSWAP)
            element = 16;
        forged->payload_size = (forged->body[3] >> 32) * element;
        break;
    default:
        break;
    }
}

void byzantine_send_shaped(struct byzantine *byzantine, struct input *in)
{
    uint8_t kind = take(in), what = take(in);
    struct forged forged = forged_of((enum wire_type)(1 + kind % (WIRE_TYPES - 1)));
    enum wire_type type = (enum wire_type)forged.header.type;

    if (shapes[type].has_envelope) {
        forged.header.context_id = what & 1;
        forged.header.tag = what >> 1 & 3;
    }
    if (type == WIRE_RTR || type == WIRE_PEEK || type == WIRE_ADVERTISE)
        forged.header.data = what & 8 ? MBX_IGNORE_ALL : what >> 4 & 3;
    forged.header.flags = what & 64 ? shapes[type].flags : 0;
    for (size_t i = 0; i < words_of(&forged); i++)
        forged.body[i] = take_field(byzantine, in, shapes[type].body[i]);
    if (shapes[type].has_payload)
        forged.payload_size = min_size(take_length(in), max_payload(&forged));
    if (forged.header.flags & WIRE_IN_BUFFER) {
        forged.buffer = (struct wire_buffer){take_field(byzantine, in, COUNT),
                                             take_field(byzantine, in, SIZE)};
        forged.payload_size = sizeof forged.buffer;
    }
    if (!(what & 128))
        make_consistent(&forged);
    else
        mutate(&forged, in);
    if (type == WIRE_FIRST)
        byzantine->more =
            (struct stream){0, forged.payload_size, forged.body[1] - forged.payload_size};
    if (type == WIRE_PUT)
        byzantine->push = (struct stream){forged.body[0], 0, forged.body[3]};
    send_forged(byzantine, &forged);
}

void byzantine_send_bytes(struct byzantine *byzantine, struct input *in)
{
    unsigned char packet[RAW_MOST];
    size_t size = take(in) % (RAW_MOST + 1);

    for (size_t i = 0; i < size; i++)
        packet[i] = take(in);
    byzantine_deliver(byzantine, packet, size);
}

/* ---- answers ---- */

/* Makes the next part of a long transfer.  False: nothing is left of it. */
static bool go_on(struct forged *forged, enum wire_type type, struct stream *stream)
{
    size_t offset_word = type == WIRE_MORE ? 0 : type == WIRE_ANSWER ? 2 : 1;

    if (stream->left == 0)
        return false;
    *forged = forged_of(type);
    forged->body[0] = stream->id;
    forged->body[offset_word] = stream->at;
    forged->payload_size = min_size(stream->left, max_payload(forged));
    stream->at += forged->payload_size;
    stream->left -= forged->payload_size;
    if (type == WIRE_ANSWER && stream->left == 0)
        forged->header.flags = WIRE_LAST;
    return true;
}

/* Answers a send of the victim with FIN, CTS or RETIRE, won or lost. */
static bool answer_send(struct byzantine *byzantine, struct forged *forged, uint8_t what,
                        uint64_t send, uint64_t size)
{
    static const enum wire_type types[] = {WIRE_FIN, WIRE_CTS, WIRE_RETIRE, WIRE_RETIRE};

    *forged = forged_of(types[what & 3]);
    forged->body[0] = send;
    if (forged->header.type == WIRE_CTS) {
        forged->body[1] = ++byzantine->request;
        forged->body[3] = size;
    } else if (forged->header.type == WIRE_RETIRE) {
        forged->header.flags = what & 1 ? 0 : WIRE_WON;
        forged->body[0] = what & 4 ? byzantine->request : last_word(byzantine, WIRE_CLAIM, 1);
        forged->body[1] = send;
    }
    return true;
}

/* Answers the victim's deferred sends with RTR, PEEK, CREDIT or RETIRE. */
static bool answer_defer(struct byzantine *byzantine, struct forged *forged, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_RTR, WIRE_PEEK, WIRE_CREDIT, WIRE_RTR};

    *forged = forged_of(types[what & 3]);
    if (forged->header.type == WIRE_CREDIT) {
        forged->body[0] = what >> 2 & 7;
        forged->body[1] = UINT64_C(1) << (what >> 4);
        return true;
    }
    forged->header.context_id = what >> 2 & 1;
    forged->header.tag = what >> 3 & 3;
    forged->header.data = what & 32 ? MBX_IGNORE_ALL : 0;
    if (forged->header.type == WIRE_PEEK) {
        forged->body[0] = ++byzantine->question;
        return true;
    }
    forged->header.flags = what & 64 ? WIRE_CAPACITY_USED : 0;
    forged->body[0] = ++byzantine->request;
    forged->body[1] = last_word(byzantine, WIRE_DEFER, 0);
    forged->body[2] = ++byzantine->number;
    return true;
}

/* Makes a message for a receive that an RTR or ADVERTISE has named. */
static bool answer_recv(struct byzantine *byzantine, struct forged *forged, uint8_t what,
                        const struct forged *rtr)
{
    static const uint64_t sizes[] = {0, 8, 300, 5000};
    bool is_early = rtr->header.type == WIRE_ADVERTISE;
    uint64_t size = is_early && what & 4 ? rtr->body[6] : sizes[what & 3];

    *forged = forged_of(is_early ? WIRE_WRITE : WIRE_CLAIM);
    forged->header.context_id = rtr->header.context_id;
    forged->header.tag = rtr->header.tag;
    if (is_early) {
        forged->header.flags = what & 8 ? WIRE_STOPPED : 0;
        forged->body[0] = rtr->body[0];
        forged->body[1] = ++byzantine->request;
        forged->body[2] = size;
        forged->body[3] = what & 16 ? size : size / 2;
        forged->body[4] = what & 8 ? byzantine->address : 0;
        forged->body[5] = what & 8 ? byzantine->key : 0;
        return true;
    }
    forged->header.flags = what & 64 ? WIRE_WON : 0;
    forged->body[0] = ++byzantine->request;
    forged->body[1] = rtr->body[0];
    forged->body[2] = size;
    forged->body[3] = byzantine->address;
    forged->body[4] = byzantine->key;
    forged->payload_size = min_size(size, what & 32 ? 0 : max_payload(forged));
    return true;
}

/* Ends a WRITE that was begun. */
static bool answer_write(struct forged *forged, uint8_t what, const struct forged *announce)
{
    *forged = forged_of(WIRE_WRITTEN);
    forged->body[0] = announce->body[0];
    forged->body[1] = what & 1 ? announce->body[6] : announce->body[6] / 2 + (what >> 4);
    forged->header.flags = what & 2 ? WIRE_STOPPED : 0;
    return true;
}

/* A WRITTEN for the part that a SPLIT_COPY has requested, without having taken its word. */
static bool answer_split_copy(struct forged *forged, uint8_t what,
                              const struct forged *split_copy)
{
    *forged = forged_of(WIRE_WRITTEN);
    forged->body[0] = split_copy->body[1];
    forged->body[1] = split_copy->body[2] + (what & 1 ? split_copy->body[3] : what >> 4);
    forged->header.flags = what & 2 ? WIRE_STOPPED : 0;
    return true;
}

/* Answers a probe. */
static bool answer_peek(struct byzantine *byzantine, struct forged *forged, uint8_t what,
                        const struct forged *peek)
{
    *forged = forged_of(WIRE_PEEKED);
    forged->header.context_id = peek->header.context_id;
    forged->header.tag = peek->header.tag;
    forged->body[0] = peek->body[0];
    forged->body[1] = what & 1 ? ++byzantine->request : 0;
    forged->body[2] = what & 2 ? 5000 : 20;
    forged->body[3] = byzantine->address;
    forged->body[4] = byzantine->key;
    return true;
}

/* Answers an access. */
static bool answer_access(struct byzantine *byzantine, struct forged *forged, uint8_t what,
                          const struct forged *access)
{
    uint64_t size = access->body[3];

    if (access->header.type == WIRE_ATOMIC)
        size = (access->body[3] >> 32) * 8;
    if (access->header.type == WIRE_PUT && what & 1) {
        *forged = forged_of(WIRE_ANSWER);
        forged->header.flags = WIRE_PULL;
        forged->body[0] = access->body[0];
        forged->body[2] = what & 2 ? what : 0;
        return true;
    }
    if (access->header.type != WIRE_PUT && what & 4) {
        byzantine->answer = (struct stream){access->body[0], 0, size};
        return go_on(forged, WIRE_ANSWER, &byzantine->answer);
    }
    *forged = forged_of(WIRE_ANSWER);
    forged->header.flags = WIRE_LAST;
    forged->body[0] = access->body[0];
    forged->body[1] = what & 8 ? EACCES : 0;
    return true;
}

/* Makes a possible answer to a packet.  False: there is none. */
static bool answer_to(struct byzantine *byzantine, struct forged *forged, uint8_t what,
                      const struct forged *to)
{
    switch ((enum wire_type)to->header.type) {
    case WIRE_SYNC:
    case WIRE_FIRST:
        return answer_send(byzantine, forged, what & 4 ? what : 0, to->body[0], 0);
    case WIRE_RTS:
        return answer_send(byzantine, forged, what & 1, to->body[0], to->body[1]);
    case WIRE_CLAIM:
        return answer_send(byzantine, forged, what, to->body[0], to->body[2]);
    case WIRE_PEEKED:
        return answer_send(byzantine, forged, what & 4 ? what : 2, to->body[1], to->body[2]);
    case WIRE_WRITE:
        return answer_send(byzantine, forged, what & 1, to->body[1], to->body[2]);
    case WIRE_CTS:
        byzantine->data = (struct stream){to->body[1], to->body[2], to->body[3]};
        return go_on(forged, WIRE_DATA, &byzantine->data);
    case WIRE_DEFER:
        return answer_defer(byzantine, forged, what);
    case WIRE_RTR:
    case WIRE_ADVERTISE:
        if (to->header.type == WIRE_ADVERTISE && (what & 3) == 3)
            return answer_write(forged, what >> 2, to);
        return answer_recv(byzantine, forged, what, to);
    case WIRE_SPLIT_COPY:
        return answer_split_copy(forged, what, to);
    case WIRE_PEEK:
        return answer_peek(byzantine, forged, what, to);
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_ATOMIC:
        return answer_access(byzantine, forged, what, to);
    case WIRE_ANSWER:
        return go_on(forged, WIRE_PUSH, &byzantine->push);
    case WIRE_EAGER:
    case WIRE_MORE:
    case WIRE_CREDIT:
        return answer_defer(byzantine, forged, 2 | what);
    case WIRE_DATA:
    case WIRE_FIN:
    case WIRE_RETIRE:
    case WIRE_PUSH:
    case WIRE_WRITTEN:
    case WIRE_TYPES:
        break;
    case WIRE_WITHDRAW:
        *forged = forged_of(WIRE_FIN);
        forged->header.flags = what & 1 ? WIRE_WITHDRAWN : 0;
        forged->body[0] = to->body[0];
        return true;
    }
    return false;
}

/* Continues a transfer, or sends the right answer to one of the last packets. */
void byzantine_send_answer(struct byzantine *byzantine, struct input *in)
{
    uint8_t which = take(in), what = take(in);
    uint32_t count = byzantine->kept_count < KEPT ? byzantine->kept_count : KEPT;
    struct forged forged;
    bool is_made = false;

    if (which & 16) {
        static const enum wire_type types[] = {WIRE_DATA, WIRE_MORE, WIRE_ANSWER, WIRE_PUSH};
        struct stream *streams[] = {&byzantine->data, &byzantine->more, &byzantine->answer,
                                    &byzantine->push};

        for (unsigned i = 0; i < 4 && !is_made; i++)
            is_made = go_on(&forged, types[(which + i) & 3], streams[(which + i) & 3]);
    } else if (count != 0) {
        is_made =
            answer_to(byzantine, &forged, what,
                      &byzantine->kept[(byzantine->kept_count - 1 - which % count) % KEPT]);
    }
    if (!is_made)
        return;
    if (which >= 208)
        mutate(&forged, in);
    send_forged(byzantine, &forged);
}
