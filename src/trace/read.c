/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c - reads a trace file, or a flight recording.
 *
 *   file ─> buffer ─> trace_next              a trace: record by record
 *   file ─> ring, copied at once              a flight recording: first its names, then the ring
 *
 * A reader trusts nothing: a record is right if its check is right and its type allows its
 * fields (`shapes`).  The reader does not check whether the receives and messages that the
 * numbers name exist: a program that replays a trace does (tools/trace/replay.c).
 *
 * A record that is done is two events (trace.h); the second one is given out by the next call.  A short record
 * takes most fields of its event from an earlier record (short.h).
 *
 * A flight recording may be written while it is read.  The count is read before the ring: events
 * that are recorded later overwrite the oldest records.  The count is read again after the ring:
 * the records that may have been overwritten between the two are left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "trace/format.h"
#include "trace/short.h"
#include "trace/trace.h"

#define NO_CLOSE "the file ends without a close: the program was ended, or its disk was full"

bool trace_text_add(char *text, size_t size, const struct trace_event *event)
{
    unsigned char bytes[TRACE_RECORD_SIZE];
    size_t at = (size_t)(event->tag >> 32) * TEXT_SIZE;
    bool is_last;

    record_put(bytes, event, 0, 0, 0);
    for (size_t i = 0; i < TEXT_SIZE; i++, at++) {
        unsigned char c = bytes[TEXT_AT + i];

        if (at < size)
            text[at] = (char)c;
        if (c == 0)
            break;
    }
    is_last = at < (size_t)((event->tag >> 32) + 1) * TEXT_SIZE;
    text[min_size(at, size - 1)] = '\0';
    text_make_printable(text, '?', !is_last);
    return is_last;
}

/* ---- records that are allowed ---- */

/* The fields that a type has; all others are 0. */
enum shape {
    HAS_ENVELOPE = 1 << 0,
    HAS_IGNORE = 1 << 1, /* may have ignore bits and ANY_SOURCE */
    HAS_ENTRY = 1 << 2,
    MAY_PARTNER = 1 << 3,
    HAS_PARTNER = 1 << 4,
    ONE_OF_BOTH = 1 << 5, /* entry or partner, not both */
    HAS_AMOUNT = 1 << 6,
};

static const unsigned shapes[TRACE_TYPES] = {
    [TRACE_POST] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY | MAY_PARTNER,
    [TRACE_ARRIVE] = HAS_ENVELOPE | ONE_OF_BOTH,
    [TRACE_CANCEL] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY,
    [TRACE_PEEK] = HAS_ENVELOPE | HAS_IGNORE | MAY_PARTNER,
    [TRACE_CLAIM] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_TAKE] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_DISCARD] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_DROP] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_CLOSE] = 0,
    [TRACE_DEFER] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_RTR] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_MATCH] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_LOCK] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_GRANT] = HAS_ENVELOPE | HAS_ENTRY | MAY_PARTNER,
    [TRACE_LOST] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_RETIRE] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY,
    [TRACE_PUBLISH] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_PULL] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_PULLED] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_ADVERTISE] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY,
    [TRACE_VOID] = HAS_ENVELOPE | HAS_IGNORE | HAS_PARTNER,
    [TRACE_WRITE] = HAS_ENVELOPE | HAS_ENTRY | HAS_PARTNER,
    [TRACE_SEND] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_LEAVE] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY | HAS_PARTNER,
    [TRACE_SENT] = HAS_ENVELOPE | HAS_AMOUNT | ONE_OF_BOTH,
    [TRACE_RECEIVED] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY | MAY_PARTNER,
    [TRACE_RTS] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_DATA] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_CTS] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_READ] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_SHARE] = HAS_ENVELOPE | HAS_AMOUNT | HAS_ENTRY,
    [TRACE_FIN] = HAS_ENVELOPE | HAS_ENTRY,
    [TRACE_HAND] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY,
    [TRACE_WAIT] = HAS_AMOUNT | HAS_ENTRY,
    [TRACE_WAITED] = HAS_AMOUNT | HAS_ENTRY | MAY_PARTNER,
    [TRACE_CLOCK] = HAS_AMOUNT | HAS_ENTRY,
    [TRACE_AT] = HAS_ENTRY | MAY_PARTNER,
    [TRACE_EVENT] = HAS_ENTRY | MAY_PARTNER,
    [TRACE_REPORTED] = HAS_ENTRY,
};

