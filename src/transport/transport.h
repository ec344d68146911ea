/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - what moves bytes between endpoints.
 *
 * A transport knows links, one per remote endpoint, each a reliable FIFO of packets
 * in both directions, and may be able to read and write a remote endpoint's memory.  It knows
 * no matching and no requests.  What arrives is handed upwards through the events
 * given at open; calls go up from poll() only.
 *
 *   core                      transport                     other side
 *   connect(address)   --->   link
 *   send(link, packet) --->   ...                    --->   poll(): deliver(peer, packet)
 *                             poll(): accept(address) <---  first packet of a stranger
 *
 * A full transport never changes a state: send() either takes the whole packet or
 * takes nothing and returns -EAGAIN.
 *
 * An endpoint can be split: its receiving half is then run by somebody else, a thread or
 * another process, through a second transport object of the same address.
 *
 *   application                          the other one
 *   split(t, &handle)       handle --->  join(config, &handle, &other)
 *   t: send, read, wait                  other: deliver, accept; send and read too
 *   nudge(t)                       --->  wait(other) returns
 *   wait(t) returns                <---  nudge(other)
 *   rejoin(t)                            close(other), or death
 *   t: all of it again
 *
 * One thread at a time per endpoint, except while wait() sleeps.
 *
 * Implementations embed struct transport (and struct link) and find themselves with
 * container_of.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

/* Clients of libfabric have room for no more (FI_NAME_MAX). */
#define TRANSPORT_ADDRESS_SIZE 64
#define TRANSPORT_KEY_SIZE     16

/*
 *   offset size  of an address
 *      0     1   which transport wrote it: enum transport_kind
 *      1     3   how to read the network part; zero without one
 *      4     8   the transport's own
 *     12     4   transport_config.welcome of who opened it
 *     16    16   the transport's own
 *     32    32   network part: where the same endpoint is reached from other machines, or
 *                zero
 */
struct transport_address {
    uint8_t bytes[TRANSPORT_ADDRESS_SIZE];
};

#define TRANSPORT_WELCOME 12

/* Where the network part is. */
#define TRANSPORT_NETWORK_HEAD 1 /* 3 bytes */
#define TRANSPORT_NETWORK      32
#define TRANSPORT_NETWORK_SIZE (TRANSPORT_ADDRESS_SIZE - TRANSPORT_NETWORK)

enum transport_kind {
    TRANSPORT_LOOP = 1,
    TRANSPORT_SHM = 2,
    TRANSPORT_OFI = 3,
    TRANSPORT_SIM = 16
};

struct transport;

/* One remote endpoint as a transport sees it. */
struct link {
    struct transport *transport;
    uint32_t peer; /* the core's number, set by the core: handed back in deliver() */
};

/* Calls upwards, from poll() only (read_done also from read() and write(); it and
 * exchange_done, with an error, from whatever finds its link broken, send() and check() too;
 * sleeps and slept from wait()).
 */
struct transport_events {
    /* A remote endpoint that connect() has not named is about to deliver.  The core
     * returns 0 and sets *peer; -EAGAIN to be asked again by a later poll(); or
     * another error to refuse (everything from it is dropped and counted).  link is
     * the one to answer through, already usable; it lives as long as the endpoint. */
    int (*accept)(void *arg, struct link *link, const struct transport_address *address,
                  uint32_t *peer);

    /* One packet (header, body, payload: size bytes at packet, 8-byte aligned), not
     * looked into.  Valid until it returns.
     * 0        taken
     * -EAGAIN  not taken (no memory now): it is offered again by a later poll(),
     *          before anything else of this link */
    int (*deliver)(void *arg, uint32_t peer, const void *packet, size_t size);

    /* Of who has joined: a deliver() comes next, and whoever continues behind us does not
     * know of it yet; once it does, repeats() may be said of that packet.  May be NULL. */
    void (*begins)(void *arg);

    /* A read() or write() that returned -EINPROGRESS has ended. */
    void (*read_done)(void *arg, void *cookie, int error);

