/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.c - chooses how a message travels; path.h has the table.
 */
#include "p2p/path.h"

#include <errno.h>

#include "base/fill.h"
#include "p2p/credit.h"
#include "transport/bounce.h"

#define BUFFERS_PAUSE 32 /* the longest pause of peer_path.buffers, in announced receives */

#define MESSAGE_MAX   (UINT64_C(1) << 46)

/* ---- where the peer is ---- */

enum reach {
    NEAR,
    FAR,
    SHARES_CORES, /* or it is far, and has no buffers */
    ELSEWHERE,
};

/* Can peer be read?  NULL: a peer to which nothing was sent yet. */
static bool can_read(const struct mbx_ep *ep, const struct peer *peer)
{
    return peer != NULL ? peer_path(peer)->can_read
                        : ep->net.transport->limits.can_read && ep->settings.rndv != RNDV_DATA;
}

static bool is_copy(const struct mbx_ep *ep, const struct peer *peer)
{
    return can_read(ep, peer) &&
           (peer != NULL ? peer->link->transport : ep->net.transport)->limits.is_copy;
}

/* Are there buffers for this peer? */
static bool has_buffers(const struct mbx_ep *ep, const struct peer *peer)
{
    return is_copy(ep, peer) && ep_matches_here(ep) &&
           (ep->settings.eager_limit != SETTING_AUTO || !ep_is_oversubscribed(ep));
}

/* Does the limit depend on the distance to peer? */
static bool depends_on_distance(const struct mbx_ep *ep, const struct peer *peer)
{
    return ep->settings.eager_limit == SETTING_AUTO && is_copy(ep, peer);
}

static enum reach reach_of(const struct mbx_ep *ep, const struct peer *peer, bool as_far)
{
    if (ep->settings.oversubscribed == OVERSUBSCRIBED_YES && depends_on_distance(ep, peer))
        return SHARES_CORES;
    if (as_far)
        return has_buffers(ep, peer) ? FAR : SHARES_CORES;
    return has_buffers(ep, peer) ? NEAR : ELSEWHERE;
}

/* The longest messages that travel in packets, and in buffers. */
struct longest {
    size_t packets, buffers;
};

static struct longest longest_of(const struct mbx_ep *ep, enum reach reach)
{
    const struct ep_limits *limits = &ep->limits;
    const size_t one_packet = min_size(limits->eager_max, limits->short_max);

    switch (reach) {
    case NEAR:
        return (struct longest){limits->eager_max, limits->buffers_max};
    case FAR:
        return (struct longest){one_packet, min_size(limits->buffers_max, PATH_BUFFERS_FAR)};
    case SHARES_CORES:
        return (struct longest){one_packet, 0};
    case ELSEWHERE:
        break;
    }
    return (struct longest){limits->eager_others, 0};
}

/* ---- how a message travels ---- */

/* Does the next message of several packets travel as if this far peer were near, to be measured? */
static bool is_sample(const struct peer *peer)
{
    return (peer_path(peer)->turns + 1) % PATH_FAR_TURNS == 0;
}

/* Can a message of this size leave completely in buffers now?  size SIZE_MAX: are all buffers
 * free? */
static bool buffers_are_free(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    return !ep_is_oversubscribed(ep) && list_is_empty(&peer->outq.list) &&
           !peer_defer(peer)->is_deferred && transport_bounce_has_free(peer->link, size);
}

enum mbx_protocol path_of_long(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    const enum reach reach = reach_of(ep, peer, peer_path(peer)->is_far && !is_sample(peer));
    const struct longest longest = longest_of(ep, reach);

    if (size <= longest.packets)
        return MBX_BOUNCE;
    return size <= longest.buffers && buffers_are_free(ep, peer, reach == FAR ? SIZE_MAX : size)
               ? MBX_BOUNCE
               : path_rndv(peer);
}

enum mbx_protocol path_of_waiting(const struct mbx_ep *ep, const struct peer *peer,
                                  const struct request *req)
{
    if (likely(req->size <= ep->limits.eager_max) || req->protocol != MBX_BOUNCE ||
        (req->flags & REQUEST_INTERNAL) || transport_bounce_has_free(peer->link, req->size))
        return (enum mbx_protocol)req->protocol;
    return path_rndv(peer);
}

size_t path_packets_max(const struct mbx_ep *ep, const struct peer *peer)
{
    return longest_of(ep, reach_of(ep, peer, peer_path(peer)->is_far)).packets;
}

bool path_is_short_first(const struct mbx_ep *ep, const struct peer *peer, uint64_t size,
                         bool has_waited)
{
    return (has_waited || peer_path(peer)->is_far) && path_uses_buffers(ep, peer, size) &&
           transport_bounce_can_take(peer->link);
}

bool path_is_measured(const struct mbx_ep *ep, const struct peer *peer)
{
    if (!depends_on_distance(ep, peer))
        return false;
    return peer_path(peer)->is_far ? peer_path(peer)->turns % PATH_FAR_TURNS == 0
                                   : (peer_path(peer)->turns + 1) % PATH_NEAR_TURNS == 0;
}

