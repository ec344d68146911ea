/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - the memory that an application and its software device share.
 *
 *   | control | command ring  ──────────>  |  event ring  <────────── |
 *               application writes            device writes
 *
 * They share nothing else: the device reaches every other byte of the application by its
 * address, as over a bus.  In one process the addresses are pointers; a device in another
 * process copies across.
 *
 * Neither side trusts the other's records more than it must: the rings check their frames, a
 * record of the wrong size is refused, and the users of a record check its contents.
 *
 * Sleeping: a side that is about to sleep sets its flag, looks at its ring once more, and then
 * sleeps in its transport; a side that has written a record looks at the other's flag after a
 * full fence.
 */
#ifndef DEVICE_SOFT_CHANNEL_H
#define DEVICE_SOFT_CHANNEL_H

#include <matchbox/device.h>

#include "base/ring.h"
#include "device/soft/tm_unit.h"
#include "transport/handoff.h"
#include "transport/transport.h"
#include "transport/version.h"

/* Commands from software to its device. */
enum channel_command_type {
    CHANNEL_TM = 1, /* unit: a command of device.h */
    CHANNEL_BUFFER, /* number, address: an untagged buffer */
    CHANNEL_PEER,   /* question, number: answers CHANNEL_ASK */
    CHANNEL_REFUSE, /* question, error: answers CHANNEL_ASK; the peer is refused */
};

struct channel_command {
    uint32_t frame; /* the ring's */
    uint8_t type;   /* enum channel_command_type */
    uint8_t zero[3];
    union {
        struct tm_command unit;
        struct {
            uint32_t number, question;
            int32_t error;
            uint64_t address;
        };
    };
};

static_assert(sizeof(struct channel_command) <= RING_CELL_SIZE, "a command is a line");

enum channel_event_type {
    CHANNEL_EVENT = 1, /* event */
    CHANNEL_ASK,       /* question, address: what is the number of this peer? */
    CHANNEL_LEFT,      /* the device has stopped receiving, because channel.wanted was 0 */
};

struct channel_event {
    uint32_t frame;
    uint8_t type; /* enum channel_event_type */
    uint8_t zero[3];
    union {
        struct mbx_device_event event;
        struct {
            uint32_t question; /* a number that comes back with the answer */
            struct transport_address address;
        };
    };
};

#define CHANNEL_EVENT_CELLS                                                                    \
    ((sizeof(struct channel_event) + RING_CELL_SIZE - 1) / RING_CELL_SIZE)

/* Questions that may be unanswered at a time: both rings have space for them. */
#define CHANNEL_QUESTIONS 64

enum channel_state {
    CHANNEL_STARTING,
    CHANNEL_ANSWERED, /* the program has understood the channel */
    CHANNEL_RUNNING,
    CHANNEL_FAILED,
    CHANNEL_ENDED
};

struct channel {
    struct version version; /* of the application; at this place in all versions */
    /* the device writes the rest of this line */
    _Atomic uint32_t state; /* enum channel_state */
    _Atomic int32_t error;  /* with FAILED */
    _Atomic uint32_t device_sleeps;
    _Atomic uint64_t begun;     /* packets that were begun: agent_begin() */
    _Atomic uint64_t performed; /* commands */
    _Atomic uint64_t idle;      /* rounds in which a device elsewhere found nothing to do */

    /* software writes this line */
    alignas(CACHE_LINE) _Atomic uint32_t software_sleeps;
    _Atomic uint32_t stop;   /* the device is to end */
    _Atomic uint32_t bell;   /* a device that is held back sleeps until this changes */
    _Atomic uint32_t wanted; /* the device is to receive instead of the transport */

    /* software writes these before the device starts */
    alignas(CACHE_LINE) uint32_t list;
    uint32_t commands, untagged;
    uint32_t command_cells, event_cells;
    uint64_t read_chunk, spin_ns;
    uint64_t check_ns; /* between two checks of senders that owe fragments */
    uint64_t seed;
    /* for a device in a process of its own */
    uint32_t layout;    /* CHANNEL_LAYOUT: the same if both sides agree */
    uint32_t pid;       /* of the application */
    uint64_t self;      /* this channel, as the application sees it */
    uint64_t probe;     /* the device writes it by its address, to test its permission */
    uint64_t ring_size; /* settings.shm.ring_size of the application */
    bool attach;        /* settings.shm.attach of the application */
    struct transport_handle handle;
    uint8_t key[TRANSPORT_KEY_SIZE];
    alignas(CACHE_LINE) unsigned char rings[];
};

/* Changes with everything that the two sides must agree on. */
#define CHANNEL_LAYOUT                                                                         \
    ((uint32_t)(sizeof(struct channel) << 20 | sizeof(struct channel_command) << 10 |          \
                sizeof(struct channel_event)) +                                                \
     CHANNEL_VERSION)
#define CHANNEL_VERSION 7u

/* Cells of the two rings for this many commands or receives, and buffers; 0 if these are too
 * many. */
uint32_t channel_command_cells(uint32_t commands, uint32_t untagged);
uint32_t channel_event_cells(uint32_t list, uint32_t untagged);

/* Bytes of a channel. */
size_t channel_bytes(uint32_t list, uint32_t commands, uint32_t untagged);

/* Creates a zero-filled channel that can be shared with another process.  0 or the system's
 * error. channel_destroy() undoes it. */
int channel_create(size_t size, int *fd, struct channel **channel);
/* Maps the channel of an inherited descriptor.  0; -EPROTO it is no channel; -EPROTONOSUPPORT
 * it is of another version of the library, which the log names. */
int channel_attach(int fd, size_t *size, struct channel **channel);
void channel_destroy(struct channel *channel, size_t size, int fd);

/* Writes into zero-filled memory what the device has to know. */
void channel_init(struct channel *channel, uint32_t list, uint32_t commands, uint32_t untagged);

/* Sets the device's new state; error comes with FAILED. */
void channel_say(struct channel *channel, enum channel_state state, int error);

static inline struct ring *channel_commands(struct channel *channel)
{
    return (struct ring *)(void *)channel->rings;
}

static inline struct ring *channel_events(struct channel *channel)
{
    return (struct ring *)(void *)(channel->rings + ring_bytes(channel->command_cells));
}

/* Does the other side sleep?  Called after writing a record that it must see. */
static inline bool channel_sleeps(_Atomic uint32_t *flag)
{
    /* pairs with the fence of channel_lie_down() */
    __sync_synchronize(); /* a fence that the thread checkers let pass */
    return atomic_load_explicit(flag, memory_order_relaxed) != 0;
}

/* Called before the last look at the ring. */
static inline void channel_lie_down(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 1, memory_order_relaxed);
    __sync_synchronize(); /* a fence that the thread checkers let pass */
}

static inline void channel_get_up(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 0, memory_order_relaxed);
}

#endif
