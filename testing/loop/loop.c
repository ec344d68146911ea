/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.c - endpoints of one process, without threads and without randomness.
 *
 *   sender                                               receiver
 *   links -> link.out -> queue | p1 | p2 |   |   | <- ready (queues with packets)
 *                              LOOP_DEPTH packets        inbox (all queues to it)
 *
 * For tests and simulation: queues are tiny on purpose, every other read is completed
 * by the next poll(), and a read outside of exposed memory fails.  So events that are rare on
 * a real transport are frequent here, and the same program always behaves in the same way.
 *
 * The first send of an ordered pair creates its queue.  It belongs to both sides and
 * is freed by the side that releases it last: packets of a closed sender can still be
 * delivered, and a sender whose receiver has closed finds receiver == NULL.
 *
 * Invariants
 *   I1  a queue is on the ready list of its receiver if and only if it has packets
 *   I2  a queue without sender is freed when its last packet has gone
 *   I3  the registry holds exactly the open endpoints; an id (index and generation) is
 *       never used twice
 *
 * Threads: only the registry may be used by several at once.  Endpoints that communicate
 * with each other must be driven by one thread at a time.
 *
 * wait() never sleeps, because nobody could wake it.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"
#include "transport/atomics.h"
#include "transport/link_table.h"
#include "transport/memory.h"

#define LOOP_PACKET_MAX    512
#define LOOP_INLINE_MAX    64
#define LOOP_DEPTH_MAX     (1u << 16)
#define LOOP_DEPTH_DEFAULT 4
#define LOOP_WORDS         4 /* few, so that tests run out of them */
#define LOOP_TABLE         8704

struct loop {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    uint32_t depth;
    uint32_t index; /* in the registry */
    uint64_t generation;
    uint32_t credit;
    struct link_table links;
    struct list inbox;     /* queue.in_inbox */
    struct list ready;     /* queue.in_ready */
    struct list blocked;   /* link.in_blocked: send() returned -EAGAIN */
    struct list reads;     /* pending_read.in_reads */
    struct list exposures; /* exposure.in_exposures */
    uint64_t next_key;
    bool next_read_waits;
    _Atomic uint64_t words[LOOP_WORDS + LOOP_TABLE];
};

struct loop_link {
    struct link_member member;
    struct loop_queue *out; /* NULL until the first send */
    struct list in_blocked;
};

struct loop_packet {
    alignas(8) unsigned char bytes[LOOP_PACKET_MAX];
    size_t size;
};

struct loop_queue {
    struct loop *receiver;    /* NULL: closed */
    struct loop_link *sender; /* NULL: closed */
    struct loop_link *answer; /* the receiver's link to the sender, once it is known */
    struct transport_address from;
    bool refused;
    struct list in_inbox, in_ready;
    uint32_t depth, first, count;
    struct loop_packet packets[];
};

struct pending_read {
    struct list in_reads;
    struct loop_link *link;
    void *here, *cookie;
    uint64_t address, key;
    bool is_write; /* from here */
    size_t size;
};

struct exposure {
    struct list in_exposures;
    uint64_t address, key;
    size_t size;
};

/* ---- registry ---- */

