/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve.c - peers have numbers, which only the application gives: the first packet of a peer
 * waits until it has answered.
 *
 *   accept() ──> ASKED ──answer──> ANSWERED ──accept() again──> by_peer[number]
 */
#include "port/serve.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

/* Packets of one poll. */
#define SERVE_BUDGET 64

/* Empty rounds between two looks at the clock. */
#define SERVE_ROUNDS 64

/* The longest sleep: then it looks whether the application is still there. */
#define SERVE_SLEEP_NS (100 * CLOCK_MS)

/* A peer that is about to be known. */
struct stranger {
    struct list node; /* on strangers, in the order of the questions */
    struct link *link;
    bool is_answered;
    int error;
    uint32_t peer;
};

struct server {
    const struct serve_config *config;
    struct port port;
    struct transport *transport;
    struct list strangers;
    struct link **by_peer;
    uint32_t peer_count;
};

/* ---- who is who ---- */

static struct stranger *find(struct server *server, const struct link *link)
{
    struct list *node;

    list_for_each (node, &server->strangers) {
        struct stranger *stranger = container_of(node, struct stranger, node);

        if (stranger->link == link)
            return stranger;
    }
    return NULL;
}

static int ask(struct server *server, struct link *link,
               const struct transport_address *address)
{
    struct stranger *stranger = mem_calloc(1, sizeof *stranger);

    if (stranger == NULL)
        return -EAGAIN;
    if (!port_ask(&server->port, address)) {
        mem_free(stranger);
        return -EAGAIN;
    }
    stranger->link = link;
    list_add_tail(&server->strangers, &stranger->node);
    return -EAGAIN;
}

static int remember(struct server *server, uint32_t peer, struct link *link)
{
    uint32_t count = server->peer_count == 0 ? 16 : server->peer_count;
    struct link **by_peer;

    if (peer >= server->peer_count) {
        while (count <= peer)
            count *= 2;
        by_peer = mem_realloc(server->by_peer, count * sizeof *by_peer);
        if (by_peer == NULL)
            return -EAGAIN;
        memset(by_peer + server->peer_count, 0, (count - server->peer_count) * sizeof *by_peer);
        server->by_peer = by_peer;
        server->peer_count = count;
    }
    server->by_peer[peer] = link;
    return 0;
}

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct server *server = arg;
    struct stranger *stranger = find(server, link);
    int err;

    if (stranger == NULL)
        return ask(server, link, address);
    if (!stranger->is_answered)
        return -EAGAIN;
    err = stranger->error != 0 ? stranger->error : remember(server, stranger->peer, link);
    if (err == -EAGAIN)
        return err;
    if (err == 0)
        *peer = stranger->peer;
    list_remove(&stranger->node);
    mem_free(stranger);
    return err;
}

static void on_answer(void *arg, int error, uint32_t peer)
{
    struct server *server = arg;
    struct list *node;

    list_for_each (node, &server->strangers) {
        struct stranger *stranger = container_of(node, struct stranger, node);

        if (stranger->is_answered)
            continue;
        stranger->is_answered = true;
        stranger->error = error;
        stranger->peer = peer;
        return;
    }
}

static struct link *link_of(void *arg, uint32_t peer)
{
    struct server *server = arg;

    return peer < server->peer_count ? server->by_peer[peer] : NULL;
}

/* ---- what arrives ---- */

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct server *server = arg;

    return port_deliver(&server->port, peer, packet, size);
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct server *server = arg;

    port_read_done(&server->port, cookie, error);
}

static void on_dropped(void *arg, const char *reason)
{
    (void)arg;
    LOG_WARN("device: dropped a packet: %s", reason);
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_deliver,
    .read_done = on_read_done,
    .dropped = on_dropped,
};

/* ---- work and rest ---- */

static void sleep_a_while(struct server *server)
{
    struct region *region = server->config->region;

    region_lie_down(&region->device_sleeps);
    if (port_is_idle(&server->port) && atomic_load(&region->stop) == 0)
        server->transport->ops->wait(server->transport, (int64_t)SERVE_SLEEP_NS);
    region_get_up(&region->device_sleeps);
}

static bool may_go_on(const struct server *server)
{
    const struct serve_config *config = server->config;

    return config->may_go_on == NULL || config->may_go_on(config->arg);
}

static void work(struct server *server)
{
    struct region *region = server->config->region;
    uint64_t idle_ns = 0, rounds = 0;
    unsigned idle = 0;

    while (atomic_load_explicit(&region->stop, memory_order_relaxed) == 0 &&
           !server->port.is_broken) {
        int moved = server->transport->ops->poll(server->transport, SERVE_BUDGET) +
                    port_run(&server->port);

        if (moved > 0) {
            idle = 0;
            if (region_sleeps(&region->software_sleeps))
                server->transport->ops->nudge(server->transport);
            continue;
        }
        atomic_store_explicit(&region->idle, ++rounds, memory_order_relaxed);
        cpu_relax();
        if (++idle % SERVE_ROUNDS != 0)
            continue;
        if (idle == SERVE_ROUNDS)
            idle_ns = clock_now();
        else if (clock_now() - idle_ns >= server->config->spin_ns) {
            sleep_a_while(server);
            if (!may_go_on(server))
                return;
            idle = 0;
        }
    }
}

static int begin(struct server *server)
{
    const struct serve_config *config = server->config;
    struct transport_config transport = *config->transport;
    int err;

    transport.events = &events;
    transport.arg = server;
    err = config->ops->join(&transport, config->handle, &server->transport);
    if (err != 0)
        return err;
    err = port_init(&server->port, &(struct port_config){
                                       .region = config->region,
                                       .transport = server->transport,
                                       .link = link_of,
                                       .answer = on_answer,
                                       .arg = server,
                                       .memory = config->memory,
                                   });
    if (err != 0)
        server->transport->ops->close(server->transport);
    return err;
}

static void end(struct server *server)
{
    struct list *node;

    server->transport->ops->close(server->transport);
    port_fini(&server->port);
    while ((node = list_pop_head(&server->strangers)) != NULL)
        mem_free(container_of(node, struct stranger, node));
    mem_free(server->by_peer);
}

static void say(struct region *region, enum region_state state, int error)
{
    atomic_store(&region->error, error);
    atomic_store(&region->state, state);
    sys_futex_wake(&region->state, 1);
}

int serve(const struct serve_config *config)
{
    struct server server = {.config = config};
    int err;

    list_init(&server.strangers);
    err = begin(&server);
    if (err != 0) {
        say(config->region, REGION_FAILED, err);
        return err;
    }
    say(config->region, REGION_RUNNING, 0);
    work(&server);
    end(&server);
    say(config->region, REGION_ENDED, 0);
    return 0;
}
