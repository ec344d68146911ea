/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats_table.c - the name of each statistic and what it means, in the order in which users see
 * them.
 */
#include "core/stats.h"

#include <stddef.h>

#include "base/base.h"

#define AT(field) (offsetof(struct stats, field) / sizeof(uint64_t))

/* A row; and rows of one field for each protocol. */
#define STAT(field, unit, about)                                                               \
    {                                                                                          \
#field, unit, about, AT(field)                                                         \
    }
#define STAT_OF(field, protocol, id, unit, about)                                              \
    {                                                                                          \
#field "_" protocol, unit, about, AT(field) + (id)                                     \
    }
#define STATS_OF(field, unit, about)                                                           \
    STAT_OF(field, "inline", MBX_INLINE, unit, about),                                         \
        STAT_OF(field, "short", MBX_SHORT, unit, about),                                       \
        STAT_OF(field, "bounce", MBX_BOUNCE, unit, about),                                     \
        STAT_OF(field, "rndv-read", MBX_RNDV_READ, unit, about),                               \
        STAT_OF(field, "rndv-data", MBX_RNDV_DATA, unit, about),                               \
        STAT_OF(field, "rndv-write", MBX_RNDV_WRITE, unit, about)

static const struct stat_row rows[] = {
    STAT(expected, "", "messages whose receive was posted when they arrived"),
    STAT(unexpected, "", "messages that arrived before their receive"),
    STAT(dropped, "",
         "messages that no receive could take: mbx_cancel() of a send, mbx_context_close() and "
         "similar calls"),
    STAT(cancelled, "", "receives cancelled"),
    STAT(truncated, "", "receives completed with -EMSGSIZE"),
    STAT(posted_now, "", "posted receives of all context ids"),
    STAT(posted_max, "", "most posted receives at one time"),
    STAT(unexpected_now, "", "unexpected messages"),
    STAT(unexpected_max, "", "most unexpected messages at one time"),
    STAT(unexpected_bytes_now, "bytes", "memory of unexpected messages"),
    STAT(unexpected_bytes_max, "bytes", "most memory of unexpected messages at one time"),
    STAT(searches, "", "searches of a queue, by a post, an arrival or a probe"),
    STAT(search_steps, "", "entries visited by all searches"),
    STAT(search_max, "", "entries visited by the longest search"),
    STAT(contexts, "", "context ids in use"),
    STAT(pools_bytes_now, "bytes",
         "memory of requests and unexpected messages, with free entries"),

    STAT(control, "", "packets without a message, for credit and deferred sends"),
    STAT(credits, "", "CREDIT packets sent"),
    STAT(deferrals, "", "times that a send had to wait at its sender"),
    STAT(deferred_now, "", "sends that wait at their sender"),
    STAT(deferred_max, "", "most sends that waited at their sender at one time"),
    STAT(claims, "", "claims of receives of peers, for sends that wait here"),
    STAT(claims_won, "", "claims that were granted"),
    STAT(claims_lost, "", "claims that came too late"),
    STAT(locks, "", "claims that took a lock word first"),
    STAT(rtrs, "", "open receives reported to senders whose sends wait"),
    STAT(retires, "", "reported receives taken back"),
    STAT(rtr_checks, "", "open receives checked for such a report"),
    STAT(claims_met, "", "messages that matched a receive by a claim"),
    STAT(peeks, "", "questions of probes to senders whose sends wait"),
    STAT(pulled, "", "messages that this receiver took out of their sender's table"),
    STAT(pulled_by_peers, "", "sends that their receiver took out of the table here"),

    STAT(advert_sent, "", "receives advertised to their sender before it has sent"),
    STAT(advert_won, "", "advertised receives that their sender wrote into"),
    STAT(advert_missed, "", "advertised receives that matched a message sent in another way"),
    STAT(advert_void, "", "receives advertised by peers too late, after the message had left"),
    STAT(advert_stopped, "", "messages that could not be written, or only in part"),
    STAT(split_copy_parts, "", "parts of long messages that their sender has written"),

    STATS_OF(sent, "", "messages sent by this protocol"),
    STATS_OF(sent_bytes, "bytes", "sent by this protocol"),
    STATS_OF(received, "", "messages received by this protocol"),
    STATS_OF(received_bytes, "bytes", "received by this protocol"),

    STAT(full, "", "times that a transport had no space, and a packet was tried again later"),
    STAT(buffers, "", "packets whose data was packed or copied into a bounce buffer"),
    STAT(rerouted, "",
         "eager messages that became a rendezvous: no credit, no bounce buffers, or not read"),
    STAT(read_fallbacks, "", "reads of a peer's memory that failed and became rndv-data"),
    STAT(dropped_packets, "", "packets that were malformed, repeated or foreign"),
    STAT(send_errors, "", "sends that ended in an error"),
    STAT(sleeps, "", "waits that went to sleep"),
    STAT(peers, "", "peers, including peers that were only added"),
    STAT(requests_now, "", "requests that are not complete, or whose completion is unread"),
    STAT(requests_max, "", "most requests at one time"),

    STAT(device_handed, "", "receives given to the matching device"),
    STAT(device_handed_max, "", "most receives in the device at one time"),
    STAT(device_matched, "", "receives given to the device that it matched"),
    STAT(device_taken, "",
         "receives taken back from the device for a message that it could not match"),
    STAT(device_cancels_won, "", "receives of the device that were cancelled in time"),
    STAT(device_cancels_lost, "",
         "receives of the device that matched before they were cancelled"),
    STAT(device_claims_won, "",
         "receives taken back for a message that did not pass through the device"),
    STAT(device_claims_lost, "",
         "receives that matched in the device before they were taken back"),
    STAT(device_parked, "", "messages outside the device that waited for its answer"),
    STAT(device_syncs, "", "times that the device was only informed how far software is"),
    STAT(device_passed, "", "unexpected messages that the device passed to software"),
    STAT(device_incomplete, "", "rendezvous that software had to finish for the device"),
    STAT(device_overlapped, "",
         "receives kept in software: an earlier receive in software overlaps"),
    STAT(device_clashed, "",
         "receives kept in software: the device holds a receive with the same memory"),
    STAT(device_waited, "", "receives that found the device full at first"),
    STAT(device_held, "", "unexpected messages given to the device"),
    STAT(device_held_matched, "", "unexpected messages that the device matched"),
    STAT(device_unheld, "", "unexpected messages that software took back from the device"),

    STAT(puts, "", "successful writes of this endpoint"),
    STAT(gets, "", "successful reads of this endpoint"),
    STAT(atomics, "", "successful atomics of this endpoint"),
    STAT(access_errors, "", "failed writes, reads and atomics of this endpoint"),
    STAT(served_reads, "", "accesses of peers that read"),
    STAT(served_writes, "", "accesses of peers that wrote"),
    STAT(served_both, "",
         "accesses of peers that read and wrote: served_reads and served_writes contain them"),
    STAT(served_fallbacks, "", "long accesses of peers that were copied twice"),
};
static_assert(ARRAY_COUNT(rows) == STATS_COUNT, "each field has a row");

const struct stat_row *const stats_table = rows;
