/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * format.h - the formats of trace.h: one pair of functions stores and loads each number, for
 * the writers (trace.c, flight.c) and the reader (read.c).
 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <assert.h>
#include <endian.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "trace/trace.h"

#define CHECK_AT           12 /* in a long or short record */
#define TINY_CHECK_AT      4  /* in a tiny record */
#define HEADER_CHECK_AT    28

#define CHECK_DONE         UINT32_C(0x646f6e65) /* in the check of a record: complete at once */
#define VERSION_DONE       4u                   /* the first format that has it */
#define VERSION_SHORT      5u                   /* the first one with short records (short.h) */
#define PIECE_OF_VERSION_3 ((size_t)64 << 10)

static_assert(sizeof TRACE_MAGIC - 1 == 8, "the magic fills its field");
static_assert(sizeof FLIGHT_MAGIC - 1 == 8, "the magic fills its field");

/* A flight recording begins with the header of a trace.  These fields follow it. */
#define FLIGHT_SLOTS_AT    64
#define FLIGHT_COUNT_AT    72
#define FLIGHT_HEADER_SIZE 128

static_assert(FLIGHT_SIZE_MAX == FLIGHT_HEADER_SIZE +
                                     (FLIGHT_SLOTS_MAX + FLIGHT_NAMES_MAX) * TRACE_RECORD_SIZE,
              "the longest flight recording");

#define TEXT_AT   24 /* in a record: ignore, entry and partner */
#define TEXT_SIZE 24
#define TEXT_MAX  (TEXT_SIZE * 64)

static inline void put32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void put64(unsigned char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static inline uint32_t get32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t get64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

/* The check goes over all words, the check itself, which is the upper half of one, taken as
 * 0.  Each step can be undone (the multiplier is odd), so a change in one word always
 * changes the sum before it is folded. */
static inline uint64_t check_begin(uint64_t number)
{
    return number ^ UINT64_C(0x6d626d6174636865);
}

static inline uint64_t check_add(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static inline uint32_t check_end(uint64_t sum)
{
    return (uint32_t)(sum ^ (sum >> 32));
}

static inline uint32_t check_of(const unsigned char *bytes, size_t size, size_t check_at,
                                uint64_t number)
{
    uint64_t sum = check_begin(number);

    assert(check_at % 8 == 4);
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = get64(bytes + at);

        sum = check_add(sum, at + 4 == check_at ? word & UINT32_MAX : word);
    }
    return check_end(sum);
}

static inline void header_put(unsigned char *bytes, const char magic[8],
                              const struct trace_info *info)
{
    memset(bytes, 0, TRACE_HEADER_SIZE);
    memcpy(bytes, magic, 8);
    put32(bytes + 8, TRACE_VERSION);
    put32(bytes + 12, TRACE_RECORD_SIZE);
    put32(bytes + 16, info->rank);
    put32(bytes + 20, info->pid);
    put32(bytes + 24, info->endpoint);
    put64(bytes + 32, info->start_ns);
    put64(bytes + 40, info->host);
    put32(bytes + 48, info->size);
    put32(bytes + 52, info->address);
    put64(bytes + 56, info->wall_ns);
    put32(bytes + HEADER_CHECK_AT, check_of(bytes, TRACE_HEADER_SIZE, HEADER_CHECK_AT, 0));
}

/* Record number `number`, which gives its form this number (short.h; 0 in a flight recording).  The words are put together before any of them is stored: the
 * check over what was just stored in halves would wait for these stores. */
static inline void record_put(unsigned char *bytes, const struct trace_event *event,
                              uint64_t delta_ns, uint64_t number, unsigned form)
{
    const uint64_t words[TRACE_RECORD_SIZE / 8] = {
        (uint64_t)event->type | (uint64_t)form << 16 | (uint64_t)event->context_id << 32,
        event->source,
        event->tag,
        event->ignore,
        event->entry,
        event->partner,
        delta_ns,
    };
    uint64_t sum = check_begin(number);

    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        sum = check_add(sum, words[i]);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        put64(bytes + i * 8,
              i == CHECK_AT / 8 ? words[i] | (uint64_t)check_end(sum) << 32 : words[i]);
}

/* The message of the record is complete.  This is one store, so that the record is either done or
 * not, also for a process that reads it meanwhile, and if this process is killed. */
static inline void record_done(unsigned char *check)
{
    atomic_store_explicit((_Atomic uint32_t *)(void *)check, htole32(get32(check) ^ CHECK_DONE),
                          memory_order_relaxed);
}

static inline void record_get(const unsigned char *bytes, struct trace_event *event)
{
    *event = (struct trace_event){
        .type = bytes[0],
        .context_id = get32(bytes + 4),
        .source = get32(bytes + 8),
        .tag = get64(bytes + 16),
        .ignore = get64(bytes + 24),
        .entry = get64(bytes + 32),
        .partner = get64(bytes + 40),
        .delta_ns = get64(bytes + 48),
    };
}

#endif
