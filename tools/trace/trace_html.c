/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_html.c - a job as one page: a summary that needs no script, and a timeline that is drawn by one.
 *
 *   trace_page.html   @TITLE@    of the page
 *                     @SUMMARY@  sections of HTML, and the timeline as a picture without messages
 *                     @DATA@     the job as arrays, in 100 ns
 *
 * The page loads nothing: it contains its styles and its script, and forbids itself everything else.  Names
 * of communicators and ranks come from the program that was traced; none gets into the page unescaped.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/mem.h"
#include "tools/common/escape.h"
#include "trace_job.h"

extern const char trace_page[]; /* trace_page.html */

#define MESSAGES_MAX 200000 /* on the page */
#define WAITS_MAX    100000
#define RANKS_DEPTHS 64 /* beyond so many ranks the depths of queues are left out */
#define UNIT_NS      100

/* ---- text ---- */

static void put_html(FILE *out, const char *text)
{
    escape_put(out, ESCAPE_HTML, text);
}

static void put_seconds(FILE *out, uint64_t ns)
{
    if (ns >= 1000000000)
        fprintf(out, "%.3f s", (double)ns / 1e9);
    else if (ns >= 1000000)
        fprintf(out, "%.3f ms", (double)ns / 1e6);
    else
        fprintf(out, "%.1f us", (double)ns / 1e3);
}

static void put_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < ARRAY_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    fprintf(out, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* ---- the summary ---- */

struct totals {
    uint64_t sent, received, bytes, without_receiver, without_sender, unexpected;
};

static void count_messages(const struct job *job, uint32_t rank, struct totals *t)
{
    *t = (struct totals){.sent = 0};
    for (size_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];
        bool is_from = m->send != JOB_NEVER, is_to = m->arrive != JOB_NEVER;

        if (rank == JOB_NOBODY || (is_from && m->from == rank)) {
            t->sent += is_from;
            t->bytes += m->size != JOB_NEVER ? m->size : 0;
        }
        if (rank == JOB_NOBODY || (is_to && m->to == rank)) {
            t->received += is_to;
            t->unexpected += is_to && m->is_unexpected;
        }
        t->without_receiver += is_from && !is_to;
        t->without_sender += is_to && !is_from;
    }
}

static uint32_t deepest(const uint32_t *depths)
{
    uint32_t most = 0;

    for (size_t i = 0; i < JOB_SLICES; i++)
        most = depths[i] > most ? depths[i] : most;
    return most;
}

/* Lists the parts of the job that this page does not show. */
static void put_notes(FILE *out, const struct job *job, const struct totals *all)
{
    size_t read = 0;
    bool is_needed = job->message_count > MESSAGES_MAX || job->wait_count > WAITS_MAX ||
                     all->without_receiver != 0 || all->without_sender != 0;

    for (size_t i = 0; i < job->rank_count; i++) {
        read += job->ranks[i].is_read;
        is_needed |= job->ranks[i].error[0] != '\0' || job->ranks[i].slack != 0;
    }
    if (!is_needed && job->size <= read)
        return;
    fprintf(out, "<section class=\"notes\"><h2>What this page does not show</h2><ul>\n");
    if (job->size > read)
        fprintf(out,
                "<li>The job had %" PRIu32
                " ranks, and the traces of %zu of them were read.</li>\n",
                job->size, read);
    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        char name[32];

        if (rank->error[0] != '\0') {
            fprintf(out, "<li>%s: ",
                    rank->is_read ? job_rank_text(job, (uint32_t)i, name) : "not read");
            put_html(out, rank->error);
            fprintf(out, "</li>\n");
        }
        if (rank->slack != 0) {
            fprintf(out, "<li>%s is on another host: its times may be wrong by ",
                    job_rank_text(job, (uint32_t)i, name));
            put_seconds(out, rank->slack);
            fprintf(out, ".</li>\n");
        }
    }
    if (all->without_receiver != 0)
        fprintf(out,
                "<li>%" PRIu64
                " messages were sent whose arrival is in no trace: it was not read, "
                "or ends before.</li>\n",
                all->without_receiver);
    if (all->without_sender != 0)
        fprintf(out,
                "<li>%" PRIu64
                " messages arrived whose sender's trace does not have them.</li>\n",
                all->without_sender);
    if (job->message_count > MESSAGES_MAX)
        fprintf(
            out,
            "<li>Of %zu messages the timeline has the first %d; the tables have all.</li>\n",
            job->message_count, MESSAGES_MAX);
    if (job->wait_count > WAITS_MAX)
        fprintf(out, "<li>Of %zu waits the timeline has %d; the tables have all.</li>\n",
                job->wait_count, WAITS_MAX);
    fprintf(out, "</ul></section>\n");
}

