/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c - the record of a rank, event by event.
 *
 * A record is data of somebody else: whatever its bytes are, reading it yields an error, or events that a program can have
 * made.  A mistake after the header ends the record at this place: the events before it are valid.
 *
 * A cursor holds one chunk in memory, and after the last chunk the ring; and all of rank-R.mbxlate, sorted.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "base/sys.h"
#include "replay/code.h"
#include "replay/places.h"

/* More entries than this nobody has memory for. */
#define LATE_MAX (UINT64_C(1) << 24)

struct late {
    uint64_t number, value;
    uint8_t kind, result, size_class;
};

struct replay_reader {
    int fd;
    struct replay_job job;
    uint64_t flags, late_wanted; /* of a complete record: entries of the other file */
    uint64_t items, end;         /* commit: items in chunks, where these end */
    uint64_t events;             /* all that can be read */
    struct late *late;
    size_t late_count;
    struct replay_read_places places;
    /* where the cursor is */
    uint64_t offset, first, number, receives;
    uint32_t chunk;
    bool is_in_ring, has_ended;
    size_t at, count;
    struct code code; /* at the end of the chunk that is here */
    struct replay_signature signatures[FORMAT_SIGNATURES]; /* at the cursor */
    struct format_item_words now[FORMAT_RING], ring[FORMAT_RING];
    size_t ring_count;
    unsigned char bytes[sizeof(struct format_chunk) + FORMAT_CHUNK_BYTES + 8];
    char path[PATH_MAX], damage[PATH_MAX + 160];
};

/* ---- files ---- */

static int replay_read_fail(char *error, size_t size, int err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int replay_read_fail(char *error, size_t size, int err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return err;
}

/* Exactly so many bytes; false: they are not there. */
static bool read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
    char *at = bytes;

    while (size > 0) {
        ssize_t got = sys_pread(fd, at, size, (off_t)offset);

        if (got <= 0)
            return false;
        at += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

static int file_open(const char *path, char *error, size_t error_size)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    int fd = foreign_open(path, O_RDONLY, &wanted);

    return fd >= 0
               ? fd
               : replay_read_fail(error, error_size, fd, "%s: %s", path, strerrordesc_np(-fd));
}

static uint64_t file_size(int fd)
{
    struct stat status;

    return sys_fstat(fd, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size : 0;
}

/* ---- the header ---- */

static int header_take(struct replay_reader *r, uint32_t rank, const unsigned char *page,
                       char *error, size_t error_size)
{
    struct format_header header;

    memcpy(&header, page, sizeof header);
    if (header.magic != FORMAT_MAGIC)
        return replay_read_fail(error, error_size, -EBADMSG, "%s is not a record", r->path);
    if (header.version != FORMAT_VERSION)
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is in format %u; this version reads format %u", r->path,
                                header.version, FORMAT_VERSION);
    if (header.check != FORMAT_CHECK(header))
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is damaged at byte 0: the checksum of the header is wrong",
                                r->path);
    if (header.rank != rank || header.size <= rank)
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is the record of rank %u of %u", r->path, header.rank,
                                header.size);
    r->job = (struct replay_job){.rank = rank,
                                 .size = header.size,
                                 .pid = header.pid,
                                 .threads = header.threads,
                                 .wall_ns = header.wall_ns,
                                 .arguments = header.arguments,
                                 .mpi = header.mpi};
    memcpy(r->job.build, header.build, sizeof r->job.build);
    return 0;
}

/* Which slot of the commit holds, and the flags. */
static int end_take(struct replay_reader *r, const unsigned char *page, char *error,
                    size_t error_size)
{
    struct format_commit slots[2];
    struct format_end end;
    const struct format_commit *slot;

    memcpy(slots, page + FORMAT_COMMIT_AT, sizeof slots);
    memcpy(&end, page + FORMAT_END_AT, sizeof end);
    slot = &slots[slots[1].number > slots[0].number];
    if (end.flags & REPLAY_COMPLETE &&
        end.check != hash_bytes(page, FORMAT_END_AT + offsetof(struct format_end, check)))
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is damaged at byte %u: the checksum of the end is wrong",
                                r->path, FORMAT_END_AT);
    r->flags = end.flags;
    r->late_wanted = end.flags & REPLAY_COMPLETE ? end.late : 0;
    r->items = slot->items;
    r->end = slot->end;
    if (slot->number == 0 || r->end < FORMAT_CHUNKS_AT || r->end > file_size(r->fd))
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is damaged at byte %u: it ends too early", r->path,
                                FORMAT_COMMIT_AT);
    return 0;
}

