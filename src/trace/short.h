/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * short.h - records of 16 and 8 bytes, for events that differ from an earlier one only in their numbers and times.
 *
 *   word 0   bits 0-6, 8-9  the form; bit 7 is 1, which no type has
 *                 10-36     entry    0: it is 0; or SHORT_HALF + its difference from the last entry of its type
 *                 37-63     partner  as entry
 *   word 1   bits  0-31     nanoseconds since the record before
 *                 32-63     check    at the place of a long record's check, and made in the same way
 *
 * A record is tiny if the record of its type before was not long, and had the same word 0: the numbers then grow by the same
 * amounts again.
 *
 *   the word bits  0-5      type; bit 6 is 1, which no type has, and bit 7 is 0
 *                  8-31     nanoseconds since the record before
 *                 32-63     check
 *
 * The other fields of an event are its form: type, envelope, and ignore or amount.  A long record gives its form a number,
 * less than FORMS, which may have been the number of another form before.  The forms, and the last entry and partner of
 * each type, follow from the records before: recorder and reader each keep them in a struct forms.
 */
#ifndef TRACE_SHORT_H
#define TRACE_SHORT_H

#include "trace/format.h"

/* Glossary: record - an event in a trace file, in 8, 16 or 56 bytes */
#define FORMS      512u
#define SHORT_BITS 27
#define SHORT_HALF (UINT64_C(1) << (SHORT_BITS - 1))
#define SHORT_FLAG 0x80u
#define TINY_FLAG  0x40u
#define TINY_NS    (UINT64_C(1) << 24) /* a tiny record has fewer */

static_assert(TRACE_TYPES <= TINY_FLAG, "no type is taken for a short or a tiny record");
static_assert(1 + 9 + 2 * SHORT_BITS == 64 && FORMS == 1u << 9, "the first word is full");

struct form {
    uint32_t type; /* 0: no record has given it */
    uint32_t context_id, source;
    uint64_t tag, ignore;
};

struct forms {
    struct form forms[FORMS];
    /* of the events of each type */
    struct forms_last {
        uint64_t entry, partner; /* the last ones that are not 0 */
        uint64_t word;           /* the first one of the last record; 0: it was a long one */
        /* the recorder's: of the last event the number of its form, and what the first word of a short record has of that */
        uint64_t number, first;
    } last[TRACE_TYPES];
};

static inline struct form form_of(const struct trace_event *event)
{
    return (struct form){.type = (uint32_t)event->type,
                         .context_id = event->context_id,
                         .source = event->source,
                         .tag = event->tag,
                         .ignore = event->ignore};
}

/* One branch for all fields: in nearly all cases the answer is yes. */
static inline bool form_is_of(const struct form *form, const struct trace_event *event)
{
    return ((form->type ^ (uint32_t)event->type) | (form->context_id ^ event->context_id) |
            (form->source ^ event->source) | (form->tag ^ event->tag) |
            (form->ignore ^ event->ignore)) == 0;
}

/* ---- recording ---- */

/* The number of event's form: any would do.  Events of one envelope and several types have several. */
static inline unsigned form_number(const struct trace_event *event)
{
    uint64_t mix =
        ((uint64_t)event->context_id << 32 | event->source) * UINT64_C(0x9e3779b97f4a7c15);

    mix = (mix ^ mix >> 32 ^ event->tag) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(mix >> 55) ^ (unsigned)event->type;
}

static inline uint64_t short_first(unsigned form)
{
    return SHORT_FLAG | (form & 127) | (uint64_t)(form >> 7) << 8;
}

/* The bits of a number in a short record; the number becomes the last one.  More than SHORT_BITS: it has no space. */
static inline uint64_t short_number(uint64_t number, uint64_t *last)
{
    uint64_t more = number - *last + SHORT_HALF;

    if (number == 0)
        return 0;
    *last = number;
    return more != 0 ? more : UINT64_MAX;
}

/* To be called for each event.  *numbers: the bits for entry and partner in the first word of a short record.  False: the
 * record cannot be short. */
static inline bool short_numbers(struct forms_last *last, const struct trace_event *event,
                                 uint64_t delta_ns, uint64_t *numbers)
{
    uint64_t entry = short_number(event->entry, &last->entry);
    uint64_t partner = short_number(event->partner, &last->partner);

    *numbers = entry << 10 | partner << (10 + SHORT_BITS);
    return (entry | partner | delta_ns >> (32 - SHORT_BITS)) >> SHORT_BITS == 0;
}

static inline void short_put(unsigned char *bytes, uint64_t first, uint64_t delta_ns,
                             uint64_t number)
{
    uint64_t sum = check_add(check_add(check_begin(number), first), delta_ns);

    put64(bytes, first);
    /* who is killed between the two leaves a record that says how long it is */
    atomic_signal_fence(memory_order_release);
    put64(bytes + 8, delta_ns | (uint64_t)check_end(sum) << 32);
}

static inline void tiny_put(unsigned char *bytes, enum trace_type type, uint64_t delta_ns,
                            uint64_t number)
{
    uint64_t word = (uint64_t)type | TINY_FLAG | delta_ns << 8;

    put64(bytes, word | (uint64_t)check_end(check_add(check_begin(number), word)) << 32);
}

/* ---- reading ---- */

static inline bool is_short(const unsigned char *bytes)
{
    return (bytes[0] & SHORT_FLAG) != 0;
}

static inline bool is_tiny(const unsigned char *bytes)
{
    return (bytes[0] & (SHORT_FLAG | TINY_FLAG)) == TINY_FLAG;
}

static inline uint64_t number_of_short(uint64_t more, uint64_t last)
{
    more &= 2 * SHORT_HALF - 1;
    return more == 0 ? 0 : last + more - SHORT_HALF;
}

/* The event of a first word.  False: no record has given the form. */
static inline bool short_get(uint64_t first, uint64_t delta_ns, const struct forms *forms,
                             struct trace_event *event)
{
    const struct form *form = &forms->forms[(first & 127) | (first >> 8 & 3) << 7];
    const struct forms_last *last = &forms->last[form->type];

    if (form->type == 0)
        return false;
    *event = (struct trace_event){
        .type = form->type,
        .context_id = form->context_id,
        .source = form->source,
        .tag = form->tag,
        .ignore = form->ignore,
        .entry = number_of_short(first >> 10, last->entry),
        .partner = number_of_short(first >> (10 + SHORT_BITS), last->partner),
        .delta_ns = delta_ns,
    };
    return true;
}

/* False: there is no record of this type before, or it was a long one. */
static inline bool tiny_get(const unsigned char *bytes, const struct forms *forms,
                            struct trace_event *event)
{
    unsigned type = bytes[0] & (TINY_FLAG - 1);

    return type < TRACE_TYPES && forms->last[type].word != 0 &&
           short_get(forms->last[type].word, get32(bytes) >> 8, forms, event) &&
           (unsigned)event->type == type;
}

/* To be called after each record. */
static inline void forms_read(struct forms *forms, const unsigned char *bytes,
                              const struct trace_event *event)
{
    struct forms_last *last = &forms->last[event->type];

    if (!is_tiny(bytes))
        last->word = is_short(bytes) ? get64(bytes) : 0;
    if (event->entry != 0)
        last->entry = event->entry;
    if (event->partner != 0)
        last->partner = event->partner;
}

#endif