static void put_head(FILE *out, const struct job *job, const struct totals *all)
{
    const char *program = "";

    for (size_t i = 0; i < job->rank_count && program[0] == '\0'; i++)
        program = job->ranks[i].words.program;
    fprintf(out, "<h1>%zu %s, ", job->rank_count, job->rank_count == 1 ? "rank" : "ranks");
    put_seconds(out, job->duration);
    fprintf(out, "</h1>\n<p class=\"soft\">%" PRIu64 " messages of ", all->sent);
    put_bytes(out, all->bytes);
    fprintf(out,
            ", %" PRIu64 " of %" PRIu64 " arrivals unexpected, %zu waits, %" PRIu64 " events",
            all->unexpected, all->received, job->wait_count, job->events);
    if (program[0] != '\0') {
        fprintf(out, "; ");
        put_html(out, program);
    }
    fprintf(out, "</p>\n");
}

static void put_blames(FILE *out, const struct job *job)
{
    char text[JOB_BLAME_TEXT];
    bool is_any = false;

    fprintf(out, "<section><h2>Who waited for whom</h2>\n");
    for (size_t i = 0; i < job->blame_count; i++) {
        const struct job_blame *blame = &job->blames[i];

        if (!job_is_worth(job, blame))
            continue;
        fputs(is_any ? "" : "<ul class=\"blames\">\n", out);
        is_any = true;
        fprintf(out, "<li><span class=\"swatch k%d\"></span>", (int)blame->kind);
        put_html(out, job_blame_text(job, blame, text));
        fprintf(out, "</li>\n");
    }
    fprintf(out,
            is_any ? "</ul>\n"
                   : "<p>No rank waited %d %% of its time for a rank that was late.</p>\n",
            JOB_WORTH);
    fprintf(
        out,
        "<p class=\"soft\">A wait is a time of at least 10 us in which a rank only looked for "
        "completions. Shares below %d %% of a rank's time are left out.</p></section>\n",
        JOB_WORTH);
}

static void put_ranks(FILE *out, const struct job *job)
{
    fprintf(
        out,
        "<section><h2>Ranks</h2><div "
        "class=\"scroll\"><table>\n<tr><th>rank</th><th>sent</th><th>bytes</th><th>arrived</th>"
        "<th>unexpected</th><th>most posted</th><th>most "
        "unexpected</th><th>time</th><th>waited</th>"
        "<th></th><th class=\"text\">trace</th></tr>\n");
    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        uint64_t time = rank->last - rank->first;
        double share = time != 0 ? 100.0 * (double)rank->waited / (double)time : 0;
        struct totals t;
        char name[32];

        if (!rank->is_read)
            continue;
        count_messages(job, (uint32_t)i, &t);
        fprintf(out, "<tr><td>%s</td><td>%" PRIu64 "</td><td>",
                job_rank_text(job, (uint32_t)i, name), t.sent);
        put_bytes(out, t.bytes);
        fprintf(out,
                "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu32 "</td><td>%" PRIu32
                "</td><td>",
                t.received, t.unexpected, deepest(job->depths[i].posted),
                deepest(job->depths[i].unexpected));
        put_seconds(out, time);
        fprintf(out,
                "</td><td>%.1f %%</td><td class=\"bar\"><span "
                "style=\"width:%.1f%%\"></span></td><td class=\"text\">",
                share, share > 100 ? 100 : share);
        put_html(out, rank->error[0] != '\0' ? "cut: the file has no end" : "whole");
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table></div></section>\n");
}

/* ---- the picture without a script ---- */

#define PICTURE_WIDTH 1000
#define PICTURE_LEFT  110
#define PICTURE_ROW   30

