/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * code.c - items of a record as bytes, and back.
 *
 *   1oooorrr [number] [outcome]   an event of the signature that is expected: outcome o of its list, or 15 and a new one; it
 *                                 happens r + 1 times, or 7 and a number more
 *   01ssssss [number]             the next event has signature s, or 63 and its number
 *   0010pppp number               so many items again, from p + 1 items before
 *   00010001 ...                  a definition: number, kind (4 bits) and requests, communicator and bit 4 of the kind, place,
 *                                 source, tag
 *
 * A number has 7 bits in each byte, the lowest first; bit 7 says that more follow.  If the last event has signature s, the
 * signature that is expected next is the one that last followed s.
 *
 * Both sides keep the same struct code.  Repeated items change only its member `last`.
 */
#include "replay/code.h"

#include "base/base.h"

#define CODE_EVENT      0x80u
#define CODE_SIGNATURE  0x40u
#define CODE_REPEAT     0x20u
#define CODE_DEFINITION 0x11u

#define SLOT_FAR        63u
#define TIMES_FAR       7u
#define REPEAT_LEAST    4u

/* ---- the state of both sides ---- */

void code_note(struct code *code, const struct format_item_words *item)
{
    struct code_signature *signature = &code->signatures[format_slot(item->word)];

    if (format_type(item->word) != FORMAT_DEFINITION)
        return;
    *signature = (struct code_signature){.is = code_defined(item), .is_defined = true};
}

bool code_is_right(const struct code *code, const struct format_item_words *item)
{
    unsigned a = format_a(item->word);

    if (format_type(item->word) == FORMAT_DEFINITION) {
        unsigned kind = code_defined(item).kind;

        return kind >= REPLAY_RECV && kind < REPLAY_KINDS;
    }
    return format_type(item->word) == FORMAT_EVENT && a < REPLAY_RESULTS &&
           format_count(item->word) >= 1 &&
           code->signatures[format_slot(item->word)].is_defined;
}

/* Where this outcome is in the list, or FORMAT_OUTCOMES. */
static unsigned outcome_find(const struct code_signature *s, uint64_t value, uint8_t result)
{
    unsigned at = 0;

    while (at < s->count && (s->values[at] != value || s->results[at] != result))
        at++;
    return at < s->count ? at : FORMAT_OUTCOMES;
}

/* The outcome that is at this place, or nowhere, becomes the first. */
static void outcome_first(struct code_signature *s, unsigned at, uint64_t value, uint8_t result)
{
    if (at == FORMAT_OUTCOMES) {
        at = s->count < FORMAT_OUTCOMES ? s->count++ : FORMAT_OUTCOMES - 1;
    }
    memmove(s->values + 1, s->values, at * sizeof s->values[0]);
    memmove(s->results + 1, s->results, at);
    s->values[0] = value;
    s->results[0] = result;
}

static void event_next(struct code *code, unsigned slot)
{
    code->signatures[code->last].next = (uint8_t)slot;
    code->last = (uint8_t)slot;
}

/* ---- writing ---- */

static unsigned char *put_number(unsigned char *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (unsigned char)(number | 0x80);
    *at++ = (unsigned char)number;
    return at;
}

/* Small numbers of either sign are short. */
static uint64_t fold(int32_t number)
{
    return (uint32_t)number << 1 ^ (number < 0 ? UINT32_MAX : 0);
}

static int32_t unfold(uint64_t number)
{
    return (int32_t)((uint32_t)(number >> 1) ^ (number & 1 ? UINT32_MAX : 0));
}

static unsigned char *put_definition(struct code *code, const struct format_item_words *item,
                                     unsigned char *at)
{
    const struct replay_signature *is = &code->signatures[format_slot(item->word)].is;

    code_note(code, item);
    *at++ = CODE_DEFINITION;
    *at++ = (unsigned char)format_slot(item->word);
    *at++ = (unsigned char)((is->kind & 0xf) | is->requests << 4);
    at = put_number(at, is->comm | (uint64_t)(is->kind >> 4) << FORMAT_KIND_SHIFT);
    at = put_number(at, is->place);
    at = put_number(at, fold(is->source));
    return put_number(at, fold(is->tag));
}

static unsigned char *put_event(struct code *code, const struct format_item_words *item,
                                unsigned char *at)
{
    unsigned slot = format_slot(item->word);
    uint64_t more = format_count(item->word) - 1;
    uint8_t result = (uint8_t)(format_a(item->word) | format_b(item->word) << 4);
    struct code_signature *s = &code->signatures[slot];
    unsigned outcome = outcome_find(s, item->value, result);

    if (slot != code->signatures[code->last].next) {
        *at++ = (unsigned char)(CODE_SIGNATURE | (slot < SLOT_FAR ? slot : SLOT_FAR));
        if (slot >= SLOT_FAR)
            *at++ = (unsigned char)slot;
    }
    *at++ = (unsigned char)(CODE_EVENT | outcome << 3 | (more < TIMES_FAR ? more : TIMES_FAR));
    if (more >= TIMES_FAR)
        at = put_number(at, more - TIMES_FAR);
    if (outcome == FORMAT_OUTCOMES) {
        *at++ = result;
        at = put_number(at, item->value >> 32);
        at = put_number(at, (uint32_t)item->value);
    }
    outcome_first(s, outcome, item->value, result);
    event_next(code, slot);
    return at;
}

static bool is_same(const struct format_item_words *a, const struct format_item_words *b)
{
    return a->value == b->value && format_lapless(a->word) == format_lapless(b->word) &&
           format_type(a->word) == FORMAT_EVENT;
}

