/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c - writes a trace file.
 *
 *   trace_record ─> the mapped part of the file ─> file
 *
 * The file is mapped, a part at a time, so a record is in it as soon as its last store is done: a process that is killed
 * loses only the record that it was writing.  The file grows by pieces of zeros, which are written before records are stored
 * into them: a store into a page for which the disk has no space would end the process, and a store into a page that is not
 * there yet takes ten times as long.  Large pieces cost less for each page, because the system makes and maps several pages
 * together.  trace_stop() cuts off the zeros that are left at the end.
 *
 *     from                              ready             from + MAPPED_SIZE
 *   ────|── records ──────|── zeros ──────|── not there yet ────|
 *                         at
 *
 * To make the pages costs more than to store the records: so a record is short if it can be (short.h).
 *
 * A flight recording has the same recorder, whose events go to flight.c, and no short records: it needs no new pages, and
 * a short record could refer to one that is overwritten.
 */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/ticks.h"
#include "trace/flight.h"
#include "trace/format.h"
#include "trace/short.h"

#define MAPPED_SIZE  ((size_t)4 << 20) /* mapped at a time; a multiple of every page size */
#define MAPPED_ALIGN TRACE_PIECE       /* where one begins: every page size divides it */
#define PIECE        TRACE_PIECE       /* so a mapped part ends where a piece does */
#define FILES_MAX    65536 /* endpoints of processes with one number, in one folder */

static const char *const type_names[TRACE_TYPES] = {
    [TRACE_POST] = "post",
    [TRACE_ARRIVE] = "arrive",
    [TRACE_CANCEL] = "cancel",
    [TRACE_PEEK] = "peek",
    [TRACE_CLAIM] = "claim",
    [TRACE_TAKE] = "take",
    [TRACE_DISCARD] = "discard",
    [TRACE_DROP] = "drop",
    [TRACE_CLOSE] = "close",
    [TRACE_DEFER] = "defer",
    [TRACE_RTR] = "rtr",
    [TRACE_MATCH] = "match",
    [TRACE_LOCK] = "lock",
    [TRACE_GRANT] = "grant",
    [TRACE_LOST] = "lost",
    [TRACE_RETIRE] = "retire",
    [TRACE_PUBLISH] = "publish",
    [TRACE_PULL] = "pull",
    [TRACE_PULLED] = "pulled",
    [TRACE_ADVERTISE] = "announce",
    [TRACE_VOID] = "void",
    [TRACE_WRITE] = "write",
    [TRACE_PROGRAM] = "program",
    [TRACE_CONTEXT] = "context",
    [TRACE_PEER] = "peer",
    [TRACE_SEND] = "send",
    [TRACE_LEAVE] = "leave",
    [TRACE_SENT] = "sent",
    [TRACE_RECEIVED] = "received",
    [TRACE_RTS] = "rts",
    [TRACE_DATA] = "data",
    [TRACE_CTS] = "cts",
    [TRACE_READ] = "read",
    [TRACE_SHARE] = "share",
    [TRACE_FIN] = "fin",
    [TRACE_HAND] = "hand",
    [TRACE_WAIT] = "wait",
    [TRACE_WAITED] = "waited",
    [TRACE_CLOCK] = "clock",
    [TRACE_PLACE] = "place",
    [TRACE_AT] = "at",
    [TRACE_EVENT] = "event",
    [TRACE_REPORTED] = "reported",
};

const char *trace_type_name(unsigned type)
{
    return type < TRACE_TYPES && type_names[type] != NULL ? type_names[type] : "unknown";
}

/* Record number `part` of a text. */
static void text_put(struct trace_event *event, const char *text, uint32_t part, uint32_t size)
{
    unsigned char bytes[TRACE_RECORD_SIZE] = {0};
    size_t length = min_size(strlen(text), TEXT_MAX), at = (size_t)part * TEXT_SIZE;

    if (at < length)
        memcpy(bytes + TEXT_AT, text + at, min_size(length - at, TEXT_SIZE));
    event->tag = (uint64_t)part << 32 | size;
    event->ignore = get64(bytes + TEXT_AT);
    event->entry = get64(bytes + TEXT_AT + 8);
    event->partner = get64(bytes + TEXT_AT + 16);
}

