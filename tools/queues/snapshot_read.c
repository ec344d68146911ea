/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot_read.c - parses and checks the text of a snapshot.
 *
 * Each object has a table of its fields: the type of each, the largest value, and its destination.  A missing or repeated
 * field is an error; an unknown one is skipped: a newer mbx may have more of them.
 *
 * After reading: texts are printable and end; numbers are in their range; an entry is of a known
 * kind; no rank has more entries than it counts, and none has more than a page can hold.
 */
#include "snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "queues.h"
#include "tools/common/json_read.h"

#define NAMES_MAX ((size_t)INSPECT_TEXT_SIZE)

enum type {
    NUMBER,   /* as wide as its destination */
    NULLABLE, /* 32 bits; null is INSPECT_NOBODY */
    HEX,      /* 16 hexadecimal digits: 64 bits */
    BOOL,
    TEXT,
    NESTED /* read by a function */
};

struct reading {
    struct json_reader r;
    struct observed *out;
    struct inspect_rank *ranks; /* of all jobs */
    uint32_t count, capacity;
    uint64_t job; /* the job that is being read */
    uint64_t format;
    bool has_jobs;
    char library[16], host[INSPECT_HOST_TEXT]; /* of the sender */
    char words[160];
};

struct field {
    const char *name;
    enum type type;
    bool is_optional;
    size_t offset, size;
    uint64_t most;
    void (*nested)(struct reading *reading, void *into);
};

#define AT(type, member) offsetof(type, member), sizeof(((type *)NULL)->member)

static void wrong(struct reading *reading, const char *what, const char *name)
{
    if (reading->r.wrong != NULL)
        return;
    snprintf(reading->words, sizeof reading->words, "%s '%.40s'", what, name);
    json_wrong(&reading->r, reading->words);
}

static void store(void *to, size_t size, uint64_t number)
{
    uint8_t one = (uint8_t)number;
    uint16_t two = (uint16_t)number;
    uint32_t four = (uint32_t)number;
    const void *from = size == 1   ? (void *)&one
                       : size == 2 ? (void *)&two
                       : size == 4 ? (void *)&four
                                   : (void *)&number;

    memcpy(to, from, size);
}

static uint64_t get_hex(struct json_reader *r)
{
    char text[24], *end;
    uint64_t number;

    json_get_text(r, text, sizeof text);
    number = strtoull(text, &end, 16);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        json_wrong(r, "no 16 hexadecimal digits where they are expected");
    return number;
}

static void read_field(struct reading *reading, const struct field *field, void *into)
{
    char *to = (char *)into + field->offset;
    struct json_reader *r = &reading->r;

    switch (field->type) {
    case NUMBER:
        store(to, field->size, json_get_number(r, field->most));
        break;
    case NULLABLE:
        store(to, field->size,
              json_is_null(r) ? INSPECT_NOBODY : json_get_number(r, INSPECT_NOBODY - 1));
        break;
    case HEX:
        store(to, field->size, get_hex(r));
        break;
    case BOOL:
        store(to, field->size, json_get_bool(r));
        break;
    case TEXT:
        json_get_text(r, to, field->size);
        break;
    case NESTED:
        field->nested(reading, into);
        break;
    }
}

static void read_object(struct reading *reading, const struct field *fields, uint32_t count,
                        void *into)
{
    uint64_t seen = 0;
    char key[40];

    json_open(&reading->r, '{');
    while (json_key(&reading->r, key, sizeof key)) {
        uint32_t which = 0;

        while (which < count && strcmp(fields[which].name, key) != 0)
            which++;
        if (which == count) {
            json_skip(&reading->r);
            continue;
        }
        if (seen >> which & 1)
            wrong(reading, "there are two fields", key);
        seen |= UINT64_C(1) << which;
        read_field(reading, &fields[which], into);
        if (reading->r.wrong != NULL && reading->r.wrong != reading->words) {
            const char *what = reading->r.wrong;

            snprintf(reading->words, sizeof reading->words, "%.80s, in '%.40s'", what, key);
            reading->r.wrong = reading->words;
        }
    }
    for (uint32_t i = 0; i < count && reading->r.wrong == NULL; i++)
        if (!(seen >> i & 1) && !fields[i].is_optional)
            wrong(reading, "there is no field", fields[i].name);
}

/* ---- entries ---- */

