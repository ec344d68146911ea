/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h - the measurements of `mbx perf`, and their state.
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <stddef.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "tools/common/tool.h"

#define PERF_REPEATS   51 /* of each block; odd, so that the median is one of them */

#define PERF_SIZES_MAX 64

struct perf_sizes {
    size_t size[PERF_SIZES_MAX];
    unsigned count;
};

/* Parse the value of --size, and the values of an option that takes several ("A,B,..." or
 * "A-B"), 1 to most, or sizes in bytes; the second writes into text.  0, or TOOL_USAGE after an
 * error message. */
#define PERF_BYTES 0
int perf_take_size(const struct tool *tool, struct perf_sizes *sizes, const char *text);
int perf_take_sizes(const struct tool *tool, const char *option, uint64_t most,
                    struct perf_sizes *sizes, char *text);

/* One of the two ranks. */
struct perf {
    const struct tool *tool;
    struct mbx_job *job;
    struct mbx_ep *ep;
    bool json; /* output format */
    uint32_t rank, peer;
    uint8_t *send, *recv; /* capacity bytes each */
    size_t capacity;
    struct perf_line *line; /* lat: the bare cache line, or NULL */
    /* rate: receives that are complete, and the error of one */
    uint64_t received;
    int error;
};

/* One measurement: windows of `window` messages of size bytes, about `iterations` messages in
 * total. */
struct perf_case {
    size_t size;
    uint64_t iterations;
    uint32_t window;
    uint32_t threads; /* of each rank, rate only */
    uint32_t depth;   /* depth only */
};

/* Minimum and median of the repeats. */
struct perf_times {
    double min, median;
};

/* Sorts times[0..count). */
struct perf_times perf_summary(double *times, size_t count);

/* perf_latency(): round trips in batches, in turn with flips of the bare cache line.  Both
 * ranks call each of these with the same case; 0 or a negative errno. */
int perf_latency(struct perf *p, const struct perf_case *c);
int perf_bandwidth(struct perf *p, const struct perf_case *c);
int perf_rate(struct perf *p, const struct perf_case *c);            /* perf_rate.c */
int perf_rate_of_threads(struct perf *p, const struct perf_case *c); /* perf_threads.c */
int perf_depth(struct perf *p, const struct perf_case *c);           /* perf_queues.c */
int perf_flood(struct perf *p, const struct perf_case *c);

/* Windows of messages from rank 0 to rank 1.  Rank 1 posts the receives of the first window.
 * Then, for each window, rank 0 sends and waits for the answer; rank 1 receives, answers, and
 * posts the receives of the next, unless it is the last. */
struct perf_stream {
    int (*post)(struct perf *p, const struct perf_case *c);
    int (*send)(struct perf *p, const struct perf_case *c);
    int (*recv)(struct perf *p, const struct perf_case *c, bool is_last);
};

#define PERF_DATA_TAG   2
#define PERF_ANSWER_TAG 3

/* Nanoseconds per message.  Both ranks call it; 0 or a negative errno. */
int perf_stream(struct perf *p, const struct perf_case *c, const struct perf_stream *stream,
                struct perf_times *times);

/* Called after the last measurement of both ranks, before a fence.  Both call it; 0 or a
 * negative errno. */
int perf_end_together(struct perf *p);

/* Prints a line of key=value, or the same fields as a JSON object. */
void perf_say(bool json, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One cache line that both ranks map: rank 0 makes it and sends its place to rank 1 over ep.
 * p->line stays NULL, and rank 0 reports it, if they share no memory.  Both call it; 0 or a
 * negative errno.  Released by perf_line_close(). */
int perf_line_open(struct perf *p);
void perf_line_close(struct perf *p);

/* Moves the line back and forth; returns nanoseconds per direction. */
double perf_line_flip(struct perf *p, uint64_t flips);

/* Waits for the request of one receive or send; 0, or its error. */
int perf_wait(struct perf *p, mbx_request request, size_t size);

/* Waits for `count` completions of these queues; 0, or the error of one. */
int perf_collect(struct perf *p, unsigned queues, uint64_t count);

#endif
