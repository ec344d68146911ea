/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h - a simulated network of endpoints in one thread, in virtual time, from one seed.
 *
 *   sim_begin(config)             clock_now() and random_secret() are the simulation's
 *     mbx_open() ...              endpoints 0, 1, 2, ...: MBX_TRANSPORT=sim
 *     sim_alarm(0, when) ...      begins something at that time
 *     while (sim_next(&who, ..))  time advances to the next event, which concerns who:
 *         mbx_progress(ep[who])   ... who makes progress now, or later
 *     mbx_close() ...
 *   sim_end()
 *
 * Nobody sleeps: wait() returns at once, and has set the alarm that will end it.  So the driver
 * of an endpoint calls mbx_progress() until it returns 0, and then mbx_sleep().  An endpoint that
 * misses a notification is never called again: a hang in reality is an end of all events
 * here.
 *
 * Everything follows from the configuration and from the order of the calls.  Only one network at a
 * time can exist in a process; its endpoints belong to one thread.
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
    uint64_t delay_min_ns, delay_max_ns; /* of packets, reads, notices of space */
    uint32_t depth;                      /* packets that one ordered pair can hold */
    uint32_t words;                      /* for cswap() */
    uint32_t buffers;                    /* bounce buffers of an endpoint; 0: none */
    uint32_t percent_full;               /* of sends that are refused though there is space */
    uint32_t percent_late;               /* of reads and writes that end later */
    uint32_t percent_lost;               /* of reads and writes that fail */
    bool can_read, has_table;
    /* Called for each delivered packet, or NULL. */
    void (*delivered)(void *arg, uint32_t from, uint32_t to, const void *packet, size_t size);
    void *arg;
};

/* Begins a network.  0; -EBUSY: there is one; -ENOMEM. */
int sim_begin(const struct sim_config *config);

/* Ends the network, and restores the clock of the process.  All endpoints must be closed. */
void sim_end(void);

/* The present time; it begins at 1 s. */
uint64_t sim_now(void);

/* Advances to the next event, if it is not after until_ns.  True: it concerns endpoint *who,
 * which is open.  False: there is none. */
bool sim_next(uint32_t *who, uint64_t until_ns);

/* Wakes the endpoint at that moment, or earlier; replaces a later alarm, but never an earlier
 * one.  0; -ENOMEM. */
int sim_alarm(uint32_t who, uint64_t at_ns);

/* Has the endpoint gone to sleep, with nothing to do, since the last event that concerned
 * it? */
bool sim_sleeps(uint32_t who);

/* Time of the last event that was not an alarm. */
uint64_t sim_stirred(void);

/* Are there events other than alarms? */
bool sim_is_moving(void);

/* Kills the endpoint: it sends and receives nothing more, nobody can access its memory, and
 * only some of its sent packets may arrive.  Then the caller frees it with mbx_close(). */
void sim_kill(uint32_t who);

/* The endpoint with this address; SIM_NOBODY if there never was one. */
#define SIM_NOBODY UINT32_MAX
uint32_t sim_whose(const uint8_t *address);

/* Visits each packet in flight to an open endpoint. */
void sim_each_packet(void (*visit)(void *arg, uint32_t from, uint32_t to, const void *packet,
                                   size_t size),
                     void *arg);

/* The number of packets delivered so far. */
uint64_t sim_packets(void);

#endif