struct read_entry {
    char kind[16];
    bool is_any, is_synchronous, is_deferred, is_internal, is_rts;
    uint32_t count, waited_ms, thread;
    struct inspect_entry entry;
};

static const struct field entry_fields[] = {
    {"kind", TEXT, false, AT(struct read_entry, kind), 0, NULL},
    {"any_source", BOOL, false, AT(struct read_entry, is_any), 0, NULL},
    {"synchronous", BOOL, false, AT(struct read_entry, is_synchronous), 0, NULL},
    {"deferred", BOOL, false, AT(struct read_entry, is_deferred), 0, NULL},
    {"internal", BOOL, false, AT(struct read_entry, is_internal), 0, NULL},
    {"rts", BOOL, false, AT(struct read_entry, is_rts), 0, NULL},
    {"count", NUMBER, false, AT(struct read_entry, count), UINT32_MAX, NULL},
    {"waited_ms", NULLABLE, false, AT(struct read_entry, waited_ms), 0, NULL},
    {"peer", NULLABLE, false, AT(struct read_entry, entry.peer), 0, NULL},
    {"address", HEX, false, AT(struct read_entry, entry.whom), 0, NULL},
    {"context", NUMBER, false, AT(struct read_entry, entry.context_id), UINT32_MAX, NULL},
    {"tag", NUMBER, false, AT(struct read_entry, entry.tag), UINT64_MAX, NULL},
    {"ignore", NUMBER, false, AT(struct read_entry, entry.ignore), UINT64_MAX, NULL},
    {"size", NUMBER, false, AT(struct read_entry, entry.size), UINT64_MAX, NULL},
    {"id", NUMBER, false, AT(struct read_entry, entry.id), UINT64_MAX, NULL},
    {"age", NUMBER, false, AT(struct read_entry, entry.age), UINT64_MAX, NULL},
    {"needs", NUMBER, false, AT(struct read_entry, entry.needs), INSPECT_NEEDS_MOST, NULL},
    {"thread", NUMBER, true, AT(struct read_entry, thread), INT32_MAX, NULL},
};

static unsigned kind_of(const char *name)
{
    unsigned kind = INSPECT_NONE + 1;

    while (kind < INSPECT_KINDS && strcmp(inspect_kind_name(kind), name) != 0)
        kind++;
    return kind;
}

/* *thread: the thread that waits for it, or 0. */
static void read_entry(struct reading *reading, struct inspect_entry *entry, uint32_t *thread)
{
    struct read_entry read = {.count = 0};
    unsigned kind;

    read_object(reading, entry_fields, ARRAY_COUNT(entry_fields), &read);
    if (reading->r.wrong != NULL)
        return;
    kind = kind_of(read.kind);
    if (kind == INSPECT_KINDS)
        wrong(reading, "an entry is of no known kind", read.kind);
    if (read.is_any && (read.entry.peer != INSPECT_NOBODY || read.entry.whom != 0))
        wrong(reading, "an entry contradicts itself in", "any_source");
    *entry = read.entry;
    *thread = read.thread;
    if (!read.is_any && entry->peer == INSPECT_NOBODY)
        entry->peer = INSPECT_SOMEBODY;
    entry->kind = (uint8_t)kind;
    entry->flags = (uint8_t)((read.is_synchronous ? INSPECT_ENTRY_SYNC : 0) |
                             (read.is_deferred ? INSPECT_ENTRY_DEFERRED : 0) |
                             (read.is_internal ? INSPECT_ENTRY_INTERNAL : 0) |
                             (read.is_rts ? INSPECT_ENTRY_RTS : 0));
    if (kind == INSPECT_PROBE)
        entry->count = read.count;
    else
        entry->waited_ms = read.waited_ms;
}

/* ---- ranks ---- */

struct read_rank {
    char seen[16], state[2];
    bool is_threads;
    uint32_t still_ms;
    struct inspect_rank rank;
    struct inspect_reported reported;
    char statistics[INSPECT_TEXT_SIZE], names[NAMES_MAX];
    uint32_t threads[INSPECT_ENTRIES]; /* the thread that waits for each entry, or 0 */
};

#define COUNT(name, kind)                                                                      \
    {                                                                                          \
        name, NUMBER, false,                                                                   \
            offsetof(struct inspect_state, counts) + (kind) * sizeof(uint32_t),                \
            sizeof(uint32_t), UINT32_MAX, NULL                                                 \
    }

