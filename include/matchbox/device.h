/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - what a matching device must do.
 *
 * A device is another context that matches: hardware, a thread or a process, with an address
 * space of its own.  Messages of the peers reach it first.  It holds the head of the posted
 * receive queue; software holds the tail, and a shadow of the whole.
 *
 *        software                                        device
 *
 *   1  append      a posted receive    ──── ADD ───>   entry, inactive until in sync
 *   2              unexpected message  <────────────   UNEXPECTED, in an untagged buffer
 *   3  hold        unexpected message  ────────────>   (MBX_DEVICE_HOLDS)
 *   4  revoke      one receive         ──── DEL ───>   REVOKED: 0, or "already consumed"
 *   5  unhold      unexpected message  ────────────>   UNHELD (MBX_DEVICE_HOLDS)
 *   6  sync        "so many handled"   ──── SYNC ──>
 *   7  poll                            <────────────   MATCHED, DATA_VALID, ...
 *   8  configure, replenish: room for receives and commands, untagged buffers
 *
 * 1, 3 to 6 and replenish are commands: the device performs them one after the other in
 * the order of the calls, each atomically with respect to arrivals.  To take back several
 * receives, revoke the youngest first: messages arrive in between, and what is left must be
 * the head of the list.
 *
 * State of a device
 *   entries    {handle, envelope, ignore bits, buffer, active}, oldest first
 *   found      how many tagged messages it could not match ("unexpected"), mod 2^16
 *   handled    how many of these software has completely handled, as last reported
 *   It is in sync when handled == found.
 *
 * Command
 *   1. handled becomes what the command carries;
 *   2. append adds an inactive entry; revoke removes one, or fails if it is not there;
 *   3. if in sync, every entry becomes active.
 *
 * Arrival of a tagged message, in the sender's order, atomic
 *   The oldest active entry that accepts it leaves the list: MATCHED.  Otherwise the whole
 *   message goes to an untagged buffer, found grows, UNEXPECTED.  Without a buffer nothing
 *   happens: the sender is held back.  Messages that are not tagged (FIN, CTS, data) are
 *   PASSED, and not counted.
 *
 * Data
 *   Whole with the message:  MATCHED with MBX_DEVICE_WHOLE
 *   Longer:                  MATCHED, and DATA_VALID when all that fits is in the buffer
 *   Rendezvous:              MATCHED, the device reads, DATA_VALID, and it tells the sender
 *                            (FIN): FIN_SENT.  Software is not needed for any of it.
 *   Rendezvous that the device cannot do, or not any more: MATCHED, and INCOMPLETE with how
 *   far it came; software goes on from there, and tells the sender.
 *
 * Order of events
 *   MATCHED, UNEXPECTED, PASSED and the answers to commands come in the order in which the
 *   device did these things.  DATA_VALID, INCOMPLETE and FIN_SENT come behind their MATCHED,
 *   and in no order else.
 *
 * Handles are the caller's numbers, below limits.list.  One may be used again when the last
 * event that can name it has been polled: REVOKED (error 0); MATCHED with MBX_DEVICE_WHOLE
 * and no FIN wanted; DATA_VALID without, FIN_SENT with a FIN wanted; INCOMPLETE.  If it was
 * being revoked, both that event and REVOKED.
 *
 * Active entries are always a prefix of the list.  A caller must not report more messages as
 * handled than it has handled, and handled means: compared with every receive that was posted
 * before, handed over or not, and either kept, or given to a receive whose revoke has been
 * called.  docs/internals/devices.md tells why.
 *
 * Errors     0 or a count is success; errors are negative errno values.
 * Threads    one at a time per device.
 * Memory     buffers given with append belong to the device until the handle may be used
 *            again; untagged buffers from replenish until the event that names them.
 */
#ifndef MATCHBOX_DEVICE_H
#define MATCHBOX_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MBX_DEVICE_API __attribute__((visibility("default")))
#else
#define MBX_DEVICE_API
#endif

#define MBX_DEVICE_ANY_SOURCE_ID UINT32_MAX

