/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.h - what peers may cost us, and we them.  Part of p2p.h.
 *
 *   sender                                    receiver
 *   credit_take, message ──────────────────>  matched: credit_freed
 *                                             or kept: credit_keep ... credit_met
 *   credit_arrive      <───────────── CREDIT  half a window is freed: credit_report
 *
 * A message needs an envelope credit, and for the payload that comes with it payload
 * credit, in bytes as they are allocated if it has to be kept.  The first comes back when the
 * message is matched, not when it arrives; the second when that memory is free, which for a
 * matched probe is when the message is received.  So what a peer can make us keep is bounded by
 * what we have given it:
 *
 *   settings.unexpected_memory >= peers x (window x ENVELOPE + window_payload) + extra
 *
 * Bounce buffers of peers (transport/bounce.h) that are read become resident here, and stay so.  They have what is left:
 *
 *   settings.unexpected_memory >= the most that was ever kept + resident buffers
 *
 * The most that ever was, since memory that messages have left need not go back to the system.
 *
 * Every peer begins with the same small window, which is part of our address.  The rest is
 * extra: envelopes to a peer that has to defer messages (backlog.c), payload to one that could
 * not send a message eagerly; and taken back as it is freed when little is left.
 *
 * Invariants, for a receiver and each of its peers
 *   I1  the peer's credit + what is under way from it + kept + freed == window
 *   I2  the sum of what is beyond the first window + extra == extra_all
 *   I3  no more FINs are owed to the peer than FINS_MOST, what its window holds, its claims, and
 *       its messages that the user held by matched probes
 *   I4  as a sender, no credit is beyond CREDIT_UNLIMITED: sums do not wrap
 *   I5  what was ever kept + resident buffers <= settings.unexpected_memory, or none is
 */
#ifndef CORE_CREDIT_H
#define CORE_CREDIT_H

#include "p2p/p2p.h"
#include "transport/bounce.h"

/* Glossary: window - the credit with which a peer begins: envelopes, and bytes of payload */
/* Of a peer.  As its sender: what may still leave.  As its receiver: what it may have
 * here, and what it has. */
struct credit {
    uint64_t envelopes, payload;     /* may leave; 0 envelopes while sends are deferred */
    uint64_t freed_payload;          /* matched here, and not told yet */
    uint32_t freed_envelopes;        /* of windows without end, since it was looked at */
    uint32_t report_envelopes;       /* told when so much is freed */
    uint64_t window, window_payload; /* the peer may have so much here */
    uint64_t kept_payload;           /* of this waits here as unexpected */
    uint32_t kept_envelopes;
    uint32_t report_payload;
};

PART_FITS(peer, credit, struct credit);
#define peer_credit(peer) PART((peer)->credit, struct credit)

/* Glossary: extra credit - credit beyond the window, from a pool that all peers share */
/* Of an endpoint, as a receiver. */
struct credit_pool {
    uint64_t window, window_payload; /* of every peer, from the beginning */
    uint64_t extra, extra_all;       /* bytes for those that want more */
    bool is_fixed, is_payload_fixed; /* by the user: no extra envelopes, or payload */
    struct transport *bounce;        /* that maps bounce buffers of peers; NULL: none does */
};

PART_FITS(mbx_ep, credit, struct credit_pool);
#define ep_credit(ep)    PART((ep)->credit, struct credit_pool)

#define CREDIT_UNLIMITED (UINT64_C(1) << 61)

/* What a kept message costs without payload: struct message with its slot, and its places
 * in the index of the matching engine. */
#define CREDIT_ENVELOPE 192

/* Who defers messages sends them by itself again with so much credit; the window is that of the
 * beginning. */
static inline uint64_t credit_half(uint64_t window)
{
    return window < 2 ? 1 : window / 2;
}

/* Bytes for the payload of a kept message that does not fit into struct message. */
static inline uint64_t credit_bytes(uint64_t size)
{
    return (size + 192 + 15) & ~UINT64_C(15);
}

/* ... that comes eagerly: with so much payload. */
static inline uint64_t credit_eager(uint64_t size)
{
    return likely(size <= MESSAGE_INLINE) ? 0 : credit_bytes(size);
}

/* ... that comes as an RTS with so much RTS payload. */
static inline uint64_t credit_rts_payload(uint64_t size)
{
    return size == 0 ? 0 : credit_bytes(size);
}

static inline uint64_t credit_of(const struct arrival *arrival)
{
    return arrival->rts != NULL ? credit_rts_payload(arrival->have)
                                : credit_eager(arrival->size);
}

/* ---- as a sender ---- */

/* May an eager message of this size leave for peer now?  Then it is paid for. */
static inline bool credit_take(struct peer *peer, uint64_t size)
{
    if (unlikely(peer_credit(peer)->envelopes == 0))
        return false;
    if (unlikely(size > MESSAGE_INLINE)) {
        uint64_t payload = credit_bytes(size);

        if (unlikely(payload > peer_credit(peer)->payload))
            return false;
        peer_credit(peer)->payload -= payload;
    }
    peer_credit(peer)->envelopes--;
    return true;
}

