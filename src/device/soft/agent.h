/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - the software device at work: between a wire and an application.
 *
 *              transport                                   channel
 *   peers ───> agent_deliver ──> tm_match ─┬─> data ────> application's buffer
 *                                           ├─> MATCHED ─> event ring
 *                                           └─> UNEXPECTED, in an untagged buffer
 *              agent_run  <─── command ring
 *                   └─> moves what was matched and is not whole, says FIN
 *
 * It runs wherever its driver wants it: in the application's progress loop, on a thread, or in
 * a process that shares the channel with the application and nothing else (agent.memory then
 * copies across).
 *
 * Who owes fragments may die, and says nothing then: while there are such, the agent looks at
 * them every check_ns.  At the second check in a row at which a sender is gone, all that it had
 * sent has been delivered, and the receive ends: DATA_VALID, -ENOTCONN.  What is read ends by
 * itself, as the read fails.
 *
 * Invariants
 *   P1  an event is written when what it tells of has been done: the data before MATCHED with
 *       WHOLE and before DATA_VALID, those before the FIN, and the FIN before FIN_SENT
 *   P2  a packet is taken (agent_deliver returns 0) behind its events, or not at all
 *   P3  an entry is on moving while the device reads for it; it is on owing while a FIN for
 *       it has not left; it is the entry of an assembly while fragments are to come; at most
 *       one of these
 *   P4  assembling is the number of assemblies with an entry
 */
#ifndef DEVICE_SOFT_AGENT_H
#define DEVICE_SOFT_AGENT_H

#include "device/soft/channel.h"

/* How the device reaches the application's memory. */
struct agent_memory {
    /* Writes there; 0 or an error. */
    int (*write)(void *arg, uint64_t to, const void *from, size_t size);
    /* Can the transport read straight into it? */
    bool is_ours;
    void *arg;
};

struct agent_config {
    struct channel *channel;
    /* The way back to a peer, or NULL. */
    struct link *(*link)(void *arg, uint32_t peer);
    /* The answer to a agent_ask(); NULL: there are no questions. */
    void (*answer)(void *arg, uint32_t question, int error, uint32_t peer);
    void *arg;
    struct agent_memory memory;
};

/* What an entry has met. */
struct agent_move {
    struct list node; /* on moving or owing */
    uint32_t peer;
    uint8_t flags; /* of its MATCHED */
    uint64_t total, done, chunk;
    uint64_t sender, address, key;
};

/* The eager message of a peer that comes in fragments and whose receive is ours. */
struct agent_assembly {
    struct tm_entry *entry; /* NULL: there is none */
    uint64_t size, offset;
    bool is_doubted; /* its sender was gone at the last check */
};

/* Glossary: untagged buffer - where the device puts a message that meets no entry */
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
    uint64_t checked_ns; /* at their senders, last */
    struct list moving, owing;
    uint32_t reading;      /* reads of which the transport will tell: it writes meanwhile */
    uint64_t performed;    /* commands */
    uint64_t begun;        /* packets that were begun; marks their events */
    unsigned char *bounce; /* for data on its way to memory that is not ours */
    bool is_held_back;     /* a packet was refused since this was last cleared */
    bool is_broken;        /* software's commands make no sense: it is told LOST */
};

/* agent_init - 0; -EINVAL the channel makes no sense; -ENOMEM. */
int agent_init(struct agent *agent, const struct agent_config *config);
void agent_fini(struct agent *agent);

/* agent_begin - a packet will be delivered, and nobody knows of it yet: the events of what was
 * done before do not tell of it.  As transport_events.begins. */
void agent_begin(struct agent *agent);

/* agent_deliver - a packet of a peer.  As transport_events.deliver. */
int agent_deliver(struct agent *agent, uint32_t peer, const void *packet, size_t size);

/* agent_read_done - as transport_events.read_done. */
void agent_read_done(struct agent *agent, void *cookie, int error);

/* agent_owns - is a read that has ended one of the agent's? */
bool agent_owns(const struct agent *agent, const void *cookie);

/* agent_run - performs commands, moves data; how much it did. */
int agent_run(struct agent *agent);

/* agent_is_idle - is there nothing to do before something arrives? */
bool agent_is_idle(const struct agent *agent);

/* agent_ask - asks software for the number of a peer; question comes back with the answer.
 * False: no space. */
bool agent_ask(struct agent *agent, uint32_t question, const struct transport_address *address);

/* agent_leave - if nothing is under way: tells software that this device will not receive any
 * more, from when its transport is closed.  False: not now. */
bool agent_leave(struct agent *agent);

#endif
