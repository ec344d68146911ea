/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.c - see text.h.
 */
#include "inspect/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads this word, one blank, and two decimal numbers with one blank between them.  Returns the
 * rest, or NULL. */
static const char *two_numbers(const char *at, const char *word, uint32_t numbers[2])
{
    size_t length = strlen(word);

    if (strncmp(at, word, length) != 0)
        return NULL;
    at += length;
    for (int i = 0; i < 2; i++) {
        uint64_t number = 0;
        const char *first = at + 1;

        if (*at != ' ')
            return NULL;
        for (at = first; *at >= '0' && *at <= '9' && number <= UINT32_MAX; at++)
            number = number * 10 + (uint64_t)(*at - '0');
        if (at == first || number > UINT32_MAX)
            return NULL;
        numbers[i] = (uint32_t)number;
    }
    return at;
}

bool inspect_text_line(const char **at, struct inspect_line *line)
{
    const char *begin = *at, *end, *rest;
    uint32_t numbers[2];

    if (begin == NULL || *begin == '\0')
        return false;
    end = begin + strcspn(begin, "\n");
    *at = *end == '\n' ? end + 1 : end;
    *line = (struct inspect_line){.kind = INSPECT_LINE_OTHER};
    rest = two_numbers(begin, "context", numbers);
    if (rest != NULL && (rest == end || *rest == ' ')) {
        line->kind = INSPECT_LINE_CONTEXT;
        if (rest != end)
            snprintf(line->name, sizeof line->name, "%.*s", (int)(end - rest - 1), rest + 1);
    } else {
        rest = two_numbers(begin, "peer", numbers);
        line->kind = rest == end ? INSPECT_LINE_PEER : INSPECT_LINE_OTHER;
    }
    if (line->kind != INSPECT_LINE_OTHER) {
        line->number = numbers[0];
        line->value = numbers[1];
    }
    return true;
}

const char *inspect_text_names(const char *text)
{
    const char *end = text != NULL ? strchr(text, '\n') : NULL;

    return end != NULL ? end + 1 : NULL;
}

uint64_t inspect_text_sum(const char *text, const char *prefix)
{
    const char *end = text != NULL ? text + strcspn(text, "\n") : NULL;
    size_t length = strlen(prefix);
    uint64_t sum = 0;

    for (const char *at = text; at != NULL && at < end;) {
        size_t size = strcspn(at, " \n");
        const char *value = memchr(at, '=', size);

        if (size >= length && value != NULL && strncmp(at, prefix, length) == 0)
            sum += strtoull(value + 1, NULL, 10);
        at += size;
        at += *at == ' ';
    }
    return sum;
}
