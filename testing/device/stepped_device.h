/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stepped_device.h - the software device, worked by stepped.  Test code.
 *
 *   wires[0] ──┐                                  commands <── append, revoke, sync, ...
 *   wires[1] ──┼── stepped_arrive() ──> struct tm_unit <── stepped_command()
 *   wires[n] ──┘         │                │
 *                   transfers         events ──> poll
 *                        └── stepped_move() ──┘
 *
 * struct tm_unit with plain queues around it.  Its ops only put commands into their queue and
 * take events out of theirs; nothing is performed until a test says which of the queues has
 * its turn, so every order that a device could take can be tried.
 *
 * A message travels as one packet, or as a first one and FRAGMENTs behind it on the same
 * wire, or as a RENDEZVOUS: then the device copies STEPPED_STEP bytes at each stepped_move().
 *
 * Invariants (stepped_is_valid)
 *   I1  no more commands wait than were configured, and at most one SYNC of these
 *   I2  no more events are unread than tm_events() says
 *   I3  an entry is TM_MATCHED while its data moves, or its sender waits for a FIN
 *   I4  every command makes sense
 */
#ifndef TESTING_STEPPED_DEVICE_H
#define TESTING_STEPPED_DEVICE_H

#include "device/soft/tm_unit.h"

#define STEPPED_PEERS     4
#define STEPPED_INLINE    16 /* bytes of a message in one packet */
#define STEPPED_STEP      16 /* bytes of a rendezvous that one move copies */
#define STEPPED_LIST      64 /* receives, at most */
#define STEPPED_BUFFERS   64 /* untagged buffers, at most */
#define STEPPED_COMMANDS  (4 * STEPPED_LIST + 16)
#define STEPPED_EVENTS    (8 * STEPPED_LIST + STEPPED_BUFFERS)
#define STEPPED_EAGER_MAX (4 * STEPPED_INLINE)

enum stepped_kind { STEPPED_EAGER, STEPPED_RENDEZVOUS, STEPPED_FRAGMENT, STEPPED_OTHER };

/* What is on the wire, and in an untagged buffer. */
struct stepped_packet {
    uint8_t kind;     /* enum stepped_kind */
    bool wants_fin;   /* EAGER; a RENDEZVOUS always does */
    uint32_t message; /* the sender's number of it */
    struct mbx_device_envelope envelope;
    uint64_t size; /* of the message */
    uint64_t data;
    uint64_t offset;              /* FRAGMENT: where bytes[] belong */
    const unsigned char *address; /* RENDEZVOUS: the sender's memory */
    uint64_t breaks_at;           /* RENDEZVOUS: so far the device comes, at most */
    uint32_t length;              /* of bytes[] */
    unsigned char bytes[STEPPED_INLINE];
};

struct stepped_wire {
    struct stepped_packet *packets;
    uint32_t first, count, capacity;
};

struct stepped_queued {
    bool is_buffer; /* replenish: command.handle is its number, command.buf its memory */
    struct tm_command command;
};

/* Data on its way to the buffer of a matched entry; by its handle. */
struct stepped_transfer {
    bool is_moving, owes_fin;
    struct stepped_packet packet; /* the first one */
    uint32_t peer;
    uint64_t done; /* bytes of the message that have come */
};

struct stepped_config {
    struct mbx_device_limits limits; /* all 0: as many as there can be, all that it can do */
    unsigned caps;                   /* with limits of 0: only these; 0: all */
    uint64_t tag_mask;               /* likewise */
    uint32_t counter_bits;           /* of the device's counts; 0: 16 */
    uint32_t clashes; /* receives whose sizes are congruent mod this number have memory in
                         common, it says; 0: none */
};

struct stepped {
    struct mbx_device device;
    struct stepped_config config;
    struct tm_unit unit;
    bool is_configured, is_lost;
    bool has_overflowed;     /* there was no space for an event */
    bool has_refused_revoke; /* there was no space for one */
    bool was_misused;        /* a command made no sense, or asked for what it cannot do */
    uint32_t list, commands, untagged;

    uint32_t queue_first, queue_count;
    uint32_t commands_waiting, syncs_waiting, buffers_waiting;

    uint32_t events_first, events_count, events_max;
    uint32_t shows; /* so many more are shown to poll; UINT32_MAX: all */

    void *memory[STEPPED_BUFFERS];   /* of untagged buffers */
    uint32_t empty[STEPPED_BUFFERS]; /* numbers of those that wait for a packet; a ring */
    uint32_t empty_first, empty_count;

    struct stepped_transfer transfers[STEPPED_LIST];
    struct stepped_wire wires[STEPPED_PEERS];
    uint64_t fins[STEPPED_PEERS]; /* FINs to each peer */

    /* A test may want to know. */
    void (*on_fin)(void *arg, uint32_t peer, uint32_t message);
    void (*on_arrival)(void *arg, uint32_t peer, uint32_t message); /* of a tagged message */
    void *arg;

    /* the two rings; not cleared */
    struct stepped_queued queue[STEPPED_COMMANDS + STEPPED_BUFFERS]; /* a ring */
    struct mbx_device_event events[STEPPED_EVENTS];                  /* a ring */
};

void stepped_init(struct stepped *stepped, const struct stepped_config *config);
void stepped_fini(struct stepped *stepped);

/* The peer puts a packet on its wire. */
void stepped_send(struct stepped *stepped, uint32_t peer, const struct stepped_packet *packet);

/* ... or all packets of a message with these bytes: packet says the rest. */
void stepped_send_message(struct stepped *stepped, uint32_t peer,
                          const struct stepped_packet *packet, const unsigned char *bytes);

/* Takes the oldest packet off a wire: for who goes on without the device.  False: none. */
bool stepped_take_packet(struct stepped *stepped, uint32_t peer, struct stepped_packet *packet);

/* Each does one thing; false: there is nothing to do. */
bool stepped_command(struct stepped *stepped);
bool stepped_arrive(struct stepped *stepped,
                    uint32_t peer); /* also if the sender is held back */
bool stepped_move(struct stepped *stepped, uint32_t handle);
bool stepped_can_move(const struct stepped *stepped, uint32_t handle);

/* All of it, until nothing moves. */
void stepped_run(struct stepped *stepped);

/* The device is gone: its last event. */
void stepped_lose(struct stepped *stepped);

bool stepped_is_valid(const struct stepped *stepped);

/* Nothing waits, nothing moves, no entry is in use, every untagged buffer is empty. */
bool stepped_is_idle(const struct stepped *stepped);

#endif
