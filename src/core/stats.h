/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - the statistics of an endpoint.  Part of core.h.
 *
 * Users see each of these by name (mbx_stat_get); stats_table.c has the names and their
 * meaning.  A new field needs a row there; without one it does not compile.
 */
#ifndef CORE_STATS_H
#define CORE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <stdbool.h>

#include <matchbox/matchbox.h>

/* All members are uint64_t. */
struct stats {
    /* matching */
    uint64_t expected, unexpected, dropped, cancelled, truncated;
    uint64_t posted_now, posted_max;
    uint64_t unexpected_now, unexpected_max;
    uint64_t unexpected_bytes_now, unexpected_bytes_max;
    uint64_t searches, search_steps, search_max;
    uint64_t contexts;
    uint64_t pools_bytes_now;
    /* messages that waited at their sender */
    uint64_t control, credits;
    uint64_t deferrals, deferred_now, deferred_max;
    uint64_t claims, claims_won, claims_lost, locks;
    uint64_t rtrs, retires, rtr_checks;
    uint64_t claims_met, peeks, pulled, pulled_by_peers;
    /* receives advertised before their message was sent */
    uint64_t advert_sent, advert_won, advert_missed, advert_void, advert_stopped;
    uint64_t split_copy_parts;
    /* messages and bytes by protocol */
    uint64_t sent[MBX_PROTOCOLS], sent_bytes[MBX_PROTOCOLS];
    uint64_t received[MBX_PROTOCOLS], received_bytes[MBX_PROTOCOLS];
    /* transports */
    uint64_t full, buffers, rerouted, read_fallbacks, dropped_packets, send_errors, sleeps;
    uint64_t peers, requests_now, requests_max;
    /* the matching device; all 0 without one */
    uint64_t device_handed, device_handed_max, device_matched, device_taken;
    uint64_t device_cancels_won, device_cancels_lost;
    uint64_t device_claims_won, device_claims_lost, device_parked;
    uint64_t device_syncs, device_passed, device_incomplete, device_overlapped, device_clashed,
        device_waited, device_held, device_held_matched, device_unheld;
    /* one-sided accesses */
    uint64_t puts, gets, atomics, access_errors;
    uint64_t served_reads, served_writes, served_both, served_fallbacks;
};

#define STATS_COUNT (sizeof(struct stats) / sizeof(uint64_t))

struct stat_row {
    const char *name, *unit, *about;
    uint32_t at; /* the index of the uint64_t in struct stats */
};
extern const struct stat_row *const stats_table; /* [STATS_COUNT] */

/* All statistics of ep, consistent with each other; takes the endpoint's lock. */
void stats_read(const struct mbx_ep *ep, struct stats *stats);

/* All statistics of ep as the line of MBX_STATS_FILE, cut to size; the caller holds the lock.
 * Returns the length. */
size_t stats_line(const struct mbx_ep *ep, char *text, size_t size);

/* Writes them as one line to the file in MBX_STATS_FILE, if it is set, and lines with the names
 * that the program has set (names.h). */
void stats_write(const struct mbx_ep *ep);

/* Adds amount to a current value.  True: it is a new maximum. */
static inline bool stats_kept(uint64_t *now, uint64_t *max, uint64_t amount)
{
    *now += amount;
    if (*now <= *max)
        return false;
    *max = *now;
    return true;
}

#endif
