/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lies.c - what the liar says.
 *
 * A packet is made in one of three ways:
 *
 *   bytes       that only the border looks at
 *   something   a type, an envelope, and for each word of the body what belongs there, from
 *               what the liar has heard and what it knows of its victim
 *   an answer   what an honest endpoint could say next to one of the last packets that were
 *               heard, or behind something long that has begun
 *
 * The latter two may get a twist: one field is another than it should be.  All payload is
 * LIAR_BYTE, so what it has not sent is known where it turns up.
 */
#include "fuzz/liar.h"

#include "rput/rput.h"
#include "sendside/backlog.h"

/* What a word of a body is. */
enum field {
    NOTHING,
    OURS,     /* a request of the liar's */
    SEND,     /* of the victim's: that it was told with a message, */
    RECV,     /* with a receive, */
    ACCESS,   /* with an access; or any of the victim's user */
    QUESTION, /* of the victim's probe */
    ASKED,    /* of the liar's own */
    EPOCH,    /* of the liar's DEFER */
    THEIRS,   /* of the victim's DEFER */
    NUMBER,   /* of a receive of the liar's: grows */
    WORD,
    AS,
    SIZE,    /* of a message, in what follows it */
    PART,    /* an offset, or how much is done */
    ADDRESS, /* of what the victim is to read, */
    KEY,
    INBOX, /* or to write */
    INBOX_KEY,
    COUNT,
    CREDIT, /* that the victim has there */
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
    [WIRE_EAGER] = {true, true, 0, {NOTHING}},
    [WIRE_SYNC] = {true, true, 0, {OURS}},
    [WIRE_FIRST] = {true, true, WIRE_WANTS_FIN, {OURS, SIZE}},
    [WIRE_MORE] = {false, true, 0, {PART}},
    [WIRE_RTS] = {true, true, WIRE_SHORT_OF, {OURS, SIZE, ADDRESS, KEY}},
    [WIRE_CTS] = {false, false, 0, {SEND, OURS, PART, SIZE}},
    [WIRE_DATA] = {false, true, 0, {RECV, PART}},
    [WIRE_FIN] = {false, false, 0, {SEND}},
    [WIRE_CREDIT] = {false, false, 0, {COUNT, SIZE}},
    [WIRE_DEFER] = {false, false, 0, {EPOCH, COUNT, NUMBER, TABLE}},
    [WIRE_RTR] = {true,
                  false,
                  WIRE_ANY_SOURCE | WIRE_ROOM_USED,
                  {OURS, THEIRS, NUMBER, WORD, AS}},
    [WIRE_CLAIM] = {true, true, WIRE_WON, {OURS, RECV, SIZE, ADDRESS, KEY}},
    [WIRE_GRANT] = {false, false, 0, {SEND}},
    [WIRE_RETIRE] = {false, false, 0, {OURS, SEND}},
    [WIRE_PEEK] = {true, false, WIRE_ANY_SOURCE, {ASKED}},
    [WIRE_PEEKED] = {true, false, 0, {QUESTION, OURS, SIZE, ADDRESS, KEY}},
    [WIRE_PUT] = {false, true, WIRE_HAS_DATA, {OURS, REGION, AT, SIZE, ADDRESS, KEY}},
    [WIRE_GET] = {false, false, 0, {OURS, REGION, AT, SIZE, INBOX, INBOX_KEY}},
    [WIRE_ATOMIC] = {false, true, 0, {OURS, REGION, AT, WHAT}},
    [WIRE_ANSWER] = {false, true, WIRE_LAST, {ACCESS, ERROR, PART}},
    [WIRE_PUSH] = {false, true, 0, {OURS, PART}},
    [WIRE_ANNOUNCE] = {true,
                       false,
                       0,
                       {OURS, NUMBER, NUMBER, CREDIT, WORD, AS, SIZE, INBOX, INBOX_KEY}},
    [WIRE_WRITE] = {true, false, WIRE_STOPPED, {RECV, OURS, SIZE, PART, ADDRESS, KEY}},
    [WIRE_WRITTEN] = {false, false, WIRE_STOPPED, {RECV, PART, ADDRESS, KEY}},
    [WIRE_COOP] = {false, false, 0, {SEND, OURS, PART, SIZE, WORD, AS, INBOX, INBOX_KEY}},
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

/* The word `index` of the last packet of type that was heard; 0: there is none. */
static uint64_t heard(const struct liar *liar, enum wire_type type, size_t index)
{
    const struct lie *lie = liar_last(liar, type);

    return lie != NULL ? lie->body[index] : 0;
}

static uint64_t pick(const struct liar *liar, uint8_t what, const enum wire_type *types,
                     const size_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = (what + i) % count;
        uint64_t number = heard(liar, types[k], words[k]);

        if (number != 0)
            return number;
    }
    return honest_request(liar->victim, what);
}

