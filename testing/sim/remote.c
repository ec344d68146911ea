/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.c - accesses of an endpoint to the memory of another one: reads, writes, words.
 *
 * A read or write is done at once, or later, or fails; one that ends later moves its
 * bytes when it ends.  Only exposed memory can be accessed, and only while its owner exists.
 * Words are swapped at once or, if the caller can wait, later, whatever is in the
 * queues: atomics of a network are not ordered with its messages.  A swap that is
 * lost may have been done.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "transport/atomics.h"
#include "transport/memory.h"

struct exposure {
    struct list in_exposures;
    uint64_t address, key;
    size_t size;
};

struct sim_move {
    struct list in_moves; /* or moved */
    struct sim_link *link;
    void *here, *cookie;
    uint64_t address, key;
    size_t size;
    bool is_write, is_lost;
    /* for a cswap() of word `address`: */
    bool is_cswap;
    uint64_t expected, desired, name;
};

/* ---- exposed memory ---- */

static int sim_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                      uint64_t *key)
{
    struct sim *sim = sim_of(l->transport);
    struct exposure *e = mem_alloc(sizeof *e);

    if (e == NULL)
        return -ENOMEM;
    list_init_node(&e->in_exposures);
    e->address = (uintptr_t)buf;
    e->key = ++sim->next_key;
    e->size = size;
    list_add_tail(&sim->exposures, &e->in_exposures);
    *address = e->address;
    *key = e->key;
    return 0;
}

static void sim_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    struct list *node, *next;

    (void)address;
    list_for_each_safe (node, next, &sim_of(l->transport)->exposures) {
        struct exposure *e = container_of(node, struct exposure, in_exposures);

        if (e->key != key)
            continue;
        list_remove(node);
        mem_free(e);
    }
}

static bool is_exposed(const struct sim *sim, uint64_t address, uint64_t key, size_t size)
{
    struct list *node;

    list_for_each (node, &sim->exposures) {
        const struct exposure *e = container_of(node, struct exposure, in_exposures);

        if (e->key == key && address >= e->address && address - e->address <= e->size &&
            size <= e->size - (address - e->address))
            return true;
    }
    return false;
}

/* ---- reads and writes ---- */

static int move_bytes(const struct sim_move *m)
{
    void *there = (void *)(uintptr_t)m->address;
    struct sim *remote;
    int err = sim_network_find(m->link->remote, &remote);

    if (err != 0)
        return -ENOTCONN;
    if (!is_exposed(remote, m->address, m->key, m->size))
        return -EFAULT;
    if (m->size != 0)
        memmove(m->is_write ? there : m->here, m->is_write ? m->here : there, m->size);
    return m->is_lost ? -EIO : 0; /* the bytes may be there nevertheless */
}

static int move_later(struct sim *sim, const struct sim_move *move)
{
    struct sim_move *m = mem_alloc(sizeof *m);

    if (m == NULL)
        return -EAGAIN;
    *m = *move;
    list_init_node(&m->in_moves);
    if (sim_network_add_event(EVENT_MOVED, sim_network_later(), sim->index, m) != 0) {
        mem_free(m);
        return -EAGAIN;
    }
    list_add_tail(&sim->moves, &m->in_moves);
    return -EINPROGRESS;
}

static int move_start(struct sim_move *move)
{
    struct sim *sim = sim_of(move->link->member.link.transport);

    if (!sim_network.config.can_read)
        return -ENOTSUP;
    if (sim->is_dead)
        return -ENOTCONN;
    move->is_lost = sim_network_chance(sim_network.config.percent_lost);
    return sim_network_chance(sim_network.config.percent_late) ? move_later(sim, move)
                                                               : move_bytes(move);
}

static int sim_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                    void *cookie)
{
    struct sim_move move = {.link = sim_link_of(l),
                            .here = dst,
                            .cookie = cookie,
                            .address = address,
                            .key = key,
                            .size = size};

    return move_start(&move);
}

static int sim_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                     size_t size, void *cookie)
{
    struct sim_move move = {.link = sim_link_of(l),
                            .here = (void *)(uintptr_t)src,
                            .cookie = cookie,
                            .address = address,
                            .key = key,
                            .size = size,
                            .is_write = true};

    return move_start(&move);
}

void remote_due(struct sim *sim, void *what)
{
    struct sim_move *m = what;

    list_remove(&m->in_moves);
    list_add_tail(&sim->moved, &m->in_moves);
}

