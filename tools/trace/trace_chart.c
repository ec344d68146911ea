/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_chart.c - the first messages of a job as a sequence chart: each packet with its sender and receiver, in order.
 *
 *   sender                        receiver
 *      │                             ├ posts a receive
 *      ├──── RTS, 0 bytes ──────────>│
 *      │ - - read, 1048576 bytes - ->│
 *      │<──── FIN ───────────────────┤
 *
 * The rows of a message keep the order of the events at each side.  Two rows could be exchanged if one is at the
 * sender, one is at the receiver, and nothing is between them.  Then the row with the lower `place` is first, so that
 * one story has one chart, however its processes were scheduled.  Messages stand below each other even if they
 * travelled at the same time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/mem.h"
#include "tools/common/escape.h"
#include "trace_job.h"

#define ROWS_MAX 48 /* of a message */
#define ROW_TEXT 96

#define NO_EVENT UINT64_MAX /* an end of an arrow that no event tells of */

enum row_kind { ROW_NOTE, ROW_ARROW, ROW_DASHED };

struct row {
    enum row_kind kind;
    bool is_back;   /* an arrow from the receiver to the sender; a note at the receiver */
    bool is_done;   /* it is printed */
    uint64_t at[2]; /* its event at the sender, at the receiver */
    unsigned place;
    char text[ROW_TEXT];
};

struct chart {
    const struct job *job;
    bool is_svg;
    double y;          /* of SVG */
    uint32_t *columns; /* of each rank; JOB_NOBODY: it has none */
    uint32_t count;    /* of columns */
    struct row rows[ROWS_MAX];
    size_t row_count;
};

/* ---- the rows of a message ---- */

static struct row *row_add(struct chart *c, enum row_kind kind, bool is_back, unsigned place,
                           uint64_t at_sender, uint64_t at_receiver)
{
    static struct row spare;
    struct row *row = c->row_count < ROWS_MAX ? &c->rows[c->row_count++] : &spare;

    *row = (struct row){
        .kind = kind, .is_back = is_back, .at = {at_sender, at_receiver}, .place = place};
    return row;
}

static void note(struct chart *c, bool at_receiver, unsigned place, uint64_t event,
                 const char *text)
{
    struct row *row = row_add(c, ROW_NOTE, at_receiver, place, at_receiver ? NO_EVENT : event,
                              at_receiver ? event : NO_EVENT);

    snprintf(row->text, sizeof row->text, "%s", text);
}

static void arrow(struct chart *c, enum row_kind kind, bool is_back, unsigned place,
                  uint64_t at_sender, uint64_t at_receiver, const char *what, uint64_t bytes)
{
    struct row *row = row_add(c, kind, is_back, place, at_sender, at_receiver);

    if (bytes != JOB_NEVER)
        snprintf(row->text, sizeof row->text, "%s, %" PRIu64 " bytes", what, bytes);
    else
        snprintf(row->text, sizeof row->text, "%s", what);
}

/* The first step of this type of message number m; NULL: it has none. */
static const struct job_step *step_of(const struct job *job, uint32_t m, enum trace_type type)
{
    for (size_t i = 0; i < job->step_count; i++)
        if (job->steps[i].message == m && job->steps[i].type == type)
            return &job->steps[i];
    return NULL;
}

static uint64_t event_of(const struct job_step *step)
{
    return step != NULL ? step->event : NO_EVENT;
}

/* Adds the packets by which sender and receiver agree on a receive before the message leaves. */
static void add_agreement(struct chart *c, uint32_t number, const struct job_message *m)
{
    const struct job *job = c->job;
    const struct job_step *announce = step_of(job, number, TRACE_ADVERTISE),
                          *rtr = step_of(job, number, TRACE_RTR),
                          *match = step_of(job, number, TRACE_MATCH),
                          *lock = step_of(job, number, TRACE_LOCK),
                          *grant = step_of(job, number, TRACE_GRANT);

    if (announce != NULL)
        arrow(c, ROW_ARROW, true, announce->time < m->send ? 11 : 20,
              announce->time < m->send ? NO_EVENT : event_of(lock), announce->event,
              "ADVERTISE: where the buffer is", JOB_NEVER);
    if (rtr != NULL)
        arrow(c, ROW_ARROW, true, 21, event_of(match), rtr->event, "RTR: the receive",
              JOB_NEVER);
    if (match != NULL)
        note(c, false, 22, match->event, "the receive suits what waits here");
    if (lock != NULL)
        note(c, false, 23, lock->event, "takes the receive");
    if (grant != NULL)
        note(c, false, 24, grant->event, "the receive is won");
}