/* ---- recording ---- */

struct trace_recorder {
    unsigned char
        *next;       /* where the next record goes, if there is space; NULL after a failure */
    size_t space;    /* bytes from there on that may be stored into */
    uint64_t number; /* of the next record; of a flight recording names are not counted */
    uint64_t last_ns;
    unsigned char *check;  /* of the last record, while next is not NULL */
    struct flight *flight; /* or NULL: a trace */
    struct forms *forms;   /* of a trace */
    struct ticks ticks;
    struct trace_info info;
    int fd; /* -1 after a failure */
    /* of a trace */
    unsigned char *mapped; /* [from, from + MAPPED_SIZE) of the file, or NULL */
    uint64_t from;
    uint64_t at;    /* where the next record goes; means something while nothing is mapped */
    uint64_t ready; /* so long the file is: at most up to the end of the mapped part */
    size_t ring;    /* of a flight recording: its bytes */
    char path[PATH_MAX]; /* "": a memory file */
};

/* Where the next record goes in the file. */
static uint64_t recorder_at(const struct trace_recorder *r)
{
    return r->mapped != NULL ? r->from + (uint64_t)(r->next - r->mapped) : r->at;
}

static void recorder_unmap(struct trace_recorder *r)
{
    r->at = recorder_at(r);
    if (r->mapped != NULL)
        sys_munmap(r->mapped, MAPPED_SIZE);
    r->mapped = r->next = NULL;
    r->space = 0;
}

/* Maps a part that holds so many bytes more.  0 or a negative errno. */
static int recorder_map(struct trace_recorder *r, size_t size)
{
    if (r->mapped != NULL && recorder_at(r) + size <= r->from + MAPPED_SIZE)
        return 0;
    recorder_unmap(r);
    r->from = r->at / MAPPED_ALIGN * MAPPED_ALIGN;
    r->mapped = sys_mmap(MAPPED_SIZE, r->fd, (off_t)r->from);
    if (r->mapped == NULL)
        return -errno;
    r->next = r->mapped + (r->at - r->from);
    return 0;
}

/* Makes so many bytes more ready: the file grows by zeros.  0 or a negative errno. */
static int recorder_prepare(struct trace_recorder *r, size_t size)
{
    static unsigned char zeros[PIECE]; /* not const: then they would be in the library's file */
    int err = recorder_map(r, size);

    while (err == 0 && r->ready < recorder_at(r) + size) {
        ssize_t more = sys_write_file(r->fd, zeros, PIECE);

        if (more < 0)
            return -errno;
        if (more < (ssize_t)PIECE)
            return -ENOSPC;
        r->ready += PIECE;
    }
    if (err == 0)
        r->space = r->ready - recorder_at(r);
    return err;
}

/* The first file of this process's that is not there yet.  A descriptor, or a negative
 * errno.  The path is absolute: a program may change its folder before the file is removed. */
