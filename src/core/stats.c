/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.c - the statistics of an endpoint, as numbers and as a file.
 *
 * Most are counted where they happen; the counts of the matching engines are added up here.
 */
#include "core/core.h"
#include "core/module.h"
#include "core/stats.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/launcher.h"
#include "base/fill.h"
#include "base/sys.h"

#define STATS_TEXT_MAX 8192

/* unexpected_bytes_now has the kept messages both in their pool and outside of it; only the
 * memory outside has to be added. */
static uint64_t stats_pools_bytes(const struct mbx_ep *ep)
{
    return pool_bytes(&ep->requests.pool) + pool_bytes(&ep->messages) +
           ep->stats.unexpected_bytes_now - pool_live(&ep->messages) * ep->messages.stride;
}

static void stats_gather(const struct mbx_ep *ep, struct stats *stats)
{
    const struct context *context;
    size_t position = 0;

    *stats = ep->stats;
    stats->peers = ep->peers.count - ep->peers.free_count;
    stats->contexts = ep->contexts.table.count;
    stats->pools_bytes_now = stats_pools_bytes(ep);
    stats->requests_now = pool_live(&ep->requests.pool);
    stats->requests_max = pool_most(&ep->requests.pool);
    while ((context = context_next(ep, &position)) != NULL) {
        struct mbx_match_counters count;

        mbx_match_counters_get(&context->match, &count);
        stats->searches += count.searches;
        stats->search_steps += count.search_steps;
        if (count.search_max > stats->search_max)
            stats->search_max = count.search_max;
    }
    device_stats(ep, stats);
}

void stats_read(const struct mbx_ep *ep, struct stats *stats)
{
    ep_lock(ep);
    stats_gather(ep, stats);
    ep_unlock_unchanged(ep);
}

/* ---- by name ---- */

static uint64_t stats_value(const struct stats *stats, const struct stat_row *row)
{
    uint64_t value;

    memcpy(&value, (const char *)stats + row->at * sizeof value, sizeof value);
    return value;
}

int mbx_stat_get(unsigned index, struct mbx_stat *out, size_t size)
{
    const struct stat_row *row;
    struct mbx_stat stat;

    if (index >= STATS_COUNT)
        return -ENOENT;
    row = &stats_table[index];
    stat = (struct mbx_stat){.name = row->name, .unit = row->unit, .about = row->about};
    if (!devices_present && strncmp(row->name, "device_", 7) == 0)
        stat.about = "0: this library was built without devices";
    return FILL(out, size, stat, about);
}

static const struct stat_row *stats_find(const char *name)
{
    for (size_t i = 0; i < STATS_COUNT; i++)
        if (strcmp(stats_table[i].name, name) == 0)
            return &stats_table[i];
    return NULL;
}

int mbx_stat_read(const struct mbx_ep *ep, const char *name, uint64_t *value)
{
    const struct stat_row *row = stats_find(name);
    struct stats stats;

    if (row == NULL)
        return -ENOENT;
    stats_read(ep, &stats);
    *value = stats_value(&stats, row);
    return 0;
}

int mbx_stats_read(const struct mbx_ep *ep, uint64_t *values, int count)
{
    struct stats stats;

    if (count < 0)
        return log_argument("mbx_stats_read", "count", (uint64_t)(int64_t)count, "negative");
    if (values == NULL && count > 0)
        return log_argument("mbx_stats_read", "values", 0, "NULL, and count is not 0");
    stats_read(ep, &stats);
    for (int i = 0; i < count && (size_t)i < STATS_COUNT; i++)
        values[i] = stats_value(&stats, &stats_table[i]);
    return (int)STATS_COUNT;
}

/* ---- as a file ---- */

static const char *stats_rank(void)
{
    const char *rank = launcher_rank();

    return rank != NULL ? rank : "0";
}

/* The file's name with %r and %p replaced. */
static void stats_path(const char *pattern, char *path, size_t size)
{
    size_t used = 0;

    path[0] = '\0';
    for (; *pattern != '\0' && used + 1 < size; pattern++) {
        int more;

        if (pattern[0] == '%' && pattern[1] == 'r')
            more = snprintf(path + used, size - used, "%s", stats_rank());
        else if (pattern[0] == '%' && pattern[1] == 'p')
            more = snprintf(path + used, size - used, "%ld", (long)getpid());
        else
            more = snprintf(path + used, size - used, "%c", *pattern);
        if (pattern[0] == '%' && (pattern[1] == 'r' || pattern[1] == 'p'))
            pattern++;
        used += (size_t)more;
    }
}

static size_t stats_text(const struct stats *stats, char *text, size_t size)
{
    size_t used =
        (size_t)snprintf(text, size, "endpoint rank=%s pid=%ld", stats_rank(), (long)getpid());

    for (size_t i = 0; i < STATS_COUNT && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %s=%llu", stats_table[i].name,
                                 (unsigned long long)stats_value(stats, &stats_table[i]));
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "\n");
    return min_size(used, size - 1);
}

size_t stats_line(const struct mbx_ep *ep, char *text, size_t size)
{
    struct stats stats;

    stats_gather(ep, &stats);
    return stats_text(&stats, text, size);
}

/* Writes text.  False: not all of it was written, which is logged. */
static bool stats_put(int fd, const char *text, size_t size, const char *path)
{
    ssize_t written = fd >= 0 ? sys_write_file(fd, text, size) : -1;

    if (written == (ssize_t)size)
        return true;
    LOG_WARN("cannot write the statistics to %s: %s; check the folder and its permissions",
             path, mbx_strerror(written < 0 ? errno : ENOSPC));
    return false;
}

/* Writes a line with the program's name, and one for each named context id. */
static void stats_put_names(const struct mbx_ep *ep, int fd, const char *path)
{
    char text[512];
    int used;

    if (ep->names.program[0] == '\0')
        return;
    used = snprintf(text, sizeof text, "program rank=%s pid=%ld text=%s\n", stats_rank(),
                    (long)getpid(), ep->names.program);
    if (!stats_put(fd, text, (size_t)used, path))
        return;
    for (uint32_t i = 0; i < ep->names.context_count; i++) {
        const struct named_context *named = &ep->names.contexts[i];
        const struct context *context = context_find(ep, named->id);
        struct mbx_match_counters count = {0};

        if (context != NULL)
            mbx_match_counters_get(&context->match, &count);
        used = snprintf(
            text, sizeof text,
            "communicator rank=%s pid=%ld id=%u size=%u receives=%llu messages=%llu "
            "matched=%llu posted_max=%llu unexpected_max=%llu name=%s\n",
            stats_rank(), (long)getpid(), named->id, named->size,
            (unsigned long long)count.posted, (unsigned long long)count.arrived,
            (unsigned long long)count.met_arrivals, (unsigned long long)count.recvs_max,
            (unsigned long long)count.msgs_max, named->name);
        if (!stats_put(fd, text, (size_t)used, path))
            return;
    }
}

/* Writes each line with one call, so that the endpoints of a job can share a file. */
void stats_write(const struct mbx_ep *ep)
{
    char path[PARAM_STRING_MAX + 64], text[STATS_TEXT_MAX];
    struct stats stats;
    size_t size;
    int fd;

    if (ep->settings.stats_file[0] == '\0')
        return;
    stats_path(ep->settings.stats_file, path, sizeof path);
    stats_read(ep, &stats);
    size = stats_text(&stats, text, sizeof text);
    fd = sys_open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (stats_put(fd, text, size, path))
        stats_put_names(ep, fd, path);
    if (fd >= 0)
        sys_close(fd);
}
