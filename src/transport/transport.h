/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - moves bytes between endpoints.
 *
 * A transport knows links, one per remote endpoint, each a reliable FIFO of packets in both
 * directions.  It does not know matching or requests.  Arriving packets are handed up through
 * the events given at open; only poll() calls up.
 *
 *   core                      transport                     other side
 *   connect(address)   --->   link
 *   send(link, packet) --->   ...                    --->   poll(): deliver(peer, packet)
 *                             poll(): accept(address) <---  first packet of an unknown peer
 *
 * A full transport never changes a state: send() either takes the whole packet, or takes
 * nothing and returns -EAGAIN.
 *
 * This header has the operations of every transport.  Optional operations are in tables of
 * their own, which are NULL in transports without them:
 *
 *   memory.h    reading and writing a remote endpoint's memory
 *   atomics.h   words that peers compare and swap, or load
 *   handoff.h   handing the receiving half of an endpoint to another thread or process
 *   compose.h   packets whose payload is written in place
 *   bounce.h    bounce buffers of the sender, from which a peer unpacks
 *   labels.h    finding the addresses of the job's endpoints on this machine
 *   network.h   being a part of an endpoint that also has other paths
 *
 * The core calls these through the functions of those headers, which return -ENOTSUP if a
 * transport has no table.  address.h describes addresses, transports.c lists the transports.
 *
 * One thread at a time per endpoint, except while wait() sleeps.
 *
 * Implementations embed struct transport (and struct link) and use container_of.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/param.h"
#include "transport/address.h"
#include "wire/wire.h"

#define TRANSPORT_KEY_SIZE 16

struct transport;

/* Glossary: link - a transport's connection to one peer */
/* One remote endpoint as a transport sees it. */
struct link {
    struct transport *transport;
    uint32_t peer; /* the core's number, set by the core, and passed to deliver() */
};

/* Calls upwards, made only by poll(), with these exceptions: read_done also by read() and
 * write(); read_done and cswap_done, with an error, by any call that finds its link broken,
 * also send() and check(); sleeps and slept by wait(). */
struct transport_events {
    /* A remote endpoint that connect() has not named is about to deliver.  The core returns 0
     * and sets *peer; -EAGAIN to be asked again by a later poll(); or another error to refuse
     * (all its packets are dropped and counted).  link leads back to it, and is usable already;
     * it lives until forget(), or as long as the endpoint. */
    int (*accept)(void *arg, struct link *link, const struct transport_address *address,
                  uint32_t *peer);

    /* One packet (header, body, payload: size bytes at packet, 8-byte aligned), not inspected
     * by the transport.  Valid until this returns.
     * 0        taken
     * -EAGAIN  not taken (no memory now): a later poll() offers it again, before any other
     *          packet of this link */
    int (*deliver)(void *arg, uint32_t peer, const void *packet, size_t size);

    /* From a transport that has taken over (handoff.h): a deliver() comes next, and the half
     * that continues after us does not know of it yet; once it does, repeats() may announce
     * that packet.  May be NULL. */
    void (*begins)(void *arg);

    /* A read() or write() that returned -EINPROGRESS has ended. */
    void (*read_done)(void *arg, void *cookie, int error);

    /* A cswap() that returned -EINPROGRESS has ended: 0, and whether the word was as expected;
     * or an error, and it is unknown whether the word was swapped. */
    void (*cswap_done)(void *arg, uint64_t cookie, int error, bool is_swapped);

    /* The transport itself dropped a malformed or foreign packet. */
    void (*dropped)(void *arg, const char *reason);

    /* The next deliver(), from this peer, offers a packet that was being delivered when the
     * process that had taken over died: its deliver() may have done nothing yet, or everything.
     * Called before each offer of the packet.  May be NULL. */
    void (*repeats)(void *arg, uint32_t peer);

    /* wait() is about to sleep, and has slept: in between it touches nothing that the other
     * calls use, and other threads may make all calls except wait() and close().  Both may be
     * NULL. */
    void (*sleeps)(void *arg);
    void (*slept)(void *arg);
};

/* A packet to send: the header is complete except for frame; body and payload may be empty. */
struct transport_packet {
    const struct wire_header *header;
    const void *body;
    size_t body_size;
    const void *payload;
    size_t payload_size;
};

#define TRANSPORT_EXTENSION_SIZE 512

enum shm_pass { SHM_PASS_AUTO, SHM_PASS_ALWAYS, SHM_PASS_NEVER };

/* The user parameters of each transport: its rows (transport_ops.params) refer to these
 * fields. */