/* How its first bytes, or all, get to the receiver. */
static void add_travel(struct chart *c, uint32_t number, const struct job_message *m)
{
    const struct job *job = c->job;
    const struct job_step *rts = step_of(job, number, TRACE_RTS),
                          *write = step_of(job, number, TRACE_WRITE),
                          *pull = step_of(job, number, TRACE_PULL),
                          *grant = step_of(job, number, TRACE_GRANT);
    bool is_shared = step_of(job, number, TRACE_SHARE) != NULL;
    const char *protocol =
        m->protocol >= 0 ? mbx_protocol_name((enum mbx_protocol)m->protocol) : NULL;
    char text[ROW_TEXT - 32]; /* arrow() adds the bytes */

    if (rts != NULL) {
        arrow(c, ROW_ARROW, false, 40, rts->event, m->arrive_event, "RTS", rts->amount);
    } else if (write != NULL && !is_shared) {
        arrow(c, ROW_DASHED, false, 40, write->event, NO_EVENT, "writes into the buffer",
              m->size);
        arrow(c, ROW_ARROW, false, 41, m->sent_event, m->arrive_event, "WRITTEN", JOB_NEVER);
    } else if (pull != NULL) {
        arrow(c, ROW_DASHED, false, 40, NO_EVENT, pull->event,
              "pulled out of the sender's table", m->size);
    } else {
        snprintf(text, sizeof text, "message, %s", protocol != NULL ? protocol : "eager");
        arrow(c, ROW_ARROW, false, 40, grant != NULL ? grant->event : m->send_event,
              m->arrive_event, text, m->size);
    }
    if (m->is_unexpected)
        note(c, true, 42, m->arrive_event, "unexpected: it waits");
}

/* The rest. */
static void add_data(struct chart *c, uint32_t number, const struct job_message *m)
{
    const struct job *job = c->job;
    const struct job_step *share = step_of(job, number, TRACE_SHARE),
                          *read = step_of(job, number, TRACE_READ),
                          *cts = step_of(job, number, TRACE_CTS),
                          *data = step_of(job, number, TRACE_DATA),
                          *fin = step_of(job, number, TRACE_FIN),
                          *hand = step_of(job, number, TRACE_HAND),
                          *write = step_of(job, number, TRACE_WRITE);

    if (hand != NULL)
        note(c, true, 47, hand->event, "matched by the device");
    if (read != NULL)
        arrow(c, ROW_DASHED, false, 50, NO_EVENT, read->event, "read", read->amount);
    if (share != NULL) {
        arrow(c, ROW_ARROW, true, 51, event_of(write), share->event, "SPLIT_COPY: write a part",
              share->amount);
        if (write != NULL)
            arrow(c, ROW_DASHED, false, 52, write->event, NO_EVENT, "writes its part",
                  JOB_NEVER);
    }
    if (cts != NULL)
        arrow(c, ROW_ARROW, true, 60, event_of(data), cts->event, "CTS", cts->amount);
    if (data != NULL)
        arrow(c, ROW_ARROW, false, 61, m->sent_event, m->received_event, "DATA", data->amount);
    if (fin != NULL)
        arrow(c, ROW_ARROW, true, 70, m->sent_event, fin->event, "FIN", JOB_NEVER);
}

static void add_rows(struct chart *c, uint32_t number)
{
    const struct job_message *m = &c->job->messages[number];

    c->row_count = 0;
    if (m->send != JOB_NEVER)
        note(c, false, 13, m->send_event, "sends");
    if (m->post != JOB_NEVER)
        note(c, true,
             m->is_unexpected                            ? 45
             : m->send != JOB_NEVER && m->send < m->post ? 14
                                                         : 10,
             m->post_event, "posts a receive");
    add_agreement(c, number, m);
    add_travel(c, number, m);
    add_data(c, number, m);
    if (m->sent != JOB_NEVER)
        note(c, false, 79, m->sent_event,
             m->error != 0 ? "the send has failed" : "the send is complete");
    if (m->received != JOB_NEVER)
        note(c, true, 80, m->received_event,
             m->error != 0 ? "the receive has failed" : "the receive is complete");
}

