/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - the memory that peers may access, by key.
 *
 * A region is looked up for each part of an access, so deregistering needs no list of
 * unfinished accesses: they no longer find the key.  Before that, accesses that have arrived
 * are performed, except parts that need another packet of the peer; and transfers in progress
 * are waited for.
 */
#include "base/fill.h"
#include "base/sys.h"
#include "rma/rma.h"

static uint64_t region_hash(const void *arg, const void *slot)
{
    (void)arg;
    return hash_mix(((const struct region *)hash_pointer(slot))->key);
}

static bool region_is(const void *arg, const void *slot, const void *key)
{
    (void)arg;
    return ((const struct region *)hash_pointer(slot))->key == *(const uint64_t *)key;
}

static const struct hash_kind by_key = {sizeof(void *), region_hash, region_is};

static void *region_slot(const struct mbx_ep *ep, uint64_t key)
{
    return hash_find(ep_regions(ep), &by_key, NULL, hash_mix(key), &key);
}

struct region *region_find(const struct mbx_ep *ep, uint64_t key)
{
    return hash_pointer(region_slot(ep, key));
}

struct region *region_next(const struct mbx_ep *ep, size_t *position)
{
    return hash_pointer(hash_next(ep_regions(ep), &by_key, position));
}

struct region *region_check(struct mbx_ep *ep, uint64_t key, uint64_t at, uint64_t size,
                            unsigned rights, uint16_t *error)
{
    struct region *region = region_find(ep, key);

    if (region == NULL || region->state == REGION_CLOSING ||
        (region->memory.rights & rights) != rights) {
        *error = EACCES;
        return NULL;
    }
    if (at < region->memory.address || at - region->memory.address > region->memory.size ||
        size > region->memory.size - (at - region->memory.address)) {
        *error = ERANGE;
        return NULL;
    }
    return region;
}

static int region_add(struct mbx_ep *ep, uint64_t key, const struct mbx_region *memory)
{
    struct region *region;
    int err;

    if (memory->rights & ~(unsigned)(MBX_REMOTE_READ | MBX_REMOTE_WRITE))
        return log_argument("mbx_register", "region->rights", memory->rights, "unknown right");
    if (memory->flags != 0)
        return log_argument("mbx_register", "region->flags", memory->flags, "unknown flag");
    if (memory->address + memory->size < memory->address)
        return log_argument("mbx_register", "region->address", memory->address,
                            "wraps with this size");
    if (region_find(ep, key) != NULL)
        return -EEXIST;
    region = mem_calloc(1, sizeof *region);
    if (region == NULL)
        return -ENOMEM;
    region->key = key;
    region->memory = *memory;
    err = hash_add(ep_regions(ep), &by_key, NULL, &(void *){region});
    if (err != 0)
        mem_free(region);
    return err;
}

static void region_remove(struct mbx_ep *ep, struct region *region)
{
    hash_remove(ep_regions(ep), &by_key, NULL, region_slot(ep, region->key));
    mem_free(region);
}

/* Ends a region.  Accesses that have arrived are performed first, except parts that need
 * another packet of the peer.  -EAGAIN: the transport moves bytes of it, and its thread may need a core. */
static int region_end(struct mbx_ep *ep, uint64_t key, struct mbx_served *served)
{
    struct region *region = region_find(ep, key);

    if (region == NULL)
        return -ENOENT;
    if (region->state == REGION_OPEN) {
        progress_arrived(ep);
        target_note(ep);
        region->state = REGION_ENDING;
    }
    if (region->state == REGION_ENDING && target_goes_on(ep, key))
        return -EAGAIN;
    region->state = REGION_CLOSING;
    if (region->busy != 0)
        return -EAGAIN;
    *served = region->served;
    region_remove(ep, region);
    return 0;
}

int mbx_register(struct mbx_ep *ep, uint64_t key, const struct mbx_region *region)
{
    int err;

    ep_lock(ep);
    err = region_add(ep, key, region);
    ep_unlock(ep);
    return err;
}

static int region_end_locked(struct mbx_ep *ep, uint64_t key, struct mbx_served *served)
{
    int err;

    ep_lock(ep);
    while ((err = region_end(ep, key, served)) == -EAGAIN)
        if (progress_round(ep) == 0)
            sys_yield();
    ep_unlock(ep);
    return err;
}

int mbx_try_deregister(struct mbx_ep *ep, uint64_t key)
{
    struct mbx_served served;
    int err;

    ep_lock(ep);
    err = region_end(ep, key, &served);
    if (err == -EAGAIN)
        progress_round(ep);
    ep_unlock(ep);
    return err;
}

int mbx_deregister(struct mbx_ep *ep, uint64_t key)
{
    struct mbx_served served;

    return region_end_locked(ep, key, &served);
}

int mbx_deregister_served(struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                          size_t size)
{
    struct mbx_served all = {0};
    int err = FILL(served, size, all, both);

    if (err == 0)
        err = region_end_locked(ep, key, &all);
    return err == 0 ? FILL(served, size, all, both) : err;
}

int mbx_region_served(const struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                      size_t size)
{
    const struct region *region;
    int err = -ENOENT;

    ep_lock(ep);
    region = region_find(ep, key);
    if (region != NULL)
        err = FILL(served, size, region->served, both);
    ep_unlock_unchanged(ep);
    return err;
}

int mbx_served_get(const struct mbx_ep *ep, struct mbx_served *served, size_t size)
{
    struct mbx_served all;

    ep_lock(ep);
    all = (struct mbx_served){.reads = ep->stats.served_reads,
                              .writes = ep->stats.served_writes,
                              .both = ep->stats.served_both};
    ep_unlock_unchanged(ep);
    return FILL(served, size, all, both);
}

void region_fini(struct mbx_ep *ep)
{
    struct region *region;
    size_t position = 0;

    while ((region = region_next(ep, &position)) != NULL)
        mem_free(region);
    hash_fini(ep_regions(ep));
}
