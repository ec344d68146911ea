/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_perfetto.c - a job as a trace of Perfetto (ui.perfetto.dev): protocol buffers, put together here.
 *
 *   each rank      a process, with the tracks
 *     waits        a slice for each wait: what it was for
 *     messages     an instant for each message that it sends or that arrives; a flow leads from the one to the other
 *     posted, unexpected   counters
 *
 * The numbers of fields are from Perfetto's protos/perfetto/trace: trace.proto, trace_packet.proto,
 * track_event/track_event.proto, track_descriptor.proto, debug_annotation.proto.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "trace_job.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

enum { TRACE_PACKET = 1 };
enum { PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11, PACKET_TRACK = 60 };
enum { EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_CATEGORY = 22 };
enum { EVENT_NAME = 23, EVENT_COUNTER = 30, EVENT_FLOW = 47, EVENT_LAST_FLOW = 48 };
enum { TYPE_BEGIN = 1, TYPE_END, TYPE_INSTANT, TYPE_COUNTER };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { ANNOTATION_UINT = 3, ANNOTATION_STRING = 6, ANNOTATION_NAME = 10 };

/* The tracks of a rank. */
enum { OF_RANK, OF_WAITS, OF_MESSAGES, OF_POSTED, OF_UNEXPECTED, TRACKS };

#define MESSAGE_MAX 2048

/* A message of protocol buffers that is being put together. */
struct proto {
    size_t size;
    unsigned char bytes[MESSAGE_MAX];
};

static void put_byte(struct proto *p, unsigned byte)
{
    if (p->size < sizeof p->bytes)
        p->bytes[p->size++] = (unsigned char)byte;
}

static void put_number(struct proto *p, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(p, 0x80 | (value & 0x7f));
    put_byte(p, (unsigned)value);
}

static void put_uint(struct proto *p, unsigned field, uint64_t value)
{
    put_number(p, field << 3 | WIRE_VARINT);
    put_number(p, value);
}

static void put_fixed(struct proto *p, unsigned field, uint64_t value)
{
    put_number(p, field << 3 | WIRE_FIXED64);
    for (int i = 0; i < 8; i++)
        put_byte(p, (unsigned)(value >> 8 * i & 0xff));
}

