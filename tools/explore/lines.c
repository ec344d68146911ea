/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.c - the first line in which the outputs of two runs differ.
 *
 * Lines of ranks come in any sequence, so usually they are sorted before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "explore.h"

struct line {
    const char *text;
    size_t size; /* with its end */
};

struct lines {
    char *text;
    size_t size, count;
    struct line *lines;
};

/* ---- reading ---- */

static int read_all(const char *path, char **text, size_t *size)
{
    struct stat file;
    int fd = sys_open(path, O_RDONLY | O_NOFOLLOW, 0), err = 0;

    if (fd < 0)
        return -errno;
    *size = 0;
    *text = sys_fstat(fd, &file) == 0 ? mem_alloc((size_t)file.st_size + 1) : NULL;
    if (*text == NULL)
        err = -errno;
    while (err == 0 && *size < (size_t)file.st_size) {
        ssize_t got = sys_read(fd, *text + *size, (size_t)file.st_size - *size);

        if (got < 0)
            err = -errno;
        if (got <= 0)
            break;
        *size += (size_t)got;
    }
    sys_close(fd);
    if (err < 0) {
        mem_free(*text);
        *text = NULL;
    }
    return err;
}

static int compare_lines(const void *a, const void *b)
{
    const struct line *one = a, *other = b;
    int difference = memcmp(one->text, other->text, min_size(one->size, other->size));

    return difference != 0 ? difference : (one->size > other->size) - (one->size < other->size);
}

static void split(struct lines *l)
{
    const char *at = l->text, *end = l->text + l->size;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;

        if (l->lines != NULL)
            l->lines[l->count] = (struct line){at, (size_t)(next - at)};
        l->count++;
        at = next;
    }
}

static int lines_read(struct lines *l, const char *path, bool is_sorted)
{
    int err;

    *l = (struct lines){.text = NULL};
    err = read_all(path, &l->text, &l->size);
    if (err < 0)
        return err;
    split(l); /* counts them */
    l->lines = mem_calloc(l->count + 1, sizeof *l->lines);
    if (l->lines == NULL)
        return -ENOMEM;
    l->count = 0;
    split(l);
    if (is_sorted && l->count > 0)
        qsort(l->lines, l->count, sizeof *l->lines, compare_lines);
    return 0;
}

static void lines_free(struct lines *l)
{
    mem_free(l->text);
    mem_free(l->lines);
}

/* ---- comparing ---- */

static void show(const struct line *line, char text[EXPLORE_LINE_SIZE])
{
    size_t size = line->size;

    if (size > 0 && line->text[size - 1] == '\n')
        size--;
    size = min_size(size, EXPLORE_LINE_SIZE - 1);
    memcpy(text, line->text, size);
    text[size] = '\0';
    text_make_printable(text, '?', false);
}

/* A line in which outputs differ: its text is never empty. */
static void show_difference(const struct line *line, char text[EXPLORE_LINE_SIZE])
{
    show(line, text);
    if (text[0] == '\0')
        strcpy(text, "(an empty line)");
}

/* Both are sorted. */
static void first_missing(const struct lines *of, const struct lines *in,
                          char text[EXPLORE_LINE_SIZE])
{
    size_t a = 0, b = 0;

    while (a < of->count) {
        int difference = b < in->count ? compare_lines(&of->lines[a], &in->lines[b]) : -1;

        if (difference < 0) {
            show_difference(&of->lines[a], text);
            return;
        }
        a += difference == 0;
        b++;
    }
}

static size_t first_other(const struct lines *a, const struct lines *b)
{
    size_t at = 0;

    while (at < a->count && at < b->count && compare_lines(&a->lines[at], &b->lines[at]) == 0)
        at++;
    return at;
}

int explore_compare_output(enum explore_output how, const char *first, const char *second,
                           bool *is_other, char ours[EXPLORE_LINE_SIZE],
                           char theirs[EXPLORE_LINE_SIZE], size_t *line)
{
    struct lines one, other = {.text = NULL};
    int err = lines_read(&one, first, how == EXPLORE_SORTED);
    size_t at;

    ours[0] = theirs[0] = '\0';
    *line = 0;
    if (err == 0)
        err = lines_read(&other, second, how == EXPLORE_SORTED);
    if (err < 0)
        goto done;
    at = first_other(&one, &other);
    *is_other = at < one.count || at < other.count;
    if (how == EXPLORE_SORTED) {
        first_missing(&one, &other, ours);
        first_missing(&other, &one, theirs);
    } else if (*is_other) {
        *line = at + 1;
        if (at < one.count)
            show_difference(&one.lines[at], ours);
        if (at < other.count)
            show_difference(&other.lines[at], theirs);
    }
done:
    lines_free(&one);
    lines_free(&other);
    return err;
}

void explore_first_line(const char *path, char line[EXPLORE_LINE_SIZE])
{
    struct lines l;

    line[0] = '\0';
    if (lines_read(&l, path, false) == 0)
        for (size_t i = 0; i < l.count && line[0] == '\0'; i++)
            show(&l.lines[i], line);
    lines_free(&l);
}

bool explore_has_text(const char *path, const char *text)
{
    char *all = NULL;
    size_t size;
    bool has =
        read_all(path, &all, &size) == 0 && memmem(all, size, text, strlen(text)) != NULL;

    mem_free(all);
    return has;
}
