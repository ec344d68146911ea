/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * escape.c - see escape.h.
 */
#include "escape.h"

#include <string.h>

#include "base/base.h"
#include "base/text.h"

/* Characters with a meaning in each format. */
static const char *const special[] = {[ESCAPE_HTML] = "<>&\"'",
                                      [ESCAPE_JSON] = "\"\\",
                                      [ESCAPE_SCRIPT] = "\"\\<>&",
                                      [ESCAPE_MERMAID] = ";#<>&\"`"};

static void put_special(FILE *out, enum escape_format format, unsigned character)
{
    switch (format) {
    case ESCAPE_HTML:
        fprintf(out, "&#%u;", character);
        break;
    case ESCAPE_MERMAID:
        fprintf(out, "#%u;", character); /* the form of a mermaid entity */
        break;
    case ESCAPE_JSON:
    case ESCAPE_SCRIPT:
        if (character == '"' || character == '\\')
            fprintf(out, "\\%c", (int)character);
        else
            fprintf(out, "\\u%04x", character);
        break;
    }
}

void escape_put(FILE *out, enum escape_format format, const char *text)
{
    while (*text != '\0') {
        size_t size = text_character(text);
        unsigned char byte = (unsigned char)*text;

        if (size == 0 && format == ESCAPE_JSON && byte < ' ')
            put_special(out, format, byte);
        else if (size == 0)
            putc('?', out);
        else if (size == 1 && strchr(special[format], byte) != NULL)
            put_special(out, format, byte);
        else
            fwrite(text, 1, size, out);
        text += size != 0 ? size : 1;
    }
}

void escape_put_string(FILE *out, enum escape_format format, const char *text)
{
    putc('"', out);
    escape_put(out, format, text);
    putc('"', out);
}
