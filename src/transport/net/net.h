/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.h - links of network transports: which side calls, which answers, when a link is open,
 * and how it ends.  net.c
 *
 *   transport (ofi)       struct net in its endpoint, struct net_link in each of its links
 *        │    ^
 *        │    └── net_ops: send a packet, our offer, the link is open, has ended
 *        v
 *   net.c                 HELLO, WELCOME, AUTH under the job's key (packet.h)
 *
 * These files send and receive nothing themselves: the transport keeps the pending packets and
 * carries them.
 *
 * Invariants
 *   I1  unauthenticated counts the links that are ANSWERING
 *   I2  a link has an error, and an end, if and only if it is DEAD
 *   I3  the peer of an OPEN link has a name, unless it is this endpoint
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "transport/net/packet.h"

/* Callers that have sent HELLO, and are not authenticated yet. */
#define NET_UNAUTHENTICATED_MAX 64

#define NET_PLACE               64
#define NET_PEER_TEXT           (NET_PLACE + 64)

#define NET_CONTROL_MAX         (sizeof(struct net_prefix) + sizeof(struct net_hello))

enum net_state {
    NET_NEW,        /* nothing was sent yet */
    NET_CALLING,    /* we have sent HELLO */
    NET_ANSWERING,  /* the peer has sent HELLO, and is not authenticated yet */
    NET_CONFIRMING, /* our call was answered; READY is to come (net_ops.confirms) */
    NET_OPEN,
    NET_DEAD /* permanent; see error */
};

enum net_end {
    NET_LIVES,
    NET_CLOSED, /* by a BYE, or there can be no link (error) */
    NET_DIED,   /* without a BYE */
    NET_LOST    /* the peer is gone, and was never met */
};

struct net;

struct net_link {
    struct net *net;
    const struct transport_address *address; /* of the peer */
    enum net_state state;
    int error;              /* DEAD */
    enum net_end end;       /* DEAD: how it ended */
    bool is_self;           /* to our own endpoint: no packet travels */
    bool is_nowhere;        /* the network takes no packet to this address */
    bool has_warned;        /* CALLING: the user was told that the peer does not answer */
    bool has_called;        /* CONFIRMING, OPEN: we have called, and sent AUTH */
    uint8_t breaks;         /* connections that ended in a handshake */
    uint32_t id;            /* our id of this link */
    struct net_name ours;   /* our name: the peer uses it */
    struct net_name theirs; /* the peer's name: we use it; id 0: unknown */
    struct net_offer offer; /* the peer's */
    uint64_t since_ns;      /* when its handshake began */
    uint64_t said_ns;       /* when its last packet was sent, or sent again */
};

/* Functions of a transport for its links. */
struct net_ops {
    /* Messages use another path than these packets, and the peer has to be ready on that path
     * before. */
    bool confirms;

    /* Queues a control packet of this kind. */
    void (*control)(struct net_link *link, enum net_kind kind);

    /* Removes queued control packets of these kinds (1 << enum net_kind). */
    void (*forget)(struct net_link *link, unsigned kinds);

    /* Do packets of the core wait for the peer? */
    bool (*is_wanted)(const struct net_link *link);

    /* Creates what the offer describes, if needed.  0, or not now.  NULL: nothing to create. */
    int (*prepare)(struct net_link *link);

    /* Our offer to the peer; the same each time from prepare() on. */
    void (*offer)(const struct net_link *link, struct net_offer *offer);

    /* The link to this address, made if there is none.  0, or it cannot be. */
    int (*get)(struct net *net, const struct transport_address *address, struct net_link **out);

    /* The peer's offer is known, and authentic.  0; an error: there can be no link with this
     * peer.  NULL: nothing to do. */
    int (*meet)(struct net_link *link);

    /* The link has become OPEN. */
    void (*opened)(struct net_link *link);

    /* The link has become DEAD. */
    void (*ended)(struct net_link *link);

    /* Is the peer of a link that is CALLING or CONFIRMING, and silent, gone? */
    bool (*is_gone)(struct net_link *link, uint64_t now);

