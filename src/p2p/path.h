/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h - how a message travels to a peer.  path.c decides when a send starts; other code asks it.
 *
 *   bytes             near peer            far peer             shares our cores     any other
 *   .. inline_max     one cache line       one cache line       one cache line       one cache line
 *   .. short_max      one packet           one packet           one packet           one packet
 *   .. 8 KiB          packets              buffers *            rendezvous           packets
 *   .. 16 KiB         packet, buffers      buffers *            rendezvous           packets
 *   .. 32 KiB         packet, buffers      buffers *            rendezvous           rendezvous
 *   .. 64 KiB         packet, buffers      rendezvous           rendezvous           rendezvous
 *   .. 512 KiB        buffers              rendezvous           rendezvous           rendezvous
 *   more              rendezvous           rendezvous           rendezvous           rendezvous
 *
 *   packets      the message goes through the ring or the network in several packets (eager.c)
 *   packet, buffers
 *                the first packet goes through the ring.  The rest is copied into bounce buffers that the peer
 *                reads (transport/bounce.h), as long as some are free, and otherwise follows in packets.
 *   buffers      in bounce buffers if enough of them for the whole message are free and no message waits
 *                before it; otherwise rendezvous
 *   buffers *    in bounce buffers if all of them are free; otherwise rendezvous
 *   rendezvous   the peer reads the message, or it is sent as data where the peer cannot read (rndv.c)
 *
 * Three things can change the path after this decision: a peer without credit turns eager into rendezvous
 * (credit.c), an advertised receive turns a rendezvous into a write by the sender (advert_send.c), and both
 * sides may copy a part each of a long message (split_copy.c).
 *
 * Limits of the columns: EAGER_LIMIT_NEAR, PATH_BUFFERS_FAR and EAGER_LIMIT_OTHERS below, and BUFFERS_SIZE of
 * core/settings.c.  A number in MBX_EAGER_LIMIT replaces 64 KiB and 16 KiB, and then no peer becomes far.
 *
 * Near and far.  Between cores that share a cache a message is best copied into memory of the transport, and out of
 * it.  Between other cores each line of that memory takes five times as long, and it moves twice; then the receiver
 * should read the message where it is, which costs a system call.  No interface says which of the two a peer is,
 * and it changes when a process moves.  So each peer starts near, and the sender measures how long its copies take:
 *
 *            8 slow copies more than fast ones
 *      near ───────────────────────────────────> far
 *           <───────────────────────────────────
 *               4 fast copies more than slow ones
 *
 *   near   each 8th message of several packets is measured
 *   far    each 64th message of several packets travels as if the peer were near, and is measured
 *
 * A peer shares our cores if MBX_OVERSUBSCRIBED=yes: two messages of several packets, of this exchange and the next
 * one, do not fit into its ring before it has had a core, and each wait for space is one more switch to another process.
 * The process that has the core reads a message of a rendezvous at once, and continues.  With MBX_OVERSUBSCRIBED=auto
 * and more processes than cores, a near peer has no buffers and counts as any other.
 *
 * path_choose() departs from the table for messages that an adapter which matches cannot carry eagerly, for
 * copies of a message (mbx_inject, MBX_COPY), and for non-contiguous data, which a peer cannot read.
 *
 * A peer is near, far or shares our cores only if it can be read, and reading is a copy.  Any other peer is on
 * another host, or its memory cannot be read.
 */
#ifndef P2P_PATH_H
#define P2P_PATH_H

#include "core/core.h"

/* Glossary: near, far - a peer whose core shares a cache with ours, or does not; measured by
 * the time of copies */
/* The distance to a peer, and its capabilities. */
struct peer_path {
    bool can_read : 1, can_write : 1; /* no read from it, or write to it, has failed for good */
    bool is_far : 1;                  /* copies to it are slow */
    uint8_t votes;                    /* slow copies minus fast ones, 0 .. PATH_VOTES */
    uint8_t turns;          /* messages of several packets since the last measured one */
    struct backoff buffers; /* long messages of the peer that were expected in buffers */
};

PART_FITS(peer, path, struct peer_path);
#define peer_path(peer) PART((peer)->path, struct peer_path)

/* MBX_EAGER_LIMIT=auto: the longest message in packets to a near peer, and to a peer of the last column */
#define EAGER_LIMIT_NEAR   (UINT64_C(64) << 10)
#define EAGER_LIMIT_OTHERS (UINT64_C(16) << 10)

/* A message of 8 KiB takes as long in packets as in buffers. */
#define PATH_PACKETS_MAX ((size_t)8 << 10)
/* The longest message in buffers to a far peer.  The tests `paths` and `locality` know it. */
#define PATH_BUFFERS_FAR ((size_t)32 << 10)

#define PATH_RATE        6 /* a copy of fewer bytes per nanosecond is slow; measured: 4 far, 15 near */
#define PATH_VOTES       8
#define PATH_NEAR_TURNS  8 /* messages from a measured one to the next */
#define PATH_FAR_TURNS   64

