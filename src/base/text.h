/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - texts from outside: names from a program, another process or a file.
 *
 * Such a text is shown on terminals, in pages and in files that other programs read.  So
 * text_make_printable() replaces, byte by byte, everything that is not UTF-8, commands a
 * terminal (also U+0080 to U+009F), ends a line or changes the direction of writing.  It is
 * called where the text enters.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The number of bytes of the character at the beginning of text; 0: there is none that may be
 * shown, or the text ends within it. */
size_t text_character(const char *text);

/* Replaces each byte that may not be shown.  goes_on: the text is a part of a longer one, so an
 * incomplete character at its end stays. */
void text_make_printable(char *text, char instead, bool goes_on);

/* As text_make_printable(), for several lines. */
void text_make_lines_printable(char *text, char instead);

#endif