static double picture_x(const struct job *job, uint64_t time)
{
    return PICTURE_LEFT +
           (double)time / (double)(job->duration + 1) * (PICTURE_WIDTH - PICTURE_LEFT - 8);
}

/* The time that a rank waited in each of so many slices, by kind: a picture of any job is small. */
#define PICTURE_SLICES 300

static void put_slices(FILE *out, const struct job *job, uint32_t rank)
{
    static uint64_t late[PICTURE_SLICES][WAIT_KINDS];
    uint64_t slice = job->duration / PICTURE_SLICES + 1;

    memset(late, 0, sizeof late);
    for (size_t i = 0; i < job->wait_count; i++) {
        const struct job_wait *w = &job->waits[i];

        if (w->rank != rank)
            continue;
        for (uint64_t s = w->from / slice; s <= w->to / slice && s < PICTURE_SLICES; s++) {
            uint64_t begin = max_size(w->from, s * slice),
                     end = min_size(w->to, (s + 1) * slice);
            uint64_t until = max_size(begin, min_size(end, w->from + w->late));

            late[s][w->kind] += until - begin;
            late[s][w->kind == WAIT_UNKNOWN ? WAIT_UNKNOWN : WAIT_TRANSFER] += end - until;
        }
    }
    for (size_t s = 0; s < PICTURE_SLICES; s++) {
        double top = 0, x = picture_x(job, s * slice),
               width = picture_x(job, (s + 1) * slice) - x;

        for (int kind = 0; kind < WAIT_KINDS; kind++) {
            double height = (double)late[s][kind] / (double)slice * 18;

            if (height < 0.2)
                continue;
            fprintf(
                out,
                "<rect class=\"k%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                kind, x, 4 + rank * (double)PICTURE_ROW + top, width, height);
            top += height;
        }
    }
}

static void put_picture(FILE *out, const struct job *job)
{
    size_t count = job->rank_count < RANKS_DEPTHS ? job->rank_count : RANKS_DEPTHS;

    fprintf(out,
            "<svg id=\"static\" viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"when each "
            "rank waited\">\n",
            PICTURE_WIDTH, count * PICTURE_ROW + 24);
    for (size_t i = 0; i < count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        char name[32];

        fprintf(out, "<text x=\"0\" y=\"%zu\">%s</text>", i * PICTURE_ROW + 18,
                job_rank_text(job, (uint32_t)i, name));
        if (!rank->is_read)
            continue;
        fprintf(out,
                "<rect class=\"there\" x=\"%.1f\" y=\"%zu\" width=\"%.1f\" height=\"18\"/>",
                picture_x(job, rank->first), i * PICTURE_ROW + 4,
                picture_x(job, rank->last) - picture_x(job, rank->first));
        put_slices(out, job, (uint32_t)i);
        fputc('\n', out);
    }
    fprintf(
        out, "<text x=\"%d\" y=\"%zu\">0</text><text x=\"%d\" y=\"%zu\" text-anchor=\"end\">",
        PICTURE_LEFT, count * PICTURE_ROW + 18, PICTURE_WIDTH - 8, count * PICTURE_ROW + 18);
    put_seconds(out, job->duration);
    fprintf(out, "</text></svg>\n");
}

static void put_timeline(FILE *out, const struct job *job)
{
    static const char *const legend[] = {
        "<span class=\"swatch there\"></span>does not wait",
        "<span class=\"swatch k0\"></span>waits for a late sender",
        "<span class=\"swatch k1\"></span>waits for a late receiver",
        "<span class=\"swatch k2\"></span>waits in a collective for the last rank",
        "<span class=\"swatch k3\"></span>the message is on its way",
        "<span class=\"swatch k4\"></span>waits, not known for what",
        "<span class=\"swatch posted\"></span>posted receives",
        "<span class=\"swatch unexpected\"></span>unexpected messages",
        "<span class=\"swatch arrow\"></span>message",
    };

    fprintf(out, "<section><h2>Timeline</h2><div class=\"legend\">\n");
    for (size_t i = 0; i < ARRAY_COUNT(legend); i++)
        fprintf(out, "<span>%s</span>\n", legend[i]);
    fprintf(out,
            "</div>\n<div class=\"tools\"><button id=\"in\">Zoom in</button><button "
            "id=\"out\">Zoom out</button>"
            "<button id=\"all\">Whole job</button><button id=\"arrows\">Hide messages</button>"
            "<span id=\"count\"></span><span>Wheel: zoom. Drag: move. Click: what it "
            "is.</span></div>\n"
            "<canvas id=\"canvas\" tabindex=\"0\" aria-label=\"timeline\"></canvas><div "
            "id=\"detail\"></div>\n");
    put_picture(out, job);
    fprintf(out, "</section>\n");
}

static void put_summary(FILE *out, const struct job *job)
{
    struct totals all;

    count_messages(job, JOB_NOBODY, &all);
    put_head(out, job, &all);
    put_notes(out, job, &all);
    put_timeline(out, job);
    put_blames(out, job);
    put_ranks(out, job);
}

/* ---- the data of the script ---- */

/* Envelopes have names once. */
struct labels {
    struct {
        uint32_t context_id, message;
        uint64_t tag;
        uint32_t number; /* from 1; 0: free */
    } * slots;
    size_t capacity;
    uint32_t count;
};

static uint32_t label_of(struct labels *labels, const struct job_message *m, uint32_t number)
{
    uint64_t hash = (m->tag ^ (uint64_t)m->context_id << 32) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 24) & (labels->capacity - 1);

    while (labels->slots[at].number != 0 &&
           (labels->slots[at].context_id != m->context_id || labels->slots[at].tag != m->tag))
        at = (at + 1) & (labels->capacity - 1);
    if (labels->slots[at].number == 0) {
        labels->slots[at].context_id = m->context_id;
        labels->slots[at].tag = m->tag;
        labels->slots[at].message = number;
        labels->slots[at].number = ++labels->count;
    }
    return labels->slots[at].number - 1;
}

