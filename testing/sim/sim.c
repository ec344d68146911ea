/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.c - the transport of a simulated network; sim.h says how it is driven.
 *
 *   sim_network.c   time, chance, events, the endpoints
 *   queue.c   packets
 *   remote.c  reads, writes, words
 *   bounce.c  bounce buffers
 *
 * Each link is a reliable FIFO, and links are not ordered with each other: each packet has
 * its own delay.  All faults that the contract allows happen by chance: sends find
 * no space, reads end late or fail, endpoints die.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

static void sim_address(const struct transport *t, struct transport_address *address)
{
    sim_network_address(sim_of(t), address);
}

static int sim_reaches(const struct transport *t, const struct transport_address *address)
{
    uint32_t index;

    (void)t;
    return sim_network_check(address, &index);
}

static int sim_check_address(const struct transport *t, const struct transport_address *address)
{
    struct sim *remote;
    uint32_t index;
    int err = sim_network_check(address, &index);

    (void)t;
    return err != 0 ? err : sim_network_find(index, &remote);
}

static int sim_connect(struct transport *t, const struct transport_address *address,
                       struct link **out)
{
    struct sim_link *link;
    uint32_t index;
    int err = sim_network_check(address, &index);

    if (err != 0)
        return err;
    link = queue_link(sim_of(t), address, index);
    if (link == NULL)
        return -ENOMEM;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

static int sim_check(struct link *link)
{
    struct sim *remote;

    return sim_network_find(sim_link_of(link)->remote, &remote);
}

/* ---- polling ---- */

static int sim_poll(struct transport *t, int budget)
{
    struct sim *sim = sim_of(t);
    int ended;

    if (sim->is_dead)
        return 0;
    ended = remote_end_moves(sim);
    return ended + queue_deliver(sim, budget);
}

static int sim_wait(struct transport *t, int64_t timeout_ns)
{
    struct sim *sim = sim_of(t);

    if (!list_is_empty(&sim->ready) || !list_is_empty(&sim->moved))
        return 0;
    sim_network.places[sim->index].sleeps = true;
    if (timeout_ns >= 0)
        sim_alarm(sim->index, sim_network.now_ns + (uint64_t)timeout_ns);
    return -ETIMEDOUT;
}

static void sim_wake(struct transport *t)
{
    sim_alarm(sim_of(t)->index, sim_network.now_ns);
}

static bool sim_is_flushed(struct transport *t)
{
    (void)t;
    return true; /* a queue outlives its sender */
}

/* ---- open and close ---- */

static int sim_open(const struct transport_config *config, struct transport **out)
{
    struct sim *sim;
    int err;

    if (!sim_network.is_on) {
        LOG_ERROR("sim: there is no simulation in this process; ./dev sim runs them");
        return -ENODEV;
    }
    sim = mem_calloc(1, sizeof *sim);
    if (sim == NULL)
        return -ENOMEM;
    sim->base.ops = &transport_sim;
    sim->base.limits =
        (struct transport_limits){.packet_max = SIM_PACKET_MAX,
                                  .inline_max = SIM_INLINE_MAX,
                                  .can_read = sim_network.config.can_read,
                                  .is_copy = true,
                                  .cswap_words = sim_network.config.words,
                                  .table_words = sim_network.config.has_table ? SIM_TABLE : 0,
                                  .is_instant = true};
    sim->events = config->events;
    sim->arg = config->arg;
    sim->credit = config->credit;
    sim->bounce_limit = UINT64_MAX;
    list_init(&sim->inbox);
    list_init(&sim->ready);
    list_init(&sim->moves);
    list_init(&sim->moved);
    list_init(&sim->exposures);
    err = sim_network_add(sim);
    if (err != 0) {
        mem_free(sim);
        return err;
    }
    *out = &sim->base;
    return 0;
}

static void sim_close(struct transport *t)
{
    struct sim *sim = sim_of(t);
    struct link_member *member;
    size_t position = 0;

    sim_network_remove(sim);
    queue_leave(sim, false);
    while ((member = link_table_next(&sim->links, &position)) != NULL) {
        bounce_end_link(sim, container_of(member, struct sim_link, member));
        mem_free(container_of(member, struct sim_link, member));
    }
    link_table_fini(&sim->links);
    remote_leave(sim);
    bounce_leave(sim);
    mem_free(sim);
}

const struct transport_ops transport_sim = {
    .name = "sim",
    .about = "endpoints of one process in virtual time, for simulation",
    .memory = &sim_memory,
    .atomics = &sim_atomics,
    .bounce = &sim_bounce,
    .open = sim_open,
    .close = sim_close,
    .address = sim_address,
    .reaches = sim_reaches,
    .connect = sim_connect,
    .send = queue_send,
    .check = sim_check,
    .check_address = sim_check_address,
    .poll = sim_poll,
    .wait = sim_wait,
    .wake = sim_wake,
    .is_flushed = sim_is_flushed,
};
