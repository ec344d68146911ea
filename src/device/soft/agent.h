/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - the software device at work, between a transport and an application.
 *
 *              transport                                   channel
 *   peers ───> agent_deliver ──> tm_match ─┬─> data ────> application's buffer
 *                                           ├─> MATCHED ─> event ring
 *                                           └─> UNEXPECTED, in an untagged buffer
 *              agent_run  <─── command ring
 *                   └─> moves the rest of matched messages, sends FIN
 *
 * The agent runs where its driver puts it: in the application's progress loop, on a thread, or
 * in a process that shares only the channel with the application (agent.memory then copies
 * across processes).
 *
 * A sender that owes fragments may die silently: while fragments are owed, the agent checks
 * their senders every check_ns.  When a sender is gone at two checks in a row, all that it had
 * sent has been delivered, and the receive ends: DATA_VALID, -ENOTCONN.  A rendezvous needs no
 * check: its read fails.
 *
 * Invariants
 *   P1  an event is written after the action that it reports: data before MATCHED with WHOLE
 *       and before DATA_VALID, these events before the FIN, and the FIN before FIN_SENT
 *   P2  a packet is taken (agent_deliver returns 0) after its events were written, or not at
 *       all
 *   P3  an entry is on moving while the device reads for it; on owing while its FIN has not
 *       left; it is the entry of an assembly while fragments are to come; at most one of these
 *   P4  assembling is the number of assemblies with an entry
 */
#ifndef DEVICE_SOFT_AGENT_H
#define DEVICE_SOFT_AGENT_H

#include "device/soft/channel.h"

/* How the device reaches the application's memory. */
struct agent_memory {
    /* Writes to the application's memory; 0 or an error. */
    int (*write)(void *arg, uint64_t to, const void *from, size_t size);
    /* Can the transport read directly into the application's memory? */
    bool is_ours;
    void *arg;
};

struct agent_config {
    struct channel *channel;
    /* The link to a peer, or NULL. */
    struct link *(*link)(void *arg, uint32_t peer);
    /* The answer to agent_ask(); NULL: the agent asks nothing. */
    void (*answer)(void *arg, uint32_t question, int error, uint32_t peer);
    void *arg;
    struct agent_memory memory;
};

/* The data movement of a matched entry. */
struct agent_move {
    struct list node; /* on moving or owing */
    uint32_t peer;
    uint8_t flags; /* the flags of its MATCHED */
    uint64_t total, done, chunk;
    uint64_t sender, address, key;
};

/* The fragmented eager message of a peer whose receive the device holds. */
struct agent_assembly {
    struct tm_entry *entry; /* NULL: the peer has none */
    uint64_t size, offset;
    bool is_doubted; /* its sender was gone at the last check */
};

/* Glossary: untagged buffer - where the device puts a message that matches no entry */
struct agent_buffer {
    uint32_t number;
    uint64_t address;
};

struct agent {
    struct tm_unit unit;
    struct agent_config config;
    struct ring_consumer commands;
    struct ring_producer events;
    struct agent_move *moves;     /* [list], by handle */
    struct agent_buffer *buffers; /* [untagged]; the free ones are the first */
    uint32_t buffer_count;
    struct agent_assembly *assemblies; /* by peer */
    uint32_t assembly_count;
    uint32_t assembling; /* of these, open */
    uint64_t checked_ns; /* time of the last check of their senders */
    struct list moving, owing;
    uint32_t reading;      /* reads under way: the transport may write until they end */
    uint64_t performed;    /* commands */
    uint64_t begun;        /* packets that were begun; events carry this number */
    unsigned char *bounce; /* for data that is then copied across processes */
    bool is_held_back;     /* a packet was refused since this was last cleared */
    bool is_broken;        /* the commands make no sense: software gets LOST */
};

/* agent_init - 0; -EINVAL the channel makes no sense; -ENOMEM. */
int agent_init(struct agent *agent, const struct agent_config *config);
void agent_fini(struct agent *agent);

/* agent_begin - a packet is about to be delivered.  Earlier events do not report it.  As
 * transport_events.begins. */
void agent_begin(struct agent *agent);

/* agent_deliver - a packet from a peer.  As transport_events.deliver. */
int agent_deliver(struct agent *agent, uint32_t peer, const void *packet, size_t size);

/* agent_read_done - as transport_events.read_done. */
void agent_read_done(struct agent *agent, void *cookie, int error);

/* agent_owns - does this read belong to the agent? */
bool agent_owns(const struct agent *agent, const void *cookie);

/* agent_run - performs commands and moves data; returns how much it did. */
int agent_run(struct agent *agent);

/* agent_is_idle - is there nothing to do until something arrives? */
bool agent_is_idle(const struct agent *agent);

/* agent_ask - asks software for the number of the peer at an address; the answer repeats
 * `question`.  False: no space. */
bool agent_ask(struct agent *agent, uint32_t question, const struct transport_address *address);

/* agent_leave - if nothing is under way: reports to software that this device will not receive
 * any more once its transport is closed.  False: something is under way. */
bool agent_leave(struct agent *agent);

#endif