static struct {
    pthread_mutex_t lock;
    struct loop **endpoints; /* NULL: free */
    uint32_t count, live;
    uint64_t last_generation;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int registry_grow(void)
{
    uint32_t count = registry.count == 0 ? 8 : registry.count * 2;
    struct loop **endpoints = mem_realloc(registry.endpoints, count * sizeof *endpoints);

    if (endpoints == NULL)
        return -ENOMEM;
    memset(endpoints + registry.count, 0, (count - registry.count) * sizeof *endpoints);
    registry.endpoints = endpoints;
    registry.count = count;
    return 0;
}

static int registry_add_locked(struct loop *loop)
{
    uint32_t index = 0;

    if (registry.live == registry.count && registry_grow() != 0)
        return -ENOMEM;
    /* ids are given in order, so the free one is nearly always at live */
    if (registry.endpoints[registry.live] == NULL)
        index = registry.live;
    while (registry.endpoints[index] != NULL)
        index++;
    registry.endpoints[index] = loop;
    registry.live++;
    loop->index = index;
    loop->generation = ++registry.last_generation;
    return 0;
}

static int registry_add(struct loop *loop)
{
    int err;

    pthread_mutex_lock(&registry.lock);
    err = registry_add_locked(loop);
    pthread_mutex_unlock(&registry.lock);
    return err;
}

static void registry_remove(struct loop *loop)
{
    pthread_mutex_lock(&registry.lock);
    registry.endpoints[loop->index] = NULL;
    if (--registry.live == 0) { /* a process that no longer uses loop keeps no memory */
        mem_free(registry.endpoints);
        registry.endpoints = NULL;
        registry.count = 0;
    }
    pthread_mutex_unlock(&registry.lock);
}

/* 0 and *out; -ENOTCONN: it is closed; -EHOSTUNREACH: it never existed. */
static int registry_find(const struct transport_address *address, struct loop **out)
{
    struct loop *found = NULL;
    bool existed;

    pthread_mutex_lock(&registry.lock);
    if (address->place < registry.count)
        found = registry.endpoints[address->place];
    if (found != NULL && found->generation != address->cookie)
        found = NULL;
    existed = address->cookie <= registry.last_generation;
    pthread_mutex_unlock(&registry.lock);
    if (found == NULL)
        return existed ? -ENOTCONN : -EHOSTUNREACH;
    *out = found;
    return 0;
}

/* ---- addresses and links ---- */

static struct loop *loop_of(const struct transport *t)
{
    return container_of(t, struct loop, base);
}

static struct loop_link *link_of(struct link *link)
{
    return container_of(link, struct loop_link, member.link);
}

static void loop_address(const struct transport *t, struct transport_address *address)
{
    const struct loop *loop = loop_of(t);

    *address = (struct transport_address){
        .kind = ADDRESS_LOOP,
        .process = (uint32_t)getpid(),
        .place = loop->index,
        .credit = loop->credit,
        .cookie = loop->generation,
    };
}

static int check_address(const struct transport_address *address)
{
    struct transport_address expected = {.kind = ADDRESS_LOOP,
                                         .process = (uint32_t)getpid(),
                                         .place = address->place,
                                         .cookie = address->cookie};

    if (address->cookie == 0)
        return -EINVAL;
    if (address_is_same(address, &expected))
        return 0;
    expected.process = address->process;
    return address_is_same(address, &expected) ? -EHOSTUNREACH : -EINVAL;
}

/* The link to address, created if there is none; NULL: no memory. */
static struct loop_link *link_to(struct loop *loop, const struct transport_address *address)
{
    struct link_member *known = link_table_find(&loop->links, address);
    struct loop_link *link;

    if (known != NULL)
        return container_of(known, struct loop_link, member);
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->member.link.transport = &loop->base;
    link->member.address = *address;
    if (link_table_add(&loop->links, &link->member) != 0) {
        mem_free(link);
        return NULL;
    }
    return link;
}

static int loop_reaches(const struct transport *t, const struct transport_address *address)
{
    (void)t;
    return check_address(address);
}

static int loop_connect(struct transport *t, const struct transport_address *address,
                        struct link **out)
{
    struct loop_link *link;
    int err = check_address(address);

