/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write.c - the record of a rank.
 *
 *   event ──> ring, a mapping of the file ──(full: its older half)──> a chunk at the end of the file ──> commit
 *
 * However the process ends, what was stored is in the file: the mapping is the file's, and write(2) has returned before the
 * commit says so.  A chunk that no commit names is none; its items are still in the ring then.
 *
 * An item of a receive is open until its outcome is known.  If it leaves the ring before, its outcome goes into another file,
 * rank-R.mbxlate, and so do exact receives that were cancelled: when they are known depends on time, and what is in the record
 * does not.
 *
 * Invariants
 *   I1  items that have left the ring are in chunks: commit.items of them; the others are in the ring, each with its lap
 *   I2  the second word of an item is stored last, with release; before, the item is none, or what it was
 *   I3  the slot of the commit that holds is not written
 *   I4  posts[n % FORMAT_RING] is the item of receive n, if that has not left the ring
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "replay/code.h"
#include "replay/places.h"

struct replay_writer {
    int fd, late; /* -1: there is none */
    unsigned char *map;
    struct format_item_words *ring;
    uint64_t items, gone; /* items so far; items that have left the ring */
    uint64_t posted;      /* receives so far */
    uint64_t late_count;  /* entries of the other file */
    uint64_t end, flags;  /* of the file; enum replay_flags */
    uint32_t chunks, rank;
    struct replay_signature signatures[FORMAT_SIGNATURES]; /* kind 0: not defined */
    struct replay_tail tail; /* its word is NULL, or in item items - 1 */
    unsigned slot;           /* the number of tail.is */
    int err;                 /* why nothing can be written any more, or 0 */
    uint64_t posts[FORMAT_RING];
    struct replay_places places;
    struct code code;
    struct format_item_words half[FORMAT_CHUNK_ITEMS];
    unsigned char bytes[sizeof(struct format_chunk) + FORMAT_CHUNK_BYTES];
    char folder[PATH_MAX];
};

/* ---- files ---- */

int replay_write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size > 0) {
        ssize_t done = sys_write_file(fd, at, size);

        if (done < 0)
            return -errno;
        if (done == 0)
            return -ENOSPC;
        at += done;
        size -= (size_t)done;
    }
    return 0;
}

int replay_create(const char *folder, uint32_t rank, const char *kind)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/rank-%u.%s", folder, rank, kind);
    int fd;

    if (length < 0 || (size_t)length >= sizeof path)
        return -ENAMETOOLONG;
    fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    return fd >= 0 ? fd : -errno;
}

static void end_put(struct replay_writer *w)
{
    struct format_end *end = (struct format_end *)(void *)(w->map + FORMAT_END_AT);

    end->flags = w->flags;
    end->late = w->late_count;
    end->check = hash_bytes(w->map, FORMAT_END_AT + offsetof(struct format_end, check));
}

/* Nothing can be written any more: what is there stays. */
static void writer_cut(struct replay_writer *w, int err)
{
    if (w->flags & REPLAY_CUT)
        return;
    w->flags |= REPLAY_CUT;
    w->err = err;
    w->tail.word = NULL; /* nothing is added any more */
    end_put(w);
    if (w->flags & REPLAY_BEGINNING)
        return; /* no program runs: whoever writes it says so */
    if (err == -ENOSPC || err == -EDQUOT)
        LOG_WARN("record: rank %u: no space left in %s: the record ends after event %llu; the "
                 "program continues",
                 w->rank, w->folder, (unsigned long long)w->tail.events);
    else
        LOG_WARN("record: rank %u: cannot write to %s: %s; the record ends after event %llu; "
                 "the program continues",
                 w->rank, w->folder, strerrordesc_np(-err), (unsigned long long)w->tail.events);
}

/* ---- opening ---- */

static void header_put(unsigned char *map, const struct replay_job *job)
{
    struct format_header header = {.magic = FORMAT_MAGIC,
                                   .version = FORMAT_VERSION,
                                   .size_of_header = FORMAT_HEADER_SIZE,
                                   .rank = job->rank,
                                   .size = job->size,
                                   .pid = job->pid,
                                   .threads = job->threads,
                                   .wall_ns = job->wall_ns,
                                   .arguments = job->arguments,
                                   .mpi = job->mpi};

    memcpy(header.build, job->build, sizeof job->build);
    header.check = FORMAT_CHECK(header);
    memcpy(map, &header, sizeof header);
}