/* The items that had not left the ring. */
static void ring_take(struct replay_reader *r)
{
    for (; r->ring_count < FORMAT_RING; r->ring_count++) {
        uint64_t item = r->items + r->ring_count;
        uint64_t word = r->ring[item % FORMAT_RING].word;

        if (format_type(word) == FORMAT_EMPTY ||
            format_lap(word) != (item / FORMAT_RING & 0xff))
            break;
    }
}

/* ---- outcomes that became known late ---- */

static int late_compare(const void *a, const void *b)
{
    const struct late *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool late_is_right(const struct format_late_one *one)
{
    return one->check == FORMAT_CHECK(*one) &&
           (one->kind == FORMAT_LATE_CANCELLED ||
            (one->kind == FORMAT_LATE_OUTCOME && one->result < REPLAY_RESULTS &&
             one->size_class < 16));
}

static int late_take(struct replay_reader *r, int fd, const char *path, char *error,
                     size_t error_size)
{
    uint64_t count = file_size(fd) / FORMAT_LATE_SIZE;
    struct format_late_one one;

    if (count > LATE_MAX)
        return replay_read_fail(error, error_size, -EFBIG, "%s is too long", path);
    r->late = mem_calloc((size_t)count, sizeof r->late[0]);
    if (r->late == NULL)
        return replay_read_fail(error, error_size, -ENOMEM, "%s: no memory", path);
    for (uint64_t i = 0; i < count; i++) {
        if (!read_at(fd, &one, sizeof one, i * FORMAT_LATE_SIZE) || !late_is_right(&one))
            return replay_read_fail(error, error_size, -EBADMSG,
                                    "%s is damaged at byte %llu: the checksum is wrong", path,
                                    (unsigned long long)(i * FORMAT_LATE_SIZE));
        r->late[r->late_count++] = (struct late){.number = one.number,
                                                 .value = one.value,
                                                 .kind = (uint8_t)one.kind,
                                                 .result = (uint8_t)one.result,
                                                 .size_class = (uint8_t)one.size_class};
    }
    qsort(r->late, r->late_count, sizeof r->late[0], late_compare);
    return 0;
}

static int late_open(struct replay_reader *r, const char *folder, char *error,
                     size_t error_size)
{
    char path[PATH_MAX];
    int fd, err = 0;

    snprintf(path, sizeof path, "%s/rank-%u.mbxlate", folder, r->job.rank);
    fd = file_open(path, error, error_size);
    if (fd >= 0) {
        err = late_take(r, fd, path, error, error_size);
        sys_close(fd);
    } else if (fd != -ENOENT) {
        return fd;
    }
    if (err == 0 && r->late_count < r->late_wanted)
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s ends too early: it has %zu of %llu entries", path,
                                r->late_count, (unsigned long long)r->late_wanted);
    return err;
}

static const struct late *late_find(const struct replay_reader *r, enum format_late kind,
                                    uint64_t number)
{
    const struct late key = {.number = number, .kind = (uint8_t)kind};

    return r->late_count == 0 ? NULL
                              : bsearch(&key, r->late, r->late_count, sizeof key, late_compare);
}

bool replay_read_is_cancelled(const struct replay_reader *r, uint64_t receive)
{
    return late_find(r, FORMAT_LATE_CANCELLED, receive) != NULL;
}

/* Outcomes come before them, as they are sorted. */
uint64_t replay_read_cancelled(const struct replay_reader *r, size_t n)
{
    size_t first = 0;

    while (first < r->late_count && r->late[first].kind != FORMAT_LATE_CANCELLED)
        first++;
    return n < r->late_count - first ? r->late[first + n].number : 0;
}

