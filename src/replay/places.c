/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places.c - see places.h.
 */
#include "replay/places.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/compiler.h"
#include "base/foreign.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "replay/code.h"

static bool is_printable(const char *text)
{
    size_t length;

    for (; *text != '\0'; text += length)
        if ((length = text_character(text)) == 0)
            return false;
    return true;
}

/* ---- writing ---- */

struct place {
    uint64_t address;
    uint64_t number;
};

static uint64_t place_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct place *)slot)->address);
}

static bool place_is(const void *arg, const void *slot, const void *address)
{
    (void)arg;
    return ((const struct place *)slot)->address == *(const uint64_t *)address;
}

static const struct hash_kind by_address = {sizeof(struct place), place_hash, place_is};

/* Writes the line of a place.  0 or a negative errno. */
static int line_write(struct replay_places *p, const char *folder, uint32_t rank,
                      uint64_t address)
{
    char path[CALLER_PATH], line[CALLER_PATH + 32];
    uint64_t at;
    int length;

    if (caller_place(address, path, &at) < 0 || !is_printable(path))
        length = snprintf(line, sizeof line, "0 -\n");
    else
        length = snprintf(line, sizeof line, "%" PRIx64 " %s\n", at, path);
    if (!p->is_open) {
        p->fd = replay_create(folder, rank, "mbxplaces");
        if (p->fd < 0)
            return p->fd;
        p->is_open = true;
    }
    return replay_write_all(p->fd, line, (size_t)length);
}

static OUT_OF_LINE uint16_t place_add(struct replay_places *p, const char *folder,
                                      uint32_t rank, uint64_t address)
{
    struct place new = {address, p->known.count + 1};
    int err;

    if (p->is_over || p->known.count == FORMAT_PLACES_MAX ||
        hash_reserve(&p->known, &by_address, NULL) < 0)
        return 0;
    err = line_write(p, folder, rank, address);
    if (err < 0) {
        p->is_over = true;
        LOG_WARN("record: rank %u: cannot write to %s/rank-%u.mbxplaces: %s; later events are "
                 "recorded without their place in the program",
                 rank, folder, rank, strerrordesc_np(-err));
        return 0;
    }
    (void)hash_add(&p->known, &by_address, NULL, &new);
    return (uint16_t) new.number;
}

uint16_t places_number(struct replay_places *p, const char *folder, uint32_t rank)
{
    uint64_t address = caller_address(&p->learnt);
    const struct place *place;

    if (address == 0)
        return 0;
    place = hash_find(&p->known, &by_address, NULL, hash_mix(address), &address);
    return likely(place != NULL) ? (uint16_t)place->number
                                 : place_add(p, folder, rank, address);
}

int places_fini(struct replay_places *p)
{
    int err = p->is_open && sys_close(p->fd) < 0 ? -errno : 0;

    hash_fini(&p->known);
    return err;
}

/* ---- reading ---- */

#define TEXT_MAX ((size_t)FORMAT_PLACES_MAX * (CALLER_PATH + 32))

/* Reads the whole file, and ends it with a zero. */
static int text_read(int fd, char **text, size_t *size)
{
    struct stat status;
    size_t got = 0;

    if (sys_fstat(fd, &status) < 0)
        return -errno;
    if (status.st_size < 0 || (uint64_t)status.st_size > TEXT_MAX)
        return -EFBIG;
    *size = (size_t)status.st_size;
    *text = mem_alloc(*size + 1);
    if (*text == NULL)
        return -ENOMEM;
    while (got < *size) {
        ssize_t now = sys_pread(fd, *text + got, *size - got, (off_t)got);

        if (now <= 0)
            return now < 0 ? -errno : -EIO;
        got += (size_t)now;
    }
    (*text)[*size] = '\0';
    return 0;
}

/* "1a2f /home/ann/solve", or "0 -" of a place that is in no file. */
static bool line_take(char *line, struct place_read *place)
{
    char *end;

    errno = 0;
    if (!is_printable(line))
        return false;
    place->at = strtoull(line, &end, 16);
    if (errno != 0 || end == line || line[0] == '-' || line[0] == ' ' || end[0] != ' ' ||
        end[1] == '\0' || strlen(end + 1) >= CALLER_PATH)
        return false;
    place->path = end + 1;
    return end[1] == '/' || strcmp(end + 1, "-") == 0;
}

/* Takes the lines up to one that is wrong.  NULL, or what is wrong. */
static const char *lines_take(struct replay_read_places *p, size_t size)
{
    size_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += p->text[i] == '\n';
    if (lines == 0)
        return NULL;
    if (lines > FORMAT_PLACES_MAX)
        return "it has too many lines";
    p->all = mem_calloc(lines, sizeof p->all[0]);
    if (p->all == NULL)
        return "no memory";
    for (char *line = p->text; p->count < lines; p->count++) {
        char *end = memchr(line, '\n', (size_t)(p->text + size - line));

        *end = '\0';
        if (!line_take(line, &p->all[p->count]))
            return "a line is not an address and a file";
        line = end + 1;
    }
    return NULL;
}

void places_read(struct replay_read_places *p, const char *folder, uint32_t rank)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    char path[PATH_MAX];
    const char *what;
    size_t size = 0;
    int fd, err;

    snprintf(path, sizeof path, "%s/rank-%u.mbxplaces", folder, rank);
    fd = foreign_open(path, O_RDONLY, &wanted);
    if (fd == -ENOENT)
        return;
    err = fd < 0 ? fd : text_read(fd, &p->text, &size);
    if (fd >= 0)
        sys_close(fd);
    what = err < 0 ? strerrordesc_np(-err) : lines_take(p, size);
    if (what != NULL)
        snprintf(p->wrong, sizeof p->wrong, "%s: %s; lines of the program are missing", path,
                 what);
}

const char *places_find(const struct replay_read_places *p, uint16_t place, uint64_t *at)
{
    if (place == 0 || place > p->count || p->all[place - 1].path[0] != '/')
        return NULL;
    *at = p->all[place - 1].at;
    return p->all[place - 1].path;
}

void places_read_fini(struct replay_read_places *p)
{
    mem_free(p->all);
    mem_free(p->text);
}