static void put_bytes(struct proto *p, unsigned field, const void *bytes, size_t size)
{
    size_t capacity = sizeof p->bytes - p->size;

    if (size + 16 > capacity) /* no name is so long */
        return;
    put_number(p, field << 3 | WIRE_BYTES);
    put_number(p, size);
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

static void put_string(struct proto *p, unsigned field, const char *text)
{
    put_bytes(p, field, text, strlen(text));
}

static void put_message(struct proto *p, unsigned field, const struct proto *inner)
{
    put_bytes(p, field, inner->bytes, inner->size);
}

/* ---- packets ---- */

static uint64_t track_of(uint32_t rank, unsigned which)
{
    return 1 + (uint64_t)rank * TRACKS + which;
}

static void write_packet(FILE *out, const struct proto *packet)
{
    struct proto head = {0};

    put_number(&head, TRACE_PACKET << 3 | WIRE_BYTES);
    put_number(&head, packet->size);
    fwrite(head.bytes, 1, head.size, out);
    fwrite(packet->bytes, 1, packet->size, out);
}

static void write_event(FILE *out, uint64_t time, const struct proto *event)
{
    struct proto packet = {0};

    put_uint(&packet, PACKET_TIMESTAMP, time);
    put_uint(&packet, PACKET_SEQUENCE, 1);
    put_message(&packet, PACKET_EVENT, event);
    write_packet(out, &packet);
}

static void event_begin(struct proto *event, unsigned type, uint64_t track)
{
    event->size = 0;
    put_uint(event, EVENT_TYPE, type);
    put_uint(event, EVENT_TRACK, track);
}

static void annotate_text(struct proto *event, const char *name, const char *text)
{
    struct proto note = {0};

    put_string(&note, ANNOTATION_NAME, name);
    put_string(&note, ANNOTATION_STRING, text);
    put_message(event, EVENT_ANNOTATION, &note);
}

static void annotate_number(struct proto *event, const char *name, uint64_t number)
{
    struct proto note = {0};

    put_string(&note, ANNOTATION_NAME, name);
    put_uint(&note, ANNOTATION_UINT, number);
    put_message(event, EVENT_ANNOTATION, &note);
}

/* ---- tracks ---- */

static void write_track(FILE *out, uint64_t uuid, uint64_t parent, const char *name,
                        const struct proto *process, bool is_counter)
{
    struct proto track = {0}, packet = {0};
    const struct proto none = {0};

    put_uint(&track, TRACK_UUID, uuid);
    put_string(&track, TRACK_NAME, name);
    if (parent != 0)
        put_uint(&track, TRACK_PARENT, parent);
    if (process != NULL)
        put_message(&track, TRACK_PROCESS, process);
    if (is_counter)
        put_message(&track, TRACK_COUNTER, &none);
    put_uint(&packet, PACKET_SEQUENCE, 1);
    put_message(&packet, PACKET_TRACK, &track);
    write_packet(out, &packet);
}

static void write_tracks(FILE *out, const struct job *job, uint32_t rank)
{
    static const char *const names[TRACKS] = {NULL, "waits", "messages", "posted receives",
                                              "unexpected messages"};
    struct proto process = {0};
    char name[32];

    job_rank_text(job, rank, name);
    put_uint(&process, PROCESS_PID,
             (uint64_t)rank + 1); /* processes of several hosts may have the same number */
    put_string(&process, PROCESS_NAME, name);
    write_track(out, track_of(rank, OF_RANK), 0, name, &process, false);
    for (unsigned i = OF_WAITS; i < TRACKS; i++)
        write_track(out, track_of(rank, i), track_of(rank, OF_RANK), names[i], NULL,
                    i >= OF_POSTED);
}

/* ---- events ---- */

static void write_message(FILE *out, const struct job *job, uint32_t number, bool is_send)
{
    const struct job_message *m = &job->messages[number];
    bool is_paired = m->send != JOB_NEVER && m->arrive != JOB_NEVER;
    char envelope[TRACE_ENVELOPE_TEXT], name[TRACE_ENVELOPE_TEXT + 64], other[32];
    const char *protocol =
        m->protocol >= 0 ? mbx_protocol_name((enum mbx_protocol)m->protocol) : NULL;
    struct proto event;

    event_begin(&event, TYPE_INSTANT, track_of(is_send ? m->from : m->to, OF_MESSAGES));
    job_message_text(job, m, envelope);
    job_rank_text(job, is_send ? m->to : m->from, other);
    snprintf(name, sizeof name, "%s %s, %s", is_send ? "to" : "from", other, envelope);
    put_string(&event, EVENT_NAME, name);
    put_string(&event, EVENT_CATEGORY, is_send ? "send" : "arrive");
    if (m->size != JOB_NEVER)
        annotate_number(&event, "bytes", m->size);
    if (protocol != NULL)
        annotate_text(&event, "protocol", protocol);
    if (!is_send)
        annotate_text(&event, "queue", m->is_unexpected ? "unexpected" : "expected");
    if (is_paired)
        put_fixed(&event, is_send ? EVENT_FLOW : EVENT_LAST_FLOW, (uint64_t)number + 1);
    write_event(out, is_send ? m->send : m->arrive, &event);
}

static void write_wait(FILE *out, const struct job *job, const struct job_wait *w)
{
    char envelope[TRACE_ENVELOPE_TEXT], guilty[32];
    struct proto event;

    event_begin(&event, TYPE_BEGIN, track_of(w->rank, OF_WAITS));
    put_string(&event, EVENT_NAME, job_wait_text(w->kind));
    put_string(&event, EVENT_CATEGORY, "wait");
    if (w->late != 0) {
        annotate_text(&event, "for", job_rank_text(job, w->guilty, guilty));
        annotate_number(&event, "late_ns", w->late);
    }
    if (w->message != JOB_NOBODY)
        annotate_text(&event, "ended by",
                      job_message_text(job, &job->messages[w->message], envelope));
    write_event(out, w->from, &event);
    event_begin(&event, TYPE_END, track_of(w->rank, OF_WAITS));
    write_event(out, w->to, &event);
}

static void write_depths(FILE *out, const struct job *job, uint32_t rank, unsigned which,
                         const uint32_t *depths)
{
    uint64_t slice = job->duration / JOB_SLICES + 1;
    struct proto event;

    for (size_t i = 0; i < JOB_SLICES; i++) {
        if (i != 0 && depths[i] == depths[i - 1])
            continue;
        event_begin(&event, TYPE_COUNTER, track_of(rank, which));
        put_uint(&event, EVENT_COUNTER, depths[i]);
        write_event(out, i * slice, &event);
    }
}

int job_write_perfetto(const struct job *job, const char *path)
{
    FILE *out = fopen(path, "we");
    int failed;

    if (out == NULL)
        return -errno;
    for (uint32_t i = 0; i < job->rank_count; i++)
        if (job->ranks[i].is_read)
            write_tracks(out, job, i);
    for (uint32_t i = 0; i < job->message_count; i++) {
        if (job->messages[i].send != JOB_NEVER)
            write_message(out, job, i, true);
        if (job->messages[i].arrive != JOB_NEVER)
            write_message(out, job, i, false);
    }
    for (size_t i = 0; i < job->wait_count; i++)
        write_wait(out, job, &job->waits[i]);
    for (uint32_t i = 0; i < job->rank_count; i++) {
        if (!job->ranks[i].is_read)
            continue;
        write_depths(out, job, i, OF_POSTED, job->depths[i].posted);
        write_depths(out, job, i, OF_UNEXPECTED, job->depths[i].unexpected);
    }
    failed = ferror(out) || fflush(out) != 0 ? errno : 0;
    if (fclose(out) != 0 && failed == 0)
        failed = errno;
    return -failed;
}