    /* The peer's network address for the log; "" if its form is not known.  NULL: it never
     * is. */
    const char *(*place)(const struct net_link *link, char text[NET_PLACE]);

    /* Another possible cause, for the log: continues "... has ended"; or "".  NULL: none. */
    const char *(*or_else)(const struct net_link *link);
};

struct net {
    const struct net_ops *ops;
    const char *name;    /* the transport's name, for the log */
    const char *timeout; /* the parameter of timeout_ns, for the log */
    const struct transport_events *events;
    void *arg;
    struct transport_address self;
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint64_t timeout_ns;      /* of a silent peer; 0: none */
    uint32_t rank;            /* transport_config.rank */
    uint32_t unauthenticated; /* links that are ANSWERING */
};

/* Begins a link to address, which must stay valid; draws its names.  0; -errno. */
int net_link_init(struct net *net, struct net_link *link,
                  const struct transport_address *address, uint32_t id);

/* As transport_ops.who: from the peer's handshake, or from its address. */
struct transport_who net_who(const struct net_link *link);

/* The peer for log lines: "rank 3 (process 4711) at 10.0.0.2", as much as is known. */
const char *net_peer_text(const struct net_link *link, char text[NET_PEER_TEXT]);

/* Calls the peer of a NEW link. */
void net_call(struct net_link *link);

/* Ends the link: from now on a send fails with error.  Does nothing if the link is DEAD. */
void net_kill(struct net_link *link, int error, enum net_end end);

/* Packets of an open link were lost on the way. */
void net_break(struct net_link *link);

/* The peer has sent a packet after the end of the link, or before its beginning. */
void net_late(struct net_link *link);

/* The result of transport_ops.check for a link. */
int net_verdict(const struct net_link *link);

/* Our mark, which HELLO carries instead of a token. */
uint64_t net_own_mark(void);

/* Writes the prefix of a packet with this count and padding. */
static inline void net_write_prefix(const struct net_link *link, enum net_kind kind,
                                    unsigned count, size_t padding, unsigned char *bytes)
{
    const struct net_prefix prefix = {
        .kind = (uint8_t)kind,
        .version = NET_VERSION,
        .count = (uint16_t)(padding | (net_counts(kind) ? count & NET_COUNT_MASK : 0) << 3),
        .to = kind == NET_HELLO ? 0 : link->theirs.id,
        .token = kind == NET_HELLO ? net_own_mark() : link->theirs.token,
    };

    memcpy(bytes, &prefix, sizeof prefix);
}

/* Writes a control packet; returns its size, at most NET_CONTROL_MAX. */
size_t net_write(const struct net_link *link, enum net_kind kind, unsigned count,
                 unsigned char *bytes);

/* A control packet has arrived, with this prefix and body.  HELLO belongs to no link: link is
 * NULL. */
void net_arrived(struct net *net, struct net_link *link, const struct net_prefix *prefix,
                 const void *body);

/* A packet of a link that is not DEAD could not be sent. */
enum net_failure {
    NET_BREAK,   /* an existing connection ended */
    NET_REFUSAL, /* the peer's address accepts no connection */
    NET_FAILURE
};
void net_failed(struct net_link *link, enum net_kind kind, enum net_failure failure);

/* A packet has come that requires our AUTH: is the link open?  A link that was CONFIRMING now
 * is. */
bool net_confirm(struct net_link *link);

/* Is it in a handshake: CALLING, ANSWERING or CONFIRMING? */
static inline bool net_is_meeting(const struct net_link *link)
{
    return link->state == NET_CALLING || link->state == NET_ANSWERING ||
           link->state == NET_CONFIRMING;
}

/* Looks after a link in a handshake, for whose peer something waits. */
void net_tend(struct net_link *link, uint64_t now);

/* Warns once per process: without a key, everyone who can reach the network is let in. */
void net_warn_without_key(const struct net *net);

/* Do the invariants hold?  With MBX_CHECKS. */
bool net_link_is_valid(const struct net_link *link);

#endif
