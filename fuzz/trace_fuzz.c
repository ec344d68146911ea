/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_fuzz.c - `mbx trace` reads arbitrary traces of a job, and ends.
 *
 * An input becomes the files of up to four ranks.  The first byte chooses one of two forms: the bytes unchanged, to test the
 * reader; or with correct checks and with few and close numbers, so that peers, messages, receives and waits of several files
 * belong together, or nearly, and sometimes extreme numbers.  Then everything runs that `mbx trace` does with files.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "fuzz/program.h"
#include "tools/trace/replay.h"
#include "tools/trace/trace_job.h"

#define RANKS_MAX  4
#define EVENTS_MAX 300

/* ---- files ---- */

static char folder[64], paths[RANKS_MAX][96];

static void remove_folder(void)
{
    for (int i = 0; i < RANKS_MAX; i++)
        unlink(paths[i]);
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0] != '\0')
        return;
    snprintf(folder, sizeof folder, "/dev/shm/trace-fuzz.XXXXXX");
    require(mkdtemp(folder) != NULL, "no folder in /dev/shm");
    atexit(remove_folder);
    for (int i = 0; i < RANKS_MAX; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%d.trace", folder, i);
}

static void put(unsigned char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++, value >>= 8)
        at[i] = (unsigned char)value;
}

/* As in the description of the file format (docs/reference/trace-format.md). */
static void put_check(unsigned char *bytes, size_t size, size_t at, uint64_t number)
{
    uint64_t sum = number ^ UINT64_C(0x6d626d6174636865);

    put(bytes + at, 0, 4);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;

        for (int b = 7; b >= 0; b--)
            word = word << 8 | bytes[i + (size_t)b];
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    put(bytes + at, (uint32_t)(sum ^ sum >> 32), 4);
}

/* Few and close numbers, and some extreme ones. */
static uint64_t number(struct input *in)
{
    unsigned byte = take(in);

    if (byte < 240)
        return byte % 6;
    switch (byte) {
    case 240:
        return UINT64_MAX;
    case 241:
        return INT64_MAX;
    case 242:
        return UINT32_MAX;
    case 243:
        return TRACE_PEERS_MAX - 1;
    case 244:
        return UINT64_C(1) << take(in) % 64;
    case 245:
        return (uint64_t)take(in) << 32 | take(in);
    default:
        return take(in) * UINT64_C(1000);
    }
}

/* The version is one of the supported ones; usually the present one, and then the result is
 * true. */
static bool put_header(unsigned char *bytes, struct input *in, unsigned rank)
{
    unsigned version = take(in) % 8;

    version = version >= 1 && version <= 3 ? TRACE_VERSION - version : TRACE_VERSION;
    memcpy(bytes, TRACE_MAGIC, 8);
    put(bytes + 8, version, 4);
    put(bytes + 12, TRACE_RECORD_SIZE, 4);
    put(bytes + 16, take(in) % 8 == 0 ? number(in) : rank, 4);
    put(bytes + 20, 100 + number(in), 4);
    put(bytes + 24, rank, 4);
    put(bytes + 32, number(in), 8);
    put(bytes + 40, number(in), 8);
    put(bytes + 48, number(in), 4);
    put(bytes + 52, rank, 4);
    put(bytes + 56, number(in), 8);
    put_check(bytes, TRACE_HEADER_SIZE, 28, 0);
    return version == TRACE_VERSION;
}

/* Marks the last send or arrival as complete. */
static void put_done(unsigned char *bytes)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[12 + i] ^= (unsigned char)"enod"[i];
}

/* A short record that refers to an earlier event, if there is one, with close numbers. */
static void put_short(unsigned char *bytes, struct input *in, uint64_t n)
{
    const uint64_t half = UINT64_C(1) << 26;
    unsigned how = take(in);
    uint64_t entry = how & 8 ? half + number(in) : how & 16 ? number(in) : 0;
    uint64_t partner = how & 32 ? half + number(in) : how & 64 ? number(in) : 0;

    put(bytes, 128 | how % 8 | (entry & (2 * half - 1)) << 10 | partner << 37, 8);
    put(bytes + 8, number(in), 4);
    put_check(bytes, TRACE_SHORT_SIZE, 12, n);
    if (how >= 128)
        put_done(bytes);
}

