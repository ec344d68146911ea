/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the parts of a network endpoint; never leaves this folder.
 *
 *   send ─> buffer ─> link.queue ─> fi_send ──────────> their receive buffer
 *           (a copy, registered)        completion gives the buffer back
 *
 *   fi_recv: receive buffers, each for many packets ─> link by id and token ─> deliver
 *                                                       └ refused: stays where it lies,
 *                                                         link.held, and so does what follows
 *
 * select.c chooses a provider, packet.c reads what strangers say, link.c makes and ends links,
 * greet.c opens them, attend.c and listener.c look for who is silent, outbound.c sends,
 * inbound.c receives, memory.c reads and writes, words.c exchanges; ofi.c opens, polls, waits
 * and closes.
 *
 * Invariants
 *   I1  by_id[link.id - 1] is the link; ids are never used twice
 *   I2  a link is on busy if and only if it owes something or its queue is not empty
 *   I3  a buffer is free, or on the queue of one link, or the provider's until its completion
 *   I4  a link is on holding if and only if packets of it are held; a receive buffer is given
 *       to the provider again when that has let go of it and nothing in it is held
 *   I5  packets of a link leave in the order of send(): past a queue that is not empty
 *       nothing is sent
 */
#ifndef OFI_OFI_H
#define OFI_OFI_H

#include <stdalign.h>

#include "base/list.h"
#include "transport/atomics.h"
#include "transport/link_table.h"
#include "transport/memory.h"
#include "transport/ofi/library.h"
#include "transport/ofi/packet.h"

#define OFI_BUFFERS    64 /* packets that may be on their way */
#define OFI_RESERVE    8  /* of these, for what links owe */
#define OFI_QUEUE_MAX  16 /* packets that wait for one link */
#define OFI_RMA_MAX    64 /* reads, writes and exchanges under way */
#define OFI_RMA_LINK   48 /* of these, for one peer: another one is not kept waiting */
#define OFI_RECEIVES   32 /* receive buffers for one packet each, */
#define OFI_MULTI      4  /* or for many, of this size */
#define OFI_MULTI_SIZE (128 << 10)
#define OFI_STRANGERS  64 /* who have greeted and not proved themselves */
#define OFI_WORDS      1024

/* What a completion of the provider is about. */
enum ofi_operation_kind { OFI_SENDING, OFI_RECEIVING, OFI_MOVING, OFI_EXCHANGING, OFI_OWN };

struct ofi_operation {
    struct fi_context2 context; /* the provider's */
    enum ofi_operation_kind kind;
};

struct ofi_buffer {
    struct ofi_operation operation;
    struct list node; /* on free or on a queue */
    struct ofi_link *link;
    void *descriptor;
    size_t size, padding;
    alignas(16) unsigned char bytes[OFI_MESSAGE_MAX];
};

struct ofi_receive {
    struct ofi_operation operation;
    unsigned char *bytes;
    uint32_t held; /* packets in it that were not taken */
    bool is_given; /* to the provider */
};

/* A read, write or cswap. */
struct ofi_rma {
    struct ofi_operation operation; /* MOVING or EXCHANGING */
    struct list node;               /* on rma_free, or its link's moving */
    void *cookie;                   /* NULL: nobody waits for it any more */
    struct fid_mr *local;
    struct ofi_link *link;
    uint64_t name;                     /* cswap: the cookie, or 0 */
    uint64_t expected, desired, found; /* cswap */
};

/* What the provider said and was not looked at yet. */
struct ofi_entry {
    struct fi_cq_data_entry entry;
    int error; /* of an operation that failed, or 0 */
};

/* words.c */
struct ofi_words {
    uint64_t *bytes; /* [OFI_WORDS]; NULL: there are none */
    struct fid_mr *mr;
    fi_addr_t self;
    struct ofi_rma own;     /* our own exchange: OWN */
    struct ofi_place place; /* for peers */
    bool is_broken;         /* our own exchanges do not come back: no more of them */
    /* what came while an exchange of our own was waited for */
    struct ofi_entry *entries;
    size_t first, count, room;
};

/* What a peer may read and write. */
struct ofi_exposure {
    struct list node; /* on exposures[] */
    uint64_t key;
    struct fid_mr *mr;
};

#define OFI_EXPOSURE_LISTS 256

enum ofi_state {
    OFI_NEW,       /* nothing was sent */
    OFI_CALLING,   /* we greet */
    OFI_ANSWERING, /* it has greeted, and has yet to prove that it is there */
    OFI_OPEN,
    OFI_DEAD /* permanent: link.error */
};

