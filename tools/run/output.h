/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h - forwards the output of the ranks line by line.
 *
 * Each rank has two streams.  A line is written in one piece, with "[rank] " before it if
 * labels are requested.  The beginning of a line is written when its rank has been
 * silent for OUTPUT_IDLE_MS, so that a prompt is visible.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_IDLE_MS   100
#define OUTPUT_LINE_SIZE 4096

struct output_stream {
    int from; /* the read end of a pipe, -1 when it has ended */
    int to;   /* 1 or 2 */
    uint32_t rank;
    bool is_midline; /* the last piece had no newline */
    size_t held;     /* bytes of an unfinished line */
    char line[OUTPUT_LINE_SIZE];
};

struct output {
    struct output_stream *streams;
    size_t count;
    bool label;
    const struct output_stream *last[3]; /* the stream that wrote last to descriptor 1, 2 */
    int error; /* the first error that lost output; 0: none, or the reader went away */
};

/* For `ranks` ranks; 0 or -ENOMEM.  Released by output_close(). */
int output_open(struct output *output, uint32_t ranks, bool label);
void output_close(struct output *output);

/* Forwards the available output of one stream; closes the stream at its end, or when nobody
 * reads the output. */
void output_forward(struct output *output, struct output_stream *stream);

/* Writes all beginnings of lines; returns their number. */
int output_flush(struct output *output);

/* Is the beginning of a line being held back? */
bool output_is_holding(const struct output *output);

#endif