    /* An exchange() that returned -EINPROGRESS has ended: 0, and whether the word was as
     * expected; or an error, and nobody knows whether it was exchanged. */
    void (*exchange_done)(void *arg, uint64_t cookie, int error, bool is_exchanged);

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

struct transport_config {
    const struct transport_events *events;
    void *arg; /* for the events */
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint32_t welcome; /* the core's, for who reads our address */
    /* shm: its network part is to be our address's, too; NULL: it has none */
    const struct transport_address *network;
    /* loop */
    uint64_t loop_depth; /* packets a link holds */
    /* shm */
    uint64_t shm_ring_bytes; /* of one ordered pair, at most; 0 = default */
    uint64_t shm_peers;      /* senders that one endpoint can hold; 0 = default */
    bool shm_attach;         /* cross-memory attach allowed */
    uint64_t shm_host;       /* who has another number is on another machine; usually 0 */
    /* ofi */
    const char *ofi_provider;  /* of libfabric; NULL or "": the first that will do */
    const char *ofi_interface; /* name or address; NULL or "": the provider's first */
    uint64_t ofi_timeout_ns;   /* of a peer that does not answer; 0: there is none */
    bool ofi_words;            /* exchange() is wanted, where the provider has it */
    /* fault */
    uint64_t fault_seed;
    uint64_t fault_percent; /* how often send, deliver, read are disturbed */
    const char *fault_die;  /* where to die (fault.c), valid until close; or NULL */
};

/* What join() must know; bytes that may be passed to another process of this machine. */
struct transport_handle {
    struct transport_address address; /* the endpoint's */
};

struct transport_limits {
    size_t packet_max; /* largest packet: header + body + payload */
    size_t inline_max; /* largest packet that costs one cache line */
    bool can_read;     /* read() and write() are worth trying */
    bool is_copy;      /* who calls them copies the bytes himself, so that two are faster */
    uint32_t words;    /* of our own, for exchange(); 0: it is not supported */
    bool is_instant;   /* exchange() is done when it returns, if cookie is 0 */
    uint32_t board;    /* ... and so many behind these, to show() something on; or 0 */
};

struct transport_ops {
    const char *name;
    const char *about; /* one line for `mbx info` */

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
     * -EHOSTUNREACH  it could never be reached (no such process, other key); permanent */
    int (*send)(struct link *link, const struct transport_packet *packet);

    /* Reads size bytes at remote (address and key as the other side's expose() gave
     * them) into dst.
     * 0             done
     * -EINPROGRESS  read_done(cookie) will tell
     * -EAGAIN       no room; try again after poll()
     * other         failed; dst may be partly written.  -ENOTSUP: never try again. */
    int (*read)(struct link *link, void *dst, uint64_t address, uint64_t key, size_t size,
                void *cookie);

    /* The other way round: writes size bytes of src to remote, which the other side has
     * exposed.  As read(); if it fails, remote may be partly written. */
    int (*write)(struct link *link, uint64_t address, uint64_t key, const void *src,
                 size_t size, void *cookie);

    /* Is the other endpoint still there?  For who waits for it; costs a system call.
     * 0 as far as is known; -EHOSTDOWN it has died; -ECONNREFUSED it is no more, and was never
     * met, so that nobody knows whether it has closed or died; -ENOTCONN or another: it has
     * closed, or could never be reached. */
    int (*check)(struct link *link);

    /* The same of an endpoint at an address that reaches() accepts, for who has not asked for a
     * link to it; makes none.
     * As check(); -ENOTSUP: only a link can tell, and there is none */
    int (*check_address)(const struct transport *t, const struct transport_address *address);

    /* Compares word `index` of the other endpoint with expected and, if it is that, makes it
     * desired, in one step that nobody else's falls into; *found is what it was.  All words
     * are 0 at first.  No order is kept with packets.
     * 0
     * -EINPROGRESS  exchange_done(cookie) will tell; never if cookie is 0
     * -EAGAIN       not now
     * -EINVAL       no such word
     * -ENOTSUP      it has no words that are reached like this, or cookie would have to be
     *               another than 0
     * -ENOTCONN     there is no connection */
    int (*exchange)(struct link *link, uint64_t index, uint64_t expected, uint64_t desired,
                    uint64_t *found, uint64_t cookie);

    /* Compares and swaps a word of our own through the agent that serves the peers' exchanges
     * (the processor or an adapter), so that both are atomic to each other.  Done when it
     * returns; over a network that takes as long as a packet to oneself. */
    int (*exchange_own)(struct transport *t, uint64_t index, uint64_t expected,
                        uint64_t desired, uint64_t *found);

    /* What a word of our own holds, for who looks again and again: read by the processor, so
     * that an exchange may be seen late, but as a whole.  NULL: exchange_own() is as quick.
     * 0; -EINVAL no such word; -ENOTSUP */
    int (*glance_own)(struct transport *t, uint64_t index, uint64_t *found);

    /* Copies `count` words of the other endpoint from `index` on, each of them as a whole; what
     * was written there before a word that is read was written is seen behind it.
     * 0; -EAGAIN not now; -EINVAL no such words; -ENOTSUP; -ENOTCONN, -EHOSTUNREACH */
    int (*look)(struct link *link, uint64_t index, uint64_t *words, size_t count);

    /* Writes words of our own, in this order.  0; -EINVAL no such words */
    int (*show)(struct transport *t, uint64_t index, const uint64_t *words, size_t count);

    /* Lets the other side read and write [buf, buf+size) until unexpose(). */
    int (*expose)(struct link *link, const void *buf, size_t size, uint64_t *address,
                  uint64_t *key);
    void (*unexpose)(struct link *link, uint64_t address, uint64_t key);

    /* Delivers up to about budget packets; returns how many.  Never blocks. */
    int (*poll)(struct transport *t, int budget);

    /* Sleeps until something may be there to poll, or room where send() said
     * -EAGAIN, at most timeout_ns (negative: no limit).  May return early.
     * 0; -ETIMEDOUT; -EINTR. */
    int (*wait)(struct transport *t, int64_t timeout_ns);

    /* Makes the wait() of another thread, which has said that it sleeps(), return early. */
    void (*wake)(struct transport *t);