    if (err != 0)
        return err;
    link = link_to(loop_of(t), address);
    if (link == NULL)
        return -ENOMEM;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

/* ---- queues ---- */

static void queue_destroy(struct loop_queue *q)
{
    list_remove(&q->in_inbox);
    list_remove(&q->in_ready);
    mem_free(q);
}

/* Creates the queue of link for its first packet. */
static int queue_create(struct loop_link *link)
{
    struct loop *sender = loop_of(link->member.link.transport);
    struct loop *receiver;
    struct loop_queue *q;
    int err = registry_find(&link->member.address, &receiver);

    if (err != 0)
        return err;
    q = mem_calloc(1, sizeof *q + receiver->depth * sizeof q->packets[0]);
    if (q == NULL)
        return -EAGAIN; /* as if it were full */
    q->receiver = receiver;
    q->sender = link;
    q->depth = receiver->depth;
    loop_address(&sender->base, &q->from);
    list_add_tail(&receiver->inbox, &q->in_inbox);
    link->out = q;
    return 0;
}

static unsigned char *put(unsigned char *to, const void *from, size_t size)
{
    if (size != 0)
        memcpy(to, from, size);
    return to + size;
}

static void queue_push(struct loop_queue *q, const struct transport_packet *packet)
{
    struct loop_packet *p = &q->packets[(q->first + q->count) % q->depth];
    unsigned char *end = put(p->bytes, packet->header, sizeof *packet->header);

    end = put(end, packet->body, packet->body_size);
    end = put(end, packet->payload, packet->payload_size);
    p->size = (size_t)(end - p->bytes);
    if (q->count++ == 0)
        list_add_tail(&q->receiver->ready, &q->in_ready);
}

static int loop_send(struct link *l, const struct transport_packet *packet)
{
    struct loop_link *link = link_of(l);
    struct loop *loop = loop_of(l->transport);
    int err = 0;

    assert(sizeof *packet->header + packet->body_size + packet->payload_size <=
           LOOP_PACKET_MAX);
    if (link->out == NULL)
        err = queue_create(link);
    else if (link->out->receiver == NULL)
        err = -ENOTCONN;
    else if (link->out->count == link->out->depth)
        err = -EAGAIN;
    list_remove(&link->in_blocked);
    if (err == 0)
        queue_push(link->out, packet);
    else if (err == -EAGAIN)
        list_add_tail(&loop->blocked, &link->in_blocked);
    return err;
}

static int loop_check(struct link *l)
{
    struct loop_link *link = link_of(l);
    struct loop *receiver;

    if (link->out != NULL)
        return link->out->receiver == NULL ? -ENOTCONN : 0;
    return registry_find(&link->member.address, &receiver);
}

static int loop_check_address(const struct transport *t,
                              const struct transport_address *address)
{
    struct loop *receiver;

    (void)t;
    return registry_find(address, &receiver);
}

static int loop_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                            uint64_t desired, uint64_t *found)
{
    if (index >= LOOP_WORDS + LOOP_TABLE)
        return -EINVAL;
    *found = expected;
    atomic_compare_exchange_strong(&loop_of(t)->words[index], found, desired);
    return 0;
}

static int loop_cswap(struct link *l, uint64_t index, uint64_t expected, uint64_t desired,
                      uint64_t *found, uint64_t cookie)
{
    struct loop *receiver;
    int err = registry_find(&link_of(l)->member.address, &receiver);

    (void)cookie;
    return err != 0 ? err : loop_cswap_local(&receiver->base, index, expected, desired, found);
}

static bool has_words(uint64_t index, size_t count)
{
    const uint64_t all = LOOP_WORDS + LOOP_TABLE;

    return index <= all && count <= all - index;
}

static int loop_load(struct link *l, uint64_t index, uint64_t *words, size_t count)
{
    struct loop *remote;
    int err = registry_find(&link_of(l)->member.address, &remote);

    if (err != 0)
        return err;
    if (!has_words(index, count))
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        words[i] = atomic_load_explicit(&remote->words[index + i], memory_order_acquire);
    return 0;
}

static int loop_store(struct transport *t, uint64_t index, const uint64_t *words, size_t count)
{
    if (!has_words(index, count))
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&loop_of(t)->words[index + i], words[i], memory_order_release);
    return 0;
}

/* ---- receiving ---- */

/* Finds or creates the link to answer through, and introduces an unknown peer to the core.  0,
 * even if it is refused; -EAGAIN: later. */
static int introduce(struct loop *loop, struct loop_queue *q)
{
    struct loop_link *link;
    int err;

    if (q->answer != NULL || q->refused)
        return 0;
    link = link_to(loop, &q->from);
    if (link == NULL)
        return -EAGAIN;
    err = link_member_present(&link->member, loop->events, loop->arg);
    if (err == -EAGAIN)
        return err;
    if (err != 0)
        q->refused = true;
    else
        q->answer = link;
    return 0;
}

/* Delivers the oldest packet.  0: it has gone; -EAGAIN: it stays. */
static int deliver_first(struct loop *loop, struct loop_queue *q)
{
    struct loop_packet *p = &q->packets[q->first];
    int err = introduce(loop, q);

    if (err != 0)
        return err;
    if (q->refused)
        loop->events->dropped(loop->arg, "packet of an endpoint that was refused");
    else
        err = loop->events->deliver(loop->arg, q->answer->member.link.peer, p->bytes, p->size);
    if (err != 0)
        return -EAGAIN;
    q->first = (q->first + 1) % q->depth;
    q->count--;
    return 0;
}

static void deliver_ready(struct loop *loop, int budget, int *delivered)
{
    struct list stuck;
    struct list *node;

    list_init(&stuck);
    while (*delivered < budget && (node = list_pop_head(&loop->ready)) != NULL) {
        struct loop_queue *q = container_of(node, struct loop_queue, in_ready);

        /* the queue is on no list now; a packet that deliver() sends to ourselves
         * must not add it, and does not: count is not 0 before the packet has gone */
        if (deliver_first(loop, q) != 0) {
            list_add_tail(&stuck, node);
            continue;
        }
        (*delivered)++;
        if (q->count != 0)
            list_add_tail(&loop->ready, node);
        else if (q->sender == NULL)
            queue_destroy(q);
    }
    list_splice_tail(&stuck, &loop->ready);
    list_splice_tail(&loop->ready, &stuck);
}