static void commit_put(struct replay_writer *w, uint64_t number)
{
    struct format_commit *slot =
        (struct format_commit *)(void *)(w->map + FORMAT_COMMIT_AT) + number % 2;

    slot->items = w->gone;
    slot->end = w->end;
    /* the reader takes the slot of the higher number */
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, number, memory_order_release);
}

static int map_open(struct replay_writer *w, const struct replay_job *job)
{
    static unsigned char zeros[FORMAT_CHUNKS_AT];
    int err = replay_write_all(w->fd, zeros, sizeof zeros);

    if (err < 0)
        return err;
    w->map = sys_mmap(FORMAT_CHUNKS_AT, w->fd, 0);
    if (w->map == NULL)
        return -errno;
    header_put(w->map, job);
    w->ring = (struct format_item_words *)(void *)(w->map + FORMAT_RING_AT);
    w->end = FORMAT_CHUNKS_AT;
    commit_put(w, 1);
    return 0;
}

static void warn_of_calls(const struct replay_job *job)
{
    char calls[REPLAY_TEXT];

    if (job->rank != 0 || job->is_part)
        return;
    replay_unseen_calls(job, calls, sizeof calls);
    if (calls[0] != '\0')
        LOG_WARN("record: this program can call %s: their results, and their order, are not "
                 "recorded",
                 calls);
}

int replay_write_open(const char *folder, const struct replay_job *job,
                      struct replay_writer **out)
{
    struct replay_writer *w = mem_calloc(1, sizeof *w);
    char path[PATH_MAX];
    int err;

    if (w == NULL)
        return -ENOMEM;
    (void)mkdir(folder, 0700); /* what is wrong with it, the next one says */
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->rank = job->rank;
    w->late = -1;
    w->fd = replay_create(folder, job->rank, "mbxrec");
    if (w->fd < 0) {
        err = w->fd;
        goto free_writer;
    }
    err = map_open(w, job);
    if (err < 0)
        goto remove_file;
    warn_of_calls(job);
    *out = w;
    return 0;

remove_file:
    sys_close(w->fd);
    snprintf(path, sizeof path, "%s/rank-%u.mbxrec", folder, job->rank);
    unlink(path);
free_writer:
    mem_free(w);
    if (err == -EEXIST)
        LOG_WARN("record: rank %u: %s has a record of this rank already: this process is not "
                 "recorded",
                 job->rank, folder);
    else
        LOG_WARN("record: rank %u: cannot record to %s: %s", job->rank, folder,
                 strerrordesc_np(-err));
    return err;
}

/* ---- from the ring to a chunk ---- */

/* The oldest items become a chunk.  0 or a negative errno. */
static int chunk_write(struct replay_writer *w, size_t count)
{
    struct format_chunk *chunk = (struct format_chunk *)(void *)w->bytes;
    size_t size;
    int err;

    for (size_t i = 0; i < count; i++) {
        w->half[i] = w->ring[(w->gone + i) % FORMAT_RING];
        w->half[i].word = format_lapless(w->half[i].word);
    }
    size = code_write(&w->code, w->half, count, w->bytes + sizeof *chunk);
    *chunk = (struct format_chunk){.number = w->chunks,
                                   .bytes = (uint32_t)size,
                                   .items = (uint32_t)count,
                                   .first = w->gone};
    memset(w->bytes + sizeof *chunk + size, 0, round_up(size, 8) - size);
    size = sizeof *chunk + round_up(size, 8);
    chunk->check = hash_bytes(w->bytes, size); /* with 0 in its own place */
    err = replay_write_all(w->fd, w->bytes, size);
    if (err < 0)
        return err;
    w->chunks++;
    w->end += size;
    w->gone += count;
    commit_put(w, w->chunks + 1);
    return 0;
}

/* ---- into the ring ---- */

static uint64_t lap_of(uint64_t item)
{
    return item / FORMAT_RING;
}

