/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json_read.h - JSON of another process, read piece by piece, without a copy of the whole.
 *
 * The reader says what it expects.  The first thing that is not as expected is kept as `wrong`; from then on every call
 * gives nothing, and loops end, so it is looked at once, when all has been read.
 *
 *   struct json_reader r = json_reader_of(text, size);
 *
 *   json_open(&r, '{');
 *   while (json_key(&r, key, sizeof key))     to its '}'
 *       if (strcmp(key, "tags") == 0) {
 *           json_open(&r, '[');
 *           while (json_more(&r, ']'))        to its ']'
 *               tag = json_get_number(&r, UINT64_MAX);
 *       } else {
 *           json_skip(&r);
 *       }
 *   json_finish(&r);
 *
 * Numbers are whole and not negative.
 */
#ifndef TOOLS_JSON_READ_H
#define TOOLS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_reader {
    const char *at, *end;
    const char *wrong; /* or NULL */
    bool is_first;     /* of an object or array that was opened just now */
};

struct json_reader json_reader_of(const char *text, size_t size);

/* Keeps it, if nothing was wrong before. */
void json_wrong(struct json_reader *r, const char *wrong);

void json_open(struct json_reader *r, char bracket); /* '{' or '[' */

/* Is there another one in this array, or object?  Else it is closed. */
bool json_more(struct json_reader *r, char bracket); /* ']' or '}' */

/* The next key of this object, without which it is closed. */
bool json_key(struct json_reader *r, char *key, size_t size);

uint64_t json_get_number(struct json_reader *r, uint64_t most);
bool json_get_bool(struct json_reader *r);

/* True: it was null. */
bool json_is_null(struct json_reader *r);

/* At most size - 1 characters; what is not to be printed is replaced. */
void json_get_text(struct json_reader *r, char *text, size_t size);

/* Whatever comes. */
void json_skip(struct json_reader *r);

/* Nothing may follow. */
void json_finish(struct json_reader *r);

#endif
