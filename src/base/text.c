/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.c - see text.h.
 */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

#include "base/base.h"

/* Of UTF-8, by the number of bytes that follow the first one. */
static const struct {
    unsigned char mask, first; /* what the first byte has, of these bits */
    uint32_t least;            /* what fewer bytes could say is wrong */
} forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

/* Characters that are not shown: [from, to]. */
static const struct {
    uint32_t from, to;
} hidden[] = {
    {0x00, 0x1f},           {0x7f, 0x9f},     /* controls */
    {0x061c, 0x061c},       {0x200e, 0x200f}, /* directions */
    {0x2028, 0x202e},       {0x2066, 0x2069}, /* ends of lines and paragraphs; directions */
    {0xd800, 0xdfff},       {0xfeff, 0xfeff}, /* halves of UTF-16; its mark */
    {0x110000, UINT32_MAX},
};

static bool is_hidden(uint32_t character)
{
    for (size_t i = 0; i < ARRAY_COUNT(hidden); i++)
        if (character >= hidden[i].from && character <= hidden[i].to)
            return true;
    return false;
}

/* How many bytes follow this first one; or -1. */
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

/* Does the text end within the character that begins here? */
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