/* A tiny record that refers to the last one of its type, if that was not a long one. */
static void put_tiny(unsigned char *bytes, struct input *in, uint64_t n)
{
    static const unsigned char types[] = {TRACE_SEND, TRACE_ARRIVE, TRACE_POST, TRACE_WAIT};
    unsigned how = take(in);

    put(bytes, 64 | (how < 240 ? types[how % ARRAY_COUNT(types)] : how % 64), 1);
    put(bytes + 1, number(in), 3);
    put_check(bytes, TRACE_TINY_SIZE, 4, n);
    if ((how & 4) != 0)
        put_done(bytes - 8); /* its check is 8 bytes earlier */
}

/* A record, usually one that is valid for its type.  has_form: its form gets a number. */
static void put_record(unsigned char *bytes, struct input *in, uint64_t n, bool has_form)
{
    static const struct trace_event forms[] = {
        {TRACE_PEER, 1, 1, 1, {1}, 1, 1, 0},     {TRACE_SEND, 1, 1, 1, {1}, 1, 1, 0},
        {TRACE_LEAVE, 1, 1, 1, {1}, 1, 1, 0},    {TRACE_SENT, 1, 1, 1, {1}, 0, 1, 0},
        {TRACE_SENT, 1, 1, 1, {1}, 1, 0, 0},     {TRACE_ARRIVE, 1, 1, 1, {0}, 1, 0, 0},
        {TRACE_ARRIVE, 1, 1, 1, {1}, 0, 1, 0},   {TRACE_POST, 1, 1, 1, {1}, 1, 1, 0},
        {TRACE_RECEIVED, 1, 1, 1, {1}, 1, 1, 0}, {TRACE_WAIT, 0, 0, 0, {1}, 1, 0, 0},
        {TRACE_WAITED, 0, 0, 0, {1}, 1, 1, 0},   {TRACE_RTS, 1, 1, 1, {1}, 1, 0, 0},
        {TRACE_CTS, 1, 1, 1, {1}, 1, 0, 0},      {TRACE_CONTEXT, 1, 0, 1, {1}, 1, 1, 0},
        {TRACE_PROGRAM, 0, 0, 1, {1}, 1, 1, 0},  {TRACE_CLAIM, 1, 1, 1, {0}, 1, 0, 0},
        {TRACE_TAKE, 1, 1, 1, {0}, 1, 1, 0},     {TRACE_CANCEL, 1, 1, 1, {1}, 1, 0, 0},
    };
    unsigned form = take(in);
    struct trace_event e = forms[form % ARRAY_COUNT(forms)];

    if (form == 255)
        e.type = take(in) % (TRACE_TYPES + 1);
#define DRAW(field) ((e.field) != 0 ? number(in) : 0)
    put(bytes, (uint64_t)e.type, 2);
    put(bytes + 2, has_form ? form / 8 % 8 : 0, 2);
    put(bytes + 4, DRAW(context_id), 4);
    put(bytes + 8, DRAW(source), 4);
    put(bytes + 16, DRAW(tag), 8);
    put(bytes + 24, DRAW(ignore), 8);
    put(bytes + 32, e.entry != 0 ? number(in) | (form < 200) : 0, 8);
    put(bytes + 40, DRAW(partner), 8);
    put(bytes + 48, number(in), 8);
#undef DRAW
    put_check(bytes, TRACE_RECORD_SIZE, 12, n);
    if ((form & 64) != 0 && (e.type == TRACE_SEND || e.type == TRACE_ARRIVE))
        put_done(bytes);
}