static void put_time(FILE *out, uint64_t time, uint64_t base)
{
    if (time == JOB_NEVER)
        fputs("_,", out);
    else
        fprintf(out, "%" PRId64 ",", (int64_t)(time / UNIT_NS) - (int64_t)(base / UNIT_NS));
}

static void put_rank_number(FILE *out, uint32_t rank)
{
    fprintf(out, "%d,", rank == JOB_NOBODY ? -1 : (int)rank);
}

static void put_messages(FILE *out, const struct job *job, struct labels *labels)
{
    uint64_t last = 0;

    fputs("m:[", out);
    for (size_t i = 0; i < job->message_count && i < MESSAGES_MAX; i++) {
        const struct job_message *m = &job->messages[i];
        uint64_t at = m->send != JOB_NEVER ? m->send : m->arrive;

        put_rank_number(out, m->from);
        put_rank_number(out, m->to);
        put_time(out, at, last);
        put_time(out, m->arrive, at);
        put_time(out, m->post, at);
        put_time(out, m->received, at);
        put_time(out, m->sent, at);
        if (m->size != JOB_NEVER)
            fprintf(out, "%" PRIu64 ",", m->size);
        else
            fputs("_,", out);
        fprintf(out, "%" PRIu32 ",%d,", label_of(labels, m, (uint32_t)i),
                (m->send != JOB_NEVER) | m->is_unexpected << 1 | (m->protocol + 1) << 2);
        if (i % 16 == 15)
            fputc('\n', out);
        last = at;
    }
    fputs("],\n", out);
}

static void put_waits(FILE *out, const struct job *job)
{
    fputs("w:[", out);
    for (size_t i = 0; i < job->wait_count && i < WAITS_MAX; i++) {
        const struct job_wait *w = &job->waits[i];

        fprintf(out, "%" PRIu32 ",", w->rank);
        put_time(out, w->from, 0);
        put_time(out, w->to, w->from);
        fprintf(out, "%d,", (int)w->kind);
        put_rank_number(out, w->guilty);
        fprintf(out, "%" PRIu64 ",%d,", w->late / UNIT_NS,
                w->message < MESSAGES_MAX ? (int)w->message : -1);
        if (i % 16 == 15)
            fputc('\n', out);
    }
    fputs("],\n", out);
}

static void put_depths(FILE *out, const char *name, const uint32_t *depths)
{
    fprintf(out, ",%s:[", name);
    for (size_t i = 0; i < JOB_SLICES; i++)
        fprintf(out, "%" PRIu32 ",", depths[i]);
    fputc(']', out);
}