static const char *check_numbers(unsigned shape, bool entry, bool partner)
{
    if (shape & ONE_OF_BOTH)
        return entry == partner ? "it needs an entry or a partner, and not both" : NULL;
    if (entry != ((shape & HAS_ENTRY) != 0))
        return entry ? "it has an entry, which its type has not" : "its entry is 0";
    if (partner && !(shape & (MAY_PARTNER | HAS_PARTNER)))
        return "it has a partner, which its type has not";
    if (!partner && (shape & HAS_PARTNER))
        return "its partner is 0";
    return NULL;
}

/* A record that names something. */
static const char *check_name(const struct trace_event *e)
{
    if (e->type == TRACE_PEER)
        return e->source >= TRACE_PEERS_MAX ? "it names no peer" : NULL;
    if (e->source != 0 || (e->type == TRACE_PROGRAM && e->context_id != 0))
        return "it has an envelope, which its type has not";
    return e->tag >> 32 >= TEXT_MAX / TEXT_SIZE ? "its text is too long" : NULL;
}

/* Bytes of the record that begins so. */
static size_t record_size(const struct trace_reader *r, const unsigned char *bytes)
{
    if (r->forms == NULL)
        return TRACE_RECORD_SIZE;
    return is_short(bytes)  ? TRACE_SHORT_SIZE
           : is_tiny(bytes) ? TRACE_TINY_SIZE
                            : TRACE_RECORD_SIZE;
}

static size_t check_at(const struct trace_reader *r, const unsigned char *bytes)
{
    return record_size(r, bytes) == TRACE_TINY_SIZE ? TINY_CHECK_AT : CHECK_AT;
}

static uint32_t check_of_record(const struct trace_reader *r, const unsigned char *bytes,
                                uint64_t number)
{
    return check_of(bytes, record_size(r, bytes), check_at(r, bytes), number);
}

/* Is what this record is about complete, as its check says? */
static bool is_done(const struct trace_reader *r, const unsigned char *bytes, uint64_t number)
{
    return r->version >= VERSION_DONE && get32(bytes + check_at(r, bytes)) ==
                                             (check_of_record(r, bytes, number) ^ CHECK_DONE);
}

/* Takes out of e what only a record that is done has: the protocol of a send, the bytes of an arrive.  Returns that; 0 there
 * is nothing. */
static uint64_t take_done(struct trace_event *e)
{
    uint64_t *field = e->type == TRACE_SEND                        ? &e->partner
                      : e->type == TRACE_ARRIVE && e->partner != 0 ? &e->amount
                                                                   : NULL;
    uint64_t value = field != NULL ? *field : 0;

    if (field != NULL)
        *field = 0;
    return value;
}

/* The number that a long record gives to its form; a version, or a flight recording, without forms has 0 there. */
static unsigned form_given(const unsigned char *bytes)
{
    return get32(bytes) >> 16;
}

/* Stores the fields of the record into *e.  Returns why the record is wrong, or NULL. */
static const char *get_record(const struct trace_reader *r, const unsigned char *bytes,
                              struct trace_event *e)
{
    if (record_size(r, bytes) != TRACE_RECORD_SIZE) {
        bool is_like = is_short(bytes) ? short_get(get64(bytes), get32(bytes + 8), r->forms, e)
                                       : tiny_get(bytes, r->forms, e);

        return is_like ? NULL : "it is like an event that is not there";
    }
    record_get(bytes, e);
    if (e->type == 0 || e->type >= TRACE_TYPES)
        return "it is of an unknown type";
    if (bytes[1] != 0 || (r->forms == NULL && form_given(bytes) != 0))
        return "field zero is not 0";
    return form_given(bytes) >= FORMS ? "its form has a number that is too large" : NULL;
}

/* Returns why an event is wrong, or NULL. */
static const char *check_event(const struct trace_event *e)
{
    unsigned shape = shapes[e->type];

    if (trace_is_name(e->type))
        return check_name(e);
    if (!(shape & HAS_ENVELOPE) && (e->context_id | e->source | e->tag) != 0)
        return "it has an envelope, which its type has not";
    if (!(shape & HAS_IGNORE) && e->source == TRACE_ANY_SOURCE)
        return "a message has no wildcards";
    if (!(shape & (HAS_IGNORE | HAS_AMOUNT)) && e->ignore != 0)
        return "a message has no wildcards";
    return check_numbers(shape, e->entry != 0, e->partner != 0);
}