struct transport_settings {
    struct {
        uint64_t ring_size;    /* bytes for one ordered pair, at most; 0, UINT64_MAX: default */
        uint64_t shares_cores; /* bool: a receiver may have no core for some time */
        uint64_t attach;       /* bool: cross-memory attach allowed */
        uint64_t pass; /* enum shm_pass; the core decides for AUTO, which is NEVER here */
        uint64_t host; /* another number means another machine; usually 0 */
        uint64_t job;  /* endpoints of one job may share a file (shm/directory.h); 0: none */
        uint64_t directory;    /* bool: and they do */
        uint64_t second_cache; /* of a core, bytes; 0, the usual value: as the system reports */
    } shm;
    struct {
        char provider[PARAM_STRING_MAX];  /* of libfabric; "": the first suitable one */
        char interface[PARAM_STRING_MAX]; /* name or address; "": the provider's first */
        uint64_t timeout_ns;              /* for a peer that does not answer; 0: none */
    } ofi;
    struct {
        char device
            [PARAM_STRING_MAX]; /* "mlx5_0:1", name and port; "": the first that is active */
        uint64_t gid;           /* index; UINT64_MAX: a suitable one */
        uint64_t window;        /* unread packets that a peer may have; 0: default */
        uint64_t timeout_ns;    /* for a peer that does not answer; 0: none */
        uint64_t pinned; /* bytes of registrations that are kept; UINT64_MAX: by RLIMIT */
    } verbs;
    alignas(8) unsigned char extension[TRANSPORT_EXTENSION_SIZE]; /* for transport_extension */
};

struct transport_config {
    const struct transport_events *events;
    void *arg; /* for the events */
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint32_t credit;  /* of our address: address.h */
    uint64_t peers;   /* the most peers that may send to us; 0: default */
    bool wants_cswap; /* peers will use cswap(), if that has to be requested */
    uint32_t rank;    /* the launcher's rank of this process, + 1; 0: none.  For peers' logs */
    /* has the network fields for our address; NULL: none */
    const struct transport_address *network;
    struct transport_settings settings;
};

/* How to name a peer to a user; 0: unknown. */
struct transport_who {
    uint32_t rank; /* the launcher's rank, + 1 */
    uint32_t pid;  /* in its own namespace */
};

struct transport_limits {
    size_t packet_max; /* largest packet: header + body + payload */
    size_t inline_max; /* largest packet that costs one cache line */
    /* a wait() that sleeps notices all arrivals, also if poll() was called meanwhile */
    bool stays_armed;
    /* memory.h */
    bool can_read; /* read() and write() are worth trying */
    /* Adapters match messages: an eager message must fit into one packet and have no more data
     * than this, a message that needs a FIN is a rendezvous, and an RTS has no payload.  0: no
     * such limits. */
    uint32_t data_max;
    bool is_copy; /* the caller copies the bytes itself, so that two callers are faster */
    /* atomics.h */
    uint32_t cswap_words; /* our own words for cswap(); 0: it is not supported */
    uint32_t table_words; /* our own words after these, for store() and load(); or 0 */
    bool is_instant;      /* cswap() is done when it returns, if cookie is 0 */
    bool check_costs;     /* check() makes system calls: with many peers, check some in turn */
};

struct transport_memory;
struct transport_atomics;
struct transport_handoff;
struct transport_compose;
struct transport_bounce;
struct transport_network_ops;

struct transport_ops {
    const char *name;
    const char *about;          /* one line for `mbx info` */
    const struct param *params; /* its user parameters, in struct transport_settings */
    size_t param_count;

    const struct transport_memory *memory;       /* or NULL: memory.h */
    const struct transport_atomics *atomics;     /* or NULL: atomics.h */
    const struct transport_handoff *handoff;     /* or NULL: handoff.h */
    const struct transport_compose *compose;     /* or NULL: compose.h */
    const struct transport_bounce *bounce;       /* or NULL: bounce.h */
    const struct transport_labels *labels;       /* or NULL: labels.h */
    const struct transport_network_ops *network; /* or NULL: network.h */

    /* Makes the endpoint reachable and sets *out.  System errors. */
    int (*open)(const struct transport_config *config, struct transport **out);

    /* Releases everything; sent packets remain deliverable.  No event follows. */
    void (*close)(struct transport *t);

    void (*address)(const struct transport *t, struct transport_address *address);

    /* Would connect() make a link to this address?  Has no lasting effect.
     * 0; -EINVAL; -EHOSTUNREACH: as connect() */
    int (*reaches)(const struct transport *t, const struct transport_address *address);

    /* A link to the endpoint at address; the same one if it already exists.  Sends nothing and
     * does not wait.
     * 0              *link is set
     * -EINVAL        no address of this transport
     * -EHOSTUNREACH  well-formed, but of another machine
     * -ENOMEM */
    int (*connect)(struct transport *t, const struct transport_address *address,
                   struct link **link);

    /* Takes one packet of at most packet_max bytes.
     * 0              taken; its memory may be reused at once
     * -EAGAIN        full: nothing was taken; try again after poll()
     * -ENOTCONN      the other endpoint is closed or dead; permanent
     * -EHOSTUNREACH  it could never be reached (no such process, other key); permanent
     * -EPROTONOSUPPORT  it has another version of the library (version.h); permanent */
    int (*send)(struct link *link, const struct transport_packet *packet);