static uint64_t pick_send(const struct liar *liar, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_RTS,   WIRE_SYNC,   WIRE_FIRST,
                                           WIRE_CLAIM, WIRE_PEEKED, WIRE_WRITE};
    static const size_t words[] = {0, 0, 0, 0, 1, 1};

    return pick(liar, what, types, words, ARRAY_COUNT(types));
}

static uint64_t pick_recv(const struct liar *liar, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_CTS, WIRE_RTR, WIRE_ANNOUNCE};
    static const size_t words[] = {1, 0, 0};

    return pick(liar, what, types, words, ARRAY_COUNT(types));
}

static uint64_t pick_access(const struct liar *liar, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_PUT, WIRE_GET, WIRE_ATOMIC};
    static const size_t words[] = {0, 0, 0};

    return pick(liar, what, types, words, ARRAY_COUNT(types));
}

/* The credit that the victim has at the liar, which ANNOUNCE has to name. */
static uint64_t credit_of_victim(const struct liar *liar)
{
    const struct peer *peer = peer_get(liar->victim->ep, LIAR);

    return peer->credit.envelopes + (peer->rput != NULL ? peer->rput->envelopes : 0);
}

/* What belongs into a field, as far as the liar knows. */
static uint64_t take_field(struct liar *liar, struct input *in, enum field field)
{
    uint8_t what = take(in);

    switch (field) {
    case OURS:
        return what < 64 ? liar->request : ++liar->request;
    case SEND:
        return pick_send(liar, what);
    case RECV:
        return pick_recv(liar, what);
    case ACCESS:
        return pick_access(liar, what);
    case QUESTION:
        return heard(liar, WIRE_PEEK, 0);
    case ASKED:
        return ++liar->question;
    case EPOCH:
        return what < 16 ? 0 : ++liar->epoch;
    case THEIRS:
        return heard(liar, WIRE_DEFER, 0);
    case NUMBER:
        return what < 32 ? what & 7 : ++liar->number;
    case WORD:
        return what & 7 ? (uint64_t)(what >> 4) << 32 | (what & 7) : 0;
    case AS:
        return what & 3;
    case SIZE:
        return take_length(in);
    case PART:
        return what < 128 ? 0 : take_length(in);
    case ADDRESS:
        return what < 160 ? liar->address + (what & 15) : what < 200 ? 0 : take_number(in);
    case KEY:
        return what < 200 ? liar->key : take_number(in);
    case INBOX:
        return what < 160   ? liar->inbox_address + (what & 15)
               : what < 200 ? 0
                            : take_number(in);
    case INBOX_KEY:
        return what < 200 ? liar->inbox_key : liar->inbox_key + what;
    case COUNT:
        return what & 15;
    case CREDIT:
        return credit_of_victim(liar);
    case TABLE:
        return what < 160 ? LIAR_TABLE : take_number(in);
    case REGION:
        return REGION_KEY;
    case AT:
        return what;
    case WHAT: /* of an operation on 64 bits */
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

static size_t words_of(const struct lie *lie)
{
    return wire_body_size(lie->header.type) / sizeof lie->body[0];
}

static void say(struct liar *liar, const struct lie *lie)
{
    unsigned char packet[LIES_MOST];
    size_t body_size = wire_body_size(lie->header.type);
    size_t size = sizeof lie->header + body_size;
    size_t payload = min_size(lie->payload_size, sizeof packet - size);

    memcpy(packet, &lie->header, sizeof lie->header);
    memcpy(packet + sizeof lie->header, lie->body, body_size);
    memset(packet + size, LIAR_BYTE, payload);
    liar_tell(liar, packet, size + payload - min_size(lie->cut, size + payload));
}

/* One field is another one. */
static void twist(struct lie *lie, struct input *in)
{
    uint8_t what = take(in);
    size_t words = words_of(lie);

    switch (what & 7) {
    case 0:
        lie->header.flags ^= (uint16_t)(1u << take(in) % 10);
        break;
    case 1:
        if (what & 128)
            lie->header.zero = 1;
        else
            lie->header.tag ^= 1;
        break;
    case 2:
        lie->payload_size += 1 + (what >> 3);
        break;
    case 3:
        if (what & 128)
            lie->cut = 1 + (what >> 3);
        else
            lie->payload_size = 0;
        break;
    case 4:
        if (words != 0)
            lie->body[(what >> 3) % words] += 1;
        break;
    case 5:
        if (words != 0)
            lie->body[(what >> 3) % words] ^= UINT64_C(1) << take(in) % 64;
        break;
    default:
        if (words != 0)
            lie->body[(what >> 3) % words] = take_number(in);
        break;
    }
}

static size_t max_payload(const struct lie *lie)
{
    return LIES_MOST - sizeof lie->header - wire_body_size(lie->header.type);
}

static struct lie lie_of(enum wire_type type)
{
    return (struct lie){.header = {.type = (uint8_t)type, .version = WIRE_VERSION}};
}

/* Payload and sizes that agree. */
static void mend(struct lie *lie)
{
    size_t element = 8;

    switch ((int)lie->header.type) {
    case WIRE_FIRST:
        if (!(lie->header.flags & WIRE_WANTS_FIN))
            lie->body[0] = 0;
        lie->payload_size = lie->payload_size != 0 ? lie->payload_size : 1;
        if (lie->body[1] <= lie->payload_size)
            lie->body[1] = lie->payload_size + 1;
        break;
    case WIRE_RTS:
        lie->payload_size = min_size(lie->payload_size, lie->body[1]);
        break;
    case WIRE_CLAIM:
        lie->payload_size = min_size(lie->payload_size, lie->body[2]);
        break;
    case WIRE_PUT:
        if (lie->payload_size != 0)
            lie->body[3] = lie->payload_size;
        break;
    case WIRE_ATOMIC:
        if ((lie->body[3] & WIRE_ATOMIC_OP) == MBX_ATOMIC_READ)
            element = 0;
        else if ((lie->body[3] & WIRE_ATOMIC_OP) >= MBX_CSWAP)
            element = 16;
        lie->payload_size = (lie->body[3] >> 32) * element;
        break;
    default:
        break;
    }
}

void liar_say_something(struct liar *liar, struct input *in)
{
    uint8_t kind = take(in), what = take(in);
    struct lie lie = lie_of((enum wire_type)(1 + kind % (WIRE_TYPES - 1)));
    enum wire_type type = (enum wire_type)lie.header.type;

    if (shapes[type].has_envelope) {
        lie.header.context_id = what & 1;
        lie.header.tag = what >> 1 & 3;
    }
    if (type == WIRE_RTR || type == WIRE_PEEK || type == WIRE_ANNOUNCE)
        lie.header.data = what & 8 ? MBX_IGNORE_ALL : what >> 4 & 3;
    lie.header.flags = what & 64 ? shapes[type].flags : 0;
    for (size_t i = 0; i < words_of(&lie); i++)
        lie.body[i] = take_field(liar, in, shapes[type].body[i]);
    if (shapes[type].has_payload)
        lie.payload_size = min_size(take_length(in), max_payload(&lie));
    if (!(what & 128))
        mend(&lie);
    else
        twist(&lie, in);
    if (type == WIRE_FIRST)
        liar->more = (struct stream){0, lie.payload_size, lie.body[1] - lie.payload_size};
    if (type == WIRE_PUT)
        liar->push = (struct stream){lie.body[0], 0, lie.body[3]};
    say(liar, &lie);
}

void liar_say_bytes(struct liar *liar, struct input *in)
{
    unsigned char packet[RAW_MOST];
    size_t size = take(in) % (RAW_MOST + 1);

    for (size_t i = 0; i < size; i++)
        packet[i] = take(in);
    liar_tell(liar, packet, size);
}

/* ---- answers ---- */

/* The next part of something long.  False: nothing is left of it. */
static bool go_on(struct lie *lie, enum wire_type type, struct stream *stream)
{
    size_t offset_word = type == WIRE_MORE ? 0 : type == WIRE_ANSWER ? 2 : 1;

    if (stream->left == 0)
        return false;
    *lie = lie_of(type);
    lie->body[0] = stream->id;
    lie->body[offset_word] = stream->at;
    lie->payload_size = min_size(stream->left, max_payload(lie));
    stream->at += lie->payload_size;
    stream->left -= lie->payload_size;
    if (type == WIRE_ANSWER && stream->left == 0)
        lie->header.flags = WIRE_LAST;
    return true;
}

/* FIN, CTS, GRANT or RETIRE for a send of the victim's. */
static bool answer_send(struct liar *liar, struct lie *lie, uint8_t what, uint64_t send,
                        uint64_t size)
{
    static const enum wire_type types[] = {WIRE_FIN, WIRE_CTS, WIRE_GRANT, WIRE_RETIRE};

    *lie = lie_of(types[what & 3]);
    lie->body[0] = send;
    if (lie->header.type == WIRE_CTS) {
        lie->body[1] = ++liar->request;
        lie->body[3] = size;
    } else if (lie->header.type == WIRE_RETIRE) {
        lie->body[0] = what & 4 ? liar->request : heard(liar, WIRE_CLAIM, 1);
        lie->body[1] = send;
    }
    return true;
}

/* RTR, PEEK, CREDIT or RETIRE for what the victim holds. */
static bool answer_defer(struct liar *liar, struct lie *lie, uint8_t what)
{
    static const enum wire_type types[] = {WIRE_RTR, WIRE_PEEK, WIRE_CREDIT, WIRE_RTR};

    *lie = lie_of(types[what & 3]);
    if (lie->header.type == WIRE_CREDIT) {
        lie->body[0] = what >> 2 & 7;
        lie->body[1] = UINT64_C(1) << (what >> 4);
        return true;
    }
    lie->header.context_id = what >> 2 & 1;
    lie->header.tag = what >> 3 & 3;
    lie->header.data = what & 32 ? MBX_IGNORE_ALL : 0;
    if (lie->header.type == WIRE_PEEK) {
        lie->body[0] = ++liar->question;
        return true;
    }
    lie->header.flags = what & 64 ? WIRE_ROOM_USED : 0;
    lie->body[0] = ++liar->request;
    lie->body[1] = heard(liar, WIRE_DEFER, 0);
    lie->body[2] = ++liar->number;
    return true;
}

/* A message for a receive that it was told of. */
static bool answer_recv(struct liar *liar, struct lie *lie, uint8_t what,
                        const struct lie *heard_of)
{
    static const uint64_t sizes[] = {0, 8, 300, 5000};
    bool is_early = heard_of->header.type == WIRE_ANNOUNCE;
    uint64_t size = is_early && what & 4 ? heard_of->body[6] : sizes[what & 3];

    *lie = lie_of(is_early ? WIRE_WRITE : WIRE_CLAIM);
    lie->header.context_id = heard_of->header.context_id;
    lie->header.tag = heard_of->header.tag;
    if (is_early) {
        lie->header.flags = what & 8 ? WIRE_STOPPED : 0;
        lie->body[0] = heard_of->body[0];
        lie->body[1] = ++liar->request;
        lie->body[2] = size;
        lie->body[3] = what & 16 ? size : size / 2;
        lie->body[4] = what & 8 ? liar->address : 0;
        lie->body[5] = what & 8 ? liar->key : 0;
        return true;
    }
    lie->header.flags = what & 64 ? WIRE_WON : 0;
    lie->body[0] = ++liar->request;
    lie->body[1] = heard_of->body[0];
    lie->body[2] = size;
    lie->body[3] = liar->address;
    lie->body[4] = liar->key;
    lie->payload_size = min_size(size, what & 32 ? 0 : max_payload(lie));
    return true;
}

/* The end of what a WRITE has begun. */
static bool answer_write(struct lie *lie, uint8_t what, const struct lie *announce)
{
    *lie = lie_of(WIRE_WRITTEN);
    lie->body[0] = announce->body[0];
    lie->body[1] = what & 1 ? announce->body[6] : announce->body[6] / 2 + (what >> 4);
    lie->header.flags = what & 2 ? WIRE_STOPPED : 0;
    return true;
}

/* The part that a COOP has asked for is written, says who has not taken its word. */
static bool answer_coop(struct lie *lie, uint8_t what, const struct lie *coop)
{
    *lie = lie_of(WIRE_WRITTEN);
    lie->body[0] = coop->body[1];
    lie->body[1] = coop->body[2] + (what & 1 ? coop->body[3] : what >> 4);
    lie->header.flags = what & 2 ? WIRE_STOPPED : 0;
    return true;
}

/* For a probe. */
static bool answer_peek(struct liar *liar, struct lie *lie, uint8_t what,
                        const struct lie *peek)
{
    *lie = lie_of(WIRE_PEEKED);
    lie->header.context_id = peek->header.context_id;
    lie->header.tag = peek->header.tag;
    lie->body[0] = peek->body[0];
    lie->body[1] = what & 1 ? ++liar->request : 0;
    lie->body[2] = what & 2 ? 5000 : 20;
    lie->body[3] = liar->address;
    lie->body[4] = liar->key;
    return true;
}

/* For an access. */
static bool answer_access(struct liar *liar, struct lie *lie, uint8_t what,
                          const struct lie *access)
{
    uint64_t size = access->body[3];

    if (access->header.type == WIRE_ATOMIC)
        size = (access->body[3] >> 32) * 8;
    if (access->header.type == WIRE_PUT && what & 1) {
        *lie = lie_of(WIRE_ANSWER);
        lie->header.flags = WIRE_PULL;
        lie->body[0] = access->body[0];
        lie->body[2] = what & 2 ? what : 0;
        return true;
    }
    if (access->header.type != WIRE_PUT && what & 4) {
        liar->answer = (struct stream){access->body[0], 0, size};
        return go_on(lie, WIRE_ANSWER, &liar->answer);
    }
    *lie = lie_of(WIRE_ANSWER);
    lie->header.flags = WIRE_LAST;
    lie->body[0] = access->body[0];
    lie->body[1] = what & 8 ? EACCES : 0;
    return true;
}

/* What could be said to this.  False: nothing. */
static bool answer_to(struct liar *liar, struct lie *lie, uint8_t what, const struct lie *to)
{
    switch ((enum wire_type)to->header.type) {
    case WIRE_SYNC:
    case WIRE_FIRST:
        return answer_send(liar, lie, what & 4 ? what : 0, to->body[0], 0);
    case WIRE_RTS:
        return answer_send(liar, lie, what & 1, to->body[0], to->body[1]);
    case WIRE_CLAIM:
        return answer_send(liar, lie, what, to->body[0], to->body[2]);
    case WIRE_PEEKED:
        return answer_send(liar, lie, what & 4 ? what : 2, to->body[1], to->body[2]);
    case WIRE_WRITE:
        return answer_send(liar, lie, what & 1, to->body[1], to->body[2]);
    case WIRE_CTS:
        liar->data = (struct stream){to->body[1], to->body[2], to->body[3]};
        return go_on(lie, WIRE_DATA, &liar->data);
    case WIRE_DEFER:
        return answer_defer(liar, lie, what);
    case WIRE_RTR:
    case WIRE_ANNOUNCE:
        if (to->header.type == WIRE_ANNOUNCE && (what & 3) == 3)
            return answer_write(lie, what >> 2, to);
        return answer_recv(liar, lie, what, to);
    case WIRE_COOP:
        return answer_coop(lie, what, to);
    case WIRE_PEEK:
        return answer_peek(liar, lie, what, to);
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_ATOMIC:
        return answer_access(liar, lie, what, to);
    case WIRE_ANSWER:
        return go_on(lie, WIRE_PUSH, &liar->push);
    case WIRE_EAGER:
    case WIRE_MORE:
    case WIRE_CREDIT:
        return answer_defer(liar, lie, 2 | what);
    case WIRE_DATA:
    case WIRE_FIN:
    case WIRE_GRANT:
    case WIRE_RETIRE:
    case WIRE_PUSH:
    case WIRE_WRITTEN:
    case WIRE_TYPES:
        break;
    }
    return false;
}

/* Goes on with something, or says the right thing to one of the last packets. */
void liar_say_answer(struct liar *liar, struct input *in)
{
    uint8_t which = take(in), what = take(in);
    uint32_t count = liar->heard_count < HEARD ? liar->heard_count : HEARD;
    struct lie lie;
    bool is_made = false;

    if (which & 16) {
        static const enum wire_type types[] = {WIRE_DATA, WIRE_MORE, WIRE_ANSWER, WIRE_PUSH};
        struct stream *streams[] = {&liar->data, &liar->more, &liar->answer, &liar->push};

        for (unsigned i = 0; i < 4 && !is_made; i++)
            is_made = go_on(&lie, types[(which + i) & 3], streams[(which + i) & 3]);
    } else if (count != 0) {
        is_made = answer_to(liar, &lie, what,
                            &liar->heard[(liar->heard_count - 1 - which % count) % HEARD]);
    }
    if (!is_made)
        return;
    if (which >= 208)
        twist(&lie, in);
    say(liar, &lie);
}
