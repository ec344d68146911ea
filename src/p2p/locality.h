/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locality.h - is a peer of this machine near?
 *
 * Between cores that share a cache, a message of several packets is best copied through the
 * transport's memory, and copied out.  Between those that do not, each line of that memory
 * takes five times as long to move, and it moves twice; then the receiver had better read the
 * message where it is, which costs a system call.  Nobody says which of the two it is, and it
 * changes when a process moves.  So the sender looks how long its copy takes:
 *
 *            8 slow copies more than fast ones
 *      near ───────────────────────────────────> far
 *           <───────────────────────────────────
 *               4 fast copies more than slow ones
 *
 *   near   each 8th message of several packets is looked at
 *   far    they go by rendezvous; but each 64th goes as if near, and is looked at
 *
 * To a near peer that borrows more than few chunks (transport/lend.h) longer messages are eager, too: they
 * are lent, if nothing waits before them and there are chunks for all of it.  To a far one those of up to LENT_FAR are
 * lent, one at a time: more of them take longer than the system's copies, which both sides make at once.
 *
 * A peer that may be without a core (MBX_OVERSUBSCRIBED=yes) counts as far, and is not looked at:
 * two messages of several packets, this exchange's and the next one's, do not fit into its ring
 * before it has had a core, and each wait for room is one more change of the process that runs.
 * Who has got the core reads a message of a rendezvous at once, and goes on.
 *
 * Only with MBX_EAGER_LIMIT=auto, and if the peer can be read and reading is a copy.
 */
#ifndef P2P_LOCALITY_H
#define P2P_LOCALITY_H

#include "core/core.h"

/* MBX_EAGER_LIMIT=auto: to a near peer of this machine, if it looks (eager.c); and to others, or if
 * it does not */
#define EAGER_LIMIT_NEAR (UINT64_C(64) << 10)
#define EAGER_LIMIT      (UINT64_C(16) << 10)

#define LOCALITY_RATE    6 /* bytes in a nanosecond; measured: 4 far, 15 near */
/* Longer messages are lent to near peers: one of 8 KiB takes as long in packets.  And up to so long ones
 * to far peers. */
#define LENT_FROM      ((size_t)8 << 10)
#define LENT_FAR       ((size_t)32 << 10)

#define LOCALITY_VOTES 8
#define LOCALITY_NEAR  8 /* messages from one that is looked at to the next */
#define LOCALITY_FAR   64

/* The longest message that goes to peer eagerly, but for those that are to be looked at. */
size_t locality_eager_max(const struct mbx_ep *ep, const struct peer *peer);

/* The same where nothing is known of the peer. */
size_t locality_eager_most(const struct mbx_ep *ep);

/* Does the next message of several packets, and of this size, to peer go by rendezvous? */
bool locality_is_too_far(const struct mbx_ep *ep, const struct peer *peer, size_t size);

/* The longest message that goes to peer as if it were eager, because it is lent. */
size_t locality_lent_max(const struct mbx_ep *ep, const struct peer *peer);

/* Is the next message of several packets, and of this size, to peer lent though it is long, or the peer is far? */
bool locality_is_lent(const struct mbx_ep *ep, const struct peer *peer, size_t size);

/* How a message of several packets, and of this size, travels to peer is chosen: to a far one it is the next one's turn. */
void locality_count(const struct mbx_ep *ep, struct peer *peer, size_t size);

/* Is the copy of the message that leaves to be timed? */
bool locality_is_timed(const struct mbx_ep *ep, const struct peer *peer);

/* It leaves: to a near peer it is the next one's turn. */
void locality_leaves(struct peer *peer);

/* The copy of so many bytes has taken so long. */
void locality_note(struct peer *peer, size_t bytes, uint64_t ns);

#endif
