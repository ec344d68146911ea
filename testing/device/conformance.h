/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance.h - the requirements on every struct mbx_device, as a suite of tests.  Test code.
 *
 *   suite (conformance_*.c)                     target (of a backend)
 *
 *   ops of device.h       ── append, poll, ...──>   the device
 *   conformance_message   ── send() ──────────>     a peer, with a wire to the device
 *                         ── run() ───────────>     all of it works until nothing moves
 *   fins()                <────────────────────     FINs that the peer has received
 *
 * The suite uses a device only through device.h, and assumes nothing about its implementation.
 * A backend writes a target and a main() that returns conformance_run(&target).  Tests are skipped,
 * and report it, if the device lacks a capability (limits.caps), its list is too short,
 * or the target lacks a function.
 *
 * Between two calls of run() a device may work or not; so a target may have a thread or a
 * process, or may be driven step by step.  run() must not poll the device: the suite must
 * find the events.
 */
#ifndef TESTING_CONFORMANCE_H
#define TESTING_CONFORMANCE_H

#include <matchbox/device.h>

#define CONFORMANCE_PEERS 4 /* peers 0 .. 3 send */

enum conformance_kind {
    CONFORMANCE_EAGER,
    CONFORMANCE_SYNC, /* eager, and the sender waits for a FIN */
    CONFORMANCE_RENDEZVOUS,
    CONFORMANCE_UNREADABLE, /* a rendezvous that no device can perform */
    CONFORMANCE_OTHER,      /* not tagged: passed to software */
};

/* A message that a peer sends.  envelope.source is the peer.  The payload must stay in place
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
    unsigned kinds; /* bit 1 << kind: the peers can send such messages */
    uint32_t list;  /* configured size of the list of receives; 0: any */
    bool is_brief;  /* omits tests with 65,536 messages: another run has them */

    /* A device that is not configured yet, with CONFORMANCE_PEERS peers; aborts on failure.
     * close() also closes the device. */
    void *(*open)(struct mbx_device **device);
    void (*close)(void *instance);

    /* The peer sends.  Any number of sends is allowed: its wire has space, or the device makes
     * some.  A message of up to limits.eager_max bytes that is not a rendezvous takes as many
     * packets as needed. */
    void (*send)(void *instance, uint32_t peer, const struct conformance_message *message);

    /* Lets the device, the peers and the wires work until nothing moves.  First called when the
     * device is configured and has its buffers. */
    void (*run)(void *instance);

    /* Reads the packet of an UNEXPECTED event: kind, envelope, size and data of the message;
     * payload is the beginning of its bytes in this packet, NULL if there are none. */
    void (*read)(void *instance, const struct mbx_device_event *event, const void *packet,
                 struct conformance_message *message);

    /* The number of FINs that the peer has received. */
    uint64_t (*fins)(void *instance, uint32_t peer);

    /* Makes the device fail now.  NULL: not possible. */
    void (*lose)(void *instance);
};

/* Runs all tests; returns the number of failures. */
int conformance_run(const struct conformance_target *target);

#endif
