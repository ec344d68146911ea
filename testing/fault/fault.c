/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.c - a transport that makes rare events frequent.
 *
 *   core  <- link of ours ->  fault  <- link of its own ->  wrapped transport
 *
 * A disturbance happens in MBX_FAULT_PERCENT of the calls, chosen by a generator with
 * MBX_FAULT_SEED:
 *
 *   send       is full once more                     -EAGAIN
 *   accept     the core is asked later
 *   deliver    the packet is held back: it comes with a later poll(), before all later
 *              packets of its link
 *   load       sees nothing now                      -EAGAIN
 *   read       has no space (-EAGAIN), fails (-EIO), or is done but reports it only in the
 *              next poll() (-EINPROGRESS)
 *   cswap      if the caller can wait: is done, or fails, with the next poll()
 *
 * At the place MBX_FAULT_DIE, if it is set, this process dies (failpoints.h).
 *
 * The order within a link, the delivered packets, and permanent errors are the
 * same as in the wrapped transport.
 *
 * Our link to a peer is found by the number that the wrapped transport returns:
 *
 * Invariants
 *   I1  inner->peer is the index in links[] of the link around inner; index 0 is no
 *       link, so that a fresh inner link (peer 0) has none
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "testing/fault/failpoints.h"
#include "testing/fault/fault.h"
#include "testing/testing.h"
#include "transport/atomics.h"
#include "transport/handoff.h"
#include "transport/bounce.h"
#include "transport/memory.h"

#define PERCENT_MAX 90 /* packets that are held back must come at last */

struct fault_link {
    struct link base;
    struct link *inner;
};

struct fault {
    struct transport base;
    struct transport *inner;
    struct transport_ops ops; /* ours, with the name of the wrapped transport */
    char name[32];
    const struct transport_events *events;
    void *arg;
    struct random random;
    uint64_t percent;
    char die[PARAM_STRING_MAX]; /* "": nowhere */
    struct fault_link **links;  /* [0] is NULL */
    uint32_t link_count, link_capacity;
    struct fault_link *spare; /* for the next link, or NULL */
    struct list late;         /* late.in_late */
    bool said_again;          /* returned -EAGAIN since the last wait() */
    void *found;              /* the buffer that was looked up last */
    size_t found_size;
};

/* A read or write that is done but not reported, or a swap that is not done. */
struct late {
    struct list in_late;
    void *cookie;       /* for a read or write */
    struct link *inner; /* for a swap, or NULL */
    uint64_t index, expected, desired, name;
};

static struct fault *fault_of(const struct transport *t)
{
    return container_of(t, struct fault, base);
}

static struct fault_link *link_of(struct link *link)
{
    return container_of(link, struct fault_link, base);
}

static bool strikes(struct fault *fault)
{
    return random_below(&fault->random, 100) < fault->percent;
}

/* ---- dying ---- */

static void come_by_packet(const struct fault *fault, const char *prefix, unsigned type)
{
    const char *name = wire_type_name(type);

    if (unlikely(fault->die[0] != '\0') && name != NULL)
        failpoint_reach(fault->die, prefix, name);
}

/* Does the process die in the middle of this read or write? */
static bool dies_within(const struct fault *fault, const char *point, size_t size)
{
    return unlikely(fault->die[0] != '\0') && size > 1 && strcmp(fault->die, point) == 0;
}

/* ---- links ---- */

static int links_grow(struct fault *fault)
{
    uint32_t capacity = fault->link_capacity == 0 ? 8 : fault->link_capacity * 2;
    struct fault_link **links = mem_realloc(fault->links, capacity * sizeof *links);

    if (links == NULL)
        return -ENOMEM;
    if (fault->link_capacity == 0) {
        links[0] = NULL;
        fault->link_count = 1;
    }
    fault->links = links;
    fault->link_capacity = capacity;
    return 0;
}

static struct fault_link *link_around(const struct fault *fault, const struct link *inner)
{
    return inner->peer != 0 && inner->peer < fault->link_count &&
                   fault->links[inner->peer]->inner == inner
               ? fault->links[inner->peer]
               : NULL;
}

