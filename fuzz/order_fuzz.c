/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_fuzz.c - a reader of arbitrary records ends, and yields only what a program could have recorded.
 *
 *   bytes   the input is decoded as the bytes of a chunk
 *   file    a record of some events, with some bytes changed, or truncated, is read and judged
 *   places  a record is read whose file of places has arbitrary bytes after, or instead of, some right lines
 *
 * The first byte of an input chooses one.  In the second case each change has a position and a value; changed chunks get a
 * right checksum, because otherwise nothing after it would be read.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/caller.h"
#include "base/log.h"
#include "base/temporary.h"
#include "fuzz/program.h"
#include "replay/code.h"

#define EVENTS      3000
#define CHANGES_MAX 8

/* Is each byte printed as it is, or part of a character? */
static bool is_text(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static void look_at_place(const struct replay_reader *reader, uint16_t place)
{
    uint64_t at;
    const char *path = replay_read_place(reader, place, &at);

    require(path == NULL || (path[0] == '/' && strlen(path) < CALLER_PATH && is_text(path)),
            "a place is in no file");
}

static void look_at(const struct replay_reader *reader, const struct replay_event *event)
{
    char text[REPLAY_TEXT];

    look_at_place(reader, event->signature.place);

    require(event->signature.kind >= REPLAY_RECV && event->signature.kind < REPLAY_KINDS,
            "there is no such call");
    require(event->outcome.result < REPLAY_RESULTS, "there is no such result");
    require(event->times > 0, "an event never happens");
    require(strlen(replay_signature_text(&event->signature, NULL, text)) < REPLAY_TEXT,
            "a text");
    require(strlen(replay_outcome_text(&event->outcome, text)) < REPLAY_TEXT, "a text");
}

static void bytes(struct input *in)
{
    static struct format_item_words items[FORMAT_CHUNK_ITEMS];
    static struct code code;
    size_t count = 1 + take(in) % 64;

    memset(&code, 0, sizeof code);
    (void)code_read(&code, in->data, in->size, items, count);
}

/* is_placed: its events are of places 1 to 5. */
static void write_record(const char *folder, bool is_placed)
{
    const struct replay_job job = {.rank = 0, .size = 2};
    struct replay_writer *w;

    require(replay_write_open(folder, &job, &w) == 0, "a record cannot be made");
    for (int i = 0; i < EVENTS; i++) {
        struct replay_signature s = {.comm = 1,
                                     .source = REPLAY_ANY,
                                     .tag = i % 7,
                                     .kind = REPLAY_IRECV,
                                     .place = (uint16_t)(is_placed ? 1 + i % 5 : 0)};
        struct replay_outcome outcome = replay_message(i % 5, i % 7, 8);
        uint64_t number = replay_write_post(w, &s);

        if (i % 11 != 0)
            replay_write_fill(w, number, &outcome);
    }
    replay_write_cancelled(w, 3);
    replay_write_close(w);
}

/* Corrects the checksums of all complete chunks. */
static void sum_up(int fd)
{
    static unsigned char all[sizeof(struct format_chunk) + FORMAT_CHUNK_BYTES + 8];
    struct format_chunk *chunk = (struct format_chunk *)(void *)all;

    for (off_t at = FORMAT_CHUNKS_AT; pread(fd, all, sizeof *chunk, at) == sizeof *chunk;) {
        size_t size = sizeof *chunk + round_up(min_size(chunk->bytes, FORMAT_CHUNK_BYTES), 8);

        if (pread(fd, all, size, at) != (ssize_t)size)
            return;
        chunk->check = 0;
        chunk->check = hash_bytes(all, size);
        require(
            pwrite(fd, &chunk->check, 8, at + (off_t)offsetof(struct format_chunk, check)) == 8,
            "pwrite");
        at += (off_t)size;
    }
}

static void damage(struct input *in, const char *path)
{
    int fd = open(path, O_RDWR);
    off_t size = lseek(fd, 0, SEEK_END);

    for (int i = 0; i < CHANGES_MAX && in->size > 0; i++) {
        unsigned kind = take(in);
        off_t at = take(in) | take(in) << 8;
        uint8_t byte = take(in);

        at += kind % 4 == 0 ? 0 : kind % 4 == 1 ? FORMAT_RING_AT : FORMAT_CHUNKS_AT;
        if (kind % 16 == 15)
            require(ftruncate(fd, at % size) == 0, "ftruncate");
        else if (at < size)
            require(pwrite(fd, &byte, 1, at) == 1, "pwrite");
    }
    sum_up(fd);
    close(fd);
}

/* The rest of the input follows some right lines, or replaces parts of them. */
static void write_places(struct input *in, const char *path)
{
    static const char alphabet[] = "0123456789abcdef /\n/solve-\n \t\x1b\xc3\xa4";
    char text[4096] = "2431 /home/ann/solve\n24af /home/ann/solve\n0 -\n1a /usr/lib/libx.so\n";
    size_t used = strlen(text), at = take(in) % 4 == 0 ? take(in) % used : used;
    bool is_raw = take(in) % 4 == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    for (; in->size > 0 && at < sizeof text; at++) {
        uint8_t byte = take(in);

        text[at] = is_raw ? (char)byte : alphabet[byte % (sizeof alphabet - 1)];
        used = at >= used ? at + 1 : used;
    }
    require(write(fd, text, used) == (ssize_t)used, "write");
    close(fd);
}

/* Removes what a case has made. */
static void remove_folder(const char *folder)
{
    static const char *const kinds[] = {"mbxrec", "mbxlate", "mbxplaces"};
    char path[TEMPORARY_SIZE + 32];

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        snprintf(path, sizeof path, "%s/rank-0.%s", folder, kinds[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void file(struct input *in, bool is_of_places)
{
    char folder[TEMPORARY_SIZE], path[TEMPORARY_SIZE + 32], error[PATH_MAX + 128];
    const struct replay_job job = {.rank = 0, .size = 2};
    struct replay_reader *reader;
    struct replay_event event;
    struct replay_judge *judge;
    uint64_t count = 0, read = 0;

    require(mkdtemp(temporary_name(folder, "order-fuzz")) != NULL, "mkdtemp");
    snprintf(path, sizeof path, "%s/rank-0.%s", folder, is_of_places ? "mbxplaces" : "mbxrec");
    write_record(folder, is_of_places);
    if (is_of_places)
        write_places(in, path);
    else
        damage(in, path);
    if (replay_read_open(folder, 0, &reader, error, sizeof error) == 0) {
        count = replay_read_events(reader);
        while (replay_read_next(reader, &event) && read < UINT64_C(1) << 40) {
            look_at(reader, &event);
            read = event.number + event.times - 1;
        }
        (void)replay_read_is_cancelled(reader, 3);
        replay_read_close(reader);
    }
    if (count > 0 && replay_judge_open(folder, &job, &judge) == 0) {
        struct replay_signature now = {.comm = 1, .source = REPLAY_ANY, .kind = REPLAY_IRECV};
        struct replay_outcome outcome;

        while (replay_judge(judge, &now, &outcome) == REPLAY_AGREES && count-- > 0)
            now.tag = (now.tag + 1) % 7;
        replay_judge_say(judge, &now, NULL, false);
        replay_judge_close(judge);
    }
    remove_folder(folder);
}

static void nothing(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    log_set_sink(nothing, NULL);
    switch (take(&in) % 8) {
    case 0:
        file(&in, false);
        break;
    case 7:
        file(&in, true);
        break;
    default:
        bytes(&in);
        break;
    }
    return 0;
}
