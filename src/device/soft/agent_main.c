/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent_main.c - an agent that runs by itself.
 *
 *   channel.wanted      0 ───────────────> 1 ───────────────────> 0
 *   this side          sleeps   take_over()  receives   agent_leave(), close()      sleeps
 *   transport's owner  receives hand_over()  does not   sees CHANNEL_LEFT: take_back()  receives
 *
 * The device receives instead of the transport only while software wants it to: while it holds
 * no receive, messages reach the host faster without it.
 *
 * The application gives numbers to peers: the first packet of a peer waits until the
 * application has answered.
 *
 *   accept() ──> ASKED ──answer──> ANSWERED ──accept() again──> by_peer[number]
 */
#include "device/soft/agent_main.h"

#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "transport/handoff.h"

/* Packets of one poll. */
#define SERVE_BUDGET 64

/* Empty rounds between two readings of the clock. */
#define SERVE_ROUNDS 64

/* Rounds that a check counts while the device is not wanted: it has nothing to do then. */
#define IDLE_ROUNDS 1024

/* The longest sleep; after it the device checks that the application is still there. */
#define SERVE_SLEEP_NS (100 * CLOCK_MS)

/* The longest sleep while a packet is refused: other peers cannot end this sleep. */
#define SERVE_HELD_NS CLOCK_MS

/* A peer that was known once: its number does not change, its link may. */
struct known {
    struct transport_address address;
    uint32_t peer;
};

/* A peer whose number was asked for. */
struct inquiry {
    struct list node; /* on inquiries, in the order of the questions */
    struct link *link;
    uint32_t question;
    bool is_answered;
    int error;
    uint32_t peer;
};

struct server {
    const struct agent_main_config *config;
    struct agent agent;
    struct transport *transport;
    struct list inquiries;
    uint32_t questions; /* asked so far */
    uint32_t open;      /* of these, without an answer: at most CHANNEL_QUESTIONS */
    struct link **by_peer;
    uint32_t peer_count;
    struct hash known; /* of struct known, by address */
    uint64_t rounds;   /* channel.idle */
};

/* ---- known addresses ---- */

static uint64_t known_hash(const void *arg, const void *slot)
{
    (void)arg;
    return address_hash(&((const struct known *)slot)->address);
}

static bool known_is(const void *arg, const void *slot, const void *address)
{
    (void)arg;
    return memcmp(&((const struct known *)slot)->address, address,
                  sizeof(struct transport_address)) == 0;
}

static const struct hash_kind by_address = {sizeof(struct known), known_hash, known_is};

/* If there is no memory, the next packet of the peer asks for its number again. */
static void known_add(struct server *server, const struct transport_address *address,
                      uint32_t peer)
{
    (void)hash_add(&server->known, &by_address, NULL,
                   &(struct known){.address = *address, .peer = peer});
}

static const struct known *known_find(const struct server *server,
                                      const struct transport_address *address)
{
    return hash_find(&server->known, &by_address, NULL, address_hash(address), address);
}

/* ---- questions ---- */

static struct inquiry *agent_main_find(struct server *server, const struct link *link)
{
    struct list *node;

    list_for_each (node, &server->inquiries) {
        struct inquiry *inquiry = container_of(node, struct inquiry, node);

        if (inquiry->link == link)
            return inquiry;
    }
    return NULL;
}

/* Called after writing an event. */
static void wake_software(struct server *server)
{
    if (channel_sleeps(&server->config->channel->software_sleeps))
        transport_wake_other(server->transport);
}

static int agent_main_ask(struct server *server, struct link *link,
                          const struct transport_address *address)
{
    struct inquiry *inquiry =
        server->open < CHANNEL_QUESTIONS ? mem_calloc(1, sizeof *inquiry) : NULL;

    if (inquiry == NULL)
        return -EAGAIN;
    inquiry->question = ++server->questions;
    if (!agent_ask(&server->agent, inquiry->question, address)) {
        mem_free(inquiry);
        return -EAGAIN;
    }
    inquiry->link = link;
    list_add_tail(&server->inquiries, &inquiry->node);
    server->open++;
    wake_software(server); /* this poll delivers nothing, so nothing else wakes it */
    return -EAGAIN;
}

static int remember(struct server *server, uint32_t peer, struct link *link)
{
    if (!array_reserve_zeroed(server->by_peer, server->peer_count, (uint64_t)peer + 1))
        return -EAGAIN;
    server->by_peer[peer] = link;
    return 0;
}

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct server *server = arg;
    const struct known *known = known_find(server, address);
    struct inquiry *inquiry;
    int err;

    if (known != NULL) {
        err = remember(server, known->peer, link);
        if (err == 0)
            *peer = known->peer;
        return err;
    }
    inquiry = agent_main_find(server, link);
    if (inquiry == NULL)
        return agent_main_ask(server, link, address);
    if (!inquiry->is_answered) {
        server->agent.is_held_back = true;
        return -EAGAIN;
    }
    err = inquiry->error != 0 ? inquiry->error : remember(server, inquiry->peer, link);
    if (err == -EAGAIN)
        return err;
    if (err == 0) {
        *peer = inquiry->peer;
        known_add(server, address, inquiry->peer);
    }
    list_remove(&inquiry->node);
    mem_free(inquiry);
    return err;
}

/* The answer to a forgotten question changes nothing. */
static void on_answer(void *arg, uint32_t question, int error, uint32_t peer)
{
    struct server *server = arg;
    struct list *node;

    server->open--; /* also for a question from before the device left */
    list_for_each (node, &server->inquiries) {
        struct inquiry *inquiry = container_of(node, struct inquiry, node);

        if (inquiry->question != question)
            continue;
        inquiry->is_answered = true;
        inquiry->error = error;
        inquiry->peer = peer;
        return;
    }
}

