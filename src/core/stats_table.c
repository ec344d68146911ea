/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats_table.c - the name of each statistic and what it means, in the order in which users see
 * them.
 */
#include "core/stats.h"

#include <stddef.h>

#include "base/base.h"

#define AT(field) (offsetof(struct stats, field) / sizeof(uint64_t))

/* A row; rows of the same field for each protocol. */
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
    STAT(expected, "", "messages that met a posted receive on arrival"),
    STAT(unexpected, "", "messages that had to be kept"),
    STAT(dropped, "",
         "messages that no receive could want: mbx_cancel() of a send, mbx_context_close() and "
         "the like"),
    STAT(cancelled, "", "receives taken back"),
    STAT(truncated, "", "receives completed with -EMSGSIZE"),
    STAT(posted_now, "", "posted receives, of all context ids"),
    STAT(posted_max, "", "posted receives at one time, at most"),
    STAT(unexpected_now, "", "unexpected messages that are kept"),
    STAT(unexpected_max, "", "unexpected messages kept at one time, at most"),
    STAT(unexpected_bytes_now, "bytes", "memory of the messages that are kept"),
    STAT(unexpected_bytes_max, "bytes", "memory of kept messages at one time, at most"),
    STAT(searches, "", "searches of a queue: by a post, an arrival or a probe"),
    STAT(search_steps, "", "entries looked at by all searches"),
    STAT(search_max, "", "entries looked at by the longest search"),
    STAT(contexts, "", "context ids in use"),
    STAT(pools_bytes_now, "bytes",
         "memory of requests and kept messages, free places included"),

    STAT(control, "", "packets without a message: for credit and for sends that wait here"),
    STAT(credits, "", "CREDIT packets sent"),
    STAT(deferrals, "", "times that sends had to wait at their sender"),
    STAT(deferred_now, "", "sends that wait at their sender"),
    STAT(deferred_max, "", "sends that waited at one time, at most"),
    STAT(claims, "", "claims of receives elsewhere for sends that wait here"),
    STAT(claims_won, "", "claims that were granted"),
    STAT(claims_lost, "", "claims that came too late"),
    STAT(locks, "", "claims that had taken a lock word before"),
    STAT(rtrs, "", "open receives told to senders whose sends wait"),
    STAT(retires, "", "told receives taken back"),
    STAT(rtr_looks, "", "open receives looked at for telling them"),
    STAT(claims_met, "", "messages that met a receive by a claim"),
    STAT(peeks, "", "questions of probes to senders whose sends wait"),
    STAT(pulled, "", "messages that were pulled out of their sender's table"),
    STAT(pulled_by_peers, "", "sends that their receiver pulled out of the table here"),

    STAT(advert_sent, "", "receives told to their sender before it has sent"),
    STAT(advert_won, "", "told receives that their sender wrote into"),
    STAT(advert_missed, "", "told receives that met a message that came by itself"),
    STAT(advert_void, "", "receives told by peers too late: a message was under way"),
    STAT(advert_stopped, "", "messages that could not be written, or not whole"),
    STAT(split_copy_parts, "", "parts of long messages that their sender has written"),

    STATS_OF(sent, "", "messages sent by this protocol"),
    STATS_OF(sent_bytes, "bytes", "that this protocol has sent"),
    STATS_OF(received, "", "messages received by this protocol"),
    STATS_OF(received_bytes, "bytes", "that this protocol has received"),

    STAT(full, "", "times that a transport had no room and was tried again later"),
    STAT(buffers, "",
         "packets that named a bounce buffer, into which their bytes were packed or copied"),
    STAT(rerouted, "",
         "messages that became a rendezvous: no credit, no buffers, or the receiver did not "
         "read them"),
    STAT(read_fallbacks, "", "reads of a peer's memory that failed and became rndv-data"),
    STAT(dropped_packets, "", "packets that were malformed, repeated or foreign"),
    STAT(send_errors, "", "sends that ended in an error"),
    STAT(sleeps, "", "waits that went to sleep"),
    STAT(peers, "", "peers, named ones included"),
    STAT(requests_now, "", "requests that are not complete, or not read"),
    STAT(requests_max, "", "requests at one time, at most"),

    STAT(device_handed, "", "receives handed to the matching device"),
    STAT(device_handed_max, "", "receives in the device at one time, at most"),
    STAT(device_matched, "", "handed receives that the device matched"),
    STAT(device_taken, "", "handed receives taken back for a message that it could not match"),
    STAT(device_cancels_won, "", "handed receives that could be cancelled"),
    STAT(device_cancels_lost, "", "handed receives that matched before they were cancelled"),
    STAT(device_claims_won, "", "handed receives taken back for a message beside the device"),
    STAT(device_claims_lost, "", "handed receives that matched before that"),
    STAT(device_parked, "", "messages beside the device that waited for its answer"),
    STAT(device_syncs, "", "times that the device was only told how far software is"),
    STAT(device_passed, "", "unexpected messages that it passed to software"),
    STAT(device_incomplete, "", "rendezvous that software had to finish for it"),
    STAT(device_overlapped, "", "receives kept: an earlier one that stays overlaps"),
    STAT(device_clashed, "", "receives kept: the device holds one with memory of theirs"),
    STAT(device_waited, "", "receives that found the device full at first"),
    STAT(device_held, "", "unexpected messages given to the device to hold"),
    STAT(device_held_matched, "", "messages that it held, and matched"),
    STAT(device_unheld, "", "messages that it held, and software took back"),

    STAT(puts, "", "writes of ours that ended without an error"),
    STAT(gets, "", "reads of ours that ended without an error"),
    STAT(atomics, "", "atomics of ours that ended without an error"),
    STAT(access_errors, "", "writes, reads and atomics of ours that ended with an error"),
    STAT(served_reads, "", "accesses of peers that read (struct mbx_served)"),
    STAT(served_writes, "", "accesses of peers that wrote"),
    STAT(served_both, "", "accesses of peers that did both"),
    STAT(served_fallbacks, "", "long accesses of peers that were copied twice"),
};
static_assert(ARRAY_COUNT(rows) == STATS_COUNT, "each field has a row");

const struct stat_row *const stats_table = rows;
