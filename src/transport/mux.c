/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux.c - an endpoint that uses shared memory to its own machine and the network to others.
 *
 *   core   connect(address)   same host in both addresses? ── yes ──> link of shm
 *                                                          └─ no ───> link of the network
 *
 * A link belongs to the transport that carries it, and both transports call the core's events:
 * so only poll() passes through here.  The path of a pair of endpoints follows only from the
 * hosts in their two addresses: both sides choose the same one, and there is never a second
 * one.
 *
 * The address is shm's, with the network's fields (ofi or verbs, network.h); the network gets
 * this address for its handshakes.
 *
 * Until the network meets a peer, a message through shared memory costs no more than without a
 * network: transport_polled() returns shm itself, and callers poll the network at intervals.
 *
 * Sleeping: shm sleeps on a futex, a provider on a descriptor, and no system call waits for
 * both.  So a thread, the waker, sleeps on the descriptor and then wakes shm.  The owner arms
 * the waker before a sleep if needed; it stays armed over any number of sleeps, at no cost,
 * until something comes over the network.  The waker uses only fd and wake() of the two
 * transports.
 *
 *   owner      prepare ─> arm ─> shm.wait() ············ returns
 *   waker   ── parked ──┴─> poll(fd) ─> parked, wake(shm) ┘
 */
#include "transport/mux.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "transport/atomics.h"
#include "transport/labels.h"
#include "transport/network.h"

#define BLIND_NS ((int64_t)CLOCK_MS) /* a sleep that the network cannot end */

enum waker { WAKER_PARKED, WAKER_ARMED, WAKER_ENDS };

struct mux {
    struct transport base;
    struct transport *shm, *net;
    uint64_t host;
    /* the waker: */
    bool has_thread;
    pthread_t thread;
    _Atomic uint32_t state; /* enum waker */
    int fd;                 /* the provider's; set before ARMED */
    int bell;               /* eventfd: the waker is to end */
};

static struct mux *mux_of(const struct transport *t)
{
    return container_of(t, struct mux, base);
}

static bool is_mux(const struct transport *t)
{
    return t->ops == &transport_mux || t->ops == &transport_mux_verbs;
}

/* ---- links ---- */

/* The transport that reaches this address. */
static struct transport *part_for(const struct mux *mux,
                                  const struct transport_address *address)
{
    bool is_here = address->kind == ADDRESS_SHM && address->host == mux->host;

    return is_here ? mux->shm : mux->net;
}

static int mux_reaches(const struct transport *t, const struct transport_address *address)
{
    const struct transport *part = part_for(mux_of(t), address);

    return part->ops->reaches(part, address);
}

static int mux_check_address(const struct transport *t, const struct transport_address *address)
{
    const struct transport *part = part_for(mux_of(t), address);

    return part->ops->check_address(part, address);
}

static int mux_connect(struct transport *t, const struct transport_address *address,
                       struct link **link)
{
    struct transport *part = part_for(mux_of(t), address);

    return part->ops->connect(part, address, link);
}

static void mux_address(const struct transport *t, struct transport_address *address)
{
    struct transport *shm = mux_of(t)->shm;

    shm->ops->address(shm, address);
}

struct transport *transport_polled(struct transport *t)
{
    if (!is_mux(t) || mux_of(t)->net->ops->network->is_used(mux_of(t)->net))
        return t;
    return mux_of(t)->shm;
}

struct transport *transport_network(struct transport *t)
{
    return is_mux(t) ? mux_of(t)->net : t;
}

/* ---- polling ---- */

static int mux_poll(struct transport *t, int budget)
{
    struct mux *mux = mux_of(t);

    return mux->shm->ops->poll(mux->shm, budget) + mux->net->ops->poll(mux->net, budget);
}

static bool mux_is_flushed(struct transport *t)
{
    struct mux *mux = mux_of(t);

    return mux->shm->ops->is_flushed(mux->shm) && mux->net->ops->is_flushed(mux->net);
}

/* ---- the waker ---- */