static struct link *agent_main_link_of(void *arg, uint32_t peer)
{
    struct server *server = arg;

    return peer < server->peer_count ? server->by_peer[peer] : NULL;
}

/* ---- arrivals ---- */

static void on_begins(void *arg)
{
    struct server *server = arg;

    agent_begin(&server->agent);
}

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct server *server = arg;
    int err = agent_deliver(&server->agent, peer, packet, size);

    server->agent.is_held_back |= err != 0;
    return err;
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct server *server = arg;

    agent_read_done(&server->agent, cookie, error);
}

static void on_dropped(void *arg, const char *reason)
{
    (void)arg;
    LOG_WARN("device: dropped a packet: %s", reason);
}

static const struct transport_events events = {
    .accept = on_accept,
    .begins = on_begins,
    .deliver = on_deliver,
    .read_done = on_read_done,
    .dropped = on_dropped,
};

/* ---- work and rest ---- */

static bool agent_main_is_wanted(const struct channel *channel)
{
    /* pairs with the release in softdev.c's attach(): the handle has been written */
    return atomic_load_explicit(&channel->wanted, memory_order_acquire) != 0;
}

static bool agent_main_is_over(const struct server *server)
{
    const struct agent_main_config *config = server->config;

    return atomic_load_explicit(&config->channel->stop, memory_order_relaxed) != 0 ||
           server->agent.is_broken;
}

/* A device that is held back waits for a command of software; it cannot sleep in the transport,
 * where the refused packet would wake it at once. */
static void sleep_a_while(struct server *server)
{
    struct channel *channel = server->config->channel;
    uint32_t seen = atomic_load(&channel->bell);

    channel_lie_down(&channel->device_sleeps);
    if (agent_is_idle(&server->agent) && agent_main_is_wanted(channel) &&
        !agent_main_is_over(server)) {
        if (server->agent.is_held_back)
            sys_futex_wait(&channel->bell, seen, SERVE_HELD_NS);
        else
            server->transport->ops->wait(server->transport, (int64_t)SERVE_SLEEP_NS);
    }
    channel_get_up(&channel->device_sleeps);
}

static bool may_go_on(const struct server *server)
{
    const struct agent_main_config *config = server->config;

    return config->may_go_on == NULL || config->may_go_on(config->arg);
}

/* Receives until the device is not wanted, must stop, or is alone. */
static void receive(struct server *server)
{
    struct channel *channel = server->config->channel;
    uint64_t idle_ns = 0;
    unsigned idle = 0;

    while (!agent_main_is_over(server)) {
        int moved;

        server->agent.is_held_back = false;
        moved = server->transport->ops->poll(server->transport, SERVE_BUDGET) +
                agent_run(&server->agent);

        if (moved > 0) {
            idle = 0;
            wake_software(server);
            continue;
        }
        if (unlikely(!agent_main_is_wanted(channel)) && agent_leave(&server->agent))
            return;
        atomic_store_explicit(&channel->idle, ++server->rounds, memory_order_relaxed);
        cpu_relax();
        if (++idle % SERVE_ROUNDS != 0)
            continue;
        if (idle == SERVE_ROUNDS) {
            idle_ns = clock_now();
        } else if (clock_now() - idle_ns >= server->config->spin_ns) {
            sleep_a_while(server);
            if (!may_go_on(server))
                return;
            idle = 0;
        }
    }
}

/* ---- coming and going ---- */

static int take_over(struct server *server)
{
    const struct agent_main_config *config = server->config;
    struct transport_config transport = *config->transport;

    transport.events = &events;
    transport.arg = server;
    return transport_take_over(config->ops, &transport, config->handle, &server->transport);
}

/* Closes the transport with its links; peers whose numbers were not answered will be asked for
 * again. */
static void agent_main_leave(struct server *server)
{
    struct list *node;

    server->transport->ops->close(server->transport);
    while ((node = list_pop_head(&server->inquiries)) != NULL)
        mem_free(container_of(node, struct inquiry, node));
    mem_free(server->by_peer);
    server->by_peer = NULL;
    server->peer_count = 0;
}

/* Works until the device must stop.  0 or the error of take_over(). */
static int work(struct server *server)
{
    struct channel *channel = server->config->channel;

    while (!agent_main_is_over(server) && may_go_on(server)) {
        int err;

        if (!agent_main_is_wanted(channel)) {
            server->rounds += IDLE_ROUNDS;
            atomic_store_explicit(&channel->idle, server->rounds, memory_order_relaxed);
            sys_futex_wait(&channel->wanted, 0, SERVE_SLEEP_NS);
            continue;
        }
        err = take_over(server);
        if (err != 0)
            return err;
        receive(server);
        agent_main_leave(server);
    }
    return 0;
}

int agent_main(const struct agent_main_config *config)
{
    struct server server = {.config = config};
    int err = agent_init(&server.agent, &(struct agent_config){
                                            .channel = config->channel,
                                            .link = agent_main_link_of,
                                            .answer = on_answer,
                                            .arg = &server,
                                            .memory = config->memory,
                                        });

    list_init(&server.inquiries);
    if (err == 0) {
        channel_say(config->channel, CHANNEL_RUNNING, 0);
        err = work(&server);
        agent_fini(&server.agent);
        hash_fini(&server.known);
    }
    channel_say(config->channel, err == 0 ? CHANNEL_ENDED : CHANNEL_FAILED, err);
    return err;
}