/* ---- how messages come ---- */

bool path_comes_in_buffers(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    /* the peer decides by the same rules */
    const struct longest longest = longest_of(ep, reach_of(ep, peer, peer_path(peer)->is_far));

    if (!path_uses_buffers(ep, peer, size) || !transport_bounce_allows(peer->link))
        return false;
    return size <= longest.packets ||
           (size <= longest.buffers && transport_bounce_allows_many(peer->link) &&
            !backoff_is_on(&peer_path(peer)->buffers));
}

bool path_is_shared_copy(const struct mbx_ep *ep, const struct peer *peer)
{
    const struct transport_limits *limits = &peer->link->transport->limits;

    if (!limits->is_copy || !limits->is_instant || !peer_path(peer)->can_read)
        return false;
    /* otherwise the sender may need our core */
    return ep->settings.tuning.split_copy == TUNING_ALWAYS || !ep_is_oversubscribed(ep);
}

/* Can a peer write into receives of this endpoint, and are receives announced? */
static bool may_advertise(const struct mbx_ep *ep)
{
    return ep->settings.rndv != RNDV_DATA && ep->lockwords != NULL && ep_matches_here(ep);
}

size_t path_advertised_from(const struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;

    if (s->tuning.advert == TUNING_OFF || !may_advertise(ep) ||
        !ep->net.transport->limits.can_read)
        return SIZE_MAX;
    if (ep_credit(ep)->window == 0 || ep_credit(ep)->window >= CREDIT_UNLIMITED)
        return SIZE_MAX; /* then credit does not show how many messages are on their way */
    return s->tuning.advert_size;
}

size_t path_shared_copy_from(const struct mbx_ep *ep)
{
    return ep->settings.tuning.split_copy == TUNING_OFF || !may_advertise(ep)
               ? SIZE_MAX
               : ep->settings.tuning.split_copy_size;
}

/* ---- the table ---- */

/* A row for a peer to which nothing was sent yet. */
static int first_row(const struct mbx_ep *ep, unsigned index, struct mbx_protocol_row *row)
{
    const size_t eager_max = ep->limits.eager_max;
    const struct mbx_protocol_row all[] = {
        {MBX_INLINE, min_size(ep->limits.inline_max, eager_max)},
        {MBX_SHORT, min_size(ep->limits.short_max, eager_max)},
        {MBX_BOUNCE, longest_of(ep, reach_of(ep, NULL, false)).packets},
        {can_read(ep, NULL) ? MBX_RNDV_READ : MBX_RNDV_DATA, ep->limits.reported.message},
    };
    size_t below = 0;

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (i > 0 && all[i].max_size <= below)
            continue;
        below = all[i].max_size;
        if (index-- == 0) {
            *row = all[i];
            return 0;
        }
    }
    return -ENOENT;
}

/* The next size, from this one on, at which path_of() may change.  Between two such sizes it
 * changes at most once. */
static size_t next_end(const struct mbx_ep *ep, const struct peer *peer, size_t from)
{
    const struct longest now =
        longest_of(ep, reach_of(ep, peer, peer_path(peer)->is_far && !is_sample(peer)));
    const size_t ends[] = {ep->limits.inline_max, ep->limits.short_max, ep->limits.eager_max,
                           now.packets, now.buffers};
    size_t end = ep->limits.reported.message;

    for (size_t i = 0; i < ARRAY_COUNT(ends); i++)
        if (ends[i] >= from)
            end = min_size(end, ends[i]);
    return end;
}

/* The longest message for which it and all shorter ones, down to this size, travel alike. */
static size_t last_alike(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    const enum mbx_protocol protocol = path_of(ep, peer, size);
    size_t end = next_end(ep, peer, size);

    while (path_of(ep, peer, end) == protocol) {
        if (end == ep->limits.reported.message)
            return end;
        size = end;
        end = next_end(ep, peer, end + 1);
    }
    while (end - size > 1) {
        size_t middle = size + (end - size) / 2;

        if (path_of(ep, peer, middle) == protocol)
            size = middle;
        else
            end = middle;
    }
    return size;
}

int path_row(const struct mbx_ep *ep, const struct peer *peer, unsigned index,
             struct mbx_protocol_row *row)
{
    size_t size = 0;

    if (peer == NULL)
        return first_row(ep, index, row);
    for (;; size = row->max_size + 1) {
        if (size > ep->limits.reported.message)
            return -ENOENT;
        *row = (struct mbx_protocol_row){path_of(ep, peer, size), last_alike(ep, peer, size)};
        if (index-- == 0)
            return 0;
    }
}

/* ---- for users ---- */