    /* Like send(), for a whole eager message (wire.h: EAGER) without flags, which most packets
     * are: takes its parts, so that they are assembled only in the place that they are sent
     * from.  NULL: use send(). */
    int (*send_eager)(struct link *link, uint32_t context_id, uint64_t tag, uint64_t data,
                      const void *payload, size_t size);

    /* Is the other endpoint still there?  For a caller that waits for it (limits.check_costs).
     * 0 it is not known to be gone; -EHOSTDOWN it has died; -ECONNREFUSED it is gone, and was never
     * met, so it is unknown whether it has closed or died; -ENOTCONN or another error: it has
     * closed, or could never be reached. */
    int (*check)(struct link *link);

    /* Is the endpoint at this address, which reaches() accepts, still there?  For a caller
     * without a link to it; makes none.
     * Returns the results of check(); -ENOTSUP: only a link could tell, and there is none */
    int (*check_address)(const struct transport *t, const struct transport_address *address);

    /* The rank and pid of the other side, as it has reported them, also after it is gone; only
     * for the log.  NULL: unknown. */
    struct transport_who (*who)(struct link *link);

    /* Has the other endpoint closed, and were all its packets delivered, so that nothing can
     * come from it any more?  False if it has died, or may have.  NULL: it cannot be
     * known, and forget() is also NULL. */
    bool (*is_over)(struct link *link);

    /* Ends a link that is_over(): the core has forgotten it, and its memory is freed. */
    void (*forget)(struct link *link);

    /* Delivers up to about budget packets; returns how many.  Never blocks. */
    int (*poll)(struct transport *t, int budget);

    /* Sleeps until there may be something to poll, or space after send() returned -EAGAIN, at
     * most timeout_ns (negative: no limit).  May return early.
     * 0; -ETIMEDOUT; -EINTR. */
    int (*wait)(struct transport *t, int64_t timeout_ns);

    /* Makes the wait() of another thread, which has called sleeps(), return early. */
    void (*wake)(struct transport *t);

    /* Has every taken packet reached memory that outlives this endpoint? */
    bool (*is_flushed)(struct transport *t);
};

/*
 * Where poll() looks first, for a caller that polls so often that a call is too expensive:
 * while *word is 0 and *bell equals seen, nothing has come, and left - 1 such checks may follow
 * each other before poll() has other work.  A transport without such a place leaves word NULL;
 * a transport with one updates it in poll().  The memory of word and bell exists until close().
 */
struct transport_hint {
    const _Atomic uint32_t *word, *bell;
    uint32_t seen; /* the value of *bell that was answered */
    uint32_t left;
};

struct transport {
    const struct transport_ops *ops;
    struct transport_limits limits;
    struct transport_hint hint;
};

/* A word for a hint that never says "nothing": it is never 0, so poll() must be called. */
static inline const _Atomic uint32_t *transport_word_set(void)
{
    static const _Atomic uint32_t word = 1;

    return &word;
}

/* A word for a hint if only the bell announces packets: it stays 0. */
static inline const _Atomic uint32_t *transport_word_clear(void)
{
    static const _Atomic uint32_t word;

    return &word;
}

/* Would poll() find nothing?  False also if unknown. */
static inline bool transport_is_quiet(struct transport_hint *hint)
{
    return atomic_load_explicit(hint->word, memory_order_relaxed) == 0 &&
           atomic_load_explicit(hint->bell, memory_order_relaxed) == hint->seen &&
           hint->left != 0 && --hint->left != 0;
}

extern const struct transport_ops transport_shm;
extern const struct transport_ops transport_ofi;
extern const struct transport_ops transport_verbs;
extern const struct transport_ops transport_mux; /* mux.h */
extern const struct transport_ops transport_mux_verbs;

/* ---- transports.c ---- */

/* The transports that users can choose, by index; NULL: there are no more. */
const struct transport_ops *transport_at(unsigned index);

/* The parameters of transports, by index: rows for param.h, which refer to struct
 * transport_settings.  NULL: there are no more. */
const struct param *transport_param(unsigned index);

/* Like ops->open, but an extension may wrap the transport. */
int transport_open(const struct transport_ops *ops, const struct transport_config *config,
                   struct transport **out);

/* Additional transports and parameters of a program, such as testing/.  Set before anything is
 * opened.  The values of its parameters are in transport_settings.extension. */
struct transport_extension {
    const struct transport_ops *const *transports;
    size_t count;
    const struct param *params; /* in addition to the transports' parameters */
    size_t param_count;
    int (*open)(const struct transport_ops *ops, const struct transport_config *config,
                struct transport **out);
};

extern const struct transport_extension *transport_extension; /* NULL: there is none */

#endif