/* The endpoint with the words at the other end of this link.  0; -ENOTCONN. */
static int remote_of(struct link *l, struct sim **out)
{
    int err = sim_network_find(sim_link_of(l)->remote, out);

    return err != 0 || sim_of(l->transport)->is_dead ? -ENOTCONN : 0;
}

/* ---- words ---- */

/* The table follows the words of cswap(), and can be swapped too.  NULL: there is no such word,
 * or no memory. */
static uint64_t *word_at(struct sim *sim, uint64_t index)
{
    const struct transport_limits *limits = &sim->base.limits;

    if (index < limits->cswap_words)
        return &sim->words[index];
    if (index - limits->cswap_words >= limits->table_words)
        return NULL;
    if (sim->table == NULL)
        sim->table = mem_calloc(limits->table_words, sizeof *sim->table);
    return sim->table != NULL ? &sim->table[index - limits->cswap_words] : NULL;
}

static int sim_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                           uint64_t desired, uint64_t *found)
{
    uint64_t *word = word_at(sim_of(t), index);

    if (word == NULL)
        return -EINVAL;
    *found = *word;
    if (*word == expected)
        *word = desired;
    return 0;
}

/* Performs a delayed swap, and reports it. */
static void end_cswap(struct sim *sim, const struct sim_move *m)
{
    struct sim *remote;
    uint64_t found = 0;
    int err = remote_of(&m->link->member.link, &remote);

    if (err == 0)
        err = sim_cswap_local(&remote->base, m->address, m->expected, m->desired, &found);
    if (m->is_lost && err == 0)
        err = -EIO;
    sim->events->cswap_done(sim->arg, m->name, err, err == 0 && found == m->expected);
}

int remote_end_moves(struct sim *sim)
{
    struct list now;
    struct list *node;
    int ended = 0;

    list_init(&now);
    list_splice_tail(&now, &sim->moved);
    while ((node = list_pop_head(&now)) != NULL) {
        struct sim_move m = *container_of(node, struct sim_move, in_moves);

        mem_free(container_of(node, struct sim_move, in_moves));
        if (m.is_cswap)
            end_cswap(sim, &m);
        else
            sim->events->read_done(sim->arg, m.cookie, move_bytes(&m));
        ended++;
    }
    return ended;
}

static void free_moves(struct list *moves)
{
    struct list *node;

    while ((node = list_pop_head(moves)) != NULL)
        mem_free(container_of(node, struct sim_move, in_moves));
}

void remote_leave(struct sim *sim)
{
    struct list *node;

    free_moves(&sim->moves);
    free_moves(&sim->moved);
    while ((node = list_pop_head(&sim->exposures)) != NULL)
        mem_free(container_of(node, struct exposure, in_exposures));
    mem_free(sim->table);
}

static int sim_cswap(struct link *l, uint64_t index, uint64_t expected, uint64_t desired,
                     uint64_t *found, uint64_t cookie)
{
    struct sim *remote;
    int err = remote_of(l, &remote);

    if (err == 0 && cookie != 0 && sim_network_chance(sim_network.config.percent_late))
        return move_later(
            sim_of(l->transport),
            &(struct sim_move){.link = sim_link_of(l),
                               .address = index,
                               .is_lost = sim_network_chance(sim_network.config.percent_lost),
                               .is_cswap = true,
                               .expected = expected,
                               .desired = desired,
                               .name = cookie});
    return err != 0 ? err : sim_cswap_local(&remote->base, index, expected, desired, found);
}

static int sim_load(struct link *l, uint64_t index, uint64_t *words, size_t count)
{
    struct sim *remote;
    int err = remote_of(l, &remote);

    for (size_t i = 0; i < count && err == 0; i++) {
        const uint64_t *word = word_at(remote, index + i);

        if (word == NULL)
            err = -EINVAL;
        else
            words[i] = *word;
    }
    return err;
}

static int sim_store(struct transport *t, uint64_t index, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *word = word_at(sim_of(t), index + i);

        if (word == NULL)
            return -EINVAL;
        *word = words[i];
    }
    return 0;
}

const struct transport_memory sim_memory = {
    .expose = sim_expose,
    .unexpose = sim_unexpose,
    .read = sim_read,
    .write = sim_write,
};

const struct transport_atomics sim_atomics = {
    .cswap = sim_cswap,
    .cswap_local = sim_cswap_local,
    .load = sim_load,
    .store = sim_store,
};