/* Ensures that the next link_wrap() needs no memory.  0; -ENOMEM. */
static int spare_make(struct fault *fault)
{
    if (fault->link_count == fault->link_capacity && links_grow(fault) != 0)
        return -ENOMEM;
    if (fault->spare == NULL)
        fault->spare = mem_calloc(1, sizeof *fault->spare);
    return fault->spare != NULL ? 0 : -ENOMEM;
}

/* Call spare_make() first. */
static struct fault_link *link_wrap(struct fault *fault, struct link *inner)
{
    struct fault_link *link = link_around(fault, inner);

    if (link != NULL)
        return link;
    link = fault->spare;
    fault->spare = NULL;
    link->base.transport = &fault->base;
    link->inner = inner;
    inner->peer = fault->link_count;
    fault->links[fault->link_count++] = link;
    return link;
}

static int fault_reaches(const struct transport *t, const struct transport_address *address)
{
    const struct transport *inner = fault_of(t)->inner;

    return inner->ops->reaches(inner, address);
}

static int fault_check_address(const struct transport *t,
                               const struct transport_address *address)
{
    const struct transport *inner = fault_of(t)->inner;

    return inner->ops->check_address(inner, address);
}

static int fault_connect(struct transport *t, const struct transport_address *address,
                         struct link **out)
{
    struct fault *fault = fault_of(t);
    struct link *inner;
    /* first: once the wrapped transport has connected a peer, it does not present it again */
    int err = spare_make(fault);

    if (err == 0)
        err = fault->inner->ops->connect(fault->inner, address, &inner);
    if (err == 0)
        *out = &link_wrap(fault, inner)->base;
    return err;
}

/* ---- events from below ---- */

static int on_accept(void *arg, struct link *inner, const struct transport_address *address,
                     uint32_t *peer)
{
    struct fault *fault = arg;
    struct fault_link *link;
    int err;

    if (strikes(fault) || spare_make(fault) != 0)
        return -EAGAIN;
    link = link_wrap(fault, inner);
    if (spare_make(fault) != 0) /* for a connect() within accept() */
        return -EAGAIN;
    err = fault->events->accept(fault->arg, &link->base, address, &link->base.peer);
    if (err == 0)
        *peer = inner->peer;
    return err;
}

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct fault *fault = arg;

    assert(peer != 0 && peer < fault->link_count);
    if (strikes(fault))
        return -EAGAIN;
    if (size >= sizeof(struct wire_header))
        come_by_packet(fault, FAILPOINT_GOT, ((const struct wire_header *)packet)->type);
    return fault->events->deliver(fault->arg, fault->links[peer]->base.peer, packet, size);
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct fault *fault = arg;

    fault->events->read_done(fault->arg, cookie, error);
}

static void on_cswap_done(void *arg, uint64_t cookie, int error, bool is_swapped)
{
    struct fault *fault = arg;

    fault->events->cswap_done(fault->arg, cookie, error, is_swapped);
}

static void on_dropped(void *arg, const char *reason)
{
    struct fault *fault = arg;

    fault->events->dropped(fault->arg, reason);
}

static void on_repeats(void *arg, uint32_t peer)
{
    struct fault *fault = arg;

    if (fault->events->repeats != NULL)
        fault->events->repeats(fault->arg, fault->links[peer]->base.peer);
}

static void on_sleeps(void *arg)
{
    struct fault *fault = arg;

    if (fault->events->sleeps != NULL)
        fault->events->sleeps(fault->arg);
}

static void on_slept(void *arg)
{
    struct fault *fault = arg;

    if (fault->events->slept != NULL)
        fault->events->slept(fault->arg);
}

static const struct transport_events events_from_below = {
    .accept = on_accept,
    .deliver = on_deliver,
    .read_done = on_read_done,
    .cswap_done = on_cswap_done,
    .dropped = on_dropped,
    .repeats = on_repeats,
    .sleeps = on_sleeps,
    .slept = on_slept,
};

/* ---- calls from above ---- */

static void fault_address(const struct transport *t, struct transport_address *address)
{
    const struct fault *fault = fault_of(t);

    fault->inner->ops->address(fault->inner, address);
}

