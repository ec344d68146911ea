/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.c - see text.h.
 */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

#include "base/base.h"

/* The forms of UTF-8, by the number of bytes after the first one. */
static const struct {
    unsigned char mask, first; /* the mask, and the value of these bits in the first byte */
    uint32_t least;            /* the least character: fewer bytes suffice for a lower one */
} forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

/* Characters that are not shown: [from, to]. */
static const struct {
    uint32_t from, to;
} hidden[] = {
    {0x00, 0x1f},
    {0x7f, 0x9f}, /* controls */
    {0x061c, 0x061c},
    {0x200e, 0x200f}, /* writing direction */
    {0x2028, 0x202e},
    {0x2066, 0x2069}, /* line and paragraph separators; writing
                                                 direction */
    {0xd800, 0xdfff},
    {0xfeff, 0xfeff}, /* surrogates; byte order mark */
    {0x110000, UINT32_MAX},
};

static bool is_hidden(uint32_t character)
{
    for (size_t i = 0; i < ARRAY_COUNT(hidden); i++)
        if (character >= hidden[i].from && character <= hidden[i].to)
            return true;
    return false;
}

/* The number of bytes that follow this first one; or -1. */
static int bytes_behind(unsigned char first)
{
    for (int more = 0; more < (int)ARRAY_COUNT(forms); more++)
        if ((first & forms[more].mask) == forms[more].first)
            return more;
    return -1;
}

static bool follows(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t text_character(const char *text)
{
    int more = bytes_behind((unsigned char)text[0]);
    uint32_t character;

    if (more < 0)
        return 0;
    character = (unsigned char)text[0] & (unsigned char)~forms[more].mask;
    for (int i = 1; i <= more; i++) {
        if (!follows(text[i]))
            return 0;
        character = character << 6 | ((unsigned char)text[i] & 0x3f);
    }
    return character < forms[more].least || is_hidden(character) ? 0 : (size_t)more + 1;
}

/* Does the text end in the middle of the character that begins here? */
static bool is_begun(const char *text)
{
    int more = bytes_behind((unsigned char)text[0]), i = 1;

    while (i <= more && follows(text[i]))
        i++;
    return i <= more && text[i] == '\0';
}

void text_make_printable(char *text, char instead, bool goes_on)
{
    while (*text != '\0') {
        size_t size = text_character(text);

        if (size == 0 && goes_on && is_begun(text))
            return;
        if (size == 0)
            *text = instead;
        text += size != 0 ? size : 1;
    }
}

void text_make_lines_printable(char *text, char instead)
{
    for (char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = '\0';
        text_make_printable(text, instead, false);
        *end = '\n';
    }
    text_make_printable(text, instead, false);
}