/* May this row be printed: is all that is before it, at its side, printed? */
static bool is_next(const struct chart *c, const struct row *row)
{
    for (size_t i = 0; i < c->row_count; i++) {
        const struct row *other = &c->rows[i];

        if (other == row || other->is_done)
            continue;
        for (int side = 0; side < 2; side++)
            if (other->at[side] != NO_EVENT && row->at[side] != NO_EVENT &&
                (other->at[side] < row->at[side] ||
                 (other->at[side] == row->at[side] && other->place < row->place)))
                return false;
    }
    return true;
}

/* NULL: all are printed. */
static struct row *row_next(struct chart *c)
{
    struct row *best = NULL, *any = NULL;

    for (size_t i = 0; i < c->row_count; i++) {
        struct row *row = &c->rows[i];

        if (row->is_done)
            continue;
        if (any == NULL || row->place < any->place)
            any = row;
        if (is_next(c, row) && (best == NULL || row->place < best->place))
            best = row;
    }
    return best != NULL ? best
                        : any; /* clocks cannot contradict the order of events; files can */
}

/* ---- SVG ---- */

#define COLUMN 330
#define MARGIN 240
#define LINE   30

static int column_x(const struct chart *c, uint32_t rank)
{
    return MARGIN + (int)c->columns[rank] * COLUMN;
}

static void svg_label(double x, double y, const char *class, const char *text)
{
    printf("<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", class, x, y);
    escape_put(stdout, ESCAPE_HTML, text);
    printf("</text>\n");
}

static void svg_arrow(struct chart *c, const struct row *row, uint32_t from, uint32_t to)
{
    double x0 = column_x(c, from), x1 = column_x(c, to), by = x1 > x0 ? 9 : -9;

    svg_label((x0 + x1) / 2, c->y - 6, "m", row->text);
    if (from == to) {
        printf("<path class=\"a\" d=\"M%.0f %.0fh40v10h-40\"/>\n", x0, c->y);
        return;
    }
    printf("<path class=\"%s\" d=\"M%.0f %.0fH%.0f\"/><path class=\"h\" d=\"M%.0f %.0fl%.0f "
           "-4v8z\"/>\n",
           row->kind == ROW_DASHED ? "a d" : "a", x0, c->y, x1 - by, x1, c->y, -by);
}

static void svg_note(struct chart *c, const struct row *row, uint32_t rank)
{
    double x = column_x(c, rank);

    printf("<circle class=\"h\" cx=\"%.0f\" cy=\"%.0f\" r=\"3\"/>\n", x, c->y - 3);
    svg_label(x + (row->is_back ? 9 : -9), c->y + 1, row->is_back ? "r" : "l", row->text);
}

static void svg_begin(const struct chart *c, size_t rows)
{
    int width = 2 * MARGIN + (int)(c->count > 1 ? c->count - 1 : 1) * COLUMN;
    int height = 50 + (int)rows * LINE;

    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
           "role=\"img\" "
           "aria-label=\"sequence chart\">\n<style>\n"
           "svg { --ink: #1d2127; --soft: #5b6470; --line: #aab3bd; --bg: #fff; color-scheme: "
           "light dark; background: var(--bg) }\n"
           "@media (prefers-color-scheme: dark) { svg { --ink: #e6e9ed; --soft: #a2acb8; "
           "--line: #566270; --bg: #1c2127 } }\n"
           "text { font: 14px system-ui, \"DejaVu Sans\", sans-serif; fill: var(--ink); "
           "paint-order: stroke; stroke: var(--bg); stroke-width: 4px }\n"
           ".t { font-weight: 600; text-anchor: middle } .m { text-anchor: middle } .l { "
           "text-anchor: end }\n"
           ".l, .r, .s { fill: var(--soft); font-size: 13px } .a, .c { fill: none; stroke: "
           "var(--ink); stroke-width: 1.5 }\n"
           ".c { stroke: var(--line) } .d { stroke-dasharray: 6 4 } .h { fill: var(--ink) "
           "}\n</style>\n",
           width, height, width);
    for (uint32_t i = 0; i < c->job->rank_count; i++) {
        char name[32];

        if (c->columns[i] == JOB_NOBODY)
            continue;
        svg_label(column_x(c, i), 20, "t", job_rank_text(c->job, i, name));
        printf("<path class=\"c\" d=\"M%d 30V%d\"/>\n", column_x(c, i), height - 8);
    }
}