static void put_data_ranks(FILE *out, const struct job *job)
{
    fputs("ranks:[", out);
    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        uint32_t posted = deepest(job->depths[i].posted),
                 unexpected = deepest(job->depths[i].unexpected);
        char name[32];

        fputs("{n:", out);
        escape_put_string(out, ESCAPE_SCRIPT, job_rank_text(job, (uint32_t)i, name));
        fprintf(out, ",f:%" PRIu64 ",l:%" PRIu64 ",p:%" PRIu32 ",u:%" PRIu32 ",cut:%d",
                rank->first / UNIT_NS, rank->last / UNIT_NS, posted, unexpected,
                rank->error[0] != '\0');
        if (posted != 0 && i < RANKS_DEPTHS)
            put_depths(out, "posted", job->depths[i].posted);
        if (unexpected != 0 && i < RANKS_DEPTHS)
            put_depths(out, "unexpected", job->depths[i].unexpected);
        fputs("},\n", out);
    }
    fputs("],\n", out);
}

/* False: no memory. */
static bool put_labels(FILE *out, const struct job *job, const struct labels *labels)
{
    char text[TRACE_ENVELOPE_TEXT];
    uint32_t *messages = mem_calloc(labels->count + 1, sizeof *messages);

    if (messages == NULL)
        return false;
    for (size_t i = 0; i < labels->capacity; i++)
        if (labels->slots[i].number != 0)
            messages[labels->slots[i].number - 1] = labels->slots[i].message;
    fputs("labels:[", out);
    for (uint32_t i = 0; i < labels->count; i++) {
        escape_put_string(out, ESCAPE_SCRIPT,
                          job_message_text(job, &job->messages[messages[i]], text));
        fputs(",\n", out);
    }
    fputs("],\n", out);
    mem_free(messages);
    return true;
}

static void put_protocols(FILE *out)
{
    fputs("protocols:[", out);
    for (int i = 0; i < MBX_PROTOCOLS; i++) {
        escape_put_string(out, ESCAPE_SCRIPT, mbx_protocol_name((enum mbx_protocol)i));
        fputc(',', out);
    }
    fputs("]", out);
}

static int put_data(FILE *out, const struct job *job)
{
    struct labels labels = {.capacity = 1024};
    bool is_put;

    while (labels.capacity < 2 * min_size(job->message_count, MESSAGES_MAX))
        labels.capacity *= 2;
    labels.slots = mem_calloc(labels.capacity, sizeof *labels.slots);
    if (labels.slots == NULL)
        return -ENOMEM;
    fprintf(out, "const D = {duration:%" PRIu64 ",slices:%d,\n", job->duration / UNIT_NS,
            JOB_SLICES);
    put_data_ranks(out, job);
    put_messages(out, job, &labels);
    put_waits(out, job);
    is_put = put_labels(out, job, &labels);
    put_protocols(out);
    fputs("};\n", out);
    mem_free(labels.slots);
    return is_put ? 0 : -ENOMEM;
}

/* ---- the page ---- */

static int put_page(FILE *out, const struct job *job)
{
    static const char *const marks[] = {"@TITLE@", "@SUMMARY@", "@DATA@"};
    const char *at = trace_page;

    for (size_t i = 0; i < ARRAY_COUNT(marks); i++) {
        const char *mark = strstr(at, marks[i]);
        int err = 0;

        assert(mark != NULL);
        fwrite(at, 1, (size_t)(mark - at), out);
        if (i == 0)
            fprintf(out, "A job of %zu ranks", job->rank_count);
        else if (i == 1)
            put_summary(out, job);
        else
            err = put_data(out, job);
        if (err < 0)
            return err;
        at = mark + strlen(marks[i]);
    }
    fputs(at, out);
    return 0;
}

int job_write_html(const struct job *job, const char *path)
{
    FILE *out = fopen(path, "we");
    int err, failed;

    if (out == NULL)
        return -errno;
    err = put_page(out, job);
    failed = ferror(out) || fflush(out) != 0 ? errno : 0;
    if (fclose(out) != 0 && failed == 0)
        failed = errno;
    return err < 0 ? err : -failed;
}
