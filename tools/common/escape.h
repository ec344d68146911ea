/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * escape.h - texts that others gave, in what is written for other programs.
 */
#ifndef TOOLS_ESCAPE_H
#define TOOLS_ESCAPE_H

#include <stdio.h>

enum escape_format {
    ESCAPE_HTML,   /* text, or the value of an attribute in ", of HTML and SVG */
    ESCAPE_JSON,   /* what stands between the quotes of a string */
    ESCAPE_SCRIPT, /* the same, in a script of an HTML page */
    ESCAPE_MERMAID /* what follows a colon or `as` */
};

/* Writes text so that it is nothing but text there; what may not be shown (base/text.h) is a question mark, of JSON its number
 * if it is a control character of ASCII. */
void escape_put(FILE *out, enum escape_format format, const char *text);

/* As ESCAPE_JSON or ESCAPE_SCRIPT, in quotes. */
void escape_put_string(FILE *out, enum escape_format format, const char *text);

#endif