/* The abilities of a device. */
enum mbx_device_caps {
    MBX_DEVICE_MASKS = 1 << 0,      /* any ignore bits; without it only none, or all */
    MBX_DEVICE_ANY_SOURCE = 1 << 1, /* receives from anybody */
    MBX_DEVICE_RENDEZVOUS = 1 << 2, /* reads the sender's memory and tells it */
    MBX_DEVICE_TRUNCATES = 1 << 3,  /* a message that is longer than the buffer does no harm;
                                       without it hand over only receives that hold
                                       limits.eager_max */
    MBX_DEVICE_HOLDS = 1 << 4,      /* can hold unexpected messages: hold, unhold */
    MBX_DEVICE_READS_PART = 1 << 5, /* reads what fits of a rendezvous that is longer than the
                                       buffer; without it that is INCOMPLETE */
    MBX_DEVICE_NARROW = 1 << 6,     /* messages that its bits cannot tell apart come past it: no
                                       receive that accepts one may be handed over */
};

/* What a device has.  The first three are what configure may ask for, at most. */
struct mbx_device_limits {
    uint32_t list;                      /* receives that it holds at a time */
    uint32_t commands;                  /* that may wait for it */
    uint32_t untagged;                  /* buffers for unexpected messages */
    uint32_t untagged_min;              /* that it must have; configure refuses fewer */
    uint32_t context_bits, source_bits; /* of an envelope that it can tell apart */
    uint64_t tag_mask;                  /* likewise: the bits of a tag that it compares */
    uint32_t context_id;  /* above context_bits, the bits of those context ids that it knows */
    size_t untagged_size; /* bytes that every untagged buffer must have */
    size_t eager_max;     /* the longest message that comes without rendezvous */
    unsigned caps;        /* enum mbx_device_caps */
};

/* The envelope of a receive or of a message. */
struct mbx_device_envelope {
    uint32_t context_id;
    uint32_t source; /* MBX_DEVICE_ANY_SOURCE_ID: anybody, of a receive */
    uint64_t tag;
};

/* A receive that software hands to a device. */
struct mbx_device_recv {
    uint32_t handle;
    struct mbx_device_envelope envelope;
    uint64_t ignore; /* 1 = tag bit not compared */
    void *buf;
    size_t size;
    uint64_t region; /* how the device reaches buf, as whoever opened it has arranged; 0: the
                        device finds a way itself */
};

/* The types of events. */
enum mbx_device_event_type {
    MBX_DEVICE_MATCHED = 1, /* handle has met the message of this envelope, size and data */
    MBX_DEVICE_DATA_VALID,  /* handle: all that fits is in the buffer; error if not */
    MBX_DEVICE_INCOMPLETE,  /* handle: done bytes are in the buffer, software does the rest;
                               error -EPROTO: nobody can, what the sender says of the message
                               makes no sense */
    MBX_DEVICE_FIN_SENT,    /* handle: the sender has been told */
    MBX_DEVICE_UNEXPECTED,  /* buffer, bytes: a tagged packet that met no entry; counted */
    MBX_DEVICE_PASSED,      /* buffer, bytes: any other packet; not counted */
    MBX_DEVICE_REVOKED,     /* handle: error 0, or -ENOENT: it has been consumed before */
    MBX_DEVICE_UNHELD,      /* handle: error 0, or -ENOENT: it was matched before */
    MBX_DEVICE_LOST,        /* the last event: the device is gone */
};

/* The flags of an event. */
enum mbx_device_event_flags {
    MBX_DEVICE_WHOLE = 1 << 0,      /* MATCHED: the data is in the buffer */
    MBX_DEVICE_WANTS_FIN = 1 << 1,  /* MATCHED: the sender waits for a FIN, and FIN_SENT or
                                       INCOMPLETE tells of it; a device that does not know when
                                       it has sent one leaves this out */
    MBX_DEVICE_BY_RNDV = 1 << 2,    /* MATCHED: a rendezvous */
    MBX_DEVICE_HELD = 1 << 3,       /* MATCHED: a message that software had given to hold, its
                                       handle in message */
    MBX_DEVICE_SIZE_LATER = 1 << 4, /* MATCHED: size, sender, address and key, and data of a
                                       rendezvous, are told by DATA_VALID or INCOMPLETE */
};