const char *mbx_protocol_name(enum mbx_protocol protocol)
{
    switch (protocol) {
    case MBX_INLINE:
        return "inline";
    case MBX_SHORT:
        return "short";
    case MBX_BOUNCE:
        return "bounce";
    case MBX_RNDV_READ:
        return "rndv-read";
    case MBX_RNDV_DATA:
        return "rndv-data";
    case MBX_RNDV_WRITE:
        return "rndv-write";
    case MBX_PROTOCOLS:
        break;
    }
    return NULL;
}

int mbx_protocol_get(const struct mbx_ep *ep, uint32_t number, unsigned index,
                     struct mbx_protocol_row *out, size_t size)
{
    struct mbx_protocol_row row;
    int err;

    ep_lock(ep);
    if (number != MBX_ANY_SOURCE && number >= ep->peers.count)
        err = log_argument("mbx_protocol_get", "peer", number, "no such peer");
    else
        err = path_row(
            ep,
            number < ep->peers.count && peer_is_used(ep, number) ? peer_get(ep, number) : NULL,
            index, &row);
    ep_unlock_unchanged(ep);
    return err == 0 ? FILL(out, size, row, max_size) : err;
}

/* ---- events that change a path ---- */

void path_peer_made(struct mbx_ep *ep, struct peer *peer,
                    const struct transport_address *address)
{
    (void)address;
    peer_path(peer)->can_read =
        peer->link->transport->limits.can_read && ep->settings.rndv != RNDV_DATA;
    peer_path(peer)->can_write = peer_path(peer)->can_read;
}

void path_open(struct mbx_ep *ep)
{
    const struct transport_limits *limits = &ep->net.transport->limits;
    struct ep_limits *own = &ep->limits;

    own->inline_max = limits->inline_max - sizeof(struct wire_header);
    own->short_max = limits->packet_max - sizeof(struct wire_header);
    own->eager_max =
        ep->settings.eager_limit == SETTING_AUTO ? EAGER_LIMIT_NEAR : ep->settings.eager_limit;
    own->eager_others =
        min_size(own->eager_max,
                 ep->settings.eager_limit == SETTING_AUTO ? EAGER_LIMIT_OTHERS : SIZE_MAX);
    own->buffers_max = max_size(own->eager_max, ep->settings.tuning.buffers_size);
    if (limits->data_max != 0)
        own->eager_max = own->eager_others = own->buffers_max =
            min_size(own->eager_max, own->short_max);
    own->at_once_max = min_size(own->short_max, own->eager_max);
    own->reported.message = MESSAGE_MAX;
}

void path_started(const struct mbx_ep *ep, struct peer *peer, size_t size)
{
    if (size > ep->limits.eager_max && size > ep->limits.buffers_max)
        return; /* a rendezvous in any case */
    if (peer_path(peer)->is_far)
        peer_path(peer)->turns++;
}

/* An adapter that matches has space for data_max in an eager message, and no space for the
 * request that a FIN needs. */
static bool must_be_rndv(const struct mbx_ep *ep, const struct peer *peer,
                         const struct mbx_status *status, unsigned flags)
{
    const uint64_t data_max = peer->link->transport->limits.data_max;

    return data_max != 0 && ((flags & REQUEST_SYNC) || status->data > data_max ||
                             status->size > ep->limits.short_max);
}

enum mbx_protocol path_choose(const struct mbx_ep *ep, struct peer *peer,
                              const struct mbx_status *status, unsigned flags)
{
    enum mbx_protocol protocol;

    if (unlikely(must_be_rndv(ep, peer, status, flags)))
        return flags & REQUEST_PIECES ? MBX_RNDV_DATA : path_rndv(peer);
    if (flags & REQUEST_INTERNAL)
        return path_eager(ep, status->size);
    if (flags & REQUEST_PIECES)
        return MBX_RNDV_DATA;
    protocol = path_of(ep, peer, status->size);
    if (protocol > MBX_SHORT)
        path_started(ep, peer, status->size);
    return protocol;
}

void path_left(struct peer *peer)
{
    if (!peer_path(peer)->is_far)
        peer_path(peer)->turns++;
}

void path_measured(struct peer *peer, size_t bytes, uint64_t ns)
{
    if (ns * PATH_RATE > bytes)
        peer_path(peer)->votes += peer_path(peer)->votes < PATH_VOTES;
    else
        peer_path(peer)->votes -=
            (uint8_t)min_size(peer_path(peer)->votes, peer_path(peer)->is_far ? 2 : 1);
    if (peer_path(peer)->votes == PATH_VOTES)
        peer_path(peer)->is_far = true;
    if (peer_path(peer)->votes == 0)
        peer_path(peer)->is_far = false;
}

void path_advertises(struct peer *peer)
{
    backoff_pass(&peer_path(peer)->buffers);
}

void path_came(const struct mbx_ep *ep, struct peer *peer, uint64_t size, bool is_eager)
{
    if (size > ep->limits.eager_max && is_eager)
        backoff_end(&peer_path(peer)->buffers);
    else if (size > ep->limits.eager_max)
        backoff_more(&peer_path(peer)->buffers, BUFFERS_PAUSE);
}
