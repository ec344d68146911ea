/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - the memory that an application and its software device share.
 *
 *   | control | command ring  ──────────>  |  event ring  <────────── |
 *               application writes            device writes
 *
 * It is all that they share: every other byte of the application the device reaches by its
 * address, as it would over a bus.  In one process the addresses are pointers; a device that
 * is another process copies across.
 *
 * Neither side trusts the other's records further than it must: the rings check their frames,
 * a record of the wrong size is refused, and what it says is checked by those who use it.
 *
 * Sleeping: who is about to sleep sets its flag, looks once more, and then sleeps in its
 * transport; who has written a record looks at the other's flag behind a full fence.
 */
#ifndef PORT_REGION_H
#define PORT_REGION_H

#include <matchbox/device.h>

#include "base/ring.h"
#include "softdev/tm_unit.h"
#include "transport/handoff.h"
#include "transport/transport.h"

/* What software tells its device. */
enum port_command_type {
    PORT_SOFT = 1, /* soft: a command of device.h */
    PORT_BUFFER,   /* number, address: an untagged buffer */
    PORT_PEER,     /* question, number: the answer to PORT_ASK */
    PORT_REFUSE,   /* question, error: the other answer */
};

struct port_command {
    uint32_t frame; /* the ring's */
    uint8_t type;   /* enum port_command_type */
    uint8_t zero[3];
    union {
        struct soft_command soft;
        struct {
            uint32_t number, question;
            int32_t error;
            uint64_t address;
        };
    };
};

static_assert(sizeof(struct port_command) <= RING_CELL_SIZE, "a command is a line");

enum port_event_type {
    PORT_EVENT = 1, /* event */
    PORT_ASK,       /* question, address: which number has this peer? */
    PORT_LEFT,      /* the device does not receive any more: region.wanted was 0 */
};

struct port_event {
    uint32_t frame;
    uint8_t type; /* enum port_event_type */
    uint8_t zero[3];
    union {
        struct mbx_device_event event;
        struct {
            uint32_t question; /* a number that comes back with the answer */
            struct transport_address address;
        };
    };
};

#define PORT_EVENT_CELLS ((sizeof(struct port_event) + RING_CELL_SIZE - 1) / RING_CELL_SIZE)

/* Questions that may wait for their answers: there is room for them in both rings. */
#define PORT_QUESTIONS 64

enum region_state {
    REGION_STARTING,
    REGION_ANSWERED, /* by a program that knows what a region is */
    REGION_RUNNING,
    REGION_FAILED,
    REGION_ENDED
};

struct region {
    /* the device writes this line */
    alignas(CACHE_LINE) _Atomic uint32_t state; /* enum region_state */
    _Atomic int32_t error;                      /* of FAILED */
    _Atomic uint32_t device_sleeps;
    _Atomic uint64_t begun;     /* packets that were begun, port_begin() */
    _Atomic uint64_t performed; /* commands */
    _Atomic uint64_t idle;      /* rounds in which it, elsewhere, found nothing to do */

    /* software writes this line */
    alignas(CACHE_LINE) _Atomic uint32_t software_sleeps;
    _Atomic uint32_t stop;   /* the device is to end */
    _Atomic uint32_t bell;   /* counts what a device that is held back sleeps for */
    _Atomic uint32_t wanted; /* it is to receive in the transport's place */

    /* and these before there is a device */
    alignas(CACHE_LINE) uint32_t list;
    uint32_t untagged;
    uint32_t command_cells, event_cells;
    uint64_t read_chunk, spin_ns;
    uint64_t look_ns; /* between two looks whether those who owe fragments are there */
    uint64_t seed;
    /* for a device in a process of its own */
    uint32_t layout; /* REGION_LAYOUT: both sides are of one build */
    uint32_t pid;    /* of the application */
    uint64_t self;   /* this region, as the application sees it */
    uint64_t probe;  /* the device writes it there, to see whether it may */
    bool attach;
    struct transport_handle handle;
    uint8_t key[TRANSPORT_KEY_SIZE];
    alignas(CACHE_LINE) unsigned char rings[];
};

/* Changes with everything that the two sides have to agree on. */
#define REGION_LAYOUT                                                                          \
    ((uint32_t)(sizeof(struct region) << 20 | sizeof(struct port_command) << 10 |              \
                sizeof(struct port_event)) +                                                   \
     REGION_VERSION)
#define REGION_VERSION 4u

/* Cells of the two rings for so many receives and buffers; 0 if they are too many. */
uint32_t region_command_cells(uint32_t list, uint32_t untagged);
uint32_t region_event_cells(uint32_t list, uint32_t untagged);

/* Bytes of a region. */
size_t region_bytes(uint32_t list, uint32_t untagged);

/* A region that can be shared with another process, zero-filled.  0 or the system's error.
 * Undone by region_destroy(). */
int region_create(size_t size, int *fd, struct region **region);
/* The region behind a descriptor that was inherited.  0; -EPROTO it is none. */
int region_attach(int fd, size_t *size, struct region **region);
void region_destroy(struct region *region, size_t size, int fd);

/* Writes what the device has to know into zero-filled memory. */
void region_init(struct region *region, uint32_t list, uint32_t untagged);

/* The device's new state; error is of FAILED. */
void region_say(struct region *region, enum region_state state, int error);

static inline struct ring *region_commands(struct region *region)
{
    return (struct ring *)(void *)region->rings;
}

static inline struct ring *region_events(struct region *region)
{
    return (struct ring *)(void *)(region->rings + ring_bytes(region->command_cells));
}

/* Does the other side sleep?  To be asked behind a record that it ought to see. */
static inline bool region_sleeps(_Atomic uint32_t *flag)
{
    /* pairs with the fence of region_lie_down() */
    __sync_synchronize(); /* a fence that the thread checkers let pass */
    return atomic_load_explicit(flag, memory_order_relaxed) != 0;
}

/* Before the last look at the ring. */
static inline void region_lie_down(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 1, memory_order_relaxed);
    __sync_synchronize(); /* a fence that the thread checkers let pass */
}

static inline void region_get_up(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 0, memory_order_relaxed);
}

#endif