static const struct field count_fields[] = {
    COUNT("posted", INSPECT_POSTED),       COUNT("unexpected", INSPECT_UNEXPECTED),
    COUNT("send", INSPECT_SEND),           COUNT("sending", INSPECT_SENDING),
    COUNT("receiving", INSPECT_RECEIVING), COUNT("access", INSPECT_ACCESS),
    COUNT("probe", INSPECT_PROBE),         COUNT("probed", INSPECT_PROBED),
};
static_assert(ARRAY_COUNT(count_fields) == INSPECT_KINDS - 1, "a kind is missing");

static void read_counts(struct reading *reading, void *into)
{
    struct read_rank *read = into;

    read_object(reading, count_fields, ARRAY_COUNT(count_fields), &read->rank.state);
}

static void read_entries(struct reading *reading, void *into)
{
    struct inspect_rank *rank = &((struct read_rank *)into)->rank;
    uint32_t capacity = 0;

    if (rank->entries != NULL) { /* a second field of this name */
        json_skip(&reading->r);
        return;
    }
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']')) {
        if (rank->count == INSPECT_ENTRIES) {
            json_wrong(&reading->r, "too many entries");
            return;
        }
        if (!array_reserve(rank->entries, capacity, rank->count + 1)) {
            json_wrong(&reading->r, "no memory");
            return;
        }
        rank->entries[rank->count] = (struct inspect_entry){.kind = INSPECT_NONE};
        read_entry(reading, &rank->entries[rank->count],
                   &((struct read_rank *)into)->threads[rank->count]);
        rank->count++;
    }
}

struct read_task {
    bool has_called;
    struct inspect_task task;
};

static_assert(sizeof(enum inspect_task_kind) == sizeof(uint32_t), "read as a number");

static const struct field task_fields[] = {
    {"id", NUMBER, false, AT(struct read_task, task.id), INT32_MAX, NULL},
    {"called", BOOL, false, AT(struct read_task, has_called), 0, NULL},
    {"kind", NUMBER, false, AT(struct read_task, task.kind), INSPECT_TASK_IN_MPI, NULL},
    {"started", NUMBER, false, AT(struct read_task, task.started), UINT64_MAX, NULL},
    {"ran_ns", NUMBER, false, AT(struct read_task, task.ran_ns), UINT64_MAX, NULL},
    {"word", NUMBER, false, AT(struct read_task, task.word), UINT64_MAX, NULL},
    {"does", TEXT, false, AT(struct read_task, task.does), 0, NULL},
};

static void read_tasks(struct reading *reading, void *into)
{
    struct inspect_rank *rank = &((struct read_rank *)into)->rank;
    uint32_t called = 0;

    if (rank->tasks != NULL) { /* a second field of this name */
        json_skip(&reading->r);
        return;
    }
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']')) {
        struct read_task read = {.has_called = false};

        if (rank->tasks == NULL)
            rank->tasks = mem_calloc(INSPECT_TASKS, sizeof *rank->tasks);
        if (rank->tasks == NULL || rank->task_count == INSPECT_TASKS) {
            json_wrong(&reading->r, rank->tasks == NULL ? "no memory" : "too many threads");
            return;
        }
        read_object(reading, task_fields, ARRAY_COUNT(task_fields), &read);
        rank->tasks[rank->task_count++] = read.task;
        if (read.has_called && called < INSPECT_CALLERS)
            rank->state.caller_ids[called++] = read.task.id;
    }
}

/* Reads lines into one text.  They are only printed, so lines that do not fit are omitted. */
static void read_lines(struct reading *reading, char *text, size_t size)
{
    size_t used = 0;
    char line[512];

    text[0] = '\0';
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']')) {
        json_get_text(&reading->r, line, sizeof line);
        if (used + strlen(line) + 2 <= size)
            used += (size_t)snprintf(text + used, size - used, "%s\n", line);
        else
            used = size;
    }
}

static void read_names(struct reading *reading, void *into)
{
    struct read_rank *read = into;

    read_lines(reading, read->names, sizeof read->names);
}

