/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance.h - what every struct mbx_device must do, as a suite of tests.  Test code.
 *
 *   suite (conformance_*.c)                     target (of a backend)
 *
 *   ops of device.h       ── append, poll, ...──>   the device
 *   conformance_message   ── send() ──────────>     a peer, with a wire to the device
 *                         ── run() ───────────>     all of it works until nothing moves
 *   fins()                <────────────────────     FINs that the peer has received
 *
 * The suite knows a device by device.h alone, and says nothing about how it is made.  A
 * backend writes a target and a main() that returns conformance_run(&target).  What a device
 * cannot do (limits.caps), what a list is too short for, and what a target has no function
 * for, is skipped, and the test says so.
 *
 * Between two calls of run() a device may work or not, as it likes; so a target with a
 * thread or a process behind it fits as well as one that is worked by stepped.  run() must not
 * poll the device: what happened has to be found by the suite.
 */
#ifndef TESTING_CONFORMANCE_H
#define TESTING_CONFORMANCE_H

#include <matchbox/device.h>

#define CONFORMANCE_PEERS 4 /* 0 .. 3 send */

enum conformance_kind {
    CONFORMANCE_EAGER,
    CONFORMANCE_SYNC, /* eager, and the sender waits for a FIN */
    CONFORMANCE_RENDEZVOUS,
    CONFORMANCE_UNREADABLE, /* a rendezvous that a device which can do them cannot do */
    CONFORMANCE_OTHER,      /* not tagged: passed */
};

/* A message that a peer sends.  envelope.source is the peer.  The payload stays where it is
 * until the instance is closed. */
struct conformance_message {
    enum conformance_kind kind;
    struct mbx_device_envelope envelope;
    const void *payload;
    size_t size;
    uint64_t data;
};

struct conformance_target {
    const char *name;
    unsigned kinds; /* bit 1 << kind: its peers can send such messages */
    uint32_t list;  /* receives that the device is configured for; 0: some */
    bool is_brief;  /* without what takes 65,536 messages: another run has it */

    /* A device that is not configured yet, with CONFORMANCE_PEERS peers; aborts if that
     * cannot be.  close() closes the device, too. */
    void *(*open)(struct mbx_device **device);
    void (*close)(void *instance);

    /* The peer sends; as many as one likes, its wire has space, or the device makes some.  A
     * message of up to limits.eager_max bytes that is no rendezvous goes in as many packets
     * as it takes. */
    void (*send)(void *instance, uint32_t peer, const struct conformance_message *message);

    /* Lets the device, the peers and what is between them work until nothing moves.  Called
     * for the first time when the device is configured and has its buffers. */
    void (*run)(void *instance);

    /* What the packet of an UNEXPECTED event says: kind, envelope, size and data of the
     * message; payload is where its bytes begin in this packet, NULL if they are not there. */
    void (*read)(void *instance, const struct mbx_device_event *event, const void *packet,
                 struct conformance_message *message);

    /* How many FINs the peer has received. */
    uint64_t (*fins)(void *instance, uint32_t peer);

    /* The device is lost now.  NULL: it cannot be. */
    void (*lose)(void *instance);
};

/* Runs all tests; the number of those that failed. */
int conformance_run(const struct conformance_target *target);

#endif
