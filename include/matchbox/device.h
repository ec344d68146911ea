/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - what a matching device must do.
 *
 * A device matches in a context of its own: hardware, a thread or a process, with an address
 * space of its own.  Messages of the peers reach it first.  It holds the head of the posted
 * receive queue.  Software holds the tail, and a copy of the whole queue.
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
 *   8  configure, replenish: space for receives and commands, untagged buffers
 *
 * Steps 1, 3 to 6 and replenish are commands.  The device performs them one after the other in
 * the order of the calls, each atomically with respect to arrivals.  To take back several
 * receives, revoke the youngest first: messages arrive in between, and the entries that remain
 * must be the head of the list.
 *
 * State of a device
 *   entries    {handle, envelope, ignore bits, buffer, active}, oldest first
 *   found      the number of tagged messages that it could not match ("unexpected"), mod 2^16
 *   handled    the number of these that software has completely handled, as last reported
 *   The device is in sync when handled == found.
 *
 * Command
 *   1. handled becomes the number that the command carries.
 *   2. append adds an inactive entry; revoke removes one, or fails if it is not in the list.
 *   3. If the device is in sync, every entry becomes active.
 *
 * Arrival of a tagged message, in the sender's order, atomic
 *   The oldest active entry that accepts the message leaves the list: MATCHED.  Otherwise the
 *   whole message goes to an untagged buffer, found grows by 1, and the event is UNEXPECTED.
 *   Without a free buffer nothing happens: the sender is held back.  Messages that are not
 *   tagged (FIN, CTS, data) are PASSED, and not counted.
 *
 * Data
 *   All of it in the packet:  MATCHED with MBX_DEVICE_WHOLE
 *   Several packets:          MATCHED, and DATA_VALID when all that fits is in the buffer
 *   Rendezvous:               MATCHED; the device reads; DATA_VALID; it sends a FIN to the
 *                             sender; FIN_SENT.  It needs no software for any of this.
 *   Rendezvous that the device cannot perform or finish:  MATCHED, and INCOMPLETE with the
 *   bytes read so far.  Software reads the rest, and sends the FIN.
 *
 * Order of events
 *   MATCHED, UNEXPECTED, PASSED and the answers to commands come in the order in which the
 *   device performed these steps.  DATA_VALID, INCOMPLETE and FIN_SENT come after their
 *   MATCHED, and have no other order.
 *
 * Handles are the caller's numbers, below limits.list.  A handle may be used again when the last
 * event that can name it has been polled.  This event is REVOKED with error 0, MATCHED with
 * MBX_DEVICE_WHOLE if no FIN is wanted, FIN_SENT if a FIN is wanted and DATA_VALID otherwise, or
 * INCOMPLETE.
 * If the entry was being revoked, both this event and REVOKED must have been polled.
 *
 * Active entries are always a prefix of the list.  A caller must not report more messages as
 * handled than it has handled.  A message is handled when it has been compared with every
 * receive that was posted before it, in the device or not.  It must also be either kept, or
 * given to a receive whose revoke has been called.  docs/internals/devices.md gives the reason.
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
    MBX_DEVICE_ANY_SOURCE = 1 << 1, /* receives from any source */
    MBX_DEVICE_RENDEZVOUS = 1 << 2, /* reads the sender's memory and sends the FIN */
    MBX_DEVICE_TRUNCATES = 1 << 3,  /* a message that is longer than the buffer is truncated;
                                       without this, hand over only receives with space for
                                       limits.eager_max */
    MBX_DEVICE_HOLDS = 1 << 4,      /* can hold unexpected messages: hold, unhold */
    MBX_DEVICE_READS_PART = 1 << 5, /* if a rendezvous is longer than the buffer, reads as much
                                       as fits; without this, the event is INCOMPLETE */
    MBX_DEVICE_NARROW = 1 << 6,     /* a message whose envelope needs more bits than the device
                                       compares does not pass through it: hand over no receive
                                       that accepts such a message */
};

/* The limits of a device.  The first three are the most that configure may ask for. */
struct mbx_device_limits {
    uint32_t list;                      /* receives that it holds at a time */
    uint32_t commands;                  /* commands that may wait for it */
    uint32_t untagged;                  /* buffers for unexpected messages */
    uint32_t untagged_min;              /* the fewest such buffers; configure refuses fewer */
    uint32_t context_bits, source_bits; /* how many low bits of each it compares */
    uint64_t tag_mask;                  /* the bits of a tag that it compares */
    uint32_t context_id;  /* the bits above context_bits of the context ids that it matches */
    size_t untagged_size; /* bytes that every untagged buffer must have */
    size_t eager_max;     /* the longest message that comes without rendezvous */
    unsigned caps;        /* enum mbx_device_caps */
};

/* The envelope of a receive or of a message. */
struct mbx_device_envelope {
    uint32_t context_id;
    uint32_t source; /* of a receive also MBX_DEVICE_ANY_SOURCE_ID: any source */
    uint64_t tag;
};

/* A receive that software hands to a device. */
struct mbx_device_recv {
    uint32_t handle;
    struct mbx_device_envelope envelope;
    uint64_t ignore; /* 1: this bit of the tag is not compared */
    void *buf;
    size_t size;
    uint64_t region; /* how the device reaches buf, as agreed with the code that opened it; 0:
                        the device finds a way itself */
};