/* ---- mermaid ---- */

/* Its texts end at a semicolon, and # begins a code. */
static void mermaid_text(const char *text)
{
    escape_put(stdout, ESCAPE_MERMAID, text);
    putchar('\n');
}

static void mermaid_row(const struct row *row, uint32_t from, uint32_t to)
{
    if (row->kind == ROW_NOTE)
        printf("    Note over r%" PRIu32 ": ", from);
    else
        printf("    r%" PRIu32 "%sr%" PRIu32 ": ", from,
               row->kind == ROW_DASHED ? "-->>" : "->>", to);
    mermaid_text(row->text);
}

static void mermaid_begin(const struct chart *c)
{
    printf("sequenceDiagram\n");
    for (uint32_t i = 0; i < c->job->rank_count; i++) {
        char name[32];

        if (c->columns[i] != JOB_NOBODY) {
            printf("    participant r%" PRIu32 " as ", i);
            mermaid_text(job_rank_text(c->job, i, name));
        }
    }
}

/* ---- both ---- */

/* Messages that both traces have, up to the most of them. */
static bool is_drawn(const struct job_message *m)
{
    return m->from != JOB_NOBODY && m->to != JOB_NOBODY && m->send != JOB_NEVER &&
           m->arrive != JOB_NEVER;
}

static void print_title(struct chart *c, const struct job_message *m)
{
    char envelope[TRACE_ENVELOPE_TEXT], text[TRACE_ENVELOPE_TEXT + 64];

    job_message_text(c->job, m, envelope);
    if (m->size != JOB_NEVER)
        snprintf(text, sizeof text, "%s, %" PRIu64 " bytes", envelope, m->size);
    else
        snprintf(text, sizeof text, "%s", envelope);
    if (c->is_svg) {
        double x = (column_x(c, m->from) + column_x(c, m->to)) / 2.0;

        c->y += LINE;
        svg_label(x, c->y, "t", text);
    } else {
        printf("    Note over r%" PRIu32 ",r%" PRIu32 ": ", m->from, m->to);
        mermaid_text(text);
    }
}

static void print_message(struct chart *c, uint32_t number)
{
    const struct job_message *m = &c->job->messages[number];

    add_rows(c, number);
    print_title(c, m);
    for (struct row *row; (row = row_next(c)) != NULL; row->is_done = true) {
        uint32_t from = row->is_back ? m->to : m->from, to = row->is_back ? m->from : m->to;

        c->y += LINE;
        if (!c->is_svg)
            mermaid_row(row, from, to);
        else if (row->kind == ROW_NOTE)
            svg_note(c, row, from);
        else
            svg_arrow(c, row, from, to);
    }
}

int job_print_chart(const struct job *job, bool is_svg, size_t messages)
{
    struct chart *c = mem_calloc(1, sizeof *c);
    size_t rows = 0, drawn = 0;

    if (c == NULL)
        return -ENOMEM;
    *c = (struct chart){.job = job, .is_svg = is_svg, .y = 40};
    c->columns = mem_calloc(job->rank_count + 1, sizeof *c->columns);
    if (c->columns == NULL) {
        mem_free(c);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < job->message_count && drawn < messages; i++) {
        if (!is_drawn(&job->messages[i]))
            continue;
        drawn++;
        add_rows(c, i);
        rows += c->row_count + 1;
        c->columns[job->messages[i].from] = c->columns[job->messages[i].to] = 1;
    }
    if (drawn == 0) {
        mem_free(c->columns);
        mem_free(c);
        return -ENOENT;
    }
    for (size_t i = 0; i < job->rank_count; i++)
        c->columns[i] = c->columns[i] != 0 ? c->count++ : JOB_NOBODY;
    if (is_svg)
        svg_begin(c, rows + 1);
    else
        mermaid_begin(c);
    for (uint32_t i = 0; i < job->message_count && drawn > 0; i++) {
        if (!is_drawn(&job->messages[i]))
            continue;
        print_message(c, i);
        drawn--;
    }
    if (is_svg)
        printf("</svg>\n");
    mem_free(c->columns);
    mem_free(c);
    return 0;
}