struct ofi_link {
    struct link_member member; /* first: the core's link */
    fi_addr_t to;              /* the provider's */
    enum ofi_state state;
    bool has_died; /* DEAD: without a BYE */
    bool is_lost;  /* DEAD: it was never met, and is no more */
    bool is_self;
    bool is_refused;        /* by the core, for good, unless connect() names it */
    bool is_wanted;         /* a read or write could not begin since it was last tended */
    bool is_wondered_at;    /* CALLING: the user knows that nobody answers */
    bool has_called;        /* OPEN: by our call, so that PROOF was ours */
    uint16_t owes;          /* 1 << enum ofi_kind */
    uint8_t breaks;         /* connections that ended in its greeting */
    uint32_t id;            /* of this link, here */
    uint32_t left, arrived; /* DATA */
    uint32_t queued;
    int error;
    struct list queue; /* buffers */
    struct list in_busy;
    struct list in_holding;
    struct list moving; /* reads, writes and exchanges */
    uint32_t moving_count;
    unsigned char *held_first, *held_last;
    struct ofi_name ours, theirs;
    struct ofi_place words; /* theirs */
    uint64_t since_ns;      /* when the greeting began */
    uint64_t heard_ns;      /* when something came last */
    uint64_t asked_ns;      /* when it was last asked whether it is there, or greeted */
    uint64_t silent_ns;     /* when it was asked first, and did not answer since; 0: it did */
    int look_fd;            /* listener.c: a connection that is being made, or -1 */
    uint64_t looked_ns, look_pause_ns;
};

struct ofi {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    const struct ofi_library *library;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd;   /* readable when there may be something to poll, or -1 */
    int bell; /* eventfd, for wake(); -1 if somebody else waits for us */
    bool is_closing;
    struct transport_address self;
    uint8_t key[TRANSPORT_KEY_SIZE];
    uint64_t timeout_ns; /* of a peer that says nothing; 0: none */

    struct link_table links;
    struct ofi_link **by_id;
    uint32_t id_count, id_room;
    uint32_t strangers; /* links that are ANSWERING */
    struct list busy, holding;
    uint32_t until_tend; /* polls */
    /* packets of the core that left for others, and came from others; with reads and writes */
    uint64_t begun, ended;

    struct ofi_buffer *buffers;
    struct list free;
    uint32_t free_count;
    struct fid_mr *buffers_mr;
    size_t inject_max;

    struct ofi_receive *receives;
    uint32_t receive_count;
    bool has_multi;
    size_t receive_size;
    unsigned char *receive_bytes;
    struct fid_mr *receives_mr;
    void *receive_descriptor;
    uint32_t to_give; /* receive buffers that the provider had no room for */

    struct ofi_rma *rmas;
    struct list rma_free;
    uint32_t rma_count; /* those that are taken */
    struct list exposures[OFI_EXPOSURE_LISTS];
    bool has_atomics;
    struct ofi_words words;
};

static inline struct ofi *ofi_of(const struct transport *t)
{
    return container_of(t, struct ofi, base);
}

static inline struct ofi_link *ofi_link_of(struct link *link)
{
    return container_of(link, struct ofi_link, member.link);
}

static inline struct ofi *ofi_of_link(const struct ofi_link *link)
{
    return ofi_of(link->member.link.transport);
}

static inline bool ofi_asks_for(const struct ofi *ofi, uint64_t mr_mode)
{
    return ((uint64_t)ofi->info->domain_attr->mr_mode & mr_mode) != 0;
}

/* ---- select.c ---- */

/* The provider to use, with atomics if they are wanted and it has them.  0 and *info; -ENODATA,
 * logged. */
int ofi_select(const struct ofi_library *library, const char *provider, const char *interface,
               bool wants_atomics, struct fi_info **info);

/* ---- link.c ---- */

/* 0; -EINVAL no address of this transport; -EHOSTUNREACH of another provider. */
int ofi_check_address(const struct ofi *ofi, const struct transport_address *address);
int ofi_link_get(struct ofi *ofi, const struct transport_address *address,
                 struct ofi_link **out);
void ofi_link_destroy(struct ofi_link *link);
void ofi_link_set(struct ofi_link *link, enum ofi_state state);
/* Nothing can be sent any more; error for who tries. */
void ofi_link_kill(struct ofi_link *link, int error, bool has_died);
/* Packets of its peer were lost on the way. */
void ofi_link_broken(struct ofi_link *link);
/* Its peer has sent something behind the end: it does not know of that, if that was a death. */
void ofi_link_told_late(struct ofi_link *link);
/* What a link's peer says of the link itself.  Not DATA. */
void ofi_link_told(struct ofi *ofi, struct ofi_link *link, enum ofi_kind kind,
                   const void *body);

/* ---- greet.c ---- */

