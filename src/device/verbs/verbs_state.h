/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_state.h - declarations that the files of this folder share.
 *
 *   verbs_open.c    device selection, configure, close; the queue pairs of the peers
 *   verbs.c         commands
 *   verbs_events.c  completions become events
 *   verbs_packet.c  converts the contents of an untagged buffer into a packet of wire.h
 *
 * Invariants
 *   I1  in_flight counts commands without completion; at most `commands` of them
 *   I2  an entry is on held from append until its MATCH or a successful DEL has been polled
 *   I3  an entry has its memory registered while it is on held or its data moves, unless the
 *       memory is a region of the caller, or the entry's bounce buffer
 *   I4  ranges has the memory of a receive from append until its data is there, or its DEL: for
 *       all entries of I3, whether the memory is registered here, a caller's region, or bounced
 *   I5  is_moving is set from MATCHED until DATA_VALID or INCOMPLETE; meanwhile peer is the
 *       sender
 */
#ifndef DEVICE_VERBS_STATE_H
#define DEVICE_VERBS_STATE_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "base/list.h"
#include "device/verbs/verbs.h"
#include "device/verbs/verbs_ranges.h"
#include "transport/verbs/verbs_regions.h"
#include "wire/wire.h"

/* The offset of a packet in an untagged buffer. */
#define VERBS_HEADROOM   (sizeof(struct wire_header) - sizeof(struct ibv_tmh))

#define VERBS_PAIR_LISTS 256

/* The longest request of a message whose data software has to fetch. */
#define VERBS_REQUEST_MAX 64

/* The object of a completion; with the object's number, it makes a wr_id. */
enum verbs_kind {
    VERBS_BUFFER = 1,
    VERBS_RECV,
    VERBS_ADD,
    VERBS_DEL,
    VERBS_SYNC,
    VERBS_MISSED
};

/* A receive; the index is its handle. */
struct verbs_entry {
    struct list node;                       /* on held, in the order of the appends */
    struct verbs_region *region;            /* NULL: bounce, or the caller's region */
    struct mbx_device_envelope envelope;    /* the envelope that it accepts */
    unsigned char *memory;                  /* where the hardware writes */
    unsigned char *buf;                     /* the caller's; unlike memory if bounced */
    size_t size;                            /* of buf */
    unsigned char saved[VERBS_REQUEST_MAX]; /* the first bytes of buf, if memory is buf */
    uint64_t data;                          /* of its message */
    uint32_t app_ctx;                       /* of its message */
    uint32_t peer;
    uint32_t list_handle; /* the hardware's number for it */
    bool has_range;       /* buf is in ranges */
    bool is_moving;       /* matched; its data is on its way */
    bool is_revoked;      /* a DEL waits for its completion */
    bool is_incomplete;   /* the hardware leaves the rendezvous to software */
    bool is_forged;       /* its message names another source than its queue pair */
};

struct verbs_buffer {
    unsigned char *memory; /* NULL: none yet */
    struct ibv_mr *mr;     /* NULL: verbs.prepared covers it */
    uint32_t lkey;
};

/* A queue pair of verbs_attach(). */
struct verbs_pair {
    struct list node;   /* on pairs */
    struct list number; /* on numbers[] */
    struct ibv_qp *qp;
    uint32_t peer;
    bool has_failed;
};

struct verbs {
    struct mbx_device device;
    struct verbs_config config;
    bool is_opened; /* this file opened context and pd */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct verbs_regions *regions; /* config.regions, or ours */
    struct ibv_cq_ex *cq;
    struct ibv_srq *srq;
    struct mbx_device_limits limits;
    uint32_t list, commands, untagged;
    uint32_t in_flight, held_count, moving;
    bool is_syncing;               /* a SYNC waits for its completion; one at a time */
    bool has_gone;                 /* a peer is gone; entries may wait for its data */
    bool is_failing;               /* the queue is emptied, then LOST is reported */
    bool is_lost;                  /* LOST has been reported */
    uint64_t empties;              /* how often the queue was found empty */
    uint64_t idles;                /* ... and nothing was under way */
    struct mbx_device_event ahead; /* polled by verbs_lie_down(); type 0: none */
    struct mbx_device_event later; /* the second event of a completion; type 0: none */
    struct list held, pairs;
    struct list numbers[VERBS_PAIR_LISTS]; /* pairs by the number of their queue pair */
    struct verbs_entry *entries;           /* [list] */
    struct verbs_ranges ranges;            /* memory of the entries; space for list */
    struct verbs_buffer *buffers;          /* [untagged] */
    struct ibv_mr *prepared;               /* NULL: nothing was registered ahead */
    unsigned char *bounce;                 /* [list] of eager_max bytes */
    struct ibv_mr *bounce_mr;
};

static inline struct verbs *verbs_of(struct mbx_device *device)
{
    return container_of(device, struct verbs, device);
}

static inline unsigned char *verbs_bounce(const struct verbs *v,
                                          const struct verbs_entry *entry)
{
    return v->bounce + (size_t)(entry - v->entries) * v->limits.eager_max;
}

static inline uint64_t verbs_work_id(enum verbs_kind kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}

/* Ends the hardware's use of memory. */
void verbs_deregister(struct ibv_mr **mr);
void verbs_withdraw(struct verbs *v, struct verbs_entry *entry);

/* verbs_open.c: finds the pair with this queue pair number, or of this peer; NULL. */
struct verbs_pair *verbs_pair_by_number(struct verbs *v, uint32_t qp_num);
struct verbs_pair *verbs_pair_of(struct verbs *v, uint32_t peer);
/* Stops the queue pair: only messages that have already come are delivered. */
void verbs_pair_stop(struct verbs_pair *pair);

/* verbs.c: gives an untagged buffer to the hardware again.  0 or an error of replenish. */
int verbs_post_buffer(struct verbs *v, uint32_t number);
/* entry has left the hardware's list. */
void verbs_settle(struct verbs *v, struct verbs_entry *entry);

/* verbs_events.c: the device has failed: events so far are still reported, and then LOST. */
void verbs_fail(struct verbs *v, const char *why);
int verbs_poll(struct mbx_device *device, struct mbx_device_event *events, int count);

/* verbs_packet.c: converts an untagged buffer, in which size bytes from pair's peer have
 * arrived, into a packet.  Sets type, peer and bytes of event; wire_check() refuses a malformed
 * packet. */
void verbs_packet(struct verbs *v, const struct verbs_pair *pair, unsigned char *memory,
                  size_t size, struct mbx_device_event *event);
/* ... reads a matched request, whose first size bytes are given: false if malformed. */
bool verbs_describe_rndv(const unsigned char *bytes, size_t size,
                         struct mbx_device_event *event);
bool verbs_describe_rts(const unsigned char *bytes, size_t size,
                        struct mbx_device_event *event);

extern const struct mbx_device_ops verbs_ops;

/* Functions of verbs_ops that verbs_open.c has. */
void verbs_close(struct mbx_device *device);
void verbs_limits(const struct mbx_device *device, struct mbx_device_limits *limits);
int verbs_configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                    uint32_t untagged);

#endif
