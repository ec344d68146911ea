/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - the memory that peers may access, by key.
 *
 *   heads[hash(key)] -> region -> region      a power of two of lists, at least as many as
 *                                             there are regions
 *
 * A region is looked up for each part of an access, so deregistering needs no list of those
 * under way: they find no key.  Before that, what has arrived is performed, as far as it does not
 * need its peer; and what the transport moves at that moment is waited for.
 */
#include "base/fill.h"
#include "base/sys.h"
#include "rma/rma.h"

#define FIRST_HEADS 16u

static struct region **region_head(const struct mbx_ep *ep, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);

    return &ep_regions(ep)->heads[(hash >> 32) & (ep_regions(ep)->head_count - 1)];
}

struct region *region_find(const struct mbx_ep *ep, uint64_t key)
{
    struct region *region = ep_regions(ep)->heads != NULL ? *region_head(ep, key) : NULL;

    while (region != NULL && region->key != key)
        region = region->next;
    return region;
}

struct region *region_check(struct mbx_ep *ep, uint64_t key, uint64_t at, uint64_t size,
                            unsigned rights, uint16_t *error)
{
    struct region *region = region_find(ep, key);

    if (region == NULL || region->is_closing || (region->memory.rights & rights) != rights) {
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

static int regions_grow(struct mbx_ep *ep)
{
    struct region_table old = *ep_regions(ep);
    uint32_t count = old.head_count == 0 ? FIRST_HEADS : old.head_count * 2;
    struct region **heads = mem_calloc(count, sizeof(struct region *));

    if (heads == NULL)
        return -ENOMEM;
    ep_regions(ep)->heads = heads;
    ep_regions(ep)->head_count = count;
    for (uint32_t i = 0; i < old.head_count; i++) {
        for (struct region *region = old.heads[i], *next; region != NULL; region = next) {
            struct region **head = region_head(ep, region->key);

            next = region->next;
            region->next = *head;
            *head = region;
        }
    }
    mem_free(old.heads);
    return 0;
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
    if (ep_regions(ep)->count == ep_regions(ep)->head_count && (err = regions_grow(ep)) < 0)
        return err;
    region = mem_calloc(1, sizeof *region);
    if (region == NULL)
        return -ENOMEM;
    region->key = key;
    region->memory = *memory;
    region->next = *region_head(ep, key);
    *region_head(ep, key) = region;
    ep_regions(ep)->count++;
    return 0;
}

static void region_remove(struct mbx_ep *ep, struct region *region)
{
    struct region **at = region_head(ep, region->key);

    while (*at != region)
        at = &(*at)->next;
    *at = region->next;
    ep_regions(ep)->count--;
    mem_free(region);
}

/* While the transport moves bytes: who moves them may be without a core. */
static void region_wait(struct mbx_ep *ep)
{
    if (progress_round(ep) == 0)
        sys_yield();
}

/* What has arrived is performed first, as far as that needs no peer. */
static int region_end(struct mbx_ep *ep, uint64_t key, struct mbx_served *served)
{
    struct region *region = region_find(ep, key);

    if (region == NULL || region->is_closing)
        return -ENOENT;
    progress_arrived(ep);
    target_note(ep);
    while (target_goes_on(ep, key))
        region_wait(ep);
    region->is_closing = true;
    while (region->busy != 0)
        region_wait(ep);
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
    err = region_end(ep, key, served);
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
    for (uint32_t i = 0; i < ep_regions(ep)->head_count; i++)
        while (ep_regions(ep)->heads[i] != NULL)
            region_remove(ep, ep_regions(ep)->heads[i]);
    mem_free(ep_regions(ep)->heads);
}
