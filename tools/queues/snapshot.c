/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.c - the lines of a snapshot, see snapshot.h.
 */
#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/mem.h"

#define MARK       SNAPSHOT_MARK
#define VERSION    1u
#define STREAMS    16384u /* of one launcher */
#define CHECK_SIZE 9      /* a space, and the digits of the check */

static uint32_t hash(const char *bytes, size_t size)
{
    uint32_t value = UINT32_C(0x811c9dc5);

    for (size_t i = 0; i < size; i++)
        value = (value ^ (unsigned char)bytes[i]) * UINT32_C(0x01000193);
    return value;
}

/* ---- write ---- */

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size != 0) {
        ssize_t done = write(fd, bytes, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Chooses the output that keeps lines in one piece, see snapshot.h. */
static int best_way(void)
{
    struct stat other;

    return isatty(STDOUT_FILENO) && fstat(STDERR_FILENO, &other) == 0 && S_ISFIFO(other.st_mode)
               ? STDERR_FILENO
               : STDOUT_FILENO;
}

/* Length of the text that fits in a line with numbers of this length. */
static size_t text_that_fits(size_t count)
{
    char numbers[64];

    return (size_t)(SNAPSHOT_LINE - 2 - CHECK_SIZE -
                    snprintf(numbers, sizeof numbers, MARK "%u %016x %zu %zu %d ", VERSION, 0,
                             count, count, SNAPSHOT_LINE));
}

/* Makes a line of SNAPSHOT_LINE bytes. */
static void make_line(char line[SNAPSHOT_LINE + 1], uint64_t stream, size_t number,
                      size_t count, const char *text, size_t size)
{
    int used = snprintf(line, SNAPSHOT_LINE, MARK "%u %016" PRIx64 " %zu %zu %zu %.*s", VERSION,
                        stream, number, count, size, (int)size, text);
    uint32_t check = hash(line, (size_t)used);

    used += snprintf(line + used, (size_t)(SNAPSHOT_LINE - used), " %08" PRIx32, check);
    snprintf(line + used, (size_t)(SNAPSHOT_LINE + 1 - used), "%*s\n", SNAPSHOT_LINE - 1 - used,
             "");
}

int snapshot_write(const char *text, size_t size)
{
    size_t capacity = text_that_fits(size), count = (size + capacity - 1) / capacity;
    uint64_t host = 0, stream;
    int fd = best_way(), err = 0;

    if (host_id(&host) != 0)
        host = (uint64_t)getppid();
    stream = host ^ (uint64_t)getpid() << 40 ^ clock_now();
    for (size_t i = 0; err == 0 && i < count; i++) {
        char line[SNAPSHOT_LINE + 1];

        make_line(line, stream, i, count, text + i * capacity,
                  min_size(capacity, size - i * capacity));
        err = write_all(fd, line, SNAPSHOT_LINE);
    }
    return err;
}

/* ---- read ---- */

struct line {
    uint64_t stream;
    uint32_t number, count;
    const char *text;
    size_t size;
};

/* Reads a number after a space; only digits.  False: there is none, or it is larger than
 * most. */
static bool take_number(const char **at, const char *end, unsigned base, uint64_t most,
                        uint64_t *number)
{
    static const char digits[] = "0123456789abcdef";
    const char *start;

    if (*at == end || **at != ' ')
        return false;
    start = ++*at;
    for (*number = 0; *at < end && **at != ' '; ++*at) {
        const char *digit = memchr(digits, **at, base);

        if (digit == NULL || *number > (most - (uint64_t)(digit - digits)) / base)
            return false;
        *number = *number * base + (uint64_t)(digit - digits);
    }
    return *at != start;
}

/* True if [at, end), which begins after the version, is a complete line; start is its
 * beginning. */
static bool parse(const char *start, const char *at, const char *end, struct line *line)
{
    uint64_t number, count, size, check;

    if (!take_number(&at, end, 16, UINT64_MAX, &line->stream) ||
        !take_number(&at, end, 10, UINT32_MAX, &number) ||
        !take_number(&at, end, 10, SNAPSHOT_BYTES / 100, &count) ||
        !take_number(&at, end, 10, SNAPSHOT_LINE, &size) || number >= count || at == end ||
        (size_t)(end - ++at) < size + CHECK_SIZE)
        return false;
    *line = (struct line){line->stream, (uint32_t)number, (uint32_t)count, at, size};
    at += size;
    end = at + CHECK_SIZE;
    check = hash(start, (size_t)(at - start));
    return take_number(&at, end, 16, UINT32_MAX, &number) && at == end && number == check;
}

static struct snapshot *snapshot_of(struct snapshots *snapshots, const struct line *line)
{
    struct snapshot *all;

    for (uint32_t i = snapshots->count; i > 0; i--)
        if (snapshots->all[i - 1].stream == line->stream)
            return &snapshots->all[i - 1];
    if (snapshots->count == STREAMS) {
        snapshots->is_full = true;
        return NULL;
    }
    if (!array_reserve(snapshots->all, snapshots->capacity, snapshots->count + 1)) {
        snapshots->has_no_memory = true;
        return NULL;
    }
    all = &snapshots->all[snapshots->count++];
    *all = (struct snapshot){.stream = line->stream, .count = line->count};
    return all;
}

static bool make_space(struct snapshots *snapshots, struct snapshot *snapshot, size_t more)
{
    if (snapshots->bytes != NULL && more > SNAPSHOT_BYTES - *snapshots->bytes) {
        snapshots->is_full = true;
        return false;
    }
    if (snapshots->bytes != NULL)
        *snapshots->bytes += more;
    if (array_reserve(snapshot->text, snapshot->capacity, snapshot->size + more))
        return true;
    snapshots->has_no_memory = true;
    return false;
}

static void add_line(struct snapshots *snapshots, const struct line *line)
{
    struct snapshot *snapshot = snapshot_of(snapshots, line);

    if (snapshot == NULL || snapshot->is_damaged)
        return;
    if (line->number != snapshot->next || line->count != snapshot->count ||
        !make_space(snapshots, snapshot, line->size)) {
        snapshot->is_damaged = true;
        return;
    }
    if (line->size != 0)
        memcpy(snapshot->text + snapshot->size, line->text, line->size);
    snapshot->size += line->size;
    snapshot->next++;
}

/* Finds the mark in a line: a launcher may have put a label before it. */
static void end_line(struct snapshots *snapshots, unsigned source)
{
    const char *at = snapshots->sources[source].line;
    const char *end = at + snapshots->sources[source].used;
    bool is_found = snapshots->sources[source].is_long;
    struct line line = {.size = 0};

    while (!is_found && (at = memmem(at, (size_t)(end - at), MARK, sizeof MARK - 1)) != NULL) {
        const char *start = at;
        unsigned version = 0;

        for (at += sizeof MARK - 1; at < end && *at >= '0' && *at <= '9' && version < 100000;
             at++)
            version = version * 10 + (unsigned)(*at - '0');
        if (version == VERSION)
            is_found = parse(start, at, end, &line);
        else if (version != 0)
            snapshots->version = version;
    }
    if (is_found && line.size != 0)
        add_line(snapshots, &line);
    snapshots->sources[source].used = 0;
    snapshots->sources[source].is_long = false;
}

void snapshots_add(struct snapshots *snapshots, unsigned source, const char *bytes, size_t size)
{
    char *line = snapshots->sources[source].line;
    size_t *used = &snapshots->sources[source].used;

    for (size_t i = 0; i < size; i++)
        if (bytes[i] == '\n')
            end_line(snapshots, source);
        else if (*used == sizeof snapshots->sources[source].line)
            snapshots->sources[source].is_long = true;
        else
            line[(*used)++] = bytes[i];
}

void snapshots_end(struct snapshots *snapshots)
{
    for (unsigned source = 0; source < SNAPSHOT_SOURCES; source++)
        end_line(snapshots, source);
}

bool snapshot_is_whole(const struct snapshot *snapshot)
{
    return !snapshot->is_damaged && snapshot->next == snapshot->count;
}

void snapshots_free(struct snapshots *snapshots)
{
    for (uint32_t i = 0; i < snapshots->count; i++)
        mem_free(snapshots->all[i].text);
    mem_free(snapshots->all);
    *snapshots = (struct snapshots){.all = NULL};
}