static int fault_send(struct link *l, const struct transport_packet *packet)
{
    struct fault *fault = fault_of(l->transport);
    struct link *inner = link_of(l)->inner;
    int err;

    if (strikes(fault)) {
        fault->said_again = true;
        return -EAGAIN;
    }
    err = inner->transport->ops->send(inner, packet);
    if (err == 0)
        come_by_packet(fault, FAILPOINT_SENT, packet->header->type);
    return err;
}

/* Delays the report, or the operation.  False: no memory. */
static bool delay(struct fault *fault, const struct late *what)
{
    struct late *late = mem_alloc(sizeof *late);

    if (late == NULL)
        return false;
    *late = *what;
    list_init_node(&late->in_late);
    list_add_tail(&fault->late, &late->in_late);
    return true;
}

static int delay_read(struct fault *fault, void *cookie)
{
    return delay(fault, &(struct late){.cookie = cookie}) ? -EINPROGRESS : 0;
}

/* The disturbance of a read or write before it is tried. */
static int access_strikes(struct fault *fault)
{
    if (strikes(fault)) {
        fault->said_again = true;
        return -EAGAIN;
    }
    return strikes(fault) ? -EIO : 0;
}

static int fault_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                      void *cookie)
{
    struct fault *fault = fault_of(l->transport);
    struct link *inner = link_of(l)->inner;
    int err = access_strikes(fault);

    if (dies_within(fault, FAILPOINT_READING, size))
        size /= 2;
    if (err == 0)
        err = transport_read(inner, dst, address, key, size, cookie);
    if ((err == 0 || err == -EINPROGRESS) && fault->die[0] != '\0')
        failpoint_reach(fault->die, "", FAILPOINT_READING);
    return err == 0 && strikes(fault) ? delay_read(fault, cookie) : err;
}

static int fault_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                       size_t size, void *cookie)
{
    struct fault *fault = fault_of(l->transport);
    struct link *inner = link_of(l)->inner;
    int err = access_strikes(fault);

    if (dies_within(fault, FAILPOINT_WRITING, size))
        size /= 2;
    if (err == 0)
        err = transport_write(inner, address, key, src, size, cookie);
    if ((err == 0 || err == -EINPROGRESS) && fault->die[0] != '\0')
        failpoint_reach(fault->die, "", FAILPOINT_WRITING);
    return err == 0 && strikes(fault) ? delay_read(fault, cookie) : err;
}

static int fault_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                        uint64_t *key)
{
    return transport_expose(link_of(l)->inner, buf, size, address, key);
}

static void fault_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    transport_unexpose(link_of(l)->inner, address, key);
}

static void end_cswap(struct fault *fault, const struct late *late)
{
    uint64_t found = 0;
    int err =
        transport_cswap(late->inner, late->index, late->expected, late->desired, &found, 0);

    if (err == 0 && strikes(fault))
        err = -EIO; /* it may be done nevertheless */
    fault->events->cswap_done(fault->arg, late->name, err, err == 0 && found == late->expected);
}

/* Reports the ones that wait now; operations that the callbacks start wait for the next
 * poll(). */
static int report_late(struct fault *fault)
{
    struct list now;
    struct list *node;
    int count = 0;

    list_init(&now);
    list_splice_tail(&now, &fault->late);
    while ((node = list_pop_head(&now)) != NULL) {
        struct late late = *container_of(node, struct late, in_late);

        mem_free(container_of(node, struct late, in_late));
        if (late.inner != NULL)
            end_cswap(fault, &late);
        else
            fault->events->read_done(fault->arg, late.cookie, 0);
        count++;
    }
    return count;
}

static int fault_poll(struct transport *t, int budget)
{
    struct fault *fault = fault_of(t);
    int count = report_late(fault);

    return count + fault->inner->ops->poll(fault->inner, budget);
}

static int fault_wait(struct transport *t, int64_t timeout_ns)
{
    struct fault *fault = fault_of(t);

    /* this transport itself returned -EAGAIN */
    if (!list_is_empty(&fault->late) || fault->said_again) {
        fault->said_again = false;
        return 0;
    }
    return fault->inner->ops->wait(fault->inner, timeout_ns);
}

static int fault_check(struct link *l)
{
    struct link *inner = link_of(l)->inner;

    return inner->transport->ops->check(inner);
}

static struct transport_who fault_who(struct link *l)
{
    struct link *inner = link_of(l)->inner;