/* Stores the record of this number into *e.  Returns why it is wrong, or NULL. */
static const char *check_record(const struct trace_reader *r, const unsigned char *bytes,
                                uint64_t number, struct trace_event *e)
{
    bool done = is_done(r, bytes, number);
    struct trace_event event;
    const char *reason;

    if (!done && get32(bytes + check_at(r, bytes)) != check_of_record(r, bytes, number))
        return "the check is wrong: the record is damaged or not in its place";
    reason = get_record(r, bytes, e);
    if (reason != NULL)
        return reason;
    event = *e;
    if (r->version >= VERSION_DONE && take_done(&event) == 0 && done)
        return "it is complete at once, and does not say how";
    return check_event(&event);
}

static bool is_trace(const unsigned char *bytes)
{
    return memcmp(bytes, TRACE_MAGIC, 8) == 0 || memcmp(bytes, FLIGHT_MAGIC, 8) == 0;
}

static const char *check_header(const unsigned char *bytes)
{
    if (!is_trace(bytes))
        return "this is no trace: it does not begin with " TRACE_MAGIC " or " FLIGHT_MAGIC;
    if (get32(bytes + HEADER_CHECK_AT) !=
        check_of(bytes, TRACE_HEADER_SIZE, HEADER_CHECK_AT, 0))
        return "the check of the header is wrong: it is damaged";
    if (get32(bytes + 12) != TRACE_RECORD_SIZE)
        return "the records are of another size";
    return NULL;
}