static int recorder_create(struct trace_recorder *r, const char *folder, const char *kind)
{
    uint32_t host = (uint32_t)(r->info.host ^ r->info.host >> 32);
    size_t used = 0;

    if (folder[0] != '/' && getcwd(r->path, sizeof r->path - 1) != NULL && r->path[0] == '/') {
        used = strlen(r->path);
        r->path[used++] = '/';
    }
    for (uint32_t n = 0; n < FILES_MAX; n++) {
        int length = snprintf(r->path + used, sizeof r->path - used,
                              "%s/matchbox-%08" PRIx32 "-%" PRIu32 "-%" PRIu32 ".%s", folder,
                              host, r->info.pid, n, kind);
        int fd;

        if (length < 0 || (size_t)length >= sizeof r->path - used)
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

/* Makes a recorder, and the file of this kind in the folder; without a folder one of memory.
 * 0 or a negative errno. */
static int recorder_open(const char *folder, const char *kind, const struct trace_info *info,
                         struct trace_recorder **out)
{
    struct trace_recorder *r = mem_calloc(1, sizeof *r);
    int err;

    if (r == NULL)
        return -ENOMEM;
    r->info = *info;
    r->info.pid = (uint32_t)getpid();
    if (folder != NULL)
        r->fd = recorder_create(r, folder, kind);
    else if ((r->fd = sys_memfd_create(FLIGHT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0)
        r->fd = -errno;
    if (r->fd < 0) {
        err = r->fd;
        mem_free(r);
        return err;
    }
    ticks_start(&r->ticks);
    r->info.start_ns = r->last_ns = ticks_now(&r->ticks);
    r->info.wall_ns = clock_wall();
    *out = r;
    return 0;
}

/* Takes back recorder_open(). */
static void recorder_drop(struct trace_recorder *r)
{
    recorder_unmap(r);
    if (r->fd >= 0)
        sys_close(r->fd);
    if (r->path[0] != '\0')
        unlink(r->path);
    mem_free(r->forms);
    mem_free(r);
}

int trace_start(const char *folder, const struct trace_info *info, struct trace_recorder **out)
{
    struct trace_recorder *r;
    int err = recorder_open(folder, "trace", info, &r);

    if (err < 0)
        return err;
    r->forms = mem_calloc(1, sizeof *r->forms);
    err = r->forms != NULL ? recorder_prepare(r, TRACE_HEADER_SIZE) : -ENOMEM;
    if (err < 0) {
        recorder_drop(r);
        return err;
    }
    header_put(r->next, TRACE_MAGIC, &r->info);
    r->next += TRACE_HEADER_SIZE;
    r->space -= TRACE_HEADER_SIZE;
    *out = r;
    return 0;
}

int trace_start_flight(const char *folder, uint64_t events, const struct trace_info *info,
                       struct trace_recorder **out)
{
    struct trace_recorder *r;
    int err = recorder_open(folder, "flight", info, &r);

    if (err < 0)
        return err;
    err = flight_open(r->fd, events, &r->info, &r->flight);
    if (err < 0)
        goto drop;
    /* who opens a memory file of this process may not make it shorter: a store would end the
     * process */
    if (folder == NULL &&
        sys_fcntl_seal(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        err = -errno;
        goto close_flight;
    }
    r->next = flight_ring(r->flight);
    r->space = r->ring = events * TRACE_RECORD_SIZE;
    *out = r;
    return 0;

close_flight:
    flight_close(r->flight);
drop:
    recorder_drop(r);
    return err;
}

/* Cuts the file after its last record and closes it.  err: the error that ends the recording, or
 * 0; then an error of this call is reported. */
static void recorder_end(struct trace_recorder *r, int err)
{
    int fd = r->fd;

    recorder_unmap(r);
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

/* Makes space for a record: the ring begins anew, the file grows.  False: nothing is recorded any more. */
static OUT_OF_LINE bool recorder_make_space(struct trace_recorder *r)
{
    int err;

    if (r->flight != NULL) {
        r->next = flight_ring(r->flight);
        r->space = r->ring;
        return true;
    }
    if (r->fd < 0)
        return false;
    err = recorder_prepare(r, TRACE_RECORD_SIZE);
    if (err < 0)
        recorder_end(r, err);
    return err == 0;
}

static OUT_OF_LINE void recorder_name(struct trace_recorder *r, const struct trace_event *event)
{
    int err = flight_name(r->flight, event);

    if (err < 0)
        LOG_WARN("the flight recording (MBX_FLIGHT) has no space for more names of peers and "
                 "communicators: %s; they are numbers in it",
                 strerrordesc_np(-err));
}

/* Puts a record whose form differs from the last one of its type, or that cannot be short. */
static OUT_OF_LINE size_t recorder_put_other(struct trace_recorder *r,
                                             const struct trace_event *event, uint64_t delta_ns,
                                             bool fits, uint64_t numbers)
{
    struct forms_last *last = &r->forms->last[event->type];
    unsigned number = form_number(event);
    struct form *form = &r->forms->forms[number];

    last->number = number;
    last->first = short_first(number);
    if (fits && form_is_of(form, event)) {
        last->word = last->first | numbers;
        short_put(r->next, last->word, delta_ns, r->number);
        return TRACE_SHORT_SIZE;
    }
    last->word = 0;
    *form = form_of(event);
    record_put(r->next, event, delta_ns, r->number, number);
    return TRACE_RECORD_SIZE;
}

/* Puts a record into a trace, a tiny or short one if possible.  Returns its size. */
static inline size_t recorder_put_traced(struct trace_recorder *r,
                                         const struct trace_event *event, uint64_t delta_ns)
{
    struct forms_last *last = &r->forms->last[event->type];
    uint64_t numbers;
    bool fits = short_numbers(last, event, delta_ns, &numbers);

    if (unlikely(!form_is_of(&r->forms->forms[last->number], event)) || unlikely(!fits))
        return recorder_put_other(r, event, delta_ns, fits, numbers);
    if (likely((last->first | numbers) == last->word) && likely(delta_ns < TINY_NS)) {
        tiny_put(r->next, event->type, delta_ns, r->number);
        return TRACE_TINY_SIZE;
    }
    last->word = last->first | numbers;
    short_put(r->next, last->word, delta_ns, r->number);
    return TRACE_SHORT_SIZE;
}

/* A record of that size has been put at next. */
static inline void recorder_went(struct trace_recorder *r, size_t size, uint64_t now)
{
    r->last_ns = now;
    r->check = r->next + (size == TRACE_TINY_SIZE ? TINY_CHECK_AT : CHECK_AT);
    r->next += size;
    r->space -= size;
    r->number++;
}

static inline void recorder_put(struct trace_recorder *r, const struct trace_event *event,
                                uint64_t now)
{
    if (r->flight == NULL) {
        recorder_went(r, recorder_put_traced(r, event, now - r->last_ns), now);
        return;
    }
    record_put(r->next, event, now - r->info.start_ns, r->number, 0);
    recorder_went(r, TRACE_RECORD_SIZE, now);
    flight_count(r->flight, r->number);
}

static inline bool has_space(struct trace_recorder *r)
{
    return likely(r->space >= TRACE_RECORD_SIZE) || recorder_make_space(r);
}

/* A receive is posted when the program says so; all else may come from what another process was seen to have done. */
void trace_record(struct trace_recorder *r, const struct trace_event *event)
{
    assert(event->type > 0 && event->type < TRACE_TYPES);
    if (r->flight != NULL && unlikely(trace_is_name(event->type)))
        recorder_name(r, event);
    else if (has_space(r))
        recorder_put(r, event,
                     event->type == TRACE_POST ? ticks_now(&r->ticks)
                                               : ticks_now_behind(&r->ticks));
}

void trace_record_at(struct trace_recorder *r, const struct trace_event *event, uint64_t now_ns)
{
    assert(now_ns >= r->last_ns && !trace_is_name(event->type));
    if (has_space(r))
        recorder_put(r, event, now_ns);
}

uint64_t trace_now(struct trace_recorder *r)
{
    return ticks_now(&r->ticks);
}

uint64_t trace_last_ns(const struct trace_recorder *r)
{
    return r->last_ns;
}

void trace_done(struct trace_recorder *r)
{
    if (unlikely(r->next == NULL))
        return;
    assert(r->number > 0);
    record_done(r->check);
}

void trace_record_text(struct trace_recorder *r, enum trace_type type, uint32_t context_id,
                       uint32_t size, const char *text)
{
    struct trace_event event = {.type = type, .context_id = context_id};
    uint32_t parts = (uint32_t)(min_size(strlen(text), TEXT_MAX - 1) / TEXT_SIZE + 1);

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
    if (r->flight != NULL) {
        flight_close(r->flight);
        recorder_drop(r);
        return;
    }
    if (wall != 0)
        trace_record(r, &(struct trace_event){
                            .type = TRACE_CLOCK, .amount = wall, .entry = clock_now()});
    trace_record(r, &(struct trace_event){.type = TRACE_CLOSE});
    recorder_end(r, 0);
    mem_free(r->forms);
    mem_free(r);
}
