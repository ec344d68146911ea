/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.h - links over a network, for the transports that have such: who calls, who answers, when
 * a link is open, and how it ends.  net.c
 *
 *   transport (ofi)       struct net in its endpoint, struct net_link in each of its links
 *        │    ^
 *        │    └── net_ops: let a packet leave, tell about us, the link is open, it has ended
 *        v
 *   net.c                 HELLO, WELCOME, AUTH under the job's key (packet.h)
 *
 * Here nothing is sent and nothing received: which packets are pending, and what carries them, is
 * the transport's.
 *
 * Invariants
 *   I1  unauthenticated counts the links that are ANSWERING
 *   I2  a link has an error, and an end, if and only if it is DEAD
 *   I3  the peer of an OPEN link has a name, unless it is we
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "transport/net/packet.h"

/* Callers that have said HELLO, and not authenticated themselves. */
#define NET_UNAUTHENTICATED_MAX 64

#define NET_PLACE               64
#define NET_PEER_TEXT           (NET_PLACE + 64)

#define NET_CONTROL_MAX         (sizeof(struct net_prefix) + sizeof(struct net_hello))

enum net_state {
    NET_NEW,        /* nothing was sent */
    NET_CALLING,    /* we have said HELLO */
    NET_ANSWERING,  /* the peer has said HELLO, and is not authenticated yet */
    NET_CONFIRMING, /* we have called, and been answered; READY is to come (net_ops.confirms) */
    NET_OPEN,
    NET_DEAD /* permanent: error */
};

enum net_end {
    NET_LIVES,
    NET_CLOSED, /* by a BYE, or there can be no link: error */
    NET_DIED,   /* without a BYE */
    NET_LOST    /* the peer was never met, and is no more */
};

struct net;

struct net_link {
    struct net *net;
    const struct transport_address *address; /* of the peer */
    enum net_state state;
    int error;              /* DEAD */
    enum net_end end;       /* DEAD: how */
    bool is_self;           /* to our own endpoint: no packet travels */
    bool is_nowhere;        /* the network takes no packet to this address */
    bool has_warned;        /* CALLING: the user knows that nobody answers */
    bool has_called;        /* CONFIRMING, OPEN: by our call, so that AUTH was ours */
    uint8_t breaks;         /* connections that ended in a handshake */
    uint32_t id;            /* of this link, here */
    struct net_name ours;   /* what the peer calls us */
    struct net_name theirs; /* what we call the peer; id 0: it has not said */
    struct net_offer offer; /* the peer's */
    uint64_t since_ns;      /* when its handshake began */
    uint64_t said_ns;       /* when its last packet was sent, or sent again */
};

/* What a transport does for its links. */
struct net_ops {
    /* Messages go another way than these packets, on which the peer has to be ready first. */
    bool confirms;

    /* A control packet of this kind is to leave. */
    void (*control)(struct net_link *link, enum net_kind kind);

    /* Control packets of these kinds (1 << enum net_kind) are not to leave any more. */
    void (*forget)(struct net_link *link, unsigned kinds);

    /* Do packets of the core wait for the peer? */
    bool (*is_wanted)(const struct net_link *link);

    /* Makes what the offer tells of, if it is not there.  0, or not now.  NULL: there is nothing. */
    int (*prepare)(struct net_link *link);

    /* What we tell the peer about us; the same each time from prepare() on. */
    void (*offer)(const struct net_link *link, struct net_offer *offer);

    /* The link to this address, made if there is none.  0, or it cannot be. */
    int (*get)(struct net *net, const struct transport_address *address, struct net_link **out);

    /* The peer's offer is known, and authentic.  0; an error: with this one there is no link.
     * NULL: there is nothing to do. */
    int (*meet)(struct net_link *link);

    /* The link has become OPEN. */
    void (*opened)(struct net_link *link);

    /* The link has become DEAD. */
    void (*ended)(struct net_link *link);

    /* Has the peer of a link that is CALLING or CONFIRMING, and says nothing, ended? */
    bool (*is_gone)(struct net_link *link, uint64_t now);

    /* Where the peer is, for the log: an address of the network; "" if its form is not known.  NULL: it never is. */
    const char *(*place)(const struct net_link *link, char text[NET_PLACE]);

    /* What else that may mean, for the log: continues "... has ended"; or "".  NULL: nothing. */
    const char *(*or_else)(const struct net_link *link);
};

struct net {
    const struct net_ops *ops;
    const char *name;    /* of the transport, for the log */
    const char *timeout; /* the parameter of timeout_ns, for the log */
    const struct transport_events *events;
    void *arg;
    struct transport_address self;
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint64_t timeout_ns;      /* of a peer that says nothing; 0: none */
    uint32_t rank;            /* transport_config.rank */
    uint32_t unauthenticated; /* links that are ANSWERING */
};

/* Begins a link to address, which stays where it is: its names are drawn.  0; -errno. */
int net_link_init(struct net *net, struct net_link *link,
                  const struct transport_address *address, uint32_t id);

/* As transport_ops.who: what the peer has said in the handshake, or its address does. */
struct transport_who net_who(const struct net_link *link);

/* The peer in the words of a user: "rank 3 (process 4711) at 10.0.0.2", as far as it is known. */
const char *net_peer_text(const struct net_link *link, char text[NET_PEER_TEXT]);

/* Calls the peer of a NEW link. */
void net_call(struct net_link *link);

/* Nothing can be sent any more: a send fails with error.  Does nothing if the link is DEAD. */
void net_kill(struct net_link *link, int error, enum net_end end);

/* Packets of an open link were lost on the way. */
void net_break(struct net_link *link);

/* The peer has sent something behind the end of the link, or before its beginning. */
void net_late(struct net_link *link);

/* What transport_ops.check says of a link. */
int net_verdict(const struct net_link *link);

/* Our mark, in place of a token. */
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

/* Writes a control packet; how many bytes, at most NET_CONTROL_MAX. */
size_t net_write(const struct net_link *link, enum net_kind kind, unsigned count,
                 unsigned char *bytes);

/* A control packet has arrived, with this prefix and body; HELLO is of no link. */
void net_arrived(struct net *net, struct net_link *link, const struct net_prefix *prefix,
                 const void *body);

/* A packet of a link that is not DEAD could not be sent. */
enum net_failure {
    NET_BREAK,   /* a connection ended that there was */
    NET_REFUSAL, /* nobody takes one there */
    NET_FAILURE
};
void net_failed(struct net_link *link, enum net_kind kind, enum net_failure failure);

/* What only a peer sends that has our AUTH: is the link open?  It is, if it was CONFIRMING. */
bool net_confirm(struct net_link *link);

/* Is it in a handshake: CALLING, ANSWERING or CONFIRMING? */
static inline bool net_is_meeting(const struct net_link *link)
{
    return link->state == NET_CALLING || link->state == NET_ANSWERING ||
           link->state == NET_CONFIRMING;
}

/* Somebody waits for the peer of a link that is in a handshake. */
void net_tend(struct net_link *link, uint64_t now);

/* Once in a process: who has no key lets everybody in who can reach the network. */
void net_warn_without_key(const struct net *net);

/* Do the invariants hold?  With MBX_CHECKS. */
bool net_link_is_valid(const struct net_link *link);

#endif