    /* Has everything that was taken reached memory that outlives this endpoint? */
    bool (*is_flushed)(struct transport *t);

    /* Stops receiving, so that another one can: from now on poll() delivers nothing, and
     * what arrives waits for whoever joins.  All else goes on as before: address, links,
     * send(), read(), expose(), and wait() for room.  Sets *handle.  No other thread may be
     * in wait() of t.
     * 0          *handle is set
     * -EALREADY  it is split
     * -ENOTSUP   this transport cannot */
    int (*split)(struct transport *t, struct transport_handle *handle);

    /* Receives in the place of a split endpoint, of this or another process; config as at
     * open, with the endpoint's key (what says how the endpoint is made is not looked at).
     * *out is a transport of its own with the endpoint's address:
     *
     * poll()    delivers what arrives, from exactly where t stopped; each peer is presented
     *           to accept() once more, unless connect() has named it
     * wait()    sleeps until there is something to poll, room, or a nudge()
     * connect() and send()  through links of its own.  At the receiver both halves are the
     *           same peer; what one of them sends is in order, but not what both do
     * read()    as t's, also of t's own memory
     * expose()  -ENOTSUP: its memory is not that of the address
     * close()   before rejoin(), and before t is closed; or its process dies.  It ends with
     *           a nudge()
     *
     * 0          *out is set
     * -EINVAL    no handle of this transport
     * -EHOSTUNREACH  of another machine
     * -ENOENT    there is no such endpoint (any more)
     * -EACCES    of another user, or another key
     * -EBUSY     it is not split, or another one has joined
     * -ENOTSUP   this transport cannot
     * -ENOMEM, and the system's */
    int (*join)(const struct transport_config *config, const struct transport_handle *handle,
                struct transport **out);

    /* Receives again, behind the other one, who has closed or died, at any instruction
     * (or, if nobody ever joined, at once).  Per link:
     *
     * - A packet that the other one has delivered (its deliver() returned 0) and released is
     *   not delivered again.  All others are, in order, to t.
     * - So the packet that the other one had begun to deliver and not yet released when it
     *   died comes again, whatever its deliver() had done: at most one packet of the whole
     *   endpoint for each death, since poll() delivers one at a time.  repeats() announces
     *   it, to whoever is offered it.  A close() makes none.
     * - Packets that the other one has sent arrive; its links end.  Senders to t notice
     *   nothing, but that one who slept for room may be woken 100 ms late.
     *
     * No other thread may be in wait() of t.
     *
     * 0          it receives; it may be split again
     * -EINVAL    it is not split
     * -EBUSY     the other one has neither closed nor died
     * -ENOTSUP   this transport cannot */
    int (*rejoin)(struct transport *t);

    /* Makes wait() of the other half return: of whoever has joined, if t is split, or of the
     * split endpoint, if t has joined.  If it does not wait now, then its next wait() that has
     * no poll() in front returns at once.  Otherwise does nothing. */
    void (*nudge)(struct transport *t);
};

/*
 * What poll() would look at first, for who looks so often that a call is too much: while word
 * is 0 and bell is what was seen, nothing has come, and left - 1 such looks may follow each
 * other until poll() has something else to do.  A transport that has no such place leaves word
 * NULL; one that has keeps it right in poll().  The memory of word and bell is there until
 * close().
 */
struct transport_look {
    const _Atomic uint32_t *word, *bell;
    uint32_t seen; /* of bell */
    uint32_t left;
};

struct transport {
    const struct transport_ops *ops;
    struct transport_limits limits;
    struct transport_look look;
};

/* A word in which there is always something: poll() is to be called. */
static inline const _Atomic uint32_t *transport_word_set(void)
{
    static const _Atomic uint32_t word = 1;

    return &word;
}

/* A word that stays 0: for a transport of which only the bell announces packets. */
static inline const _Atomic uint32_t *transport_word_clear(void)
{
    static const _Atomic uint32_t word;

    return &word;
}

/* Would poll() find nothing?  False also if that is not known. */
static inline bool transport_is_quiet(struct transport_look *look)
{
    return atomic_load_explicit(look->word, memory_order_relaxed) == 0 &&
           atomic_load_explicit(look->bell, memory_order_relaxed) == look->seen &&
           look->left != 0 && --look->left != 0;
}

extern const struct transport_ops transport_shm;
extern const struct transport_ops transport_loop;
extern const struct transport_ops transport_ofi;
extern const struct transport_ops transport_sim; /* sim/sim.h */

/* Points where it dies, if config says so: behind a packet of a type, before one is delivered,
 * when half of what is to be read or written has been. */
#define DEATH_SENT    "sent-"
#define DEATH_GOT     "got-"
#define DEATH_READING "reading"
#define DEATH_WRITING "writing"

/* Opens a transport that disturbs what it wraps: from config's seed it answers
 * -EAGAIN, holds back deliveries, fails reads and writes.  It never reorders a link, never
 * loses and never invents. */
int transport_fault_open(const struct transport_ops *wrapped,
                         const struct transport_config *config, struct transport **out);

/* What such a transport wraps; of another one, that itself. */
struct transport *transport_fault_inner(struct transport *t);

#endif
