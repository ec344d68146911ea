/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - reads the text of a page line by line.
 *
 *   NAME=VALUE NAME=VALUE ...\n     the statistics; without any the line is empty
 *   context ID SIZE NAME\n          a context id that the program has named; NAME may be empty
 *   peer NUMBER RANK\n              a peer whose rank the program has named
 *
 * NAME is the program's name for a communicator, so it may look like any of the other parts.
 * No function here reads past the end of the current line, and statistics are searched only in
 * the first line.
 */
#ifndef INSPECT_TEXT_H
#define INSPECT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define INSPECT_NAME_TEXT 64

enum inspect_line_kind { INSPECT_LINE_OTHER, INSPECT_LINE_CONTEXT, INSPECT_LINE_PEER };

struct inspect_line {
    enum inspect_line_kind kind;
    uint32_t number; /* the context id, or the number of the peer */
    uint32_t value;  /* the ranks of the context, or the rank of the peer */
    char name[INSPECT_NAME_TEXT];
};

/* Reads the line that *at points to, and moves *at to the next one; any other line is
 * INSPECT_LINE_OTHER. False: *at is NULL, or at the end. */
bool inspect_text_line(const char **at, struct inspect_line *line);

/* The lines after the statistics, or NULL. */
const char *inspect_text_names(const char *text);

/* The sum of the statistics whose names begin with prefix; text may be NULL. */
uint64_t inspect_text_sum(const char *text, const char *prefix);

#endif