/* ---- the cursor ---- */

static void rewind_all(struct replay_reader *r)
{
    memset(&r->code, 0, sizeof r->code);
    r->offset = FORMAT_CHUNKS_AT;
    r->first = r->number = r->receives = 0;
    r->chunk = 0;
    r->is_in_ring = r->has_ended = false;
    r->at = r->count = 0;
}

/* The record ends here. */
static void damage(struct replay_reader *r, uint64_t offset, const char *what)
{
    r->has_ended = true;
    r->at = r->count = 0;
    snprintf(r->damage, sizeof r->damage,
             "%s is damaged at byte %llu: %s; the record can be replayed up to event %llu",
             r->path, (unsigned long long)offset, what, (unsigned long long)r->number);
}

static bool chunk_take(struct replay_reader *r)
{
    struct format_chunk *chunk = (struct format_chunk *)(void *)r->bytes;
    char what[64];
    uint64_t check;
    size_t size;

    snprintf(what, sizeof what, "block %u is not whole", r->chunk);
    if (r->end - r->offset < sizeof *chunk ||
        !read_at(r->fd, r->bytes, sizeof *chunk, r->offset) || chunk->number != r->chunk ||
        chunk->first != r->first || chunk->bytes > FORMAT_CHUNK_BYTES || chunk->items == 0 ||
        chunk->items > FORMAT_CHUNK_ITEMS ||
        round_up(chunk->bytes, 8) > r->end - r->offset - sizeof *chunk ||
        !read_at(r->fd, r->bytes + sizeof *chunk, round_up(chunk->bytes, 8),
                 r->offset + sizeof *chunk)) {
        damage(r, r->offset, what);
        return false;
    }
    size = sizeof *chunk + round_up(chunk->bytes, 8);
    check = chunk->check;
    chunk->check = 0;
    snprintf(what, sizeof what, "the checksum of block %u is wrong", r->chunk);
    if (check != hash_bytes(r->bytes, size) ||
        !code_read(&r->code, r->bytes + sizeof *chunk, chunk->bytes, r->now, chunk->items)) {
        damage(r, r->offset, what);
        return false;
    }
    r->offset += size;
    r->first += chunk->items;
    r->chunk++;
    r->at = 0;
    r->count = chunk->items;
    return true;
}

/* The next item; NULL at the end. */
static const struct format_item_words *item_next(struct replay_reader *r)
{
    while (r->at == r->count) {
        if (r->has_ended)
            return NULL;
        if (r->offset < r->end) {
            if (!chunk_take(r))
                return NULL;
        } else if (r->first != r->items) {
            damage(r, r->offset, "blocks are missing");
            return NULL;
        } else {
            r->is_in_ring = r->has_ended = true;
            r->at = 0;
            r->count = r->ring_count;
        }
    }
    return r->is_in_ring ? &r->ring[(r->items + r->at++) % FORMAT_RING] : &r->now[r->at++];
}

/* Sets the outcome of a receive that became known after its item had left the ring. */
static void late_apply(const struct replay_reader *r, struct replay_outcome *outcome)
{
    const struct late *late = late_find(r, FORMAT_LATE_OUTCOME, r->receives);

    if (late != NULL && outcome->result == REPLAY_OPEN)
        *outcome = (struct replay_outcome){late->value, late->result, late->size_class};
}

/* A rank that has not closed its record was killed, and others perhaps before it, which ends its receives by an error: no
 * message had come for them.  A probe that ended so is where the rank was killed: false, the record ends. */
static bool undo_failure(struct replay_reader *r, struct replay_event *event)
{
    if (event->outcome.result != REPLAY_FAILED || r->flags & REPLAY_COMPLETE)
        return true;
    event->outcome = (struct replay_outcome){.result = REPLAY_OPEN};
    if (replay_is_receive(event->signature.kind))
        return true;
    r->has_ended = true;
    r->at = r->count = 0;
    return false;
}