static void sleep_on_network(struct mux *mux)
{
    struct pollfd fds[2] = {{.fd = mux->fd, .events = POLLIN},
                            {.fd = mux->bell, .events = POLLIN}};

    while (sys_poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
}

static void *waker(void *arg)
{
    struct mux *mux = arg;
    uint32_t state;

    /* the acquire pairs with the release in mux_arm() and end_waker(): fd */
    while ((state = atomic_load_explicit(&mux->state, memory_order_acquire)) != WAKER_ENDS) {
        if (state == WAKER_PARKED) {
            sys_futex_wait(&mux->state, WAKER_PARKED, UINT64_MAX);
            continue;
        }
        sleep_on_network(mux);
        state = WAKER_ARMED; /* unless the waker is to end */
        if (atomic_compare_exchange_strong(&mux->state, &state, WAKER_PARKED))
            mux->shm->ops->wake(mux->shm);
    }
    return NULL;
}

static int start_waker(struct mux *mux)
{
    int err;

    if (mux->has_thread)
        return 0;
    err = pthread_create(&mux->thread, NULL, waker, mux);
    if (err != 0)
        LOG_WARN(
            "mux: cannot start a thread to watch the network, error %d %s: ranks that wait "
            "poll instead of sleeping; raise ulimit -u",
            err, strerror(err));
    mux->has_thread = err == 0;
    return -err;
}

/* Without this wake-up, a thread that waits for one of the two waits for ever.  So a failing
 * call is repeated; neither call fails permanently. */
static void wake_waker(struct mux *mux)
{
    while (sys_futex_wake(&mux->state, 1) < 0)
        ;
}

static void ring_waker(struct mux *mux)
{
    const uint64_t one = 1;

    while (sys_write(mux->bell, &one, sizeof one) < 0)
        ;
}

/* Makes the network wake shm.  0; an error. */
static int mux_arm(struct mux *mux, int fd)
{
    int err = start_waker(mux);

    if (err != 0 || atomic_load_explicit(&mux->state, memory_order_acquire) == WAKER_ARMED)
        return err;
    mux->fd = fd;
    atomic_store_explicit(&mux->state, WAKER_ARMED, memory_order_release);
    wake_waker(mux);
    return 0;
}

static void end_waker(struct mux *mux)
{
    if (!mux->has_thread)
        return;
    atomic_store(&mux->state, WAKER_ENDS);
    wake_waker(mux);
    ring_waker(mux);
    pthread_join(mux->thread, NULL);
}

static int mux_wait(struct transport *t, int64_t timeout_ns)
{
    struct mux *mux = mux_of(t);
    int fd, err, ready = mux->net->ops->network->prepare(mux->net, &fd);
    bool is_blind = ready < 0 || (ready == 0 && timeout_ns != 0 && mux_arm(mux, fd) != 0);

    if (ready == 1)
        return 0;
    if (!is_blind || (timeout_ns >= 0 && timeout_ns <= BLIND_NS))
        return mux->shm->ops->wait(mux->shm, timeout_ns);
    err = mux->shm->ops->wait(mux->shm, BLIND_NS);
    return err == -ETIMEDOUT ? 0 : err; /* there is time left */
}

static void mux_wake(struct transport *t)
{
    mux_of(t)->shm->ops->wake(mux_of(t)->shm);
}

/* ---- words: in shared memory ---- */

static int mux_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                           uint64_t desired, uint64_t *found)
{
    return transport_cswap_local(mux_of(t)->shm, index, expected, desired, found);
}

static int mux_store(struct transport *t, uint64_t index, const uint64_t *words, size_t count)
{
    return transport_store(mux_of(t)->shm, index, words, count);
}

/* Operations on a link use the link's own transport. */
static const struct transport_atomics atomics = {
    .cswap_local = mux_cswap_local,
    .store = mux_store,
};

/* ---- open and close ---- */

static int open_parts(struct mux *mux, const struct transport_ops *network,
                      const struct transport_config *config)
{
    struct transport_config here = *config, there = *config;
    struct transport_address address;
    int err;

    there.wants_cswap = false; /* words belong to shm: the network must not swap them as well */
    err = network->open(&there, &mux->net);

    if (err != 0)
        return err;
    mux->net->ops->address(mux->net, &address);
    here.network = &address;
    err = transport_shm.open(&here, &mux->shm);
    if (err != 0) {
        mux->net->ops->close(mux->net);
        return err;
    }
    mux->shm->ops->address(mux->shm, &address);
    network->network->rename(mux->net, &address);
    mux->host = address.host;
    return 0;
}

static int open_mux(const struct transport_ops *ops, const struct transport_ops *network,
                    const struct transport_config *config, struct transport **out)
{
    struct mux *mux = mem_calloc(1, sizeof *mux);
    int err;

    if (mux == NULL)
        return -ENOMEM;
    mux->bell = sys_eventfd(0, 0);
    err = mux->bell < 0 ? -errno : open_parts(mux, network, config);
    if (err != 0) {
        if (mux->bell >= 0)
            sys_close(mux->bell);
        mem_free(mux);
        return err;
    }
    mux->base.ops = ops;
    mux->base.limits = mux->shm->limits;
    mux->base.limits.stays_armed = false; /* a provider's descriptor is armed for one sleep */
    mux->base.limits.packet_max =
        min_size(mux->shm->limits.packet_max, mux->net->limits.packet_max);
    mux->base.limits.can_read |= mux->net->limits.can_read;
    *out = &mux->base;
    return 0;
}

static void mux_close(struct transport *t)
{
    struct mux *mux = mux_of(t);

    end_waker(mux);
    mux->net->ops->close(mux->net);
    mux->shm->ops->close(mux->shm);
    sys_close(mux->bell);
    mem_free(mux);
}

static int mux_open(const struct transport_config *config, struct transport **out)
{
    return open_mux(&transport_mux, &transport_ofi, config, out);
}

static int mux_open_verbs(const struct transport_config *config, struct transport **out)
{
    return open_mux(&transport_mux_verbs, &transport_verbs, config, out);
}

static int mux_share(struct transport *t, uint64_t label,
                     const struct transport_address *address)
{
    return transport_share(mux_of(t)->shm, label, address);
}

static int mux_find(const struct transport *t, uint64_t label,
                    struct transport_address *address)
{
    return transport_find(mux_of(t)->shm, label, address);
}

static const struct transport_labels labels = {.share = mux_share, .find = mux_find};

#define OPERATIONS                                                                             \
    .atomics = &atomics, .labels = &labels, .close = mux_close, .address = mux_address,        \
    .reaches = mux_reaches, .connect = mux_connect, .check_address = mux_check_address,        \
    .poll = mux_poll, .wait = mux_wait, .wake = mux_wake, .is_flushed = mux_is_flushed

const struct transport_ops transport_mux = {
    .name = "shm+ofi",
    .about = "shm on this machine, ofi to others",
    .open = mux_open,
    OPERATIONS,
};

const struct transport_ops transport_mux_verbs = {
    .name = "shm+verbs",
    .about = "shm on this machine, verbs to others",
    .open = mux_open_verbs,
    OPERATIONS,
};