/* Makes a file of at most `events` events, or fewer if the input ends. */
static void make_file(struct input *in, unsigned rank, unsigned events)
{
    static unsigned char bytes[TRACE_HEADER_SIZE + (EVENTS_MAX + 1) * TRACE_RECORD_SIZE];
    size_t size = TRACE_HEADER_SIZE;
    FILE *file = fopen(paths[rank], "wb");
    unsigned count;
    bool has_forms;

    memset(bytes, 0, sizeof bytes);
    has_forms = put_header(bytes, in, rank);
    for (count = 0; count < events && in->size != 0; count++) {
        unsigned how = has_forms && count > 2 ? take(in) % 4 : 0;

        if (how == 1) {
            put_short(bytes + size, in, count);
            size += TRACE_SHORT_SIZE;
        } else if (how == 2) {
            put_tiny(bytes + size, in, count);
            size += TRACE_TINY_SIZE;
        } else {
            put_record(bytes + size, in, count, has_forms);
            size += TRACE_RECORD_SIZE;
        }
    }
    if (rank % 2 == 0) { /* a close */
        put(bytes + size, TRACE_CLOSE, 4);
        put_check(bytes + size, TRACE_RECORD_SIZE, 12, count);
        size += TRACE_RECORD_SIZE;
    }
    require(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0,
            "a file cannot be written");
}

static void make_bytes(const struct input *in)
{
    FILE *file = fopen(paths[0], "wb");

    require(file != NULL &&
                (in->size == 0 || fwrite(in->data, 1, in->size, file) == in->size) &&
                fclose(file) == 0,
            "a file cannot be written");
}

/* ---- use of the events ---- */

/* All times must be within the job, and all numbers must refer to something. */
static void check_job(const struct job *job)
{
    for (size_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];
        const uint64_t times[] = {m->send, m->sent, m->arrive, m->post, m->received};

        require(m->from == JOB_NOBODY || m->from < job->rank_count, "a message is from nobody");
        require(m->to == JOB_NOBODY || m->to < job->rank_count, "a message is to nobody");
        for (size_t t = 0; t < ARRAY_COUNT(times); t++)
            require(times[t] == JOB_NEVER || times[t] <= job->duration,
                    "a message is outside of the job");
    }
    for (size_t i = 0; i < job->wait_count; i++) {
        const struct job_wait *w = &job->waits[i];

        require(w->from <= w->to && w->to <= job->duration, "a wait is outside of the job");
        require(i == 0 || w[-1].rank != w->rank || w[-1].to <= w->from, "waits overlap");
        require(w->late <= w->to - w->from, "more is charged than was waited");
    }
    for (size_t i = 0; i < job->blame_count; i++)
        require(job->blames[i].ns <= job->duration * (job->wait_count + 1),
                "a rank is blamed for more than there is");
}

static void read_one(const char *path)
{
    struct trace_reader *reader = mem_alloc(sizeof *reader);
    struct replay replay;
    struct trace_event event;

    require(reader != NULL, "no memory");
    replay_init(&replay);
    if (trace_open(reader, path) == 0) {
        while (trace_next(reader, &event) == 1 && replay_event(&replay, &event) == 0) {
        }
        trace_close(reader);
    }
    replay_fini(&replay);
    mem_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    struct input in = {data, size};
    unsigned how = take(&in), ranks = 1 + how % RANKS_MAX;
    char *names[RANKS_MAX];
    FILE *out = stdout;
    struct job job;

    make_folder();
    if (nowhere == NULL)
        nowhere = fopen("/dev/null", "w");
    require(nowhere != NULL, "no /dev/null");
    if (how >= 240) {
        ranks = 1;
        make_bytes(&in);
    } else {
        for (unsigned i = 0; i < ranks; i++)
            make_file(&in, i, i + 1 < ranks ? 4 + take(&in) % 16 : EVENTS_MAX);
    }
    for (unsigned i = 0; i < ranks; i++) {
        names[i] = paths[i];
        read_one(paths[i]);
    }
    require(job_read(&job, names, ranks) == 0, "no memory");
    check_job(&job);
    stdout = nowhere;
    job_print_waits(&job);
    job_print_chart(&job, how % 2 == 0, 20);
    stdout = out;
    require(job_write_html(&job, "/dev/null") == 0, "no page");
    require(job_write_perfetto(&job, "/dev/null") == 0, "no trace of Perfetto");
    job_free(&job);
    require(mem_live() == 0, "something is left");
    return 0;
}