/* Greets the peer of a NEW link. */
void ofi_call(struct ofi_link *link);
/* Writes what a packet of a greeting says behind its prefix; how many bytes. */
size_t ofi_write_greeting(struct ofi_link *link, enum ofi_kind kind, unsigned char *body);
void ofi_greeted(struct ofi *ofi, const struct ofi_hello *hello);
void ofi_welcomed(struct ofi *ofi, struct ofi_link *link, const struct ofi_welcome *welcome);
void ofi_proved(struct ofi *ofi, struct ofi_link *link, const struct ofi_proof *proof);
/* It was never met, and is no more. */
void ofi_refused(struct ofi_link *link);
/* It asks whether we are there. */
void ofi_pinged(struct ofi_link *link);
/* A packet of a greeting did not arrive. */
void ofi_greeting_failed(struct ofi_link *link, enum ofi_kind kind, int error);
void ofi_tend_calling(struct ofi_link *link, uint64_t now);
void ofi_tend_answering(struct ofi_link *link, uint64_t now);

/* ---- outbound.c ---- */

int ofi_send(struct link *l, const struct transport_packet *packet);
void ofi_owe(struct ofi_link *link, enum ofi_kind kind);
/* Has a packet of this kind been owed for long, and does not leave? */
bool ofi_is_stuck(const struct ofi_link *link, enum ofi_kind kind, uint64_t since_ns,
                  uint64_t now);
/* What it owes, or has queued, is to leave. */
void ofi_mark_busy(struct ofi_link *link);
/* Sends what waits, of one link or of all, as far as there is room.  How much went. */
int ofi_push(struct ofi_link *link);
int ofi_push_all(struct ofi *ofi);
/* What waits will not be sent. */
void ofi_queue_drop(struct ofi_link *link);
void ofi_sent(struct ofi *ofi, struct ofi_buffer *buffer);
void ofi_send_failed(struct ofi *ofi, struct ofi_buffer *buffer, int error);

/* ---- attend.c ---- */

/* As transport_ops.check, and .check_address */
int ofi_link_check(struct link *l);
int ofi_check_unnamed(const struct transport *t, const struct transport_address *address);
/* Looks after those of whom something is waited for. */
void ofi_tend(struct ofi *ofi);

/* ---- listener.c ---- */

/* For a peer that packets do not leave to: has its process ended?  0: not as far as is known;
 * -ECONNREFUSED: it has, or has closed its endpoint. */
int ofi_listener_look(struct ofi_link *link, uint64_t now);
/* It is there, or it does not matter any more. */
void ofi_listener_forget(struct ofi_link *link);

/* ---- inbound.c ---- */

int ofi_receives_open(struct ofi *ofi);
void ofi_receives_close(struct ofi *ofi);
/* Gives the provider all receive buffers that it may have. */
int ofi_receives_give(struct ofi *ofi);
/* One packet has arrived in this buffer; bytes is NULL if the provider only lets go of it. */
void ofi_received(struct ofi *ofi, struct ofi_receive *receive, unsigned char *bytes,
                  size_t size, bool is_released);
/* Offers what is held again.  How many were taken. */
int ofi_deliver_held(struct ofi *ofi);
/* Hands up one packet of the core.  0; -EAGAIN; another error: it is refused. */
int ofi_deliver(struct ofi_link *link, const void *packet, size_t size);

/* ---- memory.c ---- */

/* Registers our own [bytes, bytes+size) if the provider wants that; *mr may become NULL. */
int ofi_register(struct ofi *ofi, void *bytes, size_t size, uint64_t access,
                 struct fid_mr **mr);
extern const struct transport_memory ofi_memory;

int ofi_memory_open(struct ofi *ofi);
void ofi_memory_close(struct ofi *ofi);
/* One for an operation with the peer of link; NULL: there is none free, or it has its share. */
struct ofi_rma *ofi_rma_take(struct ofi_link *link, enum ofi_operation_kind kind);
/* The provider has it now. */
void ofi_rma_begin(struct ofi_rma *rma);
void ofi_rma_give(struct ofi *ofi, struct ofi_rma *rma);
/* As fi_mr_reg, with a key of ours unless the provider makes them. */
int ofi_register_keyed(struct ofi *ofi, const void *bytes, size_t size, uint64_t access,
                       struct fid_mr **mr);
/* Is the link open?  0; -EAGAIN not yet; or its error. */
int ofi_link_reach(struct ofi_link *link);
void ofi_moved(struct ofi *ofi, struct ofi_rma *rma, int error);
/* The peer is gone: its reads, writes and exchanges end. */
void ofi_moving_failed(struct ofi_link *link);

/* ---- words.c ---- */

/* Makes words that peers may exchange, if the provider can.  0, with or without; -ENOMEM, or
 * another error. */
int ofi_words_open(struct ofi *ofi);
void ofi_words_close(struct ofi *ofi);
extern const struct transport_atomics ofi_atomics;

/* The oldest entry that was put aside.  False: there is none. */
bool ofi_words_entry(struct ofi *ofi, struct ofi_entry *entry);

#endif