static const struct field rank_fields[] = {
    {"rank", NULLABLE, false, AT(struct read_rank, rank.head.rank), 0, NULL},
    {"ranks", NULLABLE, false, AT(struct read_rank, rank.head.ranks), 0, NULL},
    {"host", TEXT, false, AT(struct read_rank, reported.host), 0, NULL},
    {"pid", NUMBER, false, AT(struct read_rank, rank.head.pid), INT32_MAX, NULL},
    {"address", HEX, false, AT(struct read_rank, rank.head.address), 0, NULL},
    {"endpoint", NUMBER, false, AT(struct read_rank, rank.head.ep), UINT64_MAX, NULL},
    {"opened_ns", NUMBER, false, AT(struct read_rank, rank.head.open_ns), UINT64_MAX, NULL},
    {"library", TEXT, false, AT(struct read_rank, rank.head.library), 0, NULL},
    {"mpi", TEXT, false, AT(struct read_rank, rank.head.mpi), 0, NULL},
    {"program", TEXT, true, AT(struct read_rank, rank.program), 0, NULL},
    {"started", NUMBER, true, AT(struct read_rank, rank.started), UINT32_MAX, NULL},
    {"seen", TEXT, false, AT(struct read_rank, seen), 0, NULL},
    {"state", TEXT, false, AT(struct read_rank, state), 0, NULL},
    {"call", TEXT, false, AT(struct read_rank, rank.state.call), 0, NULL},
    {"caller", NUMBER, false, AT(struct read_rank, rank.state.caller), UINT64_MAX, NULL},
    {"threads", BOOL, false, AT(struct read_rank, is_threads), 0, NULL},
    {"still_ms", NULLABLE, false, AT(struct read_rank, still_ms), 0, NULL},
    {"arrived", NUMBER, false, AT(struct read_rank, rank.state.pulse.arrived), UINT64_MAX,
     NULL},
    {"sent", NUMBER, false, AT(struct read_rank, rank.state.pulse.sent), UINT64_MAX, NULL},
    {"received", NUMBER, false, AT(struct read_rank, rank.state.pulse.received), UINT64_MAX,
     NULL},
    {"cancelled", NUMBER, false, AT(struct read_rank, rank.state.pulse.cancelled), UINT64_MAX,
     NULL},
    {"counts", NESTED, false, 0, 0, 0, read_counts},
    {"entries", NESTED, false, 0, 0, 0, read_entries},
    {"names", NESTED, false, 0, 0, 0, read_names},
    {"answerer", NUMBER, true, AT(struct read_rank, rank.state.answerer), INT32_MAX, NULL},
    {"callers", NUMBER, true, AT(struct read_rank, rank.state.callers), INSPECT_CALLERS + 1,
     NULL},
    {"tasks", NESTED, true, 0, 0, 0, read_tasks},
    {"statistics", TEXT, true, AT(struct read_rank, statistics), 0, NULL},
    {"line", TEXT, true, AT(struct read_rank, reported.line), 0, NULL},
    {"does", TEXT, true, AT(struct read_rank, reported.does), 0, NULL},
    {"apart", TEXT, true, AT(struct read_rank, reported.apart), 0, NULL},
};
static_assert(ARRAY_COUNT(rank_fields) <= 64, "read_object() counts them in 64 bits");

/* Checks fields against each other. */
static void check_rank(struct reading *reading, const struct read_rank *read)
{
    const struct inspect_rank *rank = &read->rank;
    uint64_t all = 0;

    for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
        all += rank->state.counts[kind];
    if (rank->count > all)
        wrong(reading, "a rank has more than it counts:", "entries");
    if (rank->head.pid == 0)
        wrong(reading, "a number is too small, in", "pid");
    if (read->state[0] != '\0' && strchr("RSDZTtXxKWPI", read->state[0]) == NULL)
        wrong(reading, "a process has no such", "state");
    if (rank->head.rank != INSPECT_NOBODY && rank->head.ranks != INSPECT_NOBODY &&
        rank->head.rank >= rank->head.ranks)
        wrong(reading, "it is not below 'ranks':", "rank");
}

static enum inspect_how how_of(struct reading *reading, const char *name)
{
    if (strcmp(name, "asked") == 0)
        return INSPECT_ASKED;
    if (strcmp(name, "read") == 0)
        return INSPECT_READ;
    if (strcmp(name, "moving") == 0)
        return INSPECT_MOVING;
    if (strcmp(name, "failed") != 0)
        wrong(reading, "a rank was not seen in this way:", name);
    return INSPECT_FAILED;
}

