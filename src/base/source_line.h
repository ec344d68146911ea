/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source_line.h - the line of a program for an address, by elfutils' libdw, which is loaded on first use.
 *
 * This file and loaded.c are not part of the library: a program that needs lines is built with
 * them.
 */
#ifndef BASE_SOURCE_LINE_H
#define BASE_SOURCE_LINE_H

#include <stdint.h>

#define SOURCE_LINE_MAX 160

/* "solve.c:212", the line of the program for this return address in a process; NULL: there is no debug
 * information, or no libdw to read it.  Returns words, of at least SOURCE_LINE_MAX bytes. */
const char *source_line(uint32_t pid, uint64_t address, char *words);

/* As source_line(), for an address relative to the symbols of this file. */
const char *source_line_in(const char *path, uint64_t address, char *words);

#endif