/* An event of a device. */
struct mbx_device_event {
    uint8_t type; /* enum mbx_device_event_type */
    uint8_t flags;
    uint32_t handle;
    int32_t error;
    uint32_t buffer;  /* UNEXPECTED, PASSED: the number of the buffer */
    uint32_t peer;    /* UNEXPECTED, PASSED: from whom; MATCHED of an adapter:
                                            by whose link, whatever its envelope says */
    uint32_t message; /* HELD */
    uint64_t bytes;   /* UNEXPECTED, PASSED: of the packet; MATCHED: of the
                                            message that came with the envelope, fit or not */
    struct mbx_device_envelope envelope; /* MATCHED: of the message */
    uint64_t size; /* MATCHED, or as SIZE_LATER says: of the message, whether it fits or not */
    uint64_t data; /* MATCHED: what travelled with the envelope */
    uint64_t done; /* MATCHED, DATA_VALID, INCOMPLETE: bytes in the buffer */
    uint64_t sender, address, key; /* MATCHED: the sender's request; where a rendezvous
                                      finds the data */
    uint64_t mark;                 /* of the packet; the driver's own */
};

struct mbx_device;

/* The functions of a device. */
struct mbx_device_ops {
    const char *name;
    const char *about; /* one line for `mbx info` */

    void (*close)(struct mbx_device *device);
    void (*limits)(const struct mbx_device *device, struct mbx_device_limits *limits);

    /* Sets room for so many receives, commands and untagged buffers; before anything else.
     * 0; -EINVAL more than limits, or fewer buffers; -ENOMEM. */
    int (*configure)(struct mbx_device *device, uint32_t list, uint32_t commands,
                     uint32_t untagged);

    /* Untagged buffers will lie in these bytes: a device that must prepare memory (register it) does so once, and not
     * for each buffer.  Optional (NULL); after configure, before replenish, at most once.  A buffer may lie elsewhere.
     * The memory stays until close. */
    void (*prepare)(struct mbx_device *device, void *memory, size_t size);

    /* Gives untagged buffer number `buffer` (below untagged), of limits.untagged_size bytes;
     * the first time and after each event that named it.  0; -EAGAIN no room now. */
    int (*replenish)(struct mbx_device *device, uint32_t buffer, void *memory);

    /* Each of these carries how many unexpected messages have been handled, mod 2^16.
     * 0; -EAGAIN no room for a command, nothing happened; -ENODEV the device is gone. */
    /* Also -ENOSPC: the list is full; -EBUSY: it holds one with memory of this one's, does not take both at a time, and
     * nothing happened. */
    int (*append)(struct mbx_device *device, const struct mbx_device_recv *recv,
                  uint16_t handled);
    int (*revoke)(struct mbx_device *device, uint32_t handle, uint16_t handled);
    /* Also -EAGAIN while an earlier sync waits: of the room for commands, syncs take one place at most. */
    int (*sync)(struct mbx_device *device, uint16_t handled);
    /* message: the caller's number for it, below list; it may be used again when UNHELD, or MATCHED with HELD, has been
     * polled.  The message is held from then on: an entry that becomes active meets the oldest one that it
     * accepts, in the order of these commands, before it can meet any that arrives. */
    int (*hold)(struct mbx_device *device, uint32_t message,
                const struct mbx_device_envelope *envelope, uint16_t handled);
    int (*unhold)(struct mbx_device *device, uint32_t message, uint16_t handled);

    /* Copies out up to count events; how many.  Never waits, also not for command room. */
    int (*poll)(struct mbx_device *device, struct mbx_device_event *events, int count);
};

/* A device. */
struct mbx_device {
    const struct mbx_device_ops *ops;
};

/* A backend of this library. */
struct mbx_device_info {
    const char *name;
    const char *about; /* one line: what it is */
    bool is_available; /* it can be used here and now */
    char detail[160];  /* one line: which there are, or why there is none */
};

/*
 * mbx_device_get - backend number index (0, 1, ...) of this library.
 *
 * Looks at the machine: for hardware each device is opened and asked what it can do.
 *
 * Units      size is sizeof *info, which may grow (matchbox.h, Versions).
 * Returns    0; -ENOENT no more; -EINVAL size.
 * Threads    any.
 * Source     src/lib/devices.c
 */
MBX_DEVICE_API int mbx_device_get(unsigned index, struct mbx_device_info *info, size_t size);

#ifdef __cplusplus
}
#endif
#endif