/* Stores the texts as in a page: the statistics in the first line, then the names.  False: no
 * memory. */
static bool keep_text(struct inspect_rank *rank, const struct read_rank *read)
{
    size_t size = strlen(read->statistics) + strlen(read->names) + 2;

    rank->text = mem_alloc(size);
    rank->reported = mem_alloc(sizeof *rank->reported);
    if (rank->text == NULL || rank->reported == NULL)
        return false;
    snprintf(rank->text, size, "%s\n%s", read->statistics, read->names);
    *rank->reported = read->reported;
    return true;
}

/* Marks the entries for which other threads wait. */
static void mark_waiters(struct inspect_rank *rank, const uint32_t *threads)
{
    for (uint32_t i = 0; i < rank->count; i++)
        for (uint32_t k = 0; threads[i] != 0 && k < INSPECT_CALLERS; k++)
            if (rank->state.caller_ids[k] == threads[i])
                rank->entries[i].needs = (uint16_t)(INSPECT_NEEDS_MOST + 1 + k);
}

static void finish_rank(struct reading *reading, struct read_rank *read)
{
    struct inspect_rank *rank = &read->rank;
    uint64_t still_ns = (uint64_t)read->still_ms * CLOCK_MS;

    check_rank(reading, read);
    rank->how = how_of(reading, read->seen);
    rank->run = read->state[0];
    rank->head.job = reading->job;
    rank->layout = inspect_mpi_layout(rank->head.mpi);
    rank->state.flags = read->is_threads ? INSPECT_STATE_THREADS : 0;
    if (read->still_ms !=
        INSPECT_NOBODY) { /* clocks of hosts are unrelated: only the difference counts */
        rank->state.still_ns = 1;
        rank->state.now_ns = still_ns + 1;
    }
    if (rank->entries == NULL)
        rank->entries = mem_calloc(1, sizeof *rank->entries);
    if (rank->entries == NULL || !keep_text(rank, read))
        json_wrong(&reading->r, "no memory");
    mark_waiters(rank, read->threads);
    inspect_sort(rank->entries, rank->count);
}

static bool ranks_reserve(struct reading *reading)
{
    if (reading->count < SNAPSHOT_RANKS &&
        array_reserve(reading->ranks, reading->capacity, reading->count + 1))
        return true;
    json_wrong(&reading->r, reading->count < SNAPSHOT_RANKS ? "no memory" : "too many ranks");
    return false;
}

static void read_ranks(struct reading *reading, void *into)
{
    static struct read_rank read; /* some 17 KiB */

    (void)into;
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']') && ranks_reserve(reading)) {
        memset(&read, 0, sizeof read);
        read_object(reading, rank_fields, ARRAY_COUNT(rank_fields), &read);
        if (reading->r.wrong == NULL)
            finish_rank(reading, &read);
        reading->ranks[reading->count++] = read.rank; /* freed with the others */
    }
}

/* ---- jobs and hosts ---- */

struct read_job {
    uint64_t job;
};

/* Only ranks may follow: the number of the job applies to them. */
static void read_job_number(struct reading *reading, void *into)
{
    struct read_job *read = into;

    read->job = reading->job = get_hex(&reading->r);
}

static const struct field job_fields[] = {
    {"job", NESTED, false, 0, 0, 0, read_job_number},
    {"ranks", NESTED, false, 0, 0, 0, read_ranks},
};

static void read_jobs(struct reading *reading, void *into)
{
    (void)into;
    reading->has_jobs = true;
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']')) {
        uint32_t first = reading->count;
        struct read_job job;

        reading->job = 0;
        read_object(reading, job_fields, ARRAY_COUNT(job_fields), &job);
        for (uint32_t i = first; i < reading->count; i++)
            reading->ranks[i].head.job = reading->job;
    }
}

static void read_others(struct reading *reading, void *into)
{
    struct observed_host *host = into;
    char *text = host->others == NULL ? mem_alloc(NAMES_MAX) : NULL;

    if (text == NULL) {
        json_wrong(&reading->r, "no memory");
        return;
    }
    host->others = text;
    read_lines(reading, text, NAMES_MAX);
}

