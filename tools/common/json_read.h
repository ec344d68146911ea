/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json_read.h - reads JSON of another process piece by piece, without a copy of the whole.
 *
 * The caller states what it expects.  The first mismatch is kept as `wrong`; from then on every call
 * returns nothing, and loops end.  So the caller checks it once, after it has read everything.
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
    bool is_first;     /* the object or array was opened just now */
};

struct json_reader json_reader_of(const char *text, size_t size);

/* Records an error, if there is none yet. */
void json_wrong(struct json_reader *r, const char *wrong);

void json_open(struct json_reader *r, char bracket); /* '{' or '[' */

/* Is there another element in this array, or object?  If not, it is closed. */
bool json_more(struct json_reader *r, char bracket); /* ']' or '}' */

/* Reads the next key of this object.  False: there is none, and the object is closed. */
bool json_key(struct json_reader *r, char *key, size_t size);

uint64_t json_get_number(struct json_reader *r, uint64_t most);
bool json_get_bool(struct json_reader *r);

/* True if the value was null, which is then read. */
bool json_is_null(struct json_reader *r);

/* Reads at most size - 1 characters; unprintable ones are replaced. */
void json_get_text(struct json_reader *r, char *text, size_t size);

/* Skips a value of any type. */
void json_skip(struct json_reader *r);

/* Checks that nothing follows. */
void json_finish(struct json_reader *r);

#endif
