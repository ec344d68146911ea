/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.c - the only thread: looks at doorbells, runs queue pairs that have work, and sleeps in
 * poll() after SPIN_NS without work.
 */
#include <poll.h>
#include <unistd.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"
#include "base/sys.h"

#define ROUNDS_BLIND  16             /* busy rounds per poll of the descriptors */
#define FIRST_CLIENT  (10 * CLOCK_S) /* without a client until then, the daemon ends */
#define FDS_OF_CLIENT 3

struct adapter_counters counters;
unsigned char bounce[FRAME_DATA];

/* The array for poll(), which is kept, so that nothing is allocated while messages move. */
static struct pollfd *fds;
static uint32_t fds_capacity;

bool look_at_doorbells(void)
{
    bool rang = false;
    struct list *node;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);
        uint64_t now;

        if (client->page == NULL)
            continue;
        now = atomic_load_explicit(&client->page->doorbell, memory_order_acquire);
        if (now == client->doorbell)
            continue;
        client->doorbell = now;
        client_doorbell(client);
        rang = true;
    }
    return rang;
}

static bool run_queue_pairs(void)
{
    struct list now;
    struct list *node;
    bool ran = false;

    list_init(&now);
    list_splice_tail(&now, &runnable);
    while ((node = list_pop_head(&now)) != NULL) {
        qp_run(container_of(node, struct qp, run));
        ran = true;
    }
    return ran;
}

static void end_clients(void)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &clients) {
        struct client *client = container_of(node, struct client, node);

        if (client->is_gone)
            client_end(client);
    }
}

static void set_sleeps(bool sleeps)
{
    struct list *node;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        if (client->page != NULL)
            atomic_store_explicit(&client->page->sleeps, sleeps, memory_order_seq_cst);
    }
}

static int timeout_ms(uint64_t now)
{
    const uint64_t until = qps_wait_until();

    if (until == NEVER)
        return -1;
    return until <= now ? 0 : (int)min_size((until - now) / CLOCK_MS + 1, 1000000);
}

static bool has_space(uint32_t count)
{
    struct pollfd *more;

    if (count <= fds_capacity)
        return true;
    more = mem_realloc(fds, 2 * count * sizeof *fds);
    if (more == NULL)
        return false;
    fds = more;
    fds_capacity = 2 * count;
    return true;
}

/* Waits at most this long for a descriptor, and serves the ready ones. */
static void serve_descriptors(int listener, int timeout)
{
    struct list *node, *next;
    uint32_t count = 1, i = 1;

    list_for_each (node, &clients)
        count += FDS_OF_CLIENT;
    if (!has_space(count + wire_count()))
        return;
    fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    list_for_each (node, &clients) {
        const struct client *client = container_of(node, struct client, node);

        fds[i++] = (struct pollfd){.fd = client->sock, .events = POLLIN};
        fds[i++] = (struct pollfd){.fd = client->pidfd, .events = POLLIN};
        fds[i++] = (struct pollfd){.fd = client->doorbell_fd, .events = POLLIN};
    }
    wire_fds(fds + count);
    if (sys_poll(fds, count + wire_count(), timeout) > 0) {
        const uint32_t of_wire = wire_count();

        i = 1;
        list_for_each_safe (node, next, &clients) {
            struct client *client = container_of(node, struct client, node);
            uint64_t rings;

            if (fds[i + 2].revents & POLLIN)
                (void)!read(client->doorbell_fd, &rings, sizeof rings);
            if (fds[i].revents != 0)
                client_serve(client);
            if (fds[i + 1].revents != 0)
                client->is_gone = true;
            i += FDS_OF_CLIENT;
        }
        wire_serve(fds + count, of_wire);
        if (fds[0].revents != 0)
            client_accept(listener);
    }
}

/* A client that rings after it was told that the daemon sleeps also writes to its
 * descriptor. */
static void sleep_a_while(int listener)
{
    set_sleeps(true);
    if (!look_at_doorbells() && list_is_empty(&runnable) && beneath_is_quiet())
        serve_descriptors(listener, timeout_ms(clock_now()));
    set_sleeps(false);
}

void work(int listener)
{
    const uint64_t began = clock_now();
    uint64_t idle_since = 0, crowded_until = 0;
    bool had_client = false;

    for (uint32_t round = 0;; round++) {
        bool rang, dawdles, is_busy, polled;
        uint64_t now;

        while (step_is_held()) {
            serve_descriptors(listener, -1);
            end_clients();
        }
        rang = look_at_doorbells();
        dawdles = tm_dawdle();
        polled = beneath_poll();
        if (beneath_is_lost())
            return;
        is_busy = run_queue_pairs() || dawdles || rang || polled;
        now = clock_now();
        qps_look_at_clock(now);
        end_clients();
        if (!clients_are_gone())
            had_client = true;
        else if (had_client || now - began > FIRST_CLIENT) {
            client_accept(listener); /* a client may have come meanwhile */
            if (clients_are_gone())
                return;
        }
        if (is_busy) {
            idle_since = 0;
            if (round % ROUNDS_BLIND != 0 && !wire_is_open())
                continue;
            serve_descriptors(listener, 0);
            continue;
        }
        if (idle_since == 0)
            idle_since = now;
        if (!had_client)
            serve_descriptors(listener, (int)(FIRST_CLIENT / CLOCK_MS));
        else if (now - idle_since > SPIN_NS || now < crowded_until)
            sleep_a_while(listener);
        else {
            if (round % ROUNDS_BLIND == 0 || wire_is_open())
                serve_descriptors(listener, 0);
            sys_yield();
            if (clock_now() - now > SPIN_NS)
                crowded_until = now + CROWDED_NS;
        }
    }
}