static const struct field host_fields[] = {
    {"host", TEXT, false, AT(struct observed_host, name), 0, NULL},
    {"id", HEX, false, AT(struct observed_host, id), 0, NULL},
    {"answered", BOOL, false, AT(struct observed_host, has_answered), 0, NULL},
    {"matchbox", TEXT, false, AT(struct observed_host, library), 0, NULL},
    {"cores", NUMBER, false, AT(struct observed_host, cores), 1u << 20, NULL},
    {"refused", NUMBER, false, AT(struct observed_host, refused), UINT32_MAX, NULL},
    {"why", TEXT, false, AT(struct observed_host, why), 0, NULL},
    {"others", NESTED, true, 0, 0, 0, read_others},
};

/* There is only one: the host itself. */
static void read_hosts(struct reading *reading, void *into)
{
    struct observed *out = reading->out;

    (void)into;
    json_open(&reading->r, '[');
    while (json_more(&reading->r, ']')) {
        if (out->host_count == 1) {
            json_wrong(&reading->r, "it is of several hosts");
            return;
        }
        out->host_count = 1;
        read_object(reading, host_fields, ARRAY_COUNT(host_fields), &out->hosts[0]);
    }
    if (reading->r.wrong == NULL &&
        (out->host_count == 0 || !out->hosts[0].has_answered || out->hosts[0].id == 0))
        json_wrong(&reading->r, "it does not say of which host it is");
}

static void read_format(struct reading *reading, void *into)
{
    (void)into;
    reading->format = json_get_number(&reading->r, UINT64_MAX);
}

/* From another version only the sender is read. */
static void read_hosts_known(struct reading *reading, void *into)
{
    if (reading->format == QUEUES_FORMAT)
        read_hosts(reading, into);
    else
        json_skip(&reading->r);
}

static void read_jobs_known(struct reading *reading, void *into)
{
    if (reading->format == QUEUES_FORMAT)
        read_jobs(reading, into);
    else
        json_skip(&reading->r);
}

static const struct field snapshot_fields[] = {
    {"format", NESTED, false, 0, 0, 0, read_format},
    {"matchbox", TEXT, false, AT(struct reading, library), 0, NULL},
    {"host", TEXT, false, AT(struct reading, host), 0, NULL},
    {"hosts", NESTED, true, 0, 0, 0, read_hosts_known},
    {"jobs", NESTED, true, 0, 0, 0, read_jobs_known},
};

/* Checks that everything that this version requires is there. */
static void check_snapshot(struct reading *reading)
{
    if (reading->r.wrong == NULL && reading->format != QUEUES_FORMAT) {
        snprintf(reading->words, sizeof reading->words,
                 "%.60s has mbx %s, whose snapshots are of version %" PRIu64
                 "; mbx %s reads version %u",
                 reading->host, reading->library, reading->format, mbx_version(),
                 QUEUES_FORMAT);
        json_wrong(&reading->r, reading->words);
    } else if (reading->out->host_count == 0 || !reading->has_jobs) {
        wrong(reading, "there is no field", reading->has_jobs ? "hosts" : "jobs");
    }
}

/* Assigns the ranks to their host. */
static void place(struct reading *reading)
{
    const struct observed_host *host = &reading->out->hosts[0];

    for (uint32_t i = 0; i < reading->count; i++) {
        struct inspect_reported *reported = reading->ranks[i].reported;

        reading->ranks[i].host = host->id;
        memcpy(reported->host, host->name, sizeof reported->host);
        reported->cores = host->cores;
    }
}

static void drop(struct reading *reading)
{
    for (uint32_t i = 0; i < reading->count; i++)
        observed_free_rank(&reading->ranks[i]);
    mem_free(reading->ranks);
}

const char *snapshot_read(const char *text, size_t size, struct observed *out)
{
    static struct reading reading; /* static: the result points into it */

    reading = (struct reading){.r = json_reader_of(text, size), .out = out};
    *out = (struct observed){.hosts = mem_calloc(1, sizeof *out->hosts)};
    if (out->hosts == NULL || !ranks_reserve(&reading))
        return "no memory";
    read_object(&reading, snapshot_fields, ARRAY_COUNT(snapshot_fields), &reading);
    json_finish(&reading.r);
    check_snapshot(&reading);
    if (reading.r.wrong == NULL) {
        place(&reading);
        if (observed_sort(reading.ranks, reading.count, out) == 0)
            return NULL;
        json_wrong(&reading.r, "no memory");
    }
    drop(&reading);
    return reading.r.wrong;
}
