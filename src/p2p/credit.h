/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.h - credit, which limits the memory for unexpected messages of each peer.  Part of
 * p2p.h.
 *
 *   sender                                    receiver
 *   credit_take, message ──────────────────>  matched: credit_freed
 *                                             or kept: credit_keep ... credit_met
 *   credit_arrive      <───────────── CREDIT  half a window is freed: credit_report
 *
 * A message needs one envelope credit, and payload credit for the payload in its first packets,
 * in bytes as allocated if it has to be kept.  The envelope credit returns when the message is
 * matched, not when it arrives; the payload credit when that memory is free, which after a
 * matched probe is when the message is received.  So the memory that a peer can make us use is
 * bounded by its credit:
 *
 *   settings.unexpected_memory >= peers x (window x ENVELOPE + window_payload) + extra
 *
 * Bounce buffers of peers (transport/bounce.h) become resident here when they are read, and
 * stay so.  They use the remaining memory:
 *
 *   settings.unexpected_memory >= the most that was ever kept + resident buffers
 *
 * The maximum counts, since memory that messages no longer use need not return to the system.
 *
 * Every peer begins with the same small window, which is part of our address.  The rest is
 * extra credit: envelopes for a peer that has to defer messages (backlog.c), payload for one
 * that could not send a message eagerly.  When little of it is left, freed extra credit is
 * taken back.
 *
 * Invariants, for a receiver and each of its peers
 *   I1  the peer's credit + messages on their way from it + kept + freed == window
 *   I2  the sum of all windows beyond the first ones + extra == extra_all
 *   I3  the FINs owed to the peer are at most FINS_MOST, plus its window, its claims, and its
 *       messages that the user held by matched probes
 *   I4  as a sender, no credit is beyond CREDIT_UNLIMITED: sums do not wrap
 *   I5  the most that was ever kept + resident buffers <= settings.unexpected_memory, or there
 *       are no resident buffers
 */
#ifndef CORE_CREDIT_H
#define CORE_CREDIT_H

#include "p2p/p2p.h"
#include "transport/bounce.h"

/* Glossary: window - the credit with which a peer begins: envelopes, and bytes of payload; not an RMA window */
/* Part of a peer.  For us as its sender: the credit to send.  For us as its receiver: its
 * window, and the use of it. */
struct credit {
    uint64_t envelopes, payload;     /* credit to send; 0 envelopes while sends are deferred */
    uint64_t freed_payload;          /* matched here, and not yet returned */
    uint32_t freed_envelopes;        /* for an unlimited window: since the last check */
    uint32_t report_envelopes;       /* returned when this much is freed */
    uint64_t window, window_payload; /* the peer's window here */
    uint64_t kept_payload;           /* in use by unexpected messages */
    uint32_t kept_envelopes;
    uint32_t report_payload;
};

PART_FITS(peer, credit, struct credit);
#define peer_credit(peer) PART((peer)->credit, struct credit)

/* Extra credit: credit beyond the window, from a pool that all peers share */
/* Part of an endpoint, as a receiver. */
struct credit_pool {
    uint64_t window, window_payload; /* the first window of every peer */
    uint64_t extra, extra_all;       /* bytes for extra credit */
    bool is_fixed, is_payload_fixed; /* by the user: no extra envelopes, or no extra payload */
    struct transport *bounce;        /* the transport that maps bounce buffers of peers; NULL:
                                        none does */
};

PART_FITS(mbx_ep, credit, struct credit_pool);
#define ep_credit(ep)    PART((ep)->credit, struct credit_pool)

#define CREDIT_UNLIMITED (UINT64_C(1) << 61)

/* The memory of a kept message without payload: struct message with its pool slot, and its
 * entries in the index of the matching engine. */
#define CREDIT_ENVELOPE 192

/* The credit at which a sender stops deferring messages; window is the first window. */
static inline uint64_t credit_half(uint64_t window)
{
    return window < 2 ? 1 : window / 2;
}

/* Bytes for the payload of a kept message that does not fit into struct message. */
static inline uint64_t credit_bytes(uint64_t size)
{
    return (size + 192 + 15) & ~UINT64_C(15);
}

/* As credit_bytes(), for an eager message of this size. */
static inline uint64_t credit_eager(uint64_t size)
{
    return likely(size <= MESSAGE_INLINE) ? 0 : credit_bytes(size);
}

/* As credit_bytes(), for an RTS with this much payload. */
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

/* May an eager message of this size leave for peer now?  If so, takes its credit. */
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