    return inner->transport->ops->who != NULL ? inner->transport->ops->who(inner)
                                              : (struct transport_who){0};
}

static int fault_cswap(struct link *l, uint64_t index, uint64_t expected, uint64_t desired,
                       uint64_t *found, uint64_t cookie)
{
    struct fault *fault = fault_of(l->transport);
    struct link *inner = link_of(l)->inner;
    const struct late late = {.inner = inner,
                              .index = index,
                              .expected = expected,
                              .desired = desired,
                              .name = cookie};

    if (cookie != 0 && inner->transport->limits.is_instant && strikes(fault) &&
        delay(fault, &late))
        return -EINPROGRESS;
    return transport_cswap(inner, index, expected, desired, found, cookie);
}

static int fault_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                             uint64_t desired, uint64_t *found)
{
    return transport_cswap_local(fault_of(t)->inner, index, expected, desired, found);
}

static int fault_load_local(struct transport *t, uint64_t index, uint64_t *found)
{
    return transport_load_local(fault_of(t)->inner, index, found);
}

static int fault_load(struct link *l, uint64_t index, uint64_t *words, size_t count)
{
    return strikes(fault_of(l->transport))
               ? -EAGAIN
               : transport_load(link_of(l)->inner, index, words, count);
}

static int fault_store(struct transport *t, uint64_t index, const uint64_t *words, size_t count)
{
    return transport_store(fault_of(t)->inner, index, words, count);
}

static void fault_wake(struct transport *t)
{
    struct fault *fault = fault_of(t);

    fault->inner->ops->wake(fault->inner);
}

static bool fault_is_flushed(struct transport *t)
{
    struct fault *fault = fault_of(t);

    return fault->inner->ops->is_flushed(fault->inner);
}

static void fault_close(struct transport *t)
{
    struct fault *fault = fault_of(t);
    struct list *node;

    fault->inner->ops->close(fault->inner);
    while ((node = list_pop_head(&fault->late)) != NULL)
        mem_free(container_of(node, struct late, in_late));
    for (uint32_t i = 1; i < fault->link_count; i++)
        mem_free(fault->links[i]);
    mem_free(fault->spare);
    mem_free(fault->links);
    mem_free(fault);
}

/* ---- the tables: the wrapper has the operations of the wrapped transport, and returns -ENOTSUP for all others ---- */

static const struct transport_memory memory = {
    .expose = fault_expose,
    .unexpose = fault_unexpose,
    .read = fault_read,
    .write = fault_write,
};

static const struct transport_atomics atomics = {
    .cswap = fault_cswap,
    .cswap_local = fault_cswap_local,
    .load_local = fault_load_local,
    .load = fault_load,
    .store = fault_store,
};

static int fault_hand_over(struct transport *t, struct transport_handle *handle)
{
    return transport_hand_over(fault_of(t)->inner, handle);
}

static int fault_take_back(struct transport *t)
{
    return transport_take_back(fault_of(t)->inner);
}

static void fault_wake_other(struct transport *t)
{
    transport_wake_other(fault_of(t)->inner);
}

/* A peer that took over would take over from the wrapped transport, undisturbed. */
static const struct transport_handoff handoff = {
    .hand_over = fault_hand_over,
    .take_back = fault_take_back,
    .wake_other = fault_wake_other,
};

static void *fault_bounce_take(struct link *l, uint32_t among, uint32_t *buffer, size_t *size)
{
    return strikes(fault_of(l->transport))
               ? NULL
               : transport_bounce_take_among(link_of(l)->inner, among, buffer, size);
}

static bool fault_bounce_can_take(struct link *l)
{
    return transport_bounce_can_take(link_of(l)->inner);
}

static uint32_t fault_bounce_rotation(struct link *l)
{
    return transport_bounce_rotation(link_of(l)->inner);
}

static bool fault_bounce_has_free(struct link *l, size_t bytes)
{
    return transport_bounce_has_free(link_of(l)->inner, bytes);
}

static void fault_bounce_untake(struct link *l, uint32_t buffer)
{
    transport_bounce_untake(link_of(l)->inner, buffer);
}

