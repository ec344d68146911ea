/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - what moves bytes between endpoints.
 *
 * A transport knows links, one per remote endpoint, each a reliable FIFO of packets
 * in both directions.  It knows no matching and no requests.  What arrives is handed upwards
 * through the events given at open; calls go up from poll() only.
 *
 *   core                      transport                     other side
 *   connect(address)   --->   link
 *   send(link, packet) --->   ...                    --->   poll(): deliver(peer, packet)
 *                             poll(): accept(address) <---  first packet of an unknown peer
 *
 * A full transport never changes a state: send() either takes the whole packet or
 * takes nothing and returns -EAGAIN.
 *
 * This is what every transport does, in twelve operations.  What only some of them do stands in
 * tables of its own, which are NULL in the others:
 *
 *   memory.h    reading and writing a remote endpoint's memory
 *   atomics.h   words that peers compare and swap, or load
 *   handoff.h   handing the receiving half of an endpoint to somebody else
 *   compose.h   packets whose payload is written where they leave from
 *   bounce.h    bounce buffers of the sender, out of which a peer unpacks
 *   labels.h    finding the addresses of others of the job on this machine
 *   network.h   being a part of an endpoint that has other ways, too
 *
 * The core calls these through the functions of those headers, which answer -ENOTSUP for a
 * transport without the table.  address.h says how an endpoint is named, transports.c which
 * transports there are.
 *
 * One thread at a time per endpoint, except while wait() sleeps.
 *
 * Implementations embed struct transport (and struct link) and find themselves with
 * container_of.
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

/* Glossary: link - the way of a transport to a peer */
/* One remote endpoint as a transport sees it. */
struct link {
    struct transport *transport;
    uint32_t peer; /* the core's number, set by the core: handed back in deliver() */
};

/* Calls upwards, from poll() only (read_done also from read() and write(); read_done and
 * cswap_done, with an error, from whatever finds its link broken, send() and check() too;
 * sleeps and slept from wait()). */
struct transport_events {
    /* A remote endpoint that connect() has not named is about to deliver.  The core
     * returns 0 and sets *peer; -EAGAIN to be asked again by a later poll(); or
     * another error to refuse (everything from it is dropped and counted).  link is
     * the one to answer through, already usable; it lives until forget(), or as long as the
     * endpoint. */
    int (*accept)(void *arg, struct link *link, const struct transport_address *address,
                  uint32_t *peer);

    /* One packet (header, body, payload: size bytes at packet, 8-byte aligned), not
     * looked into.  Valid until it returns.
     * 0        taken
     * -EAGAIN  not taken (no memory now): it is offered again by a later poll(),
     *          before anything else of this link */
    int (*deliver)(void *arg, uint32_t peer, const void *packet, size_t size);

    /* Of a transport that has taken over (handoff.h): a deliver() comes next, and whoever
     * continues behind us does not know of it yet; once it does, repeats() may be said of that
     * packet.  May be NULL. */
    void (*begins)(void *arg);

    /* A read() or write() that returned -EINPROGRESS has ended. */
    void (*read_done)(void *arg, void *cookie, int error);

    /* A cswap() that returned -EINPROGRESS has ended: 0, and whether the word was as
     * expected; or an error, and nobody knows whether it was swapped. */
    void (*cswap_done)(void *arg, uint64_t cookie, int error, bool is_swapped);

    /* The transport itself dropped something malformed or foreign. */
    void (*dropped)(void *arg, const char *reason);

    /* The next deliver(), of this peer, offers a packet that was being delivered when
     * whoever received in this endpoint's place died: its deliver() may have done nothing
     * yet, or all.  Said again before each time that it is offered.  May be NULL. */
    void (*repeats)(void *arg, uint32_t peer);

    /* wait() is about to sleep, and has slept: in between it touches nothing that the
     * other calls use, and other threads may make all of them but wait() and close().
     * Both may be NULL. */
    void (*sleeps)(void *arg);
    void (*slept)(void *arg);
};

/* What to send: the header is complete but for frame; body and payload may be
 * empty. */
struct transport_packet {
    const struct wire_header *header;
    const void *body;
    size_t body_size;
    const void *payload;
    size_t payload_size;
};

#define TRANSPORT_EXTENSION_SIZE 512

enum shm_pass { SHM_PASS_AUTO, SHM_PASS_ALWAYS, SHM_PASS_NEVER };

