/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * escape.h - escapes untrusted text in the output for other programs.
 */
#ifndef TOOLS_ESCAPE_H
#define TOOLS_ESCAPE_H

#include <stdio.h>

enum escape_format {
    ESCAPE_HTML,   /* text, or an attribute's value in ", of HTML and SVG */
    ESCAPE_JSON,   /* the characters between the quotes of a string */
    ESCAPE_SCRIPT, /* the same, in a script of an HTML page */
    ESCAPE_MERMAID /* after a colon or `as` */
};

/* Writes text so that the format takes it literally.  An unprintable character (base/text.h)
 * becomes a question mark; in JSON an ASCII control character becomes its number. */
void escape_put(FILE *out, enum escape_format format, const char *text);

/* As escape_put() with ESCAPE_JSON or ESCAPE_SCRIPT, in quotes. */
void escape_put_string(FILE *out, enum escape_format format, const char *text);

#endif
