/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - operations of the network that go to the endpoint's host first.
 *
 *   core ─> ops of h2 ─> setns(h2), unless the thread is there ─> transport_ofi
 *   core ─> open ──────> setns(h2) ───────────────────────────> transport_verbs, of that host's adapter
 *
 * Each host has its own table of operations, so an endpoint's table tells its host.  A thread
 * stays on its last host, and goes to another when an operation needs that.  Children start on
 * the host where they were forked, and know it; a new thread does not know its host, and goes
 * to the one it needs.
 */
#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/atomics.h"
#include "transport/memory.h"

#define HOSTS_MAX 64                    /* of scripts/hosts/netns-hosts */
#define PIDS      "MATCHBOX_HOSTS_PIDS" /* "h1=PID h2=PID ...", of scripts/hosts/netns-hosts */

/* The linker's names (--wrap): the operations themselves, and the table that all other code
 * uses instead. */
extern const struct transport_ops __real_transport_ofi;
extern struct transport_ops __wrap_transport_ofi;
struct transport_ops __wrap_transport_ofi;

extern const struct transport_ops __real_transport_verbs;
extern struct transport_ops __wrap_transport_verbs;
struct transport_ops __wrap_transport_verbs;

static struct transport_ops on_host[HOSTS_MAX];
static struct transport_memory memory;
static struct transport_atomics atomics;
static int namespaces[HOSTS_MAX];
static uint32_t host_count;
static _Atomic uint32_t *opened;    /* shared by all processes of this test */
static _Thread_local uint32_t here; /* 1 + host; 0: not known */

static void die(const char *what)
{
    perror(what);
    abort();
}

static void go_to(uint32_t host)
{
    if (here == host + 1)
        return;
    if (setns(namespaces[host], CLONE_NEWNET) != 0)
        die("hosts: setns");
    here = host + 1;
}

bool hosts_is_placed(const struct transport *t)
{
    return t->ops >= on_host && t->ops < on_host + HOSTS_MAX;
}

bool hosts_is_network(const struct transport *t)
{
    return t->ops == &__real_transport_ofi || t->ops == &__real_transport_verbs ||
           hosts_is_placed(t);
}

static void enter(const struct transport *t)
{
    if (hosts_is_placed(t))
        go_to((uint32_t)(t->ops - on_host));
}

/* ---- the operations ---- */

/* Goes to the host of the next endpoint, and returns it. */
static uint32_t go_to_next(const struct transport_config *config)
{
    uint32_t host =
        config->settings.shm.host != 0 ? (uint32_t)config->settings.shm.host - 1 : (*opened)++;

    host %= host_count;
    go_to(host);
    return host;
}

/* The adapter is chosen only once, and stays on its host. */
static int hosts_open_verbs(const struct transport_config *config, struct transport **out)
{
    if (host_count != 0)
        go_to_next(config);
    return __real_transport_verbs.open(config, out);
}

static int hosts_open(const struct transport_config *config, struct transport **out)
{
    uint32_t host;
    int err;

    if (host_count == 0)
        return __real_transport_ofi.open(config, out);
    host = go_to_next(config);
    err = __real_transport_ofi.open(config, out);
    if (err == 0)
        (*out)->ops = &on_host[host];
    return err;
}

static void hosts_close(struct transport *t)
{
    enter(t);
    __real_transport_ofi.close(t);
}

static int hosts_connect(struct transport *t, const struct transport_address *address,
                         struct link **link)
{
    enter(t);
    return __real_transport_ofi.connect(t, address, link);
}

static int hosts_send(struct link *link, const struct transport_packet *packet)
{
    enter(link->transport);
    return __real_transport_ofi.send(link, packet);
}

static int hosts_read(struct link *link, void *dst, uint64_t address, uint64_t key, size_t size,
                      void *cookie)
{
    enter(link->transport);
    return __real_transport_ofi.memory->read(link, dst, address, key, size, cookie);
}

static int hosts_write(struct link *link, uint64_t address, uint64_t key, const void *src,
                       size_t size, void *cookie)
{
    enter(link->transport);
    return __real_transport_ofi.memory->write(link, address, key, src, size, cookie);
}

static int hosts_check(struct link *link)
{
    enter(link->transport);
    return __real_transport_ofi.check(link);
}

static int hosts_check_address(const struct transport *t,
                               const struct transport_address *address)
{
    enter(t);
    return __real_transport_ofi.check_address(t, address);
}

static int hosts_cswap(struct link *link, uint64_t index, uint64_t expected, uint64_t desired,
                       uint64_t *found, uint64_t cookie)
{
    enter(link->transport);
    return __real_transport_ofi.atomics->cswap(link, index, expected, desired, found, cookie);
}

static int hosts_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                             uint64_t desired, uint64_t *found)
{
    enter(t);
    return __real_transport_ofi.atomics->cswap_local(t, index, expected, desired, found);
}

static int hosts_poll(struct transport *t, int budget)
{
    enter(t);
    return __real_transport_ofi.poll(t, budget);
}

static int hosts_wait(struct transport *t, int64_t timeout_ns)
{
    enter(t);
    return __real_transport_ofi.wait(t, timeout_ns);
}

static bool hosts_is_flushed(struct transport *t)
{
    enter(t);
    return __real_transport_ofi.is_flushed(t);
}

/* ---- before main() ---- */

/* Reads the word "hN=PID" at *at, and moves on. */
static void take_host(const char **at)
{
    char path[64];
    const char *pid = strchr(*at, '=');

    if (pid == NULL || host_count == HOSTS_MAX)
        die("hosts: " PIDS);
    snprintf(path, sizeof path, "/proc/%lu/ns/net", strtoul(pid + 1, NULL, 10));
    namespaces[host_count] = open(path, O_RDONLY | O_CLOEXEC);
    if (namespaces[host_count] < 0)
        die(path);
    on_host[host_count++] = __wrap_transport_ofi;
    *at += strcspn(*at, " ");
    *at += strspn(*at, " ");
}

__attribute__((constructor)) static void find_hosts(void)
{
    const char *at = getenv(PIDS);
    struct transport_ops *ops = &__wrap_transport_ofi;

    *ops = __real_transport_ofi;
    if (ops->memory != NULL) { /* this build has the network */
        memory = *ops->memory;
        memory.read = hosts_read;
        memory.write = hosts_write;
        ops->memory = &memory;
        atomics = *ops->atomics;
        atomics.cswap = hosts_cswap;
        atomics.cswap_local = hosts_cswap_local;
        ops->atomics = &atomics;
    }
    ops->open = hosts_open;
    ops->close = hosts_close;
    ops->connect = hosts_connect;
    ops->send = hosts_send;
    ops->check = hosts_check;
    ops->check_address = hosts_check_address;
    ops->poll = hosts_poll;
    ops->wait = hosts_wait;
    ops->is_flushed = hosts_is_flushed;
    __wrap_transport_verbs = __real_transport_verbs;
    __wrap_transport_verbs.open = hosts_open_verbs;
    while (at != NULL && *at != '\0')
        take_host(&at);
    opened =
        mmap(NULL, sizeof *opened, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (opened == MAP_FAILED)
        die("hosts: mmap");
}