/* What users can set of each transport: its rows (transport_ops.params) lead here. */
struct transport_settings {
    struct {
        uint64_t ring_size;    /* bytes of one ordered pair, at most; 0, UINT64_MAX: default */
        uint64_t shares_cores; /* bool: a receiver may be without a core for some time */
        uint64_t attach;       /* bool: cross-memory attach allowed */
        uint64_t pass; /* enum shm_pass; the core decides for AUTO, which is NEVER here */
        uint64_t host; /* who has another number is on another machine; usually 0 */
        uint64_t job;  /* endpoints of one number may share a file (shm/directory.h); 0: none */
        uint64_t directory;    /* bool: and do */
        uint64_t second_cache; /* of a core, bytes; 0, which is usual: what the system says */
    } shm;
    struct {
        char provider[PARAM_STRING_MAX];  /* of libfabric; "": the first that will do */
        char interface[PARAM_STRING_MAX]; /* name or address; "": the provider's first */
        uint64_t timeout_ns;              /* of a peer that does not answer; 0: there is none */
    } ofi;
    struct {
        char device
            [PARAM_STRING_MAX]; /* "mlx5_0:1", name and port; "": the first that is active */
        uint64_t gid;           /* index; UINT64_MAX: which suits */
        uint64_t window;        /* packets of a peer that may be unread; 0: default */
        uint64_t timeout_ns;    /* of a peer that does not answer; 0: there is none */
        uint64_t pinned; /* bytes of registrations that are kept; UINT64_MAX: by RLIMIT */
    } verbs;
    alignas(8) unsigned char extension[TRANSPORT_EXTENSION_SIZE]; /* of what it brings */
};

struct transport_config {
    const struct transport_events *events;
    void *arg; /* for the events */
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint32_t credit;  /* of our address: address.h */
    uint64_t peers;   /* that send to us, at most; 0: default */
    bool wants_cswap; /* cswap() of peers is wanted, where it has to be asked for */
    uint32_t
        rank; /* of this process, as its launcher says, + 1; 0: none.  Told to peers for their log */
    /* whose network fields our address is to have, too; NULL: none */
    const struct transport_address *network;
    struct transport_settings settings;
};

/* What is said of a peer to a user; each 0 where it is not known. */
struct transport_who {
    uint32_t rank; /* as its launcher says, + 1 */
    uint32_t pid;  /* over there */
};

struct transport_limits {
    size_t packet_max; /* largest packet: header + body + payload */
    size_t inline_max; /* largest packet that costs one cache line */
    /* a wait() that sleeps is told of whatever comes, also if poll() was called meanwhile */
    bool stays_armed;
    /* memory.h */
    bool can_read; /* read() and write() are worth trying */
    /* Messages are matched by adapters: an eager one goes into one packet and has no more data than
     * this, what needs a FIN is a rendezvous, and an RTS has no payload.  0: nothing of that. */
    uint32_t data_max;
    bool is_copy; /* who calls them copies the bytes himself, so that two are faster */
    /* atomics.h */
    uint32_t cswap_words; /* of our own, for cswap(); 0: it is not supported */
    uint32_t table_words; /* of our own behind these, for store() and load(); or 0 */
    bool is_instant;      /* cswap() is done when it returns, if cookie is 0 */
    bool
        check_costs; /* check(), system calls each time: who waits for many asks for some in turn */
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
    const struct param *params; /* what users can set of it, as struct transport_settings */
    size_t param_count;

    const struct transport_memory *memory;       /* or NULL: memory.h */
    const struct transport_atomics *atomics;     /* or NULL: atomics.h */
    const struct transport_handoff *handoff;     /* or NULL: handoff.h */
    const struct transport_compose *compose;     /* or NULL: compose.h */
    const struct transport_bounce *bounce;       /* or NULL: bounce.h */
    const struct transport_labels *labels;       /* or NULL: labels.h */
    const struct transport_network_ops *network; /* or NULL: network.h */

    /* Makes the endpoint reachable and sets *out.  Errors as the system's. */
    int (*open)(const struct transport_config *config, struct transport **out);

    /* Releases everything; what was sent stays deliverable.  No event follows. */
    void (*close)(struct transport *t);

    void (*address)(const struct transport *t, struct transport_address *address);

    /* Would connect() make a link to this address?  Costs nothing that lasts.
     * 0; -EINVAL; -EHOSTUNREACH: as there */
    int (*reaches)(const struct transport *t, const struct transport_address *address);

    /* A link to the endpoint at address; the same one if it already exists.  Moves
     * nothing and waits for nobody.
     * 0              *link is set
     * -EINVAL        no address of this transport
     * -EHOSTUNREACH  well-formed, but of another machine
     * -ENOMEM */
    int (*connect)(struct transport *t, const struct transport_address *address,
                   struct link **link);