static int fault_bounce_map(struct link *l)
{
    return strikes(fault_of(l->transport)) ? -EAGAIN : transport_bounce_map(link_of(l)->inner);
}

static void fault_bounce_allow(struct link *l, bool few)
{
    transport_bounce_allow(link_of(l)->inner, few);
}

static void fault_bounce_limit(struct transport *t, uint64_t bytes)
{
    transport_bounce_limit(fault_of(t)->inner, bytes);
}

static uint64_t fault_bounce_resident(const struct transport *t)
{
    return transport_bounce_resident(fault_of(t)->inner);
}

static bool fault_bounce_allows(struct link *l)
{
    return transport_bounce_allows(link_of(l)->inner);
}

static bool fault_bounce_allows_many(struct link *l)
{
    return transport_bounce_allows_many(link_of(l)->inner);
}

static const void *fault_bounce_find(struct link *l, uint64_t buffer, uint64_t size)
{
    struct fault *fault = fault_of(l->transport);
    const void *bytes = transport_bounce_find(link_of(l)->inner, buffer, size);

    fault->found = (void *)(uintptr_t)bytes;
    fault->found_size = bytes != NULL ? (size_t)size : 0;
    return bytes;
}

/* The sender may write to the buffer from now on: a reader that still unpacks finds this
 * pattern. */
static void fault_bounce_release(struct link *l, uint64_t buffer)
{
    struct fault *fault = fault_of(l->transport);

    if (fault->found_size != 0)
        memset(fault->found, 0xdd, fault->found_size);
    fault->found_size = 0;
    transport_bounce_release(link_of(l)->inner, buffer);
}

static const struct transport_bounce bounce = {
    .take = fault_bounce_take,
    .can_take = fault_bounce_can_take,
    .rotation = fault_bounce_rotation,
    .has_free = fault_bounce_has_free,
    .untake = fault_bounce_untake,
    .map = fault_bounce_map,
    .allow = fault_bounce_allow,
    .limit = fault_bounce_limit,
    .resident = fault_bounce_resident,
    .allows = fault_bounce_allows,
    .allows_many = fault_bounce_allows_many,
    .find = fault_bounce_find,
    .release = fault_bounce_release,
};

static const struct transport_ops ops = {
    .about = "disturbs what it wraps, for tests",
    .memory = &memory,
    .atomics = &atomics,
    .handoff = &handoff,
    .bounce = &bounce,
    .close = fault_close,
    .address = fault_address,
    .reaches = fault_reaches,
    .connect = fault_connect,
    .send = fault_send,
    .check = fault_check,
    .check_address = fault_check_address,
    .who = fault_who,
    .poll = fault_poll,
    .wait = fault_wait,
    .wake = fault_wake,
    .is_flushed = fault_is_flushed,
};

struct transport *transport_fault_inner(struct transport *t)
{
    return t->ops->close == fault_close ? fault_of(t)->inner : t;
}

int transport_fault_open(const struct transport_ops *wrapped,
                         const struct transport_config *config, struct transport **out)
{
    const struct testing_settings *settings = testing_settings_of(&config->settings);
    struct transport_config inner_config = *config;
    struct fault *fault;
    int err;

    if (settings->fault_percent > PERCENT_MAX) {
        LOG_ERROR("fault: %" PRIu64 " percent is out of range 0..%d", settings->fault_percent,
                  PERCENT_MAX);
        return -EINVAL;
    }
    fault = mem_calloc(1, sizeof *fault);
    if (fault == NULL)
        return -ENOMEM;
    inner_config.events = &events_from_below;
    inner_config.arg = fault;
    err = wrapped->open(&inner_config, &fault->inner);
    if (err != 0) {
        mem_free(fault);
        return err;
    }
    fault->ops = ops;
    snprintf(fault->name, sizeof fault->name, "fault(%s)", wrapped->name);
    fault->ops.name = fault->name;
    fault->base = (struct transport){.ops = &fault->ops, .limits = fault->inner->limits};
    fault->events = config->events;
    fault->arg = config->arg;
    fault->percent = settings->fault_percent;
    snprintf(fault->die, sizeof fault->die, "%s", settings->fault_die);
    random_seed(&fault->random, settings->fault_seed);
    list_init(&fault->late);
    *out = &fault->base;
    return 0;
}