/* ---- reading and writing memory ---- */

static int copy_exposed(struct loop_link *link, void *here, uint64_t address, uint64_t key,
                        size_t size, bool is_write)
{
    void *there = (void *)(uintptr_t)address;
    struct loop *remote;
    struct list *node;
    int err = registry_find(&link->member.address, &remote);

    if (err != 0)
        return err;
    list_for_each (node, &remote->exposures) {
        struct exposure *e = container_of(node, struct exposure, in_exposures);

        if (e->key == key && address >= e->address && address - e->address <= e->size &&
            size <= e->size - (address - e->address)) {
            if (size != 0)
                memmove(is_write ? there : here, is_write ? here : there, size);
            return 0;
        }
    }
    return -EFAULT;
}

static int loop_copy(struct link *l, void *here, uint64_t address, uint64_t key, size_t size,
                     void *cookie, bool is_write)
{
    struct loop *loop = loop_of(l->transport);
    struct pending_read *read;

    loop->next_read_waits = !loop->next_read_waits;
    if (loop->next_read_waits)
        return copy_exposed(link_of(l), here, address, key, size, is_write);
    read = mem_alloc(sizeof *read);
    if (read == NULL)
        return -EAGAIN;
    *read = (struct pending_read){.link = link_of(l),
                                  .here = here,
                                  .cookie = cookie,
                                  .address = address,
                                  .key = key,
                                  .is_write = is_write,
                                  .size = size};
    list_add_tail(&loop->reads, &read->in_reads);
    return -EINPROGRESS;
}

static int loop_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                     void *cookie)
{
    return loop_copy(l, dst, address, key, size, cookie, false);
}

static int loop_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                      size_t size, void *cookie)
{
    return loop_copy(l, (void *)(uintptr_t)src, address, key, size, cookie, true);
}

/* Completes the reads that wait now; reads that read_done() starts are for the next poll(). */
static int complete_reads(struct loop *loop)
{
    struct list now;
    struct list *node;
    int done = 0;

    list_init(&now);
    list_splice_tail(&now, &loop->reads);
    while ((node = list_pop_head(&now)) != NULL) {
        struct pending_read *r = container_of(node, struct pending_read, in_reads);
        int err = copy_exposed(r->link, r->here, r->address, r->key, r->size, r->is_write);
        void *cookie = r->cookie;

        mem_free(r);
        loop->events->read_done(loop->arg, cookie, err);
        done++;
    }
    return done;
}

static int loop_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                       uint64_t *key)
{
    struct loop *loop = loop_of(l->transport);
    struct exposure *e = mem_alloc(sizeof *e);

    if (e == NULL)
        return -ENOMEM;
    *e = (struct exposure){.address = (uintptr_t)buf, .key = ++loop->next_key, .size = size};
    list_add_tail(&loop->exposures, &e->in_exposures);
    *address = e->address;
    *key = e->key;
    return 0;
}

static void loop_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    struct loop *loop = loop_of(l->transport);
    struct list *node, *next;

    (void)address;
    list_for_each_safe (node, next, &loop->exposures) {
        struct exposure *e = container_of(node, struct exposure, in_exposures);

        if (e->key != key)
            continue;
        list_remove(node);
        mem_free(e);
    }
}

/* ---- polling ---- */

static int loop_poll(struct transport *t, int budget)
{
    struct loop *loop = loop_of(t);
    int done = complete_reads(loop);
    int delivered = 0;

    deliver_ready(loop, budget, &delivered);
    return done + delivered;
}

static bool has_space(const struct loop_link *link)
{
    const struct loop_queue *q = link->out;

    return q == NULL || q->receiver == NULL || q->count < q->depth;
}

static void loop_wake(struct transport *t)
{
    (void)t; /* wait() never sleeps */
}

static int loop_wait(struct transport *t, int64_t timeout_ns)
{
    struct loop *loop = loop_of(t);
    struct list *node;

    (void)timeout_ns;
    if (!list_is_empty(&loop->ready) || !list_is_empty(&loop->reads))
        return 0;
    list_for_each (node, &loop->blocked)
        if (has_space(container_of(node, struct loop_link, in_blocked)))
            return 0;
    return -ETIMEDOUT;
}