/* The types of events. */
enum mbx_device_event_type {
    MBX_DEVICE_MATCHED = 1, /* handle has matched the message with this envelope, size, data */
    MBX_DEVICE_DATA_VALID,  /* handle: all that fits is in the buffer, or error says why not */
    MBX_DEVICE_INCOMPLETE,  /* handle: done bytes are in the buffer, software reads the rest;
                               error -EPROTO: it cannot, because the sender's description of
                               the message is invalid */
    MBX_DEVICE_FIN_SENT,    /* handle: the sender has got its FIN */
    MBX_DEVICE_UNEXPECTED,  /* buffer, bytes: a tagged packet that matched no entry; counted */
    MBX_DEVICE_PASSED,      /* buffer, bytes: any other packet; not counted */
    MBX_DEVICE_REVOKED,     /* handle: error 0, or -ENOENT: it had matched before */
    MBX_DEVICE_UNHELD,      /* handle: error 0, or -ENOENT: it had matched before */
    MBX_DEVICE_LOST,        /* the last event: the device is gone */
};

/* The flags of an event. */
enum mbx_device_event_flags {
    MBX_DEVICE_WHOLE = 1 << 0,      /* MATCHED: the data is in the buffer */
    MBX_DEVICE_WANTS_FIN = 1 << 1,  /* MATCHED: the sender waits for a FIN, and FIN_SENT or
                                       INCOMPLETE follows; not set by a device that does not
                                       know when it has sent one */
    MBX_DEVICE_BY_RNDV = 1 << 2,    /* MATCHED: a rendezvous */
    MBX_DEVICE_HELD = 1 << 3,       /* MATCHED: a message that software gave to hold; message
                                       is its number */
    MBX_DEVICE_SIZE_LATER = 1 << 4, /* MATCHED of a rendezvous: DATA_VALID or INCOMPLETE gives
                                       size, data, sender, address and key */
};

/* An event of a device. */
struct mbx_device_event {
    uint8_t type; /* enum mbx_device_event_type */
    uint8_t flags;
    uint32_t handle;
    int32_t error;
    uint32_t buffer;  /* UNEXPECTED, PASSED: the number of the buffer */
    uint32_t peer;    /* UNEXPECTED, PASSED: the sender; MATCHED of an adapter: the peer
                         of the link, whatever the envelope says */
    uint32_t message; /* HELD: its number */
    uint64_t bytes;   /* UNEXPECTED, PASSED: of the packet; MATCHED: that came with the
                         envelope, also if they do not fit */
    struct mbx_device_envelope envelope; /* MATCHED: of the message */
    uint64_t size; /* MATCHED (or see SIZE_LATER): of the message, also if it does not fit */
    uint64_t data; /* MATCHED: the sender's options.data */
    uint64_t done; /* MATCHED, DATA_VALID, INCOMPLETE: bytes in the buffer */
    uint64_t sender, address, key; /* MATCHED: the sender's request; of a rendezvous, the place
                                      of the data */
    uint64_t mark;                 /* of the packet; for the driver only */
};

struct mbx_device;

/* The functions of a device. */
struct mbx_device_ops {
    const char *name;
    const char *about; /* one line for `mbx info` */

    void (*close)(struct mbx_device *device);
    void (*limits)(const struct mbx_device *device, struct mbx_device_limits *limits);

    /* Makes space for so many receives, commands and untagged buffers; the first call.
     * 0; -EINVAL more than limits, or fewer buffers than untagged_min; -ENOMEM. */
    int (*configure)(struct mbx_device *device, uint32_t list, uint32_t commands,
                     uint32_t untagged);

    /* Untagged buffers will lie in these bytes, so that a device which registers memory does so
     * once, and not for each buffer.  A buffer may lie elsewhere.  Optional (NULL); called at
     * most once, after configure and before replenish.  The memory stays until close. */
    void (*prepare)(struct mbx_device *device, void *memory, size_t size);

    /* Gives untagged buffer number `buffer` (below untagged), of limits.untagged_size bytes:
     * at first, and again after each event that named it.  0; -EAGAIN no space now. */
    int (*replenish)(struct mbx_device *device, uint32_t buffer, void *memory);

    /* handled, here and in the calls below: how many unexpected messages have been handled,
     * mod 2^16.  Each of these calls returns 0; -EAGAIN no space for a command, and nothing
     * happened; -ENODEV the device is gone.
     *
     * append also returns -ENOSPC: the list is full; -EBUSY: an entry has a buffer that
     * overlaps this one, the device cannot hold both, and nothing happened. */
    int (*append)(struct mbx_device *device, const struct mbx_device_recv *recv,
                  uint16_t handled);
    int (*revoke)(struct mbx_device *device, uint32_t handle, uint16_t handled);
    /* sync also returns -EAGAIN while an earlier sync waits: syncs take at most one of the
     * places for commands. */
    int (*sync)(struct mbx_device *device, uint16_t handled);
    /* message is the caller's number for the message, below list.  It may be used again when
     * UNHELD, or MATCHED with HELD, has been polled.  An entry that becomes active first takes
     * the oldest held message that it accepts, in the order of these commands.  Only then can it
     * take a message that arrives. */
    int (*hold)(struct mbx_device *device, uint32_t message,
                const struct mbx_device_envelope *envelope, uint16_t handled);
    int (*unhold)(struct mbx_device *device, uint32_t message, uint16_t handled);

    /* Copies out up to count events and returns how many.  Never waits. */
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
    bool is_available; /* it can be used on this machine now */
    char detail[160];  /* one line: which ones there are, or why there is none */
};

/*
 * mbx_device_get - backend number index (0, 1, ...) of this library.
 *
 * For hardware, the call opens each device of the machine and asks for its capabilities.
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