/* So many items at `at` are those `distance` before. */
static size_t repeat_length(const struct format_item_words *items, size_t count, size_t at,
                            size_t distance)
{
    size_t length = 0;

    while (at + length < count && is_same(&items[at + length], &items[at + length - distance]))
        length++;
    return length;
}

/* The longest repetition at `at`, and how far before it begins. */
static size_t repeat_find(const struct format_item_words *items, size_t count, size_t at,
                          size_t *distance)
{
    size_t longest = 0;

    for (size_t d = 1; d <= FORMAT_DISTANCE && d <= at && at + longest < count; d++) {
        size_t length = repeat_length(items, count, at, d);

        if (length > longest) {
            longest = length;
            *distance = d;
        }
    }
    return longest;
}

size_t code_write(struct code *code, const struct format_item_words *items, size_t count,
                  unsigned char *bytes)
{
    unsigned char *at = bytes;

    for (size_t i = 0, distance = 0; i < count;) {
        size_t length = repeat_find(items, count, i, &distance);

        if (length >= REPEAT_LEAST) {
            *at++ = (unsigned char)(CODE_REPEAT | (distance - 1));
            at = put_number(at, length);
            i += length;
            code->last = (uint8_t)format_slot(items[i - 1].word);
            continue;
        }
        at = format_type(items[i].word) == FORMAT_DEFINITION
                 ? put_definition(code, &items[i], at)
                 : put_event(code, &items[i], at);
        i++;
    }
    return (size_t)(at - bytes);
}

/* ---- reading ---- */

struct input {
    const unsigned char *at, *end;
    bool is_wrong;
};

static unsigned take_byte(struct input *in)
{
    if (in->at == in->end) {
        in->is_wrong = true;
        return 0;
    }
    return *in->at++;
}

static uint64_t take_number(struct input *in, uint64_t most)
{
    uint64_t number = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = take_byte(in);

        number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            in->is_wrong = in->is_wrong || number > most;
            return number;
        }
    }
    in->is_wrong = true;
    return 0;
}

static void take_definition(struct code *code, struct input *in, struct format_item_words *item)
{
    unsigned slot = take_byte(in), what = take_byte(in);
    uint64_t comm = take_number(in, (UINT64_C(1) << FORMAT_PLACE_SHIFT) - 1);
    uint64_t place = take_number(in, FORMAT_PLACES_MAX);
    uint32_t source = (uint32_t)unfold(take_number(in, UINT32_MAX));
    uint32_t tag = (uint32_t)unfold(take_number(in, UINT32_MAX));

    item->value = (uint64_t)source << 32 | tag;
    item->word = format_word(FORMAT_DEFINITION, 0, slot, what & 0xf, what >> 4,
                             place << FORMAT_PLACE_SHIFT | comm);
    in->is_wrong = in->is_wrong || !code_is_right(code, item);
    if (!in->is_wrong)
        code_note(code, item);
}

/* byte: the first byte of an event; if it gives no signature, the expected one holds. */
static void take_event(struct code *code, struct input *in, unsigned byte,
                       struct format_item_words *item)
{
    unsigned slot = code->signatures[code->last].next, outcome;
    struct code_signature *s;
    uint64_t times, high;
    uint8_t result;

    if (byte & CODE_SIGNATURE && !(byte & CODE_EVENT)) {
        slot = byte & SLOT_FAR;
        if (slot == SLOT_FAR)
            slot = take_byte(in);
        byte = take_byte(in);
    }
    in->is_wrong = in->is_wrong || !(byte & CODE_EVENT);
    outcome = byte >> 3 & 0xf;
    times = byte & TIMES_FAR;
    if (times == TIMES_FAR)
        times += take_number(in, FORMAT_TIMES_MAX - TIMES_FAR - 1);
    s = &code->signatures[slot];
    if (outcome == FORMAT_OUTCOMES) {
        result = (uint8_t)take_byte(in);
        high = take_number(in, UINT32_MAX);
        item->value = high << 32 | take_number(in, UINT32_MAX);
    } else {
        in->is_wrong = in->is_wrong || outcome >= s->count;
        result = s->results[outcome];
        item->value = s->values[outcome];
    }
    item->word = format_word(FORMAT_EVENT, 0, slot, result & 0xf, result >> 4, times + 1);
    in->is_wrong = in->is_wrong || !code_is_right(code, item);
    if (in->is_wrong)
        return;
    outcome_first(s, outcome, item->value, result);
    event_next(code, slot);
}

/* The items again that were `distance` before; how many. */
static size_t take_repeat(struct code *code, struct input *in, unsigned distance,
                          struct format_item_words *items, size_t at, size_t count)
{
    uint64_t length = take_number(in, count - at);

    in->is_wrong = in->is_wrong || distance > at || length == 0;
    for (size_t i = at; !in->is_wrong && i < at + length; i++) {
        items[i] = items[i - distance];
        in->is_wrong = format_type(items[i].word) != FORMAT_EVENT;
    }
    if (in->is_wrong)
        return 0;
    code->last = (uint8_t)format_slot(items[at + length - 1].word);
    return (size_t)length;
}

bool code_read(struct code *code, const unsigned char *bytes, size_t size,
               struct format_item_words *items, size_t count)
{
    struct input in = {bytes, bytes + size, false};
    size_t i = 0;

    while (i < count && !in.is_wrong) {
        unsigned byte = take_byte(&in);

        if (byte & (CODE_EVENT | CODE_SIGNATURE))
            take_event(code, &in, byte, &items[i++]);
        else if (byte & CODE_REPEAT && !(byte & 0x10))
            i += take_repeat(code, &in, (byte & 0xf) + 1, items, i, count);
        else if (byte == CODE_DEFINITION)
            take_definition(code, &in, &items[i++]);
        else
            in.is_wrong = true;
    }
    return !in.is_wrong && in.at == in.end;
}
