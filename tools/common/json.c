/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.c - see json.h.
 */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"

#define DEPTH_MAX 8

static unsigned depth;
static bool has_more[DEPTH_MAX]; /* a member precedes, at this depth */

static void begin_value(const char *name)
{
    if (has_more[depth])
        fputs(", ", stdout);
    has_more[depth] = depth > 0;
    if (name != NULL) {
        escape_put_string(stdout, ESCAPE_JSON, name);
        fputs(": ", stdout);
    }
}

void json_begin(const char *name, char bracket)
{
    begin_value(name);
    putchar(bracket);
    assert(depth + 1 < DEPTH_MAX);
    has_more[++depth] = false;
}

void json_end(char bracket)
{
    assert(depth > 0);
    putchar(bracket);
    if (--depth == 0)
        putchar('\n');
}

void json_text(const char *name, const char *text)
{
    begin_value(name);
    escape_put_string(stdout, ESCAPE_JSON, text);
}

void json_number(const char *name, uint64_t number)
{
    begin_value(name);
    printf("%" PRIu64, number);
}

void json_bool(const char *name, int is_true)
{
    begin_value(name);
    fputs(is_true ? "true" : "false", stdout);
}

void json_null(const char *name)
{
    begin_value(name);
    fputs("null", stdout);
}

/* True if text is a JSON number: no sign +, no hexadecimal, no inf. */
static bool is_number(const char *text)
{
    char *end;

    if (strspn(text, "-0123456789.eE+") != strlen(text) || text[0] == '\0' || text[0] == '+' ||
        text[0] == '.' || (text[0] == '0' && text[1] >= '0' && text[1] <= '9'))
        return false;
    strtod(text, &end);
    return *end == '\0' && end[-1] != '.';
}

void json_line(const char *line)
{
    char copy[1024], *rest = copy, *word;

    snprintf(copy, sizeof copy, "%s", line);
    copy[strcspn(copy, "\n")] = '\0';
    json_begin(NULL, '{');
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');

        if (value == NULL)
            continue;
        *value++ = '\0';
        if (is_number(value)) {
            begin_value(word);
            fputs(value, stdout);
        } else {
            json_text(word, value);
        }
    }
    json_end('}');
}