/* Returns the credit of a message that did not leave. */
static inline void credit_return(struct peer *peer, uint64_t size)
{
    peer_credit(peer)->envelopes++;
    peer_credit(peer)->payload += credit_eager(size);
}

/* Withholds the envelope credit from sends until credit_bring_back().  Returns it. */
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

/* credit_half() of our first window at the peer. */
uint64_t credit_first_half(const struct mbx_ep *ep, const struct peer *peer);

/* The peer is gone: sends to it must not wait. */
static inline void credit_without_end(struct peer *peer)
{
    peer_credit(peer)->envelopes = CREDIT_UNLIMITED;
}

/* As credit_take() for req, with any protocol; without payload credit an eager message becomes
 * a rendezvous. */
bool credit_take_request(struct mbx_ep *ep, struct peer *peer, struct request *req);

/* ---- as a receiver ---- */

/* Computes the first windows from the settings. */
void credit_open(struct mbx_ep *ep);

/* The values that users see. */
void credit_limits(const struct mbx_ep *ep, struct mbx_limits *limits);

/* The window that every peer begins with, packed for our address: envelopes in the low 16 bits,
 * payload in units of 64 bytes in the high ones. */
uint32_t credit_welcome(const struct mbx_ep *ep);

/* Returns the freed credit to the peer, now or when there is space. */
void credit_report_soon(struct mbx_ep *ep, struct peer *peer);

/* Frees the credit of a matched message of this peer. */
static inline void credit_freed(struct mbx_ep *ep, struct peer *peer, uint64_t payload)
{
    struct credit *credit = peer_credit(peer);

    credit->freed_payload += payload;
    if (unlikely(++credit->freed_envelopes >= credit->report_envelopes) ||
        unlikely(credit->freed_payload >= credit->report_payload))
        credit_report_soon(ep, peer);
}

/* As credit_freed() for an eager message of this size; most have no counted payload. */
static inline void credit_freed_eager(struct mbx_ep *ep, struct peer *peer, uint64_t size)
{
    struct credit *credit = peer_credit(peer);

    if (unlikely(size > MESSAGE_INLINE))
        credit_freed(ep, peer, credit_bytes(size));
    else if (unlikely(++credit->freed_envelopes >= credit->report_envelopes))
        credit_report_soon(ep, peer);
}

/* Frees the payload credit of a message whose envelope is already freed. */
static inline void credit_freed_payload(struct mbx_ep *ep, struct peer *peer, uint64_t payload)
{
    peer_credit(peer)->freed_payload += payload;
    if (peer_credit(peer)->freed_payload >= peer_credit(peer)->report_payload)
        credit_report_soon(ep, peer);
}

/* The peer needs more than its window: envelopes, or otherwise payload; is_long: for a message
 * that is eager only in bounce buffers. */
void credit_extra(struct mbx_ep *ep, struct peer *peer, bool envelopes, bool is_long);

/* Had the sender of a message that has arrived credit for it? */
static inline bool credit_admits(const struct peer *peer)
{
    return likely(peer_credit(peer)->kept_envelopes + peer_credit(peer)->freed_envelopes <
                  peer_credit(peer)->window);
}

/* Had the sender of a message that has to be kept credit for its payload? */
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

/* Frees the envelope credit of a kept message that is matched. */
static inline void credit_met(struct mbx_ep *ep, const struct message *message)
{
    struct peer *peer = peer_get(ep, message->match.envelope.source);

    peer_credit(peer)->kept_envelopes--;
    credit_freed_eager(ep, peer, 0);
}

/* Frees the payload credit of a kept message whose memory is about to be freed. */
static inline void credit_emptied(struct mbx_ep *ep, const struct message *message)
{
    struct peer *peer = peer_get(ep, message->match.envelope.source);
    uint64_t payload = message_credit(message);

    if (payload == 0)
        return;
    peer_credit(peer)->kept_payload -= payload;
    credit_freed_payload(ep, peer, payload);
}

/* Maps the bounce buffers of peer, if it has any, and allows it as many as there is memory
 * for. */
void credit_allow_buffers(struct mbx_ep *ep, const struct peer *peer);

/* More is kept than ever before: limits the buffers to the remaining memory. */
static inline void credit_kept(const struct mbx_ep *ep)
{
    uint64_t all = ep->settings.unexpected_memory;

    if (unlikely(ep_credit(ep)->bounce != NULL))
        transport_bounce_limit(ep_credit(ep)->bounce,
                               all - min_size(all, ep->stats.unexpected_bytes_max));
}

extern const struct module credit_module;

#endif
