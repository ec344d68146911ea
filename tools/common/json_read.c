/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json_read.c - see json_read.h.
 */
#include "json_read.h"

#include <string.h>

#include "base/base.h"
#include "base/text.h"

#define DEPTH_MAX 32 /* of skipped values */

struct json_reader json_reader_of(const char *text, size_t size)
{
    return (struct json_reader){.at = text, .end = text + size};
}

void json_wrong(struct json_reader *r, const char *wrong)
{
    if (r->wrong == NULL)
        r->wrong = wrong;
    r->at = r->end;
}

/* The next character that is not a space; 0 at the end. */
static char peek(struct json_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
    return r->at < r->end ? *r->at : '\0';
}

static bool take(struct json_reader *r, char wanted)
{
    if (peek(r) != wanted || r->at == r->end)
        return false;
    r->at++;
    return true;
}

/* Reads true, false or null. */
static bool take_word(struct json_reader *r, const char *word)
{
    size_t size = strlen(word);

    if (peek(r) != *word || (size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

void json_open(struct json_reader *r, char bracket)
{
    if (!take(r, bracket))
        json_wrong(r, bracket == '{' ? "no object where one is expected"
                                     : "no array where one is expected");
    r->is_first = true;
}

bool json_more(struct json_reader *r, char bracket)
{
    bool is_first = r->is_first;

    r->is_first = false;
    if (take(r, bracket) || r->wrong != NULL)
        return false;
    if (!is_first && !take(r, ','))
        json_wrong(r, "it is cut short, or no JSON");
    if (r->wrong == NULL && peek(r) == '\0')
        json_wrong(r, "it is cut short");
    return r->wrong == NULL;
}

bool json_key(struct json_reader *r, char *key, size_t size)
{
    key[0] = '\0';
    if (!json_more(r, '}'))
        return false;
    json_get_text(r, key, size);
    if (!take(r, ':'))
        json_wrong(r, "a key without a value");
    return r->wrong == NULL;
}

uint64_t json_get_number(struct json_reader *r, uint64_t most)
{
    uint64_t number = 0;
    char c = peek(r);

    if (c < '0' || c > '9') {
        json_wrong(r, "no number where one is expected");
        return 0;
    }
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        uint64_t digit = (uint64_t)(*r->at - '0');

        if (number > (UINT64_MAX - digit) / 10) {
            json_wrong(r, "a number is too large");
            return 0;
        }
        number = number * 10 + digit;
    }
    if (r->at < r->end && strchr(".eE", *r->at) != NULL && *r->at != '\0')
        json_wrong(r, "a number is not whole");
    else if (number > most)
        json_wrong(r, "a number is too large");
    return r->wrong == NULL ? number : 0;
}

bool json_get_bool(struct json_reader *r)
{
    if (take_word(r, "true"))
        return true;
    if (!take_word(r, "false"))
        json_wrong(r, "neither true nor false where one is expected");
    return false;
}

bool json_is_null(struct json_reader *r)
{
    return take_word(r, "null");
}

/* Reads the character after a backslash; an unprintable one becomes '?'. */
static char unescape(struct json_reader *r)
{
    char c = *r->at++;

    if (c == '"' || c == '\\' || c == '/')
        return c;
    if (c == 'u') {
        for (int i = 0; i < 4; i++, r->at++)
            if (r->at >= r->end || strchr("0123456789abcdefABCDEF", *r->at) == NULL ||
                *r->at == '\0') {
                json_wrong(r, "an escape in a text is damaged");
                return '?';
            }
    } else if (c == '\0' || strchr("bfnrt", c) == NULL) {
        json_wrong(r, "an escape in a text is damaged");
    }
    return '?';
}

/* As json_get_text(); text may be NULL: the string is skipped. */
static void get_text(struct json_reader *r, char *text, size_t size)
{
    size_t used = 0;

    if (!take(r, '"'))
        json_wrong(r, "no text where one is expected");
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;

        if (c == '\\' && r->at < r->end)
            c = unescape(r);
        else if ((unsigned char)c < ' ')
            json_wrong(r, "a text has a control character");
        if (text != NULL && used + 1 >= size)
            json_wrong(r, "a text is too long");
        else if (text != NULL)
            text[used++] = c;
    }
    if (text != NULL)
        text[r->wrong == NULL ? used : 0] = '\0';
    if (text != NULL)
        text_make_printable(text, '?', false);
    if (r->wrong == NULL && !take(r, '"'))
        json_wrong(r, "it is cut short");
}

void json_get_text(struct json_reader *r, char *text, size_t size)
{
    text[0] = '\0';
    get_text(r, text, size);
}

static void skip_number(struct json_reader *r)
{
    const char *start = r->at;

    while (r->at < r->end && *r->at != '\0' && strchr("+-.eE0123456789", *r->at) != NULL)
        r->at++;
    if (r->at == start)
        json_wrong(r, "a value is missing");
}

/* In an array or an object, counts the brackets. */
void json_skip(struct json_reader *r)
{
    unsigned depth = 0;

    do {
        char c = peek(r);

        if (c == '{' || c == '[') {
            r->at++;
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            r->at++;
            depth--;
        } else if ((c == ',' || c == ':') && depth > 0) {
            r->at++;
        } else if (c == '"') {
            get_text(r, NULL, 0);
        } else if (!take_word(r, "true") && !take_word(r, "false") && !json_is_null(r)) {
            skip_number(r);
        }
        if (depth > DEPTH_MAX)
            json_wrong(r, "it is nested too deeply");
    } while (depth > 0 && r->wrong == NULL);
}

void json_finish(struct json_reader *r)
{
    if (r->wrong == NULL && peek(r) != '\0')
        json_wrong(r, "something follows its end");
    if (r->wrong == NULL && r->at != r->end)
        json_wrong(r, "something follows its end");
}
