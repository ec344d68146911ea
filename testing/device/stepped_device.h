/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stepped_device.h - the software device, driven step by step.  Test code.
 *
 *   wires[0] ──┐                                  commands <── append, revoke, sync, ...
 *   wires[1] ──┼── stepped_arrive() ──> struct tm_unit <── stepped_command()
 *   wires[n] ──┘         │                │
 *                   transfers         events ──> poll
 *                        └── stepped_move() ──┘
 *
 * struct tm_unit with plain queues around it.  Its ops only put commands into their queue and
 * take events out of theirs.  Nothing is performed until a test chooses the next queue,
 * so every order that is possible for a device can be tested.
 *
 * A message travels as one packet, or as a first one with FRAGMENTs after it on the same
 * wire, or as a RENDEZVOUS: then the device copies STEPPED_STEP bytes at each stepped_move().
 *
 * Invariants (stepped_is_valid)
 *   I1  no more commands wait than were configured, and at most one of them is a SYNC
 *   I2  no more events are unread than tm_events() returns
 *   I3  an entry is TM_MATCHED while its data moves, or its sender waits for a FIN
 *   I4  every command is valid
 */
#ifndef TESTING_STEPPED_DEVICE_H
#define TESTING_STEPPED_DEVICE_H

#include "device/soft/tm_unit.h"

#define STEPPED_PEERS     4
#define STEPPED_INLINE    16 /* bytes of a message in one packet */
#define STEPPED_STEP      16 /* bytes of a rendezvous per move */
#define STEPPED_LIST      64 /* maximum number of receives */
#define STEPPED_BUFFERS   64 /* maximum number of untagged buffers */
#define STEPPED_COMMANDS  (4 * STEPPED_LIST + 16)
#define STEPPED_EVENTS    (8 * STEPPED_LIST + STEPPED_BUFFERS)
#define STEPPED_EAGER_MAX (4 * STEPPED_INLINE)

enum stepped_kind { STEPPED_EAGER, STEPPED_RENDEZVOUS, STEPPED_FRAGMENT, STEPPED_OTHER };

/* The content of a wire, and of an untagged buffer. */
struct stepped_packet {
    uint8_t kind;     /* enum stepped_kind */
    bool wants_fin;   /* EAGER; a RENDEZVOUS always does */
    uint32_t message; /* the sender's number for the message */
    struct mbx_device_envelope envelope;
    uint64_t size; /* of the message */
    uint64_t data;
    uint64_t offset;              /* FRAGMENT: the position of bytes[] */
    const unsigned char *address; /* RENDEZVOUS: the sender's memory */
    uint64_t breaks_at;           /* RENDEZVOUS: maximum bytes that the device can read */
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

/* Data in flight to the buffer of a matched entry; by the entry's handle. */
struct stepped_transfer {
    bool is_moving, owes_fin;
    struct stepped_packet packet; /* the first packet */
    uint32_t peer;
    uint64_t done; /* bytes of the message that have arrived */
};

struct stepped_config {
    struct mbx_device_limits limits; /* all 0: the maximum, and all capabilities */
    unsigned caps;                   /* with limits of 0: only these; 0: all */
    uint64_t tag_mask;               /* as caps */
    uint32_t counter_bits;           /* of the device's counts; 0: 16 */
    uint32_t clashes; /* the device reports that receives share memory if their sizes are
                       * congruent mod this number; 0: none */
};

struct stepped {
    struct mbx_device device;
    struct stepped_config config;
    struct tm_unit unit;
    bool is_configured, is_lost;
    bool has_overflowed;     /* there was no space for an event */
    bool has_refused_revoke; /* there was no space for a revoke */
    bool was_misused;        /* a command was invalid, or exceeded the capabilities */
    uint32_t list, commands, untagged;

    uint32_t queue_first, queue_count;
    uint32_t commands_waiting, syncs_waiting, buffers_waiting;

    uint32_t events_first, events_count, events_max;
    uint32_t shows; /* number of further events that poll may return; UINT32_MAX: all */

    void *memory[STEPPED_BUFFERS];   /* of untagged buffers */
    uint32_t empty[STEPPED_BUFFERS]; /* numbers of the empty ones; a ring */
    uint32_t empty_first, empty_count;

    struct stepped_transfer transfers[STEPPED_LIST];
    struct stepped_wire wires[STEPPED_PEERS];
    uint64_t fins[STEPPED_PEERS]; /* FINs sent to each peer */

    /* optional callbacks for tests */
    void (*on_fin)(void *arg, uint32_t peer, uint32_t message);
    void (*on_arrival)(void *arg, uint32_t peer, uint32_t message); /* for a tagged message */
    void *arg;

    /* the two rings; not cleared */
    struct stepped_queued queue[STEPPED_COMMANDS + STEPPED_BUFFERS]; /* a ring */
    struct mbx_device_event events[STEPPED_EVENTS];                  /* a ring */
};

void stepped_init(struct stepped *stepped, const struct stepped_config *config);
void stepped_fini(struct stepped *stepped);

/* The peer puts a packet on its wire. */
void stepped_send(struct stepped *stepped, uint32_t peer, const struct stepped_packet *packet);

/* The peer puts all packets of a message with these bytes on its wire; packet has the other
 * fields. */
void stepped_send_message(struct stepped *stepped, uint32_t peer,
                          const struct stepped_packet *packet, const unsigned char *bytes);

/* Takes the oldest packet off a wire, for software that continues without the device.  False:
 * there is none. */
bool stepped_take_packet(struct stepped *stepped, uint32_t peer, struct stepped_packet *packet);

/* Each performs one step; false: there is nothing to do. */
bool stepped_command(struct stepped *stepped);
bool stepped_arrive(struct stepped *stepped,
                    uint32_t peer); /* even if the sender is held back */
bool stepped_move(struct stepped *stepped, uint32_t handle);
bool stepped_can_move(const struct stepped *stepped, uint32_t handle);

/* Performs steps until nothing moves. */
void stepped_run(struct stepped *stepped);

/* The device is lost: its last event. */
void stepped_lose(struct stepped *stepped);

bool stepped_is_valid(const struct stepped *stepped);

/* Nothing waits or moves, no entry is in use, every untagged buffer is empty. */
bool stepped_is_idle(const struct stepped *stepped);

#endif
