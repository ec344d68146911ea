/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.c - a buffer of one line per stream.
 *
 * Without labels, a line longer than the buffer is written in pieces, and pieces of
 * several ranks can mix.  With labels, a piece that follows another stream's unfinished
 * line starts a new line first, so each line on the screen belongs to one rank.
 */
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int output_open(struct output *output, uint32_t ranks, bool label)
{
    struct output_stream *streams = mem_calloc(2 * (size_t)ranks, sizeof *streams);

    if (streams == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < 2 * ranks; i++) {
        streams[i].from = -1;
        streams[i].rank = i / 2;
        streams[i].to = i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO;
    }
    *output = (struct output){.streams = streams, .count = 2 * (size_t)ranks, .label = label};
    return 0;
}

static void stream_close(struct output_stream *stream)
{
    if (stream->from >= 0)
        close(stream->from);
    stream->from = -1;
}

void output_close(struct output *output)
{
    for (size_t i = 0; i < output->count; i++)
        stream_close(&output->streams[i]);
    mem_free(output->streams);
}

/* 0, or the error that makes further output impossible. */
static int write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, text, size);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            poll(&wait, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return -errno;
        } else if (n > 0) {
            text += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

/* Writes one piece: a line, or a part of one. */
static int write_piece(struct output *output, struct output_stream *stream, const char *text,
                       size_t size)
{
    const struct output_stream *last = output->last[stream->to];
    char piece[OUTPUT_LINE_SIZE + 32];
    int length = 0, err;

    if (output->label) {
        if (last != NULL && last != stream && last->is_midline)
            piece[length++] = '\n';
        if (!stream->is_midline || last != stream)
            length += snprintf(piece + length, 24, "[%u] ", stream->rank);
    }
    memcpy(piece + length, text, size);
    stream->is_midline = text[size - 1] != '\n';
    output->last[stream->to] = stream;
    err = write_all(stream->to, piece, (size_t)length + size);
    if (output->error == 0 && err != -EPIPE)
        output->error = err;
    return err;
}

/* Writes complete lines, and a full buffer. */
static int write_lines(struct output *output, struct output_stream *stream)
{
    char *start = stream->line, *end = start + stream->held, *newline;
    int err = 0;

    while (err == 0 && (newline = memchr(start, '\n', (size_t)(end - start))) != NULL) {
        err = write_piece(output, stream, start, (size_t)(newline + 1 - start));
        start = newline + 1;
    }
    if (err == 0 && start == stream->line && stream->held == sizeof stream->line) {
        err = write_piece(output, stream, start, stream->held);
        start = end;
    }
    stream->held = (size_t)(end - start);
    memmove(stream->line, start, stream->held);
    return err;
}

static void stream_flush(struct output *output, struct output_stream *stream)
{
    if (stream->held > 0)
        write_piece(output, stream, stream->line, stream->held);
    stream->held = 0;
}

void output_forward(struct output *output, struct output_stream *stream)
{
    ssize_t n =
        read(stream->from, stream->line + stream->held, sizeof stream->line - stream->held);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        stream->held += (size_t)n;
        if (write_lines(output, stream) == 0)
            return;
        stream->held = 0; /* nobody reads it: the rank will notice */
    }
    stream_flush(output, stream);
    stream_close(stream);
}

int output_flush(struct output *output)
{
    int flushed = 0;

    for (size_t i = 0; i < output->count; i++) {
        flushed += output->streams[i].held > 0;
        stream_flush(output, &output->streams[i]);
    }
    return flushed;
}

bool output_is_holding(const struct output *output)
{
    for (size_t i = 0; i < output->count; i++)
        if (output->streams[i].held > 0)
            return true;
    return false;
}