/* Puts an item; false: the record has ended. */
static bool item_put(struct replay_writer *w, uint64_t value, uint64_t word)
{
    struct format_item_words *item = &w->ring[w->items % FORMAT_RING];
    int err = 0;

    w->tail.word = NULL;
    if (unlikely(w->items - w->gone == FORMAT_RING))
        err = chunk_write(w, FORMAT_CHUNK_ITEMS);
    if (unlikely(err < 0))
        writer_cut(w, err);
    if (unlikely(w->flags & REPLAY_CUT))
        return false;
    item->value = value;
    /* whoever reads the file after a kill finds both words or none: I2 */
    atomic_store_explicit((_Atomic uint64_t *)&item->word,
                          word | (lap_of(w->items) & 0xff) << 4, memory_order_release);
    w->items++;
    return true;
}

static bool is_equal(const struct replay_signature *a, const struct replay_signature *b)
{
    return a->place == b->place && replay_is_alike(a, b);
}

/* The number of a signature, which is defined if it has none.  Another one may lose its number. */
static OUT_OF_LINE unsigned slot_find(struct replay_writer *w, const struct replay_signature *s)
{
    uint64_t value = (uint64_t)(uint32_t)s->source << 32 | (uint32_t)s->tag;
    unsigned slot =
        (unsigned)(hash_spread(value ^ hash_spread((uint64_t)s->place << 48 | s->comm << 8 |
                                                   (uint64_t)s->kind << 4 | s->requests)) %
                   FORMAT_SIGNATURES);

    if (likely(is_equal(&w->signatures[slot], s)))
        return slot;
    if (item_put(w, value,
                 format_word(FORMAT_DEFINITION, 0, slot, s->kind, s->requests,
                             (uint64_t)s->place << FORMAT_PLACE_SHIFT |
                                 (uint64_t)(s->kind >> 4) << FORMAT_KIND_SHIFT |
                                 (s->comm & REPLAY_COMM_MASK))))
        w->signatures[slot] = *s;
    return slot;
}

/* Most events are as the last one was, or one of few. */
static inline unsigned replay_write_slot_of(struct replay_writer *w,
                                            const struct replay_signature *s)
{
    if (unlikely(!is_equal(&w->tail.is, s))) {
        w->slot = slot_find(w, s);
        w->tail.is = *s;
    }
    return w->slot;
}

uint16_t replay_write_place(struct replay_writer *w)
{
    return w->flags & REPLAY_CUT ? 0 : places_number(&w->places, w->folder, w->rank);
}

bool replay_write_again(struct replay_writer *w, const struct replay_signature *signature)
{
    return w->tail.word != NULL && replay_is_alike(&w->tail.is, signature) &&
           replay_tail_repeat(&w->tail);
}

void replay_write_event(struct replay_writer *w, const struct replay_signature *signature,
                        const struct replay_outcome *outcome)
{
    unsigned slot;

    /* receives have items of their own: each has a number */
    if (outcome->result == REPLAY_FALSE && w->tail.word != NULL &&
        is_equal(&w->tail.is, signature) && replay_tail_repeat(&w->tail))
        return;
    slot = replay_write_slot_of(w, signature);
    if (!item_put(w, outcome->value,
                  format_word(FORMAT_EVENT, 0, slot, outcome->result, outcome->size_class, 1)))
        return;
    w->tail.events += signature->kind != REPLAY_INDEX;
    if (outcome->result == REPLAY_FALSE)
        w->tail.word = &w->ring[(w->items - 1) % FORMAT_RING].word;
}

uint64_t replay_write_post(struct replay_writer *w, const struct replay_signature *signature)
{
    unsigned slot = replay_write_slot_of(w, signature);

    if (!item_put(w, 0, format_word(FORMAT_EVENT, 0, slot, REPLAY_OPEN, 0, 1)))
        return 0;
    w->tail.events++;
    w->posted++;
    w->posts[w->posted % FORMAT_RING] = w->items - 1;
    return w->posted;
}

uint64_t replay_write_post_detail(struct replay_writer *w,
                                  const struct replay_signature *signature)
{
    uint64_t number = replay_write_post(w, signature);

    w->tail.events -= number != 0;
    return number;
}

