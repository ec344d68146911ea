/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.c - what an endpoint has done, as numbers and as a file.
 *
 * Most are counted where they happen; what the matching engines count is added up
 * here.
 */
#include "core/core.h"
#include "core/module.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/sys.h"

#define STATS_TEXT_MAX 4096

static void stats_gather(const struct mbx_ep *ep, struct mbx_stats *stats)
{
    *stats = ep->stats;
    stats->peers = ep->peer_count;
    stats->contexts = ep->context_count;
    stats->requests_now = pool_live(&ep->requests);
    stats->requests_max = pool_most(&ep->requests);
    for (uint32_t i = 0; i < ep->context_slots; i++) {
        const struct mbx_match_counters *count;

        if (ep->contexts[i] == NULL)
            continue;
        count = &ep->contexts[i]->match.count;
        stats->searches += count->searches;
        stats->search_steps += count->search_steps;
        if (count->search_max > stats->search_max)
            stats->search_max = count->search_max;
    }
    module_stats(ep, stats);
}

int mbx_stats_get(const struct mbx_ep *ep, struct mbx_stats *stats)
{
    ep_lock(ep);
    stats_gather(ep, stats);
    ep_unlock_unchanged(ep);
    return 0;
}

static const char *stats_rank(void)
{
    const char *rank = settings_rank();

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

static size_t stats_text(const struct mbx_stats *s, char *text, size_t size)
{
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"expected", s->expected},
        {"unexpected", s->unexpected},
        {"cancelled", s->cancelled},
        {"truncated", s->truncated},
        {"posted_max", s->posted_max},
        {"unexpected_max", s->unexpected_max},
        {"unexpected_bytes_max", s->unexpected_bytes_max},
        {"control", s->control},
        {"credits", s->credits},
        {"holds", s->holds},
        {"held_max", s->held_max},
        {"claims", s->claims},
        {"claims_won", s->claims_won},
        {"claims_lost", s->claims_lost},
        {"locks", s->locks},
        {"rtrs", s->rtrs},
        {"retires", s->retires},
        {"rtr_looks", s->rtr_looks},
        {"reached", s->reached},
        {"taken", s->taken},
        {"given", s->given},
        {"peeks", s->peeks},
        {"early_rtrs", s->early_rtrs},
        {"early_won", s->early_won},
        {"early_missed", s->early_missed},
        {"early_void", s->early_void},
        {"early_stopped", s->early_stopped},
        {"shared", s->shared},
        {"searches", s->searches},
        {"search_steps", s->search_steps},
        {"search_max", s->search_max},
        {"contexts", s->contexts},
        {"full", s->full},
        {"read_fallbacks", s->read_fallbacks},
        {"dropped_packets", s->dropped_packets},
        {"send_errors", s->send_errors},
        {"sleeps", s->sleeps},
        {"puts", s->puts},
        {"gets", s->gets},
        {"atomics", s->atomics},
        {"access_errors", s->access_errors},
        {"served_reads", s->served_reads},
        {"served_writes", s->served_writes},
        {"served_both", s->served_both},
        {"served_fallbacks", s->served_fallbacks},
        {"device_handed", s->device_handed},
        {"device_handed_max", s->device_handed_max},
        {"device_matched", s->device_matched},
        {"device_taken", s->device_taken},
        {"device_cancels_won", s->device_cancels_won},
        {"device_cancels_lost", s->device_cancels_lost},
        {"device_claims_won", s->device_claims_won},
        {"device_claims_lost", s->device_claims_lost},
        {"device_parked", s->device_parked},
        {"device_syncs", s->device_syncs},
        {"device_passed", s->device_passed},
        {"peers", s->peers},
        {"requests_max", s->requests_max},
    };
    size_t used =
        (size_t)snprintf(text, size, "endpoint rank=%s pid=%ld", stats_rank(), (long)getpid());

    for (size_t i = 0; i < ARRAY_COUNT(lines) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %s=%llu", lines[i].name,
                                 (unsigned long long)lines[i].value);
    for (int p = 0; p < MBX_PROTOCOLS && used < size; p++)
        used += (size_t)snprintf(
            text + used, size - used,
            " sent_%s=%llu sent_bytes_%s=%llu received_%s=%llu received_bytes_%s=%llu",
            mbx_protocol_name(p), (unsigned long long)s->sent[p], mbx_protocol_name(p),
            (unsigned long long)s->sent_bytes[p], mbx_protocol_name(p),
            (unsigned long long)s->received[p], mbx_protocol_name(p),
            (unsigned long long)s->received_bytes[p]);
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "\n");
    return min_size(used, size - 1);
}

/* One line in one write, so that the endpoints of a job can share a file. */
void stats_write(const struct mbx_ep *ep)
{
    char path[PARAM_STRING_MAX + 64], text[STATS_TEXT_MAX];
    struct mbx_stats stats;
    size_t size;
    int fd;

    if (ep->settings.stats_file[0] == '\0')
        return;
    stats_path(ep->settings.stats_file, path, sizeof path);
    mbx_stats_get(ep, &stats);
    size = stats_text(&stats, text, sizeof text);
    fd = sys_open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || sys_write(fd, text, size) != (ssize_t)size)
        LOG_WARN("cannot write the statistics to %s: %s", path, mbx_strerror(errno));
    if (fd >= 0)
        sys_close(fd);
}
