/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h - a simulated network of endpoints in one thread, in virtual time, from one seed.
 *
 *   sim_begin(config)             clock_now() and random_secret() are the simulation's
 *     mbx_open() ...              endpoints 0, 1, 2, ...: MBX_TRANSPORT=sim
 *     sim_alarm(0, when) ...      something is to begin
 *     while (sim_next(&who, ..))  time goes on to the next event, which concerns who:
 *         mbx_progress(ep[who])   ... who does something now, or later
 *     mbx_close() ...
 *   sim_end()
 *
 * Nobody sleeps: wait() returns at once, and has set the alarm that will end it.  So who
 * drives an endpoint calls mbx_progress() until it returns 0, and then mbx_sleep().  A
 * library that misses to be told of something is one that is never called again: what would be
 * a hang elsewhere is the end of all events here.
 *
 * Everything follows from the configuration and from the order of the calls.  One network at a
 * time in a process; its endpoints belong to one thread.
 */
#ifndef TESTING_SIM_SIM_H
#define TESTING_SIM_SIM_H

#include "base/base.h"
#include "transport/transport.h"

#define SIM_NEVER       UINT64_MAX
#define SIM_BUFFERS_MAX 8 /* bounce buffers of an endpoint */

extern const struct transport_ops transport_sim;

struct sim_config {
    uint64_t seed;
    uint64_t delay_min_ns, delay_max_ns; /* of a packet, a read, and of being told of space */
    uint32_t depth;                      /* packets that one ordered pair holds */
    uint32_t words;                      /* for cswap() */
    uint32_t buffers;                    /* bounce buffers of an endpoint; 0: none */
    uint32_t percent_full;               /* of sends that are told so though there is space */
    uint32_t percent_late;               /* of reads and writes that end later */
    uint32_t percent_lost;               /* ... that fail */
    bool can_read, has_table;
    /* Each packet that is delivered, or NULL. */
    void (*delivered)(void *arg, uint32_t from, uint32_t to, const void *packet, size_t size);
    void *arg;
};

/* Begins a network.  0; -EBUSY there is one; -ENOMEM. */
int sim_begin(const struct sim_config *config);

/* Ends it, and gives the process its clock back.  All endpoints are closed. */
void sim_end(void);

/* What time it is; the first moment is 1 s. */
uint64_t sim_now(void);

/* Goes on to the next event, if it is not after until_ns.  True: it concerns endpoint *who,
 * which is open.  False: there is none. */
bool sim_next(uint32_t *who, uint64_t until_ns);

/* Wakes the endpoint at that moment, or earlier; replaces a later alarm, never an earlier one.
 * 0; -ENOMEM. */
int sim_alarm(uint32_t who, uint64_t at_ns);

/* Has it gone to sleep, with nothing to do, since an event last concerned it? */
bool sim_sleeps(uint32_t who);

/* When something last happened that was no alarm. */
uint64_t sim_stirred(void);

/* Is there anything under way but alarms? */
bool sim_is_moving(void);

/* The endpoint stops here: it sends and receives nothing more, nobody reaches its memory, and
 * of what it has sent only some may arrive.  Then the caller frees it with mbx_close(). */
void sim_kill(uint32_t who);

/* Which endpoint has this address?  SIM_NOBODY: none ever had. */
#define SIM_NOBODY UINT32_MAX
uint32_t sim_whose(const uint8_t *address);

/* Visits each packet that is on its way to an endpoint which is open. */
void sim_each_packet(void (*visit)(void *arg, uint32_t from, uint32_t to, const void *packet,
                                   size_t size),
                     void *arg);

/* Packets that were delivered so far. */
uint64_t sim_packets(void);

#endif
