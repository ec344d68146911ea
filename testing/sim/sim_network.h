/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_network.h - declarations shared by the files of testing/sim.
 *
 *   network ── endpoints[index] ── struct sim            time, chance, events
 *                                  ├── links ── out: struct sim_queue ── packets
 *                                  ├── inbox: all queues to it; ready: the queues whose first
 *                                  │          packet is due
 *                                  ├── moves: active reads and writes; moved: due
 *                                  ├── buffers, held by the peers that map them
 *                                  └── exposures
 *
 * Invariants
 *   I1  an index is given once in a network, so an event whose endpoint no longer exists
 *       points at nothing that may be accessed
 *   I2  a queue with packets is on ready, or has a packet event, but not both
 *   I3  a queue without packets has no receiver, or a sender, or an event that frees it
 *   I4  due moments do not decrease along a queue: it stays first in, first out
 */
#ifndef TESTING_SIM_SIM_NETWORK_H
#define TESTING_SIM_SIM_NETWORK_H

#include <stdalign.h>

#include "base/list.h"
#include "base/random.h"
#include "transport/link_table.h"
#include "testing/sim/events.h"
#include "testing/sim/sim.h"
#include "transport/transport.h"

#define SIM_PACKET_MAX  512
#define SIM_INLINE_MAX  64
#define SIM_WORDS_MAX   16
#define SIM_TABLE       8704
#define SIM_BUFFER_SIZE ((size_t)1 << 10)

struct sim {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    uint32_t index, credit;
    bool is_dead;
    struct link_table links;
    struct list inbox; /* sim_queue.in_inbox */
    struct list ready; /* sim_queue.in_ready */
    struct list moves; /* sim_move.in_moves */
    struct list moved; /* as above */
    struct list exposures;
    uint64_t next_key;
    uint64_t words[SIM_WORDS_MAX];
    uint64_t *table;             /* NULL: nothing was ever stored or loaded */
    struct sim_buffers *buffers; /* NULL: nobody has mapped them */
    uint64_t bounce_limit;       /* bytes of buffers that may be resident here */
};

struct sim_link {
    struct link_member member;
    uint32_t remote;            /* index */
    bool is_notified;           /* a space event is scheduled */
    struct sim_queue *out;      /* NULL until the first send */
    struct sim_buffers *sender; /* the other side's, held; NULL: not mapped */
    uint32_t resident;          /* bit i: its buffer i is resident here */
    uint32_t allowed;           /* number of buffers that it may use */
    bool allowed_few;           /* with rotation, only one of them */
};

struct sim_packet {
    struct sim_packet *next;
    uint64_t due_ns;
    size_t size;
    alignas(8) unsigned char bytes[];
};

struct sim_queue {
    struct sim *receiver;    /* NULL: gone */
    struct sim_link *sender; /* NULL: gone */
    struct sim_link *answer; /* the receiver's link to the sender, once it is known */
    struct transport_address from;
    uint32_t from_index;
    bool is_refused, is_awaited, has_event;
    struct list in_inbox, in_ready;
    uint32_t count;
    struct sim_packet *first, *last;
    uint64_t last_due_ns;
};

struct sim_place {
    struct sim *sim; /* NULL: closed */
    bool is_dead, sleeps;
    uint64_t alarm_ns;
};

struct sim_network {
    bool is_on;
    struct sim_config config;
    uint32_t name; /* in its addresses */
    uint64_t now_ns, stirred_ns, packets;
    uint64_t moving; /* number of events that are not alarms */
    struct random random;
    struct events events;
    struct sim_place *places;
    uint32_t count, capacity;
};

extern struct sim_network sim_network;

/* ---- sim_network.c ---- */

/* Makes space for one more endpoint and sets its index. */
int sim_network_add(struct sim *sim);
void sim_network_remove(struct sim *sim);
/* The open endpoint, or its state: -EHOSTDOWN, -ENOTCONN, -EHOSTUNREACH. */
int sim_network_find(uint32_t index, struct sim **out);
/* A random moment in the future. */
uint64_t sim_network_later(void);
/* True in percent of a hundred cases. */
bool sim_network_chance(uint32_t percent);
int sim_network_add_event(enum event_kind kind, uint64_t at_ns, uint32_t who, void *what);
/* Checks the bytes of an address.  0; -EINVAL; -EHOSTUNREACH: of another network. */
int sim_network_check(const struct transport_address *address, uint32_t *index);
void sim_network_address(const struct sim *sim, struct transport_address *address);

static inline struct sim *sim_of(const struct transport *t)
{
    return container_of(t, struct sim, base);
}

static inline struct sim_link *sim_link_of(struct link *link)
{
    return container_of(link, struct sim_link, member.link);
}

/* ---- queue.c ---- */

struct sim_link *queue_link(struct sim *sim, const struct transport_address *address,
                            uint32_t index);
int queue_send(struct link *link, const struct transport_packet *packet);
/* Delivers from the ready queues. */
int queue_deliver(struct sim *sim, int budget);
/* A packet event of a queue has come. */
void queue_due(struct sim_queue *queue);
/* The endpoint ends, as a sender and as a receiver.  is_lost: only some of its sent packets
 * stay. */
void queue_leave(struct sim *sim, bool is_lost);

/* ---- remote.c ---- */

extern const struct transport_memory sim_memory;
extern const struct transport_atomics sim_atomics;

/* A move event has come. */
void remote_due(struct sim *sim, void *move);
/* Reports the moves that are due as ended.  Returns their number. */
int remote_end_moves(struct sim *sim);
void remote_leave(struct sim *sim);

/* ---- bounce.c ---- */

extern const struct transport_bounce sim_bounce;

/* A link of an endpoint that ends. */
void bounce_end_link(struct sim *sim, struct sim_link *link);
void bounce_leave(struct sim *sim);

#endif
