/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c - a trace file is written, and read back.
 *
 *   trace_record ─> window, a mapped part of the file ─> file ─> buffer ─> trace_next
 *
 * Both sides of the format of trace.h are here, each number put and got by one pair of
 * functions.
 *
 * The file is mapped, a window at a time, so a record is in it as soon as its last store is done:
 * a process that is killed loses none but the one that it was writing.  The file grows by pieces of
 * zeros, which are written before they are stored into: a store into a page that the disk has no room for would end
 * the process, and one into a page that is not there yet takes ten times as long.  Zeros that are left at the end are cut off by
 * trace_stop().
 *
 *     from                              ready             from + WINDOW
 *   ────|── records ──────|── zeros ──────|── not there yet ────|
 *                         at
 *
 * A reader believes nothing: a record is right if its check is, and if its fields are
 * what its type allows (`shapes`).  Whether the receives and messages that the numbers
 * name are there is for those to see who replay a trace.
 */
#include "trace/trace.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define WINDOW          ((size_t)1 << 20)  /* mapped at a time; a multiple of every page size */
#define WINDOW_ALIGN    ((size_t)64 << 10) /* where one begins: every page size divides it */
#define PIECE           WINDOW_ALIGN /* by which the file grows; so a window ends where a piece does */
#define FILES_MAX       65536        /* endpoints of processes with one number, in one folder */

#define NO_CLOSE        "the file ends without a close: the program was ended, or its disk was full"

#define CHECK_AT        12 /* in a record */
#define HEADER_CHECK_AT 28

static_assert(sizeof TRACE_MAGIC - 1 == 8, "the magic fills its field");

static const char *const type_names[TRACE_TYPES] = {
    [TRACE_POST] = "post",         [TRACE_ARRIVE] = "arrive",   [TRACE_CANCEL] = "cancel",
    [TRACE_PEEK] = "peek",         [TRACE_CLAIM] = "claim",     [TRACE_TAKE] = "take",
    [TRACE_DISCARD] = "discard",   [TRACE_CLOSE] = "close",     [TRACE_DEFER] = "defer",
    [TRACE_RTR] = "rtr",           [TRACE_MATCH] = "match",     [TRACE_LOCK] = "lock",
    [TRACE_GRANT] = "grant",       [TRACE_LOST] = "lost",       [TRACE_RETIRE] = "retire",
    [TRACE_PUBLISH] = "publish",   [TRACE_PULL] = "pull",       [TRACE_PULLED] = "pulled",
    [TRACE_ANNOUNCE] = "announce", [TRACE_VOID] = "void",       [TRACE_WRITE] = "write",
    [TRACE_PROGRAM] = "program",   [TRACE_CONTEXT] = "context", [TRACE_PEER] = "peer",
    [TRACE_SEND] = "send",         [TRACE_LEAVE] = "leave",     [TRACE_SENT] = "sent",
    [TRACE_RECEIVED] = "received", [TRACE_RTS] = "rts",         [TRACE_DATA] = "data",
    [TRACE_CTS] = "cts",           [TRACE_READ] = "read",       [TRACE_SHARE] = "share",
    [TRACE_FIN] = "fin",           [TRACE_HAND] = "hand",       [TRACE_WAIT] = "wait",
    [TRACE_WAITED] = "waited",     [TRACE_CLOCK] = "clock",
};

const char *trace_type_name(unsigned type)
{
    return type < TRACE_TYPES && type_names[type] != NULL ? type_names[type] : "unknown";
}

/* ---- the format ---- */

