/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - JSON to standard output: the caller begins and ends objects and arrays, commas are added.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>

/* name is NULL in an array, and for the outermost value. */
void json_begin(const char *name, char bracket); /* '{' or '[' */
void json_end(char bracket); /* '}' or ']'; the outermost one ends the line */
void json_text(const char *name, const char *text);
void json_number(const char *name, uint64_t number);
void json_bool(const char *name, int is_true);
void json_null(const char *name);

/* "key=value key=value": one object in one line; values that are numbers stay numbers. */
void json_line(const char *line);

#endif