bool replay_read_next(struct replay_reader *r, struct replay_event *event)
{
    const struct format_item_words *item;

    while ((item = item_next(r)) != NULL) {
        /* chunks are right by their checksum; the ring has none */
        if (r->is_in_ring && !code_is_right(&r->code, item)) {
            damage(r, FORMAT_RING_AT, "the ring has something else");
            return false;
        }
        if (r->is_in_ring)
            code_note(&r->code, item);
        if (format_type(item->word) == FORMAT_DEFINITION) {
            r->signatures[format_slot(item->word)] = code_defined(item);
            continue;
        }
        *event = (struct replay_event){.signature = r->signatures[format_slot(item->word)],
                                       .outcome = {item->value, (uint8_t)format_a(item->word),
                                                   (uint8_t)format_b(item->word)},
                                       .times = format_count(item->word),
                                       .number = r->number + 1};
        if (replay_is_receive(event->signature.kind)) {
            r->receives++;
            late_apply(r, &event->outcome);
        }
        if (!undo_failure(r, event))
            return false;
        if (!replay_is_detail(event->signature.kind))
            r->number += event->times;
        return true;
    }
    return false;
}

/* ---- opening ---- */

static int reader_load(struct replay_reader *r, const char *folder, uint32_t rank, char *error,
                       size_t error_size)
{
    unsigned char page[FORMAT_RING_AT];
    struct replay_event event;
    int err;

    if (!read_at(r->fd, page, sizeof page, 0) ||
        !read_at(r->fd, r->ring, sizeof r->ring, FORMAT_RING_AT))
        return replay_read_fail(error, error_size, -EBADMSG,
                                "%s is damaged at byte %llu: it ends too early", r->path,
                                (unsigned long long)file_size(r->fd));
    err = header_take(r, rank, page, error, error_size);
    if (err == 0)
        err = end_take(r, page, error, error_size);
    if (err == 0)
        err = late_open(r, folder, error, error_size);
    if (err < 0)
        return err;
    places_read(&r->places, folder, rank);
    ring_take(r);
    rewind_all(r);
    while (replay_read_next(r, &event))
        r->events = r->number;
    rewind_all(r);
    return 0;
}

int replay_read_open(const char *folder, uint32_t rank, struct replay_reader **out, char *error,
                     size_t error_size)
{
    struct replay_reader *r = mem_calloc(1, sizeof *r);
    int err, length;

    if (r == NULL)
        return replay_read_fail(error, error_size, -ENOMEM, "no memory for a record");
    length = snprintf(r->path, sizeof r->path, "%s/rank-%u.mbxrec", folder, rank);
    r->fd = length < 0 || (size_t)length >= sizeof r->path
                ? replay_read_fail(error, error_size, -ENAMETOOLONG,
                                   "the name of the folder is too long")
                : file_open(r->path, error, error_size);
    err = r->fd < 0 ? r->fd : reader_load(r, folder, rank, error, error_size);
    if (err < 0) {
        replay_read_close(r);
        return err;
    }
    *out = r;
    return 0;
}

const struct replay_job *replay_read_job(const struct replay_reader *r)
{
    return &r->job;
}

unsigned replay_read_flags(const struct replay_reader *r)
{
    return (unsigned)(r->flags & (REPLAY_COMPLETE | REPLAY_CUT | REPLAY_THREADS |
                                  REPLAY_UNSEEN | REPLAY_BEGINNING | REPLAY_SINGLE)) &
           (r->damage[0] != '\0' ? ~(unsigned)REPLAY_COMPLETE : ~0u);
}

uint64_t replay_read_events(const struct replay_reader *r)
{
    return r->events;
}

const char *replay_read_damage(const struct replay_reader *r)
{
    return r->damage;
}

const char *replay_read_unplaced(const struct replay_reader *r)
{
    return r->places.wrong;
}

const char *replay_read_place(const struct replay_reader *r, uint16_t place, uint64_t *at)
{
    return places_find(&r->places, place, at);
}

void replay_read_close(struct replay_reader *r)
{
    if (r == NULL)
        return;
    places_read_fini(&r->places);
    if (r->fd >= 0)
        sys_close(r->fd);
    mem_free(r->late);
    mem_free(r);
}