/* Writes the line of error; returns err. */
static int reader_fail(struct trace_reader *r, int err, uint64_t offset, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

static int reader_fail(struct trace_reader *r, int err, uint64_t offset, const char *format,
                       ...)
{
    int used =
        snprintf(r->error, sizeof r->error, "%s: at offset %" PRIu64 ": ", r->path, offset);
    va_list args;

    va_start(args, format);
    vsnprintf(r->error + used, sizeof r->error - (size_t)used, format, args);
    va_end(args);
    r->failed = err;
    return err;
}

/* *event has the fields of a record that is right: makes it the record's event.  If the record is done, also makes the
 * second one. */
static void reader_event(struct trace_reader *r, const unsigned char *bytes, uint64_t number,
                         struct trace_event *event)
{
    uint64_t value, met = event->partner;

    if (r->version < VERSION_DONE)
        return;
    value = take_done(event);
    r->has_second = value != 0 && is_done(r, bytes, number);
    r->second = (struct trace_event){
        .context_id = event->context_id, .source = event->source, .tag = event->tag};
    if (event->type == TRACE_SEND) {
        r->second.type = TRACE_SENT;
        r->second.amount = value;
        r->second.partner = event->entry;
    } else {
        r->second.type = TRACE_RECEIVED;
        r->second.amount = value - 1;
        r->second.entry = met;
    }
}

/* Reads until buffer holds size bytes from its start, or the file ends.  0 or a negative
 * errno. */
static int reader_fill(struct trace_reader *r, size_t size)
{
    while (r->held < size) {
        ssize_t more = sys_read(r->fd, r->buffer + r->held, size - r->held);

        if (more < 0)
            return -errno;
        if (more == 0)
            return 0;
        r->held += (size_t)more;
    }
    return 0;
}

static bool is_known(uint32_t version)
{
    return version >= TRACE_VERSION_READ && version <= TRACE_VERSION;
}

/* Is the check of the header right for one of the versions that are read here?  If so, only the field `version` is
 * damaged.  If not, the file may be of another version, whose check may be made in another way (1 and 2: of a shorter
 * header). */
static bool is_right_as_ours(const unsigned char *bytes)
{
    unsigned char ours[TRACE_HEADER_SIZE];

    memcpy(ours, bytes, sizeof ours);
    for (uint32_t version = TRACE_VERSION_READ; version <= TRACE_VERSION; version++) {
        put32(ours + 8, version);
        if (get32(bytes + HEADER_CHECK_AT) ==
            check_of(ours, TRACE_HEADER_SIZE, HEADER_CHECK_AT, 0))
            return true;
    }
    return false;
}

static int reader_header(struct trace_reader *r)
{
    const unsigned char *bytes = r->buffer;
    const char *reason;
    int err = reader_fill(r, TRACE_HEADER_SIZE);

    if (err < 0)
        return reader_fail(r, err, 0, "cannot be read: %s", strerrordesc_np(-err));
    if (r->held < TRACE_HEADER_SIZE)
        return reader_fail(r, -EBADMSG, r->held, "the file ends within the header");
    r->version = get32(bytes + 8);
    if (is_trace(bytes) && !is_known(r->version) && !is_right_as_ours(bytes))
        return reader_fail(r, -EBADMSG, 0,
                           "the trace is of another version of Matchbox: it has format %" PRIu32
                           ", and here formats %u to %u are read; mbx of the version that "
                           "wrote it reads it",
                           r->version, TRACE_VERSION_READ, TRACE_VERSION);
    reason = check_header(bytes);
    if (reason != NULL)
        return reader_fail(r, -EBADMSG, 0, "%s", reason);
    r->info = (struct trace_info){
        .rank = get32(bytes + 16),
        .pid = get32(bytes + 20),
        .endpoint = get32(bytes + 24),
        .start_ns = get64(bytes + 32),
        .host = get64(bytes + 40),
        .size = get32(bytes + 48),
        .address = get32(bytes + 52),
        .wall_ns = get64(bytes + 56),
    };
    r->held = 0;
    r->offset = TRACE_HEADER_SIZE;
    r->slots = memcmp(bytes, FLIGHT_MAGIC, 8) == 0; /* how many says reader_flight() */
    return 0;
}

static int reader_forms(struct trace_reader *r)
{
    if (r->version < VERSION_SHORT)
        return 0;
    r->forms = mem_calloc(1, sizeof *r->forms);
    return r->forms != NULL ? 0 : reader_fail(r, -ENOMEM, 0, "no memory");
}

/* ---- flight recordings ---- */

static const unsigned char *ring_record(const struct trace_reader *r, uint64_t number)
{
    return r->ring + number % r->slots * TRACE_RECORD_SIZE;
}

/* The count, as the file has it now.  0 or a negative errno. */
static int read_count(const struct trace_reader *r, uint64_t *count)
{
    unsigned char bytes[8];
    ssize_t got = sys_pread(r->fd, bytes, sizeof bytes, FLIGHT_COUNT_AT);

    if (got < 0)
        return -errno;
    if (got != sizeof bytes)
        return -EBADMSG;
    *count = get64(bytes);
    return 0;
}

/* The oldest events may have been overwritten while they were copied.  All events are left out
 * whose places were used again, by the count that was read after the copy.  The next place may
 * hold an event that is stored and not counted yet, so it is looked at.  In a copy of the file
 * the count is as old as the ring: if an event was overwritten there, the older ones are left out
 * with it, so that the events given out have no gap. */
static void skip_overwritten(struct trace_reader *r, uint64_t count_after)
{
    if (count_after > r->number + r->slots)
        r->number = min_size(count_after - r->slots, r->count);
    for (uint64_t i = r->number; i < r->count; i++) {
        const unsigned char *bytes = ring_record(r, i);
        struct trace_event event;

        if (check_record(r, bytes, i, &event) != NULL &&
            (i == r->number || check_record(r, bytes, i + r->slots, &event) == NULL))
            r->number = i + 1;
    }
}

/* The ring, at once.  0 or a negative errno. */
static int read_ring(struct trace_reader *r)
{
    size_t size = r->slots * TRACE_RECORD_SIZE, done = 0;

    while (done < size) {
        ssize_t more = sys_read(r->fd, r->ring + done, size - done);

        if (more < 0)
            return -errno;
        if (more == 0)
            return -EBADMSG;
        done += (size_t)more;
    }
    return 0;
}

static int reader_flight(struct trace_reader *r)
{
    struct trace_event first;
    uint64_t count_after = 0;
    int err = reader_fill(r, FLIGHT_HEADER_SIZE - TRACE_HEADER_SIZE);
    uint64_t slots = get64(r->buffer + FLIGHT_SLOTS_AT - TRACE_HEADER_SIZE);

    if (err < 0)
        return reader_fail(r, err, r->held, "cannot be read: %s", strerrordesc_np(-err));
    if (r->held < FLIGHT_HEADER_SIZE - TRACE_HEADER_SIZE || slots == 0 ||
        slots > FLIGHT_SLOTS_MAX)
        return reader_fail(r, -EBADMSG, TRACE_HEADER_SIZE,
                           "the header of the ring is missing or damaged");
    r->count = get64(r->buffer + FLIGHT_COUNT_AT - TRACE_HEADER_SIZE);
    r->ring = mem_alloc(slots * TRACE_RECORD_SIZE);
    if (r->ring == NULL)
        return reader_fail(r, -ENOMEM, 0, "no memory");
    r->slots = slots;
    r->held = 0;
    err = read_ring(r);
    if (err == 0)
        err = read_count(r, &count_after);
    if (err < 0)
        return reader_fail(r, err, FLIGHT_HEADER_SIZE, "%s",
                           err == -EBADMSG ? "the file ends within the ring"
                                           : strerrordesc_np(-err));
    r->number = r->count > slots ? r->count - slots : 0;
    skip_overwritten(r, count_after);
    if (r->number == r->count)
        return r->count == 0 ? 0
                             : reader_fail(r, -EBADMSG, FLIGHT_HEADER_SIZE,
                                           "no event of the ring is right: it is damaged, or "
                                           "written faster than it is read");
    record_get(ring_record(r, r->number), &first);
    r->last_ns = first.delta_ns;
    return 0;
}

/* A name.  1; 0 there are no more. */
static int next_name(struct trace_reader *r, struct trace_event *event)
{
    if (r->held - r->at < TRACE_RECORD_SIZE) {
        memmove(r->buffer, r->buffer + r->at, r->held - r->at);
        r->held -= r->at;
        r->at = 0;
        if (reader_fill(r, sizeof r->buffer) < 0 || r->held < TRACE_RECORD_SIZE)
            return 0;
    }
    if (check_record(r, r->buffer + r->at, r->records, event) != NULL)
        return 0; /* zeros, or one that was being written */
    if (!trace_is_name(event->type))
        return 0;
    r->at += TRACE_RECORD_SIZE;
    event->delta_ns = r->records++ == 0 ? r->last_ns : 0;
    return 1;
}

/* Names first, in the time of the oldest event. */
static int next_of_flight(struct trace_reader *r, struct trace_event *event)
{
    const char *reason;
    uint64_t time;

    if (r->failed != 0)
        return r->failed;
    if (!r->closed && next_name(r, event) == 1)
        return 1;
    if (!r->closed && r->records == 0)
        r->last_ns = 0;
    r->closed = true; /* of names */
    if (r->number == r->count)
        return 0;
    reason = check_record(r, ring_record(r, r->number), r->number, event);
    if (reason != NULL)
        return reader_fail(r, -EBADMSG,
                           FLIGHT_HEADER_SIZE + r->number % r->slots * TRACE_RECORD_SIZE,
                           "event %" PRIu64 ": %s", r->number, reason);
    reader_event(r, ring_record(r, r->number), r->number, event);
    time = event->delta_ns;
    if (time < r->last_ns)
        return reader_fail(r, -EBADMSG,
                           FLIGHT_HEADER_SIZE + r->number % r->slots * TRACE_RECORD_SIZE,
                           "event %" PRIu64 ": it is before the one before it", r->number);
    event->delta_ns = time - r->last_ns;
    r->last_ns = time;
    r->number++;
    r->records++;
    return 1;
}

int trace_open(struct trace_reader *r, const char *path)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    int err;

    *r = (struct trace_reader){.fd = foreign_open(path, O_RDONLY, &wanted)};
    err = r->fd < 0 ? r->fd : 0;
    snprintf(r->path, sizeof r->path, "%s", path);
    if (err < 0) {
        snprintf(r->error, sizeof r->error, "%s: cannot be opened: %s", r->path,
                 err == -EINVAL ? "it is no file" : strerrordesc_np(-err));
        return err;
    }
    err = reader_header(r);
    if (err == 0)
        err = trace_is_flight(r) ? reader_flight(r) : reader_forms(r);
    if (err < 0)
        trace_close(r);
    return err;
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Is there a whole record in the buffer? */
static bool reader_has_record(const struct trace_reader *r)
{
    size_t left = r->held - r->at;

    return left != 0 && left >= record_size(r, r->buffer + r->at);
}

/* No whole record is left in the buffer: reads on.  1 there is one now; 0 this was the
 * end; or an error. */
static int reader_more(struct trace_reader *r)
{
    size_t left = r->held - r->at;
    int err;

    memmove(r->buffer, r->buffer + r->at, left);
    r->at = 0;
    r->held = left;
    err = reader_fill(r, sizeof r->buffer);
    if (reader_has_record(r))
        return 1; /* an error will be met again, when these have been given out */
    if (err < 0)
        return reader_fail(r, err, r->offset, "cannot be read: %s", strerrordesc_np(-err));
    if (r->held != 0 && r->closed)
        return reader_fail(r, -EBADMSG, r->offset, "something follows the close");
    if (r->held != 0 && !is_zero(r->buffer, r->held))
        return reader_fail(r, -EBADMSG, r->offset,
                           "the file ends within a record, after %zu of %zu bytes", r->held,
                           record_size(r, r->buffer));
    if (!r->closed)
        return reader_fail(r, -EBADMSG, r->offset, NO_CLOSE);
    return 0;
}

/* Is everything after the record at r->at zero, as in a piece that a recorder had reserved before its process was
 * killed?  Nothing follows a record that ends a piece.  Nothing can be read after this call. */
static bool reader_is_unused(struct trace_reader *r)
{
    size_t size = record_size(r, r->buffer + r->at), at = r->at + size, seen = 0;
    size_t piece = r->version < VERSION_DONE ? PIECE_OF_VERSION_3 : TRACE_PIECE;
    bool ends_piece = (r->offset + size) % piece == 0;

    for (;;) {
        if (!is_zero(r->buffer + at, r->held - at))
            return false;
        seen += r->held - at;
        r->at = r->held = at = 0;
        if (reader_fill(r, sizeof r->buffer) < 0)
            return false;
        if (r->held == 0)
            return seen != 0 || ends_piece;
    }
}

/* The record at r->at is not right, for this reason. */
static int reader_wrong(struct trace_reader *r, const char *reason)
{
    const unsigned char *bytes = r->buffer + r->at;
    bool is_empty = is_zero(bytes, record_size(r, bytes));

    if (!reader_is_unused(r))
        return reader_fail(r, -EBADMSG, r->offset, "record %" PRIu64 ": %s", r->records,
                           reason);
    return reader_fail(r, -EBADMSG, r->offset,
                       is_empty ? NO_CLOSE
                                : "the file ends within a record: the program was ended");
}

/* Later short records may be like this one. */
static void reader_remember(struct trace_reader *r, const unsigned char *bytes,
                            const struct trace_event *event)
{
    if (r->forms == NULL)
        return;
    if (record_size(r, bytes) == TRACE_RECORD_SIZE)
        r->forms->forms[form_given(bytes)] = form_of(event);
    forms_read(r->forms, bytes, event);
}

int trace_next(struct trace_reader *r, struct trace_event *event)
{
    const unsigned char *bytes;
    const char *reason;

    if (r->has_second) {
        *event = r->second;
        r->has_second = false;
        return 1;
    }
    if (trace_is_flight(r))
        return next_of_flight(r, event);
    if (r->failed != 0)
        return r->failed;
    if (!reader_has_record(r)) {
        int more = reader_more(r);

        if (more <= 0)
            return more;
    }
    if (r->closed)
        return reader_fail(r, -EBADMSG, r->offset, "something follows the close");
    bytes = r->buffer + r->at;
    reason = check_record(r, bytes, r->records, event);
    if (reason != NULL)
        return reader_wrong(r, reason);
    reader_remember(r, bytes, event);
    reader_event(r, bytes, r->records, event);
    r->closed = event->type == TRACE_CLOSE;
    r->at += record_size(r, bytes);
    r->offset += record_size(r, bytes);
    r->records++;
    return 1;
}

void trace_close(struct trace_reader *r)
{
    if (r->fd >= 0)
        sys_close(r->fd);
    r->fd = -1;
    mem_free(r->ring);
    mem_free(r->forms);
    r->ring = NULL;
    r->forms = NULL;
}
