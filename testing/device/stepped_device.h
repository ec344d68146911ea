/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hand.h - the software device, worked by hand.  Test code.
 *
 *   wires[0] ──┐                                  commands <── append, revoke, sync, ...
 *   wires[1] ──┼── hand_arrive() ──> struct soft <── hand_command()
 *   wires[n] ──┘         │                │
 *                   transfers         events ──> poll
 *                        └── hand_move() ──┘
 *
 * struct soft with plain queues around it.  Its ops only put commands into their queue and
 * take events out of theirs; nothing is performed until a test says which of the queues has
 * its turn, so every order that a device could take can be tried.
 *
 * A message travels as one packet, or as a first one and FRAGMENTs behind it on the same
 * wire, or as a RENDEZVOUS: then the device copies HAND_STEP bytes at each hand_move().
 *
 * Invariants (hand_is_valid)
 *   I1  no more commands wait than were configured, and at most one SYNC of these
 *   I2  no more events are unread than soft_events() says
 *   I3  an entry is SOFT_MATCHED while its data moves, or its sender waits for a FIN
 *   I4  every command makes sense
 */
#ifndef DEVICE_HAND_H
#define DEVICE_HAND_H

#include "softdev/tm_unit.h"

#define HAND_PEERS     4
#define HAND_INLINE    16 /* bytes of a message in one packet */
#define HAND_STEP      16 /* bytes of a rendezvous that one move copies */
#define HAND_LIST      64 /* receives, at most */
#define HAND_BUFFERS   64 /* untagged buffers, at most */
#define HAND_COMMANDS  (2 * HAND_LIST + 16)
#define HAND_EVENTS    (8 * HAND_LIST + HAND_BUFFERS)
#define HAND_EAGER_MAX (4 * HAND_INLINE)

enum hand_kind { HAND_EAGER, HAND_RENDEZVOUS, HAND_FRAGMENT, HAND_OTHER };

/* What is on the wire, and in an untagged buffer. */
struct hand_packet {
    uint8_t kind;     /* enum hand_kind */
    bool wants_fin;   /* EAGER; a RENDEZVOUS always does */
    uint32_t message; /* the sender's number of it */
    struct mbx_device_envelope envelope;
    uint64_t size; /* of the message */
    uint64_t data;
    uint64_t offset;              /* FRAGMENT: where bytes[] belong */
    const unsigned char *address; /* RENDEZVOUS: the sender's memory */
    uint64_t breaks_at;           /* RENDEZVOUS: so far the device comes, at most */
    uint32_t length;              /* of bytes[] */
    unsigned char bytes[HAND_INLINE];
};

struct hand_wire {
    struct hand_packet *packets;
    uint32_t first, count, room;
};

struct hand_queued {
    bool is_buffer; /* replenish: command.handle is its number, command.buf its memory */
    struct soft_command command;
};

/* Data on its way to the buffer of a matched entry; by its handle. */
struct hand_transfer {
    bool is_moving, owes_fin;
    struct hand_packet packet; /* the first one */
    uint32_t peer;
    uint64_t done; /* bytes of the message that have come */
};

struct hand_config {
    struct mbx_device_limits limits; /* all 0: as many as there can be, all that it can do */
    unsigned caps;                   /* with limits of 0: only these; 0: all */
    uint32_t tag_bits;               /* likewise */
    uint32_t counter_bits;           /* of the device's counts; 0: 16 */
};

struct hand {
    struct mbx_device device;
    struct hand_config config;
    struct soft soft;
    bool is_configured, is_lost;
    bool has_overflowed;     /* there was no room for an event */
    bool has_refused_revoke; /* there was no room for one */
    bool was_misused;        /* a command made no sense, or asked for what it cannot do */
    uint32_t list, commands, untagged;

    uint32_t queue_first, queue_count;
    uint32_t commands_waiting, syncs_waiting, buffers_waiting;

    uint32_t events_first, events_count, events_max;
    uint32_t shows; /* so many more are shown to poll; UINT32_MAX: all */

    void *memory[HAND_BUFFERS];   /* of untagged buffers */
    uint32_t empty[HAND_BUFFERS]; /* numbers of those that wait for a packet; a ring */
    uint32_t empty_first, empty_count;

    struct hand_transfer transfers[HAND_LIST];
    struct hand_wire wires[HAND_PEERS];
    uint64_t told[HAND_PEERS]; /* FINs to each peer */

    /* A test may want to know. */
    void (*on_fin)(void *arg, uint32_t peer, uint32_t message);
    void (*on_arrival)(void *arg, uint32_t peer, uint32_t message); /* of a tagged message */
    void *arg;

    /* the two rings; not cleared */
    struct hand_queued queue[HAND_COMMANDS + HAND_BUFFERS]; /* a ring */
    struct mbx_device_event events[HAND_EVENTS];            /* a ring */
};

void hand_init(struct hand *hand, const struct hand_config *config);
void hand_fini(struct hand *hand);

/* The peer puts a packet on its wire. */
void hand_send(struct hand *hand, uint32_t peer, const struct hand_packet *packet);

/* ... or all packets of a message with these bytes: packet says the rest. */
void hand_send_message(struct hand *hand, uint32_t peer, const struct hand_packet *packet,
                       const unsigned char *bytes);

/* Takes the oldest packet off a wire: for who goes on without the device.  False: none. */
bool hand_take_packet(struct hand *hand, uint32_t peer, struct hand_packet *packet);

/* Each does one thing; false: there is nothing to do. */
bool hand_command(struct hand *hand);
bool hand_arrive(struct hand *hand, uint32_t peer); /* also if the sender is held back */
bool hand_move(struct hand *hand, uint32_t handle);
bool hand_can_move(const struct hand *hand, uint32_t handle);

/* All of it, until nothing moves. */
void hand_run(struct hand *hand);

/* The device is gone: its last event. */
void hand_lose(struct hand *hand);

bool hand_is_valid(const struct hand *hand);

/* Nothing waits, nothing moves, no entry is in use, every untagged buffer is empty. */
bool hand_is_idle(const struct hand *hand);

#endif