static void put32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static void put64(unsigned char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

/* The check goes over all words, the check itself, which is the upper half of one, taken as 0.  Each step can be
 * undone (the multiplier is odd), so a change in one word always changes the sum before it is folded. */
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

static uint32_t check_of(const unsigned char *bytes, size_t size, size_t check_at,
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

static void header_put(unsigned char *bytes, const struct trace_info *info)
{
    memset(bytes, 0, TRACE_HEADER_SIZE);
    memcpy(bytes, TRACE_MAGIC, 8);
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

/* Record number `number`.  The words are put together before any of them is stored: the check over what was just stored
 * in halves would wait for these stores. */
static inline void record_put(unsigned char *bytes, const struct trace_event *event,
                              uint64_t delta_ns, uint64_t number)
{
    const uint64_t words[TRACE_RECORD_SIZE / 8] = {
        (uint64_t)event->type /* and zero */ | (uint64_t)event->context_id << 32,
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

static void record_get(const unsigned char *bytes, struct trace_event *event)
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

/* ---- texts ---- */

#define TEXT_AT   24 /* in a record: ignore, entry and partner */
#define TEXT_SIZE 24
#define TEXT_MAX  (TEXT_SIZE * 64)

/* Record number `part` of a text. */
static void text_put(struct trace_event *event, const char *text, uint32_t part, uint32_t size)
{
    unsigned char bytes[TRACE_RECORD_SIZE] = {0};
    size_t length = strnlen(text, TEXT_MAX), at = (size_t)part * TEXT_SIZE;

    if (at < length)
        memcpy(bytes + TEXT_AT, text + at, min_size(length - at, TEXT_SIZE));
    event->tag = (uint64_t)part << 32 | size;
    event->ignore = get64(bytes + TEXT_AT);
    event->entry = get64(bytes + TEXT_AT + 8);
    event->partner = get64(bytes + TEXT_AT + 16);
}

bool trace_text_add(char *text, size_t size, const struct trace_event *event)
{
    unsigned char bytes[TRACE_RECORD_SIZE];
    size_t at = (size_t)(event->tag >> 32) * TEXT_SIZE;

    record_put(bytes, event, 0, 0);
    for (size_t i = 0; i < TEXT_SIZE; i++, at++) {
        unsigned char c = bytes[TEXT_AT + i];

        if (at < size)
            text[at] = (char)(c == 0 || (c >= ' ' && c != 0x7f) ? c : '?');
        if (c == 0)
            break;
    }
    text[min_size(at, size - 1)] = '\0';
    return at < (size_t)((event->tag >> 32) + 1) * TEXT_SIZE;
}

/* ---- recording ---- */

struct trace_recorder {
    int fd; /* -1 after a failure */
    struct trace_info info;
    uint64_t last_ns;
    uint64_t count;        /* records in the file */
    uint64_t at;           /* where the next one goes */
    unsigned char *window; /* [from, from + WINDOW) of the file, or NULL */
    uint64_t from;
    uint64_t ready; /* so long the file is: at most up to the end of the window */
    char path[512];
};

static void recorder_unmap(struct trace_recorder *r)
{
    if (r->window != NULL)
        sys_munmap(r->window, WINDOW);
    r->window = NULL;
}

/* Makes the window one that holds [at, at + size).  0 or a negative errno. */
static int recorder_map(struct trace_recorder *r, size_t size)
{
    if (r->window != NULL && r->at + size <= r->from + WINDOW)
        return 0;
    recorder_unmap(r);
    r->from = r->at / WINDOW_ALIGN * WINDOW_ALIGN;
    r->window = sys_mmap(WINDOW, r->fd, (off_t)r->from);
    return r->window != NULL ? 0 : -errno;
}

/* Makes [at, at + size) ready: the file grows by zeros.  0 or a negative errno. */
static OUT_OF_LINE int recorder_prepare(struct trace_recorder *r, size_t size)
{
    static const unsigned char zeros[PIECE];
    int err = recorder_map(r, size);

    while (err == 0 && r->ready < r->at + size) {
        ssize_t more = sys_write(r->fd, zeros, PIECE);

        if (more < 0)
            return -errno;
        if (more < (ssize_t)PIECE)
            return -ENOSPC;
        r->ready += PIECE;
    }
    return err;
}

/* As recorder_prepare(). */
static inline int recorder_room(struct trace_recorder *r, size_t size)
{
    return likely(r->at + size <= r->ready) ? 0 : recorder_prepare(r, size);
}

/* The first file of this process's that is not there yet.  A descriptor, or a negative
 * errno. */
static int recorder_create(struct trace_recorder *r, const char *folder)
{
    uint32_t host = (uint32_t)(r->info.host ^ r->info.host >> 32);

    for (uint32_t n = 0; n < FILES_MAX; n++) {
        int length = snprintf(r->path, sizeof r->path,
                              "%s/matchbox-%08" PRIx32 "-%" PRIu32 "-%" PRIu32 ".trace", folder,
                              host, r->info.pid, n);
        int fd;

        if (length < 0 || (size_t)length >= sizeof r->path)
            return -ENAMETOOLONG;
        fd = sys_open(r->path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) {
            r->info.endpoint = n;
            return fd;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

int trace_start(const char *folder, const struct trace_info *info, struct trace_recorder **out)
{
    struct trace_recorder *r = mem_alloc(sizeof *r);
    int err;

    if (r == NULL)
        return -ENOMEM;
    r->info = *info;
    r->info.pid = (uint32_t)getpid();
    r->fd = recorder_create(r, folder);
    if (r->fd < 0) {
        err = r->fd;
        goto free_recorder;
    }
    r->info.start_ns = r->last_ns = clock_now();
    r->info.wall_ns = clock_wall();
    r->count = 0;
    r->at = r->ready = 0;
    r->window = NULL;
    err = recorder_prepare(r, TRACE_HEADER_SIZE);
    if (err < 0)
        goto close_file;
    header_put(r->window, &r->info);
    r->at = TRACE_HEADER_SIZE;
    *out = r;
    return 0;

close_file:
    recorder_unmap(r);
    sys_close(r->fd);
    unlink(r->path);
free_recorder:
    mem_free(r);
    return err;
}

/* Closes the file behind its last record.  err, if it is not 0, is why; or else what goes wrong
 * here is said. */
static void recorder_end(struct trace_recorder *r, int err)
{
    int fd = r->fd;

    recorder_unmap(r);
    r->ready = 0;
    r->fd = -1;
    if (fd < 0)
        return;
    if (sys_ftruncate(fd, (off_t)r->at) < 0 && err == 0)
        err = -errno;
    if (sys_close(fd) < 0 && err == 0)
        err = -errno;
    if (err < 0)
        LOG_WARN("cannot go on recording to %s: %s; the trace ends, the program goes on",
                 r->path, strerrordesc_np(-err));
}

void trace_record(struct trace_recorder *r, const struct trace_event *event)
{
    unsigned char *record;
    uint64_t now;
    int err;

    assert(event->type > 0 && event->type < TRACE_TYPES);
    if (unlikely(r->fd < 0))
        return;
    err = recorder_room(r, TRACE_RECORD_SIZE);
    if (unlikely(err < 0)) {
        recorder_end(r, err);
        return;
    }
    record = r->window + (r->at - r->from);
    now = clock_now();
    record_put(record, event, now - r->last_ns, r->count);
    r->last_ns = now;
    r->at += TRACE_RECORD_SIZE;
    r->count++;
}

void trace_take_back(struct trace_recorder *r)
{
    unsigned char *record;

    if (r->fd < 0)
        return;
    assert(r->count > 0 && r->at - TRACE_RECORD_SIZE >= r->from);
    r->at -= TRACE_RECORD_SIZE;
    r->count--;
    record = r->window + (r->at - r->from);
    r->last_ns -= get64(record + 48);
    memset(record, 0, TRACE_RECORD_SIZE);
}

void trace_record_text(struct trace_recorder *r, enum trace_type type, uint32_t context_id,
                       uint32_t size, const char *text)
{
    struct trace_event event = {.type = type, .context_id = context_id};
    uint32_t parts = (uint32_t)(strnlen(text, TEXT_MAX - 1) / TEXT_SIZE + 1);

    for (uint32_t part = 0; part < parts; part++) {
        text_put(&event, text, part, size);
        trace_record(r, &event);
    }
}

void trace_stop(struct trace_recorder *r)
{
    uint64_t wall = r != NULL ? clock_wall() : 0;

    if (r == NULL)
        return;
    if (wall != 0)
        trace_record(r, &(struct trace_event){
                            .type = TRACE_CLOCK, .amount = wall, .entry = clock_now()});
    trace_record(r, &(struct trace_event){.type = TRACE_CLOSE});
    recorder_end(r, 0);
    mem_free(r);
}

/* ---- reading ---- */

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
    [TRACE_ANNOUNCE] = HAS_ENVELOPE | HAS_IGNORE | HAS_ENTRY,
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

/* What is wrong with the record of this number, or NULL. */
static const char *check_record(const unsigned char *bytes, uint64_t number)
{
    struct trace_event e;
    unsigned shape;

    if (get32(bytes + CHECK_AT) != check_of(bytes, TRACE_RECORD_SIZE, CHECK_AT, number))
        return "the check is wrong: the record is damaged or not in its place";
    record_get(bytes, &e);
    if (e.type == 0 || e.type >= TRACE_TYPES)
        return "it is of an unknown type";
    if (get32(bytes) != (uint32_t)e.type)
        return "field zero is not 0";
    if (trace_is_name(e.type))
        return check_name(&e);
    shape = shapes[e.type];
    if (!(shape & HAS_ENVELOPE) && (e.context_id | e.source | e.tag) != 0)
        return "it has an envelope, which its type has not";
    if (!(shape & HAS_IGNORE) && e.source == TRACE_ANY_SOURCE)
        return "a message has no wildcards";
    if (!(shape & (HAS_IGNORE | HAS_AMOUNT)) && e.ignore != 0)
        return "a message has no wildcards";
    return check_numbers(shape, e.entry != 0, e.partner != 0);
}

static const char *check_header(const unsigned char *bytes)
{
    if (memcmp(bytes, TRACE_MAGIC, 8) != 0)
        return "this is no trace: it does not begin with " TRACE_MAGIC;
    if (get32(bytes + 8) != TRACE_VERSION)
        return "the trace is of another version";
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

static uint64_t reader_offset(const struct trace_reader *r)
{
    return TRACE_HEADER_SIZE + r->records * TRACE_RECORD_SIZE;
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

static int reader_header(struct trace_reader *r)
{
    const unsigned char *bytes = r->buffer;
    const char *reason;
    int err = reader_fill(r, TRACE_HEADER_SIZE);

    if (err < 0)
        return reader_fail(r, err, 0, "cannot be read: %s", strerrordesc_np(-err));
    if (r->held < TRACE_HEADER_SIZE)
        return reader_fail(r, -EBADMSG, r->held, "the file ends within the header");
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
    return 0;
}

int trace_open(struct trace_reader *r, const char *path)
{
    int err;

    *r = (struct trace_reader){.fd = sys_open(path, O_RDONLY, 0)};
    err = r->fd < 0 ? -errno : 0;
    snprintf(r->path, sizeof r->path, "%s", path);
    if (err < 0) {
        snprintf(r->error, sizeof r->error, "%s: cannot be opened: %s", r->path,
                 strerrordesc_np(-err));
        return err;
    }
    err = reader_header(r);
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

/* No whole record is left in the buffer: reads on.  1 there is one now; 0 this was the
 * end; or an error. */
static int reader_more(struct trace_reader *r)
{
    uint64_t offset = reader_offset(r);
    size_t left = r->held - r->at;
    int err;

    memmove(r->buffer, r->buffer + r->at, left);
    r->at = 0;
    r->held = left;
    err = reader_fill(r, sizeof r->buffer);
    if (r->held >= TRACE_RECORD_SIZE)
        return 1; /* an error will be met again, when these have been given out */
    if (err < 0)
        return reader_fail(r, err, offset, "cannot be read: %s", strerrordesc_np(-err));
    if (r->held != 0 && (r->closed || !is_zero(r->buffer, r->held)))
        return reader_fail(r, -EBADMSG, offset,
                           r->closed ? "something follows the close"
                                     : "the file ends within a record, after %zu of %d bytes",
                           r->held, TRACE_RECORD_SIZE);
    if (!r->closed)
        return reader_fail(r, -EBADMSG, offset, NO_CLOSE);
    return 0;
}

/* Is there something behind the record at r->at, and is all of it zero: what a recorder had
 * reserved that did not come to its end?  Nothing can be read after this. */
static bool reader_is_unused(struct trace_reader *r)
{
    size_t at = r->at + TRACE_RECORD_SIZE, seen = 0;

    for (;;) {
        if (!is_zero(r->buffer + at, r->held - at))
            return false;
        seen += r->held - at;
        r->at = r->held = at = 0;
        if (reader_fill(r, sizeof r->buffer) < 0)
            return false;
        if (r->held == 0)
            return seen != 0;
    }
}

/* The record at r->at is not right, for this reason. */
static int reader_wrong(struct trace_reader *r, const char *reason)
{
    bool is_empty = is_zero(r->buffer + r->at, TRACE_RECORD_SIZE);

    if (!reader_is_unused(r))
        return reader_fail(r, -EBADMSG, reader_offset(r), "record %" PRIu64 ": %s", r->records,
                           reason);
    return reader_fail(r, -EBADMSG, reader_offset(r),
                       is_empty ? NO_CLOSE
                                : "the file ends within a record: the program was ended");
}

int trace_next(struct trace_reader *r, struct trace_event *event)
{
    const unsigned char *bytes;
    const char *reason;

    if (r->failed != 0)
        return r->failed;
    if (r->held - r->at < TRACE_RECORD_SIZE) {
        int more = reader_more(r);

        if (more <= 0)
            return more;
    }
    if (r->closed)
        return reader_fail(r, -EBADMSG, reader_offset(r), "something follows the close");
    bytes = r->buffer + r->at;
    reason = check_record(bytes, r->records);
    if (reason != NULL)
        return reader_wrong(r, reason);
    record_get(bytes, event);
    r->closed = event->type == TRACE_CLOSE;
    r->at += TRACE_RECORD_SIZE;
    r->records++;
    return 1;
}

void trace_close(struct trace_reader *r)
{
    if (r->fd >= 0)
        sys_close(r->fd);
    r->fd = -1;
}