    /* Takes one packet of at most packet_max bytes.
     * 0              taken; all of it may be reused at once
     * -EAGAIN        full: nothing was taken; try again after poll()
     * -ENOTCONN      the other endpoint is closed or dead; permanent
     * -EHOSTUNREACH  it could never be reached (no such process, other key); permanent
     * -EPROTONOSUPPORT  it has another version of the library (version.h); permanent */
    int (*send)(struct link *link, const struct transport_packet *packet);

    /* As send(), of a whole eager message (wire.h: EAGER) without flags, which most packets are: from
     * its parts, so that nothing is put together before it is where it goes.  NULL: send() does it. */
    int (*send_eager)(struct link *link, uint32_t context_id, uint64_t tag, uint64_t data,
                      const void *payload, size_t size);

    /* Is the other endpoint still there?  For who waits for it (limits.check_costs).
     * 0 as far as is known; -EHOSTDOWN it has died; -ECONNREFUSED it is no more, and was never
     * met, so that nobody knows whether it has closed or died; -ENOTCONN or another: it has
     * closed, or could never be reached. */
    int (*check)(struct link *link);

    /* Is the endpoint at this address, which reaches() accepts, still there?  For who has not
     * asked for a link to it; makes none.
     * Returns what check() does; -ENOTSUP: only a link can tell, and there is none */
    int (*check_address)(const struct transport *t, const struct transport_address *address);

    /* Who the other side is, also when it has gone, as it has said: for the log and nothing else.
     * NULL: nobody says. */
    struct transport_who (*who)(struct link *link);

    /* Has the other endpoint closed, and was all that it had sent delivered, so that nothing can come
     * from it any more?  Not if it has died, or may have.  With forget() also NULL: nobody can tell. */
    bool (*is_over)(struct link *link);

    /* The end of a link that is_over(): the core has forgotten it, and its memory is given back. */
    void (*forget)(struct link *link);

    /* Delivers up to about budget packets; returns how many.  Never blocks. */
    int (*poll)(struct transport *t, int budget);

    /* Sleeps until something may be there to poll, or space where send() said
     * -EAGAIN, at most timeout_ns (negative: no limit).  May return early.
     * 0; -ETIMEDOUT; -EINTR. */
    int (*wait)(struct transport *t, int64_t timeout_ns);

    /* Makes the wait() of another thread, which has said that it sleeps(), return early. */
    void (*wake)(struct transport *t);

    /* Has everything that was taken reached memory that outlives this endpoint? */
    bool (*is_flushed)(struct transport *t);
};

/*
 * What poll() would look at first, for a caller that looks so often that a call is too much:
 * while word is 0 and bell is what was seen, nothing has come, and left - 1 such checks may
 * follow each other until poll() has something else to do.  A transport that has no such place
 * leaves word NULL; one that has keeps it right in poll().  The memory of word and bell is
 * there until close().
 */
struct transport_hint {
    const _Atomic uint32_t *word, *bell;
    uint32_t seen; /* of bell */
    uint32_t left;
};

struct transport {
    const struct transport_ops *ops;
    struct transport_limits limits;
    struct transport_hint hint;
};

/* A word for a hint that says nothing: it is never 0, so poll() is to be called. */
static inline const _Atomic uint32_t *transport_word_set(void)
{
    static const _Atomic uint32_t word = 1;

    return &word;
}

/* A word for a hint where the bell alone announces packets: it stays 0. */
static inline const _Atomic uint32_t *transport_word_clear(void)
{
    static const _Atomic uint32_t word;

    return &word;
}

/* Would poll() find nothing?  False also if that is not known. */
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

/* Those that users can choose, by index; NULL: there are no more. */
const struct transport_ops *transport_at(unsigned index);

/* What they can set, by index: rows for param.h, which lead into struct transport_settings.
 * NULL: there are no more. */
const struct param *transport_param(unsigned index);

/* As ops->open, but for what an extension puts around it. */
int transport_open(const struct transport_ops *ops, const struct transport_config *config,
                   struct transport **out);

/* More of all that, of a program that has more: testing/ is one.  Set before anything is opened.
 * The values of its parameters lie in transport_settings.extension. */
struct transport_extension {
    const struct transport_ops *const *transports;
    size_t count;
    const struct param *params; /* besides those of the transports */
    size_t param_count;
    int (*open)(const struct transport_ops *ops, const struct transport_config *config,
                struct transport **out);
};

extern const struct transport_extension *transport_extension; /* NULL: there is none */

#endif
