/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_sizes.c - parses the sizes to measure.
 */
#include "perf.h"

#include <string.h>

static int take_one(const struct tool *tool, const char *option, uint64_t most,
                    const char *text, uint64_t *value)
{
    return most == PERF_BYTES ? tool_size(tool, option, text, value)
                              : tool_number(tool, option, text, 1, most, value);
}

/* "A-B": doubles from A up to B. */
static int take_range(const struct tool *tool, const char *option, uint64_t most,
                      struct perf_sizes *sizes, const char *first, const char *last)
{
    uint64_t from, to;
    int err;

    if ((err = take_one(tool, option, most, first, &from)) != 0 ||
        (err = take_one(tool, option, most, last, &to)) != 0)
        return err;
    if (from > to)
        return tool_usage_error(tool, "%s %s-%s: the first is larger", option, first, last);
    for (sizes->count = 0; from <= to; from = from == 0 ? 1 : from * 2)
        sizes->size[sizes->count++] = from; /* at most 42: tool_size() ends at 2^40 */
    return 0;
}

int perf_take_size(const struct tool *tool, struct perf_sizes *sizes, const char *text)
{
    uint64_t size;
    int err = tool_size(tool, "--size", text, &size);

    if (err == 0)
        *sizes = (struct perf_sizes){.size = {size}, .count = 1};
    return err;
}

int perf_take_sizes(const struct tool *tool, const char *option, uint64_t most,
                    struct perf_sizes *sizes, char *text)
{
    char *dash = strchr(text, '-');
    char *rest = text, *word;

    if (dash != NULL) {
        *dash = '\0';
        return take_range(tool, option, most, sizes, text, dash + 1);
    }
    sizes->count = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        uint64_t size;
        int err = take_one(tool, option, most, word, &size);

        if (err != 0)
            return err;
        if (sizes->count == PERF_SIZES_MAX)
            return tool_usage_error(tool, "%s takes at most %d values", option, PERF_SIZES_MAX);
        sizes->size[sizes->count++] = size;
    }
    return 0;
}