static bool loop_is_flushed(struct transport *t)
{
    (void)t;
    return true; /* a queue outlives its sender */
}

/* ---- open and close ---- */

static const struct param params[] = {
    {"LOOP_DEPTH", PARAM_COUNT, PARAM_TEST, "packets", "4", 1, LOOP_DEPTH_MAX, NULL,
     "packets that one direction of a loop link holds", TESTING_AT(loop_depth)},
};

static int check_depth(uint64_t depth)
{
    if (depth <= LOOP_DEPTH_MAX)
        return 0;
    LOG_ERROR("loop: a link of %" PRIu64 " packets is too long, at most %u", depth,
              LOOP_DEPTH_MAX);
    return -EINVAL;
}

static int loop_open(const struct transport_config *config, struct transport **out)
{
    uint64_t depth = testing_settings_of(&config->settings)->loop_depth;
    struct loop *loop;
    int err = check_depth(depth);

    if (err != 0)
        return err;
    loop = mem_calloc(1, sizeof *loop);
    if (loop == NULL)
        return -ENOMEM;
    loop->base.ops = &transport_loop;
    loop->base.limits = (struct transport_limits){.packet_max = LOOP_PACKET_MAX,
                                                  .inline_max = LOOP_INLINE_MAX,
                                                  .can_read = true,
                                                  .is_copy = true,
                                                  .cswap_words = LOOP_WORDS,
                                                  .table_words = LOOP_TABLE,
                                                  .is_instant = true};
    loop->events = config->events;
    loop->arg = config->arg;
    loop->credit = config->credit;
    loop->depth = depth != 0 ? (uint32_t)depth : LOOP_DEPTH_DEFAULT;
    list_init(&loop->inbox);
    list_init(&loop->ready);
    list_init(&loop->blocked);
    list_init(&loop->reads);
    list_init(&loop->exposures);
    err = registry_add(loop);
    if (err != 0) {
        mem_free(loop);
        return err;
    }
    *out = &loop->base;
    return 0;
}

/* Releases the queue of sent packets: the receiver keeps the rest. */
static void link_destroy(struct loop_link *link)
{
    struct loop_queue *q = link->out;

    if (q != NULL) {
        q->sender = NULL;
        if (q->receiver == NULL || q->count == 0)
            queue_destroy(q);
    }
    list_remove(&link->in_blocked);
    mem_free(link);
}

static void close_inbox(struct loop *loop)
{
    struct list *node;

    while ((node = list_pop_head(&loop->inbox)) != NULL) {
        struct loop_queue *q = container_of(node, struct loop_queue, in_inbox);

        list_remove(&q->in_ready);
        q->receiver = NULL;
        if (q->sender == NULL)
            queue_destroy(q);
    }
}

static void loop_close(struct transport *t)
{
    struct loop *loop = loop_of(t);
    struct link_member *member;
    struct list *node;
    size_t position = 0;

    registry_remove(loop);
    close_inbox(loop);
    while ((member = link_table_next(&loop->links, &position)) != NULL)
        link_destroy(container_of(member, struct loop_link, member));
    link_table_fini(&loop->links);
    while ((node = list_pop_head(&loop->reads)) != NULL)
        mem_free(container_of(node, struct pending_read, in_reads));
    while ((node = list_pop_head(&loop->exposures)) != NULL)
        mem_free(container_of(node, struct exposure, in_exposures));
    mem_free(loop);
}

/* ---- the tables ---- */

static const struct transport_memory memory = {
    .expose = loop_expose,
    .unexpose = loop_unexpose,
    .read = loop_read,
    .write = loop_write,
};

static const struct transport_atomics atomics = {
    .cswap = loop_cswap,
    .cswap_local = loop_cswap_local,
    .load = loop_load,
    .store = loop_store,
};

const struct transport_ops transport_loop = {
    .name = "loop",
    .about = "endpoints of one process, for tests and simulation",
    .params = params,
    .param_count = ARRAY_COUNT(params),
    .memory = &memory,
    .atomics = &atomics,
    .open = loop_open,
    .close = loop_close,
    .address = loop_address,
    .reaches = loop_reaches,
    .connect = loop_connect,
    .send = loop_send,
    .check = loop_check,
    .check_address = loop_check_address,
    .poll = loop_poll,
    .wait = loop_wait,
    .wake = loop_wake,
    .is_flushed = loop_is_flushed,
};