/* It did not leave. */
static inline void credit_return(struct peer *peer, uint64_t size)
{
    peer_credit(peer)->envelopes++;
    peer_credit(peer)->payload += credit_eager(size);
}

/* No send leaves by this credit until it is brought back.  How many envelopes. */
static inline uint64_t credit_put_away(struct peer *peer)
{
    uint64_t envelopes = peer_credit(peer)->envelopes;

    peer_credit(peer)->envelopes = 0;
    return envelopes;
}

static inline void credit_bring_back(struct peer *peer, uint64_t envelopes)
{
    peer_credit(peer)->envelopes += envelopes;
}

/* credit_half() of the window that we began with there. */
uint64_t credit_first_half(const struct mbx_ep *ep, const struct peer *peer);

/* The peer is gone: sends to it are not to wait. */
static inline void credit_without_end(struct peer *peer)
{
    peer_credit(peer)->envelopes = CREDIT_UNLIMITED;
}

/* As credit_take() of req, whatever its protocol; without payload credit it becomes a
 * rendezvous. */
bool credit_take_request(struct mbx_ep *ep, struct peer *peer, struct request *req);

/* ---- as a receiver ---- */

/* From the settings: what every peer begins with. */
void credit_open(struct mbx_ep *ep);

/* What the user is told of it. */
void credit_limits(const struct mbx_ep *ep, struct mbx_limits *limits);

/* The window that every peer begins with, packed for our address: envelopes in the low 16 bits,
 * payload in units of 64 bytes in the high ones. */
uint32_t credit_welcome(const struct mbx_ep *ep);

/* Tells the peer what is freed, now or when there is space. */
void credit_report_soon(struct mbx_ep *ep, struct peer *peer);

/* A message of this peer is matched. */
static inline void credit_freed(struct mbx_ep *ep, struct peer *peer, uint64_t payload)
{
    struct credit *credit = peer_credit(peer);

    credit->freed_payload += payload;
    if (unlikely(++credit->freed_envelopes >= credit->report_envelopes) ||
        unlikely(credit->freed_payload >= credit->report_payload))
        credit_report_soon(ep, peer);
}

/* As credit_freed() of an eager message of this size; most have no payload that is counted. */
static inline void credit_freed_eager(struct mbx_ep *ep, struct peer *peer, uint64_t size)
{
    struct credit *credit = peer_credit(peer);

    if (unlikely(size > MESSAGE_INLINE))
        credit_freed(ep, peer, credit_bytes(size));
    else if (unlikely(++credit->freed_envelopes >= credit->report_envelopes))
        credit_report_soon(ep, peer);
}

/* Payload of a message that is matched already. */
static inline void credit_freed_payload(struct mbx_ep *ep, struct peer *peer, uint64_t payload)
{
    peer_credit(peer)->freed_payload += payload;
    if (peer_credit(peer)->freed_payload >= peer_credit(peer)->report_payload)
        credit_report_soon(ep, peer);
}

/* It wants more than it has: envelopes, or else payload; is_long: for a message that is eager only in bounce buffers. */
void credit_extra(struct mbx_ep *ep, struct peer *peer, bool envelopes, bool is_long);

/* A message comes.  False: its sender had no credit for it. */
static inline bool credit_admits(const struct peer *peer)
{
    return likely(peer_credit(peer)->kept_envelopes + peer_credit(peer)->freed_envelopes <
                  peer_credit(peer)->window);
}

/* It is to be kept.  False: its sender had no credit for the payload. */
static inline bool credit_has_space(const struct peer *peer, uint64_t payload)
{
    const struct credit *credit = peer_credit(peer);

    return likely(credit->kept_payload + payload <= credit->window_payload);
}

static inline void credit_keep(struct peer *peer, uint64_t payload)
{
    peer_credit(peer)->kept_envelopes++;
    peer_credit(peer)->kept_payload += payload;
}

/* A kept message is matched. */
static inline void credit_met(struct mbx_ep *ep, const struct message *message)
{
    struct peer *peer = peer_get(ep, message->match.envelope.source);

    peer_credit(peer)->kept_envelopes--;
    credit_freed_eager(ep, peer, 0);
}

/* The memory of its payload will be free. */
static inline void credit_emptied(struct mbx_ep *ep, const struct message *message)
{
    struct peer *peer = peer_get(ep, message->match.envelope.source);
    uint64_t payload = message_credit(message);

    if (payload == 0)
        return;
    peer_credit(peer)->kept_payload -= payload;
    credit_freed_payload(ep, peer, payload);
}

/* Maps the bounce buffers of peer, if it has any, and allows it as many as there is space for. */
void credit_allow_buffers(struct mbx_ep *ep, const struct peer *peer);

/* More is kept than ever was: buffers have what is left. */
static inline void credit_kept(const struct mbx_ep *ep)
{
    uint64_t all = ep->settings.unexpected_memory;

    if (unlikely(ep_credit(ep)->bounce != NULL))
        transport_bounce_limit(ep_credit(ep)->bounce,
                               all - min_size(all, ep->stats.unexpected_bytes_max));
}

extern const struct module credit_module;

#endif
