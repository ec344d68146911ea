/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - texts of somebody else's: names that a program, another process or a file gives.
 *
 * Such a text is shown on terminals, in pages and in files that other programs read.  So what is not UTF-8, commands a
 * terminal (also U+0080 to U+009F), ends a line or turns the direction of writing does not get there: text_make_printable()
 * replaces it, byte by byte, where the text comes in.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the character at the beginning of text has; 0: it is none that may be shown, or the text ends within it. */
size_t text_character(const char *text);

/* Replaces each byte that may not be shown.  goes_on: the text is a part, and a character that begins at its end stays. */
void text_make_printable(char *text, char instead, bool goes_on);

/* As text_make_printable(), of several lines. */
void text_make_lines_printable(char *text, char instead);

#endif