/* ---- questions: these change nothing ---- */

/* How a rendezvous with this peer moves its data. */
static inline enum mbx_protocol path_rndv(const struct peer *peer)
{
    return peer_path(peer)->can_read ? MBX_RNDV_READ : MBX_RNDV_DATA;
}

/* A message that leaves in one packet. */
static inline enum mbx_protocol path_packet(const struct mbx_ep *ep, uint64_t size)
{
    return size <= ep->limits.inline_max ? MBX_INLINE : MBX_SHORT;
}

/* A message that is eager in any case. */
static inline enum mbx_protocol path_eager(const struct mbx_ep *ep, size_t size)
{
    return size <= ep->limits.short_max ? path_packet(ep, size) : MBX_BOUNCE;
}

/* path_of() for a message that does not fit into a packet, or is not eager. */
enum mbx_protocol path_of_long(const struct mbx_ep *ep, const struct peer *peer, size_t size);

/* The protocol of a message of this size, if it were sent now. */
static inline enum mbx_protocol path_of(const struct mbx_ep *ep, const struct peer *peer,
                                        size_t size)
{
    return likely(size <= ep->limits.eager_max) && size <= ep->limits.short_max
               ? path_eager(ep, size)
               : path_of_long(ep, peer, size);
}

/* The protocol of req, which may have waited since path_choose(). */
enum mbx_protocol path_of_waiting(const struct mbx_ep *ep, const struct peer *peer,
                                  const struct request *req);

/* The longest message that goes to peer in packets, except a measured one. */
size_t path_packets_max(const struct mbx_ep *ep, const struct peer *peer);

/* Are messages of several packets, and of this size, copied into buffers while there are free
 * ones?  Not if ranks share cores: then the sender has filled the ring, or all buffers, before
 * the receiver gets its core. */
static inline bool path_uses_buffers(const struct mbx_ep *ep, const struct peer *peer,
                                     uint64_t size)
{
    return (size > PATH_PACKETS_MAX || peer_path(peer)->is_far) && !ep_is_oversubscribed(ep);
}

/* Is the first packet of a message of several packets a short one, because the rest goes into buffers? */
bool path_is_short_first(const struct mbx_ep *ep, const struct peer *peer, uint64_t size,
                         bool has_waited);

/* Is the copy of the message that leaves measured? */
bool path_is_measured(const struct mbx_ep *ep, const struct peer *peer);

/* Do we expect that a message of size bytes that peer sends now comes in buffers? */
bool path_comes_in_buffers(const struct mbx_ep *ep, const struct peer *peer, size_t size);

/* May both sides each copy a part of a long message of peer? */
bool path_is_shared_copy(const struct mbx_ep *ep, const struct peer *peer);

/* The least size of receives that may be announced to their sender; the least rest of messages
 * that both sides may copy.  SIZE_MAX: none. */
size_t path_advertised_from(const struct mbx_ep *ep);
size_t path_shared_copy_from(const struct mbx_ep *ep);

/* Row index of mbx_protocol_get() for peer; NULL: a peer of which nothing is known.  0;
 * -ENOENT. */
int path_row(const struct mbx_ep *ep, const struct peer *peer, unsigned index,
             struct mbx_protocol_row *row);

/* ---- events that change a path: these functions alone write peer.path ---- */

/* The peer has just been made. */
void path_peer_made(struct mbx_ep *ep, struct peer *peer,
                    const struct transport_address *address);

/* A read from the peer, or a write to it, has failed for good. */
static inline void path_cannot_read(struct peer *peer)
{
    peer_path(peer)->can_read = false;
}

static inline void path_cannot_write(struct peer *peer)
{
    peer_path(peer)->can_write = false;
}

/* Sets the limits of the protocols, from the settings and the transport. */
void path_open(struct mbx_ep *ep);

/* A message of this size starts, which does not fit into a packet, or is not eager. */
void path_started(const struct mbx_ep *ep, struct peer *peer, size_t size);

/* req travels by this protocol, which may differ from the result of path_choose(). */
static inline void path_reroute(struct mbx_ep *ep, struct request *req,
                                enum mbx_protocol protocol)
{
    ep->stats.rerouted += req->protocol != protocol;
    req->protocol = (uint8_t)protocol;
}

/* Chooses the protocol of a message that starts now, and whose request has these flags. */
enum mbx_protocol path_choose(const struct mbx_ep *ep, struct peer *peer,
                              const struct mbx_status *status, unsigned flags);

/* The first packet of a message of several packets leaves. */
void path_left(struct peer *peer);

/* A copy of this many bytes has taken this long. */
void path_measured(struct peer *peer, size_t bytes, uint64_t ns);

/* A receive is announced whose message was not expected in buffers. */
void path_advertises(struct peer *peer);

/* A message of several packets, or a rendezvous, has matched a posted receive. */
void path_came(const struct mbx_ep *ep, struct peer *peer, uint64_t size, bool is_eager);

#endif