/* ---- outcomes that become known late ---- */

static void late_put(struct replay_writer *w, struct format_late_one one)
{
    int err = 0;

    if (w->flags & REPLAY_CUT)
        return;
    if (w->late < 0) {
        w->late = replay_create(w->folder, w->rank, "mbxlate");
        err = w->late < 0 ? w->late : 0;
    }
    one.check = FORMAT_CHECK(one);
    if (err == 0)
        err = replay_write_all(w->late, &one, sizeof one);
    if (err < 0)
        writer_cut(w, err);
    w->late_count += err == 0;
}

void replay_write_fill(struct replay_writer *w, uint64_t number,
                       const struct replay_outcome *outcome)
{
    uint64_t at = w->posts[number % FORMAT_RING];
    struct format_item_words *item = &w->ring[at % FORMAT_RING];
    uint64_t word;

    if (number == 0 || w->flags & REPLAY_CUT)
        return;
    if (unlikely(w->posted - number >= FORMAT_RING) || unlikely(at < w->gone)) {
        late_put(w, (struct format_late_one){.number = number,
                                             .value = outcome->value,
                                             .kind = FORMAT_LATE_OUTCOME,
                                             .result = outcome->result,
                                             .size_class = outcome->size_class});
        return;
    }
    word = format_word(FORMAT_EVENT, lap_of(at), format_slot(item->word), outcome->result,
                       outcome->size_class, 1);
    item->value = outcome->value;
    atomic_store_explicit((_Atomic uint64_t *)&item->word, word, memory_order_release); /* I2 */
}

void replay_write_cancelled(struct replay_writer *w, uint64_t receive)
{
    late_put(w, (struct format_late_one){.number = receive, .kind = FORMAT_LATE_CANCELLED});
}

/* ---- the end ---- */

void replay_write_flag(struct replay_writer *w, enum replay_flags flag)
{
    if (w->flags & flag)
        return;
    w->flags |= flag;
    end_put(w);
    if (flag == REPLAY_THREADS)
        LOG_WARN("record: two threads of rank %u make calls that are recorded, on one "
                 "communicator, or on one endpoint, or its communicators have used up the "
                 "files or the memory for "
                 "them: this record cannot be replayed",
                 w->rank);
}

struct replay_tail *replay_write_tail(struct replay_writer *w)
{
    return &w->tail;
}

uint64_t replay_write_events(const struct replay_writer *w)
{
    return w->tail.events;
}

/* All items go into chunks, and the ring is empty. */
static int writer_drain(struct replay_writer *w)
{
    int err = 0;

    while (err == 0 && w->items > w->gone)
        err = chunk_write(w, min_size((size_t)(w->items - w->gone), FORMAT_CHUNK_ITEMS));
    return err;
}

/* Some file systems say only here that there was no space.  0 or a negative errno. */
static int close_files(struct replay_writer *w)
{
    int err = places_fini(&w->places);

    if (w->late >= 0 && sys_close(w->late) < 0)
        err = -errno;
    if (sys_close(w->fd) < 0)
        err = -errno;
    return err;
}

int replay_write_close(struct replay_writer *w)
{
    int err;

    if (w == NULL)
        return 0;
    err = w->flags & REPLAY_CUT ? 0 : writer_drain(w);
    if (err < 0)
        writer_cut(w, err);
    if (!(w->flags & REPLAY_CUT)) {
        if (!(w->flags & REPLAY_BEGINNING))
            replay_write_flag(w, REPLAY_COMPLETE);
        memset(w->ring, 0, FORMAT_RING * sizeof w->ring[0]);
        (void)sys_fallocate_punch(w->fd, FORMAT_RING_AT, FORMAT_CHUNKS_AT - FORMAT_RING_AT);
    }
    sys_munmap(w->map, FORMAT_CHUNKS_AT);
    err = close_files(w);
    if (err < 0 && !(w->flags & (REPLAY_CUT | REPLAY_BEGINNING)))
        LOG_WARN("record: rank %u: cannot write to %s: %s; some of the record may be missing",
                 w->rank, w->folder, strerrordesc_np(-err));
    if (w->err < 0)
        err = w->err;
    mem_free(w);
    return err;
}
